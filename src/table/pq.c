/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_table_view_pq, and the one place that decodes product-quantised rows. */
#include "table/pq.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/half.h"
#include "core/least.h"
#include "core/memory.h"
#include "core/options.h"
#include "table/overlay.h"
#include "thread/run.h"

enum { CODES = 256 /* that a byte can be */, LEAD = 64 /* bytes before the floats: they begin at a line */ };

/* Followed by its floats: norm_values where there are norm_codes, then values. */
struct embed__codebook {
  int64_t parts, width, last; /* parts of a row, columns of a part and of the last one */
  int64_t centroids;          /* kept of a part */
  size_t bytes;               /* of all */
  const unsigned char *norms; /* in place: floats [rows], or codes; NULL = none */
  bool coded_norms, little_endian;
};
_Static_assert(sizeof(embed__codebook) <= LEAD, "the floats of a codebook begin behind it");

static const float *norm_values(const embed__codebook *b) { return (const float *)(const void *)((const unsigned char *)b + LEAD); }
static const float *values_of(const embed__codebook *b) { return norm_values(b) + (b->coded_norms ? CODES : 0); }

static float norm_of(const embed__codebook *b, int64_t row) {
  float norm;
  if (b->coded_norms) return norm_values(b)[b->norms[row]];
  if (b->little_endian) return embed__le_f32(b->norms + 4 * row);
  memcpy(&norm, b->norms + 4 * row, sizeof norm);
  return norm;
}

/* Centroids of whole parts side by side; with a constant width a move each. */
static inline __attribute__((always_inline)) void take(const embed__codebook *b, const unsigned char *codes, int64_t parts, int64_t width, float *out) {
  const float *part = values_of(b);
  for (int64_t p = 0; p < parts; ++p, part += b->centroids * width) memcpy(out + p * width, part + codes[p] * width, (size_t)width * sizeof *out);
}

static void take_all(const embed__codebook *b, const unsigned char *codes, float *out) {
  const int64_t whole = b->parts - (b->last < b->width);
  switch (b->width) {
    case 1: take(b, codes, whole, 1, out); break;
    case 2: take(b, codes, whole, 2, out); break;
    case 4: take(b, codes, whole, 4, out); break;
    case 8: take(b, codes, whole, 8, out); break;
    default: take(b, codes, whole, b->width, out);
  }
  if (whole < b->parts) memcpy(out + whole * b->width, values_of(b) + whole * b->centroids * b->width + codes[whole] * b->last, (size_t)b->last * sizeof *out);
}

/* A row is its centroids times its norm, rounded to float, as fastText and finalfusion have it; then the caller's scale multiplies. */
void embed__decode_codes(const embed__kernels *k, const embed_table *t, int64_t row, float *out, float scale) {
  t = embed__owner_of_row(t, &row);
  const embed__codebook *b = t->codebook;
  if (!b) { /* a row of another dtype that stands over codes */
    t->codec->decode(k, t->data + row * t->row_bytes, out, t->dim, t->group, scale);
    return;
  }
  take_all(b, t->data + row * t->row_bytes, out);
  const float by = b->norms ? norm_of(b, row) : scale;
  for (int64_t j = 0; j < t->dim; ++j) out[j] = by * out[j];
  if (!b->norms || scale == 1.0f) return;
  for (int64_t j = 0; j < t->dim; ++j) out[j] = scale * out[j];
}

/* --- Making one */

static void take_floats(float *to, const void *from, int64_t count, bool little_endian) {
  if (little_endian)
    for (int64_t i = 0; i < count; ++i) to[i] = embed__le_f32((const unsigned char *)from + 4 * i);
  else
    memcpy(to, from, (size_t)count * sizeof *to);
}

/* A part may have more centroids than a code can name: those are left out. Codes of a file, whose parts are narrow, can change once they were
 * proved: behind the last part is what any code would reach. */
static embed_status new_codebook(embed_context *ctx, const embed_table *t, const embed__pq_source *from, bool of_file, embed__codebook **out) {
  const int64_t kept = embed__min(from->centroids, CODES), parts = t->packed_bytes, last = t->dim - (parts - 1) * from->width;
  const int64_t behind = of_file ? (CODES - kept) * from->width * (int64_t)sizeof(float) : 0;
  int64_t bytes;
  if (!embed__mul(kept * (int64_t)sizeof(float), t->dim, &bytes) || !embed__add(bytes, LEAD + CODES * (int64_t)sizeof(float) + behind, &bytes) ||
      bytes > PTRDIFF_MAX)
    return embed__out_of_memory(ctx, bytes);
  embed__codebook *b = embed__allocate(&t->memory, (size_t)bytes, EMBED__ALIGNMENT);
  if (!b) return embed__out_of_memory(ctx, bytes);
  *b = (embed__codebook){.parts = parts,
                         .width = from->width,
                         .last = last,
                         .centroids = kept,
                         .bytes = (size_t)bytes,
                         .norms = from->norm_codes ? from->norm_codes : from->norms,
                         .coded_norms = from->norm_codes != NULL,
                         .little_endian = from->little_endian};
  if (b->coded_norms) take_floats((float *)(uintptr_t)norm_values(b), from->norm_values, CODES, from->little_endian);
  float *to = (float *)(uintptr_t)values_of(b);
  const unsigned char *part = from->values;
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t width = p == parts - 1 ? last : from->width;
    take_floats(to, part, kept * width, from->little_endian);
    to += kept * width;
    part += from->centroids * width * (int64_t)sizeof(float);
  }
  memset(to, 0, (size_t)behind);
  *out = b;
  return EMBED_OK;
}

void embed__codebook_free(embed__codebook *b, const embed_allocator *memory) {
  if (b) embed__free(memory, b, b->bytes, EMBED__ALIGNMENT);
}

typedef struct proof {
  const embed_table *t;
  int64_t centroids, rows; /* rows: of a task */
  _Atomic int64_t refused; /* the least code that is past them, counted over all rows; INT64_MAX = none */
} proof;

static void prove_rows(void *arg, int64_t task, int32_t worker) {
  proof *p = arg;
  const embed_table *t = p->t;
  const int64_t end = embed__min(t->rows, (task + 1) * p->rows);
  (void)worker;
  for (int64_t row = task * p->rows; row < end; ++row) {
    const unsigned char *codes = t->data + row * t->row_bytes;
    int most = 0;
    for (int64_t i = 0; i < t->packed_bytes; ++i) most = codes[i] > most ? codes[i] : most;
    if (most < p->centroids) continue;
    int64_t part = 0;
    while (codes[part] < p->centroids) ++part;
    embed__keep_least(&p->refused, row * t->packed_bytes + part);
    return;
  }
}

static embed_status prove_codes(embed_context *ctx, const embed_table *t, int64_t centroids) {
  enum { TASK_BYTES = 1 << 20 };
  proof p = {.t = t, .centroids = centroids, .rows = embed__max(1, TASK_BYTES / t->packed_bytes), .refused = INT64_MAX};
  const int64_t tasks = embed__ceil_div(t->rows, p.rows);
  if (centroids >= CODES) return EMBED_OK;
  EMBED__TRY(embed__run_long(ctx, tasks, prove_rows, &p, 0, tasks));
  const int64_t at = atomic_load(&p.refused);
  if (at == INT64_MAX) return EMBED_OK;
  const int64_t row = at / t->packed_bytes, part = at % t->packed_bytes;
  return embed__fail(ctx, EMBED_E_ARGUMENT, at, "the code of row %" PRId64 " in part %" PRId64 " is %d, a part has %" PRId64 " centroids", row, part,
                     t->data[row * t->row_bytes + part], centroids);
}

/* t is a handle that owns nothing yet. */
static embed_status fill(embed_context *ctx, embed_table *t, const void *codes, const embed__pq_source *from, bool proved, int64_t data_bytes) {
  const int64_t needed = t->rows ? (t->rows - 1) * t->row_bytes + t->packed_bytes : 0;
  if (t->rows > 0 && !codes) return embed__null(ctx, "codes");
  if (data_bytes && data_bytes < needed)
    return embed__fail(ctx, EMBED_E_ARGUMENT, data_bytes, "codes has %" PRId64 " bytes, %" PRId64 " rows need %" PRId64, data_bytes, t->rows, needed);
  t->data = (unsigned char *)(uintptr_t)codes; /* never written: READ_ONLY */
  if (!proved) EMBED__TRY(prove_codes(ctx, t, from->centroids));
  return new_codebook(ctx, t, from, proved, &t->codebook);
}

embed_status embed__table_view_pq(embed_context *ctx, const void *codes, int64_t rows, int64_t dim, const embed__pq_source *from, bool proved,
                                  const embed_table_options *o, void (*done)(void *arg), void *arg, embed_table **out) {
  embed_table_options as = *o;
  *out = NULL;
  as.dtype = EMBED_PQ;
  as.group = (int32_t)from->width;
  as.flags |= EMBED_TABLE_READ_ONLY;
  embed_table *t;
  EMBED__TRY(embed__table_handle(ctx, rows, dim, &as, &t));
  embed_status status = fill(ctx, t, codes, from, proved, o->data_bytes);
  if (status != EMBED_OK) {
    embed__table_release(t);
    return status;
  }
  t->done = done;
  t->done_arg = arg;
  *out = t;
  return EMBED_OK;
}

static embed_status check_source(embed_context *ctx, const embed_pq *pq) {
  if (pq->width < 1 || pq->width > INT32_MAX)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "embed_pq: a part has %" PRId64 " columns, it must have 1 to 2^31 - 1", pq->width);
  if (pq->centroids < 1 || pq->centroids > CODES)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "embed_pq: a part has %" PRId64 " centroids, it must have 1 to %d", pq->centroids, CODES);
  if (!pq->values) return embed__null(ctx, "embed_pq: values");
  if (pq->norms && pq->norm_codes) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "embed_pq: norms and norm_codes are both given, rows have one norm");
  if (!pq->norm_codes != !pq->norm_values)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "embed_pq: norm_codes and norm_values belong together, one of them is NULL");
  return EMBED_OK;
}

embed_status embed_table_view_pq(embed_context *ctx, const void *codes, int64_t rows, int64_t dim, const embed_pq *pq, const embed_table_options *opts,
                                 void (*done)(void *arg), void *arg, embed_table **out) {
  embed_table_options o;
  embed_pq given;
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, pq);
  EMBED__NOT_NULL(ctx, out);
  EMBED__TRY(embed__layout_options(ctx, opts, &o));
  EMBED__TRY(embed__options(ctx, "embed_pq", pq, 0, &given, sizeof given));
  EMBED__TRY(check_source(ctx, &given));
  if (o.flags & EMBED_TABLE_HUGE_PAGES) return embed__fail(ctx, EMBED_E_OPTION, -1, "EMBED_TABLE_HUGE_PAGES is for tables that own their memory");
  if (o.dtype != 0 && o.dtype != EMBED_PQ) return embed__fail(ctx, EMBED_E_OPTION, -1, "dtype is %d: the rows are EMBED_PQ", o.dtype);
  if (o.group != 0 && o.group != given.width) return embed__fail(ctx, EMBED_E_OPTION, -1, "group is %d columns, a part has %" PRId64, o.group, given.width);
  const embed__pq_source from = {.width = given.width,
                                 .centroids = given.centroids,
                                 .values = given.values,
                                 .norms = given.norms,
                                 .norm_codes = given.norm_codes,
                                 .norm_values = given.norm_values};
  return embed__end(ctx, embed__table_view_pq(ctx, codes, rows, dim, &from, false, &o, done, arg, out));
}
