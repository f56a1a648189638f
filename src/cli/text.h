/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes of files and tokens, which may be anything, on their way to a reader. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* How many bytes from s[0] belong together: *valid says whether they are one character of UTF-8 or the longest broken start of one. */
size_t cli_utf8_step(const char *s, size_t bytes, int *valid);
/* For a terminal: control characters and bytes that are no UTF-8 become \n, \t, \xNN; a backslash is doubled. Returns the characters written. */
size_t cli_print_text(FILE *out, const char *s, size_t bytes);
/* Columns that cli_print_text would fill, one a character. */
size_t cli_text_width(const char *s, size_t bytes);

#endif
