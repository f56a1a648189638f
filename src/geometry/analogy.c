/* SPDX-License-Identifier: BSD-3-Clause */
/* a is to b as c is to ?: the nearest rows to b - a + c, the three left out. With the cosine each of the three is made a
 * unit vector first (3CosAdd: Mikolov, Yih, Zweig, "Linguistic regularities in continuous space word representations",
 * 2013). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "geometry/geometry.h"

static void add_row(embed_context *ctx, const embed_table *t, int32_t id, float sign, bool unit, float *row, float *query) {
  float norm = 1.0f;
  embed__decode(ctx, t, id, row, 1.0f);
  if (unit) { /* first made about that long by a power of two: norm or 1 / norm may be past float's range */
    int exponent = 0;
    norm = (float)frexp(sqrt(ctx->kernels->row.sum_squares(row, t->dim)), &exponent);
    embed__times_power(row, row, t->dim, -exponent);
  }
  if (norm != 0) ctx->kernels->row.add_scaled(query, row, t->dim, sign / norm);
}

static embed_status analogy(embed_context *ctx, embed__nearest *q, const int32_t *abc) {
  const embed_table *t = q->table;
  float *queries, *row;
  EMBED__TRY(embed__scratch_matrix(ctx, q->n, t->dim, sizeof *queries, &queries));
  EMBED__TRY(embed__scratch_get(ctx, t->dim, sizeof *row, &row));
  memset(queries, 0, (size_t)(q->n * t->dim) * sizeof *queries);
  bool unit = q->metric == EMBED_METRIC_COSINE;
  for (int64_t i = 0; i < q->n; ++i) {
    float *query = queries + i * t->dim;
    add_row(ctx, t, abc[3 * i + 1], 1, unit, row, query);
    add_row(ctx, t, abc[3 * i], -1, unit, row, query);
    add_row(ctx, t, abc[3 * i + 2], 1, unit, row, query);
  }
  q->queries = queries;
  q->ldq = t->dim;
  q->exclude = abc;
  q->excluded = 3;
  return embed__nearest_run(ctx, q);
}

embed_status embed_analogy(embed_context *ctx, const embed_table *t, const int32_t *abc, int64_t n, int32_t k, int32_t *ids, float *scores, int32_t *count,
                           const embed_nearest_options *opts) {
  embed_nearest_options o;
  int64_t total;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  EMBED__TRY(embed__nearest_options(ctx, t, n, k, ids, scores, opts, &o));
  if (!embed__mul(n, 3, &total)) return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%" PRId64 " analogies do not fit into memory", n);
  if (n > 0 && !abc) return embed__null(ctx, "abc");
  for (int64_t i = 0; i < total; ++i)
    if (abc[i] < 0 || abc[i] >= t->vocab)
      return embed__fail(ctx, EMBED_E_ID, i, "id %d at position %" PRId64 " is outside the vocabulary of %" PRId64 " rows", abc[i], i, t->vocab);
  if (n == 0) return EMBED_OK;
  embed__nearest q = {.table = t, .metric = o.metric, .n = n, .k = k, .ids = ids, .scores = scores, .count = count};
  return embed__end(ctx, analogy(ctx, &q, abc));
}
