/* SPDX-License-Identifier: BSD-3-Clause */
/* A certified search: upper bounds of all rows from the sketch, exact logits of those that look best, then of every other row whose bound
 * reaches the k-th best of these. BOUND.md has the names. */
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/least.h"
#include "head/head.h"
#include "head/sketch.h"
#include "sweep/chunk.h"
#include "thread/run.h"

enum {
  /* A failed search costs share + 1 of the plain sweep: at most 1.6. */
  MOST_SHARE = EMBED__SKETCH_ONE / 10 * 6,
  VERIFIED_COST = 3,    /* of a row read alone and multiplied, in rows of the plain sweep at one hidden row (150 ns beside 60), */
  FREE_HIDDEN = 6,      /* whose cost does not grow up to so many */
  MEMORY = 8,           /* searches that the moving average remembers */
  FEW_TASKS = 128,      /* of counting, 100 ns each: sooner done than other threads wake */
  MORE_CANDIDATES = 24, /* than are wanted: the k-th best of them is nearly that of all */
  PROBE = 17            /* while it is above one, one call in so many searches */
};

static const double LARGEST = 0x1p30, SMALLEST = 0x1p-30;

bool embed__sketch_ask(const embed__kernels *k, const embed__sketch *s, int64_t dim, embed__sketch_query *q) {
  double rounding[EMBED__SKETCH_HIDDEN];
  for (int64_t i = 0; i < q->n; ++i) {
    const float *x = q->x + i * q->ldx;
    double largest = 0, squared = 0, center = 0;
    bool bounded = true;
    for (int64_t j = 0; j < dim; ++j) {
      const double value = (double)x[j];
      bounded = bounded && fabs(value) <= LARGEST;
      largest = fmax(largest, fabs(value));
      squared += value * value;
      center += value * (double)s->mean[j];
    }
    if (!bounded || largest < SMALLEST) return false;
    q->reach[i] = (float)(sqrt(squared) * (1 + 0x1p-20));
    q->center[i] = (float)center;
  }
  k->sketch.pack_x(q->x, q->ldx, q->n, dim, q->packed, rounding);
  for (int64_t i = 0; i < q->n; ++i) q->reach[i] += (float)(EMBED__SKETCH_RADIUS_PER_NORM * sqrt(rounding[i]) * (1 + 0x1p-20));
  return true;
}

void embed__sketch_bounds(const embed__sketch *s, const embed__sketch_query *q, int64_t i, int64_t column, int64_t columns, const float *bias, float *upper,
                          float *middle) {
  const float *radius = s->radius + column, reach = q->reach[i], center = q->center[i];
  for (int64_t c = 0; c < columns; ++c) {
    middle[c] = upper[c] + center;
    upper[c] = upper[c] + radius[c] * reach + center;
  }
  if (!bias) return;
  for (int64_t c = 0; c < columns; ++c) {
    upper[c] += bias[column + c];
    middle[c] += bias[column + c];
    middle[c] = middle[c] > -INFINITY ? middle[c] : -INFINITY; /* a NaN is no guess */
  }
}

typedef struct search {
  const embed_head *head;
  const embed__kernels *kernels;
  embed__sketch *sketch;
  embed__sketch_query query;
  embed__chosen_rows rows;
  embed_nan_policy nan;
  embed__topk *tops;                 /* the caller's, [n] */
  embed__topk *heaps;                /* [slots, n]: of what the sketch takes for best, then of exact logits */
  int64_t n, candidates, blocks;     /* candidates: of each hidden row */
  int64_t width;                     /* panels * 16 */
  float *upper;                      /* [n, width] */
  int32_t *ids;                      /* [n, candidates] */
  float reach[EMBED__SKETCH_HIDDEN]; /* least upper bound of a row that can be among the best */
  _Atomic int64_t found;             /* rows that reach */
  _Atomic int64_t refused;
} search;

static int64_t columns_of(const search *s, int64_t block) { return embed__min(EMBED__BLOCK, s->rows.table->vocab - block * EMBED__BLOCK); }

static void bound_block(void *arg, int64_t block, int32_t worker) {
  search *s = arg;
  const int64_t column = block * EMBED__BLOCK, columns = columns_of(s, block), bytes = s->sketch->panel_bytes;
  float middle[EMBED__BLOCK];
  s->kernels->sketch.multiply(s->sketch->panels + column / EMBED__SKETCH_ROWS * bytes, bytes, columns, s->query.packed, s->n, s->rows.table->dim,
                              s->upper + column, s->width);
  for (int64_t i = 0; i < s->n; ++i) {
    embed__sketch_bounds(s->sketch, &s->query, i, column, columns, s->head->bias, s->upper + i * s->width + column, middle);
    embed__topk_offer(s->kernels, &s->heaps[worker * s->n + i], middle, columns, (int32_t)column, NULL, 0);
  }
}

/* Exact logits of some rows to a heap. */
static void verify(search *s, int64_t i, const int32_t *ids, int64_t count, int32_t worker, embed__topk *top) {
  float z[EMBED__CHOSEN];
  for (int64_t done = 0, some; done < count; done += some, ids += some) {
    some = embed__min(EMBED__CHOSEN, count - done);
    embed__chosen_products(&s->rows, i, ids, some, worker, z);
    for (int64_t j = 0; j < some; ++j) embed__finish_logits(s->head, z + j, some, 1, ids[j], 1);
    if (embed__apply_nan_policy(s->nan, z, some)) embed__keep_least(&s->refused, i);
    for (int64_t j = 0; j < some; ++j)
      if (top->count < top->capacity || !(z[j] < top->entries[0].value)) embed__topk_offer(s->kernels, top, z + j, 1, ids[j], NULL, 0);
  }
}

/* The best of each hidden row as the sketch has them; the second step does not find them again. Few: not worth other threads. */
static void verify_candidates(search *s, int32_t slots) {
  for (int64_t i = 0; i < s->n; ++i) {
    embed__topk *best = &s->heaps[i];
    int32_t *ids = s->ids + i * s->candidates;
    for (int32_t slot = 1; slot < slots; ++slot) embed__topk_merge(best, &s->heaps[slot * s->n + i]);
    for (int64_t j = 0; j < best->count; ++j) {
      ids[j] = best->entries[j].id;
      s->upper[i * s->width + ids[j]] = -INFINITY;
    }
    const int64_t count = best->count;
    for (int32_t slot = 0; slot < slots; ++slot) {
      embed__topk *heap = &s->heaps[slot * s->n + i];
      *heap =
          (embed__topk){.entries = heap->entries, .capacity = s->tops[i].capacity, .original = s->tops[i].original, .numbers_only = s->tops[i].numbers_only};
    }
    verify(s, i, ids, count, 0, best);
  }
}

/* The candidates apart. */
static void count_block(void *arg, int64_t task, int32_t worker) {
  search *s = arg;
  const int64_t i = task / s->blocks, block = task % s->blocks;
  (void)worker;
  atomic_fetch_add(&s->found, s->kernels->reduce.count_at_least(s->upper + i * s->width + block * EMBED__BLOCK, columns_of(s, block), s->reach[i]));
}

static embed_status count_found(embed_context *ctx, search *s) {
  const int64_t tasks = s->n * s->blocks;
  if (tasks > FEW_TASKS) return embed__run(ctx, tasks, count_block, s);
  for (int64_t task = 0; task < tasks; ++task) count_block(s, task, 0);
  return EMBED_OK;
}

/* Every other row of a block that can be among the best. */
static void verify_block(void *arg, int64_t task, int32_t worker) {
  search *s = arg;
  const int64_t i = task / s->blocks, column = task % s->blocks * EMBED__BLOCK;
  int32_t index[EMBED__BLOCK];
  const int64_t count = s->kernels->reduce.at_least(s->upper + i * s->width + column, columns_of(s, task % s->blocks), s->reach[i], index);
  for (int64_t j = 0; j < count; ++j) index[j] += (int32_t)column;
  verify(s, i, index, count, worker, &s->heaps[worker * s->n + i]);
}

/* A finished logit, for any y at or below `product`, is below this. tanhf is taken to be right to 2^-20. */
static float finished_bound(const embed_head *h, float product) {
  float z = product * h->scale;
  if (h->softcap > 0) z = h->softcap * tanhf(z / h->softcap);
  return h->softcap > 0 ? z + fabsf(z) * 0x1p-17f : z;
}

/* The least product plus bias with which a row may have the finished logit `worst` or more; -inf where none can be told. */
static float reach_of(const embed_head *h, float worst) {
  if (!isfinite(worst)) return -INFINITY;
  if (h->scale == 1.0f && h->softcap == 0) return worst;
  double ratio = (double)worst / (double)h->softcap, product = (double)worst / (double)h->scale;
  if (h->softcap > 0) product = (ratio >= 1 ? 20 : ratio <= -1 ? -20 : atanh(ratio)) * (double)h->softcap / (double)h->scale;
  double less = fabs(product) * 0x1p-23 + 0x1p-149;
  for (int doubling = 0; doubling < 60; ++doubling, less *= 2) {
    const float below = (float)(product - less);
    if (isfinite(below) && finished_bound(h, below) < worst) return nextafterf(below, INFINITY);
  }
  return -INFINITY;
}

static embed_status take_scratch(embed_context *ctx, search *s, int32_t slots) {
  const int64_t heaps = s->n * slots;
  embed__ranked *entries;
  EMBED__TRY(embed__scratch_matrix(ctx, s->n, s->width, sizeof *s->upper, &s->upper));
  EMBED__TRY(embed__scratch_matrix(ctx, heaps, s->candidates, sizeof *entries, &entries));
  EMBED__TRY(embed__scratch_get(ctx, heaps, sizeof *s->heaps, &s->heaps));
  for (int64_t h = 0; h < heaps; ++h) s->heaps[h] = (embed__topk){.entries = entries + h * s->candidates, .capacity = s->candidates};
  return embed__scratch_matrix(ctx, s->n, s->candidates, sizeof *s->ids, &s->ids);
}

/* The k-th best so far of each hidden row tells which bounds reach; false where it does not. */
static bool set_reach(search *s) {
  for (int64_t i = 0; i < s->n; ++i) {
    const embed__topk *best = &s->heaps[i];
    s->reach[i] = best->count < best->capacity ? -INFINITY : reach_of(s->head, best->entries[0].value);
    if (!(s->reach[i] > -INFINITY)) return false;
  }
  return true;
}

/* The three steps. *verified -1: too many rows reach. */
static embed_status run_search(embed_context *ctx, search *s, int64_t *verified) {
  const int32_t slots = embed__workers(ctx);
  *verified = -1;
  EMBED__TRY(take_scratch(ctx, s, slots));
  EMBED__TRY(embed__run(ctx, s->blocks, bound_block, s));
  verify_candidates(s, slots);
  if (!set_reach(s)) return EMBED_OK;
  EMBED__TRY(count_found(ctx, s));
  const int64_t found = atomic_load(&s->found);
  if (found > s->sketch->most) return EMBED_OK;
  EMBED__TRY(embed__run(ctx, s->n * s->blocks, verify_block, s));
  for (int64_t i = 0; i < s->n; ++i)
    for (int32_t slot = 0; slot < slots; ++slot) embed__topk_merge(&s->tops[i], &s->heaps[slot * s->n + i]);
  *verified = s->n * s->candidates + found;
  return EMBED_OK;
}

/* ---- when it pays ---- */

/* Every search moves the average towards its cost, so that all that is lost by searching while the average is at most one is
 * bounded by MEMORY plain sweeps; above, one call in PROBE searches: 0.6 / 17, 4 % on average. */
static bool is_worth(embed__sketch *k) {
  if (k->share > MOST_SHARE) return false;
  if (atomic_load_explicit(&k->average, memory_order_relaxed) <= EMBED__SKETCH_ONE) return true;
  return atomic_fetch_add_explicit(&k->waited, 1, memory_order_relaxed) % PROBE == PROBE - 1;
}

static void learn(embed__sketch *k, const search *s, int64_t verified) {
  const double alone = (double)VERIFIED_COST * FREE_HIDDEN * (double)verified / ((double)s->rows.table->vocab * (double)embed__max(FREE_HIDDEN, s->n));
  const double cost = (double)k->share / EMBED__SKETCH_ONE + (verified < 0 ? 1 : alone);
  const int32_t before = atomic_load_explicit(&k->average, memory_order_relaxed);
  atomic_store_explicit(&k->average, before + (int32_t)(cost * EMBED__SKETCH_ONE - before) / MEMORY, memory_order_relaxed);
  atomic_fetch_add_explicit(&k->bytes_read, (int64_t)k->bytes + embed__max(0, verified) * s->rows.table->packed_bytes, memory_order_relaxed);
  if (verified < 0) return;
  atomic_fetch_add_explicit(&k->searches, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&k->verified, verified, memory_order_relaxed);
}

/* Hidden rows as floats, as the sweep takes them. */
static embed_status load_hidden(embed_context *ctx, search *s, const embed__sweep *sweep) {
  const embed_table *t = sweep->table;
  float *x;
  EMBED__TRY(embed__scratch_matrix(ctx, s->n, t->dim, sizeof *x, &x));
  for (int64_t i = 0; i < s->n; ++i) {
    const int64_t row = sweep->rows ? sweep->rows[i] : i;
    embed__load_row(ctx->kernels, sweep->x + row * sweep->ldx * embed__float_bytes(sweep->x_dtype), sweep->x_dtype, x + i * t->dim, t->dim);
  }
  s->query.x = s->rows.x = x;
  s->query.ldx = s->rows.ldx = t->dim;
  s->query.n = s->n;
  return embed__scratch_get(ctx, ctx->kernels->sketch.x_bytes(s->n, t->dim), 1, &s->query.packed);
}

embed_status embed__certified_topk(embed_context *ctx, const embed_head *h, const embed__sweep *sweep, embed_nan_policy nan, embed__topk *tops,
                                   int64_t *refused, bool *answered) {
  embed__sketch *k = h->sketch;
  const embed_table *t = sweep->table;
  embed__sweep plan = *sweep;
  int64_t verified;
  *answered = false;
  if (!k || sweep->n < 1 || sweep->n > EMBED__SKETCH_HIDDEN || t->vocab == 0) return EMBED_OK;
  search s = {.head = h, .kernels = ctx->kernels, .sketch = k, .nan = nan, .tops = tops, .n = sweep->n, .refused = INT64_MAX};
  s.candidates = tops[0].capacity + embed__min(MORE_CANDIDATES, t->vocab - tops[0].capacity);
  if (tops[0].capacity < 1 || s.n * s.candidates > k->most) return EMBED_OK;
  if (2 * ctx->kernels->sketch.vector_bits < ctx->kernels->dot.vector_bits || !is_worth(k)) return EMBED_OK;
  EMBED__TRY(embed__plan_sweep(ctx, &plan));
  if (!embed__chosen_can(ctx, &plan)) return EMBED_OK;
  s.rows = (embed__chosen_rows){.kernels = ctx->kernels, .table = t, .plan = &plan};
  s.blocks = embed__ceil_div(t->vocab, EMBED__BLOCK);
  s.width = embed__ceil_div(t->vocab, EMBED__SKETCH_ROWS) * EMBED__SKETCH_ROWS;
  EMBED__TRY(load_hidden(ctx, &s, sweep));
  if (!embed__sketch_ask(ctx->kernels, k, t->dim, &s.query)) return EMBED_OK;
  EMBED__TRY(embed__chosen_begin(ctx, &s.rows, s.n));
  EMBED__TRY(run_search(ctx, &s, &verified));
  learn(k, &s, verified);
  if (verified < 0) return EMBED_OK;
  const int64_t least = atomic_load(&s.refused);
  if (least != INT64_MAX) *refused = least;
  *answered = true;
  return embed__pause(ctx, 1, 1);
}
