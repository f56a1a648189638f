/* SPDX-License-Identifier: BSD-3-Clause */
/* The 16-bit floats, one value at a time. This is the truth that every kernel level is tested against. */
#ifndef EMBED__HALF_H
#define EMBED__HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t embed__bits_of_f32(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static inline float embed__f32_of_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* The stored forms of this library (int8 rows and the like) hold their numbers in little-endian on every machine, at any byte. */
static inline uint16_t embed__le_u16(const void *at) {
  const unsigned char *byte = (const unsigned char *)at;
  return (uint16_t)(byte[0] | byte[1] << 8);
}

static inline void embed__put_le_u16(void *at, uint16_t u) {
  unsigned char *byte = (unsigned char *)at;
  byte[0] = (unsigned char)u;
  byte[1] = (unsigned char)(u >> 8);
}

static inline float embed__le_f32(const void *at) {
  const unsigned char *byte = (const unsigned char *)at;
  return embed__f32_of_bits((uint32_t)embed__le_u16(byte) | (uint32_t)embed__le_u16(byte + 2) << 16);
}

static inline void embed__put_le_f32(void *at, float x) {
  const uint32_t u = embed__bits_of_f32(x);
  embed__put_le_u16(at, (uint16_t)u);
  embed__put_le_u16((unsigned char *)at + 2, (uint16_t)(u >> 16));
}

/* A bfloat is the upper half of a float: exact, NaN payloads included. */
static inline float embed__f32_of_bf16(uint16_t h) { return embed__f32_of_bits((uint32_t)h << 16); }

/* Nearest even; NaN stays NaN (its quiet bit set), subnormals are kept (unlike vcvtneps2bf16). */
static inline uint16_t embed__bf16_of_f32(float x) {
  uint32_t u = embed__bits_of_f32(x);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)((u >> 16) | 0x40u);
  return (uint16_t)((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}

/* Exact; a signalling NaN comes out quiet, as IEEE 754's convertFormat and vcvtph2ps have it. */
static inline float embed__f32_of_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 1023u;
  if (exponent == 31) return embed__f32_of_bits(sign | 0x7F800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0));
  if (exponent) return embed__f32_of_bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  /* Subnormal: mantissa * 2^-24, exact in float. */
  float value = (float)mantissa * 0x1p-24f;
  return sign ? -value : value;
}

/* Nearest even, overflow to infinity, subnormals kept, NaN quiet: the bits of vcvtps2ph. */
static inline uint16_t embed__f16_of_f32(float x) {
  uint32_t u = embed__bits_of_f32(x), sign = (u >> 16) & 0x8000u, a = u & 0x7FFFFFFFu;
  if (a > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | ((a >> 13) & 1023u));
  if (a >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520 and up */
  if (a >= 0x38800000u) return (uint16_t)(sign | ((a - 0x38000000u + 0xFFFu + ((a >> 13) & 1u)) >> 13));
  if (a < 0x33000000u) return (uint16_t)sign; /* below 2^-25 */
  /* Subnormal: round the mantissa at the place where 2^-24 stands. */
  uint32_t shift = 126u - (a >> 23), m = (a & 0x7FFFFFu) | 0x800000u;
  uint32_t kept = m >> shift, rest = m & ((1u << shift) - 1u), half = 1u << (shift - 1);
  kept += rest > half || (rest == half && (kept & 1u));
  return (uint16_t)(sign | kept);
}

#endif
