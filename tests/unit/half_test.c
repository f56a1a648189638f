/* SPDX-License-Identifier: BSD-3-Clause */
/* The 16-bit floats against plain arithmetic: every pattern widened, and rounding against a search for the nearest. */
#include "test.h"

#include <float.h>
#include <math.h>

#include "core/half.h"

/* The value of a pattern by the definition of its type: exponent bits, mantissa bits, bias. */
static double defined_value(uint16_t bits, int mantissa_bits, int bias) {
  int exponent_bits = 15 - mantissa_bits, exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1), mantissa = bits & ((1 << mantissa_bits) - 1);
  double value;
  if (exponent == (1 << exponent_bits) - 1)
    value = mantissa ? (double)NAN : (double)INFINITY;
  else if (exponent)
    value = ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  else
    value = ldexp(mantissa, 1 - bias - mantissa_bits);
  return bits & 0x8000 ? -value : value;
}

static void check_widened(uint16_t bits, float got, double want) {
  if (isnan(want) ? !isnan(got) : (double)got != want || !signbit(got) != !signbit(want)) fail_msg("%04x widens to %a, not %a", bits, (double)got, want);
}

static void all_halves_and_bfloats_widen_exactly(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    check_widened((uint16_t)bits, embed__f32_of_f16((uint16_t)bits), defined_value((uint16_t)bits, 10, 15));
    check_widened((uint16_t)bits, embed__f32_of_bf16((uint16_t)bits), defined_value((uint16_t)bits, 7, 127));
  }
}

/* A signalling half comes out quiet, a bfloat keeps its bits; both keep sign and payload. */
static void widened_nans_keep_sign_and_payload(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    uint32_t sign = (bits & 0x8000u) << 16;
    if ((bits & 0x7FFFu) > 0x7C00u) assert_int_equal(embed__bits_of_f32(embed__f32_of_f16((uint16_t)bits)), sign | 0x7FC00000u | ((bits & 0x3FFu) << 13));
    if ((bits & 0x7FFFu) > 0x7F80u) assert_int_equal(embed__bits_of_f32(embed__f32_of_bf16((uint16_t)bits)), bits << 16);
  }
}

static void every_pattern_survives_a_round_trip(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    uint32_t quiet_half = (bits & 0x7FFFu) > 0x7C00u ? bits | 0x200u : bits, quiet_bfloat = (bits & 0x7FFFu) > 0x7F80u ? bits | 0x40u : bits;
    assert_int_equal(embed__f16_of_f32(embed__f32_of_f16((uint16_t)bits)), quiet_half);
    assert_int_equal(embed__bf16_of_f32(embed__f32_of_bf16((uint16_t)bits)), quiet_bfloat);
  }
}

/* Nearest even by search: positive finite patterns ascend, so the two neighbours of |x| are found by bisection. Past
 * the largest the next step of the type counts as the neighbour, and choosing it is infinity. */
static uint16_t nearest_by_search(float x, int mantissa_bits, int bias) {
  uint16_t sign = signbit(x) ? 0x8000 : 0, infinity = (uint16_t)(0x7FFF >> mantissa_bits << mantissa_bits);
  double a = fabs((double)x);
  if (a > DBL_MAX) return sign | infinity;
  uint16_t low = 0, high = infinity; /* value(low) <= a < value(high) */
  while (high - low > 1) {
    uint16_t middle = (uint16_t)((low + high) / 2);
    if (defined_value(middle, mantissa_bits, bias) <= a)
      low = middle;
    else
      high = middle;
  }
  double below = defined_value(low, mantissa_bits, bias);
  double above = high == infinity ? 2 * below - defined_value((uint16_t)(low - 1), mantissa_bits, bias) : defined_value(high, mantissa_bits, bias);
  if (a - below > above - a || (a - below == above - a && low % 2)) low = high;
  return sign | low;
}

static void check_rounded(uint32_t bits) {
  float x = embed__f32_of_bits(bits);
  uint16_t half = embed__f16_of_f32(x), bfloat = embed__bf16_of_f32(x);
  if (isnan(x)) {
    assert_true((half & 0x7E00) == 0x7E00 && (bfloat & 0x7FC0) == 0x7FC0); /* quiet NaNs */
    assert_int_equal(half & 0x8000, bits >> 16 & 0x8000);
    assert_int_equal(bfloat & 0x8000, bits >> 16 & 0x8000);
    return;
  }
  uint16_t half_wanted = nearest_by_search(x, 10, 15), bfloat_wanted = nearest_by_search(x, 7, 127);
  if (half != half_wanted) fail_msg("%08x rounds to half %04x, not %04x", bits, half, half_wanted);
  if (bfloat != bfloat_wanted) fail_msg("%08x rounds to bfloat %04x, not %04x", bits, bfloat, bfloat_wanted);
}

static void floats_round_to_nearest_even(void **state) {
  (void)state;
  uint64_t random = 1;
  for (int i = 0; i < 300000; ++i) check_rounded((uint32_t)(test_random(&random) >> 32));
  for (int i = 0; i < 300000; ++i) { /* exponents where halves live */
    uint64_t r = test_random(&random);
    check_rounded((uint32_t)((r >> 63) << 31 | (97 + (r >> 32) % 50) << 23 | (r & 0x7FFFFF)));
  }
}

/* Each value, each midpoint between neighbours, and the floats beside them. */
static void the_edges_of_rounding_are_right(void **state) {
  (void)state;
  for (uint32_t pattern = 0; pattern <= 0x7F80; ++pattern) {
    float value = embed__f32_of_bf16((uint16_t)pattern);
    check_rounded(embed__bits_of_f32(value));
    for (uint32_t beside = 0x7FFF; beside <= 0x8001 && pattern < 0x7F80; ++beside) check_rounded((pattern << 16) + beside);
    if (pattern > 0x7C00) continue;
    double here = defined_value((uint16_t)pattern, 10, 15), next = defined_value((uint16_t)(pattern + 1), 10, 15);
    float middle = pattern == 0x7BFF ? 65520.0f : pattern == 0x7C00 ? INFINITY : (float)((here + next) / 2);
    for (int32_t beside = -1; beside <= 1; ++beside) {
      uint32_t bits = embed__bits_of_f32(middle) + (uint32_t)beside;
      check_rounded(bits);
      check_rounded(bits | 0x80000000u);
    }
  }
}

static void known_answers_hold(void **state) {
  (void)state;
  static const struct {
    uint32_t from;
    uint16_t to;
  } bfloats[] = {{0x3F808000, 0x3F80}, {0x3F808001, 0x3F81}, {0x3F818000, 0x3F82}, {0x7F7F8000, 0x7F80}, {0x7F800001, 0x7FC0},
                 {0x00018000, 0x0002}, {0x3E89CCD5, 0x3E8A}, {0x7F7FFFFF, 0x7F80}, {0xFF800001, 0xFFC0}}; /* DT-01 */
  for (size_t i = 0; i < sizeof bfloats / sizeof *bfloats; ++i) assert_int_equal(embed__bf16_of_f32(embed__f32_of_bits(bfloats[i].from)), bfloats[i].to);
  static const struct {
    float from;
    uint16_t to;
  } halves[] = {{65504.0f, 0x7BFF}, {65519.996f, 0x7BFF},   {65520.0f, 0x7C00},         {0x1p-25f, 0x0000}, {0x1.000002p-25f, 0x0001},
                {0x1p-14f, 0x0400}, {1 + 0x1p-11f, 0x3C00}, {1 + 3 * 0x1p-11f, 0x3C02}, {-0.0f, 0x8000}};
  for (size_t i = 0; i < sizeof halves / sizeof *halves; ++i) assert_int_equal(embed__f16_of_f32(halves[i].from), halves[i].to);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(all_halves_and_bfloats_widen_exactly), cmocka_unit_test(widened_nans_keep_sign_and_payload),
    cmocka_unit_test(every_pattern_survives_a_round_trip),  cmocka_unit_test(floats_round_to_nearest_even),
    cmocka_unit_test(the_edges_of_rounding_are_right),      cmocka_unit_test(known_answers_hold),
};
TEST_MAIN(tests)
