/* SPDX-License-Identifier: BSD-3-Clause */
/* v = beta2 * v + (1 - beta2) * g^2; w -= lr * g / (sqrt(v) + epsilon), rows with gradient alone. torch.optim.RMSprop without
 * momentum; beta2 is its alpha. */
#include "optim/optim.h"

static void numbers(const embed_optimizer_options *o, double lr, int64_t step, embed__opt_numbers *n) {
  (void)step;
  n->lr = (float)lr;
  n->beta2 = (float)o->beta2;
  n->rest2 = (float)(1 - o->beta2);
  n->epsilon = (float)o->epsilon;
}

static void update(const embed__kernels *k, const embed_optimizer_options *o, const embed__opt_numbers *n, embed__trained_row *r) {
  (void)o;
  k->opt.rmsprop(r->w, r->g, r->slot[0], r->dim, n);
}

const embed__optimizer_form embed__optimizer_rmsprop = {.name = "rmsprop",
                                                        .by_column = true,
                                                        .takes = EMBED__TAKES_BETA2 | EMBED__TAKES_EPSILON | EMBED__TAKES_DECAY,
                                                        .flags = EMBED_OPTIM_BETA2_ZERO | EMBED_OPTIM_EPSILON_ZERO,
                                                        .slots = 1,
                                                        .l2 = true,
                                                        .beta2 = 0.99,
                                                        .epsilon = 1e-8,
                                                        .numbers = numbers,
                                                        .update = update};
