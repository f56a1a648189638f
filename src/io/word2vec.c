/* SPDX-License-Identifier: BSD-3-Clause */
/* word2vec's binary format (word2vec.c, Mikolov et al. 2013): a line "rows dim\n", then per row the token, a blank and
 * dim little-endian floats. The C program writes a newline after each vector, other writers do not: newlines before a
 * token are passed over. Rows have no fixed place in the file, so they are copied into a table of the handle's own. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
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

static int64_t rows_per_task(const header *h) { return embed__max(1, (1 << 20) / (4 * h->dim)); } /* a MiB of rows */

/* Fills f->tokens and where[r], the byte at which row r's numbers start. */
static embed_status scan(embed_context *ctx, embed_file *f, const header *h, int64_t *where) {
  const unsigned char *data = f->map.data;
  const int64_t size = f->map.bytes, row_bytes = 4 * h->dim, grain = rows_per_task(h), steps = 2 * embed__ceil_div(h->rows, grain);
  int64_t at = h->bytes;
  for (int64_t row = 0; row < h->rows; ++row) {
    if (row % grain == 0) EMBED__TRY(embed__pause(ctx, row / grain, steps));
    while (at < size && data[at] == '\n') ++at;
    int64_t room = embed__min(size - at, EMBED__TOKEN_BYTES + 1);
    const unsigned char *blank = room ? memchr(data + at, ' ', (size_t)room) : NULL;
    if (!blank && room > EMBED__TOKEN_BYTES)
      return embed__fail(ctx, EMBED_E_FORMAT, at, "%s: no blank ends the token of row %" PRId64 " at byte %" PRId64 " within %d bytes", f->label, row, at,
                         EMBED__TOKEN_BYTES);
    if (!blank)
      return embed__fail(ctx, EMBED_E_FORMAT, size, "%s: the file ends at byte %" PRId64 " before the token of row %" PRId64 " does: it was cut short",
                         f->label, size, row);
    int64_t numbers = blank - data + 1;
    if (size - numbers < row_bytes)
      return embed__fail(ctx, EMBED_E_FORMAT, size, "%s: row %" PRId64 " ends at byte %" PRId64 ", the file at %" PRId64 ": it was cut short", f->label, row,
                         numbers + row_bytes, size);
    int64_t behind = (h->rows - row - 1) * (row_bytes + 1); /* the least that the other rows take: so much is not for tokens */
    if (size - numbers - row_bytes < behind)
      return embed__fail(ctx, EMBED_E_FORMAT, size,
                         "%s: row %" PRId64 " ends at byte %" PRId64 ", the rows behind it at %" PRId64 " at the earliest, the file at %" PRId64
                         ": it was cut short",
                         f->label, row, numbers + row_bytes, numbers + row_bytes + behind, size);
    embed__tokens_add(f->tokens, data + at, numbers - 1 - at);
    where[row] = numbers;
    at = numbers + row_bytes;
  }
  for (; at < size; ++at)
    if (data[at] != '\n')
      return embed__fail(ctx, EMBED_E_FORMAT, at, "%s: byte %" PRId64 " lies behind the last of the %" PRId64 " rows", f->label, at, h->rows);
  return EMBED_OK;
}

typedef struct copy_job {
  const unsigned char *data;
  const int64_t *where; /* [rows] */
  unsigned char *table; /* [rows, dim] floats */
  int64_t rows, dim, grain;
} copy_job;

static void copy_rows(void *arg, int64_t task, int32_t worker) {
  const copy_job *job = arg;
  int64_t end = embed__min(job->rows, (task + 1) * job->grain);
  (void)worker;
  for (int64_t row = task * job->grain; row < end; ++row) {
    const unsigned char *from = job->data + job->where[row];
    unsigned char *to = job->table + row * job->dim * 4;
    if (!EMBED__BIG_ENDIAN_HOST)
      memcpy(to, from, (size_t)job->dim * 4);
    else
      for (int64_t j = 0; j < job->dim; ++j) memcpy(to + 4 * j, &(uint32_t){embed__le32(from + 4 * j)}, 4);
  }
}

static embed_status copy(embed_context *ctx, const embed_file *f, const header *h, const int64_t *where) {
  copy_job job = {.data = f->map.data, .where = where, .table = f->tensors[0].table->data, .rows = h->rows, .dim = h->dim, .grain = rows_per_task(h)};
  int64_t tasks = embed__ceil_div(h->rows, job.grain);
  return embed__run_long(ctx, tasks, copy_rows, &job, tasks, 2 * tasks);
}

static embed_status read_rows(embed_context *ctx, embed_file *f, const header *h, int64_t *where) {
  const embed_table_options dense = {.size = sizeof dense, .dtype = EMBED_F32, .flags = embed__copy_flags(4 * h->rows * h->dim)};
  embed__tensor *tensor = f->tensors;
  *tensor = (embed__tensor){
      .name = "vectors", .stored = "float", .shape = {h->rows, h->dim}, .rank = 2, .offset = -1, .bytes = 4 * h->rows * h->dim, .dtype = EMBED_F32};
  EMBED__TRY(embed__table_new(ctx, h->rows, h->dim, &dense, &tensor->table));
  EMBED__TRY(embed__tokens_new(ctx, h->rows, f->map.bytes - h->bytes - h->rows * (4 * h->dim + 1), &f->tokens));
  EMBED__TRY(scan(ctx, f, h, where));
  EMBED__TRY(copy(ctx, f, h, where));
  embed__map_close(&f->memory, &f->map); /* nothing refers to the file any more */
  return embed__word2vec_note_tokens(ctx, f);
}

embed_status embed__word2vec_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  const header h = embed__word2vec_read_header(f->map.data, f->map.bytes);
  EMBED__TRY(check_header(ctx, f, &h, o));
  EMBED__TRY(embed__file_tensors(ctx, f, 1));
  const size_t bytes = (size_t)h.rows * sizeof(int64_t); /* no more than the file has for it: a row takes at least 5 bytes */
  int64_t *where = embed__allocate(&ctx->memory, bytes, EMBED__ALIGNMENT);
  if (!where) return embed__out_of_memory(ctx, (int64_t)bytes);
  embed_status status = read_rows(ctx, f, &h, where);
  embed__free(&ctx->memory, where, bytes, EMBED__ALIGNMENT);
  return status;
}
