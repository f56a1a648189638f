/* SPDX-License-Identifier: BSD-3-Clause */
/* int8[dim], then one float scale; symmetric: scale = max |x| / 127, q = nearest even of x * (127 / max |x|), in
 * [-127, 127]. A row of zeros has scale 0. */
#include <math.h>
#include <string.h>

#include "codec/codec.h"
#include "core/half.h"

static void decode(const embed__kernels *k, const void *row, float *out, int64_t dim, int32_t group, float scale) {
  (void)group;
  k->row.decode[EMBED__STORED_I8](row, out, dim, scale);
}

enum { STEP = 16 /* columns: loops of a known length become vectors */ };

/* The bits of the largest |x|; those of infinity or more where a number is not finite. */
static uint32_t largest_bits(const float *row, int64_t dim) {
  int32_t lane[STEP] = {0}, largest = 0;
  int64_t j = 0;
  for (; j + STEP <= dim; j += STEP) {
    int32_t bits[STEP];
    memcpy(bits, row + j, sizeof bits);
    for (int i = 0; i < STEP; ++i) bits[i] &= 0x7FFFFFFF;
    for (int i = 0; i < STEP; ++i) lane[i] = bits[i] > lane[i] ? bits[i] : lane[i];
  }
  for (; j < dim; ++j) {
    int32_t bits = (int32_t)(embed__bits_of_f32(row[j]) & 0x7FFFFFFFu);
    largest = bits > largest ? bits : largest;
  }
  for (int i = 0; i < STEP; ++i) largest = lane[i] > largest ? lane[i] : largest;
  return (uint32_t)largest;
}

/* q of |x| <= 2^22 to nearest even: what the addition leaves of x in the low bits of 3 * 2^22. */
static int32_t nearest_even(float x) { return (int32_t)(embed__bits_of_f32(x + 0x1.8p23f) - 0x4B400000u); }

static int8_t held(int32_t q) { return (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q); }

static void encode_row(const float *row, int8_t *q, int64_t dim, float inverse) {
  int64_t j = 0;
  for (; j + STEP <= dim; j += STEP)
    for (int i = 0; i < STEP; ++i) q[j + i] = held(nearest_even(row[j + i] * inverse));
  for (; j < dim; ++j) q[j] = held(nearest_even(row[j] * inverse));
}

static bool encode(const embed__kernels *k, const float *row, void *out, int64_t dim, int32_t group, const embed__noise *noise) {
  (void)k;
  (void)group;
  int8_t *q = out;
  const float largest = embed__f32_of_bits(largest_bits(row, dim));
  if (!isfinite(largest)) return false;
  float scale = largest / 127.0f, inverse = largest > 0 ? 127.0f / largest : 0;
  bool tiny = !isfinite(inverse) || scale < 0x1p-126f; /* 127 / max overflows, or the scale is subnormal: divide in double */
  if (!tiny && !noise) {
    encode_row(row, q, dim, inverse);
  } else {
    for (int64_t j = 0; j < dim; ++j) {
      double x = tiny ? (scale > 0 ? (double)row[j] / (double)scale : 0) : (double)(row[j] * inverse);
      q[j] = held((int32_t)(noise ? floor(x + (double)embed__noise_at(noise, j)) : rint(x)));
    }
  }
  embed__put_le_f32(q + dim, scale);
  return true;
}

const embed__codec embed__codec_i8_row = {EMBED__STORED_I8, true, true, decode, encode, EMBED__FORM_i8_row};
