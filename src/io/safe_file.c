/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64 /* large files where long has 32 bits */
#endif
#include "io/safe_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/checked.h"
#include "io/text.h"

enum { PATH_ROOM = 4096, LINKS = 40, BUFFER = 256 << 10, NAME_KEPT = 200, TRIES = 100 };

static embed_status system_failed(embed_context *ctx, const char *label, const char *what) {
  return embed__fail(ctx, EMBED_E_IO, -1, "%s: %s: %s", label, what, strerror(errno));
}

static embed_status too_long(embed_context *ctx, const char *label) {
  errno = ENAMETOOLONG;
  return system_failed(ctx, label, "finding its folder");
}

/* The file that path's links lead to, whether it exists or not: it is replaced, and the links stay. */
static embed_status follow_links(embed_context *ctx, const char *label, char path[PATH_ROOM]) {
  char to[PATH_ROOM];
  struct stat about = {0};
  for (int i = 0; i < LINKS; ++i) {
    if (lstat(path, &about) != 0) return errno == ENOENT ? EMBED_OK : system_failed(ctx, label, "looking at it");
    if (!S_ISLNK(about.st_mode)) return EMBED_OK;
    ssize_t bytes = readlink(path, to, sizeof to);
    if (bytes < 0) return system_failed(ctx, label, "following the link");
    const char *slash = strrchr(path, '/');
    size_t before = to[0] != '/' && slash ? (size_t)(slash - path) + 1 : 0;
    if (before + (size_t)bytes >= PATH_ROOM) return too_long(ctx, label);
    memcpy(path + before, to, (size_t)bytes);
    path[before + (size_t)bytes] = '\0';
  }
  errno = ELOOP;
  return system_failed(ctx, label, "following the links");
}

static int open_again(int folder, const char *name, int flags, mode_t mode) {
  int descriptor;
  do descriptor = openat(folder, name, flags | O_CLOEXEC, mode);
  while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

/* f->folder and f->name. *exists: about describes the file that will be replaced. */
static embed_status find_target(embed_context *ctx, const char *given, embed__safe_file *f, struct stat *about, bool *exists) {
  char path[PATH_ROOM];
  size_t bytes = strlen(given);
  if (bytes >= sizeof path) return too_long(ctx, f->label);
  memcpy(path, given, bytes + 1);
  EMBED__TRY(follow_links(ctx, f->label, path));
  char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  if (strlen(name) >= EMBED__SAFE_NAME) return too_long(ctx, f->label);
  if (!*name) return embed__fail(ctx, EMBED_E_IO, -1, "%s: it names a folder, not a file", f->label);
  memcpy(f->name, name, strlen(name) + 1);
  if (slash) slash[slash == path] = '\0'; /* "/name" lies in "/" */
  f->folder = open_again(AT_FDCWD, slash ? path : ".", O_RDONLY | O_DIRECTORY, 0);
  if (f->folder < 0) return system_failed(ctx, f->label, "opening its folder");
  *exists = fstatat(f->folder, f->name, about, AT_SYMLINK_NOFOLLOW) == 0;
  if (!*exists && errno != ENOENT) return system_failed(ctx, f->label, "looking at it");
  if (*exists && !S_ISREG(about->st_mode))
    return embed__fail(ctx, EMBED_E_IO, -1, "%s: a %s stands there: only a regular file is replaced", f->label,
                       S_ISDIR(about->st_mode) ? "directory" : "special file");
  return EMBED_OK;
}

embed_status embed__safe_check(embed_context *ctx, const char *path, const char *label) {
  embed__safe_file f = {.folder = -1, .file = -1, .label = label};
  struct stat about = {0};
  bool exists;
  int before = errno;
  embed_status status = find_target(ctx, path, &f, &about, &exists);
  if (status == EMBED_OK && faccessat(f.folder, ".", W_OK | X_OK, AT_EACCESS) != 0) status = system_failed(ctx, label, "writing to its folder");
  embed__safe_drop(&f);
  errno = before;
  return status;
}

/* ".NAME.16 hexadecimal digits.embed-tmp": hidden, beside the target, told from others' files. */
static void name_temporary(embed__safe_file *f, uint64_t random) {
  embed__text text = embed__text_in(f->temporary, sizeof f->temporary);
  char kept[NAME_KEPT + 1] = "", digits[17];
  memcpy(kept, f->name, strlen(f->name) < NAME_KEPT ? strlen(f->name) : NAME_KEPT);
  for (int i = 0; i < 16; ++i) digits[i] = "0123456789abcdef"[random >> (4 * i) & 15];
  digits[16] = '\0';
  embed__text_add(&text, ".");
  embed__text_add(&text, kept);
  embed__text_add(&text, ".");
  embed__text_add(&text, digits);
  embed__text_add(&text, ".embed-tmp");
}

/* What replaces a file has its permissions and, where that is allowed, its owner; nobody sees more of it meanwhile. */
static embed_status make_temporary(embed_context *ctx, embed__safe_file *f, const struct stat *old) {
  uint64_t random = (uint64_t)(uintptr_t)f ^ (uint64_t)getpid() << 32;
  if (getentropy(&random, sizeof random) != 0) errno = 0; /* O_EXCL and another try do without */
  for (int i = 0; i < TRIES && f->file < 0; ++i) {
    name_temporary(f, random + (uint64_t)i);
    f->file = open_again(f->folder, f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, old ? 0600 : 0666);
    if (f->file < 0) f->temporary[0] = '\0';
    if (f->file < 0 && errno != EEXIST) break;
  }
  if (f->file < 0) return system_failed(ctx, f->label, "making a temporary file beside it");
  if (old) {
    struct stat new = {0};
    if (fstat(f->file, &new) == 0 && (new.st_uid != old->st_uid || new.st_gid != old->st_gid) && fchown(f->file, old->st_uid, old->st_gid) != 0) errno = 0;
    if (fchmod(f->file, old->st_mode & 0777) != 0) return system_failed(ctx, f->label, "giving the new file the permissions of the old");
  }
  return EMBED_OK;
}

embed_status embed__safe_open(embed_context *ctx, const char *path, const char *label, embed__safe_file *f) {
  struct stat about = {0};
  bool exists = false;
  int before = errno;
  *f = (embed__safe_file){.folder = -1, .file = -1, .label = label};
  EMBED__TRY(embed__scratch_get(ctx, BUFFER, 1, &f->buffer));
  embed_status status = find_target(ctx, path, f, &about, &exists);
  if (status == EMBED_OK) status = make_temporary(ctx, f, exists ? &about : NULL);
  errno = before;
  return status;
}

/* The disk works while the next rows are made: without this it would begin at the fsync. What fails here fails there. */
static void begin_writing(embed__safe_file *f) {
#ifdef SYNC_FILE_RANGE_WRITE
  enum { STRETCH = 4 << 20 };
  if (f->stored - f->begun < STRETCH) return;
  (void)sync_file_range(f->file, f->begun, f->stored - f->begun, SYNC_FILE_RANGE_WRITE);
  f->begun = f->stored;
#else
  (void)f;
#endif
}

/* at -1: behind what has been written. A write may be cut short (a signal, a limit): the rest is tried, and fails or not. */
static embed_status put(embed_context *ctx, embed__safe_file *f, int64_t at, const unsigned char *bytes, int64_t count) {
  enum { PIECE = 4 << 20 };
  int before = errno;
  while (count > 0) {
    size_t piece = (size_t)embed__min(count, PIECE);
    ssize_t done = at < 0 ? write(f->file, bytes, piece) : pwrite(f->file, bytes, piece, (off_t)at);
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = EIO;
    if (done <= 0) {
      embed_status status = system_failed(ctx, f->label, "writing it");
      errno = before;
      return status;
    }
    bytes += done;
    count -= done;
    if (at >= 0) {
      at += done;
    } else {
      f->stored += done;
      begin_writing(f);
    }
  }
  errno = before;
  return EMBED_OK;
}

static embed_status flush(embed_context *ctx, embed__safe_file *f) {
  int64_t count = f->used;
  f->used = 0;
  return put(ctx, f, -1, f->buffer, count);
}

embed_status embed__safe_write(embed_context *ctx, embed__safe_file *f, const void *bytes, int64_t count) {
  f->written += count;
  if (count > BUFFER - f->used) EMBED__TRY(flush(ctx, f));
  if (count >= BUFFER) return put(ctx, f, -1, bytes, count);
  if (count > 0) memcpy(f->buffer + f->used, bytes, (size_t)count);
  f->used += count;
  return EMBED_OK;
}

embed_status embed__safe_zeros(embed_context *ctx, embed__safe_file *f, int64_t count) {
  static const unsigned char zeros[512];
  for (; count > 0; count -= (int64_t)sizeof zeros) EMBED__TRY(embed__safe_write(ctx, f, zeros, embed__min(count, sizeof zeros)));
  return EMBED_OK;
}

embed_status embed__safe_patch(embed_context *ctx, embed__safe_file *f, int64_t at, const void *bytes, int64_t count) {
  EMBED__TRY(flush(ctx, f));
  return put(ctx, f, at, bytes, count);
}

static int sync_again(int descriptor) {
  int failed;
  do failed = fsync(descriptor);
  while (failed && errno == EINTR);
  return failed;
}

static embed_status commit(embed_context *ctx, embed__safe_file *f) {
  EMBED__TRY(flush(ctx, f));
  if (sync_again(f->file) != 0) return system_failed(ctx, f->label, "flushing it to the disk");
  int failed = close(f->file); /* network file systems report here what they could not store */
  f->file = -1;
  if (failed && errno != EINTR) return system_failed(ctx, f->label, "closing it");
  if (renameat(f->folder, f->temporary, f->folder, f->name) != 0) return system_failed(ctx, f->label, "giving the new file its name");
  f->temporary[0] = '\0';
  if (sync_again(f->folder) != 0 && errno != EINVAL && errno != EBADF) /* file systems without it */
    return system_failed(ctx, f->label, "it is written, but flushing its folder to the disk failed");
  return EMBED_OK;
}

embed_status embed__safe_commit(embed_context *ctx, embed__safe_file *f) {
  int before = errno;
  embed_status status = commit(ctx, f);
  embed__safe_drop(f);
  errno = before;
  return status;
}

void embed__safe_drop(embed__safe_file *f) {
  int before = errno;
  if (f->file >= 0) (void)close(f->file);
  if (f->temporary[0]) (void)unlinkat(f->folder, f->temporary, 0);
  if (f->folder >= 0) (void)close(f->folder);
  f->file = f->folder = -1;
  f->temporary[0] = '\0';
  errno = before;
}
