/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors of 8 bits whose scales stand in a tensor beside them: "NAME_scale" or "NAME_scale_inv" of NAME (compressed-tensors, DeepSeek;
 * a value is multiplied by either). The scales are one, or one for each row, or one for each 128 columns (or 64, or 32) of the tensor, of a
 * row or of 128 rows; "NAME_zero_point" has a zero point of int8 for each of int8's scales: (value - zero) * scale. bitsandbytes has
 * "X.SCB" beside "X.weight" of int8: value * SCB / 127; "X.weight_format" is a byte, 0 = it lies row by row. GGUF's NVFP4 has "X.scale",
 * one number, beside "X.weight". Such a tensor without its scales would be other numbers: one whose scales are not understood is no table. */
#include <string.h>

#include "codec/codec.h"
#include "core/checked.h"
#include "io/decoded.h"
#include "io/scales.h"

enum { BLOCK = 128, HALF_BLOCK = 64, GROUP = 32 };

static const char *const names[EMBED__KINDS] = {"F8_E4M3", "F8_E5M2", "I8", "NVFP4", "F32", "F16", "BF16", "F64", "F8_E8M0"};

embed__kind embed__kind_of(const embed__tensor *tensor) {
  int k = 0;
  while (k < EMBED__KINDS && strcmp(tensor->stored, names[k]) != 0) ++k;
  return (embed__kind)k;
}

typedef struct recipe {
  int64_t scales, zeros; /* which tensors; zeros: of int8, as many as scales, -1 = none */
  int64_t down, across;  /* rows and columns that have one scale together */
  int64_t in_a_row;      /* scales of a row */
  int32_t values, of_scales;
  double divisor; /* of the scales */
} recipe;
enum { PARTS = 2 };

static float value_at(const unsigned char *p, int32_t k, int64_t i) {
  return k == EMBED__E4M3 ? embed__f32_of_e4m3(p[i]) : k == EMBED__E5M2 ? embed__f32_of_e5m2(p[i]) : (float)(int8_t)p[i];
}

static double scale_of(const unsigned char *scales, const recipe *r, int64_t i) { return embed__scale_at(scales, (embed__kind)r->of_scales, i) / r->divisor; }

/* The product is rounded once: a value, and its distance from a zero point, has 9 bits at most. */
static void decode_floats(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  int64_t ignored, dim;
  recipe r;
  (void)embed__tensor_extents(tensor, &ignored, &dim);
  memcpy(&r, tensor->recipe, sizeof r);
  const unsigned char *values = embed__tensor_data(f, tensor) + first * dim, *scales = embed__tensor_data(f, &f->tensors[r.scales]);
  const unsigned char *zeros = r.zeros < 0 ? NULL : embed__tensor_data(f, &f->tensors[r.zeros]);
  for (int64_t row = first; row < end; ++row, values += dim)
    for (int64_t at = 0; at < dim; at += r.across) {
      const int64_t group = row / r.down * r.in_a_row + at / r.across;
      const double scale = scale_of(scales, &r, group), zero = zeros ? (int8_t)zeros[group] : 0;
      for (int64_t j = at; j < embed__min(dim, at + r.across); ++j, rows += 4) {
        const float value = (float)(((double)value_at(values, r.values, j) - zero) * scale);
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
    embed__put_le_f32(rows + dim, (float)scale_of(scales, &r, row / r.down));
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
  const float scale = (float)scale_of(embed__tensor_data(f, &f->tensors[r.scales]), &r, 0);
  for (int64_t row = first; row < end; ++row, values += bytes, rows += 4 * dim) embed__codec_nvfp4.decode(&none, values, (float *)(void *)rows, dim, 0, scale);
}

/* --- Which scales a tensor has */

/* Of [down, across] scales; false: no such form. */
static bool fit(const embed__tensor *scales, int64_t rows, int64_t dim, recipe *r) {
  const int64_t down = scales->rank ? scales->shape[0] : 1, across = scales->rank == 2 ? scales->shape[1] : 1;
  if (scales->rank > 2 || r->of_scales < EMBED__SINGLE || r->of_scales == EMBED__KINDS) return false;
  if (scales->swapped != EMBED__BIG_ENDIAN_HOST && r->of_scales != EMBED__POWER) return false; /* GGUF's of the other byte order */
  if (r->values == EMBED__NVFP4 && (down != 1 || across != 1)) return false;
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
  else if (dim % HALF_BLOCK == 0 && across == dim / HALF_BLOCK)
    r->across = HALF_BLOCK;
  else if (dim % GROUP == 0 && across == dim / GROUP)
    r->across = GROUP;
  else
    return false;
  r->in_a_row = across;
  return true;
}

static embed_status adopt(embed_context *ctx, embed_file *f, embed__tensor *tensor, const recipe *r) {
  const bool whole_rows = r->values == EMBED__INT8 && r->zeros < 0 && r->in_a_row == 1;
  int64_t bytes;
  const char *kept;
  if (!embed__mul(8, tensor->bytes, &bytes)) return embed__no_table(ctx, f, tensor, "its size as floats does not fit into 64 bits", tensor);
  EMBED__TRY(embed__file_keep(ctx, f, r, sizeof *r, &kept));
  tensor->dtype = whole_rows ? EMBED_I8_ROW : EMBED_F32;
  tensor->decode = whole_rows ? decode_int8 : r->values == EMBED__NVFP4 ? decode_nvfp4 : decode_floats;
  tensor->recipe = kept;
  tensor->recipe_bytes = sizeof *r;
  tensor->parts = PARTS;
  return EMBED_OK;
}

static embed_status attach(embed_context *ctx, embed_file *f, embed__tensor *tensor, int64_t scales, double divisor) {
  const embed__tensor *other = &f->tensors[scales];
  recipe r;
  int64_t rows, dim;
  memset(&r, 0, sizeof r);
  r.scales = scales;
  r.zeros = -1;
  r.values = (int32_t)embed__kind_of(tensor);
  r.of_scales = (int32_t)embed__kind_of(other);
  r.divisor = divisor;
  if (!embed__tensor_extents(tensor, &rows, &dim) || dim < 1) return EMBED_OK; /* no table anyway */
  if (tensor->recipe || tensor->hint) return embed__no_table(ctx, f, tensor, "it has more scales than one", other);
  if (!fit(other, rows, dim, &r)) return embed__no_table(ctx, f, tensor, "its scales are not one, or one for each row or block of 128 columns", other);
  return adopt(ctx, f, tensor, &r);
}

/* Zero points, of int8 alone: one for each scale. */
static embed_status attach_zeros(embed_context *ctx, embed_file *f, embed__tensor *tensor, int64_t zeros) {
  const embed__tensor *other = &f->tensors[zeros];
  recipe r;
  if (tensor->hint) return EMBED_OK; /* it is refused already */
  if (!tensor->recipe) return embed__no_table(ctx, f, tensor, "it has zero points and no scales", other);
  memcpy(&r, tensor->recipe, sizeof r);
  const embed__tensor *scales = &f->tensors[r.scales];
  const bool alike = other->rank == scales->rank && !memcmp(other->shape, scales->shape, (size_t)other->rank * sizeof *other->shape);
  if (r.values != EMBED__INT8 || embed__kind_of(other) != EMBED__INT8 || !alike)
    return embed__no_table(ctx, f, tensor, "its zero points are not of int8, one for each scale", other);
  r.zeros = zeros;
  return adopt(ctx, f, tensor, &r);
}

/* The tensor of 8 bits whose name and `suffix` are the name of `other`; NULL = none. */
static embed__tensor *owner_of(embed_file *f, const embed__tensor *other, const char *suffix) {
  const size_t bytes = strlen(other->name), end = strlen(suffix);
  if (bytes <= end || strcmp(other->name + bytes - end, suffix) != 0) return NULL;
  const int64_t i = embed__tokens_find(f->names, other->name, (int64_t)(bytes - end));
  if (i < 0 || embed__kind_of(&f->tensors[i]) > EMBED__NVFP4) return NULL;
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

/* bitsandbytes once saved int8 in the order of a GPU's tiles, if it had been multiplied there; later versions refuse that. */
static embed_status attach_scb(embed_context *ctx, embed_file *f, int64_t scales, size_t stem) {
  const int64_t owner = embed__beside(f, &f->tensors[scales], stem, ".weight"), format = embed__beside(f, &f->tensors[scales], stem, ".weight_format");
  if (owner < 0 || embed__kind_of(&f->tensors[owner]) != EMBED__INT8) return EMBED_OK;
  const embed__tensor *order = format < 0 ? NULL : &f->tensors[format];
  if (order && (strcmp(order->stored, "U8") != 0 || order->bytes != 1 || *embed__tensor_data(f, order) != 0))
    return embed__no_table(ctx, f, &f->tensors[owner], "its weight_format says that it does not lie row by row", order);
  return attach(ctx, f, &f->tensors[owner], scales, 127);
}

embed_status embed__find_scales(embed_context *ctx, embed_file *f) {
  for (int64_t i = 0; i < f->tensor_count; ++i) {
    embed__tensor *tensor = owner_of(f, &f->tensors[i], "_scale");
    if (!tensor) tensor = owner_of(f, &f->tensors[i], "_scale_inv");
    if (tensor) EMBED__TRY(attach(ctx, f, tensor, i, 1));
    const size_t stem = embed__stem(&f->tensors[i], ".SCB");
    if (stem) EMBED__TRY(attach_scb(ctx, f, i, stem));
  }
  for (int64_t i = 0; i < f->tensor_count; ++i) {
    embed__tensor *tensor = owner_of(f, &f->tensors[i], "_zero_point");
    if (tensor) EMBED__TRY(attach_zeros(ctx, f, tensor, i));
  }
  EMBED__TRY(note_scaled(ctx, f));
  EMBED__TRY(embed__find_packed(ctx, f));
  return embed__find_bitsandbytes(ctx, f);
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
    if (owner >= 0 && f->tensors[owner].dtype == EMBED_NVFP4) EMBED__TRY(attach(ctx, f, &f->tensors[owner], i, 1));
  }
  return note_scaled(ctx, f);
}
