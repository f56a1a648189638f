/* SPDX-License-Identifier: BSD-3-Clause */
/* Float to text, the fewest digits that give it back (Giulietti 2022, "The Schubfach way to render doubles", for floats). What reads as x
 * is an interval of numbers around it: of the multiples of 10^(k+1) at most one or two lie in it, of those of 10^k at least one does. The
 * interval's bounds are scaled by 10^-k in 64 bits; a lowest bit that says "and something more" keeps the comparisons exact. */
#include <stdbool.h>
#include <string.h>

#include "io/file.h"
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

static uint64_t upper_half(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
  __extension__ typedef unsigned __int128 wide;
  return (uint64_t)((wide)a * b >> 64);
#else
  const uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX), left = (a >> 32) * (b & UINT32_MAX), right = (a & UINT32_MAX) * (b >> 32);
  return (a >> 32) * (b >> 32) + (left >> 32) + (right >> 32) + (((low >> 32) + (left & UINT32_MAX) + (right & UINT32_MAX)) >> 32);
#endif
}

/* The same for most numbers: 32 bits behind the point, wrong by less than 4 units, and false where a bound, or the middle, is nearer than 8
 * units to where the answer changes. Digits have zeros behind them; there are 7 to 9. fraction >= 2^23, not narrow. */
static inline bool quick(uint32_t fraction, int exponent, decimal *out) {
  const int k = floor_shift(exponent * 1262611, 22), shift = exponent + floor_shift(-k * 1741647, 19);
  const uint64_t power = embed__powers_of_ten[-k - EMBED__LEAST_POWER], middle = upper_half((uint64_t)fraction << (33 + shift), power);
  const uint64_t half = power >> (32 - shift), lower = middle - half, upper = middle + half;
  const uint32_t whole = (uint32_t)(middle >> 32), tens = whole / 10 * 10;
  const bool below10 = lower >> 32 < tens, above10 = upper >> 32 >= tens + 10, below = lower >> 32 < whole, above = upper >> 32 > whole;
  const bool nearer = (uint32_t)middle >> 31, up = (nearer & (below == above)) | (above & !below);
  const uint32_t digits = whole + up, fewer = tens + 10 * above10;
  out->digits = digits ^ ((digits ^ fewer) & -(uint32_t)(below10 != above10));
  out->exponent = k;
  return !(((uint32_t)(middle + 8) << 1 < 32) | ((uint32_t)(lower + 8) < 16) | ((uint32_t)(upper + 8) < 16));
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

/* Eight digits, a byte each, the first in the lowest: halves are parted side by side in one word. */
static uint64_t part_digits(uint32_t number) {
  const uint64_t fours = number / 10000 | (uint64_t)(number % 10000) << 32;
  const uint64_t hundreds = fours * 10486 >> 20 & 0x0000007F0000007F, pairs = hundreds | (fours - 100 * hundreds) << 16;
  const uint64_t upper = pairs * 103 >> 10 & 0x000F000F000F000F;
  return upper | (pairs - 10 * upper) << 8;
}

static void put_word(char *out, uint64_t word) { /* its lowest byte first */
  if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) word = __builtin_bswap64(word);
  memcpy(out, &word, sizeof word);
}

/* nine: the digits and zeros behind them. Words of digits are put down on either side of the point, over one another: neither their number
 * nor where the point stands is a branch. */
static int put_plain(char *out, uint32_t nine, int point) {
  const uint32_t first = nine / 100000000;
  const uint64_t zeros = 0x3030303030303030, leading = zeros ^ ((uint64_t)('0' ^ '.') << 8) /* "0.000000" */;
  const uint64_t rest = part_digits(nine - first * 100000000), eight = (rest << 8 | first) + zeros;
  const int count = SIGNIFICANT - (rest ? __builtin_clzll(rest) / 8 : 8), before = point > 0 ? point : 0, behind = point > 0 ? point + 1 : 2 - point;
  put_word(out, point > 0 ? eight : leading);
  out[point > 0 ? point : 1] = '.';
  put_word(out + behind, eight >> (8 * before));
  out[behind + 8 - before] = (char)('0' + (rest >> 56));
  return count > before ? behind + count - before : before;
}

enum { PLAIN = 7, OTHER = 127 };

/* Where the point stands among the nine digits of a number that has up to PLAIN of them before it or up to three zeros behind it, as nearly
 * all of a table do; OTHER = it has not, or what it is has to be looked at closely. */
static inline int8_t plain(uint32_t bits, uint32_t *nine) {
  enum { MOST = 100000000 };
  const int power = (int)(bits >> FRACTION & 255);
  const uint32_t fraction = bits & ((1u << FRACTION) - 1);
  decimal d = {0, 0};
  if (power == 0 || fraction == 0 || !quick(fraction | 1u << FRACTION, power - BIAS, &d)) return OTHER;
  const int less = (d.digits < MOST) + (d.digits < MOST / 10), point = SIGNIFICANT - less + d.exponent;
  *nine = d.digits * (less == 0 ? 1u : less == 1 ? 10u : 100u);
  return point >= -3 && point <= PLAIN ? (int8_t)point : OTHER;
}

static int write_other(uint32_t bits, char *out) {
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

static inline int write_one(uint32_t bits, uint32_t nine, int8_t point, char *out) {
  if (point == OTHER) return write_other(bits, out);
  const int minus = (int)(bits >> 31);
  out[0] = '-';
  return minus + put_plain(out + minus, nine, point);
}

int embed__write_float(float x, char out[EMBED__FLOAT_TEXT]) {
  uint32_t bits, nine = 0;
  memcpy(&bits, &x, 4);
  const int8_t point = plain(bits, &nine);
  return write_one(bits, nine, point, out);
}

/* First the digits of some numbers, then their text: where a text ends is known late, and digits do not wait for it (a quarter faster). */
char *embed__write_floats(const unsigned char *numbers, int64_t count, char *out) {
  enum { TOGETHER = 64 };
  uint32_t bits[TOGETHER], nine[TOGETHER];
  int8_t point[TOGETHER];
  for (int64_t done = 0; done < count; done += TOGETHER) {
    const int n = (int)(count - done < TOGETHER ? count - done : TOGETHER);
    bool finite = true;
    for (int j = 0; j < n; ++j) {
      bits[j] = embed__le32(numbers + 4 * (done + j));
      finite &= (bits[j] >> FRACTION & 255) != 255;
      point[j] = plain(bits[j], &nine[j]);
    }
    if (!finite) return NULL;
    for (int j = 0; j < n; ++j) {
      *out++ = ' ';
      out += write_one(bits[j], nine[j], point[j], out);
    }
  }
  return out;
}
