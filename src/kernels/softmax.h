/* SPDX-License-Identifier: BSD-3-Clause */
/* Softmax down the columns of a block of logits: z [rows][ldz], a row of the table's logits in a row, a hidden row in each of
 * `lanes` columns. Any rows, lanes >= 0, any alignment; nothing outside z's columns and the arrays of `lanes` is touched. No
 * allocation, no state. Plain loops, compiled for each level: the same bits at every one. */
#ifndef EMBED__SOFTMAX_H
#define EMBED__SOFTMAX_H

#include <stdint.h>

typedef struct embed__softmax_kernels {
  /* max[i] = the largest of max[i] and column i that is no NaN. */
  void (*max)(const float *z, int64_t ldz, int64_t rows, int64_t lanes, float *max);
  /* sum[i] = sum of exp(z - max[i]) down column i, NaN where a z is NaN; max[i] is finite and not below them. Relative error
   * <= 1e-6; terms below 1e-38 count as 0. */
  void (*sum_exp)(const float *z, int64_t ldz, int64_t rows, int64_t lanes, const float *max, double *sum);
  /* z = factor[i] * exp(z - shift[i]) - minus[i] * weight[row], in place; weight may be NULL: 1. exp as above, at most e^88. */
  void (*gradient)(float *z, int64_t ldz, int64_t rows, int64_t lanes, const float *shift, const float *factor, const float *minus, const float *weight);
  /* z = cap * tanh(z / cap), to 4 ULP of the tanh. */
  void (*softcap)(float *z, int64_t ldz, int64_t rows, int64_t lanes, float cap);
} embed__softmax_kernels;

void embed__softmax_scalar(embed__softmax_kernels *k);
void embed__softmax_avx2(embed__softmax_kernels *k);
void embed__softmax_avx512(embed__softmax_kernels *k);

#endif
