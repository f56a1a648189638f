/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact nearest rows. Cosine and dot product are the sweep with a top-k reducer; the distance is summed as it is
 * written, |q - w| in double, because |q|^2 - 2 q.w + |w|^2 loses what tells near rows apart. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "geometry/geometry.h"
#include "sweep/sweep.h"
#include "sweep/topk.h"
#include "thread/run.h"

typedef struct nearest_job {
  const embed_context *ctx;
  const embed__nearest *q;
  int64_t capacity, chunk, first;
  embed__ranked *entries;     /* [slots, chunk, capacity] */
  embed__topk *heaps;         /* [slots, chunk] */
  float *inverse, *q_inverse; /* 1 / norm of rows and queries, 0 for a zero row: cosine */
  float *distances, *row;     /* per worker: [block] and [dim] */
} nearest_job;

static float inverse_of(float norm) { return norm > 0 ? 1.0f / norm : 0; }

/* What is not a number ranks nowhere. */
static void drop_nan(float *z, int64_t n) {
  for (int64_t c = 0; c < n; ++c)
    if (isnan(z[c])) z[c] = -INFINITY;
}

static void offer(const nearest_job *job, int32_t slot, int64_t row, float *z, int64_t columns, int64_t column) {
  const embed__nearest *q = job->q;
  drop_nan(z, columns);
  const int32_t *exclude = q->exclude ? q->exclude + (job->first + row) * q->excluded : NULL;
  embed__topk_offer(job->ctx->kernels, &job->heaps[(int64_t)slot * job->chunk + row], z, columns, (int32_t)column, exclude, exclude ? q->excluded : 0);
}

static void take_tile(void *arg, const embed__tile *tile) {
  const nearest_job *job = arg;
  for (int64_t i = 0; i < tile->rows; ++i) {
    float *z = tile->z + i * tile->ldz;
    int64_t row = tile->first + i;
    if (job->q->metric == EMBED_METRIC_COSINE)
      for (int64_t c = 0; c < tile->columns; ++c) z[c] *= job->inverse[tile->column + c] * job->q_inverse[job->first + row];
    offer(job, tile->slot, row, z, tile->columns, tile->column);
  }
}

/* One block of rows against all queries of the chunk; the heaps rank minus the distance. */
static void distances_of_block(void *arg, int64_t task, int32_t worker) {
  const nearest_job *job = arg;
  const embed__nearest *q = job->q;
  const embed_table *t = q->table;
  float *row = job->row + (int64_t)worker * t->dim, *z = job->distances + (int64_t)worker * job->chunk * EMBED__BLOCK;
  int64_t column = task * EMBED__BLOCK, columns = embed__min(EMBED__BLOCK, t->vocab - column), rows = embed__min(job->chunk, q->n - job->first);
  for (int64_t c = 0; c < columns; ++c) {
    embed__decode(job->ctx, t, column + c, row, 1.0f);
    for (int64_t i = 0; i < rows; ++i) {
      const float *query = q->queries + (job->first + i) * q->ldq;
      double sum = 0;
      for (int64_t j = 0; j < t->dim; ++j) {
        double apart = (double)query[j] - (double)row[j];
        sum += apart * apart;
      }
      z[i * EMBED__BLOCK + c] = -(float)sqrt(sum);
    }
  }
  for (int64_t i = 0; i < rows; ++i) offer(job, worker, i, z + i * EMBED__BLOCK, columns, column);
}

static void answer(nearest_job *job, int32_t slots, int64_t row) {
  const embed__nearest *q = job->q;
  embed__topk *top = &job->heaps[row];
  for (int32_t slot = 1; slot < slots; ++slot) embed__topk_merge(top, &job->heaps[(int64_t)slot * job->chunk + row]);
  embed__topk_sort(top);
  int64_t at = job->first + row, found = 0;
  bool distance = q->metric == EMBED_METRIC_L2;
  while (found < top->count && found < q->k && !(isinf(top->entries[found].value) && top->entries[found].value < 0)) {
    q->ids[at * q->k + found] = top->entries[found].id;
    q->scores[at * q->k + found] = distance ? -top->entries[found].value : top->entries[found].value;
    ++found;
  }
  if (q->count) q->count[at] = (int32_t)found;
  for (int64_t j = found; j < q->k; ++j) {
    q->ids[at * q->k + j] = -1;
    q->scores[at * q->k + j] = distance ? INFINITY : -INFINITY;
  }
}

static embed_status take_heaps(embed_context *ctx, nearest_job *job, int64_t slots) {
  int64_t heaps = slots * job->chunk;
  EMBED__TRY(embed__scratch_matrix(ctx, heaps, job->capacity, sizeof *job->entries, &job->entries));
  return embed__scratch_get(ctx, heaps, sizeof *job->heaps, &job->heaps);
}

static void empty_heaps(nearest_job *job, int64_t slots) {
  for (int64_t i = 0; i < slots * job->chunk; ++i) job->heaps[i] = (embed__topk){.entries = job->entries + i * job->capacity, .capacity = job->capacity};
}

static embed_status cosine_norms(embed_context *ctx, nearest_job *job) {
  const embed__nearest *q = job->q;
  EMBED__TRY(embed__scratch_get(ctx, q->table->vocab, sizeof(float), &job->inverse));
  EMBED__TRY(embed__scratch_get(ctx, q->n, sizeof(float), &job->q_inverse));
  EMBED__TRY(embed__norms(ctx, q->table, job->inverse));
  for (int64_t v = 0; v < q->table->vocab; ++v) job->inverse[v] = inverse_of(job->inverse[v]);
  for (int64_t i = 0; i < q->n; ++i) job->q_inverse[i] = inverse_of((float)sqrt(ctx->kernels->row.sum_squares(q->queries + i * q->ldq, q->table->dim)));
  return EMBED_OK;
}

static embed_status by_product(embed_context *ctx, nearest_job *job) {
  const embed__nearest *q = job->q;
  embed__sweep s = {
      .table = q->table, .x = (const unsigned char *)q->queries, .x_dtype = EMBED_F32, .n = q->n, .ldx = q->ldq, .take = take_tile, .reducer = job};
  s.state_bytes = job->capacity * (int64_t)sizeof *job->entries + (int64_t)sizeof *job->heaps;
  if (q->metric == EMBED_METRIC_COSINE) EMBED__TRY(cosine_norms(ctx, job));
  EMBED__TRY(embed__sweep_begin(ctx, &s));
  job->chunk = s.chunk;
  EMBED__TRY(take_heaps(ctx, job, s.slots));
  for (job->first = 0; job->first < q->n; job->first += s.chunk) {
    empty_heaps(job, s.slots);
    EMBED__TRY(embed__sweep_chunk(ctx, &s, job->first));
    for (int64_t row = 0; row < embed__min(s.chunk, q->n - job->first); ++row) answer(job, s.slots, row);
  }
  return EMBED_OK;
}

static embed_status by_distance(embed_context *ctx, nearest_job *job) {
  enum { CHUNK = 16 };
  const embed__nearest *q = job->q;
  int32_t workers = embed__workers(ctx);
  int64_t blocks = embed__ceil_div(q->table->vocab, EMBED__BLOCK), chunks = embed__ceil_div(q->n, CHUNK);
  job->chunk = embed__min(q->n, CHUNK);
  EMBED__TRY(embed__scratch_matrix(ctx, workers, q->table->dim, sizeof(float), &job->row));
  EMBED__TRY(embed__scratch_get(ctx, workers * job->chunk * EMBED__BLOCK, sizeof(float), &job->distances));
  EMBED__TRY(take_heaps(ctx, job, workers));
  for (job->first = 0; job->first < q->n; job->first += CHUNK) {
    empty_heaps(job, workers);
    EMBED__TRY(embed__run_long(ctx, blocks, distances_of_block, job, job->first / CHUNK * blocks, chunks * blocks));
    for (int64_t row = 0; row < embed__min(job->chunk, q->n - job->first); ++row) answer(job, workers, row);
  }
  return EMBED_OK;
}

embed_status embed__nearest_run(embed_context *ctx, const embed__nearest *q) {
  nearest_job job = {.ctx = ctx, .q = q, .capacity = embed__min(q->k, q->table->vocab)};
  return q->metric == EMBED_METRIC_L2 ? by_distance(ctx, &job) : by_product(ctx, &job);
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
  if (excluded < 0 || !embed__mul(n, excluded, &entries)) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "excluded is %" PRId64, excluded);
  if (excluded == 0 || n == 0) q.exclude = NULL;
  for (int64_t i = 0; q.exclude && i < entries; ++i)
    if (exclude[i] < -1 || exclude[i] >= t->vocab)
      return embed__fail(ctx, EMBED_E_ID, i, "id %d at position %" PRId64 " of exclude is outside the vocabulary of %" PRId64 " rows", exclude[i], i, t->vocab);
  if (n == 0) return EMBED_OK;
  q.metric = o.metric;
  return embed__end(ctx, embed__nearest_run(ctx, &q));
}
