/* SPDX-License-Identifier: BSD-3-Clause */
/* embed/table.h: the [rows, dim] matrix that both ends of a model share. */
#ifndef EMBED_TABLE_H
#define EMBED_TABLE_H

#include <embed/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct embed_table_options {
  uint32_t size, flags; /* EMBED_TABLE_* */
  int64_t row_bytes;    /* distance between rows; 0 = embed_row_bytes() */
  int64_t vocab;        /* valid ids; 0 = rows (convert: the source's) */
  int64_t data_bytes;   /* borrow, view: extent of data, checked; 0 = trust */
  embed_dtype dtype;    /* 0 = EMBED_F32; convert: EMBED_DTYPE_NONE keeps the source's */
  int32_t group;        /* columns per scale, grouped dtypes; 0 = 32 */
} embed_table_options;
enum { EMBED_TABLE_HUGE_PAGES = 1, EMBED_TABLE_READ_ONLY = 2 };
/* Owned by the library, zeroed, rows aligned to 64 bytes. */
EMBED_FN embed_status embed_table_create(embed_context *ctx, int64_t rows, int64_t dim, const embed_table_options *opts, embed_table **out);
/* Caller's memory, any alignment, not copied; done(arg) runs once, at the last release, from whatever thread that is; not called when this fails. */
EMBED_FN embed_status embed_table_borrow(embed_context *ctx, void *data, int64_t rows, int64_t dim, const embed_table_options *opts,
                                         void (*done)(void *arg), void *arg, embed_table **out);
EMBED_FN embed_status embed_table_view(embed_context *ctx, const void *data, int64_t rows, int64_t dim, const embed_table_options *opts,
                                       void (*done)(void *arg), void *arg, embed_table **out); /* the same, read-only */
EMBED_FN embed_status embed_table_convert(embed_context *ctx, const embed_table *t, const embed_table_options *opts, embed_table **out);
typedef int32_t embed_init_kind;
enum { EMBED_INIT_NONE = -1, EMBED_INIT_ZERO = 0, EMBED_INIT_NORMAL, EMBED_INIT_UNIFORM, EMBED_INIT_XAVIER_NORMAL, EMBED_INIT_XAVIER_UNIFORM,
       EMBED_INIT_TRUNCATED_NORMAL, EMBED_INIT_CONSTANT };
typedef struct embed_init_options {
  uint32_t size, flags; /* EMBED_INIT_PADDING: row padding_id becomes zero */
  embed_init_kind kind;
  float scale;          /* std, half-width, gain or value; 0 = the kind's default (normal: 0.02) */
  float low, high;      /* truncated normal: absolute bounds; both 0 = +-2 std */
  int64_t first, count; /* rows [first, first + count); count 0 = to the end */
  int64_t padding_id;
  uint64_t seed;        /* a value depends on (seed, row, column) only */
} embed_init_options;
enum { EMBED_INIT_PADDING = 1 };
EMBED_FN embed_status embed_table_init(embed_context *ctx, embed_table *t, const embed_init_options *opts);
/* Rows by id, converted: get writes out [n, dim]; set reads src [n, dim], the last of equal ids wins. */
EMBED_FN embed_status embed_table_get_rows(embed_context *ctx, const embed_table *t, const int64_t *ids, int64_t n, void *out,
                                           embed_dtype out_dtype, int64_t ld_out);
enum { EMBED_ROWS_STOCHASTIC = 1 };
typedef struct embed_rows_options { uint32_t size, flags; uint64_t seed; } embed_rows_options; /* EMBED_ROWS_STOCHASTIC: stochastic rounding */
EMBED_FN embed_status embed_table_set_rows(embed_context *ctx, embed_table *t, const int64_t *ids, int64_t n, const void *src,
                                           embed_dtype src_dtype, int64_t ld_src, const embed_rows_options *opts);
EMBED_API embed_table *embed_table_retain(const embed_table *t); /* +1, returns t; tied = one table, two owners */
EMBED_API void embed_table_release(const embed_table *t);        /* -1, from any thread; NULL is fine */
EMBED_API int64_t embed_table_rows(const embed_table *t);
EMBED_API int64_t embed_table_vocab(const embed_table *t);
EMBED_API int64_t embed_table_dim(const embed_table *t);
EMBED_API int64_t embed_table_row_bytes(const embed_table *t);
EMBED_API embed_dtype embed_table_dtype(const embed_table *t);
EMBED_API const void *embed_table_data(const embed_table *t);   /* row 0, as long as the table lives; NULL when rows are not one block in memory: use get_rows */
EMBED_API void *embed_table_mutable_data(embed_table *t);       /* NULL if read-only; then say embed_table_changed */
EMBED_API void embed_table_changed(embed_table *t);             /* after raw writes: prepared heads notice (EMBED_E_STALE) */

#ifdef __cplusplus
}
#endif
#endif
