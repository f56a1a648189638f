/* SPDX-License-Identifier: BSD-3-Clause */
/* Floats rounded to bfloats, for products of these (gemm.h): to nearest even, NaN quiet; a number below 2^-126 becomes 0 with its sign, as
 * vdpbf16ps would take it. Any count >= 0, any alignment that floats have; nothing outside the given extents is touched. Plain loops,
 * compiled for each level, but where the CPU has an instruction: the same bits at every one. */
#ifndef EMBED__BFLOATS_H
#define EMBED__BFLOATS_H

#include <stdint.h>

typedef struct embed__bfloat_kernels {
  void (*round)(float *x, int64_t n);                      /* in place; the rounded numbers are floats */
  void (*round_to)(const float *x, float *out, int64_t n); /* elsewhere */
  /* Words of two bfloats, the first in the upper half. Along: out[p] = (x[2p], x[2p + 1]) for p < ceil(n / 2), an odd last number beside a
   * zero. Across: out[i] = (first[i], second[i]); second may be NULL: zeros. */
  void (*pair_along)(const float *x, int64_t n, uint32_t *out);
  void (*pair_across)(const float *first, const float *second, int64_t n, uint32_t *out);
} embed__bfloat_kernels;

void embed__bfloats_scalar(embed__bfloat_kernels *k);
void embed__bfloats_avx2(embed__bfloat_kernels *k);
void embed__bfloats_avx512(embed__bfloat_kernels *k);
void embed__bfloats_avx512bf16(embed__bfloat_kernels *k);

#endif
