/* SPDX-License-Identifier: BSD-3-Clause */
/* Certified exact search: a copy of the table in 6 bits a weight is swept instead of the table, each row's logit is bounded, and only rows
 * that can still win are read. BOUND.md proves that the answers are the bits of the plain sweep. */
#ifndef EMBED__SKETCH_H
#define EMBED__SKETCH_H

#include <embed/head.h>

#include "head/sampler.h"
#include "sweep/sweep.h"
#include "sweep/topk.h"

enum {
  EMBED__SKETCH_HIDDEN = 16,          /* hidden rows of a call, at most */
  EMBED__SKETCH_ONE = 1 << 16,        /* the plain sweep's cost: unit of share and average */
  EMBED__SKETCH_MOST_DIM = 1 << 20,   /* columns for which the bound is proved */
  EMBED__SKETCH_RADIUS_PER_NORM = 64, /* no radius is below that part of its row's norm: the rounding of x is paid from the radius */
};

/* One block of memory: mean row, radii, panels (kernels/sketch.h). */
typedef struct embed__sketch {
  unsigned char *block;
  size_t bytes, alignment;
  int64_t panel_bytes;
  float *mean; /* [dim] subtracted from every row before it is rounded */
  double mean_norm;
  float *radius; /* [panels * 16]: what a unit of |x| may be off in this row's product; infinite where the row is not bounded */
  unsigned char *panels;
  uint64_t changes; /* of the table, when it was made */
  int32_t share;    /* bytes of the sketch in those of the table, in EMBED__SKETCH_ONE */
  int64_t most;     /* rows that one search may verify */
  /* How searches went, shared by all callers; answers never depend on it. */
  _Atomic int32_t average; /* cost of searches, moving, in EMBED__SKETCH_ONE */
  _Atomic uint32_t waited; /* calls since the average is above one */
  _Atomic int64_t searches, verified, bytes_read;
} embed__sketch;

/* *out is untouched on errors: E_MEMORY, E_OVERFLOW, E_UNSUPPORTED, E_CANCELLED, E_CALLBACK. */
embed_status embed__sketch_new(embed_context *ctx, const embed_table *t, const embed_allocator *memory, embed__sketch **out);
/* Makes it again in the same memory. On errors it is unspecified, and stale. */
embed_status embed__sketch_again(embed_context *ctx, const embed_table *t, embed__sketch *s);
void embed__sketch_free(const embed_allocator *memory, embed__sketch *s); /* NULL is fine */
/* False when the table has changed since. */
bool embed__sketch_is_fresh(const embed__sketch *s, const embed_table *t);

/* What is sought in a hidden row: its best, or one drawn at a temperature alone. */
typedef struct embed__sought {
  const embed__sampler *sampler; /* a plain one (sampler.h); NULL = the best */
  const embed__edits *edits;     /* what rules and penalties do to its logits; NULL = nothing */
  embed__topk top;               /* the caller's, empty, its capacity and order set; of a row that is drawn it holds some logit above -inf in the end */
  embed__gumbel drawn;           /* embed__gumbel_start() */
} embed__sought;

/* Offers every logit that can be among the best, or that can be drawn, to rows[i], i < s->n. What it holds then is what the plain
 * sweep's logits would have left in it, after scale, soft-cap, NaN policy and rules.
 * s: as embed__head_sweep filled it. *refused: the least hidden row with a NaN under EMBED_NAN_ERROR, else unchanged.
 * *answered false: nothing was offered, sweep plainly; so it is with an activation, OpenBLAS, a hidden row that is not bounded, a form of
 * the table with offsets (Q4_K, Q5_K) in integer products, and where it does not pay. */
embed_status embed__certified_search(embed_context *ctx, const embed_head *h, const embed__sweep *s, embed_nan_policy nan, embed__sought *rows,
                                     int64_t *refused, bool *answered);

/* The bound itself, for hidden rows x [n, dim]. */
typedef struct embed__sketch_query {
  const float *x;
  int64_t ldx, n;
  unsigned char *packed;              /* as kernels/sketch.h packs x */
  float reach[EMBED__SKETCH_HIDDEN];  /* what a row's radius is multiplied by */
  float center[EMBED__SKETCH_HIDDEN]; /* product of x and the mean row */
} embed__sketch_query;

/* False: a row of x has no bound. packed has room for the kernels' x_bytes(n, dim). */
bool embed__sketch_ask(const embed__kernels *k, const embed__sketch *s, int64_t dim, embed__sketch_query *q);
/* Of hidden row i and `columns` table rows from `column` on: upper held the sketched products, and holds bounds that no plain product plus
 * bias is above; middle: the sketch's guess at it, no NaN. bias: of the head, or NULL. */
void embed__sketch_bounds(const embed__sketch *s, const embed__sketch_query *q, int64_t i, int64_t column, int64_t columns, const float *bias, float *upper,
                          float *middle);

/* Products of chosen rows, with the bits that the planned sweep gives them. */
typedef struct embed__chosen_rows {
  const embed__kernels *kernels;
  const embed_table *table;
  const embed__sweep *plan;
  const float *x; /* [n, dim] */
  int64_t ldx;
  unsigned char *packed; /* hidden rows as the plan's multiplier has them, one by one */
  int64_t packed_bytes;
  unsigned char *room; /* per worker: rows side by side, the panel or floats that they become */
  int64_t room_bytes, rows_bytes;
} embed__chosen_rows;

enum { EMBED__CHOSEN = 16 /* rows at once */ };
/* plan: as embed__plan_sweep left it. False: its bits cannot be had, or are not bounded. */
bool embed__chosen_can(const embed_context *ctx, const embed__sweep *plan);
/* And whether for these hidden rows: those that the plain sweep multiplies as floats instead are not searched for. */
bool embed__chosen_hold(const embed__chosen_rows *c, int64_t n);
embed_status embed__chosen_begin(embed_context *ctx, embed__chosen_rows *c, int64_t n);
/* z[j] = hidden row i times row ids[j], j < count <= EMBED__CHOSEN. */
void embed__chosen_products(const embed__chosen_rows *c, int64_t i, const int32_t *ids, int64_t count, int32_t worker, float *z);

#endif
