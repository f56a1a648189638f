/* SPDX-License-Identifier: BSD-3-Clause */
/* An .npy file being written: version 1.0, '<f4', C order, data from a multiple of 64. Until it is whole it has another name beside its own: what
 * was there before stays, and so does what is mapped. */
#ifndef CLI_NPY_OUT_H
#define CLI_NPY_OUT_H

#include <stdint.h>
#include <stdio.h>

typedef struct cli_npy {
  const char *path;
  FILE *file;
  char *made, *real; /* the name until it is whole, and the one then, links followed; NULL = a device, written at once */
} cli_npy;

/* Each: 0, or CLI_FAILED after the one line on stderr and without the file. inputs: `count` paths that path must not be. */
int cli_npy_open(cli_npy *out, const char *path, int64_t rows, int64_t dim, const char *const *inputs, int count);
int cli_npy_write(cli_npy *out, const float *values, int64_t count);
int cli_npy_close(cli_npy *out);
void cli_npy_drop(cli_npy *out); /* something else failed */

#endif
