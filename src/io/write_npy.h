/* SPDX-License-Identifier: BSD-3-Clause */
/* The head of a NumPy array, be it a file or a member of an archive. */
#ifndef EMBED__WRITE_NPY_H
#define EMBED__WRITE_NPY_H

#include "io/writer.h"

enum { EMBED__NPY_WRITTEN = 192 }; /* bytes of a head at most */

/* Of t's rows, [n] where it is a tensor of one extent and `vector` says that those are kept. Returns its bytes, a multiple of 64. */
int64_t embed__npy_head(const embed__written_table *t, bool vector, unsigned char head[EMBED__NPY_WRITTEN]);
/* E_UNSUPPORTED: NumPy has no such type. */
embed_status embed__npy_check(embed_context *ctx, const embed_writer *w, embed__written_table *t);

#endif
