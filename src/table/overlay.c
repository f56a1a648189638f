/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_table_overlay: a base with some rows replaced or added. Nothing is copied: a row is looked for in the sorted list
 * of ids, then in the base. */
#include "table/overlay.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/sort.h"
#include "table/table.h"

/* The first place in the list whose id is not below `row`. */
static int64_t place_of(const embed__overlay *o, int64_t row) {
  int64_t low = 0, high = o->n;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (o->list[middle].id < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const embed_table *embed__owner_of_row(const embed_table *t, int64_t *row) {
  while (t->overlay) {
    const embed__overlay *o = t->overlay;
    const int64_t at = place_of(o, *row);
    const bool listed = at < o->n && o->list[at].id == *row;
    if (listed) *row = o->list[at].row;
    t = listed ? o->rows : o->base;
  }
  return t;
}

const unsigned char *embed__overlaid_row(const embed_table *t, int64_t row) {
  t = embed__owner_of_row(t, &row);
  return t->data + row * t->row_bytes;
}

int64_t embed__rows_together(const embed_table *t, int64_t first, int64_t most, const unsigned char **rows, int64_t *stride) {
  const embed__overlay *o = t->overlay;
  if (!o) {
    *rows = embed__row(t, first);
    *stride = t->row_bytes;
    return most;
  }
  int64_t at = place_of(o, first), count = 1;
  if (at == o->n || o->list[at].id != first)
    return embed__rows_together(o->base, first, at < o->n ? embed__min(most, o->list[at].id - first) : most, rows, stride);
  while (count < most && at + count < o->n && o->list[at + count].id == first + count && o->list[at + count].row == o->list[at].row + count) ++count;
  return embed__rows_together(o->rows, o->list[at].row, count, rows, stride);
}

uint64_t embed__table_changes(const embed_table *t) {
  const uint64_t own = atomic_load_explicit(&t->changes, memory_order_acquire);
  return t->overlay ? own + embed__table_changes(t->overlay->base) + embed__table_changes(t->overlay->rows) : own;
}

static bool is_before(const void *a, const void *b) {
  const embed__overlaid *x = a, *y = b;
  return x->id < y->id || (x->id == y->id && x->row < y->row);
}

/* The list is sorted and its rows are positions of ids; *added = how many stand behind the base. */
static embed_status check_list(embed_context *ctx, const embed__overlaid *list, int64_t n, int64_t base_rows, int64_t *added) {
  int64_t twice = -1, first = 0;
  for (int64_t i = 1; i < n; ++i) /* of several the one that comes first in ids */
    if (list[i].id == list[i - 1].id && (twice < 0 || list[i].row < list[twice].row)) twice = i;
  if (twice >= 0)
    return embed__fail(ctx, EMBED_E_ID, list[twice].row, "id %" PRId64 " at position %" PRId64 " stands at position %" PRId64 " already", list[twice].id,
                       list[twice].row, list[twice - 1].row);
  while (first < n && list[first].id < base_rows) ++first;
  *added = n - first;
  for (int64_t i = first; i < n; ++i)
    if (list[i].id - base_rows != i - first)
      return embed__fail(ctx, EMBED_E_ID, list[i].row, "id %" PRId64 " at position %" PRId64 " is past row %" PRId64 ", which neither base nor ids have",
                         list[i].id, list[i].row, base_rows + (i - first));
  return EMBED_OK;
}

static embed_status check_pair(embed_context *ctx, const embed_table *base, const int64_t *ids, int64_t n, const embed_table *rows) {
  if (n < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "n is %" PRId64 " ids", n);
  if (n > 0 && !ids) return embed__null(ctx, "ids");
  if (n > rows->rows) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%" PRId64 " ids for the %" PRId64 " rows of rows", n, rows->rows);
  if (rows->dim != base->dim) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "rows has %" PRId64 " columns, base %" PRId64, rows->dim, base->dim);
  if (!base->codebook && (rows->dtype != base->dtype || rows->group != base->group)) /* over codes every row is decoded by its own table */
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "rows of %s over a base of %s: convert them to its dtype and group", embed__dtype_name(rows->dtype),
                       embed__dtype_name(base->dtype));
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] < 0) return embed__fail(ctx, EMBED_E_ID, i, "id %" PRId64 " at position %" PRId64 " is below 0", ids[i], i);
  return EMBED_OK;
}

static int64_t bytes_of(int64_t n) { return (int64_t)sizeof(embed__overlay) + n * (int64_t)sizeof(embed__overlaid); }

void embed__overlay_free(embed__overlay *o, const embed_allocator *memory) {
  if (!o) return;
  embed__table_release(o->base);
  embed__table_release(o->rows);
  embed__free(memory, o, (size_t)bytes_of(o->n), EMBED__ALIGNMENT);
}

static void own(embed_table *t, embed__overlay *o) {
  t->overlay = o;
  t->codebook = o->base->codebook;
  embed__table_retain(o->base);
  embed__table_retain(o->rows);
}

static embed_status new_overlay(embed_context *ctx, const embed_table *base, const embed_table *rows, int64_t n, embed__overlay **out) {
  int64_t list;
  if (!embed__mul(n, (int64_t)sizeof(embed__overlaid), &list) || list > PTRDIFF_MAX - (int64_t)sizeof(embed__overlay)) return embed__out_of_memory(ctx, -1);
  *out = embed__allocate(&ctx->memory, (size_t)bytes_of(n), EMBED__ALIGNMENT);
  if (!*out) return embed__out_of_memory(ctx, bytes_of(n));
  **out = (embed__overlay){.base = base, .rows = rows, .n = n};
  return EMBED_OK;
}

/* Fills o->list, then makes the handle, which owns o only when this succeeds. */
static embed_status make(embed_context *ctx, embed__overlay *o, const int64_t *ids, int64_t vocab, embed_table **out) {
  const embed_table *base = o->base;
  int64_t added = 0;
  for (int64_t i = 0; i < o->n; ++i) o->list[i] = (embed__overlaid){ids[i], i};
  embed__sort(o->list, o->n, sizeof *o->list, is_before);
  EMBED__TRY(check_list(ctx, o->list, o->n, base->rows, &added));
  int64_t rows = base->rows + added; /* below base->rows + n, which memory holds twice over */
  if (vocab < 0 || vocab > rows) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "vocab is %" PRId64 " of %" PRId64 " rows", vocab, rows);
  if (vocab == 0) vocab = embed__max(base->vocab, o->n ? o->list[o->n - 1].id + 1 : 0);
  const embed_table_options options = {.size = sizeof options, .flags = EMBED_TABLE_READ_ONLY, .vocab = vocab, .dtype = base->dtype, .group = base->group};
  EMBED__TRY(embed__table_handle(ctx, rows, base->dim, &options, out));
  (*out)->vocab = vocab; /* a table with rows and no valid id stays one */
  own(*out, o);
  return EMBED_OK;
}

embed_status embed_table_overlay(embed_context *ctx, const embed_table *base, const int64_t *ids, int64_t n, const embed_table *rows, int64_t vocab,
                                 embed_table **out) {
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, base);
  EMBED__NOT_NULL(ctx, rows);
  EMBED__NOT_NULL(ctx, out);
  EMBED__TRY(check_pair(ctx, base, ids, n, rows));
  embed__overlay *o;
  EMBED__TRY(new_overlay(ctx, base, rows, n, &o));
  embed_status status = make(ctx, o, ids, vocab, out);
  if (status != EMBED_OK) embed__free(&ctx->memory, o, (size_t)bytes_of(n), EMBED__ALIGNMENT);
  return status;
}

embed_status embed__table_of_rows(embed_context *ctx, const embed_table *base, const int32_t *ids, int64_t n, embed_table **out) {
  const embed_table_options options = {.size = sizeof options, .flags = EMBED_TABLE_READ_ONLY, .dtype = base->dtype, .group = base->group};
  embed__overlay *o;
  *out = NULL;
  EMBED__TRY(new_overlay(ctx, base, base, n, &o));
  for (int64_t i = 0; i < n; ++i) o->list[i] = (embed__overlaid){i, ids[i]};
  embed_status status = embed__table_handle(ctx, n, base->dim, &options, out);
  if (status == EMBED_OK)
    own(*out, o);
  else
    embed__free(&ctx->memory, o, (size_t)bytes_of(n), EMBED__ALIGNMENT);
  return status;
}
