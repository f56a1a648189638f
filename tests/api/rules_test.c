/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_rules: bans, allowed ids, biases and penalties, against a plain loop over the whole row in double. */
#include "sweep.h"

enum { VOCAB = 2100, WORDS = (VOCAB + 31) / 32, PUSHED = 300 };

/* What a test has told its rules. */
typedef struct told {
  bool banned[VOCAB], allowed[VOCAB];
  float bias[VOCAB];
  int32_t history[PUSHED];
  int64_t pushed;
} told;

/* The formula of embed_rules_create. */
static float processed(const told *r, const embed_sample_params *p, float z, int32_t id) {
  int64_t from = p && p->last_n && p->last_n < r->pushed ? r->pushed - p->last_n : 0, count = 0;
  if (r->banned[id] || !r->allowed[id]) return -INFINITY;
  for (int64_t i = from; i < r->pushed; ++i) count += r->history[i] == id;
  if (r->bias[id] == 0 && (count == 0 || !p)) return z;
  double x = (double)z + (double)r->bias[id];
  if (count > 0 && p) {
    const double repetition = p->repetition != 0 ? p->repetition : 1;
    x = x < 0 ? x * repetition : x / repetition;
    x -= (double)count * p->frequency + p->presence;
  }
  return (float)x;
}

static void told_new(told *r) {
  memset(r, 0, sizeof *r);
  for (int v = 0; v < VOCAB; ++v) r->allowed[v] = true;
}

static void random_rules(embed_context *ctx, embed_rules *rules, told *r, uint64_t *seed) {
  static int32_t ids[VOCAB];
  static float bias[VOCAB];
  uint32_t bits[WORDS];
  told_new(r);
  embed_rules_clear(rules);
  for (int call = 0; call < 3; ++call) { /* several calls, ids twice */
    int64_t n = (int64_t)(test_random(seed) % 40) + (call == 2 ? 100 : 0);
    for (int64_t i = 0; i < n; ++i) {
      ids[i] = (int32_t)(test_random(seed) % VOCAB);
      bias[i] = i % 9 ? 5 * test_uniform(seed) : 0;
      r->bias[ids[i]] = bias[i];
    }
    OK(embed_rules_bias(ctx, rules, ids, bias, n));
    n = (int64_t)(test_random(seed) % 30);
    for (int64_t i = 0; i < n; ++i) {
      ids[i] = (int32_t)(test_random(seed) % VOCAB);
      r->banned[ids[i]] = true;
    }
    OK(embed_rules_ban(ctx, rules, ids, n));
  }
  for (int w = 0; w < WORDS; ++w) bits[w] = w % 3 == 0 ? UINT32_MAX : w % 3 == 1 ? (uint32_t)test_random(seed) : 0;
  for (int v = 0; v < VOCAB; ++v) r->allowed[v] = bits[v / 32] >> v % 32 & 1;
  OK(embed_rules_allow(ctx, rules, bits, WORDS));
  memset(bits, 0, sizeof bits); /* they were copied */
  r->pushed = 17 + (int64_t)(test_random(seed) % (PUSHED - 17));
  for (int64_t i = 0; i < r->pushed; ++i) r->history[i] = (int32_t)(test_random(seed) % 200);
  OK(embed_rules_push(ctx, rules, r->history, r->pushed));
  OK(embed_rules_push(ctx, rules, r->history, 5));
  OK(embed_rules_pop(ctx, rules, 12));
  r->pushed -= 7;
}

/* Three rows: rules, none, other rules; through a head and on given logits. */
static void answers_are_those_of_a_plain_loop(void **state) {
  (void)state;
  enum { DIM = 16, N = 3, K = 12 };
  static float w[VOCAB * DIM], x[N * DIM], plain[N * VOCAB], want[N * VOCAB];
  static told each_told[N];
  const embed_sample_params all_params[] = {{.size = sizeof *all_params},
                                            {.size = sizeof *all_params, .repetition = 1.3, .frequency = .25, .presence = .5},
                                            {.size = sizeof *all_params, .repetition = .8, .last_n = 20, .temperature = 1.7, .seed = 4}};
  uint64_t seed = 31;
  embed_context *all[CONTEXTS];
  const int contexts = contexts_new(all);
  for (int i = 0; i < VOCAB * DIM; ++i) w[i] = test_uniform(&seed);
  for (int i = 0; i < N * DIM; ++i) x[i] = 3 * test_uniform(&seed);
  for (int c = 0; c < contexts; ++c) {
    embed_table *t = NULL;
    embed_head *h = NULL;
    embed_rules *rules[2] = {NULL, NULL};
    embed_result *r = result_new(all[c]);
    OK(embed_table_view(all[c], w, VOCAB, DIM, NULL, NULL, NULL, &t));
    OK(embed_head_create(all[c], t, NULL, NULL, &h));
    OK(embed_logits(all[c], h, x, EMBED_F32, N, 0, plain, 0, NULL));
    for (int i = 0; i < 2; ++i) OK(embed_rules_create(all[c], VOCAB, &rules[i]));
    for (int round = 0; round < 2 * COUNT(all_params); ++round) {
      const embed_sample_params *p = &all_params[round / 2];
      const embed_rules *const each[N] = {rules[0], NULL, rules[1]};
      int32_t targets[N];
      random_rules(all[c], rules[0], &each_told[0], &seed);
      told_new(&each_told[1]);
      random_rules(all[c], rules[1], &each_told[2], &seed);
      for (int i = 0; i < N; ++i) {
        for (int32_t v = 0; v < VOCAB; ++v) want[i * VOCAB + v] = processed(&each_told[i], round % 2 ? p : round == 0 ? NULL : p, plain[i * VOCAB + v], v);
        targets[i] = (int32_t)(test_random(&seed) % VOCAB);
      }
      for (int way = 0; way < 4; ++way) {
        const uint32_t flags = way / 2 ? EMBED_SWEEP_PROCESSED : 0;
        const double temperature = flags && p->temperature > 0 ? p->temperature : 1;
        const embed_sweep_options o = {.size = sizeof o, .ask = ALL_ASKS, .k = K, .flags = flags};
        const bool none = round == 0;
        if (way % 2)
          OK(embed_sweep_logits(all[c], plain, VOCAB, 0, NULL, N, targets, each, none ? NULL : p, !none, &o, r));
        else
          OK(embed_sweep(all[c], h, x, EMBED_F32, 0, NULL, N, targets, each, none ? NULL : p, !none, &o, r));
        assert_same_bits(floats_of(r, EMBED_ASK_LOGITS), want, sizeof want);
        for (int i = 0; i < N; ++i) {
          const float *z = want + i * VOCAB, *own = flags ? z : plain + i * VOCAB;
          const double whole = logsumexp_of(own, VOCAB, temperature);
          assert_topk(r, i, K, z, VOCAB);
          assert_close((double)floats_of(r, EMBED_ASK_LOGSUMEXP)[i], whole, 2e-7);
          assert_close((double)floats_of(r, EMBED_ASK_ENTROPY)[i], entropy_of(own, VOCAB, temperature), 1e-6);
          assert_close((double)floats_of(r, EMBED_ASK_TARGET_LOGPROB)[i], (double)own[targets[i]] / temperature - whole, 3e-7);
          assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[i], rank_of(own, VOCAB, targets[i]));
          const int32_t token = ints_of(r, EMBED_ASK_TOKEN)[i];
          assert_true(z[token] > -INFINITY);
          if (none || p->temperature == 0) assert_int_equal(token, best_of(z, VOCAB));
          assert_close((double)floats_of(r, EMBED_ASK_TOKEN_LOGPROB)[i], (double)own[token] / temperature - whole, 3e-7);
        }
      }
    }
    for (int i = 0; i < 2; ++i) embed_rules_release(rules[i]);
    embed_head_release(h);
    embed_table_release(t);
    embed_result_release(r);
  }
  contexts_free(all, contexts);
}

/* A soft-cap makes -30 of -inf: a ban before it would leave the id to be drawn. */
static void a_banned_id_is_gone_behind_a_softcap_too(void **state) {
  (void)state;
  const float values[4] = {1000, 5000, 4, NAN};
  const float one = 1;
  const int32_t bans[2] = {0, 3};
  embed_context *ctx = context_new();
  embed_result *r = result_new(ctx);
  embed_table *t = NULL;
  embed_head *h = NULL;
  embed_rules *rules = NULL;
  const embed_head_options capped = {.size = sizeof capped, .logit_softcap = 30};
  OK(embed_table_view(ctx, values, 4, 1, NULL, NULL, NULL, &t));
  OK(embed_head_create(ctx, t, NULL, &capped, &h));
  OK(embed_rules_create(ctx, 4, &rules));
  OK(embed_rules_ban(ctx, rules, bans, 2));
  const embed_rules *each[1] = {rules};
  const embed_sweep_options o = {.size = sizeof o, .ask = EMBED_ASK_LOGITS | EMBED_ASK_TOKEN, .k = 1};
  OK(embed_sweep(ctx, h, &one, EMBED_F32, 0, NULL, 1, NULL, each, NULL, 0, &o, r));
  const float *z = floats_of(r, EMBED_ASK_LOGITS);
  assert_true(z[0] == -INFINITY && z[1] == 30 && z[2] > 3.9f && z[3] == -INFINITY);
  assert_int_equal(ints_of(r, EMBED_ASK_TOKEN)[0], 1);
  embed_rules_release(rules);
  embed_head_release(h);
  embed_table_release(t);
  embed_result_release(r);
  embed_context_release(ctx);
}

static void a_row_of_bans_is_an_error_of_what_ranks(void **state) {
  (void)state;
  const float z[2] = {1, 2};
  const int32_t both[2] = {0, 1}, target = 0;
  embed_context *ctx = context_new();
  embed_result *r = result_new(ctx);
  embed_rules *rules = NULL;
  OK(embed_rules_create(ctx, 2, &rules));
  OK(embed_rules_ban(ctx, rules, both, 2));
  const embed_rules *each[1] = {rules};
  for (uint32_t flags = 0; flags < 2; ++flags)
    for (uint32_t ask = 1; ask <= EMBED_ASK_TOKEN_LOGPROB; ask *= 2) {
      const embed_sweep_options o = {.size = sizeof o, .ask = ask, .k = 1, .flags = flags};
      const bool own = ask & OWN_ASKS && !flags;
      assert_int_equal(embed_sweep_logits(ctx, z, 2, 0, NULL, 1, &target, each, NULL, 0, &o, r), own || ask == EMBED_ASK_LOGITS ? EMBED_OK : EMBED_E_NONFINITE);
    }
  embed_rules_clear(rules);
  const embed_sweep_options o = {.size = sizeof o, .ask = EMBED_ASK_TOKEN};
  OK(embed_sweep_logits(ctx, z, 2, 0, NULL, 1, NULL, each, NULL, 0, &o, r));
  assert_int_equal(ints_of(r, EMBED_ASK_TOKEN)[0], 1);
  embed_rules_release(rules);
  embed_result_release(r);
  embed_context_release(ctx);
}

static void refused_rules_are_as_they_were(void **state) {
  (void)state;
  const float z[40] = {[7] = 3, [8] = 2}, huge[1] = {INFINITY}, nan[2] = {1, NAN}, up[1] = {9};
  const int32_t bad[3] = {1, 7, 40}, negative[2] = {7, -1}, seven[1] = {7}, eight[1] = {8};
  const uint32_t bits[2] = {1, 0};
  embed_context *ctx = context_new();
  embed_result *r = result_new(ctx);
  embed_rules *rules = NULL;
  assert_int_equal(embed_rules_create(ctx, -1, &rules), EMBED_E_ARGUMENT);
  assert_int_equal(embed_rules_create(ctx, (int64_t)INT32_MAX + 1, &rules), EMBED_E_UNSUPPORTED);
  assert_null(rules);
  OK(embed_rules_create(ctx, 40, &rules));
  assert_int_equal(embed_rules_ban(ctx, rules, bad, 3), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 2);
  assert_string_equal(embed_error_text(ctx), "id 40 at position 2 is outside the vocabulary of 40 rows");
  assert_int_equal(embed_rules_ban(ctx, rules, negative, 2), EMBED_E_ID);
  assert_int_equal(embed_rules_ban(ctx, rules, seven, -1), EMBED_E_ARGUMENT);
  assert_int_equal(embed_rules_bias(ctx, rules, seven, huge, 1), EMBED_E_NONFINITE);
  assert_int_equal(embed_rules_bias(ctx, rules, bad, nan, 2), EMBED_E_NONFINITE);
  assert_int_equal(embed_error_at(ctx), 1);
  assert_int_equal(embed_rules_allow(ctx, rules, bits, 1), EMBED_E_MISMATCH);
  assert_int_equal(embed_rules_allow(ctx, rules, bits, 3), EMBED_E_MISMATCH);
  assert_int_equal(embed_rules_push(ctx, rules, bad, 3), EMBED_E_ID);
  assert_int_equal(embed_rules_pop(ctx, rules, 1), EMBED_E_ARGUMENT);
  assert_int_equal(embed_rules_pop(ctx, rules, -1), EMBED_E_ARGUMENT);
  const embed_rules *each[1] = {rules};
  const embed_sample_params params = {.size = sizeof params, .presence = 5};
  const embed_sweep_options o = {.size = sizeof o, .ask = EMBED_ASK_LOGITS | EMBED_ASK_TOKEN};
#define TOKEN_IS(id)                                                               \
  do {                                                                             \
    OK(embed_sweep_logits(ctx, z, 40, 0, NULL, 1, NULL, each, &params, 1, &o, r)); \
    assert_int_equal(ints_of(r, EMBED_ASK_TOKEN)[0], id);                          \
  } while (0)
  TOKEN_IS(7);
  assert_same_bits(floats_of(r, EMBED_ASK_LOGITS), z, sizeof z);
  OK(embed_rules_allow(ctx, rules, bits, 2));
  TOKEN_IS(0);
  OK(embed_rules_allow(ctx, rules, NULL, 0));
  TOKEN_IS(7);
  OK(embed_rules_push(ctx, rules, seven, 1));
  TOKEN_IS(8);
  OK(embed_rules_pop(ctx, rules, 1));
  TOKEN_IS(7);
  OK(embed_rules_bias(ctx, rules, eight, up, 1));
  TOKEN_IS(8);
  OK(embed_rules_ban(ctx, rules, eight, 1));
  TOKEN_IS(7);
  embed_rules_clear(rules);
  TOKEN_IS(7);
  embed_rules_release(rules);
  embed_result_release(r);
  embed_context_release(ctx);
}

static void a_bias_taken_back_leaves_every_bit(void **state) {
  const float z[3] = {-0.0f, 1, -2}, bias[3] = {4, 5, 6}, none[3] = {0};
  const int32_t ids[3] = {0, 1, 2};
  (void)state;
  embed_context *ctx = context_new();
  embed_result *r = result_new(ctx);
  embed_rules *rules = NULL;
  OK(embed_rules_create(ctx, 3, &rules));
  const embed_rules *each[1] = {rules};
  const embed_sweep_options o = {.size = sizeof o, .ask = EMBED_ASK_LOGITS};
  OK(embed_rules_bias(ctx, rules, ids, bias, 3));
  OK(embed_rules_bias(ctx, rules, ids, none, 3));
  OK(embed_sweep_logits(ctx, z, 3, 0, NULL, 1, NULL, each, NULL, 0, &o, r));
  assert_same_bits(floats_of(r, EMBED_ASK_LOGITS), z, sizeof z);
  embed_rules_release(rules);
  embed_result_release(r);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(answers_are_those_of_a_plain_loop),       cmocka_unit_test(a_banned_id_is_gone_behind_a_softcap_too),
    cmocka_unit_test(a_row_of_bans_is_an_error_of_what_ranks), cmocka_unit_test(refused_rules_are_as_they_were),
    cmocka_unit_test(a_bias_taken_back_leaves_every_bit),
};
TEST_MAIN(tests)
