/* SPDX-License-Identifier: BSD-3-Clause */
/* The words that row_template.h and dot_template.h are written in, 16 floats at a time. avx2/vector.h says the same
 * 8 at a time. "part" is the first t elements of a vector, 0 < t < WIDTH: no byte past them is touched. */
#ifndef EMBED__AVX512_VECTOR_H
#define EMBED__AVX512_VECTOR_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "kernels/template.h"

enum {
  WIDTH = 16,      /* floats in a vector */
  PARTS = 1,       /* vectors that hold the 16 lanes of a sum */
  BLOCK = 16,      /* vectors of a row that are loaded before the first is stored */
  BYTES = 64,      /* of a vector */
  TILE_HIDDEN = 4, /* 4 rows x 4 hidden vectors: 16 of the 32 registers hold sums (of 8 in 32-bit code, which spills) */
};

typedef __m128 four;
typedef __m512 floats;
typedef __m512d doubles;
typedef __m512i words;

INLINE __mmask16 first(int64_t t) { return (__mmask16)((1u << t) - 1); }

INLINE floats zeros(void) { return _mm512_setzero_ps(); }
INLINE floats spread(float x) { return _mm512_set1_ps(x); }
INLINE floats load(const float *at) { return _mm512_loadu_ps(at); }
INLINE floats load_part(const float *at, int64_t t) { return _mm512_maskz_loadu_ps(first(t), at); }
INLINE void store(float *at, floats v) { _mm512_storeu_ps(at, v); }
INLINE void store_part(float *at, int64_t t, floats v) { _mm512_mask_storeu_ps(at, first(t), v); }
/* Past the part stands -0: 0 * -0 added to a sum leaves it as it is, whatever its sign. */
INLINE floats load_part_minus_zero(const float *at, int64_t t) { return _mm512_mask_loadu_ps(_mm512_set1_ps(-0.0f), first(t), at); }

INLINE floats plus(floats a, floats b) { return _mm512_add_ps(a, b); }
INLINE floats times(floats a, floats b) { return _mm512_mul_ps(a, b); }
INLINE floats times_plus(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
/* row where it beats best or is NaN, best elsewhere. */
INLINE floats larger(floats best, floats row) {
  return _mm512_mask_mov_ps(best, (__mmask16)(_mm512_cmp_ps_mask(row, best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(row, row, _CMP_UNORD_Q)), row);
}
INLINE floats smaller(floats best, floats row) {
  return _mm512_mask_mov_ps(best, (__mmask16)(_mm512_cmp_ps_mask(row, best, _CMP_LT_OQ) | _mm512_cmp_ps_mask(row, row, _CMP_UNORD_Q)), row);
}

/* A bfloat is the upper half of a float. */
INLINE floats of_bfloats(__m256i halves) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16)); }
INLINE floats of_halves(__m256i halves) { return _mm512_cvtph_ps(halves); }
INLINE floats of_int8(__m128i q) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)); }

INLINE floats load_f32(const unsigned char *at) { return _mm512_loadu_ps(at); }
INLINE floats load_f16(const unsigned char *at) { return of_halves(_mm256_loadu_si256((const void *)at)); }
INLINE floats load_bf16(const unsigned char *at) { return of_bfloats(_mm256_loadu_si256((const void *)at)); }
INLINE floats load_i8(const unsigned char *at) { return of_int8(_mm_loadu_si128((const void *)at)); }
INLINE floats load_f32_part(const unsigned char *at, int64_t t) { return _mm512_maskz_loadu_ps(first(t), at); }
INLINE floats load_f16_part(const unsigned char *at, int64_t t) { return of_halves(_mm256_maskz_loadu_epi16(first(t), at)); }
INLINE floats load_bf16_part(const unsigned char *at, int64_t t) { return of_bfloats(_mm256_maskz_loadu_epi16(first(t), at)); }
INLINE floats load_i8_part(const unsigned char *at, int64_t t) { return of_int8(_mm_maskz_loadu_epi8(first(t), at)); }

INLINE __m256i halves_of(floats v) { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* In integers: vcvtneps2bf16 flushes subnormals. */
INLINE __m256i bfloats_of(floats v) {
  __m512i u = _mm512_castps_si512(v), upper = _mm512_srli_epi32(u, 16);
  __m512i half = _mm512_add_epi32(_mm512_set1_epi32(0x7FFF), _mm512_and_epi32(upper, _mm512_set1_epi32(1)));
  __m512i nearest = _mm512_srli_epi32(_mm512_add_epi32(u, half), 16);
  __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(nearest, nan, upper, _mm512_set1_epi32(0x40)));
}
INLINE void store_f16(unsigned char *at, floats v) { _mm256_storeu_si256((void *)at, halves_of(v)); }
INLINE void store_bf16(unsigned char *at, floats v) { _mm256_storeu_si256((void *)at, bfloats_of(v)); }
INLINE void store_f16_part(unsigned char *at, int64_t t, floats v) { _mm256_mask_storeu_epi16(at, first(t), halves_of(v)); }
INLINE void store_bf16_part(unsigned char *at, int64_t t, floats v) { _mm256_mask_storeu_epi16(at, first(t), bfloats_of(v)); }

INLINE words load_words(const unsigned char *at) { return _mm512_loadu_si512(at); }
INLINE void store_words(unsigned char *at, words v) { _mm512_storeu_si512(at, v); }
INLINE void stream_words(unsigned char *at, words v) { _mm512_stream_si512((void *)at, v); }
INLINE void stream_end(void) { _mm_sfence(); }
INLINE void copy_part(unsigned char *out, const unsigned char *row, int64_t bytes) {
  __mmask64 mask = ((__mmask64)1 << bytes) - 1;
  _mm512_mask_storeu_epi8(out, mask, _mm512_maskz_loadu_epi8(mask, row));
}

INLINE void prefetch(uintptr_t at) { _mm_prefetch((const char *)at, _MM_HINT_T0); }
INLINE void prefetch_to_l2(uintptr_t at) { _mm_prefetch((const char *)at, _MM_HINT_T1); }

INLINE doubles no_doubles(void) { return _mm512_setzero_pd(); }
INLINE doubles lower_doubles(floats v) { return _mm512_cvtps_pd(_mm512_castps512_ps256(v)); }
INLINE doubles upper_doubles(floats v) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)); }
INLINE doubles plus_square(doubles sum, doubles v) { return _mm512_fmadd_pd(v, v, sum); }
INLINE four load_four(const float *at) { return _mm_loadu_ps(at); }
INLINE four times_four(four a, four b) { return _mm_mul_ps(a, b); }
INLINE void store_four(float *at, four v) { _mm_storeu_ps(at, v); }
INLINE void store_doubles(double *at, doubles v) { _mm512_storeu_pd(at, v); }

/* Sums of lanes, always in the order i and i + 8, + 4, + 2, + 1. Two vectors fold into one at every step. */
INLINE four sums_of_four(const floats v[4]) {
  floats a = plus(_mm512_shuffle_f32x4(v[0], v[2], 0x44), _mm512_shuffle_f32x4(v[0], v[2], 0xEE));
  floats b = plus(_mm512_shuffle_f32x4(v[1], v[3], 0x44), _mm512_shuffle_f32x4(v[1], v[3], 0xEE));
  floats lanes = plus(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD)); /* 4 of each vector */
  __m256d even = _mm256_castps_pd(_mm512_castps512_ps256(lanes)), odd = _mm256_castps_pd(_mm512_extractf32x8_ps(lanes, 1));
  __m256 two = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(even, odd)), _mm256_castpd_ps(_mm256_unpackhi_pd(even, odd)));
  __m128 low = _mm256_castps256_ps128(two), high = _mm256_extractf128_ps(two, 1);
  return _mm_add_ps(_mm_shuffle_ps(low, high, 0x88), _mm_shuffle_ps(low, high, 0xDD));
}
/* sums[h] = sums_of_four(v[h]); 16 vectors at once need 30 shuffles, four at a time 48. */
INLINE void sums_of_tile(floats v[TILE_HIDDEN][4], int hidden, four sums[TILE_HIDDEN]) {
  if (hidden < 4) {
    for (int h = 0; h < hidden; ++h) sums[h] = sums_of_four(v[h]);
    return;
  }
  floats row[4], pair[2];
  for (int r = 0; r < 4; ++r) {
    floats a = plus(_mm512_shuffle_f32x4(v[0][r], v[1][r], 0x44), _mm512_shuffle_f32x4(v[0][r], v[1][r], 0xEE));
    floats b = plus(_mm512_shuffle_f32x4(v[2][r], v[3][r], 0x44), _mm512_shuffle_f32x4(v[2][r], v[3][r], 0xEE));
    row[r] = plus(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD)); /* 4 lanes of each hidden */
  }
  for (int p = 0; p < 2; ++p) {
    __m512d even = _mm512_castps_pd(row[2 * p]), odd = _mm512_castps_pd(row[2 * p + 1]);
    pair[p] = plus(_mm512_castpd_ps(_mm512_unpacklo_pd(even, odd)), _mm512_castpd_ps(_mm512_unpackhi_pd(even, odd)));
  }
  floats all = plus(_mm512_shuffle_ps(pair[0], pair[1], 0x88), _mm512_shuffle_ps(pair[0], pair[1], 0xDD));
  sums[0] = _mm512_castps512_ps128(all);
  sums[1] = _mm512_extractf32x4_ps(all, 1);
  sums[2] = _mm512_extractf32x4_ps(all, 2);
  sums[3] = _mm512_extractf32x4_ps(all, 3);
}

#endif
