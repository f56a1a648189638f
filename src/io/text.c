/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/text.h"

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

void embed__text_number(embed__text *t, int64_t number) {
  char digits[24];
  char *first = digits + sizeof digits - 1;
  uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  *first = '\0';
  do *--first = (char)('0' + rest % 10);
  while (rest /= 10);
  if (number < 0) *--first = '-';
  embed__text_add(t, first);
}

void embed__text_shape(embed__text *t, const int64_t *shape, int32_t rank) {
  embed__text_add(t, "[");
  for (int32_t i = 0; i < rank; ++i) {
    if (i) embed__text_add(t, ", ");
    embed__text_number(t, shape[i]);
  }
  embed__text_add(t, "]");
}
