/* SPDX-License-Identifier: BSD-3-Clause */
/* Floats as text. Most numbers of a table have their point among or near their digits, and 32 bits behind the point decide which digits
 * they have: those are written here; the others one by one by the caller's function, which knows all of them.
 *
 * Any alignment, any count >= 0; nothing outside the given extents is read or written. No allocation, no state. The same bytes at every level
 * as other() writes alone. */
#ifndef EMBED__DIGITS_H
#define EMBED__DIGITS_H

#include <stdint.h>

enum { EMBED__DIGITS_TEXT = 18 /* of a number and the blank before it; none is longer than 16: words are put down whole */ };
/* The powers of ten that are looked up: [110], of 10^(i - 64) the 64 bits from its first on, rounded down. */
enum { EMBED__DIGITS_LEAST_POWER = -64 };

/* Writes a finite float, of which bits are, to out [EMBED__DIGITS_TEXT - 1] and returns how long it is. */
typedef int embed__digits_other(uint32_t bits, char *out);

typedef struct embed__digits_kernels {
  /* count little-endian floats, a blank before each: the shortest text that reads as the float again, of those the nearest to it, as
   * " 0.1", " -12". Returns where the text ends, NULL where one is not finite. out [count, EMBED__DIGITS_TEXT]: bytes behind the text may
   * be written. */
  char *(*floats)(const unsigned char *numbers, int64_t count, char *out, const uint64_t *powers, embed__digits_other *other);
} embed__digits_kernels;

void embed__digits_scalar(embed__digits_kernels *k);
void embed__digits_avx2(embed__digits_kernels *k);
void embed__digits_avx512(embed__digits_kernels *k);

#endif
