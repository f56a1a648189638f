/* SPDX-License-Identifier: BSD-3-Clause */
/* Softmax down columns, against exp and tanh in long double, and level against level. */
#include "levels.h"

enum { ROWS = 37, MOST_LANES = 80, LDZ = 83 };

static float spread_of(int64_t i, uint64_t *state) {
  static const float spreads[] = {0, 1e-3f, 1, 30, 200};
  return spreads[i % 5] * fabsf(test_uniform(state));
}

/* The last row ends at the page that cannot be read. */
static void check_columns(const embed__kernels *k) {
  const embed__kernels scalar = scalar_kernels();
  uint64_t state = 1;
  for (int64_t lanes = 1; lanes <= MOST_LANES; lanes += lanes < 20 ? 1 : 13) {
    const size_t floats = (size_t)((ROWS - 1) * LDZ + lanes);
    guarded g = guarded_new(4 * floats, 1), same = guarded_new(4 * floats, 1);
    float *z = (float *)(void *)g.at, *other = (float *)(void *)same.at;
    float max[MOST_LANES + 1], factor[MOST_LANES], minus[MOST_LANES], weight[ROWS];
    double sum[MOST_LANES], again[MOST_LANES];
    for (int64_t i = 0; i < lanes; ++i) max[i] = -INFINITY, factor[i] = 1.0f + (float)i, minus[i] = 0.25f * (float)i;
    for (int64_t v = 0; v < ROWS; ++v) weight[v] = (float)(v % 3);
    max[lanes] = 77;
    for (size_t i = 0; i < floats; ++i) z[i] = 5 - spread_of((int64_t)i, &state);
    memcpy(other, z, 4 * floats);
    k->softmax.max(z, LDZ, ROWS, lanes, max);
    k->softmax.sum_exp(z, LDZ, ROWS, lanes, max, sum);
    assert_true(max[lanes] == 77);
    for (int64_t i = 0; i < lanes; ++i) {
      float most = -INFINITY;
      long double want = 0;
      for (int64_t v = 0; v < ROWS; ++v) most = fmaxf(most, z[v * LDZ + i]);
      for (int64_t v = 0; v < ROWS; ++v) want += expl((long double)z[v * LDZ + i] - (long double)most);
      assert_true(max[i] == most);
      assert_true(fabsl((long double)sum[i] - want) <= 1e-6L * want);
    }
    scalar.softmax.sum_exp(z, LDZ, ROWS, lanes, max, again);
    assert_same_bits(sum, again, (size_t)lanes * sizeof *sum);
    k->softmax.gradient(z, LDZ, ROWS, lanes, max, factor, minus, lanes % 2 ? weight : NULL);
    scalar.softmax.gradient(other, LDZ, ROWS, lanes, max, factor, minus, lanes % 2 ? weight : NULL);
    assert_same_bits(z, other, 4 * floats);
    guarded_free(g);
    guarded_free(same);
  }
}
static void columns_are_summed_at_every_level_with_the_same_bits(void **state) {
  (void)state;
  each_level(0, check_columns);
}

static void check_gradient(const embed__kernels *k) {
  uint64_t state = 2;
  for (int i = 0; i < 4000; ++i) {
    float x = i % 4 == 0 ? -ldexpf(fabsf(test_uniform(&state)), i % 30 - 20) : -90 * fabsf(test_uniform(&state));
    float shift = 3 * test_uniform(&state), z = shift + x, factor = 1.5f, minus = 0;
    long double want = 1.5L * expl((long double)z - (long double)shift);
    k->softmax.gradient(&z, 1, 1, 1, &shift, &factor, &minus, NULL);
    /* the difference is rounded: 6e-8 of it */
    assert_true(fabsl((long double)z - want) <= want * (3e-7L + 1.3e-7L * (1 + fabsl((long double)x))) + 3e-38L);
  }
  float z[4] = {-INFINITY, NAN, 0, 1000}, shift[1] = {0}, factor[1] = {1}, minus[1] = {0};
  for (int i = 0; i < 4; ++i) k->softmax.gradient(&z[i], 1, 1, 1, shift, factor, minus, NULL);
  assert_true(z[0] == 0 && isnan(z[1]) && z[2] == 1 && isfinite(z[3]) && z[3] > 1e38f);
}
static void slopes_are_right_over_the_whole_range(void **state) {
  (void)state;
  each_level(0, check_gradient);
}

static void check_softcap(const embed__kernels *k) {
  uint64_t state = 3;
  for (int i = 0; i < 4000; ++i) {
    float z = ldexpf(test_uniform(&state), i % 40 - 30), cap = i % 2 ? 30 : 0.5f;
    long double want = (long double)cap * tanhl((long double)z / (long double)cap);
    k->softmax.softcap(&z, 1, 1, 1, cap);
    assert_true(fabsl((long double)z - want) <= 5e-7L * fabsl(want) + 1e-44L);
  }
  float z[4] = {INFINITY, -INFINITY, NAN, 0};
  k->softmax.softcap(z, 1, 4, 1, 2);
  assert_true(z[0] == 2 && z[1] == -2 && isnan(z[2]) && z[3] == 0);
}
static void soft_caps_are_right_to_5e_7(void **state) {
  (void)state;
  each_level(0, check_softcap);
}

static void check_nothing(const embed__kernels *k) {
  float max = 1, z = 2;
  double sum = 5;
  k->softmax.max(&z, 1, 0, 1, &max);
  k->softmax.sum_exp(&z, 1, 0, 1, &max, &sum);
  assert_true(max == 1 && sum == 0);
  k->softmax.softcap(&z, 1, 0, 1, 1);
  k->softmax.gradient(&z, 1, 1, 0, &max, &max, &max, NULL);
  assert_true(z == 2);
  z = NAN;
  k->softmax.max(&z, 1, 1, 1, &max);
  k->softmax.sum_exp(&z, 1, 1, 1, &max, &sum);
  assert_true(max == 1 && isnan(sum));
}
static void no_rows_sum_to_0_and_nan_stays(void **state) {
  (void)state;
  each_level(0, check_nothing);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(columns_are_summed_at_every_level_with_the_same_bits),
    cmocka_unit_test(slopes_are_right_over_the_whole_range),
    cmocka_unit_test(soft_caps_are_right_to_5e_7),
    cmocka_unit_test(no_rows_sum_to_0_and_nan_stays),
};
TEST_MAIN(tests)
