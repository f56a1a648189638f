/* SPDX-License-Identifier: BSD-3-Clause */
/* Float to text: what is written reads as the same float, and no shorter text does. */
#include "test.h"

#include <float.h>
#include <math.h>

#include "io/floats.h"

static float float_of(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

/* Reads back; and printf's text of one digit less does not, so none of as few digits is nearer. */
static void gives_back(uint32_t bits) {
  char text[EMBED__FLOAT_TEXT + 1], shorter[64];
  const float x = float_of(bits);
  memset(text, '?', sizeof text);
  const int length = embed__write_float(x, text);
  assert_true(length > 0 && length <= EMBED__FLOAT_TEXT);
  assert_int_equal(text[EMBED__FLOAT_TEXT], '?'); /* room behind the text may be used */
  text[length] = '\0';
  char *end;
  const float back = strtof(text, &end);
  if (*end || memcmp(&back, &x, 4) != 0) fail_msg("%08x is written as %s", bits, text);
  int digits = 0;
  const char *p = text + strspn(text, "-0.");
  const char *stop = p + strcspn(p, "e");
  while (stop > p && (stop[-1] == '0' || stop[-1] == '.')) --stop;
  for (; p < stop; ++p) digits += *p != '.';
  snprintf(shorter, sizeof shorter, "%.*e", digits > 0 ? digits - 1 : 0, (double)x); /* of as many digits the nearest */
  if (strtof(shorter, NULL) == x && strtod(shorter, NULL) != strtod(text, NULL)) fail_msg("%08x is written as %s, %s is nearer", bits, text, shorter);
  if (digits < 2) return;
  snprintf(shorter, sizeof shorter, "%.*e", digits - 2, (double)x);
  const float other = strtof(shorter, NULL);
  if (memcmp(&other, &x, 4) == 0) fail_msg("%08x is written as %s, %s would do", bits, text, shorter);
}

static void known_numbers_are_written_as_people_write_them(void **state) {
  (void)state;
  static const struct {
    float x;
    const char *text;
  } known[] = {{0, "0"},
               {-0.0f, "-0"},
               {1, "1"},
               {-10, "-10"},
               {0.1f, "0.1"},
               {0.3f, "0.3"},
               {123456792, "123456790"},
               {1e9f, "1e+09"},
               {999999936, "999999940"},
               {0.0001f, "0.0001"},
               {0.00001f, "1e-05"},
               {-1.5f, "-1.5"},
               {1e10f, "1e+10"},
               {3.1415927f, "3.1415927"},
               {FLT_MAX, "3.4028235e+38"},
               {FLT_MIN, "1.1754944e-38"},
               {0x1p-149f, "1e-45"},
               {0x1p-24f, "5.9604645e-08"},
               {8388608.5f, "8388608"},
               {33554432, "33554432"}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    char text[EMBED__FLOAT_TEXT + 1];
    text[embed__write_float(known[i].x, text)] = '\0';
    assert_string_equal(text, known[i].text);
  }
}

static void every_power_of_two_and_its_neighbours_come_back(void **state) {
  (void)state;
  for (uint32_t power = 0; power < 255; ++power)
    for (uint32_t step = 0; step < 64; ++step) {
      if (power || step >= 32) gives_back((power << 23) + step - 32);
      gives_back((power << 23) + step);
      gives_back(1u << 31 | ((power << 23) + step));
    }
}

static void random_floats_come_back(void **state) {
  (void)state;
  uint64_t random = 3;
  for (int i = 0; i < 300000; ++i) {
    const uint32_t bits = (uint32_t)(test_random(&random) >> 16);
    if ((bits >> 23 & 255) != 255) gives_back(bits);
  }
}

static void decimals_of_few_digits_are_written_so(void **state) {
  (void)state;
  for (int i = 1; i < 100000; ++i) {
    char text[EMBED__FLOAT_TEXT + 1], want[64];
    snprintf(want, sizeof want, "0.%05d", i);
    size_t bytes = strlen(want);
    while (want[bytes - 1] == '0') want[--bytes] = '\0';
    if (i < 10) continue; /* 1e-05 */
    text[embed__write_float(strtof(want, NULL), text)] = '\0';
    assert_string_equal(text, want);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(known_numbers_are_written_as_people_write_them),
    cmocka_unit_test(every_power_of_two_and_its_neighbours_come_back),
    cmocka_unit_test(random_floats_come_back),
    cmocka_unit_test(decimals_of_few_digits_are_written_so),
};
TEST_MAIN(tests)
