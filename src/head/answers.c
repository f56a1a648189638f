/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry behind all calls that answer from a sweep: what is kept, chunk after chunk, and a second sweep of a chunk where the first
 * cannot tell (rows whose filters want every logit; ranks against a logit that turned out otherwise). */
#include "head/answers.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/least.h"
#include "head/answers_job.h"
#include "thread/run.h"

enum {
  GIVEN_CHUNK = 128, /* rows of the caller's logits at once */
  GIVEN_BLOCKS = 64, /* blocks per task of few of them, */
  GIVEN_ROWS = 8,    /* up to here; of more rows a task takes nearly always one whole, which fills one heap */
  MOST_GIVEN_BLOCKS = 256,
  LANES = 16,             /* maxima of a block */
  LIST_CAPACITY = 128,    /* candidates from which a list is cheaper than a heap */
  STATE_BYTES = 32 << 20, /* of all slots' states */
  ALL_BYTES = 16 << 20    /* of rows that are kept whole in a second sweep */
};

static const embed__sampler *sampler_of(const embed__request *r, int64_t row) { return r->samplers ? &r->samplers[row * r->sampler_stride] : NULL; }

static bool is_filtered(const embed__sampler *s) { return s && !s->greedy && !s->plain; }

/* What has to be kept for this request. */
static void plan(embed__job *job) {
  const embed__request *r = job->r;
  const bool tops = job->tops = r->ranks || r->topk_ids || r->topk_logits || r->topk_count, tokens = r->token || r->token_logprob;
  const bool probabilities = r->logsumexp || r->entropy || r->target_logprob || r->target_rank;
  const int64_t samplers = r->samplers ? (r->sampler_stride ? job->from->n : embed__min(1, job->from->n)) : 0;
  bool filtered = false;
  int64_t keep = 1; /* the best is always kept: it tells an empty row */
  for (int64_t i = 0; i < samplers; ++i) filtered |= is_filtered(&r->samplers[i]);
  job->ranked = tops || tokens || probabilities;
  job->draws = tokens || (r->processed && (r->logsumexp || r->entropy || r->target_logprob) && filtered);
  job->processes = (r->rules && (tops || tokens || r->processed || r->logits));
  job->targets = r->target_logprob || r->target_rank;
  job->counts = r->target_rank;
  job->with_moment = r->entropy;
  job->moments = r->logsumexp || r->entropy || r->target_logprob || r->token_logprob;
  for (int64_t i = 0; i < samplers && job->draws; ++i) {
    const embed__sampler *s = &r->samplers[i];
    if (!is_filtered(s)) continue;
    keep = embed__max(keep, s->keep);
    job->statistics |= s->needs_statistics;
  }
  for (int64_t i = 0; i < samplers && job->draws; ++i) job->gumbels |= r->samplers[i].plain;
  if (tops) keep = embed__max(keep, r->k);
  job->capacity = embed__max(1, embed__min(keep, job->from->vocab));
  job->room = job->capacity < LIST_CAPACITY ? job->capacity : 2 * job->capacity;
  job->blocks = embed__ceil_div(job->from->vocab, EMBED__BLOCK);
  job->map = embed__head_map(job->from->head);
}

/* Per hidden row and slot; what is kept per block counts once. */
static int64_t state_bytes(const embed__job *job, int64_t slots) {
  const int64_t per_block = (job->moments ? (int64_t)sizeof(embed__moments) : 0) + (job->statistics ? (int64_t)sizeof(embed__statistics) : 0);
  if (!job->ranked) return 0;
  return job->room * (int64_t)sizeof(embed__ranked) + (int64_t)sizeof(embed__slot_row) + job->blocks * per_block / slots;
}

static embed_status take_scratch(embed_context *ctx, embed__job *job) {
  EMBED__TRY(embed__scratch_get(ctx, job->chunk, sizeof *job->rows, &job->rows));
  if (!job->ranked) return EMBED_OK;
  EMBED__TRY(embed__scratch_matrix(ctx, job->slots * job->chunk, job->room, sizeof *job->entries, &job->entries));
  EMBED__TRY(embed__scratch_matrix(ctx, job->slots, job->chunk, sizeof *job->states, &job->states));
  if (job->moments) EMBED__TRY(embed__scratch_matrix(ctx, job->chunk, job->blocks, sizeof *job->block_moments, &job->block_moments));
  if (job->statistics) EMBED__TRY(embed__scratch_matrix(ctx, job->chunk, job->blocks, sizeof *job->block_statistics, &job->block_statistics));
  return EMBED_OK;
}

static void take_tile(void *arg, const embed__tile *tile) {
  embed__job *job = arg;
  const bool writes = job->r->logits;
  for (int64_t i = 0; i < tile->rows; ++i) {
    const int64_t row = tile->first + i;
    if (job->second && !writes && !job->rows[row].recount && !job->rows[row].all) continue;
    float *z = tile->z + i * tile->ldz;
    embed__finish_logits(job->from->head, z, tile->ldz, 1, tile->column, tile->columns);
    embed__take_logits(job, row, tile->slot, z, tile->columns, tile->column);
  }
}

static int64_t blocks_per_task(const embed__job *job) { return job->from->n <= GIVEN_ROWS ? GIVEN_BLOCKS : MOST_GIVEN_BLOCKS; }

/* A first look at logits that are ranked as they are: what lies below the floor is never looked at again. */
static void set_floor(embed__job *job, int64_t row, int32_t slot, const float *z, int64_t first, int64_t end) {
  float maxima[MOST_GIVEN_BLOCKS * LANES];
  const int64_t count = (end - first) * LANES;
  if (!job->ranked || job->second || embed__changes_given(job, row) || count < 2 * job->capacity) return;
  embed__topk *top = &embed__state(job, slot, row)->top;
  for (int64_t block = first; block < end; ++block)
    job->kernels->reduce.maxima(z + block * EMBED__BLOCK, embed__min(EMBED__BLOCK, job->from->vocab - block * EMBED__BLOCK), maxima + (block - first) * LANES);
  const float floor = embed__topk_floor(job->kernels, maxima, count, top->capacity);
  if (!top->has_floor || floor > top->floor) top->floor = floor;
  top->has_floor = true;
}

static void take_given_blocks(void *arg, int64_t task, int32_t worker) {
  embed__job *job = arg;
  const embed__source *from = job->from;
  const int64_t each = blocks_per_task(job), tasks = embed__ceil_div(job->blocks, each), row = task / tasks, first = task % tasks * each;
  const int64_t at = from->rows ? from->rows[job->first + row] : job->first + row;
  if (job->second && !job->rows[row].recount && !job->rows[row].all) return;
  const float *z = from->logits + at * from->ld_logits;
  const int64_t end = embed__min(job->blocks, first + each);
  set_floor(job, row, worker, z, first, end);
  for (int64_t block = first; block < end; ++block) {
    const int64_t column = block * EMBED__BLOCK;
    embed__take_given(job, row, worker, z + column, embed__min(EMBED__BLOCK, from->vocab - column), column, job->copies + (int64_t)worker * EMBED__BLOCK);
  }
}

/* Nothing is asked but the best of a few hidden rows and what is drawn from them, or drawn at a temperature alone: a head with a sketch may
 * find them without its table (BOUND.md). */
static embed_status search(embed_context *ctx, embed__job *job, bool *answered) {
  embed__sought sought[EMBED__SKETCH_HIDDEN];
  int64_t refused = INT64_MAX;
  const bool only_best = job->ranked && !job->targets && !job->moments && !job->statistics && !job->r->logits;
  *answered = false;
  if (!job->from->head->sketch || !only_best || job->count != job->from->n || job->count > EMBED__SKETCH_HIDDEN) return EMBED_OK;
  if (job->gumbels && job->tops) return EMBED_OK;
  for (int64_t row = 0; row < job->count; ++row) {
    const embed__sampler *s = job->rows[row].sampler;
    const embed__edits *edits = &job->rows[row].edits;
    sought[row] = (embed__sought){.top = embed__state(job, 0, row)->top, .drawn = embed__gumbel_start()};
    if (job->gumbels && s->plain) sought[row].sampler = s;
    if (job->processes && !embed__edits_nothing(edits)) sought[row].edits = edits;
  }
  EMBED__TRY(embed__certified_search(ctx, job->from->head, &job->from->sweep, job->r->nan, sought, &refused, answered));
  for (int64_t row = 0; row < job->count && *answered; ++row) {
    embed__state(job, 0, row)->top = sought[row].top;
    embed__state(job, 0, row)->gumbel = sought[row].drawn;
  }
  if (refused != INT64_MAX) embed__keep_least(&job->refused, refused);
  return EMBED_OK;
}

static embed_status sweep_chunk(embed_context *ctx, embed__job *job) {
  bool answered = false;
  if (job->from->head && !job->second) EMBED__TRY(search(ctx, job, &answered));
  if (answered) return EMBED_OK;
  if (job->from->head) return embed__sweep_chunk(ctx, &job->from->sweep, job->first);
  const int64_t tasks = embed__ceil_div(job->blocks, embed__max(1, blocks_per_task(job)));
  return embed__run_long(ctx, job->count * tasks, take_given_blocks, job, job->first * tasks, job->from->n * tasks);
}

/* States that have seen nothing, and what is known of each row before the sweep. */
static embed_status begin_chunk(embed_context *ctx, embed__job *job) {
  const embed__request *r = job->r;
  for (int64_t i = 0; i < job->slots * job->chunk && job->ranked; ++i) {
    job->states[i] = (embed__slot_row){.gumbel = embed__gumbel_start()};
    job->states[i].top = (embed__topk){.entries = job->entries + i * job->room, .capacity = job->capacity, .original = job->map ? job->map->ids : NULL};
    if (job->room > job->capacity) job->states[i].top.room = job->room;
  }
  for (int64_t row = 0; row < job->count; ++row) {
    embed__asked_row *of_row = &job->rows[row];
    const int64_t at = job->first + row;
    *of_row = (embed__asked_row){.sampler = sampler_of(r, at), .scale = 1, .target_column = -1};
    const embed__sampler *s = of_row->sampler;
    if (r->processed && s && !s->greedy) of_row->scale = 1 / s->temperature;
    if (job->targets) of_row->target_column = job->map ? embed__column_of(job->map, r->targets[at]) : r->targets[at];
    if (job->processes) EMBED__TRY(embed__edits_of(ctx, r->rules[at], s ? &s->penalties : NULL, job->map, &of_row->edits));
  }
  return job->counts ? embed__guess_targets(ctx, job) : EMBED_OK;
}

static void answer_row(void *arg, int64_t row, int32_t worker) {
  (void)worker;
  embed__answer_row(arg, row);
}

typedef struct rest_job {
  embed__job *job;
  embed__weighed *rooms; /* [workers, vocab] */
} rest_job;

static void answer_rest(void *arg, int64_t row, int32_t worker) {
  const rest_job *rest = arg;
  embed__answer_rest(rest->job, row, rest->rooms ? rest->rooms + worker * rest->job->from->vocab : NULL);
}

/* Some rows once more, as many whole ones as fit. */
static embed_status sweep_again(embed_context *ctx, embed__job *job, rest_job *rest, float *whole, int64_t together) {
  for (bool left = true; left;) {
    int64_t taken = 0;
    left = false;
    for (int64_t row = 0; row < job->count; ++row) {
      embed__asked_row *of_row = &job->rows[row];
      if (of_row->wants_all && taken < together)
        of_row->all = whole + taken++ * job->from->vocab;
      else
        left |= of_row->wants_all;
    }
    for (int64_t i = 0; i < job->slots * job->chunk; ++i) job->states[i].before = 0;
    EMBED__TRY(sweep_chunk(ctx, job));
    EMBED__TRY(embed__run(ctx, job->count, answer_rest, rest));
  }
  return EMBED_OK;
}

static embed_status second_sweep(embed_context *ctx, embed__job *job) {
  rest_job rest = {.job = job};
  int64_t whole_rows = 0, recounts = 0;
  float *whole = NULL;
  for (int64_t row = 0; row < job->count; ++row) {
    whole_rows += job->rows[row].wants_all;
    recounts += job->rows[row].recount;
  }
  if (whole_rows + recounts == 0) return EMBED_OK;
  const int64_t together = embed__min(whole_rows, embed__max(1, ALL_BYTES / 4 / job->from->vocab));
  if (together > 0) {
    EMBED__TRY(embed__scratch_matrix(ctx, together, job->from->vocab, sizeof *whole, &whole));
    EMBED__TRY(embed__scratch_matrix(ctx, embed__min(embed__workers(ctx), INT32_MAX), job->from->vocab, sizeof *rest.rooms, &rest.rooms));
  }
  job->second = true;
  embed_status status = sweep_again(ctx, job, &rest, whole, together);
  job->second = false;
  return status;
}

static embed_status verdict(embed_context *ctx, embed__job *job) {
  const char *what = job->from->head ? "hidden row" : "row";
  int64_t refused = atomic_load(&job->refused), empty = atomic_load(&job->empty), undefined = atomic_load(&job->undefined);
  if (refused != INT64_MAX) return embed__fail(ctx, EMBED_E_NONFINITE, refused, "%s %" PRId64 " has a NaN among its logits", what, refused);
  if (empty != INT64_MAX) return embed__fail(ctx, EMBED_E_NONFINITE, empty, "%s %" PRId64 " has no logit above -inf: there is nothing to rank", what, empty);
  if (undefined != INT64_MAX)
    return embed__fail(ctx, EMBED_E_NONFINITE, undefined, "%s %" PRId64 " has a NaN or +inf among its logits: there is no distribution to draw from", what,
                       undefined);
  return EMBED_OK;
}

static embed_status answer_chunks(embed_context *ctx, embed__job *job) {
  EMBED__TRY(take_scratch(ctx, job));
  for (job->first = 0; job->first < job->from->n; job->first += job->chunk) {
    const embed__scratch_mark mark = embed__scratch_now(&ctx->scratch);
    job->count = embed__min(job->chunk, job->from->n - job->first);
    EMBED__TRY(begin_chunk(ctx, job));
    EMBED__TRY(sweep_chunk(ctx, job));
    if (job->ranked) {
      EMBED__TRY(embed__run(ctx, job->count, answer_row, job));
      EMBED__TRY(second_sweep(ctx, job));
    }
    embed__scratch_back_to(&ctx->scratch, mark);
  }
  return verdict(ctx, job);
}

static embed_status begin_head(embed_context *ctx, embed__job *job) {
  embed__sweep *s = &job->from->sweep;
  s->n = job->from->n;
  s->rows = job->from->rows;
  s->out = job->r->logits;
  s->ldout = job->r->ld_out;
  s->state_bytes = state_bytes(job, embed__workers(ctx));
  s->take = take_tile;
  s->reducer = job;
  EMBED__TRY(embed__sweep_begin(ctx, s));
  job->chunk = s->chunk;
  job->slots = s->slots;
  return EMBED_OK;
}

static embed_status begin_given(embed_context *ctx, embed__job *job) {
  job->slots = embed__workers(ctx);
  const int64_t bounded = STATE_BYTES / embed__max(1, state_bytes(job, job->slots)) / job->slots;
  job->chunk = embed__max(1, embed__min(job->from->n, embed__min(GIVEN_CHUNK, bounded)));
  return embed__scratch_matrix(ctx, job->slots, EMBED__BLOCK, sizeof(float), &job->copies);
}

embed_status embed__answer(embed_context *ctx, embed__source *from, const embed__request *r) {
  embed__job job = {.from = from, .r = r, .kernels = ctx->kernels, .refused = INT64_MAX, .empty = INT64_MAX, .undefined = INT64_MAX};
  const embed__scratch_mark mark = embed__scratch_now(&ctx->scratch);
  if (from->n == 0) return EMBED_OK;
  plan(&job);
  if (!job.ranked && (!r->logits || from->vocab == 0)) return EMBED_OK;
  EMBED__TRY(from->head ? begin_head(ctx, &job) : begin_given(ctx, &job));
  EMBED__TRY(answer_chunks(ctx, &job));
  embed__scratch_back_to(&ctx->scratch, mark);
  return EMBED_OK;
}
