/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_norm_rows, in place. RMS: x / sqrt(mean(x^2) + epsilon) (Zhang, Sennrich, 2019). Layer: (x - mean) /
 * sqrt(variance + epsilon), the biased variance in two passes (Ba, Kiros, Hinton, 2016). Then * weight + bias. Double
 * throughout; a value is rounded to float once, then to x's dtype. */
#include <embed/lookup.h>
#include <inttypes.h>
#include <math.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "gather/rows.h"
#include "thread/run.h"

typedef struct norm_job {
  const embed__kernels *kernels;
  const float *weight, *bias; /* [dim] or NULL */
  embed__sink x;
  embed__work_rows work; /* per worker: the row */
  double epsilon;
  double weight_offset; /* 1 where weights are stored minus one */
  int64_t rows_per_task;
  bool layer;
} norm_job;

enum { ROW, WORK_ROWS };

/* 16 lanes, as kernels/row.h sums squares: one fixed order, and no chain of additions to wait for. */
enum { LANES = 16 };

static double sum_of_lanes(double lane[LANES]) {
  for (int half = LANES / 2; half >= 1; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

static double mean_of(const float *row, int64_t dim) {
  double lane[LANES] = {0};
  int64_t j = 0;
  for (; j + LANES <= dim; j += LANES)
    for (int i = 0; i < LANES; ++i) lane[i] += (double)row[j + i];
  for (; j < dim; ++j) lane[j % LANES] += (double)row[j];
  return sum_of_lanes(lane) / (double)dim;
}

static double variance_of(const float *row, int64_t dim, double mean) {
  double lane[LANES] = {0};
  int64_t j = 0;
  for (; j + LANES <= dim; j += LANES)
    for (int i = 0; i < LANES; ++i) lane[i] += ((double)row[j + i] - mean) * ((double)row[j + i] - mean);
  for (; j < dim; ++j) lane[j % LANES] += ((double)row[j] - mean) * ((double)row[j] - mean);
  return sum_of_lanes(lane) / (double)dim;
}

static void norm_row(const norm_job *job, float *row) {
  int64_t dim = job->x.dim;
  double mean = job->layer ? mean_of(row, dim) : 0;
  double power = job->layer ? variance_of(row, dim, mean) : job->kernels->row.sum_squares(row, dim) / (double)dim;
  double factor = 1 / sqrt(power + job->epsilon);
  for (int64_t j = 0; j < dim; ++j) {
    double value = ((double)row[j] - mean) * factor;
    if (job->weight) value *= job->weight_offset + (double)job->weight[j];
    if (job->bias) value += (double)job->bias[j];
    row[j] = (float)value;
  }
}

static void norm_rows(void *arg, int64_t task, int32_t worker) {
  const norm_job *job = arg;
  float *row = embed__work_row(&job->work, worker, ROW);
  int64_t first = task * job->rows_per_task, end = embed__min(job->x.n, first + job->rows_per_task);
  for (int64_t i = first; i < end; ++i) {
    unsigned char *x = embed__sink_row(&job->x, i);
    embed__load_row(job->kernels, x, job->x.dtype, row, job->x.dim);
    norm_row(job, row);
    embed__store_row(job->kernels, row, x, job->x.dtype, job->x.dim);
  }
}

static embed_status run(embed_context *ctx, norm_job *job) {
  if (job->x.n == 0) return EMBED_OK;
  job->rows_per_task = embed__rows_per_task(job->x.width_bytes);
  EMBED__TRY(embed__work_rows_take(ctx, WORK_ROWS, job->x.dim, &job->work));
  return embed__run(ctx, embed__ceil_div(job->x.n, job->rows_per_task), norm_rows, job);
}

embed_status embed_norm_rows(embed_context *ctx, void *x, embed_dtype x_dtype, int64_t n, int64_t dim, int64_t ld_x, const float *weight, const float *bias,
                             const embed_norm_options *opts) {
  embed_norm_options o;
  norm_job job = {.weight = weight, .bias = bias};
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__options(ctx, "embed_norm_options", opts, EMBED_NORM_LAYER | EMBED_NORM_PLUS_ONE, &o, sizeof o));
  if (!isfinite(o.epsilon) || o.epsilon < 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_norm_options: epsilon must be finite and not negative");
  if (o.reserved != 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_norm_options: reserved is %d, it must be 0", o.reserved);
  if (dim < 1) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "dim is %" PRId64 ", a row has at least 1 column", dim);
  job.kernels = ctx->kernels;
  job.layer = o.flags & EMBED_NORM_LAYER;
  job.weight_offset = o.flags & EMBED_NORM_PLUS_ONE ? 1 : 0;
  job.epsilon = (double)(o.epsilon != 0 ? o.epsilon : job.layer ? 1e-5f : 1e-6f);
  EMBED__TRY(embed__sink_open(ctx, "x", x, x_dtype, n, dim, ld_x, false, &job.x));
  return embed__end(ctx, run(ctx, &job));
}
