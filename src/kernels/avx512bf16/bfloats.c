/* SPDX-License-Identifier: BSD-3-Clause */
/* vcvtne2ps2bf16 rounds as bfloats.h asks, subnormal numbers and NaN included: words of two without a step of their own. */
#include "kernels/bfloats.h"

#include "kernels/avx512/vector.h"

INLINE __mmask16 few(int64_t count) { return (__mmask16)(count >= WIDTH ? 0xFFFF : count <= 0 ? 0 : (1u << count) - 1); }
INLINE floats few_floats(const float *x, int64_t at, int64_t n) { return _mm512_maskz_loadu_ps(few(n - at), x + (at < n ? at : 0)); }

static void pair_along(const float *x, int64_t n, uint32_t *out) {
  for (int64_t j = 0; j < n; j += 2 * WIDTH) {
    const __m512i pairs = (__m512i)_mm512_cvtne2ps_pbh(few_floats(x, j + WIDTH, n), few_floats(x, j, n));
    _mm512_mask_storeu_epi32(out + j / 2, few((n - j + 1) / 2), _mm512_rol_epi32(pairs, 16));
  }
}

static void pair_across(const float *first, const float *second, int64_t n, uint32_t *out) {
  const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  for (int64_t i = 0; i < n; i += WIDTH) {
    const floats lower = second ? few_floats(second, i, n) : zeros();
    const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(few_floats(first, i, n), lower); /* those of `first` behind the others */
    _mm512_mask_storeu_epi32(out + i, few(n - i), _mm512_permutexvar_epi16(turns, halves));
  }
}

void embed__bfloats_avx512bf16(embed__bfloat_kernels *k) {
  k->pair_along = pair_along;
  k->pair_across = pair_across;
}
