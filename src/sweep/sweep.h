/* SPDX-License-Identifier: BSD-3-Clause */
/* Every row of a table times a block of hidden vectors, tile by tile, with a reducer that takes each tile while it is in
 * cache. Logits, top-k, log-sum-exp, neighbours (later loss and sampling) are reducers of this one loop.
 *
 * What is fixed here, and what results may rely on:
 *   block    1,024 table rows, counted from row 0; a tile never crosses a block. States of a reduction over the
 *            vocabulary are kept per block and merged by embed__merge_tree: pairs of neighbours, then pairs of pairs.
 *   sum      the order within one product is the kernel's (kernels/dot.h): it depends on dim alone. Products by OpenBLAS
 *            have its order, on a grid of calls that n, vocab and dim fix.
 *   tasks    cut by the problem, never by the number of workers: any pool gives the same bits.
 * Only rows [0, vocab) are swept: padding rows do not exist here. */
#ifndef EMBED__SWEEP_H
#define EMBED__SWEEP_H

#include "kernels/panel.h"
#include "table/table.h"

enum { EMBED__BLOCK = 1024, EMBED__TILE_LD = EMBED__BLOCK + 16 /* of tiles in scratch: rows 4,096 bytes apart would share the same few lines of a cache */ };

/* Products of some hidden rows with some table rows of one block. */
typedef struct embed__tile {
  float *z; /* z[i * ldz + c]: hidden row first + i times table row column + c; the reducer may change them */
  int64_t ldz;
  int64_t first, rows;
  int64_t column, columns;
  int32_t slot; /* no two tiles of one slot are taken at once; below the sweep's slots */
} embed__tile;

/* How products are made; plan.c says when. */
typedef enum embed__way {
  EMBED__IN_PLACE, /* on rows as they are stored, by a multiplier (kernels/panel.h) or dot.h's tiles; rows that neither
                    * reads are decoded, 32 at a time */
  EMBED__PACKED,   /* on panels that each worker makes of some rows at a time */
  EMBED__PREPARED, /* on the head's own panels */
  EMBED__BY_BLAS
} embed__way;

typedef struct embed__sweep {
  /* Given. */
  const embed_table *table;
  const struct embed__prepared *prepared; /* of the table, or NULL */
  const unsigned char *x;                 /* hidden [n, dim] */
  embed_dtype x_dtype;
  embed__activation activation;
  const int64_t *rows; /* of x that are swept, [n]; NULL = the first n */
  int64_t n, ldx;
  float *out; /* [n, vocab] where the products are wanted; NULL = tiles in scratch */
  int64_t ldout;
  bool force_blas;
  int64_t state_bytes;                                  /* that the reducer keeps per hidden row and slot: bounds chunk */
  void (*take)(void *reducer, const embed__tile *tile); /* may be NULL with out */
  void *reducer;
  /* Planned by embed__sweep_begin, from n, vocab, dim, dtype and the context's level and flags. */
  embed__way way;
  const embed__multiplier *multiplier; /* NULL: dot.h's tiles, or OpenBLAS */
  bool round;                          /* hidden rows are rounded to the activation before they are multiplied */
  int64_t chunk;                       /* hidden rows swept at once */
  int64_t part, task;                  /* of them packed together, a tile's */
  int64_t panels;                      /* that meet all hidden rows of a task before the next ones */
  int form;                            /* embed__panel_form of panels */
  int32_t slots;
  bool direct;            /* the table's own floats are what is multiplied: not a decoded copy */
  float *hidden;          /* [chunk, dim], when x is not F32, or rounded */
  unsigned char *packed;  /* hidden rows as the multiplier has them, part by part */
  unsigned char *beyond;  /* [chunk] which of them are beyond digits; NULL: the multiplier has none (embed__in_digits) */
  float *one;             /* a row made floats for them, per worker, or NULL */
  unsigned char *made;    /* panels, per worker */
  bool streaming;         /* tiles go to out past the caches */
  int64_t tile_rows;      /* of a tile in scratch; 0: products are written where the caller wants them */
  float *tiles;           /* [tile_rows, TILE_LD] per worker; or those of one call of OpenBLAS, when out is NULL */
  float *decoded;         /* rows made floats, per worker or for one call of OpenBLAS */
  int64_t part_bytes;     /* of packed */
  int64_t panel_bytes;    /* of a panel made or prepared */
  int64_t decoded_floats; /* per worker */
} embed__sweep;

/* Plans and takes scratch. E_UNSUPPORTED: force_blas without OpenBLAS or in a reproducible context. */
embed_status embed__sweep_begin(embed_context *ctx, embed__sweep *s);
/* Sweeps hidden rows [first, first + chunk) or what is left of them. Tiles carry row numbers from 0 within the chunk;
 * when it returns, all its tiles have been taken. */
embed_status embed__sweep_chunk(embed_context *ctx, embed__sweep *s, int64_t first);

/* Whether vdpbf16ps is worth using, where the context's level has it. */
bool embed__pair_products_pay(const embed_context *ctx);
/* The form of panel that holds a table's rows, -1 = none: such rows are decoded. */
int embed__form_of(const embed_table *t);
/* Whether the sweep's panels are made of rows as they are stored: rows of others are decoded first. */
static inline bool embed__packs_stored(const embed__sweep *s) {
  const int stored = embed__form_of(s->table);
  return stored >= 0 && (s->form == stored || (!embed__is_quantised_form(stored) && s->form == embed__limbs_of(stored)));
}
/* Whether a multiplier of panels or rows of this form makes digits of hidden rows. They have no infinity: NaN comes out, where floats have
 * infinities. And they end 2^-47 below the largest number: what is smaller than 2^-28 of it, and meets weights where that meets zeros, would be
 * off by more than 2^-19. Rows with either are multiplied as floats instead, by embed__product. Q8_0 itself holds neither. */
static inline bool embed__in_digits(int form, embed__activation activation) { return embed__is_quantised_form(form) && activation != EMBED__ROUNDED_Q8_0; }
bool embed__beyond_digits(const float *x, int64_t dim);
/* Whether panels of limbs may meet these hidden rows (kernels/panel.h): those of numbers `rows`, or the first n. */
bool embed__limbs_hold_rows(const embed__kernels *k, const unsigned char *x, embed_dtype dtype, const int64_t *rows, int64_t n, int64_t ldx, int64_t dim);
/* x[j] = x[j] rounded to the activation's dtype. */
void embed__round_activation(const embed__kernels *k, embed__activation activation, float *x, int64_t dim);

/* z[i * ldz + r] = row (first + r) of the table times x row i, by the library's kernels, for r < count; decoded:
 * room for embed__decoded_floats(t), may be NULL when that is 0. */
void embed__product(const embed__kernels *k, const embed_table *t, int64_t first, int64_t count, const float *x, int64_t ldx, int64_t n, float *decoded,
                    float *z, int64_t ldz);
int64_t embed__decoded_floats(const embed_table *t); /* -1: too many to count; scratch then refuses */
int64_t embed__decoded_rows(const embed_table *t);   /* of them, 0 where rows are multiplied as they are stored */

/* Merges states[0 .. count) into states[0]; merge(a, b): a takes b in. Order: the binary tree over the block numbers. */
void embed__merge_tree(void *states, int64_t count, size_t state_bytes, void (*merge)(void *a, const void *b));

#endif
