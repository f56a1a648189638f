/* SPDX-License-Identifier: BSD-3-Clause */
#include "roles/notes.h"

void embed__line_start(embed__line *l, const char *text) {
  l->text = embed__text_in(l->bytes, sizeof l->bytes);
  embed__text_add(&l->text, text);
}

void embed__line_name(embed__line *l, const char *name) {
  enum { LONGEST = 120 };
  char shown[LONGEST + 1];
  size_t bytes = 0;
  for (; name[bytes] && bytes < LONGEST; ++bytes) shown[bytes] = (unsigned char)name[bytes] < 32 || name[bytes] == 127 ? '?' : name[bytes];
  while (name[bytes] && bytes && ((unsigned char)name[bytes] & 0xC0) == 0x80) --bytes; /* whole characters of UTF-8 */
  shown[bytes] = '\0';
  embed__text_add(&l->text, "\"");
  embed__text_add(&l->text, shown);
  embed__text_add(&l->text, name[bytes] ? "...\"" : "\"");
}

void embed__line_tensor(embed__line *l, const embed__tensor *tensor) {
  embed__line_name(l, tensor->name);
  embed__text_add(&l->text, " ");
  embed__text_add(&l->text, tensor->stored);
  embed__text_add(&l->text, " ");
  embed__text_shape(&l->text, tensor->shape, tensor->rank);
}
