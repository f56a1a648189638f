/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__DTYPE_H
#define EMBED__DTYPE_H

#include <embed/types.h>
#include <stdbool.h>

typedef struct embed__dtype_info {
  embed_dtype dtype;
  const char *name;
  int64_t block;       /* columns per block, 0 = the table's group */
  int64_t block_bytes; /* 0 = by the group */
  int64_t row_extra;   /* bytes after the blocks */
  bool whole;          /* dim must be a multiple of block */
} embed__dtype_info;

/* The dtypes of the registry by number: EMBED__FORM_f32, EMBED__FORM_q4_k .. for tables of kernels. */
typedef enum embed__form {
#define DTYPE(constant, codec, name, block, block_bytes, row_extra, whole) EMBED__FORM_##codec,
#include "core/dtypes.def"
#undef DTYPE
  EMBED__FORM_COUNT
} embed__form;

const embed__dtype_info *embed__dtype_find(embed_dtype t); /* NULL = not in this build */
/* Bytes of a packed row. EMBED_E_UNSUPPORTED: no whole number of blocks; E_ARGUMENT: no dtype, dim < 1 or a group that is not 0, 32, 64 or
 * 128 (EMBED_PQ: is not at least 1); E_OVERFLOW. group 0 = 32. */
int64_t embed__row_bytes(embed_dtype t, int64_t dim, int32_t group);
const char *embed__dtype_name(embed_dtype t); /* static, NULL = no such dtype */
bool embed__is_float(embed_dtype t);          /* F32, F16 or BF16: the dtypes of callers' buffers */
int64_t embed__float_bytes(embed_dtype t);

#endif
