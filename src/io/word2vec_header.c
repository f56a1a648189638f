/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/word2vec_header.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "io/text.h"

enum { HEADER_BYTES = 128, LOOK_BYTES = 4096 };

static bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }
static bool is_blank(unsigned char c) { return c == ' ' || c == '\t'; }

static int64_t read_number(const unsigned char *data, int64_t end, int64_t *at, bool *too_large) {
  int64_t number = 0;
  for (; *at < end && is_digit(data[*at]); ++*at)
    if (!embed__mul(number, 10, &number) || !embed__add(number, data[*at] - '0', &number)) {
      *too_large = true;
      number = 0;
    }
  return number;
}

embed__word2vec_header embed__word2vec_read_header(const unsigned char *data, int64_t bytes) {
  const embed__word2vec_header none = {.bytes = 0};
  embed__word2vec_header h = none;
  int64_t end = embed__min(bytes, HEADER_BYTES), at = 0, start = 0;
  h.rows = read_number(data, end, &at, &h.too_large);
  if (at == start || at == end || !is_blank(data[at])) return none;
  while (at < end && is_blank(data[at])) ++at;
  start = at;
  h.dim = read_number(data, end, &at, &h.too_large);
  if (at == start) return none;
  while (at < end && (is_blank(data[at]) || data[at] == '\r')) ++at;
  if (at == end || data[at] != '\n') return none;
  h.bytes = at + 1;
  return h;
}

/* A token and dim fields of the letters that numbers are written with, and nothing behind them in the line. */
static bool is_row_of_text(const unsigned char *row, int64_t bytes, int64_t dim) {
  const unsigned char *newline = memchr(row, '\n', (size_t)bytes);
  int64_t end = newline ? newline - row : bytes;
  for (int64_t field = 0; field < dim; ++field) { /* from the right: tokens may hold blanks */
    while (end > 0 && (row[end - 1] == ' ' || row[end - 1] == '\r')) --end;
    int64_t last = end;
    while (end > 0 && row[end - 1] && strchr("+-.,0123456789eEnNaAiIfF", row[end - 1])) --end;
    if (end == last || end == 0 || row[end - 1] != ' ') return false;
  }
  return true;
}

/* Rows of binary floats that end exactly where the file does. Only asked of files without a control character. */
static bool fits_binary(const unsigned char *data, int64_t bytes, const embed__word2vec_header *h) {
  int64_t at = h->bytes, row_bytes;
  if (!embed__mul(h->dim, 4, &row_bytes)) return false;
  for (int64_t row = 0; row < h->rows; ++row) {
    while (at < bytes && data[at] == '\n') ++at;
    const unsigned char *blank = at < bytes ? memchr(data + at, ' ', (size_t)(bytes - at)) : NULL;
    if (!blank || data + bytes - blank - 1 < row_bytes) return false;
    at = blank - data + 1 + row_bytes;
  }
  while (at < bytes && data[at] == '\n') ++at;
  return at == bytes;
}

/* Floats of any usual size have control characters among their bytes, NUL first of all. A first row that reads as text decides
 * otherwise; where neither speaks (a text whose first row is broken, a few binary rows of unusual numbers), binary has to fit to
 * the byte. */
bool embed__word2vec_is_text(const unsigned char *data, int64_t bytes) {
  const embed__word2vec_header h = embed__word2vec_read_header(data, bytes);
  const int64_t look = embed__min(bytes - h.bytes, LOOK_BYTES);
  const unsigned char *rows = data + h.bytes;
  if (h.bytes == 0 || (look > 0 && memchr(rows, '\0', (size_t)look))) return false;
  if (h.rows > 0 && h.dim > 0 && is_row_of_text(rows, bytes - h.bytes, h.dim)) return true;
  for (int64_t i = 0; i < look; ++i)
    if (rows[i] < ' ' && !memchr("\t\n\r", rows[i], 3)) return false;
  return !fits_binary(data, bytes, &h);
}

embed_status embed__word2vec_check_header(embed_context *ctx, const embed_file *f, const embed__word2vec_header *h, const embed_file_options *o) {
  if (h->bytes == 0) return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: it does not begin with word2vec's line \"rows dim\"", f->label);
  if (h->bytes > embed__header_limit(o))
    return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: the header has %" PRId64 " bytes, at most %" PRId64 " were asked for", f->label, h->bytes,
                       embed__header_limit(o));
  if (h->too_large) return embed__fail(ctx, EMBED_E_OVERFLOW, 0, "%s: a number in the first line does not fit into 64 bits", f->label);
  if (h->dim < 1) return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: the first line promises rows of 0 columns", f->label);
  if (h->dim > INT64_MAX / 8)
    return embed__fail(ctx, EMBED_E_OVERFLOW, 0, "%s: the first line promises rows of %" PRId64 " columns: their size does not fit into 64 bits", f->label,
                       h->dim);
  return EMBED_OK;
}

embed_status embed__word2vec_write_header(embed_context *ctx, embed__safe_file *f, int64_t rows, int64_t dim) {
  char header[64];
  embed__text text = embed__text_in(header, sizeof header);
  embed__text_number(&text, rows);
  embed__text_add(&text, " ");
  embed__text_number(&text, dim);
  embed__text_add(&text, "\n");
  return embed__safe_write(ctx, f, header, (int64_t)strlen(header));
}

embed_status embed__word2vec_note_tokens(embed_context *ctx, embed_file *f) {
  int64_t repeated = embed__tokens_repeated(f->tokens), empty = embed__tokens_empty(f->tokens);
  if (repeated) EMBED__TRY(embed__file_note(ctx, f, repeated, "rows repeat the token of an earlier row: the first of them owns it"));
  if (empty) EMBED__TRY(embed__file_note(ctx, f, empty, "rows have an empty token"));
  return EMBED_OK;
}
