/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/decoded.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/half.h"
#include "core/pages.h"
#include "io/scales.h"
#include "io/text.h"
#include "thread/run.h"

typedef struct decoding {
  const embed_file *f;
  const embed__tensor *tensor;
  embed_table *table;
} decoding;

static int64_t first_row(const embed_table *t, int64_t task) { return embed__min(t->rows, embed__ceil_div(task * EMBED__HUGE_PAGE, t->packed_bytes)); }

static void decode_rows(void *arg, int64_t task, int32_t worker) {
  const decoding *d = arg;
  const int64_t first = first_row(d->table, task), end = first_row(d->table, task + 1);
  (void)worker;
  if (first < end) d->tensor->decode(d->f, d->tensor, first, end, d->table->data + first * d->table->packed_bytes);
}

embed_status embed__decoded_table(embed_context *ctx, const embed_file *f, const embed__tensor *tensor, int64_t rows, int64_t dim, embed_table_options *o,
                                  embed_table **out) {
  int64_t bytes;
  const int64_t packed = embed__row_bytes(o->dtype, dim, o->group);
  if (packed < 0 || !embed__mul(rows, packed, &bytes)) return embed__out_of_memory(ctx, -1);
  o->flags = embed__copy_flags(bytes);
  EMBED__TRY(embed__table_new(ctx, rows, dim, o, out));
  decoding d = {.f = f, .tensor = tensor, .table = *out};
  const int64_t tasks = embed__ceil_div(bytes, EMBED__HUGE_PAGE);
  embed_status status = embed__run_long(ctx, tasks, decode_rows, &d, 0, tasks);
  if (status == EMBED_OK) return EMBED_OK;
  embed__table_release(*out);
  *out = NULL;
  return status;
}

/* --- Tensors whose numbers stand in several */

int64_t embed__beside(const embed_file *f, const embed__tensor *tensor, size_t stem, const char *ending) {
  char name[EMBED__BESIDE];
  const size_t bytes = strlen(ending);
  if (stem + bytes >= EMBED__BESIDE) return -1;
  memcpy(name, tensor->name, stem);
  memcpy(name + stem, ending, bytes);
  return embed__tokens_find(f->names, name, (int64_t)(stem + bytes));
}

size_t embed__stem(const embed__tensor *tensor, const char *ending) {
  const size_t bytes = strlen(tensor->name), end = strlen(ending);
  return bytes > end && !memcmp(tensor->name + bytes - end, ending, end) ? bytes - end : 0;
}

embed_status embed__no_table(embed_context *ctx, embed_file *f, embed__tensor *tensor, const char *why, const embed__tensor *other) {
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

embed_status embed__decode_as(embed_context *ctx, embed_file *f, embed__tensor *tensor, const embed__decoding *d) {
  const char *kept;
  int64_t bytes;
  if (!embed__mul(4, d->dim, &bytes) || !embed__mul(bytes, d->rows, &bytes))
    return embed__no_table(ctx, f, tensor, "its size as floats does not fit into 64 bits", tensor);
  EMBED__TRY(embed__file_keep(ctx, f, d->recipe, d->recipe_bytes, &kept));
  tensor->rank = 2;
  tensor->shape[0] = d->rows;
  tensor->shape[1] = d->dim;
  tensor->dtype = d->dtype;
  tensor->decode = d->decode;
  tensor->recipe = kept;
  tensor->recipe_bytes = d->recipe_bytes;
  tensor->parts = d->parts;
  if (d->stored) tensor->stored = d->stored;
  return EMBED_OK;
}

/* --- Product-quantised rows */

static void put_float(unsigned char *to, float value) { memcpy(to, &value, sizeof value); }

static void copy_floats(unsigned char *to, const unsigned char *from, int64_t count, float scale) {
  for (int64_t i = 0; i < count; ++i) put_float(to + 4 * i, scale * embed__le_f32(from + 4 * i));
}

/* Codes were proved, but a mapped file can change after that: none leads out of the centroids. */
static const unsigned char *centroid(const embed__pq *pq, const unsigned char *data, int64_t part, const unsigned char *codes, int64_t *width) {
  *width = part == pq->parts - 1 ? pq->last : pq->width;
  return data + pq->values + 4 * (part * pq->centroids * pq->width + embed__min(codes[part], pq->centroids - 1) * *width);
}

static float norm_of(const embed__pq *pq, const unsigned char *data, int64_t row) {
  if (pq->norms < 0) return 1.0f;
  return pq->norm_values < 0 ? embed__le_f32(data + pq->norms + 4 * row) : embed__le_f32(data + pq->norm_values + 4 * data[pq->norms + row]);
}

/* Column i of a row times the projection, in double. */
static float projected(const embed__pq *pq, const unsigned char *data, const unsigned char *codes, int64_t i) {
  const unsigned char *factor = data + pq->projection + 4 * i * pq->dim;
  double sum = 0;
  for (int64_t part = 0; part < pq->parts; ++part) {
    int64_t width;
    const unsigned char *values = centroid(pq, data, part, codes, &width);
    for (int64_t j = 0; j < width; ++j, factor += 4) sum += (double)embed__le_f32(values + 4 * j) * (double)embed__le_f32(factor);
  }
  return (float)sum;
}

static void decode_pq(const embed_file *f, const embed__tensor *tensor, int64_t first, int64_t end, unsigned char *rows) {
  const unsigned char *data = f->map.data;
  embed__pq pq;
  memcpy(&pq, tensor->recipe, sizeof pq);
  for (int64_t row = first; row < end; ++row, rows += 4 * pq.dim) {
    const unsigned char *codes = data + pq.codes + row * pq.parts;
    const float norm = norm_of(&pq, data, row);
    if (pq.projection >= 0) {
      for (int64_t i = 0; i < pq.dim; ++i) put_float(rows + 4 * i, norm * projected(&pq, data, codes, i));
      continue;
    }
    for (int64_t part = 0; part < pq.parts; ++part) {
      int64_t width;
      const unsigned char *values = centroid(&pq, data, part, codes, &width);
      copy_floats(rows + 4 * part * pq.width, values, width, norm);
    }
  }
}

embed_status embed__pq_tensor(embed_context *ctx, embed_file *f, const char *name, const embed__pq *pq, embed__tensor *tensor) {
  int64_t bytes;
  if (!embed__mul(4, pq->dim, &bytes) || !embed__mul(bytes, pq->rows, &bytes))
    return embed__fail(ctx, EMBED_E_OVERFLOW, pq->codes, "%s: %" PRId64 " rows of %" PRId64 " columns: their size does not fit into 64 bits", f->label,
                       pq->rows, pq->dim);
  *tensor = (embed__tensor){
      .name = name, .stored = "pq", .shape = {pq->rows, pq->dim}, .rank = 2, .offset = -1, .bytes = bytes, .dtype = EMBED_F32, .decode = decode_pq};
  if (pq->projection < 0) {
    tensor->dtype = EMBED_PQ;
    tensor->group = (int32_t)pq->width;
    tensor->offset = pq->codes;
    tensor->bytes = pq->rows * pq->parts; /* fits: they lie in the file */
  }
  const char *kept;
  EMBED__TRY(embed__file_keep(ctx, f, pq, sizeof *pq, &kept));
  tensor->recipe = kept;
  return EMBED_OK;
}

const unsigned char *embed__pq_codes(const embed_file *f, const embed__tensor *tensor, embed__pq_source *from) {
  const unsigned char *data = f->map.data;
  embed__pq pq;
  memcpy(&pq, tensor->recipe, sizeof pq);
  const unsigned char *norms = pq.norms < 0 ? NULL : data + pq.norms;
  *from = (embed__pq_source){.width = pq.width, .centroids = pq.centroids, .values = data + pq.values, .little_endian = true};
  if (pq.norm_values < 0) {
    from->norms = norms;
  } else {
    from->norm_codes = norms;
    from->norm_values = data + pq.norm_values;
  }
  return data + pq.codes;
}
