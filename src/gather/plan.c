/* SPDX-License-Identifier: BSD-3-Clause */
#include "gather/plan.h"

#include "core/checked.h"

int64_t embed__rows_of_task(int64_t n, int64_t row_bytes) {
  int64_t least = embed__max(1, EMBED__LEAST_TASK_BYTES / row_bytes), most = embed__max(1, EMBED__MOST_TASK_BYTES / row_bytes);
  int64_t tasks = embed__max(1, embed__min(EMBED__TASKS, n / least));
  if (tasks > 1) tasks -= tasks % 2;
  int64_t rows = embed__min(most, embed__ceil_div(n, tasks));
  return rows < most ? embed__ceil_div(rows, EMBED__SIDE) * EMBED__SIDE : rows;
}

int64_t embed__side_ahead(int64_t stored_bytes) {
  enum { MOST_STEPS = 4 };
  int64_t rows = embed__ceil_div(EMBED__AHEAD_SIDE_BYTES, stored_bytes);
  return EMBED__SIDE * embed__max(1, embed__min(MOST_STEPS, embed__ceil_div(rows, EMBED__SIDE)));
}

embed__way embed__way_of(const void *at, int64_t n, int64_t width, int64_t step, bool whole_rows) {
  enum { LINE = 64 };
  if (n * width <= EMBED__STREAM_BYTES) return EMBED__WAY_PLAIN;
  bool whole = step % LINE == 0 && (!whole_rows || (uintptr_t)at % LINE == 0);
  if (whole && width >= LINE) return EMBED__WAY_STREAM;
  if (step == width) return EMBED__WAY_STAGE;
  return width >= EMBED__STREAM_RAGGED_BYTES ? EMBED__WAY_STAGE_ROWS : EMBED__WAY_PLAIN;
}
