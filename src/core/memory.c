/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

static void *libc_allocate(void *arg, size_t bytes, size_t alignment) {
  (void)arg;
  size_t rounded = (bytes + alignment - 1) & ~(alignment - 1); /* aligned_alloc wants a multiple */
  return rounded < bytes ? NULL : aligned_alloc(alignment, rounded);
}

static void libc_release(void *arg, void *memory, size_t bytes, size_t alignment) {
  (void)arg;
  (void)bytes;
  (void)alignment;
  free(memory);
}

const embed_allocator embed__default_allocator = {sizeof(embed_allocator), 0, NULL, libc_allocate, libc_release};

void *embed__allocate(const embed_allocator *memory, size_t bytes, size_t alignment) { return memory->allocate(memory->arg, bytes ? bytes : 1, alignment); }

void embed__free(const embed_allocator *memory, void *block, size_t bytes, size_t alignment) {
  if (block) memory->release(memory->arg, block, bytes ? bytes : 1, alignment);
}

void *embed__new(const embed_allocator *memory, size_t bytes) {
  void *object = embed__allocate(memory, bytes, EMBED__ALIGNMENT);
  if (object) memset(object, 0, bytes);
  return object;
}
