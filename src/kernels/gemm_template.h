/* SPDX-License-Identifier: BSD-3-Clause */
/* The products of gemm.h in the words of a level's vector.h, included before with GEMM_ROWS: the rows of A in a tile. A tile is
 * GEMM_ROWS x 2 vectors of sums, which stay in registers for a chain; a strip's chain (32 KiB) stays in L1 and meets all rows.
 * GEMM_PAIRS: elements are words of two bfloats, and the including file says how one is spread and multiplied. */
#include "kernels/gemm.h"

#ifdef GEMM_PAIRS
enum { CHAIN = EMBED__PAIR_CHAIN };
#else
enum { CHAIN = EMBED__GEMM_CHAIN };
INLINE floats spread_element(const float *at) { return spread(*at); }
INLINE floats multiply_add(floats a, floats b, floats sum) { return times_plus(a, b, sum); }
#endif

enum { TILE_COLUMNS = 2 * WIDTH, LINE = 64, STEPS = 4 };

/* A tile walks its rows of A by pointers, more than there are registers: four steps pay for one walk, and between them is room for
 * fetching what comes from memory: the tile's part of C, then what the caller reads next. All at once they would fill the buffers
 * that A and B come through. Measured (Sapphire Rapids, one thread, peak 172 GFLOP/s): 140 step by step, 160 so. */
typedef struct gemm_tile {
  const float *a, *b;
  int64_t lda, k; /* of this chain */
  float *c;
  int64_t ldc, columns; /* that are stored */
  bool add;
  uintptr_t soon, soon_end;
} gemm_tile;

INLINE void keep_sums(int rows, int vectors, const gemm_tile *t, floats sum[][2]) {
  UNROLL for (int r = 0; r < rows; ++r) {
    UNROLL for (int v = 0; v < vectors; ++v) {
      float *c = t->c + r * t->ldc + v * WIDTH;
      int64_t columns = t->columns - v * WIDTH;
      if (columns >= WIDTH)
        store(c, t->add ? plus(load(c), sum[r][v]) : sum[r][v]);
      else if (columns > 0)
        store_part(c, columns, t->add ? plus(load_part(c, columns), sum[r][v]) : sum[r][v]);
    }
  }
}

INLINE void add_step(bool by_columns, int rows, int vectors, const float *a, int64_t lda, const float *b, int64_t j, floats sum[][2]) {
  floats w[2];
  UNROLL for (int v = 0; v < vectors; ++v) w[v] = load(b + j * EMBED__STRIP + v * WIDTH);
  UNROLL for (int r = 0; r < rows; ++r) {
    floats by = spread_element(by_columns ? a + j * lda + r : a + r * lda + j);
    UNROLL for (int v = 0; v < vectors; ++v) sum[r][v] = multiply_add(by, w[v], sum[r][v]);
  }
}

INLINE void sum_chain(bool by_columns, int rows, int vectors, const gemm_tile *t) {
  floats sum[GEMM_ROWS][2];
  const float *a = t->a, *b = t->b;
  const int64_t lda = t->lda, k = t->k;
  const float *c = t->c, *past_c = c + rows * t->ldc;
  uintptr_t soon = t->soon;
  UNROLL for (int r = 0; r < rows; ++r) { UNROLL for (int v = 0; v < vectors; ++v) sum[r][v] = zeros(); }
  int64_t j = 0;
  for (; j + STEPS <= k; j += STEPS) {
    if (c < past_c) {
      prefetch((uintptr_t)c);
      prefetch((uintptr_t)(c + TILE_COLUMNS - 1));
      c += t->ldc;
    } else if (soon < t->soon_end) {
      prefetch(soon);
      soon += LINE;
    }
    UNROLL for (int s = 0; s < STEPS; ++s) add_step(by_columns, rows, vectors, a, lda, b, j + s, sum);
  }
  for (; j < k; ++j) add_step(by_columns, rows, vectors, a, lda, b, j, sum);
  for (; soon < t->soon_end; soon += LINE) prefetch(soon);
  keep_sums(rows, vectors, t, sum);
}

#ifdef ONE_BODY
static void sum_rows(bool by_columns, int rows, const gemm_tile *t) { sum_chain(by_columns, rows, 2, t); }
#else
#define ROWS_OF(R)                                                 \
  case R:                                                          \
    if (R > GEMM_ROWS) break;                                      \
    if (t->columns > WIDTH)                                        \
      sum_chain(by_columns, R <= GEMM_ROWS ? R : GEMM_ROWS, 2, t); \
    else                                                           \
      sum_chain(by_columns, R <= GEMM_ROWS ? R : GEMM_ROWS, 1, t); \
    break;
INLINE void sum_rows(bool by_columns, int rows, const gemm_tile *t) {
  switch (rows) {
    ROWS_OF(1) ROWS_OF(2) ROWS_OF(3) ROWS_OF(4) ROWS_OF(5) ROWS_OF(6) ROWS_OF(7) ROWS_OF(8) ROWS_OF(9) ROWS_OF(10) ROWS_OF(11) ROWS_OF(12) default : break;
  }
}
#endif

INLINE void gemm(bool by_columns, const embed__gemm *g) {
  const int64_t step = by_columns ? g->lda : 1, stride = by_columns ? 1 : g->lda;
  const int64_t chains = (g->k + CHAIN - 1) / CHAIN, across = (g->n + TILE_COLUMNS - 1) / TILE_COLUMNS;
  const int64_t tiles = chains * across * ((g->m + GEMM_ROWS - 1) / GEMM_ROWS);
  const int64_t part = tiles > 0 ? (g->soon_bytes / LINE + tiles - 1) / tiles * LINE : 0; /* of soon, a tile's */
  int64_t fetched = 0;
  for (int64_t j = 0; j < g->k || j == 0; j += CHAIN) {
    gemm_tile t = {.lda = g->lda, .k = g->k - j < CHAIN ? g->k - j : CHAIN, .ldc = g->ldc, .add = g->add || j > 0};
    for (int64_t column = 0; column < g->n; column += TILE_COLUMNS) {
      t.columns = g->n - column;
      t.b = (const float *)g->b + column / EMBED__STRIP * EMBED__STRIP * g->k + j * EMBED__STRIP + column % EMBED__STRIP;
      for (int64_t row = 0; row < g->m; row += GEMM_ROWS) {
        t.a = (const float *)g->a + row * stride + j * step;
        t.c = g->c + row * g->ldc + column;
        t.soon = (uintptr_t)g->soon + (uintptr_t)fetched;
        fetched = g->soon_bytes - fetched < part ? g->soon_bytes : fetched + part;
        t.soon_end = (uintptr_t)g->soon + (uintptr_t)fetched;
        sum_rows(by_columns, (int)(g->m - row < GEMM_ROWS ? g->m - row : GEMM_ROWS), &t);
      }
    }
  }
}

static void gemm_by_rows(const embed__gemm *g) { gemm(false, g); }
static void gemm_by_columns(const embed__gemm *g) { gemm(true, g); }

#ifndef GEMM_PAIRS
static void use_gemm(embed__gemm_kernels *k) {
  k->by_rows = gemm_by_rows;
  k->by_columns = gemm_by_columns;
  k->rows = GEMM_ROWS;
}
#endif
