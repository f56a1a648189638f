/* SPDX-License-Identifier: BSD-3-Clause */
/* libembed's own file, .embed: places and sizes. FORMAT.md describes it byte by byte. */
#ifndef EMBED__CONTAINER_H
#define EMBED__CONTAINER_H

#include "io/file.h"

#define EMBED__CONTAINER_MAGIC \
  "\x89"                       \
  "EMB\r\n\x1A\n" /* 8 bytes */
enum { EMBED__CONTAINER_MAJOR = 1, EMBED__CONTAINER_MINOR = 0, EMBED__CONTAINER_SECTIONS = 4096 /* at most */ };

/* The head. */
enum {
  EMBED__HEAD_MAGIC = 0,
  EMBED__HEAD_MAJOR = 8,
  EMBED__HEAD_MINOR = 10,
  EMBED__HEAD_SECTIONS = 12,
  EMBED__HEAD_FILE = 16,
  EMBED__HEAD_END = 24,
  EMBED__HEAD_DIRECTORY_SUM = 32,
  EMBED__HEAD_ZERO = 36,
  EMBED__HEAD_SUM = 60,
  EMBED__HEAD = 64
};
/* An entry of the directory behind it. */
enum {
  EMBED__ENTRY_KIND = 0,
  EMBED__ENTRY_FLAGS = 4,
  EMBED__ENTRY_OFFSET = 8,
  EMBED__ENTRY_BYTES = 16,
  EMBED__ENTRY_SUM = 24,
  EMBED__ENTRY_NAME_BYTES = 28,
  EMBED__ENTRY_NAME = 32,
  EMBED__ENTRY_ROLES = 40,
  EMBED__ENTRY_DTYPE = 44,
  EMBED__ENTRY_GROUP = 48,
  EMBED__ENTRY_VECTOR = 52,
  EMBED__ENTRY_ROWS = 56,
  EMBED__ENTRY_VOCAB = 64,
  EMBED__ENTRY_DIM = 72,
  EMBED__ENTRY_ROW_BYTES = 80,
  EMBED__ENTRY_LAST = 88,
  EMBED__ENTRY = 96
};
enum { EMBED__SECTION_TABLE = 1, EMBED__SECTION_TOKENS, EMBED__SECTION_METADATA, EMBED__SECTION_CONVENTIONS, EMBED__SECTION_EXTRA };
enum { EMBED__SECTION_NEEDED = 1 /* flag: who does not know the kind must not read the file */ };
enum { EMBED__CONTAINER_PAGE = 4096 /* tables start at multiples of it */, EMBED__CONTAINER_ALIGN = 64 /* all other sections of it */ };

/* The conventions section. */
enum {
  EMBED__CONVENTIONS_LOOKUP = 0,
  EMBED__CONVENTIONS_ROUND = 4,
  EMBED__CONVENTIONS_LOGIT = 8,
  EMBED__CONVENTIONS_SOFTCAP = 12,
  EMBED__CONVENTIONS_EPSILON = 16,
  EMBED__CONVENTIONS_FLAGS = 20,
  EMBED__CONVENTIONS = 24
};

/* The extra section of this name: a prepared head, a sketch, an optimiser's state. E_NOT_FOUND: there is none; E_FORMAT: its sum is wrong.
 * The bytes live as long as the file. */
embed_status embed__container_extra(embed_context *ctx, const embed_file *f, const char *name, const unsigned char **data, int64_t *bytes);
/* The same without reading the bytes, as for rows: their sum is left to EMBED_FILE_CHECK. *data NULL: there is none. */
void embed__container_extra_in_place(const embed_file *f, const char *name, const unsigned char **data, int64_t *bytes);

static inline uint64_t embed__u64_at(const unsigned char *p) { return embed__le32(p) | (uint64_t)embed__le32(p + 4) << 32; }

#endif
