/* SPDX-License-Identifier: BSD-3-Clause */
/* torch.optim.AdamW, and Adam where weight_decay is 0: every row decays and drifts at every step. */
#include "optim/adam.h"

static bool every_row(const embed_optimizer_options *o) {
  (void)o;
  return true;
}

const embed__optimizer_form embed__optimizer_adamw = {.name = "adamw",
                                                      .by_column = true,
                                                      .takes = EMBED__ADAM_TAKES,
                                                      .flags = EMBED__ADAM_FLAGS,
                                                      .slots = 2,
                                                      .every_row = every_row,
                                                      .beta1 = 0.9,
                                                      .beta2 = 0.999,
                                                      .epsilon = 1e-8,
                                                      .numbers = embed__adamw_numbers,
                                                      .update = embed__adam_update};
