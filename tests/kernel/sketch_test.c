/* SPDX-License-Identifier: BSD-3-Clause */
/* Sketched products: every level against the sum in double of what the panel and the digits say. */
#include "levels.h"

enum { HIDDEN = 17, PANELS = 5, ROWS = EMBED__SKETCH_ROWS, LINE = 64, MOST_DIM = 700 };

static float steps_of(const void *packed, int64_t i) {
  float step;
  memcpy(&step, (const unsigned char *)packed + 4 * i, sizeof step);
  return step;
}

/* Integer of column j of hidden row i, out of its two digits. */
static int integer_of(const void *packed, int64_t n, int64_t dim, int64_t i, int64_t j) {
  const int64_t record = 4 * EMBED__SKETCH_RECORD * (i * embed__sketch_blocks(dim) + j / 64);
  const int8_t *digits = (const int8_t *)packed + embed__sketch_steps_bytes(n) + record;
  return 256 * digits[j % 64] + digits[64 + j % 64];
}

static int weight_of(const unsigned char *panel, int64_t dim, int64_t lane, int64_t j) {
  const unsigned char *group = panel + embed__sketch_scale_bytes(dim) + j / 16 * 3 * LINE + 4 * lane + j % 4;
  const int64_t line = j % 16 / 4;
  if (line < 3) return (group[line * LINE] & 63) - EMBED__SKETCH_ZERO;
  return ((group[0] >> 6) * 16 + (group[LINE] >> 6) * 4 + (group[2 * LINE] >> 6)) - EMBED__SKETCH_ZERO;
}

static double scale_of(const unsigned char *panel, int64_t lane, int64_t j) {
  uint16_t half;
  memcpy(&half, panel + 2 * (j / 64 * ROWS + lane), sizeof half);
  return (double)embed__f32_of_bf16(half);
}

static void random_panels(unsigned char *panels, int64_t dim, int64_t bytes, uint64_t *state) {
  random_bytes(panels, (size_t)(PANELS * bytes), state);
  for (int64_t p = 0; p < PANELS; ++p)
    for (int64_t s = 0; s < embed__sketch_blocks(dim) * ROWS; ++s) {
      const uint16_t half = embed__bf16_of_f32(fabsf(test_uniform(state)));
      memcpy(panels + p * bytes + 2 * s, &half, sizeof half);
    }
}

static void check_products(const embed__kernels *k, int64_t dim, int64_t n, int64_t count, uint64_t *state) {
  const int64_t bytes = embed__sketch_panel_bytes(dim), ldz = PANELS * ROWS + 3;
  guarded panels = guarded_new((size_t)(PANELS * bytes), 1);
  void *packed = aligned_alloc(64, (size_t)k->sketch.x_bytes(n, dim));
  float *x = malloc((size_t)(n * dim) * sizeof *x), z[HIDDEN * (PANELS * ROWS + 3)];
  double rounding[HIDDEN];
  random_panels(panels.at, dim, bytes, state);
  for (int64_t j = 0; j < n * dim; ++j) x[j] = test_uniform(state) * (j % 7 == 0 ? 30.0f : 1.0f);
  k->sketch.pack_x(x, dim, n, dim, packed, rounding);
  for (int64_t i = 0; i < n * ldz; ++i) z[i] = 77;
  k->sketch.multiply(panels.at, bytes, count, packed, n, dim, z, ldz);
  for (int64_t i = 0; i < n; ++i) {
    double rest = 0;
    for (int64_t j = 0; j < dim; ++j) {
      const double off = (double)x[i * dim + j] - (double)steps_of(packed, i) * integer_of(packed, n, dim, i, j);
      assert_true(fabs(off) <= 0.5000001 * (double)steps_of(packed, i));
      rest += off * off;
    }
    assert_true(fabs(rest - rounding[i]) <= 1e-9 * rest);
    for (int64_t r = 0; r < count; ++r) {
      const unsigned char *panel = panels.at + r / ROWS * bytes;
      double want = 0, size = 0;
      for (int64_t first = 0; first < dim; first += 64) {
        double sum = 0;
        for (int64_t j = first; j < dim && j < first + 64; ++j) sum += (double)weight_of(panel, dim, r % ROWS, j) * integer_of(packed, n, dim, i, j);
        want += sum * scale_of(panel, r % ROWS, first) * (double)steps_of(packed, i);
        size += fabs(sum) * scale_of(panel, r % ROWS, first) * (double)steps_of(packed, i);
      }
      assert_true(fabs((double)z[i * ldz + r] - want) <= (double)(embed__sketch_blocks(dim) + 4) * 0x1p-24 * size);
    }
    for (int64_t r = PANELS * ROWS; r < ldz; ++r) assert_true(z[i * ldz + r] == 77);
  }
  free(packed);
  free(x);
  guarded_free(panels);
}

static void products_of_level(const embed__kernels *k) {
  static const int64_t dims[] = {1, 3, 4, 15, 16, 17, 63, 64, 65, 128, 200, 576, MOST_DIM}, ns[] = {1, 2, 3, 4, 5, 7, HIDDEN};
  uint64_t state = 5;
  for (size_t d = 0; d < sizeof dims / sizeof *dims; ++d)
    for (size_t i = 0; i < sizeof ns / sizeof *ns; ++i)
      for (int64_t count = 1; count <= PANELS * ROWS; count += 13) check_products(k, dims[d], ns[i], count, &state);
}
static void products_are_what_panels_and_digits_say(void **state) {
  (void)state;
  each_level(0, products_of_level);
}

/* The largest sums: no integer overflows, no digit saturates. */
static void extremes_of_level(const embed__kernels *k) {
  enum { DIM = 128 };
  const int64_t bytes = embed__sketch_panel_bytes(DIM);
  for (int sign = -1; sign <= 1; sign += 2) {
    unsigned char *panel = aligned_alloc(64, (size_t)bytes);
    void *packed = aligned_alloc(64, (size_t)k->sketch.x_bytes(1, DIM));
    float x[DIM], z[ROWS];
    double rounding;
    memset(panel, sign > 0 ? 0xFF : 0, (size_t)bytes); /* u = 63 or 0 */
    for (int64_t s = 0; s < embed__sketch_blocks(DIM) * ROWS; ++s) {
      const uint16_t one = embed__bf16_of_f32(1);
      memcpy(panel + 2 * s, &one, sizeof one);
    }
    for (int j = 0; j < DIM; ++j) x[j] = -3.5f;
    k->sketch.pack_x(x, DIM, 1, DIM, packed, &rounding);
    k->sketch.multiply(panel, bytes, ROWS, packed, 1, DIM, z, ROWS);
    const double want = -3.5 * DIM * (sign > 0 ? 31 : -32);
    for (int r = 0; r < ROWS; ++r) assert_true(fabs((double)z[r] - want) <= 1e-6 * fabs(want));
    free(panel);
    free(packed);
  }
}
static void the_largest_sums_do_not_overflow(void **state) {
  (void)state;
  each_level(0, extremes_of_level);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(products_are_what_panels_and_digits_say),
    cmocka_unit_test(the_largest_sums_do_not_overflow),
};
TEST_MAIN(tests)
