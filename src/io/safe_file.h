/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that are there whole or not at all. The only place that writes to the disk: what is written goes to a temporary
 * beside the target, which takes the target's name when it is complete and on the disk. */
#ifndef EMBED__SAFE_FILE_H
#define EMBED__SAFE_FILE_H

#include "core/error.h"

enum { EMBED__SAFE_NAME = 256 }; /* room for a name within a folder */

typedef struct embed__safe_file {
  int folder, file;                                         /* descriptors, -1 = none */
  unsigned char *buffer;                                    /* scratch of the context: open, write and commit belong to one call */
  int64_t used;                                             /* bytes in the buffer */
  int64_t written;                                          /* bytes handed over since the file was opened */
  int64_t stored, begun;                                    /* of them with the system; that it was told to put on the disk */
  const char *label;                                        /* of messages; the caller's */
  char name[EMBED__SAFE_NAME], temporary[EMBED__SAFE_NAME]; /* in folder; temporary "" = there is none */
} embed__safe_file;

/* What would fail at once: no such folder, a folder that may not be written to, a target that is no regular file. E_IO. */
embed_status embed__safe_check(embed_context *ctx, const char *path, const char *label);
/* Makes the temporary. After a success or a failure embed__safe_drop may be called; errno stays as it was in each of these. */
embed_status embed__safe_open(embed_context *ctx, const char *path, const char *label, embed__safe_file *f);
embed_status embed__safe_write(embed_context *ctx, embed__safe_file *f, const void *bytes, int64_t count);
embed_status embed__safe_zeros(embed_context *ctx, embed__safe_file *f, int64_t count);
/* Over bytes that have been written. */
embed_status embed__safe_patch(embed_context *ctx, embed__safe_file *f, int64_t at, const void *bytes, int64_t count);
/* To the disk, then under the target's name, then the name to the disk. */
embed_status embed__safe_commit(embed_context *ctx, embed__safe_file *f);
void embed__safe_drop(embed__safe_file *f); /* without a commit nothing is left; a committed one is fine */

#endif
