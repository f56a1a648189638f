/* SPDX-License-Identifier: BSD-3-Clause */
/* A sweep by the library's own kernels: a task is a block of table rows and some hidden rows. Tasks of one block follow
 * each other, so that its rows are read from memory once. */
#include "core/checked.h"
#include "core/error.h"
#include "sweep/chunk.h"
#include "sweep/prepared.h"
#include "thread/run.h"

typedef struct own_job {
  const embed__chunk *chunk;
  int64_t tasks_per_block;
} own_job;

/* Hidden rows [first, first + rows) of the chunk, packed: first begins a part. */
static const unsigned char *packed_part(const embed__sweep *s, int64_t first) { return s->packed + first / s->part * s->part_bytes; }

/* What lies side by side in cache goes to the caller's rows, which lie far apart, in long runs. */
static void copy_rows(const embed__chunk *c, const float *z, int64_t ldz, int64_t rows, int64_t columns, float *out, int64_t ldout) {
  for (int64_t i = 0; i < rows; ++i) c->kernels->row.copy(z + i * ldz, out + i * ldout, columns * (int64_t)sizeof(float), c->s->streaming);
}

static void pack_part(void *arg, int64_t task, int32_t worker) {
  const embed__chunk *c = arg;
  const embed__sweep *s = c->s;
  const int64_t first = task * s->part, count = embed__min(s->part, c->rows - first);
  (void)worker;
  s->multiplier->pack_x(c->x + first * c->ldx, c->ldx, count, s->table->dim, s->table->group, s->packed + task * s->part_bytes);
  for (int64_t i = first; s->beyond && i < first + count; ++i) s->beyond[i] = embed__beyond_digits(c->x + i * c->ldx, s->table->dim);
}

/* Hidden rows of which digits made NaN, or too little. */
static void multiply_beyond(const embed__chunk *c, const embed__tile *tile, int32_t worker) {
  const embed__sweep *s = c->s;
  const int64_t dim = s->table->dim;
  for (int64_t i = 0; i < tile->rows; ++i) {
    if (!s->beyond[tile->first + i]) continue;
    for (int64_t r = 0; r < tile->columns; ++r)
      embed__product(c->kernels, s->table, tile->column + r, 1, c->x + (tile->first + i) * c->ldx, c->ldx, 1, s->one ? s->one + worker * dim : NULL,
                     tile->z + i * tile->ldz + r, tile->ldz);
  }
}

/* Products of `count` rows or panels, that begin at `rows`, with all hidden rows of the tile, from its column `done` on. */
static void multiply_parts(const embed__chunk *c, const void *rows, int64_t stride, int64_t soon, int64_t count, const embed__tile *tile, int64_t done,
                           float *side) {
  const embed__sweep *s = c->s;
  for (int64_t row = 0; row < tile->rows; row += s->part) {
    int64_t n = embed__min(s->part, tile->rows - row);
    float *z = tile->z + row * tile->ldz + done;
    s->multiplier->multiply(rows, stride, soon, count, packed_part(s, tile->first + row), n, s->table->dim, s->table->group, side ? side : z,
                            side ? EMBED__TILE_LD : tile->ldz);
    if (side) copy_rows(c, side, EMBED__TILE_LD, n, count, z, tile->ldz);
  }
}

/* A panel of some rows as they are stored, or of rows decoded first. */
static void make_panel(const embed__chunk *c, int64_t row, int64_t count, float *decoded, unsigned char *panel) {
  const embed__sweep *s = c->s;
  const embed_table *t = s->table;
  const void *rows = embed__row(t, row);
  int64_t row_bytes = t->row_bytes;
  if (s->decoded_floats) {
    for (int64_t r = 0; r < count; ++r) embed__decode_stored(c->kernels, t, row + r, decoded + r * t->dim, 1.0f);
    rows = decoded;
    row_bytes = t->dim * (int64_t)sizeof(float);
  }
  c->kernels->panel.pack[s->form](rows, row_bytes, count, t->dim, t->group, panel, false);
}

/* Panels of `count` rows from `row` on: the head's own, or made here. */
static const unsigned char *panels_of(const embed__chunk *c, int64_t row, int64_t count, int32_t worker) {
  const embed__sweep *s = c->s;
  if (s->way == EMBED__PREPARED) return embed__panels(s->prepared) + row / EMBED__PANEL_ROWS * s->panel_bytes;
  unsigned char *made = s->made + worker * s->panels * s->panel_bytes;
  float *decoded = s->decoded ? s->decoded + worker * s->decoded_floats : NULL;
  for (int64_t r = 0; r < count; r += EMBED__PANEL_ROWS)
    make_panel(c, row + r, embed__min(EMBED__PANEL_ROWS, count - r), decoded, made + r / EMBED__PANEL_ROWS * s->panel_bytes);
  return made;
}

/* From panels that were made of rows `row` on to the rows that the next ones will be made of: the first of the block that this worker
 * will probably come to, if no more of this one are left. */
static int64_t soon_behind(const embed__chunk *c, const unsigned char *panels, int64_t row, int64_t count, const embed__tile *tile) {
  const embed__sweep *s = c->s;
  int64_t next = row + count < tile->column + tile->columns ? row + count : tile->column + s->slots * EMBED__BLOCK;
  if (s->way != EMBED__PACKED || s->decoded_floats || next >= s->table->vocab) return s->panel_bytes;
  return (int64_t)((uintptr_t)embed__row(s->table, next) - (uintptr_t)panels);
}

static void on_panels(const embed__chunk *c, const embed__tile *tile, int32_t worker, float *side) {
  const embed__sweep *s = c->s;
  for (int64_t done = 0; done < tile->columns; done += s->panels * EMBED__PANEL_ROWS) {
    int64_t count = embed__min(s->panels * EMBED__PANEL_ROWS, tile->columns - done);
    const unsigned char *panels = panels_of(c, tile->column + done, count, worker);
    multiply_parts(c, panels, s->panel_bytes, soon_behind(c, panels, tile->column + done, count, tile), count, tile, done, side);
  }
}

/* All panels of the block at once, then a tile for each part of the hidden rows: for reducers, whose tiles are whole blocks and stay in
 * cache. */
static void parts_on_panels(const embed__chunk *c, const embed__tile *all, int32_t worker) {
  const embed__sweep *s = c->s;
  const unsigned char *panels = panels_of(c, all->column, all->columns, worker);
  for (int64_t row = 0; row < all->rows; row += s->part) {
    embed__tile tile = *all;
    tile.first += row;
    tile.rows = embed__min(s->part, all->rows - row);
    multiply_parts(c, panels, s->panel_bytes, s->panel_bytes, tile.columns, &tile, 0, NULL);
    s->take(s->reducer, &tile);
  }
}

static void own_task(void *arg, int64_t task, int32_t worker) {
  const own_job *job = arg;
  const embed__chunk *c = job->chunk;
  const embed__sweep *s = c->s;
  const embed_table *t = s->table;
  int64_t first = task % job->tasks_per_block * s->task, column = task / job->tasks_per_block * EMBED__BLOCK;
  embed__tile tile = {.first = first, .rows = embed__min(s->task, c->rows - first), .column = column, .slot = worker};
  tile.columns = embed__min(EMBED__BLOCK, t->vocab - column);
  float *out = c->out ? c->out + first * s->ldout + column : NULL;
  float *scratch = s->tiles ? s->tiles + (int64_t)worker * s->tile_rows * EMBED__TILE_LD : NULL, *side = NULL;
  if (out && (!scratch || tile.rows > s->part)) { /* the caller's rows themselves, through scratch part by part */
    tile.z = out;
    tile.ldz = s->ldout;
    side = scratch;
  } else {
    tile.z = scratch;
    tile.ldz = EMBED__TILE_LD;
  }
  if (!out && s->task > s->part) {
    parts_on_panels(c, &tile, worker);
    return;
  }
  if (s->way == EMBED__PACKED || s->way == EMBED__PREPARED) {
    on_panels(c, &tile, worker, side);
  } else if (s->multiplier) {
    multiply_parts(c, embed__row(t, column), t->row_bytes, t->row_bytes, tile.columns, &tile, 0, side);
  } else {
    float *decoded = s->decoded ? s->decoded + worker * s->decoded_floats : NULL;
    embed__product(c->kernels, t, column, tile.columns, c->x + first * c->ldx, c->ldx, tile.rows, decoded, tile.z, tile.ldz);
  }
  if (s->beyond) multiply_beyond(c, &tile, worker);
  if (s->take) s->take(s->reducer, &tile);
  if (out && tile.z != out) copy_rows(c, tile.z, tile.ldz, tile.rows, tile.columns, out, s->ldout);
  if (s->streaming) c->kernels->row.fence();
}

embed_status embed__own_chunk(embed_context *ctx, const embed__chunk *chunk) {
  const embed__sweep *s = chunk->s;
  own_job job = {chunk, embed__ceil_div(chunk->rows, s->task)};
  if (s->multiplier) EMBED__TRY(embed__run(ctx, embed__ceil_div(chunk->rows, s->part), pack_part, (void *)(uintptr_t)chunk));
  int64_t most = embed__ceil_div(s->chunk, s->task) * chunk->blocks; /* of a whole chunk */
  return embed__run_long(ctx, job.tasks_per_block * chunk->blocks, own_task, &job, chunk->done * most, chunk->chunks * most);
}
