/* SPDX-License-Identifier: BSD-3-Clause */
/* A table seen from the output side. Tied is not a mode: a head retains the table that it is given. */
#ifndef EMBED__HEAD_H
#define EMBED__HEAD_H

#include <embed/head.h>
#include <embed/io.h>

#include "head/rules.h"
#include "head/sketch.h"
#include "sweep/prepared.h"

struct embed_head {
  embed__refcount references;
  const embed_table *table; /* retained; a subset's own copy of its rows */
  embed_table *base;        /* subset: retained, whose rows were copied; NULL = a whole head */
  uint64_t base_changes;    /* of base, when they were */
  embed__id_map map;        /* subset */
  float *bias;              /* [vocab] copied, or NULL */
  float scale, softcap;     /* softcap 0 = off */
  uint32_t flags;           /* EMBED_HEAD_BLAS, PREPARE, SKETCH */
  embed__prepared prepared; /* block NULL: the table is swept in place */
  embed__sketch *sketch;    /* NULL: every search sweeps the table */
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
/* The same of products that have their bias. */
void embed__finish_biased(const embed_head *h, float *z, int64_t n);

/* What a call on a head checks before it sweeps: handles are there, the prepared form is not stale, hidden is a float
 * buffer [n, dim], options known. Fills the given part of s. */
embed_status embed__head_sweep(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                               const embed_sweep_options *opts, embed_sweep_options *o, embed__sweep *s);

/* The ids of targets, rules and answers: below the vocabulary of the first head. */
static inline int64_t embed__head_ids(const embed_head *h) { return h->base ? h->base->vocab : h->table->vocab; }
static inline const embed__id_map *embed__head_map(const embed_head *h) { return h && h->base ? &h->map : NULL; }
/* E_ID (at = the position) for an id outside these, or not in the subset. */
embed_status embed__head_check_ids(embed_context *ctx, const embed_head *h, const int32_t *ids, int64_t n);
/* Copies a subset's rows from its base. */
embed_status embed__subset_copy(embed_context *ctx, embed_head *h);
void embed__subset_free(embed_head *h);
/* What flags ask to be made from the table, when all else of h is there. */
embed_status embed__head_form(embed_context *ctx, embed_head *h);

/* E_STALE where the table has changed since the head was prepared or sketched. */
embed_status embed__head_fresh(embed_context *ctx, const embed_head *h);
embed_status embed__nan_error(embed_context *ctx, int64_t row);
/* The NaN policy on some columns of a finished row: IGNORE turns NaN into -inf; ERROR answers true for a row with one. */
bool embed__apply_nan_policy(embed_nan_policy policy, float *z, int64_t n);

#endif
