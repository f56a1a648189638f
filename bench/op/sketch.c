/* SPDX-License-Identifier: BSD-3-Clause */
/* Certified top-40 of a bf16 table beside reading all of it: real tables (Q8_0 in their files, widened to bf16) on the states recorded
 * with them where LIBEMBED_DATA has them, else a synthetic one; and hidden rows that no bound can tell apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

enum { K = 40, STATES = 32, MOST_HIDDEN = 16, HARD_ROWS = 16384, HARD_DIM = 768, CALLS = 64 };

typedef struct sketch_job {
  op *o;
  op_outcome *outcome;
  embed_table *table;
  embed_head *sketched, *plain;
  float *hidden; /* [states, dim] */
  int64_t states, dim, n, calls;
  int64_t at[2]; /* the next state of either head */
  int32_t ids[2][MOST_HIDDEN * K];
  float logits[2][MOST_HIDDEN * K];
} sketch_job;

static void search(sketch_job *j, const embed_head *h, int which) {
  for (int64_t c = 0; c < j->calls; ++c) {
    const float *x = j->hidden + j->at[which] * j->dim;
    op_note(j->o, j->outcome, embed_topk(j->o->context, h, x, EMBED_F32, j->n, 0, K, j->ids[which], j->logits[which], NULL, NULL, NULL));
    j->at[which] = (j->at[which] + j->n) % (j->states - j->states % j->n);
  }
}
static void certified(void *job) { search(job, ((sketch_job *)job)->sketched, 0); }
static void whole(void *job) { search(job, ((sketch_job *)job)->plain, 1); }

static void same_answers(sketch_job *j) {
  for (int64_t i = 0; i < j->states / j->n; ++i) {
    j->at[0] = j->at[1] = i * j->n;
    certified(j);
    whole(j);
    const size_t bytes = (size_t)(j->n * K) * 4;
    if (memcmp(j->ids[0], j->ids[1], bytes) || memcmp(j->logits[0], j->logits[1], bytes)) {
      snprintf(j->outcome->text, sizeof j->outcome->text, "the certified answer for state %d is another than the plain one's", (int)(i * j->n));
      return;
    }
  }
}

/* The token table of a file as bf16, or its rows as floats; NULL = not there. */
static embed_table *open_table(op *o, const char *path, embed_dtype dtype) {
  const embed_table_options options = {.size = sizeof options, .dtype = dtype, .flags = EMBED_TABLE_HUGE_PAGES};
  embed_file *f = NULL;
  embed_table *stored = NULL, *t = NULL;
  if (embed_file_open(o->context, path, NULL, &f) == EMBED_OK && embed_file_table(o->context, f, -1, &stored) == EMBED_OK &&
      embed_table_convert(o->context, stored, &options, &t) != EMBED_OK)
    t = NULL;
  embed_table_release(stored);
  embed_file_release(f);
  return t;
}

static bool open_real(sketch_job *j, const char *model, const char *states) {
  char path[4096];
  const char *folder = getenv("LIBEMBED_DATA");
  if (!folder) return false;
  snprintf(path, sizeof path, "%s/%s", folder, model);
  j->table = open_table(j->o, path, EMBED_BF16);
  snprintf(path, sizeof path, "%s/%s", BENCH_SHARED_DATA, states);
  embed_table *rows = open_table(j->o, path, EMBED_F32);
  const bool fits = j->table && rows && embed_table_dim(rows) == embed_table_dim(j->table) && embed_table_rows(rows) == STATES;
  if (fits) {
    j->dim = embed_table_dim(rows);
    j->hidden = op_vectors(STATES, j->dim, 1, j->outcome);
    if (j->hidden) memcpy(j->hidden, embed_table_data(rows), (size_t)(STATES * j->dim) * sizeof *j->hidden);
  } else {
    embed_table_release(j->table);
    j->table = NULL;
  }
  embed_table_release(rows);
  return fits;
}

static bool make_heads(sketch_job *j) {
  const embed_head_options options = {.size = sizeof options, .flags = EMBED_HEAD_SKETCH};
  if (op_wrong(j->outcome)) return false;
  op_note(j->o, j->outcome, embed_head_create(j->o->context, j->table, NULL, NULL, &j->plain));
  op_note(j->o, j->outcome, embed_head_create(j->o->context, j->table, NULL, &options, &j->sketched));
  return !op_wrong(j->outcome);
}

static void release(sketch_job *j) {
  embed_head_release(j->plain);
  embed_head_release(j->sketched);
  embed_table_release(j->table);
  bench_memory_release(j->hidden, sizeof *j->hidden * (size_t)(j->states * j->dim));
}

/* What the searches read, a call. */
static void tell(sketch_job *j, op_result *r) {
  embed_head_info info = {.size = sizeof info};
  op_note(j->o, j->outcome, embed_head_describe(j->o->context, j->sketched, &info));
  const double searches = info.sketch_searches > 0 ? (double)info.sketch_searches : 1;
  snprintf(r->beside, sizeof r->beside, "a search verified %.0f rows, read %.2f of the table", (double)info.sketch_rows_verified / searches,
           (double)info.sketch_bytes_read / searches / (double)info.table_bytes);
}

static void run_model(op *o, const op_line *line, const char *name, const char *model, const char *states, int64_t rows, int64_t dim) {
  static sketch_job j;
  op_outcome outcome = {0};
  char what[96];
  bench_figure figures[2] = {0};
  j = (sketch_job){.o = o, .outcome = &outcome, .n = line->n, .calls = 1, .states = STATES};
  const bool real = open_real(&j, model, states);
  if (!real) {
    j.dim = dim;
    j.table = op_new_table(o, rows, dim, EMBED_BF16, &outcome);
    j.hidden = op_vectors(STATES, dim, 1, &outcome);
  }
  op_result r = {.what = what, .unit = "GB/s", .limit_name = "read in this run", .peer_name = "plain", .bar_of_limit = true};
  if (j.table && j.hidden && make_heads(&j)) {
    const bench_work works[2] = {{.call = certified, .job = &j}, {.call = whole, .job = &j}};
    same_answers(&j);
    j.at[0] = j.at[1] = 0;
    bench_measure(o->bench, works, 2, figures);
    tell(&j, &r);
    rows = embed_table_rows(j.table);
  }
  snprintf(what, sizeof what, "sketch  %s %dx%d  top-%d  batch %d", real ? name : "synthetic", (int)rows, (int)j.dim, K, (int)line->n);
  r.ours = figures[0];
  r.peer = figures[1];
  r.limit = r.ours.read;
  r.figure = r.ours.seconds > 0 ? (double)(2 * rows * j.dim) / r.ours.seconds / 1e9 : 0;
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
  release(&j);
}

void op_sketch_smollm2(op *o, const op_line *line) {
  run_model(o, line, "smollm2", "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-hidden-32.npy", 49152, 576);
}
void op_sketch_gemma3(op *o, const op_line *line) {
  run_model(o, line, "gemma3", "gemma3-270m/gemma-3-270m-q4_k_m.gguf", "gemma3-270m-hidden-32.npy", 262144, 640);
}

/* Rows have nothing in the second half of their columns; a hard hidden row has nothing else: all of its logits are equal, and no bound
 * leaves out a row. `hard` of every 16 hidden rows are so, at random places. */
static bool make_hard(sketch_job *j, int hard) {
  uint64_t state = 3;
  embed_table *t = op_new_table(j->o, HARD_ROWS, HARD_DIM, EMBED_BF16, j->outcome);
  float *row = op_vectors(1, HARD_DIM, 0, j->outcome);
  j->dim = HARD_DIM;
  j->table = t;
  j->hidden = op_vectors(j->states, HARD_DIM, 1, j->outcome);
  if (!t || !j->hidden || !row) return false;
  for (int64_t v = 0; v < HARD_ROWS; ++v) {
    op_note(j->o, j->outcome, embed_table_get_rows(j->o->context, t, &v, 1, row, EMBED_F32, 0));
    memset(row + HARD_DIM / 2, 0, HARD_DIM / 2 * sizeof *row);
    op_note(j->o, j->outcome, embed_table_set_rows(j->o->context, t, &v, 1, row, EMBED_F32, 0, NULL));
  }
  bench_memory_release(row, sizeof *row * HARD_DIM);
  for (int64_t i = 0; i < j->states; ++i)
    if ((int)(bench_random(&state) >> 60) < hard) memset(j->hidden + i * HARD_DIM, 0, HARD_DIM / 2 * sizeof *j->hidden);
  return make_heads(j);
}

static void forget(void *job) {
  sketch_job *j = job;
  op_note(j->o, j->outcome, embed_head_refresh(j->o->context, j->sketched));
}

/* fresh: every sample begins with a head that has learnt nothing. */
static void run_hard(op *o, const op_line *line, int hard, int64_t calls, bool fresh, const char *name) {
  static sketch_job j;
  op_outcome outcome = {0};
  char what[96];
  bench_figure figures[2] = {0};
  j = (sketch_job){.o = o, .outcome = &outcome, .n = 1, .calls = calls, .states = 16 * CALLS};
  op_result r = {.what = what, .unit = "calls/s", .peer_name = "plain"};
  if (make_hard(&j, hard)) {
    const bench_work works[2] = {{.call = certified, .job = &j, .prepare = fresh ? forget : NULL}, {.call = whole, .job = &j}};
    bench_measure(o->bench, works, 2, figures);
    tell(&j, &r);
  }
  snprintf(what, sizeof what, "sketch  %s  bf16 %dx%d", name, HARD_ROWS, HARD_DIM);
  r.ours = figures[0];
  r.peer = figures[1];
  r.figure = r.ours.seconds > 0 ? (double)calls / r.ours.seconds : 0;
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
  release(&j);
}

void op_sketch_hard(op *o, const op_line *line) { run_hard(o, line, (int)line->n, CALLS, false, line->n == 16 ? "all ties" : "half ties"); }
void op_sketch_worst(op *o, const op_line *line) { run_hard(o, line, 16, 1, true, "worst call"); }
