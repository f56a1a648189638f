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
/**
 * embed_table_create: a table of zero bytes.
 *
 * Shapes   rows x dim; opts->row_bytes between rows (0 = packed), opts->vocab <= rows valid ids (0 = rows).
 * Types    opts->dtype, 0 = F32. Memory from ctx's allocator, row 0 aligned to 64 bytes (2 MiB with HUGE_PAGES, a wish that
 *          the system may not grant). READ_ONLY makes a table of zeros that stays so.
 * Empty    rows = 0 is a table; dim is at least 1.
 * Errors   E_ARGUMENT (rows, dim), E_OPTION, E_UNSUPPORTED (dtype, or a dim that is no whole number of its blocks), E_OVERFLOW,
 *          E_MEMORY; *out is NULL, nothing is kept.
 * Threads  ctx exclusive. The table outlives ctx.
 * Cost     writes rows * row_bytes.
 * Since    0.1.
 */
/* Owned by the library, zeroed, rows aligned to 64 bytes. */
EMBED_FN embed_status embed_table_create(embed_context *ctx, int64_t rows, int64_t dim, const embed_table_options *opts, embed_table **out);
/**
 * embed_table_borrow: a table over the caller's memory.
 *
 * Shapes   data [rows], each row_bytes after the last; behind the last row nothing is needed:
 *          (rows - 1) * row_bytes + embed_row_bytes bytes. With data_bytes that extent is checked.
 * Types    as embed_table_create; the layouts stand beside the dtypes. What lies between rows is never read or written.
 * Empty    rows = 0 takes data NULL.
 * Errors   E_ARGUMENT (rows, dim, data; data_bytes too small: at = data_bytes), E_OPTION, E_UNSUPPORTED, E_OVERFLOW, E_MEMORY:
 *          *out is NULL, done was not called and will not be.
 * Threads  ctx exclusive. done runs on the thread of the last release.
 * Cost     one allocation; nothing of data is read or copied.
 * Since    0.1.
 */
/* Caller's memory, any alignment, not copied; done(arg) runs once, at the last release, from whatever thread that is; not called when this fails. */
EMBED_FN embed_status embed_table_borrow(embed_context *ctx, void *data, int64_t rows, int64_t dim, const embed_table_options *opts,
                                         void (*done)(void *arg), void *arg, embed_table **out);
/**
 * embed_table_view: embed_table_borrow for memory that is never written: the table is READ_ONLY.
 *
 * Shapes   as embed_table_borrow.
 * Types    as embed_table_borrow.
 * Errors   as embed_table_borrow.
 * Threads  ctx exclusive. done runs on the thread of the last release.
 * Cost     as embed_table_borrow.
 * Since    0.1.
 */
EMBED_FN embed_status embed_table_view(embed_context *ctx, const void *data, int64_t rows, int64_t dim, const embed_table_options *opts,
                                       void (*done)(void *arg), void *arg, embed_table **out); /* the same, read-only */
typedef struct embed_pq { /* centroids of product-quantised rows, and what multiplies a row */
  uint32_t size, flags;            /* no flag yet */
  int64_t width;                   /* columns of a part; the last part has what is left of dim */
  int64_t centroids;               /* of a part, 1 to 256 */
  const float *values;             /* [parts, centroids, width], of the last part narrower rows: copied */
  const float *norms;              /* [rows], NULL = none: in place */
  const uint8_t *norm_codes;       /* [rows], NULL = none: in place, and each is the number of one of */
  const float *norm_values;        /* [256]: copied */
} embed_pq;
/**
 * embed_table_view_pq: a table over the caller's product-quantised rows, the smallest form that keeps every row: 4 to 32 times less than F32.
 *
 *   W[v, p * width + j] = norm[v] * values[p, codes[v, p], j]
 *   norm[v] = norms[v], norm_values[norm_codes[v]], or 1
 *
 * Shapes   codes [rows, ceil(dim / width)] bytes, each row opts->row_bytes after the last (0 = side by side); pq: see embed_pq, norms and
 *          norm_codes not both. With opts->data_bytes the extent of codes is checked.
 * Types    the table is EMBED_PQ: embed_table_row_bytes are those of its codes, embed_table_data is the codes. opts->dtype 0 or EMBED_PQ,
 *          opts->group 0 or width. Values may be any floats. A row is rounded to float before anything else multiplies it. Every call that
 *          reads tables takes this one and gives the bits that it gives for the same rows in the other dtypes that are decoded first (exact
 *          products of heads: as F32 to their bound). READ_ONLY: nothing encodes into such rows, so EMBED_PQ is E_UNSUPPORTED where a dtype to
 *          store is asked for, and EMBED_DTYPE_NONE (embed_table_convert, embed_writer_table) gives F32. A head is swept as it is
 *          stored: EMBED_HEAD_PREPARE has no other form for it.
 * Empty    rows = 0 takes codes NULL.
 * Errors   E_ARGUMENT (rows, dim, codes, width, centroids, values, norms; data_bytes too small: at = data_bytes; a code that is no
 *          centroid: at = its index in [rows, parts]), E_OPTION, E_OVERFLOW, E_MEMORY, E_CANCELLED, E_CALLBACK: *out is NULL, done was
 *          not called and will not be.
 * Threads  ctx exclusive; calls ctx's progress. done runs on the thread of the last release.
 * Cost     copies the centroids, 4 * dim * centroids bytes, and reads the codes once where there are fewer than 256; codes and norms
 *          are not copied. To decode a row moves ceil(dim / width) centroids and multiplies once or twice.
 * Since    0.1.
 * Source   Jegou, Douze, Schmid, "Product quantization for nearest neighbor search", 2011; Joulin et al., "FastText.zip", 2016.
 */
/* codes and norms stay the caller's until done(arg); what else pq points to is copied. */
EMBED_FN embed_status embed_table_view_pq(embed_context *ctx, const void *codes, int64_t rows, int64_t dim, const embed_pq *pq,
                                          const embed_table_options *opts, void (*done)(void *arg), void *arg, embed_table **out);
/**
 * embed_table_convert: a new table with the same rows in another dtype, group or stride.
 *
 *   out[v, :] = encode(decode(W[v, :]))
 *
 * Shapes   rows, dim and (unless opts->vocab says otherwise) vocab of t.
 * Types    any to any; rounded once, to nearest, from the value decoded to float; the same dtype and group copies bytes.
 *          opts->dtype 0 is F32 as everywhere: EMBED_DTYPE_NONE keeps t's dtype and group (EMBED_PQ: F32).
 * Errors   E_NONFINITE (at = the least row with a NaN, an infinity or a value past its scale's range, where the dtype cannot hold
 *          it), E_OPTION, E_UNSUPPORTED, E_OVERFLOW, E_MEMORY, E_CANCELLED, E_CALLBACK; *out is NULL.
 * Threads  t shared, ctx exclusive; calls ctx's progress. Same bits for any thread count.
 * Cost     reads t once, writes the new table once.
 * Since    0.1.
 */
EMBED_FN embed_status embed_table_convert(embed_context *ctx, const embed_table *t, const embed_table_options *opts, embed_table **out);
/**
 * embed_table_overlay: a table that reads some rows from another one: new tokens, or a few tuned rows over a mapped file.
 *
 *   out[ids[i], :] = rows[i, :];  out[v, :] = base[v, :] for every other row v
 *
 * Shapes   base [base rows, dim]; rows [at least n, dim], of which the first n are used; ids [n], each once: below base's
 *          rows it replaces that row, from there on it adds one, and the added ids have no gap. vocab: valid ids, 0 = base's,
 *          or up to the largest of ids where that is more.
 * Types    base and rows of the same dtype and group; their row strides may differ. Either may be an overlay itself. Over a base of
 *          EMBED_PQ rows may be of any dtype, so that there can be new ones: every row is decoded as its own table has it.
 * Empty    n = 0 gives base's rows and reads no ids.
 * Errors   E_ID (at = the position: an id below 0, a second time, or past a gap), E_ARGUMENT (n, ids, more ids than rows, dim,
 *          vocab), E_UNSUPPORTED (dtype, group), E_OVERFLOW, E_MEMORY: *out is NULL, nothing is kept.
 * Threads  base and rows shared, ctx exclusive. Both are retained until the last release of *out.
 * Cost     sorts ids; 16 bytes each. A row is found in log2(n) steps.
 *
 * The table is READ_ONLY, embed_table_data gives NULL (embed_table_get_rows and embed_table_convert read it), and
 * embed_table_row_bytes what a copy would have. It sees later writes to base and rows: a sketch of it, and a subset's copy, is E_STALE
 * after them. Heads sweep it in place, never prepared.
 * Since    0.1.
 */
/* base with some rows replaced (ids[i] takes rows' row i) or added (ids >= base's rows): both are retained, nothing is copied. */
EMBED_FN embed_status embed_table_overlay(embed_context *ctx, const embed_table *base, const int64_t *ids, int64_t n, const embed_table *rows,
                                          int64_t vocab, embed_table **out);
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
/**
 * embed_table_init: fills rows with zeros, a constant, or random values that no split of the work changes.
 *
 *   normal           scale * PhiInv(u)                                   scale 0 = 0.02
 *   uniform          scale * (2u - 1)                                    scale 0 = 0.05
 *   xavier normal    scale * sqrt(2 / (dim + vocab)) * PhiInv(u)         scale 0 = 1
 *   xavier uniform   scale * sqrt(6 / (dim + vocab)) * (2u - 1)          scale 0 = 1
 *   truncated        scale * PhiInv(Phi(low / scale) + u * (Phi(high / scale) - Phi(low / scale))), scale 0 = 0.02
 *   u = (2w + 1) / 2^33, w = word (i & 3) of Philox4x32-10 with counter (i >> 2, stream 0) and key seed, i = row * dim + column
 *
 * Shapes   rows [first, first + count), padding rows of a table included; row padding_id, when among them, becomes zero.
 * Types    any dtype; computed in double, rounded to float, then stored to nearest. Shards that fill their own rows of the same
 *          seed hold together the bits of the whole.
 * Empty    no rows: does nothing.
 * Errors   E_READ_ONLY, E_OPTION (kind, scale, bounds, rows, padding_id, values past the dtype's range): nothing written;
 *          E_MEMORY likewise; E_CANCELLED, E_CALLBACK leave the rows unspecified.
 * Threads  t and ctx exclusive; calls ctx's progress. Same bits for any thread count and level.
 * Cost     writes the rows once.
 * Since    0.1.
 * Source   Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011; Wichura, "Algorithm AS 241", 1988;
 *          Glorot, Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.
 */
EMBED_FN embed_status embed_table_init(embed_context *ctx, embed_table *t, const embed_init_options *opts);
/**
 * embed_table_moved: what rows are of what embed_table_init made them: which of them training never reached, from the seed alone.
 *
 *   keep[i] = max(0, <W[r], W0[r]> / <W0[r], W0[r]>)   moved[i] = ||W[r] - keep[i] W0[r]|| / ||W[r]||   r = first + i
 *
 * W0 is what embed_table_init stores for the same options in a table of this vocab and dtype. A row with the very bytes of W0 has moved 0
 * and keep 1 exactly. A row that has only decayed has for keep the product of its 1 - lr weight_decay, and moved is what rounding left:
 * about 1e-7 in F32 where the decay was one step or embed_optimizer_touch, up to 1e-7 sqrt(steps) where every step rounded, more in 16
 * bits. A row with gradient has a direction of its own.
 *
 * Shapes   opts as they were given to embed_table_init, first and count: the rows asked about; moved, keep [rows asked], one may be NULL.
 * Types    any dtype; sums in double, results rounded once. A row of W0 that is 0: keep 1, moved 0 or 1. A row of W that is 0 has moved 0.
 *          A NaN in a row makes its moved NaN.
 * Empty    no rows: does nothing.
 * Errors   E_OPTION as embed_table_init, E_ARGUMENT (neither output), E_MEMORY: nothing written; E_CANCELLED, E_CALLBACK: unspecified.
 * Threads  t shared, ctx exclusive; calls ctx's progress. Same bits for any thread count and level.
 * Cost     embed_table_init's, and reads the rows once.
 * Since    0.1.
 */
EMBED_FN embed_status embed_table_moved(embed_context *ctx, const embed_table *t, const embed_init_options *opts, float *moved, float *keep);
/**
 * embed_table_get_rows: rows by number, as floats.
 *
 * Shapes   ids [n] in [0, rows): padding rows can be read; out [n, dim] with row stride ld_out elements (0 = dim).
 * Types    t any dtype; out F32, F16 or BF16, rounded to nearest from the decoded float; t's own dtype copies bytes.
 * Empty    n = 0 does nothing and follows no pointer.
 * Errors   E_ID (at = the position), E_ARGUMENT (n, ids, out, out_dtype, ld_out), E_OVERFLOW, E_MEMORY: nothing written;
 *          E_CALLBACK: unspecified.
 * Threads  t shared, ctx exclusive.
 * Cost     reads n * row_bytes; no allocation after warm-up.
 * Since    0.1.
 */
/* Rows by id, converted: get writes out [n, dim]; set reads src [n, dim], the last of equal ids wins. */
EMBED_FN embed_status embed_table_get_rows(embed_context *ctx, const embed_table *t, const int64_t *ids, int64_t n, void *out,
                                           embed_dtype out_dtype, int64_t ld_out);
enum { EMBED_ROWS_STOCHASTIC = 1 };
typedef struct embed_rows_options { uint32_t size, flags; uint64_t seed; } embed_rows_options; /* EMBED_ROWS_STOCHASTIC: stochastic rounding */
/**
 * embed_table_set_rows: rows by number, from floats.
 *
 * Shapes   ids [n] in [0, rows); src [n, dim] with row stride ld_src elements (0 = dim).
 * Types    src F32, F16 or BF16; t any dtype, to nearest, or stochastically: up or down with the odds that keep the mean, decided
 *          by (seed, row, column) alone, but past the last step of a scale that ends before the row does (int4_group's on the side
 *          that its largest number is not on, uint8_row's where its scale was rounded), which all becomes that step; GGUF's blocks
 *          round as their format says. F8_E4M3 has no infinity: past 464 it holds NaN, and so of an infinity, without an error.
 * Empty    n = 0 does nothing and follows no pointer.
 * Errors   E_READ_ONLY, E_ID (at = the position), E_NONFINITE (at = the position in src of a row that the dtype cannot hold),
 *          E_UNSUPPORTED (EMBED_ROWS_STOCHASTIC into blocks), E_ARGUMENT, E_OPTION, E_OVERFLOW, E_MEMORY: the table is as it was.
 * Threads  t and ctx exclusive; the calling thread does it, in the order of ids. Counts as a change of t.
 * Cost     writes n * row_bytes; scaled dtypes encode each row twice, to refuse before they write.
 * Since    0.1.
 */
EMBED_FN embed_status embed_table_set_rows(embed_context *ctx, embed_table *t, const int64_t *ids, int64_t n, const void *src,
                                           embed_dtype src_dtype, int64_t ld_src, const embed_rows_options *opts);
/**
 * embed_table_renorm_rows: the rows of a list that are longer than max_norm become that long, in the table.
 *
 *   norm = (sum_j |W[r, j]|^p)^(1/p);  W[r, :] *= max_norm / (norm + 1e-7)  where norm > max_norm
 *
 * Each row once, however often its id stands in the list. embed_lookup_options.max_norm clips what is read and leaves the table alone.
 *
 * Shapes   ids [n] in [0, rows).
 * Types    t any dtype: decoded, scaled in float, and stored as embed_table_set_rows stores it (a coarse dtype may round a row's norm
 *          past max_norm again). norm_type is p: 0 = 2, any positive number, INFINITY for the largest magnitude; the norm is summed in
 *          double and rounded to float before it is compared, as torch's is.
 * NaN      a row that holds NaN or an infinity, or whose norm is past float, has no norm and stays as it is.
 * Empty    n = 0 does nothing and follows no pointer.
 * Errors   E_READ_ONLY, E_ID (at = the position), E_ARGUMENT (max_norm negative or not finite, norm_type negative or NaN), E_OPTION,
 *          E_UNSUPPORTED (EMBED_ROWS_STOCHASTIC into blocks), E_NONFINITE (at = the row's first position; bytes from elsewhere can hold
 *          numbers past what embed_table_set_rows can store), E_OVERFLOW, E_MEMORY: the table is as it was. E_CALLBACK: rows of the
 *          list are as before or done.
 * Threads  t and ctx exclusive. Same bits for any thread count. Counts as a change of t.
 * Cost     reads the rows of the list once, writes those that were too long; scaled dtypes twice, to refuse before they write; n log n
 *          comparisons for ids in no order.
 * Since    0.1.
 * Source   torch.embedding_renorm_.
 */
EMBED_FN embed_status embed_table_renorm_rows(embed_context *ctx, embed_table *t, const int64_t *ids, int64_t n, double max_norm, double norm_type,
                                              const embed_rows_options *opts);
/**
 * embed_table_add_rows: rows of a list, plus a multiple of the caller's.
 *
 *   W[r, :] += alpha * sum over the i with ids[i] = r of src[i, :]
 *
 * Added in float one product after the other, in the order of the list, to the decoded row, which is stored once however often its id
 * stands there: a difference of models, an edit by hand, a step of plain descent (alpha = -rate).
 *
 * Shapes   ids [n] in [0, rows); src [n, dim] with row stride ld_src elements (0 = dim).
 * Types    src F32, F16 or BF16; t any dtype, stored as embed_table_set_rows stores it; alpha is rounded to float.
 * Empty    n = 0 does nothing and follows no pointer.
 * Errors   as embed_table_set_rows (E_NONFINITE: at = the row's first position in the list); E_ARGUMENT also for an alpha that is no
 *          finite float: the table is as it was. E_CALLBACK: rows of the list are as before or done.
 * Threads  t and ctx exclusive. Same bits for any thread count. Counts as a change of t.
 * Cost     reads src and reads and writes the rows of the list once; scaled dtypes twice, to refuse before they write; n log n
 *          comparisons for ids in no order.
 * Since    0.1.
 * Source   torch.Tensor.index_add_, whose rows of duplicates are added in no order.
 */
EMBED_FN embed_status embed_table_add_rows(embed_context *ctx, embed_table *t, const int64_t *ids, int64_t n, double alpha, const void *src,
                                           embed_dtype src_dtype, int64_t ld_src, const embed_rows_options *opts);
/**
 * embed_table_retain: one more owner; returns t.
 *
 * Errors   none; NULL gives NULL.
 * Threads  from any thread, at any time.
 * Cost     an atomic addition.
 * Since    0.1.
 */
EMBED_API embed_table *embed_table_retain(const embed_table *t); /* +1, returns t; tied = one table, two owners */
/**
 * embed_table_release: one owner less; the last frees owned memory or calls done.
 *
 * Errors   none; NULL does nothing.
 * Threads  from any thread, at any time; done runs on the one that was last.
 * Cost     an atomic subtraction; the last frees.
 * Since    0.1.
 */
EMBED_API void embed_table_release(const embed_table *t);        /* -1, from any thread; NULL is fine */
/**
 * embed_table_rows: stored rows, padding rows included.
 *
 * Errors   E_ARGUMENT for NULL.
 * Threads  t shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API int64_t embed_table_rows(const embed_table *t);
/**
 * embed_table_vocab: valid ids: [0, vocab), at most rows.
 *
 * Errors   E_ARGUMENT for NULL.
 * Threads  t shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API int64_t embed_table_vocab(const embed_table *t);
/**
 * embed_table_dim: columns.
 *
 * Errors   E_ARGUMENT for NULL.
 * Threads  t shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API int64_t embed_table_dim(const embed_table *t);
/**
 * embed_table_row_bytes: bytes from one row to the next.
 *
 * Errors   E_ARGUMENT for NULL.
 * Threads  t shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API int64_t embed_table_row_bytes(const embed_table *t);
/**
 * embed_table_dtype: how rows are stored; of an overlay, base's rows.
 *
 * Errors   EMBED_DTYPE_NONE for NULL.
 * Threads  t shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API embed_dtype embed_table_dtype(const embed_table *t);
/**
 * embed_table_data: the stored bytes.
 *
 * Errors   none; NULL for NULL.
 * Threads  t shared.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API const void *embed_table_data(const embed_table *t);   /* row 0, as long as the table lives; NULL when rows are not one block in memory: use get_rows */
/**
 * embed_table_mutable_data: the stored bytes, to be written.
 *
 * Errors   none; NULL for NULL and for a table that is READ_ONLY.
 * Threads  t exclusive as long as they are written: keep readers away.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API void *embed_table_mutable_data(embed_table *t);       /* NULL if read-only; then say embed_table_changed */
/**
 * embed_table_changed: the stored bytes were written; embed_table_set_rows and embed_table_init say it by themselves.
 *
 * Errors   none; NULL does nothing.
 * Threads  t exclusive.
 * Cost     adds one to a counter.
 * Since    0.1.
 */
EMBED_API void embed_table_changed(embed_table *t);             /* after raw writes: prepared heads notice (EMBED_E_STALE) */

#ifdef __cplusplus
}
#endif
#endif
