/* SPDX-License-Identifier: BSD-3-Clause */
/* w -= lr * g. With momentum: b = momentum * b + g, w -= lr * b, or with nesterov lr * (g + momentum * b), for all rows as in
 * torch.optim.SGD: a row without gradient has a gradient of zeros (and of weight_decay * w). LAZY leaves those rows out. */
#include "optim/optim.h"

static bool every_row(const embed_optimizer_options *o) { return !(o->flags & EMBED_OPTIM_LAZY) && (o->momentum != 0 || o->weight_decay != 0); }

static void numbers(const embed_optimizer_options *o, double lr, int64_t step, embed__opt_numbers *n) {
  (void)step;
  n->lr = (float)lr;
  n->beta1 = (float)o->momentum;
  n->rest1 = 1; /* torch's dampening, 0 */
  n->nesterov = o->flags & EMBED_OPTIM_NESTEROV ? (float)o->momentum : 0;
}

static void update(const embed__kernels *k, const embed_optimizer_options *o, const embed__opt_numbers *n, embed__trained_row *r) {
  if (o->momentum != 0)
    k->opt.momentum(r->w, r->g, r->slot[0], r->dim, n);
  else
    k->row.add_scaled(r->w, r->g, r->dim, -n->lr);
}

const embed__optimizer_form embed__optimizer_sgd = {.name = "sgd",
                                                    .by_column = true,
                                                    .takes = EMBED__TAKES_MOMENTUM | EMBED__TAKES_DECAY,
                                                    .flags = EMBED_OPTIM_LAZY | EMBED_OPTIM_NESTEROV,
                                                    .slots = 1,
                                                    .l2 = true,
                                                    .every_row = every_row,
                                                    .numbers = numbers,
                                                    .update = update};
