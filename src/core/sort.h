/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__SORT_H
#define EMBED__SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EMBED__SORT_ITEM = 32 /* bytes of an item, at most */ };

typedef bool embed__is_before(const void *a, const void *b); /* in a total order */

/* Sorts items [n] of some bytes each. A heap: n log n whatever the order, which may be a file's that was made to be slow, and nothing
 * is allocated, as the C library's qsort may do. */
void embed__sort(void *items, int64_t n, size_t bytes, embed__is_before *before);

#endif
