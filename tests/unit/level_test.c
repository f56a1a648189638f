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
#if defined(__x86_64__) || defined(__i386__)
  assert_int_equal(embed__level_find("neon"), -1);
#if defined(__x86_64__)
  assert_int_equal(embed__level_find("amx"), embed__level_count() - 1);
#else
  assert_int_equal(embed__level_find("avx512bf16"), embed__level_count() - 1);
#endif
#elif defined(__aarch64__)
  assert_int_equal(embed__level_find("avx2"), -1);
  assert_int_equal(embed__level_find("neon"), embed__level_count() - 1);
#endif
}

/* A missing step stops the climb, whatever stands above it. */
static void the_best_level_needs_all_below_it(void **state) {
  (void)state;
  assert_int_equal(embed__level_best(0), 0);
#if defined(__x86_64__) || defined(__i386__)
  assert_int_equal(embed__level_best(EMBED__CPU_AVX512 | EMBED__CPU_AVX512VNNI), 0);
  assert_int_equal(embed__level_best(EMBED__CPU_AVX2), embed__level_find("avx2"));
  assert_int_equal(embed__level_best(EMBED__CPU_AVX2 | EMBED__CPU_AVX512), embed__level_find("avx512"));
  assert_int_equal(embed__level_best(EMBED__CPU_AVX2 | EMBED__CPU_AVX512BF16), embed__level_find("avx2"));
  assert_int_equal(embed__level_best(EMBED__CPU_AVX2 | EMBED__CPU_AVX512 | EMBED__CPU_AMX), embed__level_find("avx512"));
  assert_int_equal(embed__level_best(~0u), embed__level_count() - 1);
#elif defined(__aarch64__)
  assert_int_equal(embed__level_best(embed__cpu()), embed__level_find("neon")); /* every CPU has it */
#endif
  assert_int_equal(embed__cpu(), embed__cpu());
  assert_int_equal(embed__cpu_let() & ~(uint32_t)EMBED__CPU_AMX, embed__cpu() & ~(uint32_t)EMBED__CPU_AMX);
}

/* Nothing but function pointers from byte `first` to byte `end`. */
static void all_there(const embed__kernels *k, size_t first, size_t end, int level) {
  for (size_t at = first; at < end; at += sizeof(void *)) {
    void *pointer;
    memcpy(&pointer, (const char *)k + at, sizeof pointer);
    if (!pointer) fail_msg("level %s lacks the kernel at byte %d", embed__level_name(level), (int)at);
  }
}

static void every_level_has_every_kernel(void **state) {
  (void)state;
  for (int level = 0; level <= embed__level_best(embed__cpu_let()); ++level) { /* even filling a level in takes its instructions */
    embed__kernels k;
    memset(&k, 0, sizeof k);
    embed__level_fill(level, &k);
    /* The families from gather on have holes where a caller does without. */
    all_there(&k, offsetof(embed__kernels, row), offsetof(embed__kernels, dot), level);
    all_there(&k, offsetof(embed__kernels, dot.tile), offsetof(embed__kernels, dot.vector_bits), level);
    all_there(&k, offsetof(embed__kernels, reduce), offsetof(embed__kernels, gather), level);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(names_are_found_and_others_are_not),
    cmocka_unit_test(the_best_level_needs_all_below_it),
    cmocka_unit_test(every_level_has_every_kernel),
};
TEST_MAIN(tests)
