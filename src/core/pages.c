/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/pages.h"

#include <sys/mman.h>

void embed__want_huge_pages(void *memory, size_t bytes) {
  size_t whole = bytes & ~((size_t)EMBED__HUGE_PAGE - 1);
#ifdef MADV_HUGEPAGE
  if (whole) (void)madvise(memory, whole, MADV_HUGEPAGE);
#else
  (void)memory;
  (void)whole;
#endif
}
