/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_sample: known draws, the same ones from threads, batches, levels and given logits, distributions, what is refused. */
#include "drawing.h"

enum { VOCAB = 5000 };

static const float one = 1, kat[5] = {2, 1, 0.5f, 0.1f, -1};

static void known_draws_come_from_the_sweep(void **state) { /* D4g */
  static const struct {
    uint64_t seed;
    int64_t position;
    int32_t id;
  } known[] = {{42, 0, 0}, {42, 8, 1}, {((uint64_t)1 << 40) + 5, ((int64_t)1 << 33) + 1, 0}};
  (void)state;
  embed_context *ctx = context_new();
  embed_head *h = column_head(ctx, kat, 5, 0);
  for (int i = 0; i < COUNT(known); ++i) {
    const embed_sample_params p = {.size = sizeof p, .temperature = 1, .seed = known[i].seed, .position = known[i].position};
    int32_t id = -7;
    float logprob = 0;
    double q[5];
    OK(embed_sample(ctx, h, &one, EMBED_F32, 1, 0, NULL, &p, 1, &id, &logprob, NULL));
    assert_int_equal(id, known[i].id);
    softmax_of(kat, 5, 1, q);
    assert_true(fabs((double)logprob - log(q[id])) < 1e-6);
  }
  embed_head_release(h);
  embed_context_release(ctx);
}

static void the_two_orders_draw_from_their_known_sets(void **state) { /* D4 */
  static const double want[2][5] = {{.4810242633, .2917559637, .2272197730}, {.6224593312, .3775406688}};
  const embed_sweep_options processed = {.size = sizeof processed, .flags = EMBED_SWEEP_PROCESSED};
  (void)state;
  embed_context *ctx = context_new();
  embed_head *h = column_head(ctx, kat, 5, 0);
  for (int order = 0; order < 2; ++order) {
    int64_t counts[5] = {0};
    embed_sample_params p = {.size = sizeof p, .temperature = 2, .top_k = 4, .top_p = 0.7, .min_p = 0.3, .order = order, .seed = 3};
    for (p.position = 0; p.position < 20000; ++p.position) {
      int32_t id = -7;
      float logprob = 0;
      OK(embed_sample(ctx, h, &one, EMBED_F32, 1, 0, NULL, &p, 1, &id, &logprob, &processed));
      assert_true(fabs((double)logprob - log(want[order][id])) < 1e-6);
      ++counts[id];
    }
    assert_distributed(counts, want[order], 5);
  }
  embed_head_release(h);
  embed_context_release(ctx);
}

enum { ROWS = 24 };

/* Greedy, plain, and filters of both tiers, both orders. */
static void fill_params(embed_sample_params *params) {
  for (int i = 0; i < ROWS; ++i) {
    params[i] =
        (embed_sample_params){.size = sizeof *params, .seed = 5 + (uint64_t)i % 3, .position = 1000 * i, .temperature = 0.5 + i % 4, .order = i / 8 % 2};
    switch (i % 8) {
      case 0: params[i].temperature = 0; break;
      case 1: break;
      case 2: params[i].top_k = 40; break;
      case 3: params[i].top_p = 0.3; break;
      case 4: params[i].top_p = 0.99; break; /* more than 1,024 ids */
      case 5: params[i].typical_p = 0.6; break;
      case 6: params[i].min_p = 0.02, params[i].top_n_sigma = 2; break;
      default: params[i].top_k = 2000, params[i].top_p = 0.9; break;
    }
  }
}

/* Logits that are exact products: alone, in a batch, on any threads and level, or given as logits, a row draws the same. */
static void a_row_draws_the_same_everywhere(void **state) {
  static float values[VOCAB], logits[VOCAB];
  float hidden[ROWS], logprobs[ROWS], logprob;
  int32_t want[ROWS], ids[ROWS], alone;
  embed_sample_params params[ROWS];
  embed_context *all[CONTEXTS];
  uint64_t random = 21;
  (void)state;
  const int contexts = contexts_new(all);
  for (int v = 0; v < VOCAB; ++v) values[v] = 4 * test_uniform(&random);
  for (int i = 0; i < ROWS; ++i) hidden[i] = i % 2 ? 1 : -0.5f;
  fill_params(params);
  embed_head *h = column_head(all[0], values, VOCAB, 0);
  OK(embed_sample(all[0], h, hidden, EMBED_F32, ROWS, 0, NULL, params, ROWS, want, logprobs, NULL));
  for (int i = 0; i < ROWS; ++i) { /* what they must be, where no filter is in the way */
    double best = -INFINITY;
    int32_t id = -1;
    if (i % 8 > 1) continue;
    for (int v = 0; v < VOCAB; ++v) {
      const double z = (double)(hidden[i] * values[v]);
      const double x = i % 8 == 0 ? z : z / params[i].temperature + noise_of(params[i].seed, params[i].position, v);
      if (x > best) best = x, id = v;
    }
    assert_int_equal(want[i], id);
  }
  for (int c = 0; c < contexts; ++c) {
    embed_result *r = NULL;
    const embed_sweep_options token = {.size = sizeof token, .ask = EMBED_ASK_TOKEN};
    memset(ids, 0xA5, sizeof ids);
    OK(embed_sample(all[c], h, hidden, EMBED_F32, ROWS, 0, NULL, params, ROWS, ids, NULL, NULL));
    assert_memory_equal(ids, want, sizeof want);
    OK(embed_result_create(all[c], &r));
    for (int i = c % 3; i < ROWS; i += 3) {
      OK(embed_sample(all[c], h, hidden + i, EMBED_F32, 1, 0, NULL, params + i, 1, &alone, &logprob, NULL));
      assert_int_equal(alone, want[i]);
      assert_true(fabsf(logprob - logprobs[i]) < 1e-5f);
      for (int v = 0; v < VOCAB; ++v) logits[v] = hidden[i] * values[v];
      OK(embed_sweep_logits(all[c], logits, VOCAB, 0, NULL, 1, NULL, NULL, params + i, 1, &token, r));
      assert_int_equal(embed_result_i32(r, EMBED_ASK_TOKEN, NULL, NULL)[0], want[i]);
    }
    embed_result_release(r);
  }
  embed_head_release(h);
  contexts_free(all, contexts);
}

static void draws_follow_the_filtered_distribution(void **state) {
  enum { FEW = 10, BATCH = 4000, BATCHES = 25 };
  const float values[FEW] = {1, 0.3f, 2, -1, 0, 1.5f, -0.5f, 2.2f, 0.1f, -2};
  const int order[FEW] = {7, 2, 5, 0, 1, 8, 4, 6, 3, 9}; /* best first */
  static float hidden[BATCH];
  static embed_sample_params params[BATCH];
  static int32_t ids[BATCH];
  (void)state;
  embed_context *ctx = context_with(NULL, 2);
  embed_head *h = column_head(ctx, values, FEW, 0);
  for (int i = 0; i < BATCH; ++i) hidden[i] = 1;
  for (int kind = 0; kind < 4; ++kind) {
    int64_t counts[FEW] = {0};
    double p[FEW], sum = 0, kept = 0;
    for (int batch = 0; batch < BATCHES; ++batch) {
      for (int i = 0; i < BATCH; ++i)
        params[i] = (embed_sample_params){.size = sizeof *params,
                                          .seed = 99,
                                          .position = batch * BATCH + i,
                                          .temperature = 1.5,
                                          .top_k = kind == 1 ? 4 : 0,
                                          .top_p = kind == 2 ? 0.8 : 0,
                                          .min_p = kind == 3 ? 0.25 : 0};
      OK(embed_sample(ctx, h, hidden, EMBED_F32, BATCH, 0, NULL, params, BATCH, ids, NULL, NULL));
      for (int i = 0; i < BATCH; ++i) ++counts[ids[i]];
    }
    softmax_of(values, FEW, 1.5, p);
    for (int j = 0; j < FEW; ++j) {
      const bool out = (kind == 1 && j >= 4) || (kind == 2 && sum >= 0.8) || (kind == 3 && p[order[j]] < 0.25 * p[order[0]]);
      sum += p[order[j]];
      if (out) p[order[j]] = 0;
      kept += p[order[j]];
    }
    for (int j = 0; j < FEW; ++j) p[j] /= kept;
    assert_distributed(counts, p, FEW);
  }
  embed_head_release(h);
  embed_context_release(ctx);
}

/* A cap would lift -inf to -30: bans come after it. Penalties look at the history. */
static void rules_decide_what_can_be_drawn(void **state) {
  enum { FEW = 6, DRAWS = 30000 };
  const float values[FEW] = {1, 0.5f, 40, -1, 0.25f, 2};
  const int32_t banned[2] = {2, 5}, history[3] = {0, 4, 0};
  const embed_sweep_options processed = {.size = sizeof processed, .flags = EMBED_SWEEP_PROCESSED};
  int64_t counts[FEW] = {0};
  float capped[FEW];
  double p[FEW], own[FEW];
  embed_rules *rules = NULL;
  (void)state;
  embed_context *ctx = context_new();
  embed_head *h = column_head(ctx, values, FEW, 30);
  OK(embed_rules_create(ctx, FEW, &rules));
  OK(embed_rules_ban(ctx, rules, banned, 2));
  OK(embed_rules_push(ctx, rules, history, 3));
  for (int v = 0; v < FEW; ++v) capped[v] = 30 * tanhf(values[v] / 30);
  softmax_of(capped, FEW, 1, own);
  capped[0] = (float)((double)capped[0] / 1.25 - 2 * 0.1 - 0.2);
  capped[4] = (float)((double)capped[4] / 1.25 - 0.1 - 0.2);
  capped[2] = capped[5] = -INFINITY;
  softmax_of(capped, FEW, 0.9, p);
  embed_sample_params params = {.size = sizeof params, .temperature = 0.9, .repetition = 1.25, .frequency = 0.1, .presence = 0.2, .seed = 8};
  const embed_rules *const *one_rule = (const embed_rules *const *)&rules;
  for (params.position = 0; params.position < DRAWS; ++params.position) {
    int32_t id = -7;
    float logprob = 0;
    const bool all = params.position % 2;
    OK(embed_sample(ctx, h, &one, EMBED_F32, 1, 0, one_rule, &params, 1, &id, &logprob, all ? &processed : NULL));
    assert_true(fabs((double)logprob - log(all ? p[id] : own[id])) < 2e-6);
    ++counts[id];
  }
  assert_distributed(counts, p, FEW);
  int32_t id = -7;
  OK(embed_sample(ctx, h, &one, EMBED_F32, 1, 0, one_rule, NULL, 0, &id, NULL, NULL));
  assert_int_equal(id, 0); /* greedy without penalties */
  embed_rules_release(rules);
  embed_head_release(h);
  embed_context_release(ctx);
}

static void rows_without_a_distribution_are_named(void **state) {
  static float values[VOCAB];
  float hidden[3] = {1, NAN, 1};
  const int32_t all[3] = {0, 1, 2};
  int32_t ids[3];
  embed_rules *rules = NULL;
  (void)state;
  embed_context *ctx = context_new();
  for (int v = 0; v < VOCAB; ++v) values[v] = 1 + (float)(v % 3);
  embed_head *h = column_head(ctx, values, VOCAB, 0), *three = column_head(ctx, values, 3, 0);
  const embed_sample_params kinds[] = {{.size = sizeof *kinds, .temperature = 1},
                                       {.size = sizeof *kinds, .temperature = 1, .top_k = 3},
                                       {.size = sizeof *kinds, .temperature = 1, .typical_p = 0.5}};
  const float bad[] = {NAN, INFINITY};
  for (int kind = 0; kind < COUNT(kinds); ++kind)
    for (int b = 0; b < 2; ++b) {
      hidden[1] = bad[b];
      assert_int_equal(embed_sample(ctx, h, hidden, EMBED_F32, 3, 0, NULL, &kinds[kind], 1, ids, NULL, NULL), EMBED_E_NONFINITE);
      assert_int_equal(embed_error_at(ctx), 1);
      OK(embed_sample(ctx, h, hidden, EMBED_F32, 1, 0, NULL, &kinds[kind], 1, ids, NULL, NULL));
    }
  const embed_sweep_options ignore = {.size = sizeof ignore, .nan = EMBED_NAN_IGNORE};
  hidden[1] = NAN;
  assert_int_equal(embed_sample(ctx, h, hidden, EMBED_F32, 3, 0, NULL, kinds, 1, ids, NULL, &ignore), EMBED_E_NONFINITE); /* nothing is left */
  OK(embed_sample(ctx, h, hidden, EMBED_F32, 3, 0, NULL, NULL, 0, ids, NULL, NULL)); /* greedy: NaN ranks above everything */
  assert_int_equal(ids[1], 0);
  OK(embed_rules_create(ctx, 3, &rules));
  OK(embed_rules_ban(ctx, rules, all, 3));
  const embed_rules *per_row[3] = {NULL, NULL, rules};
  hidden[1] = 1;
  for (int kind = 0; kind < COUNT(kinds); ++kind) {
    assert_int_equal(embed_sample(ctx, three, hidden, EMBED_F32, 3, 0, per_row, &kinds[kind], 1, ids, NULL, NULL), EMBED_E_NONFINITE);
    assert_int_equal(embed_error_at(ctx), 2);
  }
  embed_rules_release(rules);
  embed_head_release(h);
  embed_head_release(three);
  embed_context_release(ctx);
}

static void bad_calls_are_refused_before_anything_is_written(void **state) {
  const float hidden[3] = {1, 1, 1};
  embed_sample_params params[3] = {{.size = sizeof *params}, {.size = sizeof *params}, {.size = sizeof *params}};
  struct {
    int32_t ids[3];
    float logprobs[3];
  } out;
  embed_rules *other = NULL;
  (void)state;
  embed_context *ctx = context_new();
  embed_head *h = column_head(ctx, kat, 5, 0);
  memset(&out, 0xA5, sizeof out);
#define REFUSED(status, where, n, rules, params, count, ids)                                                                \
  do {                                                                                                                      \
    assert_int_equal(embed_sample(ctx, h, hidden, EMBED_F32, n, 0, rules, params, count, ids, out.logprobs, NULL), status); \
    assert_int_equal(embed_error_at(ctx), where);                                                                           \
    assert_true(test_all_bytes(&out, sizeof out, 0xA5));                                                                    \
  } while (0)
  REFUSED(EMBED_E_ARGUMENT, -1, 3, NULL, params, 2, out.ids);
  REFUSED(EMBED_E_ARGUMENT, -1, 3, NULL, params, -1, out.ids);
  REFUSED(EMBED_E_ARGUMENT, -1, 3, NULL, NULL, 3, out.ids);
  REFUSED(EMBED_E_ARGUMENT, -1, 3, NULL, params, 3, NULL);
  REFUSED(EMBED_E_ARGUMENT, -1, -1, NULL, params, 1, out.ids);
  params[2].temperature = NAN;
  REFUSED(EMBED_E_OPTION, 2, 3, NULL, params, 3, out.ids);
  params[2].temperature = 0;
  params[1].order = 7;
  REFUSED(EMBED_E_OPTION, 1, 3, NULL, params, 3, out.ids);
  params[1].order = 0;
  params[1].size = 4;
  REFUSED(EMBED_E_OPTION, 1, 3, NULL, params, 3, out.ids);
  params[1].size = sizeof *params;
  OK(embed_rules_create(ctx, 6, &other));
  const embed_rules *rules[3] = {NULL, NULL, other};
  REFUSED(EMBED_E_MISMATCH, 2, 3, rules, params, 3, out.ids);
  OK(embed_sample(ctx, h, NULL, EMBED_F32, 0, 0, NULL, NULL, 0, NULL, NULL, NULL));
  OK(embed_sample(ctx, h, hidden, EMBED_F32, 3, 0, NULL, params, 3, out.ids, NULL, NULL));
  for (int i = 0; i < 3; ++i) assert_int_equal(out.ids[i], 0);
  embed_rules_release(other);
  embed_head_release(h);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(known_draws_come_from_the_sweep),
    cmocka_unit_test(the_two_orders_draw_from_their_known_sets),
    cmocka_unit_test(a_row_draws_the_same_everywhere),
    cmocka_unit_test(draws_follow_the_filtered_distribution),
    cmocka_unit_test(rules_decide_what_can_be_drawn),
    cmocka_unit_test(rows_without_a_distribution_are_named),
    cmocka_unit_test(bad_calls_are_refused_before_anything_is_written),
};
TEST_MAIN(tests)
