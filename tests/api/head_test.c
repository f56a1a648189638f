/* SPDX-License-Identifier: BSD-3-Clause */
/* The sweep side: logits, top-k and log-sum-exp against float64 and against each other. */
#include "test.h"

#include <embed/embed.h>
#include <float.h>
#include <math.h>

static embed_context *context(const char *isa, embed_pool *pool, uint32_t flags) {
  embed_context_options o = {.size = sizeof o, .isa = isa, .pool = pool, .flags = flags};
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
  return ctx;
}

static embed_table *view(embed_context *ctx, const float *w, int64_t rows, int64_t dim, int64_t vocab) {
  embed_table_options o = {.size = sizeof o, .vocab = vocab};
  embed_table *t = NULL;
  assert_int_equal(embed_table_view(ctx, w, rows, dim, &o, NULL, NULL, &t), EMBED_OK);
  return t;
}

static embed_head *head(embed_context *ctx, const embed_table *t, const float *bias, float scale, float cap) {
  embed_head_options o = {.size = sizeof o, .logit_scale = scale, .logit_softcap = cap};
  embed_head *h = NULL;
  assert_int_equal(embed_head_create(ctx, t, bias, &o, &h), EMBED_OK);
  return h;
}

/* A head of one column: with hidden = 1 its logits are these values. */
typedef struct plain {
  embed_table *t;
  embed_head *h;
} plain;

static plain logits_as(embed_context *ctx, const float *values, int64_t vocab, float cap) {
  plain p;
  p.t = view(ctx, values, vocab, 1, 0);
  p.h = head(ctx, p.t, NULL, 0, cap);
  return p;
}

static void done(plain p) {
  embed_head_release(p.h);
  embed_table_release(p.t);
}

static const float one = 1;

static void pipeline_is_bias_then_scale_then_softcap(void **state) { /* D1b */
  (void)state;
  const float w[5][4] = {{.2f, -.4f, .6f, 1}, {1, 1, 1, 1}, {-3, 2, .5f, .25f}, {20, 10, -20, 30}, {0, 0, 0, 0}};
  const float b[5] = {.1f, -.2f, .3f, 0, 1}, x[4] = {1, .5f, -1, 2};
  /* -.4 * .5 + ... : the KAT's z */
  const double z[5] = {1.5, 2.3, -1.7, 105, 1}, scaled[5] = {.09375, .14375, -.10625, 6.5625, .0625};
  const double capped[5] = {1.4987512487363992, 2.295504273360788, -1.6981827045497278, 29.945336928335962, .9996297941646859};
  embed_context *ctx = context(NULL, NULL, 0);
  embed_table *t = view(ctx, &w[0][0], 5, 4, 0);
  const struct {
    float scale, cap, lse;
    const double *want;
  } cases[] = {{0, 0, 105, z}, {.0625f, 0, 0, scaled}, {0, 30, 29.94533692833767f, capped}};
  for (int c = 0; c < 3; ++c) {
    float got[5], best[2], lse;
    int32_t ids[2];
    embed_head *h = head(ctx, t, b, cases[c].scale, cases[c].cap);
    assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 0, got, 0, NULL), EMBED_OK);
    for (int v = 0; v < 5; ++v) assert_true(fabs((double)got[v] - cases[c].want[v]) <= 2e-6 * fabs(cases[c].want[v]) + 1e-7);
    assert_int_equal(embed_topk(ctx, h, x, EMBED_F32, 1, 0, 2, ids, best, &lse, NULL, NULL), EMBED_OK);
    assert_int_equal(ids[0], 3);
    assert_int_equal(ids[1], 1);
    if (cases[c].lse != 0) assert_true(fabsf(lse - cases[c].lse) < 1e-5f);
    embed_head_release(h);
  }
  embed_table_release(t);
  embed_context_release(ctx);
}

static void softcap_is_applied_once_in_fp32(void **state) { /* HD-11 */
  (void)state;
  const float values[4] = {0, 30, 60, -90};
  const double want[4] = {0, 22.84782, 28.92083, -29.85164};
  embed_context *ctx = context(NULL, NULL, 0);
  plain p = logits_as(ctx, values, 4, 30), raw = logits_as(ctx, values, 4, 0);
  float got[4];
  assert_int_equal(embed_logits(ctx, p.h, &one, EMBED_F32, 1, 0, got, 0, NULL), EMBED_OK);
  for (int i = 0; i < 4; ++i) assert_true(fabs((double)got[i] - want[i]) < 1e-5);
  assert_int_equal(embed_logits(ctx, raw.h, &one, EMBED_F32, 1, 0, got, 0, NULL), EMBED_OK);
  assert_memory_equal(got, values, sizeof got);
  done(p);
  done(raw);
  embed_context_release(ctx);
}

static void saturated_logits_tie_by_id(void **state) {
  (void)state;
  const float values[4] = {1000, 5000, 4000, 3}; /* tanh rounds to 1 for the first three */
  embed_context *ctx = context(NULL, NULL, 0);
  plain p = logits_as(ctx, values, 4, 30);
  int32_t ids[3];
  float best[3];
  assert_int_equal(embed_topk(ctx, p.h, &one, EMBED_F32, 1, 0, 3, ids, best, NULL, NULL, NULL), EMBED_OK);
  for (int i = 0; i < 3; ++i) assert_int_equal(ids[i], i);
  done(p);
  embed_context_release(ctx);
}

static void old_values_in_the_output_do_not_matter(void **state) { /* HD-01 */
  (void)state;
  const float w[6] = {1, 2, 3, 4, 5, 6}, x[2] = {1, 1}, want[3] = {3, 7, 11};
  embed_context *ctx = context(NULL, NULL, 0);
  embed_table *t = view(ctx, w, 3, 2, 0);
  embed_head_options o = {.size = sizeof o, .flags = EMBED_HEAD_BLAS};
  for (int blas = 0; blas < 2; ++blas) {
    embed_head *h = NULL;
    o.flags = blas ? EMBED_HEAD_BLAS : 0;
    assert_int_equal(embed_head_create(ctx, t, NULL, &o, &h), EMBED_OK);
    float z[3] = {NAN, NAN, NAN};
    embed_status s = embed_logits(ctx, h, x, EMBED_F32, 1, 0, z, 0, NULL);
    if (s != EMBED_E_UNSUPPORTED) { /* a build without OpenBLAS */
      assert_int_equal(s, EMBED_OK);
      assert_memory_equal(z, want, sizeof z);
    }
    float untouched = NAN;
    assert_int_equal(embed_logits(ctx, h, NULL, EMBED_F32, 0, 0, &untouched, 0, NULL), EMBED_OK);
    assert_true(isnan(untouched));
    embed_head_release(h);
  }
  embed_table_release(t);
  embed_context_release(ctx);
}

static void integer_products_are_exact_at_every_shape(void **state) { /* HD-03 */
  (void)state;
  static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 48, 49, 63, 64, 65};
  enum { COUNT = sizeof sizes / sizeof *sizes, MOST = 65 };
  static float x[MOST * MOST], w[MOST * MOST], z[MOST * MOST];
  uint64_t seed = 5;
  for (int i = 0; i < MOST * MOST; ++i) {
    x[i] = (float)(int)(test_random(&seed) % 17) - 8;
    w[i] = (float)(int)(test_random(&seed) % 17) - 8;
  }
  static const char *const levels[] = {TEST_LEVELS, NULL};
  enum { LEVELS = sizeof levels / sizeof *levels };
  embed_context *contexts[LEVELS];
  for (int c = 0; c < LEVELS; ++c) contexts[c] = context(levels[c], NULL, 0);
  for (int c = 0; c < LEVELS; ++c)
    for (int a = 0; a < COUNT; ++a)
      for (int b = 0; b < COUNT; ++b)
        for (int e = 0; e < COUNT; ++e) {
          if (levels[c] && (a + b + e) % 5) continue; /* every shape at the best level, a fifth of them at the others */
          int n = sizes[a], vocab = sizes[b], dim = sizes[e];
          embed_table *t = view(contexts[c], w, vocab, dim, 0);
          embed_head *h = head(contexts[c], t, NULL, 0, 0);
          assert_int_equal(embed_logits(contexts[c], h, x, EMBED_F32, n, 0, z, 0, NULL), EMBED_OK);
          for (int i = 0; i < n; ++i)
            for (int v = 0; v < vocab; ++v) {
              double sum = 0;
              for (int j = 0; j < dim; ++j) sum += (double)x[i * dim + j] * (double)w[v * dim + j];
              assert_true((double)z[i * vocab + v] == sum);
            }
          embed_head_release(h);
          embed_table_release(t);
        }
  for (int c = 0; c < LEVELS; ++c) embed_context_release(contexts[c]);
}

static void identity_gives_the_hidden_state_back(void **state) { /* HD-03 */
  (void)state;
  static float x[45 * 33], w[33 * 33], z[45 * 33];
  for (int i = 0; i < 45 * 33; ++i) x[i] = (float)i;
  for (int i = 0; i < 33; ++i) w[i * 34] = 1;
  embed_context *ctx = context(NULL, NULL, 0);
  embed_table *t = view(ctx, w, 33, 33, 0);
  embed_head *h = head(ctx, t, NULL, 0, 0);
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 45, 0, z, 0, NULL), EMBED_OK);
  assert_memory_equal(z, x, sizeof z);
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
}

static void more_rows_than_two_to_the_23(void **state) { /* HD-05 */
  (void)state;
  enum { VOCAB = 8388609 };
  embed_context *ctx = context(NULL, NULL, 0);
  embed_table *t = NULL;
  embed_table_options o = {.size = sizeof o, .dtype = EMBED_BF16};
  assert_int_equal(embed_table_create(ctx, VOCAB, 4, &o, &t), EMBED_OK);
  embed_init_options ones = {.size = sizeof ones, .kind = EMBED_INIT_CONSTANT, .scale = 1};
  assert_int_equal(embed_table_init(ctx, t, &ones), EMBED_OK);
  embed_head *h = head(ctx, t, NULL, 0, 0);
  const float x[4] = {1, 1, 1, 1};
  float *z = malloc(sizeof *z * VOCAB);
  assert_non_null(z);
  memset(z, 0xFF, sizeof *z * VOCAB);
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 0, z, 0, NULL), EMBED_OK);
  int64_t wrong = 0;
  for (int64_t v = 0; v < VOCAB; ++v) wrong += z[v] != 4;
  assert_int_equal(wrong, 0);
  int32_t id;
  float best, lse;
  assert_int_equal(embed_topk(ctx, h, x, EMBED_F32, 1, 0, 1, &id, &best, &lse, NULL, NULL), EMBED_OK);
  assert_int_equal(id, 0);
  assert_true(fabs((double)lse - (4 + log((double)VOCAB))) < 1e-5);
  free(z);
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
}

static void logits_keep_what_bf16_would_lose(void **state) { /* HD-09 */
  (void)state;
  enum { DIM = 4096 };
  static float w[2 * DIM], x[DIM];
  for (int i = 0; i < 2 * DIM; ++i) w[i] = 1;
  for (int i = 0; i < DIM; ++i) x[i] = 1;
  w[DIM] = 3;
  static const char *const levels[] = {TEST_LEVELS, NULL};
  for (size_t l = 0; l < sizeof levels / sizeof *levels; ++l) {
    embed_context *ctx = context(levels[l], NULL, 0);
    embed_table *f = view(ctx, w, 2, DIM, 0), *t = NULL;
    embed_table_options o = {.size = sizeof o, .dtype = EMBED_BF16};
    assert_int_equal(embed_table_convert(ctx, f, &o, &t), EMBED_OK);
    embed_head *h = head(ctx, t, NULL, 0, 0);
    float z[2];
    int32_t id;
    assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 0, z, 0, NULL), EMBED_OK);
    assert_true(z[0] == 4096 && z[1] == 4098);
    assert_int_equal(embed_topk(ctx, h, x, EMBED_F32, 1, 0, 1, &id, z, NULL, NULL, NULL), EMBED_OK);
    assert_int_equal(id, 1);
    embed_head_release(h);
    embed_table_release(t);
    embed_table_release(f);
    embed_context_release(ctx);
  }
}

static void padding_rows_never_win(void **state) { /* HD-13 */
  (void)state;
  const float w[8] = {-1, -2, -3, -4, -5, 0, 0, 0};
  embed_context *ctx = context(NULL, NULL, 0);
  embed_table *t = view(ctx, w, 8, 1, 5);
  embed_head *h = head(ctx, t, NULL, 0, 0);
  int32_t ids[8], count = -1;
  float best[8];
  assert_int_equal(embed_head_vocab(h), 5);
  assert_int_equal(embed_topk(ctx, h, &one, EMBED_F32, 1, 0, 8, ids, best, NULL, &count, NULL), EMBED_OK);
  assert_int_equal(count, 5);
  for (int i = 0; i < 8; ++i) {
    assert_int_equal(ids[i], i < 5 ? i : -1);
    assert_true(i < 5 ? best[i] == w[i] : best[i] == -INFINITY);
  }
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
}

/* ---- ranking: D2, D3, TK ---- */

static embed_status rank(embed_context *ctx, const float *values, int64_t vocab, int32_t k, embed_nan_policy nan, int32_t *ids, float *best, float *lse,
                         int32_t *count) {
  plain p = logits_as(ctx, values, vocab, 0);
  embed_sweep_options o = {.size = sizeof o, .nan = nan};
  embed_status s = embed_topk(ctx, p.h, &one, EMBED_F32, 1, 0, k, ids, best, lse, count, &o);
  done(p);
  return s;
}

static void ranking_is_by_value_then_id(void **state) { /* D3, TK-03, TK-05 */
  (void)state;
  embed_context *ctx = context(NULL, NULL, 0);
  int32_t ids[7], count;
  float best[7], lse;
  const float a[5] = {1, 3, -INFINITY, 3, 2};
  assert_int_equal(rank(ctx, a, 5, 3, EMBED_NAN_MAX, ids, best, &lse, &count), EMBED_OK);
  assert_int_equal(ids[0], 1);
  assert_int_equal(ids[1], 3);
  assert_int_equal(ids[2], 4);
  assert_true(best[0] == 3 && best[1] == 3 && best[2] == 2);
  assert_int_equal(rank(ctx, a, 5, 7, EMBED_NAN_MAX, ids, best, NULL, &count), EMBED_OK);
  assert_int_equal(count, 5);
  assert_int_equal(ids[4], 2);
  assert_true(best[4] == -INFINITY);
  assert_int_equal(ids[5], -1);
  const float zeros[2] = {-0.0f, 0.0f};
  assert_int_equal(rank(ctx, zeros, 2, 2, EMBED_NAN_MAX, ids, best, NULL, NULL), EMBED_OK);
  assert_int_equal(ids[0], 0);
  assert_int_equal(ids[1], 1);
  const float tie[4] = {3, 5, 5, 1};
  assert_int_equal(rank(ctx, tie, 4, 2, EMBED_NAN_MAX, ids, best, NULL, NULL), EMBED_OK);
  assert_int_equal(ids[0], 1);
  assert_int_equal(ids[1], 2);
  assert_int_equal(rank(ctx, tie, 4, 0, EMBED_NAN_MAX, NULL, NULL, &lse, &count), EMBED_OK);
  assert_int_equal(count, 0);
  assert_true(fabs((double)lse - (5 + log(2 + exp(-2.0) + exp(-4.0)))) < 1e-6);
  static float many[40001];
  assert_int_equal(rank(ctx, many, 40001, 3, EMBED_NAN_MAX, ids, best, &lse, NULL), EMBED_OK);
  for (int i = 0; i < 3; ++i) assert_int_equal(ids[i], i);
  assert_true(fabs((double)lse - log(40001.0)) < 1e-6);
  embed_context_release(ctx);
}

static void nan_follows_the_policy(void **state) { /* D3, TK-01 */
  (void)state;
  embed_context *ctx = context(NULL, NULL, 0);
  int32_t ids[5];
  float best[5], lse;
  const float a[5] = {1, 3, NAN, 3, 2};
  assert_int_equal(rank(ctx, a, 5, 3, EMBED_NAN_MAX, ids, best, &lse, NULL), EMBED_OK);
  assert_int_equal(ids[0], 2);
  assert_int_equal(ids[1], 1);
  assert_int_equal(ids[2], 3);
  assert_true(isnan(best[0]) && isnan(lse));
  const float over[3] = {INFINITY, NAN, NAN};
  assert_int_equal(rank(ctx, over, 3, 3, EMBED_NAN_MAX, ids, best, NULL, NULL), EMBED_OK);
  assert_int_equal(ids[0], 1);
  assert_int_equal(ids[1], 2);
  assert_int_equal(ids[2], 0);
  assert_int_equal(rank(ctx, a, 5, 3, EMBED_NAN_ERROR, ids, best, NULL, NULL), EMBED_E_NONFINITE);
  assert_int_equal(embed_error_at(ctx), 0);
  assert_int_equal(rank(ctx, a, 5, 5, EMBED_NAN_IGNORE, ids, best, &lse, NULL), EMBED_OK);
  assert_int_equal(ids[0], 1);
  assert_int_equal(ids[4], 2);
  assert_true(best[4] == -INFINITY);
  assert_true(fabs((double)lse - (3 + log(2 + exp(-1.0) + exp(-2.0)))) < 1e-6);
  static float late[3000];
  for (int i = 0; i < 3000; ++i) late[i] = (float)(i % 7);
  late[2999] = NAN;
  assert_int_equal(rank(ctx, late, 3000, 2, EMBED_NAN_MAX, ids, best, NULL, NULL), EMBED_OK);
  assert_int_equal(ids[0], 2999);
  assert_int_equal(ids[1], 6);
  embed_context_release(ctx);
}

static void a_row_with_nothing_to_rank_is_an_error(void **state) { /* TK-07 */
  (void)state;
  embed_context *ctx = context(NULL, NULL, 0);
  int32_t ids[4];
  float best[4], lse;
  const float none[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, single[4] = {-INFINITY, 2, -INFINITY, -INFINITY};
  for (int policy = EMBED_NAN_MAX; policy <= EMBED_NAN_IGNORE; ++policy) {
    assert_int_equal(rank(ctx, none, 4, 2, policy, ids, best, &lse, NULL), EMBED_E_NONFINITE);
    assert_int_equal(embed_error_at(ctx), 0);
    assert_true(strlen(embed_error_text(ctx)) > 0);
  }
  assert_int_equal(rank(ctx, single, 4, 1, EMBED_NAN_MAX, ids, best, &lse, NULL), EMBED_OK);
  assert_int_equal(ids[0], 1);
  assert_true(lse == 2); /* its probability is 1 */
  const float nans[2] = {NAN, NAN};
  assert_int_equal(rank(ctx, nans, 2, 1, EMBED_NAN_MAX, ids, best, NULL, NULL), EMBED_OK);
  assert_int_equal(ids[0], 0);
  assert_int_equal(rank(ctx, nans, 2, 1, EMBED_NAN_IGNORE, ids, best, NULL, NULL), EMBED_E_NONFINITE);
  embed_context_release(ctx);
}

static void logsumexp_of_blocks(void **state) { /* D2 */
  (void)state;
  embed_context *ctx = context(NULL, NULL, 0);
  int32_t id;
  float best, lse;
  const float thousand[3] = {1000, 1001, 1002}, five[5] = {2, 1, .5f, .1f, -1}, infinite[3] = {INFINITY, 1, INFINITY};
  assert_int_equal(rank(ctx, thousand, 3, 1, EMBED_NAN_MAX, &id, &best, &lse, NULL), EMBED_OK);
  assert_true(fabs((double)lse - 1002.4076059644444) < 1e-4);
  assert_int_equal(rank(ctx, five, 5, 1, EMBED_NAN_MAX, &id, &best, &lse, NULL), EMBED_OK);
  assert_true(fabs((double)lse - 2.5824196710497693) < 1e-6);
  assert_int_equal(rank(ctx, infinite, 3, 1, EMBED_NAN_MAX, &id, &best, &lse, NULL), EMBED_OK);
  assert_true(lse == INFINITY);
  /* A vocabulary of many blocks, one of them all -inf, and magnitudes that overflow a plain sum. */
  static float many[5000];
  uint64_t seed = 3;
  double max = -INFINITY, sum = 0;
  for (int i = 0; i < 5000; ++i) {
    many[i] = i / 1024 == 1 ? -INFINITY : 100 * test_uniform(&seed);
    if ((double)many[i] > max) max = (double)many[i];
  }
  for (int i = 0; i < 5000; ++i) sum += exp((double)many[i] - max);
  assert_int_equal(rank(ctx, many, 5000, 1, EMBED_NAN_MAX, &id, &best, &lse, NULL), EMBED_OK);
  assert_true(fabs((double)lse - (max + log(sum))) < 1e-5);
  embed_context_release(ctx);
}

/* ---- every dtype, level, thread count, batch ---- */

static const struct {
  embed_dtype dtype;
  int32_t group;
} stored[] = {{EMBED_F32, 0},        {EMBED_F16, 0},    {EMBED_BF16, 0},   {EMBED_F64, 0},    {EMBED_I8_ROW, 0},  {EMBED_I4_GROUP, 32},
              {EMBED_I4_GROUP, 128}, {EMBED_U8_ROW, 0}, {EMBED_U4_ROW, 0}, {EMBED_U2_ROW, 0}, {EMBED_F8_E4M3, 0}, {EMBED_F8_E5M2, 0}};
enum { STORED = sizeof stored / sizeof *stored };

static embed_table *converted(embed_context *ctx, const embed_table *f, int which) {
  embed_table_options o = {.size = sizeof o, .dtype = stored[which].dtype, .group = stored[which].group};
  embed_table *t = NULL;
  assert_int_equal(embed_table_convert(ctx, f, &o, &t), EMBED_OK);
  return t;
}

enum { ROWS = 2100, VOCAB = 2077, DIM = 45, MOST = 530 };
static float w_all[ROWS * DIM], x_all[MOST * DIM], z_one[MOST * VOCAB], z_two[MOST * VOCAB], bias_all[VOCAB];

static void fill(void) {
  uint64_t seed = 11;
  for (int i = 0; i < ROWS * DIM; ++i) w_all[i] = i < VOCAB * DIM ? 0.1f * test_uniform(&seed) : 100;
  for (int i = 0; i < MOST * DIM; ++i) x_all[i] = 4 * test_uniform(&seed);
  for (int i = 0; i < VOCAB; ++i) bias_all[i] = test_uniform(&seed);
}

static void check_against_double(embed_context *ctx, const embed_table *t, int64_t n) {
  float *row = malloc(sizeof *row * DIM);
  for (int64_t v = 0; v < VOCAB; ++v) {
    assert_int_equal(embed_table_get_rows(ctx, t, &v, 1, row, EMBED_F32, 0), EMBED_OK);
    for (int64_t i = 0; i < n; i += 1 + n / 7) {
      double sum = 0, size = 0;
      for (int j = 0; j < DIM; ++j) {
        double product = (double)row[j] * (double)x_all[i * DIM + j];
        sum += product;
        size += fabs(product);
      }
      assert_true(fabs((double)z_one[i * VOCAB + v] - sum) <= 2e-6 * size);
    }
  }
  free(row);
}

static void products_are_within_fp32_accuracy(void **state) {
  (void)state;
  fill();
  static const char *const levels[] = {TEST_LEVELS, NULL};
  for (size_t l = 0; l < sizeof levels / sizeof *levels; ++l) {
    embed_context *ctx = context(levels[l], NULL, 0);
    embed_table *f = view(ctx, w_all, ROWS, DIM, VOCAB);
    for (int d = 0; d < STORED; ++d) {
      embed_table *t = converted(ctx, f, d);
      embed_head *h = head(ctx, t, NULL, 0, 0);
      const int64_t ns[] = {1, 5, 33};
      for (int c = 0; c < 3; ++c) {
        memset(z_one, 0xFF, sizeof z_one);
        assert_int_equal(embed_logits(ctx, h, x_all, EMBED_F32, ns[c], 0, z_one, 0, NULL), EMBED_OK);
        check_against_double(ctx, t, ns[c]);
      }
      embed_head_release(h);
      embed_table_release(t);
    }
    embed_table_release(f);
    embed_context_release(ctx);
  }
}

/* An executor that runs tasks backwards, on worker indices that jump about. */
static embed_status backwards(void *arg, int64_t n, embed_task *task, void *job) {
  ++*(int64_t *)arg;
  for (int64_t i = n - 1; i >= 0; --i) task(job, i, (int32_t)(i * 7 % 5));
  return 0;
}

static void threads_and_topk_give_the_bits_of_logits(void **state) {
  (void)state;
  fill();
  int64_t runs = 0;
  embed_executor executor = {.size = sizeof executor, .arg = &runs, .run = backwards, .workers = 5};
  embed_context_options with_executor = {.size = sizeof with_executor, .executor = &executor};
  embed_context *executed = NULL;
  assert_int_equal(embed_context_create(&with_executor, &executed), EMBED_OK);
  embed_pool *two = NULL, *seven = NULL;
  assert_int_equal(embed_pool_create(2, &two), EMBED_OK);
  assert_int_equal(embed_pool_create(7, &seven), EMBED_OK);
  embed_context *base = context(NULL, NULL, 0), *others[] = {context(NULL, two, 0), context(NULL, seven, 0), executed};
  embed_table *f = view(base, w_all, ROWS, DIM, VOCAB);
  const int64_t ns[] = {1, 2, 7, 31, 32, 33, 130, 513};
  static int32_t ids[MOST * 12], count[MOST];
  static float best[MOST * 12], lse[MOST], lse_one[MOST];
  for (int d = 0; d < STORED; ++d) {
    embed_table *t = converted(base, f, d);
    embed_head *h = head(base, t, bias_all, 0.5f, 30);
    for (int c = 0; c < 8; ++c) {
      int64_t n = ns[c];
      if (n > 64 && d > 2) continue;
      memset(z_one, 0xFF, sizeof z_one);
      assert_int_equal(embed_logits(base, h, x_all, EMBED_F32, n, 0, z_one, 0, NULL), EMBED_OK);
      assert_int_equal(embed_topk(base, h, x_all, EMBED_F32, n, 0, 12, ids, best, lse_one, count, NULL), EMBED_OK);
      for (int o = 0; o < 3; ++o) {
        memset(z_two, 0xFF, sizeof z_two);
        assert_int_equal(embed_logits(others[o], h, x_all, EMBED_F32, n, 0, z_two, 0, NULL), EMBED_OK);
        assert_memory_equal(z_one, z_two, (size_t)(n * VOCAB) * 4);
        assert_int_equal(embed_topk(others[o], h, x_all, EMBED_F32, n, 0, 12, ids, best, lse, count, NULL), EMBED_OK);
        assert_memory_equal(lse, lse_one, (size_t)n * 4);
        for (int64_t i = 0; i < n; ++i)
          for (int j = 0; j < 12; ++j) {
            assert_in_range(ids[i * 12 + j], 0, VOCAB - 1);
            assert_memory_equal(&best[i * 12 + j], &z_one[i * VOCAB + ids[i * 12 + j]], 4);
            int64_t above = 0;
            if (j == 11)
              for (int v = 0; v < VOCAB; ++v) above += z_one[i * VOCAB + v] > best[i * 12 + j];
            assert_true(above <= 11);
          }
      }
    }
    embed_head_release(h);
    embed_table_release(t);
  }
  embed_table_release(f);
  embed_context_release(base);
  for (int o = 0; o < 3; ++o) embed_context_release(others[o]);
  assert_true(runs > 0);
  embed_pool_release(two);
  embed_pool_release(seven);
}

static void reproducible_rows_do_not_depend_on_the_batch(void **state) {
  (void)state;
  fill();
  embed_context *ctx = context(NULL, NULL, EMBED_CONTEXT_REPRODUCIBLE);
  embed_table *f = view(ctx, w_all, ROWS, DIM, VOCAB);
  for (int d = 0; d < STORED; ++d) {
    embed_table *t = converted(ctx, f, d);
    embed_head *h = head(ctx, t, bias_all, 0, 0);
    assert_int_equal(embed_logits(ctx, h, x_all, EMBED_F32, 140, 0, z_one, 0, NULL), EMBED_OK);
    for (int64_t i = 0; i < 140; i += 9) {
      assert_int_equal(embed_logits(ctx, h, x_all + i * DIM, EMBED_F32, 1, 0, z_two, 0, NULL), EMBED_OK);
      assert_memory_equal(z_two, z_one + i * VOCAB, VOCAB * 4);
    }
    const int32_t ids[5] = {0, VOCAB - 1, 1023, 1024, 0};
    float at[140 * 5];
    assert_int_equal(embed_logits_at(ctx, h, x_all, EMBED_F32, 140, 0, ids, 5, at, 0, NULL), EMBED_OK);
    for (int64_t i = 0; i < 140; ++i)
      for (int j = 0; j < 5; ++j) assert_memory_equal(&at[i * 5 + j], &z_one[i * VOCAB + ids[j]], 4);
    embed_head_release(h);
    embed_table_release(t);
  }
  embed_table_release(f);
  embed_context_release(ctx);
}

static void hidden_of_half_width_is_read_exactly(void **state) {
  (void)state;
  fill();
  static uint16_t half[40 * DIM];
  static float wide[40 * DIM];
  embed_context *ctx = context(NULL, NULL, 0);
  embed_table *f = view(ctx, w_all, ROWS, DIM, VOCAB);
  embed_head *h = head(ctx, f, NULL, 0, 0);
  const embed_dtype types[] = {EMBED_F16, EMBED_BF16};
  for (int d = 0; d < 2; ++d) {
    embed_table *x = NULL, *source = view(ctx, x_all, 40, DIM, 0);
    embed_table_options o = {.size = sizeof o, .dtype = types[d]};
    assert_int_equal(embed_table_convert(ctx, source, &o, &x), EMBED_OK);
    memcpy(half, embed_table_data(x), sizeof half);
    for (int64_t i = 0; i < 40; ++i) assert_int_equal(embed_table_get_rows(ctx, x, &i, 1, wide + i * DIM, EMBED_F32, 0), EMBED_OK);
    const int64_t ns[] = {1, 40};
    for (int c = 0; c < 2; ++c) {
      assert_int_equal(embed_logits(ctx, h, half, types[d], ns[c], 0, z_one, 0, NULL), EMBED_OK);
      assert_int_equal(embed_logits(ctx, h, wide, EMBED_F32, ns[c], 0, z_two, 0, NULL), EMBED_OK);
      assert_memory_equal(z_one, z_two, (size_t)(ns[c] * VOCAB) * 4);
    }
    embed_table_release(x);
    embed_table_release(source);
  }
  embed_head_release(h);
  embed_table_release(f);
  embed_context_release(ctx);
}

static void strides_are_kept_and_nothing_else_is_written(void **state) {
  (void)state;
  fill();
  enum { LDX = DIM + 3, LDZ = VOCAB + 5, N = 37 };
  static float x[N * LDX], z[N * LDZ];
  embed_context *ctx = context(NULL, NULL, 0);
  embed_table *f = view(ctx, w_all, ROWS, DIM, VOCAB);
  embed_head *h = head(ctx, f, bias_all, 0, 0);
  memset(x, 0xFF, sizeof x); /* NaN between the rows */
  for (int i = 0; i < N; ++i) memcpy(x + i * LDX, x_all + i * DIM, DIM * 4);
  const int64_t ns[] = {1, 3, N};
  for (int c = 0; c < 3; ++c) {
    memset(z, 0xA5, sizeof z);
    assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, ns[c], LDX, z, LDZ, NULL), EMBED_OK);
    assert_int_equal(embed_logits(ctx, h, x_all, EMBED_F32, ns[c], 0, z_one, 0, NULL), EMBED_OK);
    for (int64_t i = 0; i < N; ++i) {
      if (i < ns[c]) assert_memory_equal(z + i * LDZ, z_one + i * VOCAB, VOCAB * 4);
      assert_true(test_all_bytes(z + i * LDZ + (i < ns[c] ? VOCAB : 0), (i < ns[c] ? LDZ - VOCAB : LDZ) * 4, 0xA5));
    }
  }
  embed_head_release(h);
  embed_table_release(f);
  embed_context_release(ctx);
}

static void the_last_row_may_end_at_the_last_byte(void **state) {
  (void)state;
  enum { V = 133, D = 19 };
  guarded wg = guarded_new(V * D * 4, 1), xg = guarded_new(40 * D * 4, 1), zg = guarded_new(40 * V * 4, 1);
  uint64_t seed = 2;
  for (int i = 0; i < V * D; ++i) ((float *)(void *)wg.at)[i] = test_uniform(&seed);
  for (int i = 0; i < 40 * D; ++i) ((float *)(void *)xg.at)[i] = test_uniform(&seed);
  embed_context *ctx = context(NULL, NULL, 0);
  embed_table *t = view(ctx, (const float *)(const void *)wg.at, V, D, 0);
  embed_head *h = head(ctx, t, NULL, 0, 0);
  for (int64_t n = 1; n <= 40; n += 3) {
    memset(zg.at, 0xFF, 40 * V * 4);
    float *z = (float *)(void *)(zg.at + (40 - n) * V * 4);
    const float *x = (const float *)(const void *)(xg.at + (40 - n) * D * 4);
    assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, n, 0, z, 0, NULL), EMBED_OK);
    for (int64_t i = 0; i < n * V; ++i) assert_true(z[i] == z[i]);
  }
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
  guarded_free(wg);
  guarded_free(xg);
  guarded_free(zg);
}

static void blas_heads_multiply_every_dtype(void **state) {
  (void)state;
  fill();
  embed_context *ctx = context(NULL, NULL, 0), *own = context(NULL, NULL, EMBED_CONTEXT_REPRODUCIBLE);
  embed_table *f = view(ctx, w_all, ROWS, DIM, VOCAB);
  for (int d = 0; d < STORED; ++d) {
    embed_table *t = converted(ctx, f, d);
    embed_head_options o = {.size = sizeof o, .flags = EMBED_HEAD_BLAS};
    embed_head *h = NULL;
    assert_int_equal(embed_head_create(ctx, t, bias_all, &o, &h), EMBED_OK);
    assert_int_equal(embed_logits(own, h, x_all, EMBED_F32, 3, 0, z_two, 0, NULL), EMBED_E_UNSUPPORTED);
    embed_status s = embed_logits(ctx, h, x_all, EMBED_F32, 3, 0, z_one, 0, NULL);
    if (s == EMBED_E_UNSUPPORTED) { /* built without OpenBLAS */
      embed_head_release(h);
      embed_table_release(t);
      break;
    }
    assert_int_equal(s, EMBED_OK);
    embed_head *plain_head = head(ctx, t, bias_all, 0, 0);
    assert_int_equal(embed_logits(own, plain_head, x_all, EMBED_F32, 3, 0, z_two, 0, NULL), EMBED_OK);
    for (int i = 0; i < 3 * VOCAB; ++i) assert_true(fabsf(z_one[i] - z_two[i]) < 2e-5f);
    embed_head_release(plain_head);
    embed_head_release(h);
    embed_table_release(t);
  }
  embed_table_release(f);
  embed_context_release(ctx);
  embed_context_release(own);
}

/* ---- handles and errors ---- */

static void tied_is_the_same_table(void **state) {
  (void)state;
  const float w[4] = {1, 2, 3, 4}, other[4] = {1, 2, 3, 4};
  embed_context *ctx = context(NULL, NULL, 0);
  embed_table *t = view(ctx, w, 2, 2, 0), *same = view(ctx, w, 2, 2, 0), *copy = view(ctx, other, 2, 2, 0);
  embed_head *h = head(ctx, t, bias_all, 0, 0);
  assert_ptr_equal(embed_head_table(h), t);
  assert_int_equal(embed_head_is_tied(h, t), 1);
  assert_int_equal(embed_head_is_tied(h, same), 1); /* the same storage */
  assert_int_equal(embed_head_is_tied(h, copy), 0);
  embed_head_info info = {.size = sizeof info};
  assert_int_equal(embed_head_describe(ctx, h, &info), EMBED_OK);
  assert_int_equal(info.vocab, 2);
  assert_int_equal(info.dim, 2);
  assert_int_equal(info.table_bytes, 16);
  assert_int_equal(info.extra_bytes, 8);
  assert_true(info.logit_scale == 1 && info.logit_softcap == 0);
  /* The head keeps its table when everyone else has let go of it. */
  embed_table_release(t);
  embed_table_release(same);
  embed_context_release(ctx);
  ctx = context(NULL, NULL, 0);
  float z[2];
  const float x[2] = {1, 1};
  embed_head *again = embed_head_retain(h);
  embed_head_release(h);
  assert_int_equal(embed_logits(ctx, again, x, EMBED_F32, 1, 0, z, 0, NULL), EMBED_OK);
  embed_head_release(again);
  embed_table_release(copy);
  embed_context_release(ctx);
}

static void bad_calls_name_what_is_wrong_and_write_nothing(void **state) {
  (void)state;
  const float w[6] = {1, 2, 3, 4, 5, 6}, x[2] = {1, 1};
  float z[3];
  int32_t ids[3] = {0, 3, 1};
  embed_context *ctx = context(NULL, NULL, 0);
  embed_table *t = view(ctx, w, 3, 2, 0);
  embed_head *h = head(ctx, t, NULL, 0, 0);
  memset(z, 0xA5, sizeof z);
  assert_int_equal(embed_logits(ctx, NULL, x, EMBED_F32, 1, 0, z, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_logits(NULL, h, x, EMBED_F32, 1, 0, z, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_logits(ctx, h, NULL, EMBED_F32, 1, 0, z, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 0, NULL, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, -1, 0, z, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 1, z, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 0, z, 2, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_logits(ctx, h, x, EMBED_I8_ROW, 1, 0, z, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, INT64_MAX / 4, 0, z, 0, NULL), EMBED_E_OVERFLOW);
  assert_int_equal(embed_logits_at(ctx, h, x, EMBED_F32, 1, 0, ids, 3, z, 0, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 1);
  assert_non_null(strstr(embed_error_text(ctx), "3"));
  assert_int_equal(embed_topk(ctx, h, x, EMBED_F32, 1, 0, -1, ids, z, NULL, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_topk(ctx, h, x, EMBED_F32, 1, 0, 2, NULL, z, NULL, NULL, NULL), EMBED_E_ARGUMENT);
  embed_sweep_options o = {.size = sizeof o, .activation = EMBED_F16};
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 0, z, 0, &o), EMBED_E_OPTION);
  o = (embed_sweep_options){.size = sizeof o, .nan = 7};
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 0, z, 0, &o), EMBED_E_OPTION);
  assert_true(test_all_bytes(z, sizeof z, 0xA5));
  /* Empty calls take any pointer. */
  assert_int_equal(embed_logits(ctx, h, (void *)8, EMBED_F32, 0, 0, (float *)8, 0, NULL), EMBED_OK);
  assert_int_equal(embed_logits_at(ctx, h, x, EMBED_F32, 1, 0, (int32_t *)1, 0, (float *)1, 0, NULL), EMBED_OK);
  assert_int_equal(embed_topk(ctx, h, (void *)1, EMBED_F32, 0, 0, 5, (int32_t *)1, (float *)1, NULL, NULL, NULL), EMBED_OK);
  assert_string_equal(embed_error_text(ctx), "");
  embed_head_options ho = {.size = sizeof ho};
  const uint32_t refused[] = {EMBED_HEAD_PREPARE | EMBED_HEAD_BLAS, EMBED_HEAD_SKETCH | EMBED_HEAD_BLAS, EMBED_HEAD_RAW, EMBED_HEAD_REQUIRE_TIED, 1u << 30};
  for (int i = 0; i < 5; ++i) {
    embed_head *none = (embed_head *)8;
    ho.flags = refused[i];
    assert_int_equal(embed_head_create(ctx, t, NULL, &ho, &none), EMBED_E_OPTION);
    assert_null(none);
  }
  embed_head_release(h);
  embed_head_release(NULL);
  embed_table_release(t);
  embed_context_release(ctx);
}

static int32_t stop_at_second(void *arg, int64_t steps, int64_t total) {
  int *calls = arg;
  assert_true(steps >= 1 && steps <= total);
  return ++*calls >= 2;
}

static void a_sweep_can_be_watched_and_stopped(void **state) {
  (void)state;
  fill();
  int calls = 0;
  int32_t cancel = 1;
  embed_context_options o = {.size = sizeof o, .progress = stop_at_second, .progress_arg = &calls};
  embed_context_options c = {.size = sizeof c, .cancel = &cancel};
  embed_context *watched = NULL, *cancelled = NULL;
  assert_int_equal(embed_context_create(&o, &watched), EMBED_OK);
  assert_int_equal(embed_context_create(&c, &cancelled), EMBED_OK);
  embed_table *t = view(watched, w_all, ROWS, DIM, VOCAB);
  embed_head *h = head(watched, t, NULL, 0, 0);
  assert_int_equal(embed_logits(watched, h, x_all, EMBED_F32, 513, 0, z_one, 0, NULL), EMBED_E_CANCELLED);
  assert_int_equal(calls, 2);
  assert_int_equal(embed_logits(cancelled, h, x_all, EMBED_F32, 1, 0, z_one, 0, NULL), EMBED_E_CANCELLED);
  cancel = 0;
  assert_int_equal(embed_logits(cancelled, h, x_all, EMBED_F32, 1, 0, z_one, 0, NULL), EMBED_OK);
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(watched);
  embed_context_release(cancelled);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pipeline_is_bias_then_scale_then_softcap),
      cmocka_unit_test(softcap_is_applied_once_in_fp32),
      cmocka_unit_test(saturated_logits_tie_by_id),
      cmocka_unit_test(old_values_in_the_output_do_not_matter),
      cmocka_unit_test(integer_products_are_exact_at_every_shape),
      cmocka_unit_test(identity_gives_the_hidden_state_back),
      cmocka_unit_test(more_rows_than_two_to_the_23),
      cmocka_unit_test(logits_keep_what_bf16_would_lose),
      cmocka_unit_test(padding_rows_never_win),
      cmocka_unit_test(ranking_is_by_value_then_id),
      cmocka_unit_test(nan_follows_the_policy),
      cmocka_unit_test(a_row_with_nothing_to_rank_is_an_error),
      cmocka_unit_test(logsumexp_of_blocks),
      cmocka_unit_test(products_are_within_fp32_accuracy),
      cmocka_unit_test(threads_and_topk_give_the_bits_of_logits),
      cmocka_unit_test(reproducible_rows_do_not_depend_on_the_batch),
      cmocka_unit_test(hidden_of_half_width_is_read_exactly),
      cmocka_unit_test(strides_are_kept_and_nothing_else_is_written),
      cmocka_unit_test(the_last_row_may_end_at_the_last_byte),
      cmocka_unit_test(blas_heads_multiply_every_dtype),
      cmocka_unit_test(tied_is_the_same_table),
      cmocka_unit_test(bad_calls_name_what_is_wrong_and_write_nothing),
      cmocka_unit_test(a_sweep_can_be_watched_and_stopped),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
