/* SPDX-License-Identifier: BSD-3-Clause */
/* word2vec's text: a line "rows dim", then per row the token and dim numbers, a blank before each. Numbers have the fewest digits that
 * give the float back, whatever the locale. Rows behind the vocabulary have no token and are left out. */
#include <inttypes.h>
#include <math.h>
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

typedef struct text_sink {
  const embed_writer *w;
  const embed__written_table *t;
  embed__safe_file *file;
  const unsigned char *block; /* rows first .. first + rows - 1 */
  int64_t first, rows, grain;
  int64_t most, stride;     /* rows written as text at once; bytes between them */
  char *text;               /* [most, stride] */
  int64_t *lengths;         /* [most] */
  _Atomic int64_t infinite; /* the least row that is not finite, INT64_MAX = none */
} text_sink;

static void print_rows(void *arg, int64_t task, int32_t worker) {
  text_sink *s = arg;
  (void)worker;
  for (int64_t r = task * s->grain, end = embed__min(s->rows, r + s->grain); r < end; ++r) {
    const unsigned char *numbers = s->block + r * s->t->row_bytes;
    char *row = s->text + r * s->stride, *p = row;
    for (int64_t j = 0; j < s->t->dim; ++j) {
      const uint32_t bits = embed__le32(numbers + 4 * j);
      float x;
      memcpy(&x, &bits, 4);
      if (!isfinite(x)) {
        embed__keep_least(&s->infinite, s->first + r);
        break;
      }
      *p++ = ' ';
      p += embed__write_float(x, p);
    }
    *p++ = '\n';
    s->lengths[r] = p - row;
  }
}

static embed_status write_rows(embed_context *ctx, void *arg, int64_t first, int64_t rows, const unsigned char *block, int64_t bytes) {
  text_sink *s = arg;
  (void)bytes;
  for (int64_t done = 0; done < rows; done += s->rows) {
    s->block = block + done * s->t->row_bytes;
    s->first = first + done;
    s->rows = embed__min(s->most, rows - done);
    EMBED__TRY(embed__run(ctx, embed__ceil_div(s->rows, s->grain), print_rows, s));
    const int64_t infinite = atomic_load(&s->infinite);
    if (infinite != INT64_MAX)
      return embed__fail(ctx, EMBED_E_NONFINITE, infinite, "%s: row %" PRId64 " of \"%.80s\" has a value that is NaN or infinite: text vectors have none",
                         s->w->label, infinite, s->t->name);
    for (int64_t r = 0; r < s->rows; ++r) {
      int64_t token_bytes;
      const char *token = embed__written_token(s->w, s->first + r, &token_bytes);
      EMBED__TRY(embed__safe_write(ctx, s->file, token, token_bytes));
      EMBED__TRY(embed__safe_write(ctx, s->file, s->text + r * s->stride, s->lengths[r]));
    }
  }
  return EMBED_OK;
}

static embed_status write_word2vec_text(embed_context *ctx, embed_writer *w, embed__safe_file *f) {
  const embed__written_table *t = embed__written(w, 0);
  text_sink s = {.w = w, .t = t, .file = f, .grain = embed__max(1, TASK_NUMBERS / t->dim)};
  EMBED__TRY(embed__written_tokens(ctx, w, t->rows));
  if (!embed__mul(t->dim, NUMBER, &s.stride) || !embed__add(s.stride, 1, &s.stride)) return embed__out_of_memory(ctx, -1);
  s.most = embed__max(1, embed__min(t->rows, w->max_memory / s.stride));
  atomic_store(&s.infinite, INT64_MAX);
  EMBED__TRY(embed__scratch_matrix(ctx, s.most, s.stride, 1, &s.text));
  EMBED__TRY(embed__scratch_get(ctx, s.most, sizeof *s.lengths, &s.lengths));
  EMBED__TRY(embed__word2vec_write_header(ctx, f, t->rows, t->dim));
  return embed__written_rows(ctx, w, t, write_rows, &s);
}

const embed__writer_format embed__writer_word2vec_text = {.name = "word2vec-text",
                                                          .extensions = ".vec .txt",
                                                          .tokens = true,
                                                          .check_table = embed__written_as_f32,
                                                          .check_token = embed__written_word,
                                                          .write = write_word2vec_text};
