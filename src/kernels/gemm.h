/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of two matrices of floats, added to a third: what a backward pass is made of.
 *   C(i, c) = [C(i, c) +] sum_j A(i, j) * B(j, c)          0 <= i < m, 0 <= c < n, 0 <= j < k
 * A stands as it is, by rows or by columns. B is packed in strips of 32 columns, each [k][32] in one run, the last filled
 * up with zeros; C is row-major. Any m, n, k >= 0, any alignment; nothing is read but A and B's whole strips, nothing written
 * but C. No allocation, no state, MXCSR's control bits untouched.
 * The order of one sum depends on k and level alone: j ascending in chains of 256 that start at 0, products added by FMA
 * (scalar: product and sum rounded apart); chains are added to C in ascending order. avx2, avx512 and neon have the same bits.
 *
 * Pairs: the same where A and B hold words of two bfloats (bfloats.h) and k counts words, of which a chain has 128: j in the same order, so
 * in the same chains. A product of two bfloats is exact in float: all levels, scalar too, have the bits of the products of the same numbers
 * as floats, but where a product or a sum lies below 2^-126: vdpbf16ps makes it 0. Tiles (amx) sum the even and the odd j of 32 apart before
 * they add them to the chain; their order, too, depends on k alone.
 *
 * Limbs: floats once more, where tiles are so fast that floats are taken apart for them. A and B hold words of two numbers' limbs, bfloats whose
 * sums are the numbers times 2^24, in three planes; chains and order are those of pairs, each step with six of the products of limbs. Error <= 2e-6
 * of sum |a||b| and 2^-149 where no number is above EMBED__LIMBS_MOST (panel.h) in size: products of larger ones may overflow, and infinities become
 * NaN. */
#ifndef EMBED__GEMM_H
#define EMBED__GEMM_H

#include <stdbool.h>
#include <stdint.h>

enum { EMBED__STRIP = 32 /* columns */, EMBED__GEMM_CHAIN = 256 /* of j */, EMBED__PAIR_CHAIN = EMBED__GEMM_CHAIN / 2 /* words of two j */ };

typedef struct embed__gemm {
  int64_t m, n, k;
  const void *a; /* floats or words: A(i, j) at a[i * lda + j], by columns at a[j * lda + i] */
  int64_t lda;
  const void *b; /* strips */
  float *c;
  int64_t ldc;
  bool add;
  int64_t a_plane, b_plane; /* limbs: words from one plane to the next */
  const void *soon;         /* memory that is read next: fetched on the way, in equal parts per tile. May be NULL; never faults */
  int64_t soon_bytes;
} embed__gemm;

typedef struct embed__gemm_kernels {
  void (*by_rows)(const embed__gemm *g);
  void (*by_columns)(const embed__gemm *g);
  int64_t rows; /* of A that are multiplied together: blocks of a multiple of it have no short tile */
  void (*pairs_by_rows)(const embed__gemm *g);
  void (*pairs_by_columns)(const embed__gemm *g);
  void (*limbs_by_rows)(const embed__gemm *g); /* all four, or none */
  void (*limbs_by_columns)(const embed__gemm *g);
  /* Words of x: out[l * plane + p] has limb l of x[2p] and x[2p + 1], p < ceil(n / 2), an odd last number beside a zero; or of first[i] and
   * second[i], which may be NULL: zeros. Whether all numbers are at most MOST in size. */
  bool (*limbs_along)(const float *x, int64_t n, uint32_t *out, int64_t plane);
  bool (*limbs_across)(const float *first, const float *second, int64_t n, uint32_t *out, int64_t plane);
  bool has_pairs; /* the CPU multiplies pairs: below, they are scalar's, and rounded floats are faster */
} embed__gemm_kernels;

static inline int64_t embed__strips(int64_t n) { return (n + EMBED__STRIP - 1) / EMBED__STRIP; }

void embed__gemm_scalar(embed__gemm_kernels *k);
void embed__gemm_avx2(embed__gemm_kernels *k);
void embed__gemm_avx512(embed__gemm_kernels *k);
void embed__gemm_avx512bf16(embed__gemm_kernels *k);
void embed__gemm_amx(embed__gemm_kernels *k);
void embed__gemm_neon(embed__gemm_kernels *k);

#endif
