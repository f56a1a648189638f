/* SPDX-License-Identifier: BSD-3-Clause */
/* One panel at a time, a line in two registers: 4 limbs of a hidden row make 8 sums and 2 chains of the 16 registers, 2 rows of rounded digits
 * 4 and 4. */
#include <immintrin.h>
#include <stdint.h>

#include "kernels/template.h"

enum { LANES = 8, PARTS = 2, EXACT_DIGITS = 6, ROUNDED_ROWS = 2, PAIRED_LIMBS = 0 };
#define EXACT_TILES(X, ...)        X(__VA_ARGS__, 2, 1) X(__VA_ARGS__, 3, 1) X(__VA_ARGS__, 4, 1) X(__VA_ARGS__, 6, 1)
#define EXACT_ONLY_TILES(X, ...)   EXACT_TILES(X, __VA_ARGS__)
#define ROUNDED_TILES(X, ...)      X(__VA_ARGS__, 1) X(__VA_ARGS__, 2)
#define ROUNDED_ONLY_TILES(X, ...) ROUNDED_TILES(X, __VA_ARGS__)
typedef __m256i ints;
typedef __m256 reals;

/* vpmaddubsw saturates from u = 128 on (128 * 128 + 128 * 128): such u and their digits are two times 16 bits. */
#define DIGIT_WORDS 16
typedef struct quad {
  ints even, odd;
} quad;
INLINE quad spread_digits(int most, const int32_t *at, int odd) {
  const ints all = _mm256_set1_epi32(*at);
  return (quad){all, most < 128 ? all : _mm256_set1_epi32(at[odd])};
}
INLINE ints dot4(int most, ints sum, ints u, quad x) {
  if (most < 128) return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(u, x.even), _mm256_set1_epi16(1)));
  ints even = _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(255)), x.even), odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), x.odd);
  return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}

INLINE ints plus_product(ints sum, ints a, ints b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }

INLINE ints load_ints(const void *at) { return _mm256_loadu_si256(at); }
INLINE void store_ints(void *at, ints v) { _mm256_storeu_si256(at, v); }
INLINE void stream_ints(void *at, ints v) { _mm256_stream_si256(at, v); }
INLINE ints no_ints(void) { return _mm256_setzero_si256(); }
INLINE ints spread_word(const int32_t *at) { return _mm256_set1_epi32(*at); }
INLINE ints low_nibbles(ints v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
INLINE ints high_nibbles(ints v) { return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15)); }
INLINE ints nibbles_of(ints low, ints high) { return _mm256_or_si256(low, _mm256_slli_epi16(high, 4)); }
INLINE ints flip_signs(ints v) { return _mm256_xor_si256(v, _mm256_set1_epi8(-128)); }
/* u | (v >> from & mask) << to in every byte. */
INLINE ints with_bits(ints u, ints v, int from, int mask, int to) {
  ints kept = _mm256_and_si256(_mm256_srli_epi16(v, from), _mm256_set1_epi8((char)mask));
  return _mm256_or_si256(u, _mm256_slli_epi16(kept, to));
}
/* In every word of 4 bytes. */
INLINE ints bits(ints v, int at, int mask) {
  if (at == 0) return _mm256_and_si256(v, _mm256_set1_epi32(mask));
  return _mm256_and_si256(_mm256_srli_epi32(v, at), _mm256_set1_epi32(mask));
}
/* The bits of the float 2^23 + byte i of every word. */
INLINE ints magic_byte(ints v, int i) {
  return _mm256_or_si256(_mm256_and_si256(_mm256_srl_epi32(v, _mm_cvtsi32_si128(8 * i)), _mm256_set1_epi32(255)), _mm256_set1_epi32(0x4B000000));
}
INLINE ints either(ints a, ints b) { return _mm256_or_si256(a, b); }
INLINE ints signed_byte(ints v, int i) { return _mm256_srai_epi32(_mm256_sllv_epi32(v, _mm256_set1_epi32(24 - 8 * i)), 24); }

INLINE ints first_lanes(int64_t lanes) { return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
INLINE reals no_reals(void) { return _mm256_setzero_ps(); }
INLINE reals spread(float x) { return _mm256_set1_ps(x); }
INLINE reals load_reals(const float *at) { return _mm256_loadu_ps(at); }
INLINE reals load_part(const float *at, int64_t lanes) { return _mm256_maskload_ps(at, first_lanes(lanes)); }
INLINE void store_part(float *at, int64_t lanes, reals v) { _mm256_maskstore_ps(at, first_lanes(lanes), v); }
INLINE reals load_halves(const unsigned char *at) { return _mm256_cvtph_ps(_mm_loadu_si128((const void *)at)); }
INLINE reals low_halves(ints v) {
  ints low = _mm256_and_si256(v, _mm256_set1_epi32(0xFFFF));
  return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
}
INLINE reals high_halves(ints v) { return low_halves(_mm256_srli_epi32(v, 16)); }
INLINE reals as_reals(ints v) { return _mm256_castsi256_ps(v); } /* the bits */
INLINE ints as_ints(reals v) { return _mm256_castps_si256(v); }
INLINE reals reals_of(ints v) { return _mm256_cvtepi32_ps(v); }
INLINE reals plus(reals a, reals b) { return _mm256_add_ps(a, b); }
INLINE reals minus(reals a, reals b) { return _mm256_sub_ps(a, b); }
INLINE reals larger(reals a, reals b) { return _mm256_max_ps(a, b); }  /* b where a is NaN */
INLINE reals smaller(reals a, reals b) { return _mm256_min_ps(a, b); } /* likewise */
INLINE reals over(reals a, reals b) { return _mm256_div_ps(a, b); }
/* 1 / v of a float 2^23 + v. */
INLINE reals inverse_of_magic(ints v) { return over(_mm256_set1_ps(1), minus(as_reals(v), _mm256_set1_ps(0x1p23f))); }
INLINE reals times(reals a, reals b) { return _mm256_mul_ps(a, b); }
INLINE reals times_plus(reals a, reals b, reals c) { return _mm256_fmadd_ps(a, b, c); }
INLINE reals minus_times(reals a, reals b, reals c) { return _mm256_fnmadd_ps(a, b, c); } /* c - a * b */
INLINE void prefetch(uintptr_t at) { _mm_prefetch((const char *)at, _MM_HINT_T0); }
INLINE void prefetch_to_l2(uintptr_t at) { _mm_prefetch((const char *)at, _MM_HINT_T1); }

/* Of each half of the rows, rows r and r + 4 share a register, whose 4 x 4 words are transposed with its neighbours'. */
INLINE void lines_of_rows(const unsigned char *const row[16], int64_t at, ints line[4][PARTS]) {
  UNROLL for (int p = 0; p < PARTS; ++p) {
    ints four[4];
    UNROLL for (int r = 0; r < 4; ++r) {
      ints v = _mm256_castsi128_si256(_mm_loadu_si128((const void *)(row[8 * p + r] + at)));
      four[r] = _mm256_inserti128_si256(v, _mm_loadu_si128((const void *)(row[8 * p + r + 4] + at)), 1);
    }
    ints low01 = _mm256_unpacklo_epi32(four[0], four[1]), high01 = _mm256_unpackhi_epi32(four[0], four[1]);
    ints low23 = _mm256_unpacklo_epi32(four[2], four[3]), high23 = _mm256_unpackhi_epi32(four[2], four[3]);
    line[0][p] = _mm256_unpacklo_epi64(low01, low23);
    line[1][p] = _mm256_unpackhi_epi64(low01, low23);
    line[2][p] = _mm256_unpacklo_epi64(high01, high23);
    line[3][p] = _mm256_unpackhi_epi64(high01, high23);
  }
}

#include "kernels/quantised_template.h"

void embed__quantised_avx2(embed__panel_kernels *k) { use_all(k); }
