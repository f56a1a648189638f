/* SPDX-License-Identifier: BSD-3-Clause */
/* The sampling kernels of every level: words against a Philox written here, the filter against the noise in double. */
#include "timed.h"

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
  guarded g[2] = {guarded_new(4 * LONGEST, 0), guarded_new(4 * LONGEST, 1)};
  uint64_t random = 3;
  for (size_t f = 0; f < sizeof firsts / sizeof *firsts; ++f) {
    for (int l = -1; l < LENGTHS; ++l) {
      const int at_end = f % 2 == 0;
      const int64_t n = l < 0 ? 0 : lengths[l];
      const uint64_t seed = test_random(&random), position = test_random(&random) >> ((l + 1) % 3 * 20);
      uint32_t *words = (uint32_t *)(void *)placed(g[at_end], 4 * LONGEST, (size_t)(4 * n), at_end);
      memset(g[at_end].at, 0xA5, 4 * LONGEST);
      k->gumbel.words(seed, position, firsts[f], n, words);
      for (int64_t i = 0; i<n; i += n> 300 ? 13 : 1) assert_int_equal(words[i], expected_word(seed, position, firsts[f] + (uint32_t)i));
      assert_true(test_all_bytes(at_end ? (void *)g[at_end].at : (void *)(words + n), (size_t)(4 * (LONGEST - n)), 0xA5));
    }
  }
  guarded_free(g[0]);
  guarded_free(g[1]);
}
static void words_of_any_range_are_philoxs(void **state) {
  (void)state;
  each_level(0, check_words);
}

static void check_words_of(const embed__kernels *k) {
  guarded from[2] = {guarded_new(4 * LONGEST, 0), guarded_new(4 * LONGEST, 1)}, to[2] = {guarded_new(4 * LONGEST, 0), guarded_new(4 * LONGEST, 1)};
  uint64_t random = 4;
  for (int l = -2; l < 2 * LENGTHS; ++l) {
    const int at_end = l % 2 == 0;
    const int64_t n = l < 0 ? 0 : lengths[l / 2];
    const uint64_t seed = test_random(&random), position = test_random(&random);
    int32_t *ids = (int32_t *)(void *)placed(from[at_end], 4 * LONGEST, (size_t)(4 * n), at_end);
    uint32_t *words = (uint32_t *)(void *)placed(to[at_end], 4 * LONGEST, (size_t)(4 * n), at_end);
    memset(to[at_end].at, 0xA5, 4 * LONGEST);
    for (int64_t i = 0; i < n; ++i) ids[i] = (int32_t)(test_random(&random) >> 33);
    k->gumbel.words_of(seed, position, ids, n, words);
    for (int64_t i = 0; i < n; ++i) assert_int_equal(words[i], expected_word(seed, position, (uint32_t)ids[i]));
    assert_true(test_all_bytes(at_end ? (void *)to[at_end].at : (void *)(words + n), (size_t)(4 * (LONGEST - n)), 0xA5));
  }
  for (int i = 0; i < 2; ++i) guarded_free(from[i]), guarded_free(to[i]);
}
static void words_of_any_ids_are_philoxs(void **state) {
  (void)state;
  each_level(0, check_words_of);
}

/* The same positions as scalar, and nothing past the ends is read or written. */
static void check_contenders(const embed__kernels *k) {
  static const float offsets[] = {1.2e9f, 1.3e9f, 1.34e9f, INFINITY, -INFINITY, 0.0f};
  const embed__kernels scalar = scalar_kernels();
  static int32_t want[LONGEST];
  uint64_t random = 5;
  for (int l = -2; l < 2 * LENGTHS; ++l) {
    const int at_end = l % 2 == 0;
    const int64_t n = l < 0 ? 0 : lengths[l / 2];
    guarded zs = guarded_new((size_t)(4 * n), at_end), ws = guarded_new((size_t)(4 * n), at_end), out = guarded_new((size_t)(4 * n), at_end);
    float *z = (float *)(void *)zs.at;
    uint32_t *words = (uint32_t *)(void *)ws.at;
    int32_t *index = (int32_t *)(void *)out.at;
    random_bytes(words, (size_t)(4 * n), &random);
    for (size_t o = 0; o < sizeof offsets / sizeof *offsets; ++o) {
      for (int hard = 0; hard < 2; ++hard) {
        for (int64_t i = 0; i < n; ++i) z[i] = hard ? hard_float(&random) : 4 * test_uniform(&random);
        if (n > 3) words[n / 2] = 0xFFFFFFFFu, words[n / 3] = 0;
        const int64_t found = k->gumbel.contenders(z, words, n, 0x1p23f * 1.442695f, offsets[o], index);
        assert_int_equal(found, scalar.gumbel.contenders(z, words, n, 0x1p23f * 1.442695f, offsets[o], want));
        if (found > 0) assert_memory_equal(index, want, (size_t)(4 * found));
      }
    }
    guarded_free(zs);
    guarded_free(ws);
    guarded_free(out);
  }
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
  uint64_t random = 7;
  assert_true(k->gumbel.sum_exp(&(float){NAN}, 0, 1, 0) == 0);
  for (int l = 0; l < 2 * LENGTHS; ++l) {
    const int64_t n = lengths[l / 2];
    guarded g = guarded_new((size_t)(4 * n), l % 2);
    float *z = (float *)(void *)g.at, max = -INFINITY;
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
    guarded_free(g);
  }
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

/* --- timed: 32,768 ids --- */

enum { TIMED_IDS = 32768 };
typedef struct timed_noise {
  const embed__kernels *k;
  float z[TIMED_IDS];
  uint32_t words[TIMED_IDS];
  int32_t ids[TIMED_IDS], index[TIMED_IDS];
  double sum;
} timed_noise;

static void run_words(void *job) {
  timed_noise *t = job;
  t->k->gumbel.words(5, 6, 0, TIMED_IDS, t->words);
}
static void run_words_of(void *job) {
  timed_noise *t = job;
  t->k->gumbel.words_of(5, 6, t->ids, TIMED_IDS, t->words);
}
static void run_contenders(void *job) {
  timed_noise *t = job;
  (void)t->k->gumbel.contenders(t->z, t->words, TIMED_IDS, 0x1p23f * 1.442695f, (float)(0x1p23 * (158 - 20 * 1.442695)), t->index);
}
static void run_sum_exp(void *job) {
  timed_noise *t = job;
  t->sum = t->k->gumbel.sum_exp(t->z, TIMED_IDS, 1.25, 5);
}

static void time_noise(const embed__kernels *k, kernel_timer *timer) {
  static timed_noise t;
  uint64_t state = 8;
  t.k = k;
  for (int i = 0; i < TIMED_IDS; ++i) t.z[i] = 4 * test_uniform(&state), t.ids[i] = (int32_t)(test_random(&state) >> 33);
  kernel_bench(timer, &(timed_case){"words of ids", (timed_kernel *)k->gumbel.words_of, run_words_of, &t, 8 * TIMED_IDS, TIMED_BYTES});
  kernel_bench(timer, &(timed_case){"words", (timed_kernel *)k->gumbel.words, run_words, &t, 4 * TIMED_IDS, TIMED_BYTES});
  k->gumbel.words(5, 6, 0, TIMED_IDS, t.words);
  kernel_bench(timer, &(timed_case){"contenders", (timed_kernel *)k->gumbel.contenders, run_contenders, &t, 8 * TIMED_IDS, TIMED_BYTES});
  kernel_bench(timer, &(timed_case){"sum of exp", (timed_kernel *)k->gumbel.sum_exp, run_sum_exp, &t, 4 * TIMED_IDS, TIMED_BYTES});
}
KERNEL_CASES(time_noise)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(words_are_the_known_answers),       cmocka_unit_test(words_of_any_range_are_philoxs),
    cmocka_unit_test(words_of_any_ids_are_philoxs),      cmocka_unit_test(contenders_are_those_of_scalar),
    cmocka_unit_test(the_filter_keeps_all_that_can_win), cmocka_unit_test(sums_of_exp_are_right_to_1e_13),
    cmocka_unit_test(control_bits_stay_as_they_are),     cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("gumbel", tests, time_noise)
