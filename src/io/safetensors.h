/* SPDX-License-Identifier: BSD-3-Clause */
/* A safetensors file's header, proved: what one file and the shards of an index have in common. */
#ifndef EMBED__SAFETENSORS_H
#define EMBED__SAFETENSORS_H

#include "io/file.h"

typedef struct embed__safetensors {
  embed__tensor *tensors;          /* in the header's order; names stand in text */
  int64_t count, room, name_bytes; /* of all the names, without NULs */
  char *text;                      /* the header's copy, in which it was read */
  int64_t text_bytes;
} embed__safetensors;

/* Proves the whole of map. f: takes the metadata, NULL = nobody. out is to be given back after failures too. */
embed_status embed__safetensors_read(embed_context *ctx, const embed__map *map, const char *label, const embed_file_options *o, embed_file *f,
                                     embed__safetensors *out);
void embed__safetensors_free(embed_context *ctx, embed__safetensors *s);

#endif
