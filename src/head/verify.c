/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_verify: drafts are accepted with min(1, p / q), else a token is drawn from max(p - q, 0), so that what comes out is
 * distributed as p whatever q is. Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding", 2023. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/philox.h"
#include "head/answers.h"
#include "thread/run.h"

enum { LOGITS_BYTES = 64 << 20 /* of hidden rows swept together */ };

/* What a hidden row says of its draft, or draws where it has none. */
typedef struct verdict {
  embed__outcome outcome;
  bool accepted;
  int32_t token; /* column, when the draft is not accepted */
} verdict;

/* A hidden row's place: the sequence, and which of its rows. */
typedef struct place {
  int64_t sequence, at;
} place;

typedef struct verify_job {
  const embed_head *head;
  const embed__kernels *kernels;
  int64_t vocab, seqs, n;
  const int64_t *offsets;
  const int32_t *drafts;
  const float *draft_probs; /* or NULL */
  int64_t ld_draft_probs;
  const embed_rules *const *rules;
  const embed__sampler *samplers; /* of the sequences */
  int64_t sampler_stride;
  verdict *verdicts;   /* [n] */
  place *places;       /* [n] */
  int32_t **histories; /* [seqs]: pushed ids, then the drafts; NULL where penalties do not look */
  /* Of the rows swept together. */
  int64_t first, together;
  int64_t *rows;
  float *z;
  embed__sampler *row_samplers;
  embed_rules *row_rules;
  const embed_rules **rule_pointers;
  embed__weighed *rooms; /* per worker */
} verify_job;

static const embed__sampler *sampler_of(const verify_job *job, int64_t sequence) { return &job->samplers[sequence * job->sampler_stride]; }
static int64_t drafts_of(const verify_job *job, int64_t s) { return job->offsets[s + 1] - job->offsets[s] - 1; }
/* Where the sequence's drafts stand among all. */
static int64_t first_draft(const verify_job *job, int64_t s) { return job->offsets[s] - s; }

static embed_status check_offsets(embed_context *ctx, const int64_t *offsets, int64_t seqs) {
  if (seqs < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "seqs is %" PRId64, seqs);
  if (!offsets) return seqs == 0 ? EMBED_OK : embed__null(ctx, "offsets");
  if (offsets[0] != 0) return embed__fail(ctx, EMBED_E_ARGUMENT, 0, "offsets begin at %" PRId64 ", not at 0", offsets[0]);
  for (int64_t s = 0; s < seqs; ++s)
    if (offsets[s + 1] <= offsets[s])
      return embed__fail(ctx, EMBED_E_ARGUMENT, s, "sequence %" PRId64 " has no hidden row: its offsets are %" PRId64 " and %" PRId64, s, offsets[s],
                         offsets[s + 1]);
  return EMBED_OK;
}

static embed_status check_probabilities(embed_context *ctx, const verify_job *job) {
  for (int64_t i = 0; job->draft_probs && i < job->n - job->seqs; ++i) {
    const float *q = job->draft_probs + i * job->ld_draft_probs;
    for (int64_t c = 0; c < job->vocab; ++c)
      if (!(q[c] >= 0 && q[c] <= FLT_MAX))
        return embed__fail(ctx, EMBED_E_ARGUMENT, i, "draft_probs of draft %" PRId64 ": column %" PRId64 " is negative, infinite or NaN", i, c);
  }
  return EMBED_OK;
}

static embed_status check_positions(embed_context *ctx, const verify_job *job) {
  for (int64_t s = 0; s < job->seqs; ++s) {
    const int64_t position = sampler_of(job, s)->position;
    if (position > INT64_MAX - drafts_of(job, s))
      return embed__fail(ctx, EMBED_E_OPTION, s, "sequence %" PRId64 " has %" PRId64 " rows from position %" PRId64 " on: that is past 2^63", s,
                         drafts_of(job, s) + 1, position);
  }
  return EMBED_OK;
}

/* The history that each row's penalties see: what was pushed, and the drafts before the row. */
static embed_status take_histories(embed_context *ctx, verify_job *job) {
  for (int64_t s = 0; s < job->seqs; ++s) {
    const embed_rules *r = job->rules ? job->rules[s] : NULL;
    const embed__penalties *p = &sampler_of(job, s)->penalties;
    job->histories[s] = NULL;
    if (!r || drafts_of(job, s) == 0 || (p->repetition == 1 && p->frequency == 0 && p->presence == 0)) continue;
    EMBED__TRY(embed__scratch_get(ctx, r->pushed + drafts_of(job, s), sizeof **job->histories, &job->histories[s]));
    if (r->pushed) memcpy(job->histories[s], r->history, (size_t)r->pushed * sizeof *r->history);
    memcpy(job->histories[s] + r->pushed, job->drafts + first_draft(job, s), (size_t)drafts_of(job, s) * sizeof *job->drafts);
  }
  return EMBED_OK;
}

static embed_status take_scratch(embed_context *ctx, verify_job *job) {
  job->together = embed__min(job->n, embed__max(1, LOGITS_BYTES / 4 / embed__max(1, job->vocab)));
  EMBED__TRY(embed__scratch_get(ctx, job->n, sizeof *job->verdicts, &job->verdicts));
  EMBED__TRY(embed__scratch_get(ctx, job->n, sizeof *job->places, &job->places));
  EMBED__TRY(embed__scratch_get(ctx, job->seqs, sizeof *job->histories, &job->histories));
  EMBED__TRY(embed__scratch_get(ctx, job->together, sizeof *job->rows, &job->rows));
  EMBED__TRY(embed__scratch_matrix(ctx, job->together, job->vocab, sizeof *job->z, &job->z));
  EMBED__TRY(embed__scratch_get(ctx, job->together, sizeof *job->row_samplers, &job->row_samplers));
  EMBED__TRY(embed__scratch_get(ctx, job->together, sizeof *job->row_rules, &job->row_rules));
  EMBED__TRY(embed__scratch_get(ctx, job->together, sizeof *job->rule_pointers, &job->rule_pointers));
  EMBED__TRY(embed__scratch_matrix(ctx, embed__workers(ctx), job->vocab, sizeof *job->rooms, &job->rooms));
  EMBED__TRY(take_histories(ctx, job));
  for (int64_t s = 0; s < job->seqs; ++s)
    for (int64_t at = 0; at <= drafts_of(job, s); ++at) job->places[job->offsets[s] + at] = (place){s, at};
  return EMBED_OK;
}

/* Accepts or not with a number of its own: counter (0, position low, position high, 5), so that it says nothing about the noise. */
static double acceptance(const embed__sampler *s) {
  const uint64_t position = (uint64_t)s->position;
  const uint32_t counter[4] = {0, (uint32_t)position, (uint32_t)(position >> 32), EMBED__STREAM_ACCEPT};
  const uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
  uint32_t words[4];
  embed__philox(counter, key, words);
  return embed__uniform(words[0]);
}

/* The target's probability of a column; z as the filters left it. */
static double probability(const embed__sampler *s, const embed__drawn *drawn, float z) {
  return isinf(z) ? 0 : exp(embed__drawn_logprob(drawn, (double)z / s->temperature));
}

/* Noise of its own: what embed_sample has at a position may have drawn the draft there, which then says what is left of it. Positions end
 * below this. */
#define RESIDUAL (UINT64_C(1) << 63)

/* argmax of log(max(p - q, 0)) + noise, as a race: the least -log(u) / max(p - q, 0). -log(u) >= 1 - u: who is too late by that needs
 * no logarithm. q NULL: all of it on one column. -1: p is nowhere above q, which roundings alone can bring about. */
static int32_t draw_residual(const verify_job *job, const embed__sampler *s, const embed__drawn *drawn, const float *z, const float *q, int32_t draft) {
  const embed__id_map *map = embed__head_map(job->head);
  uint32_t words[EMBED__BLOCK];
  double least = INFINITY;
  int32_t winner = -1;
  for (int64_t at = 0; at < job->vocab; at += EMBED__BLOCK) {
    const int64_t n = embed__min(EMBED__BLOCK, job->vocab - at);
    if (map)
      job->kernels->gumbel.words_of(s->seed, (uint64_t)s->position | RESIDUAL, map->ids + at, n, words);
    else
      job->kernels->gumbel.words(s->seed, (uint64_t)s->position | RESIDUAL, (uint32_t)at, n, words);
    for (int64_t i = 0; i < n; ++i) {
      if (isinf(z[at + i])) continue;
      const double taken = q ? (double)q[at + i] : at + i == draft ? 1.0 : 0.0, left = probability(s, drawn, z[at + i]) - taken;
      const double u = embed__uniform(words[i]);
      if (!(left > 0) || 1 - u >= least * left) continue;
      const double time = -log(u) / left;
      if (time >= least) continue;
      least = time;
      winner = (int32_t)(at + i);
    }
  }
  return winner;
}

static void verify_row(void *arg, int64_t row, int32_t worker) {
  const verify_job *job = arg;
  const embed__id_map *map = embed__head_map(job->head);
  const embed__sampler *s = &job->row_samplers[row];
  const place at = job->places[job->first + row];
  float *z = job->z + row * job->vocab;
  embed__drawn drawn = {0};
  verdict v = {.outcome = embed__sampler_draw_all(job->kernels, s, z, map ? map->ids : NULL, job->rooms + worker * job->vocab, &drawn)};
  v.token = drawn.column;
  if (v.outcome == EMBED__DRAWN && at.at < drafts_of(job, at.sequence)) {
    const int64_t number = first_draft(job, at.sequence) + at.at;
    const int32_t draft = map ? embed__column_of(map, job->drafts[number]) : job->drafts[number];
    const float *q = job->draft_probs ? job->draft_probs + number * job->ld_draft_probs : NULL;
    if (s->greedy) {
      v.accepted = draft == drawn.column;
    } else {
      v.accepted = acceptance(s) * (q ? (double)q[draft] : 1) < probability(s, &drawn, z[draft]);
      const int32_t residual = v.accepted ? -1 : draw_residual(job, s, &drawn, z, q, draft);
      if (residual >= 0) v.token = residual;
    }
  }
  job->verdicts[job->first + row] = v;
}

/* Hidden rows [first, first + count): their samplers, with the row's own position, and rules, with the drafts before it. */
static void set_rows(verify_job *job, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const place at = job->places[job->first + i];
    const embed_rules *r = job->rules ? job->rules[at.sequence] : NULL;
    job->rows[i] = job->first + i;
    job->row_samplers[i] = *sampler_of(job, at.sequence);
    job->row_samplers[i].position += at.at;
    job->rule_pointers[i] = r;
    if (!job->histories[at.sequence]) continue;
    job->row_rules[i] = *r;
    job->row_rules[i].history = job->histories[at.sequence];
    job->row_rules[i].pushed = r->pushed + at.at;
    job->rule_pointers[i] = &job->row_rules[i];
  }
}

static embed_status verify_rows(embed_context *ctx, verify_job *job, const embed__sweep *sweep, embed_nan_policy nan) {
  for (job->first = 0; job->first < job->n; job->first += job->together) {
    const int64_t count = embed__min(job->together, job->n - job->first);
    set_rows(job, count);
    embed__source from = {.head = job->head, .sweep = *sweep, .vocab = job->vocab, .rows = job->rows, .n = count};
    const embed__request r = {
        .nan = nan, .rules = job->rule_pointers, .samplers = job->row_samplers, .sampler_stride = 1, .logits = job->z, .ld_out = job->vocab};
    embed_status status = embed__answer(ctx, &from, &r);
    if (status == EMBED_E_NONFINITE) return embed__nan_error(ctx, job->first + ctx->error_at);
    EMBED__TRY(status);
    EMBED__TRY(embed__run(ctx, count, verify_row, job));
  }
  return EMBED_OK;
}

/* Rows up to a sequence's first rejection count; what those behind it say does not. */
static embed_status find_accepted(embed_context *ctx, const verify_job *job, int64_t s, int64_t *accepted) {
  for (int64_t at = 0; at <= drafts_of(job, s); ++at) {
    const int64_t row = job->offsets[s] + at;
    const verdict *v = &job->verdicts[row];
    if (v->outcome == EMBED__NOTHING)
      return embed__fail(ctx, EMBED_E_NONFINITE, row, "hidden row %" PRId64 " has no logit above -inf: there is nothing to draw", row);
    if (v->outcome == EMBED__UNDEFINED)
      return embed__fail(ctx, EMBED_E_NONFINITE, row, "hidden row %" PRId64 " has a NaN or +inf among its logits: there is no distribution to draw from", row);
    *accepted = at;
    if (!v->accepted) break;
  }
  return EMBED_OK;
}

static embed_status verify(embed_context *ctx, verify_job *job, const embed__sweep *sweep, embed_nan_policy nan, int32_t *ids, int32_t *accepted) {
  const embed__id_map *map = embed__head_map(job->head);
  int64_t reached;
  EMBED__TRY(take_scratch(ctx, job));
  EMBED__TRY(verify_rows(ctx, job, sweep, nan));
  for (int64_t s = 0; s < job->seqs; ++s) EMBED__TRY(find_accepted(ctx, job, s, &reached));
  for (int64_t s = 0; s < job->seqs; ++s) {
    int32_t *of = ids + job->offsets[s];
    (void)find_accepted(ctx, job, s, &reached);
    const int32_t token = job->verdicts[job->offsets[s] + reached].token;
    accepted[s] = (int32_t)reached;
    for (int64_t at = 0; at < reached; ++at) of[at] = job->drafts[first_draft(job, s) + at];
    of[reached] = map ? map->ids[token] : token;
    for (int64_t at = reached + 1; at <= drafts_of(job, s); ++at) of[at] = -1;
  }
  return EMBED_OK;
}

embed_status embed_verify(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t ld_hidden, const int64_t *offsets,
                          int64_t seqs, const int32_t *drafts, const float *draft_probs, int64_t ld_draft_probs, const embed_rules *const *rules,
                          const embed_sample_params *params, int64_t params_count, int32_t *ids, int32_t *accepted, const embed_sweep_options *opts) {
  embed_sweep_options o;
  embed__sweep sweep;
  verify_job job = {.head = h, .offsets = offsets, .seqs = seqs, .drafts = drafts, .draft_probs = draft_probs, .rules = rules};
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, h);
  EMBED__TRY(check_offsets(ctx, offsets, seqs));
  job.n = seqs ? offsets[seqs] : 0;
  EMBED__TRY(embed__head_sweep(ctx, h, hidden, hidden_dtype, job.n, ld_hidden, opts, &o, &sweep));
  if (seqs == 0) return EMBED_OK;
  job.kernels = ctx->kernels;
  job.vocab = h->table->vocab;
  EMBED__NOT_NULL(ctx, ids);
  EMBED__NOT_NULL(ctx, accepted);
  if (job.n > seqs) EMBED__NOT_NULL(ctx, drafts);
  EMBED__TRY(embed__head_check_ids(ctx, h, drafts, job.n - seqs));
  if (draft_probs) EMBED__TRY(embed__check_buffer(ctx, "draft_probs", draft_probs, EMBED_F32, job.n - seqs, job.vocab, ld_draft_probs, &job.ld_draft_probs));
  EMBED__TRY(embed__check_rules(ctx, rules, seqs, embed__head_ids(h)));
  EMBED__TRY(embed__samplers(ctx, params, params_count, seqs, job.vocab, &job.samplers, &job.sampler_stride));
  EMBED__TRY(check_positions(ctx, &job));
  EMBED__TRY(check_probabilities(ctx, &job));
  return embed__end(ctx, verify(ctx, &job, &sweep, o.nan, ids, accepted));
}
