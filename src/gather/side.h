/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows that are copied, or decoded and scaled and rounded, several side by side (kernels/gather.h). */
#ifndef EMBED__GATHER_SIDE_H
#define EMBED__GATHER_SIDE_H

#include "table/ids.h"
#include "gather/rows.h"

typedef struct embed__side {
  /* Given. The ids have passed embed__check_ids; out does not add. */
  const embed_context *ctx;
  const embed_table *t;
  embed__ids ids;
  embed__id_policy policy;
  embed__sink out;
  float scale;
  bool copies; /* out has the stored bytes */
  /* Planned by embed__side_run. */
  embed__way way;
  int64_t rows_per_task;
  int64_t ahead; /* rows */
  unsigned char *stages;
  int64_t stage_rows, stage_bytes; /* of each worker */
} embed__side;

/* Whether the context's level has kernels for the rows of t. */
static inline bool embed__side_can(const embed_context *ctx, const embed_table *t, bool copies) {
  return copies ? ctx->kernels->gather.copy != NULL : ctx->kernels->gather.decode[t->codec->form] != NULL;
}
embed_status embed__side_run(embed_context *ctx, embed__side *side);

/* The stored rows of positions from on, up to the first that has none, EMBED__SIDE or `end`; how many. */
int embed__side_rows(const embed_table *t, const embed__ids *ids, const embed__id_policy *policy, int64_t from, int64_t end, const unsigned char **rows);
/* rows->ahead: the rows of positions from .. from + rows->count - 1, as far as there are any before `end`. */
void embed__side_fetch(const embed_table *t, const embed__ids *ids, const embed__id_policy *policy, int64_t from, int64_t end, embed__rows *rows);

#endif
