/* SPDX-License-Identifier: BSD-3-Clause */
/* Certified search: the bounds hold, and its answers are the bits of the plain sweep. */
#include "sketch.h"

/* ---- certified beside plain ---- */

typedef struct found {
  int32_t ids[MOST_N * MOST_K], count[MOST_N];
  float logits[MOST_N * MOST_K];
  embed_status status;
  int64_t at;
} found;

static void find(embed_context *ctx, const embed_head *h, const void *x, embed_dtype dtype, int64_t n, int32_t k, embed_nan_policy nan, found *f) {
  const embed_sweep_options o = {.size = sizeof o, .nan = nan};
  memset(f, 0x5A, sizeof *f);
  f->status = embed_topk(ctx, h, x, dtype, n, 0, k, f->ids, f->logits, NULL, f->count, &o);
  f->at = embed_error_at(ctx);
}

static void same_answers(const found *plain, const found *certified, int64_t n, int32_t k) {
  assert_int_equal(plain->status, certified->status);
  assert_int_equal(plain->at, certified->at);
  if (plain->status != EMBED_OK) return;
  assert_same_bits(certified->ids, plain->ids, (size_t)(n * k) * 4);
  assert_same_bits(certified->count, plain->count, (size_t)n * 4);
  for (int64_t j = 0; j < n * k; ++j) /* which NaN it is is open */
    if (!isnan(plain->logits[j]) || !isnan(certified->logits[j])) assert_same_bits(&certified->logits[j], &plain->logits[j], 4);
}

/* Some searches on one table; how many hidden rows. */
static int64_t check_table(embed_context *ctx, int round, int64_t *answered, uint64_t *state) {
  static float x[MOST_N * (MOST_DIM + 256)], bias[MOST_VOCAB];
  static uint16_t half[MOST_N * (MOST_DIM + 256)];
  static found plain, certified;
  const embed_dtype dtype = dtypes[round % DTYPES];
  const kind k = (kind)(test_random(state) % KINDS);
  const int64_t dim = fitting_dim(dtype, 1 + (int64_t)(test_random(state) % (test_random(state) % 4 ? 100 : MOST_DIM)));
  const int64_t vocab = 1 + (int64_t)(test_random(state) % (test_random(state) % 8 ? 300 : MOST_VOCAB));
  embed_table *t = table_of(ctx, !holds_any(dtype) && (k == WILD || k == HUGE_AND_TINY || k == SUBNORMAL) ? NORMAL : k, dtype, vocab, dim, state);
  const bool biased = test_random(state) % 3 == 0;
  random_bias(bias, vocab, state);
  pair p = heads_of(ctx, t, biased ? bias : NULL, random_options(state));
  int64_t cases = 0;
  for (int call = 0; call < 40; ++call) {
    const int64_t n = test_random(state) % 3 ? 1 : 1 + (int64_t)(test_random(state) % MOST_N);
    const int32_t top = (int32_t)(test_random(state) % (test_random(state) % 2 ? 3 : MOST_K));
    const bool short_x = test_random(state) % 4 == 0;
    for (int64_t i = 0; i < n; ++i) fill_hidden(ctx, p.certified, x + i * dim, state);
    for (int64_t j = 0; j < n * dim; ++j) half[j] = embed__bf16_of_f32(x[j]);
    const void *hidden = short_x ? (const void *)half : x;
    const embed_nan_policy nan = (embed_nan_policy)(test_random(state) % 3);
    find(ctx, p.plain, hidden, short_x ? EMBED_BF16 : EMBED_F32, n, top, nan, &plain);
    find(ctx, p.certified, hidden, short_x ? EMBED_BF16 : EMBED_F32, n, top, nan, &certified);
    same_answers(&plain, &certified, n, top);
    cases += n;
  }
  *answered += searches(ctx, p.certified);
  pair_free(p);
  embed_table_release(t);
  return cases;
}

#ifdef TEST_SANITIZED
enum { CASES = 3000, CASES_OF_LEVEL = 300 };
#else
enum { CASES = 180000, CASES_OF_LEVEL = 8000 };
#endif

static void check_cases(const char *level, int32_t threads, int64_t least, uint64_t seed) {
  embed_pool *pool;
  embed_context *ctx = context_of(level, threads, &pool);
  int64_t answered = 0, cases = 0, calls = 0;
  for (int round = 0; cases < least; ++round, calls += 40) cases += check_table(ctx, round, &answered, &seed);
  print_message("%s, %d threads: %lld hidden rows, %lld of %lld calls certified\n", embed_context_isa(ctx), (int)threads, (long long)cases, (long long)answered,
                (long long)calls);
  assert_true(answered > calls / 3 || 2 * ctx->kernels->sketch.vector_bits < ctx->kernels->dot.vector_bits); /* or it does not pay */
  embed_context_release(ctx);
  embed_pool_release(pool);
}

static void answers_are_the_bits_of_the_plain_sweep(void **state) {
  (void)state;
  check_cases(NULL, 1, CASES, 11);
}

static void so_are_they_at_every_level(void **state) {
  static const char *const levels[] = {TEST_LEVELS};
  (void)state;
  for (size_t l = 0; l < sizeof levels / sizeof *levels; ++l) check_cases(levels[l], 1, CASES_OF_LEVEL, 12 + l);
}

static void so_are_they_on_any_number_of_threads(void **state) {
  (void)state;
  check_cases(NULL, 2, CASES_OF_LEVEL, 21);
  check_cases(NULL, 7, CASES_OF_LEVEL, 22);
}

/* ---- the bounds themselves ---- */

static bool upper_bounds(embed_context *ctx, const embed__sketch *s, int64_t vocab, int64_t dim, const float *x, void *packed, float *upper) {
  float middle[MOST_VOCAB];
  embed__sketch_query q = {.x = x, .ldx = dim, .n = 1, .packed = packed};
  if (!embed__sketch_ask(ctx->kernels, s, dim, &q)) return false;
  ctx->kernels->sketch.multiply(s->panels, s->panel_bytes, vocab, packed, 1, dim, upper, vocab);
  embed__sketch_bounds(s, &q, 0, 0, vocab, NULL, upper, middle);
  for (int64_t v = 0; v < vocab; ++v) assert_true(isfinite(middle[v]) && !(middle[v] > upper[v]));
  return true;
}

static void check_bounds(embed_context *ctx, kind k, embed_dtype dtype, int64_t dim, uint64_t *state) {
  enum { VOCAB = 100, WIDTH = 112 };
  static float x[MOST_DIM + 256], upper[WIDTH], lower[WIDTH], logits[VOCAB], row[MOST_DIM + 256];
  embed_table *t = table_of(ctx, k, dtype, VOCAB, dim, state);
  pair p = heads_of(ctx, t, NULL, (embed_head_options){.flags = test_random(state) % 2 ? EMBED_HEAD_PREPARE : 0});
  const embed__sketch *s = p.certified->sketch;
  unsigned char *packed = aligned_alloc(64, (size_t)ctx->kernels->sketch.x_bytes(1, dim));
  for (int call = 0; call < 30; ++call) {
    fill_hidden(ctx, p.certified, x, state);
    if (!upper_bounds(ctx, s, VOCAB, dim, x, packed, upper)) continue;
    for (int64_t j = 0; j < dim; ++j) x[j] = -x[j];
    assert_true(upper_bounds(ctx, s, VOCAB, dim, x, packed, lower));
    for (int64_t j = 0; j < dim; ++j) x[j] = -x[j];
    for (int64_t v = 0; v < VOCAB; ++v) lower[v] = -lower[v];
    OK(embed_logits(ctx, p.plain, x, EMBED_F32, 1, 0, logits, 0, NULL));
    for (int64_t v = 0; v < VOCAB; ++v) {
      double exact = 0;
      OK(embed_table_get_rows(ctx, t, &v, 1, row, EMBED_F32, 0));
      for (int64_t j = 0; j < dim; ++j) exact += (double)row[j] * (double)x[j];
      if (isnan(exact) || isnan(logits[v])) {
        assert_true(!(lower[v] > -INFINITY) && !(upper[v] < INFINITY));
        continue;
      }
      assert_true((double)lower[v] <= exact && exact <= (double)upper[v]);
      assert_true(lower[v] <= logits[v] && logits[v] <= upper[v]);
    }
  }
  free(packed);
  pair_free(p);
  embed_table_release(t);
}

static void bounds_hold_for_the_exact_product_and_the_plain_one(void **state) {
  static const char *const levels[] = {TEST_LEVELS};
  uint64_t seed = 31;
  (void)state;
  for (size_t l = 0; l < sizeof levels / sizeof *levels; ++l) {
    embed_pool *pool;
    embed_context *ctx = context_of(levels[l], 1, &pool);
    for (int round = 0; round < 8 * KINDS * 3; ++round)
      check_bounds(ctx, (kind)(round % KINDS), (embed_dtype[]){EMBED_F32, EMBED_BF16, EMBED_F16}[round / KINDS % 3],
                   1 + (int64_t)(test_random(&seed) % (uint64_t)(round % 4 ? 130 : MOST_DIM)), &seed);
    for (int round = 0; round < 20; ++round) check_bounds(ctx, NORMAL, dtypes[3 + round % 2], 32 * (1 + (int64_t)round), &seed);
    embed_context_release(ctx);
  }
}

/* Along what is left over of its row, a product uses up nearly all of the norms' bound: a smaller radius would be wrong. */
static void the_radius_is_no_larger_than_it_must_be(void **state) {
  enum { VOCAB = 64, DIM = 256 };
  static float x[DIM], upper[VOCAB], lower[VOCAB];
  uint64_t seed = 41;
  (void)state;
  embed_pool *pool;
  embed_context *ctx = context_of(NULL, 1, &pool);
  embed_table *t = table_of(ctx, NORMAL, EMBED_F32, VOCAB, DIM, &seed);
  pair p = heads_of(ctx, t, NULL, (embed_head_options){0});
  void *packed = aligned_alloc(64, (size_t)ctx->kernels->sketch.x_bytes(1, DIM));
  for (int64_t v = 0; v < VOCAB; ++v) {
    residual(ctx, p.certified, v, x);
    assert_true(upper_bounds(ctx, p.certified->sketch, VOCAB, DIM, x, packed, upper));
    for (int j = 0; j < DIM; ++j) x[j] = -x[j];
    assert_true(upper_bounds(ctx, p.certified->sketch, VOCAB, DIM, x, packed, lower));
    for (int j = 0; j < DIM; ++j) x[j] = -x[j];
    lower[v] = -lower[v];
    double exact = 0, middle = ((double)upper[v] + (double)lower[v]) / 2, off = ((double)upper[v] - (double)lower[v]) / 2;
    float row[DIM];
    OK(embed_table_get_rows(ctx, t, &v, 1, row, EMBED_F32, 0));
    for (int j = 0; j < DIM; ++j) exact += (double)row[j] * (double)x[j];
    assert_true(exact - middle > 0.9 * off && exact <= (double)upper[v]);
  }
  free(packed);
  pair_free(p);
  embed_table_release(t);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(answers_are_the_bits_of_the_plain_sweep), cmocka_unit_test(so_are_they_at_every_level),
    cmocka_unit_test(so_are_they_on_any_number_of_threads),    cmocka_unit_test(bounds_hold_for_the_exact_product_and_the_plain_one),
    cmocka_unit_test(the_radius_is_no_larger_than_it_must_be),
};
TEST_MAIN(tests)
