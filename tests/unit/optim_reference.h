/* SPDX-License-Identifier: BSD-3-Clause */
/* Every optimiser again, in double, as its formula stands in the literature: rows [rows, dim], a gradient for some of them. */
#ifndef OPTIM_REFERENCE_H
#define OPTIM_REFERENCE_H

#include <embed/optim.h>
#include <math.h>
#include <stdlib.h>

typedef struct reference {
  embed_optimizer_kind kind;
  int64_t rows, dim, step;
  double lr, beta1, beta2, epsilon, momentum, weight_decay, l1;
  int lazy, nesterov;
  double *w, *m, *v; /* [rows, dim]; Adafactor: of v a row of column means */
  double *row;       /* [rows] */
  int64_t *steps;    /* [rows] */
} reference;

static inline reference reference_new(embed_optimizer_kind kind, int64_t rows, int64_t dim) {
  reference r = {.kind = kind, .rows = rows, .dim = dim, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
  if (kind == EMBED_OPTIM_ADAGRAD) r.epsilon = 1e-10;
  if (kind == EMBED_OPTIM_LAMB) r.epsilon = 1e-6;
  if (kind == EMBED_OPTIM_RMSPROP || kind == EMBED_OPTIM_LION) r.beta2 = 0.99;
  if (kind == EMBED_OPTIM_FTRL) r.beta1 = 0;
  if (kind == EMBED_OPTIM_ADAFACTOR) r.epsilon = 0x1p-23;
  const size_t count = (size_t)(rows * dim);
  r.w = calloc(count, sizeof *r.w);
  r.m = calloc(count, sizeof *r.m);
  r.v = calloc(count, sizeof *r.v);
  r.row = calloc((size_t)rows, sizeof *r.row);
  r.steps = calloc((size_t)rows, sizeof *r.steps);
  return r;
}

static inline void reference_free(reference *r) {
  free(r->w);
  free(r->m);
  free(r->v);
  free(r->row);
  free(r->steps);
}

static inline double reference_mean_square(const reference *r, const double *g, const double *w, double l2) {
  double sum = 0;
  for (int64_t j = 0; j < r->dim; ++j) sum += (g[j] + l2 * w[j]) * (g[j] + l2 * w[j]);
  return sum / (double)r->dim;
}

/* One row of gradient g; t: the step of the table. */
static inline void reference_row(reference *r, int64_t row, const double *g, double lr, int64_t t) {
  double *w = r->w + row * r->dim, *m = r->m + row * r->dim, *v = r->v + row * r->dim, wd = r->weight_decay;
  const double own = r->kind == EMBED_OPTIM_ADAM_LAZY ? (double)++r->steps[row] : (double)t;
  const double c1 = 1 - pow(r->beta1, own), c2 = 1 - pow(r->beta2, own);
  double ratio = 1, lengths[2] = {0, 0};
  if (r->kind == EMBED_OPTIM_ADAGRAD_ROW) r->row[row] += reference_mean_square(r, g, w, wd);
  if (r->kind == EMBED_OPTIM_ADAM_ROW) r->row[row] = r->beta2 * r->row[row] + (1 - r->beta2) * reference_mean_square(r, g, w, 0);
  for (int pass = r->kind == EMBED_OPTIM_LAMB ? 0 : 1; pass < 2; ++pass) {
    if (pass == 1 && lengths[0] > 0 && lengths[1] > 0) ratio = sqrt(lengths[0] / lengths[1]);
    for (int64_t j = 0; j < r->dim; ++j) {
      const double l2 = g[j] + wd * w[j];
      switch (r->kind) {
        case EMBED_OPTIM_SGD:
          m[j] = r->momentum * m[j] + l2;
          w[j] -= lr * (r->momentum == 0 ? l2 : r->nesterov ? l2 + r->momentum * m[j] : m[j]);
          break;
        case EMBED_OPTIM_ADAGRAD:
          v[j] += l2 * l2;
          if (l2 != 0) w[j] -= lr * l2 / (sqrt(v[j]) + r->epsilon);
          break;
        case EMBED_OPTIM_ADAGRAD_ROW: w[j] -= lr * l2 / (sqrt(r->row[row]) + r->epsilon); break;
        case EMBED_OPTIM_RMSPROP:
          v[j] = r->beta2 * v[j] + (1 - r->beta2) * l2 * l2;
          w[j] -= lr * l2 / (sqrt(v[j]) + r->epsilon);
          break;
        case EMBED_OPTIM_LION: {
          const double c = r->beta1 * m[j] + (1 - r->beta1) * g[j];
          w[j] -= lr * (wd * w[j] + (c > 0) - (c < 0));
          m[j] = r->beta2 * m[j] + (1 - r->beta2) * g[j];
          break;
        }
        case EMBED_OPTIM_FTRL: {
          const double sum = v[j] + g[j] * g[j], sigma = (sqrt(sum) - sqrt(v[j])) / lr;
          m[j] += g[j] - sigma * w[j];
          v[j] = sum;
          const double bottom = (r->beta1 + sqrt(sum)) / lr + wd;
          if (bottom != 0) w[j] = fabs(m[j]) <= r->l1 ? 0 : ((m[j] > 0 ? r->l1 : -r->l1) - m[j]) / bottom;
          break;
        }
        case EMBED_OPTIM_ADAM_ROW:
          m[j] = r->beta1 * m[j] + (1 - r->beta1) * g[j];
          w[j] = w[j] - lr * wd * w[j] - lr / c1 * m[j] / (sqrt(r->row[row] / c2) + r->epsilon);
          break;
        default: {
          if (pass == 0 || r->kind != EMBED_OPTIM_LAMB) {
            m[j] = r->beta1 * m[j] + (1 - r->beta1) * g[j];
            v[j] = r->beta2 * v[j] + (1 - r->beta2) * g[j] * g[j];
          }
          const double sparse = sqrt(c2) / c1 * m[j] / (sqrt(v[j]) + r->epsilon), direction = m[j] / c1 / (sqrt(v[j] / c2) + r->epsilon);
          if (r->kind == EMBED_OPTIM_LAMB) {
            const double u = direction + wd * w[j];
            if (pass == 0) {
              lengths[0] += w[j] * w[j];
              lengths[1] += u * u;
            } else {
              w[j] -= lr * ratio * u;
            }
          } else {
            w[j] = w[j] - lr * wd * w[j] - lr * (r->kind == EMBED_OPTIM_ADAM_SPARSE ? sparse : direction);
          }
        }
      }
    }
  }
}

static inline int reference_moves_every_row(const reference *r) {
  if (r->kind == EMBED_OPTIM_SGD) return !r->lazy && (r->momentum != 0 || r->weight_decay != 0);
  return r->kind == EMBED_OPTIM_ADAMW || r->kind == EMBED_OPTIM_ADAMW_DEFERRED;
}

/* Adafactor as the paper has it for a matrix, that of the rows with gradient. */
static inline void reference_adafactor(reference *r, const int64_t *ids, int64_t n, const double *values, double lr) {
  const int64_t dim = r->dim;
  const double numbers = (double)(n * dim), share = pow((double)r->step, -0.8);
  double *u = calloc((size_t)(n * dim + 1), sizeof *u), of_w = 0, of_u = 0, mean = 0;
  for (int64_t j = 0; j < dim; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += values[i * dim + j] * values[i * dim + j];
    if (n > 0) r->v[j] += share * (sum / (double)n - r->v[j]);
    mean += r->v[j] / (double)dim;
  }
  for (int64_t i = 0; i < n; ++i) {
    double *row = r->row + ids[i];
    *row += pow((double)++r->steps[ids[i]], -0.8) * (reference_mean_square(r, values + i * dim, r->w, 0) - *row);
    for (int64_t j = 0; j < dim; ++j) {
      const double v = *row * r->v[j] / fmax(mean, r->epsilon), w = r->w[ids[i] * dim + j];
      u[i * dim + j] = values[i * dim + j] / sqrt(fmax(v, r->epsilon * r->epsilon));
      of_u += u[i * dim + j] * u[i * dim + j];
      of_w += w * w;
    }
  }
  const double step = fmin(lr, 1 / sqrt((double)r->step)) * fmax(1e-3, sqrt(of_w / numbers)) / fmax(1, sqrt(of_u / numbers));
  for (int64_t i = 0; i < n * dim; ++i) {
    double *w = r->w + ids[i / dim] * dim + i % dim;
    *w = *w * (1 - lr * r->weight_decay) - step * u[i];
  }
  free(u);
}

/* values [n, dim] for the ids, which ascend and stand once. */
static inline void reference_step(reference *r, const int64_t *ids, int64_t n, const double *values, double lr) {
  double *zeros = calloc((size_t)r->dim, sizeof *zeros);
  int64_t next = 0;
  ++r->step;
  if (r->kind == EMBED_OPTIM_ADAFACTOR) reference_adafactor(r, ids, n, values, lr);
  for (int64_t row = 0; row < r->rows; ++row) {
    if (r->kind == EMBED_OPTIM_ADAFACTOR) break;
    if (next < n && ids[next] == row)
      reference_row(r, row, values + next++ * r->dim, lr, r->step);
    else if (reference_moves_every_row(r))
      reference_row(r, row, zeros, lr, r->step);
  }
  free(zeros);
}

#endif
