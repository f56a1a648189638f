/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of a file: which tensor is the token table, the head, the bias; what its family does. */
#ifndef EMBED__ROLES_H
#define EMBED__ROLES_H

#include "io/file.h"

/* Fills f->roles, once, when the file has been read and nobody else has it yet. */
void embed__roles_resolve(embed_file *f);
/* What the file's family does to rows and logits; size is set. */
embed_conventions embed__file_conventions(const embed_file *f);

#endif
