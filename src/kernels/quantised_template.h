/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of quantised rows, in the words of quantised_rows_template.h and
 *   TILE_DIGITS       rows of digits in a tile
 *   dot4(sum, u, x)   sum + the four products in each lane of unsigned u and signed x
 *   plus_product(sum, a, b)   sum + a * b of numbers of 16 bits; those of a are not negative */
#include "kernels/quantised_rows_template.h"
#include "kernels/quantised_x.h"

enum {
  SIDES = 2,                          /* panels, or halves of one where PARTS is 2, that meet a tile of digits at once; or */
  FAR_SIDES = PARTS == 1 ? 4 : SIDES, /* where it has few rows, since four far streams are read faster than two */
  FAR_DIGITS = 2,                     /* up to so many, */
  FAR_ROW_DIGITS = 4,                 /* PER_ROW up to so many, there are registers for that */
  FAR_SPAN = FAR_SIDES / PARTS,       /* panels */
  AHEAD_BYTES = 2048,                 /* with one tile of digits, each panel is fetched so far ahead */
  AHEAD_MOST = 64 << 10               /* with several, up to a whole panel */
};

typedef struct lane_group {  /* the rows of a register's lanes */
  const unsigned char *line; /* of the first block */
  const float *scale, *rest;
  const int32_t *center;
  float *z;              /* of the first lane and hidden row */
  int64_t lanes, before; /* before: of those, the ones that z has sums of */
} lane_group;

typedef struct pass {
  lane_group side[FAR_SIDES];
  const int32_t *record;
  const int32_t *hidden;
  int64_t blocks, ldz;
  uintptr_t soon[FAR_SPAN]; /* may lie past the panels: no pointer */
  int fetch;                /* lines from there on, in every block, */
  bool near;                /* to L1 */
} pass;

INLINE reals spread_real(const int32_t *at) {
  float value;
  memcpy(&value, at, 4);
  return spread(value);
}

INLINE void dot_lines(int sides, int width, const ints u[FAR_SIDES], const int32_t *x, ints sum[TILE_DIGITS][FAR_SIDES]) {
  UNROLL for (int v = 0; v < width; ++v) {
    ints digit = spread_word(x + v);
    UNROLL for (int s = 0; s < sides; ++s) sum[v][s] = dot4(sum[v][s], u[s], digit);
  }
}

/* chain + sum * scales of the line; the digits' own scale is multiplied in unless it is one for the chunk. */
INLINE void add_scaled(scaling how, bool exact, int sides, int width, const int32_t *record, ints sum[TILE_DIGITS][FAR_SIDES], const pass *p, int64_t line,
                       reals chain[TILE_DIGITS][FAR_SIDES]) {
  UNROLL for (int v = 0; v < width; ++v) {
    reals by = exact ? no_reals() : spread_real(record + AT_SCALE * width + v);
    reals less = exact || how == PER_ROW ? no_reals() : spread_real(record + AT_MAGIC * width + v);
    UNROLL for (int s = 0; s < sides; ++s) {
      if (how == PER_ROW)
        chain[v][s] = times_plus(reals_of(sum[v][s]), by, chain[v][s]);
      else
        chain[v][s] =
            times_plus(exact ? reals_of(sum[v][s]) : times_plus(as_reals(sum[v][s]), by, less), load_reals(p->side[s].scale + line * ROWS), chain[v][s]);
    }
  }
}

/* The sums of a block's products, or of lines [from, to) of them. */
INLINE void add_products(bool nibbles, int sides, int width, const unsigned char *line[FAR_SIDES], int from, int to, const int32_t *record,
                         ints sum[TILE_DIGITS][FAR_SIDES]) {
  ints u[FAR_SIDES], both[FAR_SIDES];
  if (nibbles) {
    UNROLL for (int g = 0; g < 4; ++g) {
      UNROLL for (int s = 0; s < sides; ++s) both[s] = load_ints(line[s] + 64 * g), u[s] = low_nibbles(both[s]);
      dot_lines(sides, width, u, record + g * width, sum);
      UNROLL for (int s = 0; s < sides; ++s) u[s] = high_nibbles(both[s]);
      dot_lines(sides, width, u, record + (g + 4) * width, sum);
    }
  } else {
    UNROLL for (int g = from; g < to; ++g) {
      UNROLL for (int s = 0; s < sides; ++s) u[s] = load_ints(line[s] + 64 * g);
      dot_lines(sides, width, u, record + g * width, sum);
    }
  }
}

INLINE void begin_sums(int sides, int width, const int32_t *a, ints sum[TILE_DIGITS][FAR_SIDES]) {
  UNROLL for (int v = 0; v < width; ++v) { UNROLL for (int s = 0; s < sides; ++s) sum[v][s] = spread_word(a + v); }
}
INLINE void begin_centered(bool exact, int sides, int width, const int32_t *a, const pass *p, int64_t b, ints sum[TILE_DIGITS][FAR_SIDES]) {
  const int32_t magic = MAGIC;
  UNROLL for (int s = 0; s < sides; ++s) {
    const ints center = load_ints(p->side[s].center + b * ROWS);
    UNROLL for (int v = 0; v < width; ++v) sum[v][s] = plus_product(exact ? no_ints() : spread_word(&magic), center, spread_word(a + v));
  }
}

INLINE void subtract_rests(int sides, int width, const int32_t *record, const pass *p, int64_t b, reals chain[TILE_DIGITS][FAR_SIDES]) {
  UNROLL for (int v = 0; v < width; ++v) {
    reals x = spread_real(record + AT_B * width + v);
    UNROLL for (int s = 0; s < sides; ++s) chain[v][s] = minus_times(load_reals(p->side[s].rest + b * ROWS), x, chain[v][s]);
  }
}

/* What a chunk adds to the products of the tile's hidden rows. */
INLINE void add_chunk(scaling how, bool exact, int sides, int width, const pass *p, ints sum[TILE_DIGITS][FAR_SIDES], reals chain[TILE_DIGITS][FAR_SIDES]) {
  UNROLL for (int v = 0; v < width; ++v) {
    UNROLL for (int s = 0; s < sides; ++s) {
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
INLINE void multiply_tile(scaling how, bool exact, bool nibbles, int sides, int width, const pass *p) {
  const bool in_integers = exact && how == PER_ROW; /* to the chunk's end */
  const int stride = nibbles ? BLOCK_BYTES / 2 : BLOCK_BYTES;
  const int32_t *record = p->record;
  const unsigned char *line[FAR_SIDES];
  uintptr_t soon[FAR_SPAN];
  reals chain[TILE_DIGITS][FAR_SIDES];
  ints sum[TILE_DIGITS][FAR_SIDES];
  UNROLL for (int v = 0; v < width; ++v) { UNROLL for (int s = 0; s < sides; ++s) chain[v][s] = no_reals(); }
  UNROLL for (int s = 0; s < sides; ++s) line[s] = p->side[s].line;
  UNROLL for (int s = 0; s < sides / PARTS; ++s) soon[s] = p->soon[s];
  if (in_integers) begin_sums(sides, width, record + AT_A * width, sum);
  for (int64_t b = 0; b < p->blocks; ++b, record += RECORD_WORDS * width) {
    for (int f = 0; f < p->fetch; ++f) {
      UNROLL for (int s = 0; s < sides / PARTS; ++s) {
        if (p->near)
          prefetch(soon[s]);
        else
          prefetch_to_l2(soon[s]);
        soon[s] += 64;
      }
    }
    if (in_integers) {
      add_products(nibbles, sides, width, line, 0, 8, record, sum);
    } else if (how == PER_HALF) {
      UNROLL for (int h = 0; h < HALVES; ++h) {
        begin_sums(sides, width, record + (AT_A + h) * width, sum);
        add_products(nibbles, sides, width, line, 4 * h, 4 * h + 4, record, sum);
        add_scaled(how, exact, sides, width, record, sum, p, HALVES * b + h, chain);
      }
    } else {
      if (how == WITH_OFFSET)
        begin_centered(exact, sides, width, record + AT_A * width, p, b, sum);
      else
        begin_sums(sides, width, record + AT_A * width, sum);
      add_products(nibbles, sides, width, line, 0, 8, record, sum);
      add_scaled(how, exact, sides, width, record, sum, p, b, chain);
      if (how == WITH_OFFSET) subtract_rests(sides, width, record, p, b, chain);
    }
    UNROLL for (int s = 0; s < sides; ++s) line[s] += stride;
  }
  add_chunk(how, exact, sides, width, p, sum, chain);
}

#define OF_WIDTH(how, exact, nibbles, sides, width)      \
  case width:                                            \
    multiply_tile(how, exact, nibbles, sides, width, p); \
    break;
#if TILE_MOST > 2
#define TILES(name, how, exact, nibbles)                 \
  static void name(int64_t width, const pass *p) {       \
    switch (width) {                                     \
      OF_WIDTH(how, exact, nibbles, SIDES, 1)            \
      OF_WIDTH(how, exact, nibbles, SIDES, 2)            \
      OF_WIDTH(how, exact, nibbles, SIDES, 3)            \
      OF_WIDTH(how, exact, nibbles, SIDES, 4)            \
      OF_WIDTH(how, exact, nibbles, SIDES, 5)            \
      OF_WIDTH(how, exact, nibbles, SIDES, 6)            \
    }                                                    \
  }                                                      \
  static void name##_far(int64_t width, const pass *p) { \
    switch (width) {                                     \
      OF_WIDTH(how, exact, nibbles, FAR_SIDES, 1)        \
      OF_WIDTH(how, exact, nibbles, FAR_SIDES, 2)        \
      OF_WIDTH(how, exact, nibbles, FAR_SIDES, 3)        \
      OF_WIDTH(how, exact, nibbles, FAR_SIDES, 4)        \
    }                                                    \
  }
#define TILE_OF(far, name) ((far) ? name##_far : name)
#else
#define TILES(name, how, exact, nibbles)           \
  static void name(int64_t width, const pass *p) { \
    switch (width) {                               \
      OF_WIDTH(how, exact, nibbles, SIDES, 1)      \
      OF_WIDTH(how, exact, nibbles, SIDES, 2)      \
    }                                              \
  }
#define TILE_OF(far, name) ((void)(far), name)
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

INLINE tile_function *tile_of(embed__panel_form form, bool exact, bool nibbles, bool far) {
  switch (scaling_of(form)) {
    case PER_ROW: return exact ? TILE_OF(far, exact_per_row) : TILE_OF(far, rounded_per_row);
    case PER_HALF: return exact ? TILE_OF(far, exact_per_half) : TILE_OF(far, rounded_per_half);
    case WITH_OFFSET:
      if (exact) return nibbles ? TILE_OF(far, exact_with_offset_nibbles) : TILE_OF(far, exact_with_offset);
      return nibbles ? TILE_OF(far, rounded_with_offset_nibbles) : TILE_OF(far, rounded_with_offset);
    default:
      if (exact) return nibbles ? TILE_OF(far, exact_per_block_nibbles) : TILE_OF(far, exact_per_block);
      return nibbles ? TILE_OF(far, rounded_per_block_nibbles) : TILE_OF(far, rounded_per_block);
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
INLINE void begin_strip(const job *j, int64_t panel, int64_t panels, int64_t step, strip *s) {
  const bool there = panel < panels;
  s->row = (there ? panel : step) * ROWS;
  s->lanes = !there ? 0 : j->count - s->row < ROWS ? j->count - s->row : ROWS;
  s->at = j->rows + (j->prepared ? s->row / ROWS : s->row) * j->stride;
  if (!j->prepared) s->source = rows_at(s->at, j->stride, there ? s->lanes : 1);
}

/* The same rows' next chunk, or the first of the next 16: what stage() will read. */
INLINE void fetch_rows(embed__panel_form form, const job *j, const strip *s, int64_t first) {
  const bool more = first + CHUNK_BLOCKS < j->x.blocks;
  const int64_t from = more ? first + CHUNK_BLOCKS : 0, left = j->x.blocks - from, whole = form == EMBED__PANEL_I4 ? j->group / BLOCK_COLUMNS : K_BLOCKS;
  const int64_t begin = stored_block(form, from, j->group), to = from + (left < CHUNK_BLOCKS ? (left + whole - 1) / whole * whole : CHUNK_BLOCKS);
  const int64_t end = stored_block(form, to, j->group), rows = more ? 0 : ROWS * j->stride;
  for (int r = 0; r < ROWS; ++r)
    for (int64_t at = begin; at < end; at += 64) prefetch_to_l2((uintptr_t)s->source.row[r] + (uintptr_t)(rows + at));
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
  bool near;
  uintptr_t from[FAR_SPAN];
} fetching;

INLINE void begin_fetching(embed__panel_form form, const job *j, const strip s[FAR_SPAN], int span, int64_t first, int64_t blocks, int64_t tiles, fetching *f) {
  const int64_t bytes = chunk_bytes(form, blocks, j->group), ahead = tiles == 1 ? AHEAD_BYTES : j->stride <= AHEAD_MOST ? j->soon : bytes;
  f->bytes = j->prepared ? bytes : 0;
  f->lines = (bytes + 64 * blocks * tiles - 1) / (64 * blocks * tiles);
  f->near = tiles == 1;
  for (int side = 0; side < span; ++side) f->from[side] = (uintptr_t)s[side].at + (uintptr_t)(chunk_at(form, first, j->group) + ahead);
}

/* Of one tile: as much as is left. */
INLINE void fetch_share(fetching *f, int span, pass *p) {
  const int64_t share = 64 * f->lines * p->blocks;
  p->fetch = f->bytes > 0 ? (int)f->lines : 0;
  p->near = f->near;
  for (int side = 0; side < span; ++side) p->soon[side] = f->from[side], f->from[side] += (uintptr_t)share;
  f->bytes -= share;
}

/* The strips of a step stand as far apart as the call's rows let them: far streams. */
INLINE void multiply(embed__panel_form form, const job *j, int64_t n) {
  const int64_t blocks = j->x.blocks, panels = (j->count + ROWS - 1) / ROWS, tiles = tiles_of(j->x.count, TILE_DIGITS);
  const int64_t far_digits = scaling_of(form) == PER_ROW ? FAR_ROW_DIGITS : FAR_DIGITS;
  const bool far = j->prepared && j->x.count <= far_digits && panels > SIDES / PARTS;
  const int span = far ? FAR_SPAN : SIDES / PARTS;
  const int64_t steps = (panels + span - 1) / span;
  const bool nibbles = j->prepared && in_nibbles(form) && tiles == 1;
  tile_function *const multiply_one = tile_of(form, j->exact, nibbles, far);
  const int64_t least = tiles ? j->x.count / tiles : 0, wide = tiles ? j->x.count % tiles : 0; /* as nth_tile has them */
  const bool kept = j->exact || blocks == 0;                                                   /* limbs of a hidden row are added to each other */
  staged room[FAR_SPAN];
  strip s[FAR_SPAN];
  fetching fetch;
  pass p;
  if (n == 0 || j->count == 0) return;
  for (int64_t i = 0; kept && i < n; ++i) memset(j->z + i * j->ldz, 0, (size_t)j->count * 4);
  for (int64_t step = 0; step < steps; ++step) {
    for (int side = 0; side < span; ++side) begin_strip(j, step + side * steps, panels, step, &s[side]);
    for (int64_t first = 0; first < blocks; first += CHUNK_BLOCKS) {
      p.blocks = blocks - first < CHUNK_BLOCKS ? blocks - first : CHUNK_BLOCKS;
      p.ldz = j->ldz;
      for (int side = 0; side < span; ++side) {
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
      begin_fetching(form, j, s, span, first, p.blocks, tiles, &fetch);
      digit_tile tile = {.first = 0};
      for (int64_t t = 0; t < tiles; ++t, tile.first += tile.width) {
        tile.width = least + (t < wide);
        p.record = j->x.record + RECORD_WORDS * (tile.first * blocks + tile.width * first);
        p.hidden = j->x.hidden + tile.first;
        fetch_share(&fetch, span, &p);
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
