/* SPDX-License-Identifier: BSD-3-Clause */
/* h += g^2; w -= lr * g / (sqrt(h) + epsilon): torch.optim.Adagrad with lr_decay 0. A row without gradient would not move. */
#include "optim/optim.h"

static void numbers(const embed_optimizer_options *o, double lr, int64_t step, embed__opt_numbers *n) {
  (void)step;
  n->lr = (float)lr;
  n->epsilon = (float)o->epsilon;
}

static void update(const embed__kernels *k, const embed_optimizer_options *o, const embed__opt_numbers *n, embed__trained_row *r) {
  (void)o;
  k->opt.adagrad(r->w, r->g, r->slot[0], r->dim, n);
}

const embed__optimizer_form embed__optimizer_adagrad = {.name = "adagrad",
                                                        .by_column = true,
                                                        .takes = EMBED__TAKES_EPSILON | EMBED__TAKES_DECAY,
                                                        .flags = EMBED_OPTIM_EPSILON_ZERO,
                                                        .slots = 1,
                                                        .l2 = true,
                                                        .epsilon = 1e-10,
                                                        .numbers = numbers,
                                                        .update = update};
