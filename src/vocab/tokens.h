/* SPDX-License-Identifier: BSD-3-Clause */
/* Token strings: id <-> bytes. Tokens are bytes, not characters: any value may stand in them, NUL too. */
#ifndef EMBED__TOKENS_H
#define EMBED__TOKENS_H

#include "core/error.h"
#include "vocab/stored.h"

typedef struct embed__tokens embed__tokens;

/* Room for `count` tokens of together at most `bytes` bytes: what a reader can prove before it reads the first. */
embed_status embed__tokens_new(embed_context *ctx, int64_t count, int64_t bytes, embed__tokens **out);
/* The same with a given key of the index: for tests. A key that nobody knows is the point of it. */
embed_status embed__tokens_keyed(embed_context *ctx, int64_t count, int64_t bytes, const uint64_t key[2], embed__tokens **out);
/* The next id's token; never more than was made room for. */
void embed__tokens_add(embed__tokens *t, const void *token, int64_t bytes);
/* The same in two steps, for many tokens: append them, then index what was appended. Until then find and repeated do not know them. */
void embed__tokens_append(embed__tokens *t, const void *token, int64_t bytes);
void embed__tokens_index(embed__tokens *t);
void embed__tokens_append_none(embed__tokens *t); /* the next id has no token, not even an empty one */
/* Appends tokens that stand in a row, each behind its length as 64 bits of either byte order. The caller has proved them; end: behind the
 * last byte that may be read. */
void embed__tokens_append_row(embed__tokens *t, const void *strings, int64_t count, bool big_endian, const void *end);
/* Tokens that lie in a file as vocab/stored.h has them: nothing is read or built. section stays the caller's and outlives them. */
embed_status embed__tokens_stored(embed_context *ctx, const embed__stored_tokens *section, embed__tokens **out);
void embed__tokens_free(embed__tokens *t); /* NULL is fine */

int64_t embed__tokens_count(const embed__tokens *t);
const char *embed__tokens_get(const embed__tokens *t, int64_t id, int64_t *bytes);    /* a NUL behind it; NULL = no such id, or it has none: *bytes untouched */
int64_t embed__tokens_find(const embed__tokens *t, const void *token, int64_t bytes); /* the lowest id, -1 = none */
int64_t embed__tokens_repeated(const embed__tokens *t);                               /* ids whose token a lower id has */
int64_t embed__tokens_empty(const embed__tokens *t);                                  /* ids whose token has no bytes */
/* Whether the tokens had to walk so far in the index that it was made again with SipHash (vocab/hash.h). */
bool embed__tokens_is_careful(const embed__tokens *t);

#endif
