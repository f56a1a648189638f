/* SPDX-License-Identifier: BSD-3-Clause */
/* The gradient of a table: a few rows in ascending order (sparse), or all of them (dense). scatter/ makes and fills it; loss/
 * adds whole blocks of rows, optim/ walks what is there. Row i of the gradient belongs to row embed__grad_id(g, i) of
 * the table. */
#ifndef EMBED__GRAD_H
#define EMBED__GRAD_H

#include <embed/optim.h>
#include <stdbool.h>

#include "core/context.h"
#include "table/ids.h"

struct embed_grad {
  embed_allocator memory;
  int64_t dim;
  int64_t ld;        /* floats from one row of values to the next; dim where sparse */
  int64_t rows;      /* that have gradient: of a dense one all */
  int64_t *ids;      /* [rows], ascending, each once; NULL where dense */
  float *values;     /* row i: values + i * ld */
  int64_t capacity;  /* rows that ids and values have room for; sparse */
  int64_t owned;     /* bytes of values that are ours, 0 = the caller's or none */
  float *bias;       /* [bias_rows] or NULL */
  int64_t bias_rows; /* of the table */
  bool dense;
};

static inline int64_t embed__grad_id(const embed_grad *g, int64_t i) { return g->dense ? i : g->ids[i]; }
static inline float *embed__grad_row(const embed_grad *g, int64_t i) { return g->values + i * g->ld; }

/* For a head's gradient, which reaches every row: afterwards rows [0, rows) are all there and row r is
 * embed__grad_row(g, r), to be added to by whoever owns it; with `bias` g->bias [rows] is there as well. A sparse gradient
 * gets rows of zeros where it had none. E_MISMATCH: g's dim, its rows (a dense one with fewer, a sparse one with a row past
 * them, a bias of another length). On any error g is as before: call it behind the last thing that may fail. */
embed_status embed__grad_open(embed_context *ctx, embed_grad *g, int64_t rows, int64_t dim, bool bias);

/* The caller's options of a lookup as its backward call takes them: *o the copy, *scale rounded, *policy that of a table of this vocab.
 * E_OPTION, E_ARGUMENT (vocab). */
embed_status embed__backward_options(embed_context *ctx, const embed_lookup_options *opts, int64_t vocab, embed_lookup_options *o, float *scale,
                                     embed__id_policy *policy);

/* What is added to the rows that ids name: position p adds weight * upstream[source[p]] where
 * weight = scale * weights[p] / (by_frequency: positions of the same row). */
typedef struct embed__upstream {
  const unsigned char *at;
  int64_t row_bytes; /* from one row to the next */
  embed_dtype dtype; /* F32, F16 or BF16 */
  int64_t dim;
  const int64_t *source; /* [ids] upstream row of a position; NULL: the position */
  const float *weights;  /* [ids] or NULL: 1 */
  const int32_t *best;   /* [upstream rows, dim] or NULL; column c of an upstream row goes to the position `best` alone .. */
  const int64_t *begin;  /* .. counted from begin[upstream row] on */
  float scale;
  bool by_frequency;
} embed__upstream;

/* g += upstream, at the rows that ids name. The list has passed embed__check_ids; ids of padding and of rows of zeros are left
 * out. Sums of a row go on in the order of positions, call after call, in float: the bits do not depend on threads, nor on
 * how a list is cut into calls. E_MISMATCH: dim, or a dense g with fewer rows than the policy's vocab. On any error but
 * E_CALLBACK g is as before. */
embed_status embed__scatter(embed_context *ctx, embed_grad *g, const embed__ids *ids, const embed__id_policy *policy, const embed__upstream *up);

/* Norms, each row's in 16 lanes of doubles and rows in ascending order: the same for any thread count. */
typedef struct embed__grad_norms {
  double squares;          /* sum over all rows */
  double bias_squares;     /* of the bias, 0 without one */
  int64_t first_nonfinite; /* the first i whose row holds a NaN or an infinity, -1 = none */
  int64_t bias_nonfinite;  /* the first place of the bias that is none, -1 = none */
} embed__grad_norms;
embed_status embed__grad_measure(embed_context *ctx, const embed_grad *g, embed__grad_norms *out);
/* E_NONFINITE names the first row of the table, or else of the bias, whose gradient is not finite; norms may be NULL. */
embed_status embed__grad_check_finite(embed_context *ctx, const embed_grad *g, embed__grad_norms *norms);
/* What a gradient of this norm is multiplied by to keep within max_norm (0 = no limit): torch's clip_grad_norm_. */
static inline double embed__clip_factor(double norm, double max_norm) { return max_norm > 0 && norm > max_norm ? max_norm / (norm + 1e-6) : 1; }

#endif
