/* SPDX-License-Identifier: BSD-3-Clause */
/* AdamW for rows with gradient alone, as if a row's own steps were all there are: bias corrections count those, so that a row
 * first seen late does not jump (with the table's count its first step is up to sqrt(10) times as long). FBGEMM's Adam with
 * use_rowwise_bias_correction. */
#include "optim/adam.h"

const embed__optimizer_form embed__optimizer_adam_lazy = {.name = "adam_lazy",
                                                          .by_column = true,
                                                          .takes = EMBED__ADAM_TAKES,
                                                          .flags = EMBED__ADAM_FLAGS,
                                                          .slots = 2,
                                                          .own_step = true,
                                                          .beta1 = 0.9,
                                                          .beta2 = 0.999,
                                                          .epsilon = 1e-8,
                                                          .numbers = embed__adamw_numbers,
                                                          .update = embed__adam_update};
