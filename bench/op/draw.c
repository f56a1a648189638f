/* SPDX-License-Identifier: BSD-3-Clause */
/* Candidates of sampled losses: lists of some thousand different classes, on the calling thread. The peer is a plain loop with as many draws: a
 * shift register for a random number, then the same distribution as one writes it down: a remainder, exp, a binary search. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "op.h"

enum { LISTS = 64 /* of a sample */ };

typedef struct draw_job {
  op *o;
  op_outcome *outcome;
  int64_t n;
  embed_candidates_kind kind;
  embed_candidates *candidates;
  int32_t *ids;       /* [n] */
  double *cumulative; /* [OP_ROWS + 1] */
  int64_t position, tries;
  uint64_t random;
  int64_t sum; /* of the peer's classes */
} draw_job;

static void ours(void *job) {
  draw_job *j = job;
  j->tries = 0;
  for (int list = 0; list < LISTS; ++list) {
    int64_t tries = 0;
    op_note(j->o, j->outcome, embed_candidates_draw(j->o->context, j->candidates, j->position++, j->n, j->ids, &tries));
    j->tries += tries;
  }
}

static int64_t searched(const double *cumulative, double target) {
  int64_t low = 0, high = OP_ROWS;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (cumulative[middle] <= target)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static void plain(void *job) {
  draw_job *j = job;
  const double wide = log(OP_ROWS + 1.0);
  for (int64_t i = 0; i < j->tries; ++i) {
    const double u = (double)(bench_random(&j->random) >> 11) * 0x1p-53;
    if (j->kind == EMBED_CANDIDATES_UNIFORM)
      j->sum += (int64_t)(bench_random(&j->random) % OP_ROWS);
    else if (j->kind == EMBED_CANDIDATES_LOG_UNIFORM)
      j->sum += (int64_t)(exp(u * wide) - 1);
    else
      j->sum += searched(j->cumulative, u * j->cumulative[OP_ROWS]);
  }
}

static void make(draw_job *j) {
  const embed_candidates_options o = {.size = sizeof o, .kind = j->kind, .power = j->kind == EMBED_CANDIDATES_COUNTS ? 0.75 : 0, .seed = 3};
  int64_t *counts = malloc(sizeof *counts * OP_ROWS);
  j->ids = malloc(sizeof *j->ids * (size_t)j->n);
  j->cumulative = malloc(sizeof *j->cumulative * (OP_ROWS + 1));
  if (counts && j->ids && j->cumulative) {
    j->cumulative[0] = 0;
    for (int64_t v = 0; v < OP_ROWS; ++v) {
      counts[v] = 100000000 / (v + 1);
      j->cumulative[v + 1] = j->cumulative[v] + pow((double)counts[v], 0.75);
    }
    op_note(j->o, j->outcome, embed_candidates_create(j->o->context, OP_ROWS, j->kind == EMBED_CANDIDATES_COUNTS ? counts : NULL, &o, &j->candidates));
  } else {
    snprintf(j->outcome->text, sizeof j->outcome->text, "no memory");
  }
  free(counts);
}

static void run(op *o, const op_line *line, const char *name, embed_candidates_kind kind) {
  op_outcome outcome = {0};
  draw_job j = {.o = o, .outcome = &outcome, .n = line->n, .kind = kind, .random = 7};
  bench_figure figures[2] = {0};
  char what[96];
  make(&j);
  if (!op_wrong(&outcome)) ours(&j); /* so that there are tries */
  if (!op_wrong(&outcome)) {
    const bench_work works[2] = {{.call = ours, .job = &j}, {.call = plain, .job = &j}};
    bench_measure(o->bench, works, 2, figures);
  }
  snprintf(what, sizeof what, "draw    %-12s %d of %d", name, (int)line->n, OP_ROWS);
  op_result r = {.what = what, .unit = "M/s", .peer_name = "plain loop", .ours = figures[0], .peer = figures[1], .wrong = op_wrong(&outcome)};
  if (r.ours.seconds > 0) {
    r.figure = (double)j.tries / r.ours.seconds / 1e6;
    snprintf(r.beside, sizeof r.beside, "%.1f ns a draw, %.2f draws a candidate", 1e3 / r.figure, (double)j.tries / (double)(LISTS * j.n));
  }
  op_report(o, line, &r);
  embed_candidates_release(j.candidates);
  free(j.ids), free(j.cumulative);
}

void op_draw_uniform(op *o, const op_line *line) { run(o, line, "uniform", EMBED_CANDIDATES_UNIFORM); }
void op_draw_log_uniform(op *o, const op_line *line) { run(o, line, "log-uniform", EMBED_CANDIDATES_LOG_UNIFORM); }
void op_draw_counts(op *o, const op_line *line) { run(o, line, "by counts", EMBED_CANDIDATES_COUNTS); }
