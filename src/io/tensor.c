/* SPDX-License-Identifier: BSD-3-Clause */
/* The tensors of a file, and tables made of them: in place where they lie as tables do, converted where they do not. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/options.h"
#include "io/file.h"
#include "io/text.h"
#include "thread/run.h"

bool embed__tensor_extents(const embed__tensor *tensor, int64_t *rows, int64_t *dim) {
  *rows = tensor->rank == 2 ? tensor->shape[0] : 1;
  *dim = tensor->rank == 2 ? tensor->shape[1] : tensor->shape[0];
  return tensor->rank == 1 || tensor->rank == 2;
}

/* Elements moved to where a table has them: byte order and order of extents. */
typedef struct reorder_job {
  const unsigned char *from; /* element (row, column) is number row * row_step + column * column_step */
  unsigned char *to;         /* [rows, dim] */
  int64_t rows, dim, row_step, column_step, grain;
  int64_t width; /* of an element, bytes */
  bool swap;
} reorder_job;

static inline void move_element(unsigned char *to, const unsigned char *from, int64_t width, bool swap) {
  uint16_t h;
  uint32_t w;
  uint64_t d;
  switch (width) {
    case 2:
      memcpy(&h, from, 2);
      if (swap) h = __builtin_bswap16(h);
      memcpy(to, &h, 2);
      break;
    case 4:
      memcpy(&w, from, 4);
      if (swap) w = __builtin_bswap32(w);
      memcpy(to, &w, 4);
      break;
    default:
      memcpy(&d, from, 8);
      if (swap) d = __builtin_bswap64(d);
      memcpy(to, &d, 8);
  }
}

/* In squares, so that both sides' lines stay in the first cache while they are used. */
static void reorder_rows(void *arg, int64_t task, int32_t worker) {
  enum { SQUARE = 32 };
  const reorder_job *job = arg;
  (void)worker;
  int64_t end = embed__min(job->rows, (task + 1) * job->grain);
  for (int64_t top = task * job->grain; top < end; top += SQUARE)
    for (int64_t left = 0; left < job->dim; left += SQUARE) {
      int64_t bottom = embed__min(end, top + SQUARE), right = embed__min(job->dim, left + SQUARE);
      for (int64_t r = top; r < bottom; ++r)
        for (int64_t c = left; c < right; ++c)
          move_element(job->to + (r * job->dim + c) * job->width, job->from + (r * job->row_step + c * job->column_step) * job->width, job->width, job->swap);
    }
}

static embed_status reordered(embed_context *ctx, const embed_file *f, const embed__tensor *tensor, int64_t rows, int64_t dim, embed_table_options *o,
                              embed_table **out) {
  enum { TASK_BYTES = 1 << 20 };
  o->flags = embed__copy_flags(tensor->bytes);
  EMBED__TRY(embed__table_new(ctx, rows, dim, o, out));
  reorder_job job = {.from = embed__tensor_data(f, tensor), .to = (*out)->data, .rows = rows, .dim = dim, .swap = tensor->swapped};
  job.width = (*out)->packed_bytes / dim;
  job.row_step = tensor->column_major ? 1 : dim;
  job.column_step = tensor->column_major ? rows : 1;
  job.grain = embed__max(1, TASK_BYTES / (*out)->packed_bytes);
  int64_t tasks = embed__ceil_div(rows, job.grain);
  embed_status status = embed__run_long(ctx, tasks, reorder_rows, &job, 0, tasks);
  if (status == EMBED_OK) return EMBED_OK;
  embed__table_release(*out);
  *out = NULL;
  return status;
}

static void release_file(void *f) { embed__file_release(f); }

static embed_status in_place(embed_context *ctx, const embed_file *f, const embed__tensor *tensor, int64_t rows, int64_t dim, embed_table_options *o,
                             embed_table **out) {
  o->data_bytes = tensor->bytes;
  embed_status status = embed__table_view(ctx, embed__tensor_data(f, tensor), rows, dim, o, release_file, embed__file_retain(f), out);
  if (status != EMBED_OK) embed__file_release(f);
  return status;
}

embed_status embed__file_table(embed_context *ctx, const embed_file *f, int64_t i, embed_table **out) {
  enum { SHAPE = 200 };
  char shape[SHAPE];
  int64_t rows, dim;
  *out = NULL;
  if (i == -1 && f->roles[EMBED_ROLE_TOKEN] < 0)
    return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: there is no token table: none of its %" PRId64 " tensors is one", f->label, f->tensor_count);
  if (i == -1) i = f->roles[EMBED_ROLE_TOKEN];
  if (i < 0 || i >= f->tensor_count)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: tensor %" PRId64 " is asked for, there are %" PRId64, f->label, i, f->tensor_count);
  const embed__tensor *tensor = &f->tensors[i];
  if (tensor->table) {
    *out = embed__table_retain(tensor->table);
    return EMBED_OK;
  }
  embed__text text = embed__text_in(shape, sizeof shape);
  embed__text_shape(&text, tensor->shape, tensor->rank);
  if (!embed__tensor_extents(tensor, &rows, &dim) || dim < 1)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1, "%s: tensor \"%.100s\" has shape %s, a table has 2 extents, the second at least 1", f->label, tensor->name,
                       shape);
  if (tensor->dtype == EMBED_DTYPE_NONE)
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%s: tensor \"%.100s\" is stored as %.40s, for which there is no table type%s", f->label, tensor->name,
                       tensor->stored, tensor->hint ? tensor->hint : "");
  embed_table_options o = {.size = sizeof o, .dtype = tensor->dtype, .vocab = tensor->vocab, .row_bytes = tensor->row_bytes, .group = tensor->group};
  if (tensor->swapped || tensor->column_major) return reordered(ctx, f, tensor, rows, dim, &o, out);
  return in_place(ctx, f, tensor, rows, dim, &o, out);
}

embed_status embed_file_table(embed_context *ctx, const embed_file *f, int64_t i, embed_table **out) {
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  EMBED__NOT_NULL(ctx, out);
  return embed__end(ctx, embed__file_table(ctx, f, i, out));
}

int64_t embed_file_count(const embed_file *f) { return f ? f->tensor_count : EMBED_E_ARGUMENT; }

embed_status embed_file_tensor(embed_context *ctx, const embed_file *f, int64_t i, embed_tensor_info *out) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  EMBED__NOT_NULL(ctx, out);
  if (i < 0 || i >= f->tensor_count)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%s: tensor %" PRId64 " is asked for, there are %" PRId64, f->label, i, f->tensor_count);
  const embed__tensor *tensor = &f->tensors[i];
  embed_tensor_info info;
  memset(&info, 0, sizeof info);
  info.name = tensor->name;
  info.stored = tensor->stored;
  memcpy(info.shape, tensor->shape, sizeof info.shape);
  info.offset = tensor->offset;
  info.bytes = tensor->bytes;
  info.rank = tensor->rank;
  info.dtype = tensor->dtype;
  info.role = EMBED_ROLE_NONE;
  info.shard = tensor->shard;
  for (embed_role role = EMBED__ROLES - 1; role >= 0; --role) /* the first of several: a tied head's is TOKEN */
    if (f->roles[role] == i) info.role = role;
  return embed__output(ctx, "out", out, &info, sizeof info);
}

embed_status embed_file_find(embed_context *ctx, const embed_file *f, const char *name, int64_t *i) {
  enum { NAMES = 200 };
  char names[NAMES];
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, f);
  EMBED__NOT_NULL(ctx, name);
  EMBED__NOT_NULL(ctx, i);
  embed__text list = embed__text_in(names, sizeof names);
  int64_t indexed = f->names ? embed__tokens_find(f->names, name, (int64_t)strlen(name)) : -1;
  for (int64_t k = embed__max(indexed, 0); k < f->tensor_count; ++k) {
    if (f->names ? k == indexed : !strcmp(f->tensors[k].name, name)) {
      *i = k;
      return EMBED_OK;
    }
    if (k) embed__text_add(&list, ", ");
    embed__text_add(&list, f->tensors[k].name);
  }
  return embed__fail(ctx, EMBED_E_NOT_FOUND, -1, "%s: no tensor is named \"%.80s\"; there are %" PRId64 ": %s", f->label, name, f->tensor_count, names);
}
