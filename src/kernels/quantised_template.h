/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of quantised rows, in the words of quantised_rows_template.h and
 *   TILE_DIGITS       rows of digits in a tile
 *   dot4(sum, u, x)   sum + the four products in each lane of unsigned u and signed x
 *   plus_product(sum, a, b)   sum + a * b of numbers of 16 bits; those of a are not negative */
#include "kernels/quantised_rows_template.h"
#include "kernels/quantised_x.h"

enum {
  SIDES = 2,            /* panels, or halves of one where PARTS is 2, that meet a tile of digits at once */
  SPAN = SIDES / PARTS, /* panels */
  AHEAD_BYTES = 2048,   /* with one tile of digits, each panel is fetched so far ahead */
  AHEAD_MOST = 64 << 10 /* with several, up to a whole panel */
};

typedef struct lane_group {  /* the rows of a register's lanes */
  const unsigned char *line; /* of the first block */
  const float *scale, *rest;
  const int32_t *center;
  float *z;              /* of the first lane and hidden row */
  int64_t lanes, before; /* before: of those, the ones that z has sums of */
} lane_group;

typedef struct pass {
  lane_group side[SIDES];
  const int32_t *record;
  const int32_t *hidden;
  int64_t blocks, ldz;
  uintptr_t soon[SPAN]; /* may lie past the panels: no pointer */
  int fetch;            /* lines from there on, in every block */
} pass;

INLINE reals spread_real(const int32_t *at) {
  float value;
  memcpy(&value, at, 4);
  return spread(value);
}

INLINE void dot_lines(int width, const ints u[SIDES], const int32_t *x, ints sum[TILE_DIGITS][SIDES]) {
  UNROLL for (int v = 0; v < width; ++v) {
    ints digit = spread_word(x + v);
    UNROLL for (int s = 0; s < SIDES; ++s) sum[v][s] = dot4(sum[v][s], u[s], digit);
  }
}

/* chain + sum * scales of the line; the digits' own scale is multiplied in unless it is one for the chunk. */
INLINE void add_scaled(scaling how, bool exact, int width, const int32_t *record, ints sum[TILE_DIGITS][SIDES], const pass *p, int64_t line,
                       reals chain[TILE_DIGITS][SIDES]) {
  UNROLL for (int v = 0; v < width; ++v) {
    reals by = exact ? no_reals() : spread_real(record + AT_SCALE * width + v);
    reals less = exact || how == PER_ROW ? no_reals() : spread_real(record + AT_MAGIC * width + v);
    UNROLL for (int s = 0; s < SIDES; ++s) {
      if (how == PER_ROW)
        chain[v][s] = times_plus(reals_of(sum[v][s]), by, chain[v][s]);
      else
        chain[v][s] =
            times_plus(exact ? reals_of(sum[v][s]) : times_plus(as_reals(sum[v][s]), by, less), load_reals(p->side[s].scale + line * ROWS), chain[v][s]);
    }
  }
}

/* The sums of a block's products, or of lines [from, to) of them. */
INLINE void add_products(bool nibbles, int width, const unsigned char *line[SIDES], int from, int to, const int32_t *record, ints sum[TILE_DIGITS][SIDES]) {
  ints u[SIDES], both[SIDES];
  if (nibbles) {
    UNROLL for (int g = 0; g < 4; ++g) {
      UNROLL for (int s = 0; s < SIDES; ++s) both[s] = load_ints(line[s] + 64 * g), u[s] = low_nibbles(both[s]);
      dot_lines(width, u, record + g * width, sum);
      UNROLL for (int s = 0; s < SIDES; ++s) u[s] = high_nibbles(both[s]);
      dot_lines(width, u, record + (g + 4) * width, sum);
    }
  } else {
    UNROLL for (int g = from; g < to; ++g) {
      UNROLL for (int s = 0; s < SIDES; ++s) u[s] = load_ints(line[s] + 64 * g);
      dot_lines(width, u, record + g * width, sum);
    }
  }
}

INLINE void begin_sums(int width, const int32_t *a, ints sum[TILE_DIGITS][SIDES]) {
  UNROLL for (int v = 0; v < width; ++v) { UNROLL for (int s = 0; s < SIDES; ++s) sum[v][s] = spread_word(a + v); }
}
INLINE void begin_centered(bool exact, int width, const int32_t *a, const pass *p, int64_t b, ints sum[TILE_DIGITS][SIDES]) {
  const int32_t magic = MAGIC;
  UNROLL for (int s = 0; s < SIDES; ++s) {
    const ints center = load_ints(p->side[s].center + b * ROWS);
    UNROLL for (int v = 0; v < width; ++v) sum[v][s] = plus_product(exact ? no_ints() : spread_word(&magic), center, spread_word(a + v));
  }
}

INLINE void subtract_rests(int width, const int32_t *record, const pass *p, int64_t b, reals chain[TILE_DIGITS][SIDES]) {
  UNROLL for (int v = 0; v < width; ++v) {
    reals x = spread_real(record + AT_B * width + v);
    UNROLL for (int s = 0; s < SIDES; ++s) chain[v][s] = minus_times(load_reals(p->side[s].rest + b * ROWS), x, chain[v][s]);
  }
}

/* What a chunk adds to the products of the tile's hidden rows. */
INLINE void add_chunk(scaling how, bool exact, int width, const pass *p, ints sum[TILE_DIGITS][SIDES], reals chain[TILE_DIGITS][SIDES]) {
  UNROLL for (int v = 0; v < width; ++v) {
    UNROLL for (int s = 0; s < SIDES; ++s) {
      const lane_group *g = &p->side[s];
      float *z = g->z + p->hidden[v] * p->ldz;
      reals before = load_part(z, g->before), after;
      if (exact && how == PER_ROW)
        after = times_plus(times(reals_of(sum[v][s]), spread_real(p->record + AT_SCALE * width + v)), load_reals(g->scale), before);
      else if (exact)
        after = times_plus(chain[v][s], spread_real(p->record + AT_SCALE * width + v), before);
      else
        after = how == PER_ROW ? times_plus(chain[v][s], load_reals(g->scale), before) : plus(before, chain[v][s]);
      store_part(z, g->lanes, after);
    }
  }
}

/* One chunk for a tile of `width` rows of digits. */
INLINE void multiply_tile(scaling how, bool exact, bool nibbles, int width, const pass *p) {
  const bool in_integers = exact && how == PER_ROW; /* to the chunk's end */
  const int stride = nibbles ? BLOCK_BYTES / 2 : BLOCK_BYTES;
  const int32_t *record = p->record;
  const unsigned char *line[SIDES];
  uintptr_t soon[SPAN];
  reals chain[TILE_DIGITS][SIDES];
  ints sum[TILE_DIGITS][SIDES];
  UNROLL for (int v = 0; v < width; ++v) { UNROLL for (int s = 0; s < SIDES; ++s) chain[v][s] = no_reals(); }
  UNROLL for (int s = 0; s < SIDES; ++s) line[s] = p->side[s].line;
  UNROLL for (int s = 0; s < SPAN; ++s) soon[s] = p->soon[s];
  if (in_integers) begin_sums(width, record + AT_A * width, sum);
  for (int64_t b = 0; b < p->blocks; ++b, record += RECORD_WORDS * width) {
    for (int f = 0; f < p->fetch; ++f) {
      UNROLL for (int s = 0; s < SPAN; ++s) prefetch(soon[s]), soon[s] += 64;
    }
    if (in_integers) {
      add_products(nibbles, width, line, 0, 8, record, sum);
    } else if (how == PER_HALF) {
      UNROLL for (int h = 0; h < HALVES; ++h) {
        begin_sums(width, record + (AT_A + h) * width, sum);
        add_products(nibbles, width, line, 4 * h, 4 * h + 4, record, sum);
        add_scaled(how, exact, width, record, sum, p, HALVES * b + h, chain);
      }
    } else {
      if (how == WITH_OFFSET)
        begin_centered(exact, width, record + AT_A * width, p, b, sum);
      else
        begin_sums(width, record + AT_A * width, sum);
      add_products(nibbles, width, line, 0, 8, record, sum);
      add_scaled(how, exact, width, record, sum, p, b, chain);
      if (how == WITH_OFFSET) subtract_rests(width, record, p, b, chain);
    }
    UNROLL for (int s = 0; s < SIDES; ++s) line[s] += stride;
  }
  add_chunk(how, exact, width, p, sum, chain);
}

#define TILES(name, how, exact, nibbles)                       \
  static void name(int64_t width, const pass *p) {             \
    switch (width) {                                           \
      case 1: multiply_tile(how, exact, nibbles, 1, p); break; \
      case 2:                                                  \
        multiply_tile(how, exact, nibbles, 2, p);              \
        break;                                                 \
        TILES_3_TO_6(how, exact, nibbles)                      \
    }                                                          \
  }
#if TILE_MOST > 2
#define TILES_3_TO_6(how, exact, nibbles)                  \
  case 3: multiply_tile(how, exact, nibbles, 3, p); break; \
  case 4: multiply_tile(how, exact, nibbles, 4, p); break; \
  case 5: multiply_tile(how, exact, nibbles, 5, p); break; \
  case 6:                                                  \
    multiply_tile(how, exact, nibbles, 6, p);              \
    break;
#else
#define TILES_3_TO_6(how, exact, nibbles)
#endif
TILES(exact_per_row, PER_ROW, true, false)
TILES(exact_per_block, PER_BLOCK, true, false)
TILES(exact_with_offset, WITH_OFFSET, true, false)
TILES(exact_per_half, PER_HALF, true, false)
TILES(exact_per_block_nibbles, PER_BLOCK, true, true)
TILES(exact_with_offset_nibbles, WITH_OFFSET, true, true)
TILES(rounded_per_row, PER_ROW, false, false)
TILES(rounded_per_block, PER_BLOCK, false, false)
TILES(rounded_with_offset, WITH_OFFSET, false, false)
TILES(rounded_per_half, PER_HALF, false, false)
TILES(rounded_per_block_nibbles, PER_BLOCK, false, true)
TILES(rounded_with_offset_nibbles, WITH_OFFSET, false, true)

typedef void tile_function(int64_t width, const pass *p);

INLINE tile_function *tile_of(embed__panel_form form, bool exact, bool nibbles) {
  switch (scaling_of(form)) {
    case PER_ROW: return exact ? exact_per_row : rounded_per_row;
    case PER_HALF: return exact ? exact_per_half : rounded_per_half;
    case WITH_OFFSET:
      if (exact) return nibbles ? exact_with_offset_nibbles : exact_with_offset;
      return nibbles ? rounded_with_offset_nibbles : rounded_with_offset;
    default:
      if (exact) return nibbles ? exact_per_block_nibbles : exact_per_block;
      return nibbles ? rounded_per_block_nibbles : rounded_per_block;
  }
}

/* Bytes of the blocks of a panel of nibbles. */
INLINE void bytes_of_nibbles(const unsigned char *panel, int64_t blocks, unsigned char *to) {
  for (int64_t b = 0; b < blocks; ++b, panel += BLOCK_BYTES / 2, to += BLOCK_BYTES) {
    UNROLL for (int g = 0; g < 4; ++g) {
      UNROLL for (int p = 0; p < PARTS; ++p) put_nibbles(to, to, g, g + 4, p, load_ints(panel + 64 * g + p * (int)sizeof(ints)));
    }
  }
}

/* What a call multiplies, and where it is. */
typedef struct job {
  const unsigned char *rows;
  int64_t stride, soon, count, dim;
  int32_t group;
  digits x;
  float *z;
  int64_t ldz;
  bool prepared, exact;
} job;

/* 16 rows or a panel of them, under way. */
typedef struct strip {
  const unsigned char *at;
  int64_t row, lanes;
  sources source; /* in place */
} strip;

/* A strip past the call's last has no lanes: its rows are those of `step`, once more. */
INLINE strip strip_of(const job *j, int64_t panel, int64_t panels, int64_t step) {
  strip s = {.lanes = 0};
  bool there = panel < panels;
  s.row = (there ? panel : step) * ROWS;
  s.lanes = !there ? 0 : j->count - s.row < ROWS ? j->count - s.row : ROWS;
  s.at = j->rows + (j->prepared ? s.row / ROWS : s.row) * j->stride;
  if (!j->prepared) s.source = rows_at(s.at, j->stride, there ? s.lanes : 1);
  return s;
}

/* The same rows' next chunk, or the first of the next 16: what stage() will read. */
INLINE void fetch_rows(embed__panel_form form, const job *j, const strip *s, int64_t first) {
  const bool more = first + CHUNK_BLOCKS < j->x.blocks;
  const int64_t from = more ? first + CHUNK_BLOCKS : 0, left = j->x.blocks - from, whole = form == EMBED__PANEL_I4 ? j->group / BLOCK_COLUMNS : K_BLOCKS;
  const int64_t begin = stored_block(form, from, j->group), to = from + (left < CHUNK_BLOCKS ? (left + whole - 1) / whole * whole : CHUNK_BLOCKS);
  const int64_t end = stored_block(form, to, j->group), rows = more ? 0 : ROWS * j->stride;
  for (int r = 0; r < ROWS; ++r)
    for (int64_t at = begin; at < end; at += 64) prefetch((uintptr_t)s->source.row[r] + (uintptr_t)(rows + at));
}

/* Makes ready blocks [first, first + count); where their lines begin. */
INLINE const unsigned char *stage(embed__panel_form form, const job *j, const strip *s, int64_t first, int64_t count, bool nibbles, staged *room) {
  _Alignas(64) unsigned char scales[CHUNK_BLOCKS / K_BLOCKS * (HEADER_BYTES + 2 * ROWS) + CHUNK_BLOCKS * 2 * ROWS];
  if (!j->prepared) {
    fetch_rows(form, j, s, first);
    scales_of_rows(form, &s->source, s->lanes, first, count, j->group, scales);
    float_scales(form, scales, count, j->group, room);
    if (scaling_of(form) == PER_ROW) row_scales(&s->source, s->lanes, j->dim, (unsigned char *)room->scale);
    bytes_of_rows(form, &s->source, first, count, j->dim, j->group, room->bytes);
    return room->bytes;
  }
  const unsigned char *chunk = s->at + chunk_at(form, first, j->group), *line = chunk + scale_bytes(form, count, j->group);
  float_scales(form, chunk, count, j->group, room);
  if (scaling_of(form) == PER_ROW) memcpy(room->scale[0], s->at, sizeof room->scale[0]);
  if (!in_nibbles(form) || nibbles) return line;
  bytes_of_nibbles(line, count, room->bytes);
  return room->bytes;
}

/* While the tiles of a chunk compute, they share the fetching of the same chunk of what comes soon, or, where panels are too long
 * for L2, of the chunk that follows. One tile fetches what it will read AHEAD_BYTES further on. */
typedef struct fetching {
  int64_t bytes, lines; /* in all; of each block of a tile */
  uintptr_t from[SPAN];
} fetching;

INLINE fetching plan_fetch(embed__panel_form form, const job *j, const strip s[SPAN], int64_t first, int64_t blocks, int64_t tiles) {
  const int64_t bytes = chunk_bytes(form, blocks, j->group), ahead = tiles == 1 ? AHEAD_BYTES : j->stride <= AHEAD_MOST ? j->soon : bytes;
  fetching f = {.bytes = j->prepared ? bytes : 0, .lines = (bytes + 64 * blocks * tiles - 1) / (64 * blocks * tiles)};
  for (int side = 0; side < SPAN; ++side) f.from[side] = (uintptr_t)s[side].at + (uintptr_t)(chunk_at(form, first, j->group) + ahead);
  return f;
}

/* Of one tile: as much as is left. */
INLINE void fetch_share(fetching *f, pass *p) {
  const int64_t share = 64 * f->lines * p->blocks;
  p->fetch = f->bytes > 0 ? (int)f->lines : 0;
  for (int side = 0; side < SPAN; ++side) p->soon[side] = f->from[side], f->from[side] += (uintptr_t)share;
  f->bytes -= share;
}

/* The strips of a step stand half of the call's rows apart: two far streams. */
INLINE void multiply(embed__panel_form form, const job *j, int64_t n) {
  const int64_t blocks = j->x.blocks, panels = (j->count + ROWS - 1) / ROWS, steps = (panels + SPAN - 1) / SPAN, tiles = tiles_of(j->x.count, TILE_DIGITS);
  const bool nibbles = j->prepared && in_nibbles(form) && tiles == 1;
  tile_function *const multiply_one = tile_of(form, j->exact, nibbles);
  const int64_t least = tiles ? j->x.count / tiles : 0, wide = tiles ? j->x.count % tiles : 0; /* as nth_tile has them */
  const bool kept = j->exact || blocks == 0;                                                   /* limbs of a hidden row are added to each other */
  staged room[SPAN];
  if (n == 0 || j->count == 0) return;
  for (int64_t i = 0; kept && i < n; ++i) memset(j->z + i * j->ldz, 0, (size_t)j->count * 4);
  for (int64_t step = 0; step < steps; ++step) {
    strip s[SPAN];
    for (int side = 0; side < SPAN; ++side) s[side] = strip_of(j, step + side * steps, panels, step);
    for (int64_t first = 0; first < blocks; first += CHUNK_BLOCKS) {
      pass p = {.blocks = blocks - first < CHUNK_BLOCKS ? blocks - first : CHUNK_BLOCKS, .ldz = j->ldz};
      for (int side = 0; side < SPAN; ++side) {
        const unsigned char *line = stage(form, j, &s[side], first, p.blocks, nibbles, &room[side]);
        for (int part = 0; part < PARTS; ++part) {
          int64_t lanes = s[side].lanes - part * LANES;
          lane_group *g = &p.side[side * PARTS + part];
          g->line = line + part * (int)sizeof(ints);
          g->scale = room[side].scale[0] + part * LANES;
          g->rest = room[side].rest[0] + part * LANES;
          g->center = room[side].center[0] + part * LANES;
          g->lanes = lanes < 0 ? 0 : lanes < LANES ? lanes : LANES;
          g->before = kept || first > 0 ? g->lanes : 0;
          g->z = j->z + s[side].row + (g->lanes ? part * LANES : 0);
        }
      }
      fetching fetch = plan_fetch(form, j, s, first, p.blocks, tiles);
      digit_tile tile = {.first = 0};
      for (int64_t t = 0; t < tiles; ++t, tile.first += tile.width) {
        tile.width = least + (t < wide);
        p.record = j->x.record + RECORD_WORDS * (tile.first * blocks + tile.width * first);
        p.hidden = j->x.hidden + tile.first;
        fetch_share(&fetch, &p);
        multiply_one(tile.width, &p);
      }
    }
  }
}

#define FORM(name, form)                                                                                                                                  \
  static void pack_##name(const void *rows, int64_t row_bytes, int64_t count, int64_t dim, int32_t group, void *panel, bool streaming) {                  \
    pack(form, rows, row_bytes, count, dim, group, panel, streaming);                                                                                     \
  }                                                                                                                                                       \
  static void pack_exact_##name(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) {                                       \
    (void)group;                                                                                                                                          \
    pack_digits(form, EMBED__EXACT, TILE_DIGITS, x, ldx, n, dim, packed);                                                                                 \
  }                                                                                                                                                       \
  static void pack_rounded_##name(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) {                                     \
    (void)group;                                                                                                                                          \
    pack_digits(form, EMBED__ROUNDED_Q8_0, TILE_DIGITS, x, ldx, n, dim, packed);                                                                          \
  }                                                                                                                                                       \
  static void prepared_##name(embed__activation activation, const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, \
                              int64_t dim, int32_t group, float *z, int64_t ldz) {                                                                        \
    multiply(form, &(job){rows, stride, soon, count, dim, group, digits_at(packed, n, dim, activation), z, ldz, true, activation == EMBED__EXACT}, n);    \
  }                                                                                                                                                       \
  static void in_place_##name(embed__activation activation, const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, \
                              int64_t dim, int32_t group, float *z, int64_t ldz) {                                                                        \
    multiply(form, &(job){rows, stride, soon, count, dim, group, digits_at(packed, n, dim, activation), z, ldz, false, activation == EMBED__EXACT}, n);   \
  }                                                                                                                                                       \
  ACTIVATION(prepared_##name, exact, EMBED__EXACT)                                                                                                        \
  ACTIVATION(prepared_##name, rounded, EMBED__ROUNDED_Q8_0)                                                                                               \
  ACTIVATION(in_place_##name, exact, EMBED__EXACT)                                                                                                        \
  ACTIVATION(in_place_##name, rounded, EMBED__ROUNDED_Q8_0)
#define ACTIVATION(multiplier, name, activation)                                                                                                            \
  static void multiplier##_##name(const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, int64_t dim, int32_t group, \
                                  float *z, int64_t ldz) {                                                                                                  \
    multiplier(activation, rows, stride, soon, count, packed, n, dim, group, z, ldz);                                                                       \
  }

static int64_t x_bytes_exact(int64_t n, int64_t dim, int32_t group) {
  (void)group;
  return digits_bytes(n, dim, EMBED__EXACT);
}
static int64_t x_bytes_rounded(int64_t n, int64_t dim, int32_t group) {
  (void)group;
  return digits_bytes(n, dim, EMBED__ROUNDED_Q8_0);
}

QUANTISED_FORMS(FORM)

#define USE(name, form)                                                                                                          \
  k->pack[form] = pack_##name;                                                                                                   \
  k->prepared[form][EMBED__EXACT] = (embed__multiplier){x_bytes_exact, pack_exact_##name, prepared_##name##_exact};              \
  k->prepared[form][EMBED__ROUNDED_Q8_0] = (embed__multiplier){x_bytes_rounded, pack_rounded_##name, prepared_##name##_rounded}; \
  k->in_place[form][EMBED__EXACT] = (embed__multiplier){x_bytes_exact, pack_exact_##name, in_place_##name##_exact};              \
  k->in_place[form][EMBED__ROUNDED_Q8_0] = (embed__multiplier){x_bytes_rounded, pack_rounded_##name, in_place_##name##_rounded};

static void use_all(embed__panel_kernels *k) { QUANTISED_FORMS(USE) }
