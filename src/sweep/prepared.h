/* SPDX-License-Identifier: BSD-3-Clause */
/* A table's rows once more, as panels (kernels/panel.h): what a prepared head sweeps. One block of memory that holds no
 * address, so that it can be kept in a file and mapped. */
#ifndef EMBED__PREPARED_H
#define EMBED__PREPARED_H

#include "sweep/sweep.h"

/* The block begins with this; panels follow, the last filled up with rows of zeros. Little-endian. */
typedef struct embed__panels_header {
  uint32_t version, form; /* EMBED__PANELS_VERSION, embed__panel_form */
  int64_t vocab, dim, panel_bytes;
  embed_dtype dtype;
  int32_t group;
  unsigned char zeros[24];
} embed__panels_header;

enum { EMBED__PANELS_VERSION = 1 };

typedef struct embed__prepared {
  unsigned char *block;
  size_t bytes, alignment; /* of block; alignment 0: it is a file's, see embed__prepared_view */
  int64_t panel_bytes;
  embed__panel_form form;
  uint64_t changes; /* of the table, when the panels were made */
} embed__prepared;

static inline const unsigned char *embed__panels(const embed__prepared *p) { return p->block + sizeof(embed__panels_header); }

/* Whether a table of this dtype has panels at the context's level. */
bool embed__preparable(const embed_context *ctx, const embed_table *t);
/* *out is untouched on errors: E_MEMORY, E_OVERFLOW, E_CANCELLED, E_CALLBACK. */
embed_status embed__prepare(embed_context *ctx, const embed_table *t, const embed_allocator *memory, embed__prepared *out);
/* Makes the panels again, in the same memory where that is ours. On errors they are unspecified, and stale. */
embed_status embed__prepare_again(embed_context *ctx, const embed_table *t, const embed_allocator *memory, embed__prepared *p);
/* The form that lies at data, say in a mapped file, which must outlive it; never written. False: it is none of this table, or not of
 * this version, machine and alignment. */
bool embed__prepared_view(const embed_context *ctx, const embed_table *t, const unsigned char *data, int64_t bytes, embed__prepared *out);
void embed__prepared_free(const embed_allocator *memory, embed__prepared *p); /* one that was never made is fine */
/* False when the table has changed since. */
bool embed__is_fresh(const embed__prepared *p, const embed_table *t);

#endif
