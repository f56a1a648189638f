/* SPDX-License-Identifier: BSD-3-Clause */
/* Row updates of optimisers: one row of a table, its gradient and its state, all floats at float addresses.
 * Any count >= 0; nothing outside [0, dim) is read or written; buffers do not overlap. No allocation, no state. Sums,
 * products, quotients and roots are rounded one by one, so every level gives the bits of scalar/opt.c.
 * A divisor of 0 counts as 1, a moment below 2^-120 as 0. */
#ifndef EMBED__OPT_H
#define EMBED__OPT_H

#include <stdint.h>

/* Squares that are kept, and sums of them, stop here: an infinity less another, or times 0, is NaN. A finite bfloat, a little below
 * float's largest. */
#define EMBED__MOST_SQUARE 0x1.FEp127f

/* The numbers of one step: what optimisers compute in double, once, and round. */
typedef struct embed__opt_numbers {
  float rate;         /* the learning rate */
  float lr;           /* bias corrections of the first moment included */
  float shrink;       /* learning rate times decoupled weight decay: w loses shrink * w */
  float beta1, rest1; /* what the first moment keeps, and takes from the gradient */
  float beta2, rest2; /* of the second moment */
  float root;         /* 1 / sqrt(1 - beta2^step), or 1 */
  float epsilon;
  float l1, l2;   /* FTRL's */
  float nesterov; /* of the buffer in g + nesterov * buffer; 0 = the buffer alone */
} embed__opt_numbers;

/* The steps that a row without gradient has missed, summed up (optim/history.h). */
typedef struct embed__opt_drift {
  float lose;              /* of w: 1 - the product of all decays */
  float beta1, beta2;      /* powers */
  float weight[2], add[2]; /* w -= m * (weight[0] / (sqrt(v) + add[0]) + weight[1] / (sqrt(v) + add[1])) */
} embed__opt_drift;

typedef struct embed__opt_kernels {
  /* out = scale * g + l2 * w; l2 = 0: scale * g, whatever w is */
  void (*gradient)(const float *g, const float *w, float *out, int64_t dim, float scale, float l2);
  /* b = beta1 * b + rest1 * g; w -= shrink * w + lr * b (nesterov: lr * (g + nesterov * b)) */
  void (*momentum)(float *w, const float *g, float *b, int64_t dim, const embed__opt_numbers *n);
  /* h += g^2; w -= lr * g / (sqrt(h) + epsilon) */
  void (*adagrad)(float *w, const float *g, float *h, int64_t dim, const embed__opt_numbers *n);
  /* v = beta2 * v + rest2 * min(g^2, MOST_SQUARE); w -= lr * g / (sqrt(v) + epsilon) */
  void (*rmsprop)(float *w, const float *g, float *v, int64_t dim, const embed__opt_numbers *n);
  /* m = beta1 * m + rest1 * g; v = beta2 * v + rest2 * g^2; w -= shrink * w + lr * m / (root * sqrt(v) + epsilon) */
  void (*adam)(float *w, const float *g, float *m, float *v, int64_t dim, const embed__opt_numbers *n);
  /* The same moments; out = lr * m / (root * sqrt(v) + epsilon) + l2 * w, the direction of LAMB. */
  void (*adam_direction)(const float *w, const float *g, float *m, float *v, float *out, int64_t dim, const embed__opt_numbers *n);
  /* w -= shrink * w + lr * sign(beta1 * m + rest1 * g); m = beta2 * m + rest2 * g */
  void (*lion)(float *w, const float *g, float *m, int64_t dim, const embed__opt_numbers *n);
  /* a = min(h + g^2, MOST_SQUARE); z += g - (sqrt(a) - sqrt(h)) / lr * w; h = a;
   * w = |z| <= l1 ? 0 : (sign(z) * l1 - z) / ((beta1 + sqrt(a)) / lr + l2), unless that divisor is 0; lr > 0 */
  void (*ftrl)(float *w, const float *g, float *z, float *h, int64_t dim, const embed__opt_numbers *n);
  /* What steps without gradient do, in one: see embed__opt_drift; m *= beta1, v *= beta2. */
  void (*drift)(float *w, float *m, float *v, int64_t dim, const embed__opt_drift *d);
  /* w -= part * w */
  void (*shrink)(float *w, int64_t dim, float part);
  /* The least v[j] with m[j] != 0; infinity when all m are 0. */
  float (*least_active)(const float *m, const float *v, int64_t dim);
} embed__opt_kernels;

void embed__opt_scalar(embed__opt_kernels *k);
void embed__opt_avx2(embed__opt_kernels *k);
void embed__opt_avx512(embed__opt_kernels *k);
void embed__opt_neon(embed__opt_kernels *k);

#endif
