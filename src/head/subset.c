/* SPDX-License-Identifier: BSD-3-Clause */
/* A head over some rows of another: its own copy of them, so that it is swept like any table (of rows that are more than their bytes an
 * overlay, which is swept like theirs); answers carry the original ids. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "head/head.h"
#include "head/sort_ids.h"
#include "table/overlay.h"
#include "thread/run.h"

enum { COPY_BYTES = 256 << 10 /* per task */ };

static size_t ids_bytes(const embed__id_map *map) { return (size_t)map->count * sizeof *map->ids; }
static size_t sorted_bytes(const embed__id_map *map) { return (size_t)map->count * sizeof *map->sorted; }

int32_t embed__column_of(const embed__id_map *map, int32_t id) {
  int64_t low = 0, high = map->count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if ((int64_t)(map->sorted[middle] >> 32) < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low < map->count && (int64_t)(map->sorted[low] >> 32) == id ? (int32_t)(map->sorted[low] & UINT32_MAX) : -1;
}

void embed__subset_free(embed_head *h) {
  if (!h->base) return;
  embed__free(&h->memory, h->map.ids, ids_bytes(&h->map), EMBED__ALIGNMENT);
  embed__free(&h->memory, h->map.sorted, sorted_bytes(&h->map), EMBED__ALIGNMENT);
  embed__table_release(h->base);
}

/* FNV-1a over the ids as little-endian words of 4 bytes. */
static uint64_t checksum(const int32_t *ids, int64_t n) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int64_t i = 0; i < n; ++i)
    for (int shift = 0; shift < 32; shift += 8) hash = (hash ^ ((uint32_t)ids[i] >> shift & 0xFF)) * 0x100000001b3u;
  return hash;
}

embed_status embed__head_check_ids(embed_context *ctx, const embed_head *h, const int32_t *ids, int64_t n) {
  const int64_t vocab = embed__head_ids(h);
  for (int64_t i = 0; i < n; ++i) {
    if (ids[i] < 0 || ids[i] >= vocab)
      return embed__fail(ctx, EMBED_E_ID, i, "id %d at position %" PRId64 " is outside the vocabulary of %" PRId64 " rows", ids[i], i, vocab);
    if (h->base && embed__column_of(&h->map, ids[i]) < 0)
      return embed__fail(ctx, EMBED_E_ID, i, "id %d at position %" PRId64 " is not among the %" PRId64 " ids of this subset", ids[i], i, h->map.count);
  }
  return EMBED_OK;
}

/* keys: ids sorted, with their positions. The first position whose id stands before it already is the one to name. */
static embed_status check_unique(embed_context *ctx, const uint64_t *keys, int64_t n) {
  int64_t at = -1, before = -1;
  for (int64_t i = 1; i < n; ++i) {
    const int64_t position = (int64_t)(keys[i] & UINT32_MAX);
    if (keys[i] >> 32 != keys[i - 1] >> 32 || (at >= 0 && position > at)) continue;
    at = position;
    before = (int64_t)(keys[i - 1] & UINT32_MAX);
  }
  if (at < 0) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_ID, at, "the id at position %" PRId64 " stands at position %" PRId64 " already", at, before);
}

typedef struct copy_job {
  const embed_table *from;
  embed_table *to;
  const int32_t *ids;
  int64_t rows; /* per task */
} copy_job;

static void copy_rows(void *arg, int64_t task, int32_t worker) {
  const copy_job *job = arg;
  (void)worker;
  for (int64_t r = task * job->rows; r < embed__min(job->to->rows, (task + 1) * job->rows); ++r)
    memcpy(job->to->data + r * job->to->row_bytes, embed__row(job->from, job->ids[r]), (size_t)job->from->packed_bytes);
}

embed_status embed__subset_copy(embed_context *ctx, embed_head *h) {
  embed_table *to = (embed_table *)(uintptr_t)h->table; /* the head's own */
  copy_job job = {h->base, to, h->map.ids, embed__max(1, COPY_BYTES / embed__max(1, to->packed_bytes))};
  const uint64_t changes = embed__table_changes(h->base);
  if (to->codebook) { /* whose rows are base's, in place */
    h->base_changes = changes;
    return EMBED_OK;
  }
  h->base_changes = changes - 1; /* stale until they are all copied */
  EMBED__TRY(embed__run_long(ctx, embed__ceil_div(to->rows, job.rows), copy_rows, &job, 0, embed__ceil_div(to->rows, job.rows)));
  embed__table_changed(to);
  h->base_changes = changes;
  return EMBED_OK;
}

static embed_status take_map(embed_context *ctx, embed__id_map *map, const embed_allocator *memory, const int32_t *ids, const uint64_t *keys, int64_t n) {
  *map = (embed__id_map){.count = n, .ascending = true, .checksum = checksum(ids, n)};
  map->ids = embed__allocate(memory, ids_bytes(map), EMBED__ALIGNMENT);
  map->sorted = embed__allocate(memory, sorted_bytes(map), EMBED__ALIGNMENT);
  if (!map->ids || !map->sorted) return embed__out_of_memory(ctx, (int64_t)(ids_bytes(map) + sorted_bytes(map)));
  if (n > 0) memcpy(map->ids, ids, ids_bytes(map)); /* ids may be NULL */
  if (n > 0) memcpy(map->sorted, keys, sorted_bytes(map));
  for (int64_t i = 1; i < n; ++i) map->ascending &= ids[i] > ids[i - 1];
  return EMBED_OK;
}

/* Everything but the head's form; *s is what the caller frees. */
static embed_status fill(embed_context *ctx, embed_head *s, const embed_head *h, const uint64_t *keys, const int32_t *ids, int64_t n) {
  embed_table *base = h->base ? h->base : (embed_table *)(uintptr_t)h->table, *own = NULL;
  const embed_table_options o = {.size = sizeof o, .dtype = base->dtype, .group = base->group};
  embed__table_retain(base);
  s->base = base;
  EMBED__TRY(take_map(ctx, &s->map, &s->memory, ids, keys, n));
  embed_status status = base->codebook ? embed__table_of_rows(ctx, base, ids, n, &own) : embed__table_new(ctx, n, base->dim, &o, &own);
  s->table = own;
  EMBED__TRY(status);
  own->vocab = n;
  if (h->bias) {
    s->bias = embed__allocate(&s->memory, (size_t)n * sizeof(float), EMBED__ALIGNMENT);
    if (!s->bias) return embed__out_of_memory(ctx, n * (int64_t)sizeof(float));
    for (int64_t i = 0; i < n; ++i) s->bias[i] = h->bias[h->base ? embed__column_of(&h->map, ids[i]) : ids[i]];
  }
  EMBED__TRY(embed__subset_copy(ctx, s));
  return embed__head_form(ctx, s);
}

static embed_status create(embed_context *ctx, const embed_head *h, const int32_t *ids, int64_t n, embed_head **out) {
  uint64_t *keys, *room;
  n = embed__min(n, embed__head_ids(h) + 1); /* so many hold an id twice */
  EMBED__TRY(embed__scratch_get(ctx, n, sizeof *keys, &keys));
  EMBED__TRY(embed__scratch_get(ctx, n, sizeof *room, &room));
  for (int64_t i = 0; i < n; ++i) keys[i] = (uint64_t)ids[i] << 32 | (uint64_t)i;
  keys = embed__sort_upper_halves(keys, room, n, embed__head_ids(h));
  EMBED__TRY(check_unique(ctx, keys, n));
  embed_head *s = embed__new(&ctx->memory, sizeof *s);
  if (!s) return embed__out_of_memory(ctx, (int64_t)sizeof *s);
  s->references = 1;
  s->memory = ctx->memory;
  s->scale = h->scale;
  s->softcap = h->softcap;
  s->flags = h->prepared.block ? h->flags : h->flags & ~(uint32_t)EMBED_HEAD_PREPARE; /* a form that h has not would give other bits */
  embed_status status = fill(ctx, s, h, keys, ids, n);
  if (status == EMBED_OK)
    *out = s;
  else
    embed_head_release(s);
  return status;
}

embed_status embed_head_create_subset(embed_context *ctx, const embed_head *h, const int32_t *ids, int64_t n, embed_head **out) {
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, h);
  EMBED__NOT_NULL(ctx, out);
  if (n < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "n is %" PRId64, n);
  if (n > 0 && !ids) return embed__null(ctx, "ids");
  EMBED__TRY(embed__head_check_ids(ctx, h, ids, n));
  return embed__end(ctx, create(ctx, h, ids, n, out));
}
