/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/folder.h"

#include <string.h>

#include "core/memory.h"
#include "io/format.h"
#include "io/map.h"

enum { NAME = 32 }; /* of the longest, with a slash and its end */

/* As transformers looks for them. */
static const char *const names[] = {"/model.safetensors", "/model.safetensors.index.json", "/pytorch_model.bin", "/pytorch_model.bin.index.json"};

embed_status embed__folder_model(embed_context *ctx, const char *path, char **out, size_t *bytes) {
  const size_t length = strlen(path);
  *out = NULL;
  *bytes = length + NAME;
  if (!embed__map_is_folder(path)) return EMBED_OK;
  char *whole = embed__allocate(&ctx->memory, *bytes, EMBED__ALIGNMENT);
  if (!whole) return embed__out_of_memory(ctx, (int64_t)*bytes);
  memcpy(whole, path, length);
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    memcpy(whole + length, names[i], strlen(names[i]) + 1);
    if (!embed__map_is_there(whole)) continue;
    *out = whole;
    return EMBED_OK;
  }
  embed__free(&ctx->memory, whole, *bytes, EMBED__ALIGNMENT);
  char label[EMBED__LABEL + 4];
  embed__file_label(label, path);
  return embed__fail(
      ctx, EMBED_E_IO, -1,
      "%s: a directory is no regular file, and no model.safetensors, pytorch_model.bin or index of either is in it: it cannot be opened as a model", label);
}
