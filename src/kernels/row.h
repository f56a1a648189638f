/* SPDX-License-Identifier: BSD-3-Clause */
/* Row kernels: one row in, one row out.
 * Any alignment, any count >= 0; nothing outside the given extents is read or written: the row may be the last of a
 * mapped file. No allocation, no state, MXCSR's control bits untouched. Every level gives the bits of scalar/row.c, but
 * where both operands of a sum or product are NaN either payload may come out. Buffers do not overlap, except where a
 * function says that it works in place. */
#ifndef EMBED__ROW_H
#define EMBED__ROW_H

#include <stdbool.h>
#include <stdint.h>

/* Stored forms that have kernels of their own; the rest is decoded by codec/ first. */
typedef enum embed__stored {
  EMBED__STORED_F32,
  EMBED__STORED_F16,
  EMBED__STORED_BF16,
  EMBED__STORED_I8, /* int8[dim], then a little-endian float scale: the decoded value scale * q is rounded to float once */
  EMBED__STORED_COUNT
} embed__stored;

/* out[j] = decoded(row, j) * scale; the decoded value is rounded to float before it is multiplied. */
typedef void embed__decode_row(const void *row, float *out, int64_t dim, float scale);
/* out[j] = in[j] rounded to nearest even in the 16-bit type. */
typedef void embed__round_row(const float *in, uint16_t *out, int64_t dim);
/* Copies bytes. streaming: past the caches, for outputs larger than them (stores may be weakly ordered: fence() after
 * the last row). */
typedef void embed__copy_row(const void *row, void *out, int64_t bytes, bool streaming);

typedef struct embed__row_kernels {
  embed__decode_row *decode[EMBED__STORED_COUNT];
  embed__round_row *to_f16, *to_bf16;
  embed__copy_row *copy;
  void (*fence)(void);
  void (*add)(float *sum, const float *row, int64_t dim);                       /* sum[j] += row[j] */
  void (*add_scaled)(float *sum, const float *row, int64_t dim, float weight);  /* sum[j] += weight * row[j], two roundings */
  void (*scale)(float *row, int64_t dim, float factor);                         /* row[j] *= factor, in place */
  void (*multiply)(float *values, const float *row, int64_t dim, float factor); /* values[j] * factor * row[j], two roundings, in this order */
  void (*keep_max)(float *best, const float *row, int64_t dim); /* best[j] = row[j] where row[j] > best[j] or row[j] is NaN; a NaN in best stays */
  void (*keep_min)(float *best, const float *row, int64_t dim);
  /* Sum of squares in 16 double lanes (lane j % 16; products of floats are exact in double, so FMA changes nothing),
   * then lanes i and i + 8, + 4, + 2, + 1: the same bits at every level. */
  double (*sum_squares)(const float *row, int64_t dim);
} embed__row_kernels;

void embed__row_scalar(embed__row_kernels *k);
void embed__row_avx2(embed__row_kernels *k);
void embed__row_avx512(embed__row_kernels *k);
void embed__row_neon(embed__row_kernels *k);

#endif
