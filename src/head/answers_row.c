/* SPDX-License-Identifier: BSD-3-Clause */
/* From what the slots kept of a row to its answers. */
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/least.h"
#include "head/answers_job.h"

/* Greedy rows draw the best; so do rows without a sampler. */
static bool is_greedy(const embed__asked_row *row) { return !row->sampler || row->sampler->greedy; }
static bool is_filtered(const embed__asked_row *row) { return !is_greedy(row) && !row->sampler->plain; }

/* One state from those of all slots. */
static embed__slot_row *gather_slots(embed__job *job, int64_t row) {
  embed__slot_row *state = embed__state(job, 0, row);
  for (int32_t slot = 1; slot < job->slots; ++slot) {
    const embed__slot_row *other = embed__state(job, slot, row);
    embed__topk_merge(&state->top, &other->top);
    if (job->gumbels) embed__gumbel_merge(&state->gumbel, &other->gumbel);
    state->before += other->before;
  }
  embed__topk_sort(&state->top);
  return state;
}

static void write_topk(const embed__job *job, int64_t at, const embed__topk *top) {
  const embed__request *r = job->r;
  const int64_t k = r->k, found = embed__min(top->count, k);
  for (int64_t j = 0; j < k; ++j) {
    if (r->topk_ids) r->topk_ids[at * k + j] = j < found ? embed__original(job, top->entries[j].id) : -1;
    if (r->topk_logits) r->topk_logits[at * k + j] = j < found ? top->entries[j].value : -INFINITY;
  }
  if (r->topk_count) r->topk_count[at] = (int32_t)found;
}

/* What log-probabilities are taken from when filters have left some ids of the row. */
typedef struct survivors {
  const embed__ranked *list; /* [count], or NULL: */
  const float *all;          /* [vocab], -inf for those that are gone */
  int64_t count;
} survivors;

static double survivor_logprob(const embed__asked_row *row, const embed__drawn *drawn, float z) {
  return embed__drawn_logprob(drawn, (double)z / row->sampler->temperature);
}

static double target_among(const embed__asked_row *row, const survivors *left, const embed__drawn *drawn) {
  if (left->all) return survivor_logprob(row, drawn, left->all[row->target_column]); /* -inf stays -inf */
  for (int64_t i = 0; i < left->count; ++i)
    if (left->list[i].id == row->target_column) return survivor_logprob(row, drawn, left->list[i].value);
  return -INFINITY;
}

static double entropy_of(const embed__asked_row *row, const survivors *left, const embed__drawn *drawn) {
  double entropy = 0;
  for (int64_t i = 0; i < left->count; ++i) {
    const float z = left->all ? left->all[i] : left->list[i].value;
    if (isinf(z)) continue;
    const double logprob = survivor_logprob(row, drawn, z);
    entropy -= logprob * exp(logprob);
  }
  return entropy < 0 ? 0 : entropy;
}

static void write_filtered(const embed__job *job, int64_t at, const embed__asked_row *row, const survivors *left, const embed__drawn *drawn) {
  const embed__request *r = job->r;
  if (r->logsumexp) r->logsumexp[at] = (float)(drawn->top + drawn->log_weights);
  if (r->entropy) r->entropy[at] = (float)entropy_of(row, left, drawn);
  if (r->target_logprob) r->target_logprob[at] = (float)target_among(row, left, drawn);
}

static void write_moments(const embed__job *job, int64_t at, const embed__asked_row *row, const embed__moments *m) {
  const embed__request *r = job->r;
  if (r->logsumexp) r->logsumexp[at] = (float)embed__moments_logsumexp(m);
  if (r->entropy) r->entropy[at] = (float)embed__moments_entropy(m);
  if (r->target_logprob) r->target_logprob[at] = (float)embed__moments_logprob(m, row->target);
}

/* The drawn token, and its log-probability by whichever distribution was asked for. */
static void write_token(embed__job *job, int64_t at, const embed__asked_row *row, const embed__drawn *drawn, const embed__moments *m) {
  const embed__request *r = job->r;
  if (r->token) r->token[at] = embed__original(job, drawn->column);
  if (!r->token_logprob) return;
  if (!r->processed)
    r->token_logprob[at] = (float)embed__moments_logprob(m, embed__own_logit(&row->edits, drawn->column, drawn->value));
  else if (is_filtered(row))
    r->token_logprob[at] = (float)drawn->logprob;
  else
    r->token_logprob[at] = (float)embed__moments_logprob(m, drawn->value);
}

static const embed__moments *row_moments(const embed__job *job, int64_t row) { return job->block_moments + row * job->blocks; }

/* Only a draw is refused for want of a distribution; its log-probabilities are NaN, as those without filters. */
static void refuse(embed__job *job, int64_t at, embed__outcome outcome) {
  const embed__request *r = job->r;
  if (outcome == EMBED__NOTHING) embed__keep_least(&job->empty, at);
  if (outcome != EMBED__UNDEFINED) return;
  if (r->token || r->token_logprob) embed__keep_least(&job->undefined, at);
  if (r->logsumexp) r->logsumexp[at] = NAN;
  if (r->entropy) r->entropy[at] = NAN;
  if (r->target_logprob) r->target_logprob[at] = NAN;
}

static void draw(embed__job *job, int64_t row, embed__slot_row *state) {
  embed__asked_row *of_row = &job->rows[row];
  embed__drawn drawn = {0};
  embed__outcome outcome = EMBED__DRAWN;
  const int64_t at = job->first + row;
  const embed__topk *top = &state->top;
  if (is_greedy(of_row)) {
    drawn.column = top->entries[0].id;
    drawn.value = top->entries[0].value;
  } else if (of_row->sampler->plain) {
    outcome = embed__sampler_take(of_row->sampler, &state->gumbel, NULL, &drawn);
  } else {
    embed__statistics *whole = NULL;
    if (of_row->sampler->needs_statistics) {
      whole = job->block_statistics + row * job->blocks;
      embed__merge_tree(whole, job->blocks, sizeof *whole, embed__statistics_merge);
    }
    outcome = embed__sampler_draw(of_row->sampler, top->entries, embed__min(top->count, of_row->sampler->keep), whole, job->map ? job->map->ids : NULL, &drawn);
  }
  if (outcome == EMBED__WANTS_ALL) {
    of_row->wants_all = true;
    return;
  }
  if (outcome != EMBED__DRAWN) {
    refuse(job, at, outcome);
    return;
  }
  write_token(job, at, of_row, &drawn, job->moments ? row_moments(job, row) : NULL);
  if (job->r->processed && is_filtered(of_row)) {
    const survivors left = {.list = top->entries, .count = drawn.survivors};
    write_filtered(job, at, of_row, &left, &drawn);
  }
}

static bool same_float(float a, float b) { return memcmp(&a, &b, sizeof a) == 0; }

void embed__answer_row(embed__job *job, int64_t row) {
  const embed__request *r = job->r;
  embed__asked_row *of_row = &job->rows[row];
  const int64_t at = job->first + row;
  embed__slot_row *state = gather_slots(job, row);
  write_topk(job, at, &state->top);
  if (state->top.count == 0 || (isinf(state->top.entries[0].value) && state->top.entries[0].value < 0)) {
    embed__keep_least(&job->empty, at);
    return;
  }
  if (job->moments) {
    embed__moments *m = job->block_moments + row * job->blocks;
    embed__merge_tree(m, job->blocks, sizeof *m, embed__moments_merge);
    if (!r->processed || !is_filtered(of_row)) write_moments(job, at, of_row, m);
  }
  if (r->target_rank) {
    of_row->recount = !same_float(of_row->guess, of_row->target);
    r->target_rank[at] = (int32_t)(state->before + 1);
  }
  if (job->draws && (r->token || r->token_logprob || is_filtered(of_row))) draw(job, row, state);
}

void embed__answer_rest(embed__job *job, int64_t row, embed__weighed *room) {
  embed__asked_row *of_row = &job->rows[row];
  const int64_t at = job->first + row;
  if (of_row->recount) {
    int64_t before = 0;
    for (int32_t slot = 0; slot < job->slots; ++slot) before += embed__state(job, slot, row)->before;
    job->r->target_rank[at] = (int32_t)(before + 1);
    of_row->recount = false;
  }
  if (!of_row->all) return;
  embed__drawn drawn = {0};
  embed__outcome outcome = embed__sampler_draw_all(job->kernels, of_row->sampler, of_row->all, job->map ? job->map->ids : NULL, room, &drawn);
  if (outcome != EMBED__DRAWN) {
    refuse(job, at, outcome);
  } else {
    const survivors left = {.all = of_row->all, .count = job->from->vocab};
    write_token(job, at, of_row, &drawn, job->moments ? row_moments(job, row) : NULL);
    if (job->r->processed) write_filtered(job, at, of_row, &left, &drawn);
  }
  of_row->all = NULL;
  of_row->wants_all = false;
}
