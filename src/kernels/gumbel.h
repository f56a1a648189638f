/* SPDX-License-Identifier: BSD-3-Clause */
/* Sampling kernels: the random words of token ids, a float filter before the noise is computed from them in double, and
 * sums of exp at a temperature. Any alignment, any n >= 0, nothing outside [0, n) is read or written.
 *
 * Noise of an id is Gumbel's, -log(-log u) with u = (2 word + 1) 2^-33: at most EMBED__MOST_NOISE. */
#ifndef EMBED__GUMBEL_H
#define EMBED__GUMBEL_H

#include <stdint.h>

#define EMBED__MOST_NOISE 22.8739 /* -log(-log(1 - 2^-33)) = 22.87385... */

typedef struct embed__gumbel_kernels {
  /* words[i] = word (id & 3) of Philox4x32-10, counter (id >> 2, position low, position high, 2), key seed, for the ids first + i, which
   * are below 2^32. Same words at every level, as words_of. */
  void (*words)(uint64_t seed, uint64_t position, uint32_t first, int64_t n, uint32_t *words);
  /* The same for ids[i] >= 0. */
  void (*words_of)(uint64_t seed, uint64_t position, const int32_t *ids, int64_t n, uint32_t *words);
  /* Writes the positions, ascending, that are not ruled out by
   *     bits((float)((~word) >> 1)) >= z[i] * scale + offset        (the bits of a float as a number, rounded to float)
   * and returns how many: NaN is never ruled out. index has room for n. u <= 1 - v for v = (~word >> 1) 2^-31, so that the noise is
   * at most -log v, and bits(f) 2^-23 - 127 <= log2 f: with scale = 2^23 / (T log 2) and offset = 2^23 (158 - best / log 2), and a
   * margin for the roundings, whatever is ruled out has z / T + noise < best. Same positions at every level. */
  int64_t (*contenders)(const float *z, const uint32_t *words, int64_t n, float scale, float offset, int32_t *index);
  /* Sum of exp(z[i] * scale - top), in double; NaN where a z is NaN. Exponents are at most 1. Relative error of a term <= 1e-14 beside
   * the rounding of its exponent; terms below 1e-300 may count as 0; the order of the sum is fixed per level. */
  double (*sum_exp)(const float *z, int64_t n, double scale, double top);
} embed__gumbel_kernels;

void embed__gumbel_scalar(embed__gumbel_kernels *k);
void embed__gumbel_avx2(embed__gumbel_kernels *k);
void embed__gumbel_avx512(embed__gumbel_kernels *k);

#endif
