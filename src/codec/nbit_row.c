/* SPDX-License-Identifier: BSD-3-Clause */
/* FBGEMM's rows of 4 and of 2 bits (QuantUtils.cc, FusedNBitRowwiseQuantizedSBHalf): the values of a byte's columns from its low bits up,
 * then half scale and half bias; value = scale * q + bias, of which the product is exact. Encoded with bias = min rounded to a half,
 * scale = (max - bias) / most rounded to a half (1 where that is 0), q = nearest even of (x - bias) / scale; q of what lies past either end
 * is the end's. */
#include <math.h>
#include <string.h>

#include "codec/codec.h"
#include "core/half.h"

static inline __attribute__((always_inline)) void decode_row(const void *row, float *out, int64_t dim, float scale, int bits) {
  const int64_t together = 8 / bits, whole = dim / together;
  const unsigned char *q = row, *tail = q + (dim + together - 1) / together;
  const float row_scale = embed__f32_of_f16(embed__le_u16(tail)), bias = embed__f32_of_f16(embed__le_u16(tail + 2));
  const int most = (1 << bits) - 1;
  for (int64_t i = 0; i < whole; ++i)
    for (int c = 0; c < together; ++c) out[together * i + c] = (row_scale * (float)(q[i] >> bits * c & most) + bias) * scale;
  for (int64_t j = whole * together; j < dim; ++j) out[j] = (row_scale * (float)(q[whole] >> bits * (j - whole * together) & most) + bias) * scale;
}

static bool is_finite_half(uint16_t half) { return (half & 0x7FFFu) < 0x7C00u; }

static bool encode_row(const float *row, unsigned char *out, int64_t dim, const embed__noise *noise, int bits) {
  const int64_t together = 8 / bits, packed = (dim + together - 1) / together;
  const float most = (float)((1 << bits) - 1);
  float low = row[0], high = row[0];
  for (int64_t j = 0; j < dim; ++j) {
    if (!isfinite(row[j])) return false;
    low = row[j] < low ? row[j] : low;
    high = row[j] > high ? row[j] : high;
  }
  const uint16_t bias = embed__f16_of_f32(low);
  low = embed__f32_of_f16(bias);
  uint16_t stored = embed__f16_of_f32((high - low) / most);
  if (!is_finite_half(bias) || !is_finite_half(stored)) return false; /* past the half float's range */
  if ((stored & 0x7FFFu) == 0) stored = 0x3C00;                       /* 1: any does where max is min */
  const float inverse = 1.0f / embed__f32_of_f16(stored);
  memset(out, 0, (size_t)packed);
  for (int64_t j = 0; j < dim; ++j) {
    const float x = (row[j] - low) * inverse, place = noise ? floorf(x + embed__noise_at(noise, j)) : rintf(x);
    out[j / together] |= (unsigned char)((int)fminf(most, fmaxf(0, place)) << bits * (j % together));
  }
  embed__put_le_u16(out + packed, stored);
  embed__put_le_u16(out + packed + 2, bias);
  return true;
}

#define NBIT(form, bits)                                                                                                                   \
  static void decode_##form(const embed__kernels *k, const void *row, float *out, int64_t dim, int32_t group, float scale) {               \
    (void)k;                                                                                                                               \
    (void)group;                                                                                                                           \
    decode_row(row, out, dim, scale, bits);                                                                                                \
  }                                                                                                                                        \
  static bool encode_##form(const embed__kernels *k, const float *row, void *out, int64_t dim, int32_t group, const embed__noise *noise) { \
    (void)k;                                                                                                                               \
    (void)group;                                                                                                                           \
    return encode_row(row, out, dim, noise, bits);                                                                                         \
  }                                                                                                                                        \
  const embed__codec embed__codec_##form = {-1, true, true, decode_##form, encode_##form, EMBED__FORM_##form}

NBIT(u4_row, 4);
NBIT(u2_row, 2);
