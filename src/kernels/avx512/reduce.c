/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/reduce.h"

#include <immintrin.h>
#include <math.h>

#include "kernels/template.h"

static __mmask16 first(int64_t t) { return (__mmask16)((1u << t) - 1); }

/* vmaxps gives its second operand when one is NaN: a NaN of z never gets into best. */
static float largest(const float *z, int64_t n) {
  const __m512 none = _mm512_set1_ps(-INFINITY);
  __m512 best[4] = {none, none, none, none};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    best[0] = _mm512_max_ps(_mm512_loadu_ps(z + i), best[0]);
    best[1] = _mm512_max_ps(_mm512_loadu_ps(z + i + 16), best[1]);
    best[2] = _mm512_max_ps(_mm512_loadu_ps(z + i + 32), best[2]);
    best[3] = _mm512_max_ps(_mm512_loadu_ps(z + i + 48), best[3]);
  }
  for (; i + 16 <= n; i += 16) best[0] = _mm512_max_ps(_mm512_loadu_ps(z + i), best[0]);
  if (i < n) best[1] = _mm512_max_ps(_mm512_mask_loadu_ps(none, first(n - i), z + i), best[1]);
  return _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(best[0], best[1]), _mm512_max_ps(best[2], best[3])));
}

static void maxima(const float *z, int64_t n, float best[16]) {
  const __m512 none = _mm512_set1_ps(-INFINITY);
  __m512 lane[2] = {none, none};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    lane[0] = _mm512_max_ps(_mm512_loadu_ps(z + i), lane[0]);
    lane[1] = _mm512_max_ps(_mm512_loadu_ps(z + i + 16), lane[1]);
  }
  for (; i < n; i += 16) {
    __mmask16 part = n - i < 16 ? first(n - i) : (__mmask16)0xFFFF;
    lane[0] = _mm512_max_ps(_mm512_mask_loadu_ps(none, part, z + i), lane[0]);
  }
  _mm512_storeu_ps(best, _mm512_max_ps(lane[0], lane[1]));
}

/* exp(x) = 2^k * exp(r), k in eighths, |r| <= h = ln(2) / 16. 2^(k - floor(k)) is one of eight numbers, a register;
 * exp(r) its Taylor sum up to r^3 / 6, with r^4 / 24 brought down to c r^2, c = (sqrt(2) - 1) h^2 / 12: right to 2.7e-8, and at 0 it is 1, so
 * that a sum of exp(z - max) is never below 1. In double, since the rounding of z - max in float alone would cost 6e-8 * |z - max|. */
static __m512d exp_of(__m512d x) {
  const __m512d eighths = _mm512_setr_pd(0x1p+0, 0x1.172b83c7d517bp+0, 0x1.306fe0a31b715p+0, 0x1.4bfdad5362a27p+0, 0x1.6a09e667f3bcdp+0, 0x1.8ace5422aa0dbp+0,
                                         0x1.ae89f995ad3adp+0, 0x1.d5818dcfba487p+0);
  const __m512d shift = _mm512_set1_pd(0x1.8p49); /* sums with it are rounded to eighths; the lowest bits count them */
  const double h = 0x1.62e42fefa39efp-5;
  __m512d shifted = _mm512_fmadd_pd(x, _mm512_set1_pd(0x1.71547652b82fep+0), shift);
  __m512d k = _mm512_sub_pd(shifted, shift);
  __m512d r = _mm512_fnmadd_pd(k, _mm512_set1_pd(0x1.62e42fefa39efp-1), x);
  __m512d sum = _mm512_set1_pd(1.0 / 6);
  sum = _mm512_fmadd_pd(sum, r, _mm512_set1_pd(0.5 + 0.41421356237309505 / 12 * h * h));
  sum = _mm512_fmadd_pd(sum, r, _mm512_set1_pd(1));
  sum = _mm512_fmadd_pd(sum, r, _mm512_set1_pd(1));
  sum = _mm512_mul_pd(sum, _mm512_permutexvar_pd(_mm512_castpd_si512(shifted), eighths));
  return _mm512_scalef_pd(sum, k); /* by 2^floor(k): to 0 below the range of double, to infinity above it */
}

/* z - max, not further from 0 than exp needs. */
static __m512d distance(__m256 z, __m512d max) {
  __m512d x = _mm512_sub_pd(_mm512_cvtps_pd(z), max);
  return _mm512_max_pd(_mm512_set1_pd(-1000), _mm512_min_pd(_mm512_set1_pd(1000), x)); /* a NaN is the second operand: it stays */
}

static double sum_exp(const float *z, int64_t n, float max) {
  const __m512d least = _mm512_set1_pd((double)max);
  __m512d low = _mm512_setzero_pd(), high = low;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    low = _mm512_add_pd(low, exp_of(distance(_mm256_loadu_ps(z + i), least)));
    high = _mm512_add_pd(high, exp_of(distance(_mm256_loadu_ps(z + i + 8), least)));
  }
  if (i < n) { /* past the end stands -inf, whose exp is 0 */
    __m512 rest = _mm512_mask_loadu_ps(_mm512_set1_ps(-INFINITY), first(n - i), z + i);
    low = _mm512_add_pd(low, exp_of(distance(_mm512_castps512_ps256(rest), least)));
    high = _mm512_add_pd(high, exp_of(distance(_mm512_extractf32x8_ps(rest, 1), least)));
  }
  return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
}

static void add_moments(__m256 z, __m512d max, __m512d scale, __m512d *sum, __m512d *moment) {
  __m512d x = _mm512_mul_pd(_mm512_sub_pd(_mm512_cvtps_pd(z), max), scale);
  x = _mm512_max_pd(_mm512_set1_pd(-1000), x); /* e is 0 there, so it does not matter which product with it */
  __m512d e = exp_of(x);
  *sum = _mm512_add_pd(*sum, e);
  *moment = _mm512_fmadd_pd(e, x, *moment);
}

static void exp_moments(const float *z, int64_t n, float max, double scale, double sums[2]) {
  const __m512d least = _mm512_set1_pd((double)max), factor = _mm512_set1_pd(scale);
  __m512d sum[2] = {_mm512_setzero_pd(), _mm512_setzero_pd()}, moment[2] = {sum[0], sum[0]};
  for (int64_t i = 0; i < n; i += 16) {
    __m512 v = n - i >= 16 ? _mm512_loadu_ps(z + i) : _mm512_mask_loadu_ps(_mm512_set1_ps(-INFINITY), first(n - i), z + i);
    add_moments(_mm512_castps512_ps256(v), least, factor, &sum[0], &moment[0]);
    add_moments(_mm512_extractf32x8_ps(v, 1), least, factor, &sum[1], &moment[1]);
  }
  sums[0] = _mm512_reduce_add_pd(_mm512_add_pd(sum[0], sum[1]));
  sums[1] = _mm512_reduce_add_pd(_mm512_add_pd(moment[0], moment[1]));
}

/* A number that is not below the threshold, or NaN: one comparison. Of a threshold that is NaN, which nothing is below: NaN alone. */
INLINE __mmask16 passes(bool nan_alone, __m512 z, __m512 threshold) {
  return nan_alone ? _mm512_cmp_ps_mask(z, z, _CMP_UNORD_Q) : _mm512_cmp_ps_mask(z, threshold, _CMP_NLT_UQ);
}

INLINE int64_t count_passing(bool nan_alone, const float *z, int64_t n, float threshold) {
  const __m512 least = _mm512_set1_ps(threshold);
  int64_t found = 0, i = 0;
  for (; i + 64 <= n; i += 64) {
    uint64_t mask = 0;
    for (int v = 0; v < 4; ++v) mask |= (uint64_t)passes(nan_alone, _mm512_loadu_ps(z + i + 16 * v), least) << 16 * v;
    found += __builtin_popcountll(mask);
  }
  for (; i < n; i += 16) {
    __mmask16 part = n - i < 16 ? first(n - i) : (__mmask16)0xFFFF;
    found += __builtin_popcount(part & passes(nan_alone, _mm512_maskz_loadu_ps(part, z + i), least));
  }
  return found;
}
static int64_t count_at_least(const float *z, int64_t n, float threshold) {
  return isnan(threshold) ? count_passing(true, z, n, threshold) : count_passing(false, z, n, threshold);
}

/* Writes the positions i + lane of the mask's lanes. Compressed in a register: to memory it is far slower on Zen. */
static int64_t put(int32_t *index, int64_t i, __mmask16 mask) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int count = __builtin_popcount(mask);
  __m512i found = _mm512_maskz_compress_epi32(mask, _mm512_add_epi32(_mm512_set1_epi32((int)i), lane));
  _mm512_mask_storeu_epi32(index, first(count), found);
  return count;
}

/* Few pass as a rule: four vectors are looked at together. */
INLINE int64_t put_passing(bool nan_alone, const float *z, int64_t n, float threshold, int32_t *index) {
  const __m512 least = _mm512_set1_ps(threshold);
  int64_t found = 0, i = 0;
  for (; i + 64 <= n; i += 64) {
    __mmask16 mask[4];
    for (int v = 0; v < 4; ++v) mask[v] = passes(nan_alone, _mm512_loadu_ps(z + i + 16 * v), least);
    if (!(mask[0] | mask[1] | mask[2] | mask[3])) continue;
    for (int v = 0; v < 4; ++v) found += put(index + found, i + 16 * v, mask[v]);
  }
  for (; i < n; i += 16) {
    __mmask16 part = n - i < 16 ? first(n - i) : (__mmask16)0xFFFF;
    found += put(index + found, i, part & passes(nan_alone, _mm512_maskz_loadu_ps(part, z + i), least));
  }
  return found;
}
static int64_t at_least(const float *z, int64_t n, float threshold, int32_t *index) {
  return isnan(threshold) ? put_passing(true, z, n, threshold, index) : put_passing(false, z, n, threshold, index);
}

void embed__reduce_avx512(embed__reduce_kernels *k) {
  k->max = largest;
  k->maxima = maxima;
  k->sum_exp = sum_exp;
  k->exp_moments = exp_moments;
  k->count_at_least = count_at_least;
  k->at_least = at_least;
}
