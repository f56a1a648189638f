/* SPDX-License-Identifier: BSD-3-Clause */
/* scalar/digits.c with a number in each 64-bit lane, and its text by one shuffle of its digits. Bounds below 2^63 are compared by the sign
 * of a difference, so that every truth is a 0 or a 1 in its lane. Before it is included a level defines
 *   LANES                64-bit lanes of a vector
 *   wide, quarters       its types, of uint64_t and of uint16_t
 *   load(at)             LANES little-endian words of 32 bits, one in each lane
 *   times(a, b)          product of the lower halves
 *   gather(from, i)      from[i]
 *   times_upper(a, b)    the upper 16 bits of products of quarters
 *   is_any(a)            whether a lane is not 0
 *   mark_bytes(out, a)   a bit for each byte that is not 0: out[i] for lane i */

#include <stdbool.h>
#include <string.h>

#include "kernels/template.h"

enum {
  FRACTION = 23,
  BIAS = 150,
  LEAST_PLACE = 3, /* zeros behind the point; a place is where the point stands, and these more */
  PLACES = 11,     /* up to 7 digits before the point */
  OTHER = 2 * PLACES,
  TOGETHER = 64
};

/* The digits of a number as bytes: eight, then the first of nine, then what else a text has in it. */
enum { FIRST_DIGIT = 8, POINT, ZERO, MINUS, BLANK, NOTHING = -128 };
static const uint64_t characters = (uint64_t)'0' | (uint64_t)'.' << 8 | (uint64_t)'0' << 16 | (uint64_t)'-' << 24 | (uint64_t)' ' << 32;

/* Byte i of the text of a number, its sign (0, 1) and the place of its point known. */
#define DIGIT(i)              ((i) == 0 ? FIRST_DIGIT : (i) > 8 ? NOTHING : (i)-1)
#define BEHIND_ZERO(point, i) ((i) == 0 ? ZERO : (i) == 1 ? POINT : (i) < 2 - (point) ? ZERO : DIGIT((i)-2 + (point)))
#define AMONG(point, i)       ((i) < (point) ? DIGIT(i) : (i) == (point) ? POINT : DIGIT((i)-1))
#define BODY(point, i)        ((point) > 0 ? AMONG(point, i) : BEHIND_ZERO(point, i))
#define BYTE(sign, place, i)  ((i) == 0 ? BLANK : (i) <= (sign) ? MINUS : BODY((place)-LEAST_PLACE, (i)-1 - (sign)))
#define EACH_BYTE(sign, place)                                                                                                                                \
  {                                                                                                                                                           \
    BYTE(sign, place, 0), BYTE(sign, place, 1), BYTE(sign, place, 2), BYTE(sign, place, 3), BYTE(sign, place, 4), BYTE(sign, place, 5), BYTE(sign, place, 6), \
        BYTE(sign, place, 7), BYTE(sign, place, 8), BYTE(sign, place, 9), BYTE(sign, place, 10), BYTE(sign, place, 11), BYTE(sign, place, 12),                \
        BYTE(sign, place, 13), BYTE(sign, place, 14), BYTE(sign, place, 15)                                                                                   \
  }
/* Of as many digits up to the last that is not 0. */
#define LENGTH(sign, point, count) (1 + (sign) + ((point) <= 0 ? 2 - (point) + (count) : (count) > (point) ? (count) + 1 : (point)))
#define EACH_COUNT(sign, place)                                                                                                                             \
  {                                                                                                                                                         \
    LENGTH(sign, (place)-LEAST_PLACE, 1), LENGTH(sign, (place)-LEAST_PLACE, 2), LENGTH(sign, (place)-LEAST_PLACE, 3), LENGTH(sign, (place)-LEAST_PLACE, 4), \
        LENGTH(sign, (place)-LEAST_PLACE, 5), LENGTH(sign, (place)-LEAST_PLACE, 6), LENGTH(sign, (place)-LEAST_PLACE, 7),                                   \
        LENGTH(sign, (place)-LEAST_PLACE, 8), LENGTH(sign, (place)-LEAST_PLACE, 9)                                                                          \
  }
#define EACH_PLACE(of, sign) \
  of(sign, 0), of(sign, 1), of(sign, 2), of(sign, 3), of(sign, 4), of(sign, 5), of(sign, 6), of(sign, 7), of(sign, 8), of(sign, 9), of(sign, 10)
static const signed char order[2 * PLACES][16] = {EACH_PLACE(EACH_BYTE, 0), EACH_PLACE(EACH_BYTE, 1)};
static const unsigned char length[2 * PLACES][9] = {EACH_PLACE(EACH_COUNT, 0), EACH_PLACE(EACH_COUNT, 1)};

typedef struct batch {
  uint64_t eight[TOGETHER], first[TOGETHER], form[TOGETHER]; /* form: a line of order and length, or OTHER */
  unsigned char marks[TOGETHER];                             /* of eight: digits that are not 0 */
} batch;

/* 1 where a < b; both are below 2^63. */
INLINE wide below(wide a, wide b) { return (a - b) >> 63; }
INLINE wide spread(uint64_t x) { return x - (wide){0}; }

/* The shortest digits of bits >> 23 & 255 = power, 7 to 9; up = their exponent + 64. unsure: |= 1 where 32 bits do not decide. */
INLINE wide find_digits(wide fraction, wide power, const uint64_t *powers, wide *up, wide *unsure) {
  enum { LOG10 = 1262611 /* of 2, by 2^22 */, LOG2 = 1741647 /* of 10, by 2^19 */, K = 64, SHIFT = 213 /* none is negative */ };
  *up = (times(power, spread(LOG10)) + ((uint64_t)K * (1 << 22) - (uint64_t)BIAS * LOG10)) >> 22;
  const wide place = (uint64_t)(K - EMBED__DIGITS_LEAST_POWER) - *up;
  const wide shift =
      power + ((times(place, spread(LOG2)) + ((uint64_t)SHIFT * (1 << 19) - (uint64_t)-EMBED__DIGITS_LEAST_POWER * LOG2)) >> 19) - (uint64_t)(SHIFT + BIAS - 1);
  const wide scale = gather(powers, place), scaled = (fraction | (uint64_t)1 << FRACTION) << shift;
  const wide middle = times(scaled, scale >> 32) + (times(scaled, scale) >> 32), half = scale >> (33 - shift);
  const wide lower = middle - half, upper = middle + half;
  const wide whole = middle >> 32, tenth = times(whole, spread(0xCCCCCCCD)) >> 35, tens = (tenth << 3) + (tenth << 1);
  const wide below10 = below(lower >> 32, tens), above10 = below(tens + 9, upper >> 32);
  const wide less = below(lower >> 32, whole), more = below(whole, upper >> 32), nearer = middle >> 31 & 1;
  const wide digits = whole + ((nearer & (1 ^ less ^ more)) | (more & (1 ^ less))), fewer = tens + (10 & (0 - above10));
  *unsure |= below((middle + 8) & 0x7FFFFFFF, spread(16)) | below((lower + 8) & 0xFFFFFFFF, spread(16)) | below((upper + 8) & 0xFFFFFFFF, spread(16));
  return digits ^ ((digits ^ fewer) & (0 - (below10 ^ above10)));
}

/* Eight digits, a byte each, the first in the lowest. */
INLINE wide part_digits(wide number) {
  const wide thousands = times(number, spread(109951163)) >> 40; /* a 10000th, of numbers below 10^8 */
  const wide fours = thousands | (number - times(thousands, spread(10000))) << 32;
  const quarters hundreds = times_upper((quarters)fours, 10486 - (quarters){0}) >> 4;
  const wide pairs = (wide)hundreds | (fours - (wide)(hundreds * 100)) << 16;
  const quarters tens = (quarters)pairs * 103 >> 10;
  return (wide)(tens | ((quarters)pairs - tens * 10) << 8);
}

/* The digits of LANES numbers. Returns what is not 0 where one is not finite. */
INLINE wide take(const unsigned char *numbers, const uint64_t *powers, batch *b, int at) {
  const wide bits = load(numbers), fraction = bits & ((1u << FRACTION) - 1), power = bits >> FRACTION & 255;
  wide up, unsure = below(power, spread(1)) | below(fraction, spread(1));
  const wide digits = find_digits(fraction, power | below(power, spread(1)), powers, &up, &unsure);
  const wide short1 = below(digits, spread(100000000)), short2 = below(digits, spread(10000000)), place = up - (64 - 9 - LEAST_PLACE) - short1 - short2;
  const wide nine = times(digits, 1 + (9 & (0 - short1)) + (90 & (0 - short2)));
  const wide first = times(nine, spread(1441151881)) >> 57, eight = part_digits(nine - times(first, spread(100000000)));
  const wide form = place + (PLACES & (0 - (bits >> 31)));
  unsure |= place >> 63 | below(spread(PLACES - 1), place);
  const wide kept = (form & (unsure - 1)) | (OTHER & (0 - unsure)), zeros = eight | 0x3030303030303030, rest = first + characters;
  memcpy(b->eight + at, &zeros, sizeof zeros);
  memcpy(b->first + at, &rest, sizeof rest);
  memcpy(b->form + at, &kept, sizeof kept);
  mark_bytes(b->marks + at, eight);
  return (power + 1) >> 8;
}

static char *put_texts(const unsigned char *numbers, const batch *b, int n, char *out, embed__digits_other *other) {
  for (int j = 0; j < n; ++j) {
    const uint64_t form = b->form[j];
    if (form == OTHER) {
      uint32_t bits;
      memcpy(&bits, numbers + 4 * j, sizeof bits);
      *out = ' ';
      out += 1 + other(bits, out + 1);
      continue;
    }
    const __m128i digits = _mm_unpacklo_epi64(_mm_loadl_epi64((const void *)&b->eight[j]), _mm_loadl_epi64((const void *)&b->first[j]));
    _mm_storeu_si128((void *)out, _mm_shuffle_epi8(digits, _mm_loadu_si128((const void *)order[form])));
    out += length[form][31 ^ __builtin_clz(b->marks[j] * 2u + 1)];
  }
  return out;
}

static char *floats(const unsigned char *numbers, int64_t count, char *out, const uint64_t *powers, embed__digits_other *other) {
  batch b;
  for (int64_t done = 0; done < count; done += TOGETHER) {
    const int n = (int)(count - done < TOGETHER ? count - done : TOGETHER);
    wide infinite = {0};
    int j = 0;
    for (; j + LANES <= n; j += LANES) infinite |= take(numbers + 4 * (done + j), powers, &b, j);
    if (j < n) {
      unsigned char last[4 * LANES] = {0};
      memcpy(last, numbers + 4 * (done + j), (size_t)(4 * (n - j)));
      infinite |= take(last, powers, &b, j);
    }
    if (is_any(infinite)) return NULL;
    out = put_texts(numbers + 4 * done, &b, n, out, other);
  }
  return out;
}
