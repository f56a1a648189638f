/* SPDX-License-Identifier: BSD-3-Clause */
/* What every test file shares: cmocka, numbers from a seed, buffers that begin and end at unreadable pages. */
#ifndef TEST_H
#define TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* Address, thread and memory sanitizers: slow, and with shadow memory of terabytes. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TEST_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#endif

/* Kernel levels of this architecture, lowest first; a CPU without the last gives its own best for them. */
#if defined(__x86_64__)
#define TEST_LEVELS "scalar", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"
#elif defined(__i386__)
#define TEST_LEVELS "scalar", "avx2", "avx512", "avx512vnni", "avx512bf16"
#elif defined(__aarch64__)
#define TEST_LEVELS "scalar", "neon"
#else
#define TEST_LEVELS "scalar"
#endif

/* Of the best level here: neon has no vectors for sketches, so heads that have one are swept. */
#if defined(__aarch64__)
#define TEST_SKETCH_SEARCHES 0
#else
#define TEST_SKETCH_SEARCHES 1
#endif

/* One test by name (ctest does that), or all. */
#define TEST_MAIN(tests)                              \
  int main(int argc, char **argv) {                   \
    if (argc > 1) cmocka_set_test_filter(argv[1]);    \
    return cmocka_run_group_tests(tests, NULL, NULL); \
  }

static inline uint64_t test_random(uint64_t *state) { /* xorshift64*; state is not 0 */
  uint64_t x = *state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  *state = x;
  return x * 0x2545F4914F6CDD1Dull;
}

static inline float test_uniform(uint64_t *state) { /* [-1, 1) */
  return (float)((double)(test_random(state) >> 11) * 0x1p-52 - 1.0);
}

/* Memory of exactly `bytes` bytes whose end (or start) lies at a page that cannot be read. */
typedef struct guarded {
  unsigned char *at;
  void *map;
  size_t map_bytes;
} guarded;

static inline guarded guarded_new(size_t bytes, int at_end) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), middle = (bytes + page - 1) / page * page;
  guarded g = {.map_bytes = middle + 2 * page};
  g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g.map != MAP_FAILED);
  assert_int_equal(mprotect(g.map, page, PROT_NONE), 0);
  assert_int_equal(mprotect((char *)g.map + page + middle, page, PROT_NONE), 0);
  g.at = (unsigned char *)g.map + page + (at_end ? middle - bytes : 0);
  return g;
}

static inline void guarded_free(guarded g) { munmap(g.map, g.map_bytes); }

static inline void assert_same_bits(const void *got, const void *want, size_t bytes) { assert_memory_equal(got, want, bytes); }

static inline int test_all_bytes(const void *memory, size_t bytes, unsigned char value) {
  for (size_t i = 0; i < bytes; ++i)
    if (((const unsigned char *)memory)[i] != value) return 0;
  return 1;
}

/* Files hold their numbers in little-endian: those of 4 bytes turned to this machine's order, or back. */
enum { TEST_BIG_ENDIAN = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ };
static inline void test_file_order(void *numbers, size_t count) {
  unsigned char *byte = (unsigned char *)numbers;
  for (size_t i = 0; TEST_BIG_ENDIAN && i < count; ++i, byte += 4) {
    const unsigned char first = byte[0], second = byte[1];
    byte[0] = byte[3], byte[1] = byte[2], byte[2] = second, byte[3] = first;
  }
}

/* The read-only folder of models and known answers beside a checkout, NULL when it is not there. */
static inline const char *test_shared(const char *source_dir) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/../shared/data", source_dir);
  return access(path, R_OK) == 0 ? path : NULL;
}

#endif
