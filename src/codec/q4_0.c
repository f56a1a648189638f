/* SPDX-License-Identifier: BSD-3-Clause */
/* Q4_0: half d, nibbles qs[16]; value = d * (q - 8). Encoded with d = the value of largest magnitude / -8, so that it is
 * met exactly, and q = min(15, trunc(x / d + 8.5)). */
#include "codec/blocks.h"

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  float d = embed__half_at(block);
  for (int j = 0; j < 16; ++j) out[j] = d * (float)((block[2 + j] & 15) - 8) * scale;
  for (int j = 0; j < 16; ++j) out[16 + j] = d * (float)((block[2 + j] >> 4) - 8) * scale;
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  float d = embed__extreme(x, EMBED__QK) / -8.0f, inverse = embed__inverse(d);
  int q[EMBED__QK];
  for (int j = 0; j < EMBED__QK; ++j) q[j] = embed__clamp((int)(x[j] * inverse + 8.5f), 0, 15);
  embed__put_nibbles(q, block + 2);
  return embed__put_half(block, d);
}

EMBED__BLOCK_CODEC(q4_0, EMBED__QK, 18);
