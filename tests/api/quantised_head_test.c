/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact products of quantised tables with hidden rows of few numbers, or of numbers far apart: what large ones leave is not lost where they
 * meet weights of 0. Against sums in double of the weights as they are looked up. */
#include <math.h>

#include "gather.h"

enum { VOCAB = 70, DIM = 512, MOST_N = 40, ZEROS = 96 /* columns from here on are 0, */, ZERO_COLUMNS = 32 /* so many */ };
static const embed_dtype types[] = {EMBED_I8_ROW, EMBED_I4_GROUP, EMBED_Q8_0, EMBED_Q4_0, EMBED_Q4_K, EMBED_Q5_K, EMBED_Q6_K};
static const int64_t batches[] = {1, 2, 4, 5, 9, 17, 25, MOST_N};

typedef struct heads {
  embed_context *ctx;
  embed_head *head[2]; /* in place, prepared */
  float *decoded;
} heads;

static heads heads_new(const char *isa, embed_dtype dtype, const float *w) {
  heads h = {.ctx = context_with(isa, 2), .decoded = malloc(sizeof(float) * VOCAB * DIM)};
  const embed_table_options as = {.size = sizeof as, .dtype = dtype};
  embed_table *t = NULL;
  if (!h.ctx) return h;
  embed_table *f32 = view_floats(h.ctx, w, VOCAB, DIM);
  OK(embed_table_convert(h.ctx, f32, &as, &t));
  for (int64_t v = 0; v < VOCAB; ++v) OK(embed_table_get_rows(h.ctx, t, &v, 1, h.decoded + v * DIM, EMBED_F32, 0));
  for (int p = 0; p < 2; ++p) {
    const embed_head_options o = {.size = sizeof o, .flags = p ? EMBED_HEAD_PREPARE : 0};
    OK(embed_head_create(h.ctx, t, NULL, &o, &h.head[p]));
  }
  embed_table_release(t);
  embed_table_release(f32);
  return h;
}
static void heads_free(heads *h) {
  for (int p = 0; p < 2; ++p) embed_head_release(h->head[p]);
  embed_context_release(h->ctx);
  free(h->decoded);
}

static void check(const heads *h, embed_dtype dtype, const float *x) {
  static float z[MOST_N * VOCAB];
  for (int p = 0; p < 2; ++p)
    for (int b = 0; b < COUNT(batches); ++b) {
      const int64_t n = batches[b];
      OK(embed_logits(h->ctx, h->head[p], x, EMBED_F32, n, 0, z, 0, NULL));
      for (int64_t i = 0; i < n; ++i)
        for (int64_t v = 0; v < VOCAB; ++v) {
          double sum = 0, size = 0;
          for (int64_t j = 0; j < DIM; ++j) {
            const double term = (double)h->decoded[v * DIM + j] * (double)x[i * DIM + j];
            sum += term;
            size += fabs(term);
          }
          if (!(fabs((double)z[i * VOCAB + v] - sum) <= 2e-6 * size + 1e-40))
            fail_msg("dtype %d %s, n %d: logit (%d, %d) is %.9g, not %.9g", (int)dtype, p ? "prepared" : "in place", (int)n, (int)i, (int)v,
                     (double)z[i * VOCAB + v], sum);
        }
    }
}

static void each_head(void (*fill)(float *x, uint64_t *seed)) {
  static const char *const levels[] = {NULL, "avx512vnni", "avx512", "avx2", "scalar"};
  static float w[VOCAB * DIM], x[MOST_N * DIM];
  uint64_t seed = 5;
  for (int64_t i = 0; i < VOCAB * DIM; ++i) w[i] = i % DIM / ZERO_COLUMNS == ZEROS / ZERO_COLUMNS ? 0 : 0.04f * test_uniform(&seed);
  fill(x, &seed);
  for (int l = 0; l < COUNT(levels); ++l)
    for (int k = 0; k < COUNT(types); ++k) {
      heads h = heads_new(levels[l], types[k], w);
      if (h.ctx) check(&h, types[k], x);
      heads_free(&h);
    }
}

/* One number, or one large one: weights next to 0 are not the difference of two that are not. */
static void fill_few(float *x, uint64_t *seed) {
  for (int64_t i = 0; i < MOST_N; ++i)
    for (int64_t j = 0; j < DIM; ++j) x[i * DIM + j] = j == (37 * i + 5) % DIM ? 0.3f + (i % 3 ? 0 : 5000) : i % 2 ? 0 : test_uniform(seed);
}
static void weights_next_to_zero_keep_the_bound(void **state) {
  (void)state;
  each_head(fill_few);
}

/* Numbers of the ordinary size beside some that only weights of 0 meet. */
static void fill_far(float *x, uint64_t *seed) {
  for (int64_t i = 0; i < MOST_N; ++i)
    for (int64_t j = 0; j < DIM; ++j) {
      x[i * DIM + j] = 0.5f + fabsf(test_uniform(seed));
      if (j == ZEROS + i % ZERO_COLUMNS) x[i * DIM + j] = ldexpf(1, (int)(3 * i));
    }
}
static void outliers_that_meet_zeros_leave_the_rest(void **state) {
  (void)state;
  each_head(fill_far);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(weights_next_to_zero_keep_the_bound),
    cmocka_unit_test(outliers_that_meet_zeros_leave_the_rest),
};
TEST_MAIN(tests)
