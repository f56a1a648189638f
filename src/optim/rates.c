/* SPDX-License-Identifier: BSD-3-Clause */
/* Learning rates: pure functions of their arguments, NaN for what makes no sense. */
#include <math.h>

#include "optim/optim.h"

double embed_lr_at(embed_lr_schedule schedule, double lr, int64_t step, int64_t warmup, int64_t total, double least) {
  const double pi = 3.14159265358979323846;
  if (!(lr >= 0) || step < 1 || warmup < 0 || !(least >= 0) || schedule < EMBED_LR_CONSTANT || schedule > EMBED_LR_INVERSE_SQRT) return NAN;
  const bool to_total = schedule == EMBED_LR_LINEAR || schedule == EMBED_LR_COSINE;
  if (to_total && total <= warmup) return NAN; /* not first at the end of the warm-up */
  if (step < warmup) return lr * (double)step / (double)warmup;
  switch (schedule) {
    case EMBED_LR_CONSTANT: return lr;
    case EMBED_LR_LINEAR:
    case EMBED_LR_COSINE: {
      const double part = step >= total ? 1 : (double)(step - warmup) / (double)(total - warmup);
      return least + (lr - least) * (schedule == EMBED_LR_COSINE ? 0.5 * (1 + cos(pi * part)) : 1 - part);
    }
    default: return lr * sqrt((double)(warmup > 0 ? warmup : 1) / (double)step); /* EMBED_LR_INVERSE_SQRT */
  }
}

double embed_lr_ratio(embed_lr_rule rule, int64_t width, int64_t base_width, double base_ratio) {
  if (width < 1 || base_width < 1 || !isfinite(base_ratio)) return NAN;
  switch (rule) {
    case EMBED_LR_ONE: return base_ratio;
    case EMBED_LR_SQRT_WIDTH: return base_ratio * sqrt((double)width / (double)base_width);
    case EMBED_LR_WIDTH: return base_ratio * ((double)width / (double)base_width);
    default: return NAN;
  }
}
