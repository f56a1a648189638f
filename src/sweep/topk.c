/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/topk.h"

#include <math.h>

#include "core/checked.h"
#include "core/half.h"
#include "sweep/sweep.h"

/* Floats in ascending order become unsigned numbers in ascending order; NaN the largest. */
static uint32_t ordered(float value) {
  if (isnan(value)) return UINT32_MAX;
  uint32_t u = embed__bits_of_f32(value + 0.0f); /* -0 becomes 0 */
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}

static embed__ranked rank(float value, int32_t id) { return (embed__ranked){(uint64_t)ordered(value) << 32 | (uint32_t)(INT32_MAX - id), value, id}; }

static void sift_down(embed__ranked *heap, int64_t count, int64_t at) {
  embed__ranked moving = heap[at];
  for (;;) {
    int64_t child = 2 * at + 1;
    if (child >= count) break;
    if (child + 1 < count && heap[child + 1].key < heap[child].key) ++child;
    if (heap[child].key >= moving.key) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moving;
}

static void push(embed__topk *top, embed__ranked entry) {
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

static float threshold(const embed__topk *top) {
  if (top->count < top->capacity || top->count == 0) return -INFINITY;
  return isnan(top->entries[0].value) ? INFINITY : top->entries[0].value; /* only another NaN can still come in */
}

/* A full heap turns nearly all values away at once. The first tile fills it, and meets a better threshold each time the
 * number of values seen has doubled: 5 k or so of its values are ranked, not all. */
void embed__topk_offer(const embed__kernels *k, embed__topk *top, const float *z, int64_t n, int32_t first, const int32_t *exclude, int64_t excluded) {
  enum { FEW = 64 };
  const bool full = top->count == top->capacity;
  int32_t index[EMBED__BLOCK];
  for (int64_t at = 0, piece; at < n; at += piece) {
    piece = full ? n : embed__min(n - at, embed__max(FEW, at));
    int64_t candidates = k->reduce.at_least(z + at, piece, threshold(top), index);
    for (int64_t i = 0; i < candidates; ++i) {
      int32_t id = first + (int32_t)at + index[i];
      if (excluded && among(exclude, excluded, id)) continue;
      push(top, rank(z[at + index[i]], id));
    }
  }
}

void embed__topk_merge(embed__topk *top, const embed__topk *other) {
  for (int64_t i = 0; i < other->count; ++i) push(top, other->entries[i]);
}

void embed__topk_sort(embed__topk *top) {
  for (int64_t end = top->count - 1; end > 0; --end) { /* the worst goes to the end */
    embed__ranked worst = top->entries[0];
    top->entries[0] = top->entries[end];
    top->entries[end] = worst;
    sift_down(top->entries, end, 0);
  }
}
