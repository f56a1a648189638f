/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_positions: known answers of both layouts, and a plain formula's bits. */
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

static void pairs_alternate_sine_and_cosine(void **state) { /* KAT C2 */
  (void)state;
  const double want[3][4] = {{0, 1, 0, 1},
                             {0.8414709848078965, 0.5403023058681398, 0.009999833334166664, 0.9999500004166653},
                             {0.9092974268256817, -0.4161468365471424, 0.01999866669333308, 0.9998000066665778}};
  float out[3][4];
  OK(embed_positions(ctx, 0, 3, 4, out, EMBED_F32, 0, NULL));
  for (int i = 0; i < 12; ++i) assert_exactly(out[i / 4][i % 4], (float)want[i / 4][i % 4]);
  float one[4];
  OK(embed_positions(ctx, 2, 1, 4, one, EMBED_F32, 0, NULL)); /* a decode step's offset */
  assert_same_bits(one, out[2], sizeof one);
}

static void halves_have_their_own_denominator(void **state) { /* KAT C2 */
  (void)state;
  const embed_position_options o = {.size = sizeof o, .flags = EMBED_POSITION_HALVES};
  const float want[4] = {(float)0.8414709848078965, (float)9.999999983333334e-5, (float)0.5403023058681398, (float)0.999999995};
  float out[8];
  OK(embed_positions(ctx, 1, 1, 4, out, EMBED_F32, 0, &o));
  for (int j = 0; j < 4; ++j) assert_exactly(out[j], want[j]);
  OK(embed_positions(ctx, 1, 1, 5, out, EMBED_F32, 0, &o));
  for (int j = 0; j < 4; ++j) assert_exactly(out[j], want[j]);
  assert_exactly(out[4], 0);
  OK(embed_positions(ctx, 3, 1, 3, out, EMBED_F32, 0, &o)); /* below 4 columns the exponent is 0 */
  assert_exactly(out[0], (float)sin(3));
  assert_exactly(out[1], (float)cos(3));
  assert_exactly(out[2], 0);
  OK(embed_positions(ctx, 3, 1, 1, out, EMBED_F32, 0, &o));
  assert_exactly(out[0], 0);
}

static float reference(int64_t position, int64_t dim, int64_t column, bool halves, double base, double scale) {
  int64_t half = dim / 2, pair = halves ? (half ? column % half : 0) : column / 2;
  bool sine = halves ? column < half : column % 2 == 0;
  double exponent = halves ? (dim < 4 ? 0 : (double)pair / (double)(half - 1)) : (double)(2 * pair) / (double)dim;
  double angle = (double)position / pow(base, exponent);
  if (halves && column == 2 * half) return 0;
  return (float)((sine ? sin(angle) : cos(angle)) * scale);
}

static void every_layout_and_dtype_gives_the_same_bits_for_every_thread_count(void **state) {
  (void)state;
  embed_context *all[CONTEXTS];
  int count = contexts_new(all);
  const int64_t dims[] = {1, 2, 7, 64, 129};
  enum { N = 1100, FIRST = 1000000 };
  for (int k = 0; k < COUNT(dims); ++k)
    for (int f = 0; f < COUNT(float_dtypes); ++f)
      for (int v = 0; v < 4; ++v) {
        const embed_position_options o = {.size = sizeof o,
                                          .flags = (v & 1 ? EMBED_POSITION_HALVES : 0u) | (v & 2 ? EMBED_LOOKUP_ADD : 0u),
                                          .base = v & 2 ? 500 : 0,
                                          .scale = v & 2 ? -0.7f : 0};
        embed_dtype dtype = float_dtypes[f];
        int64_t dim = dims[k], ld = dim + 1, n = dim > 100 ? N : 5;
        size_t bytes = (size_t)(((n - 1) * ld + dim) * size_of(dtype));
        guarded first = guarded_new(bytes, 1), out = guarded_new(bytes, 1);
        memset(first.at, 0x3C, bytes);
        float before = v & 2 ? value_at(first.at, dtype, 0) : 0;
        OK(embed_positions(all[0], FIRST, n, dim, first.at, dtype, ld, &o));
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < dim; ++j)
            assert_value(first.at, dtype, i * ld + j,
                         rounded_to(dtype, before + reference(FIRST + i, dim, j, v & 1, v & 2 ? 500 : 10000, v & 2 ? (double)-0.7f : 1)));
        for (int c = 1; c < count; ++c) {
          memset(out.at, 0x3C, bytes);
          OK(embed_positions(all[c], FIRST, n, dim, out.at, dtype, ld, &o));
          assert_same_bits(out.at, first.at, bytes);
        }
        guarded_free(first);
        guarded_free(out);
      }
  contexts_free(all, count);
}

static void positions_past_2_to_the_31_are_exact(void **state) {
  (void)state;
  float out;
  OK(embed_positions(ctx, INT64_C(1) << 40, 1, 1, &out, EMBED_F32, 0, NULL));
  assert_exactly(out, (float)sin(0x1p40));
}

static void wrong_arguments_are_named(void **state) {
  (void)state;
  float out[4];
  memset(out, 0xA5, sizeof out);
  const embed_position_options wrong[] = {{.size = sizeof *wrong, .base = -1},       {.size = sizeof *wrong, .base = NAN},
                                          {.size = sizeof *wrong, .base = INFINITY}, {.size = sizeof *wrong, .scale = NAN},
                                          {.size = sizeof *wrong, .flags = 2},       {.size = 3}};
  for (int i = 0; i < COUNT(wrong); ++i) assert_int_equal(embed_positions(ctx, 0, 1, 4, out, EMBED_F32, 0, &wrong[i]), EMBED_E_OPTION);
  assert_int_equal(embed_positions(NULL, 0, 1, 4, out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_positions(ctx, -1, 1, 4, out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_says(ctx, "-1");
  assert_int_equal(embed_positions(ctx, 0, -1, 4, out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_positions(ctx, 0, 1, 0, out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_positions(ctx, 0, 1, 4, NULL, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_positions(ctx, 0, 1, 4, out, EMBED_F64, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_positions(ctx, 0, 1, 4, out, EMBED_F32, 3, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_positions(ctx, INT64_MAX, 1, 4, out, EMBED_F32, 0, NULL), EMBED_E_OVERFLOW);
  assert_int_equal(embed_positions(ctx, INT64_C(1) << 53, 1, 4, out, EMBED_F32, 0, NULL), EMBED_E_OVERFLOW);
  assert_int_equal(embed_positions(ctx, 0, INT64_MAX / 8, 4, out, EMBED_F32, 0, NULL), EMBED_E_OVERFLOW);
  assert_true(test_all_bytes(out, sizeof out, 0xA5));
}

static void no_positions_read_no_pointer(void **state) { /* FF-01 */
  (void)state;
  OK(embed_positions(ctx, 5, 0, 4, NULL, EMBED_F32, 0, NULL));
  OK(embed_positions(ctx, INT64_MAX, 0, INT64_MAX, (void *)1, EMBED_BF16, 0, NULL));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pairs_alternate_sine_and_cosine),
      cmocka_unit_test(halves_have_their_own_denominator),
      cmocka_unit_test(every_layout_and_dtype_gives_the_same_bits_for_every_thread_count),
      cmocka_unit_test(positions_past_2_to_the_31_are_exact),
      cmocka_unit_test(wrong_arguments_are_named),
      cmocka_unit_test(no_positions_read_no_pointer),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
