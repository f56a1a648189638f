/* SPDX-License-Identifier: BSD-3-Clause */
/* The writer: what is collected before commit, and the checks that all formats share. */
#include "io/writer.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
#include "core/options.h"
#include "io/file.h"
#include "io/text.h"
#include "thread/run.h"

static const embed__writer_format *const formats[] = {
#define WRITER(name, extensions) &embed__writer_##name,
#include "io/writers.def"
#undef WRITER
};
enum { FORMATS = sizeof formats / sizeof *formats, NAMES = 400 };

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c; }

/* Whether path ends in one of the extensions, ASCII's case aside: what the locale calls a letter does not matter. */
static bool has_extension(const char *path, const char *extensions) {
  size_t whole = strlen(path);
  while (*extensions) {
    size_t bytes = strcspn(extensions, " "), i = 0;
    while (whole >= bytes && i < bytes && lower(path[whole - bytes + i]) == extensions[i]) ++i;
    if (i == bytes) return true;
    extensions += bytes + (extensions[bytes] == ' ');
  }
  return false;
}

static embed_status choose_format(embed_context *ctx, embed_writer *w, const char *name) {
  char names[NAMES];
  embed__text list = embed__text_in(names, sizeof names);
  for (int i = 0; i < FORMATS; ++i) {
    if (name ? strcmp(name, formats[i]->name) == 0 : has_extension(w->path, formats[i]->extensions)) {
      w->format = formats[i];
      return EMBED_OK;
    }
    embed__text_add(&list, i ? ", " : "");
    embed__text_add(&list, formats[i]->name);
    embed__text_add(&list, " (");
    embed__text_add(&list, formats[i]->extensions);
    embed__text_add(&list, ")");
  }
  if (name) return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: no format named \"%.40s\" is written; there are %s", w->label, name, names);
  return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: its name asks for no format that is written; there are %s", w->label, names);
}

/* *out: the new last item, zeroed. */
static embed_status append(embed_context *ctx, embed_writer *w, embed__list *list, size_t size, void *out_pointer) {
  if (list->count == list->room) {
    int64_t room = list->room ? 2 * list->room : 8, bytes;
    if (!embed__mul(room, (int64_t)size, &bytes)) return embed__out_of_memory(ctx, -1);
    void *items = embed__allocate(&w->memory, (size_t)bytes, EMBED__ALIGNMENT);
    if (!items) return embed__out_of_memory(ctx, bytes);
    if (list->count) memcpy(items, list->items, (size_t)list->count * size);
    embed__free(&w->memory, list->items, (size_t)list->room * size, EMBED__ALIGNMENT);
    list->items = items;
    list->room = room;
  }
  unsigned char *item = (unsigned char *)list->items + (size_t)list->count++ * size;
  memset(item, 0, size);
  memcpy(out_pointer, &item, sizeof item);
  return EMBED_OK;
}

static void free_list(const embed_writer *w, embed__list *list, size_t size) {
  embed__free(&w->memory, list->items, (size_t)list->room * size, EMBED__ALIGNMENT);
  *list = (embed__list){.items = NULL};
}

static embed_status keep(embed_context *ctx, const embed_writer *w, const char *text, int64_t bytes, char **out) {
  *out = embed__allocate(&w->memory, (size_t)bytes + 1, EMBED__ALIGNMENT);
  if (!*out) return embed__out_of_memory(ctx, bytes);
  if (bytes) memcpy(*out, text, (size_t)bytes);
  (*out)[bytes] = '\0';
  return EMBED_OK;
}

static void forget(const embed_writer *w, char *text, int64_t bytes) { embed__free(&w->memory, text, (size_t)bytes + 1, EMBED__ALIGNMENT); }

static void free_pairs(const embed_writer *w, embed__list *pairs) {
  embed__written_pair *pair = pairs->items;
  for (int64_t i = 0; i < pairs->count; ++i) {
    forget(w, pair[i].key, (int64_t)strlen(pair[i].key));
    forget(w, pair[i].value, pair[i].value_bytes);
  }
  free_list(w, pairs, sizeof *pair);
}

/* What commit needs no more. */
static void free_contents(embed_writer *w) {
  embed__written_table *table = w->tables.items;
  for (int64_t i = 0; i < w->tables.count; ++i) {
    forget(w, table[i].name, (int64_t)strlen(table[i].name));
    embed__table_release(table[i].table);
  }
  free_list(w, &w->tables, sizeof *table);
  embed__written_section *section = w->sections.items;
  for (int64_t i = 0; i < w->sections.count; ++i) {
    forget(w, section[i].name, (int64_t)strlen(section[i].name));
    if (section[i].done) section[i].done(section[i].arg);
  }
  free_list(w, &w->sections, sizeof *section);
  free_pairs(w, &w->ties);
  free_pairs(w, &w->pairs);
  free_list(w, &w->spans, sizeof(embed__token_span));
  free_list(w, &w->text, 1);
  embed__file_release(w->source);
  w->source = NULL;
}

static embed_status create(embed_context *ctx, const char *path, const embed_writer_options *o, embed_writer *w) {
  enum { BLOCK = 8 << 20 };
  size_t bytes = strlen(path);
  embed__text label = embed__text_in(w->label, sizeof w->label);
  embed__text_add(&label, bytes > EMBED__WRITER_LABEL ? "..." : "");
  embed__text_add(&label, bytes > EMBED__WRITER_LABEL ? path + bytes - EMBED__WRITER_LABEL : path);
  w->memory = ctx->memory;
  w->max_memory = o->max_memory ? o->max_memory : BLOCK;
  EMBED__TRY(keep(ctx, w, path, (int64_t)bytes, &w->path));
  EMBED__TRY(choose_format(ctx, w, o->format));
  return embed__safe_check(ctx, path, w->label);
}

static void release(embed_writer *w) {
  const embed_allocator memory = w->memory;
  free_contents(w);
  if (w->path) forget(w, w->path, (int64_t)strlen(w->path));
  embed__free(&memory, w, sizeof *w, EMBED__ALIGNMENT);
}

embed_status embed_writer_create(embed_context *ctx, const char *path, const embed_writer_options *opts, embed_writer **out) {
  embed_writer_options o;
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, path);
  EMBED__NOT_NULL(ctx, out);
  EMBED__TRY(embed__options(ctx, "embed_writer_options", opts, 0, &o, sizeof o));
  if (o.max_memory < 0) return embed__fail(ctx, EMBED_E_OPTION, -1, "max_memory is %" PRId64 " bytes", o.max_memory);
  if (o.reserved) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_writer_options.reserved is not NULL");
  embed_writer *w = embed__new(&ctx->memory, sizeof *w);
  if (!w) return embed__out_of_memory(ctx, (int64_t)sizeof *w);
  embed_status status = create(ctx, path, &o, w);
  if (status == EMBED_OK)
    *out = w;
  else
    release(w);
  return status;
}

embed_status embed__writer_open(embed_context *ctx, const embed_writer *w) {
  if (w->committed) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: it has been committed: nothing can be added to it", w->label);
  return EMBED_OK;
}

static embed_status unsupported(embed_context *ctx, const embed_writer *w, const char *what) {
  return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s: the format %s holds no %s", w->label, w->format->name, what);
}

static const char *tied_to(const embed_writer *w, const char *name) {
  for (int64_t i = 0; i < w->ties.count; ++i)
    if (!strcmp(embed__pair(&w->ties, i)->key, name)) return embed__pair(&w->ties, i)->value;
  return NULL;
}

int64_t embed__written_find(const embed_writer *w, const char *name) {
  const char *of = tied_to(w, name);
  if (of) name = of;
  for (int64_t i = 0; i < w->tables.count; ++i)
    if (!strcmp(embed__written(w, i)->name, name)) return i;
  return -1;
}

static embed_status check_text(embed_context *ctx, const embed_writer *w, const char *what, const char *text, int64_t bytes) {
  return w->format->check_text ? w->format->check_text(ctx, w, what, text, bytes) : EMBED_OK;
}

static embed_status check_length(embed_context *ctx, const embed_writer *w, const char *whose, const char *name) {
  enum { NAME_BYTES = 65535 };
  size_t bytes = strlen(name);
  if (bytes == 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: %s's name is empty", w->label, whose);
  if (bytes > NAME_BYTES) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: %s's name has %zu bytes, at most %d are kept", w->label, whose, bytes, NAME_BYTES);
  return EMBED_OK;
}

static embed_status check_name(embed_context *ctx, const embed_writer *w, const char *name) {
  EMBED__TRY(check_length(ctx, w, "a table", name));
  if (embed__written_find(w, name) >= 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: the name \"%.100s\" stands twice", w->label, name);
  return check_text(ctx, w, "name", name, (int64_t)strlen(name));
}

/* How the table is to be stored: as it is, but where the caller asks for something else. */
static embed_status describe(embed_context *ctx, const embed_writer *w, const embed_table *t, const embed_table_options *as, embed__written_table *item) {
  embed_table_options o;
  EMBED__TRY(embed__table_options(ctx, as, &o));
  item->dtype = !as || o.dtype == EMBED_DTYPE_NONE ? t->dtype : o.dtype;
  if (item->dtype == EMBED_PQ) item->dtype = EMBED_F32; /* no format has a place for the centroids */
  const embed__dtype_info *info = embed__dtype_find(item->dtype);
  if (!info) return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no dtype", item->dtype);
  if (info->block == 0) item->group = o.group ? o.group : item->dtype == t->dtype ? t->group : 32;
  item->table = (embed_table *)(uintptr_t)t; /* retained when it has a place */
  item->rows = t->rows;
  item->dim = t->dim;
  item->vocab = o.vocab ? o.vocab : t->vocab;
  if (item->vocab > t->rows) return embed__fail(ctx, EMBED_E_OPTION, -1, "vocab %" PRId64 " is more than the %" PRId64 " rows", item->vocab, t->rows);
  item->packed_bytes = embed__row_bytes(item->dtype, t->dim, item->group);
  if (item->packed_bytes == EMBED_E_UNSUPPORTED)
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s needs a dim that is a multiple of %" PRId64 ", not %" PRId64, info->name, info->block, t->dim);
  if (item->packed_bytes < 0) return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "a row of %" PRId64 " columns does not fit into 64 bits", t->dim);
  item->row_bytes = o.row_bytes ? o.row_bytes : item->packed_bytes;
  if (item->row_bytes < item->packed_bytes)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "row_bytes %" PRId64 " is less than the %" PRId64 " bytes of a row", item->row_bytes, item->packed_bytes);
  if (item->row_bytes > item->packed_bytes && !w->format->strides) return unsupported(ctx, w, "padding between rows: row_bytes must be 0");
  EMBED__TRY(w->format->check_table ? w->format->check_table(ctx, w, item) : EMBED_OK);
  if (!embed__mul(item->rows, item->row_bytes, &item->bytes)) return embed__out_of_memory(ctx, -1);
  if (item->rows) item->bytes -= item->row_bytes - item->packed_bytes;
  return EMBED_OK;
}

embed_status embed_writer_table(embed_context *ctx, embed_writer *w, const char *name, const embed_table *t, const embed_table_options *as) {
  embed__written_table item = {.name = NULL}, *place;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, w);
  EMBED__NOT_NULL(ctx, name);
  EMBED__NOT_NULL(ctx, t);
  EMBED__TRY(embed__writer_open(ctx, w));
  EMBED__TRY(check_name(ctx, w, name));
  if (w->tables.count && !w->format->many) return unsupported(ctx, w, "second table");
  EMBED__TRY(describe(ctx, w, t, as, &item));
  EMBED__TRY(keep(ctx, w, name, (int64_t)strlen(name), &item.name));
  embed_status status = append(ctx, w, &w->tables, sizeof item, &place);
  if (status != EMBED_OK) {
    forget(w, item.name, (int64_t)strlen(name));
    return status;
  }
  (void)embed__table_retain(t);
  *place = item;
  return EMBED_OK;
}

static embed_status add_pair(embed_context *ctx, embed_writer *w, embed__list *pairs, const char *key, const char *value, int64_t value_bytes) {
  embed__written_pair pair = {.value_bytes = value_bytes}, *place;
  EMBED__TRY(keep(ctx, w, key, (int64_t)strlen(key), &pair.key));
  embed_status status = keep(ctx, w, value, value_bytes, &pair.value);
  if (status == EMBED_OK) status = append(ctx, w, pairs, sizeof pair, &place);
  if (status == EMBED_OK) {
    *place = pair;
    return EMBED_OK;
  }
  forget(w, pair.key, (int64_t)strlen(key));
  if (pair.value) forget(w, pair.value, value_bytes);
  return status;
}

embed_status embed_writer_alias(embed_context *ctx, embed_writer *w, const char *name, const char *of) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, w);
  EMBED__NOT_NULL(ctx, name);
  EMBED__NOT_NULL(ctx, of);
  EMBED__TRY(embed__writer_open(ctx, w));
  if (!w->format->pairs) return unsupported(ctx, w, w->format->many ? "ties" : "ties: it is one table");
  EMBED__TRY(check_name(ctx, w, name));
  int64_t table = embed__written_find(w, of);
  if (table < 0) return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: \"%.100s\" is to be tied to \"%.100s\", which is not there yet", w->label, name, of);
  const char *stored = embed__written(w, table)->name; /* a tie to a tie is one to its table */
  return add_pair(ctx, w, &w->ties, name, stored, (int64_t)strlen(stored));
}

embed_status embed_writer_metadata(embed_context *ctx, embed_writer *w, const char *key, const char *value, int64_t value_bytes) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, w);
  EMBED__NOT_NULL(ctx, key);
  EMBED__TRY(embed__writer_open(ctx, w));
  if (value_bytes < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "value has %" PRId64 " bytes", value_bytes);
  if (value_bytes > 0) EMBED__NOT_NULL(ctx, value);
  if (!w->format->pairs) return unsupported(ctx, w, "metadata");
  if (!*key) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: a metadata key is empty", w->label);
  if (strncmp(key, "tied.", 5) == 0)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: the key \"%.100s\" is how ties are kept: use embed_writer_alias", w->label, key);
  for (int64_t i = 0; i < w->pairs.count; ++i)
    if (!strcmp(embed__pair(&w->pairs, i)->key, key)) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: the key \"%.100s\" stands twice", w->label, key);
  EMBED__TRY(check_text(ctx, w, "metadata key", key, (int64_t)strlen(key)));
  EMBED__TRY(check_text(ctx, w, "metadata value", value, value_bytes));
  return add_pair(ctx, w, &w->pairs, key, value, value_bytes);
}

static embed_status check_section(embed_context *ctx, const embed_writer *w, const char *name, int64_t bytes) {
  EMBED__TRY(embed__writer_open(ctx, w));
  if (!w->format->sections) return unsupported(ctx, w, "named sections: write an .embed file");
  if (bytes < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: section \"%.100s\" has %" PRId64 " bytes", w->label, name, bytes);
  EMBED__TRY(check_length(ctx, w, "a section", name));
  for (int64_t i = 0; i < w->sections.count; ++i)
    if (!strcmp(embed__section(w, i)->name, name)) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: the section \"%.100s\" stands twice", w->label, name);
  return EMBED_OK;
}

static embed_status add_section(embed_context *ctx, embed_writer *w, const char *name, embed__written_section section) {
  embed__written_section *place;
  EMBED__TRY(check_section(ctx, w, name, section.bytes));
  EMBED__TRY(keep(ctx, w, name, (int64_t)strlen(name), &section.name));
  embed_status status = append(ctx, w, &w->sections, sizeof section, &place);
  if (status == EMBED_OK)
    *place = section;
  else
    forget(w, section.name, (int64_t)strlen(name));
  return status;
}

embed_status embed__writer_section(embed_context *ctx, embed_writer *w, const char *name, const void *data, int64_t bytes) {
  return add_section(ctx, w, name, (embed__written_section){.data = data, .bytes = bytes});
}

embed_status embed__writer_section_from(embed_context *ctx, embed_writer *w, const char *name, int64_t bytes, embed__section_source *source, void *arg,
                                        void (*done)(void *arg)) {
  return add_section(ctx, w, name, (embed__written_section){.bytes = bytes, .source = source, .arg = arg, .done = done});
}

const char *embed__written_token(const embed_writer *w, int64_t id, int64_t *bytes) {
  *bytes = -1;
  if (id >= w->spans.count) return NULL;
  const embed__token_span *span = (const embed__token_span *)w->spans.items + id;
  *bytes = span->bytes;
  if (span->bytes < 0) return NULL;
  return span->bytes == 0 ? "" : (const char *)w->text.items + span->begin; /* without any bytes there may be no room yet */
}

embed_status embed__written_tokens(embed_context *ctx, const embed_writer *w, int64_t count) {
  for (int64_t id = 0; id < count; ++id) {
    int64_t bytes;
    if (!embed__written_token(w, id, &bytes))
      return embed__fail(ctx, EMBED_E_ARGUMENT, id, "%s: row %" PRId64 " of %" PRId64 " has no token, and %s needs one for each", w->label, id, count,
                         w->format->name);
  }
  return EMBED_OK;
}

embed_status embed__written_utf8(embed_context *ctx, const embed_writer *w, const char *what, const char *text, int64_t bytes) {
  const int64_t at = embed__text_not_utf8(text, bytes);
  if (at < 0) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_ARGUMENT, at, "%s: the %s is no UTF-8, which %s asks for", w->label, what, w->format->name);
}

embed_status embed__written_as_f32(embed_context *ctx, const embed_writer *w, embed__written_table *t) {
  if (t->dtype != EMBED_F32 && t->dtype != t->table->dtype)
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s: %s has no type for %s rows: they are f32", w->label, w->format->name, embed__dtype_name(t->dtype));
  t->dtype = EMBED_F32; /* what every row decodes to */
  t->group = 0;
  t->rows = t->vocab;
  t->packed_bytes = t->row_bytes = embed__row_bytes(EMBED_F32, t->dim, 0);
  return t->packed_bytes < 0 ? embed__out_of_memory(ctx, -1) : EMBED_OK;
}

/* Room for `more` bytes of text. */
static embed_status make_text_room(embed_context *ctx, embed_writer *w, int64_t more) {
  int64_t needed;
  if (!embed__add(w->text.count, more, &needed)) return embed__out_of_memory(ctx, -1);
  if (needed <= w->text.room) return EMBED_OK;
  int64_t room = embed__max(needed, embed__max(4096, w->text.room < INT64_MAX / 2 ? 2 * w->text.room : needed));
  char *text = embed__allocate(&w->memory, (size_t)room, EMBED__ALIGNMENT);
  if (!text) return embed__out_of_memory(ctx, room);
  if (w->text.count) memcpy(text, w->text.items, (size_t)w->text.count);
  embed__free(&w->memory, w->text.items, (size_t)w->text.room, EMBED__ALIGNMENT);
  w->text.items = text;
  w->text.room = room;
  return EMBED_OK;
}

static embed_status add_token(embed_context *ctx, embed_writer *w, int64_t id, const char *token, int64_t bytes) {
  if (w->format->check_token) EMBED__TRY(w->format->check_token(ctx, w, id, token, bytes));
  EMBED__TRY(make_text_room(ctx, w, bytes));
  while (w->spans.count <= id) {
    embed__token_span *span = NULL;
    EMBED__TRY(append(ctx, w, &w->spans, sizeof *span, &span));
    span->bytes = -1;
  }
  if (bytes) memcpy((char *)w->text.items + w->text.count, token, (size_t)bytes);
  ((embed__token_span *)w->spans.items)[id] = (embed__token_span){.begin = w->text.count, .bytes = bytes};
  w->text.count += bytes;
  return EMBED_OK;
}

embed_status embed_writer_token(embed_context *ctx, embed_writer *w, int64_t id, const char *token, int64_t bytes) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, w);
  EMBED__TRY(embed__writer_open(ctx, w));
  if (!w->format->tokens) return unsupported(ctx, w, "tokens");
  if (id < 0 || id > INT32_MAX) return embed__fail(ctx, EMBED_E_ID, id, "%s: a token's id is %" PRId64 ", it must be 0 to %d", w->label, id, INT32_MAX);
  if (bytes < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, id, "token has %" PRId64 " bytes", bytes);
  if (bytes > 0) EMBED__NOT_NULL(ctx, token);
  return add_token(ctx, w, id, token, bytes);
}

embed_status embed_writer_tokens(embed_context *ctx, embed_writer *w, const embed_file *from) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, w);
  EMBED__NOT_NULL(ctx, from);
  EMBED__TRY(embed__writer_open(ctx, w));
  if (!w->format->tokens) return unsupported(ctx, w, "tokens");
  if (!from->tokens) return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s names no tokens", from->label);
  int64_t before_text = w->text.count, before_spans = w->spans.count, count = embed__tokens_count(from->tokens);
  if (before_spans) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: there are tokens already: the file's come first", w->label);
  for (int64_t id = 0; id < count; ++id) {
    int64_t bytes;
    const char *token = embed__tokens_get(from->tokens, id, &bytes);
    embed_status status = token ? add_token(ctx, w, id, token, bytes) : EMBED_OK;
    if (status != EMBED_OK) { /* all of them or none */
      w->text.count = before_text;
      w->spans.count = before_spans;
      return status;
    }
  }
  w->source = embed__file_retain(from);
  return EMBED_OK;
}

static embed_status commit(embed_context *ctx, embed_writer *w) {
  embed__safe_file f;
  EMBED__TRY(embed__safe_open(ctx, w->path, w->label, &f));
  embed_status status = w->format->write(ctx, w, &f);
  if (status == EMBED_OK) status = embed__pause(ctx, w->total, w->total); /* the last moment at which it can be stopped */
  if (status == EMBED_OK) status = embed__safe_commit(ctx, &f);
  embed__safe_drop(&f);
  return status;
}

embed_status embed_writer_commit(embed_context *ctx, embed_writer *w) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, w);
  EMBED__TRY(embed__writer_open(ctx, w));
  if (w->tables.count == 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: there is no table to write", w->label);
  w->done = w->total = 0;
  for (int64_t i = 0; i < w->tables.count; ++i)
    if (!embed__add(w->total, embed__written(w, i)->bytes, &w->total)) return embed__out_of_memory(ctx, -1);
  for (int64_t i = 0; i < w->sections.count; ++i)
    if (!embed__add(w->total, embed__section(w, i)->bytes, &w->total)) return embed__out_of_memory(ctx, -1);
  embed_status status = commit(ctx, w);
  if (status == EMBED_OK) {
    w->committed = true;
    free_contents(w);
  }
  return embed__end(ctx, status);
}

void embed_writer_release(embed_writer *w) {
  if (w) release(w);
}
