/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__SCATTER_DOT_H
#define EMBED__SCATTER_DOT_H

#include <stdint.h>

/* sum a[j] * b[j] in 16 lanes of doubles (products of floats are exact there), then lanes i and i + 8, + 4, + 2, + 1: the order of
 * row.h's sum_squares. */
static inline double embed__dot_doubles(const float *a, const float *b, int64_t dim) {
  enum { LANES = 16 };
  double lane[LANES] = {0};
  int64_t j = 0;
  for (; j + LANES <= dim; j += LANES)
    for (int i = 0; i < LANES; ++i) lane[i] += (double)a[j + i] * (double)b[j + i];
  for (int i = 0; j < dim; ++i, ++j) lane[i] += (double)a[j] * (double)b[j];
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

#endif
