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

/* The table without an overlay that has row *row of t, and where: *row becomes its row there. */
const embed_table *embed__owner_of_row(const embed_table *t, int64_t *row);
/* An overlay of nothing but rows of base: row i is base's row ids[i]. For rows that cannot be copied by their bytes. */
embed_status embed__table_of_rows(embed_context *ctx, const embed_table *base, const int32_t *ids, int64_t n, embed_table **out);
void embed__overlay_free(struct embed__overlay *o, const embed_allocator *memory); /* NULL is fine */

#endif
