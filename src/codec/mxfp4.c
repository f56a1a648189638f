/* SPDX-License-Identifier: BSD-3-Clause */
/* MXFP4: a byte e, nibbles qs[16]; value = 2^(e - 128) * (a float of 4 bits, doubled). ggml takes e as it stands: 255, no number in the
 * OCP's text, is 2^127. Encoded with e = floor(log2(largest magnitude)) - 2 + 127, so that the largest may be cut by a quarter; e = 0 where
 * ggml's is undefined, below 2^-125. Rows that reach 2^32 are refused as everywhere, though the form goes further. */
#include "codec/sixteen.h"

/* 2^(e - 128): the two least are subnormal. */
static float power(int e) { return embed__f32_of_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23); }

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  embed__sixteen_at(embed__fp4_values, power(block[0]), block + 1, 16, out, scale);
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  const float extreme = fabsf(embed__extreme(x, EMBED__QK));
  const int e = extreme > 0 ? embed__clamp((int)floorf(log2f(extreme)) - 2 + 127, 0, 254) : 0;
  int q[EMBED__QK];
  for (int j = 0; j < EMBED__QK; ++j) q[j] = embed__fp4_nearest(x[j], power(e));
  block[0] = (unsigned char)e;
  embed__put_nibbles(q, block + 1);
  return true;
}

EMBED__BLOCK_CODEC(mxfp4, EMBED__QK, 17);
