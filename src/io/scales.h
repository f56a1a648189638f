/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors whose numbers stand in several: what scaled.c, packed.c and bitsandbytes.c have in common. */
#ifndef EMBED__SCALES_H
#define EMBED__SCALES_H

#include <math.h>
#include <string.h>

#include "core/fp8.h"
#include "io/cursor.h"

/* Types by their names: of values up to NVFP4, of scales from SINGLE on. */
typedef enum embed__kind {
  EMBED__E4M3,
  EMBED__E5M2,
  EMBED__INT8,
  EMBED__NVFP4,
  EMBED__SINGLE,
  EMBED__HALF,
  EMBED__BFLOAT,
  EMBED__DOUBLE,
  EMBED__POWER,
  EMBED__KINDS
} embed__kind;

embed__kind embed__kind_of(const embed__tensor *tensor); /* EMBED__KINDS = none of them */

/* Scale i of those that begin at p. */
static inline double embed__scale_at(const unsigned char *p, embed__kind k, int64_t i) {
  double d;
  uint64_t bits;
  switch (k) {
    case EMBED__E4M3: return (double)embed__f32_of_e4m3(p[i]);
    case EMBED__SINGLE: return (double)embed__le_f32(p + 4 * i);
    case EMBED__HALF: return (double)embed__f32_of_f16(embed__le16(p + 2 * i));
    case EMBED__BFLOAT: return (double)embed__f32_of_bf16(embed__le16(p + 2 * i));
    case EMBED__POWER: return p[i] == 0xFF ? (double)NAN : ldexp(1, p[i] - 127);
    default: bits = embed__le64(p + 8 * i); return memcpy(&d, &bits, sizeof d), d;
  }
}

/* The tensor is no table; why: a sentence about `other`. */
embed_status embed__no_table(embed_context *ctx, embed_file *f, embed__tensor *tensor, const char *why, const embed__tensor *other);

enum { EMBED__BESIDE = 512 /* bytes of a name that is looked for, with a NUL */ };
/* The tensor whose name is the first `stem` bytes of this one's and `ending`; -1 = none, or its name would be longer. */
int64_t embed__beside(const embed_file *f, const embed__tensor *tensor, size_t stem, const char *ending);
/* What stands in front of `ending` in the tensor's name, bytes; 0 = it ends otherwise, or has nothing in front. */
size_t embed__stem(const embed__tensor *tensor, const char *ending);

/* Makes the tensor one of shape [rows, dim] that decode makes by this recipe. `parts` tensors' numbers stand first in it, -1 = none. */
typedef struct embed__decoding {
  embed__decode_rows *decode;
  const void *recipe;
  int32_t recipe_bytes, parts;
  int64_t rows, dim;
  embed_dtype dtype;
  const char *stored; /* NULL = as it was */
} embed__decoding;
embed_status embed__decode_as(embed_context *ctx, embed_file *f, embed__tensor *tensor, const embed__decoding *d);

/* Integers packed into words of 32 bits: MLX, compressed-tensors, GPTQ, AWQ (packed.c). */
embed_status embed__find_packed(embed_context *ctx, embed_file *f);
/* bitsandbytes' four bits and int8 (bitsandbytes.c). */
embed_status embed__find_bitsandbytes(embed_context *ctx, embed_file *f);

/* What config.json beside the file says of quantisation; a hint: shapes and contents decide. */
typedef struct embed__width {
  int32_t bits, group; /* 0 = not said */
} embed__width;
typedef struct embed__hints {
  embed__width all;
  embed__width *own; /* of each tensor; NULL = none has one */
  int64_t count;
  bool plain_zeros; /* GPTQ's "gptq_v2" */
} embed__hints;
/* A file that cannot be read, or is broken, says nothing. */
embed_status embed__hints_read(embed_context *ctx, const embed_file *f, embed__hints *out);
void embed__hints_free(embed_context *ctx, embed__hints *hints);

#endif
