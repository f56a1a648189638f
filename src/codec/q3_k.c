/* SPDX-License-Identifier: BSD-3-Clause */
/* Q3_K: third bits hmask[32], pairs of bits qs[64], scales[12], half d. Sub-block i of 16 columns has a step s of six
 * bits: value = d * (s - 32) * (q - 4), q of three bits; the third bit of column j is bit j / 32 of hmask[j % 32].
 * The low nibbles of s stand in scales[i % 8], its upper two bits in scales[8 + i % 4]. */
#include "codec/k_blocks.h"

enum { COUNT = 16, COLUMNS = 16, QS = 32, SCALES = 96, D = 108 };

static int step_at(const unsigned char *s, int i) {
  int low = s[i % 8] >> (i < 8 ? 0 : 4) & 15, high = s[8 + i % 4] >> 2 * (i / 4) & 3;
  return (low | high << 4) - 32;
}

static void put_step(unsigned char *s, int i, int step) {
  int stored = step + 32;
  s[i % 8] |= (unsigned char)((stored & 15) << (i < 8 ? 0 : 4));
  s[8 + i % 4] |= (unsigned char)(stored >> 4 << 2 * (i / 4));
}

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  float d = embed__half_at(block + D);
  for (int i = 0; i < COUNT; ++i) {
    const unsigned char *qs = block + QS + embed__pairs_byte(i), *third = block + 16 * (i % 2);
    int bit = embed__pairs_bit(i), third_bit = i / 2;
    float step = d * (float)step_at(block + SCALES, i);
    for (int j = 0; j < COLUMNS; ++j) {
      int q = (qs[j] >> bit & 3) | (third[j] >> third_bit & 1) << 2;
      out[COLUMNS * i + j] = step * (float)(q - 4) * scale;
    }
  }
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  float steps[COUNT];
  int q[EMBED__QK_K];
  for (int i = 0; i < COUNT; ++i) steps[i] = embed__search_by_moves(x + COLUMNS * i, COLUMNS, 4, q + COLUMNS * i);
  float extreme = embed__extreme(steps, COUNT), inverse = extreme != 0 ? -32.0f / extreme : 0;
  memset(block, 0, D);
  if (!embed__put_half(block + D, extreme != 0 ? 1.0f / inverse : 0)) return false;
  float d = embed__half_at(block + D);
  for (int i = 0; i < COUNT; ++i) {
    int step = embed__clamp(embed__nearest(inverse * steps[i]), -32, 31);
    if (extreme != 0) put_step(block + SCALES, i, step);
    float by = d * (float)step;
    if (by == 0) continue;
    for (int j = COLUMNS * i; j < COLUMNS * (i + 1); ++j) q[j] = embed__clamp(embed__nearest(x[j] / by), -4, 3) + 4;
  }
  for (int j = 0; j < EMBED__QK_K; ++j) block[j % 32] |= (unsigned char)((q[j] >> 2) << j / 32);
  embed__put_pairs(q, block + QS);
  return true;
}

EMBED__BLOCK_CODEC(q3_k, EMBED__QK_K, 110);
