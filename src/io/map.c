/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64 /* large files where long has 32 bits */
#endif
#include "io/map.h"

#include <embed/io.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/checked.h"
#include "core/least.h"
#include "core/memory.h"
#include "core/pages.h"
#include "thread/run.h"

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

/* A task reads one huge page's bytes: two threads that meet in a page that is not there yet both clear one for it. */
typedef struct read_job {
  int descriptor;
  unsigned char *data;
  int64_t bytes;
  _Atomic int failed;   /* errno, 0 = none */
  _Atomic int64_t ends; /* the least byte at which the file ended too early */
} read_job;

static void read_part(void *arg, int64_t task, int32_t worker) {
  read_job *job = arg;
  const int64_t end = embed__min(job->bytes, (task + 1) * EMBED__HUGE_PAGE);
  (void)worker;
  for (int64_t at = task * EMBED__HUGE_PAGE; at < end;) {
    const ssize_t got = pread(job->descriptor, job->data + at, (size_t)(end - at), (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) atomic_store(&job->failed, errno);
    if (got == 0) embed__keep_least(&job->ends, at);
    if (got <= 0) return;
    at += got;
  }
}

static size_t alignment_of_copy(int64_t bytes) { return bytes >= EMBED__HUGE_PAGES_FROM ? EMBED__HUGE_PAGE : EMBED__ALIGNMENT; }

static embed_status read_whole(embed_context *ctx, int descriptor, const char *label, embed__map *m) {
  const size_t room = (size_t)embed__whole_pages(m->bytes);
  unsigned char *data = embed__allocate(&ctx->memory, room, alignment_of_copy(m->bytes));
  if (!data) return embed__out_of_memory(ctx, m->bytes);
  m->data = data;
  m->copied = true;
  if (m->bytes >= EMBED__HUGE_PAGES_FROM) embed__want_huge_pages(data, room);
  read_job job = {.descriptor = descriptor, .data = data, .bytes = m->bytes, .ends = INT64_MAX};
  EMBED__TRY(embed__run(ctx, embed__ceil_div(m->bytes, EMBED__HUGE_PAGE), read_part, &job));
  errno = atomic_load(&job.failed);
  if (errno) return system_failed(ctx, label, "reading it");
  const int64_t end = atomic_load(&job.ends);
  if (end == INT64_MAX) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_IO, end, "%s: it shrank from %" PRId64 " to %" PRId64 " bytes while it was read", label, m->bytes, end);
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

bool embed__map_is_there(const char *path) {
  int before = errno;
  bool there = access(path, F_OK) == 0;
  errno = before;
  return there;
}

bool embed__map_is_folder(const char *path) {
  struct stat about = {0}; /* MSan does not see stat */
  int before = errno;
  bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
  errno = before;
  return folder;
}

void embed__map_close(const embed_allocator *memory, embed__map *m) {
  void *data = (void *)(uintptr_t)m->data;
  if (m->copied)
    embed__free(memory, data, (size_t)embed__whole_pages(m->bytes), alignment_of_copy(m->bytes));
  else if (data)
    (void)munmap(data, (size_t)m->bytes);
  m->data = NULL;
  m->copied = false;
}
