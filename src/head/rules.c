/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_rules: made, changed and let go of. What they do to logits stands in answers_edits.c. */
#include "head/rules.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "head/sort_ids.h"

static size_t words_bytes(const embed_rules *r) { return (size_t)embed__ceil_div(r->vocab, 32) * sizeof(uint32_t); }

embed_status embed_rules_create(embed_context *ctx, int64_t vocab, embed_rules **out) {
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, out);
  if (vocab < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "vocab is %" PRId64, vocab);
  if (vocab > INT32_MAX) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "rules over %" PRId64 " ids: logits have 32-bit ids", vocab);
  embed_rules *r = embed__new(&ctx->memory, sizeof *r);
  if (!r) return embed__out_of_memory(ctx, (int64_t)sizeof *r);
  r->memory = ctx->memory;
  r->vocab = vocab;
  r->all_allowed = true;
  *out = r;
  return EMBED_OK;
}

static embed_status check_ids(embed_context *ctx, const embed_rules *r, const int32_t *ids, int64_t n) {
  EMBED__NOT_NULL(ctx, r);
  if (n < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "n is %" PRId64, n);
  if (n > 0 && !ids) return embed__null(ctx, "ids");
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] < 0 || ids[i] >= r->vocab)
      return embed__fail(ctx, EMBED_E_ID, i, "id %d at position %" PRId64 " is outside the vocabulary of %" PRId64 " rows", ids[i], i, r->vocab);
  return EMBED_OK;
}

/* Room for `needed` elements of an array that belongs to the rules; what it holds is kept. */
static embed_status grow(embed_context *ctx, const embed_rules *r, void *array_pointer, int64_t used, int64_t *room, int64_t needed, size_t size) {
  void *old, *grown;
  int64_t larger = embed__max(needed, embed__max(64, *room > INT64_MAX / 2 ? needed : 2 * *room)), bytes;
  if (needed <= *room) return EMBED_OK;
  if (!embed__mul(larger, (int64_t)size, &bytes)) return embed__out_of_memory(ctx, -1);
  grown = embed__allocate(&r->memory, (size_t)bytes, EMBED__ALIGNMENT);
  if (!grown) return embed__out_of_memory(ctx, bytes);
  memcpy(&old, array_pointer, sizeof old);
  if (old) {
    memcpy(grown, old, (size_t)used * size);
    embed__free(&r->memory, old, (size_t)*room * size, EMBED__ALIGNMENT);
  }
  memcpy(array_pointer, &grown, sizeof grown);
  *room = larger;
  return EMBED_OK;
}

/* The list and new rules become one list: bans add up, of biases for one id the last holds. bias NULL: ids are banned. */
static embed_status add(embed_context *ctx, embed_rules *r, const int32_t *ids, const float *bias, int64_t n) {
  uint64_t *keys, *other;
  embed__rule *merged;
  int64_t most, count = 0, old = 0;
  if (!embed__add(r->count, n, &most)) return embed__out_of_memory(ctx, -1);
  EMBED__TRY(embed__scratch_get(ctx, n, sizeof *keys, &keys));
  EMBED__TRY(embed__scratch_get(ctx, n, sizeof *other, &other));
  EMBED__TRY(embed__scratch_get(ctx, most, sizeof *merged, &merged));
  EMBED__TRY(grow(ctx, r, &r->list, r->count, &r->room, embed__min(most, r->vocab), sizeof *r->list));
  for (int64_t i = 0; i < n; ++i) keys[i] = (uint64_t)ids[i] << 32 | (uint64_t)i;
  keys = embed__sort_upper_halves(keys, other, n, r->vocab);
  for (int64_t i = 0; i < n; ++i) {
    const int32_t id = (int32_t)(keys[i] >> 32);
    while (old < r->count && r->list[old].id < id) merged[count++] = r->list[old++];
    if (old < r->count && r->list[old].id == id)
      merged[count++] = r->list[old++];
    else if (count == 0 || merged[count - 1].id != id)
      merged[count++] = (embed__rule){.id = id};
    if (bias)
      merged[count - 1].bias = bias[keys[i] & UINT32_MAX];
    else
      merged[count - 1].banned = true;
  }
  while (old < r->count) merged[count++] = r->list[old++];
  memcpy(r->list, merged, (size_t)count * sizeof *merged);
  r->count = count;
  return EMBED_OK;
}

static embed_status check_count(embed_context *ctx, int64_t n) {
  return n <= UINT32_MAX ? EMBED_OK : embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%" PRId64 " rules in one call", n);
}

embed_status embed_rules_ban(embed_context *ctx, embed_rules *r, const int32_t *ids, int64_t n) {
  EMBED__BEGIN(ctx);
  EMBED__TRY(check_ids(ctx, r, ids, n));
  EMBED__TRY(check_count(ctx, n));
  return n == 0 ? EMBED_OK : embed__end(ctx, add(ctx, r, ids, NULL, n));
}

embed_status embed_rules_bias(embed_context *ctx, embed_rules *r, const int32_t *ids, const float *bias, int64_t n) {
  EMBED__BEGIN(ctx);
  EMBED__TRY(check_ids(ctx, r, ids, n));
  EMBED__TRY(check_count(ctx, n));
  if (n == 0) return EMBED_OK;
  EMBED__NOT_NULL(ctx, bias);
  for (int64_t i = 0; i < n; ++i)
    if (!isfinite(bias[i])) return embed__fail(ctx, EMBED_E_NONFINITE, i, "the bias of id %d at position %" PRId64 " is not finite", ids[i], i);
  return embed__end(ctx, add(ctx, r, ids, bias, n));
}

embed_status embed_rules_allow(embed_context *ctx, embed_rules *r, const uint32_t *bits, int64_t words) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, r);
  if (!bits) {
    r->all_allowed = true;
    return EMBED_OK;
  }
  const int64_t needed = embed__ceil_div(r->vocab, 32);
  if (words != needed)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1, "%" PRId64 " words of allowed ids, a vocabulary of %" PRId64 " has %" PRId64, words, r->vocab, needed);
  if (!r->allowed) r->allowed = embed__allocate(&r->memory, words_bytes(r), EMBED__ALIGNMENT);
  if (!r->allowed) return embed__out_of_memory(ctx, (int64_t)words_bytes(r));
  memcpy(r->allowed, bits, words_bytes(r));
  r->all_allowed = false;
  return EMBED_OK;
}

embed_status embed_rules_push(embed_context *ctx, embed_rules *r, const int32_t *ids, int64_t n) {
  int64_t needed;
  EMBED__BEGIN(ctx);
  EMBED__TRY(check_ids(ctx, r, ids, n));
  if (!embed__add(r->pushed, n, &needed)) return embed__out_of_memory(ctx, -1);
  EMBED__TRY(grow(ctx, r, &r->history, r->pushed, &r->history_room, needed, sizeof *r->history));
  if (n > 0) memcpy(r->history + r->pushed, ids, (size_t)n * sizeof *ids);
  r->pushed = needed;
  return EMBED_OK;
}

embed_status embed_rules_pop(embed_context *ctx, embed_rules *r, int64_t n) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, r);
  if (n < 0 || n > r->pushed) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%" PRId64 " ids to be popped, the history has %" PRId64, n, r->pushed);
  r->pushed -= n;
  return EMBED_OK;
}

void embed_rules_clear(embed_rules *r) {
  if (!r) return;
  r->count = 0;
  r->pushed = 0;
  r->all_allowed = true;
}

void embed_rules_release(embed_rules *r) {
  if (!r) return;
  const embed_allocator memory = r->memory;
  embed__free(&memory, r->list, (size_t)r->room * sizeof *r->list, EMBED__ALIGNMENT);
  embed__free(&memory, r->allowed, words_bytes(r), EMBED__ALIGNMENT);
  embed__free(&memory, r->history, (size_t)r->history_room * sizeof *r->history, EMBED__ALIGNMENT);
  embed__free(&memory, r, sizeof *r, EMBED__ALIGNMENT);
}
