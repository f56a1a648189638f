/* SPDX-License-Identifier: BSD-3-Clause */
/* From processed logits (after scale, soft-cap, rules and penalties) to a drawn token. What a row needs of the sweep is one of
 *   greedy       temperature 0: the best candidate; filters do not matter
 *   plain        temperature alone: Gumbel-max, embed__gumbel_offer on every tile, no candidates
 *   filtered     the `keep` best candidates, and statistics of the whole row where needs_statistics says so; then embed__sampler_draw.
 *                It answers EMBED__WANTS_ALL where the candidates do not prove the answer; embed__sampler_draw_all then takes the whole row.
 * A candidate's or tile's number within the row is its `column`; `original` gives the id of a column for the noise (subset heads; NULL = the column).
 * Filters in the order of embed_sample_params.order, each on the renormalised survivors of the one before:
 *   HF        temperature, top-n-sigma, top-k, top-p, min-p, typical
 *   LLAMACPP  top-n-sigma, top-k, typical, top-p, min-p, temperature */
#ifndef EMBED__SAMPLER_H
#define EMBED__SAMPLER_H

#include "head/rules.h"
#include "sweep/topk.h"

enum { EMBED__CANDIDATES = 1024 /* at most kept of a row by the sweep */ };

/* embed_sample_params of one row, checked and normalised. */
typedef struct embed__sampler {
  uint64_t seed;
  int64_t position;
  int64_t vocab;                               /* columns of a row */
  double temperature;                          /* of the draw; 0 = greedy */
  double filter_temperature;                   /* of the probabilities that filters see: 1 for LLAMACPP and greedy */
  double top_p, min_p, typical_p, top_n_sigma; /* 0 = off */
  int64_t top_k, min_keep;                     /* top_k: vocab = off; 1 <= min_keep <= vocab (or 1) */
  embed_sample_order order;
  embed__penalties penalties;
  /* What the sweep does for it. */
  bool greedy, plain;    /* neither: filtered */
  bool needs_statistics; /* greedy and plain rows need them for `logprob` alone */
  int64_t keep;          /* candidates: 1 greedy, 0 plain, else <= EMBED__CANDIDATES */
} embed__sampler;

/* All rows' samplers in scratch: params_count 0 (greedy), 1 or n of them, params[0].size bytes apart. The sampler of row i is
 * (*out)[i * *stride]. E_OPTION and E_ARGUMENT name the row (at = the row). params may be NULL where params_count is 0. */
embed_status embed__samplers(embed_context *ctx, const embed_sample_params *params, int64_t params_count, int64_t n, int64_t vocab, const embed__sampler **out,
                             int64_t *stride);

/* Statistics of a whole row at the filters' temperature, of one block; merged in the sweep's tree (embed__merge_tree). */
typedef struct embed__statistics {
  double top, sum;             /* largest x = z / filter_temperature, sum of exp(x - top), to 1e-12 of it; of x above -inf */
  double count, mean, squares; /* of the z above -inf: how many, their mean, sum of (z - mean)^2 */
} embed__statistics;
embed__statistics embed__statistics_of(const embed__kernels *k, const embed__sampler *s, const float *z, int64_t n); /* n <= the sweep's block */
void embed__statistics_merge(void *a, const void *b);                                                                /* a takes b in */

/* Gumbel-max of one row and slot: the largest z / temperature + noise(seed, position, id), equal sums by the lower column. */
typedef struct embed__gumbel {
  double best;    /* -inf: nothing yet */
  int32_t column; /* -1: no logit above -inf */
  float value;    /* its z */
  bool undefined; /* a NaN or +inf was among them: there is no distribution */
} embed__gumbel;
embed__gumbel embed__gumbel_start(void);
/* z[0 .. n) are columns first .. first + n - 1; original: ids [n] of these columns, NULL = the columns themselves. n <= the sweep's block. */
void embed__gumbel_offer(const embed__kernels *k, const embed__sampler *s, embed__gumbel *g, const float *z, int64_t n, int32_t first, const int32_t *original);
void embed__gumbel_merge(embed__gumbel *g, const embed__gumbel *other);
/* The same for one column; id: its original one. */
void embed__gumbel_consider(const embed__sampler *s, embed__gumbel *g, float z, int32_t column, int32_t id);
/* upper [n <= the sweep's block] holds numbers that the z of these columns are not above, infinity or NaN where there is none. Columns that may
 * be drawn, though some column's z / temperature + noise is `best`, become infinity, the others -infinity; how many may. */
int64_t embed__gumbel_screen(const embed__kernels *k, const embed__sampler *s, double best, float *upper, int64_t n, int32_t first, const int32_t *original);

typedef enum embed__outcome {
  EMBED__DRAWN,
  EMBED__WANTS_ALL, /* the candidates do not prove what survives */
  EMBED__NOTHING,   /* no logit above -inf: E_NONFINITE */
  EMBED__UNDEFINED  /* NaN or +inf among the logits of a row that is not greedy: E_NONFINITE */
} embed__outcome;

typedef struct embed__drawn {
  int32_t column;
  float value;             /* its z */
  double logprob;          /* in the distribution drawn from; greedy and plain: in softmax(z / temperature), greedy with 1; NaN without statistics */
  double top, log_weights; /* embed__drawn_logprob; apart, since beside large logits their sum forgets the second */
  int64_t survivors;       /* filtered rows: candidates[0 .. survivors) on return (embed__sampler_draw), else how many z are left above -inf */
} embed__drawn;
/* Log-probability of a survivor: x = z / temperature, greedy: z. */
static inline double embed__drawn_logprob(const embed__drawn *d, double x) { return x - d->top - d->log_weights; }

/* Filtered rows and greedy ones. candidates: the best `count` of the row, sorted best first (embed__topk_sort), -inf among them is fine; count <
 * min(keep, vocab) does not happen. whole: statistics of the row, NULL only where needs_statistics is false. */
embed__outcome embed__sampler_draw(const embed__sampler *s, embed__ranked *candidates, int64_t count, const embed__statistics *whole, const int32_t *original,
                                   embed__drawn *out);
/* Plain rows: the merged state of all slots. */
embed__outcome embed__sampler_take(const embed__sampler *s, const embed__gumbel *g, const embed__statistics *whole, embed__drawn *out);

/* A row element of the second tier. */
typedef struct embed__weighed {
  float value;
  int32_t column;
  double weight; /* exp((z - largest z) / filter_temperature) */
} embed__weighed;
/* Any row, from all its logits z [vocab]: dropped ones are -inf on return. room: [vocab]. */
embed__outcome embed__sampler_draw_all(const embed__kernels *k, const embed__sampler *s, float *z, const int32_t *original, embed__weighed *room,
                                       embed__drawn *out);

#endif
