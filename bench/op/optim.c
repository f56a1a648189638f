/* SPDX-License-Identifier: BSD-3-Clause */
/* Training steps, fresh random ids for every sample: a gradient summed up from rows and ids, and the step of its rows. Deferred
 * AdamW in closed form, its rows touched before, beside the dense step over the same table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

typedef struct step_job {
  op *o;
  op_outcome *outcome;
  embed_table *t;
  embed_grad *g;
  embed_optimizer *optimizer, *dense;
  int64_t vocab, dim, n;
  bool zipf, touch;
  int32_t *ids;
  int64_t *distinct; /* of the ids, zipf alone */
  int64_t rows;      /* with gradient, of the last sample */
  unsigned char *taken;
  float *upstream; /* [n, dim] */
  void *memory;    /* of the table */
  size_t table_bytes, upstream_bytes;
  uint64_t random;
} step_job;

static double uniform(step_job *j) { return (double)(bench_random(&j->random) >> 11) * 0x1p-53; }

/* zipf: n distinct rows, drawn with probability 1 / (rank + 1), rank r is row r * 7919 mod vocab. */
static void fresh_ids(void *job) {
  step_job *j = job;
  if (!j->zipf) {
    for (int64_t i = 0; i < j->n; ++i) j->ids[i] = (int32_t)((bench_random(&j->random) >> 32) % (uint64_t)j->vocab);
    return;
  }
  memset(j->taken, 0, (size_t)j->vocab);
  for (int64_t i = 0; i < j->n;) {
    const int64_t rank = (int64_t)(exp(uniform(j) * log((double)j->vocab + 1)) - 1), row = (rank < j->vocab ? rank : 0) * 7919 % j->vocab;
    if (j->taken[row]) continue;
    j->taken[row] = 1;
    j->distinct[i] = row;
    j->ids[i++] = (int32_t)row;
  }
}

static void step(void *job) {
  step_job *j = job;
  embed_context *ctx = j->o->context;
  if (j->touch) op_note(j->o, j->outcome, embed_optimizer_touch(ctx, j->optimizer, j->t, j->distinct, j->n));
  embed_grad_clear(j->g);
  op_note(j->o, j->outcome, embed_grad_add(ctx, j->g, j->ids, j->n, j->upstream, 0));
  op_note(j->o, j->outcome, embed_optimizer_step(ctx, j->optimizer, j->t, j->g, NULL));
  j->rows = embed_grad_rows(j->g);
}

static void dense_step(void *job) {
  step_job *j = job;
  embed_grad_clear(j->g);
  op_note(j->o, j->outcome, embed_grad_add(j->o->context, j->g, j->ids, j->n, j->upstream, 0));
  op_note(j->o, j->outcome, embed_optimizer_step(j->o->context, j->dense, j->t, j->g, NULL));
}

static void prepare(op *o, const op_line *line, step_job *j, embed_optimizer_kind kind) {
  const embed_table_options in_place = {.size = sizeof in_place, .data_bytes = (int64_t)j->table_bytes};
  embed_optimizer_options options = {.size = sizeof options, .kind = kind, .lr = 1e-3};
  j->n = line->n;
  j->memory = bench_memory(j->table_bytes);
  j->upstream = bench_memory(j->upstream_bytes);
  j->ids = malloc((size_t)j->n * sizeof *j->ids);
  j->distinct = malloc((size_t)j->n * sizeof *j->distinct);
  j->taken = malloc((size_t)j->vocab);
  if (!j->memory || !j->upstream || !j->ids || !j->distinct || !j->taken) snprintf(j->outcome->text, sizeof j->outcome->text, "no memory");
  if (op_wrong(j->outcome)) return;
  for (int64_t i = 0; i < j->n * j->dim; ++i) j->upstream[i] = (float)(uniform(j) - 0.5) * 0.01f;
  op_note(o, j->outcome, embed_table_borrow(o->context, j->memory, j->vocab, j->dim, &in_place, NULL, NULL, &j->t));
  if (j->t) op_note(o, j->outcome, embed_optimizer_create(o->context, j->t, &options, &j->optimizer));
  options.kind = EMBED_OPTIM_ADAMW;
  options.weight_decay = 0.01;
  if (j->t && kind == EMBED_OPTIM_ADAMW_DEFERRED) op_note(o, j->outcome, embed_optimizer_create(o->context, j->t, &options, &j->dense));
  op_note(o, j->outcome, embed_grad_create(o->context, j->dim, &j->g));
}

static void finish(step_job *j) {
  embed_grad_release(j->g);
  embed_optimizer_release(j->optimizer);
  embed_optimizer_release(j->dense);
  embed_table_release(j->t);
  bench_memory_release(j->memory, j->table_bytes);
  bench_memory_release(j->upstream, j->upstream_bytes);
  free(j->ids);
  free(j->distinct);
  free(j->taken);
}

/* What moves: upstream rows read, gradient rows written and read, rows of weights and of `slots` moments read and written. */
static void measure(op *o, const op_line *line, int64_t vocab, int64_t dim, embed_optimizer_kind kind, const char *name, int slots) {
  op_outcome outcome = {0};
  char what[64];
  op_result r = {.what = what, .unit = "GB/s", .limit_name = "that read and copy allow"};
  step_job j = {.o = o, .outcome = &outcome, .vocab = vocab, .dim = dim, .random = 11, .table_bytes = (size_t)(vocab * dim) * sizeof(float)};
  j.upstream_bytes = (size_t)(line->n * dim) * sizeof(float);
  j.zipf = j.touch = kind == EMBED_OPTIM_ADAMW_DEFERRED;
  snprintf(what, sizeof what, "step    %-8s %7dx%-3d %5d ids", name, (int)vocab, (int)dim, (int)line->n);
  prepare(o, line, &j, kind);
  if (!op_wrong(&outcome)) {
    bench_work works[2] = {{.call = step, .prepare = fresh_ids, .job = &j}, {.call = dense_step, .prepare = fresh_ids, .job = &j}};
    bench_figure figures[2] = {0};
    bench_measure(o->bench, works, j.dense ? 2 : 1, figures);
    const double row = (double)dim * sizeof(float), touched = j.touch ? 2 : 1;
    const double read = row * ((double)j.n + (double)j.rows * (1 + touched * (1 + slots))), written = row * (double)j.rows * (1 + touched * (1 + slots));
    r.ours = figures[0];
    r.peer = figures[1];
    r.figure = r.ours.seconds > 0 ? (read + written) / r.ours.seconds / 1e9 : 0;
    r.limit = op_moving_limit(o, r.ours.read, read + written, read, written);
    if (j.dense) r.peer_name = "dense AdamW";
  }
  finish(&j);
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
}

void op_step_adam(op *o, const op_line *line) { measure(o, line, OP_ROWS, OP_DIM, EMBED_OPTIM_ADAM_SPARSE, "adam", 2); }
void op_step_adam_short(op *o, const op_line *line) { measure(o, line, 1 << 20, OP_SHORT_DIM, EMBED_OPTIM_ADAM_SPARSE, "adam", 2); }
void op_step_adagrad(op *o, const op_line *line) { measure(o, line, OP_ROWS, OP_DIM, EMBED_OPTIM_ADAGRAD_ROW, "adagrad", 0); }
void op_step_adagrad_short(op *o, const op_line *line) { measure(o, line, 1 << 20, OP_SHORT_DIM, EMBED_OPTIM_ADAGRAD_ROW, "adagrad", 0); }
void op_step_deferred(op *o, const op_line *line) { measure(o, line, 1 << 20, OP_SHORT_DIM, EMBED_OPTIM_ADAMW_DEFERRED, "deferred", 2); }
