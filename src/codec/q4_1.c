/* SPDX-License-Identifier: BSD-3-Clause */
/* Q4_1: half d, half m, nibbles qs[16]; value = d * q + m. Encoded with m = min, d = (max - min) / 15 and
 * q = min(15, trunc((x - min) / d + 0.5)). */
#include "codec/blocks.h"

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  float d = embed__half_at(block), m = embed__half_at(block + 2);
  for (int j = 0; j < 16; ++j) out[j] = (d * (float)(block[4 + j] & 15) + m) * scale;
  for (int j = 0; j < 16; ++j) out[16 + j] = (d * (float)(block[4 + j] >> 4) + m) * scale;
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  float low = embed__least(x, EMBED__QK), d = (embed__most(x, EMBED__QK) - low) / 15.0f, inverse = embed__inverse(d);
  int q[EMBED__QK];
  for (int j = 0; j < EMBED__QK; ++j) q[j] = embed__clamp((int)((x[j] - low) * inverse + 0.5f), 0, 15);
  embed__put_nibbles(q, block + 4);
  return embed__put_half(block, d) && embed__put_half(block + 2, low);
}

EMBED__BLOCK_CODEC(q4_1, EMBED__QK, 20);
