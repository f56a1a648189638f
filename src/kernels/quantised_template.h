/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing and products of quantised rows in the words of a level's quantised.c, which are defined before:
 *   LANES, PARTS (vectors of a line of a panel), TILE_DIGITS; ints, reals
 *   dot4(sum, u, x)   sum + the four products in each lane of unsigned u and signed x
 *   the rest as they are named. */
#include "kernels/quantised_x.h"

enum {
  SIDES = 2,            /* panels, or halves of one where PARTS is 2, that meet a tile of digits at once */
  SPAN = SIDES / PARTS, /* panels */
  AHEAD_BYTES = 2048,   /* with one tile of digits, each panel is fetched so far ahead */
  AHEAD_MOST = 64 << 10 /* with several, up to a whole panel */
};

/* What 16 rows of some blocks become for one pass. */
typedef struct staged {
  _Alignas(64) unsigned char bytes[CHUNK_BLOCKS * BLOCK_BYTES];
  _Alignas(64) float scale[CHUNK_BLOCKS * HALVES][ROWS];
  _Alignas(64) float offset[CHUNK_BLOCKS][ROWS];
} staged;

/* ---- rows to lines: 16 bytes of each of 16 rows become 4 lines, a word of 4 bytes to a lane ---- */

typedef struct sources {
  const unsigned char *row[ROWS];
} sources;

INLINE sources rows_at(const unsigned char *rows, int64_t row_bytes, int64_t count) {
  sources s;
  for (int r = 0; r < ROWS; ++r) s.row[r] = rows + (r < count ? r : 0) * row_bytes;
  return s;
}

/* Bytes [at, at + 16) of every row; t < 16: only t of them are there, zeros follow. */
INLINE void lines_at(const sources *s, int64_t at, int64_t t, ints line[4][PARTS]) {
  if (t >= 16) {
    lines_of_rows(s->row, at, line);
  } else {
    unsigned char bounced[ROWS][16] = {{0}};
    const unsigned char *row[ROWS];
    for (int r = 0; r < ROWS; ++r) {
      row[r] = bounced[r];
      if (t > 0) memcpy(bounced[r], s->row[r] + at, (size_t)t);
    }
    lines_of_rows(row, 0, line);
  }
}

INLINE void put_line(unsigned char *to, int g, int part, ints line) { store_ints(to + 64 * g + part * (int)sizeof(ints), line); }

/* Low nibbles to line g of block `low`, high ones to that of `high`. */
INLINE void put_nibbles(unsigned char *low, unsigned char *high, int g, int h, int part, ints line) {
  put_line(low, g, part, low_nibbles(line));
  put_line(high, h, part, high_nibbles(line));
}

/* Blocks [first, first + count) of rows whose block is stored alone. */
INLINE void bytes_of_blocks(embed__panel_form form, const sources *s, int64_t first, int64_t count, int64_t dim, int32_t group, unsigned char *to) {
  for (int64_t b = first; b < first + count; ++b, to += BLOCK_BYTES) {
    int64_t at = stored_block(form, b, group);
    ints line[4][PARTS];
    if (form == EMBED__PANEL_I4 || form == EMBED__PANEL_Q4_0) {
      int64_t within = form == EMBED__PANEL_I4 ? b * BLOCK_COLUMNS % group / 2 : 0;
      lines_at(s, at + 2 + within, 16, line);
      UNROLL for (int g = 0; g < 4; ++g) { UNROLL for (int p = 0; p < PARTS; ++p) put_nibbles(to, to, g, g + 4, p, line[g][p]); }
    } else {
      UNROLL for (int h = 0; h < HALVES; ++h) {
        int64_t here = form == EMBED__PANEL_I8 ? dim - b * BLOCK_COLUMNS - 16 * h : 16;
        lines_at(s, at + (form == EMBED__PANEL_Q8_0 ? 2 : 0) + 16 * h, here, line);
        UNROLL for (int g = 0; g < 4; ++g) { UNROLL for (int p = 0; p < PARTS; ++p) put_line(to, 4 * h + g, p, flip_signs(line[g][p])); }
      }
    }
  }
}

/* The 8 blocks of one of Q4_K or Q5_K's: blocks 2 i and 2 i + 1 share bytes. */
INLINE void bytes_of_affine(embed__panel_form form, const sources *s, int64_t at, unsigned char *to) {
  const int64_t qs = at + (form == EMBED__PANEL_Q5_K ? 48 : 16);
  ints fifth[8][PARTS], line[4][PARTS];
  if (form == EMBED__PANEL_Q5_K) {
    lines_at(s, at + 16, 16, fifth);
    lines_at(s, at + 32, 16, fifth + 4);
  }
  for (int i = 0; i < 4; ++i, to += 2 * BLOCK_BYTES) {
    UNROLL for (int h = 0; h < 2; ++h) {
      lines_at(s, qs + 32 * i + 16 * h, 16, line);
      UNROLL for (int l = 0; l < 4; ++l) {
        UNROLL for (int p = 0; p < PARTS; ++p) {
          int g = 4 * h + l;
          ints low = low_nibbles(line[l][p]), high = high_nibbles(line[l][p]);
          if (form == EMBED__PANEL_Q5_K) {
            low = with_bits(low, fifth[g][p], 2 * i, 1, 4);
            high = with_bits(high, fifth[g][p], 2 * i + 1, 1, 4);
          }
          put_line(to, g, p, low);
          put_line(to + BLOCK_BYTES, g, p, high);
        }
      }
    }
  }
}

/* The 8 blocks of one of Q6_K's: block 4 n + g has nibble g / 2 of 32 bytes of ql, pair g of 32 bytes of qh. */
INLINE void bytes_of_q6_k(const sources *s, int64_t at, unsigned char *to) {
  for (int n = 0; n < 2; ++n, to += 4 * BLOCK_BYTES) {
    for (int h = 0; h < 2; ++h) {
      ints first[4][PARTS], second[4][PARTS], pair[4][PARTS];
      lines_at(s, at + 64 * n + 16 * h, 16, first);
      lines_at(s, at + 64 * n + 32 + 16 * h, 16, second);
      lines_at(s, at + 128 + 32 * n + 16 * h, 16, pair);
      UNROLL for (int l = 0; l < 4; ++l) {
        UNROLL for (int p = 0; p < PARTS; ++p) {
          put_line(to, 4 * h + l, p, with_bits(low_nibbles(first[l][p]), pair[l][p], 0, 3, 4));
          put_line(to + BLOCK_BYTES, 4 * h + l, p, with_bits(low_nibbles(second[l][p]), pair[l][p], 2, 3, 4));
          put_line(to + 2 * BLOCK_BYTES, 4 * h + l, p, with_bits(high_nibbles(first[l][p]), pair[l][p], 4, 3, 4));
          put_line(to + 3 * BLOCK_BYTES, 4 * h + l, p, with_bits(high_nibbles(second[l][p]), pair[l][p], 6, 3, 4));
        }
      }
    }
  }
}

INLINE void bytes_of_rows(embed__panel_form form, const sources *s, int64_t first, int64_t count, int64_t dim, int32_t group, unsigned char *to) {
  if (scaling_of(form) != WITH_OFFSET && scaling_of(form) != PER_HALF) {
    bytes_of_blocks(form, s, first, count, dim, group, to);
    return;
  }
  for (int64_t b = first; b < first + count; b += K_BLOCKS, to += K_BLOCKS * BLOCK_BYTES) {
    if (form == EMBED__PANEL_Q6_K)
      bytes_of_q6_k(s, stored_block(form, b, group), to);
    else
      bytes_of_affine(form, s, stored_block(form, b, group), to);
  }
}

/* ---- scales as they stand in a panel ---- */

/* One half of every row. */
INLINE void halves_at(const sources *s, int64_t count, int64_t at, unsigned char *to) {
  uint16_t half[ROWS] = {0};
  for (int r = 0; r < count; ++r) memcpy(half + r, s->row[r] + at, 2);
  memcpy(to, half, sizeof half);
}

INLINE void words_at(const sources *s, int64_t count, int64_t at, unsigned char *to) {
  ints line[4][PARTS];
  lines_at(s, at, 16, line);
  UNROLL for (int w = 0; w < 4; ++w) { UNROLL for (int p = 0; p < PARTS; ++p) put_line(to, w, p, line[w][p]); }
  for (int r = (int)count; r < ROWS; ++r)
    for (int w = 0; w < 4; ++w) memset(to + 64 * w + 4 * r, 0, 4);
}

/* Those of a chunk, and the zeros that follow. */
INLINE void scales_of_rows(embed__panel_form form, const sources *s, int64_t rows, int64_t first, int64_t count, int32_t group, unsigned char *to) {
  unsigned char *const end = to + scale_bytes(form, count, group);
  const int64_t columns = group_columns(form, group);
  if (scaling_of(form) == PER_BLOCK) {
    for (int64_t b = first; b < first + count; b += columns / BLOCK_COLUMNS, to += 2 * ROWS) halves_at(s, rows, stored_block(form, b, group), to);
  } else if (scaling_of(form) != PER_ROW) {
    for (int64_t b = first; b < first + count; b += K_BLOCKS, to += HEADER_BYTES)
      words_at(s, rows, stored_block(form, b, group) + (form == EMBED__PANEL_Q6_K ? 192 : 0), to);
    if (form == EMBED__PANEL_Q6_K)
      for (int64_t b = first; b < first + count; b += K_BLOCKS, to += 2 * ROWS) halves_at(s, rows, stored_block(form, b, group) + 208, to);
  }
  memset(to, 0, (size_t)(end - to));
}

INLINE void row_scales(const sources *s, int64_t rows, int64_t dim, unsigned char *to) {
  float scale[ROWS] = {0};
  for (int r = 0; r < rows; ++r) memcpy(scale + r, s->row[r] + dim, 4);
  memcpy(to, scale, sizeof scale);
}

INLINE void write_ints(unsigned char *to, ints line, bool streaming) {
  if (streaming)
    stream_ints(to, line);
  else
    store_ints(to, line);
}

INLINE void pack(embed__panel_form form, const void *rows, int64_t row_bytes, int64_t count, int64_t dim, int32_t group, unsigned char *panel, bool streaming) {
  const int64_t blocks = blocks_of(dim);
  sources s = rows_at(rows, row_bytes, count);
  staged room;
  if (scaling_of(form) == PER_ROW) row_scales(&s, count, dim, panel);
  for (int64_t first = 0; first < blocks; first += CHUNK_BLOCKS) {
    int64_t here = blocks - first < CHUNK_BLOCKS ? blocks - first : CHUNK_BLOCKS;
    unsigned char *to = panel + chunk_at(form, first, group);
    scales_of_rows(form, &s, count, first, here, group, to);
    to += scale_bytes(form, here, group);
    bytes_of_rows(form, &s, first, here, dim, group, room.bytes);
    for (const unsigned char *from = room.bytes; from < room.bytes + here * BLOCK_BYTES; from += BLOCK_BYTES) {
      for (int64_t i = 0; i < bytes_of_block(form); i += (int64_t)sizeof(ints), to += sizeof(ints)) {
        ints line = load_ints(from + i);
        if (in_nibbles(form)) line = nibbles_of(line, load_ints(from + BLOCK_BYTES / 2 + i));
        write_ints(to, line, streaming);
      }
    }
  }
}

/* ---- scales as floats, for the blocks of a chunk ---- */

/* Steps and offsets of four blocks stand in the bytes of a word. */
INLINE void put_affine(ints steps, ints offsets, reals d, reals dmin, int64_t b, int lane, staged *to) {
  UNROLL for (int i = 0; i < 4; ++i) {
    store_reals(to->scale[b + i] + lane, times(d, reals_of(byte_of(steps, i))));
    store_reals(to->offset[b + i] + lane, times(dmin, reals_of(byte_of(offsets, i))));
  }
}

INLINE void affine_scales(const unsigned char *header, int64_t b, int lane, staged *to) {
  ints word[4];
  UNROLL for (int w = 0; w < 4; ++w) word[w] = load_ints(header + 4 * (w * ROWS + lane));
  reals d = low_halves(word[0]), dmin = high_halves(word[0]);
  put_affine(bits(word[1], 0, 0x3F3F3F3F), bits(word[2], 0, 0x3F3F3F3F), d, dmin, b, lane, to);
  put_affine(either(bits(word[3], 0, 0x0F0F0F0F), bits(word[1], 2, 0x30303030)), either(bits(word[3], 4, 0x0F0F0F0F), bits(word[2], 2, 0x30303030)), d, dmin,
             b + 4, lane, to);
}

/* from: as scales_of_rows writes them; PER_ROW has them already. */
INLINE void float_scales(embed__panel_form form, const unsigned char *from, int64_t count, int32_t group, staged *to) {
  for (int p = 0; p < PARTS; ++p) {
    const int lane = p * LANES;
    if (scaling_of(form) == PER_BLOCK) {
      for (int64_t b = 0; b < count; ++b)
        store_reals(to->scale[b] + lane, load_halves(from + 2 * (b * BLOCK_COLUMNS / group_columns(form, group) * ROWS + lane)));
    } else if (scaling_of(form) == PER_HALF) {
      for (int64_t i = 0; i < count * HALVES; ++i) {
        int64_t k = i / (K_BLOCKS * HALVES), word = i % (K_BLOCKS * HALVES) / 4;
        reals d = load_halves(from + count / K_BLOCKS * HEADER_BYTES + 2 * (k * ROWS + lane));
        ints steps = load_ints(from + k * HEADER_BYTES + 4 * (word * ROWS + lane));
        store_reals(to->scale[i] + lane, times(d, reals_of(signed_byte(steps, (int)(i % 4)))));
      }
    } else if (scaling_of(form) == WITH_OFFSET) {
      for (int64_t b = 0; b < count; b += K_BLOCKS) affine_scales(from + b / K_BLOCKS * HEADER_BYTES, b, lane, to);
    }
  }
}

/* ---- products ---- */

typedef struct lane_group {  /* the rows of a register's lanes */
  const unsigned char *line; /* of the first block */
  const float *scale, *offset;
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
  bool begins;          /* with the first limb of a hidden row */
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

INLINE void begin_sums(scaling how, bool exact, int width, const int32_t *a, ints sum[TILE_DIGITS][SIDES]) {
  UNROLL for (int v = 0; v < width; ++v) { UNROLL for (int s = 0; s < SIDES; ++s) sum[v][s] = how == WITH_OFFSET && exact ? no_ints() : spread_word(a + v); }
}

INLINE void subtract_offsets(int width, const int32_t *record, const pass *p, int64_t b, reals chain[TILE_DIGITS][SIDES]) {
  UNROLL for (int v = 0; v < width; ++v) {
    reals x = spread_real(record + AT_B * width + v);
    UNROLL for (int s = 0; s < SIDES; ++s) chain[v][s] = minus_times(load_reals(p->side[s].offset + b * ROWS), x, chain[v][s]);
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
  if (in_integers) begin_sums(how, exact, width, record + AT_A * width, sum);
  for (int64_t b = 0; b < p->blocks; ++b, record += RECORD_WORDS * width) {
    for (int f = 0; f < p->fetch; ++f) {
      UNROLL for (int s = 0; s < SPAN; ++s) prefetch(soon[s]), soon[s] += 64;
    }
    if (in_integers) {
      add_products(nibbles, width, line, 0, 8, record, sum);
    } else if (how == PER_HALF) {
      UNROLL for (int h = 0; h < HALVES; ++h) {
        begin_sums(how, exact, width, record + (AT_A + h) * width, sum);
        add_products(nibbles, width, line, 4 * h, 4 * h + 4, record, sum);
        add_scaled(how, exact, width, record, sum, p, HALVES * b + h, chain);
      }
    } else {
      begin_sums(how, exact, width, record + AT_A * width, sum);
      add_products(nibbles, width, line, 0, 8, record, sum);
      add_scaled(how, exact, width, record, sum, p, b, chain);
      if (how == WITH_OFFSET && !exact) subtract_offsets(width, record, p, b, chain);
    }
    UNROLL for (int s = 0; s < SIDES; ++s) line[s] += stride;
  }
  add_chunk(how, exact, width, p, sum, chain);
}

/* Of exact products: once for a hidden row, whose first limb has the sums of x. */
static void subtract_chunk_offsets(int64_t width, const pass *p) {
  for (int64_t v = 0; v < width; ++v) {
    if (!p->begins && v == 0) continue;
    if (v > 0 && p->hidden[v] == p->hidden[v - 1]) continue;
    reals chain[SIDES];
    UNROLL for (int s = 0; s < SIDES; ++s) chain[s] = no_reals();
    for (int64_t b = 0; b < p->blocks; ++b) {
      reals x = spread_real(p->record + RECORD_WORDS * width * b + AT_B * width + v);
      UNROLL for (int s = 0; s < SIDES; ++s) chain[s] = times_plus(load_reals(p->side[s].offset + b * ROWS), x, chain[s]);
    }
    UNROLL for (int s = 0; s < SIDES; ++s) {
      float *z = p->side[s].z + p->hidden[v] * p->ldz;
      store_part(z, p->side[s].lanes, minus(load_part(z, p->side[s].lanes), chain[s]));
    }
  }
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
          g->offset = room[side].offset[0] + part * LANES;
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
        p.begins = tile.first == 0 || p.hidden[0] != p.hidden[-1];
        if (j->exact && scaling_of(form) == WITH_OFFSET) subtract_chunk_offsets(tile.width, &p);
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
