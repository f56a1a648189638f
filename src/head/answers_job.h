/* SPDX-License-Identifier: BSD-3-Clause */
/* One sweep with its answers under way: what the files answers*.c share. */
#ifndef EMBED__ANSWERS_JOB_H
#define EMBED__ANSWERS_JOB_H

#include "head/answers.h"

/* Of softmax(scale * z) over some logits: entropy = log(sum) - moment / sum. Merged in the sweep's tree. */
typedef struct embed__moments {
  double scale, sum, moment; /* of e = exp(scale * (z - max)), as in embed__logsumexp; of e * scale * (z - max) */
  float max;
} embed__moments;
embed__moments embed__moments_of(const embed__kernels *k, const float *z, int64_t n, double scale, bool with_moment);
void embed__moments_merge(void *a, const void *b); /* a takes b in */
double embed__moments_logsumexp(const embed__moments *m);
double embed__moments_entropy(const embed__moments *m);
double embed__moments_logprob(const embed__moments *m, float z);

/* One row of the chunk. */
typedef struct embed__asked_row {
  const embed__sampler *sampler; /* NULL = greedy */
  embed__edits edits;
  double scale;          /* of its moments */
  int32_t target_column; /* -1 = no target */
  int32_t target_id;
  float guess;             /* the target's logit as made before the sweep: ids are counted against it */
  float target;            /* as the sweep makes it */
  bool recount, wants_all; /* what a second sweep is for */
  float *all;              /* second sweep: the processed logits are copied there [vocab] */
} embed__asked_row;

/* What each slot keeps of one row. */
typedef struct embed__slot_row {
  embed__topk top;
  embed__gumbel gumbel;
  int64_t before; /* ids that rank before the target */
} embed__slot_row;

typedef struct embed__job {
  embed__source *from;
  const embed__request *r;
  const embed__kernels *kernels;
  const embed__id_map *map; /* subset, or NULL */
  /* What is kept on the way. */
  bool ranked;    /* anything but bare logits: heaps are kept, a row without a logit above -inf is refused */
  bool tops;      /* top-k is asked */
  bool draws;     /* tokens, or what depends on which ids survive the filters */
  bool processes; /* rules and penalties have a say */
  bool targets, moments, with_moment, counts, statistics, gumbels;
  int64_t blocks, capacity, chunk;
  int64_t room; /* entries per heap or list */
  int32_t slots;
  embed__ranked *entries;                    /* [slots, chunk, room] */
  embed__slot_row *states;                   /* [slots, chunk] */
  embed__asked_row *rows;                    /* [chunk] */
  embed__moments *block_moments;             /* [chunk, blocks] */
  embed__statistics *block_statistics;       /* [chunk, blocks] */
  float *copies;                             /* [workers, block]: tiles of the caller's logits that rules change */
  int64_t first;                             /* answers' row of the chunk's row 0 */
  int64_t count;                             /* rows of this chunk */
  bool second;                               /* the second sweep of a chunk */
  _Atomic int64_t refused, empty, undefined; /* least row with a NaN that is an error, nothing to rank, no distribution */
} embed__job;

static inline embed__slot_row *embed__state(const embed__job *job, int32_t slot, int64_t row) { return &job->states[(int64_t)slot * job->chunk + row]; }
static inline const int32_t *embed__tile_ids(const embed__job *job, int64_t column) { return job->map ? job->map->ids + column : NULL; }
static inline int32_t embed__original(const embed__job *job, int32_t column) { return job->map ? job->map->ids[column] : column; }

/* Takes finished logits z of one row, some columns of one block; they may be changed. */
void embed__take_logits(embed__job *job, int64_t row, int32_t slot, float *z, int64_t n, int64_t column);
/* Whether the caller's logits of a row are not what is ranked. */
bool embed__changes_given(const embed__job *job, int64_t row);
/* The same where z must not be changed; copy: room for n. */
void embed__take_given(embed__job *job, int64_t row, int32_t slot, const float *z, int64_t n, int64_t column, float *copy);
/* How many of z rank before a target of this logit. */
int64_t embed__ranks_before(const embed__kernels *k, const float *z, int64_t n, int64_t column, const embed__id_map *map, float target, int64_t target_column);

/* The targets' logits of the chunk, before the sweep: rows[].guess. */
embed_status embed__guess_targets(embed_context *ctx, embed__job *job);
/* After the sweep: answers of a row, or what a second sweep is wanted for. */
void embed__answer_row(embed__job *job, int64_t row);
/* After the second sweep: the rest of a row's answers. room: [vocab] where row.all is set. */
void embed__answer_rest(embed__job *job, int64_t row, embed__weighed *room);

#endif
