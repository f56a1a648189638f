/* SPDX-License-Identifier: BSD-3-Clause */
/* One sequence's bans, allowed ids, biases and history: what happens to its logits after scale and soft-cap. */
#ifndef EMBED__RULES_H
#define EMBED__RULES_H

#include <embed/head.h>
#include <stdbool.h>

#include "core/context.h"

typedef struct embed__rule {
  int32_t id;
  bool banned;
  float bias; /* finite */
} embed__rule;

struct embed_rules {
  embed_allocator memory;
  int64_t vocab;
  embed__rule *list; /* ascending by id, no two alike */
  int64_t count, room;
  uint32_t *allowed; /* [ceil(vocab / 32)], the memory of the first call is kept */
  bool all_allowed;
  int32_t *history; /* oldest first */
  int64_t pushed, history_room;
};

/* Penalties on the ids of a history. */
typedef struct embed__penalties {
  double repetition, frequency, presence; /* 1, 0, 0 = none */
  int64_t last_n;                         /* of the history; 0 = all */
} embed__penalties;

/* What one id's logit suffers in one sweep: + bias, then the penalties, then the ban. */
typedef struct embed__edit {
  int32_t column; /* of the row of logits */
  int32_t count;  /* in the history looked at; 0 = no penalty */
  float bias;
  bool banned;
  float own; /* written when the tile passes: the logit as it was */
} embed__edit;

/* One row's rules, ready for its tiles. */
typedef struct embed__edits {
  embed__edit *list; /* ascending by column */
  int64_t count;
  const uint32_t *allowed; /* bits of original ids, NULL = all */
  embed__penalties penalties;
} embed__edits;

/* The original ids of a subset's columns. */
typedef struct embed__id_map {
  int64_t count;
  int32_t *ids;     /* [count], by column */
  uint64_t *sorted; /* [count], id << 32 | column, ascending */
  bool ascending;   /* ids are */
  uint64_t checksum;
} embed__id_map;
int32_t embed__column_of(const embed__id_map *map, int32_t id); /* -1: it is not in the subset */

/* Into scratch of the call; r NULL = nothing. map: of a subset head, or NULL; ids that are not in it are passed over. */
embed_status embed__edits_of(embed_context *ctx, const embed_rules *r, const embed__penalties *p, const embed__id_map *map, embed__edits *out);
static inline bool embed__edits_nothing(const embed__edits *e) { return e->count == 0 && !e->allowed; }
/* z[0 .. n) are columns first .. first + n - 1; ids: their original ids, NULL = the columns. */
void embed__edit_tile(const embed__edits *e, float *z, int64_t n, int64_t first, const int32_t *ids);
/* A column's logit before the rules, value being that after them. Once all tiles have passed. */
float embed__own_logit(const embed__edits *e, int32_t column, float value);

#endif
