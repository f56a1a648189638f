/* SPDX-License-Identifier: BSD-3-Clause */
/* Cross-entropy fused with the head: forward and backward beside the multiply-adds that they need (6 T V h), forward alone beside
 * the product alone. Each line shows what it takes of memory beside hidden rows, table and gradients. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "op.h"

enum { LONG_ROWS = 151936, LONG_DIM = 1024 };

typedef struct loss_job {
  op *o;
  op_outcome *outcome;
  int64_t rows, dim, n;
  embed_table *own; /* the long one */
  void *own_rows;
  embed_head *head;
  const float *hidden;
  const embed_loss_options *options;
  float *gradient, *logits, *d_hidden, *loss;
  int32_t *targets;
  embed_grad *grad;
} loss_job;

/* What a context takes for its calls. */
typedef struct taken {
  _Atomic int64_t now, most;
} taken;

static void *take(void *arg, size_t bytes, size_t alignment) {
  taken *t = arg;
  void *memory = NULL;
  if (posix_memalign(&memory, alignment, bytes)) return NULL;
  int64_t now = atomic_fetch_add(&t->now, (int64_t)bytes) + (int64_t)bytes, most = atomic_load(&t->most);
  while (now > most && !atomic_compare_exchange_weak(&t->most, &most, now)) {
  }
  return memory;
}

static void give(void *arg, void *memory, size_t bytes, size_t alignment) {
  taken *t = arg;
  (void)alignment;
  atomic_fetch_sub(&t->now, (int64_t)bytes);
  free(memory);
}

static embed_status train(loss_job *j, embed_context *ctx) {
  return embed_cross_entropy_train(ctx, j->head, j->hidden, EMBED_F32, j->n, 0, j->targets, NULL, j->loss, NULL, j->d_hidden, EMBED_F32, 0, j->grad,
                                   j->options);
}

static embed_status forward(loss_job *j, embed_context *ctx) {
  return embed_cross_entropy(ctx, j->head, j->hidden, EMBED_F32, j->n, 0, j->targets, j->loss, NULL, NULL);
}

static void call_train(void *job) {
  loss_job *j = job;
  op_note(j->o, j->outcome, train(j, j->o->context));
}

static void call_forward(void *job) {
  loss_job *j = job;
  op_note(j->o, j->outcome, forward(j, j->o->context));
}

static void call_logits(void *job) {
  loss_job *j = job;
  op_note(j->o, j->outcome, embed_logits(j->o->context, j->head, j->hidden, EMBED_F32, j->n, 0, j->logits, 0, NULL));
}

/* MB of one call, in a context of its own. */
static double memory_of(loss_job *j, embed_status (*call)(loss_job *j, embed_context *ctx)) {
  taken t = {0};
  embed_allocator allocator = {.size = sizeof allocator, .arg = &t, .allocate = take, .release = give};
  embed_pool *pool = NULL;
  embed_context *ctx = NULL;
  op_note(j->o, j->outcome, embed_pool_create(bench_threads(j->o->bench), &pool));
  embed_context_options options = {.size = sizeof options, .allocator = &allocator, .pool = pool};
  op_note(j->o, j->outcome, embed_context_create(&options, &ctx));
  int64_t before = atomic_load(&t.now);
  if (ctx) op_note(j->o, j->outcome, call(j, ctx));
  embed_context_release(ctx);
  embed_pool_release(pool);
  return (double)(atomic_load(&t.most) - before) * 1e-6;
}

static const embed_table *long_table(loss_job *j) {
  const size_t bytes = sizeof(float) * LONG_ROWS * LONG_DIM;
  embed_init_options init = {.size = sizeof init, .kind = EMBED_INIT_NORMAL, .seed = 1};
  j->own_rows = bench_memory(bytes);
  if (!j->own_rows) {
    snprintf(j->outcome->text, sizeof j->outcome->text, "no memory");
    return NULL;
  }
  op_note(j->o, j->outcome, embed_table_borrow(j->o->context, j->own_rows, LONG_ROWS, LONG_DIM, NULL, NULL, NULL, &j->own));
  if (j->own) op_note(j->o, j->outcome, embed_table_init(j->o->context, j->own, &init));
  return j->own;
}

static bool prepare(op *o, const op_line *line, bool longer, loss_job *j, op_outcome *outcome) {
  *j = (loss_job){.o = o, .outcome = outcome, .n = line->n, .rows = longer ? LONG_ROWS : OP_ROWS, .dim = longer ? LONG_DIM : OP_DIM};
  const embed_table *table = longer ? long_table(j) : op_table(o, line->dtype, outcome);
  uint64_t state = 3;
  j->hidden = op_hidden(o, outcome); /* as many floats, whatever the dim */
  j->logits = op_output(o, 0, outcome);
  j->gradient = bench_memory(sizeof(float) * (size_t)(j->rows * j->dim));
  j->d_hidden = bench_memory(sizeof(float) * (size_t)(j->n * j->dim));
  j->loss = calloc((size_t)j->n, sizeof *j->loss);
  j->targets = calloc((size_t)j->n, sizeof *j->targets);
  if (!j->gradient || !j->d_hidden || !j->loss || !j->targets) snprintf(outcome->text, sizeof outcome->text, "no memory");
  if (op_wrong(outcome)) return false;
  for (int64_t i = 0; i < j->n; ++i) j->targets[i] = (int32_t)(bench_random(&state) % (uint64_t)j->rows);
  op_note(o, outcome, embed_head_create(o->context, table, NULL, NULL, &j->head));
  op_note(o, outcome, embed_grad_create_dense(o->context, j->rows, j->dim, j->gradient, 0, &j->grad));
  return !op_wrong(outcome);
}

static void let_go(loss_job *j) {
  embed_grad_release(j->grad);
  embed_head_release(j->head);
  embed_table_release(j->own);
  if (j->own_rows) bench_memory_release(j->own_rows, sizeof(float) * LONG_ROWS * LONG_DIM);
  if (j->gradient) bench_memory_release(j->gradient, sizeof(float) * (size_t)(j->rows * j->dim));
  if (j->d_hidden) bench_memory_release(j->d_hidden, sizeof(float) * (size_t)(j->n * j->dim));
  free(j->loss), free(j->targets);
}

/* A loss of each row above 0 and below twice a uniform guess's. */
static void losses_are_likely(const loss_job *j, op_outcome *outcome) {
  for (int64_t i = 0; i < j->n; ++i) {
    if (j->loss[i] > 0 && (double)j->loss[i] < 2 * log((double)j->rows)) continue;
    snprintf(outcome->text, sizeof outcome->text, "the loss of row %lld is %g", (long long)i, (double)j->loss[i]);
    return;
  }
}

typedef struct subject {
  const char *name;
  bool longer, rounded;
  int products; /* of n rows with the whole table */
  embed_status (*once)(loss_job *j, embed_context *ctx);
  void (*ours)(void *);
  void (*peer)(void *);
} subject;

/* Rounded: the limit is the faster of multiply-adds and products of pairs of bfloats, as a rounded head's. */
static void measure(op *o, const op_line *line, const subject *s) {
  op_outcome outcome = {0};
  loss_job j;
  bench_figure figures[4] = {0};
  double megabytes = 0;
  const embed_loss_options rounded = {.size = sizeof rounded, .flags = EMBED_LOSS_BF16};
  if (prepare(o, line, s->longer, &j, &outcome)) {
    j.options = s->rounded ? &rounded : NULL;
    megabytes = memory_of(&j, s->once);
    bench_work works[4] = {op_multiply_add_work(o), {.call = s->ours, .job = &j}, {.call = s->peer, .job = &j}};
    int count = s->peer ? 3 : 2;
    if (s->rounded) works[count++] = op_products_work(o, EMBED_BF16);
    bench_measure(o->bench, works, count, figures);
    if (!op_wrong(&outcome)) losses_are_likely(&j, &outcome);
  }
  let_go(&j);
  char what[96];
  snprintf(what, sizeof what, "%-8s%-5s %6dx%-5d batch %-4d +%.1f MB", s->name, op_dtype_name(line->dtype), (int)j.rows, (int)j.dim, (int)j.n, megabytes);
  op_result r = {.what = what, .unit = "GFLOP/s", .limit_name = "multiply-add in this run", .ours = figures[1]};
  r.peer = s->peer ? figures[2] : r.peer;
  r.peer_name = s->peer ? "logits alone" : NULL;
  r.figure = r.ours.seconds > 0 ? 2.0 * s->products * (double)j.n * (double)j.rows * (double)j.dim / r.ours.seconds / 1e9 : 0;
  r.limit = op_multiply_add_rate(o, &figures[0]);
  const double pairs = s->rounded ? op_products_rate(o, EMBED_BF16, &figures[s->peer ? 3 : 2]) : 0;
  if (pairs > r.limit) {
    r.limit = pairs;
    r.limit_name = "products of bf16 pairs";
  }
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
}

static const subject training = {.name = "train", .products = 3, .once = train, .ours = call_train};
static const subject training_long = {.name = "train", .longer = true, .products = 3, .once = train, .ours = call_train};
static const subject training_rounded = {.name = "rounded", .rounded = true, .products = 3, .once = train, .ours = call_train};
static const subject training_rounded_long = {.name = "rounded", .longer = true, .rounded = true, .products = 3, .once = train, .ours = call_train};
static const subject loss_alone = {.name = "loss", .products = 1, .once = forward, .ours = call_forward, .peer = call_logits};

void op_loss(op *o, const op_line *line) { measure(o, line, &training); }
void op_loss_long(op *o, const op_line *line) { measure(o, line, &training_long); }
void op_loss_rounded(op *o, const op_line *line) { measure(o, line, &training_rounded); }
void op_loss_rounded_long(op *o, const op_line *line) { measure(o, line, &training_rounded_long); }
void op_loss_forward(op *o, const op_line *line) { measure(o, line, &loss_alone); }
