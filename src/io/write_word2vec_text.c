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

enum { NUMBER = 1 + EMBED__FLOAT_TEXT, TASK_NUMBERS = 4096 };

/* Rows first .. first + rows - 1 as text. */
typedef struct text_block {
  int64_t first, rows;
  char *text;       /* [rows, stride] */
  int64_t *lengths; /* [rows] */
} text_block;

/* One block is written while the next becomes text: neither the disk nor the threads wait for the other. */
/* A NUL near the beginning is what tells rows of bytes from text. */
static embed_status check_token(embed_context *ctx, const embed_writer *w, int64_t id, const char *token, int64_t bytes) {
  if (bytes && memchr(token, '\0', (size_t)bytes))
    return embed__fail(ctx, EMBED_E_ARGUMENT, id, "%s: the token of row %" PRId64 " holds a NUL: %s could not read it back", w->label, id, w->format->name);
  return embed__written_word(ctx, w, id, token, bytes);
}

typedef struct text_sink {
  embed_context *ctx;
  const embed_writer *w;
  const embed__written_table *t;
  embed__safe_file *file;
  const unsigned char *numbers; /* of the block that becomes text */
  text_block blocks[2], *next, *ready;
  int64_t most, stride, grain; /* rows of a block, bytes between them, rows of a task */
  embed_status status;         /* of writing */
  _Atomic int64_t infinite;    /* the least row that is not finite, INT64_MAX = none */
} text_sink;

static embed_status write_block(const text_sink *s, const text_block *b) {
  for (int64_t r = 0; r < b->rows; ++r) {
    int64_t token_bytes;
    const char *token = embed__written_token(s->w, b->first + r, &token_bytes);
    EMBED__TRY(embed__safe_write(s->ctx, s->file, token, token_bytes));
    EMBED__TRY(embed__safe_write(s->ctx, s->file, b->text + r * s->stride, b->lengths[r]));
  }
  return EMBED_OK;
}

static void print_rows(text_sink *s, int64_t from, int64_t end) {
  for (int64_t r = from; r < end; ++r) {
    char *row = s->next->text + r * s->stride, *p = embed__write_floats(s->numbers + r * s->t->row_bytes, s->t->dim, row);
    if (!p) {
      embed__keep_least(&s->infinite, s->next->first + r);
      continue;
    }
    *p++ = '\n';
    s->next->lengths[r] = p - row;
  }
}

/* The first task begins first: writing takes the longest. Of the context it uses the error text alone, and so does no other task. */
static void write_or_print(void *arg, int64_t task, int32_t worker) {
  text_sink *s = arg;
  (void)worker;
  if (task == 0)
    s->status = write_block(s, s->ready);
  else
    print_rows(s, (task - 1) * s->grain, embed__min(s->next->rows, task * s->grain));
}

static embed_status write_rows(embed_context *ctx, void *arg, int64_t first, int64_t rows, const unsigned char *block, int64_t bytes) {
  text_sink *s = arg;
  (void)bytes;
  for (int64_t done = 0; done < rows; done += s->ready->rows) {
    s->numbers = block + done * s->t->row_bytes;
    s->next->first = first + done;
    s->next->rows = embed__min(s->most, rows - done);
    EMBED__TRY(embed__run(ctx, 1 + embed__ceil_div(s->next->rows, s->grain), write_or_print, s));
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

static embed_status write_word2vec_text(embed_context *ctx, embed_writer *w, embed__safe_file *f) {
  const embed__written_table *t = embed__written(w, 0);
  text_sink s = {.ctx = ctx, .w = w, .t = t, .file = f, .grain = embed__max(1, TASK_NUMBERS / t->dim)};
  EMBED__TRY(embed__written_tokens(ctx, w, t->rows));
  if (!embed__mul(t->dim, NUMBER, &s.stride) || !embed__add(s.stride, 1, &s.stride)) return embed__out_of_memory(ctx, -1);
  s.most = embed__max(1, embed__min(t->rows, w->max_memory / 2 / s.stride));
  atomic_store(&s.infinite, INT64_MAX);
  for (int i = 0; i < 2; ++i) {
    EMBED__TRY(embed__scratch_matrix(ctx, s.most, s.stride, 1, &s.blocks[i].text));
    EMBED__TRY(embed__scratch_get(ctx, s.most, sizeof *s.blocks[i].lengths, &s.blocks[i].lengths));
  }
  s.next = &s.blocks[0];
  s.ready = &s.blocks[1];
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
