/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/dtype.h"

#include <string.h>

#include "core/checked.h"

static const embed__dtype_info registry[] = {
#define DTYPE(constant, codec, name, block, block_bytes, row_extra, whole) {constant, name, block, block_bytes, row_extra, whole},
#include "core/dtypes.def"
#undef DTYPE
};
enum { COUNT = sizeof registry / sizeof *registry };

const embed__dtype_info *embed__dtype_find(embed_dtype t) {
  for (int i = 0; i < COUNT; ++i)
    if (registry[i].dtype == t) return &registry[i];
  return NULL;
}

int64_t embed__row_bytes(embed_dtype t, int64_t dim, int32_t group) {
  const embed__dtype_info *info = embed__dtype_find(t);
  const bool parts = t == EMBED_PQ, scales = group == 0 || group == 32 || group == 64 || group == 128;
  if (!info || dim < 1 || !(parts ? group > 0 : scales)) return EMBED_E_ARGUMENT;
  int64_t block = info->block, block_bytes = info->block_bytes, bytes;
  if (block == 0) {
    block = group ? group : 32;
    if (block_bytes == 0) block_bytes = 2 + block / 2;
  }
  if (info->whole && dim % block) return EMBED_E_UNSUPPORTED;
  if (!embed__mul(embed__ceil_div(dim, block), block_bytes, &bytes) || !embed__add(bytes, info->row_extra, &bytes)) return EMBED_E_OVERFLOW;
  return bytes;
}

bool embed__is_float(embed_dtype t) { return t == EMBED_F32 || t == EMBED_F16 || t == EMBED_BF16; }

int64_t embed__float_bytes(embed_dtype t) { return t == EMBED_F32 ? 4 : 2; }

int64_t embed_row_bytes(embed_dtype t, int64_t dim, int32_t group) { return embed__row_bytes(t, dim, group); }

const char *embed__dtype_name(embed_dtype t) {
  const embed__dtype_info *info = embed__dtype_find(t);
  return info ? info->name : NULL;
}

const char *embed_dtype_name(embed_dtype t) { return embed__dtype_name(t); }

embed_dtype embed_dtype_find(const char *name) {
  for (int i = 0; name && i < COUNT; ++i)
    if (!strcmp(registry[i].name, name)) return registry[i].dtype;
  return EMBED_DTYPE_NONE;
}
