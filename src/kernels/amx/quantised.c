/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of quantised rows by tiles, with the bits of every level (quantised.h). Exact ones of int8 rows are sums of integers for a chunk of
 * 512 columns: two blocks at once, in one tile of sums. All others leave their tiles after every block, to be scaled. */
#include "kernels/avx512vnni/words.h"

#include "kernels/quantised_rows_template.h"

#include "kernels/amx/digits.h"

/* Hidden rows below which a tile's sums are waited for longer than vectors take. Vectors take bytes as a panel has them, tiles signed ones. */
enum { FEW_EXACT = 4, FEW_EXACT_BYTES = 9, FEW_ROUNDED = 24, FEW_ROUNDED_NIBBLES = 12 };

INLINE bool too_few(embed__panel_form form, bool exact, int64_t n) {
  if (exact) return n < (in_nibbles(form) || scaling_of(form) == PER_ROW ? FEW_EXACT : FEW_EXACT_BYTES);
  return n < (in_nibbles(form) ? FEW_ROUNDED_NIBBLES : FEW_ROUNDED);
}

typedef int32_t tile_sums[TILE_ROWS][TILE_ROWS];

typedef struct job {
  const unsigned char *rows;
  int64_t stride, soon, count, dim;
  int32_t group;
  packed_rows x;
  float *z;
  int64_t ldz;
  bool prepared;
  tile_sums *sums; /* where tiles are stored */
} job;

/* ---- exact products of int8 rows ---- */

enum { FAR_SIDES = 4 }; /* panels at once where hidden rows make one tile: that many far streams are read faster than two */

/* A panel, or 16 rows, under way. Past the last: the step's first once more, without lanes. */
typedef struct side {
  const unsigned char *at, *line; /* line: of the chunk */
  float scale[ROWS];
  int64_t row, lanes;
} side;

INLINE void begin_side(const job *j, int64_t panel, int64_t panels, int64_t step, side *s) {
  s->row = (panel < panels ? panel : step) * ROWS;
  const int64_t left = j->count - s->row < ROWS ? j->count - s->row : ROWS;
  s->lanes = panel < panels ? left : 0;
  s->at = j->rows + (j->prepared ? s->row / ROWS : s->row) * j->stride;
  const sources rows = rows_at(s->at, j->stride, left);
  if (j->prepared)
    memcpy(s->scale, s->at, sizeof s->scale);
  else
    row_scales(&rows, left, j->dim, s->scale);
}

/* Blocks [first, first + count) as lines; of rows in `room`, while the same columns of the next 16 are fetched. */
INLINE void begin_chunk(const job *j, int64_t first, int64_t count, side *s, unsigned char *room) {
  s->line = s->at + chunk_at(EMBED__PANEL_I8, first, 0);
  if (j->prepared) return;
  const sources rows = rows_at(s->at, j->stride, s->lanes ? s->lanes : 1);
  for (int r = 0; r < ROWS; ++r) fetch_lines((uintptr_t)rows.row[r] + (uintptr_t)(ROWS * j->stride + first * BLOCK_COLUMNS), count * BLOCK_COLUMNS / 64 + 1);
  bytes_of_rows(EMBED__PANEL_I8, &rows, first, count, j->dim, 0, room);
  s->line = room;
}

/* The order of limbs is that of rows of digits: a hidden row's sum takes them one after the other. */
INLINE void add_side(const job *j, const side *s, int64_t tile, const chunk_scales *by, tile_sums sums) {
  const __m512 scale = _mm512_loadu_ps(s->scale);
  const __mmask16 lanes = lanes_mask(s->lanes);
  const int32_t *hidden = j->x.hidden + tile * TILE_ROWS;
  const int64_t rows = rows_of_tile(*j->x.count, tile);
  for (int64_t v = 0; v < rows;) {
    const int32_t row = hidden[v];
    float *z = j->z + row * j->ldz + s->row;
    __m512 sum = _mm512_maskz_loadu_ps(lanes, z);
    for (; v < rows && hidden[v] == row; ++v) {
      const __m512i whole = _mm512_add_epi32(_mm512_load_si512(sums[v]), _mm512_set1_epi32(by->added[v]));
      sum = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(whole), _mm512_set1_ps(by->scale[v])), scale, sum);
    }
    _mm512_mask_storeu_ps(z, lanes, sum);
  }
}

/* A chunk of so many panels for 16 rows of digits. */
INLINE void add_chunk(const job *j, int sides, const side s[FAR_SIDES], int64_t tile, int64_t chunk, int64_t blocks) {
  const int64_t tiles = tiles_for(*j->x.count), lines = (TILE_ROWS + tiles - 1) / tiles;
  const int8_t *x = j->x.digits + (tile * j->x.pairs + chunk * CHUNK_PAIRS) * TILE_BYTES;
  uintptr_t soon = (uintptr_t)(tiles == 1 ? AHEAD_BYTES : j->soon + tile * 64 * lines * ((blocks + 1) / 2));
  begin_sums();
  if (sides > SIDES) begin_more_sums();
  for (int64_t b = 0; b < blocks; b += 2, x += TILE_BYTES, soon += (uintptr_t)(64 * lines)) {
    for (int i = 0; j->prepared && i < sides; ++i) {
      if (tiles == 1)
        fetch_near_lines((uintptr_t)s[i].line + soon, lines);
      else
        fetch_lines((uintptr_t)s[i].line + soon, lines);
    }
    LOAD_X(b + 1 == blocks, x);
    ADD_PRODUCTS(_tile_dpbsud, b + 1 == blocks, SUMS_0, SUMS_1, s[0].line + b * BLOCK_BYTES, s[1].line + b * BLOCK_BYTES);
    if (sides > SIDES) ADD_PRODUCTS(_tile_dpbsud, b + 1 == blocks, SUMS_2, SUMS_3, s[2].line + b * BLOCK_BYTES, s[3].line + b * BLOCK_BYTES);
  }
  store_sums(j->sums[0], j->sums[1]);
  if (sides > SIDES) store_more_sums(j->sums[2], j->sums[3]);
  for (int i = 0; i < sides; ++i) add_side(j, &s[i], tile, j->x.scales + tile * j->x.chunks + chunk, j->sums[i]);
}

INLINE void multiply_sides(int sides, const job *j, int64_t n) {
  _Alignas(64) unsigned char room[SIDES][CHUNK_BLOCKS * BLOCK_BYTES];
  const int64_t blocks = blocks_of(j->dim), panels = tiles_for(j->count), apart = (panels + sides - 1) / sides, count = *j->x.count;
  if (n < 1 || j->count < 1) return;
  for (int64_t i = 0; i < n; ++i) memset(j->z + i * j->ldz, 0, (size_t)j->count * 4);
  shape_tiles(count < TILE_ROWS ? count : TILE_ROWS, blocks % 2 ? BLOCK_COLUMNS / 4 : 0);
  for (int64_t p = 0; p < apart; ++p) {
    side s[FAR_SIDES];
    for (int i = 0; i < sides; ++i) begin_side(j, p + i * apart, panels, p, &s[i]);
    for (int64_t first = 0; first < blocks; first += CHUNK_BLOCKS) {
      const int64_t here = blocks - first < CHUNK_BLOCKS ? blocks - first : CHUNK_BLOCKS;
      for (int i = 0; i < sides; ++i) begin_chunk(j, first, here, &s[i], room[i % SIDES]); /* in place there are two sides */
      for (int64_t tile = 0; tile < tiles_for(count); ++tile) add_chunk(j, sides, s, tile, first / CHUNK_BLOCKS, here);
    }
  }
  _tile_release();
}

static void multiply_few(const job *j, int64_t n) { multiply_sides(FAR_SIDES, j, n); }
static void multiply_many(const job *j, int64_t n) { multiply_sides(SIDES, j, n); }
INLINE void multiply(const job *j, int64_t n) {
  if (j->prepared && tiles_for(*j->x.count) == 1 && tiles_for(j->count) > SIDES)
    multiply_few(j, n);
  else
    multiply_many(j, n);
}

/* ---- sums that are scaled for every block ---- */

enum {
  GROUP = 4,            /* blocks whose sums are stored while those of the four before are scaled */
  AHEAD_MOST = 64 << 10 /* bytes of a panel up to which the next one is fetched while several tiles meet it, not the next chunk */
};

/* Tiles of a group, in the place of the others'. */
#define X_EVEN 0
#define X_ODD  1
#define W_EVEN 2
#define W_ODD  3
#define SUMS_A 4
#define SUMS_B 5
#define SUMS_C 6
#define SUMS_D 7

INLINE void shape_group(int64_t hidden) {
  tile_shapes s = {.palette = 1};
  for (int t = X_EVEN; t <= X_ODD; ++t) shape(&s, t, hidden, BLOCK_COLUMNS);
  for (int t = W_EVEN; t <= W_ODD; ++t) shape(&s, t, BLOCK_COLUMNS / 4, 64);
  for (int t = SUMS_A; t <= SUMS_D; ++t) shape(&s, t, hidden, 64);
  memory_settles();
  _tile_loadconfig(&s);
}

/* A tile that is cleared right before its product is waited for: the four are cleared, and multiplied, side by side. */
INLINE void multiply_group(const int8_t *x, const unsigned char *line, tile_sums to[GROUP]) {
  memory_settles();
  _tile_loadd(X_EVEN, x, 64);
  _tile_loadd(W_EVEN, line, 64);
  _tile_loadd(X_ODD, x + BLOCK_COLUMNS, 64);
  _tile_loadd(W_ODD, line + BLOCK_BYTES, 64);
  _tile_zero(SUMS_A);
  _tile_zero(SUMS_B);
  _tile_zero(SUMS_C);
  _tile_zero(SUMS_D);
  _tile_dpbssd(SUMS_A, X_EVEN, W_EVEN);
  _tile_dpbssd(SUMS_B, X_ODD, W_ODD);
  _tile_loadd(X_EVEN, x + TILE_BYTES, 64);
  _tile_loadd(W_EVEN, line + 2 * BLOCK_BYTES, 64);
  _tile_loadd(X_ODD, x + TILE_BYTES + BLOCK_COLUMNS, 64);
  _tile_loadd(W_ODD, line + 3 * BLOCK_BYTES, 64);
  _tile_dpbssd(SUMS_C, X_EVEN, W_EVEN);
  _tile_dpbssd(SUMS_D, X_ODD, W_ODD);
  _tile_stored(SUMS_A, to[0], 64);
  _tile_stored(SUMS_B, to[1], 64);
  _tile_stored(SUMS_C, to[2], 64);
  _tile_stored(SUMS_D, to[3], 64);
  memory_settles();
}

/* A chunk of a panel, or of 16 rows, under way: its weights as signed bytes, and what they are multiplied by. */
typedef struct staged_chunk {
  staged of;
  int64_t first, blocks, row, lanes;
} staged_chunk;

typedef void stage_function(const job *j, staged_chunk *s);

/* What a lane's u has too much, in every byte. */
INLINE ints zeros_of(embed__panel_form form, const staged_chunk *s, int64_t b) {
  if (scaling_of(form) == WITH_OFFSET) return _mm512_mullo_epi32(bits(as_ints(s->of.scales[b][0].center), 0, 255), _mm512_set1_epi32(0x01010101));
  return _mm512_set1_epi8((char)zero_of(form));
}

INLINE void signed_bytes(embed__panel_form form, const unsigned char *from, staged_chunk *s) {
  unsigned char *to = s->of.bytes;
  for (int64_t b = 0; b < s->blocks; ++b, to += BLOCK_BYTES, from += BLOCK_BYTES) {
    const ints zeros = zeros_of(form, s, b);
    UNROLL for (int g = 0; g < 8; ++g) store_ints(to + 64 * g, _mm512_sub_epi8(load_ints(from + 64 * g), zeros));
  }
}

INLINE void signed_nibbles(embed__panel_form form, const unsigned char *from, staged_chunk *s) {
  unsigned char *to = s->of.bytes;
  for (int64_t b = 0; b < s->blocks; ++b, to += BLOCK_BYTES, from += BLOCK_BYTES / 2) {
    const ints zeros = zeros_of(form, s, b);
    UNROLL for (int g = 0; g < 4; ++g) {
      const ints both = load_ints(from + 64 * g);
      store_ints(to + 64 * g, _mm512_sub_epi8(low_nibbles(both), zeros));
      store_ints(to + 64 * (g + 4), _mm512_sub_epi8(high_nibbles(both), zeros));
    }
  }
}

INLINE void stage(embed__panel_form form, const job *j, staged_chunk *s) {
  _Alignas(64) unsigned char scales[CHUNK_BLOCKS / K_BLOCKS * HEADER_BYTES + CHUNK_BLOCKS * 2 * ROWS];
  if (j->prepared) {
    const unsigned char *panel = j->rows + s->row / ROWS * j->stride, *chunk = panel + chunk_at(form, s->first, j->group);
    const unsigned char *line = chunk + scale_bytes(form, s->blocks, j->group);
    if (scaling_of(form) == PER_ROW) float_row_scales(panel, &s->of);
    float_scales(form, chunk, s->blocks, j->group, &s->of);
    if (in_nibbles(form))
      signed_nibbles(form, line, s);
    else
      signed_bytes(form, line, s);
    return;
  }
  const sources rows = rows_at(j->rows + s->row * j->stride, j->stride, s->lanes);
  const int64_t begin = stored_block(form, s->first, j->group), end = stored_block(form, s->first + s->blocks, j->group);
  for (int r = 0; r < ROWS; ++r) fetch_lines((uintptr_t)rows.row[r] + (uintptr_t)(ROWS * j->stride + begin), (end - begin) / 64 + 1);
  scales_of_rows(form, &rows, s->lanes, s->first, s->blocks, j->group, scales);
  float_scales(form, scales, s->blocks, j->group, &s->of);
  if (scaling_of(form) == PER_ROW) row_scales(&rows, s->lanes, j->dim, scales), float_row_scales(scales, &s->of);
  bytes_of_rows(form, &rows, s->first, s->blocks, j->dim, j->group, s->of.bytes);
  signed_bytes(form, s->of.bytes, s);
}

/* The sum of a row of digits, of exact ones of all limbs of a hidden row. */
INLINE __m512 sum_of_row(int limbs, const int32_t (*sum)[TILE_ROWS]) {
  __m512 whole = _mm512_cvtepi32_ps(_mm512_load_si512(sum[0]));
  UNROLL for (int l = 1; l < limbs; ++l) whole = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sum[l])), _mm512_set1_ps(unit_of_limb(l)), whole);
  return whole;
}

/* Blocks [first, first + count) of the chunk, from those of the tile of hidden rows that by and sums begin with. */
INLINE void scale_blocks(scaling how, bool exact, int limbs, const tile_sums *sum, int64_t first, int64_t count, const staged_chunk *s,
                         const float (*by)[TILE_ROWS], const float (*sums)[TILE_ROWS], __m512 chain[TILE_ROWS]) {
  for (int64_t b = first; b < first + count; ++b, ++sum, ++by, ++sums) {
    const block_scales *const of = s->of.scales[b];
    const __m512 scale = how == PER_ROW ? no_reals() : of->scale[0], rest = how == WITH_OFFSET ? of->rest : no_reals();
    UNROLL for (int r = 0; r < TILE_ROWS / limbs; ++r) {
      const __m512 whole = sum_of_row(limbs, (const int32_t(*)[TILE_ROWS])(*sum) + r * limbs);
      if (how == PER_ROW)
        chain[r] = _mm512_fmadd_ps(whole, _mm512_set1_ps((*by)[r]), chain[r]);
      else
        chain[r] = _mm512_fmadd_ps(exact ? whole : _mm512_mul_ps(whole, _mm512_set1_ps((*by)[r])), scale, chain[r]);
      if (how == WITH_OFFSET) chain[r] = _mm512_fnmadd_ps(rest, _mm512_set1_ps((*sums)[r]), chain[r]);
    }
  }
}

/* What a chunk adds to the products of a tile's hidden rows. */
INLINE void add_exact(const job *j, const staged_chunk *s, int64_t tile, int limbs, const __m512 chain[TILE_ROWS]) {
  const __mmask16 lanes = lanes_mask(s->lanes);
  const digit_tile *const t = &j->x.tile[tile];
  const float *by = j->x.scales[tile * j->x.chunks + s->first / CHUNK_BLOCKS].scale;
  UNROLL for (int r = 0; r < TILE_ROWS / limbs; ++r) {
    if (r >= t->rows) break;
    float *z = j->z + t->hidden[r] * j->ldz + s->row;
    _mm512_mask_storeu_ps(z, lanes, _mm512_fmadd_ps(chain[r], _mm512_set1_ps(by[r]), _mm512_maskz_loadu_ps(lanes, z)));
  }
}

INLINE void add_rounded(scaling how, const job *j, const staged_chunk *s, int64_t tile, const __m512 chain[TILE_ROWS]) {
  const __mmask16 lanes = lanes_mask(s->lanes), before = s->first ? lanes : 0;
  const int64_t rows = rows_of_tile(*j->x.count, tile);
  const __m512 scale = how == PER_ROW ? s->of.scales[0][0].scale[0] : no_reals();
  float *z = j->z + tile * TILE_ROWS * j->ldz + s->row;
  UNROLL for (int v = 0; v < TILE_ROWS; ++v) {
    if (v >= rows) break;
    const __m512 sum = _mm512_maskz_loadu_ps(before, z + v * j->ldz);
    _mm512_mask_storeu_ps(z + v * j->ldz, lanes, how == PER_ROW ? _mm512_fmadd_ps(chain[v], scale, sum) : _mm512_add_ps(sum, chain[v]));
  }
}

/* What soon follows, fetched a few lines with every group: the next chunk, or the same one of the next panel. */
typedef struct fetching {
  uintptr_t at;
  int64_t lines;
} fetching;

INLINE fetching begin_fetching(embed__panel_form form, const job *j, const staged_chunk *s, int64_t tiles) {
  const int64_t bytes = chunk_bytes(form, s->blocks, j->group), ahead = tiles > 1 && j->stride <= AHEAD_MOST ? j->soon : bytes;
  const int64_t groups = tiles * ((s->blocks + GROUP - 1) / GROUP), at = s->row / ROWS * j->stride + chunk_at(form, s->first, j->group) + ahead;
  return (fetching){(uintptr_t)j->rows + (uintptr_t)at, j->prepared ? (bytes / 64 + groups - 1) / groups : 0};
}

/* Sums of the next group while one is scaled. */
typedef struct groups {
  tile_sums *now, *next;
  fetching fetch;
} groups;

/* A tile and a chunk, whose first group is multiplied already; x: its digits, more: another tile follows. */
INLINE void scale_tile(scaling how, bool exact, int limbs, const job *j, const staged_chunk *s, int64_t tile, bool more, const int8_t *x, groups *g) {
  const int64_t at = tile * j->x.blocks + s->first;
  tile_sums *now = g->now, *next = g->next;
  uintptr_t soon = g->fetch.at;
  __m512 chain[TILE_ROWS];
  UNROLL for (int r = 0; r < TILE_ROWS / limbs; ++r) chain[r] = no_reals();
  for (int64_t b = 0; b < s->blocks; b += GROUP) {
    const bool last = b + GROUP >= s->blocks;
    if (!last)
      multiply_group(x + (b + GROUP) / 2 * TILE_BYTES, s->of.bytes + (b + GROUP) * BLOCK_BYTES, next);
    else if (more)
      multiply_group(x + j->x.pairs * TILE_BYTES, s->of.bytes, next);
    fetch_lines(soon, g->fetch.lines);
    soon += (uintptr_t)(64 * g->fetch.lines);
    scale_blocks(how, exact, limbs, now, b, last ? s->blocks - b : GROUP, s, (const float(*)[TILE_ROWS])(j->x.by + at + b),
                 (const float(*)[TILE_ROWS])(j->x.sums + at + b), chain);
    tile_sums *const done = now;
    now = next;
    next = done;
  }
  *g = (groups){now, next, {soon, g->fetch.lines}};
  if (exact)
    add_exact(j, s, tile, limbs, chain);
  else
    add_rounded(how, j, s, tile, chain);
}

INLINE void scale_exact_tile(scaling how, const job *j, const staged_chunk *s, int64_t tile, bool more, const int8_t *x, groups *g) {
  switch (j->x.tile[tile].limbs) {
    case 2: scale_tile(how, true, 2, j, s, tile, more, x, g); break;
    case 3: scale_tile(how, true, 3, j, s, tile, more, x, g); break;
    case 4: scale_tile(how, true, 4, j, s, tile, more, x, g); break;
    default: scale_tile(how, true, MOST_LIMBS, j, s, tile, more, x, g);
  }
}

INLINE void multiply_blocks(scaling how, bool exact, embed__panel_form form, stage_function *stage_one, const job *j, int64_t n) {
  const bool listed = in_list(form, exact);
  const int64_t panels = tiles_for(j->count), tiles = listed ? *j->x.count : tiles_for(*j->x.count);
  groups g = {.now = j->sums, .next = j->sums + GROUP};
  staged_chunk s;
  if (n < 1 || j->count < 1) return;
  for (int64_t i = 0; exact && i < n; ++i) memset(j->z + i * j->ldz, 0, (size_t)j->count * 4);
  if (tiles == 0) return;
  const int64_t rows_of_digits = tiles > 1 ? TILE_ROWS : listed ? (int64_t)j->x.tile->limbs * j->x.tile->rows : *j->x.count;
  shape_group(rows_of_digits);
  for (int64_t p = 0; p < panels; ++p) {
    s.row = p * ROWS;
    s.lanes = j->count - s.row < ROWS ? j->count - s.row : ROWS;
    for (s.first = 0; s.first < j->x.blocks; s.first += CHUNK_BLOCKS) {
      const int8_t *x = j->x.digits + s.first / 2 * TILE_BYTES;
      s.blocks = j->x.blocks - s.first < CHUNK_BLOCKS ? j->x.blocks - s.first : CHUNK_BLOCKS;
      stage_one(j, &s);
      g.fetch = begin_fetching(form, j, &s, tiles);
      multiply_group(x, s.of.bytes, g.now);
      for (int64_t tile = 0; tile < tiles; ++tile, x += j->x.pairs * TILE_BYTES) {
        if (exact)
          scale_exact_tile(how, j, &s, tile, tile + 1 < tiles, x, &g);
        else
          scale_tile(how, false, 1, j, &s, tile, tile + 1 < tiles, x, &g);
      }
    }
  }
  _tile_release();
}

#define SCALED(name, how, exact) \
  static void name(embed__panel_form form, stage_function *stage_one, const job *j, int64_t n) { multiply_blocks(how, exact, form, stage_one, j, n); }
SCALED(exact_per_block, PER_BLOCK, true)
SCALED(exact_with_offset, WITH_OFFSET, true)
SCALED(rounded_per_row, PER_ROW, false)
SCALED(rounded_per_block, PER_BLOCK, false)
SCALED(rounded_with_offset, WITH_OFFSET, false)

INLINE void multiply_scaled(embed__panel_form form, bool exact, stage_function *stage_one, const job *j, int64_t n) {
  switch (scaling_of(form)) {
    case PER_ROW: rounded_per_row(form, stage_one, j, n); break;
    case WITH_OFFSET: (exact ? exact_with_offset : rounded_with_offset)(form, stage_one, j, n); break;
    default: (exact ? exact_per_block : rounded_per_block)(form, stage_one, j, n);
  }
}

/* ---- multipliers ---- */

#define WAY(name, form, activation, mode, way, is_prepared)                                                                                                   \
  static void way##_##name##_##mode(const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, int64_t dim, int32_t group, \
                                    float *z, int64_t ldz) {                                                                                                  \
    _Alignas(64) tile_sums sums[2 * GROUP] = {{{0}}}; /* sanitizers do not see tiles that are stored */                                                       \
    const bool exact = activation == EMBED__EXACT;                                                                                                            \
    if (too_few(form, exact, n)) {                                                                                                                            \
      embed__##way##_avx512vnni[form][activation].multiply(rows, stride, soon, count, packed, n, dim, group, z, ldz);                                         \
      return;                                                                                                                                                 \
    }                                                                                                                                                         \
    const job j = {rows, stride, soon, count, dim, group, parts_of(form, exact, packed, n, dim), z, ldz, is_prepared, sums};                                  \
    if (exact && scaling_of(form) == PER_ROW)                                                                                                                 \
      multiply(&j, n);                                                                                                                                        \
    else                                                                                                                                                      \
      multiply_scaled(form, exact, stage_##name, &j, n);                                                                                                      \
  }
#define MULTIPLIER(name, form, activation, mode)                                                                       \
  static int64_t x_bytes_##name##_##mode(int64_t n, int64_t dim, int32_t group) {                                      \
    const bool exact = activation == EMBED__EXACT;                                                                     \
    if (too_few(form, exact, n)) return embed__prepared_avx512vnni[form][activation].x_bytes(n, dim, group);           \
    return tile_bytes_of(form, exact, n, dim);                                                                         \
  }                                                                                                                    \
  static void pack_##name##_##mode(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) { \
    const bool exact = activation == EMBED__EXACT;                                                                     \
    if (too_few(form, exact, n))                                                                                       \
      embed__prepared_avx512vnni[form][activation].pack_x(x, ldx, n, dim, group, packed);                              \
    else                                                                                                               \
      pack_tiles(form, exact, x, ldx, n, dim, packed);                                                                 \
  }                                                                                                                    \
  WAY(name, form, activation, mode, prepared, true)                                                                    \
  WAY(name, form, activation, mode, in_place, false)
#define FORM(name, form)                                                         \
  static void stage_##name(const job *j, staged_chunk *s) { stage(form, j, s); } \
  MULTIPLIER(name, form, EMBED__EXACT, exact)                                    \
  MULTIPLIER(name, form, EMBED__ROUNDED_Q8_0, rounded)

/* Q6_K has two scales in a block, half as much to multiply for each: vectors are as fast. */
#define TILED_FORMS(X)       \
  X(i8, EMBED__PANEL_I8)     \
  X(i4, EMBED__PANEL_I4)     \
  X(q8_0, EMBED__PANEL_Q8_0) \
  X(q4_0, EMBED__PANEL_Q4_0) \
  X(q4_k, EMBED__PANEL_Q4_K) \
  X(q5_k, EMBED__PANEL_Q5_K)
TILED_FORMS(FORM)

#define USE(name, form)                                                                                                                     \
  k->prepared[form][EMBED__EXACT] = (embed__multiplier){x_bytes_##name##_exact, pack_##name##_exact, prepared_##name##_exact};              \
  k->in_place[form][EMBED__EXACT] = (embed__multiplier){x_bytes_##name##_exact, pack_##name##_exact, in_place_##name##_exact};              \
  k->prepared[form][EMBED__ROUNDED_Q8_0] = (embed__multiplier){x_bytes_##name##_rounded, pack_##name##_rounded, prepared_##name##_rounded}; \
  k->in_place[form][EMBED__ROUNDED_Q8_0] = (embed__multiplier){x_bytes_##name##_rounded, pack_##name##_rounded, in_place_##name##_rounded};

void embed__quantised_amx(embed__panel_kernels *k) { TILED_FORMS(USE) }
