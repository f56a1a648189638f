/* SPDX-License-Identifier: BSD-3-Clause */
/* word2vec's binary format (word2vec.c, Mikolov et al. 2013): a line "rows dim\n", then per row the token, a blank and
 * dim little-endian floats. The C program writes a newline after each vector, other writers do not: newlines before a
 * token are passed over. Rows have no fixed place in the file, so they are copied into a table of the handle's own. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
#include "core/pages.h"
#include "io/format.h"
#include "io/word2vec_header.h"
#include "thread/run.h"

typedef embed__word2vec_header header;

bool embed__word2vec_probe(const unsigned char *data, int64_t bytes) {
  return embed__word2vec_read_header(data, bytes).bytes > 0 && !embed__word2vec_is_text(data, bytes);
}

/* Sizes that the header promises, before anything is allocated by them. */
static embed_status check_header(embed_context *ctx, const embed_file *f, const header *h, const embed_file_options *o) {
  int64_t end;
  EMBED__TRY(embed__word2vec_check_header(ctx, f, h, o));
  if (!embed__mul(h->dim, 4, &end) || !embed__add(end, 1, &end) || !embed__mul(h->rows, end, &end) || !embed__add(h->bytes, end, &end))
    return embed__fail(ctx, EMBED_E_OVERFLOW, 0, "%s: the first line promises %" PRId64 " rows of %" PRId64 " columns: their size does not fit into 64 bits",
                       f->label, h->rows, h->dim);
  if (end > f->map.bytes)
    return embed__fail(ctx, EMBED_E_FORMAT, f->map.bytes,
                       "%s: %" PRId64 " rows of %" PRId64 " columns end at byte %" PRId64 " at the earliest, the file at %" PRId64 ": it was cut short",
                       f->label, h->rows, h->dim, end, f->map.bytes);
  return EMBED_OK;
}

/* Where a row lies in the file. */
typedef struct place {
  int64_t token, numbers; /* their first bytes; a blank stands before the numbers */
} place;

/* Each row begins where the one before it ends, so one thread has to walk from token to token; everything else need not wait
 * for it. The rows are cut into blocks, small ones first. In each step three kinds of tasks run side by side: one block is walked,
 * the tokens of the block before it are indexed, its numbers copied. */
enum { WALK, INDEX, COPY /* the first of these tasks */ };
enum { FIRST_BLOCK = 1 << 20, LARGEST_BLOCK = 16 << 20 /* bytes of numbers */, BLOCK_ROWS = 1 << 16 /* at most */ };

typedef struct loading {
  embed_file *f;
  int64_t rows, row_bytes;                     /* of the numbers */
  unsigned char *table;                        /* [rows, dim] */
  int64_t block;                               /* rows of the largest block */
  place *places;                               /* of row r: r % (2 * block) */
  int64_t step, first, middle, end;            /* rows first .. middle are indexed and copied in this step, middle .. end walked */
  _Atomic int64_t steps_walked, steps_indexed; /* an executor that runs a task twice does no harm */
  int64_t at;                                  /* where the walk stands */
  int64_t row;                                 /* how many it has found */
  bool broken;                                 /* at `at`, row number `row` */
} loading;

static place *place_of(const loading *l, int64_t row) { return &l->places[row % (2 * l->block)]; }

/* False: all is done. */
static bool next_step(loading *l) {
  const int64_t most = ((int64_t)FIRST_BLOCK << embed__min(l->step, 4)) / l->row_bytes;
  if (l->middle == l->rows && l->step > 0) return false;
  l->first = l->middle;
  l->middle = l->end;
  l->end = embed__min(l->rows, l->end + embed__max(1, embed__min(l->block, most)));
  ++l->step;
  return true;
}

static int64_t skip_newlines(const embed_file *f, int64_t at) {
  while (at < f->map.bytes && f->map.data[at] == '\n') ++at;
  return at;
}

/* The byte behind the blank that ends the token at `at`, -1 = there is none near enough. */
static int64_t find_numbers(const embed_file *f, int64_t at) {
  enum { SHORT = 16 }; /* most tokens are: a call would cost more than the search */
  const int64_t room = embed__min(f->map.bytes - at, EMBED__TOKEN_BYTES + 1);
  const unsigned char *token = f->map.data + at;
  for (int64_t i = 0; i < embed__min(room, SHORT); ++i)
    if (token[i] == ' ') return at + i + 1;
  const unsigned char *blank = room > SHORT ? memchr(token + SHORT, ' ', (size_t)(room - SHORT)) : NULL;
  return blank ? blank - f->map.data + 1 : -1;
}

/* Whether a row whose numbers begin there leaves room for the others, which take a blank and their numbers at least. */
static bool leaves_room(const loading *l, int64_t row, int64_t numbers) {
  const int64_t left = l->f->map.bytes - numbers - l->row_bytes;
  return left >= 0 && left >= (l->rows - row - 1) * (l->row_bytes + 1);
}

/* Reading a line of memory per row, the next of which nothing foretells but that tokens have similar lengths. */
static void walk(loading *l) {
  enum { AHEAD = 6, LINE = 64 };
  const embed_file *f = l->f;
  while (l->row < l->end) {
    const int64_t token = skip_newlines(f, l->at), numbers = find_numbers(f, token);
    if (numbers < 0 || !leaves_room(l, l->row, numbers)) {
      l->at = token;
      l->broken = true;
      return;
    }
    const int64_t guess = token + AHEAD * (numbers + l->row_bytes - l->at);
    if (guess < f->map.bytes - LINE) __builtin_prefetch(f->map.data + guess);
    *place_of(l, l->row) = (place){token, numbers};
    ++l->row;
    l->at = numbers + l->row_bytes;
  }
}

static void index_tokens(const loading *l) {
  for (int64_t row = l->first; row < l->middle; ++row) {
    const place *p = place_of(l, row);
    embed__tokens_append(l->f->tokens, l->f->map.data + p->token, p->numbers - 1 - p->token);
  }
  embed__tokens_index(l->f->tokens);
}

/* Rows of a task begin in one huge page of the table: two threads that meet in a page that is not there yet both clear one
 * for it, and one of the two is thrown away. */
static int64_t task_row(const loading *l, int64_t task) { return embed__ceil_div(task * EMBED__HUGE_PAGE, l->row_bytes); }

static int64_t task_of(const loading *l, int64_t row) { return row * l->row_bytes / EMBED__HUGE_PAGE; }

static void copy_rows(const loading *l, int64_t task) {
  task += task_of(l, l->first);
  const int64_t end = embed__min(l->middle, task_row(l, task + 1));
  for (int64_t row = embed__max(l->first, task_row(l, task)); row < end; ++row) {
    const unsigned char *from = l->f->map.data + place_of(l, row)->numbers;
    unsigned char *to = l->table + row * l->row_bytes;
    if (!EMBED__BIG_ENDIAN_HOST)
      memcpy(to, from, (size_t)l->row_bytes);
    else
      for (int64_t j = 0; j < l->row_bytes; j += 4) memcpy(to + j, &(uint32_t){embed__le32(from + j)}, 4);
  }
}

static bool is_first(_Atomic int64_t *steps, int64_t step) { return atomic_exchange(steps, step) != step; }

static void load(void *arg, int64_t task, int32_t worker) {
  loading *l = arg;
  (void)worker;
  if (task == WALK) {
    if (is_first(&l->steps_walked, l->step)) walk(l);
  } else if (task == INDEX) {
    if (is_first(&l->steps_indexed, l->step)) index_tokens(l);
  } else {
    copy_rows(l, task - COPY);
  }
}

/* The error of the row at which the walk ended. */
static embed_status explain(embed_context *ctx, const loading *l) {
  const embed_file *f = l->f;
  const int64_t size = f->map.bytes, at = l->at, row = l->row, numbers = find_numbers(f, at);
  if (numbers < 0 && size - at > EMBED__TOKEN_BYTES)
    return embed__fail(ctx, EMBED_E_FORMAT, at, "%s: no blank ends the token of row %" PRId64 " at byte %" PRId64 " within %d bytes", f->label, row, at,
                       EMBED__TOKEN_BYTES);
  if (numbers < 0)
    return embed__fail(ctx, EMBED_E_FORMAT, size, "%s: the file ends at byte %" PRId64 " before the token of row %" PRId64 " does: it was cut short", f->label,
                       size, row);
  if (size - numbers < l->row_bytes)
    return embed__fail(ctx, EMBED_E_FORMAT, size, "%s: row %" PRId64 " ends at byte %" PRId64 ", the file at %" PRId64 ": it was cut short", f->label, row,
                       numbers + l->row_bytes, size);
  return embed__fail(ctx, EMBED_E_FORMAT, size,
                     "%s: row %" PRId64 " ends at byte %" PRId64 ", the rows behind it at %" PRId64 " at the earliest, the file at %" PRId64
                     ": it was cut short",
                     f->label, row, numbers + l->row_bytes, numbers + l->row_bytes + (l->rows - row - 1) * (l->row_bytes + 1), size);
}

static embed_status load_blocks(embed_context *ctx, loading *l) {
  const int64_t tasks = COPY + embed__min(l->block, l->rows) * l->row_bytes / EMBED__HUGE_PAGE + 2;
  loading counting = *l;
  while (next_step(&counting)) continue;
  while (next_step(l)) {
    EMBED__TRY(embed__run_long(ctx, tasks, load, l, (l->step - 1) * tasks, counting.step * tasks));
    if (l->broken) return explain(ctx, l);
  }
  const int64_t end = skip_newlines(l->f, l->at);
  if (end == l->f->map.bytes) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_FORMAT, end, "%s: byte %" PRId64 " lies behind the last of the %" PRId64 " rows", l->f->label, end, l->rows);
}

static int64_t rows_per_block(const header *h) { return embed__max(1, embed__min(embed__min(h->rows, BLOCK_ROWS), LARGEST_BLOCK / (4 * h->dim))); }

static embed_status read_rows(embed_context *ctx, embed_file *f, const header *h, place *places) {
  const embed_table_options dense = {.size = sizeof dense, .dtype = EMBED_F32, .flags = embed__copy_flags(4 * h->rows * h->dim)};
  embed__tensor *tensor = f->tensors;
  *tensor = (embed__tensor){
      .name = "vectors", .stored = "float", .shape = {h->rows, h->dim}, .rank = 2, .offset = -1, .bytes = 4 * h->rows * h->dim, .dtype = EMBED_F32};
  EMBED__TRY(embed__table_new(ctx, h->rows, h->dim, &dense, &tensor->table));
  EMBED__TRY(embed__tokens_new(ctx, h->rows, f->map.bytes - h->bytes - h->rows * (4 * h->dim + 1), &f->tokens));
  loading l = {.f = f, .rows = h->rows, .row_bytes = 4 * h->dim, .table = tensor->table->data, .block = rows_per_block(h), .places = places, .at = h->bytes};
  EMBED__TRY(load_blocks(ctx, &l));
  embed__map_close(&f->memory, &f->map); /* nothing refers to the file any more */
  return embed__word2vec_note_tokens(ctx, f);
}

embed_status embed__word2vec_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  const header h = embed__word2vec_read_header(f->map.data, f->map.bytes);
  EMBED__TRY(check_header(ctx, f, &h, o));
  EMBED__TRY(embed__file_tensors(ctx, f, 1));
  const size_t bytes = 2 * (size_t)rows_per_block(&h) * sizeof(place);
  place *places = embed__allocate(&ctx->memory, bytes, EMBED__ALIGNMENT);
  if (!places) return embed__out_of_memory(ctx, (int64_t)bytes);
  embed_status status = read_rows(ctx, f, &h, places);
  embed__free(&ctx->memory, places, bytes, EMBED__ALIGNMENT);
  return status;
}
