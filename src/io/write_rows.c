/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of a table on their way to a file: encoded a block at a time, never the whole table. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/least.h"
#include "core/checked.h"
#include "io/byte_order.h"
#include "io/writer.h"
#include "thread/run.h"

typedef struct encode_job {
  const embed__kernels *kernels;
  const embed__written_table *to;
  const embed__codec *codec;
  unsigned char *out;
  float *scratch; /* [workers, dim] */
  int64_t first, rows, grain;
  _Atomic int64_t refused; /* the least row that cannot be stored, INT64_MAX = none */
} encode_job;

static void encode_rows(void *arg, int64_t task, int32_t worker) {
  encode_job *job = arg;
  const embed__written_table *to = job->to;
  const embed_table *from = to->table;
  float *row = job->scratch + (int64_t)worker * from->dim;
  bool same = from->dtype == to->dtype && from->group == to->group;
  for (int64_t r = task * job->grain, end = embed__min(job->rows, r + job->grain); r < end; ++r) {
    unsigned char *out = job->out + r * to->row_bytes;
    if (same) {
      memcpy(out, embed__row(from, job->first + r), (size_t)to->packed_bytes);
    } else {
      embed__decode_stored(job->kernels, from, job->first + r, row, 1.0f);
      if (!job->codec->encode(job->kernels, row, out, to->dim, to->group, NULL)) embed__keep_least(&job->refused, job->first + r);
    }
    if (embed__is_swapped(to->dtype, false)) embed__swap_rows(to->dtype, out, to->packed_bytes);
    memset(out + to->packed_bytes, 0, (size_t)(to->row_bytes - to->packed_bytes));
  }
}

embed_status embed__written_rows(embed_context *ctx, embed_writer *w, const embed__written_table *t, embed__rows_sink *sink, void *arg) {
  enum { TASK_BYTES = 256 << 10 };
  const embed_table *from = t->table;
  const int64_t most = embed__max(1, embed__min(t->rows, w->max_memory / t->row_bytes));
  const bool in_place = !embed__is_swapped(t->dtype, false) && !from->overlay && from->dtype == t->dtype && from->group == t->group &&
                        from->row_bytes == t->row_bytes && t->row_bytes == t->packed_bytes;
  encode_job job = {.kernels = ctx->kernels, .to = t, .codec = embed__codec_find(t->dtype), .grain = embed__max(1, TASK_BYTES / 4 / t->dim)};
  atomic_store(&job.refused, INT64_MAX);
  if (!in_place) {
    EMBED__TRY(embed__scratch_matrix(ctx, most, t->row_bytes, 1, &job.out));
    EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), t->dim, sizeof(float), &job.scratch));
  }
  for (; job.first < t->rows; job.first += job.rows) {
    EMBED__TRY(embed__pause(ctx, w->done, w->total));
    job.rows = embed__min(most, t->rows - job.first);
    const int64_t bytes = job.rows * t->row_bytes - (job.first + job.rows == t->rows ? t->row_bytes - t->packed_bytes : 0);
    if (!in_place) EMBED__TRY(embed__run(ctx, embed__ceil_div(job.rows, job.grain), encode_rows, &job));
    const int64_t refused = atomic_load(&job.refused);
    if (refused != INT64_MAX)
      return embed__fail(ctx, EMBED_E_NONFINITE, refused, "%s: row %" PRId64 " of \"%.80s\" cannot be stored as %s: a value is NaN, infinite or past its range",
                         w->label, refused, t->name, embed__dtype_name(t->dtype));
    EMBED__TRY(sink(ctx, arg, job.first, job.rows, in_place ? embed__row(from, job.first) : job.out, bytes));
    w->done += bytes;
  }
  return EMBED_OK;
}

embed_status embed__rows_to_file(embed_context *ctx, void *arg, int64_t first, int64_t rows, const unsigned char *block, int64_t bytes) {
  (void)first, (void)rows;
  return embed__safe_write(ctx, arg, block, bytes);
}
