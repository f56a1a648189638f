/* SPDX-License-Identifier: BSD-3-Clause */
/* The specification of the tile products. */
#include "kernels/dot.h"

#include <string.h>

#include "core/half.h"

enum { LANES = 16 };

static float f32_at(const void *row, int64_t j) {
  float value;
  memcpy(&value, (const unsigned char *)row + 4 * j, 4);
  return value;
}

static float f16_at(const void *row, int64_t j) {
  uint16_t half;
  memcpy(&half, (const unsigned char *)row + 2 * j, 2);
  return embed__f32_of_f16(half);
}

static float bf16_at(const void *row, int64_t j) {
  uint16_t half;
  memcpy(&half, (const unsigned char *)row + 2 * j, 2);
  return embed__f32_of_bf16(half);
}

static float i8_at(const void *row, int64_t j) { return (float)((const int8_t *)row)[j]; }

/* What the sum of q * x is multiplied by. */
static float no_scale(const void *row, int64_t dim) {
  (void)row;
  (void)dim;
  return 1.0f;
}

static float i8_scale(const void *row, int64_t dim) { return embed__le_f32((const unsigned char *)row + dim); }

static float sum_of_lanes(float lane[LANES]) {
  for (int half = LANES / 2; half >= 1; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

#define TILE(name, value_at, scale_of)                                                                                                               \
  static void name(const void *rows, int64_t row_bytes, int64_t count, const float *x, int64_t ldx, int64_t n, int64_t dim, float *z, int64_t ldz) { \
    for (int64_t r = 0; r < count; ++r) {                                                                                                            \
      const unsigned char *row = (const unsigned char *)rows + r * row_bytes;                                                                        \
      for (int64_t i = 0; i < n; ++i) {                                                                                                              \
        float lane[LANES] = {0};                                                                                                                     \
        for (int64_t j = 0; j < dim; ++j) {                                                                                                          \
          float product = value_at(row, j) * x[i * ldx + j];                                                                                         \
          lane[j % LANES] += product;                                                                                                                \
        }                                                                                                                                            \
        z[i * ldz + r] = sum_of_lanes(lane) * scale_of(row, dim);                                                                                    \
      }                                                                                                                                              \
    }                                                                                                                                                \
  }

TILE(tile_f32, f32_at, no_scale)
TILE(tile_f16, f16_at, no_scale)
TILE(tile_bf16, bf16_at, no_scale)
TILE(tile_i8, i8_at, i8_scale)

void embed__dot_scalar(embed__dot_kernels *k) {
  k->tile[EMBED__STORED_F32] = tile_f32;
  k->tile[EMBED__STORED_F16] = tile_f16;
  k->tile[EMBED__STORED_BF16] = tile_bf16;
  k->tile[EMBED__STORED_I8] = tile_i8;
  k->vector_bits = 32;
}
