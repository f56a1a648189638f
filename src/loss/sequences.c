/* SPDX-License-Identifier: BSD-3-Clause */
/* Log-probabilities of whole sequences: rows' cross-entropies, summed with the sign turned. */
#include <inttypes.h>

#include "core/checked.h"
#include "core/error.h"
#include "loss/loss.h"
#include "table/ids.h"

/* What both calls check. */
static embed_status begin_job(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                              const int32_t *targets, const int64_t *offsets, int64_t seqs, const embed_loss_options *opts, embed__sweep *s, embed__loss *l,
                              embed__loss_job *b) {
  double weights;
  EMBED__TRY(embed__loss_begin(ctx, h, hidden, hidden_dtype, n, ld_hidden, opts, l, s));
  if (embed__is_smooth(l) || l->z_loss > 0 || l->weight)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "log-probabilities take neither label_smoothing nor z_loss nor class_weight");
  if (seqs < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "seqs is %" PRId64, seqs);
  EMBED__TRY(embed__check_offsets(ctx, offsets, seqs, n, "rows", "sequences"));
  *b = (embed__loss_job){.head = h, .loss = l, .x = s->x, .x_dtype = hidden_dtype, .n = n, .ldx = s->ldx, .targets = targets};
  return embed__loss_columns(ctx, h, l, &b->targets, n, &b->counted, &weights);
}

embed_status embed_sequence_logprobs(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                     const int32_t *targets, const int64_t *offsets, int64_t seqs, float *out, int64_t *counts,
                                     const embed_loss_options *opts) {
  embed__loss l;
  embed__sweep s;
  embed__loss_job b;
  float *losses = NULL;
  EMBED__BEGIN(ctx);
  EMBED__TRY(begin_job(ctx, h, hidden, hidden_dtype, n, ld_hidden, targets, offsets, seqs, opts, &s, &l, &b));
  if (seqs > 0 && !out) return embed__null(ctx, "out");
  if (n > 0) {
    EMBED__TRY(embed__scratch_get(ctx, n, sizeof *losses, &losses));
    EMBED__TRY(embed__end(ctx, embed__loss_values(ctx, &b, &s, losses, NULL)));
  }
  for (int64_t q = 0; q < seqs; ++q) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = offsets[q]; i < offsets[q + 1]; ++i) {
      if (b.targets[i] == l.ignore) continue;
      sum -= (double)losses[i];
      ++count;
    }
    out[q] = (float)sum;
    if (counts) counts[q] = count;
  }
  return EMBED_OK;
}

embed_status embed_sequence_logprobs_backward(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n,
                                              int64_t ld_hidden, const int32_t *targets, const int64_t *offsets, int64_t seqs, const float *d_out,
                                              void *d_hidden, embed_dtype d_hidden_dtype, int64_t ld_d_hidden, embed_grad *g, const embed_loss_options *opts) {
  embed__loss l;
  embed__sweep s;
  embed__loss_job b;
  float *upstream = NULL;
  EMBED__BEGIN(ctx);
  EMBED__TRY(begin_job(ctx, h, hidden, hidden_dtype, n, ld_hidden, targets, offsets, seqs, opts, &s, &l, &b));
  if (seqs > 0 && !d_out) return embed__null(ctx, "d_out");
  if (d_hidden) EMBED__TRY(embed__check_buffer(ctx, "d_hidden", d_hidden, d_hidden_dtype, n, h->table->dim, ld_d_hidden, &b.lddx));
  if (n > 0) EMBED__TRY(embed__scratch_get(ctx, n, sizeof *upstream, &upstream));
  for (int64_t q = 0; q < seqs; ++q)
    for (int64_t i = offsets[q]; i < offsets[q + 1]; ++i) upstream[i] = -d_out[q];
  b.upstream = upstream;
  b.dx = d_hidden;
  b.dx_dtype = d_hidden_dtype;
  b.grad = g;
  return embed__end(ctx, embed__loss_run(ctx, &b));
}
