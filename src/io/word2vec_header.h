/* SPDX-License-Identifier: BSD-3-Clause */
/* The first line "rows dim" that word2vec's binary and text files share, and what tells the two apart. */
#ifndef EMBED__WORD2VEC_HEADER_H
#define EMBED__WORD2VEC_HEADER_H

#include "io/file.h"
#include "io/safe_file.h"

enum { EMBED__TOKEN_BYTES = 64 << 10 }; /* no token is longer */

typedef struct embed__word2vec_header {
  int64_t rows, dim;
  int64_t bytes;  /* of the line, with its newline; 0 = this is no such line */
  bool too_large; /* a number does not fit into 64 bits */
} embed__word2vec_header;

embed__word2vec_header embed__word2vec_read_header(const unsigned char *data, int64_t bytes);

/* Whether the rows behind the header are numbers in letters, broken ones too; false where there is no header. */
bool embed__word2vec_is_text(const unsigned char *data, int64_t bytes);

/* What both formats ask of the header: there is one, within the caller's limit, its numbers fit, dim >= 1. */
embed_status embed__word2vec_check_header(embed_context *ctx, const embed_file *f, const embed__word2vec_header *h, const embed_file_options *o);
/* The line itself. */
embed_status embed__word2vec_write_header(embed_context *ctx, embed__safe_file *f, int64_t rows, int64_t dim);
/* Notes of repeated and empty tokens. */
embed_status embed__word2vec_note_tokens(embed_context *ctx, embed_file *f);

#endif
