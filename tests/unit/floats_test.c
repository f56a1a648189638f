/* SPDX-License-Identifier: BSD-3-Clause */
/* Text to float: the bits of the C library's strtof (this program never leaves the C locale), and no byte more is read. */
#include "test.h"

#include <fenv.h>
#include <float.h>
#include <math.h>

#include "io/floats.h"

static uint32_t bits_of(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return bits;
}

static float float_of(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

/* `text` reads as strtof reads it, whatever follows it. */
static void reads_as_strtof(const char *text) {
  const char *const behind[] = {"", " ", "\n00000000", "x", " 1 2 3 4 5 6 7 8 9"};
  char line[4096];
  char *want_end;
  const float want = strtof(text, &want_end);
  const size_t bytes = (size_t)(want_end - text);
  for (size_t i = 0; i < sizeof behind / sizeof *behind; ++i) {
    const int all = snprintf(line, sizeof line, "%s%s", text, behind[i]);
    assert_true(all > 0 && all < (int)sizeof line);
    const unsigned char *at = (const unsigned char *)line;
    float got = 12345.0f;
    const unsigned char *end = embed__read_float(at, at + all, &got);
    if (end != at + bytes || bits_of(got) != bits_of(want))
      fail_msg("%s: got %a (%ld bytes), wanted %a (%ld)", line, (double)got, end ? (long)(end - at) : -1L, (double)want, (long)bytes);
  }
}

/* A row of numbers has a quick way through the usual forms where much of it is still to come; the last of a row goes the other. */
static void reads_in_a_row(const char *text, float want) {
  static const char *const behind[] = {"", " 0.25 -0.5 0.125 1.5 -2.5", "\n0000000000000000000000000000", "x999999999999999999999999999999"};
  char line[1024];
  for (size_t i = 0; i < sizeof behind / sizeof *behind; ++i) {
    const int before = snprintf(line, sizeof line, " 0.5 %s", text), all = snprintf(line, sizeof line, " 0.5 %s%s", text, behind[i]);
    assert_true(before > 0 && all < (int)sizeof line);
    const unsigned char *at = (const unsigned char *)line;
    float got[2] = {7.0f, 7.0f};
    const unsigned char *end = embed__read_floats(at, at + all, 2, got);
    if (isinf(want)) {
      assert_null(end);
      continue;
    }
    if (end != at + before || bits_of(got[0]) != bits_of(0.5f) || bits_of(got[1]) != bits_of(want))
      fail_msg("%s: got %a (%ld bytes), wanted %a (%d)", line, (double)got[1], end ? (long)(end - at) : -1L, (double)want, before);
  }
}

static void random_bit_patterns_in_every_usual_form_read_exactly(void **state) {
  enum { COUNT = 1000000 };
  static const char *const forms[] = {"%.9g", "%.6f", "%.8e", "%.17g", "%.5f", "%.7g"};
  uint64_t seed = 1;
  char text[512];
  (void)state;
  for (int i = 0; i < COUNT; ++i) {
    const float value = float_of((uint32_t)(test_random(&seed) >> 32));
    if (!isfinite(value)) continue;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; ++f) {
      float got, want;
      const int bytes = snprintf(text, sizeof text, forms[f], (double)value);
      const unsigned char *at = (const unsigned char *)text;
      want = strtof(text, NULL);
      if (embed__read_float(at, at + bytes, &got) != at + bytes || bits_of(got) != bits_of(want))
        fail_msg("%s: got %a, wanted %a", text, (double)got, (double)want);
      if (i % 32 == 0) reads_in_a_row(text, want);
    }
  }
}

/* The sizes that vectors have, and the shortest text that gives the float back. */
static void vector_like_numbers_read_exactly(void **state) {
  enum { COUNT = 300000 };
  uint64_t seed = 2;
  char text[64];
  (void)state;
  for (int i = 0; i < COUNT; ++i) {
    const float value = test_uniform(&seed) * (i % 3 ? 1.0f : 20.0f);
    int digits = 1;
    do snprintf(text, sizeof text, "%.*g", digits, (double)value);
    while (strtof(text, NULL) != value && ++digits);
    const unsigned char *at = (const unsigned char *)text;
    float got;
    assert_ptr_equal(embed__read_float(at, at + strlen(text), &got), at + strlen(text));
    assert_int_equal(bits_of(got), bits_of(value));
    if (i % 8 == 0) reads_in_a_row(text, value);
    for (int decimals = 1; i % 64 == 0 && decimals <= 17; ++decimals) {
      snprintf(text, sizeof text, i % 128 ? "%.*f" : "%.*e", decimals, (double)value);
      reads_in_a_row(text, strtof(text, NULL));
    }
  }
}

/* Whole numbers of 25 bits and halves of such lie exactly between two floats, and have few digits. */
static void short_middles_go_to_the_even_neighbour(void **state) {
  uint64_t seed = 6;
  (void)state;
  for (int i = 0; i < 20000; ++i) {
    char text[64];
    const uint32_t odd = 0x01000001u | (uint32_t)(test_random(&seed) >> 40);
    snprintf(text, sizeof text, i % 2 ? "%.8e" : "-%.11e", (double)odd / (i % 4 < 2 ? 1.0 : 8.0));
    const float want = strtof(text, NULL);
    assert_int_equal(bits_of(want) & 1, 0);
    reads_in_a_row(text, want);
    /* All but a middle, and the nearest double is that middle: the 15th decimal decides. */
    snprintf(text, sizeof text, "%.15f", ldexp((double)odd, i % 2 ? -22 : -21));
    reads_in_a_row(text, strtof(text, NULL));
  }
}

static void the_hosts_rounding_mode_changes_nothing(void **state) {
  static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  enum { COUNT = 2000, DIM = 8 };
  uint64_t seed = 7;
  (void)state;
  for (int i = 0; i < COUNT; ++i) {
    char text[32 * DIM];
    float want[DIM], got[DIM];
    size_t n = 0;
    for (int j = 0; j < DIM; ++j) n += (size_t)snprintf(text + n, sizeof text - n, " %.8f", (double)test_uniform(&seed));
    const unsigned char *at = (const unsigned char *)text;
    assert_ptr_equal(embed__read_floats(at, at + n, DIM, want), at + n);
    for (int m = 0; m < 3; ++m) {
      assert_int_equal(fesetround(modes[m]), 0);
      const unsigned char *end = embed__read_floats(at, at + n, DIM, got);
      fesetround(FE_TONEAREST);
      assert_ptr_equal(end, at + n);
      assert_memory_equal(got, want, sizeof want);
    }
  }
}

/* Random digits, points and exponents: no number that a float printed. */
static void random_decimals_read_exactly(void **state) {
  enum { COUNT = 400000 };
  uint64_t seed = 3;
  (void)state;
  for (int i = 0; i < COUNT; ++i) {
    char text[96];
    size_t n = 0;
    const int digits = 1 + (int)(test_random(&seed) >> 59), point = (int)(test_random(&seed) >> 58);
    if (test_random(&seed) >> 63) text[n++] = "+-"[test_random(&seed) >> 63];
    for (int d = 0; d < digits; ++d) {
      if (d == point) text[n++] = '.';
      text[n++] = (char)('0' + (test_random(&seed) >> 32) % (i % 4 ? 10 : 2)); /* every fourth: many zeros */
    }
    text[n] = '\0';
    if (test_random(&seed) >> 63) snprintf(text + n, sizeof text - n, "e%d", (int)(test_random(&seed) >> 32) % 60 - 30 - digits * (i % 2));
    const unsigned char *at = (const unsigned char *)text;
    float got, want = strtof(text, NULL);
    if (embed__read_float(at, at + strlen(text), &got) != at + strlen(text) || bits_of(got) != bits_of(want))
      fail_msg("%s: got %a, wanted %a", text, (double)got, (double)want);
    if (i % 8 == 0) reads_in_a_row(text, want);
  }
}

/* Exactly between two floats (a double holds the middle, and printf all its digits), and a hair to either side. */
static void middles_go_to_the_even_neighbour_and_a_hair_decides(void **state) {
  enum { COUNT = 3000, ROOM = 400 };
  uint64_t seed = 4;
  (void)state;
  for (int i = 0; i < COUNT; ++i) {
    char text[ROOM];
    uint32_t low = (uint32_t)(test_random(&seed) >> 33);
    if (i % 3 == 0) low &= 0x00FFFFFF; /* subnormal */
    if (i % 5 == 0) low = i % 2 ? 0x7F7FFFFF - (uint32_t)i : (uint32_t)i;
    if (low >= 0x7F7FFFFF) continue;
    const double middle = ((double)float_of(low) + (double)float_of(low + 1)) / 2;
    snprintf(text, sizeof text, "%.200f", middle); /* 2^-150 has 150 digits behind the point */
    reads_as_strtof(text);
    assert_int_equal(bits_of(strtof(text, NULL)) & 1, 0);
    strcat(text, "000000001");
    reads_as_strtof(text);
    assert_int_equal(bits_of(strtof(text, NULL)), low + 1);
    snprintf(text, sizeof text, "%.60e", middle); /* below the middle or at it, above or at it */
    reads_as_strtof(text);
    for (char *p = strchr(text, 'e') - 1; p > text; --p)
      if (*p != '.' && *p != '0') {
        --*p;
        break;
      }
    reads_as_strtof(text);
  }
}

static void the_ends_of_the_range_read_as_strtof_reads_them(void **state) {
  static const char *const texts[] = {"0",
                                      "-0",
                                      "+0",
                                      "0.0",
                                      "-0.000e5",
                                      "0e999999999999",
                                      "1e-45",
                                      "7.0064923216240853e-46",
                                      "7.0064923216240854e-46",
                                      "7.00649232162408535461864791644958065640130970938257885878534141944895541342930300743319094181060791015625e-46",
                                      "7.006492321624085354618647916449580656401309709382578858785341419448955413429303007433190941810607910156251e-46",
                                      "1.4e-45",
                                      "2.1e-45",
                                      "1e-46",
                                      "3e-46",
                                      "-1e-60",
                                      "1e-99999999999999999999",
                                      "1.17549435e-38",
                                      "1.1754943508222875e-38",
                                      "1.17549429e-38",
                                      "3.4028234e38",
                                      "3.4028235e38",
                                      "3.40282346638528859811704183484516925440e38",
                                      "3.4028235677973366e38",
                                      "3.402823567797336616375393954581425684479999999999e38",
                                      "3.4028235677973366163753939545814256844e38",
                                      "3.5e38",
                                      "-1e39",
                                      "1e40",
                                      "1e99999999999999999999999",
                                      "340282346638528859811704183484516925440",
                                      "16777217",
                                      "16777219",
                                      "33554431",
                                      "9007199254740993",
                                      "1e10",
                                      "1e22",
                                      "1e23",
                                      "1e27",
                                      "1e28",
                                      "1e38",
                                      "123456789012345678",
                                      "1234567890123456789",
                                      "12345678901234567890",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "99999999999999999999",
                                      "00000000000000000000000000012.5",
                                      "0.00000000000000000000000000000000000000000000012345678",
                                      ".5",
                                      "5.",
                                      "+.5",
                                      "-5.e3",
                                      "1E+2",
                                      "1e+02",
                                      "1e-05"};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    reads_as_strtof(texts[i]);
    reads_in_a_row(texts[i], strtof(texts[i], NULL));
  }
}

static void numbers_of_800_digits_read_exactly(void **state) {
  enum { DIGITS = 800 };
  static char text[DIGITS + 64];
  uint64_t seed = 5;
  (void)state;
  for (int i = 0; i < 200; ++i) {
    size_t n = 0;
    for (int d = 0; d < DIGITS; ++d) text[n++] = (char)('0' + (test_random(&seed) >> 32) % 10);
    if (i % 2) text[i * 3] = '.';
    snprintf(text + n, sizeof text - n, "e%d", -(i % 2 ? i * 3 : DIGITS) + i % 70 - 35);
    reads_as_strtof(text);
  }
  for (int zeros = 700; zeros < 720; ++zeros) { /* 1 in front of or behind many zeros, brought back by its exponent */
    snprintf(text, sizeof text, "1%0*de-%d", zeros, 0, zeros - 3);
    reads_as_strtof(text);
    snprintf(text, sizeof text, "0.%0*d1234567e%d", zeros, 0, zeros + 3);
    reads_as_strtof(text);
    snprintf(text, sizeof text, "16777217.%0*d", zeros, 0);
    reads_as_strtof(text);
    snprintf(text, sizeof text, "16777217.%0*d", zeros, 1);
    reads_as_strtof(text);
    assert_true(strtof(text, NULL) == 16777218.0f);
  }
}

static void words_read_as_strtof_reads_them(void **state) {
  static const char *const words[] = {"inf", "-inf", "+INF", "Infinity", "-INFINITY", "nan", "NaN", "-nan", "infinit", "infx"};
  (void)state;
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i) reads_as_strtof(words[i]);
}

static void what_is_no_number_is_none(void **state) {
  static const struct {
    const char *text;
    int reads; /* bytes; -1 = no number begins there */
  } cases[] = {{"", -1},    {"-", -1},     {"+", -1},    {".", -1},  {"-.", -1},       {".e5", -1},   {"e5", -1},   {" 1", -1},
               {"--1", -1}, {"+-1", -1},   {"x", -1},    {"in", -1}, {"na", -1},       {"i", -1},     {"\xB2", -1}, {"\t1", -1},
               {"0x10", 1}, {"0,5", 1},    {"1e", 1},    {"1e+", 1}, {"1e-x", 1},      {"1.5.2", 3},  {"0.1x", 3},  {"1 2", 1},
               {"1d5", 1},  {"nan(1)", 3}, {"1_000", 1}, {"5.e", 2}, {"12345678x", 8}, {"1\0002", 1}, {"--", -1},   {"1e5e5", 3}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    float got = 7.0f;
    const unsigned char *at = (const unsigned char *)cases[i].text, *end = embed__read_float(at, at + strlen(cases[i].text), &got);
    if ((cases[i].reads < 0) != (end == NULL) || (end && end != at + cases[i].reads)) fail_msg("\"%s\": %ld", cases[i].text, end ? (long)(end - at) : -1L);
    if (!end) assert_true(got == 7.0f);
  }
}

static void no_byte_at_the_end_or_behind_is_read(void **state) {
  static const char *const texts[] = {"1",        "-",        "+1.", "-12345678", "1234567.1234567", "-0.12345678901234567890", "1e", "1e-", "1e-12", "inf",
                                      "-infinit", "infinity", "na",  "."};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i)
    for (size_t bytes = 0; bytes <= strlen(texts[i]); ++bytes) {
      guarded g = guarded_new(bytes, 1);
      char copy[64] = {0};
      char *want_end;
      float got = 0;
      memcpy(g.at, texts[i], bytes);
      memcpy(copy, texts[i], bytes);
      const float want = strtof(copy, &want_end);
      const unsigned char *end = embed__read_float(g.at, g.at + bytes, &got);
      assert_int_equal(end ? end - g.at : 0, want_end - copy);
      assert_int_equal(bits_of(got), bits_of(want));
      guarded_free(g);
    }
}

static void rows_of_numbers_have_one_blank_before_each(void **state) {
  static const struct {
    const char *text;
    int reads;
  } cases[] = {{" 1 -2.5 3e2", 11}, {" 1 -2.5 3e2 4", 11}, {" 1 -2.5 3e2\n", 11}, {" 1 -2.5 3e2x", 11}, {"1 2 3", -1},     {" 1 2", -1},
               {" 1  2 3", -1},     {" 1\t2 3", -1},       {" 1 2 x", -1},        {" 1 2 inf", -1},     {" 1 2 1e39", -1}, {" 1 nan 3", 8}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    guarded g = guarded_new(strlen(cases[i].text), 1);
    float got[3];
    memcpy(g.at, cases[i].text, strlen(cases[i].text));
    const unsigned char *end = embed__read_floats(g.at, g.at + strlen(cases[i].text), 3, got);
    assert_int_equal(end ? end - g.at : -1, cases[i].reads);
    if (i < 4) assert_true(got[0] == 1.0f && got[1] == -2.5f && got[2] == 300.0f);
    guarded_free(g);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(random_bit_patterns_in_every_usual_form_read_exactly),
    cmocka_unit_test(vector_like_numbers_read_exactly),
    cmocka_unit_test(random_decimals_read_exactly),
    cmocka_unit_test(middles_go_to_the_even_neighbour_and_a_hair_decides),
    cmocka_unit_test(short_middles_go_to_the_even_neighbour),
    cmocka_unit_test(the_hosts_rounding_mode_changes_nothing),
    cmocka_unit_test(the_ends_of_the_range_read_as_strtof_reads_them),
    cmocka_unit_test(numbers_of_800_digits_read_exactly),
    cmocka_unit_test(words_read_as_strtof_reads_them),
    cmocka_unit_test(what_is_no_number_is_none),
    cmocka_unit_test(no_byte_at_the_end_or_behind_is_read),
    cmocka_unit_test(rows_of_numbers_have_one_blank_before_each),
};
TEST_MAIN(tests)
