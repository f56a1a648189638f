/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of quantised rows as they are stored, one to four hidden rows at a time. A weight of 4 or 5 bits is made by one
 * look-up in a register that holds what each of them decodes to: vpermps takes the low bits of an index, whatever is above.
 * Scales of 256 or 512 columns are decoded together beforehand, and spread by loads. */
#include "kernels/avx512/vector.h"
#include "kernels/dot.h"

enum {
  ROWS = 4,           /* a quarter of `count` apart: as many streams */
  BLOCK_COLUMNS = 32, /* of the forms with one scale in front */
  K_COLUMNS = 256,
  AHEAD = 1024, /* bytes that each stream is fetched ahead */
  LINE = 64,
  MOST_UNIT = 8 /* vectors of weights at once */
};

typedef struct dots {
  const unsigned char *row; /* the first */
  int64_t next_row;         /* bytes to the next of the rows side by side */
  const float *x;
  int64_t ldx, dim;
  int shift; /* 32 << shift columns share a scale */
} dots;

/* Decoded scales that wait to be spread. */
typedef struct row_scales { /* of one block of each row */
  float of[ROWS];
} row_scales;
typedef struct k_scales { /* of a block of a K form: 16, or 8 steps and 8 offsets */
  float of[16];
} k_scales;

INLINE floats spread_half(const unsigned char *at) {
  uint16_t half;
  memcpy(&half, at, 2);
  return _mm512_cvtph_ps(_mm256_set1_epi16((short)half));
}
INLINE words widen(const unsigned char *at) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)at)); }
INLINE floats look_up(floats table, words index) { return _mm512_permutexvar_ps(index, table); }
INLINE words high(words v) { return _mm512_srli_epi32(v, 4); }
INLINE floats count_from(float begin) { return plus(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), spread(begin)); }

/* Where block b of 32 columns has its scale in front, and its nibbles or bytes. */
INLINE int64_t scale_at(embed__form form, int64_t b, int shift) {
  if (form == EMBED__FORM_q8_0) return 34 * b;
  if (form == EMBED__FORM_q4_0) return 18 * b;
  return (b >> shift) * (2 + ((int64_t)16 << shift));
}
INLINE int64_t payload_at(embed__form form, int64_t b, int shift) {
  return scale_at(form, b, shift) + 2 + (form == EMBED__FORM_i4_group ? 16 * (b & ((1 << shift) - 1)) : 0);
}

/* Without it compilers spread a scale from the register that was stored: on the port that look-ups wait for. */
#define keep_in_memory(of) __asm__ volatile("" : "+m"(of))

/* Columns past the end are added to nothing. */
INLINE void add_products(int hidden, const dots *d, int64_t j, const floats *w, int vectors, int64_t columns, floats sum[TILE_HIDDEN][ROWS], int r) {
  UNROLL for (int v = 0; v < vectors; ++v) {
    int64_t left = columns - WIDTH * v;
    UNROLL for (int h = 0; h < hidden; ++h) {
      const float *x = d->x + h * d->ldx + j + WIDTH * v;
      if (left >= WIDTH)
        sum[h][r] = times_plus(w[v], load(x), sum[h][r]);
      else if (left > 0)
        sum[h][r] = _mm512_mask3_fmadd_ps(w[v], load_part(x, left), sum[h][r], first(left));
    }
  }
}

/* Block of 32 columns. */
INLINE void decode_block(embed__form form, const unsigned char *q, floats scale, floats w[2]) {
  if (form == EMBED__FORM_q8_0) {
    w[0] = times(load_i8(q), scale);
    w[1] = times(load_i8(q + 16), scale);
  } else {
    words v = widen(q);
    floats table = times(count_from(-8), scale);
    w[0] = look_up(table, v);
    w[1] = look_up(table, high(v));
  }
}

/* The scales of four rows at once; half by half they would wait for the port that look-ups wait for. */
INLINE void block_scales(int rows, const unsigned char *at, int64_t next_row, row_scales *s) {
  uint64_t halves = 0;
  UNROLL for (int r = 0; r < rows; ++r) {
    uint16_t half;
    memcpy(&half, at + r * next_row, 2);
    halves |= (uint64_t)half << 16 * r;
  }
  store_four(s->of, _mm_cvtph_ps(_mm_set_epi64x(0, (int64_t)halves)));
  keep_in_memory(*s);
}

INLINE void fetch(int rows, const dots *d, int64_t at, int64_t bytes) {
  if (rows < ROWS) return;
  for (int64_t i = 0; i < bytes; i += LINE) {
    UNROLL for (int r = 0; r < rows; ++r) prefetch((uintptr_t)d->row + (uintptr_t)(r * d->next_row + at + AHEAD + i));
  }
}

INLINE void sum_block(embed__form form, int rows, int hidden, const dots *d, int64_t b, int64_t columns, floats sum[TILE_HIDDEN][ROWS]) {
  const int64_t payload = payload_at(form, b, d->shift);
  row_scales s;
  block_scales(rows, d->row + scale_at(form, b, d->shift), d->next_row, &s);
  fetch(rows, d, payload, 1);
  UNROLL for (int r = 0; r < rows; ++r) {
    floats w[2];
    decode_block(form, d->row + r * d->next_row + payload, spread(s.of[r]), w);
    add_products(hidden, d, b * BLOCK_COLUMNS, w, 2, columns, sum, r);
  }
}

INLINE void sum_blocks(embed__form form, int rows, int hidden, const dots *d, floats sum[TILE_HIDDEN][ROWS]) {
  const int64_t blocks = d->dim / BLOCK_COLUMNS, tail = d->dim % BLOCK_COLUMNS;
  for (int64_t b = 0; b < blocks; ++b) sum_block(form, rows, hidden, d, b, BLOCK_COLUMNS, sum);
  if (form == EMBED__FORM_i4_group && tail) sum_block(form, rows, hidden, d, blocks, tail, sum);
}

/* Steps and offsets of a block of Q4_K or Q5_K: codec/k_blocks.h says where their six bits stand. */
INLINE void six_bit_scales(const unsigned char *block, float of[16]) {
  const words word = _mm512_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3, 2, 2, 2, 2, 3, 3, 3, 3);
  const words place = _mm512_setr_epi32(0, 8, 16, 24, 0, 8, 16, 24, 0, 8, 16, 24, 4, 12, 20, 28);
  const words mask = _mm512_setr_epi32(63, 63, 63, 63, 15, 15, 15, 15, 63, 63, 63, 63, 15, 15, 15, 15);
  const words upper = _mm512_setr_epi32(1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2);
  const words upper_place = _mm512_setr_epi32(0, 0, 0, 0, 2, 10, 18, 26, 0, 0, 0, 0, 2, 10, 18, 26);
  const words upper_mask = _mm512_setr_epi32(0, 0, 0, 0, 48, 48, 48, 48, 0, 0, 0, 0, 48, 48, 48, 48);
  words header = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)block));
  words low = _mm512_and_si512(_mm512_srlv_epi32(_mm512_permutexvar_epi32(word, header), place), mask);
  words top = _mm512_and_si512(_mm512_srlv_epi32(_mm512_permutexvar_epi32(upper, header), upper_place), upper_mask);
  int halves;
  memcpy(&halves, block, 4);
  floats d = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi32_si128(halves)));
  floats by = _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1), d);
  store(of, times(_mm512_cvtepi32_ps(_mm512_or_si512(low, top)), by));
}

INLINE void decode_scales(embed__form form, const unsigned char *block, k_scales *s) {
  if (form == EMBED__FORM_q6_k)
    store(s->of, times(load_i8(block + 192), spread_half(block + 208)));
  else
    six_bit_scales(block, s->of);
  keep_in_memory(*s);
}

/* step * q - offset for q from `begin` on; step * q is exact, so that one rounding is the codec's. */
INLINE floats affine(float begin, const float of[16], int i) { return _mm512_fmsub_ps(spread(of[i]), count_from(begin), spread(of[8 + i])); }

/* Columns 64 g .. 64 g + 63 of Q4_K, Q5_K: nibbles of 32 bytes, the low ones first. */
INLINE void decode_affine(embed__form form, const unsigned char *block, int g, const float of[16], floats w[4]) {
  UNROLL for (int half = 0; half < 2; ++half) {
    if (form == EMBED__FORM_q4_k) {
      words q = widen(block + 16 + 32 * g + 16 * half);
      w[half] = look_up(affine(0, of, 2 * g), q);
      w[2 + half] = look_up(affine(0, of, 2 * g + 1), high(q));
    } else {
      words q = widen(block + 48 + 32 * g + 16 * half), fifth = widen(block + 16 + 16 * half), low = _mm512_set1_epi32(15);
      /* low & q | ~low & fifth: bit i of a column's byte comes to stand above its nibble. */
      words a = _mm512_ternarylogic_epi32(low, q, _mm512_rolv_epi32(fifth, _mm512_set1_epi32((4 - 2 * g) & 31)), 0xCA);
      words b = _mm512_ternarylogic_epi32(low, high(q), _mm512_rolv_epi32(fifth, _mm512_set1_epi32((3 - 2 * g) & 31)), 0xCA);
      w[half] = _mm512_permutex2var_ps(affine(0, of, 2 * g), a, affine(16, of, 2 * g));
      w[2 + half] = _mm512_permutex2var_ps(affine(0, of, 2 * g + 1), b, affine(16, of, 2 * g + 1));
    }
  }
}

/* Columns 128 n .. 128 n + 127 of Q6_K: low nibbles and upper pairs of bits by tables of their own. */
INLINE void decode_q6_k(const unsigned char *block, int n, const float of[16], floats w[8]) {
  const floats low = count_from(-32), pair = _mm512_setr_ps(0, 16, 32, 48, 0, 16, 32, 48, 0, 16, 32, 48, 0, 16, 32, 48);
  UNROLL for (int half = 0; half < 2; ++half) {
    words top = widen(block + 128 + 32 * n + 16 * half);
    UNROLL for (int g = 0; g < 4; ++g) {
      words q = widen(block + 64 * n + 32 * (g % 2) + 16 * half);
      floats value = plus(look_up(low, g < 2 ? q : high(q)), look_up(pair, _mm512_srli_epi32(top, (unsigned)(2 * g))));
      w[2 * g + half] = times(value, spread(of[8 * n + 2 * g + half]));
    }
  }
}

INLINE void sum_k_blocks(embed__form form, int rows, int hidden, const dots *d, floats sum[TILE_HIDDEN][ROWS]) {
  const int64_t bytes = form == EMBED__FORM_q4_k ? 144 : form == EMBED__FORM_q5_k ? 176 : 210;
  const int units = form == EMBED__FORM_q6_k ? 2 : 4, vectors = K_COLUMNS / WIDTH / units;
  for (int64_t j = 0, at = 0; j < d->dim; j += K_COLUMNS, at += bytes) {
    k_scales scales[ROWS];
    UNROLL for (int r = 0; r < rows; ++r) decode_scales(form, d->row + r * d->next_row + at, &scales[r]);
    fetch(rows, d, at, bytes);
    UNROLL for (int u = 0; u < units; ++u) {
      UNROLL for (int r = 0; r < rows; ++r) {
        const unsigned char *block = d->row + r * d->next_row + at;
        floats w[MOST_UNIT];
        if (form == EMBED__FORM_q6_k)
          decode_q6_k(block, u, scales[r].of, w);
        else
          decode_affine(form, block, u, scales[r].of, w);
        add_products(hidden, d, j + u * vectors * WIDTH, w, vectors, vectors * WIDTH, sum, r);
      }
    }
  }
}

INLINE void products(embed__form form, int rows, int hidden, const dots *d, float *z, int64_t next_z, int64_t ldz) {
  floats sum[TILE_HIDDEN][ROWS];
  four total[TILE_HIDDEN];
  UNROLL for (int h = 0; h < hidden; ++h) { UNROLL for (int r = 0; r < ROWS; ++r) sum[h][r] = zeros(); }
  if (form == EMBED__FORM_q4_k || form == EMBED__FORM_q5_k || form == EMBED__FORM_q6_k)
    sum_k_blocks(form, rows, hidden, d, sum);
  else
    sum_blocks(form, rows, hidden, d, sum);
  sums_of_tile(sum, hidden, total);
  UNROLL for (int h = 0; h < hidden; ++h) {
    float value[4];
    store_four(value, total[h]);
    UNROLL for (int r = 0; r < rows; ++r) z[h * ldz + r * next_z] = value[r];
  }
}

INLINE void tiles(embed__form form, const unsigned char *rows, int64_t row_bytes, int64_t count, const float *x, int64_t ldx, int64_t n, int64_t dim, int shift,
                  float *z, int64_t ldz) {
  const int64_t quarter = count / ROWS;
  for (int64_t r = 0; r < quarter; ++r) {
    for (int64_t i = 0; i < n; i += TILE_HIDDEN) {
      dots d = {rows + r * row_bytes, quarter * row_bytes, x + i * ldx, ldx, dim, shift};
      float *to = z + i * ldz + r;
      if (n - i == 1)
        products(form, ROWS, 1, &d, to, quarter, ldz);
      else if (n - i == 2)
        products(form, ROWS, 2, &d, to, quarter, ldz);
      else if (n - i == 3)
        products(form, ROWS, 3, &d, to, quarter, ldz);
      else
        products(form, ROWS, TILE_HIDDEN, &d, to, quarter, ldz);
    }
  }
  for (int64_t r = ROWS * quarter; r < count; ++r) { /* three rows at most */
    for (int64_t i = 0; i < n; ++i) {
      dots d = {rows + r * row_bytes, 0, x + i * ldx, 0, dim, shift};
      products(form, 1, 1, &d, z + i * ldz + r, 0, 0);
    }
  }
}

#define ARGUMENTS const void *rows, int64_t row_bytes, int64_t count, const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, float *z, int64_t ldz
#define BLOCKS(form)                                                              \
  static void blocks_##form(ARGUMENTS) {                                          \
    (void)group;                                                                  \
    tiles(EMBED__FORM_##form, rows, row_bytes, count, x, ldx, n, dim, 0, z, ldz); \
  }
BLOCKS(q8_0)
BLOCKS(q4_0)
BLOCKS(q4_k)
BLOCKS(q5_k)
BLOCKS(q6_k)

static void blocks_i4_group(ARGUMENTS) { /* one body for each group: of a variable one, addresses cost a quarter of the speed */
  if (group == 128)
    tiles(EMBED__FORM_i4_group, rows, row_bytes, count, x, ldx, n, dim, 2, z, ldz);
  else if (group == 64)
    tiles(EMBED__FORM_i4_group, rows, row_bytes, count, x, ldx, n, dim, 1, z, ldz);
  else
    tiles(EMBED__FORM_i4_group, rows, row_bytes, count, x, ldx, n, dim, 0, z, ldz);
}

void embed__dot_blocks_avx512(embed__dot_block_kernels *k) {
  k->tile[EMBED__FORM_i4_group] = blocks_i4_group;
  k->tile[EMBED__FORM_q8_0] = blocks_q8_0;
  k->tile[EMBED__FORM_q4_0] = blocks_q4_0;
  k->tile[EMBED__FORM_q4_k] = blocks_q4_k;
  k->tile[EMBED__FORM_q5_k] = blocks_q5_k;
  k->tile[EMBED__FORM_q6_k] = blocks_q6_k;
}
