/* SPDX-License-Identifier: BSD-3-Clause */
/* Weights of 6 bits times digits of 8 are below 2^13: two of them fit vpmaddubsw's 16 bits. */
#include <immintrin.h>
#include <stdint.h>

#include "kernels/template.h"

#define HIDDEN_MOST 2
enum { LANES = 8, PARTS = 2, STREAMS = 1 };
typedef __m256i ints;
typedef __m256 reals;

INLINE ints dot4(ints sum, ints u, ints x) { return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(u, x), _mm256_set1_epi16(1))); }
INLINE ints load_ints(const unsigned char *at) { return _mm256_loadu_si256((const void *)at); }
INLINE ints spread_word(const int32_t *at) { return _mm256_set1_epi32(*at); }
INLINE ints no_ints(void) { return _mm256_setzero_si256(); }
INLINE ints masked(ints v, int mask) { return _mm256_and_si256(v, _mm256_set1_epi8((char)mask)); }
INLINE ints shifted_masked(ints v, int shift, int mask) { return masked(_mm256_srli_epi16(v, shift), mask); }
INLINE ints either(ints a, ints b) { return _mm256_or_si256(a, b); }
INLINE ints plus_ints(ints a, ints b) { return _mm256_add_epi32(a, b); }
INLINE ints times_256(ints v) { return _mm256_slli_epi32(v, 8); }
INLINE reals no_reals(void) { return _mm256_setzero_ps(); }
INLINE reals reals_of(ints v) { return _mm256_cvtepi32_ps(v); }
INLINE reals spread_real(float x) { return _mm256_set1_ps(x); }
INLINE reals times(reals a, reals b) { return _mm256_mul_ps(a, b); }
INLINE reals times_plus(reals a, reals b, reals c) { return _mm256_fmadd_ps(a, b, c); }
INLINE reals load_bfloats(const unsigned char *at) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)at)), 16));
}
INLINE void store_reals(float *at, reals v) { _mm256_storeu_ps(at, v); }
INLINE void prefetch(uintptr_t at) { _mm_prefetch((const char *)at, _MM_HINT_T0); }

#include "kernels/sketch_template.h"

void embed__sketch_avx2(embed__sketch_kernels *k) {
  k->multiply = multiply;
  k->vector_bits = 256;
}
