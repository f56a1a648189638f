/* SPDX-License-Identifier: BSD-3-Clause */
/* Q8_0: half d, int8[32]; value = d * q. Encoded with d = max |x| / 127 and q = x / d rounded half away from zero, by
 * the d that is not yet rounded to a half. */
#include "codec/blocks.h"

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  float d = embed__half_at(block);
  for (int j = 0; j < EMBED__QK; ++j) out[j] = d * (float)(int8_t)block[2 + j] * scale;
}

/* roundf without its call: x - trunc(x) is exact. */
static int half_away(float x) {
  int whole = (int)x;
  float rest = x - (float)whole;
  return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  float largest = 0;
  for (int j = 0; j < EMBED__QK; ++j) largest = fmaxf(largest, fabsf(x[j]));
  float d = largest / 127.0f, inverse = embed__inverse(d);
  for (int j = 0; j < EMBED__QK; ++j) block[2 + j] = (unsigned char)embed__clamp(half_away(x[j] * inverse), -127, 127);
  return embed__put_half(block, d);
}

EMBED__BLOCK_CODEC(q8_0, EMBED__QK, 34);
