/* SPDX-License-Identifier: BSD-3-Clause */
/* Cross-entropy: known answers, gradients against finite differences in double, reported bugs of other libraries. */
#include "loss.h"

enum { SHAPE = 12 };

/* Logits are hidden rows: the table is the identity. D5 of the specification. */
static const float d5_logits[SHAPE] = {2, 1, 0.1f, -1, 0.5f, 0.5f, 0.5f, 0.5f, 3, -2, 0, 1};
static problem d5(void) {
  static const int32_t targets[3] = {0, -100, 3};
  problem p = problem_new(4, 4, 3, 1);
  for (int i = 0; i < 16; ++i) p.w[i] = i % 5 == 0;
  memcpy(p.x, d5_logits, sizeof d5_logits);
  memcpy(p.targets, targets, sizeof targets);
  return p;
}

/* Row losses by both calls. */
static void check_losses(const problem *p, double first, double third, double divisor, double mean) {
  embed_context *ctx = context_new();
  embed_head *h = head_of(ctx, p, table_of(ctx, p));
  float loss[3], lse[3];
  training t = train(ctx, p, h);
  OK(embed_cross_entropy(ctx, h, p->x, EMBED_F32, 3, 0, p->targets, loss, lse, &p->o));
  for (int call = 0; call < 2; ++call) {
    const float *got = call ? t.loss : loss;
    if (first > 0) assert_true(fabs((double)got[0] - first) < 3e-7 && fabs((double)got[2] - third) < 3e-7);
    assert_true(got[1] == 0);
    assert_true(fabs(((double)got[0] + (double)got[1] + (double)got[2]) / divisor - mean) < 3e-7);
  }
  assert_true(t.count == 2);
  training_free(&t);
  embed_head_release(h);
  embed_context_release(ctx);
}

static void losses_of_known_logits(void **state) {
  static const float weights[4] = {1, 2, 0.5f, 3};
  problem p = d5();
  (void)state;
  check_losses(&p, .4493130023803544, 2.1755153626167143, 2, 1.3124141824985343);
  p.o.z_loss = 1e-4;
  check_losses(&p, 0, 0, 2, 1.3124141824985343 + .0008041516000922114);
  p.o.z_loss = 0;
  p.o.label_smoothing = .1;
  check_losses(&p, .5968130023803544, 2.2255153626167146, 2, 1.4111641824985344);
  p.o.flags = EMBED_LOSS_SMOOTH_OTHERS;
  check_losses(&p, .645979669047021, 2.242182029283381, 2, (.645979669047021 + 2.242182029283381) / 2);
  p.o.flags = 0;
  p.class_weight = zeroed(4, sizeof *p.class_weight);
  memcpy(p.class_weight, weights, sizeof weights);
  p.o.class_weight = p.class_weight;
  check_losses(&p, 0, 0, 4, 1.779014447629868); /* divided by the weights of the counted rows' targets */
  p.o.label_smoothing = 0;
  check_losses(&p, 0, 0, 4, 1.7439647725576244);
  problem_free(&p);
}

static void slopes_of_known_logits(void **state) {
  static const double want[SHAPE] = {-.18096682442603118, .11736574634530228,   .047717351556811026, .015883726523917927, 0, 0, 0, 0,
                                     .419512253731266,    .0028266513311081655, .02088628525767523,  -.44322519032004937};
  problem p = d5();
  embed_context *ctx = context_new();
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  (void)state;
  training t = train(ctx, &p, h);
  for (int i = 0; i < SHAPE; ++i) assert_true(fabs((double)t.dx[i] - want[i]) < 1e-7);
  training_free(&t);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

static problem d6(void) {
  static const float x[6] = {.5f, -1, 1, 2, 0, 1}, w[8] = {1, 0, 0, 1, -1, 1, .5f, .5f};
  static const int32_t targets[3] = {2, -100, 1};
  problem p = problem_new(4, 2, 3, 1);
  memcpy(p.x, x, sizeof x);
  memcpy(p.w, w, sizeof w);
  memcpy(p.targets, targets, sizeof targets);
  return p;
}

static void fused_loss_and_gradients_of_a_known_head(void **state) {
  static const double dx[6] = {.800641455759794, -.33760150548663265, 0, 0, -.055280747748014995, -.11281981103215677};
  static const double capped[6] = {.6859837557032562, -.24161555309163996, 0, 0, -.035125234943115785, -.0995109432619124};
  static const double dw[8] = {.1365499404254386,   -.21125914122622047, .030468410075386667, -.3928362613706017,
                               -.23151997513658068, .6311405090533331,   .06450162463575536,  -.027045106456510884};
  embed_context *ctx = context_new();
  (void)state;
  for (int cap = 0; cap < 2; ++cap) {
    problem p = d6();
    p.cap = cap ? 3 : 0;
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    training t = train(ctx, &p, h);
    double mean = ((double)t.loss[0] + (double)t.loss[2]) / 2;
    assert_true(fabs(mean - (cap ? 1.8014300716492881 : 1.8474081200729067)) < 2e-7);
    for (int i = 0; i < 6; ++i) assert_true(fabs((double)t.dx[i] - (cap ? capped : dx)[i]) < 2e-7);
    for (int i = 0; i < 8 && !cap; ++i) assert_true(fabs((double)t.dw[i] - dw[i]) < 2e-7);
    training_free(&t);
    embed_head_release(h);
    problem_free(&p);
  }
  embed_context_release(ctx);
}

/* ---- every pair of options ---- */
enum { OPTIONS = 11, IGNORED_CLASS = 3 };
static void set_option(problem *p, int option, uint64_t *state) {
  switch (option) {
    case 0: p->o.label_smoothing = .1; break;
    case 1: p->o.label_smoothing = .15, p->o.flags |= EMBED_LOSS_SMOOTH_OTHERS; break;
    case 2: p->o.z_loss = 3e-2; break;
    case 3: p->cap = 1.5f; break;
    case 4: p->scale = -1.75f; break;
    case 5: p->bias = p->bias ? p->bias : random_floats(p->vocab, 1, state); break;
    case 6:
      if (!p->class_weight) p->class_weight = random_floats(p->vocab, 1, state);
      for (int64_t v = 0; v < p->vocab; ++v) p->class_weight[v] = fabsf(p->class_weight[v]) + (v % 3 ? 0.1f : 0);
      p->o.class_weight = p->class_weight;
      break;
    case 7: p->o.flags |= EMBED_LOSS_IGNORE_INDEX, p->o.ignore_index = IGNORED_CLASS, p->targets[6] = 0, p->targets[2] = IGNORED_CLASS; break;
    case 8: p->up = p->up ? p->up : random_floats(p->n, 2, state); break;
    case 9: p->o.reduction = EMBED_REDUCE_SUM; break;
    default: p->o.reduction = EMBED_REDUCE_ROWS; break;
  }
}

/* sum of upstream * loss, at these numbers. */
static double total(const void *what, const double *w, const double *b, const double *x, double *values) {
  const problem *p = what;
  double z[64], slope[64], sum = 0;
  (void)values;
  for (int64_t i = 0; i < p->n; ++i) {
    if (p->targets[i] == ignored_target(p)) continue;
    logits_in_double(p, w, b, x + i * p->dim, z, slope);
    sum += upstream_of(p, i) * row_loss(p, z, logsumexp_of(z, p->vocab), p->targets[i]);
  }
  return sum;
}

static void check_pair(embed_context *ctx, int one, int other) {
  uint64_t state = (uint64_t)(100 * one + other + 1);
  problem p = problem_new(11, 5, 8, state);
  set_option(&p, one, &state);
  set_option(&p, other, &state);
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  answer want = answer_in_double(&p);
  training t = train(ctx, &p, h);
  double *dw = differences(total, &p, &p, 0, NULL), *db = differences(total, &p, &p, 1, NULL), *dx = differences(total, &p, &p, 2, NULL);
  float loss[8], lse[8], up[8], later_dx[40], later_dw[55] = {0};
  print_message("options %d and %d\n", one, other);
  CLOSE(t.loss, want.loss, p.n, 1e-6);
  CLOSE(t.dx, dx, p.n * p.dim, 2e-6);
  CLOSE(t.dw, dw, p.vocab * p.dim, 2e-6);
  if (p.bias) CLOSE(t.db, db, p.vocab, 2e-6);
  CLOSE(t.dx, want.dx, p.n * p.dim, 1e-6);
  CLOSE(t.dw, want.dw, p.vocab * p.dim, 1e-6);
  assert_int_equal(t.count, want.count);
  OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, loss, lse, &p.o));
  CLOSE(loss, want.loss, p.n, 1e-6);
  CLOSE(lse, want.logsumexp, p.n, 1e-6);
  for (int64_t i = 0; i < p.n; ++i) up[i] = (float)upstream_of(&p, i);
  OK(embed_cross_entropy_backward(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, lse, up, later_dx, 0, later_dw, 0, &p.o));
  CLOSE(later_dx, want.dx, p.n * p.dim, 2e-6);
  CLOSE(later_dw, want.dw, p.vocab * p.dim, 2e-6);
  free(dw), free(db), free(dx);
  answer_free(&want);
  training_free(&t);
  embed_head_release(h);
  problem_free(&p);
}

static void every_pair_of_options_has_the_gradient_of_its_loss(void **state) { /* CE-09 */
  embed_context *ctx = context_new();
  (void)state;
  for (int one = 0; one < OPTIONS; ++one)
    for (int other = one; other < OPTIONS; ++other) check_pair(ctx, one, other);
  embed_context_release(ctx);
}

/* ---- cases of ../shared/cases/cases.md, by number ---- */
static void all_ignored_is_a_loss_of_0_and_a_count_of_0(void **state) { /* CE-01 */
  problem p = problem_new(3, 4, 2, 1);
  embed_context *ctx = context_new();
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  (void)state;
  p.targets[0] = p.targets[1] = -100;
  for (embed_reduction r = EMBED_REDUCE_MEAN; r <= EMBED_REDUCE_ROWS; ++r) {
    p.o.reduction = r;
    training t = train(ctx, &p, h);
    assert_int_equal(t.count, 0);
    assert_true(t.loss[0] == 0 && t.loss[1] == 0);
    assert_true(test_all_bytes(t.dx, 2 * 4 * 4, 0) && test_all_bytes(t.dw, 3 * 4 * 4, 0));
    training_free(&t);
  }
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

static void targets_out_of_range_are_named_and_nothing_is_written(void **state) { /* CE-03 */
  static const int32_t bad[] = {5, -4, INT32_MIN, 1000, INT32_MAX, -1, -99};
  problem p = problem_new(5, 2, 3, 1);
  embed_context *ctx = context_new();
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  embed_grad *g = NULL;
  (void)state;
  OK(embed_grad_create(ctx, 2, &g));
  for (int k = 0; k < COUNT(bad); ++k) {
    unsigned char out[4][64];
    int64_t count = -7;
    char text[80];
    memset(out, 0xA5, sizeof out);
    float *o[4] = {(float *)(void *)out[0], (float *)(void *)out[1], (float *)(void *)out[2], (float *)(void *)out[3]};
    p.targets[0] = 0, p.targets[1] = bad[k], p.targets[2] = 77;
    snprintf(text, sizeof text, "target %d at position 1 is outside the vocabulary of 5 rows", bad[k]);
    assert_int_equal(embed_cross_entropy(ctx, h, p.x, EMBED_F32, 3, 0, p.targets, o[0], o[1], NULL), EMBED_E_ID);
    assert_int_equal(embed_error_at(ctx), 1);
    assert_string_equal(embed_error_text(ctx), text);
    assert_int_equal(embed_cross_entropy_backward(ctx, h, p.x, EMBED_F32, 3, 0, p.targets, p.x, p.x, o[2], 0, o[3], 0, NULL), EMBED_E_ID);
    assert_int_equal(embed_error_at(ctx), 1);
    assert_int_equal(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, 3, 0, p.targets, NULL, o[0], &count, o[2], EMBED_F32, 0, g, NULL), EMBED_E_ID);
    assert_int_equal(embed_error_at(ctx), 1);
    assert_true(test_all_bytes(out, sizeof out, 0xA5));
    assert_true(count == -7 && embed_grad_rows(g) == 0);
  }
  embed_grad_release(g);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

static void an_ignored_class_stays_in_the_sums(void **state) { /* CE-05 */
  static const float x[6] = {0, 1, 1, 0, 1, 1};
  problem p = problem_new(3, 3, 2, 1);
  embed_context *ctx = context_new();
  embed_head *h = NULL;
  (void)state;
  for (int i = 0; i < 9; ++i) p.w[i] = i % 4 == 0;
  memcpy(p.x, x, sizeof x);
  p.targets[0] = 1, p.targets[1] = 0;
  p.o.flags = EMBED_LOSS_IGNORE_INDEX;
  h = head_of(ctx, &p, table_of(ctx, &p));
  training t = train(ctx, &p, h);
  assert_true(fabsf(t.loss[0] - 0.8620f) < 1e-4f && t.loss[1] == 0 && t.count == 1);
  assert_true(test_all_bytes(t.dx + 3, 3 * 4, 0));
  training_free(&t);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

static void logits_of_minus_infinity_give_no_nan(void **state) { /* CE-07 */
  static const float logits[3] = {1, -INFINITY, 2}, zero[3] = {0};
  embed_context *ctx = context_new();
  (void)state;
  for (int k = 0; k < 3; ++k) {
    problem p = problem_new(3, 1, 1, 1);
    memset(p.w, 0, 12);
    p.bias = zeroed(3, 4);
    memcpy(p.bias, logits, sizeof logits);
    p.targets[0] = k == 1 ? 1 : 2;
    p.o.label_smoothing = k == 2 ? .1 : 0;
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    float loss;
    training t = train(ctx, &p, h);
    OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, 1, 0, p.targets, &loss, NULL, &p.o));
    if (k == 0) {
      assert_true(fabsf(loss - 0.3133f) < 1e-4f && fabsf(t.loss[0] - 0.3133f) < 1e-4f);
    } else {
      assert_true(isinf(loss) && loss > 0 && isinf(t.loss[0]) && t.loss[0] > 0);
    }
    if (k < 2)
      for (int v = 0; v < 3; ++v) assert_true(isfinite(t.db[v]) && isfinite(t.dw[v]) && isfinite(t.dx[0]));
    training_free(&t);
    /* a class of weight 0 may be masked in a smoothed loss too */
    p.o.class_weight = p.class_weight = zeroed(3, 4);
    memcpy(p.class_weight, zero, sizeof zero);
    p.class_weight[0] = p.class_weight[2] = 1;
    p.targets[0] = 2;
    t = train(ctx, &p, h);
    OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, 1, 0, p.targets, &loss, NULL, &p.o));
    assert_true(isfinite(loss) && isfinite(t.loss[0]) && isfinite(t.dx[0]));
    training_free(&t);
    embed_head_release(h);
    problem_free(&p);
  }
  embed_context_release(ctx);
}

static void ignored_rows_do_not_change_the_mean(void **state) { /* CE-11 */
  problem p = problem_new(7, 4, 2, 1);
  embed_context *ctx = context_new();
  (void)state;
  p.class_weight = zeroed(7, 4);
  for (int v = 0; v < 7; ++v) p.class_weight[v] = 0.5f + (float)v;
  for (int weighted = 0; weighted < 2; ++weighted) {
    p.o.class_weight = weighted ? p.class_weight : NULL;
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    p.targets[0] = 4, p.targets[1] = -100;
    p.n = 2;
    training both = train(ctx, &p, h);
    p.n = 1;
    training alone = train(ctx, &p, h);
    assert_same_bits(both.dx, alone.dx, 4 * 4);
    assert_same_bits(both.dw, alone.dw, 7 * 4 * 4);
    training_free(&both);
    training_free(&alone);
    embed_head_release(h);
  }
  embed_context_release(ctx);
  problem_free(&p);
}

static float to_bf16(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return f32_of_bf16_bits((uint16_t)((u + 0x7FFF + ((u >> 16) & 1)) >> 16));
}

static void gradients_of_many_chunks_of_bfloats_round_to_the_right_ones(void **state) { /* CE-13 */
  enum { N = 4096, VOCAB = 512, DIM = 64 };
  problem p = problem_new(VOCAB, DIM, N, 3);
  embed_context *ctx = context_with(NULL, 2);
  uint16_t *w = zeroed(VOCAB * DIM, 2), *x = zeroed(N * DIM, 2), *dx = zeroed(N * DIM, 2);
  embed_table *t = NULL;
  embed_head *h = NULL;
  embed_grad *g = NULL;
  embed_table_options bf16 = {.size = sizeof bf16, .dtype = EMBED_BF16};
  (void)state;
  for (int i = 0; i < VOCAB * DIM; ++i) {
    uint32_t u;
    p.w[i] = to_bf16(p.w[i]);
    memcpy(&u, &p.w[i], 4);
    w[i] = (uint16_t)(u >> 16);
  }
  for (int i = 0; i < N * DIM; ++i) {
    uint32_t u;
    p.x[i] = to_bf16(p.x[i]);
    memcpy(&u, &p.x[i], 4);
    x[i] = (uint16_t)(u >> 16);
  }
  answer want = answer_in_double(&p);
  OK(embed_table_view(ctx, w, VOCAB, DIM, &bf16, NULL, NULL, &t));
  OK(embed_head_create(ctx, t, NULL, NULL, &h));
  OK(embed_grad_create_dense(ctx, VOCAB, DIM, NULL, 0, &g));
  OK(embed_cross_entropy_train(ctx, h, x, EMBED_BF16, N, 0, p.targets, NULL, NULL, NULL, dx, EMBED_BF16, 0, g, NULL));
  for (int i = 0; i < VOCAB * DIM; ++i) { /* within one bfloat of the double's */
    float got = to_bf16(embed_grad_values(g)[i]), best = to_bf16((float)want.dw[i]);
    assert_true(fabsf(got - best) <= ldexpf(fabsf(best), -7));
  }
  for (int i = 0; i < N * DIM; ++i) assert_true(fabs((double)f32_of_bf16_bits(dx[i]) - want.dx[i]) <= ldexp(fabs(want.dx[i]), -8) + 1e-9);
  embed_grad_release(g);
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
  answer_free(&want);
  problem_free(&p);
  free(w), free(x), free(dx);
}

/* The target's probability rounds to 1 in float: its slope is the sum of the others' all the same. */
/* A NaN among the logits is a NaN in the loss, also of a target whose class weighs 0; an infinite logit is left out by that weight. */
static void a_weight_of_0_hides_no_nan(void **state) {
  static const float weight[2] = {0, 1}, rows[] = {1, 1, 0, 0};
  const float hidden[4] = {NAN, 0, 1, 0};
  const int32_t targets[2] = {0, 0};
  embed_context *ctx = context_new();
  problem p = {.vocab = 2, .dim = 2, .n = 2, .scale = 1, .w = (float *)(uintptr_t)rows};
  embed_loss_options o = {.size = sizeof o, .class_weight = weight};
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  float loss[2];
  (void)state;
  OK(embed_cross_entropy(ctx, h, hidden, EMBED_F32, 2, 0, targets, loss, NULL, &o));
  assert_true(isnan(loss[0]) && loss[1] == 0);
  embed_head_release(h);
  embed_context_release(ctx);
}

/* The head of rows 7, 2, 9, 4: targets are original ids, as everywhere on a subset, and so are the rows of the gradient. */
static void a_subset_takes_original_ids(void **state) {
  enum { VOCAB = 12, DIM = 5, N = 9, KEPT = 4 };
  static const int32_t kept[KEPT] = {7, 2, 9, 4};
  embed_context *ctx = context_new();
  uint64_t seed = 5;
  problem whole = problem_new(VOCAB, DIM, N, 3), small = problem_new(KEPT, DIM, N, 3);
  int32_t targets[N];
  (void)state;
  whole.bias = random_floats(VOCAB, 1, &seed);
  small.bias = zeroed(KEPT, 4), small.up = random_floats(N, 1, &seed);
  small.o.flags = EMBED_LOSS_IGNORE_INDEX, small.o.ignore_index = -3;
  memcpy(small.x, whole.x, N * DIM * 4);
  for (int v = 0; v < KEPT; ++v) {
    memcpy(small.w + v * DIM, whole.w + kept[v] * DIM, DIM * 4);
    small.bias[v] = whole.bias[kept[v]];
  }
  for (int i = 0; i < N; ++i) {
    small.targets[i] = i % 4 % 2 ? -3 : i % 4;
    targets[i] = i % 4 == 3 ? 2 : kept[i % 4]; /* 2 is of the subset, and ignored */
  }
  embed_loss_options o = small.o;
  o.ignore_index = 2;
  embed_head *h = head_of(ctx, &whole, table_of(ctx, &whole)), *subset = NULL;
  OK(embed_head_create_subset(ctx, h, kept, KEPT, &subset));
  answer want = answer_in_double(&small);
  float loss[N], again[N], lse[N], dx[N * DIM], dw[KEPT * DIM] = {0};
  int64_t count = 0;
  for (int dense = 0; dense < 2; ++dense) {
    embed_grad *g = NULL;
    OK(dense ? embed_grad_create_dense(ctx, VOCAB, DIM, NULL, 0, &g) : embed_grad_create(ctx, DIM, &g));
    OK(embed_cross_entropy_train(ctx, subset, whole.x, EMBED_F32, N, 0, targets, small.up, loss, &count, dx, EMBED_F32, 0, g, &o));
    CLOSE(loss, want.loss, N, 2e-6);
    CLOSE(dx, want.dx, N * DIM, 2e-6);
    assert_true(count == want.count && embed_grad_rows(g) == VOCAB);
    for (int v = 0; v < VOCAB; ++v) {
      const double none[DIM] = {0}, zero = 0;
      int at = 0;
      while (at < KEPT && kept[at] != v) ++at;
      CLOSE(embed_grad_values(g) + v * DIM, at < KEPT ? want.dw + at * DIM : none, DIM, 2e-6);
      CLOSE(embed_grad_bias(g) + v, at < KEPT ? want.db + at : &zero, 1, 2e-6);
    }
    embed_grad_release(g);
  }
  OK(embed_cross_entropy(ctx, subset, whole.x, EMBED_F32, N, 0, targets, again, lse, &o));
  CLOSE(again, want.loss, N, 2e-6);
  OK(embed_cross_entropy_backward(ctx, subset, whole.x, EMBED_F32, N, 0, targets, lse, small.up, dx, 0, dw, 0, &o));
  CLOSE(dw, want.dw, KEPT * DIM, 2e-6); /* by column, as logits */
  targets[6] = 8;                       /* is no id of the subset */
  assert_int_equal(embed_cross_entropy(ctx, subset, whole.x, EMBED_F32, N, 0, targets, again, lse, &o), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 6);
  answer_free(&want);
  embed_head_release(subset);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&whole);
  problem_free(&small);
}

static void slopes_near_certainty_are_not_lost(void **state) {
  problem p = problem_new(3, 3, 1, 1);
  embed_context *ctx = context_new();
  (void)state;
  for (int i = 0; i < 9; ++i) p.w[i] = i % 4 == 0;
  p.x[0] = 20, p.x[1] = 0, p.x[2] = -1;
  p.targets[0] = 0;
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  training t = train(ctx, &p, h);
  double others = exp(-20) + exp(-21), whole = 1 + others;
  assert_true(fabs((double)t.dx[0] + others / whole) <= 1e-5 * others);
  assert_true(fabs((double)t.dx[1] - exp(-20) / whole) <= 1e-5 * others);
  training_free(&t);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

/* A sure row: all but one of its logits lie far below the target's. Losses are small then, and right to float's last digits. */
static void losses_near_certainty_are_not_lost(void **state) {
  static const int vocabs[] = {4, 5, 16, 67};
  (void)state;
  embed_context *ctx = context_new();
  for (int v = 0; v < 4; ++v) {
    for (int gap = 14; gap <= 20; gap += 2) {
      problem p = problem_new(vocabs[v], 1, 1, 1);
      for (int i = 0; i < vocabs[v]; ++i) p.w[i] = i == 2 ? 0 : (float)-gap;
      p.x[0] = 1;
      p.targets[0] = 2;
      float loss;
      embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
      training t = train(ctx, &p, h);
      const double want = log1p((vocabs[v] - 1) * exp(-gap));
      OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, 1, 0, p.targets, &loss, NULL, &p.o));
      assert_true(fabs((double)loss - want) <= 1e-6 * want);
      assert_true(fabs((double)t.loss[0] - want) <= 1e-6 * want);
      training_free(&t);
      embed_head_release(h);
      problem_free(&p);
    }
  }
  embed_context_release(ctx);
}

/* As many rows, as wide, as tiles take: padding that was never written changes nothing. */
static void ignored_rows_do_not_change_the_bits_of_others(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  problem p = problem_new(200, 128, 80, 5);
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  training before = train(ctx, &p, h);
  for (int64_t i = 0; i < p.n; ++i)
    for (int64_t j = 0; j < p.dim && p.targets[i] == -100; ++j) p.x[i * p.dim + j] = NAN;
  training after = train(ctx, &p, h);
  assert_memory_equal(after.loss, before.loss, (size_t)p.n * sizeof(float));
  assert_memory_equal(after.dx, before.dx, (size_t)(p.n * p.dim) * sizeof(float));
  training_free(&before);
  training_free(&after);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(losses_of_known_logits),
    cmocka_unit_test(slopes_of_known_logits),
    cmocka_unit_test(fused_loss_and_gradients_of_a_known_head),
    cmocka_unit_test(every_pair_of_options_has_the_gradient_of_its_loss),
    cmocka_unit_test(all_ignored_is_a_loss_of_0_and_a_count_of_0),
    cmocka_unit_test(targets_out_of_range_are_named_and_nothing_is_written),
    cmocka_unit_test(an_ignored_class_stays_in_the_sums),
    cmocka_unit_test(logits_of_minus_infinity_give_no_nan),
    cmocka_unit_test(ignored_rows_do_not_change_the_mean),
    cmocka_unit_test(gradients_of_many_chunks_of_bfloats_round_to_the_right_ones),
    cmocka_unit_test(a_weight_of_0_hides_no_nan),
    cmocka_unit_test(a_subset_takes_original_ids),
    cmocka_unit_test(slopes_near_certainty_are_not_lost),
    cmocka_unit_test(losses_near_certainty_are_not_lost),
    cmocka_unit_test(ignored_rows_do_not_change_the_bits_of_others),
};
TEST_MAIN(tests)
