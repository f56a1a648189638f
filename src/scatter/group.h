/* SPDX-License-Identifier: BSD-3-Clause */
/* Positions of a list of ids, grouped by the row that they name. */
#ifndef EMBED__GROUP_H
#define EMBED__GROUP_H

#include "core/context.h"
#include "table/ids.h"

/* Run r: row rows[r], named at positions[begin[r]] .. positions[begin[r + 1] - 1], ascending. */
typedef struct embed__groups {
  const int64_t *positions; /* by row, then ascending */
  const int64_t *rows;      /* [count], ascending, each once */
  const int64_t *begin;     /* [count + 1] */
  int64_t count;
  int64_t longest; /* positions of the longest run */
} embed__groups;

/* Positions whose id names no stored row are left out. In scratch; time and memory linear in the list. */
embed_status embed__group(embed_context *ctx, const embed__ids *ids, const embed__id_policy *policy, embed__groups *out);

#endif
