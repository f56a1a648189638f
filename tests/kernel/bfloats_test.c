/* SPDX-License-Identifier: BSD-3-Clause */
/* Floats rounded to bfloats for products, against the conversion of core/half.h. */
#include "timed.h"

/* As core/half.h, but subnormal numbers are 0. */
static uint32_t bfloat_of(float x) {
  const uint32_t u = embed__bits_of_f32(x);
  return (u & 0x7F800000u) == 0 ? u >> 31 << 15 : embed__bf16_of_f32(x);
}

/* The numbers end at an unreadable page, and so does what is written; a float before it stays. */
static void check_lengths(const embed__kernels *k) {
  uint64_t state = 5;
  for (int at = 0; at < LENGTHS; ++at) {
    const int64_t n = lengths[at], words = (n + 1) / 2;
    guarded in = guarded_new((size_t)n * 4, 1), other = guarded_new((size_t)n * 4, 1), out = guarded_new((size_t)n * 4 + 4, 1);
    float *x = (float *)(void *)in.at, *y = (float *)(void *)other.at, *to = (float *)(void *)out.at;
    uint32_t *word = (uint32_t *)(void *)out.at;
    hard_floats(x, n, &state);
    hard_floats(y, n, &state);
    to[0] = 77;
    k->bfloats.round_to(x, to + 1, n);
    for (int64_t i = 0; i < n; ++i) assert_int_equal(embed__bits_of_f32(to[i + 1]), bfloat_of(x[i]) << 16);
    k->bfloats.pair_across(x, y, n, word + 1);
    for (int64_t i = 0; i < n; ++i) assert_int_equal(word[i + 1], bfloat_of(x[i]) << 16 | bfloat_of(y[i]));
    k->bfloats.pair_across(x, NULL, n, word + 1);
    for (int64_t i = 0; i < n; ++i) assert_int_equal(word[i + 1], bfloat_of(x[i]) << 16);
    word += 1 + n - words;
    k->bfloats.pair_along(x, n, word);
    for (int64_t i = 0; i < words; ++i) assert_int_equal(word[i], bfloat_of(x[2 * i]) << 16 | (2 * i + 1 < n ? bfloat_of(x[2 * i + 1]) : 0));
    memcpy(y, x, (size_t)n * 4);
    k->bfloats.round(x, n);
    for (int64_t i = 0; i < n; ++i) assert_int_equal(embed__bits_of_f32(x[i]), bfloat_of(y[i]) << 16);
    assert_true(to[0] == 77);
    guarded_free(in), guarded_free(other), guarded_free(out);
  }
  k->bfloats.round(NULL, 0);
  k->bfloats.round_to(NULL, NULL, 0);
  k->bfloats.pair_along(NULL, 0, NULL);
  k->bfloats.pair_across(NULL, NULL, 0, NULL);
}
static void numbers_are_rounded_to_nearest_even_and_subnormals_to_0(void **state) {
  (void)state;
  each_level(0, check_lengths);
}

/* algorithms.md, F. */
static void check_known(const embed__kernels *k) {
  static const uint32_t in[] = {0x3F808000, 0x3F808001, 0x3F818000, 0x7F7F8000, 0x7F800001, 0x00018000, 0x807FFFFF, 0x00800000, 0xFF800000};
  static const uint32_t want[] = {0x3F80, 0x3F81, 0x3F82, 0x7F80, 0x7FC0, 0, 0x8000, 0x0080, 0xFF80};
  for (size_t i = 0; i < sizeof in / sizeof *in; ++i) {
    float x = embed__f32_of_bits(in[i]);
    k->bfloats.round(&x, 1);
    assert_int_equal(embed__bits_of_f32(x), want[i] << 16);
  }
}
static void known_numbers(void **state) {
  (void)state;
  each_level(0, check_known);
}

/* --- timed: 4,096 numbers --- */

typedef struct timed_rounding {
  const embed__kernels *k;
  float *x;
  float *to;
  uint32_t *words;
  int64_t n;
} timed_rounding;

static void run_round_to(void *job) {
  timed_rounding *t = job;
  t->k->bfloats.round_to(t->x, t->to, t->n);
}
static void run_along(void *job) {
  timed_rounding *t = job;
  t->k->bfloats.pair_along(t->x, t->n, t->words);
}
static void run_across(void *job) {
  timed_rounding *t = job;
  t->k->bfloats.pair_across(t->x, t->to, t->n, t->words);
}

static void time_rounding(const embed__kernels *k, kernel_timer *timer) {
  enum { N = 4096 };
  static float x[N], to[N];
  static uint32_t words[N];
  uint64_t state = 3;
  for (int i = 0; i < N; ++i) x[i] = test_uniform(&state);
  timed_rounding t = {k, x, to, words, N};
  kernel_bench(timer, &(timed_case){"round", (timed_kernel *)k->bfloats.round_to, run_round_to, &t, 8.0 * N, TIMED_BYTES});
  kernel_bench(timer, &(timed_case){"pairs along a row", (timed_kernel *)k->bfloats.pair_along, run_along, &t, 6.0 * N, TIMED_BYTES});
  kernel_bench(timer, &(timed_case){"pairs of two rows", (timed_kernel *)k->bfloats.pair_across, run_across, &t, 12.0 * N, TIMED_BYTES});
}
KERNEL_CASES(time_rounding)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(numbers_are_rounded_to_nearest_even_and_subnormals_to_0),
    cmocka_unit_test(known_numbers),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("bfloats", tests, time_rounding)
