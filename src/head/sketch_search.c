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
  FEW_SCREENS = 8,      /* with noise, 2 us each */
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
  embed__sought *sought;         /* the caller's, [n] */
  embed__topk *heaps;            /* [slots, n]: of what the sketch takes for best, then of exact logits */
  embed__gumbel *draws;          /* the same, of rows that are drawn */
  int64_t n, candidates, blocks; /* candidates: of each hidden row that is not drawn */
  bool any_drawn;
  int64_t width;                     /* panels * 16 */
  float *upper;                      /* [n, width] */
  int32_t *ids;                      /* [n, candidates] */
  float reach[EMBED__SKETCH_HIDDEN]; /* least upper bound of a row that can be among the best */
  double best[EMBED__SKETCH_HIDDEN]; /* z / temperature + noise of the candidate of a row that is drawn */
  int64_t verified;                  /* candidates */
  _Atomic int64_t found;             /* rows that reach */
  _Atomic int64_t refused;
} search;

static int64_t columns_of(const search *s, int64_t block) { return embed__min(EMBED__BLOCK, s->rows.table->vocab - block * EMBED__BLOCK); }

static const int32_t *originals(const search *s, int64_t i, int64_t column) {
  const int32_t *original = s->sought[i].top.original;
  return original ? original + column : NULL;
}

static int32_t original_of(const search *s, int64_t i, int32_t column) {
  const int32_t *original = s->sought[i].top.original;
  return original ? original[column] : column;
}

/* A finished logit, for any y at or below `product`, is below this. tanhf is taken to be right to 2^-20. */
static float finished_bound(const embed_head *h, float product) {
  float z = product * h->scale;
  if (h->softcap > 0) z = h->softcap * tanhf(z / h->softcap);
  return h->softcap > 0 ? z + fabsf(z) * 0x1p-17f + 0x1p-149f : z;
}

/* Of bounds of products; no bound stays none. */
static void finish_bounds(const embed_head *h, float *upper, int64_t n) {
  if (h->scale == 1.0f && h->softcap == 0) return;
  for (int64_t c = 0; c < n; ++c)
    if (upper[c] < INFINITY) upper[c] = finished_bound(h, upper[c]);
}

/* Whether the bounds of a row are of finished logits, not of products. */
static bool is_finished(const embed__sought *sought) { return sought->sampler || sought->edits; }

/* Penalties and biases never turn the order of two logits of one id: a bound becomes the bound of what is left of them. A NaN that is an error is
 * one under a ban too. */
static void edit_bounds(const search *s, int64_t i, float *upper, float *middle, int64_t columns, int64_t column) {
  float before[EMBED__BLOCK];
  memcpy(before, upper, (size_t)columns * sizeof *upper);
  embed__edit_tile(s->sought[i].edits, middle, columns, column, originals(s, i, column));
  embed__edit_tile(s->sought[i].edits, upper, columns, column, originals(s, i, column));
  for (int64_t c = 0; c < columns && s->nan == EMBED_NAN_ERROR; ++c)
    if (!(before[c] < INFINITY)) upper[c] = before[c];
}

static void bound_block(void *arg, int64_t block, int32_t worker) {
  search *s = arg;
  const int64_t column = block * EMBED__BLOCK, columns = columns_of(s, block), bytes = s->sketch->panel_bytes;
  float middle[EMBED__BLOCK];
  s->kernels->sketch.multiply(s->sketch->panels + column / EMBED__SKETCH_ROWS * bytes, bytes, columns, s->query.packed, s->n, s->rows.table->dim,
                              s->upper + column, s->width);
  for (int64_t i = 0; i < s->n; ++i) {
    float *upper = s->upper + i * s->width + column;
    const embed__sampler *sampler = s->sought[i].sampler;
    embed__sketch_bounds(s->sketch, &s->query, i, column, columns, s->head->bias, upper, middle);
    if (is_finished(&s->sought[i])) {
      finish_bounds(s->head, upper, columns);
      embed__finish_biased(s->head, middle, columns);
      if (s->sought[i].edits) edit_bounds(s, i, upper, middle, columns, column);
    }
    if (sampler) {
      embed__gumbel_offer(s->kernels, sampler, &s->draws[worker * s->n + i], middle, columns, (int32_t)column, originals(s, i, column));
    } else {
      embed__topk_offer(s->kernels, &s->heaps[worker * s->n + i], middle, columns, (int32_t)column, NULL, 0);
    }
  }
}

/* Exact logits of some rows to a heap, and to the draw. */
static void verify(search *s, int64_t i, const int32_t *ids, int64_t count, int32_t worker) {
  embed__topk *top = &s->heaps[worker * s->n + i];
  embed__gumbel *drawn = &s->draws[worker * s->n + i];
  const embed__sampler *sampler = s->sought[i].sampler;
  const embed__edits *edits = s->sought[i].edits;
  float z[EMBED__CHOSEN];
  for (int64_t done = 0, some; done < count; done += some, ids += some) {
    some = embed__min(EMBED__CHOSEN, count - done);
    embed__chosen_products(&s->rows, i, ids, some, worker, z);
    for (int64_t j = 0; j < some; ++j) embed__finish_logits(s->head, z + j, some, 1, ids[j], 1);
    if (embed__apply_nan_policy(s->nan, z, some)) embed__keep_least(&s->refused, i);
    for (int64_t j = 0; j < some && edits; ++j) embed__edit_tile(edits, z + j, 1, ids[j], originals(s, i, ids[j]));
    for (int64_t j = 0; j < some; ++j)
      if (top->count < top->capacity || !(z[j] < top->entries[0].value)) embed__topk_offer(s->kernels, top, z + j, 1, ids[j], NULL, 0);
    for (int64_t j = 0; j < some && sampler; ++j) embed__gumbel_consider(sampler, drawn, z[j], ids[j], original_of(s, i, ids[j]));
  }
}

/* The best of a hidden row as the sketch has them, or the one that it would draw; how many. */
static int64_t take_candidates(search *s, int64_t i, int32_t slots, int32_t *ids) {
  embed__topk *best = &s->heaps[i];
  embed__gumbel *drawn = &s->draws[i];
  for (int32_t slot = 1; slot < slots; ++slot) {
    embed__topk_merge(best, &s->heaps[slot * s->n + i]);
    embed__gumbel_merge(drawn, &s->draws[slot * s->n + i]);
  }
  for (int64_t j = 0; j < best->count; ++j) ids[j] = best->entries[j].id;
  if (!s->sought[i].sampler) return best->count;
  ids[0] = drawn->column;
  return drawn->column >= 0;
}

/* Their exact logits; the second step does not find them again. Few: not worth other threads. */
static void verify_candidates(search *s, int32_t slots) {
  for (int64_t i = 0; i < s->n; ++i) {
    const embed__topk *sought = &s->sought[i].top;
    int32_t *ids = s->ids + i * s->candidates;
    const int64_t count = take_candidates(s, i, slots, ids);
    for (int64_t j = 0; j < count; ++j) s->upper[i * s->width + ids[j]] = -INFINITY;
    for (int32_t slot = 0; slot < slots; ++slot) {
      embed__topk *heap = &s->heaps[slot * s->n + i];
      *heap = (embed__topk){.entries = heap->entries, .capacity = sought->capacity, .original = sought->original, .numbers_only = sought->numbers_only};
      s->draws[slot * s->n + i] = embed__gumbel_start();
    }
    verify(s, i, ids, count, 0);
    s->verified += count;
  }
}

/* Rows that can be among the best, or drawn, the candidates apart. Of rows that are drawn infinity is left as the bound of those that can be, so
 * that they alone reach. */
static void count_block(void *arg, int64_t task, int32_t worker) {
  search *s = arg;
  const int64_t i = task / s->blocks, block = task % s->blocks, column = block * EMBED__BLOCK, columns = columns_of(s, block);
  const embed__sampler *sampler = s->sought[i].sampler;
  float *upper = s->upper + i * s->width + column;
  (void)worker;
  atomic_fetch_add(&s->found, sampler ? embed__gumbel_screen(s->kernels, sampler, s->best[i], upper, columns, (int32_t)column, originals(s, i, column))
                                      : s->kernels->reduce.count_at_least(upper, columns, s->reach[i]));
}

static embed_status count_found(embed_context *ctx, search *s) {
  const int64_t tasks = s->n * s->blocks;
  if (tasks > (s->any_drawn ? FEW_SCREENS : FEW_TASKS)) return embed__run(ctx, tasks, count_block, s);
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
  verify(s, i, index, count, worker);
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
  EMBED__TRY(embed__scratch_get(ctx, heaps, sizeof *s->draws, &s->draws));
  for (int64_t h = 0; h < heaps; ++h) {
    s->heaps[h] = (embed__topk){.entries = entries + h * s->candidates, .capacity = s->candidates};
    s->draws[h] = embed__gumbel_start();
  }
  return embed__scratch_matrix(ctx, s->n, s->candidates, sizeof *s->ids, &s->ids);
}

/* The k-th best so far of each hidden row tells which bounds reach; false where it does not. */
static bool set_reach(search *s) {
  for (int64_t i = 0; i < s->n; ++i) {
    const embed__topk *best = &s->heaps[i];
    s->best[i] = s->draws[i].best;
    if (s->sought[i].sampler) {
      s->reach[i] = INFINITY; /* what count_block leaves */
      if (!(s->best[i] > -INFINITY)) return false;
      continue;
    }
    const float worst = best->count < best->capacity ? -INFINITY : best->entries[0].value;
    s->reach[i] = !is_finished(&s->sought[i]) ? reach_of(s->head, worst) : isfinite(worst) ? worst : -INFINITY;
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
    for (int32_t slot = 0; slot < slots; ++slot) {
      embed__topk_merge(&s->sought[i].top, &s->heaps[slot * s->n + i]);
      embed__gumbel_merge(&s->sought[i].drawn, &s->draws[slot * s->n + i]);
    }
  *verified = s->verified + found;
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

embed_status embed__certified_search(embed_context *ctx, const embed_head *h, const embed__sweep *sweep, embed_nan_policy nan, embed__sought *rows,
                                     int64_t *refused, bool *answered) {
  embed__sketch *k = h->sketch;
  const embed_table *t = sweep->table;
  embed__sweep plan = *sweep;
  int64_t verified;
  *answered = false;
  if (!k || sweep->n < 1 || sweep->n > EMBED__SKETCH_HIDDEN || t->vocab == 0) return EMBED_OK;
  search s = {.head = h, .kernels = ctx->kernels, .sketch = k, .nan = nan, .sought = rows, .n = sweep->n, .refused = INT64_MAX};
  const int64_t capacity = rows[0].top.capacity;
  s.candidates = capacity + embed__min(MORE_CANDIDATES, t->vocab - capacity);
  if (capacity < 1 || s.n * s.candidates > k->most) return EMBED_OK;
  for (int64_t i = 0; i < s.n; ++i) s.any_drawn |= rows[i].sampler != NULL;
  if (2 * ctx->kernels->sketch.vector_bits < ctx->kernels->dot.vector_bits || !is_worth(k)) return EMBED_OK;
  EMBED__TRY(embed__plan_sweep(ctx, &plan));
  if (!embed__chosen_can(ctx, &plan)) return EMBED_OK;
  s.rows = (embed__chosen_rows){.kernels = ctx->kernels, .table = t, .plan = &plan};
  s.blocks = embed__ceil_div(t->vocab, EMBED__BLOCK);
  s.width = embed__ceil_div(t->vocab, EMBED__SKETCH_ROWS) * EMBED__SKETCH_ROWS;
  EMBED__TRY(load_hidden(ctx, &s, sweep));
  if (!embed__chosen_hold(&s.rows, s.n)) return EMBED_OK;
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
