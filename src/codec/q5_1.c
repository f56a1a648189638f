/* SPDX-License-Identifier: BSD-3-Clause */
/* Q5_1: half d, half m, fifth bits qh[4] (bit j of the 32 for column j), nibbles qs[16]; value = d * q + m. Encoded as
 * Q4_1, with d = (max - min) / 31. */
#include "codec/blocks.h"

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  float d = embed__half_at(block), m = embed__half_at(block + 2);
  int q[EMBED__QK];
  embed__fifths_at(block + 4, block + 8, q);
  for (int j = 0; j < EMBED__QK; ++j) out[j] = (d * (float)q[j] + m) * scale;
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  float low = embed__least(x, EMBED__QK), d = (embed__most(x, EMBED__QK) - low) / 31.0f, inverse = embed__inverse(d);
  int q[EMBED__QK];
  for (int j = 0; j < EMBED__QK; ++j) q[j] = embed__clamp((int)((x[j] - low) * inverse + 0.5f), 0, 31);
  embed__put_fifths(q, block + 4);
  embed__put_nibbles(q, block + 8);
  return embed__put_half(block, d) && embed__put_half(block + 2, low);
}

EMBED__BLOCK_CODEC(q5_1, EMBED__QK, 24);
