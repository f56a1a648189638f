/* SPDX-License-Identifier: BSD-3-Clause */
/* Sketched products: every level against the sum in double of what the panel and the digits say. */
#include "timed.h"

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

static void random_panels(unsigned char *panels, int64_t count, int64_t dim, int64_t bytes, uint64_t *state) {
  random_bytes(panels, (size_t)(count * bytes), state);
  for (int64_t p = 0; p < count; ++p)
    for (int64_t s = 0; s < embed__sketch_blocks(dim) * ROWS; ++s) {
      const uint16_t half = embed__bf16_of_f32(fabsf(test_uniform(state)));
      memcpy(panels + p * bytes + 2 * s, &half, sizeof half);
    }
}

/* Panels, hidden rows and products begin or end at unreadable pages; hidden rows stand apart. */
static void check_products(const embed__kernels *k, int64_t dim, int64_t n, int64_t count, uint64_t *state) {
  const int64_t bytes = embed__sketch_panel_bytes(dim), ldx = dim + (n + dim) % 3, ldz = PANELS * ROWS + 3, whole = (count + ROWS - 1) / ROWS * ROWS;
  const int at_end = (dim + n + count) % 4 != 3;
  guarded panels = guarded_new((size_t)(whole / ROWS * bytes), at_end), from = guarded_new((size_t)((n - 1) * ldx + dim) * sizeof(float), at_end);
  guarded packs = guarded_new((size_t)k->sketch.x_bytes(n, dim), at_end), to = guarded_new((size_t)(n * ldz) * sizeof(float), at_end);
  void *packed = packs.at;
  float *x = (float *)(void *)from.at, *z = (float *)(void *)to.at;
  double rounding[HIDDEN];
  random_panels(panels.at, whole / ROWS, dim, bytes, state);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < dim; ++j) x[i * ldx + j] = test_uniform(state) * ((i + j) % 7 == 0 ? 30.0f : 1.0f);
  for (int64_t i = 0; i + 1 < n; ++i)
    for (int64_t j = dim; j < ldx; ++j) x[i * ldx + j] = NAN; /* between them */
  k->sketch.pack_x(x, ldx, n, dim, packed, rounding);
  for (int64_t i = 0; i < n * ldz; ++i) z[i] = 77;
  k->sketch.multiply(panels.at, bytes, count, packed, n, dim, z, ldz);
  for (int64_t i = 0; i < n; ++i) {
    double rest = 0;
    for (int64_t j = 0; j < dim; ++j) {
      const double off = (double)x[i * ldx + j] - (double)steps_of(packed, i) * integer_of(packed, n, dim, i, j);
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
    for (int64_t r = whole; r < ldz; ++r) assert_true(z[i * ldz + r] == 77);
  }
  guarded_free(panels);
  guarded_free(from);
  guarded_free(packs);
  guarded_free(to);
}

/* Every tail of a block; every number of hidden rows; panels with every number of rows. */
static void products_of_level(const embed__kernels *k) {
  static const int64_t dims[] = {1, 3, 4, 15, 16, 17, 63, 64, 65, 128, 200, 576, MOST_DIM};
  uint64_t state = 5;
  for (int64_t dim = 1; dim <= 130; ++dim) check_products(k, dim, 1 + dim % 5, 1 + dim % 33, &state);
  for (size_t d = 0; d < sizeof dims / sizeof *dims; ++d) {
    for (int64_t n = 1; n <= HIDDEN; ++n) check_products(k, dims[d], n, 1 + n * 7 % (PANELS * ROWS), &state);
    for (int64_t count = 1; count <= PANELS * ROWS; ++count) check_products(k, dims[d], 1 + count % 4, count, &state);
  }
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

/* --- timed: 80 rows of 640 columns --- */

enum { TIMED_DIM = 640 };
typedef struct timed_sketch {
  const embed__kernels *k;
  int64_t n;
  unsigned char *panels, *packed;
  float x[HIDDEN * TIMED_DIM], z[HIDDEN * PANELS * ROWS];
  double rounding[HIDDEN];
} timed_sketch;

static void run_pack_x(void *job) {
  timed_sketch *t = job;
  t->k->sketch.pack_x(t->x, TIMED_DIM, t->n, TIMED_DIM, t->packed, t->rounding);
}
static void run_multiply(void *job) {
  timed_sketch *t = job;
  t->k->sketch.multiply(t->panels, embed__sketch_panel_bytes(TIMED_DIM), PANELS * ROWS, t->packed, t->n, TIMED_DIM, t->z, PANELS * ROWS);
}

static void time_sketches(const embed__kernels *k, kernel_timer *timer) {
  const int64_t bytes = embed__sketch_panel_bytes(TIMED_DIM);
  static timed_sketch t;
  uint64_t state = 6;
  t.k = k;
  t.panels = aligned_alloc(64, (size_t)(PANELS * bytes));
  t.packed = aligned_alloc(64, (size_t)k->sketch.x_bytes(16, TIMED_DIM));
  random_panels(t.panels, PANELS, TIMED_DIM, bytes, &state);
  for (int64_t j = 0; j < HIDDEN * TIMED_DIM; ++j) t.x[j] = test_uniform(&state);
  for (t.n = 1; t.n <= 16; t.n *= 16) {
    char what[32];
    snprintf(what, sizeof what, "pack x, %d hidden", (int)t.n);
    kernel_bench(timer, &(timed_case){what, (timed_kernel *)k->sketch.pack_x, run_pack_x, &t, (double)(6 * t.n * TIMED_DIM), TIMED_BYTES});
    run_pack_x(&t);
    snprintf(what, sizeof what, "multiply, %d hidden", (int)t.n);
    timed_case c = {what, (timed_kernel *)k->sketch.multiply, run_multiply, &t, (double)(PANELS * bytes), TIMED_BYTES};
    if (t.n > 1) c.amount = 4.0 * PANELS * ROWS * TIMED_DIM * (double)t.n, c.limit = TIMED_DIGITS; /* two rows of digits */
    kernel_bench(timer, &c);
  }
  free(t.panels);
  free(t.packed);
}
KERNEL_CASES(time_sketches)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(products_are_what_panels_and_digits_say),
    cmocka_unit_test(the_largest_sums_do_not_overflow),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("sketch", tests, time_sketches)
