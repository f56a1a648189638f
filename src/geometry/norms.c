/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "core/checked.h"
#include "core/error.h"
#include "geometry/geometry.h"
#include "thread/run.h"

enum { ROWS_PER_TASK = 256 };

typedef struct norms_job {
  const embed_context *ctx;
  const embed_table *t;
  float *norms, *scratch; /* scratch: [workers, dim] */
} norms_job;

static void norms_of_rows(void *arg, int64_t task, int32_t worker) {
  const norms_job *job = arg;
  const embed_table *t = job->t;
  float *row = job->scratch + (int64_t)worker * t->dim;
  for (int64_t r = task * ROWS_PER_TASK; r < embed__min(t->vocab, (task + 1) * ROWS_PER_TASK); ++r) {
    embed__decode(job->ctx, t, r, row, 1.0f);
    job->norms[r] = (float)sqrt(job->ctx->kernels->row.sum_squares(row, t->dim));
  }
}

embed_status embed__norms(embed_context *ctx, const embed_table *t, float *norms) {
  norms_job job = {.ctx = ctx, .t = t, .norms = norms};
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), t->dim, sizeof(float), &job.scratch));
  int64_t tasks = embed__ceil_div(t->vocab, ROWS_PER_TASK);
  return embed__run_long(ctx, tasks, norms_of_rows, &job, 0, tasks);
}

void embed__times_power(const float *x, float *out, int64_t dim, int power) {
  const double by = ldexp(1, power); /* may be past float's range where the product is not */
  for (int64_t j = 0; j < dim; ++j) out[j] = (float)(by * (double)x[j]);
}

embed_status embed__row_numbers(embed_context *ctx, const embed_table *t, embed__numbers which, embed__make_numbers *make, const float **out) {
  *out = embed__table_numbers(t, which);
  if (*out) return EMBED_OK;
  if (t->overlay) { /* it changes with its base, unasked */
    float *room;
    EMBED__TRY(embed__scratch_get(ctx, t->vocab + 1, sizeof(float), &room));
    *out = room;
    return make(ctx, t, room);
  }
  float *room = embed__table_numbers_room(t);
  if (!room) return embed__out_of_memory(ctx, t->vocab * (int64_t)sizeof(float));
  embed_status status = make(ctx, t, room);
  *out = embed__table_numbers_keep(t, which, room, status == EMBED_OK);
  return status;
}

embed_status embed_norms(embed_context *ctx, const embed_table *t, float *norms) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  if (t->vocab == 0) return EMBED_OK;
  EMBED__NOT_NULL(ctx, norms);
  return embed__end(ctx, embed__norms(ctx, t, norms));
}
