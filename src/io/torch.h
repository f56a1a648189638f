/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two containers of PyTorch's checkpoints have in common: a pickle that names tensors, and where its storages lie. */
#ifndef EMBED__TORCH_H
#define EMBED__TORCH_H

#include "io/pickle.h"
#include "io/zip.h"

enum { EMBED__TORCH_KEY = 64 /* bytes of a storage's name */ };

typedef struct embed__torch_storage {
  int64_t at, bytes;           /* in the file */
  const unsigned char *memory; /* where it was inflated to, kept by the file; NULL = it is read where it lies */
} embed__torch_storage;

typedef struct embed__torch embed__torch;
struct embed__torch {
  embed_context *ctx;
  embed_file *f;
  const embed_file_options *o;
  embed__pickle pickle;
  bool big_endian;
  /* Where the storage is that the pickle calls so; found: false = nowhere. */
  embed_status (*find)(embed__torch *t, const char *key, int64_t key_bytes, embed__torch_storage *out, bool *found);
  embed__zip zip;                 /* since 1.6 */
  char *member;                   /* PREFIX and what follows it: a name being asked for */
  int64_t prefix;                 /* bytes of PREFIX, the slash included */
  unsigned char **inflated;       /* [zip.count], NULL = none was deflated so far */
  embed__tokens *keys;            /* before */
  embed__torch_storage *storages; /* of each key */
};

/* Reads the pickle of a file without an archive, and finds its storages. */
embed_status embed__torch_old_read(embed__torch *t);
bool embed__torch_is_old(const unsigned char *data, int64_t bytes);

#endif
