/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_lookup: out[i, :] = scale * W[ids[i], :]. Per row: decode to float, clip the norm, scale, add, store. Rows that
 * only travel, or are only decoded, scaled and rounded, go side by side where the level has kernels for them (side.c). */
#include <embed/lookup.h>
#include <math.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "gather/rows.h"
#include "gather/side.h"
#include "table/ids.h"
#include "thread/run.h"

typedef struct lookup_job {
  const embed_context *ctx;
  const embed_table *t;
  embed__ids ids;
  embed__id_policy policy;
  embed__sink out;
  embed__work_rows work; /* per worker: the row, a spare one */
  int64_t rows_per_task;
  int64_t ahead;           /* rows */
  float scale, max_norm;   /* max_norm 0 = off */
  embed_dtype scale_round; /* F32 = none */
  bool copies;             /* out has the stored bytes */
  bool decodes_in_place;   /* one kernel writes the row of out */
} lookup_job;

enum { ROW, SPARE, WORK_ROWS };

static void clip_norm(const lookup_job *job, float *row) {
  const embed__row_kernels *k = &job->ctx->kernels->row;
  const double whole = sqrt(k->sum_squares(row, job->t->dim)); /* past float's range for some finite rows */
  const float norm = (float)whole;
  if (norm > job->max_norm && !isinf(whole)) k->scale(row, job->t->dim, (float)((double)job->max_norm / ((isinf(norm) ? whole : (double)norm) + 1e-7)));
}

/* What a 16-bit model computes: its product is rounded to the model's type. half: room for dim of them. */
static void scale_rounded(const lookup_job *job, float *row, float *half) {
  const embed__kernels *k = job->ctx->kernels;
  k->row.scale(row, job->t->dim, job->scale);
  embed__store_row(k, row, half, job->scale_round, job->t->dim);
  embed__load_row(k, half, job->scale_round, row, job->t->dim);
}

/* row = the transformed row; spare is overwritten. */
static void transform(const lookup_job *job, int64_t stored, float *row, float *spare) {
  bool plain = job->max_norm == 0 && job->scale_round == EMBED_F32;
  embed__decode(job->ctx, job->t, stored, row, plain ? job->scale : 1.0f);
  if (plain) return;
  if (job->max_norm > 0) clip_norm(job, row);
  if (job->scale_round != EMBED_F32)
    scale_rounded(job, row, spare);
  else if (job->scale != 1.0f)
    job->ctx->kernels->row.scale(row, job->t->dim, job->scale);
}

static void put_row(const lookup_job *job, int64_t i, int64_t stored, float *row, float *spare) {
  const embed__sink *out = &job->out;
  if (stored < 0) {
    embed__sink_put_zero(out, i, row, spare);
  } else if (job->copies) {
    job->ctx->kernels->row.copy(embed__row(job->t, stored), embed__sink_row(out, i), out->width_bytes, out->streaming);
  } else if (job->decodes_in_place) {
    embed__decode(job->ctx, job->t, stored, (float *)(void *)embed__sink_row(out, i), job->scale);
  } else {
    transform(job, stored, row, spare);
    embed__sink_put(out, i, row, spare);
  }
}

static void lookup_rows(void *arg, int64_t task, int32_t worker) {
  const lookup_job *job = arg;
  float *row = embed__work_row(&job->work, worker, ROW), *spare = embed__work_row(&job->work, worker, SPARE);
  int64_t first = task * job->rows_per_task, end = embed__min(job->ids.n, first + job->rows_per_task), asked = first;
  for (int64_t i = first; i < end; ++i) {
    for (; asked < end && asked <= i + job->ahead; ++asked) {
      int64_t stored = embed__row_of_id(&job->policy, embed__id_at(&job->ids, asked));
      if (stored >= 0) embed__prefetch_row(job->t, stored);
    }
    put_row(job, i, embed__row_of_id(&job->policy, embed__id_at(&job->ids, i)), row, spare);
  }
  embed__sink_end_task(&job->out);
}

static embed_status run(embed_context *ctx, lookup_job *job) {
  int64_t replaced;
  EMBED__TRY(embed__check_ids(ctx, &job->ids, &job->policy, &replaced));
  if (job->ids.n == 0) return EMBED_OK;
  bool plain = job->max_norm == 0 && job->scale_round == EMBED_F32 && !job->out.add;
  job->copies = plain && job->scale == 1.0f && job->out.dtype == job->t->dtype;
  job->decodes_in_place = plain && job->out.floats && !job->out.streaming;
  if (plain && embed__side_can(ctx, job->t, job->copies)) {
    embed__side side = {.ctx = ctx, .t = job->t, .ids = job->ids, .policy = job->policy, .out = job->out, .scale = job->scale, .copies = job->copies};
    EMBED__TRY(embed__side_run(ctx, &side));
  } else {
    job->rows_per_task = embed__rows_per_task(job->out.width_bytes);
    job->ahead = embed__rows_ahead(job->t);
    EMBED__TRY(embed__work_rows_take(ctx, WORK_ROWS, job->t->dim, &job->work));
    EMBED__TRY(embed__run(ctx, embed__ceil_div(job->ids.n, job->rows_per_task), lookup_rows, job));
  }
  ctx->replaced_ids = replaced;
  return EMBED_OK;
}

static embed_status lookup(embed_context *ctx, const embed_table *t, embed__ids ids, void *out, embed_dtype out_dtype, int64_t ld_out,
                           const embed_lookup_options *opts) {
  embed_lookup_options o;
  lookup_job job = {.ctx = ctx, .t = t, .ids = ids};
  if (ctx) ctx->replaced_ids = 0;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  EMBED__TRY(embed__options(ctx, "embed_lookup_options", opts, EMBED_LOOKUP_ADD | EMBED_LOOKUP_PADDING, &o, sizeof o));
  EMBED__TRY(embed__check_scale(ctx, &o, &job.scale));
  job.max_norm = o.max_norm;
  job.scale_round = o.scale_round;
  EMBED__TRY(embed__check_policy(ctx, t->vocab, o.flags & EMBED_LOOKUP_PADDING, o.oov, o.unk_id, o.padding_id, &job.policy));
  EMBED__TRY(embed__sink_open(ctx, "out", out, out_dtype, ids.n, t->dim, ld_out, o.flags & EMBED_LOOKUP_ADD, &job.out));
  return embed__end(ctx, run(ctx, &job));
}

embed_status embed_lookup(embed_context *ctx, const embed_table *t, const int32_t *ids, int64_t n, void *out, embed_dtype out_dtype, int64_t ld_out,
                          const embed_lookup_options *opts) {
  return lookup(ctx, t, (embed__ids){.at = ids, .n = n, .wide = false}, out, out_dtype, ld_out, opts);
}

embed_status embed_lookup_i64(embed_context *ctx, const embed_table *t, const int64_t *ids, int64_t n, void *out, embed_dtype out_dtype, int64_t ld_out,
                              const embed_lookup_options *opts) {
  return lookup(ctx, t, (embed__ids){.at = ids, .n = n, .wide = true}, out, out_dtype, ld_out, opts);
}

int64_t embed_replaced_ids(const embed_context *ctx) { return ctx ? ctx->replaced_ids : EMBED_E_ARGUMENT; }
