/* SPDX-License-Identifier: BSD-3-Clause */
/* Counter-based random numbers: a value is a function of (seed, stream, index), whoever computes it.
 * Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 * PPND16: Wichura, "Algorithm AS 241: the percentage points of the normal distribution", 1988. */
#ifndef EMBED__PHILOX_H
#define EMBED__PHILOX_H

#include <stdint.h>

/* Streams keep the uses of one seed apart; callers' own start at 2^32. */
enum {
  EMBED__STREAM_INIT = 0,
  EMBED__STREAM_SAMPLE = 2,
  EMBED__STREAM_ROUND = 4,
  EMBED__STREAM_ACCEPT = 5,
  EMBED__STREAM_CANDIDATES = 6
}; /* 1 resize, 3 dropout are reserved */

void embed__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* The four words of elements 4*quad .. 4*quad + 3. */
void embed__random_quad(uint64_t seed, uint64_t stream, uint64_t quad, uint32_t out[4]);
/* In (0, 1), never 0 or 1, symmetric around 1/2. */
static inline double embed__uniform(uint32_t word) { return (2.0 * (double)word + 1.0) * 0x1p-33; }
double embed__normal_quantile(double p); /* PPND16 */
double embed__normal_cdf(double x);

#endif
