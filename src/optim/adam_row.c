/* SPDX-License-Identifier: BSD-3-Clause */
/* Adam with one second moment per row, of the mean square: rows with gradient alone, bias corrections of the table's step.
 * FBGEMM's PARTIAL_ROWWISE_ADAM. */
#include "optim/adam.h"

static void update(const embed__kernels *k, const embed_optimizer_options *o, const embed__opt_numbers *n, embed__trained_row *r) {
  (void)o;
  float *v = r->scalars;
  *v = (float)((double)n->beta2 * (double)*v + (double)n->rest2 * (k->row.sum_squares(r->g, r->dim) / (double)r->dim));
  const double divisor = (double)n->root * sqrt((double)*v) + (double)n->epsilon;
  embed__opt_numbers own = *n;
  own.lr = divisor != 0 ? (float)((double)n->lr / divisor) : 0;
  k->opt.momentum(r->w, r->g, r->slot[0], r->dim, &own);
}

const embed__optimizer_form embed__optimizer_adam_row = {.name = "adam_row",
                                                         .takes = EMBED__ADAM_TAKES,
                                                         .flags = EMBED__ADAM_FLAGS,
                                                         .slots = 1,
                                                         .scalars = 1,
                                                         .beta1 = 0.9,
                                                         .beta2 = 0.999,
                                                         .epsilon = 1e-8,
                                                         .numbers = embed__adamw_numbers,
                                                         .update = update};
