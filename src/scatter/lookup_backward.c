/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_grad_add and embed_lookup_backward: rows of a gradient from the gradients of looked up rows. */
#include <inttypes.h>

#include "core/error.h"
#include "core/options.h"
#include "scatter/grad.h"
#include "table/table.h"

/* Proves the upstream rows [n, g's dim]. */
static embed_status take_upstream(embed_context *ctx, const embed_grad *g, const void *d_out, embed_dtype dtype, int64_t n, int64_t ld, embed__upstream *up) {
  int64_t stride;
  EMBED__TRY(embed__check_buffer(ctx, "d_out", d_out, dtype, n, g->dim, ld, &stride));
  up->at = d_out;
  up->row_bytes = n ? stride * embed__float_bytes(dtype) : 0; /* nothing bounds it then */
  up->dtype = dtype;
  up->dim = g->dim;
  return EMBED_OK;
}

static embed_status add(embed_context *ctx, embed_grad *g, const embed__ids *ids, const embed__id_policy *policy, const embed__upstream *up) {
  int64_t replaced;
  EMBED__TRY(embed__check_ids(ctx, ids, policy, &replaced));
  return ids->n ? embed__scatter(ctx, g, ids, policy, up) : EMBED_OK;
}

embed_status embed_grad_add(embed_context *ctx, embed_grad *g, const int32_t *ids, int64_t n, const float *d_out, int64_t ld_d_out) {
  embed__upstream up = {.scale = 1.0f};
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, g);
  const embed__ids list = {.at = ids, .n = n, .wide = false};
  const embed__id_policy policy = {.vocab = g->dense ? g->rows : (int64_t)INT32_MAX + 1, .oov = EMBED_OOV_ERROR};
  EMBED__TRY(take_upstream(ctx, g, d_out, EMBED_F32, n, ld_d_out, &up));
  return embed__end(ctx, add(ctx, g, &list, &policy, &up));
}

embed_status embed__backward_options(embed_context *ctx, const embed_lookup_options *opts, int64_t vocab, embed_lookup_options *o, float *scale,
                                     embed__id_policy *policy) {
  EMBED__TRY(embed__options(ctx, "embed_lookup_options", opts, EMBED_LOOKUP_ADD | EMBED_LOOKUP_PADDING | EMBED_BACKWARD_BY_FREQUENCY, o, sizeof *o));
  if (vocab < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "vocab is %" PRId64, vocab);
  EMBED__TRY(embed__check_scale(ctx, o, scale));
  return embed__check_policy(ctx, vocab, o->flags & EMBED_LOOKUP_PADDING, o->oov, o->unk_id, o->padding_id, policy);
}

embed_status embed_lookup_backward(embed_context *ctx, embed_grad *g, int64_t vocab, const int64_t *ids, int64_t n, const void *d_out, embed_dtype d_out_dtype,
                                   int64_t ld_d_out, const embed_lookup_options *opts) {
  embed_lookup_options o;
  embed__id_policy policy;
  embed__upstream up = {0};
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, g);
  EMBED__TRY(embed__backward_options(ctx, opts, vocab, &o, &up.scale, &policy));
  EMBED__TRY(take_upstream(ctx, g, d_out, d_out_dtype, n, ld_d_out, &up));
  up.by_frequency = o.flags & EMBED_BACKWARD_BY_FREQUENCY;
  const embed__ids list = {.at = ids, .n = n, .wide = true};
  return embed__end(ctx, add(ctx, g, &list, &policy, &up));
}
