/* SPDX-License-Identifier: BSD-3-Clause */
/* Hidden rows as rows of digits in tiles (quantised.h has what digits are).
 *
 * Packed: a line with the number of rows of digits; for each its hidden row (int32), up to a line's end; then
 *   chunks  exact: [tiles][chunks] of chunk_scales
 *   by      rounded: [tiles][blocks][16] floats, the scales of the digits
 *   sums    of forms with offsets: [tiles][blocks][16] floats, the sum of the digits, of rounded ones times by
 *   digits  [tiles][pairs][16][64], a row's digits of two blocks; and room for what is loaded with the last ones */
#ifndef EMBED__AMX_DIGITS_H
#define EMBED__AMX_DIGITS_H

#include "kernels/amx/tiles.h"
#include "kernels/quantised_x.h"

enum { CHUNK_PAIRS = CHUNK_BLOCKS / 2 };

/* Of 16 rows of digits and a chunk: what multiplies a sum, and -128 * sum of the digits. */
typedef struct chunk_scales {
  float scale[TILE_ROWS];
  int32_t added[TILE_ROWS];
} chunk_scales;

typedef struct packed_rows {
  int64_t *count;
  int32_t *hidden;
  chunk_scales *scales;
  float (*by)[TILE_ROWS], (*sums)[TILE_ROWS];
  int8_t *digits;
  int64_t pairs, chunks, blocks, bytes;
} packed_rows;

INLINE packed_rows parts_of(embed__panel_form form, bool exact, const void *packed, int64_t n, int64_t dim) {
  const int64_t rows = exact ? MOST_LIMBS * n : n, tiles = tiles_for(rows), blocks = blocks_of(dim), floats = tiles * blocks * TILE_ROWS * 4;
  unsigned char *const begin = (unsigned char *)(uintptr_t)packed, *at = begin + 64;
  packed_rows p = {.count = (int64_t *)(void *)begin, .pairs = (blocks + 1) / 2, .chunks = (blocks + CHUNK_BLOCKS - 1) / CHUNK_BLOCKS, .blocks = blocks};
  p.hidden = (int32_t *)(void *)at;
  at += to_lines(4 * rows);
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

/* Rows of digits [row, row + limbs) of one hidden row. */
static void pack_limbs(embed__panel_form form, const packed_rows *p, int64_t row, int limbs, const float *x, int64_t dim) {
  for (int64_t first = 0; first < dim; first += CHUNK_BLOCKS * BLOCK_COLUMNS) {
    const int64_t end = first + chunk_columns(dim, first), chunk = first / (CHUNK_BLOCKS * BLOCK_COLUMNS);
    const int32_t largest = largest_bits(x + first, end - first);
    int32_t total[MOST_LIMBS] = {0};
    float scale[MOST_LIMBS];
    limb_scales(largest, scale);
    for (int64_t j = first; j < end; j += BLOCK_COLUMNS) {
      int8_t digit[MOST_LIMBS][BLOCK_COLUMNS];
      limbs_of_block(x + j, end - j, largest, limbs, digit);
      for (int l = 0; l < limbs; ++l) {
        int32_t sum = 0;
        memcpy(digits_of(p, row + l, j / BLOCK_COLUMNS), digit[l], BLOCK_COLUMNS);
        for (int c = 0; c < BLOCK_COLUMNS; ++c) sum += digit[l][c];
        total[l] += sum;
        if (scaling_of(form) == WITH_OFFSET) *float_of(p, p->sums, row + l, j / BLOCK_COLUMNS) = (float)sum;
      }
    }
    for (int l = 0; l < limbs; ++l) {
      chunk_scales *s = p->scales + (row + l) / TILE_ROWS * p->chunks + chunk;
      s->scale[(row + l) % TILE_ROWS] = scale[l];
      s->added[(row + l) % TILE_ROWS] = -zero_of(EMBED__PANEL_I8) * total[l];
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

/* Zeros where a tile has no rows, or a pair no second block. */
INLINE void clear_rest(embed__panel_form form, bool exact, const packed_rows *p) {
  const int64_t count = *p->count, tiles = tiles_for(count), last = tiles - 1, floats = p->blocks * TILE_ROWS * 4;
  for (int64_t t = 0; p->blocks % 2 && t < tiles; ++t) memset(p->digits + ((t + 1) * p->pairs - 1) * TILE_BYTES, 0, TILE_BYTES);
  if (count % TILE_ROWS == 0) return;
  memset(p->digits + last * p->pairs * TILE_BYTES, 0, (size_t)(p->pairs * TILE_BYTES));
  if (!exact) memset(p->by + last * p->blocks, 0, (size_t)floats);
  if (scaling_of(form) == WITH_OFFSET) memset(p->sums + last * p->blocks, 0, (size_t)floats);
}

INLINE void pack_tiles(embed__panel_form form, bool exact, const float *x, int64_t ldx, int64_t n, int64_t dim, void *packed) {
  const packed_rows p = parts_of(form, exact, packed, n, dim);
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int l = exact ? limbs_of_row(x + i * ldx, dim) : 1; l > 0; --l) p.hidden[count++] = (int32_t)i;
  *p.count = count;
  clear_rest(form, exact, &p);
  for (int64_t row = 0; row < count;) {
    int limbs = 1;
    while (row + limbs < count && p.hidden[row + limbs] == p.hidden[row]) ++limbs;
    if (exact)
      pack_limbs(form, &p, row, limbs, x + p.hidden[row] * ldx, dim);
    else
      pack_rounded(form, &p, row, x + p.hidden[row] * ldx, dim);
    row += limbs;
  }
}

#endif
