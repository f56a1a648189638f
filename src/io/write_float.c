/* SPDX-License-Identifier: BSD-3-Clause */
/* Float to text, the fewest digits that give it back (Giulietti 2022, "The Schubfach way to render doubles", for floats). What reads as x
 * is an interval of numbers around it: of the multiples of 10^(k+1) at most one or two lie in it, of those of 10^k at least one does. The
 * interval's bounds are scaled by 10^-k in 64 bits; a lowest bit that says "and something more" keeps the comparisons exact. Rows of numbers
 * go through kernels/digits.h, which asks here for what it does not know. */
#include <stdbool.h>
#include <string.h>

#include "codec/codec.h"
#include "io/floats.h"

enum { WHOLE_POWER = 27, SIGNIFICANT = 9, FRACTION = 23, BIAS = 150 };

typedef struct decimal {
  uint32_t digits;
  int exponent; /* digits * 10^exponent */
} decimal;

static uint64_t power_above(int q) { return embed__powers_of_ten[q - EMBED__LEAST_POWER] + (q < 0 || q > WHOLE_POWER); }

/* The upper 32 of the product's 96 bits, the lowest 1 when bits are lost. Of a power that was rounded up the product is too large by less
 * than 2^32: a lower word of 1 may be none. */
static uint32_t scaled(uint64_t power, uint32_t bound) {
  const uint64_t product = (power >> 32) * bound + ((power & UINT32_MAX) * bound >> 32);
  return (uint32_t)(product >> 32) | ((uint32_t)product > 1);
}

static int floor_shift(int number, int bits) { return number >= 0 ? number >> bits : ~(~number >> bits); }

/* x = fraction * 2^exponent > 0; narrow: the float below is nearer than the one above. */
static decimal shortest(uint32_t fraction, int exponent, bool narrow) {
  const int k = floor_shift(exponent * 1262611 - (narrow ? 524031 : 0), 22); /* floor log10 of 2^exponent, or of 3/4 of it */
  const int shift = exponent + floor_shift(-k * 1741647, 19) + 1;            /* floor log2 of 10^-k */
  const uint64_t power = power_above(-k);
  const uint32_t odd = fraction & 1, middle = scaled(power, fraction << 2 << shift);
  const uint32_t lower = scaled(power, ((fraction << 2) - (narrow ? 1 : 2)) << shift) + odd; /* ties to even: bounds read as even ones */
  const uint32_t upper = scaled(power, ((fraction << 2) + 2) << shift) - odd;
  const uint32_t whole = middle / 4, tens = whole / 10;
  const bool below10 = lower <= 40 * tens, above10 = 40 * tens + 40 <= upper, below = lower <= 4 * whole, above = 4 * whole + 4 <= upper;
  const bool nearer = middle + (whole & 1) > 4 * whole + 2; /* the upper one; in the middle the even one */
  /* Which of them a number takes is a coin's throw, and compilers like branches: none here. */
  const bool up = (nearer & (below == above)) | (above & !below), shorter = (below10 != above10) & (whole >= 10);
  const uint32_t digits = whole + up, fewer = tens + above10;
  return (decimal){digits ^ ((digits ^ fewer) & -(uint32_t)shorter), k + shorter};
}

static int put_exponent(char *out, int exponent) { /* of two digits at least, as printf has it; no float has more */
  const int size = exponent < 0 ? -exponent : exponent;
  out[0] = 'e';
  out[1] = exponent < 0 ? '-' : '+';
  out[2] = (char)('0' + size / 10);
  out[3] = (char)('0' + size % 10);
  return 4;
}

static int count_digits(uint32_t number) { /* > 0 */
  static const uint32_t tens[] = {0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
  const int about = (32 - __builtin_clz(number)) * 1233 >> 12; /* log10, or one less */
  return about + (number >= tens[about]);
}

/* count digits: two at a time, a division for each pair. */
static void put_digits(char *out, uint32_t number, int count) {
  static const char pairs[] =
      "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
      "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
  char *p = out + count;
  for (; number >= 100; number /= 100) memcpy(p -= 2, pairs + 2 * (number % 100), 2);
  if (number >= 10)
    memcpy(p - 2, pairs + 2 * number, 2);
  else
    p[-1] = (char)('0' + number);
}

/* point: digits before it. */
static int put_number(char *out, uint32_t digits, int count, int point) {
  if (point <= 0 && point >= -3) {
    memcpy(out, "0.000", 5);
    put_digits(out + 2 - point, digits, count);
    return 2 - point + count;
  }
  const bool plain = point > 0 && point <= SIGNIFICANT;
  const int before = plain ? point : 1;
  put_digits(out + 1, digits, count);
  int length = count > before ? count + 1 : count;
  for (int i = 0; i < before; ++i) out[i] = i < count ? out[i + 1] : '0';
  if (count > before) out[before] = '.';
  if (plain) return length > before ? length : before;
  return length + put_exponent(out + length, point - 1);
}

static int write_bits(uint32_t bits, char *out) {
  const int minus = (int)(bits >> 31), power = (int)(bits >> FRACTION & 255);
  uint32_t fraction = bits & ((1u << FRACTION) - 1);
  out[0] = '-';
  if (power == 0 && fraction == 0) {
    out[minus] = '0';
    return minus + 1;
  }
  const bool narrow = fraction == 0 && power > 1;
  if (power) fraction |= 1u << FRACTION;
  decimal d = shortest(fraction, (power ? power : 1) - BIAS, narrow);
  for (; d.digits % 10 == 0; d.digits /= 10) ++d.exponent;
  const int count = count_digits(d.digits);
  return minus + put_number(out + minus, d.digits, count, count + d.exponent);
}

int embed__write_float(float x, char out[EMBED__FLOAT_TEXT]) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return write_bits(bits, out);
}

char *embed__write_floats(const struct embed__kernels *k, const unsigned char *numbers, int64_t count, char *out) {
  _Static_assert(EMBED__DIGITS_TEXT == 1 + EMBED__FLOAT_TEXT && (int)EMBED__DIGITS_LEAST_POWER == (int)EMBED__LEAST_POWER, "kernels know no other layer");
  return k->digits.floats(numbers, count, out, embed__powers_of_ten, write_bits);
}
