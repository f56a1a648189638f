/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/sort.h"

#include <string.h>

typedef struct heap {
  unsigned char *items;
  size_t bytes;
  embed__is_before *before;
} heap;

static unsigned char *item(const heap *h, int64_t i) { return h->items + (size_t)i * h->bytes; }

static void swap(const heap *h, int64_t i, int64_t j) {
  unsigned char kept[EMBED__SORT_ITEM];
  memcpy(kept, item(h, i), h->bytes);
  memcpy(item(h, i), item(h, j), h->bytes);
  memcpy(item(h, j), kept, h->bytes);
}

/* Of n items the one at `at` moves down until none below it is behind it. */
static void sink(const heap *h, int64_t at, int64_t n) {
  for (int64_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && h->before(item(h, child), item(h, child + 1))) ++child;
    if (!h->before(item(h, at), item(h, child))) return;
    swap(h, at, child);
  }
}

void embed__sort(void *items, int64_t n, size_t bytes, embed__is_before *before) {
  const heap h = {items, bytes, before};
  for (int64_t at = n / 2; at-- > 0;) sink(&h, at, n);
  for (int64_t last = n - 1; last > 0; --last) {
    swap(&h, 0, last); /* the largest */
    sink(&h, 0, last);
  }
}
