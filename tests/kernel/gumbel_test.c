/* SPDX-License-Identifier: BSD-3-Clause */
/* The sampling kernels of every level: words against a Philox written here, the filter against the noise in double. */
#include "levels.h"

/* Salmon et al., 2011, section 3: written from the paper's table, apart from the library's. */
static uint32_t expected_word(uint64_t seed, uint64_t position, uint32_t id) {
  uint32_t c[4] = {id / 4, (uint32_t)(position & 0xFFFFFFFFu), (uint32_t)(position >> 32), 2};
  for (uint64_t round = 0; round < 10; ++round) {
    const uint32_t k0 = (uint32_t)(seed + round * 0x9E3779B9u), k1 = (uint32_t)((seed >> 32) + round * 0xBB67AE85u);
    const uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
    const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
    memcpy(c, next, sizeof c);
  }
  return c[id % 4];
}

static void check_known(const embed__kernels *k) {
  static const struct {
    uint64_t seed, position;
    uint32_t words[5];
  } known[] = {{42, 0, {0x53c0fa72, 0x2ff5bc57, 0x73335b02, 0x12c8f469, 0x606212cf}},
               {42, 8, {0xa71fc635, 0xe74d131e, 0xafd96efe, 0x5b1acf4b, 0x5bc8ea6e}},
               {((uint64_t)1 << 40) + 5, ((uint64_t)1 << 33) + 1, {0xc6806e17, 0x9fce1523, 0x36a379e4, 0x9bca5266, 0x2bd340b4}}};
  const int32_t ids[] = {4, 3, 2, 1, 0};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    uint32_t words[5];
    k->gumbel.words(known[i].seed, known[i].position, 0, 5, words);
    assert_memory_equal(words, known[i].words, sizeof words);
    k->gumbel.words_of(known[i].seed, known[i].position, ids, 5, words);
    for (int j = 0; j < 5; ++j) assert_int_equal(words[j], known[i].words[4 - j]);
  }
}
static void words_are_the_known_answers(void **state) {
  (void)state;
  each_level(0, check_known);
}

static void check_words(const embed__kernels *k) {
  static const uint32_t firsts[] = {0, 1, 2, 3, 1024, 262143, 0x7FFFFF00u, 0xFFFF0000u};
  guarded g = guarded_new(4 * LONGEST, 1);
  uint64_t random = 3;
  for (size_t f = 0; f < sizeof firsts / sizeof *firsts; ++f) {
    for (int l = 0; l < LENGTHS; ++l) {
      const int64_t n = lengths[l];
      const uint64_t seed = test_random(&random), position = test_random(&random) >> (l % 3 * 20);
      uint32_t *words = (uint32_t *)(void *)placed(g, 4 * LONGEST, (size_t)(4 * n), 1);
      k->gumbel.words(seed, position, firsts[f], n, words);
      for (int64_t i = 0; i<n; i += n> 300 ? 13 : 1) assert_int_equal(words[i], expected_word(seed, position, firsts[f] + (uint32_t)i));
    }
  }
  guarded_free(g);
}
static void words_of_any_range_are_philoxs(void **state) {
  (void)state;
  each_level(0, check_words);
}

static void check_words_of(const embed__kernels *k) {
  guarded from = guarded_new(4 * LONGEST, 1), to = guarded_new(4 * LONGEST, 1);
  uint64_t random = 4;
  for (int l = 0; l < LENGTHS; ++l) {
    const int64_t n = lengths[l];
    const uint64_t seed = test_random(&random), position = test_random(&random);
    int32_t *ids = (int32_t *)(void *)placed(from, 4 * LONGEST, (size_t)(4 * n), 1);
    uint32_t *words = (uint32_t *)(void *)placed(to, 4 * LONGEST, (size_t)(4 * n), 1);
    for (int64_t i = 0; i < n; ++i) ids[i] = (int32_t)(test_random(&random) >> 33);
    k->gumbel.words_of(seed, position, ids, n, words);
    for (int64_t i = 0; i < n; ++i) assert_int_equal(words[i], expected_word(seed, position, (uint32_t)ids[i]));
  }
  guarded_free(from);
  guarded_free(to);
}
static void words_of_any_ids_are_philoxs(void **state) {
  (void)state;
  each_level(0, check_words_of);
}

/* The same positions as scalar, and nothing past the ends is read or written. */
static void check_contenders(const embed__kernels *k) {
  static const float offsets[] = {1.2e9f, 1.3e9f, 1.34e9f, INFINITY, -INFINITY, 0.0f};
  const embed__kernels scalar = scalar_kernels();
  guarded zs = guarded_new(4 * LONGEST, 1), ws = guarded_new(4 * LONGEST, 1), out = guarded_new(4 * LONGEST, 1);
  static int32_t want[LONGEST];
  uint64_t random = 5;
  for (int l = 0; l < LENGTHS; ++l) {
    const int64_t n = lengths[l];
    float *z = (float *)(void *)placed(zs, 4 * LONGEST, (size_t)(4 * n), 1);
    uint32_t *words = (uint32_t *)(void *)placed(ws, 4 * LONGEST, (size_t)(4 * n), 1);
    int32_t *index = (int32_t *)(void *)placed(out, 4 * LONGEST, (size_t)(4 * n), 1);
    random_bytes(words, (size_t)(4 * n), &random);
    for (size_t o = 0; o < sizeof offsets / sizeof *offsets; ++o) {
      for (int hard = 0; hard < 2; ++hard) {
        for (int64_t i = 0; i < n; ++i) z[i] = hard ? hard_float(&random) : 4 * test_uniform(&random);
        if (n > 3) words[n / 2] = 0xFFFFFFFFu, words[n / 3] = 0;
        const int64_t found = k->gumbel.contenders(z, words, n, 0x1p23f * 1.442695f, offsets[o], index);
        assert_int_equal(found, scalar.gumbel.contenders(z, words, n, 0x1p23f * 1.442695f, offsets[o], want));
        assert_memory_equal(index, want, (size_t)(4 * found));
      }
    }
  }
  guarded_free(zs);
  guarded_free(ws);
  guarded_free(out);
}
static void contenders_are_those_of_scalar(void **state) {
  (void)state;
  each_level(0, check_contenders);
}

/* Each word beside the line: the best that it can still beat, at its very noise. */
static void check_bound(const embed__kernels *k) {
  uint64_t random = 6;
  int64_t ruled_out = 0;
  for (int i = 0; i < 200000; ++i) {
    static const uint32_t edge[] = {0, 1, 2, 0xFFFFFFFFu, 0xFFFFFFFEu, 0xFFFFFFFDu, 0xFFFFFF00u, 0x7FFFFFFFu, 0x80000000u};
    const uint32_t word = i < 9 ? edge[i] : (uint32_t)(test_random(&random) >> 32) | (i % 3 ? 0 : 0xFFFFFFFFu << i % 32);
    const double noise = -log(-log((2.0 * (double)word + 1.0) * 0x1p-33));
    const float z = 30 * test_uniform(&random);
    const double log2e = 1.4426950408889634;
    int32_t index[1];
    assert_true(noise <= EMBED__MOST_NOISE);
    float at = (float)(0x1p23 * (158.001 - ((double)z + noise) * log2e)), above = (float)(0x1p23 * (158 - ((double)z + noise + 0.3) * log2e));
    assert_int_equal(k->gumbel.contenders(&z, &word, 1, (float)(0x1p23 * log2e), at, index), 1);
    ruled_out += word > 0xF0000000u && k->gumbel.contenders(&z, &word, 1, (float)(0x1p23 * log2e), above, index) == 0;
  }
  assert_true(ruled_out > 10000); /* it does filter: near 0, where it is decided, the bound is close */
}
static void the_filter_keeps_all_that_can_win(void **state) {
  (void)state;
  each_level(0, check_bound);
}

static void check_sum(const embed__kernels *k) {
  static const double scales[] = {1, 0.5, 3.7, 1.0 / 0.8};
  guarded g = guarded_new(4 * LONGEST, 1);
  uint64_t random = 7;
  for (int l = 0; l < LENGTHS; ++l) {
    const int64_t n = lengths[l];
    float *z = (float *)(void *)placed(g, 4 * LONGEST, (size_t)(4 * n), 1), max = -INFINITY;
    for (size_t s = 0; s < sizeof scales / sizeof *scales; ++s) {
      long double want = 0;
      for (int64_t i = 0; i < n; ++i) {
        z[i] = i % 11 == 5 ? -INFINITY : 30 * test_uniform(&random);
        if (z[i] > max) max = z[i];
      }
      const double top = (double)max * scales[s];
      for (int64_t i = 0; i < n; ++i) want += expl((long double)z[i] * (long double)scales[s] - (long double)top);
      const double got = k->gumbel.sum_exp(z, n, scales[s], top);
      assert_true(fabsl((long double)got - want) <= 1e-13L * want + 1e-300L);
    }
    z[n / 2] = NAN;
    assert_true(isnan(k->gumbel.sum_exp(z, n, 1, 3)));
    for (int64_t i = 0; i < n; ++i) z[i] = -INFINITY;
    assert_true(k->gumbel.sum_exp(z, n, 1, 3) == 0);
    for (int64_t i = 0; i < n; ++i) z[i] = -3e38f;
    assert_true(k->gumbel.sum_exp(z, n, 1e200, 3) <= 1e-300);
  }
  guarded_free(g);
  for (int i = 0; i < 20000; ++i) { /* single terms, the whole range */
    const float z = -650 * fabsf(test_uniform(&random));
    const double want = exp((double)z);
    assert_true(fabs(k->gumbel.sum_exp(&z, 1, 1, 0) - want) <= 4e-15 * want);
  }
}
static void sums_of_exp_are_right_to_1e_13(void **state) {
  (void)state;
  each_level(0, check_sum);
}

static void check_control(const embed__kernels *k) {
  float z[67] = {0};
  uint32_t words[67];
  int32_t index[67];
  const unsigned control = control_bits();
  k->gumbel.words(1, 2, 3, 67, words);
  (void)k->gumbel.contenders(z, words, 67, 1, 0, index);
  (void)k->gumbel.sum_exp(z, 67, 1, 0);
  for (int i = 0; i < 67; ++i) index[i] = i;
  k->gumbel.words_of(1, 2, index, 67, words);
  assert_int_equal(control_bits(), control);
}
static void control_bits_stay_as_they_are(void **state) {
  (void)state;
  each_level(0, check_control);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(words_are_the_known_answers),    cmocka_unit_test(words_of_any_range_are_philoxs),    cmocka_unit_test(words_of_any_ids_are_philoxs),
    cmocka_unit_test(contenders_are_those_of_scalar), cmocka_unit_test(the_filter_keeps_all_that_can_win), cmocka_unit_test(sums_of_exp_are_right_to_1e_13),
    cmocka_unit_test(control_bits_stay_as_they_are),
};
TEST_MAIN(tests)
