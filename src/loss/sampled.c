/* SPDX-License-Identifier: BSD-3-Clause */
/* Sampled softmax, noise-contrastive estimation, negative sampling. Candidates of a row's own are pairs with it; shared ones go another way. */
#include "loss/sampled.h"

#include <inttypes.h>
#include <math.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"

/* A list of pairs: the target of a row first, then its candidates. */
typedef struct listed {
  const embed__sampled *s;
  int64_t *begin;
  int32_t *ids;
  float *expected; /* [pairs] logarithms, or NULL */
} listed;

/* The target's slope is a small difference as it nears certainty: it is formed from the others. */
static double softmax_loss(const double *u, int64_t count, double *slope) {
  const double own = u[0]; /* slope may be u */
  double most = own, others = 0;
  for (int64_t j = 1; j < count; ++j) most = u[j] > most ? u[j] : most;
  for (int64_t j = 1; j < count; ++j) others += slope[j] = exp(u[j] - most);
  const double target = exp(own - most), all = target + others;
  for (int64_t j = 1; j < count; ++j) slope[j] /= all;
  slope[0] = -(others / all);
  return others < target ? log1p(others / target) : most + log(all) - own;
}

static double logistic_loss(const double *u, int64_t count, double *slope) {
  double loss = embed__softplus(-u[0]);
  slope[0] = -embed__sigmoid(-u[0]);
  for (int64_t j = 1; j < count; ++j) {
    loss += embed__softplus(u[j]);
    slope[j] = embed__sigmoid(u[j]);
  }
  return loss;
}

static double loss_of_row(const void *what, int64_t row, int64_t pair, const float *logits, int64_t count, double *slope) {
  const listed *l = what;
  (void)row;
  for (int64_t j = 0; j < count; ++j) slope[j] = (double)logits[j] - (l->expected ? (double)l->expected[pair + j] : 0);
  return l->s->kind == EMBED_SAMPLED_SOFTMAX ? softmax_loss(slope, count, slope) : logistic_loss(slope, count, slope);
}

static int64_t list_row(const listed *l, int64_t row, int64_t at) {
  const embed__sampled *s = l->s;
  const int64_t first = row * s->samples;
  l->ids[at] = s->targets[row];
  if (l->expected) l->expected[at] = s->target_expected[row];
  ++at;
  for (int64_t j = first; j < first + s->samples; ++j) {
    if (s->candidates[j] == s->targets[row] && !s->keep_hits) continue;
    l->ids[at] = s->candidates[j];
    if (l->expected) l->expected[at] = s->expected[j];
    ++at;
  }
  return at;
}

/* Every row has candidates of its own. */
static embed_status run_pairs(embed_context *ctx, const embed__sampled *s) {
  embed__pairs p = s->pairs;
  listed l = {.s = s};
  int64_t most, at = 0;
  if (!embed__mul(s->few.counted, s->samples + 1, &most)) return embed__out_of_memory(ctx, -1);
  EMBED__TRY(embed__scratch_get(ctx, p.n + 1, sizeof *l.begin, &l.begin));
  EMBED__TRY(embed__scratch_get(ctx, most, sizeof *l.ids, &l.ids));
  if (s->target_expected) EMBED__TRY(embed__scratch_get(ctx, most, sizeof *l.expected, &l.expected));
  for (int64_t i = 0; i < p.n; ++i) {
    l.begin[i] = at;
    if (s->targets[i] != s->few.ignore) at = list_row(&l, i, at);
  }
  l.begin[p.n] = at;
  p.begin = l.begin;
  p.ids = l.ids;
  p.loss = loss_of_row;
  p.what = &l;
  return embed__pairs_run(ctx, &p);
}

static embed_status check_expected(embed_context *ctx, const char *name, const float *expected, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!isfinite(expected[i])) return embed__fail(ctx, EMBED_E_ARGUMENT, i, "%s at position %" PRId64 " is not finite", name, i);
  return EMBED_OK;
}

static embed_status check_ids(embed_context *ctx, const embed_head *h, const int32_t *candidates, int64_t count) {
  const int64_t vocab = embed__head_ids(h);
  if (count > 0 && !candidates) return embed__null(ctx, "candidates");
  for (int64_t j = 0; j < count; ++j) {
    if (candidates[j] < 0 || candidates[j] >= vocab)
      return embed__fail(ctx, EMBED_E_ID, j, "candidate %d at position %" PRId64 " is outside the vocabulary of %" PRId64 " rows", candidates[j], j, vocab);
    if (embed__few_column(h, candidates[j]) < 0)
      return embed__fail(ctx, EMBED_E_ID, j, "candidate %d at position %" PRId64 " is not among the %" PRId64 " ids of this subset", candidates[j], j,
                         h->map.count);
  }
  return EMBED_OK;
}

static embed_status check_candidates(embed_context *ctx, const embed__sampled *s, int64_t count) {
  EMBED__TRY(check_ids(ctx, s->pairs.head, s->candidates, count));
  const bool targets = s->target_expected || s->pairs.n == 0, candidates = s->expected || count == 0;
  if (s->kind == EMBED_SAMPLED_NCE && !(targets && candidates))
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "EMBED_SAMPLED_NCE needs log_expected of targets and candidates");
  if (s->kind == EMBED_SAMPLED_NEGATIVE && (s->target_expected || s->expected))
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "EMBED_SAMPLED_NEGATIVE has no corrections: log_expected must be NULL");
  if ((s->target_expected && !candidates) || (s->expected && !targets))
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "log_expected of targets and candidates: both or neither");
  if (s->target_expected) EMBED__TRY(check_expected(ctx, "target_log_expected", s->target_expected, s->pairs.n));
  return s->expected ? check_expected(ctx, "log_expected", s->expected, count) : EMBED_OK;
}

static embed_status read_options(embed_context *ctx, const embed_sampled_options *opts, embed_sampled_options *o) {
  const uint32_t flags = EMBED_SAMPLED_IGNORE_INDEX | EMBED_SAMPLED_KEEP_HITS | EMBED_SAMPLED_PER_ROW;
  EMBED__TRY(embed__options(ctx, "embed_sampled_options", opts, flags, o, sizeof *o));
  if (o->kind < EMBED_SAMPLED_SOFTMAX || o->kind > EMBED_SAMPLED_NEGATIVE) return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_sampled_kind", o->kind);
  return o->reserved ? embed__fail(ctx, EMBED_E_OPTION, -1, "embed_sampled_options: reserved must be 0") : EMBED_OK;
}

embed_status embed_sampled_loss(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                                const int32_t *targets, const int32_t *candidates, int64_t samples, const float *target_log_expected, const float *log_expected,
                                const float *d_loss, float *loss, int64_t *count, void *d_hidden, embed_dtype d_hidden_dtype, int64_t ld_d_hidden,
                                embed_grad *g, const embed_sampled_options *opts) {
  embed_sampled_options o;
  embed__sampled s = {.targets = targets, .candidates = candidates, .samples = samples, .target_expected = target_log_expected, .expected = log_expected};
  int64_t given = samples;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, h);
  EMBED__TRY(read_options(ctx, opts, &o));
  s.few = (embed__few){.classes = embed__head_ids(h), .ignore = o.flags & EMBED_SAMPLED_IGNORE_INDEX ? o.ignore_index : -100, .reduction = o.reduction};
  EMBED__TRY(embed__few_begin(ctx, h, hidden, hidden_dtype, n, ld_hidden, targets, d_loss, loss, d_hidden, d_hidden_dtype, ld_d_hidden, g, &s.few, &s.pairs));
  s.kind = o.kind;
  s.keep_hits = (o.flags & EMBED_SAMPLED_KEEP_HITS) != 0;
  const bool per_row = (o.flags & EMBED_SAMPLED_PER_ROW) != 0;
  if (samples < 0 || samples == INT64_MAX) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "samples is %" PRId64, samples);
  if (per_row && !embed__mul(n, samples, &given)) return embed__fail(ctx, EMBED_E_OVERFLOW, -1, "%" PRId64 " rows of %" PRId64 " candidates", n, samples);
  EMBED__TRY(check_candidates(ctx, &s, given));
  EMBED__TRY(embed__end(ctx, per_row || samples == 0 || s.few.counted == 0 ? run_pairs(ctx, &s) : embed__sampled_shared(ctx, &s)));
  if (count) *count = s.few.counted;
  return EMBED_OK;
}
