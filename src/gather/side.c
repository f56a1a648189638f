/* SPDX-License-Identifier: BSD-3-Clause */
#include "gather/side.h"

#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "thread/run.h"

static int64_t stored_at(const embed__ids *ids, const embed__id_policy *policy, int64_t position) {
  return embed__row_of_id(policy, embed__id_at(ids, position));
}

int embed__side_rows(const embed_table *t, const embed__ids *ids, const embed__id_policy *policy, int64_t from, int64_t end, const unsigned char **rows) {
  int count = 0;
  for (; count < EMBED__SIDE && from + count < end; ++count) {
    int64_t stored = stored_at(ids, policy, from + count);
    if (stored < 0) break;
    rows[count] = embed__row(t, stored);
  }
  return count;
}

void embed__side_fetch(const embed_table *t, const embed__ids *ids, const embed__id_policy *policy, int64_t from, int64_t end, embed__rows *rows) {
  for (int r = 0; r < rows->count; ++r) {
    int64_t stored = from + r < end ? stored_at(ids, policy, from + r) : -1;
    rows->ahead[r] = stored < 0 ? rows->row[r] : embed__row(t, stored);
  }
}

/* Where the rows of a task are made: in the caller's buffer, or in the worker's stage, which goes there when it is full. */
typedef struct making {
  const embed__side *side;
  unsigned char *stage; /* NULL: in the buffer */
  int64_t first, rows;  /* that the stage holds */
} making;

static void empty_stage(making *m) {
  const embed__sink *out = &m->side->out;
  const embed__row_kernels *k = &m->side->ctx->kernels->row;
  if (m->rows == 0) return;
  if (m->side->way == EMBED__WAY_STAGE) {
    k->copy(m->stage, embed__sink_row(out, m->first), m->rows * out->width_bytes, true);
  } else {
    for (int64_t r = 0; r < m->rows; ++r) k->copy(m->stage + r * out->width_bytes, embed__sink_row(out, m->first + r), out->width_bytes, true);
  }
  m->first += m->rows;
  m->rows = 0;
}

/* Room for row i and at most *count after it; *count becomes how many have room together. */
static unsigned char *room_for(making *m, int64_t i, int64_t *count) {
  const embed__side *side = m->side;
  if (!m->stage) return embed__sink_row(&side->out, i);
  if (m->rows == side->stage_rows) empty_stage(m);
  *count = embed__min(*count, side->stage_rows - m->rows);
  unsigned char *at = m->stage + m->rows * side->out.width_bytes;
  m->rows += *count;
  return at;
}

static void put_rows(const embed__side *side, embed__rows *rows, unsigned char *at, int64_t step) {
  const embed__gather_kernels *k = &side->ctx->kernels->gather;
  embed__place place = {.at = at, .step = step, .type = side->out.dtype, .streaming = side->way == EMBED__WAY_STREAM};
  if (side->copies)
    k->copy(rows, &place);
  else
    k->decode[side->t->codec->form](rows, side->scale, &place);
}

static void side_rows(void *arg, int64_t task, int32_t worker) {
  const embed__side *side = arg;
  const embed_table *t = side->t;
  int64_t first = task * side->rows_per_task, end = embed__min(side->ids.n, first + side->rows_per_task);
  making m = {.side = side, .stage = side->stages ? side->stages + worker * side->stage_bytes : NULL, .first = first};
  embed__rows rows = {.group = t->group, .dim = t->dim, .bytes = t->packed_bytes};
  int64_t step = m.stage ? side->out.width_bytes : side->out.row_bytes;
  for (int64_t i = first, count; i < end; i += count) {
    rows.count = embed__side_rows(t, &side->ids, &side->policy, i, end, rows.row);
    count = embed__max(1, rows.count);
    unsigned char *at = room_for(&m, i, &count);
    if (rows.count == 0) {
      memset(at, 0, (size_t)side->out.width_bytes);
      continue;
    }
    rows.count = (int)count;
    embed__side_fetch(t, &side->ids, &side->policy, i + side->ahead, end, &rows);
    put_rows(side, &rows, at, step);
  }
  if (m.stage) empty_stage(&m);
  if (side->way != EMBED__WAY_PLAIN) side->ctx->kernels->row.fence();
}

static embed_status take_stages(embed_context *ctx, embed__side *side) {
  enum { LINE = 64 };
  int64_t width = side->out.width_bytes;
  side->stage_rows = embed__max(1, EMBED__STAGE_BYTES / width);
  side->stage_rows -= side->stage_rows > EMBED__SIDE ? side->stage_rows % EMBED__SIDE : 0;
  side->stage_bytes = embed__ceil_div(side->stage_rows * width, LINE) * LINE; /* below STAGE_BYTES, or one row, which lies in memory */
  return embed__scratch_matrix(ctx, embed__workers(ctx), side->stage_bytes, 1, &side->stages);
}

embed_status embed__side_run(embed_context *ctx, embed__side *side) {
  const embed__sink *out = &side->out;
  side->way = embed__way_of(out->at, side->ids.n, out->width_bytes, out->row_bytes, !side->copies);
  side->rows_per_task = embed__rows_of_task(side->ids.n, embed__max(out->width_bytes, side->t->packed_bytes));
  side->ahead = embed__side_ahead(side->t->packed_bytes);
  if (side->way == EMBED__WAY_STAGE || side->way == EMBED__WAY_STAGE_ROWS) EMBED__TRY(take_stages(ctx, side));
  return embed__run(ctx, embed__ceil_div(side->ids.n, side->rows_per_task), side_rows, side);
}
