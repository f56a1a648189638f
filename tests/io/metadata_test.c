/* SPDX-License-Identifier: BSD-3-Clause */
/* The key-value pairs of a file: in its order, as text, whatever the locale. */
#include "gguf_file.h"

#include <locale.h>
#include <math.h>

static void pair_is(embed_context *ctx, const embed_file *f, int64_t i, const char *key, const char *value, int64_t bytes) {
  const char *got_key = NULL, *got = NULL;
  int64_t got_bytes = -1;
  assert_int_equal(embed_file_metadata(ctx, f, i, &got_key, &got, &got_bytes), EMBED_OK);
  assert_string_equal(got_key, key);
  if (got_bytes != bytes || memcmp(got, value, (size_t)bytes)) fail_msg("%s is \"%s\", wanted \"%s\"", key, got, value);
  assert_int_equal(got[bytes], 0);
}

static void text_is(embed_context *ctx, const embed_file *f, int64_t i, const char *key, const char *value) {
  pair_is(ctx, f, i, key, value, (int64_t)strlen(value));
}

static void add_every_kind(void) {
  gg_key("a.u8", GG_U8), gg_uint(255, 1);
  gg_key("a.i8", GG_I8), gg_uint(0x80, 1);
  gg_key("a.u16", GG_U16), gg_uint(65535, 2);
  gg_key("a.i16", GG_I16), gg_uint(0x8000, 2);
  gg_key("a.u32", GG_U32), gg_u32(4294967295u);
  gg_key("a.i32", GG_I32), gg_u32(0x80000000u);
  gg_key("a.f32", GG_F32), gg_f32(1e-5f);
  gg_key("a.true", GG_BOOL), gg_uint(1, 1);
  gg_key("a.false", GG_BOOL), gg_uint(0, 1);
  gg_key("a.string", GG_STRING), gg_string("l\0l\xC3\xBC", 5);
  gg_key("a.empty", GG_STRING), gg_string("", 0);
  gg_key("a.u64", GG_U64), gg_u64(UINT64_MAX);
  gg_key("a.i64", GG_I64), gg_u64((uint64_t)1 << 63);
  gg_key("a.f64", GG_F64), gg_f64(-0.1);
}

static void values_of_every_kind_read_as_text(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  gg_begin(3, 0, 14);
  add_every_kind();
  embed_file *f = open_file(ctx, gg_written(), NULL);
  text_is(ctx, f, 0, "a.u8", "255");
  text_is(ctx, f, 1, "a.i8", "-128");
  text_is(ctx, f, 2, "a.u16", "65535");
  text_is(ctx, f, 3, "a.i16", "-32768");
  text_is(ctx, f, 4, "a.u32", "4294967295");
  text_is(ctx, f, 5, "a.i32", "-2147483648");
  text_is(ctx, f, 6, "a.f32", "9.99999975e-06");
  text_is(ctx, f, 7, "a.true", "true");
  text_is(ctx, f, 8, "a.false", "false");
  pair_is(ctx, f, 9, "a.string", "l\0l\xC3\xBC", 5);
  text_is(ctx, f, 10, "a.empty", "");
  text_is(ctx, f, 11, "a.u64", "18446744073709551615");
  text_is(ctx, f, 12, "a.i64", "-9223372036854775808");
  text_is(ctx, f, 13, "a.f64", "-0.1");
  embed_file_release(f);
  unlink(path_of("gguf"));
  embed_context_release(ctx);
}

static void the_list_ends_where_it_ends(void **state) {
  (void)state;
  static const int64_t outside[] = {-1, 14, INT64_MAX, INT64_MIN};
  embed_context *ctx = new_context(NULL);
  const char *key = "k", *value = "v";
  int64_t bytes = 42;
  gg_begin(2, 0, 14);
  add_every_kind();
  embed_file *f = open_file(ctx, gg_written(), NULL);
  for (int i = 0; i < 4; ++i) {
    assert_int_equal(embed_file_metadata(ctx, f, outside[i], &key, &value, &bytes), EMBED_E_NOT_FOUND);
    assert_non_null(strstr(embed_error_text(ctx), "there are 14"));
  }
  assert_true(*key == 'k' && *value == 'v' && bytes == 42);
  embed_file_release(f);
  unlink(path_of("gguf"));
  embed_context_release(ctx);
}

static void short_arrays_are_listed_and_long_ones_counted(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  gg_begin(3, 0, 9);
  gg_array("none", GG_F64, 0);
  gg_array("one", GG_I8, 1), gg_uint(0xFF, 1);
  gg_array("bools", GG_BOOL, 3), gg_bytes("\1\0\1", 3);
  gg_array("sixteen", GG_I64, 16);
  for (uint64_t i = 0; i < 16; ++i) gg_u64(((uint64_t)1 << 63) + i); /* as long as texts get */
  gg_array("seventeen", GG_U16, 17);
  for (uint64_t i = 0; i < 17; ++i) gg_uint(i, 2);
  gg_array("many bools", GG_BOOL, 40);
  for (int i = 0; i < 40; ++i) gg_uint(1, 1);
  gg_array("strings", GG_STRING, 2), gg_string("a", 1), gg_string("", 0);
  gg_array("no strings", GG_STRING, 0);
  gg_array("floats", GG_F32, 3), gg_f32(0.5f), gg_f32(-INFINITY), gg_f32(1e10f);
  embed_file *f = open_file(ctx, gg_written(), NULL);
  text_is(ctx, f, 0, "none", "[]");
  text_is(ctx, f, 1, "one", "[-1]");
  text_is(ctx, f, 2, "bools", "[true, false, true]");
  text_is(ctx, f, 3, "sixteen",
          "[-9223372036854775808, -9223372036854775807, -9223372036854775806, -9223372036854775805, -9223372036854775804, -9223372036854775803, "
          "-9223372036854775802, -9223372036854775801, -9223372036854775800, -9223372036854775799, -9223372036854775798, -9223372036854775797, "
          "-9223372036854775796, -9223372036854775795, -9223372036854775794, -9223372036854775793]");
  text_is(ctx, f, 4, "seventeen", "[17 numbers]");
  text_is(ctx, f, 5, "many bools", "[40 bools]");
  text_is(ctx, f, 6, "strings", "[2 strings]");
  text_is(ctx, f, 7, "no strings", "[0 strings]");
  text_is(ctx, f, 8, "floats", "[0.5, -inf, 1e+10]");
  embed_file_release(f);
  unlink(path_of("gguf"));
  embed_context_release(ctx);
}

/* Hundreds of pairs and long strings: what was handed out stays where it is. */
static void many_pairs_keep_their_places(void **state) {
  (void)state;
  enum { PAIRS = 300 };
  static char long_value[5000];
  embed_context *ctx = new_context(NULL);
  char key[32], want[32];
  memset(long_value, 'x', sizeof long_value - 1);
  gg_begin(3, 0, PAIRS + 1);
  for (int i = 0; i < PAIRS; ++i) {
    snprintf(key, sizeof key, "key.%d", i);
    gg_pair_u32(key, (uint32_t)(i * i));
    if (i == 7) gg_pair_string("long", long_value);
  }
  embed_file *f = open_file(ctx, gg_written(), NULL);
  for (int i = 0; i < PAIRS; ++i) {
    snprintf(key, sizeof key, "key.%d", i);
    snprintf(want, sizeof want, "%d", i * i);
    text_is(ctx, f, i + (i > 7), key, want);
  }
  text_is(ctx, f, 8, "long", long_value);
  embed_file_release(f);
  unlink(path_of("gguf"));
  embed_context_release(ctx);
}

/* Powers, ties at the ninth digit, carries, the ends of the range, and random bits; the C library's %.9g is the answer. */
static int make_reals(double *out, int room) {
  static const double chosen[] = {0,           -0.0,        1,           999999999.5, 999999998.5, 9.9999999995, 99999999.95, 123456789.5, 1e9,   1e-4,
                                  9.9999e-5,   0.000123456, 4194304.5,   1e22,        1e23,        5e-324,       1e-310,      1.5,         -2.75, 1e100,
                                  1.17549e-38, 3.40282e38,  1.79769e308, 0.3,         1e-7,        100,          1e8,         123456780,   1e15,  0.1};
  uint64_t seed = 7;
  int count = 0;
  for (size_t i = 0; i < sizeof chosen / sizeof *chosen; ++i) out[count++] = chosen[i];
  for (int power = -330; power <= 308; power += 11) out[count++] = pow(10, power);
  while (count < room) {
    uint64_t bits = test_random(&seed);
    memcpy(&out[count], &bits, 8);
    if (!isnan(out[count])) ++count; /* their sign is the C library's business */
  }
  return count;
}

static void reals_read_as_in_c(void **state) {
  (void)state;
  enum { REALS = 4096 };
  static double real[REALS];
  embed_context *ctx = new_context(NULL);
  int count = make_reals(real, REALS);
  char key[32], want[32];
  gg_begin(3, 0, 2 * (uint64_t)count);
  for (int i = 0; i < count; ++i) {
    snprintf(key, sizeof key, "wide.%d", i);
    gg_key(key, GG_F64), gg_f64(real[i]);
    snprintf(key, sizeof key, "narrow.%d", i);
    gg_key(key, GG_F32), gg_f32((float)real[i]);
  }
  embed_file *f = open_file(ctx, gg_written(), NULL);
  for (int i = 0; i < count; ++i) {
    snprintf(key, sizeof key, "wide.%d", i);
    snprintf(want, sizeof want, "%.9g", real[i]);
    text_is(ctx, f, 2 * i, key, want);
    snprintf(key, sizeof key, "narrow.%d", i);
    snprintf(want, sizeof want, "%.9g", (double)(float)real[i]);
    text_is(ctx, f, 2 * i + 1, key, want);
  }
  embed_file_release(f);
  unlink(path_of("gguf"));
  embed_context_release(ctx);
}

static void numbers_do_not_follow_the_locale(void **state) {
  (void)state;
  static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8", "nl_NL.UTF-8", "es_ES.UTF-8"};
  const char *found = NULL;
  for (size_t i = 0; i < sizeof commas / sizeof *commas && !found; ++i) found = setlocale(LC_ALL, commas[i]);
  if (!found) skip();
  embed_context *ctx = new_context(NULL);
  gg_begin(3, 0, 1);
  gg_key("half", GG_F32), gg_f32(0.5f);
  embed_file *f = open_file(ctx, gg_written(), NULL);
  text_is(ctx, f, 0, "half", "0.5");
  embed_file_release(f);
  unlink(path_of("gguf"));
  embed_context_release(ctx);
  setlocale(LC_ALL, "C");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(values_of_every_kind_read_as_text),
    cmocka_unit_test(the_list_ends_where_it_ends),
    cmocka_unit_test(short_arrays_are_listed_and_long_ones_counted),
    cmocka_unit_test(many_pairs_keep_their_places),
    cmocka_unit_test(reals_read_as_in_c),
    cmocka_unit_test(numbers_do_not_follow_the_locale),
};

TEST_MAIN(tests)
