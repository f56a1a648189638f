/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of bfloats: a panel's 16 lines are a tile as they stand. Hidden rows are packed as tiles, by 16 rows and 32 columns, zeros where there
 * are fewer. Chains of 256 columns as everywhere; inside one the CPU adds its products in pairs, and takes subnormal numbers as 0. */
#include "core/half.h"
#include "kernels/amx/tiles.h"

enum { STEP = 32 /* columns of a tile */, CHAIN_STEPS = EMBED__PANEL_CHAIN / STEP };

static int64_t steps_of(int64_t dim) { return (dim + STEP - 1) / STEP; }

static int64_t x_bytes(int64_t n, int64_t dim, int32_t group) {
  (void)group;
  return tiles_for(n) * steps_of(dim) * TILE_BYTES;
}

static void pack_x(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) {
  (void)group;
  if (n % TILE_ROWS) memset((unsigned char *)packed + (tiles_for(n) - 1) * steps_of(dim) * TILE_BYTES, 0, (size_t)(steps_of(dim) * TILE_BYTES));
  for (int64_t i = 0; i < n; ++i) {
    unsigned char *to = (unsigned char *)packed + i / TILE_ROWS * steps_of(dim) * TILE_BYTES + i % TILE_ROWS * 64;
    for (int64_t j = 0; j < dim; j += STEP, to += TILE_BYTES) {
      float part[STEP] = {0};
      uint16_t number[STEP];
      memcpy(part, x + i * ldx + j, (size_t)(dim - j < STEP ? dim - j : STEP) * sizeof *part);
      for (int c = 0; c < STEP; ++c) number[c] = embed__bf16_of_f32(part[c]);
      memcpy(to, number, sizeof number);
    }
  }
}

typedef struct job {
  const unsigned char *panels, *x;
  int64_t stride, soon, count, n, dim;
  float *z;
  int64_t ldz;
  float (*sums)[TILE_ROWS][TILE_ROWS]; /* [SIDES], where tiles are stored */
} job;

typedef struct side {
  const unsigned char *panel;
  int64_t row, lanes;
} side;

INLINE void add_side(const job *j, const side *s, int64_t tile, float sums[TILE_ROWS][TILE_ROWS], bool add) {
  for (int64_t v = 0; v < rows_of_tile(j->n, tile); ++v) {
    float *z = j->z + (tile * TILE_ROWS + v) * j->ldz + s->row;
    const __m512 sum = _mm512_load_ps(sums[v]);
    _mm512_mask_storeu_ps(z, lanes_mask(s->lanes), add ? _mm512_add_ps(_mm512_maskz_loadu_ps(lanes_mask(s->lanes), z), sum) : sum);
  }
}

/* Steps [first, end) of two panels for 16 hidden rows. */
INLINE void add_chain(const job *j, const side s[SIDES], int64_t tile, int64_t first, int64_t end, bool last) {
  const int64_t tiles = tiles_for(j->n), steps = steps_of(j->dim), lines = (TILE_ROWS + tiles - 1) / tiles;
  const unsigned char *x = j->x + (tile * steps + first) * TILE_BYTES;
  uintptr_t soon = (uintptr_t)(tiles == 1 ? AHEAD_BYTES + first * TILE_BYTES : j->soon + first * TILE_BYTES + tile * 64 * lines * (end - first));
  begin_sums();
  for (int64_t i = first; i < end; ++i, x += TILE_BYTES, soon += (uintptr_t)(64 * lines)) {
    fetch_lines((uintptr_t)s[0].panel + soon, lines);
    fetch_lines((uintptr_t)s[1].panel + soon, lines);
    LOAD_X(last && i + 1 == end, x);
    ADD_PRODUCTS(_tile_dpbf16ps, last && i + 1 == end, SUMS_0, SUMS_1, s[0].panel + i * TILE_BYTES, s[1].panel + i * TILE_BYTES);
  }
  store_sums(j->sums[0], j->sums[1]);
  for (int i = 0; i < SIDES; ++i) add_side(j, &s[i], tile, j->sums[i], first > 0);
}

INLINE side side_of(const job *j, int64_t panel, int64_t panels, int64_t step) {
  side s = {.row = (panel < panels ? panel : step) * EMBED__PANEL_ROWS}; /* past the last: the step's first once more, without lanes */
  const int64_t left = j->count - s.row;
  s.panel = j->panels + s.row / EMBED__PANEL_ROWS * j->stride;
  s.lanes = panel >= panels ? 0 : left < EMBED__PANEL_ROWS ? left : EMBED__PANEL_ROWS;
  return s;
}

static void multiply(const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, int64_t dim, int32_t group, float *z,
                     int64_t ldz) {
  _Alignas(64) float sums[SIDES][TILE_ROWS][TILE_ROWS] = {{{0}}}; /* sanitizers do not see tiles that are stored */
  const job j = {rows, packed, stride, soon, count, n, dim, z, ldz, sums};
  const int64_t steps = steps_of(dim), panels = tiles_for(count), apart = (panels + SIDES - 1) / SIDES, lines = (dim + 1) / 2 % TILE_ROWS;
  (void)group;
  if (n < 1 || count < 1) return;
  shape_tiles(n < TILE_ROWS ? n : TILE_ROWS, lines);
  for (int64_t p = 0; p < apart; ++p) {
    const side s[SIDES] = {side_of(&j, p, panels, p), side_of(&j, p + apart, panels, p)};
    for (int64_t first = 0; first < steps; first += CHAIN_STEPS) {
      const int64_t end = steps - first < CHAIN_STEPS ? steps : first + CHAIN_STEPS;
      for (int64_t tile = 0; tile < tiles_for(n); ++tile) add_chain(&j, s, tile, first, end, end == steps && lines != 0);
    }
  }
  _tile_release();
}

void embed__panel_amx(embed__panel_kernels *k) {
  k->prepared[EMBED__PANEL_BF16][EMBED__ROUNDED_BF16] = (embed__multiplier){x_bytes, pack_x, multiply};
  k->has_tiles = true;
}
