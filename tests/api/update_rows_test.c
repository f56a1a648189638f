/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of a list changed in the table, each once: scaled down to a norm (torch's rule), and added to. */
#include "counting.h"

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

/* A table of its own memory, which can be written, with the rows of table_new. */
static test_table writable_new(embed_dtype dtype, int64_t rows, int64_t dim, uint64_t seed) {
  test_table made = table_new(ctx, dtype, rows, dim, 0, seed);
  embed_table_options o = {.size = sizeof o, .dtype = dtype};
  embed_table *own;
  OK(embed_table_create(ctx, rows, dim, &o, &own));
  for (int64_t r = 0; r < rows; ++r)
    memcpy((unsigned char *)embed_table_mutable_data(own) + r * embed_table_row_bytes(own),
           (const unsigned char *)embed_table_data(made.t) + r * embed_table_row_bytes(made.t), (size_t)embed_row_bytes(dtype, dim, 0));
  embed_table_changed(own);
  embed_table_release(made.t);
  made.t = own;
  return made;
}

static void known_answers(void **state) { /* KAT A2b */
  (void)state;
  float w[5][2] = {{3, 4}, {0.3f, 0.4f}, {0.6f, 0.8f}, {1, 1}, {3, 4}};
  static const uint32_t bits[5][2] = {
      {0x3F19999A, 0x3F4CCCCD}, {0x3E99999A, 0x3ECCCCCD}, {0x3F19999A, 0x3F4CCCCD}, {0x3F3504F3, 0x3F3504F3}, {0x40400000, 0x40800000}};
  const int64_t ids[] = {3, 1, 0, 2}, last = 4;
  embed_table *t;
  OK(embed_table_borrow(ctx, w, 5, 2, NULL, NULL, NULL, &t));
  OK(embed_table_renorm_rows(ctx, t, ids, 4, 1, 0, NULL));
  assert_memory_equal(w, bits, sizeof w);
  OK(embed_table_renorm_rows(ctx, t, &last, 1, 1, 1, NULL)); /* the sum of magnitudes */
  assert_true(w[4][0] == 0.428571403f && w[4][1] == 0.571428537f);
  embed_table_release(t);
}

static void a_row_that_is_listed_twice_is_scaled_once(void **state) { /* LK-13 */
  (void)state;
  float w[3][2] = {{3, 4}, {0, 2}, {30, 40}};
  const int64_t ids[] = {0, 0, 1};
  embed_table *t;
  OK(embed_table_borrow(ctx, w, 3, 2, NULL, NULL, NULL, &t));
  for (int round = 0; round < 2; ++round) { /* the second changes nothing */
    OK(embed_table_renorm_rows(ctx, t, ids, 3, 1, 2, NULL));
    const float once[3][2] = {{0.6f, 0.8f}, {0, 0x1.fffffep-1f}, {30, 40}}; /* 2 / (2 + 1e-7) */
    assert_memory_equal(w, once, sizeof w);
  }
  float far[2] = {0, 1e30f}, out[3][2]; /* so far that twice would show: 1e30 -> 1e29 -> 1e29 */
  const int32_t read[] = {0, 0, 1};
  embed_table *u;
  OK(embed_table_borrow(ctx, far, 1, 2, NULL, NULL, NULL, &u));
  const int64_t twice[] = {0, 0};
  OK(embed_table_renorm_rows(ctx, u, twice, 2, 1e-9, 2, NULL));
  assert_true(far[1] == 1e30f * (float)(1e-9 / ((double)1e30f + 1e-7)));
  OK(embed_lookup(ctx, t, read, 3, out, EMBED_F32, 0, NULL));
  const float views[3][2] = {{0.6f, 0.8f}, {0.6f, 0.8f}, {0, 0x1.fffffep-1f}};
  assert_memory_equal(out, views, sizeof out);
  embed_table_release(t);
  embed_table_release(u);
}

/* Plainly, in long double; the library's may differ from it by a rounding of the norm. */
static double norm_of(const float *row, int64_t dim, double p) {
  long double sum = 0, most = 0;
  for (int64_t j = 0; j < dim; ++j) {
    long double x = fabsl((long double)row[j]);
    most = x > most ? x : most;
    sum += isinf(p) ? 0 : powl(x, (long double)p);
  }
  return isinf(p) ? (double)most : (double)powl(sum, 1 / (long double)p);
}

static void rows_of_every_dtype_become_what_set_rows_stores(void **state) {
  (void)state;
  static const double types[] = {0, 1, 2, 3, 0.5, INFINITY};
  enum { ROWS = 7, N = 5 };
  const int64_t ids[N] = {6, 0, 3, 0, 5};
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    const int64_t dim = whole_dim(stored_dtypes[d], 37);
    for (int p = 0; p < COUNT(types); ++p) {
      test_table made = writable_new(stored_dtypes[d], ROWS, dim, 11), want = writable_new(stored_dtypes[d], ROWS, dim, 11);
      double norm3 = norm_of(made.decoded + 3 * dim, dim, types[p] == 0 ? 2 : types[p]), cap = norm3 * 0.75;
      int scaled = 0;
      for (int i = 0; i < N; ++i) {
        if (i == 3) continue; /* 0 again */
        float row[256];
        memcpy(row, made.decoded + ids[i] * dim, (size_t)dim * sizeof *row);
        float norm = (float)norm_of(row, dim, types[p] == 0 ? 2 : types[p]);
        if (!(norm > cap)) continue;
        for (int64_t j = 0; j < dim; ++j) row[j] *= (float)(cap / ((double)norm + 1e-7));
        OK(embed_table_set_rows(ctx, want.t, &ids[i], 1, row, EMBED_F32, 0, NULL));
        ++scaled;
      }
      assert_true(scaled > 0);
      OK(embed_table_renorm_rows(ctx, made.t, ids, N, cap, types[p], NULL));
      float *a = malloc((size_t)(ROWS * dim) * sizeof *a), *b = malloc((size_t)(ROWS * dim) * sizeof *b);
      const int64_t all[ROWS] = {0, 1, 2, 3, 4, 5, 6};
      OK(embed_table_get_rows(ctx, made.t, all, ROWS, a, EMBED_F32, 0));
      OK(embed_table_get_rows(ctx, want.t, all, ROWS, b, EMBED_F32, 0));
      for (int64_t i = 0; i < ROWS * dim; ++i)
        if (!(fabsf(a[i] - b[i]) <= 1e-6f * fabsf(b[i])))
          fail_msg("%s, p %g, value %d: %g, not %g", embed_dtype_name(stored_dtypes[d]), types[p], (int)i, a[i], b[i]);
      for (int64_t r = 1; r < 5; r += r == 2 ? 2 : 1) assert_same_bits(a + r * dim, made.decoded + r * dim, (size_t)dim * 4); /* 1, 2, 4: not listed */
      free(a);
      free(b);
      table_free(made);
      table_free(want);
    }
  }
}

static void threads_and_levels_do_not_change_a_bit(void **state) {
  (void)state;
  enum { ROWS = 700, DIM = 513 };
  embed_context *contexts[CONTEXTS];
  int count = contexts_new(contexts);
  int64_t ids[ROWS];
  embed_rows_options noisy = {.size = sizeof noisy, .flags = EMBED_ROWS_STOCHASTIC, .seed = 9};
  for (int i = 0; i < ROWS; ++i) ids[i] = (i * 37) % ROWS / 2;
  for (int d = 0; d < 2; ++d) {
    const embed_dtype dtype = d ? EMBED_BF16 : EMBED_F32;
    unsigned char *first = NULL;
    for (int c = 0; c < count; ++c) {
      test_table made = writable_new(dtype, ROWS, DIM, 3);
      size_t bytes = (size_t)(ROWS * embed_table_row_bytes(made.t));
      OK(embed_table_renorm_rows(contexts[c], made.t, ids, ROWS, 0.5, 2, d ? &noisy : NULL));
      OK(embed_table_add_rows(contexts[c], made.t, ids, ROWS / 2, 0.7, made.decoded, EMBED_F32, 0, d ? &noisy : NULL));
      if (!first) memcpy(first = malloc(bytes), embed_table_data(made.t), bytes);
      assert_same_bits(first, embed_table_data(made.t), bytes);
      table_free(made);
    }
    free(first);
  }
  contexts_free(contexts, count);
}

static void rows_without_a_norm_stay_and_extremes_are_scaled(void **state) {
  (void)state;
  float w[6][3] = {{NAN, 5, 5}, {INFINITY, 5, 5}, {-INFINITY, 0, NAN}, {3e38f, -3e38f, 0}, {0, -0.0f, 0}, {1e-42f, 0, 0}}, before[6][3];
  const int64_t ids[] = {0, 1, 2, 3, 4, 5};
  embed_table *t;
  static const double types[] = {2, 1, 3, INFINITY};
  for (int p = 0; p < COUNT(types); ++p) {
    float rows[6][3];
    memcpy(rows, w, sizeof rows);
    memcpy(before, w, sizeof before);
    OK(embed_table_borrow(ctx, rows, 6, 3, NULL, NULL, NULL, &t));
    OK(embed_table_renorm_rows(ctx, t, ids, 6, 1, types[p], NULL));
    assert_memory_equal(rows, before, sizeof before[0] * 3);
    assert_memory_equal(rows[4], before[4], sizeof before[4] * 2);
    if ((float)norm_of(w[3], 3, types[p]) < INFINITY)
      assert_true(fabs(norm_of(rows[3], 3, types[p]) - 1) < 1e-6);
    else
      assert_memory_equal(rows[3], before[3], sizeof before[3]);    /* its norm is past float */
    OK(embed_table_renorm_rows(ctx, t, ids, 6, 0, types[p], NULL)); /* at most nothing */
    assert_true(rows[5][0] == 0);
    embed_table_release(t);
  }
}

static void what_is_refused_changes_nothing(void **state) {
  (void)state;
  float w[2][2] = {{3, 4}, {6, 8}}, before[2][2];
  const int64_t ids[] = {0, 1, 2};
  memcpy(before, w, sizeof w);
  embed_table *t, *view;
  embed_head *h;
  float x[2] = {1, 1}, logits[2];
  embed_rows_options unknown = {.size = sizeof unknown, .flags = 8};
  OK(embed_table_borrow(ctx, w, 2, 2, NULL, NULL, NULL, &t));
  OK(embed_table_view(ctx, w, 2, 2, NULL, NULL, NULL, &view));
  embed_head_options prepared = {.size = sizeof prepared, .flags = EMBED_HEAD_PREPARE};
  OK(embed_head_create(ctx, t, NULL, &prepared, &h));
  assert_int_equal(embed_table_renorm_rows(ctx, t, ids, 3, 1, 2, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 2);
  assert_int_equal(embed_table_renorm_rows(ctx, t, NULL, 1, 1, 2, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_renorm_rows(ctx, t, ids, -1, 1, 2, NULL), EMBED_E_ARGUMENT);
  static const double bad[] = {-1, NAN, INFINITY, -INFINITY};
  for (int i = 0; i < COUNT(bad); ++i) assert_int_equal(embed_table_renorm_rows(ctx, t, ids, 2, bad[i], 2, NULL), EMBED_E_ARGUMENT);
  for (int i = 0; i < COUNT(bad); ++i)
    if (bad[i] != INFINITY) assert_int_equal(embed_table_renorm_rows(ctx, t, ids, 2, 1, bad[i], NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_renorm_rows(ctx, t, ids, 2, 1, 2, &unknown), EMBED_E_OPTION);
  assert_int_equal(embed_table_renorm_rows(ctx, view, ids, 2, 1, 2, NULL), EMBED_E_READ_ONLY);
  assert_int_equal(embed_table_add_rows(ctx, t, ids, 3, 1, w, EMBED_F32, 0, NULL), EMBED_E_ID);
  assert_int_equal(embed_table_add_rows(ctx, t, ids, 2, NAN, w, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_add_rows(ctx, t, ids, 2, 1e39, w, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_add_rows(ctx, t, ids, 2, 1, w, EMBED_F64, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_add_rows(ctx, t, ids, 2, 1, NULL, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_add_rows(ctx, t, ids, -2, 1, w, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_add_rows(ctx, t, ids, 2, 1, w, EMBED_F32, 1, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_table_add_rows(ctx, view, ids, 2, 1, w, EMBED_F32, 0, NULL), EMBED_E_READ_ONLY);
  assert_memory_equal(w, before, sizeof w);
  OK(embed_logits(ctx, h, x, EMBED_F32, 1, 0, logits, 0, NULL)); /* nor does a prepared head notice */
  OK(embed_table_renorm_rows(ctx, t, ids, 2, 1, 2, NULL));
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 0, logits, 0, NULL), EMBED_E_STALE);
  embed_head_release(h);
  embed_table_release(view);
  embed_table_release(t);
}

/* Q4_1 has 65504 q + 65504 where all q are 1, but as the least number of a block, an f16, it has no 131008, nor 0.9 of it. */
static void a_shortened_row_that_cannot_be_stored_leaves_the_table_as_it_was(void **state) {
  (void)state;
  enum { DIM = 32, BYTES = 20 };
  const int64_t ids[] = {0, 2, 1, 2};
  const double length = 131008 * sqrt((double)DIM);
  unsigned char rows[3][BYTES], before[3][BYTES];
  float w[DIM];
  embed_table *t;
  memset(rows, 0x11, sizeof rows);
  for (int r = 0; r < 3; ++r) memcpy(rows[r], r == 2 ? "\xff\x7b\xff\x7b" : "\xff\x7b\x00\x00", 4); /* row 2 is twice as long as the others */
  memcpy(before, rows, sizeof rows);
  embed_table_options o = {.size = sizeof o, .dtype = EMBED_Q4_1};
  OK(embed_table_borrow(ctx, rows, 3, DIM, &o, NULL, NULL, &t));
  static const double caps[] = {0.9, 0.51, 0.505};
  for (int c = 0; c < COUNT(caps); ++c) {
    assert_int_equal(embed_table_renorm_rows(ctx, t, ids, 4, caps[c] * length, 2, NULL), EMBED_E_NONFINITE);
    assert_int_equal(embed_error_at(ctx), 1);
    assert_memory_equal(rows, before, sizeof rows);
  }
  OK(embed_table_renorm_rows(ctx, t, ids, 4, 0.25 * length, 2, NULL));
  for (int64_t r = 0; r < 3; ++r) {
    OK(embed_table_get_rows(ctx, t, &r, 1, w, EMBED_F32, 0));
    assert_true(fabs(norm_of(w, DIM, 2) / (0.25 * length) - 1) < 1e-3);
  }
  embed_table_release(t);
}

static void known_sums(void **state) {
  (void)state;
  float w[3][2] = {{1, 2}, {3, 4}, {5, 6}};
  const float src[4][3] = {{1, 10, 99}, {2, 20, 99}, {4, 40, 99}, {8, 80, 99}};
  const int64_t ids[] = {2, 0, 2, 2};
  embed_table *t;
  OK(embed_table_borrow(ctx, w, 3, 2, NULL, NULL, NULL, &t));
  OK(embed_table_add_rows(ctx, t, ids, 4, -0.5, src, EMBED_F32, 3, NULL));
  const float want[3][2] = {{0, -8}, {3, 4}, {-1.5f, -59}};
  assert_memory_equal(w, want, sizeof w);
  OK(embed_table_add_rows(ctx, t, ids, 4, 0, src, EMBED_F32, 3, NULL));
  assert_memory_equal(w, want, sizeof w);
  embed_table_release(t);
}

/* In the list's order, in float, and stored once: what a loop with set_rows gives. */
static void sums_of_every_dtype_are_a_plain_loops(void **state) {
  (void)state;
  enum { ROWS = 7, N = 9 };
  const int64_t ids[N] = {6, 0, 3, 0, 5, 0, 6, 1, 3};
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    const int64_t dim = whole_dim(stored_dtypes[d], 37);
    for (int f = 0; f < COUNT(float_dtypes); ++f) {
      test_table made = writable_new(stored_dtypes[d], ROWS, dim, 11), want = writable_new(stored_dtypes[d], ROWS, dim, 11);
      test_table given = table_new(ctx, float_dtypes[f], N, dim, 8, 12);
      for (int64_t id = 0; id < ROWS; ++id) {
        float row[256];
        bool listed = false;
        memcpy(row, made.decoded + id * dim, (size_t)dim * sizeof *row);
        for (int i = 0; i < N; ++i) {
          if (ids[i] != id) continue;
          listed = true;
          for (int64_t j = 0; j < dim; ++j) {
            const float product = 0.3f * given.decoded[i * dim + j];
            row[j] += product;
          }
        }
        if (listed) OK(embed_table_set_rows(ctx, want.t, &id, 1, row, EMBED_F32, 0, NULL));
      }
      OK(embed_table_add_rows(ctx, made.t, ids, N, 0.3, embed_table_data(given.t), float_dtypes[f], embed_table_row_bytes(given.t) / size_of(float_dtypes[f]),
                              NULL));
      assert_same_bits(embed_table_data(made.t), embed_table_data(want.t), (size_t)(ROWS * embed_table_row_bytes(made.t)));
      table_free(made);
      table_free(want);
      table_free(given);
    }
  }
}

static void a_sum_that_cannot_be_stored_leaves_the_table_as_it_was(void **state) {
  (void)state;
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    const int64_t dim = whole_dim(stored_dtypes[d], 40), ids[] = {2, 1, 0, 1};
    float src[4][256];
    for (int i = 0; i < 4 * 256; ++i) src[i / 256][i % 256] = 1;
    src[3][dim - 1] = NAN; /* of row 1, whose first position is 1 */
    embed_table_options o = {.size = sizeof o, .dtype = stored_dtypes[d]};
    embed_table *t;
    OK(embed_table_create(ctx, 3, dim, &o, &t));
    embed_status status = embed_table_add_rows(ctx, t, ids, 4, 1, src, EMBED_F32, 256, NULL);
    if (status != EMBED_OK) {
      assert_int_equal(status, EMBED_E_NONFINITE);
      assert_int_equal(embed_error_at(ctx), 1);
      assert_true(test_all_bytes(embed_table_data(t), (size_t)(3 * embed_table_row_bytes(t)), 0));
    } else {
      float back[256];
      OK(embed_table_get_rows(ctx, t, &ids[1], 1, back, EMBED_F32, 0)); /* floats hold it */
      assert_true(isnan(back[dim - 1]) && back[0] == 2);
    }
    embed_table_release(t);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(known_answers),
    cmocka_unit_test(a_row_that_is_listed_twice_is_scaled_once),
    cmocka_unit_test(rows_of_every_dtype_become_what_set_rows_stores),
    cmocka_unit_test(threads_and_levels_do_not_change_a_bit),
    cmocka_unit_test(rows_without_a_norm_stay_and_extremes_are_scaled),
    cmocka_unit_test(what_is_refused_changes_nothing),
    cmocka_unit_test(a_shortened_row_that_cannot_be_stored_leaves_the_table_as_it_was),
    cmocka_unit_test(known_sums),
    cmocka_unit_test(sums_of_every_dtype_are_a_plain_loops),
    cmocka_unit_test(a_sum_that_cannot_be_stored_leaves_the_table_as_it_was),
};

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
