/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/json.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "core/checked.h"
#include "core/memory.h"
#include "vocab/hash.h"
#include "vocab/siphash.h"

enum { VALUE, FIRST, NEXT, DONE }; /* what may come: a value, a member or the end, a comma or the end, nothing */

typedef struct embed__json_key {
  const char *string;
  int64_t bytes;
} key;

static embed_status should_have(const embed__json *j, int64_t at, const char *what) {
  if (at == j->bytes)
    return embed__fail(j->ctx, EMBED_E_FORMAT, j->base + at, "%s: the JSON ends at byte %" PRId64 ", where it should have %s", j->label, j->base + at, what);
  return embed__fail(j->ctx, EMBED_E_FORMAT, j->base + at, "%s: the JSON should have %s at byte %" PRId64, j->label, what, j->base + at);
}

embed_status embed__json_expected(const embed__json *j, const char *what) { return should_have(j, j->first - j->base, what); }

void embed__json_begin(embed__json *j, embed_context *ctx, const char *label, char *text, int64_t bytes, int64_t base) {
  memset(j, 0, sizeof *j);
  j->ctx = ctx;
  j->label = label;
  j->text = text;
  j->bytes = bytes;
  j->base = base;
}

void embed__json_end(embed__json *j) {
  embed__free(&j->ctx->memory, j->keys, (size_t)j->key_room * sizeof *j->keys, EMBED__ALIGNMENT);
  j->keys = NULL;
  j->key_room = 0;
}

/* --- Strings */

static inline uint64_t bytes_below(uint64_t word, uint64_t limit) { return (word - limit * 0x0101010101010101u) & ~word; }

/* Bytes that stand for themselves: ASCII but quotes, backslashes and controls. The NUL behind the text ends them too. */
static int64_t plain_bytes(const char *s, int64_t room) {
  int64_t n = 0;
  for (; n + 8 <= room; n += 8) {
    uint64_t word;
    memcpy(&word, s + n, 8);
    uint64_t special = bytes_below(word, 0x20) | bytes_below(word ^ 0x2222222222222222u, 1) | bytes_below(word ^ 0x5C5C5C5C5C5C5C5Cu, 1) | word;
    special &= 0x8080808080808080u;
    if (special && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) return n + __builtin_ctzll(special) / 8; /* the lowest is exact: borrows go up */
    if (special) break;
  }
  for (;; ++n) {
    unsigned char c = (unsigned char)s[n];
    if (c < 0x20 || c == '"' || c == '\\' || c >= 0x80) return n;
  }
}

/* Bytes of the UTF-8 character at s (Unicode 15, table 3-7), 0 = it is none. A NUL stands behind the text. */
static int utf8_bytes(const char *at) {
  const unsigned char *s = (const unsigned char *)at;
  int bytes = s[0] >= 0xC2 && s[0] <= 0xDF ? 2 : s[0] >= 0xE0 && s[0] <= 0xEF ? 3 : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4 : 0;
  unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80, high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
  if (bytes == 0 || s[1] < low || s[1] > high) return 0;
  for (int i = 2; i < bytes; ++i)
    if (s[i] < 0x80 || s[i] > 0xBF) return 0;
  return bytes;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The number of \uXXXX at text[at], -1 = it is none. */
static int32_t unicode_escape(const embed__json *j, int64_t at) {
  int32_t code = 0;
  if (j->text[at] != '\\' || j->text[at + 1] != 'u') return -1;
  for (int64_t i = at + 2; i < at + 6; ++i) { /* the NUL behind the text is no digit: nothing behind it is read */
    int digit = hex_digit(j->text[i]);
    if (digit < 0) return -1;
    code = code * 16 + digit;
  }
  return code;
}

static int64_t put_utf8(char *out, int32_t code) {
  static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
  int bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (int i = bytes - 1; i > 0; --i, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
  out[0] = (char)(leads[bytes] | code);
  return bytes;
}

/* The escape at text[*from] is written to text[*to], where it has room: what it stands for is never longer. */
static embed_status unescape(embed__json *j, int64_t *from, int64_t *to) {
  static const char letters[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
  char c = j->text[*from + 1];
  const char *letter = c ? strchr(letters, c) : NULL;
  if (letter) {
    j->text[(*to)++] = means[letter - letters];
    *from += 2;
    return EMBED_OK;
  }
  int32_t code = unicode_escape(j, *from);
  if (code < 0) return should_have(j, *from, "an escape that JSON knows");
  int64_t after = *from + 6;
  if (code >= 0xD800 && code <= 0xDFFF) {
    int32_t low = code < 0xDC00 ? unicode_escape(j, after) : -1;
    if (low < 0xDC00 || low > 0xDFFF) return should_have(j, *from, "both halves of a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    after += 6;
  }
  *to += put_utf8(j->text + *to, code);
  *from = after;
  return EMBED_OK;
}

/* text[at] is the quote that begins it. */
static embed_status read_string(embed__json *j) {
  int64_t begin = j->at + 1, from = begin, to = begin;
  for (;;) {
    int64_t run = plain_bytes(j->text + from, j->bytes - from);
    int wide = (unsigned char)j->text[from + run] >= 0x80 ? utf8_bytes(j->text + from + run) : 0;
    run += wide;
    if (to != from) memmove(j->text + to, j->text + from, (size_t)run);
    from += run;
    to += run;
    if (wide) continue;
    unsigned char c = (unsigned char)j->text[from];
    if (c == '"') break;
    if (c == '\\')
      EMBED__TRY(unescape(j, &from, &to));
    else if (c >= 0x80)
      return should_have(j, from, "UTF-8");
    else if (c < 0x20)
      return should_have(j, from, from == j->bytes ? "the end of a string" : "no control character in a string");
  }
  j->text[to] = '\0';
  j->string = j->text + begin;
  j->string_bytes = to - begin;
  j->at = from + 1;
  return EMBED_OK;
}

/* --- Numbers */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static int64_t digits(const embed__json *j, int64_t at) {
  while (is_digit(j->text[at])) ++at;
  return at;
}

static embed_status too_large(const embed__json *j, const char *what) {
  return embed__fail(j->ctx, EMBED_E_OVERFLOW, j->first, "%s: the number at byte %" PRId64 " does not fit into %s", j->label, j->first, what);
}

/* string[0 .. string_bytes): a sign, perhaps, and digits. */
static embed_status read_integer(embed__json *j) {
  enum { SAFE = 18 }; /* digits that fit whatever they are */
  const char *s = j->string, *end = s + j->string_bytes;
  bool negative = *s == '-';
  int64_t value = 0;
  s += negative;
  if (end - s <= SAFE)
    while (s < end) value = value * 10 - (*s++ - '0');
  else
    for (; s < end; ++s) /* downwards: the least number has no positive twin */
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, *s - '0', &value)) return too_large(j, "64 bits");
  if (!negative && value == INT64_MIN) return too_large(j, "64 bits");
  j->kind = EMBED__JSON_INTEGER;
  j->integer = negative ? value : -value;
  return EMBED_OK;
}

/* Whether s[0 .. bytes) rounds to infinity, that is from 2^1024 - 2^970 on; told by its first 40 digits. */
static bool is_infinite(const char *s, int64_t bytes) {
  const char *limit = "1797693134862315807937289714053034150799" /* x 10^(308 - 39) */, *end = s + bytes;
  int64_t scale = -1, exponent = 0; /* scale: the first digit that is not 0 stands for so many powers of ten */
  int order = 0;                    /* of the digits so far against limit's */
  if (*s == '-') ++s;
  if (*s != '0')
    while (is_digit(s[scale + 1])) ++scale;
  else
    for (++s; s < end && (*s == '.' || *s == '0'); ++s) scale -= *s == '0';
  if (s == end || !is_digit(*s)) return false; /* it is 0 */
  for (; s < end && (*s == '.' || is_digit(*s)); ++s)
    if (*s != '.' && order == 0 && *limit) order = *s - *limit++;
  if (order == 0 && *limit) order = -1;
  bool negative = end - s > 1 && s[1] == '-';
  for (; s < end; ++s)
    if (is_digit(*s)) exponent = embed__min(exponent * 10 + (*s - '0'), INT64_MAX / 16);
  scale += negative ? -exponent : exponent;
  return scale > 308 || (scale == 308 && order >= 0);
}

static embed_status read_number(embed__json *j) {
  int64_t first = j->at, at = first + (j->text[first] == '-'), end = j->text[at] == '0' ? at + 1 : digits(j, at);
  bool whole = true;
  if (end == at) return should_have(j, at, "a digit");
  if (j->text[end] == '.') {
    whole = false;
    at = end + 1;
    if ((end = digits(j, at)) == at) return should_have(j, at, "a digit");
  }
  if (j->text[end] == 'e' || j->text[end] == 'E') {
    whole = false;
    at = end + 1;
    if (j->text[at] == '+' || j->text[at] == '-') ++at;
    if ((end = digits(j, at)) == at) return should_have(j, at, "a digit");
  }
  j->string = j->text + first;
  j->string_bytes = end - first;
  j->at = end;
  if (whole) return read_integer(j);
  j->kind = EMBED__JSON_REAL;
  return is_infinite(j->string, j->string_bytes) ? too_large(j, "a double") : EMBED_OK;
}

/* --- Keys */

static embed_status push_key(embed__json *j) {
  enum { FIRST_ROOM = 64 };
  if (j->key_count == j->key_room) {
    int64_t room = embed__max(FIRST_ROOM, embed__min(2 * j->key_room, j->bytes / 4 + 1)); /* a key takes 4 bytes at least: "":1 */
    size_t bytes = (size_t)room * sizeof *j->keys;
    key *keys = embed__allocate(&j->ctx->memory, bytes, EMBED__ALIGNMENT);
    if (!keys) return embed__out_of_memory(j->ctx, (int64_t)bytes);
    if (j->key_count) memcpy(keys, j->keys, (size_t)j->key_count * sizeof *keys);
    embed__json_end(j);
    j->keys = keys;
    j->key_room = room;
  }
  j->keys[j->key_count++] = (key){.string = j->string, .bytes = j->string_bytes};
  return EMBED_OK;
}

static bool same_key(const key *a, const key *b) { return a->bytes == b->bytes && memcmp(a->string, b->string, (size_t)a->bytes) == 0; }

static embed_status stands_twice(const embed__json *j, const key *k) {
  int64_t at = j->base + (k->string - j->text) - 1;
  return embed__fail(j->ctx, EMBED_E_FORMAT, at, "%s: the JSON has the key \"%.100s\" at byte %" PRId64 " for the second time", j->label, k->string, at);
}

/* The first key that stands for the second time; count = none, -1 = they walked too far (vocab/hash.h). */
static int64_t second_of(const embed__json *j, const key *keys, int64_t count, uint32_t *index, uint64_t mask, bool careful) {
  int64_t steps = 0;
  for (int64_t i = 0; i < count; ++i) {
    const key *k = &keys[i];
    uint64_t slot = (careful ? embed__siphash(j->seed, k->string, k->bytes) : embed__hash(j->seed, k->string, k->bytes)) & mask;
    for (; index[slot]; slot = (slot + 1) & mask, ++steps)
      if (same_key(&keys[index[slot] - 1], k)) return i;
    index[slot] = (uint32_t)(i + 1); /* number of a key + 1 */
    if (!careful && embed__hash_fails(steps, i)) return -1;
  }
  return count;
}

/* With a hash of a key of its own: a file could be made so that all its keys meet in one slot of a known one. */
static embed_status check_many_keys(embed__json *j, const key *keys, int64_t count) {
  uint64_t slots = 2;
  while (slots < 2 * (uint64_t)count) slots *= 2;
  size_t bytes = (size_t)slots * sizeof(uint32_t);
  uint32_t *index = count < UINT32_MAX ? embed__new(&j->ctx->memory, bytes) : NULL;
  if (!index) return embed__out_of_memory(j->ctx, (int64_t)bytes);
  if (!j->seeded && getentropy(j->seed, sizeof j->seed) != 0) j->seed[0] = (uint64_t)(uintptr_t)index;
  j->seeded = true;
  int64_t second = second_of(j, keys, count, index, slots - 1, false);
  if (second < 0) {
    memset(index, 0, bytes);
    second = second_of(j, keys, count, index, slots - 1, true);
  }
  embed__free(&j->ctx->memory, index, bytes, EMBED__ALIGNMENT);
  return second == count ? EMBED_OK : stands_twice(j, &keys[second]);
}

/* The object at the top ends. */
static embed_status check_keys(embed__json *j) {
  enum { FEW = 8 };
  int64_t begin = j->key_start[j->depth], count = j->key_count - begin;
  if (count == 0) return EMBED_OK;
  const key *keys = j->keys + begin;
  j->key_count = begin;
  if (count > FEW) return check_many_keys(j, keys, count);
  for (int64_t i = 1; i < count; ++i)
    for (int64_t k = 0; k < i; ++k)
      if (same_key(&keys[k], &keys[i])) return stands_twice(j, &keys[i]);
  return EMBED_OK;
}

/* --- Tokens */

static inline char skip_blanks(embed__json *j) {
  const char *s = j->text + j->at;
  if ((unsigned char)*s <= ' ') {
    while (*s == ' ' || *s == '\n' || *s == '\r' || *s == '\t') ++s;
    j->at = s - j->text;
  }
  j->first = j->base + j->at;
  return *s;
}

static bool in_object(const embed__json *j) { return j->objects >> (j->depth - 1) & 1; }

static embed_status open_container(embed__json *j, bool object) {
  if (j->depth == EMBED__JSON_DEPTH)
    return embed__fail(j->ctx, EMBED_E_FORMAT, j->first, "%s: the JSON has more than %d containers inside one another at byte %" PRId64, j->label,
                       EMBED__JSON_DEPTH, j->first);
  uint64_t bit = (uint64_t)1 << j->depth;
  j->objects = object ? j->objects | bit : j->objects & ~bit;
  j->key_start[j->depth++] = j->key_count;
  j->kind = object ? EMBED__JSON_OBJECT : EMBED__JSON_ARRAY;
  j->state = FIRST;
  ++j->at;
  return EMBED_OK;
}

static embed_status close_container(embed__json *j) {
  bool object = in_object(j);
  ++j->at;
  --j->depth;
  j->state = j->depth ? NEXT : DONE;
  j->kind = object ? EMBED__JSON_OBJECT_END : EMBED__JSON_ARRAY_END;
  return object ? check_keys(j) : EMBED_OK;
}

static embed_status read_key(embed__json *j) {
  if (j->text[j->at] != '"') return should_have(j, j->at, "a key in quotes");
  EMBED__TRY(read_string(j));
  int64_t first = j->first;
  if (skip_blanks(j) != ':') return should_have(j, j->at, "a colon");
  ++j->at;
  j->first = first;
  j->kind = EMBED__JSON_KEY;
  j->state = VALUE;
  return push_key(j);
}

static embed_status read_word(embed__json *j, const char *word, embed__json_kind kind) {
  size_t bytes = strlen(word);
  if (strncmp(j->text + j->at, word, bytes) != 0) return should_have(j, j->at, "a value");
  j->at += (int64_t)bytes;
  j->kind = kind;
  return EMBED_OK;
}

static embed_status read_value(embed__json *j, char c) {
  j->state = j->depth ? NEXT : DONE;
  switch (c) {
    case '{': return open_container(j, true);
    case '[': return open_container(j, false);
    case '"': j->kind = EMBED__JSON_STRING; return read_string(j);
    case 't': return read_word(j, "true", EMBED__JSON_TRUE);
    case 'f': return read_word(j, "false", EMBED__JSON_FALSE);
    case 'n': return read_word(j, "null", EMBED__JSON_NULL);
    default: return c == '-' || is_digit(c) ? read_number(j) : should_have(j, j->at, "a value");
  }
}

embed_status embed__json_next(embed__json *j) {
  char c = skip_blanks(j);
  if (j->state == DONE) {
    j->kind = EMBED__JSON_END;
    return j->at == j->bytes ? EMBED_OK : should_have(j, j->at, "nothing behind its value");
  }
  if (j->state == VALUE) return read_value(j, c);
  bool object = in_object(j);
  if (c == (object ? '}' : ']')) return close_container(j);
  if (j->state == NEXT) {
    if (c != ',') return should_have(j, j->at, object ? "a comma or the end of an object" : "a comma or the end of an array");
    ++j->at;
    c = skip_blanks(j);
  }
  return object ? read_key(j) : read_value(j, c);
}

embed_status embed__json_expect(embed__json *j, embed__json_kind kind, const char *what) {
  EMBED__TRY(embed__json_next(j));
  return j->kind == kind ? EMBED_OK : embed__json_expected(j, what);
}

void embed__json_took(embed__json *j, int64_t bytes) {
  j->at += bytes;
  j->state = NEXT; /* a key stands in a container */
}

embed_status embed__json_skip(embed__json *j) {
  int depth = j->depth;
  do EMBED__TRY(embed__json_next(j));
  while (j->depth > depth);
  return EMBED_OK;
}
