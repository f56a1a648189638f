/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON parser: what it takes, which byte it names when it does not, and that jansson would say the same. */
#include "test.h"

#include "io/json.h"
#include "vocab/hash.h"

#include <embed/embed.h>
#include <inttypes.h>
#ifdef HAVE_JANSSON
#include <jansson.h>
#endif

/* --- One text, read to its end, in memory that ends at an unreadable page. */

typedef struct outcome {
  embed_status status;
  int64_t at;
  char says[EMBED__ERROR_TEXT];
} outcome;

static const char *const letters = "${}[]kSirtfn"; /* by kind */

/* tokens: a letter each; strings: each string with a | behind it. Both may be NULL. */
static outcome read_whole(embed_context *ctx, const char *s, size_t bytes, char *tokens, char *strings) {
  guarded g = guarded_new(bytes + 1, 1);
  embed__json j;
  memcpy(g.at, s, bytes);
  g.at[bytes] = 0;
  ctx->error_text[0] = '\0';
  ctx->error_at = -1;
  embed__json_begin(&j, ctx, "text", (char *)g.at, (int64_t)bytes, 0);
  embed_status status;
  do {
    status = embed__json_next(&j);
    if (status != EMBED_OK) break;
    assert_in_range(j.first, 0, bytes);
    assert_in_range(j.depth, 0, EMBED__JSON_DEPTH);
    if (tokens) *tokens++ = letters[j.kind];
    if (j.kind == EMBED__JSON_KEY || j.kind == EMBED__JSON_STRING) {
      assert_int_equal(j.string[j.string_bytes], 0);
      assert_true(j.string >= (char *)g.at && j.string + j.string_bytes < (char *)g.at + bytes);
      if (strings) {
        memcpy(strings, j.string, (size_t)j.string_bytes);
        strings += j.string_bytes;
        *strings++ = '|';
      }
    }
  } while (j.kind != EMBED__JSON_END);
  embed__json_end(&j);
  guarded_free(g);
  if (tokens) *tokens = '\0';
  if (strings) *strings = '\0';
  outcome o = {.status = status, .at = ctx->error_at};
  memcpy(o.says, ctx->error_text, sizeof o.says);
  return o;
}

static embed_context *new_context(void) {
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(NULL, &ctx), EMBED_OK);
  return ctx;
}

static void tokens_come_in_the_texts_order(void **state) {
  (void)state;
  static const struct {
    const char *text, *tokens, *strings;
  } cases[] = {
      {"{}", "{}$", ""},
      {" \t\r\n[ ] ", "[]$", ""},
      {"[[],{},[[]]]", "[[]{}[[]]]$", ""},
      {"{\"a\":{\"b\":[1,-2.5,true,false,null,\"x\"]},\"c\":1e3}", "{k{k[irtfnS]}kr}$", "a|b|x|c|"},
      {"\"\"", "S$", "|"},
      {"0", "i$", ""},
      {"-0", "i$", ""},
      {"-0.0E-0", "r$", ""},
      {"{\"\":0}", "{ki}$", "|"},
      {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "S$", "\"\\/\b\f\n\r\t|"},
      {"\"\\u0041\\u00e9\\u4e2d\\ud83d\\uDE00z\"", "S$", "A\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80z|"},
      {"\"\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80 twelve more bytes\\u0020\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF\"", "S$",
       "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80 twelve more bytes \xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF|"},
      {"\"\x7F\"", "S$", "\x7F|"},
      {"{\"a\":{\"a\":1},\"b\":{\"a\":1,\"b\":{}}}", "{k{ki}k{kik{}}}$", "a|a|b|a|b|"},
  };
  embed_context *ctx = new_context();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char tokens[64], strings[128];
    outcome o = read_whole(ctx, cases[i].text, strlen(cases[i].text), tokens, strings);
    if (o.status != EMBED_OK) fail_msg("%s: %s", cases[i].text, o.says);
    assert_string_equal(tokens, cases[i].tokens);
    assert_string_equal(strings, cases[i].strings);
  }
  embed_context_release(ctx);
}

static void integers_are_exact_to_the_last_of_64_bits(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t value;
  } cases[] = {{"9223372036854775807", INT64_MAX}, {"-9223372036854775808", INT64_MIN}, {"-1", -1}, {"1000000000000000000", 1000000000000000000}};
  embed_context *ctx = new_context();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[32];
    embed__json j;
    strcpy(text, cases[i].text);
    embed__json_begin(&j, ctx, "text", text, (int64_t)strlen(text), 0);
    assert_int_equal(embed__json_next(&j), EMBED_OK);
    assert_int_equal(j.kind, EMBED__JSON_INTEGER);
    assert_true(j.integer == cases[i].value);
    assert_int_equal(j.string_bytes, strlen(cases[i].text));
    embed__json_end(&j);
  }
  embed_context_release(ctx);
}

static void a_value_is_skipped_whole(void **state) {
  (void)state;
  char text[] = "{\"a\":[1,{\"b\":[]},2],\"c\":3,\"d\":\"e\"}";
  embed_context *ctx = new_context();
  embed__json j;
  embed__json_begin(&j, ctx, "text", text, (int64_t)strlen(text), 100);
  assert_int_equal(embed__json_expect(&j, EMBED__JSON_OBJECT, "an object"), EMBED_OK);
  assert_int_equal(embed__json_next(&j), EMBED_OK);
  assert_int_equal(embed__json_skip(&j), EMBED_OK);
  assert_int_equal(embed__json_expect(&j, EMBED__JSON_KEY, "a key"), EMBED_OK);
  assert_true(embed__json_is(&j, "c"));
  assert_false(embed__json_is(&j, "cc"));
  assert_int_equal(j.first, 100 + 20);
  assert_int_equal(embed__json_skip(&j), EMBED_OK);
  assert_int_equal(embed__json_next(&j), EMBED_OK);
  assert_int_equal(embed__json_expect(&j, EMBED__JSON_INTEGER, "a number of legs"), EMBED_E_FORMAT);
  assert_string_equal(ctx->error_text, "text: the JSON should have a number of legs at byte 130");
  assert_int_equal(ctx->error_at, 130);
  embed__json_end(&j);
  embed_context_release(ctx);
}

#define TEXT(literal) literal, sizeof(literal) - 1

static void what_is_no_json_is_refused_at_its_byte(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t bytes;
    int64_t at;
    const char *says;
  } cases[] = {
      {TEXT(""), 0, "ends"},
      {TEXT(" "), 1, "ends"},
      {TEXT("\xEF\xBB\xBF{}"), 0, "a value"},
      {TEXT("{} x"), 3, "nothing behind"},
      {TEXT("{}\0"), 2, "nothing behind"},
      {TEXT("{}{}"), 2, "nothing behind"},
      {TEXT("1 2"), 2, "nothing behind"},
      {TEXT("//c\n1"), 0, "a value"},
      {TEXT("[1,]"), 3, "a value"},
      {TEXT("[,1]"), 1, "a value"},
      {TEXT("[1 2]"), 3, "a comma or the end of an array"},
      {TEXT("[1}"), 2, "a comma or the end of an array"},
      {TEXT("{\"a\":1]"), 6, "a comma or the end of an object"},
      {TEXT("{\"a\":1,}"), 7, "a key"},
      {TEXT("{,}"), 1, "a key"},
      {TEXT("{a:1}"), 1, "a key"},
      {TEXT("{'a':1}"), 1, "a key"},
      {TEXT("{1:1}"), 1, "a key"},
      {TEXT("{\"a\" 1}"), 5, "a colon"},
      {TEXT("{\"a\"}"), 4, "a colon"},
      {TEXT("{\"a\":}"), 5, "a value"},
      {TEXT("["), 1, "ends"},
      {TEXT("{\"a"), 3, "the end of a string"},
      {TEXT("\"a\\"), 2, "an escape"},
      {TEXT("\"\\x\""), 1, "an escape"},
      {TEXT("\"\\u12\""), 1, "an escape"},
      {TEXT("\"\\u12G4\""), 1, "an escape"},
      {TEXT("\"\\"), 1, "an escape"},
      {TEXT("\"\\U0041\""), 1, "an escape"},
      {TEXT("\"\\\0\""), 1, "an escape"},
      {TEXT("\"ab\\ud800\""), 3, "surrogate"},
      {TEXT("\"\\udc00\\ud800\""), 1, "surrogate"},
      {TEXT("\"\\ud800\\u0041\""), 1, "surrogate"},
      {TEXT("\"\\ud800\\n\""), 1, "surrogate"},
      {TEXT("\"a\nb\""), 2, "control"},
      {TEXT("\"a\0b\""), 2, "control"},
      {TEXT("\"12345678\x1F\""), 9, "control"},
      {TEXT("\"\x80\""), 1, "UTF-8"},
      {TEXT("\"\xC0\x80\""), 1, "UTF-8"},
      {TEXT("\"\xC1\xBF\""), 1, "UTF-8"},
      {TEXT("\"\xC3\""), 1, "UTF-8"},
      {TEXT("\"\xE0\x9F\xBF\""), 1, "UTF-8"},
      {TEXT("\"\xED\xA0\x80\""), 1, "UTF-8"},
      {TEXT("\"\xE4\xB8\""), 1, "UTF-8"},
      {TEXT("\"\xF0\x8F\xBF\xBF\""), 1, "UTF-8"},
      {TEXT("\"\xF4\x90\x80\x80\""), 1, "UTF-8"},
      {TEXT("\"\xF5\x80\x80\x80\""), 1, "UTF-8"},
      {TEXT("\"\xF0\x9F\x98\""), 1, "UTF-8"},
      {TEXT("\"1234567890\xFF\""), 11, "UTF-8"},
      {TEXT("tru"), 0, "a value"},
      {TEXT("True"), 0, "a value"},
      {TEXT("nul"), 0, "a value"},
      {TEXT("truee"), 4, "nothing behind"},
      {TEXT("NaN"), 0, "a value"},
      {TEXT("Infinity"), 0, "a value"},
      {TEXT("-"), 1, "a digit"},
      {TEXT("-Infinity"), 1, "a digit"},
      {TEXT("+1"), 0, "a value"},
      {TEXT(".5"), 0, "a value"},
      {TEXT("01"), 1, "nothing behind"},
      {TEXT("[-01]"), 3, "a comma"},
      {TEXT("0x10"), 1, "nothing behind"},
      {TEXT("1."), 2, "a digit"},
      {TEXT("1.e1"), 2, "a digit"},
      {TEXT("1e"), 2, "a digit"},
      {TEXT("1e+"), 3, "a digit"},
      {TEXT("1E-x"), 3, "a digit"},
      {TEXT("{\"a\":1,\"b\":2,\"a\":3}"), 13, "\"a\" at byte 13 for the second time"},
      {TEXT("{\"a\":1,\"\\u0061\":3}"), 7, "second time"},
      {TEXT("{\"\":1,\"\":1}"), 6, "second time"},
      {TEXT("[0,{\"b\":{\"a\":{},\"x\":[],\"a\":[]}}]"), 23, "second time"},
      {TEXT("{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":0,\"\\u0067\":1}"), 61, "\"g\" at byte 61 for the second time"},
  };
  embed_context *ctx = new_context();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    outcome o = read_whole(ctx, cases[i].text, cases[i].bytes, NULL, NULL);
    if (o.status != EMBED_E_FORMAT || o.at != cases[i].at || !strstr(o.says, cases[i].says) || strncmp(o.says, "text: ", 6) != 0)
      fail_msg("%s: %s at %" PRId64 ": %s; wanted %" PRId64 ": %s", cases[i].text, embed_status_name(o.status), o.at, o.says, cases[i].at, cases[i].says);
  }
  embed_context_release(ctx);
}

static void numbers_past_64_bits_or_double_are_an_overflow(void **state) {
  (void)state;
  static const char *const bad[] = {"9223372036854775808",
                                    "-9223372036854775809",
                                    "18446744073709551616",
                                    "99999999999999999999999999",
                                    "1e309",
                                    "-1e309",
                                    "1.8e308",
                                    "1.797693134862315807937289714053034150799e308",
                                    "0.18e309",
                                    "0.00018e312",
                                    "18e307",
                                    "179769313486231580793728971405303415079934132710037826936.0e252",
                                    "1e999999999999999999999",
                                    "123456789e999"};
  static const char *const good[] = {"1.7976931348623157e308",
                                     "1.797693134862315807e308",
                                     "17.9e307",
                                     "0.17e309",
                                     "0.0017e311",
                                     "0e999999",
                                     "0.000e999",
                                     "-0.0e999",
                                     "1e308",
                                     "9.9e307",
                                     "1e-999999999999999999999",
                                     "0.00000000000000000000001e330",
                                     "100000000000000000000000.0e285",
                                     "1.797693134862315807937289714053034150798e308"};
  embed_context *ctx = new_context();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    char text[128];
    snprintf(text, sizeof text, "[ %s ]", bad[i]);
    outcome o = read_whole(ctx, text, strlen(text), NULL, NULL);
    if (o.status != EMBED_E_OVERFLOW || o.at != 2) fail_msg("%s: %s", text, embed_status_name(o.status));
  }
  for (size_t i = 0; i < sizeof good / sizeof *good; ++i) {
    outcome o = read_whole(ctx, good[i], strlen(good[i]), NULL, NULL);
    if (o.status != EMBED_OK) fail_msg("%s: %s", good[i], o.says);
  }
  embed_context_release(ctx);
}

static void containers_nest_64_deep_and_no_deeper(void **state) {
  (void)state;
  enum { DEEP = 200000 };
  static char text[2 * DEEP];
  embed_context *ctx = new_context();
  for (int deep = 63; deep <= 65; ++deep)
    for (int open = 0; open < 2; ++open) { /* arrays alone, and objects in turns */
      char *at = text;
      for (int i = 0; i < deep; ++i) at = stpcpy(at, open && i % 2 ? "{\"a\":" : "[");
      *at++ = '0';
      for (int i = deep; i-- > 0;) *at++ = open && i % 2 ? '}' : ']';
      outcome o = read_whole(ctx, text, (size_t)(at - text), NULL, NULL);
      assert_int_equal(o.status, deep > 64 ? EMBED_E_FORMAT : EMBED_OK);
      if (deep > 64) assert_int_equal(o.at, open ? 32 + 32 * 5 : 64);
    }
  memset(text, '[', DEEP);
  memset(text + DEEP, ']', DEEP);
  assert_int_equal(read_whole(ctx, text, sizeof text, NULL, NULL).at, 64);
  embed_context_release(ctx);
}

static size_t many_keys(char *text, int count, int repeat) { /* the last key says number `repeat` again, -1 = none */
  char *at = stpcpy(text, "{");
  for (int i = 0; i < count; ++i) at += sprintf(at, "%s\"%d\":{\"x\":%d}", i ? "," : "", i == count - 1 && repeat >= 0 ? repeat : i, i);
  return (size_t)(stpcpy(at, "}") - text);
}

static void a_key_twice_among_many_is_found(void **state) {
  (void)state;
  enum { COUNT = 5000 };
  static char text[COUNT * 24];
  static const int repeats[] = {0, 1, COUNT / 2, COUNT - 2};
  embed_context *ctx = new_context();
  assert_int_equal(read_whole(ctx, text, many_keys(text, COUNT, -1), NULL, NULL).status, EMBED_OK);
  for (size_t i = 0; i < sizeof repeats / sizeof *repeats; ++i) {
    size_t bytes = many_keys(text, COUNT, repeats[i]);
    outcome o = read_whole(ctx, text, bytes, NULL, NULL);
    assert_int_equal(o.status, EMBED_E_FORMAT);
    assert_int_equal(text[o.at], '"');
    assert_int_equal(atoi(text + o.at + 1), repeats[i]);
    assert_true(o.at > (int64_t)bytes - 30);
  }
  embed_context_release(ctx);
}

/* Keys that meet in one slot of a hash whose key they know: told apart all the same, and not by comparing all with all. */
static void keys_chosen_against_the_quick_hash_are_told_apart(void **state) {
  (void)state;
  enum { COUNT = 2000 };
  static char text[COUNT * 24];
  static const uint64_t seed[2] = {3, 5};
  embed_context *ctx = new_context();
  for (int twice = 0; twice < 2; ++twice) {
    char *at = stpcpy(text, "{");
    int64_t last = 0;
    for (uint64_t i = 0, found = 0; found < COUNT; ++i) {
      char word[24];
      int bytes = sprintf(word, "%llx", (unsigned long long)i);
      if (embed__hash(seed, word, bytes) & 0xFFF) continue;
      last = at - text + 1;
      at += sprintf(at, "%s\"%s\":0", found ? "," : "", word);
      ++found;
    }
    if (twice) { /* the last is the first again */
      const size_t bytes = strcspn(text + 1, ":");
      memcpy(text + last, text + 1, bytes);
      at = stpcpy(text + last + bytes, ":0");
    }
    at = stpcpy(at, "}");
    embed__json j;
    embed__json_begin(&j, ctx, "t", text, at - text, 0);
    memcpy(j.seed, seed, sizeof seed);
    j.seeded = true;
    embed_status status = embed__json_skip(&j);
    embed__json_end(&j);
    assert_int_equal(status, twice ? EMBED_E_FORMAT : EMBED_OK);
    if (twice) assert_int_equal(ctx->error_at, last);
  }
  embed_context_release(ctx);
}

/* --- Against jansson, and against itself */

#ifdef HAVE_JANSSON
static size_t put_random(uint64_t *seed, char *out, int depth) {
  static const char *const scalars[] = {
      "0",     "-1",   "12",   "1.5",   "-2e3",           "1E+2",         "9223372036854775807", "true",
      "false", "null", "\"\"", "\"a\"", "\"\\n\\u00e9\"", "\"\xC3\xA9\"", "\"\\ud83d\\ude00\"",  "\"\xF0\x9F\x98\x80 and more text\""};
  static const char *const keys[] = {"\"a\"", "\"b\"", "\"\\u0061\"", "\"\"",  "\"key\"", "\"\xE4\xB8\xAD\"", "\"\\\"\"", "\"a b\"", "\"c\"", "\"d\"", "\"e\"",
                                     "\"f\"", "\"g\"", "\"h\"",       "\"i\"", "\"j\""};
  static const char *const blanks[] = {"", "", "", " ", "\n", "\t "};
  char *at = out;
  uint64_t what = test_random(seed) >> 33;
  if (depth == 0 || what % 4 == 0) return (size_t)(stpcpy(at, scalars[what / 4 % 16]) - out);
  int object = what % 2, count = (int)(what / 8 % (depth == 3 ? 14 : 4));
  *at++ = object ? '{' : '[';
  for (int i = 0; i < count; ++i) {
    uint64_t more = test_random(seed) >> 33;
    if (i) *at++ = ',';
    at = stpcpy(at, blanks[more % 6]);
    if (object) {
      at = stpcpy(at, keys[more % 3 ? (unsigned)(i + (int)(what % 3)) % 16 : more / 8 % 16]);
      at = stpcpy(at, more % 5 ? ":" : " : ");
    }
    at += put_random(seed, at, depth - 1);
    at = stpcpy(at, blanks[more / 64 % 6]);
  }
  *at++ = object ? '}' : ']';
  return (size_t)(at - out);
}

static size_t random_text(uint64_t *seed, char *out) {
  static const char values[] = "\"\"\\{}[]:,0123456789eE+-. \tntfu/abd\x80\xC3\xE4\xF0\xED\xA0\xBF\xFF\x01";
  size_t bytes = put_random(seed, out, 3);
  int changes = (int)(test_random(seed) >> 62); /* a quarter stays as it is */
  for (int i = 0; i < changes && bytes; ++i) {
    uint64_t r = test_random(seed) >> 20;
    size_t at = r / 4 % bytes;
    char value = values[r / 65536 % (sizeof values - 1)]; /* no NUL: jansson loses one behind a number */
    if (r % 4 == 0) {                                     /* one less, one more, another */
      memmove(out + at, out + at + 1, --bytes - at);
    } else if (r % 4 == 1) {
      memmove(out + at + 1, out + at, bytes++ - at);
      out[at] = value;
    } else {
      out[at] = value;
    }
  }
  return bytes;
}
#endif

static void jansson_takes_and_refuses_the_same_texts(void **state) {
  (void)state;
#ifdef HAVE_JANSSON
  enum { ROUNDS = 60000, ROOM = 16384 };
  static char text[ROOM];
  uint64_t seed = 20240229;
  int taken = 0;
  embed_context *ctx = new_context();
  for (int round = 0; round < ROUNDS; ++round) {
    json_error_t error;
    size_t bytes = random_text(&seed, text);
    outcome o = read_whole(ctx, text, bytes, NULL, NULL);
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    taken += value != NULL;
    if ((o.status == EMBED_OK) != (value != NULL)) fail_msg("%.*s: %s; jansson: %s", (int)bytes, text, o.says, value ? "takes it" : error.text);
    json_decref(value);
  }
  assert_in_range(taken, ROUNDS / 8, ROUNDS * 7 / 8); /* both answers were tried */
  embed_context_release(ctx);
#else
  skip();
#endif
}

/* Where the two differ, on purpose. */
static void jansson_differs_where_it_is_said(void **state) {
  (void)state;
#ifdef HAVE_JANSSON
  static const struct {
    const char *text;
    size_t bytes, flags;
    embed_status ours;
    bool jansson;
  } cases[] = {
      {TEXT("\"\\u0000\""), JSON_DECODE_ANY, EMBED_OK, false}, /* asked for with JSON_ALLOW_NUL */
      {TEXT("{\"\\u0000\":1}"), JSON_ALLOW_NUL, EMBED_OK, false},
      {TEXT("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"), 0,
       EMBED_E_FORMAT, true},
      {TEXT("{\"a\":1,\"a\":2}"), 0, EMBED_E_FORMAT, true}, /* refused with JSON_REJECT_DUPLICATES */
      {TEXT("1"), 0, EMBED_OK, false},                      /* taken with JSON_DECODE_ANY */
      {TEXT("[5\0]"), 0, EMBED_E_FORMAT, true},             /* the NUL is lost */
      {TEXT("true\0"), JSON_DECODE_ANY, EMBED_E_FORMAT, true},
  };
  embed_context *ctx = new_context();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    json_t *value = json_loadb(cases[i].text, cases[i].bytes, cases[i].flags, NULL);
    assert_int_equal(read_whole(ctx, cases[i].text, cases[i].bytes, NULL, NULL).status, cases[i].ours);
    assert_int_equal(value != NULL, cases[i].jansson);
    json_decref(value);
  }
  embed_context_release(ctx);
#else
  skip();
#endif
}

static void a_text_cut_at_any_byte_is_refused(void **state) {
  (void)state;
  static const char text[] = "{\"a\\u00e9\\ud83d\\ude00\":[1.5e3,-2,true,null,\"\xF0\x9F\x98\x80\"],\"b\":{}}";
  embed_context *ctx = new_context();
  for (size_t bytes = 0; bytes < sizeof text - 1; ++bytes) {
    outcome o = read_whole(ctx, text, bytes, NULL, NULL);
    assert_int_equal(o.status, EMBED_E_FORMAT);
    assert_true(o.at <= (int64_t)bytes);
  }
  assert_int_equal(read_whole(ctx, text, sizeof text - 1, NULL, NULL).status, EMBED_OK);
  embed_context_release(ctx);
}

/* --- Memory */

typedef struct failing {
  int64_t calls, fail_at, blocks, peak, bytes;
} failing;

static void *failing_allocate(void *arg, size_t bytes, size_t alignment) {
  failing *f = arg;
  if (++f->calls == f->fail_at) return NULL;
  ++f->blocks;
  f->bytes += (int64_t)bytes;
  if (f->bytes > f->peak) f->peak = f->bytes;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void failing_release(void *arg, void *memory, size_t bytes, size_t alignment) {
  failing *f = arg;
  (void)alignment;
  --f->blocks;
  f->bytes -= (int64_t)bytes;
  free(memory);
}

static void memory_is_bounded_by_the_text_and_its_lack_reported(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  static char text[COUNT * 24];
  failing f = {.fail_at = 0};
  embed_allocator a = {.size = sizeof a, .arg = &f, .allocate = failing_allocate, .release = failing_release};
  embed_context_options o = {.size = sizeof o, .allocator = &a};
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
  size_t bytes = many_keys(text, COUNT, -1);
  const int64_t blocks = f.blocks, held = f.bytes;
  f.peak = held;
  f.calls = 0;
  assert_int_equal(read_whole(ctx, text, bytes, NULL, NULL).status, EMBED_OK);
  assert_true(f.peak - held <= 6 * (int64_t)bytes);
  const int64_t calls = f.calls;
  assert_true(calls > 2);
  for (int64_t k = 1; k <= calls; ++k) {
    f.calls = 0;
    f.fail_at = k;
    assert_int_equal(read_whole(ctx, text, bytes, NULL, NULL).status, EMBED_E_MEMORY);
    assert_int_equal(f.blocks, blocks);
  }
  f.fail_at = 0;
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(tokens_come_in_the_texts_order),
    cmocka_unit_test(integers_are_exact_to_the_last_of_64_bits),
    cmocka_unit_test(a_value_is_skipped_whole),
    cmocka_unit_test(what_is_no_json_is_refused_at_its_byte),
    cmocka_unit_test(numbers_past_64_bits_or_double_are_an_overflow),
    cmocka_unit_test(containers_nest_64_deep_and_no_deeper),
    cmocka_unit_test(a_key_twice_among_many_is_found),
    cmocka_unit_test(keys_chosen_against_the_quick_hash_are_told_apart),
    cmocka_unit_test(jansson_takes_and_refuses_the_same_texts),
    cmocka_unit_test(jansson_differs_where_it_is_said),
    cmocka_unit_test(a_text_cut_at_any_byte_is_refused),
    cmocka_unit_test(memory_is_bounded_by_the_text_and_its_lack_reported),
};
TEST_MAIN(tests)
