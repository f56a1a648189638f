/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_sweep and embed_sweep_logits: what they check, and answers.c into an embed_result. */
#include <inttypes.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "head/answers.h"
#include "head/result.h"

enum {
  ALL_ASKS = (1 << EMBED__ASKS) - 1,
  TOPK = EMBED_ASK_TOPK_IDS | EMBED_ASK_TOPK_LOGITS | EMBED_ASK_TOPK_COUNT,
  TARGET = EMBED_ASK_TARGET_LOGPROB | EMBED_ASK_TARGET_RANK
};

embed_status embed__check_rules(embed_context *ctx, const embed_rules *const *rules, int64_t n, int64_t vocab) {
  for (int64_t i = 0; rules && i < n; ++i)
    if (rules[i] && rules[i]->vocab != vocab)
      return embed__fail(ctx, EMBED_E_MISMATCH, i, "the rules of row %" PRId64 " are for %" PRId64 " ids, the logits have %" PRId64, i, rules[i]->vocab, vocab);
  return EMBED_OK;
}

embed_status embed__check_targets(embed_context *ctx, const embed_head *head, const int32_t *targets, int64_t n, int64_t vocab) {
  const embed__id_map *map = embed__head_map(head);
  for (int64_t i = 0; i < n; ++i) {
    if (targets[i] < 0 || targets[i] >= vocab)
      return embed__fail(ctx, EMBED_E_ID, i, "target %d at position %" PRId64 " is outside the vocabulary of %" PRId64 " rows", targets[i], i, vocab);
    if (map && embed__column_of(map, targets[i]) < 0)
      return embed__fail(ctx, EMBED_E_ID, i, "target %d at position %" PRId64 " is not among the %" PRId64 " ids of this subset", targets[i], i, map->count);
  }
  return EMBED_OK;
}

embed_status embed__check_rows(embed_context *ctx, const int64_t *rows, int64_t n, int64_t ld, int64_t element_bytes) {
  for (int64_t i = 0; rows && i < n; ++i) {
    int64_t end;
    if (rows[i] < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, i, "row %" PRId64 " at position %" PRId64 " is negative", rows[i], i);
    if (!embed__add(rows[i], 1, &end) || !embed__mul(end, ld, &end) || !embed__mul(end, element_bytes, &end))
      return embed__fail(ctx, EMBED_E_OVERFLOW, i, "row %" PRId64 " at position %" PRId64 " lies outside any memory", rows[i], i);
  }
  return EMBED_OK;
}

/* What both calls take beside the logits. */
typedef struct asked {
  const int32_t *targets;
  const embed_rules *const *rules;
  const embed_sample_params *params;
  int64_t params_count;
  embed_result *result;
} asked;

static embed_status check_options(embed_context *ctx, const embed_sweep_options *o, const asked *a, int64_t n) {
  if (!a->result) return embed__null(ctx, "result");
  if (o->ask & ~(uint32_t)ALL_ASKS) return embed__fail(ctx, EMBED_E_OPTION, -1, "ask has unknown bits 0x%x", o->ask & ~(uint32_t)ALL_ASKS);
  if (o->k < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "k is %d", o->k);
  if (o->ask & TARGET && n > 0 && !a->targets) return embed__null(ctx, "targets");
  return EMBED_OK;
}

/* ids: what targets and rules are numbered by. */
static embed_status answer(embed_context *ctx, embed__source *from, const embed_sweep_options *o, const asked *a, int64_t ids) {
  embed_result *result = a->result;
  const uint32_t ask = o->ask;
  embed__request r = {.nan = o->nan, .processed = o->flags & EMBED_SWEEP_PROCESSED, .k = o->k, .ranks = ask & TOPK, .rules = a->rules};
  EMBED__TRY(embed__check_rules(ctx, a->rules, from->n, ids));
  if (ask & TARGET) EMBED__TRY(embed__check_targets(ctx, from->head, a->targets, from->n, ids));
  EMBED__TRY(embed__samplers(ctx, a->params, a->params_count, from->n, from->vocab, &r.samplers, &r.sampler_stride));
  EMBED__TRY(embed__result_begin(ctx, result, ask, from->n, o->k, from->vocab));
  r.targets = a->targets;
  r.ld_out = from->vocab;
  r.logits = embed__result_room(result, ask, EMBED_ASK_LOGITS);
  r.logsumexp = embed__result_room(result, ask, EMBED_ASK_LOGSUMEXP);
  r.entropy = embed__result_room(result, ask, EMBED_ASK_ENTROPY);
  r.topk_ids = embed__result_room(result, ask, EMBED_ASK_TOPK_IDS);
  r.topk_logits = embed__result_room(result, ask, EMBED_ASK_TOPK_LOGITS);
  r.topk_count = embed__result_room(result, ask, EMBED_ASK_TOPK_COUNT);
  r.target_logprob = embed__result_room(result, ask, EMBED_ASK_TARGET_LOGPROB);
  r.target_rank = embed__result_room(result, ask, EMBED_ASK_TARGET_RANK);
  r.token = embed__result_room(result, ask, EMBED_ASK_TOKEN);
  r.token_logprob = embed__result_room(result, ask, EMBED_ASK_TOKEN_LOGPROB);
  EMBED__TRY(embed__answer(ctx, from, &r));
  result->ask = ask;
  return EMBED_OK;
}

embed_status embed_sweep(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t ld_hidden, const int64_t *rows,
                         int64_t n, const int32_t *targets, const embed_rules *const *rules, const embed_sample_params *params, int64_t params_count,
                         const embed_sweep_options *opts, embed_result *result) {
  const asked a = {targets, rules, params, params_count, result};
  embed_sweep_options o;
  embed__source from = {.head = h, .rows = rows, .n = n};
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__head_sweep(ctx, h, hidden, hidden_dtype, n, ld_hidden, opts, &o, &from.sweep));
  EMBED__TRY(embed__check_rows(ctx, rows, n, from.sweep.ldx, embed__float_bytes(hidden_dtype)));
  EMBED__TRY(check_options(ctx, &o, &a, n));
  from.vocab = h->table->vocab;
  return embed__end(ctx, answer(ctx, &from, &o, &a, embed__head_ids(h)));
}

embed_status embed_sweep_logits(embed_context *ctx, const float *logits, int64_t vocab, int64_t ld_logits, const int64_t *rows, int64_t n,
                                const int32_t *targets, const embed_rules *const *rules, const embed_sample_params *params, int64_t params_count,
                                const embed_sweep_options *opts, embed_result *result) {
  const asked a = {targets, rules, params, params_count, result};
  embed_sweep_options o;
  embed__source from = {.logits = logits, .vocab = vocab, .rows = rows, .n = n};
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__options(ctx, "embed_sweep_options", opts, EMBED_SWEEP_PROCESSED, &o, sizeof o));
  if (o.nan < EMBED_NAN_MAX || o.nan > EMBED_NAN_IGNORE) return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_nan_policy", o.nan);
  if (o.activation != EMBED_F32)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "activation is dtype %d: logits that are there already are not rounded", o.activation);
  if (vocab > INT32_MAX) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "rows of %" PRId64 " logits: they have 32-bit ids", vocab);
  if (vocab < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "vocab is %" PRId64, vocab);
  EMBED__TRY(embed__check_buffer(ctx, "logits", logits, EMBED_F32, vocab ? n : 0, vocab, ld_logits, &from.ld_logits));
  if (n < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "n is %" PRId64, n);
  EMBED__TRY(embed__check_rows(ctx, rows, n, from.ld_logits, (int64_t)sizeof(float)));
  EMBED__TRY(check_options(ctx, &o, &a, n));
  return embed__end(ctx, answer(ctx, &from, &o, &a, vocab));
}
