/* SPDX-License-Identifier: BSD-3-Clause */
/* A sweep through OpenBLAS: one call per some thousand table rows. */
#include "core/checked.h"
#include "core/error.h"
#include "sweep/chunk.h"
#include "sweep/gemm_blas.h"
#include "thread/run.h"

enum {
  BLAS_COLUMNS = 8 * EMBED__BLOCK, /* table rows per call, on the table's own floats */
  PART_ROWS = 128,                 /* when OpenBLAS runs one thread: what one of our tasks multiplies */
  PART_COLUMNS = 2 * EMBED__BLOCK,
  DECODE_ROWS = 32, /* table rows per task that makes floats for OpenBLAS */
  REDUCE_ROWS = 8   /* hidden rows per task that reduces OpenBLAS's product */
};

int64_t embed__blas_columns(const embed__sweep *s) { return s->direct ? BLAS_COLUMNS : EMBED__BLOCK; }

/* One call. */
typedef struct blas_job {
  const embed__chunk *chunk;
  int64_t column, columns, ldz;
  float *z;
  const float *b; /* the table rows from column on, as floats */
  int64_t ldb;
  int64_t parts; /* of the columns, when tasks share the call */
  _Atomic int64_t refused;
} blas_job;

static void decode_task(void *arg, int64_t task, int32_t worker) {
  const blas_job *job = arg;
  const embed__sweep *s = job->chunk->s;
  const embed_table *t = s->table;
  (void)worker;
  for (int64_t r = task * DECODE_ROWS; r < embed__min(job->columns, (task + 1) * DECODE_ROWS); ++r)
    embed__decode_stored(job->chunk->kernels, t, job->column + r, s->decoded + r * t->dim, 1.0f);
}

static void part_task(void *arg, int64_t task, int32_t worker) {
  blas_job *job = arg;
  const embed__chunk *c = job->chunk;
  (void)worker;
  int64_t first = task / job->parts * PART_ROWS, column = task % job->parts * PART_COLUMNS;
  if (!embed__gemm_nt(embed__min(PART_ROWS, c->rows - first), embed__min(PART_COLUMNS, job->columns - column), c->s->table->dim, c->x + first * c->ldx, c->ldx,
                      job->b + column * job->ldb, job->ldb, job->z + first * job->ldz + column, job->ldz))
    atomic_store(&job->refused, 1);
}

/* What OpenBLAS's guards refused: the same region by our kernels, a block a task. */
static void refused_task(void *arg, int64_t task, int32_t worker) {
  const blas_job *job = arg;
  const embed__chunk *c = job->chunk;
  (void)worker;
  int64_t column = task * EMBED__BLOCK, columns = embed__min(EMBED__BLOCK, job->columns - column);
  c->kernels->dot.tile[EMBED__STORED_F32](job->b + column * job->ldb, job->ldb * (int64_t)sizeof(float), columns, c->x, c->ldx, c->rows, c->s->table->dim,
                                          job->z + column, job->ldz);
}

static void reduce_task(void *arg, int64_t task, int32_t worker) {
  const blas_job *job = arg;
  const embed__sweep *s = job->chunk->s;
  (void)worker;
  embed__tile tile = {.first = task * REDUCE_ROWS, .ldz = job->ldz};
  tile.rows = embed__min(REDUCE_ROWS, job->chunk->rows - tile.first);
  for (int64_t column = 0; column < job->columns; column += EMBED__BLOCK) {
    tile.column = job->column + column;
    tile.columns = embed__min(EMBED__BLOCK, job->columns - column);
    tile.z = job->z + tile.first * job->ldz + column;
    s->take(s->reducer, &tile);
  }
}

/* One call's worth of columns: multiply, then reduce by rows, so that a row's state belongs to one task (slot 0). */
static embed_status multiply_columns(embed_context *ctx, blas_job *job) {
  const embed__chunk *c = job->chunk;
  const embed__sweep *s = c->s;
  if (s->direct) {
    job->ldb = s->table->row_bytes / (int64_t)sizeof(float);
    job->b = (const float *)(const void *)embed__row(s->table, job->column);
  } else {
    EMBED__TRY(embed__run(ctx, embed__ceil_div(job->columns, DECODE_ROWS), decode_task, job));
    job->ldb = s->table->dim;
    job->b = s->decoded;
  }
  job->z = c->out ? c->out + job->column : s->tiles;
  job->ldz = c->out ? s->ldout : job->columns;
  atomic_store(&job->refused, 0);
  if (embed__blas_runs_side_by_side()) {
    job->parts = embed__ceil_div(job->columns, PART_COLUMNS);
    EMBED__TRY(embed__run(ctx, job->parts * embed__ceil_div(c->rows, PART_ROWS), part_task, job));
  } else if (!embed__gemm_nt(c->rows, job->columns, s->table->dim, c->x, c->ldx, job->b, job->ldb, job->z, job->ldz)) {
    atomic_store(&job->refused, 1);
  }
  if (atomic_load(&job->refused)) EMBED__TRY(embed__run(ctx, embed__ceil_div(job->columns, EMBED__BLOCK), refused_task, job));
  return s->take ? embed__run(ctx, embed__ceil_div(c->rows, REDUCE_ROWS), reduce_task, job) : EMBED_OK;
}

embed_status embed__blas_chunk(embed_context *ctx, const embed__chunk *chunk) {
  const embed__sweep *s = chunk->s;
  blas_job job = {.chunk = chunk};
  int64_t per_call = embed__blas_columns(s);
  for (int64_t column = 0; column < s->table->vocab; column += per_call) {
    job.column = column;
    job.columns = embed__min(per_call, s->table->vocab - column);
    EMBED__TRY(multiply_columns(ctx, &job));
    int64_t blocks = chunk->done * chunk->blocks + embed__ceil_div(column + job.columns, EMBED__BLOCK);
    EMBED__TRY(embed__pause(ctx, blocks, chunk->chunks * chunk->blocks));
  }
  return EMBED_OK;
}
