/* SPDX-License-Identifier: BSD-3-Clause */
/* The directory of a zip archive (PKWARE APPNOTE.TXT 6.3), zip64 too, proved: every member lies where the directory and its own header
 * say, none overlaps another, no two have one name. Nothing is unpacked here. */
#ifndef EMBED__ZIP_H
#define EMBED__ZIP_H

#include <string.h>

#include "io/file.h"
#include "io/inflate.h"

typedef struct embed__zip_member {
  const char *name; /* a NUL behind it and none in it */
  int64_t name_bytes;
  int64_t at, data;      /* in the file: its own header, its first byte */
  int64_t stored, bytes; /* in the file, unpacked */
  uint32_t sum;          /* CRC-32 of what is unpacked */
  bool deflated;
} embed__zip_member;

typedef struct embed__zip {
  embed_context *ctx;
  const unsigned char *file;
  const char *label;
  int64_t file_bytes;
  embed__zip_member *members; /* in the directory's order */
  int64_t count, room;
  embed__tokens *names;
} embed__zip;

/* Whether it looks like an archive with a member whose name ends like this: by the first member's name, or by a directory that may be
 * wrong. */
bool embed__zip_holds(const unsigned char *data, int64_t bytes, const char *ending);
/* On failure too, out wants to be freed. */
embed_status embed__zip_open(embed_context *ctx, const embed_file *f, embed__zip *out);
void embed__zip_free(embed__zip *z);
const embed__zip_member *embed__zip_find(const embed__zip *z, const char *name, int64_t bytes); /* NULL = none */
embed__deflated embed__zip_deflated(const embed__zip *z, const embed__zip_member *member);
/* The sum of a stored member. */
embed_status embed__zip_check_sum(const embed__zip *z, const embed__zip_member *member);
/* E_...: "LABEL: member "NAME" WHAT (byte AT)". */
embed_status embed__zip_fail(const embed__zip *z, const embed__zip_member *member, embed_status status, int64_t at, const char *what);

static inline bool embed__ends_with(const char *name, int64_t bytes, const char *ending) {
  const int64_t wanted = (int64_t)strlen(ending);
  return bytes >= wanted && memcmp(name + bytes - wanted, ending, (size_t)wanted) == 0;
}

#endif
