/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows read and written as floats, whatever the table stores: convert, get_rows, set_rows. */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/least.h"
#include "core/options.h"
#include "core/pages.h"
#include "table/table.h"
#include "thread/run.h"

enum { TASK_BYTES = 256 << 10 }; /* of decoded rows per task: enough to be worth a thread's waking */

int64_t embed__rows_per_task(int64_t dim) { return embed__max(1, TASK_BYTES / 4 / dim); }

embed_status embed__refuse_row(embed_context *ctx, const char *what, int64_t position, const embed_table *t) {
  return embed__fail(ctx, EMBED_E_NONFINITE, position, "%s %" PRId64 " cannot be stored as %s: a value is NaN, infinite or past the range of its scale", what,
                     position, embed__dtype_name(t->dtype));
}

/* A task begins and ends with a huge page of the new table (but for the row that lies in two): two threads that meet in a page
 * that is not there yet both clear one for it, and one of the two is thrown away. */
typedef struct convert_job {
  const embed__kernels *kernels;
  const embed_table *from;
  embed_table *to;
  float *scratch; /* [workers, dim] */
  int64_t task_bytes;
  _Atomic int64_t refused;
} convert_job;

static int64_t first_row(const convert_job *job, int64_t task) {
  return embed__min(job->to->rows, embed__ceil_div(task * job->task_bytes, job->to->row_bytes));
}

static void convert_rows(void *arg, int64_t task, int32_t worker) {
  convert_job *job = arg;
  const embed_table *from = job->from;
  embed_table *to = job->to;
  bool same = from->dtype == to->dtype && from->group == to->group;
  float *row = job->scratch + (int64_t)worker * from->dim;
  const int64_t end = first_row(job, task + 1);
  for (int64_t r = first_row(job, task); r < end; ++r) {
    unsigned char *out = to->data + r * to->row_bytes;
    if (same) {
      memcpy(out, embed__row(from, r), (size_t)from->packed_bytes);
    } else {
      embed__decode_stored(job->kernels, from, r, row, 1.0f);
      if (!to->codec->encode(job->kernels, row, out, to->dim, to->group, NULL)) embed__keep_least(&job->refused, r);
    }
    if (to->row_bytes > to->packed_bytes) memset(out + to->packed_bytes, 0, (size_t)(to->row_bytes - to->packed_bytes));
  }
}

static embed_status convert(embed_context *ctx, const embed_table *t, embed_table_options *o, embed_table **out) {
  if (o->dtype == EMBED_DTYPE_NONE) {
    o->dtype = t->codebook ? EMBED_F32 : t->dtype;
    if (!o->group && !t->codebook) o->group = t->group;
  }
  if (!o->vocab) o->vocab = t->vocab;
  EMBED__TRY(embed__table_new(ctx, t->rows, t->dim, o, out));
  (*out)->vocab = o->vocab; /* a table with rows and no valid id stays one */
  convert_job job = {.kernels = ctx->kernels, .from = t, .to = *out, .task_bytes = EMBED__HUGE_PAGE, .refused = INT64_MAX};
  const int64_t tasks = embed__ceil_div(t->rows * (*out)->row_bytes, job.task_bytes);
  if (tasks == 0) return EMBED_OK;
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), t->dim, sizeof(float), &job.scratch));
  EMBED__TRY(embed__run_long(ctx, tasks, convert_rows, &job, 0, tasks));
  int64_t refused = atomic_load(&job.refused);
  return refused == INT64_MAX ? EMBED_OK : embed__refuse_row(ctx, "row", refused, *out);
}

embed_status embed_table_convert(embed_context *ctx, const embed_table *t, const embed_table_options *opts, embed_table **out) {
  embed_table_options o;
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  EMBED__NOT_NULL(ctx, out);
  EMBED__TRY(embed__table_options(ctx, opts, &o));
  embed_status status = convert(ctx, t, &o, out);
  if (status != EMBED_OK) {
    embed__table_release(*out);
    *out = NULL;
  }
  return embed__end(ctx, status);
}

embed_status embed__check_stored_rows(embed_context *ctx, const embed_table *t, const int64_t *ids, int64_t n) {
  if (n < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "n is %" PRId64 " ids", n);
  if (n > 0 && !ids) return embed__null(ctx, "ids");
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] < 0 || ids[i] >= t->rows)
      return embed__fail(ctx, EMBED_E_ID, i, "id %" PRId64 " at position %" PRId64 " is outside the table of %" PRId64 " rows", ids[i], i, t->rows);
  return EMBED_OK;
}

typedef struct get_job {
  const embed_context *ctx;
  const embed_table *t;
  const int64_t *ids;
  unsigned char *out;
  embed_dtype dtype;
  float *scratch; /* [workers, dim] */
  int64_t n, ld, grain;
} get_job;

static void get_rows(void *arg, int64_t task, int32_t worker) {
  get_job *job = arg;
  float *row = job->scratch + (int64_t)worker * job->t->dim;
  int64_t end = embed__min(job->n, (task + 1) * job->grain);
  for (int64_t i = task * job->grain; i < end; ++i) {
    unsigned char *out = job->out + i * job->ld * embed__float_bytes(job->dtype);
    if (job->dtype == job->t->dtype) {
      memcpy(out, embed__row(job->t, job->ids[i]), (size_t)job->t->packed_bytes);
    } else {
      embed__decode(job->ctx, job->t, job->ids[i], row, 1.0f);
      embed__store_row(job->ctx->kernels, row, out, job->dtype, job->t->dim);
    }
  }
}

static embed_status get(embed_context *ctx, get_job *job) {
  if (job->n == 0) return EMBED_OK;
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), job->t->dim, sizeof(float), &job->scratch));
  return embed__run(ctx, embed__ceil_div(job->n, job->grain), get_rows, job);
}

embed_status embed_table_get_rows(embed_context *ctx, const embed_table *t, const int64_t *ids, int64_t n, void *out, embed_dtype out_dtype, int64_t ld_out) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  get_job job = {.ctx = ctx, .t = t, .ids = ids, .out = out, .dtype = out_dtype, .n = n, .grain = embed__rows_per_task(t->dim)};
  EMBED__TRY(embed__check_buffer(ctx, "out", out, out_dtype, n, t->dim, ld_out, &job.ld));
  EMBED__TRY(embed__check_stored_rows(ctx, t, ids, n));
  return embed__end(ctx, get(ctx, &job));
}

embed_status embed__rows_options(embed_context *ctx, const embed_table *t, const embed_rows_options *opts, embed_rows_options *o) {
  EMBED__TRY(embed__options(ctx, "embed_rows_options", opts, EMBED_ROWS_STOCHASTIC, o, sizeof *o));
  EMBED__TRY(embed__check_writable(ctx, t));
  if ((o->flags & EMBED_ROWS_STOCHASTIC) && !t->codec->rounds_stochastically)
    return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "EMBED_ROWS_STOCHASTIC: %s rounds as its format says, it has no stochastic rounding",
                       embed__dtype_name(t->dtype));
  return EMBED_OK;
}

/* Where the dtype can refuse a row, a first pass encodes every row into scratch: one that cannot be stored leaves the
 * table as it was. In order, so that the last of equal ids wins. */
static embed_status set(embed_context *ctx, embed_table *t, const int64_t *ids, int64_t n, const unsigned char *src, embed_dtype dtype, int64_t ld,
                        const embed_rows_options *o) {
  float *row;
  unsigned char *packed;
  if (n == 0) return EMBED_OK;
  EMBED__TRY(embed__scratch_get(ctx, t->dim, sizeof(float), &row));
  EMBED__TRY(embed__scratch_get(ctx, t->packed_bytes, 1, &packed));
  for (int pass = t->codec->finite_only ? 0 : 1; pass < 2; ++pass) {
    for (int64_t i = 0; i < n; ++i) {
      const unsigned char *from = src + i * ld * embed__float_bytes(dtype);
      unsigned char *to = t->data + ids[i] * t->row_bytes;
      if (dtype == t->dtype) {
        memcpy(to, from, (size_t)t->packed_bytes);
        continue;
      }
      embed__noise noise = {.seed = o->seed, .row = (uint64_t)ids[i], .dim = t->dim};
      embed__load_row(ctx->kernels, from, dtype, row, t->dim);
      if (!t->codec->encode(ctx->kernels, row, pass == 0 ? packed : to, t->dim, t->group, o->flags & EMBED_ROWS_STOCHASTIC ? &noise : NULL))
        return embed__refuse_row(ctx, "src row", i, t);
    }
  }
  return EMBED_OK;
}

embed_status embed_table_set_rows(embed_context *ctx, embed_table *t, const int64_t *ids, int64_t n, const void *src, embed_dtype src_dtype, int64_t ld_src,
                                  const embed_rows_options *opts) {
  embed_rows_options o;
  int64_t ld;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, t);
  EMBED__TRY(embed__rows_options(ctx, t, opts, &o));
  EMBED__TRY(embed__check_buffer(ctx, "src", src, src_dtype, n, t->dim, ld_src, &ld));
  EMBED__TRY(embed__check_stored_rows(ctx, t, ids, n));
  embed_status status = set(ctx, t, ids, n, src, src_dtype, ld, &o);
  if (status == EMBED_OK && n > 0) embed__table_changed(t);
  return embed__end(ctx, status);
}
