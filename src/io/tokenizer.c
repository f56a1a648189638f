/* SPDX-License-Identifier: BSD-3-Clause */
/* tokenizer.json of Hugging Face's tokenizers, whatever its model (BPE, WordPiece and WordLevel: "vocab" is an object of token and id;
 * Unigram: an array of token and score, the id is the place), with its added tokens, which come before the model's where both name an id;
 * and vocab.txt of BERT, a token per line. Tokens stay as they stand there: marks of word pieces and of bytes are part of them. */
#include "io/tokenizer.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
#include "io/json.h"
#include "io/text.h"

typedef struct entry {
  const char *token; /* NULL = the id has none */
  int64_t bytes;
  bool added;
} entry;

typedef struct reading {
  embed_context *ctx;
  const char *name; /* of the file beside */
  int64_t rows;
  entry *entries;            /* [rows] */
  int64_t named, bytes, end; /* ids that have a token; bytes of all; one past the last of them */
  int64_t beyond, twice;     /* tokens whose id is past the rows; whose id has another token */
  char *text;                /* of the JSON, in which the tokens stand */
} reading;

static void set(reading *r, int64_t id, const char *token, int64_t bytes, bool added) {
  if (id >= r->rows) {
    ++r->beyond;
    return;
  }
  entry *e = &r->entries[id];
  const bool other = e->token && (e->bytes != bytes || memcmp(e->token, token, (size_t)bytes) != 0);
  if (other) ++r->twice;
  if (!other) added |= e->added;
  if (other && e->added >= added) return;
  if (!e->token) ++r->named;
  r->bytes += bytes - (e->token ? e->bytes : 0);
  *e = (entry){.token = token, .bytes = bytes, .added = added};
  r->end = embed__max(r->end, id + 1);
}

/* --- tokenizer.json */

static embed_status expect_id(embed__json *j) {
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_INTEGER, "the id of a token"));
  return j->integer < 0 ? embed__json_expected(j, "an id that is not negative") : EMBED_OK;
}

/* {"a": 0, "b": 1} */
static embed_status read_object(reading *r, embed__json *j) {
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) return EMBED_OK;
    const char *token = j->string;
    const int64_t bytes = j->string_bytes;
    EMBED__TRY(expect_id(j));
    set(r, j->integer, token, bytes, false);
  }
}

/* [["a", -1.5], ["b", -2]] */
static embed_status read_array(reading *r, embed__json *j) {
  for (int64_t id = 0;; ++id) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_ARRAY_END) return EMBED_OK;
    if (j->kind != EMBED__JSON_ARRAY) return embed__json_expected(j, "a token and its score");
    EMBED__TRY(embed__json_expect(j, EMBED__JSON_STRING, "a token"));
    set(r, id, j->string, j->string_bytes, false);
    EMBED__TRY(embed__json_next(j));
    if (j->kind != EMBED__JSON_INTEGER && j->kind != EMBED__JSON_REAL) return embed__json_expected(j, "the score of a token");
    EMBED__TRY(embed__json_expect(j, EMBED__JSON_ARRAY_END, "the end of a token and its score"));
  }
}

static embed_status read_model(reading *r, embed__json *j, bool *found) {
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_OBJECT, "the model as an object"));
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) return EMBED_OK;
    if (!embed__json_is(j, "vocab")) {
      EMBED__TRY(embed__json_skip(j));
      continue;
    }
    *found = true;
    EMBED__TRY(embed__json_next(j));
    if (j->kind != EMBED__JSON_OBJECT && j->kind != EMBED__JSON_ARRAY) return embed__json_expected(j, "the vocabulary as an object or an array");
    EMBED__TRY(j->kind == EMBED__JSON_OBJECT ? read_object(r, j) : read_array(r, j));
  }
}

/* {"id": 0, "content": "<pad>", "special": true} */
static embed_status read_added_token(reading *r, embed__json *j) {
  const char *token = NULL;
  int64_t bytes = 0, id = -1;
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) break;
    if (embed__json_is(j, "id")) {
      EMBED__TRY(expect_id(j));
      id = j->integer;
    } else if (embed__json_is(j, "content")) {
      EMBED__TRY(embed__json_expect(j, EMBED__JSON_STRING, "the content of a token"));
      token = j->string;
      bytes = j->string_bytes;
    } else {
      EMBED__TRY(embed__json_skip(j));
    }
  }
  if (!token || id < 0) return embed__json_expected(j, "the id and content of an added token");
  set(r, id, token, bytes, true);
  return EMBED_OK;
}

static embed_status read_added(reading *r, embed__json *j) {
  EMBED__TRY(embed__json_next(j));
  if (j->kind == EMBED__JSON_NULL) return EMBED_OK;
  if (j->kind != EMBED__JSON_ARRAY) return embed__json_expected(j, "an array of added tokens");
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_ARRAY_END) return EMBED_OK;
    if (j->kind != EMBED__JSON_OBJECT) return embed__json_expected(j, "an added token");
    EMBED__TRY(read_added_token(r, j));
  }
}

static embed_status read_whole(reading *r, embed__json *j) {
  bool found = false;
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_OBJECT, "an object"));
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) break;
    EMBED__TRY(embed__json_is(j, "model") ? read_model(r, j, &found) : embed__json_is(j, "added_tokens") ? read_added(r, j) : embed__json_skip(j));
  }
  if (!found) return embed__json_expected(j, "the vocabulary of a model");
  return embed__json_expect(j, EMBED__JSON_END, "blanks behind the object");
}

static embed_status read_json(reading *r, const embed__map *map) {
  embed__json j;
  r->text = embed__allocate(&r->ctx->memory, (size_t)map->bytes + 1, EMBED__ALIGNMENT);
  if (!r->text) return embed__out_of_memory(r->ctx, map->bytes + 1);
  memcpy(r->text, map->data, (size_t)map->bytes);
  r->text[map->bytes] = '\0';
  embed__json_begin(&j, r->ctx, r->name, r->text, map->bytes, 0);
  embed_status status = read_whole(r, &j);
  embed__json_end(&j);
  return status;
}

/* --- vocab.txt */

/* Lines end in LF or in CR LF, the last one perhaps in nothing. An empty line is the empty token. Returns how many there are. */
static int64_t read_lines(reading *r, const embed__map *map) {
  int64_t id = 0;
  for (int64_t at = 0, next; at < map->bytes; at = next, ++id) {
    const char *line = (const char *)map->data + at, *end = memchr(line, '\n', (size_t)(map->bytes - at));
    int64_t bytes = end ? end - line : map->bytes - at;
    next = at + bytes + 1;
    if (bytes && end && line[bytes - 1] == '\r') --bytes;
    set(r, id, line, bytes, false);
  }
  return id;
}

/* --- Both */

static embed_status keep(reading *r, embed_file *f) {
  if (r->named == 0) return embed__fail(r->ctx, EMBED_E_FORMAT, -1, "%s: it names no token of the %" PRId64 " rows", r->name, r->rows);
  EMBED__TRY(embed__tokens_new(r->ctx, r->end, r->bytes, &f->tokens));
  for (int64_t id = 0; id < r->end; ++id) {
    const entry *e = &r->entries[id];
    if (e->token)
      embed__tokens_append(f->tokens, e->token, e->bytes);
    else
      embed__tokens_append_none(f->tokens);
  }
  embed__tokens_index(f->tokens);
  return EMBED_OK;
}

static embed_status note_count(const reading *r, embed_file *f, int64_t count, const char *what) {
  enum { LINE = 200 };
  char line[LINE];
  if (count == 0) return EMBED_OK;
  embed__text t = embed__text_in(line, sizeof line);
  embed__text_add(&t, r->name);
  embed__text_add(&t, ": ");
  embed__text_number(&t, count);
  embed__text_add(&t, what);
  return embed__file_note_line(r->ctx, f, line);
}

static embed_status note(const reading *r, embed_file *f) {
  EMBED__TRY(note_count(r, f, r->named, " tokens are those of this file, which lies beside"));
  EMBED__TRY(note_count(r, f, r->beyond, " tokens have ids past the rows and are left out"));
  EMBED__TRY(note_count(r, f, r->twice, " tokens share their id with another, which has it"));
  EMBED__TRY(note_count(r, f, r->rows - r->named, " rows have no token: padding, or ids that it does not name"));
  return note_count(r, f, embed__tokens_repeated(f->tokens), " tokens stand for the second time, the lowest row has them");
}

static embed_status read_map(reading *r, embed_file *f, const embed__map *map, const embed_file_options *o, bool one_each) {
  int64_t bytes;
  if (map->bytes > embed__header_limit(o))
    return embed__fail(r->ctx, EMBED_E_FORMAT, map->bytes, "%s: it has %" PRId64 " bytes, at most %" PRId64 " are read", r->name, map->bytes,
                       embed__header_limit(o));
  if (!embed__mul(r->rows, (int64_t)sizeof *r->entries, &bytes) || (uint64_t)bytes > SIZE_MAX) return embed__out_of_memory(r->ctx, bytes);
  r->entries = embed__new(&r->ctx->memory, (size_t)bytes);
  if (!r->entries) return embed__out_of_memory(r->ctx, bytes);
  embed_status status = EMBED_OK;
  if (!strcmp(r->name, "tokenizer.json"))
    status = read_json(r, map);
  else if (read_lines(r, map) != r->rows && one_each)
    status = embed__fail(r->ctx, EMBED_E_MISMATCH, -1, "%s: it has not a line for each of the %" PRId64 " rows", r->name, r->rows);
  if (status == EMBED_OK) status = keep(r, f);
  embed__free(&r->ctx->memory, r->entries, (size_t)bytes, EMBED__ALIGNMENT);
  if (r->text) embed__free(&r->ctx->memory, r->text, (size_t)map->bytes + 1, EMBED__ALIGNMENT);
  return status == EMBED_OK ? note(r, f) : status;
}

/* The failure becomes a note, and the context forgets it. */
static embed_status note_failure(embed_context *ctx, embed_file *f) {
  enum { LINE = 700 };
  char line[LINE];
  embed__text t = embed__text_in(line, sizeof line);
  embed__text_add(&t, ctx->error_text);
  embed__text_add(&t, ": it is not used");
  for (char *at = line; *at; ++at)
    if ((unsigned char)*at < 32 || *at == 127) *at = '?';
  ctx->error_text[0] = '\0';
  ctx->error_at = -1;
  return embed__file_note_line(ctx, f, line);
}

embed_status embed__tokenizer_read(embed_context *ctx, embed_file *f, const char *path, const embed_file_options *o, int64_t rows, bool one_each) {
  enum { NAME = 16 };
  static const char *const names[] = {"tokenizer.json", "vocab.txt"};
  const char *slash = strrchr(path, '/');
  const size_t folder = slash ? (size_t)(slash - path) + 1 : 0, room = folder + NAME;
  if (f->tokens || rows < 1) return EMBED_OK;
  char *whole = embed__allocate(&ctx->memory, room, EMBED__ALIGNMENT);
  if (!whole) return embed__out_of_memory(ctx, (int64_t)room);
  memcpy(whole, path, folder);
  embed_status status = EMBED_OK;
  for (size_t i = one_each ? 1 : 0; i < 2 && status == EMBED_OK && !f->tokens; ++i) {
    reading r = {.ctx = ctx, .name = names[i], .rows = rows};
    embed__map map = {.data = NULL};
    memcpy(whole + folder, names[i], strlen(names[i]) + 1);
    if (!embed__map_is_there(whole)) continue;
    status = embed__map_open(ctx, whole, names[i], o->flags & EMBED_FILE_COPY, &map);
    if (status == EMBED_OK) status = read_map(&r, f, &map, o, one_each);
    embed__map_close(&ctx->memory, &map);
    if (status != EMBED_OK && status != EMBED_E_MEMORY && status != EMBED_E_CANCELLED) status = note_failure(ctx, f);
  }
  embed__free(&ctx->memory, whole, room, EMBED__ALIGNMENT);
  return status;
}
