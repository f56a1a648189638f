/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ways to the nearest rows share: heaps per slot and query of a chunk, and how one becomes an answer. */
#ifndef EMBED__SEARCH_H
#define EMBED__SEARCH_H

#include "geometry/geometry.h"
#include "sweep/topk.h"

typedef struct embed__search {
  const embed_context *ctx;
  const embed__nearest *q;
  int64_t capacity, chunk, first; /* entries of a heap; queries swept at once; the chunk's first */
  embed__ranked *entries;         /* [slots, chunk, capacity] */
  embed__topk *heaps;             /* [slots, chunk] */
} embed__search;

int64_t embed__search_state_bytes(const embed__search *s);
embed_status embed__search_heaps(embed_context *ctx, embed__search *s, int64_t slots);
void embed__search_empty(embed__search *s, int64_t slots);
/* Scores of rows column, column + 1, ... for a query of the chunk; the larger is the nearer, what is not a number no answer. */
void embed__search_offer(const embed__search *s, int32_t slot, int64_t query, const float *scores, int64_t columns, int64_t column);
/* The query's heap over all slots, best first. */
const embed__topk *embed__search_sorted(embed__search *s, int32_t slots, int64_t query);
/* Writes the answer to query `at` of all from a sorted heap; scores of -inf are none. */
void embed__search_answer(const embed__nearest *q, int64_t at, const embed__topk *top);

/* EMBED_METRIC_L2: distance.c. */
embed_status embed__nearest_by_distance(embed_context *ctx, const embed__nearest *q);

#endif
