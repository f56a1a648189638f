/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of words of two bfloats, and of floats in limbs (limbs.h): 32 rows of A, where they do not lie so for a chain as tiles in one run, meet
 * all strips. */
#include "kernels/gemm.h"

#include "kernels/amx/limbs.h"

enum {
  ROWS = 32,                         /* of A together */
  WORDS = 16,                        /* of a step: a tile's row */
  STEPS = EMBED__PAIR_CHAIN / WORDS, /* of a chain */
  TILE_WORDS = TILE_ROWS * WORDS,    /* of A's, and of B's halves of a strip */
  STRIP_BYTES = 4 * EMBED__STRIP,    /* of a word of k */
  LAST_WORDS = WORDS * EMBED__STRIP  /* of B's last step */
};

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
  uint32_t *a;      /* [STEPS][limbs][2 halves of the rows][TILE_WORDS], where A's tiles are not loaded from where it is */
  uint32_t *last_b; /* [limbs][LAST_WORDS] the last words of a strip, and zeros */
  float *sums;      /* [TILE_WORDS] */
} block;

INLINE void take_block(const embed__gemm *g, bool by_columns, int limbs, int64_t row, int64_t j, int64_t words, const block *b) {
  uint32_t *to = b->a;
  for (int64_t w = 0; w < words; w += WORDS) {
    for (int l = 0; l < limbs; ++l) {
      for (int64_t half = 0; half < 2; ++half, to += TILE_WORDS) {
        const int64_t first = row + half * TILE_ROWS, at = j + w, rows = g->m - first;
        const uint32_t *a = (const uint32_t *)g->a + l * g->a_plane + (rows > 0 ? by_columns ? at * g->lda + first : first * g->lda + at : 0);
        if (by_columns)
          take_columns(a, g->lda, rows, words - w, to);
        else
          take_rows(a, g->lda, rows, words - w, to);
      }
    }
  }
}

/* Whether these rows of A are loaded as they lie: whole tiles, each row of them a line. */
INLINE bool lies_in_tiles(const embed__gemm *g, bool by_columns, int64_t row, int64_t words) {
  return !by_columns && g->m - row >= ROWS && words % WORDS == 0 && g->lda % WORDS == 0 && g->a_plane % WORDS == 0 && (uintptr_t)g->a % 64 == 0;
}

/* What is fetched in a step: of the tiles' part of C, and of what the caller reads next. */
typedef struct fetch {
  const float *c, *c_end;
  int64_t ldc;
  uintptr_t soon;
  int64_t soon_lines;
} fetch;

enum { C_ROWS = ROWS / STEPS /* a step's */ };

INLINE void fetch_step(fetch *f) {
  for (int r = 0; r < C_ROWS && f->c < f->c_end; ++r, f->c += f->ldc) {
    _mm_prefetch((const char *)f->c, _MM_HINT_T0);
    _mm_prefetch((const char *)(f->c + EMBED__STRIP - 1), _MM_HINT_T0);
  }
  fetch_lines(f->soon, f->soon_lines);
  f->soon += (uintptr_t)(64 * f->soon_lines);
}

/* 32 rows and a strip for a chain, which begins at 0. o: A's part; a_step: bytes of it in a step. */
INLINE void sum_chain(int limbs, const embed__gemm *g, const block *b, operands o, int64_t a_step, const uint32_t *strip, int64_t words, fetch *f) {
  o.b = (const unsigned char *)strip;
  o.b_half = 64;
  o.b_limb = 4 * g->b_plane;
  o.b_row = STRIP_BYTES;
  const int64_t rest = words % WORDS;
  for (int l = 0; rest && l < limbs; ++l)
    memcpy(b->last_b + l * LAST_WORDS, strip + l * g->b_plane + (words - rest) * EMBED__STRIP, (size_t)(rest * STRIP_BYTES));
  begin_squares();
  for (int64_t w = 0; w < words; w += WORDS, o.a += a_step, o.b += WORDS * STRIP_BYTES) {
    fetch_step(f);
    if (words - w < WORDS) {
      o.b = (const unsigned char *)b->last_b;
      o.b_limb = 4 * LAST_WORDS;
    }
    add_step(limbs, limbs, true, true, &o);
  }
}

/* One tile of sums, by way of L1. */
INLINE void keep_tile(int limbs, const embed__gemm *g, const float *sums, int64_t row, int64_t column, bool add) {
  const __mmask16 columns = few(g->n - column);
  memory_settles();
  for (int64_t r = 0; r < (g->m - row < TILE_ROWS ? g->m - row : TILE_ROWS); ++r) {
    float *c = g->c + (row + r) * g->ldc + column;
    const __m512 stored = _mm512_load_ps(sums + r * WORDS), sum = limbs > 1 ? _mm512_mul_ps(stored, _mm512_set1_ps(LIMBS_UNSCALE)) : stored;
    _mm512_mask_storeu_ps(c, columns, add ? _mm512_add_ps(_mm512_maskz_loadu_ps(columns, c), sum) : sum);
  }
}

INLINE void keep_sums(int limbs, const embed__gemm *g, float *sums, int64_t row, int64_t column, bool add) {
  _tile_stored(SUMS_00, sums, 64);
  keep_tile(limbs, g, sums, row, column, add);
  _tile_stored(SUMS_01, sums, 64);
  keep_tile(limbs, g, sums, row, column + WORDS, add);
  _tile_stored(SUMS_10, sums, 64);
  keep_tile(limbs, g, sums, row + TILE_ROWS, column, add);
  _tile_stored(SUMS_11, sums, 64);
  keep_tile(limbs, g, sums, row + TILE_ROWS, column + WORDS, add);
}

INLINE void gemm(bool by_columns, int limbs, const embed__gemm *g, const block *b) {
  const int64_t chains = (g->k + EMBED__PAIR_CHAIN - 1) / EMBED__PAIR_CHAIN, tasks = chains * embed__strips(g->n) * ((g->m + ROWS - 1) / ROWS);
  const int64_t lines = tasks > 0 ? (g->soon_bytes / 64 + tasks * STEPS - 1) / (tasks * STEPS) : 0; /* of soon, a step's */
  const uintptr_t soon_end = (uintptr_t)g->soon + (uintptr_t)g->soon_bytes;
  fetch f = {.ldc = g->ldc, .soon = (uintptr_t)g->soon};
  memset(b->last_b, 0, (size_t)limbs * LAST_WORDS * sizeof *b->last_b);
  memset(b->sums, 0, TILE_WORDS * sizeof *b->sums); /* sanitizers do not see tiles that are stored */
  shape_squares();
  for (int64_t j = 0; j < g->k || j == 0; j += EMBED__PAIR_CHAIN) {
    const int64_t words = g->k - j < EMBED__PAIR_CHAIN ? g->k - j : EMBED__PAIR_CHAIN;
    const bool add = g->add || j > 0;
    for (int64_t row = 0; row < g->m; row += ROWS) {
      operands o = {.a = (const unsigned char *)b->a, .a_half = TILE_BYTES, .a_limb = 2 * TILE_BYTES, .a_row = 64};
      const bool lies = lies_in_tiles(g, by_columns, row, words);
      if (lies)
        o = (operands){.a = (const unsigned char *)((const uint32_t *)g->a + row * g->lda + j),
                       .a_half = 4 * TILE_ROWS * g->lda,
                       .a_limb = 4 * g->a_plane,
                       .a_row = 4 * g->lda};
      else
        take_block(g, by_columns, limbs, row, j, words, b);
      for (int64_t column = 0; column < g->n; column += EMBED__STRIP) {
        f.c = g->c + row * g->ldc + column;
        f.c_end = add ? g->c + (g->m - row < ROWS ? g->m : row + ROWS) * g->ldc : f.c;
        f.soon_lines = f.soon < soon_end ? lines : 0;
        sum_chain(limbs, g, b, o, lies ? 64 : limbs * 2 * TILE_BYTES, (const uint32_t *)g->b + column * g->k + j * EMBED__STRIP, words, &f);
        keep_sums(limbs, g, b->sums, row, column, add);
      }
    }
  }
  _tile_release();
}

/* Room for a block on the stack. */
#define GEMM(name, by_columns, limbs)                                                    \
  static void name(const embed__gemm *g) {                                               \
    _Alignas(64) uint32_t a[2 * STEPS * (limbs)*TILE_WORDS], last_b[(limbs)*LAST_WORDS]; \
    _Alignas(64) float sums[TILE_WORDS];                                                 \
    gemm(by_columns, limbs, g, &(block){a, last_b, sums});                               \
  }
GEMM(pairs_by_rows, false, 1)
GEMM(pairs_by_columns, true, 1)
GEMM(limbs_by_rows, false, LIMBS)
GEMM(limbs_by_columns, true, LIMBS)

INLINE __m512 few_floats(const float *x, int64_t at, int64_t n) { return _mm512_maskz_loadu_ps(few(n - at), x + (at < n ? at : 0)); }

static bool limbs_along(const float *x, int64_t n, uint32_t *out, int64_t plane) {
  __m512i most = _mm512_setzero_si512();
  for (int64_t j = 0; j < n; j += 2 * WORDS) {
    const __m512 first = scaled(few_floats(x, j, n), &most), second = scaled(few_floats(x, j + WORDS, n), &most);
    part_floats(LIMBS, false, first, second, few((n - j + 1) / 2), (unsigned char *)(out + j / 2), 4 * plane);
  }
  return is_held(most);
}

static bool limbs_across(const float *first, const float *second, int64_t n, uint32_t *out, int64_t plane) {
  __m512i most = _mm512_setzero_si512();
  for (int64_t i = 0; i < n; i += WORDS) {
    const __m512 even = scaled(few_floats(first, i, n), &most), odd = second ? scaled(few_floats(second, i, n), &most) : _mm512_setzero_ps();
    part_floats(LIMBS, true, even, odd, few(n - i), (unsigned char *)(out + i), 4 * plane);
  }
  return is_held(most);
}

void embed__gemm_amx(embed__gemm_kernels *k) {
  k->pairs_by_rows = pairs_by_rows;
  k->pairs_by_columns = pairs_by_columns;
  k->limbs_by_rows = limbs_by_rows;
  k->limbs_by_columns = limbs_by_columns;
  k->limbs_along = limbs_along;
  k->limbs_across = limbs_across;
}
