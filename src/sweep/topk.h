/* SPDX-License-Identifier: BSD-3-Clause */
/* The k best of a row of values that pass by in tiles: value descending, equal values (0 and -0 too) by lower id, NaN
 * above everything. The answer depends on the values alone, not on the order in which they pass. */
#ifndef EMBED__TOPK_H
#define EMBED__TOPK_H

#include "core/half.h"
#include "kernels/kernels.h"

typedef struct embed__ranked {
  uint64_t key; /* the total order of (value, id) as one number, larger is better */
  float value;  /* the bits that came in */
  int32_t id;
} embed__ranked;

/* Floats in ascending order become unsigned numbers in ascending order; NaN the largest. */
static inline uint32_t embed__rank_of_value(float value) {
  if (value != value) return UINT32_MAX;
  uint32_t u = embed__bits_of_f32(value + 0.0f); /* -0 becomes 0 */
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}
static inline uint64_t embed__rank(float value, int32_t id) { return (uint64_t)embed__rank_of_value(value) << 32 | (uint32_t)(INT32_MAX - id); } /* the key */

/* A heap with the worst of its entries at the root; or, with room for more than it keeps, a list that is cut back when it is full: of
 * hundreds of entries that costs a fifth of sifting each through a heap. */
typedef struct embed__topk {
  embed__ranked *entries; /* [capacity], a list's [room] */
  int64_t capacity, count;
  int64_t room;      /* 0 = a heap, else at least 2 capacity: a list */
  uint64_t bar;      /* list: at least `capacity` entries have this key or a better one; 0 = not known yet */
  float at_bar;      /* the value of that key */
  bool numbers_only; /* a NaN is passed over */
  bool has_floor;
  float floor;             /* at least `capacity` values of the row are not below it, so that others need not be ranked */
  const int32_t *original; /* equal values go by original[id]; NULL = by id */
} embed__topk;

/* A value that at least `capacity` of the maxima [n] are not below: as many of the values they were taken from. Nearly the largest such.
 * -inf where there are not enough. For rows that lie there whole: a heap with this floor ranks little more than what it keeps. */
float embed__topk_floor(const embed__kernels *k, const float *maxima, int64_t n, int64_t capacity);
/* Offers z[0 .. n), which belong to ids first, first + 1, ...; n <= the sweep's block. Ids in exclude are passed over. */
void embed__topk_offer(const embed__kernels *k, embed__topk *top, const float *z, int64_t n, int32_t first, const int32_t *exclude, int64_t excluded);
void embed__topk_merge(embed__topk *top, const embed__topk *other);
void embed__topk_sort(embed__topk *top); /* best first, count <= capacity; nothing can be offered after */

#endif
