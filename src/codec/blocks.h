/* SPDX-License-Identifier: BSD-3-Clause */
/* What the block forms of GGUF share. A row is whole blocks of 32 or 256 columns, each with its own scale as a half
 * float; all fields are little-endian and may stand at any byte. */
#ifndef EMBED__BLOCKS_H
#define EMBED__BLOCKS_H

#include <math.h>
#include <string.h>

#include "codec/codec.h"
#include "core/half.h"

enum { EMBED__QK = 32, EMBED__QK_K = 256 }; /* columns of a block: of the plain forms, of the K forms */

typedef void embed__block_decode(const unsigned char *restrict block, float *restrict out, float scale);
typedef bool embed__block_encode(const float *restrict x, unsigned char *restrict block); /* false: past the half float's range */

static inline float embed__half_at(const unsigned char *at) { return embed__f32_of_f16((uint16_t)(at[0] | at[1] << 8)); }

/* False for what a half float holds as infinity. */
static inline bool embed__put_half(unsigned char *at, float x) {
  uint16_t half = embed__f16_of_f32(x);
  at[0] = (unsigned char)half;
  at[1] = (unsigned char)(half >> 8);
  return (half & 0x7FFFu) < 0x7C00u;
}

/* The inverse of a step; 0 for a step of 0, and for one so small that only zero can be stored. */
static inline float embed__inverse(float step) {
  float inverse = step != 0 ? 1.0f / step : 0;
  return isfinite(inverse) ? inverse : 0;
}

static inline int embed__clamp(int q, int low, int high) { return q < low ? low : q > high ? high : q; }

/* The first value of largest magnitude, with its sign. */
static inline float embed__extreme(const float *x, int n) {
  float extreme = 0;
  for (int j = 0; j < n; ++j)
    if (fabsf(x[j]) > fabsf(extreme)) extreme = x[j];
  return extreme;
}

static inline float embed__least(const float *x, int n) {
  float least = x[0];
  for (int j = 1; j < n; ++j) least = x[j] < least ? x[j] : least;
  return least;
}

static inline float embed__most(const float *x, int n) {
  float most = x[0];
  for (int j = 1; j < n; ++j) most = x[j] > most ? x[j] : most;
  return most;
}

/* Columns j and j + 16 of 32 share a byte: low and high nibble. */
static inline void embed__put_nibbles(const int *q, unsigned char *qs) {
  for (int j = 0; j < 16; ++j) qs[j] = (unsigned char)((q[j] & 15) | (q[16 + j] & 15) << 4);
}

/* The fifth bits of 32 values: bit j of a little-endian word belongs to column j. */
static inline void embed__put_fifths(const int *q, unsigned char *qh) {
  memset(qh, 0, 4);
  for (int j = 0; j < 32; ++j) qh[j / 8] |= (unsigned char)((q[j] >> 4) << j % 8);
}

/* The values of 32 columns. Bits are tested against a table: SSE2 has no shift of its own for every lane. */
static inline void embed__fifths_at(const unsigned char *restrict qh, const unsigned char *restrict qs, int *restrict q) {
  static const int bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  int low = qh[0] | qh[1] << 8, high = qh[2] | qh[3] << 8;
  for (int j = 0; j < 16; ++j) q[j] = (qs[j] & 15) | (low & bit[j] ? 16 : 0);
  for (int j = 0; j < 16; ++j) q[16 + j] = qs[j] >> 4 | (high & bit[j] ? 16 : 0);
}

/* Inlined with the form's own block function: a plain loop in its file. */
static inline __attribute__((always_inline)) void embed__decode_blocks(const void *row, float *out, int64_t dim, int64_t columns, int64_t bytes, float scale,
                                                                       embed__block_decode *decode_block) {
  const unsigned char *block = row;
  for (int64_t first = 0; first < dim; first += columns, block += bytes) decode_block(block, out + first, scale);
}

/* No form here reaches 2^32: the largest is Q6_K's 65504 * 128 * 32. Refusing what lies above at once (and NaN with it)
 * keeps every sum of the scale searches finite. */
static inline __attribute__((always_inline)) bool embed__encode_blocks(const float *row, void *out, int64_t dim, int64_t columns, int64_t bytes,
                                                                       embed__block_encode *encode_block) {
  unsigned char *block = out;
  for (int64_t j = 0; j < dim; ++j)
    if (!(fabsf(row[j]) < 0x1p32f)) return false;
  for (int64_t first = 0; first < dim; first += columns, block += bytes)
    if (!encode_block(row + first, block)) return false;
  return true;
}

/* The codec of a form from its file's decode_block and encode_block. Rounding is the format's own: no noise. */
#define EMBED__BLOCK_CODEC(form, columns, bytes)                                                                                    \
  static void decode(const embed__kernels *k, const void *row, float *out, int64_t dim, int32_t group, float scale) {               \
    if (embed__decoded_by_kernel(k, EMBED__FORM_##form, row, out, dim, group, scale)) return;                                       \
    embed__decode_blocks(row, out, dim, columns, bytes, scale, decode_block);                                                       \
  }                                                                                                                                 \
  static bool encode(const embed__kernels *k, const float *row, void *out, int64_t dim, int32_t group, const embed__noise *noise) { \
    (void)k;                                                                                                                        \
    (void)group;                                                                                                                    \
    (void)noise;                                                                                                                    \
    return embed__encode_blocks(row, out, dim, columns, bytes, encode_block);                                                       \
  }                                                                                                                                 \
  const embed__codec embed__codec_##form = {-1, false, true, decode, encode, EMBED__FORM_##form}

#endif
