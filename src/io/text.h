/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of variable parts (shapes, lists of names, notes), put together without printf. */
#ifndef EMBED__TEXT_H
#define EMBED__TEXT_H

#include <stddef.h>
#include <stdint.h>

/* A caller's buffer being filled: always ends in NUL, what has no room is left out. */
typedef struct embed__text {
  char *at;
  size_t room; /* bytes left, the NUL's included */
} embed__text;

embed__text embed__text_in(char *buffer, size_t bytes); /* bytes >= 1 */
void embed__text_add(embed__text *t, const char *s);
void embed__text_number(embed__text *t, int64_t number);
void embed__text_unsigned(embed__text *t, uint64_t number);
void embed__text_real(embed__text *t, double number); /* as C's %.9g, with a point in every locale; floats survive it */
/* Where the bytes cease to be UTF-8 (RFC 3629: no surrogates, nothing longer than it must be), -1 = nowhere. */
int64_t embed__text_not_utf8(const char *text, int64_t bytes);
void embed__text_shape(embed__text *t, const int64_t *shape, int32_t rank); /* [3, 4] */

#endif
