/* SPDX-License-Identifier: BSD-3-Clause */
/* Hidden rows as int8 digits. Plain loops over 32 columns, which the levels compile for their vectors; every operation
 * is exact or rounds once, so that the bits are the same.
 *
 * Packed: a line that begins with the number of rows of digits (int64); for each its hidden row (int32), up to a line's
 * end; then rows of digits in tiles of up to TILE_DIGITS, the first ones one wider where they do not divide evenly. A
 * tile is a record for each block: 8 words of 4 digits, a scale, a, b and a last word, all as [..][width of the tile].
 *   scale   exact: the limb's in this chunk
 *   a, b    -zero * sum of the digits, of the whole chunk in its first block for I8 exact, and 0; PER_HALF -zero * sum of
 *           either half; WITH_OFFSET -sum of the digits, times a lane's center, and as a float that sum, of rounded digits times scale
 * Of rounded digits MAGIC is added to a but WITH_OFFSET, of PER_HALF to b too, and the last word is -3 * 2^22 * scale: the float whose bits
 * the sum is, times scale, plus that, is float(isum) * scale in one FMA. Both products fit in 24 bits, so it rounds once.
 * I8, whose products wait for the row's scale, has no use for it. */
#ifndef EMBED__QUANTISED_X_H
#define EMBED__QUANTISED_X_H

#include <float.h>
#include <math.h>

#include "kernels/quantised_form.h"

enum {
  MOST_LIMBS = 6,
  FEW_COLUMNS = 256, /* of which a row's weights may well leave out all but the smallest numbers */
  RECORD_WORDS = 12, /* per row of digits and block */
  AT_SCALE = 8,
  AT_A = 9,
  AT_B = 10,
  AT_MAGIC = 11,
  MAGIC = 0x4B400000, /* the bits of 3 * 2^22: integers added to them are added to the float, up to 2^22 */
  INFINITE = 0x7F800000,
};

typedef struct digits {
  int64_t count; /* rows of digits */
  const int32_t *hidden;
  const int32_t *record;
  int64_t blocks;
} digits;

typedef struct digit_tile {
  int64_t first, width;
} digit_tile;

INLINE int64_t tiles_of(int64_t count, int64_t most) { return (count + most - 1) / most; }
INLINE digit_tile nth_tile(int64_t count, int64_t tiles, int64_t t) {
  int64_t wide = count % tiles;
  digit_tile tile = {t * (count / tiles) + (t < wide ? t : wide), count / tiles + (t < wide)};
  return tile;
}

INLINE int64_t digits_bytes(int64_t n, int64_t dim, embed__activation activation) {
  int64_t rows = activation == EMBED__EXACT ? MOST_LIMBS * n : n;
  return 64 + to_lines(4 * rows) + to_lines(4 * RECORD_WORDS * rows * blocks_of(dim));
}

INLINE digits digits_at(const void *packed, int64_t n, int64_t dim, embed__activation activation) {
  int64_t rows = activation == EMBED__EXACT ? MOST_LIMBS * n : n;
  digits d = {.blocks = blocks_of(dim)};
  memcpy(&d.count, packed, sizeof d.count);
  d.hidden = (const int32_t *)((const unsigned char *)packed + 64);
  d.record = (const int32_t *)((const unsigned char *)packed + 64 + to_lines(4 * rows));
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
  return low & 0xFF ? 4 : low & 0xFFFF ? 3 : low & 0xFFFFFF ? 2 : 1;
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

/* record: of the block, at the row's place in a tile `width` wide; by: what multiplies the sum of the digits. */
INLINE void put_record(int32_t *record, int64_t width, embed__panel_form form, const int8_t digit[BLOCK_COLUMNS], float scale, float by) {
  int32_t half[HALVES] = {0}, zero = zero_of(form);
  for (int j = 0; j < BLOCK_COLUMNS / 2; ++j) half[0] += digit[j];
  for (int j = BLOCK_COLUMNS / 2; j < BLOCK_COLUMNS; ++j) half[1] += digit[j];
  for (int g = 0; g < 8; ++g) memcpy(record + g * width, digit + 4 * g, 4);
  memcpy(record + AT_SCALE * width, &scale, 4);
  record[AT_A * width] = -(scaling_of(form) == WITH_OFFSET ? 1 : zero) * (half[0] + (scaling_of(form) == PER_HALF ? 0 : half[1]));
  record[AT_B * width] = scaling_of(form) == PER_HALF ? -zero * half[1] : 0;
  if (scaling_of(form) != WITH_OFFSET) return;
  float sum = by * (float)(half[0] + half[1]);
  memcpy(record + AT_B * width, &sum, 4);
}

/* The rows of digits of one hidden row: their records of block 0, and the widths of their tiles. */
typedef struct places {
  int32_t *at[MOST_LIMBS];
  int64_t width[MOST_LIMBS];
  int limbs;
} places;

static void pack_exact_row(embed__panel_form form, const places *p, const float *x, int64_t dim) {
  for (int64_t first = 0; first < dim; first += CHUNK_BLOCKS * BLOCK_COLUMNS) {
    int64_t end = first + chunk_columns(dim, first);
    int32_t largest = largest_bits(x + first, end - first), total[MOST_LIMBS] = {0};
    float scale[MOST_LIMBS];
    limb_scales(largest, scale);
    for (int64_t j = first; j < end; j += BLOCK_COLUMNS) {
      int8_t digit[MOST_LIMBS][BLOCK_COLUMNS];
      limbs_of_block(x + j, end - j, largest, p->limbs, digit);
      for (int l = 0; l < p->limbs; ++l) {
        int32_t *record = p->at[l] + RECORD_WORDS * p->width[l] * (j / BLOCK_COLUMNS);
        put_record(record, p->width[l], form, digit[l], scale[l], 1);
        total[l] += record[AT_A * p->width[l]];
      }
    }
    if (scaling_of(form) != PER_ROW) continue;
    for (int l = 0; l < p->limbs; ++l) p->at[l][RECORD_WORDS * p->width[l] * (first / BLOCK_COLUMNS) + AT_A * p->width[l]] = total[l];
  }
}

static void pack_rounded_row(embed__panel_form form, const places *p, const float *x, int64_t dim) {
  for (int64_t j = 0; j < dim; j += BLOCK_COLUMNS) {
    float scale;
    int8_t digit[BLOCK_COLUMNS];
    rounded_block(x + j, dim - j, digit, &scale);
    int32_t *record = p->at[0] + RECORD_WORDS * p->width[0] * (j / BLOCK_COLUMNS);
    put_record(record, p->width[0], form, digit, scale, scale);
    if (scaling_of(form) == PER_ROW) continue;
    float less = -0x1.8p23f * scale;
    if (scaling_of(form) != WITH_OFFSET) record[AT_A * p->width[0]] += MAGIC;
    if (scaling_of(form) == PER_HALF) record[AT_B * p->width[0]] += MAGIC;
    memcpy(record + AT_MAGIC * p->width[0], &less, 4);
  }
}

/* most: the level's widest tile. */
static inline void pack_digits(embed__panel_form form, embed__activation activation, int64_t most, const float *x, int64_t ldx, int64_t n, int64_t dim,
                               void *packed) {
  const int64_t blocks = blocks_of(dim);
  const bool exact = activation == EMBED__EXACT;
  int32_t *hidden = (int32_t *)((unsigned char *)packed + 64);
  int32_t *records = (int32_t *)((unsigned char *)packed + 64 + to_lines(4 * (exact ? MOST_LIMBS * n : n)));
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int l = exact ? limbs_of_row(x + i * ldx, dim) : 1; l > 0; --l) hidden[count++] = (int32_t)i;
  memcpy(packed, &count, sizeof count);
  int64_t tiles = tiles_of(count, most), t = 0;
  for (int64_t v = 0; v < count;) {
    places p = {.limbs = 0};
    int64_t i = hidden[v];
    for (; v < count && hidden[v] == i; ++v, ++p.limbs) {
      digit_tile tile = nth_tile(count, tiles, t);
      if (v >= tile.first + tile.width) tile = nth_tile(count, tiles, ++t);
      p.at[p.limbs] = records + RECORD_WORDS * tile.first * blocks + (v - tile.first);
      p.width[p.limbs] = tile.width;
    }
    if (exact)
      pack_exact_row(form, &p, x + i * ldx, dim);
    else
      pack_rounded_row(form, &p, x + i * ldx, dim);
  }
}

#endif
