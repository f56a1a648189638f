/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/digits.h"

#include <immintrin.h>
#include <string.h>

#include "kernels/template.h"

#define LANES 4
typedef uint64_t wide __attribute__((vector_size(32)));
typedef uint16_t quarters __attribute__((vector_size(32)));

INLINE wide load(const unsigned char *at) { return (wide)_mm256_cvtepu32_epi64(_mm_loadu_si128((const void *)at)); }
INLINE wide times(wide a, wide b) { return (wide)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
INLINE wide gather(const uint64_t *from, wide i) { return (wide)_mm256_i64gather_epi64((const void *)from, (__m256i)i, 8); }
INLINE quarters times_upper(quarters a, quarters b) { return (quarters)_mm256_mulhi_epu16((__m256i)a, (__m256i)b); }
INLINE int is_any(wide a) { return !_mm256_testz_si256((__m256i)a, (__m256i)a); }
INLINE void mark_bytes(unsigned char *out, wide a) {
  const uint32_t marks = ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8((__m256i)a, _mm256_setzero_si256()));
  memcpy(out, &marks, sizeof marks);
}

#include "kernels/digits_template.h"

void embed__digits_avx2(embed__digits_kernels *k) { k->floats = floats; }
