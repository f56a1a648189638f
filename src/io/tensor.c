/* SPDX-License-Identifier: BSD-3-Clause */
/* The tensors of a file, and tables made of them: in place where they lie as tables do, converted where they do not. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/options.h"
#include "core/pages.h"
#include "io/byte_order.h"
#include "io/decoded.h"
#include "io/text.h"
#include "thread/run.h"

bool embed__tensor_extents(const embed__tensor *tensor, int64_t *rows, int64_t *dim) {
  *rows = tensor->rank == 2 ? tensor->shape[0] : 1;
  *dim = tensor->rank == 2 ? tensor->shape[1] : tensor->shape[0];
  return tensor->rank == 1 || tensor->rank == 2;
}

/* Elements moved to where a table has them: byte order and order of extents. */
typedef struct reorder_job {
  const unsigned char *from; /* [rows, dim], or [dim, rows] where it is column-major */
  unsigned char *to;         /* [rows, dim] */
  int64_t rows, dim;
  int64_t width; /* of an element, bytes */
  bool swap, column_major;
} reorder_job;

#define INLINE static inline __attribute__((always_inline)) /* with a constant width and swap the loops become vectors */

INLINE void move_element(unsigned char *to, const unsigned char *from, int64_t width, bool swap) {
  uint16_t h;
  uint32_t w;
  uint64_t d;
  switch (width) {
    case 1: *to = *from; break;
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

/* Rows first .. end of a column-major array. A tile is as wide as a cache line: a column of it is read in one run, its rows leave the
 * first cache as whole lines. Written straight to the table they would meet in a few sets of that cache. */
INLINE void transpose(const reorder_job *job, int64_t first, int64_t end, int64_t width, bool swap) {
  enum { LINE = 64, TALL = 256 };
  unsigned char tile[TALL * LINE];
  const int64_t wide = LINE / width;
  for (int64_t top = first; top < end; top += TALL) {
    const int64_t rows = embed__min(TALL, end - top);
    for (int64_t left = 0; left < job->dim; left += wide) {
      const int64_t columns = embed__min(wide, job->dim - left);
      for (int64_t c = 0; c < columns; ++c) {
        const unsigned char *column = job->from + ((left + c) * job->rows + top) * width;
        const int64_t next = (left + c + wide) * job->rows * width + top * width; /* far away: nothing else would fetch it */
        if (left + c + wide < job->dim)
          for (int64_t line = 0; line < rows * width; line += LINE) __builtin_prefetch(job->from + next + line);
        for (int64_t r = 0; r < rows; ++r) move_element(tile + r * LINE + c * width, column + r * width, width, swap);
      }
      unsigned char *to = job->to + (top * job->dim + left) * width;
      if (columns == wide)
        for (int64_t r = 0; r < rows; ++r) memcpy(to + r * job->dim * width, tile + r * LINE, LINE);
      else
        for (int64_t r = 0; r < rows; ++r) memcpy(to + r * job->dim * width, tile + r * LINE, (size_t)(columns * width));
    }
  }
}

INLINE void move(const reorder_job *job, int64_t first, int64_t end, int64_t width, bool swap) {
  if (job->column_major) {
    transpose(job, first, end, width, swap);
    return;
  }
  const unsigned char *restrict from = job->from + first * job->dim * width;
  unsigned char *restrict to = job->to + first * job->dim * width;
  const int64_t count = (end - first) * job->dim;
  for (int64_t i = 0; i < count; ++i) move_element(to + i * width, from + i * width, width, swap);
}

/* A task begins with a huge page of the table: two threads that meet in a page that is not there yet both clear one for it. */
static int64_t first_row(const reorder_job *job, int64_t task) {
  return embed__min(job->rows, embed__ceil_div(task * EMBED__HUGE_PAGE, job->dim * job->width));
}

static void reorder_rows(void *arg, int64_t task, int32_t worker) {
  const reorder_job *job = arg;
  const int64_t first = first_row(job, task), end = first_row(job, task + 1);
  (void)worker;
  switch (job->swap ? -job->width : job->width) {
    case 1:
    case -1: move(job, first, end, 1, false); break;
    case 2: move(job, first, end, 2, false); break;
    case -2: move(job, first, end, 2, true); break;
    case 4: move(job, first, end, 4, false); break;
    case -4: move(job, first, end, 4, true); break;
    case 8: move(job, first, end, 8, false); break;
    default: move(job, first, end, 8, true);
  }
}

embed_status embed__tensor_copy(embed_context *ctx, const embed__tensor *tensor, const unsigned char *from, embed_table **out) {
  embed_table_options o = {.size = sizeof o, .dtype = tensor->dtype, .vocab = tensor->vocab, .flags = embed__copy_flags(tensor->bytes)};
  int64_t rows, dim;
  (void)embed__tensor_extents(tensor, &rows, &dim);
  EMBED__TRY(embed__table_new(ctx, rows, dim, &o, out));
  (*out)->vector = tensor->rank == 1;
  reorder_job job = {.from = from,
                     .to = (*out)->data,
                     .rows = rows,
                     .dim = dim,
                     .width = (*out)->packed_bytes / dim,
                     .swap = tensor->swapped,
                     .column_major = tensor->column_major};
  const int64_t tasks = embed__ceil_div(rows * (*out)->packed_bytes, EMBED__HUGE_PAGE);
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

static embed_status codes_in_place(embed_context *ctx, const embed_file *f, const embed__tensor *tensor, int64_t rows, int64_t dim, embed_table_options *o,
                                   embed_table **out) {
  embed__pq_source from;
  const unsigned char *codes = embed__pq_codes(f, tensor, &from);
  o->data_bytes = tensor->bytes;
  embed_status status = embed__table_view_pq(ctx, codes, rows, dim, &from, true, o, release_file, embed__file_retain(f), out);
  if (status != EMBED_OK) embed__file_release(f);
  return status;
}

static embed_status make_table(embed_context *ctx, const embed_file *f, const embed__tensor *tensor, int64_t rows, int64_t dim, embed_table_options *o,
                               embed_table **out) {
  if (tensor->dtype == EMBED_PQ) return codes_in_place(ctx, f, tensor, rows, dim, o, out);
  if (tensor->decode) return embed__decoded_table(ctx, f, tensor, rows, dim, o, out);
  if (tensor->swapped && (embed__dtype_find(tensor->dtype)->block != 1 || tensor->row_bytes)) return embed__swapped_table(ctx, f, tensor, rows, dim, o, out);
  if (tensor->swapped || tensor->column_major) return embed__tensor_copy(ctx, tensor, embed__tensor_data(f, tensor), out);
  return in_place(ctx, f, tensor, rows, dim, o, out);
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
  EMBED__TRY(make_table(ctx, f, tensor, rows, dim, &o, out));
  (*out)->vector = tensor->rank == 1;
  return EMBED_OK;
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
