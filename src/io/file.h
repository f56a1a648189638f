/* SPDX-License-Identifier: BSD-3-Clause */
/* An opened and proved file. Formats fill it while it is opened; from then on nothing in it changes. */
#ifndef EMBED__FILE_H
#define EMBED__FILE_H

#include <embed/io.h>

#include "core/pages.h"
#include "core/refcount.h"
#include "io/map.h"
#include "table/table.h"
#include "vocab/tokens.h"

enum { EMBED__RANKS = 8, EMBED__ROLES = EMBED_ROLE_NGRAM + 1, EMBED__LABEL = 200 };

typedef struct embed__format embed__format; /* io/format.h */
typedef struct embed__tensor embed__tensor;
/* Rows first .. end of a tensor that lies in the file in no form that a table has, as its dtype has them. */
typedef void embed__decode_rows(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows);

struct embed__tensor {
  const char *name, *stored; /* literals, or kept by the file */
  int64_t shape[EMBED__RANKS];
  int64_t offset;              /* of the first element in the file, -1 = its numbers are not one block there */
  const unsigned char *memory; /* where it was unpacked to, kept by the file; NULL = it lies at offset in its mapping */
  int64_t bytes;               /* of its elements */
  int32_t rank;
  int32_t shard;              /* which of the file's mappings it lies in; 0 where there is one */
  embed_dtype dtype;          /* EMBED_DTYPE_NONE = no table type */
  const char *hint;           /* with EMBED_DTYPE_NONE: what to say of it, or NULL */
  bool column_major;          /* the first extent varies fastest */
  bool swapped;               /* elements in the other byte order than this machine's */
  int64_t vocab;              /* rows that are ids, 0 = all: roles/ knows */
  int64_t row_bytes;          /* distance between rows, 0 = packed */
  int32_t group;              /* columns per scale, grouped dtypes */
  embed_table *table;         /* made when the file was opened; NULL = made from the file's bytes on demand */
  embed__decode_rows *decode; /* how (io/decoded.h), NULL = they lie there as the table has them */
  const void *recipe;         /* decode's own, kept by the file: copy it out, it may stand at any address */
  int32_t recipe_bytes;       /* all that decode goes by but the tensor's bytes; 0 = it goes by more: only what it makes can be compared */
  int32_t parts;              /* tensors whose bytes it reads too: they stand first in the recipe, an int64_t each, -1 = none */
};

/* A key-value pair of the file's own; both have a NUL behind them, and may have NULs in them. */
typedef struct embed__metadata {
  const char *key, *value; /* value: as text */
  int64_t value_bytes;
  double number;            /* the value as a number, NaN = it is none */
  const unsigned char *raw; /* as a little-endian GGUF file has it, its kind first, for the writer of one; NULL = this is none */
  int64_t raw_bytes;
} embed__metadata;

/* How often the training text had each class; kept by the file, of NULL = it does not say. */
typedef struct embed__counts {
  const int64_t *of;
  int64_t n;
} embed__counts;

struct embed_file {
  embed__refcount references;
  embed_allocator memory;
  const embed__format *format;
  const char *path; /* while the format opens it, NULL afterwards */
  embed__map map;
  embed__map *shards; /* NULL = the tensors lie in map */
  int64_t shard_count;
  embed__tensor *tensors;
  int64_t tensor_count, tensor_room;
  embed__tokens *names;      /* of the tensors, for embed_file_find; NULL = few enough to look through */
  embed__metadata *metadata; /* in the file's order */
  int64_t metadata_count, metadata_room;
  embed__tokens *tokens;         /* NULL = the file names no tokens */
  embed__counts token_counts;    /* of the token table's rows; */
  embed__counts head_counts;     /* of what the output side predicts */
  int64_t roles[EMBED__ROLES];   /* a tensor each, -1 = none */
  bool roles_given;              /* the file itself says what its tensors are for: roles/ guesses nothing */
  embed_conventions conventions; /* the file's own; size 0 = it has none */
  int64_t own_head;              /* the tensor stored as a head, be it tied or not, -1 = none */
  char *notes;                   /* NULL = none */
  size_t notes_bytes;            /* with the NUL */
  struct embed__kept *kept;      /* strings, see embed__file_keep */
  char label[EMBED__LABEL + 4];  /* the path in messages; of a long one, its end */
};

/* Maps the file, finds its format and lets it prove everything. o is a checked copy. */
embed_status embed__file_open(embed_context *ctx, const char *path, const embed_file_options *o, embed_file **out);
embed_file *embed__file_retain(const embed_file *f); /* NULL is fine in both */
void embed__file_release(const embed_file *f);
/* *out: the table of tensor i, -1 = of the token table. */
embed_status embed__file_table(embed_context *ctx, const embed_file *f, int64_t i, embed_table **out);
/* The table that tensor i would give: [n] is one row. False: neither rank 1 nor rank 2. */
bool embed__tensor_extents(const embed__tensor *tensor, int64_t *rows, int64_t *dim);

/* A table of its own of a float tensor's elements, which lie at from as the tensor says (column_major, swapped). The tensor is one that
 * gives a table. */
embed_status embed__tensor_copy(embed_context *ctx, const embed__tensor *tensor, const unsigned char *from, embed_table **out);

/* Of a table of the file's numbers that is not a view. */
static inline uint32_t embed__copy_flags(int64_t bytes) { return EMBED_TABLE_READ_ONLY | (bytes >= EMBED__HUGE_PAGES_FROM ? EMBED_TABLE_HUGE_PAGES : 0u); }

/* The first byte of a tensor that has memory or whose offset is not -1. */
static inline const unsigned char *embed__tensor_data(const embed_file *f, const embed__tensor *tensor) {
  if (tensor->memory) return tensor->memory;
  return (f->shards ? f->shards[tensor->shard].data : f->map.data) + tensor->offset;
}

/* For the formats. */
embed_status embed__file_tensors(embed_context *ctx, embed_file *f, int64_t count); /* once: zeroed tensors */
/* A line of the notes that starts with a number: "3 tokens are empty". */
embed_status embed__file_note(embed_context *ctx, embed_file *f, int64_t number, const char *what);
embed_status embed__file_note_line(embed_context *ctx, embed_file *f, const char *line); /* without a newline */
/* A copy of s[0 .. bytes) with a NUL behind it that lives as long as the file. */
embed_status embed__file_keep(embed_context *ctx, embed_file *f, const void *s, int64_t bytes, const char **out);
/* Bytes to be filled in, aligned to 64, that live as long. */
embed_status embed__file_room(embed_context *ctx, embed_file *f, int64_t bytes, unsigned char **out);
/* All that `from` keeps is kept by f. */
void embed__file_take_kept(embed_file *f, embed_file *from);
/* Keeps copies of both. Whether a key may stand twice is the format's business. */
embed_status embed__file_add_metadata(embed_context *ctx, embed_file *f, const void *key, int64_t key_bytes, const void *value, int64_t value_bytes,
                                      double number);
const embed__metadata *embed__file_metadata_find(const embed_file *f, const char *key); /* the first of this key, NULL = none */
int64_t embed__header_limit(const embed_file_options *o);                               /* bytes */
void embed__file_label(char label[EMBED__LABEL + 4], const char *path);                 /* the path for messages; of a long one, its end */

/* Files may start a number at any byte, and machines of either byte order read them. */
static inline uint32_t embed__le32(const unsigned char *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
static inline uint16_t embed__le16(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }
/* Returns where they end. */
static inline unsigned char *embed__put_le(unsigned char *p, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) *p++ = (unsigned char)(value >> (8 * i));
  return p;
}
enum { EMBED__BIG_ENDIAN_HOST = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ };

#endif
