/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows that a search verifies: copied side by side, then multiplied by the kernels of the plain sweep, whose sums do not depend on
 * where a row stands. */
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "head/sketch.h"
#include "sweep/prepared.h"
#include "thread/run.h"

static embed__dot_blocks *blocks_of(const embed__kernels *k, const embed_table *t) { return t->codec->stored < 0 ? k->dot_blocks.tile[t->codec->form] : NULL; }

bool embed__chosen_can(const embed_context *ctx, const embed__sweep *plan) {
  enum { FEW_HIDDEN = 4 /* above, embed__product decodes rows that its kernels would multiply in place */ };
  if (plan->activation != EMBED__EXACT || plan->round || plan->way == EMBED__BY_BLAS) return false;
  if (plan->way == EMBED__PACKED && plan->form != embed__form_of(plan->table)) return false; /* of rows decoded first */
  if (plan->multiplier) return plan->form != EMBED__PANEL_Q4_K && plan->form != EMBED__PANEL_Q5_K;
  return plan->n <= FEW_HIDDEN || !blocks_of(ctx->kernels, plan->table);
}

bool embed__chosen_hold(const embed__chosen_rows *c, int64_t n) {
  bool held = true;
  if (!c->plan->multiplier || !embed__in_digits(c->plan->form, EMBED__EXACT)) return true;
  for (int64_t i = 0; i < n; ++i) held = held && !embed__beyond_digits(c->x + i * c->ldx, c->table->dim);
  return held;
}

static bool on_panels(const embed__sweep *plan) { return plan->way == EMBED__PREPARED || plan->way == EMBED__PACKED; }

static bool are_decoded(const embed__chosen_rows *c) { return !c->plan->multiplier && c->table->codec->stored < 0 && !blocks_of(c->kernels, c->table); }

static int64_t to_lines(int64_t bytes) { return embed__ceil_div(bytes, EMBED__PANEL_ALIGNMENT) * EMBED__PANEL_ALIGNMENT; }

embed_status embed__chosen_begin(embed_context *ctx, embed__chosen_rows *c, int64_t n) {
  const embed_table *t = c->table;
  const embed__multiplier *m = c->plan->multiplier;
  int64_t rows, behind = 0;
  if (!embed__mul(EMBED__CHOSEN, t->packed_bytes, &rows) || rows > INT64_MAX / 2) return embed__out_of_memory(ctx, -1);
  c->rows_bytes = to_lines(rows);
  if (on_panels(c->plan)) behind = c->plan->panel_bytes;
  if (are_decoded(c) && !embed__mul(EMBED__CHOSEN * (int64_t)sizeof(float), t->dim, &behind)) return embed__out_of_memory(ctx, -1);
  if (!embed__add(c->rows_bytes, behind, &c->room_bytes)) return embed__out_of_memory(ctx, -1);
  c->room_bytes = to_lines(c->room_bytes);
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), c->room_bytes, 1, &c->room));
  if (!m) return EMBED_OK;
  c->packed_bytes = m->x_bytes(1, t->dim, t->group);
  EMBED__TRY(embed__scratch_matrix(ctx, n, c->packed_bytes, 1, &c->packed));
  for (int64_t i = 0; i < n; ++i) m->pack_x(c->x + i * c->ldx, c->ldx, 1, t->dim, t->group, c->packed + i * c->packed_bytes);
  return EMBED_OK;
}

void embed__chosen_products(const embed__chosen_rows *c, int64_t i, const int32_t *ids, int64_t count, int32_t worker, float *z) {
  const embed_table *t = c->table;
  const embed__multiplier *m = c->plan->multiplier;
  const float *x = c->x + i * c->ldx;
  unsigned char *rows = c->room + worker * c->room_bytes, *behind = rows + c->rows_bytes;
  if (are_decoded(c)) {
    float *decoded = (float *)(void *)behind;
    for (int64_t j = 0; j < count; ++j) embed__decode_stored(c->kernels, t, ids[j], decoded + j * t->dim, 1.0f);
    c->kernels->dot.tile[EMBED__STORED_F32](decoded, 4 * t->dim, count, x, c->ldx, 1, t->dim, z, count);
    return;
  }
  for (int64_t j = 0; j < count; ++j) memcpy(rows + j * t->packed_bytes, embed__row(t, ids[j]), (size_t)t->packed_bytes);
  if (on_panels(c->plan)) {
    c->kernels->panel.pack[c->plan->form](rows, t->packed_bytes, count, t->dim, t->group, behind, false);
    m->multiply(behind, c->plan->panel_bytes, c->plan->panel_bytes, count, c->packed + i * c->packed_bytes, 1, t->dim, t->group, z, count);
  } else if (m) {
    m->multiply(rows, t->packed_bytes, t->packed_bytes, count, c->packed + i * c->packed_bytes, 1, t->dim, t->group, z, count);
  } else if (t->codec->stored >= 0) {
    c->kernels->dot.tile[t->codec->stored](rows, t->packed_bytes, count, x, c->ldx, 1, t->dim, z, count);
  } else {
    blocks_of(c->kernels, t)(rows, t->packed_bytes, count, x, c->ldx, 1, t->dim, t->group, z, count);
  }
}
