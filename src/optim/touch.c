/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/touch.h"

#include <inttypes.h>

#include "core/checked.h"
#include "core/error.h"
#include "optim/history.h"
#include "thread/run.h"

enum { TASK_BYTES = 128 << 10 }; /* of rows as floats */

typedef struct behind {
  int64_t row, stamp;
} behind;

typedef struct touch_job {
  embed__updating u;
  const behind *list; /* [items], or NULL: all rows */
  int64_t items, grain;
} touch_job;

static void touch_row(const touch_job *job, int32_t worker, int64_t row, int64_t stamp) {
  embed__trained_row r;
  embed__row_open(&job->u, worker, row, &r);
  embed__catch_up(&job->u, worker, &r, stamp);
  embed__row_close(&job->u, &r, job->u.o->step);
}

static void touch_rows(void *arg, int64_t task, int32_t worker) {
  touch_job *job = arg;
  embed_optimizer *o = job->u.o;
  const int64_t first = task * job->grain, end = embed__min(job->items, first + job->grain);
  for (int64_t i = first; i < end; ++i) {
    if (job->list) {
      if (i + 1 < end) embed__row_prefetch(&job->u, job->list[i + 1].row);
      touch_row(job, worker, job->list[i].row, job->list[i].stamp);
    } else {
      const int64_t stamp = o->stamps[i];
      const bool idle = embed__is_new(stamp) && o->o.weight_decay == 0; /* without moments and decay it stands still */
      if (embed__stamp_step(stamp) != o->step && !embed__is_frozen(o, i) && !idle) touch_row(job, worker, i, stamp);
      o->stamps[i] = embed__stamp_at(stamp, o->step);
    }
  }
}

embed_status embed__touch_all(embed_context *ctx, embed_optimizer *o, embed_table *t) {
  touch_job job = {.items = o->rows, .grain = embed__max(1, TASK_BYTES / 4 / o->dim)};
  if (!o->history || o->history->count == 0) return EMBED_OK;
  EMBED__TRY(embed__updating_begin(ctx, o, t, &job.u));
  if (o->rows > 0) embed__table_changed(t);
  EMBED__TRY(embed__run(ctx, embed__ceil_div(job.items, job.grain), touch_rows, &job));
  embed__history_forget(o);
  return EMBED_OK;
}

/* An id may stand in the list twice: the first takes its row, whose stamp then says that it is done. */
static embed_status touch_some(embed_context *ctx, embed_optimizer *o, embed_table *t, const int64_t *ids, int64_t n) {
  touch_job job = {.grain = embed__max(1, TASK_BYTES / 4 / o->dim)};
  behind *list;
  if (!o->history || n == 0) return EMBED_OK;
  EMBED__TRY(embed__updating_begin(ctx, o, t, &job.u));
  EMBED__TRY(embed__scratch_get(ctx, embed__min(n, o->rows), sizeof *list, &list));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = ids[i], stamp = o->stamps[row];
    if (embed__stamp_step(stamp) == o->step || embed__is_frozen(o, row)) continue;
    list[job.items++] = (behind){row, stamp};
    o->stamps[row] = embed__stamp_at(stamp, o->step);
  }
  job.list = list;
  if (job.items > 0) embed__table_changed(t);
  return embed__run(ctx, embed__ceil_div(job.items, job.grain), touch_rows, &job);
}

embed_status embed_optimizer_touch(embed_context *ctx, embed_optimizer *o, embed_table *t, const int64_t *ids, int64_t n) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, o);
  EMBED__NOT_NULL(ctx, t);
  EMBED__TRY(embed__optimizer_fits(ctx, o, t));
  if (!ids) return embed__end(ctx, embed__touch_all(ctx, o, t));
  if (n < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "n is %" PRId64, n);
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] < 0 || ids[i] >= o->rows)
      return embed__fail(ctx, EMBED_E_ID, i, "id %" PRId64 " at position %" PRId64 " is outside the vocabulary of %" PRId64 " rows", ids[i], i, o->rows);
  return embed__end(ctx, touch_some(ctx, o, t, ids, n));
}
