/* SPDX-License-Identifier: BSD-3-Clause */
/* IQ4_XS: half d, 16 bits of upper halves of steps, their lower halves in 4 bytes, nibbles qs[128]. Sub-block i of 32 columns:
 * value = d * (step - 32) * (one of 16 values); step = nibble i of the 4 bytes and, above it, pair i of the 16 bits. */
#include "codec/scale_search.h"
#include "codec/sixteen.h"

enum { COUNT = 8, HIGH = 2, LOW = 4, QS = 8 };

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  const float d = embed__half_at(block);
  const int high = embed__le_u16(block + HIGH);
  for (int i = 0; i < COUNT; ++i) {
    const int step = (block[LOW + i / 2] >> 4 * (i % 2) & 15) | (high >> 2 * i & 3) << 4;
    embed__sixteen_at(embed__iq4_values, d * (float)(step - 32), block + QS + 16 * i, 16, out + EMBED__QK * i, scale);
  }
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  float steps[COUNT];
  int q[EMBED__QK], high = 0;
  for (int i = 0; i < COUNT; ++i) steps[i] = embed__iq4_search(x + EMBED__QK * i);
  const float d = -embed__extreme(steps, COUNT) / 32, inverse = embed__inverse(d);
  memset(block, 0, QS);
  for (int i = 0; i < COUNT; ++i) {
    const int step = embed__clamp(embed__nearest(inverse * steps[i]), -32, 31), stored = step + 32;
    const float by = embed__inverse(d * (float)step);
    for (int j = 0; j < EMBED__QK; ++j) q[j] = embed__iq4_nearest(by * x[EMBED__QK * i + j]);
    embed__put_nibbles(q, block + QS + 16 * i);
    block[LOW + i / 2] |= (unsigned char)((stored & 15) << 4 * (i % 2));
    high |= (stored >> 4) << 2 * i;
  }
  embed__put_le_u16(block + HIGH, (uint16_t)high);
  return embed__put_half(block, d);
}

EMBED__BLOCK_CODEC(iq4_xs, EMBED__QK_K, 136);
