/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_table_init: known answers, the same bits from any split of the work, moments, ranges. */
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

static embed_table *made(embed_context *c, int64_t rows, int64_t dim, embed_dtype dtype, const embed_init_options *init) {
  embed_table_options o = {.size = sizeof o, .dtype = dtype};
  embed_table *t;
  OK(embed_table_create(c, rows, dim, &o, &t));
  OK(embed_table_init(c, t, init));
  return t;
}

static void normals_are_the_known_bits(void **state) {
  (void)state;
  static const uint32_t expected[8] = {0x3bbc1da4, 0xbacea189, 0xbcedeb0c, 0xbc0662c4, 0x3d382c6a, 0xbc12d009, 0x3a36ca7a, 0xbb166cd3};
  embed_init_options normal = {.size = sizeof normal, .kind = EMBED_INIT_NORMAL, .seed = 42};
  static const int64_t shapes[][2] = {{1, 8}, {2, 4}, {4, 2}, {8, 1}}; /* element i = row * dim + column */
  for (int i = 0; i < COUNT(shapes); ++i) {
    embed_table *t = made(ctx, shapes[i][0], shapes[i][1], EMBED_F32, &normal);
    assert_same_bits(embed_table_data(t), expected, sizeof expected);
    embed_table_release(t);
  }
  normal.scale = 0.02f; /* the default said aloud: the float 0.02 rounds otherwise than the double, within one step */
  embed_table *t = made(ctx, 1, 8, EMBED_F32, &normal);
  for (int i = 0; i < 8; ++i) {
    float got = ((const float *)embed_table_data(t))[i], want;
    memcpy(&want, &expected[i], 4);
    assert_true(fabsf(got - want) <= 1e-7f * fabsf(want));
  }
  embed_table_release(t);
}

static void truncated_normals_are_the_known_values(void **state) {
  (void)state;
  static const double expected[3] = {0.27364214013664623, -0.07523004448385151, -1.3246127885331986};
  embed_init_options o = {.size = sizeof o, .kind = EMBED_INIT_TRUNCATED_NORMAL, .scale = 1, .seed = 42}, bounds = o;
  embed_table *t = made(ctx, 1, 3, EMBED_F32, &o);
  for (int i = 0; i < 3; ++i) assert_exactly(((const float *)embed_table_data(t))[i], (float)expected[i]);
  bounds.low = -2;
  bounds.high = 2;
  embed_table *same = made(ctx, 1, 3, EMBED_F32, &bounds);
  assert_same_bits(embed_table_data(same), embed_table_data(t), 12);
  embed_table_release(t);
  embed_table_release(same);
}

/* Absolute bounds, also far in a tail; the variance of +-2 std is 0.7737 of the normal's. */
static void truncated_normals_stay_between_their_bounds(void **state) {
  (void)state;
  static const float bounds[][2] = {{-2, 2}, {0, 1}, {3, 3.5f}, {5, 100}, {-100, -5}, {-0.001f, 0.001f}};
  for (int i = 0; i < COUNT(bounds); ++i) {
    embed_init_options o = {.size = sizeof o, .kind = EMBED_INIT_TRUNCATED_NORMAL, .scale = 1, .low = bounds[i][0], .high = bounds[i][1], .seed = 3};
    embed_table *t = made(ctx, 500, 100, EMBED_F32, &o);
    const float *w = embed_table_data(t);
    double sum = 0, squares = 0;
    for (int k = 0; k < 50000; ++k) {
      assert_true(w[k] >= bounds[i][0] && w[k] <= bounds[i][1]);
      sum += (double)w[k];
      squares += (double)w[k] * (double)w[k];
    }
    if (i == 0) assert_true(fabs(sum / 50000) < 0.02 && fabs(squares / 50000 - 0.7737413035499232) < 0.015);
    if (i == 3) assert_true(sum / 50000 > 5.15 && sum / 50000 < 5.22); /* the mean beyond 5 std is 5.1865 */
    if (i == 4) assert_true(sum / 50000 < -5.15 && sum / 50000 > -5.22);
    embed_table_release(t);
  }
}

static void threads_parts_and_levels_give_the_same_bytes(void **state) {
  (void)state;
  enum { ROWS = 3001, DIM = 67 };
  static const embed_init_kind kinds[] = {EMBED_INIT_NORMAL, EMBED_INIT_UNIFORM, EMBED_INIT_XAVIER_NORMAL, EMBED_INIT_XAVIER_UNIFORM,
                                          EMBED_INIT_TRUNCATED_NORMAL};
  embed_context *contexts[CONTEXTS];
  int count = contexts_new(contexts);
  for (int k = 0; k < COUNT(kinds); ++k) {
    embed_init_options o = {.size = sizeof o, .kind = kinds[k], .seed = 0x123456789ABCDEF0}, part = o;
    embed_table *want = made(contexts[0], ROWS, DIM, EMBED_F32, &o), *parts;
    for (int c = 1; c < count; ++c) {
      embed_table *t = made(contexts[c], ROWS, DIM, EMBED_F32, &o);
      assert_same_bits(embed_table_data(t), embed_table_data(want), ROWS * DIM * 4);
      embed_table_release(t);
    }
    OK(embed_table_create(ctx, ROWS, DIM, NULL, &parts)); /* shards: each its own rows of the whole */
    for (int64_t first = 0; first < ROWS; first += 999) {
      part.first = first;
      part.count = first + 999 < ROWS ? 999 : 0; /* 0 = to the end */
      OK(embed_table_init(contexts[1], parts, &part));
    }
    assert_same_bits(embed_table_data(parts), embed_table_data(want), ROWS * DIM * 4);
    embed_table_release(parts);
    embed_table_release(want);
  }
  contexts_free(contexts, count);
}

static void only_the_named_rows_are_written(void **state) {
  (void)state;
  embed_init_options ones = {.size = sizeof ones, .kind = EMBED_INIT_CONSTANT, .scale = 1};
  embed_init_options part = {.size = sizeof part, .kind = EMBED_INIT_NORMAL, .first = 3, .count = 4, .flags = EMBED_INIT_PADDING, .padding_id = 5};
  embed_table *t = made(ctx, 10, 9, EMBED_F32, &ones);
  OK(embed_table_init(ctx, t, &part));
  const float *w = embed_table_data(t);
  for (int r = 0; r < 10; ++r)
    for (int j = 0; j < 9; ++j) assert_true(r == 5 ? w[r * 9 + j] == 0 : r >= 3 && r < 7 ? w[r * 9 + j] != 0 && w[r * 9 + j] != 1 : w[r * 9 + j] == 1);
  part.padding_id = 0; /* not among the rows: stays */
  OK(embed_table_init(ctx, t, &part));
  assert_exactly(w[0], 1);
  part = (embed_init_options){.size = sizeof part, .first = 10};
  OK(embed_table_init(ctx, t, &part)); /* no rows */
  assert_exactly(w[89], 1);
  embed_table_release(t);
}

/* SC-03 */
static void a_million_normals_have_the_documented_moments(void **state) {
  (void)state;
  enum { N = 1000 };
  embed_init_options o = {.size = sizeof o, .kind = EMBED_INIT_NORMAL, .flags = EMBED_INIT_PADDING, .padding_id = 17, .seed = 1};
  embed_table *t = made(ctx, N, N, EMBED_F32, &o);
  const float *w = embed_table_data(t);
  double n = N * (N - 1.0), sum = 0, squares = 0, fourth = 0, low = 0, high = 0;
  for (int i = 0; i < N * N; ++i) {
    if (i / N == 17) {
      assert_exactly(w[i], 0);
      continue;
    }
    double x = (double)w[i];
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    low = fmin(low, x);
    high = fmax(high, x);
  }
  double variance = squares / n - sum / n * (sum / n), std = sqrt(variance);
  assert_true(fabs(sum / n) < 1e-4);
  assert_true(fabs(std / 0.02 - 1) < 0.004);
  assert_true(low < -4 * 0.02 && high > 4 * 0.02);
  assert_true(fabs(fourth / n / (variance * variance) - 3) < 0.03);
  embed_table_release(t);
}

static void uniform_and_xavier_have_their_widths(void **state) {
  (void)state;
  enum { V = 2000, D = 48 };
  static const struct {
    embed_init_kind kind;
    float scale;
    double bound, std; /* bound 0 = none */
  } wanted[] = {
      {EMBED_INIT_UNIFORM, 0, 0.05, 0.05 / 1.7320508},
      {EMBED_INIT_UNIFORM, 2, 2, 2 / 1.7320508},
      {EMBED_INIT_XAVIER_UNIFORM, 0, 0.054126588, 0.054126588 / 1.7320508}, /* sqrt(6 / (V + D)) */
      {EMBED_INIT_XAVIER_UNIFORM, 3, 3 * 0.054126588, 3 * 0.054126588 / 1.7320508},
      {EMBED_INIT_XAVIER_NORMAL, 0, 0, 0.03125}, /* sqrt(2 / (V + D)) */
  };
  for (int k = 0; k < COUNT(wanted); ++k) {
    embed_init_options o = {.size = sizeof o, .kind = wanted[k].kind, .scale = wanted[k].scale, .seed = 8};
    embed_table *t = made(ctx, V, D, EMBED_F32, &o);
    const float *w = embed_table_data(t);
    double squares = 0, largest = 0;
    for (int i = 0; i < V * D; ++i) {
      squares += (double)w[i] * (double)w[i];
      largest = fmax(largest, fabs((double)w[i]));
    }
    assert_true(fabs(sqrt(squares / (V * D)) / wanted[k].std - 1) < 0.01);
    if (wanted[k].bound > 0) assert_true(largest <= wanted[k].bound * 1.000001 && largest > 0.999 * wanted[k].bound);
    embed_table_release(t);
  }
}

static void every_dtype_stores_the_rounded_floats(void **state) {
  (void)state;
  enum { ROWS = 40, DIM = 50 };
  embed_init_options o = {.size = sizeof o, .kind = EMBED_INIT_NORMAL, .seed = 4, .flags = EMBED_INIT_PADDING, .padding_id = 1};
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    int64_t dim = whole_dim(stored_dtypes[d], DIM);
    embed_table_options to = {.size = sizeof to, .dtype = stored_dtypes[d]};
    embed_table *floats = made(ctx, ROWS, dim, EMBED_F32, &o), *t = made(ctx, ROWS, dim, stored_dtypes[d], &o), *converted;
    OK(embed_table_convert(ctx, floats, &to, &converted));
    assert_same_bits(embed_table_data(t), embed_table_data(converted), (size_t)(ROWS * embed_table_row_bytes(t)));
    embed_table_release(t);
    embed_table_release(converted);
    embed_table_release(floats);
  }
}

static void zero_and_constant_fill(void **state) {
  (void)state;
  embed_init_options ones = {.size = sizeof ones, .kind = EMBED_INIT_CONSTANT, .scale = -1.5f};
  embed_table *t = made(ctx, 3, 40, EMBED_BF16, &ones);
  const int64_t id = 2;
  float row[40];
  OK(embed_table_get_rows(ctx, t, &id, 1, row, EMBED_F32, 0));
  for (int j = 0; j < 40; ++j) assert_exactly(row[j], -1.5f);
  const embed_init_options wide = {.size = sizeof wide, .kind = EMBED_INIT_TRUNCATED_NORMAL, .scale = 1, .low = -1e5f, .high = 1e5f};
  OK(embed_table_init(ctx, t, &wide)); /* bounds past F16, values far from them */
  OK(embed_table_init(ctx, t, NULL));  /* all default: zeros */
  assert_true(test_all_bytes(embed_table_data(t), 3 * 80, 0));
  embed_table_release(t);
}

static void wrong_options_are_refused_before_the_first_write(void **state) {
  (void)state;
  static const struct {
    embed_dtype dtype;
    embed_init_options o;
    const char *words;
  } bad[] = {
      {EMBED_F32, {.kind = 7}, "7"},
      {EMBED_F32, {.kind = EMBED_INIT_NONE}, "-1"},
      {EMBED_F32, {.kind = EMBED_INIT_NORMAL, .scale = -1}, "negative"},
      {EMBED_F32, {.kind = EMBED_INIT_NORMAL, .scale = NAN}, "finite"},
      {EMBED_F32, {.kind = EMBED_INIT_CONSTANT, .scale = INFINITY}, "finite"},
      {EMBED_F32, {.kind = EMBED_INIT_NORMAL, .scale = 3e38f}, "range"},
      {EMBED_U8_ROW, {.kind = EMBED_INIT_UNIFORM, .scale = 3e38f}, "range"},
      {EMBED_I4_GROUP, {.kind = EMBED_INIT_CONSTANT, .scale = 1e6f}, "range"},
      {EMBED_F16, {.kind = EMBED_INIT_CONSTANT, .scale = 1e5f}, "range"},
      {EMBED_F16, {.kind = EMBED_INIT_NORMAL, .scale = 3e4f}, "range"},
      {EMBED_BF16, {.kind = EMBED_INIT_CONSTANT, .scale = -3.4e38f}, "range"},
      {EMBED_F8_E4M3, {.kind = EMBED_INIT_UNIFORM, .scale = 1000}, "range"},
      {EMBED_F8_E5M2, {.kind = EMBED_INIT_CONSTANT, .scale = 1e5f}, "range"},
      {EMBED_F32, {.kind = EMBED_INIT_NORMAL, .low = -1, .high = 1}, "TRUNCATED"},
      {EMBED_F32, {.kind = EMBED_INIT_TRUNCATED_NORMAL, .low = 1, .high = -1}, "below"},
      {EMBED_F32, {.kind = EMBED_INIT_TRUNCATED_NORMAL, .scale = 1, .low = 50, .high = 60}, "mass"},
      {EMBED_F32, {.first = -1}, "-1"},
      {EMBED_F32, {.first = 5}, "5"},
      {EMBED_F32, {.first = 2, .count = 3}, "4"},
      {EMBED_F32, {.first = 1, .count = INT64_MAX}, "9223372036854775807"},
      {EMBED_F32, {.count = -1}, "-1"},
      {EMBED_F32, {.flags = EMBED_INIT_PADDING, .padding_id = 4}, "padding_id 4"},
      {EMBED_F32, {.flags = EMBED_INIT_PADDING, .padding_id = -1}, "padding_id -1"},
      {EMBED_F32, {.flags = 2}, "0x2"},
  };
  for (int i = 0; i < COUNT(bad); ++i) {
    embed_table_options shape = {.size = sizeof shape, .dtype = bad[i].dtype};
    embed_init_options o = bad[i].o;
    embed_table *t;
    o.size = sizeof o;
    OK(embed_table_create(ctx, 4, 40, &shape, &t));
    size_t bytes = (size_t)(4 * embed_table_row_bytes(t));
    memset(embed_table_mutable_data(t), 0x3C, bytes);
    if (embed_table_init(ctx, t, &o) != EMBED_E_OPTION) fail_msg("case %d is accepted: %s", i, embed_error_text(ctx));
    assert_says(ctx, bad[i].words);
    assert_true(test_all_bytes(embed_table_data(t), bytes, 0x3C));
    embed_table_release(t);
  }
}

/* S39: a row that was never trained is found without a copy of the first table, also when it has decayed. */
static void rows_that_never_had_gradient_are_known_by_the_seed(void **state) {
  (void)state;
  enum { ROWS = 40, DIM = 64 };
  static const embed_dtype dtypes[] = {EMBED_F32, EMBED_F16, EMBED_BF16, EMBED_I8_ROW, EMBED_I4_GROUP, EMBED_Q8_0};
  float moved[ROWS], keep[ROWS];
  for (int kind = EMBED_INIT_ZERO; kind <= EMBED_INIT_CONSTANT; ++kind)
    for (int d = 0; d < COUNT(dtypes); ++d) {
      embed_init_options init = {.size = sizeof init, .flags = EMBED_INIT_PADDING, .kind = kind, .padding_id = 3, .seed = 77};
      embed_table *t = made(ctx, ROWS, DIM, dtypes[d], &init);
      OK(embed_table_moved(ctx, t, &init, moved, keep));
      for (int r = 0; r < ROWS; ++r) assert_true(moved[r] == 0 && keep[r] == 1);
      init.seed = 78;
      OK(embed_table_moved(ctx, t, &init, moved, NULL));
      const bool random = kind != EMBED_INIT_ZERO && kind != EMBED_INIT_CONSTANT;
      for (int r = 0; r < ROWS; ++r) assert_true(r != 3 && random ? moved[r] > 0.5f : moved[r] == 0);
      embed_table_release(t);
    }
  /* AdamW, decoupled: rate 1e-4, decay 0.1, 300,000 steps: 0.0498 of the row. */
  const embed_init_options init = {.size = sizeof init, .kind = EMBED_INIT_NORMAL, .seed = 5};
  const embed_optimizer_options adamw = {.size = sizeof adamw, .kind = EMBED_OPTIM_ADAMW_DEFERRED, .lr = 1e-4, .weight_decay = 0.1};
  embed_table *t = made(ctx, ROWS, DIM, EMBED_F32, &init);
  embed_optimizer *o = NULL;
  embed_grad *g = NULL;
  float d_out[2 * DIM];
  for (int j = 0; j < 2 * DIM; ++j) d_out[j] = j % 3 ? 1 : -1;
  OK(embed_optimizer_create(ctx, t, &adamw, &o));
  OK(embed_grad_create(ctx, DIM, &g));
  for (int s = 0; s < 300000; ++s) { /* two rows have gradient, in the middle of it */
    if (s == 150000) OK(embed_grad_add(ctx, g, (const int32_t[]){7, 30}, 2, d_out, 0));
    OK(embed_optimizer_step(ctx, o, t, g, NULL));
    if (s == 150010) embed_grad_clear(g);
  }
  OK(embed_optimizer_touch(ctx, o, t, NULL, 0));
  OK(embed_table_moved(ctx, t, &init, moved, keep));
  for (int r = 0; r < ROWS; ++r) {
    if (r == 7 || r == 30)
      assert_true(moved[r] > 0.01f);
    else
      assert_true(moved[r] < 1e-6f && fabs((double)keep[r] - 0.0497864) < 1e-5);
  }
  embed_grad_release(g);
  embed_optimizer_release(o);
  embed_table_release(t);
}

static void moved_measures_rows_by_their_direction(void **state) {
  (void)state;
  enum { DIM = 4 };
  const embed_init_options ones = {.size = sizeof ones, .kind = EMBED_INIT_CONSTANT, .scale = 1};
  const float rows[6][DIM] = {{2, 2, 2, 2}, {-1, -1, -1, -1}, {1, 1, -1, -1}, {0, 0, 0, 0}, {2, 2, 2, 0}, {1, NAN, 1, 1}};
  const float wants[5][2] = {{0, 2}, {1, 0}, {1, 0}, {0, 0}, {0.5f, 1.5f}}; /* moved, keep */
  embed_table *t = NULL;
  float moved[6], keep[6];
  OK(embed_table_view(ctx, rows, 6, DIM, NULL, NULL, NULL, &t)); /* read-only is fine */
  OK(embed_table_moved(ctx, t, &ones, moved, keep));
  for (int r = 0; r < 5; ++r) assert_true(fabsf(moved[r] - wants[r][0]) < 1e-6f && fabsf(keep[r] - wants[r][1]) < 1e-6f);
  assert_true(isnan(moved[5]));
  embed_init_options some = {.size = sizeof some, .first = 2, .count = 2}; /* zeros */
  memset(moved, 0xA5, sizeof moved);
  OK(embed_table_moved(ctx, t, &some, moved, keep));
  assert_true(moved[0] == 1 && keep[0] == 1 && moved[1] == 0 && keep[1] == 1 && test_all_bytes(moved + 2, 4 * sizeof *moved, 0xA5));
  memset(moved, 0xA5, sizeof moved);
  some.first = 6, some.count = 0;
  OK(embed_table_moved(ctx, t, &some, moved, NULL)); /* no rows */
  some.first = 5, some.count = 2;
  assert_int_equal(embed_table_moved(ctx, t, &some, moved, NULL), EMBED_E_OPTION);
  some = (embed_init_options){.size = sizeof some, .kind = 9};
  assert_int_equal(embed_table_moved(ctx, t, &some, moved, NULL), EMBED_E_OPTION);
  assert_int_equal(embed_table_moved(ctx, t, &ones, NULL, NULL), EMBED_E_ARGUMENT);
  assert_true(test_all_bytes(moved, sizeof moved, 0xA5));
  embed_table_release(t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(normals_are_the_known_bits),
    cmocka_unit_test(truncated_normals_are_the_known_values),
    cmocka_unit_test(truncated_normals_stay_between_their_bounds),
    cmocka_unit_test(threads_parts_and_levels_give_the_same_bytes),
    cmocka_unit_test(only_the_named_rows_are_written),
    cmocka_unit_test(a_million_normals_have_the_documented_moments),
    cmocka_unit_test(uniform_and_xavier_have_their_widths),
    cmocka_unit_test(every_dtype_stores_the_rounded_floats),
    cmocka_unit_test(zero_and_constant_fill),
    cmocka_unit_test(rows_that_never_had_gradient_are_known_by_the_seed),
    cmocka_unit_test(moved_measures_rows_by_their_direction),
    cmocka_unit_test(wrong_options_are_refused_before_the_first_write),
};

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
