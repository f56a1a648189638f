/* SPDX-License-Identifier: BSD-3-Clause */
/* What rules and penalties do to a row of logits, tile by tile: work only for the ids that are named, the bitmap apart. */
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "head/head.h"
#include "head/rules.h"
#include "head/sort_ids.h"

static bool penalises(const embed__penalties *p) { return p && (p->repetition != 1 || p->frequency != 0 || p->presence != 0); }

/* The distinct ids of the history looked at, ascending, as edits with their counts. */
static embed_status count_history(embed_context *ctx, const embed_rules *r, const embed__penalties *p, embed__edit **out, int64_t *count) {
  uint64_t *keys, *other;
  embed__edit *edits;
  *count = 0;
  const int64_t n = !penalises(p) ? 0 : p->last_n > 0 ? embed__min(p->last_n, r->pushed) : r->pushed;
  if (n == 0) return EMBED_OK;
  const int32_t *ids = r->history + (r->pushed - n);
  EMBED__TRY(embed__scratch_get(ctx, n, sizeof *keys, &keys));
  EMBED__TRY(embed__scratch_get(ctx, n, sizeof *other, &other));
  EMBED__TRY(embed__scratch_get(ctx, n, sizeof *edits, &edits));
  for (int64_t i = 0; i < n; ++i) keys[i] = (uint64_t)ids[i] << 32;
  keys = embed__sort_upper_halves(keys, other, n, r->vocab);
  for (int64_t i = 0; i < n; ++i) {
    const int32_t id = (int32_t)(keys[i] >> 32);
    if (*count == 0 || edits[*count - 1].column != id) edits[(*count)++] = (embed__edit){.column = id};
    if (edits[*count - 1].count < INT32_MAX) ++edits[*count - 1].count;
  }
  *out = edits;
  return EMBED_OK;
}

/* Original ids become the columns of a subset, in the order of columns; those that are not in it are left out. */
static embed_status to_columns(embed_context *ctx, const embed__id_map *map, embed__edits *e) {
  uint64_t *keys, *other;
  embed__edit *sorted;
  int64_t count = 0;
  if (!map || e->count == 0) return EMBED_OK;
  EMBED__TRY(embed__scratch_get(ctx, e->count, sizeof *keys, &keys));
  EMBED__TRY(embed__scratch_get(ctx, e->count, sizeof *other, &other));
  EMBED__TRY(embed__scratch_get(ctx, e->count, sizeof *sorted, &sorted));
  for (int64_t i = 0; i < e->count; ++i) {
    const int32_t column = embed__column_of(map, e->list[i].column);
    if (column < 0) continue;
    e->list[i].column = column;
    keys[count++] = (uint64_t)column << 32 | (uint64_t)i;
  }
  keys = embed__sort_upper_halves(keys, other, count, map->count);
  for (int64_t i = 0; i < count; ++i) sorted[i] = e->list[keys[i] & UINT32_MAX];
  e->list = sorted;
  e->count = count;
  return EMBED_OK;
}

embed_status embed__edits_of(embed_context *ctx, const embed_rules *r, const embed__penalties *p, const embed__id_map *map, embed__edits *out) {
  embed__edit *seen = NULL;
  int64_t pushed = 0, at = 0;
  memset(out, 0, sizeof *out);
  if (!r) return EMBED_OK;
  if (p) out->penalties = *p;
  out->allowed = r->all_allowed ? NULL : r->allowed;
  EMBED__TRY(count_history(ctx, r, p, &seen, &pushed));
  if (pushed + r->count == 0) return EMBED_OK;
  EMBED__TRY(embed__scratch_get(ctx, pushed + r->count, sizeof *out->list, &out->list));
  for (int64_t i = 0; i < r->count; ++i) {
    const embed__rule *rule = &r->list[i];
    while (at < pushed && seen[at].column < rule->id) out->list[out->count++] = seen[at++];
    embed__edit edit = {.column = rule->id, .bias = rule->bias, .banned = rule->banned};
    if (at < pushed && seen[at].column == rule->id) edit.count = seen[at++].count;
    out->list[out->count++] = edit;
  }
  while (at < pushed) out->list[out->count++] = seen[at++];
  return to_columns(ctx, map, out);
}

/* The first edit at or behind a column. */
static int64_t first_edit(const embed__edits *e, int64_t column) {
  int64_t low = 0, high = e->count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (e->list[middle].column < column)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Penalties as Hugging Face and llama.cpp have them, in double, rounded once. */
static float edited(const embed__penalties *p, const embed__edit *edit) {
  double z = (double)edit->own;
  if (edit->bias != 0) z += (double)edit->bias; /* taken back, it leaves -0 as well */
  if (edit->count) {
    z = z < 0 ? z * p->repetition : z / p->repetition;
    z -= edit->count * p->frequency + p->presence;
  }
  return (float)z;
}

static bool is_allowed(const uint32_t *allowed, int64_t id) { return allowed[id / 32] >> (id % 32) & 1; }

static void drop_disallowed(const uint32_t *allowed, float *z, int64_t n, int64_t first, const int32_t *ids) {
  if (ids) {
    for (int64_t c = 0; c < n; ++c)
      if (!is_allowed(allowed, ids[c])) z[c] = -INFINITY;
    return;
  }
  for (int64_t c = 0, together; c < n; c += together) { /* a word is mostly all or nothing */
    const int64_t from = (first + c) % 32;
    const uint32_t word = allowed[(first + c) / 32] >> from;
    together = embed__min(32 - from, n - c);
    if (word == UINT32_MAX >> from) continue;
    for (int64_t i = 0; i < together; ++i) z[c + i] = word >> i & 1 ? z[c + i] : -INFINITY;
  }
}

void embed__edit_tile(const embed__edits *e, float *z, int64_t n, int64_t first, const int32_t *ids) {
  const int64_t begin = first_edit(e, first);
  for (int64_t i = begin; i < e->count && e->list[i].column < first + n; ++i) {
    embed__edit *edit = &e->list[i];
    float *at = z + (edit->column - first);
    edit->own = *at;
    if (edit->banned)
      *at = -INFINITY;
    else
      *at = edited(&e->penalties, edit);
  }
  if (e->allowed) drop_disallowed(e->allowed, z, n, first, ids);
}

float embed__own_logit(const embed__edits *e, int32_t column, float value) {
  const int64_t at = first_edit(e, column);
  return at < e->count && e->list[at].column == column ? e->list[at].own : value;
}
