/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of a list changed where they lie, each once: embed_table_renorm_rows, embed_table_add_rows. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/least.h"
#include "core/options.h"
#include "core/sort.h"
#include "table/table.h"
#include "thread/run.h"

typedef struct listed {
  int64_t row, position;
} listed;

typedef struct update_job {
  const embed_context *ctx;
  embed_table *t;
  listed *list;          /* [n], by row, then by position */
  int64_t *first;        /* [distinct + 1] of each row in the list */
  float *scratch;        /* [workers, 2 dim] */
  unsigned char *packed; /* [workers, packed_bytes]; NULL: rows are written */
  const embed_rows_options *o;
  int64_t distinct, grain;
  double max_norm, norm_type;
  const unsigned char *src; /* [n, dim] of dtype, ld elements apart */
  int64_t ld;
  embed_dtype dtype;
  float alpha;
  _Atomic int64_t refused; /* the least position of a row that cannot be stored */
} update_job;

static bool is_before(const void *a, const void *b) {
  const listed *x = a, *y = b;
  return x->row != y->row ? x->row < y->row : x->position < y->position;
}

static embed_status order(embed_context *ctx, update_job *job, const int64_t *ids, int64_t n) {
  bool sorted = true;
  EMBED__TRY(embed__scratch_get(ctx, n, sizeof *job->list, &job->list));
  EMBED__TRY(embed__scratch_get(ctx, n + 1, sizeof *job->first, &job->first));
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), 2 * job->t->dim, sizeof(float), &job->scratch));
  for (int64_t i = 0; i < n; ++i) {
    job->list[i] = (listed){ids[i], i};
    sorted = sorted && (i == 0 || ids[i - 1] <= ids[i]);
  }
  if (!sorted) embed__sort(job->list, n, sizeof *job->list, is_before);
  for (int64_t i = 0; i < n; ++i)
    if (i == 0 || job->list[i].row != job->list[i - 1].row) job->first[job->distinct++] = i;
  job->first[job->distinct] = n;
  job->grain = embed__rows_per_task(job->t->dim);
  return EMBED_OK;
}

/* The i-th row of the list, to the table or to see whether it could be. */
static void store(update_job *job, int64_t i, const float *row, int32_t worker) {
  const embed_table *t = job->t;
  const listed *at = &job->list[job->first[i]];
  embed__noise noise = {.seed = job->o->seed, .row = (uint64_t)at->row, .dim = t->dim};
  unsigned char *to = job->packed ? job->packed + (int64_t)worker * t->packed_bytes : t->data + at->row * t->row_bytes;
  if (!t->codec->encode(job->ctx->kernels, row, to, t->dim, t->group, job->o->flags & EMBED_ROWS_STOCHASTIC ? &noise : NULL))
    embed__keep_least(&job->refused, at->position);
}

/* Where the dtype can refuse a row, all rows are encoded into scratch first: one that cannot be stored leaves the table as it was. what: of
 * the refused one, before its position. */
static embed_status write_rows(embed_context *ctx, update_job *job, const int64_t *ids, int64_t n, embed_task *rows, const char *what) {
  EMBED__TRY(order(ctx, job, ids, n));
  const int64_t tasks = embed__ceil_div(job->distinct, job->grain);
  if (job->t->codec->finite_only) {
    EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), job->t->packed_bytes, 1, &job->packed));
    EMBED__TRY(embed__run(ctx, tasks, rows, job));
    const int64_t refused = atomic_load(&job->refused);
    if (refused != INT64_MAX) return embed__refuse_row(ctx, what, refused, job->t);
    job->packed = NULL;
  }
  embed__table_changed(job->t);
  return embed__run(ctx, tasks, rows, job);
}

/* Scaled by the largest magnitude: no power overflows, and none of a row that is not all zeros vanishes. */
static double power_norm(const float *row, int64_t dim, double p, double largest) {
  double sum = 0;
  if (largest == 0 || isinf(p)) return largest;
  for (int64_t j = 0; j < dim; ++j) sum += pow(fabs((double)row[j]) / largest, p);
  return largest * pow(sum, 1 / p);
}

static double norm_of(const update_job *job, const float *row) {
  const int64_t dim = job->t->dim;
  double largest = 0, sum = 0;
  if (job->norm_type == 2) return sqrt(job->ctx->kernels->row.sum_squares(row, dim));
  for (int64_t j = 0; j < dim; ++j) {
    double x = fabs((double)row[j]);
    if (!(x <= FLT_MAX)) return NAN;
    largest = fmax(largest, x);
    sum += x;
  }
  return job->norm_type == 1 ? sum : power_norm(row, dim, job->norm_type, largest);
}

static void renorm_rows(void *arg, int64_t task, int32_t worker) {
  update_job *job = arg;
  const embed_table *t = job->t;
  float *row = job->scratch + (int64_t)worker * 2 * t->dim;
  const int64_t end = embed__min(job->distinct, (task + 1) * job->grain);
  for (int64_t i = task * job->grain; i < end; ++i) {
    embed__decode(job->ctx, t, job->list[job->first[i]].row, row, 1.0f);
    float norm = (float)norm_of(job, row);
    if (!(norm > job->max_norm) || isinf(norm)) continue;
    job->ctx->kernels->row.scale(row, t->dim, (float)(job->max_norm / ((double)norm + 1e-7)));
    store(job, i, row, worker); /* finite and smaller than it was, but what stood there may have been past what its dtype's encoder gives */
  }
}

embed_status embed_table_renorm_rows(embed_context *ctx, embed_table *t, const int64_t *ids, int64_t n, double max_norm, double norm_type,
                                     const embed_rows_options *opts) {
  embed_rows_options o;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  EMBED__TRY(embed__rows_options(ctx, t, opts, &o));
  if (!(max_norm >= 0 && max_norm <= DBL_MAX)) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "max_norm must be finite and not negative");
  if (!(norm_type >= 0)) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "norm_type must be positive (0 = 2), or INFINITY");
  EMBED__TRY(embed__check_stored_rows(ctx, t, ids, n));
  if (n == 0) return embed__end(ctx, EMBED_OK);
  update_job job = {.ctx = ctx, .t = t, .o = &o, .max_norm = max_norm, .norm_type = norm_type == 0 ? 2 : norm_type, .refused = INT64_MAX};
  return embed__end(ctx, write_rows(ctx, &job, ids, n, renorm_rows, "the shortened row of position"));
}

static void add_rows(void *arg, int64_t task, int32_t worker) {
  update_job *job = arg;
  const embed_table *t = job->t;
  const embed__kernels *kernels = job->ctx->kernels;
  float *row = job->scratch + (int64_t)worker * 2 * t->dim, *given = row + t->dim;
  const int64_t end = embed__min(job->distinct, (task + 1) * job->grain);
  for (int64_t i = task * job->grain; i < end; ++i) {
    embed__decode(job->ctx, t, job->list[job->first[i]].row, row, 1.0f);
    for (int64_t k = job->first[i]; k < job->first[i + 1]; ++k) {
      embed__load_row(kernels, job->src + job->list[k].position * job->ld * embed__float_bytes(job->dtype), job->dtype, given, t->dim);
      kernels->row.add_scaled(row, given, t->dim, job->alpha);
    }
    store(job, i, row, worker);
  }
}

embed_status embed_table_add_rows(embed_context *ctx, embed_table *t, const int64_t *ids, int64_t n, double alpha, const void *src, embed_dtype src_dtype,
                                  int64_t ld_src, const embed_rows_options *opts) {
  embed_rows_options o;
  update_job job = {.ctx = ctx, .t = t, .o = &o, .src = src, .dtype = src_dtype, .alpha = (float)alpha, .refused = INT64_MAX};
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  EMBED__TRY(embed__rows_options(ctx, t, opts, &o));
  if (!isfinite(job.alpha)) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "alpha must be a finite float");
  EMBED__TRY(embed__check_buffer(ctx, "src", src, src_dtype, n, t->dim, ld_src, &job.ld));
  EMBED__TRY(embed__check_stored_rows(ctx, t, ids, n));
  return embed__end(ctx, n == 0 ? EMBED_OK : write_rows(ctx, &job, ids, n, add_rows, "the sum of src row"));
}
