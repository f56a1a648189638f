/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of embed_sample and embed_verify share: heads with logits that are exact, the noise, Pearson's statistic. */
#ifndef TEST_DRAWING_H
#define TEST_DRAWING_H

#include "gather.h"

/* A head of one column: hidden x gives the logits x * values[v], exact where x is a power of two. */
static inline embed_head *column_head(embed_context *ctx, const float *values, int64_t vocab, float softcap) {
  const embed_head_options o = {.size = sizeof o, .logit_softcap = softcap};
  embed_table *t = NULL;
  embed_head *h = NULL;
  OK(embed_table_view(ctx, values, vocab, 1, NULL, NULL, NULL, &t));
  OK(embed_head_create(ctx, t, NULL, &o, &h));
  embed_table_release(t);
  return h;
}

/* A number in (0, 1) from word id % 4 of Philox4x32-10, written from its paper, counter (id / 4, position low, position high, stream). */
static inline double uniform_of(uint64_t seed, int64_t position, int32_t id, uint32_t stream) {
  uint32_t c[4] = {(uint32_t)id / 4, (uint32_t)((uint64_t)position & 0xFFFFFFFFu), (uint32_t)((uint64_t)position >> 32), stream};
  for (uint64_t round = 0; round < 10; ++round) {
    const uint32_t k0 = (uint32_t)(seed + round * 0x9E3779B9u), k1 = (uint32_t)((seed >> 32) + round * 0xBB67AE85u);
    const uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
    const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
    memcpy(c, next, sizeof c);
  }
  return (2.0 * (double)c[id % 4] + 1.0) * 0x1p-33;
}

static inline double noise_of(uint64_t seed, int64_t position, int32_t id) { return -log(-log(uniform_of(seed, position, id, 2))); }

/* softmax(z / temperature) */
static inline void softmax_of(const float *z, int n, double temperature, double *p) {
  double largest = -INFINITY, sum = 0;
  for (int i = 0; i < n; ++i) largest = fmax(largest, (double)z[i]);
  for (int i = 0; i < n; ++i) sum += p[i] = exp((double)z[i] / temperature - largest / temperature);
  for (int i = 0; i < n; ++i) p[i] /= sum;
}

/* Counts that no right generator exceeds but once in 10^6 (Wilson, Hilferty): of all, as p has them, nothing where p is 0. */
static inline void assert_distributed(const int64_t *counts, const double *p, int n) {
  double statistic = 0, all = 0;
  int free = -1;
  for (int i = 0; i < n; ++i) all += (double)counts[i];
  for (int i = 0; i < n; ++i) {
    if (p[i] == 0) {
      assert_int_equal(counts[i], 0);
      continue;
    }
    ++free;
    statistic += ((double)counts[i] - all * p[i]) * ((double)counts[i] - all * p[i]) / (all * p[i]);
  }
  assert_true(free > 0);
  const double cube = 1 - 2 / (9.0 * free) + 4.753 * sqrt(2 / (9.0 * free));
  if (statistic > free * cube * cube * cube) fail_msg("chi-square %g with %d degrees of freedom", statistic, free);
}

#endif
