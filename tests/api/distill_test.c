/* SPDX-License-Identifier: BSD-3-Clause */
/* Distillation between two heads: against the definition in double, gradients against finite differences. */
#include "counting.h"
#include "loss.h"

typedef struct pair {
  problem teacher, student; /* ignored rows and upstream are the student's */
  embed_distill_options o;
} pair;

static pair pair_new(int64_t vocab, int64_t dim_of_teacher, int64_t dim, int64_t n, uint64_t seed) {
  pair p = {problem_new(vocab, dim_of_teacher, n, seed), problem_new(vocab, dim, n, seed + 1), {.size = sizeof p.o}};
  return p;
}

static void pair_free(pair *p) { problem_free(&p->teacher), problem_free(&p->student); }

static bool is_js(const pair *p) { return p->o.divergence == EMBED_DIVERGENCE_JENSEN_SHANNON; }

/* The definition: probabilities, then logarithms of their ratios. zt, zs are changed. */
static double divergence_of(const pair *p, double *zt, double *zs) {
  const int64_t vocab = p->student.vocab;
  const double t = p->o.temperature != 0 ? p->o.temperature : 1, mix = p->o.mix != 0 ? p->o.mix : 0.5;
  double sum = 0;
  for (int64_t v = 0; v < vocab; ++v) zt[v] /= t, zs[v] /= t;
  const double lt = logsumexp_of(zt, vocab), ls = logsumexp_of(zs, vocab);
  for (int64_t v = 0; v < vocab; ++v) {
    const double a = exp(zt[v] - lt), b = exp(zs[v] - ls), m = mix * a + (1 - mix) * b;
    sum += is_js(p) ? mix * a * log(a / m) + (1 - mix) * b * log(b / m) : a * (zt[v] - lt - (zs[v] - ls));
  }
  return p->o.flags & EMBED_DISTILL_SQUARED ? sum * t * t : sum;
}

static bool is_ignored(const pair *p, int64_t i) { return p->student.targets[i] == (p->o.flags & EMBED_DISTILL_IGNORE_INDEX ? p->o.ignore_index : -100); }

/* losses, where wanted; returns sum of upstream * loss at these numbers. */
static double total(const void *what, const double *w, const double *b, const double *x, double *losses) {
  const pair *p = what;
  const problem *t = &p->teacher, *s = &p->student;
  double *zt = zeroed(s->vocab, 8), *zs = zeroed(s->vocab, 8), *slope = zeroed(s->vocab, 8), sum = 0, counted = 0;
  double *tw = doubles_of(t->w, t->vocab * t->dim), *tb = doubles_of(t->bias, t->vocab), *tx = doubles_of(t->x, t->n * t->dim);
  for (int64_t i = 0; i < s->n; ++i) counted += !is_ignored(p, i);
  for (int64_t i = 0; i < s->n; ++i) {
    if (is_ignored(p, i)) continue;
    logits_in_double(t, tw, tb, tx + i * t->dim, zt, slope);
    logits_in_double(s, w, b, x + i * s->dim, zs, slope);
    const double loss = divergence_of(p, zt, zs);
    if (losses) losses[i] = loss;
    sum += loss * (s->up ? (double)s->up[i] : p->o.reduction == EMBED_REDUCE_MEAN ? 1 / counted : 1);
  }
  free(zt), free(zs), free(slope), free(tw), free(tb), free(tx);
  return sum;
}

typedef struct heads {
  embed_head *teacher, *student;
} heads;

static heads heads_of(embed_context *ctx, const pair *p) {
  return (heads){head_of(ctx, &p->teacher, table_of(ctx, &p->teacher)), head_of(ctx, &p->student, table_of(ctx, &p->student))};
}

static void heads_free(heads *h) {
  embed_head_release(h->teacher);
  embed_head_release(h->student);
}

static embed_status forward(embed_context *ctx, const pair *p, const heads *h, float *loss) {
  return embed_distill(ctx, h->teacher, p->teacher.x, EMBED_F32, 0, h->student, p->student.x, EMBED_F32, p->student.n, 0, p->student.targets, loss, &p->o);
}

static embed_status back(embed_context *ctx, const pair *p, const heads *h, training *t) {
  return embed_distill_train(ctx, h->teacher, p->teacher.x, EMBED_F32, 0, h->student, p->student.x, EMBED_F32, p->student.n, 0, p->student.targets,
                             p->student.up, t->loss, &t->count, t->dx, EMBED_F32, 0, t->g, &p->o);
}

static training distilled(embed_context *ctx, const pair *p, const heads *h) {
  const problem *s = &p->student;
  training t = {.loss = zeroed(s->n, 4), .dx = zeroed(s->n * s->dim, 4), .count = -7};
  memset(t.loss, 0xA5, (size_t)s->n * 4);
  memset(t.dx, 0xA5, (size_t)(s->n * s->dim) * 4);
  OK(embed_grad_create_dense(ctx, s->vocab, s->dim, NULL, 0, &t.g));
  embed_status status = back(ctx, p, h, &t);
  if (status != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  t.dw = (float *)(uintptr_t)embed_grad_values(t.g);
  t.db = embed_grad_bias(t.g);
  return t;
}

/* ---- every pair of options ---- */
enum { OPTIONS = 12 };
static void set_option(pair *p, int option, uint64_t *state) {
  problem *t = &p->teacher, *s = &p->student;
  switch (option) {
    case 0: p->o.divergence = EMBED_DIVERGENCE_JENSEN_SHANNON; break;
    case 1: p->o.divergence = EMBED_DIVERGENCE_JENSEN_SHANNON, p->o.mix = 0.1; break;
    case 2: p->o.temperature = 2.5; break;
    case 3: p->o.temperature = 0.5, p->o.flags |= EMBED_DISTILL_SQUARED; break;
    case 4: s->cap = 1.5f; break;
    case 5: t->cap = 2; break;
    case 6: s->scale = -1.75f, t->scale = 3; break;
    case 7: s->bias = s->bias ? s->bias : random_floats(s->vocab, 1, state); break;
    case 8: t->bias = t->bias ? t->bias : random_floats(t->vocab, 1, state); break;
    case 9: s->up = s->up ? s->up : random_floats(s->n, 2, state); break;
    case 10: p->o.flags |= EMBED_DISTILL_IGNORE_INDEX, p->o.ignore_index = 3, s->targets[6] = 0, s->targets[2] = 3; break;
    default: p->o.reduction = EMBED_REDUCE_SUM; break;
  }
}

static void check_pair(embed_context *ctx, int one, int other) {
  uint64_t state = (uint64_t)(100 * one + other + 1);
  pair p = pair_new(11, 7, 5, 8, state);
  set_option(&p, one, &state);
  set_option(&p, other, &state);
  const problem *s = &p.student;
  heads h = heads_of(ctx, &p);
  training t = distilled(ctx, &p, &h);
  double *losses = zeroed(s->n, 8), *dw = differences(total, &p, &p.student, 0, losses), *db = differences(total, &p, &p.student, 1, NULL),
         *dx = differences(total, &p, &p.student, 2, NULL);
  float loss[8];
  int64_t counted = 0;
  print_message("options %d and %d\n", one, other);
  for (int64_t i = 0; i < s->n; ++i) counted += !is_ignored(&p, i);
  assert_int_equal(t.count, counted);
  CLOSE(t.loss, losses, s->n, 5e-6); /* logits are rounded to fp32 */
  CLOSE(t.dx, dx, s->n * s->dim, 5e-6);
  CLOSE(t.dw, dw, s->vocab * s->dim, 5e-6);
  if (s->bias) CLOSE(t.db, db, s->vocab, 5e-6);
  OK(forward(ctx, &p, &h, loss));
  assert_same_bits(loss, t.loss, sizeof loss);
  free(losses), free(dw), free(db), free(dx);
  training_free(&t);
  heads_free(&h);
  pair_free(&p);
}

static void every_pair_of_options_has_the_gradient_of_its_divergence(void **state) {
  embed_context *ctx = context_new();
  (void)state;
  for (int one = 0; one < OPTIONS; ++one)
    for (int other = one; other < OPTIONS; ++other) check_pair(ctx, one, other);
  embed_context_release(ctx);
}

/* Two classes, logits as biases: p = (3/4, 1/4), q = (1/2, 1/2). */
static void two_classes_have_the_divergence_of_the_textbook(void **state) {
  pair p = pair_new(2, 1, 1, 1, 1);
  embed_context *ctx = context_new();
  float loss;
  (void)state;
  p.teacher.bias = zeroed(2, 4), p.student.bias = zeroed(2, 4);
  p.teacher.bias[0] = (float)log(3);
  p.teacher.x[0] = p.student.x[0] = 0;
  heads h = heads_of(ctx, &p);
  OK(forward(ctx, &p, &h, &loss));
  assert_true(fabs((double)loss - 0.13081203594113697) < 2e-7); /* 0.75 ln 1.5 + 0.25 ln 0.5 */
  p.o.divergence = EMBED_DIVERGENCE_JENSEN_SHANNON;
  OK(forward(ctx, &p, &h, &loss));
  assert_true(fabs((double)loss - 0.03382207556100466) < 1e-7); /* H(5/8) - (H(3/4) + ln 2) / 2 */
  heads_free(&h);
  embed_context_release(ctx);
  pair_free(&p);
}

/* Of one hidden row of zeros, by the formula: differences of numbers as small as these are none. */
static double *slopes_of_biases(const pair *p) {
  const int64_t vocab = p->student.vocab;
  double *zt = doubles_of(p->teacher.bias, vocab), *zs = doubles_of(p->student.bias, vocab), *out = zeroed(vocab, 8), pull = 0;
  const double lt = logsumexp_of(zt, vocab), ls = logsumexp_of(zs, vocab);
  for (int64_t v = 0; v < vocab; ++v) {
    const double a = exp(zt[v] - lt), b = exp(zs[v] - ls);
    out[v] = is_js(p) ? 0.5 * b * log(2 * b / (a + b)) : b - a;
    pull += is_js(p) ? out[v] : 0;
  }
  for (int64_t v = 0; v < vocab; ++v) out[v] -= exp(zs[v] - ls) * pull;
  free(zt), free(zs);
  return out;
}

static void a_student_like_its_teacher_has_a_small_loss_with_all_its_digits(void **state) {
  enum { VOCAB = 3000 };
  embed_context *ctx = context_new();
  (void)state;
  for (int js = 0; js < 2; ++js) {
    pair p = pair_new(VOCAB, 1, 1, 1, 4);
    uint64_t seed = 9;
    p.o.divergence = js ? EMBED_DIVERGENCE_JENSEN_SHANNON : EMBED_DIVERGENCE_KL;
    p.teacher.x[0] = p.student.x[0] = 0;
    p.teacher.bias = random_floats(VOCAB, 4, &seed), p.student.bias = zeroed(VOCAB, 4);
    memcpy(p.student.bias, p.teacher.bias, VOCAB * 4);
    heads same = heads_of(ctx, &p);
    training none = distilled(ctx, &p, &same);
    assert_true(none.loss[0] == 0);
    for (int v = 0; v < VOCAB; ++v) assert_true(fabsf(none.db[v]) <= 1e-12f);
    for (int v = 0; v < VOCAB; ++v) p.student.bias[v] += 1e-3f * test_uniform(&seed);
    heads near = heads_of(ctx, &p);
    training t = distilled(ctx, &p, &near);
    double want = 0, *db = slopes_of_biases(&p), *none_w = zeroed(VOCAB, 8), *biases = doubles_of(p.student.bias, VOCAB), nothing = 0;
    total(&p, none_w, biases, &nothing, &want);
    assert_true(want > 0 && want < 1e-6 && fabs((double)t.loss[0] - want) <= 1e-5 * want);
    double most = 0;
    for (int v = 0; v < VOCAB; ++v) most = fmax(most, fabs(db[v]));
    assert_true(most > 0);
    for (int v = 0; v < VOCAB; ++v) assert_true(fabs(db[v] - (double)t.db[v]) <= 1e-5 * most);
    free(db), free(none_w), free(biases);
    training_free(&none), training_free(&t);
    heads_free(&same), heads_free(&near);
    pair_free(&p);
  }
  embed_context_release(ctx);
}

static void classes_of_minus_infinity_and_nan_do_as_documented(void **state) {
  embed_context *ctx = context_new();
  (void)state;
  for (int js = 0; js < 2; ++js) {
    for (int k = 0; k < 5; ++k) { /* both, the teacher alone, the student alone, NaN, the student alone beside a teacher's exp of 0 */
      pair p = pair_new(3, 1, 1, 1, 1);
      p.o.divergence = js ? EMBED_DIVERGENCE_JENSEN_SHANNON : EMBED_DIVERGENCE_KL;
      p.teacher.x[0] = p.student.x[0] = 0;
      p.teacher.bias = zeroed(3, 4), p.student.bias = zeroed(3, 4);
      if (k < 2) p.teacher.bias[1] = -INFINITY;
      if (k == 0 || k == 2) p.student.bias[1] = -INFINITY;
      if (k == 3) p.student.bias[1] = NAN;
      if (k == 4) p.teacher.bias[1] = -200, p.student.bias[1] = -INFINITY;
      heads h = heads_of(ctx, &p);
      training t = distilled(ctx, &p, &h);
      if (k == 0) assert_true(t.loss[0] == 0 && t.db[1] == 0);
      if (k == 1 && !js) assert_true(fabs((double)t.loss[0] - log(1.5)) < 2e-7 && fabs((double)t.db[1] - 1 / 3.) < 2e-7);
      if ((k == 2 || k == 4) && !js) assert_true(isinf(t.loss[0]) && t.loss[0] > 0);
      if (k != 3 && js) assert_true(isfinite(t.loss[0]));
      if (k != 3) assert_true(isfinite(t.db[0]) && isfinite(t.db[1]) && isfinite(t.db[2]));
      if (k == 3) assert_true(isnan(t.loss[0]) && isnan(t.db[0]));
      training_free(&t);
      heads_free(&h);
      pair_free(&p);
    }
  }
  embed_context_release(ctx);
}

static pair large(int js) {
  uint64_t seed = 5;
  pair p = pair_new(5003, 40, 72, 300, 3);
  p.o.divergence = js ? EMBED_DIVERGENCE_JENSEN_SHANNON : EMBED_DIVERGENCE_KL;
  p.o.temperature = 1.5;
  p.student.bias = random_floats(5003, 1, &seed);
  p.student.up = random_floats(300, 1, &seed);
  return p;
}

/* Where logits are made again, memory ends among other table rows for every number of hidden rows. */
static void nor_does_how_many_logits_are_kept(void **state) {
  enum { N = 128, DIM = 8, FEW = 48 };
  embed_context *ctx = context_with(NULL, 2);
  float few[FEW * DIM];
  (void)state;
  for (int js = 0; js < 2; ++js) {
    pair p = pair_new(80000, 4, DIM, N, 5);
    p.o.divergence = js;
    p.o.reduction = EMBED_REDUCE_SUM;
    heads h = heads_of(ctx, &p);
    for (int64_t n = FEW; n <= N; n += n == FEW ? 52 : 14) {
      p.student.n = p.teacher.n = n;
      training t = distilled(ctx, &p, &h);
      if (n == FEW) memcpy(few, t.dx, sizeof few);
      assert_same_bits(t.dx, few, sizeof few);
      training_free(&t);
    }
    heads_free(&h);
    pair_free(&p);
  }
  embed_context_release(ctx);
}

static void threads_and_the_other_rows_do_not_change_a_bit(void **state) {
  static const int32_t threads[4] = {1, 2, 7, 2};
  (void)state;
  for (int js = 0; js < 2; ++js) {
    for (uint32_t flags = 0; flags <= EMBED_CONTEXT_REPRODUCIBLE; ++flags) {
      pair p = large(js);
      const problem *s = &p.student;
      training first = {0};
      for (int k = 0; k < (flags ? 4 : 3); ++k) { /* 20 rows alone: tiles may multiply all, and vectors these */
        embed_context *ctx = context_flagged(threads[k], flags);
        heads h = heads_of(ctx, &p);
        if (k == 3) p.student.n = p.teacher.n = 20;
        training t = distilled(ctx, &p, &h);
        if (k == 0) {
          first = t;
          assert_true(first.loss[0] > 0 && first.dx[0] != 0);
        } else {
          assert_same_bits(t.loss, first.loss, (size_t)s->n * 4);
          assert_same_bits(t.dx, first.dx, (size_t)(s->n * s->dim) * 4);
          if (k < 3) assert_same_bits(t.dw, first.dw, (size_t)(s->vocab * s->dim) * 4);
          if (k < 3) assert_same_bits(t.db, first.db, (size_t)s->vocab * 4);
          training_free(&t);
        }
        heads_free(&h);
        embed_context_release(ctx);
      }
      training_free(&first);
      pair_free(&p);
    }
  }
}

/* Logits that are kept, and logits that are made again: the first rows have the numbers of a call with them alone. */
static void memory_stays_below_64_megabytes(void **state) {
  static const int64_t shapes[][4] = {{262144, 8, 4, 140}, {50257, 16, 8, 300}, {9000, 4096, 64, 3}};
  (void)state;
#ifdef TEST_SANITIZED
  const int count = 1;
#else
  const int count = COUNT(shapes);
#endif
  for (int k = 0; k < count; ++k) {
    counting c;
    counting_start(&c);
    embed_pool *pool = NULL;
    embed_context *ctx = NULL;
    embed_context_options o = {.size = sizeof o, .allocator = &c.allocator};
    OK(embed_pool_create(2, &pool));
    o.pool = pool;
    OK(embed_context_create(&o, &ctx));
    embed_pool_release(pool);
    pair p = pair_new(shapes[k][0], shapes[k][1], shapes[k][2], shapes[k][3], 6);
    p.o.divergence = k == 0 ? EMBED_DIVERGENCE_JENSEN_SHANNON : EMBED_DIVERGENCE_KL;
    heads h = heads_of(ctx, &p);
    training all = distilled(ctx, &p, &h);
    const int64_t bytes = atomic_load(&c.bytes) - p.student.vocab * p.student.dim * 4;
    print_message("%d classes, %d rows: %.1f MB\n", (int)p.student.vocab, (int)p.student.n, (double)bytes * 1e-6);
    assert_true(bytes <= 64000000);
    p.student.n = p.teacher.n = 2;
    p.student.up = zeroed(2, 4);
    p.student.up[0] = p.student.up[1] = 1 / (float)all.count;
    p.o.reduction = EMBED_REDUCE_SUM;
    training few = distilled(ctx, &p, &h);
    double few_dx[16], few_loss[2];
    const int64_t numbers = 2 * p.student.dim < 16 ? 2 * p.student.dim : 16;
    for (int64_t i = 0; i < numbers; ++i) few_dx[i] = (double)few.dx[i];
    for (int i = 0; i < 2; ++i) few_loss[i] = (double)few.loss[i];
    CLOSE(all.loss, few_loss, 2, 1e-6);
    CLOSE(all.dx, few_dx, numbers, 1e-6);
    training_free(&all), training_free(&few);
    heads_free(&h);
    embed_context_release(ctx);
    counting_check(&c);
    pair_free(&p);
  }
}

static void every_dtype_is_as_its_decoded_rows(void **state) {
  static const embed_dtype types[] = {EMBED_F16, EMBED_BF16, EMBED_Q8_0, EMBED_I8_ROW};
  (void)state;
  for (int k = 0; k < COUNT(types); ++k) {
    pair p = pair_new(70, 64, 32, 9, 5), decoded = p;
    embed_context *ctx = context_new();
    embed_table_options o = {.size = sizeof o, .dtype = types[k]};
    embed_table *t[2] = {table_of(ctx, &p.teacher), table_of(ctx, &p.student)};
    heads h = {NULL, NULL};
    decoded.teacher.w = zeroed(70 * 64, 4), decoded.student.w = zeroed(70 * 32, 4);
    for (int side = 0; side < 2; ++side) {
      embed_table *stored = NULL;
      OK(embed_table_convert(ctx, t[side], &o, &stored));
      OK(embed_head_create(ctx, stored, NULL, NULL, side ? &h.student : &h.teacher));
      int64_t ids[70];
      for (int i = 0; i < 70; ++i) ids[i] = i;
      OK(embed_table_get_rows(ctx, stored, ids, 70, side ? decoded.student.w : decoded.teacher.w, EMBED_F32, 0));
      embed_table_release(stored);
      embed_table_release(t[side]);
    }
    heads of_floats = heads_of(ctx, &decoded);
    training got = distilled(ctx, &p, &h), want = distilled(ctx, &decoded, &of_floats);
    assert_same_bits(got.loss, want.loss, 9 * 4);
    assert_same_bits(got.dx, want.dx, 9 * 32 * 4);
    assert_same_bits(got.dw, want.dw, 70 * 32 * 4);
    training_free(&got), training_free(&want);
    heads_free(&h), heads_free(&of_floats);
    embed_context_release(ctx);
    free(decoded.teacher.w), free(decoded.student.w);
    pair_free(&p);
  }
}

static void ignored_rows_are_not_read_and_hidden_may_become_its_gradient(void **state) {
  pair p = pair_new(40, 6, 8, 15, 2);
  embed_context *ctx = context_new();
  heads h = heads_of(ctx, &p);
  (void)state;
  training clean = distilled(ctx, &p, &h);
  for (int j = 0; j < 6; ++j) p.teacher.x[6 * 6 + j] = NAN;
  for (int j = 0; j < 8; ++j) p.student.x[6 * 8 + j] = INFINITY;
  training t = distilled(ctx, &p, &h);
  assert_same_bits(t.dw, clean.dw, 40 * 8 * 4);
  assert_true(t.loss[6] == 0 && t.loss[13] == 0 && t.count == 13 && test_all_bytes(t.dx + 6 * 8, 8 * 4, 0));
  OK(embed_distill_train(ctx, h.teacher, p.teacher.x, EMBED_F32, 0, h.student, p.student.x, EMBED_F32, 15, 0, p.student.targets, NULL, NULL, NULL, p.student.x,
                         EMBED_F32, 0, NULL, NULL));
  assert_same_bits(p.student.x, clean.dx, 15 * 8 * 4);
  for (int i = 0; i < 15; ++i) p.student.targets[i] = -100;
  training none = distilled(ctx, &p, &h);
  assert_true(none.count == 0 && test_all_bytes(none.loss, 15 * 4, 0) && test_all_bytes(none.dx, 15 * 8 * 4, 0) && test_all_bytes(none.dw, 40 * 8 * 4, 0));
  training_free(&clean), training_free(&t), training_free(&none);
  heads_free(&h);
  embed_context_release(ctx);
  pair_free(&p);
}

/* Counted rows have no class to learn: a gradient of 0, and losses as they were. */
static void heads_without_rows_give_gradients_of_0(void **state) {
  enum { N = 4, DIM = 5, LD = 7 };
  static const int32_t targets[N] = {-100, -100, -100, -100};
  static const embed_dtype dtypes[] = {EMBED_F32, EMBED_BF16};
  embed_context *ctx = context_new();
  embed_table *t = NULL;
  embed_head *h = NULL;
  (void)state;
  OK(embed_table_create(ctx, 0, DIM, NULL, &t));
  OK(embed_head_create(ctx, t, NULL, NULL, &h));
  for (int k = 0; k < 4; ++k) {
    const int64_t size = k % 2 ? 2 : 4;
    unsigned char dx[N * LD * 4];
    float x[N * DIM] = {0}, loss[N];
    int64_t count = -7;
    memset(dx, 0xA5, sizeof dx), memset(loss, 0xA5, sizeof loss);
    OK(embed_distill_train(ctx, h, x, EMBED_F32, 0, h, x, EMBED_F32, N, 0, k < 2 ? NULL : targets, NULL, loss, &count, dx, dtypes[k % 2], LD, NULL, NULL));
    assert_int_equal(count, k < 2 ? N : 0);
    assert_true(test_all_bytes(loss, sizeof loss, k < 2 ? 0xA5 : 0));
    for (int64_t i = 0; i < N; ++i) {
      assert_true(test_all_bytes(dx + i * LD * size, (size_t)(DIM * size), 0));
      assert_true(test_all_bytes(dx + (i * LD + DIM) * size, (size_t)((LD - DIM) * size), 0xA5));
    }
  }
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
}

static void wrong_arguments_write_nothing(void **state) {
  pair p = pair_new(5, 3, 2, 3, 1), other = pair_new(6, 3, 2, 3, 1);
  embed_context *ctx = context_new();
  heads h = heads_of(ctx, &p), larger = heads_of(ctx, &other);
  embed_distill_options bad[10];
  float loss[3], dx[6];
  int64_t count = -7;
  embed_grad *narrow = NULL;
  (void)state;
  OK(embed_grad_create(ctx, 3, &narrow));
  memset(loss, 0xA5, sizeof loss);
  memset(dx, 0xA5, sizeof dx);
  training t = {.loss = loss, .dx = dx, .count = count};
  for (int k = 0; k < COUNT(bad); ++k) bad[k] = (embed_distill_options){.size = sizeof bad[k]};
  bad[0].temperature = -1, bad[1].temperature = NAN, bad[2].temperature = INFINITY, bad[3].mix = 1, bad[4].mix = NAN, bad[5].divergence = 2;
  bad[6].divergence = -1, bad[7].reduction = 3, bad[8].flags = 8, bad[9].reserved = 1;
  for (int k = 0; k < COUNT(bad); ++k) {
    p.o = bad[k];
    assert_int_equal(forward(ctx, &p, &h, loss), EMBED_E_OPTION);
    assert_int_equal(back(ctx, &p, &h, &t), EMBED_E_OPTION);
  }
  p.o = (embed_distill_options){.size = sizeof p.o};
  heads mixed = {larger.teacher, h.student};
  assert_int_equal(forward(ctx, &p, &mixed, loss), EMBED_E_MISMATCH);
  assert_string_equal(embed_error_text(ctx), "the teacher's vocabulary of 6 rows is not the student's of 5");
  assert_int_equal(back(ctx, &p, &mixed, &t), EMBED_E_MISMATCH);
  t.g = narrow;
  assert_int_equal(back(ctx, &p, &h, &t), EMBED_E_MISMATCH);
  t.g = NULL;
  p.student.targets[1] = 5;
  assert_int_equal(forward(ctx, &p, &h, loss), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 1);
  assert_int_equal(back(ctx, &p, &h, &t), EMBED_E_ID);
  assert_true(test_all_bytes(loss, sizeof loss, 0xA5) && test_all_bytes(dx, sizeof dx, 0xA5) && t.count == -7 && embed_grad_rows(narrow) == 0);
  OK(embed_distill(ctx, h.teacher, p.teacher.x, EMBED_F32, 0, h.student, p.student.x, EMBED_F32, 3, 0, NULL, loss, NULL));
  assert_true(loss[0] > 0 && loss[1] > 0 && loss[2] > 0);
  embed_grad_release(narrow);
  heads_free(&h), heads_free(&larger);
  embed_context_release(ctx);
  pair_free(&p), pair_free(&other);
}

static void every_failed_allocation_leaves_everything_as_it_was(void **state) {
  pair p = pair_new(300, 10, 24, 40, 2);
  static const int32_t ids[2] = {5, 200};
  counting c;
  (void)state;
  for (int k = 0;; ++k) {
    counting_start(&c);
    embed_context *ctx = NULL;
    embed_context_options o = {.size = sizeof o, .allocator = &c.allocator};
    OK(embed_context_create(&o, &ctx));
    heads h = heads_of(ctx, &p);
    float loss[40], dx[40 * 24];
    training t = {.loss = loss, .dx = dx, .count = -7};
    OK(embed_grad_create(ctx, 24, &t.g));
    OK(embed_grad_add(ctx, t.g, ids, 2, p.student.x, 0));
    embed_context_trim(ctx);
    memset(loss, 0xA5, sizeof loss);
    memset(dx, 0xA5, sizeof dx);
    atomic_store(&c.fail_at, k);
    embed_status status = back(ctx, &p, &h, &t);
    const bool failed = atomic_exchange(&c.fail_at, -1) < 0;
    assert_int_equal(status, failed ? EMBED_E_MEMORY : EMBED_OK);
    assert_int_equal(embed_grad_rows(t.g), failed ? 2 : 300);
    if (failed) {
      assert_same_bits(embed_grad_values(t.g), p.student.x, 2 * 24 * 4);
      assert_true(test_all_bytes(loss, sizeof loss, 0xA5) && test_all_bytes(dx, sizeof dx, 0xA5) && t.count == -7);
    }
    embed_grad_release(t.g);
    heads_free(&h);
    embed_context_release(ctx);
    counting_check(&c);
    if (!failed) break;
  }
  pair_free(&p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_pair_of_options_has_the_gradient_of_its_divergence),
    cmocka_unit_test(two_classes_have_the_divergence_of_the_textbook),
    cmocka_unit_test(a_student_like_its_teacher_has_a_small_loss_with_all_its_digits),
    cmocka_unit_test(classes_of_minus_infinity_and_nan_do_as_documented),
    cmocka_unit_test(threads_and_the_other_rows_do_not_change_a_bit),
    cmocka_unit_test(nor_does_how_many_logits_are_kept),
    cmocka_unit_test(memory_stays_below_64_megabytes),
    cmocka_unit_test(every_dtype_is_as_its_decoded_rows),
    cmocka_unit_test(ignored_rows_are_not_read_and_hidden_may_become_its_gradient),
    cmocka_unit_test(heads_without_rows_give_gradients_of_0),
    cmocka_unit_test(wrong_arguments_write_nothing),
    cmocka_unit_test(every_failed_allocation_leaves_everything_as_it_was),
};
TEST_MAIN(tests)
