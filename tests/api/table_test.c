/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables: made, borrowed, viewed, converted, shared and released. */
#include "counting.h"

#include <pthread.h>

static embed_context *ctx;

static int start(void **state) {
  (void)state;
  ctx = context_new();
  return 0;
}

static int stop(void **state) {
  (void)state;
  embed_context_release(ctx);
  return 0;
}

static void a_made_table_is_zeroed_and_describes_itself(void **state) {
  (void)state;
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    embed_table_options o = {.size = sizeof o, .dtype = stored_dtypes[d], .vocab = 5};
    embed_table *t;
    const int64_t dim = whole_dim(stored_dtypes[d], 70);
    OK(embed_table_create(ctx, 7, dim, &o, &t));
    int64_t bytes = embed_row_bytes(stored_dtypes[d], dim, 0);
    assert_int_equal(embed_table_rows(t), 7);
    assert_int_equal(embed_table_vocab(t), 5);
    assert_int_equal(embed_table_dim(t), dim);
    assert_int_equal(embed_table_row_bytes(t), bytes);
    assert_int_equal(embed_table_dtype(t), stored_dtypes[d]);
    assert_ptr_equal(embed_table_data(t), embed_table_mutable_data(t));
    assert_int_equal((uintptr_t)embed_table_data(t) % 64, 0);
    assert_true(test_all_bytes(embed_table_data(t), (size_t)(7 * bytes), 0));
    float row[256];
    const int64_t id = 6;
    memset(row, 0xFF, sizeof row);
    OK(embed_table_get_rows(ctx, t, &id, 1, row, EMBED_F32, 0));
    for (int64_t j = 0; j < dim; ++j) assert_exactly(row[j], 0);
    embed_table_release(t);
  }
}

static void int4_groups_decide_the_bytes_of_a_row(void **state) {
  (void)state;
  static const int64_t bytes[][2] = {{0, 36}, {32, 36}, {64, 34}, {128, 66}}; /* dim 50 */
  for (int i = 0; i < COUNT(bytes); ++i) {
    embed_table_options o = {.size = sizeof o, .dtype = EMBED_I4_GROUP, .group = (int32_t)bytes[i][0]};
    embed_table *t;
    OK(embed_table_create(ctx, 2, 50, &o, &t));
    assert_int_equal(embed_table_row_bytes(t), bytes[i][1]);
    embed_table_release(t);
  }
}

typedef struct bad_table {
  int64_t rows, dim;
  embed_table_options o;
  embed_status status;
  const char *words; /* of the message */
} bad_table;

static void shapes_and_options_that_make_no_table_allocate_nothing(void **state) {
  (void)state;
  static const bad_table bad[] = {
      {-1, 4, {0}, EMBED_E_ARGUMENT, "-1"},
      {4, 0, {0}, EMBED_E_ARGUMENT, "dim is 0"},
      {4, -3, {0}, EMBED_E_ARGUMENT, "-3"},
      {INT64_MIN, INT64_MIN, {0}, EMBED_E_ARGUMENT, "rows"},
      {INT64_MAX, INT64_MAX, {0}, EMBED_E_OVERFLOW, "9223372036854775807"},
      {(int64_t)1 << 32, (int64_t)1 << 32, {0}, EMBED_E_OVERFLOW, "4294967296"},
      {1, (int64_t)1 << 61, {0}, EMBED_E_OVERFLOW, "2305843009213693952"},
      {(int64_t)1 << 40, (int64_t)1 << 30, {.dtype = EMBED_I4_GROUP}, EMBED_E_OVERFLOW, "1099511627776"},
      {2, 4, {.row_bytes = INT64_MAX}, EMBED_E_OVERFLOW, "9223372036854775807"},
      {4, 4, {.row_bytes = 15}, EMBED_E_OPTION, "row_bytes 15 is less than the 16"},
      {4, 4, {.row_bytes = -16}, EMBED_E_OPTION, "-16"},
      {4, 4, {.vocab = 5}, EMBED_E_OPTION, "vocab 5 is more than the 4 rows"},
      {4, 4, {.vocab = -1}, EMBED_E_OPTION, "vocab is -1"},
      {4, 4, {.data_bytes = -1}, EMBED_E_OPTION, "data_bytes is -1"},
      {4, 4, {.dtype = 9}, EMBED_E_OPTION, "9 is no dtype"},
      {4, 4, {.dtype = EMBED_DTYPE_NONE}, EMBED_E_OPTION, "-1 is no dtype"},
      {4, 48, {.dtype = EMBED_NVFP4}, EMBED_E_UNSUPPORTED, "nvfp4 needs a dim that is a multiple of 64, not 48"},
      {4, 4, {.dtype = EMBED_I4_GROUP, .group = 16}, EMBED_E_OPTION, "group is 16"},
      {4, 4, {.flags = 4}, EMBED_E_OPTION, "0x4"},
      {4, 4544, {.dtype = EMBED_Q4_K}, EMBED_E_UNSUPPORTED, "q4_K needs a dim that is a multiple of 256, not 4544"}, /* QU-01 */
      {4, 33, {.dtype = EMBED_Q8_0}, EMBED_E_UNSUPPORTED, "q8_0 needs a dim that is a multiple of 32, not 33"},
      {4, 1, {.dtype = EMBED_Q5_1, .group = 64}, EMBED_E_UNSUPPORTED, "q5_1 needs a dim that is a multiple of 32, not 1"},
      {(int64_t)1 << 40, (int64_t)1 << 30, {.dtype = EMBED_Q2_K}, EMBED_E_OVERFLOW, "1099511627776"},
  };
  counting c;
  counting_start(&c);
  embed_context *counted = counting_context(&c, NULL);
  int64_t calls = atomic_load(&c.calls);
  for (int i = 0; i < COUNT(bad); ++i) {
    embed_table_options o = bad[i].o;
    embed_table *t = (embed_table *)(uintptr_t)8;
    o.size = sizeof o;
    if (embed_table_create(counted, bad[i].rows, bad[i].dim, &o, &t) != bad[i].status) fail_msg("case %d: %s", i, embed_error_text(counted));
    assert_null(t);
    assert_says(counted, bad[i].words);
  }
  assert_int_equal(atomic_load(&c.calls), calls);
  embed_table *t = (embed_table *)(uintptr_t)8; /* fits into 64 bits, not into this machine */
  const embed_status too_large = sizeof(size_t) < 8 ? EMBED_E_OVERFLOW : EMBED_E_MEMORY;
  assert_int_equal(embed_table_create(counted, (int64_t)1 << 40, (int64_t)1 << 20, NULL, &t), too_large);
  assert_null(t);
  embed_context_release(counted);
  counting_check(&c);
}

static atomic_int done_calls;
static void count_done(void *arg) {
  assert_ptr_equal(arg, &done_calls);
  atomic_fetch_add(&done_calls, 1);
}

static void borrowed_memory_may_stand_anywhere_and_end_anywhere(void **state) {
  (void)state;
  enum { ROWS = 3, DIM = 5, STRIDE = 27 };
  embed_table_options o = {.size = sizeof o, .row_bytes = STRIDE, .data_bytes = (ROWS - 1) * STRIDE + DIM * 4};
  guarded memory = guarded_new((size_t)o.data_bytes, 1); /* starts at an odd address */
  embed_table *t;
  memset(memory.at, 0xA5, (size_t)o.data_bytes);
  atomic_store(&done_calls, 0);
  OK(embed_table_borrow(ctx, memory.at, ROWS, DIM, &o, count_done, &done_calls, &t));
  assert_ptr_equal(embed_table_data(t), memory.at);
  assert_ptr_equal(embed_table_mutable_data(t), memory.at);
  assert_int_equal(embed_table_row_bytes(t), STRIDE);
  const int64_t ids[] = {2, 0, 1};
  const float rows[3][DIM] = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}, {-1, -2, -3, -4, -5}};
  float back[3][DIM];
  OK(embed_table_set_rows(ctx, t, ids, 3, rows, EMBED_F32, 0, NULL));
  OK(embed_table_get_rows(ctx, t, ids, 3, back, EMBED_F32, 0));
  assert_same_bits(back, rows, sizeof rows);
  for (int r = 0; r < ROWS - 1; ++r) assert_true(test_all_bytes(memory.at + r * STRIDE + DIM * 4, STRIDE - DIM * 4, 0xA5));
  assert_int_equal(atomic_load(&done_calls), 0);
  embed_table_release(t);
  assert_int_equal(atomic_load(&done_calls), 1);
  guarded_free(memory);
}

static void a_failed_borrow_leaves_the_memory_to_its_owner(void **state) {
  (void)state;
  float data[12];
  embed_table *t = (embed_table *)(uintptr_t)8;
  atomic_store(&done_calls, 0);
  embed_table_options o = {.size = sizeof o, .data_bytes = 47}; /* 3 x 4 floats need 48 */
  assert_int_equal(embed_table_borrow(ctx, data, 3, 4, &o, count_done, &done_calls, &t), EMBED_E_ARGUMENT);
  assert_null(t);
  assert_int_equal(embed_error_at(ctx), 47);
  assert_says(ctx, "47");
  assert_says(ctx, "48");
  o.row_bytes = 20; /* two strides and a row: 56 */
  o.data_bytes = 55;
  assert_int_equal(embed_table_view(ctx, data, 3, 4, &o, count_done, &done_calls, &t), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_borrow(ctx, NULL, 3, 4, NULL, count_done, &done_calls, &t), EMBED_E_ARGUMENT);
  o = (embed_table_options){.size = sizeof o, .flags = EMBED_TABLE_HUGE_PAGES};
  assert_int_equal(embed_table_borrow(ctx, data, 3, 4, &o, count_done, &done_calls, &t), EMBED_E_OPTION);
  assert_int_equal(embed_table_borrow(ctx, data, 3, 4, NULL, count_done, &done_calls, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_borrow(ctx, data, INT64_MAX, 4, NULL, count_done, &done_calls, &t), EMBED_E_OVERFLOW);
  assert_null(t);
  assert_int_equal(atomic_load(&done_calls), 0);
}

static void read_only_tables_are_never_written(void **state) {
  (void)state;
  const float data[4] = {1, 2, 3, 4};
  float changed[2] = {9, 9};
  const int64_t id = 0;
  embed_table_options read_only = {.size = sizeof read_only, .flags = EMBED_TABLE_READ_ONLY};
  for (int how = 0; how < 3; ++how) {
    float copy[4];
    embed_table *t;
    memcpy(copy, data, sizeof copy);
    if (how == 0) OK(embed_table_view(ctx, data, 2, 2, NULL, NULL, NULL, &t));
    if (how == 1) OK(embed_table_borrow(ctx, copy, 2, 2, &read_only, NULL, NULL, &t));
    if (how == 2) OK(embed_table_create(ctx, 2, 2, &read_only, &t));
    assert_null(embed_table_mutable_data(t));
    assert_non_null(embed_table_data(t));
    assert_int_equal(embed_table_set_rows(ctx, t, &id, 1, changed, EMBED_F32, 0, NULL), EMBED_E_READ_ONLY);
    assert_int_equal(embed_table_init(ctx, t, NULL), EMBED_E_READ_ONLY);
    assert_same_bits(copy, data, sizeof data);
    embed_table_release(t);
  }
}

static void empty_tables_are_tables(void **state) {
  (void)state;
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    static const int64_t dims[] = {1, 768, (int64_t)1 << 40, (int64_t)1 << 57};
    for (int i = 0; i < COUNT(dims); ++i) { /* no rows: no memory of their size is asked for */
      embed_table_options o = {.size = sizeof o, .dtype = stored_dtypes[d]}, to = {.size = sizeof to, .dtype = EMBED_BF16};
      embed_table *t, *copy;
      OK(embed_table_create(ctx, 0, whole_dim(stored_dtypes[d], dims[i]), &o, &t));
      assert_int_equal(embed_table_rows(t), 0);
      assert_int_equal(embed_table_vocab(t), 0);
      OK(embed_table_init(ctx, t, NULL));
      OK(embed_table_convert(ctx, t, &to, &copy));
      OK(embed_table_get_rows(ctx, t, NULL, 0, NULL, EMBED_F32, 0));
      OK(embed_table_set_rows(ctx, t, NULL, 0, NULL, EMBED_F32, 0, NULL));
      embed_table_release(copy);
      embed_table_release(t);
    }
  }
  embed_table *t;
  OK(embed_table_view(ctx, NULL, 0, 4, NULL, NULL, NULL, &t));
  embed_table_release(t);
}

static void huge_pages_start_at_a_huge_page(void **state) {
  (void)state;
  embed_table_options o = {.size = sizeof o, .flags = EMBED_TABLE_HUGE_PAGES};
  embed_table *t;
  OK(embed_table_create(ctx, 3000, 300, &o, &t));
  assert_int_equal((uintptr_t)embed_table_data(t) % (2 << 20), 0);
  assert_true(test_all_bytes(embed_table_data(t), 3000 * 1200, 0));
  embed_table_release(t);
  OK(embed_table_create(ctx, 1, 1, &o, &t)); /* less than one page */
  embed_table_release(t);
}

/* Converted = each row read as floats and stored as the new form. */
static void converting_is_decoding_and_encoding_each_row(void **state) {
  (void)state;
  enum { ROWS = 11 };
  for (int pair = 0; pair < COUNT(stored_dtypes) * COUNT(stored_dtypes); ++pair) {
    int from = pair / COUNT(stored_dtypes), to = pair % COUNT(stored_dtypes);
    const int64_t DIM = whole_dim(stored_dtypes[from], whole_dim(stored_dtypes[to], 69));
    test_table source = table_new(ctx, stored_dtypes[from], ROWS, DIM, 5, 3);
    {
      int64_t bytes = embed_row_bytes(stored_dtypes[to], DIM, 0);
      embed_table_options o = {.size = sizeof o, .dtype = stored_dtypes[to], .row_bytes = bytes + 3, .vocab = 9};
      embed_table_options dense = {.size = sizeof dense, .dtype = stored_dtypes[to]};
      embed_table *t, *by_hand;
      int64_t ids[ROWS];
      for (int i = 0; i < ROWS; ++i) ids[i] = i;
      OK(embed_table_convert(ctx, source.t, &o, &t));
      OK(embed_table_create(ctx, ROWS, DIM, &dense, &by_hand));
      OK(embed_table_set_rows(ctx, by_hand, ids, ROWS, source.decoded, EMBED_F32, 0, NULL));
      assert_int_equal(embed_table_vocab(t), 9);
      for (int64_t r = 0; r < ROWS; ++r) {
        const unsigned char *got = (const unsigned char *)embed_table_data(t) + r * (bytes + 3);
        if (stored_dtypes[from] == stored_dtypes[to])
          assert_memory_equal(got, source.memory.at + r * (bytes + 5), (size_t)bytes); /* the same bytes, not a second rounding */
        else
          assert_memory_equal(got, (const unsigned char *)embed_table_data(by_hand) + r * bytes, (size_t)bytes);
        assert_true(test_all_bytes(got + bytes, 3, 0));
      }
      embed_table_release(t);
      embed_table_release(by_hand);
    }
    table_free(source);
  }
}

/* QU-01, QU-08: no other dtype in the place of one whose blocks do not fit; the group option is of no concern to blocks. */
static void blocks_are_whole(void **state) {
  (void)state;
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    if (stored_dtypes[d] < 64) continue;
    const int64_t block = whole_dim(stored_dtypes[d], 1), dim = 256 * 3, ids[] = {0, 1};
    embed_table_options o = {.size = sizeof o, .dtype = stored_dtypes[d], .group = 64};
    static float rows[2][256 * 3], back[2][256 * 3];
    uint64_t seed = 5;
    for (int64_t j = 0; j < dim; ++j) rows[0][j] = rows[1][j] = test_uniform(&seed);
    embed_table *f = view_floats(ctx, rows[0], 2, dim), *odd = view_floats(ctx, rows[0], 1, dim - 1), *t, *none = (embed_table *)(uintptr_t)8;
    OK(embed_table_convert(ctx, f, &o, &t));
    assert_int_equal(embed_table_row_bytes(t), dim / block * embed_row_bytes(stored_dtypes[d], block, 0));
    OK(embed_table_get_rows(ctx, t, ids, 2, back, EMBED_F32, 0));
    assert_same_bits(back[0], back[1], sizeof back[0]);
    assert_int_equal(embed_table_convert(ctx, odd, &o, &none), EMBED_E_UNSUPPORTED);
    assert_null(none);
    assert_says(ctx, embed_dtype_name(stored_dtypes[d]));
    assert_says(ctx, "not 767");
    embed_table_release(t);
    embed_table_release(odd);
    embed_table_release(f);
  }
}

static void converting_keeps_what_is_not_said(void **state) {
  (void)state;
  embed_table_options four = {.size = sizeof four, .dtype = EMBED_I4_GROUP, .group = 64, .vocab = 3}, keep = {.size = sizeof keep, .dtype = EMBED_DTYPE_NONE};
  embed_table *t, *same, *floats;
  OK(embed_table_create(ctx, 4, 100, &four, &t));
  OK(embed_table_convert(ctx, t, &keep, &same));
  assert_int_equal(embed_table_dtype(same), EMBED_I4_GROUP);
  assert_int_equal(embed_table_row_bytes(same), embed_table_row_bytes(t));
  assert_int_equal(embed_table_vocab(same), 3);
  OK(embed_table_convert(ctx, t, NULL, &floats));
  assert_int_equal(embed_table_dtype(floats), EMBED_F32);
  keep.vocab = 5;
  embed_table *none = (embed_table *)(uintptr_t)8;
  assert_int_equal(embed_table_convert(ctx, t, &keep, &none), EMBED_E_OPTION);
  assert_null(none);
  embed_table_release(t);
  embed_table_release(same);
  embed_table_release(floats);
}

/* QU-05: the least row, whoever found it. */
static void a_row_that_cannot_be_stored_is_named(void **state) {
  (void)state;
  enum { ROWS = 5000, DIM = 64 };
  static const embed_dtype scaled[] = {EMBED_I8_ROW, EMBED_U8_ROW, EMBED_I4_GROUP, EMBED_Q8_0,  EMBED_Q4_1,
                                       EMBED_U4_ROW, EMBED_U2_ROW, EMBED_IQ4_NL,   EMBED_MXFP4, EMBED_NVFP4};
  float *w = malloc((size_t)ROWS * DIM * sizeof *w);
  for (int i = 0; i < ROWS * DIM; ++i) w[i] = 1;
  w[4321 * DIM + 5] = NAN;
  w[1234 * DIM + 63] = INFINITY;
  w[4999 * DIM] = -INFINITY;
  counting c;
  counting_start(&c);
  for (int threads = 1; threads <= 7; threads += 3) {
    embed_pool *pool;
    OK(embed_pool_create(threads, &pool));
    embed_context *counted = counting_context(&c, pool);
    embed_table *t;
    OK(embed_table_view(counted, w, ROWS, DIM, NULL, NULL, NULL, &t));
    for (int d = 0; d < COUNT(scaled); ++d) {
      embed_table_options o = {.size = sizeof o, .dtype = scaled[d]};
      embed_table *out = (embed_table *)(uintptr_t)8;
      assert_int_equal(embed_table_convert(counted, t, &o, &out), EMBED_E_NONFINITE);
      assert_null(out);
      assert_int_equal(embed_error_at(counted), 1234);
      assert_says(counted, "row 1234");
    }
    embed_table_release(t);
    embed_context_release(counted);
    embed_pool_release(pool);
  }
  counting_check(&c);
  free(w);
}

static int32_t stop_at_half(void *arg, int64_t done, int64_t total) {
  ++*(int *)arg;
  return 2 * done >= total;
}

static void a_conversion_can_be_watched_and_stopped(void **state) {
  (void)state;
  enum { ROWS = 20000, DIM = 256 };
  counting c;
  int calls = 0;
  int32_t cancel = 0;
  counting_start(&c);
  embed_context_options o = {.size = sizeof o, .progress = stop_at_half, .progress_arg = &calls, .cancel = &cancel, .allocator = &c.allocator};
  embed_context *watched;
  embed_table *t, *out = (embed_table *)(uintptr_t)8;
  OK(embed_context_create(&o, &watched));
  OK(embed_table_create(ctx, ROWS, DIM, NULL, &t));
  assert_int_equal(embed_table_convert(watched, t, NULL, &out), EMBED_E_CANCELLED);
  assert_null(out);
  assert_true(calls > 1);
  cancel = 1;
  calls = 0;
  assert_int_equal(embed_table_convert(watched, t, NULL, &out), EMBED_E_CANCELLED);
  assert_null(out);
  assert_int_equal(calls, 0);
  embed_table_release(t);
  embed_context_release(watched);
  counting_check(&c);
}

typedef struct holder {
  embed_table *t;
  int failed;
} holder;

static void *retain_and_release(void *arg) {
  holder *h = arg;
  for (int i = 0; i < 20000; ++i) {
    embed_table *again = embed_table_retain(h->t);
    h->failed |= embed_table_rows(again) != 3;
    embed_table_release(again);
  }
  embed_table_release(h->t);
  return NULL;
}

static void done_runs_once_at_the_last_release_on_any_thread(void **state) {
  (void)state;
  float data[6] = {0};
  embed_table *t;
  embed_context *short_lived = context_new();
  atomic_store(&done_calls, 0);
  OK(embed_table_borrow(short_lived, data, 3, 2, NULL, count_done, &done_calls, &t));
  embed_context_release(short_lived);
  pthread_t thread[4];
  holder holders[4];
  for (int i = 0; i < 4; ++i) {
    holders[i] = (holder){embed_table_retain(t), 0};
    assert_int_equal(pthread_create(&thread[i], NULL, retain_and_release, &holders[i]), 0);
  }
  for (int i = 0; i < 4; ++i) {
    pthread_join(thread[i], NULL);
    assert_false(holders[i].failed);
  }
  assert_int_equal(atomic_load(&done_calls), 0);
  embed_table_release(t);
  assert_int_equal(atomic_load(&done_calls), 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_made_table_is_zeroed_and_describes_itself),
    cmocka_unit_test(int4_groups_decide_the_bytes_of_a_row),
    cmocka_unit_test(shapes_and_options_that_make_no_table_allocate_nothing),
    cmocka_unit_test(borrowed_memory_may_stand_anywhere_and_end_anywhere),
    cmocka_unit_test(a_failed_borrow_leaves_the_memory_to_its_owner),
    cmocka_unit_test(read_only_tables_are_never_written),
    cmocka_unit_test(empty_tables_are_tables),
    cmocka_unit_test(huge_pages_start_at_a_huge_page),
    cmocka_unit_test(converting_is_decoding_and_encoding_each_row),
    cmocka_unit_test(blocks_are_whole),
    cmocka_unit_test(converting_keeps_what_is_not_said),
    cmocka_unit_test(a_row_that_cannot_be_stored_is_named),
    cmocka_unit_test(a_conversion_can_be_watched_and_stopped),
    cmocka_unit_test(done_runs_once_at_the_last_release_on_any_thread),
};

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
