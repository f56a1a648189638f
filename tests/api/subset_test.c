/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_head_create_subset: the whole head's logits bit for bit, original ids in and out. */
#include "sweep.h"

enum { VOCAB = 1500, DIM = 64, N = 3, M = 1200, K = 7 };

/* ids [n] in random order, each once. */
static void choose(int32_t *ids, int64_t n, uint64_t *seed) {
  int32_t all[VOCAB];
  for (int32_t v = 0; v < VOCAB; ++v) all[v] = v;
  for (int64_t i = 0; i < n; ++i) {
    int64_t j = i + (int64_t)(test_random(seed) % (uint64_t)(VOCAB - i));
    int32_t kept = all[i];
    all[i] = all[j];
    all[j] = kept;
    ids[i] = all[i];
  }
}

/* FNV-1a of 4 bytes an id. */
static uint64_t checksum(const int32_t *ids, int64_t n) {
  uint64_t hash = 14695981039346656037u;
  for (int64_t i = 0; i < 4 * n; ++i) hash = (hash ^ ((uint32_t)ids[i / 4] >> 8 * (i % 4) & 255)) * 1099511628211u;
  return hash;
}

/* Every answer is that of the logits, whose column j is id ids[j]. */
static void check_subset(embed_context *ctx, const embed_head *whole, const embed_head *h, const int32_t *ids, int64_t n, const float *x, uint64_t *seed) {
  static float plain[N * VOCAB], part[N * VOCAB], at[N * 2], spread[VOCAB];
  embed_result *r = result_new(ctx);
  embed_rules *rules = NULL;
  int32_t targets[N], bans[5];
  OK(embed_logits(ctx, whole, x, EMBED_F32, N, 0, plain, 0, NULL));
  OK(embed_logits(ctx, h, x, EMBED_F32, N, 0, part, 0, NULL));
  for (int i = 0; i < N; ++i)
    for (int64_t j = 0; j < n; ++j) assert_same_bits(&part[i * n + j], &plain[i * VOCAB + ids[j]], 4);
  OK(embed_rules_create(ctx, VOCAB, &rules));
  for (int i = 0; i < 5; ++i) bans[i] = (int32_t)(test_random(seed) % VOCAB); /* in the subset or not */
  bans[0] = ids[n / 2];
  OK(embed_rules_ban(ctx, rules, bans, 5));
  OK(embed_rules_bias(ctx, rules, ids + 1, (const float[]){2.5f}, 1));
  for (int i = 0; i < N; ++i) targets[i] = ids[test_random(seed) % (uint64_t)n];
  for (uint32_t flags = 0; flags < 2; ++flags) {
    const embed_rules *each[N] = {NULL, rules, rules};
    const embed_sweep_options o = {.size = sizeof o, .ask = ALL_ASKS, .k = K, .flags = flags};
    OK(embed_sweep(ctx, h, x, EMBED_F32, 0, NULL, N, targets, each, NULL, 0, &o, r));
    for (int i = 0; i < N; ++i) {
      const float *z = floats_of(r, EMBED_ASK_LOGITS) + i * n;
      for (int v = 0; v < VOCAB; ++v) spread[v] = -INFINITY; /* the row by original ids */
      for (int64_t j = 0; j < n; ++j) {
        float want = part[i * n + j];
        for (int b = 0; b < 5 && each[i]; ++b) want = bans[b] == ids[j] ? -INFINITY : want;
        if (each[i] && j == 1) want = (float)((double)want + 2.5);
        assert_same_bits(&z[j], &want, 4);
        spread[ids[j]] = want;
      }
      assert_topk(r, i, K, spread, VOCAB);
      assert_int_equal(ints_of(r, EMBED_ASK_TOKEN)[i], best_of(spread, VOCAB));
      if (!flags)
        for (int64_t j = 0; j < n; ++j) spread[ids[j]] = part[i * n + j];
      if (spread[targets[i]] > -INFINITY) assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[i], rank_of(spread, VOCAB, targets[i]));
      assert_close((double)floats_of(r, EMBED_ASK_LOGSUMEXP)[i], logsumexp_of(spread, VOCAB, 1), 2e-7);
      assert_close((double)floats_of(r, EMBED_ASK_TARGET_LOGPROB)[i], (double)spread[targets[i]] - logsumexp_of(spread, VOCAB, 1), 2e-7);
    }
  }
  OK(embed_logits_at(ctx, h, x, EMBED_F32, 1, 0, (const int32_t[]){ids[n - 1], ids[0]}, 2, at, 0, NULL));
  float same[2];
  OK(embed_logits_at(ctx, whole, x, EMBED_F32, 1, 0, (const int32_t[]){ids[n - 1], ids[0]}, 2, same, 0, NULL));
  assert_same_bits(at, same, sizeof same);
  embed_rules_release(rules);
  embed_result_release(r);
}

static void logits_are_those_of_the_whole_head_in_every_form(void **state) {
  (void)state;
  static const embed_dtype dtypes[] = {EMBED_F32, EMBED_BF16, EMBED_I8_ROW, EMBED_Q4_0};
  static float x[N * DIM], bias[VOCAB];
  static int32_t ids[M], sorted[M];
  uint64_t seed = 41;
  const embed_init_options normal = {.size = sizeof normal, .kind = EMBED_INIT_NORMAL, .scale = 1, .seed = 2};
  embed_table *floats = NULL;
  embed_context *all[CONTEXTS];
  const int contexts = contexts_new(all);
  OK(embed_table_create(all[0], VOCAB, DIM, NULL, &floats));
  OK(embed_table_init(all[0], floats, &normal));
  for (int i = 0; i < N * DIM; ++i) x[i] = test_uniform(&seed);
  for (int i = 0; i < VOCAB; ++i) bias[i] = test_uniform(&seed);
  choose(ids, M, &seed);
  for (int32_t v = 0, n = 0; v < VOCAB && n < M; v += 1 + (v % 5 == 0)) sorted[n++] = v;
  for (int c = 0; c < contexts; c += 2)
    for (int d = 0; d < COUNT(dtypes); ++d)
      for (uint32_t flags = 0; flags <= EMBED_HEAD_PREPARE; flags += EMBED_HEAD_PREPARE) {
        const embed_table_options as = {.size = sizeof as, .dtype = dtypes[d]};
        const embed_head_options o = {.size = sizeof o, .flags = flags, .logit_scale = .25f, .logit_softcap = d % 2 ? 5 : 0};
        embed_table *t = NULL;
        embed_head *whole = NULL, *part = NULL, *again = NULL;
        OK(embed_table_convert(all[c], floats, &as, &t));
        OK(embed_head_create(all[c], t, bias, &o, &whole));
        OK(embed_head_create_subset(all[c], whole, ids, M, &part));
        check_subset(all[c], whole, part, ids, M, x, &seed);
        OK(embed_head_create_subset(all[c], part, ids + 100, 900, &again));
        check_subset(all[c], whole, again, ids + 100, 900, x, &seed);
        embed_head_release(part);
        OK(embed_head_create_subset(all[c], whole, sorted, M, &part));
        check_subset(all[c], whole, part, sorted, M, x, &seed);
        embed_head_release(whole); /* in any order */
        embed_table_release(t);
        float z[N * M];
        OK(embed_logits(all[c], part, x, EMBED_F32, N, 0, z, 0, NULL));
        embed_head_release(part);
        embed_head_release(again);
      }
  embed_table_release(floats);
  contexts_free(all, contexts);
}

static void equal_logits_go_by_the_lower_original_id(void **state) {
  (void)state;
  const float w[6] = {1, 1, 2, 1, 1, 0}, one = 1;
  const int32_t ids[4] = {4, 1, 5, 3};
  embed_context *ctx = context_with(NULL, 2);
  embed_result *r = result_new(ctx);
  embed_table *t = NULL;
  embed_head *whole = NULL, *h = NULL;
  OK(embed_table_view(ctx, w, 6, 1, NULL, NULL, NULL, &t));
  OK(embed_head_create(ctx, t, NULL, NULL, &whole));
  OK(embed_head_create_subset(ctx, whole, ids, 4, &h));
  const int32_t order[4] = {1, 3, 4, 5};
  for (int j = 0; j < 4; ++j) {
    const embed_sweep_options o = {.size = sizeof o, .ask = EMBED_ASK_TOPK_IDS | EMBED_ASK_TARGET_RANK | EMBED_ASK_TOKEN, .k = 4};
    OK(embed_sweep(ctx, h, &one, EMBED_F32, 0, NULL, 1, &order[j], NULL, NULL, 0, &o, r));
    assert_same_bits(ints_of(r, EMBED_ASK_TOPK_IDS), order, sizeof order);
    assert_int_equal(ints_of(r, EMBED_ASK_TARGET_RANK)[0], j + 1);
    assert_int_equal(ints_of(r, EMBED_ASK_TOKEN)[0], 1);
  }
  int32_t best[4];
  float logits[4];
  OK(embed_topk(ctx, h, &one, EMBED_F32, 1, 0, 4, best, logits, NULL, NULL, NULL));
  assert_same_bits(best, order, sizeof order);
  embed_head_release(h);
  embed_head_release(whole);
  embed_table_release(t);
  embed_result_release(r);
  embed_context_release(ctx);
}

static void ids_are_described_and_checked(void **state) {
  (void)state;
  const float w[6] = {1, 2, 3, 4, 5, 6}, one = 1;
  const int32_t ids[3] = {5, 0, 2}, twice[5] = {3, 5, 0, 5, 0}, outside[2] = {0, 6}, negative[1] = {-1}, left_out[2] = {0, 1};
  embed_context *ctx = context_new();
  embed_result *r = result_new(ctx);
  embed_table *t = NULL;
  embed_head *whole = NULL, *h = NULL, *none = NULL;
  embed_rules *rules = NULL;
  OK(embed_table_view(ctx, w, 6, 1, NULL, NULL, NULL, &t));
  OK(embed_head_create(ctx, t, NULL, NULL, &whole));
  OK(embed_head_create_subset(ctx, whole, ids, 3, &h));
  embed_head_info info = {.size = sizeof info};
  OK(embed_head_describe(ctx, whole, &info));
  assert_int_equal(info.ids_checksum, 0);
  OK(embed_head_describe(ctx, h, &info));
  assert_true(info.ids_checksum == checksum(ids, 3) && info.vocab == 3 && info.dim == 1);
  assert_int_equal(embed_head_vocab(h), 3);
  assert_null(embed_head_table(h));
  assert_int_equal(embed_head_is_tied(h, t), 0);
#define REFUSED(status, position, call)              \
  do {                                               \
    none = h;                                        \
    assert_int_equal((call), status);                \
    assert_int_equal(embed_error_at(ctx), position); \
    assert_null(none);                               \
  } while (0)
  REFUSED(EMBED_E_ID, 3, embed_head_create_subset(ctx, whole, twice, 5, &none));
  assert_string_equal(embed_error_text(ctx), "the id at position 3 stands at position 1 already");
  REFUSED(EMBED_E_ID, 1, embed_head_create_subset(ctx, whole, outside, 2, &none));
  REFUSED(EMBED_E_ID, 0, embed_head_create_subset(ctx, whole, negative, 1, &none));
  REFUSED(EMBED_E_ID, 1, embed_head_create_subset(ctx, h, left_out, 2, &none));
  REFUSED(EMBED_E_ARGUMENT, -1, embed_head_create_subset(ctx, whole, ids, -1, &none));
  float z[2] = {7, 7};
  const embed_sweep_options o = {.size = sizeof o, .ask = EMBED_ASK_TARGET_LOGPROB};
  assert_int_equal(embed_logits_at(ctx, h, &one, EMBED_F32, 1, 0, left_out, 2, z, 0, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 1);
  assert_int_equal(embed_sweep(ctx, h, &one, EMBED_F32, 0, NULL, 1, left_out + 1, NULL, NULL, 0, &o, r), EMBED_E_ID);
  assert_string_equal(embed_error_text(ctx), "target 1 at position 0 is not among the 3 ids of this subset");
  OK(embed_rules_create(ctx, 3, &rules)); /* the width of a row, not the vocabulary */
  const embed_rules *each[1] = {rules};
  assert_int_equal(embed_sweep(ctx, h, &one, EMBED_F32, 0, NULL, 1, ids, each, NULL, 0, &o, r), EMBED_E_MISMATCH);
  assert_true(z[0] == 7 && z[1] == 7);
  embed_rules_release(rules);
  embed_head_release(h);
  embed_head_release(whole);
  embed_table_release(t);
  embed_result_release(r);
  embed_context_release(ctx);
}

static void a_changed_table_makes_it_stale_until_it_is_refreshed(void **state) {
  (void)state;
  const float nine = 9, one = 1;
  const int64_t row = 4;
  const int32_t ids[2] = {4, 1};
  embed_context *ctx = context_new();
  embed_table *t = NULL;
  OK(embed_table_create(ctx, 6, 1, NULL, &t));
  for (uint32_t flags = 0; flags <= EMBED_HEAD_PREPARE; flags += EMBED_HEAD_PREPARE) {
    const embed_head_options o = {.size = sizeof o, .flags = flags};
    embed_head *whole = NULL, *h = NULL, *part = NULL;
    float z[2] = {-1, -1};
    OK(embed_head_create(ctx, t, NULL, &o, &whole));
    OK(embed_head_create_subset(ctx, whole, ids, 2, &h));
    OK(embed_head_create_subset(ctx, h, ids, 1, &part));
    OK(embed_table_set_rows(ctx, t, &row, 1, &nine, EMBED_F32, 0, NULL));
    assert_int_equal(embed_logits(ctx, h, &one, EMBED_F32, 1, 0, z, 0, NULL), EMBED_E_STALE);
    assert_int_equal(embed_logits(ctx, part, &one, EMBED_F32, 1, 0, z, 0, NULL), EMBED_E_STALE);
    assert_true(z[0] == -1 && z[1] == -1);
    OK(embed_head_refresh(ctx, h));
    OK(embed_logits(ctx, h, &one, EMBED_F32, 1, 0, z, 0, NULL));
    assert_true(z[0] == 9 && z[1] == 0);
    OK(embed_head_refresh(ctx, part));
    OK(embed_logits(ctx, part, &one, EMBED_F32, 1, 0, z, 0, NULL));
    assert_true(z[0] == 9);
    embed_head_release(h);
    embed_head_release(part);
    embed_head_release(whole);
    OK(embed_table_set_rows(ctx, t, &row, 1, &one, EMBED_F32, 0, NULL));
  }
  embed_table_release(t);
  embed_context_release(ctx);
}

static void a_changed_base_makes_an_overlays_subset_stale(void **state) {
  (void)state;
  const float nine = 9, one = 1;
  const int64_t row = 4, above = 6;
  const int32_t ids[2] = {4, 6};
  embed_context *ctx = context_new();
  embed_table *t = NULL, *rows = NULL, *overlay = NULL;
  embed_head *whole = NULL, *h = NULL;
  float z[2] = {-1, -1};
  OK(embed_table_create(ctx, 6, 1, NULL, &t));
  OK(embed_table_create(ctx, 1, 1, NULL, &rows));
  OK(embed_table_overlay(ctx, t, &above, 1, rows, 0, &overlay));
  OK(embed_head_create(ctx, overlay, NULL, NULL, &whole));
  OK(embed_head_create_subset(ctx, whole, ids, 2, &h));
  OK(embed_table_set_rows(ctx, t, &row, 1, &nine, EMBED_F32, 0, NULL));
  assert_int_equal(embed_logits(ctx, h, &one, EMBED_F32, 1, 0, z, 0, NULL), EMBED_E_STALE);
  assert_true(z[0] == -1 && z[1] == -1);
  OK(embed_head_refresh(ctx, h));
  OK(embed_logits(ctx, h, &one, EMBED_F32, 1, 0, z, 0, NULL));
  assert_true(z[0] == 9 && z[1] == 0);
  embed_head_release(h);
  embed_head_release(whole);
  embed_table_release(overlay);
  embed_table_release(rows);
  embed_table_release(t);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(logits_are_those_of_the_whole_head_in_every_form),
    cmocka_unit_test(equal_logits_go_by_the_lower_original_id),
    cmocka_unit_test(ids_are_described_and_checked),
    cmocka_unit_test(a_changed_table_makes_it_stale_until_it_is_refreshed),
    cmocka_unit_test(a_changed_base_makes_an_overlays_subset_stale),
};
TEST_MAIN(tests)
