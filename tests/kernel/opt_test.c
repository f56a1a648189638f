/* SPDX-License-Identifier: BSD-3-Clause */
/* Row updates of optimisers: every level gives the bits of scalar, whatever the count, and touches nothing beside it. */
#include "timed.h"

enum { GRADIENT, GRADIENT_ALONE, MOMENTUM, NESTEROV, ADAGRAD, RMSPROP, ADAM, ADAM_DIRECTION, LION, FTRL, DRIFT, DRIFT_OF_TWO, SHRINK, LEAST_ACTIVE, UPDATES };
enum { W, G, A, B, OUT, BUFFERS }; /* A, B: moments, or what else a kind keeps */
static const char *const names[UPDATES] = {"gradient",       "gradient alone", "momentum", "nesterov", "adagrad",      "rmsprop", "adam",
                                           "adam direction", "lion",           "ftrl",     "drift",    "drift of two", "shrink",  "least active"};

static void update(const embed__opt_kernels *k, int which, float *const at[BUFFERS], int64_t dim) {
  const embed__opt_numbers n = {.lr = .1f,
                                .shrink = .01f,
                                .beta1 = .9f,
                                .rest1 = .1f,
                                .beta2 = .99f,
                                .rest2 = .01f,
                                .root = 1.5f,
                                .epsilon = 1e-8f,
                                .l1 = .3f,
                                .l2 = .2f,
                                .nesterov = which == NESTEROV ? .9f : 0};
  const embed__opt_drift d = {.lose = .02f, .beta1 = .8f, .beta2 = .9f, .weight = {.3f, which == DRIFT_OF_TWO ? .2f : 0}, .add = {1e-8f, 2e-8f}};
  float *w = at[W], *g = at[G], *a = at[A], *b = at[B], *out = at[OUT], least;
  switch (which) {
    case GRADIENT: k->gradient(g, w, out, dim, .5f, .25f); break;
    case GRADIENT_ALONE: k->gradient(g, w, out, dim, .5f, 0); break;
    case MOMENTUM:
    case NESTEROV: k->momentum(w, g, a, dim, &n); break;
    case ADAGRAD: k->adagrad(w, g, b, dim, &n); break;
    case RMSPROP: k->rmsprop(w, g, b, dim, &n); break;
    case ADAM: k->adam(w, g, a, b, dim, &n); break;
    case ADAM_DIRECTION: k->adam_direction(w, g, a, b, out, dim, &n); break;
    case LION: k->lion(w, g, a, dim, &n); break;
    case FTRL: k->ftrl(w, g, a, b, dim, &n); break;
    case DRIFT:
    case DRIFT_OF_TWO: k->drift(w, a, b, dim, &d); break;
    case SHRINK: k->shrink(w, dim, .125f); break;
    default:
      least = k->least_active(a, b, dim);
      if (dim > 0) out[0] = least;
  }
}

static void fill(float *const at[BUFFERS], int64_t dim, uint64_t random) {
  for (int64_t j = 0; j < dim; ++j) {
    const int special = (int)(test_random(&random) >> 60);
    at[W][j] = test_uniform(&random);
    at[G][j] = special == 0 ? 0 : special == 1 ? 1e-30f : special == 2 ? INFINITY : special == 3 ? NAN : special == 7 ? 2e19f : test_uniform(&random);
    at[A][j] = special == 4 ? 0 : special == 5 ? 0x1p-119f : test_uniform(&random);
    at[B][j] = special == 4 || special == 6 ? 0 : fabsf(test_uniform(&random));
    at[OUT][j] = 7;
  }
}

/* Which NaN comes out is nobody's promise. */
static void assert_same_numbers(const float *got, const float *want, int64_t dim, int which, int buffer) {
  for (int64_t j = 0; j < dim; ++j)
    if (memcmp(got + j, want + j, sizeof *got) && !(isnan(got[j]) && isnan(want[j])))
      fail_msg("%s, dim %d, buffer %d, element %d: %a, not %a", names[which], (int)dim, buffer, (int)j, (double)got[j], (double)want[j]);
}

/* Buffers begin or end at unreadable pages, each neighbour at the other end: no two need the same alignment. */
static void check_updates(const embed__kernels *k) {
  static float want[BUFFERS][LONGEST];
  const embed__kernels scalar = scalar_kernels();
  float *const of_want[BUFFERS] = {want[W], want[G], want[A], want[B], want[OUT]};
  guarded first[BUFFERS], last[BUFFERS];
  for (int i = 0; i < BUFFERS; ++i) first[i] = guarded_new(4 * LONGEST, 0), last[i] = guarded_new(4 * LONGEST, 1);
  for (int which = 0; which < UPDATES; ++which)
    for (int l = -1; l < LENGTHS; ++l)
      for (int odd = 0; odd < 2; ++odd) {
        const int64_t dim = l < 0 ? 0 : lengths[l];
        float *got[BUFFERS];
        for (int i = 0; i < BUFFERS; ++i) got[i] = (float *)(void *)placed(i % 2 == odd ? first[i] : last[i], 4 * LONGEST, (size_t)(4 * dim), i % 2 != odd);
        fill(got, dim, 9);
        fill(of_want, dim, 9);
        update(&scalar.opt, which, of_want, dim);
        update(&k->opt, which, got, dim);
        for (int i = 0; i < BUFFERS; ++i) assert_same_numbers(got[i], want[i], dim, which, i);
      }
  for (int i = 0; i < BUFFERS; ++i) guarded_free(first[i]), guarded_free(last[i]);
}
static void every_level_gives_the_bits_of_scalar(void **state) {
  (void)state;
  each_level(1, check_updates);
}

/* Numbers that a reader can follow, at every level; the formulas as a whole: unit.optim_test. */
static void check_known(const embed__kernels *k) {
  for (int64_t dim = 1; dim <= 33; dim += 16) { /* the tail and whole vectors */
    float w[33], g[33], m[33], v[33];
    for (int j = 0; j < 33; ++j) w[j] = 1, g[j] = 2, m[j] = 0, v[j] = 0;
    const embed__opt_numbers n = {.lr = .5f, .beta1 = .5f, .rest1 = .5f, .beta2 = .75f, .rest2 = .25f, .root = 2, .epsilon = 0};
    k->opt.adam(w, g, m, v, dim, &n);
    for (int64_t j = 0; j < 33; ++j) {
      assert_true(w[j] == (j < dim ? .75f : 1)); /* 1 - .5 * 1 / (2 * 1) */
      assert_true(m[j] == (j < dim) && v[j] == (j < dim));
    }
    m[0] = 0x1p-120f, v[0] = 0;
    k->opt.adam(w, (float[33]){0}, m, v, 1, &n);
    assert_true(m[0] == 0); /* below 2^-120 counts as 0 */
    assert_true(k->opt.least_active(v, w, 1) == INFINITY);
    for (int j = 0; j < 33; ++j) w[j] = 1, g[j] = 0x1p64f, m[j] = 0, v[j] = 0;
    k->opt.ftrl(w, g, m, v, dim, &n);
    for (int64_t j = 0; j < dim; ++j) assert_true(v[j] == EMBED__MOST_SQUARE && isfinite(w[j]));
    for (int j = 0; j < 33; ++j) w[j] = 1, v[j] = 4;
    k->opt.rmsprop(w, g, v, dim, &(embed__opt_numbers){.lr = 1, .beta2 = 1}); /* g^2 counts for nothing */
    for (int64_t j = 0; j < dim; ++j) assert_true(v[j] == 4 && w[j] == 1 - 0x1p63f);
  }
}
static void known_steps_come_out_exactly(void **state) {
  (void)state;
  each_level(0, check_known);
}

static void check_control(const embed__kernels *k) {
  static float numbers[BUFFERS][67];
  float *const at[BUFFERS] = {numbers[W], numbers[G], numbers[A], numbers[B], numbers[OUT]};
  const unsigned before = control_bits();
  for (int which = 0; which < UPDATES; ++which) {
    fill(at, 67, 3);
    update(&k->opt, which, at, 67);
  }
  assert_int_equal(control_bits(), before);
}
static void control_bits_stay_as_they_are(void **state) {
  (void)state;
  each_level(0, check_control);
}

/* --- timed: a row of 4096 columns; no gradient, so that nothing runs away --- */

typedef struct timed_update {
  const embed__opt_kernels *k;
  int which;
  float *at[BUFFERS];
  float numbers[BUFFERS][LONGEST];
} timed_update;

static void run_update(void *job) {
  timed_update *t = job;
  update(t->k, t->which, t->at, LONGEST);
}

static void time_updates(const embed__kernels *k, kernel_timer *timer) {
  static timed_update t;
  const embed__opt_kernels *o = &k->opt;
  timed_kernel *const kernels[UPDATES] = {
      (timed_kernel *)o->gradient, (timed_kernel *)o->gradient, (timed_kernel *)o->momentum,       (timed_kernel *)o->momentum,    (timed_kernel *)o->adagrad,
      (timed_kernel *)o->rmsprop,  (timed_kernel *)o->adam,     (timed_kernel *)o->adam_direction, (timed_kernel *)o->lion,        (timed_kernel *)o->ftrl,
      (timed_kernel *)o->drift,    (timed_kernel *)o->drift,    (timed_kernel *)o->shrink,         (timed_kernel *)o->least_active};
  static const int moved[UPDATES] = {3, 2, 5, 5, 5, 5, 7, 7, 5, 7, 6, 6, 2, 2}; /* floats of a column that are read or written */
  t.k = o;
  for (int i = 0; i < BUFFERS; ++i) t.at[i] = t.numbers[i];
  for (t.which = 0; t.which < UPDATES; ++t.which) {
    for (int64_t j = 0; j < LONGEST; ++j) t.at[W][j] = 1, t.at[G][j] = 0, t.at[A][j] = 1e-3f, t.at[B][j] = 1;
    kernel_bench(timer, &(timed_case){names[t.which], kernels[t.which], run_update, &t, 4.0 * moved[t.which] * LONGEST, TIMED_BYTES});
  }
}
KERNEL_CASES(time_updates)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_level_gives_the_bits_of_scalar),
    cmocka_unit_test(known_steps_come_out_exactly),
    cmocka_unit_test(control_bits_stay_as_they_are),
    cmocka_unit_test(timed_cases_run),
};
KERNEL_MAIN("opt", tests, time_updates)
