/* SPDX-License-Identifier: BSD-3-Clause */
/* Q5_0: half d, fifth bits qh[4] (bit j of the 32 for column j), nibbles qs[16]; value = d * (q - 16). Encoded as Q4_0,
 * with d = the value of largest magnitude / -16. */
#include "codec/blocks.h"

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  float d = embed__half_at(block);
  int q[EMBED__QK];
  embed__fifths_at(block + 2, block + 6, q);
  for (int j = 0; j < EMBED__QK; ++j) out[j] = d * (float)(q[j] - 16) * scale;
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  float d = embed__extreme(x, EMBED__QK) / -16.0f, inverse = embed__inverse(d);
  int q[EMBED__QK];
  for (int j = 0; j < EMBED__QK; ++j) q[j] = embed__clamp((int)(x[j] * inverse + 16.5f), 0, 31);
  embed__put_fifths(q, block + 2);
  embed__put_nibbles(q, block + 6);
  return embed__put_half(block, d);
}

EMBED__BLOCK_CODEC(q5_0, EMBED__QK, 22);
