/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors whose rows no table can have as they lie in the file: each embed_file_table decodes them into a table of its own. */
#ifndef EMBED__DECODED_H
#define EMBED__DECODED_H

#include "io/file.h"
#include "table/pq.h"

/* The table of a tensor with a decode; o describes it but for its flags. */
embed_status embed__decoded_table(embed_context *ctx, const embed_file *f, const embed__tensor *tensor, int64_t rows, int64_t dim, embed_table_options *o,
                                  embed_table **out);

/* Product-quantised rows [rows, dim] of floats. A row is cut into parts; a code of one byte for each says which of the part's
 * centroids stands there. Then, where there is one, the projection; then the row's norm, a float or the code of one. */
typedef struct embed__pq {
  int64_t rows, dim;
  int64_t parts, width, last; /* parts of a row, columns of a part and of the last one */
  int64_t centroids;          /* of a part; every code is below */
  int64_t values;             /* where the centroids stand, as the others a byte of the file: [parts, centroids, width], `last` of the last */
  int64_t codes;              /* [rows, parts] */
  int64_t norms;              /* -1 = none: floats [rows], or codes [rows] where norm_values is not -1 */
  int64_t norm_values;        /* floats[256] */
  int64_t projection;         /* floats [dim, dim], -1 = none: x[i] = sum over j of y[j] * P[i][j] */
} embed__pq;

/* Columns of a part, at most: a code of one byte becomes that many floats, and a file of few bytes must not become a table of any size
 * where somebody asks for floats. */
enum { EMBED__PQ_WIDEST = 256 };

/* Describes the tensor of proved product-quantised rows: EMBED_PQ in place, but decoded to F32 where there is a projection, which would
 * cost every reading of a row dim * dim products. */
embed_status embed__pq_tensor(embed_context *ctx, embed_file *f, const char *name, const embed__pq *pq, embed__tensor *tensor);

/* Of a tensor of EMBED_PQ: its codes, and what its codebook is made of. */
const unsigned char *embed__pq_codes(const embed_file *f, const embed__tensor *tensor, embed__pq_source *from);

/* Find the scales that stand in tensors of their own (scaled.c), once all tensors of the file are there and named: safetensors' of 8 bits,
 * GGUF's of NVFP4. */
embed_status embed__find_scales(embed_context *ctx, embed_file *f);
embed_status embed__find_nvfp4_scales(embed_context *ctx, embed_file *f);
/* Packed integers (packed.c) with wide scales that are half floats nonetheless become a smaller dtype; reads them once. Other tensors, and
 * i = -1, stay as they are. */
embed_status embed__narrow_packed(embed_context *ctx, embed_file *f, int64_t i);

#endif
