/* SPDX-License-Identifier: BSD-3-Clause */
/* Q2_K: scales[16], pairs of bits qs[64], half d, half dmin. Sub-block i of 16 columns has a step and an offset of four
 * bits each: value = d * (scales[i] & 15) * q - dmin * (scales[i] >> 4). */
#include "codec/k_blocks.h"

enum { COUNT = 16, COLUMNS = 16, QS = 16, D = 80, DMIN = 82 };

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  float d = embed__half_at(block + D), dmin = embed__half_at(block + DMIN);
  for (int i = 0; i < COUNT; ++i) {
    const unsigned char *qs = block + QS + embed__pairs_byte(i);
    int bit = embed__pairs_bit(i);
    float step = d * (float)(block[i] & 15), offset = dmin * (float)(block[i] >> 4);
    for (int j = 0; j < COLUMNS; ++j) out[COLUMNS * i + j] = (step * (float)(qs[j] >> bit & 3) - offset) * scale;
  }
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  static const embed__affine_plan plan = {.top = 3, .first = -0.5f, .stride = 0.1f, .tries = 15, .absolute = true};
  float steps[COUNT], offsets[COUNT], weights[COLUMNS], most_step = 0, most_offset = 0;
  int q[EMBED__QK_K];
  for (int i = 0; i < COUNT; ++i) {
    for (int j = 0; j < COLUMNS; ++j) weights[j] = fabsf(x[COLUMNS * i + j]);
    steps[i] = embed__search_affine(x + COLUMNS * i, COLUMNS, weights, &plan, q + COLUMNS * i, &offsets[i]);
    most_step = steps[i] > most_step ? steps[i] : most_step;
    most_offset = offsets[i] > most_offset ? offsets[i] : most_offset;
  }
  float to_step = most_step > 0 ? 15.0f / most_step : 0, to_offset = most_offset > 0 ? 15.0f / most_offset : 0;
  if (!embed__put_half(block + D, most_step / 15.0f) || !embed__put_half(block + DMIN, most_offset / 15.0f)) return false;
  float d = embed__half_at(block + D), dmin = embed__half_at(block + DMIN);
  for (int i = 0; i < COUNT; ++i) {
    int step = embed__clamp(embed__nearest(to_step * steps[i]), 0, 15), offset = embed__clamp(embed__nearest(to_offset * offsets[i]), 0, 15);
    block[i] = (unsigned char)(step | offset << 4);
    float by = d * (float)step, low = dmin * (float)offset;
    if (by == 0) continue;
    for (int j = COLUMNS * i; j < COLUMNS * (i + 1); ++j) q[j] = embed__clamp(embed__nearest((x[j] + low) / by), 0, 3);
  }
  embed__put_pairs(q, block + QS);
  return true;
}

EMBED__BLOCK_CODEC(q2_k, EMBED__QK_K, 84);
