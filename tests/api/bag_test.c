/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_bag: known answers, public bug reports (BG, LK-11), and a plain loop's bits from every dtype, level and pool. */
#include "gather.h"

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

static embed_bag_options mode_of(embed_bag_mode mode) { return (embed_bag_options){.size = sizeof(embed_bag_options), .mode = mode}; }

static const float w43[4][3] = {{1, 2, 3}, {4, -5, 6}, {.5f, .25f, -.125f}, {10, 20, -30}};
static const int32_t ids4[] = {1, 2, 1, 3};
static const int64_t offsets3[] = {0, 3, 3, 4};

static void check_w43(const embed_bag_options *o, const float *weights, const float *want /* bag 0 */, const float *last) {
  float out[3][3];
  memset(out, 0xFF, sizeof out);
  embed_table *t = view_floats(ctx, w43[0], 4, 3);
  OK(embed_bag(ctx, t, ids4, 4, offsets3, 3, weights, out, EMBED_F32, 0, o));
  for (int j = 0; j < 3; ++j) {
    assert_near(out[0][j], want[j], 5e-7f);
    assert_exactly(out[1][j], 0);
    assert_exactly(out[2][j], last[j]);
  }
  embed_table_release(t);
}

static void every_mode_has_its_known_answer(void **state) { /* KAT A3 */
  (void)state;
  const float weights[] = {.5f, 2, -1, .25f}, half[] = {1, 1, 1, .5f}, unit[] = {3, 0, 4, 1};
  embed_bag_options o = mode_of(EMBED_BAG_SUM);
  check_w43(&o, NULL, (float[]){8.5f, -9.75f, 11.875f}, w43[3]);
  check_w43(NULL, NULL, (float[]){8.5f, -9.75f, 11.875f}, w43[3]);
  check_w43(&o, weights, (float[]){-1, 3, -3.25f}, (float[]){2.5f, 5, -7.5f});
  o = mode_of(EMBED_BAG_MEAN);
  check_w43(&o, NULL, (float[]){2.8333333f, -3.25f, 3.9583333f}, w43[3]);
  check_w43(&o, weights, (float[]){-1.f / 3, 1, -3.25f / 3}, (float[]){2.5f, 5, -7.5f});
  o = mode_of(EMBED_BAG_WEIGHTED_MEAN);
  check_w43(&o, NULL, (float[]){2.8333333f, -3.25f, 3.9583333f}, w43[3]);
  check_w43(&o, weights, (float[]){-1 / 1.5f, 2, -3.25f / 1.5f}, w43[3]);
  check_w43(&o, half, (float[]){2.8333333f, -3.25f, 3.9583333f}, w43[3]);
  o = mode_of(EMBED_BAG_SQRT_N);
  check_w43(&o, NULL, (float[]){4.9074774f, -5.6291651f, 6.8560346f}, w43[3]);
  check_w43(&o, unit, (float[]){28 / 5.f, -7, 42 / 5.f}, w43[3]); /* sqrt(9 + 16) */
  o = mode_of(EMBED_BAG_MAX);
  check_w43(&o, NULL, (float[]){4, .25f, 6}, w43[3]);
  o = mode_of(EMBED_BAG_MIN);
  check_w43(&o, NULL, (float[]){.5f, -5, -.125f}, w43[3]);
}

static void padding_ids_are_left_out_and_not_counted(void **state) { /* KAT A3, LK-15 */
  (void)state;
  const float weights[] = {100, 2, NAN, 2};
  for (embed_bag_mode mode = EMBED_BAG_SUM; mode <= EMBED_BAG_MIN; ++mode) {
    embed_bag_options o = mode_of(mode);
    o.flags = EMBED_LOOKUP_PADDING;
    o.padding_id = 1;
    check_w43(&o, NULL, w43[2], w43[3]);
    if (mode == EMBED_BAG_WEIGHTED_MEAN || mode == EMBED_BAG_SQRT_N) check_w43(&o, weights, w43[2], w43[3]);
  }
  embed_bag_options o = mode_of(EMBED_BAG_MEAN);
  const int32_t ids[] = {-9, 0, -9};
  const int64_t offsets[] = {0, 2, 3};
  float out[2][3];
  embed_table *t = view_floats(ctx, w43[0], 4, 3);
  o.flags = EMBED_LOOKUP_PADDING;
  o.padding_id = -9;
  OK(embed_bag(ctx, t, ids, 3, offsets, 2, NULL, out, EMBED_F32, 0, &o));
  assert_same_bits(out[0], w43[0], sizeof out[0]);
  assert_true(test_all_bytes(out[1], sizeof out[1], 0)); /* nothing but padding is an empty bag */
  assert_int_equal(embed_replaced_ids(ctx), 0);
  embed_table_release(t);
}

static void a_zero_row_counts(void **state) {
  (void)state;
  const int64_t ids[] = {3, INT64_C(1) << 33, -1, 3}, offsets[] = {0, 2, 4};
  float out[2][3];
  embed_table *t = view_floats(ctx, w43[0], 4, 3);
  embed_bag_options o = mode_of(EMBED_BAG_MEAN);
  o.oov = EMBED_OOV_ZERO;
  OK(embed_bag_i64(ctx, t, ids, 4, offsets, 2, NULL, out, EMBED_F32, 0, &o));
  for (int b = 0; b < 2; ++b)
    for (int j = 0; j < 3; ++j) assert_exactly(out[b][j], w43[3][j] / 2);
  assert_int_equal(embed_replaced_ids(ctx), 2);
  o.mode = EMBED_BAG_MAX;
  OK(embed_bag_i64(ctx, t, ids, 4, offsets, 2, NULL, out, EMBED_F32, 0, &o));
  assert_exactly(out[0][0], 10);
  assert_exactly(out[1][2], 0); /* above -30 */
  o.oov = EMBED_OOV_CLAMP;
  o.mode = EMBED_BAG_SUM;
  OK(embed_bag_i64(ctx, t, ids, 4, offsets, 2, NULL, out, EMBED_F32, 0, &o));
  assert_exactly(out[0][0], 20);
  assert_exactly(out[1][0], 11);
  o.oov = EMBED_OOV_ERROR;
  memset(out, 0xA5, sizeof out);
  assert_int_equal(embed_bag_i64(ctx, t, ids, 4, offsets, 2, NULL, out, EMBED_F32, 0, &o), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 1);
  assert_says(ctx, "id 8589934592 at position 1 is outside the vocabulary of 4 rows");
  assert_int_equal(embed_replaced_ids(ctx), 0);
  assert_true(test_all_bytes(out, sizeof out, 0xA5));
  embed_table_release(t);
}

static void a_denominator_of_zero_gives_zeros(void **state) {
  (void)state;
  const float opposite[] = {1, -3, 2, 1}, none[] = {0, 0, 0, 1};
  embed_bag_options o = mode_of(EMBED_BAG_WEIGHTED_MEAN);
  check_w43(&o, opposite, (float[]){0, 0, 0}, w43[3]);
  o = mode_of(EMBED_BAG_SQRT_N);
  check_w43(&o, none, (float[]){0, 0, 0}, w43[3]);
}

static void a_mean_respects_row_strides(void **state) { /* LK-11 */
  (void)state;
  const float storage[12] = {0, 1, 2, NAN, 4, 5, 6, NAN, 8, 9, 10, NAN}, want[8] = {2, 3, 4, -7, 8, 9, 10, -7};
  const int32_t ids[] = {0, 1, 2};
  const int64_t offsets[] = {0, 2, 3};
  float out[8] = {9, 9, 9, -7, 9, 9, 9, -7};
  embed_table *t = NULL;
  embed_table_options to = {.size = sizeof to, .row_bytes = 16};
  OK(embed_table_view(ctx, storage, 3, 3, &to, NULL, NULL, &t));
  const embed_bag_options o = mode_of(EMBED_BAG_MEAN);
  OK(embed_bag(ctx, t, ids, 3, offsets, 2, NULL, out, EMBED_F32, 4, &o));
  assert_same_bits(out, want, sizeof out);
  embed_table_release(t);
}

static void refuse_offsets(const int64_t *offsets, int64_t bags, int64_t n, int64_t at, const char *words) {
  float out[64];
  int32_t ids[64] = {0};
  memset(out, 0xA5, sizeof out);
  embed_table *t = view_floats(ctx, w43[0], 4, 3);
  assert_int_equal(embed_bag(ctx, t, ids, n, offsets, bags, NULL, out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_error_at(ctx), at);
  assert_says(ctx, words);
  assert_true(test_all_bytes(out, sizeof out, 0xA5));
  embed_table_release(t);
}

static void wrong_offsets_are_named_before_anything_is_written(void **state) {
  (void)state;
  refuse_offsets((const int64_t[]){0, 2, 0}, 2, 0, 1, "offset 2 at position 1 is past the number of ids, 0"); /* BG-01 */
  refuse_offsets((const int64_t[]){0, 6, 12, 15, 25, 32, 40, 42, 46, 53, 53}, 10, 55, 10, "53");              /* BG-03 */
  refuse_offsets((const int64_t[]){0, 6, 12, 15, 25, 32, 40, 42, 46, 53, 53}, 10, 55, 10, "55");
  refuse_offsets((const int64_t[]){0, 2, 5}, 2, 4, 2, "offset 5 at position 2 is past the number of ids, 4"); /* BG-14 */
  refuse_offsets((const int64_t[]){1, 2, 4}, 2, 4, 0, "offset 1 at position 0 is not 0");
  refuse_offsets((const int64_t[]){-1, 2, 4}, 2, 4, 0, "-1");
  refuse_offsets((const int64_t[]){0, 3, 2, 4}, 3, 4, 2, "offset 2 at position 2 is below the one before it, 3");
  refuse_offsets((const int64_t[]){0, INT64_MIN, 4}, 2, 4, 1, "-9223372036854775808");
  refuse_offsets((const int64_t[]){0}, 0, 6, -1, "6 ids are given for 0 bags"); /* BG-05 */
  refuse_offsets(NULL, 0, 6, -1, "6 ids");
  refuse_offsets(NULL, 1, 6, -1, "offsets is NULL");
}

static void no_bags_of_no_ids_read_no_pointer(void **state) { /* BG-05, LK-12, FF-01 */
  (void)state;
  void *const nowhere[] = {NULL, (void *)1, (void *)8};
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    test_table made = table_new(ctx, stored_dtypes[d], 3, whole_dim(stored_dtypes[d], 2), 0, 1);
    int64_t dim = embed_table_dim(made.t);
    for (embed_bag_mode mode = EMBED_BAG_SUM; mode <= EMBED_BAG_MIN; ++mode)
      for (int i = 0; i < COUNT(nowhere); ++i) {
        void *p = nowhere[i];
        const embed_bag_options o = mode_of(mode);
        const int64_t offsets[] = {0, 0, 0};
        float out[2 * 256];
        for (int j = 0; j < 2 * 256; ++j) out[j] = 5;
        OK(embed_bag(ctx, made.t, p, 0, p, 0, p, p, EMBED_F32, 0, &o));
        OK(embed_bag_i64(ctx, made.t, p, 0, p, 0, p, p, EMBED_F16, 0, &o));
        OK(embed_bag(ctx, made.t, p, 0, offsets, 2, p, out, EMBED_F32, 0, &o)); /* weights of no ids, with MAX too */
        assert_true(test_all_bytes(out, (size_t)(2 * dim) * sizeof *out, 0));
        for (int64_t j = 2 * dim; j < 2 * 256; ++j) assert_exactly(out[j], 5);
      }
    table_free(made);
  }
}

static void empty_bags_are_zeros_wherever_they_stand(void **state) { /* BG-07 */
  (void)state;
  const float w[5][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}};
  const float want[6][2] = {{0, 1}, {0, 0}, {3, 4}, {0, 0}, {6, 7}, {8, 9}};
  const int32_t ids[] = {0, 1, 2, 3, 4};
  const int64_t offsets[] = {0, 1, 1, 3, 3, 4, 5}, around[] = {0, 0, 5, 5};
  float out[6][2];
  embed_table *t = view_floats(ctx, w[0], 5, 2);
  embed_bag_options o = mode_of(EMBED_BAG_MEAN);
  OK(embed_bag(ctx, t, ids, 5, offsets, 6, NULL, out, EMBED_F32, 0, &o));
  assert_same_bits(out, want, sizeof out);
  for (o.mode = EMBED_BAG_SUM; o.mode <= EMBED_BAG_MIN; ++o.mode) {
    memset(out, 0xFF, sizeof out);
    OK(embed_bag(ctx, t, ids, 5, around, 3, NULL, out, EMBED_F32, 0, &o));
    assert_true(test_all_bytes(out[0], 8, 0) && test_all_bytes(out[2], 8, 0));
    assert_true(isfinite(out[1][0]) && out[1][1] != 0);
    o.flags = EMBED_LOOKUP_ADD;
    OK(embed_bag(ctx, t, ids, 0, (const int64_t[]){0, 0}, 1, NULL, out[1], EMBED_F32, 0, &o)); /* adds zeros */
    assert_true(out[1][1] != 0);
    o.flags = 0;
  }
  embed_table_release(t);
}

static void nan_wins_in_either_order(void **state) { /* BG-09 */
  (void)state;
  const float w[3][2] = {{1, NAN}, {NAN, 2}, {0, 0}};
  const int32_t ids[] = {0, 1, 1, 0, 0, 2, 1};
  const int64_t offsets[] = {0, 2, 4, 7};
  float out[3][2];
  embed_context *all[CONTEXTS];
  int count = contexts_new(all);
  embed_table *t = view_floats(ctx, w[0], 3, 2);
  for (int c = 0; c < count; ++c)
    for (embed_bag_mode mode = EMBED_BAG_MAX; mode <= EMBED_BAG_MIN; ++mode) {
      const embed_bag_options o = mode_of(mode);
      memset(out, 0, sizeof out);
      OK(embed_bag(all[c], t, ids, 7, offsets, 3, NULL, out, EMBED_F32, 0, &o));
      for (int i = 0; i < 6; ++i) assert_true(isnan(out[i / 2][i % 2]));
    }
  embed_table_release(t);
  contexts_free(all, count);
}

static void both_id_widths_give_the_same(void **state) { /* BG-12: offsets are int64_t, another width does not compile */
  (void)state;
  const int64_t wide[] = {1, 2, 1, 3};
  float a[3][3], b[3][3];
  embed_table *t = view_floats(ctx, w43[0], 4, 3);
  OK(embed_bag(ctx, t, ids4, 4, offsets3, 3, NULL, a, EMBED_F32, 0, NULL));
  OK(embed_bag_i64(ctx, t, wide, 4, offsets3, 3, NULL, b, EMBED_F32, 0, NULL));
  assert_same_bits(a, b, sizeof a);
  embed_table_release(t);
}

static void wrong_arguments_are_named(void **state) {
  (void)state;
  const float weights[] = {1, 1, 1, 1};
  float out[9];
  memset(out, 0xA5, sizeof out);
  embed_table *t = view_floats(ctx, w43[0], 4, 3);
  embed_bag_options o = mode_of(EMBED_BAG_MAX);
  assert_int_equal(embed_bag(ctx, t, ids4, 4, offsets3, 3, weights, out, EMBED_F32, 0, &o), EMBED_E_ARGUMENT);
  assert_says(ctx, "weights");
  const embed_bag_options wrong[] = {
      {.size = sizeof o, .mode = EMBED_BAG_NONE},
      {.size = sizeof o, .mode = EMBED_BAG_MIN + 1},
      {.size = sizeof o, .oov = EMBED_OOV_NONE},
      {.size = sizeof o, .oov = EMBED_OOV_UNK, .unk_id = 4},
      {.size = sizeof o, .flags = 8},
      {.size = 7},
  };
  for (int i = 0; i < COUNT(wrong); ++i) assert_int_equal(embed_bag(ctx, t, ids4, 4, offsets3, 3, NULL, out, EMBED_F32, 0, &wrong[i]), EMBED_E_OPTION);
  assert_int_equal(embed_bag(NULL, t, ids4, 4, offsets3, 3, NULL, out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_bag(ctx, NULL, ids4, 4, offsets3, 3, NULL, out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_bag(ctx, t, NULL, 4, offsets3, 3, NULL, out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_bag(ctx, t, ids4, 4, offsets3, 3, NULL, NULL, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_bag(ctx, t, ids4, -1, offsets3, 3, NULL, out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_bag(ctx, t, ids4, 4, offsets3, -1, NULL, out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_bag(ctx, t, ids4, 4, offsets3, 3, NULL, out, EMBED_I8_ROW, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_bag(ctx, t, ids4, 4, offsets3, 3, NULL, out, EMBED_F32, 2, NULL), EMBED_E_ARGUMENT);
  assert_true(test_all_bytes(out, sizeof out, 0xA5));
  embed_table_release(t);
}

/* Position order, float sums, product and sum rounded apart, denominators in double. */
static void reference_bag(const float *decoded, int64_t dim, const int32_t *ids, const float *weights, int64_t n, embed_bag_mode mode, float *out) {
  double sum = 0, squares = 0;
  for (int64_t j = 0; j < dim; ++j) out[j] = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float *row = decoded + ids[i] * dim;
    float weight = weights ? weights[i] : 1;
    sum += (double)weight;
    squares += (double)weight * (double)weight;
    for (int64_t j = 0; j < dim; ++j) {
      volatile float product = weight * row[j];
      if (mode == EMBED_BAG_MAX)
        out[j] = i == 0 || row[j] > out[j] ? row[j] : out[j];
      else if (mode == EMBED_BAG_MIN)
        out[j] = i == 0 || row[j] < out[j] ? row[j] : out[j];
      else
        out[j] += product;
    }
  }
  float by = mode == EMBED_BAG_MEAN ? (float)n : mode == EMBED_BAG_WEIGHTED_MEAN ? (float)sum : mode == EMBED_BAG_SQRT_N ? (float)sqrt(squares) : 1;
  for (int64_t j = 0; j < dim && n; ++j) out[j] /= by;
}

enum { BAGS = 160, IDS = 3000, ROWS = 37 };

/* Short bags, an empty one at each end, and one that is a third of the ids. */
static void draw_bags(int32_t ids[IDS], float weights[IDS], int64_t offsets[BAGS + 1]) {
  uint64_t seed = 77;
  for (int i = 0; i < IDS; ++i) {
    ids[i] = (int32_t)(test_random(&seed) % ROWS);
    weights[i] = test_uniform(&seed);
  }
  offsets[0] = offsets[1] = 0;
  for (int b = 2; b <= BAGS; ++b) offsets[b] = offsets[b - 1] + (b == 60 ? IDS / 3 : (int64_t)(test_random(&seed) % 25));
  for (int b = 0; b <= BAGS; ++b)
    if (offsets[b] > IDS) offsets[b] = IDS;
  offsets[BAGS - 1] = offsets[BAGS] = IDS;
}

static void every_dtype_gives_a_plain_loops_bits_at_every_level_and_thread_count(void **state) {
  (void)state;
  embed_context *all[CONTEXTS];
  int count = contexts_new(all);
  static int32_t ids[IDS];
  static float weights[IDS];
  int64_t offsets[BAGS + 1];
  draw_bags(ids, weights, offsets);
  const int64_t dims[] = {1, 19, 131};
  for (int d = 0; d < COUNT(stored_dtypes); ++d)
    for (int k = 0; k < COUNT(dims); ++k)
      for (int v = 0; v < 10; ++v) {
        const embed_bag_options o = {.size = sizeof o, .mode = v < 6 ? v : v - 6, .flags = v == 3 || v == 7 ? EMBED_LOOKUP_ADD : 0};
        embed_dtype out_dtype = float_dtypes[(d + v) % 3];
        int64_t dim = whole_dim(stored_dtypes[d], dims[k]), ld = dim + 2;
        if (k > 0 && dim == whole_dim(stored_dtypes[d], dims[k - 1])) continue;
        test_table made = table_new(ctx, stored_dtypes[d], ROWS, dim, 0, 1 + (uint64_t)v);
        size_t bytes = (size_t)(((BAGS - 1) * ld + dim) * size_of(out_dtype));
        guarded first = guarded_new(bytes, 1), out = guarded_new(bytes, 1);
        float want[256];
        memset(first.at, 0x3C, bytes);
        float before = o.flags ? value_at(first.at, out_dtype, 0) : 0;
        OK(embed_bag(all[0], made.t, ids, IDS, offsets, BAGS, v < 6 ? NULL : weights, first.at, out_dtype, ld, &o));
        for (int64_t b = 0; b < BAGS; ++b) {
          reference_bag(made.decoded, dim, ids + offsets[b], v < 6 ? NULL : weights + offsets[b], offsets[b + 1] - offsets[b], o.mode, want);
          for (int64_t j = 0; j < dim; ++j) assert_value(first.at, out_dtype, b * ld + j, rounded_to(out_dtype, o.flags ? before + want[j] : want[j]));
        }
        for (int c = 1; c < count; ++c) {
          memset(out.at, 0x3C, bytes);
          OK(embed_bag(all[c], made.t, ids, IDS, offsets, BAGS, v < 6 ? NULL : weights, out.at, out_dtype, ld, &o));
          assert_same_bits(out.at, first.at, bytes);
        }
        guarded_free(first);
        guarded_free(out);
        table_free(made);
      }
  contexts_free(all, count);
}

/* Past the size from which rows go around the caches, the table at an odd address. */
static void large_outputs_hold_every_bag(void **state) {
  (void)state;
  enum { N = 30001, DIM = 300, EVERY = 2, MANY = N / EVERY + 1 };
  embed_context *two = context_with(NULL, 2);
  int32_t *ids = malloc(N * sizeof *ids);
  int64_t *offsets = malloc((MANY + 1) * sizeof *offsets);
  float *out = malloc((size_t)MANY * DIM * sizeof *out), want[DIM];
  for (int64_t i = 0; i < N; ++i) ids[i] = (int32_t)(i * 31 % ROWS);
  for (int64_t b = 0; b < MANY; ++b) offsets[b] = b * EVERY;
  offsets[MANY] = N;
  test_table made = table_new(ctx, EMBED_F32, ROWS, DIM, 0, 9);
  unsigned char *odd = malloc(ROWS * DIM * sizeof(float) + 1);
  memcpy(odd + 1, made.memory.at, ROWS * DIM * sizeof(float));
  embed_table *t = NULL;
  OK(embed_table_view(ctx, odd + 1, ROWS, DIM, NULL, NULL, NULL, &t));
  const embed_bag_options o = mode_of(EMBED_BAG_MEAN);
  OK(embed_bag(two, t, ids, N, offsets, MANY, NULL, out, EMBED_F32, 0, &o));
  for (int64_t b = 0; b < MANY; ++b) {
    reference_bag(made.decoded, DIM, ids + offsets[b], NULL, offsets[b + 1] - offsets[b], EMBED_BAG_MEAN, want);
    assert_same_bits(out + b * DIM, want, sizeof want);
  }
  embed_table_release(t);
  table_free(made);
  free(odd);
  free(out);
  free(offsets);
  free(ids);
  embed_context_release(two);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_mode_has_its_known_answer),
      cmocka_unit_test(padding_ids_are_left_out_and_not_counted),
      cmocka_unit_test(a_zero_row_counts),
      cmocka_unit_test(a_denominator_of_zero_gives_zeros),
      cmocka_unit_test(a_mean_respects_row_strides),
      cmocka_unit_test(wrong_offsets_are_named_before_anything_is_written),
      cmocka_unit_test(no_bags_of_no_ids_read_no_pointer),
      cmocka_unit_test(empty_bags_are_zeros_wherever_they_stand),
      cmocka_unit_test(nan_wins_in_either_order),
      cmocka_unit_test(both_id_widths_give_the_same),
      cmocka_unit_test(wrong_arguments_are_named),
      cmocka_unit_test(every_dtype_gives_a_plain_loops_bits_at_every_level_and_thread_count),
      cmocka_unit_test(large_outputs_hold_every_bag),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
