/* SPDX-License-Identifier: BSD-3-Clause */
#include "npy_out.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static int write_fails(cli_npy *out) {
  int error = errno;
  cli_npy_drop(out);
  return cli_fail(out->path, "%s", strerror(error));
}

int cli_npy_open(cli_npy *out, const char *path, int64_t rows, int64_t dim, const char *const *inputs, int count) {
  struct stat target = {0}, input = {0};
  *out = (cli_npy){.path = path};
  if (stat(path, &target) == 0) /* by inode: another name or a link is the same file */
    for (int i = 0; i < count; ++i)
      if (stat(inputs[i], &input) == 0 && input.st_dev == target.st_dev && input.st_ino == target.st_ino)
        return cli_fail(path, "it is the input %s, which is not overwritten", inputs[i]);
  out->file = fopen(path, "wb");
  if (!out->file) return cli_fail(path, "%s", strerror(errno));
  out->regular = fstat(fileno(out->file), &target) == 0 && S_ISREG(target.st_mode);
  char header[129] = "\x93NUMPY\x01\0\x76"; /* magic, version 1.0, 118 bytes follow: the dictionary, blanks and a newline */
  int length = snprintf(header + 10, 119, "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRId64 ", %" PRId64 "), }", rows, dim);
  memset(header + 10 + length, ' ', (size_t)(117 - length));
  header[127] = '\n';
  return fwrite(header, 1, 128, out->file) == 128 ? CLI_DONE : write_fails(out);
}

int cli_npy_write(cli_npy *out, const float *values, int64_t count) {
  unsigned char bytes[4096];
  for (int64_t done = 0; done < count;) { /* little-endian on any host */
    size_t n = 0;
    for (; n + 4 <= sizeof bytes && done < count; n += 4, ++done) {
      uint32_t bits;
      memcpy(&bits, &values[done], 4);
      for (unsigned b = 0; b < 4; ++b) bytes[n + b] = (unsigned char)(bits >> 8 * b);
    }
    if (fwrite(bytes, 1, n, out->file) != n) return write_fails(out);
  }
  return CLI_DONE;
}

int cli_npy_close(cli_npy *out) {
  if (fflush(out->file) != 0) return write_fails(out);
  FILE *file = out->file;
  out->file = NULL;
  return fclose(file) == 0 ? CLI_DONE : write_fails(out);
}

void cli_npy_drop(cli_npy *out) {
  if (out->file) fclose(out->file);
  out->file = NULL;
  if (out->regular) unlink(out->path);
  out->regular = 0;
}
