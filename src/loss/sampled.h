/* SPDX-License-Identifier: BSD-3-Clause */
/* Losses of a target and a few candidates, in two ways. */
#ifndef EMBED__SAMPLED_H
#define EMBED__SAMPLED_H

#include "loss/pairs.h"

/* What a call asked for, proved. */
typedef struct embed__sampled {
  embed__pairs pairs; /* but begin, ids and the loss */
  embed__few few;
  embed_sampled_kind kind;
  bool keep_hits;
  const int32_t *targets, *candidates;
  int64_t samples;
  const float *target_expected, *expected; /* logarithms, both or neither */
} embed__sampled;

/* The same candidates for all rows: as a small head, a chunk of hidden rows at a time. samples and counted rows are there. */
embed_status embed__sampled_shared(embed_context *ctx, const embed__sampled *s);

#endif
