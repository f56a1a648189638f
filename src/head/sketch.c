/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a head's sketch: rows less their mean in 6 bits, and for each the radius of BOUND.md. */
#include "head/sketch.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/half.h"
#include "core/memory.h"
#include "core/pages.h"
#include "thread/run.h"

enum { LINE = 64, ROWS = EMBED__SKETCH_ROWS, COLUMNS = EMBED__SKETCH_COLUMNS, BLOCK_BYTES = 12 * LINE, MEAN_ROWS = 4096, PANELS_PER_TASK = 16 };

static const double LARGEST = 0x1p30, FLOOR = 0x1p-30, UNIT = 0x1p-24;

/* The factor of |w|, |w~| and |mean| in a radius: what floats are off in either sweep. */
static double rounding_factor(int64_t dim) {
  const double roundings = (double)(embed__min(dim, 256) + dim / 16 + 65) * UNIT;
  return 4 * roundings / (1 - roundings);
}

static bool is_bounded(const float *row, int64_t dim) {
  for (int64_t j = 0; j < dim; ++j)
    if (!(fabs((double)row[j]) <= LARGEST)) return false;
  return true;
}

typedef struct sketch_job {
  const embed__kernels *kernels;
  const embed_table *t;
  const embed__sketch *s;
  float *decoded; /* [workers, dim] */
  double factor;
} sketch_job;

/* The least bfloat that is not below. */
static uint16_t bf16_above(double value) {
  float nearest = (float)value;
  if ((double)nearest < value) nearest = nextafterf(nearest, INFINITY);
  return (uint16_t)((embed__bits_of_f32(nearest) + 0xFFFFu) >> 16);
}

typedef struct squares {
  double row, copy, rest; /* of w, w~ and what is left over: sums of squares */
} squares;

/* To the nearest integer, for |x| < 2^51. */
static inline double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

static void put_weights(const unsigned char u[COLUMNS], int lane, unsigned char *lines) {
  for (int g = 0; g < 4; ++g, u += 16, lines += 3 * LINE) {
    for (int c = 0; c < 4; ++c) {
      unsigned char *at = lines + 4 * lane + c;
      const int last = u[12 + c];
      at[0] = (unsigned char)(u[c] | (last >> 4 & 3) << 6);
      at[LINE] = (unsigned char)(u[4 + c] | (last >> 2 & 3) << 6);
      at[2 * LINE] = (unsigned char)(u[8 + c] | (last & 3) << 6);
    }
  }
}

/* row NULL: zeros. */
static void put_block(const sketch_job *job, const float *row, int64_t block, int lane, unsigned char *panel, squares *sum) {
  const int64_t dim = job->t->dim, first = block * COLUMNS, count = row ? embed__min(COLUMNS, dim - first) : 0;
  unsigned char u[COLUMNS];
  double value[COLUMNS], largest = 0;
  for (int64_t c = 0; c < count; ++c) {
    const double w = (double)row[first + c];
    value[c] = w - (double)job->s->mean[first + c];
    largest = largest < value[c] ? value[c] : largest < -value[c] ? -value[c] : largest;
    sum->row += w * w;
  }
  const uint16_t half = bf16_above(largest / EMBED__SKETCH_MOST);
  const double scale = (double)embed__f32_of_bf16(half), inverse = scale > 0 ? 1 / scale : 0;
  memcpy(panel + 2 * (block * ROWS + lane), &half, sizeof half);
  for (int64_t c = 0; c < count; ++c) {
    double q = nearest(value[c] * inverse);
    q = q > EMBED__SKETCH_MOST ? EMBED__SKETCH_MOST : q < -EMBED__SKETCH_MOST ? -EMBED__SKETCH_MOST : q;
    const double copy = q * scale, rest = value[c] - copy;
    u[c] = (unsigned char)((int)q + EMBED__SKETCH_ZERO);
    sum->copy += copy * copy;
    sum->rest += rest * rest;
  }
  for (int64_t c = count; c < COLUMNS; ++c) u[c] = EMBED__SKETCH_ZERO;
  put_weights(u, lane, panel + embed__sketch_scale_bytes(dim) + block * BLOCK_BYTES);
}

static float radius_of(const sketch_job *job, squares sum) {
  const double copy = sqrt(sum.copy), rest = fmax(sqrt(sum.rest), copy / EMBED__SKETCH_RADIUS_PER_NORM);
  return (float)((rest + job->factor * (sqrt(sum.row) + copy + job->s->mean_norm) + FLOOR) * (1 + 0x1p-20));
}

static void make_panels(void *arg, int64_t task, int32_t worker) {
  const sketch_job *job = arg;
  const embed_table *t = job->t;
  const int64_t panels = embed__ceil_div(t->vocab, ROWS), blocks = embed__sketch_blocks(t->dim);
  float *decoded = job->decoded + worker * t->dim;
  for (int64_t p = task * PANELS_PER_TASK; p < embed__min(panels, (task + 1) * PANELS_PER_TASK); ++p) {
    unsigned char *panel = job->s->panels + p * job->s->panel_bytes;
    memset(panel, 0, (size_t)embed__sketch_scale_bytes(t->dim));
    for (int lane = 0; lane < ROWS; ++lane) {
      const int64_t id = p * ROWS + lane;
      squares sum = {0};
      if (id < t->vocab) embed__decode_stored(job->kernels, t, id, decoded, 1.0f);
      const bool bounded = id < t->vocab && is_bounded(decoded, t->dim);
      for (int64_t b = 0; b < blocks; ++b) put_block(job, bounded ? decoded : NULL, b, lane, panel, &sum);
      job->s->radius[id] = bounded ? radius_of(job, sum) : INFINITY;
    }
  }
}

/* Any row may be subtracted; the mean of some thousand makes what is left small. */
static void make_mean(const embed_context *ctx, const embed_table *t, embed__sketch *s, float *row, double *sum) {
  const int64_t step = embed__ceil_div(embed__max(1, t->vocab), MEAN_ROWS);
  int64_t rows = 0;
  memset(sum, 0, (size_t)t->dim * sizeof *sum);
  for (int64_t id = 0; id < t->vocab; id += step) {
    embed__decode(ctx, t, id, row, 1.0f);
    if (!is_bounded(row, t->dim)) continue;
    for (int64_t j = 0; j < t->dim; ++j) sum[j] += (double)row[j];
    ++rows;
  }
  double squared = 0;
  for (int64_t j = 0; j < t->dim; ++j) {
    s->mean[j] = rows ? (float)(sum[j] / (double)rows) : 0;
    squared += (double)s->mean[j] * (double)s->mean[j];
  }
  s->mean_norm = sqrt(squared);
}

embed_status embed__sketch_again(embed_context *ctx, const embed_table *t, embed__sketch *s) {
  sketch_job job = {.kernels = ctx->kernels, .t = t, .s = s, .factor = rounding_factor(t->dim)};
  const uint64_t changes = embed__table_changes(t);
  double *sum;
  s->changes = changes - 1; /* stale until it is whole */
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), t->dim, sizeof(float), &job.decoded));
  EMBED__TRY(embed__scratch_get(ctx, t->dim, sizeof(double), &sum));
  make_mean(ctx, t, s, job.decoded, sum);
  const int64_t tasks = embed__ceil_div(embed__ceil_div(t->vocab, ROWS), PANELS_PER_TASK);
  EMBED__TRY(embed__run_long(ctx, tasks, make_panels, &job, 0, tasks));
  atomic_store(&s->average, s->share);
  s->changes = changes;
  return EMBED_OK;
}

/* Whole lines for each part of the block. */
static bool lay_out(const embed_table *t, embed__sketch *s, int64_t *radii_at, int64_t *panels_at) {
  const int64_t panels = embed__ceil_div(t->vocab, ROWS);
  int64_t bytes;
  s->panel_bytes = embed__sketch_panel_bytes(t->dim);
  *radii_at = embed__ceil_div(4 * t->dim, LINE) * LINE;
  if (!embed__mul(panels, s->panel_bytes + ROWS * (int64_t)sizeof(float), &bytes) || !embed__add(bytes, *radii_at, &bytes)) return false;
  *panels_at = *radii_at + panels * ROWS * (int64_t)sizeof(float);
  s->bytes = (size_t)embed__max(1, bytes);
  return true;
}

embed_status embed__sketch_new(embed_context *ctx, const embed_table *t, const embed_allocator *memory, embed__sketch **out) {
  int64_t radii_at, panels_at;
  if (t->dim > EMBED__SKETCH_MOST_DIM)
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "EMBED_HEAD_SKETCH: the table has %" PRId64 " columns, at most %d can be bounded", t->dim,
                       EMBED__SKETCH_MOST_DIM);
  embed__sketch *s = embed__new(memory, sizeof *s);
  if (!s) return embed__out_of_memory(ctx, (int64_t)sizeof *s);
  if (!lay_out(t, s, &radii_at, &panels_at)) {
    embed__free(memory, s, sizeof *s, EMBED__ALIGNMENT);
    return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "a sketch of the table does not fit into memory");
  }
  s->alignment = s->bytes >= EMBED__HUGE_PAGE ? EMBED__HUGE_PAGE : EMBED__ALIGNMENT;
  s->block = embed__allocate(memory, s->bytes, s->alignment);
  embed_status status = s->block ? EMBED_OK : embed__out_of_memory(ctx, (int64_t)s->bytes);
  if (status == EMBED_OK) {
    if (s->alignment == EMBED__HUGE_PAGE) embed__want_huge_pages(s->block, s->bytes);
    s->mean = (float *)(void *)s->block;
    s->radius = (float *)(void *)(s->block + radii_at);
    s->panels = s->block + panels_at;
    const double share = (double)(s->panel_bytes / ROWS + (int64_t)sizeof(float)) / (double)t->packed_bytes;
    s->share = (int32_t)(fmin(share, 100) * EMBED__SKETCH_ONE);
    s->most = t->vocab / 4;
    status = embed__sketch_again(ctx, t, s);
  }
  if (status == EMBED_OK)
    *out = s;
  else
    embed__sketch_free(memory, s);
  return status;
}

void embed__sketch_free(const embed_allocator *memory, embed__sketch *s) {
  if (!s) return;
  embed__free(memory, s->block, s->bytes, s->alignment);
  embed__free(memory, s, sizeof *s, EMBED__ALIGNMENT);
}

bool embed__sketch_is_fresh(const embed__sketch *s, const embed_table *t) { return embed__table_changes(t) == s->changes; }
