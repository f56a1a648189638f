/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions over a row of logits. Any alignment, any n >= 0, nothing outside z[0, n) is read. */
#ifndef EMBED__REDUCE_H
#define EMBED__REDUCE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct embed__reduce_kernels {
  /* The largest value that is no NaN, -inf when there is none. Same value at every level. */
  float (*max)(const float *z, int64_t n);
  /* best[l]: the largest z[i] with i % 16 = l that is no NaN, -inf when there is none. */
  void (*maxima)(const float *z, int64_t n, float best[16]);
  /* Sum of exp(z[i] - max), NaN where a z is NaN; max is finite. Relative error <= 4e-7; terms below 1e-300 may count
   * as 0, above 1e300 as infinity; the order of the sum is fixed per level. */
  double (*sum_exp)(const float *z, int64_t n, float max);
  /* sums[0]: of e[i] = exp((z[i] - max) * scale), sums[1]: of e[i] * (z[i] - max) * scale; both NaN where a z is NaN. max is
   * finite and no z above it, scale is positive. Errors as in sum_exp, of sums[1] against the sum of magnitudes; -inf counts as 0
   * in both. With scale 1 sums[0] has the bits of sum_exp. */
  void (*exp_moments)(const float *z, int64_t n, float max, double scale, double sums[2]);
  /* How many z[i] >= threshold or NaN. A NaN as threshold counts NaN alone. */
  int64_t (*count_at_least)(const float *z, int64_t n, float threshold);
  /* Writes the positions with z[i] >= threshold or z[i] NaN, ascending; returns how many. index has room for n. */
  int64_t (*at_least)(const float *z, int64_t n, float threshold, int32_t *index);
} embed__reduce_kernels;

void embed__reduce_scalar(embed__reduce_kernels *k);
void embed__reduce_avx2(embed__reduce_kernels *k);
void embed__reduce_avx512(embed__reduce_kernels *k);

#endif
