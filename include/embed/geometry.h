/* SPDX-License-Identifier: BSD-3-Clause */
/* embed/geometry.h: norms, nearest neighbours and analogies. */
#ifndef EMBED_GEOMETRY_H
#define EMBED_GEOMETRY_H

#include <embed/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t embed_metric_kind;
enum { EMBED_METRIC_NONE = -1, EMBED_METRIC_COSINE = 0, EMBED_METRIC_DOT, EMBED_METRIC_L2 };
typedef struct embed_nearest_options {
  uint32_t size, flags; /* EMBED_NEAREST_* */
  embed_metric_kind metric;
  int32_t reserved;
} embed_nearest_options;
/**
 * embed_norms: L2 norm of every row.
 *
 *   norms[v] = sqrt(sum_j W[v, j]^2)
 *
 * Shapes   norms [vocab].
 * Types    W any dtype; squares of the decoded values summed in 16 fixed double lanes, the root rounded to float once.
 * Errors   E_ARGUMENT, E_MEMORY; E_CANCELLED, E_CALLBACK leave norms unspecified.
 * Threads  t shared, ctx exclusive. Same bits at every level and for any thread count.
 * Cost     reads the table once.
 * Since    0.1.
 */
EMBED_FN embed_status embed_norms(embed_context *ctx, const embed_table *t, float *norms); /* [vocab] */
/**
 * embed_nearest: exact k nearest rows of each query.
 *
 * Shapes   queries [n, dim] with row stride ld_queries elements (0 = dim); exclude [n, excluded] ids left out of each
 *          query's answers (-1 = none), may be NULL; ids, scores [n, k] best first, equal scores by lower id; count [n] may
 *          be NULL. Where fewer than k rows are left the rest is id -1 and the worst score.
 * Types    queries F32, W any dtype. COSINE: q.w / (|q||w|), 0 with a zero row; DOT: q.w; both as embed_logits sums, so that the
 *          order is that of float64 but for rows whose scores differ by less than both errors: 2e-6 of sum |q||w| each (or
 *          as embed_logits says), with COSINE over |q||w|, and 4e-7 (from |q||w| = 1e-30 on: smaller products are no longer
 *          right to that). COSINE takes finite queries and rows of any length, those past float's range as well; rows below
 *          1e-65 of the longest one may have less precise scores. DOT: a product above float's range is +inf, one below it
 *          -inf and no answer, which it may be where only a part of its sum is past that range. L2: |q - w|, summed in double
 *          and rounded once, smallest first: no such ties, the same bits at every level. A score that is not a number is no
 *          answer, an infinite distance neither.
 * Empty    n = 0 does nothing; k = 0 gives count 0.
 * Errors   E_ID (at = position in exclude), E_ARGUMENT, E_OPTION, E_OVERFLOW, E_MEMORY: nothing written.
 *          E_CANCELLED, E_CALLBACK: unspecified.
 * Threads  t shared, ctx exclusive. Same answers for any thread count. The first search by COSINE or L2 leaves 4 vocab bytes with
 *          the table, by its allocator, for every thread's later ones: until embed_table_changed, set_rows, init or the last
 *          release. Who writes raw rows and does not say so gets answers with old norms.
 * Cost     reads the table once per 128 queries, once more where its norms are not there yet (of an overlay in every call).
 *          L2 measures some k rows of each query in double; every row, slowly, for a query to which too many rows are as near as
 *          float sums can tell (distances of a hundredth of the norms or less, or more than 2 k + 64 rows that tie).
 * Since    0.1.
 */
EMBED_FN embed_status embed_nearest(embed_context *ctx, const embed_table *t, const float *queries, int64_t n, int64_t ld_queries, int32_t k,
                                    const int32_t *exclude, int64_t excluded, int32_t *ids, float *scores, int32_t *count,
                                    const embed_nearest_options *opts);
/**
 * embed_analogy: a is to b as c is to which row? The rows nearest to b - a + c, the three themselves left out.
 *
 * Shapes   abc [n, 3] ids; ids, scores, count as embed_nearest. With COSINE (the default) each of the three rows is made a
 *          unit vector first; a zero row adds nothing.
 * Errors   E_ID (at = position in the n * 3 ids), else as embed_nearest.
 * Threads  t shared, ctx exclusive.
 * Cost     as embed_nearest.
 * Since    0.1.
 * Source   Mikolov, Yih, Zweig, "Linguistic regularities in continuous space word representations", 2013 (3CosAdd).
 */
EMBED_FN embed_status embed_analogy(embed_context *ctx, const embed_table *t, const int32_t *abc, int64_t n, int32_t k, int32_t *ids, float *scores,
                                    int32_t *count, const embed_nearest_options *opts);

#ifdef __cplusplus
}
#endif
#endif
