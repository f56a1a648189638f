/* SPDX-License-Identifier: BSD-3-Clause */
/* How a sweep begins and takes its chunks; plan.c decides, own_chunk.c and blas_chunk.c multiply. */
#include "sweep/sweep.h"

#include "core/checked.h"
#include "core/error.h"
#include "sweep/chunk.h"
#include "thread/run.h"

/* Rows as floats: of one call of OpenBLAS, or of a panel or tile of each worker. */
static embed_status take_decoded(embed_context *ctx, embed__sweep *s) {
  const embed_table *t = s->table;
  int64_t rows = 0, floats;
  s->decoded_floats = 0;
  if (s->way == EMBED__BY_BLAS) {
    rows = s->direct ? 0 : EMBED__BLOCK;
  } else if (s->way == EMBED__PACKED) {
    rows = embed__packs_stored(s) ? 0 : EMBED__PANEL_ROWS;
  } else if (s->way == EMBED__IN_PLACE && !s->multiplier) {
    rows = embed__decoded_rows(t);
  }
  if (rows == 0) return EMBED_OK;
  if (!embed__mul(rows, t->dim, &s->decoded_floats)) return embed__out_of_memory(ctx, -1);
  if (!embed__mul(s->decoded_floats, s->way == EMBED__BY_BLAS ? 1 : embed__workers(ctx), &floats)) return embed__out_of_memory(ctx, -1);
  return embed__scratch_get(ctx, floats, sizeof(float), &s->decoded);
}

embed_status embed__sweep_begin(embed_context *ctx, embed__sweep *s) {
  EMBED__TRY(embed__plan_sweep(ctx, s));
  const embed_table *t = s->table;
  const int64_t workers = embed__workers(ctx);
  if (s->x_dtype != EMBED_F32 || s->round || s->rows) EMBED__TRY(embed__scratch_matrix(ctx, s->chunk, t->dim, sizeof(float), &s->hidden));
  int64_t tiles = workers * s->tile_rows * EMBED__TILE_LD;
  if (s->way == EMBED__BY_BLAS) tiles = s->out ? 0 : s->chunk * embed__min(t->vocab, embed__blas_columns(s));
  if (tiles > 0) EMBED__TRY(embed__scratch_get(ctx, tiles, sizeof(float), &s->tiles));
  EMBED__TRY(take_decoded(ctx, s));
  if (s->multiplier) {
    s->part_bytes = s->multiplier->x_bytes(s->part, t->dim, t->group);
    EMBED__TRY(embed__scratch_matrix(ctx, embed__ceil_div(s->chunk, s->part), s->part_bytes, 1, &s->packed));
  }
  s->beyond = NULL;
  s->one = NULL;
  if (s->multiplier && embed__in_digits(s->form, s->activation)) {
    EMBED__TRY(embed__scratch_get(ctx, s->chunk, 1, &s->beyond));
    if (embed__decoded_rows(t) > 0) EMBED__TRY(embed__scratch_matrix(ctx, workers, t->dim, sizeof(float), &s->one));
  }
  if (s->way == EMBED__PACKED) EMBED__TRY(embed__scratch_matrix(ctx, workers * s->panels, s->panel_bytes, 1, &s->made));
  return EMBED_OK;
}

/* The chunk's hidden rows as floats, rounded where the plan says so. */
static void load_hidden(const embed__kernels *k, const embed__sweep *s, int64_t first, int64_t rows) {
  const int64_t row_bytes = s->ldx * embed__float_bytes(s->x_dtype);
  for (int64_t i = 0; i < rows; ++i) {
    float *row = s->hidden + i * s->table->dim;
    const int64_t from = s->rows ? s->rows[first + i] : first + i;
    embed__load_row(k, s->x + from * row_bytes, s->x_dtype, row, s->table->dim);
    if (s->round) embed__round_activation(k, s->activation, row, s->table->dim);
  }
}

embed_status embed__sweep_chunk(embed_context *ctx, embed__sweep *s, int64_t first) {
  const embed_table *t = s->table;
  embed__chunk chunk = {.s = s, .kernels = ctx->kernels, .ldx = s->ldx, .rows = embed__min(s->chunk, s->n - first)};
  chunk.blocks = embed__ceil_div(t->vocab, EMBED__BLOCK);
  chunk.done = first / s->chunk;
  chunk.chunks = embed__ceil_div(s->n, s->chunk);
  if (chunk.blocks == 0 || chunk.rows == 0) return EMBED_OK;
  if (s->hidden) {
    load_hidden(ctx->kernels, s, first, chunk.rows);
    chunk.x = s->hidden;
    chunk.ldx = t->dim;
  } else {
    chunk.x = (const float *)(const void *)s->x + first * s->ldx;
  }
  if (s->out) chunk.out = s->out + first * s->ldout;
  return s->way == EMBED__BY_BLAS ? embed__blas_chunk(ctx, &chunk) : embed__own_chunk(ctx, &chunk);
}
