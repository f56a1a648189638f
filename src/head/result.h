/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__RESULT_H
#define EMBED__RESULT_H

#include <embed/head.h>

#include "core/context.h"

enum { EMBED__ASKS = 10 /* EMBED_ASK_* are bits 0 .. 9 */ };

struct embed_result {
  embed_allocator memory;
  unsigned char *block; /* never shrinks */
  size_t bytes;
  int64_t at[EMBED__ASKS]; /* where each answer begins in it */
  uint32_t ask;            /* what it holds, 0 after a sweep that failed on its way */
  int64_t n, k, vocab;
};

/* Room for these answers. E_MEMORY, E_OVERFLOW: it still holds what it held. */
embed_status embed__result_begin(embed_context *ctx, embed_result *r, uint32_t ask, int64_t n, int64_t k, int64_t vocab);
/* Where one of them goes, NULL = not asked. */
void *embed__result_room(const embed_result *r, uint32_t asked, uint32_t one);

#endif
