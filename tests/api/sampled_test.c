/* SPDX-License-Identifier: BSD-3-Clause */
/* Losses of a target and a few candidates: against the definition in double, gradients against finite differences. */
#include "counting.h"
#include "loss.h"

typedef struct sampled {
  problem p;
  int64_t samples;
  int32_t *candidates;               /* [samples] or [n, samples] */
  float *target_expected, *expected; /* NULL = none */
  embed_sampled_options o;
} sampled;

static bool is_per_row(const sampled *s) { return (s->o.flags & EMBED_SAMPLED_PER_ROW) != 0; }

static int64_t given(const sampled *s) { return is_per_row(s) ? s->p.n * s->samples : s->samples; }

static sampled sampled_new(int64_t vocab, int64_t dim, int64_t n, int64_t samples, uint32_t flags, uint64_t seed) {
  sampled s = {.p = problem_new(vocab, dim, n, seed), .samples = samples, .o = {.size = sizeof s.o, .flags = flags}};
  s.candidates = zeroed(given(&s), sizeof *s.candidates);
  for (int64_t j = 0; j < given(&s); ++j) s.candidates[j] = (int32_t)(test_random(&seed) % (uint64_t)vocab);
  return s;
}

static void correct(sampled *s, uint64_t *state) {
  if (s->expected) return;
  s->target_expected = random_floats(s->p.n, 2, state);
  s->expected = random_floats(given(s), 2, state);
}

static void sampled_free(sampled *s) {
  problem_free(&s->p);
  free(s->candidates), free(s->target_expected), free(s->expected);
}

static bool is_ignored(const sampled *s, int64_t i) { return s->p.targets[i] == (s->o.flags & EMBED_SAMPLED_IGNORE_INDEX ? s->o.ignore_index : -100); }

static double loss_in_double(const sampled *s, int64_t i, const double *z) {
  const int32_t t = s->p.targets[i], *own = s->candidates + (is_per_row(s) ? i * s->samples : 0);
  const float *expected = s->expected ? s->expected + (is_per_row(s) ? i * s->samples : 0) : NULL;
  const double of_target = z[t] - (s->target_expected ? (double)s->target_expected[i] : 0);
  double sum = exp(of_target), logistic = log(1 + exp(-of_target));
  for (int64_t j = 0; j < s->samples; ++j) {
    const double u = z[own[j]] - (expected ? (double)expected[j] : 0);
    if (own[j] == t && !(s->o.flags & EMBED_SAMPLED_KEEP_HITS)) continue;
    sum += exp(u);
    logistic += log(1 + exp(u));
  }
  return s->o.kind == EMBED_SAMPLED_SOFTMAX ? log(sum) - of_target : logistic;
}

static double total(const void *what, const double *w, const double *b, const double *x, double *losses) {
  const sampled *s = what;
  const problem *p = &s->p;
  double *z = zeroed(p->vocab, 8), *slope = zeroed(p->vocab, 8), sum = 0, counted = 0;
  for (int64_t i = 0; i < p->n; ++i) counted += !is_ignored(s, i);
  for (int64_t i = 0; i < p->n; ++i) {
    if (is_ignored(s, i)) continue;
    logits_in_double(p, w, b, x + i * p->dim, z, slope);
    const double loss = loss_in_double(s, i, z);
    if (losses) losses[i] = loss;
    sum += loss * (p->up ? (double)p->up[i] : s->o.reduction == EMBED_REDUCE_MEAN ? 1 / counted : 1);
  }
  free(z), free(slope);
  return sum;
}

static embed_status run(embed_context *ctx, const sampled *s, const embed_head *h, training *t) {
  return embed_sampled_loss(ctx, h, s->p.x, EMBED_F32, s->p.n, 0, s->p.targets, s->candidates, s->samples, s->target_expected, s->expected, s->p.up, t->loss,
                            &t->count, t->dx, EMBED_F32, 0, t->g, &s->o);
}

static training trained(embed_context *ctx, const sampled *s, const embed_head *h, bool dense) {
  const problem *p = &s->p;
  training t = {.loss = zeroed(p->n, 4), .dx = zeroed(p->n * p->dim, 4), .count = -7};
  memset(t.loss, 0xA5, (size_t)p->n * 4);
  memset(t.dx, 0xA5, (size_t)(p->n * p->dim) * 4);
  if (dense)
    OK(embed_grad_create_dense(ctx, p->vocab, p->dim, NULL, 0, &t.g));
  else
    OK(embed_grad_create(ctx, p->dim, &t.g));
  if (run(ctx, s, h, &t) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  t.dw = (float *)(uintptr_t)embed_grad_values(t.g);
  t.db = embed_grad_bias(t.g);
  return t;
}

/* ---- every pair of options ---- */
enum { OPTIONS = 11 };
static void set_option(sampled *s, int option, uint64_t *state) {
  problem *p = &s->p;
  switch (option) {
    case 0: break;
    case 1: s->o.kind = EMBED_SAMPLED_NCE, correct(s, state); break;
    case 2: s->o.kind = EMBED_SAMPLED_NEGATIVE; break;
    case 3: s->o.flags |= EMBED_SAMPLED_KEEP_HITS; break;
    case 4: correct(s, state); break;
    case 5: p->bias = p->bias ? p->bias : random_floats(p->vocab, 1, state); break;
    case 6: p->cap = 1.5f; break;
    case 7: p->scale = -1.75f; break;
    case 8: p->up = p->up ? p->up : random_floats(p->n, 2, state); break;
    case 9: s->o.flags |= EMBED_SAMPLED_IGNORE_INDEX, s->o.ignore_index = 3, p->targets[6] = 0, p->targets[2] = 3; break;
    default: s->o.reduction = EMBED_REDUCE_SUM; break;
  }
}

/* The rows of a sparse gradient are those of the dense one that anything was added to. */
static void check_sparse(embed_context *ctx, const sampled *s, const embed_head *h, const training *dense) {
  training t = trained(ctx, s, h, false);
  const int64_t *ids = embed_grad_ids(t.g), rows = embed_grad_rows(t.g);
  bool *used = zeroed(s->p.vocab, 1);
  int64_t number = 0;
  for (int64_t i = 0; i < s->p.n; ++i) {
    if (is_ignored(s, i)) continue;
    used[s->p.targets[i]] = true;
    for (int64_t j = 0; j < s->samples; ++j) {
      const int32_t c = s->candidates[(is_per_row(s) ? i * s->samples : 0) + j];
      if (!is_per_row(s) || c != s->p.targets[i] || (s->o.flags & EMBED_SAMPLED_KEEP_HITS)) used[c] = true;
    }
  }
  for (int64_t v = 0; v < s->p.vocab; ++v) number += used[v];
  assert_int_equal(rows, number);
  for (int64_t r = 0; r < rows; ++r) {
    assert_true(used[ids[r]]);
    assert_same_bits(embed_grad_values(t.g) + r * s->p.dim, dense->dw + ids[r] * s->p.dim, (size_t)s->p.dim * 4);
  }
  assert_same_bits(t.dx, dense->dx, (size_t)(s->p.n * s->p.dim) * 4);
  assert_same_bits(t.loss, dense->loss, (size_t)s->p.n * 4);
  if (s->p.bias) assert_same_bits(t.db, dense->db, (size_t)s->p.vocab * 4);
  free(used);
  training_free(&t);
}

static void check_pair(embed_context *ctx, int one, int other, uint32_t flags) {
  uint64_t state = (uint64_t)(100 * one + other + 1);
  sampled s = sampled_new(11, 5, 8, 7, flags, state);
  if ((one == 2 || other == 2) && (one == 1 || other == 1 || one == 4 || other == 4)) { /* negative sampling has no corrections */
    sampled_free(&s);
    return;
  }
  set_option(&s, one, &state);
  set_option(&s, other, &state);
  const problem *p = &s.p;
  embed_head *h = head_of(ctx, p, table_of(ctx, p));
  training t = trained(ctx, &s, h, true);
  double *losses = zeroed(p->n, 8), *dw = differences(total, &s, p, 0, losses), *db = differences(total, &s, p, 1, NULL),
         *dx = differences(total, &s, p, 2, NULL);
  int64_t counted = 0;
  print_message("options %d and %d\n", one, other);
  for (int64_t i = 0; i < p->n; ++i) counted += !is_ignored(&s, i);
  assert_int_equal(t.count, counted);
  CLOSE(t.loss, losses, p->n, 2e-6);
  CLOSE(t.dx, dx, p->n * p->dim, 3e-6);
  CLOSE(t.dw, dw, p->vocab * p->dim, 3e-6);
  if (p->bias) CLOSE(t.db, db, p->vocab, 3e-6);
  check_sparse(ctx, &s, h, &t);
  free(losses), free(dw), free(db), free(dx);
  training_free(&t);
  embed_head_release(h);
  sampled_free(&s);
}

static void every_pair_of_options_has_the_gradient_of_its_loss(void **state) {
  embed_context *ctx = context_new();
  (void)state;
  for (int one = 0; one < OPTIONS; ++one)
    for (int other = one; other < OPTIONS; ++other) {
      check_pair(ctx, one, other, 0);
      check_pair(ctx, one, other, EMBED_SAMPLED_PER_ROW);
    }
  embed_context_release(ctx);
}

/* All classes once, hits left out and no correction: the whole softmax. */
static void candidates_that_are_all_classes_give_cross_entropy(void **state) {
  enum { VOCAB = 1003, DIM = 40, N = 300 };
  uint64_t seed = 7;
  sampled s = sampled_new(VOCAB, DIM, N, VOCAB, 0, 5);
  embed_context *ctx = context_with(NULL, 2);
  (void)state;
  for (int v = 0; v < VOCAB; ++v) s.candidates[v] = VOCAB - 1 - v;
  s.p.bias = random_floats(VOCAB, 1, &seed);
  embed_head *h = head_of(ctx, &s.p, table_of(ctx, &s.p));
  training few = trained(ctx, &s, h, true), all = train(ctx, &s.p, h);
  double *loss = doubles_of(all.loss, N), *dx = doubles_of(all.dx, N * DIM), *dw = doubles_of(all.dw, VOCAB * DIM), *db = doubles_of(all.db, VOCAB);
  assert_int_equal(few.count, all.count);
  CLOSE(few.loss, loss, N, 2e-6);
  CLOSE(few.dx, dx, N * DIM, 3e-6);
  CLOSE(few.dw, dw, VOCAB * DIM, 3e-6);
  CLOSE(few.db, db, VOCAB, 3e-6);
  free(loss), free(dx), free(dw), free(db);
  training_free(&few), training_free(&all);
  embed_head_release(h);
  embed_context_release(ctx);
  sampled_free(&s);
}

static void check_threads(int way, uint32_t flags) {
  static const int32_t threads[4] = {1, 2, 7, 2};
  sampled s = sampled_new(5003, 72, 300, way & 1 ? 5 : 700, way & 1 ? EMBED_SAMPLED_PER_ROW : 0, 3);
  uint64_t seed = 5;
  training first = {0};
  s.p.bias = random_floats(5003, 1, &seed);
  s.p.up = random_floats(300, 1, &seed);
  correct(&s, &seed);
  s.o.kind = way & 2 ? EMBED_SAMPLED_NCE : EMBED_SAMPLED_SOFTMAX;
  for (int k = 0; k < (flags ? 4 : 3); ++k) { /* 20 rows alone: tiles may multiply all, and vectors these */
    embed_context *ctx = context_flagged(threads[k], flags);
    embed_head *h = head_of(ctx, &s.p, table_of(ctx, &s.p));
    if (k == 3) s.p.n = 20;
    training t = trained(ctx, &s, h, k == 1);
    if (k == 0) {
      first = t;
      assert_true(first.loss[0] > 0 && first.dx[0] != 0 && embed_grad_rows(t.g) > 700);
    } else {
      assert_same_bits(t.loss, first.loss, (size_t)s.p.n * 4);
      assert_same_bits(t.dx, first.dx, (size_t)(s.p.n * s.p.dim) * 4);
      if (k == 2) assert_same_bits(t.dw, first.dw, (size_t)(embed_grad_rows(first.g) * s.p.dim) * 4);
      if (k < 3) assert_same_bits(t.db, first.db, (size_t)s.p.vocab * 4);
      training_free(&t);
    }
    embed_head_release(h);
    embed_context_release(ctx);
  }
  training_free(&first);
  sampled_free(&s);
}
static void threads_and_the_other_rows_do_not_change_a_bit(void **state) {
  (void)state;
  for (int way = 0; way < 4; ++way) {
    check_threads(way, 0);
    check_threads(way, EMBED_CONTEXT_REPRODUCIBLE);
  }
}

static void every_dtype_is_as_its_decoded_rows(void **state) {
  static const embed_dtype types[] = {EMBED_F16, EMBED_BF16, EMBED_Q8_0, EMBED_I8_ROW};
  (void)state;
  for (int k = 0; k < COUNT(types); ++k) {
    for (uint32_t way = 0; way < 2; ++way) {
      sampled s = sampled_new(70, 64, 9, 20, way ? EMBED_SAMPLED_PER_ROW : 0, 5), decoded = s;
      embed_context *ctx = context_new();
      embed_table_options o = {.size = sizeof o, .dtype = types[k]};
      embed_table *t = table_of(ctx, &s.p), *stored = NULL;
      embed_head *h = NULL;
      int64_t ids[70];
      for (int i = 0; i < 70; ++i) ids[i] = i;
      OK(embed_table_convert(ctx, t, &o, &stored));
      OK(embed_head_create(ctx, stored, NULL, NULL, &h));
      decoded.p.w = zeroed(70 * 64, 4);
      OK(embed_table_get_rows(ctx, stored, ids, 70, decoded.p.w, EMBED_F32, 0));
      embed_head *floats = head_of(ctx, &decoded.p, table_of(ctx, &decoded.p));
      training got = trained(ctx, &s, h, true), want = trained(ctx, &decoded, floats, true);
      double *loss = doubles_of(want.loss, 9), *dx = doubles_of(want.dx, 9 * 64), *dw = doubles_of(want.dw, 70 * 64);
      CLOSE(got.loss, loss, 9, 1e-6);
      CLOSE(got.dx, dx, 9 * 64, 2e-6);
      CLOSE(got.dw, dw, 70 * 64, 2e-6);
      free(loss), free(dx), free(dw), free(decoded.p.w);
      training_free(&got), training_free(&want);
      embed_head_release(h), embed_head_release(floats);
      embed_table_release(t), embed_table_release(stored);
      embed_context_release(ctx);
      sampled_free(&s);
    }
  }
}

/* Hidden rows of 16 bits become their own gradient; those of ignored rows are not read. */
static void ignored_rows_are_not_read_and_hidden_may_become_its_gradient(void **state) {
  enum { N = 300, DIM = 40 };
  (void)state;
  for (uint32_t way = 0; way < 2; ++way) {
    sampled s = sampled_new(500, DIM, N, 30, way ? EMBED_SAMPLED_PER_ROW : 0, 5);
    embed_context *ctx = context_with(NULL, 2);
    embed_head *h = head_of(ctx, &s.p, table_of(ctx, &s.p));
    uint16_t *x = zeroed(N * DIM, 2), *apart_dx = zeroed(N * DIM, 2);
    uint64_t seed = 3;
    float loss[2][N];
    for (int i = 0; i < N * DIM; ++i) x[i] = (uint16_t)(0x3F00 + (test_random(&seed) & 0x80FF));
    for (int i = 6; i < N; i += 7)
      for (int j = 0; j < DIM; ++j) x[i * DIM + j] = 0x7FC0;
    OK(embed_sampled_loss(ctx, h, x, EMBED_BF16, N, 0, s.p.targets, s.candidates, s.samples, NULL, NULL, NULL, loss[0], NULL, apart_dx, EMBED_BF16, 0, NULL,
                          &s.o));
    OK(embed_sampled_loss(ctx, h, x, EMBED_BF16, N, 0, s.p.targets, s.candidates, s.samples, NULL, NULL, NULL, loss[1], NULL, x, EMBED_BF16, 0, NULL, &s.o));
    assert_same_bits(x, apart_dx, N * DIM * 2);
    assert_same_bits(loss[0], loss[1], sizeof loss[0]);
    for (int i = 0; i < N; ++i) {
      assert_true(i % 7 == 6 ? loss[0][i] == 0 : loss[0][i] > 0);
      if (i % 7 == 6) assert_true(test_all_bytes(x + i * DIM, DIM * 2, 0));
    }
    free(x), free(apart_dx);
    embed_head_release(h);
    embed_context_release(ctx);
    sampled_free(&s);
  }
}

static void all_ignored_and_no_candidates_are_fine(void **state) {
  sampled s = sampled_new(30, 6, 10, 4, 0, 3);
  embed_context *ctx = context_new();
  embed_head *h = head_of(ctx, &s.p, table_of(ctx, &s.p));
  (void)state;
  s.samples = 0;
  training alone = trained(ctx, &s, h, false);
  for (int i = 0; i < 10; ++i) assert_true(alone.loss[i] == 0);
  s.o.kind = EMBED_SAMPLED_NEGATIVE;
  training logistic = trained(ctx, &s, h, false);
  assert_true(logistic.loss[0] > 0);
  s.samples = 4;
  for (int i = 0; i < 10; ++i) s.p.targets[i] = -100;
  training none = trained(ctx, &s, h, false);
  assert_int_equal(none.count, 0);
  assert_int_equal(embed_grad_rows(none.g), 0);
  assert_true(test_all_bytes(none.loss, 40, 0) && test_all_bytes(none.dx, 240, 0));
  training_free(&alone), training_free(&logistic), training_free(&none);
  embed_head_release(h);
  embed_context_release(ctx);
  sampled_free(&s);
}

static void infinite_and_nan_logits_stay_in_their_row(void **state) {
  (void)state;
  for (uint32_t way = 0; way < 2; ++way) {
    sampled s = sampled_new(30, 6, 3, 4, way ? EMBED_SAMPLED_PER_ROW : 0, 3);
    embed_context *ctx = context_new();
    for (int64_t j = 0; j < given(&s); ++j) s.candidates[j] = 10 + (int32_t)(j % 4);
    s.p.targets[0] = 1, s.p.targets[1] = 2, s.p.targets[2] = 3;
    s.p.bias = zeroed(30, 4);
    s.p.bias[11] = -INFINITY;
    s.p.x[6] = NAN; /* of row 1 */
    embed_head *h = head_of(ctx, &s.p, table_of(ctx, &s.p));
    training t = trained(ctx, &s, h, true);
    assert_true(isfinite(t.loss[0]) && isnan(t.loss[1]) && isfinite(t.loss[2]));
    for (int j = 0; j < 6; ++j) assert_true(isfinite(t.dx[j]) && isfinite(t.dx[12 + j]));
    training_free(&t);
    embed_head_release(h);
    embed_context_release(ctx);
    sampled_free(&s);
  }
}

/* ---- subsets ---- */
/* Every third class from the last on: not in ascending order. */
static embed_head *thirds(embed_context *ctx, const embed_head *h, int64_t vocab) {
  embed_head *few = NULL;
  int32_t ids[200];
  int64_t n = 0;
  for (int64_t v = vocab - 1; v >= 0; v -= 3) ids[n++] = (int32_t)v;
  OK(embed_head_create_subset(ctx, h, ids, n, &few));
  return few;
}

static void check_subset(embed_context *ctx, embed_dtype dtype, int option, uint32_t flags) {
  enum { VOCAB = 302, DIM = 64, N = 37 };
  uint64_t seed = (uint64_t)option + 3;
  sampled s = sampled_new(VOCAB, DIM, N, 21, flags, seed);
  const embed_table_options o = {.size = sizeof o, .dtype = dtype};
  embed_table *t = table_of(ctx, &s.p), *stored = NULL;
  for (int i = 0; i < N; ++i)
    if (s.p.targets[i] >= 0) s.p.targets[i] = VOCAB - 1 - s.p.targets[i] / 3 * 3;
  for (int64_t j = 0; j < given(&s); ++j) s.candidates[j] = j % 5 == 4 ? s.p.targets[0] : VOCAB - 1 - s.candidates[j] / 3 * 3;
  set_option(&s, option, &seed);
  for (int i = 0; option == 9 && i < N; ++i)
    if (i % 7 == 6) s.p.targets[i] = 301;
  if (option == 9) s.o.ignore_index = 4, s.p.targets[2] = 4; /* not among the subset */
  OK(embed_table_convert(ctx, t, &o, &stored));
  embed_head *h = head_of(ctx, &s.p, stored), *few = thirds(ctx, h, VOCAB);
  for (int dense = 0; dense < 2; ++dense) {
    training whole = trained(ctx, &s, h, dense), part = trained(ctx, &s, few, dense);
    const int64_t rows = dense ? VOCAB : embed_grad_rows(whole.g);
    assert_int_equal(part.count, whole.count);
    assert_true(whole.count > 0 && whole.loss[0] > 0);
    assert_same_bits(part.loss, whole.loss, N * 4);
    assert_same_bits(part.dx, whole.dx, N * DIM * 4);
    if (!dense) assert_int_equal(embed_grad_rows(part.g), rows);
    if (!dense) assert_same_bits(embed_grad_ids(part.g), embed_grad_ids(whole.g), (size_t)rows * 8);
    assert_same_bits(part.dw, whole.dw, (size_t)(rows * DIM) * 4);
    if (s.p.bias) assert_same_bits(part.db, whole.db, VOCAB * 4);
    if (!s.p.bias) assert_null(part.db);
    training_free(&whole), training_free(&part);
  }
  embed_head_release(few);
  embed_head_release(h);
  embed_table_release(t);
  sampled_free(&s);
}

static void a_subset_gives_the_bits_of_the_head_that_it_was_taken_from(void **state) {
  static const embed_dtype types[] = {EMBED_F32, EMBED_BF16, EMBED_Q8_0};
  embed_context *ctx = context_with(NULL, 2);
  (void)state;
  for (int option = 0; option < OPTIONS; ++option)
    for (uint32_t way = 0; way < 2; ++way) check_subset(ctx, types[option % COUNT(types)], option, way ? EMBED_SAMPLED_PER_ROW : 0);
  check_subset(ctx, EMBED_Q8_0, 5, 0); /* the bias */
  check_subset(ctx, EMBED_F32, 5, EMBED_SAMPLED_PER_ROW);
  embed_context_release(ctx);
}

static void ids_outside_a_subset_and_a_stale_one_are_refused(void **state) {
  embed_context *ctx = context_new();
  (void)state;
  for (uint32_t way = 0; way < 2; ++way) {
    sampled s = sampled_new(11, 5, 8, 7, way ? EMBED_SAMPLED_PER_ROW : 0, 9);
    float loss[8], dx[40];
    training t = {.loss = loss, .dx = dx, .count = -7};
    memset(loss, 0xA5, sizeof loss);
    memset(dx, 0xA5, sizeof dx);
    for (int i = 0; i < 8; ++i) s.p.targets[i] = 10;
    for (int64_t j = 0; j < given(&s); ++j) s.candidates[j] = 7;
    embed_table *table = table_of(ctx, &s.p);
    embed_head *h = NULL;
    OK(embed_head_create(ctx, table, NULL, NULL, &h));
    embed_head *few = thirds(ctx, h, 11); /* 10 7 4 1 */
    OK(embed_grad_create(ctx, 5, &t.g));
    s.p.targets[3] = 9, s.p.targets[5] = 11;
    assert_int_equal(run(ctx, &s, few, &t), EMBED_E_ID);
    assert_int_equal(embed_error_at(ctx), 3);
    assert_string_equal(embed_error_text(ctx), "target 9 at position 3 is not among the 4 ids of this subset");
    s.p.targets[3] = s.p.targets[5] = 1;
    s.candidates[2] = 0, s.candidates[4] = -1;
    assert_int_equal(run(ctx, &s, few, &t), EMBED_E_ID);
    assert_int_equal(embed_error_at(ctx), 2);
    assert_string_equal(embed_error_text(ctx), "candidate 0 at position 2 is not among the 4 ids of this subset");
    s.candidates[2] = s.candidates[4] = 4;
    embed_grad *small = t.g;
    OK(embed_grad_create_dense(ctx, 10, 5, NULL, 0, &t.g)); /* of all 11 there must be room */
    assert_int_equal(run(ctx, &s, few, &t), EMBED_E_MISMATCH);
    embed_grad_release(t.g);
    t.g = small;
    embed_table_changed(table);
    assert_int_equal(run(ctx, &s, few, &t), EMBED_E_STALE);
    assert_true(test_all_bytes(loss, sizeof loss, 0xA5) && test_all_bytes(dx, sizeof dx, 0xA5) && t.count == -7 && embed_grad_rows(t.g) == 0);
    OK(embed_head_refresh(ctx, few));
    OK(run(ctx, &s, few, &t));
    embed_grad_release(t.g);
    embed_head_release(few);
    embed_head_release(h);
    embed_table_release(table);
    sampled_free(&s);
  }
  embed_context_release(ctx);
}

/* ---- what is refused ---- */
typedef struct refusal {
  embed_status status;
  int64_t at;
} refusal;

static refusal break_it(sampled *s, int k) {
  switch (k) {
    case 0: s->p.targets[4] = 11; return (refusal){EMBED_E_ID, 4};
    case 1: s->candidates[5] = 11; return (refusal){EMBED_E_ID, 5};
    case 2: s->candidates[3] = -1; return (refusal){EMBED_E_ID, 3};
    case 3: s->samples = -1; return (refusal){EMBED_E_ARGUMENT, -1};
    case 4: s->o.kind = 3; return (refusal){EMBED_E_OPTION, -1};
    case 5: s->o.reduction = 3; return (refusal){EMBED_E_OPTION, -1};
    case 6: s->o.reserved = 1; return (refusal){EMBED_E_OPTION, -1};
    case 7: s->o.flags |= 8; return (refusal){EMBED_E_OPTION, -1};
    case 8: s->o.kind = EMBED_SAMPLED_NCE, free(s->expected), s->expected = NULL; return (refusal){EMBED_E_ARGUMENT, -1};
    case 9: s->o.kind = EMBED_SAMPLED_NEGATIVE; return (refusal){EMBED_E_ARGUMENT, -1};
    case 10: free(s->target_expected), s->target_expected = NULL; return (refusal){EMBED_E_ARGUMENT, -1};
    case 11: s->expected[2] = NAN; return (refusal){EMBED_E_ARGUMENT, 2};
    default: s->target_expected[1] = -INFINITY; return (refusal){EMBED_E_ARGUMENT, 1};
  }
}

static void wrong_arguments_write_nothing(void **state) {
  embed_context *ctx = context_new();
  (void)state;
  for (int k = 0; k < 13; ++k) {
    for (uint32_t way = 0; way < 2; ++way) {
      uint64_t seed = 4;
      sampled s = sampled_new(11, 5, 8, 7, way ? EMBED_SAMPLED_PER_ROW : 0, 9);
      correct(&s, &seed);
      float loss[8], dx[40];
      training t = {.loss = loss, .dx = dx, .count = -7};
      memset(loss, 0xA5, sizeof loss);
      memset(dx, 0xA5, sizeof dx);
      OK(embed_grad_create(ctx, 5, &t.g));
      embed_head *h = head_of(ctx, &s.p, table_of(ctx, &s.p));
      const refusal r = break_it(&s, k);
      assert_int_equal(run(ctx, &s, h, &t), r.status);
      assert_int_equal(embed_error_at(ctx), r.at);
      assert_true(test_all_bytes(loss, sizeof loss, 0xA5) && test_all_bytes(dx, sizeof dx, 0xA5) && t.count == -7 && embed_grad_rows(t.g) == 0);
      if (k == 1) assert_string_equal(embed_error_text(ctx), "candidate 11 at position 5 is outside the vocabulary of 11 rows");
      embed_grad_release(t.g);
      embed_head_release(h);
      sampled_free(&s);
    }
  }
  sampled s = sampled_new(11, 5, 8, 7, 0, 9);
  embed_head *h = head_of(ctx, &s.p, table_of(ctx, &s.p));
  training t = {.count = -7};
  OK(embed_grad_create_dense(ctx, 10, 5, NULL, 0, &t.g));
  assert_int_equal(run(ctx, &s, h, &t), EMBED_E_MISMATCH);
  embed_grad_release(t.g);
  OK(embed_grad_create(ctx, 6, &t.g));
  assert_int_equal(run(ctx, &s, h, &t), EMBED_E_MISMATCH);
  embed_grad_release(t.g);
  assert_int_equal(t.count, -7);
  embed_head_release(h);
  sampled_free(&s);
  embed_context_release(ctx);
}

static void every_failed_allocation_leaves_everything_as_it_was(void **state) {
  static const int32_t ids[2] = {3, 250};
  (void)state;
  for (uint32_t way = 0; way < 2; ++way) {
    sampled s = sampled_new(300, 24, 40, 15, way ? EMBED_SAMPLED_PER_ROW : 0, 5);
    uint64_t seed = 4;
    counting c;
    s.p.bias = random_floats(300, 1, &seed);
    for (int k = 0;; ++k) {
      counting_start(&c);
      embed_context *ctx = counting_context(&c, NULL);
      embed_head *h = head_of(ctx, &s.p, table_of(ctx, &s.p));
      float loss[40], dx[40 * 24];
      training t = {.loss = loss, .dx = dx, .count = -7};
      OK(embed_grad_create(ctx, 24, &t.g));
      OK(embed_grad_add(ctx, t.g, ids, 2, s.p.x, 0));
      embed_context_trim(ctx);
      memset(loss, 0xA5, sizeof loss);
      memset(dx, 0xA5, sizeof dx);
      atomic_store(&c.fail_at, k);
      const embed_status status = run(ctx, &s, h, &t);
      const bool failed = atomic_exchange(&c.fail_at, -1) < 0;
      assert_int_equal(status, failed ? EMBED_E_MEMORY : EMBED_OK);
      if (failed) {
        assert_int_equal(embed_grad_rows(t.g), 2);
        assert_null(embed_grad_bias(t.g));
        assert_same_bits(embed_grad_values(t.g), s.p.x, 2 * 24 * 4);
        assert_true(test_all_bytes(loss, sizeof loss, 0xA5) && test_all_bytes(dx, sizeof dx, 0xA5) && t.count == -7);
      } else {
        assert_true(embed_grad_rows(t.g) > 20);
      }
      embed_grad_release(t.g);
      embed_head_release(h);
      embed_context_release(ctx);
      counting_check(&c);
      if (!failed) break;
    }
    sampled_free(&s);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_pair_of_options_has_the_gradient_of_its_loss),
    cmocka_unit_test(candidates_that_are_all_classes_give_cross_entropy),
    cmocka_unit_test(threads_and_the_other_rows_do_not_change_a_bit),
    cmocka_unit_test(every_dtype_is_as_its_decoded_rows),
    cmocka_unit_test(ignored_rows_are_not_read_and_hidden_may_become_its_gradient),
    cmocka_unit_test(all_ignored_and_no_candidates_are_fine),
    cmocka_unit_test(infinite_and_nan_logits_stay_in_their_row),
    cmocka_unit_test(a_subset_gives_the_bits_of_the_head_that_it_was_taken_from),
    cmocka_unit_test(ids_outside_a_subset_and_a_stale_one_are_refused),
    cmocka_unit_test(wrong_arguments_write_nothing),
    cmocka_unit_test(every_failed_allocation_leaves_everything_as_it_was),
};
TEST_MAIN(tests)
