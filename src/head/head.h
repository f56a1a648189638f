/* SPDX-License-Identifier: BSD-3-Clause */
/* A table seen from the output side. Tied is not a mode: a head retains the table that it is given. */
#ifndef EMBED__HEAD_H
#define EMBED__HEAD_H

#include <embed/head.h>
#include <embed/io.h>

#include "sweep/prepared.h"

struct embed_head {
  embed__refcount references;
  const embed_table *table; /* retained */
  float *bias;              /* [vocab] copied, or NULL */
  float scale, softcap;     /* softcap 0 = off */
  uint32_t flags;           /* EMBED_HEAD_BLAS, PREPARE */
  embed__prepared prepared; /* block NULL: the table is swept in place */
  embed_allocator memory;
};

/* o is copied and checked; retains t, copies bias [vocab], prepares; saved: the prepared form is there already, in memory that outlives t.
 * NULL = none. */
embed_status embed__head_new(embed_context *ctx, const embed_table *t, const float *bias, const embed_head_options *o, const embed__prepared *saved,
                             embed_head **out);

/* The prepared form of t, the table of this name, that the file keeps (embed_writer_head). False = none that fits. */
bool embed__head_saved(const embed_context *ctx, const embed_file *f, const char *name, const embed_table *t, embed__prepared *out);

/* logit = softcap(scale * (product + bias)), in place for some columns of some rows. */
void embed__finish_logits(const embed_head *h, float *z, int64_t ldz, int64_t rows, int64_t column, int64_t columns);

/* What a call on a head checks before it sweeps: handles are there, the prepared form is not stale, hidden is a float
 * buffer [n, dim], options known. Fills the given part of s. */
embed_status embed__head_sweep(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                               const embed_sweep_options *opts, embed_sweep_options *o, embed__sweep *s);

/* E_STALE where the table has changed since the head was prepared. */
embed_status embed__head_fresh(embed_context *ctx, const embed_head *h);
embed_status embed__nan_error(embed_context *ctx, int64_t row);
/* The NaN policy on some columns of a finished row: IGNORE turns NaN into -inf; ERROR answers true for a row with one. */
bool embed__apply_nan_policy(embed_nan_policy policy, float *z, int64_t n);

#endif
