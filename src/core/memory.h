/* SPDX-License-Identifier: BSD-3-Clause */
/* The allocator shim: the only place that calls malloc's family. Handles keep a copy of the allocator they were made with. */
#ifndef EMBED__MEMORY_H
#define EMBED__MEMORY_H

#include <embed/context.h>

enum { EMBED__ALIGNMENT = 64 }; /* of every table, tile and scratch buffer, bytes */

extern const embed_allocator embed__default_allocator; /* libc's */

/* bytes >= 0, alignment a power of two >= sizeof(void *); NULL when there is none. bytes = 0 gives one byte. */
void *embed__allocate(const embed_allocator *memory, size_t bytes, size_t alignment);
void embed__free(const embed_allocator *memory, void *block, size_t bytes, size_t alignment); /* NULL is fine */
/* A zeroed object; freed with embed__free(memory, object, bytes, EMBED__ALIGNMENT). */
void *embed__new(const embed_allocator *memory, size_t bytes);

#endif
