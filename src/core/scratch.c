/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/scratch.h"

#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"

enum { HEADER = EMBED__ALIGNMENT, SMALLEST = 64 << 10 };

struct embed__scratch_chunk {
  struct embed__scratch_chunk *older;
  size_t bytes; /* with this header */
};

void embed__scratch_free(embed__scratch *s, const embed_allocator *memory) {
  while (s->newest) {
    struct embed__scratch_chunk *chunk = s->newest;
    s->newest = chunk->older;
    embed__free(memory, chunk, chunk->bytes, EMBED__ALIGNMENT);
  }
  s->used = s->total = 0;
}

static bool grow(embed__scratch *s, const embed_allocator *memory, size_t bytes) {
  struct embed__scratch_chunk *chunk = embed__allocate(memory, bytes, EMBED__ALIGNMENT);
  if (!chunk) return false;
  chunk->older = s->newest;
  chunk->bytes = bytes;
  s->newest = chunk;
  s->used = HEADER;
  s->total += bytes;
  return true;
}

/* A call that needed several chunks leaves one of their whole size, so that its repetition needs one. */
void embed__scratch_reset(embed__scratch *s, const embed_allocator *memory) {
  if (s->newest && s->newest->older) {
    size_t total = s->total;
    embed__scratch_free(s, memory);
    (void)grow(s, memory, total); /* without memory the next piece tries again */
  }
  s->used = HEADER;
}

/* A chunk that came after the mark holds nothing older. */
void embed__scratch_back_to(embed__scratch *s, embed__scratch_mark mark) { s->used = s->newest == mark.newest ? mark.used : HEADER; }

void embed__scratch_keep(embed__scratch *s, const embed_allocator *memory, int64_t max_bytes) {
  if (max_bytes > 0 && s->total > (size_t)max_bytes) embed__scratch_free(s, memory);
}

void *embed__scratch_take(embed_context *ctx, int64_t count, size_t size) {
  embed__scratch *s = &ctx->scratch;
  int64_t bytes;
  if (!embed__mul(count, (int64_t)size, &bytes) || !embed__add(bytes, 2 * (int64_t)EMBED__ALIGNMENT, &bytes)) return NULL;
  if ((uint64_t)bytes > SIZE_MAX / 2) return NULL;
  size_t piece = ((size_t)bytes - EMBED__ALIGNMENT) & ~((size_t)EMBED__ALIGNMENT - 1);
  if (!s->newest || s->newest->bytes - s->used < piece) {
    size_t chunk = piece + HEADER;
    if (!grow(s, &ctx->memory, chunk < SMALLEST ? SMALLEST : chunk)) return NULL;
  }
  unsigned char *at = (unsigned char *)s->newest + s->used;
  s->used += piece;
  return at;
}

embed_status embed__scratch_get(embed_context *ctx, int64_t count, size_t size, void *out_pointer) {
  void *piece = embed__scratch_take(ctx, count, size);
  if (!piece) {
    int64_t bytes = -1;
    (void)embed__mul(count, (int64_t)size, &bytes);
    return embed__out_of_memory(ctx, bytes);
  }
  memcpy(out_pointer, &piece, sizeof piece);
  return EMBED_OK;
}

embed_status embed__scratch_matrix(embed_context *ctx, int64_t rows, int64_t columns, size_t size, void *out_pointer) {
  int64_t count;
  (void)embed__mul(rows, columns, &count); /* -1 when it does not fit: scratch_get refuses it */
  return embed__scratch_get(ctx, count, size, out_pointer);
}
