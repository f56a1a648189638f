/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_positions: sinusoids (Vaswani et al., "Attention is all you need", 2017, section 3.5; the halves as
 * tensor2tensor and fairseq lay them out, with their denominator). Angles and values in double, rounded once. */
#include <embed/lookup.h>
#include <inttypes.h>
#include <math.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "gather/rows.h"
#include "thread/run.h"

typedef struct position_job {
  embed__sink out;
  embed__work_rows work; /* per worker: the row, a spare one */
  double *wavelength;    /* [ceil(dim / 2)]: the angle of pair i is position / wavelength[i] */
  double scale;
  int64_t first; /* position of row 0 */
  int64_t rows_per_task;
  bool halves;
} position_job;

enum { ROW, SPARE, WORK_ROWS };

static void fill_row(const position_job *job, int64_t position, float *row) {
  int64_t dim = job->out.dim, half = dim / 2;
  if (dim % 2) row[dim - 1] = job->halves ? 0 : (float)(job->scale * sin((double)position / job->wavelength[half]));
  for (int64_t i = 0; i < half; ++i) {
    double angle = (double)position / job->wavelength[i];
    row[job->halves ? i : 2 * i] = (float)(job->scale * sin(angle));
    row[job->halves ? half + i : 2 * i + 1] = (float)(job->scale * cos(angle));
  }
}

static void put_positions(void *arg, int64_t task, int32_t worker) {
  const position_job *job = arg;
  float *row = embed__work_row(&job->work, worker, ROW), *spare = embed__work_row(&job->work, worker, SPARE);
  int64_t first = task * job->rows_per_task, end = embed__min(job->out.n, first + job->rows_per_task);
  for (int64_t i = first; i < end; ++i) {
    fill_row(job, job->first + i, row);
    embed__sink_put(&job->out, i, row, spare);
  }
  embed__sink_end_task(&job->out);
}

static embed_status run(embed_context *ctx, position_job *job, double base) {
  int64_t dim = job->out.dim, pairs = dim / 2 + dim % 2;
  if (job->out.n == 0) return EMBED_OK;
  EMBED__TRY(embed__scratch_get(ctx, pairs, sizeof *job->wavelength, &job->wavelength));
  for (int64_t i = 0; i < pairs; ++i) {
    double halves = dim < 4 ? 0 : (double)i / (double)(dim / 2 - 1);
    job->wavelength[i] = pow(base, job->halves ? halves : (double)(2 * i) / (double)dim);
  }
  job->rows_per_task = embed__rows_per_task(job->out.width_bytes);
  EMBED__TRY(embed__work_rows_take(ctx, WORK_ROWS, dim, &job->work));
  return embed__run(ctx, embed__ceil_div(job->out.n, job->rows_per_task), put_positions, job);
}

static embed_status check_range(embed_context *ctx, int64_t first, int64_t n, int64_t dim) {
  const int64_t exact = (int64_t)1 << 53; /* where doubles stop to tell positions apart */
  int64_t end;
  if (dim < 1) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "dim is %" PRId64 ", a row has at least 1 column", dim);
  if (first < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "first is %" PRId64 ", positions begin at 0", first);
  if (n <= 0) return EMBED_OK; /* a negative n is refused with the buffer */
  if (!embed__add(first, n, &end) || end > exact)
    return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%" PRId64 " positions from %" PRId64 " on go past 2^53", n, first);
  return EMBED_OK;
}

embed_status embed_positions(embed_context *ctx, int64_t first, int64_t n, int64_t dim, void *out, embed_dtype out_dtype, int64_t ld_out,
                             const embed_position_options *opts) {
  embed_position_options o;
  position_job job = {.first = first};
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__options(ctx, "embed_position_options", opts, EMBED_LOOKUP_ADD | EMBED_POSITION_HALVES, &o, sizeof o));
  if (!isfinite(o.base) || o.base < 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_position_options: base must be finite and above 0");
  if (!isfinite(o.scale)) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_position_options: scale must be finite");
  job.scale = o.scale != 0 ? (double)o.scale : 1.0;
  job.halves = o.flags & EMBED_POSITION_HALVES;
  EMBED__TRY(check_range(ctx, first, n, dim));
  EMBED__TRY(embed__sink_open(ctx, "out", out, out_dtype, n, dim, ld_out, o.flags & EMBED_LOOKUP_ADD, &job.out));
  return embed__end(ctx, run(ctx, &job, o.base != 0 ? (double)o.base : 10000.0));
}
