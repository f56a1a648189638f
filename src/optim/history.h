/* SPDX-License-Identifier: BSD-3-Clause */
/* Deferred AdamW: what rows without gradient have missed.
 *
 * A row at step s with moments m, v and no gradient until step T would have moved by (k = t - s, t = s + 1 .. T)
 *
 *   w *= product of keep(t);  m *= beta1^k;  v *= beta2^k, and at each t
 *   w -= lr(t) / (1 - beta1^t) * m beta1^k / (sqrt(v) beta2^(k/2) / c(t) + epsilon),  c(t) = sqrt(1 - beta2^t),
 *
 * all of it still to be decayed by the steps after t. With y = c(t) beta2^(-k/2) the sum is m * sum_t a(t) y / (sqrt(v) + epsilon y):
 * the same weights for every element, at places epsilon y that hardly differ. Four sums of a y^1 .. a y^4 give the two places and
 * two weights of Gauss's quadrature of it, so an element costs two quotients however many steps were missed. CATCH_UP.md. */
#ifndef EMBED__HISTORY_H
#define EMBED__HISTORY_H

#include "optim/optim.h"

enum { EMBED__SUMS = 4 };

typedef struct embed__past { /* one step */
  double lr;
  double keep;              /* 1 - the part of w that it takes away */
  double log_keep;          /* sum of log(keep) from base up to this step, it included */
  double at, root;          /* lr / (1 - beta1^t), c(t) */
  double full[EMBED__SUMS]; /* the sums of a row that stood at the step before, over the `terms` steps from this one on */
} embed__past;

struct embed__history {
  embed__past *past; /* [count]: steps base + 1 .. base + count */
  int64_t count, room;
  int64_t base;                  /* no row stands at a step before it */
  int64_t terms;                 /* steps that a sum has; what they leave is below 1e-10 of it. 0 = replay */
  double (*recent)[EMBED__SUMS]; /* [terms + 1]: the sums of a row that stands k steps back */
};

embed_status embed__history_new(embed_context *ctx, embed_optimizer *o);
void embed__history_free(embed__history *h, const embed_allocator *memory); /* NULL is fine */
/* Room for one step more; nothing else changes. */
embed_status embed__history_reserve(embed_context *ctx, embed_optimizer *o);
/* Step o->step was taken at this rate; the room is there. */
void embed__history_append(embed_optimizer *o, double lr);
/* All rows stand at o->step: what was before is forgotten. */
void embed__history_forget(embed_optimizer *o);
/* Sums made anew from rates, for a history that was read from a file. */
void embed__history_sum(embed_optimizer *o, int64_t step);

/* Brings an open row from its stamp to o->step. */
void embed__catch_up(const embed__updating *u, int32_t worker, embed__trained_row *r, int64_t stamp);

#endif
