/* SPDX-License-Identifier: BSD-3-Clause */
/* Certified draws: tokens that a sketch finds are those of the plain sweep, for every sampler that it answers for; the best too, with rules. */
#include "sketch.h"

/* Whole heads, or the same rows of both as subsets. */
typedef struct drawing {
  pair whole, heads;
  embed_table *t;
  int32_t *ids;
} drawing;

static void always_search(embed_head *h) {
  h->sketch->share = -1000 * EMBED__SKETCH_ONE;
  h->sketch->average = h->sketch->share;
  h->sketch->most = 64 * h->table->vocab;
}

static void take_subset(embed_context *ctx, drawing *d, uint64_t *state) {
  const int64_t vocab = d->t->vocab, n = 1 + (int64_t)(test_random(state) % (uint64_t)vocab);
  d->ids = malloc((size_t)vocab * sizeof *d->ids);
  for (int64_t i = 0; i < vocab; ++i) d->ids[i] = (int32_t)i;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t other = i + (int64_t)(test_random(state) % (uint64_t)(vocab - i));
    const int32_t id = d->ids[i];
    d->ids[i] = d->ids[other];
    d->ids[other] = id;
  }
  OK(embed_head_create_subset(ctx, d->whole.plain, d->ids, n, &d->heads.plain));
  OK(embed_head_create_subset(ctx, d->whole.certified, d->ids, n, &d->heads.certified));
  always_search(d->heads.certified);
}

static drawing drawing_new(embed_context *ctx, int round, uint64_t *state) {
  static float bias[MOST_VOCAB];
  const embed_dtype dtype = dtypes[round % DTYPES];
  const kind k = (kind)(test_random(state) % KINDS);
  const int64_t dim = fitting_dim(dtype, 1 + (int64_t)(test_random(state) % (test_random(state) % 4 ? 100 : MOST_DIM)));
  const int64_t vocab = 1 + (int64_t)(test_random(state) % (test_random(state) % 8 ? 300 : MOST_VOCAB));
  drawing d = {.t = table_of(ctx, !holds_any(dtype) && (k == WILD || k == HUGE_AND_TINY || k == SUBNORMAL) ? NORMAL : k, dtype, vocab, dim, state)};
  const bool biased = test_random(state) % 3 == 0;
  random_bias(bias, vocab, state);
  d.whole = heads_of(ctx, d.t, biased ? bias : NULL, random_options(state));
  d.heads = d.whole;
  if (round % 4 == 3) take_subset(ctx, &d, state);
  return d;
}

static void drawing_free(drawing d) {
  if (d.ids) pair_free(d.heads);
  free(d.ids);
  pair_free(d.whole);
  embed_table_release(d.t);
}

/* Mostly a temperature alone; filters that the best decide, and such that no search answers for. */
static embed_sample_params random_params(int64_t vocab, uint64_t *state) {
  static const double temperatures[] = {1, 1, 1, 0.7, 0.1, 1e-3, 3, 30, 1e6, 1e-250, 1e-30, 1e300, 0};
  embed_sample_params p = {.size = sizeof p, .seed = test_random(state), .position = (int64_t)(test_random(state) >> 1 >> test_random(state) % 60)};
  p.temperature = temperatures[test_random(state) % 13];
  p.order = (embed_sample_order)(test_random(state) % 2);
  if (test_random(state) % 3) return p;
  if (test_random(state) % 8) p.top_k = 1 + (int32_t)(test_random(state) % (uint64_t)(vocab < 20 ? vocab : 20));
  if (test_random(state) % 2) p.top_p = 0.9;
  if (test_random(state) % 4 == 0) p.min_p = 0.05;
  if (test_random(state) % 4 == 0) p.typical_p = 0.8;
  if (test_random(state) % 8 == 0) p.top_n_sigma = 2;
  return p;
}

/* Over the ids of the whole head: bans, an allowed set, biases, a history. */
static embed_rules *random_rules(embed_context *ctx, int64_t vocab, uint64_t *state) {
  embed_rules *r = NULL;
  int32_t ids[64];
  float bias[64];
  OK(embed_rules_create(ctx, vocab, &r));
  for (int i = 0; i < 64; ++i) {
    ids[i] = (int32_t)(test_random(state) % (uint64_t)vocab);
    bias[i] = 10 * normal(state);
  }
  if (test_random(state) % 2) OK(embed_rules_ban(ctx, r, ids, (int64_t)(test_random(state) % 30)));
  if (test_random(state) % 2) OK(embed_rules_bias(ctx, r, ids + 20, bias, (int64_t)(test_random(state) % 30)));
  if (test_random(state) % 2) OK(embed_rules_push(ctx, r, ids + 10, (int64_t)(test_random(state) % 54)));
  if (test_random(state) % 3 == 0) {
    const int64_t words = (vocab + 31) / 32;
    uint32_t *bits = malloc((size_t)words * sizeof *bits);
    for (int64_t w = 0; w < words; ++w) bits[w] = (uint32_t)test_random(state);
    OK(embed_rules_allow(ctx, r, bits, words));
    free(bits);
  }
  return r;
}

static void random_penalties(embed_sample_params *p, uint64_t *state) {
  static const double repetitions[] = {0, 1.1, 0.5, 30, 1e-3};
  if (test_random(state) % 2) return;
  p->repetition = repetitions[test_random(state) % 5];
  p->frequency = (double)normal(state);
  p->presence = (double)normal(state);
  p->last_n = (int32_t)(test_random(state) % 20);
}

/* The best and their logits, with the same rules. */
static void check_best(embed_context *ctx, const drawing *d, const void *hidden, embed_dtype dtype, int64_t n, const embed_rules *const *rules,
                       const embed_sample_params *params, embed_sweep_options o, embed_result *results[2]) {
  const embed_head *heads[2] = {d->heads.plain, d->heads.certified};
  embed_status status[2];
  int64_t at[2];
  o.ask = EMBED_ASK_TOPK_IDS | EMBED_ASK_TOPK_LOGITS | EMBED_ASK_TOPK_COUNT;
  for (int which = 0; which < 2; ++which) {
    status[which] = embed_sweep(ctx, heads[which], hidden, dtype, 0, NULL, n, NULL, rules, params, 1, &o, results[which]);
    at[which] = embed_error_at(ctx);
  }
  assert_int_equal(status[1], status[0]);
  assert_int_equal(at[1], at[0]);
  if (status[0] != EMBED_OK) return;
  const float *plain = embed_result_f32(results[0], EMBED_ASK_TOPK_LOGITS, NULL, NULL),
              *found = embed_result_f32(results[1], EMBED_ASK_TOPK_LOGITS, NULL, NULL);
  assert_same_bits(embed_result_i32(results[1], EMBED_ASK_TOPK_IDS, NULL, NULL), embed_result_i32(results[0], EMBED_ASK_TOPK_IDS, NULL, NULL),
                   (size_t)(n * o.k) * 4);
  for (int64_t j = 0; j < n * o.k; ++j)
    if (!isnan(plain[j]) || !isnan(found[j])) assert_same_bits(&found[j], &plain[j], 4);
}

static int64_t check_draws(embed_context *ctx, const drawing *d, int calls, uint64_t *state) {
  static float x[MOST_N * (MOST_DIM + 256)];
  static uint16_t half[MOST_N * (MOST_DIM + 256)];
  const int64_t dim = d->t->dim;
  embed_rules *pool[4];
  embed_result *results[2];
  int64_t cases = 0;
  for (int i = 0; i < 4; ++i) pool[i] = random_rules(ctx, d->t->vocab, state);
  for (int i = 0; i < 2; ++i) OK(embed_result_create(ctx, &results[i]));
  for (int call = 0; call < calls; ++call) {
    const int64_t n = test_random(state) % 3 ? 1 : 1 + (int64_t)(test_random(state) % MOST_N);
    const bool short_x = test_random(state) % 4 == 0, together = test_random(state) % 2;
    const embed_sweep_options o = {.size = sizeof o, .nan = (embed_nan_policy)(test_random(state) % 3), .k = 1 + (int32_t)(test_random(state) % 5)};
    const bool ruled = test_random(state) % 2;
    const embed_rules *rules[MOST_N];
    embed_sample_params params[MOST_N];
    int32_t ids[2][MOST_N];
    for (int64_t i = 0; i < n; ++i) {
      fill_hidden(ctx, d->whole.certified, x + i * dim, state);
      params[i] = random_params(embed_head_vocab(d->heads.plain), state);
      random_penalties(&params[i], state);
      rules[i] = test_random(state) % 4 ? pool[test_random(state) % 4] : NULL;
    }
    for (int64_t j = 0; j < n * dim; ++j) half[j] = embed__bf16_of_f32(x[j]);
    const void *hidden = short_x ? (const void *)half : x;
    const embed_dtype dtype = short_x ? EMBED_BF16 : EMBED_F32;
    memset(ids, 0x5A, sizeof ids);
    const embed_status plain = embed_sample(ctx, d->heads.plain, hidden, dtype, n, 0, ruled ? rules : NULL, params, together ? 1 : n, ids[0], NULL, &o);
    const int64_t at = embed_error_at(ctx);
    assert_int_equal(embed_sample(ctx, d->heads.certified, hidden, dtype, n, 0, ruled ? rules : NULL, params, together ? 1 : n, ids[1], NULL, &o), plain);
    assert_int_equal(embed_error_at(ctx), at);
    if (plain == EMBED_OK) assert_same_bits(ids[1], ids[0], (size_t)n * sizeof *ids[0]);
    if (ruled) check_best(ctx, d, hidden, dtype, n, rules, params, o, results);
    cases += n;
  }
  for (int i = 0; i < 4; ++i) embed_rules_release(pool[i]);
  for (int i = 0; i < 2; ++i) embed_result_release(results[i]);
  return cases;
}

#ifdef TEST_SANITIZED
enum { CASES = 3000, CASES_OF_LEVEL = 300 };
#else
enum { CASES = 60000, CASES_OF_LEVEL = 8000 };
#endif

static void check_cases(const char *level, int32_t threads, int64_t least, uint64_t seed) {
  enum { CALLS = 40 };
  embed_pool *pool;
  embed_context *ctx = context_of(level, threads, &pool);
  int64_t answered = 0, cases = 0, calls = 0;
  for (int round = 0; cases < least; ++round, calls += CALLS) {
    const drawing d = drawing_new(ctx, round, &seed);
    cases += check_draws(ctx, &d, CALLS, &seed);
    answered += searches(ctx, d.heads.certified);
    drawing_free(d);
  }
  print_message("%s, %d threads: %lld hidden rows, %lld of %lld calls certified\n", embed_context_isa(ctx), (int)threads, (long long)cases, (long long)answered,
                (long long)calls);
  assert_true(answered > calls / 4 || 2 * ctx->kernels->sketch.vector_bits < ctx->kernels->dot.vector_bits); /* or it does not pay */
  embed_context_release(ctx);
  embed_pool_release(pool);
}

static void draws_are_those_of_the_plain_sweep(void **state) {
  (void)state;
  check_cases(NULL, 1, CASES, 51);
}

static void so_are_they_at_every_level(void **state) {
  static const char *const levels[] = {TEST_LEVELS};
  (void)state;
  for (size_t l = 0; l < sizeof levels / sizeof *levels; ++l) check_cases(levels[l], 1, CASES_OF_LEVEL, 52 + l);
}

static void so_are_they_on_any_number_of_threads(void **state) {
  (void)state;
  check_cases(NULL, 2, CASES_OF_LEVEL, 61);
  check_cases(NULL, 7, CASES_OF_LEVEL, 62);
}

/* A draw and the best in one sweep, and what a search gives beside the token. */
static void a_sweep_draws_what_a_sample_draws(void **state) {
  enum { VOCAB = 700, DIM = 64, N = 5 };
  uint64_t seed = 71;
  embed_pool *pool;
  embed_context *ctx = context_of(NULL, 1, &pool);
  embed_table *t = table_of(ctx, NORMAL, EMBED_BF16, VOCAB, DIM, &seed);
  const pair p = heads_of(ctx, t, NULL, (embed_head_options){0});
  const uint32_t asks[] = {EMBED_ASK_TOKEN, EMBED_ASK_TOKEN | EMBED_ASK_TOPK_IDS, EMBED_ASK_TOKEN | EMBED_ASK_TOKEN_LOGPROB};
  embed_result *r = NULL;
  float x[N * DIM];
  int32_t ids[N];
  (void)state;
  OK(embed_result_create(ctx, &r));
  for (int j = 0; j < N * DIM; ++j) x[j] = normal(&seed);
  for (int64_t position = 0; position < 20; ++position) {
    const embed_sample_params params = {.size = sizeof params, .seed = 5, .position = position, .temperature = 1};
    OK(embed_sample(ctx, p.plain, x, EMBED_F32, N, 0, NULL, &params, 1, ids, NULL, NULL));
    for (int a = 0; a < 3; ++a) {
      const embed_sweep_options o = {.size = sizeof o, .ask = asks[a], .k = 3};
      const int64_t before = searches(ctx, p.certified);
      OK(embed_sweep(ctx, p.certified, x, EMBED_F32, 0, NULL, N, NULL, NULL, &params, 1, &o, r));
      assert_same_bits(embed_result_i32(r, EMBED_ASK_TOKEN, NULL, NULL), ids, sizeof ids);
      if (TEST_SKETCH_SEARCHES) assert_int_equal(searches(ctx, p.certified) - before, a == 0);
    }
  }
  embed_result_release(r);
  pair_free(p);
  embed_table_release(t);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(draws_are_those_of_the_plain_sweep),
    cmocka_unit_test(so_are_they_at_every_level),
    cmocka_unit_test(so_are_they_on_any_number_of_threads),
    cmocka_unit_test(a_sweep_draws_what_a_sample_draws),
};
TEST_MAIN(tests)
