/* SPDX-License-Identifier: BSD-3-Clause */
/* torch.optim.SparseAdam: rows with gradient alone, bias corrections of the table's step, epsilon added before them (an
 * effective epsilon / sqrt(1 - beta2^step)). Weight decay is decoupled and of these rows alone. */
#include "optim/adam.h"

static void numbers(const embed_optimizer_options *o, double lr, int64_t step, embed__opt_numbers *n) {
  embed__adamw_numbers(o, lr, step, n);
  n->lr = (float)(lr * sqrt(1 - pow(o->beta2, (double)step)) / (1 - pow(o->beta1, (double)step)));
  n->root = 1;
}

const embed__optimizer_form embed__optimizer_adam_sparse = {.name = "adam_sparse",
                                                            .by_column = true,
                                                            .takes = EMBED__ADAM_TAKES,
                                                            .flags = EMBED__ADAM_FLAGS,
                                                            .slots = 2,
                                                            .beta1 = 0.9,
                                                            .beta2 = 0.999,
                                                            .epsilon = 1e-8,
                                                            .numbers = numbers,
                                                            .update = embed__adam_update};
