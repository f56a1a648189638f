/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact nearest rows: cosine and dot product are the sweep with a top-k reducer; distance.c has the distance. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "geometry/search.h"
#include "sweep/sweep.h"

typedef struct product_job {
  embed__search search;
  const float *inverse; /* 1 / norm of rows and queries, times powers of two, 0 for a zero row: cosine; else NULL */
  float *q_inverse;
} product_job;

/* A cosine does not change with the length of q, nor with a power of two that the rows' inverses have and the query's has not. So
 * queries whose products may leave float's range, or would all lie near its lower end, are swept times a power of two, and inverses
 * are kept where floats are precise. A product is at most |q||w|: times one inverse and then the other it stays in range, which both
 * together may leave. Norms are below 2^exponent, that of the longest row is `longest`. */
enum {
  MOST = 120,     /* of products and queries */
  LONG_ROWS = 96, /* above it inverses become larger by what the longest row has more, else smaller by MOST - LONG_ROWS */
  SHORT = -39,    /* below it queries, and the longest row's products, become larger */
  LARGER = 28     /* then: numbers that limbs hold (kernels/panel.h) */
};

static int exponent_of(double norm) {
  int exponent = 0;
  (void)frexp(norm, &exponent);
  return exponent;
}

static int shift_of(int longest) { return (longest > LONG_ROWS ? longest : LONG_ROWS) - MOST; }

static int power_of(double norm, int longest) {
  const int exponent = exponent_of(norm), most = longest > 0 ? MOST - longest : MOST;
  if (!isfinite(norm) || norm == 0) return 0;
  if (exponent > most) return most - exponent;
  if (exponent >= LARGER || (exponent >= SHORT && exponent + longest >= SHORT)) return 0;
  return (most < LARGER ? most : LARGER) - exponent;
}

static float inverse_of(double norm, int shift) { return norm > 0 ? (float)fmin(ldexp(1, shift) / norm, (double)FLT_MAX) : 0; }

/* norms[v], measured again where a float does not hold it, or not all of its bits. */
static double norm_of(const embed_context *ctx, const embed_table *t, const float *norms, int64_t v, float *row) {
  if (isnormal(norms[v]) || norms[v] == 0) return (double)norms[v];
  embed__decode(ctx, t, v, row, 1.0f);
  return sqrt(ctx->kernels->row.sum_squares(row, t->dim));
}

static void take_tile(void *arg, const embed__tile *tile) {
  const product_job *job = arg;
  for (int64_t i = 0; i < tile->rows; ++i) {
    float *z = tile->z + i * tile->ldz;
    int64_t query = tile->first + i;
    if (job->inverse) job->search.ctx->kernels->row.multiply(z, job->inverse + tile->column, tile->columns, job->q_inverse[job->search.first + query]);
    embed__search_offer(&job->search, tile->slot, query, z, tile->columns, tile->column);
  }
}

static embed_status make_inverse_norms(embed_context *ctx, const embed_table *t, float *out) {
  float *row;
  double longest = 0;
  EMBED__TRY(embed__scratch_get(ctx, t->dim, sizeof *row, &row));
  EMBED__TRY(embed__norms(ctx, t, out));
  for (int64_t v = 0; v < t->vocab; ++v) {
    const double norm = norm_of(ctx, t, out, v, row);
    if (norm > longest && isfinite(norm)) longest = norm;
  }
  const int exponent = exponent_of(longest);
  for (int64_t v = 0; v < t->vocab; ++v) out[v] = inverse_of(norm_of(ctx, t, out, v, row), shift_of(exponent));
  out[t->vocab] = (float)exponent;
  return EMBED_OK;
}

static embed_status cosine_norms(embed_context *ctx, product_job *job, embed__sweep *s) {
  const embed__nearest *q = job->search.q;
  EMBED__TRY(embed__row_numbers(ctx, q->table, EMBED__INVERSE_NORMS, make_inverse_norms, &job->inverse));
  EMBED__TRY(embed__scratch_get(ctx, q->n, sizeof(float), &job->q_inverse));
  const int64_t dim = q->table->dim;
  const int longest = (int)job->inverse[q->table->vocab];
  float *copy = NULL;
  for (int64_t i = 0; i < q->n; ++i) {
    const double norm = sqrt(ctx->kernels->row.sum_squares(q->queries + i * q->ldq, dim));
    const int power = power_of(norm, longest);
    job->q_inverse[i] = inverse_of((double)(float)ldexp(norm, power), -shift_of(longest));
    if (power == 0) continue;
    if (!copy) {
      EMBED__TRY(embed__scratch_matrix(ctx, q->n, dim, sizeof *copy, &copy));
      for (int64_t k = 0; k < q->n; ++k) memcpy(copy + k * dim, q->queries + k * q->ldq, (size_t)dim * sizeof *copy);
    }
    embed__times_power(q->queries + i * q->ldq, copy + i * dim, dim, power);
  }
  if (copy) s->x = (const unsigned char *)copy, s->ldx = dim;
  return EMBED_OK;
}

static embed_status by_product(embed_context *ctx, const embed__nearest *q) {
  product_job job = {.search = {.ctx = ctx, .q = q, .capacity = embed__min(q->k, q->table->vocab)}};
  embed__search *search = &job.search;
  embed__sweep s = {
      .table = q->table, .x = (const unsigned char *)q->queries, .x_dtype = EMBED_F32, .n = q->n, .ldx = q->ldq, .take = take_tile, .reducer = &job};
  s.state_bytes = embed__search_state_bytes(search);
  if (q->metric == EMBED_METRIC_COSINE) EMBED__TRY(cosine_norms(ctx, &job, &s));
  EMBED__TRY(embed__sweep_begin(ctx, &s));
  search->chunk = s.chunk;
  EMBED__TRY(embed__search_heaps(ctx, search, s.slots));
  for (search->first = 0; search->first < q->n; search->first += s.chunk) {
    embed__search_empty(search, s.slots);
    EMBED__TRY(embed__sweep_chunk(ctx, &s, search->first));
    for (int64_t i = 0; i < embed__min(s.chunk, q->n - search->first); ++i)
      embed__search_answer(q, search->first + i, embed__search_sorted(search, s.slots, i));
  }
  return EMBED_OK;
}

embed_status embed__nearest_run(embed_context *ctx, const embed__nearest *q) {
  return q->metric == EMBED_METRIC_L2 ? embed__nearest_by_distance(ctx, q) : by_product(ctx, q);
}

embed_status embed__nearest_options(embed_context *ctx, const embed_table *t, int64_t n, int32_t k, const int32_t *ids, const float *scores,
                                    const embed_nearest_options *opts, embed_nearest_options *o) {
  int64_t entries, bytes;
  EMBED__TRY(embed__options(ctx, "embed_nearest_options", opts, 0, o, sizeof *o));
  if (o->metric < EMBED_METRIC_COSINE || o->metric > EMBED_METRIC_L2) return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_metric_kind", o->metric);
  if (o->reserved) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_nearest_options.reserved is not 0");
  if (t->vocab > INT32_MAX) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%" PRId64 " ids: neighbours have 32-bit ids", t->vocab);
  if (k < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "k is %d", k);
  if (n < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "n is %" PRId64, n);
  if (!embed__mul(n, k, &entries) || !embed__mul(entries, (int64_t)sizeof(float), &bytes))
    return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%" PRId64 " queries with %d answers do not fit into memory", n, k);
  if (entries > 0 && !ids) return embed__null(ctx, "ids");
  if (entries > 0 && !scores) return embed__null(ctx, "scores");
  return EMBED_OK;
}

embed_status embed_nearest(embed_context *ctx, const embed_table *t, const float *queries, int64_t n, int64_t ld_queries, int32_t k, const int32_t *exclude,
                           int64_t excluded, int32_t *ids, float *scores, int32_t *count, const embed_nearest_options *opts) {
  embed_nearest_options o;
  int64_t entries;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  embed__nearest q = {.table = t, .queries = queries, .n = n, .k = k, .exclude = exclude, .excluded = excluded, .ids = ids, .scores = scores, .count = count};
  EMBED__TRY(embed__nearest_options(ctx, t, n, k, ids, scores, opts, &o));
  EMBED__TRY(embed__check_buffer(ctx, "queries", queries, EMBED_F32, n, t->dim, ld_queries, &q.ldq));
  if (excluded < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "excluded is %" PRId64, excluded);
  if (!embed__mul(n, excluded, &entries))
    return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%" PRId64 " x %" PRId64 " excluded ids do not fit in 63 bits", n, excluded);
  if (excluded == 0 || n == 0) q.exclude = NULL;
  for (int64_t i = 0; q.exclude && i < entries; ++i)
    if (exclude[i] < -1 || exclude[i] >= t->vocab)
      return embed__fail(ctx, EMBED_E_ID, i, "id %d at position %" PRId64 " of exclude is outside the vocabulary of %" PRId64 " rows", exclude[i], i, t->vocab);
  if (n == 0) return EMBED_OK;
  q.metric = o.metric;
  return embed__end(ctx, embed__nearest_run(ctx, &q));
}
