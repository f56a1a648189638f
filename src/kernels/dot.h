/* SPDX-License-Identifier: BSD-3-Clause */
/* Tile products of the sweep, on rows as they are stored.
 *   z[i * ldz + r] = sum_j decoded(rows + r * row_bytes, j) * x[i * ldx + j]        0 <= r < count, 0 <= i < n
 * Any alignment of rows, any row_bytes that holds dim columns, any count, n >= 0, dim >= 1; nothing outside the rows
 * is read: the last may end at the last byte of a mapped file. No allocation, no state, MXCSR's control bits untouched.
 *
 * The order of one sum is fixed per level and stored form: it depends on dim alone, never on count, n, or where in the
 * tile the row stands. Every level has 16 lanes, column j in lane j % 16, then adds lanes i and i + 8, + 4, + 2, + 1.
 * scalar rounds product and sum apart; avx2, avx512 and neon use FMA and give the same bits. Which NaN comes out of several is
 * open. Error <= 2e-6 of sum |w||x| where roundings do not all fall to one side, else 2^-24 dim / 16; int8 rows are summed as q * x and multiplied by the
 * row's scale once. */
#ifndef EMBED__DOT_H
#define EMBED__DOT_H

#include "core/dtype.h"
#include "kernels/row.h"

typedef void embed__dot_tile(const void *rows, int64_t row_bytes, int64_t count, const float *x, int64_t ldx, int64_t n, int64_t dim, float *z, int64_t ldz);

/* The same on quantised rows: the bits of the codec's decoded floats under this level's tile of F32, where the number of
 * a weight is finite. The last group of a row is there whole. */
typedef void embed__dot_blocks(const void *rows, int64_t row_bytes, int64_t count, const float *x, int64_t ldx, int64_t n, int64_t dim, int32_t group, float *z,
                               int64_t ldz);

typedef struct embed__dot_kernels {
  embed__dot_tile *tile[EMBED__STORED_COUNT];
  int vector_bits; /* of the vectors that they multiply with: what a planner compares with another library's */
} embed__dot_kernels;

typedef struct embed__dot_block_kernels {
  embed__dot_blocks *tile[EMBED__FORM_COUNT]; /* NULL: this level has none, rows are decoded first */
} embed__dot_block_kernels;

void embed__dot_scalar(embed__dot_kernels *k);
void embed__dot_avx2(embed__dot_kernels *k);
void embed__dot_avx512(embed__dot_kernels *k);
void embed__dot_neon(embed__dot_kernels *k);
void embed__dot_blocks_avx512(embed__dot_block_kernels *k);

#endif
