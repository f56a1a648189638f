/* SPDX-License-Identifier: BSD-3-Clause */
/* For 16 rows x 16 columns and one hidden row: 3 loads, 9 instructions to unpack, 8 vpdpbusd. */
#include <immintrin.h>
#include <stdint.h>

#include "kernels/template.h"

#define HIDDEN_MOST 4
enum { LANES = 16, PARTS = 1, STREAMS = 4 };
typedef __m512i ints;
typedef __m512 reals;

INLINE ints dot4(ints sum, ints u, ints x) { return _mm512_dpbusd_epi32(sum, u, x); }
INLINE ints load_ints(const unsigned char *at) { return _mm512_loadu_si512((const void *)at); }
INLINE ints spread_word(const int32_t *at) { return _mm512_set1_epi32(*at); }
INLINE ints no_ints(void) { return _mm512_setzero_si512(); }
INLINE ints masked(ints v, int mask) { return _mm512_and_si512(v, _mm512_set1_epi8((char)mask)); }
INLINE ints shifted_masked(ints v, unsigned shift, int mask) { return masked(_mm512_srli_epi32(v, shift), mask); }
INLINE ints either(ints a, ints b) { return _mm512_or_si512(a, b); }
INLINE ints plus_ints(ints a, ints b) { return _mm512_add_epi32(a, b); }
INLINE ints times_256(ints v) { return _mm512_slli_epi32(v, 8); }
INLINE reals no_reals(void) { return _mm512_setzero_ps(); }
INLINE reals reals_of(ints v) { return _mm512_cvtepi32_ps(v); }
INLINE reals spread_real(float x) { return _mm512_set1_ps(x); }
INLINE reals times(reals a, reals b) { return _mm512_mul_ps(a, b); }
INLINE reals times_plus(reals a, reals b, reals c) { return _mm512_fmadd_ps(a, b, c); }
INLINE reals load_bfloats(const unsigned char *at) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)at)), 16));
}
INLINE void store_reals(float *at, reals v) { _mm512_storeu_ps(at, v); }
INLINE void prefetch(uintptr_t at) { _mm_prefetch((const char *)at, _MM_HINT_T0); }

#include "kernels/sketch_template.h"

void embed__sketch_avx512vnni(embed__sketch_kernels *k) {
  k->multiply = multiply;
  k->vector_bits = 512;
}
