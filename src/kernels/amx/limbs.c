/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact products of panels of floats by tiles (limbs.h).
 *
 * Limbs have no infinity. So a panel is made of them only where no number is above EMBED__LIMBS_MOST in size, and of bfloats, which stand unscaled, none
 * is subnormal; another keeps the layout and the multiplier of its own form. Hidden rows are the caller's care (panel.h). */
#include "kernels/amx/limbs.h"
#include "kernels/avx512/panel.h"

enum {
  STEP = 32,                 /* columns of a tile */
  CHAIN_STEPS = 1024 / STEP, /* sums of positive numbers were within 8e-7 of their size then, of 256 columns within 4e-7 */
  HEADER_BYTES = 64,         /* of a panel: whether it is in limbs */
  IN_LIMBS = 1
};

static int64_t steps_of(int64_t dim) { return dim / STEP + (dim % STEP != 0); }
/* Of a row's numbers. */
INLINE int limbs_of(int form) { return form == EMBED__PANEL_F32 ? 3 : form == EMBED__PANEL_F16 ? 2 : 1; }

static embed__panel_kernels plain_kernels(void) {
  embed__panel_kernels k;
  memset(&k, 0, sizeof k);
  embed__panel_avx512(&k);
  return k;
}

/* --- panels --- */

/* Sizes of numbers of 16 bits, as integers: the least but 0, minus 1, and the most. */
typedef struct extent {
  __m512i least, most;
} extent;

INLINE void take_shorts(extent *e, __m512i v) {
  const __m512i size = _mm512_and_si512(v, _mm512_set1_epi16(0x7FFF));
  e->least = _mm512_min_epu16(e->least, _mm512_sub_epi16(size, _mm512_set1_epi16(1)));
  e->most = _mm512_max_epu16(e->most, size);
}

static bool holds(int form, const extent *e) {
  if (form == EMBED__PANEL_F32) return is_held(e->most);
  uint16_t low[32], high[32], least = 0xFFFF, most = 0;
  memcpy(low, &e->least, sizeof low);
  memcpy(high, &e->most, sizeof high);
  for (int i = 0; i < 32; ++i) least = low[i] < least ? low[i] : least, most = high[i] > most ? high[i] : most;
  return form == EMBED__PANEL_F16 ? most < 0x7C00 : least >= 0x0080 - 1 && most <= size_bits(EMBED__LIMBS_MOST) >> 16;
}

/* A row's 32 columns, or as many as are there: a line of each limb's tile. The same of the next 16 rows, apart bytes further on, is fetched: they
 * come from memory as fast as these become limbs. */
INLINE void pack_line(int form, const unsigned char *row, int64_t apart, int64_t columns, unsigned char *to, extent *e) {
  const __mmask32 there = columns < STEP ? (__mmask32)((1u << columns) - 1) : (__mmask32)-1;
  fetch_lines((uintptr_t)row + (uintptr_t)apart, form == EMBED__PANEL_F32 ? 2 : 1);
  if (form == EMBED__PANEL_F32) {
    const __m512 low = _mm512_maskz_loadu_ps((__mmask16)there, row), high = _mm512_maskz_loadu_ps((__mmask16)(there >> WIDTH), row + WIDTH * 4);
    part_floats(LIMBS, true, scaled(low, &e->most), scaled(high, &e->most), 0xFFFF, to, TILE_BYTES);
    return;
  }
  const __m512i v = _mm512_maskz_loadu_epi16(there, row);
  take_shorts(e, v);
  if (form == EMBED__PANEL_BF16)
    _mm512_store_si512(to, v);
  else
    part_floats(2, true, of_halves(_mm512_castsi512_si256(v)), of_halves(_mm512_extracti64x4_epi64(v, 1)), 0xFFFF, to, TILE_BYTES);
}

/* A step of 16 rows, of which count are there: the others are zeros. */
INLINE void pack_step(int form, const unsigned char *rows, int64_t row_bytes, int64_t count, int64_t columns, unsigned char *tiles, extent *e) {
  for (int64_t r = 0; r < count; ++r) pack_line(form, rows + r * row_bytes, TILE_ROWS * row_bytes, columns, tiles + r * 64, e);
  for (int l = 0; count < TILE_ROWS && l < limbs_of(form); ++l) memset(tiles + l * TILE_BYTES + count * 64, 0, (size_t)(TILE_ROWS - count) * 64);
}

/* Bfloats, which are only copied, row after row: in steps across all rows they take half as long again, floats a quarter less. */
INLINE void pack_panel(int form, const unsigned char *rows, int64_t row_bytes, int64_t count, int64_t dim, unsigned char *panel) {
  const int64_t element = form == EMBED__PANEL_F32 ? 4 : 2, step_bytes = limbs_of(form) * TILE_BYTES;
  unsigned char *tiles = panel + HEADER_BYTES;
  extent e = {_mm512_set1_epi32(-1), _mm512_setzero_si512()};
  memset(panel, 0, HEADER_BYTES);
  if (form == EMBED__PANEL_BF16 && count == TILE_ROWS) {
    for (int64_t r = 0; r < count; ++r)
      for (int64_t j = 0; j < dim; j += STEP)
        pack_line(form, rows + r * row_bytes + j * element, TILE_ROWS * row_bytes, dim - j, tiles + j / STEP * step_bytes + r * 64, &e);
  } else {
    for (int64_t j = 0; j < dim; j += STEP, tiles += step_bytes) pack_step(form, rows + j * element, row_bytes, count, dim - j, tiles, &e);
  }
  if (holds(form, &e)) {
    panel[0] = IN_LIMBS;
    return;
  }
  plain_kernels().pack[form](rows, row_bytes, count, dim, 0, panel + HEADER_BYTES, false);
}

/* --- hidden rows: by 16 of them and 32 columns a tile of each limb, a lane for each row; behind them as the plain multiplier has them --- */

static int64_t limbs_bytes(int64_t n, int64_t dim) { return tiles_for(n) * steps_of(dim) * LIMBS * TILE_BYTES; }

static int64_t x_bytes(int64_t n, int64_t dim, int32_t group) {
  (void)group;
  return limbs_bytes(n, dim) + (n * dim * 4 + 63) / 64 * 64;
}

/* 32 columns of 16 rows. A word is two columns: those of rows that are taken apart lie 16 from each other, those of stored words side by side. */
INLINE void pack_columns(bool side_by_side, float scale, const float *x, int64_t ldx, unsigned char *to) {
  const floats by = spread(scale);
  UNROLL for (int w = 0; w < WIDTH; w += 4) {
    floats first[4][1], second[4][1];
    turned_square((const unsigned char *)(x + (side_by_side ? 2 * w : w)), ldx * 4, first);
    turned_square((const unsigned char *)(x + (side_by_side ? 2 * w + 4 : w + WIDTH)), ldx * 4, second);
    UNROLL for (int c = 0; c < 4; ++c) {
      const floats a = !side_by_side ? first[c][0] : c < 2 ? first[2 * c][0] : second[2 * c - 4][0];
      const floats b = !side_by_side ? second[c][0] : c < 2 ? first[2 * c + 1][0] : second[2 * c - 3][0];
      part_floats(LIMBS, true, times(a, by), times(b, by), 0xFFFF, to + (w + c) * 64, TILE_BYTES);
    }
  }
}

/* scale: what makes LIMBS_SCALE's square with that of the panels. */
INLINE void pack_hidden(bool side_by_side, float scale, const float *x, int64_t ldx, int64_t n, int64_t dim, unsigned char *out) {
  unsigned char *to = out;
  for (int64_t i = 0; i < n; i += TILE_ROWS) {
    for (int64_t j = 0; j < dim; j += STEP, to += LIMBS * TILE_BYTES) {
      if (n - i >= TILE_ROWS && dim - j >= STEP) {
        pack_columns(side_by_side, scale, x + i * ldx + j, ldx, to);
        continue;
      }
      float part[TILE_ROWS][STEP];
      memset(part, 0, sizeof part);
      for (int64_t r = i; r < n && r < i + TILE_ROWS; ++r) memcpy(part[r - i], x + r * ldx + j, (size_t)(dim - j < STEP ? dim - j : STEP) * 4);
      pack_columns(side_by_side, scale, part[0], STEP, to);
    }
  }
  plain_kernels().prepared[EMBED__PANEL_F32][EMBED__EXACT].pack_x(x, ldx, n, dim, 0, to);
}

#define PACK_X(name, side_by_side, scale)                                                              \
  static void name(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) { \
    (void)group;                                                                                       \
    pack_hidden(side_by_side, scale, x, ldx, n, dim, packed);                                          \
  }
PACK_X(pack_x_f32, false, LIMBS_SCALE)
PACK_X(pack_x_f16, false, LIMBS_SCALE *LIMBS_SCALE)
PACK_X(pack_x_bf16, true, LIMBS_SCALE *LIMBS_SCALE)

/* --- products --- */

typedef struct job {
  const unsigned char *panels, *x;
  int64_t stride, count, n, dim;
  float *z;
  int64_t ldz;
  float (*sums)[TILE_ROWS][TILE_ROWS]; /* [4], where tiles are stored */
} job;

typedef struct side {
  const unsigned char *tiles;
  int64_t row, lanes;
} side;

INLINE side side_of(const job *j, int64_t panel) {
  const int64_t row = panel * EMBED__PANEL_ROWS, left = j->count - row;
  return (side){j->panels + panel * j->stride + HEADER_BYTES, row, left < EMBED__PANEL_ROWS ? left : EMBED__PANEL_ROWS};
}

INLINE bool is_in_limbs(const job *j, int64_t panel) { return j->panels[panel * j->stride] == IN_LIMBS; }
INLINE bool pair_at(const job *j, int64_t panel) { return panel + 1 < tiles_for(j->count) && is_in_limbs(j, panel) && is_in_limbs(j, panel + 1); }

/* A tile of sums has a line for each row of the panel. */
INLINE void add_side(const job *j, const side *s, int64_t tile, float sums[TILE_ROWS][TILE_ROWS], bool add) {
  const __mmask16 lanes = lanes_mask(s->lanes);
  const int64_t rows = rows_of_tile(j->n, tile);
  for (int64_t v = 0; v < rows; v += 4) {
    floats column[4][1];
    turned_square((const unsigned char *)&sums[0][v], 64, column);
    UNROLL for (int c = 0; c < 4; ++c) {
      if (v + c >= rows) break;
      float *z = j->z + (tile * TILE_ROWS + v + c) * j->ldz + s->row;
      const __m512 sum = _mm512_mul_ps(column[c][0], _mm512_set1_ps(LIMBS_UNSCALE));
      _mm512_mask_storeu_ps(z, lanes, add ? _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, z), sum) : sum);
    }
  }
}

/* Steps [first, end) of one or two panels for one or two tiles of hidden rows. */
INLINE void add_chain(int limbs, bool two_panels, bool two_tiles, const job *j, const side s[SIDES], int64_t tile, int64_t first, int64_t end) {
  const int64_t tile_bytes = steps_of(j->dim) * LIMBS * TILE_BYTES;
  operands o = {.a = s[0].tiles + first * limbs * TILE_BYTES,
                .b = j->x + tile * tile_bytes + first * LIMBS * TILE_BYTES,
                .a_half = j->stride,
                .a_limb = TILE_BYTES,
                .a_row = 64,
                .b_half = tile_bytes,
                .b_limb = TILE_BYTES,
                .b_row = 64};
  begin_squares();
  for (int64_t i = first; i < end; ++i, o.a += limbs * TILE_BYTES, o.b += LIMBS * TILE_BYTES) add_step(limbs, LIMBS, two_panels, two_tiles, &o);
  _tile_stored(SUMS_00, j->sums[0], 64);
  if (two_tiles) _tile_stored(SUMS_01, j->sums[1], 64);
  if (two_panels) _tile_stored(SUMS_10, j->sums[2], 64);
  if (two_panels && two_tiles) _tile_stored(SUMS_11, j->sums[3], 64);
  memory_settles();
  for (int i = 0; i < (two_panels ? 2 : 1); ++i)
    for (int t = 0; t < (two_tiles ? 2 : 1); ++t) add_side(j, &s[i], tile + t, j->sums[2 * i + t], first > 0);
}

INLINE void add_chains(int limbs, bool two_panels, bool two_tiles, const job *j, const side s[SIDES], int64_t tile) {
  const int64_t steps = steps_of(j->dim);
  for (int64_t first = 0; first < steps; first += CHAIN_STEPS)
    add_chain(limbs, two_panels, two_tiles, j, s, tile, first, steps - first < CHAIN_STEPS ? steps : first + CHAIN_STEPS);
}

/* Panel p and, where that is in limbs too, the next one with a tile of hidden rows and, where it is there, the next one. */
INLINE void multiply_squares(int limbs, const job *j, int64_t p, int64_t tile) {
  const bool two_panels = pair_at(j, p), two_tiles = tile + 1 < tiles_for(j->n);
  const side s[SIDES] = {side_of(j, p), side_of(j, two_panels ? p + 1 : p)};
  if (two_panels && two_tiles)
    add_chains(limbs, true, true, j, s, tile);
  else if (two_panels)
    add_chains(limbs, true, false, j, s, tile);
  else if (two_tiles)
    add_chains(limbs, false, true, j, s, tile);
  else
    add_chains(limbs, false, false, j, s, tile);
}

typedef void squares_function(const job *j, int64_t p, int64_t tile);

/* What is smaller, panels or hidden rows, stays in L2 and meets the other two tiles after two: that comes once, maybe from L3. */
INLINE void multiply(int form, squares_function *squares, const job *j, const unsigned char *plain_x) {
  const int64_t tiles = tiles_for(j->n), panels = tiles_for(j->count);
  if (j->n < 1 || j->count < 1) return;
  shape_squares();
  if (panels * limbs_of(form) < tiles * LIMBS) {
    for (int64_t tile = 0; tile < tiles; tile += 2)
      for (int64_t p = 0; p < panels; p += pair_at(j, p) ? 2 : 1)
        if (is_in_limbs(j, p)) squares(j, p, tile);
  } else {
    for (int64_t p = 0; p < panels; p += pair_at(j, p) ? 2 : 1)
      for (int64_t tile = 0; tile < tiles && is_in_limbs(j, p); tile += 2) squares(j, p, tile);
  }
  _tile_release();
  for (int64_t p = 0; p < panels; ++p) {
    const side s = side_of(j, p);
    if (!is_in_limbs(j, p))
      plain_kernels().prepared[form][EMBED__EXACT].multiply(s.tiles, j->stride, j->stride, s.lanes, plain_x, j->n, j->dim, 0, j->z + s.row, j->ldz);
  }
}

#define LIMBS_OF(name, form)                                                                                                                                 \
  static int64_t name##_bytes(int64_t dim, int32_t group) {                                                                                                  \
    int64_t bytes;                                                                                                                                           \
    (void)group;                                                                                                                                             \
    return __builtin_mul_overflow(steps_of(dim), (int64_t)(limbs_of(form) * TILE_BYTES), &bytes) || bytes > INT64_MAX - HEADER_BYTES ? -1                    \
                                                                                                                                     : bytes + HEADER_BYTES; \
  }                                                                                                                                                          \
  static void pack_##name(const void *rows, int64_t row_bytes, int64_t count, int64_t dim, int32_t group, void *panel, bool streaming) {                     \
    (void)group, (void)streaming;                                                                                                                            \
    pack_panel(form, rows, row_bytes, count, dim, panel);                                                                                                    \
  }                                                                                                                                                          \
  static void squares_##name(const job *j, int64_t p, int64_t tile) { multiply_squares(limbs_of(form), j, p, tile); }                                        \
  static void multiply_##name(const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, int64_t dim, int32_t group,      \
                              float *z, int64_t ldz) {                                                                                                       \
    _Alignas(64) float sums[2 * SIDES][TILE_ROWS][TILE_ROWS] = {{{0}}}; /* sanitizers do not see tiles that are stored */                                    \
    (void)group, (void)soon;                                                                                                                                 \
    multiply(form, squares_##name, &(job){rows, packed, stride, count, n, dim, z, ldz, sums}, (const unsigned char *)packed + limbs_bytes(n, dim));          \
  }
LIMBS_OF(f32, EMBED__PANEL_F32)
LIMBS_OF(f16, EMBED__PANEL_F16)
LIMBS_OF(bf16, EMBED__PANEL_BF16)

#define USE(name, form, pack_x)                   \
  k->bytes[embed__limbs_of(form)] = name##_bytes; \
  k->pack[embed__limbs_of(form)] = pack_##name;   \
  k->prepared[embed__limbs_of(form)][EMBED__EXACT] = (embed__multiplier){x_bytes, pack_x, multiply_##name};

void embed__limbs_amx(embed__panel_kernels *k) {
  USE(f32, EMBED__PANEL_F32, pack_x_f32)
  USE(f16, EMBED__PANEL_F16, pack_x_f16)
  USE(bf16, EMBED__PANEL_BF16, pack_x_bf16)
}
