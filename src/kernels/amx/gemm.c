/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of words of two bfloats: 32 rows of A, by rows for a chain in one run, meet all strips; with each strip they are four tiles of sums. */
#include "kernels/gemm.h"

#include "kernels/amx/tiles.h"

enum {
  ROWS = 32,                         /* of A together */
  WORDS = 16,                        /* of a step: a tile's row */
  STEPS = EMBED__PAIR_CHAIN / WORDS, /* of a chain */
  TILE_WORDS = TILE_ROWS * WORDS,    /* of A's, and of B's halves of a strip */
  STRIP_BYTES = 4 * EMBED__STRIP,    /* of a word of k */
};

/* Tiles: A is one after the other, B the halves of a strip, sums of the rows' first and second half with either. */
#define A            0
#define B_LEFT       1
#define B_RIGHT      2
#define FIRST_LEFT   3
#define FIRST_RIGHT  4
#define SECOND_LEFT  5
#define SECOND_RIGHT 6

INLINE __mmask16 few(int64_t count) { return (__mmask16)(count >= WORDS ? 0xFFFF : count <= 0 ? 0 : (1u << count) - 1); }

/* One tile of A: to[r][w], zeros where there are fewer rows or words. */
INLINE void take_rows(const uint32_t *a, int64_t lda, int64_t rows, int64_t words, uint32_t *to) {
  for (int64_t r = 0; r < TILE_ROWS; ++r) _mm512_store_si512(to + r * WORDS, _mm512_maskz_loadu_epi32(r < rows ? few(words) : 0, a + (r < rows ? r : 0) * lda));
}

/* The same where A stands by columns: 16 x 16 words turned round. */
INLINE void take_columns(const uint32_t *a, int64_t lda, int64_t rows, int64_t words, uint32_t *to) {
  __m512i v[16], u[16];
  UNROLL for (int w = 0; w < 16; ++w) v[w] = _mm512_maskz_loadu_epi32(w < words ? few(rows) : 0, a + (w < words ? w : 0) * lda);
  UNROLL for (int i = 0; i < 16; i += 2) {
    u[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    u[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  UNROLL for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(u[i], u[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(u[i], u[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(u[i + 1], u[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(u[i + 1], u[i + 3]);
  }
  UNROLL for (int i = 0; i < 4; ++i) { /* v[4 q + i]: words 4 q .. 4 q + 3 of rows i, 4 + i, 8 + i, 12 + i */
    const __m512i low01 = _mm512_shuffle_i32x4(v[i], v[4 + i], 0x88), high01 = _mm512_shuffle_i32x4(v[i], v[4 + i], 0xDD);
    const __m512i low23 = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0x88), high23 = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0xDD);
    _mm512_store_si512(to + i * WORDS, _mm512_shuffle_i32x4(low01, low23, 0x88));
    _mm512_store_si512(to + (4 + i) * WORDS, _mm512_shuffle_i32x4(high01, high23, 0x88));
    _mm512_store_si512(to + (8 + i) * WORDS, _mm512_shuffle_i32x4(low01, low23, 0xDD));
    _mm512_store_si512(to + (12 + i) * WORDS, _mm512_shuffle_i32x4(high01, high23, 0xDD));
  }
}

typedef struct block {
  _Alignas(64) uint32_t a[2 * STEPS * TILE_WORDS]; /* [step][half of the rows] */
  uint32_t last_b[WORDS * EMBED__STRIP];           /* the last words of a strip, and zeros */
  float sums[TILE_WORDS];
} block;

INLINE void take_block(const embed__gemm *g, bool by_columns, int64_t row, int64_t j, int64_t words, block *b) {
  for (int64_t s = 0; s < (words + WORDS - 1) / WORDS; ++s) {
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t first = row + half * TILE_ROWS, at = j + s * WORDS, rows = g->m - first;
      const uint32_t *a = (const uint32_t *)g->a + (rows > 0 ? by_columns ? at * g->lda + first : first * g->lda + at : 0);
      uint32_t *to = b->a + (2 * s + half) * TILE_WORDS;
      if (by_columns)
        take_columns(a, g->lda, rows, words - s * WORDS, to);
      else
        take_rows(a, g->lda, rows, words - s * WORDS, to);
    }
  }
}

/* 32 rows and a strip for a chain, which begins at 0. */
INLINE void sum_chain(block *b, const uint32_t *strip, int64_t words, uintptr_t soon, int64_t lines) {
  const uint32_t *a = b->a;
  if (words % WORDS) memcpy(b->last_b, strip + words / WORDS * WORDS * EMBED__STRIP, (size_t)(words % WORDS * STRIP_BYTES));
  memory_settles();
  _tile_zero(FIRST_LEFT);
  _tile_zero(FIRST_RIGHT);
  _tile_zero(SECOND_LEFT);
  _tile_zero(SECOND_RIGHT);
  for (int64_t w = 0; w < words; w += WORDS, a += 2 * TILE_WORDS, soon += (uintptr_t)(64 * lines)) {
    const uint32_t *from = words - w < WORDS ? b->last_b : strip + w * EMBED__STRIP;
    fetch_lines(soon, lines);
    _tile_loadd(A, a, 64);
    _tile_loadd(B_LEFT, from, STRIP_BYTES);
    _tile_dpbf16ps(FIRST_LEFT, A, B_LEFT);
    _tile_loadd(B_RIGHT, from + WORDS, STRIP_BYTES);
    _tile_dpbf16ps(FIRST_RIGHT, A, B_RIGHT);
    _tile_loadd(A, a + TILE_WORDS, 64);
    _tile_dpbf16ps(SECOND_LEFT, A, B_LEFT);
    _tile_dpbf16ps(SECOND_RIGHT, A, B_RIGHT);
  }
}

/* One tile of sums, by way of L1. */
INLINE void keep_tile(const embed__gemm *g, const float *sums, int64_t row, int64_t column, bool add) {
  const __mmask16 columns = few(g->n - column);
  memory_settles();
  for (int64_t r = 0; r < (g->m - row < TILE_ROWS ? g->m - row : TILE_ROWS); ++r) {
    float *c = g->c + (row + r) * g->ldc + column;
    const __m512 sum = _mm512_load_ps(sums + r * WORDS);
    _mm512_mask_storeu_ps(c, columns, add ? _mm512_add_ps(_mm512_maskz_loadu_ps(columns, c), sum) : sum);
  }
}

INLINE void keep_sums(const embed__gemm *g, block *b, int64_t row, int64_t column, bool add) {
  _tile_stored(FIRST_LEFT, b->sums, 64);
  keep_tile(g, b->sums, row, column, add);
  _tile_stored(FIRST_RIGHT, b->sums, 64);
  keep_tile(g, b->sums, row, column + WORDS, add);
  _tile_stored(SECOND_LEFT, b->sums, 64);
  keep_tile(g, b->sums, row + TILE_ROWS, column, add);
  _tile_stored(SECOND_RIGHT, b->sums, 64);
  keep_tile(g, b->sums, row + TILE_ROWS, column + WORDS, add);
}

INLINE void gemm(bool by_columns, const embed__gemm *g) {
  const int64_t chains = (g->k + EMBED__PAIR_CHAIN - 1) / EMBED__PAIR_CHAIN, tasks = chains * embed__strips(g->n) * ((g->m + ROWS - 1) / ROWS);
  const int64_t lines = tasks > 0 ? (g->soon_bytes / 64 + tasks * STEPS - 1) / (tasks * STEPS) : 0; /* of soon, a step's */
  uintptr_t soon = (uintptr_t)g->soon;
  const uintptr_t soon_end = soon + (uintptr_t)g->soon_bytes;
  block b;
  memset(b.last_b, 0, sizeof b.last_b);
  memset(b.sums, 0, sizeof b.sums); /* sanitizers do not see tiles that are stored */
  tile_shapes s = {.palette = 1};
  for (int tile = A; tile <= SECOND_RIGHT; ++tile) shape(&s, tile, TILE_ROWS, 64);
  memory_settles();
  _tile_loadconfig(&s);
  for (int64_t j = 0; j < g->k || j == 0; j += EMBED__PAIR_CHAIN) {
    const int64_t words = g->k - j < EMBED__PAIR_CHAIN ? g->k - j : EMBED__PAIR_CHAIN;
    for (int64_t row = 0; row < g->m; row += ROWS) {
      take_block(g, by_columns, row, j, words, &b);
      for (int64_t column = 0; column < g->n; column += EMBED__STRIP) {
        const int64_t fetched = soon < soon_end ? lines : 0;
        sum_chain(&b, (const uint32_t *)g->b + column * g->k + j * EMBED__STRIP, words, soon, fetched);
        soon += (uintptr_t)(64 * fetched * STEPS);
        keep_sums(g, &b, row, column, g->add || j > 0);
      }
    }
  }
  _tile_release();
}

static void by_rows(const embed__gemm *g) { gemm(false, g); }
static void by_columns(const embed__gemm *g) { gemm(true, g); }

void embed__gemm_amx(embed__gemm_kernels *k) {
  k->pairs_by_rows = by_rows;
  k->pairs_by_columns = by_columns;
}
