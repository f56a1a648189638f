/* SPDX-License-Identifier: BSD-3-Clause */
/* The key-value pairs that a file says of itself. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
#include "io/file.h"

static embed_status make_room(embed_context *ctx, embed_file *f) {
  enum { FIRST = 32 };
  if (f->metadata_count < f->metadata_room) return EMBED_OK;
  int64_t room = f->metadata_room ? 2 * f->metadata_room : FIRST;
  size_t bytes = (size_t)room * sizeof *f->metadata;
  embed__metadata *entries = embed__allocate(&f->memory, bytes, EMBED__ALIGNMENT);
  if (!entries) return embed__out_of_memory(ctx, (int64_t)bytes);
  if (f->metadata_count) memcpy(entries, f->metadata, (size_t)f->metadata_count * sizeof *entries);
  embed__free(&f->memory, f->metadata, (size_t)f->metadata_room * sizeof *entries, EMBED__ALIGNMENT);
  f->metadata = entries;
  f->metadata_room = room;
  return EMBED_OK;
}

embed_status embed__file_add_metadata(embed_context *ctx, embed_file *f, const void *key, int64_t key_bytes, const void *value, int64_t value_bytes,
                                      double number) {
  embed__metadata entry = {.value_bytes = value_bytes, .number = number};
  EMBED__TRY(make_room(ctx, f));
  EMBED__TRY(embed__file_keep(ctx, f, key, key_bytes, &entry.key));
  EMBED__TRY(embed__file_keep(ctx, f, value, value_bytes, &entry.value));
  f->metadata[f->metadata_count++] = entry;
  return EMBED_OK;
}

const embed__metadata *embed__file_metadata_find(const embed_file *f, const char *key) {
  for (int64_t i = 0; i < f->metadata_count; ++i)
    if (!strcmp(f->metadata[i].key, key)) return &f->metadata[i];
  return NULL;
}

embed_status embed_file_metadata(embed_context *ctx, const embed_file *f, int64_t i, const char **key, const char **value, int64_t *value_bytes) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  EMBED__NOT_NULL(ctx, key);
  EMBED__NOT_NULL(ctx, value);
  EMBED__NOT_NULL(ctx, value_bytes);
  if (i < 0 || i >= f->metadata_count)
    return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: there is no metadata %" PRId64 ", there are %" PRId64, f->label, i, f->metadata_count);
  *key = f->metadata[i].key;
  *value = f->metadata[i].value;
  *value_bytes = f->metadata[i].value_bytes;
  return EMBED_OK;
}
