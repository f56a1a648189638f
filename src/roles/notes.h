/* SPDX-License-Identifier: BSD-3-Clause */
/* One line of a file's notes, put together piece by piece. */
#ifndef EMBED__NOTES_H
#define EMBED__NOTES_H

#include "io/file.h"
#include "io/text.h"

typedef struct embed__line {
  char bytes[800]; /* three names, three shapes and what is said of them */
  embed__text text;
} embed__line;

void embed__line_start(embed__line *l, const char *text);
/* "name": control bytes as ?, a long one cut. */
void embed__line_name(embed__line *l, const char *name);
/* "name" dtype [rows, dim] */
void embed__line_tensor(embed__line *l, const embed__tensor *tensor);

#endif
