/* SPDX-License-Identifier: BSD-3-Clause */
/* The words that row_template.h and dot_template.h are written in, 8 floats at a time in two registers: 8 is what a
 * register holds of 16-bit floats, and 4 rows x 3 hidden vectors fill 24 of the 32 registers with sums. "part" is the
 * first t elements of a vector, 0 < t < WIDTH: no byte past them is touched. */
#ifndef EMBED__NEON_VECTOR_H
#define EMBED__NEON_VECTOR_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#include "kernels/template.h"

enum {
  WIDTH = 8,       /* floats in a vector */
  PARTS = 2,       /* vectors that hold the 16 lanes of a sum */
  BLOCK = 8,       /* vectors of a row that are loaded before the first is stored */
  BYTES = 32,      /* of a vector */
  TILE_HIDDEN = 3, /* with 4 rows: 24 registers of sums, 6 of x, 2 of a row */
};

typedef float32x4_t four;
typedef struct floats {
  float32x4_t low, high;
} floats;
typedef struct doubles {
  float64x2_t low, high;
} doubles;
typedef struct words {
  uint8x16_t low, high;
} words;

INLINE floats zeros(void) { return (floats){vdupq_n_f32(0), vdupq_n_f32(0)}; }
INLINE floats spread(float x) { return (floats){vdupq_n_f32(x), vdupq_n_f32(x)}; }
INLINE floats load(const float *at) { return (floats){vld1q_f32(at), vld1q_f32(at + 4)}; }
INLINE void store(float *at, floats v) {
  vst1q_f32(at, v.low);
  vst1q_f32(at + 4, v.high);
}
/* There is no masked load: parts go through a copy. */
INLINE floats load_part(const float *at, int64_t t) {
  float copy[8] = {0};
  memcpy(copy, at, (size_t)t * sizeof *at);
  return load(copy);
}
INLINE void store_part(float *at, int64_t t, floats v) {
  float copy[8];
  store(copy, v);
  memcpy(at, copy, (size_t)t * sizeof *at);
}
/* Past the part stands -0: 0 * -0 added to a sum leaves it as it is, whatever its sign. */
INLINE floats load_part_minus_zero(const float *at, int64_t t) {
  float copy[8] = {-0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f};
  memcpy(copy, at, (size_t)t * sizeof *at);
  return load(copy);
}

INLINE floats plus(floats a, floats b) { return (floats){vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
INLINE floats times(floats a, floats b) { return (floats){vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
INLINE floats times_plus(floats a, floats b, floats c) { return (floats){vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)}; }
/* row where it beats best or is NaN, best elsewhere. */
INLINE float32x4_t larger_of_four(float32x4_t best, float32x4_t row) { return vbslq_f32(vornq_u32(vcgtq_f32(row, best), vceqq_f32(row, row)), row, best); }
INLINE float32x4_t smaller_of_four(float32x4_t best, float32x4_t row) { return vbslq_f32(vornq_u32(vcltq_f32(row, best), vceqq_f32(row, row)), row, best); }
INLINE floats larger(floats best, floats row) { return (floats){larger_of_four(best.low, row.low), larger_of_four(best.high, row.high)}; }
INLINE floats smaller(floats best, floats row) { return (floats){smaller_of_four(best.low, row.low), smaller_of_four(best.high, row.high)}; }

/* A bfloat is the upper half of a float. */
INLINE floats of_bfloats(uint16x8_t halves) {
  return (floats){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(halves), 16)), vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(halves), 16))};
}
INLINE floats of_halves(uint16x8_t halves) {
  return (floats){vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(halves))), vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(halves)))};
}
INLINE floats of_int8(int8x8_t q) {
  int16x8_t wide = vmovl_s8(q);
  return (floats){vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(wide)))};
}

/* Rows may start at any byte: they are read as bytes, which need no alignment. */
INLINE uint16x8_t load_eight(const unsigned char *at) { return vreinterpretq_u16_u8(vld1q_u8(at)); }
INLINE uint16x8_t load_eight_part(const unsigned char *at, int64_t t) {
  unsigned char copy[16] = {0};
  memcpy(copy, at, (size_t)(2 * t));
  return load_eight(copy);
}
INLINE floats load_f32(const unsigned char *at) { return (floats){vreinterpretq_f32_u8(vld1q_u8(at)), vreinterpretq_f32_u8(vld1q_u8(at + 16))}; }
INLINE floats load_f16(const unsigned char *at) { return of_halves(load_eight(at)); }
INLINE floats load_bf16(const unsigned char *at) { return of_bfloats(load_eight(at)); }
INLINE floats load_i8(const unsigned char *at) { return of_int8(vreinterpret_s8_u8(vld1_u8(at))); }
INLINE floats load_f32_part(const unsigned char *at, int64_t t) {
  unsigned char copy[32] = {0};
  memcpy(copy, at, (size_t)(4 * t));
  return load_f32(copy);
}
INLINE floats load_f16_part(const unsigned char *at, int64_t t) { return of_halves(load_eight_part(at, t)); }
INLINE floats load_bf16_part(const unsigned char *at, int64_t t) { return of_bfloats(load_eight_part(at, t)); }
INLINE floats load_i8_part(const unsigned char *at, int64_t t) {
  unsigned char copy[8] = {0};
  memcpy(copy, at, (size_t)t);
  return load_i8(copy);
}

INLINE uint16x8_t halves_of(floats v) { return vcombine_u16(vreinterpret_u16_f16(vcvt_f16_f32(v.low)), vreinterpret_u16_f16(vcvt_f16_f32(v.high))); }
INLINE uint16x4_t bfloats_of_four(float32x4_t v) {
  uint32x4_t u = vreinterpretq_u32_f32(v), upper = vshrq_n_u32(u, 16);
  uint32x4_t half = vaddq_u32(vdupq_n_u32(0x7FFF), vandq_u32(upper, vdupq_n_u32(1)));
  uint32x4_t nearest = vshrq_n_u32(vaddq_u32(u, half), 16), quiet = vorrq_u32(upper, vdupq_n_u32(0x40));
  return vmovn_u32(vbslq_u32(vceqq_f32(v, v), nearest, quiet));
}
INLINE uint16x8_t bfloats_of(floats v) { return vcombine_u16(bfloats_of_four(v.low), bfloats_of_four(v.high)); }
INLINE void store_eight(unsigned char *at, uint16x8_t v) { vst1q_u8(at, vreinterpretq_u8_u16(v)); }
INLINE void store_eight_part(unsigned char *at, int64_t t, uint16x8_t v) {
  unsigned char copy[16];
  store_eight(copy, v);
  memcpy(at, copy, (size_t)(2 * t));
}
INLINE void store_f16(unsigned char *at, floats v) { store_eight(at, halves_of(v)); }
INLINE void store_bf16(unsigned char *at, floats v) { store_eight(at, bfloats_of(v)); }
INLINE void store_f16_part(unsigned char *at, int64_t t, floats v) { store_eight_part(at, t, halves_of(v)); }
INLINE void store_bf16_part(unsigned char *at, int64_t t, floats v) { store_eight_part(at, t, bfloats_of(v)); }

INLINE words load_words(const unsigned char *at) { return (words){vld1q_u8(at), vld1q_u8(at + 16)}; }
INLINE void store_words(unsigned char *at, words v) {
  vst1q_u8(at, v.low);
  vst1q_u8(at + 16, v.high);
}
/* gcc has no intrinsic for stnp. Plain stores are ordered by whatever hands the buffer on. */
INLINE void stream_words(unsigned char *at, words v) { store_words(at, v); }
INLINE void stream_end(void) {}
INLINE void copy_part(unsigned char *out, const unsigned char *row, int64_t bytes) { memcpy(out, row, (size_t)bytes); }

INLINE void prefetch(uintptr_t at) { __builtin_prefetch((const void *)at, 0, 3); }
INLINE void prefetch_to_l2(uintptr_t at) { __builtin_prefetch((const void *)at, 0, 2); }

INLINE doubles no_doubles(void) { return (doubles){vdupq_n_f64(0), vdupq_n_f64(0)}; }
INLINE doubles lower_doubles(floats v) { return (doubles){vcvt_f64_f32(vget_low_f32(v.low)), vcvt_high_f64_f32(v.low)}; }
INLINE doubles upper_doubles(floats v) { return (doubles){vcvt_f64_f32(vget_low_f32(v.high)), vcvt_high_f64_f32(v.high)}; }
INLINE doubles plus_square(doubles sum, doubles v) { return (doubles){vfmaq_f64(sum.low, v.low, v.low), vfmaq_f64(sum.high, v.high, v.high)}; }
INLINE four load_four(const float *at) { return vld1q_f32(at); }
INLINE four times_four(four a, four b) { return vmulq_f32(a, b); }
INLINE void store_four(float *at, four v) { vst1q_f32(at, v); }
INLINE void store_doubles(double *at, doubles v) {
  vst1q_f64(at, v.low);
  vst1q_f64(at + 2, v.high);
}

/* Sums of lanes, in the order i and i + 4, + 2, + 1; i + 8 stood in the other part. */
INLINE float32x4_t pairs_of_two(float32x4_t a, float32x4_t b) { /* a0 + a2, a1 + a3, b0 + b2, b1 + b3 */
  float64x2_t c = vreinterpretq_f64_f32(a), d = vreinterpretq_f64_f32(b);
  return vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(c, d)), vreinterpretq_f32_f64(vzip2q_f64(c, d)));
}
INLINE four sums_of_four(const floats v[4]) {
  float32x4_t lane[4];
  UNROLL for (int i = 0; i < 4; ++i) lane[i] = vaddq_f32(v[i].low, v[i].high);
  return vpaddq_f32(pairs_of_two(lane[0], lane[1]), pairs_of_two(lane[2], lane[3]));
}
INLINE void sums_of_tile(floats v[TILE_HIDDEN][4], int hidden, four sums[TILE_HIDDEN]) { UNROLL for (int h = 0; h < hidden; ++h) sums[h] = sums_of_four(v[h]); }

#endif
