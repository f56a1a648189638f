/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimiser of one table: its numbers, and what it remembers of every row. A kind is a form: one function that
 * updates one row; everything else is shared. */
#ifndef EMBED__OPTIM_H
#define EMBED__OPTIM_H

#include <embed/optim.h>
#include <stdbool.h>

#include "core/refcount.h"
#include "table/table.h"

/* What a form has found out about all rows of a step before the first is updated. */
typedef struct embed__survey {
  const float *profile; /* [dim] */
  float factor, most;
} embed__survey;

/* One row while it is updated, all in floats. */
typedef struct embed__trained_row {
  int64_t row, dim;
  float *w;
  const float *g; /* scaled; l2 * w is added for forms that want it */
  float *slot[2]; /* moments and the like */
  float *scalars; /* [form->scalars] */
  float *work;    /* [dim], the form's own */
  int64_t next;   /* the row that comes after it, to be fetched on the way; -1 = none */
  const embed__survey *survey;
} embed__trained_row;

/* What a form has use for; anything else that is not 0 is refused. */
enum { EMBED__TAKES_BETA1 = 1, EMBED__TAKES_BETA2 = 2, EMBED__TAKES_EPSILON = 4, EMBED__TAKES_MOMENTUM = 8, EMBED__TAKES_DECAY = 16, EMBED__TAKES_L1 = 32 };
enum { EMBED__MOST_SLOTS = 2 };

struct embed__updating;

typedef struct embed__optimizer_form {
  const char *name;
  uint32_t takes, flags;                               /* EMBED__TAKES_*, EMBED_OPTIM_* */
  int slots;                                           /* rows of floats beside each row; with EMBED__TAKES_MOMENTUM none without momentum */
  int scalars;                                         /* floats beside each row */
  bool columns;                                        /* a float beside each column of the table */
  bool l2;                                             /* weight decay is added to the gradient */
  bool by_column;                                      /* update looks at each column alone: some of a row at a time are as good */
  bool own_step;                                       /* `step` of numbers counts the steps of the row, not of the table */
  bool deferred;                                       /* rows without gradient catch up later */
  double beta1, beta2, epsilon;                        /* defaults */
  bool (*every_row)(const embed_optimizer_options *o); /* rows without gradient move too; NULL = never */
  void (*numbers)(const embed_optimizer_options *o, double lr, int64_t step, embed__opt_numbers *n); /* of step 1, 2, ..; n is zeroed */
  void (*update)(const embed__kernels *k, const embed_optimizer_options *o, const embed__opt_numbers *n, embed__trained_row *r);
  /* Before the first row of a step: a look at the rows that will be updated, those of g that are not frozen, in an order of their own; the
   * last thing that may fail, and on E_MEMORY nothing has changed. NULL = none. */
  embed_status (*survey)(embed_context *ctx, const struct embed__updating *u, const embed_grad *g, float scale, embed__survey *out);
} embed__optimizer_form;

/* One per line of the registry, each in a file of its own. */
#define OPTIMIZER(constant, name) extern const embed__optimizer_form embed__optimizer_##name;
#include "optim/optimizers.def"
#undef OPTIMIZER
const embed__optimizer_form *embed__optimizer_find(embed_optimizer_kind kind); /* NULL = no such kind */

typedef struct embed__history embed__history; /* history.h */

struct embed_optimizer {
  embed__refcount references;
  embed_allocator memory;
  const embed__optimizer_form *form;
  embed_optimizer_options o; /* resolved: the defaults stand in place of zeros */
  int64_t rows, dim;         /* of the table; rows: its vocab */
  embed_dtype dtype;         /* of the table */
  int64_t step;              /* steps taken */
  int slots;
  int64_t slot_bytes, state_bytes; /* of one slot of a row; from one row's slots to the next's */
  unsigned char *state;            /* [rows], state_bytes each, or NULL */
  float *scalars;                  /* [rows, form->scalars] or NULL */
  float *columns;                  /* [dim] or NULL */
  int64_t *stamps;                 /* [rows] or NULL; deferred: the step that the row is at, own_step: its steps */
  unsigned char *frozen;           /* bit r % 8 of byte r / 8: row r stays as it is; NULL = none */
  embed__history *history;         /* deferred */
  void *block;                     /* holds scalars, columns, stamps and state */
  int64_t block_bytes;
  size_t block_alignment;
};

static inline bool embed__is_frozen(const embed_optimizer *o, int64_t row) { return o->frozen && (o->frozen[row >> 3] >> (row & 7) & 1); }
static inline int64_t embed__bitmap_bytes(int64_t rows) { return (rows + 7) / 8; }

/* The stamp of a row that never had gradient is the complement of its step: its moments are 0. */
static inline bool embed__is_new(int64_t stamp) { return stamp < 0; }
static inline int64_t embed__stamp_step(int64_t stamp) { return stamp < 0 ? ~stamp : stamp; }
static inline int64_t embed__stamp_at(int64_t stamp, int64_t step) { return stamp < 0 ? ~step : step; } /* new or not as before */

enum {
  EMBED__OPTIM_FLAGS = EMBED_OPTIM_BETA1_ZERO | EMBED_OPTIM_BETA2_ZERO | EMBED_OPTIM_EPSILON_ZERO | EMBED_OPTIM_REPLAY | EMBED_OPTIM_LAZY |
                       EMBED_OPTIM_NESTEROV | EMBED_OPTIM_NEAREST
};
/* Checked options, defaults put in. */
embed_status embed__optimizer_options(embed_context *ctx, const embed_optimizer_options *given, embed_optimizer_options *o, const embed__optimizer_form **form);
/* A zeroed state for t. */
embed_status embed__optimizer_new(embed_context *ctx, const embed_table *t, const embed_optimizer_options *o, embed_optimizer **out);
void embed__optimizer_release(embed_optimizer *o); /* NULL is fine */
/* That t is what o was made for: rows, dim, dtype; and that it may be written. */
embed_status embed__optimizer_fits(embed_context *ctx, const embed_optimizer *o, const embed_table *t);

/* Rows of a table and their state as floats, in place where they are floats at float addresses. */
typedef struct embed__updating {
  const embed__kernels *kernels;
  embed_optimizer *o;
  embed_table *t;
  float *scratch;     /* [workers, EMBED__ROWS_OF_SCRATCH, dim] */
  const float *zeros; /* [dim] */
  double lr;          /* of the step */
  const embed__survey *survey;
  bool in_place, state_in_place;
} embed__updating;
enum { EMBED__ROWS_OF_SCRATCH = 3 + EMBED__MOST_SLOTS };
embed_status embed__updating_begin(embed_context *ctx, embed_optimizer *o, embed_table *t, embed__updating *u);
void embed__row_open(const embed__updating *u, int32_t worker, int64_t row, embed__trained_row *r);
void embed__row_close(const embed__updating *u, embed__trained_row *r, int64_t step); /* rounds what is not stored as floats; step picks the noise */
static inline float *embed__gradient_room(const embed__updating *u, int32_t worker) {
  return u->scratch + ((int64_t)worker * EMBED__ROWS_OF_SCRATCH + 2 + EMBED__MOST_SLOTS) * u->t->dim;
}
/* Fetches the row and its state into the caches, ahead of its turn. */
void embed__row_prefetch(const embed__updating *u, int64_t row);
/* Whether a step does that by itself, some columns at a time, for the row that it is told of: then memory is never idle. */
static inline bool embed__fetches_ahead(const embed__updating *u) { return u->in_place && u->state_in_place && u->o->form->by_column && !u->o->history; }
/* One step of one row that is open; g NULL = no gradient. */
void embed__row_step(const embed__updating *u, embed__trained_row *r, float *room, const float *g, float scale, const embed__opt_numbers *n);

#endif
