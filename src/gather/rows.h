/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's buffer, working rows, rows asked for ahead. Sizes stand in plan.h. */
#ifndef EMBED__GATHER_ROWS_H
#define EMBED__GATHER_ROWS_H

#include "gather/plan.h"
#include "table/table.h"

static inline int64_t embed__rows_ahead(const embed_table *t) {
  int64_t rows = EMBED__AHEAD_BYTES / t->packed_bytes;
  return rows < 1 ? 1 : rows > EMBED__AHEAD_ROWS ? EMBED__AHEAD_ROWS : rows;
}

/* Asks for every line of a stored row. A prefetch never faults and never waits. */
static inline void embed__prefetch_row(const embed_table *t, int64_t row) {
  const unsigned char *at = embed__row(t, row);
  for (int64_t byte = 0; byte < t->packed_bytes; byte += 64) __builtin_prefetch(at + byte);
}

/* The caller's buffer [n, dim] of a float dtype, proved. */
typedef struct embed__sink {
  const embed__kernels *kernels;
  unsigned char *at;
  int64_t n, dim;
  int64_t row_bytes;   /* distance between rows, 0 with n = 0 */
  int64_t width_bytes; /* of the dim columns, all that is written */
  embed_dtype dtype;
  bool floats; /* F32 and aligned as C wants it: kernels may write rows in place */
  bool add;    /* out += row */
  bool streaming;
} embed__sink;

/* name: of the buffer, for messages. ld: its row stride in elements, 0 = dim. */
embed_status embed__sink_open(embed_context *ctx, const char *name, void *out, embed_dtype dtype, int64_t n, int64_t dim, int64_t ld, bool add,
                              embed__sink *sink);
static inline unsigned char *embed__sink_row(const embed__sink *sink, int64_t i) { return sink->at + i * sink->row_bytes; }
/* Row i = row, or out + row, rounded once. spare: dim floats of the worker's own. */
void embed__sink_put(const embed__sink *sink, int64_t i, const float *row, float *spare);
void embed__sink_put_zero(const embed__sink *sink, int64_t i, float *row, float *spare); /* row: of the worker's own, too */
/* After a task's last row: weakly ordered stores become visible with the task's end. */
static inline void embed__sink_end_task(const embed__sink *sink) {
  if (sink->streaming) sink->kernels->row.fence();
}

/* Working rows of dim floats for each worker, aligned to 64 bytes and never in one line with another worker's. */
typedef struct embed__work_rows {
  float *at;
  int64_t row_floats;    /* distance between rows */
  int64_t worker_floats; /* distance between workers */
} embed__work_rows;

embed_status embed__work_rows_take(embed_context *ctx, int64_t rows, int64_t dim, embed__work_rows *out);
static inline float *embed__work_row(const embed__work_rows *w, int32_t worker, int64_t row) { return w->at + worker * w->worker_floats + row * w->row_floats; }

#endif
