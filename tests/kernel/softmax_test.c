/* SPDX-License-Identifier: BSD-3-Clause */
/* Softmax down columns, against exp and tanh in long double, and level against level. */
#include "timed.h"

enum { ROWS = 37, MOST_LANES = 133, LDZ = 137 };
enum { MAX, FACTOR, MINUS, SUM, LANE_ARRAYS };

static float spread_of(int64_t i, uint64_t *state) {
  static const float spreads[] = {0, 1e-3f, 1, 30, 200};
  return spreads[i % 5] * fabsf(test_uniform(state));
}

typedef struct columns {
  guarded z, same, of_lanes[LANE_ARRAYS];
  float *at, *other, *max, *factor, *minus;
  double *sum;
} columns;

static columns columns_new(int64_t rows, int64_t lanes, int at_end) {
  const size_t floats = (size_t)(rows ? (rows - 1) * LDZ + lanes : 0);
  columns c = {.z = guarded_new(4 * floats, at_end), .same = guarded_new(4 * floats, at_end)};
  for (int i = 0; i < LANE_ARRAYS; ++i) c.of_lanes[i] = guarded_new((size_t)lanes * (i == SUM ? 8 : 4), at_end);
  c.at = (float *)(void *)c.z.at, c.other = (float *)(void *)c.same.at;
  c.max = (float *)(void *)c.of_lanes[MAX].at, c.factor = (float *)(void *)c.of_lanes[FACTOR].at, c.minus = (float *)(void *)c.of_lanes[MINUS].at;
  c.sum = (double *)(void *)c.of_lanes[SUM].at;
  for (int64_t i = 0; i < lanes; ++i) c.max[i] = -INFINITY, c.factor[i] = 1.0f + (float)i, c.minus[i] = 0.25f * (float)i, c.sum[i] = 0;
  return c;
}
static void columns_free(columns *c) {
  guarded_free(c->z);
  guarded_free(c->same);
  for (int i = 0; i < LANE_ARRAYS; ++i) guarded_free(c->of_lanes[i]);
}

/* Block and arrays begin or end at pages that cannot be read; between the rows stands what must stay. */
static void check_block(const embed__kernels *k, int64_t rows, int64_t lanes, int at_end, uint64_t *state) {
  const embed__kernels scalar = scalar_kernels();
  const size_t floats = (size_t)((rows - 1) * LDZ + lanes);
  columns c = columns_new(rows, lanes, at_end);
  float *z = c.at, weight[ROWS];
  double again[MOST_LANES];
  for (int64_t v = 0; v < ROWS; ++v) weight[v] = (float)(v % 3);
  for (size_t i = 0; i < floats; ++i) z[i] = (int64_t)(i % LDZ) < lanes ? 5 - spread_of((int64_t)i, state) : 77;
  memcpy(c.other, z, 4 * floats);
  k->softmax.max(z, LDZ, rows, lanes, c.max);
  k->softmax.sum_exp(z, LDZ, rows, lanes, c.max, c.sum);
  for (int64_t i = 0; i < lanes; ++i) {
    float most = -INFINITY;
    long double want = 0;
    for (int64_t v = 0; v < rows; ++v) most = fmaxf(most, z[v * LDZ + i]);
    for (int64_t v = 0; v < rows; ++v) want += expl((long double)z[v * LDZ + i] - (long double)most);
    assert_true(c.max[i] == most);
    assert_true(fabsl((long double)c.sum[i] - want) <= 1e-6L * want);
  }
  scalar.softmax.sum_exp(z, LDZ, rows, lanes, c.max, again);
  assert_same_bits(c.sum, again, (size_t)lanes * sizeof *again);
  k->softmax.gradient(z, LDZ, rows, lanes, c.max, c.factor, c.minus, lanes % 2 ? weight : NULL);
  scalar.softmax.gradient(c.other, LDZ, rows, lanes, c.max, c.factor, c.minus, lanes % 2 ? weight : NULL);
  assert_same_bits(z, c.other, 4 * floats);
  k->softmax.softcap(z, LDZ, rows, lanes, 3);
  scalar.softmax.softcap(c.other, LDZ, rows, lanes, 3);
  assert_same_bits(z, c.other, 4 * floats);
  for (size_t i = 0; i < floats; ++i)
    if ((int64_t)(i % LDZ) >= lanes) assert_true(z[i] == 77);
  columns_free(&c);
}

static void check_columns(const embed__kernels *k) {
  uint64_t state = 1;
  for (int at_end = 0; at_end < 2; ++at_end) {
    for (int64_t lanes = 1; lanes <= MOST_LANES; ++lanes) check_block(k, 1 + lanes % ROWS, lanes, at_end, &state);
    for (int64_t rows = 1; rows <= ROWS; ++rows) check_block(k, rows, 1 + 5 * rows % MOST_LANES, at_end, &state);
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

/* --- timed: 37 rows of 133 columns; what is made in place stays near a fixed point --- */

typedef struct timed_columns {
  const embed__softmax_kernels *k;
  float z[ROWS * LDZ], max[MOST_LANES], ones[MOST_LANES], halves[MOST_LANES], zeros[MOST_LANES];
  double sum[MOST_LANES];
} timed_columns;

static void run_max(void *job) {
  timed_columns *t = job;
  t->k->max(t->z, LDZ, ROWS, MOST_LANES, t->max);
}
static void run_sum_exp(void *job) {
  timed_columns *t = job;
  t->k->sum_exp(t->z, LDZ, ROWS, MOST_LANES, t->max, t->sum);
}
static void run_gradient(void *job) {
  timed_columns *t = job;
  t->k->gradient(t->z, LDZ, ROWS, MOST_LANES, t->ones, t->halves, t->zeros, NULL);
}
static void run_softcap(void *job) {
  timed_columns *t = job;
  t->k->softcap(t->z, LDZ, ROWS, MOST_LANES, 30);
}

static void time_columns(const embed__kernels *k, kernel_timer *timer) {
  static timed_columns t;
  const double bytes = 4.0 * ROWS * MOST_LANES;
  uint64_t state = 4;
  t.k = &k->softmax;
  for (int i = 0; i < MOST_LANES; ++i) t.ones[i] = 1, t.halves[i] = 0.5f, t.max[i] = 5;
  for (int i = 0; i < ROWS * LDZ; ++i) t.z[i] = 5 * test_uniform(&state);
  kernel_bench(timer, &(timed_case){"max", (timed_kernel *)k->softmax.max, run_max, &t, bytes, TIMED_BYTES});
  kernel_bench(timer, &(timed_case){"sum of exp", (timed_kernel *)k->softmax.sum_exp, run_sum_exp, &t, bytes, TIMED_BYTES});
  kernel_bench(timer, &(timed_case){"gradient", (timed_kernel *)k->softmax.gradient, run_gradient, &t, 2 * bytes, TIMED_BYTES});
  kernel_bench(timer, &(timed_case){"soft cap", (timed_kernel *)k->softmax.softcap, run_softcap, &t, 2 * bytes, TIMED_BYTES});
}
KERNEL_CASES(time_columns)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(columns_are_summed_at_every_level_with_the_same_bits),
    cmocka_unit_test(slopes_are_right_over_the_whole_range),
    cmocka_unit_test(soft_caps_are_right_to_5e_7),
    cmocka_unit_test(no_rows_sum_to_0_and_nan_stays),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("softmax", tests, time_columns)
