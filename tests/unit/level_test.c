/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of kernel levels: a total order, each filled from the one below. */
#include "test.h"

#include "core/cpu.h"
#include "kernels/kernels.h"

static void names_are_found_and_others_are_not(void **state) {
  (void)state;
  assert_string_equal(embed__level_name(0), "scalar");
  for (int i = 0; i < embed__level_count(); ++i) assert_int_equal(embed__level_find(embed__level_name(i)), i);
  static const char *const none[] = {"", "AVX2", "avx", "avx2 ", "sse2", "default"};
  for (size_t i = 0; i < sizeof none / sizeof *none; ++i) assert_int_equal(embed__level_find(none[i]), -1);
#if defined(__x86_64__)
  assert_int_equal(embed__level_find("neon"), -1);
  assert_int_equal(embed__level_find("avx512bf16"), embed__level_count() - 1);
#elif defined(__aarch64__)
  assert_int_equal(embed__level_find("avx2"), -1);
#endif
}

/* A missing step stops the climb, whatever stands above it. */
static void the_best_level_needs_all_below_it(void **state) {
  (void)state;
  assert_int_equal(embed__level_best(0), 0);
#if defined(__x86_64__)
  assert_int_equal(embed__level_best(EMBED__CPU_AVX512 | EMBED__CPU_AVX512VNNI), 0);
  assert_int_equal(embed__level_best(EMBED__CPU_AVX2), embed__level_find("avx2"));
  assert_int_equal(embed__level_best(EMBED__CPU_AVX2 | EMBED__CPU_AVX512), embed__level_find("avx512"));
  assert_int_equal(embed__level_best(EMBED__CPU_AVX2 | EMBED__CPU_AVX512BF16), embed__level_find("avx2"));
  assert_int_equal(embed__level_best(~0u), embed__level_count() - 1);
#endif
  assert_int_equal(embed__cpu(), embed__cpu());
}

static void every_level_has_every_kernel(void **state) {
  (void)state;
  for (int level = 0; level < embed__level_count(); ++level) {
    embed__kernels k;
    memset(&k, 0, sizeof k);
    embed__level_fill(level, &k);
    /* Nothing but function pointers; the families from gather on have holes where a caller does without. */
    for (size_t i = 0; i < offsetof(embed__kernels, gather) / sizeof(void *); ++i) {
      void *pointer;
      memcpy(&pointer, (const char *)&k + i * sizeof pointer, sizeof pointer);
      if (!pointer) fail_msg("level %s lacks kernel %d", embed__level_name(level), (int)i);
    }
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(names_are_found_and_others_are_not),
    cmocka_unit_test(the_best_level_needs_all_below_it),
    cmocka_unit_test(every_level_has_every_kernel),
};
TEST_MAIN(tests)
