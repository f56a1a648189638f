/* SPDX-License-Identifier: BSD-3-Clause */
/* Schubfach (Giulietti 2022, "The Schubfach way to render doubles", for floats): what reads as x is an interval of numbers around it; of
 * the multiples of 10^(k+1) at most one or two lie in it, of those of 10^k at least one does. Here with 32 bits behind the point, which
 * decide for all but some numbers in 10^8. */
#include "kernels/digits.h"

#include <stdbool.h>
#include <string.h>

enum { SIGNIFICANT = 9, FRACTION = 23, BIAS = 150, PLAIN = 7, OTHER = 127 };

static int floor_shift(int number, int bits) { return number >= 0 ? number >> bits : ~(~number >> bits); }

static uint64_t upper_half(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
  __extension__ typedef unsigned __int128 wide;
  return (uint64_t)((wide)a * b >> 64);
#else
  const uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX), left = (a >> 32) * (b & UINT32_MAX), right = (a & UINT32_MAX) * (b >> 32);
  return (a >> 32) * (b >> 32) + (left >> 32) + (right >> 32) + (((low >> 32) + (left & UINT32_MAX) + (right & UINT32_MAX)) >> 32);
#endif
}

typedef struct decimal {
  uint32_t digits; /* 7 to 9, zeros behind the last */
  int exponent;    /* digits * 10^exponent */
} decimal;

/* x = fraction * 2^exponent, fraction > 2^23: the floats below and above are as near. The product is wrong by less than 4 units; false where
 * a bound, or the middle, is nearer than 8 units to where the answer changes. */
static inline bool quick(uint32_t fraction, int exponent, const uint64_t *powers, decimal *out) {
  const int k = floor_shift(exponent * 1262611, 22), shift = exponent + floor_shift(-k * 1741647, 19); /* floor log10 of 2^exponent; + log2 of 10^-k */
  const uint64_t power = powers[-k - EMBED__DIGITS_LEAST_POWER], middle = upper_half((uint64_t)fraction << (33 + shift), power);
  const uint64_t half = power >> (32 - shift), lower = middle - half, upper = middle + half;
  const uint32_t whole = (uint32_t)(middle >> 32), tens = whole / 10 * 10;
  const bool below10 = lower >> 32 < tens, above10 = upper >> 32 >= tens + 10, below = lower >> 32 < whole, above = upper >> 32 > whole;
  /* Which of them a number takes is a coin's throw, and compilers like branches: none here. */
  const bool nearer = (uint32_t)middle >> 31, up = (nearer & (below == above)) | (above & !below);
  const uint32_t digits = whole + up, fewer = tens + 10 * above10;
  out->digits = digits ^ ((digits ^ fewer) & -(uint32_t)(below10 != above10));
  out->exponent = k;
  return !(((uint32_t)(middle + 8) << 1 < 32) | ((uint32_t)(lower + 8) < 16) | ((uint32_t)(upper + 8) < 16));
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

/* Where the point stands among the nine digits of a number that has up to PLAIN of them before it or up to three zeros behind it, as nearly
 * all of a table do; OTHER = it has not, or what it is has to be looked at closely. */
static inline int8_t plain(uint32_t bits, const uint64_t *powers, uint32_t *nine) {
  enum { MOST = 100000000 };
  const int power = (int)(bits >> FRACTION & 255);
  const uint32_t fraction = bits & ((1u << FRACTION) - 1);
  decimal d = {0, 0};
  if (power == 0 || fraction == 0 || !quick(fraction | 1u << FRACTION, power - BIAS, powers, &d)) return OTHER;
  const int less = (d.digits < MOST) + (d.digits < MOST / 10), point = SIGNIFICANT - less + d.exponent;
  *nine = d.digits * (less == 0 ? 1u : less == 1 ? 10u : 100u);
  return point >= -3 && point <= PLAIN ? (int8_t)point : OTHER;
}

static inline int write_one(uint32_t bits, uint32_t nine, int8_t point, char *out, embed__digits_other *other) {
  if (point == OTHER) return other(bits, out);
  const int minus = (int)(bits >> 31);
  out[0] = '-';
  return minus + put_plain(out + minus, nine, point);
}

static uint32_t bits_at(const unsigned char *at) { return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24; }

/* First the digits of some numbers, then their text: where a text ends is known late, and digits do not wait for it (a quarter faster). */
static char *floats(const unsigned char *numbers, int64_t count, char *out, const uint64_t *powers, embed__digits_other *other) {
  enum { TOGETHER = 64 };
  uint32_t bits[TOGETHER], nine[TOGETHER];
  int8_t point[TOGETHER];
  for (int64_t done = 0; done < count; done += TOGETHER) {
    const int n = (int)(count - done < TOGETHER ? count - done : TOGETHER);
    bool finite = true;
    for (int j = 0; j < n; ++j) {
      bits[j] = bits_at(numbers + 4 * (done + j));
      finite &= (bits[j] >> FRACTION & 255) != 255;
      point[j] = plain(bits[j], powers, &nine[j]);
    }
    if (!finite) return NULL;
    for (int j = 0; j < n; ++j) {
      *out++ = ' ';
      out += write_one(bits[j], nine[j], point[j], out, other);
    }
  }
  return out;
}

void embed__digits_scalar(embed__digits_kernels *k) { k->floats = floats; }
