/* SPDX-License-Identifier: BSD-3-Clause */
/* A context's working memory: taken piece by piece during one call, all given back at the start of the next, kept
 * between calls so that a call of the same size allocates nothing. */
#ifndef EMBED__SCRATCH_H
#define EMBED__SCRATCH_H

#include <embed/context.h>

typedef struct embed__scratch {
  struct embed__scratch_chunk *newest; /* pieces come from here */
  size_t used;                         /* bytes taken of it */
  size_t total;                        /* bytes of all chunks */
} embed__scratch;

/* count elements of size bytes, aligned to 64; NULL = no memory. Valid until the context's next call. */
void *embed__scratch_take(embed_context *ctx, int64_t count, size_t size);
/* Records E_MEMORY or E_OVERFLOW when there is none. */
embed_status embed__scratch_get(embed_context *ctx, int64_t count, size_t size, void *out_pointer);
/* rows * columns elements: the product is checked here. */
embed_status embed__scratch_matrix(embed_context *ctx, int64_t rows, int64_t columns, size_t size, void *out_pointer);

/* Pieces taken after a mark are given back at its release; what they lay in is kept for the next. */
typedef struct embed__scratch_mark {
  struct embed__scratch_chunk *newest;
  size_t used;
} embed__scratch_mark;
static inline embed__scratch_mark embed__scratch_now(const embed__scratch *s) { return (embed__scratch_mark){s->newest, s->used}; }
void embed__scratch_back_to(embed__scratch *s, embed__scratch_mark mark);

void embed__scratch_reset(embed__scratch *s, const embed_allocator *memory);
void embed__scratch_keep(embed__scratch *s, const embed_allocator *memory, int64_t max_bytes); /* 0 = no bound */
void embed__scratch_free(embed__scratch *s, const embed_allocator *memory);

#endif
