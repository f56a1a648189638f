/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of matrices, against sums in double and against the same sums of another level. */
#include "levels.h"

enum { MOST_M = 40, MOST_N = 70, MOST_K = 530 };

typedef struct matrices {
  int64_t m, n, k;
  float *a, *at; /* [m, k] and [k, m] */
  float *b;      /* strips */
  double *want;  /* [m, n] */
  double *size;  /* sum of |a||b| */
} matrices;

static matrices made(int64_t m, int64_t n, int64_t k, uint64_t *state) {
  matrices p = {.m = m, .n = n, .k = k};
  p.a = calloc((size_t)(m * k) + 1, 4), p.at = calloc((size_t)(m * k) + 1, 4), p.b = calloc((size_t)(embed__strips(n) * EMBED__STRIP * k) + 1, 4);
  p.want = calloc((size_t)(m * n) + 1, 8), p.size = calloc((size_t)(m * n) + 1, 8);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < k; ++j) p.a[i * k + j] = p.at[j * m + i] = test_uniform(state);
  for (int64_t c = 0; c < n; ++c)
    for (int64_t j = 0; j < k; ++j) {
      float b = test_uniform(state);
      p.b[c / EMBED__STRIP * EMBED__STRIP * k + j * EMBED__STRIP + c % EMBED__STRIP] = b;
      for (int64_t i = 0; i < m; ++i) {
        p.want[i * n + c] += (double)p.a[i * k + j] * (double)b;
        p.size[i * n + c] += fabs((double)p.a[i * k + j] * (double)b);
      }
    }
  return p;
}

static void let_go(matrices *p) { free(p->a), free(p->at), free(p->b), free(p->want), free(p->size); }

/* C lies between two unreadable pages, its rows a few floats apart. */
static void check_product(const embed__kernels *k, const matrices *p, bool by_columns, bool add, float *kept) {
  const int64_t ldc = p->n + 3, room = p->m ? (p->m - 1) * ldc + p->n : 0;
  for (int at_end = 0; at_end < 2; ++at_end) {
    guarded g = guarded_new((size_t)room * 4 + 4, at_end);
    float *c = (float *)(void *)g.at + (at_end ? 1 : 0);
    for (int64_t i = 0; i < room; ++i) c[i] = (float)(i % 5);
    embed__gemm product = {
        .m = p->m, .n = p->n, .k = p->k, .a = by_columns ? p->at : p->a, .lda = by_columns ? p->m : p->k, .b = p->b, .c = c, .ldc = ldc, .add = add};
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

static void check_level(const embed__kernels *k) {
  uint64_t state = 1;
  static float by_rows[MOST_M * MOST_N], by_columns[MOST_M * MOST_N];
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) {
    matrices p = made(shapes[s][0], shapes[s][1], shapes[s][2], &state);
    for (int add = 0; add < 2; ++add) {
      check_product(k, &p, false, add, by_rows);
      check_product(k, &p, true, add, by_columns);
      assert_same_bits(by_rows, by_columns, (size_t)(p.m * p.n) * 4);
    }
    let_go(&p);
  }
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
      k->gemm.by_rows(&(embed__gemm){.m = 1, .n = 1, .k = MOST_K, .a = p.a + i * MOST_K, .lda = MOST_K, .b = strip, .c = &one, .ldc = 1});
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(products_are_right_at_every_level_and_stay_inside_c),
    cmocka_unit_test(a_sums_order_does_not_depend_on_its_neighbours),
    cmocka_unit_test(vector_levels_have_the_same_bits),
};
TEST_MAIN(tests)
