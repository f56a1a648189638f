/* SPDX-License-Identifier: BSD-3-Clause */
/* Approximate products with a copy of a table in 6 bits a weight: what certified search (head/BOUND.md) sweeps instead of the table.
 *
 * Columns are taken in blocks of 64, the last filled up with weights of 0. A sketch panel is 16 rows, one row to a lane:
 *   scales   [blocks][16] bfloats, then zeros up to a multiple of 64 bytes
 *   weights  [blocks][4][3][16][4] bytes: 16 columns of a block are three lines. Byte c of lane r of line l has u of row r, column
 *            16 g + 4 l + c, in its low 6 bits; the upper two of lines 0, 1 and 2 are bits 5 4, 3 2 and 1 0 of u of column 16 g + 12 + c.
 * w~ = scale * (u - 32), u in [1, 63].
 *
 * A hidden row becomes integers of 16 bits, digits of 8 bits in two rows: x~ = step * (256 * high + low), step = max |x| / 32512.
 *
 * z[i * ldz + r] = step * sum over blocks of float(isum) * scale, isum the exact sum of (u - 32) * (256 * high + low): sums of floats in
 * ascending order of blocks, each product and sum rounded apart or once. |z - w~ . x~| <= gamma(blocks + 4) * sum over blocks of |isum| *
 * scale * step. */
#ifndef EMBED__SKETCH_KERNELS_H
#define EMBED__SKETCH_KERNELS_H

#include <stdint.h>

enum { EMBED__SKETCH_ROWS = 16, EMBED__SKETCH_COLUMNS = 64, EMBED__SKETCH_ZERO = 32, EMBED__SKETCH_MOST = 31 /* |u - 32| */ };

typedef struct embed__sketch_kernels {
  /* Packed hidden rows, a multiple of 64 bytes. */
  int64_t (*x_bytes)(int64_t n, int64_t dim);
  /* x is finite. rounding[i] = |x - x~|^2 of row i, to a relative 2^-40. */
  void (*pack_x)(const float *x, int64_t ldx, int64_t n, int64_t dim, void *packed, double *rounding);
  /* panels: stride bytes apart, a multiple of 64, as packed. z has room for whole panels. */
  void (*multiply)(const void *panels, int64_t stride, int64_t count, const void *packed, int64_t n, int64_t dim, float *z, int64_t ldz);
  int vector_bits;
} embed__sketch_kernels;

static inline int64_t embed__sketch_blocks(int64_t dim) { return dim / EMBED__SKETCH_COLUMNS + (dim % EMBED__SKETCH_COLUMNS != 0); }
/* Where a panel's weights begin, and its bytes; dim at most 2^40. */
static inline int64_t embed__sketch_scale_bytes(int64_t dim) { return (embed__sketch_blocks(dim) + 1) / 2 * 64; }
static inline int64_t embed__sketch_panel_bytes(int64_t dim) { return embed__sketch_scale_bytes(dim) + embed__sketch_blocks(dim) * 768; }

/* Packed hidden rows: a step (float) for each, then from the next line on [n][blocks] records. */
enum { EMBED__SKETCH_RECORD = 33 /* words: 16 of high digits, 16 of low ones, -32 * the sum of the integers */ };
static inline int64_t embed__sketch_steps_bytes(int64_t n) { return (4 * n + 63) / 64 * 64; }

void embed__sketch_scalar(embed__sketch_kernels *k);
void embed__sketch_avx2(embed__sketch_kernels *k);
void embed__sketch_avx512vnni(embed__sketch_kernels *k);

#endif
