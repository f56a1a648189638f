/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions over logits, against plain loops and exp in double. */
#include "timed.h"

enum { LONG_ROW = 50257 };

/* A row of n logits whose last byte (or first) stands against an unreadable page. */
typedef void row_check(const embed__kernels *k, float *z, int64_t n, uint64_t *state);
static void each_row(const embed__kernels *k, row_check *check) {
  uint64_t state = 1;
  for (int at_end = 0; at_end < 2; ++at_end) {
    for (int64_t n = 0; n <= 200; ++n) {
      guarded g = guarded_new((size_t)(4 * n) + 4, at_end); /* one float of room before or after, for n = 0 */
      check(k, (float *)(void *)g.at + (at_end ? 1 : 0), n, &state);
      guarded_free(g);
    }
  }
  float *z = malloc(LONG_ROW * sizeof *z);
  check(k, z, LONG_ROW, &state);
  free(z);
}

static void check_max(const embed__kernels *k, float *z, int64_t n, uint64_t *state) {
  for (int round = 0; round < 3; ++round) {
    float want = -INFINITY;
    for (int64_t i = 0; i < n; ++i) {
      z[i] = round ? hard_float(state) : -1.0f - fabsf(test_uniform(state));
      if (round == 2 && i % 3) z[i] = NAN;
      if (!isnan(z[i]) && z[i] > want) want = z[i];
    }
    assert_true(k->reduce.max(z, n) == want);
    float lane[16], best[16];
    for (int l = 0; l < 16; ++l) lane[l] = -INFINITY;
    for (int64_t i = 0; i < n; ++i)
      if (z[i] > lane[i % 16]) lane[i % 16] = z[i];
    k->reduce.maxima(z, n, best);
    for (int l = 0; l < 16; ++l) assert_true(best[l] == lane[l]);
  }
  for (int64_t best = 0; best<n; best += n> 200 ? 1009 : 1) { /* at every place */
    for (int64_t i = 0; i < n; ++i) z[i] = i == best ? -1.0f : -2.0f;
    assert_true(k->reduce.max(z, n) == -1.0f);
  }
  for (int64_t i = 0; i < n; ++i) z[i] = NAN;
  assert_true(k->reduce.max(z, n) == -INFINITY);
}
static void max_of_level(const embed__kernels *k) { each_row(k, check_max); }
static void max_passes_over_nan(void **state) {
  (void)state;
  each_level(0, max_of_level);
}

static void check_sum_exp(const embed__kernels *k, float *z, int64_t n, uint64_t *state) {
  static const float spreads[] = {0.0f, 1e-3f, 1.0f, 30.0f, 200.0f};
  for (size_t s = 0; s < sizeof spreads / sizeof *spreads; ++s) {
    float max = 17.25f;
    long double want = 0;
    for (int64_t i = 0; i < n; ++i) {
      z[i] = i % 11 == 5 ? -INFINITY : max - spreads[s] * fabsf(test_uniform(state));
      if (z[i] > -INFINITY) want += expl((long double)z[i] - (long double)max);
    }
    double got = k->reduce.sum_exp(z, n, max);
    assert_true(fabsl((long double)got - want) <= 4e-7L * want);
    double again = k->reduce.sum_exp(z, n, max);
    assert_memory_equal(&again, &got, sizeof got);
  }
  for (int64_t bad = 0; bad<n; bad += n> 200 ? 1009 : 1) {
    float kept = z[bad];
    z[bad] = NAN;
    assert_true(isnan(k->reduce.sum_exp(z, n, 17.25f)));
    z[bad] = kept;
  }
  for (int64_t i = 0; i < n; ++i) z[i] = -INFINITY;
  assert_true(k->reduce.sum_exp(z, n, 3.0f) == 0);
  for (int64_t i = 0; i < n && n <= 200; ++i) { /* the largest alone counts 1, and what is far below it is not lost beside it */
    z[i] = 3.0f;
    assert_true(k->reduce.sum_exp(z, n, 3.0f) == 1);
    z[(i + 1) % n] = n > 1 ? -15.0f : 3.0f;
    const double rest = k->reduce.sum_exp(z, n, 3.0f) - 1;
    assert_true(n == 1 || fabs(rest - exp(-18)) <= 1e-6 * exp(-18));
    z[i] = z[(i + 1) % n] = -INFINITY;
  }
}
static void sum_exp_of_level(const embed__kernels *k) { each_row(k, check_sum_exp); }
static void sums_of_exp_are_right_to_4e_7(void **state) {
  (void)state;
  each_level(0, sum_exp_of_level);
}

static void check_moments(const embed__kernels *k, float *z, int64_t n, uint64_t *state) {
  static const float spreads[] = {0.0f, 1e-3f, 1.0f, 30.0f, 800.0f};
  static const double scales[] = {1, 0.25, 1.75, 1e6};
  for (size_t s = 0; s < sizeof spreads / sizeof *spreads; ++s)
    for (size_t f = 0; f < sizeof scales / sizeof *scales; ++f) {
      const float max = -3.5f;
      long double sum = 0, moment = 0;
      double sums[2];
      for (int64_t i = 0; i < n; ++i) {
        z[i] = i % 11 == 5 ? -INFINITY : max - spreads[s] * fabsf(test_uniform(state));
        long double x = ((long double)z[i] - (long double)max) * (long double)scales[f], e = expl(x);
        sum += e;
        if (e > 0) moment += e * x;
      }
      k->reduce.exp_moments(z, n, max, scales[f], sums);
      assert_true(fabsl((long double)sums[0] - sum) <= 4e-7L * sum + 1e-290L);
      assert_true(fabsl((long double)sums[1] - moment) <= 4e-7L * fabsl(moment) + 1e-290L);
      const double plain = k->reduce.sum_exp(z, n, max);
      if (f == 0) assert_memory_equal(&sums[0], &plain, sizeof plain);
    }
  for (int64_t bad = 0; bad<n; bad += n> 200 ? 1009 : 1) {
    float kept = z[bad];
    double sums[2];
    z[bad] = NAN;
    k->reduce.exp_moments(z, n, 17.25f, 1, sums);
    assert_true(isnan(sums[0]) && isnan(sums[1]));
    z[bad] = kept;
  }
  double sums[2] = {1, 1};
  for (int64_t i = 0; i < n; ++i) z[i] = -INFINITY;
  k->reduce.exp_moments(z, n, 3.0f, .5, sums);
  assert_true(sums[0] == 0 && sums[1] == 0);
}
static void moments_of_level(const embed__kernels *k) { each_row(k, check_moments); }
static void moments_of_exp_are_right_to_4e_7(void **state) {
  (void)state;
  each_level(0, moments_of_level);
}

static void check_count(const embed__kernels *k, float *z, int64_t n, uint64_t *state) {
  static const float thresholds[] = {0.9f, -0.5f, 0.0f, -0.0f, -INFINITY, INFINITY, NAN, 2.0f};
  for (size_t t = 0; t < sizeof thresholds / sizeof *thresholds; ++t)
    for (int hard = 0; hard < 2; ++hard) {
      int64_t want = 0;
      for (int64_t i = 0; i < n; ++i) {
        z[i] = hard ? hard_float(state) : test_uniform(state);
        want += z[i] >= thresholds[t] || isnan(z[i]);
      }
      assert_int_equal(k->reduce.count_at_least(z, n, thresholds[t]), want);
    }
}
static void count_of_level(const embed__kernels *k) { each_row(k, check_count); }
static void values_at_or_above_the_threshold_are_counted(void **state) {
  (void)state;
  each_level(0, count_of_level);
}

/* Each place in a vector, the whole range; far apart z and max whose difference a float would round. */
static void check_terms(const embed__kernels *k) {
  uint64_t state = 2;
  for (int i = 0; i < 20000; ++i) {
    float max = 100 * test_uniform(&state), z[16];
    int place = i % 16;
    for (int j = 0; j < 16; ++j) z[j] = -INFINITY;
    z[place] = max - ldexpf(fabsf(test_uniform(&state)), i % 40 - 30);
    long double want = expl((long double)z[place] - (long double)max);
    double got = k->reduce.sum_exp(z, place + 1, max);
    assert_true(fabsl((long double)got - want) <= 2e-7L * want + 1e-300L);
  }
  float far[3] = {-3e38f, -1000.0f, -800.0f};
  assert_true(k->reduce.sum_exp(far, 3, 0.0f) <= 1e-300);
  assert_true(k->reduce.sum_exp(far, 1, 3e38f) == 0);
  float above[1] = {88.0f};
  assert_true(fabs(k->reduce.sum_exp(above, 1, -12.0f) / exp(100.0) - 1) <= 2e-7);
  above[0] = INFINITY;
  assert_true(isinf(k->reduce.sum_exp(above, 1, 0.0f)));
}
static void single_terms_are_right_to_2e_7(void **state) {
  (void)state;
  each_level(0, check_terms);
}

static void check_at_least(const embed__kernels *k, float *z, int64_t n, uint64_t *state) {
  static const float thresholds[] = {0.9f, -0.5f, 0.0f, -INFINITY, INFINITY, NAN, 2.0f};
  guarded g = guarded_new((size_t)(4 * n) + 4, 1);
  int32_t *index = (int32_t *)(void *)(g.at + 4); /* room for n, then the page */
  for (size_t t = 0; t < sizeof thresholds / sizeof *thresholds; ++t) {
    for (int hard = 0; hard < 2; ++hard) {
      for (int64_t i = 0; i < n; ++i) z[i] = hard ? hard_float(state) : test_uniform(state);
      memset(g.at, 0xA5, (size_t)(4 * n) + 4);
      int64_t found = k->reduce.at_least(z, n, thresholds[t], index), want = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (!(z[i] >= thresholds[t] || isnan(z[i]))) continue;
        assert_int_equal(index[want], i);
        ++want;
      }
      assert_int_equal(found, want);
      assert_true(test_all_bytes(index + found, (size_t)(4 * (n - found)), 0xA5));
      assert_true(test_all_bytes(g.at, 4, 0xA5));
    }
  }
  guarded_free(g);
}
static void at_least_of_level(const embed__kernels *k) { each_row(k, check_at_least); }
static void positions_at_or_above_the_threshold_are_found_in_order(void **state) {
  (void)state;
  each_level(0, at_least_of_level);
}

static void check_control(const embed__kernels *k) {
  float z[67];
  int32_t index[67];
  double sums[2];
  for (int i = 0; i < 67; ++i) z[i] = (float)(-3 * i);
  unsigned before = control_bits();
  (void)k->reduce.max(z, 67);
  (void)k->reduce.sum_exp(z, 67, 0.0f);
  (void)k->reduce.at_least(z, 67, -30.0f, index);
  (void)k->reduce.count_at_least(z, 67, -30.0f);
  k->reduce.exp_moments(z, 67, 0.0f, 3, sums);
  assert_int_equal(control_bits(), before);
}
static void control_bits_stay_as_they_are(void **state) {
  (void)state;
  each_level(0, check_control);
}

/* --- timed: 32,768 logits --- */

enum { TIMED_LOGITS = 32768 };
typedef struct timed_logits {
  const embed__reduce_kernels *k;
  float z[TIMED_LOGITS], max, lanes[16];
  double sums[2];
  int64_t found;
  int32_t index[TIMED_LOGITS];
} timed_logits;

static void run_max(void *job) {
  timed_logits *t = job;
  t->max = t->k->max(t->z, TIMED_LOGITS);
}
static void run_maxima(void *job) {
  timed_logits *t = job;
  t->k->maxima(t->z, TIMED_LOGITS, t->lanes);
}
static void run_sum_exp(void *job) {
  timed_logits *t = job;
  t->sums[0] = t->k->sum_exp(t->z, TIMED_LOGITS, 20.0f);
}
static void run_moments(void *job) {
  timed_logits *t = job;
  t->k->exp_moments(t->z, TIMED_LOGITS, 20.0f, 0.7, t->sums);
}
static void run_count(void *job) {
  timed_logits *t = job;
  t->found = t->k->count_at_least(t->z, TIMED_LOGITS, 19.9f);
}
static void run_at_least(void *job) {
  timed_logits *t = job;
  t->found = t->k->at_least(t->z, TIMED_LOGITS, 19.9f, t->index);
}

static void time_logits(const embed__kernels *k, kernel_timer *timer) {
  static timed_logits t;
  uint64_t state = 3;
  t.k = &k->reduce;
  for (int64_t i = 0; i < TIMED_LOGITS; ++i) t.z[i] = 20 * test_uniform(&state);
  const struct {
    const char *what;
    timed_kernel *kernel;
    void (*run)(void *job);
  } cases[] = {{"max", (timed_kernel *)t.k->max, run_max},
               {"maxima", (timed_kernel *)t.k->maxima, run_maxima},
               {"sum of exp", (timed_kernel *)t.k->sum_exp, run_sum_exp},
               {"moments of exp", (timed_kernel *)t.k->exp_moments, run_moments},
               {"count at least", (timed_kernel *)t.k->count_at_least, run_count},
               {"at least", (timed_kernel *)t.k->at_least, run_at_least}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    kernel_bench(timer, &(timed_case){cases[i].what, cases[i].kernel, cases[i].run, &t, sizeof t.z, TIMED_BYTES});
}
KERNEL_CASES(time_logits)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(max_passes_over_nan),
    cmocka_unit_test(sums_of_exp_are_right_to_4e_7),
    cmocka_unit_test(moments_of_exp_are_right_to_4e_7),
    cmocka_unit_test(values_at_or_above_the_threshold_are_counted),
    cmocka_unit_test(single_terms_are_right_to_2e_7),
    cmocka_unit_test(positions_at_or_above_the_threshold_are_found_in_order),
    cmocka_unit_test(control_bits_stay_as_they_are),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("reduce", tests, time_logits)
