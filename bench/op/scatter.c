/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients of looked up rows added to a table's, fresh random ids and other upstream rows for every sample: into a dense
 * gradient, and into a sparse one that was empty. Bytes are those of the upstream rows, read, and of the rows with gradient,
 * read and written (a store into a cache reads its line first). The peer is the plain way of PyTorch's kernel on as many threads: each
 * looks at all ids and adds the rows of its slice of the vocabulary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

typedef struct scatter_job {
  op *o;
  op_outcome *outcome;
  int64_t vocab, dim, n;
  embed_dtype dtype;
  bool sparse;
  int32_t *ids; /* [n] */
  int64_t *ids64;
  int64_t *seen; /* [vocab]: the list that named the row last */
  int64_t list, distinct;
  float *upstream; /* many times [n, dim] */
  int64_t lists;   /* of them */
  float *memory, *peer_memory;
  embed_grad *grad;
  uint64_t random;
} scatter_job;

static int64_t element(const scatter_job *j) { return j->dtype == EMBED_F32 ? 4 : 2; }
static const char *upstream_now(const scatter_job *j) { return (const char *)j->upstream + j->list % j->lists * j->n * j->dim * element(j); }

static void fresh_ids(void *job) {
  scatter_job *j = job;
  ++j->list;
  j->distinct = 0;
  for (int64_t i = 0; i < j->n; ++i) {
    int64_t id = (int64_t)((bench_random(&j->random) >> 32) % (uint64_t)j->vocab);
    j->distinct += j->seen[id] != j->list;
    j->seen[id] = j->list;
    j->ids[i] = (int32_t)id;
    j->ids64[i] = id;
  }
}

static void scatter(void *job) {
  scatter_job *j = job;
  if (j->sparse) embed_grad_clear(j->grad);
  if (j->dtype == EMBED_F32)
    op_note(j->o, j->outcome, embed_grad_add(j->o->context, j->grad, j->ids, j->n, (const float *)(const void *)upstream_now(j), 0));
  else
    op_note(j->o, j->outcome, embed_lookup_backward(j->o->context, j->grad, j->vocab, j->ids64, j->n, upstream_now(j), j->dtype, 0, NULL));
}

static void plain_loop(void *job, int thread, int threads) {
  scatter_job *j = job;
  const int64_t from = j->vocab * thread / threads, to = j->vocab * (thread + 1) / threads;
  for (int64_t i = 0; i < j->n; ++i) {
    if (j->ids[i] < from || j->ids[i] >= to) continue;
    const float *restrict row = (const float *)(const void *)upstream_now(j) + i * j->dim;
    float *restrict sum = j->peer_memory + j->ids[i] * j->dim;
    for (int64_t c = 0; c < j->dim; ++c) sum[c] += row[c];
  }
}

static void compare(scatter_job *j) {
  const size_t bytes = (size_t)(j->vocab * j->dim) * sizeof(float);
  if (!j->sparse) memset(j->memory, 0, bytes);
  memset(j->peer_memory, 0, bytes);
  fresh_ids(j);
  scatter(j);
  plain_loop(j, 0, 1);
  bool same = true;
  for (int64_t i = 0; i < embed_grad_rows(j->grad); ++i) {
    int64_t row = j->sparse ? embed_grad_ids(j->grad)[i] : i;
    same = same && !memcmp(embed_grad_values(j->grad) + i * j->dim, j->peer_memory + row * j->dim, (size_t)j->dim * sizeof(float));
  }
  if (!op_wrong(j->outcome) && !same) snprintf(j->outcome->text, sizeof j->outcome->text, "sums differ from the plain loop's");
}

static bool prepare(op *o, scatter_job *j) {
  const int64_t floats = (int64_t)OP_ROWS * OP_DIM, upstream_bytes = (int64_t)OP_MOST_BATCH * OP_ROWS * 4;
  j->vocab = floats / j->dim;
  j->upstream = op_output(o, 0, j->outcome);
  j->lists = upstream_bytes / (j->n * j->dim * element(j));
  j->ids = malloc((size_t)j->n * sizeof *j->ids);
  j->ids64 = malloc((size_t)j->n * sizeof *j->ids64);
  j->seen = calloc((size_t)j->vocab, sizeof *j->seen);
  j->memory = bench_memory((size_t)floats * sizeof(float));
  j->peer_memory = bench_memory((size_t)floats * sizeof(float));
  if (!j->ids || !j->ids64 || !j->seen || !j->memory || !j->peer_memory) snprintf(j->outcome->text, sizeof j->outcome->text, "no memory");
  if (op_wrong(j->outcome)) return false;
  for (int64_t i = 0; i < upstream_bytes / 4; ++i) { /* floats, or pairs of bfloats, in [1, 2) */
    uint32_t bits = (uint32_t)(bench_random(&j->random) >> 41) | 0x3F800000u;
    if (j->dtype != EMBED_F32) bits |= bits >> 16;
    memcpy(j->upstream + i, &bits, 4);
  }
  if (j->sparse)
    op_note(o, j->outcome, embed_grad_create(o->context, j->dim, &j->grad));
  else
    op_note(o, j->outcome, embed_grad_create_dense(o->context, j->vocab, j->dim, j->memory, 0, &j->grad));
  return !op_wrong(j->outcome);
}

static void run(op *o, const op_line *line, int64_t dim, bool sparse) {
  op_outcome outcome = {0};
  char what[64];
  scatter_job j = {.o = o, .outcome = &outcome, .dim = dim, .n = line->n, .dtype = line->dtype, .sparse = sparse, .random = 5};
  op_result r = {.what = what, .unit = "GB/s", .limit_name = "read in this run"};
  bool ready = prepare(o, &j);
  snprintf(what, sizeof what, "scatter %-5s %6dx%-4d %5d ids %s", op_dtype_name(line->dtype), (int)j.vocab, (int)dim, (int)line->n,
           sparse ? "sparse" : "dense");
  if (ready) {
    bool peer = line->dtype == EMBED_F32;
    bench_work works[2] = {{.call = scatter, .prepare = fresh_ids, .job = &j}, {.loop = plain_loop, .prepare = fresh_ids, .job = &j}};
    bench_figure figures[2] = {0};
    bench_measure(o->bench, works, peer ? 2 : 1, figures);
    r.ours = figures[0];
    r.peer = figures[1];
    double bytes = (double)(j.n * dim * element(&j)) + 2 * (double)(j.distinct * dim) * 4; /* lists differ by a few rows */
    r.figure = r.ours.seconds > 0 ? bytes / r.ours.seconds / 1e9 : 0;
    r.limit = r.ours.read;
    if (peer) r.peer_name = "plain loop";
    if (peer) compare(&j);
  }
  embed_grad_release(j.grad);
  bench_memory_release(j.memory, (size_t)OP_ROWS * OP_DIM * sizeof(float));
  bench_memory_release(j.peer_memory, (size_t)OP_ROWS * OP_DIM * sizeof(float));
  free(j.ids);
  free(j.ids64);
  free(j.seen);
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
}

void op_scatter(op *o, const op_line *line) { run(o, line, OP_DIM, false); }
void op_scatter_short(op *o, const op_line *line) { run(o, line, OP_SHORT_DIM, false); }
void op_scatter_sparse(op *o, const op_line *line) { run(o, line, OP_DIM, true); }
void op_scatter_sparse_short(op *o, const op_line *line) { run(o, line, OP_SHORT_DIM, true); }
