/* SPDX-License-Identifier: BSD-3-Clause */
#include "gather/rows.h"

#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "thread/run.h"

embed_status embed__sink_open(embed_context *ctx, const char *name, void *out, embed_dtype dtype, int64_t n, int64_t dim, int64_t ld, bool add,
                              embed__sink *sink) {
  int64_t stride;
  EMBED__TRY(embed__check_buffer(ctx, name, out, dtype, n, dim, ld, &stride));
  *sink = (embed__sink){.kernels = ctx->kernels, .at = out, .n = n, .dim = dim, .dtype = dtype, .add = add};
  if (n == 0) return EMBED_OK; /* nothing bounds dim then */
  sink->row_bytes = stride * embed__float_bytes(dtype);
  sink->width_bytes = dim * embed__float_bytes(dtype);
  sink->floats = dtype == EMBED_F32 && (uintptr_t)out % sizeof(float) == 0;
  bool whole_lines = ((uintptr_t)out | (uintptr_t)sink->row_bytes | (uintptr_t)sink->width_bytes) % 64 == 0;
  sink->streaming =
      !add && n * sink->width_bytes > EMBED__STREAM_BYTES && sink->width_bytes >= (whole_lines ? EMBED__STREAM_ROW_BYTES : EMBED__STREAM_RAGGED_BYTES);
  return EMBED_OK;
}

static void add_row(const embed__sink *sink, unsigned char *out, const float *row, float *spare) {
  if (sink->floats) {
    sink->kernels->row.add((float *)(void *)out, row, sink->dim);
    return;
  }
  embed__load_row(sink->kernels, out, sink->dtype, spare, sink->dim);
  sink->kernels->row.add(spare, row, sink->dim);
  embed__store_row(sink->kernels, spare, out, sink->dtype, sink->dim);
}

void embed__sink_put(const embed__sink *sink, int64_t i, const float *row, float *spare) {
  unsigned char *out = embed__sink_row(sink, i);
  if (sink->add) {
    add_row(sink, out, row, spare);
  } else if (!sink->streaming) {
    embed__store_row(sink->kernels, row, out, sink->dtype, sink->dim);
  } else if (sink->dtype == EMBED_F32) {
    sink->kernels->row.copy(row, out, sink->width_bytes, true);
  } else {
    embed__store_row(sink->kernels, row, spare, sink->dtype, sink->dim);
    sink->kernels->row.copy(spare, out, sink->width_bytes, true);
  }
}

void embed__sink_put_zero(const embed__sink *sink, int64_t i, float *row, float *spare) {
  if (!sink->add) {
    memset(embed__sink_row(sink, i), 0, (size_t)sink->width_bytes);
    return;
  }
  memset(row, 0, (size_t)sink->dim * sizeof *row);
  embed__sink_put(sink, i, row, spare);
}

embed_status embed__work_rows_take(embed_context *ctx, int64_t rows, int64_t dim, embed__work_rows *out) {
  enum { LINE = 16 }; /* floats */
  int64_t floats = -1;
  bool fits = embed__add(dim, LINE - 1, &out->row_floats);
  out->row_floats -= out->row_floats % LINE;
  fits = fits && embed__mul(rows, out->row_floats, &out->worker_floats) && embed__mul(embed__workers(ctx), out->worker_floats, &floats);
  if (!fits) return embed__out_of_memory(ctx, -1);
  return embed__scratch_get(ctx, floats, sizeof(float), &out->at);
}
