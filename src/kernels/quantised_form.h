/* SPDX-License-Identifier: BSD-3-Clause */
/* Where things stand in stored rows and in panels of quantised rows (quantised.h). */
#ifndef EMBED__QUANTISED_FORM_H
#define EMBED__QUANTISED_FORM_H

#include <string.h>

#include "core/half.h"
#include "kernels/quantised.h"
#include "kernels/template.h"

enum {
  BLOCK_COLUMNS = 32,
  BLOCK_BYTES = 512, /* of a panel's block as bytes */
  CHUNK_BLOCKS = 16, /* whose sums are one chain */
  K_BLOCKS = 8,      /* of 32 in one block of the K forms */
  HALVES = 2,        /* of a block, with steps of their own in Q6_K */
  ROWS = EMBED__PANEL_ROWS,
  HEADER_BYTES = 4 * 4 * ROWS, /* of a panel for K_BLOCKS blocks of Q4_K or Q5_K; the steps of Q6_K take as much */
};

/* How scales apply. */
typedef enum scaling {
  PER_ROW,
  PER_BLOCK,
  WITH_OFFSET,
  PER_HALF,
} scaling;

INLINE scaling scaling_of(embed__panel_form form) {
  switch (form) {
    case EMBED__PANEL_I8: return PER_ROW;
    case EMBED__PANEL_Q4_K:
    case EMBED__PANEL_Q5_K: return WITH_OFFSET;
    case EMBED__PANEL_Q6_K: return PER_HALF;
    default: return PER_BLOCK;
  }
}

INLINE bool in_nibbles(embed__panel_form form) { return form == EMBED__PANEL_I4 || form == EMBED__PANEL_Q4_0 || form == EMBED__PANEL_Q4_K; }

/* The u that stands for 0; WITH_OFFSET has none. */
INLINE int32_t zero_of(embed__panel_form form) {
  switch (form) {
    case EMBED__PANEL_I8:
    case EMBED__PANEL_Q8_0: return 128;
    case EMBED__PANEL_I4:
    case EMBED__PANEL_Q4_0: return 8;
    case EMBED__PANEL_Q6_K: return 32;
    default: return 0;
  }
}

/* The largest u. */
INLINE int most_u(embed__panel_form form) {
  switch (form) {
    case EMBED__PANEL_I8:
    case EMBED__PANEL_Q8_0: return 255;
    case EMBED__PANEL_Q6_K: return 63;
    case EMBED__PANEL_Q5_K: return 31;
    default: return 15;
  }
}

INLINE int64_t blocks_of(int64_t dim) { return dim / BLOCK_COLUMNS + (dim % BLOCK_COLUMNS != 0); }
INLINE int64_t bytes_of_block(embed__panel_form form) { return in_nibbles(form) ? BLOCK_BYTES / 2 : BLOCK_BYTES; }
INLINE int64_t group_columns(embed__panel_form form, int32_t group) { return form == EMBED__PANEL_I4 ? group : BLOCK_COLUMNS; }
INLINE int64_t to_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Of a chunk of so many blocks. */
INLINE int64_t scale_bytes(embed__panel_form form, int64_t blocks, int32_t group) {
  int64_t columns = group_columns(form, group);
  switch (scaling_of(form)) {
    case PER_ROW: return 0;
    case WITH_OFFSET: return blocks / K_BLOCKS * HEADER_BYTES;
    case PER_HALF: return to_lines(blocks / K_BLOCKS * (HEADER_BYTES + 2 * ROWS));
    default: return to_lines((blocks * BLOCK_COLUMNS + columns - 1) / columns * 2 * ROWS);
  }
}
INLINE int64_t chunk_bytes(embed__panel_form form, int64_t blocks, int32_t group) { return scale_bytes(form, blocks, group) + blocks * bytes_of_block(form); }

/* Where the chunk that begins with block `first` begins in a panel. */
INLINE int64_t chunk_at(embed__panel_form form, int64_t first, int32_t group) {
  return (scaling_of(form) == PER_ROW ? 4 * ROWS : 0) + first / CHUNK_BLOCKS * chunk_bytes(form, CHUNK_BLOCKS, group);
}

/* -1: does not fit in 63 bits. */
INLINE int64_t quantised_bytes(embed__panel_form form, int64_t dim, int32_t group) {
  if (dim > INT64_MAX / 32) return -1;
  int64_t blocks = blocks_of(dim), last = blocks % CHUNK_BLOCKS;
  return chunk_at(form, blocks, group) + (last ? chunk_bytes(form, last, group) : 0);
}

/* Where block b of a stored row, or the K form's block that it is in, begins. */
INLINE int64_t stored_block(embed__panel_form form, int64_t b, int32_t group) {
  switch (form) {
    case EMBED__PANEL_I8: return BLOCK_COLUMNS * b;
    case EMBED__PANEL_I4: return b * BLOCK_COLUMNS / group * (2 + group / 2);
    case EMBED__PANEL_Q8_0: return 34 * b;
    case EMBED__PANEL_Q4_0: return 18 * b;
    case EMBED__PANEL_Q4_K: return 144 * (b / K_BLOCKS);
    case EMBED__PANEL_Q5_K: return 176 * (b / K_BLOCKS);
    default: return 210 * (b / K_BLOCKS);
  }
}

/* The step and the offset of sub-block i from the words of a Q4_K or Q5_K block's first 16 bytes. */
INLINE void six_bits(const uint32_t word[4], int i, uint32_t *step, uint32_t *offset) {
  int at = 8 * (i % 4);
  if (i < 4) {
    *step = word[1] >> at & 63;
    *offset = word[2] >> at & 63;
  } else {
    *step = (word[3] >> at & 15) | (word[1] >> (at + 6) & 3) << 4;
    *offset = (word[3] >> (at + 4) & 15) | (word[2] >> (at + 6) & 3) << 4;
  }
}

/* The forms, with the names that their functions carry. */
#define QUANTISED_FORMS(X)   \
  X(i8, EMBED__PANEL_I8)     \
  X(i4, EMBED__PANEL_I4)     \
  X(q8_0, EMBED__PANEL_Q8_0) \
  X(q4_0, EMBED__PANEL_Q4_0) \
  X(q4_k, EMBED__PANEL_Q4_K) \
  X(q5_k, EMBED__PANEL_Q5_K) \
  X(q6_k, EMBED__PANEL_Q6_K)

#endif
