/* SPDX-License-Identifier: BSD-3-Clause */
/* Token strings as a section of a file (io/FORMAT.md, "tokens"): found where they lie, with nothing built when the file is
 * opened. The bytes may have been made by an enemy or change while they are read: every place is checked when it is used. */
#ifndef EMBED__STORED_H
#define EMBED__STORED_H

#include <stdbool.h>
#include <stdint.h>

enum { EMBED__STORED_HEAD = 64, EMBED__STORED_PROBES = 512 /* slots looked at for one token, at most */ };

typedef struct embed__stored_tokens {
  const unsigned char *offsets; /* (count + 1) u64: token id is arena[offsets[id] .. offsets[id + 1] - 1), equal offsets = no token */
  const unsigned char *slots;   /* u64 each: 0 = free, else 24 bits of the hash above 40 of id + 1 */
  const unsigned char *arena;   /* the tokens, a NUL after each */
  int64_t count, arena_bytes;
  uint64_t slot_mask, key[2];
  int64_t repeated, empty;
} embed__stored_tokens;

/* Checks the head and the sizes. False: *at is the byte of the section that is wrong, *why what is wrong with it. */
bool embed__stored_open(const unsigned char *section, int64_t bytes, embed__stored_tokens *out, int64_t *at, const char **why);
const char *embed__stored_get(const embed__stored_tokens *t, int64_t id, int64_t *bytes);    /* NULL = none */
int64_t embed__stored_find(const embed__stored_tokens *t, const void *token, int64_t bytes); /* the lowest id, -1 = none */

typedef struct embed__token_span {
  int64_t begin, bytes; /* in a text of many tokens; bytes -1 = the id has no token */
} embed__token_span;
/* Bytes of the section, -1 = they do not fit. arena_bytes: of all the tokens, and one more for each that is there. */
int64_t embed__stored_bytes(int64_t count, int64_t arena_bytes);
/* Writes the section, of so many bytes: the same for the same tokens. False: no key spreads them (never seen). */
bool embed__stored_build(unsigned char *section, int64_t bytes, int64_t count, const embed__token_span *spans, const char *text);

#endif
