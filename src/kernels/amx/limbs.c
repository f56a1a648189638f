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

/* 16 rows of 32 columns. */
INLINE void pack_step(int form, const unsigned char *rows, int64_t row_bytes, unsigned char *tiles, extent *e) {
  const int across = form == EMBED__PANEL_F32 ? STEP : STEP / 2;
  UNROLL for (int w = 0; w < across; w += 4) {
    floats column[4][1];
    turned_square(rows + 4 * w, row_bytes, column);
    UNROLL for (int c = 0; c < 4; ++c) {
      const __m512i word = _mm512_castps_si512(column[c][0]);
      if (form == EMBED__PANEL_F32) {
        column[c][0] = scaled(column[c][0], &e->most);
        if (c % 2) part_floats(LIMBS, true, column[c - 1][0], column[c][0], 0xFFFF, tiles + (w + c) / 2 * 64, TILE_BYTES);
        continue;
      }
      take_shorts(e, word);
      if (form == EMBED__PANEL_BF16)
        _mm512_store_si512(tiles + (w + c) * 64, word);
      else
        part_floats(2, true, of_halves(_mm512_cvtepi32_epi16(word)), of_halves(_mm512_cvtepi32_epi16(_mm512_srli_epi32(word, 16))), 0xFFFF,
                    tiles + (w + c) * 64, TILE_BYTES);
    }
  }
}

INLINE void pack_panel(int form, const unsigned char *rows, int64_t row_bytes, int64_t count, int64_t dim, unsigned char *panel) {
  const int64_t element = form == EMBED__PANEL_F32 ? 4 : 2;
  unsigned char *tiles = panel + HEADER_BYTES;
  extent e = {_mm512_set1_epi32(-1), _mm512_setzero_si512()};
  memset(panel, 0, HEADER_BYTES);
  for (int64_t j = 0; j < dim; j += STEP, tiles += limbs_of(form) * TILE_BYTES) {
    if (count == EMBED__PANEL_ROWS && j + STEP <= dim) {
      pack_step(form, rows + j * element, row_bytes, tiles, &e);
      continue;
    }
    unsigned char part[EMBED__PANEL_ROWS][STEP * 4];
    memset(part, 0, sizeof part);
    for (int64_t r = 0; r < count; ++r) memcpy(part[r], rows + r * row_bytes + j * element, (size_t)((dim - j < STEP ? dim - j : STEP) * element));
    pack_step(form, part[0], sizeof part[0], tiles, &e);
  }
  if (holds(form, &e)) {
    panel[0] = IN_LIMBS;
    return;
  }
  plain_kernels().pack[form](rows, row_bytes, count, dim, 0, panel + HEADER_BYTES, false);
}

/* --- hidden rows: by 16 of them and 32 columns a tile of each limb; behind them as the plain multiplier has them --- */

static int64_t limbs_bytes(int64_t n, int64_t dim) { return tiles_for(n) * steps_of(dim) * LIMBS * TILE_BYTES; }

static int64_t x_bytes(int64_t n, int64_t dim, int32_t group) {
  (void)group;
  return limbs_bytes(n, dim) + (n * dim * 4 + 63) / 64 * 64;
}

/* scale: what makes LIMBS_SCALE's square with that of the panels. */
INLINE void pack_hidden(float scale, const float *x, int64_t ldx, int64_t n, int64_t dim, unsigned char *out) {
  const int64_t tile_bytes = steps_of(dim) * LIMBS * TILE_BYTES;
  const floats by = spread(scale);
  if (n % TILE_ROWS) memset(out + (tiles_for(n) - 1) * tile_bytes, 0, (size_t)tile_bytes);
  for (int64_t i = 0; i < n; ++i) {
    const float *row = x + i * ldx;
    unsigned char *to = out + i / TILE_ROWS * tile_bytes + i % TILE_ROWS * 64;
    for (int64_t j = 0; j < dim; j += STEP, to += LIMBS * TILE_BYTES) {
      const int64_t left = dim - j;
      const floats low = left >= WIDTH ? load(row + j) : load_part(row + j, left);
      const floats high = left >= STEP ? load(row + j + WIDTH) : left > WIDTH ? load_part(row + j + WIDTH, left - WIDTH) : zeros();
      part_floats(LIMBS, false, times(low, by), times(high, by), 0xFFFF, to, TILE_BYTES);
    }
  }
  plain_kernels().prepared[EMBED__PANEL_F32][EMBED__EXACT].pack_x(x, ldx, n, dim, 0, out + limbs_bytes(n, dim));
}

static void pack_x(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) {
  (void)group;
  pack_hidden(LIMBS_SCALE, x, ldx, n, dim, packed);
}
static void pack_x_of_shorts(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) {
  (void)group;
  pack_hidden(LIMBS_SCALE * LIMBS_SCALE, x, ldx, n, dim, packed);
}

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
  int64_t row, lanes; /* lanes 0: it is the other side once more */
} side;

INLINE side side_of(const job *j, int64_t panel) {
  const int64_t row = panel * EMBED__PANEL_ROWS, left = j->count - row;
  return (side){j->panels + panel * j->stride + HEADER_BYTES, row, left < EMBED__PANEL_ROWS ? left : EMBED__PANEL_ROWS};
}

INLINE void add_side(const job *j, const side *s, int64_t tile, float sums[TILE_ROWS][TILE_ROWS], bool add) {
  const __mmask16 lanes = lanes_mask(s->lanes);
  for (int64_t v = 0; v < rows_of_tile(j->n, tile); ++v) {
    float *z = j->z + (tile * TILE_ROWS + v) * j->ldz + s->row;
    const __m512 sum = _mm512_mul_ps(_mm512_load_ps(sums[v]), _mm512_set1_ps(LIMBS_UNSCALE));
    _mm512_mask_storeu_ps(z, lanes, add ? _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, z), sum) : sum);
  }
}

/* Steps [first, end) of two panels for one or two tiles of hidden rows. */
INLINE void add_chain(int limbs, bool both, job *j, const side s[SIDES], int64_t tile, int64_t first, int64_t end) {
  const int64_t tile_bytes = steps_of(j->dim) * LIMBS * TILE_BYTES;
  operands o = {.a = j->x + tile * tile_bytes + first * LIMBS * TILE_BYTES,
                .b = s[0].tiles + first * limbs * TILE_BYTES,
                .a_half = tile_bytes,
                .a_limb = TILE_BYTES,
                .b_half = s[1].tiles - s[0].tiles,
                .b_limb = TILE_BYTES,
                .b_row = 64};
  begin_squares();
  for (int64_t i = first; i < end; ++i, o.a += LIMBS * TILE_BYTES, o.b += limbs * TILE_BYTES) add_step(LIMBS, limbs, both, &o);
  _tile_stored(SUMS_00, j->sums[0], 64);
  _tile_stored(SUMS_01, j->sums[1], 64);
  if (both) {
    _tile_stored(SUMS_10, j->sums[2], 64);
    _tile_stored(SUMS_11, j->sums[3], 64);
  }
  memory_settles();
  for (int i = 0; i < (both ? 4 : 2); ++i) add_side(j, &s[i % 2], tile + i / 2, j->sums[i], first > 0);
}

INLINE void multiply_panels(int limbs, job *j, const side s[SIDES]) {
  const int64_t steps = steps_of(j->dim), tiles = tiles_for(j->n);
  for (int64_t first = 0; first < steps; first += CHAIN_STEPS) {
    const int64_t end = steps - first < CHAIN_STEPS ? steps : first + CHAIN_STEPS;
    int64_t tile = 0;
    for (; tile + 1 < tiles; tile += 2) add_chain(limbs, true, j, s, tile, first, end);
    if (tile < tiles) add_chain(limbs, false, j, s, tile, first, end);
  }
}

INLINE void multiply(int form, const unsigned char *panels, int64_t stride, int64_t count, const unsigned char *packed, int64_t n, int64_t dim, float *z,
                     int64_t ldz) {
  _Alignas(64) float sums[2 * SIDES][TILE_ROWS][TILE_ROWS] = {{{0}}}; /* sanitizers do not see tiles that are stored */
  job j = {panels, packed, stride, count, n, dim, z, ldz, sums};
  const int64_t all = tiles_for(count);
  if (n < 1 || count < 1) return;
  shape_squares();
  for (int64_t p = 0; p < all;) {
    side s[SIDES] = {side_of(&j, p)};
    if (panels[p * stride] != IN_LIMBS) {
      plain_kernels().prepared[form][EMBED__EXACT].multiply(s[0].tiles, stride, stride, s[0].lanes, packed + limbs_bytes(n, dim), n, dim, 0, z + s[0].row, ldz);
      ++p;
      continue;
    }
    const bool pair = p + 1 < all && panels[(p + 1) * stride] == IN_LIMBS;
    s[1] = pair ? side_of(&j, p + 1) : (side){s[0].tiles, s[0].row, 0};
    multiply_panels(limbs_of(form), &j, s);
    p += pair ? 2 : 1;
  }
  _tile_release();
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
  static void multiply_##name(const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, int64_t dim, int32_t group,      \
                              float *z, int64_t ldz) {                                                                                                       \
    (void)group, (void)soon;                                                                                                                                 \
    multiply(form, rows, stride, count, packed, n, dim, z, ldz);                                                                                             \
  }
LIMBS_OF(f32, EMBED__PANEL_F32)
LIMBS_OF(f16, EMBED__PANEL_F16)
LIMBS_OF(bf16, EMBED__PANEL_BF16)

#define USE(name, form, pack_x)                   \
  k->bytes[embed__limbs_of(form)] = name##_bytes; \
  k->pack[embed__limbs_of(form)] = pack_##name;   \
  k->prepared[embed__limbs_of(form)][EMBED__EXACT] = (embed__multiplier){x_bytes, pack_x, multiply_##name};

void embed__limbs_amx(embed__panel_kernels *k) {
  USE(f32, EMBED__PANEL_F32, pack_x)
  USE(f16, EMBED__PANEL_F16, pack_x_of_shorts)
  USE(bf16, EMBED__PANEL_BF16, pack_x_of_shorts)
}
