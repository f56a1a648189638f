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
EMBED_FN embed_status embed_norms(embed_context *ctx, const embed_table *t, float *norms); /* [vocab] */
/* Exact k-NN: ids, scores [n, k] best first, count [n] may be NULL; exclude [n, excluded] ids left out of each query's answers (-1 = none), may be NULL. */
EMBED_FN embed_status embed_nearest(embed_context *ctx, const embed_table *t, const float *queries, int64_t n, int64_t ld_queries, int32_t k,
                                    const int32_t *exclude, int64_t excluded, int32_t *ids, float *scores, int32_t *count,
                                    const embed_nearest_options *opts);
/* abc [n, 3] ids, answers b - a + c; the three inputs are excluded. */
EMBED_FN embed_status embed_analogy(embed_context *ctx, const embed_table *t, const int32_t *abc, int64_t n, int32_t k, int32_t *ids, float *scores,
                                    int32_t *count, const embed_nearest_options *opts);

#ifdef __cplusplus
}
#endif
#endif
