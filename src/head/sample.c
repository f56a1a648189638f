/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_sample: one or two of a sweep's answers, in the caller's arrays once all are there. */
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "head/answers.h"

embed_status embed_sample(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                          const embed_rules *const *rules, const embed_sample_params *params, int64_t params_count, int32_t *ids, float *logprobs,
                          const embed_sweep_options *opts) {
  embed_sweep_options o;
  embed__source from = {.head = h, .n = n};
  embed__request r = {.rules = rules};
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__head_sweep(ctx, h, hidden, hidden_dtype, n, ld_hidden, opts, &o, &from.sweep));
  if (n > 0) EMBED__NOT_NULL(ctx, ids);
  from.vocab = h->table->vocab;
  r.nan = o.nan;
  r.processed = o.flags & EMBED_SWEEP_PROCESSED;
  EMBED__TRY(embed__check_rules(ctx, rules, n, embed__head_ids(h)));
  EMBED__TRY(embed__samplers(ctx, params, params_count, n, from.vocab, &r.samplers, &r.sampler_stride));
  EMBED__TRY(embed__scratch_get(ctx, n, sizeof *r.token, &r.token)); /* a second sweep may find no memory */
  if (logprobs) EMBED__TRY(embed__scratch_get(ctx, n, sizeof *r.token_logprob, &r.token_logprob));
  EMBED__TRY(embed__answer(ctx, &from, &r));
  if (n > 0) memcpy(ids, r.token, (size_t)n * sizeof *ids);
  if (n > 0 && logprobs) memcpy(logprobs, r.token_logprob, (size_t)n * sizeof *logprobs);
  return embed__end(ctx, EMBED_OK);
}
