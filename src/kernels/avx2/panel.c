/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/avx2/vector.h"

enum {
  GROUP = 6,      /* hidden rows of a tile, at most */
  TILE_SUMS = 12, /* of the 16 registers */
};
#define TOGETHER(n) ((n) == 1 ? 4 : (n) == 2 ? 2 : 1) /* panels of a tile */

INLINE floats add_pairs(floats sum, floats w, floats x) { /* not at this level */
  (void)w, (void)x;
  return sum;
}

INLINE floats lower_bfloats(const unsigned char *at) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256((const void *)at), 16)); }
INLINE floats upper_bfloats(const unsigned char *at) {
  return _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256((const void *)at), _mm256_set1_epi32((int)0xFFFF0000)));
}
/* Four bytes to every lane, whatever number they are. */
INLINE floats spread_number(const unsigned char *at) {
  int number;
  memcpy(&number, at, 4);
  return _mm256_castsi256_ps(_mm256_set1_epi32(number));
}

INLINE words words_of(floats v) { return _mm256_castps_si256(v); }
/* Halves of the even columns, then of the odd. */
INLINE void parted_halves(const floats line[2], words out[2]) {
  const __m256i even_first = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  __m256i a = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(_mm256_castps_si256(line[0]), even_first), 0xD8);
  __m256i b = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(_mm256_castps_si256(line[1]), even_first), 0xD8);
  out[0] = _mm256_permute2x128_si256(a, b, 0x20);
  out[1] = _mm256_permute2x128_si256(a, b, 0x31);
}

INLINE floats two_quads(const unsigned char *at, int64_t row_bytes) { /* of rows 0 and 4 */
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps((const void *)at)), _mm_loadu_ps((const void *)(at + 4 * row_bytes)), 1);
}

/* column[c] = word c of 16 rows. */
INLINE void turned_square(const unsigned char *at, int64_t row_bytes, floats column[4][2]) {
  for (int half = 0; half < 2; ++half, at += 8 * row_bytes) {
    floats a = two_quads(at, row_bytes), b = two_quads(at + row_bytes, row_bytes), c = two_quads(at + 2 * row_bytes, row_bytes);
    floats d = two_quads(at + 3 * row_bytes, row_bytes);
    __m256d low_ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)), high_ab = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
    __m256d low_cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d)), high_cd = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
    column[0][half] = _mm256_castpd_ps(_mm256_unpacklo_pd(low_ab, low_cd));
    column[1][half] = _mm256_castpd_ps(_mm256_unpackhi_pd(low_ab, low_cd));
    column[2][half] = _mm256_castpd_ps(_mm256_unpacklo_pd(high_ab, high_cd));
    column[3][half] = _mm256_castpd_ps(_mm256_unpackhi_pd(high_ab, high_cd));
  }
}

#include "kernels/panel_template.h"

#include "kernels/panel_exact_template.h"

void embed__panel_avx2(embed__panel_kernels *k) {
  use_exact(k);
  k->vector_bits = 256;
}
