/* SPDX-License-Identifier: BSD-3-Clause */
/* A step: everything that may be refused, then the rows, each on its own. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/least.h"
#include "core/options.h"
#include "optim/history.h"
#include "scatter/grad.h"
#include "thread/run.h"

enum { TASK_BYTES = 128 << 10 }; /* of rows as floats */

typedef struct step_job {
  embed__updating u;
  const embed_grad *g;
  bool every_row; /* else those of g */
  int64_t items, grain;
  float scale;
  embed__opt_numbers numbers;
  const float *row_rates;    /* [vocab] or NULL */
  double *squares;           /* [tasks]: of the gradient, or NULL */
  _Atomic int64_t nonfinite; /* the least place of g */
} step_job;

/* Sums of squares of floats are finite in double when every float is. */
static void measure(void *arg, int64_t task, int32_t worker) {
  step_job *job = arg;
  (void)worker;
  const int64_t end = embed__min(job->g->rows, (task + 1) * job->grain);
  double sum = 0;
  for (int64_t i = task * job->grain; i < end; ++i) {
    if (embed__grad_id(job->g, i) >= job->u.o->rows || embed__is_frozen(job->u.o, embed__grad_id(job->g, i))) continue;
    const double squares = job->u.kernels->row.sum_squares(embed__grad_row(job->g, i), job->g->dim);
    if (!isfinite(squares) || !(sqrt(squares) * fabs((double)job->scale) <= (double)FLT_MAX)) embed__keep_least(&job->nonfinite, i);
    sum += squares;
  }
  job->squares[task] = sum;
}

static embed_status measure_gradient(embed_context *ctx, step_job *job, const embed_step_options *o) {
  const int64_t tasks = embed__ceil_div(job->g->rows, job->grain);
  if (tasks == 0 || (o->max_grad_norm == 0 && !(o->flags & EMBED_STEP_CHECK_FINITE))) return EMBED_OK;
  EMBED__TRY(embed__scratch_get(ctx, tasks, sizeof *job->squares, &job->squares));
  EMBED__TRY(embed__run(ctx, tasks, measure, job));
  const int64_t place = atomic_load(&job->nonfinite);
  if (place != INT64_MAX) {
    const int64_t row = embed__grad_id(job->g, place);
    return embed__fail(ctx, EMBED_E_NONFINITE, row,
                       "the gradient of row %" PRId64 " has a NaN, an infinity or a norm past the range of floats: no step was taken", row);
  }
  double squares = 0;
  for (int64_t i = 0; i < tasks; ++i) squares += job->squares[i];
  const double norm = sqrt(squares) * fabs((double)job->scale);
  if (o->max_grad_norm > 0 && norm > o->max_grad_norm) job->scale = (float)((double)job->scale * (o->max_grad_norm / (norm + 1e-6)));
  return EMBED_OK;
}

static void step_row(const step_job *job, int32_t worker, int64_t row, const float *g, int64_t next) {
  embed_optimizer *o = job->u.o;
  embed__trained_row r;
  const embed__updating *u = &job->u;
  const embed__opt_numbers *n = &job->numbers;
  embed__updating own_rate;
  embed__opt_numbers own_numbers = {0};
  if (embed__is_frozen(o, row)) {
    if (o->history) o->stamps[row] = embed__stamp_at(o->stamps[row], o->step + 1); /* it misses nothing */
    return;
  }
  if (job->row_rates) {
    own_rate = job->u;
    own_rate.lr *= (double)job->row_rates[row];
    u = &own_rate;
    o->form->numbers(&o->o, u->lr, o->step + 1, &own_numbers);
    n = &own_numbers;
  }
  embed__row_open(u, worker, row, &r);
  r.next = next;
  if (o->history) embed__catch_up(u, worker, &r, o->stamps[row]);
  embed__row_step(u, &r, embed__gradient_room(u, worker), g, job->scale, n);
  embed__row_close(u, &r, o->step + 1);
  if (o->history) o->stamps[row] = o->step + 1;
}

/* The first place of g whose id is at least row. */
static int64_t place_of(const embed_grad *g, int64_t row) {
  int64_t low = 0, high = g->rows;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (g->ids[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void step_rows(void *arg, int64_t task, int32_t worker) {
  step_job *job = arg;
  const embed_grad *g = job->g;
  const int64_t first = task * job->grain, end = embed__min(job->items, first + job->grain);
  const bool ahead = embed__fetches_ahead(&job->u);
  int64_t place = job->every_row && !g->dense ? place_of(g, first) : first;
  for (int64_t i = first; i < end; ++i) {
    if (!job->every_row || g->dense) {
      const int64_t next = i + 1 < end ? embed__grad_id(g, i + 1) : -1;
      if (next >= 0 && !ahead) embed__row_prefetch(&job->u, next);
      step_row(job, worker, embed__grad_id(g, i), embed__grad_row(g, i), ahead ? next : -1);
    } else {
      const bool has = place < g->rows && g->ids[place] == i;
      step_row(job, worker, i, has ? embed__grad_row(g, place) : NULL, -1);
      place += has;
    }
  }
}

static embed_status check_options(embed_context *ctx, const embed_optimizer *o, const embed_step_options *s, double lr) {
  if (s->reserved) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_step_options: reserved must be NULL");
  if (!(s->flags & EMBED_STEP_LR) && o->o.lr == 0)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "no learning rate: neither the optimiser has one nor the step (EMBED_STEP_LR, for a rate of 0 too)");
  if (!isfinite((float)s->lr) || s->lr < 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_step_options: lr must be finite and not negative");
  if (!isfinite((float)s->grad_scale)) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_step_options: grad_scale must be finite");
  if (!isfinite(s->max_grad_norm) || s->max_grad_norm < 0)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_step_options: max_grad_norm must be finite and not negative");
  if (o->history && !((double)(float)(lr * o->o.weight_decay) < 1))
    return embed__fail(ctx, EMBED_E_OPTION, -1, "lr * weight_decay must be below 1: a step may not take away the whole row");
  return EMBED_OK;
}

/* Past rates, which a deferred row has missed, were one for all rows. */
static embed_status check_row_rates(embed_context *ctx, const embed_optimizer *o, const float *rates, double lr) {
  if (!rates) return EMBED_OK;
  if (o->history) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s has no row_rates: rows catch up by one rate", o->form->name);
  for (int64_t r = 0; r < o->rows; ++r) {
    if (!(rates[r] >= 0) || !isfinite((float)(lr * (double)rates[r])))
      return embed__fail(ctx, EMBED_E_OPTION, r, "embed_step_options: the rate of row %" PRId64 " is negative or not finite", r);
  }
  return EMBED_OK;
}

static embed_status check_gradient(embed_context *ctx, const embed_optimizer *o, const embed_table *t, const embed_grad *g) {
  if (g->dim != o->dim) return embed__fail(ctx, EMBED_E_MISMATCH, -1, "the gradient has %" PRId64 " columns, the table %" PRId64, g->dim, o->dim);
  if (g->dense) {
    if (g->rows == o->rows || g->rows == t->rows) return EMBED_OK;
    return embed__fail(ctx, EMBED_E_MISMATCH, -1, "the dense gradient has %" PRId64 " rows, the table %" PRId64 " ids", g->rows, o->rows);
  }
  if (g->rows == 0 || g->ids[g->rows - 1] < o->rows) return EMBED_OK;
  const int64_t place = place_of(g, o->rows);
  return embed__fail(ctx, EMBED_E_ID, place, "id %" PRId64 " at position %" PRId64 " of the gradient is outside the vocabulary of %" PRId64 " rows",
                     g->ids[place], place, o->rows);
}

static embed_status step(embed_context *ctx, embed_optimizer *o, embed_table *t, const embed_grad *g, const embed_step_options *s) {
  const double lr = s->flags & EMBED_STEP_LR ? s->lr : o->o.lr;
  embed__survey survey = {0};
  step_job job = {.g = g, .row_rates = s->row_rates, .scale = s->grad_scale != 0 ? (float)s->grad_scale : 1, .grain = embed__max(1, TASK_BYTES / 4 / o->dim)};
  EMBED__TRY(check_options(ctx, o, s, lr));
  EMBED__TRY(check_row_rates(ctx, o, s->row_rates, lr));
  EMBED__TRY(check_gradient(ctx, o, t, g));
  EMBED__TRY(embed__updating_begin(ctx, o, t, &job.u));
  if (o->history) EMBED__TRY(embed__history_reserve(ctx, o));
  atomic_init(&job.nonfinite, INT64_MAX);
  EMBED__TRY(measure_gradient(ctx, &job, s));
  job.u.lr = lr;
  if (o->form->survey) EMBED__TRY(o->form->survey(ctx, &job.u, g, job.scale, &survey));
  job.u.survey = &survey;
  job.every_row = g->dense || (o->form->every_row && o->form->every_row(&o->o));
  job.items = job.every_row ? o->rows : g->rows;
  o->form->numbers(&o->o, lr, o->step + 1, &job.numbers);
  if (job.items > 0) embed__table_changed(t); /* also when an executor fails half way */
  EMBED__TRY(embed__run(ctx, embed__ceil_div(job.items, job.grain), step_rows, &job));
  ++o->step;
  if (o->history && job.every_row)
    embed__history_forget(o); /* nobody is behind */
  else if (o->history)
    embed__history_append(o, lr);
  return EMBED_OK;
}

embed_status embed_optimizer_step(embed_context *ctx, embed_optimizer *o, embed_table *t, const embed_grad *g, const embed_step_options *opts) {
  embed_step_options s;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, o);
  EMBED__NOT_NULL(ctx, t);
  EMBED__NOT_NULL(ctx, g);
  EMBED__TRY(embed__options(ctx, "embed_step_options", opts, EMBED_STEP_LR | EMBED_STEP_CHECK_FINITE, &s, sizeof s));
  EMBED__TRY(embed__optimizer_fits(ctx, o, t));
  return embed__end(ctx, step(ctx, o, t, g, &s));
}
