/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/avx512/vector.h"

/* Stored integers, one in 32 bits. */
typedef __m512i ints;

INLINE ints bytes_at(const unsigned char *at) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)at)); }
INLINE ints bytes_at_part(const unsigned char *at, int64_t t) { return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first(t), at)); }
INLINE ints right(ints q, int by) { return _mm512_srl_epi32(q, _mm_cvtsi32_si128(by)); }
INLINE ints left(ints q, int by) { return _mm512_sll_epi32(q, _mm_cvtsi32_si128(by)); }
INLINE ints low_bits(ints q, int bits) { return _mm512_and_si512(q, _mm512_set1_epi32((1 << bits) - 1)); }
INLINE ints either(ints a, ints b) { return _mm512_or_si512(a, b); }
INLINE ints minus(ints q, int by) { return _mm512_sub_epi32(q, _mm512_set1_epi32(by)); }
INLINE ints where(uint32_t bits, int value) { return _mm512_maskz_set1_epi32((__mmask16)bits, value); } /* bit i for lane i */
INLINE floats floats_of(ints q) { return _mm512_cvtepi32_ps(q); }
/* The low four bits, less zero (0 or 8): they choose one of 16 floats. */
INLINE floats floats_of_nibbles(ints q, int zero) {
  const floats low = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_permutexvar_ps(q, _mm512_sub_ps(low, _mm512_set1_ps((float)zero)));
}
INLINE floats less(floats a, floats b) { return _mm512_sub_ps(a, b); }
INLINE float half_at(const unsigned char *at) {
  uint16_t half;
  memcpy(&half, at, 2);
  return _cvtsh_ss(half);
}

INLINE void store_f32(unsigned char *at, floats v) { _mm512_storeu_ps(at, v); }
INLINE void stream_f32(unsigned char *at, floats v) { _mm512_stream_ps((float *)(void *)at, v); }
INLINE void stream_f16(unsigned char *at, floats v) { _mm256_stream_si256((void *)at, halves_of(v)); }
INLINE void stream_bf16(unsigned char *at, floats v) { _mm256_stream_si256((void *)at, bfloats_of(v)); }

#include "kernels/gather_template.h"

void embed__gather_avx512(embed__gather_kernels *k) { use_all(k); }
