/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of embed_sweep share: every answer of one row of logits in double, from a plain loop. */
#ifndef TEST_SWEEP_H
#define TEST_SWEEP_H

#include "gather.h"

enum { ALL_ASKS = 1023, OWN_ASKS = EMBED_ASK_LOGSUMEXP | EMBED_ASK_ENTROPY | EMBED_ASK_TARGET_LOGPROB | EMBED_ASK_TARGET_RANK };

/* NaN above all, then value descending, then id ascending. */
static inline bool ranks_before(const float *z, int32_t a, int32_t b) {
  if (isnan(z[a]) || isnan(z[b])) return isnan(z[a]) && isnan(z[b]) ? a < b : isnan(z[a]);
  return z[a] > z[b] || (z[a] == z[b] && a < b);
}

static inline int32_t rank_of(const float *z, int64_t vocab, int32_t target) {
  int32_t rank = 1;
  for (int32_t v = 0; v < vocab; ++v) rank += v != target && ranks_before(z, v, target);
  return rank;
}

static inline int32_t best_of(const float *z, int64_t vocab) {
  int32_t best = 0;
  for (int32_t v = 1; v < vocab; ++v)
    if (ranks_before(z, v, best)) best = v;
  return best;
}

static inline double logsumexp_of(const float *z, int64_t vocab, double temperature) {
  double max = -INFINITY, sum = 0;
  for (int64_t v = 0; v < vocab; ++v)
    if ((double)z[v] / temperature > max) max = (double)z[v] / temperature;
  if (isinf(max)) return max;
  for (int64_t v = 0; v < vocab; ++v) sum += exp((double)z[v] / temperature - max);
  return max + log(sum);
}

static inline double entropy_of(const float *z, int64_t vocab, double temperature) {
  double whole = logsumexp_of(z, vocab, temperature), entropy = 0;
  for (int64_t v = 0; v < vocab; ++v) {
    double logprob = (double)z[v] / temperature - whole;
    if (exp(logprob) > 0) entropy -= exp(logprob) * logprob;
  }
  return entropy;
}

static inline void assert_close(double got, double want, double relative) {
  if (isinf(want) ? got != want : !(fabs(got - want) <= relative * fmax(1, fabs(want)))) fail_msg("%.9g where %.9g is right", got, want);
}

static inline embed_result *result_new(embed_context *ctx) {
  embed_result *r = NULL;
  OK(embed_result_create(ctx, &r));
  return r;
}

static inline const float *floats_of(const embed_result *r, uint32_t ask) {
  const float *answer = embed_result_f32(r, ask, NULL, NULL);
  assert_non_null(answer);
  return answer;
}

static inline const int32_t *ints_of(const embed_result *r, uint32_t ask) {
  const int32_t *answer = embed_result_i32(r, ask, NULL, NULL);
  assert_non_null(answer);
  return answer;
}

/* Top-k of row i is the k first of z in order. */
static inline void assert_topk(const embed_result *r, int64_t i, int32_t k, const float *z, int64_t vocab) {
  const int32_t *ids = ints_of(r, EMBED_ASK_TOPK_IDS) + i * k;
  const float *logits = floats_of(r, EMBED_ASK_TOPK_LOGITS) + i * k;
  const int32_t count = ints_of(r, EMBED_ASK_TOPK_COUNT)[i];
  assert_int_equal(count, k < vocab ? k : vocab);
  for (int32_t j = 0; j < k; ++j) {
    if (j >= count) {
      assert_int_equal(ids[j], -1);
      assert_true(logits[j] == -INFINITY);
      continue;
    }
    assert_same_bits(&logits[j], &z[ids[j]], 4);
    if (j > 0) assert_true(ranks_before(z, ids[j - 1], ids[j]));
  }
  if (count > 0) assert_int_equal(rank_of(z, vocab, ids[count - 1]), count);
}

#endif
