/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows that stand over a read-only base: whose row a number names. */
#ifndef EMBED__OVERLAY_H
#define EMBED__OVERLAY_H

#include <embed/context.h>
#include <embed/table.h>

typedef struct embed__overlaid {
  int64_t id;  /* row of the whole */
  int64_t row; /* of `rows` */
} embed__overlaid;

/* Followed in memory by its list. */
struct embed__overlay {
  const embed_table *base, *rows; /* retained */
  int64_t n;
  embed__overlaid list[]; /* [n], ids ascend */
};

void embed__overlay_free(struct embed__overlay *o, const embed_allocator *memory); /* NULL is fine */

#endif
