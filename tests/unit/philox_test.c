/* SPDX-License-Identifier: BSD-3-Clause */
/* Counter-based random numbers against the published known answers. */
#include "test.h"

#include <math.h>

#include "core/philox.h"

static void philox_gives_the_published_words(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], words[4];
  } answers[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof answers / sizeof *answers; ++i) {
    uint32_t words[4];
    embed__philox(answers[i].counter, answers[i].key, words);
    assert_same_bits(words, answers[i].words, sizeof words);
  }
}

static void an_element_takes_the_word_of_its_index_in_64_bits(void **state) {
  (void)state;
  static const uint32_t expected[8] = {0x9ceaf053, 0x77f5493b, 0x12bf50ad, 0x5742b3d7, 0xfcdb2127, 0x53ba6cfd, 0x838f5a6e, 0x744e06fb};
  uint32_t words[8], far[4], other[4];
  embed__random_quad(42, EMBED__STREAM_INIT, 0, words);
  embed__random_quad(42, EMBED__STREAM_INIT, 1, words + 4);
  assert_same_bits(words, expected, sizeof words);
  embed__random_quad(42, EMBED__STREAM_INIT, (uint64_t)1 << 32, far); /* element 2^34 */
  assert_int_equal(far[0], 0x42e0b8b3);
  /* The upper halves of seed and stream count too. */
  embed__random_quad(42 + ((uint64_t)1 << 32), EMBED__STREAM_INIT, 0, other);
  assert_int_not_equal(other[0], words[0]);
  embed__random_quad(42, (uint64_t)1 << 32, 0, other);
  assert_int_not_equal(other[0], words[0]);
}

static void a_uniform_is_never_0_or_1_and_symmetric(void **state) {
  (void)state;
  assert_true(embed__uniform(0) == 0x1p-33);
  assert_true(embed__uniform(~0u) == 1.0 - 0x1p-33);
  assert_true(embed__uniform(0x7FFFFFFF) + embed__uniform(0x80000000) == 1.0);
  uint64_t random = 9;
  for (int i = 0; i < 10000; ++i) {
    uint32_t word = (uint32_t)test_random(&random);
    double u = embed__uniform(word);
    assert_true(u > 0 && u < 1 && u + embed__uniform(~word) == 1.0);
  }
}

static void near(double got, double want, double relative) {
  if (!(fabs(got - want) <= relative * fabs(want))) fail_msg("%.17g instead of %.17g", got, want);
}

static void normal_quantiles_are_right_to_1e_15(void **state) {
  (void)state;
  near(embed__normal_quantile(0.25), -0.6744897501960817, 1e-15);
  near(embed__normal_quantile(0.001), -3.090232306167813, 1e-15);
  near(embed__normal_quantile(1e-20), -9.262340089798405, 1e-15);
  near(embed__normal_quantile(0.975), 1.959963984540054, 1e-15);
  assert_true(embed__normal_quantile(0.5) == 0);
  /* The ends: what a truncated tail may round to. */
  assert_true(embed__normal_quantile(0) == -(double)INFINITY);
  assert_true(embed__normal_quantile(1) == (double)INFINITY);
  near(embed__normal_quantile(0x1p-33), -6.33795775455, 1e-11); /* the most extreme a 32-bit word gives */
}

static void the_quantile_inverts_the_distribution(void **state) {
  (void)state;
  for (int i = 1; i < 20000; ++i) {
    double p = i / 20000.0;
    near(embed__normal_cdf(embed__normal_quantile(p)), p, 2e-14);
  }
  for (double p = 1e-300; p < 0.4; p *= 7) near(embed__normal_cdf(embed__normal_quantile(p)), p, 2e-12); /* the tail magnifies */
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(philox_gives_the_published_words),        cmocka_unit_test(an_element_takes_the_word_of_its_index_in_64_bits),
    cmocka_unit_test(a_uniform_is_never_0_or_1_and_symmetric), cmocka_unit_test(normal_quantiles_are_right_to_1e_15),
    cmocka_unit_test(the_quantile_inverts_the_distribution),
};
TEST_MAIN(tests)
