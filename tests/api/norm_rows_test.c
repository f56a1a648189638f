/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_norm_rows: known answers, a plain formula, and the input side of BERT put together from lookups. */
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

static void rms_has_its_known_answers(void **state) { /* KAT D1a */
  (void)state;
  const float h[4] = {1, -2, 3, .5f}, w[4] = {.5f, 1, 2, 1};
  const double plain[4] = {.5298128684663219, -1.0596257369326438, 1.5894386053989658, .26490643423316096};
  const double llama[4] = {.2649064342, -1.0596257369, 3.1788772108, .2649064342}, gemma[4] = {.7947193027, -2.1192514739, 4.7683158162, .5298128685};
  embed_norm_options o = {.size = sizeof o, .epsilon = 1e-6f};
  float x[4], defaults[4];
  memcpy(x, h, sizeof x);
  OK(embed_norm_rows(ctx, x, EMBED_F32, 1, 4, 0, NULL, NULL, &o));
  for (int j = 0; j < 4; ++j) assert_exactly(x[j], (float)plain[j]);
  memcpy(x, h, sizeof x);
  OK(embed_norm_rows(ctx, x, EMBED_F32, 1, 4, 0, w, NULL, &o));
  for (int j = 0; j < 4; ++j) assert_near(x[j], (float)llama[j], 1e-7f * (float)fabs(llama[j]));
  memcpy(defaults, h, sizeof x);
  OK(embed_norm_rows(ctx, defaults, EMBED_F32, 1, 4, 0, w, NULL, NULL));
  assert_same_bits(defaults, x, sizeof x); /* 1e-6 is the default of RMS */
  o.flags = EMBED_NORM_PLUS_ONE;
  memcpy(x, h, sizeof x);
  OK(embed_norm_rows(ctx, x, EMBED_F32, 1, 4, 0, w, NULL, &o));
  for (int j = 0; j < 4; ++j) assert_near(x[j], (float)gemma[j], 1e-7f * (float)fabs(gemma[j]));
}

static void three_lookups_and_a_norm_are_berts_input(void **state) { /* KAT C2 */
  (void)state;
  const float word[4] = {.1f, .2f, .3f, .4f}, position[2][4] = {{9, 9, 9, 9}, {.01f, -.02f, .03f, -.04f}}, type[4] = {.5f, .5f, -.5f, -.5f};
  const float g[4] = {1, 2, 1, 1}, b[4] = {0, 0, .1f, 0};
  const double want[4] = {0.9104396131560849, 2.170088955967644, -0.9351573656199259, -0.9603267240298647};
  const int32_t ids[] = {0, 1};
  const embed_lookup_options add = {.size = sizeof add, .flags = EMBED_LOOKUP_ADD};
  const embed_norm_options o = {.size = sizeof o, .flags = EMBED_NORM_LAYER, .epsilon = 1e-12f};
  embed_table *words = view_floats(ctx, word, 1, 4), *positions = view_floats(ctx, position[0], 2, 4), *types = view_floats(ctx, type, 1, 4);
  float x[4];
  OK(embed_lookup(ctx, words, ids, 1, x, EMBED_F32, 0, NULL));
  OK(embed_lookup(ctx, positions, ids + 1, 1, x, EMBED_F32, 0, &add));
  OK(embed_lookup(ctx, types, ids, 1, x, EMBED_F32, 0, &add));
  for (int j = 0; j < 4; ++j) {
    volatile float first = word[j] + position[1][j];
    assert_exactly(x[j], first + type[j]);
  }
  OK(embed_norm_rows(ctx, x, EMBED_F32, 1, 4, 0, g, b, &o));
  for (int j = 0; j < 4; ++j) assert_near(x[j], (float)want[j], 2e-6f * (float)fabs(want[j]));
  embed_table_release(words);
  embed_table_release(positions);
  embed_table_release(types);
}

static void reference(float *row, int64_t dim, const float *weight, const float *bias, bool layer, double offset, double epsilon) {
  long double sum = 0, squares = 0;
  for (int64_t j = 0; j < dim; ++j) sum += (long double)row[j];
  long double mean = layer ? sum / (long double)dim : 0;
  for (int64_t j = 0; j < dim; ++j) squares += ((long double)row[j] - mean) * ((long double)row[j] - mean);
  long double by = sqrtl(squares / (long double)dim + (long double)epsilon);
  for (int64_t j = 0; j < dim; ++j)
    row[j] = (float)(((long double)row[j] - mean) / by * (weight ? (long double)weight[j] + (long double)offset : 1) + (bias ? (long double)bias[j] : 0));
}

/* Within one step of float of the exact value, and the same bits from everyone. */
static void every_dtype_gives_the_same_bits_at_every_level_and_thread_count(void **state) {
  (void)state;
  embed_context *all[CONTEXTS];
  int count = contexts_new(all);
  const int64_t dims[] = {1, 2, 15, 16, 33, 300};
  enum { N = 500 };
  for (int k = 0; k < COUNT(dims); ++k)
    for (int f = 0; f < COUNT(float_dtypes); ++f)
      for (int v = 0; v < 8; ++v) {
        const embed_norm_options o = {.size = sizeof o, .flags = (v & 1 ? EMBED_NORM_LAYER : 0u) | (v & 2 ? EMBED_NORM_PLUS_ONE : 0u), .epsilon = 1e-3f};
        embed_dtype dtype = float_dtypes[f];
        int64_t dim = dims[k], ld = dim + 1, n = dim == 300 ? N : 3;
        size_t bytes = (size_t)(((n - 1) * ld + dim) * size_of(dtype));
        uint64_t seed = 5;
        guarded input = guarded_new(bytes, 1), first = guarded_new(bytes, 1), x = guarded_new(bytes, 1);
        guarded weight = guarded_new((size_t)dim * 4, 1), bias = guarded_new((size_t)dim * 4, 1);
        for (int64_t j = 0; j < dim; ++j) {
          ((float *)(void *)weight.at)[j] = 1 + test_uniform(&seed) / 4;
          ((float *)(void *)bias.at)[j] = test_uniform(&seed);
        }
        for (size_t i = 0; i < bytes; ++i) input.at[i] = (unsigned char)(i % 2 ? 0x3C : test_random(&seed)); /* 0x3Cxx of any dtype: small, positive */
        const float *w = v & 4 ? (const float *)(const void *)weight.at : NULL, *b = v & 4 ? (const float *)(const void *)bias.at : NULL;
        for (int c = 0; c < count; ++c) {
          guarded to = c ? x : first;
          memcpy(to.at, input.at, bytes);
          OK(embed_norm_rows(all[c], to.at, dtype, n, dim, ld, w, b, &o));
          if (c) assert_same_bits(x.at, first.at, bytes);
        }
        float row[300];
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t j = 0; j < dim; ++j) row[j] = value_at(input.at, dtype, i * ld + j);
          reference(row, dim, w, b, v & 1, v & 2 ? 1 : 0, (double)1e-3f);
          for (int64_t j = 0; j < dim; ++j) {
            float got = value_at(first.at, dtype, i * ld + j), step = fmaxf(fabsf(row[j]), 0x1p-14f) * (dtype == EMBED_F32   ? 0x1p-23f
                                                                                                        : dtype == EMBED_F16 ? 0x1p-11f
                                                                                                                             : 0x1p-8f);
            assert_true(fabsf(got - row[j]) <= step);
          }
          if (i + 1 < n) assert_same_bits(first.at + (i * ld + dim) * size_of(dtype), input.at + (i * ld + dim) * size_of(dtype), (size_t)size_of(dtype));
        }
        guarded_free(input);
        guarded_free(first);
        guarded_free(x);
        guarded_free(weight);
        guarded_free(bias);
      }
  contexts_free(all, count);
}

static void a_bias_joins_rms_and_a_constant_row_is_its_bias(void **state) {
  (void)state;
  float x[2][3] = {{0, 0, 0}, {1e30f, 1e30f, -1e30f}};
  const float b[3] = {1, 2, 3};
  OK(embed_norm_rows(ctx, x, EMBED_F32, 2, 3, 0, NULL, b, NULL));
  assert_same_bits(x[0], b, sizeof b);
  assert_near(x[1][0], 2, 1e-6f); /* 1e30 squared is past float, not past double */
  float flat[2][3] = {{7, 7, 7}, {NAN, 1, 2}};
  const embed_norm_options layer = {.size = sizeof layer, .flags = EMBED_NORM_LAYER};
  OK(embed_norm_rows(ctx, flat, EMBED_F32, 2, 3, 0, NULL, b, &layer));
  assert_same_bits(flat[0], b, sizeof b); /* NaN stays in its row */
  assert_true(isnan(flat[1][1]));
  float two[2] = {1e4f + 1, 1e4f - 1}; /* deviations, not a difference of squares */
  OK(embed_norm_rows(ctx, two, EMBED_F32, 1, 2, 0, NULL, NULL, &layer));
  assert_near(two[0], 0.999995f, 1e-7f);
}

static void wrong_arguments_are_named(void **state) {
  (void)state;
  float x[4] = {1, 2, 3, 4};
  const float kept[4] = {1, 2, 3, 4};
  const embed_norm_options wrong[] = {{.size = sizeof *wrong, .epsilon = -1},       {.size = sizeof *wrong, .epsilon = NAN},
                                      {.size = sizeof *wrong, .epsilon = INFINITY}, {.size = sizeof *wrong, .reserved = 1},
                                      {.size = sizeof *wrong, .flags = 4},          {.size = 1}};
  for (int i = 0; i < COUNT(wrong); ++i) assert_int_equal(embed_norm_rows(ctx, x, EMBED_F32, 1, 4, 0, NULL, NULL, &wrong[i]), EMBED_E_OPTION);
  assert_int_equal(embed_norm_rows(NULL, x, EMBED_F32, 1, 4, 0, NULL, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_norm_rows(ctx, NULL, EMBED_F32, 1, 4, 0, NULL, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_norm_rows(ctx, x, EMBED_F64, 1, 4, 0, NULL, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_norm_rows(ctx, x, EMBED_F32, -1, 4, 0, NULL, NULL, NULL), EMBED_E_ARGUMENT);
  assert_says(ctx, "x has -1 rows");
  assert_int_equal(embed_norm_rows(ctx, x, EMBED_F32, 1, 0, 0, NULL, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_norm_rows(ctx, x, EMBED_F32, 1, 4, 3, NULL, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_norm_rows(ctx, x, EMBED_F32, INT64_MAX / 4, 4, 0, NULL, NULL, NULL), EMBED_E_OVERFLOW);
  assert_same_bits(x, kept, sizeof x);
}

static void no_rows_read_no_pointer(void **state) { /* FF-01 */
  (void)state;
  OK(embed_norm_rows(ctx, NULL, EMBED_F32, 0, 4, 0, NULL, NULL, NULL));
  OK(embed_norm_rows(ctx, (void *)1, EMBED_F16, 0, INT64_MAX, 0, (const float *)8, (const float *)8, NULL));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rms_has_its_known_answers),
      cmocka_unit_test(three_lookups_and_a_norm_are_berts_input),
      cmocka_unit_test(every_dtype_gives_the_same_bits_at_every_level_and_thread_count),
      cmocka_unit_test(a_bias_joins_rms_and_a_constant_row_is_its_bias),
      cmocka_unit_test(wrong_arguments_are_named),
      cmocka_unit_test(no_rows_read_no_pointer),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
