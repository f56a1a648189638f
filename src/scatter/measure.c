/* SPDX-License-Identifier: BSD-3-Clause */
/* Norms of a gradient, and clipping by them. */
#include <inttypes.h>
#include <math.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/least.h"
#include "core/options.h"
#include "kernels/kernels.h"
#include "scatter/grad.h"
#include "thread/run.h"

enum { TASK_BYTES = 256 << 10 };

typedef struct walk {
  const embed__row_kernels *kernels;
  const embed_grad *g;
  int64_t rows_per_task;
  double *squares; /* [tasks] */
  _Atomic int64_t first_nonfinite;
  double max_row_norm;
  float factor;
} walk;

static int64_t tasks_of(walk *w) {
  w->rows_per_task = embed__max(1, TASK_BYTES / (int64_t)sizeof(float) / w->g->dim);
  return embed__ceil_div(w->g->rows, w->rows_per_task);
}

/* Squares of floats do not overflow a double: a sum that is not finite has a value that is not. */
static void measure_rows(void *arg, int64_t task, int32_t worker) {
  walk *w = arg;
  int64_t end = embed__min(w->g->rows, (task + 1) * w->rows_per_task);
  double sum = 0;
  (void)worker;
  for (int64_t i = task * w->rows_per_task; i < end; ++i) {
    double squares = w->kernels->sum_squares(embed__grad_row(w->g, i), w->g->dim);
    if (!isfinite(squares)) embed__keep_least(&w->first_nonfinite, i);
    sum += squares;
  }
  w->squares[task] = sum;
}

embed_status embed__grad_measure(embed_context *ctx, const embed_grad *g, embed__grad_norms *out) {
  walk w = {.kernels = &ctx->kernels->row, .g = g, .first_nonfinite = INT64_MAX};
  int64_t tasks = tasks_of(&w);
  *out = (embed__grad_norms){.first_nonfinite = -1, .bias_nonfinite = -1};
  EMBED__TRY(embed__scratch_get(ctx, tasks, sizeof *w.squares, &w.squares));
  EMBED__TRY(embed__run(ctx, tasks, measure_rows, &w));
  for (int64_t i = 0; i < tasks; ++i) out->squares += w.squares[i];
  if (w.first_nonfinite < g->rows) out->first_nonfinite = w.first_nonfinite;
  if (!g->bias) return EMBED_OK;
  out->bias_squares = w.kernels->sum_squares(g->bias, g->bias_rows);
  if (isfinite(out->bias_squares)) return EMBED_OK;
  for (out->bias_nonfinite = 0; isfinite(g->bias[out->bias_nonfinite]);) ++out->bias_nonfinite;
  return EMBED_OK;
}

embed_status embed__grad_check_finite(embed_context *ctx, const embed_grad *g, embed__grad_norms *norms) {
  embed__grad_norms ours;
  EMBED__TRY(embed__grad_measure(ctx, g, &ours));
  if (ours.first_nonfinite >= 0) {
    int64_t row = embed__grad_id(g, ours.first_nonfinite);
    return embed__fail(ctx, EMBED_E_NONFINITE, row, "the gradient of row %" PRId64 " holds a NaN or an infinity", row);
  }
  if (ours.bias_nonfinite >= 0)
    return embed__fail(ctx, EMBED_E_NONFINITE, ours.bias_nonfinite, "the bias's gradient at row %" PRId64 " is a NaN or an infinity", ours.bias_nonfinite);
  if (norms) *norms = ours;
  return EMBED_OK;
}

static void clip_rows(void *arg, int64_t task, int32_t worker) {
  walk *w = arg;
  int64_t end = embed__min(w->g->rows, (task + 1) * w->rows_per_task);
  (void)worker;
  for (int64_t i = task * w->rows_per_task; i < end; ++i) {
    float *row = embed__grad_row(w->g, i);
    double factor = embed__clip_factor(sqrt(w->kernels->sum_squares(row, w->g->dim)), w->max_row_norm);
    if (factor < 1) w->kernels->scale(row, w->g->dim, (float)factor);
  }
}

static void scale_rows(void *arg, int64_t task, int32_t worker) {
  walk *w = arg;
  int64_t end = embed__min(w->g->rows, (task + 1) * w->rows_per_task);
  (void)worker;
  for (int64_t i = task * w->rows_per_task; i < end; ++i) w->kernels->scale(embed__grad_row(w->g, i), w->g->dim, w->factor);
}

static embed_status clip(embed_context *ctx, embed_grad *g, double *norm, const embed_clip_options *o) {
  walk w = {.kernels = &ctx->kernels->row, .g = g, .max_row_norm = o->max_row_norm};
  int64_t tasks = tasks_of(&w);
  embed__grad_norms norms;
  EMBED__TRY(embed__grad_check_finite(ctx, g, &norms));
  double before = sqrt(norms.squares + norms.bias_squares), after = before;
  if (o->max_row_norm > 0) {
    double *partial; /* what the second measure takes: had before the first write */
    EMBED__TRY(embed__scratch_get(ctx, tasks, sizeof *partial, &partial));
    w.squares = partial;
    EMBED__TRY(embed__run(ctx, tasks, clip_rows, &w));
    EMBED__TRY(embed__run(ctx, tasks, measure_rows, &w));
    norms.squares = 0;
    for (int64_t i = 0; i < tasks; ++i) norms.squares += partial[i];
    after = sqrt(norms.squares + norms.bias_squares);
  }
  w.factor = (float)embed__clip_factor(after, o->max_norm);
  if (w.factor < 1) {
    EMBED__TRY(embed__run(ctx, tasks, scale_rows, &w));
    if (g->bias) w.kernels->scale(g->bias, g->bias_rows, w.factor);
  }
  if (norm) *norm = before;
  return EMBED_OK;
}

embed_status embed_grad_clip(embed_context *ctx, embed_grad *g, double *norm, const embed_clip_options *opts) {
  embed_clip_options o;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, g);
  EMBED__TRY(embed__options(ctx, "embed_clip_options", opts, 0, &o, sizeof o));
  if (!(o.max_row_norm >= 0)) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_clip_options: max_row_norm must not be negative or NaN");
  if (!(o.max_norm >= 0)) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_clip_options: max_norm must not be negative or NaN");
  return embed__end(ctx, clip(ctx, g, norm, &o));
}
