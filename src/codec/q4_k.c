/* SPDX-License-Identifier: BSD-3-Clause */
/* Q4_K: half d, half dmin, scales[12], nibbles qs[128]. Sub-block i of 32 columns has a step and an offset of six bits:
 * value = d * step * q - dmin * offset; its q are the low (i even) or high nibbles of the 32 bytes qs[32 (i / 2)]. */
#include "codec/k_blocks.h"

enum { QS = EMBED__AFFINE_HEADER };

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  float d = embed__half_at(block), dmin = embed__half_at(block + 2);
  for (int i = 0; i < 8; ++i) {
    const unsigned char *qs = block + QS + 32 * (i / 2);
    int six_step, six_offset, bit = 4 * (i % 2);
    embed__affine_at(block, i, &six_step, &six_offset);
    float step = d * (float)six_step, offset = dmin * (float)six_offset;
    for (int j = 0; j < 32; ++j) out[32 * i + j] = (step * (float)(qs[j] >> bit & 15) - offset) * scale;
  }
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  static const embed__affine_plan plan = {.top = 15, .first = -1.0f, .stride = 0.1f, .tries = 20, .absolute = false};
  int q[EMBED__QK_K];
  if (!embed__encode_affine(x, &plan, block, q)) return false;
  for (int j = 0; j < 128; ++j) block[QS + j] = (unsigned char)(q[64 * (j / 32) + j % 32] | q[64 * (j / 32) + 32 + j % 32] << 4);
  return true;
}

EMBED__BLOCK_CODEC(q4_k, EMBED__QK_K, 144);
