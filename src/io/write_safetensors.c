/* SPDX-License-Identifier: BSD-3-Clause */
/* safetensors: eight bytes of header length, a JSON header, the tensors one behind the other. Wider types come first, so that
 * every tensor starts at a multiple of its element's size; the header is filled with blanks up to a multiple of 64 for that.
 * A tied table stands once; the other name is kept as metadata, "tied.NAME" = the table's name. */
#include <string.h>

#include "io/text.h"
#include "io/writer.h"

static const struct type {
  embed_dtype dtype;
  const char *name;
  int64_t width;
} types[] = {{EMBED_F64, "F64", 8},   {EMBED_F32, "F32", 4},         {EMBED_F16, "F16", 2},
             {EMBED_BF16, "BF16", 2}, {EMBED_F8_E4M3, "F8_E4M3", 1}, {EMBED_F8_E5M2, "F8_E5M2", 1}};

static const struct type *type_of(embed_dtype dtype) {
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (types[i].dtype == dtype) return &types[i];
  return NULL;
}

static embed_status check_table(embed_context *ctx, const embed_writer *w, embed__written_table *t) {
  if (type_of(t->dtype)) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1,
                     "%s: safetensors has no type for %s rows: ask for f32, f16, bf16, f64, f8_e4m3 or f8_e5m2, or write an .embed file", w->label,
                     embed__dtype_name(t->dtype));
}

static embed_status check_text(embed_context *ctx, const embed_writer *w, const char *what, const char *text, int64_t bytes) {
  if (bytes == 12 && !memcmp(text, "__metadata__", 12) && !strcmp(what, "name"))
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: \"__metadata__\" is no name that safetensors leaves to tensors", w->label);
  return embed__written_utf8(ctx, w, what, text, bytes);
}

/* Written twice: once to be counted (file NULL), once to the file. */
typedef struct output {
  embed_context *ctx;
  embed__safe_file *file;
  int64_t count;
} output;

static embed_status put(output *o, const char *text, int64_t bytes) {
  o->count += bytes;
  return o->file ? embed__safe_write(o->ctx, o->file, text, bytes) : EMBED_OK;
}

static embed_status put_text(output *o, const char *text) { return put(o, text, (int64_t)strlen(text)); }

static embed_status put_string(output *o, const char *prefix, const char *text, int64_t bytes) {
  static const char digits[] = "0123456789abcdef";
  EMBED__TRY(put_text(o, "\""));
  EMBED__TRY(put_text(o, prefix));
  for (int64_t first = 0, at = 0; first < bytes; first = ++at) {
    while (at < bytes && (unsigned char)text[at] >= ' ' && text[at] != '"' && text[at] != '\\') ++at;
    EMBED__TRY(put(o, text + first, at - first));
    if (at == bytes) break;
    const char escape[] = {'\\', 'u', '0', '0', digits[(unsigned char)text[at] >> 4], digits[text[at] & 15]};
    EMBED__TRY(put(o, escape, sizeof escape));
  }
  return put_text(o, "\"");
}

static embed_status put_pairs(output *o, const char *prefix, const embed__list *pairs, bool *first) {
  for (int64_t i = 0; i < pairs->count; ++i) {
    const embed__written_pair *pair = embed__pair(pairs, i);
    EMBED__TRY(put_text(o, *first ? "" : ","));
    EMBED__TRY(put_string(o, prefix, pair->key, (int64_t)strlen(pair->key)));
    EMBED__TRY(put_text(o, ":"));
    EMBED__TRY(put_string(o, "", pair->value, pair->value_bytes));
    *first = false;
  }
  return EMBED_OK;
}

static embed_status put_tensor(output *o, const embed__written_table *t, int64_t begin) {
  char numbers[160];
  embed__text text = embed__text_in(numbers, sizeof numbers);
  EMBED__TRY(put_text(o, ","));
  EMBED__TRY(put_string(o, "", t->name, (int64_t)strlen(t->name)));
  embed__text_add(&text, ":{\"dtype\":\"");
  embed__text_add(&text, type_of(t->dtype)->name);
  embed__text_add(&text, "\",\"shape\":");
  if (t->table->vector)
    embed__text_shape(&text, &t->dim, 1);
  else
    embed__text_shape(&text, (const int64_t[]){t->rows, t->dim}, 2);
  embed__text_add(&text, ",\"data_offsets\":");
  embed__text_shape(&text, (const int64_t[]){begin, begin + t->bytes}, 2);
  embed__text_add(&text, "}");
  return put_text(o, numbers);
}

/* "format": "pt" is what transformers looks for before it loads a file. */
static embed_status put_header(output *o, const embed_writer *w) {
  bool first = true, format = false;
  int64_t begin = 0;
  for (int64_t i = 0; i < w->pairs.count; ++i) format |= !strcmp(embed__pair(&w->pairs, i)->key, "format");
  EMBED__TRY(put_text(o, "{\"__metadata__\":{"));
  if (!format) EMBED__TRY(put_text(o, "\"format\":\"pt\""));
  first = format;
  EMBED__TRY(put_pairs(o, "", &w->pairs, &first));
  EMBED__TRY(put_pairs(o, "tied.", &w->ties, &first));
  EMBED__TRY(put_text(o, "}"));
  for (int64_t width = 8; width >= 1; width /= 2)
    for (int64_t i = 0; i < w->tables.count; ++i) {
      const embed__written_table *t = embed__written(w, i);
      if (type_of(t->dtype)->width != width) continue;
      EMBED__TRY(put_tensor(o, t, begin));
      begin += t->bytes;
    }
  return put_text(o, "}");
}

static embed_status write_safetensors(embed_context *ctx, embed_writer *w, embed__safe_file *f) {
  enum { LENGTH = 8, ALIGN = 64 };
  output counted = {.ctx = ctx}, written = {.ctx = ctx, .file = f};
  unsigned char length[LENGTH];
  EMBED__TRY(put_header(&counted, w));
  const int64_t whole = (LENGTH + counted.count + ALIGN - 1) / ALIGN * ALIGN, header = whole - LENGTH;
  for (int i = 0; i < LENGTH; ++i) length[i] = (unsigned char)((uint64_t)header >> (8 * i));
  EMBED__TRY(embed__safe_write(ctx, f, length, LENGTH));
  EMBED__TRY(put_header(&written, w));
  for (int64_t at = counted.count; at < header; ++at) EMBED__TRY(embed__safe_write(ctx, f, " ", 1));
  for (int64_t width = 8; width >= 1; width /= 2)
    for (int64_t i = 0; i < w->tables.count; ++i)
      if (type_of(embed__written(w, i)->dtype)->width == width) EMBED__TRY(embed__written_rows(ctx, w, embed__written(w, i), embed__rows_to_file, f));
  return EMBED_OK;
}

const embed__writer_format embed__writer_safetensors = {.name = "safetensors",
                                                        .extensions = ".safetensors",
                                                        .many = true,
                                                        .pairs = true,
                                                        .check_table = check_table,
                                                        .check_text = check_text,
                                                        .write = write_safetensors};
