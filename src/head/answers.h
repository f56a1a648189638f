/* SPDX-License-Identifier: BSD-3-Clause */
/* One sweep, several answers: the one entry behind embed_sweep, embed_sweep_logits, embed_topk, embed_sample and embed_verify. */
#ifndef EMBED__ANSWERS_H
#define EMBED__ANSWERS_H

#include "head/head.h"
#include "head/rules.h"
#include "head/sampler.h"

/* Where logits come from: a head's sweep of hidden rows, or the caller's own array. */
typedef struct embed__source {
  const embed_head *head; /* NULL: logits */
  embed__sweep sweep;     /* of the head: embed__head_sweep filled it */
  const float *logits;    /* [*, vocab], never written */
  int64_t ld_logits;
  int64_t vocab;       /* of a row of logits; a subset's is its own */
  const int64_t *rows; /* row i of the answers is row rows[i] of hidden or logits; NULL = i */
  int64_t n;           /* rows answered for */
} embed__source;

/* What is asked, already checked, and where the answers go: NULL = not asked. Ids are original ones (subset heads). */
typedef struct embed__request {
  embed_nan_policy nan;
  bool processed;                  /* log-probabilities, ranks and entropy after rules, temperature and filters */
  int32_t k;                       /* columns of topk_ids and topk_logits */
  bool ranks;                      /* top-k is asked, even if k is 0 and there is nothing to write */
  const int32_t *targets;          /* [n] */
  const embed_rules *const *rules; /* [n], entries may be NULL; or NULL */
  const embed__sampler *samplers;  /* [1] or [n]; NULL = none: greedy, no penalties */
  int64_t sampler_stride;          /* sampler of row i is samplers[i * sampler_stride]: 0 or 1 */
  float *logits;                   /* [n, vocab], rows ld_out apart: after scale, soft-cap, rules and penalties */
  int64_t ld_out;
  float *logsumexp, *entropy; /* [n] */
  int32_t *topk_ids;          /* [n, k] */
  float *topk_logits;         /* [n, k] */
  int32_t *topk_count;        /* [n] */
  float *target_logprob;      /* [n] */
  int32_t *target_rank;       /* [n] */
  int32_t *token;             /* [n] */
  float *token_logprob;       /* [n] */
} embed__request;

/* Sweeps, reduces, answers. E_NONFINITE (at = the row of the answers), E_CANCELLED, E_CALLBACK: outputs unspecified. May be called
 * several times within one public call (embed_verify): scratch that it takes is given back to the call. */
embed_status embed__answer(embed_context *ctx, embed__source *from, const embed__request *r);

/* Checks before any work: rules [n] belong to this vocabulary (E_MISMATCH; at = the row); targets lie in it (E_ID; at = the row). head may be NULL;
 * vocab is the head's original vocabulary, or the width of the caller's logits. */
embed_status embed__check_rules(embed_context *ctx, const embed_rules *const *rules, int64_t n, int64_t vocab);
embed_status embed__check_targets(embed_context *ctx, const embed_head *head, const int32_t *targets, int64_t n, int64_t vocab);
/* Rows that are answered for: none negative (E_ARGUMENT, at = position), products of their strides fit. */
embed_status embed__check_rows(embed_context *ctx, const int64_t *rows, int64_t n, int64_t ld, int64_t element_bytes);

#endif
