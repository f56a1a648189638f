/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of a file: which tensor is the token table, the head, the bias; what its family does. */
#ifndef EMBED__ROLES_H
#define EMBED__ROLES_H

#include "io/file.h"

/* Fills f->roles, own_head, the tensors' vocab and lines of the notes, once, when the file has been read and nobody else has it yet. */
embed_status embed__roles_resolve(embed_context *ctx, embed_file *f);
/* The part of it that decides on HEAD, with TOKEN (-1 = none yet) and the tensor named as a head (-1 = none) given. */
embed_status embed__tie(embed_context *ctx, embed_file *f, int64_t head);
/* What the file's family does to rows and logits; size is set. */
embed_conventions embed__file_conventions(const embed_file *f);
/* Those that its metadata has under this library's keys; false = it has none. */
bool embed__own_conventions(const embed_file *f, embed_conventions *out);

#endif
