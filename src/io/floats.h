/* SPDX-License-Identifier: BSD-3-Clause */
/* Decimal numbers in text, as floats. The same in every locale of the host, and correctly rounded: of all floats the
 * nearest, ties to even. */
#ifndef EMBED__FLOATS_H
#define EMBED__FLOATS_H

#include <math.h>
#include <stdint.h>

/* Reads the number that begins at `at` and returns where it ends, NULL = none begins there; no byte at `end` or behind is
 * read. What strtof reads in the C locale (an optional sign, digits with or without a point, an exponent; inf, infinity,
 * nan in any case), but no blanks before it, no hexadecimal digits and no nan(...). Past the largest float: infinite. */
const unsigned char *embed__read_float(const unsigned char *at, const unsigned char *end, float *out);

/* Reads n numbers, exactly one blank before each, and returns where the last ends. NULL: it is not so, or one of them is
 * infinite (as a word, or by its size: embed__read_float and its first byte tell); some of out may be written then. */
const unsigned char *embed__read_floats(const unsigned char *at, const unsigned char *end, int64_t n, float *out);

/* 10^q / 2^(floor(log2 10^q) - 63), rounded down, from q = EMBED__LEAST_POWER on; whole up to 10^27. */
enum { EMBED__LEAST_POWER = -64, EMBED__MOST_POWER = 45 };
extern const uint64_t embed__powers_of_ten[EMBED__MOST_POWER - EMBED__LEAST_POWER + 1];

/* The shortest text that reads as x again, of those the nearest to x, as "0.1", "-12", "1e-05"; x is finite. Returns its length. No NUL is
 * put behind it, but all of out may be written. */
enum { EMBED__FLOAT_TEXT = 17 /* the longest, -1.17549435e-38, has 15; words are put down whole */ };
int embed__write_float(float x, char out[EMBED__FLOAT_TEXT]);
/* The same of count little-endian floats, a blank before each. Returns where the text ends, NULL where one is not finite. */
struct embed__kernels;
char *embed__write_floats(const struct embed__kernels *k, const unsigned char *numbers, int64_t count, char *out); /* out [count, 1 + EMBED__FLOAT_TEXT] */

/* The text as a number, NaN = it is none, or something stands behind it. */
static inline double embed__read_number(const char *text, int64_t bytes) {
  const unsigned char *first = (const unsigned char *)text;
  float number;
  return bytes > 0 && embed__read_float(first, first + bytes, &number) == first + bytes ? (double)number : (double)NAN;
}

#endif
