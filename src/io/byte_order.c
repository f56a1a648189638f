/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/byte_order.h"

#include <string.h>

#include "core/checked.h"
#include "thread/run.h"

/* What a block of a dtype is made of: fields of so many bytes, those of 1 (times count) having no order. ggml keeps its 16-bit scales and
 * the fifth bits of Q5_0 and Q5_1 as the machine's words, all else as bytes (ggml/src/ggml-common.h): MXFP4 and NVFP4 have no order. */
enum { FIELDS = 4 };
typedef struct layout {
  embed_dtype dtype;
  struct {
    int16_t width, count;
  } field[FIELDS];
} layout;

static const layout layouts[] = {
    {EMBED_F64, {{8, 1}}},
    {EMBED_F32, {{4, 1}}},
    {EMBED_F16, {{2, 1}}},
    {EMBED_BF16, {{2, 1}}},
    {EMBED_Q4_0, {{2, 1}, {1, 16}}},
    {EMBED_Q4_1, {{2, 2}, {1, 16}}},
    {EMBED_Q5_0, {{2, 1}, {4, 1}, {1, 16}}},
    {EMBED_Q5_1, {{2, 2}, {4, 1}, {1, 16}}},
    {EMBED_Q8_0, {{2, 1}, {1, 32}}},
    {EMBED_Q2_K, {{1, 80}, {2, 2}}},  /* scales, qs; d, dmin */
    {EMBED_Q3_K, {{1, 108}, {2, 1}}}, /* hmask, qs, scales; d */
    {EMBED_Q4_K, {{2, 2}, {1, 140}}}, /* d, dmin; scales, qs */
    {EMBED_Q5_K, {{2, 2}, {1, 172}}}, /* d, dmin; scales, qh, qs */
    {EMBED_Q6_K, {{1, 208}, {2, 1}}}, /* ql, qh, scales; d */
    {EMBED_IQ4_NL, {{2, 1}, {1, 16}}},
    {EMBED_IQ4_XS, {{2, 2}, {1, 132}}}, /* d, scales_h; scales_l, qs */
};

static const layout *find_layout(embed_dtype dtype) {
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; ++i)
    if (layouts[i].dtype == dtype) return &layouts[i];
  return NULL;
}

bool embed__is_swapped(embed_dtype dtype, bool big_endian_file) {
  const layout *of = find_layout(dtype);
  if (!of) return false;
  return of->field[1].width == 0 ? big_endian_file != EMBED__BIG_ENDIAN_HOST : big_endian_file;
}

static void swap_elements(unsigned char *p, int64_t width, int64_t count) {
  uint16_t h;
  uint32_t w;
  uint64_t d;
  switch (width) {
    case 2:
      for (int64_t i = 0; i < count; ++i, p += 2) memcpy(&h, p, 2), h = __builtin_bswap16(h), memcpy(p, &h, 2);
      return;
    case 4:
      for (int64_t i = 0; i < count; ++i, p += 4) memcpy(&w, p, 4), w = __builtin_bswap32(w), memcpy(p, &w, 4);
      return;
    case 8:
      for (int64_t i = 0; i < count; ++i, p += 8) memcpy(&d, p, 8), d = __builtin_bswap64(d), memcpy(p, &d, 8);
      return;
    default: return;
  }
}

void embed__swap_rows(embed_dtype dtype, unsigned char *rows, int64_t bytes) {
  const layout *of = find_layout(dtype);
  if (!of) return;
  if (of->field[1].width == 0) {
    swap_elements(rows, of->field[0].width, bytes / of->field[0].width);
    return;
  }
  for (unsigned char *p = rows, *end = rows + bytes; p < end;)
    for (int i = 0; i < FIELDS && of->field[i].width; ++i) {
      swap_elements(p, of->field[i].width, of->field[i].count);
      p += of->field[i].width * of->field[i].count;
    }
}

typedef struct swap_job {
  const unsigned char *from;
  embed_table *to;
  int64_t row_bytes, rows, grain;
} swap_job;

static void copy_and_swap(void *arg, int64_t task, int32_t worker) {
  const swap_job *job = arg;
  const int64_t packed = job->to->packed_bytes, end = embed__min(job->rows, (task + 1) * job->grain);
  unsigned char *to = (unsigned char *)job->to->data;
  (void)worker;
  for (int64_t r = task * job->grain; r < end; ++r) {
    memcpy(to + r * job->to->row_bytes, job->from + r * job->row_bytes, (size_t)packed);
    embed__swap_rows(job->to->dtype, to + r * job->to->row_bytes, packed);
  }
}

embed_status embed__swapped_table(embed_context *ctx, const embed_file *f, const embed__tensor *tensor, int64_t rows, int64_t dim, embed_table_options *o,
                                  embed_table **out) {
  enum { TASK_BYTES = 1 << 20 };
  const int64_t apart = o->row_bytes;
  o->flags = embed__copy_flags(tensor->bytes);
  o->row_bytes = 0;
  EMBED__TRY(embed__table_new(ctx, rows, dim, o, out));
  const int64_t packed = (*out)->packed_bytes;
  swap_job job = {.from = embed__tensor_data(f, tensor), .to = *out, .row_bytes = apart ? apart : packed, .rows = rows};
  job.grain = embed__max(1, TASK_BYTES / packed);
  const int64_t tasks = embed__ceil_div(rows, job.grain);
  embed_status status = embed__run_long(ctx, tasks, copy_and_swap, &job, 0, tasks);
  if (status == EMBED_OK) return EMBED_OK;
  embed__table_release(*out);
  *out = NULL;
  return status;
}
