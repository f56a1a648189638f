/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors in text: a line per row, the token, then dim decimal numbers, a blank (0x20 alone) before each. word2vec's text begins
 * with a line "rows dim", GloVe's with the first row. Tokens may hold blanks: the last dim fields are the numbers.
 *
 * The file is cut into pieces of a MiB; a line belongs to the piece in which it begins. One pass counts lines, so that each piece
 * knows its first row; one fills the table. Both run on any number of threads with the same result. A line that does not read is
 * read once more by explain(), which knows nothing but words. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/memory.h"
#include "io/floats.h"
#include "io/format.h"
#include "io/word2vec_header.h"
#include "thread/run.h"

enum { PIECE_BYTES = 1 << 20, LOOK_BYTES = 4096, SHOWN = 40 /* bytes of a field in messages */ };

typedef struct span {
  const unsigned char *begin, *end;
} span;

typedef struct piece {
  int64_t first_row, rows;
  int64_t token_bytes;
  const unsigned char *bad; /* the first line that is no row, NULL = none */
  int64_t bad_row;
} piece;

typedef struct reader {
  const embed_file *f;
  const unsigned char *begin, *end; /* of the rows' lines, without what ends the last */
  int64_t first_line;               /* the number of the line at begin, from 1 */
  int64_t rows, dim;
  bool dim_asked; /* by the caller: whatever stands before the last dim fields is the token */
  piece *pieces;
  int64_t piece_count;
  span *tokens; /* [rows] */
  float *table; /* [rows, dim] */
} reader;

static const unsigned char *line_end(const unsigned char *line, const unsigned char *end) {
  const unsigned char *newline = memchr(line, '\n', (size_t)(end - line));
  return newline ? newline : end;
}

/* Without the blanks and the carriage return that may end it. */
static span trimmed(const unsigned char *begin, const unsigned char *end) {
  while (end > begin && (end[-1] == ' ' || end[-1] == '\r')) --end;
  return (span){begin, end};
}

/* The last field of s, which is trimmed: its last run of anything but blanks. */
static span last_field(span s) {
  span field = {s.end, s.end};
  while (field.begin > s.begin && field.begin[-1] != ' ') --field.begin;
  return field;
}

static span before(span s, span field) {
  const unsigned char *end = field.begin;
  while (end > s.begin && end[-1] == ' ') --end;
  return (span){s.begin, end};
}

static bool is_number(span field, float *out) { return embed__read_float(field.begin, field.end, out) == field.end; }

/* Infinite without saying so in letters. */
static bool is_too_large(span field, float value) {
  if (!isinf(value)) return false;
  field.begin += *field.begin == '-' || *field.begin == '+';
  return *field.begin < 'A';
}

/* Takes dim fields off the end of a trimmed line; false: there are not that many behind a token (which may be empty). */
static bool split(span line, int64_t dim, span *token, span *numbers) {
  span rest = line, field = {line.end, line.end};
  for (int64_t j = 0; j < dim; ++j) {
    field = last_field(rest);
    if (field.begin == line.begin) return false;
    rest = before(line, field);
  }
  *token = rest;
  *numbers = (span){field.begin, line.end};
  return true;
}

/* "a 1" before the last dim numbers: more likely a row with a number too many than a token. */
static bool ends_in_number(span token) {
  float ignored;
  span field = last_field(token);
  return field.begin > token.begin && is_number(field, &ignored);
}

static span next_field(span *rest) {
  while (rest->begin < rest->end && *rest->begin == ' ') ++rest->begin;
  span field = {rest->begin, rest->begin};
  while (field.end < rest->end && *field.end != ' ') ++field.end;
  rest->begin = field.end;
  return field;
}

/* A row as every writer writes it. Returns the next line, NULL = it is not so. */
static const unsigned char *read_plain_row(const reader *r, const unsigned char *line, float *out, span *token) {
  const unsigned char *p = line;
  while (p < r->end && *p != ' ' && *p != '\n') ++p;
  *token = (span){line, p};
  if (p - line > EMBED__TOKEN_BYTES) return NULL;
  p = embed__read_floats(p, r->end, r->dim, out);
  if (!p) return NULL;
  while (p < r->end && *p == ' ') ++p;
  if (p < r->end && *p == '\r') ++p;
  if (p == r->end) return p;
  return *p == '\n' ? p + 1 : NULL;
}

/* Blanks within the token, several of them between fields, infinities. */
static const unsigned char *read_odd_row(const reader *r, const unsigned char *line, float *out, span *token) {
  const unsigned char *end = line_end(line, r->end);
  span rest;
  if (!split(trimmed(line, end), r->dim, token, &rest) || token->end - token->begin > EMBED__TOKEN_BYTES) return NULL;
  if (!r->dim_asked && ends_in_number(*token)) return NULL;
  for (int64_t j = 0; j < r->dim; ++j) {
    const span field = next_field(&rest);
    if (!is_number(field, out + j) || is_too_large(field, out[j])) return NULL;
  }
  return end < r->end ? end + 1 : end;
}

static bool is_conflict_marker(span line) {
  static const char *const markers[] = {"<<<<<<<", "=======", ">>>>>>>"};
  enum { LENGTH = 7 };
  for (int i = 0; i < 3; ++i)
    if (line.end - line.begin >= LENGTH && memcmp(line.begin, markers[i], LENGTH) == 0 && (line.end - line.begin == LENGTH || line.begin[LENGTH] == ' '))
      return true;
  return false;
}

static embed_status explain_field(embed_context *ctx, const reader *r, int64_t number, const unsigned char *line, span field, bool too_large) {
  const int64_t at = field.begin - r->f->map.data;
  const bool comma = memchr(field.begin, ',', (size_t)(field.end - field.begin)) != NULL;
  const char *why = too_large ? "is larger than the largest float" : comma ? "is no number: decimals follow a point, not a comma" : "is no number";
  return embed__fail(ctx, EMBED_E_FORMAT, at, "%s: line %" PRId64 ", column %" PRId64 " (byte %" PRId64 "): \"%.*s\" %s", r->f->label, number,
                     (int64_t)(field.begin - line) + 1, at, (int)embed__min(SHOWN, field.end - field.begin), (const char *)field.begin, why);
}

static embed_status explain_short(embed_context *ctx, const reader *r, int64_t number, span line) {
  const bool last = line_end(line.begin, r->end) == r->end && r->f->map.data + r->f->map.bytes == r->end;
  const int64_t at = last ? r->f->map.bytes : line.begin - r->f->map.data;
  int64_t fields = 0;
  for (span rest = line, field = next_field(&rest); field.begin < field.end; field = next_field(&rest)) ++fields;
  return embed__fail(ctx, EMBED_E_FORMAT, at, "%s: line %" PRId64 " has %" PRId64 " numbers behind its token, %" PRId64 " are expected%s", r->f->label, number,
                     embed__max(0, fields - 1), r->dim, last ? "; the file ends in it: it was cut short" : "");
}

static embed_status explain_long(embed_context *ctx, const reader *r, int64_t number, int64_t at, span token) {
  int64_t numbers = r->dim;
  for (; ends_in_number(token); token = before(token, last_field(token))) ++numbers;
  return embed__fail(ctx, EMBED_E_FORMAT, at,
                     "%s: line %" PRId64 " (byte %" PRId64 ") has %" PRId64 " numbers, %" PRId64 " are expected (embed_file_options.dim = %" PRId64
                     " reads the first of them as part of the token)",
                     r->f->label, number, at, numbers, r->dim, r->dim);
}

/* The error of a line that is no row. */
static embed_status explain(embed_context *ctx, const reader *r, const unsigned char *begin, int64_t row) {
  const char *label = r->f->label;
  const int64_t number = r->first_line + row, at = begin - r->f->map.data;
  const span line = trimmed(begin, line_end(begin, r->end));
  span token, rest;
  if (line.begin == line.end) return embed__fail(ctx, EMBED_E_FORMAT, at, "%s: line %" PRId64 " (byte %" PRId64 ") is empty", label, number, at);
  if (is_conflict_marker(line))
    return embed__fail(ctx, EMBED_E_FORMAT, at, "%s: line %" PRId64 " (byte %" PRId64 ") is a Git conflict marker, \"%.7s\": a merge was left unfinished",
                       label, number, at, (const char *)line.begin);
  if (!split(line, r->dim, &token, &rest)) return explain_short(ctx, r, number, line);
  while (rest.begin < rest.end) {
    float value = 0;
    const span field = next_field(&rest);
    const bool good = is_number(field, &value);
    if (!good || is_too_large(field, value)) return explain_field(ctx, r, number, begin, field, good);
  }
  if (token.end - token.begin > EMBED__TOKEN_BYTES)
    return embed__fail(ctx, EMBED_E_FORMAT, at, "%s: the token of line %" PRId64 " (byte %" PRId64 ") has %" PRId64 " bytes, at most %d are read", label,
                       number, at, (int64_t)(token.end - token.begin), EMBED__TOKEN_BYTES);
  return explain_long(ctx, r, number, at, token);
}

static const unsigned char *piece_begin(const reader *r, int64_t i) { return r->begin + i * PIECE_BYTES; }

static const unsigned char *piece_end(const reader *r, int64_t i) { return r->begin + embed__min(r->end - r->begin, (i + 1) * PIECE_BYTES); }

/* A line begins where the byte before is a newline. */
static void count_lines(void *arg, int64_t i, int32_t worker) {
  const reader *r = arg;
  const unsigned char *end = piece_end(r, i) - 1, *p = piece_begin(r, i) - (i > 0);
  int64_t lines = i == 0;
  (void)worker;
  while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
    ++lines;
    ++p;
  }
  r->pieces[i] = (piece){.rows = lines};
}

static void read_piece(void *arg, int64_t i, int32_t worker) {
  const reader *r = arg;
  piece *own = &r->pieces[i];
  const unsigned char *end = piece_end(r, i), *line = piece_begin(r, i);
  (void)worker;
  if (own->rows == 0) return;
  if (i > 0) line = line_end(line - 1, end) + 1;
  for (int64_t row = own->first_row; row < own->first_row + own->rows; ++row) {
    span *token = &r->tokens[row];
    const unsigned char *next = read_plain_row(r, line, r->table + row * r->dim, token);
    if (!next) next = read_odd_row(r, line, r->table + row * r->dim, token);
    if (!next) {
      own->bad = line;
      own->bad_row = row;
      return;
    }
    own->token_bytes += token->end - token->begin;
    line = next;
  }
}

static embed_status add_tokens(embed_context *ctx, const reader *r, embed_file *f) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < r->piece_count; ++i) bytes += r->pieces[i].token_bytes;
  EMBED__TRY(embed__tokens_new(ctx, r->rows, bytes, &f->tokens));
  for (int64_t i = 0; i < r->piece_count; ++i) {
    const piece *p = &r->pieces[i];
    EMBED__TRY(embed__pause(ctx, 2 * r->piece_count + i, 3 * r->piece_count));
    for (int64_t row = p->first_row; row < p->first_row + p->rows; ++row)
      embed__tokens_append(f->tokens, r->tokens[row].begin, r->tokens[row].end - r->tokens[row].begin);
    embed__tokens_index(f->tokens);
  }
  return embed__pause(ctx, 3 * r->piece_count, 3 * r->piece_count);
}

/* Fills the table, whose extents are proved, and the tokens. */
static embed_status read_rows(embed_context *ctx, reader *r, embed_file *f) {
  const int64_t bytes = 4 * r->rows * r->dim;
  const embed_table_options dense = {.size = sizeof dense, .dtype = EMBED_F32, .flags = embed__copy_flags(bytes)};
  embed__tensor *tensor = f->tensors;
  *tensor = (embed__tensor){.name = "vectors", .stored = "text", .shape = {r->rows, r->dim}, .rank = 2, .offset = -1, .bytes = bytes, .dtype = EMBED_F32};
  EMBED__TRY(embed__table_new(ctx, r->rows, r->dim, &dense, &tensor->table));
  r->table = (float *)(void *)tensor->table->data;
  EMBED__TRY(embed__run_long(ctx, r->piece_count, read_piece, r, r->piece_count, 3 * r->piece_count));
  for (int64_t i = 0; i < r->piece_count; ++i)
    if (r->pieces[i].bad) return explain(ctx, r, r->pieces[i].bad, r->pieces[i].bad_row);
  EMBED__TRY(add_tokens(ctx, r, f));
  EMBED__TRY(embed__word2vec_note_tokens(ctx, f));
  if (r->rows > 0 && r->end == f->map.data + f->map.bytes)
    EMBED__TRY(embed__file_note(ctx, f, 1, "line, the last, has no newline at its end: the file may have been cut short"));
  embed__map_close(&f->memory, &f->map); /* nothing refers to the file any more */
  return EMBED_OK;
}

/* So many lines of so many numbers need more bytes than there are: one of them, here the first, is shorter than that. */
static embed_status check_extents(embed_context *ctx, const reader *r) {
  int64_t least, row = 0;
  if (embed__mul(r->dim, 2, &least) && embed__mul(r->rows, least, &least) && least <= r->end - r->begin) return EMBED_OK;
  const unsigned char *line = r->begin;
  for (; line < r->end; ++row) {
    const unsigned char *end = line_end(line, r->end);
    if ((end - line) / 2 < r->dim) break;
    line = end + 1;
  }
  return explain(ctx, r, line, row);
}

static embed_status check_count(embed_context *ctx, const reader *r, int64_t promised) {
  const char *label = r->f->label;
  if (promised < 0 || promised == r->rows) return EMBED_OK;
  if (promised > r->rows)
    return embed__fail(ctx, EMBED_E_FORMAT, r->f->map.bytes, "%s: the first line promises %" PRId64 " rows, the file holds %" PRId64 ": it was cut short",
                       label, promised, r->rows);
  const unsigned char *line = r->begin;
  for (int64_t row = 0; row < promised; ++row) line = line_end(line, r->end) + 1;
  return embed__fail(ctx, EMBED_E_FORMAT, line - r->f->map.data, "%s: the first line promises %" PRId64 " rows, the file holds %" PRId64, label, promised,
                     r->rows);
}

static embed_status read_pieces(embed_context *ctx, reader *r, embed_file *f, int64_t promised) {
  EMBED__TRY(embed__run_long(ctx, r->piece_count, count_lines, r, 0, 3 * r->piece_count));
  for (int64_t i = 0; i < r->piece_count; ++i) {
    r->pieces[i].first_row = r->rows;
    r->rows += r->pieces[i].rows;
  }
  EMBED__TRY(check_count(ctx, r, promised));
  EMBED__TRY(check_extents(ctx, r));
  if (r->rows > PTRDIFF_MAX / (int64_t)sizeof *r->tokens) return embed__out_of_memory(ctx, -1);
  const size_t bytes = (size_t)r->rows * sizeof *r->tokens; /* eight times the file at most: a row takes at least 2 bytes */
  r->tokens = embed__allocate(&ctx->memory, bytes, EMBED__ALIGNMENT);
  if (!r->tokens) return embed__out_of_memory(ctx, (int64_t)bytes);
  embed_status status = read_rows(ctx, r, f);
  embed__free(&ctx->memory, r->tokens, bytes, EMBED__ALIGNMENT);
  return status;
}

/* promised: rows by the header, -1 = there is none. */
static embed_status read_lines(embed_context *ctx, reader *r, embed_file *f, int64_t promised) {
  EMBED__TRY(embed__file_tensors(ctx, f, 1));
  r->piece_count = embed__ceil_div(r->end - r->begin, PIECE_BYTES);
  const size_t bytes = (size_t)r->piece_count * sizeof *r->pieces;
  r->pieces = embed__allocate(&ctx->memory, bytes, EMBED__ALIGNMENT);
  if (!r->pieces) return embed__out_of_memory(ctx, (int64_t)bytes);
  embed_status status = read_pieces(ctx, r, f, promised);
  embed__free(&ctx->memory, r->pieces, bytes, EMBED__ALIGNMENT);
  return status;
}

/* Editors of one system put these three bytes before any text; they are no part of it. */
static int64_t mark_bytes(const unsigned char *data, int64_t bytes) { return bytes >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; }

/* The lines from `begin` on; empty ones at the end of the file are none. */
static reader reader_of(const embed_file *f, int64_t begin) {
  reader r = {.f = f, .begin = f->map.data + begin, .end = f->map.data + f->map.bytes, .first_line = 1};
  while (r.end > r.begin && (r.end[-1] == '\n' || (r.end[-1] == '\r' && r.end < f->map.data + f->map.bytes))) --r.end;
  return r;
}

bool embed__word2vec_text_probe(const unsigned char *data, int64_t bytes) {
  const int64_t mark = mark_bytes(data, bytes);
  return embed__word2vec_is_text(data + mark, bytes - mark);
}

embed_status embed__word2vec_text_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  const int64_t mark = mark_bytes(f->map.data, f->map.bytes);
  const embed__word2vec_header h = embed__word2vec_read_header(f->map.data + mark, f->map.bytes - mark);
  EMBED__TRY(embed__word2vec_check_header(ctx, f, &h, o));
  reader r = reader_of(f, mark + h.bytes);
  r.first_line = 2;
  r.dim = h.dim;
  r.dim_asked = o->dim == h.dim;
  return read_lines(ctx, &r, f, h.rows);
}

/* A field, a blank, and at the end what begins as a number and has no other letters than numbers have. */
static bool may_be_row(span line) {
  float ignored;
  const span field = last_field(line);
  for (const unsigned char *p = field.begin; p < field.end; ++p)
    if (!*p || !strchr("+-.,0123456789eEnNaAiIfF", *p)) return false;
  return field.begin > line.begin && embed__read_float(field.begin, field.end, &ignored);
}

/* "3 3" and nothing else: the first line of a word2vec file that was cut there. */
static bool is_cut_header(span line) {
  const span dim = last_field(line), rows = before(line, dim);
  if (rows.begin == rows.end || dim.begin == dim.end) return false;
  for (const unsigned char *p = line.begin; p < line.end; ++p)
    if (p < rows.end || p >= dim.begin ? *p < '0' || *p > '9' : *p != ' ') return false;
  return true;
}

static bool has_fields(span line) { return last_field(line).begin > line.begin; }

/* One of the first two lines looks like a row, the other at least not like another thing; no header, nothing binary. */
bool embed__glove_probe(const unsigned char *data, int64_t bytes) {
  const int64_t mark = mark_bytes(data, bytes);
  const unsigned char *begin = data + mark, *end = data + bytes, *first_end = line_end(begin, end);
  const span first = trimmed(begin, first_end);
  if (embed__word2vec_read_header(begin, bytes - mark).bytes || memchr(data, '\0', (size_t)embed__min(bytes, LOOK_BYTES))) return false;
  for (const unsigned char *p = first.begin; p < first.end && p < first.begin + LOOK_BYTES; ++p)
    if (*p < ' ' && *p != '\t') return false;
  if (!has_fields(first) || (first_end == end && is_cut_header(first))) return false;
  return may_be_row(first) || (first_end < end && may_be_row(trimmed(first_end + 1, line_end(first_end + 1, end))));
}

/* GloVe's first row says how many numbers a row has: all fields from the right that are numbers, but for a token before them. */
static embed_status detect_dim(embed_context *ctx, reader *r) {
  const span line = trimmed(r->begin, line_end(r->begin, r->end));
  span rest = line;
  float value;
  r->dim = 1;
  if (line.begin == line.end || is_conflict_marker(line) || !has_fields(line)) return explain(ctx, r, r->begin, 0);
  int64_t dim = 0;
  for (span field = last_field(rest); field.begin > line.begin && is_number(field, &value); field = last_field(rest)) {
    ++dim;
    rest = before(line, field);
    if (rest.begin == rest.end) break;
  }
  /* Before a token "1,5" the numbers ended by mistake. */
  const span token = last_field(rest);
  if (dim == 0 || (token.begin > line.begin && embed__read_float(token.begin, token.end, &value))) return explain_field(ctx, r, 1, line.begin, token, false);
  r->dim = dim;
  return EMBED_OK;
}

embed_status embed__glove_open(embed_context *ctx, embed_file *f, const embed_file_options *o) {
  reader r = reader_of(f, mark_bytes(f->map.data, f->map.bytes));
  r.dim = o->dim;
  r.dim_asked = o->dim > 0;
  if (r.begin == r.end) return embed__fail(ctx, EMBED_E_FORMAT, 0, "%s: it has no lines", f->label);
  if (r.dim == 0) EMBED__TRY(detect_dim(ctx, &r));
  return read_lines(ctx, &r, f, -1);
}
