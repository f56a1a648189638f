/* SPDX-License-Identifier: BSD-3-Clause */
/* Tiles of AMX, up to 16 rows of 64 bytes. One of columns of hidden rows (X) times one of a panel's lines (W) is added to one of sums, a row of
 * it for each hidden row and a lane for each row of the table. Two panels, far from each other, meet the same X. */
#ifndef EMBED__AMX_TILES_H
#define EMBED__AMX_TILES_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/panel.h"
#include "kernels/template.h"

enum {
  TILE_ROWS = 16,
  TILE_BYTES = 1024,
  SIDES = 2,         /* panels at once */
  AHEAD_BYTES = 4096 /* that a panel is fetched ahead where hidden rows make one tile */
};

/* Numbers of tiles: gcc writes them into its instructions as they stand. LAST: of the last columns, where they are fewer. */
#define X      0
#define W      1
#define SUMS_0 2
#define SUMS_1 3
#define LAST_X 4
#define LAST_W 5
#define SUMS_2 6
#define SUMS_3 7

typedef struct tile_shapes {
  _Alignas(64) uint8_t palette;
  uint8_t start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_shapes;

/* gcc's intrinsics do not say that they read and write memory. */
INLINE void memory_settles(void) { __asm__ volatile("" ::: "memory"); }

INLINE void shape(tile_shapes *s, int tile, int64_t rows, int64_t row_bytes) {
  s->rows[tile] = (uint8_t)rows;
  s->row_bytes[tile] = (uint16_t)row_bytes;
}

/* hidden: rows of X; last: lines of the last columns, 0 = as many as everywhere. */
INLINE void shape_tiles(int64_t hidden, int64_t last) {
  tile_shapes s = {.palette = 1};
  shape(&s, X, hidden, 64);
  shape(&s, W, TILE_ROWS, 64);
  shape(&s, SUMS_0, hidden, 64);
  shape(&s, SUMS_1, hidden, 64);
  shape(&s, SUMS_2, hidden, 64);
  shape(&s, SUMS_3, hidden, 64);
  shape(&s, LAST_X, hidden, last ? 4 * last : 64);
  shape(&s, LAST_W, last ? last : TILE_ROWS, 64);
  memory_settles();
  _tile_loadconfig(&s);
}

INLINE void begin_sums(void) {
  memory_settles();
  _tile_zero(SUMS_0);
  _tile_zero(SUMS_1);
}
INLINE void store_sums(void *first, void *second) {
  _tile_stored(SUMS_0, first, 64);
  _tile_stored(SUMS_1, second, 64);
  memory_settles();
}

/* And those of two more panels. */
INLINE void begin_more_sums(void) {
  _tile_zero(SUMS_2);
  _tile_zero(SUMS_3);
}
INLINE void store_more_sums(void *third, void *fourth) {
  _tile_stored(SUMS_2, third, 64);
  _tile_stored(SUMS_3, fourth, 64);
  memory_settles();
}

/* Columns x of hidden rows; last: the last ones, which may be fewer. */
#define LOAD_X(last, x)           \
  do {                            \
    if (last)                     \
      _tile_loadd(LAST_X, x, 64); \
    else                          \
      _tile_loadd(X, x, 64);      \
  } while (0)

/* Lines of two panels, `first` and `second`, times those, by the intrinsic `product`. */
#define ADD_PRODUCTS(product, last, sums_first, sums_second, first, second) \
  do {                                                                      \
    if (last) {                                                             \
      _tile_loadd(LAST_W, first, 64);                                       \
      product(sums_first, LAST_X, LAST_W);                                  \
      _tile_loadd(LAST_W, second, 64);                                      \
      product(sums_second, LAST_X, LAST_W);                                 \
    } else {                                                                \
      _tile_loadd(W, first, 64);                                            \
      product(sums_first, X, W);                                            \
      _tile_loadd(W, second, 64);                                           \
      product(sums_second, X, W);                                           \
    }                                                                       \
  } while (0)

INLINE int64_t tiles_for(int64_t rows) { return (rows + TILE_ROWS - 1) / TILE_ROWS; }
INLINE int64_t rows_of_tile(int64_t rows, int64_t tile) { return rows - tile * TILE_ROWS < TILE_ROWS ? rows - tile * TILE_ROWS : TILE_ROWS; }

INLINE void fetch_lines(uintptr_t at, int64_t lines) { /* to L2 */
  for (int64_t l = 0; l < lines; ++l) _mm_prefetch((const char *)(at + (uintptr_t)(64 * l)), _MM_HINT_T1);
}
INLINE void fetch_near_lines(uintptr_t at, int64_t lines) {
  for (int64_t l = 0; l < lines; ++l) _mm_prefetch((const char *)(at + (uintptr_t)(64 * l)), _MM_HINT_T0);
}

INLINE __mmask16 lanes_mask(int64_t lanes) { return (__mmask16)((1u << lanes) - 1); }

#endif
