/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of a file, read-only. The only door to open, mmap and read. */
#ifndef EMBED__MAP_H
#define EMBED__MAP_H

#include <stdbool.h>

#include "core/error.h"

typedef struct embed__map {
  const unsigned char *data; /* NULL = not open */
  int64_t bytes;             /* >= 1 */
  bool copied;               /* in memory of the allocator, not mapped */
} embed__map;

/* flags: EMBED_FILE_*. Regular files only; anything else fails at once, a FIFO without a writer too. E_IO: the system's
 * reason after label; E_FORMAT: an empty file. No descriptor stays open, and errno is left as it was. */
embed_status embed__map_open(embed_context *ctx, const char *path, const char *label, uint32_t flags, embed__map *out);
/* Whether the path leads to something, whatever it is and whoever may read it; a link that leads nowhere is nothing. */
bool embed__map_is_there(const char *path);
bool embed__map_is_folder(const char *path); /* or a link to one */
void embed__map_close(const embed_allocator *memory, embed__map *m); /* closed ones are fine */

#endif
