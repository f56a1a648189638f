/* SPDX-License-Identifier: BSD-3-Clause */
/* Product-quantised rows: a row is cut into parts, a code of one byte for each says which of the part's centroids stands there, and where
 * there are norms all of it is multiplied by the row's. A table of EMBED_PQ has its codes in place and a codebook of its own. */
#ifndef EMBED__PQ_H
#define EMBED__PQ_H

#include "table/table.h"

/* What a codebook is made of. Floats stand at any address; those of a file are little-endian, others in this machine's order. */
typedef struct embed__pq_source {
  int64_t width;                   /* columns of a part */
  int64_t centroids;               /* of a part that `values` has; every code is below */
  const void *values;              /* floats [parts, centroids, width], of the last part what it has of columns: copied */
  const void *norms;               /* floats [rows], or NULL: used in place, as */
  const unsigned char *norm_codes; /* [rows], or NULL, of */
  const void *norm_values;         /* floats [256]: copied */
  bool little_endian;
} embed__pq_source;

/* Options copied and checked but for dtype and group, which only such tables may have as they like. */
embed_status embed__layout_options(embed_context *ctx, const embed_table_options *given, embed_table_options *o);

/* embed_table_view_pq's work; o is a checked copy, from is right but for what depends on rows and dim. proved: no code needs to be
 * looked at. For tables in mapped files. */
embed_status embed__table_view_pq(embed_context *ctx, const void *codes, int64_t rows, int64_t dim, const embed__pq_source *from, bool proved,
                                  const embed_table_options *o, void (*done)(void *arg), void *arg, embed_table **out);

void embed__codebook_free(embed__codebook *b, const embed_allocator *memory); /* NULL is fine */

#endif
