/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys with an id in the upper half, sorted by it; equal ids keep their order. */
#ifndef EMBED__SORT_IDS_H
#define EMBED__SORT_IDS_H

#include <stdint.h>

/* Ids are below vocab. Where the sorted keys are: keys or room [n]. */
static inline uint64_t *embed__sort_upper_halves(uint64_t *keys, uint64_t *room, int64_t n, int64_t vocab) {
  enum { DIGIT = 11, VALUES = 1 << DIGIT };
  if (n < 64) { /* insertion: a digit's counts cost more */
    for (int64_t i = 1; i < n; ++i) {
      uint64_t key = keys[i];
      int64_t at = i;
      for (; at > 0 && keys[at - 1] >> 32 > key >> 32; --at) keys[at] = keys[at - 1];
      keys[at] = key;
    }
    return keys;
  }
  for (int shift = 32; shift < 64 && (uint64_t)(vocab - 1) >> (shift - 32); shift += DIGIT) {
    int64_t first[VALUES] = {0}, sum = 0;
    for (int64_t i = 0; i < n; ++i) ++first[keys[i] >> shift & (VALUES - 1)];
    for (int v = 0; v < VALUES; ++v) {
      int64_t count = first[v];
      first[v] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; ++i) room[first[keys[i] >> shift & (VALUES - 1)]++] = keys[i];
    uint64_t *sorted = room;
    room = keys;
    keys = sorted;
  }
  return keys;
}

#endif
