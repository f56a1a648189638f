/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/reduce.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/template.h"

/* The last t < 8 values; past them stands -inf, which is no maximum and whose exp is 0. */
static __m256 load_part(const float *z, int64_t t) {
  float copy[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  memcpy(copy, z, (size_t)t * sizeof *z);
  return _mm256_loadu_ps(copy);
}

/* vmaxps gives its second operand when one is NaN: a NaN of z never gets into best. */
static float largest(const float *z, int64_t n) {
  const __m256 none = _mm256_set1_ps(-INFINITY);
  __m256 best[4] = {none, none, none, none};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    best[0] = _mm256_max_ps(_mm256_loadu_ps(z + i), best[0]);
    best[1] = _mm256_max_ps(_mm256_loadu_ps(z + i + 8), best[1]);
    best[2] = _mm256_max_ps(_mm256_loadu_ps(z + i + 16), best[2]);
    best[3] = _mm256_max_ps(_mm256_loadu_ps(z + i + 24), best[3]);
  }
  for (; i + 8 <= n; i += 8) best[0] = _mm256_max_ps(_mm256_loadu_ps(z + i), best[0]);
  if (i < n) best[1] = _mm256_max_ps(load_part(z + i, n - i), best[1]);
  float lane[8];
  _mm256_storeu_ps(lane, _mm256_max_ps(_mm256_max_ps(best[0], best[1]), _mm256_max_ps(best[2], best[3])));
  for (int half = 4; half >= 1; half /= 2)
    for (int l = 0; l < half; ++l)
      if (lane[l + half] > lane[l]) lane[l] = lane[l + half];
  return lane[0];
}

static void maxima(const float *z, int64_t n, float best[16]) {
  const __m256 none = _mm256_set1_ps(-INFINITY);
  __m256 lane[2] = {none, none};
  for (int64_t i = 0; i < n; i += 8) {
    __m256 v = n - i >= 8 ? _mm256_loadu_ps(z + i) : load_part(z + i, n - i);
    lane[i / 8 % 2] = _mm256_max_ps(v, lane[i / 8 % 2]);
  }
  _mm256_storeu_ps(best, lane[0]);
  _mm256_storeu_ps(best + 8, lane[1]);
}

/* As in avx512/reduce.c. AVX2 has no scalef: x is kept where 2^k is a normal double, and counts as 0 below. */
static __m256d exp_of(__m256d x) {
  const __m256d shift = _mm256_set1_pd(0x1.8p52), floor_of_x = _mm256_set1_pd(-707), top_of_x = _mm256_set1_pd(709);
  __m256d below = _mm256_cmp_pd(x, floor_of_x, _CMP_LT_OQ), above = _mm256_cmp_pd(x, top_of_x, _CMP_GT_OQ);
  x = _mm256_max_pd(floor_of_x, _mm256_min_pd(top_of_x, x));                         /* a NaN is the second operand: it stays */
  __m256d shifted = _mm256_fmadd_pd(x, _mm256_set1_pd(0x1.71547652b82fep+0), shift); /* k in the lowest bits */
  __m256d r = _mm256_fnmadd_pd(_mm256_sub_pd(shifted, shift), _mm256_set1_pd(0x1.62e42fefa39efp-1), x);
  __m256d sum = _mm256_set1_pd(1.0 / 5040);
  sum = _mm256_fmadd_pd(sum, r, _mm256_set1_pd(1.0 / 720));
  sum = _mm256_fmadd_pd(sum, r, _mm256_set1_pd(1.0 / 120));
  sum = _mm256_fmadd_pd(sum, r, _mm256_set1_pd(1.0 / 24));
  sum = _mm256_fmadd_pd(sum, r, _mm256_set1_pd(1.0 / 6));
  sum = _mm256_fmadd_pd(sum, r, _mm256_set1_pd(0.5));
  sum = _mm256_fmadd_pd(sum, r, _mm256_set1_pd(1));
  sum = _mm256_fmadd_pd(sum, r, _mm256_set1_pd(1));
  __m256i k = _mm256_slli_epi64(_mm256_castpd_si256(shifted), 52); /* the shift's own bits fall out at the top */
  __m256d power = _mm256_castsi256_pd(_mm256_add_epi64(k, _mm256_castpd_si256(_mm256_set1_pd(1))));
  __m256d value = _mm256_andnot_pd(below, _mm256_mul_pd(sum, power));
  return _mm256_blendv_pd(value, _mm256_set1_pd(INFINITY), above);
}

static __m256d distance(__m128 z, __m256d max) { return _mm256_sub_pd(_mm256_cvtps_pd(z), max); }

static double sum_of(__m256d low, __m256d high) {
  double lane[4];
  _mm256_storeu_pd(lane, _mm256_add_pd(low, high));
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static double sum_exp(const float *z, int64_t n, float max) {
  const __m256d least = _mm256_set1_pd((double)max);
  __m256d low = _mm256_setzero_pd(), high = low;
  for (int64_t i = 0; i < n; i += 8) {
    __m256 v = n - i >= 8 ? _mm256_loadu_ps(z + i) : load_part(z + i, n - i);
    low = _mm256_add_pd(low, exp_of(distance(_mm256_castps256_ps128(v), least)));
    high = _mm256_add_pd(high, exp_of(distance(_mm256_extractf128_ps(v, 1), least)));
  }
  return sum_of(low, high);
}

static void add_moments(__m128 z, __m256d max, __m256d scale, __m256d *sum, __m256d *moment) {
  __m256d x = _mm256_mul_pd(distance(z, max), scale), e = exp_of(x);
  *sum = _mm256_add_pd(*sum, e);
  *moment = _mm256_fmadd_pd(e, _mm256_max_pd(_mm256_set1_pd(-1000), x), *moment); /* -inf times 0 would be NaN */
}

static void exp_moments(const float *z, int64_t n, float max, double scale, double sums[2]) {
  const __m256d least = _mm256_set1_pd((double)max), factor = _mm256_set1_pd(scale);
  __m256d sum[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()}, moment[2] = {sum[0], sum[0]};
  for (int64_t i = 0; i < n; i += 8) {
    __m256 v = n - i >= 8 ? _mm256_loadu_ps(z + i) : load_part(z + i, n - i);
    add_moments(_mm256_castps256_ps128(v), least, factor, &sum[0], &moment[0]);
    add_moments(_mm256_extractf128_ps(v, 1), least, factor, &sum[1], &moment[1]);
  }
  sums[0] = sum_of(sum[0], sum[1]);
  sums[1] = sum_of(moment[0], moment[1]);
}

/* A number that is not below the threshold, or NaN: one comparison. Of a threshold that is NaN, which nothing is below: NaN alone. */
INLINE unsigned passes(bool nan_alone, __m256 z, __m256 threshold) {
  return (unsigned)_mm256_movemask_ps(nan_alone ? _mm256_cmp_ps(z, z, _CMP_UNORD_Q) : _mm256_cmp_ps(z, threshold, _CMP_NLT_UQ));
}
INLINE unsigned passes_at(bool nan_alone, const float *z, int64_t n, __m256 threshold) { /* the first n, up to 8 */
  return n >= 8 ? passes(nan_alone, _mm256_loadu_ps(z), threshold) : passes(nan_alone, load_part(z, n), threshold) & ((1u << n) - 1);
}

INLINE int64_t count_passing(bool nan_alone, const float *z, int64_t n, float threshold) {
  const __m256 least = _mm256_set1_ps(threshold);
  int64_t found = 0;
  for (int64_t i = 0; i < n; i += 8) found += __builtin_popcount(passes_at(nan_alone, z + i, n - i, least));
  return found;
}
static int64_t count_at_least(const float *z, int64_t n, float threshold) {
  return isnan(threshold) ? count_passing(true, z, n, threshold) : count_passing(false, z, n, threshold);
}

INLINE int64_t put_passing(bool nan_alone, const float *z, int64_t n, float threshold, int32_t *index) {
  const __m256 least = _mm256_set1_ps(threshold);
  int64_t found = 0;
  for (int64_t i = 0; i < n; i += 8)
    for (unsigned mask = passes_at(nan_alone, z + i, n - i, least); mask; mask &= mask - 1) index[found++] = (int32_t)i + __builtin_ctz(mask);
  return found;
}
static int64_t at_least(const float *z, int64_t n, float threshold, int32_t *index) {
  return isnan(threshold) ? put_passing(true, z, n, threshold, index) : put_passing(false, z, n, threshold, index);
}

void embed__reduce_avx2(embed__reduce_kernels *k) {
  k->max = largest;
  k->maxima = maxima;
  k->sum_exp = sum_exp;
  k->exp_moments = exp_moments;
  k->count_at_least = count_at_least;
  k->at_least = at_least;
}
