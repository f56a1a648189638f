/* SPDX-License-Identifier: BSD-3-Clause */
/* A strict pull parser of JSON (RFC 8259) for texts that nobody has proved: one token at a time, no tree.
 *
 * It works in a copy that the caller owns and that it overwrites: strings are unescaped where they stand and get a NUL behind
 * them, so they live as long as the copy. Refused beyond the grammar: text that is not UTF-8, lone surrogates, a key twice in
 * one object (compared unescaped), more than EMBED__JSON_DEPTH containers inside one another, integers past 64 bits, reals past
 * double. Memory: 16 bytes for each key of the containers that are open, at most 4 times the text. */
#ifndef EMBED__JSON_H
#define EMBED__JSON_H

#include <stdbool.h>
#include <string.h>

#include "core/error.h"

enum { EMBED__JSON_DEPTH = 64 };

typedef enum embed__json_kind {
  EMBED__JSON_END, /* of the whole text */
  EMBED__JSON_OBJECT,
  EMBED__JSON_OBJECT_END,
  EMBED__JSON_ARRAY,
  EMBED__JSON_ARRAY_END,
  EMBED__JSON_KEY,
  EMBED__JSON_STRING,
  EMBED__JSON_INTEGER, /* no fraction, no exponent */
  EMBED__JSON_REAL,
  EMBED__JSON_TRUE,
  EMBED__JSON_FALSE,
  EMBED__JSON_NULL
} embed__json_kind;

typedef struct embed__json {
  /* The token that was read last. */
  embed__json_kind kind;
  int64_t first;        /* its first byte, in the file */
  const char *string;   /* of keys and strings: unescaped, a NUL behind; of numbers: as written, nothing behind */
  int64_t string_bytes; /* NULs may be among them */
  int64_t integer;
  int depth; /* containers that are open */

  /* The parser's own. */
  embed_context *ctx;
  const char *label;
  char *text; /* text[bytes] = NUL */
  int64_t bytes, base, at;
  uint64_t objects; /* bit d: container d is an object */
  int state;
  struct embed__json_key *keys; /* of all open objects, the inner ones' last */
  int64_t key_count, key_room, key_start[EMBED__JSON_DEPTH];
  uint64_t seed[2];
  bool seeded;
} embed__json;

/* text[bytes] must be a NUL. base: where the text stands in the file, for messages, which begin with label. */
void embed__json_begin(embed__json *j, embed_context *ctx, const char *label, char *text, int64_t bytes, int64_t base);
void embed__json_end(embed__json *j); /* strings stay */
/* The next token. Nothing is read after a failure (E_FORMAT, E_OVERFLOW, E_MEMORY) or END. */
embed_status embed__json_next(embed__json *j);
embed_status embed__json_expect(embed__json *j, embed__json_kind kind, const char *what); /* next, and it must be of this kind */
embed_status embed__json_skip(embed__json *j);                                            /* the next value, whatever it holds */
/* For a value that its reader knows by sight, behind a key: what stands there, up to the text's NUL, and that the reader has read
 * so many bytes of it, the whole value. It must be JSON without a key that stands twice: nobody else looks at it. */
static inline const char *embed__json_ahead(const embed__json *j) { return j->text + j->at; }
void embed__json_took(embed__json *j, int64_t bytes);
/* Whether the last key or string is this: all its bytes, NULs too. In the header, where the compiler sees the literal's length. */
static inline bool embed__json_is(const embed__json *j, const char *what) {
  return j->string_bytes == (int64_t)strlen(what) && memcmp(j->string, what, strlen(what)) == 0;
}
/* Fails with E_FORMAT: "LABEL: the JSON should have WHAT at byte FIRST". */
embed_status embed__json_expected(const embed__json *j, const char *what);

#endif
