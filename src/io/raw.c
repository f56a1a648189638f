/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of little-endian floats and nothing else: what tofile of numpy or fwrite leaves. Nothing in such a file says what it is, so the
 * formats are only asked for by their names, and dim or vocab of embed_file_options gives the shape. */
#include <inttypes.h>

#include "core/error.h"
#include "io/byte_order.h"
#include "io/format.h"

bool embed__raw_probe(const unsigned char *data, int64_t bytes) {
  (void)data;
  (void)bytes;
  return false;
}

static embed_status open_raw(embed_context *ctx, embed_file *f, const embed_file_options *o, embed_dtype dtype, int64_t width, const char *stored) {
  const int64_t size = f->map.bytes, numbers = size / width;
  if (o->dim == 0 && o->vocab == 0)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "%s: a raw file does not say its shape: dim or vocab of embed_file_options must", f->label);
  const int64_t dim = o->dim ? o->dim : numbers / o->vocab, rows = dim ? numbers / dim : 0;
  if (rows == 0 || size % width != 0 || numbers % dim != 0)
    return embed__fail(ctx, EMBED_E_FORMAT, size, "%s: its %" PRId64 " bytes are no whole number of rows of %" PRId64 " columns, %" PRId64 " bytes each",
                       f->label, size, dim, width);
  EMBED__TRY(embed__file_tensors(ctx, f, 1));
  f->tensors[0] = (embed__tensor){.name = "array", .stored = stored, .shape = {rows, dim}, .rank = 2, .bytes = size, .dtype = dtype};
  f->tensors[0].swapped = embed__is_swapped(dtype, false);
  return EMBED_OK;
}

embed_status embed__raw_open(embed_context *ctx, embed_file *f, const embed_file_options *o) { return open_raw(ctx, f, o, EMBED_F32, 4, "f32"); }
embed_status embed__raw_f64_open(embed_context *ctx, embed_file *f, const embed_file_options *o) { return open_raw(ctx, f, o, EMBED_F64, 8, "f64"); }
embed_status embed__raw_f16_open(embed_context *ctx, embed_file *f, const embed_file_options *o) { return open_raw(ctx, f, o, EMBED_F16, 2, "f16"); }
embed_status embed__raw_bf16_open(embed_context *ctx, embed_file *f, const embed_file_options *o) { return open_raw(ctx, f, o, EMBED_BF16, 2, "bf16"); }
