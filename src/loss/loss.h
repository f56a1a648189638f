/* SPDX-License-Identifier: BSD-3-Clause */
/* Cross-entropy of a head's logits: what its options mean, and the pass that gives loss and gradients a chunk of hidden rows
 * at a time. */
#ifndef EMBED__LOSS_H
#define EMBED__LOSS_H

#include <embed/loss.h>

#include "head/head.h"
#include "scatter/grad.h"

/* The options, checked; smoothing is torch's whichever was asked for. */
typedef struct embed__loss {
  double smoothing, z_loss;
  const float *weight; /* [vocab] or NULL: 1 */
  double weights;      /* their sum, vocab when NULL */
  int64_t vocab;
  embed_reduction reduction;
  int32_t ignore;
  double filter; /* slopes up to this times upstream may be left out; 0 = none */
  bool kahan;
  bool bf16; /* products are of bfloats */
} embed__loss;

static inline double embed__class_weight(const embed__loss *l, int32_t target) { return l->weight ? (double)l->weight[target] : 1; }

/* Whether sum_v weight[v] * z[v] is asked for. */
static inline bool embed__is_smooth(const embed__loss *l) { return l->smoothing > 0; }

/* Of one row: its log-sum-exp, its target's logit, sum_v weight[v] * z[v]. */
double embed__row_loss(const embed__loss *l, double logsumexp, double target_logit, double weighted_sum, int32_t target);

/* d loss / d z[v] = softmax * p[v] - all * weight[v] - (v is the target: target), times upstream. */
typedef struct embed__slope {
  double softmax, all, target;
} embed__slope;
embed__slope embed__row_slope(const embed__loss *l, double logsumexp, int32_t target, double upstream);

/* What each call checks: options, and what embed__head_sweep does; fills l and the given part of s. */
embed_status embed__loss_begin(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                               const embed_loss_options *opts, embed__loss *l, embed__sweep *s);
/* E_ID for the first target that is neither ignored nor a class. *counted and *weights: the others, and the sum of their weights. */
embed_status embed__loss_targets(embed_context *ctx, const embed__loss *l, const int32_t *targets, int64_t n, int64_t *counted, double *weights);
/* The same for a head, as columns of its logits: those of a subset are in scratch, and l->ignore then stands for what is ignored there. */
embed_status embed__loss_columns(embed_context *ctx, const embed_head *h, embed__loss *l, const int32_t **targets, int64_t n, int64_t *counted,
                                 double *weights);

/* Forward alone, as a reducer of the sweep: quantised rows have kernels there, and OpenBLAS is asked for by name. */
embed_status embed__loss_forward(embed_context *ctx, const embed_head *h, const embed__loss *l, embed__sweep *s, const int32_t *targets, float *loss,
                                 float *logsumexp);

/* Loss and gradients, by the library's own products (pass.h). */
typedef struct embed__loss_job {
  const embed_head *head;
  const embed__loss *loss;
  const unsigned char *x; /* hidden [n, dim] */
  embed_dtype x_dtype;
  int64_t n, ldx;
  const int32_t *targets; /* columns */
  int64_t counted;
  const float *logsumexp; /* stored [n]; NULL: found here, */
  float *found;           /* and written here [n], of ignored rows too, or NULL */
  const float *upstream;  /* [n]; NULL: `each` for all */
  double each;
  float *losses;     /* [n] or NULL */
  unsigned char *dx; /* [n, dim] or NULL */
  embed_dtype dx_dtype;
  int64_t lddx;
  float *dw; /* [vocab, dim], added to, or NULL */
  int64_t lddw;
  embed_grad *grad;    /* instead of dw, opened when nothing can fail any more; or NULL */
  float *db;           /* [vocab], added to, or NULL */
  const int32_t *rows; /* of grad and its bias, by column, where a subset's columns are not their rows; NULL = the column */
} embed__loss_job;
embed_status embed__loss_run(embed_context *ctx, embed__loss_job *b);
/* Opens the job's gradient: nothing but a caller's callback fails from there on. */
embed_status embed__loss_open(embed_context *ctx, embed__loss_job *b);
/* The rows' losses and log-sum-exps, either may be NULL, by whichever way suits the head; b as embed__loss_run's, without gradients. */
embed_status embed__loss_values(embed_context *ctx, embed__loss_job *b, embed__sweep *s, float *loss, float *logsumexp);

#endif
