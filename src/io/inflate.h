/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw deflate (RFC 1951) of a zip member, as a stream of as many bytes as its header declares: no member can give more. zlib does
 * it where it was there at build time; otherwise begin says so. */
#ifndef EMBED__INFLATE_H
#define EMBED__INFLATE_H

#include "core/error.h"

typedef struct embed__inflate embed__inflate;

typedef struct embed__deflated {
  const char *label, *member; /* for messages; they outlive the stream */
  const unsigned char *data;  /* [bytes] */
  int64_t at, bytes;          /* where data stands in the file */
  int64_t whole;              /* bytes that it must give */
  uint32_t sum;               /* their CRC-32 */
} embed__deflated;

/* Before memory for all of it is asked for: a member that declares many times its own bytes is inflated once to nowhere. */
embed_status embed__inflate_justify(embed_context *ctx, const embed__deflated *from);
/* All of it at once; out [whole], NULL = it is only looked at. */
embed_status embed__inflate_all(embed_context *ctx, const embed__deflated *from, void *out);
/* E_UNSUPPORTED: a build without zlib. */
embed_status embed__inflate_begin(embed_context *ctx, const embed__deflated *from, embed__inflate **out);
/* The next count bytes. E_FORMAT: wrong data, or fewer bytes than that. */
embed_status embed__inflate_read(embed__inflate *s, void *out, int64_t count);
/* Reads what is left and keeps nothing of it. E_FORMAT unless the member ends with the last byte that it declares and its sum is right. */
embed_status embed__inflate_finish(embed__inflate *s);
void embed__inflate_end(embed__inflate *s); /* NULL is fine */

#endif
