/* SPDX-License-Identifier: BSD-3-Clause */
/* NumPy's array file (numpy/lib/format.py): 93 "NUMPY", version, header length, a Python dict as text, then the elements.
 * The dict is read by a grammar that knows its three keys and nothing else; nothing is ever evaluated or unpickled. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "io/format.h"
#include "io/npy.h"

static const unsigned char MAGIC[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
enum { MAGIC_BYTES = sizeof MAGIC, NUMPY_LIMIT = 10000 /* bytes of header that numpy reads */ };
_Static_assert(EMBED__NPY_HEADER == MAGIC_BYTES + 6 + NUMPY_LIMIT, "the longest header with what stands in front of it");

bool embed__npy_probe(const unsigned char *data, int64_t bytes) { return bytes >= MAGIC_BYTES && memcmp(data, MAGIC, MAGIC_BYTES) == 0; }

/* The text of the dict and the place in it. */
typedef struct cursor {
  embed_context *ctx;
  embed_file *f;
  const char *label;
  const unsigned char *data; /* the file */
  int64_t first, size;       /* the array's bytes in it: [first, size) */
  int64_t at, end;           /* of the header's text in it */
} cursor;

static embed_status expected(const cursor *c, const char *what) {
  return embed__fail(c->ctx, EMBED_E_FORMAT, c->at, "%s: the npy header should have %s at byte %" PRId64, c->label, what, c->at);
}

static int peek(const cursor *c) { return c->at < c->end ? c->data[c->at] : -1; }

static bool is_blank(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

static int skip_blanks(cursor *c) {
  while (is_blank(peek(c))) ++c->at;
  return peek(c);
}

static bool take(cursor *c, int wanted) {
  if (skip_blanks(c) != wanted) return false;
  ++c->at;
  return true;
}

/* A quoted string of printable ASCII without escapes: [*first, *first + *bytes). */
static embed_status read_string(cursor *c, int64_t *first, int64_t *bytes) {
  int quote = skip_blanks(c);
  if (quote != '\'' && quote != '"') return expected(c, "a quoted string");
  *first = ++c->at;
  while (peek(c) != quote) {
    if (peek(c) < ' ' || peek(c) > '~' || peek(c) == '\\') return expected(c, "a string without escapes");
    ++c->at;
  }
  *bytes = c->at++ - *first;
  return EMBED_OK;
}

static bool take_word(cursor *c, const char *word) {
  int64_t bytes = (int64_t)strlen(word);
  (void)skip_blanks(c);
  if (c->end - c->at < bytes || memcmp(c->data + c->at, word, (size_t)bytes) != 0) return false;
  c->at += bytes;
  return true;
}

static embed_status read_extent(cursor *c, int64_t *extent) {
  int64_t first = c->at;
  *extent = 0;
  if (peek(c) == '-') return embed__fail(c->ctx, EMBED_E_FORMAT, first, "%s: the extent at byte %" PRId64 " is negative", c->label, first);
  for (; peek(c) >= '0' && peek(c) <= '9'; ++c->at)
    if (!embed__mul(*extent, 10, extent) || !embed__add(*extent, peek(c) - '0', extent))
      return embed__fail(c->ctx, EMBED_E_OVERFLOW, first, "%s: the extent at byte %" PRId64 " does not fit into 64 bits", c->label, first);
  if (c->at == first) return expected(c, "an extent");
  if (c->data[first] == '0' && c->at > first + 1) {
    c->at = first;
    return expected(c, "an extent without leading zeros");
  }
  if (peek(c) == 'L') ++c->at; /* Python 2's long */
  return EMBED_OK;
}

/* A Python tuple: (), (3,), (3, 4), (3, 4,); (3) is a number and not a shape. */
static embed_status read_shape(cursor *c, embed__tensor *tensor) {
  bool comma = true;
  if (!take(c, '(')) return expected(c, "a shape in parentheses");
  tensor->rank = 0;
  while (skip_blanks(c) != ')') {
    if (!comma) return expected(c, "a comma or the end of the shape");
    if (tensor->rank == EMBED__RANKS) return embed__fail(c->ctx, EMBED_E_UNSUPPORTED, c->at, "%s: the shape has more than %d extents", c->label, EMBED__RANKS);
    EMBED__TRY(read_extent(c, &tensor->shape[tensor->rank++]));
    comma = take(c, ',');
  }
  if (tensor->rank == 1 && !comma) return expected(c, "a comma: one number in parentheses is no tuple");
  ++c->at;
  return EMBED_OK;
}

/* Element types by letter: the sizes that numpy has, bit n for n bytes; 0 = any. */
static const struct kind {
  char letter;
  uint64_t sizes;
  int64_t unit; /* bytes per counted thing */
} kinds[] = {
#define N(bytes) ((uint64_t)1 << (bytes))
    {'f', N(1) | N(2) | N(4) | N(8) | N(10) | N(12) | N(16), 1}, /* 1: float8_e5m2 of ml_dtypes, whose other types are plain bytes */
    {'i', N(1) | N(2) | N(4) | N(8), 1},
    {'u', N(1) | N(2) | N(4) | N(8), 1},
    {'b', N(1), 1},
    {'c', N(8) | N(16) | N(20) | N(24) | N(32), 1},
    {'m', N(8), 1},
    {'M', N(8), 1},
    {'S', 0, 1},
    {'V', 0, 1},
    {'U', 0, 4},
#undef N
};

static const struct kind *find_kind(char letter) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    if (kinds[i].letter == letter) return &kinds[i];
  return NULL;
}

static embed_status bad_type(const cursor *c, int64_t at, embed_status status, const char *stored, const char *why) {
  return embed__fail(c->ctx, status, at, "%s: the type \"%.40s\" at byte %" PRId64 " %s", c->label, stored, at, why);
}

/* "<f4": byte order, letter, size; dates have a unit in brackets behind. at: where it stands, for messages. */
static embed_status read_type(const cursor *c, int64_t at, embed__tensor *tensor, int64_t *width) {
  const char *s = tensor->stored, *digit;
  if (!s[0] || !strchr("<>|", s[0])) return bad_type(c, at, EMBED_E_FORMAT, s, "does not begin with a byte order: <, > or |");
  if (s[1] == 'O') return bad_type(c, at, EMBED_E_UNSUPPORTED, s, "is Python objects: they are a pickle, which is never read");
  const struct kind *kind = find_kind(s[1]);
  if (!kind) return bad_type(c, at, EMBED_E_UNSUPPORTED, s, "is none that this version knows");
  *width = 0;
  for (digit = s + 2; *digit >= '0' && *digit <= '9'; ++digit)
    if (!embed__mul(*width, 10, width) || !embed__add(*width, *digit - '0', width))
      return bad_type(c, at, EMBED_E_OVERFLOW, s, "has a size that does not fit into 64 bits");
  bool sized = digit > s + 2 && (kind->sizes == 0 || (*width < 64 && (kind->sizes >> *width & 1)));
  bool whole = *digit == '\0' || ((s[1] == 'm' || s[1] == 'M') && *digit == '[' && s[strlen(s) - 1] == ']');
  if (!sized || !whole) return bad_type(c, at, EMBED_E_FORMAT, s, "is no type of numpy");
  if (!embed__mul(*width, kind->unit, width)) return bad_type(c, at, EMBED_E_OVERFLOW, s, "has a size that does not fit into 64 bits");
  tensor->dtype = EMBED_DTYPE_NONE;
  if (s[1] == 'V' && *width == 2) tensor->hint = "; two plain bytes are how ml_dtypes leaves bfloat16 in an npy file, which does not say so";
  if (s[1] != 'f' || *width > 8) return EMBED_OK;
  if (s[0] == '|') return bad_type(c, at, EMBED_E_FORMAT, s, "has no byte order");
  tensor->dtype = *width == 1 ? EMBED_F8_E5M2 : *width == 2 ? EMBED_F16 : *width == 4 ? EMBED_F32 : EMBED_F64;
  tensor->swapped = *width > 1 && (s[0] == '>') != EMBED__BIG_ENDIAN_HOST;
  return EMBED_OK;
}

static embed_status read_value(cursor *c, int key, embed__tensor *tensor, int64_t *width) {
  int64_t first, bytes;
  switch (key) {
    case 0: {
      int begins = skip_blanks(c);
      if (begins == '[' || begins == '(')
        return embed__fail(c->ctx, EMBED_E_UNSUPPORTED, c->at,
                           "%s: the elements are structures of several fields (byte %" PRId64 "), a table holds numbers of one type", c->label, c->at);
      EMBED__TRY(read_string(c, &first, &bytes));
      EMBED__TRY(embed__file_keep(c->ctx, c->f, c->data + first, bytes, &tensor->stored));
      return read_type(c, first, tensor, width);
    }
    case 1:
      if (take_word(c, "True"))
        tensor->column_major = true;
      else if (!take_word(c, "False"))
        return expected(c, "True or False");
      return EMBED_OK;
    default: return read_shape(c, tensor);
  }
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } and blanks; the keys in any order, each once. */
static embed_status read_dict(cursor *c, embed__tensor *tensor, int64_t *width) {
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  enum { KEYS = sizeof keys / sizeof *keys };
  bool seen[KEYS] = {false}, comma = true;
  if (!take(c, '{')) return expected(c, "a dict in braces");
  while (skip_blanks(c) != '}') {
    int64_t first, bytes;
    int key = 0;
    if (!comma) return expected(c, "a comma or the end of the dict");
    EMBED__TRY(read_string(c, &first, &bytes));
    while (key < KEYS && ((size_t)bytes != strlen(keys[key]) || memcmp(c->data + first, keys[key], (size_t)bytes) != 0)) ++key;
    if (key == KEYS || seen[key]) {
      c->at = first;
      return expected(c, "descr, fortran_order and shape, each once, and no other key");
    }
    seen[key] = true;
    if (!take(c, ':')) return expected(c, "a colon");
    EMBED__TRY(read_value(c, key, tensor, width));
    comma = take(c, ',');
  }
  for (int key = 0; key < KEYS; ++key)
    if (!seen[key]) return expected(c, keys[key]);
  ++c->at;
  return skip_blanks(c) < 0 ? EMBED_OK : expected(c, "nothing but blanks");
}

/* Finds the text of the header: c->at, c->end. */
static embed_status find_header(cursor *c, const embed_file_options *o) {
  const unsigned char *p = c->data + c->first;
  const int64_t size = c->size, bytes_there = size - c->first, limit = embed__min(NUMPY_LIMIT, embed__header_limit(o)), magic_end = c->first + MAGIC_BYTES;
  int major = bytes_there > MAGIC_BYTES ? p[MAGIC_BYTES] : 1, minor = bytes_there > MAGIC_BYTES + 1 ? p[MAGIC_BYTES + 1] : 0;
  if (!embed__npy_probe(p, bytes_there)) return embed__fail(c->ctx, EMBED_E_FORMAT, c->first, "%s: it does not begin with npy's magic bytes", c->label);
  if (major < 1 || major > 3 || minor != 0)
    return embed__fail(c->ctx, EMBED_E_UNSUPPORTED, magic_end, "%s: npy version %d.%d; 1.0, 2.0 and 3.0 are read", c->label, major, minor);
  c->at = magic_end + 2 + (major == 1 ? 2 : 4);
  if (size < c->at)
    return embed__fail(c->ctx, EMBED_E_FORMAT, size, "%s: the file ends at byte %" PRId64 " before its header does: it was cut short", c->label, size);
  int64_t bytes = major == 1 ? embed__le16(p + MAGIC_BYTES + 2) : embed__le32(p + MAGIC_BYTES + 2);
  c->end = c->at + bytes;
  if (c->end > size)
    return embed__fail(c->ctx, EMBED_E_FORMAT, size, "%s: the header ends at byte %" PRId64 ", the file at %" PRId64 ": it was cut short", c->label, c->end,
                       size);
  if (bytes > limit)
    return embed__fail(c->ctx, EMBED_E_FORMAT, magic_end + 2, "%s: the header has %" PRId64 " bytes, at most %" PRId64 " are read (numpy's own limit is %d)",
                       c->label, bytes, limit, NUMPY_LIMIT);
  return EMBED_OK;
}

/* Where the elements lie, proved against the size of the file. */
static embed_status find_data(const cursor *c, embed__tensor *tensor, int64_t width) {
  const int64_t size = c->size;
  int64_t bytes = width, end;
  for (int32_t i = 0; i < tensor->rank; ++i)
    if (!embed__mul(bytes, tensor->shape[i], &bytes)) break;
  if (!embed__add(c->end, bytes, &end)) /* refuses the product's -1 too */
    return embed__fail(c->ctx, EMBED_E_OVERFLOW, c->end, "%s: the product of the shape and %" PRId64 " bytes per element does not fit into 64 bits", c->label,
                       width);
  if (end > size)
    return embed__fail(c->ctx, EMBED_E_FORMAT, size, "%s: data ends at byte %" PRId64 ", the file at %" PRId64 ": it was cut short", c->label, end, size);
  tensor->offset = c->end;
  tensor->bytes = bytes;
  /* Both orders are one where at most one extent counts. */
  if (tensor->rank < 2 || (tensor->rank == 2 && (tensor->shape[0] <= 1 || tensor->shape[1] <= 1))) tensor->column_major = false;
  return EMBED_OK;
}

embed_status embed__npy_read(embed_context *ctx, embed_file *f, const embed__npy *in, const embed_file_options *o, embed__tensor *tensor) {
  cursor c = {.ctx = ctx, .f = f, .label = in->label, .data = in->data, .first = in->first, .size = in->end};
  int64_t width = 0;
  EMBED__TRY(find_header(&c, o));
  EMBED__TRY(read_dict(&c, tensor, &width));
  return find_data(&c, tensor, width);
}

embed_status embed__npy_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  const embed__npy in = {.label = f->label, .data = f->map.data, .end = f->map.bytes};
  EMBED__TRY(embed__file_tensors(ctx, f, 1));
  f->tensors[0].name = "array"; /* the file has no name for it */
  EMBED__TRY(embed__npy_read(ctx, f, &in, o, f->tensors));
  const int64_t behind = f->map.bytes - f->tensors[0].offset - f->tensors[0].bytes;
  return behind == 0 ? EMBED_OK : embed__file_note(ctx, f, behind, "bytes behind the array are not read");
}
