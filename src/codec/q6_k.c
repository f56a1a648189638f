/* SPDX-License-Identifier: BSD-3-Clause */
/* Q6_K: low nibbles ql[128], upper pairs of bits qh[64], int8 scales[16], half d. Sub-block i of 16 columns:
 * value = d * scales[i] * (q - 32). Column 128 n + 32 g + l: nibble g / 2 of ql[64 n + 32 (g % 2) + l], pair g of
 * qh[32 n + l]. */
#include "codec/k_blocks.h"

enum { COUNT = 16, COLUMNS = 16, QH = 128, SCALES = 192, D = 208 };

/* Called with constant shifts, which SSE2 does many lanes at a time. */
static inline __attribute__((always_inline)) void decode_columns(const unsigned char *restrict ql, int nibble, const unsigned char *restrict qh, int pair,
                                                                 float step, float *restrict out, float scale) {
  unsigned char q[COLUMNS];
  for (int j = 0; j < COLUMNS; ++j) q[j] = (unsigned char)((ql[j] >> nibble & 15) | (qh[j] >> pair & 3) << 4);
  for (int j = 0; j < COLUMNS; ++j) out[j] = step * (float)(q[j] - 32) * scale;
}

static void decode_block(const unsigned char *restrict block, float *restrict out, float scale) {
  float d = embed__half_at(block + D);
  for (int n = 0; n < 2; ++n) {
    for (int l = 0; l < 32; l += COLUMNS) {
      const unsigned char *ql = block + 64 * n + l, *qh = block + QH + 32 * n + l, *s = block + SCALES + 8 * n + l / COLUMNS;
      float *to = out + 128 * n + l;
      decode_columns(ql, 0, qh, 0, d * (float)(int8_t)s[0], to, scale);
      decode_columns(ql + 32, 0, qh, 2, d * (float)(int8_t)s[2], to + 32, scale);
      decode_columns(ql, 4, qh, 4, d * (float)(int8_t)s[4], to + 64, scale);
      decode_columns(ql + 32, 4, qh, 6, d * (float)(int8_t)s[6], to + 96, scale);
    }
  }
}

static void put_q(unsigned char *block, int j, int q) {
  int n = j / 128, g = j / 32 % 4, l = j % 32;
  block[64 * n + 32 * (g % 2) + l] |= (unsigned char)((q & 15) << 4 * (g / 2));
  block[QH + 32 * n + l] |= (unsigned char)((q >> 4) << 2 * g);
}

static bool encode_block(const float *restrict x, unsigned char *restrict block) {
  float steps[COUNT];
  int q[EMBED__QK_K];
  for (int i = 0; i < COUNT; ++i) steps[i] = embed__search_symmetric(x + COLUMNS * i, COLUMNS, 32, q + COLUMNS * i);
  memset(block, 0, D + 2);
  float extreme = embed__extreme(steps, COUNT);
  if (fabsf(extreme) < EMBED__ALL_ZERO) return true;
  float inverse = -128.0f / extreme;
  if (!embed__put_half(block + D, 1 / inverse)) return false;
  float d = embed__half_at(block + D);
  for (int i = 0; i < COUNT; ++i) {
    int step = embed__clamp(embed__nearest(inverse * steps[i]), -128, 127);
    block[SCALES + i] = (unsigned char)step;
    float by = d * (float)step;
    if (by == 0) continue;
    for (int j = COLUMNS * i; j < COLUMNS * (i + 1); ++j) q[j] = embed__clamp(embed__nearest(x[j] / by), -32, 31) + 32;
  }
  for (int j = 0; j < EMBED__QK_K; ++j) put_q(block, j, q[j]);
  return true;
}

EMBED__BLOCK_CODEC(q6_k, EMBED__QK_K, 210);
