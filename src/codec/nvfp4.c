/* SPDX-License-Identifier: BSD-3-Clause */
/* NVFP4: steps d[4], nibbles qs[32]. Sub-block s of 16 columns: value = d[s] * (a float of 4 bits); columns 16 s + j and 16 s + 8 + j
 * share byte 8 s + j. d is a positive float of 4 bits of exponent and 3 of mantissa; 0x7F is zero, as ggml has it, and its top bit is
 * not read. Encoded with d = largest magnitude / 6. */
#include "codec/sixteen.h"

enum { COLUMNS = 64, COUNT = 4, HALF = 8 };

/* Half of it: the values are doubled. */
static float half_step(int byte) {
  const int exponent = byte >> 3 & 15, mantissa = byte & 7;
  if (byte == 0x7F) return 0;
  if (exponent == 0) return (float)mantissa * 0x1p-10f;
  return embed__f32_of_bits((uint32_t)(exponent + 119) << 23 | (uint32_t)mantissa << 20);
}

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  for (int s = 0; s < COUNT; ++s) embed__sixteen_at(embed__fp4_values, half_step(block[s]), block + COUNT + HALF * s, HALF, out + 2 * HALF * s, scale);
}

/* The nearest step, halves away from zero; ggml takes the largest for all from 248 on. */
static int nearest_step(float x) {
  const int largest = 0x7E;
  if (x < 0x1p-6f) return embed__clamp((int)(x * 512.0f + 0.5f), 0, 7); /* below the least with an exponent */
  if (x >= 248) return largest;
  return (int)((embed__bits_of_f32(x) - (120u << 23) + (1u << 19)) >> 20);
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  for (int s = 0; s < COUNT; ++s, x += 2 * HALF) {
    const float step = fabsf(embed__extreme(x, 2 * HALF)) / 6.0f;
    if (step > 448) return false; /* past the largest step */
    const int stored = nearest_step(step);
    block[s] = (unsigned char)stored;
    for (int j = 0; j < HALF; ++j)
      block[COUNT + HALF * s + j] = (unsigned char)(embed__fp4_nearest(x[j], half_step(stored)) | embed__fp4_nearest(x[HALF + j], half_step(stored)) << 4);
  }
  return true;
}

EMBED__BLOCK_CODEC(nvfp4, COLUMNS, 36);
