/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimisers as their users see them: deferred AdamW against the dense run, what is refused and what that leaves behind, frozen
 * rows, 16-bit tables, threads. Formulas and known answers: tests/unit/optim_test.c. */
#include "counting.h"

#include <math.h>

enum { ROWS = 200, DIM = 19, MOST = 32 };

static const embed_optimizer_kind kinds[] = {EMBED_OPTIM_SGD,      EMBED_OPTIM_ADAGRAD,        EMBED_OPTIM_ADAGRAD_ROW, EMBED_OPTIM_ADAM_SPARSE,
                                             EMBED_OPTIM_ADAMW,    EMBED_OPTIM_ADAMW_DEFERRED, EMBED_OPTIM_ADAM_LAZY,   EMBED_OPTIM_ADAM_ROW,
                                             EMBED_OPTIM_RMSPROP,  EMBED_OPTIM_LION,           EMBED_OPTIM_LAMB,        EMBED_OPTIM_FTRL,
                                             EMBED_OPTIM_ADAFACTOR};

/* A table of a dtype, and its optimiser. */
typedef struct trained {
  embed_table *t;
  embed_optimizer *o;
} trained;

static embed_optimizer_options options_of(embed_optimizer_kind kind) {
  embed_optimizer_options o = {.size = sizeof o, .kind = kind, .lr = 0.01, .weight_decay = 0.1, .seed = 3};
  if (kind == EMBED_OPTIM_SGD) o.momentum = 0.9;
  return o;
}

static trained trained_new(embed_context *ctx, embed_dtype dtype, const embed_optimizer_options *options) {
  trained m = {0};
  const embed_table_options as = {.size = sizeof as, .dtype = dtype, .vocab = ROWS - 3};
  const embed_init_options init = {.size = sizeof init, .kind = EMBED_INIT_UNIFORM, .scale = 0.5f, .seed = 9};
  OK(embed_table_create(ctx, ROWS, DIM, &as, &m.t));
  OK(embed_table_init(ctx, m.t, &init));
  OK(embed_optimizer_create(ctx, m.t, options, &m.o));
  return m;
}

static void trained_free(trained *m) {
  embed_optimizer_release(m->o);
  embed_table_release(m->t);
}

static size_t bytes_of(const embed_table *t) { return (size_t)(embed_table_rows(t) * embed_table_row_bytes(t)); }

static void assert_same_tables(const embed_table *a, const embed_table *b) { assert_same_bits(embed_table_data(a), embed_table_data(b), bytes_of(a)); }

/* The gradient of step s: uniform or skewed ids, some of them twice. */
static embed_grad *gradient_of(embed_context *ctx, int s, int skewed) {
  uint64_t random = (uint64_t)s * 7919 + 1;
  int32_t ids[MOST];
  float values[MOST * DIM];
  embed_grad *g = NULL;
  const int n = 1 + (int)(test_random(&random) % MOST);
  for (int i = 0; i < n; ++i) {
    const double u = (double)(test_random(&random) >> 11) * 0x1p-53;
    ids[i] = (int32_t)((skewed ? u * u * u * u : u) * (ROWS - 3));
  }
  for (int i = 0; i < n * DIM; ++i) values[i] = test_uniform(&random) * 0.1f;
  OK(embed_grad_create(ctx, DIM, &g));
  OK(embed_grad_add(ctx, g, ids, n, values, 0));
  return g;
}

static void step_at(embed_context *ctx, trained *m, int s, int skewed, double lr) {
  const embed_step_options rate = {.size = sizeof rate, .flags = EMBED_STEP_LR, .lr = lr};
  embed_grad *g = gradient_of(ctx, s, skewed);
  OK(embed_optimizer_step(ctx, m->o, m->t, g, &rate));
  embed_grad_release(g);
}

/* --- Deferred against dense */

static void compare_with_dense(embed_context *ctx, embed_dtype dtype, embed_dtype state, int skewed, int steps, int freeze, double beta1) {
  embed_optimizer_options dense = options_of(EMBED_OPTIM_ADAMW), replay = options_of(EMBED_OPTIM_ADAMW_DEFERRED);
  dense.state = replay.state = state;
  dense.beta1 = replay.beta1 = beta1;
  replay.flags = beta1 > 0.95 ? 0 : EMBED_OPTIM_REPLAY; /* sums that do not fall are replayed without being asked to */
  if (beta1 > 0.95) dense.beta2 = replay.beta2 = 0.9;
  trained a = trained_new(ctx, dtype, &dense), b = trained_new(ctx, dtype, &replay);
  for (int s = 1; s <= steps; ++s) {
    const double lr = embed_lr_at(EMBED_LR_COSINE, 1e-2, s, steps / 20, steps, 0);
    if (freeze && s == steps / 3) {
      const uint8_t bits[] = {0x5A, 0xFF, 0x01};
      OK(embed_optimizer_freeze(ctx, a.o, a.t, 5, 24, bits, 1));
      OK(embed_optimizer_freeze(ctx, b.o, b.t, 5, 24, bits, 1));
    }
    if (freeze && s == steps / 2) {
      OK(embed_optimizer_freeze(ctx, a.o, a.t, 10, 8, NULL, 0));
      OK(embed_optimizer_freeze(ctx, b.o, b.t, 10, 8, NULL, 0));
    }
    step_at(ctx, &a, s, skewed, lr);
    step_at(ctx, &b, s, skewed, lr);
    if (s % 31 == 0) { /* rows that are touched are those of the dense run already */
      const int64_t ids[] = {s % (ROWS - 3), 7, 7};
      OK(embed_optimizer_touch(ctx, b.o, b.t, ids, 3));
      for (int i = 0; i < 2; ++i) {
        const int64_t at = ids[i] * embed_table_row_bytes(a.t);
        assert_same_bits((const char *)embed_table_data(b.t) + at, (const char *)embed_table_data(a.t) + at, (size_t)embed_table_row_bytes(a.t));
      }
    }
    if (s % 700 == 0) OK(embed_optimizer_touch(ctx, b.o, b.t, NULL, 0));
  }
  assert_memory_not_equal(embed_table_data(a.t), embed_table_data(b.t), bytes_of(a.t)); /* it was deferred indeed */
  OK(embed_optimizer_touch(ctx, b.o, b.t, NULL, 0));
  assert_same_tables(a.t, b.t);
  OK(embed_optimizer_touch(ctx, b.o, b.t, NULL, 0)); /* nothing is left to do */
  assert_same_tables(a.t, b.t);
  trained_free(&a);
  trained_free(&b);
}

static void deferred_replay_gives_the_bits_of_the_dense_run(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  compare_with_dense(ctx, EMBED_F32, EMBED_F32, 0, 2000, 0, 0);
  compare_with_dense(ctx, EMBED_F32, EMBED_F32, 1, 2000, 0, 0);
  compare_with_dense(ctx, EMBED_F32, EMBED_F32, 1, 300, 1, 0);
  compare_with_dense(ctx, EMBED_F32, EMBED_BF16, 1, 300, 1, 0);
  compare_with_dense(ctx, EMBED_BF16, EMBED_BF16, 0, 300, 0, 0);
  compare_with_dense(ctx, EMBED_F16, EMBED_F32, 1, 300, 1, 0);
  compare_with_dense(ctx, EMBED_F32, EMBED_F32, 1, 100, 0, 0.99);
  embed_context_release(ctx);
}

/* A dense gradient touches every row: nothing is owed, so nothing is remembered, and what is frozen meanwhile owes nothing later. */
static void dense_steps_of_a_deferred_kind_keep_no_history(void **state) {
  (void)state;
  embed_optimizer_options dense = options_of(EMBED_OPTIM_ADAMW), replay = options_of(EMBED_OPTIM_ADAMW_DEFERRED);
  replay.flags = EMBED_OPTIM_REPLAY;
  counting c;
  counting_start(&c);
  embed_context *ctx = counting_context(&c, NULL);
  trained a = trained_new(ctx, EMBED_F32, &dense), b = trained_new(ctx, EMBED_F32, &replay);
  embed_grad *all = NULL;
  OK(embed_grad_create_dense(ctx, ROWS - 3, DIM, NULL, 0, &all));
  int64_t warm = 0;
  for (int s = 1; s <= 400; ++s) {
    if (s == 50 || s == 150) {
      OK(embed_optimizer_freeze(ctx, a.o, a.t, 20, 30, NULL, s == 50));
      OK(embed_optimizer_freeze(ctx, b.o, b.t, 20, 30, NULL, s == 50));
    }
    if (s % 100 > 90) { /* now and then rows are left behind */
      step_at(ctx, &a, s, 0, 0.01);
      step_at(ctx, &b, s, 0, 0.01);
      continue;
    }
    embed_grad *g = gradient_of(ctx, s, 0);
    embed_grad_clear(all);
    OK(embed_grad_merge(ctx, all, g, NULL));
    embed_grad_release(g);
    OK(embed_optimizer_step(ctx, a.o, a.t, all, NULL));
    const int64_t before = atomic_load(&c.calls);
    OK(embed_optimizer_step(ctx, b.o, b.t, all, NULL));
    if (s > 2) warm += atomic_load(&c.calls) - before;
    assert_same_tables(a.t, b.t);
  }
  assert_int_equal(warm, 0);
  step_at(ctx, &a, 401, 0, 0.01);
  step_at(ctx, &b, 401, 0, 0.01);
  OK(embed_optimizer_touch(ctx, b.o, b.t, NULL, 0));
  assert_same_tables(a.t, b.t);
  embed_grad_release(all);
  trained_free(&a);
  trained_free(&b);
  embed_context_release(ctx);
  counting_check(&c);
}

/* --- What a step does not do */

static embed_grad *sparse(embed_context *ctx, int64_t dim, const int32_t *ids, int64_t n, const float *values) {
  embed_grad *g = NULL;
  OK(embed_grad_create(ctx, dim, &g));
  OK(embed_grad_add(ctx, g, ids, n, values, 0));
  return g;
}

/* After a refused step a twin that never met it goes on with the same bits: table, state, stamps, count. */
static void refused_steps_leave_everything_as_it_was(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  float bad[3 * DIM] = {0};
  const int32_t ids[] = {4, 9, 11}, past[] = {4, ROWS - 3, ROWS - 1};
  for (int i = 0; i < COUNT(kinds); ++i) {
    const embed_optimizer_options o = options_of(kinds[i]);
    trained a = trained_new(ctx, EMBED_F32, &o), b = trained_new(ctx, EMBED_F32, &o);
    for (int s = 1; s < 5; ++s) step_at(ctx, &a, s, 0, 0.01), step_at(ctx, &b, s, 0, 0.01);
    const embed_step_options finite = {.size = sizeof finite, .flags = EMBED_STEP_CHECK_FINITE}, clipped = {.size = sizeof clipped, .max_grad_norm = 1};
    const embed_step_options huge = {.size = sizeof huge, .flags = EMBED_STEP_CHECK_FINITE, .grad_scale = 1e30};
    static const float wrong[] = {NAN, INFINITY, -INFINITY, 1e20f};
    for (int k = 0; k < 4; ++k) {
      memset(bad, 0, sizeof bad);
      bad[2 * DIM + 3] = bad[1 * DIM + DIM - 1] = wrong[k];
      embed_grad *g = sparse(ctx, DIM, ids, 3, bad);
      assert_int_equal(embed_optimizer_step(ctx, a.o, a.t, g, k == 3 ? &huge : k % 2 ? &clipped : &finite), EMBED_E_NONFINITE);
      assert_int_equal(embed_error_at(ctx), 9);
      assert_non_null(strstr(embed_error_text(ctx), "row 9"));
      embed_grad_release(g);
    }
    memset(bad, 0, sizeof bad);
    embed_grad *g = sparse(ctx, DIM, past, 3, bad), *narrow = sparse(ctx, DIM - 1, ids, 3, bad), *dense = NULL;
    assert_int_equal(embed_optimizer_step(ctx, a.o, a.t, g, NULL), EMBED_E_ID);
    assert_int_equal(embed_error_at(ctx), 1);
    assert_int_equal(embed_optimizer_step(ctx, a.o, a.t, narrow, NULL), EMBED_E_MISMATCH);
    OK(embed_grad_create_dense(ctx, ROWS - 4, DIM, NULL, 0, &dense));
    assert_int_equal(embed_optimizer_step(ctx, a.o, a.t, dense, NULL), EMBED_E_MISMATCH);
    const embed_step_options negative = {.size = sizeof negative, .flags = EMBED_STEP_LR, .lr = -1},
                             nan_scale = {.size = sizeof nan_scale, .grad_scale = 1e300};
    const embed_step_options unknown = {.size = sizeof unknown, .flags = 64}, nan_norm = {.size = sizeof nan_norm, .max_grad_norm = NAN};
    assert_int_equal(embed_optimizer_step(ctx, a.o, a.t, g, &negative), EMBED_E_OPTION);
    assert_int_equal(embed_optimizer_step(ctx, a.o, a.t, g, &nan_scale), EMBED_E_OPTION);
    assert_int_equal(embed_optimizer_step(ctx, a.o, a.t, g, &nan_norm), EMBED_E_OPTION);
    assert_int_equal(embed_optimizer_step(ctx, a.o, a.t, g, &unknown), EMBED_E_OPTION);
    const int64_t far[] = {0, ROWS - 3};
    assert_int_equal(embed_optimizer_touch(ctx, a.o, a.t, far, 2), EMBED_E_ID);
    assert_int_equal(embed_error_at(ctx), 1);
    assert_int_equal(embed_optimizer_touch(ctx, a.o, a.t, far, -1), EMBED_E_ARGUMENT);
    assert_int_equal(embed_optimizer_freeze(ctx, a.o, a.t, 1, ROWS - 3, NULL, 1), EMBED_E_ARGUMENT);
    assert_int_equal(embed_optimizer_steps(a.o), 4);
    assert_same_tables(a.t, b.t);
    for (int s = 5; s < 9; ++s) step_at(ctx, &a, s, 0, 0.01), step_at(ctx, &b, s, 0, 0.01);
    OK(embed_optimizer_touch(ctx, a.o, a.t, NULL, 0));
    OK(embed_optimizer_touch(ctx, b.o, b.t, NULL, 0));
    assert_same_tables(a.t, b.t);
    embed_grad_release(g);
    embed_grad_release(narrow);
    embed_grad_release(dense);
    trained_free(&a);
    trained_free(&b);
  }
  embed_context_release(ctx);
}

static void tables_that_cannot_be_trained_are_refused(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const embed_optimizer_options adam = options_of(EMBED_OPTIM_ADAM_SPARSE);
  static const embed_dtype no[] = {EMBED_F64, EMBED_I8_ROW, EMBED_I4_GROUP, EMBED_Q8_0};
  embed_optimizer *o = NULL;
  embed_table *t = NULL;
  for (int i = 0; i < COUNT(no); ++i) {
    const embed_table_options as = {.size = sizeof as, .dtype = no[i]};
    OK(embed_table_create(ctx, 3, 32, &as, &t));
    o = (embed_optimizer *)(void *)&as;
    assert_int_equal(embed_optimizer_create(ctx, t, &adam, &o), EMBED_E_UNSUPPORTED);
    assert_null(o);
    assert_non_null(strstr(embed_error_text(ctx), embed_dtype_name(no[i])));
    embed_table_release(t);
  }
  const float zeros[4] = {0};
  const int32_t id = 0;
  embed_table *bf16 = NULL, *other = NULL;
  const embed_table_options half = {.size = sizeof half, .dtype = EMBED_BF16};
  OK(embed_table_view(ctx, zeros, 1, 4, NULL, NULL, NULL, &t));
  OK(embed_table_create(ctx, 1, 4, &half, &bf16));
  OK(embed_table_create(ctx, 2, 4, NULL, &other));
  OK(embed_optimizer_create(ctx, t, &adam, &o));
  embed_grad *g = sparse(ctx, 4, &id, 1, zeros);
  assert_int_equal(embed_optimizer_step(ctx, o, t, g, NULL), EMBED_E_READ_ONLY);
  assert_int_equal(embed_optimizer_step(ctx, o, bf16, g, NULL), EMBED_E_MISMATCH);
  assert_int_equal(embed_optimizer_step(ctx, o, other, g, NULL), EMBED_E_MISMATCH);
  assert_int_equal(embed_optimizer_step(ctx, o, NULL, g, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_optimizer_step(ctx, o, other, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_optimizer_step(ctx, NULL, other, g, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_optimizer_steps(o), 0);
  assert_int_equal(embed_optimizer_steps(NULL), -1);
  embed_grad_release(g);
  embed_optimizer_release(o);
  embed_table_release(t);
  embed_table_release(bf16);
  embed_table_release(other);
  embed_context_release(ctx);
}

static void options_that_mean_nothing_are_refused(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  embed_table *t = NULL;
  OK(embed_table_create(ctx, 3, 2, NULL, &t));
#define O(...) \
  { .size = sizeof(embed_optimizer_options), __VA_ARGS__ }
  const embed_optimizer_options wrong[] = {O(.kind = 13, .lr = 1),
                                           O(.kind = EMBED_OPTIM_NONE, .lr = 1),
                                           O(.lr = -1),
                                           O(.lr = NAN),
                                           O(.lr = INFINITY),
                                           O(.lr = 1, .state = EMBED_F16),
                                           O(.lr = 1, .flags = 128),
                                           O(.lr = 1, .beta1 = 0.5),
                                           O(.lr = 1, .epsilon = 1),
                                           O(.lr = 1, .l1 = 1),
                                           O(.lr = 1, .momentum = 1),
                                           O(.lr = 1, .momentum = -0.5),
                                           O(.lr = 1, .flags = EMBED_OPTIM_NESTEROV),
                                           O(.lr = 1, .flags = EMBED_OPTIM_REPLAY),
                                           O(.lr = 1, .max_norm = -1),
                                           O(.lr = 1, .max_norm = NAN),
                                           O(.lr = 1, .weight_decay = NAN),
                                           O(.kind = EMBED_OPTIM_ADAMW, .lr = 1, .momentum = 0.9),
                                           O(.kind = EMBED_OPTIM_ADAMW, .lr = 1, .beta1 = 1),
                                           O(.kind = EMBED_OPTIM_ADAMW, .lr = 1, .beta2 = 1),
                                           O(.kind = EMBED_OPTIM_ADAMW, .lr = 1, .epsilon = -1),
                                           O(.kind = EMBED_OPTIM_ADAMW, .lr = 1, .beta1 = 0.5, .flags = EMBED_OPTIM_BETA1_ZERO),
                                           O(.kind = EMBED_OPTIM_ADAMW, .lr = 1, .flags = EMBED_OPTIM_LAZY)};
#undef O
  for (int i = 0; i < COUNT(wrong); ++i) {
    embed_optimizer *o = (embed_optimizer *)(void *)t;
    if (embed_optimizer_create(ctx, t, &wrong[i], &o) != EMBED_E_OPTION) fail_msg("options %d: %s", i, embed_error_text(ctx));
    assert_null(o);
  }
  embed_optimizer *o = NULL;
  embed_grad *g = NULL;
  OK(embed_grad_create(ctx, 2, &g));
  OK(embed_optimizer_create(ctx, t, NULL, &o));
  assert_int_equal(embed_optimizer_step(ctx, o, t, g, NULL), EMBED_E_OPTION); /* no rate anywhere */
  OK(embed_optimizer_step(ctx, o, t, g, &(embed_step_options){.size = sizeof(embed_step_options), .flags = EMBED_STEP_LR}));
  assert_int_equal(embed_optimizer_steps(o), 1);
  embed_optimizer_release(o);
  const embed_optimizer_options decay = {.size = sizeof decay, .kind = EMBED_OPTIM_ADAMW_DEFERRED, .lr = 1, .weight_decay = 1};
  OK(embed_optimizer_create(ctx, t, &decay, &o));
  assert_int_equal(embed_optimizer_step(ctx, o, t, g, NULL), EMBED_E_OPTION); /* lr * weight_decay takes the whole row */
  assert_int_equal(embed_optimizer_steps(o), 0);
  embed_grad_release(g);
  embed_optimizer_release(o);
  embed_table_release(t);
  embed_context_release(ctx);
}

/* --- Facts of one step */

static void a_rate_of_0_is_0_and_padding_alone_moves_nothing(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  for (int i = 0; i < COUNT(kinds); ++i) {
    embed_optimizer_options o = options_of(kinds[i]);
    trained a = trained_new(ctx, EMBED_F32, &o), b = trained_new(ctx, EMBED_F32, &o);
    for (int s = 1; s < 4; ++s) step_at(ctx, &a, s, 0, 0);
    OK(embed_optimizer_touch(ctx, a.o, a.t, NULL, 0));
    assert_same_tables(a.t, b.t);
    trained_free(&a);
    trained_free(&b);
    o.weight_decay = 0;
    o.momentum = 0;
    a = trained_new(ctx, EMBED_F32, &o), b = trained_new(ctx, EMBED_F32, &o);
    embed_grad *g = NULL; /* OP-01: a batch of padding */
    const int64_t padding[] = {0, 0};
    const float rows[2 * DIM] = {1, 2};
    const embed_lookup_options skip = {.size = sizeof skip, .flags = EMBED_LOOKUP_PADDING, .padding_id = 0};
    OK(embed_grad_create(ctx, DIM, &g));
    OK(embed_lookup_backward(ctx, g, ROWS - 3, padding, 2, rows, EMBED_F32, 0, &skip));
    assert_int_equal(embed_grad_rows(g), 0);
    OK(embed_optimizer_step(ctx, a.o, a.t, g, NULL));
    assert_int_equal(embed_optimizer_steps(a.o), 1);
    OK(embed_optimizer_touch(ctx, a.o, a.t, NULL, 0));
    assert_same_tables(a.t, b.t);
    embed_grad_release(g);
    trained_free(&a);
    trained_free(&b);
  }
  embed_context_release(ctx);
}

/* OP-03: an id that stands twice is one step of the sum. */
static void duplicates_are_one_step(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  for (int i = 0; i < COUNT(kinds); ++i) {
    const embed_optimizer_options o = options_of(kinds[i]);
    trained a = trained_new(ctx, EMBED_F32, &o), b = trained_new(ctx, EMBED_F32, &o);
    float ones[2 * DIM], twos[DIM];
    const int32_t twice[] = {1, 1};
    for (int j = 0; j < DIM; ++j) ones[j] = ones[DIM + j] = 1, twos[j] = 2;
    embed_grad *g = sparse(ctx, DIM, twice, 2, ones), *h = sparse(ctx, DIM, twice, 1, twos);
    OK(embed_optimizer_step(ctx, a.o, a.t, g, NULL));
    OK(embed_optimizer_step(ctx, b.o, b.t, h, NULL));
    assert_same_tables(a.t, b.t);
    embed_grad_release(g);
    embed_grad_release(h);
    trained_free(&a);
    trained_free(&b);
  }
  float w[4] = {1, 1, 1, 1};
  const float ones[2] = {1, 1};
  const int32_t twice[] = {1, 1};
  embed_table *t = NULL;
  embed_optimizer *o = NULL;
  const embed_optimizer_options adam = {.size = sizeof adam, .kind = EMBED_OPTIM_ADAM_SPARSE, .lr = 0.1};
  OK(embed_table_borrow(ctx, w, 4, 1, NULL, NULL, NULL, &t));
  OK(embed_optimizer_create(ctx, t, &adam, &o));
  embed_grad *g = sparse(ctx, 1, twice, 2, ones);
  OK(embed_optimizer_step(ctx, o, t, g, NULL));
  assert_true(fabs((double)w[1] - 0.90000002) < 1e-7);
  embed_grad_release(g);
  embed_optimizer_release(o);
  embed_table_release(t);
  embed_context_release(ctx);
}

/* A dense gradient is one of every row; scale and clipping are those of a gradient that was scaled before. */
static void dense_scaled_and_clipped_gradients_are_what_they_say(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  for (int i = 0; i < COUNT(kinds); ++i) {
    embed_optimizer_options o = options_of(kinds[i]);
    if (kinds[i] == EMBED_OPTIM_SGD) o.momentum = o.weight_decay = 0;
    trained a = trained_new(ctx, EMBED_F32, &o), b = trained_new(ctx, EMBED_F32, &o), c = trained_new(ctx, EMBED_F32, &o);
    static float values[ROWS * DIM], halves[ROWS * DIM];
    static int32_t ids[ROWS];
    uint64_t random = 4;
    double squares = 0;
    for (int r = 0; r < ROWS; ++r) ids[r] = r;
    for (int j = 0; j < ROWS * DIM; ++j) {
      values[j] = test_uniform(&random);
      halves[j] = 0.5f * values[j];
      if (j < (ROWS - 3) * DIM) squares += (double)values[j] * (double)values[j];
    }
    embed_grad *dense = NULL, *all = sparse(ctx, DIM, ids, ROWS - 3, halves);
    OK(embed_grad_create_dense(ctx, ROWS - 3, DIM, values, 0, &dense));
    const embed_step_options half = {.size = sizeof half, .grad_scale = 0.5};
    /* norm / (norm + 1e-6) of it is half of it but for 1e-6 parts in a hundred: the same as a scale by that */
    const embed_step_options clip = {.size = sizeof clip, .max_grad_norm = sqrt(squares) / 2 + 0.5e-6};
    OK(embed_optimizer_step(ctx, a.o, a.t, dense, &half));
    OK(embed_optimizer_step(ctx, b.o, b.t, all, NULL));
    OK(embed_optimizer_step(ctx, c.o, c.t, dense, &clip));
    OK(embed_optimizer_touch(ctx, a.o, a.t, NULL, 0));
    assert_same_tables(a.t, b.t);
    embed_grad *whole = NULL; /* the rows behind the vocabulary do not count */
    trained d = trained_new(ctx, EMBED_F32, &o);
    OK(embed_grad_create_dense(ctx, ROWS, DIM, values, 0, &whole));
    OK(embed_optimizer_step(ctx, d.o, d.t, whole, &half));
    assert_same_tables(d.t, a.t);
    embed_grad_release(whole);
    trained_free(&d);
    const float *x = embed_table_data(a.t), *y = embed_table_data(c.t);
    for (int j = 0; j < ROWS * DIM; ++j) assert_true(fabsf(x[j] - y[j]) <= 1e-6f);
    const embed_step_options loose = {.size = sizeof loose, .max_grad_norm = 1e9, .flags = EMBED_STEP_CHECK_FINITE}; /* not reached: exact */
    OK(embed_optimizer_step(ctx, a.o, a.t, all, &loose));
    OK(embed_optimizer_step(ctx, b.o, b.t, all, NULL));
    assert_same_tables(a.t, b.t);
    embed_grad_release(dense);
    embed_grad_release(all);
    trained_free(&a);
    trained_free(&b);
    trained_free(&c);
  }
  embed_context_release(ctx);
}

static void rows_are_no_longer_than_max_norm(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  float w[6] = {3, 4, 30, 40, 0.3f, 0.4f};
  const float zeros[4] = {0};
  const int32_t ids[] = {0, 2};
  embed_table *t = NULL;
  embed_optimizer *o = NULL;
  const embed_optimizer_options sgd = {.size = sizeof sgd, .lr = 0.1, .max_norm = 2.5};
  OK(embed_table_borrow(ctx, w, 3, 2, NULL, NULL, NULL, &t));
  OK(embed_optimizer_create(ctx, t, &sgd, &o));
  embed_grad *g = sparse(ctx, 2, ids, 2, zeros);
  OK(embed_optimizer_step(ctx, o, t, g, NULL));
  const float want[6] = {1.5f, 2, 30, 40, 0.3f, 0.4f};
  for (int j = 0; j < 6; ++j) assert_true(fabsf(w[j] - want[j]) < 1e-6f);
  embed_grad_release(g);
  embed_optimizer_release(o);
  embed_table_release(t);
  embed_context_release(ctx);
}

/* Rows 5 .. 12 of them by bits, then all; thawed rows take up their moments again. */
static void frozen_rows_keep_their_bits(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  for (int i = 0; i < COUNT(kinds); ++i) {
    const embed_optimizer_options o = options_of(kinds[i]);
    trained a = trained_new(ctx, EMBED_F32, &o);
    const uint8_t bits[] = {0xA5};
    static unsigned char before[ROWS * DIM * 4];
    for (int s = 1; s < 20; ++s) step_at(ctx, &a, s, 0, 0.01);
    OK(embed_optimizer_freeze(ctx, a.o, a.t, 5, 8, bits, 1));
    memcpy(before, embed_table_data(a.t), sizeof before);
    for (int s = 20; s < 200; ++s) step_at(ctx, &a, s, 0, 0.01);
    OK(embed_optimizer_touch(ctx, a.o, a.t, NULL, 0));
    for (int r = 0; r < ROWS - 3; ++r) {
      const int frozen = r >= 5 && r < 13 && (0xA5 >> (r - 5) & 1),
                same = !memcmp((const char *)embed_table_data(a.t) + r * DIM * 4, before + r * DIM * 4, DIM * 4);
      if (frozen != same) fail_msg("kind %d row %d: frozen %d, same %d", kinds[i], r, frozen, same);
    }
    OK(embed_optimizer_freeze(ctx, a.o, a.t, 0, ROWS - 3, NULL, 1));
    memcpy(before, embed_table_data(a.t), sizeof before);
    float nan[DIM];
    const int32_t id = 3;
    for (int j = 0; j < DIM; ++j) nan[j] = NAN;
    embed_grad *g = sparse(ctx, DIM, &id, 1, nan);
    const embed_step_options finite = {.size = sizeof finite, .flags = EMBED_STEP_CHECK_FINITE, .max_grad_norm = 1};
    OK(embed_optimizer_step(ctx, a.o, a.t, g, &finite)); /* its gradient is dropped */
    assert_memory_equal(embed_table_data(a.t), before, sizeof before);
    OK(embed_optimizer_freeze(ctx, a.o, a.t, 0, ROWS - 3, NULL, 0));
    for (int s = 200; s < 220; ++s) step_at(ctx, &a, s, 0, 0.01);
    assert_memory_not_equal(embed_table_data(a.t), before, sizeof before);
    embed_grad_release(g);
    trained_free(&a);
  }
  embed_context_release(ctx);
}

static void a_step_makes_prepared_heads_stale(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const embed_optimizer_options o = options_of(EMBED_OPTIM_SGD);
  const embed_head_options prepare = {.size = sizeof prepare, .flags = EMBED_HEAD_PREPARE};
  trained a = trained_new(ctx, EMBED_F32, &o);
  embed_head *h = NULL;
  float hidden[DIM] = {1}, logits[ROWS];
  OK(embed_head_create(ctx, a.t, NULL, &prepare, &h));
  OK(embed_logits(ctx, h, hidden, EMBED_F32, 1, 0, logits, 0, NULL));
  step_at(ctx, &a, 1, 0, 0.01);
  assert_int_equal(embed_logits(ctx, h, hidden, EMBED_F32, 1, 0, logits, 0, NULL), EMBED_E_STALE);
  embed_head_release(h);
  trained_free(&a);
  embed_context_release(ctx);
}

/* Adafactor's means over rows know nothing of a frozen one: as if it had had no gradient. */
static void adafactor_leaves_frozen_rows_out_of_its_means(void **state) {
  static const int32_t ids[3] = {4, 9, 30};
  const embed_optimizer_options o = options_of(EMBED_OPTIM_ADAFACTOR);
  embed_context *ctx = context_new();
  float values[3 * DIM];
  uint64_t random = 8;
  (void)state;
  for (int i = 0; i < 3 * DIM; ++i) values[i] = test_uniform(&random);
  trained with = trained_new(ctx, EMBED_F32, &o), without = trained_new(ctx, EMBED_F32, &o);
  OK(embed_optimizer_freeze(ctx, with.o, with.t, 30, 1, NULL, 1));
  for (int s = 0; s < 5; ++s) {
    embed_grad *g[2];
    for (int k = 0; k < 2; ++k) {
      OK(embed_grad_create(ctx, DIM, &g[k]));
      OK(embed_grad_add(ctx, g[k], ids, 3 - k, values, 0));
    }
    OK(embed_optimizer_step(ctx, with.o, with.t, g[0], NULL));
    OK(embed_optimizer_step(ctx, without.o, without.t, g[1], NULL));
    embed_grad_release(g[0]), embed_grad_release(g[1]);
  }
  assert_same_tables(with.t, without.t);
  trained_free(&with), trained_free(&without);
  embed_context_release(ctx);
}

/* S32: each row steps as the whole table would at that rate; what cannot be a rate is refused before the first row. */
static void rows_have_rates_of_their_own(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  static float rates[ROWS];
  for (int r = 0; r < ROWS; ++r) rates[r] = (float)(r % 3);
  for (int i = 0; i < COUNT(kinds); ++i) {
    if (kinds[i] == EMBED_OPTIM_ADAFACTOR) continue; /* a row's step depends on the lengths of the others */
    const embed_optimizer_options o = options_of(kinds[i]);
    const embed_step_options rated = {.size = sizeof rated, .row_rates = rates}, twice = {.size = sizeof twice, .flags = EMBED_STEP_LR, .lr = 0.02};
    trained all[4]; /* before, at the rate, at twice the rate, by row */
    for (int k = 0; k < 4; ++k) all[k] = trained_new(ctx, EMBED_F32, &o);
    embed_grad *g = gradient_of(ctx, 1, 0);
    if (kinds[i] == EMBED_OPTIM_ADAMW_DEFERRED) {
      assert_int_equal(embed_optimizer_step(ctx, all[3].o, all[3].t, g, &rated), EMBED_E_UNSUPPORTED);
      assert_same_tables(all[3].t, all[0].t);
    } else {
      static const float wrong[] = {NAN, -1, INFINITY, 3e38f};
      for (int k = 0; k < COUNT(wrong); ++k) {
        const embed_step_options fast = {.size = sizeof fast, .flags = EMBED_STEP_LR, .lr = 100, .row_rates = rates};
        rates[5] = wrong[k];
        assert_int_equal(embed_optimizer_step(ctx, all[3].o, all[3].t, g, &fast), EMBED_E_OPTION);
        assert_int_equal(embed_error_at(ctx), 5);
      }
      rates[5] = 2;
      assert_same_tables(all[3].t, all[0].t);
      for (int s = 1; s < 9; ++s) {
        embed_grad *h = gradient_of(ctx, s, 0);
        OK(embed_optimizer_step(ctx, all[1].o, all[1].t, h, NULL));
        OK(embed_optimizer_step(ctx, all[2].o, all[2].t, h, &twice));
        OK(embed_optimizer_step(ctx, all[3].o, all[3].t, h, &rated));
        embed_grad_release(h);
      }
      for (int64_t r = 0; r < ROWS; ++r) {
        const int64_t at = r * embed_table_row_bytes(all[3].t);
        assert_same_bits((const char *)embed_table_data(all[3].t) + at, (const char *)embed_table_data(all[r % 3].t) + at, DIM * sizeof(float));
      }
      assert_memory_not_equal(embed_table_data(all[1].t), embed_table_data(all[2].t), bytes_of(all[1].t));
    }
    embed_grad_release(g);
    for (int k = 0; k < 4; ++k) trained_free(&all[k]);
  }
  embed_context_release(ctx);
}

/* --- Layouts, 16 bits, threads, memory */

/* At any byte, with bytes between rows that stay, the numbers are those of rows in place. */
static void rows_at_any_byte_give_the_same_numbers(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const embed_table_options apart = {.size = sizeof apart, .row_bytes = DIM * 4 + 7, .vocab = ROWS - 3};
  for (int i = 0; i < COUNT(kinds); ++i) {
    const embed_optimizer_options o = options_of(kinds[i]);
    trained a = trained_new(ctx, EMBED_F32, &o), b = {0};
    static unsigned char memory[ROWS * (DIM * 4 + 7) + 1];
    memset(memory, 0xC3, sizeof memory);
    for (int r = 0; r < ROWS; ++r) memcpy(memory + 1 + r * (DIM * 4 + 7), (const char *)embed_table_data(a.t) + r * DIM * 4, DIM * 4);
    OK(embed_table_borrow(ctx, memory + 1, ROWS, DIM, &apart, NULL, NULL, &b.t));
    OK(embed_optimizer_create(ctx, b.t, &o, &b.o));
    for (int s = 1; s < 10; ++s) step_at(ctx, &a, s, 0, 0.01), step_at(ctx, &b, s, 0, 0.01);
    OK(embed_optimizer_touch(ctx, a.o, a.t, NULL, 0));
    OK(embed_optimizer_touch(ctx, b.o, b.t, NULL, 0));
    for (int r = 0; r < ROWS; ++r) {
      assert_memory_equal(memory + 1 + r * (DIM * 4 + 7), (const char *)embed_table_data(a.t) + r * DIM * 4, DIM * 4);
      assert_true(test_all_bytes(memory + 1 + r * (DIM * 4 + 7) + DIM * 4, 7, 0xC3));
    }
    trained_free(&a);
    trained_free(&b);
  }
  embed_context_release(ctx);
}

static double mean_of(embed_context *ctx, const embed_table *t) {
  float rows[DIM];
  double sum = 0;
  for (int64_t r = 0; r < ROWS - 3; ++r) {
    OK(embed_table_get_rows(ctx, t, &r, 1, rows, EMBED_F32, 0));
    for (int j = 0; j < DIM; ++j) sum += (double)rows[j];
  }
  return sum / ((ROWS - 3) * DIM);
}

/* 400 steps of 1e-4 from 1: each a fortieth of a bf16 unit (2^-8), a tenth of an f16 one. To nearest none of them counts. */
static void small_steps_count_in_16_bits(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  static float ones[(ROWS - 3) * DIM];
  embed_grad *g = NULL;
  for (int j = 0; j < (ROWS - 3) * DIM; ++j) ones[j] = 1;
  OK(embed_grad_create_dense(ctx, ROWS - 3, DIM, ones, 0, &g));
  static const embed_dtype types[] = {EMBED_BF16, EMBED_F16};
  const embed_init_options one = {.size = sizeof one, .kind = EMBED_INIT_CONSTANT, .scale = 1};
  for (int i = 0; i < 2; ++i) {
    embed_optimizer_options o = {.size = sizeof o, .lr = 1e-4, .seed = 1}, nearest = o, other = o;
    nearest.flags = EMBED_OPTIM_NEAREST;
    other.seed = 2;
    trained a = trained_new(ctx, types[i], &o), b = trained_new(ctx, types[i], &nearest), c = trained_new(ctx, types[i], &other);
    trained *all[] = {&a, &b, &c};
    for (int k = 0; k < 3; ++k) {
      OK(embed_table_init(ctx, all[k]->t, &one));
      for (int s = 0; s < 400; ++s) OK(embed_optimizer_step(ctx, all[k]->o, all[k]->t, g, NULL));
    }
    /* a deviation of a unit * sqrt(p * steps) per weight, over 3743 weights */
    assert_true(fabs(mean_of(ctx, a.t) - 0.96) < 1e-3);
    assert_true(fabs(mean_of(ctx, c.t) - 0.96) < 1e-3);
    assert_true(fabs(mean_of(ctx, b.t) - 1) < 1e-9);
    assert_memory_not_equal(embed_table_data(a.t), embed_table_data(c.t), bytes_of(a.t));
    trained_free(&a);
    trained_free(&b);
    trained_free(&c);
  }
  embed_grad_release(g);
  embed_context_release(ctx);
}

static embed_status backwards(void *arg, int64_t n, embed_task *task, void *job) {
  (void)arg;
  for (int64_t i = n - 1; i >= 0; --i) task(job, i, (int32_t)(i % 3));
  return EMBED_OK;
}

static void threads_change_no_bit_in_a_hundred_steps(void **state) {
  (void)state;
  static const int counts[] = {1, 2, 7, 0};
  for (int i = 0; i < COUNT(kinds); ++i)
    for (int type = 0; type < 2; ++type) {
      embed_optimizer_options o = options_of(kinds[i]);
      o.state = type ? EMBED_BF16 : EMBED_F32;
      trained first = {0};
      embed_context *contexts[4];
      for (int k = 0; k < 4; ++k) {
        embed_pool *pool = NULL;
        const embed_executor executor = {.size = sizeof executor, .run = backwards, .workers = 3};
        if (counts[k] > 1) OK(embed_pool_create(counts[k], &pool));
        const embed_context_options with = {.size = sizeof with, .pool = pool, .executor = counts[k] ? NULL : &executor};
        OK(embed_context_create(&with, &contexts[k]));
        embed_pool_release(pool);
        trained m = trained_new(contexts[k], type ? EMBED_BF16 : EMBED_F32, &o);
        const embed_step_options clip = {.size = sizeof clip, .max_grad_norm = 0.05};
        for (int s = 1; s <= 100; ++s) {
          embed_grad *g = gradient_of(contexts[k], s, 1);
          OK(embed_optimizer_step(contexts[k], m.o, m.t, g, &clip));
          embed_grad_release(g);
          if (s % 10 == 0) OK(embed_optimizer_touch(contexts[k], m.o, m.t, &(int64_t){s}, 1));
        }
        OK(embed_optimizer_touch(contexts[k], m.o, m.t, NULL, 0));
        if (k == 0)
          first = m;
        else
          assert_same_tables(m.t, first.t), trained_free(&m);
      }
      trained_free(&first);
      for (int k = 0; k < 4; ++k) embed_context_release(contexts[k]);
    }
}

/* Each allocation of the 70th step (the history grows there), of a touch and of a freeze fails once: a twin that never lacked memory
 * goes on with the same bits. */
static void failed_allocations_leave_table_state_and_stamps(void **state) {
  (void)state;
  for (int i = 0; i < COUNT(kinds); ++i) {
    const embed_optimizer_options o = options_of(kinds[i]);
    embed_context *plain = context_new();
    trained b = trained_new(plain, EMBED_BF16, &o);
    for (int s = 1; s <= 64; ++s) step_at(plain, &b, s, 0, 0.01);
    counting c;
    counting_start(&c);
    embed_context *ctx = counting_context(&c, NULL);
    for (int k = 0; k < 20; ++k) { /* making one */
      embed_optimizer *made = NULL;
      atomic_store(&c.fail_at, k);
      if (embed_optimizer_create(ctx, b.t, &o, &made) == EMBED_OK) {
        embed_optimizer_release(made);
        break;
      }
      assert_null(made);
    }
    atomic_store(&c.fail_at, -1);
    trained a = trained_new(ctx, EMBED_BF16, &o);
    for (int s = 1; s <= 64; ++s) step_at(ctx, &a, s, 0, 0.01);
    embed_grad *g = gradient_of(ctx, 65, 0);
    const embed_step_options finite = {.size = sizeof finite, .flags = EMBED_STEP_CHECK_FINITE};
    const int64_t ids[] = {3, 5, 3};
    for (int call = 0; call < 3; ++call)
      for (int k = 0;; ++k) {
        embed_context_trim(ctx);
        atomic_store(&c.fail_at, k);
        const embed_status status = call == 0   ? embed_optimizer_step(ctx, a.o, a.t, g, &finite)
                                    : call == 1 ? embed_optimizer_touch(ctx, a.o, a.t, ids, 3)
                                                : embed_optimizer_freeze(ctx, a.o, a.t, 8, 40, NULL, 1);
        const bool needed = atomic_load(&c.fail_at) < 0;
        atomic_store(&c.fail_at, -1);
        if (!needed) {
          OK(status);
          break;
        }
        assert_int_equal(status, EMBED_E_MEMORY);
        if (call == 0) assert_same_tables(a.t, b.t);
      }
    embed_grad *h = gradient_of(plain, 65, 0);
    OK(embed_optimizer_step(plain, b.o, b.t, h, &finite));
    OK(embed_optimizer_touch(plain, b.o, b.t, ids, 3));
    OK(embed_optimizer_freeze(plain, b.o, b.t, 8, 40, NULL, 1));
    for (int s = 66; s <= 70; ++s) step_at(plain, &b, s, 0, 0.01), step_at(ctx, &a, s, 0, 0.01);
    OK(embed_optimizer_touch(ctx, a.o, a.t, NULL, 0));
    OK(embed_optimizer_touch(plain, b.o, b.t, NULL, 0));
    assert_same_tables(a.t, b.t);
    embed_grad_release(g);
    embed_grad_release(h);
    trained_free(&a);
    trained_free(&b);
    embed_context_release(ctx);
    embed_context_release(plain);
    counting_check(&c);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(deferred_replay_gives_the_bits_of_the_dense_run),
    cmocka_unit_test(dense_steps_of_a_deferred_kind_keep_no_history),
    cmocka_unit_test(refused_steps_leave_everything_as_it_was),
    cmocka_unit_test(tables_that_cannot_be_trained_are_refused),
    cmocka_unit_test(options_that_mean_nothing_are_refused),
    cmocka_unit_test(a_rate_of_0_is_0_and_padding_alone_moves_nothing),
    cmocka_unit_test(duplicates_are_one_step),
    cmocka_unit_test(dense_scaled_and_clipped_gradients_are_what_they_say),
    cmocka_unit_test(rows_are_no_longer_than_max_norm),
    cmocka_unit_test(frozen_rows_keep_their_bits),
    cmocka_unit_test(a_step_makes_prepared_heads_stale),
    cmocka_unit_test(adafactor_leaves_frozen_rows_out_of_its_means),
    cmocka_unit_test(rows_have_rates_of_their_own),
    cmocka_unit_test(rows_at_any_byte_give_the_same_numbers),
    cmocka_unit_test(small_steps_count_in_16_bits),
    cmocka_unit_test(threads_change_no_bit_in_a_hundred_steps),
    cmocka_unit_test(failed_allocations_leave_table_state_and_stamps),
};
TEST_MAIN(tests)
