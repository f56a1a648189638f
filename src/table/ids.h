/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of ids, and what an id outside the vocabulary gives: what gather and scatter share. */
#ifndef EMBED__IDS_H
#define EMBED__IDS_H

#include <embed/lookup.h>
#include <stdbool.h>

#include "core/context.h"

/* The caller's list, of either width: read in place, so that a million ids are not copied to be widened. */
typedef struct embed__ids {
  const void *at;
  int64_t n;
  bool wide; /* int64_t, else int32_t */
} embed__ids;

static inline int64_t embed__id_at(const embed__ids *ids, int64_t position) {
  return ids->wide ? ((const int64_t *)ids->at)[position] : ((const int32_t *)ids->at)[position];
}

typedef struct embed__id_policy {
  int64_t vocab;
  int64_t unk_id;
  int64_t padding_id;
  embed_oov_policy oov;
  bool padding; /* padding_id means something */
} embed__id_policy;

enum { EMBED__ROW_ZERO = -1, EMBED__ROW_PADDING = -2 }; /* instead of a stored row */

/* What the policy puts in place of an id outside the vocabulary. */
int64_t embed__replaced_row(const embed__id_policy *p, int64_t id);

/* The stored row that an id reads, or EMBED__ROW_ZERO or EMBED__ROW_PADDING. The list has passed embed__check_ids. */
static inline int64_t embed__row_of_id(const embed__id_policy *p, int64_t id) {
  if (p->padding && id == p->padding_id) return EMBED__ROW_PADDING;
  return (uint64_t)id < (uint64_t)p->vocab ? id : embed__replaced_row(p, id);
}

/* E_OPTION: no such policy, or an unk_id that is no row of the vocabulary. */
embed_status embed__check_policy(embed_context *ctx, int64_t vocab, bool padding, embed_oov_policy oov, int64_t unk_id, int64_t padding_id,
                                 embed__id_policy *out);
/* Proves the whole list: E_ID names the first id that the policy cannot place. *replaced = how many it replaces. */
embed_status embed__check_ids(embed_context *ctx, const embed__ids *ids, const embed__id_policy *p, int64_t *replaced);
/* Offsets [bags + 1] of bags: ascending, the first 0, the last n. E_ARGUMENT names the first wrong one's index; its text calls what is
 * grouped and the groups by these names ("ids", "bags"). */
embed_status embed__check_offsets(embed_context *ctx, const int64_t *offsets, int64_t bags, int64_t n, const char *members, const char *groups);
/* What rows are multiplied by: 0 = 1, rounded to scale_round, as a 16-bit model holds its scale in its own type (sqrt(3072)
 * is 55.5 in bf16). E_OPTION: not finite, past scale_round's range, no float dtype, or a max_norm that is none. */
embed_status embed__check_scale(embed_context *ctx, const embed_lookup_options *o, float *scale);

#endif
