/* SPDX-License-Identifier: BSD-3-Clause */
/* int8[dim], then one float scale; symmetric: scale = max |x| / 127, q = nearest even of x * (127 / max |x|), in
 * [-127, 127]. A row of zeros has scale 0. */
#include <math.h>

#include "codec/codec.h"
#include "core/half.h"

static void decode(const embed__kernels *k, const void *row, float *out, int64_t dim, int32_t group, float scale) {
  (void)group;
  k->row.decode[EMBED__STORED_I8](row, out, dim, scale);
}

static bool encode(const embed__kernels *k, const float *row, void *out, int64_t dim, int32_t group, const embed__noise *noise) {
  (void)k;
  (void)group;
  int8_t *q = out;
  float largest = 0;
  for (int64_t j = 0; j < dim; ++j) {
    if (!isfinite(row[j])) return false;
    largest = fmaxf(largest, fabsf(row[j]));
  }
  float scale = largest / 127.0f, inverse = largest > 0 ? 127.0f / largest : 0;
  bool tiny = !isfinite(inverse) || scale < 0x1p-126f; /* 127 / max overflows, or the scale is subnormal: divide in double */
  for (int64_t j = 0; j < dim; ++j) {
    double x = tiny ? (scale > 0 ? (double)row[j] / (double)scale : 0) : (double)(row[j] * inverse);
    double nearest = noise ? floor(x + (double)embed__noise_at(noise, j)) : rint(x);
    q[j] = (int8_t)fmin(127, fmax(-127, nearest));
  }
  embed__put_le_f32(q + dim, scale);
  return true;
}

const embed__codec embed__codec_i8_row = {EMBED__STORED_I8, true, true, decode, encode, EMBED__FORM_i8_row};
