/* SPDX-License-Identifier: BSD-3-Clause */
/* What a tile of logits adds to the answers. The model's own log-probabilities see it before the rules. */
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/least.h"
#include "head/answers_job.h"
#include "sweep/logsumexp.h"

embed__moments embed__moments_of(const embed__kernels *k, const float *z, int64_t n, double scale, bool with_moment) {
  embed__moments m = {.scale = scale, .max = k->reduce.max(z, n)};
  if (isinf(m.max) || (scale == 1 && !with_moment)) {
    const embed__logsumexp plain = embed__logsumexp_of(k, z, n);
    m.sum = plain.sum;
    return m;
  }
  double sums[2];
  k->reduce.exp_moments(z, n, m.max, scale, sums);
  m.sum = sums[0];
  m.moment = sums[1];
  return m;
}

/* Brings a state to a larger maximum. Equal ones, infinite ones too, need no factor. */
static void raise_to(float max, embed__moments *m) {
  if (m->max == max) return;
  double down = m->scale * ((double)m->max - (double)max), factor = exp(down);
  if (factor != 0)
    m->moment = factor * (m->moment + m->sum * down);
  else
    m->moment = m->moment * 0; /* 0, or NaN */
  m->sum *= factor;
  m->max = max;
}

void embed__moments_merge(void *a, const void *b) {
  embed__moments *x = a, y = *(const embed__moments *)b;
  float max = x->max > y.max ? x->max : y.max;
  raise_to(max, x);
  raise_to(max, &y);
  x->sum += y.sum;
  x->moment += y.moment;
}

double embed__moments_logsumexp(const embed__moments *m) {
  if (isnan(m->sum)) return NAN;
  return isinf(m->max) ? (double)m->max : m->scale * (double)m->max + log(m->sum);
}

double embed__moments_entropy(const embed__moments *m) {
  if (isnan(m->sum) || isinf(m->max)) return NAN;
  double entropy = log(m->sum) - m->moment / m->sum;
  return entropy < 0 ? 0 : entropy;
}

double embed__moments_logprob(const embed__moments *m, float z) {
  if (isnan(m->sum) || isnan(z)) return NAN;
  if (isinf(m->max) || isinf(z)) return m->scale * (double)z - (double)m->max;
  double logprob = m->scale * ((double)z - (double)m->max) - log(m->sum); /* the sum's rounding may leave it below 1 */
  return logprob > 0 ? 0 : logprob;
}

/* The least float above t; NaN above infinity: only NaN ranks before it. */
static float above(float t) { return isinf(t) && t > 0 ? NAN : nextafterf(t, INFINITY); }

static int64_t count_by_ids(const float *z, int64_t n, int64_t column, const embed__id_map *map, float target, int64_t target_column) {
  const uint64_t key = embed__rank(target, map->ids[target_column]);
  int64_t before = 0;
  for (int64_t c = 0; c < n; ++c) before += column + c != target_column && embed__rank(z[c], map->ids[column + c]) > key;
  return before;
}

int64_t embed__ranks_before(const embed__kernels *k, const float *z, int64_t n, int64_t column, const embed__id_map *map, float target, int64_t target_column) {
  if (map && !map->ascending) return count_by_ids(z, n, column, map, target, target_column);
  const int64_t lower = embed__max(0, embed__min(n, target_column - column)); /* columns whose ids are lower: ties count */
  const int64_t higher = embed__max(0, embed__min(n, target_column + 1 - column));
  int64_t before = k->reduce.count_at_least(z, lower, target);
  if (!isnan(target)) before += k->reduce.count_at_least(z + higher, n - higher, above(target));
  return before;
}

/* Log-probabilities, rank and entropy of some columns. */
static void observe(embed__job *job, int64_t row, int32_t slot, const float *z, int64_t n, int64_t column) {
  embed__asked_row *of_row = &job->rows[row];
  const int64_t block = row * job->blocks + column / EMBED__BLOCK;
  const bool here = of_row->target_column >= column && of_row->target_column < column + n;
  if (job->second) {
    if (of_row->recount)
      embed__state(job, slot, row)->before += embed__ranks_before(job->kernels, z, n, column, job->map, of_row->target, of_row->target_column);
    return;
  }
  if (job->moments) job->block_moments[block] = embed__moments_of(job->kernels, z, n, of_row->scale, job->with_moment);
  if (here) of_row->target = z[of_row->target_column - column];
  if (job->counts) embed__state(job, slot, row)->before += embed__ranks_before(job->kernels, z, n, column, job->map, of_row->guess, of_row->target_column);
}

/* Top-k, candidates and noise, on logits after the rules. */
static void compete(embed__job *job, int64_t row, int32_t slot, const float *z, int64_t n, int64_t column) {
  const embed__asked_row *of_row = &job->rows[row];
  const embed__sampler *sampler = of_row->sampler;
  embed__slot_row *state = embed__state(job, slot, row);
  if (job->second) {
    if (of_row->all) memcpy(of_row->all + column, z, (size_t)n * sizeof *z);
    return;
  }
  embed__topk_offer(job->kernels, &state->top, z, n, (int32_t)column, NULL, 0);
  if (!job->draws || !sampler) return;
  if (sampler->plain) embed__gumbel_offer(job->kernels, sampler, &state->gumbel, z, n, (int32_t)column, embed__tile_ids(job, column));
  if (job->statistics && sampler->needs_statistics && !sampler->plain && !sampler->greedy)
    job->block_statistics[row * job->blocks + column / EMBED__BLOCK] = embed__statistics_of(job->kernels, sampler, z, n);
}

static void report_nan(embed__job *job, int64_t row) { embed__keep_least(&job->refused, job->first + row); }

void embed__take_logits(embed__job *job, int64_t row, int32_t slot, float *z, int64_t n, int64_t column) {
  const embed__asked_row *of_row = &job->rows[row];
  if (embed__apply_nan_policy(job->r->nan, z, n)) report_nan(job, row);
  if (!job->r->processed && job->ranked) observe(job, row, slot, z, n, column);
  if (job->processes) embed__edit_tile(&of_row->edits, z, n, column, embed__tile_ids(job, column));
  if (job->r->processed && job->ranked) observe(job, row, slot, z, n, column);
  if (job->ranked) compete(job, row, slot, z, n, column);
}

static bool has_nan(const embed__kernels *k, const float *z, int64_t n) { return k->reduce.count_at_least(z, n, NAN) > 0; }

bool embed__changes_given(const embed__job *job, int64_t row) {
  return job->r->nan == EMBED_NAN_IGNORE || (job->processes && !embed__edits_nothing(&job->rows[row].edits));
}

void embed__take_given(embed__job *job, int64_t row, int32_t slot, const float *z, int64_t n, int64_t column, float *copy) {
  const embed__request *r = job->r;
  if (r->logits || embed__changes_given(job, row)) {
    float *to = r->logits ? r->logits + (job->first + row) * r->ld_out + column : copy;
    memcpy(to, z, (size_t)n * sizeof *z);
    embed__take_logits(job, row, slot, to, n, column);
    return;
  }
  if (r->nan == EMBED_NAN_ERROR && has_nan(job->kernels, z, n)) report_nan(job, row);
  if (!job->ranked) return;
  observe(job, row, slot, z, n, column);
  compete(job, row, slot, z, n, column);
}
