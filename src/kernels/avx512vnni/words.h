/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of quantised_template.h. Two panels at a time, a panel's line in one register: 8 rows of exact digits make 16 sums and 4 chains of
 * the 32 registers, 6 of rounded ones 12 and 12; four panels where there are few. */
#ifndef EMBED__AVX512VNNI_WORDS_H
#define EMBED__AVX512VNNI_WORDS_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#include "kernels/template.h"

enum { LANES = 16, PARTS = 1, EXACT_DIGITS = 8, ROUNDED_ROWS = 6, PAIRED_LIMBS = 4 };
#define EXACT_TILES(X, ...) \
  X(__VA_ARGS__, 2, 1) X(__VA_ARGS__, 2, 2) X(__VA_ARGS__, 3, 1) X(__VA_ARGS__, 3, 2) X(__VA_ARGS__, 4, 1) X(__VA_ARGS__, 4, 2) X(__VA_ARGS__, 6, 1)
#define ROUNDED_TILES(X, ...)      X(__VA_ARGS__, 1) X(__VA_ARGS__, 2) X(__VA_ARGS__, 3) X(__VA_ARGS__, 4) X(__VA_ARGS__, 5) X(__VA_ARGS__, 6)
#define EXACT_ONLY_TILES(X, ...)   X(__VA_ARGS__, 2, 1) X(__VA_ARGS__, 2, 2) X(__VA_ARGS__, 3, 1) X(__VA_ARGS__, 4, 1)
#define ROUNDED_ONLY_TILES(X, ...) X(__VA_ARGS__, 1) X(__VA_ARGS__, 2) X(__VA_ARGS__, 3)
typedef __m512i ints;
typedef __m512 reals;

typedef ints quad;
INLINE quad spread_digits(int most, const int32_t *at, int odd) {
  (void)most, (void)odd;
  return _mm512_set1_epi32(*at);
}
INLINE ints dot4(int most, ints sum, ints u, quad x) {
  (void)most;
  return _mm512_dpbusd_epi32(sum, u, x);
}

INLINE ints plus_product(ints sum, ints a, ints b) { return _mm512_dpwssd_epi32(sum, a, b); }

INLINE ints load_ints(const void *at) { return _mm512_loadu_si512(at); }
INLINE void store_ints(void *at, ints v) { _mm512_storeu_si512(at, v); }
INLINE void stream_ints(void *at, ints v) { _mm512_stream_si512(at, v); }
INLINE ints no_ints(void) { return _mm512_setzero_si512(); }
INLINE ints spread_word(const int32_t *at) { return _mm512_set1_epi32(*at); }
INLINE ints low_nibbles(ints v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
INLINE ints high_nibbles(ints v) { return _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15)); }
INLINE ints nibbles_of(ints low, ints high) { return _mm512_or_si512(low, _mm512_slli_epi16(high, 4)); }
INLINE ints flip_signs(ints v) { return _mm512_xor_si512(v, _mm512_set1_epi8(-128)); }
/* u | (v >> from & mask) << to in every byte. */
INLINE ints with_bits(ints u, ints v, int from, int mask, int to) {
  ints kept = _mm512_and_si512(_mm512_srl_epi16(v, _mm_cvtsi32_si128(from)), _mm512_set1_epi8((char)mask));
  return _mm512_or_si512(u, _mm512_sll_epi16(kept, _mm_cvtsi32_si128(to)));
}
/* In every word of 4 bytes. */
INLINE ints bits(ints v, int at, int mask) {
  if (at == 0) return _mm512_and_si512(v, _mm512_set1_epi32(mask));
  return _mm512_and_si512(_mm512_srli_epi32(v, (unsigned)at), _mm512_set1_epi32(mask));
}
/* The bits of the float 2^23 + byte i of every word. */
INLINE ints magic_byte(ints v, int i) {
  static _Alignas(64) const unsigned char place[4][64] = {
#define LANE(i, l) (i) + 4 * (l), 0, 0, 0
#define PLACES(i)                                                                                  \
  {LANE(i, 0), LANE(i, 1), LANE(i, 2), LANE(i, 3), LANE(i, 0), LANE(i, 1), LANE(i, 2), LANE(i, 3), \
   LANE(i, 0), LANE(i, 1), LANE(i, 2), LANE(i, 3), LANE(i, 0), LANE(i, 1), LANE(i, 2), LANE(i, 3)}
      PLACES(0), PLACES(1), PLACES(2), PLACES(3)};
  return _mm512_mask_shuffle_epi8(_mm512_set1_epi32(0x4B000000), 0x1111111111111111, v, _mm512_load_si512(place[i]));
}
INLINE ints either(ints a, ints b) { return _mm512_or_si512(a, b); }
INLINE ints signed_byte(ints v, int i) { return _mm512_srai_epi32(_mm512_sllv_epi32(v, _mm512_set1_epi32(24 - 8 * i)), 24); }

INLINE reals no_reals(void) { return _mm512_setzero_ps(); }
INLINE reals spread(float x) { return _mm512_set1_ps(x); }
INLINE reals load_reals(const float *at) { return _mm512_loadu_ps(at); }
INLINE reals load_part(const float *at, int64_t lanes) { return _mm512_maskz_loadu_ps((__mmask16)((1u << lanes) - 1), at); }
INLINE void store_part(float *at, int64_t lanes, reals v) { _mm512_mask_storeu_ps(at, (__mmask16)((1u << lanes) - 1), v); }
INLINE reals load_halves(const unsigned char *at) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)at)); }
INLINE reals low_halves(ints v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
INLINE reals high_halves(ints v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(v, 16))); }
INLINE reals as_reals(ints v) { return _mm512_castsi512_ps(v); } /* the bits */
INLINE ints as_ints(reals v) { return _mm512_castps_si512(v); }
INLINE reals reals_of(ints v) { return _mm512_cvtepi32_ps(v); }
INLINE reals plus(reals a, reals b) { return _mm512_add_ps(a, b); }
INLINE reals minus(reals a, reals b) { return _mm512_sub_ps(a, b); }
INLINE reals larger(reals a, reals b) { return _mm512_max_ps(a, b); }  /* b where a is NaN */
INLINE reals smaller(reals a, reals b) { return _mm512_min_ps(a, b); } /* likewise */
INLINE reals over(reals a, reals b) { return _mm512_div_ps(a, b); }
/* 1 / v of a float 2^23 + v, v below 64, looked up: quotients take longer than all else that a block's scales do. */
INLINE reals inverse_of_magic(ints v) {
  static _Alignas(64) const float inverse[64] = {
      INFINITY,  1.0f / 1,  1.0f / 2,  1.0f / 3,  1.0f / 4,  1.0f / 5,  1.0f / 6,  1.0f / 7,  1.0f / 8,  1.0f / 9,  1.0f / 10, 1.0f / 11, 1.0f / 12,
      1.0f / 13, 1.0f / 14, 1.0f / 15, 1.0f / 16, 1.0f / 17, 1.0f / 18, 1.0f / 19, 1.0f / 20, 1.0f / 21, 1.0f / 22, 1.0f / 23, 1.0f / 24, 1.0f / 25,
      1.0f / 26, 1.0f / 27, 1.0f / 28, 1.0f / 29, 1.0f / 30, 1.0f / 31, 1.0f / 32, 1.0f / 33, 1.0f / 34, 1.0f / 35, 1.0f / 36, 1.0f / 37, 1.0f / 38,
      1.0f / 39, 1.0f / 40, 1.0f / 41, 1.0f / 42, 1.0f / 43, 1.0f / 44, 1.0f / 45, 1.0f / 46, 1.0f / 47, 1.0f / 48, 1.0f / 49, 1.0f / 50, 1.0f / 51,
      1.0f / 52, 1.0f / 53, 1.0f / 54, 1.0f / 55, 1.0f / 56, 1.0f / 57, 1.0f / 58, 1.0f / 59, 1.0f / 60, 1.0f / 61, 1.0f / 62, 1.0f / 63};
  const reals low = _mm512_permutex2var_ps(_mm512_load_ps(inverse), v, _mm512_load_ps(inverse + 16));
  const reals high = _mm512_permutex2var_ps(_mm512_load_ps(inverse + 32), v, _mm512_load_ps(inverse + 48));
  return _mm512_mask_blend_ps(_mm512_test_epi32_mask(v, _mm512_set1_epi32(32)), low, high);
}
INLINE reals times(reals a, reals b) { return _mm512_mul_ps(a, b); }
INLINE reals times_plus(reals a, reals b, reals c) { return _mm512_fmadd_ps(a, b, c); }
INLINE reals minus_times(reals a, reals b, reals c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a * b */
INLINE void prefetch(uintptr_t at) { _mm_prefetch((const char *)at, _MM_HINT_T0); }
INLINE void prefetch_to_l2(uintptr_t at) { _mm_prefetch((const char *)at, _MM_HINT_T1); }

/* Rows r, r + 4, r + 8 and r + 12 share a register, whose 4 x 4 words are transposed with its three neighbours'. */
INLINE void lines_of_rows(const unsigned char *const row[16], int64_t at, ints line[4][PARTS]) {
  ints four[4];
  UNROLL for (int r = 0; r < 4; ++r) {
    ints v = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(row[r] + at)));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(row[r + 4] + at)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(row[r + 8] + at)), 2);
    four[r] = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(row[r + 12] + at)), 3);
  }
  ints low01 = _mm512_unpacklo_epi32(four[0], four[1]), high01 = _mm512_unpackhi_epi32(four[0], four[1]);
  ints low23 = _mm512_unpacklo_epi32(four[2], four[3]), high23 = _mm512_unpackhi_epi32(four[2], four[3]);
  line[0][0] = _mm512_unpacklo_epi64(low01, low23);
  line[1][0] = _mm512_unpackhi_epi64(low01, low23);
  line[2][0] = _mm512_unpacklo_epi64(high01, high23);
  line[3][0] = _mm512_unpackhi_epi64(high01, high23);
}

#endif
