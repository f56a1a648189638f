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

static double sum_exp(const float *z, int64_t n, float max) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += exp((double)z[i] - (double)max);
  return sum;
}

static int64_t at_least(const float *z, int64_t n, float threshold, int32_t *index) {
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i)
    if (z[i] >= threshold || isnan(z[i])) index[found++] = (int32_t)i;
  return found;
}

void embed__reduce_scalar(embed__reduce_kernels *k) {
  k->max = largest;
  k->sum_exp = sum_exp;
  k->at_least = at_least;
}
