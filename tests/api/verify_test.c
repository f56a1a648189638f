/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_verify: tokens are distributed as the target says, whatever the drafts; known cases; what is refused. */
#include "drawing.h"

enum { FEW = 6, SEQS = 2000 };

static const float values[FEW] = {1, 0.25f, 2, -1, 0, 1.5f};

/* The target's distribution of a row: temperature 1.25, the best `kept` ids. */
static void target_of(float hidden, int kept, double *p) {
  float z[FEW];
  for (int v = 0; v < FEW; ++v) z[v] = hidden * values[v];
  for (int v = 0; v < FEW; ++v) {
    int better = 0;
    for (int w = 0; w < FEW; ++w) better += hidden * values[w] > hidden * values[v];
    if (better >= kept) z[v] = -INFINITY;
  }
  softmax_of(z, FEW, 1.25, p);
}

static int32_t draw(const float *q, uint64_t *random) {
  double u = (double)(test_random(random) >> 11) * 0x1p-53;
  for (int32_t v = 0; v < FEW - 1; ++v) {
    u -= (double)q[v];
    if (u < 0) return v;
  }
  return FEW - 1;
}

/* Sequences of one draft: the first tokens of all, the second ones of those whose draft was accepted, and how many were. */
static void check_distribution(int64_t all, int kept, const float *q) {
  static float hidden[2 * SEQS], probs[SEQS * FEW];
  static int64_t offsets[SEQS + 1];
  static int32_t drafts[SEQS], ids[2 * SEQS], accepted[SEQS];
  static embed_sample_params params[SEQS];
  int64_t first[FEW] = {0}, second[FEW] = {0}, taken[2] = {0};
  double p[FEW], next[FEW], rate[2] = {0};
  uint64_t random = 31;
  embed_context *ctx = context_with(NULL, 2);
  embed_head *h = column_head(ctx, values, FEW, 0);
  for (int s = 0; s < SEQS; ++s) {
    hidden[2 * s] = 1;
    hidden[2 * s + 1] = -0.5f;
    offsets[s + 1] = 2 * s + 2;
    if (q) memcpy(probs + s * FEW, q, FEW * sizeof *q);
  }
  for (int64_t done = 0; done < all; done += SEQS) {
    for (int s = 0; s < SEQS; ++s) {
      drafts[s] = q ? draw(q, &random) : s % 3 ? 2 : 5;
      params[s] = (embed_sample_params){.size = sizeof *params, .temperature = 1.25, .top_k = kept < FEW ? kept : 0, .seed = 1, .position = 2 * (done + s)};
    }
    OK(embed_verify(ctx, h, hidden, EMBED_F32, 0, offsets, SEQS, drafts, q ? probs : NULL, 0, NULL, params, SEQS, ids, accepted, NULL));
    for (int s = 0; s < SEQS; ++s) {
      ++first[ids[2 * s]];
      ++taken[accepted[s]];
      if (accepted[s]) {
        assert_int_equal(ids[2 * s], drafts[s]);
        ++second[ids[2 * s + 1]];
      } else {
        assert_int_equal(ids[2 * s + 1], -1);
      }
    }
  }
  target_of(1, kept, p);
  target_of(-0.5f, kept, next);
  assert_distributed(first, p, FEW);
  assert_distributed(second, next, FEW);
  for (int v = 0; v < FEW; ++v) rate[1] += q ? fmin(p[v], (double)q[v]) : 0;
  if (!q) rate[1] = (1333 * p[2] + 667 * p[5]) / SEQS; /* of 2,000 sequences, 667 begin with draft 5 */
  rate[0] = 1 - rate[1];
  assert_distributed(taken, rate, 2);
  embed_head_release(h);
  embed_context_release(ctx);
}

static void a_million_tokens_follow_the_target(void **state) {
  const float q[FEW] = {0.1f, 0.3f, 0.2f, 0.25f, 0.05f, 0.1f};
  (void)state;
  check_distribution(1000000, FEW, q);
}

static void drafts_of_any_kind_leave_the_target_as_it_is(void **state) {
  const float filtered[FEW] = {0.5f, 0, 0, 0.5f, 0, 0}, even[FEW] = {0.25f, 0, 0.25f, 0, 0.25f, 0.25f};
  (void)state;
  check_distribution(100000, 3, even);
  check_distribution(100000, 4, filtered);
  check_distribution(100000, FEW, NULL);
  check_distribution(100000, 2, NULL);
}

/* A draft model that draws as the target does, with the same seed and positions: what it drew says nothing about what follows. */
static void drafts_may_be_drawn_with_the_same_seed(void **state) {
  static const float likely[FEW] = {2, 1.5f, -1, 0.5f, 1, 0};
  static float hidden[2 * SEQS], probs[SEQS * FEW];
  static int64_t offsets[SEQS + 1];
  static int32_t drafts[SEQS], ids[2 * SEQS], accepted[SEQS];
  static embed_sample_params params[SEQS];
  int64_t first[FEW] = {0}, second[FEW] = {0};
  double p[FEW], q[FEW], next[FEW];
  (void)state;
  embed_context *ctx = context_with(NULL, 2);
  embed_head *h = column_head(ctx, values, FEW, 0), *draft_model = column_head(ctx, likely, FEW, 0);
  softmax_of(likely, FEW, 1.25, q);
  for (int s = 0; s < SEQS; ++s) {
    hidden[2 * s] = hidden[2 * s + 1] = 1;
    offsets[s + 1] = 2 * s + 2;
    for (int v = 0; v < FEW; ++v) probs[s * FEW + v] = (float)q[v];
  }
  for (int64_t done = 0; done < 1000000; done += SEQS) {
    for (int s = 0; s < SEQS; ++s) params[s] = (embed_sample_params){.size = sizeof *params, .temperature = 1.25, .seed = 1, .position = 2 * (done + s)};
    OK(embed_sample(ctx, draft_model, hidden, EMBED_F32, SEQS, 0, NULL, params, SEQS, drafts, NULL, NULL));
    OK(embed_verify(ctx, h, hidden, EMBED_F32, 0, offsets, SEQS, drafts, probs, 0, NULL, params, SEQS, ids, accepted, NULL));
    for (int s = 0; s < SEQS; ++s) {
      ++first[ids[2 * s]];
      if (accepted[s]) ++second[ids[2 * s + 1]];
    }
  }
  target_of(1, FEW, p);
  target_of(1, FEW, next);
  assert_distributed(first, p, FEW);
  assert_distributed(second, next, FEW);
  embed_head_release(draft_model);
  embed_head_release(h);
  embed_context_release(ctx);
}

/* q = p: every draft is accepted, and what follows is embed_sample's token of the last row. */
static void drafts_from_the_target_itself_are_accepted(void **state) {
  double p[FEW];
  float q[3 * FEW], hidden[4] = {1, 1, 1, -0.5f};
  const int64_t offsets[2] = {0, 4};
  int32_t drafts[3], ids[4], accepted = -1, last = -1;
  uint64_t random = 33;
  (void)state;
  embed_context *ctx = context_new();
  embed_head *h = column_head(ctx, values, FEW, 0);
  target_of(1, FEW, p);
  for (int i = 0; i < 3 * FEW; ++i) q[i] = (float)(p[i % FEW] * (1 - 1e-6)); /* below p after the rounding to float */
  embed_sample_params params = {.size = sizeof params, .temperature = 1.25, .seed = 4};
  for (params.position = 0; params.position < 3000; ++params.position) {
    for (int i = 0; i < 3; ++i) drafts[i] = draw(q, &random);
    OK(embed_verify(ctx, h, hidden, EMBED_F32, 0, offsets, 1, drafts, q, 0, NULL, &params, 1, ids, &accepted, NULL));
    assert_int_equal(accepted, 3);
    assert_memory_equal(ids, drafts, sizeof drafts);
    embed_sample_params there = params;
    there.position += 3;
    OK(embed_sample(ctx, h, hidden + 3, EMBED_F32, 1, 0, NULL, &there, 1, &last, NULL, NULL));
    assert_int_equal(ids[3], last);
  }
  embed_head_release(h);
  embed_context_release(ctx);
}

/* Greedy: the drafts that are the best of their rows, up to the first that is not. */
static void greedy_rows_accept_the_best(void **state) {
  const float hidden[7] = {1, -1, 1, 1, 1, 1, -1};
  const int64_t offsets[4] = {0, 3, 4, 7};
  const int32_t drafts[4] = {2, 3, 5, 2}; /* best: 2 for hidden 1, 3 for -1 */
  const int32_t want[7] = {2, 3, 2, 2, 2, -1, -1};
  int32_t ids[7], accepted[3];
  (void)state;
  embed_context *ctx = context_new();
  embed_head *h = column_head(ctx, values, FEW, 0);
  OK(embed_verify(ctx, h, hidden, EMBED_F32, 0, offsets, 3, drafts, NULL, 0, NULL, NULL, 0, ids, accepted, NULL));
  assert_memory_equal(ids, want, sizeof want);
  assert_int_equal(accepted[0], 2);
  assert_int_equal(accepted[1], 0);
  assert_int_equal(accepted[2], 0);
  embed_head_release(h);
  embed_context_release(ctx);
}

/* Step by step: each row's penalties know the drafts before it, and no others. */
static void penalties_know_the_drafts_before_a_row(void **state) {
  enum { ROWS = 6 };
  float hidden[ROWS];
  const int64_t offsets[2] = {0, ROWS};
  const int32_t pushed[2] = {2, 2};
  const embed_sample_params params = {.size = sizeof params, .presence = 0.75, .frequency = 0.5, .last_n = 4};
  int32_t drafts[ROWS], ids[ROWS], accepted = -1;
  embed_rules *rules = NULL, *steps = NULL;
  (void)state;
  embed_context *ctx = context_new();
  embed_head *h = column_head(ctx, values, FEW, 0);
  for (int i = 0; i < ROWS; ++i) hidden[i] = 1;
  OK(embed_rules_create(ctx, FEW, &rules));
  OK(embed_rules_create(ctx, FEW, &steps));
  OK(embed_rules_push(ctx, rules, pushed, 2));
  OK(embed_rules_push(ctx, steps, pushed, 2));
  for (int i = 0; i < ROWS; ++i) {
    OK(embed_sample(ctx, h, hidden, EMBED_F32, 1, 0, (const embed_rules *const *)&steps, &params, 1, &drafts[i], NULL, NULL));
    OK(embed_rules_push(ctx, steps, &drafts[i], 1));
  }
  assert_true(drafts[0] != drafts[1] && drafts[1] != drafts[2]); /* they do change what is best */
  for (int time = 0; time < 2; ++time) {                         /* rules stay as they were */
    OK(embed_verify(ctx, h, hidden, EMBED_F32, 0, offsets, 1, drafts, NULL, 0, (const embed_rules *const *)&rules, &params, 1, ids, &accepted, NULL));
    assert_int_equal(accepted, ROWS - 1);
    assert_memory_equal(ids, drafts, sizeof ids);
  }
  embed_rules_release(rules);
  embed_rules_release(steps);
  embed_head_release(h);
  embed_context_release(ctx);
}

/* What a row without filters must say, from its own numbers: the token, or -1 where the draft is accepted. */
static int32_t expected(const float *z, int vocab, const embed_sample_params *p, int64_t at, int32_t draft, const float *q, double *room) {
  double best = -INFINITY;
  int32_t token = -1;
  softmax_of(z, vocab, p->temperature, room);
  if (draft >= 0 && uniform_of(p->seed, p->position + at, 0, 5) * (q ? (double)q[draft] : 1) < room[draft]) return -1;
  for (int32_t v = 0; v < vocab; ++v) {
    const double left = draft < 0 ? room[v] : room[v] - (q ? (double)q[v] : v == draft ? 1.0 : 0.0);
    if (left > 0 && log(left) + 23 > best) {
      const double x = log(left) + noise_of(p->seed, draft < 0 ? p->position + at : (p->position + at) | INT64_MIN, v);
      if (x > best) best = x, token = v;
    }
  }
  return token;
}

/* Row by row, with a q over many ids and without one. */
static void rejected_drafts_give_the_documented_token(void **state) {
  enum { VOCAB = 3000, DRAFTS = 200 };
  static float wide[VOCAB], q[DRAFTS * VOCAB], hidden[2 * DRAFTS];
  static double room[VOCAB];
  int64_t offsets[DRAFTS + 1] = {0};
  int32_t drafts[DRAFTS], ids[2 * DRAFTS], accepted[DRAFTS];
  uint64_t random = 36;
  (void)state;
  embed_context *ctx = context_with(NULL, 2);
  for (int v = 0; v < VOCAB; ++v) wide[v] = 3 * test_uniform(&random);
  wide[7] = 9;
  embed_head *h = column_head(ctx, wide, VOCAB, 0);
  for (int i = 0; i < DRAFTS * VOCAB; ++i) q[i] = fabsf(test_uniform(&random)) / (VOCAB / 2);
  for (int s = 0; s < DRAFTS; ++s) {
    offsets[s + 1] = 2 * s + 2;
    drafts[s] = s % 2 ? 7 : s;
    hidden[2 * s] = hidden[2 * s + 1] = 1;
  }
  for (int with = 0; with < 2; ++with) {
    int taken = 0;
    embed_sample_params params[DRAFTS];
    for (int s = 0; s < DRAFTS; ++s) params[s] = (embed_sample_params){.size = sizeof *params, .temperature = 1.5, .seed = 12, .position = 1000 * s};
    OK(embed_verify(ctx, h, hidden, EMBED_F32, 0, offsets, DRAFTS, drafts, with ? q : NULL, 0, NULL, params, DRAFTS, ids, accepted, NULL));
    for (int s = 0; s < DRAFTS; ++s) {
      const int32_t token = expected(wide, VOCAB, &params[s], 0, drafts[s], with ? q + s * VOCAB : NULL, room);
      assert_int_equal(accepted[s], token < 0);
      assert_int_equal(ids[2 * s], token < 0 ? drafts[s] : token);
      if (token < 0) assert_int_equal(ids[2 * s + 1], expected(wide, VOCAB, &params[s], 1, -1, NULL, room));
      taken += accepted[s];
    }
    assert_true(taken > 0 && taken < DRAFTS);
  }
  embed_head_release(h);
  embed_context_release(ctx);
}

/* More rows than are swept together, threads, levels, sequences alone. */
static void a_sequence_is_verified_the_same_everywhere(void **state) {
  enum { VOCAB = 400000, ROWS = 60, COUNT_OF = 20 };
  static float wide[VOCAB], hidden[ROWS];
  int64_t offsets[COUNT_OF + 1] = {0};
  int32_t drafts[ROWS], want[ROWS], ids[ROWS], accepted[COUNT_OF], alone;
  embed_sample_params params[COUNT_OF];
  uint64_t random = 35;
  int kept = 0;
  (void)state;
  embed_context *ctx = context_new();
  for (int v = 0; v < VOCAB; ++v) wide[v] = 8 * test_uniform(&random);
  for (int v = 0; v < 3; ++v) wide[v] = 22; /* drafts that are likely */
  embed_head *h = column_head(ctx, wide, VOCAB, 0);
  for (int i = 0; i < ROWS; ++i) hidden[i] = 1, drafts[i] = i % 4;
  for (int s = 0; s < COUNT_OF; ++s) {
    offsets[s + 1] = offsets[s] + 1 + s % 5;
    params[s] =
        (embed_sample_params){.size = sizeof *params, .temperature = 0.8 + 0.1 * (s % 3), .seed = 3, .position = 100 * s, .top_p = s % 4 == 3 ? 0.9 : 0};
  }
  assert_int_equal(offsets[COUNT_OF], ROWS);
  OK(embed_verify(ctx, h, hidden, EMBED_F32, 0, offsets, COUNT_OF, drafts, NULL, 0, NULL, params, COUNT_OF, want, accepted, NULL));
  for (int s = 0; s < COUNT_OF; ++s) {
    const int64_t one_sequence[2] = {0, offsets[s + 1] - offsets[s]};
    OK(embed_verify(ctx, h, hidden + offsets[s], EMBED_F32, 0, one_sequence, 1, drafts + offsets[s] - s, NULL, 0, NULL, params + s, 1, ids, &alone, NULL));
    assert_int_equal(alone, accepted[s]);
    assert_memory_equal(ids, want + offsets[s], sizeof *ids * (size_t)one_sequence[1]);
    kept += alone;
    if (one_sequence[1] > 1) continue;
    OK(embed_sample(ctx, h, hidden, EMBED_F32, 1, 0, NULL, params + s, 1, ids, NULL, NULL)); /* no draft: as embed_sample */
    assert_int_equal(ids[0], want[offsets[s]]);
  }
  assert_true(kept > 3 && kept < ROWS - COUNT_OF);
  for (int threads = 2; threads <= 7; threads += 5) {
    embed_context *more = context_with(threads == 7 ? "avx2" : NULL, threads);
    if (!more) continue;
    OK(embed_verify(more, h, hidden, EMBED_F32, 0, offsets, COUNT_OF, drafts, NULL, 0, NULL, params, COUNT_OF, ids, accepted, NULL));
    assert_memory_equal(ids, want, sizeof want);
    embed_context_release(more);
  }
  embed_head_release(h);
  embed_context_release(ctx);
}

static void subsets_take_and_give_original_ids(void **state) {
  const int32_t kept[3] = {5, 0, 2};
  const float hidden[3] = {1, 1, 1}, q[2 * 3] = {0.1f, 0.2f, 0.7f, 0.1f, 0.2f, 0.7f};
  const int64_t offsets[2] = {0, 3};
  const int32_t drafts[2] = {2, 2}, outside[2] = {2, 1};
  int32_t ids[3], accepted;
  embed_head *subset = NULL;
  (void)state;
  embed_context *ctx = context_new();
  embed_head *h = column_head(ctx, values, FEW, 0);
  OK(embed_head_create_subset(ctx, h, kept, 3, &subset));
  OK(embed_verify(ctx, subset, hidden, EMBED_F32, 0, offsets, 1, drafts, NULL, 0, NULL, NULL, 0, ids, &accepted, NULL));
  for (int i = 0; i < 3; ++i) assert_int_equal(ids[i], 2);
  embed_sample_params params = {.size = sizeof params, .temperature = 1};
  for (params.position = 0; params.position < 200; ++params.position) {
    OK(embed_verify(ctx, subset, hidden, EMBED_F32, 0, offsets, 1, drafts, q, 0, NULL, &params, 1, ids, &accepted, NULL));
    assert_true(ids[accepted] == 5 || ids[accepted] == 0 || ids[accepted] == 2);
    if (accepted < 2) assert_int_not_equal(ids[accepted], 2); /* its q is above its p: the rest is of the other two */
  }
  assert_int_equal(embed_verify(ctx, subset, hidden, EMBED_F32, 0, offsets, 1, outside, NULL, 0, NULL, NULL, 0, ids, &accepted, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 1);
  embed_head_release(subset);
  embed_head_release(h);
  embed_context_release(ctx);
}

typedef struct bad_call {
  float hidden[6], q[4 * FEW];
  int64_t offsets[3];
  int32_t drafts[4];
  embed_sample_params params[2];
  const embed_rules *rules[2];
  struct {
    int32_t ids[6], accepted[2];
  } out;
} bad_call;

static void refused(embed_context *ctx, const embed_head *h, const bad_call *good, bad_call *c, embed_status status, int64_t at) {
  assert_int_equal(embed_verify(ctx, h, c->hidden, EMBED_F32, 0, c->offsets, 2, c->drafts, c->q, 0, c->rules, c->params, 2, c->out.ids, c->out.accepted, NULL),
                   status);
  assert_int_equal(embed_error_at(ctx), at);
  assert_true(embed_error_text(ctx)[0] != '\0');
  assert_true(test_all_bytes(&c->out, sizeof c->out, 0xA5));
  *c = *good;
}

static void bad_calls_are_refused_before_anything_is_written(void **state) {
  bad_call good = {.offsets = {0, 2, 6}, .drafts = {2, 2, 2, 2}}, c;
  embed_rules *other = NULL;
  (void)state;
  embed_context *ctx = context_new();
  embed_head *h = column_head(ctx, values, FEW, 0);
  OK(embed_rules_create(ctx, FEW + 1, &other));
  memset(&good.out, 0xA5, sizeof good.out);
  for (int i = 0; i < 6; ++i) good.hidden[i] = 1;
  for (int i = 0; i < 4 * FEW; ++i) good.q[i] = i % FEW == 2 ? 0.9f : 0.02f;
  for (int i = 0; i < 2; ++i) good.params[i] = (embed_sample_params){.size = sizeof good.params[0], .temperature = 1};
  c = good;
  c.offsets[0] = 1;
  refused(ctx, h, &good, &c, EMBED_E_ARGUMENT, 0);
  c.offsets[2] = 2; /* not even a last row */
  refused(ctx, h, &good, &c, EMBED_E_ARGUMENT, 1);
  c.offsets[1] = 7;
  refused(ctx, h, &good, &c, EMBED_E_ARGUMENT, 1);
  c.drafts[3] = FEW;
  refused(ctx, h, &good, &c, EMBED_E_ID, 3);
  c.drafts[1] = -1;
  refused(ctx, h, &good, &c, EMBED_E_ID, 1);
  static const float wrong[] = {NAN, -0.25f, INFINITY, -INFINITY};
  for (int i = 0; i < COUNT(wrong); ++i) {
    c.q[2 * FEW + 5] = wrong[i];
    refused(ctx, h, &good, &c, EMBED_E_ARGUMENT, 2);
  }
  c.params[1].top_p = 2;
  refused(ctx, h, &good, &c, EMBED_E_OPTION, 1);
  c.params[1].position = INT64_MAX - 2; /* four rows */
  refused(ctx, h, &good, &c, EMBED_E_OPTION, 1);
  c.rules[1] = other;
  refused(ctx, h, &good, &c, EMBED_E_MISMATCH, 1);
  c.hidden[2] = NAN;
  refused(ctx, h, &good, &c, EMBED_E_NONFINITE, 2);
  assert_int_equal(embed_verify(ctx, h, c.hidden, EMBED_F32, 0, NULL, 2, c.drafts, c.q, 0, NULL, NULL, 0, c.out.ids, c.out.accepted, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_verify(ctx, h, c.hidden, EMBED_F32, 0, c.offsets, 2, NULL, c.q, 0, NULL, NULL, 0, c.out.ids, c.out.accepted, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_verify(ctx, h, c.hidden, EMBED_F32, 0, c.offsets, 2, c.drafts, c.q, 5, NULL, NULL, 0, c.out.ids, c.out.accepted, NULL),
                   EMBED_E_ARGUMENT);
  assert_int_equal(embed_verify(ctx, h, c.hidden, EMBED_F32, 0, c.offsets, -1, c.drafts, c.q, 0, NULL, NULL, 0, c.out.ids, c.out.accepted, NULL),
                   EMBED_E_ARGUMENT);
  assert_true(test_all_bytes(&c.out, sizeof c.out, 0xA5));
  OK(embed_verify(ctx, h, NULL, EMBED_F32, 0, NULL, 0, NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL));
  OK(embed_verify(ctx, h, c.hidden, EMBED_F32, 0, c.offsets, 2, c.drafts, c.q, 0, c.rules, c.params, 2, c.out.ids, c.out.accepted, NULL));
  /* Behind the first rejection a row may be anything. */
  c.hidden[3] = NAN;
  c.drafts[1] = 3;
  OK(embed_verify(ctx, h, c.hidden, EMBED_F32, 0, c.offsets, 2, c.drafts, NULL, 0, NULL, NULL, 0, c.out.ids, c.out.accepted, NULL));
  assert_int_equal(c.out.accepted[1], 0);
  embed_rules_release(other);
  embed_head_release(h);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_million_tokens_follow_the_target),
    cmocka_unit_test(drafts_of_any_kind_leave_the_target_as_it_is),
    cmocka_unit_test(drafts_may_be_drawn_with_the_same_seed),
    cmocka_unit_test(drafts_from_the_target_itself_are_accepted),
    cmocka_unit_test(greedy_rows_accept_the_best),
    cmocka_unit_test(penalties_know_the_drafts_before_a_row),
    cmocka_unit_test(rejected_drafts_give_the_documented_token),
    cmocka_unit_test(a_sequence_is_verified_the_same_everywhere),
    cmocka_unit_test(subsets_take_and_give_original_ids),
    cmocka_unit_test(bad_calls_are_refused_before_anything_is_written),
};
TEST_MAIN(tests)
