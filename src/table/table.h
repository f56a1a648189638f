/* SPDX-License-Identifier: BSD-3-Clause */
/* The [rows, dim] matrix. Everything that gathers from it, sweeps it or scatters into it goes through these fields;
 * only table/ makes and changes them. */
#ifndef EMBED__TABLE_H
#define EMBED__TABLE_H

#include <embed/table.h>
#include <stdatomic.h>

#include "codec/codec.h"
#include "core/context.h"
#include "core/refcount.h"

typedef struct embed__overlay embed__overlay;   /* overlay.h */
typedef struct embed__codebook embed__codebook; /* pq.h */

/* Numbers about the rows, made by the first call that needs them. */
typedef enum embed__numbers {
  EMBED__INVERSE_NORMS, /* [vocab], and the exponent of the longest row */
  EMBED__HALF_SQUARES,  /* [vocab + 1] */
  EMBED__NUMBERS
} embed__numbers;

struct embed_table {
  embed__refcount references;
  bool writable;
  bool vector;               /* its one row was a tensor of one extent: writers that know the difference keep it */
  unsigned char *data;       /* row 0; NULL with an overlay */
  embed__overlay *overlay;   /* NULL: the rows lie row_bytes apart from data on; else in the tables of the overlay */
  embed__codebook *codebook; /* of EMBED_PQ alone: a row is more than its bytes. An overlay's is its base's, whose rows it may not be of */
  int64_t rows;              /* stored */
  int64_t vocab;             /* valid ids, <= rows */
  int64_t dim;
  int64_t row_bytes;    /* distance between rows */
  int64_t packed_bytes; /* of a row's own bytes; what follows them is never read or written */
  embed_dtype dtype;
  int32_t group; /* columns per scale or, EMBED_PQ, of a part; 0 where the dtype has none */
  const embed__codec *codec;
  _Atomic uint64_t changes;
  _Atomic(float *) numbers[EMBED__NUMBERS]; /* embed__table_numbers */
  embed_allocator memory;
  int64_t owned_bytes;    /* of data, 0 = somebody else's */
  size_t owned_alignment; /* of data */
  void (*done)(void *arg);
  void *done_arg;
};

const unsigned char *embed__overlaid_row(const embed_table *t, int64_t row);
/* Stored bytes. They say all of a row but of EMBED_PQ's: whoever decodes or copies rows by them asks for t->codebook first. */
static inline const unsigned char *embed__row(const embed_table *t, int64_t row) {
  return t->overlay ? embed__overlaid_row(t, row) : t->data + row * t->row_bytes;
}
/* How many of rows [first, first + most) lie together, at least 1: *rows is the first, *stride bytes from one to the next.
 * Whoever reads more than one row from a pointer asks here. */
int64_t embed__rows_together(const embed_table *t, int64_t first, int64_t most, const unsigned char **rows, int64_t *stride);

/* Whether the rows are one block of floats at float addresses: what C and OpenBLAS may read as float. */
static inline bool embed__floats_in_place(const embed_table *t) {
  return !t->overlay && t->dtype == EMBED_F32 && ((uintptr_t)t->data | (uintptr_t)t->row_bytes) % sizeof(float) == 0;
}

void embed__decode_codes(const embed__kernels *k, const embed_table *t, int64_t row, float *out, float scale); /* pq.c */
/* out[j] = decoded value * scale: the way to the values of a table's row, whatever its dtype. */
static inline void embed__decode_stored(const embed__kernels *k, const embed_table *t, int64_t row, float *out, float scale) {
  if (t->codebook)
    embed__decode_codes(k, t, row, out, scale);
  else
    t->codec->decode(k, embed__row(t, row), out, t->dim, t->group, scale);
}
static inline void embed__decode(const embed_context *ctx, const embed_table *t, int64_t row, float *out, float scale) {
  embed__decode_stored(ctx->kernels, t, row, out, scale);
}

/* What the public calls of these names do; the other folders use these. NULL is fine. */
embed_table *embed__table_retain(const embed_table *t);
void embed__table_release(const embed_table *t);
void embed__table_changed(embed_table *t);
/* A number that grows whenever rows of t change, those that an overlay reads from other tables too: what copies rows remembers it. */
uint64_t embed__table_changes(const embed_table *t);
/* Numbers that const calls share until the rows change; NULL = nobody has made them. They are published once, by whoever is
 * first, and gone when the table's owner, who is alone then, says that it has changed: so no reader ever holds old ones. A
 * table that changes with others, an overlay, keeps none. */
const float *embed__table_numbers(const embed_table *t, embed__numbers which);
float *embed__table_numbers_room(const embed_table *t); /* to make them in, [vocab + 1]; NULL = no memory */
/* Gives room up, filled or (publish false) not; answers what all share from now on. */
const float *embed__table_numbers_keep(const embed_table *t, embed__numbers which, float *room, bool publish);
/* A handle of a shape and layout, proved; its data or overlay is still to be set. */
embed_status embed__table_handle(embed_context *ctx, int64_t rows, int64_t dim, const embed_table_options *o, embed_table **out);
/* An owned table whose rows are not written yet. For convert and the readers. */
embed_status embed__table_new(embed_context *ctx, int64_t rows, int64_t dim, const embed_table_options *o, embed_table **out);
/* embed_table_view's work; o->size is set. For tables in mapped files. */
embed_status embed__table_view(embed_context *ctx, const void *data, int64_t rows, int64_t dim, const embed_table_options *o, void (*done)(void *arg),
                               void *arg, embed_table **out);
/* Options copied and checked; dtype's default is what the caller gives. E_UNSUPPORTED: EMBED_PQ, which nobody can ask for. */
embed_status embed__table_options(embed_context *ctx, const embed_table_options *given, embed_table_options *o);
/* E_READ_ONLY unless t may be written. */
embed_status embed__check_writable(embed_context *ctx, const embed_table *t);
/* Lists of stored rows, padding rows included: E_ID names the first id outside. */
embed_status embed__check_stored_rows(embed_context *ctx, const embed_table *t, const int64_t *ids, int64_t n);
/* What writes rows as embed_table_set_rows does asks here: a writable table, and stochastic rounding only where it is. */
embed_status embed__rows_options(embed_context *ctx, const embed_table *t, const embed_rows_options *opts, embed_rows_options *o);
embed_status embed__refuse_row(embed_context *ctx, const char *what, int64_t position, const embed_table *t); /* E_NONFINITE: its dtype cannot hold it */
int64_t embed__rows_per_task(int64_t dim); /* of decoded rows: enough to be worth a thread's waking */
/* The dtype, row stride and extent of a caller's float buffer [n, dim]: n >= 0, a float dtype, ld 0 or >= dim, not NULL
 * unless empty, bytes that fit. *ld_out = the stride. name: of the buffer, for the message. */
embed_status embed__check_buffer(embed_context *ctx, const char *name, const void *buffer, embed_dtype dtype, int64_t n, int64_t dim, int64_t ld,
                                 int64_t *ld_out);
/* One row of floats to and from a caller's buffer of a float dtype. */
void embed__store_row(const embed__kernels *k, const float *row, void *out, embed_dtype dtype, int64_t dim);
void embed__load_row(const embed__kernels *k, const void *in, embed_dtype dtype, float *row, int64_t dim);

#endif
