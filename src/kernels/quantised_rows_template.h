/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantised rows to panels in the words of a level, which are defined before:
 *   LANES, PARTS (vectors of a line of a panel); ints, reals; the rest as they are named. larger(a, b) is b where a is NaN. */
#include "kernels/quantised_form.h"

/* What multiplies a block's sums, in the lanes of a register. */
typedef struct block_scales {
  reals scale[HALVES]; /* PER_ROW: the rows'; the second PER_HALF alone */
  reals rest;          /* WITH_OFFSET */
  reals center;        /* 3 * 2^22 + the center, which its low 16 bits are therefore */
} block_scales;

/* What 16 rows of some blocks become for one pass. */
typedef struct staged {
  _Alignas(64) unsigned char bytes[CHUNK_BLOCKS * BLOCK_BYTES];
  block_scales scales[CHUNK_BLOCKS][PARTS];
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

/* One half of every row. They are not read here: wide loads wait for narrow stores to reach the cache. */
INLINE void halves_at(const sources *s, int64_t count, int64_t at, unsigned char *to) {
  UNROLL for (int r = 0; r < ROWS; ++r) memcpy(to + 2 * r, s->row[r] + at, 2);
  if (count < ROWS) memset(to + 2 * count, 0, (size_t)(2 * (ROWS - count)));
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

INLINE void row_scales(const sources *s, int64_t rows, int64_t dim, void *to) {
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

/* A K form's block in some lanes: of its 8 blocks' steps and offsets, four stand in the bytes of a word. Those are taken as the low bits of
 * floats, 2^23 + v, and multiplied in one FMA with what 2^23 is too much: it rounds once. */
typedef struct affine {
  ints steps[2], offsets[2];
  reals d, dmin, ratio, less_d, less_dmin, less_ratio;
} affine;

INLINE void begin_affine(const unsigned char *header, int lane, affine *a) {
  const reals less = spread(-0x1p23f);
  ints word[4];
  UNROLL for (int w = 0; w < 4; ++w) word[w] = load_ints(header + 4 * (w * ROWS + lane));
  a->steps[0] = bits(word[1], 0, 0x3F3F3F3F);
  a->offsets[0] = bits(word[2], 0, 0x3F3F3F3F);
  a->steps[1] = either(bits(word[3], 0, 0x0F0F0F0F), bits(word[1], 2, 0x30303030));
  a->offsets[1] = either(bits(word[3], 4, 0x0F0F0F0F), bits(word[2], 2, 0x30303030));
  a->d = low_halves(word[0]);
  a->dmin = high_halves(word[0]);
  a->ratio = larger(over(a->dmin, a->d), no_reals());
  a->less_d = times(a->d, less);
  a->less_dmin = times(a->dmin, less);
  a->less_ratio = times(a->ratio, less);
}

/* i: of the 8. */
INLINE void put_affine(embed__panel_form form, const affine *a, int64_t i, block_scales *to) {
  const reals magic = spread(0x1.8p23f), most = spread(0x1.8p23f + (float)most_u(form));
  const ints step = magic_byte(a->steps[i / 4], (int)(i % 4)), offset = magic_byte(a->offsets[i / 4], (int)(i % 4));
  const reals by = times_plus(as_reals(step), a->d, a->less_d), of_ratio = times_plus(as_reals(offset), a->ratio, a->less_ratio);
  const reals center = smaller(times_plus(of_ratio, inverse_of_magic(step), magic), most);
  to->scale[0] = by;
  to->center = center;
  to->rest = minus_times(minus(center, magic), by, times_plus(as_reals(offset), a->dmin, a->less_dmin));
}

/* Where a chunk's scales stand as scales_of_rows writes them, in the lanes from `lane` on, and what some are made from. */
typedef struct scale_lines {
  const unsigned char *from;
  int64_t count; /* of the chunk's blocks */
  int lane;
  affine of; /* WITH_OFFSET: of the K form's block under way */
} scale_lines;

/* Block b, after the one before. set: the one of the chunk's scales that it has, where a block has one. */
INLINE void put_scales(embed__panel_form form, scale_lines *at, int64_t b, int64_t set, block_scales *to) {
  const int64_t k = b / K_BLOCKS, i = b % K_BLOCKS;
  if (scaling_of(form) == PER_BLOCK) {
    to->scale[0] = load_halves(at->from + 2 * (set * ROWS + at->lane));
  } else if (scaling_of(form) == PER_HALF) {
    const reals d = load_halves(at->from + at->count / K_BLOCKS * HEADER_BYTES + 2 * (k * ROWS + at->lane));
    const ints steps = load_ints(at->from + k * HEADER_BYTES + 4 * (i / 2 * ROWS + at->lane));
    UNROLL for (int h = 0; h < HALVES; ++h) to->scale[h] = times(d, reals_of(signed_byte(steps, (int)(i % 2) * HALVES + h)));
  } else if (scaling_of(form) == WITH_OFFSET) {
    if (i == 0) begin_affine(at->from + k * HEADER_BYTES, at->lane, &at->of);
    put_affine(form, &at->of, i, to);
  }
}

INLINE void float_scales(embed__panel_form form, const unsigned char *from, int64_t count, int32_t group, staged *to) {
  const int64_t each = group_columns(form, group) / BLOCK_COLUMNS; /* blocks that have a scale together */
  for (int p = 0; scaling_of(form) != PER_ROW && p < PARTS; ++p) {
    scale_lines at = {.from = from, .count = count, .lane = p * LANES};
    if (scaling_of(form) == WITH_OFFSET) memset(&at.of, 0, sizeof at.of); /* for compilers that do not see that block 0 is first */
    for (int64_t b = 0, set = 0, left = each; b < count; ++b, --left) {
      if (left == 0) left = each, ++set;
      put_scales(form, &at, b, set, &to->scales[b][p]);
    }
  }
}

INLINE void float_row_scales(const void *from, staged *to) {
  UNROLL for (int p = 0; p < PARTS; ++p) to->scales[0][p].scale[0] = load_reals((const float *)from + p * LANES);
}
