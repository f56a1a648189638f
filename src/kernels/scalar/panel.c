/* SPDX-License-Identifier: BSD-3-Clause */
/* The specification of panels of floats and of their products. */
#include "core/half.h"
#include "kernels/panel_pack.h"

static int64_t panel_bytes(embed__panel_form form, int64_t dim) {
  int64_t lines = form == EMBED__PANEL_F32 ? dim : dim / 2 + dim % 2;
  return lines <= INT64_MAX / 64 ? 64 * lines : -1;
}

static float value_at(embed__panel_form form, const unsigned char *panel, int64_t column, int64_t lane) {
  const unsigned char *at = panel + panel_position(form, column, lane);
  float value;
  uint16_t half;
  if (form == EMBED__PANEL_F32) {
    memcpy(&value, at, 4);
    return value;
  }
  memcpy(&half, at, 2);
  return form == EMBED__PANEL_F16 ? embed__f32_of_f16(half) : embed__f32_of_bf16(half);
}

/* Hidden rows as they are. */
static int64_t x_bytes(int64_t n, int64_t dim, int32_t group) {
  (void)group;
  return (4 * n * dim + 63) / 64 * 64;
}

static void pack_x(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) {
  (void)group;
  for (int64_t i = 0; i < n; ++i) memcpy((unsigned char *)packed + 4 * i * dim, x + i * ldx, (size_t)dim * 4);
}

/* sum[lane] of one panel and one hidden row, in chains of columns. */
static void sum_panel(embed__panel_form form, const unsigned char *panel, const float *x, int64_t dim, float sum[EMBED__PANEL_ROWS]) {
  for (int64_t begin = 0; begin < dim; begin += EMBED__PANEL_CHAIN) {
    float chain[EMBED__PANEL_ROWS] = {0};
    for (int64_t j = begin; j < dim && j < begin + EMBED__PANEL_CHAIN; ++j) {
      for (int64_t lane = 0; lane < EMBED__PANEL_ROWS; ++lane) {
        float product = value_at(form, panel, j, lane) * x[j];
        chain[lane] += product;
      }
    }
    for (int64_t lane = 0; lane < EMBED__PANEL_ROWS; ++lane) sum[lane] = begin ? sum[lane] + chain[lane] : chain[lane];
  }
}

#define FORM(name, form)                                                                                                                                \
  static int64_t bytes_##name(int64_t dim, int32_t group) {                                                                                             \
    (void)group;                                                                                                                                        \
    return panel_bytes(form, dim);                                                                                                                      \
  }                                                                                                                                                     \
  static void pack_##name(const void *rows, int64_t row_bytes, int64_t count, int64_t dim, int32_t group, void *panel, bool streaming) {                \
    (void)group, (void)streaming;                                                                                                                       \
    panel_put(form, rows, row_bytes, count, 0, dim, panel);                                                                                             \
  }                                                                                                                                                     \
  static void multiply_##name(const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, int64_t dim, int32_t group, \
                              float *z, int64_t ldz) {                                                                                                  \
    (void)group, (void)soon;                                                                                                                            \
    for (int64_t r = 0; r < count; r += EMBED__PANEL_ROWS) {                                                                                            \
      int64_t lanes = count - r < EMBED__PANEL_ROWS ? count - r : EMBED__PANEL_ROWS;                                                                    \
      for (int64_t i = 0; i < n; ++i) {                                                                                                                 \
        float sum[EMBED__PANEL_ROWS];                                                                                                                   \
        sum_panel(form, (const unsigned char *)rows + r / EMBED__PANEL_ROWS * stride, (const float *)packed + i * dim, dim, sum);                       \
        memcpy(z + i * ldz + r, sum, (size_t)lanes * 4);                                                                                                \
      }                                                                                                                                                 \
    }                                                                                                                                                   \
  }

FORM(f32, EMBED__PANEL_F32)
FORM(f16, EMBED__PANEL_F16)
FORM(bf16, EMBED__PANEL_BF16)

#define USE(name, form)          \
  k->bytes[form] = bytes_##name; \
  k->pack[form] = pack_##name;   \
  k->prepared[form][EMBED__EXACT] = (embed__multiplier) { x_bytes, pack_x, multiply_##name }

void embed__panel_scalar(embed__panel_kernels *k) {
  USE(f32, EMBED__PANEL_F32);
  USE(f16, EMBED__PANEL_F16);
  USE(bf16, EMBED__PANEL_BF16);
  k->vector_bits = 32;
}
