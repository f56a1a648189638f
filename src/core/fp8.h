/* SPDX-License-Identifier: BSD-3-Clause */
/* The 8-bit floats of the OCP's text, one value at a time: E4M3 (no infinity, 0x7F and 0xFF are NaN, the largest is 448) and E5M2, the
 * upper byte of a half float. Their namesakes "FNUZ" are other encodings. */
#ifndef EMBED__FP8_H
#define EMBED__FP8_H

#include "core/half.h"

static inline float embed__f32_of_e4m3(uint8_t byte) {
  const uint32_t sign = (uint32_t)(byte & 0x80u) << 24, low = byte & 0x7Fu;
  const float small = (float)low * 0x1p-9f; /* below 8 there is no exponent */
  const uint32_t bits = low == 0x7F ? 0x7FC00000u : low < 8 ? embed__bits_of_f32(small) : (low << 20) + (120u << 23);
  return embed__f32_of_bits(sign | bits);
}

static inline float embed__f32_of_e5m2(uint8_t byte) { return embed__f32_of_f16((uint16_t)(byte << 8)); }

/* The upper bits of m, nearest even. */
static inline uint32_t embed__rounded_shift(uint32_t m, uint32_t shift) {
  const uint32_t kept = m >> shift, rest = m & ((1u << shift) - 1u), half = 1u << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1u)));
}

/* Nearest even; what rounds past 448, infinity among it, is NaN, as ml_dtypes and PyTorch have it. */
static inline uint8_t embed__e4m3_of_f32(float x) {
  const uint32_t u = embed__bits_of_f32(x), sign = (u >> 24) & 0x80u, a = u & 0x7FFFFFFFu;
  if (a > 0x43E80000u) return (uint8_t)(sign | 0x7Fu); /* 464 */
  if (a >= 0x3C800000u) return (uint8_t)(sign | embed__rounded_shift(a - (120u << 23), 20));
  if (a < 0x3A800000u) return (uint8_t)sign; /* below 2^-10 */
  return (uint8_t)(sign | embed__rounded_shift((a & 0x7FFFFFu) | 0x800000u, 141u - (a >> 23)));
}

/* Nearest even; what rounds past 57344 is infinity. */
static inline uint8_t embed__e5m2_of_f32(float x) {
  const uint32_t u = embed__bits_of_f32(x), sign = (u >> 24) & 0x80u, a = u & 0x7FFFFFFFu;
  if (a > 0x7F800000u) return (uint8_t)(sign | 0x7Eu);
  if (a >= 0x47700000u) return (uint8_t)(sign | 0x7Cu); /* 61440 */
  if (a >= 0x38800000u) return (uint8_t)(sign | embed__rounded_shift(a - (112u << 23), 21));
  if (a < 0x37000000u) return (uint8_t)sign; /* below 2^-17 */
  return (uint8_t)(sign | embed__rounded_shift((a & 0x7FFFFFu) | 0x800000u, 134u - (a >> 23)));
}

#endif
