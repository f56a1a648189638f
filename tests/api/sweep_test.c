/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_sweep and embed_sweep_logits: every answer against float64, and against each other. */
#include "sweep.h"

#include <float.h>

#include "counting.h"

/* A head whose logits for hidden = 1 are these values. */
static embed_head *head_of(embed_context *ctx, const float *values, int64_t vocab, float cap) {
  embed_table *t = NULL;
  embed_head *h = NULL;
  const embed_head_options o = {.size = sizeof o, .logit_softcap = cap};
  OK(embed_table_view(ctx, values, vocab, 1, NULL, NULL, NULL, &t));
  OK(embed_head_create(ctx, t, NULL, &o, &h));
  embed_table_release(t);
  return h;
}

static const float one = 1;

/* The same values through a head (way 0) and as the caller's logits (way 1). */
static embed_status sweep_values(embed_context *ctx, int way, const float *values, int64_t vocab, const int32_t *target, const embed_sweep_options *o,
                                 embed_result *r) {
  if (way == 1) return embed_sweep_logits(ctx, values, vocab, 0, NULL, 1, target, NULL, NULL, 0, o, r);
  embed_head *h = head_of(ctx, values, vocab, 0);
  embed_status status = embed_sweep(ctx, h, &one, EMBED_F32, 0, NULL, 1, target, NULL, NULL, 0, o, r);
  embed_head_release(h);
  return status;
}

static void the_pipeline_is_that_of_the_heads(void **state) { /* D1b */
  (void)state;
  const float w[5][4] = {{.2f, -.4f, .6f, 1}, {1, 1, 1, 1}, {-3, 2, .5f, .25f}, {20, 10, -20, 30}, {0, 0, 0, 0}};
  const float b[5] = {.1f, -.2f, .3f, 0, 1}, x[4] = {1, .5f, -1, 2};
  const double z[5] = {1.5, 2.3, -1.7, 105, 1}, capped[5] = {1.4987512487363992, 2.295504273360788, -1.6981827045497278, 29.945336928335962, .9996297941646859};
  embed_context *ctx = context_new();
  embed_result *r = result_new(ctx);
  embed_table *t = NULL;
  OK(embed_table_view(ctx, w, 5, 4, NULL, NULL, NULL, &t));
  for (int cap = 0; cap < 2; ++cap) {
    const embed_head_options options = {.size = sizeof options, .logit_softcap = cap ? 30 : 0};
    const embed_sweep_options o = {.size = sizeof o, .ask = ALL_ASKS, .k = 2};
    const int32_t target = 1;
    embed_head *h = NULL;
    OK(embed_head_create(ctx, t, b, &options, &h));
    OK(embed_sweep(ctx, h, x, EMBED_F32, 0, NULL, 1, &target, NULL, NULL, 0, &o, r));
    for (int way = 0; way < 2; ++way) {
      const float *logits = floats_of(r, EMBED_ASK_LOGITS);
      for (int v = 0; v < 5; ++v) assert_close((double)logits[v], cap ? capped[v] : z[v], 2e-6);
      assert_close((double)floats_of(r, EMBED_ASK_LOGSUMEXP)[0], cap ? 29.94533692833767 : 105, 1e-6);
      assert_int_equal(ints_of(r, EMBED_ASK_TOPK_IDS)[0], 3);
      assert_int_equal(ints_of(r, EMBED_ASK_TOPK_IDS)[1], 1);
      assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[0], 2);
      assert_int_equal(ints_of(r, EMBED_ASK_TOKEN)[0], 3);
      float copy[5];
      memcpy(copy, logits, sizeof copy);
      OK(embed_sweep_logits(ctx, copy, 5, 0, NULL, 1, &target, NULL, NULL, 0, &o, r));
    }
    embed_head_release(h);
  }
  embed_table_release(t);
  embed_result_release(r);
  embed_context_release(ctx);
}

static void logsumexp_and_entropy_are_right_to_float(void **state) { /* D2 */
  (void)state;
  enum { LONG = 5000 };
  static float z[LONG];
  uint64_t seed = 3;
  embed_context *all[CONTEXTS];
  const int contexts = contexts_new(all);
  const embed_sweep_options o = {.size = sizeof o, .ask = OWN_ASKS};
  for (int c = 0; c < contexts; ++c) {
    embed_result *r = result_new(all[c]);
    for (int way = 0; way < 2; ++way) {
      const float high[3] = {1000, 1001, 1002}, two[5] = {2, 1, .5f, .1f, -1};
      const int32_t target = 2;
      OK(sweep_values(all[c], way, high, 3, &target, &o, r));
      assert_close((double)floats_of(r, EMBED_ASK_LOGSUMEXP)[0], 1002.4076059644444, 6e-8);
      assert_close((double)floats_of(r, EMBED_ASK_TARGET_LOGPROB)[0], -.4076059644443803, 1e-6);
      OK(sweep_values(all[c], way, two, 5, &target, &o, r));
      assert_close((double)floats_of(r, EMBED_ASK_LOGSUMEXP)[0], 2.5824196710497693, 1e-7);
      for (int spread = 0; spread < 4; ++spread) {
        for (int v = 0; v < LONG; ++v) z[v] = (float[]){0, 1, 20, 300}[spread] * test_uniform(&seed) + 7;
        for (int v = 0; v < LONG; v += 7) z[v] = spread == 1 ? -INFINITY : z[v];
        OK(sweep_values(all[c], way, z, LONG, &target, &o, r));
        assert_close((double)floats_of(r, EMBED_ASK_LOGSUMEXP)[0], logsumexp_of(z, LONG, 1), 2e-7);
        assert_close((double)floats_of(r, EMBED_ASK_ENTROPY)[0], entropy_of(z, LONG, 1), 1e-6);
        assert_close((double)floats_of(r, EMBED_ASK_TARGET_LOGPROB)[0], (double)z[2] - logsumexp_of(z, LONG, 1), 2e-7);
      }
    }
    embed_result_release(r);
  }
  contexts_free(all, contexts);
}

static void ties_nan_and_infinities_have_their_order(void **state) { /* D3 */
  (void)state;
  embed_context *ctx = context_new();
  embed_result *r = result_new(ctx);
  for (int way = 0; way < 2; ++way) {
    const float z[5] = {1, 3, -INFINITY, 3, 2}, with_nan[5] = {1, 3, NAN, 3, 2}, zeros[2] = {-0.0f, 0.0f};
    const int32_t ranks[5] = {4, 1, 5, 2, 3}, ranks_with_nan[5] = {5, 2, 1, 3, 4};
    embed_sweep_options o = {.size = sizeof o, .ask = ALL_ASKS & ~(uint32_t)EMBED_ASK_LOGITS, .k = 3};
    for (int32_t target = 0; target < 5; ++target) {
      OK(sweep_values(ctx, way, z, 5, &target, &o, r));
      assert_topk(r, 0, 3, z, 5);
      assert_int_equal(ints_of(r, EMBED_ASK_TOPK_IDS)[0], 1);
      assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[0], ranks[target]);
      assert_int_equal(ints_of(r, EMBED_ASK_TOKEN)[0], 1);
      assert_close((double)floats_of(r, EMBED_ASK_TARGET_LOGPROB)[0], (double)z[target] - logsumexp_of(z, 5, 1), 2e-7);
      assert_same_bits(floats_of(r, EMBED_ASK_TOKEN_LOGPROB), &(float){(float)(3 - logsumexp_of(z, 5, 1))}, 4);
      OK(sweep_values(ctx, way, with_nan, 5, &target, &o, r));
      assert_topk(r, 0, 3, with_nan, 5);
      assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[0], ranks_with_nan[target]);
      assert_int_equal(ints_of(r, EMBED_ASK_TOKEN)[0], 2);
      assert_true(isnan(floats_of(r, EMBED_ASK_LOGSUMEXP)[0]));
      assert_true(isnan(floats_of(r, EMBED_ASK_ENTROPY)[0]));
      assert_true(isnan(floats_of(r, EMBED_ASK_TARGET_LOGPROB)[0]));
      o.nan = EMBED_NAN_IGNORE;
      OK(sweep_values(ctx, way, with_nan, 5, &target, &o, r));
      assert_topk(r, 0, 3, z, 5);
      assert_close((double)floats_of(r, EMBED_ASK_LOGSUMEXP)[0], logsumexp_of(z, 5, 1), 2e-7);
      assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[0], ranks[target]);
      o.nan = EMBED_NAN_ERROR;
      assert_int_equal(sweep_values(ctx, way, with_nan, 5, &target, &o, r), EMBED_E_NONFINITE);
      assert_int_equal(embed_error_at(ctx), 0);
      assert_null(embed_result_i32(r, EMBED_ASK_TOKEN, NULL, NULL));
      o.nan = EMBED_NAN_MAX;
    }
    o.k = 7;
    OK(sweep_values(ctx, way, z, 5, &(int32_t){0}, &o, r));
    assert_topk(r, 0, 7, z, 5);
    assert_int_equal(ints_of(r, EMBED_ASK_TOPK_IDS)[4], 2);
    OK(sweep_values(ctx, way, zeros, 2, &(int32_t){1}, &o, r));
    assert_int_equal(ints_of(r, EMBED_ASK_TOKEN)[0], 0);
    assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[0], 2);
    const float infinite[4] = {1, INFINITY, 2, INFINITY};
    for (int32_t target = 0; target < 4; ++target) {
      OK(sweep_values(ctx, way, infinite, 4, &target, &o, r));
      assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[0], rank_of(infinite, 4, target));
      assert_true(floats_of(r, EMBED_ASK_LOGSUMEXP)[0] == INFINITY);
    }
  }
  embed_result_release(r);
  embed_context_release(ctx);
}

/* Few and many, against one task per row and several, rows full of ties, of -inf, with NaN. */
static void the_best_are_right_for_every_k(void **state) {
  (void)state;
  enum { VOCAB = 70000, N = 10 };
  static const int32_t ks[] = {0, 1, 16, 40, 127, 128, 129, 300, 1024, VOCAB - 1, VOCAB, VOCAB + 7};
  static const int32_t threads[] = {1, 2, 7};
  static float z[N * VOCAB];
  uint64_t seed = 99;
  for (int64_t i = 0; i < N; ++i)
    for (int64_t v = 0; v < VOCAB; ++v) {
      float *at = &z[i * VOCAB + v];
      const uint64_t random = test_random(&seed);
      *at = i % 5 == 0 ? test_uniform(&seed) : i % 5 == 1 ? (float)(int)(random % 7) - 3 : i % 5 == 2 ? (float)v : i % 5 == 3 ? (float)-v : -INFINITY;
      if (i > 4 && random % 97 == 0) *at = NAN;
      if (i % 5 == 4 && random % 500 == 1) *at = test_uniform(&seed);
      if (i == 2 && random % 3 == 0) *at = -0.0f;
    }
  for (int c = 0; c < COUNT(threads); ++c) {
    embed_context *ctx = context_with(NULL, threads[c]);
    embed_result *r = result_new(ctx);
    for (int j = 0; j < COUNT(ks); ++j) {
      const embed_sweep_options o = {.size = sizeof o, .ask = EMBED_ASK_TOPK_IDS | EMBED_ASK_TOPK_LOGITS | EMBED_ASK_TOPK_COUNT, .k = ks[j]};
      OK(embed_sweep_logits(ctx, z, VOCAB, 0, NULL, N, NULL, NULL, NULL, 0, &o, r));
      for (int64_t i = 0; i < N; ++i) assert_topk(r, i, ks[j], z + i * VOCAB, VOCAB);
      for (int64_t i = 0; i < N; i += 3)
        for (int way = 0; way < 2; ++way) {
          OK(sweep_values(ctx, way, z + i * VOCAB, VOCAB, NULL, &o, r));
          assert_topk(r, 0, ks[j], z + i * VOCAB, VOCAB);
        }
    }
    embed_result_release(r);
    embed_context_release(ctx);
  }
}

static void a_row_without_a_logit_is_named(void **state) {
  (void)state;
  float z[3][4] = {{1, 2, 3, 4}, {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, {0, 0, 0, NAN}};
  const int32_t targets[3] = {0, 0, 0};
  embed_context *ctx = context_new();
  embed_result *r = result_new(ctx);
  for (uint32_t ask = 1; ask <= EMBED_ASK_TOKEN_LOGPROB; ask *= 2) {
    const embed_sweep_options o = {.size = sizeof o, .ask = ask, .k = 1};
    embed_status status = embed_sweep_logits(ctx, &z[0][0], 4, 0, NULL, 3, targets, NULL, NULL, 0, &o, r);
    assert_int_equal(status, ask == EMBED_ASK_LOGITS ? EMBED_OK : EMBED_E_NONFINITE);
    if (ask != EMBED_ASK_LOGITS) assert_int_equal(embed_error_at(ctx), 1);
  }
  const embed_sweep_options o = {.size = sizeof o, .ask = EMBED_ASK_TOPK_COUNT};
  assert_int_equal(embed_sweep_logits(ctx, &z[0][0], 0, 0, NULL, 3, NULL, NULL, NULL, 0, &o, r), EMBED_E_NONFINITE);
  const embed_sample_params drawn = {.size = sizeof drawn, .temperature = 1};
  const embed_sweep_options token = {.size = sizeof token, .ask = EMBED_ASK_TOKEN};
  z[1][2] = 0;
  assert_int_equal(embed_sweep_logits(ctx, &z[0][0], 4, 0, NULL, 3, NULL, NULL, &drawn, 1, &token, r), EMBED_E_NONFINITE);
  assert_int_equal(embed_error_at(ctx), 2);
  embed_result_release(r);
  embed_context_release(ctx);
}

/* Only a draw needs a distribution: without one, log-probabilities are NaN, by filters too, and other rows keep theirs. */
static void a_row_that_is_no_number_refuses_draws_alone(void **state) {
  (void)state;
  enum { V = 1500 }; /* more than the candidates of the first sweep */
  static float z[2][V];
  const int32_t targets[2] = {3, 3};
  static const uint32_t asks[] = {EMBED_ASK_LOGSUMEXP, EMBED_ASK_ENTROPY, EMBED_ASK_TARGET_LOGPROB};
  embed_context *ctx = context_new();
  embed_result *r = result_new(ctx);
  for (int i = 0; i < 2 * V; ++i) z[i / V][i % V] = i % V == 3 ? 0.97f : (float)(i % 97) * 0.01f;
  z[1][1] = NAN;
  for (int way = 0; way < 3; ++way) { /* no filter, a list, and the second sweep's */
    const embed_sample_params p = {.size = sizeof p, .temperature = 1, .top_k = way == 1 ? 2 : 0, .typical_p = way == 2 ? 0.99 : 0};
    for (int a = 0; a < 3; ++a) {
      const embed_sweep_options o = {.size = sizeof o, .ask = asks[a], .flags = EMBED_SWEEP_PROCESSED};
      static const int64_t good[2] = {0, 0}; /* numbers, where NaN is to be written after */
      OK(embed_sweep_logits(ctx, &z[0][0], V, 0, good, 2, targets, NULL, &p, 1, &o, r));
      OK(embed_sweep_logits(ctx, &z[0][0], V, 0, NULL, 2, targets, NULL, &p, 1, &o, r));
      const float *got = embed_result_f32(r, asks[a], NULL, NULL);
      assert_true(isfinite(got[0]) && isnan(got[1]));
    }
    const embed_sweep_options rank = {.size = sizeof rank, .ask = EMBED_ASK_TARGET_RANK, .flags = EMBED_SWEEP_PROCESSED};
    OK(embed_sweep_logits(ctx, &z[0][0], V, 0, NULL, 2, targets, NULL, &p, 1, &rank, r));
    const int32_t *ranks = embed_result_i32(r, EMBED_ASK_TARGET_RANK, NULL, NULL);
    assert_int_equal(ranks[0], 1);
    assert_int_equal(ranks[1], 2);
    const embed_sweep_options token = {.size = sizeof token, .ask = EMBED_ASK_TOKEN | EMBED_ASK_LOGSUMEXP, .flags = EMBED_SWEEP_PROCESSED};
    assert_int_equal(embed_sweep_logits(ctx, &z[0][0], V, 0, NULL, 2, NULL, NULL, &p, 1, &token, r), EMBED_E_NONFINITE);
    assert_int_equal(embed_error_at(ctx), 1);
  }
  embed_result_release(r);
  embed_context_release(ctx);
}

/* Answers of n hidden rows are what plain loops make of the logits of the same sweep. */
static void check_head(embed_context *ctx, const embed_head *h, const float *x, int64_t n, int64_t dim, embed_result *r) {
  const int64_t vocab = embed_head_vocab(h);
  const int32_t k = 9;
  const embed_sweep_options o = {.size = sizeof o, .ask = ALL_ASKS, .k = k};
  int32_t *targets = malloc((size_t)n * sizeof *targets);
  float *plain = malloc((size_t)(n * vocab) * sizeof *plain);
  uint64_t seed = 77;
  for (int64_t i = 0; i < n; ++i) targets[i] = (int32_t)(test_random(&seed) % (uint64_t)vocab);
  OK(embed_sweep(ctx, h, x, EMBED_F32, dim, NULL, n, targets, NULL, NULL, 0, &o, r));
  OK(embed_logits(ctx, h, x, EMBED_F32, n, dim, plain, 0, NULL));
  assert_same_bits(floats_of(r, EMBED_ASK_LOGITS), plain, (size_t)(n * vocab) * sizeof *plain);
  for (int64_t i = 0; i<n; i += n> 40 ? 13 : 1) {
    const float *z = plain + i * vocab;
    const double whole = logsumexp_of(z, vocab, 1);
    assert_topk(r, i, k, z, vocab);
    assert_close((double)floats_of(r, EMBED_ASK_LOGSUMEXP)[i], whole, 2e-7);
    assert_close((double)floats_of(r, EMBED_ASK_ENTROPY)[i], entropy_of(z, vocab, 1), 1e-6);
    assert_close((double)floats_of(r, EMBED_ASK_TARGET_LOGPROB)[i], (double)z[targets[i]] - whole, 2e-7);
    assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[i], rank_of(z, vocab, targets[i]));
    const int32_t token = ints_of(r, EMBED_ASK_TOKEN)[i];
    assert_int_equal(token, best_of(z, vocab));
    assert_close((double)floats_of(r, EMBED_ASK_TOKEN_LOGPROB)[i], (double)z[token] - whole, 2e-7);
  }
  free(plain);
  free(targets);
}

static void answers_are_those_of_the_logits_in_every_form(void **state) {
  (void)state;
  enum { VOCAB = 2500, DIM = 64, MOST = 130 };
  static const embed_dtype dtypes[] = {EMBED_F32, EMBED_BF16, EMBED_Q8_0, EMBED_I4_GROUP, EMBED_Q5_1};
  static const int64_t counts[] = {1, 3, 20, MOST};
  static float x[MOST * DIM], single[VOCAB];
  uint64_t seed = 5;
  for (int i = 0; i < MOST * DIM; ++i) x[i] = test_uniform(&seed);
  const embed_init_options normal = {.size = sizeof normal, .kind = EMBED_INIT_NORMAL, .scale = 1, .seed = 2};
  embed_context *all[CONTEXTS];
  const int contexts = contexts_new(all);
  embed_table *floats = NULL;
  OK(embed_table_create(all[0], VOCAB, DIM, NULL, &floats));
  OK(embed_table_init(all[0], floats, &normal));
  for (int c = 0; c < contexts; c += 2) {
    embed_result *r = result_new(all[c]);
    for (int d = 0; d < COUNT(dtypes); ++d) {
      const embed_table_options as = {.size = sizeof as, .dtype = dtypes[d]};
      embed_table *t = NULL;
      OK(embed_table_convert(all[c], floats, &as, &t));
      for (uint32_t flags = 0; flags <= EMBED_HEAD_PREPARE; flags += flags ? EMBED_HEAD_PREPARE - EMBED_HEAD_BLAS : EMBED_HEAD_BLAS) {
        const embed_head_options o = {.size = sizeof o, .flags = flags, .logit_scale = .5f, .logit_softcap = flags ? 0 : 8};
        embed_head *h = NULL;
        OK(embed_head_create(all[c], t, NULL, &o, &h));
        for (int n = 0; n < COUNT(counts); ++n) {
          if (flags == EMBED_HEAD_BLAS && embed_logits(all[c], h, x, EMBED_F32, 1, 0, single, 0, NULL) == EMBED_E_UNSUPPORTED) continue;
          if (n == COUNT(counts) - 1 && d > 1) continue;
          check_head(all[c], h, x, counts[n], DIM, r);
        }
        embed_head_release(h);
      }
      embed_table_release(t);
    }
    embed_result_release(r);
  }
  embed_table_release(floats);
  contexts_free(all, contexts);
}

static int32_t count_calls(void *arg, int64_t done, int64_t total) {
  (void)done, (void)total;
  ++*(int *)arg;
  return 0;
}

/* A target's logit made before the sweep has the bits that the sweep gives it: nothing is swept twice. */
static void ranks_take_one_sweep_in_every_form(void **state) {
  (void)state;
  enum { VOCAB = 4000, DIM = 96, N = 100 };
  static const embed_dtype dtypes[] = {EMBED_F32, EMBED_F16, EMBED_Q8_0, EMBED_I4_GROUP, EMBED_Q4_K, EMBED_Q2_K, EMBED_Q5_1};
  static const int64_t counts[] = {1, 2, 20, N};
  static float x[N * 256];
  static int32_t targets[N];
  uint64_t seed = 6;
  int calls;
  const embed_init_options normal = {.size = sizeof normal, .kind = EMBED_INIT_NORMAL, .scale = 1, .seed = 2};
  const embed_context_options watched = {.size = sizeof watched, .progress = count_calls, .progress_arg = &calls};
  embed_context *ctx = NULL;
  OK(embed_context_create(&watched, &ctx));
  embed_result *r = result_new(ctx);
  for (int i = 0; i < N * 256; ++i) x[i] = test_uniform(&seed);
  for (int i = 0; i < N; ++i) targets[i] = (int32_t)(test_random(&seed) % VOCAB);
  for (int d = 0; d < COUNT(dtypes); ++d) {
    const int64_t dim = dtypes[d] == EMBED_Q4_K || dtypes[d] == EMBED_Q2_K ? 256 : DIM;
    const embed_table_options as = {.size = sizeof as, .dtype = dtypes[d]};
    embed_table *floats = NULL, *t = NULL;
    OK(embed_table_create(ctx, VOCAB, dim, NULL, &floats));
    OK(embed_table_init(ctx, floats, &normal));
    OK(embed_table_convert(ctx, floats, &as, &t));
    for (uint32_t flags = 0; flags <= EMBED_HEAD_PREPARE; flags += EMBED_HEAD_PREPARE)
      for (int rounded = 0; rounded < 3; ++rounded)
        for (int n = 0; n < COUNT(counts); ++n) {
          const embed_head_options o = {.size = sizeof o, .flags = flags};
          embed_sweep_options ask = {.size = sizeof ask, .ask = EMBED_ASK_ENTROPY, .activation = (embed_dtype[]){EMBED_F32, EMBED_BF16, EMBED_Q8_0}[rounded]};
          int once;
          embed_head *h = NULL;
          OK(embed_head_create(ctx, t, NULL, &o, &h));
          calls = 0;
          OK(embed_sweep(ctx, h, x, EMBED_F32, 0, NULL, counts[n], targets, NULL, NULL, 0, &ask, r));
          once = calls;
          assert_true(once > 0);
          calls = 0;
          ask.ask = EMBED_ASK_TARGET_RANK;
          OK(embed_sweep(ctx, h, x, EMBED_F32, 0, NULL, counts[n], targets, NULL, NULL, 0, &ask, r));
          if (calls != once) fail_msg("dtype %d, flags %u, activation %d, %d rows: a second sweep", dtypes[d], flags, ask.activation, (int)counts[n]);
          embed_head_release(h);
        }
    embed_table_release(t);
    embed_table_release(floats);
  }
  embed_result_release(r);
  embed_context_release(ctx);
}

static void an_answer_has_the_same_bits_whatever_else_is_asked(void **state) {
  (void)state;
  enum { VOCAB = 3333, DIM = 24, N = 5, K = 6 };
  static float x[N * DIM], w[VOCAB * DIM];
  uint64_t seed = 15;
  for (int i = 0; i < N * DIM; ++i) x[i] = test_uniform(&seed);
  for (int i = 0; i < VOCAB * DIM; ++i) w[i] = test_uniform(&seed);
  const int32_t targets[N] = {0, 1023, 1024, 3332, 17};
  const int32_t threads[] = {1, 2, 7};
  const embed_sample_params params = {.size = sizeof params, .temperature = .7, .seed = 9, .position = 4};
  embed_context *first = context_new();
  embed_result *want = result_new(first), *r = result_new(first);
  embed_table *t = NULL;
  embed_head *h = NULL;
  OK(embed_table_view(first, w, VOCAB, DIM, NULL, NULL, NULL, &t));
  OK(embed_head_create(first, t, NULL, NULL, &h));
  for (uint32_t flags = 0; flags <= EMBED_SWEEP_PROCESSED; ++flags) {
    embed_sweep_options o = {.size = sizeof o, .flags = flags, .ask = ALL_ASKS, .k = K};
    OK(embed_sweep(first, h, x, EMBED_F32, 0, NULL, N, targets, NULL, &params, 1, &o, want));
    for (int c = 0; c < COUNT(threads); ++c) {
      embed_context *ctx = context_with(NULL, threads[c]);
      for (uint32_t ask = 1; ask <= EMBED_ASK_TOKEN_LOGPROB; ask *= 2) {
        o.ask = ask;
        for (int way = 0; way < 2; ++way) {
          int64_t rows, cols, all_rows, all_cols;
          if (way == 0) OK(embed_sweep(ctx, h, x, EMBED_F32, 0, NULL, N, targets, NULL, &params, 1, &o, r));
          if (way == 1) OK(embed_sweep_logits(ctx, floats_of(want, EMBED_ASK_LOGITS), VOCAB, 0, NULL, N, targets, NULL, &params, 1, &o, r));
          const void *got = embed_result_f32(r, ask, &rows, &cols), *all = embed_result_f32(want, ask, &all_rows, &all_cols);
          if (!got) got = embed_result_i32(r, ask, &rows, &cols), all = embed_result_i32(want, ask, &all_rows, &all_cols);
          assert_non_null(got);
          assert_int_equal(rows, N);
          assert_int_equal(cols, ask == EMBED_ASK_LOGITS ? VOCAB : ask == EMBED_ASK_TOPK_IDS || ask == EMBED_ASK_TOPK_LOGITS ? K : 1);
          assert_true(rows == all_rows && cols == all_cols);
          assert_same_bits(got, all, (size_t)(rows * cols) * 4);
          for (uint32_t other = 1; other <= EMBED_ASK_TOKEN_LOGPROB; other *= 2)
            if (other != ask) assert_true(!embed_result_f32(r, other, &rows, NULL) && !embed_result_i32(r, other, NULL, &cols) && rows + cols == 0);
        }
      }
      embed_context_release(ctx);
    }
  }
  embed_head_release(h);
  embed_table_release(t);
  embed_result_release(want);
  embed_result_release(r);
  embed_context_release(first);
}

static const float *sorted_by;
static int by_rank(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return ranks_before(sorted_by, x, y) ? -1 : ranks_before(sorted_by, y, x);
}

/* Filters by a sorted row: a short prefix from candidates, a long one from a second sweep. */
static void processed_log_probabilities_are_those_of_what_filters_leave(void **state) {
  (void)state;
  enum { VOCAB = 6000, N = 4, CASES = 6 };
  static float z[N * VOCAB];
  static int32_t order[VOCAB];
  static const embed_sample_params cases[CASES] = {{.size = sizeof *cases, .temperature = 1, .top_k = 5},
                                                   {.size = sizeof *cases, .temperature = .5, .top_p = .8},
                                                   {.size = sizeof *cases, .temperature = 3, .top_p = .95},
                                                   {.size = sizeof *cases, .temperature = 2, .top_k = 3000},
                                                   {.size = sizeof *cases, .temperature = .25, .top_p = .3, .top_k = 2000},
                                                   {.size = sizeof *cases, .temperature = 1.5}};
  uint64_t seed = 8;
  for (int i = 0; i < N * VOCAB; ++i) z[i] = 8 * test_uniform(&seed) * test_uniform(&seed);
  embed_context *contexts[2] = {context_with(NULL, 1), context_with(NULL, 3)};
  embed_result *r = result_new(contexts[0]);
  for (int c = 0; c < 2 * CASES; ++c) {
    const embed_sample_params *p = &cases[c / 2];
    const embed_sweep_options o = {.size = sizeof o, .ask = ALL_ASKS, .k = 3, .flags = EMBED_SWEEP_PROCESSED};
    int32_t targets[N];
    for (int i = 0; i < N; ++i) targets[i] = i % 2 ? best_of(z + i * VOCAB, VOCAB) : (int32_t)(test_random(&seed) % VOCAB);
    OK(embed_sweep_logits(contexts[c % 2], z, VOCAB, 0, NULL, N, targets, NULL, p, 1, &o, r));
    for (int i = 0; i < N; ++i) {
      const float *row = sorted_by = z + i * VOCAB;
      static float left[VOCAB];
      for (int32_t v = 0; v < VOCAB; ++v) order[v] = v, left[v] = -INFINITY;
      qsort(order, VOCAB, sizeof *order, by_rank);
      const int64_t most = p->top_k ? p->top_k : VOCAB;
      double sum = 0, whole = 0;
      for (int64_t j = 0; j < most; ++j) left[order[j]] = row[order[j]];
      whole = logsumexp_of(left, VOCAB, p->temperature);
      for (int64_t j = 0; j < most; ++j) {
        if (p->top_p > 0 && sum >= p->top_p) left[order[j]] = -INFINITY;
        sum += exp((double)row[order[j]] / p->temperature - whole);
      }
      whole = logsumexp_of(left, VOCAB, p->temperature);
      assert_close((double)floats_of(r, EMBED_ASK_LOGSUMEXP)[i], whole, 3e-7);
      assert_close((double)floats_of(r, EMBED_ASK_ENTROPY)[i], entropy_of(left, VOCAB, p->temperature), 1e-6);
      assert_close((double)floats_of(r, EMBED_ASK_TARGET_LOGPROB)[i], (double)left[targets[i]] / p->temperature - whole, 3e-7);
      assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[i], rank_of(row, VOCAB, targets[i]));
      const int32_t token = ints_of(r, EMBED_ASK_TOKEN)[i];
      assert_true(left[token] > -INFINITY);
      assert_close((double)floats_of(r, EMBED_ASK_TOKEN_LOGPROB)[i], (double)left[token] / p->temperature - whole, 3e-7);
      assert_same_bits(floats_of(r, EMBED_ASK_LOGITS) + i * VOCAB, row, sizeof(float) * VOCAB);
      assert_topk(r, i, 3, row, VOCAB);
    }
  }
  embed_result_release(r);
  for (int c = 0; c < 2; ++c) embed_context_release(contexts[c]);
}

/* Beside 1e30 the logarithm of their number has no place in a sum. */
static void survivors_of_huge_logits_share_the_probability(void **state) {
  (void)state;
  enum { VOCAB = 2000 };
  static float z[VOCAB];
  const embed_sample_params few = {.size = sizeof few, .temperature = 1, .top_k = 3}, many = {.size = sizeof many, .temperature = 1, .top_p = .75};
  const embed_sweep_options o = {.size = sizeof o, .ask = OWN_ASKS | EMBED_ASK_TOKEN_LOGPROB, .flags = EMBED_SWEEP_PROCESSED};
  const int32_t target = 1;
  embed_context *ctx = context_new();
  embed_result *r = result_new(ctx);
  for (int v = 0; v < VOCAB; ++v) z[v] = 1e30f;
  for (int wide = 0; wide < 2; ++wide) { /* the second finds its survivors in a second sweep */
    const double left = wide ? .75 * VOCAB : 3;
    OK(embed_sweep_logits(ctx, z, VOCAB, 0, NULL, 1, &target, NULL, wide ? &many : &few, 1, &o, r));
    assert_close((double)floats_of(r, EMBED_ASK_ENTROPY)[0], log(left), 1e-6);
    assert_close((double)floats_of(r, EMBED_ASK_TARGET_LOGPROB)[0], -log(left), 1e-6);
    assert_close((double)floats_of(r, EMBED_ASK_TOKEN_LOGPROB)[0], -log(left), 1e-6);
    assert_close((double)floats_of(r, EMBED_ASK_LOGSUMEXP)[0], 1e30, 1e-6);
  }
  embed_result_release(r);
  embed_context_release(ctx);
}

static void rows_are_those_that_are_named(void **state) {
  (void)state;
  enum { VOCAB = 1100, DIM = 40, ROWS = 9, N = 7 };
  static float x[ROWS * DIM], w[VOCAB * DIM], logits[ROWS * VOCAB];
  const int64_t rows[N] = {8, 0, 3, 3, 8, 1, 0}, bad[2] = {0, -1}, far[1] = {INT64_MAX / 2};
  uint64_t seed = 25;
  for (int i = 0; i < ROWS * DIM; ++i) x[i] = test_uniform(&seed);
  for (int i = 0; i < VOCAB * DIM; ++i) w[i] = test_uniform(&seed);
  embed_context *ctx = context_with(NULL, 2);
  embed_result *r = result_new(ctx);
  embed_table *t = NULL;
  embed_head *h = NULL;
  OK(embed_table_view(ctx, w, VOCAB, DIM, NULL, NULL, NULL, &t));
  OK(embed_head_create(ctx, t, NULL, NULL, &h));
  const embed_dtype dtypes[] = {EMBED_F32, EMBED_F16, EMBED_BF16};
  for (int d = 0; d < COUNT(dtypes); ++d) {
    float as[ROWS * DIM], named[N * DIM];
    const embed_table_options o = {.size = sizeof o, .dtype = dtypes[d]};
    embed_table *from = NULL, *hidden = NULL;
    int64_t each[ROWS];
    OK(embed_table_view(ctx, x, ROWS, DIM, NULL, NULL, NULL, &from));
    OK(embed_table_convert(ctx, from, &o, &hidden));
    for (int i = 0; i < ROWS; ++i) each[i] = i;
    OK(embed_table_get_rows(ctx, hidden, each, ROWS, as, EMBED_F32, 0));
    for (int i = 0; i < N; ++i) memcpy(named + i * DIM, as + rows[i] * DIM, sizeof(float) * DIM);
    OK(embed_logits(ctx, h, named, EMBED_F32, N, 0, logits, 0, NULL));
    const embed_sweep_options ask = {.size = sizeof ask, .ask = EMBED_ASK_LOGITS | EMBED_ASK_TOKEN};
    OK(embed_sweep(ctx, h, embed_table_data(hidden), dtypes[d], 0, rows, N, NULL, NULL, NULL, 0, &ask, r));
    assert_same_bits(floats_of(r, EMBED_ASK_LOGITS), logits, sizeof(float) * N * VOCAB);
    embed_table_release(from);
    embed_table_release(hidden);
  }
  const embed_sweep_options ask = {.size = sizeof ask, .ask = EMBED_ASK_LOGITS};
  OK(embed_logits(ctx, h, x, EMBED_F32, ROWS, 0, logits, 0, NULL));
  OK(embed_sweep_logits(ctx, logits, VOCAB, 0, rows, N, NULL, NULL, NULL, 0, &ask, r));
  for (int i = 0; i < N; ++i) assert_same_bits(floats_of(r, EMBED_ASK_LOGITS) + i * VOCAB, logits + rows[i] * VOCAB, sizeof(float) * VOCAB);
  assert_int_equal(embed_sweep(ctx, h, x, EMBED_F32, 0, bad, 2, NULL, NULL, NULL, 0, &ask, r), EMBED_E_ARGUMENT);
  assert_int_equal(embed_error_at(ctx), 1);
  assert_non_null(strstr(embed_error_text(ctx), "row -1 at position 1"));
  assert_int_equal(embed_sweep_logits(ctx, logits, VOCAB, 0, bad, 2, NULL, NULL, NULL, 0, &ask, r), EMBED_E_ARGUMENT);
  assert_int_equal(embed_sweep(ctx, h, x, EMBED_F32, 0, far, 1, NULL, NULL, NULL, 0, &ask, r), EMBED_E_OVERFLOW);
  assert_non_null(embed_result_f32(r, EMBED_ASK_LOGITS, NULL, NULL)); /* what it had */
  int64_t n = 5;
  OK(embed_sweep(ctx, h, NULL, EMBED_F32, 0, NULL, 0, NULL, NULL, NULL, 0, &ask, r));
  assert_non_null(embed_result_f32(r, EMBED_ASK_LOGITS, &n, NULL));
  assert_int_equal(n, 0);
  embed_head_release(h);
  embed_table_release(t);
  embed_result_release(r);
  embed_context_release(ctx);
}

/* The logits may be neither written nor read past their end. */
static void given_logits_are_only_read_and_only_inside(void **state) {
  (void)state;
  enum { N = 3 };
  static const int64_t vocabs[] = {1, 15, 1024, 1025, 4099};
  const embed_nan_policy policies[] = {EMBED_NAN_MAX, EMBED_NAN_IGNORE};
  embed_context *all[CONTEXTS];
  const int contexts = contexts_new(all);
  const int32_t ban = 0, targets[N] = {0, 0, 0};
  for (int c = 0; c < contexts; ++c)
    for (int v = 0; v < COUNT(vocabs); ++v)
      for (int at_end = 0; at_end < 2; ++at_end) {
        const size_t bytes = (size_t)(N * vocabs[v]) * sizeof(float);
        guarded g = guarded_new(bytes, at_end);
        float *z = (float *)(void *)g.at;
        uint64_t seed = 5;
        for (int64_t i = 0; i < N * vocabs[v]; ++i) z[i] = i % 5 == 4 ? NAN : test_uniform(&seed);
        assert_int_equal(mprotect(g.map, g.map_bytes, PROT_READ), 0);
        const long page = sysconf(_SC_PAGESIZE);
        assert_int_equal(mprotect(g.map, (size_t)page, PROT_NONE), 0);
        assert_int_equal(mprotect((char *)g.map + g.map_bytes - page, (size_t)page, PROT_NONE), 0);
        embed_rules *rules = NULL;
        embed_result *r = result_new(all[c]);
        OK(embed_rules_create(all[c], vocabs[v], &rules));
        if (vocabs[v] > 1) OK(embed_rules_ban(all[c], rules, &ban, 1));
        const embed_rules *each[N] = {rules, NULL, rules};
        for (int p = 0; p < COUNT(policies); ++p) {
          const embed_sweep_options o = {.size = sizeof o, .ask = ALL_ASKS, .k = 4, .nan = policies[p]};
          OK(embed_sweep_logits(all[c], z, vocabs[v], 0, NULL, N, targets, each, NULL, 0, &o, r));
        }
        embed_rules_release(rules);
        embed_result_release(r);
        guarded_free(g);
      }
  contexts_free(all, contexts);
}

static void bad_calls_name_what_is_wrong_and_leave_the_result(void **state) {
  (void)state;
  const float z[6] = {1, 2, 3, 4, 5, 6};
  const int32_t good[2] = {1, 2}, targets[2] = {0, 3}, negative[2] = {-100, 0};
  embed_context *ctx = context_new();
  embed_result *r = result_new(ctx);
  embed_rules *rules = NULL;
  embed_sweep_options o = {.size = sizeof o, .ask = EMBED_ASK_TARGET_RANK};
  OK(embed_rules_create(ctx, 4, &rules));
  const embed_rules *each[2] = {NULL, rules};
  OK(embed_sweep_logits(ctx, z, 3, 0, NULL, 2, good, NULL, NULL, 0, &o, r));
#define REFUSED(status, position, call)                        \
  do {                                                         \
    assert_int_equal((call), status);                          \
    assert_int_equal(embed_error_at(ctx), position);           \
    assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[0], 2); \
    assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[1], 1); \
  } while (0)
  REFUSED(EMBED_E_ID, 1, embed_sweep_logits(ctx, z, 3, 0, NULL, 2, targets, NULL, NULL, 0, &o, r));
  assert_string_equal(embed_error_text(ctx), "target 3 at position 1 is outside the vocabulary of 3 rows");
  REFUSED(EMBED_E_ARGUMENT, -1, embed_sweep_logits(ctx, z, 3, 0, NULL, 2, good, NULL, NULL, 0, &o, NULL));
  assert_string_equal(embed_error_text(ctx), "result is NULL");
  REFUSED(EMBED_E_ID, 0, embed_sweep_logits(ctx, z, 3, 0, NULL, 2, negative, NULL, NULL, 0, &o, r));
  REFUSED(EMBED_E_ARGUMENT, -1, embed_sweep_logits(ctx, z, 3, 0, NULL, 2, NULL, NULL, NULL, 0, &o, r));
  REFUSED(EMBED_E_MISMATCH, 1, embed_sweep_logits(ctx, z, 3, 0, NULL, 2, good, each, NULL, 0, &o, r));
  REFUSED(EMBED_E_ARGUMENT, -1, embed_sweep_logits(ctx, z, -1, 0, NULL, 2, NULL, NULL, NULL, 0, NULL, r));
  REFUSED(EMBED_E_ARGUMENT, -1, embed_sweep_logits(ctx, z, 3, 0, NULL, -1, NULL, NULL, NULL, 0, NULL, r));
  REFUSED(EMBED_E_ARGUMENT, -1, embed_sweep_logits(ctx, z, 3, 2, NULL, 1, NULL, NULL, NULL, 0, NULL, r));
  REFUSED(EMBED_E_ARGUMENT, -1, embed_sweep_logits(ctx, NULL, 3, 0, NULL, 1, NULL, NULL, NULL, 0, NULL, r));
  REFUSED(EMBED_E_UNSUPPORTED, -1, embed_sweep_logits(ctx, z, (int64_t)INT32_MAX + 1, 0, NULL, 0, NULL, NULL, NULL, 0, NULL, r));
  o.ask = 1024;
  REFUSED(EMBED_E_OPTION, -1, embed_sweep_logits(ctx, z, 3, 0, NULL, 2, targets, NULL, NULL, 0, &o, r));
  o.ask = EMBED_ASK_TOPK_IDS, o.k = -1;
  REFUSED(EMBED_E_ARGUMENT, -1, embed_sweep_logits(ctx, z, 3, 0, NULL, 2, NULL, NULL, NULL, 0, &o, r));
  o.k = INT32_MAX, o.ask = EMBED_ASK_TOPK_IDS | EMBED_ASK_TOPK_LOGITS;
  REFUSED(EMBED_E_OVERFLOW, -1, embed_sweep_logits(ctx, z, 0, 0, NULL, INT64_MAX / 4, NULL, NULL, NULL, 0, &o, r));
  o.k = 0, o.activation = EMBED_BF16;
  REFUSED(EMBED_E_OPTION, -1, embed_sweep_logits(ctx, z, 3, 0, NULL, 2, NULL, NULL, NULL, 0, &o, r));
  o.activation = 0, o.nan = 5;
  REFUSED(EMBED_E_OPTION, -1, embed_sweep_logits(ctx, z, 3, 0, NULL, 2, NULL, NULL, NULL, 0, &o, r));
  embed_rules_release(rules);
  embed_result_release(r);
  embed_context_release(ctx);
}

/* The vocabulary and answers of a real prompt, with fewer columns and rows: they count for little. */
static void prompt_scoring_stays_within_64_mb(void **state) {
  (void)state;
  enum { VOCAB = 151936, DIM = 64, CHUNK = 512 /* hidden rows at a time */, MOST = CHUNK + 128, K = 20 };
  counting answers, work;
  counting_start(&answers);
  counting_start(&work);
  embed_pool *pool = NULL;
  OK(embed_pool_create(2, &pool));
  embed_context *ctx = counting_context(&work, pool), *of_result = counting_context(&answers, NULL);
  embed_result *r = result_new(of_result);
  embed_table *t = NULL;
  embed_head *h = NULL;
  const embed_table_options bf16 = {.size = sizeof bf16, .dtype = EMBED_BF16};
  float *x = calloc(MOST * DIM, sizeof *x);
  void *rows = calloc((size_t)VOCAB * DIM, 2);
  int32_t targets[MOST];
  uint64_t seed = 1;
  for (int i = 0; i < MOST * DIM; ++i) x[i] = test_uniform(&seed);
  for (int i = 0; i < MOST; ++i) targets[i] = (int32_t)(test_random(&seed) % VOCAB);
  OK(embed_table_view(ctx, rows, VOCAB, DIM, &bf16, NULL, NULL, &t));
  OK(embed_head_create(ctx, t, NULL, NULL, &h));
  const embed_sweep_options o = {.size = sizeof o, .ask = ALL_ASKS & ~(uint32_t)EMBED_ASK_LOGITS, .k = K};
  int64_t before = atomic_load(&work.bytes), scratch[2];
  for (int round = 0; round < 2; ++round) {
    OK(embed_sweep(ctx, h, x, EMBED_F32, 0, NULL, round ? MOST : CHUNK, targets, NULL, NULL, 0, &o, r));
    scratch[round] = atomic_load(&work.bytes) - before;
    assert_in_range(scratch[round], 1, 64 << 20);
  }
  assert_true(scratch[1] <= scratch[0] + scratch[0] / 8); /* more rows need no more memory */
  assert_in_range(atomic_load(&answers.bytes), 1, MOST * (2 * K + 8) * 4 + 16384);
  for (int i = 0; i < MOST; ++i) assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[i], targets[i] + 1); /* all tie */
  embed_head_release(h);
  embed_table_release(t);
  embed_result_release(r);
  embed_context_release(ctx);
  embed_context_release(of_result);
  embed_pool_release(pool);
  counting_check(&work);
  counting_check(&answers);
  free(rows);
  free(x);
}

static void a_result_survives_failures_and_grows(void **state) {
  (void)state;
  const float z[6] = {1, 2, 3, 4, 5, 6};
  embed_sweep_options o = {.size = sizeof o, .ask = EMBED_ASK_LOGITS};
  counting c;
  counting_start(&c);
  embed_context *ctx = counting_context(&c, NULL);
  embed_result *r = result_new(ctx);
  assert_null(embed_result_f32(r, EMBED_ASK_LOGITS, NULL, NULL));
  OK(embed_sweep_logits(ctx, z, 6, 0, NULL, 1, NULL, NULL, NULL, 0, &o, r));
  const float *kept = floats_of(r, EMBED_ASK_LOGITS);
  assert_same_bits(kept, z, sizeof z);
  OK(embed_sweep_logits(ctx, z, 3, 0, NULL, 2, NULL, NULL, NULL, 0, &o, r)); /* no larger: no new memory */
  assert_ptr_equal(floats_of(r, EMBED_ASK_LOGITS), kept);
  float large[3000] = {0};
  atomic_store(&c.fail_at, 0);
  assert_int_equal(embed_sweep_logits(ctx, large, 3000, 0, NULL, 1, NULL, NULL, NULL, 0, &o, r), EMBED_E_MEMORY);
  assert_same_bits(floats_of(r, EMBED_ASK_LOGITS), z, sizeof z);
  OK(embed_sweep_logits(ctx, large, 3000, 0, NULL, 1, NULL, NULL, NULL, 0, &o, r));
  assert_same_bits(floats_of(r, EMBED_ASK_LOGITS), large, sizeof large);
  assert_null(embed_result_i32(r, EMBED_ASK_LOGITS, NULL, NULL));
  assert_null(embed_result_f32(r, EMBED_ASK_LOGITS | EMBED_ASK_ENTROPY, NULL, NULL));
  assert_null(embed_result_f32(r, 0, NULL, NULL));
  assert_null(embed_result_f32(r, 1u << 31, NULL, NULL));
  embed_context_release(ctx); /* the result remembers its allocator */
  embed_result_release(r);
  counting_check(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_pipeline_is_that_of_the_heads),
    cmocka_unit_test(logsumexp_and_entropy_are_right_to_float),
    cmocka_unit_test(ties_nan_and_infinities_have_their_order),
    cmocka_unit_test(the_best_are_right_for_every_k),
    cmocka_unit_test(a_row_without_a_logit_is_named),
    cmocka_unit_test(a_row_that_is_no_number_refuses_draws_alone),
    cmocka_unit_test(answers_are_those_of_the_logits_in_every_form),
    cmocka_unit_test(ranks_take_one_sweep_in_every_form),
    cmocka_unit_test(an_answer_has_the_same_bits_whatever_else_is_asked),
    cmocka_unit_test(processed_log_probabilities_are_those_of_what_filters_leave),
    cmocka_unit_test(survivors_of_huge_logits_share_the_probability),
    cmocka_unit_test(rows_are_those_that_are_named),
    cmocka_unit_test(given_logits_are_only_read_and_only_inside),
    cmocka_unit_test(bad_calls_name_what_is_wrong_and_leave_the_result),
    cmocka_unit_test(prompt_scoring_stays_within_64_mb),
    cmocka_unit_test(a_result_survives_failures_and_grows),
};
TEST_MAIN(tests)
