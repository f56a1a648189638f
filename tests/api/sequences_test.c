/* SPDX-License-Identifier: BSD-3-Clause */
/* Log-probabilities of sequences: against plain loops in double, gradients against finite differences. */
#include "counting.h"
#include "loss.h"

enum { N = 15, SEQS = 4, VOCAB = 30, DIM = 6 };
static const int64_t offsets[SEQS + 1] = {0, 4, 4, 9, 15}; /* the second is empty; rows 6 and 13 are ignored */
static const float d_out[SEQS] = {0.5f, 3, -2, 1.25f};

static problem sequences(void) {
  uint64_t state = 7;
  problem p = problem_new(VOCAB, DIM, N, 3);
  p.bias = random_floats(VOCAB, 1, &state);
  p.cap = 3;
  p.scale = 1.5f;
  return p;
}

/* sum of d_out[s] * out[s] at these numbers. */
static double total(const void *what, const double *w, const double *b, const double *x, double *out) {
  const problem *p = what;
  double z[VOCAB], slope[VOCAB], sum = 0;
  for (int s = 0; s < SEQS; ++s) {
    double logprob = 0;
    for (int64_t i = offsets[s]; i < offsets[s + 1]; ++i) {
      if (p->targets[i] == ignored_target(p)) continue;
      logits_in_double(p, w, b, x + i * DIM, z, slope);
      logprob += z[p->targets[i]] - logsumexp_of(z, VOCAB);
    }
    if (out) out[s] = logprob;
    sum += (double)d_out[s] * logprob;
  }
  return sum;
}

static embed_status forward(embed_context *ctx, const problem *p, const embed_head *h, float *out, int64_t *counts) {
  return embed_sequence_logprobs(ctx, h, p->x, EMBED_F32, N, 0, p->targets, offsets, SEQS, out, counts, &p->o);
}

static embed_status back(embed_context *ctx, const problem *p, const embed_head *h, float *dx, embed_grad *g) {
  return embed_sequence_logprobs_backward(ctx, h, p->x, EMBED_F32, N, 0, p->targets, offsets, SEQS, d_out, dx, EMBED_F32, 0, g, &p->o);
}

static void sums_and_gradients_are_those_of_the_definition(void **state) {
  (void)state;
  for (int other = 0; other < 2; ++other) {
    problem p = sequences();
    embed_context *ctx = context_new();
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    embed_grad *g = NULL;
    float out[SEQS], dx[N * DIM];
    int64_t counts[SEQS];
    double want[SEQS];
    if (other) p.o.flags = EMBED_LOSS_IGNORE_INDEX, p.o.ignore_index = 2, p.targets[6] = 2, p.targets[13] = 2, p.targets[0] = 2;
    double *dw = differences(total, &p, &p, 0, want), *db = differences(total, &p, &p, 1, NULL), *of_x = differences(total, &p, &p, 2, NULL);
    OK(forward(ctx, &p, h, out, counts));
    CLOSE(out, want, SEQS, 1e-6);
    for (int s = 0; s < SEQS; ++s) {
      int64_t number = 0;
      for (int64_t i = offsets[s]; i < offsets[s + 1]; ++i) number += p.targets[i] != ignored_target(&p);
      assert_int_equal(counts[s], number);
    }
    assert_true(out[1] == 0 && !signbit(out[1]));
    OK(embed_grad_create_dense(ctx, VOCAB, DIM, NULL, 0, &g));
    OK(back(ctx, &p, h, dx, g));
    CLOSE(dx, of_x, N * DIM, 3e-6);
    CLOSE(embed_grad_values(g), dw, VOCAB * DIM, 3e-6);
    CLOSE(embed_grad_bias(g), db, VOCAB, 3e-6);
    assert_true(test_all_bytes(dx + 6 * DIM, DIM * 4, 0));
    OK(forward(ctx, &p, h, out, NULL));
    free(dw), free(db), free(of_x);
    embed_grad_release(g);
    embed_head_release(h);
    embed_context_release(ctx);
    problem_free(&p);
  }
}

static void threads_do_not_change_a_bit(void **state) {
  static const int32_t threads[3] = {1, 2, 7};
  enum { MANY = 300, WORDS = 2003 };
  static const int64_t ends[4] = {0, 100, 180, MANY};
  problem p = problem_new(WORDS, DIM, MANY, 3);
  float out[3][3], *dx[3];
  embed_grad *g[3];
  (void)state;
  for (int k = 0; k < 3; ++k) {
    embed_context *ctx = context_with(NULL, threads[k]);
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    dx[k] = zeroed(MANY * DIM, 4);
    OK(embed_grad_create_dense(ctx, WORDS, DIM, NULL, 0, &g[k]));
    OK(embed_sequence_logprobs(ctx, h, p.x, EMBED_F32, MANY, 0, p.targets, ends, 3, out[k], NULL, NULL));
    OK(embed_sequence_logprobs_backward(ctx, h, p.x, EMBED_F32, MANY, 0, p.targets, ends, 3, d_out, dx[k], EMBED_F32, 0, g[k], NULL));
    assert_same_bits(out[k], out[0], sizeof out[0]);
    assert_same_bits(dx[k], dx[0], MANY * DIM * 4);
    assert_same_bits(embed_grad_values(g[k]), embed_grad_values(g[0]), WORDS * DIM * 4);
    embed_head_release(h);
    embed_context_release(ctx);
  }
  for (int k = 0; k < 3; ++k) free(dx[k]), embed_grad_release(g[k]);
  problem_free(&p);
}

static void wrong_arguments_write_nothing(void **state) {
  static const int64_t bad[4][SEQS + 1] = {{1, 4, 4, 9, 15}, {0, 4, 3, 9, 15}, {0, 4, 4, 9, 14}, {0, 4, 4, 16, 15}};
  static const int at[4] = {0, 2, 4, 3};
  static const float ones[VOCAB] = {1};
  problem p = sequences();
  embed_context *ctx = context_new();
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  float out[SEQS], dx[N * DIM];
  (void)state;
  memset(out, 0xA5, sizeof out);
  memset(dx, 0xA5, sizeof dx);
  for (int k = 0; k < 4; ++k) {
    assert_int_equal(embed_sequence_logprobs(ctx, h, p.x, EMBED_F32, N, 0, p.targets, bad[k], SEQS, out, NULL, NULL), EMBED_E_ARGUMENT);
    assert_int_equal(embed_error_at(ctx), at[k]);
    assert_int_equal(embed_sequence_logprobs_backward(ctx, h, p.x, EMBED_F32, N, 0, p.targets, bad[k], SEQS, d_out, dx, EMBED_F32, 0, NULL, NULL),
                     EMBED_E_ARGUMENT);
  }
  assert_int_equal(embed_sequence_logprobs(ctx, h, p.x, EMBED_F32, N, 0, p.targets, offsets, -1, out, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_sequence_logprobs(ctx, h, p.x, EMBED_F32, N, 0, p.targets, offsets, 0, out, NULL, NULL), EMBED_E_ARGUMENT);
  assert_string_equal(embed_error_text(ctx), "15 rows are given for 0 sequences");
  const int64_t longer[SEQS + 1] = {0, 4, 4, 9, 16};
  assert_int_equal(embed_sequence_logprobs(ctx, h, p.x, EMBED_F32, N, 0, p.targets, longer, SEQS, out, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_error_at(ctx), SEQS);
  assert_string_equal(embed_error_text(ctx), "offset 16 at position 4 is past the number of rows, 15");
  for (int k = 0; k < 3; ++k) {
    p.o = (embed_loss_options){.size = sizeof p.o, .label_smoothing = k == 0 ? 0.1 : 0, .z_loss = k == 1 ? 1e-4 : 0, .class_weight = k == 2 ? ones : NULL};
    assert_int_equal(forward(ctx, &p, h, out, NULL), EMBED_E_OPTION);
    assert_int_equal(back(ctx, &p, h, dx, NULL), EMBED_E_OPTION);
  }
  p.o = (embed_loss_options){.size = sizeof p.o};
  p.targets[11] = VOCAB;
  assert_int_equal(forward(ctx, &p, h, out, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 11);
  assert_int_equal(back(ctx, &p, h, dx, NULL), EMBED_E_ID);
  assert_true(test_all_bytes(out, sizeof out, 0xA5) && test_all_bytes(dx, sizeof dx, 0xA5));
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

/* A quantised table goes through the sweep. */
static void a_quantised_table_is_as_its_cross_entropy(void **state) {
  problem p = problem_new(VOCAB, 32, N, 3);
  embed_context *ctx = context_new();
  embed_table_options q8 = {.size = sizeof q8, .dtype = EMBED_Q8_0};
  embed_table *t = table_of(ctx, &p), *stored = NULL;
  embed_head *h = NULL;
  float out[SEQS], loss[N];
  (void)state;
  OK(embed_table_convert(ctx, t, &q8, &stored));
  OK(embed_head_create(ctx, stored, NULL, NULL, &h));
  OK(embed_sequence_logprobs(ctx, h, p.x, EMBED_F32, N, 0, p.targets, offsets, SEQS, out, NULL, NULL));
  OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, N, 0, p.targets, loss, NULL, NULL));
  for (int s = 0; s < SEQS; ++s) {
    double sum = 0;
    for (int64_t i = offsets[s]; i < offsets[s + 1]; ++i) sum -= (double)loss[i];
    assert_true(out[s] == (float)sum);
  }
  embed_head_release(h);
  embed_table_release(stored);
  embed_table_release(t);
  embed_context_release(ctx);
  problem_free(&p);
}

static void every_failed_allocation_leaves_everything_as_it_was(void **state) {
  problem p = sequences();
  counting c;
  (void)state;
  for (int call = 0; call < 2; ++call) {
    for (int k = 0;; ++k) {
      counting_start(&c);
      embed_context *ctx = NULL;
      embed_context_options o = {.size = sizeof o, .allocator = &c.allocator};
      OK(embed_context_create(&o, &ctx));
      embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
      embed_grad *g = NULL;
      float out[SEQS], dx[N * DIM];
      OK(embed_grad_create(ctx, DIM, &g));
      embed_context_trim(ctx);
      memset(out, 0xA5, sizeof out);
      memset(dx, 0xA5, sizeof dx);
      atomic_store(&c.fail_at, k);
      embed_status status = call ? back(ctx, &p, h, dx, g) : forward(ctx, &p, h, out, NULL);
      const bool failed = atomic_exchange(&c.fail_at, -1) < 0;
      assert_int_equal(status, failed ? EMBED_E_MEMORY : EMBED_OK);
      if (failed) assert_true(test_all_bytes(out, sizeof out, 0xA5) && test_all_bytes(dx, sizeof dx, 0xA5) && embed_grad_rows(g) == 0);
      embed_grad_release(g);
      embed_head_release(h);
      embed_context_release(ctx);
      counting_check(&c);
      if (!failed) break;
    }
  }
  problem_free(&p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums_and_gradients_are_those_of_the_definition),
    cmocka_unit_test(threads_do_not_change_a_bit),
    cmocka_unit_test(wrong_arguments_write_nothing),
    cmocka_unit_test(a_quantised_table_is_as_its_cross_entropy),
    cmocka_unit_test(every_failed_allocation_leaves_everything_as_it_was),
};
TEST_MAIN(tests)
