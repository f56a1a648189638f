/* SPDX-License-Identifier: BSD-3-Clause */
/* embed/io.h: opening files that hold a vocabulary. */
#ifndef EMBED_IO_H
#define EMBED_IO_H

#include <embed/types.h>
#include <embed/head.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct embed_file_options {
  uint32_t size, flags; /* EMBED_FILE_* */
  int64_t max_header;   /* refuse a longer header, bytes; 0 = 100 MB */
  int64_t dim;          /* headerless text: columns expected; 0 = detect */
  int64_t vocab;        /* rows expected: another number is EMBED_E_MISMATCH giving both; 0 = any */
  const char *format;   /* a name of the format registry; NULL = by content */
  const void *reserved;
} embed_file_options;
enum { EMBED_FILE_POPULATE = 1 /* fault pages in now */, EMBED_FILE_COPY = 2 /* read instead of map */ };
typedef int32_t embed_role;
enum { EMBED_ROLE_NONE = -1, EMBED_ROLE_TOKEN = 0, EMBED_ROLE_HEAD, EMBED_ROLE_HEAD_BIAS, EMBED_ROLE_POSITION, EMBED_ROLE_TYPE, EMBED_ROLE_NORM,
       EMBED_ROLE_NORM_BIAS };
typedef struct embed_tensor_info { /* output struct; strings live as long as the file */
  uint32_t size, flags;
  const char *name, *stored; /* the file's own names of tensor and type */
  int64_t shape[8];          /* outermost first */
  int64_t offset, bytes;
  int32_t rank;
  embed_dtype dtype;         /* EMBED_DTYPE_NONE = no table type */
  embed_role role;
  int32_t shard;
} embed_tensor_info;
typedef struct embed_conventions { /* output struct: what the file's family does */
  uint32_t size, flags;
  float lookup_scale;      /* Gemma: sqrt(dim) */
  embed_dtype scale_round;
  float logit_scale, logit_softcap;
  float norm_epsilon;
  int32_t norm_flags;      /* EMBED_NORM_* */
} embed_conventions;
/**
 * embed_file_open: opens a model file, recognised by its content, and proves all of it.
 *
 * Types    npy 1.0 to 3.0 (one tensor, "array"); word2vec binary (one tensor, "vectors", and a token per row), with or without
 *          newlines between rows.
 * Options  format asks for one by name ("npy", "word2vec") and skips what tells it from its kin. max_header bounds the header;
 *          npy's ends at 10,000 bytes anyway, numpy's own limit. dim is ignored by formats that state it. EMBED_FILE_COPY reads the
 *          file into memory of the context's allocator; without it the file is mapped read-only and must not be cut short while the
 *          handle lives (SIGBUS): replace model files by rename.
 * Errors   E_FORMAT (embed_error_at = the byte; a file cut short: its size), E_UNSUPPORTED (valid, not read by this version: pickled
 *          or structured npy, word2vec text), E_OVERFLOW (sizes past 64 bits), E_IO (the text carries the system's reason; directories,
 *          FIFOs and devices fail at once), E_NOT_FOUND (no such format), E_MISMATCH (opts->vocab), E_OPTION, E_MEMORY, E_CANCELLED.
 *          *out is NULL then. No descriptor stays open either way.
 * Threads  ctx exclusive; the file may then be used by any number of threads at once.
 * Cost     npy: its header. word2vec: one pass over the file and a copy of its rows, on the context's threads; nothing of the file is
 *          used afterwards. Memory is bounded by a small multiple of the file's size, whatever its header says.
 * Since    0.1.   Source  numpy/lib/format.py; word2vec.c.
 */
EMBED_FN embed_status embed_file_open(embed_context *ctx, const char *path, const embed_file_options *opts, embed_file **out); /* everything is proved before it returns */
/** embed_file_retain, embed_file_release: +1 and -1, from any thread; NULL is fine. Tables made from a file hold it themselves: handles go in
 *  any order. Since 0.1. */
EMBED_API embed_file *embed_file_retain(const embed_file *f);
EMBED_API void embed_file_release(const embed_file *f);
/** embed_file_format: the format's name ("npy"), static; NULL for a NULL file. Since 0.1. */
EMBED_API const char *embed_file_format(const embed_file *f);
/** embed_file_notes: what is odd but no error (repeated or empty tokens, bytes behind an array), as long as the file lives; NULL for a NULL
 *  file. Since 0.1. */
EMBED_API const char *embed_file_notes(const embed_file *f); /* how roles and ties were decided, conflicts; one a line; "" = nothing to say */
/** embed_file_count: number of tensors; below 0 for a NULL file. Since 0.1. */
EMBED_API int64_t embed_file_count(const embed_file *f);     /* tensors */
/**
 * embed_file_tensor: describes tensor i, 0 <= i < embed_file_count.
 *
 * A tensor whose type no table has is listed with dtype EMBED_DTYPE_NONE and its own name in `stored`. offset is that of its first
 * element in the file, -1 where its numbers are not one block there (word2vec). role is the first that it has: a tied head's table
 * says EMBED_ROLE_TOKEN.
 * Errors   E_ARGUMENT (i), E_OPTION (out->size). out is untouched then.
 * Threads  f shared, ctx exclusive.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_tensor(embed_context *ctx, const embed_file *f, int64_t i, embed_tensor_info *out);
/**
 * embed_file_find: the index of the tensor of this name.
 * Errors   E_NOT_FOUND (the text names those that exist; *i untouched).
 * Threads  f shared, ctx exclusive.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_find(embed_context *ctx, const embed_file *f, const char *name, int64_t *i);
/**
 * embed_file_role: the tensor that has this role. A file of one tensor is the token table and, tied, the head.
 * Errors   E_ARGUMENT (no such role).
 * Threads  f shared, ctx exclusive.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_role(embed_context *ctx, const embed_file *f, embed_role role, int64_t *i); /* HEAD = TOKEN's index when tied; -1 = none */
/**
 * embed_file_conventions: what the file's family does between ids and rows, hidden states and logits. Plain tables (npy, word2vec) are
 * neutral: scales 1, soft-cap off, no norm.
 * Errors   E_OPTION (out->size; out untouched).
 * Threads  f shared, ctx exclusive.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_conventions(embed_context *ctx, const embed_file *f, embed_conventions *out);
/**
 * embed_file_table: the table of a tensor, read-only.
 *
 * Shapes   [rows, dim]; [n] opens as one row [1, n].
 * Types    float tensors as they are stored. In C order and this machine's byte order the table is a view of the file, at any
 *          alignment, nothing copied; Fortran order and the other byte order are converted into a new table by each call (keep
 *          it). word2vec rows were copied when the file was opened: all calls give the same table.
 * Empty    0 rows are a table.
 * Errors   E_MISMATCH (another rank, or no columns; the text has the shape), E_UNSUPPORTED (EMBED_DTYPE_NONE), E_ARGUMENT (i),
 *          E_MEMORY, E_CANCELLED. *out is NULL then.
 * Threads  f shared, ctx exclusive. The table holds the file: release both in any order.
 * Cost     a view: nothing; a conversion: reads and writes the tensor once, on the context's threads.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_table(embed_context *ctx, const embed_file *f, int64_t i, embed_table **out); /* maps; i = -1: the token table */
/**
 * embed_file_head: the output side of the file.
 *
 * Options  as embed_head_create, and: logit_scale, logit_softcap 0 = the file's (EMBED_HEAD_RAW: 1 and off); REQUIRE_TIED,
 *          REQUIRE_UNTIED fail where the file is otherwise.
 * Errors   E_NOT_FOUND (REQUIRE_UNTIED of a file without a head of its own; the text names what is there), E_OPTION (both REQUIRE
 *          flags), E_UNSUPPORTED (PREPARE and SKETCH in this version), as embed_file_table. *out is NULL then.
 * Threads  f and table shared, ctx exclusive. The head holds its table.
 * Since    0.1.
 */
/* table NULL = open it; tied: retains table. opts NULL = scale and soft-cap of embed_file_conventions. */
EMBED_FN embed_status embed_file_head(embed_context *ctx, const embed_file *f, const embed_table *table, const embed_head_options *opts, embed_head **out);
/** embed_file_token: the token of row id, arbitrary bytes (not always UTF-8, possibly none), valid as long as the file; NULL and *bytes = 0
 *  where there is none. bytes may be NULL. Since 0.1. */
EMBED_API const char *embed_file_token(const embed_file *f, int64_t id, int64_t *bytes); /* as stored, a NUL after it; NULL = none */
/**
 * embed_file_token_id: the row of a token of `bytes` bytes, compared byte by byte; the lowest row where several have it.
 * Empty    bytes = 0 asks for the empty token; token is not read then and may be NULL.
 * Errors   E_NOT_FOUND (no row has it, or the format names no tokens; *id untouched), E_ARGUMENT (bytes < 0).
 * Threads  f shared, ctx exclusive.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_token_id(embed_context *ctx, const embed_file *f, const char *token, int64_t bytes, int64_t *id);
/**
 * embed_file_metadata: entry i >= 0 of the file's own key-value pairs; strings live as long as the file.
 * Errors   E_NOT_FOUND (no such entry: the end of the list; npy and word2vec have none). Outputs are untouched then.
 * Threads  f shared, ctx exclusive.
 * Since    0.1.
 */
EMBED_FN embed_status embed_file_metadata(embed_context *ctx, const embed_file *f, int64_t i, const char **key, const char **value, int64_t *value_bytes);

#ifdef __cplusplus
}
#endif
#endif
