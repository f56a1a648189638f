/* SPDX-License-Identifier: BSD-3-Clause */
/* model.safetensors.index.json and pytorch_model.bin.index.json: {"metadata": {...}, "weight_map": {tensor: file, ...}}, the files lying
 * beside it, all of one format. Every file is proved as one that is opened alone. The map decides: tensors that it does not name, or names
 * elsewhere, are left out. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
#include "io/decoded.h"
#include "io/format.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "thread/run.h"

/* Of the map: a tensor and where it lies. */
typedef struct entry {
  const char *name;       /* in the JSON's copy */
  int64_t name_bytes, at; /* of the file's name, in the index */
  int32_t shard;
  bool found;
} entry;

typedef struct opening opening;
struct opening {
  embed_context *ctx;
  embed_status (*open_shard)(opening *x, int32_t shard, const char *path, const char *label);
  embed_file *f;
  const embed_file_options *options;
  embed__json json;
  char *text; /* the JSON's copy */
  entry *entries;
  int64_t count, room;
  embed__tokens *shards; /* their files' names */
  bool mapped;           /* the map was there */
};

static const char WORD[] = "\"weight_map\"";
enum { FAR = 1 << 16, WORD_BYTES = sizeof WORD - 1 };

static int64_t skip_to(const unsigned char *data, int64_t end, int64_t at, unsigned char wanted) {
  for (; at < end && data[at] != wanted; ++at)
    if (data[at] == '\\') ++at;
  return at;
}

/* Behind the word, -1 = this is no index. */
static int64_t find_map(const unsigned char *data, int64_t bytes) {
  int64_t at = 0, end = embed__min(bytes, FAR) - WORD_BYTES;
  while (at < end && memchr(" \t\r\n", data[at], 4)) ++at;
  if (at >= end || data[at] != '{') return -1;
  for (; at <= end; ++at)
    if (data[at] == '"' && memcmp(data + at, WORD, WORD_BYTES) == 0) return at + WORD_BYTES;
  return -1;
}

/* Whether the map's first file is named as PyTorch's are: the second string behind the word. */
static bool names_pytorch(const unsigned char *data, int64_t bytes, int64_t at) {
  static const char *const endings[] = {".bin", ".pt", ".pth"};
  const int64_t end = embed__min(bytes, 2 * FAR);
  int64_t first = 0;
  for (int quote = 0; quote < 4; ++quote) {
    first = at;
    at = skip_to(data, end, at, '"') + 1;
  }
  for (size_t i = 0; i < sizeof endings / sizeof *endings && at <= end; ++i) {
    const int64_t length = (int64_t)strlen(endings[i]);
    if (at - 1 - first >= length && memcmp(data + at - 1 - length, endings[i], (size_t)length) == 0) return true;
  }
  return false;
}

bool embed__safetensors_index_probe(const unsigned char *data, int64_t bytes) {
  const int64_t at = find_map(data, bytes);
  return at >= 0 && !names_pytorch(data, bytes, at);
}

bool embed__torch_index_probe(const unsigned char *data, int64_t bytes) {
  const int64_t at = find_map(data, bytes);
  return at >= 0 && names_pytorch(data, bytes, at);
}

/* --- The JSON */

/* Names of files in this folder and nothing else: an index must not make us read what its owner did not put beside it. */
static bool is_plain(const char *name, int64_t bytes) {
  if (bytes == 0 || (int64_t)strlen(name) != bytes) return false;
  return !strchr(name, '/') && !strchr(name, '\\') && !strstr(name, "..") && strcmp(name, ".") != 0;
}

static embed_status read_entry(opening *x) {
  embed__json *j = &x->json;
  if (x->count == x->room) return embed__json_expected(j, "no further tensor"); /* cannot be: room is counted by the quotes */
  entry *e = &x->entries[x->count];
  *e = (entry){.name = j->string, .name_bytes = j->string_bytes};
  if ((int64_t)strlen(j->string) != j->string_bytes) return embed__json_expected(j, "no NUL in the name of a tensor");
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_STRING, "the name of a file"));
  e->at = j->first;
  if (!is_plain(j->string, j->string_bytes))
    return embed__fail(x->ctx, EMBED_E_FORMAT, e->at, "%s: tensor \"%.100s\" is mapped to \"%.100s\" at byte %" PRId64 ": no plain name of a file beside it",
                       x->f->label, e->name, j->string, e->at);
  int64_t shard = embed__tokens_find(x->shards, j->string, j->string_bytes);
  if (shard < 0) {
    shard = x->f->shard_count++;
    embed__tokens_add(x->shards, j->string, j->string_bytes);
  }
  if (shard > INT32_MAX) return embed__fail(x->ctx, EMBED_E_OVERFLOW, e->at, "%s: more than %d shards", x->f->label, INT32_MAX);
  e->shard = (int32_t)shard;
  ++x->count;
  return EMBED_OK;
}

static embed_status read_map(opening *x) {
  x->mapped = true;
  EMBED__TRY(embed__json_expect(&x->json, EMBED__JSON_OBJECT, "the map in braces"));
  for (;;) {
    EMBED__TRY(embed__json_next(&x->json));
    if (x->json.kind == EMBED__JSON_OBJECT_END) return EMBED_OK;
    EMBED__TRY(read_entry(x));
  }
}

/* Strings and whole numbers of it become the file's metadata ("total_size"); nothing is decided by them. */
static embed_status read_metadata(opening *x) {
  embed__json *j = &x->json;
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_OBJECT, "metadata in braces"));
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) return EMBED_OK;
    const char *key = j->string;
    int64_t key_bytes = j->string_bytes;
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_STRING || j->kind == EMBED__JSON_INTEGER)
      EMBED__TRY(embed__file_add_metadata(x->ctx, x->f, key, key_bytes, j->string, j->string_bytes,
                                          j->kind == EMBED__JSON_INTEGER ? (double)j->integer : (double)NAN));
    for (int depth = 2; j->depth > depth;) EMBED__TRY(embed__json_next(j)); /* the index and its metadata are open */
  }
}

static embed_status read_json(opening *x) {
  embed__json *j = &x->json;
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_OBJECT, "an index in braces"));
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) break;
    if (embed__json_is(j, "weight_map") && !x->mapped)
      EMBED__TRY(read_map(x));
    else if (embed__json_is(j, "metadata") && x->f->metadata_count == 0)
      EMBED__TRY(read_metadata(x));
    else
      EMBED__TRY(embed__json_skip(j)); /* one that stands twice fails at the end of the object */
  }
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_END, "blanks behind the index"));
  return x->mapped ? EMBED_OK : embed__json_expected(j, "a \"weight_map\"");
}

static int64_t most_entries(const char *text, int64_t bytes) {
  enum { LEAST = 7 /* "":"a", */ };
  int64_t quotes = 0;
  for (int64_t i = 0; i < bytes; ++i) quotes += text[i] == '"';
  return embed__min(quotes / 4, bytes / LEAST) + 1;
}

static embed_status read_index(opening *x) {
  const embed__map *map = &x->f->map;
  if (map->bytes > embed__header_limit(x->options))
    return embed__fail(x->ctx, EMBED_E_FORMAT, 0, "%s: the index has %" PRId64 " bytes, at most %" PRId64 " are read (max_header)", x->f->label, map->bytes,
                       embed__header_limit(x->options));
  x->text = embed__allocate(&x->ctx->memory, (size_t)map->bytes + 1, EMBED__ALIGNMENT);
  if (!x->text) return embed__out_of_memory(x->ctx, map->bytes + 1);
  memcpy(x->text, map->data, (size_t)map->bytes);
  x->text[map->bytes] = '\0';
  x->room = most_entries(x->text, map->bytes);
  x->entries = embed__allocate(&x->ctx->memory, (size_t)x->room * sizeof *x->entries, EMBED__ALIGNMENT);
  if (!x->entries) return embed__out_of_memory(x->ctx, x->room * (int64_t)sizeof *x->entries);
  EMBED__TRY(embed__tokens_new(x->ctx, x->room, map->bytes, &x->shards));
  embed__json_begin(&x->json, x->ctx, x->f->label, x->text, map->bytes, 0);
  embed_status status = read_json(x);
  embed__json_end(&x->json);
  return status;
}

/* --- The shards */

static const char *shard_name(const opening *x, int64_t shard) {
  int64_t ignored;
  return embed__tokens_get(x->shards, shard, &ignored);
}

static const entry *first_of(const opening *x, int32_t shard) {
  const entry *e = x->entries;
  while (e->shard != shard) ++e; /* a shard is there because an entry named it */
  return e;
}

/* As a colleague would: which tensor wanted the shard, and what is the matter with it. */
static embed_status missing_shard(const opening *x, int32_t shard, embed_status status, const char *label) {
  enum { REASON = 160 };
  char reason[REASON + 1] = "";
  const entry *e = first_of(x, shard);
  size_t before = strlen(label);
  if (strlen(x->ctx->error_text) > before) strncpy(reason, x->ctx->error_text + before, REASON);
  return embed__fail(x->ctx, status, e->at, "%s: shard \"%.80s\" of tensor \"%.80s\"%s", x->f->label, shard_name(x, shard), e->name, reason);
}

/* The tensors of shard that the map finds there. */
static void take_tensors(opening *x, int32_t shard, const embed__tensor *tensors, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    const embed__tensor *from = &tensors[k];
    int64_t i = embed__tokens_find(x->f->names, from->name, (int64_t)strlen(from->name));
    if (i < 0 || x->entries[i].shard != shard) continue;
    const char *name = x->f->tensors[i].name;
    x->entries[i].found = true;
    x->f->tensors[i] = *from;
    x->f->tensors[i].name = name;
    x->f->tensors[i].shard = shard;
  }
}

static embed_status open_safetensors(opening *x, int32_t shard, const char *path, const char *label) {
  embed__map *map = &x->f->shards[shard];
  embed__safetensors s;
  embed_status status = embed__map_open(x->ctx, path, label, x->options->flags, map);
  if (status != EMBED_OK) return status == EMBED_E_MEMORY ? status : missing_shard(x, shard, status, label);
  status = embed__safetensors_read(x->ctx, map, label, x->options, NULL, &s);
  if (status == EMBED_OK) take_tensors(x, shard, s.tensors, s.count);
  embed__safetensors_free(x->ctx, &s);
  return status;
}

/* A whole file, whose tensors, mapping and memory go over. */
static embed_status open_torch(opening *x, int32_t shard, const char *path, const char *label) {
  embed_file_options o = *x->options;
  embed_file *s;
  o.format = "pytorch";
  const embed_status status = embed__file_open(x->ctx, path, &o, &s);
  if (status == EMBED_E_IO) return missing_shard(x, shard, status, label);
  EMBED__TRY(status);
  take_tensors(x, shard, s->tensors, s->tensor_count);
  x->f->shards[shard] = s->map;
  s->map = (embed__map){.data = NULL};
  embed__file_take_kept(x->f, s);
  embed__file_release(s);
  return EMBED_OK;
}

static embed_status open_shards(opening *x) {
  const char *path = x->f->path, *slash = strrchr(path, '/');
  size_t folder = slash ? (size_t)(slash - path) + 1 : 0, longest = 0;
  const int64_t count = x->f->shard_count;
  char label[EMBED__LABEL + 4];
  for (int64_t s = 0; s < count; ++s) longest = strlen(shard_name(x, s)) > longest ? strlen(shard_name(x, s)) : longest;
  char *whole = embed__allocate(&x->ctx->memory, folder + longest + 1, EMBED__ALIGNMENT);
  if (!whole) return embed__out_of_memory(x->ctx, (int64_t)(folder + longest + 1));
  memcpy(whole, path, folder);
  embed_status status = EMBED_OK;
  for (int64_t s = 0; s < count && status == EMBED_OK; ++s) {
    memcpy(whole + folder, shard_name(x, s), strlen(shard_name(x, s)) + 1);
    status = embed__pause(x->ctx, s, count);
    embed__file_label(label, whole);
    if (status == EMBED_OK) status = x->open_shard(x, (int32_t)s, whole, label);
  }
  embed__free(&x->ctx->memory, whole, folder + longest + 1, EMBED__ALIGNMENT);
  return status;
}

static embed_status name_tensors(opening *x) {
  embed_file *f = x->f;
  int64_t bytes = 0, ignored;
  for (int64_t i = 0; i < x->count; ++i) bytes += x->entries[i].name_bytes;
  EMBED__TRY(embed__tokens_new(x->ctx, x->count, bytes, &f->names));
  EMBED__TRY(embed__file_tensors(x->ctx, f, x->count));
  for (int64_t i = 0; i < x->count; ++i) {
    embed__tokens_add(f->names, x->entries[i].name, x->entries[i].name_bytes);
    f->tensors[i].name = embed__tokens_get(f->names, i, &ignored);
  }
  return EMBED_OK;
}

static embed_status read_all(opening *x) {
  embed_file *f = x->f;
  embed_status status = read_index(x);
  const int64_t shards = f->shard_count;
  f->shard_count = 0; /* until there is room for them: whoever releases f goes by it */
  EMBED__TRY(status);
  EMBED__TRY(name_tensors(x));
  f->shards = embed__new(&f->memory, (size_t)shards * sizeof *f->shards);
  if (!f->shards) return embed__out_of_memory(x->ctx, shards * (int64_t)sizeof *f->shards);
  f->shard_count = shards;
  EMBED__TRY(open_shards(x));
  embed__map_close(&f->memory, &f->map); /* nothing refers to the index itself any more */
  for (const entry *e = x->entries; e < x->entries + x->count; ++e)
    if (!e->found)
      return embed__fail(x->ctx, EMBED_E_FORMAT, e->at, "%s: tensor \"%.100s\" is mapped to \"%.100s\", which has no such tensor", f->label, e->name,
                         shard_name(x, e->shard));
  return EMBED_OK;
}

static embed_status open_index(opening *x) {
  const int64_t bytes = x->f->map.bytes;
  embed_status status = read_all(x);
  embed__tokens_free(x->shards);
  embed__free(&x->ctx->memory, x->entries, (size_t)x->room * sizeof *x->entries, EMBED__ALIGNMENT);
  embed__free(&x->ctx->memory, x->text, (size_t)bytes + 1, EMBED__ALIGNMENT);
  return status;
}

embed_status embed__safetensors_index_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  EMBED__TRY(open_index(&(opening){.ctx = ctx, .open_shard = open_safetensors, .f = f, .options = o}));
  return embed__find_scales(ctx, f);
}

embed_status embed__torch_index_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  return open_index(&(opening){.ctx = ctx, .open_shard = open_torch, .f = f, .options = o});
}
