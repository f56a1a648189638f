/* SPDX-License-Identifier: BSD-3-Clause */
/* Callers' buffers: void pointers with a float dtype beside them. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "table/table.h"

embed_status embed__check_buffer(embed_context *ctx, const char *name, const void *buffer, embed_dtype dtype, int64_t n, int64_t dim, int64_t ld,
                                 int64_t *ld_out) {
  if (n < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s has %" PRId64 " rows", name, n);
  if (!embed__is_float(dtype)) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s has dtype %d, it must be F32, F16 or BF16", name, dtype);
  if (ld != 0 && ld < dim) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s has a row stride of %" PRId64 " elements for %" PRId64 " columns", name, ld, dim);
  *ld_out = ld ? ld : dim;
  int64_t elements, bytes;
  if (!embed__mul(n, *ld_out, &elements) || !embed__mul(elements, embed__float_bytes(dtype), &bytes) || (uint64_t)bytes > PTRDIFF_MAX)
    return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%s: %" PRId64 " rows of %" PRId64 " elements do not fit into memory", name, n, *ld_out);
  if (n > 0 && !buffer) return embed__null(ctx, name);
  return EMBED_OK;
}

void embed__store_row(const embed__kernels *k, const float *row, void *out, embed_dtype dtype, int64_t dim) {
  if (dtype == EMBED_F16)
    k->row.to_f16(row, out, dim);
  else if (dtype == EMBED_BF16)
    k->row.to_bf16(row, out, dim);
  else
    memcpy(out, row, (size_t)dim * sizeof *row);
}

void embed__load_row(const embed__kernels *k, const void *in, embed_dtype dtype, float *row, int64_t dim) {
  embed__stored stored = dtype == EMBED_F16 ? EMBED__STORED_F16 : dtype == EMBED_BF16 ? EMBED__STORED_BF16 : EMBED__STORED_F32;
  if (stored == EMBED__STORED_F32)
    memcpy(row, in, (size_t)dim * sizeof *row);
  else
    k->row.decode[stored](in, row, dim, 1.0f);
}
