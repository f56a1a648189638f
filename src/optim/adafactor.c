/* SPDX-License-Identifier: BSD-3-Clause */
/* Adafactor on the matrix of the rows with gradient, as torch.optim.Adafactor on a whole one (d = 1, eps = (epsilon, 1e-3)):
 * share = step^-0.8, r += share * (mean of g^2 by row - r), c += share * (mean by column - c), v = max(r c / mean(c), epsilon^2),
 * u = g / sqrt(v), w -= lr * weight_decay * w + min(lr, 1 / sqrt(step)) * max(1e-3, RMS(w)) / max(1, RMS(u)) * u.
 * r's share is that of the row's own steps, else a row met late would begin with a v next to 0. The mean of c is that of r where all rows
 * have gradient, and knows the rows without it where not. Shazeer and Stern, "Adafactor", 2018. */
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "optim/optim.h"
#include "scatter/grad.h"
#include "thread/run.h"

enum { SEGMENTS = 64 };

static const double least_rms = 1e-3, share_power = -0.8;

typedef struct survey_job {
  const embed__updating *u;
  const embed_grad *g;
  int64_t items, segments;
  double squared_scale;
  double *columns; /* [segments, dim] sums of g^2 */
  double *weights; /* [segments] sums of w^2 */
  double *updates; /* [segments] sums of u^2 */
  int64_t *rows;   /* [segments] that are not frozen */
  float *profile;  /* [dim] c / mean(c) */
} survey_job;

static double at_least(double least, double x) { return x < least ? least : x; } /* a NaN stays, where fmax would hide it */
static double at_most(double most, double x) { return x > most ? most : x; }
static double share_at(int64_t step) { return pow((double)step, share_power); }

static float row_mean(const embed_optimizer *o, int64_t row, double mean) {
  const double r = (double)o->scalars[row];
  return (float)(r + share_at(o->stamps[row] + 1) * (mean - r));
}

static double mean_square(const survey_job *job, int64_t i) {
  const double sum = job->squared_scale * job->u->kernels->row.sum_squares(embed__grad_row(job->g, i), job->g->dim);
  return at_most((double)EMBED__MOST_SQUARE, sum / (double)job->g->dim);
}

static void sum_segment(void *arg, int64_t segment, int32_t worker) {
  const survey_job *job = arg;
  const embed_optimizer *o = job->u->o;
  const int64_t dim = o->dim, end = job->items * (segment + 1) / job->segments;
  double *columns = job->columns + segment * dim, weights = 0;
  int64_t rows = 0;
  memset(columns, 0, (size_t)dim * sizeof *columns);
  for (int64_t i = job->items * segment / job->segments; i < end; ++i) {
    const float *g = embed__grad_row(job->g, i);
    embed__trained_row r;
    if (embed__is_frozen(o, embed__grad_id(job->g, i))) continue;
    embed__row_open(job->u, worker, embed__grad_id(job->g, i), &r);
    weights += job->u->kernels->row.sum_squares(r.w, dim);
    for (int64_t j = 0; j < dim; ++j) columns[j] += (double)g[j] * (double)g[j];
    ++rows;
  }
  job->weights[segment] = weights;
  job->rows[segment] = rows;
}

static void update_segment(void *arg, int64_t segment, int32_t worker) {
  const survey_job *job = arg;
  const embed_optimizer *o = job->u->o;
  const double least = o->o.epsilon * o->o.epsilon;
  const int64_t dim = o->dim, end = job->items * (segment + 1) / job->segments;
  double sum = 0;
  (void)worker;
  for (int64_t i = job->items * segment / job->segments; i < end; ++i) {
    const float *g = embed__grad_row(job->g, i);
    if (embed__is_frozen(o, embed__grad_id(job->g, i))) continue;
    const double r = (double)row_mean(o, embed__grad_id(job->g, i), mean_square(job, i));
    for (int64_t j = 0; j < dim; ++j) {
      const double v = at_least(least, at_most((double)EMBED__MOST_SQUARE, r * (double)job->profile[j]));
      if (v != 0) sum += (double)g[j] * (double)g[j] / v;
    }
  }
  job->updates[segment] = sum * job->squared_scale;
}

/* c after this step, into the first segment's sums; the profile. */
static void make_profile(const survey_job *job, int64_t rows) {
  const embed_optimizer *o = job->u->o;
  const double share = share_at(o->step + 1);
  double mean = 0, *c = job->columns;
  for (int64_t j = 0; j < o->dim; ++j) {
    for (int64_t s = 1; s < job->segments; ++s) c[j] += job->columns[s * o->dim + j];
    c[j] = (double)o->columns[j] + share * (c[j] * job->squared_scale / (double)rows - (double)o->columns[j]);
    mean += c[j] / (double)o->dim;
  }
  mean = at_least(o->o.epsilon, mean);
  for (int64_t j = 0; j < o->dim; ++j) job->profile[j] = mean == 0 ? 0 : (float)(c[j] / mean);
}

static embed_status survey(embed_context *ctx, const embed__updating *u, const embed_grad *g, float scale, embed__survey *out) {
  const embed_optimizer *o = u->o;
  survey_job job = {.u = u, .g = g, .items = embed__min(g->rows, o->rows), .segments = SEGMENTS, .squared_scale = (double)scale * (double)scale};
  int64_t rows = 0;
  double weights = 0, updates = 0;
  EMBED__TRY(embed__scratch_matrix(ctx, job.segments, o->dim, sizeof *job.columns, &job.columns));
  EMBED__TRY(embed__scratch_get(ctx, job.segments, sizeof *job.weights, &job.weights));
  EMBED__TRY(embed__scratch_get(ctx, job.segments, sizeof *job.updates, &job.updates));
  EMBED__TRY(embed__scratch_get(ctx, job.segments, sizeof *job.rows, &job.rows));
  EMBED__TRY(embed__scratch_get(ctx, o->dim, sizeof *job.profile, &job.profile));
  EMBED__TRY(embed__run(ctx, job.segments, sum_segment, &job));
  for (int64_t s = 0; s < job.segments; ++s) {
    rows += job.rows[s];
    weights += job.weights[s];
  }
  if (rows == 0) return EMBED_OK; /* nor is any updated */
  make_profile(&job, rows);
  EMBED__TRY(embed__run(ctx, job.segments, update_segment, &job));
  for (int64_t s = 0; s < job.segments; ++s) updates += job.updates[s];
  const double numbers = (double)rows * (double)o->dim;
  *out = (embed__survey){job.profile, (float)(at_least(least_rms, sqrt(weights / numbers)) / at_least(1, sqrt(updates / numbers))),
                         (float)(1 / sqrt((double)(o->step + 1)))};
  for (int64_t j = 0; j < o->dim; ++j) o->columns[j] = (float)at_most((double)EMBED__MOST_SQUARE, job.columns[j]);
  return EMBED_OK;
}

static void numbers(const embed_optimizer_options *o, double lr, int64_t step, embed__opt_numbers *n) {
  n->rest1 = (float)share_at(step);
  n->rate = (float)lr;
  n->shrink = (float)(lr * o->weight_decay);
  n->beta2 = 1;
}

static void update(const embed__kernels *k, const embed_optimizer_options *o, const embed__opt_numbers *n, embed__trained_row *r) {
  const embed__survey *s = r->survey;
  const float least = (float)(o->epsilon * o->epsilon);
  embed__opt_numbers own = *n;
  own.lr = (n->rate < s->most ? n->rate : s->most) * s->factor;
  const float mean = (float)at_most((double)EMBED__MOST_SQUARE, k->row.sum_squares(r->g, r->dim) / (double)r->dim);
  r->scalars[0] += n->rest1 * (mean - r->scalars[0]);
  for (int64_t j = 0; j < r->dim; ++j) {
    const float v = r->scalars[0] * s->profile[j];
    r->work[j] = v < least ? least : (float)at_most((double)EMBED__MOST_SQUARE, (double)v);
  }
  if (n->shrink != 0) k->opt.shrink(r->w, r->dim, n->shrink);
  k->opt.rmsprop(r->w, r->g, r->work, r->dim, &own); /* with a second moment that stays as it is: w -= lr g / sqrt(v) */
}

const embed__optimizer_form embed__optimizer_adafactor = {.name = "adafactor",
                                                          .takes = EMBED__TAKES_EPSILON | EMBED__TAKES_DECAY,
                                                          .flags = EMBED_OPTIM_EPSILON_ZERO,
                                                          .scalars = 1,
                                                          .columns = true,
                                                          .own_step = true,
                                                          .epsilon = 0x1p-23,
                                                          .numbers = numbers,
                                                          .survey = survey,
                                                          .update = update};
