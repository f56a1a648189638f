/* SPDX-License-Identifier: BSD-3-Clause */
/* Radix sort by the row's digits, the least first: each pass keeps the order of equals, so positions stay ascending. A key is
 * one word, the position in its low bits and as much of the row as fits above; rows that have more bits than that are
 * sorted by the low ones, then by the high ones. */
#include "scatter/group.h"

#include "core/checked.h"
#include "core/error.h"

enum { LEAST_DIGIT = 4, MOST_DIGIT = 11 /* bits: the counters of a pass stay in a first-level cache */ };

typedef struct sorting {
  const embed__ids *ids;
  const embed__id_policy *policy;
  uint64_t *keys, *other; /* [n] each */
  int64_t n;              /* positions that name a stored row */
  uint64_t all;           /* the bits of all rows */
  bool ascending;         /* the rows of `keys` are */
  int position_bits;
} sorting;

static int bit_length(uint64_t x) { return x ? 64 - __builtin_clzll(x) : 0; }
static int64_t position_of(const sorting *s, uint64_t key) { return (int64_t)(key & (((uint64_t)1 << s->position_bits) - 1)); }
static int64_t row_at(const sorting *s, int64_t position) { return embed__row_of_id(s->policy, embed__id_at(s->ids, position)); }

/* A key keeps what of its row has room; row_at knows the rest. */
static inline void push(sorting *s, int64_t row, int64_t position, int64_t *before) {
  s->keys[s->n++] = (uint64_t)row << s->position_bits | (uint64_t)position;
  s->all |= (uint64_t)row;
  s->ascending &= row >= *before;
  *before = row;
}

static void collect(sorting *s) {
  sorting local = *s; /* in registers */
  const embed__ids ids = *s->ids;
  const bool every = s->policy->oov == EMBED_OOV_ERROR && !s->policy->padding; /* a proved list then has rows alone */
  int64_t before = 0;
  if (every && ids.wide) {
    for (int64_t p = 0; p < ids.n; ++p) push(&local, ((const int64_t *)ids.at)[p], p, &before);
  } else if (every) {
    for (int64_t p = 0; p < ids.n; ++p) push(&local, ((const int32_t *)ids.at)[p], p, &before);
  } else {
    for (int64_t p = 0; p < ids.n; ++p) {
      int64_t row = row_at(s, p);
      if (row >= 0) push(&local, row, p, &before);
    }
  }
  *s = local;
}

static void sort_by_digit(sorting *s, int shift, int bits) {
  int64_t place[1 << MOST_DIGIT] = {0}, at = 0;
  const uint64_t mask = ((uint64_t)1 << bits) - 1, *keys = s->keys;
  for (int64_t i = 0; i < s->n; ++i) ++place[keys[i] >> shift & mask];
  for (int64_t d = 0; d < (int64_t)1 << bits; ++d) {
    int64_t count = place[d];
    place[d] = at;
    at += count;
  }
  for (int64_t i = 0; i < s->n; ++i) s->other[place[keys[i] >> shift & mask]++] = keys[i];
  s->keys = s->other;
  s->other = (uint64_t *)(uintptr_t)keys;
}

/* By `bits` bits of the keys above the position. */
static void sort_by_bits(sorting *s, int bits) {
  int most = bit_length((uint64_t)s->n); /* about as many counters as keys, no more */
  most = most < LEAST_DIGIT ? LEAST_DIGIT : most > MOST_DIGIT ? MOST_DIGIT : most;
  int passes = (bits + most - 1) / most, digit = passes ? (bits + passes - 1) / passes : 0;
  for (int p = 0; p < passes; ++p) sort_by_digit(s, s->position_bits + p * digit, digit < bits - p * digit ? digit : bits - p * digit);
}

static void sort(sorting *s) {
  const int bits = bit_length(s->all), room = 64 - s->position_bits;
  sort_by_bits(s, bits < room ? bits : room);
  if (bits <= room) return;
  for (int64_t i = 0; i < s->n; ++i) {
    int64_t position = position_of(s, s->keys[i]);
    s->keys[i] = (uint64_t)row_at(s, position) >> room << s->position_bits | (uint64_t)position;
  }
  sort_by_bits(s, bits - room);
}

/* Runs of equal rows, without a branch on where one begins: in a list of many rows nobody can foretell it. */
static void find_runs(const sorting *s, int64_t *positions, int64_t *rows, int64_t *begin, embed__groups *out) {
  const bool whole = bit_length(s->all) <= 64 - s->position_bits; /* a key holds all of its row */
  int64_t count = 0, longest = 0, before = -1;
  for (int64_t i = 0; i < s->n; ++i) {
    const uint64_t key = s->keys[i];
    int64_t position = position_of(s, key), row = whole ? (int64_t)(key >> s->position_bits) : row_at(s, position);
    positions[i] = position;
    rows[count] = row; /* stays where a run begins, else the next one's is written over it */
    begin[count] = i;
    count += row != before;
    before = row;
  }
  begin[count] = s->n;
  for (int64_t r = 0; r < count; ++r) longest = embed__max(longest, begin[r + 1] - begin[r]);
  *out = (embed__groups){.positions = positions, .rows = rows, .begin = begin, .count = count, .longest = longest};
}

embed_status embed__group(embed_context *ctx, const embed__ids *ids, const embed__id_policy *policy, embed__groups *out) {
  sorting s = {.ids = ids, .policy = policy, .ascending = true, .position_bits = bit_length((uint64_t)ids->n)};
  int64_t *rows, *begin;
  EMBED__TRY(embed__scratch_get(ctx, ids->n, sizeof *s.keys, &s.keys));
  EMBED__TRY(embed__scratch_get(ctx, ids->n, sizeof *s.other, &s.other));
  EMBED__TRY(embed__scratch_get(ctx, ids->n + 1, sizeof *rows, &rows));
  EMBED__TRY(embed__scratch_get(ctx, ids->n + 1, sizeof *begin, &begin));
  collect(&s);
  if (!s.ascending) sort(&s);
  find_runs(&s, (int64_t *)(void *)s.other, rows, begin, out);
  return EMBED_OK;
}
