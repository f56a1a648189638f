/* SPDX-License-Identifier: BSD-3-Clause */
/* Gather kernels: several rows side by side. A step takes the same few columns of every row before it goes on to the
 * next columns, so that as many memory streams run as there are rows; meanwhile the rows that come next are fetched.
 *
 * What comes out has the bits of the codec's decode (codec/<form>.c at level scalar) followed by row.h's to_f16 or
 * to_bf16, add, add_scaled, keep_max, keep_min, row after row in the given order. The codec is the specification: level
 * scalar has no kernels here, all its entries are NULL, and callers go row by row.
 * Any alignment, dim >= 1; nothing outside the rows and outputs is read or written, only fetched. No state, MXCSR's
 * control bits untouched. Outputs do not overlap rows or one another; the same row may be read twice. */
#ifndef EMBED__GATHER_H
#define EMBED__GATHER_H

#include <stdbool.h>

#include "core/dtype.h"

enum { EMBED__SIDE = 8 /* the most rows side by side */ };

typedef struct embed__rows {
  const unsigned char *row[EMBED__SIDE];
  const unsigned char *ahead[EMBED__SIDE]; /* count rows to fetch; one that is in work already costs little */
  int count;                               /* 1 .. EMBED__SIDE */
  int32_t group;                           /* of the form, where it has one */
  int64_t dim;
  int64_t bytes; /* of a stored row */
} embed__rows;

/* Where rows go: the first at `at`, the others `step` bytes apart. */
typedef struct embed__place {
  unsigned char *at;
  int64_t step;
  embed_dtype type; /* F32, F16 or BF16 */
  bool streaming;   /* past the caches: at (but for copy) and step are multiples of 64; a fence (row.h) after the last row */
} embed__place;

/* out row i = decoded(row i) * scale, the decoded value rounded to float before. Also by 1 it multiplies: where stored
 * floats are to keep every bit of a NaN, copy them. */
typedef void embed__gather_decode(const embed__rows *rows, float scale, const embed__place *out);

typedef enum embed__pooling { EMBED__POOL_SUM, EMBED__POOL_WEIGHTED, EMBED__POOL_MAX, EMBED__POOL_MIN } embed__pooling;
/* pooled[j] = reduced over rows 0, 1 ..: on top of what it holds, or with `first` of nothing (sums begin at +0).
 * weights [count], of use with WEIGHTED; 1 with MAX and MIN. */
typedef void embed__gather_pool(const embed__rows *rows, embed__pooling how, const float *weights, bool first, float *pooled);

typedef struct embed__gather_kernels {
  embed__gather_decode *decode[EMBED__FORM_COUNT];                /* NULL: this level has none */
  embed__gather_pool *pool[EMBED__FORM_COUNT];                    /* NULL where decode is */
  void (*copy)(const embed__rows *rows, const embed__place *out); /* the stored bytes */
} embed__gather_kernels;

void embed__gather_scalar(embed__gather_kernels *k);
void embed__gather_avx2(embed__gather_kernels *k);
void embed__gather_avx512(embed__gather_kernels *k);

#endif
