/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/topk.h"

#include <math.h>

#include "core/checked.h"
#include "core/half.h"
#include "sweep/sweep.h"

static float of_ordered(uint32_t u) { return embed__f32_of_bits(u & 0x80000000u ? u & 0x7FFFFFFFu : ~u); }

static embed__ranked rank(const embed__topk *top, float value, int32_t id) {
  return (embed__ranked){embed__rank(value, top->original ? top->original[id] : id), value, id};
}

static void sift_down(embed__ranked *heap, int64_t count, int64_t at) {
  embed__ranked moving = heap[at];
  for (;;) {
    int64_t child = 2 * at + 1;
    if (child >= count) break;
    if (child + 1 < count) child += heap[child + 1].key < heap[child].key; /* no branch, which nobody could foretell */
    if (heap[child].key >= moving.key) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moving;
}

/* The key of the best n of them that is worst: found digit by digit, whatever their order. Keys differ. n <= count. */
static uint64_t nth_key(const embed__ranked *entries, int64_t count, int64_t n) {
  uint64_t prefix = 0, known = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    int32_t among[256] = {0};
    for (int64_t i = 0; i < count; ++i) among[entries[i].key >> shift & 255] += (entries[i].key & known) == prefix; /* no jump to guess */
    int digit = 255;
    for (; among[digit] < n; --digit) n -= among[digit];
    prefix |= (uint64_t)digit << shift;
    known |= (uint64_t)255 << shift;
    if (among[digit] == n) break; /* all with this prefix are in */
  }
  return prefix;
}

/* A list keeps its best. */
static void cut_back(embed__topk *top) {
  if (top->count < top->capacity || top->capacity == 0) return;
  const uint64_t least = nth_key(top->entries, top->count, top->capacity);
  int64_t kept = 0;
  uint64_t bar = UINT64_MAX;
  for (int64_t i = 0; i < top->count; ++i) {
    const embed__ranked entry = top->entries[i];
    const bool keeps = entry.key >= least;
    const uint64_t key = keeps ? entry.key : UINT64_MAX;
    top->entries[kept] = entry;
    kept += keeps;
    bar = key < bar ? key : bar;
  }
  top->bar = bar;
  top->at_bar = of_ordered((uint32_t)(bar >> 32));
  top->count = kept;
}

static void append(embed__topk *top, embed__ranked entry) {
  if (entry.key <= top->bar || top->capacity == 0) return;
  if (top->count == top->room) cut_back(top);
  if (entry.key > top->bar) top->entries[top->count++] = entry;
}

static void push(embed__topk *top, embed__ranked entry) {
  if (top->room) {
    append(top, entry);
    return;
  }
  if (top->count == top->capacity) {
    if (top->capacity == 0 || entry.key <= top->entries[0].key) return;
    top->entries[0] = entry;
    sift_down(top->entries, top->count, 0);
    return;
  }
  int64_t at = top->count++;
  while (at > 0) {
    int64_t parent = (at - 1) / 2;
    if (top->entries[parent].key <= entry.key) break;
    top->entries[at] = top->entries[parent];
    at = parent;
  }
  top->entries[at] = entry;
}

static bool among(const int32_t *ids, int64_t n, int32_t id) {
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] == id) return true;
  return false;
}

/* What may still come in, of ids from `first` on, is not below this. Equals of the worst entry lose to it when they come later, as they do where
 * thousands are alike: a row of zeros, or -inf of all tokens that a grammar bans. */
static float threshold(const embed__topk *top, int32_t first) {
  const bool full = top->room ? top->bar > 0 : top->count == top->capacity && top->count > 0;
  float least = top->room ? top->at_bar : full ? top->entries[0].value : 0;
  if (!full) return top->has_floor ? top->floor : -INFINITY;
  if (isnan(least)) return INFINITY; /* only another NaN can still come in */
  const int32_t worst = top->room ? INT32_MAX - (int32_t)(uint32_t)top->bar : top->entries[0].id;
  if (!top->original && worst < first) least = nextafterf(least, INFINITY);
  return top->has_floor && top->floor > least ? top->floor : least;
}

/* Halves what lies between -inf and the largest; a count of all maxima costs less than a sift through a heap. */
float embed__topk_floor(const embed__kernels *k, const float *maxima, int64_t n, int64_t capacity) {
  uint32_t low = embed__rank_of_value(-INFINITY), high = embed__rank_of_value(k->reduce.max(maxima, n)); /* low: enough are not below it */
  if (n < capacity) return -INFINITY;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    const int64_t passing = k->reduce.count_at_least(maxima, n, of_ordered(middle));
    if (passing >= capacity)
      low = middle;
    else
      high = middle;
    if (passing >= capacity && passing <= capacity + capacity / 8) break;
  }
  return of_ordered(low);
}

/* A full heap turns nearly all values away at once. The first tile fills it, and meets a better threshold each time the
 * number of values seen has doubled: 5 k or so of its values are ranked, not all. */
void embed__topk_offer(const embed__kernels *k, embed__topk *top, const float *z, int64_t n, int32_t first, const int32_t *exclude, int64_t excluded) {
  enum { FEW = 64 };
  const bool full = top->room || top->count == top->capacity || top->has_floor;
  int32_t index[EMBED__BLOCK];
  for (int64_t at = 0, piece; at < n; at += piece) {
    piece = full ? n : embed__min(n - at, embed__max(FEW, at));
    int64_t candidates = k->reduce.at_least(z + at, piece, threshold(top, first + (int32_t)at), index);
    for (int64_t i = 0; i < candidates; ++i) {
      int32_t id = first + (int32_t)at + index[i];
      if (top->numbers_only && isnan(z[at + index[i]])) continue;
      if (excluded && among(exclude, excluded, id)) continue;
      push(top, rank(top, z[at + index[i]], id));
    }
  }
}

void embed__topk_merge(embed__topk *top, const embed__topk *other) {
  for (int64_t i = 0; i < other->count; ++i) push(top, other->entries[i]);
}

void embed__topk_sort(embed__topk *top) {
  if (top->room) {
    cut_back(top);
    for (int64_t at = top->count / 2 - 1; at >= 0; --at) sift_down(top->entries, top->count, at);
  }
  for (int64_t end = top->count - 1; end > 0; --end) { /* the worst goes to the end */
    embed__ranked worst = top->entries[0];
    top->entries[0] = top->entries[end];
    top->entries[end] = worst;
    sift_down(top->entries, end, 0);
  }
}
