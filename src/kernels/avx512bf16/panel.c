/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of bfloats: twice the columns an instruction. Only with hidden rows rounded to bfloats. */
#include "kernels/avx512/panel.h"

INLINE floats add_pairs(floats sum, floats w, floats x) { return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(w), (__m512bh)_mm512_castps_si512(x)); }

#include "kernels/panel_template.h"

#include "core/half.h"

static int64_t pairs_bytes(int64_t n, int64_t dim, int32_t group) {
  (void)group;
  return (n * row_numbers(OF_PAIRS, dim) * 4 + 63) / 64 * 64;
}

static void pack_pairs(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) {
  unsigned char *out = packed;
  (void)group;
  for (int64_t g = 0; g < groups_of(n); ++g) {
    int64_t row = g * n / groups_of(n), hidden = (g + 1) * n / groups_of(n) - row;
    for (int64_t h = 0; h < hidden; ++h) {
      const float *from = x + (row + h) * ldx;
      for (int64_t j = 0; j < dim; j += 2) {
        uint16_t pair[2] = {embed__bf16_of_f32(from[j]), j + 1 < dim ? embed__bf16_of_f32(from[j + 1]) : 0};
        memcpy(out + 4 * (row * row_numbers(OF_PAIRS, dim) + j / 2 * hidden + h), pair, 4);
      }
    }
  }
}

MULTIPLY(of_pairs, OF_PAIRS)

void embed__panel_avx512bf16(embed__panel_kernels *k) {
  k->prepared[EMBED__PANEL_BF16][EMBED__ROUNDED_BF16] = (embed__multiplier){pairs_bytes, pack_pairs, of_pairs};
}
