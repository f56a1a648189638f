/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/avx2/vector.h"

/* Stored integers, one in 32 bits. */
typedef __m256i ints;

INLINE ints bytes_at(const unsigned char *at) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)at)); }
INLINE ints bytes_at_part(const unsigned char *at, int64_t t) { return _mm256_cvtepu8_epi32(load_bytes(at, t)); }
INLINE ints right(ints q, int by) { return _mm256_srl_epi32(q, _mm_cvtsi32_si128(by)); }
INLINE ints left(ints q, int by) { return _mm256_sll_epi32(q, _mm_cvtsi32_si128(by)); }
INLINE ints low_bits(ints q, int bits) { return _mm256_and_si256(q, _mm256_set1_epi32((1 << bits) - 1)); }
INLINE ints either(ints a, ints b) { return _mm256_or_si256(a, b); }
INLINE ints minus(ints q, int by) { return _mm256_sub_epi32(q, _mm256_set1_epi32(by)); }
INLINE ints where(uint32_t bits, int value) { /* bit i for lane i */
  const ints each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), each), each), _mm256_set1_epi32(value));
}
INLINE floats floats_of(ints q) { return _mm256_cvtepi32_ps(q); }
INLINE floats floats_of_nibbles(ints q, int zero) { return floats_of(minus(low_bits(q, 4), zero)); } /* the low four bits, less zero */
INLINE floats less(floats a, floats b) { return _mm256_sub_ps(a, b); }
INLINE float half_at(const unsigned char *at) {
  uint16_t half;
  memcpy(&half, at, 2);
  return _cvtsh_ss(half);
}

INLINE void store_f32(unsigned char *at, floats v) { _mm256_storeu_ps((float *)(void *)at, v); }
INLINE void stream_f32(unsigned char *at, floats v) { _mm256_stream_ps((float *)(void *)at, v); }
INLINE void stream_f16(unsigned char *at, floats v) { _mm_stream_si128((void *)at, halves_of(v)); }
INLINE void stream_bf16(unsigned char *at, floats v) { _mm_stream_si128((void *)at, bfloats_of(v)); }

#include "kernels/gather_template.h"

void embed__gather_avx2(embed__gather_kernels *k) { use_all(k); }
