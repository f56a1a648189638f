/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the loss share: a problem, and its loss and gradients by plain loops in double, from the formula alone. */
#ifndef TEST_LOSS_H
#define TEST_LOSS_H

#include "gather.h"

typedef struct problem {
  int64_t vocab, dim, n;
  float *w, *bias, *x, *up, *class_weight; /* bias, up, class_weight may be NULL */
  int32_t *targets;
  float scale, cap; /* 1, 0 = none */
  embed_loss_options o;
} problem;

typedef struct answer {
  double *loss, *logsumexp; /* [n] */
  double *dx, *dw, *db;
  int64_t count;
} answer;

/* Of the best level. */
static inline embed_context *context_flagged(int32_t threads, uint32_t flags) {
  embed_context_options o = {.size = sizeof o, .flags = flags};
  embed_context *ctx = NULL;
  OK(embed_pool_create(threads, &o.pool));
  OK(embed_context_create(&o, &ctx));
  embed_pool_release(o.pool);
  return ctx;
}

static inline void *zeroed(int64_t count, size_t size) {
  void *memory = calloc((size_t)count + 1, size);
  assert_non_null(memory);
  return memory;
}

static inline float *random_floats(int64_t count, float most, uint64_t *state) {
  float *out = zeroed(count, sizeof *out);
  for (int64_t i = 0; i < count; ++i) out[i] = most * test_uniform(state);
  return out;
}

/* Every seventh row is ignored. */
static inline problem problem_new(int64_t vocab, int64_t dim, int64_t n, uint64_t seed) {
  problem p = {.vocab = vocab, .dim = dim, .n = n, .scale = 1, .o = {.size = sizeof p.o}};
  p.w = random_floats(vocab * dim, 0.5f, &seed);
  p.x = random_floats(n * dim, 1, &seed);
  p.targets = zeroed(n, sizeof *p.targets);
  for (int64_t i = 0; i < n; ++i) p.targets[i] = i % 7 == 6 ? -100 : (int32_t)(test_random(&seed) % (uint64_t)vocab);
  return p;
}

static inline void problem_free(problem *p) { free(p->w), free(p->bias), free(p->x), free(p->up), free(p->class_weight), free(p->targets); }

static inline int32_t ignored_target(const problem *p) { return p->o.flags & EMBED_LOSS_IGNORE_INDEX ? p->o.ignore_index : -100; }

static inline embed_table *table_of(embed_context *ctx, const problem *p) {
  embed_table *t = NULL;
  OK(embed_table_view(ctx, p->w, p->vocab, p->dim, NULL, NULL, NULL, &t));
  return t;
}

static inline embed_head *head_of(embed_context *ctx, const problem *p, embed_table *t) {
  embed_head *h = NULL;
  embed_head_options o = {.size = sizeof o, .logit_scale = p->scale, .logit_softcap = p->cap};
  OK(embed_head_create(ctx, t, p->bias, &o, &h));
  embed_table_release(t);
  return h;
}

/* The logits of row i, and their slope from the product; w, x, b in double so that single numbers can be moved. */
static inline void logits_in_double(const problem *p, const double *w, const double *b, const double *x, double *z, double *slope) {
  for (int64_t v = 0; v < p->vocab; ++v) {
    double sum = b ? b[v] : 0;
    for (int64_t j = 0; j < p->dim; ++j) sum += w[v * p->dim + j] * x[j];
    z[v] = sum * (double)p->scale;
    slope[v] = (double)p->scale;
    if (p->cap > 0) {
      double t = tanh(z[v] / (double)p->cap);
      z[v] = (double)p->cap * t;
      slope[v] *= 1 - t * t;
    }
  }
}

static inline double logsumexp_of(const double *z, int64_t n) {
  double max = -INFINITY, sum = 0;
  for (int64_t v = 0; v < n; ++v) max = z[v] > max ? z[v] : max;
  for (int64_t v = 0; v < n; ++v) sum += exp(z[v] - max);
  return max + log(sum);
}

/* As the target's distribution: q[v] of each class, then loss = sum of q[v] * weight[v] * (lse - z[v]). */
static inline double share_of(const problem *p, int64_t v, int32_t target) {
  double e = p->o.label_smoothing, others = e / (double)(p->vocab - 1);
  if (p->o.flags & EMBED_LOSS_SMOOTH_OTHERS) return v == target ? 1 - e : others;
  return (v == target ? 1 - e : 0) + e / (double)p->vocab;
}

static inline double class_weight_of(const problem *p, int64_t v) { return p->class_weight ? (double)p->class_weight[v] : 1; }

static inline double row_loss(const problem *p, const double *z, double lse, int32_t target) {
  double loss = p->o.z_loss * lse * lse;
  for (int64_t v = 0; v < p->vocab; ++v) loss += share_of(p, v, target) * class_weight_of(p, v) * (lse - z[v]);
  return loss;
}

static inline double upstream_of(const problem *p, int64_t i) {
  double weights = 0;
  if (p->up) return (double)p->up[i];
  if (p->o.reduction != EMBED_REDUCE_MEAN) return 1;
  for (int64_t k = 0; k < p->n; ++k)
    if (p->targets[k] != ignored_target(p)) weights += class_weight_of(p, p->targets[k]);
  return weights != 0 ? 1 / weights : 0;
}

static inline double *doubles_of(const float *from, int64_t count) {
  double *out = zeroed(count, sizeof *out);
  for (int64_t i = 0; from && i < count; ++i) out[i] = (double)from[i];
  return out;
}

/* A loss in double as a function of the weights [vocab, dim], the bias [vocab] and the hidden rows [n, dim]; values may be NULL. */
typedef double loss_of(const void *what, const double *w, const double *bias, const double *x, double *values);

/* Its central differences by the weights (which 0), the bias (1) or the hidden rows (2) of s; values: as the loss gives them at s. */
static inline double *differences(loss_of *loss, const void *what, const problem *s, int which, double *values) {
  const double step = 1e-5;
  const int64_t sizes[3] = {s->vocab * s->dim, s->vocab, s->n * s->dim};
  double *at[3] = {doubles_of(s->w, sizes[0]), doubles_of(s->bias, sizes[1]), doubles_of(s->x, sizes[2])}, *out = zeroed(sizes[which], sizeof *out);
  loss(what, at[0], at[1], at[2], values);
  for (int64_t i = 0; i < sizes[which]; ++i) {
    const double kept = at[which][i];
    at[which][i] = kept + step;
    const double above = loss(what, at[0], at[1], at[2], NULL);
    at[which][i] = kept - step;
    out[i] = (above - loss(what, at[0], at[1], at[2], NULL)) / (2 * step);
    at[which][i] = kept;
  }
  for (int i = 0; i < 3; ++i) free(at[i]);
  return out;
}

static inline answer answer_in_double(const problem *p) {
  answer a = {zeroed(p->n, 8), zeroed(p->n, 8), zeroed(p->n * p->dim, 8), zeroed(p->vocab * p->dim, 8), zeroed(p->vocab, 8), 0};
  double *w = doubles_of(p->w, p->vocab * p->dim), *x = doubles_of(p->x, p->n * p->dim), *b = doubles_of(p->bias, p->vocab);
  double *z = zeroed(p->vocab, sizeof *z), *slope = zeroed(p->vocab, sizeof *slope);
  for (int64_t i = 0; i < p->n; ++i) {
    const int32_t target = p->targets[i];
    const double *row = x + i * p->dim;
    logits_in_double(p, w, p->bias ? b : NULL, row, z, slope);
    double lse = a.logsumexp[i] = logsumexp_of(z, p->vocab), mass = 0, up = upstream_of(p, i);
    if (target == ignored_target(p)) continue;
    ++a.count;
    a.loss[i] = row_loss(p, z, lse, target);
    for (int64_t v = 0; v < p->vocab; ++v) mass += share_of(p, v, target) * class_weight_of(p, v);
    for (int64_t v = 0; v < p->vocab; ++v) {
      double g = exp(z[v] - lse) * (mass + 2 * p->o.z_loss * lse) - share_of(p, v, target) * class_weight_of(p, v);
      g *= up * slope[v];
      a.db[v] += g;
      for (int64_t j = 0; j < p->dim; ++j) {
        a.dx[i * p->dim + j] += g * w[v * p->dim + j];
        a.dw[v * p->dim + j] += g * row[j];
      }
    }
  }
  free(w), free(x), free(b), free(z), free(slope);
  return a;
}

static inline void answer_free(answer *a) { free(a->loss), free(a->logsumexp), free(a->dx), free(a->dw), free(a->db); }

/* The largest difference, beside the largest number or 1/100. */
static inline double apart(const float *got, const double *want, int64_t count) {
  double most = 0.01, far = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!isfinite(got[i])) return INFINITY;
    far = fmax(far, fabs((double)got[i] - want[i]));
    most = fmax(most, fabs(want[i]));
  }
  return far / most;
}

#define CLOSE(got, want, count, most)                                                                                             \
  do {                                                                                                                            \
    double far_ = apart((got), (want), (count));                                                                                  \
    if (!(far_ <= (most))) fail_msg("%s:%d: %s is %g of the largest number away from %s", __FILE__, __LINE__, #got, far_, #want); \
  } while (0)

/* What the library says. */
typedef struct training {
  float *loss, *dx, *dw, *db;
  int64_t count;
  embed_grad *g;
} training;

static inline training train(embed_context *ctx, const problem *p, const embed_head *h) {
  training t = {.loss = zeroed(p->n, 4), .dx = zeroed(p->n * p->dim, 4), .count = -7};
  memset(t.loss, 0xA5, (size_t)p->n * 4);
  memset(t.dx, 0xA5, (size_t)(p->n * p->dim) * 4);
  OK(embed_grad_create_dense(ctx, p->vocab, p->dim, NULL, 0, &t.g));
  embed_status status = embed_cross_entropy_train(ctx, h, p->x, EMBED_F32, p->n, 0, p->targets, p->up, t.loss, &t.count, t.dx, EMBED_F32, 0, t.g, &p->o);
  if (status != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  t.dw = (float *)(uintptr_t)embed_grad_values(t.g);
  t.db = embed_grad_bias(t.g);
  return t;
}

static inline void training_free(training *t) {
  free(t->loss), free(t->dx);
  embed_grad_release(t->g);
}

#endif
