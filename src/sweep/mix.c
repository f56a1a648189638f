/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_mix: weights [n, vocab] x table. A one-hot row gives the lookup, a probability row the expected embedding. */
#include <embed/lookup.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "sweep/gemm_blas.h"
#include "sweep/sweep.h"
#include "thread/run.h"

enum {
  DEPTH = EMBED__BLOCK,             /* table rows per product when they are decoded first */
  DIRECT_DEPTH = 16 * EMBED__BLOCK, /* and on the table's own floats */
  GEMM_ROWS = 64,                   /* weight rows per task when OpenBLAS runs one thread */
  OWN_ROWS = 8,                     /* weight rows per task of our kernels: a row is decoded once for all of them */
  DECODE_ROWS = 32                  /* table rows per decoding task */
};

typedef struct mix_job {
  const embed__kernels *kernels;
  const embed_table *t;
  const float *weights;
  float *out, *scratch;
  int64_t n, ldw, ldo;
  /* one product of OpenBLAS */
  int64_t first, depth, ldb;
  const float *b;
  _Atomic int refused;
} mix_job;

/* out rows [8 * task, ...) = sum over table rows in ascending order: bits that n does not change. */
static void own_rows(void *arg, int64_t task, int32_t worker) {
  const mix_job *job = arg;
  const embed_table *t = job->t;
  float *row = job->scratch + (int64_t)worker * t->dim;
  int64_t begin = task * OWN_ROWS, end = embed__min(job->n, begin + OWN_ROWS);
  for (int64_t i = begin; i < end; ++i) memset(job->out + i * job->ldo, 0, (size_t)t->dim * sizeof(float));
  for (int64_t v = 0; v < t->vocab; ++v) {
    embed__decode_stored(job->kernels, t, v, row, 1.0f);
    for (int64_t i = begin; i < end; ++i) job->kernels->row.add_scaled(job->out + i * job->ldo, row, t->dim, job->weights[i * job->ldw + v]);
  }
}

static embed_status own_mix(embed_context *ctx, mix_job *job) {
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), job->t->dim, sizeof(float), &job->scratch));
  int64_t tasks = embed__ceil_div(job->n, OWN_ROWS);
  return embed__run_long(ctx, tasks, own_rows, job, 0, tasks);
}

static void decode_rows(void *arg, int64_t task, int32_t worker) {
  const mix_job *job = arg;
  const embed_table *t = job->t;
  (void)worker;
  for (int64_t r = task * DECODE_ROWS; r < embed__min(job->depth, (task + 1) * DECODE_ROWS); ++r)
    embed__decode_stored(job->kernels, t, job->first + r, job->scratch + r * t->dim, 1.0f);
}

static void multiply(mix_job *job, int64_t row, int64_t rows) {
  if (!embed__gemm_nn(rows, job->t->dim, job->depth, job->weights + row * job->ldw + job->first, job->ldw, job->b, job->ldb, job->first > 0,
                      job->out + row * job->ldo, job->ldo))
    atomic_store(&job->refused, 1);
}

static void multiply_rows(void *arg, int64_t task, int32_t worker) {
  mix_job *job = arg;
  (void)worker;
  multiply(job, task * GEMM_ROWS, embed__min(GEMM_ROWS, job->n - task * GEMM_ROWS));
}

static embed_status blas_mix(embed_context *ctx, mix_job *job) {
  const embed_table *t = job->t;
  bool direct = embed__floats_in_place(t);
  int64_t depth = direct ? DIRECT_DEPTH : DEPTH;
  if (!direct) EMBED__TRY(embed__scratch_matrix(ctx, embed__min(depth, t->vocab), t->dim, sizeof(float), &job->scratch));
  for (job->first = 0; job->first < t->vocab; job->first += depth) {
    job->depth = embed__min(depth, t->vocab - job->first);
    job->b = direct ? (const float *)(const void *)embed__row(t, job->first) : job->scratch;
    job->ldb = direct ? t->row_bytes / (int64_t)sizeof(float) : t->dim;
    if (!direct) EMBED__TRY(embed__run(ctx, embed__ceil_div(job->depth, DECODE_ROWS), decode_rows, job));
    if (embed__blas_runs_side_by_side()) {
      EMBED__TRY(embed__run(ctx, embed__ceil_div(job->n, GEMM_ROWS), multiply_rows, job));
    } else {
      multiply(job, 0, job->n);
    }
    if (atomic_load(&job->refused)) return own_mix(ctx, job);
    EMBED__TRY(embed__pause(ctx, job->first + job->depth, t->vocab));
  }
  return EMBED_OK;
}

embed_status embed_mix(embed_context *ctx, const embed_table *t, const float *weights, int64_t n, int64_t ld_weights, float *out, int64_t ld_out,
                       const embed_mix_options *opts) {
  embed_mix_options o;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  mix_job job = {.kernels = ctx->kernels, .t = t, .weights = weights, .out = out, .n = n};
  EMBED__TRY(embed__options(ctx, "embed_mix_options", opts, 0, &o, sizeof o));
  EMBED__TRY(embed__check_buffer(ctx, "weights", weights, EMBED_F32, t->vocab ? n : 0, t->vocab, ld_weights, &job.ldw));
  EMBED__TRY(embed__check_buffer(ctx, "out", out, EMBED_F32, n, t->dim, ld_out, &job.ldo));
  if (n == 0) return EMBED_OK;
  bool blas = embed__blas_threads() != 0 && !(ctx->flags & EMBED_CONTEXT_REPRODUCIBLE) && t->vocab > 0;
  return embed__end(ctx, blas ? blas_mix(ctx, &job) : own_mix(ctx, &job));
}
