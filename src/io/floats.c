/* SPDX-License-Identifier: BSD-3-Clause */
/* Text to float. The first 19 digits are an integer, multiplied by a power of ten kept in 64 bits; the product is known to
 * a few units of its 64th bit. Where no boundary between two floats lies within that, it decides (Lemire 2021 proves more
 * of a 128-bit table; floats need less). What is left, exact ties and about one other number in 10^10, is compared with the
 * boundary in long integers. */
#include "io/floats.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/checked.h"

enum { HEAD_DIGITS = 19 /* 10^19 < 2^64 */, LEAST_POWER = EMBED__LEAST_POWER, MOST_POWER = 38 /* of a float */ };

const uint64_t embed__powers_of_ten[EMBED__MOST_POWER - EMBED__LEAST_POWER + 1] = {
    0xa87fea27a539e9a5u, 0xd29fe4b18e88640eu, 0x83a3eeeef9153e89u, 0xa48ceaaab75a8e2bu, 0xcdb02555653131b6u, 0x808e17555f3ebf11u, 0xa0b19d2ab70e6ed6u,
    0xc8de047564d20a8bu, 0xfb158592be068d2eu, 0x9ced737bb6c4183du, 0xc428d05aa4751e4cu, 0xf53304714d9265dfu, 0x993fe2c6d07b7fabu, 0xbf8fdb78849a5f96u,
    0xef73d256a5c0f77cu, 0x95a8637627989aadu, 0xbb127c53b17ec159u, 0xe9d71b689dde71afu, 0x9226712162ab070du, 0xb6b00d69bb55c8d1u, 0xe45c10c42a2b3b05u,
    0x8eb98a7a9a5b04e3u, 0xb267ed1940f1c61cu, 0xdf01e85f912e37a3u, 0x8b61313bbabce2c6u, 0xae397d8aa96c1b77u, 0xd9c7dced53c72255u, 0x881cea14545c7575u,
    0xaa242499697392d2u, 0xd4ad2dbfc3d07787u, 0x84ec3c97da624ab4u, 0xa6274bbdd0fadd61u, 0xcfb11ead453994bau, 0x81ceb32c4b43fcf4u, 0xa2425ff75e14fc31u,
    0xcad2f7f5359a3b3eu, 0xfd87b5f28300ca0du, 0x9e74d1b791e07e48u, 0xc612062576589ddau, 0xf79687aed3eec551u, 0x9abe14cd44753b52u, 0xc16d9a0095928a27u,
    0xf1c90080baf72cb1u, 0x971da05074da7beeu, 0xbce5086492111aeau, 0xec1e4a7db69561a5u, 0x9392ee8e921d5d07u, 0xb877aa3236a4b449u, 0xe69594bec44de15bu,
    0x901d7cf73ab0acd9u, 0xb424dc35095cd80fu, 0xe12e13424bb40e13u, 0x8cbccc096f5088cbu, 0xafebff0bcb24aafeu, 0xdbe6fecebdedd5beu, 0x89705f4136b4a597u,
    0xabcc77118461cefcu, 0xd6bf94d5e57a42bcu, 0x8637bd05af6c69b5u, 0xa7c5ac471b478423u, 0xd1b71758e219652bu, 0x83126e978d4fdf3bu, 0xa3d70a3d70a3d70au,
    0xccccccccccccccccu, 0x8000000000000000u, 0xa000000000000000u, 0xc800000000000000u, 0xfa00000000000000u, 0x9c40000000000000u, 0xc350000000000000u,
    0xf424000000000000u, 0x9896800000000000u, 0xbebc200000000000u, 0xee6b280000000000u, 0x9502f90000000000u, 0xba43b74000000000u, 0xe8d4a51000000000u,
    0x9184e72a00000000u, 0xb5e620f480000000u, 0xe35fa931a0000000u, 0x8e1bc9bf04000000u, 0xb1a2bc2ec5000000u, 0xde0b6b3a76400000u, 0x8ac7230489e80000u,
    0xad78ebc5ac620000u, 0xd8d726b7177a8000u, 0x878678326eac9000u, 0xa968163f0a57b400u, 0xd3c21bcecceda100u, 0x84595161401484a0u, 0xa56fa5b99019a5c8u,
    0xcecb8f27f4200f3au, 0x813f3978f8940984u, 0xa18f07d736b90be5u, 0xc9f2c9cd04674edeu, 0xfc6f7c4045812296u, 0x9dc5ada82b70b59du, 0xc5371912364ce305u,
    0xf684df56c3e01bc6u, 0x9a130b963a6c115cu, 0xc097ce7bc90715b3u, 0xf0bdc21abb48db20u, 0x96769950b50d88f4u, 0xbc143fa4e250eb31u, 0xeb194f8e1ae525fdu,
    0x92efd1b8d0cf37beu, 0xb7abc627050305adu, 0xe596b7b0c643c719u, 0x8f7e32ce7bea5c6fu, 0xb35dbf821ae4f38bu,
};

typedef struct decimal {
  uint64_t head;    /* the first 19 significant digits */
  int64_t exponent; /* the number is head * 10^exponent, or with more digits up to a unit of head larger */
  bool more;
  const unsigned char *digits, *digits_end; /* all of them, and perhaps a point */
  int64_t last_exponent;                    /* of the last digit */
} decimal;

/* Long integers for the comparison: at most 121 digits by 2^150, or 25 bits by 10^168. */
enum { WORDS = 24, EXACT_DIGITS = 120 /* a boundary between two floats has at most 113 */ };
typedef struct big {
  int used;
  uint32_t words[WORDS]; /* least first */
} big;

static void multiply_add(big *b, uint32_t by, uint32_t plus) {
  uint64_t carry = plus;
  for (int i = 0; i < b->used; ++i) {
    carry += (uint64_t)b->words[i] * by;
    b->words[i] = (uint32_t)carry;
    carry >>= 32;
  }
  if (carry && b->used < WORDS) b->words[b->used++] = (uint32_t)carry;
}

static void multiply_power(big *b, uint32_t base, int64_t exponent, uint32_t chunk, int64_t chunk_exponent) { /* chunk = base^chunk_exponent */
  for (; exponent >= chunk_exponent; exponent -= chunk_exponent) multiply_add(b, chunk, 0);
  for (; exponent > 0; --exponent) multiply_add(b, base, 0);
}

static void multiply_ten(big *b, int64_t exponent) { multiply_power(b, 10, exponent, 1000000000, 9); }
static void multiply_two(big *b, int64_t exponent) { multiply_power(b, 2, exponent, 1u << 31, 31); }

static int compare(const big *a, const big *b) {
  if (a->used != b->used) return a->used < b->used ? -1 : 1;
  for (int i = a->used - 1; i >= 0; --i)
    if (a->words[i] != b->words[i]) return a->words[i] < b->words[i] ? -1 : 1;
  return 0;
}

static bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

/* Whether the number rounds to (below + 1) * 2^unit and not to below * 2^unit, between which it lies. */
static bool rounds_up(const decimal *d, uint32_t below, int64_t unit) {
  big number = {.used = 0}, middle = {.used = 1, .words = {2 * below + 1}};
  int64_t kept = 0, exponent = d->last_exponent;
  bool rest = false;
  for (const unsigned char *p = d->digits; p < d->digits_end; ++p) {
    if (!is_digit(*p) || (kept == 0 && *p == '0')) continue;
    if (kept < EXACT_DIGITS) {
      multiply_add(&number, 10, (uint32_t)(*p - '0'));
      ++kept;
    } else {
      rest |= *p != '0';
      ++exponent;
    }
  }
  if (rest) { /* anything above the kept digits is above a boundary that they equal */
    multiply_add(&number, 10, 1);
    --exponent;
  }
  --unit;
  multiply_ten(exponent > 0 ? &number : &middle, exponent > 0 ? exponent : -exponent);
  multiply_two(unit > 0 ? &middle : &number, unit > 0 ? unit : -unit);
  int order = compare(&number, &middle);
  return order > 0 || (order == 0 && (below & 1));
}

static uint64_t multiply_high(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
  __extension__ typedef unsigned __int128 wide;
  return (uint64_t)((wide)a * b >> 64);
#else
  uint64_t a1 = a >> 32, a0 = (uint32_t)a, b1 = b >> 32, b0 = (uint32_t)b;
  uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t)middle;
  return a1 * b1 + (middle >> 32) + (other >> 32);
#endif
}

static uint32_t nearest(const decimal *d) { /* a float's bits */
  enum { INFINITE = 0x7F800000, LEAST_NORMAL = -126, FRACTION = 23 };
  if (d->head == 0 || d->exponent < LEAST_POWER) return 0; /* below 10^-46, a seventh of the smallest float's half */
  if (d->exponent > MOST_POWER) return INFINITE;
  const int power = (int)d->exponent, shift = __builtin_clzll(d->head);
  uint64_t product = multiply_high(d->head << shift, embed__powers_of_ten[power - LEAST_POWER]);
  const int floor_log2 = (power * 217706 + (256 << 16)) / (1 << 16) - 256; /* of 10^power; no shift of a negative number */
  const int unit_of_product = floor_log2 - 63 + 64 - shift, top = 63 - __builtin_clzll(product), log2 = top + unit_of_product;
  int drop = top - FRACTION; /* bits of the product below the float's last */
  if (log2 < LEAST_NORMAL) drop += LEAST_NORMAL - log2;
  if (drop > 65) return 0; /* below 2^-151 */
  uint32_t below = 0;
  bool up;
  if (drop > 63) {
    up = rounds_up(d, 0, drop + unit_of_product);
  } else {
    const uint64_t rest = product & (((uint64_t)1 << drop) - 1), half = (uint64_t)1 << (drop - 1);
    /* The power and the product were rounded down, by less than a unit each, the head by less than 2^shift units. */
    const uint64_t slack = 2 + (d->more ? (uint64_t)1 << shift : 0);
    below = (uint32_t)(product >> drop);
    up = rest > half; /* a coin's throw: no branch */
    if (half - rest < slack) up = rounds_up(d, below, drop + unit_of_product);
  }
  uint32_t bits = below + up; /* a carry out of the fraction is the next exponent */
  if (log2 >= LEAST_NORMAL) bits += (uint32_t)(log2 - LEAST_NORMAL) << FRACTION;
  return bits < INFINITE ? bits : INFINITE;
}

static uint64_t load8(const unsigned char *p) { /* the first byte lowest */
  uint64_t eight;
  memcpy(&eight, p, 8);
  return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(eight) : eight;
}

/* Eight digits' values, a byte each, the lowest byte the most significant digit: pairs, fours, all. */
static uint64_t join8(uint64_t eight) {
  const uint64_t fours = 0x000000FF000000FFu;
  eight = eight * 10 + (eight >> 8);
  return ((eight & fours) * (100 + ((uint64_t)1000000 << 32)) + (eight >> 16 & fours) * (1 + ((uint64_t)10000 << 32))) >> 32;
}

static const uint32_t tens[8] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};

/* Appends the digits from p on to *number (modulo 2^64: of more than 19 digits it is nothing). */
static inline const unsigned char *take_digits(const unsigned char *p, const unsigned char *end, uint64_t *number) {
  while (end - p >= 8) {
    const uint64_t each = 0x0101010101010101u, eight = load8(p) ^ '0' * each;
    const uint64_t others = ((eight + 0x76 * each) | eight) & 0x80 * each; /* its lowest bit: at the first that is no digit */
    if (others) {
      const int count = __builtin_ctzll(others) >> 3;
      if (count) *number = *number * tens[count] + join8(eight << (64 - 8 * count));
      return p + count;
    }
    *number = *number * 100000000 + join8(eight);
    p += 8;
  }
  for (; p < end && is_digit(*p); ++p) *number = *number * 10 + (uint64_t)(*p - '0');
  return p;
}

static const unsigned char *take_exponent(const unsigned char *p, const unsigned char *end, int64_t *exponent) {
  const unsigned char *start = p++; /* at the e */
  bool negative = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) ++p;
  if (p == end || !is_digit(*p)) return start;
  int64_t number = 0;
  for (; p < end && is_digit(*p); ++p)
    if (number < INT64_MAX / 100) number = number * 10 + (*p - '0'); /* no file has the digits that could bring that back */
  *exponent = negative ? -number : number;
  return p;
}

/* Of more than 19 digits, of which `fraction` stand behind the point. Zeros before the first other digit do not count. */
static void take_head(decimal *d, int64_t count) {
  const unsigned char *p = d->digits;
  for (; count > 0 && (*p == '0' || *p == '.'); ++p) count -= *p == '0';
  if (count <= HEAD_DIGITS) return; /* head is right: zeros overflow nothing */
  d->head = 0;
  for (int taken = 0; taken < HEAD_DIGITS; ++p)
    if (is_digit(*p)) {
      d->head = d->head * 10 + (uint64_t)(*p - '0');
      ++taken;
    }
  d->exponent += count - HEAD_DIGITS;
  d->more = true;
}

static bool is_word(const unsigned char *p, const unsigned char *end, const char *word) {
  for (; *word; ++word, ++p)
    if (p == end || (*p | 0x20) != *word) return false;
  return true;
}

static const unsigned char *read_word(const unsigned char *p, const unsigned char *end, uint32_t *bits) {
  *bits = 0x7F800000;
  if (is_word(p, end, "infinity")) return p + 8;
  if (is_word(p, end, "inf")) return p + 3;
  *bits = 0x7FC00000;
  return is_word(p, end, "nan") ? p + 3 : NULL;
}

static inline const unsigned char *read_digits(const unsigned char *p, const unsigned char *end, uint32_t *bits) {
  decimal d = {.digits = p};
  int64_t count, fraction = 0, exponent = 0;
  if (p < end && is_digit(*p)) {
    d.head = (uint64_t)(*p++ - '0');
    if (p < end && is_digit(*p)) p = take_digits(p, end, &d.head);
  }
  count = p - d.digits;
  if (p < end && *p == '.') {
    const unsigned char *point = p++;
    p = take_digits(p, end, &d.head);
    fraction = p - point - 1;
    count += fraction;
  }
  if (count == 0) return read_word(d.digits, end, bits);
  d.digits_end = p;
  if (p < end && (*p | 0x20) == 'e') p = take_exponent(p, end, &exponent);
  d.exponent = d.last_exponent = exponent - fraction;
  if (count > HEAD_DIGITS) take_head(&d, count);
  *bits = nearest(&d);
  return p;
}

static inline const unsigned char *read_float(const unsigned char *p, const unsigned char *end, float *out) {
  if (p == end) return NULL;
  const uint32_t minus = *p == '-'; /* as often as not: no branch */
  uint32_t bits;
  p += minus | (*p == '+');
  p = read_digits(p, end, &bits);
  if (!p) return NULL;
  bits |= minus << 31;
  memcpy(out, &bits, 4);
  return p;
}

const unsigned char *embed__read_float(const unsigned char *at, const unsigned char *end, float *out) { return read_float(at, end, out); }

/* A whole number of at most 53 bits times or by 10^22 at most is one exact operation's rounding in doubles. */
static const double doubles[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { MOST_EXACT = sizeof doubles / sizeof *doubles - 1 };
static const uint64_t LARGEST_EXACT = (uint64_t)1 << 53;

/* False: the double lies between two floats, and which is the nearer the digits behind it decide. Where it lies on neither
 * side's boundary, rounding twice is rounding once: the boundaries are doubles. */
static inline bool scale(uint64_t head, int64_t exponent, uint32_t minus, float *out) {
  const uint64_t beyond = ((uint64_t)1 << 29) - 1, middle = (uint64_t)1 << 28; /* of a double's bits those that a float has not */
  if (head > LARGEST_EXACT || exponent < -MOST_EXACT || exponent > MOST_EXACT) return false;
  const double value = exponent < 0 ? (double)(int64_t)head / doubles[-exponent] : (double)(int64_t)head * doubles[exponent];
  const float nearest_float = (float)value;
  uint64_t bits;
  uint32_t narrow;
  memcpy(&bits, &value, 8);
  memcpy(&narrow, &nearest_float, 4);
  narrow |= minus << 31;
  memcpy(out, &narrow, 4);
  return (bits & beyond) != middle;
}

/* Digits from the lowest byte on, '0' taken off them. Returns how many there are, and makes the bytes behind them 0. */
static inline int leading_digits(uint64_t *eight) {
  const uint64_t each = 0x0101010101010101u, others = ((*eight + 0x76 * each) | *eight) & 0x80 * each;
  if (!others) return 8;
  *eight &= ((others & -others) >> 7) - 1;
  return __builtin_ctzll(others) >> 3;
}

/* Numbers as vectors have them: a digit, a point, at most 15 digits, perhaps an exponent of two. NULL: it is another, or hard
 * to round, and nothing was decided about it. Reads at most QUICK_BYTES.
 * likely: of how many of the first 8 digits the number before had. Where the next number begins hangs on that count, which takes
 * longer to find than all else: while it is the same again the CPU goes on without it (1.5 times the speed). The empty asm keeps
 * the compiler from seeing that both ways give count. */
enum { QUICK_BYTES = 24 };
static inline const unsigned char *read_quickly(const unsigned char *p, float *out, int *likely) {
  const uint32_t minus = *p == '-'; /* as often as not: no branch */
  p += minus;
  if (!is_digit(p[0]) || p[1] != '.') return NULL;
  const uint64_t zeros = '0' * 0x0101010101010101u;
  uint64_t head = (uint64_t)(p[0] - '0') * 100000000, eight = load8(p + 2) ^ zeros;
  int64_t exponent = -8;
  int count = leading_digits(&eight);
  head += join8(eight);
  int step = *likely;
  if (count != step) {
    step = count;
    __asm__("" : "+r"(step));
    *likely = step;
  }
  p += 2 + step;
  if (count == 8 && is_digit(*p)) {
    eight = load8(p) ^ zeros;
    count = leading_digits(&eight);
    if (count == 8) return NULL; /* perhaps more */
    head = head * tens[count] + join8(eight << (64 - 8 * count));
    exponent -= count;
    p += count;
  }
  if ((*p | 0x20) == 'e') {
    if ((p[1] != '-' && p[1] != '+') || !is_digit(p[2]) || !is_digit(p[3]) || is_digit(p[4])) return NULL;
    const int64_t power = 10 * (p[2] - '0') + (p[3] - '0');
    exponent += p[1] == '-' ? -power : power;
    p += 4;
  }
  return scale(head, exponent, minus, out) ? p : NULL;
}

/* Neither in another of the host's rounding modes, nor where doubles are computed in wider registers. Conversions are asked too: valgrind
 * rounds them as the mode says, and sums always to nearest. */
static bool rounds_as_doubles(void) {
  const volatile float little = 0x1p-30f;
  const volatile double above = 1 + 0x1p-30, below = 1 - 0x1p-30;
  return 1.0f + little == 1.0f && 1.0f - little == 1.0f && (float)above == 1.0f && (float)below == 1.0f;
}

const unsigned char *embed__read_floats(const unsigned char *at, const unsigned char *end, int64_t n, float *out) {
  const int64_t least = rounds_as_doubles() ? 1 + QUICK_BYTES : INT64_MAX;
  int likely = 6; /* %f */
  for (int64_t i = 0; i < n; ++i) {
    if (at == end || *at != ' ') return NULL;
    const unsigned char *next = end - at >= least ? read_quickly(at + 1, out + i, &likely) : NULL;
    if (!next) {
      next = read_float(at + 1, end, out + i);
      if (!next || isinf(out[i])) return NULL;
    }
    at = next;
  }
  return at;
}
