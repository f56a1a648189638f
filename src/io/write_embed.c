/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing .embed files (FORMAT.md): head and directory are left blank, filled when the sums of what follows are known. */
#include <embed/lookup.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "io/container.h"
#include "io/crc32c.h"
#include "io/floats.h"
#include "io/writer.h"
#include "thread/run.h"

enum { LONGEST_METADATA = 30000000 }; /* three of them: a pair's parts and what is before it; readers take 100 MB of header */

static const char *const role_keys[EMBED__ROLES] = {"token", "head", "head_bias", "position", "type", "norm", "norm_bias", "per_layer", "ngram"};

typedef struct output {
  embed_context *ctx;
  embed_writer *w;
  embed__safe_file *file;
  embed__crc32c crc;
  unsigned char *directory; /* head, entries, names; `end` bytes */
  bool metadata;            /* there is such a section */
  int64_t names;            /* where they begin */
  int64_t end, name_at;     /* of the directory, of the next name in it */
  int64_t sections;         /* begun */
  unsigned char *entry;     /* of the section being written; its first byte and its sum so far */
  int64_t first;
  uint32_t sum;
  uint32_t *roles;               /* a mask for each table */
  embed_conventions conventions; /* size 0 = none given */
} output;

static embed_status check_table(embed_context *ctx, const embed_writer *w, embed__written_table *t) {
  if (t->rows > 0 && t->vocab < 1) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: the table has %" PRId64 " rows and no valid id", w->label, t->rows);
  return EMBED_OK;
}

static embed_status bad_key(const output *o, const embed__written_pair *pair, const char *what) {
  return embed__fail(o->ctx, EMBED_E_ARGUMENT, -1, "%s: %s = \"%.80s\": %s", o->w->label, pair->key, pair->value, what);
}

static embed_status take_role(output *o, const embed__written_pair *pair, const char *name) {
  for (int role = 0; role < EMBED__ROLES; ++role) {
    if (strcmp(name, role_keys[role]) != 0) continue;
    int64_t table = embed__written_find(o->w, pair->value);
    if (table < 0) return bad_key(o, pair, "no table has this name");
    o->roles[table] |= 1u << role;
    return EMBED_OK;
  }
  return bad_key(o, pair, "there is no such role");
}

/* A convention's field: a number, or the name of a dtype. */
static embed_status take_convention(output *o, const embed__written_pair *pair, const char *name) {
  embed_conventions *c = &o->conventions;
  const unsigned char *value = (const unsigned char *)pair->value, *end = value + pair->value_bytes;
  float number = NAN;
  if (!c->size) *c = (embed_conventions){.size = sizeof *c, .lookup_scale = 1, .scale_round = EMBED_F32, .logit_scale = 1};
  if (!strcmp(name, "scale_round")) {
    for (embed_dtype t = EMBED_F32; t <= EMBED_BF16; ++t)
      if (!strcmp(pair->value, embed__dtype_name(t))) {
        c->scale_round = t;
        return EMBED_OK;
      }
    return bad_key(o, pair, "it must be f32, f16 or bf16");
  }
  if (embed__read_float(value, end, &number) != end || !isfinite(number)) return bad_key(o, pair, "it must be a finite number");
  if (!strcmp(name, "norm_flags")) {
    c->norm_flags = number >= 0 && number <= (EMBED_NORM_LAYER | EMBED_NORM_PLUS_ONE) ? (int32_t)number : -1;
    return (float)c->norm_flags == number ? EMBED_OK : bad_key(o, pair, "these are no flags of a norm");
  }
  float *field = !strcmp(name, "lookup_scale")    ? &c->lookup_scale
                 : !strcmp(name, "logit_scale")   ? &c->logit_scale
                 : !strcmp(name, "logit_softcap") ? &c->logit_softcap
                 : !strcmp(name, "norm_epsilon")  ? &c->norm_epsilon
                                                  : NULL;
  if (!field) return bad_key(o, pair, "keys that begin with \"embed.\" are this library's, and it has no such key");
  if (field == &c->lookup_scale || field == &c->logit_scale ? number == 0 : number < 0) return bad_key(o, pair, "it is out of range");
  *field = number;
  return EMBED_OK;
}

static bool is_ours(const embed__written_pair *pair) { return strncmp(pair->key, "embed.", 6) == 0; }

static embed_status take_keys(output *o) {
  bool roles = false, token = false;
  for (int64_t i = 0; i < o->w->pairs.count; ++i) {
    const embed__written_pair *pair = embed__pair(&o->w->pairs, i);
    if (!is_ours(pair)) continue;
    if (strncmp(pair->key, "embed.role.", 11) == 0)
      EMBED__TRY(take_role(o, pair, pair->key + 11));
    else
      EMBED__TRY(take_convention(o, pair, pair->key + 6));
  }
  for (int64_t i = 0; i < o->w->tables.count; ++i) {
    roles |= o->roles[i] != 0;
    token |= (o->roles[i] & 1u << EMBED_ROLE_TOKEN) != 0;
  }
  if (roles && !token) return embed__fail(o->ctx, EMBED_E_ARGUMENT, -1, "%s: roles are given, and embed.role.token is not", o->w->label);
  return EMBED_OK;
}

/* Sections in the order in which they are written, and how long the directory gets. */
static embed_status measure(output *o) {
  const embed_writer *w = o->w;
  bool metadata = w->ties.count > 0;
  for (int64_t i = 0; i < w->pairs.count; ++i) metadata |= !is_ours(embed__pair(&w->pairs, i));
  o->metadata = metadata;
  const int64_t sections = metadata + (o->conventions.size != 0) + (w->spans.count > 0) + w->tables.count + w->sections.count;
  if (sections > EMBED__CONTAINER_SECTIONS)
    return embed__fail(o->ctx, EMBED_E_UNSUPPORTED, -1, "%s: an .embed file has at most %d sections, this would be %" PRId64, w->label,
                       EMBED__CONTAINER_SECTIONS, sections);
  o->names = EMBED__HEAD + sections * EMBED__ENTRY;
  o->end = o->names + 1; /* the empty name of those without one */
  o->name_at = o->end;
  for (int64_t i = 0; i < w->tables.count; ++i) o->end += (int64_t)strlen(embed__written(w, i)->name) + 1;
  for (int64_t i = 0; i < w->sections.count; ++i) o->end += (int64_t)strlen(embed__section(w, i)->name) + 1;
  EMBED__TRY(embed__scratch_get(o->ctx, o->end, 1, &o->directory));
  memset(o->directory, 0, (size_t)o->end);
  return embed__safe_zeros(o->ctx, o->file, o->end);
}

static embed_status begin(output *o, uint32_t kind, int64_t alignment, const char *name) {
  const int64_t bytes = (int64_t)strlen(name);
  o->first = embed__ceil_div(o->file->written, alignment) * alignment;
  o->entry = o->directory + EMBED__HEAD + o->sections++ * EMBED__ENTRY;
  o->sum = 0;
  embed__put_le(o->entry + EMBED__ENTRY_KIND, kind, 4);
  embed__put_le(o->entry + EMBED__ENTRY_OFFSET, (uint64_t)o->first, 8);
  embed__put_le(o->entry + EMBED__ENTRY_NAME, (uint64_t)(bytes ? o->name_at : o->names), 8);
  embed__put_le(o->entry + EMBED__ENTRY_NAME_BYTES, (uint64_t)bytes, 4);
  if (bytes) {
    memcpy(o->directory + o->name_at, name, (size_t)bytes);
    o->name_at += bytes + 1;
  }
  return embed__safe_zeros(o->ctx, o->file, o->first - o->file->written);
}

static embed_status add(output *o, const void *bytes, int64_t count) {
  o->sum = embed__crc32c_add(&o->crc, o->sum, bytes, count);
  return embed__safe_write(o->ctx, o->file, bytes, count);
}

static void end(output *o) {
  embed__put_le(o->entry + EMBED__ENTRY_BYTES, (uint64_t)(o->file->written - o->first), 8);
  embed__put_le(o->entry + EMBED__ENTRY_SUM, o->sum, 4);
}

static embed_status put_pair(output *o, const char *prefix, const embed__written_pair *pair) {
  unsigned char head[8];
  const int64_t before = (int64_t)strlen(prefix), bytes = (int64_t)strlen(pair->key);
  if (before + bytes > LONGEST_METADATA || pair->value_bytes > LONGEST_METADATA || o->file->written - o->first > LONGEST_METADATA)
    return embed__fail(o->ctx, EMBED_E_UNSUPPORTED, -1, "%s: with \"%.80s\" the metadata are longer than %d bytes, and no reader would take them", o->w->label,
                       pair->key, LONGEST_METADATA);
  embed__put_le(head, (uint64_t)(before + bytes), 4);
  embed__put_le(head + 4, (uint64_t)pair->value_bytes, 4);
  EMBED__TRY(add(o, head, sizeof head));
  EMBED__TRY(add(o, prefix, before));
  EMBED__TRY(add(o, pair->key, bytes + 1));
  return add(o, pair->value, pair->value_bytes + 1);
}

static embed_status write_metadata(output *o) {
  EMBED__TRY(begin(o, EMBED__SECTION_METADATA, EMBED__CONTAINER_ALIGN, ""));
  for (int64_t i = 0; i < o->w->pairs.count; ++i)
    if (!is_ours(embed__pair(&o->w->pairs, i))) EMBED__TRY(put_pair(o, "", embed__pair(&o->w->pairs, i)));
  for (int64_t i = 0; i < o->w->ties.count; ++i) EMBED__TRY(put_pair(o, "tied.", embed__pair(&o->w->ties, i)));
  end(o);
  return EMBED_OK;
}

static void put_float(unsigned char *p, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  embed__put_le(p, bits, 4);
}

static embed_status write_conventions(output *o) {
  unsigned char bytes[EMBED__CONVENTIONS];
  put_float(bytes + EMBED__CONVENTIONS_LOOKUP, o->conventions.lookup_scale);
  embed__put_le(bytes + EMBED__CONVENTIONS_ROUND, (uint32_t)o->conventions.scale_round, 4);
  put_float(bytes + EMBED__CONVENTIONS_LOGIT, o->conventions.logit_scale);
  put_float(bytes + EMBED__CONVENTIONS_SOFTCAP, o->conventions.logit_softcap);
  put_float(bytes + EMBED__CONVENTIONS_EPSILON, o->conventions.norm_epsilon);
  embed__put_le(bytes + EMBED__CONVENTIONS_FLAGS, (uint32_t)o->conventions.norm_flags, 4);
  EMBED__TRY(begin(o, EMBED__SECTION_CONVENTIONS, EMBED__CONTAINER_ALIGN, ""));
  EMBED__TRY(add(o, bytes, sizeof bytes));
  end(o);
  return EMBED_OK;
}

static embed_status write_tokens(output *o) {
  const embed__token_span *spans = o->w->spans.items;
  int64_t arena = 0, bytes;
  unsigned char *section;
  for (int64_t id = 0; id < o->w->spans.count; ++id) arena += spans[id].bytes + 1; /* -1: there is none, and no NUL */
  bytes = embed__stored_bytes(o->w->spans.count, arena);
  if (bytes < 0) return embed__out_of_memory(o->ctx, -1);
  EMBED__TRY(embed__scratch_get(o->ctx, bytes, 1, &section));
  if (!embed__stored_build(section, bytes, o->w->spans.count, spans, o->w->text.items))
    return embed__fail(o->ctx, EMBED_E_UNSUPPORTED, -1, "%s: no hash spreads these tokens", o->w->label);
  EMBED__TRY(begin(o, EMBED__SECTION_TOKENS, EMBED__CONTAINER_ALIGN, ""));
  EMBED__TRY(add(o, section, bytes));
  end(o);
  return EMBED_OK;
}

static embed_status add_rows(embed_context *ctx, void *arg, int64_t first, int64_t rows, const unsigned char *block, int64_t bytes) {
  (void)ctx, (void)first, (void)rows;
  return add(arg, block, bytes);
}

static embed_status write_table(output *o, int64_t i) {
  const embed__written_table *t = embed__written(o->w, i);
  EMBED__TRY(begin(o, EMBED__SECTION_TABLE, EMBED__CONTAINER_PAGE, t->name));
  embed__put_le(o->entry + EMBED__ENTRY_ROLES, o->roles[i], 4);
  embed__put_le(o->entry + EMBED__ENTRY_DTYPE, (uint32_t)t->dtype, 4);
  embed__put_le(o->entry + EMBED__ENTRY_GROUP, (uint32_t)t->group, 4);
  embed__put_le(o->entry + EMBED__ENTRY_VECTOR, t->table->vector, 4);
  embed__put_le(o->entry + EMBED__ENTRY_ROWS, (uint64_t)t->rows, 8);
  embed__put_le(o->entry + EMBED__ENTRY_VOCAB, (uint64_t)t->vocab, 8);
  embed__put_le(o->entry + EMBED__ENTRY_DIM, (uint64_t)t->dim, 8);
  embed__put_le(o->entry + EMBED__ENTRY_ROW_BYTES, (uint64_t)t->row_bytes, 8);
  EMBED__TRY(embed__written_rows(o->ctx, o->w, t, add_rows, o));
  end(o);
  return EMBED_OK;
}

struct embed__section_sink {
  output *to;
  const embed__written_section *section;
};

embed_status embed__section_add(embed_context *ctx, embed__section_sink *sink, const void *bytes, int64_t count) {
  enum { PIECE = 8 << 20 };
  output *o = sink->to;
  const int64_t left = sink->section->bytes - (o->file->written - o->first);
  if (count > left)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: section \"%.80s\" was to have %" PRId64 " bytes, there are more", o->w->label, sink->section->name,
                       sink->section->bytes);
  for (int64_t at = 0, piece; at < count; at += piece) {
    piece = embed__min(PIECE, count - at);
    EMBED__TRY(embed__pause(ctx, o->w->done, o->w->total));
    EMBED__TRY(add(o, (const unsigned char *)bytes + at, piece));
    o->w->done += piece;
  }
  return EMBED_OK;
}

static embed_status write_section(output *o, const embed__written_section *s) {
  embed__section_sink sink = {.to = o, .section = s};
  EMBED__TRY(begin(o, EMBED__SECTION_EXTRA, s->bytes >= EMBED__CONTAINER_PAGE ? EMBED__CONTAINER_PAGE : EMBED__CONTAINER_ALIGN, s->name));
  EMBED__TRY(s->source ? s->source(o->ctx, s->arg, &sink) : embed__section_add(o->ctx, &sink, s->data, s->bytes));
  const int64_t given = o->file->written - o->first;
  if (given != s->bytes)
    return embed__fail(o->ctx, EMBED_E_ARGUMENT, -1, "%s: section \"%.80s\" was to have %" PRId64 " bytes, there are %" PRId64, o->w->label, s->name, s->bytes,
                       given);
  end(o);
  return EMBED_OK;
}

static void fill_head(output *o) {
  unsigned char *head = o->directory;
  memcpy(head, EMBED__CONTAINER_MAGIC, 8);
  embed__put_le(head + EMBED__HEAD_MAJOR, EMBED__CONTAINER_MAJOR, 2);
  embed__put_le(head + EMBED__HEAD_MINOR, EMBED__CONTAINER_MINOR, 2);
  embed__put_le(head + EMBED__HEAD_SECTIONS, (uint64_t)o->sections, 4);
  embed__put_le(head + EMBED__HEAD_FILE, (uint64_t)o->file->written, 8);
  embed__put_le(head + EMBED__HEAD_END, (uint64_t)o->end, 8);
  embed__put_le(head + EMBED__HEAD_DIRECTORY_SUM, embed__crc32c_add(&o->crc, 0, head + EMBED__HEAD, o->end - EMBED__HEAD), 4);
  embed__put_le(head + EMBED__HEAD_SUM, embed__crc32c_add(&o->crc, 0, head, EMBED__HEAD_SUM), 4);
}

static embed_status write_embed(embed_context *ctx, embed_writer *w, embed__safe_file *f) {
  output o = {.ctx = ctx, .w = w, .file = f};
  embed__crc32c_init(&o.crc);
  EMBED__TRY(embed__scratch_get(ctx, w->tables.count, sizeof *o.roles, &o.roles));
  memset(o.roles, 0, (size_t)w->tables.count * sizeof *o.roles);
  EMBED__TRY(take_keys(&o));
  EMBED__TRY(measure(&o));
  if (o.metadata) EMBED__TRY(write_metadata(&o));
  if (o.conventions.size) EMBED__TRY(write_conventions(&o));
  if (w->spans.count) EMBED__TRY(write_tokens(&o));
  for (int64_t i = 0; i < w->tables.count; ++i) EMBED__TRY(write_table(&o, i));
  for (int64_t i = 0; i < w->sections.count; ++i) EMBED__TRY(write_section(&o, embed__section(w, i)));
  fill_head(&o);
  return embed__safe_patch(ctx, f, 0, o.directory, o.end);
}

const embed__writer_format embed__writer_embed = {.name = "embed",
                                                  .extensions = ".embed",
                                                  .many = true,
                                                  .pairs = true,
                                                  .tokens = true,
                                                  .strides = true,
                                                  .sections = true,
                                                  .check_table = check_table,
                                                  .write = write_embed};
