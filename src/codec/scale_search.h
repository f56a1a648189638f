/* SPDX-License-Identifier: BSD-3-Clause */
/* How the K forms find the step of a sub-block: least squares over a few tried steps, as ggml-quants.c does it. Sums run
 * in order in float, products are not fused: another order gives other bytes than ggml's. */
#ifndef EMBED__SCALE_SEARCH_H
#define EMBED__SCALE_SEARCH_H

#include <stdbool.h>

#define EMBED__ALL_ZERO 1e-15f /* ggml's: below it a sub-block counts as zeros */

/* The nearest integer, ties to even, by the mantissa of x + 1.5 * 2^23; what lies past 2^22 is cut, NaN is the least. */
int embed__nearest(float x);

/* x = step * (q - levels), q in [0, 2 * levels): the step. Tries steps around (extreme / -levels), errors weighted with x^2.
 * Q6_K's search (make_qx_quants). */
float embed__search_symmetric(const float *x, int n, int levels, int *q);

/* The same form; from the same first step, values are moved one by one while the error shrinks. Q3_K's search
 * (make_q3_quants). */
float embed__search_by_moves(const float *x, int n, int levels, int *q);

/* Which steps embed__search_affine tries: (top + first + i * stride) / range for i = 0 .. tries. */
typedef struct embed__affine_plan {
  int top; /* q in [0, top] */
  float first, stride;
  int tries;
  bool absolute; /* errors count by magnitude, not by square */
} embed__affine_plan;

/* x = step * q - offset with offset >= 0: the step. Errors weighted with weights. The search of Q2_K, Q4_K, Q5_K
 * (make_qkx2_quants). */
float embed__search_affine(const float *x, int n, const float *weights, const embed__affine_plan *plan, int *q, float *offset);

#endif
