/* SPDX-License-Identifier: BSD-3-Clause */
/* GGUF, versions 2 and 3 (ggml, docs/gguf.md): key-value pairs, then each tensor's name, extents (columns first), type and
 * place, then the numbers, each tensor at a multiple of the alignment. The header is walked once and everything in it
 * proved; nothing is allocated by a count that the bytes behind it have no room for. Choices: what can be looked up by name
 * (keys, tensors) stands once and is a C string; a tensor of any ggml type has a place, a table needs a codec; scores and
 * types of tokens are proved and passed over; nested arrays are refused; files of machines of either byte order are read. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "io/byte_order.h"
#include "io/decoded.h"
#include "io/format.h"
#include "io/text.h"

enum {
  MOST = 1 << 30, /* bytes of a string, elements of an array, pairs, tensors: ggml's limits */
  KEY_BYTES = 65535,
  NAME_BYTES = 64, /* of a tensor */
  RANK = 4,
  LISTED = 16, /* elements of an array that its text shows */
  ALIGNMENT = 32,
  LEAST_ALIGNMENT = 8,          /* GGUF's text asks for a multiple of it; ggml takes any power of two */
  LEAST_PAIR = 8 + 1 + 4 + 1,   /* length, key, kind, value */
  LEAST_TENSOR = 8 + 4 + 4 + 8, /* length, rank, type, place */
  FIRST_PAIR = 24
};

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, KINDS };
static const uint8_t widths[KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* bytes, 0 = they vary */

typedef struct stored_type {
  const char *name; /* NULL = ggml has removed it */
  int32_t block, bytes;
} stored_type;

/* By ggml's number. A tensor of any of them has a place in the file, whether a table can have its type or not. */
static const stored_type types[] = {
    {"F32", 1, 4},       {"F16", 1, 2},      {"Q4_0", 32, 18},     {"Q4_1", 32, 20},    {NULL, 0, 0},         {NULL, 0, 0},       {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},    {"Q8_0", 32, 34},   {"Q8_1", 32, 36},     {"Q2_K", 256, 84},   {"Q3_K", 256, 110},   {"Q4_K", 256, 144}, {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},  {"Q8_K", 256, 292}, {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74}, {"IQ3_XXS", 256, 98}, {"IQ1_S", 256, 50}, {"IQ4_NL", 32, 18},
    {"IQ3_S", 256, 110}, {"IQ2_S", 256, 82}, {"IQ4_XS", 256, 136}, {"I8", 1, 1},        {"I16", 1, 2},        {"I32", 1, 4},      {"I64", 1, 8},
    {"F64", 1, 8},       {"IQ1_M", 256, 56}, {"BF16", 1, 2},       {NULL, 0, 0},        {NULL, 0, 0},         {NULL, 0, 0},       {"TQ1_0", 256, 54},
    {"TQ2_0", 256, 66},  {NULL, 0, 0},       {NULL, 0, 0},         {NULL, 0, 0},        {"MXFP4", 32, 17},    {"NVFP4", 64, 36},  {"Q1_0", 128, 18},
    {"Q2_0", 64, 18},
};
enum { TYPES = sizeof types / sizeof *types };

typedef struct reader {
  embed_context *ctx;
  embed_file *f;
  const unsigned char *data;
  int64_t at, end; /* end: of the file, or of what the caller allows the header */
  int64_t tensors, pairs, alignment;
  bool big_endian;                             /* the file; its numbers and its scales alike */
  int64_t tokens_at, token_count, token_bytes; /* the first token's length field; 0 = no tokens */
} reader;

typedef struct string {
  const char *bytes;
  int64_t count;
} string;

#define MALFORMED(r, at, ...) embed__fail((r)->ctx, EMBED_E_FORMAT, (at), __VA_ARGS__)

static inline uint64_t load(const reader *r, const unsigned char *p, int32_t width) {
  if (r->big_endian) {
    uint64_t value = 0;
    for (int32_t i = 0; i < width; ++i) value = value << 8 | p[i];
    return value;
  }
  if (width == 8) return embed__le32(p) | (uint64_t)embed__le32(p + 4) << 32;
  if (width == 4) return embed__le32(p);
  return width == 2 ? embed__le16(p) : *p;
}

static embed_status cut_short(const reader *r, const char *what, int64_t at, int64_t end) {
  const char *label = r->f->label;
  if (r->end < r->f->map.bytes)
    return MALFORMED(r, r->end, "%s: %s at byte %" PRId64 " ends at byte %" PRId64 " at the earliest, the header may have %" PRId64 " bytes", label, what, at,
                     end, r->end);
  return MALFORMED(r, r->end, "%s: %s at byte %" PRId64 " ends at byte %" PRId64 " at the earliest, the file at %" PRId64 ": it was cut short", label, what, at,
                   end, r->end);
}

/* That many bytes more of the header. */
static embed_status need(const reader *r, int64_t bytes, const char *what) {
  return bytes <= r->end - r->at ? EMBED_OK : cut_short(r, what, r->at, r->at + bytes);
}

static embed_status read_number(reader *r, int32_t width, const char *what, uint64_t *out) {
  EMBED__TRY(need(r, width, what));
  *out = load(r, r->data + r->at, width);
  r->at += width;
  return EMBED_OK;
}

/* The count before things of at least `least` bytes each, for all of which there is room. */
static embed_status read_count(reader *r, int64_t least, const char *what, int64_t *out) {
  const int64_t start = r->at;
  uint64_t count = 0;
  EMBED__TRY(read_number(r, 8, what, &count));
  if (count > MOST) return MALFORMED(r, start, "%s: %s at byte %" PRId64 " counts %" PRIu64 ", at most %d may be", r->f->label, what, start, count, MOST);
  *out = (int64_t)count;
  return *out * least <= r->end - r->at ? EMBED_OK : cut_short(r, what, start, r->at + *out * least);
}

static embed_status read_string(reader *r, const char *what, string *out) {
  out->count = 0;
  EMBED__TRY(read_count(r, 1, what, &out->count));
  out->bytes = (const char *)r->data + r->at;
  r->at += out->count;
  return EMBED_OK;
}

/* Keys and names are looked up as C strings, and each stands once. */
static embed_status read_name(reader *r, const char *what, int64_t most, embed__tokens *seen, string *out) {
  const int64_t start = r->at;
  EMBED__TRY(read_string(r, what, out));
  const int shown = (int)embed__min(out->count, NAME_BYTES);
  if (out->count > most)
    return MALFORMED(r, start, "%s: %s \"%.*s...\" at byte %" PRId64 " has %" PRId64 " bytes, at most %" PRId64 " may be", r->f->label, what, shown, out->bytes,
                     start, out->count, most);
  if (memchr(out->bytes, 0, (size_t)out->count)) return MALFORMED(r, start, "%s: %s at byte %" PRId64 " has a byte 0 in it", r->f->label, what, start);
  embed__tokens_add(seen, out->bytes, out->count);
  if (embed__tokens_repeated(seen))
    return MALFORMED(r, start, "%s: %s \"%.*s\" at byte %" PRId64 " stands there a second time", r->f->label, what, shown, out->bytes, start);
  return EMBED_OK;
}

static bool is(const string *s, const char *name) { return s->count == (int64_t)strlen(name) && memcmp(s->bytes, name, (size_t)s->count) == 0; }

static int64_t to_signed(uint64_t value, int32_t width) {
  const uint64_t sign = (uint64_t)1 << (8 * width - 1);
  return (int64_t)((value ^ sign) - sign);
}

/* An element that stands at p: as text, and as a number. */
static double show(const reader *r, embed__text *t, uint64_t kind, const unsigned char *p) {
  const int32_t width = widths[kind];
  const uint64_t bits = load(r, p, width);
  float narrow;
  double wide;
  switch (kind) {
    case BOOL: embed__text_add(t, bits ? "true" : "false"); return (double)bits;
    case U8:
    case U16:
    case U32:
    case U64: embed__text_unsigned(t, bits); return (double)bits;
    case F32:
      memcpy(&narrow, &(uint32_t){(uint32_t)bits}, 4);
      embed__text_real(t, (double)narrow);
      return (double)narrow;
    case F64:
      memcpy(&wide, &bits, 8);
      embed__text_real(t, wide);
      return wide;
    default: embed__text_number(t, to_signed(bits, width)); return (double)to_signed(bits, width);
  }
}

static embed_status check_kind(const reader *r, const string *key, uint64_t kind) {
  if (kind < KINDS) return EMBED_OK;
  return MALFORMED(r, r->at - 4, "%s: the value of key \"%.*s\" at byte %" PRId64 " is of kind %" PRIu64 ", the kinds are 0 to %d", r->f->label,
                   (int)embed__min(key->count, NAME_BYTES), key->bytes, r->at - 4, kind, KINDS - 1);
}

/* Hundreds of thousands of strings stand in a row, and where one begins only the one before it tells: p alone is what a step waits for. */
static embed_status check_strings(reader *r, int64_t count, int64_t *bytes) {
  enum { AHEAD = 2048 /* bytes: the processor's own prefetching ends with each page */ };
  const unsigned char *const first = r->data + r->at, *const end = r->data + r->end, *p = first;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t length = end - p >= 8 ? load(r, p, 8) : UINT64_MAX;
    if (length > MOST || (int64_t)length > end - p - 8) {
      string s;
      r->at = p - r->data;
      return read_string(r, "a string of an array", &s); /* says what is wrong */
    }
    p += 8 + length;
    __builtin_prefetch((const void *)((uintptr_t)p + AHEAD));
  }
  r->at = p - r->data;
  *bytes = p - first - 8 * count;
  return EMBED_OK;
}

/* Walks `count` elements; bools are 0 or 1. */
static embed_status check_elements(reader *r, uint64_t kind, int64_t count, int64_t *string_bytes) {
  *string_bytes = 0;
  if (kind == STRING) return check_strings(r, count, string_bytes);
  for (int64_t i = 0; kind == BOOL && i < count; ++i)
    if (r->data[r->at + i] > 1) return MALFORMED(r, r->at + i, "%s: the bool at byte %" PRId64 " is %d", r->f->label, r->at + i, r->data[r->at + i]);
  r->at += count * widths[kind];
  return EMBED_OK;
}

static embed_status read_array(reader *r, const string *key) {
  char room[LISTED * 32];
  embed__text text = embed__text_in(room, sizeof room);
  uint64_t kind = 0;
  int64_t count, bytes;
  EMBED__TRY(read_number(r, 4, "the kind of an array", &kind));
  EMBED__TRY(check_kind(r, key, kind));
  if (kind == ARRAY)
    return embed__fail(r->ctx, EMBED_E_UNSUPPORTED, r->at - 4, "%s: the value of key \"%.*s\" at byte %" PRId64 " is an array of arrays; ggml reads none",
                       r->f->label, (int)embed__min(key->count, NAME_BYTES), key->bytes, r->at - 4);
  EMBED__TRY(read_count(r, kind == STRING ? 8 : widths[kind], "an array", &count));
  const int64_t first = r->at;
  EMBED__TRY(check_elements(r, kind, count, &bytes));
  if (is(key, "tokenizer.ggml.tokens") && kind == STRING) {
    r->tokens_at = first;
    r->token_count = count;
    r->token_bytes = bytes;
  }
  embed__text_add(&text, "[");
  if (kind == STRING || count > LISTED) {
    embed__text_number(&text, count);
    embed__text_add(&text, kind == STRING ? " strings" : kind == BOOL ? " bools" : " numbers");
  } else
    for (int64_t i = 0; i < count; ++i) {
      if (i) embed__text_add(&text, ", ");
      (void)show(r, &text, kind, r->data + first + i * widths[kind]);
    }
  embed__text_add(&text, "]");
  return embed__file_add_metadata(r->ctx, r->f, key->bytes, key->count, room, text.at - room, (double)NAN);
}

static embed_status read_alignment(reader *r, uint64_t kind, int64_t at) {
  const uint64_t value = kind == U32 ? load(r, r->data + at, 4) : 0;
  if (kind != U32 || value == 0 || (value & (value - 1)) != 0 || value > MOST)
    return MALFORMED(r, kind == U32 ? at : at - 4, "%s: general.alignment is %s%" PRIu64 ", it is a power of two of kind 4, at most %d", r->f->label,
                     kind == U32 ? "" : "of kind ", kind == U32 ? value : kind, MOST);
  r->alignment = (int64_t)value;
  if (r->alignment >= LEAST_ALIGNMENT) return EMBED_OK;
  return embed__file_note(r->ctx, r->f, r->alignment, "bytes is the alignment of tensors, GGUF asks for a multiple of 8");
}

static embed_status read_value(reader *r, const string *key, uint64_t kind) {
  char room[40];
  embed__text text = embed__text_in(room, sizeof room);
  int64_t ignored;
  string s;
  if (kind == ARRAY) return read_array(r, key);
  if (kind == STRING) {
    EMBED__TRY(read_string(r, "the string of a key", &s));
    return embed__file_add_metadata(r->ctx, r->f, key->bytes, key->count, s.bytes, s.count, (double)NAN);
  }
  EMBED__TRY(need(r, widths[kind], "the value of a key"));
  EMBED__TRY(check_elements(r, kind, 1, &ignored));
  const double number = show(r, &text, kind, r->data + r->at - widths[kind]);
  return embed__file_add_metadata(r->ctx, r->f, key->bytes, key->count, room, text.at - room, number);
}

static embed_status read_pair(reader *r, embed__tokens *keys) {
  const int64_t start = r->at;
  uint64_t kind = 0;
  string key;
  EMBED__TRY(read_name(r, "key", KEY_BYTES, keys, &key));
  if (key.count == 0) return MALFORMED(r, start, "%s: the key at byte %" PRId64 " is empty", r->f->label, start);
  EMBED__TRY(read_number(r, 4, "the kind of a value", &kind));
  EMBED__TRY(check_kind(r, &key, kind));
  const int64_t value = r->at;
  EMBED__TRY(read_value(r, &key, kind));
  if (!r->big_endian) {
    embed__metadata *added = &r->f->metadata[r->f->metadata_count - 1];
    added->raw = r->data + value - 4;
    added->raw_bytes = r->at - value + 4;
  }
  if (is(&key, "general.alignment")) return read_alignment(r, kind, value);
  if (is(&key, "tokenizer.ggml.tokens") && r->tokens_at == 0)
    return MALFORMED(r, value - 4, "%s: tokenizer.ggml.tokens at byte %" PRId64 " is no array of strings", r->f->label, value - 4);
  return EMBED_OK;
}

/* Of a known type: ours where a table can have it. */
static embed_dtype dtype_of(uint64_t type) {
  switch (type) {
    case 0: return EMBED_F32;
    case 1: return EMBED_F16;
    case 28: return EMBED_F64;
    case 30: return EMBED_BF16;
    default: return embed__dtype_find(64 + (embed_dtype)type) ? 64 + (embed_dtype)type : EMBED_DTYPE_NONE; /* as types.h numbers blocks */
  }
}

static embed_status read_shape(reader *r, const string *name, embed__tensor *t) {
  uint64_t rank = 0, extent = 0;
  EMBED__TRY(read_number(r, 4, "the rank of a tensor", &rank));
  if (rank > RANK)
    return embed__fail(r->ctx, EMBED_E_UNSUPPORTED, r->at - 4, "%s: tensor \"%.*s\" has %" PRIu64 " extents, ggml's have at most %d", r->f->label,
                       (int)name->count, name->bytes, rank, RANK);
  t->rank = (int32_t)rank;
  for (int32_t j = t->rank - 1; j >= 0; --j) { /* columns first in the file */
    EMBED__TRY(read_number(r, 8, "an extent of a tensor", &extent));
    if (extent == 0 || extent > INT64_MAX)
      return embed__fail(r->ctx, extent ? EMBED_E_OVERFLOW : EMBED_E_FORMAT, r->at - 8, "%s: extent %d of tensor \"%.*s\" at byte %" PRId64 " is %" PRIu64,
                         r->f->label, t->rank - 1 - j, (int)name->count, name->bytes, r->at - 8, extent);
    t->shape[j] = (int64_t)extent;
  }
  return EMBED_OK;
}

/* The type at r->at - 4 is known and cuts the columns into whole blocks; t->bytes. */
static embed_status check_type(const reader *r, const string *name, uint64_t type, embed__tensor *t) {
  const int64_t at = r->at - 4, columns = t->rank ? t->shape[t->rank - 1] : 1;
  int64_t elements = 1;
  if (type >= TYPES || !types[type].name)
    return embed__fail(r->ctx, EMBED_E_UNSUPPORTED, at, "%s: tensor \"%.*s\" is stored as ggml's type %" PRIu64 ", which %s", r->f->label, (int)name->count,
                       name->bytes, type, type < TYPES ? "ggml has removed" : "this version does not know");
  if (columns % types[type].block)
    return MALFORMED(r, at, "%s: tensor \"%.*s\" has %" PRId64 " columns, blocks of %s have %d", r->f->label, (int)name->count, name->bytes, columns,
                     types[type].name, types[type].block);
  bool fits = true;
  for (int32_t j = 0; j < t->rank; ++j) fits = fits && embed__mul(elements, t->shape[j], &elements);
  if (!fits || !embed__mul(elements / types[type].block, types[type].bytes, &t->bytes))
    return embed__fail(r->ctx, EMBED_E_OVERFLOW, at, "%s: the size of tensor \"%.*s\" does not fit into 64 bits", r->f->label, (int)name->count, name->bytes);
  t->stored = types[type].name;
  t->dtype = dtype_of(type);
  t->swapped = embed__is_swapped(t->dtype, r->big_endian);
  return EMBED_OK;
}

static bool pad(int64_t bytes, int64_t alignment, int64_t *out) {
  if (!embed__add(bytes, alignment - 1, out)) return false;
  *out &= -alignment;
  return true;
}

/* *place: where the tensor must lie behind the header, then where the next one must. */
static embed_status read_tensor(reader *r, int64_t i, int64_t *place) {
  embed__tensor *t = &r->f->tensors[i];
  uint64_t type = 0, offset = 0;
  string name;
  EMBED__TRY(read_name(r, "tensor", NAME_BYTES, r->f->names, &name));
  t->name = embed__tokens_get(r->f->names, i, &name.count);
  EMBED__TRY(read_shape(r, &name, t));
  EMBED__TRY(read_number(r, 4, "the type of a tensor", &type));
  EMBED__TRY(check_type(r, &name, type, t));
  EMBED__TRY(read_number(r, 8, "the place of a tensor", &offset));
  if (offset != (uint64_t)*place)
    return MALFORMED(r, r->at - 8, "%s: tensor \"%.*s\" lies at offset %" PRIu64 ", the padded sizes of those before it add up to %" PRId64, r->f->label,
                     (int)name.count, name.bytes, offset, *place);
  t->offset = *place;
  if (!embed__add(*place, t->bytes, place) || !pad(*place, r->alignment, place))
    return embed__fail(r->ctx, EMBED_E_OVERFLOW, r->at - 8, "%s: the size of the tensors up to \"%.*s\" does not fit into 64 bits", r->f->label,
                       (int)name.count, name.bytes);
  return EMBED_OK;
}

static embed_status check_magic(embed_context *ctx, const embed_file *f) {
  static const char *const old[] = {"lmggGGML", "fmggGGMF", "tjggGGJT", "alggGGLA"};
  const unsigned char *data = f->map.data;
  for (size_t i = 0; i < sizeof old / sizeof *old; ++i)
    if (f->map.bytes >= 4 && memcmp(data, old[i], 4) == 0)
      return embed__fail(ctx, EMBED_E_UNSUPPORTED, 0, "%s: it is a %s file, older than GGUF: convert it with the tools of its time", f->label, old[i] + 4);
  if (memcmp(data, "GGUF", (size_t)embed__min(4, f->map.bytes))) return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: it does not begin with GGUF", f->label);
  return EMBED_OK;
}

static embed_status read_start(reader *r) {
  uint64_t version = 0;
  EMBED__TRY(check_magic(r->ctx, r->f));
  EMBED__TRY(need(r, 4, "the magic"));
  r->at = 4;
  EMBED__TRY(read_number(r, 4, "the version", &version));
  if (version && (version & 0xFFFF) == 0) { /* big-endian files have the same magic: the version alone tells */
    r->big_endian = true;
    version = __builtin_bswap32((uint32_t)version);
  }
  if (version != 2 && version != 3)
    return embed__fail(r->ctx, EMBED_E_UNSUPPORTED, 4, "%s: it is GGUF version %" PRIu64 ", versions 2 and 3 are read", r->f->label, version);
  EMBED__TRY(read_count(r, LEAST_TENSOR, "the list of tensors", &r->tensors));
  EMBED__TRY(read_count(r, LEAST_PAIR, "the list of keys", &r->pairs));
  return EMBED_OK;
}

static embed_status read_pairs(reader *r) {
  embed__tokens *keys;
  EMBED__TRY(embed__tokens_new(r->ctx, r->pairs, embed__min(r->pairs * KEY_BYTES, r->end - r->at), &keys));
  embed_status status = EMBED_OK;
  for (int64_t i = 0; i < r->pairs && status == EMBED_OK; ++i) status = read_pair(r, keys);
  embed__tokens_free(keys);
  return status;
}

static embed_status read_tensors(reader *r) {
  int64_t place = 0, start;
  EMBED__TRY(embed__tokens_new(r->ctx, r->tensors, embed__min(r->tensors * NAME_BYTES, r->end - r->at), &r->f->names));
  EMBED__TRY(embed__file_tensors(r->ctx, r->f, r->tensors));
  for (int64_t i = 0; i < r->tensors; ++i) EMBED__TRY(read_tensor(r, i, &place));
  if (!pad(r->at, r->alignment, &start) || !embed__add(start, place, &place))
    return embed__fail(r->ctx, EMBED_E_OVERFLOW, r->at, "%s: the size of the tensors does not fit into 64 bits", r->f->label);
  for (int64_t i = 0; i < r->tensors; ++i) {
    embed__tensor *t = &r->f->tensors[i];
    t->offset += start;
    if (t->offset + t->bytes > r->f->map.bytes)
      return MALFORMED(r, r->f->map.bytes, "%s: tensor \"%s\" ends at byte %" PRId64 ", the file at %" PRId64 ": it was cut short", r->f->label, t->name,
                       t->offset + t->bytes, r->f->map.bytes);
  }
  if (r->f->map.bytes > place) return embed__file_note(r->ctx, r->f, r->f->map.bytes - place, "bytes lie behind the last tensor");
  return EMBED_OK;
}

static embed_status build_tokens(reader *r) {
  embed_file *f = r->f;
  if (r->tokens_at == 0) return EMBED_OK;
  EMBED__TRY(embed__tokens_new(r->ctx, r->token_count, r->token_bytes, &f->tokens));
  embed__tokens_append_row(f->tokens, r->data + r->tokens_at, r->token_count, r->big_endian, r->data + f->map.bytes);
  embed__tokens_index(f->tokens);
  int64_t repeated = embed__tokens_repeated(f->tokens), empty = embed__tokens_empty(f->tokens);
  if (repeated) EMBED__TRY(embed__file_note(r->ctx, f, repeated, "tokens repeat an earlier one: the lowest id owns it"));
  if (empty) EMBED__TRY(embed__file_note(r->ctx, f, empty, "tokens are empty"));
  return EMBED_OK;
}

static embed_status note_parts(reader *r) {
  const embed__metadata *parts = embed__file_metadata_find(r->f, "split.count");
  if (!parts || !(parts->number > 1) || parts->number > MOST) return EMBED_OK;
  return embed__file_note(r->ctx, r->f, (int64_t)parts->number, "files make up this model: only this one's tensors are here");
}

bool embed__gguf_probe(const unsigned char *data, int64_t bytes) {
  static const char magics[][5] = {"GGUF", "lmgg", "fmgg", "tjgg", "algg"};
  for (size_t i = 0; bytes >= 4 && i < sizeof magics / sizeof *magics; ++i)
    if (memcmp(data, magics[i], 4) == 0) return true;
  return false;
}

embed_status embed__gguf_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  reader r = {.ctx = ctx, .f = f, .data = f->map.data, .alignment = ALIGNMENT};
  r.end = embed__min(f->map.bytes, embed__header_limit(o));
  EMBED__TRY(read_start(&r));
  EMBED__TRY(read_pairs(&r));
  EMBED__TRY(read_tensors(&r));
  EMBED__TRY(build_tokens(&r));
  EMBED__TRY(note_parts(&r));
  EMBED__TRY(embed__find_nvfp4_scales(ctx, f));
  if (f->tensor_count == 0) embed__map_close(&f->memory, &f->map); /* nothing refers to the file any more */
  return EMBED_OK;
}
