/* SPDX-License-Identifier: BSD-3-Clause */
#include "text.h"

size_t cli_utf8_step(const char *text, size_t bytes, int *valid) {
  const unsigned char *s = (const unsigned char *)text;
  unsigned first = s[0], low = 0x80, high = 0xBF; /* bounds of the second byte: no overlong forms, no surrogates, nothing above U+10FFFF */
  size_t length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  *valid = 0;
  if (length == 0) return 1;
  for (size_t i = 1; i < length; ++i) {
    if (i >= bytes || s[i] < low || s[i] > high) return i;
    low = 0x80, high = 0xBF;
  }
  *valid = 1;
  return length;
}

static int is_control(const char *s, size_t step) {
  const unsigned char *c = (const unsigned char *)s;
  return (step == 1 && (c[0] < 0x20 || c[0] == 0x7F)) || (step == 2 && c[0] == 0xC2 && c[1] < 0xA0); /* C0, DEL, C1 */
}

/* out NULL = count only. */
static size_t escape(FILE *out, const char *s, size_t bytes) {
  size_t columns = 0;
  for (size_t i = 0; i < bytes;) {
    int valid;
    size_t step = cli_utf8_step(s + i, bytes - i, &valid);
    const char *form = s[i] == '\\' ? "\\\\" : s[i] == '\n' ? "\\n" : s[i] == '\t' ? "\\t" : s[i] == '\r' ? "\\r" : NULL;
    if (form) {
      if (out) fputs(form, out);
      columns += 2;
    } else if (valid && !is_control(s + i, step)) {
      if (out) fwrite(s + i, 1, step, out);
      columns += 1;
    } else {
      for (size_t j = i; out && j < i + step; ++j) fprintf(out, "\\x%02x", (unsigned)(unsigned char)s[j]);
      columns += 4 * step;
    }
    i += step;
  }
  return columns;
}

size_t cli_print_text(FILE *out, const char *s, size_t bytes) { return escape(out, s, bytes); }

size_t cli_text_width(const char *s, size_t bytes) { return escape(NULL, s, bytes); }
