/* SPDX-License-Identifier: BSD-3-Clause */
/* w -= lr * (weight_decay * w + sign(beta1 * m + (1 - beta1) * g)); m = beta2 * m + (1 - beta2) * g, rows with gradient alone.
 * Chen et al., "Symbolic discovery of optimization algorithms", 2023. */
#include "optim/optim.h"

static void numbers(const embed_optimizer_options *o, double lr, int64_t step, embed__opt_numbers *n) {
  (void)step;
  n->lr = (float)lr;
  n->shrink = (float)(lr * o->weight_decay);
  n->beta1 = (float)o->beta1;
  n->rest1 = (float)(1 - o->beta1);
  n->beta2 = (float)o->beta2;
  n->rest2 = (float)(1 - o->beta2);
}

static void update(const embed__kernels *k, const embed_optimizer_options *o, const embed__opt_numbers *n, embed__trained_row *r) {
  (void)o;
  k->opt.lion(r->w, r->g, r->slot[0], r->dim, n);
}

const embed__optimizer_form embed__optimizer_lion = {.name = "lion",
                                                     .by_column = true,
                                                     .takes = EMBED__TAKES_BETA1 | EMBED__TAKES_BETA2 | EMBED__TAKES_DECAY,
                                                     .flags = EMBED_OPTIM_BETA1_ZERO | EMBED_OPTIM_BETA2_ZERO,
                                                     .slots = 1,
                                                     .beta1 = 0.9,
                                                     .beta2 = 0.99,
                                                     .numbers = numbers,
                                                     .update = update};
