/* SPDX-License-Identifier: BSD-3-Clause */
/* GloVe's own binary file (stanfordnlp/GloVe, glove.c with -binary): 2 * rows * (dim + 1) doubles and nothing else: a row per word, its
 * bias behind it, then the same of the words as contexts. What it holds says neither rows nor dim, so the format is only asked for by
 * its name: dim or vocab of embed_file_options, or the vocab.txt in the same folder with its line per word, settle them. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
#include "io/byte_order.h"
#include "io/cursor.h"
#include "io/format.h"
#include "io/word2vec_header.h"

enum { NUMBER = 8, TENSORS = 4 };

bool embed__glove_binary_probe(const unsigned char *data, int64_t bytes) {
  (void)data;
  (void)bytes;
  return false;
}

/* --- The words */

typedef struct line {
  const unsigned char *word;
  int64_t bytes;
} line;

/* A word and its count: the last blank parts them. */
static line next_line(const unsigned char **at, const unsigned char *end) {
  const unsigned char *newline = memchr(*at, '\n', (size_t)(end - *at)), *last = newline ? newline : end;
  line l = {.word = *at, .bytes = last - *at};
  *at = newline ? newline + 1 : end;
  while (l.bytes > 0 && l.word[l.bytes - 1] != ' ') --l.bytes;
  if (l.bytes > 0) --l.bytes;
  return l;
}

static int64_t count_lines(const embed__map *map) {
  int64_t lines = 0;
  for (const unsigned char *at = map->data, *end = at + map->bytes; at < end; ++lines) (void)next_line(&at, end);
  return lines;
}

static embed_status add_tokens(embed_context *ctx, embed_file *f, const embed__map *map, int64_t rows) {
  int64_t bytes = 0;
  for (const unsigned char *at = map->data, *end = at + map->bytes; at < end;) bytes += next_line(&at, end).bytes;
  EMBED__TRY(embed__tokens_new(ctx, rows, bytes, &f->tokens));
  for (const unsigned char *at = map->data, *end = at + map->bytes; at < end;) {
    const line l = next_line(&at, end);
    embed__tokens_append(f->tokens, l.word, l.bytes);
  }
  embed__tokens_index(f->tokens);
  return embed__word2vec_note_tokens(ctx, f);
}

/* --- The numbers */

static embed_status find_extents(embed_context *ctx, const embed_file *f, const embed_file_options *o, int64_t words, int64_t *rows, int64_t *dim) {
  const int64_t numbers = f->map.bytes / NUMBER, pairs = numbers / 2;
  const bool by_dim = o->dim > 0;
  *rows = by_dim ? o->dim < INT64_MAX ? pairs / (o->dim + 1) : 0 : o->vocab > 0 ? o->vocab : words;
  if (*rows == 0 && !by_dim)
    return embed__fail(ctx, EMBED_E_OPTION, -1,
                       "%s: GloVe's binary file says neither its rows nor its columns: dim or vocab of embed_file_options, or a vocab.txt beside it, must",
                       f->label);
  *dim = by_dim ? o->dim : pairs / *rows - 1;
  if (*rows < 1 || *dim < 1 || f->map.bytes % (2 * NUMBER) != 0 || pairs % *rows != 0 || pairs / *rows != *dim + 1)
    return embed__fail(ctx, EMBED_E_FORMAT, f->map.bytes, "%s: its %" PRId64 " bytes are not twice %" PRId64 " rows of %" PRId64 " doubles and a bias",
                       f->label, f->map.bytes, *rows, *dim);
  return EMBED_OK;
}

static void describe(embed_file *f, int64_t rows, int64_t dim) {
  static const char *const names[TENSORS] = {"vectors", "bias", "context", "context_bias"};
  const int64_t row = NUMBER * (dim + 1);
  for (int i = 0; i < TENSORS; ++i) {
    const int64_t columns = i % 2 ? 1 : dim;
    f->tensors[i] = (embed__tensor){.name = names[i],
                                    .stored = "f64",
                                    .shape = {rows, columns},
                                    .rank = 2,
                                    .offset = i / 2 * rows * row + (i % 2 ? NUMBER * dim : 0),
                                    .bytes = (rows - 1) * row + NUMBER * columns,
                                    .dtype = EMBED_F64,
                                    .swapped = embed__is_swapped(EMBED_F64, false),
                                    .row_bytes = row};
  }
  f->roles_given = true;
  f->roles[EMBED_ROLE_TOKEN] = 0;
}

static embed_status read_file(embed_context *ctx, embed_file *f, const embed_file_options *o, const embed__map *words) {
  const int64_t lines = words->data ? count_lines(words) : 0;
  int64_t rows = 0, dim = 0;
  EMBED__TRY(find_extents(ctx, f, o, lines, &rows, &dim));
  EMBED__TRY(embed__file_tensors(ctx, f, TENSORS));
  describe(f, rows, dim);
  if (!words->data) return EMBED_OK;
  if (lines == rows) return add_tokens(ctx, f, words, rows);
  return embed__file_note(ctx, f, lines, "lines are in the vocab.txt beside the file: it is another's, and there are no tokens");
}

embed_status embed__glove_binary_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  static const char name[] = "vocab.txt";
  const char *slash = strrchr(f->path, '/');
  const size_t folder = slash ? (size_t)(slash - f->path) + 1 : 0, bytes = folder + sizeof name;
  embed__map words = {.data = NULL};
  char *path = embed__allocate(&ctx->memory, bytes, EMBED__ALIGNMENT);
  if (!path) return embed__out_of_memory(ctx, (int64_t)bytes);
  memcpy(path, f->path, folder);
  memcpy(path + folder, name, sizeof name);
  embed_status status = embed__map_is_there(path) ? embed__map_open(ctx, path, name, o->flags & EMBED_FILE_COPY, &words) : EMBED_OK;
  if (status == EMBED_OK) status = read_file(ctx, f, o, &words);
  embed__map_close(&ctx->memory, &words);
  embed__free(&ctx->memory, path, bytes, EMBED__ALIGNMENT);
  return status;
}
