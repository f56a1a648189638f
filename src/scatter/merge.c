/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_grad_merge: one gradient added to another, as the input's to the head's in a tied model. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "kernels/kernels.h"
#include "scatter/insert.h"
#include "thread/run.h"

enum { TASK_BYTES = 256 << 10 };

typedef struct merge_job {
  const embed__row_kernels *kernels;
  embed_grad *into;
  const embed_grad *from;
  const int64_t *place; /* [from's rows] of a sparse `into`, ~ where the row is fresh; NULL: the row's number */
  int64_t rows_per_task;
  float scale;
  bool nothing; /* is added, not even a NaN */
} merge_job;

static void add(const embed__row_kernels *k, float *sum, const float *row, int64_t dim, float scale) {
  if (scale == 1.0f)
    k->add(sum, row, dim);
  else
    k->add_scaled(sum, row, dim, scale);
}

static void merge_rows(void *arg, int64_t task, int32_t worker) {
  const merge_job *job = arg;
  int64_t end = embed__min(job->from->rows, (task + 1) * job->rows_per_task), dim = job->from->dim;
  (void)worker;
  for (int64_t i = task * job->rows_per_task; i < end; ++i) {
    int64_t at = job->place ? job->place[i] : embed__grad_id(job->from, i);
    float *sum = embed__grad_row(job->into, at < 0 ? ~at : at);
    if (at < 0) memset(sum, 0, (size_t)dim * sizeof *sum);
    add(job->kernels, sum, embed__grad_row(job->from, i), dim, job->scale);
  }
}

/* Rows of `from` in a sparse `into`. */
static embed_status place_rows(embed_context *ctx, merge_job *job) {
  const embed_grad *from = job->from;
  const int64_t *ids = from->ids;
  int64_t *place, *all;
  if (from->dense) {
    EMBED__TRY(embed__scratch_get(ctx, from->rows, sizeof *all, &all));
    for (int64_t i = 0; i < from->rows; ++i) all[i] = i;
    ids = all;
  }
  EMBED__TRY(embed__scratch_get(ctx, from->rows, sizeof *place, &place));
  job->place = place;
  return embed__grad_insert(ctx, job->into, ids, from->rows, place);
}

static embed_status merge(embed_context *ctx, merge_job *job) {
  embed_grad *into = job->into;
  const embed_grad *from = job->from;
  float *bias = into->bias;
  if (into == from) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "a gradient cannot be added to itself");
  EMBED__TRY(embed__grad_check(ctx, into, from->rows ? embed__grad_id(from, from->rows - 1) + 1 : 0, from->dim));
  if (job->nothing) return EMBED_OK;
  if (from->bias) EMBED__TRY(embed__grad_make_bias(ctx, into, from->bias_rows, &bias));
  EMBED__TRY(embed__grad_take_bias(into, from->bias_rows, bias, into->dense || from->rows == 0 ? EMBED_OK : place_rows(ctx, job)));
  if (from->bias) add(job->kernels, into->bias, from->bias, from->bias_rows, job->scale);
  job->rows_per_task = embed__max(1, TASK_BYTES / (int64_t)sizeof(float) / from->dim);
  return embed__run(ctx, embed__ceil_div(from->rows, job->rows_per_task), merge_rows, job);
}

embed_status embed_grad_merge(embed_context *ctx, embed_grad *g, const embed_grad *from, const embed_merge_options *opts) {
  embed_merge_options o;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, g);
  EMBED__NOT_NULL(ctx, from);
  EMBED__TRY(embed__options(ctx, "embed_merge_options", opts, EMBED_MERGE_SCALE_ZERO, &o, sizeof o));
  if (!isfinite((float)o.scale)) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_merge_options: scale must be a finite float");
  if (o.flags & EMBED_MERGE_SCALE_ZERO && o.scale != 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "EMBED_MERGE_SCALE_ZERO with a scale that is not 0");
  merge_job job = {
      .kernels = &ctx->kernels->row, .into = g, .from = from, .scale = o.scale != 0 ? (float)o.scale : 1.0f, .nothing = o.flags & EMBED_MERGE_SCALE_ZERO};
  return embed__end(ctx, merge(ctx, &job));
}
