/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__GEOMETRY_H
#define EMBED__GEOMETRY_H

#include <embed/geometry.h>

#include "table/table.h"

/* L2 norms of rows [0, vocab), rounded to float once. */
embed_status embed__norms(embed_context *ctx, const embed_table *t, float *norms);

/* out = x times 2^power; what leaves float's range is rounded. out may be x. */
void embed__times_power(const float *x, float *out, int64_t dim, int power);

/* Numbers of rows [0, vocab), made once per table and change; an overlay's for this call, in scratch. */
typedef embed_status embed__make_numbers(embed_context *ctx, const embed_table *t, float *out);
embed_status embed__row_numbers(embed_context *ctx, const embed_table *t, embed__numbers which, embed__make_numbers *make, const float **out);

/* queries [n, dim] and the exact answers, as embed_nearest says; everything checked before. */
typedef struct embed__nearest {
  const embed_table *table;
  embed_metric_kind metric;
  const float *queries;
  int64_t n, ldq, k;
  const int32_t *exclude; /* [n, excluded] or NULL */
  int64_t excluded;
  int32_t *ids;
  float *scores;
  int32_t *count;
} embed__nearest;
embed_status embed__nearest_run(embed_context *ctx, const embed__nearest *q);
/* Checks k, metric and results that do not fit. */
embed_status embed__nearest_options(embed_context *ctx, const embed_table *t, int64_t n, int32_t k, const int32_t *ids, const float *scores,
                                    const embed_nearest_options *opts, embed_nearest_options *o);

#endif
