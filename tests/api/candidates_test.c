/* SPDX-License-Identifier: BSD-3-Clause */
/* Candidates: draws against the same formulas on Philox written in Python, shares against counts of many draws. */
#include "counting.h"

static embed_candidates *candidates_of(embed_context *ctx, int64_t vocab, const int64_t *counts, embed_candidates_options o) {
  embed_candidates *c = NULL;
  o.size = sizeof o;
  if (embed_candidates_create(ctx, vocab, counts, &o, &c) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  return c;
}

static const int64_t few_counts[8] = {0, 5, 0, 100, 1, 0, 30, 0};
#define LIST (((int64_t)1 << 33) + 5) /* its position */

static void draws_are_those_of_the_formulas(void **state) {
  static const int32_t log_uniform[10] = {13, 718, 55, 4, 43, 12, 43271, 58, 0, 9434},
                       uniform[10] = {12557, 30542, 18708, 8244, 17636, 12133, 49562, 18966, 1895, 42491};
  static const int32_t by_count[20] = {3, 3, 3, 3, 3, 3, 6, 3, 1, 6, 3, 1, 3, 3, 3, 6, 3, 1, 6, 3}, unique[10] = {1, 5, 2, 0, 19, 12, 10, 13, 4, 9};
  embed_context *ctx = context_new();
  int32_t ids[20];
  int64_t tries;
  (void)state;
  embed_candidates *c = candidates_of(ctx, 50257, NULL, (embed_candidates_options){.flags = EMBED_CANDIDATES_REPEATS, .seed = 42});
  OK(embed_candidates_draw(ctx, c, LIST, 10, ids, &tries));
  assert_same_bits(ids, log_uniform, sizeof log_uniform);
  assert_int_equal(tries, 10);
  embed_candidates_release(c);
  c = candidates_of(ctx, 50257, NULL, (embed_candidates_options){.kind = EMBED_CANDIDATES_UNIFORM, .seed = 42});
  OK(embed_candidates_draw(ctx, c, LIST, 10, ids, NULL));
  assert_same_bits(ids, uniform, sizeof uniform);
  embed_candidates_release(c);
  c = candidates_of(ctx, 8, few_counts,
                    (embed_candidates_options){.kind = EMBED_CANDIDATES_COUNTS, .power = 0.75, .flags = EMBED_CANDIDATES_REPEATS, .seed = 42});
  OK(embed_candidates_draw(ctx, c, LIST, 20, ids, NULL));
  assert_same_bits(ids, by_count, sizeof by_count);
  embed_candidates_release(c);
  c = candidates_of(ctx, 20, NULL, (embed_candidates_options){.seed = 42});
  OK(embed_candidates_draw(ctx, c, LIST, 10, ids, &tries));
  assert_same_bits(ids, unique, sizeof unique);
  assert_int_equal(tries, 33);
  embed_candidates_release(c);
  embed_context_release(ctx);
}

static void expected_counts_are_those_of_tensorflow(void **state) {
  static const int32_t ids[3] = {0, 7, 19}, classes[4] = {1, 3, 4, 6}, never = 2;
  static const double unique[3] = {-0.00019839664339002527, -0.3174301274683159, -0.8837448204937354},
                      repeated[3] = {0.822728118452396, -0.9496699888091039, -1.8309855013087744};
  static const double by_count[4] = {-1.2940519034736353, 0.9527473016918581, -2.5011303377992107, 0.04976769844740592};
  embed_context *ctx = context_new();
  float out[4];
  (void)state;
  embed_candidates *c = candidates_of(ctx, 20, NULL, (embed_candidates_options){0});
  OK(embed_candidates_log_expected(ctx, c, ids, 3, 33, out));
  for (int i = 0; i < 3; ++i) assert_true(fabs((double)out[i] - unique[i]) <= 1e-7 * fabs(unique[i]));
  embed_candidates_release(c);
  c = candidates_of(ctx, 20, NULL, (embed_candidates_options){.flags = EMBED_CANDIDATES_REPEATS});
  OK(embed_candidates_log_expected(ctx, c, ids, 3, 10, out));
  for (int i = 0; i < 3; ++i) assert_true(fabs((double)out[i] - repeated[i]) <= 1e-7 * fabs(repeated[i]));
  embed_candidates_release(c);
  c = candidates_of(ctx, 8, few_counts, (embed_candidates_options){.kind = EMBED_CANDIDATES_COUNTS, .power = 0.75, .flags = EMBED_CANDIDATES_REPEATS});
  OK(embed_candidates_log_expected(ctx, c, classes, 4, 4, out));
  for (int i = 0; i < 4; ++i) assert_true(fabs((double)out[i] - by_count[i]) <= 1e-7 * fabs(by_count[i]));
  OK(embed_candidates_log_expected(ctx, c, &never, 1, 4, out));
  assert_true(isinf(out[0]) && out[0] < 0);
  embed_candidates_release(c);
  embed_context_release(ctx);
}

/* Many draws, and what log_expected says of them: within 5 standard deviations. */
static void every_class_comes_as_often_as_expected(void **state) {
  enum { VOCAB = 300, DRAWS = 300000 };
  embed_context *ctx = context_new();
  int64_t counts[VOCAB];
  uint64_t seed = 9;
  int32_t *ids = calloc(DRAWS, sizeof *ids), all[VOCAB];
  (void)state;
  for (int v = 0; v < VOCAB; ++v) counts[v] = v % 9 == 0 ? 0 : (int64_t)(test_random(&seed) % 1000), all[v] = v;
  for (embed_candidates_kind kind = 0; kind < 3; ++kind) {
    const bool by_count = kind == EMBED_CANDIDATES_COUNTS;
    embed_candidates *c = candidates_of(ctx, VOCAB, by_count ? counts : NULL,
                                        (embed_candidates_options){.kind = kind, .flags = EMBED_CANDIDATES_REPEATS, .seed = 7, .power = by_count ? 0.5 : 0});
    float expected[VOCAB];
    int64_t seen[VOCAB] = {0};
    OK(embed_candidates_draw(ctx, c, 3, DRAWS, ids, NULL));
    OK(embed_candidates_log_expected(ctx, c, all, VOCAB, DRAWS, expected));
    for (int i = 0; i < DRAWS; ++i) ++seen[ids[i]];
    for (int v = 0; v < VOCAB; ++v) {
      const double mean = exp((double)expected[v]);
      assert_true(fabs((double)seen[v] - mean) <= 5 * sqrt(mean) + 1e-9);
      if (by_count && counts[v] == 0) assert_int_equal(seen[v], 0);
    }
    embed_candidates_release(c);
  }
  free(ids);
  embed_context_release(ctx);
}

static void without_repeats_a_list_has_every_class_once(void **state) {
  embed_context *ctx = context_new();
  int32_t ids[100];
  int64_t tries;
  (void)state;
  embed_candidates *c = candidates_of(ctx, 100, NULL, (embed_candidates_options){.seed = 3});
  bool seen[100] = {false};
  OK(embed_candidates_draw(ctx, c, 0, 100, ids, &tries));
  for (int i = 0; i < 100; ++i) {
    assert_false(seen[ids[i]]);
    seen[ids[i]] = true;
  }
  assert_true(tries > 100);
  int32_t shorter[40];
  OK(embed_candidates_draw(ctx, c, 0, 40, shorter, NULL));
  assert_same_bits(shorter, ids, sizeof shorter);
  OK(embed_candidates_draw(ctx, c, 1, 40, shorter, NULL));
  assert_memory_not_equal(shorter, ids, sizeof shorter);
  OK(embed_candidates_draw(ctx, c, 1, 0, NULL, &tries));
  assert_int_equal(tries, 0);
  embed_candidates_release(c);
  embed_context_release(ctx);
}

static void classes_at_both_ends_of_the_weights_are_drawn_rightly(void **state) {
  static const int64_t last[5] = {0, 0, 0, 0, 1}, first[5] = {1, 0, 0, 0, 0}, large[5] = {INT64_MAX, 0, INT64_MAX, 0, 0};
  embed_context *ctx = context_new();
  int32_t ids[1000];
  (void)state;
  const embed_candidates_options o = {.kind = EMBED_CANDIDATES_COUNTS, .flags = EMBED_CANDIDATES_REPEATS, .power = 8};
  embed_candidates *a = candidates_of(ctx, 5, last, o), *b = candidates_of(ctx, 5, first, o), *c = candidates_of(ctx, 5, large, o);
  OK(embed_candidates_draw(ctx, a, 0, 1000, ids, NULL));
  for (int i = 0; i < 1000; ++i) assert_int_equal(ids[i], 4);
  OK(embed_candidates_draw(ctx, b, 0, 1000, ids, NULL));
  for (int i = 0; i < 1000; ++i) assert_int_equal(ids[i], 0);
  OK(embed_candidates_draw(ctx, c, 0, 1000, ids, NULL));
  for (int i = 0; i < 1000; ++i) assert_true(ids[i] == 0 || ids[i] == 2);
  embed_candidates_release(a), embed_candidates_release(b), embed_candidates_release(c);
  c = candidates_of(ctx, 1, NULL, (embed_candidates_options){0});
  OK(embed_candidates_draw(ctx, c, 0, 1, ids, NULL));
  assert_int_equal(ids[0], 0);
  embed_candidates_release(c);
  embed_context_release(ctx);
}

static void wrong_arguments_write_nothing(void **state) {
  static const int64_t negative[3] = {1, -1, 2}, zeros[3] = {0}, steep[3] = {INT64_MAX, 1, 1};
  embed_context *ctx = context_new();
  embed_candidates *c = (embed_candidates *)(uintptr_t)8, *small;
  embed_candidates_options o = {.size = sizeof o};
  int32_t ids[4];
  int64_t tries = -7;
  float out[2];
  (void)state;
  memset(ids, 0xA5, sizeof ids), memset(out, 0xA5, sizeof out);
  assert_int_equal(embed_candidates_create(ctx, 0, NULL, &o, &c), EMBED_E_ARGUMENT);
  assert_null(c);
  assert_int_equal(embed_candidates_create(ctx, (int64_t)1 << 31, NULL, &o, &c), EMBED_E_UNSUPPORTED);
  assert_int_equal(embed_candidates_create(ctx, 3, zeros, &o, &c), EMBED_E_ARGUMENT);
  o.power = 1;
  assert_int_equal(embed_candidates_create(ctx, 3, NULL, &o, &c), EMBED_E_OPTION);
  o.kind = EMBED_CANDIDATES_COUNTS;
  assert_int_equal(embed_candidates_create(ctx, 3, NULL, &o, &c), EMBED_E_ARGUMENT);
  assert_int_equal(embed_candidates_create(ctx, 3, zeros, &o, &c), EMBED_E_ARGUMENT);
  assert_int_equal(embed_candidates_create(ctx, 3, negative, &o, &c), EMBED_E_ARGUMENT);
  assert_int_equal(embed_error_at(ctx), 1);
  for (int k = 0; k < 3; ++k) {
    o.power = k == 0 ? -1 : k == 1 ? 9 : (double)NAN;
    assert_int_equal(embed_candidates_create(ctx, 3, steep, &o, &c), EMBED_E_OPTION);
  }
  o.power = 0, o.kind = 3;
  assert_int_equal(embed_candidates_create(ctx, 3, NULL, &o, &c), EMBED_E_OPTION);
  o.kind = 0, o.reserved = 1;
  assert_int_equal(embed_candidates_create(ctx, 3, NULL, &o, &c), EMBED_E_OPTION);
  small = candidates_of(ctx, 3, steep, (embed_candidates_options){.kind = EMBED_CANDIDATES_COUNTS});
  assert_int_equal(embed_candidates_draw(ctx, small, 0, 4, ids, &tries), EMBED_E_ARGUMENT);
  assert_int_equal(embed_candidates_draw(ctx, small, 0, -1, ids, &tries), EMBED_E_ARGUMENT);
  assert_int_equal(embed_candidates_draw(ctx, small, -1, 1, ids, &tries), EMBED_E_ARGUMENT);
  assert_int_equal(embed_candidates_draw(ctx, small, 0, 1, NULL, &tries), EMBED_E_ARGUMENT);
  ids[1] = 3;
  assert_int_equal(embed_candidates_log_expected(ctx, small, ids + 1, 1, 1, out), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 0);
  ids[1] = 2;
  assert_int_equal(embed_candidates_log_expected(ctx, small, ids + 1, 1, 0, out), EMBED_E_ARGUMENT);
  assert_true(tries == -7 && test_all_bytes(out, sizeof out, 0xA5));
  embed_candidates_release(small);
  embed_candidates_release(NULL);
  embed_context_release(ctx);
}

#ifndef TEST_SANITIZED
/* 67 million draws of one class. */
static void candidates_too_rare_are_given_up(void **state) {
  static const int64_t steep[3] = {INT64_MAX, 1, 1};
  embed_context *ctx = context_new();
  int32_t ids[2] = {-7, -7};
  (void)state;
  embed_candidates *c = candidates_of(ctx, 3, steep, (embed_candidates_options){.kind = EMBED_CANDIDATES_COUNTS});
  assert_int_equal(embed_candidates_draw(ctx, c, 0, 2, ids, NULL), EMBED_E_UNSUPPORTED);
  assert_true(ids[0] == -7 && ids[1] == -7);
  embed_candidates_release(c);
  embed_context_release(ctx);
}
#else
static void candidates_too_rare_are_given_up(void **state) {
  (void)state;
  skip();
}
#endif

static void every_failed_allocation_leaves_nothing(void **state) {
  static const int64_t counts[3] = {3, 1, 1};
  counting c;
  (void)state;
  for (int call = 0; call < 2; ++call) {
    for (int k = 0;; ++k) {
      counting_start(&c);
      embed_context *ctx = counting_context(&c, NULL);
      embed_candidates *made = NULL;
      embed_candidates_options o = {.size = sizeof o, .kind = EMBED_CANDIDATES_COUNTS};
      int32_t ids[2] = {-7, -7};
      if (call) OK(embed_candidates_create(ctx, 3, counts, &o, &made));
      embed_context_trim(ctx);
      atomic_store(&c.fail_at, k);
      const embed_status status = call ? embed_candidates_draw(ctx, made, 0, 2, ids, NULL) : embed_candidates_create(ctx, 3, counts, &o, &made);
      const bool failed = atomic_exchange(&c.fail_at, -1) < 0;
      assert_int_equal(status, failed ? EMBED_E_MEMORY : EMBED_OK);
      if (failed) assert_true(ids[0] == -7 && ids[1] == -7 && (call || !made));
      embed_candidates_release(made);
      embed_context_release(ctx);
      counting_check(&c);
      if (!failed) break;
    }
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(draws_are_those_of_the_formulas),
    cmocka_unit_test(expected_counts_are_those_of_tensorflow),
    cmocka_unit_test(every_class_comes_as_often_as_expected),
    cmocka_unit_test(without_repeats_a_list_has_every_class_once),
    cmocka_unit_test(classes_at_both_ends_of_the_weights_are_drawn_rightly),
    cmocka_unit_test(wrong_arguments_write_nothing),
    cmocka_unit_test(candidates_too_rare_are_given_up),
    cmocka_unit_test(every_failed_allocation_leaves_nothing),
};
TEST_MAIN(tests)
