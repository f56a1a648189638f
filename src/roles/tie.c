/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the head is the table: decided by what the file holds, whatever its metadata claims. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/least.h"
#include "core/checked.h"
#include "core/error.h"
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

static bool same_kind(const embed_file *f, const embed__tensor *a, const embed__tensor *b) {
  return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) && a->bytes == b->bytes && a->dtype == b->dtype &&
         !strcmp(a->stored, b->stored) && a->group == b->group && a->row_bytes == b->row_bytes && a->vocab == b->vocab && a->column_major == b->column_major &&
         a->swapped == b->swapped && a->recipe == b->recipe && elements_of(f, a) && elements_of(f, b);
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

static embed_status note_untied(embed_context *ctx, embed_file *f, int64_t table, int64_t head, int64_t first) {
  embed__line line;
  embed__line_start(&line, "head ");
  embed__line_tensor(&line, &f->tensors[head]);
  embed__text_add(&line.text, first < 0 ? " is of another kind than token table " : " differs from token table ");
  embed__line_tensor(&line, &f->tensors[table]);
  if (first >= 0) {
    embed__text_add(&line.text, ", first at byte ");
    embed__text_number(&line.text, first);
    embed__text_add(&line.text, " of both");
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
  int64_t table = f->roles[EMBED_ROLE_TOKEN], first = -1;
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
  if (alike && f->tensors[table].bytes > 0)
    EMBED__TRY(first_difference(ctx, elements_of(f, &f->tensors[table]), elements_of(f, &f->tensors[head]), f->tensors[table].bytes, &first));
  if (!alike || first >= 0) {
    f->roles[EMBED_ROLE_HEAD] = head;
    return note_untied(ctx, f, table, head, first);
  }
  f->roles[EMBED_ROLE_HEAD] = table;
  return note_tied(ctx, f, "head ", f->tensors[head].name, " equals byte for byte token table ", f->tensors[table].name);
}
