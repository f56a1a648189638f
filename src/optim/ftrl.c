/* SPDX-License-Identifier: BSD-3-Clause */
/* FTRL-Proximal, rows with gradient alone: a = h + g^2; z += g - (sqrt(a) - sqrt(h)) / lr * w; h = a;
 * w = |z| <= l1 ? 0 : (sign(z) * l1 - z) / ((beta + sqrt(a)) / lr + l2), beta = beta1, l2 = weight_decay.
 * McMahan et al., "Ad click prediction: a view from the trenches", 2013, with tf.keras's beta of 0. A rate of 0 is no step. */
#include "optim/optim.h"

static void numbers(const embed_optimizer_options *o, double lr, int64_t step, embed__opt_numbers *n) {
  (void)step;
  n->lr = (float)lr;
  n->beta1 = (float)o->beta1;
  n->l1 = (float)o->l1;
  n->l2 = (float)o->weight_decay;
}

static void update(const embed__kernels *k, const embed_optimizer_options *o, const embed__opt_numbers *n, embed__trained_row *r) {
  (void)o;
  if (n->lr > 0) k->opt.ftrl(r->w, r->g, r->slot[0], r->slot[1], r->dim, n);
}

const embed__optimizer_form embed__optimizer_ftrl = {.name = "ftrl",
                                                     .by_column = true,
                                                     .takes = EMBED__TAKES_BETA1 | EMBED__TAKES_DECAY | EMBED__TAKES_L1,
                                                     .flags = EMBED_OPTIM_BETA1_ZERO,
                                                     .slots = 2,
                                                     .numbers = numbers,
                                                     .update = update};
