/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/gumbel.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define LANES 4
typedef __m256i wide;

static wide all(uint32_t u) { return _mm256_set1_epi64x((int64_t)u); }
static wide times(wide a, wide b) { return _mm256_mul_epu32(a, b); }
static wide upper(wide a) { return _mm256_srli_epi64(a, 32); }
static wide xor3(wide a, wide b, wide c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }

/* Lane 2 q + r is counter 2 r + q: unpacking pairs of words leaves them in order. */
static wide quads(uint32_t first) { return _mm256_add_epi64(all(first), _mm256_setr_epi64x(0, 2, 1, 3)); }

/* low and high word to one lane */
static wide join(wide low, wide high) { return _mm256_blend_epi32(low, _mm256_slli_epi64(high, 32), 0xAA); }

static void store_quads(uint32_t *out, const wide c[4]) {
  wide first = join(c[0], c[1]), second = join(c[2], c[3]);
  _mm256_storeu_si256((void *)out, _mm256_unpacklo_epi64(first, second));
  _mm256_storeu_si256((void *)(out + 8), _mm256_unpackhi_epi64(first, second));
}

static wide ids_of(const int32_t *ids) { return _mm256_cvtepu32_epi64(_mm_loadu_si128((const void *)ids)); }
static wide quads_of(const int32_t *ids) { return _mm256_srli_epi64(ids_of(ids), 2); }

static void store_chosen(uint32_t *out, const int32_t *ids, const wide c[4]) {
  wide id = ids_of(ids), odd = _mm256_cmpeq_epi64(_mm256_and_si256(id, all(1)), all(1)), second = _mm256_cmpeq_epi64(_mm256_and_si256(id, all(2)), all(2));
  wide chosen = _mm256_blendv_epi8(_mm256_blendv_epi8(c[0], c[1], odd), _mm256_blendv_epi8(c[2], c[3], odd), second);
  wide together = _mm256_permutevar8x32_epi32(chosen, _mm256_setr_epi32(0, 2, 4, 6, 0, 0, 0, 0));
  _mm_storeu_si128((void *)out, _mm256_castsi256_si128(together));
}

#include "kernels/gumbel_template.h"

static unsigned contend(const float *z, const uint32_t *word, __m256 scale, __m256 offset) {
  wide complement = _mm256_srli_epi32(_mm256_xor_si256(_mm256_loadu_si256((const void *)word), _mm256_set1_epi32(-1)), 1);
  __m256 log = _mm256_cvtepi32_ps(_mm256_castps_si256(_mm256_cvtepi32_ps(complement)));
  return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(log, _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(z), scale), offset), _CMP_NGE_UQ));
}

static int64_t contenders(const float *z, const uint32_t *word, int64_t n, float scale, float offset, int32_t *index) {
  const __m256 by = _mm256_set1_ps(scale), plus = _mm256_set1_ps(offset);
  int64_t found = 0;
  for (int64_t i = 0; i < n; i += 8) {
    unsigned mask;
    if (n - i >= 8) {
      mask = contend(z + i, word + i, by, plus);
    } else {
      float z_part[8] = {0};
      uint32_t word_part[8] = {0};
      memcpy(z_part, z + i, (size_t)(n - i) * sizeof *z);
      memcpy(word_part, word + i, (size_t)(n - i) * sizeof *word);
      mask = contend(z_part, word_part, by, plus) & ((1u << (n - i)) - 1);
    }
    for (; mask; mask &= mask - 1) index[found++] = (int32_t)i + __builtin_ctz(mask);
  }
  return found;
}

/* exp(x) = 2^k * exp(r), |r| <= ln(2) / 2, with ln(2) in two parts and Taylor's sum up to r^12: what is left out is below 2e-16.
 * AVX2 has no scalef: x is kept where 2^k is a normal double, and counts as 0 below. */
static __m256d exp_of(__m256d x) {
  static const double inverse[13] = {1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,      1.0 / 720,
                                     1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600};
  const __m256d shift = _mm256_set1_pd(0x1.8p52), floor_of_x = _mm256_set1_pd(-707), top_of_x = _mm256_set1_pd(709);
  __m256d below = _mm256_cmp_pd(x, floor_of_x, _CMP_LT_OQ);
  x = _mm256_max_pd(floor_of_x, _mm256_min_pd(top_of_x, x));                         /* a NaN is the second operand: it stays */
  __m256d shifted = _mm256_fmadd_pd(x, _mm256_set1_pd(0x1.71547652b82fep+0), shift); /* k in the lowest bits */
  __m256d k = _mm256_sub_pd(shifted, shift);
  __m256d r = _mm256_fnmadd_pd(k, _mm256_set1_pd(0x1.62e42fee00000p-1), x);
  r = _mm256_fnmadd_pd(k, _mm256_set1_pd(0x1.a39ef35793c76p-33), r);
  __m256d sum = _mm256_set1_pd(inverse[12]);
  for (int i = 11; i >= 0; --i) sum = _mm256_fmadd_pd(sum, r, _mm256_set1_pd(inverse[i]));
  wide power = _mm256_add_epi64(_mm256_slli_epi64(_mm256_castpd_si256(shifted), 52), _mm256_castpd_si256(_mm256_set1_pd(1)));
  return _mm256_andnot_pd(below, _mm256_mul_pd(sum, _mm256_castsi256_pd(power)));
}

static __m256d weight(__m128 z, __m256d scale, __m256d top) { return exp_of(_mm256_sub_pd(_mm256_mul_pd(_mm256_cvtps_pd(z), scale), top)); }

static double sum_exp(const float *z, int64_t n, double scale, double top) {
  const __m256d by = _mm256_set1_pd(scale), least = _mm256_set1_pd(top);
  __m256d low = _mm256_setzero_pd(), high = low;
  for (int64_t i = 0; i < n; i += 8) {
    float part[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}; /* whose exp is 0 */
    if (n - i < 8) memcpy(part, z + i, (size_t)(n - i) * sizeof *z);
    const float *v = n - i < 8 ? part : z + i;
    low = _mm256_add_pd(low, weight(_mm_loadu_ps(v), by, least));
    high = _mm256_add_pd(high, weight(_mm_loadu_ps(v + 4), by, least));
  }
  double lane[4];
  _mm256_storeu_pd(lane, _mm256_add_pd(low, high));
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

void embed__gumbel_avx2(embed__gumbel_kernels *k) {
  k->words = words;
  k->words_of = words_of;
  k->contenders = contenders;
  k->sum_exp = sum_exp;
}
