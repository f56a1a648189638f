/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_bag: one pooled row per list of ids. A bag belongs to one task, its rows are taken in the order of the ids and
 * summed in float: the bits depend on nothing else. Where the level has kernels for it, EMBED__SIDE rows at a time are
 * read side by side and added, in that order, to the pooled row, which stays in the first-level cache. */
#include <embed/lookup.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "gather/rows.h"
#include "gather/side.h"
#include "table/ids.h"
#include "thread/run.h"

typedef struct bag_job {
  const embed_context *ctx;
  const embed_table *t;
  embed__ids ids;
  const int64_t *offsets; /* [bags + 1] */
  const float *weights;   /* [n] or NULL */
  int64_t bags;
  embed__id_policy policy;
  embed_bag_mode mode;
  embed__sink out;
  embed__work_rows work; /* per worker: see below */
  embed__work_rows zero; /* one row of zeros for all, with EMBED_OOV_ZERO */
  int64_t steps_per_task;
  int64_t ahead;            /* rows */
  bool in_place;            /* stored rows are floats as C wants them */
  embed__gather_pool *pool; /* NULL: row by row */
  embed__pooling how;
} bag_job;

enum { POOLED, DECODED, SPARE, WORK_ROWS };

/* What has gone into a bag. Doubles: a count or a sum of a million weights keeps its last bit. */
typedef struct tally {
  int64_t rows;
  double weights, squares;
} tally;

static const float *row_of(const bag_job *job, int64_t stored, float *decoded) {
  if (stored == EMBED__ROW_ZERO) return job->zero.at;
  if (job->in_place) return (const float *)(const void *)embed__row(job->t, stored);
  embed__decode(job->ctx, job->t, stored, decoded, 1.0f);
  return decoded;
}

static void pool_row(const bag_job *job, float *pooled, const float *row, float weight, bool first) {
  const embed__row_kernels *k = &job->ctx->kernels->row;
  int64_t dim = job->t->dim;
  bool extreme = job->mode == EMBED_BAG_MAX || job->mode == EMBED_BAG_MIN;
  if (extreme && first)
    memcpy(pooled, row, (size_t)dim * sizeof *pooled);
  else if (job->mode == EMBED_BAG_MAX)
    k->keep_max(pooled, row, dim);
  else if (job->mode == EMBED_BAG_MIN)
    k->keep_min(pooled, row, dim);
  else if (job->weights)
    k->add_scaled(pooled, row, dim, weight);
  else
    k->add(pooled, row, dim);
}

/* True division: a product with the reciprocal would give other bits. Blocks of a fixed size are what compilers turn
 * into vector code. */
static void divide(float *row, int64_t dim, float by) {
  enum { BLOCK = 16 };
  int64_t j = 0;
  for (; j + BLOCK <= dim; j += BLOCK)
    for (int c = 0; c < BLOCK; ++c) row[j + c] /= by;
  for (; j < dim; ++j) row[j] /= by;
}

static void finish(const bag_job *job, float *pooled, const tally *in) {
  double by = 1;
  if (in->rows == 0) return;
  if (job->mode == EMBED_BAG_MEAN)
    by = (double)in->rows;
  else if (job->mode == EMBED_BAG_WEIGHTED_MEAN)
    by = in->weights;
  else if (job->mode == EMBED_BAG_SQRT_N)
    by = sqrt(in->squares);
  float divisor = (float)by;
  if (divisor == 0)
    memset(pooled, 0, (size_t)job->t->dim * sizeof *pooled);
  else if (divisor != 1)
    divide(pooled, job->t->dim, divisor);
}

static int64_t stored_at(const bag_job *job, int64_t position) { return embed__row_of_id(&job->policy, embed__id_at(&job->ids, position)); }

/* The first bag whose step is not below `step`. Step b + offsets[b] counts a bag as one row more than it has: it ascends
 * strictly, so tasks of equal steps are found without a list of them. Sums of two lengths of lists in memory fit. */
static int64_t bag_at_step(const bag_job *job, int64_t step) {
  int64_t low = 0, high = job->bags;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (middle + job->offsets[middle] < step)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void count_in(tally *in, float weight) {
  ++in->rows;
  in->weights += (double)weight;
  in->squares += (double)weight * (double)weight;
}

/* Rows without weights: what count_in sums up to, without a chain of additions per row. */
static void count_rows(tally *in, int64_t rows) {
  in->rows += rows;
  in->weights += (double)rows;
  in->squares += (double)rows;
}

/* Positions [*at, end) of a bag up to EMBED__SIDE stored rows, or one row of zeros. `last`: of the task's. */
static void pool_step(const bag_job *job, int64_t *at, int64_t end, int64_t last, float *pooled, tally *in) {
  const embed_table *t = job->t;
  embed__rows rows; /* row and ahead are filled as far as count */
  float weights[EMBED__SIDE];
  rows.count = 0;
  rows.group = t->group;
  rows.dim = t->dim;
  rows.bytes = t->packed_bytes;
  bool first = in->rows == 0;
  int64_t begin = *at, j = begin;
  for (; j < end && rows.count < EMBED__SIDE; ++j) {
    int64_t stored = stored_at(job, j);
    if (stored == EMBED__ROW_PADDING) continue;
    float weight = job->weights ? job->weights[j] : 1.0f;
    if (stored == EMBED__ROW_ZERO) {
      if (rows.count > 0) break;
      pool_row(job, pooled, job->zero.at, weight, first);
      count_in(in, weight);
      *at = j + 1;
      return;
    }
    rows.row[rows.count] = embed__row(t, stored);
    weights[rows.count++] = weight;
    if (job->weights) count_in(in, weight);
  }
  if (!job->weights) count_rows(in, rows.count);
  *at = j;
  if (rows.count == 0) return;
  embed__side_fetch(t, &job->ids, &job->policy, begin + job->ahead, last, &rows);
  job->pool(&rows, job->how, weights, first, pooled);
}

static void pool_bags_side_by_side(void *arg, int64_t task, int32_t worker) {
  const bag_job *job = arg;
  float *pooled = embed__work_row(&job->work, worker, POOLED);
  int64_t first = bag_at_step(job, task * job->steps_per_task), end = bag_at_step(job, (task + 1) * job->steps_per_task);
  for (int64_t b = first; b < end; ++b) {
    tally in = {0};
    if (job->policy.oov == EMBED_OOV_ZERO) memset(pooled, 0, (size_t)job->t->dim * sizeof *pooled); /* a row of zeros may come first */
    for (int64_t j = job->offsets[b]; j < job->offsets[b + 1];) pool_step(job, &j, job->offsets[b + 1], job->offsets[end], pooled, &in);
    if (in.rows == 0) memset(pooled, 0, (size_t)job->t->dim * sizeof *pooled);
    finish(job, pooled, &in);
    embed__sink_put(&job->out, b, pooled, embed__work_row(&job->work, worker, SPARE));
  }
  embed__sink_end_task(&job->out);
}

static void pool_bags(void *arg, int64_t task, int32_t worker) {
  const bag_job *job = arg;
  float *pooled = embed__work_row(&job->work, worker, POOLED), *decoded = embed__work_row(&job->work, worker, DECODED);
  int64_t first = bag_at_step(job, task * job->steps_per_task), end = bag_at_step(job, (task + 1) * job->steps_per_task);
  int64_t asked = job->offsets[first], last = job->offsets[end];
  for (int64_t b = first; b < end; ++b) {
    tally in = {0};
    memset(pooled, 0, (size_t)job->t->dim * sizeof *pooled);
    for (int64_t j = job->offsets[b]; j < job->offsets[b + 1]; ++j) {
      for (; asked < last && asked <= j + job->ahead; ++asked) {
        int64_t next = stored_at(job, asked);
        if (next >= 0) embed__prefetch_row(job->t, next);
      }
      int64_t stored = stored_at(job, j);
      if (stored == EMBED__ROW_PADDING) continue;
      float weight = job->weights ? job->weights[j] : 1.0f;
      pool_row(job, pooled, row_of(job, stored, decoded), weight, in.rows == 0);
      count_in(&in, weight);
    }
    finish(job, pooled, &in);
    embed__sink_put(&job->out, b, pooled, embed__work_row(&job->work, worker, SPARE));
  }
  embed__sink_end_task(&job->out);
}

static embed_status run(embed_context *ctx, bag_job *job) {
  const embed_table *t = job->t;
  int64_t replaced;
  EMBED__TRY(embed__check_offsets(ctx, job->offsets, job->bags, job->ids.n, "ids", "bags"));
  EMBED__TRY(embed__check_ids(ctx, &job->ids, &job->policy, &replaced));
  if (job->bags == 0) return EMBED_OK;
  job->in_place = embed__floats_in_place(t);
  job->pool = ctx->kernels->gather.pool[t->codec->form];
  job->how = job->mode == EMBED_BAG_MAX   ? EMBED__POOL_MAX
             : job->mode == EMBED_BAG_MIN ? EMBED__POOL_MIN
             : job->weights               ? EMBED__POOL_WEIGHTED
                                          : EMBED__POOL_SUM;
  job->ahead = job->pool ? embed__side_ahead(t->packed_bytes) : embed__rows_ahead(t);
  EMBED__TRY(embed__work_rows_take(ctx, WORK_ROWS, t->dim, &job->work)); /* proves the product below */
  if (job->policy.oov == EMBED_OOV_ZERO) {
    EMBED__TRY(embed__scratch_get(ctx, t->dim, sizeof(float), &job->zero.at));
    memset(job->zero.at, 0, (size_t)t->dim * sizeof(float));
  }
  int64_t last_step = job->bags - 1 + job->offsets[job->bags - 1];
  job->steps_per_task = embed__rows_of_task(last_step + 1, t->dim * (int64_t)sizeof(float));
  EMBED__TRY(embed__run(ctx, last_step / job->steps_per_task + 1, job->pool ? pool_bags_side_by_side : pool_bags, job));
  ctx->replaced_ids = replaced;
  return EMBED_OK;
}

static embed_status bag(embed_context *ctx, bag_job *job, void *out, embed_dtype out_dtype, int64_t ld_out, const embed_bag_options *opts) {
  embed_bag_options o;
  const embed_table *t = job->t;
  if (ctx) ctx->replaced_ids = 0;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  EMBED__TRY(embed__options(ctx, "embed_bag_options", opts, EMBED_LOOKUP_ADD | EMBED_LOOKUP_PADDING, &o, sizeof o));
  if (o.mode < EMBED_BAG_SUM || o.mode > EMBED_BAG_MIN) return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_bag_mode", o.mode);
  job->mode = o.mode;
  EMBED__TRY(embed__check_policy(ctx, t->vocab, o.flags & EMBED_LOOKUP_PADDING, o.oov, o.unk_id, o.padding_id, &job->policy));
  if (job->ids.n < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "n is %" PRId64 " ids", job->ids.n);
  if (job->bags < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "bags is %" PRId64, job->bags);
  if (job->ids.n == 0) job->weights = NULL; /* an empty list, whatever its pointer */
  if (job->weights && (o.mode == EMBED_BAG_MAX || o.mode == EMBED_BAG_MIN))
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "weights have no meaning with EMBED_BAG_MAX and EMBED_BAG_MIN");
  EMBED__TRY(embed__sink_open(ctx, "out", out, out_dtype, job->bags, t->dim, ld_out, o.flags & EMBED_LOOKUP_ADD, &job->out));
  job->ctx = ctx;
  return embed__end(ctx, run(ctx, job));
}

embed_status embed_bag(embed_context *ctx, const embed_table *t, const int32_t *ids, int64_t n, const int64_t *offsets, int64_t bags, const float *weights,
                       void *out, embed_dtype out_dtype, int64_t ld_out, const embed_bag_options *opts) {
  bag_job job = {.t = t, .ids = {.at = ids, .n = n, .wide = false}, .offsets = offsets, .bags = bags, .weights = weights};
  return bag(ctx, &job, out, out_dtype, ld_out, opts);
}

embed_status embed_bag_i64(embed_context *ctx, const embed_table *t, const int64_t *ids, int64_t n, const int64_t *offsets, int64_t bags, const float *weights,
                           void *out, embed_dtype out_dtype, int64_t ld_out, const embed_bag_options *opts) {
  bag_job job = {.t = t, .ids = {.at = ids, .n = n, .wide = true}, .offsets = offsets, .bags = bags, .weights = weights};
  return bag(ctx, &job, out, out_dtype, ld_out, opts);
}
