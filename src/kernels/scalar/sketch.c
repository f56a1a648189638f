/* SPDX-License-Identifier: BSD-3-Clause */
/* The specification of sketched products, and what all levels share: hidden rows as digits. */
#include "kernels/sketch.h"

#include <math.h>
#include <string.h>

#include "core/half.h"

enum { MOST_INTEGER = 127 * 256, LINE = 64, BLOCK_LINES = 12 };

static int64_t x_bytes(int64_t n, int64_t dim) {
  return embed__sketch_steps_bytes(n) + (4 * n * embed__sketch_blocks(dim) * EMBED__SKETCH_RECORD + 63) / 64 * 64;
}

static void pack_row(const float *x, int64_t dim, int32_t *record, float *step_of_row, double *rounding) {
  float largest = 0;
  for (int64_t j = 0; j < dim; ++j) largest = fabsf(x[j]) > largest ? fabsf(x[j]) : largest;
  const float step = largest / MOST_INTEGER;
  const double inverse = step > 0 ? 1 / (double)step : 0;
  *rounding = 0;
  for (int64_t b = 0; b < embed__sketch_blocks(dim); ++b, record += EMBED__SKETCH_RECORD) {
    int8_t high[EMBED__SKETCH_COLUMNS] = {0}, low[EMBED__SKETCH_COLUMNS] = {0};
    int32_t sum = 0;
    for (int64_t c = 0; c < EMBED__SKETCH_COLUMNS && b * EMBED__SKETCH_COLUMNS + c < dim; ++c) {
      const double value = (double)x[b * EMBED__SKETCH_COLUMNS + c];
      const double near = (value * inverse + 0x1.8p52) - 0x1.8p52; /* to the nearest integer */
      const double nearest = near > MOST_INTEGER ? MOST_INTEGER : near < -MOST_INTEGER ? -MOST_INTEGER : near;
      const int32_t integer = (int32_t)nearest, upper = (integer + 128 + 65536) / 256 - 256; /* the floor of (integer + 128) / 256 */
      const double rest = value - nearest * (double)step;
      high[c] = (int8_t)upper;
      low[c] = (int8_t)(integer - 256 * upper);
      sum += integer;
      *rounding += rest * rest;
    }
    memcpy(record, high, sizeof high);
    memcpy(record + 16, low, sizeof low);
    record[32] = -EMBED__SKETCH_ZERO * sum;
  }
  *step_of_row = step;
}

static void pack_x(const float *x, int64_t ldx, int64_t n, int64_t dim, void *packed, double *rounding) {
  float *steps = packed;
  int32_t *records = (int32_t *)((unsigned char *)packed + embed__sketch_steps_bytes(n));
  for (int64_t i = 0; i < n; ++i) pack_row(x + i * ldx, dim, records + i * embed__sketch_blocks(dim) * EMBED__SKETCH_RECORD, steps + i, rounding + i);
}

/* The 64 weights of one lane of a block. */
static void unpack(const unsigned char *lines, int lane, int32_t u[EMBED__SKETCH_COLUMNS]) {
  for (int g = 0; g < 4; ++g, lines += 3 * LINE) {
    for (int c = 0; c < 4; ++c) {
      const unsigned char *at = lines + 4 * lane + c;
      for (int l = 0; l < 3; ++l) u[16 * g + 4 * l + c] = at[l * LINE] & 63;
      u[16 * g + 12 + c] = at[0] >> 6 << 4 | at[LINE] >> 6 << 2 | at[2 * LINE] >> 6;
    }
  }
}

static void multiply(const void *panels, int64_t stride, int64_t count, const void *packed, int64_t n, int64_t dim, float *z, int64_t ldz) {
  const int64_t blocks = embed__sketch_blocks(dim);
  const float *steps = packed;
  const int32_t *records = (const int32_t *)((const unsigned char *)packed + embed__sketch_steps_bytes(n));
  for (int64_t r = 0; r < count; ++r) {
    const unsigned char *panel = (const unsigned char *)panels + r / EMBED__SKETCH_ROWS * stride;
    const int lane = (int)(r % EMBED__SKETCH_ROWS);
    for (int64_t i = 0; i < n; ++i) z[i * ldz + r] = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      int32_t u[EMBED__SKETCH_COLUMNS];
      uint16_t scale;
      unpack(panel + embed__sketch_scale_bytes(dim) + b * BLOCK_LINES * LINE, lane, u);
      memcpy(&scale, panel + 2 * (b * EMBED__SKETCH_ROWS + lane), sizeof scale);
      for (int64_t i = 0; i < n; ++i) {
        const int32_t *record = records + (i * blocks + b) * EMBED__SKETCH_RECORD;
        int8_t high[EMBED__SKETCH_COLUMNS], low[EMBED__SKETCH_COLUMNS];
        memcpy(high, record, sizeof high);
        memcpy(low, record + 16, sizeof low);
        int32_t sum = record[32];
        for (int c = 0; c < EMBED__SKETCH_COLUMNS; ++c) sum += u[c] * (256 * high[c] + low[c]);
        z[i * ldz + r] += (float)sum * embed__f32_of_bf16(scale);
      }
    }
    for (int64_t i = 0; i < n; ++i) z[i * ldz + r] *= steps[i];
  }
}

void embed__sketch_scalar(embed__sketch_kernels *k) { *k = (embed__sketch_kernels){x_bytes, pack_x, multiply, 32}; }
