/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the head is the table: decided by what the file holds, whatever its metadata claims. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/least.h"
#include "core/checked.h"
#include "core/error.h"
#include "core/scratch.h"
#include "roles/names.h"
#include "roles/notes.h"
#include "roles/roles.h"
#include "thread/run.h"

enum { PIECE = 1 << 20 }; /* bytes of a task */

typedef struct comparison {
  const unsigned char *a, *b;
  int64_t bytes;
  _Atomic int64_t first; /* piece that differs, INT64_MAX = none yet */
} comparison;

/* Pieces behind one that differs are not read: an untied head costs a page or two. */
static void compare_piece(void *arg, int64_t task, int32_t worker) {
  comparison *c = arg;
  int64_t at = task * PIECE;
  (void)worker;
  if (task >= atomic_load(&c->first) || !memcmp(c->a + at, c->b + at, (size_t)embed__min(PIECE, c->bytes - at))) return;
  embed__keep_least(&c->first, task);
}

/* *first: the first byte that differs, -1 = none. */
static embed_status first_difference(embed_context *ctx, const unsigned char *a, const unsigned char *b, int64_t bytes, int64_t *first) {
  enum { GLANCE = 4096 };
  comparison c = {.a = a, .b = b, .bytes = bytes, .first = INT64_MAX};
  int64_t pieces = embed__ceil_div(bytes, PIECE), at = 0;
  *first = -1;
  if (a == b) return EMBED_OK; /* two names of one storage */
  if (!memcmp(a, b, (size_t)embed__min(GLANCE, bytes))) {
    EMBED__TRY(embed__run_long(ctx, pieces, compare_piece, &c, 0, pieces));
    if (c.first == INT64_MAX) return EMBED_OK;
    at = c.first * PIECE;
  }
  while (a[at] == b[at]) ++at;
  *first = at;
  return EMBED_OK;
}

/* A tensor's bytes: in the file, or in the table that they were unpacked to; NULL = neither is one block. */
static const unsigned char *elements_of(const embed_file *f, const embed__tensor *tensor) {
  if (tensor->offset >= 0 || tensor->memory) return embed__tensor_data(f, tensor);
  return tensor->table && tensor->table->row_bytes == tensor->table->packed_bytes ? tensor->table->data : NULL;
}

static bool same_shape(const embed__tensor *a, const embed__tensor *b) {
  return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) && a->dtype == b->dtype && !strcmp(a->stored, b->stored);
}

static bool same_layout(const embed__tensor *a, const embed__tensor *b) {
  return a->bytes == b->bytes && a->group == b->group && a->row_bytes == b->row_bytes && a->column_major == b->column_major && a->swapped == b->swapped;
}

/* Tensor k of those that the recipe begins with; NULL = none. */
static const embed__tensor *part_of(const embed_file *f, const embed__tensor *tensor, int32_t k) {
  int64_t i;
  memcpy(&i, (const unsigned char *)tensor->recipe + k * (int64_t)sizeof i, sizeof i);
  return i < 0 ? NULL : &f->tensors[i];
}

/* Recipes are alike that say the same but which tensors hold the parts; those have the same kind. */
static bool same_recipe(const embed_file *f, const embed__tensor *a, const embed__tensor *b) {
  if (a->decode != b->decode || a->recipe_bytes != b->recipe_bytes || a->parts != b->parts || !a->recipe != !b->recipe) return false;
  for (int32_t k = 0; k < a->parts; ++k) {
    const embed__tensor *p = part_of(f, a, k), *q = part_of(f, b, k);
    if (!p != !q || (p && (!same_shape(p, q) || !same_layout(p, q)))) return false;
  }
  const size_t said = (size_t)a->parts * sizeof(int64_t);
  return !a->recipe || !memcmp((const unsigned char *)a->recipe + said, (const unsigned char *)b->recipe + said, (size_t)a->recipe_bytes - said);
}

/* What is compared are rows as they are decoded: the recipe does not say all that they are made of. */
static bool by_rows(const embed__tensor *a) { return a->decode && a->recipe && a->recipe_bytes == 0; }

static bool same_kind(const embed_file *f, const embed__tensor *a, const embed__tensor *b) {
  if (!same_shape(a, b) || a->vocab != b->vocab || by_rows(a) != by_rows(b)) return false;
  return by_rows(a) || (same_layout(a, b) && same_recipe(f, a, b) && elements_of(f, a) && elements_of(f, b));
}

/* Where two ends differ; none: at = -1. */
typedef struct difference {
  int64_t at;                /* byte, or row */
  const embed__tensor *part; /* of the head's, NULL = its own bytes */
  bool row;
} difference;

typedef struct rows_compared {
  const embed_file *f;
  const embed__tensor *a, *b;
  int64_t rows, bytes, together; /* bytes of a row, rows of a task */
  unsigned char *room;           /* two times `together` rows for each worker */
  _Atomic int64_t first;
} rows_compared;

static void compare_rows(void *arg, int64_t task, int32_t worker) {
  rows_compared *c = arg;
  const int64_t first = task * c->together, end = embed__min(c->rows, first + c->together);
  unsigned char *a = c->room + 2 * worker * c->together * c->bytes, *b = a + c->together * c->bytes;
  if (first >= atomic_load(&c->first)) return;
  c->a->decode(c->f, c->a, first, end, a);
  c->b->decode(c->f, c->b, first, end, b);
  for (int64_t row = first; row < end; ++row, a += c->bytes, b += c->bytes)
    if (memcmp(a, b, (size_t)c->bytes) != 0) {
      embed__keep_least(&c->first, row);
      return;
    }
}

/* Rows are decoded some at a time, up to the first that differs. */
static embed_status first_row(embed_context *ctx, const embed_file *f, const embed__tensor *a, const embed__tensor *b, int64_t *first) {
  int64_t dim;
  rows_compared c = {.f = f, .a = a, .b = b, .first = INT64_MAX};
  *first = -1;
  if (a->recipe == b->recipe && a->offset == b->offset && a->memory == b->memory) return EMBED_OK;
  (void)embed__tensor_extents(a, &c.rows, &dim);
  c.bytes = embed__row_bytes(a->dtype == EMBED_PQ ? EMBED_F32 : a->dtype, dim, a->group); /* of codes their values are compared */
  if (c.bytes <= 0) return EMBED_OK;                                                      /* no table */
  c.together = embed__max(1, PIECE / 4 / c.bytes);
  EMBED__TRY(embed__scratch_matrix(ctx, 2 * (int64_t)embed__workers(ctx) * c.together, c.bytes, 1, &c.room));
  const int64_t tasks = embed__ceil_div(c.rows, c.together);
  EMBED__TRY(embed__run_long(ctx, tasks, compare_rows, &c, 0, tasks));
  if (c.first < INT64_MAX) *first = c.first;
  return EMBED_OK;
}

static embed_status find_difference(embed_context *ctx, const embed_file *f, const embed__tensor *table, const embed__tensor *head, difference *d) {
  *d = (difference){.at = -1, .row = by_rows(table)};
  if (d->row) return first_row(ctx, f, table, head, &d->at);
  if (table->bytes > 0) EMBED__TRY(first_difference(ctx, elements_of(f, table), elements_of(f, head), table->bytes, &d->at));
  for (int32_t k = 0; k < table->parts && d->at < 0; ++k) {
    const embed__tensor *p = part_of(f, table, k);
    d->part = part_of(f, head, k);
    if (p && p->bytes > 0) EMBED__TRY(first_difference(ctx, embed__tensor_data(f, p), embed__tensor_data(f, d->part), p->bytes, &d->at));
  }
  return EMBED_OK;
}

/* What the file's writer said of this head: "tied.lm_head.weight" = the table's name. */
static const embed__metadata *claim_of_tie(const embed_file *f, int64_t head) {
  static const char prefix[] = "tied.";
  for (int64_t i = 0; i < f->metadata_count; ++i) {
    const embed__metadata *m = &f->metadata[i];
    if (strncmp(m->key, prefix, sizeof prefix - 1) != 0) continue;
    const char *name = m->key + sizeof prefix - 1;
    if (head >= 0 ? !strcmp(name, f->tensors[head].name) : embed__is_role_name(name, EMBED_ROLE_HEAD)) return m;
  }
  return NULL;
}

/* d: NULL = they are not of one kind. */
static embed_status note_untied(embed_context *ctx, embed_file *f, int64_t table, int64_t head, const difference *d) {
  embed__line line;
  embed__line_start(&line, "head ");
  embed__line_tensor(&line, &f->tensors[head]);
  embed__text_add(&line.text, !d ? " is of another kind than token table " : " differs from token table ");
  embed__line_tensor(&line, &f->tensors[table]);
  if (d) {
    embed__text_add(&line.text, d->row ? ", first in row " : ", first at byte ");
    embed__text_number(&line.text, d->at);
    embed__text_add(&line.text, d->part ? " of what stands in " : " of both");
    if (d->part) embed__line_name(&line, d->part->name);
  }
  embed__text_add(&line.text, claim_of_tie(f, head) ? ": untied, though the file's metadata ties them" : ": untied");
  return embed__file_note_line(ctx, f, line.bytes);
}

static embed_status note_tied(embed_context *ctx, embed_file *f, const char *what, const char *name, const char *why, const char *other) {
  embed__line line;
  embed__line_start(&line, what);
  embed__line_name(&line, name);
  embed__text_add(&line.text, why);
  if (other) embed__line_name(&line, other);
  embed__text_add(&line.text, other ? ": tied" : " serves as both: tied");
  return embed__file_note_line(ctx, f, line.bytes);
}

embed_status embed__tie(embed_context *ctx, embed_file *f, int64_t head) {
  int64_t table = f->roles[EMBED_ROLE_TOKEN];
  difference d = {.at = -1};
  f->own_head = -1;
  if (table < 0) { /* some converters keep the head and leave the table out: the tie is the same */
    f->roles[EMBED_ROLE_TOKEN] = f->roles[EMBED_ROLE_HEAD] = head;
    return head < 0 ? EMBED_OK : note_tied(ctx, f, "no token table is stored: head ", f->tensors[head].name, "", NULL);
  }
  if (head < 0) {
    f->roles[EMBED_ROLE_HEAD] = table;
    if (f->tensor_count == 1 && !claim_of_tie(f, -1)) return EMBED_OK; /* there was nothing to decide */
    return note_tied(ctx, f, "no head is stored: token table ", f->tensors[table].name, "", NULL);
  }
  f->own_head = head;
  bool alike = same_kind(f, &f->tensors[table], &f->tensors[head]);
  if (alike) EMBED__TRY(find_difference(ctx, f, &f->tensors[table], &f->tensors[head], &d));
  if (!alike || d.at >= 0) {
    f->roles[EMBED_ROLE_HEAD] = head;
    return note_untied(ctx, f, table, head, alike ? &d : NULL);
  }
  f->roles[EMBED_ROLE_HEAD] = table;
  return note_tied(ctx, f, "head ", f->tensors[head].name, d.row ? " equals row for row token table " : " equals byte for byte token table ",
                   f->tensors[table].name);
}
