/* SPDX-License-Identifier: BSD-3-Clause */
/* Floats as sums of bfloats for tiles: panels of rows and matrices, against sums in double; what limbs cannot hold. Only some levels have them. */
#include "panels.h"

enum { ROWS = 83, HIDDEN = 70, WIDEST = 1100 };
static const int64_t dims[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 70, 255, 256, 257, 288, 511, 513, 768, WIDEST};
static const int64_t counts[] = {0, 1, 15, 16, 17, 31, 32, 33, 48, 80, 83}, hiddens[] = {0, 1, 15, 16, 17, 31, 32, 33, 48, 49, 70};

/* Numbers of many sizes: limbs of small ones meet limbs of large ones. */
static float any_size(uint64_t *state) {
  const float value = test_uniform(state);
  return ldexpf(value, -(int)(test_random(state) >> 60));
}

static void fill(int form, unsigned char *rows, int64_t count, int64_t dim, uint64_t *state) {
  for (int64_t r = 0; r < count; ++r)
    for (int64_t j = 0; j < dim; ++j) put_value(form, rows + r * dim * each[form], j, any_size(state));
}

/* z [n, count], dense. */
static void product(const embed__kernels *k, int form, int panel, const unsigned char *rows, int64_t count, const float *x, int64_t n, int64_t dim, float *z) {
  const embed__multiplier *m = &k->panel.prepared[panel][EMBED__EXACT];
  const int64_t stride = k->panel.bytes[panel](dim, 0), packed_bytes = m->x_bytes(n, dim, 0);
  guarded panels = panels_of(k, panel, rows, dim * each[form], count, dim), packed = guarded_new((size_t)packed_bytes, 1);
  assert_int_equal(packed_bytes % 64, 0);
  assert_int_equal(stride % 64, 0);
  m->pack_x(x, dim, n, dim, 0, packed.at);
  m->multiply(panels.at, stride, count % 2 ? stride : 12345, count, packed.at, n, dim, 0, z, count);
  guarded_free(panels);
  guarded_free(packed);
}

static double error_of(int form, const unsigned char *row, const float *x, int64_t dim, float z) { /* in shares of 2e-6 of sum |w||x| */
  double sum = 0, size = 0;
  for (int64_t j = 0; j < dim; ++j) {
    const double term = (double)value_at(form, row, j) * (double)x[j];
    sum += term;
    size += fabs(term);
  }
  return fabs((double)z - sum) / (2e-6 * size + 0x1p-149 * (double)dim);
}

static void check_panels(const embed__kernels *k) {
  static unsigned char rows_room[ROWS * 4 * WIDEST];
  static float x_room[HIDDEN * WIDEST], whole[HIDDEN * ROWS], z[HIDDEN * ROWS + 1];
  uint64_t state = 1;
  for (int form = 0; form < FORMS; ++form) {
    const int panel = embed__limbs_of(form);
    for (int d = 0; k->panel.pack[panel] && d < COUNT_OF(dims); ++d) {
      const int64_t dim = dims[d];
      fill(form, rows_room, ROWS, dim, &state);
      for (int64_t i = 0; i < HIDDEN * dim; ++i) x_room[i] = any_size(&state);
      product(k, form, panel, rows_room, ROWS, x_room, HIDDEN, dim, whole);
      for (int64_t i = 0; i < HIDDEN; ++i)
        for (int64_t r = 0; r < ROWS; ++r) assert_true(error_of(form, rows_room + r * dim * each[form], x_room + i * dim, dim, whole[i * ROWS + r]) <= 1);
      for (int c = 0; c < COUNT_OF(counts); ++c) { /* a sum's bits are the same in calls of every shape; nothing else is read or written */
        const int64_t n = hiddens[(c + d) % COUNT_OF(hiddens)], count = counts[c], row_bytes = dim * each[form];
        guarded rows = guarded_new((size_t)(count * row_bytes), d % 2), x = guarded_new((size_t)(4 * n * dim), d % 2);
        memcpy(rows.at, rows_room, (size_t)(count * row_bytes));
        memcpy(x.at, x_room, (size_t)(4 * n * dim));
        memset(z, 0xA5, sizeof z);
        product(k, form, panel, rows.at, count, (const float *)(const void *)x.at, n, dim, z);
        for (int64_t i = 0; i < n; ++i) assert_same_bits(z + i * count, whole + i * ROWS, (size_t)count * 4);
        assert_true(test_all_bytes(z + n * count, sizeof z - (size_t)(n * count) * 4, 0xA5));
        guarded_free(rows);
        guarded_free(x);
      }
    }
  }
}
static void panels_are_right_in_calls_of_every_shape(void **state) {
  (void)state;
  each_level(0, check_panels);
}

/* A panel with such a number has the bits of plain panels, the others' are what they were. */
static void check_unheld(const embed__kernels *k) {
  enum { DIM = 67, N = 35, FEW = 51 };
  static const float hard[] = {INFINITY, -INFINITY, NAN, 0x1p-140f, -0x1p-130f, 0x1.8p30f, -0x1p100f, 0x1.fffffep127f};
  static unsigned char rows[FEW * 4 * DIM];
  static float x[N * DIM], clean[N * FEW], plain[N * FEW], z[N * FEW];
  uint64_t state = 2;
  for (int64_t i = 0; i < N * DIM; ++i) x[i] = test_uniform(&state);
  for (int form = 0; form < FORMS; ++form) {
    const int panel = embed__limbs_of(form);
    for (int h = 0; k->panel.pack[panel] && h < COUNT_OF(hard); ++h) {
      const int64_t bad = 5 * h, column = 7 * h;
      fill(form, rows, FEW, DIM, &state);
      product(k, form, panel, rows, FEW, x, N, DIM, clean);
      put_value(form, rows + bad * DIM * each[form], column, hard[h]);
      const float stored = value_at(form, rows + bad * DIM * each[form], column); /* a half is larger, or infinite */
      product(k, form, panel, rows, FEW, x, N, DIM, z);
      product(k, form, form, rows, FEW, x, N, DIM, plain);
      for (int64_t i = 0; i < N; ++i) {
        for (int64_t r = 0; r < FEW; ++r) {
          const bool same_panel = r / LANES == bad / LANES,
                     is_held = fabsf(stored) <= EMBED__LIMBS_MOST && (form != EMBED__PANEL_BF16 || stored == 0 || fabsf(stored) >= 0x1p-126f);
          if (!same_panel)
            assert_same_bits(&z[i * FEW + r], &clean[i * FEW + r], 4);
          else if (!is_held && !isnan(plain[i * FEW + r]))
            assert_same_bits(&z[i * FEW + r], &plain[i * FEW + r], 4);
          else if (!is_held)
            assert_true(isnan(z[i * FEW + r]) != 0);
        }
      }
    }
  }
}
static void rows_that_limbs_cannot_hold_go_the_plain_way(void **state) {
  (void)state;
  each_level(0, check_unheld);
}

/* Numbers at the ends of what limbs hold, on both sides, in every mixture. */
static void check_ends(const embed__kernels *k) {
  enum { DIM = 96, N = 33, FEW = 17 };
  const float ends[] = {0x1.2345p-120f, EMBED__LIMBS_MOST / 1.2345678f, 1.0f / 3, 0x1.6p-140f}; /* the least: a subnormal number, also of bfloats */
  static unsigned char rows[FEW * 4 * DIM];
  static float x[N * DIM], z[N * FEW];
  uint64_t state = 3;
  for (int form = 0; form < FORMS; ++form) {
    const int panel = embed__limbs_of(form);
    for (int mixture = 0; k->panel.pack[panel] && mixture < 64; ++mixture) {
      for (int64_t i = 0; i < N * DIM; ++i) x[i] = ends[test_random(&state) >> 32 & (unsigned)mixture & 3] * (1 + test_uniform(&state) / 8);
      for (int64_t r = 0; r < FEW; ++r)
        for (int64_t j = 0; j < DIM; ++j)
          put_value(form, rows + r * DIM * each[form], j, ends[test_random(&state) >> 32 & (unsigned)mixture / 4 & 3] * (1 + test_uniform(&state) / 8));
      if (form == EMBED__PANEL_F16)
        for (int64_t r = 0; r < FEW * DIM; ++r)
          if (!isfinite(value_at(form, rows, r))) put_value(form, rows, r, 65504);
      product(k, form, panel, rows, FEW, x, N, DIM, z);
      for (int64_t i = 0; i < N; ++i)
        for (int64_t r = 0; r < FEW; ++r) {
          const double error = error_of(form, rows + r * DIM * each[form], x + i * DIM, DIM, z[i * FEW + r]);
          assert_true(error <= 1);
        }
    }
  }
}
static void numbers_at_the_ends_are_within_the_bound(void **state) {
  (void)state;
  each_level(0, check_ends);
}

/* ---- words for matrices ---- */

static float first_of(uint32_t word) { return embed__f32_of_bits(word << 16); }
static float second_of(uint32_t word) { return embed__f32_of_bits(word & 0xFFFF0000u); }

static void check_words(const embed__kernels *k) {
  uint64_t state = 4;
  for (int at = 0; k->gemm.limbs_along && at < LENGTHS; ++at) {
    const int64_t n = lengths[at], words = (n + 1) / 2, plane = n + 5;
    guarded in = guarded_new((size_t)n * 4, 1), other = guarded_new((size_t)n * 4, 1), out = guarded_new((size_t)(2 * plane + n) * 4, 1);
    float *x = (float *)(void *)in.at, *y = (float *)(void *)other.at;
    uint32_t *word = (uint32_t *)(void *)out.at;
    for (int64_t i = 0; i < n; ++i) x[i] = any_size(&state), y[i] = any_size(&state);
    x[n / 2] = 0, y[n / 3] = 0x1.8p-145f, x[n - 1] = -EMBED__LIMBS_MOST;
    for (int way = 0; way < 3; ++way) { /* along, across, across nothing */
      memset(word, 0xA5, (size_t)(2 * plane + n) * 4);
      assert_true(way ? k->gemm.limbs_across(x, way == 1 ? y : NULL, n, word, plane) : k->gemm.limbs_along(x, n, word, plane));
      for (int64_t p = 0; p < (way ? n : words); ++p) {
        const float want_first = way ? x[p] : x[2 * p], want_second = way == 1 ? y[p] : way == 0 && 2 * p + 1 < n ? x[2 * p + 1] : 0;
        assert_true(first_of(word[p]) + (first_of(word[plane + p]) + first_of(word[2 * plane + p])) == 0x1p24f * want_first);
        assert_true(second_of(word[p]) + (second_of(word[plane + p]) + second_of(word[2 * plane + p])) == 0x1p24f * want_second);
      }
      for (int64_t p = way ? n : words; p < plane; ++p) assert_true(word[p] == 0xA5A5A5A5u && word[plane + p] == 0xA5A5A5A5u);
    }
    static const float unheld[] = {INFINITY, NAN, -0x1.1p30f, 0x1.fffffep127f};
    for (int u = 0; u < COUNT_OF(unheld); ++u) {
      const int64_t where = (int64_t)(test_random(&state) >> 33) % n;
      y[where] = unheld[u];
      assert_false(k->gemm.limbs_along(y, n, word, plane));
      assert_false(k->gemm.limbs_across(x, y, n, word, plane));
      assert_false(k->gemm.limbs_across(y, NULL, n, word, plane));
      y[where] = 1;
    }
    guarded_free(in), guarded_free(other), guarded_free(out);
  }
}
static void words_hold_the_numbers_exactly_and_say_where_they_cannot(void **state) {
  (void)state;
  each_level(0, check_words);
}

/* ---- matrices ---- */

static const int64_t shapes[][3] = {{1, 1, 1},     {0, 5, 3},     {5, 0, 3},     {3, 4, 0},    {2, 31, 7},    {16, 32, 32},  {17, 33, 255},
                                    {31, 16, 256}, {32, 17, 257}, {33, 64, 511}, {7, 48, 512}, {70, 70, 513}, {65, 15, 600}, {33, 65, 31}};
enum { MOST_M = 70, MOST_N = 96, MOST_K = 600 };

typedef struct matrices {
  int64_t m, n, words, ldat;
  float a[MOST_M * MOST_K], b[MOST_K * MOST_N]; /* [m, k], [k, n] */
  guarded rows, columns, strips;                /* words of A both ways, of B */
  int64_t rows_plane, columns_plane, strips_plane;
} matrices;

static uint32_t *words_at(guarded g) { return (uint32_t *)(void *)g.at; }

static void take_words(const embed__kernels *k, matrices *p, int64_t m, int64_t n, int64_t depth, int at_end, uint64_t *state) {
  const int64_t words = (depth + 1) / 2, strips = embed__strips(n) * EMBED__STRIP;
  p->m = m, p->n = n, p->words = words, p->ldat = m;
  p->rows_plane = m * words, p->columns_plane = m * words, p->strips_plane = strips * words;
  p->rows = guarded_new((size_t)(3 * p->rows_plane) * 4, at_end);
  p->columns = guarded_new((size_t)(3 * p->columns_plane) * 4, at_end);
  p->strips = guarded_new((size_t)(3 * p->strips_plane) * 4, at_end);
  for (int64_t i = 0; i < m * depth; ++i) p->a[i] = any_size(state);
  for (int64_t i = 0; i < depth * n; ++i) p->b[i] = any_size(state);
  for (int64_t i = 0; i < m; ++i) k->gemm.limbs_along(p->a + i * depth, depth, words_at(p->rows) + i * words, p->rows_plane);
  for (int64_t w = 0; w < words; ++w) {
    const bool two = 2 * w + 1 < depth;
    float first[MOST_M], second[MOST_M];
    for (int64_t i = 0; i < m; ++i) first[i] = p->a[i * depth + 2 * w], second[i] = two ? p->a[i * depth + 2 * w + 1] : 0;
    k->gemm.limbs_across(first, second, m, words_at(p->columns) + w * m, p->columns_plane);
    for (int64_t c = 0; c < strips; c += EMBED__STRIP) {
      float line[2][EMBED__STRIP] = {{0}};
      for (int64_t l = 0; l < EMBED__STRIP && c + l < n; ++l) line[0][l] = p->b[2 * w * n + c + l], line[1][l] = two ? p->b[(2 * w + 1) * n + c + l] : 0;
      k->gemm.limbs_across(line[0], line[1], EMBED__STRIP, words_at(p->strips) + c * words + w * EMBED__STRIP, p->strips_plane);
    }
  }
}

static void let_go(matrices *p) {
  guarded_free(p->rows);
  guarded_free(p->columns);
  guarded_free(p->strips);
}

static embed__gemm gemm_of(const matrices *p, bool by_columns) {
  embed__gemm g = {.m = p->m, .n = p->n, .k = p->words, .a = words_at(by_columns ? p->columns : p->rows), .lda = by_columns ? p->ldat : p->words};
  g.a_plane = by_columns ? p->columns_plane : p->rows_plane;
  g.b = words_at(p->strips);
  g.b_plane = p->strips_plane;
  return g;
}

static void check_matrices(const embed__kernels *k) {
  static matrices p;
  static float both[2][MOST_M * (MOST_N + 3)];
  uint64_t state = 5;
  for (int s = 0; k->gemm.limbs_by_rows && s < 2 * COUNT_OF(shapes); ++s) {
    const int64_t m = shapes[s / 2][0], n = shapes[s / 2][1], depth = shapes[s / 2][2], ldc = n + 3, room = m ? (m - 1) * ldc + n : 0;
    const bool add = s % 2;
    take_words(k, &p, m, n, depth, s % 3 != 0, &state);
    for (int by_columns = 0; by_columns < 2; ++by_columns) {
      guarded c = guarded_new((size_t)room * 4, !by_columns);
      float *got = (float *)(void *)c.at;
      for (int64_t i = 0; i < room; ++i) got[i] = (float)(i % 5);
      embed__gemm g = gemm_of(&p, by_columns);
      g.c = got, g.ldc = ldc, g.add = add, g.soon = p.a, g.soon_bytes = 1000;
      (by_columns ? k->gemm.limbs_by_columns : k->gemm.limbs_by_rows)(&g);
      memcpy(both[by_columns], got, (size_t)room * 4);
      guarded_free(c);
    }
    assert_same_bits(both[0], both[1], (size_t)room * 4);
    for (int64_t i = 0; i < room; ++i) {
      const int64_t row = i / ldc, column = i % ldc;
      const double before = (double)(i % 5);
      double sum = column < n && !add ? 0 : before, size = column < n && add ? before : 0;
      for (int64_t j = 0; column < n && j < depth; ++j) {
        const double term = (double)p.a[row * depth + j] * (double)p.b[j * n + column];
        sum += term;
        size += fabs(term);
      }
      if (!(fabs((double)both[0][i] - sum) <= 2e-6 * size))
        fail_msg("%d x %d x %d: C(%d, %d) is %g, not %g", (int)m, (int)n, (int)depth, (int)row, (int)column, (double)both[0][i], sum);
    }
    let_go(&p);
  }
}
static void matrices_are_right_and_stay_inside_c(void **state) {
  (void)state;
  each_level(0, check_matrices);
}

/* Of a chain of steps and in turn of chains a sum's bits depend on its row of A and column of B alone. */
static void check_order(const embed__kernels *k) {
  static matrices whole, one;
  static float all[MOST_M * MOST_N];
  if (!k->gemm.limbs_by_rows) return;
  uint64_t state = 6;
  take_words(k, &whole, MOST_M, 70, MOST_K, 1, &state);
  embed__gemm g = gemm_of(&whole, false);
  g.c = all, g.ldc = 70;
  k->gemm.limbs_by_rows(&g);
  for (int64_t i = 0; i < MOST_M; i += 9)
    for (int64_t c = 0; c < 70; c += 11) {
      uint64_t other = 7;
      float got;
      take_words(k, &one, 1, 1, MOST_K, 1, &other);
      guarded_free(one.strips);
      one.strips = guarded_new((size_t)(3 * one.strips_plane) * 4, 1);
      k->gemm.limbs_along(whole.a + i * MOST_K, MOST_K, words_at(one.rows), one.rows_plane);
      for (int64_t w = 0; w < one.words; ++w) {
        float line[2][EMBED__STRIP] = {{whole.b[2 * w * 70 + c]}, {whole.b[(2 * w + 1) * 70 + c]}};
        k->gemm.limbs_across(line[0], line[1], EMBED__STRIP, words_at(one.strips) + w * EMBED__STRIP, one.strips_plane);
      }
      embed__gemm single = gemm_of(&one, false);
      single.c = &got, single.ldc = 1;
      k->gemm.limbs_by_rows(&single);
      assert_same_bits(&got, &all[i * 70 + c], 4);
      let_go(&one);
    }
  let_go(&whole);
}
static void a_sums_order_does_not_depend_on_its_neighbours(void **state) {
  (void)state;
  each_level(0, check_order);
}

/* --- timed: 64 rows of 768 columns, 64 hidden rows; C of 64 x 64, 512 products each. Levels without limbs: as floats --- */

enum { TIMED_ROWS = 64, TIMED_DIM = 768, TIMED_K = 512 };
typedef struct timed_limbs {
  const embed__kernels *k;
  int form, panel;
  const unsigned char *rows, *panels;
  int64_t stride;
  void *packed;
  unsigned char *made;
  float x[TIMED_ROWS * TIMED_DIM], z[TIMED_ROWS * TIMED_ROWS];
} timed_limbs;

static void run_pack(void *job) {
  timed_limbs *t = job;
  t->k->panel.pack[t->panel](t->rows, TIMED_DIM * each[t->form], LANES, TIMED_DIM, 0, t->made, false);
}
static void run_multiply(void *job) {
  timed_limbs *t = job;
  t->k->panel.prepared[t->panel][EMBED__EXACT].multiply(t->panels, t->stride, t->stride, TIMED_ROWS, t->packed, TIMED_ROWS, TIMED_DIM, 0, t->z, TIMED_ROWS);
}

static void time_form(timed_limbs *t, const char *name, kernel_timer *timer) {
  static unsigned char rows[TIMED_ROWS * 4 * TIMED_DIM];
  uint64_t state = 8;
  char what[32];
  t->panel = t->k->panel.pack[embed__limbs_of(t->form)] ? embed__limbs_of(t->form) : t->form;
  const embed__multiplier *m = &t->k->panel.prepared[t->panel][EMBED__EXACT];
  fill(t->form, rows, TIMED_ROWS, TIMED_DIM, &state);
  guarded panels = panels_of(t->k, t->panel, rows, TIMED_DIM * each[t->form], TIMED_ROWS, TIMED_DIM);
  t->rows = rows, t->panels = panels.at, t->stride = t->k->panel.bytes[t->panel](TIMED_DIM, 0);
  t->made = aligned_alloc(64, (size_t)t->stride);
  t->packed = aligned_alloc(64, (size_t)m->x_bytes(TIMED_ROWS, TIMED_DIM, 0));
  m->pack_x(t->x, TIMED_DIM, TIMED_ROWS, TIMED_DIM, 0, t->packed);
  snprintf(what, sizeof what, "pack %s", name);
  const double bytes = (double)(LANES * TIMED_DIM * each[t->form] + t->stride);
  kernel_bench(timer, &(timed_case){what, (timed_kernel *)t->k->panel.pack[t->panel], run_pack, t, bytes, TIMED_BYTES});
  snprintf(what, sizeof what, "%s, 64 hidden", name);
  kernel_bench(timer, &(timed_case){what, (timed_kernel *)m->multiply, run_multiply, t, 2.0 * TIMED_ROWS * TIMED_ROWS * TIMED_DIM, TIMED_OPERATIONS});
  free(t->made), free(t->packed);
  guarded_free(panels);
}

typedef struct timed_matrices {
  void (*kernel)(const embed__gemm *g);
  embed__gemm g;
} timed_matrices;
static void run_matrices(void *job) {
  const timed_matrices *t = job;
  t->kernel(&t->g);
}

static void time_limbs(const embed__kernels *k, kernel_timer *timer) {
  static const char *const names[FORMS] = {"f32", "f16", "bf16"};
  static timed_limbs t;
  static matrices p;
  static float c[TIMED_ROWS * TIMED_ROWS], a[TIMED_ROWS * TIMED_K], strips[TIMED_ROWS * TIMED_K];
  uint64_t state = 8;
  t.k = k;
  for (int64_t j = 0; j < TIMED_ROWS * TIMED_DIM; ++j) t.x[j] = test_uniform(&state);
  for (t.form = 0; t.form < FORMS; ++t.form) time_form(&t, names[t.form], timer);
  timed_matrices job = {k->gemm.by_rows, {.m = TIMED_ROWS, .n = TIMED_ROWS, .k = TIMED_K, .a = a, .lda = TIMED_K, .b = strips}};
  const bool in_limbs = k->gemm.limbs_by_rows != NULL;
  if (in_limbs) {
    take_words(k, &p, TIMED_ROWS, TIMED_ROWS, TIMED_K, 1, &state);
    job = (timed_matrices){k->gemm.limbs_by_rows, gemm_of(&p, false)};
  }
  job.g.c = c, job.g.ldc = TIMED_ROWS;
  kernel_bench(timer,
               &(timed_case){"matrices, A by rows", (timed_kernel *)job.kernel, run_matrices, &job, 2.0 * TIMED_ROWS * TIMED_ROWS * TIMED_K, TIMED_OPERATIONS});
  if (in_limbs) let_go(&p);
}
KERNEL_CASES(time_limbs)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(panels_are_right_in_calls_of_every_shape),
    cmocka_unit_test(rows_that_limbs_cannot_hold_go_the_plain_way),
    cmocka_unit_test(numbers_at_the_ends_are_within_the_bound),
    cmocka_unit_test(words_hold_the_numbers_exactly_and_say_where_they_cannot),
    cmocka_unit_test(matrices_are_right_and_stay_inside_c),
    cmocka_unit_test(a_sums_order_does_not_depend_on_its_neighbours),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("limbs", tests, time_limbs)
