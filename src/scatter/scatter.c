/* SPDX-License-Identifier: BSD-3-Clause */
/* g[row of position p] += weight * upstream[source of p]. Positions are grouped by row; a row is one task's, which adds its
 * positions in ascending order: EMBED__SIDE of them side by side where the level has kernels for it (kernels/gather.h), to
 * a row that stays in the first-level cache. Where one row has much of the list, tasks take some columns of it. */
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "kernels/kernels.h"
#include "scatter/grad.h"
#include "scatter/group.h"
#include "scatter/insert.h"
#include "table/table.h"
#include "thread/run.h"

/* Bits depend on none of these.
 *
 * Measured: 2 threads of a Sapphire Rapids that reads 24 to 28 GB/s. 4 to 48 KiB fetched ahead are one speed within the noise, 6 the best by
 * some 5 % where the table has 1.5 GB. Fresh rows of a sparse gradient, written past the caches and read by a SparseAdam step right
 * after: with 12 MB of them both together take 6 to 15 % longer, with 24 MB no longer; by itself the scatter takes 24 to 29 % less.
 * Grouping is one thread's: 9 to 11 ns an id, 5 % of 16,384 rows of 384. */
enum {
  AHEAD_BYTES = 6 << 10, /* of rows asked for ahead of the row in work */
  AHEAD_ROWS = 16,
  TASKS = 64,
  LEAST_TASK_BYTES = 128 << 10,
  MOST_TASK_BYTES = 1 << 20,
  STREAM_BYTES = 16 << 20, /* fresh rows of more are written past the caches */
  COLUMN_BLOCK = 64,       /* at least: a cache line of each of 4 rows in flight */
  COLUMN_BLOCKS = 16,      /* at most */
};

typedef struct scatter_job {
  const embed__kernels *kernels;
  const embed__upstream *up;
  embed__groups groups;
  const int64_t *place; /* [groups.count] of a sparse gradient, ~ where the row is fresh; NULL: the row's number */
  float *values;
  int64_t ld, dim;
  embed__gather_pool *pool; /* NULL: row by row */
  float *spare;             /* per worker */
  int64_t spare_floats;
  int64_t element; /* bytes of an upstream value */
  int64_t steps_per_task, column_blocks, block;
  int64_t ahead;
  bool weighted;
  bool streaming; /* fresh rows go past the caches */
} scatter_job;

/* The columns that a task is about. */
typedef struct columns {
  int64_t first, count;
} columns;

static float *row_of_run(const scatter_job *job, int64_t r, bool *fresh) {
  int64_t place = job->place ? job->place[r] : job->groups.rows[r];
  *fresh = place < 0;
  return job->values + (place < 0 ? ~place : place) * job->ld;
}

static const unsigned char *upstream_at(const scatter_job *job, int64_t entry) {
  int64_t position = job->groups.positions[entry];
  return job->up->at + (job->up->source ? job->up->source[position] : position) * job->up->row_bytes;
}

/* The run's share of the weight: scale, by the positions of the row. */
static float run_weight(const scatter_job *job, int64_t r) {
  const embed__upstream *up = job->up;
  if (!up->by_frequency) return up->scale;
  return (float)((double)up->scale / (double)(job->groups.begin[r + 1] - job->groups.begin[r]));
}

static float entry_weight(const scatter_job *job, int64_t entry, float run) {
  return job->up->weights ? job->up->weights[job->groups.positions[entry]] * run : run;
}

static void prefetch_run(const scatter_job *job, int64_t r, columns c) {
  bool fresh;
  const float *row = row_of_run(job, r, &fresh) + c.first;
  if (fresh && job->streaming) return;
  for (int64_t j = 0; j < c.count; j += 16) __builtin_prefetch(row + j, 1);
}

/* Entries [*e, end) of a run, up to EMBED__SIDE. */
static void add_side_by_side(const scatter_job *job, int64_t *e, int64_t end, int64_t last, float weight, bool first, columns c, float *sum) {
  embed__rows rows;
  float weights[EMBED__SIDE];
  rows.group = 0;
  rows.dim = c.count;
  rows.bytes = c.count * job->element;
  rows.count = (int)embed__min(end - *e, EMBED__SIDE);
  for (int i = 0; i < rows.count; ++i) {
    int64_t ahead = embed__min(*e + i + job->ahead, last - 1);
    rows.row[i] = upstream_at(job, *e + i) + c.first * job->element;
    rows.ahead[i] = upstream_at(job, ahead) + c.first * job->element;
    weights[i] = entry_weight(job, *e + i, weight);
  }
  job->pool(&rows, job->weighted ? EMBED__POOL_WEIGHTED : EMBED__POOL_SUM, weights, first, sum);
  *e += rows.count;
}

/* The upstream row's columns as floats, at `spare` where they are no floats as C wants them. */
static const float *load_upstream(const scatter_job *job, int64_t entry, columns c, float *spare) {
  const unsigned char *at = upstream_at(job, entry) + c.first * job->element;
  if (job->up->dtype == EMBED_F32 && (uintptr_t)at % sizeof(float) == 0) return (const float *)(const void *)at;
  embed__load_row(job->kernels, at, job->up->dtype, spare, c.count);
  return spare;
}

static void add_one(const scatter_job *job, int64_t entry, float weight, columns c, float *sum, float *spare) {
  const float *row = load_upstream(job, entry, c, spare);
  if (job->weighted)
    job->kernels->row.add_scaled(sum, row, c.count, entry_weight(job, entry, weight));
  else
    job->kernels->row.add(sum, row, c.count);
}

/* Of MAX and MIN: each column of an upstream row belongs to one of its positions. */
static void add_best(const scatter_job *job, int64_t entry, float weight, columns c, float *sum, float *spare) {
  const embed__upstream *up = job->up;
  int64_t position = job->groups.positions[entry], source = up->source[position];
  const int32_t *best = up->best + source * up->dim + c.first, own = (int32_t)(position - up->begin[source]);
  const float *row = load_upstream(job, entry, c, spare);
  for (int64_t j = 0; j < c.count; ++j) {
    if (best[j] == own) sum[j] += job->weighted ? weight * row[j] : row[j];
  }
}

static void add_run(const scatter_job *job, int64_t r, int64_t last, columns c, float *spare) {
  int64_t e = job->groups.begin[r], end = job->groups.begin[r + 1];
  float weight = run_weight(job, r);
  bool fresh;
  float *sum = row_of_run(job, r, &fresh) + c.first;
  if (job->pool) {
    float *at = fresh && job->streaming ? spare : sum;
    for (bool first = fresh; e < end; first = false) add_side_by_side(job, &e, end, last, weight, first, c, at);
    if (at == spare) job->kernels->row.copy(spare, sum, c.count * (int64_t)sizeof *sum, true);
    return;
  }
  if (fresh) memset(sum, 0, (size_t)c.count * sizeof *sum);
  for (; e < end; ++e) {
    if (job->up->best)
      add_best(job, e, weight, c, sum, spare);
    else
      add_one(job, e, weight, c, sum, spare);
  }
}

/* The first run whose step is not below `step`. Step r + begin[r]: a run costs its entries and a row of its own. */
static int64_t run_at_step(const embed__groups *groups, int64_t step) {
  int64_t low = 0, high = groups->count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (middle + groups->begin[middle] < step)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void add_runs(void *arg, int64_t task, int32_t worker) {
  const scatter_job *job = arg;
  const int64_t cut = task / job->column_blocks, first_column = task % job->column_blocks * job->block;
  const columns c = {.first = first_column, .count = embed__min(job->block, job->dim - first_column)};
  int64_t first = run_at_step(&job->groups, cut * job->steps_per_task), end = run_at_step(&job->groups, (cut + 1) * job->steps_per_task);
  int64_t asked = first, last = job->groups.begin[end];
  for (int64_t r = first; r < end; ++r) {
    for (; asked < end && asked <= r + job->ahead; ++asked) prefetch_run(job, asked, c);
    add_run(job, r, last, c, job->spare + worker * job->spare_floats);
  }
  if (job->streaming) job->kernels->row.fence();
}

static void plan(scatter_job *job) {
  const int64_t steps = job->groups.begin[job->groups.count] + job->groups.count, row_bytes = job->dim * (int64_t)sizeof(float);
  const int64_t least = embed__max(1, LEAST_TASK_BYTES / row_bytes), most = embed__max(1, MOST_TASK_BYTES / row_bytes);
  job->steps_per_task = embed__min(most, embed__max(least, embed__ceil_div(steps, TASKS)));
  job->column_blocks = 1;
  if (job->groups.longest > 4 * job->steps_per_task) job->column_blocks = embed__max(1, embed__min(COLUMN_BLOCKS, job->dim / COLUMN_BLOCK));
  job->block = embed__ceil_div(embed__ceil_div(job->dim, job->column_blocks), 16) * 16; /* whole lines */
  job->column_blocks = embed__ceil_div(job->dim, job->block);
  job->ahead = embed__max(1, embed__min(AHEAD_ROWS, AHEAD_BYTES / row_bytes));
}

embed_status embed__scatter(embed_context *ctx, embed_grad *g, const embed__ids *ids, const embed__id_policy *policy, const embed__upstream *up) {
  scatter_job job = {.kernels = ctx->kernels, .up = up, .dim = g->dim, .element = embed__float_bytes(up->dtype)};
  EMBED__TRY(embed__grad_check(ctx, g, policy->vocab, up->dim));
  EMBED__TRY(embed__group(ctx, ids, policy, &job.groups));
  if (job.groups.count == 0) return EMBED_OK;
  embed__form form = up->dtype == EMBED_F32 ? EMBED__FORM_f32 : up->dtype == EMBED_F16 ? EMBED__FORM_f16 : EMBED__FORM_bf16;
  job.pool = up->best ? NULL : ctx->kernels->gather.pool[form];
  job.weighted = up->weights || up->by_frequency || up->scale != 1.0f;
  plan(&job);
  job.spare_floats = embed__ceil_div(job.block, 16) * 16;
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), job.spare_floats, sizeof(float), &job.spare));
  if (!g->dense) {
    int64_t *place;
    EMBED__TRY(embed__scratch_get(ctx, job.groups.count, sizeof *place, &place));
    EMBED__TRY(embed__grad_insert(ctx, g, job.groups.rows, job.groups.count, place));
    job.place = place;
  }
  job.values = g->values;
  job.ld = g->ld;
  job.streaming = !g->dense && ((uintptr_t)g->values | (uintptr_t)(g->ld * 4)) % 64 == 0 && job.groups.count * g->ld * 4 > STREAM_BYTES;
  int64_t last_step = job.groups.count - 1 + job.groups.begin[job.groups.count - 1];
  return embed__run(ctx, (last_step / job.steps_per_task + 1) * job.column_blocks, add_runs, &job);
}
