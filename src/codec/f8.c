/* SPDX-License-Identifier: BSD-3-Clause */
/* The two 8-bit floats. Stochastic rounding takes one of the two neighbours of x in the type, as half.c does. */
#include "core/fp8.h"

#include <math.h>

#include "codec/codec.h"

/* Their bit patterns ascend with the magnitude. */
static uint8_t stochastic(float x, float u, uint8_t near, float (*widen)(uint8_t)) {
  const float value = widen(near);
  if (!isfinite(x) || !isfinite(value) || value == x) return near;
  const uint8_t sign = near & 0x80u;
  uint8_t inner = near & 0x7Fu;
  if (fabsf(value) > fabsf(x)) --inner;
  const uint8_t outer = (uint8_t)(inner + 1);
  const float below = fabsf(widen(inner)), above = fabsf(widen(outer));
  if (!isfinite(above)) return near; /* past the largest: rounding to nearest decides */
  return (uint8_t)(sign | (fabsf(x) - below > u * (above - below) ? outer : inner));
}

/* The codec of a form from its two conversions. */
#define FLOAT8(form, widen, nearest)                                                                                                       \
  static void decode_##form(const embed__kernels *k, const void *row, float *out, int64_t dim, int32_t group, float scale) {               \
    const uint8_t *q = row;                                                                                                                \
    (void)k;                                                                                                                               \
    (void)group;                                                                                                                           \
    for (int64_t j = 0; j < dim; ++j) out[j] = widen(q[j]) * scale;                                                                        \
  }                                                                                                                                        \
  static bool encode_##form(const embed__kernels *k, const float *row, void *out, int64_t dim, int32_t group, const embed__noise *noise) { \
    uint8_t *q = out;                                                                                                                      \
    (void)k;                                                                                                                               \
    (void)group;                                                                                                                           \
    for (int64_t j = 0; j < dim; ++j) q[j] = nearest(row[j]);                                                                              \
    for (int64_t j = 0; noise && j < dim; ++j) q[j] = stochastic(row[j], embed__noise_at(noise, j), q[j], widen);                          \
    return true;                                                                                                                           \
  }                                                                                                                                        \
  const embed__codec embed__codec_##form = {-1, true, false, decode_##form, encode_##form, EMBED__FORM_##form}

FLOAT8(f8_e4m3, embed__f32_of_e4m3, embed__e4m3_of_f32);
FLOAT8(f8_e5m2, embed__f32_of_e5m2, embed__e5m2_of_f32);
