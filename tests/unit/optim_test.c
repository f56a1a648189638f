/* SPDX-License-Identifier: BSD-3-Clause */
/* The formulas in double against published numbers, to 1e-12; the library against the formulas, to a few ulp a step; deferred
 * AdamW in closed form against the dense run in double. */
#include "test.h"

#include <embed/embed.h>

#include "optim_reference.h"

#define OK(ctx, call)                                              \
  do {                                                             \
    if ((call) != EMBED_OK) fail_msg("%s", embed_error_text(ctx)); \
  } while (0)

typedef struct known {
  embed_optimizer_kind kind;
  double momentum, weight_decay;
  double want[6];
} known;

/* Three steps of rate 0.1 on [[1, 2], [3, 4], [5, 6]]; 0 0 stands twice in the first gradient. */
static const known answers[] = {
    {EMBED_OPTIM_SGD, 0, 0, {.69, 1.82, 3.1, 3.8, 4.95, 5.975}},
    {EMBED_OPTIM_SGD, .9, 0, {.177, 1.478, 3.19, 3.62, 4.8645, 5.93225}},
    {EMBED_OPTIM_ADAGRAD, 0, 0, {.8966685169801805, 1.9099503719066047, 3.09999999999, 3.900000000005, 4.90000000002, 5.90000000004}},
    {EMBED_OPTIM_ADAGRAD_ROW, 0, 0, {.8784155179305224, 1.92938314914863, 3.0632455528033677, 3.873508894393265, 4.873508896793265, 5.936754448396632}},
    {EMBED_OPTIM_ADAM_SPARSE, 0, 0, {.8403807263052782, 1.8491233679980197, 3.074413658825033, 3.925586329409136, 4.900000063245513, 5.900000126490946}},
    {EMBED_OPTIM_ADAMW, 0, 0, {.7790969626490365, 1.7878187745312233, 3.1319356724440635, 3.8680643265317287, 4.781198483028657, 5.781198488719495}},
    {EMBED_OPTIM_ADAMW, 0, .01, {.776366867473468, 1.7820916783551635, 3.122870255762759, 3.8561507362135594, 4.766480383848178, 5.763483388533121}},
    {EMBED_OPTIM_ADAMW_DEFERRED, 0, .01, {.776366867473468, 1.7820916783551635, 3.122870255762759, 3.8561507362135594, 4.766480383848178, 5.763483388533121}},
};
static const int64_t known_ids[3][2] = {{0, 2}, {1, 0}, {0, 0}};
static const int64_t known_counts[3] = {2, 1, 1};
static const double known_values[3][4] = {{3, 2, .5, .25}, {-1, 2, 0, 0}, {.1, -.2, 0, 0}};

static void the_formulas_give_the_published_numbers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof answers / sizeof *answers; ++i) {
    reference r = reference_new(answers[i].kind, 3, 2);
    r.momentum = answers[i].momentum;
    r.weight_decay = answers[i].weight_decay;
    for (int j = 0; j < 6; ++j) r.w[j] = j + 1;
    for (int s = 0; s < 3; ++s) reference_step(&r, known_ids[s], known_counts[s], known_values[s], 0.1);
    for (int j = 0; j < 6; ++j)
      if (!(fabs(r.w[j] - answers[i].want[j]) <= 1e-12)) fail_msg("kind %d weight %d: %.17g, not %.17g", answers[i].kind, j, r.w[j], answers[i].want[j]);
    reference_free(&r);
  }
}

/* torch.optim.Adafactor (2.10's formulas in double, eps = (2^-23, 1e-3)): the same steps with zeros for the rows without gradient. */
static void adafactor_gives_the_numbers_of_a_dense_matrix(void **state) {
  static const double want[2][6] = {{0.5836560347544517, 1.6672360195213822, 3.2987757968879574, 3.3674829811028077, 4.582122480119327, 5.684722344591311},
                                    {0.5814932918141815, 1.6619030187553137, 3.289170744398155, 3.356794937664508, 4.567972812281568, 5.667370578624473}};
  static const int64_t all[3] = {0, 1, 2};
  static const double values[3][6] = {{3, 2, 0, 0, .5, .25}, {0, 0, -1, 2, 0, 0}, {.1, -.2, 0, 0, 0, 0}};
  embed_context *ctx = NULL;
  (void)state;
  assert_int_equal(embed_context_create(NULL, &ctx), EMBED_OK);
  for (int decay = 0; decay < 2; ++decay) {
    const embed_optimizer_options options = {.size = sizeof options, .kind = EMBED_OPTIM_ADAFACTOR, .lr = 0.1, .weight_decay = decay * 0.01};
    float w[6], dense[6];
    embed_table *t = NULL;
    embed_optimizer *o = NULL;
    embed_grad *g = NULL;
    reference r = reference_new(EMBED_OPTIM_ADAFACTOR, 3, 2);
    r.weight_decay = options.weight_decay;
    for (int j = 0; j < 6; ++j) r.w[j] = (double)(w[j] = (float)(j + 1));
    OK(ctx, embed_table_borrow(ctx, w, 3, 2, NULL, NULL, NULL, &t));
    OK(ctx, embed_optimizer_create(ctx, t, &options, &o));
    OK(ctx, embed_grad_create_dense(ctx, 3, 2, dense, 0, &g));
    for (int s = 0; s < 3; ++s) {
      for (int j = 0; j < 6; ++j) dense[j] = (float)values[s][j];
      reference_step(&r, all, 3, values[s], 0.1);
      OK(ctx, embed_optimizer_step(ctx, o, t, g, NULL));
    }
    for (int j = 0; j < 6; ++j) {
      if (!(fabs(r.w[j] - want[decay][j]) <= 1e-12)) fail_msg("weight %d: %.17g, not %.17g", j, r.w[j], want[decay][j]);
      if (!(fabs((double)w[j] - want[decay][j]) <= 1e-6)) fail_msg("weight %d: %.9g, not %.17g", j, (double)w[j], want[decay][j]);
    }
    reference_free(&r);
    embed_grad_release(g);
    embed_optimizer_release(o);
    embed_table_release(t);
  }
  embed_context_release(ctx);
}

static embed_grad *gradient(embed_context *ctx, int64_t dim, const int32_t *ids, int64_t n, const float *values) {
  embed_grad *g = NULL;
  OK(ctx, embed_grad_create(ctx, dim, &g));
  OK(ctx, embed_grad_add(ctx, g, ids, n, values, 0));
  return g;
}

static void the_library_gives_the_published_numbers(void **state) {
  (void)state;
  static const int32_t ids[3][3] = {{0, 2, 0}, {1}, {0}};
  static const int64_t counts[3] = {3, 1, 1};
  static const float values[3][6] = {{1, -1, .5f, .25f, 2, 3}, {-1, 2}, {.1f, -.2f}};
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(NULL, &ctx), EMBED_OK);
  for (size_t i = 0; i < sizeof answers / sizeof *answers; ++i) {
    float w[6] = {1, 2, 3, 4, 5, 6};
    embed_table *t = NULL;
    embed_optimizer *o = NULL;
    const embed_optimizer_options options = {
        .size = sizeof options, .kind = answers[i].kind, .lr = 0.1, .momentum = answers[i].momentum, .weight_decay = answers[i].weight_decay};
    OK(ctx, embed_table_borrow(ctx, w, 3, 2, NULL, NULL, NULL, &t));
    OK(ctx, embed_optimizer_create(ctx, t, &options, &o));
    for (int s = 0; s < 3; ++s) {
      embed_grad *g = gradient(ctx, 2, ids[s], counts[s], values[s]);
      OK(ctx, embed_optimizer_step(ctx, o, t, g, NULL));
      embed_grad_release(g);
    }
    OK(ctx, embed_optimizer_touch(ctx, o, t, NULL, 0));
    assert_int_equal(embed_optimizer_steps(o), 3);
    for (int j = 0; j < 6; ++j)
      if (!(fabs((double)w[j] - answers[i].want[j]) <= 1e-6))
        fail_msg("kind %d weight %d: %.9g, not %.17g", answers[i].kind, j, (double)w[j], answers[i].want[j]);
    embed_optimizer_release(o);
    embed_table_release(t);
  }
  embed_context_release(ctx);
}

/* --- Random runs */

enum { ROWS = 40, DIM = 37, STEPS = 30 };

static double ulp(double x) { return (double)(nextafterf(fabsf((float)x), INFINITY) - fabsf((float)x)); }

typedef struct variant {
  embed_optimizer_kind kind;
  uint32_t flags;
  double momentum, weight_decay, l1, beta1;
} variant;

static const variant variants[] = {
    {.kind = EMBED_OPTIM_SGD},
    {.kind = EMBED_OPTIM_SGD, .weight_decay = .1},
    {.kind = EMBED_OPTIM_SGD, .momentum = .9, .weight_decay = .1},
    {.kind = EMBED_OPTIM_SGD, .momentum = .9, .weight_decay = .1, .flags = EMBED_OPTIM_NESTEROV},
    {.kind = EMBED_OPTIM_SGD, .momentum = .9, .weight_decay = .1, .flags = EMBED_OPTIM_LAZY},
    {.kind = EMBED_OPTIM_ADAGRAD},
    {.kind = EMBED_OPTIM_ADAGRAD, .weight_decay = .1},
    {.kind = EMBED_OPTIM_ADAGRAD_ROW},
    {.kind = EMBED_OPTIM_ADAGRAD_ROW, .weight_decay = .1},
    {.kind = EMBED_OPTIM_ADAM_SPARSE},
    {.kind = EMBED_OPTIM_ADAM_SPARSE, .weight_decay = .1},
    {.kind = EMBED_OPTIM_ADAMW},
    {.kind = EMBED_OPTIM_ADAMW, .weight_decay = .1},
    {.kind = EMBED_OPTIM_ADAMW, .flags = EMBED_OPTIM_BETA1_ZERO},
    {.kind = EMBED_OPTIM_ADAMW_DEFERRED, .weight_decay = .1},
    {.kind = EMBED_OPTIM_ADAMW_DEFERRED, .weight_decay = .1, .flags = EMBED_OPTIM_REPLAY},
    {.kind = EMBED_OPTIM_ADAMW_DEFERRED, .flags = EMBED_OPTIM_BETA1_ZERO},
    {.kind = EMBED_OPTIM_ADAM_LAZY, .weight_decay = .1},
    {.kind = EMBED_OPTIM_ADAM_ROW, .weight_decay = .1},
    {.kind = EMBED_OPTIM_RMSPROP, .weight_decay = .1},
    {.kind = EMBED_OPTIM_LION, .weight_decay = .1},
    {.kind = EMBED_OPTIM_LAMB, .weight_decay = .1},
    {.kind = EMBED_OPTIM_ADAFACTOR},
    {.kind = EMBED_OPTIM_ADAFACTOR, .weight_decay = .1},
    {.kind = EMBED_OPTIM_FTRL},
    {.kind = EMBED_OPTIM_FTRL, .weight_decay = .1, .l1 = .01, .beta1 = 1},
};

/* The difference may grow by an ulp of the weight and 8 of the rate (an adaptive step is about that long) a step; SGD's steps are
 * rate * gradient. */
static void run_variant(embed_context *ctx, const variant *p) {
  static float w[ROWS * DIM];
  double values[ROWS * DIM];
  float floats[ROWS * DIM];
  int32_t ids[ROWS];
  int64_t ids64[ROWS];
  uint64_t random = 5;
  const double lr = 0.01;
  embed_table *t = NULL;
  embed_optimizer *o = NULL;
  const embed_optimizer_options options = {.size = sizeof options,
                                           .kind = p->kind,
                                           .flags = p->flags,
                                           .lr = 1,
                                           .momentum = p->momentum,
                                           .weight_decay = p->weight_decay,
                                           .l1 = p->l1,
                                           .beta1 = p->beta1};
  const embed_step_options at_rate = {.size = sizeof at_rate, .flags = EMBED_STEP_LR, .lr = lr};
  reference r = reference_new(p->kind, ROWS, DIM);
  r.momentum = p->momentum;
  r.weight_decay = p->weight_decay;
  r.l1 = p->l1;
  r.lazy = (p->flags & EMBED_OPTIM_LAZY) != 0;
  r.nesterov = (p->flags & EMBED_OPTIM_NESTEROV) != 0;
  if (p->beta1 != 0) r.beta1 = p->beta1;
  if (p->flags & EMBED_OPTIM_BETA1_ZERO) r.beta1 = 0;
  for (int i = 0; i < ROWS * DIM; ++i) r.w[i] = (double)(w[i] = test_uniform(&random));
  OK(ctx, embed_table_borrow(ctx, w, ROWS, DIM, NULL, NULL, NULL, &t));
  OK(ctx, embed_optimizer_create(ctx, t, &options, &o));
  for (int s = 0; s < STEPS; ++s) {
    int n = 0;
    for (int row = 0; row < ROWS; ++row)
      if (test_random(&random) >> 62 == 0 || row == 0) ids64[n] = ids[n] = row, ++n;
    for (int i = 0; i < n * DIM; ++i) values[i] = (double)(floats[i] = test_uniform(&random) * 0.1f);
    embed_grad *g = gradient(ctx, DIM, ids, n, floats);
    OK(ctx, embed_optimizer_step(ctx, o, t, g, &at_rate));
    embed_grad_release(g);
    reference_step(&r, ids64, n, values, lr);
  }
  OK(ctx, embed_optimizer_touch(ctx, o, t, NULL, 0));
  for (int i = 0; i < ROWS * DIM; ++i) {
    const double bound = STEPS * (ulp(fmax(fabs(r.w[i]), 0.1)) + 8 * ulp(lr));
    if (!(fabs((double)w[i] - r.w[i]) <= bound))
      fail_msg("kind %d flags %u weight decay %d/10, element %d: %.9g, not %.9g", p->kind, p->flags, (int)(10 * p->weight_decay), i, (double)w[i], r.w[i]);
  }
  embed_optimizer_release(o);
  embed_table_release(t);
  reference_free(&r);
}

static void every_kind_follows_its_formula_within_a_few_ulp_a_step(void **state) {
  (void)state;
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(NULL, &ctx), EMBED_OK);
  for (size_t i = 0; i < sizeof variants / sizeof *variants; ++i) run_variant(ctx, &variants[i]);
  embed_context_release(ctx);
}

/* Finite gradients whose squares are past float's range, then ordinary ones: weights stay numbers, also those of rows without the former. */
static void squares_past_a_float_leave_numbers(void **state) {
  static const float sizes[] = {1.8e19f, 2e19f, 1e25f, 3e37f};
  static const int32_t ids[3] = {0, 1, 2};
  embed_context *ctx = NULL;
  (void)state;
  assert_int_equal(embed_context_create(NULL, &ctx), EMBED_OK);
  for (size_t i = 0; i < sizeof variants / sizeof *variants; ++i) {
    if (variants[i].kind != EMBED_OPTIM_ADAFACTOR && variants[i].kind != EMBED_OPTIM_FTRL && variants[i].kind != EMBED_OPTIM_RMSPROP) continue;
    for (int size = 0; size < 4; ++size)
      for (int bf16 = 0; bf16 < 2; ++bf16) {
        float w[3 * 8], g[3 * 8];
        uint64_t random = 6;
        embed_table *t = NULL;
        embed_optimizer *o = NULL;
        const embed_optimizer_options options = {
            .size = sizeof options, .kind = variants[i].kind, .state = bf16 ? EMBED_BF16 : EMBED_F32, .lr = 0.01, .weight_decay = variants[i].weight_decay};
        const embed_step_options finite = {.size = sizeof finite, .flags = EMBED_STEP_CHECK_FINITE};
        if (bf16 && variants[i].kind == EMBED_OPTIM_ADAFACTOR) continue; /* has no such state */
        for (int j = 0; j < 3 * 8; ++j) w[j] = test_uniform(&random);
        OK(ctx, embed_table_borrow(ctx, w, 3, 8, NULL, NULL, NULL, &t));
        OK(ctx, embed_optimizer_create(ctx, t, &options, &o));
        for (int s = 0; s < 6; ++s) {
          for (int j = 0; j < 3 * 8; ++j) g[j] = test_uniform(&random) * (s % 3 == 2 ? 1 : sizes[size]);
          if (s % 3 == 0) /* a row alone, and a column that is far above the others */
            for (int j = 0; j < 8; ++j) g[j] = j == 5 ? sizes[size] : sizes[size] / (float)(1 + s);
          embed_grad *of_step = gradient(ctx, 8, ids, s % 3 == 0 ? 1 : 3, g);
          OK(ctx, embed_optimizer_step(ctx, o, t, of_step, &finite));
          embed_grad_release(of_step);
          for (int j = 0; j < 3 * 8; ++j)
            if (!isfinite(w[j])) fail_msg("kind %d, gradients of %g, step %d, element %d: %g", options.kind, (double)sizes[size], s, j, (double)w[j]);
        }
        embed_optimizer_release(o);
        embed_table_release(t);
      }
  }
  embed_context_release(ctx);
}

/* --- Deferred AdamW in closed form */

enum { LONG_ROWS = 500, LONG_DIM = 16, LONG_STEPS = 2000, PER_STEP = 16 };

typedef struct errors {
  double closed, dense; /* relative to the length of the table, against double */
  double worst_closed;  /* of a row, relative to its length */
} errors;

static double rate_of(int step) { return embed_lr_at(EMBED_LR_COSINE, 1e-3, step, 100, LONG_STEPS, 1e-5); }

static int zipf(uint64_t *random) { /* 1 / (k + 1), by its inverse */
  const double u = (double)(test_random(random) >> 11) * 0x1p-53;
  int k = (int)(exp(u * log(LONG_ROWS + 1.0)) - 1.0);
  return k < LONG_ROWS ? k : LONG_ROWS - 1;
}

static double length_of(const double *a, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * a[i];
  return sqrt(sum);
}

/* Gradients of this size, so that sqrt(v) is far above epsilon, or about it. */
static errors long_run(embed_context *ctx, int uniform, double size, double beta2, int touch_between) {
  enum { ALL = LONG_ROWS * LONG_DIM };
  static float w[2][ALL], floats[PER_STEP * LONG_DIM];
  static double values[PER_STEP * LONG_DIM], off[2][ALL];
  uint64_t random = 77;
  embed_table *t[2];
  embed_optimizer *o[2];
  reference r = reference_new(EMBED_OPTIM_ADAMW, LONG_ROWS, LONG_DIM);
  r.weight_decay = 0.1;
  r.beta2 = beta2;
  for (int i = 0; i < ALL; ++i) r.w[i] = (double)(w[0][i] = w[1][i] = test_uniform(&random) * 0.1f);
  for (int i = 0; i < 2; ++i) {
    const embed_optimizer_options options = {
        .size = sizeof options, .kind = i == 0 ? EMBED_OPTIM_ADAMW_DEFERRED : EMBED_OPTIM_ADAMW, .lr = 1, .beta2 = beta2, .weight_decay = r.weight_decay};
    OK(ctx, embed_table_borrow(ctx, w[i], LONG_ROWS, LONG_DIM, NULL, NULL, NULL, &t[i]));
    OK(ctx, embed_optimizer_create(ctx, t[i], &options, &o[i]));
  }
  for (int s = 1; s <= LONG_STEPS; ++s) {
    int32_t ids[PER_STEP];
    int64_t ids64[PER_STEP];
    char taken[LONG_ROWS] = {0};
    int n = 0;
    for (int i = 0; i < PER_STEP; ++i) taken[uniform ? (int)(test_random(&random) % LONG_ROWS) : zipf(&random)] = 1;
    for (int row = 0; row < LONG_ROWS; ++row)
      if (taken[row]) ids64[n] = ids[n] = row, ++n;
    for (int i = 0; i < n * LONG_DIM; ++i) values[i] = (double)(floats[i] = test_uniform(&random) * (float)size);
    embed_grad *g = gradient(ctx, LONG_DIM, ids, n, floats);
    const embed_step_options rate = {.size = sizeof rate, .flags = EMBED_STEP_LR, .lr = rate_of(s)};
    for (int i = 0; i < 2; ++i) OK(ctx, embed_optimizer_step(ctx, o[i], t[i], g, &rate));
    embed_grad_release(g);
    reference_step(&r, ids64, n, values, rate_of(s));
    if (touch_between && s % 7 == 0) OK(ctx, embed_optimizer_touch(ctx, o[0], t[0], &(int64_t){s % LONG_ROWS}, 1));
    if (touch_between && s % 500 == 0) OK(ctx, embed_optimizer_touch(ctx, o[0], t[0], NULL, 0));
  }
  OK(ctx, embed_optimizer_touch(ctx, o[0], t[0], NULL, 0));
  errors e = {0, 0, 0};
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < ALL; ++j) off[i][j] = (double)w[i][j] - r.w[j];
  e.closed = length_of(off[0], ALL) / length_of(r.w, ALL);
  e.dense = length_of(off[1], ALL) / length_of(r.w, ALL);
  for (int row = 0; row < LONG_ROWS; ++row) {
    const double of_row = length_of(off[0] + row * LONG_DIM, LONG_DIM) / length_of(r.w + row * LONG_DIM, LONG_DIM);
    if (of_row > e.worst_closed) e.worst_closed = of_row;
  }
  for (int i = 0; i < 2; ++i) {
    embed_optimizer_release(o[i]);
    embed_table_release(t[i]);
  }
  reference_free(&r);
  return e;
}

static void closed_form_is_within_1e_6_of_the_dense_run_after_2000_steps(void **state) {
  (void)state;
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(NULL, &ctx), EMBED_OK);
  static const double sizes[] = {1e-2, 1e-6, 3e-8}, betas[] = {0.999, 0.95};
  for (int uniform = 0; uniform <= 1; ++uniform)
    for (int size = 0; size < 3; ++size)
      for (int beta = 0; beta < 2; ++beta)
        for (int touch = 0; touch <= 1; ++touch) {
          const errors e = long_run(ctx, uniform, sizes[size], betas[beta], touch);
          print_message(
              "%s ids, gradients of %.0e, beta2 %.3f%s: closed form %.1e of the table off the dense run in double, worst row %.1e (dense in float: %.1e)\n",
              uniform ? "uniform" : "Zipf", sizes[size], betas[beta], touch ? ", touched between" : "", e.closed, e.worst_closed, e.dense);
          assert_true(e.closed <= 1e-6);
        }
  embed_context_release(ctx);
}

/* --- Learning rates */

static void rates_are_what_their_formulas_say(void **state) {
  (void)state;
  assert_true(fabs(embed_lr_ratio(EMBED_LR_SQRT_WIDTH, 4096, 1024, 8) - 16) < 1e-12);
  assert_true(fabs(embed_lr_ratio(EMBED_LR_WIDTH, 4096, 1024, 8) - 32) < 1e-12);
  assert_true(fabs(embed_lr_ratio(EMBED_LR_ONE, 4096, 1024, 10) - 10) < 1e-12);
  assert_true(fabs(embed_lr_ratio(EMBED_LR_SQRT_WIDTH, 1600, 1, 1) - 40) < 1e-12);
  assert_true(fabs(embed_lr_ratio(EMBED_LR_SQRT_WIDTH, 4096, 1, 1) - 64) < 1e-12);
  assert_true(fabs(embed_lr_ratio(EMBED_LR_SQRT_WIDTH, 8192, 1, 1) - 90.50966799187809) < 1e-12);
  assert_true(isnan(embed_lr_ratio(EMBED_LR_WIDTH, 0, 1, 1)) && isnan(embed_lr_ratio(EMBED_LR_WIDTH, 1, 0, 1)) && isnan(embed_lr_ratio(9, 1, 1, 1)));
  assert_true(isnan(embed_lr_ratio(EMBED_LR_ONE, 1, 1, INFINITY)));
  assert_true(fabs(embed_lr_at(EMBED_LR_CONSTANT, 2, 1, 4, 0, 0) - .5) < 1e-15);
  assert_true(fabs(embed_lr_at(EMBED_LR_CONSTANT, 2, 4, 4, 0, 0) - 2) < 1e-15);
  assert_true(fabs(embed_lr_at(EMBED_LR_CONSTANT, 2, 400, 4, 0, 0) - 2) < 1e-15);
  assert_true(fabs(embed_lr_at(EMBED_LR_COSINE, 2, 10, 10, 20, 1) - 2) < 1e-15);
  assert_true(fabs(embed_lr_at(EMBED_LR_COSINE, 2, 15, 10, 20, 1) - 1.5) < 1e-15);
  assert_true(fabs(embed_lr_at(EMBED_LR_COSINE, 2, 20, 10, 20, 1) - 1) < 1e-15);
  assert_true(fabs(embed_lr_at(EMBED_LR_COSINE, 2, 2000, 10, 20, 1) - 1) < 1e-15);
  assert_true(fabs(embed_lr_at(EMBED_LR_LINEAR, 2, 12, 10, 20, 1) - 1.8) < 1e-15);
  assert_true(fabs(embed_lr_at(EMBED_LR_INVERSE_SQRT, 2, 100, 25, 0, 0) - 1) < 1e-15);
  assert_true(fabs(embed_lr_at(EMBED_LR_INVERSE_SQRT, 2, 16, 0, 0, 0) - .5) < 1e-15);
  assert_true(isnan(embed_lr_at(EMBED_LR_COSINE, 1, 0, 0, 10, 0)) && isnan(embed_lr_at(EMBED_LR_COSINE, 1, 1, -1, 10, 0)));
  assert_true(isnan(embed_lr_at(EMBED_LR_COSINE, 1, 10, 10, 10, 0)) && isnan(embed_lr_at(EMBED_LR_CONSTANT, -1, 1, 0, 0, 0)) &&
              isnan(embed_lr_at(7, 1, 1, 0, 9, 0)));
  assert_true(isnan(embed_lr_at(7, 1, 1, 5, 9, 0)) && isnan(embed_lr_at(-1, 1, 1, 5, 9, 0))); /* not first after the warm-up */
  assert_true(isnan(embed_lr_at(EMBED_LR_COSINE, 1, 1, 5, 5, 0)) && isnan(embed_lr_at(EMBED_LR_LINEAR, 1, 1, 5, 0, 0)));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_formulas_give_the_published_numbers),
    cmocka_unit_test(the_library_gives_the_published_numbers),
    cmocka_unit_test(adafactor_gives_the_numbers_of_a_dense_matrix),
    cmocka_unit_test(every_kind_follows_its_formula_within_a_few_ulp_a_step),
    cmocka_unit_test(squares_past_a_float_leave_numbers),
    cmocka_unit_test(closed_form_is_within_1e_6_of_the_dense_run_after_2000_steps),
    cmocka_unit_test(rates_are_what_their_formulas_say),
};
TEST_MAIN(tests)
