/* SPDX-License-Identifier: BSD-3-Clause */
/* Floats as text at every level: the bytes that embed__write_float writes of each alone, which unit/write_float_test.c holds against printf. */
#include "timed.h"

#include "io/floats.h"

enum { MOST = 200, PADDED = MOST * EMBED__DIGITS_TEXT };

static int write_alone(uint32_t bits, char *out) { return embed__write_float(embed__f32_of_bits(bits), out); }

static void put_bits(unsigned char *out, uint32_t bits) {
  for (int k = 0; k < 4; ++k) out[k] = (unsigned char)(bits >> (8 * k));
}

/* As `other` would write all of them: the kernel may ask it for none, some or all. */
static int64_t write_each(const unsigned char *numbers, int64_t count, char *out) {
  char *p = out;
  for (int64_t i = 0; i < count; ++i) {
    const unsigned char *at = numbers + 4 * i;
    *p++ = ' ';
    p += write_alone(at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24, p);
  }
  return p - out;
}

/* numbers end at a page that cannot be read, and the room for text at one that cannot be written. */
static void check_texts(const embed__kernels *k, const unsigned char *numbers, int64_t count) {
  static char want[PADDED + EMBED__DIGITS_TEXT];
  const int64_t length = write_each(numbers, count, want);
  guarded text = guarded_new((size_t)(count * EMBED__DIGITS_TEXT), 1);
  memset(text.at, '?', (size_t)(count * EMBED__DIGITS_TEXT));
  const char *end = k->digits.floats(numbers, count, (char *)text.at, embed__powers_of_ten, write_alone);
  assert_int_equal(end - (char *)text.at, length);
  if (count) assert_memory_equal(text.at, want, (size_t)length);
  guarded_free(text);
}

static uint32_t number_of(int kind, uint64_t *state) {
  const uint32_t bits = (uint32_t)(test_random(state) >> 20);
  switch (kind) {
    case 0: return (bits >> 23 & 255) == 255 ? 0 : bits;                                      /* any */
    case 1: return bits & 0xFFFF0000 & ((bits >> 23 & 255) == 255 ? 0 : UINT32_MAX);          /* widened bfloats */
    case 2: return embed__bits_of_f32((float)((int)(bits >> 8 & 0xFFFFF) - 0x80000) / 10000); /* few digits */
    default: return (bits & 0x807FFFFF) | (110 + (bits >> 23 & 31)) << 23;                    /* as vectors have them, and what lies around */
  }
}

static void check_random(const embed__kernels *k) {
  uint64_t state = 5;
  guarded numbers = guarded_new(4 * MOST, 1);
  for (int round = 0; round < 4000; ++round) {
    const int64_t count = round <= MOST ? round : (int64_t)(test_random(&state) >> 33) % (MOST + 1);
    unsigned char *at = numbers.at + 4 * (MOST - count);
    for (int64_t i = 0; i < count; ++i) put_bits(at + 4 * i, number_of(round % 5, &state));
    check_texts(k, at, count);
  }
  guarded_free(numbers);
}
static void texts_are_those_of_each_number_alone(void **state) {
  (void)state;
  each_level(0, check_random);
}

/* Both signs of the first and last fractions of each power, of those in its middle, and of the decimals 1 to 9 of each power of ten. */
static void check_edges(const embed__kernels *k) {
  enum { AROUND = 24 };
  unsigned char numbers[4 * MOST + 1];
  for (uint32_t power = 0; power < 255; ++power)
    for (uint32_t middle = 0; middle < 3; ++middle) {
      int64_t count = 0;
      for (uint32_t step = 0; step < 2 * AROUND; ++step)
        for (uint32_t sign = 0; sign < 2; ++sign, ++count)
          put_bits(numbers + 1 + 4 * count, sign << 31 | power << 23 | ((middle * 0x400000u + step - AROUND) & 0x7FFFFF));
      check_texts(k, numbers + 1, count);
    }
  for (int power = -45; power <= 38; ++power) {
    for (int digit = 1; digit <= 9; ++digit) {
      const double number = digit * pow(10, power);
      put_bits(numbers + 4 * (digit - 1), number < 3.4e38 ? embed__bits_of_f32((float)number) : 0);
    }
    check_texts(k, numbers, 9);
  }
}
static void edges_of_every_power_are_too(void **state) {
  (void)state;
  each_level(0, check_edges);
}

static void check_infinite(const embed__kernels *k) {
  static const uint32_t broken[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0xFF812345, 0x7FFFFFFF};
  static char text[PADDED];
  unsigned char numbers[4 * MOST];
  for (int64_t count = 1; count <= MOST; count += count < 20 ? 1 : 37)
    for (int64_t at = 0; at < count; ++at) {
      for (int64_t i = 0; i < count; ++i) put_bits(numbers + 4 * i, 0x3DCCCCCD + (uint32_t)i);
      put_bits(numbers + 4 * at, broken[at % 5]);
      assert_null(k->digits.floats(numbers, count, text, embed__powers_of_ten, write_alone));
    }
}
static void no_text_where_a_number_is_not_finite(void **state) {
  (void)state;
  each_level(0, check_infinite);
}

/* The digits of numbers that vectors have are not left to the caller: that is four times slower. Above 4,096 floats have so few binary digits
 * behind the point that one in 64 lies just between two decimals. */
static int64_t asked;
static int count_call(uint32_t bits, char *out) {
  ++asked;
  return write_alone(bits, out);
}
static void check_asked(const embed__kernels *k) {
  static char text[PADDED];
  unsigned char numbers[4 * MOST];
  uint64_t state = 9;
  asked = 0;
  for (int round = 0; round < 100; ++round) {
    for (int64_t i = 0; i < MOST; ++i) put_bits(numbers + 4 * i, embed__bits_of_f32(0.001f + 9 * fabsf(test_uniform(&state))) | (uint32_t)(i & 1) << 31);
    assert_non_null(k->digits.floats(numbers, MOST, text, embed__powers_of_ten, count_call));
  }
  assert_in_range(asked, 0, 10);
}
static void hardly_a_usual_number_is_left_to_the_caller(void **state) {
  (void)state;
  each_level(0, check_asked);
}

/* --- timed: 4,096 numbers of vectors --- */

typedef struct timed_text {
  const embed__kernels *k;
  const unsigned char *numbers;
  char *text;
  int64_t count;
} timed_text;

static void run_text(void *job) {
  timed_text *t = job;
  t->k->digits.floats(t->numbers, t->count, t->text, embed__powers_of_ten, write_alone);
}

static void time_text(const embed__kernels *k, kernel_timer *timer) {
  enum { COUNT = 4096 };
  static unsigned char numbers[4 * COUNT];
  static char text[COUNT * EMBED__DIGITS_TEXT];
  uint64_t state = 3;
  for (int64_t i = 0; i < COUNT; ++i) put_bits(numbers + 4 * i, embed__bits_of_f32(test_uniform(&state)));
  timed_text t = {k, numbers, text, COUNT};
  kernel_bench(timer, &(timed_case){"floats", (timed_kernel *)k->digits.floats, run_text, &t, 4.0 * COUNT, TIMED_BYTES});
}
KERNEL_CASES(time_text)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(texts_are_those_of_each_number_alone),
    cmocka_unit_test(edges_of_every_power_are_too),
    cmocka_unit_test(no_text_where_a_number_is_not_finite),
    cmocka_unit_test(hardly_a_usual_number_is_left_to_the_caller),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("digits", tests, time_text)
