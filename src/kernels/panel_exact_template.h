/* SPDX-License-Identifier: BSD-3-Clause */
/* What a level needs for exact products of panels of floats beside panel_template.h, which is included before: hidden
 * rows by groups, and the panels themselves, made of squares of 16 rows and four words of 32 bits (one or two columns)
 * that are turned in registers. */
#include "kernels/panel_pack.h"

/* One square to its four lines. */
INLINE void put_square(embed__panel_form form, bool streaming, floats column[4][PARTS], unsigned char *lines) {
  UNROLL for (int c = 0; c < 4; ++c) {
    words line[PARTS];
    if (form == EMBED__PANEL_F16)
      parted_halves(column[c], line);
    else
      for (int p = 0; p < PARTS; ++p) line[p] = words_of(column[c][p]);
    UNROLL for (int p = 0; p < PARTS; ++p) {
      unsigned char *at = lines + 64 * c + BYTES * p;
      if (streaming)
        stream_words(at, line[p]);
      else
        store_words(at, line[p]);
    }
  }
}

INLINE void pack_panel(embed__panel_form form, bool streaming, const unsigned char *rows, int64_t row_bytes, int64_t count, int64_t dim, unsigned char *panel) {
  const int64_t bytes = panel_element_bytes(form);
  int64_t at = 0;
  if (count == EMBED__PANEL_ROWS) {
    for (; at + 16 <= dim * bytes; at += 16) {
      floats column[4][PARTS];
      turned_square(rows + at, row_bytes, column);
      put_square(form, streaming, column, panel + 16 * at);
    }
  }
  panel_put(form, rows, row_bytes, count, at / bytes, dim, panel);
}

#define PACK(name, form)                                                                                                          \
  static void name(const void *rows, int64_t row_bytes, int64_t count, int64_t dim, int32_t group, void *panel, bool streaming) { \
    (void)group;                                                                                                                  \
    if (streaming)                                                                                                                \
      pack_panel(form, true, rows, row_bytes, count, dim, panel);                                                                 \
    else                                                                                                                          \
      pack_panel(form, false, rows, row_bytes, count, dim, panel);                                                                \
  }
PACK(pack_f32, EMBED__PANEL_F32)
PACK(pack_f16, EMBED__PANEL_F16)
PACK(pack_bf16, EMBED__PANEL_BF16)

INLINE void pack_hidden(const float *x, int64_t ldx, int64_t n, int64_t dim, float *out) {
  for (int64_t g = 0; g < groups_of(n); ++g) {
    int64_t row = g * n / groups_of(n), hidden = (g + 1) * n / groups_of(n) - row;
    for (int64_t h = 0; h < hidden; ++h)
      for (int64_t j = 0; j < dim; ++j) out[row * dim + j * hidden + h] = x[(row + h) * ldx + j];
  }
}

static int64_t x_bytes(int64_t n, int64_t dim, int32_t group) {
  (void)group;
  return (n * dim * 4 + 63) / 64 * 64;
}

static void pack_x(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) {
  (void)group;
  pack_hidden(x, ldx, n, dim, packed);
}

MULTIPLY(of_f32, OF_F32)
MULTIPLY(of_f16, OF_F16)
MULTIPLY(of_bf16, OF_BF16)

static void use_exact(embed__panel_kernels *k) {
  k->pack[EMBED__PANEL_F32] = pack_f32;
  k->pack[EMBED__PANEL_F16] = pack_f16;
  k->pack[EMBED__PANEL_BF16] = pack_bf16;
  k->prepared[EMBED__PANEL_F32][EMBED__EXACT] = (embed__multiplier){x_bytes, pack_x, of_f32};
  k->prepared[EMBED__PANEL_F16][EMBED__EXACT] = (embed__multiplier){x_bytes, pack_x, of_f16};
  k->prepared[EMBED__PANEL_BF16][EMBED__EXACT] = (embed__multiplier){x_bytes, pack_x, of_bf16};
}
