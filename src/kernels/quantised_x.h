/* SPDX-License-Identifier: BSD-3-Clause */
/* Hidden rows as int8 digits. Plain loops over 32 columns, which the levels compile for their vectors; every operation
 * is exact or rounds once, so that the bits are the same.
 *
 * Packed: a line that begins with the number of tiles (int64); a digit_tile for each, up to a line's end; then their records. A
 * tile has hidden rows of as many limbs each, whose rows of digits stand one after the other: v = row * limbs + limb. It is
 * a record for each block: 8 words of 4 digits, a scale, a, b and a last word, all as [..][rows of digits of the tile]. What a
 * hidden row has one of stands at its first limb. Where a level has DIGIT_WORDS of 16, digits that meet u above 127 are 16 words of
 * two, of 16 bits: digits 0 and 2 of four in one of the first 8, 1 and 3 in one of the others.
 *   scale   exact: the limb's in this chunk; all but I8 read the first one's
 *   a, b    -zero * sum of the digits, of the whole chunk in its first block for I8 exact, and 0; PER_HALF -zero * sum of
 *           either half; WITH_OFFSET -sum of the digits in 16 bits, times a lane's center, and as a float the row's sum in the unit of its
 *           first limb, of rounded digits times scale
 * Of rounded digits MAGIC is added to a but WITH_OFFSET, of PER_HALF to b too, and the last word is -3 * 2^22 * scale: the float whose bits
 * the sum is, times scale, plus that, is float(isum) * scale in one FMA. Both products fit in 24 bits, so it rounds once.
 * I8, whose products wait for the row's scale, has no use for it. */
#ifndef EMBED__QUANTISED_X_H
#define EMBED__QUANTISED_X_H

#include <float.h>
#include <math.h>

#include "kernels/quantised_form.h"

#ifndef DIGIT_WORDS
#define DIGIT_WORDS 8
#endif

enum {
  MOST_LIMBS = 6,
  LEAST_LIMBS = 2,   /* of exact digits: fewer end in zeros */
  MOST_ROWS = 8,     /* of a tile */
  FEW_COLUMNS = 256, /* of which a row's weights may well leave out all but the smallest numbers */
  AT_SCALE = DIGIT_WORDS,
  AT_A,
  AT_B,
  AT_MAGIC,
  RECORD_WORDS,       /* per row of digits and block */
  MAGIC = 0x4B400000, /* the bits of 3 * 2^22: integers added to them are added to the float, up to 2^22 */
  INFINITE = 0x7F800000,
};

/* Hidden rows whose digits are multiplied together. */
typedef struct digit_tile {
  int64_t first; /* row of digits */
  int32_t limbs, rows;
  int32_t hidden[MOST_ROWS];
} digit_tile;

typedef struct digits {
  int64_t tiles;
  const digit_tile *tile;
  const int32_t *record;
  int64_t blocks;
} digits;

INLINE int64_t most_digits(int64_t n, embed__activation activation) { return activation == EMBED__EXACT ? MOST_LIMBS * n : n; }
INLINE int64_t tile_list_bytes(int64_t n) { return to_lines(n * (int64_t)sizeof(digit_tile)); }

INLINE int64_t digits_bytes(int64_t n, int64_t dim, embed__activation activation) {
  return 64 + tile_list_bytes(n) + to_lines(4 * RECORD_WORDS * most_digits(n, activation) * blocks_of(dim));
}

INLINE digits digits_at(const void *packed, int64_t n, int64_t dim) {
  digits d = {.tile = (const digit_tile *)((const unsigned char *)packed + 64), .blocks = blocks_of(dim)};
  memcpy(&d.tiles, packed, sizeof d.tiles);
  d.record = (const int32_t *)((const unsigned char *)packed + 64 + tile_list_bytes(n));
  return d;
}

/* 32 columns of a row; a short last block ends in zeros. */
INLINE void load_block(const float *x, int64_t columns, float block[BLOCK_COLUMNS]) {
  if (columns >= BLOCK_COLUMNS) {
    memcpy(block, x, BLOCK_COLUMNS * sizeof *block);
  } else {
    memset(block, 0, BLOCK_COLUMNS * sizeof *block);
    memcpy(block, x, (size_t)columns * sizeof *block);
  }
}

/* The bits of the largest |x|; INFINITE or more with an infinity or a NaN. */
INLINE int32_t largest_bits(const float *x, int64_t n) {
  int32_t largest = 0;
  for (int64_t j = 0; j < n; ++j) {
    int32_t magnitude;
    memcpy(&magnitude, x + j, 4);
    magnitude &= 0x7FFFFFFF;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

/* 2^e for e in [-149, 127]. */
INLINE float power_of_two(int e) { return embed__f32_of_bits(e >= -126 ? (uint32_t)(e + 127) << 23 : 1u << (e + 149)); }

/* The exponent of the step that makes a chunk's numbers integers of 32 bits: the largest below 127/128 * 2^31, so that
 * its digits stay in int8. */
INLINE int step_exponent(int32_t largest) {
  int exponent = (largest >> 23) - 157 + ((largest & 0x7FFFFF) >= 0x7E0000);
  return exponent < -149 ? -149 : exponent;
}

/* x / 2^exponent, exact but where it is far below 1. */
INLINE void in_steps(const float block[BLOCK_COLUMNS], int exponent, float out[BLOCK_COLUMNS]) {
  float first = power_of_two(-(exponent / 2)), second = power_of_two(-(exponent - exponent / 2));
  for (int j = 0; j < BLOCK_COLUMNS; ++j) out[j] = block[j] * first * second;
}

INLINE int64_t chunk_columns(int64_t dim, int64_t first) { return dim - first < CHUNK_BLOCKS * BLOCK_COLUMNS ? dim - first : CHUNK_BLOCKS * BLOCK_COLUMNS; }

/* How many limbs a row needs. What is typical of its numbers is their geometric mean: outliers do not move it. */
INLINE int limbs_of_row(const float *x, int64_t dim) {
  int32_t low = 0; /* bits that any chunk uses */
  int64_t exponents = 0, numbers = 0;
  double left_over = 0; /* of a column, times dim */
  for (int64_t first = 0; first < dim; first += CHUNK_BLOCKS * BLOCK_COLUMNS) {
    int64_t end = first + chunk_columns(dim, first);
    int32_t inexact = 0, largest = largest_bits(x + first, end - first);
    if (largest >= INFINITE || largest == 0) continue;
    int exponent = step_exponent(largest);
    for (int64_t j = first; j < end; j += BLOCK_COLUMNS) {
      float block[BLOCK_COLUMNS], y[BLOCK_COLUMNS], whole[BLOCK_COLUMNS];
      int32_t bits[BLOCK_COLUMNS], sum = 0, some = 0;
      load_block(x + j, end - j, block);
      memcpy(bits, block, sizeof bits);
      in_steps(block, exponent, y);
      for (int c = 0; c < BLOCK_COLUMNS; ++c) whole[c] = rintf(y[c]);
      for (int c = 0; c < BLOCK_COLUMNS; ++c) {
        low |= (int32_t)whole[c];
        inexact |= y[c] != whole[c];
        sum += bits[c] >> 23 & 255;
        some += (bits[c] & 0x7FFFFFFF) != 0;
      }
      exponents += sum;
      numbers += some;
    }
    if (inexact) left_over += (double)(end - first) * 0.25 * (double)power_of_two(exponent);
  }
  if (left_over > 0) {
    double typical = (double)power_of_two((int)(exponents / numbers) - 127 < -149 ? -149 : (int)(exponents / numbers) - 127);
    return dim < FEW_COLUMNS || left_over > 0x1p-24 * typical * (double)dim ? MOST_LIMBS : 4;
  }
  return low & 0xFF ? 4 : low & 0xFFFF ? 3 : LEAST_LIMBS;
}

/* What limb l counts in, of what the first one does: as limb_scales has them. */
INLINE float unit_of_limb(int l) {
  static const float unit[MOST_LIMBS] = {1, 0x1p-8f, 0x1p-16f, 0x1p-24f, 0x1p-31f, 0x1p-39f};
  return unit[l];
}

/* Of a block's digits, in the unit of the first limb: exact until it is a float, 13 bits from 2^-39 up. */
INLINE float sum_of_digits(int limbs, const int32_t sums[MOST_LIMBS]) {
  double whole = 0;
  for (int l = 0; l < limbs; ++l) whole += (double)sums[l] * (double)unit_of_limb(l);
  return (float)whole;
}

/* Scales of a chunk's limbs, the largest first; NaN where it has no step. */
INLINE void limb_scales(int32_t largest, float scale[MOST_LIMBS]) {
  int exponent = step_exponent(largest);
  for (int l = 0; l < MOST_LIMBS; ++l) {
    int at = l < 4 ? exponent + 8 * (3 - l) : exponent - 7 - 8 * (l - 4);
    scale[l] = largest >= INFINITE ? NAN : at >= -149 ? power_of_two(at) : 0;
  }
}

/* x: of so many columns, of which 32 are taken. */
INLINE void limbs_of_block(const float *x, int64_t columns, int32_t largest, int limbs, int8_t digit[MOST_LIMBS][BLOCK_COLUMNS]) {
  float block[BLOCK_COLUMNS], y[BLOCK_COLUMNS], whole[BLOCK_COLUMNS];
  int32_t integer[BLOCK_COLUMNS];
  if (largest >= INFINITE) {
    memset(digit, 0, MOST_LIMBS * BLOCK_COLUMNS);
    return;
  }
  load_block(x, columns, block);
  in_steps(block, step_exponent(largest), y);
  for (int j = 0; j < BLOCK_COLUMNS; ++j) whole[j] = rintf(y[j]);
  for (int j = 0; j < BLOCK_COLUMNS; ++j) integer[j] = (int32_t)whole[j];
  for (int l = 3; l >= 0; --l) {
    for (int j = 0; j < BLOCK_COLUMNS; ++j) {
      int32_t lowest = (int8_t)(integer[j] & 0xFF);
      digit[l][j] = (int8_t)lowest;
      integer[j] = (integer[j] - lowest) >> 8;
    }
  }
  if (limbs <= 4) return;
  for (int j = 0; j < BLOCK_COLUMNS; ++j) { /* what is left, at most a half, in 2^-15 of a step */
    int32_t rest = (int32_t)rintf((y[j] - whole[j]) * 0x1p15f), lowest = (int8_t)(rest & 0xFF);
    digit[5][j] = (int8_t)lowest;
    digit[4][j] = (int8_t)((rest - lowest) >> 8);
  }
}

/* One block as Q8_0 stores it; x as above. */
INLINE void rounded_block(const float *x, int64_t columns, int8_t digit[BLOCK_COLUMNS], float *scale) {
  float block[BLOCK_COLUMNS];
  load_block(x, columns, block);
  int32_t largest = largest_bits(block, BLOCK_COLUMNS);
  if (largest >= INFINITE) {
    memset(digit, 0, BLOCK_COLUMNS);
    *scale = NAN;
    return;
  }
  float d = embed__f32_of_bits((uint32_t)largest) / 127.0f, inverse = d != 0 ? 1.0f / d : 0;
  if (!(inverse <= FLT_MAX)) inverse = 0;
  for (int j = 0; j < BLOCK_COLUMNS; ++j) {
    float scaled = block[j] * inverse;
    int32_t whole = (int32_t)scaled; /* half away from zero: scaled - whole is exact */
    float rest = scaled - (float)whole;
    int32_t q = whole + (rest >= 0.5f) - (rest <= -0.5f);
    digit[j] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
  }
  uint16_t half = embed__f16_of_f32(d);
  *scale = half < 0x7C00 ? embed__f32_of_f16(half) : NAN; /* past what Q8_0 can hold */
}

/* record: of the block, at the row of digits' place in a tile of `width` of them. The sum of the digits. */
INLINE int32_t put_digits(int32_t *record, int64_t width, embed__panel_form form, const int8_t digit[BLOCK_COLUMNS]) {
  int32_t half[HALVES] = {0}, zero = zero_of(form);
  for (int j = 0; j < BLOCK_COLUMNS / 2; ++j) half[0] += digit[j];
  for (int j = BLOCK_COLUMNS / 2; j < BLOCK_COLUMNS; ++j) half[1] += digit[j];
  for (int g = 0; g < 8; ++g) {
    const int8_t *four = digit + 4 * g;
    const int16_t apart[4] = {four[0], four[2], four[1], four[3]};
    if (DIGIT_WORDS == 8 || most_u(form) < 128) {
      memcpy(record + g * width, four, 4);
    } else {
      memcpy(record + g * width, apart, 4);
      memcpy(record + (g + 8) * width, apart + 2, 4);
    }
  }
  const int32_t both = half[0] + (scaling_of(form) == PER_HALF ? 0 : half[1]);
  record[AT_A * width] = scaling_of(form) == WITH_OFFSET ? (uint16_t)-both : -zero * both;
  record[AT_B * width] = scaling_of(form) == PER_HALF ? -zero * half[1] : 0;
  return half[0] + half[1];
}

INLINE void put_float(int32_t *record, int64_t width, int at, float value) { memcpy(record + at * width, &value, 4); }

/* record: of block 0, at the row's first limb. */
static void pack_exact_row(embed__panel_form form, int32_t *record, int64_t width, int limbs, const float *x, int64_t dim) {
  for (int64_t first = 0; first < dim; first += CHUNK_BLOCKS * BLOCK_COLUMNS) {
    int64_t end = first + chunk_columns(dim, first);
    int32_t largest = largest_bits(x + first, end - first), total[MOST_LIMBS] = {0};
    int32_t *const chunk = record + RECORD_WORDS * width * (first / BLOCK_COLUMNS);
    float scale[MOST_LIMBS];
    limb_scales(largest, scale);
    for (int64_t j = first; j < end; j += BLOCK_COLUMNS) {
      int8_t digit[MOST_LIMBS][BLOCK_COLUMNS];
      int32_t *const at = record + RECORD_WORDS * width * (j / BLOCK_COLUMNS);
      int32_t sums[MOST_LIMBS];
      limbs_of_block(x + j, end - j, largest, limbs, digit);
      for (int l = 0; l < limbs; ++l) {
        sums[l] = put_digits(at + l, width, form, digit[l]);
        put_float(at + l, width, AT_SCALE, scale[l]);
        total[l] += at[AT_A * width + l];
      }
      if (scaling_of(form) == WITH_OFFSET) put_float(at, width, AT_B, sum_of_digits(limbs, sums));
    }
    for (int l = 0; scaling_of(form) == PER_ROW && l < limbs; ++l) chunk[AT_A * width + l] = total[l];
  }
}

static void pack_rounded_row(embed__panel_form form, int32_t *record, int64_t width, const float *x, int64_t dim) {
  for (int64_t j = 0; j < dim; j += BLOCK_COLUMNS, record += RECORD_WORDS * width) {
    float scale;
    int8_t digit[BLOCK_COLUMNS];
    rounded_block(x + j, dim - j, digit, &scale);
    const int32_t sum = put_digits(record, width, form, digit);
    put_float(record, width, AT_SCALE, scale);
    if (scaling_of(form) == PER_ROW) continue;
    if (scaling_of(form) != WITH_OFFSET) record[AT_A * width] += MAGIC;
    if (scaling_of(form) == PER_HALF) record[AT_B * width] += MAGIC;
    if (scaling_of(form) == WITH_OFFSET) put_float(record, width, AT_B, scale * (float)sum);
    put_float(record, width, AT_MAGIC, -0x1.8p23f * scale);
  }
}

/* Hidden rows of so many limbs in tiles of up to `most`, evenly, the first ones one wider where they do not divide. */
static inline void add_tiles(const int32_t *limbs_of_rows, int64_t n, int32_t limbs, int64_t most, int64_t *count, digit_tile *tile) {
  int64_t rows = 0, first = *count ? tile[*count - 1].first + (int64_t)tile[*count - 1].limbs * tile[*count - 1].rows : 0;
  for (int64_t i = 0; i < n; ++i) rows += limbs_of_rows[i] == limbs;
  const int64_t tiles = (rows + most - 1) / most;
  for (int64_t i = 0, t = 0; t < tiles; ++t) {
    digit_tile *to = &tile[(*count)++];
    *to = (digit_tile){.first = first, .limbs = limbs};
    for (const int64_t width = rows / tiles + (t < rows % tiles); to->rows < width; ++i)
      if (limbs_of_rows[i] == limbs) to->hidden[to->rows++] = (int32_t)i;
    first += (int64_t)limbs * to->rows;
  }
}

/* most_rows: of a tile of rounded digits; paired: of exact ones two rows make a tile where they have up to so many limbs each. */
static inline void pack_digits(embed__panel_form form, embed__activation activation, int64_t most_rows, int paired, const float *x, int64_t ldx, int64_t n,
                               int64_t dim, void *packed) {
  const bool exact = activation == EMBED__EXACT;
  digit_tile *const tile = (digit_tile *)((unsigned char *)packed + 64);
  int32_t *const records = (int32_t *)((unsigned char *)packed + 64 + tile_list_bytes(n));
  int32_t *const limbs_of_rows = records; /* until the first is written */
  int64_t count = 0;
  for (int64_t i = 0; dim > 0 && i < n; ++i) limbs_of_rows[i] = exact ? limbs_of_row(x + i * ldx, dim) : 1;
  for (int32_t limbs = 1; dim > 0 && limbs <= MOST_LIMBS; ++limbs)
    add_tiles(limbs_of_rows, n, limbs, !exact ? most_rows : limbs <= paired ? 2 : 1, &count, tile);
  memcpy(packed, &count, sizeof count);
  for (int64_t t = 0; t < count; ++t) {
    const int64_t width = (int64_t)tile[t].limbs * tile[t].rows;
    int32_t *const record = records + RECORD_WORDS * tile[t].first * blocks_of(dim);
    for (int64_t r = 0; r < tile[t].rows; ++r) {
      const float *row = x + tile[t].hidden[r] * ldx;
      if (exact)
        pack_exact_row(form, record + r * tile[t].limbs, width, tile[t].limbs, row, dim);
      else
        pack_rounded_row(form, record + r, width, row, dim);
    }
  }
}

#endif
