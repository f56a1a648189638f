/* SPDX-License-Identifier: BSD-3-Clause */
/* uint8[dim], then float scale and float bias: fma(scale, q, bias). FBGEMM's row (QuantUtils.cc): bias = min,
 * scale = (max - min) / 255, q = nearest even of (x - min) * (255 / ((max - min) + 1e-8)). */
#include <math.h>

#include "codec/codec.h"
#include "core/half.h"

static void decode(const embed__kernels *k, const void *row, float *out, int64_t dim, int32_t group, float scale) {
  if (embed__decoded_by_kernel(k, EMBED__FORM_u8_row, row, out, dim, group, scale)) return;
  const uint8_t *q = row;
  const float row_scale = embed__le_f32(q + dim), bias = embed__le_f32(q + dim + 4);
  for (int64_t j = 0; j < dim; ++j) out[j] = fmaf(row_scale, (float)q[j], bias) * scale;
}

static bool encode(const embed__kernels *k, const float *row, void *out, int64_t dim, int32_t group, const embed__noise *noise) {
  (void)k;
  (void)group;
  uint8_t *q = out;
  float low = row[0], high = row[0];
  for (int64_t j = 0; j < dim; ++j) {
    if (!isfinite(row[j])) return false;
    low = fminf(low, row[j]);
    high = fmaxf(high, row[j]);
  }
  float range = high - low;
  if (!isfinite(range)) return false; /* max - min overflows a float: no scale can hold the row */
  float scale = range / 255.0f, inverse = 255.0f / (range + 1e-8f);
  for (int64_t j = 0; j < dim; ++j) {
    double x = (double)((row[j] - low) * inverse);
    double nearest = noise ? floor(x + (double)embed__noise_at(noise, j)) : rint(x);
    q[j] = (uint8_t)fmin(255, fmax(0, nearest));
  }
  embed__put_le_f32(q + dim, scale);
  embed__put_le_f32(q + dim + 4, low);
  return true;
}

const embed__codec embed__codec_u8_row = {-1, true, true, decode, encode, EMBED__FORM_u8_row};
