/* SPDX-License-Identifier: BSD-3-Clause */
/* Hidden rows as rows of digits in tiles of 16 (quantised.h has what digits are). Exact ones that are scaled for every block stand together,
 * the limbs of a hidden row one after the other and all in one tile, where every row has as many; other tiles are filled.
 *
 * Packed: a line with the number of rows of digits, or of tiles that are listed; then
 *   hidden  for each row of digits its hidden row (int32), up to a line's end, or
 *   tile    exact and scaled for every block: a digit_tile for each, up to a line's end
 *   chunks  exact: [tiles][chunks] of chunk_scales
 *   by      rounded: [tiles][blocks][16] floats, the scales of the digits
 *   sums    of forms with offsets: [tiles][blocks][16] floats, the sums of the hidden rows' digits in the unit of the first, of rounded ones
 *           times by
 *   digits  [tiles][pairs][16][64], a row's digits of two blocks; and room for what is loaded with the last ones */
#ifndef EMBED__AMX_DIGITS_H
#define EMBED__AMX_DIGITS_H

#include "kernels/amx/tiles.h"
#include "kernels/quantised_x.h"

enum { CHUNK_PAIRS = CHUNK_BLOCKS / 2 };
_Static_assert(TILE_ROWS / LEAST_LIMBS <= MOST_ROWS, "a listed tile's hidden rows");

/* Of a tile and a chunk: what multiplies the sum of a row of digits and -128 * the sum of those digits, or what multiplies that of a hidden
 * row, where tiles are listed. */
typedef struct chunk_scales {
  float scale[TILE_ROWS];
  int32_t added[TILE_ROWS];
} chunk_scales;

typedef struct packed_rows {
  int64_t *count;
  int32_t *hidden;
  digit_tile *tile;
  chunk_scales *scales;
  float (*by)[TILE_ROWS], (*sums)[TILE_ROWS];
  int8_t *digits;
  int64_t pairs, chunks, blocks, bytes;
} packed_rows;

INLINE bool in_list(embed__panel_form form, bool exact) { return exact && scaling_of(form) != PER_ROW; }

INLINE packed_rows parts_of(embed__panel_form form, bool exact, const void *packed, int64_t n, int64_t dim) {
  const bool listed = in_list(form, exact);
  const int64_t rows = exact ? MOST_LIMBS * n : n, blocks = blocks_of(dim);
  const int64_t tiles = listed ? n / 2 + 2 : tiles_for(rows); /* at least two hidden rows in a tile, but in one of each number of limbs */
  const int64_t floats = tiles * blocks * TILE_ROWS * 4;
  unsigned char *const begin = (unsigned char *)(uintptr_t)packed, *at = begin + 64;
  packed_rows p = {.count = (int64_t *)(void *)begin, .pairs = (blocks + 1) / 2, .chunks = (blocks + CHUNK_BLOCKS - 1) / CHUNK_BLOCKS, .blocks = blocks};
  p.hidden = (int32_t *)(void *)at;
  p.tile = (digit_tile *)(void *)at;
  at += listed ? to_lines(tiles * (int64_t)sizeof(digit_tile)) : to_lines(4 * rows);
  p.scales = (chunk_scales *)(void *)at;
  if (exact) at += tiles * p.chunks * (int64_t)sizeof(chunk_scales);
  p.by = (float(*)[TILE_ROWS])(void *)at;
  if (!exact) at += floats;
  p.sums = (float(*)[TILE_ROWS])(void *)at;
  if (scaling_of(form) == WITH_OFFSET) at += floats;
  p.digits = (int8_t *)at;
  p.bytes = at - begin + (tiles * p.pairs + 1) * TILE_BYTES;
  return p;
}

INLINE int64_t tile_bytes_of(embed__panel_form form, bool exact, int64_t n, int64_t dim) {
  static const unsigned char none[64];
  return parts_of(form, exact, none, n, dim).bytes;
}

/* What belongs to a row of digits. */
INLINE int8_t *digits_of(const packed_rows *p, int64_t row, int64_t block) {
  return p->digits + (row / TILE_ROWS * p->pairs + block / 2) * TILE_BYTES + row % TILE_ROWS * 64 + block % 2 * BLOCK_COLUMNS;
}
INLINE float *float_of(const packed_rows *p, float (*of)[TILE_ROWS], int64_t row, int64_t block) {
  return of[row / TILE_ROWS * p->blocks + block] + row % TILE_ROWS;
}

/* Rows of digits [row, row + limbs) of one hidden row; place: in the list of tiles, among a tile's rows. */
static void pack_limbs(embed__panel_form form, const packed_rows *p, int64_t row, int64_t place, int limbs, const float *x, int64_t dim) {
  for (int64_t first = 0; first < dim; first += CHUNK_BLOCKS * BLOCK_COLUMNS) {
    const int64_t end = first + chunk_columns(dim, first), chunk = first / (CHUNK_BLOCKS * BLOCK_COLUMNS);
    const int32_t largest = largest_bits(x + first, end - first);
    int32_t total[MOST_LIMBS] = {0};
    float scale[MOST_LIMBS];
    limb_scales(largest, scale);
    for (int64_t j = first; j < end; j += BLOCK_COLUMNS) {
      int8_t digit[MOST_LIMBS][BLOCK_COLUMNS];
      int32_t sums[MOST_LIMBS] = {0};
      limbs_of_block(x + j, end - j, largest, limbs, digit);
      for (int l = 0; l < limbs; ++l) {
        memcpy(digits_of(p, row + l, j / BLOCK_COLUMNS), digit[l], BLOCK_COLUMNS);
        for (int c = 0; c < BLOCK_COLUMNS; ++c) sums[l] += digit[l][c];
        total[l] += sums[l];
      }
      if (scaling_of(form) == WITH_OFFSET) p->sums[row / TILE_ROWS * p->blocks + j / BLOCK_COLUMNS][place] = sum_of_digits(limbs, sums);
    }
    if (in_list(form, true)) {
      p->scales[row / TILE_ROWS * p->chunks + chunk].scale[place] = scale[0];
      continue;
    }
    for (int l = 0; l < limbs; ++l) {
      chunk_scales *s = p->scales + (row + l) / TILE_ROWS * p->chunks + chunk;
      s->scale[(row + l) % TILE_ROWS] = scale[l];
      s->added[(row + l) % TILE_ROWS] = -zero_of(form) * total[l];
    }
  }
}

static void pack_rounded(embed__panel_form form, const packed_rows *p, int64_t row, const float *x, int64_t dim) {
  for (int64_t b = 0; b < p->blocks; ++b) {
    int8_t digit[BLOCK_COLUMNS];
    float *by = float_of(p, p->by, row, b);
    int32_t total = 0;
    rounded_block(x + b * BLOCK_COLUMNS, dim - b * BLOCK_COLUMNS, digit, by);
    memcpy(digits_of(p, row, b), digit, BLOCK_COLUMNS);
    for (int c = 0; c < BLOCK_COLUMNS; ++c) total += digit[c];
    if (scaling_of(form) == WITH_OFFSET) *float_of(p, p->sums, row, b) = *by * (float)total;
  }
}

/* Zeros where tile t has no rows, or a pair no second block. */
INLINE void clear_rest(embed__panel_form form, bool exact, const packed_rows *p, int64_t t, int64_t rows_of_digits) {
  const int64_t floats = p->blocks * TILE_ROWS * 4;
  if (p->blocks % 2) memset(p->digits + ((t + 1) * p->pairs - 1) * TILE_BYTES, 0, TILE_BYTES);
  if (rows_of_digits == TILE_ROWS) return;
  memset(p->digits + t * p->pairs * TILE_BYTES, 0, (size_t)(p->pairs * TILE_BYTES));
  if (!exact) memset(p->by + t * p->blocks, 0, (size_t)floats);
  if (scaling_of(form) == WITH_OFFSET) memset(p->sums + t * p->blocks, 0, (size_t)floats);
}

static void pack_listed(embed__panel_form form, const packed_rows *p, const float *x, int64_t ldx, int64_t n, int64_t dim) {
  int32_t *const limbs_of_rows = (int32_t *)(void *)p->digits; /* until the first are written */
  *p->count = 0;
  for (int64_t i = 0; dim > 0 && i < n; ++i) limbs_of_rows[i] = limbs_of_row(x + i * ldx, dim);
  for (int32_t limbs = LEAST_LIMBS; dim > 0 && limbs <= MOST_LIMBS; ++limbs) add_tiles(limbs_of_rows, n, limbs, TILE_ROWS / limbs, p->count, p->tile);
  for (int64_t t = 0; t < *p->count; ++t) {
    const digit_tile *const tile = &p->tile[t];
    clear_rest(form, true, p, t, (int64_t)tile->limbs * tile->rows);
    for (int r = 0; r < tile->rows; ++r) pack_limbs(form, p, t * TILE_ROWS + (int64_t)r * tile->limbs, r, tile->limbs, x + tile->hidden[r] * ldx, dim);
  }
}

INLINE void pack_tiles(embed__panel_form form, bool exact, const float *x, int64_t ldx, int64_t n, int64_t dim, void *packed) {
  const packed_rows p = parts_of(form, exact, packed, n, dim);
  int64_t count = 0;
  if (in_list(form, exact)) {
    pack_listed(form, &p, x, ldx, n, dim);
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    for (int l = exact ? limbs_of_row(x + i * ldx, dim) : 1; l > 0; --l) p.hidden[count++] = (int32_t)i;
  *p.count = count;
  for (int64_t t = 0; t < tiles_for(count); ++t) clear_rest(form, exact, &p, t, rows_of_tile(count, t));
  for (int64_t row = 0; row < count;) {
    int limbs = 1;
    while (row + limbs < count && p.hidden[row + limbs] == p.hidden[row]) ++limbs;
    if (exact)
      pack_limbs(form, &p, row, 0, limbs, x + p.hidden[row] * ldx, dim);
    else
      pack_rounded(form, &p, row, x + p.hidden[row] * ldx, dim);
    row += limbs;
  }
}

#endif
