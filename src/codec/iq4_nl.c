/* SPDX-License-Identifier: BSD-3-Clause */
/* IQ4_NL: half d, nibbles qs[16]; value = d * (one of 16 values). Encoded with the step that quantize_iq4_nl finds. */
#include "codec/sixteen.h"

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  embed__sixteen_at(embed__iq4_values, embed__half_at(block), block + 2, 16, out, scale);
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  const float d = embed__iq4_search(x), inverse = embed__inverse(d);
  int q[EMBED__QK];
  for (int j = 0; j < EMBED__QK; ++j) q[j] = embed__iq4_nearest(inverse * x[j]);
  embed__put_nibbles(q, block + 2);
  return embed__put_half(block, d);
}

EMBED__BLOCK_CODEC(iq4_nl, EMBED__QK, 18);
