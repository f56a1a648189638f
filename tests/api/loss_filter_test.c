/* SPDX-License-Identifier: BSD-3-Clause */
/* What cross-entropy's backward part does otherwise when it is asked to: small slopes left out, within the bound of the header, and sums over
 * chunks that carry their rounding errors along. */
#include "counting.h"
#include "loss.h"

/* The first half of the classes is the less probable the lower their numbers are, and nobody's target. */
static problem peaked(int64_t vocab, int64_t dim, int64_t n, uint64_t seed) {
  problem p = problem_new(vocab, dim, n, seed);
  p.up = random_floats(n, 2, &seed);
  p.bias = random_floats(vocab, 1, &seed);
  for (int64_t v = 0; v < vocab / 2; ++v) p.bias[v] -= 24 * (1 - 2 * (float)v / (float)vocab);
  for (int64_t i = 0; i < n; ++i)
    if (i % 7 != 6) p.targets[i] = (int32_t)(vocab / 2 + p.targets[i] / 2);
  return p;
}

static double length_of(const float *a, const float *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += ((double)a[i] - (b ? (double)b[i] : 0)) * ((double)a[i] - (b ? (double)b[i] : 0));
  return sqrt(sum);
}

static void filtered_gradients_are_within_the_stated_bound(void **state) {
  enum { VOCAB = 3001, DIM = 40, N = 300 };
  static const double filters[3] = {1e-5, 1e-3, 0.1};
  (void)state;
  for (int scaled = 0; scaled < 2; ++scaled) {
    problem p = peaked(VOCAB, DIM, N, 3);
    embed_context *ctx = context_new();
    if (scaled) p.scale = 1.5f, p.cap = 25, p.o.z_loss = 1e-4;
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    training exact = train(ctx, &p, h);
    double of_rows = 0, of_hidden = 0, of_up = 0;
    int dropped_before = -1;
    for (int64_t v = 0; v < VOCAB; ++v) of_rows += length_of(p.w + v * DIM, NULL, DIM);
    for (int64_t i = 0; i < N; ++i) {
      of_hidden += i % 7 == 6 ? 0 : fabs((double)p.up[i]) * length_of(p.x + i * DIM, NULL, DIM);
      of_up += i % 7 == 6 ? 0 : fabs((double)p.up[i]);
    }
    for (int k = 0; k < 3; ++k) {
      const double e = filters[k] * fabs((double)p.scale), rounding = 1e-5;
      p.o.gradient_filter = filters[k];
      training t = train(ctx, &p, h);
      int dropped = 0;
      assert_same_bits(t.loss, exact.loss, N * 4);
      for (int64_t i = 0; i < N; ++i)
        assert_true(length_of(t.dx + i * DIM, exact.dx + i * DIM, DIM) <=
                    e * fabs((double)p.up[i]) * of_rows + rounding * length_of(exact.dx + i * DIM, NULL, DIM));
      for (int64_t v = 0; v < VOCAB; ++v) {
        assert_true(length_of(t.dw + v * DIM, exact.dw + v * DIM, DIM) <= e * of_hidden + rounding * length_of(exact.dw + v * DIM, NULL, DIM));
        assert_true(fabs((double)t.db[v] - (double)exact.db[v]) <= e * of_up + rounding * fabs((double)exact.db[v]));
        dropped += test_all_bytes(t.dw + v * DIM, DIM * 4, 0);
      }
      print_message("filter %g: %d of %d rows without gradient\n", filters[k], dropped, (int)VOCAB);
      assert_true(dropped > dropped_before);
      dropped_before = dropped;
      training_free(&t);
    }
    assert_true(dropped_before > VOCAB / 4);
    training_free(&exact);
    embed_head_release(h);
    embed_context_release(ctx);
    problem_free(&p);
  }
}

static void a_filter_that_drops_nothing_changes_no_bit_and_threads_none(void **state) {
  enum { VOCAB = 3001, DIM = 40, N = 300 };
  static const int32_t threads[3] = {1, 2, 7};
  problem p = problem_new(VOCAB, DIM, N, 3), q = peaked(VOCAB, DIM, N, 3);
  training first[2] = {{0}, {0}};
  (void)state;
  for (int k = 0; k < 3; ++k) {
    embed_context *ctx = context_with(NULL, threads[k]);
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p)), *peaks = head_of(ctx, &q, table_of(ctx, &q));
    p.o.gradient_filter = k ? 1e-12 : 0; /* probabilities are about 1 / 3000 */
    q.o.gradient_filter = 1e-3;
    training t[2] = {train(ctx, &p, h), train(ctx, &q, peaks)};
    for (int i = 0; i < 2; ++i) {
      if (k == 0) {
        first[i] = t[i];
        continue;
      }
      assert_same_bits(t[i].loss, first[i].loss, N * 4);
      assert_same_bits(t[i].dx, first[i].dx, N * DIM * 4);
      assert_same_bits(t[i].dw, first[i].dw, VOCAB * DIM * 4);
      training_free(&t[i]);
    }
    embed_head_release(h), embed_head_release(peaks);
    embed_context_release(ctx);
  }
  training_free(&first[0]), training_free(&first[1]);
  problem_free(&p), problem_free(&q);
}

/* All slopes of some segments are left out: their part of d_hidden is 0 and not what scratch held. */
static void a_filter_that_drops_nearly_all_leaves_the_targets(void **state) {
  enum { VOCAB = 3001, DIM = 40, N = 5 };
  problem p = problem_new(VOCAB, DIM, N, 3);
  embed_context *ctx = context_new();
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  (void)state;
  p.o.reduction = EMBED_REDUCE_SUM;
  for (int again = 0; again < 2; ++again) {
    p.o.gradient_filter = again ? 0.5 : 0; /* scratch is full of numbers the second time */
    training t = train(ctx, &p, h);
    for (int64_t i = 0; again && i < N; ++i) {
      double want[DIM], most = 0;
      const float *row = p.w + p.targets[i] * DIM;
      for (int j = 0; j < DIM; ++j) want[j] = (exp(-(double)t.loss[i]) - 1) * (double)row[j];
      for (int j = 0; j < DIM; ++j) most = fmax(most, fabs((double)t.dx[i * DIM + j] - want[j]));
      assert_true(most <= 24.0 * N / VOCAB); /* neighbours of targets stay as well */
    }
    training_free(&t);
  }
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

/* A gradient of 4096 and what 30 chunks add to it. */
static void kahans_sums_are_right_to_one_unit(void **state) {
  enum { VOCAB = 50, DIM = 8, N = 256 * 30 };
  const float start = 4096, unit = 4.8828125e-4f;
  problem p = problem_new(VOCAB, DIM, N, 3);
  embed_context *ctx = context_with(NULL, 2);
  double worst[2] = {0, 0};
  uint64_t seed = 8;
  (void)state;
  p.bias = random_floats(VOCAB, 1, &seed);
  p.up = random_floats(N, 0.01f, &seed);
  answer want = answer_in_double(&p);
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  for (int way = 0; way < 4; ++way) {
    const bool kahan = way & 1, later = way & 2;
    embed_grad *g = NULL;
    float dw[VOCAB * DIM], *lse = zeroed(N, 4);
    for (int i = 0; i < VOCAB * DIM; ++i) dw[i] = start;
    p.o.flags = kahan ? EMBED_LOSS_KAHAN : 0;
    OK(embed_grad_create_dense(ctx, VOCAB, DIM, dw, 0, &g));
    if (later) {
      OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, N, 0, p.targets, NULL, lse, &p.o));
      OK(embed_cross_entropy_backward(ctx, h, p.x, EMBED_F32, N, 0, p.targets, lse, p.up, NULL, 0, dw, 0, &p.o));
    } else {
      OK(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, N, 0, p.targets, p.up, NULL, NULL, NULL, EMBED_F32, 0, g, &p.o));
      for (int v = 0; v < VOCAB; ++v) assert_true(fabs((double)embed_grad_bias(g)[v] - want.db[v]) <= 1e-5 * fmax(0.01, fabs(want.db[v])));
    }
    for (int i = 0; i < VOCAB * DIM; ++i) worst[kahan] = fmax(worst[kahan], fabs((double)dw[i] - ((double)start + want.dw[i])));
    free(lse);
    embed_grad_release(g);
  }
  print_message("off by %.2f units, with Kahan's sums by %.2f\n", worst[0] / (double)unit, worst[1] / (double)unit);
  assert_true(worst[1] <= (double)unit);
  assert_true(worst[0] > 2 * worst[1]);
  answer_free(&want);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

static void kahans_sums_and_the_filter_go_together_for_any_threads(void **state) {
  enum { VOCAB = 3001, DIM = 40, N = 600 };
  static const int32_t threads[3] = {1, 2, 7};
  problem p = peaked(VOCAB, DIM, N, 3);
  training first = {0};
  (void)state;
  for (int k = 0; k < 4; ++k) {
    embed_context *ctx = context_with(NULL, threads[k % 3]);
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    p.o.gradient_filter = 1e-4;
    p.o.flags = k < 3 ? EMBED_LOSS_KAHAN : 0;
    training t = train(ctx, &p, h);
    if (k == 0) first = t;
    if (k == 1 || k == 2) {
      assert_same_bits(t.dw, first.dw, VOCAB * DIM * 4);
      assert_same_bits(t.db, first.db, VOCAB * 4);
    }
    if (k == 3) {
      double *dw = doubles_of(first.dw, VOCAB * DIM);
      CLOSE(t.dw, dw, VOCAB * DIM, 1e-6);
      free(dw);
    }
    assert_same_bits(t.dx, first.dx, N * DIM * 4);
    if (k) training_free(&t);
    embed_head_release(h);
    embed_context_release(ctx);
  }
  training_free(&first);
  problem_free(&p);
}

static void options_that_mean_nothing_are_refused(void **state) {
  static const double wrong[4] = {-1e-6, 1.5, (double)NAN, (double)INFINITY};
  problem p = problem_new(11, 5, 8, 3);
  embed_context *ctx = context_new();
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  float loss[8];
  (void)state;
  memset(loss, 0xA5, sizeof loss);
  for (int k = 0; k < 4; ++k) {
    p.o.gradient_filter = wrong[k];
    assert_int_equal(embed_cross_entropy(ctx, h, p.x, EMBED_F32, 8, 0, p.targets, loss, NULL, &p.o), EMBED_E_OPTION);
    assert_int_equal(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, 8, 0, p.targets, NULL, loss, NULL, NULL, EMBED_F32, 0, NULL, &p.o), EMBED_E_OPTION);
  }
  assert_true(test_all_bytes(loss, sizeof loss, 0xA5));
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

static void every_failed_allocation_leaves_the_gradient(void **state) {
  enum { VOCAB = 300, DIM = 24, N = 600 };
  problem p = peaked(VOCAB, DIM, N, 5);
  counting c;
  (void)state;
  p.o.gradient_filter = 1e-4;
  p.o.flags = EMBED_LOSS_KAHAN;
  for (int k = 0;; ++k) {
    counting_start(&c);
    embed_context *ctx = counting_context(&c, NULL);
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    embed_grad *g = NULL;
    OK(embed_grad_create(ctx, DIM, &g));
    embed_context_trim(ctx);
    atomic_store(&c.fail_at, k);
    const embed_status status = embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, N, 0, p.targets, NULL, NULL, NULL, NULL, EMBED_F32, 0, g, &p.o);
    const bool failed = atomic_exchange(&c.fail_at, -1) < 0;
    assert_int_equal(status, failed ? EMBED_E_MEMORY : EMBED_OK);
    assert_int_equal(embed_grad_rows(g), failed ? 0 : VOCAB);
    embed_grad_release(g);
    embed_head_release(h);
    embed_context_release(ctx);
    counting_check(&c);
    if (!failed) break;
  }
  problem_free(&p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(filtered_gradients_are_within_the_stated_bound),
    cmocka_unit_test(a_filter_that_drops_nothing_changes_no_bit_and_threads_none),
    cmocka_unit_test(a_filter_that_drops_nearly_all_leaves_the_targets),
    cmocka_unit_test(kahans_sums_are_right_to_one_unit),
    cmocka_unit_test(kahans_sums_and_the_filter_go_together_for_any_threads),
    cmocka_unit_test(options_that_mean_nothing_are_refused),
    cmocka_unit_test(every_failed_allocation_leaves_the_gradient),
};
TEST_MAIN(tests)
