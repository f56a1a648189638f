/* SPDX-License-Identifier: BSD-3-Clause */
/* Model2Vec's safetensors (MinishLab/model2vec, model.py, quantization.py). "embeddings" is a plain table as long as it is of floats and
 * alone. It may be of int8, which Model2Vec uses as the integers that they are: a table of int8 rows with scale 1. It may have
 * fewer rows than there are tokens: "mapping" then has the row of each token, and "weights", where they are stored, a factor for
 * each. Such a file has the further tensor "token_embeddings", whose row t is embeddings[mapping[t]] * weights[t] as a float. */
#include "io/model2vec.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/half.h"
#include "io/cursor.h"
#include "io/decoded.h"

static const char NAME[] = "token_embeddings";

static const embed__tensor *find(const embed__safetensors *s, const char *name) {
  for (int64_t i = 0; i < s->count; ++i)
    if (!strcmp(s->tensors[i].name, name)) return &s->tensors[i];
  return NULL;
}

static bool is_type(const embed__tensor *tensor, const char *name) { return !strcmp(tensor->stored, name); }

static int64_t width_of(const embed__tensor *tensor) {
  const char *digits = tensor->stored + (tensor->stored[0] == 'B' ? 2 : 1);
  return digits[0] == '8' ? 1 : digits[0] == '1' ? 2 : digits[0] == '3' ? 4 : 8;
}

static bool is_number(const embed__tensor *tensor) { return embed__is_float(tensor->dtype) || tensor->dtype == EMBED_F64; }

/* Element i of a tensor of floats or signed integers, which begins at p. */
static double number_at(const unsigned char *p, int64_t width, char kind, int64_t i) {
  double d;
  p += i * width;
  switch (width) {
    case 1: return (int8_t)p[0];
    case 2: return (double)(kind == 'B' ? embed__f32_of_bf16(embed__le16(p)) : embed__f32_of_f16(embed__le16(p)));
    case 4: return (double)embed__le_f32(p);
    default: memcpy(&d, &(uint64_t){embed__le64(p)}, 8); return d;
  }
}

/* --- int8 */

static void decode_int8(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  static const unsigned char one[4] = {0, 0, 0x80, 0x3F}; /* 1.0f */
  const int64_t dim = tensor->shape[1];
  for (int64_t row = first; row < end; ++row, rows += dim + 4) {
    memcpy(rows, f->map.data + tensor->offset + row * dim, (size_t)dim);
    memcpy(rows + dim, one, sizeof one);
  }
}

/* --- Fewer rows than tokens */

typedef struct recipe {
  int64_t rows, dim;                    /* of embeddings */
  int64_t embeddings, mapping, weights; /* bytes of the file; -1 = there is none */
  int64_t width, mapping_width, weight_width;
  char kind, weight_kind; /* the first letters of the types */
} recipe;

static int64_t row_of(const unsigned char *data, const recipe *r, int64_t token) {
  if (r->mapping < 0) return token;
  const unsigned char *p = data + r->mapping + token * r->mapping_width;
  return r->mapping_width == 4 ? (int32_t)embed__le32(p) : (int64_t)embed__le64(p);
}

static void scale_bytes(const recipe *r, const unsigned char *from, double weight, unsigned char *row) {
  for (int64_t j = 0; j < r->dim; ++j) {
    const float value = (float)((double)(int8_t)from[j] * weight);
    memcpy(row + 4 * j, &value, sizeof value);
  }
}

static void scale_numbers(const recipe *r, const unsigned char *from, double weight, unsigned char *row) {
  for (int64_t j = 0; j < r->dim; ++j) {
    const float value = (float)(number_at(from, r->width, r->kind, j) * weight);
    memcpy(row + 4 * j, &value, sizeof value);
  }
}

static void decode_mapped(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  const unsigned char *data = f->map.data;
  recipe r;
  memcpy(&r, tensor->recipe, sizeof r);
  for (int64_t token = first; token < end; ++token) {
    const double weight = r.weights < 0 ? 1 : number_at(data + r.weights, r.weight_width, r.weight_kind, token);
    /* Proved, but a mapped file can change after that. */
    const int64_t row = embed__max(0, embed__min(row_of(data, &r, token), r.rows - 1));
    const unsigned char *from = data + r.embeddings + row * r.dim * r.width;
    if (r.width == 1)
      scale_bytes(&r, from, weight, rows);
    else
      scale_numbers(&r, from, weight, rows);
    rows += 4 * r.dim;
  }
}

static embed_status prove_mapping(embed_context *ctx, const embed_file *f, const recipe *r, int64_t tokens, int64_t rows) {
  for (int64_t token = 0; token < tokens; ++token) {
    const int64_t row = row_of(f->map.data, r, token), at = r->mapping + token * r->mapping_width;
    if (row < 0 || row >= rows)
      return embed__fail(ctx, EMBED_E_FORMAT, at, "%s: mapping has row %" PRId64 " for token %" PRId64 " (byte %" PRId64 "), there are %" PRId64, f->label, row,
                         token, at, rows);
  }
  return EMBED_OK;
}

static embed_status add_mapped(embed_context *ctx, embed_file *f, embed__safetensors *s, const recipe *r, int64_t tokens) {
  const char *kept;
  int64_t bytes;
  if (!embed__mul(4, r->dim, &bytes) || !embed__mul(bytes, tokens, &bytes))
    return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%s: %" PRId64 " tokens of %" PRId64 " columns: their size does not fit into 64 bits", f->label, tokens,
                       r->dim);
  EMBED__TRY(embed__file_keep(ctx, f, r, sizeof *r, &kept));
  s->tensors[s->count] = (embed__tensor){.name = NAME,
                                         .stored = r->mapping < 0 ? "weighted" : "mapped",
                                         .shape = {tokens, r->dim},
                                         .rank = 2,
                                         .offset = -1,
                                         .bytes = bytes,
                                         .dtype = EMBED_F32,
                                         .decode = decode_mapped,
                                         .recipe = kept};
  s->name_bytes += (int64_t)sizeof NAME - 1;
  f->roles_given = true;
  f->roles[EMBED_ROLE_TOKEN] = s->count++;
  return embed__file_note_line(ctx, f,
                               r->weights < 0   ? "Model2Vec: row t of token_embeddings is embeddings[mapping[t]]"
                               : r->mapping < 0 ? "Model2Vec: row t of token_embeddings is embeddings[t] * weights[t]"
                                                : "Model2Vec: row t of token_embeddings is embeddings[mapping[t]] * weights[t]");
}

embed_status embed__model2vec_extend(embed_context *ctx, embed_file *f, embed__safetensors *s) {
  enum { MOST = 3 }; /* tensors of such a file */
  if (s->count > MOST) return EMBED_OK;
  embed__tensor *table = (embed__tensor *)(uintptr_t)find(s, "embeddings");
  const embed__tensor *mapping = find(s, "mapping"), *weights = find(s, "weights");
  const bool is_int8 = table && is_type(table, "I8");
  if (!table || table->rank != 2 || table->shape[1] < 1 || s->count != 1 + (mapping != NULL) + (weights != NULL)) return EMBED_OK;
  if (!is_int8 && !is_number(table)) return EMBED_OK;
  if (is_int8) {
    table->dtype = EMBED_I8_ROW;
    table->decode = decode_int8;
  }
  if (!mapping && !weights) return EMBED_OK;
  const int64_t tokens = mapping ? mapping->shape[0] : table->shape[0];
  if (mapping && (mapping->rank != 1 || (!is_type(mapping, "I32") && !is_type(mapping, "I64")))) return EMBED_OK;
  if (weights && (weights->rank != 1 || !is_number(weights) || weights->shape[0] != tokens)) return EMBED_OK;
  recipe r;
  memset(&r, 0, sizeof r);
  r.rows = table->shape[0];
  r.dim = table->shape[1];
  r.embeddings = table->offset;
  r.width = width_of(table);
  r.kind = table->stored[0];
  r.mapping = mapping ? mapping->offset : -1;
  r.mapping_width = mapping ? width_of(mapping) : 0;
  r.weights = weights ? weights->offset : -1;
  r.weight_width = weights ? width_of(weights) : 0;
  r.weight_kind = weights ? weights->stored[0] : 'F';
  if (mapping) EMBED__TRY(prove_mapping(ctx, f, &r, tokens, table->shape[0]));
  return add_mapped(ctx, f, s, &r, tokens);
}
