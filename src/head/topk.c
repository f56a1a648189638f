/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_topk: two or three of a sweep's answers, in the caller's arrays. */
#include <inttypes.h>

#include "core/checked.h"
#include "core/error.h"
#include "head/answers.h"

embed_status embed_topk(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden, int32_t k,
                        int32_t *ids, float *logits, float *logsumexp, int32_t *count, const embed_sweep_options *opts) {
  embed_sweep_options o;
  embed__source from = {.head = h, .n = n};
  int64_t entries, ignored;
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__head_sweep(ctx, h, hidden, hidden_dtype, n, ld_hidden, opts, &o, &from.sweep));
  if (k < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "k is %d", k);
  if (!embed__mul(n, k, &entries) || !embed__mul(entries, (int64_t)sizeof(float), &ignored))
    return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%" PRId64 " rows of %d results do not fit into memory", n, k);
  if (entries > 0 && !ids) return embed__null(ctx, "ids");
  if (entries > 0 && !logits) return embed__null(ctx, "logits");
  from.vocab = h->table->vocab;
  const embed__request r = {.nan = o.nan, .k = k, .topk_ids = ids, .topk_logits = logits, .topk_count = count, .logsumexp = logsumexp, .ranks = true};
  return embed__end(ctx, embed__answer(ctx, &from, &r));
}
