/* SPDX-License-Identifier: BSD-3-Clause */
/* One chunk of hidden rows under way: what the two drivers of a sweep share. */
#ifndef EMBED__CHUNK_H
#define EMBED__CHUNK_H

#include "sweep/sweep.h"

typedef struct embed__chunk {
  const embed__sweep *s;
  const embed__kernels *kernels;
  const float *x;
  int64_t ldx, rows;
  float *out;                   /* the chunk's first row of s->out, or NULL */
  int64_t blocks, done, chunks; /* done: chunks behind */
} embed__chunk;

embed_status embed__plan_sweep(embed_context *ctx, embed__sweep *s);
/* Table rows of one call of OpenBLAS. */
int64_t embed__blas_columns(const embed__sweep *s);

embed_status embed__own_chunk(embed_context *ctx, const embed__chunk *chunk);
embed_status embed__blas_chunk(embed_context *ctx, const embed__chunk *chunk);

#endif
