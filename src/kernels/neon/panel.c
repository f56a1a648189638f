/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/neon/vector.h"

enum {
  GROUP = 6,      /* hidden rows of a tile, at most */
  TILE_SUMS = 12, /* of two registers each, of 32; 4 hold a line, 1 a number */
};
#define TOGETHER(n) ((n) <= 2 ? 2 : 1) /* panels of a tile */

INLINE floats add_pairs(floats sum, floats w, floats x) { /* not at this level */
  (void)w, (void)x;
  return sum;
}

INLINE uint32x4_t four_words(const unsigned char *at) { return vreinterpretq_u32_u8(vld1q_u8(at)); }
INLINE float32x4_t lower_of_four(const unsigned char *at) { return vreinterpretq_f32_u32(vshlq_n_u32(four_words(at), 16)); }
INLINE float32x4_t upper_of_four(const unsigned char *at) { return vreinterpretq_f32_u32(vandq_u32(four_words(at), vdupq_n_u32(0xFFFF0000))); }
INLINE floats lower_bfloats(const unsigned char *at) { return (floats){lower_of_four(at), lower_of_four(at + 16)}; }
INLINE floats upper_bfloats(const unsigned char *at) { return (floats){upper_of_four(at), upper_of_four(at + 16)}; }
/* Four bytes to every lane, whatever number they are. */
INLINE floats spread_number(const unsigned char *at) {
  uint32_t number;
  memcpy(&number, at, 4);
  const float32x4_t each = vreinterpretq_f32_u32(vdupq_n_u32(number));
  return (floats){each, each};
}

INLINE words words_of(floats v) { return (words){vreinterpretq_u8_f32(v.low), vreinterpretq_u8_f32(v.high)}; }
/* Halves of the even columns, then of the odd. */
INLINE void parted_halves(const floats line[2], words out[2]) {
  uint16x8_t quarter[4] = {vreinterpretq_u16_f32(line[0].low), vreinterpretq_u16_f32(line[0].high), vreinterpretq_u16_f32(line[1].low),
                           vreinterpretq_u16_f32(line[1].high)};
  out[0] = (words){vreinterpretq_u8_u16(vuzp1q_u16(quarter[0], quarter[1])), vreinterpretq_u8_u16(vuzp1q_u16(quarter[2], quarter[3]))};
  out[1] = (words){vreinterpretq_u8_u16(vuzp2q_u16(quarter[0], quarter[1])), vreinterpretq_u8_u16(vuzp2q_u16(quarter[2], quarter[3]))};
}

/* column[c] = word c of four rows. */
INLINE void turned_four(const unsigned char *at, int64_t row_bytes, float32x4_t column[4]) {
  const uint32x4_t a = four_words(at), b = four_words(at + row_bytes), c = four_words(at + 2 * row_bytes), d = four_words(at + 3 * row_bytes);
  const uint64x2_t low_ab = vreinterpretq_u64_u32(vzip1q_u32(a, b)), high_ab = vreinterpretq_u64_u32(vzip2q_u32(a, b));
  const uint64x2_t low_cd = vreinterpretq_u64_u32(vzip1q_u32(c, d)), high_cd = vreinterpretq_u64_u32(vzip2q_u32(c, d));
  column[0] = vreinterpretq_f32_u64(vzip1q_u64(low_ab, low_cd));
  column[1] = vreinterpretq_f32_u64(vzip2q_u64(low_ab, low_cd));
  column[2] = vreinterpretq_f32_u64(vzip1q_u64(high_ab, high_cd));
  column[3] = vreinterpretq_f32_u64(vzip2q_u64(high_ab, high_cd));
}

/* column[c] = word c of 16 rows. */
INLINE void turned_square(const unsigned char *at, int64_t row_bytes, floats column[4][2]) {
  for (int half = 0; half < 2; ++half, at += 8 * row_bytes) {
    float32x4_t low[4], high[4];
    turned_four(at, row_bytes, low);
    turned_four(at + 4 * row_bytes, row_bytes, high);
    for (int c = 0; c < 4; ++c) column[c][half] = (floats){low[c], high[c]};
  }
}

#include "kernels/panel_template.h"

#include "kernels/panel_exact_template.h"

void embed__panel_neon(embed__panel_kernels *k) {
  use_exact(k);
  k->vector_bits = 128;
}
