/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel tests share: the levels of this machine, lengths, hard values, buffers between unreadable pages. */
#ifndef TEST_KERNEL_LEVELS_H
#define TEST_KERNEL_LEVELS_H

#include "test.h"

#include <math.h>
#include <stdbool.h>

#include "core/cpu.h"
#include "core/half.h"
#include "kernels/kernels.h"

/* Every tail of a 16-lane vector several times over, a length that is no multiple of anything, and those of models. */
static const int64_t lengths[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18,  19,  20,  21,  22,  23,  24,  25,
                                  26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,  44,  45,  46,  47,  48,  49,  50,
                                  51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 100, 127, 256, 576, 640, 768, 4096};
enum { LENGTHS = sizeof lengths / sizeof *lengths, LONGEST = 4096 };

typedef void level_check(const embed__kernels *k);

/* Runs the check on every level of this CPU from `lowest` on; one that inherits all its kernels is that below it again. */
static inline void each_level(int lowest, level_check *check) {
  for (int level = lowest; level <= embed__level_best(embed__cpu_let()); ++level) {
    embed__kernels k, below;
    memset(&k, 0, sizeof k);
    embed__level_fill(level, &k);
    memset(&below, 0, sizeof below);
    if (level > 0) embed__level_fill(level - 1, &below);
    if (!memcmp(&k, &below, sizeof k)) continue;
    print_message("level %s\n", embed__level_name(level)); /* which one a failure below belongs to */
    check(&k);
  }
}

static inline embed__kernels scalar_kernels(void) {
  embed__kernels k;
  memset(&k, 0, sizeof k);
  embed__level_fill(0, &k);
  return k;
}

/* The last (or first) `bytes` bytes of a guarded buffer of `room`: the next (or previous) byte cannot be read. */
static inline unsigned char *placed(guarded g, size_t room, size_t bytes, int at_end) { return g.at + (at_end ? room - bytes : 0); }

static inline void random_bytes(void *memory, size_t bytes, uint64_t *state) {
  for (size_t i = 0; i < bytes; ++i) ((unsigned char *)memory)[i] = (unsigned char)(test_random(state) >> 56);
}

/* Numbers, any bit pattern, and the values that kernels get wrong. */
static inline float hard_float(uint64_t *state) {
  static const uint32_t hard[] = {0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F812345, 0x00000001, 0x807FFFFF,
                                  0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0x33000000, 0x33000001, 0x477FEFFF, 0x477FF000, 0x38800000};
  uint64_t word = test_random(state);
  switch (word >> 62) {
    case 0: return embed__f32_of_bits(hard[(word & 0xFFFF) % (sizeof hard / sizeof *hard)]);
    case 1: return embed__f32_of_bits((uint32_t)word);
    default: return test_uniform(state);
  }
}

static inline void hard_floats(float *out, int64_t n, uint64_t *state) {
  for (int64_t j = 0; j < n; ++j) out[j] = hard_float(state);
}

static inline unsigned control_bits(void) {
#if defined(__SSE__)
  return __builtin_ia32_stmxcsr() & 0xFFC0u; /* without the sticky flags */
#elif defined(__aarch64__)
  return (unsigned)__builtin_aarch64_get_fpcr();
#else
  return 0;
#endif
}

#endif
