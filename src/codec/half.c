/* SPDX-License-Identifier: BSD-3-Clause */
/* The two 16-bit floats. Stochastic rounding takes one of the two neighbours of x in the type, the upper with the
 * probability of x's place between them. */
#include "core/half.h"

#include <math.h>
#include <string.h>

#include "codec/codec.h"

static void decode_f16(const embed__kernels *k, const void *row, float *out, int64_t dim, int32_t group, float scale) {
  (void)group;
  k->row.decode[EMBED__STORED_F16](row, out, dim, scale);
}

static void decode_bf16(const embed__kernels *k, const void *row, float *out, int64_t dim, int32_t group, float scale) {
  (void)group;
  k->row.decode[EMBED__STORED_BF16](row, out, dim, scale);
}

/* The bit patterns of a 16-bit float ascend with its magnitude: the neighbour away from zero is the next pattern. */
static uint16_t stochastic(float x, float u, uint16_t (*nearest)(float), float (*widen)(uint16_t)) {
  uint16_t near = nearest(x);
  float value = widen(near);
  if (!isfinite(x) || value == x) return near;
  uint16_t sign = near & 0x8000u, inner = near & 0x7FFFu;
  if (fabsf(value) > fabsf(x)) --inner;
  uint16_t outer = (uint16_t)(inner + 1);
  float below = fabsf(widen(inner)), above = fabsf(widen(outer));
  if (!isfinite(above)) return near; /* past the largest: rounding to nearest decides */
  return (uint16_t)(sign | ((double)fabsf(x) - below > (double)u * ((double)above - below) ? outer : inner));
}

static void encode_noisy(const float *row, unsigned char *out, int64_t dim, const embed__noise *noise, uint16_t (*nearest)(float), float (*widen)(uint16_t)) {
  for (int64_t j = 0; j < dim; ++j) {
    uint16_t half = stochastic(row[j], embed__noise_at(noise, j), nearest, widen);
    memcpy(out + 2 * j, &half, 2);
  }
}

static bool encode_f16(const embed__kernels *k, const float *row, void *out, int64_t dim, int32_t group, const embed__noise *noise) {
  (void)group;
  if (noise)
    encode_noisy(row, out, dim, noise, embed__f16_of_f32, embed__f32_of_f16);
  else
    k->row.to_f16(row, out, dim);
  return true;
}

static bool encode_bf16(const embed__kernels *k, const float *row, void *out, int64_t dim, int32_t group, const embed__noise *noise) {
  (void)group;
  if (noise)
    encode_noisy(row, out, dim, noise, embed__bf16_of_f32, embed__f32_of_bf16);
  else
    k->row.to_bf16(row, out, dim);
  return true;
}

const embed__codec embed__codec_f16 = {EMBED__STORED_F16, true, false, decode_f16, encode_f16, EMBED__FORM_f16};
const embed__codec embed__codec_bf16 = {EMBED__STORED_BF16, true, false, decode_bf16, encode_bf16, EMBED__FORM_bf16};
