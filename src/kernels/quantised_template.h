/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of quantised rows, in the words of quantised_rows_template.h and
 *   EXACT_DIGITS, ROUNDED_ROWS   rows of digits in a tile of exact ones, and in one of rounded ones; PAIRED_LIMBS as pack_digits has it
 *   EXACT_TILES(X, ...)          X(..., limbs, rows) for every tile of exact digits, and EXACT_ONLY_TILES for those that may be a call's only one
 *   ROUNDED_TILES(X, ...)        X(..., rows), and ROUNDED_ONLY_TILES, likewise
 *   quad, spread_digits(most, at, odd)   four digits in every lane, from one word or, where the level keeps them apart, from at[0] and at[odd]
 *   dot4(most, sum, u, x)   sum + the four products in each lane of unsigned u, none above `most`, and digits x
 *   plus_product(sum, a, b)   sum + a * b of the low 16 bits; the high ones of b are 0 */
#include "kernels/quantised_rows_template.h"
#include "kernels/quantised_x.h"

enum {
  SIDES = 2,                          /* panels, or halves of one where PARTS is 2, that meet a tile of digits at once; or */
  FAR_SIDES = PARTS == 1 ? 4 : SIDES, /* where it is the only one and has few rows, since four far streams are read faster than two */
  FAR_SPAN = FAR_SIDES / PARTS,       /* panels */
  AHEAD_BYTES = 2048,                 /* with one tile of digits, each panel is fetched so far ahead */
  AHEAD_MOST = 64 << 10               /* with several, up to a whole panel */
};

_Static_assert((int)ROUNDED_ROWS <= (int)MOST_ROWS && 2 * PAIRED_LIMBS <= EXACT_DIGITS && (int)MOST_LIMBS <= (int)EXACT_DIGITS, "what a tile holds");

typedef ints tile_sums[EXACT_DIGITS][FAR_SIDES];
typedef reals tile_chains[ROUNDED_ROWS][FAR_SIDES];

/* A tile, in which every row has limbs of its own. A call's only one takes panels as they are: nibbles, and scales, which it makes ready a block
 * ahead. Those of a whole chunk, made ready before several tiles, keep nothing read meanwhile. */
typedef struct shape {
  embed__panel_form form; /* or another alike */
  bool exact, only;
  int sides, limbs, rows;
} shape;

typedef struct lane_group {         /* the rows of a register's lanes */
  const unsigned char *line;        /* of the first block */
  const staged *room;               /* with the scales, but those that an only tile makes ready from */
  const unsigned char *scale_lines; /* the chunk's */
  int part;                         /* of its lines */
  float *z;                         /* of the first lane and hidden row */
  int64_t lanes, before;            /* before: of those, the ones that z has sums of */
} lane_group;

typedef struct pass {
  lane_group side[FAR_SIDES];
  const int32_t *record;
  const int32_t *hidden;
  int64_t blocks, each, ldz; /* each: blocks that have a scale together */
  uintptr_t soon[FAR_SPAN];  /* may lie past the panels: no pointer */
  int fetch;                 /* lines from there on, in every block, */
  bool near;                 /* to L1 */
} pass;

INLINE reals spread_real(const int32_t *at) {
  float value;
  memcpy(&value, at, 4);
  return spread(value);
}

INLINE void dot_lines(int most, int sides, int width, const ints u[FAR_SIDES], const int32_t *x, tile_sums sum) {
  UNROLL for (int v = 0; v < width; ++v) {
    const quad digit = spread_digits(most, x + v, 8 * width);
    UNROLL for (int s = 0; s < sides; ++s) sum[v][s] = dot4(most, sum[v][s], u[s], digit);
  }
}

/* The sum of a row's limbs, in the unit of the first. */
INLINE reals sum_of_limbs(int limbs, int s, const ints (*sum)[FAR_SIDES]) {
  reals whole = reals_of(sum[0][s]);
  UNROLL for (int l = 1; l < limbs; ++l) whole = times_plus(reals_of(sum[l][s]), spread(unit_of_limb(l)), whole);
  return whole;
}

/* chain + sum * scales of a block, or of its half h; rounded digits' own scale is multiplied in, the exact ones' is one for the chunk. */
INLINE void add_scaled(shape t, int h, const int32_t *record, tile_sums sum, const block_scales *const by[FAR_SIDES], tile_chains chain) {
  const scaling how = scaling_of(t.form);
  UNROLL for (int r = 0; r < t.rows; ++r) {
    reals own = t.exact ? no_reals() : spread_real(record + AT_SCALE * t.rows + r);
    reals less = t.exact || how == PER_ROW ? no_reals() : spread_real(record + AT_MAGIC * t.rows + r);
    UNROLL for (int s = 0; s < t.sides; ++s) {
      if (how == PER_ROW)
        chain[r][s] = times_plus(reals_of(sum[r][s]), own, chain[r][s]);
      else
        chain[r][s] = times_plus(t.exact ? sum_of_limbs(t.limbs, s, (const ints(*)[FAR_SIDES])sum + r * t.limbs) : times_plus(as_reals(sum[r][s]), own, less),
                                 by[s]->scale[h], chain[r][s]);
    }
  }
}

/* The sums of a block's products, or of lines [from, to) of them. */
INLINE void add_products(shape t, const unsigned char *line[FAR_SIDES], int from, int to, const int32_t *record, tile_sums sum) {
  const int most = most_u(t.form), width = t.limbs * t.rows;
  ints u[FAR_SIDES], both[FAR_SIDES];
  if (t.only && in_nibbles(t.form)) {
    UNROLL for (int g = 0; g < 4; ++g) {
      UNROLL for (int s = 0; s < t.sides; ++s) both[s] = load_ints(line[s] + 64 * g), u[s] = low_nibbles(both[s]);
      dot_lines(most, t.sides, width, u, record + g * width, sum);
      UNROLL for (int s = 0; s < t.sides; ++s) u[s] = high_nibbles(both[s]);
      dot_lines(most, t.sides, width, u, record + (g + 4) * width, sum);
    }
  } else {
    UNROLL for (int g = from; g < to; ++g) {
      UNROLL for (int s = 0; s < t.sides; ++s) u[s] = load_ints(line[s] + 64 * g);
      dot_lines(most, t.sides, width, u, record + g * width, sum);
    }
  }
}

INLINE void begin_sums(int sides, int width, const int32_t *a, tile_sums sum) {
  UNROLL for (int v = 0; v < width; ++v) { UNROLL for (int s = 0; s < sides; ++s) sum[v][s] = spread_word(a + v); }
}
INLINE void begin_centered(shape t, const int32_t *a, const block_scales *const by[FAR_SIDES], tile_sums sum) {
  const int32_t magic = MAGIC;
  UNROLL for (int v = 0; v < t.limbs * t.rows; ++v) {
    UNROLL for (int s = 0; s < t.sides; ++s) {
      sum[v][s] = plus_product(t.exact ? no_ints() : spread_word(&magic), as_ints(by[s]->center), spread_word(a + v));
    }
  }
}

INLINE void subtract_rests(shape t, const int32_t *b_of_rows, const block_scales *const by[FAR_SIDES], tile_chains chain) {
  UNROLL for (int r = 0; r < t.rows; ++r) {
    reals x = spread_real(b_of_rows + r * t.limbs);
    UNROLL for (int s = 0; s < t.sides; ++s) chain[r][s] = minus_times(by[s]->rest, x, chain[r][s]);
  }
}

/* What a chunk adds to the products of the tile's hidden rows. */
INLINE void add_chunk(shape t, const pass *p, tile_sums sum, tile_chains chain) {
  const scaling how = scaling_of(t.form);
  UNROLL for (int r = 0; r < t.rows; ++r) {
    const int32_t *scale = p->record + AT_SCALE * t.limbs * t.rows + r * t.limbs;
    UNROLL for (int s = 0; s < t.sides; ++s) {
      const lane_group *g = &p->side[s];
      float *z = g->z + p->hidden[r] * p->ldz;
      reals after = load_part(z, g->before);
      if (t.exact && how == PER_ROW) {
        UNROLL for (int l = 0; l < t.limbs; ++l) after =
            times_plus(times(reals_of(sum[r * t.limbs + l][s]), spread_real(scale + l)), g->room->scales[0][g->part].scale[0], after);
      } else if (t.exact) {
        after = times_plus(chain[r][s], spread_real(scale), after);
      } else {
        after = how == PER_ROW ? times_plus(chain[r][s], g->room->scales[0][g->part].scale[0], after) : plus(after, chain[r][s]);
      }
      store_part(z, g->lanes, after);
    }
  }
}

/* One chunk for a tile. */
INLINE void multiply_tile(shape t, const pass *p) {
  const scaling how = scaling_of(t.form);
  const bool in_integers = t.exact && how == PER_ROW; /* to the chunk's end */
  const int stride = t.only && in_nibbles(t.form) ? BLOCK_BYTES / 2 : BLOCK_BYTES, width = t.limbs * t.rows;
  const int32_t *record = p->record;
  const unsigned char *line[FAR_SIDES];
  uintptr_t soon[FAR_SPAN];
  block_scales ready[2][FAR_SIDES]; /* of this block and the next */
  const block_scales *by[FAR_SIDES];
  scale_lines scales[FAR_SIDES];
  int64_t set = 0, left = p->each;
  tile_chains chain;
  tile_sums sum;
  UNROLL for (int r = 0; r < t.rows; ++r) { UNROLL for (int s = 0; s < t.sides; ++s) chain[r][s] = no_reals(); }
  UNROLL for (int s = 0; s < t.sides; ++s) line[s] = p->side[s].line;
  UNROLL for (int s = 0; s < t.sides / PARTS; ++s) soon[s] = p->soon[s];
  if (in_integers) begin_sums(t.sides, width, record + AT_A * width, sum);
  if (t.only) {
    UNROLL for (int s = 0; s < t.sides; ++s) {
      scales[s].from = p->side[s].scale_lines, scales[s].count = p->blocks, scales[s].lane = p->side[s].part * LANES;
      put_scales(t.form, &scales[s], 0, 0, &ready[0][s]);
    }
  }
  for (int64_t b = 0; b < p->blocks; ++b, record += RECORD_WORDS * width) {
    for (int f = 0; f < p->fetch; ++f) {
      UNROLL for (int s = 0; s < t.sides / PARTS; ++s) {
        if (p->near)
          prefetch(soon[s]);
        else
          prefetch_to_l2(soon[s]);
        soon[s] += 64;
      }
    }
    UNROLL for (int s = 0; s < t.sides; ++s) by[s] = t.only ? &ready[b % 2][s] : &p->side[s].room->scales[b][p->side[s].part];
    if (t.only && b + 1 < p->blocks) {
      if (--left == 0) left = p->each, ++set;
      UNROLL for (int s = 0; s < t.sides; ++s) put_scales(t.form, &scales[s], b + 1, set, &ready[(b + 1) % 2][s]);
    }
    if (in_integers) {
      add_products(t, line, 0, 8, record, sum);
    } else if (how == PER_HALF) {
      UNROLL for (int h = 0; h < HALVES; ++h) {
        begin_sums(t.sides, width, record + (AT_A + h) * width, sum);
        add_products(t, line, 4 * h, 4 * h + 4, record, sum);
        add_scaled(t, h, record, sum, by, chain);
      }
    } else {
      if (how == WITH_OFFSET)
        begin_centered(t, record + AT_A * width, by, sum);
      else
        begin_sums(t.sides, width, record + AT_A * width, sum);
      add_products(t, line, 0, 8, record, sum);
      add_scaled(t, 0, record, sum, by, chain);
      if (how == WITH_OFFSET) subtract_rests(t, record + AT_B * width, by, chain);
    }
    UNROLL for (int s = 0; s < t.sides; ++s) line[s] += stride;
  }
  add_chunk(t, p, sum, chain);
}

#define TILE_SHAPE(limbs, rows) (16 * (limbs) + (rows))
#define EXACT_TILE(form, only, sides, limbs, rows)                   \
  case TILE_SHAPE(limbs, rows):                                      \
    multiply_tile((shape){form, true, only, sides, limbs, rows}, p); \
    break;
#define ROUNDED_TILE(form, only, sides, rows)                     \
  case TILE_SHAPE(1, rows):                                       \
    multiply_tile((shape){form, false, only, sides, 1, rows}, p); \
    break;
#define TILE_FUNCTIONS(name, form, exact_tiles, rounded_tiles, only, sides)          \
  static void exact_##name(int which, const pass *p) {                               \
    switch (which) { exact_tiles(EXACT_TILE, EMBED__PANEL_##form, only, sides) }     \
  }                                                                                  \
  static void rounded_##name(int which, const pass *p) {                             \
    switch (which) { rounded_tiles(ROUNDED_TILE, EMBED__PANEL_##form, only, sides) } \
  }
#define TILES(name, form)      TILE_FUNCTIONS(name, form, EXACT_TILES, ROUNDED_TILES, false, SIDES)
#define ONLY_TILES(name, form) TILE_FUNCTIONS(only_##name, form, EXACT_ONLY_TILES, ROUNDED_ONLY_TILES, true, FAR_SIDES)
TILES(i8, I8)
TILES(q8_0, Q8_0)
TILES(i4, I4)
TILES(q5_k, Q5_K)
TILES(q6_k, Q6_K)
ONLY_TILES(i8, I8)
ONLY_TILES(q8_0, Q8_0)
ONLY_TILES(i4, I4)
ONLY_TILES(q4_k, Q4_K)
ONLY_TILES(q5_k, Q5_K)
ONLY_TILES(q6_k, Q6_K)

typedef void tile_function(int which, const pass *p);

INLINE bool is_only_tile(bool exact, const digit_tile *t) {
#define OR_EXACT(t, l, r) || ((t)->limbs == (l) && (t)->rows == (r))
#define OR_ROUNDED(t, r)  || (t)->rows == (r)
  return exact ? (false EXACT_ONLY_TILES(OR_EXACT, t)) : (false ROUNDED_ONLY_TILES(OR_ROUNDED, t));
}

/* Q4_0 is multiplied as I4 is, and Q4_K as Q5_K but where its nibbles are taken as they are. */
INLINE tile_function *tile_of(embed__panel_form form, bool exact, bool only) {
#define TILE_OF(name) (only ? exact ? exact_only_##name : rounded_only_##name : exact ? exact_##name : rounded_##name)
  switch (form) {
    case EMBED__PANEL_I8: return TILE_OF(i8);
    case EMBED__PANEL_Q8_0: return TILE_OF(q8_0);
    case EMBED__PANEL_Q4_K: return only ? exact ? exact_only_q4_k : rounded_only_q4_k : exact ? exact_q5_k : rounded_q5_k;
    case EMBED__PANEL_Q5_K: return TILE_OF(q5_k);
    case EMBED__PANEL_Q6_K: return TILE_OF(q6_k);
    default: return TILE_OF(i4);
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

/* Makes ready blocks [first, first + count), but for an only tile what that does itself; where their lines begin. scales: a prepared chunk's. */
INLINE const unsigned char *stage(embed__panel_form form, const job *j, const strip *s, int64_t first, int64_t count, bool only, const unsigned char **scales,
                                  staged *room) {
  _Alignas(64) unsigned char of_rows[CHUNK_BLOCKS / K_BLOCKS * (HEADER_BYTES + 2 * ROWS) + CHUNK_BLOCKS * 2 * ROWS];
  if (!j->prepared) {
    fetch_rows(form, j, s, first);
    scales_of_rows(form, &s->source, s->lanes, first, count, j->group, of_rows);
    float_scales(form, of_rows, count, j->group, room);
    if (scaling_of(form) == PER_ROW) row_scales(&s->source, s->lanes, j->dim, of_rows), float_row_scales(of_rows, room);
    bytes_of_rows(form, &s->source, first, count, j->dim, j->group, room->bytes);
    return room->bytes;
  }
  const unsigned char *chunk = s->at + chunk_at(form, first, j->group), *line = chunk + scale_bytes(form, count, j->group);
  *scales = chunk;
  if (scaling_of(form) == PER_ROW) float_row_scales(s->at, room);
  if (only) return line;
  float_scales(form, chunk, count, j->group, room);
  if (!in_nibbles(form)) return line;
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
  const int64_t blocks = j->x.blocks, panels = (j->count + ROWS - 1) / ROWS, tiles = j->x.tiles;
  const bool only = j->prepared && tiles == 1 && panels > SIDES / PARTS && is_only_tile(j->exact, j->x.tile);
  const int span = only ? FAR_SPAN : SIDES / PARTS;
  const int64_t steps = (panels + span - 1) / span;
  tile_function *const multiply_one = tile_of(form, j->exact, only);
  const bool kept = j->exact || blocks == 0; /* chunks of a hidden row are added to each other */
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
      p.each = group_columns(form, j->group) / BLOCK_COLUMNS;
      p.ldz = j->ldz;
      for (int side = 0; side < span; ++side) {
        const unsigned char *scales = NULL, *line = stage(form, j, &s[side], first, p.blocks, only, &scales, &room[side]);
        for (int part = 0; part < PARTS; ++part) {
          int64_t lanes = s[side].lanes - part * LANES;
          lane_group *g = &p.side[side * PARTS + part];
          g->line = line + part * (int)sizeof(ints);
          g->room = &room[side];
          g->part = part;
          g->scale_lines = scales;
          g->lanes = lanes < 0 ? 0 : lanes < LANES ? lanes : LANES;
          g->before = kept || first > 0 ? g->lanes : 0;
          g->z = j->z + s[side].row + (g->lanes ? part * LANES : 0);
        }
      }
      begin_fetching(form, j, s, span, first, p.blocks, tiles, &fetch);
      for (const digit_tile *t = j->x.tile; t < j->x.tile + tiles; ++t) {
        p.record = j->x.record + RECORD_WORDS * (t->first * blocks + t->limbs * t->rows * first);
        p.hidden = t->hidden;
        fetch_share(&fetch, span, &p);
        multiply_one(TILE_SHAPE(t->limbs, t->rows), &p);
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
    pack_digits(form, EMBED__EXACT, ROUNDED_ROWS, PAIRED_LIMBS, x, ldx, n, dim, packed);                                                                  \
  }                                                                                                                                                       \
  static void pack_rounded_##name(const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, void *packed) {                                     \
    (void)group;                                                                                                                                          \
    pack_digits(form, EMBED__ROUNDED_Q8_0, ROUNDED_ROWS, PAIRED_LIMBS, x, ldx, n, dim, packed);                                                           \
  }                                                                                                                                                       \
  static void prepared_##name(embed__activation activation, const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, \
                              int64_t dim, int32_t group, float *z, int64_t ldz) {                                                                        \
    multiply(form, &(job){rows, stride, soon, count, dim, group, digits_at(packed, n, dim), z, ldz, true, activation == EMBED__EXACT}, n);                \
  }                                                                                                                                                       \
  static void in_place_##name(embed__activation activation, const void *rows, int64_t stride, int64_t soon, int64_t count, const void *packed, int64_t n, \
                              int64_t dim, int32_t group, float *z, int64_t ldz) {                                                                        \
    multiply(form, &(job){rows, stride, soon, count, dim, group, digits_at(packed, n, dim), z, ldz, false, activation == EMBED__EXACT}, n);               \
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
