/* SPDX-License-Identifier: BSD-3-Clause */
/* Adam's direction plus weight_decay * w, as long as the row itself: w -= lr * |w| / |u| * u, with |w| / |u| = 1 where either is 0.
 * The trust ratio is of a row, as in FBGEMM's LAMB. You et al., "Large batch optimization for deep learning", 2020. */
#include "optim/adam.h"

static void numbers(const embed_optimizer_options *o, double lr, int64_t step, embed__opt_numbers *n) {
  embed__adamw_numbers(o, 1, step, n);
  n->rate = (float)lr;
  n->l2 = (float)o->weight_decay;
}

static void update(const embed__kernels *k, const embed_optimizer_options *o, const embed__opt_numbers *n, embed__trained_row *r) {
  (void)o;
  k->opt.adam_direction(r->w, r->g, r->slot[0], r->slot[1], r->work, r->dim, n);
  const double of_w = sqrt(k->row.sum_squares(r->w, r->dim)), of_step = sqrt(k->row.sum_squares(r->work, r->dim));
  const double ratio = of_w > 0 && of_step > 0 ? of_w / of_step : 1;
  k->row.add_scaled(r->w, r->work, r->dim, (float)(-(double)n->rate * ratio));
}

const embed__optimizer_form embed__optimizer_lamb = {.name = "lamb",
                                                     .takes = EMBED__ADAM_TAKES,
                                                     .flags = EMBED__ADAM_FLAGS,
                                                     .slots = 2,
                                                     .beta1 = 0.9,
                                                     .beta2 = 0.999,
                                                     .epsilon = 1e-6,
                                                     .numbers = numbers,
                                                     .update = update};
