/* SPDX-License-Identifier: BSD-3-Clause */
/* GGUF version 3 (ggml, docs/gguf.md): pairs, tensors' names and places, the tensors at multiples of 32. A tied table stands once, as
 * llama.cpp has it; the other name is kept as a string, "tied.NAME" = the table's name.
 *
 * Metadata comes in as text, GGUF's is of many kinds. A pair that the file of the tokens (embed_writer_tokens) has with the same text is
 * copied as it stands there, whatever its kind: so arrays come along that their text only counts. Of other pairs the key tells the kind;
 * what is no number all the same stays a string. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "io/cursor.h"
#include "io/floats.h"
#include "io/writer.h"
#include "vocab/tokens.h"

enum { ALIGNMENT = 32, NAME_BYTES = 63, KEY_BYTES = 65535, MOST = 1 << 30 /* ggml's limits */, BLOCKS = 64 /* ours of ggml's types */ };
enum { U32 = 4, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };
static const char TOKENS[] = "tokenizer.ggml.tokens", OF_TOKENS[] = "tokenizer.ggml.", ARCHITECTURE[] = "general.architecture";

/* By the end of the key, or its beginning where a point ends it. */
static const struct {
  const char *key;
  uint32_t kind;
} kinds[] = {{".embedding_length", U32},
             {".vocab_size", U32},
             {".context_length", U32},
             {".block_count", U32},
             {".feed_forward_length", U32},
             {".attention.head_count", U32},
             {".attention.head_count_kv", U32},
             {".attention.key_length", U32},
             {".attention.value_length", U32},
             {".attention.sliding_window", U32},
             {".rope.dimension_count", U32},
             {"_token_id", U32},
             {"_token_type_count", U32},
             {"general.file_type", U32},
             {".attention.layer_norm_rms_epsilon", F32},
             {".attention.layer_norm_epsilon", F32},
             {".rope.freq_base", F32},
             {".logit_scale", F32},
             {".embedding_scale", F32},
             {".residual_scale", F32},
             {".attention.scale", F32},
             {"_logit_softcapping", F32},
             {"embed.lookup_scale", F32},
             {"embed.logit_scale", F32},
             {"embed.logit_softcap", F32},
             {"embed.norm_epsilon", F32},
             {"embed.norm_flags", U32},
             {"tokenizer.ggml.add_", BOOL}};

static bool ends_in(const char *text, const char *end) {
  const size_t bytes = strlen(text), wanted = strlen(end);
  return bytes >= wanted && strcmp(text + bytes - wanted, end) == 0;
}

static uint32_t kind_of(const char *key) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    if (ends_in(key, kinds[i].key) || (kinds[i].kind == BOOL && strncmp(key, kinds[i].key, strlen(kinds[i].key)) == 0)) return kinds[i].kind;
  return STRING;
}

/* ggml's number, -1 = it has no such type. */
static int type_of(embed_dtype dtype) {
  switch (dtype) {
    case EMBED_F32: return 0;
    case EMBED_F16: return 1;
    case EMBED_F64: return 28;
    case EMBED_BF16: return 30;
    default: return dtype >= BLOCKS && dtype < 2 * BLOCKS ? dtype - BLOCKS : -1;
  }
}

static embed_status check_table(embed_context *ctx, const embed_writer *w, embed__written_table *t) {
  if (type_of(t->dtype) < 0)
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s: gguf has no type for %s rows: ask for f32, f16, q8_0 or another of ggml's, or write an .embed file",
                       w->label, embed__dtype_name(t->dtype));
  if (t->rows == 0) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s: gguf has no tensor without rows", w->label);
  return EMBED_OK;
}

static embed_status check_text(embed_context *ctx, const embed_writer *w, const char *what, const char *text, int64_t bytes) {
  static const char *const own[] = {TOKENS, "general.alignment", "general.quantization_version"};
  const bool name = strcmp(what, "name") == 0, key = strcmp(what, "metadata key") == 0;
  for (size_t i = 0; key && i < sizeof own / sizeof *own; ++i)
    if (strcmp(text, own[i]) == 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: the key \"%s\" is what the writer itself puts down", w->label, text);
  const int64_t most = name ? NAME_BYTES : key ? KEY_BYTES : MOST;
  if (bytes <= most) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: the %s \"%.60s...\" has %" PRId64 " bytes, ggml takes %" PRId64 " at most", w->label, what, text, bytes,
                     most);
}

/* --- Parts */

static embed_status put(embed_context *ctx, embed__safe_file *f, uint64_t number, int width) {
  unsigned char bytes[8];
  embed__put_le(bytes, number, width);
  return embed__safe_write(ctx, f, bytes, width);
}

static embed_status put_string(embed_context *ctx, embed__safe_file *f, const char *text, int64_t bytes) {
  EMBED__TRY(put(ctx, f, (uint64_t)bytes, 8));
  return embed__safe_write(ctx, f, text, bytes);
}

static embed_status put_key(embed_context *ctx, embed__safe_file *f, const char *prefix, const char *key, uint32_t kind) {
  const size_t before = strlen(prefix), bytes = strlen(key);
  EMBED__TRY(put(ctx, f, before + bytes, 8));
  EMBED__TRY(embed__safe_write(ctx, f, prefix, (int64_t)before));
  EMBED__TRY(embed__safe_write(ctx, f, key, (int64_t)bytes));
  return kind ? put(ctx, f, kind, 4) : EMBED_OK; /* 0: the value brings it along */
}

static embed_status put_u32(embed_context *ctx, embed__safe_file *f, const char *key, uint32_t value) {
  EMBED__TRY(put_key(ctx, f, "", key, U32));
  return put(ctx, f, value, 4);
}

static bool whole_number(const embed__written_pair *pair, uint32_t *out) {
  uint64_t number = 0;
  if (pair->value_bytes < 1 || pair->value_bytes > 10) return false;
  for (int64_t i = 0; i < pair->value_bytes; ++i) {
    if (pair->value[i] < '0' || pair->value[i] > '9') return false;
    number = 10 * number + (uint64_t)(pair->value[i] - '0');
  }
  *out = (uint32_t)number;
  return number <= UINT32_MAX;
}

/* The value as its key's kind has it; false: it is no such thing. */
static bool read_value(const embed__written_pair *pair, uint32_t kind, uint32_t *bits, int *width) {
  *width = kind == BOOL ? 1 : 4;
  if (kind == U32) return whole_number(pair, bits);
  if (kind == BOOL) {
    *bits = strcmp(pair->value, "true") == 0;
    return *bits || strcmp(pair->value, "false") == 0;
  }
  const float number = (float)embed__read_number(pair->value, pair->value_bytes);
  memcpy(bits, &number, 4);
  return kind == F32 && !isnan(number);
}

static embed_status put_pair(embed_context *ctx, const embed_writer *w, embed__safe_file *f, const embed__written_pair *pair) {
  const embed__metadata *same = w->source ? embed__file_metadata_find(w->source, pair->key) : NULL;
  if (same && same->raw && same->value_bytes == pair->value_bytes && memcmp(same->value, pair->value, (size_t)pair->value_bytes) == 0) {
    EMBED__TRY(put_key(ctx, f, "", pair->key, 0));
    return embed__safe_write(ctx, f, same->raw, same->raw_bytes);
  }
  const uint32_t kind = kind_of(pair->key);
  uint32_t bits;
  int width;
  if (kind != STRING && read_value(pair, kind, &bits, &width)) {
    EMBED__TRY(put_key(ctx, f, "", pair->key, kind));
    return put(ctx, f, bits, width);
  }
  EMBED__TRY(put_key(ctx, f, "", pair->key, STRING));
  return put_string(ctx, f, pair->value, pair->value_bytes);
}

/* --- What goes with the tokens: scores, types, merges */

static bool has_pair(const embed_writer *w, const char *key) {
  for (int64_t i = 0; i < w->pairs.count; ++i)
    if (!strcmp(embed__pair(&w->pairs, i)->key, key)) return true;
  return false;
}

/* An array of the tokens' file that no pair speaks of. One with a thing for each token goes with exactly those. */
static bool goes_along(const embed_writer *w, const embed__metadata *m) {
  if (!m->raw || embed__le32(m->raw) != ARRAY || strncmp(m->key, OF_TOKENS, sizeof OF_TOKENS - 1) != 0 || !strcmp(m->key, TOKENS)) return false;
  const int64_t count = embed__tokens_count(w->source->tokens);
  return !has_pair(w, m->key) && (embed__le64(m->raw + 8) != (uint64_t)count || w->spans.count == count);
}

/* Puts them down where f is not NULL; *count: how many there are. */
static embed_status put_arrays(embed_context *ctx, const embed_writer *w, embed__safe_file *f, int64_t *count) {
  *count = 0;
  for (int64_t i = 0; w->source && i < w->source->metadata_count; ++i) {
    const embed__metadata *m = &w->source->metadata[i];
    if (!goes_along(w, m)) continue;
    ++*count;
    if (!f) continue;
    EMBED__TRY(put_key(ctx, f, "", m->key, 0));
    EMBED__TRY(embed__safe_write(ctx, f, m->raw, m->raw_bytes));
  }
  return EMBED_OK;
}

static embed_status put_tokens(embed_context *ctx, const embed_writer *w, embed__safe_file *f) {
  const int64_t count = w->spans.count;
  if (count == 0) return EMBED_OK;
  EMBED__TRY(put_key(ctx, f, "", TOKENS, ARRAY));
  EMBED__TRY(put(ctx, f, STRING, 4));
  EMBED__TRY(put(ctx, f, (uint64_t)count, 8));
  for (int64_t id = 0; id < count; ++id) {
    int64_t bytes;
    const char *token = embed__written_token(w, id, &bytes);
    EMBED__TRY(put_string(ctx, f, token, bytes));
  }
  return EMBED_OK;
}

/* --- The file */

static embed_status put_pairs(embed_context *ctx, const embed_writer *w, embed__safe_file *f, bool blocks, bool architecture) {
  if (!architecture) { /* GGUF asks for one; llama.cpp says of this that it does not know it */
    EMBED__TRY(put_key(ctx, f, "", ARCHITECTURE, STRING));
    EMBED__TRY(put_string(ctx, f, "embed", 5));
  }
  for (int own = 1; own >= 0; --own) /* the architecture first, as everywhere */
    for (int64_t i = 0; i < w->pairs.count; ++i)
      if ((strcmp(embed__pair(&w->pairs, i)->key, ARCHITECTURE) == 0) == own) EMBED__TRY(put_pair(ctx, w, f, embed__pair(&w->pairs, i)));
  EMBED__TRY(put_u32(ctx, f, "general.alignment", ALIGNMENT));
  if (blocks) EMBED__TRY(put_u32(ctx, f, "general.quantization_version", 2));
  for (int64_t i = 0; i < w->ties.count; ++i) {
    const embed__written_pair *tie = embed__pair(&w->ties, i);
    EMBED__TRY(put_key(ctx, f, "tied.", tie->key, STRING));
    EMBED__TRY(put_string(ctx, f, tie->value, tie->value_bytes));
  }
  int64_t ignored;
  EMBED__TRY(put_tokens(ctx, w, f));
  return put_arrays(ctx, w, f, &ignored);
}

static embed_status put_tensors(embed_context *ctx, const embed_writer *w, embed__safe_file *f) {
  int64_t place = 0;
  for (int64_t i = 0; i < w->tables.count; ++i) {
    const embed__written_table *t = embed__written(w, i);
    EMBED__TRY(put_string(ctx, f, t->name, (int64_t)strlen(t->name)));
    EMBED__TRY(put(ctx, f, t->table->vector ? 1 : 2, 4));
    EMBED__TRY(put(ctx, f, (uint64_t)t->dim, 8)); /* columns first */
    if (!t->table->vector) EMBED__TRY(put(ctx, f, (uint64_t)t->rows, 8));
    EMBED__TRY(put(ctx, f, (uint64_t)type_of(t->dtype), 4));
    EMBED__TRY(put(ctx, f, (uint64_t)place, 8));
    if (!embed__add(place, t->bytes + (ALIGNMENT - t->bytes % ALIGNMENT) % ALIGNMENT, &place)) return embed__out_of_memory(ctx, -1);
  }
  return EMBED_OK;
}

static embed_status pad(embed_context *ctx, embed__safe_file *f) { return embed__safe_zeros(ctx, f, (ALIGNMENT - f->written % ALIGNMENT) % ALIGNMENT); }

static embed_status write_gguf(embed_context *ctx, embed_writer *w, embed__safe_file *f) {
  const bool architecture = has_pair(w, ARCHITECTURE);
  bool blocks = false;
  int64_t arrays;
  for (int64_t i = 0; i < w->tables.count; ++i) blocks |= embed__written(w, i)->dtype >= BLOCKS;
  EMBED__TRY(embed__written_tokens(ctx, w, w->spans.count));
  EMBED__TRY(put_arrays(ctx, w, NULL, &arrays));
  const int64_t pairs = w->pairs.count + w->ties.count + arrays + !architecture + 1 + blocks + (w->spans.count > 0);
  EMBED__TRY(embed__safe_write(ctx, f, "GGUF", 4));
  EMBED__TRY(put(ctx, f, 3, 4));
  EMBED__TRY(put(ctx, f, (uint64_t)w->tables.count, 8));
  EMBED__TRY(put(ctx, f, (uint64_t)pairs, 8));
  EMBED__TRY(put_pairs(ctx, w, f, blocks, architecture));
  EMBED__TRY(put_tensors(ctx, w, f));
  EMBED__TRY(pad(ctx, f));
  for (int64_t i = 0; i < w->tables.count; ++i) {
    EMBED__TRY(embed__written_rows(ctx, w, embed__written(w, i), embed__rows_to_file, f));
    EMBED__TRY(pad(ctx, f)); /* behind the last too: ggml reads whole multiples */
  }
  return EMBED_OK;
}

const embed__writer_format embed__writer_gguf = {.name = "gguf",
                                                 .extensions = ".gguf",
                                                 .many = true,
                                                 .pairs = true,
                                                 .tokens = true,
                                                 .check_table = check_table,
                                                 .check_text = check_text,
                                                 .write = write_gguf};
