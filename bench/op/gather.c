/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows by id, fresh random ids for every sample (the same ids again would find their rows in a cache): lookups into
 * memory and into a cached output, and bags of 32. Rows of other lengths than OP_DIM lie in the same memory, seen as
 * more or fewer rows. The peer of the f32 lookups is a memcpy loop, of the others a plain loop in C, on as many threads
 * over the same table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

enum { BAG = 32, PQ_WIDTH = 4 /* columns of a code */, CACHED_CALLS = 64 /* of a sample, one after another into the same output */ };

typedef struct gather_job {
  op *o;
  op_outcome *outcome;
  embed_table *f32, *table; /* the same rows */
  const float *rows;        /* of the f32 table */
  const unsigned char *stored;
  int64_t vocab, dim;
  embed_dtype dtype;
  int64_t n, bags, calls; /* n ids a call */
  int32_t *ids;           /* [calls, n] */
  int64_t *offsets;       /* [bags + 1] */
  float *weights;         /* [n] or NULL */
  float *out, *peer_out;
  uint64_t random;
} gather_job;

static void fresh_ids(void *job) {
  gather_job *j = job;
  for (int64_t i = 0; i < j->calls * j->n; ++i) j->ids[i] = (int32_t)((bench_random(&j->random) >> 32) % (uint64_t)j->vocab);
}

static void lookup(void *job) {
  gather_job *j = job;
  for (int64_t c = 0; c < j->calls; ++c) op_note(j->o, j->outcome, embed_lookup(j->o->context, j->table, j->ids + c * j->n, j->n, j->out, EMBED_F32, 0, NULL));
}

static void bag(void *job) {
  gather_job *j = job;
  op_note(j->o, j->outcome, embed_bag(j->o->context, j->table, j->ids, j->n, j->offsets, j->bags, j->weights, j->out, EMBED_F32, 0, NULL));
}

static void widen(const unsigned char *restrict row, int64_t dim, float *restrict out) { /* a bfloat is the upper half of a float */
  for (int64_t k = 0; k < dim; ++k) {
    uint16_t half;
    memcpy(&half, row + 2 * k, 2);
    uint32_t bits = (uint32_t)half << 16;
    memcpy(out + k, &bits, 4);
  }
}

static void dequantise(const unsigned char *restrict row, int64_t dim, float *restrict out) {
  float scale;
  memcpy(&scale, row + dim, 4);
  for (int64_t k = 0; k < dim; ++k) out[k] = scale * (float)(int8_t)row[k];
}

static void plain_loop(void *job, int thread, int threads) {
  gather_job *j = job;
  const int64_t bytes = embed_table_row_bytes(j->table);
  for (int64_t c = 0; c < j->calls; ++c) {
    const int32_t *ids = j->ids + c * j->n;
    for (int64_t i = j->n * thread / threads; i < j->n * (thread + 1) / threads; ++i) {
      const unsigned char *row = j->stored + ids[i] * bytes;
      if (j->dtype == EMBED_BF16)
        widen(row, j->dim, j->peer_out + i * j->dim);
      else if (j->dtype == EMBED_I8_ROW)
        dequantise(row, j->dim, j->peer_out + i * j->dim);
      else
        memcpy(j->peer_out + i * j->dim, row, (size_t)bytes);
    }
  }
}

/* Rows of any codes over the first floats of the table as centroids: nothing trains them here, and a lookup does not ask. */
static void view_codes(op *o, gather_job *j, op_outcome *outcome) {
  const embed_pq pq = {.size = sizeof pq, .width = PQ_WIDTH, .centroids = 256, .values = j->rows};
  const int64_t bytes = j->vocab * (j->dim / PQ_WIDTH);
  unsigned char *codes = malloc((size_t)bytes);
  for (int64_t i = 0; codes && i < bytes; ++i) codes[i] = (unsigned char)(bench_random(&j->random) >> 32);
  op_note(o, outcome, embed_table_view_pq(o->context, codes, j->vocab, j->dim, &pq, NULL, free, codes, &j->table));
  if (!j->table) free(codes);
}

/* The f32 rows seen with j->dim columns, and in the line's dtype. */
static void open_tables(op *o, gather_job *j, op_outcome *outcome) {
  const embed_table *all = op_table(o, EMBED_F32, outcome);
  if (op_wrong(outcome)) return;
  j->vocab = (int64_t)OP_ROWS * OP_DIM / j->dim;
  j->rows = embed_table_data(all);
  op_note(o, outcome, embed_table_view(o->context, j->rows, j->vocab, j->dim, NULL, NULL, NULL, &j->f32));
  embed_table_options options = {.size = sizeof options, .dtype = j->dtype, .flags = EMBED_TABLE_HUGE_PAGES};
  if (op_wrong(outcome)) return;
  if (j->dtype == EMBED_F32)
    j->table = embed_table_retain(j->f32);
  else if (j->dtype == EMBED_PQ)
    view_codes(o, j, outcome);
  else if (j->dim == OP_DIM && (j->dtype == EMBED_F16 || j->dtype == EMBED_BF16 || j->dtype == EMBED_I8_ROW))
    j->table = embed_table_retain(op_table(o, j->dtype, outcome));
  else
    op_note(o, outcome, embed_table_convert(o->context, j->f32, &options, &j->table));
  j->stored = embed_table_data(j->table);
}

static bool prepare(op *o, const op_line *line, int64_t dim, int64_t calls, gather_job *j, op_outcome *outcome) {
  *j = (gather_job){.o = o, .outcome = outcome, .dim = dim, .dtype = line->dtype, .n = line->n, .bags = line->n / BAG, .calls = calls, .random = 3};
  j->out = op_output(o, 0, outcome);
  j->peer_out = op_output(o, 1, outcome);
  j->ids = malloc((size_t)(calls * j->n) * sizeof *j->ids);
  j->offsets = malloc((size_t)(j->bags + 1) * sizeof *j->offsets);
  if (!j->ids || !j->offsets) snprintf(outcome->text, sizeof outcome->text, "no memory");
  if (op_wrong(outcome)) return false;
  for (int64_t b = 0; b <= j->bags; ++b) j->offsets[b] = b * BAG;
  open_tables(o, j, outcome);
  return !op_wrong(outcome);
}

static void finish(op *o, const op_line *line, gather_job *j, op_result *r) {
  free(j->ids);
  free(j->offsets);
  free(j->weights);
  embed_table_release(j->table);
  embed_table_release(j->f32);
  r->unit = "GB/s";
  r->wrong = op_wrong(j->outcome);
  op_report(o, line, r);
}

static void compare(gather_job *j) {
  fresh_ids(j);
  lookup(j);
  plain_loop(j, 0, 1);
  if (!op_wrong(j->outcome) && memcmp(j->out, j->peer_out, (size_t)(j->n * j->dim) * sizeof(float)))
    snprintf(j->outcome->text, sizeof j->outcome->text, "rows differ from the table's");
}

/* The figure is bytes of output; each of them costs the reading of its share of a row and, unless it stays in a cache,
 * its own writing. */
static void gather(op *o, const op_line *line, int64_t dim, bool cached) {
  op_outcome outcome = {0};
  gather_job j;
  char what[64];
  op_result r = {.what = what, .limit_name = cached ? "that reading allows" : "that read and copy allow"};
  bool ready = prepare(o, line, dim, cached ? CACHED_CALLS : 1, &j, &outcome);
  snprintf(what, sizeof what, "gather  %-5s %6dx%-4d %5d ids%s", op_dtype_name(line->dtype), (int)j.vocab, (int)dim, (int)line->n, cached ? " cached" : "");
  if (ready) {
    bool peer = line->dtype == EMBED_F32 || line->dtype == EMBED_BF16 || line->dtype == EMBED_I8_ROW;
    bench_work works[2] = {{.call = lookup, .prepare = fresh_ids, .job = &j}, {.loop = plain_loop, .prepare = fresh_ids, .job = &j}};
    bench_figure figures[2] = {0};
    bench_measure(o->bench, works, peer ? 2 : 1, figures);
    r.ours = figures[0];
    r.peer = figures[1];
    double written = (double)(j.calls * j.n * dim) * sizeof(float), read = (double)(j.calls * j.n) * (double)embed_table_row_bytes(j.table);
    r.figure = r.ours.seconds > 0 ? written / r.ours.seconds / 1e9 : 0;
    r.limit = op_moving_limit(o, r.ours.read, written, read, cached ? 0 : written);
    if (peer) r.peer_name = line->dtype == EMBED_F32 ? "memcpy loop" : "plain loop";
    if (peer) compare(&j);
  }
  finish(o, line, &j, &r);
}

void op_gather(op *o, const op_line *line) { gather(o, line, OP_DIM, false); }
void op_gather_long(op *o, const op_line *line) { gather(o, line, OP_LONG_DIM, false); }
void op_gather_short(op *o, const op_line *line) { gather(o, line, OP_SHORT_DIM, false); }
void op_gather_cached(op *o, const op_line *line) { gather(o, line, OP_DIM, true); }

static void pool(op *o, const op_line *line, int64_t dim, bool weighted) {
  op_outcome outcome = {0};
  gather_job j;
  char what[64];
  op_result r = {.what = what, .limit_name = "read in this run"};
  bool ready = prepare(o, line, dim, 1, &j, &outcome);
  snprintf(what, sizeof what, "bag 32  %-5s %6dx%-4d %5d ids%s", op_dtype_name(line->dtype), (int)j.vocab, (int)dim, (int)line->n, weighted ? " weighted" : "");
  if (ready && weighted) j.weights = malloc((size_t)j.n * sizeof *j.weights);
  for (int64_t i = 0; j.weights && i < j.n; ++i) j.weights[i] = 0.5f + (float)(i % 7);
  if (ready) {
    bench_measure(o->bench, &(bench_work){.call = bag, .prepare = fresh_ids, .job = &j}, 1, &r.ours);
    double read = (double)j.n * (double)embed_row_bytes(line->dtype, dim, 0);
    r.figure = r.ours.seconds > 0 ? read / r.ours.seconds / 1e9 : 0;
    r.limit = r.ours.read;
  }
  finish(o, line, &j, &r);
}

void op_bag(op *o, const op_line *line) { pool(o, line, OP_DIM, false); }
void op_bag_long(op *o, const op_line *line) { pool(o, line, OP_LONG_DIM, false); }
void op_bag_short(op *o, const op_line *line) { pool(o, line, OP_SHORT_DIM, false); }
void op_bag_weighted(op *o, const op_line *line) { pool(o, line, OP_DIM, true); }
void op_bag_long_weighted(op *o, const op_line *line) { pool(o, line, OP_LONG_DIM, true); }
void op_bag_short_weighted(op *o, const op_line *line) { pool(o, line, OP_SHORT_DIM, true); }
