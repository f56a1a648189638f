/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_result: one block of memory that holds what the last sweep was asked. */
#include "head/result.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"

enum { FLOATS = EMBED_ASK_LOGITS | EMBED_ASK_LOGSUMEXP | EMBED_ASK_ENTROPY | EMBED_ASK_TOPK_LOGITS | EMBED_ASK_TARGET_LOGPROB | EMBED_ASK_TOKEN_LOGPROB };

embed_status embed_result_create(embed_context *ctx, embed_result **out) {
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, out);
  embed_result *r = embed__new(&ctx->memory, sizeof *r);
  if (!r) return embed__out_of_memory(ctx, (int64_t)sizeof *r);
  r->memory = ctx->memory;
  *out = r;
  return EMBED_OK;
}

void embed_result_release(embed_result *r) {
  if (!r) return;
  const embed_allocator memory = r->memory;
  embed__free(&memory, r->block, r->bytes, EMBED__ALIGNMENT);
  embed__free(&memory, r, sizeof *r, EMBED__ALIGNMENT);
}

static int64_t columns_of(uint32_t ask, int64_t k, int64_t vocab) {
  if (ask == EMBED_ASK_LOGITS) return vocab;
  return ask == EMBED_ASK_TOPK_IDS || ask == EMBED_ASK_TOPK_LOGITS ? k : 1;
}

/* Where each answer begins, in a multiple of 64 bytes. False: they do not fit into memory. */
static bool lay_out(uint32_t ask, int64_t n, int64_t k, int64_t vocab, int64_t at[EMBED__ASKS], int64_t *bytes) {
  *bytes = 0;
  for (int i = 0; i < EMBED__ASKS; ++i) {
    int64_t size;
    at[i] = *bytes;
    if (!(ask & 1u << i)) continue;
    if (!embed__mul(n, columns_of(1u << i, k, vocab), &size) || !embed__mul(size, (int64_t)sizeof(float), &size)) return false;
    if (!embed__add(size, EMBED__ALIGNMENT - 1, &size) || !embed__add(*bytes, size / EMBED__ALIGNMENT * EMBED__ALIGNMENT, bytes)) return false;
  }
  return (uint64_t)*bytes <= SIZE_MAX / 2;
}

embed_status embed__result_begin(embed_context *ctx, embed_result *r, uint32_t ask, int64_t n, int64_t k, int64_t vocab) {
  int64_t at[EMBED__ASKS], bytes;
  if (!lay_out(ask, n, k, vocab, at, &bytes))
    return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "answers for %" PRId64 " rows of %" PRId64 " logits do not fit into memory", n, vocab);
  if (!r->block || (size_t)bytes > r->bytes) {
    const size_t needed = bytes > 0 ? (size_t)bytes : EMBED__ALIGNMENT;
    unsigned char *block = embed__allocate(&r->memory, needed, EMBED__ALIGNMENT);
    if (!block) return embed__out_of_memory(ctx, (int64_t)needed);
    embed__free(&r->memory, r->block, r->bytes, EMBED__ALIGNMENT);
    r->block = block;
    r->bytes = needed;
  }
  memcpy(r->at, at, sizeof at);
  r->ask = 0; /* until they are all there */
  r->n = n;
  r->k = k;
  r->vocab = vocab;
  return EMBED_OK;
}

void *embed__result_room(const embed_result *r, uint32_t asked, uint32_t one) {
  if (!(asked & one)) return NULL;
  return r->block + r->at[__builtin_ctz(one)];
}

static const void *answers(const embed_result *r, uint32_t ask, bool floats, int64_t *rows, int64_t *cols) {
  const bool one = ask != 0 && (ask & (ask - 1)) == 0 && ask < 1u << EMBED__ASKS;
  const bool there = r && one && (r->ask & ask) && floats == ((ask & FLOATS) != 0);
  if (rows) *rows = there ? r->n : 0;
  if (cols) *cols = there ? columns_of(ask, r->k, r->vocab) : 0;
  return there ? embed__result_room(r, r->ask, ask) : NULL;
}

const float *embed_result_f32(const embed_result *r, uint32_t ask, int64_t *rows, int64_t *cols) { return answers(r, ask, true, rows, cols); }
const int32_t *embed_result_i32(const embed_result *r, uint32_t ask, int64_t *rows, int64_t *cols) { return answers(r, ask, false, rows, cols); }
