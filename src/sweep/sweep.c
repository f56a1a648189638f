/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner and the two drivers of a sweep. */
#include "sweep/sweep.h"

#include <inttypes.h>

#include "core/checked.h"
#include "core/error.h"
#include "sweep/gemm_blas.h"
#include "thread/run.h"

enum {
  BLAS_ROWS = 48,                  /* hidden rows from which OpenBLAS is faster than our kernels of its vector width, */
  BLAS_ROWS_512 = 320,             /* and where both multiply with 512 bits: see blas_pays */
  BLAS_CHUNK = 512,                /* hidden rows per call of OpenBLAS */
  BLAS_COLUMNS = 8 * EMBED__BLOCK, /* table rows per call, on the table's own floats */
  PART_ROWS = 128,                 /* when OpenBLAS runs one thread: what one of our tasks multiplies */
  PART_COLUMNS = 2 * EMBED__BLOCK,
  OWN_CHUNK = 128, /* hidden rows per pass with our kernels: they stay in L2 */
  TASK_ROWS = 64,  /* of them per task */
  FEW_BLOCKS = 8,  /* up to here tasks take fewer rows, so that there are enough of them */
  FEW_ROWS = 16,
  DECODE_ROWS = 32,      /* table rows per task that makes floats for OpenBLAS */
  REDUCE_ROWS = 8,       /* hidden rows per task that reduces OpenBLAS's product */
  STATE_BYTES = 32 << 20 /* of all slots' tiles and states together */
};

/* Measured on 50257 x 768 floats, 2 threads: with 512-bit vectors our kernels do 204 to 253 GFLOP/s at 32 to 256 rows and
 * OpenBLAS 82 to 231; at 512 rows 215 to 254. With 256 bits ours stay at 60 to 77, OpenBLAS passes them at 48 rows. An
 * OpenBLAS with narrower vectors than ours (a core it does not know, or one that was forced) never catches up. */
static bool blas_pays(const embed_context *ctx, int64_t n) {
  int ours = ctx->kernels->dot.vector_bits, theirs = embed__blas_vector_bits();
  if (theirs && theirs < ours) return false;
  if (embed__blas_threads() == 1 && !embed__blas_runs_side_by_side() && embed__workers(ctx) > 1) return false; /* one thread against all of ours */
  return n >= (ours >= 512 ? BLAS_ROWS_512 : BLAS_ROWS);
}

static embed_status plan(embed_context *ctx, embed__sweep *s) {
  bool reproducible = ctx->flags & EMBED_CONTEXT_REPRODUCIBLE, built_in = embed__blas_threads() != 0;
  if (s->force_blas && !built_in) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "EMBED_HEAD_BLAS: this library is built without OpenBLAS");
  if (s->force_blas && reproducible) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "EMBED_HEAD_BLAS: a reproducible context keeps away from OpenBLAS");
  s->direct = embed__floats_in_place(s->table);
  s->blas = s->force_blas || (built_in && !reproducible && s->direct && blas_pays(ctx, s->n));
  s->slots = s->blas ? 1 : embed__workers(ctx);
  if (s->blas) {
    s->chunk = embed__min(s->n, BLAS_CHUNK); /* fixed: another chunk could give other bits */
  } else {
    int64_t row_bytes = s->state_bytes + (s->out ? 0 : EMBED__BLOCK * (int64_t)sizeof(float));
    int64_t bounded = STATE_BYTES / embed__max(1, row_bytes) / s->slots;
    s->chunk = embed__max(1, embed__min(s->n, embed__min(OWN_CHUNK, bounded)));
  }
  return EMBED_OK;
}

embed_status embed__sweep_begin(embed_context *ctx, embed__sweep *s) {
  EMBED__TRY(plan(ctx, s));
  const embed_table *t = s->table;
  int32_t workers = embed__workers(ctx);
  int64_t columns = embed__min(t->vocab, s->direct ? BLAS_COLUMNS : EMBED__BLOCK);
  if (s->x_dtype != EMBED_F32) EMBED__TRY(embed__scratch_matrix(ctx, s->chunk, t->dim, sizeof(float), &s->hidden));
  if (!s->out) {
    int64_t floats = s->blas ? s->chunk * columns : (int64_t)workers * s->chunk * EMBED__BLOCK;
    EMBED__TRY(embed__scratch_get(ctx, floats, sizeof(float), &s->tiles));
  }
  int64_t decoded, floats;
  if (!embed__mul(s->blas && !s->direct ? EMBED__BLOCK : 0, t->dim, &decoded)) return embed__out_of_memory(ctx, -1);
  if (!embed__mul(workers, embed__decoded_floats(t), &floats)) return embed__out_of_memory(ctx, -1);
  floats = embed__max(decoded, floats);
  if (floats) EMBED__TRY(embed__scratch_get(ctx, floats, sizeof(float), &s->decoded));
  return EMBED_OK;
}

/* One chunk under way. */
typedef struct chunk_job {
  const embed__sweep *s;
  const embed__kernels *kernels;
  const float *x;
  int64_t ldx, rows;
  float *out; /* the chunk's first row of s->out, or NULL */
  int64_t blocks, rows_per_task;
  /* one call of OpenBLAS */
  int64_t column, columns, ldz;
  float *z;
  const float *b; /* the table rows from column on, as floats */
  int64_t ldb;
  int64_t parts; /* of the columns, when tasks share the call */
  _Atomic int64_t refused;
} chunk_job;

static void own_task(void *arg, int64_t task, int32_t worker) {
  const chunk_job *job = arg;
  const embed__sweep *s = job->s;
  const embed_table *t = s->table;
  int64_t first = task / job->blocks * job->rows_per_task, column = task % job->blocks * EMBED__BLOCK;
  embed__tile tile = {.first = first, .rows = embed__min(job->rows_per_task, job->rows - first), .column = column, .slot = worker};
  tile.columns = embed__min(EMBED__BLOCK, t->vocab - column);
  tile.ldz = job->out ? s->ldout : EMBED__BLOCK;
  tile.z = job->out ? job->out + first * s->ldout + column : s->tiles + (int64_t)worker * s->chunk * EMBED__BLOCK;
  float *decoded = s->decoded ? s->decoded + (int64_t)worker * embed__decoded_floats(t) : NULL;
  embed__product(job->kernels, t, column, tile.columns, job->x + first * job->ldx, job->ldx, tile.rows, decoded, tile.z, tile.ldz);
  if (s->take) s->take(s->reducer, &tile);
}

static embed_status own_chunk(embed_context *ctx, chunk_job *job, int64_t done, int64_t all) {
  job->rows_per_task = job->blocks <= FEW_BLOCKS ? FEW_ROWS : TASK_ROWS;
  int64_t tasks = job->blocks * embed__ceil_div(job->rows, job->rows_per_task);
  return embed__run_long(ctx, tasks, own_task, job, done, all);
}

static void decode_task(void *arg, int64_t task, int32_t worker) {
  const chunk_job *job = arg;
  const embed_table *t = job->s->table;
  (void)worker;
  for (int64_t r = task * DECODE_ROWS; r < embed__min(job->columns, (task + 1) * DECODE_ROWS); ++r)
    t->codec->decode(job->kernels, embed__row(t, job->column + r), job->s->decoded + r * t->dim, t->dim, t->group, 1.0f);
}

static void part_task(void *arg, int64_t task, int32_t worker) {
  chunk_job *job = arg;
  (void)worker;
  int64_t first = task / job->parts * PART_ROWS, column = task % job->parts * PART_COLUMNS;
  if (!embed__gemm_nt(embed__min(PART_ROWS, job->rows - first), embed__min(PART_COLUMNS, job->columns - column), job->s->table->dim, job->x + first * job->ldx,
                      job->ldx, job->b + column * job->ldb, job->ldb, job->z + first * job->ldz + column, job->ldz))
    atomic_store(&job->refused, 1);
}

/* What OpenBLAS's guards refused: the same region by our kernels, a block a task. */
static void refused_task(void *arg, int64_t task, int32_t worker) {
  const chunk_job *job = arg;
  (void)worker;
  int64_t column = task * EMBED__BLOCK, columns = embed__min(EMBED__BLOCK, job->columns - column);
  job->kernels->dot.tile[EMBED__STORED_F32](job->b + column * job->ldb, job->ldb * (int64_t)sizeof(float), columns, job->x, job->ldx, job->rows,
                                            job->s->table->dim, job->z + column, job->ldz);
}

static void reduce_task(void *arg, int64_t task, int32_t worker) {
  const chunk_job *job = arg;
  (void)worker;
  embed__tile tile = {.first = task * REDUCE_ROWS, .ldz = job->ldz};
  tile.rows = embed__min(REDUCE_ROWS, job->rows - tile.first);
  for (int64_t column = 0; column < job->columns; column += EMBED__BLOCK) {
    tile.column = job->column + column;
    tile.columns = embed__min(EMBED__BLOCK, job->columns - column);
    tile.z = job->z + tile.first * job->ldz + column;
    job->s->take(job->s->reducer, &tile);
  }
}

/* One call's worth of columns: multiply, then reduce by rows, so that a row's state belongs to one task (slot 0). */
static embed_status blas_columns(embed_context *ctx, chunk_job *job) {
  const embed__sweep *s = job->s;
  if (s->direct) {
    job->ldb = s->table->row_bytes / (int64_t)sizeof(float);
    job->b = (const float *)(const void *)embed__row(s->table, job->column);
  } else {
    EMBED__TRY(embed__run(ctx, embed__ceil_div(job->columns, DECODE_ROWS), decode_task, job));
    job->ldb = s->table->dim;
    job->b = s->decoded;
  }
  job->z = job->out ? job->out + job->column : s->tiles;
  job->ldz = job->out ? s->ldout : job->columns;
  atomic_store(&job->refused, 0);
  if (embed__blas_runs_side_by_side()) {
    job->parts = embed__ceil_div(job->columns, PART_COLUMNS);
    EMBED__TRY(embed__run(ctx, job->parts * embed__ceil_div(job->rows, PART_ROWS), part_task, job));
  } else if (!embed__gemm_nt(job->rows, job->columns, s->table->dim, job->x, job->ldx, job->b, job->ldb, job->z, job->ldz)) {
    atomic_store(&job->refused, 1);
  }
  if (atomic_load(&job->refused)) EMBED__TRY(embed__run(ctx, embed__ceil_div(job->columns, EMBED__BLOCK), refused_task, job));
  return s->take ? embed__run(ctx, embed__ceil_div(job->rows, REDUCE_ROWS), reduce_task, job) : EMBED_OK;
}

static embed_status blas_chunk(embed_context *ctx, chunk_job *job, int64_t done, int64_t all) {
  const embed__sweep *s = job->s;
  int64_t per_call = s->direct ? BLAS_COLUMNS : EMBED__BLOCK;
  for (int64_t column = 0; column < s->table->vocab; column += per_call) {
    job->column = column;
    job->columns = embed__min(per_call, s->table->vocab - column);
    EMBED__TRY(blas_columns(ctx, job));
    EMBED__TRY(embed__pause(ctx, done + embed__ceil_div(column + job->columns, EMBED__BLOCK), all));
  }
  return EMBED_OK;
}

embed_status embed__sweep_chunk(embed_context *ctx, embed__sweep *s, int64_t first) {
  const embed_table *t = s->table;
  chunk_job job = {.s = s, .kernels = ctx->kernels, .ldx = s->ldx, .rows = embed__min(s->chunk, s->n - first)};
  const unsigned char *x = s->x + first * s->ldx * embed__float_bytes(s->x_dtype);
  if (s->x_dtype == EMBED_F32) {
    job.x = (const float *)(const void *)x;
  } else {
    for (int64_t i = 0; i < job.rows; ++i)
      embed__load_row(ctx->kernels, x + i * s->ldx * embed__float_bytes(s->x_dtype), s->x_dtype, s->hidden + i * t->dim, t->dim);
    job.x = s->hidden;
    job.ldx = t->dim;
  }
  if (s->out) job.out = s->out + first * s->ldout;
  job.blocks = embed__ceil_div(t->vocab, EMBED__BLOCK);
  if (job.blocks == 0 || job.rows == 0) return EMBED_OK;
  int64_t chunks = embed__ceil_div(s->n, s->chunk), done = first / s->chunk * job.blocks, all = chunks * job.blocks;
  return s->blas ? blas_chunk(ctx, &job, done, all) : own_chunk(ctx, &job, done, all);
}
