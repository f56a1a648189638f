/* SPDX-License-Identifier: BSD-3-Clause */
/* A float of 24 bits is the sum of three bfloats, its limbs; a half of two, a bfloat of one. Of the nine products of two floats' limbs six are
 * added: the others lie below 2^-25 of the floats' own. 32 rows of A, two tiles, meet 32 columns of B, two tiles, in four tiles of sums.
 *
 * Tiles take subnormal numbers as 0. So what is taken apart is multiplied by LIMBS_SCALE first, which lifts every float above them, and the sums of
 * products, of which some below 2^-174 may be 0 then, by its square's inverse. Numbers above EMBED__LIMBS_MOST could overflow. */
#ifndef EMBED__AMX_LIMBS_H
#define EMBED__AMX_LIMBS_H

#include "kernels/amx/tiles.h"

enum { LIMBS = 3 };

#define A_0     0
#define A_1     1
#define B_0     2
#define B_1     3
#define SUMS_00 4
#define SUMS_01 5
#define SUMS_10 6
#define SUMS_11 7

INLINE void shape_squares(void) {
  tile_shapes s = {.palette = 1};
  for (int tile = A_0; tile <= SUMS_11; ++tile) shape(&s, tile, TILE_ROWS, 64);
  memory_settles();
  _tile_loadconfig(&s);
}

INLINE void begin_squares(void) {
  memory_settles();
  _tile_zero(SUMS_00);
  _tile_zero(SUMS_01);
  _tile_zero(SUMS_10);
  _tile_zero(SUMS_11);
}

/* A step of 32 columns of A, 32 rows of B: where its first tiles lie, and in bytes how far apart halves, limbs and rows of a tile are. */
typedef struct operands {
  const unsigned char *a, *b;
  int64_t a_half, a_limb, a_row, b_half, b_limb, b_row;
} operands;

INLINE void load_a(bool two_a, const operands *o, int limb) {
  _tile_loadd(A_0, o->a + limb * o->a_limb, o->a_row);
  if (two_a) _tile_loadd(A_1, o->a + o->a_half + limb * o->a_limb, o->a_row);
}
INLINE void load_b(bool two_b, const operands *o, int limb) {
  _tile_loadd(B_0, o->b + limb * o->b_limb, o->b_row);
  if (two_b) _tile_loadd(B_1, o->b + o->b_half + limb * o->b_limb, o->b_row);
}
INLINE void add_squares(bool two_a, bool two_b) {
  _tile_dpbf16ps(SUMS_00, A_0, B_0);
  if (two_b) _tile_dpbf16ps(SUMS_01, A_0, B_1);
  if (two_a) _tile_dpbf16ps(SUMS_10, A_1, B_0);
  if (two_a && two_b) _tile_dpbf16ps(SUMS_11, A_1, B_1);
}

/* two_a, two_b: A, or B, has a second tile. From one product to the next the limb of one side changes. */
INLINE void add_step(int a_limbs, int b_limbs, bool two_a, bool two_b, const operands *o) {
  load_a(two_a, o, 0);
  if (b_limbs > 2) {
    load_b(two_b, o, 2);
    add_squares(two_a, two_b);
  }
  load_b(two_b, o, 0);
  add_squares(two_a, two_b);
  if (b_limbs > 1) {
    load_b(two_b, o, 1);
    add_squares(two_a, two_b);
  }
  if (a_limbs == 1) return;
  load_a(two_a, o, 1);
  add_squares(two_a, two_b);
  if (b_limbs > 1) {
    load_b(two_b, o, 0);
    add_squares(two_a, two_b);
  }
  if (a_limbs == 2) return;
  load_a(two_a, o, 2);
  add_squares(two_a, two_b);
}

#define LIMBS_SCALE   0x1p+24f
#define LIMBS_UNSCALE 0x1p-48f

/* The upper halves of lanes, where bfloats are. */
INLINE __m512i upper_halves(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi32((int)0xFFFF0000)); }

/* 16 floats and 16 more to a vector of 32 bfloats for each limb, `apart` bytes from each other. A limb is the nearest bfloat, ties away from 0: so
 * its rest has 8 bits fewer. in_turns: numbers of first and second by turns, else those of the second behind the first. words: of 32 bits, that are
 * stored. */
INLINE void part_floats(int limbs, bool in_turns, __m512 first, __m512 second, __mmask16 words, unsigned char *to, int64_t apart) {
  UNROLL for (int l = 0; l < limbs; ++l) {
    __m512i a = _mm512_castps_si512(first), b = _mm512_castps_si512(second);
    if (l + 1 < limbs) { /* the last limb is what is left */
      a = _mm512_add_epi32(a, _mm512_set1_epi32(0x8000));
      b = _mm512_add_epi32(b, _mm512_set1_epi32(0x8000));
      first = _mm512_sub_ps(first, _mm512_castsi512_ps(upper_halves(a)));
      second = _mm512_sub_ps(second, _mm512_castsi512_ps(upper_halves(b)));
    }
    const __m512i limb = in_turns ? _mm512_ternarylogic_epi32(b, _mm512_set1_epi32((int)0xFFFF0000), _mm512_srli_epi32(a, 16), 0xEA) /* b & mask | a */
                                  : (__m512i)_mm512_cvtne2ps_pbh(_mm512_castsi512_ps(upper_halves(b)), _mm512_castsi512_ps(upper_halves(a)));
    _mm512_mask_storeu_epi32(to + l * apart, words, limb);
  }
}

/* Floats times the scale; most: grows to the largest size seen, as an integer, NaN above infinity. */
INLINE __m512 scaled(__m512 v, __m512i *most) {
  *most = _mm512_max_epu32(*most, _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7FFFFFFF)));
  return _mm512_mul_ps(v, _mm512_set1_ps(LIMBS_SCALE));
}

INLINE uint32_t size_bits(float size) {
  uint32_t bits;
  memcpy(&bits, &size, sizeof bits);
  return bits;
}

/* Whether limbs hold numbers of these sizes. */
INLINE bool is_held(__m512i most) { return _mm512_reduce_max_epu32(most) <= size_bits(EMBED__LIMBS_MOST); }

#endif
