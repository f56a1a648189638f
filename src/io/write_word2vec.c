/* SPDX-License-Identifier: BSD-3-Clause */
/* word2vec's binary file: a line "rows dim", then per row the token, a blank, the floats and a newline, as word2vec.c writes
 * them. Rows behind the vocabulary have no token and are left out. */
#include <inttypes.h>
#include <string.h>

#include "io/word2vec_header.h"
#include "io/writer.h"

enum { TOKEN_BYTES = 64 << 10 }; /* the longest that the reader takes */

/* WV-06: the blank ends a token and newlines before one are passed over. */
embed_status embed__written_word(embed_context *ctx, const embed_writer *w, int64_t id, const char *token, int64_t bytes) {
  const char *why = NULL;
  if (bytes == 0)
    why = "is empty";
  else if (memchr(token, ' ', (size_t)bytes))
    why = "holds a blank";
  else if (memchr(token, '\n', (size_t)bytes))
    why = "holds a newline";
  else if (bytes > TOKEN_BYTES)
    why = "is longer than 65536 bytes";
  if (!why) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_ARGUMENT, id, "%s: the token of row %" PRId64 " %s: %s could not read it back", w->label, id, why, w->format->name);
}

typedef struct row_sink {
  const embed_writer *w;
  const embed__written_table *t;
  embed__safe_file *file;
} row_sink;

static embed_status write_rows(embed_context *ctx, void *arg, int64_t first, int64_t rows, const unsigned char *block, int64_t bytes) {
  const row_sink *sink = arg;
  (void)bytes;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t token_bytes;
    const char *token = embed__written_token(sink->w, first + r, &token_bytes);
    EMBED__TRY(embed__safe_write(ctx, sink->file, token, token_bytes));
    EMBED__TRY(embed__safe_write(ctx, sink->file, " ", 1));
    EMBED__TRY(embed__safe_write(ctx, sink->file, block + r * sink->t->row_bytes, sink->t->packed_bytes));
    EMBED__TRY(embed__safe_write(ctx, sink->file, "\n", 1));
  }
  return EMBED_OK;
}

static embed_status write_word2vec(embed_context *ctx, embed_writer *w, embed__safe_file *f) {
  const embed__written_table *t = embed__written(w, 0);
  EMBED__TRY(embed__written_tokens(ctx, w, t->rows));
  EMBED__TRY(embed__word2vec_write_header(ctx, f, t->rows, t->dim));
  row_sink sink = {.w = w, .t = t, .file = f};
  return embed__written_rows(ctx, w, t, write_rows, &sink);
}

const embed__writer_format embed__writer_word2vec = {.name = "word2vec",
                                                     .extensions = ".bin .w2v",
                                                     .tokens = true,
                                                     .check_table = embed__written_as_f32,
                                                     .check_token = embed__written_word,
                                                     .write = write_word2vec};
