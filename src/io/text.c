/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

embed__text embed__text_in(char *buffer, size_t bytes) {
  *buffer = '\0';
  return (embed__text){.at = buffer, .room = bytes};
}

void embed__text_add(embed__text *t, const char *s) {
  size_t bytes = strlen(s);
  if (bytes > t->room - 1) bytes = t->room - 1;
  memcpy(t->at, s, bytes);
  t->at += bytes;
  t->room -= bytes;
  *t->at = '\0';
}

void embed__text_unsigned(embed__text *t, uint64_t number) {
  char digits[24];
  char *first = digits + sizeof digits - 1;
  *first = '\0';
  do *--first = (char)('0' + number % 10);
  while (number /= 10);
  embed__text_add(t, first);
}

void embed__text_number(embed__text *t, int64_t number) {
  if (number < 0) embed__text_add(t, "-");
  embed__text_unsigned(t, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

/* A whole number in limbs of nine digits, the lowest first. Seven of them are kept: what a multiplication drops is less than
 * 1e-54 of it, and no double is so near a tie of nine digits without being one. */
enum { LIMBS = 7, LIMB = 1000000000, LIMB_DIGITS = 9, SHOWN = 9 };

typedef struct whole {
  uint32_t limb[LIMBS + 2];
  int count, dropped; /* limbs */
  bool inexact;       /* something else than zeros was dropped */
} whole;

static void multiply(whole *w, uint32_t by) {
  uint64_t carry = 0;
  for (int i = 0; i < w->count; ++i) {
    carry += (uint64_t)w->limb[i] * by;
    w->limb[i] = (uint32_t)(carry % LIMB);
    carry /= LIMB;
  }
  for (; carry; carry /= LIMB) w->limb[w->count++] = (uint32_t)(carry % LIMB);
  for (; w->count > LIMBS; --w->count, ++w->dropped) {
    w->inexact |= w->limb[0] != 0;
    memmove(w->limb, w->limb + 1, (size_t)(w->count - 1) * sizeof *w->limb);
  }
}

/* A number's decimals 0.d1d2d3... * 10^point; d1 is not 0. */
typedef struct decimals {
  char digit[LIMBS * LIMB_DIGITS];
  int count, point;
} decimals;

/* To nearest, ties to even; SHOWN digits stay, without the zeros at their end. */
static void round_decimals(decimals *d, bool inexact) {
  int last = d->count < SHOWN ? d->count : SHOWN;
  bool up = false;
  if (d->count > SHOWN) {
    bool more = inexact;
    for (int i = SHOWN + 1; i < d->count; ++i) more |= d->digit[i] != '0';
    up = d->digit[SHOWN] > '5' || (d->digit[SHOWN] == '5' && (more || (d->digit[SHOWN - 1] - '0') % 2));
  }
  while (up && last > 0 && d->digit[last - 1] == '9') --last;
  if (up && last > 0) ++d->digit[last - 1];
  if (up && last == 0) { /* 9.99 becomes 10 */
    d->digit[last++] = '1';
    ++d->point;
  }
  while (d->digit[last - 1] == '0') --last;
  d->count = last;
}

static decimals decimals_of(double number) { /* > 0, finite */
  enum { FIVES = 13, TWOS = 29 };            /* 5^13 and 2^29 are below 2^32 */
  decimals d = {.count = 0};
  int exponent;
  const uint64_t mantissa = (uint64_t)ldexp(frexp(number, &exponent), 53);
  const int shift = exponent - 53;
  whole w = {.limb = {(uint32_t)(mantissa % LIMB), (uint32_t)(mantissa / LIMB)}, .count = 2};
  for (int left = -shift; left > 0; left -= FIVES) { /* m * 2^-k = m * 5^k / 10^k */
    uint32_t by = 1;
    for (int i = 0; i < left && i < FIVES; ++i) by *= 5;
    multiply(&w, by);
  }
  for (int left = shift; left > 0; left -= TWOS) multiply(&w, (uint32_t)1 << (left < TWOS ? left : TWOS));
  for (int i = w.count - 1; i >= 0; --i)
    for (uint32_t by = LIMB / 10; by > 0; by /= 10) {
      const char digit = (char)('0' + w.limb[i] / by % 10);
      if (d.count || digit != '0') d.digit[d.count++] = digit;
    }
  d.point = d.count + w.dropped * LIMB_DIGITS + (shift < 0 ? shift : 0);
  round_decimals(&d, w.inexact);
  return d;
}

void embed__text_real(embed__text *t, double number) {
  char out[SHOWN + 16];
  int length = 0;
  if (signbit(number) && !isnan(number)) embed__text_add(t, "-");
  number = fabs(number);
  if (isnan(number) || isinf(number) || number == 0) {
    embed__text_add(t, isnan(number) ? "nan" : number == 0 ? "0" : "inf");
    return;
  }
  const decimals d = decimals_of(number);
  const bool plain = d.point > -4 && d.point <= SHOWN;
  const int before = !plain ? 1 : d.point > 0 ? d.point : 0; /* digits before the point */
  if (before == 0) out[length++] = '0';
  for (int i = 0; i < before; ++i) out[length++] = i < d.count ? d.digit[i] : '0';
  if (d.count > before) out[length++] = '.';
  for (int i = d.point; plain && i < 0; ++i) out[length++] = '0';
  for (int i = before; i < d.count; ++i) out[length++] = d.digit[i];
  out[length] = '\0';
  embed__text_add(t, out);
  if (plain) return;
  const int power = d.point - 1, size = power < 0 ? -power : power;
  embed__text_add(t, power < 0 ? "e-" : "e+");
  if (size < 10) embed__text_add(t, "0");
  embed__text_number(t, size);
}

void embed__text_shape(embed__text *t, const int64_t *shape, int32_t rank) {
  embed__text_add(t, "[");
  for (int32_t i = 0; i < rank; ++i) {
    if (i) embed__text_add(t, ", ");
    embed__text_number(t, shape[i]);
  }
  embed__text_add(t, "]");
}

/* Bytes of the UTF-8 character at s, 0 = there is none. */
static int64_t character(const unsigned char *s, int64_t bytes) {
  static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
  int64_t length = s[0] < 0x80 ? 1 : s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : s[0] >= 0xC0 ? 2 : 0;
  unsigned code = s[0] & (0xFFu >> (length + 1));
  if (length == 1) return 1;
  if (length == 0 || length > bytes || s[0] > 0xF4) return 0;
  for (int64_t i = 1; i < length; ++i) {
    if ((s[i] & 0xC0) != 0x80) return 0;
    code = code << 6 | (s[i] & 0x3F);
  }
  return code < least[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF) ? 0 : length;
}

int64_t embed__text_not_utf8(const char *text, int64_t bytes) {
  const unsigned char *s = (const unsigned char *)text;
  for (int64_t at = 0, step; at < bytes; at += step) {
    step = character(s + at, bytes - at);
    if (!step) return at;
  }
  return -1;
}
