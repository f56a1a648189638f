/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows that stay as they are. A deferred kind brings all rows up to date first: what a row missed before it was frozen is still
 * owed, what it misses while it is frozen is not. */
#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "optim/touch.h"

static void set_bit(unsigned char *bits, int64_t i, bool on) {
  const unsigned char bit = (unsigned char)(1u << (i & 7));
  bits[i >> 3] = (unsigned char)(on ? bits[i >> 3] | bit : bits[i >> 3] & ~bit);
}

static embed_status freeze(embed_context *ctx, embed_optimizer *o, embed_table *t, int64_t first, int64_t n, const uint8_t *bitmap, bool frozen) {
  unsigned char *bits = o->frozen;
  const size_t bytes = (size_t)embed__bitmap_bytes(o->rows);
  if (n == 0 || (!bits && !frozen)) return EMBED_OK;
  if (!bits) {
    bits = embed__allocate(&o->memory, bytes, EMBED__ALIGNMENT);
    if (!bits) return embed__out_of_memory(ctx, (int64_t)bytes);
    memset(bits, 0, bytes);
  }
  const embed_status status = embed__touch_all(ctx, o, t);
  if (status != EMBED_OK) {
    if (!o->frozen) embed__free(&o->memory, bits, bytes, EMBED__ALIGNMENT);
    return status;
  }
  for (int64_t i = 0; i < n; ++i)
    if (!bitmap || (bitmap[i >> 3] >> (i & 7) & 1)) set_bit(bits, first + i, frozen);
  o->frozen = bits;
  return EMBED_OK;
}

embed_status embed_optimizer_freeze(embed_context *ctx, embed_optimizer *o, embed_table *t, int64_t first, int64_t n, const uint8_t *bitmap, int32_t frozen) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, o);
  EMBED__NOT_NULL(ctx, t);
  EMBED__TRY(embed__optimizer_fits(ctx, o, t));
  if (first < 0 || n < 0 || first > o->rows || n > o->rows - first)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "rows [%" PRId64 ", %" PRId64 " + %" PRId64 ") are not in the vocabulary of %" PRId64, first, first, n,
                       o->rows);
  return embed__end(ctx, freeze(ctx, o, t, first, n, bitmap, frozen != 0));
}
