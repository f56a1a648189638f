/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of pairs of bfloats: vdpbf16ps adds the upper halves' product first, and rounds after each. */
#include "kernels/avx512/vector.h"

enum { GEMM_ROWS = 12 };
#define GEMM_PAIRS 1

INLINE floats spread_element(const float *at) {
  int word;
  memcpy(&word, at, sizeof word);
  return _mm512_castsi512_ps(_mm512_set1_epi32(word));
}
INLINE floats multiply_add(floats a, floats b, floats sum) { return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b)); }

#include "kernels/gemm_template.h"

void embed__gemm_avx512bf16(embed__gemm_kernels *k) {
  k->pairs_by_rows = gemm_by_rows;
  k->pairs_by_columns = gemm_by_columns;
  k->has_pairs = true;
}
