/* SPDX-License-Identifier: BSD-3-Clause */
#include "npy_out.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static int write_fails(cli_npy *out) {
  int error = errno;
  cli_npy_drop(out);
  return cli_fail(out->path, "%s", strerror(error));
}

static int is_npy(const char *path) {
  char magic[6] = {0};
  FILE *file = fopen(path, "rb");
  const int is = file && fread(magic, 1, sizeof magic, file) == sizeof magic && memcmp(magic, "\x93NUMPY", sizeof magic) == 0;
  if (file) fclose(file);
  return is;
}

/* What is there may be written over: another array or nothing yet, a device, but no input, and no file of another kind: a folder's weights or
 * its tokens are inputs, too. By inode: another name or a link is the same file. */
static int check_target(const char *path, const struct stat *target, const char *const *inputs, int count) {
  struct stat input;
  for (int i = 0; i < count; ++i)
    if (stat(inputs[i], &input) == 0 && input.st_dev == target->st_dev && input.st_ino == target->st_ino)
      return cli_fail(path, "it is the input %s, which is not overwritten", inputs[i]);
  if (S_ISDIR(target->st_mode)) return cli_fail(path, "%s", strerror(EISDIR));
  if (!S_ISREG(target->st_mode)) return CLI_DONE;
  if (access(path, W_OK) != 0) return cli_fail(path, "%s", strerror(errno));
  if (target->st_size > 0 && !is_npy(path)) return cli_fail(path, "it is there and no .npy file, which alone is overwritten");
  return CLI_DONE;
}

/* A new file beside `real`, where it goes when it is whole. */
static FILE *create_beside(cli_npy *out) {
  const char *slash = strrchr(out->real, '/');
  const int folder = slash ? (int)(slash - out->real) + 1 : 0;
  const size_t room = strlen(out->real) + 32;
  out->made = malloc(room);
  if (!out->made) return NULL;
  for (unsigned tries = 0;; ++tries) {
    snprintf(out->made, room, "%.*s.%s.%lx-%u", folder, out->real, out->real + folder, (unsigned long)getpid(), tries);
    const int fd = open(out->made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return fdopen(fd, "wb");
    if (errno != EEXIST) break;
  }
  free(out->made);
  out->made = NULL;
  return NULL;
}

int cli_npy_open(cli_npy *out, const char *path, int64_t rows, int64_t dim, const char *const *inputs, int count) {
  struct stat target = {0}, link;
  *out = (cli_npy){.path = path};
  const int there = stat(path, &target) == 0;
  if (!there && lstat(path, &link) == 0) return cli_fail(path, "it is a link to nothing");
  const int status = there ? check_target(path, &target, inputs, count) : CLI_DONE;
  if (status) return status;
  if (there && !S_ISREG(target.st_mode)) {
    out->file = fopen(path, "wb");
  } else {
    out->real = there ? realpath(path, NULL) : strdup(path);
    out->file = out->real ? create_beside(out) : NULL;
    if (out->file && there) (void)!fchmod(fileno(out->file), target.st_mode & 0777);
  }
  if (!out->file) return write_fails(out);
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
  if (fclose(file) != 0) return write_fails(out);
  if (out->made && rename(out->made, out->real) != 0) return write_fails(out);
  free(out->made);
  out->made = NULL;
  cli_npy_drop(out);
  return CLI_DONE;
}

void cli_npy_drop(cli_npy *out) {
  if (out->file) fclose(out->file);
  if (out->made) unlink(out->made);
  free(out->made);
  free(out->real);
  *out = (cli_npy){.path = out->path};
}
