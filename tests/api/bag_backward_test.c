/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients of bags: known answers, a float64 model of every mode, the same bits everywhere, and what is refused. */
#include "gather.h"

enum { MODES = EMBED_BAG_MIN + 1 };

static bool is_extreme(embed_bag_mode mode) { return mode == EMBED_BAG_MAX || mode == EMBED_BAG_MIN; }

static embed_grad *dense_new(embed_context *ctx, int64_t rows, int64_t dim) {
  embed_grad *g = NULL;
  OK(embed_grad_create_dense(ctx, rows, dim, NULL, 0, &g));
  return g;
}

/* A3: rows 1 .. 3 of the gradient, and that of the weights. */
static void known_answers_of_every_torch_mode(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const float w[] = {1, 2, 3, 4, -5, 6, .5f, .25f, -.125f, 10, 20, -30}, d[] = {1, 1, 1, 100, 100, 100, 1, 2, 3}, psw[] = {.5f, 2, -1, .25f};
  const int64_t ids[] = {1, 2, 1, 3}, offsets[] = {0, 3, 3, 4};
  const struct {
    embed_bag_mode mode;
    bool weighted;
    float want[9];
  } cases[] = {{EMBED_BAG_SUM, false, {2, 2, 2, 1, 1, 1, 1, 2, 3}},
               {EMBED_BAG_MEAN, false, {2 / 3.f, 2 / 3.f, 2 / 3.f, 1 / 3.f, 1 / 3.f, 1 / 3.f, 1, 2, 3}},
               {EMBED_BAG_MAX, false, {1, 0, 1, 0, 1, 0, 1, 2, 3}},
               {EMBED_BAG_MIN, false, {0, 1, 0, 1, 0, 1, 1, 2, 3}},
               {EMBED_BAG_SUM, true, {-.5f, -.5f, -.5f, 2, 2, 2, .25f, .5f, .75f}}};
  embed_table *t = view_floats(ctx, w, 4, 3);
  for (int c = 0; c < COUNT(cases); ++c) {
    embed_bag_options o = {.size = sizeof o, .mode = cases[c].mode};
    embed_grad *g = NULL;
    float d_weights[4] = {NAN, NAN, NAN, NAN};
    OK(embed_grad_create(ctx, 3, &g));
    OK(embed_bag_backward(ctx, g, t, ids, 4, offsets, 3, cases[c].weighted ? psw : NULL, d, EMBED_F32, 0, cases[c].weighted ? d_weights : NULL, &o));
    assert_int_equal(embed_grad_rows(g), 3);
    for (int i = 0; i < 3; ++i) assert_int_equal(embed_grad_ids(g)[i], i + 1);
    for (int i = 0; i < 9; ++i) assert_near(embed_grad_values(g)[i], cases[c].want[i], 1e-7f);
    if (cases[c].weighted) {
      const float want[] = {5, .625f, 5, -40};
      for (int i = 0; i < 4; ++i) assert_exactly(d_weights[i], want[i]);
    }
    embed_grad_release(g);
  }
  /* padding is no part of a bag: row 2 alone */
  embed_bag_options o = {.size = sizeof o, .mode = EMBED_BAG_MEAN, .flags = EMBED_LOOKUP_PADDING, .padding_id = 1};
  embed_grad *g = dense_new(ctx, 4, 3);
  float d_weights[4] = {NAN, NAN, NAN, NAN};
  OK(embed_bag_backward(ctx, g, t, ids, 4, offsets, 3, NULL, d, EMBED_F32, 0, d_weights, &o));
  for (int c = 0; c < 3; ++c) {
    assert_exactly(embed_grad_values(g)[3 + c], 0);
    assert_exactly(embed_grad_values(g)[6 + c], 1);
  }
  assert_true(d_weights[0] == 0 && d_weights[1] == .625f && d_weights[2] == 0 && d_weights[3] == -40);
  embed_grad_release(g);
  embed_table_release(t);
  embed_context_release(ctx);
}

/* pytorch#190063: ids [1, 1, 3] by frequency give [0, 1, 0, 1]. */
static void by_frequency_counts_positions_of_all_bags(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const float w[4] = {0}, d[] = {1, 1};
  const int64_t ids[] = {1, 1, 3}, offsets[] = {0, 1, 3};
  embed_table *t = view_floats(ctx, w, 4, 1);
  for (int mode = EMBED_BAG_SUM; mode <= EMBED_BAG_MEAN; ++mode) {
    embed_bag_options o = {.size = sizeof o, .mode = mode, .flags = EMBED_BACKWARD_BY_FREQUENCY};
    embed_grad *g = dense_new(ctx, 4, 1);
    OK(embed_bag_backward(ctx, g, t, ids, 3, offsets, 2, NULL, d, EMBED_F32, 0, NULL, &o));
    const float want[2][4] = {{0, 1, 0, 1}, {0, .75f, 0, .5f}};
    for (int i = 0; i < 4; ++i) assert_exactly(embed_grad_values(g)[i], want[mode][i]);
    embed_grad_release(g);
  }
  embed_table_release(t);
  embed_context_release(ctx);
}

typedef struct model {
  embed_bag_mode mode;
  int64_t n, bags, vocab, dim, padding;
  const int64_t *ids, *offsets;
  const float *d;
} model;

/* sum of d * out in float64: ids past the vocabulary are rows of zeros. */
static double loss_of(const model *m, const double *w, const double *weights) {
  double loss = 0;
  for (int64_t b = 0; b < m->bags; ++b) {
    double number = 0, sum = 0, squares = 0;
    for (int64_t j = m->offsets[b]; j < m->offsets[b + 1]; ++j) {
      if (m->ids[j] == m->padding) continue;
      number += 1;
      sum += weights[j];
      squares += weights[j] * weights[j];
    }
    double by = m->mode == EMBED_BAG_MEAN ? number : m->mode == EMBED_BAG_WEIGHTED_MEAN ? sum : m->mode == EMBED_BAG_SQRT_N ? sqrt(squares) : 1;
    if (number == 0 || by == 0) continue;
    for (int64_t c = 0; c < m->dim; ++c) {
      double pooled = is_extreme(m->mode) ? NAN : 0;
      for (int64_t j = m->offsets[b]; j < m->offsets[b + 1]; ++j) {
        if (m->ids[j] == m->padding) continue;
        double x = m->ids[j] < m->vocab ? w[m->ids[j] * m->dim + c] : 0;
        if (!is_extreme(m->mode))
          pooled += weights[j] * x;
        else if (isnan(pooled) || (m->mode == EMBED_BAG_MAX ? x > pooled : x < pooled))
          pooled = x;
      }
      loss += (double)m->d[b * m->dim + c] * pooled / by;
    }
  }
  return loss;
}

enum { N = 23, BAGS = 5, VOCAB = 9, DIM = 4, PADDING = 3 };

/* Central differences of the model against both gradients, of sparse and dense. */
static void gradients_are_those_of_a_float64_model(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const int64_t offsets[BAGS + 1] = {0, 6, 6, 7, 15, N};
  uint64_t random = 11;
  int64_t ids[N];
  float w[VOCAB * DIM], d[BAGS * DIM], weights[N];
  double exact[VOCAB * DIM], weights_exact[N];
  for (int i = 0; i < N; ++i) ids[i] = (int64_t)(test_random(&random) >> 33) % (VOCAB + 1); /* VOCAB: a row of zeros */
  for (int i = 0; i < VOCAB * DIM; ++i) exact[i] = (double)(w[i] = test_uniform(&random));
  for (int i = 0; i < BAGS * DIM; ++i) d[i] = test_uniform(&random);
  embed_table *t = view_floats(ctx, w, VOCAB, DIM);
  for (int mode = 0; mode < MODES; ++mode)
    for (int weighted = 0; weighted < (is_extreme(mode) ? 1 : 2); ++weighted) {
      const model m = {mode, N, BAGS, VOCAB, DIM, PADDING, ids, offsets, d};
      embed_bag_options o = {.size = sizeof o, .mode = mode, .flags = EMBED_LOOKUP_PADDING, .padding_id = PADDING, .oov = EMBED_OOV_ZERO};
      embed_grad *g = dense_new(ctx, VOCAB, DIM);
      float d_weights[N];
      for (int i = 0; i < N; ++i) weights_exact[i] = (double)(weights[i] = weighted ? 0.2f + fabsf(test_uniform(&random)) : 1.0f);
      OK(embed_bag_backward(ctx, g, t, ids, N, offsets, BAGS, weighted ? weights : NULL, d, EMBED_F32, 0, is_extreme(mode) ? NULL : d_weights, &o));
      const double h = 1e-5;
      for (int i = 0; i < VOCAB * DIM; ++i) {
        double at = exact[i];
        exact[i] = at + h;
        double up = loss_of(&m, exact, weights_exact);
        exact[i] = at - h;
        double slope = (up - loss_of(&m, exact, weights_exact)) / (2 * h);
        exact[i] = at;
        assert_near(embed_grad_values(g)[i], (float)slope, 1e-5f);
      }
      for (int i = 0; i < N && !is_extreme(mode); ++i) {
        double at = weights_exact[i];
        weights_exact[i] = at + h;
        double up = loss_of(&m, exact, weights_exact);
        weights_exact[i] = at - h;
        double slope = (up - loss_of(&m, exact, weights_exact)) / (2 * h);
        weights_exact[i] = at;
        assert_near(d_weights[i], (float)slope, 1e-5f);
      }
      embed_grad_release(g);
    }
  embed_table_release(t);
  embed_context_release(ctx);
}

static void the_first_of_equals_and_the_first_nan_get_a_maximums_gradient(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const float w[] = {1, 5, 2, NAN, 4, 2, 1, 5, NAN}, d[] = {10, 20, 30};
  const int64_t ids[] = {0, 1, 2}, offsets[] = {0, 3};
  embed_table *t = view_floats(ctx, w, 3, 3);
  embed_grad *g = NULL;
  OK(embed_grad_create(ctx, 3, &g));
  embed_bag_options o = {.size = sizeof o, .mode = EMBED_BAG_MAX};
  OK(embed_bag_backward(ctx, g, t, ids, 3, offsets, 1, NULL, d, EMBED_F32, 0, NULL, &o));
  const float want[] = {0, 20, 0, 10, 0, 0, 0, 0, 30};
  assert_int_equal(embed_grad_rows(g), 3); /* a row without a maximum is there, with zeros */
  for (int i = 0; i < 9; ++i) assert_exactly(embed_grad_values(g)[i], want[i]);
  embed_grad_clear(g);
  o.flags = EMBED_LOOKUP_PADDING; /* the winner is a row of zeros: nobody's gradient */
  o.padding_id = 0;
  o.oov = EMBED_OOV_ZERO;
  const float below[] = {-1, -2, -3};
  embed_table *negative = view_floats(ctx, below, 1, 3);
  OK(embed_bag_backward(ctx, g, negative, (const int64_t[]){5, 0}, 2, (const int64_t[]){0, 2}, 1, NULL, d, EMBED_F32, 0, NULL, &o));
  assert_int_equal(embed_grad_rows(g), 0);
  o.flags = 0;
  OK(embed_bag_backward(ctx, g, negative, (const int64_t[]){5, 0}, 2, (const int64_t[]){0, 2}, 1, NULL, d, EMBED_F32, 0, NULL, &o));
  for (int i = 0; i < 3; ++i) assert_exactly(embed_grad_values(g)[i], 0);
  embed_table_release(negative);
  embed_table_release(t);
  embed_grad_release(g);
  embed_context_release(ctx);
}

static void weights_that_sum_to_zero_have_no_gradient(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const float w[] = {1, 2}, weights[] = {1, -1}, d[] = {3};
  embed_table *t = view_floats(ctx, w, 2, 1);
  embed_grad *g = dense_new(ctx, 2, 1);
  embed_bag_options o = {.size = sizeof o, .mode = EMBED_BAG_WEIGHTED_MEAN};
  float d_weights[] = {7, 7};
  OK(embed_bag_backward(ctx, g, t, (const int64_t[]){0, 1}, 2, (const int64_t[]){0, 2}, 1, weights, d, EMBED_F32, 0, d_weights, &o));
  for (int i = 0; i < 2; ++i) {
    assert_exactly(embed_grad_values(g)[i], 0);
    assert_exactly(d_weights[i], 0);
  }
  embed_table_release(t);
  embed_grad_release(g);
  embed_context_release(ctx);
}

/* Tables of several dtypes, upstream rows of every dtype at the end of readable memory. */
static void every_mode_gives_the_same_bits_at_every_level_and_thread_count(void **state) {
  (void)state;
  enum { IDS = 2000, LISTS = 310, ROWS = 500, COLUMNS = 96 };
  static const embed_dtype stored[] = {EMBED_F32, EMBED_BF16, EMBED_I8_ROW};
  embed_context *all[CONTEXTS];
  int contexts = contexts_new(all);
  static int64_t ids[IDS], offsets[LISTS + 1];
  static float weights[IDS], d_weights[2][IDS], values[2][ROWS * COLUMNS];
  uint64_t random = 21;
  for (int i = 0; i < IDS; ++i) {
    ids[i] = (int64_t)(test_random(&random) >> 33) % ROWS;
    weights[i] = test_uniform(&random);
  }
  for (int b = 1; b < LISTS; ++b) offsets[b] = offsets[b - 1] + (int64_t)(test_random(&random) >> 33) % 13 * (offsets[b - 1] < IDS - 13);
  offsets[LISTS] = IDS;
  for (int s = 0; s < COUNT(stored); ++s) {
    test_table t = table_new(all[0], stored[s], ROWS, COLUMNS, 0, 3);
    embed_dtype dtype = float_dtypes[s];
    guarded d = guarded_new((size_t)(LISTS * COLUMNS * size_of(dtype)), 1);
    for (int64_t i = 0; i < LISTS * COLUMNS * size_of(dtype) / 2; ++i) {
      uint16_t half = (uint16_t)(0x3C00u + (test_random(&random) >> 56)); /* small numbers in every dtype */
      memcpy(d.at + 2 * i, &half, 2);
    }
    for (int mode = 0; mode < MODES; ++mode)
      for (int c = 0; c < contexts; ++c) {
        int k = c > 0;
        embed_grad *g = dense_new(all[c], ROWS, COLUMNS);
        embed_bag_options o = {.size = sizeof o, .mode = mode};
        OK(embed_bag_backward(all[c], g, t.t, ids, IDS, offsets, LISTS, is_extreme(mode) ? NULL : weights, d.at, dtype, 0,
                              is_extreme(mode) ? NULL : d_weights[k], &o));
        memcpy(values[k], embed_grad_values(g), sizeof values[k]);
        if (k) {
          assert_same_bits(values[1], values[0], sizeof values[0]);
          assert_same_bits(d_weights[1], d_weights[0], sizeof d_weights[0]);
        }
        embed_grad_release(g);
      }
    guarded_free(d);
    table_free(t);
  }
  contexts_free(all, contexts);
}

static void what_is_no_bag_is_refused_and_changes_nothing(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const float w[6] = {1, 2, 3, 4, 5, 6}, d[4] = {1, 1, 1, 1}, weights[3] = {1, 1, 1};
  const int64_t ids[] = {0, 1, 2}, offsets[] = {0, 1, 3};
  float d_weights[3];
  embed_table *t = view_floats(ctx, w, 3, 2);
  embed_grad *g = NULL, *short_one = dense_new(ctx, 2, 2), *wide = dense_new(ctx, 3, 3);
  OK(embed_grad_create(ctx, 2, &g));
  memset(d_weights, 0xA5, sizeof d_weights);
#define REFUSED(error, call) assert_int_equal((call), (error))
  REFUSED(EMBED_E_ID, embed_bag_backward(ctx, g, t, (const int64_t[]){0, 1, 3}, 3, offsets, 2, NULL, d, EMBED_F32, 0, d_weights, NULL));
  assert_int_equal(embed_error_at(ctx), 2);
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, ids, 3, (const int64_t[]){0, 2, 1}, 2, NULL, d, EMBED_F32, 0, d_weights, NULL));
  assert_int_equal(embed_error_at(ctx), 2);
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, ids, 3, (const int64_t[]){1, 2, 3}, 2, NULL, d, EMBED_F32, 0, d_weights, NULL));
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, ids, 3, (const int64_t[]){0, 2, 2}, 2, NULL, d, EMBED_F32, 0, d_weights, NULL));
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, ids, 3, NULL, 2, NULL, d, EMBED_F32, 0, d_weights, NULL));
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, ids, 3, offsets, 0, NULL, d, EMBED_F32, 0, d_weights, NULL));
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, NULL, 3, offsets, 2, NULL, d, EMBED_F32, 0, d_weights, NULL));
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, ids, -3, offsets, 2, NULL, d, EMBED_F32, 0, d_weights, NULL));
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, ids, 3, offsets, -2, NULL, d, EMBED_F32, 0, d_weights, NULL));
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, ids, 3, offsets, 2, NULL, NULL, EMBED_F32, 0, d_weights, NULL));
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, ids, 3, offsets, 2, NULL, d, EMBED_F64, 0, d_weights, NULL));
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, ids, 3, offsets, 2, NULL, d, EMBED_F32, 1, d_weights, NULL));
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, NULL, ids, 3, offsets, 2, NULL, d, EMBED_F32, 0, d_weights, NULL));
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, NULL, t, ids, 3, offsets, 2, NULL, d, EMBED_F32, 0, NULL, NULL));
  REFUSED(EMBED_E_MISMATCH, embed_bag_backward(ctx, short_one, t, ids, 3, offsets, 2, NULL, d, EMBED_F32, 0, d_weights, NULL));
  REFUSED(EMBED_E_MISMATCH, embed_bag_backward(ctx, wide, t, ids, 3, offsets, 2, NULL, d, EMBED_F32, 0, d_weights, NULL));
  embed_bag_options o = {.size = sizeof o, .mode = EMBED_BAG_MAX};
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, ids, 3, offsets, 2, weights, d, EMBED_F32, 0, NULL, &o));
  REFUSED(EMBED_E_ARGUMENT, embed_bag_backward(ctx, g, t, ids, 3, offsets, 2, NULL, d, EMBED_F32, 0, d_weights, &o));
  o.mode = 6;
  REFUSED(EMBED_E_OPTION, embed_bag_backward(ctx, g, t, ids, 3, offsets, 2, NULL, d, EMBED_F32, 0, d_weights, &o));
  o = (embed_bag_options){.size = sizeof o, .oov = EMBED_OOV_UNK, .unk_id = -1};
  REFUSED(EMBED_E_OPTION, embed_bag_backward(ctx, g, t, ids, 3, offsets, 2, NULL, d, EMBED_F32, 0, d_weights, &o));
  OK(embed_bag_backward(ctx, g, t, NULL, 0, NULL, 0, NULL, NULL, EMBED_F32, 0, d_weights, NULL));
  OK(embed_bag_backward(ctx, g, t, NULL, 0, (const int64_t[]){0, 0}, 1, NULL, d, EMBED_F32, 0, d_weights, NULL));
  assert_int_equal(embed_grad_rows(g), 0);
  assert_true(test_all_bytes(d_weights, sizeof d_weights, 0xA5));
  OK(embed_bag_backward(ctx, NULL, t, ids, 3, offsets, 2, NULL, d, EMBED_F32, 0, d_weights, NULL)); /* the weights' alone */
  assert_true(d_weights[0] == 3 && d_weights[1] == 7 && d_weights[2] == 11);
  embed_grad_release(g);
  embed_grad_release(short_one);
  embed_grad_release(wide);
  embed_table_release(t);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(known_answers_of_every_torch_mode),
    cmocka_unit_test(by_frequency_counts_positions_of_all_bags),
    cmocka_unit_test(gradients_are_those_of_a_float64_model),
    cmocka_unit_test(the_first_of_equals_and_the_first_nan_get_a_maximums_gradient),
    cmocka_unit_test(weights_that_sum_to_zero_have_no_gradient),
    cmocka_unit_test(every_mode_gives_the_same_bits_at_every_level_and_thread_count),
    cmocka_unit_test(what_is_no_bag_is_refused_and_changes_nothing),
};
TEST_MAIN(tests)
