/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/digits.h"

#include <immintrin.h>
#include <string.h>

#include "kernels/template.h"

#define LANES 8
typedef uint64_t wide __attribute__((vector_size(64)));
typedef uint16_t quarters __attribute__((vector_size(64)));

INLINE wide load(const unsigned char *at) { return (wide)_mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)at)); }
INLINE wide times(wide a, wide b) { return (wide)_mm512_mul_epu32((__m512i)a, (__m512i)b); }
INLINE wide gather(const uint64_t *from, wide i) { return (wide)_mm512_i64gather_epi64((__m512i)i, from, 8); }
INLINE quarters times_upper(quarters a, quarters b) { return (quarters)_mm512_mulhi_epu16((__m512i)a, (__m512i)b); }
INLINE int is_any(wide a) { return _mm512_test_epi64_mask((__m512i)a, (__m512i)a) != 0; }
INLINE void mark_bytes(unsigned char *out, wide a) {
  const uint64_t marks = _mm512_test_epi8_mask((__m512i)a, (__m512i)a);
  memcpy(out, &marks, sizeof marks);
}

#include "kernels/digits_template.h"

void embed__digits_avx512(embed__digits_kernels *k) { k->floats = floats; }
