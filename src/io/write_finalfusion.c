/* SPDX-License-Identifier: BSD-3-Clause */
/* finalfusion (finalfusion-rust, src/chunks): a simple vocabulary and an array of floats. Rows are written as they are, and no norms
 * beside them: readers then take the rows for what they are. Its libraries compare words by their rows' products, which are cosines where
 * rows have length 1. Rows behind the vocabulary have no word and are left out. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "io/file.h"
#include "io/writer.h"
#include "vocab/tokens.h"

enum { SIMPLE = 1, ARRAY = 2, TYPE_F32 = 10, PAD = 4 };

/* Rust's strings are UTF-8. */
static embed_status check_token(embed_context *ctx, const embed_writer *w, int64_t id, const char *token, int64_t bytes) {
  const embed_status status = embed__written_utf8(ctx, w, "token", token, bytes);
  if (status != EMBED_OK) return embed__fail(ctx, status, id, "%s: the token of row %" PRId64 " is no UTF-8, which finalfusion asks for", w->label, id);
  if (bytes <= UINT32_MAX) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_ARGUMENT, id, "%s: the token of row %" PRId64 " has %" PRId64 " bytes, at most %" PRIu32 " may be", w->label, id, bytes,
                     UINT32_MAX);
}

static embed_status check_table(embed_context *ctx, const embed_writer *w, embed__written_table *t) {
  if (t->dim > UINT32_MAX)
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s: finalfusion has at most %" PRIu32 " columns, not %" PRId64, w->label, UINT32_MAX, t->dim);
  return embed__written_as_f32(ctx, w, t);
}

/* Its readers refuse a word that stands twice. */
static embed_status check_words(embed_context *ctx, const embed_writer *w, int64_t count, int64_t *bytes) {
  embed__tokens *words;
  *bytes = 0;
  EMBED__TRY(embed__written_tokens(ctx, w, count));
  for (int64_t id = 0, of = 0; id < count; ++id, *bytes += of) (void)embed__written_token(w, id, &of);
  EMBED__TRY(embed__tokens_new(ctx, count, *bytes, &words));
  embed_status status = EMBED_OK;
  int64_t length = 0;
  for (int64_t id = 0; id < count && status == EMBED_OK; ++id) {
    const char *word = embed__written_token(w, id, &length);
    embed__tokens_add(words, word, length);
    if (embed__tokens_repeated(words))
      status =
          embed__fail(ctx, EMBED_E_ARGUMENT, id, "%s: the token \"%.*s\" of row %" PRId64 " is that of row %" PRId64 " too, and finalfusion takes none twice",
                      w->label, (int)embed__min(length, 64), word, id, embed__tokens_find(words, word, length));
  }
  embed__tokens_free(words);
  return status;
}

static embed_status put(embed_context *ctx, embed__safe_file *f, uint64_t number, int width) {
  unsigned char bytes[8];
  embed__put_le(bytes, number, width);
  return embed__safe_write(ctx, f, bytes, width);
}

static embed_status put_words(embed_context *ctx, const embed_writer *w, embed__safe_file *f, int64_t count, int64_t bytes) {
  EMBED__TRY(put(ctx, f, SIMPLE, 4));
  EMBED__TRY(put(ctx, f, (uint64_t)(8 + 4 * count + bytes), 8));
  EMBED__TRY(put(ctx, f, (uint64_t)count, 8));
  for (int64_t id = 0; id < count; ++id) {
    int64_t length;
    const char *word = embed__written_token(w, id, &length);
    EMBED__TRY(put(ctx, f, (uint64_t)length, 4));
    EMBED__TRY(embed__safe_write(ctx, f, word, length));
  }
  return EMBED_OK;
}

static embed_status write_finalfusion(embed_context *ctx, embed_writer *w, embed__safe_file *f) {
  enum { EXTENTS = 8 + 4 + 4 };
  const embed__written_table *t = embed__written(w, 0);
  int64_t bytes;
  EMBED__TRY(check_words(ctx, w, t->rows, &bytes));
  EMBED__TRY(embed__safe_write(ctx, f, "FiFu", 4));
  static const uint32_t head[] = {0 /* version */, 2 /* chunks */, SIMPLE, ARRAY};
  for (size_t i = 0; i < sizeof head / sizeof *head; ++i) EMBED__TRY(put(ctx, f, head[i], 4));
  EMBED__TRY(put_words(ctx, w, f, t->rows, bytes));
  const int64_t padding = PAD - (f->written + 12 + EXTENTS) % PAD;
  EMBED__TRY(put(ctx, f, ARRAY, 4));
  EMBED__TRY(put(ctx, f, (uint64_t)(EXTENTS + padding + t->bytes), 8));
  EMBED__TRY(put(ctx, f, (uint64_t)t->rows, 8));
  EMBED__TRY(put(ctx, f, (uint64_t)t->dim, 4));
  EMBED__TRY(put(ctx, f, TYPE_F32, 4));
  EMBED__TRY(embed__safe_zeros(ctx, f, padding));
  return embed__written_rows(ctx, w, t, embed__rows_to_file, f);
}

const embed__writer_format embed__writer_finalfusion = {
    .name = "finalfusion", .extensions = ".fifu", .tokens = true, .check_table = check_table, .check_token = check_token, .write = write_finalfusion};
