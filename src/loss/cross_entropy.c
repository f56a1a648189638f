/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls of cross-entropy. */
#include "core/checked.h"
#include "core/error.h"
#include "loss/loss.h"

/* What the calls have in common. */
static embed_status begin_job(embed_context *ctx, const embed_head *h, embed_dtype hidden_dtype, const int32_t *targets, const embed__sweep *s, embed__loss *l,
                              embed__loss_job *b, double *weights) {
  *b = (embed__loss_job){.head = h, .loss = l, .x = s->x, .x_dtype = hidden_dtype, .n = s->n, .ldx = s->ldx, .targets = targets};
  return embed__loss_columns(ctx, h, l, &b->targets, s->n, &b->counted, weights);
}

embed_status embed__loss_values(embed_context *ctx, embed__loss_job *b, embed__sweep *s, float *loss, float *logsumexp) {
  if (!b->loss->bf16 && (s->force_blas || !embed__is_float(b->head->table->dtype)))
    return embed__loss_forward(ctx, b->head, b->loss, s, b->targets, loss, logsumexp);
  b->losses = loss;
  b->found = logsumexp;
  return embed__loss_run(ctx, b);
}

embed_status embed_cross_entropy(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                 const int32_t *targets, float *loss, float *logsumexp, const embed_loss_options *opts) {
  embed__loss l;
  embed__sweep s;
  embed__loss_job b;
  double weights;
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__loss_begin(ctx, h, hidden, hidden_dtype, n, ld_hidden, opts, &l, &s));
  EMBED__TRY(begin_job(ctx, h, hidden_dtype, targets, &s, &l, &b, &weights));
  if (n == 0 || (!loss && !logsumexp)) return EMBED_OK;
  return embed__end(ctx, embed__loss_values(ctx, &b, &s, loss, logsumexp));
}

embed_status embed_cross_entropy_backward(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                          const int32_t *targets, const float *logsumexp, const float *d_loss, float *d_hidden, int64_t ld_d_hidden,
                                          float *d_weight, int64_t ld_d_weight, const embed_loss_options *opts) {
  embed__loss l;
  embed__sweep s;
  embed__loss_job b;
  double weights;
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__loss_begin(ctx, h, hidden, hidden_dtype, n, ld_hidden, opts, &l, &s));
  EMBED__TRY(begin_job(ctx, h, hidden_dtype, targets, &s, &l, &b, &weights));
  if (n > 0 && !logsumexp) return embed__null(ctx, "logsumexp");
  if (n > 0 && !d_loss) return embed__null(ctx, "d_loss");
  if (d_hidden) EMBED__TRY(embed__check_buffer(ctx, "d_hidden", d_hidden, EMBED_F32, n, h->table->dim, ld_d_hidden, &b.lddx));
  if (d_weight) EMBED__TRY(embed__check_buffer(ctx, "d_weight", d_weight, EMBED_F32, l.vocab, h->table->dim, ld_d_weight, &b.lddw));
  b.logsumexp = logsumexp;
  b.upstream = d_loss;
  b.dx = (unsigned char *)d_hidden;
  b.dw = d_weight;
  return n > 0 && (d_hidden || d_weight) ? embed__end(ctx, embed__loss_run(ctx, &b)) : EMBED_OK;
}

embed_status embed_cross_entropy_train(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                       const int32_t *targets, const float *d_loss, float *loss, int64_t *count, void *d_hidden, embed_dtype d_hidden_dtype,
                                       int64_t ld_d_hidden, embed_grad *g, const embed_loss_options *opts) {
  embed__loss l;
  embed__sweep s;
  embed__loss_job b;
  double weights;
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__loss_begin(ctx, h, hidden, hidden_dtype, n, ld_hidden, opts, &l, &s));
  EMBED__TRY(begin_job(ctx, h, hidden_dtype, targets, &s, &l, &b, &weights));
  if (d_hidden) EMBED__TRY(embed__check_buffer(ctx, "d_hidden", d_hidden, d_hidden_dtype, n, h->table->dim, ld_d_hidden, &b.lddx));
  b.upstream = d_loss;
  b.each = l.reduction != EMBED_REDUCE_MEAN ? 1 : weights != 0 ? 1 / weights : 0;
  b.losses = loss;
  b.dx = d_hidden;
  b.dx_dtype = d_hidden_dtype;
  b.grad = g;
  EMBED__TRY(embed__end(ctx, embed__loss_run(ctx, &b)));
  if (count) *count = b.counted;
  return EMBED_OK;
}
