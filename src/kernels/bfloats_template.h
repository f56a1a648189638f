/* SPDX-License-Identifier: BSD-3-Clause */
/* The bodies of bfloats.h: loops that compilers make vectors of, at each level's width. */
#include "kernels/bfloats.h"

#include "core/half.h"

/* The bits of a float that is a bfloat: the lower half is 0. */
static inline uint32_t rounded(float x) {
  const uint32_t u = embed__bits_of_f32(x), size = u & 0x7FFFFFFFu;
  uint32_t nearest = u + 0x7FFFu + (u >> 16 & 1u);
  nearest = size > 0x7F800000u ? u | 0x400000u : nearest;
  nearest = size < 0x00800000u ? u & 0x80000000u : nearest;
  return nearest & 0xFFFF0000u;
}

static void round_in_place(float *x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = embed__f32_of_bits(rounded(x[i]));
}

static void round_to(const float *restrict x, float *restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = embed__f32_of_bits(rounded(x[i]));
}

static void pair_along(const float *restrict x, int64_t n, uint32_t *restrict out) {
  for (int64_t p = 0; p < n / 2; ++p) out[p] = rounded(x[2 * p]) | rounded(x[2 * p + 1]) >> 16;
  if (n % 2) out[n / 2] = rounded(x[n - 1]);
}

static void pair_across(const float *restrict first, const float *restrict second, int64_t n, uint32_t *restrict out) {
  if (!second) {
    for (int64_t i = 0; i < n; ++i) out[i] = rounded(first[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i] = rounded(first[i]) | rounded(second[i]) >> 16;
}

static void use_bfloats(embed__bfloat_kernels *k) { *k = (embed__bfloat_kernels){round_in_place, round_to, pair_along, pair_across}; }
