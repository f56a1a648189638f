/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions over a row of logits. Any alignment, any n >= 0, nothing outside z[0, n) is read. */
#ifndef EMBED__REDUCE_H
#define EMBED__REDUCE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct embed__reduce_kernels {
  /* The largest value that is no NaN, -inf when there is none. Same value at every level. */
  float (*max)(const float *z, int64_t n);
  /* Sum of exp(z[i] - max), NaN where a z is NaN; max is finite. Relative error <= 4e-7; terms below 1e-300 may count
   * as 0, above 1e300 as infinity; the order of the sum is fixed per level. */
  double (*sum_exp)(const float *z, int64_t n, float max);
  /* Writes the positions with z[i] >= threshold or z[i] NaN, ascending; returns how many. index has room for n. */
  int64_t (*at_least)(const float *z, int64_t n, float threshold, int32_t *index);
} embed__reduce_kernels;

void embed__reduce_scalar(embed__reduce_kernels *k);
void embed__reduce_avx2(embed__reduce_kernels *k);
void embed__reduce_avx512(embed__reduce_kernels *k);

#endif
