/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/gumbel.h"

#include <immintrin.h>
#include <string.h>

#define LANES 8
typedef __m512i wide;

static wide all(uint32_t u) { return _mm512_set1_epi64((int64_t)u); }
static wide times(wide a, wide b) { return _mm512_mul_epu32(a, b); }
static wide upper(wide a) { return _mm512_srli_epi64(a, 32); }
static wide xor3(wide a, wide b, wide c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }

/* Lane 2 q + r is counter 4 r + q: unpacking pairs of words leaves them in order. */
static wide quads(uint32_t first) { return _mm512_add_epi64(all(first), _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7)); }

/* low and high word to one lane */
static wide join(wide low, wide high) { return _mm512_mask_mov_epi32(low, 0xAAAA, _mm512_slli_epi64(high, 32)); }

static void store_quads(uint32_t *out, const wide c[4]) {
  wide first = join(c[0], c[1]), second = join(c[2], c[3]);
  _mm512_storeu_si512(out, _mm512_unpacklo_epi64(first, second));
  _mm512_storeu_si512(out + 16, _mm512_unpackhi_epi64(first, second));
}

static wide quads_of(const int32_t *ids) { return _mm512_srli_epi64(_mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)ids)), 2); }

static void store_chosen(uint32_t *out, const int32_t *ids, const wide c[4]) {
  wide id = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)ids));
  __mmask8 odd = _mm512_test_epi64_mask(id, all(1)), second = _mm512_test_epi64_mask(id, all(2));
  wide low = _mm512_mask_mov_epi64(c[0], odd, c[1]), high = _mm512_mask_mov_epi64(c[2], odd, c[3]);
  _mm256_storeu_si256((void *)out, _mm512_cvtepi64_epi32(_mm512_mask_mov_epi64(low, second, high)));
}

#include "kernels/gumbel_template.h"

static __mmask16 first_lanes(int64_t t) { return (__mmask16)((1u << t) - 1); }

static __mmask16 contend(__m512 z, __m512i word, __m512 scale, __m512 offset) {
  __m512i complement = _mm512_srli_epi32(_mm512_ternarylogic_epi32(word, word, word, 0x55), 1);
  __m512 log = _mm512_cvtepi32_ps(_mm512_castps_si512(_mm512_cvtepi32_ps(complement)));
  return _mm512_cmp_ps_mask(log, _mm512_add_ps(_mm512_mul_ps(z, scale), offset), _CMP_NGE_UQ);
}

/* Nearly none do: the masks of four vectors are looked at together. */
static int64_t contenders(const float *z, const uint32_t *word, int64_t n, float scale, float offset, int32_t *index) {
  const __m512 by = _mm512_set1_ps(scale), plus = _mm512_set1_ps(offset);
  int64_t found = 0;
  for (int64_t i = 0; i < n; i += 64) {
    uint64_t mask = 0;
    for (int64_t v = i; v < i + 64 && v < n; v += 16) {
      __mmask16 part = n - v < 16 ? first_lanes(n - v) : (__mmask16)0xFFFF;
      mask |= (uint64_t)(part & contend(_mm512_maskz_loadu_ps(part, z + v), _mm512_maskz_loadu_epi32(part, word + v), by, plus)) << (v - i);
    }
    for (; mask; mask &= mask - 1) index[found++] = (int32_t)i + __builtin_ctzll(mask);
  }
  return found;
}

/* exp(x) = 2^k * exp(r), k in eighths, |r| <= ln(2) / 16, as in reduce.c, with ln(2) in two parts and Taylor's sum up to r^7: what is
 * left out is below 2e-16. */
static __m512d exp_of(__m512d x) {
  const __m512d eighths = _mm512_setr_pd(0x1p+0, 0x1.172b83c7d517bp+0, 0x1.306fe0a31b715p+0, 0x1.4bfdad5362a27p+0, 0x1.6a09e667f3bcdp+0, 0x1.8ace5422aa0dbp+0,
                                         0x1.ae89f995ad3adp+0, 0x1.d5818dcfba487p+0);
  const __m512d shift = _mm512_set1_pd(0x1.8p49);                                   /* sums with it are rounded to eighths; the lowest bits count them */
  x = _mm512_max_pd(_mm512_set1_pd(-1000), _mm512_min_pd(_mm512_set1_pd(1000), x)); /* a NaN is the second operand: it stays */
  __m512d shifted = _mm512_fmadd_pd(x, _mm512_set1_pd(0x1.71547652b82fep+0), shift);
  __m512d k = _mm512_sub_pd(shifted, shift);
  __m512d r = _mm512_fnmadd_pd(k, _mm512_set1_pd(0x1.62e42fee00000p-1), x);
  r = _mm512_fnmadd_pd(k, _mm512_set1_pd(0x1.a39ef35793c76p-33), r);
  __m512d sum = _mm512_set1_pd(1.0 / 5040);
  sum = _mm512_fmadd_pd(sum, r, _mm512_set1_pd(1.0 / 720));
  sum = _mm512_fmadd_pd(sum, r, _mm512_set1_pd(1.0 / 120));
  sum = _mm512_fmadd_pd(sum, r, _mm512_set1_pd(1.0 / 24));
  sum = _mm512_fmadd_pd(sum, r, _mm512_set1_pd(1.0 / 6));
  sum = _mm512_fmadd_pd(sum, r, _mm512_set1_pd(0.5));
  sum = _mm512_fmadd_pd(sum, r, _mm512_set1_pd(1));
  sum = _mm512_fmadd_pd(sum, r, _mm512_set1_pd(1));
  sum = _mm512_mul_pd(sum, _mm512_permutexvar_pd(_mm512_castpd_si512(shifted), eighths));
  return _mm512_scalef_pd(sum, k);
}

static __m512d weight(__m256 z, __m512d scale, __m512d top) { return exp_of(_mm512_sub_pd(_mm512_mul_pd(_mm512_cvtps_pd(z), scale), top)); }

static double sum_exp(const float *z, int64_t n, double scale, double top) {
  const __m512d by = _mm512_set1_pd(scale), least = _mm512_set1_pd(top);
  __m512d low = _mm512_setzero_pd(), high = low;
  for (int64_t i = 0; i < n; i += 16) {
    __mmask16 part = n - i < 16 ? first_lanes(n - i) : (__mmask16)0xFFFF;
    __m512 v = _mm512_maskz_loadu_ps(part, z + i);
    low = _mm512_mask_add_pd(low, (__mmask8)part, low, weight(_mm512_castps512_ps256(v), by, least));
    high = _mm512_mask_add_pd(high, (__mmask8)(part >> 8), high, weight(_mm512_extractf32x8_ps(v, 1), by, least));
  }
  return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
}

void embed__gumbel_avx512(embed__gumbel_kernels *k) {
  k->words = words;
  k->words_of = words_of;
  k->contenders = contenders;
  k->sum_exp = sum_exp;
}
