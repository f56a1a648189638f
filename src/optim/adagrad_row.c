/* SPDX-License-Identifier: BSD-3-Clause */
/* One number per row: h += mean(g^2); w -= lr / (sqrt(h) + epsilon) * g. FBGEMM's EXACT_ROWWISE_ADAGRAD with weight decay in its L2
 * mode; its CPU kernels step once per duplicate, ours once per row. */
#include <math.h>

#include "optim/optim.h"

static void numbers(const embed_optimizer_options *o, double lr, int64_t step, embed__opt_numbers *n) {
  (void)step;
  n->lr = (float)lr;
  n->epsilon = (float)o->epsilon;
}

static void update(const embed__kernels *k, const embed_optimizer_options *o, const embed__opt_numbers *n, embed__trained_row *r) {
  (void)o;
  float *h = r->scalars;
  *h = (float)((double)*h + k->row.sum_squares(r->g, r->dim) / (double)r->dim);
  const double divisor = sqrt((double)*h) + (double)n->epsilon;
  if (divisor != 0) k->row.add_scaled(r->w, r->g, r->dim, (float)(-(double)n->lr / divisor));
}

const embed__optimizer_form embed__optimizer_adagrad_row = {.name = "adagrad_row",
                                                            .takes = EMBED__TAKES_EPSILON | EMBED__TAKES_DECAY,
                                                            .flags = EMBED_OPTIM_EPSILON_ZERO,
                                                            .scalars = 1,
                                                            .l2 = true,
                                                            .epsilon = 1e-8,
                                                            .numbers = numbers,
                                                            .update = update};
