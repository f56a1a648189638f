/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/logsumexp.h"

#include <math.h>

/* Blocks with an infinite maximum are rare; counting them apart keeps inf - inf out of the sums. */
static double sum_at_infinity(const float *z, int64_t n, float max) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (isnan(z[i])) return NAN;
    if (max > 0 && z[i] == max) sum += 1;
  }
  return sum;
}

embed__logsumexp embed__logsumexp_of(const embed__kernels *k, const float *z, int64_t n) {
  embed__logsumexp s = {.max = k->reduce.max(z, n)};
  s.sum = isinf(s.max) ? sum_at_infinity(z, n, s.max) : k->reduce.sum_exp(z, n, s.max);
  return s;
}

void embed__logsumexp_merge(void *a, const void *b) {
  embed__logsumexp *x = a;
  const embed__logsumexp *y = b;
  float max = x->max > y->max ? x->max : y->max;
  /* equal maxima, infinite ones too, need no factor */
  double from_x = x->max == max ? x->sum : x->sum * exp((double)x->max - (double)max);
  double from_y = y->max == max ? y->sum : y->sum * exp((double)y->max - (double)max);
  x->max = max;
  x->sum = from_x + from_y;
}

double embed__logsumexp_exact(const embed__logsumexp *s) {
  if (isnan(s->sum)) return NAN;
  return isinf(s->max) ? (double)s->max : (double)s->max + log(s->sum);
}

float embed__logsumexp_value(const embed__logsumexp *s) { return (float)embed__logsumexp_exact(s); }
