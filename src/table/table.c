/* SPDX-License-Identifier: BSD-3-Clause */
/* Making, sharing and describing tables. */
#include "table/table.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/options.h"
#include "core/pages.h"
#include "table/overlay.h"
#include "table/pq.h"

embed_status embed__layout_options(embed_context *ctx, const embed_table_options *given, embed_table_options *o) {
  EMBED__TRY(embed__options(ctx, "embed_table_options", given, EMBED_TABLE_HUGE_PAGES | EMBED_TABLE_READ_ONLY, o, sizeof *o));
  if (o->row_bytes < 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "row_bytes is %" PRId64, o->row_bytes);
  if (o->vocab < 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "vocab is %" PRId64, o->vocab);
  if (o->data_bytes < 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "data_bytes is %" PRId64, o->data_bytes);
  return EMBED_OK;
}

embed_status embed__table_options(embed_context *ctx, const embed_table_options *given, embed_table_options *o) {
  EMBED__TRY(embed__layout_options(ctx, given, o));
  if (o->dtype == EMBED_PQ)
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1,
                       "pq rows are codes that mean something beside their centroids alone: embed_table_view_pq makes a table of them, nothing encodes them");
  if (o->group != 0 && o->group != 32 && o->group != 64 && o->group != 128)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "group is %d columns, it must be 32, 64 or 128", o->group);
  return EMBED_OK;
}

static embed_status find_dtype(embed_context *ctx, embed_dtype dtype, const embed__dtype_info **info) {
  *info = embed__dtype_find(dtype);
  if (*info) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no dtype", dtype);
}

/* Shape and layout of a table, proved; data and origin are still to be set. */
static embed_status describe(embed_context *ctx, int64_t rows, int64_t dim, const embed_table_options *o, embed_table *t) {
  const embed__dtype_info *info;
  if (rows < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "rows is %" PRId64, rows);
  if (dim < 1) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "dim is %" PRId64 ", a row has at least 1 column", dim);
  if (o->vocab > rows) return embed__fail(ctx, EMBED_E_OPTION, -1, "vocab %" PRId64 " is more than the %" PRId64 " rows", o->vocab, rows);
  EMBED__TRY(find_dtype(ctx, o->dtype, &info));
  int64_t packed = embed__row_bytes(o->dtype, dim, o->group), extent;
  if (packed == EMBED_E_UNSUPPORTED)
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s needs a dim that is a multiple of %" PRId64 ", not %" PRId64, info->name, info->block, dim);
  if (packed < 0) return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "a row of %" PRId64 " columns does not fit into 64 bits", dim);
  if (o->row_bytes && o->row_bytes < packed)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "row_bytes %" PRId64 " is less than the %" PRId64 " bytes of a row", o->row_bytes, packed);
  t->row_bytes = o->row_bytes ? o->row_bytes : packed;
  if (!embed__mul(rows, t->row_bytes, &extent) || (uint64_t)extent > PTRDIFF_MAX)
    return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%" PRId64 " rows of %" PRId64 " bytes do not fit into memory", rows, t->row_bytes);
  t->references = 1;
  t->rows = rows;
  t->vocab = o->vocab ? o->vocab : rows;
  t->dim = dim;
  t->packed_bytes = packed;
  t->dtype = o->dtype;
  t->group = info->block == 0 ? (o->group ? o->group : 32) : 0;
  t->codec = embed__codec_find(o->dtype);
  t->writable = !(o->flags & EMBED_TABLE_READ_ONLY);
  t->memory = ctx->memory;
  return EMBED_OK;
}

static embed_status new_handle(embed_context *ctx, const embed_table *described, embed_table **out) {
  *out = embed__new(&ctx->memory, sizeof **out);
  if (!*out) return embed__out_of_memory(ctx, (int64_t)sizeof **out);
  memcpy(*out, described, sizeof **out);
  return EMBED_OK;
}

embed_status embed__table_handle(embed_context *ctx, int64_t rows, int64_t dim, const embed_table_options *o, embed_table **out) {
  embed_table described;
  memset(&described, 0, sizeof described);
  *out = NULL;
  EMBED__TRY(describe(ctx, rows, dim, o, &described));
  return new_handle(ctx, &described, out);
}

embed_status embed__table_new(embed_context *ctx, int64_t rows, int64_t dim, const embed_table_options *o, embed_table **out) {
  embed_table described;
  memset(&described, 0, sizeof described);
  *out = NULL;
  EMBED__TRY(describe(ctx, rows, dim, o, &described));
  described.owned_bytes = embed__max(1, rows * described.row_bytes);
  if (o->flags & EMBED_TABLE_HUGE_PAGES) described.owned_bytes = embed__whole_pages(described.owned_bytes);
  described.owned_alignment = o->flags & EMBED_TABLE_HUGE_PAGES ? EMBED__HUGE_PAGE : EMBED__ALIGNMENT;
  described.data = embed__allocate(&ctx->memory, (size_t)described.owned_bytes, described.owned_alignment);
  if (!described.data) return embed__out_of_memory(ctx, described.owned_bytes);
  if (o->flags & EMBED_TABLE_HUGE_PAGES) embed__want_huge_pages(described.data, (size_t)described.owned_bytes);
  embed_status status = new_handle(ctx, &described, out);
  if (status != EMBED_OK) embed__free(&ctx->memory, described.data, (size_t)described.owned_bytes, described.owned_alignment);
  return status;
}

embed_status embed_table_create(embed_context *ctx, int64_t rows, int64_t dim, const embed_table_options *opts, embed_table **out) {
  embed_table_options o;
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, out);
  EMBED__TRY(embed__table_options(ctx, opts, &o));
  EMBED__TRY(embed__table_new(ctx, rows, dim, &o, out));
  memset((*out)->data, 0, (size_t)(*out)->owned_bytes);
  return EMBED_OK;
}

static embed_status borrow(embed_context *ctx, void *data, int64_t rows, int64_t dim, const embed_table_options *opts, uint32_t flags, void (*done)(void *arg),
                           void *arg, embed_table **out) {
  embed_table_options o;
  embed_table described;
  memset(&described, 0, sizeof described);
  EMBED__TRY(embed__table_options(ctx, opts, &o));
  o.flags |= flags;
  if (o.flags & EMBED_TABLE_HUGE_PAGES) return embed__fail(ctx, EMBED_E_OPTION, -1, "EMBED_TABLE_HUGE_PAGES is for tables that own their memory");
  EMBED__TRY(describe(ctx, rows, dim, &o, &described));
  if (rows > 0 && !data) return embed__null(ctx, "data");
  int64_t needed = rows ? (rows - 1) * described.row_bytes + described.packed_bytes : 0; /* no padding behind the last row */
  if (o.data_bytes && o.data_bytes < needed)
    return embed__fail(ctx, EMBED_E_ARGUMENT, o.data_bytes, "data has %" PRId64 " bytes, %" PRId64 " rows need %" PRId64, o.data_bytes, rows, needed);
  described.data = data;
  described.done = done;
  described.done_arg = arg;
  return new_handle(ctx, &described, out);
}

embed_status embed_table_borrow(embed_context *ctx, void *data, int64_t rows, int64_t dim, const embed_table_options *opts, void (*done)(void *arg), void *arg,
                                embed_table **out) {
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, out);
  return borrow(ctx, data, rows, dim, opts, 0, done, arg, out);
}

embed_status embed__table_view(embed_context *ctx, const void *data, int64_t rows, int64_t dim, const embed_table_options *o, void (*done)(void *arg),
                               void *arg, embed_table **out) {
  *out = NULL;
  return borrow(ctx, (void *)(uintptr_t)data, rows, dim, o, EMBED_TABLE_READ_ONLY, done, arg, out); /* never written: READ_ONLY */
}

embed_status embed_table_view(embed_context *ctx, const void *data, int64_t rows, int64_t dim, const embed_table_options *opts, void (*done)(void *arg),
                              void *arg, embed_table **out) {
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, out);
  return embed__table_view(ctx, data, rows, dim, opts, done, arg, out);
}

static size_t numbers_bytes(const embed_table *t) { return ((size_t)t->vocab + 1) * sizeof(float); } /* one of all rows behind theirs */

const float *embed__table_numbers(const embed_table *t, embed__numbers which) { return atomic_load_explicit(&t->numbers[which], memory_order_acquire); }

float *embed__table_numbers_room(const embed_table *t) {
  if ((uint64_t)t->vocab >= SIZE_MAX / sizeof(float)) return NULL;
  return embed__allocate(&t->memory, numbers_bytes(t), EMBED__ALIGNMENT);
}

const float *embed__table_numbers_keep(const embed_table *t, embed__numbers which, float *room, bool publish) {
  embed_table *shared = (embed_table *)(uintptr_t)t; /* what is kept is not part of what const protects */
  float *first = NULL;
  if (publish && atomic_compare_exchange_strong_explicit(&shared->numbers[which], &first, room, memory_order_acq_rel, memory_order_acquire)) return room;
  embed__free(&t->memory, room, numbers_bytes(t), EMBED__ALIGNMENT);
  return first;
}

static void forget_numbers(embed_table *t) {
  for (int which = 0; which < EMBED__NUMBERS; ++which)
    embed__free(&t->memory, atomic_exchange_explicit(&t->numbers[which], NULL, memory_order_acquire), numbers_bytes(t), EMBED__ALIGNMENT);
}

embed_table *embed__table_retain(const embed_table *t) {
  embed_table *shared = (embed_table *)(uintptr_t)t; /* the count is not part of what const protects */
  if (shared) embed__retain(&shared->references);
  return shared;
}

void embed__table_release(const embed_table *t) {
  embed_table *last = (embed_table *)(uintptr_t)t;
  if (!last || !embed__release(&last->references)) return;
  const embed_allocator memory = last->memory;
  forget_numbers(last);
  if (last->owned_bytes) embed__free(&memory, last->data, (size_t)last->owned_bytes, last->owned_alignment);
  if (last->done) last->done(last->done_arg);
  if (!last->overlay) embed__codebook_free(last->codebook, &memory);
  embed__overlay_free(last->overlay, &memory);
  embed__free(&memory, last, sizeof *last, EMBED__ALIGNMENT);
}

embed_table *embed_table_retain(const embed_table *t) { return embed__table_retain(t); }

void embed_table_release(const embed_table *t) { embed__table_release(t); }

int64_t embed_table_rows(const embed_table *t) { return t ? t->rows : EMBED_E_ARGUMENT; }
int64_t embed_table_vocab(const embed_table *t) { return t ? t->vocab : EMBED_E_ARGUMENT; }
int64_t embed_table_dim(const embed_table *t) { return t ? t->dim : EMBED_E_ARGUMENT; }
int64_t embed_table_row_bytes(const embed_table *t) { return t ? t->row_bytes : EMBED_E_ARGUMENT; }
embed_dtype embed_table_dtype(const embed_table *t) { return t ? t->dtype : EMBED_DTYPE_NONE; }
const void *embed_table_data(const embed_table *t) { return t ? t->data : NULL; }
void *embed_table_mutable_data(embed_table *t) { return t && t->writable ? t->data : NULL; }

void embed__table_changed(embed_table *t) {
  if (!t) return;
  atomic_fetch_add_explicit(&t->changes, 1, memory_order_release);
  forget_numbers(t);
}

void embed_table_changed(embed_table *t) { embed__table_changed(t); }

embed_status embed__check_writable(embed_context *ctx, const embed_table *t) {
  if (t->writable) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_READ_ONLY, -1, "the table is read-only: it is a view of memory or of a mapped file, or an overlay");
}
