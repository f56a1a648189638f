/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64 /* large files where long has 32 bits */
#endif
#include "io/map.h"

#include <embed/io.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"

static embed_status system_failed(embed_context *ctx, const char *label, const char *what) {
  return embed__fail(ctx, EMBED_E_IO, -1, "%s: %s: %s", label, what, strerror(errno));
}

/* O_NONBLOCK: a FIFO would wait for its writer. O_NOCTTY: a terminal would become ours. */
static int open_once(const char *path) {
  int descriptor;
  do descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

static embed_status check_kind(embed_context *ctx, const char *label, const struct stat *about) {
  const char *kind = "special file";
  if (S_ISREG(about->st_mode)) {
    if (about->st_size == 0) return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: the file is empty", label);
    if ((uintmax_t)about->st_size > PTRDIFF_MAX)
      return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%s: %jd bytes do not fit into the address space", label, (intmax_t)about->st_size);
    return EMBED_OK;
  }
  if (S_ISDIR(about->st_mode)) kind = "directory";
  if (S_ISFIFO(about->st_mode)) kind = "FIFO";
  if (S_ISCHR(about->st_mode) || S_ISBLK(about->st_mode)) kind = "device";
  return embed__fail(ctx, EMBED_E_IO, -1, "%s: a %s is no regular file: it cannot be opened as a model", label, kind);
}

static embed_status map(embed_context *ctx, int descriptor, const char *label, uint32_t flags, embed__map *m) {
  int how = MAP_PRIVATE;
#ifdef MAP_POPULATE
  if (flags & EMBED_FILE_POPULATE) how |= MAP_POPULATE;
#endif
  void *data = mmap(NULL, (size_t)m->bytes, PROT_READ, how, descriptor, 0);
  if (data == MAP_FAILED) return system_failed(ctx, label, "mapping it");
#ifndef MAP_POPULATE
  if (flags & EMBED_FILE_POPULATE) (void)posix_madvise(data, (size_t)m->bytes, POSIX_MADV_WILLNEED);
#endif
  m->data = data;
  return EMBED_OK;
}

static embed_status read_whole(embed_context *ctx, int descriptor, const char *label, embed__map *m) {
  enum { PIECE = 64 << 20 }; /* one read of Linux takes less than 2 GiB */
  unsigned char *data = embed__allocate(&ctx->memory, (size_t)m->bytes, EMBED__ALIGNMENT);
  if (!data) return embed__out_of_memory(ctx, m->bytes);
  m->data = data;
  m->copied = true;
  for (int64_t at = 0; at < m->bytes;) {
    int64_t left = m->bytes - at;
    ssize_t got = read(descriptor, data + at, (size_t)(left < PIECE ? left : PIECE));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failed(ctx, label, "reading it");
    if (got == 0) return embed__fail(ctx, EMBED_E_IO, at, "%s: it shrank from %" PRId64 " to %" PRId64 " bytes while it was read", label, m->bytes, at);
    at += got;
  }
  return EMBED_OK;
}

static embed_status take(embed_context *ctx, int descriptor, const char *label, uint32_t flags, embed__map *m) {
  struct stat about = {0};
  if (fstat(descriptor, &about) != 0) return system_failed(ctx, label, "asking for its size");
  EMBED__TRY(check_kind(ctx, label, &about));
  m->bytes = (int64_t)about.st_size;
  return flags & EMBED_FILE_COPY ? read_whole(ctx, descriptor, label, m) : map(ctx, descriptor, label, flags, m);
}

embed_status embed__map_open(embed_context *ctx, const char *path, const char *label, uint32_t flags, embed__map *out) {
  embed__map m = {.data = NULL};
  int before = errno, descriptor = open_once(path);
  embed_status status = descriptor < 0 ? system_failed(ctx, label, "opening it") : take(ctx, descriptor, label, flags, &m);
  if (descriptor >= 0) (void)close(descriptor);
  if (status == EMBED_OK)
    *out = m;
  else
    embed__map_close(&ctx->memory, &m);
  errno = before;
  return status;
}

void embed__map_close(const embed_allocator *memory, embed__map *m) {
  void *data = (void *)(uintptr_t)m->data;
  if (m->copied)
    embed__free(memory, data, (size_t)m->bytes, EMBED__ALIGNMENT);
  else if (data)
    (void)munmap(data, (size_t)m->bytes);
  m->data = NULL;
  m->copied = false;
}
