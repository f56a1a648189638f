/* SPDX-License-Identifier: BSD-3-Clause */
/* Panels of floats: where an element stands, and sums in the documented order whatever the shape of the call. */
#include "panels.h"

enum { ROWS = 83, HIDDEN = 40 };
/* Tails of a line, of 16 bytes of a row, of a chain, and of what a call takes at once. */
static const int64_t dims[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70, 127, 255, 256, 257, 258, 511, 512, 513, 768};
static const int64_t counts[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 64, 65, 80, 83},
                     hiddens[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 24, 25, 40};

static void fill(int form, unsigned char *rows, int64_t row_bytes, int64_t count, int64_t dim, uint64_t *state) {
  for (int64_t r = 0; r < count; ++r)
    for (int64_t j = 0; j < dim; ++j) put_value(form, rows + r * row_bytes, j, test_uniform(state));
}

/* The layout in the words of panel.h. */
static int64_t position(int form, int64_t column, int64_t lane) {
  switch (form) {
    case EMBED__PANEL_F32: return (column * LANES + lane) * 4;
    case EMBED__PANEL_F16: return ((column / 2 * 2 + column % 2) * LANES + lane) * 2;
    default: return ((column / 2 * LANES + lane) * 2 + column % 2) * 2;
  }
}

static void check_layout(const embed__kernels *k) {
  uint64_t state = 1;
  for (int form = 0; form < FORMS; ++form) {
    for (int d = 0; d < COUNT_OF(dims); ++d) {
      int64_t dim = dims[d], packed = dim * each[form], row_bytes = packed + d % 3, bytes = k->panel.bytes[form](dim, 0);
      assert_int_equal(bytes, 64 * (form == EMBED__PANEL_F32 ? dim : (dim + 1) / 2));
      for (int64_t count = 1; count <= LANES; count += count < 14 ? 5 : 1) {
        size_t room = (size_t)((count - 1) * row_bytes + packed);
        guarded rows = guarded_new(room, count % 4 != 3), panel = guarded_new((size_t)bytes, 1), want = guarded_new((size_t)bytes, 1);
        random_bytes(rows.at, room, &state);
        memset(want.at, 0, (size_t)bytes);
        for (int64_t r = 0; r < count; ++r)
          for (int64_t j = 0; j < dim; ++j) memcpy(want.at + position(form, j, r), rows.at + r * row_bytes + j * each[form], (size_t)each[form]);
        for (int streaming = 0; streaming < 2; ++streaming) {
          memset(panel.at, 0xA5, (size_t)bytes);
          k->panel.pack[form](rows.at, row_bytes, count, dim, 0, panel.at, streaming);
          k->row.fence();
          assert_same_bits(panel.at, want.at, (size_t)bytes);
        }
        guarded_free(rows);
        guarded_free(panel);
        guarded_free(want);
      }
    }
  }
}
static void a_panel_holds_its_rows_where_the_contract_says(void **state) {
  (void)state;
  each_level(0, check_layout);
}

/* z [n, count] with a stride of its own, in a buffer of a pattern that nothing else may touch. */
static void check_product(const embed__multiplier *m, guarded panels, int64_t stride, int64_t count, const float *x, int64_t ldx, int64_t n, int64_t dim,
                          const float want[HIDDEN][ROWS]) {
  static float z[(ROWS + 3) * HIDDEN + 32];
  const int64_t ldz = count + 3, packed_bytes = m->x_bytes(n, dim, 0);
  assert_int_equal(packed_bytes % 64, 0);
  guarded packed = guarded_new((size_t)packed_bytes, 1);
  m->pack_x(x, ldx, n, dim, 0, packed.at);
  memset(z, 0xA5, sizeof z);
  m->multiply(panels.at, stride, stride, count, packed.at, n, dim, 0, z + 16, ldz);
  for (int64_t i = 0; i < n; ++i) assert_same_bits(z + 16 + i * ldz, want[i], (size_t)count * 4);
  for (int64_t i = 0; i < n; ++i) memset(z + 16 + i * ldz, 0xA5, (size_t)count * 4);
  assert_true(test_all_bytes(z, sizeof z, 0xA5));
  guarded_free(packed);
}

/* Chains of 256 columns, their sums added in ascending order. */
static float in_chains(bool fused, int form, const unsigned char *row, const float *x, int64_t dim) {
  float sum = 0;
  for (int64_t begin = 0; begin < dim; begin += 256) {
    float chain = 0;
    for (int64_t j = begin; j < dim && j < begin + 256; ++j) {
      float w = value_at(form, row, j), product = w * x[j];
      chain = fused ? fmaf(w, x[j], chain) : chain + product;
    }
    sum = begin ? sum + chain : chain;
  }
  return sum;
}

static void check_order(const embed__kernels *k) {
  static float want[HIDDEN][ROWS];
  const embed__kernels scalar = scalar_kernels();
  uint64_t state = 2;
  for (int form = 0; form < FORMS; ++form) {
    const embed__multiplier *m = &k->panel.prepared[form][EMBED__EXACT];
    const bool fused = m->multiply != scalar.panel.prepared[form][EMBED__EXACT].multiply;
    for (int d = 0; d < COUNT_OF(dims); ++d) {
      int64_t dim = dims[d], row_bytes = dim * each[form], ldx = dim + d % 2;
      unsigned char *rows = malloc((size_t)(ROWS * row_bytes));
      guarded hidden = guarded_new((size_t)(4 * ((HIDDEN - 1) * ldx + dim)), d % 3 != 2);
      float *x = (float *)(void *)hidden.at;
      fill(form, rows, row_bytes, ROWS, dim, &state);
      for (int64_t i = 0; i < HIDDEN; ++i)
        for (int64_t j = 0; j < dim; ++j) x[i * ldx + j] = test_uniform(&state);
      for (int64_t i = 0; i < HIDDEN; ++i)
        for (int64_t r = 0; r < ROWS; ++r) want[i][r] = in_chains(fused, form, rows + r * row_bytes, x + i * ldx, dim);
      for (int c = 0; c < COUNT_OF(counts); ++c) {
        guarded panels = panels_of(k, form, rows, row_bytes, counts[c], dim);
        for (int h = 0; h < COUNT_OF(hiddens); ++h) check_product(m, panels, k->panel.bytes[form](dim, 0), counts[c], x, ldx, hiddens[h], dim, want);
        guarded_free(panels);
      }
      free(rows);
      guarded_free(hidden);
    }
  }
}
static void sums_keep_their_order_in_calls_of_every_shape(void **state) {
  (void)state;
  each_level(0, check_order);
}

/* More hidden rows than meet a panel's columns at once, and more columns. */
static void check_large(const embed__kernels *k) {
  enum { N = 128, WIDE = 2100, FEW = 35 };
  uint64_t state = 3;
  float *x = malloc(sizeof *x * N * WIDE), *z = malloc(sizeof *z * N * FEW), *one = malloc(sizeof *one * FEW);
  for (int64_t i = 0; i < (int64_t)N * WIDE; ++i) x[i] = test_uniform(&state);
  for (int form = 0; form < FORMS; ++form) {
    int64_t row_bytes = WIDE * each[form], stride = k->panel.bytes[form](WIDE, 0);
    unsigned char *rows = malloc((size_t)(FEW * row_bytes));
    fill(form, rows, row_bytes, FEW, WIDE, &state);
    guarded panels = panels_of(k, form, rows, row_bytes, FEW, WIDE);
    for (int a = 0; a < EMBED__ACTIVATIONS; ++a) {
      const embed__multiplier *m = &k->panel.prepared[form][a];
      if (!m->multiply) continue;
      void *packed = aligned_alloc(64, (size_t)m->x_bytes(N, WIDE, 0));
      m->pack_x(x, WIDE, N, WIDE, 0, packed);
      m->multiply(panels.at, stride, stride, FEW, packed, N, WIDE, 0, z, FEW);
      for (int64_t i = 0; i < N; ++i) {
        m->pack_x(x + i * WIDE, WIDE, 1, WIDE, 0, packed);
        m->multiply(panels.at, stride, stride, FEW, packed, 1, WIDE, 0, one, FEW);
        assert_same_bits(z + i * FEW, one, sizeof *one * FEW);
      }
      free(packed);
    }
    guarded_free(panels);
    free(rows);
  }
  free(x);
  free(z);
  free(one);
}
static void a_hidden_row_has_the_same_bits_alone_and_among_many(void **state) {
  (void)state;
  each_level(0, check_large);
}

static void check_error(const embed__kernels *k) {
  static const int64_t wide[] = {1, 17, 64, 100, 576, 768, 4096};
  enum { N = 13, FEW = 19 };
  uint64_t state = 4;
  for (int form = 0; form < FORMS; ++form) {
    for (int a = 0; a < EMBED__ACTIVATIONS; ++a) {
      const embed__multiplier *m = &k->panel.prepared[form][a];
      for (int d = 0; m->multiply && d < COUNT_OF(wide); ++d) {
        int64_t dim = wide[d], row_bytes = dim * each[form];
        unsigned char *rows = malloc((size_t)(FEW * row_bytes));
        float *x = malloc(sizeof *x * (size_t)(N * dim)), z[N * FEW];
        void *packed = aligned_alloc(64, (size_t)m->x_bytes(N, dim, 0));
        fill(form, rows, row_bytes, FEW, dim, &state);
        for (int64_t i = 0; i < N * dim; ++i) x[i] = test_uniform(&state);
        guarded panels = panels_of(k, form, rows, row_bytes, FEW, dim);
        m->pack_x(x, dim, N, dim, 0, packed);
        m->multiply(panels.at, k->panel.bytes[form](dim, 0), INT64_MIN / 2, FEW, packed, N, dim, 0, z, FEW);
        for (int64_t i = 0; i < N; ++i) {
          for (int64_t r = 0; r < FEW; ++r) {
            double sum = 0, size = 0;
            for (int64_t j = 0; j < dim; ++j) {
              float by = a == EMBED__EXACT ? x[i * dim + j] : embed__f32_of_bf16(embed__bf16_of_f32(x[i * dim + j]));
              double product = (double)value_at(form, rows + r * row_bytes, j) * (double)by;
              sum += product;
              size += fabs(product);
            }
            assert_true(fabs((double)z[i * FEW + r] - sum) <= 2e-6 * size);
          }
        }
        guarded_free(panels);
        free(packed);
        free(rows);
        free(x);
      }
    }
  }
}
static void sums_are_within_2e_6_of_double(void **state) {
  (void)state;
  each_level(0, check_error);
}

/* What is not finite is seen in the sums of its own row, of the table or of the hidden ones, and in no other. */
static void check_nonfinite(const embed__kernels *k) {
  enum { N = 5, FEW = 35 };
  const int64_t dim = 67;
  static unsigned char rows[FEW * 4 * 67];
  static float x[N * 67], clean[N * FEW], z[N * FEW];
  static _Alignas(64) unsigned char packed[8192];
  for (int form = 0; form < FORMS; ++form) {
    for (int a = 0; a < EMBED__ACTIVATIONS; ++a) {
      const embed__multiplier *m = &k->panel.prepared[form][a];
      int64_t row_bytes = dim * each[form], stride = k->panel.bytes[form](dim, 0);
      for (int64_t bad = 0; m->multiply && bad < FEW; bad += 3) {
        int64_t bad_hidden = bad % N, column = (7 * bad) % dim;
        for (int where = 0; where < 3; ++where) { /* nowhere, in the table, in a hidden row */
          uint64_t same = 6;
          fill(form, rows, row_bytes, FEW, dim, &same);
          for (int64_t i = 0; i < N * dim; ++i) x[i] = test_uniform(&same);
          if (where == 1) put_value(form, rows + bad * row_bytes, column, bad % 2 ? NAN : INFINITY);
          if (where == 2) x[bad_hidden * dim + column] = bad % 2 ? NAN : INFINITY;
          guarded panels = panels_of(k, form, rows, row_bytes, FEW, dim);
          assert_true(m->x_bytes(N, dim, 0) <= (int64_t)sizeof packed);
          m->pack_x(x, dim, N, dim, 0, packed);
          m->multiply(panels.at, stride, stride, FEW, packed, N, dim, 0, where ? z : clean, FEW);
          guarded_free(panels);
          for (int64_t i = 0; where && i < N; ++i) {
            for (int64_t r = 0; r < FEW; ++r) {
              if (where == 1 ? r == bad : i == bad_hidden)
                assert_true(isfinite(z[i * FEW + r]) == 0);
              else
                assert_same_bits(&z[i * FEW + r], &clean[i * FEW + r], 4);
            }
          }
        }
      }
    }
  }
}
static void what_is_not_finite_touches_no_other_row(void **state) {
  (void)state;
  each_level(0, check_nonfinite);
}

static void check_control(const embed__kernels *k) {
  static unsigned char rows[16 * 4 * 67];
  static float x[5 * 67], z[5 * 16];
  static _Alignas(64) unsigned char packed[8192], panel[64 * 67];
  uint64_t state = 7;
  unsigned before = control_bits();
  for (int form = 0; form < FORMS; ++form) {
    fill(form, rows, 67 * each[form], 16, 67, &state);
    k->panel.pack[form](rows, 67 * each[form], 16, 67, 0, panel, true);
    for (int a = 0; a < EMBED__ACTIVATIONS; ++a) {
      const embed__multiplier *m = &k->panel.prepared[form][a];
      if (!m->multiply) continue;
      m->pack_x(x, 67, 5, 67, 0, packed);
      m->multiply(panel, k->panel.bytes[form](67, 0), 0, 16, packed, 5, 67, 0, z, 16);
    }
  }
  assert_int_equal(control_bits(), before);
}
static void control_bits_stay_as_they_are(void **state) {
  (void)state;
  each_level(0, check_control);
}

/* --- timed: 64 rows of 768 columns --- */

enum { TIMED_ROWS = 64, TIMED_DIM = 768, TIMED_HIDDEN = 16 };
typedef struct timed_panels {
  const embed__kernels *k;
  int form;
  const embed__multiplier *m;
  const unsigned char *rows, *panels;
  int64_t row_bytes, stride, n;
  void *packed;
  float x[TIMED_HIDDEN * TIMED_DIM], z[TIMED_HIDDEN * TIMED_ROWS];
  _Alignas(64) unsigned char panel[64 * TIMED_DIM];
} timed_panels;

static void run_pack(void *job) {
  timed_panels *t = job;
  t->k->panel.pack[t->form](t->rows, t->row_bytes, LANES, TIMED_DIM, 0, t->panel, false);
}
static void run_multiply(void *job) {
  timed_panels *t = job;
  t->m->multiply(t->panels, t->stride, t->stride, TIMED_ROWS, t->packed, t->n, TIMED_DIM, 0, t->z, TIMED_ROWS);
}

static void time_multiplier(timed_panels *t, const char *name, embed__activation a, kernel_timer *timer) {
  t->m = &t->k->panel.prepared[t->form][a];
  for (t->n = 1; t->n <= TIMED_HIDDEN; t->n *= 4) {
    const double operations = 2.0 * TIMED_ROWS * TIMED_DIM * (double)t->n;
    char what[32];
    snprintf(what, sizeof what, "%s%s, %d hidden", name, a == EMBED__EXACT ? "" : " rounded", (int)t->n);
    timed_case c = {what, (timed_kernel *)t->m->multiply, run_multiply, t, operations, a == EMBED__EXACT ? TIMED_OPERATIONS : TIMED_PAIRS};
    if (a != EMBED__EXACT && !t->m->multiply) { /* hidden rows are rounded first then, and the exact one is taken */
      t->m = &t->k->panel.prepared[t->form][EMBED__EXACT];
      c.kernel = (timed_kernel *)t->m->multiply;
    }
    if (t->n == 1) c.amount = (double)(TIMED_ROWS / LANES * t->stride), c.limit = TIMED_BYTES;
    t->packed = aligned_alloc(64, (size_t)t->m->x_bytes(t->n, TIMED_DIM, 0));
    t->m->pack_x(t->x, TIMED_DIM, t->n, TIMED_DIM, 0, t->packed);
    kernel_bench(timer, &c);
    free(t->packed);
  }
}

static void time_panels(const embed__kernels *k, kernel_timer *timer) {
  static const char *const names[FORMS] = {"f32", "f16", "bf16"};
  static timed_panels t;
  static unsigned char rows[TIMED_ROWS * 4 * TIMED_DIM];
  uint64_t state = 8;
  t.k = k;
  for (int64_t j = 0; j < TIMED_HIDDEN * TIMED_DIM; ++j) t.x[j] = test_uniform(&state);
  for (t.form = 0; t.form < FORMS; ++t.form) {
    t.rows = rows, t.row_bytes = TIMED_DIM * each[t.form], t.stride = k->panel.bytes[t.form](TIMED_DIM, 0);
    fill(t.form, rows, t.row_bytes, TIMED_ROWS, TIMED_DIM, &state);
    guarded panels = panels_of(k, t.form, rows, t.row_bytes, TIMED_ROWS, TIMED_DIM);
    t.panels = panels.at;
    char what[32];
    snprintf(what, sizeof what, "pack %s", names[t.form]);
    kernel_bench(timer, &(timed_case){what, (timed_kernel *)k->panel.pack[t.form], run_pack, &t, (double)(LANES * t.row_bytes + t.stride), TIMED_BYTES});
    time_multiplier(&t, names[t.form], EMBED__EXACT, timer);
    if (t.form == EMBED__PANEL_BF16) time_multiplier(&t, names[t.form], EMBED__ROUNDED_BF16, timer);
    guarded_free(panels);
  }
}
KERNEL_CASES(time_panels)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_panel_holds_its_rows_where_the_contract_says),
    cmocka_unit_test(sums_keep_their_order_in_calls_of_every_shape),
    cmocka_unit_test(a_hidden_row_has_the_same_bits_alone_and_among_many),
    cmocka_unit_test(sums_are_within_2e_6_of_double),
    cmocka_unit_test(what_is_not_finite_touches_no_other_row),
    cmocka_unit_test(control_bits_stay_as_they_are),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("panel", tests, time_panels)
