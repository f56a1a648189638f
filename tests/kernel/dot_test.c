/* SPDX-License-Identifier: BSD-3-Clause */
/* Tile products: the order of a sum is the documented one, whatever the shape of the tile and its place in it. */
#include "timed.h"

enum { ROWS = 33, HIDDEN = 17 };
static const int64_t counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33}, hiddens[] = {0, 1, 2, 3, 4, 5, 7, 8, 16, 17};
enum { COUNTS = sizeof counts / sizeof *counts, HIDDENS = sizeof hiddens / sizeof *hiddens };
static const int64_t each[EMBED__STORED_COUNT] = {4, 2, 2, 1};

static int64_t packed_bytes(int form, int64_t dim) { return dim * each[form] + (form == EMBED__STORED_I8 ? 4 : 0); }

/* The stored value before an int8 row's scale. */
static float value_at(int form, const unsigned char *row, int64_t j) {
  float value;
  uint16_t half;
  if (form == EMBED__STORED_I8) return (float)((const int8_t *)row)[j];
  if (form == EMBED__STORED_F32) {
    memcpy(&value, row + 4 * j, 4);
    return value;
  }
  memcpy(&half, row + 2 * j, 2);
  return form == EMBED__STORED_F16 ? embed__f32_of_f16(half) : embed__f32_of_bf16(half);
}

static float scale_of(int form, const unsigned char *row, int64_t dim) {
  float scale = 1.0f;
  if (form == EMBED__STORED_I8) scale = embed__le_f32(row + dim);
  return scale;
}

static void put_value(int form, unsigned char *row, int64_t j, float value) {
  uint16_t half = form == EMBED__STORED_F16 ? embed__f16_of_f32(value) : embed__bf16_of_f32(value);
  if (form == EMBED__STORED_F32)
    memcpy(row + 4 * j, &value, 4);
  else if (form == EMBED__STORED_I8)
    ((int8_t *)row)[j] = (int8_t)(value * 127.0f);
  else
    memcpy(row + 2 * j, &half, 2);
}

/* Row 1 is tiny and negative: its products underflow to -0, which a careless tail would turn to +0. */
static void fill(int form, unsigned char *rows, int64_t row_bytes, int64_t count, int64_t dim, float *x, int64_t ldx, int64_t n, uint64_t *state) {
  for (int64_t r = 0; r < count; ++r) {
    unsigned char *row = rows + r * row_bytes;
    for (int64_t j = 0; j < dim; ++j) put_value(form, row, j, r == 1 && form != EMBED__STORED_F16 ? -1e-30f : test_uniform(state));
    float scale = test_uniform(state);
    if (form == EMBED__STORED_I8) embed__put_le_f32(row + dim, scale);
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < dim; ++j) x[i * ldx + j] = i == 1 ? 1e-30f : test_uniform(state);
}

/* 16 lanes, column j in lane j % 16, one FMA each; then lanes i and i + 8, + 4, + 2, + 1; then the row's scale. */
static float in_lanes(int form, const unsigned char *row, const float *x, int64_t dim) {
  float lane[16] = {0};
  for (int64_t j = 0; j < dim; ++j) lane[j % 16] = fmaf(value_at(form, row, j), x[j], lane[j % 16]);
  for (int half = 8; half >= 1; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0] * scale_of(form, row, dim);
}

/* z [n, count] with stride ldz, in a buffer of a pattern that nothing else may touch. */
static void check_tile(const embed__kernels *k, int form, const unsigned char *rows, int64_t row_bytes, int64_t count, const float *x, int64_t ldx, int64_t n,
                       int64_t dim, const float want[HIDDEN][ROWS]) {
  static float z[(ROWS + 3) * HIDDEN + 32];
  const int64_t ldz = count + 3;
  memset(z, 0xA5, sizeof z);
  k->dot.tile[form](rows, row_bytes, count, x, ldx, n, dim, z + 16, ldz);
  for (int64_t i = 0; i < n; ++i) assert_same_bits(z + 16 + i * ldz, want[i], (size_t)count * 4);
  for (int64_t i = 0; i < n; ++i) memset(z + 16 + i * ldz, 0xA5, (size_t)count * 4);
  assert_true(test_all_bytes(z, sizeof z, 0xA5));
}

/* Rows and x lie against unreadable pages. */
static void check_order(const embed__kernels *k) {
  static float want[HIDDEN][ROWS];
  uint64_t state = 1;
  for (int form = 0; form < EMBED__STORED_COUNT; ++form) {
    for (int l = 0; l < LENGTHS; ++l) {
      int64_t dim = lengths[l], row_bytes = packed_bytes(form, dim) + l % 3, ldx = dim + l % 2;
      size_t table_bytes = (size_t)((ROWS - 1) * row_bytes + packed_bytes(form, dim)), x_floats = (size_t)((HIDDEN - 1) * ldx + dim);
      int at_end = l % 4 != 3;
      guarded table = guarded_new(table_bytes, at_end), hidden = guarded_new(4 * x_floats, at_end);
      float *x = (float *)(void *)hidden.at;
      fill(form, table.at, row_bytes, ROWS, dim, x, ldx, HIDDEN, &state);
      for (int64_t i = 0; i < HIDDEN; ++i)
        for (int64_t r = 0; r < ROWS; ++r) want[i][r] = in_lanes(form, table.at + r * row_bytes, x + i * ldx, dim);
      for (int c = 0; c < COUNTS; ++c) {
        for (int h = 0; h < HIDDENS; ++h) check_tile(k, form, table.at, row_bytes, counts[c], x, ldx, hiddens[h], dim, want);
      }
      guarded_free(table);
      guarded_free(hidden);
    }
  }
}
static void sums_keep_their_order_in_tiles_of_every_shape(void **state) {
  (void)state;
  each_level(1, check_order);
}

/* Tiles that end where a table ends: the last rows, and the last vectors of x, against the unreadable page. */
static void check_last_rows(const embed__kernels *k) {
  static float all[HIDDEN][ROWS], want[HIDDEN][ROWS];
  uint64_t state = 2;
  for (int form = 0; form < EMBED__STORED_COUNT; ++form) {
    for (int64_t dim = 1; dim <= 67; dim += dim < 34 ? 1 : 11) {
      int64_t row_bytes = packed_bytes(form, dim);
      guarded table = guarded_new((size_t)(ROWS * row_bytes), 1), hidden = guarded_new((size_t)(4 * HIDDEN * dim), 1);
      float *x = (float *)(void *)hidden.at;
      fill(form, table.at, row_bytes, ROWS, dim, x, dim, HIDDEN, &state);
      k->dot.tile[form](table.at, row_bytes, ROWS, x, dim, HIDDEN, dim, &all[0][0], ROWS);
      for (int c = 0; c < COUNTS; ++c) {
        for (int h = 0; h < HIDDENS; ++h) {
          int64_t from = ROWS - counts[c], first = HIDDEN - hiddens[h];
          for (int64_t i = first; i < HIDDEN; ++i)
            for (int64_t r = from; r < ROWS; ++r) want[i - first][r - from] = all[i][r];
          check_tile(k, form, table.at + from * row_bytes, row_bytes, counts[c], x + first * dim, dim, hiddens[h], dim, want);
        }
      }
      guarded_free(table);
      guarded_free(hidden);
    }
  }
}
static void tiles_at_the_end_of_a_table_read_nothing_past_it(void **state) {
  (void)state;
  each_level(0, check_last_rows);
}

static void check_any_byte(const embed__kernels *k) {
  static unsigned char memory[64 + ROWS * 4 * 104];
  static float x[HIDDEN * 104], first[HIDDEN * ROWS], z[HIDDEN * ROWS];
  for (int form = 0; form < EMBED__STORED_COUNT; ++form) {
    for (int offset = 0; offset < 64; ++offset) {
      uint64_t state = 3; /* the same numbers at every offset */
      fill(form, memory + offset, packed_bytes(form, 100), ROWS, 100, x, 100, HIDDEN, &state);
      k->dot.tile[form](memory + offset, packed_bytes(form, 100), ROWS, x, 100, HIDDEN, 100, z, ROWS);
      if (offset == 0) memcpy(first, z, sizeof z);
      assert_same_bits(z, first, sizeof z);
    }
  }
}
static void rows_may_start_at_any_byte(void **state) {
  (void)state;
  each_level(1, check_any_byte);
}

static void check_error(const embed__kernels *k) {
  static const int64_t dims[] = {1, 17, 64, 100, 576, 768, 4096};
  uint64_t state = 4;
  for (int form = 0; form < EMBED__STORED_COUNT; ++form) {
    for (size_t d = 0; d < sizeof dims / sizeof *dims; ++d) {
      int64_t dim = dims[d], row_bytes = packed_bytes(form, dim);
      unsigned char *rows = malloc((size_t)(9 * row_bytes));
      float *x = malloc((size_t)(5 * dim) * sizeof *x), z[5 * 9];
      fill(form, rows, row_bytes, 9, dim, x, dim, 5, &state);
      k->dot.tile[form](rows, row_bytes, 9, x, dim, 5, dim, z, 9);
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t r = 0; r < 9; ++r) {
          double sum = 0, size = 0, scale = (double)scale_of(form, rows + r * row_bytes, dim);
          for (int64_t j = 0; j < dim; ++j) {
            double product = (double)value_at(form, rows + r * row_bytes, j) * scale * (double)x[i * dim + j];
            sum += product;
            size += fabs(product);
          }
          assert_true(fabs((double)z[i * 9 + r] - sum) <= 2e-6 * size + 1e-44);
        }
      }
      free(rows);
      free(x);
    }
  }
}
static void sums_are_within_2e_6_of_double(void **state) {
  (void)state;
  each_level(0, check_error);
}

/* A NaN or infinite row is seen in its own sums and in no other. */
static void check_nonfinite(const embed__kernels *k) {
  const int64_t dim = 67;
  static unsigned char rows[9 * 4 * 68];
  static float x[5 * 67], clean[5 * 9], z[5 * 9];
  uint64_t state = 5;
  for (int form = 0; form < EMBED__STORED_I8; ++form) {
    int64_t row_bytes = packed_bytes(form, dim);
    for (int64_t bad = 0; bad < 9; ++bad) {
      for (int64_t j = 0; j < dim; j += 6) {
        fill(form, rows, row_bytes, 9, dim, x, dim, 5, &state);
        k->dot.tile[form](rows, row_bytes, 9, x, dim, 5, dim, clean, 9);
        put_value(form, rows + bad * row_bytes, j, bad % 2 ? NAN : INFINITY);
        k->dot.tile[form](rows, row_bytes, 9, x, dim, 5, dim, z, 9);
        for (int64_t i = 0; i < 5; ++i) {
          for (int64_t r = 0; r < 9; ++r) {
            if (r != bad)
              assert_same_bits(&z[i * 9 + r], &clean[i * 9 + r], 4);
            else
              assert_true(bad % 2 ? isnan(z[i * 9 + r]) : isinf(z[i * 9 + r]));
          }
        }
      }
    }
  }
}
static void nonfinite_rows_touch_no_other_sum(void **state) {
  (void)state;
  each_level(0, check_nonfinite);
}

static void check_control(const embed__kernels *k) {
  static unsigned char rows[9 * 4 * 68];
  static float x[5 * 67], z[5 * 9];
  uint64_t state = 6;
  unsigned before = control_bits();
  for (int form = 0; form < EMBED__STORED_COUNT; ++form) {
    fill(form, rows, packed_bytes(form, 67), 9, 67, x, 67, 5, &state);
    k->dot.tile[form](rows, packed_bytes(form, 67), 9, x, 67, 5, 67, z, 9);
  }
  assert_int_equal(control_bits(), before);
}
static void control_bits_stay_as_they_are(void **state) {
  (void)state;
  each_level(0, check_control);
}

/* --- timed: 64 rows of 1024 columns --- */

enum { TIMED_ROWS = 64, TIMED_DIM = 1024, TIMED_HIDDEN = 16 };
typedef struct timed_tile {
  embed__dot_tile *tile;
  int64_t row_bytes, n;
  float x[TIMED_HIDDEN * TIMED_DIM], z[TIMED_HIDDEN * TIMED_ROWS];
  unsigned char rows[TIMED_ROWS * 4 * TIMED_DIM];
} timed_tile;

static void run_tile(void *job) {
  timed_tile *t = job;
  t->tile(t->rows, t->row_bytes, TIMED_ROWS, t->x, TIMED_DIM, t->n, TIMED_DIM, t->z, TIMED_ROWS);
}

static void time_tiles(const embed__kernels *k, kernel_timer *timer) {
  static const char *const names[EMBED__STORED_COUNT] = {"f32", "f16", "bf16", "i8"};
  static timed_tile t;
  uint64_t state = 7;
  for (int form = 0; form < EMBED__STORED_COUNT; ++form) {
    t.tile = k->dot.tile[form];
    t.row_bytes = packed_bytes(form, TIMED_DIM);
    fill(form, t.rows, t.row_bytes, TIMED_ROWS, TIMED_DIM, t.x, TIMED_DIM, TIMED_HIDDEN, &state);
    for (t.n = 1; t.n <= TIMED_HIDDEN; t.n *= 4) {
      char what[32];
      snprintf(what, sizeof what, "%s, %d hidden", names[form], (int)t.n);
      timed_case c = {what, (timed_kernel *)t.tile, run_tile, &t, (double)(TIMED_ROWS * t.row_bytes), TIMED_BYTES};
      if (t.n > 1) c.amount = 2.0 * TIMED_ROWS * TIMED_DIM * (double)t.n, c.limit = TIMED_OPERATIONS;
      kernel_bench(timer, &c);
    }
  }
}
KERNEL_CASES(time_tiles)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums_keep_their_order_in_tiles_of_every_shape),
    cmocka_unit_test(tiles_at_the_end_of_a_table_read_nothing_past_it),
    cmocka_unit_test(rows_may_start_at_any_byte),
    cmocka_unit_test(sums_are_within_2e_6_of_double),
    cmocka_unit_test(nonfinite_rows_touch_no_other_sum),
    cmocka_unit_test(control_bits_stay_as_they_are),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("dot", tests, time_tiles)
