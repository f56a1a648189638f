/* SPDX-License-Identifier: BSD-3-Clause */
/* The bodies of opt.h's kernels: plain loops, which each level's compiler flags turn into its vectors. Their time is
 * that of the memory they move. They are the specification too: scalar/opt.c has nothing else. */
#include <math.h>

#include "kernels/opt.h"

/* A quotient 0 / 0 is a step of 0: no gradient yet, and epsilon 0. */
static inline float divisor(float x) { return x == 0 ? 1.0f : x; }
/* Moments of idle rows decay into subnormal numbers, where 0.9 * x rounds back to x and every product traps into
 * microcode: what is below 2^-120 counts as 0. */
static inline float settled(float x) { return fabsf(x) < 0x1p-120f ? 0.0f : x; }
static inline float bounded(float square) { return square > EMBED__MOST_SQUARE ? EMBED__MOST_SQUARE : square; } /* a NaN stays */

static void gradient(const float *restrict g, const float *restrict w, float *restrict out, int64_t dim, float scale, float l2) {
  if (l2 == 0) {
    for (int64_t j = 0; j < dim; ++j) out[j] = scale * g[j];
  } else {
    for (int64_t j = 0; j < dim; ++j) out[j] = scale * g[j] + l2 * w[j];
  }
}

static void momentum(float *restrict w, const float *restrict g, float *restrict b, int64_t dim, const embed__opt_numbers *n) {
  const float beta1 = n->beta1, rest1 = n->rest1, lr = n->lr, shrink = n->shrink, nesterov = n->nesterov;
  if (nesterov == 0) {
    for (int64_t j = 0; j < dim; ++j) {
      b[j] = settled(beta1 * b[j] + rest1 * g[j]);
      w[j] = w[j] - (shrink * w[j] + lr * b[j]);
    }
  } else {
    for (int64_t j = 0; j < dim; ++j) {
      b[j] = settled(beta1 * b[j] + rest1 * g[j]);
      w[j] = w[j] - (shrink * w[j] + lr * (g[j] + nesterov * b[j]));
    }
  }
}

static void adagrad(float *restrict w, const float *restrict g, float *restrict h, int64_t dim, const embed__opt_numbers *n) {
  const float lr = n->lr, epsilon = n->epsilon;
  for (int64_t j = 0; j < dim; ++j) {
    h[j] = h[j] + g[j] * g[j];
    w[j] = w[j] - lr * g[j] / divisor(sqrtf(h[j]) + epsilon);
  }
}

static void rmsprop(float *restrict w, const float *restrict g, float *restrict v, int64_t dim, const embed__opt_numbers *n) {
  const float lr = n->lr, epsilon = n->epsilon, beta2 = n->beta2, rest2 = n->rest2;
  for (int64_t j = 0; j < dim; ++j) {
    v[j] = settled(beta2 * v[j] + rest2 * bounded(g[j] * g[j]));
    w[j] = w[j] - lr * g[j] / divisor(sqrtf(v[j]) + epsilon);
  }
}

static void adam(float *restrict w, const float *restrict g, float *restrict m, float *restrict v, int64_t dim, const embed__opt_numbers *n) {
  const float beta1 = n->beta1, rest1 = n->rest1, beta2 = n->beta2, rest2 = n->rest2, lr = n->lr, root = n->root, epsilon = n->epsilon, shrink = n->shrink;
  for (int64_t j = 0; j < dim; ++j) {
    m[j] = settled(beta1 * m[j] + rest1 * g[j]);
    v[j] = settled(beta2 * v[j] + rest2 * (g[j] * g[j]));
    w[j] = w[j] - (shrink * w[j] + lr * m[j] / divisor(root * sqrtf(v[j]) + epsilon));
  }
}

static void adam_direction(const float *restrict w, const float *restrict g, float *restrict m, float *restrict v, float *restrict out, int64_t dim,
                           const embed__opt_numbers *n) {
  const float beta1 = n->beta1, rest1 = n->rest1, beta2 = n->beta2, rest2 = n->rest2, lr = n->lr, root = n->root, epsilon = n->epsilon, l2 = n->l2;
  for (int64_t j = 0; j < dim; ++j) {
    m[j] = settled(beta1 * m[j] + rest1 * g[j]);
    v[j] = settled(beta2 * v[j] + rest2 * (g[j] * g[j]));
    out[j] = lr * m[j] / divisor(root * sqrtf(v[j]) + epsilon) + l2 * w[j];
  }
}

static void lion(float *restrict w, const float *restrict g, float *restrict m, int64_t dim, const embed__opt_numbers *n) {
  const float beta1 = n->beta1, rest1 = n->rest1, beta2 = n->beta2, rest2 = n->rest2, lr = n->lr, shrink = n->shrink;
  for (int64_t j = 0; j < dim; ++j) {
    float c = beta1 * m[j] + rest1 * g[j];
    float step = c == 0 ? 0 : copysignf(lr, c); /* a NaN gets into m all the same */
    m[j] = settled(beta2 * m[j] + rest2 * g[j]);
    w[j] = w[j] - (shrink * w[j] + step);
  }
}

static void ftrl(float *restrict w, const float *restrict g, float *restrict z, float *restrict h, int64_t dim, const embed__opt_numbers *n) {
  const float lr = n->lr, beta = n->beta1, l1 = n->l1, l2 = n->l2;
  for (int64_t j = 0; j < dim; ++j) {
    const float sum = bounded(h[j] + g[j] * g[j]), root = sqrtf(sum);
    z[j] = z[j] + (g[j] - (root - sqrtf(h[j])) / lr * w[j]);
    h[j] = sum;
    const float bottom = (beta + root) / lr + l2, most = (copysignf(l1, z[j]) - z[j]) / divisor(bottom);
    const float next = fabsf(z[j]) <= l1 ? 0 : most;
    w[j] = bottom == 0 ? w[j] : next; /* no gradient yet */
  }
}

static void drift(float *restrict w, float *restrict m, float *restrict v, int64_t dim, const embed__opt_drift *d) {
  const float lose = d->lose, beta1 = d->beta1, beta2 = d->beta2;
  const float weight0 = d->weight[0], add0 = d->add[0], weight1 = d->weight[1], add1 = d->add[1];
  if (weight1 == 0) { /* one step missed, or steps alike */
    for (int64_t j = 0; j < dim; ++j) {
      w[j] = w[j] - (lose * w[j] + m[j] * weight0 / divisor(sqrtf(v[j]) + add0));
      m[j] = settled(beta1 * m[j]);
      v[j] = settled(beta2 * v[j]);
    }
    return;
  }
  for (int64_t j = 0; j < dim; ++j) {
    float root = sqrtf(v[j]);
    w[j] = w[j] - (lose * w[j] + m[j] * (weight0 / divisor(root + add0) + weight1 / divisor(root + add1)));
    m[j] = settled(beta1 * m[j]);
    v[j] = settled(beta2 * v[j]);
  }
}

static void shrink_row(float *restrict w, int64_t dim, float part) {
  for (int64_t j = 0; j < dim; ++j) w[j] = w[j] - part * w[j];
}

static float least_active(const float *restrict m, const float *restrict v, int64_t dim) {
  float least[16];
  for (int i = 0; i < 16; ++i) least[i] = INFINITY;
  int64_t j = 0;
  for (; j + 16 <= dim; j += 16)
    for (int i = 0; i < 16; ++i) {
      float active = m[j + i] == 0 ? INFINITY : v[j + i];
      least[i] = active < least[i] ? active : least[i];
    }
  for (int i = 0; j < dim; ++j, ++i) {
    float active = m[j] == 0 ? INFINITY : v[j];
    least[i] = active < least[i] ? active : least[i];
  }
  for (int i = 1; i < 16; ++i) least[0] = least[i] < least[0] ? least[i] : least[0];
  return least[0];
}

/* Each level's embed__opt_<level> hands its own copies of these out. */
static void use_all(embed__opt_kernels *k) {
  *k = (embed__opt_kernels){.gradient = gradient,
                            .momentum = momentum,
                            .adagrad = adagrad,
                            .rmsprop = rmsprop,
                            .adam = adam,
                            .adam_direction = adam_direction,
                            .lion = lion,
                            .ftrl = ftrl,
                            .drift = drift,
                            .shrink = shrink_row,
                            .least_active = least_active};
}
