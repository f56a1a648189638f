/* SPDX-License-Identifier: BSD-3-Clause */
/* Log-sum-exp over the vocabulary without keeping the logits: a state per block, merged in the sweep's tree.
 * Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018. */
#ifndef EMBED__LOGSUMEXP_H
#define EMBED__LOGSUMEXP_H

#include "kernels/kernels.h"

typedef struct embed__logsumexp {
  float max;  /* of the values that are numbers, -inf when there is none */
  double sum; /* of exp(z - max); NaN when a value is NaN; 1 per +inf when max is +inf; 0 when all are -inf */
} embed__logsumexp;

embed__logsumexp embed__logsumexp_of(const embed__kernels *k, const float *z, int64_t n);
void embed__logsumexp_merge(void *a, const void *b); /* a takes b in */
double embed__logsumexp_exact(const embed__logsumexp *s);
float embed__logsumexp_value(const embed__logsumexp *s);

#endif
