/* SPDX-License-Identifier: BSD-3-Clause */
/* safetensors (github.com/huggingface/safetensors): a 64-bit length, so many bytes of JSON, then the tensors' bytes, which must
 * follow one another without a gap up to the end of the file. The JSON is {name: {dtype, shape, data_offsets}, ...} and, under
 * "__metadata__", strings. Data may begin at any byte: writers pad the header to 8, older ones did not. */
#include "io/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
#include "core/sort.h"
#include "io/byte_order.h"
#include "io/decoded.h"
#include "io/floats.h"
#include "io/format.h"
#include "io/json.h"
#include "io/model2vec.h"

enum { LENGTH = 8, LEAST_HEADER = 2 /* {} */, LEAST_ENTRY = 49 /* "":{"dtype":"U8","shape":[],"data_offsets":[0,0]} */ };

static const struct type {
  const char *name;
  size_t bytes; /* of the name */
  int64_t bits;
  embed_dtype dtype;
} types[] = {
#define TYPE(name, bits, dtype) \
  { name, sizeof name - 1, bits, dtype }
    TYPE("F32", 32, EMBED_F32),
    TYPE("F16", 16, EMBED_F16),
    TYPE("BF16", 16, EMBED_BF16),
    TYPE("F64", 64, EMBED_F64),
    TYPE("BOOL", 8, EMBED_DTYPE_NONE),
    TYPE("U8", 8, EMBED_DTYPE_NONE),
    TYPE("I8", 8, EMBED_DTYPE_NONE),
    TYPE("U16", 16, EMBED_DTYPE_NONE),
    TYPE("I16", 16, EMBED_DTYPE_NONE),
    TYPE("U32", 32, EMBED_DTYPE_NONE),
    TYPE("I32", 32, EMBED_DTYPE_NONE),
    TYPE("U64", 64, EMBED_DTYPE_NONE),
    TYPE("I64", 64, EMBED_DTYPE_NONE),
    TYPE("C64", 64, EMBED_DTYPE_NONE),
    TYPE("F8_E5M2", 8, EMBED_F8_E5M2),
    TYPE("F8_E4M3", 8, EMBED_F8_E4M3),
    TYPE("F8_E8M0", 8, EMBED_DTYPE_NONE),
    TYPE("F8_E4M3FNUZ", 8, EMBED_DTYPE_NONE),
    TYPE("F8_E5M2FNUZ", 8, EMBED_DTYPE_NONE),
    TYPE("F6_E2M3", 6, EMBED_DTYPE_NONE),
    TYPE("F6_E3M2", 6, EMBED_DTYPE_NONE),
    TYPE("F4", 4, EMBED_DTYPE_NONE),
#undef TYPE
};

static uint64_t header_length(const unsigned char *data) { return embed__le32(data) | (uint64_t)embed__le32(data + 4) << 32; }

static bool begins_json(unsigned char c) { return c == '{' || c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool embed__safetensors_probe(const unsigned char *data, int64_t bytes) {
  return bytes > LENGTH && header_length(data) <= UINT32_MAX && begins_json(data[LENGTH]);
}

/* --- The header's entries */

typedef struct reader {
  embed__json json;
  embed_context *ctx;
  const char *label;
  int64_t data, end; /* bytes of the file: where the tensors begin, where it ends */
} reader;

static embed_status of_tensor(const reader *r, embed_status status, const char *name, const char *what) {
  return embed__fail(r->ctx, status, r->json.first, "%s: tensor \"%.100s\" %s at byte %" PRId64, r->label, name, what, r->json.first);
}

static const struct type *find_type(const char *name, size_t bytes) {
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (types[i].bytes == bytes && memcmp(types[i].name, name, bytes) == 0) return &types[i];
  return NULL;
}

static embed_status read_type(reader *r, const char *name, const struct type **type) {
  EMBED__TRY(embed__json_expect(&r->json, EMBED__JSON_STRING, "the name of a type"));
  *type = find_type(r->json.string, (size_t)r->json.string_bytes);
  if (*type) return EMBED_OK;
  return embed__fail(r->ctx, EMBED_E_FORMAT, r->json.first, "%s: tensor \"%.100s\" has the type \"%.40s\" at byte %" PRId64 ", which safetensors does not know",
                     r->label, name, r->json.string, r->json.first);
}

static embed_status read_shape(reader *r, embed__tensor *tensor) {
  embed__json *j = &r->json;
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_ARRAY, "a shape in brackets"));
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_ARRAY_END) return EMBED_OK;
    if (j->kind != EMBED__JSON_INTEGER) return embed__json_expected(j, "an extent");
    if (j->integer < 0) return of_tensor(r, EMBED_E_FORMAT, tensor->name, "has a negative extent");
    if (tensor->rank == EMBED__RANKS) return of_tensor(r, EMBED_E_UNSUPPORTED, tensor->name, "has more than 8 extents");
    tensor->shape[tensor->rank++] = j->integer;
  }
}

static embed_status read_offsets(reader *r, embed__tensor *tensor, int64_t *end) {
  embed__json *j = &r->json;
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_ARRAY, "two offsets in brackets"));
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_INTEGER, "an offset"));
  if (j->integer < 0) return of_tensor(r, EMBED_E_FORMAT, tensor->name, "has a negative offset");
  if (!embed__add(r->data, j->integer, &tensor->offset)) return of_tensor(r, EMBED_E_OVERFLOW, tensor->name, "has an offset that does not fit into 64 bits");
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_INTEGER, "an offset"));
  if (j->integer < 0) return of_tensor(r, EMBED_E_FORMAT, tensor->name, "has a negative offset");
  if (!embed__add(r->data, j->integer, end)) return of_tensor(r, EMBED_E_OVERFLOW, tensor->name, "has an offset that does not fit into 64 bits");
  if (*end < tensor->offset) return of_tensor(r, EMBED_E_FORMAT, tensor->name, "ends before it begins");
  return embed__json_expect(j, EMBED__JSON_ARRAY_END, "the end of the two offsets");
}

/* Its shape and type against its offsets; at: where the entry begins. */
static embed_status check_bytes(const reader *r, embed__tensor *tensor, const struct type *type, int64_t end, int64_t at) {
  int64_t elements = 1, bits;
  bool fits = true;
  for (int32_t i = 0; i < tensor->rank && fits; ++i) fits = embed__mul(elements, tensor->shape[i], &elements);
  if (!fits || !embed__mul(elements, type->bits, &bits))
    return embed__fail(r->ctx, EMBED_E_OVERFLOW, at, "%s: tensor \"%.100s\" at byte %" PRId64 " has a shape whose size does not fit into 64 bits", r->label,
                       tensor->name, at);
  tensor->bytes = end - tensor->offset;
  if (bits % 8)
    return embed__fail(r->ctx, EMBED_E_FORMAT, at, "%s: tensor \"%.100s\" at byte %" PRId64 " has %" PRId64 " bits: no whole number of bytes", r->label,
                       tensor->name, at, bits);
  if (bits / 8 != tensor->bytes)
    return embed__fail(r->ctx, EMBED_E_FORMAT, at, "%s: tensor \"%.100s\" at byte %" PRId64 " has %" PRId64 " bytes by its shape, %" PRId64 " by its offsets",
                       r->label, tensor->name, at, bits / 8, tensor->bytes);
  tensor->stored = type->name;
  tensor->dtype = type->dtype;
  tensor->swapped = embed__is_swapped(type->dtype, false);
  return EMBED_OK;
}

/* --- An entry at sight */

/* Whether this literal stands at *p, which then moves behind it. */
#define PASS(p, end, literal) \
  ((end) - *(p) >= (int64_t)sizeof(literal) - 1 && !memcmp(*(p), literal, sizeof(literal) - 1) && (*(p) += sizeof(literal) - 1, true))

/* At most 18 digits: they fit. Ahead of a NUL. */
static bool pass_number(const char **p, int64_t *number) {
  enum { DIGITS = 18 };
  const char *s = *p;
  int64_t value = 0;
  while (*s >= '0' && *s <= '9' && s - *p < DIGITS) value = value * 10 + (*s++ - '0');
  if (s == *p || (**p == '0' && s - *p > 1)) return false;
  *p = s;
  *number = value;
  return true;
}

static bool pass_shape(const char **p, embed__tensor *tensor) {
  if (**p == ']') return ++*p, true;
  while (tensor->rank < EMBED__RANKS && pass_number(p, &tensor->shape[tensor->rank++])) {
    const char c = *(*p)++;
    if (c == ']') return true;
    if (c != ',') return false;
  }
  return false;
}

/* The entry as every writer of safetensors puts it: {"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}. Reading 300 of them costs a
 * third of what the parser takes. False: it is something else, be it right or wrong, and the parser
 * stands where it stood; tensor, type and end may hold anything. */
static bool read_at_sight(reader *r, embed__tensor *tensor, const struct type **type, int64_t *end) {
  const char *const first = embed__json_ahead(&r->json), *const text_end = r->json.text + r->json.bytes, *p = first;
  if (!PASS(&p, text_end, "{\"dtype\":\"")) return false;
  const char *const name = p;
  while (*p != '"' && *p) ++p;
  *type = find_type(name, (size_t)(p - name));
  if (!*type || !PASS(&p, text_end, "\",\"shape\":[") || !pass_shape(&p, tensor) || !PASS(&p, text_end, ",\"data_offsets\":[")) return false;
  if (!pass_number(&p, &tensor->offset) || *p++ != ',' || !pass_number(&p, end) || !PASS(&p, text_end, "]}") || *end < tensor->offset) return false;
  tensor->offset += r->data; /* fits: it has 18 digits */
  *end += r->data;
  embed__json_took(&r->json, p - first);
  return true;
}

/* --- An entry by the parser */

/* tensor: zeroed. Members that this version does not know are skipped, as the reference reader does. */
static embed_status read_tensor(reader *r, embed__tensor *tensor) {
  embed__json *j = &r->json;
  const struct type *type = NULL;
  bool shape = false, offsets = false;
  const int64_t at = j->first;
  int64_t end = 0;
  tensor->name = j->string;
  if (memchr(j->string, 0, (size_t)j->string_bytes)) return of_tensor(r, EMBED_E_FORMAT, tensor->name, "has a NUL in its name");
  if (read_at_sight(r, tensor, &type, &end)) return check_bytes(r, tensor, type, end, at);
  *tensor = (embed__tensor){.name = tensor->name};
  type = NULL;
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_OBJECT, "a tensor in braces"));
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) break;
    if (embed__json_is(j, "dtype")) {
      EMBED__TRY(read_type(r, tensor->name, &type));
    } else if (embed__json_is(j, "shape") && !shape) {
      EMBED__TRY(read_shape(r, tensor));
      shape = true;
    } else if (embed__json_is(j, "data_offsets") && !offsets) {
      EMBED__TRY(read_offsets(r, tensor, &end));
      offsets = true;
    } else {
      EMBED__TRY(embed__json_skip(j)); /* one that stands twice fails at the end of the object */
    }
  }
  if (!type) return of_tensor(r, EMBED_E_FORMAT, tensor->name, "has no \"dtype\" before its end");
  if (!shape) return of_tensor(r, EMBED_E_FORMAT, tensor->name, "has no \"shape\" before its end");
  if (!offsets) return of_tensor(r, EMBED_E_FORMAT, tensor->name, "has no \"data_offsets\" before its end");
  return check_bytes(r, tensor, type, end, at);
}

/* MLX writes null where there is none. */
static embed_status read_metadata(reader *r, embed_file *f) {
  embed__json *j = &r->json;
  EMBED__TRY(embed__json_next(j));
  if (j->kind == EMBED__JSON_NULL) return EMBED_OK;
  if (j->kind != EMBED__JSON_OBJECT) return embed__json_expected(j, "metadata in braces");
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) return EMBED_OK;
    const char *key = j->string;
    int64_t key_bytes = j->string_bytes;
    EMBED__TRY(embed__json_expect(j, EMBED__JSON_STRING, "a string: metadata holds nothing else"));
    if (f) EMBED__TRY(embed__file_add_metadata(r->ctx, f, key, key_bytes, j->string, j->string_bytes, embed__read_number(j->string, j->string_bytes)));
  }
}

/* Zeroed some at a time: the room for them may be more than a hostile header ever fills. */
static embed__tensor *next_tensor(embed__safetensors *s) {
  enum { TOGETHER = 64 };
  embed__tensor *next = s->tensors + s->count;
  if (s->count % TOGETHER == 0) memset(next, 0, (size_t)embed__min(TOGETHER, s->room - s->count) * sizeof *next);
  ++s->count;
  return next;
}

static embed_status read_entries(reader *r, embed_file *f, embed__safetensors *s) {
  embed__json *j = &r->json;
  EMBED__TRY(embed__json_expect(j, EMBED__JSON_OBJECT, "the tensors in braces"));
  for (;;) {
    EMBED__TRY(embed__json_next(j));
    if (j->kind == EMBED__JSON_OBJECT_END) break;
    if (embed__json_is(j, "__metadata__"))
      EMBED__TRY(read_metadata(r, f));
    else if (s->count == s->room) /* cannot be: each has a brace and a least size, by which there is room */
      return embed__json_expected(j, "no further tensor");
    else {
      s->name_bytes += j->string_bytes;
      EMBED__TRY(read_tensor(r, next_tensor(s)));
    }
  }
  return embed__json_expect(j, EMBED__JSON_END, "blanks behind the tensors");
}

/* --- Where the tensors lie */

/* By the first byte, the shorter first: an empty tensor may stand where another begins. */
static bool before(const embed__tensor *a, const embed__tensor *b) { return a->offset != b->offset ? a->offset < b->offset : a->bytes < b->bytes; }

static bool pointed_before(const void *a, const void *b) { return before(*(const embed__tensor *const *)a, *(const embed__tensor *const *)b); }

static embed_status check_follows(const reader *r, const embed__tensor *tensor, const embed__tensor *last, int64_t next) {
  if (tensor->offset > next)
    return embed__fail(r->ctx, EMBED_E_FORMAT, next, "%s: tensor \"%.100s\" begins at byte %" PRId64 ", the data before it ends at %" PRId64 ": a hole",
                       r->label, tensor->name, tensor->offset, next);
  if (tensor->offset < next) /* then there is a last one */
    return embed__fail(r->ctx, EMBED_E_FORMAT, tensor->offset,
                       "%s: tensor \"%.100s\" begins at byte %" PRId64 ", tensor \"%.100s\" ends at %" PRId64 ": they overlap", r->label, tensor->name,
                       tensor->offset, last ? last->name : "", next);
  return EMBED_OK;
}

static embed_status check_end(const reader *r, const embed__tensor *last, int64_t next) {
  if (next > r->end)
    return embed__fail(r->ctx, EMBED_E_FORMAT, r->end, "%s: tensor \"%.100s\" ends at byte %" PRId64 ", the file at %" PRId64 ": it was cut short", r->label,
                       last ? last->name : "", next, r->end);
  if (next < r->end)
    return embed__fail(r->ctx, EMBED_E_FORMAT, next, "%s: the last tensor ends at byte %" PRId64 ", the file at %" PRId64 ": what lies between is no tensor's",
                       r->label, next, r->end);
  return EMBED_OK;
}

/* order: NULL = as they stand in s. */
static embed_status check_chain(const reader *r, const embed__safetensors *s, const embed__tensor *const *order) {
  const embed__tensor *last = NULL;
  int64_t next = r->data;
  for (int64_t i = 0; i < s->count; ++i) {
    const embed__tensor *tensor = order ? order[i] : &s->tensors[i];
    EMBED__TRY(check_follows(r, tensor, last, next));
    next = tensor->offset + tensor->bytes; /* fits: it was read */
    if (tensor->bytes) last = tensor;
  }
  return check_end(r, last, next);
}

static embed_status check_layout(const reader *r, const embed__safetensors *s) {
  bool ascending = true;
  for (int64_t i = 1; i < s->count && ascending; ++i) ascending = !before(&s->tensors[i], &s->tensors[i - 1]);
  if (ascending) return check_chain(r, s, NULL);
  size_t bytes = (size_t)s->count * sizeof(embed__tensor *);
  const embed__tensor **order = embed__allocate(&r->ctx->memory, bytes, EMBED__ALIGNMENT);
  if (!order) return embed__out_of_memory(r->ctx, (int64_t)bytes);
  for (int64_t i = 0; i < s->count; ++i) order[i] = &s->tensors[i];
  embed__sort(order, s->count, sizeof *order, pointed_before);
  embed_status status = check_chain(r, s, order);
  embed__free(&r->ctx->memory, order, bytes, EMBED__ALIGNMENT);
  return status;
}

/* --- The file */

static embed_status not_safetensors(embed_context *ctx, const char *label, const embed__map *map, const char *why) {
  const char *instead = embed__mistaken_for(map);
  return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: it is not safetensors: %s", label, instead ? instead : why);
}

static embed_status check_length(embed_context *ctx, const embed__map *map, const char *label, const embed_file_options *o, int64_t *length) {
  if (map->bytes < LENGTH + LEAST_HEADER) return not_safetensors(ctx, label, map, "it is shorter than the shortest such file, of 10 bytes");
  uint64_t header = header_length(map->data);
  if (!begins_json(map->data[LENGTH])) return not_safetensors(ctx, label, map, "a header should begin at byte 8, with a brace");
  if (header > (uint64_t)embed__header_limit(o))
    return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: the header has %" PRIu64 " bytes, at most %" PRId64 " are read (max_header)", label, header,
                       embed__header_limit(o));
  *length = (int64_t)header;
  if (*length > map->bytes - LENGTH)
    return embed__fail(ctx, EMBED_E_FORMAT, map->bytes, "%s: the header ends at byte %" PRIu64 ", the file at %" PRId64 ": it was cut short", label,
                       header + LENGTH, map->bytes);
  return EMBED_OK;
}

/* Each tensor has one. */
static int64_t braces(const char *text, int64_t bytes) {
  enum { PIECE = 240 }; /* counts fit into bytes: sixteen of them are added at once */
  int64_t count = 0;
  for (int64_t at = 0; at < bytes; at += PIECE) {
    unsigned char some = 0;
    for (int64_t i = at, end = embed__min(bytes, at + PIECE); i < end; ++i) some = (unsigned char)(some + (text[i] == '{'));
    count += some;
  }
  return count;
}

embed_status embed__safetensors_read(embed_context *ctx, const embed__map *map, const char *label, const embed_file_options *o, embed_file *f,
                                     embed__safetensors *out) {
  reader r = {.ctx = ctx, .label = label, .end = map->bytes};
  int64_t length = 0;
  memset(out, 0, sizeof *out);
  EMBED__TRY(check_length(ctx, map, label, o, &length));
  r.data = LENGTH + length;
  out->text_bytes = length + 1;
  out->text = embed__allocate(&ctx->memory, (size_t)out->text_bytes, EMBED__ALIGNMENT);
  if (!out->text) return embed__out_of_memory(ctx, out->text_bytes);
  memcpy(out->text, map->data + LENGTH, (size_t)length);
  out->text[length] = '\0';
  out->room = embed__min(length / LEAST_ENTRY, braces(out->text, length)) + 1; /* and one more: io/model2vec.c */
  out->tensors = embed__allocate(&ctx->memory, (size_t)out->room * sizeof *out->tensors, EMBED__ALIGNMENT);
  if (!out->tensors) return embed__out_of_memory(ctx, out->room * (int64_t)sizeof *out->tensors);
  embed__json_begin(&r.json, ctx, label, out->text, length, LENGTH);
  embed_status status = read_entries(&r, f, out);
  embed__json_end(&r.json);
  return status == EMBED_OK ? check_layout(&r, out) : status;
}

void embed__safetensors_free(embed_context *ctx, embed__safetensors *s) {
  embed__free(&ctx->memory, s->tensors, (size_t)s->room * sizeof *s->tensors, EMBED__ALIGNMENT);
  embed__free(&ctx->memory, s->text, (size_t)s->text_bytes, EMBED__ALIGNMENT);
  memset(s, 0, sizeof *s);
}

/* The names move into the index, the tensors into the file, the rest of the header goes. */
static embed_status adopt(embed_context *ctx, embed_file *f, embed__safetensors *s) {
  int64_t ignored;
  EMBED__TRY(embed__tokens_new(ctx, s->count, s->name_bytes, &f->names));
  for (int64_t i = 0; i < s->count; ++i) embed__tokens_append(f->names, s->tensors[i].name, (int64_t)strlen(s->tensors[i].name));
  embed__tokens_index(f->names);
  for (int64_t i = 0; i < s->count; ++i) s->tensors[i].name = embed__tokens_get(f->names, i, &ignored);
  f->tensors = s->tensors;
  f->tensor_count = s->count;
  f->tensor_room = s->room;
  s->tensors = NULL;
  s->room = 0;
  return EMBED_OK;
}

embed_status embed__safetensors_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  embed__safetensors s;
  embed_status status = embed__safetensors_read(ctx, &f->map, f->label, o, f, &s);
  if (status == EMBED_OK) status = embed__model2vec_extend(ctx, f, &s);
  if (status == EMBED_OK) status = adopt(ctx, f, &s);
  if (status == EMBED_OK) status = embed__find_scales(ctx, f);
  embed__safetensors_free(ctx, &s);
  return status;
}
