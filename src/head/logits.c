/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_logits and embed_logits_at. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/least.h"
#include "head/head.h"
#include "thread/run.h"

typedef struct logits_job {
  const embed_head *head;
  embed_nan_policy nan;
  int64_t first; /* hidden row of the chunk's row 0 */
  _Atomic int64_t refused;
} logits_job;

static void finish_tile(void *arg, const embed__tile *tile) {
  logits_job *job = arg;
  embed__finish_logits(job->head, tile->z, tile->ldz, tile->rows, tile->column, tile->columns);
  for (int64_t i = 0; i < tile->rows; ++i)
    if (embed__apply_nan_policy(job->nan, tile->z + i * tile->ldz, tile->columns)) embed__keep_least(&job->refused, job->first + tile->first + i);
}

static embed_status nan_error(embed_context *ctx, int64_t row) {
  return embed__fail(ctx, EMBED_E_NONFINITE, row, "hidden row %" PRId64 " has a NaN among its logits", row);
}

static embed_status logits(embed_context *ctx, const embed_head *h, embed__sweep *s, const embed_sweep_options *o) {
  logits_job job = {.head = h, .nan = o->nan, .refused = INT64_MAX};
  bool as_multiplied = !h->bias && h->scale == 1.0f && h->softcap == 0 && o->nan == EMBED_NAN_MAX;
  s->take = as_multiplied ? NULL : finish_tile;
  s->reducer = &job;
  EMBED__TRY(embed__sweep_begin(ctx, s));
  for (job.first = 0; job.first < s->n; job.first += s->chunk) EMBED__TRY(embed__sweep_chunk(ctx, s, job.first));
  int64_t refused = atomic_load(&job.refused);
  return refused == INT64_MAX ? EMBED_OK : nan_error(ctx, refused);
}

embed_status embed_logits(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                          float *logits_out, int64_t ld_logits, const embed_sweep_options *opts) {
  embed_sweep_options o;
  embed__sweep s;
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__head_sweep(ctx, h, hidden, hidden_dtype, n, ld_hidden, opts, &o, &s));
  EMBED__TRY(embed__check_buffer(ctx, "logits", logits_out, EMBED_F32, h->table->vocab ? n : 0, h->table->vocab, ld_logits, &s.ldout));
  if (n == 0 || h->table->vocab == 0) return EMBED_OK;
  s.out = logits_out;
  return embed__end(ctx, logits(ctx, h, &s, &o));
}

typedef struct at_job {
  const embed_head *head;
  const embed__kernels *kernels;
  const int32_t *ids;
  const float *x;
  float *out, *decoded; /* decoded: per worker */
  int64_t n, m, ldx, ldout;
  embed_nan_policy nan;
  _Atomic int64_t refused;
} at_job;

enum { IDS_PER_TASK = 64 };

static void logits_of_ids(void *arg, int64_t task, int32_t worker) {
  at_job *job = arg;
  const embed_table *t = job->head->table;
  float *decoded = job->decoded ? job->decoded + (int64_t)worker * embed__decoded_floats(t) : NULL;
  for (int64_t j = task * IDS_PER_TASK; j < embed__min(job->m, (task + 1) * IDS_PER_TASK); ++j) {
    float *z = job->out + j;
    embed__product(job->kernels, t, job->ids[j], 1, job->x, job->ldx, job->n, decoded, z, job->ldout);
    embed__finish_logits(job->head, z, job->ldout, job->n, job->ids[j], 1);
    for (int64_t i = 0; i < job->n; ++i)
      if (embed__apply_nan_policy(job->nan, z + i * job->ldout, 1)) embed__keep_least(&job->refused, i);
  }
}

static embed_status logits_at(embed_context *ctx, at_job *job, const embed__sweep *s) {
  const embed_table *t = s->table;
  job->kernels = ctx->kernels;
  job->x = (const float *)(const void *)s->x;
  job->ldx = s->ldx;
  if (s->x_dtype != EMBED_F32) {
    float *x;
    EMBED__TRY(embed__scratch_matrix(ctx, s->n, t->dim, sizeof *x, &x));
    for (int64_t i = 0; i < s->n; ++i) embed__load_row(ctx->kernels, s->x + i * s->ldx * embed__float_bytes(s->x_dtype), s->x_dtype, x + i * t->dim, t->dim);
    job->x = x;
    job->ldx = t->dim;
  }
  int64_t decoded = embed__decoded_floats(t);
  if (decoded) EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), decoded, sizeof(float), &job->decoded));
  int64_t tasks = embed__ceil_div(job->m, IDS_PER_TASK);
  EMBED__TRY(embed__run_long(ctx, tasks, logits_of_ids, job, 0, tasks));
  int64_t refused = atomic_load(&job->refused);
  return refused == INT64_MAX ? EMBED_OK : nan_error(ctx, refused);
}

embed_status embed_logits_at(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                             const int32_t *ids, int64_t m, float *logits_out, int64_t ld_logits, const embed_sweep_options *opts) {
  embed_sweep_options o;
  embed__sweep s;
  at_job job = {.head = h, .ids = ids, .out = logits_out, .n = n, .m = m, .refused = INT64_MAX};
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__head_sweep(ctx, h, hidden, hidden_dtype, n, ld_hidden, opts, &o, &s));
  if (m < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "m is %" PRId64, m);
  EMBED__TRY(embed__check_buffer(ctx, "logits", logits_out, EMBED_F32, m ? n : 0, m, ld_logits, &job.ldout));
  if (m > 0 && !ids) return embed__null(ctx, "ids");
  for (int64_t j = 0; j < m; ++j)
    if (ids[j] < 0 || ids[j] >= h->table->vocab)
      return embed__fail(ctx, EMBED_E_ID, j, "id %d at position %" PRId64 " is outside the vocabulary of %" PRId64 " rows", ids[j], j, h->table->vocab);
  if (n == 0 || m == 0) return EMBED_OK;
  job.nan = o.nan;
  return embed__end(ctx, logits_at(ctx, &job, &s));
}
