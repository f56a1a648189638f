/* SPDX-License-Identifier: BSD-3-Clause */
/* The specification of the reductions. */
#include "kernels/reduce.h"

#include <math.h>

static float largest(const float *z, int64_t n) {
  float best = -INFINITY;
  for (int64_t i = 0; i < n; ++i)
    if (z[i] > best) best = z[i];
  return best;
}

static void maxima(const float *z, int64_t n, float best[16]) {
  for (int l = 0; l < 16; ++l) best[l] = -INFINITY;
  for (int64_t i = 0; i < n; ++i)
    if (z[i] > best[i % 16]) best[i % 16] = z[i];
}

static double sum_exp(const float *z, int64_t n, float max) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += exp((double)z[i] - (double)max);
  return sum;
}

static void exp_moments(const float *z, int64_t n, float max, double scale, double sums[2]) {
  sums[0] = sums[1] = 0;
  for (int64_t i = 0; i < n; ++i) {
    double x = ((double)z[i] - (double)max) * scale, e = exp(x);
    sums[0] += e;
    if (e != 0) sums[1] += e * x;
  }
}

static int64_t count_at_least(const float *z, int64_t n, float threshold) {
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) found += z[i] >= threshold || isnan(z[i]);
  return found;
}

static int64_t at_least(const float *z, int64_t n, float threshold, int32_t *index) {
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i)
    if (z[i] >= threshold || isnan(z[i])) index[found++] = (int32_t)i;
  return found;
}

void embed__reduce_scalar(embed__reduce_kernels *k) {
  k->max = largest;
  k->maxima = maxima;
  k->sum_exp = sum_exp;
  k->exp_moments = exp_moments;
  k->count_at_least = count_at_least;
  k->at_least = at_least;
}
