/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kinds of Adam share. */
#ifndef EMBED__ADAM_H
#define EMBED__ADAM_H

#include <math.h>

#include "optim/optim.h"

enum {
  EMBED__ADAM_TAKES = EMBED__TAKES_BETA1 | EMBED__TAKES_BETA2 | EMBED__TAKES_EPSILON | EMBED__TAKES_DECAY,
  EMBED__ADAM_FLAGS = EMBED_OPTIM_BETA1_ZERO | EMBED_OPTIM_BETA2_ZERO | EMBED_OPTIM_EPSILON_ZERO
};

/* m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g^2;
 * w -= lr * weight_decay * w + lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + epsilon) */
static inline void embed__adamw_numbers(const embed_optimizer_options *o, double lr, int64_t step, embed__opt_numbers *n) {
  n->rate = (float)lr;
  n->lr = (float)(lr / (1 - pow(o->beta1, (double)step)));
  n->root = (float)(1 / sqrt(1 - pow(o->beta2, (double)step)));
  n->shrink = (float)(lr * o->weight_decay);
  n->beta1 = (float)o->beta1;
  n->rest1 = (float)(1 - o->beta1);
  n->beta2 = (float)o->beta2;
  n->rest2 = (float)(1 - o->beta2);
  n->epsilon = (float)o->epsilon;
}

static inline void embed__adam_update(const embed__kernels *k, const embed_optimizer_options *o, const embed__opt_numbers *n, embed__trained_row *r) {
  (void)o;
  k->opt.adam(r->w, r->g, r->slot[0], r->slot[1], r->dim, n);
}

#endif
