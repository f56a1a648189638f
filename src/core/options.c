/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/options.h"

#include <string.h>

enum { HEAD = 8 }; /* uint32_t size, flags */

embed_status embed__options(embed_context *ctx, const char *name, const void *given, uint32_t flags, void *copy, size_t bytes) {
  memset(copy, 0, bytes);
  if (!given) return EMBED_OK;
  uint32_t head[2];
  memcpy(head, given, HEAD);
  if (head[0] < HEAD) return embed__fail(ctx, EMBED_E_OPTION, -1, "%s.size is %u, at least %d is needed: set it to sizeof", name, head[0], HEAD);
  memcpy(copy, given, head[0] < bytes ? head[0] : bytes); /* before the rest is judged: context_create explains through `why` */
  for (size_t i = bytes; i < head[0]; ++i)
    if (((const unsigned char *)given)[i])
      return embed__fail(ctx, EMBED_E_OPTION, (int64_t)i, "%s has %u bytes, this version knows %zu, and byte %zu is not zero", name, head[0], bytes, i);
  if (head[1] & ~flags) return embed__fail(ctx, EMBED_E_OPTION, -1, "%s.flags has unknown bits 0x%x", name, head[1] & ~flags);
  return EMBED_OK;
}

embed_status embed__output(embed_context *ctx, const char *name, void *given, const void *ours, size_t bytes) {
  if (!given) return embed__null(ctx, name);
  uint32_t size;
  memcpy(&size, given, sizeof size);
  if (size < HEAD) return embed__fail(ctx, EMBED_E_OPTION, -1, "%s.size is %u, at least %d is needed: set it to sizeof", name, size, HEAD);
  size_t known = size < bytes ? size : bytes;
  memcpy((unsigned char *)given + sizeof size, (const unsigned char *)ours + sizeof size, known - sizeof size);
  if (size > known) memset((unsigned char *)given + known, 0, size - known);
  return EMBED_OK;
}
