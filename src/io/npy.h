/* SPDX-License-Identifier: BSD-3-Clause */
/* An npy array, be it a file or a member of an npz archive. */
#ifndef EMBED__NPY_H
#define EMBED__NPY_H

#include "io/file.h"

enum { EMBED__NPY_HEADER = 10012 }; /* bytes in front of the elements, at most: numpy's own limit */

typedef struct embed__npy {
  const char *label; /* for messages, whose bytes count in data */
  const unsigned char *data;
  int64_t first, end; /* the array is data[first .. end); behind the longest header nothing of it is read */
} embed__npy;

/* tensor: zeroed, but for its name. Its offset is one in data; bytes behind the elements are the caller's to judge. Strings are kept by f. */
embed_status embed__npy_read(embed_context *ctx, embed_file *f, const embed__npy *in, const embed_file_options *o, embed__tensor *tensor);

#endif
