/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of certified search share: tables and hidden rows that are made to break it, and heads that are told to search whatever
 * it costs: share and most of a sketch are how that is decided. */
#ifndef TEST_SKETCH_H
#define TEST_SKETCH_H

#include "test.h"

#include <embed/embed.h>
#include <math.h>

#include "core/half.h"
#include "head/head.h"
#include "kernels/kernels.h"

#define OK(call) assert_int_equal((call), EMBED_OK)

enum { MOST_VOCAB = 1300, MOST_DIM = 600, MOST_N = 16, MOST_K = 40, ROWS = EMBED__SKETCH_ROWS };

/* ---- tables ---- */

typedef enum kind { NORMAL, NEAR_COMMON, DUPLICATES, ALL_ALIKE, WILD, HUGE_AND_TINY, SPARSE, SUBNORMAL, KINDS } kind;

static inline float normal(uint64_t *state) {
  float sum = 0;
  for (int i = 0; i < 6; ++i) sum += test_uniform(state);
  return sum * 0.7f;
}

static inline void wild_row(float *row, int64_t dim, uint64_t *state) {
  static const float values[] = {NAN, INFINITY, -INFINITY, 1e20f, -3e38f};
  row[test_random(state) % (uint64_t)dim] = values[test_random(state) % 5];
}

static inline void fill_row(kind k, float *rows, int64_t v, int64_t dim, uint64_t *state) {
  float *row = rows + v * dim;
  const bool copies = k == DUPLICATES && v > 0 && v % 3;
  for (int64_t j = 0; j < dim; ++j) {
    row[j] = normal(state);
    if (k == ALL_ALIKE) row[j] = 0.25f * (float)(j % 5);
    if (k == NEAR_COMMON) row[j] = (float)(j % 3) + 1e-5f * row[j];
    if (k == SPARSE && test_random(state) % 8) row[j] = 0;
    if (k == SUBNORMAL) row[j] *= 1e-40f;
    if (k == HUGE_AND_TINY) row[j] *= v % 4 == 0 ? 1e8f : v % 4 == 1 ? 1e-9f : v % 4 == 2 ? 0.0f : 1.0f;
  }
  if (copies) memcpy(row, rows + v % 2 * dim, (size_t)dim * sizeof *row);
  if (k == WILD && v % 50 == 7) wild_row(row, dim, state);
}

static inline embed_table *table_of(embed_context *ctx, kind k, embed_dtype dtype, int64_t vocab, int64_t dim, uint64_t *state) {
  embed_table_options o = {.size = sizeof o, .dtype = dtype};
  embed_table *t = NULL;
  float *rows = malloc((size_t)(vocab * dim) * sizeof *rows);
  assert_non_null(rows);
  for (int64_t v = 0; v < vocab; ++v) fill_row(k, rows, v, dim, state);
  OK(embed_table_create(ctx, vocab, dim, &o, &t));
  int64_t *ids = malloc((size_t)vocab * sizeof *ids);
  for (int64_t v = 0; v < vocab; ++v) ids[v] = v;
  OK(embed_table_set_rows(ctx, t, ids, vocab, rows, EMBED_F32, 0, NULL));
  free(ids);
  free(rows);
  return t;
}

/* Sums of codes and scales that cannot hold what is not finite. */
static inline bool holds_any(embed_dtype dtype) { return dtype == EMBED_F32 || dtype == EMBED_BF16 || dtype == EMBED_F16; }

/* ---- hidden rows ---- */

/* What the sketch leaves over of a row: the direction in which the bound by norms is met. */
static inline void residual(embed_context *ctx, const embed_head *h, int64_t v, float *out) {
  const embed__sketch *s = h->sketch;
  const int64_t dim = h->table->dim;
  const unsigned char *panel = s->panels + v / ROWS * s->panel_bytes;
  OK(embed_table_get_rows(ctx, h->table, &v, 1, out, EMBED_F32, 0));
  for (int64_t j = 0; j < dim; ++j) {
    const unsigned char *group = panel + embed__sketch_scale_bytes(dim) + j / 16 * 192 + 4 * (v % ROWS) + j % 4;
    const int64_t line = j % 16 / 4;
    const int u = line < 3 ? group[64 * line] & 63 : (group[0] >> 6) * 16 + (group[64] >> 6) * 4 + (group[128] >> 6);
    uint16_t half;
    memcpy(&half, panel + 2 * (j / 64 * ROWS + v % ROWS), sizeof half);
    out[j] -= s->mean[j] + embed__f32_of_bf16(half) * (float)(u - EMBED__SKETCH_ZERO);
  }
}

enum { ORDINARY, ALONG_RESIDUAL, ALONG_ROW, OUTLIER, UNBOUNDED, TINY_PARTS, X_KINDS };

static inline void fill_hidden(embed_context *ctx, const embed_head *h, float *x, uint64_t *state) {
  const int64_t dim = h->table->dim, v = (int64_t)(test_random(state) % (uint64_t)h->table->vocab);
  const int how = (int)(test_random(state) % X_KINDS);
  static const float unbounded[] = {NAN, INFINITY, 1e-20f, 1e12f, 0};
  for (int64_t j = 0; j < dim; ++j) x[j] = normal(state);
  if (how == ALONG_RESIDUAL) residual(ctx, h, v, x);
  if (how == ALONG_ROW) OK(embed_table_get_rows(ctx, h->table, &v, 1, x, EMBED_F32, 0));
  if (how == OUTLIER) x[test_random(state) % (uint64_t)dim] *= 3000;
  if (how == UNBOUNDED && test_random(state) % 4 == 0) {
    const float value = unbounded[test_random(state) % 5];
    for (int64_t j = 0; j < dim; ++j) x[j] = isfinite(value) ? x[j] * value : j % 7 ? x[j] : value;
  }
  for (int64_t j = 0; j < dim && how == TINY_PARTS; ++j)
    if (j % 3) x[j] *= j % 3 == 1 ? 1e-39f : 1e-12f;
  if (test_random(state) % 4 == 0)
    for (int64_t j = 0; j < dim; ++j) x[j] = -x[j];
}

/* ---- heads ---- */

typedef struct pair {
  embed_head *plain, *certified;
} pair;

static inline pair heads_of(embed_context *ctx, const embed_table *t, const float *bias, embed_head_options o) {
  pair p = {NULL, NULL};
  o.size = sizeof o;
  OK(embed_head_create(ctx, t, bias, &o, &p.plain));
  o.flags |= EMBED_HEAD_SKETCH;
  OK(embed_head_create(ctx, t, bias, &o, &p.certified));
  p.certified->sketch->share = -1000 * EMBED__SKETCH_ONE; /* always worth it, */
  p.certified->sketch->average = p.certified->sketch->share;
  p.certified->sketch->most = 64 * t->vocab; /* and never too many */
  return p;
}

static inline void pair_free(pair p) {
  embed_head_release(p.plain);
  embed_head_release(p.certified);
}

static inline int64_t searches(embed_context *ctx, const embed_head *h) {
  embed_head_info info = {.size = sizeof info};
  OK(embed_head_describe(ctx, h, &info));
  return info.sketch_searches;
}

static inline void random_bias(float *bias, int64_t vocab, uint64_t *state) {
  static const float odd[] = {NAN, INFINITY, -INFINITY, 1e30f};
  for (int64_t v = 0; v < vocab; ++v) bias[v] = normal(state);
  if (test_random(state) % 3 == 0) bias[test_random(state) % (uint64_t)vocab] = odd[test_random(state) % 4];
}

static inline embed_head_options random_options(uint64_t *state) {
  static const float scales[] = {0, 0, 0.0625f, 3, 1e-30f, 1e30f}, caps[] = {0, 0, 30, 0.05f, 1e-20f};
  return (embed_head_options){.logit_scale = scales[test_random(state) % 6],
                              .logit_softcap = caps[test_random(state) % 5],
                              .flags = test_random(state) % 4 == 0 ? EMBED_HEAD_PREPARE : 0};
}

static const embed_dtype dtypes[] = {EMBED_F32, EMBED_BF16, EMBED_F16, EMBED_I8_ROW, EMBED_Q8_0, EMBED_F64, EMBED_Q4_K, EMBED_I4_GROUP, EMBED_Q6_K};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static inline int64_t fitting_dim(embed_dtype dtype, int64_t dim) {
  const int64_t block = dtype == EMBED_Q8_0 ? 32 : dtype == EMBED_Q4_K || dtype == EMBED_Q6_K ? 256 : 1;
  return (dim + block - 1) / block * block;
}

static inline embed_context *context_of(const char *level, int32_t threads, embed_pool **pool) {
  embed_context_options o = {.size = sizeof o, .isa = level};
  embed_context *ctx = NULL;
  *pool = NULL;
  if (threads > 1) OK(embed_pool_create(threads, pool));
  o.pool = *pool;
  OK(embed_context_create(&o, &ctx));
  return ctx;
}

#endif
