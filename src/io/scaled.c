/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors of 8 bits whose scales stand in a tensor beside them: "NAME_scale" or "NAME_scale_inv" of NAME (compressed-tensors, DeepSeek;
 * a value is multiplied by either). The scales are one, or one for each row, or one for each 128 columns (or 32) of the tensor, of a row or
 * of 128 rows. GGUF's NVFP4 has "X.scale", one number, beside "X.weight". Such a tensor without its scales would be other numbers: one
 * whose scales are not understood is no table. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "codec/codec.h"
#include "core/checked.h"
#include "core/fp8.h"
#include "io/cursor.h"
#include "io/decoded.h"
#include "io/text.h"

enum { BLOCK = 128, GROUP = 32 };

/* Of values up to NVFP4, of scales from SINGLE on. */
typedef enum kind { E4M3, E5M2, INT8, NVFP4, SINGLE, HALF, BFLOAT, DOUBLE, POWER, KINDS } kind;
static const char *const names[KINDS] = {"F8_E4M3", "F8_E5M2", "I8", "NVFP4", "F32", "F16", "BF16", "F64", "F8_E8M0"};

static kind kind_of(const embed__tensor *tensor) {
  int k = 0;
  while (k < KINDS && strcmp(tensor->stored, names[k]) != 0) ++k;
  return (kind)k;
}

typedef struct recipe {
  int64_t scales;       /* which tensor */
  int64_t down, across; /* rows and columns that have one scale together */
  int64_t in_a_row;     /* scales of a row */
  kind values, of_scales;
} recipe;

/* Scale i of those that begin at p. */
static double scale_at(const unsigned char *p, kind k, int64_t i) {
  double d;
  uint64_t bits;
  switch (k) {
    case SINGLE: return (double)embed__le_f32(p + 4 * i);
    case HALF: return (double)embed__f32_of_f16(embed__le16(p + 2 * i));
    case BFLOAT: return (double)embed__f32_of_bf16(embed__le16(p + 2 * i));
    case POWER: return p[i] == 0xFF ? (double)NAN : ldexp(1, p[i] - 127);
    default: bits = embed__le64(p + 8 * i); return memcpy(&d, &bits, sizeof d), d;
  }
}

static float value_at(const unsigned char *p, kind k, int64_t i) {
  return k == E4M3 ? embed__f32_of_e4m3(p[i]) : k == E5M2 ? embed__f32_of_e5m2(p[i]) : (float)(int8_t)p[i];
}

/* The product is rounded once: a value has 8 bits at most. */
static void decode_floats(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  int64_t ignored, dim;
  recipe r;
  (void)embed__tensor_extents(tensor, &ignored, &dim);
  memcpy(&r, tensor->recipe, sizeof r);
  const unsigned char *values = embed__tensor_data(f, tensor) + first * dim, *scales = embed__tensor_data(f, &f->tensors[r.scales]);
  for (int64_t row = first; row < end; ++row, values += dim)
    for (int64_t at = 0; at < dim; at += r.across) {
      const double scale = scale_at(scales, r.of_scales, row / r.down * r.in_a_row + at / r.across);
      for (int64_t j = at; j < embed__min(dim, at + r.across); ++j, rows += 4) {
        const float value = (float)((double)value_at(values, r.values, j) * scale);
        memcpy(rows, &value, sizeof value);
      }
    }
}

static void decode_int8(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  int64_t ignored, dim;
  recipe r;
  (void)embed__tensor_extents(tensor, &ignored, &dim);
  memcpy(&r, tensor->recipe, sizeof r);
  const unsigned char *values = embed__tensor_data(f, tensor) + first * dim, *scales = embed__tensor_data(f, &f->tensors[r.scales]);
  for (int64_t row = first; row < end; ++row, values += dim, rows += dim + 4) {
    memcpy(rows, values, (size_t)dim);
    embed__put_le_f32(rows + dim, (float)scale_at(scales, r.of_scales, row / r.down));
  }
}

static void decode_nvfp4(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  static const embed__kernels none = {0}; /* the codec's own loop */
  int64_t ignored, dim;
  recipe r;
  (void)embed__tensor_extents(tensor, &ignored, &dim);
  memcpy(&r, tensor->recipe, sizeof r);
  const int64_t bytes = embed__row_bytes(EMBED_NVFP4, dim, 0);
  const unsigned char *values = embed__tensor_data(f, tensor) + first * bytes;
  const float scale = (float)scale_at(embed__tensor_data(f, &f->tensors[r.scales]), r.of_scales, 0);
  for (int64_t row = first; row < end; ++row, values += bytes, rows += 4 * dim) embed__codec_nvfp4.decode(&none, values, (float *)(void *)rows, dim, 0, scale);
}

/* --- Which scales a tensor has */

/* Of [down, across] scales; false: no such form. */
static bool fit(const embed__tensor *scales, int64_t rows, int64_t dim, recipe *r) {
  const int64_t down = scales->rank ? scales->shape[0] : 1, across = scales->rank == 2 ? scales->shape[1] : 1;
  if (scales->rank > 2 || r->of_scales < SINGLE || r->of_scales == KINDS) return false;
  if (scales->swapped != EMBED__BIG_ENDIAN_HOST && r->of_scales != POWER) return false; /* GGUF's of the other byte order */
  if (r->values == NVFP4 && (down != 1 || across != 1)) return false;
  if (down == 1)
    r->down = embed__max(rows, 1);
  else if (down == rows)
    r->down = 1;
  else if (scales->rank == 2 && down == embed__ceil_div(rows, BLOCK))
    r->down = BLOCK;
  else
    return false;
  if (across == 1)
    r->across = dim;
  else if (across == embed__ceil_div(dim, BLOCK))
    r->across = BLOCK;
  else if (dim % GROUP == 0 && across == dim / GROUP)
    r->across = GROUP;
  else
    return false;
  r->in_a_row = across;
  return true;
}

/* The tensor is no table; why: a sentence about `other`. */
static embed_status refuse(embed_context *ctx, embed_file *f, embed__tensor *tensor, const char *why, const embed__tensor *other) {
  char line[300];
  embed__text text = embed__text_in(line, sizeof line);
  embed__text_add(&text, ": ");
  embed__text_add(&text, why);
  embed__text_add(&text, " (");
  embed__text_add(&text, other->stored);
  embed__text_add(&text, " ");
  embed__text_shape(&text, other->shape, other->rank);
  embed__text_add(&text, "), tensor ");
  embed__text_add(&text, other->name);
  tensor->dtype = EMBED_DTYPE_NONE;
  tensor->decode = NULL;
  return embed__file_keep(ctx, f, line, (int64_t)strlen(line), &tensor->hint);
}

static embed_status attach(embed_context *ctx, embed_file *f, embed__tensor *tensor, int64_t scales) {
  const embed__tensor *other = &f->tensors[scales];
  recipe r;
  const char *kept;
  int64_t rows, dim, bytes;
  memset(&r, 0, sizeof r);
  r.scales = scales;
  r.values = kind_of(tensor);
  r.of_scales = kind_of(other);
  if (!embed__tensor_extents(tensor, &rows, &dim) || dim < 1) return EMBED_OK; /* no table anyway */
  if (tensor->recipe || tensor->hint) return refuse(ctx, f, tensor, "it has more scales than one", other);
  if (!fit(other, rows, dim, &r)) return refuse(ctx, f, tensor, "its scales are not one, or one for each row or block of 128 columns", other);
  if (!embed__mul(8, tensor->bytes, &bytes)) return refuse(ctx, f, tensor, "its size as floats does not fit into 64 bits; its scales", other);
  EMBED__TRY(embed__file_keep(ctx, f, &r, sizeof r, &kept));
  const bool whole_rows = r.values == INT8 && r.across == dim;
  tensor->dtype = whole_rows ? EMBED_I8_ROW : EMBED_F32;
  tensor->decode = whole_rows ? decode_int8 : r.values == NVFP4 ? decode_nvfp4 : decode_floats;
  tensor->recipe = kept;
  return EMBED_OK;
}

/* The tensor of 8 bits whose name and `suffix` are the name of `other`; NULL = none. */
static embed__tensor *owner_of(embed_file *f, const embed__tensor *other, const char *suffix) {
  const size_t bytes = strlen(other->name), end = strlen(suffix);
  if (bytes <= end || strcmp(other->name + bytes - end, suffix) != 0) return NULL;
  const int64_t i = embed__tokens_find(f->names, other->name, (int64_t)(bytes - end));
  if (i < 0 || kind_of(&f->tensors[i]) > NVFP4) return NULL;
  return f->tensors[i].decode && !f->tensors[i].recipe ? NULL : &f->tensors[i]; /* Model2Vec's is its own */
}

static embed_status note_scaled(embed_context *ctx, embed_file *f) {
  int64_t scaled = 0;
  for (int64_t i = 0; i < f->tensor_count; ++i) {
    embed__decode_rows *const decode = f->tensors[i].decode;
    scaled += decode == decode_floats || decode == decode_int8 || decode == decode_nvfp4;
  }
  if (scaled == 0) return EMBED_OK;
  return embed__file_note(ctx, f, scaled, scaled == 1 ? "tensor is multiplied by the scales beside it" : "tensors are multiplied by the scales beside them");
}

embed_status embed__find_scales(embed_context *ctx, embed_file *f) {
  for (int64_t i = 0; i < f->tensor_count; ++i) {
    embed__tensor *tensor = owner_of(f, &f->tensors[i], "_scale");
    if (!tensor) tensor = owner_of(f, &f->tensors[i], "_scale_inv");
    if (tensor) EMBED__TRY(attach(ctx, f, tensor, i));
  }
  for (int64_t i = 0; i < f->tensor_count; ++i) {
    embed__tensor *tensor = owner_of(f, &f->tensors[i], "_zero_point");
    if (tensor) EMBED__TRY(refuse(ctx, f, tensor, "zero points are not read", &f->tensors[i]));
  }
  return note_scaled(ctx, f);
}

embed_status embed__find_nvfp4_scales(embed_context *ctx, embed_file *f) {
  static const char suffix[] = ".scale", instead[] = ".weight";
  char name[128]; /* GGUF's have 64 at most */
  for (int64_t i = 0; i < f->tensor_count; ++i) {
    const size_t bytes = strlen(f->tensors[i].name), base = bytes - (sizeof suffix - 1);
    if (bytes < sizeof suffix || bytes + sizeof instead > sizeof name || strcmp(f->tensors[i].name + base, suffix) != 0) continue;
    memcpy(name, f->tensors[i].name, base);
    memcpy(name + base, instead, sizeof instead);
    const int64_t owner = embed__tokens_find(f->names, name, (int64_t)strlen(name));
    if (owner >= 0 && f->tensors[owner].dtype == EMBED_NVFP4) EMBED__TRY(attach(ctx, f, &f->tensors[owner], i));
  }
  return note_scaled(ctx, f);
}
