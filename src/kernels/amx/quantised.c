/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact products of int8 rows, whose sums are integers for a chunk of 512 columns: as tiles, two blocks at once. Digits are packed by rows, the
 * bits are those of every level (quantised.h). Forms with scales inside a chunk gain nothing: their sums would leave the tiles for each block. */
#include "kernels/amx/tiles.h"
#include "kernels/avx512vnni/words.h"
#include "kernels/quantised_rows_template.h"
#include "kernels/quantised_x.h"

enum {
  CHUNK_PAIRS = CHUNK_BLOCKS / 2,
  FEW = 4 /* hidden rows below which a tile's sums are waited for longer than vectors take */
};

/* Of 16 rows of digits and a chunk: what multiplies a sum, and what is added to it before, -128 * sum of the digits. */
typedef struct chunk_scales {
  float scale[TILE_ROWS];
  int32_t added[TILE_ROWS];
} chunk_scales;

/* Packed: a line with the number of rows of digits; for each its hidden row; scales [tiles][chunks]; digits [tiles][pairs][16][64]. */
typedef struct packed_rows {
  int64_t *count;
  int32_t *hidden;
  chunk_scales *scales;
  int8_t *digits;
  int64_t pairs, chunks;
} packed_rows;

static int64_t pairs_of(int64_t dim) { return (blocks_of(dim) + 1) / 2; }
static int64_t chunks_of(int64_t dim) { return (blocks_of(dim) + CHUNK_BLOCKS - 1) / CHUNK_BLOCKS; }
static int64_t scales_at(int64_t n) { return 64 + to_lines(4 * MOST_LIMBS * n); }
static int64_t packed_digits_at(int64_t n, int64_t dim) { return scales_at(n) + tiles_for(MOST_LIMBS * n) * chunks_of(dim) * (int64_t)sizeof(chunk_scales); }

static packed_rows parts_of(const void *packed, int64_t n, int64_t dim) {
  unsigned char *at = (unsigned char *)(uintptr_t)packed;
  return (packed_rows){.count = (int64_t *)(void *)at,
                       .hidden = (int32_t *)(void *)(at + 64),
                       .scales = (chunk_scales *)(void *)(at + scales_at(n)),
                       .digits = (int8_t *)(at + packed_digits_at(n, dim)),
                       .pairs = pairs_of(dim),
                       .chunks = chunks_of(dim)};
}

static int64_t x_bytes(int64_t n, int64_t dim, int32_t group) {
  if (n < FEW) return embed__i8_prepared_avx512vnni.x_bytes(n, dim, group);
  return packed_digits_at(n, dim) + tiles_for(MOST_LIMBS * n) * pairs_of(dim) * TILE_BYTES;
}

/* Rows of digits [row, row + limbs) of one hidden row. */
static void pack_row(const packed_rows *p, int64_t row, int limbs, const float *x, int64_t dim) {
  for (int64_t first = 0; first < dim; first += CHUNK_BLOCKS * BLOCK_COLUMNS) {
    const int64_t end = first + chunk_columns(dim, first), chunk = first / (CHUNK_BLOCKS * BLOCK_COLUMNS);
    const int32_t largest = largest_bits(x + first, end - first);
    int32_t total[MOST_LIMBS] = {0};
    float scale[MOST_LIMBS];
    limb_scales(largest, scale);
    for (int64_t j = first; j < end; j += BLOCK_COLUMNS) {
      float block[BLOCK_COLUMNS];
      int8_t digit[MOST_LIMBS][BLOCK_COLUMNS];
      load_block(x + j, end - j, block);
      limbs_of_block(block, largest, limbs, digit);
      for (int l = 0; l < limbs; ++l) {
        const int64_t tile = (row + l) / TILE_ROWS, lane = (row + l) % TILE_ROWS, b = j / BLOCK_COLUMNS;
        memcpy(p->digits + (tile * p->pairs + b / 2) * TILE_BYTES + lane * 64 + b % 2 * BLOCK_COLUMNS, digit[l], BLOCK_COLUMNS);
        for (int c = 0; c < BLOCK_COLUMNS; ++c) total[l] += digit[l][c];
      }
    }
    for (int l = 0; l < limbs; ++l) {
      chunk_scales *s = p->scales + (row + l) / TILE_ROWS * p->chunks + chunk;
      s->scale[(row + l) % TILE_ROWS] = scale[l];
      s->added[(row + l) % TILE_ROWS] = -zero_of(EMBED__PANEL_I8) * total[l];
    }
  }
}

static void pack_x(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) {
  const packed_rows p = parts_of(packed, n, dim);
  int64_t count = 0;
  if (n < FEW) {
    embed__i8_prepared_avx512vnni.pack_x(x, ldx, n, dim, group, packed);
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    for (int l = limbs_of_row(x + i * ldx, dim); l > 0; --l) p.hidden[count++] = (int32_t)i;
  *p.count = count;
  if (count % TILE_ROWS) memset(p.digits + (tiles_for(count) - 1) * p.pairs * TILE_BYTES, 0, (size_t)(p.pairs * TILE_BYTES));
  for (int64_t t = 0; blocks_of(dim) % 2 && t < tiles_for(count); ++t) memset(p.digits + ((t + 1) * p.pairs - 1) * TILE_BYTES, 0, TILE_BYTES);
  for (int64_t row = 0; row < count;) {
    int limbs = 1;
    while (row + limbs < count && p.hidden[row + limbs] == p.hidden[row]) ++limbs;
    pack_row(&p, row, limbs, x + p.hidden[row] * ldx, dim);
    row += limbs;
  }
}

typedef struct job {
  const unsigned char *rows;
  int64_t stride, soon, count, dim;
  packed_rows x;
  float *z;
  int64_t ldz;
  bool prepared;
  int32_t (*sums)[TILE_ROWS][TILE_ROWS]; /* [SIDES], where tiles are stored */
} job;

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
    row_scales(&rows, left, j->dim, (unsigned char *)s->scale);
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
INLINE void add_side(const job *j, const side *s, int64_t tile, const chunk_scales *by, int32_t sums[TILE_ROWS][TILE_ROWS]) {
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

/* A chunk of two panels for 16 rows of digits. */
INLINE void add_chunk(const job *j, const side s[SIDES], int64_t tile, int64_t chunk, int64_t blocks) {
  const int64_t tiles = tiles_for(*j->x.count), lines = (TILE_ROWS + tiles - 1) / tiles;
  const int8_t *x = j->x.digits + (tile * j->x.pairs + chunk * CHUNK_PAIRS) * TILE_BYTES;
  uintptr_t soon = (uintptr_t)(tiles == 1 ? AHEAD_BYTES : j->soon + tile * 64 * lines * ((blocks + 1) / 2));
  begin_sums();
  for (int64_t b = 0; b < blocks; b += 2, x += TILE_BYTES, soon += (uintptr_t)(64 * lines)) {
    for (int i = 0; j->prepared && i < SIDES; ++i) fetch_lines((uintptr_t)s[i].line + soon, lines);
    ADD_PRODUCTS(_tile_dpbsud, b + 1 == blocks, x, s[0].line + b * BLOCK_BYTES, s[1].line + b * BLOCK_BYTES);
  }
  store_sums(j->sums[0], j->sums[1]);
  for (int i = 0; i < SIDES; ++i) add_side(j, &s[i], tile, j->x.scales + tile * j->x.chunks + chunk, j->sums[i]);
}

static void multiply(const job *j, int64_t n) {
  _Alignas(64) unsigned char room[SIDES][CHUNK_BLOCKS * BLOCK_BYTES];
  const int64_t blocks = blocks_of(j->dim), panels = tiles_for(j->count), apart = (panels + SIDES - 1) / SIDES, count = *j->x.count;
  if (n < 1 || j->count < 1) return;
  for (int64_t i = 0; i < n; ++i) memset(j->z + i * j->ldz, 0, (size_t)j->count * 4);
  shape_tiles(count < TILE_ROWS ? count : TILE_ROWS, blocks % 2 ? BLOCK_COLUMNS / 4 : 0);
  for (int64_t p = 0; p < apart; ++p) {
    side s[SIDES];
    for (int i = 0; i < SIDES; ++i) begin_side(j, p + i * apart, panels, p, &s[i]);
    for (int64_t first = 0; first < blocks; first += CHUNK_BLOCKS) {
      const int64_t here = blocks - first < CHUNK_BLOCKS ? blocks - first : CHUNK_BLOCKS;
      for (int i = 0; i < SIDES; ++i) begin_chunk(j, first, here, &s[i], room[i]);
      for (int64_t tile = 0; tile < tiles_for(count); ++tile) add_chunk(j, s, tile, first / CHUNK_BLOCKS, here);
    }
  }
  _tile_release();
}

#define MULTIPLY(name, is_prepared)                                                                                                                    \
  static void name(const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, int64_t dim, int32_t group, float *z, \
                   int64_t ldz) {                                                                                                                      \
    _Alignas(64) int32_t sums[SIDES][TILE_ROWS][TILE_ROWS] = {{{0}}}; /* sanitizers do not see tiles that are stored */                                \
    if (n < FEW)                                                                                                                                       \
      embed__i8_##name##_avx512vnni.multiply(rows, stride, soon, count, packed, n, dim, group, z, ldz);                                                \
    else                                                                                                                                               \
      multiply(&(job){rows, stride, soon, count, dim, parts_of(packed, n, dim), z, ldz, is_prepared, sums}, n);                                        \
  }
MULTIPLY(prepared, true)
MULTIPLY(in_place, false)

void embed__quantised_amx(embed__panel_kernels *k) {
  k->prepared[EMBED__PANEL_I8][EMBED__EXACT] = (embed__multiplier){x_bytes, pack_x, prepared};
  k->in_place[EMBED__PANEL_I8][EMBED__EXACT] = (embed__multiplier){x_bytes, pack_x, in_place};
}
