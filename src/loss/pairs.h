/* SPDX-License-Identifier: BSD-3-Clause */
/* Losses that look at a few rows of the table for each hidden row: pairs of the two. Their logits, what the loss makes of those of one hidden
 * row, and the gradients of both sides. */
#ifndef EMBED__PAIRS_H
#define EMBED__PAIRS_H

#include "loss/loss.h"

/* The loss of one hidden row, from the logits of its pairs; slope [count]: its derivatives by them. pair: the number of the first. */
typedef double embed__pairs_loss(const void *what, int64_t row, int64_t pair, const float *logits, int64_t count, double *slope);

typedef struct embed__pairs {
  const embed_head *head;
  const unsigned char *x; /* hidden [n, dim] */
  embed_dtype x_dtype;
  int64_t n, ldx;
  const int64_t *begin; /* [n + 1]: row i has pairs begin[i] .. begin[i + 1] - 1; a row without any has loss 0 */
  const int32_t *ids;   /* of rows of embed__few_table, proved */
  embed__pairs_loss *loss;
  const void *what;      /* for it */
  const float *upstream; /* [n]; NULL: `each` for all */
  double each;
  float *losses; /* [n] or NULL */
  unsigned char *dx;
  embed_dtype dx_dtype;
  int64_t lddx;
  embed_grad *grad;
} embed__pairs;
/* All or nothing, but for a callback's failure; losses, dx and grad may be NULL, dx may be x. */
embed_status embed__pairs_run(embed_context *ctx, const embed__pairs *p);

/* What the public calls of such losses have in common: a head that is fresh, hidden rows, targets below `classes`, d_hidden, a gradient that
 * fits. Fills all of p but begin, ids and the loss. */
/* E_UNSUPPORTED: a subset's head, whose rows are classes and not the inner nodes of a tree. */
embed_status embed__few_whole(embed_context *ctx, const embed_head *h);
/* A subset's rows are read where they were copied from: so all ids are the first head's, those of gradients too, and its bias alone goes
 * by column. */
static inline const embed_table *embed__few_table(const embed_head *h) { return h->base ? h->base : h->table; }
static inline int64_t embed__few_column(const embed_head *h, int32_t id) { return h->base ? embed__column_of(&h->map, id) : id; }
/* The head's logit of a row and a hidden row in floats; decoded as embed__product has it. */
float embed__few_logit(const embed__kernels *k, const embed_head *h, int32_t id, const float *x, float *decoded);
typedef struct embed__few {
  int64_t classes;
  int32_t ignore;
  embed_reduction reduction;
  int64_t counted; /* found: targets that are not ignored */
} embed__few;
embed_status embed__few_begin(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                              const int32_t *targets, const float *d_loss, float *loss, void *d_hidden, embed_dtype d_hidden_dtype, int64_t ld_d_hidden,
                              embed_grad *g, embed__few *few, embed__pairs *p);

/* log(1 + exp z) and 1 / (1 + exp -z), without a difference of larger numbers. */
double embed__softplus(double z);
double embed__sigmoid(double z);

#endif
