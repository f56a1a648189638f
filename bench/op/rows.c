/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of a table written in place, fresh random ids for every sample: a multiple of the caller's rows added, and rows cut to a norm. */
#include <stdio.h>
#include <stdlib.h>

#include "op.h"

typedef struct rows_job {
  op *o;
  op_outcome *outcome;
  embed_table *t;
  int64_t n;
  int64_t *ids;
  float *src;  /* [n, OP_DIM] */
  double norm; /* that every row has more than when it is cut */
  uint64_t random;
} rows_job;

static void fresh_ids(void *job) {
  rows_job *j = job;
  for (int64_t i = 0; i < j->n; ++i) j->ids[i] = (int64_t)((bench_random(&j->random) >> 32) % OP_ROWS);
  j->norm *= 0.999; /* rows of the last sample are too long again */
}

static void add(void *job) {
  rows_job *j = job;
  op_note(j->o, j->outcome, embed_table_add_rows(j->o->context, j->t, j->ids, j->n, -1e-3, j->src, EMBED_F32, 0, NULL));
}

static void renorm(void *job) {
  rows_job *j = job;
  op_note(j->o, j->outcome, embed_table_renorm_rows(j->o->context, j->t, j->ids, j->n, j->norm, 0, NULL));
}

/* from: rows of floats that are read beside the table's. */
static void measure(op *o, const op_line *line, const char *name, void (*call)(void *), double from) {
  op_outcome outcome = {0};
  char what[64];
  op_result r = {.what = what, .unit = "GB/s", .limit_name = "that read and copy allow"};
  rows_job j = {.o = o, .outcome = &outcome, .n = line->n, .norm = 0.5, .random = 13, .src = op_vectors(line->n, OP_DIM, 0.01f, &outcome)};
  snprintf(what, sizeof what, "%-7s %-5s " OP_SHAPE " %5d ids", name, op_dtype_name(line->dtype), (int)line->n);
  j.ids = malloc((size_t)j.n * sizeof *j.ids);
  if (!j.ids) snprintf(outcome.text, sizeof outcome.text, "no memory");
  if (!op_wrong(&outcome)) j.t = op_new_table(o, OP_ROWS, OP_DIM, line->dtype, &outcome);
  if (!op_wrong(&outcome)) {
    bench_measure(o->bench, &(bench_work){.call = call, .prepare = fresh_ids, .job = &j}, 1, &r.ours);
    const double rows = (double)j.n * (double)embed_table_row_bytes(j.t), beside = (double)j.n * from * OP_DIM * sizeof(float);
    r.figure = r.ours.seconds > 0 ? (2 * rows + beside) / r.ours.seconds / 1e9 : 0;
    r.limit = op_moving_limit(o, r.ours.read, 2 * rows + beside, rows + beside, rows);
  }
  embed_table_release(j.t);
  free(j.ids);
  if (j.src) bench_memory_release(j.src, sizeof(float) * (size_t)(j.n * OP_DIM));
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
}

void op_rows_add(op *o, const op_line *line) { measure(o, line, "add", add, 1); }
void op_rows_renorm(op *o, const op_line *line) { measure(o, line, "renorm", renorm, 0); }
