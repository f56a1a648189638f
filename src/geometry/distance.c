/* SPDX-License-Identifier: BSD-3-Clause */
/* The nearest rows by distance. The answers are those of |q - w| summed as it is written, in double, over every row:
 * |q|^2 - 2 q.w + |w|^2 in float loses what tells near rows apart. But it can tell which rows cannot be near: the sweep ranks
 * them by it, the best are measured as written, best first, until the bound below says that no other row comes as near. What
 * that never says (rows far from the origin beside their distances) is measured against every row.
 *
 * The bound. u = 2^-24. A float sum of dim products, in any order, with or without FMA, of decoded or quantised weights, is
 * right to 2 (dim + 64) u |q||w| + tiny, tiny = what flushed subnormals cost. Tiles of limbs (kernels/panel.h) add six products, each
 * rounded, for one, which together are below 1.02 of its size, and leave out less than 3 u of it. So g = 8 (dim + 64) u covers
 * all ways to multiply; and 2 |q||w| <= |q|^2 + |w|^2. So
 *   |q - w|^2 = |q|^2 - 2 q.w + |w|^2 >= (1 - g)(|q|^2 + |w|^2) - 2 z - 2 tiny        z the sweep's product.
 * A score is s = z - h in float, h <= (1 - g - 4 u) |w|^2 / 2 rounded down; its own rounding is below u (|q|^2 + 2 |w|^2), which
 * the 4 u cover together with the rounding of what follows. So
 *   |q - w|^2 >= (1 - g - 4 u) |q|^2 - 2 s - 4 tiny
 * and falls as s grows. Where |q|^2 or a |w|^2 nears the end of float's range nothing is ranked. */
#include <float.h>
#include <math.h>

#include "core/checked.h"
#include "core/error.h"
#include "geometry/search.h"
#include "sweep/sweep.h"
#include "thread/run.h"

enum {
  MORE = 64,          /* rows that are ranked beside the 2 k that may be measured */
  SCAN_QUERIES = 16,  /* measured together against every row */
  MOST_DIM = 1 << 18, /* where g would be large */
};
static const double unit = 0x1p-24, most_square = 0x1p100;

typedef struct distance_job {
  embed__search search;
  const float *half_squares; /* -h per row */
  int32_t slots;
  double g;               /* g + 4 u */
  float *rows;            /* [workers, dim]: one decoded */
  embed__ranked *nearest; /* [workers, k] */
  bool *unsure;           /* [n]: the bound could not tell */
  int64_t *left;          /* [n]: those queries */
  int64_t scanned;        /* the first of left that a scan measures */
  int64_t together;
  float *distances; /* [workers, SCAN_QUERIES, block] */
} distance_job;

static float distance(const float *query, const float *row, int64_t dim) {
  double sum = 0;
  for (int64_t j = 0; j < dim; ++j) {
    double apart = (double)query[j] - (double)row[j];
    sum += apart * apart;
  }
  return (float)sqrt(sum);
}

/* What the ranking needs of a table: -h per row, -inf for a row that is at no finite distance, and the largest other h. */

typedef struct squares_job {
  const embed_context *ctx;
  const embed_table *t;
  float *out, *rows;
} squares_job;

enum { ROWS_PER_TASK = 256 };

static double loss_of(int64_t dim) { return (8 * ((double)dim + 64) + 4) * unit; }

static void squares_of_rows(void *arg, int64_t task, int32_t worker) {
  const squares_job *job = arg;
  const embed_table *t = job->t;
  float *row = job->rows + worker * t->dim;
  for (int64_t r = task * ROWS_PER_TASK; r < embed__min(t->vocab, (task + 1) * ROWS_PER_TASK); ++r) {
    embed__decode(job->ctx, t, r, row, 1.0f);
    double square = job->ctx->kernels->row.sum_squares(row, t->dim);
    job->out[r] = isfinite(square) ? -nextafterf((float)(0.5 * square * (1 - loss_of(t->dim))), 0) : -INFINITY;
  }
}

static embed_status make_half_squares(embed_context *ctx, const embed_table *t, float *out) {
  squares_job job = {.ctx = ctx, .t = t, .out = out};
  int64_t tasks = embed__ceil_div(t->vocab, ROWS_PER_TASK);
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), t->dim, sizeof(float), &job.rows));
  EMBED__TRY(embed__run_long(ctx, tasks, squares_of_rows, &job, 0, tasks));
  out[t->vocab] = 0;
  for (int64_t r = 0; r < t->vocab; ++r)
    if (-out[r] > out[t->vocab] && !isinf(out[r])) out[t->vocab] = -out[r];
  return EMBED_OK;
}

static void rank_tile(void *arg, const embed__tile *tile) {
  const distance_job *job = arg;
  for (int64_t i = 0; i < tile->rows; ++i) {
    float *z = tile->z + i * tile->ldz;
    job->search.ctx->kernels->row.add(z, job->half_squares + tile->column, tile->columns);
    embed__search_offer(&job->search, tile->slot, tile->first + i, z, tile->columns, tile->column);
  }
}

/* Whether every row of score <= s is farther than `reach`, also once its distance is rounded to float. */
static bool are_beyond(const distance_job *job, double square, float s, float reach) {
  const double tiny = (double)job->search.q->table->dim * 0x1p-120 * (1 + sqrt(square)), next = nextafterf(reach, INFINITY);
  const double least = square * (1 - job->g) - 2 * (double)s - 4 * tiny;
  return least - unit * (square + fabs((double)s)) > next * next * (1 + 1e-9);
}

/* Measures the rows that the sweep ranked best; false where another may be as near. */
static bool measure_best(const distance_job *job, const embed__topk *ranked, const float *query, float *room, embed__topk *nearest) {
  const embed_table *t = job->search.q->table;
  const embed_context *ctx = job->search.ctx;
  const double square = ctx->kernels->row.sum_squares(query, t->dim);
  if (!(square <= most_square)) return false;
  for (int64_t j = 0; j < ranked->count; ++j) {
    const embed__ranked *entry = &ranked->entries[j];
    if (isinf(entry->value)) return true; /* this row and the rest are at no finite distance */
    if (nearest->count == nearest->capacity && are_beyond(job, square, entry->value, -nearest->entries[0].value)) return true;
    embed__decode(ctx, t, entry->id, room, 1.0f);
    const float score = -distance(query, room, t->dim);
    embed__topk_offer(ctx->kernels, nearest, &score, 1, entry->id, NULL, 0);
  }
  return ranked->count < ranked->capacity || ranked->capacity == t->vocab; /* there is no other */
}

static void answer_query(void *arg, int64_t task, int32_t worker) {
  distance_job *job = arg;
  const embed__nearest *q = job->search.q;
  int64_t at = job->search.first + task, k = embed__min(q->k, q->table->vocab);
  embed__topk nearest = {.entries = job->nearest + worker * k, .capacity = k, .numbers_only = true};
  const embed__topk *ranked = embed__search_sorted(&job->search, job->slots, task);
  job->unsure[at] = !measure_best(job, ranked, q->queries + at * q->ldq, job->rows + worker * q->table->dim, &nearest);
  if (job->unsure[at]) return;
  embed__topk_sort(&nearest);
  embed__search_answer(q, at, &nearest);
}

static embed_status rank_and_measure(embed_context *ctx, distance_job *job) {
  const embed__nearest *q = job->search.q;
  embed__search *search = &job->search;
  embed__sweep s = {.table = q->table, .x = (const unsigned char *)q->queries, .x_dtype = EMBED_F32, .n = q->n, .ldx = q->ldq};
  s.take = rank_tile;
  s.reducer = job;
  search->capacity = embed__min(2 * q->k + MORE, q->table->vocab);
  s.state_bytes = embed__search_state_bytes(search);
  EMBED__TRY(embed__sweep_begin(ctx, &s));
  search->chunk = s.chunk;
  job->slots = s.slots;
  EMBED__TRY(embed__search_heaps(ctx, search, s.slots));
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), embed__min(q->k, q->table->vocab), sizeof *job->nearest, &job->nearest));
  for (search->first = 0; search->first < q->n; search->first += s.chunk) {
    embed__search_empty(search, s.slots);
    EMBED__TRY(embed__sweep_chunk(ctx, &s, search->first));
    EMBED__TRY(embed__run(ctx, embed__min(s.chunk, q->n - search->first), answer_query, job));
  }
  return EMBED_OK;
}

/* One block of rows against some queries of `left`. */
static void measure_block(void *arg, int64_t task, int32_t worker) {
  const distance_job *job = arg;
  const embed__nearest *q = job->search.q;
  const embed_table *t = q->table;
  float *row = job->rows + worker * t->dim, *z = job->distances + worker * (int64_t)SCAN_QUERIES * EMBED__BLOCK;
  int64_t column = task * EMBED__BLOCK, columns = embed__min(EMBED__BLOCK, t->vocab - column);
  for (int64_t c = 0; c < columns; ++c) {
    embed__decode(job->search.ctx, t, column + c, row, 1.0f);
    for (int64_t i = 0; i < job->together; ++i) z[i * EMBED__BLOCK + c] = -distance(q->queries + job->left[job->scanned + i] * q->ldq, row, t->dim);
  }
  embed__search one = job->search; /* its first query is the one that is offered to */
  for (int64_t i = 0; i < job->together; ++i) {
    one.first = job->left[job->scanned + i] - i;
    embed__search_offer(&one, worker, i, z + i * EMBED__BLOCK, columns, column);
  }
}

static embed_status measure_all(embed_context *ctx, distance_job *job, int64_t left) {
  const embed__nearest *q = job->search.q;
  embed__search *search = &job->search;
  const int32_t workers = embed__workers(ctx);
  const int64_t blocks = embed__ceil_div(q->table->vocab, EMBED__BLOCK), rounds = embed__ceil_div(left, SCAN_QUERIES);
  search->capacity = embed__min(q->k, q->table->vocab);
  search->chunk = SCAN_QUERIES;
  EMBED__TRY(embed__scratch_get(ctx, workers * (int64_t)SCAN_QUERIES * EMBED__BLOCK, sizeof(float), &job->distances));
  EMBED__TRY(embed__search_heaps(ctx, search, workers));
  for (job->scanned = 0; job->scanned < left; job->scanned += SCAN_QUERIES) {
    job->together = embed__min(SCAN_QUERIES, left - job->scanned);
    embed__search_empty(search, workers);
    EMBED__TRY(embed__run_long(ctx, blocks, measure_block, job, job->scanned / SCAN_QUERIES * blocks, rounds * blocks));
    for (int64_t i = 0; i < job->together; ++i) embed__search_answer(q, job->left[job->scanned + i], embed__search_sorted(search, workers, i));
  }
  return EMBED_OK;
}

embed_status embed__nearest_by_distance(embed_context *ctx, const embed__nearest *q) {
  distance_job job = {.search = {.ctx = ctx, .q = q}, .g = loss_of(q->table->dim)};
  const embed_table *t = q->table;
  int64_t left = 0;
  EMBED__TRY(embed__row_numbers(ctx, t, EMBED__HALF_SQUARES, make_half_squares, &job.half_squares));
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), t->dim, sizeof(float), &job.rows));
  EMBED__TRY(embed__scratch_get(ctx, q->n, sizeof *job.unsure, &job.unsure));
  EMBED__TRY(embed__scratch_get(ctx, q->n, sizeof *job.left, &job.left));
  bool ranked = t->dim <= MOST_DIM && q->k > 0 && job.half_squares[t->vocab] <= most_square;
  if (ranked) EMBED__TRY(rank_and_measure(ctx, &job));
  for (int64_t i = 0; i < q->n; ++i)
    if (!ranked || job.unsure[i]) job.left[left++] = i;
  return left ? measure_all(ctx, &job, left) : EMBED_OK;
}
