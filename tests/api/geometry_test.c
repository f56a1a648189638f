/* SPDX-License-Identifier: BSD-3-Clause */
/* Norms, nearest rows and analogies on the matrix M8 of the known answers, and against plain double loops. */
#include "test.h"

#include <embed/embed.h>
#include <math.h>

static const float m8[8][3] = {{2, 1, 0}, {1, 2, 0}, {0, 1, 2}, {1, 0, 2}, {-1, 1, 1}, {2, -1, 1}, {0, 0, 1}, {3, 3, 3}};

static embed_context *context(const char *isa, embed_pool *pool) {
  embed_context_options o = {.size = sizeof o, .isa = isa, .pool = pool};
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
  return ctx;
}

static embed_table *view(embed_context *ctx, const float *w, int64_t rows, int64_t dim, int64_t vocab) {
  embed_table_options o = {.size = sizeof o, .vocab = vocab};
  embed_table *t = NULL;
  assert_int_equal(embed_table_view(ctx, w, rows, dim, &o, NULL, NULL, &t), EMBED_OK);
  return t;
}

static void norms_are_the_same_bits_at_every_level(void **state) {
  (void)state;
  enum { ROWS = 700, DIM = 61 };
  static float w[ROWS * DIM], want[ROWS], got[ROWS];
  uint64_t seed = 7;
  for (int i = 0; i < ROWS * DIM; ++i) w[i] = 1e20f * test_uniform(&seed); /* squares past a float's range */
  embed_pool *pool = NULL;
  assert_int_equal(embed_pool_create(3, &pool), EMBED_OK);
  embed_context *scalar = context("scalar", NULL);
  embed_table *t = view(scalar, w, ROWS, DIM, ROWS - 1);
  assert_int_equal(embed_norms(scalar, t, want), EMBED_OK);
  for (int r = 0; r < ROWS - 1; ++r) {
    double sum = 0;
    for (int j = 0; j < DIM; ++j) sum += (double)w[r * DIM + j] * (double)w[r * DIM + j];
    assert_true(fabs((double)want[r] - sqrt(sum)) <= 1e-7 * sqrt(sum));
  }
  static const char *const levels[] = {TEST_LEVELS, NULL};
  for (size_t l = 0; l < sizeof levels / sizeof *levels; ++l) {
    embed_context *ctx = context(levels[l], pool);
    memset(got, 0xA5, sizeof got);
    assert_int_equal(embed_norms(ctx, t, got), EMBED_OK);
    assert_memory_equal(got, want, (ROWS - 1) * sizeof *got);
    assert_true(test_all_bytes(&got[ROWS - 1], sizeof *got, 0xA5)); /* the padding row */
    embed_context_release(ctx);
  }
  embed_table_release(t);
  embed_context_release(scalar);
  embed_pool_release(pool);
}

static void nearest_of_m8_by_cosine(void **state) {
  (void)state;
  /* Cosines to b - a + c of unit rows with a = 4, b = 0, c = 1. */
  const double cosines[8] = {.959640181, .718868474, -.081406117, .159365589, -.466252404, .47517045, -.269190951, .56689765};
  const int order[8] = {0, 1, 7, 5, 3, 2, 6, 4};
  embed_context *ctx = context(NULL, NULL);
  embed_table *t = view(ctx, &m8[0][0], 8, 3, 0);
  float q[3] = {0}, scores[8];
  int32_t ids[8], count;
  for (int j = 0; j < 3; ++j) {
    const int abc[3] = {4, 0, 1};
    for (int k = 0; k < 3; ++k) {
      const float *row = m8[abc[k]];
      double norm = sqrt((double)(row[0] * row[0] + row[1] * row[1] + row[2] * row[2]));
      q[j] += (float)((k == 0 ? -1 : 1) * (double)row[j] / norm);
    }
  }
  assert_int_equal(embed_nearest(ctx, t, q, 1, 0, 8, NULL, 0, ids, scores, &count, NULL), EMBED_OK);
  assert_int_equal(count, 8);
  for (int i = 0; i < 8; ++i) {
    assert_int_equal(ids[i], order[i]);
    assert_true(fabs((double)scores[i] - cosines[order[i]]) < 1e-6);
  }
  embed_table_release(t);
  embed_context_release(ctx);
}

static void analogy_leaves_its_three_words_out(void **state) {
  (void)state;
  embed_context *ctx = context(NULL, NULL);
  embed_table *t = view(ctx, &m8[0][0], 8, 3, 0);
  const int32_t abc[3] = {4, 0, 1};
  int32_t ids[8], count;
  float scores[8];
  assert_int_equal(embed_analogy(ctx, t, abc, 1, 8, ids, scores, &count, NULL), EMBED_OK);
  assert_int_equal(count, 5);
  const int32_t want[8] = {7, 5, 3, 2, 6, -1, -1, -1};
  assert_memory_equal(ids, want, sizeof want);
  assert_true(fabs((double)scores[0] - .56689765) < 1e-6);
  assert_true(scores[7] == -INFINITY);
  const int32_t bad[6] = {4, 0, 1, 2, 8, 3};
  memset(ids, 0xA5, sizeof ids);
  assert_int_equal(embed_analogy(ctx, t, bad, 2, 4, ids, scores, NULL, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 4);
  assert_true(test_all_bytes(ids, sizeof ids, 0xA5));
  embed_table_release(t);
  embed_context_release(ctx);
}

/* The three are made unit vectors: what they were times does not count, not even where 1 / norm or the norm is past float. */
static void analogies_know_no_length_of_their_rows(void **state) {
  static const float sizes[] = {1e-38f, 1e-40f, 1e-42f, 1e20f, 1.6e38f};
  const int32_t abc[3] = {4, 0, 1}, want[5] = {7, 5, 3, 2, 6};
  (void)state;
  embed_context *ctx = context(NULL, NULL);
  for (int i = 0; i < 5; ++i)
    for (int of = 0; of < 3; ++of) {
      float w[8][3], scores[5];
      int32_t ids[5], count;
      memcpy(w, m8, sizeof w);
      for (int j = 0; j < 3; ++j) w[abc[of]][j] *= sizes[i];
      embed_table *t = view(ctx, &w[0][0], 8, 3, 0);
      assert_int_equal(embed_analogy(ctx, t, abc, 1, 5, ids, scores, &count, NULL), EMBED_OK);
      assert_int_equal(count, 5);
      assert_memory_equal(ids, want, sizeof want);
      assert_true(fabs((double)scores[0] - .56689765) < (sizes[i] < 1e-41f ? 1e-3 : 1e-5)); /* 1e-42 has 10 bits */
      embed_table_release(t);
    }
  embed_context_release(ctx);
}

static void dot_and_distance_rank_as_written(void **state) {
  (void)state;
  enum { ROWS = 2500, DIM = 7, N = 40, K = 9 };
  static float w[ROWS * DIM], q[N * DIM], scores[N * K], want_z[ROWS];
  static int32_t ids[N * K], exclude[N * 2];
  uint64_t seed = 41;
  for (int i = 0; i < ROWS * DIM; ++i) w[i] = (float)(int)(test_random(&seed) % 9) - 4; /* small integers: many ties */
  for (int i = 0; i < N * DIM; ++i) q[i] = (float)(int)(test_random(&seed) % 9) - 4;
  for (int i = 0; i < N; ++i) {
    exclude[2 * i] = (int32_t)(test_random(&seed) % ROWS);
    exclude[2 * i + 1] = -1;
  }
  embed_pool *pool = NULL;
  assert_int_equal(embed_pool_create(3, &pool), EMBED_OK);
  embed_context *contexts[] = {context(NULL, NULL), context(NULL, pool), context("scalar", pool)};
  for (int c = 0; c < 3; ++c)
    for (int metric = EMBED_METRIC_DOT; metric <= EMBED_METRIC_L2; ++metric) {
      embed_table *t = view(contexts[c], w, ROWS, DIM, 0);
      embed_nearest_options o = {.size = sizeof o, .metric = metric};
      assert_int_equal(embed_nearest(contexts[c], t, q, N, 0, K, exclude, 2, ids, scores, NULL, &o), EMBED_OK);
      for (int i = 0; i < N; ++i) {
        for (int v = 0; v < ROWS; ++v) {
          double sum = 0;
          for (int j = 0; j < DIM; ++j) {
            double a = (double)q[i * DIM + j], b = (double)w[v * DIM + j];
            sum += metric == EMBED_METRIC_DOT ? a * b : (a - b) * (a - b);
          }
          want_z[v] = (float)(metric == EMBED_METRIC_DOT ? sum : sqrt(sum));
        }
        for (int j = 0; j < K; ++j) { /* the best that is left, the lowest id among equals */
          int best = -1;
          for (int v = 0; v < ROWS; ++v) {
            int taken = v == exclude[2 * i];
            for (int p = 0; p < j; ++p) taken |= ids[i * K + p] == v;
            if (taken) continue;
            if (best < 0 || (metric == EMBED_METRIC_DOT ? want_z[v] > want_z[best] : want_z[v] < want_z[best])) best = v;
          }
          assert_int_equal(ids[i * K + j], best);
          assert_true(scores[i * K + j] == want_z[best]);
        }
      }
      embed_table_release(t);
    }
  for (int c = 0; c < 3; ++c) embed_context_release(contexts[c]);
  embed_pool_release(pool);
}

static void zero_rows_and_nan_rows_do_not_win(void **state) {
  (void)state;
  const float w[8] = {0, 0, NAN, 1, -1, -1, 2, 2}, q[2] = {1, 1};
  embed_context *ctx = context(NULL, NULL);
  embed_table *t = view(ctx, w, 4, 2, 0);
  int32_t ids[4], count;
  float scores[4];
  assert_int_equal(embed_nearest(ctx, t, q, 1, 0, 4, NULL, 0, ids, scores, &count, NULL), EMBED_OK);
  assert_int_equal(count, 3); /* a score that is not a number is no answer */
  assert_int_equal(ids[0], 3);
  assert_int_equal(ids[1], 0); /* cosine with a zero row counts as 0 */
  assert_int_equal(ids[2], 2);
  assert_true(scores[1] == 0);
  assert_int_equal(ids[3], -1);
  embed_table_release(t);
  embed_context_release(ctx);
}

/* 1 / norm of a row times that of the query is past float here. */
static void small_rows_have_their_cosines(void **state) {
  static const float norms[] = {1e-15f, 1e-21f, 3e-25f, 1e-40f};
  (void)state;
  embed_context *ctx = context(NULL, NULL);
  for (int i = 0; i < 4; ++i) {
    float rows[3] = {-norms[i], norms[i], 2 * norms[i]}, scores[3];
    int32_t ids[3], count = 0;
    embed_table *t = view(ctx, rows, 3, 1, 3);
    assert_int_equal(embed_nearest(ctx, t, &norms[i], 1, 0, 3, NULL, 0, ids, scores, &count, NULL), EMBED_OK);
    assert_int_equal(count, 3);
    assert_true(ids[2] == 0 && fabsf(scores[2] + 1) < 1e-6f && fabsf(scores[1] - 1) < 1e-6f && fabsf(scores[0] - 1) < 1e-6f);
    embed_table_release(t);
  }
  embed_context_release(ctx);
}

static void bad_calls_are_refused(void **state) {
  (void)state;
  embed_context *ctx = context(NULL, NULL);
  embed_table *t = view(ctx, &m8[0][0], 8, 3, 0);
  int32_t ids[2], exclude[2] = {1, 8};
  float scores[2];
  embed_nearest_options o = {.size = sizeof o, .metric = 9};
  assert_int_equal(embed_norms(ctx, t, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_norms(ctx, NULL, scores), EMBED_E_ARGUMENT);
  assert_int_equal(embed_nearest(ctx, t, &m8[0][0], 1, 0, 2, NULL, 0, ids, scores, NULL, &o), EMBED_E_OPTION);
  assert_int_equal(embed_nearest(ctx, t, &m8[0][0], 1, 0, -1, NULL, 0, ids, scores, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_nearest(ctx, t, NULL, 1, 0, 2, NULL, 0, ids, scores, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_nearest(ctx, t, &m8[0][0], 1, 0, 2, NULL, 0, NULL, scores, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_nearest(ctx, t, &m8[0][0], 1, 0, 2, exclude, 2, ids, scores, NULL, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 1);
  assert_int_equal(embed_nearest(ctx, t, (float *)1, 0, 0, 2, (int32_t *)1, 3, (int32_t *)1, (float *)1, NULL, NULL), EMBED_OK);
  assert_int_equal(embed_analogy(ctx, t, NULL, 1, 2, ids, scores, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_analogy(ctx, t, (int32_t *)1, 0, 2, NULL, NULL, NULL, NULL), EMBED_OK);
  embed_table_release(t);
  embed_context_release(ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(norms_are_the_same_bits_at_every_level), cmocka_unit_test(nearest_of_m8_by_cosine),
      cmocka_unit_test(analogy_leaves_its_three_words_out),     cmocka_unit_test(dot_and_distance_rank_as_written),
      cmocka_unit_test(zero_rows_and_nan_rows_do_not_win),      cmocka_unit_test(bad_calls_are_refused),
      cmocka_unit_test(small_rows_have_their_cosines),          cmocka_unit_test(analogies_know_no_length_of_their_rows),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
