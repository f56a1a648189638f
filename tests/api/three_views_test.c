/* SPDX-License-Identifier: BSD-3-Clause */
/* The card's central test: lookup by the scalar level = lookup by every other level and thread count = one-hot x W, for
 * every dtype; and embed_mix as the operation that it is. */
#include "test.h"

#include <embed/embed.h>
#include <math.h>

static const char *const levels[] = {TEST_LEVELS, NULL};
enum { LEVELS = sizeof levels / sizeof *levels, THREADS = 3 };

typedef struct machine {
  embed_pool *pools[THREADS];
  embed_context *ctx[LEVELS][THREADS];
  embed_context *reproducible;
} machine;

static embed_context *context(const char *isa, embed_pool *pool, uint32_t flags) {
  embed_context_options o = {.size = sizeof o, .isa = isa, .pool = pool, .flags = flags};
  embed_context *ctx = NULL;
  embed_status s = embed_context_create(&o, &ctx);
  assert_true(s == EMBED_OK || s == EMBED_E_OPTION); /* a level of another architecture */
  return ctx;
}

static machine start(void) {
  machine m;
  memset(&m, 0, sizeof m);
  assert_int_equal(embed_pool_create(2, &m.pools[1]), EMBED_OK);
  assert_int_equal(embed_pool_create(7, &m.pools[2]), EMBED_OK);
  for (int l = 0; l < LEVELS; ++l)
    for (int p = 0; p < THREADS; ++p) m.ctx[l][p] = context(levels[l], m.pools[p], 0);
  m.reproducible = context(NULL, m.pools[1], EMBED_CONTEXT_REPRODUCIBLE);
  return m;
}

static void stop(machine *m) {
  for (int l = 0; l < LEVELS; ++l)
    for (int p = 0; p < THREADS; ++p) embed_context_release(m->ctx[l][p]);
  embed_context_release(m->reproducible);
  for (int p = 1; p < THREADS; ++p) embed_pool_release(m->pools[p]);
}

static const struct {
  embed_dtype dtype;
  int32_t group;
} stored[] = {{EMBED_F32, 0},    {EMBED_F16, 0},    {EMBED_BF16, 0},   {EMBED_F64, 0},   {EMBED_I8_ROW, 0},  {EMBED_I4_GROUP, 32}, {EMBED_I4_GROUP, 64},
              {EMBED_U8_ROW, 0}, {EMBED_Q8_0, 0},   {EMBED_Q4_0, 0},   {EMBED_Q4_1, 0},  {EMBED_Q5_0, 0},    {EMBED_Q5_1, 0},      {EMBED_Q2_K, 0},
              {EMBED_Q3_K, 0},   {EMBED_Q4_K, 0},   {EMBED_Q5_K, 0},   {EMBED_Q6_K, 0},  {EMBED_F8_E4M3, 0}, {EMBED_F8_E5M2, 0},   {EMBED_U4_ROW, 0},
              {EMBED_U2_ROW, 0}, {EMBED_IQ4_NL, 0}, {EMBED_IQ4_XS, 0}, {EMBED_MXFP4, 0}, {EMBED_NVFP4, 0}};
enum { STORED = sizeof stored / sizeof *stored };

/* Finite, no -0.0: where the three views agree bit for bit. */
static float finite_value(uint64_t *seed) {
  float x = test_uniform(seed);
  return x == 0 ? 0.5f : x;
}

static int has_negative_zero(const float *x, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (x[i] == 0 && signbit(x[i])) return 1;
  return 0;
}

/* One-hot x W as a sparse product: the row of the single one, times one, plus zeros. */
static void sparse_one_hot(embed_context *ctx, const embed_table *t, const int32_t *ids, int64_t n, int64_t dim, float *out) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t id = ids[i];
    assert_int_equal(embed_table_get_rows(ctx, t, &id, 1, out + i * dim, EMBED_F32, 0), EMBED_OK);
    for (int64_t j = 0; j < dim; ++j) out[i * dim + j] = 0.0f + 1.0f * out[i * dim + j];
  }
}

static void compare_views(machine *m, const embed_table *t, int64_t n, uint64_t *seed) {
  int64_t vocab = embed_table_vocab(t), dim = embed_table_dim(t);
  size_t bytes = (size_t)(n * dim) * sizeof(float);
  int32_t *ids = malloc((size_t)(n + 1) * sizeof *ids);
  float *want = malloc(bytes + 4), *got = malloc(bytes + 4), *weights = calloc((size_t)(n * vocab + 1), sizeof *weights);
  assert_true(ids && want && got && weights);
  for (int64_t i = 0; i < n; ++i) ids[i] = (int32_t)(test_random(seed) % (uint64_t)vocab);
  if (n > 2) {
    ids[0] = 0;
    ids[1] = ids[2] = (int32_t)vocab - 1;
  }
  assert_int_equal(embed_lookup(m->ctx[0][0], t, ids, n, want, EMBED_F32, 0, NULL), EMBED_OK);
  for (int l = 0; l < LEVELS; ++l)
    for (int p = 0; p < THREADS; ++p) {
      if (!m->ctx[l][p]) continue;
      memset(got, 0xFF, bytes);
      assert_int_equal(embed_lookup(m->ctx[l][p], t, ids, n, got, EMBED_F32, 0, NULL), EMBED_OK);
      assert_memory_equal(got, want, bytes);
    }
  if (n <= 7) {
    sparse_one_hot(m->ctx[0][0], t, ids, n, dim, got);
    for (int64_t k = 0; k < n * dim; ++k) assert_true(got[k] == want[k]);
  }
  for (int64_t i = 0; i < n; ++i) weights[i * vocab + ids[i]] = 1;
  embed_context *mixers[] = {m->ctx[LEVELS - 1][0], m->ctx[LEVELS - 1][1], m->ctx[LEVELS - 1][2], m->ctx[0][0], m->reproducible};
  for (int c = 0; c < 5; ++c) {
    if (n * vocab * dim > 20000000 && c > 1) continue; /* the large products once with and once without threads */
    memset(got, 0xFF, bytes);
    assert_int_equal(embed_mix(mixers[c], t, weights, n, 0, got, 0, NULL), EMBED_OK);
    if (has_negative_zero(want, n * dim)) {
      for (int64_t k = 0; k < n * dim; ++k) assert_true(got[k] == want[k]);
    } else {
      assert_memory_equal(got, want, bytes);
    }
  }
  free(ids);
  free(want);
  free(got);
  free(weights);
}

/* Of the block dtypes, the dims that are whole blocks. */
static int has_dim(int which, int64_t dim) { return embed_row_bytes(stored[which].dtype, dim, 0) != EMBED_E_UNSUPPORTED; }

/* A table of this dtype whose last byte lies before an unreadable page, `shift` bytes off alignment. */
static void views_of(machine *m, int which, int64_t dim, size_t shift, const int64_t *ns, int count, uint64_t *seed) {
  int64_t vocab = dim > 700 ? 67 : 211;
  float *w = malloc((size_t)(vocab * dim) * sizeof *w);
  assert_non_null(w);
  for (int64_t k = 0; k < vocab * dim; ++k) w[k] = finite_value(seed);
  embed_table *f = NULL, *made = NULL, *t = NULL;
  embed_context *ctx = m->ctx[0][0];
  embed_table_options o = {.size = sizeof o, .dtype = stored[which].dtype, .group = stored[which].group};
  assert_int_equal(embed_table_view(ctx, w, vocab, dim, NULL, NULL, NULL, &f), EMBED_OK);
  assert_int_equal(embed_table_convert(ctx, f, &o, &made), EMBED_OK);
  size_t bytes = (size_t)(vocab * embed_table_row_bytes(made));
  guarded g = guarded_new(bytes + shift, 1);
  memcpy(g.at, embed_table_data(made), bytes);
  if (shift) memmove(g.at + shift, g.at, bytes);
  o.data_bytes = (int64_t)bytes;
  assert_int_equal(embed_table_view(ctx, g.at + shift, vocab, dim, &o, NULL, NULL, &t), EMBED_OK);
  for (int c = 0; c < count; ++c) compare_views(m, t, ns[c], seed);
  embed_table_release(t);
  embed_table_release(made);
  embed_table_release(f);
  guarded_free(g);
  free(w);
}

static void views_agree_for_every_dtype_and_small_dim(void **state) {
  (void)state;
  machine m = start();
  uint64_t seed = 17;
  const int64_t ns[] = {0, 1, 7};
  for (int d = 0; d < STORED; ++d)
    for (int64_t dim = 1; dim <= 67; ++dim)
      if (has_dim(d, dim)) views_of(&m, d, dim, 0, ns, 3, &seed);
  stop(&m);
}

static void views_agree_for_large_batches(void **state) {
  (void)state;
  machine m = start();
  uint64_t seed = 19;
  const int64_t ns[] = {512};
  const int64_t dims[] = {1, 3, 16, 31, 64, 67};
  for (int d = 0; d < STORED; ++d)
    for (int k = 0; k < 6; ++k)
      if (has_dim(d, dims[k])) views_of(&m, d, dims[k], 0, ns, 1, &seed);
  stop(&m);
}

static void views_agree_for_dims_of_models(void **state) {
  (void)state;
  machine m = start();
  uint64_t seed = 23;
  const int64_t ns[] = {1, 7, 512}, dims[] = {256, 576, 640, 768, 4096};
  for (int d = 0; d < STORED; ++d)
    for (int k = 0; k < 5; ++k)
      if (has_dim(d, dims[k])) views_of(&m, d, dims[k], 0, ns, 3, &seed);
  stop(&m);
}

static void views_agree_at_every_alignment(void **state) {
  (void)state;
  machine m = start();
  uint64_t seed = 29;
  const int64_t ns[] = {7};
  for (int d = 0; d < STORED; ++d)
    for (size_t shift = 0; shift < 64; ++shift) views_of(&m, d, has_dim(d, 45) ? 45 : has_dim(d, 96) ? 96 : 256, shift, ns, 1, &seed);
  stop(&m);
}

static void minus_zero_loses_its_sign_in_the_product_alone(void **state) { /* KAT A1 */
  (void)state;
  machine m = start();
  embed_context *ctx = m.ctx[LEVELS - 1][0];
  float w[9] = {1, -0.0f, 3, 2, 4, -5, 0x1p-149f, -7, 0}, got[9];
  const float identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  const int32_t ids[3] = {0, 1, 2};
  embed_table *t = NULL;
  assert_int_equal(embed_table_view(ctx, w, 3, 3, NULL, NULL, NULL, &t), EMBED_OK);
  embed_context *mixers[] = {ctx, m.ctx[0][0], m.reproducible};
  for (int c = 0; c < 3; ++c) {
    assert_int_equal(embed_lookup(mixers[c], t, ids, 3, got, EMBED_F32, 0, NULL), EMBED_OK);
    assert_memory_equal(got, w, sizeof w);
    assert_int_equal(embed_mix(mixers[c], t, identity, 3, 0, got, 0, NULL), EMBED_OK);
    assert_false(signbit(got[1]));
    for (int k = 0; k < 9; ++k) assert_true(got[k] == w[k]);
    assert_memory_equal(got + 2, w + 2, 7 * sizeof *w);
  }
  embed_table_release(t);
  stop(&m);
}

static void a_row_that_is_not_finite_poisons_the_product_alone(void **state) { /* KAT A1 */
  (void)state;
  machine m = start();
  const float w[9] = {1, 0, 3, INFINITY, NAN, -5, 0x1p-149f, -7, 0};
  const float identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  const int32_t ids[3] = {0, 1, 2};
  embed_context *mixers[] = {m.ctx[LEVELS - 1][0], m.reproducible};
  embed_table *t = NULL;
  assert_int_equal(embed_table_view(mixers[0], w, 3, 3, NULL, NULL, NULL, &t), EMBED_OK);
  for (int c = 0; c < 2; ++c) {
    float got[9];
    assert_int_equal(embed_lookup(mixers[c], t, ids, 3, got, EMBED_F32, 0, NULL), EMBED_OK);
    assert_memory_equal(got, w, sizeof w);
    assert_int_equal(embed_mix(mixers[c], t, identity, 3, 0, got, 0, NULL), EMBED_OK);
    assert_true(isnan(got[0]) && isnan(got[1]) && got[2] == 3);
    assert_true(got[3] == INFINITY && isnan(got[4]) && got[5] == -5);
    assert_true(isnan(got[6]) && isnan(got[7]) && got[8] == 0);
  }
  embed_table_release(t);
  stop(&m);
}

static void probabilities_give_the_expected_embedding(void **state) {
  (void)state;
  enum { VOCAB = 2500, ROWS = 2600, DIM = 33, MOST = 70, LDW = VOCAB + 3, LDO = DIM + 2 };
  static float w[ROWS * DIM], p[MOST * LDW], out[MOST * LDO];
  machine m = start();
  uint64_t seed = 31;
  for (int k = 0; k < ROWS * DIM; ++k) w[k] = k < VOCAB * DIM ? test_uniform(&seed) : NAN; /* padding rows are not there */
  for (int i = 0; i < MOST; ++i) {
    double sum = 0;
    for (int v = 0; v < VOCAB; ++v) sum += (double)(p[i * LDW + v] = fabsf(test_uniform(&seed)));
    for (int v = 0; v < VOCAB; ++v) p[i * LDW + v] = (float)((double)p[i * LDW + v] / sum);
    for (int v = VOCAB; v < LDW; ++v) p[i * LDW + v] = NAN;
  }
  embed_table_options o = {.size = sizeof o, .vocab = VOCAB};
  embed_context *mixers[] = {m.ctx[LEVELS - 1][0], m.ctx[LEVELS - 1][2], m.ctx[0][1], m.reproducible};
  for (int c = 0; c < 4; ++c) {
    embed_table *t = NULL;
    assert_int_equal(embed_table_view(mixers[c], w, ROWS, DIM, &o, NULL, NULL, &t), EMBED_OK);
    const int64_t ns[] = {1, 2, 9, MOST};
    for (int k = 0; k < 4; ++k) {
      memset(out, 0xA5, sizeof out);
      assert_int_equal(embed_mix(mixers[c], t, p, ns[k], LDW, out, LDO, NULL), EMBED_OK);
      for (int64_t i = 0; i < MOST; ++i) {
        if (i >= ns[k]) {
          assert_true(test_all_bytes(out + i * LDO, LDO * 4, 0xA5));
          continue;
        }
        assert_true(test_all_bytes(out + i * LDO + DIM, (LDO - DIM) * 4, 0xA5));
        for (int j = 0; j < DIM; ++j) {
          double sum = 0, size = 0;
          for (int v = 0; v < VOCAB; ++v) {
            sum += (double)p[i * LDW + v] * (double)w[v * DIM + j];
            size += fabs((double)p[i * LDW + v] * (double)w[v * DIM + j]);
          }
          assert_true(fabs((double)out[i * LDO + j] - sum) <= 4e-6 * size);
        }
      }
    }
    embed_table_release(t);
  }
  stop(&m);
}

static void mix_checks_its_arguments(void **state) {
  (void)state;
  const float w[4] = {1, 2, 3, 4}, p[2] = {1, 0};
  float out[2];
  memset(out, 0xA5, sizeof out);
  embed_context *ctx = context(NULL, NULL, 0);
  embed_table *t = NULL;
  assert_int_equal(embed_table_view(ctx, w, 2, 2, NULL, NULL, NULL, &t), EMBED_OK);
  assert_int_equal(embed_mix(ctx, NULL, p, 1, 0, out, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_mix(ctx, t, NULL, 1, 0, out, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_mix(ctx, t, p, 1, 0, NULL, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_mix(ctx, t, p, -1, 0, out, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_mix(ctx, t, p, 1, 1, out, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_mix(ctx, t, p, 1, 0, out, 1, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_mix(ctx, t, p, INT64_MAX / 2, 0, out, 0, NULL), EMBED_E_OVERFLOW);
  assert_true(test_all_bytes(out, sizeof out, 0xA5));
  assert_int_equal(embed_mix(ctx, t, (float *)1, 0, 0, (float *)8, 0, NULL), EMBED_OK);
  embed_table_release(t);
  embed_context_release(ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(views_agree_for_every_dtype_and_small_dim),
      cmocka_unit_test(views_agree_for_large_batches),
      cmocka_unit_test(views_agree_for_dims_of_models),
      cmocka_unit_test(views_agree_at_every_alignment),
      cmocka_unit_test(minus_zero_loses_its_sign_in_the_product_alone),
      cmocka_unit_test(a_row_that_is_not_finite_poisons_the_product_alone),
      cmocka_unit_test(probabilities_give_the_expected_embedding),
      cmocka_unit_test(mix_checks_its_arguments),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
