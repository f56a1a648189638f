/* SPDX-License-Identifier: BSD-3-Clause */
/* Every allocation of every call fails once: the call says so, nothing is written or lost, and it can be done again. */
#include "calls.h"
#include "counting.h"

static void every_failed_allocation_is_an_error_and_nothing_else(void **state) {
  (void)state;
  world w;
  outcome o;
  counting c;
  world_new(&w);
  for (int i = 0; i < COUNT(calls); ++i) {
    for (int threads = 1; threads <= 3; threads += 2) {
      embed_pool *pool = NULL;
      if (threads > 1) OK(embed_pool_create(threads, &pool));
      for (int k = 0;; ++k) {
        counting_start(&c);
        embed_context *ctx = counting_context(&c, pool);
        int64_t before = atomic_load(&c.alive);
        atomic_store(&c.fail_at, k);
        embed_status status = use(&calls[i], ctx, &w, NULL, &o);
        if (atomic_load(&c.fail_at) >= 0) { /* it needed no k-th allocation */
          if (status != EMBED_OK) fail_msg("%s: %s", calls[i].name, embed_error_text(ctx));
          used(&o);
          embed_context_release(ctx);
          counting_check(&c);
          break;
        }
        if (status != EMBED_E_MEMORY) fail_msg("%s answers %s when allocation %d fails", calls[i].name, embed_status_name(status), k);
        assert_true(embed_error_text(ctx)[0] != '\0');
        untouched(&calls[i], &o);
        embed_context_trim(ctx);
        if (atomic_load(&c.alive) != before) fail_msg("%s keeps memory when allocation %d fails", calls[i].name, k);
        status = use(&calls[i], ctx, &w, NULL, &o);
        if (status != EMBED_OK) fail_msg("%s after allocation %d had failed: %s", calls[i].name, k, embed_error_text(ctx));
        used(&o);
        embed_context_release(ctx);
        counting_check(&c);
        assert_true(k < 1000);
      }
      embed_pool_release(pool);
    }
  }
  world_free(&w);
}

static void a_context_that_gets_no_memory_is_not_made(void **state) {
  (void)state;
  counting c;
  char why[100];
  counting_start(&c);
  atomic_store(&c.fail_at, 0);
  embed_context *ctx = (embed_context *)(uintptr_t)8;
  embed_context_options o = {.size = sizeof o, .allocator = &c.allocator, .why = why, .why_bytes = sizeof why};
  assert_int_equal(embed_context_create(&o, &ctx), EMBED_E_MEMORY);
  assert_null(ctx);
  assert_non_null(strstr(why, "bytes"));
  counting_check(&c);
}

/* Calls that make no handle give the same size again from what the context has kept. */
static void warm_calls_allocate_nothing(void **state) {
  (void)state;
  world w;
  outcome o;
  counting c;
  world_new(&w);
  for (int i = 0; i < COUNT(calls); ++i) {
    counting_start(&c);
    embed_context *ctx = counting_context(&c, NULL);
    int64_t warm = 0;
    for (int round = 0; round < 5; ++round) {
      int64_t before = atomic_load(&c.calls);
      OK(use(&calls[i], ctx, &w, NULL, &o));
      warm = atomic_load(&c.calls) - before;
      if (round > 1 && !o.release && warm != 0) fail_msg("%s allocates %d times in round %d", calls[i].name, (int)warm, round);
      used(&o);
    }
    embed_context_release(ctx);
    counting_check(&c);
  }
  world_free(&w);
}

/* Rows that one sweep answers beside rows that want a second one, for which there is no memory: none of them is written. */
static void tokens_are_written_all_or_none(void **state) {
  enum { ROWS = 3, IDS = 100000, MOST = 200 };
  static float w[IDS];
  const float hidden[ROWS] = {1, 1, 1};
  const embed_sample_params params[ROWS] = {{.size = sizeof *params, .temperature = 1, .top_k = 5},
                                            {.size = sizeof *params, .temperature = 1, .typical_p = 0.9},
                                            {.size = sizeof *params, .temperature = 1, .top_k = 5}};
  embed_status status = EMBED_E_MEMORY;
  int64_t failed = 0;
  (void)state;
  for (int v = 0; v < IDS; ++v) w[v] = (float)(v % 97) / 50;
  for (int64_t at = 0; status == EMBED_E_MEMORY && at < MOST; ++at) {
    counting c;
    embed_table *t = NULL;
    embed_head *h = NULL;
    int32_t ids[ROWS] = {-7, -7, -7};
    float logprobs[ROWS] = {-7, -7, -7};
    counting_start(&c);
    embed_context *ctx = counting_context(&c, NULL);
    OK(embed_table_view(ctx, w, IDS, 1, NULL, NULL, NULL, &t));
    OK(embed_head_create(ctx, t, NULL, NULL, &h));
    atomic_store(&c.fail_at, at);
    status = embed_sample(ctx, h, hidden, EMBED_F32, ROWS, 0, NULL, params, ROWS, ids, logprobs, NULL);
    atomic_store(&c.fail_at, -1);
    if (status != EMBED_OK) assert_int_equal(status, EMBED_E_MEMORY);
    for (int i = 0; i < ROWS; ++i) assert_true(status == EMBED_OK ? ids[i] >= 0 && logprobs[i] <= 0 : ids[i] == -7 && logprobs[i] == -7);
    failed += status != EMBED_OK;
    embed_head_release(h);
    embed_table_release(t);
    embed_context_release(ctx);
    counting_check(&c);
  }
  assert_true(status == EMBED_OK && failed > 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_failed_allocation_is_an_error_and_nothing_else),
    cmocka_unit_test(a_context_that_gets_no_memory_is_not_made),
    cmocka_unit_test(warm_calls_allocate_nothing),
    cmocka_unit_test(tokens_are_written_all_or_none),
};
TEST_MAIN(tests)
