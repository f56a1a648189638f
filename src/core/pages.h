/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__PAGES_H
#define EMBED__PAGES_H

#include <stddef.h>
#include <stdint.h>

/* Bytes. From 8 MiB on what a file's copy is written to lies on huge pages: its first writing is most of the work of opening (1.2 GB
 * of word2vec: 1.8 s with 4 KiB pages, 0.9 s so). */
enum { EMBED__HUGE_PAGE = 2 << 20, EMBED__HUGE_PAGES_FROM = 8 << 20 };

/* bytes, made whole huge pages where they are many: a tail of small pages may have more of them than all that is before it. */
static inline int64_t embed__whole_pages(int64_t bytes) {
  return bytes < EMBED__HUGE_PAGES_FROM || bytes > INT64_MAX - EMBED__HUGE_PAGE ? bytes : (bytes + EMBED__HUGE_PAGE - 1) / EMBED__HUGE_PAGE * EMBED__HUGE_PAGE;
}

/* Asks the kernel to back this range, aligned to EMBED__HUGE_PAGE, with 2 MiB pages; a wish, never an error. */
void embed__want_huge_pages(void *memory, size_t bytes);

#endif
