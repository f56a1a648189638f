/* SPDX-License-Identifier: BSD-3-Clause */
/* The specification of the row kernels. */
#include "kernels/row.h"

#include <math.h>
#include <string.h>

#include "core/half.h"

static void decode_f32(const void *row, float *out, int64_t dim, float scale) {
  const unsigned char *bytes = row;
  for (int64_t j = 0; j < dim; ++j) {
    float value;
    memcpy(&value, bytes + 4 * j, 4); /* rows of a file may start at any byte */
    out[j] = value * scale;
  }
}

static void decode_f16(const void *row, float *out, int64_t dim, float scale) {
  const unsigned char *bytes = row;
  for (int64_t j = 0; j < dim; ++j) {
    uint16_t half;
    memcpy(&half, bytes + 2 * j, 2);
    out[j] = embed__f32_of_f16(half) * scale;
  }
}

static void decode_bf16(const void *row, float *out, int64_t dim, float scale) {
  const unsigned char *bytes = row;
  for (int64_t j = 0; j < dim; ++j) {
    uint16_t half;
    memcpy(&half, bytes + 2 * j, 2);
    out[j] = embed__f32_of_bf16(half) * scale;
  }
}

static void decode_i8(const void *row, float *out, int64_t dim, float scale) {
  const int8_t *q = row;
  const float row_scale = embed__le_f32(q + dim);
  for (int64_t j = 0; j < dim; ++j) {
    float value = row_scale * (float)q[j];
    out[j] = value * scale;
  }
}

static void to_f16(const float *in, uint16_t *out, int64_t dim) {
  for (int64_t j = 0; j < dim; ++j) {
    uint16_t half = embed__f16_of_f32(in[j]);
    memcpy((unsigned char *)out + 2 * j, &half, 2);
  }
}

static void to_bf16(const float *in, uint16_t *out, int64_t dim) {
  for (int64_t j = 0; j < dim; ++j) {
    uint16_t half = embed__bf16_of_f32(in[j]);
    memcpy((unsigned char *)out + 2 * j, &half, 2);
  }
}

static void copy(const void *row, void *out, int64_t bytes, bool streaming) {
  (void)streaming;
  memcpy(out, row, (size_t)bytes);
}

static void fence(void) {}

static void add(float *sum, const float *row, int64_t dim) {
  for (int64_t j = 0; j < dim; ++j) sum[j] += row[j];
}

static void add_scaled(float *sum, const float *row, int64_t dim, float weight) {
  for (int64_t j = 0; j < dim; ++j) {
    float product = weight * row[j];
    sum[j] += product;
  }
}

static void scale(float *row, int64_t dim, float factor) {
  for (int64_t j = 0; j < dim; ++j) row[j] *= factor;
}

static void multiply(float *values, const float *row, int64_t dim, float factor) {
  for (int64_t j = 0; j < dim; ++j) {
    float scaled = values[j] * factor;
    values[j] = scaled * row[j];
  }
}

static void keep_max(float *best, const float *row, int64_t dim) {
  for (int64_t j = 0; j < dim; ++j)
    if (row[j] > best[j] || isnan(row[j])) best[j] = row[j];
}

static void keep_min(float *best, const float *row, int64_t dim) {
  for (int64_t j = 0; j < dim; ++j)
    if (row[j] < best[j] || isnan(row[j])) best[j] = row[j];
}

static double sum_squares(const float *row, int64_t dim) {
  double lane[16] = {0};
  for (int64_t j = 0; j < dim; ++j) lane[j % 16] += (double)row[j] * (double)row[j];
  for (int half = 8; half >= 1; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

void embed__row_scalar(embed__row_kernels *k) {
  k->decode[EMBED__STORED_F32] = decode_f32;
  k->decode[EMBED__STORED_F16] = decode_f16;
  k->decode[EMBED__STORED_BF16] = decode_bf16;
  k->decode[EMBED__STORED_I8] = decode_i8;
  k->to_f16 = to_f16;
  k->to_bf16 = to_bf16;
  k->copy = copy;
  k->fence = fence;
  k->add = add;
  k->add_scaled = add_scaled;
  k->scale = scale;
  k->multiply = multiply;
  k->keep_max = keep_max;
  k->keep_min = keep_min;
  k->sum_squares = sum_squares;
}
