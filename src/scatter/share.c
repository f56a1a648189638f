/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_grad_share: how a tied table's gradient divides between the input and the output of a model.
 * Lopardo, Harish, Arnett, Gupta, "Weight tying biases token embeddings towards the output space", arXiv 2603.26663, 2026. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "kernels/kernels.h"
#include "scatter/dot.h"
#include "scatter/grad.h"
#include "table/table.h"
#include "thread/run.h"

enum { INPUT, OUTPUT, PRODUCT, SUMS /* of a band */ };
enum { TASKS = 64, MOST_BANDS = 4096 };

typedef struct share_job {
  const embed_context *ctx;
  const embed_grad *input, *output;
  bool of_output; /* which of them is walked; both may be the same */
  embed_share_options options;
  const unsigned char *d_out;
  embed_dtype dtype;
  int64_t n, row_bytes;
  int64_t rows_per_task;
  double *sums; /* [TASKS, bands, SUMS] */
  float *spare; /* [workers, row_floats] */
  int64_t row_floats;
} share_job;

/* How many edges are at most the row's count. */
static int64_t band_of(const share_job *job, int64_t row) {
  int64_t low = 0, high = job->options.bands - 1;
  if (high <= 0) return 0;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (job->options.edges[middle] <= job->options.counts[row])
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static const float *find_row(const embed_grad *g, int64_t row) {
  int64_t low = 0, high = g->rows;
  if (g->dense) return row < g->rows ? embed__grad_row(g, row) : NULL;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (g->ids[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low < g->rows && g->ids[low] == row ? embed__grad_row(g, low) : NULL;
}

static void add_rows(void *arg, int64_t task, int32_t worker) {
  const share_job *job = arg;
  const embed_grad *g = job->of_output ? job->output : job->input;
  int64_t end = embed__min(g->rows, (task + 1) * job->rows_per_task);
  double *sums = job->sums + task * job->options.bands * SUMS;
  (void)worker;
  for (int64_t i = task * job->rows_per_task; i < end; ++i) {
    int64_t row = embed__grad_id(g, i);
    double *band = sums + band_of(job, row) * SUMS;
    const float *values = embed__grad_row(g, i), *other = job->of_output ? NULL : find_row(job->output, row);
    band[job->of_output ? OUTPUT : INPUT] += job->ctx->kernels->row.sum_squares(values, g->dim);
    if (other) band[PRODUCT] += embed__dot_doubles(values, other, g->dim);
  }
}

static void add_positions(void *arg, int64_t task, int32_t worker) {
  const share_job *job = arg;
  int64_t end = embed__min(job->n, (task + 1) * job->rows_per_task), dim = job->input->dim;
  float *row = job->spare + worker * job->row_floats;
  double sum = 0;
  for (int64_t i = task * job->rows_per_task; i < end; ++i) {
    embed__load_row(job->ctx->kernels, job->d_out + i * job->row_bytes, job->dtype, row, dim);
    sum += job->ctx->kernels->row.sum_squares(row, dim);
  }
  job->sums[task] = sum;
}

static embed_status walk(embed_context *ctx, share_job *job, bool of_output) {
  const embed_grad *g = of_output ? job->output : job->input;
  job->of_output = of_output;
  job->rows_per_task = embed__max(1, embed__ceil_div(g->rows, TASKS));
  return embed__run(ctx, embed__ceil_div(g->rows, job->rows_per_task), add_rows, job);
}

static double ratio(double part, double whole) { return whole == 0 ? 0 : part / whole; }

/* total [SUMS], and with `bands` [bands, SUMS]: tasks in ascending order. */
static void add_up(const share_job *job, double *total, double *bands) {
  for (int64_t b = 0; b < job->options.bands; ++b) {
    double band[SUMS] = {0};
    for (int64_t task = 0; task < TASKS; ++task)
      for (int s = 0; s < SUMS; ++s) band[s] += job->sums[(task * job->options.bands + b) * SUMS + s];
    for (int s = 0; s < SUMS; ++s) total[s] += band[s];
    if (bands) memcpy(bands + b * SUMS, band, sizeof band);
  }
}

static embed_status run(embed_context *ctx, share_job *job, embed_share *share, double *bands) {
  double total[SUMS] = {0}, positions = 0;
  int64_t cells = job->options.bands * TASKS * SUMS;
  embed_share s = {.size = sizeof s, .input_rows = job->input->rows, .output_rows = job->output->rows};
  EMBED__TRY(embed__scratch_get(ctx, cells, sizeof *job->sums, &job->sums));
  if (!embed__add(job->input->dim, 15, &job->row_floats)) return embed__out_of_memory(ctx, -1);
  job->row_floats -= job->row_floats % 16;
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), job->row_floats, sizeof(float), &job->spare));
  if (job->n > 0) {
    job->rows_per_task = embed__ceil_div(job->n, TASKS);
    memset(job->sums, 0, TASKS * sizeof *job->sums);
    EMBED__TRY(embed__run(ctx, embed__ceil_div(job->n, job->rows_per_task), add_positions, job));
    for (int64_t i = 0; i < TASKS; ++i) positions += job->sums[i];
  }
  memset(job->sums, 0, (size_t)cells * sizeof *job->sums);
  EMBED__TRY(walk(ctx, job, false));
  EMBED__TRY(walk(ctx, job, true));
  add_up(job, total, NULL);
  s.input_norm = sqrt(total[INPUT]);
  s.output_norm = sqrt(total[OUTPUT]);
  s.positions_norm = sqrt(positions);
  s.norm_share = ratio(s.output_norm, s.input_norm + s.output_norm);
  s.energy_share = ratio(total[OUTPUT], total[INPUT] + total[OUTPUT]);
  s.cosine = ratio(total[PRODUCT], s.input_norm * s.output_norm);
  if (job->n > 0) s.positions_share = ratio(s.output_norm, s.positions_norm + s.output_norm);
  EMBED__TRY(embed__output(ctx, "embed_share", share, &s, sizeof s));
  if (bands) add_up(job, total, bands); /* behind what looks at share's size */
  return EMBED_OK;
}

static embed_status check_rows(embed_context *ctx, const char *name, const embed_grad *g, int64_t rows) {
  int64_t past = g->rows ? embed__grad_id(g, g->rows - 1) : -1;
  if (past < rows) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_MISMATCH, -1, "the %s's gradient has row %" PRId64 ", counts are given for %" PRId64 " rows", name, past, rows);
}

static embed_status check_bands(embed_context *ctx, share_job *job) {
  embed_share_options *o = &job->options;
  if (o->bands < 0 || o->bands > MOST_BANDS)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_share_options: %" PRId64 " bands, at most %d", o->bands, MOST_BANDS);
  if (o->rows < 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_share_options: rows is %" PRId64, o->rows);
  if (o->bands == 0) o->bands = 1;
  if (o->bands == 1) return EMBED_OK;
  if (!o->counts || !o->edges) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_share_options: %" PRId64 " bands need counts and edges", o->bands);
  for (int64_t b = 1; b + 1 < o->bands; ++b) {
    if (o->edges[b] < o->edges[b - 1])
      return embed__fail(ctx, EMBED_E_OPTION, b, "embed_share_options: edge %" PRId64 " at %" PRId64 " is below the one before it, %" PRId64, o->edges[b], b,
                         o->edges[b - 1]);
  }
  EMBED__TRY(check_rows(ctx, "input", job->input, o->rows));
  return check_rows(ctx, "output", job->output, o->rows);
}

embed_status embed_grad_share(embed_context *ctx, const embed_grad *input, const embed_grad *output, const void *d_out, embed_dtype d_out_dtype, int64_t n,
                              int64_t ld_d_out, embed_share *share, double *bands, const embed_share_options *opts) {
  share_job job = {.ctx = ctx, .input = input, .output = output, .d_out = d_out, .dtype = d_out_dtype, .n = d_out ? n : 0};
  int64_t stride;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, input);
  EMBED__NOT_NULL(ctx, output);
  EMBED__NOT_NULL(ctx, share);
  EMBED__TRY(embed__options(ctx, "embed_share_options", opts, 0, &job.options, sizeof job.options));
  if (input->dim != output->dim)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1, "the input's gradient has %" PRId64 " columns, the output's %" PRId64, input->dim, output->dim);
  EMBED__TRY(check_bands(ctx, &job));
  EMBED__TRY(embed__check_buffer(ctx, "d_out", d_out, d_out_dtype, job.n, input->dim, ld_d_out, &stride));
  job.row_bytes = job.n ? stride * embed__float_bytes(d_out_dtype) : 0;
  return embed__end(ctx, run(ctx, &job, share, bands));
}
