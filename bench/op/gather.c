/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows by id, fresh random ids for every sample (the same ids again would find their rows in a cache): lookups and
 * bags of 32. The peer of the f32 lookup is a memcpy loop on as many threads, over the same table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

enum { BAG = 32 };

typedef struct gather_job {
  op *o;
  op_outcome *outcome;
  const embed_table *table;
  const float *rows; /* of the f32 table */
  int64_t n, bags;
  int32_t *ids;     /* [n] */
  int64_t *offsets; /* [bags + 1] */
  float *out, *peer_out;
  uint64_t random;
} gather_job;

static void fresh_ids(void *job) {
  gather_job *j = job;
  for (int64_t i = 0; i < j->n; ++i) j->ids[i] = (int32_t)((bench_random(&j->random) >> 32) % OP_ROWS);
}

static void lookup(void *job) {
  gather_job *j = job;
  op_note(j->o, j->outcome, embed_lookup(j->o->context, j->table, j->ids, j->n, j->out, EMBED_F32, 0, NULL));
}

static void bag(void *job) {
  gather_job *j = job;
  op_note(j->o, j->outcome, embed_bag(j->o->context, j->table, j->ids, j->n, j->offsets, j->bags, NULL, j->out, EMBED_F32, 0, NULL));
}

static void copy_rows(void *job, int thread, int threads) {
  gather_job *j = job;
  for (int64_t i = j->n * thread / threads; i < j->n * (thread + 1) / threads; ++i)
    memcpy(j->peer_out + i * OP_DIM, j->rows + (int64_t)j->ids[i] * OP_DIM, OP_DIM * sizeof(float));
}

static bool prepare(op *o, const op_line *line, gather_job *j, op_outcome *outcome) {
  *j = (gather_job){.o = o, .outcome = outcome, .n = line->n, .bags = line->n / BAG, .random = 3};
  const embed_table *f32 = op_table(o, EMBED_F32, outcome);
  j->table = op_table(o, line->dtype, outcome);
  j->out = op_output(o, 0, outcome);
  j->peer_out = op_output(o, 1, outcome);
  j->ids = malloc((size_t)j->n * sizeof *j->ids);
  j->offsets = malloc((size_t)(j->bags + 1) * sizeof *j->offsets);
  if (!j->ids || !j->offsets) snprintf(outcome->text, sizeof outcome->text, "no memory");
  if (op_wrong(outcome)) return false;
  j->rows = embed_table_data(f32);
  for (int64_t b = 0; b <= j->bags; ++b) j->offsets[b] = b * BAG;
  return true;
}

static void finish(op *o, const op_line *line, gather_job *j, op_result *r) {
  free(j->ids);
  free(j->offsets);
  r->unit = "GB/s";
  r->wrong = op_wrong(j->outcome);
  op_report(o, line, r);
}

/* The figure is bytes of output; each of them costs the reading of its share of a row and its own writing. */
void op_gather(op *o, const op_line *line) {
  op_outcome outcome = {0};
  gather_job j;
  char what[64];
  snprintf(what, sizeof what, "gather  %-5s " OP_SHAPE "  %d ids", op_dtype_name(line->dtype), (int)line->n);
  op_result r = {.what = what, .limit_name = "that read and copy allow"};
  if (prepare(o, line, &j, &outcome)) {
    bool peer = line->dtype == EMBED_F32;
    bench_work works[2] = {{.call = lookup, .prepare = fresh_ids, .job = &j}, {.loop = copy_rows, .prepare = fresh_ids, .job = &j}};
    bench_figure figures[2] = {0};
    bench_measure(o->bench, works, peer ? 2 : 1, figures);
    r.ours = figures[0];
    r.peer = figures[1];
    double written = (double)j.n * OP_DIM * sizeof(float), read = (double)j.n * (double)embed_row_bytes(line->dtype, OP_DIM, 0);
    r.figure = r.ours.seconds > 0 ? written / r.ours.seconds / 1e9 : 0;
    r.limit = op_moving_limit(o, r.ours.read, written, read, written);
    if (peer) {
      r.peer_name = "memcpy loop";
      lookup(&j);
      copy_rows(&j, 0, 1);
      if (!op_wrong(&outcome) && memcmp(j.out, j.peer_out, (size_t)written)) snprintf(outcome.text, sizeof outcome.text, "rows differ from the table's");
    }
  }
  finish(o, line, &j, &r);
}

void op_bag(op *o, const op_line *line) {
  op_outcome outcome = {0};
  gather_job j;
  char what[64];
  snprintf(what, sizeof what, "bag 32  %-5s " OP_SHAPE "  %d ids", op_dtype_name(line->dtype), (int)line->n);
  op_result r = {.what = what, .limit_name = "read in this run"};
  if (prepare(o, line, &j, &outcome)) {
    bench_measure(o->bench, &(bench_work){.call = bag, .prepare = fresh_ids, .job = &j}, 1, &r.ours);
    double read = (double)j.n * (double)embed_row_bytes(line->dtype, OP_DIM, 0);
    r.figure = r.ours.seconds > 0 ? read / r.ours.seconds / 1e9 : 0;
    r.limit = r.ours.read;
  }
  finish(o, line, &j, &r);
}
