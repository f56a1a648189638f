/* SPDX-License-Identifier: BSD-3-Clause */
/* The words that panel_template.h needs beside vector.h's. */
#ifndef EMBED__AVX512_PANEL_H
#define EMBED__AVX512_PANEL_H

#include "kernels/avx512/vector.h"

enum {
  GROUP = 12,     /* hidden rows of a tile, at most */
  TILE_SUMS = 24, /* of the 32 registers */
};
#define TOGETHER(n) ((n) <= 6 ? 4 : 2) /* panels of a tile */

INLINE floats lower_bfloats(const unsigned char *at) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(at), 16)); }
INLINE floats upper_bfloats(const unsigned char *at) {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(at), _mm512_set1_epi32((int)0xFFFF0000)));
}
/* Four bytes to every lane, whatever number they are. */
INLINE floats spread_number(const unsigned char *at) {
  int number;
  memcpy(&number, at, 4);
  return _mm512_castsi512_ps(_mm512_set1_epi32(number));
}

INLINE words words_of(floats v) { return _mm512_castps_si512(v); }
/* Halves of the even columns, then of the odd. */
INLINE void parted_halves(const floats line[1], words out[1]) {
  const __m512i even_first =
      _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  out[0] = _mm512_permutexvar_epi16(even_first, _mm512_castps_si512(line[0]));
}

INLINE floats four_quads(const unsigned char *at, int64_t row_bytes) { /* of rows 0, 4, 8, 12 */
  floats v = _mm512_castps128_ps512(_mm_loadu_ps((const void *)at));
  v = _mm512_mask_broadcast_f32x4(v, 0x00F0, _mm_loadu_ps((const void *)(at + 4 * row_bytes)));
  v = _mm512_mask_broadcast_f32x4(v, 0x0F00, _mm_loadu_ps((const void *)(at + 8 * row_bytes)));
  return _mm512_mask_broadcast_f32x4(v, 0xF000, _mm_loadu_ps((const void *)(at + 12 * row_bytes)));
}

/* column[c] = word c of 16 rows. */
INLINE void turned_square(const unsigned char *at, int64_t row_bytes, floats column[4][1]) {
  floats a = four_quads(at, row_bytes), b = four_quads(at + row_bytes, row_bytes), c = four_quads(at + 2 * row_bytes, row_bytes);
  floats d = four_quads(at + 3 * row_bytes, row_bytes);
  __m512d low_ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)), high_ab = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
  __m512d low_cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d)), high_cd = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
  column[0][0] = _mm512_castpd_ps(_mm512_unpacklo_pd(low_ab, low_cd));
  column[1][0] = _mm512_castpd_ps(_mm512_unpackhi_pd(low_ab, low_cd));
  column[2][0] = _mm512_castpd_ps(_mm512_unpacklo_pd(high_ab, high_cd));
  column[3][0] = _mm512_castpd_ps(_mm512_unpackhi_pd(high_ab, high_cd));
}

#endif
