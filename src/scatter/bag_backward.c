/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_bag_backward. Each mode comes down to one weight per position of the row that its bag's gradient adds to; with MAX
 * and MIN each column of it goes to one position instead. */
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

typedef struct bag_job {
  const embed_context *ctx;
  const embed_table *t;
  embed__ids ids;
  embed__id_policy policy;
  const int64_t *offsets; /* [bags + 1] */
  const float *weights;   /* [n] or NULL */
  int64_t bags;
  embed_bag_mode mode;
  embed__upstream up;
  int64_t *source;    /* [n] bag of a position */
  float *factors;     /* [n] weight of a position, NULL: 1 or the caller's */
  float *divisors;    /* [bags] what the pooled sum was divided by; 0: the bag gave zeros */
  int32_t *best;      /* [bags, dim] with MAX and MIN: the position within the bag */
  float *d_weights;   /* [n] or NULL */
  float *work;        /* per worker: rows of dim floats */
  int64_t row_floats; /* of work */
  int64_t bags_per_task;
} bag_job;

enum { ROW, BEST_VALUE, UPSTREAM, WORK_ROWS };

static float *work_row(const bag_job *job, int32_t worker, int which) { return job->work + (worker * WORK_ROWS + which) * job->row_floats; }
static int64_t stored_at(const bag_job *job, int64_t position) { return embed__row_of_id(&job->policy, embed__id_at(&job->ids, position)); }
static bool is_extreme(const bag_job *job) { return job->mode == EMBED_BAG_MAX || job->mode == EMBED_BAG_MIN; }

/* What the forward call divided by: counted and summed as there. */
static float divisor_of(const bag_job *job, int64_t bag) {
  double rows = 0, weights = 0, squares = 0;
  for (int64_t j = job->offsets[bag]; j < job->offsets[bag + 1]; ++j) {
    if (stored_at(job, j) == EMBED__ROW_PADDING) continue;
    double weight = job->weights ? (double)job->weights[j] : 1.0;
    rows += 1;
    weights += weight;
    squares += weight * weight;
  }
  switch (job->mode) {
    case EMBED_BAG_MEAN: return (float)rows;
    case EMBED_BAG_WEIGHTED_MEAN: return (float)weights;
    case EMBED_BAG_SQRT_N: return (float)sqrt(squares);
    default: return 1;
  }
}

static void weigh_bags(void *arg, int64_t task, int32_t worker) {
  const bag_job *job = arg;
  int64_t end = embed__min(job->bags, (task + 1) * job->bags_per_task);
  (void)worker;
  for (int64_t b = task * job->bags_per_task; b < end; ++b) {
    float divisor = divisor_of(job, b);
    job->divisors[b] = divisor;
    for (int64_t j = job->offsets[b]; j < job->offsets[b + 1]; ++j) {
      job->source[j] = b;
      if (job->factors) job->factors[j] = divisor == 0 ? 0.0f : (float)((job->weights ? (double)job->weights[j] : 1.0) / (double)divisor);
    }
  }
}

static const float *stored_row(const bag_job *job, int64_t stored, float *row) {
  if (stored == EMBED__ROW_ZERO)
    memset(row, 0, (size_t)job->t->dim * sizeof *row);
  else
    embed__decode(job->ctx, job->t, stored, row, 1.0f);
  return row;
}

/* Of equals the first, and a NaN, once it has won, stays: as the forward call. */
static void keep_best(bool max, const float *row, int64_t dim, int32_t own, float *value, int32_t *best) {
  for (int64_t c = 0; c < dim; ++c) {
    bool wins = (max ? row[c] > value[c] : row[c] < value[c]) || (isnan(row[c]) && !isnan(value[c]));
    value[c] = wins ? row[c] : value[c];
    best[c] = wins ? own : best[c];
  }
}

static void find_best(void *arg, int64_t task, int32_t worker) {
  const bag_job *job = arg;
  int64_t end = embed__min(job->bags, (task + 1) * job->bags_per_task), dim = job->t->dim;
  float *row = work_row(job, worker, ROW), *value = work_row(job, worker, BEST_VALUE);
  for (int64_t b = task * job->bags_per_task; b < end; ++b) {
    int32_t *best = job->best + b * dim;
    bool first = true;
    for (int64_t j = job->offsets[b]; j < job->offsets[b + 1]; ++j) {
      int64_t stored = stored_at(job, j);
      int32_t own = (int32_t)(j - job->offsets[b]);
      if (stored == EMBED__ROW_PADDING) continue;
      stored_row(job, stored, first ? value : row);
      if (first)
        for (int64_t c = 0; c < dim; ++c) best[c] = own;
      else
        keep_best(job->mode == EMBED_BAG_MAX, row, dim, own, value, best);
      first = false;
    }
  }
}

/* With p_j = <g, W_j> and D the divisor: SUM p_j, MEAN p_j / D, WEIGHTED_MEAN (p_j - <g, out>) / D, SQRT_N (p_j - w_j / D <g, out>) / D. */
static void weigh_positions(void *arg, int64_t task, int32_t worker) {
  const bag_job *job = arg;
  int64_t end = embed__min(job->bags, (task + 1) * job->bags_per_task), dim = job->t->dim;
  float *row = work_row(job, worker, ROW), *g = work_row(job, worker, UPSTREAM);
  for (int64_t b = task * job->bags_per_task; b < end; ++b) {
    int64_t first = job->offsets[b], last = job->offsets[b + 1];
    double divisor = (double)job->divisors[b], pooled = 0; /* <g, sum of the bag> */
    if (divisor == 0) {
      if (last > first) memset(job->d_weights + first, 0, (size_t)(last - first) * sizeof(float));
      continue;
    }
    embed__load_row(job->ctx->kernels, job->up.at + b * job->up.row_bytes, job->up.dtype, g, dim);
    for (int64_t j = first; j < last; ++j) {
      int64_t stored = stored_at(job, j);
      double p = stored < 0 ? 0 : embed__dot_doubles(g, stored_row(job, stored, row), dim);
      job->d_weights[j] = (float)(p / divisor);
      pooled += (job->weights ? (double)job->weights[j] : 1.0) * (stored < 0 ? 0 : p);
    }
    if (job->mode != EMBED_BAG_WEIGHTED_MEAN && job->mode != EMBED_BAG_SQRT_N) continue;
    for (int64_t j = first; j < last; ++j) {
      int64_t stored = stored_at(job, j);
      double share = job->mode == EMBED_BAG_SQRT_N ? (job->weights ? (double)job->weights[j] : 1.0) / divisor : 1.0;
      double p = stored < 0 ? 0 : embed__dot_doubles(g, stored_row(job, stored, row), dim);
      job->d_weights[j] = stored == EMBED__ROW_PADDING ? 0.0f : (float)((p - share * pooled / divisor) / divisor);
    }
  }
}

static embed_status check_lengths(embed_context *ctx, const bag_job *job) {
  for (int64_t b = 0; b < job->bags; ++b) {
    int64_t length = job->offsets[b + 1] - job->offsets[b];
    if (length > INT32_MAX) return embed__fail(ctx, EMBED_E_UNSUPPORTED, b, "bag %" PRId64 " has %" PRId64 " ids, MAX and MIN take 2^31 - 1", b, length);
  }
  return EMBED_OK;
}

/* Everything that may fail, but for the gradient's own memory, stands before the gradient. */
static embed_status take_memory(embed_context *ctx, bag_job *job, bool adds) {
  int64_t floats = -1;
  bool divides = job->mode == EMBED_BAG_MEAN || job->mode == EMBED_BAG_WEIGHTED_MEAN || job->mode == EMBED_BAG_SQRT_N;
  EMBED__TRY(embed__scratch_get(ctx, job->ids.n, sizeof *job->source, &job->source));
  EMBED__TRY(embed__scratch_get(ctx, job->bags, sizeof *job->divisors, &job->divisors));
  if (divides) EMBED__TRY(embed__scratch_get(ctx, job->ids.n, sizeof *job->factors, &job->factors));
  if (is_extreme(job) && adds) EMBED__TRY(embed__scratch_matrix(ctx, job->bags, job->t->dim, sizeof *job->best, &job->best));
  if (!embed__add(job->t->dim, 15, &job->row_floats)) return embed__out_of_memory(ctx, -1);
  job->row_floats -= job->row_floats % 16;
  (void)embed__mul(job->row_floats, WORK_ROWS, &floats);
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), floats, sizeof(float), &job->work));
  enum { TASKS = 64 };
  job->bags_per_task = embed__ceil_div(job->bags, TASKS);
  return EMBED_OK;
}

static embed_status run(embed_context *ctx, bag_job *job, embed_grad *g) {
  int64_t replaced;
  EMBED__TRY(embed__check_offsets(ctx, job->offsets, job->bags, job->ids.n, "ids", "bags"));
  EMBED__TRY(embed__check_ids(ctx, &job->ids, &job->policy, &replaced));
  if (job->ids.n == 0) return EMBED_OK;
  if (is_extreme(job)) EMBED__TRY(check_lengths(ctx, job));
  EMBED__TRY(take_memory(ctx, job, g != NULL));
  int64_t tasks = embed__ceil_div(job->bags, job->bags_per_task);
  EMBED__TRY(embed__run(ctx, tasks, weigh_bags, job));
  if (job->best) EMBED__TRY(embed__run(ctx, tasks, find_best, job));
  job->up.source = job->source;
  job->up.weights = job->factors ? job->factors : job->weights;
  job->up.best = job->best;
  job->up.begin = job->offsets;
  if (g) EMBED__TRY(embed__scatter(ctx, g, &job->ids, &job->policy, &job->up));
  return job->d_weights ? embed__run(ctx, tasks, weigh_positions, job) : EMBED_OK;
}

static embed_status check_weights(embed_context *ctx, bag_job *job, const embed_grad *g) {
  if (job->ids.n == 0) job->weights = NULL; /* an empty list, whatever its pointer */
  if (!g && !job->d_weights) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "g and d_weights are both NULL");
  if (!is_extreme(job)) return EMBED_OK;
  if (job->weights) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "weights have no meaning with EMBED_BAG_MAX and EMBED_BAG_MIN");
  if (job->d_weights) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "d_weights has no meaning with EMBED_BAG_MAX and EMBED_BAG_MIN");
  return EMBED_OK;
}

embed_status embed_bag_backward(embed_context *ctx, embed_grad *g, const embed_table *t, const int64_t *ids, int64_t n, const int64_t *offsets, int64_t bags,
                                const float *weights, const void *d_out, embed_dtype d_out_dtype, int64_t ld_d_out, float *d_weights,
                                const embed_bag_options *opts) {
  embed_bag_options o;
  int64_t stride;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  bag_job job = {.ctx = ctx, .t = t, .ids = {.at = ids, .n = n, .wide = true}, .offsets = offsets, .weights = weights, .bags = bags, .d_weights = d_weights};
  EMBED__TRY(embed__options(ctx, "embed_bag_options", opts, EMBED_LOOKUP_ADD | EMBED_LOOKUP_PADDING | EMBED_BACKWARD_BY_FREQUENCY, &o, sizeof o));
  if (o.mode < EMBED_BAG_SUM || o.mode > EMBED_BAG_MIN) return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_bag_mode", o.mode);
  job.mode = o.mode;
  EMBED__TRY(embed__check_policy(ctx, t->vocab, o.flags & EMBED_LOOKUP_PADDING, o.oov, o.unk_id, o.padding_id, &job.policy));
  if (n < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "n is %" PRId64 " ids", n);
  if (bags < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "bags is %" PRId64, bags);
  EMBED__TRY(check_weights(ctx, &job, g));
  EMBED__TRY(embed__check_buffer(ctx, "d_out", d_out, d_out_dtype, bags, t->dim, ld_d_out, &stride));
  job.up = (embed__upstream){.at = d_out, .dtype = d_out_dtype, .dim = t->dim, .scale = 1.0f, .by_frequency = o.flags & EMBED_BACKWARD_BY_FREQUENCY};
  job.up.row_bytes = bags ? stride * embed__float_bytes(d_out_dtype) : 0; /* nothing bounds it then */
  return embed__end(ctx, run(ctx, &job, g));
}
