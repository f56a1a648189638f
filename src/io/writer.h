/* SPDX-License-Identifier: BSD-3-Clause */
/* A file being put together: handles and copies of small things until commit, which writes all of it in one pass. */
#ifndef EMBED__WRITER_H
#define EMBED__WRITER_H

#include <embed/io.h>

#include "io/safe_file.h"
#include "table/table.h"
#include "vocab/stored.h"

enum { EMBED__WRITER_LABEL = 200 };

/* A table as it is to be stored. */
typedef struct embed__written_table {
  char *name;
  embed_table *table; /* retained */
  embed_dtype dtype;
  int32_t group; /* 0 where the dtype has none */
  int64_t rows;  /* to be written */
  int64_t vocab, dim;
  int64_t packed_bytes; /* of a row */
  int64_t row_bytes;    /* distance between rows in the file */
  int64_t bytes;        /* of all rows, without padding behind the last */
} embed__written_table;

/* A key and its value, or a tie: a name and the table's. */
typedef struct embed__written_pair {
  char *key, *value; /* a NUL behind each */
  int64_t value_bytes;
} embed__written_pair;

/* Bytes of a named section (.embed), asked for piece by piece while the file is written. */
typedef struct embed__section_sink embed__section_sink;
/* Hands its `bytes` bytes to embed__section_add, in order and in pieces of any size. May be called again: commit may be tried again. */
typedef embed_status embed__section_source(embed_context *ctx, void *arg, embed__section_sink *sink);

typedef struct embed__written_section {
  char *name;
  const void *data; /* the caller's, NULL = source gives them */
  int64_t bytes;
  embed__section_source *source;
  void *arg;
  void (*done)(void *arg); /* after commit or release; may be NULL */
} embed__written_section;

/* An array that grows. */
typedef struct embed__list {
  void *items;
  int64_t count, room;
} embed__list;

typedef struct embed__writer_format embed__writer_format;

struct embed_writer {
  embed_allocator memory;
  const embed__writer_format *format;
  char *path;
  int64_t max_memory;   /* of a block of rows */
  embed__list tables;   /* embed__written_table */
  embed__list ties;     /* embed__written_pair: value is a table's name */
  embed__list pairs;    /* embed__written_pair: metadata */
  embed__list sections; /* embed__written_section */
  embed__list spans;    /* embed__token_span, by id */
  embed__list text;     /* char: the tokens */
  embed_file *source;   /* retained: where tokens came from, whose kinds of values GGUF keeps; NULL = nowhere */
  int64_t done, total;  /* bytes of rows, while they are written */
  bool committed;
  char label[EMBED__WRITER_LABEL + 4];
};

struct embed__writer_format {
  const char *name, *extensions;
  bool many;     /* more than one table */
  bool pairs;    /* ties and metadata */
  bool tokens;   /* token strings */
  bool strides;  /* row_bytes of the caller's choice */
  bool sections; /* named bytes beside the tables */
  /* Refuses what the format cannot hold, as soon as it is handed in; may change how the table is stored. name and keys too,
   * where they are restricted (NULL = any). */
  embed_status (*check_table)(embed_context *ctx, const embed_writer *w, embed__written_table *t);
  embed_status (*check_text)(embed_context *ctx, const embed_writer *w, const char *what, const char *text, int64_t bytes);
  embed_status (*check_token)(embed_context *ctx, const embed_writer *w, int64_t id, const char *token, int64_t bytes);
  embed_status (*write)(embed_context *ctx, embed_writer *w, embed__safe_file *f);
};
#define WRITER(name, extensions) extern const embed__writer_format embed__writer_##name;
#include "io/writers.def"
#undef WRITER

static inline const embed__written_table *embed__written(const embed_writer *w, int64_t i) { return (const embed__written_table *)w->tables.items + i; }
static inline const embed__written_pair *embed__pair(const embed__list *pairs, int64_t i) { return (const embed__written_pair *)pairs->items + i; }
static inline const embed__written_section *embed__section(const embed_writer *w, int64_t i) { return (const embed__written_section *)w->sections.items + i; }
/* The token of id; *bytes -1 = it has none. */
const char *embed__written_token(const embed_writer *w, int64_t id, int64_t *bytes);
/* Rows 0 .. count - 1 all have a token: E_ARGUMENT. */
embed_status embed__written_tokens(embed_context *ctx, const embed_writer *w, int64_t count);
/* A check_token: E_ARGUMENT for what a reader could not tell from the blanks and lines around it. */
embed_status embed__written_word(embed_context *ctx, const embed_writer *w, int64_t id, const char *token, int64_t bytes);
/* A check_text: E_ARGUMENT unless it is UTF-8, embed_error_at = the byte. */
embed_status embed__written_utf8(embed_context *ctx, const embed_writer *w, const char *what, const char *text, int64_t bytes);
/* f32, the first vocab rows: what formats store that have one type and a token per row. */
embed_status embed__written_as_f32(embed_context *ctx, const embed_writer *w, embed__written_table *t);
/* The table of this name or of the one that it is tied to, -1 = none. */
int64_t embed__written_find(const embed_writer *w, const char *name);
/* E_ARGUMENT once it has been committed. */
embed_status embed__writer_open(embed_context *ctx, const embed_writer *w);

/* A named section beside the tables, for what a later layer keeps in a file: embed__container_extra reads it back, in place, its sum
 * checked, 64-byte aligned and, in a mapped file, page-aligned (4096) from a page on. data [bytes] is the caller's until commit or
 * release: it is not copied, and what it holds at commit is written. Names are the layers' own, "head.prepared", and do not meet those
 * of tables. E_UNSUPPORTED: a format other than .embed; E_ARGUMENT: a name twice or empty, a committed writer. */
embed_status embed__writer_section(embed_context *ctx, embed_writer *w, const char *name, const void *data, int64_t bytes);
/* The same for bytes that are made in pieces: source is called within commit, on its thread, and hands over exactly `bytes`. done(arg) is
 * called once they are not needed any more, NULL = never; not when this fails. */
embed_status embed__writer_section_from(embed_context *ctx, embed_writer *w, const char *name, int64_t bytes, embed__section_source *source, void *arg,
                                        void (*done)(void *arg));
/* For sources: `count` bytes more. E_ARGUMENT: more than were announced. */
embed_status embed__section_add(embed_context *ctx, embed__section_sink *sink, const void *bytes, int64_t count);

/* Rows of t as they are stored, block by block on the context's threads: rows first .. first + rows - 1 are `bytes` bytes at
 * block, t->row_bytes apart. Progress and cancel are looked at between blocks. E_NONFINITE: a row that cannot be stored. */
typedef embed_status embed__rows_sink(embed_context *ctx, void *arg, int64_t first, int64_t rows, const unsigned char *block, int64_t bytes);
embed_status embed__written_rows(embed_context *ctx, embed_writer *w, const embed__written_table *t, embed__rows_sink *sink, void *arg);
embed__rows_sink embed__rows_to_file; /* arg: the embed__safe_file */

#endif
