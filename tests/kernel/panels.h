/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of panels share: rows of floats of the three stored forms, number by number, and panels made of them. */
#ifndef TEST_KERNEL_PANELS_H
#define TEST_KERNEL_PANELS_H

#include "timed.h"

enum { FORMS = EMBED__PANEL_BF16 + 1, LANES = EMBED__PANEL_ROWS };
static const int64_t each[FORMS] = {4, 2, 2}; /* bytes of a number */
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

static inline float value_at(int form, const unsigned char *row, int64_t j) {
  float value;
  uint16_t half;
  if (form == EMBED__PANEL_F32) {
    memcpy(&value, row + 4 * j, 4);
    return value;
  }
  memcpy(&half, row + 2 * j, 2);
  return form == EMBED__PANEL_F16 ? embed__f32_of_f16(half) : embed__f32_of_bf16(half);
}

static inline void put_value(int form, unsigned char *row, int64_t j, float value) {
  uint16_t half = form == EMBED__PANEL_F16 ? embed__f16_of_f32(value) : embed__bf16_of_f32(value);
  if (form == EMBED__PANEL_F32)
    memcpy(row + 4 * j, &value, 4);
  else
    memcpy(row + 2 * j, &half, 2);
}

/* A table's panels of this form, against the unreadable page. */
static inline guarded panels_of(const embed__kernels *k, int panel, const unsigned char *rows, int64_t row_bytes, int64_t count, int64_t dim) {
  int64_t bytes = k->panel.bytes[panel](dim, 0), panels = (count + LANES - 1) / LANES;
  guarded made = guarded_new((size_t)(panels * bytes), 1);
  for (int64_t p = 0; p < panels; ++p) {
    int64_t rest = count - p * LANES;
    k->panel.pack[panel](rows + p * LANES * row_bytes, row_bytes, rest < LANES ? rest : LANES, dim, 0, made.at + p * bytes, false);
  }
  return made;
}

#endif
