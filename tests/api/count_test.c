/* SPDX-License-Identifier: BSD-3-Clause */
/* Row counters: a histogram of ids, by the rows that get their gradient; and the ids counted most. */
#include <math.h>

#include "counting.h"
#include "gather.h"

enum { VOCAB = 11 };

#define ASSERT_COUNTS(counts, ...)                   \
  do {                                               \
    const uint32_t want_[] = {__VA_ARGS__};          \
    assert_same_bits((counts), want_, sizeof want_); \
  } while (0)

/* S38: billions of updates of some rows, few of others; a list may be cut into calls. */
static void counts_are_a_histogram_of_ids(void **state) {
  (void)state;
  enum { ROWS = 1000, N = 20000, CUT = 777 };
  static int64_t ids[N];
  static uint32_t counts[ROWS], want[ROWS];
  uint64_t random = 38;
  for (int i = 0; i < N; ++i) {
    const uint64_t r = test_random(&random);
    ++want[ids[i] = (int64_t)((r % ROWS) * (r >> 32 & 0xFF) >> 8)];
  }
  embed_context *ctx = context_with(NULL, 2);
  for (int64_t first = 0; first < N; first += CUT) OK(embed_count_rows(ctx, ids + first, first + CUT < N ? CUT : N - first, ROWS, counts, NULL));
  assert_same_bits(counts, want, sizeof want);
  OK(embed_count_rows(ctx, ids, N, ROWS, counts, NULL));
  for (int r = 0; r < ROWS; ++r) assert_int_equal(counts[r], 2 * want[r]);
  embed_context_release(ctx);
}

static void padding_and_rows_of_zeros_are_not_counted(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const int64_t ids[] = {0, 1, 1, 2, 1, -100, 7};
  embed_lookup_options o = {.size = sizeof o, .flags = EMBED_LOOKUP_PADDING, .padding_id = 1};
  uint32_t counts[3] = {0};
  OK(embed_count_rows(ctx, ids, 5, 3, counts, NULL));
  ASSERT_COUNTS(counts, 1, 3, 1);
  OK(embed_count_rows(ctx, ids, 5, 3, counts, &o));
  ASSERT_COUNTS(counts, 2, 3, 2);
  o.padding_id = -100; /* outside the vocabulary, and no error */
  OK(embed_count_rows(ctx, ids, 6, 3, counts, &o));
  ASSERT_COUNTS(counts, 3, 6, 3);
  o.oov = EMBED_OOV_ZERO;
  OK(embed_count_rows(ctx, ids + 4, 3, 3, counts, &o));
  ASSERT_COUNTS(counts, 3, 7, 3);
  OK(embed_count_rows(ctx, ids, 7, 0, NULL, &o)); /* no row has a count */
  embed_context_release(ctx);
}

/* Upstream rows of one 1 are counted by their sum. What weighs the gradient does not weigh the counts. */
static void every_policy_counts_the_positions_of_the_gradient(void **state) {
  (void)state;
  enum { N = 12 };
  embed_context *ctx = context_new();
  const int64_t ids[N] = {3, 11, -1, 10, 1000, 0, INT64_MIN, INT64_MAX, 5, 3, 7, 5};
  const float ones[N] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  for (embed_oov_policy oov = EMBED_OOV_UNK; oov <= EMBED_OOV_HASH; ++oov)
    for (uint32_t padding = 0; padding <= EMBED_LOOKUP_PADDING; padding += EMBED_LOOKUP_PADDING) {
      embed_lookup_options o = {.size = sizeof o, .flags = padding, .oov = oov, .unk_id = 7, .padding_id = 5};
      embed_grad *g = NULL;
      uint32_t counts[VOCAB] = {0}, weighed[VOCAB] = {0};
      OK(embed_grad_create_dense(ctx, VOCAB, 1, NULL, 0, &g));
      OK(embed_lookup_backward(ctx, g, VOCAB, ids, N, ones, EMBED_F32, 0, &o));
      OK(embed_count_rows(ctx, ids, N, VOCAB, counts, &o));
      for (int r = 0; r < VOCAB; ++r) assert_exactly(embed_grad_values(g)[r], (float)counts[r]);
      if (oov == EMBED_OOV_UNK) assert_int_equal(counts[7], 6);
      if (oov == EMBED_OOV_CLAMP) assert_int_equal(counts[0] + counts[VOCAB - 1], 7);
      o.flags |= EMBED_LOOKUP_ADD | EMBED_BACKWARD_BY_FREQUENCY;
      o.scale = -0.25f;
      o.max_norm = 0.5f;
      OK(embed_count_rows(ctx, ids, N, VOCAB, weighed, &o));
      assert_same_bits(weighed, counts, sizeof counts);
      embed_grad_release(g);
    }
  embed_context_release(ctx);
}

static void a_count_stays_at_its_greatest(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const int64_t ids[] = {0, 1, 1, 1, 2, 0};
  uint32_t counts[3] = {UINT32_MAX - 2, UINT32_MAX - 2, UINT32_MAX};
  OK(embed_count_rows(ctx, ids, 6, 3, counts, NULL));
  ASSERT_COUNTS(counts, UINT32_MAX, UINT32_MAX, UINT32_MAX);
  embed_context_release(ctx);
}

static void decay_rounds_to_nearest_and_ties_to_even(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  uint32_t counts[] = {0, 1, 2, 3, 5, 7, UINT32_MAX - 4, UINT32_MAX - 2, UINT32_MAX};
  OK(embed_count_decay(ctx, counts, COUNT(counts), 1));
  ASSERT_COUNTS(counts, 0, 1, 2, 3, 5, 7, UINT32_MAX - 4, UINT32_MAX - 2, UINT32_MAX);
  OK(embed_count_decay(ctx, counts, COUNT(counts), 0.5)); /* .., 0.5, 1, 1.5, 2.5, 3.5, 2^31 - 2.5, 2^31 - 1.5, 2^31 - 0.5 */
  ASSERT_COUNTS(counts, 0, 0, 1, 2, 2, 4, 0x7FFFFFFE, 0x7FFFFFFE, 0x80000000);
  uint32_t tenth[] = {1, 4, 5, 6, 15, 1000000007}; /* no double is 0.9: 5 and 15 times the nearest are rounded to ties */
  OK(embed_count_decay(ctx, tenth, COUNT(tenth), 0.9));
  ASSERT_COUNTS(tenth, 1, 4, 4, 5, 14, 900000006);
  OK(embed_count_decay(ctx, tenth, 3, 0)); /* the rows asked for, and no other */
  ASSERT_COUNTS(tenth, 0, 0, 0, 5, 14, 900000006);
  OK(embed_count_decay(ctx, tenth + 3, 1, -0.0));
  ASSERT_COUNTS(tenth + 3, 0, 14);
  embed_context_release(ctx);
}

static void what_cannot_be_counted_is_refused_and_changes_nothing(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  uint32_t counts[3] = {9, 8, 7};
  const int64_t zero = 0;
  assert_int_equal(embed_count_rows(ctx, (const int64_t[]){0, 7, 1}, 3, 3, counts, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 1);
  assert_says(ctx, "id 7 at position 1 is outside the vocabulary of 3 rows");
  assert_int_equal(embed_count_rows(ctx, (const int64_t[]){2, 1, -1}, 3, 3, counts, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 2);
  assert_int_equal(embed_count_rows(ctx, (const int64_t[]){((int64_t)1 << 32) + 1}, 1, 3, counts, NULL), EMBED_E_ID);
  for (embed_oov_policy oov = EMBED_OOV_CLAMP; oov <= EMBED_OOV_HASH; ++oov) /* without rows they place none */
    assert_int_equal(embed_count_rows(ctx, &zero, 1, 0, counts, &(embed_lookup_options){.size = sizeof(embed_lookup_options), .oov = oov}), EMBED_E_ID);
  assert_int_equal(embed_count_rows(ctx, &zero, -1, 3, counts, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_count_rows(ctx, &zero, 1, -1, counts, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_count_rows(ctx, NULL, 1, 3, counts, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_count_rows(ctx, &zero, 1, 3, NULL, NULL), EMBED_E_ARGUMENT);
  assert_says(ctx, "counts is NULL");
  const embed_lookup_options wrong[] = {{.size = sizeof *wrong, .scale = NAN},
                                        {.size = sizeof *wrong, .max_norm = -1},
                                        {.size = sizeof *wrong, .oov = 9},
                                        {.size = sizeof *wrong, .oov = EMBED_OOV_UNK, .unk_id = 3},
                                        {.size = sizeof *wrong, .scale_round = EMBED_Q8_0},
                                        {.size = sizeof *wrong, .flags = 64}};
  for (int w = 0; w < COUNT(wrong); ++w) assert_int_equal(embed_count_rows(ctx, &zero, 1, 3, counts, &wrong[w]), EMBED_E_OPTION);
  const double factors[] = {-0.001, 1.0000001, INFINITY, -INFINITY, NAN};
  for (int f = 0; f < COUNT(factors); ++f) {
    assert_int_equal(embed_count_decay(ctx, counts, 3, factors[f]), EMBED_E_ARGUMENT);
    assert_says(ctx, "factor");
  }
  assert_int_equal(embed_count_decay(ctx, counts, -1, 0.5), EMBED_E_ARGUMENT);
  assert_int_equal(embed_count_decay(ctx, NULL, 3, 0.5), EMBED_E_ARGUMENT);
  ASSERT_COUNTS(counts, 9, 8, 7);
  embed_context_release(ctx);
}

/* By one maximum after the other, the smaller id where counts are equal. */
static void most_counted(const uint32_t *counts, int vocab, int k, int32_t *ids) {
  bool taken[512] = {false};
  for (int i = 0; i < k; ++i) {
    int best = -1;
    for (int r = 0; r < vocab; ++r)
      if (!taken[r] && (best < 0 || counts[r] > counts[best])) best = r;
    taken[best] = true;
    ids[i] = best;
  }
}

static void the_rows_counted_most_come_first(void **state) {
  (void)state;
  enum { ROWS = 500 };
  embed_context *ctx = context_new();
  uint32_t counts[ROWS];
  int32_t ids[ROWS + 1], want[ROWS];
  uint64_t random = 18;
  for (int r = 0; r < ROWS; ++r) counts[r] = (uint32_t)test_random(&random) % (r % 3 ? 7 : UINT32_MAX); /* ties, and counts of 32 bits */
  counts[250] = UINT32_MAX;
  most_counted(counts, ROWS, ROWS, want);
  for (int k = 0; k <= ROWS; k += k < 4 ? 1 : 124) {
    memset(ids, 0xA5, sizeof ids);
    OK(embed_count_top(ctx, counts, ROWS, k, ids));
    assert_same_bits(ids, want, (size_t)k * sizeof *ids);
    assert_true(test_all_bytes(ids + k, sizeof ids - (size_t)k * sizeof *ids, 0xA5));
  }
  embed_context_release(ctx);
}

/* A draft model's head from what was counted: answers keep the first head's ids. */
static void a_shortlist_is_made_of_counts(void **state) {
  (void)state;
  enum { SHORT = 3, DIM = 4 };
  embed_context *ctx = context_new();
  float rows[VOCAB * DIM];
  for (int i = 0; i < VOCAB * DIM; ++i) rows[i] = (float)(i / DIM);
  const int64_t stream[] = {7, 2, 7, 9, 2, 7, 10, 9};
  const float ones[DIM] = {1, 1, 1, 1};
  uint32_t counts[VOCAB] = {0};
  int32_t ids[SHORT], best;
  float logit;
  embed_table *table;
  embed_head *whole, *few;
  embed_head_info info = {.size = sizeof info};
  OK(embed_table_borrow(ctx, rows, VOCAB, DIM, NULL, NULL, NULL, &table));
  OK(embed_head_create(ctx, table, NULL, NULL, &whole));
  OK(embed_count_rows(ctx, stream, COUNT(stream), VOCAB, counts, NULL));
  OK(embed_count_top(ctx, counts, VOCAB, SHORT, ids));
  assert_same_bits(ids, ((const int32_t[]){7, 2, 9}), sizeof ids);
  OK(embed_head_create_subset(ctx, whole, ids, SHORT, &few));
  OK(embed_head_describe(ctx, few, &info));
  assert_true(info.ids_checksum != 0);
  OK(embed_topk(ctx, few, ones, EMBED_F32, 1, 0, 1, &best, &logit, NULL, NULL, NULL));
  assert_int_equal(best, 9);
  assert_true(logit == 36); /* 10 has 40, and was counted less */
  embed_head_release(few);
  embed_head_release(whole);
  embed_table_release(table);
  embed_context_release(ctx);
}

static void what_has_no_top_is_refused_and_changes_nothing(void **state) {
  (void)state;
  counting c;
  counting_start(&c);
  embed_context *ctx = counting_context(&c, NULL);
  const uint32_t counts[] = {9, 8, 7};
  int32_t ids[] = {-3, -4, -5};
  assert_int_equal(embed_count_top(ctx, counts, 3, 4, ids), EMBED_E_ARGUMENT);
  assert_says(ctx, "k is 4 of 3 rows");
  assert_int_equal(embed_count_top(ctx, counts, 3, -1, ids), EMBED_E_ARGUMENT);
  assert_int_equal(embed_count_top(ctx, counts, -1, 0, ids), EMBED_E_ARGUMENT);
  assert_int_equal(embed_count_top(ctx, NULL, 3, 1, ids), EMBED_E_ARGUMENT);
  assert_int_equal(embed_count_top(ctx, counts, 3, 1, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_count_top(ctx, counts, (int64_t)INT32_MAX + 1, 1, ids), EMBED_E_OVERFLOW);
  atomic_store(&c.fail_at, 0);
  assert_int_equal(embed_count_top(ctx, counts, 3, 3, ids), EMBED_E_MEMORY);
  assert_same_bits(ids, ((const int32_t[]){-3, -4, -5}), sizeof ids);
  OK(embed_count_top(ctx, NULL, 3, 0, NULL));
  OK(embed_count_top(ctx, counts, 3, 3, ids));
  assert_same_bits(ids, ((const int32_t[]){0, 1, 2}), sizeof ids);
  embed_context_release(ctx);
  counting_check(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(counts_are_a_histogram_of_ids),
    cmocka_unit_test(padding_and_rows_of_zeros_are_not_counted),
    cmocka_unit_test(every_policy_counts_the_positions_of_the_gradient),
    cmocka_unit_test(a_count_stays_at_its_greatest),
    cmocka_unit_test(decay_rounds_to_nearest_and_ties_to_even),
    cmocka_unit_test(what_cannot_be_counted_is_refused_and_changes_nothing),
    cmocka_unit_test(the_rows_counted_most_come_first),
    cmocka_unit_test(a_shortlist_is_made_of_counts),
    cmocka_unit_test(what_has_no_top_is_refused_and_changes_nothing),
};
TEST_MAIN(tests)
