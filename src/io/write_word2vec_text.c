/* SPDX-License-Identifier: BSD-3-Clause */
/* word2vec's text: a line "rows dim", then per row the token and dim numbers, a blank before each. Numbers have the fewest digits that
 * give the float back, whatever the locale. Rows behind the vocabulary have no token and are left out. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/checked.h"
#include "core/least.h"
#include "io/floats.h"
#include "io/file.h"
#include "io/word2vec_header.h"
#include "io/writer.h"
#include "thread/run.h"

enum { NUMBER = 1 + EMBED__FLOAT_TEXT, PIECE = 512 << 10 };

/* Some rows, one behind the other: what a task makes. */
typedef struct text_piece {
  int64_t first, rows, bytes; /* bytes: of its text, at most its room */
  char *text;
} text_piece;

typedef struct text_block {
  text_piece *pieces;
  int64_t count;
  char *text;
} text_block;

/* A NUL near the beginning is what tells rows of bytes from text. */
static embed_status check_token(embed_context *ctx, const embed_writer *w, int64_t id, const char *token, int64_t bytes) {
  if (bytes && memchr(token, '\0', (size_t)bytes))
    return embed__fail(ctx, EMBED_E_ARGUMENT, id, "%s: the token of row %" PRId64 " holds a NUL: %s could not read it back", w->label, id, w->format->name);
  return embed__written_word(ctx, w, id, token, bytes);
}

/* One block is written while the next becomes text: neither the disk nor the threads wait for the other. */
typedef struct text_sink {
  embed_context *ctx;
  const embed_writer *w;
  const embed__written_table *t;
  embed__safe_file *file;
  const unsigned char *numbers; /* of row first */
  int64_t first;
  text_block blocks[2], *next, *ready;
  int64_t room, numbers_room; /* bytes of a block; of a row's numbers and its end */
  embed_status status;        /* of writing */
  _Atomic int64_t infinite;   /* the least row that is not finite, INT64_MAX = none */
} text_sink;

static embed_status write_block(const text_sink *s, const text_block *b) {
  for (int64_t i = 0; i < b->count; ++i) EMBED__TRY(embed__safe_write(s->ctx, s->file, b->pieces[i].text, b->pieces[i].bytes));
  return EMBED_OK;
}

/* The next block's pieces: rows from `row` on, as many as there is room for. Returns the row behind them. */
static int64_t lay_out(text_sink *s, int64_t row, int64_t end) {
  text_block *b = s->next;
  int64_t used = 0, begin = 0;
  for (b->count = 0; row < end; ++row) {
    int64_t bytes;
    (void)embed__written_token(s->w, row, &bytes);
    bytes += s->numbers_room;
    if (bytes > s->room - used) break;
    if (b->count == 0 || used - begin >= PIECE) {
      b->pieces[b->count++] = (text_piece){.first = row, .text = b->text + used};
      begin = used;
    }
    ++b->pieces[b->count - 1].rows;
    used += bytes;
  }
  return row;
}

static void print_rows(text_sink *s, text_piece *piece) {
  char *at = piece->text;
  for (int64_t row = piece->first; row < piece->first + piece->rows; ++row) {
    int64_t bytes;
    const char *token = embed__written_token(s->w, row, &bytes);
    memcpy(at, token, (size_t)bytes);
    char *end = embed__write_floats(s->ctx->kernels, s->numbers + (row - s->first) * s->t->row_bytes, s->t->dim, at + bytes);
    if (!end) {
      embed__keep_least(&s->infinite, row);
      return;
    }
    *end = '\n';
    at = end + 1;
  }
  piece->bytes = at - piece->text;
}

/* The first task begins first: writing takes the longest. Of the context it uses the error text alone, and so does no other task. */
static void write_or_print(void *arg, int64_t task, int32_t worker) {
  text_sink *s = arg;
  (void)worker;
  if (task == 0)
    s->status = write_block(s, s->ready);
  else
    print_rows(s, &s->next->pieces[task - 1]);
}

static embed_status write_rows(embed_context *ctx, void *arg, int64_t first, int64_t rows, const unsigned char *block, int64_t bytes) {
  text_sink *s = arg;
  (void)bytes;
  s->numbers = block;
  s->first = first;
  for (int64_t row = first; row < first + rows;) {
    row = lay_out(s, row, first + rows);
    EMBED__TRY(embed__run(ctx, 1 + s->next->count, write_or_print, s));
    EMBED__TRY(s->status);
    const int64_t infinite = atomic_load(&s->infinite);
    if (infinite != INT64_MAX)
      return embed__fail(ctx, EMBED_E_NONFINITE, infinite, "%s: row %" PRId64 " of \"%.80s\" has a value that is NaN or infinite: text vectors have none",
                         s->w->label, infinite, s->t->name);
    text_block *printed = s->next;
    s->next = s->ready;
    s->ready = printed;
  }
  return EMBED_OK;
}

/* Room for max_memory / 2, and for any one row. */
static embed_status make_room(embed_context *ctx, text_sink *s) {
  int64_t longest = 0, row;
  if (!embed__mul(s->t->dim, NUMBER, &s->numbers_room) || !embed__add(s->numbers_room, 1, &s->numbers_room)) return embed__out_of_memory(ctx, -1);
  for (int64_t id = 0; id < s->t->rows; ++id) {
    int64_t bytes;
    (void)embed__written_token(s->w, id, &bytes);
    longest = embed__max(longest, bytes);
  }
  if (!embed__add(s->numbers_room, longest, &row) || !embed__mul(row, s->t->rows, &s->room)) s->room = INT64_MAX;
  s->room = embed__max(row, embed__min(s->room, s->w->max_memory / 2));
  for (int i = 0; i < 2; ++i) {
    EMBED__TRY(embed__scratch_get(ctx, s->room, 1, &s->blocks[i].text));
    EMBED__TRY(embed__scratch_get(ctx, s->room / PIECE + 2, sizeof *s->blocks[i].pieces, &s->blocks[i].pieces));
    s->blocks[i].count = 0;
  }
  s->next = &s->blocks[0];
  s->ready = &s->blocks[1];
  return EMBED_OK;
}

static embed_status write_word2vec_text(embed_context *ctx, embed_writer *w, embed__safe_file *f) {
  const embed__written_table *t = embed__written(w, 0);
  text_sink s = {.ctx = ctx, .w = w, .t = t, .file = f};
  EMBED__TRY(embed__written_tokens(ctx, w, t->rows));
  atomic_store(&s.infinite, INT64_MAX);
  EMBED__TRY(make_room(ctx, &s));
  EMBED__TRY(embed__word2vec_write_header(ctx, f, t->rows, t->dim));
  EMBED__TRY(embed__written_rows(ctx, w, t, write_rows, &s));
  return write_block(&s, s.ready);
}

const embed__writer_format embed__writer_word2vec_text = {.name = "word2vec-text",
                                                          .extensions = ".vec .txt",
                                                          .tokens = true,
                                                          .check_table = embed__written_as_f32,
                                                          .check_token = check_token,
                                                          .write = write_word2vec_text};
