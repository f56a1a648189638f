/* SPDX-License-Identifier: BSD-3-Clause */
/* The words that row_template.h and dot_template.h are written in, 8 floats at a time. avx512/vector.h says the same
 * 16 at a time. "part" is the first t elements of a vector, 0 < t < WIDTH: no byte past them is touched. */
#ifndef EMBED__AVX2_VECTOR_H
#define EMBED__AVX2_VECTOR_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "kernels/template.h"

enum {
  WIDTH = 8,       /* floats in a vector */
  PARTS = 2,       /* vectors that hold the 16 lanes of a sum */
  BLOCK = 8,       /* vectors of a row that are loaded before the first is stored */
  BYTES = 32,      /* of a vector */
  TILE_HIDDEN = 3, /* 4 rows x 3 hidden vectors: 12 of the 16 registers hold sums */
};

typedef __m128 four;
typedef __m256 floats;
typedef __m256d doubles;
typedef __m256i words;

INLINE __m256i first(int64_t t) { return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)t), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }

INLINE floats zeros(void) { return _mm256_setzero_ps(); }
INLINE floats spread(float x) { return _mm256_set1_ps(x); }
INLINE floats load(const float *at) { return _mm256_loadu_ps(at); }
INLINE floats load_part(const float *at, int64_t t) { return _mm256_maskload_ps(at, first(t)); }
INLINE void store(float *at, floats v) { _mm256_storeu_ps(at, v); }
INLINE void store_part(float *at, int64_t t, floats v) { _mm256_maskstore_ps(at, first(t), v); }
/* Past the part stands -0: 0 * -0 added to a sum leaves it as it is, whatever its sign. */
INLINE floats load_part_minus_zero(const float *at, int64_t t) {
  return _mm256_or_ps(load_part(at, t), _mm256_andnot_ps(_mm256_castsi256_ps(first(t)), _mm256_set1_ps(-0.0f)));
}

INLINE floats plus(floats a, floats b) { return _mm256_add_ps(a, b); }
INLINE floats times(floats a, floats b) { return _mm256_mul_ps(a, b); }
INLINE floats times_plus(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
/* row where it beats best or is NaN, best elsewhere. */
INLINE floats larger(floats best, floats row) {
  return _mm256_blendv_ps(best, row, _mm256_or_ps(_mm256_cmp_ps(row, best, _CMP_GT_OQ), _mm256_cmp_ps(row, row, _CMP_UNORD_Q)));
}
INLINE floats smaller(floats best, floats row) {
  return _mm256_blendv_ps(best, row, _mm256_or_ps(_mm256_cmp_ps(row, best, _CMP_LT_OQ), _mm256_cmp_ps(row, row, _CMP_UNORD_Q)));
}

/* A bfloat is the upper half of a float. */
INLINE floats of_bfloats(__m128i halves) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16)); }
INLINE floats of_halves(__m128i halves) { return _mm256_cvtph_ps(halves); }
INLINE floats of_int8(__m128i q) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)); }
/* AVX2 has no masked load of 8 or 16 bits. */
INLINE __m128i load_bytes(const unsigned char *at, int64_t bytes) {
  unsigned char copy[16] = {0};
  memcpy(copy, at, (size_t)bytes);
  return _mm_loadu_si128((const void *)copy);
}

INLINE floats load_f32(const unsigned char *at) { return _mm256_loadu_ps((const void *)at); }
INLINE floats load_f16(const unsigned char *at) { return of_halves(_mm_loadu_si128((const void *)at)); }
INLINE floats load_bf16(const unsigned char *at) { return of_bfloats(_mm_loadu_si128((const void *)at)); }
INLINE floats load_i8(const unsigned char *at) { return of_int8(_mm_loadl_epi64((const void *)at)); }
INLINE floats load_f32_part(const unsigned char *at, int64_t t) { return _mm256_maskload_ps((const void *)at, first(t)); }
INLINE floats load_f16_part(const unsigned char *at, int64_t t) { return of_halves(load_bytes(at, 2 * t)); }
INLINE floats load_bf16_part(const unsigned char *at, int64_t t) { return of_bfloats(load_bytes(at, 2 * t)); }
INLINE floats load_i8_part(const unsigned char *at, int64_t t) { return of_int8(load_bytes(at, t)); }

INLINE __m128i halves_of(floats v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE __m128i bfloats_of(floats v) {
  __m256i u = _mm256_castps_si256(v), upper = _mm256_srli_epi32(u, 16);
  __m256i half = _mm256_add_epi32(_mm256_set1_epi32(0x7FFF), _mm256_and_si256(upper, _mm256_set1_epi32(1)));
  __m256i nearest = _mm256_srli_epi32(_mm256_add_epi32(u, half), 16), quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  __m256i wide = _mm256_blendv_epi8(nearest, quiet, nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
}
INLINE void store_f16(unsigned char *at, floats v) { _mm_storeu_si128((void *)at, halves_of(v)); }
INLINE void store_bf16(unsigned char *at, floats v) { _mm_storeu_si128((void *)at, bfloats_of(v)); }
INLINE void store_bytes(unsigned char *at, int64_t bytes, __m128i v) {
  unsigned char copy[16];
  _mm_storeu_si128((void *)copy, v);
  memcpy(at, copy, (size_t)bytes);
}
INLINE void store_f16_part(unsigned char *at, int64_t t, floats v) { store_bytes(at, 2 * t, halves_of(v)); }
INLINE void store_bf16_part(unsigned char *at, int64_t t, floats v) { store_bytes(at, 2 * t, bfloats_of(v)); }

INLINE words load_words(const unsigned char *at) { return _mm256_loadu_si256((const void *)at); }
INLINE void store_words(unsigned char *at, words v) { _mm256_storeu_si256((void *)at, v); }
INLINE void stream_words(unsigned char *at, words v) { _mm256_stream_si256((void *)at, v); }
INLINE void stream_end(void) { _mm_sfence(); }
INLINE void copy_part(unsigned char *out, const unsigned char *row, int64_t bytes) { memcpy(out, row, (size_t)bytes); }

INLINE void prefetch(uintptr_t at) { _mm_prefetch((const char *)at, _MM_HINT_T0); }
INLINE void prefetch_to_l2(uintptr_t at) { _mm_prefetch((const char *)at, _MM_HINT_T1); }

INLINE doubles no_doubles(void) { return _mm256_setzero_pd(); }
INLINE doubles lower_doubles(floats v) { return _mm256_cvtps_pd(_mm256_castps256_ps128(v)); }
INLINE doubles upper_doubles(floats v) { return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)); }
INLINE doubles plus_square(doubles sum, doubles v) { return _mm256_fmadd_pd(v, v, sum); }
INLINE four load_four(const float *at) { return _mm_loadu_ps(at); }
INLINE four times_four(four a, four b) { return _mm_mul_ps(a, b); }
INLINE void store_four(float *at, four v) { _mm_storeu_ps(at, v); }
INLINE void store_doubles(double *at, doubles v) { _mm256_storeu_pd(at, v); }

/* Sums of lanes, in the order i and i + 4, + 2, + 1; i + 8 stood in the other part. Two vectors fold into one at every step. */
INLINE four sums_of_four(const floats v[4]) {
  floats a = plus(_mm256_permute2f128_ps(v[0], v[2], 0x20), _mm256_permute2f128_ps(v[0], v[2], 0x31));
  floats b = plus(_mm256_permute2f128_ps(v[1], v[3], 0x20), _mm256_permute2f128_ps(v[1], v[3], 0x31));
  __m256d even = _mm256_castps_pd(a), odd = _mm256_castps_pd(b);
  floats two = plus(_mm256_castpd_ps(_mm256_unpacklo_pd(even, odd)), _mm256_castpd_ps(_mm256_unpackhi_pd(even, odd)));
  __m128 low = _mm256_castps256_ps128(two), high = _mm256_extractf128_ps(two, 1);
  return _mm_add_ps(_mm_shuffle_ps(low, high, 0x88), _mm_shuffle_ps(low, high, 0xDD));
}
INLINE void sums_of_tile(floats v[TILE_HIDDEN][4], int hidden, four sums[TILE_HIDDEN]) {
  for (int h = 0; h < hidden; ++h) sums[h] = sums_of_four(v[h]);
}

#endif
