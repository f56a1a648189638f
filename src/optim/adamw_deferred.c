/* SPDX-License-Identifier: BSD-3-Clause */
/* AdamW for rows with gradient; the others catch up when they are touched (history.h). */
#include "optim/adam.h"

const embed__optimizer_form embed__optimizer_adamw_deferred = {.name = "adamw_deferred",
                                                               .takes = EMBED__ADAM_TAKES,
                                                               .flags = EMBED__ADAM_FLAGS | EMBED_OPTIM_REPLAY,
                                                               .slots = 2,
                                                               .deferred = true,
                                                               .beta1 = 0.9,
                                                               .beta2 = 0.999,
                                                               .epsilon = 1e-8,
                                                               .numbers = embed__adamw_numbers,
                                                               .update = embed__adam_update};
