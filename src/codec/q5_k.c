/* SPDX-License-Identifier: BSD-3-Clause */
/* Q5_K: as Q4_K, with fifth bits qh[32] between scales and nibbles: of column j, bit j / 32 of qh[j % 32]. */
#include "codec/k_blocks.h"

enum { QH = EMBED__AFFINE_HEADER, QS = QH + 32 };

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  float d = embed__half_at(block), dmin = embed__half_at(block + 2);
  for (int i = 0; i < 8; ++i) {
    const unsigned char *qs = block + QS + 32 * (i / 2), *qh = block + QH;
    int six_step, six_offset, bit = 4 * (i % 2);
    embed__affine_at(block, i, &six_step, &six_offset);
    float step = d * (float)six_step, offset = dmin * (float)six_offset;
    unsigned char q[32], fifth = (unsigned char)(1 << i);
    for (int j = 0; j < 32; ++j) q[j] = (unsigned char)((qs[j] >> bit & 15) | (qh[j] & fifth ? 16 : 0));
    for (int j = 0; j < 32; ++j) out[32 * i + j] = (step * (float)q[j] - offset) * scale;
  }
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  static const embed__affine_plan plan = {.top = 31, .first = -0.5f, .stride = 0.1f, .tries = 15, .absolute = false};
  int q[EMBED__QK_K];
  if (!embed__encode_affine(x, &plan, block, q)) return false;
  memset(block + QH, 0, 32);
  for (int j = 0; j < EMBED__QK_K; ++j) block[QH + j % 32] |= (unsigned char)((q[j] >> 4) << j / 32);
  for (int j = 0; j < 128; ++j) block[QS + j] = (unsigned char)((q[64 * (j / 32) + j % 32] & 15) | (q[64 * (j / 32) + 32 + j % 32] & 15) << 4);
  return true;
}

EMBED__BLOCK_CODEC(q5_k, EMBED__QK_K, 176);
