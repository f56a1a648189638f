/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__PAGES_H
#define EMBED__PAGES_H

#include <stddef.h>

enum { EMBED__HUGE_PAGE = 2 << 20 }; /* bytes */

/* Asks the kernel to back this range, aligned to EMBED__HUGE_PAGE, with 2 MiB pages; a wish, never an error. */
void embed__want_huge_pages(void *memory, size_t bytes);

#endif
