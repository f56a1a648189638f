/* SPDX-License-Identifier: BSD-3-Clause */
/* The k best of a row of values that pass by in tiles: value descending, equal values (0 and -0 too) by lower id, NaN
 * above everything. The answer depends on the values alone, not on the order in which they pass. */
#ifndef EMBED__TOPK_H
#define EMBED__TOPK_H

#include "kernels/kernels.h"

typedef struct embed__ranked {
  uint64_t key; /* the total order of (value, id) as one number, larger is better */
  float value;  /* the bits that came in */
  int32_t id;
} embed__ranked;

/* A heap with the worst of its entries at the root. */
typedef struct embed__topk {
  embed__ranked *entries; /* [capacity] */
  int64_t capacity, count;
} embed__topk;

/* Offers z[0 .. n), which belong to ids first, first + 1, ...; n <= the sweep's block. Ids in exclude are passed over. */
void embed__topk_offer(const embed__kernels *k, embed__topk *top, const float *z, int64_t n, int32_t first, const int32_t *exclude, int64_t excluded);
void embed__topk_merge(embed__topk *top, const embed__topk *other);
void embed__topk_sort(embed__topk *top); /* best first; nothing can be offered after */

#endif
