/* SPDX-License-Identifier: BSD-3-Clause */
/* What every call runs with. The folder context/ makes and frees it; the others read it through this one definition. */
#ifndef EMBED__CONTEXT_H
#define EMBED__CONTEXT_H

#include <embed/context.h>

#include "core/scratch.h"

struct embed__kernels; /* kernels/kernels.h */

enum { EMBED__ERROR_TEXT = 512 }; /* bytes; a longer message is cut */

struct embed_context {
  embed_allocator memory;
  const struct embed__kernels *kernels; /* of this context's level; lives as long as the context */
  const char *isa;                      /* that level's name, static */
  embed_pool *pool;                     /* retained, or NULL */
  embed_executor executor;              /* run == NULL: none */
  const int32_t *cancel;
  int32_t (*progress)(void *arg, int64_t done, int64_t total);
  void *progress_arg;
  embed__scratch scratch;
  int64_t max_scratch; /* bytes kept between calls, 0 = no bound */
  int64_t pool_pid;    /* the process whose threads the pool has */
  int64_t replaced_ids;
  int64_t error_at;
  uint32_t flags; /* EMBED_CONTEXT_* */
  char error_text[EMBED__ERROR_TEXT];
};

#endif
