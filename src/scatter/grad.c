/* SPDX-License-Identifier: BSD-3-Clause */
/* Making, growing, emptying and describing gradients. */
#include "scatter/grad.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/pages.h"
#include "scatter/insert.h"
#include "table/table.h"
#include "thread/run.h"

/* Rows are met in random order: huge pages spare most of the address translations. */
static size_t alignment_of(int64_t bytes) { return bytes >= EMBED__HUGE_PAGES_FROM ? EMBED__HUGE_PAGE : EMBED__ALIGNMENT; }

static void free_values(embed_grad *g) {
  if (g->owned) embed__free(&g->memory, g->values, (size_t)g->owned, alignment_of(g->owned));
}

/* rows of ld floats in memory of our own, *bytes of it, not yet written. */
static embed_status allocate_values(embed_context *ctx, const embed_grad *g, int64_t rows, float **values, int64_t *bytes) {
  int64_t floats;
  if (!embed__mul(rows, g->ld, &floats) || !embed__mul(floats, sizeof(float), bytes) || (uint64_t)*bytes > PTRDIFF_MAX)
    return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "a gradient of %" PRId64 " rows of %" PRId64 " floats does not fit into memory", rows, g->ld);
  *bytes = embed__whole_pages(embed__max(1, *bytes));
  *values = embed__allocate(&g->memory, (size_t)*bytes, alignment_of(*bytes));
  if (!*values) return embed__out_of_memory(ctx, *bytes);
  if (alignment_of(*bytes) == EMBED__HUGE_PAGE) embed__want_huge_pages(*values, (size_t)*bytes);
  return EMBED_OK;
}

static embed_status check_dim(embed_context *ctx, int64_t dim) {
  return dim >= 1 ? EMBED_OK : embed__fail(ctx, EMBED_E_ARGUMENT, -1, "dim is %" PRId64 ", a row has at least 1 column", dim);
}

static embed_status create(embed_context *ctx, int64_t dim, embed_grad **out) {
  embed_grad *g = embed__new(&ctx->memory, sizeof *g);
  if (!g) return embed__out_of_memory(ctx, (int64_t)sizeof *g);
  g->memory = ctx->memory;
  g->dim = g->ld = dim;
  *out = g;
  return EMBED_OK;
}

embed_status embed_grad_create(embed_context *ctx, int64_t dim, embed_grad **out) {
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, out);
  EMBED__TRY(check_dim(ctx, dim));
  return create(ctx, dim, out);
}

static void clear_values(embed_grad *g) {
  for (int64_t i = 0; i < g->rows; ++i) memset(embed__grad_row(g, i), 0, (size_t)g->dim * sizeof(float));
}

static embed_status create_dense(embed_context *ctx, int64_t rows, int64_t dim, float *memory, int64_t ld, embed_grad **out) {
  int64_t stride;
  EMBED__TRY(check_dim(ctx, dim));
  /* Sizes alone: memory may be NULL here. */
  EMBED__TRY(embed__check_buffer(ctx, "memory", memory ? memory : (const void *)out, EMBED_F32, rows, dim, ld, &stride));
  EMBED__TRY(create(ctx, dim, out));
  embed_grad *g = *out;
  g->dense = true;
  g->rows = rows;
  g->ld = stride;
  g->values = memory;
  if (memory || rows == 0) return EMBED_OK;
  embed_status status = allocate_values(ctx, g, rows, &g->values, &g->owned);
  if (status == EMBED_OK) {
    clear_values(g);
  } else {
    embed__free(&g->memory, g, sizeof *g, EMBED__ALIGNMENT);
    *out = NULL;
  }
  return status;
}

embed_status embed_grad_create_dense(embed_context *ctx, int64_t rows, int64_t dim, float *memory, int64_t ld, embed_grad **out) {
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, out);
  return create_dense(ctx, rows, dim, memory, ld, out);
}

int32_t embed_grad_is_dense(const embed_grad *g) { return g ? g->dense : 0; }
int64_t embed_grad_rows(const embed_grad *g) { return g ? g->rows : EMBED_E_ARGUMENT; }
const int64_t *embed_grad_ids(const embed_grad *g) { return g ? g->ids : NULL; }
const float *embed_grad_values(const embed_grad *g) { return g ? g->values : NULL; }
float *embed_grad_bias(embed_grad *g) { return g ? g->bias : NULL; }

void embed_grad_clear(embed_grad *g) {
  if (!g) return;
  if (g->dense)
    clear_values(g);
  else
    g->rows = 0;
  if (g->bias) memset(g->bias, 0, (size_t)g->bias_rows * sizeof *g->bias);
}

void embed_grad_release(embed_grad *g) {
  if (!g) return;
  const embed_allocator memory = g->memory;
  free_values(g);
  embed__free(&memory, g->ids, (size_t)g->capacity * sizeof *g->ids, EMBED__ALIGNMENT);
  embed__free(&memory, g->bias, (size_t)g->bias_rows * sizeof *g->bias, EMBED__ALIGNMENT);
  embed__free(&memory, g, sizeof *g, EMBED__ALIGNMENT);
}

/* Rows and their ids from one place to a later one: back to front, each task some columns of all rows. */
typedef struct moving {
  const float *from;
  float *to;
  const int64_t *where; /* [rows]: the place of row i, at least i */
  int64_t rows, dim;
  bool apart; /* from and to are different memory */
} moving;

enum { MOVED_COLUMNS = 256 };

static void move_columns(void *arg, int64_t task, int32_t worker) {
  const moving *m = arg;
  int64_t first = task * MOVED_COLUMNS;
  size_t bytes = (size_t)embed__min(MOVED_COLUMNS, m->dim - first) * sizeof(float);
  (void)worker;
  for (int64_t i = m->rows - 1; i >= 0; --i) {
    if (!m->apart && m->where[i] == i) return; /* so are all before it */
    memcpy(m->to + m->where[i] * m->dim + first, m->from + i * m->dim + first, bytes);
  }
}

/* Room for `rows` rows: new memory where g's is too small, and that is all that may fail. */
typedef struct room {
  int64_t *ids;
  float *values;
  int64_t capacity, bytes;
} room;

static embed_status make_room(embed_context *ctx, const embed_grad *g, int64_t rows, room *r) {
  *r = (room){.ids = g->ids, .values = g->values, .capacity = g->capacity, .bytes = g->owned};
  if (rows <= g->capacity) return EMBED_OK;
  r->capacity = g->capacity ? embed__max(rows, embed__min(g->capacity + g->capacity / 2, INT64_MAX / 2)) : rows;
  EMBED__TRY(allocate_values(ctx, g, r->capacity, &r->values, &r->bytes)); /* proves the size of ids, too: dim >= 1, but for 32 bits */
  int64_t bytes;
  bool fits = embed__mul(r->capacity, sizeof *r->ids, &bytes) && (uint64_t)bytes <= PTRDIFF_MAX;
  r->ids = fits ? embed__allocate(&g->memory, (size_t)bytes, EMBED__ALIGNMENT) : NULL;
  if (r->ids) return EMBED_OK;
  embed__free(&g->memory, r->values, (size_t)r->bytes, alignment_of(r->bytes));
  return embed__out_of_memory(ctx, bytes);
}

static void take_room(embed_grad *g, const room *r) {
  if (r->values == g->values) return;
  free_values(g);
  embed__free(&g->memory, g->ids, (size_t)g->capacity * sizeof *g->ids, EMBED__ALIGNMENT);
  g->ids = r->ids;
  g->values = r->values;
  g->capacity = r->capacity;
  g->owned = r->bytes;
}

/* place[r] of each of the ids, and where[i] of the rows that there are; how many are fresh. */
static int64_t places(const embed_grad *g, const int64_t *ids, int64_t n, int64_t *place, int64_t *where) {
  int64_t i = 0, fresh = 0;
  for (int64_t r = 0; r < n; ++r) {
    for (; i < g->rows && g->ids[i] < ids[r]; ++i) where[i] = i + fresh;
    if (i < g->rows && g->ids[i] == ids[r]) {
      place[r] = i + fresh;
    } else {
      place[r] = ~(i + fresh);
      ++fresh;
    }
  }
  for (; i < g->rows; ++i) where[i] = i + fresh;
  return fresh;
}

embed_status embed__grad_insert(embed_context *ctx, embed_grad *g, const int64_t *ids, int64_t n, int64_t *place) {
  int64_t *where, total;
  room r;
  EMBED__TRY(embed__scratch_get(ctx, g->rows, sizeof *where, &where));
  int64_t fresh = places(g, ids, n, place, where);
  if (fresh == 0) return EMBED_OK;
  if (!embed__add(g->rows, fresh, &total)) return embed__out_of_memory(ctx, -1);
  EMBED__TRY(make_room(ctx, g, total, &r));
  moving m = {.from = g->values, .to = r.values, .where = where, .rows = g->rows, .dim = g->dim, .apart = r.values != g->values};
  embed_status status = g->rows ? embed__run(ctx, embed__ceil_div(g->dim, MOVED_COLUMNS), move_columns, &m) : EMBED_OK;
  if (status != EMBED_OK && m.apart) {
    embed__free(&g->memory, r.values, (size_t)r.bytes, alignment_of(r.bytes));
    embed__free(&g->memory, r.ids, (size_t)r.capacity * sizeof *r.ids, EMBED__ALIGNMENT);
  }
  EMBED__TRY(status);
  for (int64_t i = g->rows - 1; i >= 0; --i) r.ids[where[i]] = g->ids[i];
  for (int64_t i = 0; i < n; ++i) {
    if (place[i] < 0) r.ids[~place[i]] = ids[i];
  }
  take_room(g, &r);
  g->rows = total;
  return EMBED_OK;
}

embed_status embed__grad_make_bias(embed_context *ctx, const embed_grad *g, int64_t rows, float **bias) {
  *bias = g->bias;
  if (g->bias && g->bias_rows != rows)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1, "a gradient with a bias of %" PRId64 " rows gets one of %" PRId64, g->bias_rows, rows);
  if (g->bias) return EMBED_OK;
  int64_t bytes;
  bool fits = embed__mul(rows, sizeof **bias, &bytes) && (uint64_t)bytes <= PTRDIFF_MAX;
  *bias = fits ? embed__allocate(&g->memory, (size_t)bytes, EMBED__ALIGNMENT) : NULL;
  if (!*bias) return embed__out_of_memory(ctx, bytes);
  memset(*bias, 0, (size_t)bytes);
  return EMBED_OK;
}

embed_status embed__grad_take_bias(embed_grad *g, int64_t rows, float *bias, embed_status status) {
  if (bias == g->bias) return status;
  if (status != EMBED_OK) {
    embed__free(&g->memory, bias, (size_t)rows * sizeof *bias, EMBED__ALIGNMENT);
  } else {
    g->bias = bias;
    g->bias_rows = rows;
  }
  return status;
}

/* All rows of a sparse gradient. */
static embed_status fill_rows(embed_context *ctx, embed_grad *g, int64_t rows) {
  int64_t *all, *place;
  if (g->rows == rows) return EMBED_OK; /* none lies past them */
  EMBED__TRY(embed__scratch_get(ctx, rows, sizeof *all, &all));
  EMBED__TRY(embed__scratch_get(ctx, rows, sizeof *place, &place));
  for (int64_t i = 0; i < rows; ++i) all[i] = i;
  EMBED__TRY(embed__grad_insert(ctx, g, all, rows, place));
  for (int64_t i = 0; i < rows; ++i) {
    if (place[i] < 0) memset(embed__grad_row(g, ~place[i]), 0, (size_t)g->dim * sizeof(float));
  }
  return EMBED_OK;
}

embed_status embed__grad_check(embed_context *ctx, const embed_grad *g, int64_t rows, int64_t dim) {
  if (g->dim != dim) return embed__fail(ctx, EMBED_E_MISMATCH, -1, "the gradient has %" PRId64 " columns, what is added to it %" PRId64, g->dim, dim);
  if (g->dense && g->rows < rows)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1, "the dense gradient has %" PRId64 " rows for a vocabulary of %" PRId64, g->rows, rows);
  return EMBED_OK;
}

embed_status embed__grad_open(embed_context *ctx, embed_grad *g, int64_t rows, int64_t dim, bool bias) {
  float *with = g->bias;
  EMBED__TRY(embed__grad_check(ctx, g, rows, dim));
  if (!g->dense && g->rows > 0 && g->ids[g->rows - 1] >= rows)
    return embed__fail(ctx, EMBED_E_MISMATCH, g->rows - 1, "the gradient has row %" PRId64 ", past the head's %" PRId64 " rows", g->ids[g->rows - 1], rows);
  if (bias) EMBED__TRY(embed__grad_make_bias(ctx, g, rows, &with));
  return embed__grad_take_bias(g, rows, with, g->dense ? EMBED_OK : fill_rows(ctx, g, rows));
}
