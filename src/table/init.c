/* SPDX-License-Identifier: BSD-3-Clause */
/* Initial values. Element (row, column) takes word row * dim + column of the seed's stream and goes through an inverse
 * distribution function: no rejection, so a value depends on (seed, row, column) alone. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "core/philox.h"
#include "table/table.h"
#include "thread/run.h"

typedef struct init_job {
  const embed__kernels *kernels;
  const embed_table *t;
  embed_init_options o;
  double spread;            /* std, half-width or value */
  double low, high;         /* truncated normal: its bounds, */
  double low_cdf, cdf_span; /* Phi(low / std) and Phi(high / std) - Phi(low / std) */
  int64_t end, grain;
  float *scratch; /* [workers, dim] */
} init_job;

static float value_of(const init_job *job, uint32_t word) {
  double u = embed__uniform(word);
  switch (job->o.kind) {
    case EMBED_INIT_NORMAL:
    case EMBED_INIT_XAVIER_NORMAL: return (float)(job->spread * embed__normal_quantile(u));
    case EMBED_INIT_UNIFORM:
    case EMBED_INIT_XAVIER_UNIFORM: return (float)(job->spread * (2.0 * u - 1.0));
    case EMBED_INIT_TRUNCATED_NORMAL: return (float)fmin(job->high, fmax(job->low, job->spread * embed__normal_quantile(job->low_cdf + u * job->cdf_span)));
    case EMBED_INIT_CONSTANT: return (float)job->spread;
    default: return 0;
  }
}

static void fill_row(const init_job *job, int64_t row, float *out) {
  int64_t dim = job->t->dim;
  if ((job->o.flags & EMBED_INIT_PADDING) && row == job->o.padding_id) {
    memset(out, 0, (size_t)dim * sizeof *out);
    return;
  }
  uint64_t first = (uint64_t)row * (uint64_t)dim;
  uint32_t words[4] = {0};
  bool random = job->o.kind != EMBED_INIT_ZERO && job->o.kind != EMBED_INIT_CONSTANT;
  for (int64_t j = 0; j < dim; ++j) {
    uint64_t element = first + (uint64_t)j;
    if (random && (j == 0 || (element & 3) == 0)) embed__random_quad(job->o.seed, EMBED__STREAM_INIT, element >> 2, words);
    out[j] = value_of(job, words[element & 3]);
  }
}

static void init_rows(void *arg, int64_t task, int32_t worker) {
  init_job *job = arg;
  const embed_table *t = job->t;
  float *row = job->scratch + (int64_t)worker * t->dim;
  int64_t first = job->o.first + task * job->grain, end = embed__min(job->end, first + job->grain);
  for (int64_t r = first; r < end; ++r) {
    fill_row(job, r, row);
    (void)t->codec->encode(job->kernels, row, t->data + r * t->row_bytes, t->dim, t->group, NULL); /* finite and small: proved by prepare */
  }
}

static embed_status wrong(embed_context *ctx, const char *what) { return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_init_options: %s", what); }

static embed_status prepare(embed_context *ctx, init_job *job) {
  embed_init_options *o = &job->o;
  const embed_table *t = job->t;
  double columns_and_ids = (double)t->dim + (double)t->vocab; /* Glorot's fan-in plus fan-out */
  if (!isfinite(o->scale) || !isfinite(o->low) || !isfinite(o->high)) return wrong(ctx, "scale, low and high must be finite");
  double given = (double)o->scale;
  bool spread_kind = o->kind != EMBED_INIT_ZERO && o->kind != EMBED_INIT_CONSTANT;
  if (spread_kind && given < 0) return wrong(ctx, "scale is negative: it is a standard deviation, half-width or gain");
  if (o->kind != EMBED_INIT_TRUNCATED_NORMAL && (o->low != 0 || o->high != 0)) return wrong(ctx, "low and high belong to EMBED_INIT_TRUNCATED_NORMAL");
  switch (o->kind) {
    case EMBED_INIT_ZERO: break;
    case EMBED_INIT_NORMAL:
    case EMBED_INIT_TRUNCATED_NORMAL: job->spread = given != 0 ? given : 0.02; break;
    case EMBED_INIT_UNIFORM: job->spread = given != 0 ? given : 0.05; break;
    case EMBED_INIT_XAVIER_NORMAL: job->spread = (given != 0 ? given : 1) * sqrt(2.0 / columns_and_ids); break;
    case EMBED_INIT_XAVIER_UNIFORM: job->spread = (given != 0 ? given : 1) * sqrt(6.0 / columns_and_ids); break;
    case EMBED_INIT_CONSTANT: job->spread = given; break;
    default: return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_init_kind", o->kind);
  }
  if (o->kind == EMBED_INIT_TRUNCATED_NORMAL) {
    bool bounds = o->low != 0 || o->high != 0;
    double low = bounds ? (double)o->low : -2 * job->spread, high = bounds ? (double)o->high : 2 * job->spread;
    if (!(low < high)) return wrong(ctx, "low must be below high");
    job->low_cdf = embed__normal_cdf(low / job->spread);
    job->cdf_span = embed__normal_cdf(high / job->spread) - job->low_cdf;
    if (!(job->cdf_span > 0x1p-40)) return wrong(ctx, "the normal has no mass between low and high");
    job->low = low;
    job->high = high;
  }
  return EMBED_OK;
}

static embed_status range_of(embed_context *ctx, init_job *job) {
  const embed_init_options *o = &job->o;
  int64_t rows = job->t->rows;
  if (o->first < 0 || o->first > rows || o->count < 0 || o->count > rows - o->first)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "rows [%" PRId64 ", %" PRId64 " + %" PRId64 ") are not in a table of %" PRId64, o->first, o->first, o->count,
                       rows);
  if ((o->flags & EMBED_INIT_PADDING) && (o->padding_id < 0 || o->padding_id >= rows))
    return embed__fail(ctx, EMBED_E_OPTION, -1, "padding_id %" PRId64 " is outside the table of %" PRId64 " rows", o->padding_id, rows);
  job->end = o->count ? o->first + o->count : rows;
  return EMBED_OK;
}

/* What every row of a constant would be refused for is found before the first is written. */
static embed_status prove_storable(embed_context *ctx, init_job *job) {
  unsigned char *packed;
  EMBED__TRY(embed__scratch_get(ctx, job->t->packed_bytes, 1, &packed));
  const embed_init_kind kind = job->o.kind;
  const embed_table *t = job->t;
  double most = job->spread; /* of |value| */
  if (kind == EMBED_INIT_NORMAL || kind == EMBED_INIT_XAVIER_NORMAL || kind == EMBED_INIT_TRUNCATED_NORMAL) most *= 6.5;
  if (kind == EMBED_INIT_TRUNCATED_NORMAL) most = fmax(fmin(most, fmax(fabs(job->low), fabs(job->high))), fmax(job->low, -job->high));
  const float reach = (float)most;
  for (int64_t j = 0; j < t->dim; ++j) job->scratch[j] = j % 2 || kind == EMBED_INIT_CONSTANT ? reach : -reach;
  if (isfinite(reach) && t->codebook) return EMBED_OK; /* nothing is stored: its rows are compared as floats */
  bool holds = isfinite(reach) && t->codec->encode(ctx->kernels, job->scratch, packed, t->dim, t->group, NULL);
  if (holds) t->codec->decode(ctx->kernels, packed, job->scratch, t->dim, t->group, 1.0f);
  for (int64_t j = 0; holds && j < t->dim; ++j) holds = isfinite(job->scratch[j]);
  if (holds) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_OPTION, -1, "values of this scale are past the range of %s", embed__dtype_name(job->t->dtype));
}

static embed_status init(embed_context *ctx, init_job *job, embed_table *t) {
  EMBED__TRY(prepare(ctx, job));
  EMBED__TRY(range_of(ctx, job));
  if (job->end == job->o.first) return EMBED_OK;
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), job->t->dim, sizeof(float), &job->scratch));
  EMBED__TRY(prove_storable(ctx, job));
  job->grain = embed__max(1, (64 << 10) / job->t->dim);
  int64_t tasks = embed__ceil_div(job->end - job->o.first, job->grain);
  embed__table_changed(t);
  return embed__run_long(ctx, tasks, init_rows, job, 0, tasks);
}

embed_status embed_table_init(embed_context *ctx, embed_table *t, const embed_init_options *opts) {
  init_job job = {.t = t};
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  job.kernels = ctx->kernels;
  EMBED__TRY(embed__options(ctx, "embed_init_options", opts, EMBED_INIT_PADDING, &job.o, sizeof job.o));
  EMBED__TRY(embed__check_writable(ctx, t));
  return embed__end(ctx, init(ctx, &job, t));
}

/* --- The other way round: what a row is of what it was. */

typedef struct moved_job {
  init_job init;         /* scratch [2 * workers, dim] */
  unsigned char *packed; /* [workers, packed_bytes] */
  float *moved, *keep;   /* of init's rows, or NULL */
} moved_job;

/* keep: the multiple of `was` that is nearest to `is`; returns how much of `is` that leaves. */
static double part_moved(const float *is, const float *was, int64_t dim, double *keep) {
  double cross = 0, before = 0, now = 0, left = 0;
  for (int64_t j = 0; j < dim; ++j) {
    cross += (double)is[j] * (double)was[j];
    before += (double)was[j] * (double)was[j];
    now += (double)is[j] * (double)is[j];
  }
  *keep = before == 0 ? 1 : cross < 0 ? 0 : cross / before; /* decay turns no row round */
  for (int64_t j = 0; j < dim; ++j) {
    const double rest = (double)is[j] - *keep * (double)was[j];
    left += rest * rest;
  }
  return left == 0 ? 0 : sqrt(left / now);
}

static void measure_rows(void *arg, int64_t task, int32_t worker) {
  const moved_job *job = arg;
  const init_job *init = &job->init;
  const embed_table *t = init->t;
  float *was = init->scratch + (int64_t)worker * 2 * t->dim, *is = was + t->dim;
  unsigned char *packed = job->packed + (int64_t)worker * t->packed_bytes;
  const int64_t first = init->o.first + task * init->grain, end = embed__min(init->end, first + init->grain);
  for (int64_t r = first; r < end; ++r) {
    double keep = 1, moved = 0;
    fill_row(init, r, was);
    if (!t->codebook) (void)t->codec->encode(init->kernels, was, packed, t->dim, t->group, NULL); /* as in init_rows */
    if (t->codebook || memcmp(packed, embed__row(t, r), (size_t)t->packed_bytes) != 0) {
      if (!t->codebook) t->codec->decode(init->kernels, packed, was, t->dim, t->group, 1.0f);
      embed__decode_stored(init->kernels, t, r, is, 1.0f);
      moved = part_moved(is, was, t->dim, &keep);
    }
    if (job->moved) job->moved[r - init->o.first] = (float)moved;
    if (job->keep) job->keep[r - init->o.first] = (float)keep;
  }
}

static embed_status measure(embed_context *ctx, moved_job *job) {
  init_job *init = &job->init;
  EMBED__TRY(prepare(ctx, init));
  EMBED__TRY(range_of(ctx, init));
  if (init->end == init->o.first) return EMBED_OK;
  EMBED__TRY(embed__scratch_matrix(ctx, 2 * (int64_t)embed__workers(ctx), init->t->dim, sizeof(float), &init->scratch));
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), init->t->packed_bytes, 1, &job->packed));
  EMBED__TRY(prove_storable(ctx, init));
  init->grain = embed__max(1, (64 << 10) / init->t->dim);
  const int64_t tasks = embed__ceil_div(init->end - init->o.first, init->grain);
  return embed__run_long(ctx, tasks, measure_rows, job, 0, tasks);
}

embed_status embed_table_moved(embed_context *ctx, const embed_table *t, const embed_init_options *opts, float *moved, float *keep) {
  moved_job job = {.init = {.t = t}, .moved = moved, .keep = keep};
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  if (!moved && !keep) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "moved and keep are both NULL");
  job.init.kernels = ctx->kernels;
  EMBED__TRY(embed__options(ctx, "embed_init_options", opts, EMBED_INIT_PADDING, &job.init.o, sizeof job.init.o));
  return embed__end(ctx, measure(ctx, &job));
}
