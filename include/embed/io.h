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
EMBED_FN embed_status embed_file_open(embed_context *ctx, const char *path, const embed_file_options *opts, embed_file **out); /* everything is proved before it returns */
EMBED_API embed_file *embed_file_retain(const embed_file *f);
EMBED_API void embed_file_release(const embed_file *f);
EMBED_API const char *embed_file_format(const embed_file *f);
EMBED_API const char *embed_file_notes(const embed_file *f); /* how roles and ties were decided, conflicts; one a line; "" = nothing to say */
EMBED_API int64_t embed_file_count(const embed_file *f);     /* tensors */
EMBED_FN embed_status embed_file_tensor(embed_context *ctx, const embed_file *f, int64_t i, embed_tensor_info *out);
EMBED_FN embed_status embed_file_find(embed_context *ctx, const embed_file *f, const char *name, int64_t *i);
EMBED_FN embed_status embed_file_role(embed_context *ctx, const embed_file *f, embed_role role, int64_t *i); /* HEAD = TOKEN's index when tied; -1 = none */
EMBED_FN embed_status embed_file_conventions(embed_context *ctx, const embed_file *f, embed_conventions *out);
EMBED_FN embed_status embed_file_table(embed_context *ctx, const embed_file *f, int64_t i, embed_table **out); /* maps; i = -1: the token table */
/* table NULL = open it; tied: retains table. opts NULL = scale and soft-cap of embed_file_conventions. */
EMBED_FN embed_status embed_file_head(embed_context *ctx, const embed_file *f, const embed_table *table, const embed_head_options *opts, embed_head **out);
EMBED_API const char *embed_file_token(const embed_file *f, int64_t id, int64_t *bytes); /* as stored, a NUL after it; NULL = none */
EMBED_FN embed_status embed_file_token_id(embed_context *ctx, const embed_file *f, const char *token, int64_t bytes, int64_t *id);
EMBED_FN embed_status embed_file_metadata(embed_context *ctx, const embed_file *f, int64_t i, const char **key, const char **value, int64_t *value_bytes);

#ifdef __cplusplus
}
#endif
#endif
