/* SPDX-License-Identifier: BSD-3-Clause */
/* What the options of a loss mean, and what its calls check. */
#include "loss/loss.h"

#include <inttypes.h>
#include <math.h>

#include "core/error.h"
#include "core/options.h"

double embed__row_loss(const embed__loss *l, double logsumexp, double target_logit, double weighted_sum, int32_t target) {
  double of_target = (1 - l->smoothing) * embed__class_weight(l, target), away = logsumexp - target_logit;
  double loss = of_target > 0 || !isinf(away) ? of_target * away : 0; /* not 0 * infinity; a NaN stays */
  if (embed__is_smooth(l)) loss += l->smoothing / (double)l->vocab * (l->weights * logsumexp - weighted_sum);
  if (l->z_loss > 0) loss += l->z_loss * logsumexp * logsumexp;
  return loss;
}

embed__slope embed__row_slope(const embed__loss *l, double logsumexp, int32_t target, double upstream) {
  double all = l->smoothing / (double)l->vocab, of_target = (1 - l->smoothing) * embed__class_weight(l, target);
  double softmax = of_target + all * l->weights + (l->z_loss > 0 ? 2 * l->z_loss * logsumexp : 0);
  return (embed__slope){upstream * softmax, upstream * all, upstream * of_target};
}

static embed_status check_weights(embed_context *ctx, embed__loss *l) {
  l->weights = l->weight ? 0 : (double)l->vocab;
  for (int64_t v = 0; l->weight && v < l->vocab; ++v) {
    if (!isfinite(l->weight[v])) return embed__fail(ctx, EMBED_E_OPTION, v, "class_weight at class %" PRId64 " is not finite", v);
    l->weights += (double)l->weight[v];
  }
  return EMBED_OK;
}

static embed_status read_options(embed_context *ctx, const embed_loss_options *opts, embed__loss *l) {
  enum { USUAL_IGNORE = -100 };
  const uint32_t known = EMBED_LOSS_IGNORE_INDEX | EMBED_LOSS_SMOOTH_OTHERS | EMBED_LOSS_KAHAN | EMBED_LOSS_BF16;
  embed_loss_options o;
  EMBED__TRY(embed__options(ctx, "embed_loss_options", opts, known, &o, sizeof o));
  if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1)) return embed__fail(ctx, EMBED_E_OPTION, -1, "label_smoothing must be between 0 and 1");
  if (!(isfinite(o.z_loss) && o.z_loss >= 0)) return embed__fail(ctx, EMBED_E_OPTION, -1, "z_loss must be 0 or a positive number");
  if (o.reduction < EMBED_REDUCE_MEAN || o.reduction > EMBED_REDUCE_ROWS) return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_reduction", o.reduction);
  if (o.reserved) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_loss_options: reserved must be NULL");
  if (!(o.gradient_filter >= 0 && o.gradient_filter <= 1)) return embed__fail(ctx, EMBED_E_OPTION, -1, "gradient_filter must be between 0 and 1");
  l->smoothing = o.label_smoothing;
  /* Its share goes to the other classes alone: all of them get it, and the target what makes up for that. */
  if (o.flags & EMBED_LOSS_SMOOTH_OTHERS) l->smoothing = l->vocab > 1 ? l->smoothing * (double)l->vocab / (double)(l->vocab - 1) : 0;
  l->z_loss = o.z_loss;
  l->weight = o.class_weight;
  l->reduction = o.reduction;
  l->filter = o.gradient_filter;
  l->kahan = (o.flags & EMBED_LOSS_KAHAN) != 0;
  l->bf16 = (o.flags & EMBED_LOSS_BF16) != 0;
  l->ignore = o.flags & EMBED_LOSS_IGNORE_INDEX ? o.ignore_index : USUAL_IGNORE;
  return check_weights(ctx, l);
}

embed_status embed__loss_begin(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                               const embed_loss_options *opts, embed__loss *l, embed__sweep *s) {
  embed_sweep_options none;
  EMBED__TRY(embed__head_sweep(ctx, h, hidden, hidden_dtype, n, ld_hidden, NULL, &none, s));
  *l = (embed__loss){.vocab = h->table->vocab};
  return read_options(ctx, opts, l);
}

embed_status embed__loss_columns(embed_context *ctx, const embed_head *h, embed__loss *l, const int32_t **targets, int64_t n, int64_t *counted,
                                 double *weights) {
  enum { IGNORED = -1 };
  const embed__id_map *map = embed__head_map(h);
  if (!map || n == 0 || !*targets) return embed__loss_targets(ctx, l, *targets, n, counted, weights);
  int32_t *columns;
  EMBED__TRY(embed__scratch_get(ctx, n, sizeof *columns, &columns));
  for (int64_t i = 0; i < n; ++i) {
    const int32_t target = (*targets)[i];
    columns[i] = target != l->ignore ? embed__column_of(map, target) : IGNORED;
    if (columns[i] < 0 && target != l->ignore)
      return embed__fail(ctx, EMBED_E_ID, i, "target %d at position %" PRId64 " is not among the %" PRId64 " ids of this subset", target, i, map->count);
  }
  l->ignore = IGNORED;
  *targets = columns;
  return embed__loss_targets(ctx, l, columns, n, counted, weights);
}

embed_status embed__loss_targets(embed_context *ctx, const embed__loss *l, const int32_t *targets, int64_t n, int64_t *counted, double *weights) {
  *counted = 0;
  *weights = 0;
  if (n > 0 && !targets) return embed__null(ctx, "targets");
  for (int64_t i = 0; i < n; ++i) {
    if (targets[i] == l->ignore) continue;
    if (targets[i] < 0 || targets[i] >= l->vocab)
      return embed__fail(ctx, EMBED_E_ID, i, "target %d at position %" PRId64 " is outside the vocabulary of %" PRId64 " rows", targets[i], i, l->vocab);
    ++*counted;
    *weights += embed__class_weight(l, targets[i]);
  }
  return EMBED_OK;
}
