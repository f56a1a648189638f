/* SPDX-License-Identifier: BSD-3-Clause */
/* The loss alone: a log-sum-exp state per hidden row and block, the target's logit as it passes by. */
#include <math.h>

#include "core/checked.h"
#include "core/error.h"
#include "loss/loss.h"
#include "sweep/logsumexp.h"

typedef struct forward_job {
  const embed_head *head;
  const embed__kernels *kernels;
  const embed__loss *loss;
  const int32_t *targets;
  int64_t first, blocks;    /* first: hidden row of the chunk's row 0 */
  embed__logsumexp *states; /* [chunk, blocks] */
  double *sums;             /* [chunk, blocks] of weight * z, or NULL */
  float *target;            /* [chunk] the target's logit */
} forward_job;

/* In 8 lanes, so that the additions need not wait for one another. A class of weight 0 is left out: its logit may be -inf. */
static double weighted_sum(const float *z, const float *weight, int64_t n) {
  enum { LANES = 8 };
  double sum[LANES] = {0};
  for (int64_t c = 0; c < n; ++c)
    if (!weight || weight[c] != 0) sum[c % LANES] += (double)z[c] * (weight ? (double)weight[c] : 1);
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

static void take_tile(void *arg, const embed__tile *tile) {
  forward_job *job = arg;
  const float *weight = job->loss->weight ? job->loss->weight + tile->column : NULL;
  embed__finish_logits(job->head, tile->z, tile->ldz, tile->rows, tile->column, tile->columns);
  for (int64_t i = 0; i < tile->rows; ++i) {
    const float *z = tile->z + i * tile->ldz;
    int64_t row = tile->first + i, state = row * job->blocks + tile->column / EMBED__BLOCK, target = job->targets[job->first + row] - tile->column;
    job->states[state] = embed__logsumexp_of(job->kernels, z, tile->columns);
    if (job->sums) job->sums[state] = weighted_sum(z, weight, tile->columns);
    if (target >= 0 && target < tile->columns) job->target[row] = z[target];
  }
}

static void answer(forward_job *job, int64_t row, float *loss, float *logsumexp) {
  const int64_t at = job->first + row;
  const int32_t target = job->targets[at];
  embed__logsumexp *states = job->states + row * job->blocks;
  embed__merge_tree(states, job->blocks, sizeof *states, embed__logsumexp_merge);
  double sum = 0, all = job->blocks ? embed__logsumexp_exact(&states[0]) : -INFINITY;
  if (job->sums)
    for (int64_t b = 0; b < job->blocks; ++b) sum += job->sums[row * job->blocks + b];
  if (logsumexp) logsumexp[at] = (float)all;
  if (loss) loss[at] = target == job->loss->ignore ? 0 : (float)embed__row_loss(job->loss, all, (double)job->target[row], sum, target);
}

embed_status embed__loss_forward(embed_context *ctx, const embed_head *h, const embed__loss *l, embed__sweep *s, const int32_t *targets, float *loss,
                                 float *logsumexp) {
  forward_job job = {.head = h, .kernels = ctx->kernels, .loss = l, .targets = targets, .blocks = embed__ceil_div(l->vocab, EMBED__BLOCK)};
  s->state_bytes = job.blocks * (int64_t)(sizeof *job.states + sizeof *job.sums);
  s->take = take_tile;
  s->reducer = &job;
  EMBED__TRY(embed__sweep_begin(ctx, s));
  EMBED__TRY(embed__scratch_matrix(ctx, s->chunk, job.blocks, sizeof *job.states, &job.states));
  if (embed__is_smooth(l)) EMBED__TRY(embed__scratch_matrix(ctx, s->chunk, job.blocks, sizeof *job.sums, &job.sums));
  EMBED__TRY(embed__scratch_get(ctx, s->chunk, sizeof *job.target, &job.target));
  for (job.first = 0; job.first < s->n; job.first += s->chunk) {
    EMBED__TRY(embed__sweep_chunk(ctx, s, job.first));
    for (int64_t row = 0; row < embed__min(s->chunk, s->n - job.first); ++row) answer(&job, row, loss, logsumexp);
  }
  return EMBED_OK;
}
