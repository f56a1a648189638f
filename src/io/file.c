/* SPDX-License-Identifier: BSD-3-Clause */
/* The handle of an opened file: its life, its notes, its tokens. */
#include "io/file.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
#include "io/format.h"
#include "io/text.h"

/* Strings that go with the file, in pieces: a header may name many small things. The newest piece is first. */
struct embed__kept {
  struct embed__kept *next;
  size_t room, used; /* bytes of text */
  char text[];
};

void embed__file_label(char label[EMBED__LABEL + 4], const char *path) {
  size_t bytes = strlen(path);
  embed__text text = embed__text_in(label, EMBED__LABEL + 4);
  if (bytes > EMBED__LABEL) {
    embed__text_add(&text, "...");
    path += bytes - EMBED__LABEL;
  }
  embed__text_add(&text, path);
}

embed_status embed__file_open(embed_context *ctx, const char *path, const embed_file_options *o, embed_file **out) {
  embed_file *f = embed__new(&ctx->memory, sizeof *f);
  *out = NULL;
  if (!f) return embed__out_of_memory(ctx, (int64_t)sizeof *f);
  f->references = 1;
  f->memory = ctx->memory;
  for (int i = 0; i < EMBED__ROLES; ++i) f->roles[i] = -1;
  f->own_head = -1;
  embed__file_label(f->label, path);
  f->path = path;
  embed_status status = embed__map_open(ctx, path, f->label, o->flags, &f->map);
  if (status == EMBED_OK) status = embed__format_choose(ctx, f, o->format);
  if (status == EMBED_OK) status = f->format->open(ctx, f, o);
  f->path = NULL;
  if (status != EMBED_OK)
    embed__file_release(f);
  else
    *out = f;
  return status;
}

embed_file *embed__file_retain(const embed_file *f) {
  embed_file *shared = (embed_file *)(uintptr_t)f; /* the count is not part of what const protects */
  if (shared) embed__retain(&shared->references);
  return shared;
}

void embed__file_release(const embed_file *f) {
  embed_file *last = (embed_file *)(uintptr_t)f;
  if (!last || !embed__release(&last->references)) return;
  const embed_allocator memory = last->memory;
  for (int64_t i = 0; i < last->tensor_count; ++i) embed__table_release(last->tensors[i].table);
  embed__free(&memory, last->tensors, (size_t)last->tensor_room * sizeof *last->tensors, EMBED__ALIGNMENT);
  while (last->kept) {
    struct embed__kept *first = last->kept;
    last->kept = first->next;
    embed__free(&memory, first, sizeof *first + first->room, EMBED__ALIGNMENT);
  }
  embed__free(&memory, last->metadata, (size_t)last->metadata_room * sizeof *last->metadata, EMBED__ALIGNMENT);
  embed__free(&memory, last->notes, last->notes_bytes, EMBED__ALIGNMENT);
  embed__tokens_free(last->names);
  embed__tokens_free(last->tokens);
  for (int64_t i = 0; i < last->shard_count; ++i) embed__map_close(&memory, &last->shards[i]);
  embed__free(&memory, last->shards, (size_t)last->shard_count * sizeof *last->shards, EMBED__ALIGNMENT);
  embed__map_close(&memory, &last->map);
  embed__free(&memory, last, sizeof *last, EMBED__ALIGNMENT);
}

embed_status embed__file_tensors(embed_context *ctx, embed_file *f, int64_t count) {
  int64_t bytes;
  if (!embed__mul(count, (int64_t)sizeof *f->tensors, &bytes) || bytes > PTRDIFF_MAX) return embed__out_of_memory(ctx, bytes);
  f->tensors = embed__new(&ctx->memory, (size_t)bytes);
  if (!f->tensors) return embed__out_of_memory(ctx, bytes);
  f->tensor_count = f->tensor_room = count;
  return EMBED_OK;
}

embed_status embed__file_note_line(embed_context *ctx, embed_file *f, const char *line) {
  size_t bytes = f->notes_bytes + strlen(line) + 2; /* newline, NUL */
  char *notes = embed__allocate(&ctx->memory, bytes, EMBED__ALIGNMENT);
  if (!notes) return embed__out_of_memory(ctx, (int64_t)bytes);
  embed__text t = embed__text_in(notes, bytes);
  if (f->notes) {
    embed__text_add(&t, f->notes);
    embed__text_add(&t, "\n");
  }
  embed__text_add(&t, line);
  embed__free(&ctx->memory, f->notes, f->notes_bytes, EMBED__ALIGNMENT);
  f->notes = notes;
  f->notes_bytes = bytes;
  return EMBED_OK;
}

embed_status embed__file_note(embed_context *ctx, embed_file *f, int64_t number, const char *what) {
  enum { LINE = 512 };
  char line[LINE];
  embed__text t = embed__text_in(line, sizeof line);
  embed__text_number(&t, number);
  embed__text_add(&t, " ");
  embed__text_add(&t, what);
  return embed__file_note_line(ctx, f, line);
}

embed_status embed__file_keep(embed_context *ctx, embed_file *f, const void *s, int64_t bytes, const char **out) {
  enum { PIECE = 1024 - sizeof(struct embed__kept) };
  size_t whole = (size_t)bytes + 1;
  struct embed__kept *kept = f->kept;
  if (!kept || kept->room - kept->used < whole) {
    size_t room = whole > PIECE ? whole : PIECE;
    kept = embed__allocate(&ctx->memory, sizeof *kept + room, EMBED__ALIGNMENT);
    if (!kept) return embed__out_of_memory(ctx, (int64_t)(sizeof *kept + room));
    *kept = (struct embed__kept){.next = f->kept, .room = room};
    f->kept = kept;
  }
  char *text = kept->text + kept->used;
  memcpy(text, s, (size_t)bytes);
  text[bytes] = '\0';
  kept->used += whole;
  *out = text;
  return EMBED_OK;
}

embed_status embed__file_room(embed_context *ctx, embed_file *f, int64_t bytes, unsigned char **out) {
  int64_t whole;
  *out = NULL;
  if (!embed__add(bytes, EMBED__ALIGNMENT + (int64_t)sizeof(struct embed__kept), &whole) || whole > PTRDIFF_MAX) return embed__out_of_memory(ctx, bytes);
  struct embed__kept *kept = embed__allocate(&ctx->memory, (size_t)whole, EMBED__ALIGNMENT);
  if (!kept) return embed__out_of_memory(ctx, whole);
  const size_t room = (size_t)whole - sizeof *kept, aside = (size_t)(-(uintptr_t)kept->text % EMBED__ALIGNMENT);
  *kept = (struct embed__kept){.next = f->kept ? f->kept->next : NULL, .room = room, .used = room};
  *(f->kept ? &f->kept->next : &f->kept) = kept; /* behind the newest, which may have room left */
  *out = (unsigned char *)kept->text + aside;
  return EMBED_OK;
}

void embed__file_take_kept(embed_file *f, embed_file *from) {
  struct embed__kept **last = &from->kept;
  while (*last) last = &(*last)->next;
  *last = f->kept;
  f->kept = from->kept;
  from->kept = NULL;
}

int64_t embed__header_limit(const embed_file_options *o) { return o->max_header ? o->max_header : 100000000; }

embed_file *embed_file_retain(const embed_file *f) { return embed__file_retain(f); }

void embed_file_release(const embed_file *f) { embed__file_release(f); }

const char *embed_file_format(const embed_file *f) { return f ? f->format->name : NULL; }

const char *embed_file_notes(const embed_file *f) { return !f ? NULL : f->notes ? f->notes : ""; }

const char *embed_file_token(const embed_file *f, int64_t id, int64_t *bytes) {
  int64_t ignored;
  if (!bytes) bytes = &ignored;
  *bytes = 0;
  return f && f->tokens ? embed__tokens_get(f->tokens, id, bytes) : NULL;
}

embed_status embed_file_class_counts(embed_context *ctx, const embed_file *f, embed_role role, int64_t *counts, int64_t room, int64_t *classes) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  EMBED__NOT_NULL(ctx, classes);
  if (role != EMBED_ROLE_TOKEN && role != EMBED_ROLE_HEAD)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "counts are of classes of EMBED_ROLE_TOKEN or EMBED_ROLE_HEAD, not of role %d", role);
  if (room < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "room is %" PRId64, room);
  if (room > 0) EMBED__NOT_NULL(ctx, counts);
  const embed__counts *stored = role == EMBED_ROLE_TOKEN ? &f->token_counts : &f->head_counts;
  if (!stored->of) return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: a file of format %s has no counts", f->label, f->format->name);
  const int64_t n = embed__min(room, stored->n);
  if (n > 0) memcpy(counts, stored->of, (size_t)n * sizeof *counts);
  *classes = stored->n;
  return EMBED_OK;
}

embed_status embed_file_token_id(embed_context *ctx, const embed_file *f, const char *token, int64_t bytes, int64_t *id) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  EMBED__NOT_NULL(ctx, id);
  if (bytes < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "token has %" PRId64 " bytes", bytes);
  if (bytes > 0) EMBED__NOT_NULL(ctx, token);
  if (!f->tokens) return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: a file of format %s names no tokens", f->label, f->format->name);
  int64_t found = embed__tokens_find(f->tokens, token, bytes);
  if (found < 0) return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: no row has the token \"%.*s\"", f->label, (int)embed__min(bytes, 64), bytes ? token : "");
  *id = found;
  return EMBED_OK;
}
