/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of matrices, against sums in double and against the same sums of another level. */
#include "timed.h"

enum { MOST_M = 40, MOST_N = 70, MOST_K = 530 };

/* A, both ways, and B begin or end at unreadable pages; rows of A stand apart. */
typedef struct matrices {
  int64_t m, n, k, lda, ldat;
  guarded rows, columns, strips;
  float *a, *at; /* [m, lda] and [k, ldat] */
  float *b;      /* strips */
  double *want;  /* [m, n] */
  double *size;  /* sum of |a||b| */
} matrices;

static float *floats_of(guarded g) { return (float *)(void *)g.at; }
static guarded apart(int64_t rows, int64_t columns, int64_t ld, int at_end) { /* between the rows is what must not be read */
  const int64_t floats = rows && columns ? (rows - 1) * ld + columns : 0;
  guarded g = guarded_new((size_t)floats * sizeof(float), at_end);
  for (int64_t i = 0; i < floats; ++i) floats_of(g)[i] = NAN;
  return g;
}

static matrices made(int64_t m, int64_t n, int64_t k, uint64_t *state) {
  matrices p = {.m = m, .n = n, .k = k, .lda = k + n % 3, .ldat = m + (n + 1) % 3};
  const int at_end = (m + n + k) % 4 != 3;
  p.rows = apart(m, k, p.lda, at_end), p.columns = apart(k, m, p.ldat, at_end);
  p.strips = guarded_new((size_t)(embed__strips(n) * EMBED__STRIP * k) * sizeof(float), at_end);
  p.a = floats_of(p.rows), p.at = floats_of(p.columns), p.b = floats_of(p.strips);
  p.want = calloc((size_t)(m * n) + 1, 8), p.size = calloc((size_t)(m * n) + 1, 8);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < k; ++j) p.a[i * p.lda + j] = p.at[j * p.ldat + i] = test_uniform(state);
  for (int64_t c = 0; c < n; ++c)
    for (int64_t j = 0; j < k; ++j) {
      float b = test_uniform(state);
      p.b[c / EMBED__STRIP * EMBED__STRIP * k + j * EMBED__STRIP + c % EMBED__STRIP] = b;
      for (int64_t i = 0; i < m; ++i) {
        p.want[i * n + c] += (double)p.a[i * p.lda + j] * (double)b;
        p.size[i * n + c] += fabs((double)p.a[i * p.lda + j] * (double)b);
      }
    }
  return p;
}

static void let_go(matrices *p) {
  guarded_free(p->rows);
  guarded_free(p->columns);
  guarded_free(p->strips);
  free(p->want);
  free(p->size);
}

/* C lies between two unreadable pages, its rows a few floats apart. */
static void check_product(const embed__kernels *k, const matrices *p, bool by_columns, bool add, float *kept) {
  const int64_t ldc = p->n + 3, room = p->m ? (p->m - 1) * ldc + p->n : 0;
  for (int at_end = 0; at_end < 2; ++at_end) {
    guarded g = guarded_new((size_t)room * 4 + 4, at_end);
    float *c = (float *)(void *)g.at + (at_end ? 1 : 0);
    for (int64_t i = 0; i < room; ++i) c[i] = (float)(i % 5);
    embed__gemm product = {
        .m = p->m, .n = p->n, .k = p->k, .a = by_columns ? p->at : p->a, .lda = by_columns ? p->ldat : p->lda, .b = p->b, .c = c, .ldc = ldc, .add = add};
    product.soon = p->b; /* fetched, never needed */
    product.soon_bytes = 1000;
    (by_columns ? k->gemm.by_columns : k->gemm.by_rows)(&product);
    for (int64_t i = 0; i < room; ++i) {
      const int64_t row = i / ldc, column = i % ldc;
      if (column >= p->n) {
        assert_true(c[i] == (float)(i % 5));
        continue;
      }
      const double want = p->want[row * p->n + column] + (add ? (double)(i % 5) : 0), size = p->size[row * p->n + column] + (add ? 4 : 0);
      if (!(fabs((double)c[i] - want) <= 2e-6 * size))
        fail_msg("%d x %d x %d: C(%d, %d) is %g, not %g", (int)p->m, (int)p->n, (int)p->k, (int)row, (int)column, (double)c[i], want);
      kept[row * p->n + column] = c[i];
    }
    guarded_free(g);
  }
}

static const int64_t shapes[][3] = {{1, 1, 1},     {0, 5, 3},     {5, 0, 3},     {3, 4, 0},    {2, 31, 7},    {12, 32, 16}, {13, 33, 255},
                                    {11, 16, 256}, {24, 17, 257}, {25, 64, 511}, {7, 48, 512}, {40, 70, 513}, {6, 15, 530}, {23, 65, 100}};

static void check_shape(const embed__kernels *k, int64_t m, int64_t n, int64_t depth, uint64_t *state) {
  static float by_rows[MOST_M * MOST_N], by_columns[MOST_M * MOST_N];
  matrices p = made(m, n, depth, state);
  for (int add = 0; add < 2; ++add) {
    check_product(k, &p, false, add, by_rows);
    check_product(k, &p, true, add, by_columns);
    assert_same_bits(by_rows, by_columns, (size_t)(p.m * p.n) * 4);
  }
  let_go(&p);
}

/* Beside the named shapes every remainder of a tile's rows, of its columns, and of the steps of a chain. */
static void check_level(const embed__kernels *k) {
  uint64_t state = 1;
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) check_shape(k, shapes[s][0], shapes[s][1], shapes[s][2], &state);
  for (int64_t m = 1; m <= 2 * k->gemm.rows + 1; ++m) check_shape(k, m, 33 + m % 5, 5 + m % 4, &state);
  for (int64_t n = 1; n <= MOST_N; ++n) check_shape(k, 1 + n % 13, n, 1 + n % 9, &state);
  for (int64_t depth = 250; depth <= 262; ++depth) check_shape(k, 3, 5, depth, &state);
}
static void products_are_right_at_every_level_and_stay_inside_c(void **state) {
  (void)state;
  each_level(0, check_level);
}

/* An element's bits depend on its row of A and column of B alone: not on where they stand. */
static void check_order(const embed__kernels *k) {
  uint64_t state = 3;
  matrices p = made(MOST_M, MOST_N, MOST_K, &state);
  static float whole[MOST_M * MOST_N], one;
  check_product(k, &p, false, false, whole);
  for (int64_t i = 0; i < MOST_M; i += 3)
    for (int64_t c = 0; c < MOST_N; c += 7) {
      float strip[MOST_K * EMBED__STRIP] = {0};
      for (int64_t j = 0; j < MOST_K; ++j) strip[j * EMBED__STRIP] = p.b[c / EMBED__STRIP * EMBED__STRIP * MOST_K + j * EMBED__STRIP + c % EMBED__STRIP];
      k->gemm.by_rows(&(embed__gemm){.m = 1, .n = 1, .k = MOST_K, .a = p.a + i * p.lda, .lda = p.lda, .b = strip, .c = &one, .ldc = 1});
      assert_same_bits(&one, &whole[i * MOST_N + c], 4);
    }
  let_go(&p);
}
static void a_sums_order_does_not_depend_on_its_neighbours(void **state) {
  (void)state;
  each_level(0, check_order);
}

static float of_first_vector_level[MOST_M * MOST_N];
static bool is_first;
static void keep_or_compare(const embed__kernels *k) {
  uint64_t state = 4;
  static float got[MOST_M * MOST_N];
  matrices p = made(MOST_M, MOST_N, MOST_K, &state);
  check_product(k, &p, true, true, got);
  if (is_first)
    memcpy(of_first_vector_level, got, sizeof got);
  else
    assert_same_bits(got, of_first_vector_level, sizeof got);
  is_first = false;
  let_go(&p);
}
static void vector_levels_have_the_same_bits(void **state) {
  (void)state;
  is_first = true;
  each_level(1, keep_or_compare);
}

/* ---- pairs ---- */
static float to_bfloat(float x) { return embed__f32_of_bf16(embed__bf16_of_f32(x)); }
static uint32_t word_of(float first, float second) { return (uint32_t)embed__bf16_of_f32(first) << 16 | embed__bf16_of_f32(second); }

/* The words of these matrices, whose numbers are bfloats: A by rows and by columns, B. */
static void words_of(const matrices *p, uint32_t *a, uint32_t *at, uint32_t *b) {
  const int64_t words = (p->k + 1) / 2;
  for (int64_t w = 0; w < words; ++w) {
    const int64_t j = 2 * w;
    const bool two = j + 1 < p->k;
    for (int64_t i = 0; i < p->m; ++i) a[i * words + w] = at[w * p->m + i] = word_of(p->a[i * p->lda + j], two ? p->a[i * p->lda + j + 1] : 0);
    for (int64_t c = 0; c < embed__strips(p->n) * EMBED__STRIP; ++c) {
      const float *strip = p->b + c / EMBED__STRIP * EMBED__STRIP * p->k + c % EMBED__STRIP;
      b[c / EMBED__STRIP * EMBED__STRIP * words + w * EMBED__STRIP + c % EMBED__STRIP] =
          word_of(strip[j * EMBED__STRIP], two ? strip[(j + 1) * EMBED__STRIP] : 0);
    }
  }
}

static void round_all(matrices *p) {
  for (int64_t i = 0; i < p->m; ++i)
    for (int64_t j = 0; j < p->k; ++j) p->a[i * p->lda + j] = p->at[j * p->ldat + i] = to_bfloat(p->a[i * p->lda + j]);
  for (int64_t i = 0; i < embed__strips(p->n) * EMBED__STRIP * p->k; ++i) p->b[i] = to_bfloat(p->b[i]);
  for (int64_t i = 0; i < p->m; ++i)
    for (int64_t c = 0; c < p->n; ++c) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < p->k; ++j) {
        const double product = (double)p->a[i * p->lda + j] * (double)p->b[c / EMBED__STRIP * EMBED__STRIP * p->k + j * EMBED__STRIP + c % EMBED__STRIP];
        sum += product;
        size += fabs(product);
      }
      p->want[i * p->n + c] = sum;
      p->size[i * p->n + c] = size;
    }
}

/* Sums in tiles have an order of their own. What stands between C's rows is as it was. */
static void check_sums_of_pairs(const matrices *p, const float *c, int64_t ldc, int64_t room, bool add) {
  for (int64_t i = 0; i < room; ++i) {
    const int64_t row = i / ldc, column = i % ldc;
    const double before = (double)(i % 5), want = column < p->n ? p->want[row * p->n + column] + (add ? before : 0) : before;
    const double size = column < p->n ? p->size[row * p->n + column] + (add ? before : 0) : 0;
    if (!(fabs((double)c[i] - want) <= 2e-6 * size))
      fail_msg("%d x %d x %d: C(%d, %d) is %g, not %g", (int)p->m, (int)p->n, (int)p->k, (int)row, (int)column, (double)c[i], want);
  }
}

/* By rows into the end of readable memory, by columns into its begin. A and B end, or begin, at unreadable pages too. */
static void check_pairs(const embed__kernels *k) {
  const embed__kernels scalar = scalar_kernels();
  uint64_t state = 7;
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) {
    matrices p = made(shapes[s][0], shapes[s][1], shapes[s][2], &state);
    const int64_t words = (p.k + 1) / 2, ldc = p.n + 3, room = p.m ? (p.m - 1) * ldc + p.n : 0;
    const guarded pa = guarded_new((size_t)(p.m * words) * 4, s % 2), pat = guarded_new((size_t)(p.m * words) * 4, s % 2);
    const guarded pb = guarded_new((size_t)(embed__strips(p.n) * EMBED__STRIP * words) * 4, s % 2);
    uint32_t *a = (uint32_t *)(void *)pa.at, *at = (uint32_t *)(void *)pat.at, *b = (uint32_t *)(void *)pb.at;
    float *want = calloc((size_t)room + 1, 4), *ways = calloc((size_t)(2 * room) + 1, 4);
    round_all(&p);
    words_of(&p, a, at, b);
    for (int way = 0; way < 4; ++way) {
      const bool by_columns = way & 1, add = way & 2;
      guarded g = guarded_new((size_t)room * 4 + 4, !by_columns);
      float *c = (float *)(void *)g.at + (by_columns ? 0 : 1);
      for (int64_t i = 0; i < room; ++i) c[i] = want[i] = (float)(i % 5);
      scalar.gemm.by_rows(&(embed__gemm){.m = p.m, .n = p.n, .k = p.k, .a = p.a, .lda = p.lda, .b = p.b, .c = want, .ldc = ldc, .add = add});
      embed__gemm product = {.m = p.m, .n = p.n, .k = words, .a = by_columns ? at : a, .lda = by_columns ? p.m : words, .b = b, .c = c, .ldc = ldc, .add = add};
      (by_columns ? k->gemm.pairs_by_columns : k->gemm.pairs_by_rows)(&product);
      if (k->panel.has_tiles)
        check_sums_of_pairs(&p, c, ldc, room, add);
      else
        assert_same_bits(c, want, (size_t)room * 4);
      if (by_columns)
        assert_same_bits(c, ways + (add ? room : 0), (size_t)room * 4);
      else
        memcpy(ways + (add ? room : 0), c, (size_t)room * 4);
      embed__gemm floats = {
          .m = p.m, .n = p.n, .k = p.k, .a = by_columns ? p.at : p.a, .lda = by_columns ? p.ldat : p.lda, .b = p.b, .c = c, .ldc = ldc, .add = add};
      for (int64_t i = 0; i < room; ++i) c[i] = (float)(i % 5);
      (by_columns ? k->gemm.by_columns : k->gemm.by_rows)(&floats);
      assert_same_bits(c, want, (size_t)room * 4);
      guarded_free(g);
    }
    guarded_free(pa), guarded_free(pat), guarded_free(pb);
    free(want), free(ways);
    let_go(&p);
  }
}
static void pairs_of_bfloats_have_the_bits_of_rounded_floats_but_in_tiles(void **state) {
  (void)state;
  each_level(0, check_pairs);
}

static void check_order_of_pairs(const embed__kernels *k) {
  enum { WORDS = MOST_K / 2 };
  static uint32_t a[MOST_M * WORDS], b[(MOST_N + EMBED__STRIP) * WORDS], strip[WORDS * EMBED__STRIP];
  static float whole[MOST_M * MOST_N], one;
  uint64_t state = 5;
  for (size_t i = 0; i < sizeof a / sizeof *a; ++i) a[i] = word_of(test_uniform(&state), test_uniform(&state));
  for (size_t i = 0; i < sizeof b / sizeof *b; ++i) b[i] = word_of(test_uniform(&state), test_uniform(&state));
  k->gemm.pairs_by_rows(&(embed__gemm){.m = MOST_M, .n = MOST_N, .k = WORDS, .a = a, .lda = WORDS, .b = b, .c = whole, .ldc = MOST_N});
  for (int64_t i = 0; i < MOST_M; i += 3)
    for (int64_t c = 0; c < MOST_N; c += 7) {
      for (int64_t w = 0; w < WORDS; ++w) strip[w * EMBED__STRIP] = b[c / EMBED__STRIP * EMBED__STRIP * WORDS + w * EMBED__STRIP + c % EMBED__STRIP];
      k->gemm.pairs_by_rows(&(embed__gemm){.m = 1, .n = 1, .k = WORDS, .a = a + i * WORDS, .lda = WORDS, .b = strip, .c = &one, .ldc = 1});
      assert_same_bits(&one, &whole[i * MOST_N + c], 4);
    }
}
static void a_sum_of_pairs_does_not_depend_on_its_neighbours(void **state) {
  (void)state;
  each_level(0, check_order_of_pairs);
}

/* What vdpbf16ps may make 0, and what it must not. */
static void check_small(const embed__kernels *k) {
  const float small[3] = {0x1p-63f, 0x1p-60f, 0x1p-127f};
  uint32_t a[3], strip[EMBED__STRIP] = {word_of(0x1p-64f, 0)}, one[EMBED__STRIP] = {word_of(1, 0)};
  float c[3];
  for (int i = 0; i < 3; ++i) a[i] = word_of(small[i], 0);
  k->gemm.pairs_by_rows(&(embed__gemm){.m = 2, .n = 1, .k = 1, .a = a, .lda = 1, .b = strip, .c = c, .ldc = 1});
  assert_true(c[0] == 0x1p-127f || c[0] == 0);
  assert_true(c[1] == 0x1p-124f);
  k->gemm.pairs_by_rows(&(embed__gemm){.m = 1, .n = 1, .k = 1, .a = a + 2, .lda = 1, .b = one, .c = c, .ldc = 1});
  assert_true(c[0] == 0x1p-127f || c[0] == 0);
}
static void sums_of_pairs_below_the_least_normal_number_may_be_0(void **state) {
  (void)state;
  each_level(0, check_small);
}

/* --- timed: C of 48 x 64, 512 products each --- */

typedef struct timed_product {
  void (*kernel)(const embed__gemm *g);
  embed__gemm g;
} timed_product;

static void run_product(void *job) {
  timed_product *t = job;
  t->kernel(&t->g);
}

static void time_matrices(const embed__kernels *k, kernel_timer *timer) {
  enum { M = 48, N = 64, K = 512 };
  uint64_t state = 5;
  static float c[M * N];
  matrices p = made(M, N, K, &state);
  for (int by_columns = 0; by_columns < 2; ++by_columns) {
    timed_product t = {by_columns ? k->gemm.by_columns : k->gemm.by_rows, {.m = M, .n = N, .k = K, .b = p.b, .c = c, .ldc = N}};
    t.g.a = by_columns ? p.at : p.a;
    t.g.lda = by_columns ? p.ldat : p.lda;
    kernel_bench(timer, &(timed_case){by_columns ? "A by columns" : "A by rows", (timed_kernel *)t.kernel, run_product, &t, 2.0 * M * N * K, TIMED_OPERATIONS});
  }
  enum { WORDS = K / 2 };
  uint32_t *a = calloc(M * WORDS, 4), *at = calloc(M * WORDS, 4), *b = calloc((size_t)(embed__strips(N) * EMBED__STRIP * WORDS), 4);
  round_all(&p);
  words_of(&p, a, at, b);
  for (int by_columns = 0; by_columns < 2; ++by_columns) {
    timed_product t = {by_columns ? k->gemm.pairs_by_columns : k->gemm.pairs_by_rows, {.m = M, .n = N, .k = WORDS, .b = b, .c = c, .ldc = N}};
    t.g.a = by_columns ? at : a;
    t.g.lda = by_columns ? M : WORDS;
    kernel_bench(
        timer, &(timed_case){by_columns ? "pairs, A by columns" : "pairs, A by rows", (timed_kernel *)t.kernel, run_product, &t, 2.0 * M * N * K, TIMED_PAIRS});
  }
  free(a), free(at), free(b);
  let_go(&p);
}
KERNEL_CASES(time_matrices)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(products_are_right_at_every_level_and_stay_inside_c),
    cmocka_unit_test(a_sums_order_does_not_depend_on_its_neighbours),
    cmocka_unit_test(vector_levels_have_the_same_bits),
    cmocka_unit_test(pairs_of_bfloats_have_the_bits_of_rounded_floats_but_in_tiles),
    cmocka_unit_test(a_sum_of_pairs_does_not_depend_on_its_neighbours),
    cmocka_unit_test(sums_of_pairs_below_the_least_normal_number_may_be_0),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("gemm", tests, time_matrices)
