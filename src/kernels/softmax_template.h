/* SPDX-License-Identifier: BSD-3-Clause */
/* The bodies of softmax.h: loops over lanes that compilers make vectors of, at each level's width. Without FMA, so that all
 * widths round alike. */
#include "kernels/softmax.h"

#include <string.h>

enum { TOGETHER = 64 /* lanes whose sums are kept at once */ };

static inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* 2^k * exp(r), |r| <= ln(2) / 2 (Cephes, expf). NaN stays. The sum with 1.5 * 2^23 has k in its lowest bits. */
static inline float exp_of(float x) {
  const float shift = 12582912.0f, least = -87.0f, most = 88.0f;
  float y = x < least ? least : x;
  y = y > most ? most : y;
  float shifted = y * 1.44269504f + shift, k = shifted - shift;
  float r = (y - k * 0.693359375f) - k * -2.12194440e-4f;
  float p = 1.9875691500e-4f * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  float value = ((p * r) * r + r) + 1.0f;
  value *= float_of((bits_of(shifted) << 23) + 0x3F800000u);
  return x < least ? 0.0f : value;
}

/* Cephes, tanhf. */
static inline float tanh_of(float x) {
  float size = x < 0 ? -x : x, square = x * x;
  float p = -5.70498872745e-3f * square + 2.06390887954e-2f;
  p = p * square + -5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square + -3.33332819422e-1f;
  float small = (p * square) * x + x;
  float large = 1.0f - 2.0f / (exp_of(size > 20.0f ? 40.0f : 2.0f * size) + 1.0f);
  large = x < 0 ? -large : large;
  return size < 0.625f ? small : large;
}

static void max_down(const float *z, int64_t ldz, int64_t rows, int64_t lanes, float *max) {
  for (int64_t v = 0; v < rows; ++v) {
    const float *row = z + v * ldz;
    for (int64_t i = 0; i < lanes; ++i) max[i] = row[i] > max[i] ? row[i] : max[i];
  }
}

static void sum_exp_down(const float *z, int64_t ldz, int64_t rows, int64_t lanes, const float *max, double *sum) {
  for (int64_t first = 0; first < lanes; first += TOGETHER) {
    const int64_t n = lanes - first < TOGETHER ? lanes - first : TOGETHER;
    const float *least = max + first;
    double *whole = sum + first;
    for (int64_t i = 0; i < n; ++i) whole[i] = 0;
    for (int64_t v = 0; v < rows; ++v) { /* a term of 1 beside very small ones: added in double, none is lost */
      const float *row = z + v * ldz + first;
      for (int64_t i = 0; i < n; ++i) whole[i] += (double)exp_of(row[i] - least[i]);
    }
  }
}

static void gradient(float *z, int64_t ldz, int64_t rows, int64_t lanes, const float *shift, const float *factor, const float *minus, const float *weight) {
  for (int64_t v = 0; v < rows; ++v) {
    float *row = z + v * ldz;
    const float w = weight ? weight[v] : 1.0f;
    for (int64_t i = 0; i < lanes; ++i) row[i] = factor[i] * exp_of(row[i] - shift[i]) - minus[i] * w;
  }
}

static void softcap(float *z, int64_t ldz, int64_t rows, int64_t lanes, float cap) {
  for (int64_t v = 0; v < rows; ++v) {
    float *row = z + v * ldz;
    for (int64_t i = 0; i < lanes; ++i) row[i] = cap * tanh_of(row[i] / cap);
  }
}

static void use_softmax(embed__softmax_kernels *k) {
  k->max = max_down;
  k->sum_exp = sum_exp_down;
  k->gradient = gradient;
  k->softcap = softcap;
}
