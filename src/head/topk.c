/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_topk: a heap per hidden row and slot, and a log-sum-exp state per hidden row and block, in one sweep. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/least.h"
#include "head/head.h"
#include "sweep/logsumexp.h"
#include "sweep/topk.h"

typedef struct topk_job {
  const embed_head *head;
  const embed__kernels *kernels;
  embed_nan_policy nan;
  int64_t k, capacity, blocks, chunk;
  embed__ranked *entries;   /* [slots, chunk, capacity] */
  embed__topk *heaps;       /* [slots, chunk] */
  embed__logsumexp *states; /* [chunk, blocks], NULL when nobody asks */
  int64_t first;
  _Atomic int64_t refused;
} topk_job;

static void take_tile(void *arg, const embed__tile *tile) {
  topk_job *job = arg;
  embed__finish_logits(job->head, tile->z, tile->ldz, tile->rows, tile->column, tile->columns);
  for (int64_t i = 0; i < tile->rows; ++i) {
    float *z = tile->z + i * tile->ldz;
    int64_t row = tile->first + i;
    if (embed__apply_nan_policy(job->nan, z, tile->columns)) embed__keep_least(&job->refused, job->first + row);
    embed__topk_offer(job->kernels, &job->heaps[(int64_t)tile->slot * job->chunk + row], z, tile->columns, (int32_t)tile->column, NULL, 0);
    if (job->states) job->states[row * job->blocks + tile->column / EMBED__BLOCK] = embed__logsumexp_of(job->kernels, z, tile->columns);
  }
}

static embed_status take_scratch(embed_context *ctx, topk_job *job, const embed__sweep *s, bool logsumexp) {
  int64_t heaps = (int64_t)s->slots * s->chunk;
  job->chunk = s->chunk;
  EMBED__TRY(embed__scratch_matrix(ctx, heaps, job->capacity, sizeof *job->entries, &job->entries));
  EMBED__TRY(embed__scratch_get(ctx, heaps, sizeof *job->heaps, &job->heaps));
  if (!logsumexp) return EMBED_OK;
  return embed__scratch_get(ctx, s->chunk * job->blocks, sizeof *job->states, &job->states);
}

static void empty_heaps(topk_job *job, int64_t count) {
  for (int64_t i = 0; i < count; ++i) job->heaps[i] = (embed__topk){.entries = job->entries + i * job->capacity, .capacity = job->capacity};
}

typedef struct topk_out {
  int32_t *ids;
  float *logits, *logsumexp;
  int32_t *count;
} topk_out;

/* The slots' heaps of one row become its answer; false when no logit is above -inf. */
static bool answer(topk_job *job, int32_t slots, int64_t row, const topk_out *out) {
  embed__topk *top = &job->heaps[row];
  for (int32_t slot = 1; slot < slots; ++slot) embed__topk_merge(top, &job->heaps[(int64_t)slot * job->chunk + row]);
  embed__topk_sort(top);
  int64_t at = job->first + row, found = embed__min(top->count, job->k);
  for (int64_t j = 0; j < job->k; ++j) {
    out->ids[at * job->k + j] = j < found ? top->entries[j].id : -1;
    out->logits[at * job->k + j] = j < found ? top->entries[j].value : -INFINITY;
  }
  if (out->count) out->count[at] = (int32_t)found;
  if (out->logsumexp) {
    embed__logsumexp *states = job->states + row * job->blocks;
    embed__merge_tree(states, job->blocks, sizeof *states, embed__logsumexp_merge);
    out->logsumexp[at] = job->blocks ? embed__logsumexp_value(&states[0]) : -INFINITY;
  }
  return top->count > 0 && !(isinf(top->entries[0].value) && top->entries[0].value < 0);
}

static embed_status topk(embed_context *ctx, topk_job *job, embed__sweep *s, const topk_out *out) {
  job->blocks = embed__ceil_div(s->table->vocab, EMBED__BLOCK);
  job->capacity = embed__max(1, embed__min(job->k, s->table->vocab)); /* the best is always kept: it tells an empty row */
  s->state_bytes = job->capacity * (int64_t)sizeof *job->entries + (int64_t)sizeof *job->heaps;
  s->take = take_tile;
  s->reducer = job;
  EMBED__TRY(embed__sweep_begin(ctx, s));
  EMBED__TRY(take_scratch(ctx, job, s, out->logsumexp != NULL));
  int64_t degenerate = INT64_MAX;
  for (job->first = 0; job->first < s->n; job->first += s->chunk) {
    empty_heaps(job, (int64_t)s->slots * s->chunk);
    EMBED__TRY(embed__sweep_chunk(ctx, s, job->first));
    for (int64_t row = 0; row < embed__min(s->chunk, s->n - job->first); ++row)
      if (!answer(job, s->slots, row, out) && degenerate == INT64_MAX) degenerate = job->first + row;
  }
  int64_t refused = atomic_load(&job->refused);
  if (refused != INT64_MAX) return embed__fail(ctx, EMBED_E_NONFINITE, refused, "hidden row %" PRId64 " has a NaN among its logits", refused);
  if (degenerate != INT64_MAX)
    return embed__fail(ctx, EMBED_E_NONFINITE, degenerate, "hidden row %" PRId64 " has no logit above -inf: there is nothing to rank", degenerate);
  return EMBED_OK;
}

embed_status embed_topk(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden, int32_t k,
                        int32_t *ids, float *logits, float *logsumexp, int32_t *count, const embed_sweep_options *opts) {
  embed_sweep_options o;
  embed__sweep s;
  int64_t entries, ignored;
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__head_sweep(ctx, h, hidden, hidden_dtype, n, ld_hidden, opts, &o, &s));
  if (k < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "k is %d", k);
  if (!embed__mul(n, k, &entries) || !embed__mul(entries, (int64_t)sizeof(float), &ignored))
    return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%" PRId64 " rows of %d results do not fit into memory", n, k);
  if (entries > 0 && !ids) return embed__null(ctx, "ids");
  if (entries > 0 && !logits) return embed__null(ctx, "logits");
  if (n == 0) return EMBED_OK;
  topk_job job = {.head = h, .kernels = ctx->kernels, .nan = o.nan, .k = k, .refused = INT64_MAX};
  const topk_out out = {ids, logits, logsumexp, count};
  return embed__end(ctx, topk(ctx, &job, &s, &out));
}
