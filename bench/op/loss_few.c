/* SPDX-License-Identifier: BSD-3-Clause */
/* Losses beside cross-entropy, forward and backward: distillation (a head taught by another over the same table), losses over a few classes, and
 * the gradient of bags. Where all rows share what they multiply the limit is the multiply-adds, else the reading of rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

enum { SHARED = 1024 /* candidates */, NEGATIVES = 5, BAG = 32 /* ids */ };

typedef struct few_job few_job;
struct few_job {
  op *o;
  op_outcome *outcome;
  int64_t n, samples;
  embed_head *head;
  const float *hidden;
  float *d_hidden, *vectors; /* hidden rows of which there are more than the fixture has */
  int32_t *targets, *candidates;
  int64_t *ids64, *offsets;
  float *target_expected, *expected;
  embed_huffman *tree;
  embed_grad *g;
  uint64_t random;
};

static int32_t any_row(few_job *j) { return (int32_t)((bench_random(&j->random) >> 32) % OP_ROWS); }

static int32_t likely_row(few_job *j) { return (int32_t)(exp((double)(bench_random(&j->random) >> 11) * 0x1p-53 * log(OP_ROWS + 1.0)) - 1) % OP_ROWS; }

static void fresh(void *job) {
  few_job *j = job;
  for (int64_t i = 0; i < j->n; ++i) j->targets[i] = likely_row(j);
  for (int64_t i = 0; i < j->samples; ++i) j->candidates[i] = any_row(j);
  for (int64_t i = 0; j->ids64 && i < j->n * BAG; ++i) j->ids64[i] = any_row(j);
  embed_grad_clear(j->g);
}

static void distill_as(few_job *j, const embed_distill_options *options) {
  op_note(j->o, j->outcome,
          embed_distill_train(j->o->context, j->head, j->hidden + OP_DIM, EMBED_F32, 0, j->head, j->hidden, EMBED_F32, j->n, 0, NULL, NULL, NULL, NULL,
                              j->d_hidden, EMBED_F32, 0, j->g, options));
}

static void distill(void *job) { distill_as(job, NULL); }

static void distill_rounded(void *job) {
  const embed_distill_options rounded = {.size = sizeof rounded, .flags = EMBED_DISTILL_BF16};
  distill_as(job, &rounded);
}

static void whole(void *job) {
  few_job *j = job;
  op_note(
      j->o, j->outcome,
      embed_cross_entropy_train(j->o->context, j->head, j->hidden, EMBED_F32, j->n, 0, j->targets, NULL, NULL, NULL, j->d_hidden, EMBED_F32, 0, j->g, NULL));
}

static void sampled(void *job) {
  few_job *j = job;
  op_note(j->o, j->outcome,
          embed_sampled_loss(j->o->context, j->head, j->hidden, EMBED_F32, j->n, 0, j->targets, j->candidates, SHARED, j->target_expected, j->expected, NULL,
                             NULL, NULL, j->d_hidden, EMBED_F32, 0, j->g, NULL));
}

static void negative(void *job) {
  few_job *j = job;
  const embed_sampled_options o = {.size = sizeof o, .flags = EMBED_SAMPLED_PER_ROW, .kind = EMBED_SAMPLED_NEGATIVE};
  op_note(j->o, j->outcome,
          embed_sampled_loss(j->o->context, j->head, j->vectors, EMBED_F32, j->n, 0, j->targets, j->candidates, NEGATIVES, NULL, NULL, NULL, NULL, NULL,
                             j->d_hidden, EMBED_F32, 0, j->g, &o));
}

static void huffman(void *job) {
  few_job *j = job;
  op_note(
      j->o, j->outcome,
      embed_huffman_loss(j->o->context, j->head, j->tree, j->vectors, EMBED_F32, j->n, 0, j->targets, NULL, NULL, NULL, j->d_hidden, EMBED_F32, 0, j->g, NULL));
}

static void bags(void *job) {
  few_job *j = job;
  op_note(j->o, j->outcome,
          embed_bag_backward(j->o->context, j->g, op_table(j->o, EMBED_F32, j->outcome), j->ids64, j->n * BAG, j->offsets, j->n, NULL, j->vectors, EMBED_F32, 0,
                             NULL, NULL));
}

/* Rows of the table that the pairs of the last sample name, each as often as it is named. */
static int64_t pairs_of(few_job *j, bool paths) {
  int64_t pairs = paths ? 0 : j->n + j->samples;
  for (int64_t i = 0; paths && i < j->n; ++i) {
    int64_t length = 0;
    op_note(j->o, j->outcome, embed_huffman_path(j->o->context, j->tree, j->targets[i], NULL, NULL, 0, &length));
    pairs += length;
  }
  return pairs;
}

static bool prepare(few_job *j, int64_t samples, bool many, bool dense) {
  op *o = j->o;
  const embed_table *table = op_table(o, EMBED_F32, j->outcome);
  j->samples = samples;
  j->random = 5;
  j->hidden = op_hidden(o, j->outcome);
  j->d_hidden = bench_memory(sizeof(float) * (size_t)(j->n * OP_DIM));
  j->targets = calloc((size_t)j->n, sizeof *j->targets);
  j->candidates = calloc((size_t)samples + 1, sizeof *j->candidates);
  j->target_expected = calloc((size_t)j->n, sizeof *j->target_expected);
  j->expected = calloc((size_t)samples + 1, sizeof *j->expected);
  if (many) j->vectors = op_vectors(j->n, OP_DIM, 0.1f, j->outcome);
  if (!j->d_hidden || !j->targets || !j->candidates || !j->target_expected || !j->expected) snprintf(j->outcome->text, sizeof j->outcome->text, "no memory");
  if (op_wrong(j->outcome)) return false;
  op_note(o, j->outcome, embed_head_create(o->context, table, NULL, NULL, &j->head));
  op_note(o, j->outcome, dense ? embed_grad_create_dense(o->context, OP_ROWS, OP_DIM, NULL, 0, &j->g) : embed_grad_create(o->context, OP_DIM, &j->g));
  return !op_wrong(j->outcome);
}

static void let_go(few_job *j) {
  embed_grad_release(j->g);
  embed_head_release(j->head);
  embed_huffman_release(j->tree);
  if (j->d_hidden) bench_memory_release(j->d_hidden, sizeof(float) * (size_t)(j->n * OP_DIM));
  if (j->vectors) bench_memory_release(j->vectors, sizeof(float) * (size_t)(j->n * OP_DIM));
  free(j->targets), free(j->candidates), free(j->target_expected), free(j->expected), free(j->ids64), free(j->offsets);
}

/* flops: of a hidden row. */
static void multiplied(op *o, const op_line *line, const char *name, int64_t samples, double flops, void (*ours)(void *), bool dense) {
  op_outcome outcome = {0};
  few_job j = {.o = o, .outcome = &outcome, .n = line->n};
  bench_figure figures[3] = {0};
  if (prepare(&j, samples, false, dense)) {
    bench_work works[3] = {op_multiply_add_work(o), {.call = ours, .prepare = fresh, .job = &j}, {.call = whole, .prepare = fresh, .job = &j}};
    bench_measure(o->bench, works, 3, figures);
  }
  let_go(&j);
  char what[96];
  snprintf(what, sizeof what, "%-9s%-5s " OP_SHAPE " batch %-4d", name, op_dtype_name(line->dtype), (int)line->n);
  op_result r = {.what = what, .unit = "GFLOP/s", .limit_name = "multiply-add in this run", .ours = figures[1], .peer = figures[2]};
  r.peer_name = "cross-entropy";
  r.bar_of_limit = true;
  r.figure = r.ours.seconds > 0 ? flops * (double)line->n / r.ours.seconds / 1e9 : 0;
  r.limit = op_multiply_add_rate(o, &figures[0]);
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
}

void op_distill(op *o, const op_line *line) { multiplied(o, line, "distill", 0, 8.0 * OP_ROWS * OP_DIM, distill, true); }
void op_distill_rounded(op *o, const op_line *line) { multiplied(o, line, "distill16", 0, 8.0 * OP_ROWS * OP_DIM, distill_rounded, true); }
void op_sampled(op *o, const op_line *line) { multiplied(o, line, "sampled", SHARED, 6.0 * (SHARED + 1) * OP_DIM, sampled, false); }

/* Bytes: of rows that are read, for the logits and for d_hidden, each as often as a pair names it; of bags the upstream rows once; of the rows with
 * gradient, which are written. */
static void read_rows(few_job *j, const op_line *line, const char *name, bool paths, void (*ours)(void *)) {
  bench_figure figure = {0};
  int64_t rows = 0;
  if (!op_wrong(j->outcome)) {
    bench_work work = {.call = ours, .prepare = fresh, .job = j};
    bench_measure(j->o->bench, &work, 1, &figure);
    rows = embed_grad_rows(j->g) + (j->ids64 ? j->n : 2 * pairs_of(j, paths));
  }
  char what[96];
  snprintf(what, sizeof what, "%-9s%-5s " OP_SHAPE " batch %-4d", name, op_dtype_name(line->dtype), (int)line->n);
  op_result r = {.what = what, .unit = "GB/s", .limit_name = "read in this run", .ours = figure, .limit = figure.read};
  r.figure = figure.seconds > 0 ? (double)rows * OP_DIM * 4 / figure.seconds / 1e9 : 0;
  r.wrong = op_wrong(j->outcome);
  op_report(j->o, line, &r);
}

void op_negative(op *o, const op_line *line) {
  op_outcome outcome = {0};
  few_job j = {.o = o, .outcome = &outcome, .n = line->n};
  prepare(&j, line->n * NEGATIVES, true, false);
  read_rows(&j, line, "negative", false, negative);
  let_go(&j);
}

void op_huffman(op *o, const op_line *line) {
  op_outcome outcome = {0};
  few_job j = {.o = o, .outcome = &outcome, .n = line->n};
  int64_t *counts = malloc(sizeof *counts * OP_ROWS);
  if (prepare(&j, 0, true, false) && counts) {
    for (int64_t v = 0; v < OP_ROWS; ++v) counts[v] = 100000000 / (v + 1);
    op_note(o, &outcome, embed_huffman_create(o->context, counts, OP_ROWS, &j.tree));
  }
  read_rows(&j, line, "huffman", true, huffman);
  free(counts);
  let_go(&j);
}

void op_bag_backward(op *o, const op_line *line) {
  op_outcome outcome = {0};
  few_job j = {.o = o, .outcome = &outcome, .n = line->n};
  j.ids64 = malloc(sizeof *j.ids64 * (size_t)(line->n * BAG));
  j.offsets = malloc(sizeof *j.offsets * (size_t)(line->n + 1));
  if (!j.ids64 || !j.offsets) snprintf(outcome.text, sizeof outcome.text, "no memory");
  for (int64_t b = 0; j.offsets && b <= line->n; ++b) j.offsets[b] = b * BAG;
  prepare(&j, 0, true, false);
  read_rows(&j, line, "bags", false, bags);
  let_go(&j);
}
