/* SPDX-License-Identifier: BSD-3-Clause */
/* One chunk of counted hidden rows on its way through loss and gradients. Logits lie transposed, a row of the table to a row and a
 * hidden row to each of `lanes` columns: so the three products read logits and slopes as they lie (kernels/gemm.h), and softmax goes
 * down the columns (kernels/softmax.h). */
#ifndef EMBED__PASS_H
#define EMBED__PASS_H

#include "loss/loss.h"
#include "sweep/logsumexp.h"

enum { EMBED__MOST_LANES = 256 };

typedef struct embed__lane { /* of a hidden row */
  int64_t at;                /* its position in the call */
  int32_t target;            /* negative: ignored */
  float target_logit;
  double logsumexp;
  embed__slope slope;
} embed__lane;

/* What the three products are made of. */
typedef enum embed__operands {
  EMBED__BY_FLOATS,  /* the numbers themselves */
  EMBED__BY_ROUNDED, /* rounded to bfloats that lie as floats, */
  EMBED__BY_WORDS,   /* or two in a word, where the CPU multiplies those: the same bits, but in tiles (kernels/gemm.h) */
  EMBED__BY_LIMBS    /* the numbers as sums of bfloats, two numbers' limbs in a word; where limbs do not hold the table's or slopes, by floats */
} embed__operands;

typedef struct embed__pass {
  const embed__loss_job *b;
  const embed__kernels *kernels;
  const embed_table *table;
  int64_t vocab, dim, blocks;
  /* The plan. */
  int64_t chunk, lanes; /* hidden rows of a full chunk, and that rounded up to whole vectors: the stride of logits */
  int64_t together;     /* table rows multiplied at once */
  int64_t segments;     /* of the table: each has a sum of d_hidden of its own */
  int64_t stored;       /* logits of table rows [0, stored) are kept from the forward pass, the others made again */
  embed__operands operands;
  bool floats;        /* the table's rows are floats in place */
  bool forward, back; /* log-sum-exp is found here; there are gradients */
  float times;        /* logits are multiplied by it in the end: 1, or 1 / temperature */
  /* The chunk. */
  int64_t rows;
  embed__lane *lane;
  float *by_row, *by_column;     /* hidden rows in strips: [lanes / 32][dim][32] and [dim / 32][rows][32], NULL unless there are gradients */
  float *z;                      /* [stored, lanes] logits, then their gradient */
  float *max;                    /* [blocks, lanes] */
  double *sum, *weighted;        /* [blocks, lanes] of exp(z - max); of weight * z, NULL unless smoothed */
  float *shift, *factor, *minus; /* [lanes]: the gradient's kernel */
  float *limit;                  /* [lanes] slopes that the filter may leave out, NULL without one */
  float *carry, *carry_bias;     /* Kahan's, [vocab, dim] and [vocab]: what sums over chunks have lost so far; NULL */
  float *partial;                /* [segments, rows, dim] d_hidden */
  /* Per worker. */
  float *made;              /* logits that are not stored: [1024, lanes] */
  float *room;              /* room_floats: rows of the table as floats, [together, decoded_ld], and in strips, [together * dim]; or their words */
  embed__logsumexp *states; /* [blocks] */
  /* EMBED__BY_WORDS, EMBED__BY_LIMBS (in 3 planes): instead of by_row, by_column, decoded and strips, with a word for two numbers that are summed one after the
   * other. */
  uint32_t *row_words, *column_words;                                           /* [lanes / 32][dim / 2][32] and [dim / 32][rows / 2][32] */
  uint32_t *slope_words;                                                        /* per worker: [together, lanes / 2], or [together / 2, lanes] */
  float *pair;                                                                  /* per worker: [2, dim], two rows */
  float *strip;                                                                 /* per worker: [dim, 32] */
  int64_t word_ld, row_plane, column_plane, table_plane, slope_plane, strip_ld; /* words of a plane; of the latter two a worker's */
  float *apart; /* [together, dim] gradients that are not added by the product itself, NULL where all are */
  int64_t decoded_ld, room_floats;
} embed__pass;

/* A pass of the job, planned but for the number of lanes. Then how many lanes a chunk has; then its scratch, where `stored` is set. */
embed__pass embed__pass_of(const embed_context *ctx, const embed__loss_job *b);
int64_t embed__pass_lane_bytes(const embed__pass *p); /* of a lane, without the vocabulary's stored logits */
void embed__pass_set_lanes(embed__pass *p, int64_t most);
embed_status embed__pass_scratch(embed_context *ctx, embed__pass *p);
/* The chunk's rows are those from position `next` on; returns where they end. */
int64_t embed__pass_choose(embed__pass *p, int64_t next);
/* Loss and d_hidden of ignored rows; a vocabulary of 0: d_hidden of all. */
void embed__pass_ignored(const embed__pass *p);

/* Steps of its tasks. Logits of table rows [first, first + count), count <= together; what slopes g of them add to the gradients (g is
 * spent: it may be rounded), where `add`: partial holds something; the log-sum-exp of a row over all blocks, once its logits have passed. */
void embed__pass_multiply(const embed__pass *p, int64_t first, int64_t count, float *z, int32_t worker);
void embed__pass_add(const embed__pass *p, float *g, int64_t first, int64_t count, float *partial, bool add, int32_t worker);
/* The same but for table rows that the filter leaves out; whether partial holds something now. */
bool embed__pass_add_filtered(const embed__pass *p, float *g, int64_t first, int64_t count, float *partial, bool add, int32_t worker);
embed__logsumexp embed__pass_all_blocks(const embed__pass *p, int64_t row, int32_t worker);
/* Whether the logits of table rows [first, first + count) are kept; where they lie, or are made. Rows are cut where their number says,
 * never where memory ends: sums of d_hidden do not depend on the chunk. */
static inline bool embed__pass_keeps(const embed__pass *p, int64_t first, int64_t count) { return first + count <= p->stored; }
static inline float *embed__pass_place(const embed__pass *p, int64_t first, int64_t count, int32_t worker) {
  return embed__pass_keeps(p, first, count) ? p->z + first * p->lanes : p->made + worker * EMBED__BLOCK * p->lanes;
}

/* Parts of these. Table rows that are wanted next, where they lie together; A times B to where the table's gradient is. */
const void *embed__pass_soon(const embed__pass *p, int64_t first, int64_t count, int64_t *bytes);
typedef void embed__pass_product(const embed__pass *p, const embed__gemm *g, int32_t worker);
void embed__pass_add_weights(const embed__pass *p, embed__gemm product, embed__pass_product *multiply, int64_t first, int64_t count, int32_t worker);
static inline float *embed__pass_decoded(const embed__pass *p, int32_t worker) { return p->room + worker * p->room_floats; }
static inline float *embed__pass_strips(const embed__pass *p, int32_t worker) { return embed__pass_decoded(p, worker) + p->together * p->decoded_ld; }
static inline bool embed__in_words(const embed__pass *p) { return p->operands == EMBED__BY_WORDS || p->operands == EMBED__BY_LIMBS; }
/* Of these (words.c): scratch, a strip of hidden rows, products alone, gradients. False: nothing is done, since limbs do not hold these rows of the
 * table, or slopes. */
embed_status embed__words_scratch(embed_context *ctx, embed__pass *p);
void embed__words_pack(const embed__pass *p, int64_t strip, int32_t worker);
/* A strip of hidden rows out of limbs, as by_row and as by_column have it. */
const float *embed__words_rows(const embed__pass *p, int64_t strip, int32_t worker);
const float *embed__words_columns(const embed__pass *p, int64_t strip, int32_t worker);
bool embed__words_multiply(const embed__pass *p, int64_t first, int64_t count, float *z, int32_t worker);
bool embed__words_add_hidden(const embed__pass *p, const float *g, int64_t first, int64_t count, float *partial, bool add, int32_t worker);
bool embed__words_add_weights(const embed__pass *p, const float *g, int64_t first, int64_t count, int32_t worker);

/* Its tasks: lanes / 32 of pack, blocks of logits, rows of slopes, segments of gradients, rows of d_hidden. */
void embed__pass_pack(void *pass, int64_t strip, int32_t worker);
void embed__pass_logits(void *pass, int64_t block, int32_t worker);
void embed__pass_slope(void *pass, int64_t row, int32_t worker);
void embed__pass_gradients(void *pass, int64_t segment, int32_t worker);
void embed__pass_hidden(void *pass, int64_t row, int32_t worker);

#endif
