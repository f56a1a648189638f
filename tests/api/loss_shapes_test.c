/* SPDX-License-Identifier: BSD-3-Clause */
/* Cross-entropy over shapes, dtypes, levels and threads; what it leaves alone; memory; stopping. */
#include "counting.h"
#include "loss.h"

static problem everything(int64_t vocab, int64_t dim, int64_t n) {
  uint64_t state = (uint64_t)(vocab + dim + n);
  problem p = problem_new(vocab, dim, n, state);
  p.bias = random_floats(vocab, 1, &state);
  p.up = random_floats(n, 1, &state);
  p.cap = 4;
  p.scale = 0.5f;
  p.o.label_smoothing = 0.1;
  p.o.z_loss = 1e-3;
  return p;
}

/* Tiles, strips, blocks and chunks of every size, and their tails. */
static const int64_t shapes[][3] = {{1, 1, 1},    {2, 3, 5},     {15, 16, 17},   {33, 31, 32},    {240, 7, 3},     {241, 33, 16},
                                    {1023, 5, 9}, {1024, 64, 2}, {1025, 40, 13}, {2500, 24, 255}, {700, 257, 256}, {3001, 20, 300}};

static void gradients_are_right_for_every_shape_and_level(void **state) {
  static const char *const levels[] = {"scalar", "avx2", "avx512", "amx"};
  (void)state;
  for (int s = 0; s < COUNT(shapes); ++s) {
    for (int plain = 0; plain < 2; ++plain) {
      problem p = plain ? problem_new(shapes[s][0], shapes[s][1], shapes[s][2], (uint64_t)s + 1) : everything(shapes[s][0], shapes[s][1], shapes[s][2]);
      answer want = answer_in_double(&p);
      for (int l = 0; l < COUNT(levels); ++l) {
        embed_context *ctx = context_with(levels[l], 2);
        if (!ctx) continue;
        embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
        training t = train(ctx, &p, h);
        float *lse = zeroed(p.n, 4), *loss = zeroed(p.n, 4);
        CLOSE(t.loss, want.loss, p.n, 2e-6);
        CLOSE(t.dx, want.dx, p.n * p.dim, 2e-6);
        CLOSE(t.dw, want.dw, p.vocab * p.dim, 2e-6);
        if (p.bias) CLOSE(t.db, want.db, p.vocab, 2e-6);
        assert_true(t.count == want.count);
        OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, loss, lse, &p.o));
        CLOSE(loss, want.loss, p.n, 2e-6);
        CLOSE(lse, want.logsumexp, p.n, 2e-6);
        free(lse), free(loss);
        training_free(&t);
        embed_head_release(h);
        embed_context_release(ctx);
      }
      answer_free(&want);
      problem_free(&p);
    }
  }
}

static embed_context *context_of(int32_t threads, uint32_t flags, const embed_allocator *allocator) {
  embed_pool *pool = NULL;
  embed_context *ctx = NULL;
  if (threads > 1) OK(embed_pool_create(threads, &pool));
  embed_context_options o = {.size = sizeof o, .flags = flags, .pool = pool, .allocator = allocator};
  OK(embed_context_create(&o, &ctx));
  embed_pool_release(pool);
  return ctx;
}

static void check_threads(uint32_t flags) {
  problem p = everything(5003, 72, 300);
  training first = {0};
  float *lse[4], *loss[4], *dx[4], *dw[4];
  static const int32_t threads[4] = {1, 2, 7, 3};
  for (int k = 0; k < 4; ++k) {
    embed_context *ctx = context_of(threads[k], flags, NULL);
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    training t = train(ctx, &p, h);
    lse[k] = zeroed(p.n, 4), loss[k] = zeroed(p.n, 4), dx[k] = zeroed(p.n * p.dim, 4), dw[k] = zeroed(p.vocab * p.dim, 4);
    OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, loss[k], lse[k], &p.o));
    OK(embed_cross_entropy_backward(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, k ? lse[0] : lse[k], p.up, dx[k], 0, dw[k], 0, &p.o));
    if (k == 0) {
      first = t;
    } else {
      assert_same_bits(t.loss, first.loss, (size_t)p.n * 4);
      assert_same_bits(t.dx, first.dx, (size_t)(p.n * p.dim) * 4);
      assert_same_bits(t.dw, first.dw, (size_t)(p.vocab * p.dim) * 4);
      assert_same_bits(t.db, first.db, (size_t)p.vocab * 4);
      assert_same_bits(dx[k], dx[0], (size_t)(p.n * p.dim) * 4);
      assert_same_bits(dw[k], dw[0], (size_t)(p.vocab * p.dim) * 4);
      assert_same_bits(loss[k], loss[0], (size_t)p.n * 4);
      assert_same_bits(lse[k], lse[0], (size_t)p.n * 4);
      training_free(&t);
    }
    embed_head_release(h);
    embed_context_release(ctx);
  }
  for (int k = 0; k < 4; ++k) free(lse[k]), free(loss[k]), free(dx[k]), free(dw[k]);
  training_free(&first);
  problem_free(&p);
}
static void threads_do_not_change_a_bit(void **state) {
  (void)state;
  check_threads(0);
  check_threads(EMBED_CONTEXT_REPRODUCIBLE);
}

/* Numbers that tiles would take as 0, or that overflow in them: a few rows of the table, or of the hidden ones. */
static void check_answers(problem *p) {
  answer want = answer_in_double(p);
  embed_context *ctx = context_of(2, 0, NULL);
  embed_head *h = head_of(ctx, p, table_of(ctx, p));
  training t = train(ctx, p, h);
  CLOSE(t.loss, want.loss, p->n, 2e-6);
  CLOSE(t.dx, want.dx, p->n * p->dim, 2e-6);
  CLOSE(t.dw, want.dw, p->vocab * p->dim, 2e-6);
  training_free(&t);
  embed_head_release(h);
  embed_context_release(ctx);
  answer_free(&want);
}
static void numbers_of_every_size_have_their_gradients(void **state) {
  static const float factors[] = {0x1p-90f, 0x1p-140f, 0x1p70f};
  (void)state;
  for (int f = 0; f < COUNT(factors); ++f) {
    for (int hidden = 0; hidden < 2; ++hidden) {
      problem p = problem_new(700, 72, 64, (uint64_t)f + 9);
      const int64_t rows = hidden ? p.n : p.vocab;
      for (int64_t i = 3; i < rows; i += 37)
        for (int64_t j = 0; j < p.dim; ++j) (hidden ? p.x : p.w)[i * p.dim + j] *= j % 3 == 0 || factors[f] < 1 ? factors[f] : 0x1p-70f;
      if (factors[f] > 1) p.scale = 0x1p-72f; /* else one logit is all */
      check_answers(&p);
      problem_free(&p);
    }
  }
  problem p = problem_new(700, 72, 64, 12); /* slopes */
  uint64_t seed = 3;
  p.up = random_floats(p.n, 0x1p40f, &seed);
  check_answers(&p);
  problem_free(&p);
}

static void a_rows_loss_and_gradient_do_not_depend_on_the_others(void **state) {
  problem p = everything(2100, 48, 290);
  embed_context *ctx = context_of(2, EMBED_CONTEXT_REPRODUCIBLE, NULL); /* else tiles may multiply the 290, and vectors the one */
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  training all = train(ctx, &p, h);
  (void)state;
  for (int64_t i = 0; i < p.n; i += 41) {
    float loss, dx[48];
    OK(embed_cross_entropy_train(ctx, h, p.x + i * p.dim, EMBED_F32, 1, 0, p.targets + i, p.up + i, &loss, NULL, dx, EMBED_F32, 0, NULL, &p.o));
    assert_same_bits(&loss, &all.loss[i], 4);
    assert_same_bits(dx, all.dx + i * p.dim, sizeof dx);
  }
  training_free(&all);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

/* Where logits are made again, memory ends among other table rows for every number of hidden rows. */
static void nor_on_how_many_logits_are_kept(void **state) {
  enum { DIM = 8, N = 128, FEW = 48 };
  problem p = problem_new(151936, DIM, N, 5);
  embed_context *ctx = context_of(2, 0, NULL);
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  float *dx = zeroed(N * DIM, 4), *ones = zeroed(N, 4), few[FEW * DIM];
  (void)state;
  for (int i = 0; i < N; ++i) ones[i] = 1;
  for (int i = 0; i < N; ++i) p.targets[i] = 0; /* elsewhere gradients are small: a sum in another order is another number */
  OK(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, FEW, 0, p.targets, ones, NULL, NULL, few, EMBED_F32, 0, NULL, NULL));
  for (int64_t n = 100; n <= N; n += 14) {
    OK(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, n, 0, p.targets, ones, NULL, NULL, dx, EMBED_F32, 0, NULL, NULL));
    assert_same_bits(dx, few, sizeof few);
  }
  free(dx), free(ones);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

/* A table of another dtype has the loss and the gradients of its decoded rows; d_hidden in 16 bits is rounded once. */
static void every_dtype_is_as_its_decoded_rows(void **state) {
  static const embed_dtype types[] = {EMBED_F16, EMBED_BF16, EMBED_I8_ROW, EMBED_I4_GROUP, EMBED_Q8_0, EMBED_Q4_0, EMBED_Q4_K, EMBED_Q6_K, EMBED_F64};
  embed_context *ctx = context_of(2, 0, NULL);
  (void)state;
  for (int k = 0; k < COUNT(types); ++k) {
    problem p = problem_new(300, 256, 20, (uint64_t)k + 1);
    embed_table_options as = {.size = sizeof as, .dtype = types[k]};
    embed_table *f32 = table_of(ctx, &p), *stored = NULL;
    embed_head *h = NULL;
    int64_t ids[300];
    OK(embed_table_convert(ctx, f32, &as, &stored));
    for (int64_t v = 0; v < p.vocab; ++v) ids[v] = v;
    OK(embed_table_get_rows(ctx, stored, ids, p.vocab, p.w, EMBED_F32, 0));
    answer want = answer_in_double(&p);
    OK(embed_head_create(ctx, stored, NULL, NULL, &h));
    training t = train(ctx, &p, h);
    CLOSE(t.loss, want.loss, p.n, 3e-6);
    CLOSE(t.dx, want.dx, p.n * p.dim, 3e-6);
    CLOSE(t.dw, want.dw, p.vocab * p.dim, 3e-6);
    float loss[20], rows[20 * 256];
    OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, loss, NULL, &p.o));
    CLOSE(loss, want.loss, p.n, 3e-6);
    uint16_t narrow[20 * 256];
    OK(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, NULL, NULL, NULL, narrow, EMBED_BF16, 0, NULL, &p.o));
    for (int i = 0; i < 20 * 256; ++i) {
      rows[i] = f32_of_bf16_bits(narrow[i]);
      assert_true(fabsf(rows[i] - t.dx[i]) <= ldexpf(fabsf(t.dx[i]), -8) + 1e-38f);
    }
    training_free(&t);
    answer_free(&want);
    embed_head_release(h);
    embed_table_release(stored);
    embed_table_release(f32);
    problem_free(&p);
  }
  embed_context_release(ctx);
}

/* Rows that lie anywhere: a stride that is no multiple of 4 bytes, one of 4096, an overlay. */
static void rows_may_lie_anywhere(void **state) {
  enum { VOCAB = 130, DIM = 40 };
  embed_context *ctx = context_of(2, 0, NULL);
  problem p = problem_new(VOCAB, DIM, 12, 5);
  answer want = answer_in_double(&p);
  static const int64_t strides[] = {4 * DIM + 1, 4096, 4 * DIM + 4};
  (void)state;
  for (int k = 0; k < 4; ++k) {
    const int64_t stride = k < 3 ? strides[k] : 4 * DIM;
    guarded g = guarded_new((size_t)(stride * (VOCAB - 1) + 4 * DIM), 1);
    embed_table_options o = {.size = sizeof o, .row_bytes = stride};
    embed_table *t = NULL, *over = NULL;
    embed_head *h = NULL;
    for (int64_t v = 0; v < VOCAB; ++v) memcpy(g.at + v * stride, p.w + v * DIM, 4 * DIM);
    OK(embed_table_view(ctx, g.at, VOCAB, DIM, &o, NULL, NULL, &t));
    if (k == 3) {
      const int64_t ids[2] = {3, 7};
      embed_table *rows = NULL;
      OK(embed_table_view(ctx, p.w, 2, DIM, NULL, NULL, NULL, &rows));
      OK(embed_table_overlay(ctx, t, ids, 2, rows, 0, &over));
      embed_table_release(rows);
      memcpy(p.w + 3 * DIM, p.w, 4 * DIM);
      memcpy(p.w + 7 * DIM, p.w + DIM, 4 * DIM);
      answer_free(&want);
      want = answer_in_double(&p);
      memcpy(p.w, g.at, 8 * DIM);
    }
    OK(embed_head_create(ctx, over ? over : t, NULL, NULL, &h));
    training r = train(ctx, &p, h);
    CLOSE(r.loss, want.loss, p.n, 2e-6);
    CLOSE(r.dx, want.dx, p.n * p.dim, 2e-6);
    CLOSE(r.dw, want.dw, p.vocab * p.dim, 2e-6);
    training_free(&r);
    embed_head_release(h);
    embed_table_release(over);
    embed_table_release(t);
    guarded_free(g);
  }
  answer_free(&want);
  embed_context_release(ctx);
  problem_free(&p);
}

static void strides_padding_rows_and_what_was_there_stay(void **state) {
  enum { ROWS = 20, VOCAB = 17, DIM = 9, N = 8, LDX = 11, LDD = 13, LDW = 12 };
  problem p = problem_new(ROWS, DIM, N, 2);
  embed_context *ctx = context_new();
  embed_table_options o = {.size = sizeof o, .vocab = VOCAB};
  embed_table *t = NULL;
  embed_head *h = NULL;
  float x[N * LDX], dx[N * LDD], dw[ROWS * LDW], lse[N], up[N], memory[ROWS * LDW], again[N * LDD];
  embed_grad *g = NULL;
  (void)state;
  for (int v = VOCAB * DIM; v < ROWS * DIM; ++v) p.w[v] = NAN; /* padding is never read */
  for (int i = 0; i < N; ++i) p.targets[i] = p.targets[i] < 0 ? -100 : p.targets[i] % VOCAB, up[i] = 1;
  for (int i = 0; i < N * LDX; ++i) x[i] = NAN;
  for (int i = 0; i < N; ++i) memcpy(x + i * LDX, p.x + i * DIM, DIM * 4);
  OK(embed_table_view(ctx, p.w, ROWS, DIM, &o, NULL, NULL, &t));
  OK(embed_head_create(ctx, t, NULL, NULL, &h));
  p.vocab = VOCAB;
  p.o.reduction = EMBED_REDUCE_SUM;
  answer want = answer_in_double(&p);
  for (int i = 0; i < ROWS * LDW; ++i) dw[i] = memory[i] = 1000;
  for (int i = 0; i < N * LDD; ++i) dx[i] = again[i] = 77;
  OK(embed_cross_entropy(ctx, h, x, EMBED_F32, N, LDX, p.targets, NULL, lse, &p.o));
  OK(embed_cross_entropy_backward(ctx, h, x, EMBED_F32, N, LDX, p.targets, lse, up, dx, LDD, dw, LDW, &p.o));
  OK(embed_grad_create_dense(ctx, ROWS, DIM, memory, LDW, &g));
  OK(embed_cross_entropy_train(ctx, h, x, EMBED_F32, N, LDX, p.targets, NULL, NULL, NULL, again, EMBED_F32, LDD, g, &p.o));
  for (int v = 0; v < ROWS; ++v)
    for (int j = 0; j < LDW; ++j) {
      double added = v < VOCAB && j < DIM ? want.dw[v * DIM + j] : 0;
      assert_true(fabs((double)dw[v * LDW + j] - 1000 - added) <= (added != 0 ? 1e-4 : 0));
      assert_true(fabs((double)memory[v * LDW + j] - 1000 - added) <= (added != 0 ? 1e-4 : 0));
    }
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < LDD; ++j) {
      double to = j < DIM ? want.dx[i * DIM + j] : 77;
      assert_true(fabs((double)dx[i * LDD + j] - to) <= (j < DIM ? 1e-5 : 0));
      assert_true(fabs((double)again[i * LDD + j] - to) <= (j < DIM ? 1e-5 : 0));
    }
  embed_grad_release(g);
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
  answer_free(&want);
  problem_free(&p);
}

static void ignored_rows_may_hold_anything_and_hidden_may_become_its_gradient(void **state) {
  problem p = everything(50, 16, 21);
  embed_context *ctx = context_new();
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  (void)state;
  training clean = train(ctx, &p, h);
  for (int64_t i = 0; i < p.n; ++i)
    if (p.targets[i] < 0) {
      p.up[i] = NAN;
      for (int j = 0; j < 16; ++j) p.x[i * 16 + j] = j % 2 ? NAN : INFINITY;
    }
  training t = train(ctx, &p, h);
  assert_same_bits(t.dx, clean.dx, 21 * 16 * 4);
  assert_same_bits(t.dw, clean.dw, 50 * 16 * 4);
  assert_same_bits(t.db, clean.db, 50 * 4);
  assert_same_bits(t.loss, clean.loss, 21 * 4);
  OK(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, p.up, NULL, NULL, p.x, EMBED_F32, 0, NULL, &p.o));
  assert_same_bits(p.x, clean.dx, 21 * 16 * 4);
  training_free(&clean);
  training_free(&t);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

/* A row with a NaN spoils its own loss and d_hidden, and the shared gradient, not the other rows. */
static void a_nan_stays_in_its_row(void **state) {
  problem p = problem_new(60, 8, 10, 4);
  embed_context *ctx = context_new();
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  (void)state;
  training clean = train(ctx, &p, h);
  p.x[2 * 8 + 1] = NAN;
  training t = train(ctx, &p, h);
  for (int i = 0; i < 10; ++i) {
    if (i == 2)
      assert_true(isnan(t.loss[i]) && isnan(t.dx[i * 8]));
    else
      assert_same_bits(t.dx + i * 8, clean.dx + i * 8, 8 * 4);
  }
  assert_true(isnan(t.dw[0]));
  training_free(&clean);
  training_free(&t);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

static void a_sparse_gradient_gets_every_row_and_keeps_what_it_had(void **state) {
  problem p = problem_new(40, 6, 9, 8);
  embed_context *ctx = context_new();
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  embed_grad *g = NULL, *narrow = NULL, *few = NULL;
  static const int32_t ids[2] = {5, 39};
  static const float rows[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  (void)state;
  training t = train(ctx, &p, h);
  OK(embed_grad_create(ctx, 6, &g));
  OK(embed_grad_add(ctx, g, ids, 2, rows, 0));
  OK(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, NULL, NULL, NULL, NULL, EMBED_F32, 0, g, NULL));
  assert_int_equal(embed_grad_rows(g), 40);
  for (int i = 0; i < 240; ++i) {
    float had = i / 6 == 5 ? rows[i % 6] : i / 6 == 39 ? rows[6 + i % 6] : 0;
    assert_true(fabsf(embed_grad_values(g)[i] - (had + t.dw[i])) <= 2e-6f);
  }
  OK(embed_grad_create(ctx, 5, &narrow));
  assert_int_equal(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, NULL, NULL, NULL, NULL, EMBED_F32, 0, narrow, NULL), EMBED_E_MISMATCH);
  OK(embed_grad_create_dense(ctx, 39, 6, NULL, 0, &few));
  assert_int_equal(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, NULL, NULL, NULL, NULL, EMBED_F32, 0, few, NULL), EMBED_E_MISMATCH);
  training_free(&t);
  embed_grad_release(g);
  embed_grad_release(narrow);
  embed_grad_release(few);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

static void wrong_options_and_arguments_write_nothing(void **state) {
  static const float bad_weight[4] = {1, 2, INFINITY, 1};
  problem p = problem_new(4, 3, 2, 1);
  embed_context *ctx = context_new();
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  embed_loss_options bad[10];
  unsigned char out[3][64];
  float *o[3] = {(float *)(void *)out[0], (float *)(void *)out[1], (float *)(void *)out[2]};
  (void)state;
  for (int k = 0; k < COUNT(bad); ++k) bad[k] = (embed_loss_options){.size = sizeof bad[k]};
  bad[0].label_smoothing = -0.1, bad[1].label_smoothing = 1.5, bad[2].label_smoothing = NAN, bad[3].z_loss = -1, bad[4].z_loss = NAN;
  bad[5].reduction = 3, bad[6].reduction = -1, bad[7].class_weight = bad_weight, bad[8].flags = 16, bad[9].reserved = &p;
  memset(out, 0xA5, sizeof out);
  for (int k = 0; k < COUNT(bad); ++k) {
    assert_int_equal(embed_cross_entropy(ctx, h, p.x, EMBED_F32, 2, 0, p.targets, o[0], o[1], &bad[k]), EMBED_E_OPTION);
    if (k == 7) assert_int_equal(embed_error_at(ctx), 2);
    assert_int_equal(embed_cross_entropy_backward(ctx, h, p.x, EMBED_F32, 2, 0, p.targets, p.x, p.x, o[0], 0, o[1], 0, &bad[k]), EMBED_E_OPTION);
    assert_int_equal(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, 2, 0, p.targets, NULL, o[0], NULL, o[1], EMBED_F32, 0, NULL, &bad[k]), EMBED_E_OPTION);
  }
  assert_int_equal(embed_cross_entropy(ctx, NULL, p.x, EMBED_F32, 2, 0, p.targets, o[0], o[1], NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_cross_entropy(ctx, h, NULL, EMBED_F32, 2, 0, p.targets, o[0], o[1], NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_cross_entropy(ctx, h, p.x, EMBED_F32, 2, 0, NULL, o[0], o[1], NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_cross_entropy(ctx, h, p.x, EMBED_F32, -1, 0, p.targets, o[0], o[1], NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_cross_entropy(ctx, h, p.x, EMBED_F32, 2, 2, p.targets, o[0], o[1], NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_cross_entropy(ctx, h, p.x, EMBED_Q8_0, 2, 0, p.targets, o[0], o[1], NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_cross_entropy_backward(ctx, h, p.x, EMBED_F32, 2, 0, p.targets, NULL, p.x, o[0], 0, o[1], 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_cross_entropy_backward(ctx, h, p.x, EMBED_F32, 2, 0, p.targets, p.x, NULL, o[0], 0, o[1], 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_cross_entropy_backward(ctx, h, p.x, EMBED_F32, 2, 0, p.targets, p.x, p.x, o[0], 2, o[1], 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_cross_entropy_backward(ctx, h, p.x, EMBED_F32, 2, 0, p.targets, p.x, p.x, o[0], 0, o[1], 2, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, 2, 0, p.targets, NULL, o[0], NULL, o[1], EMBED_Q8_0, 0, NULL, NULL), EMBED_E_ARGUMENT);
  assert_true(test_all_bytes(out, sizeof out, 0xA5));
  OK(embed_cross_entropy(ctx, h, NULL, EMBED_F32, 0, 0, NULL, NULL, NULL, NULL));
  OK(embed_cross_entropy_backward(ctx, h, NULL, EMBED_F32, 0, 0, NULL, NULL, NULL, NULL, 0, NULL, 0, NULL));
  int64_t count = -7;
  OK(embed_cross_entropy_train(ctx, h, NULL, EMBED_F32, 0, 0, NULL, NULL, NULL, &count, NULL, EMBED_F32, 0, NULL, NULL));
  assert_int_equal(count, 0);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

/* Many rows of a large vocabulary: chunks of logits that are kept, and logits that are made twice. */
static void memory_stays_below_64_megabytes(void **state) {
  static const int64_t large[][3] = {{262144, 8, 20}, {262144, 8, 200}, {1100000, 2, 40}, {50257, 16, 600}, {30000, 4096, 3}};
  (void)state;
#ifdef TEST_SANITIZED
  const int count = 1; /* the others take minutes there */
#else
  const int count = COUNT(large);
#endif
  for (int k = 0; k < count; ++k) {
    counting c;
    counting_start(&c);
    embed_context *ctx = context_of(2, 0, &c.allocator);
    problem p = problem_new(large[k][0], large[k][1], large[k][2], 6);
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    float *lse = zeroed(p.n, 4), *loss = zeroed(p.n, 4), *dx = zeroed(p.n * p.dim, 4), *up = zeroed(p.n, 4), *dw = zeroed(p.vocab * p.dim, 4);
    double *as_double = zeroed(p.vocab * p.dim, 8);
    training t = train(ctx, &p, h);
    int64_t gradient = p.vocab * p.dim * 4;
    print_message("%d x %d, %d rows: %.1f MB\n", (int)p.vocab, (int)p.dim, (int)p.n, (double)(atomic_load(&c.bytes) - gradient) * 1e-6);
    assert_true(atomic_load(&c.bytes) - gradient <= 64000000);
    embed_context_trim(ctx);
    OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, loss, lse, NULL));
    assert_true(atomic_load(&c.bytes) - gradient <= 64000000);
    embed_context_trim(ctx);
    for (int64_t i = 0; i < p.n; ++i) up[i] = 1 / (float)t.count;
    OK(embed_cross_entropy_backward(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, lse, up, dx, 0, dw, 0, NULL));
    assert_true(atomic_load(&c.bytes) - gradient <= 64000000);
    for (int64_t i = 0; i < p.n; ++i) as_double[i] = (double)t.loss[i];
    CLOSE(loss, as_double, p.n, 1e-6);
    for (int64_t i = 0; i < p.n * p.dim; ++i) as_double[i] = (double)t.dx[i];
    CLOSE(dx, as_double, p.n * p.dim, 1e-5); /* a stored logsumexp of 70 is right to 4e-6 */
    for (int64_t i = 0; i < p.vocab * p.dim; ++i) as_double[i] = (double)t.dw[i];
    CLOSE(dw, as_double, p.vocab * p.dim, 1e-5);
    free(lse), free(loss), free(dx), free(up), free(dw), free(as_double);
    training_free(&t);
    embed_head_release(h);
    embed_context_release(ctx);
    counting_check(&c);
    problem_free(&p);
  }
}

/* A sparse gradient takes memory for its rows: that may fail too, and then it is as it was. */
static void every_failed_allocation_leaves_everything_as_it_was(void **state) {
  problem p = everything(300, 24, 40);
  static const int32_t ids[2] = {5, 200};
  counting c;
  (void)state;
  for (int k = 0;; ++k) {
    counting_start(&c);
    embed_context *ctx = context_of(2, 0, &c.allocator);
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    embed_grad *g = NULL;
    float loss[40], dx[40 * 24];
    int64_t count = -7;
    OK(embed_grad_create(ctx, 24, &g));
    OK(embed_grad_add(ctx, g, ids, 2, p.x, 0));
    embed_context_trim(ctx);
    memset(loss, 0xA5, sizeof loss);
    memset(dx, 0xA5, sizeof dx);
    atomic_store(&c.fail_at, k);
    embed_status status = embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, p.up, loss, &count, dx, EMBED_F32, 0, g, &p.o);
    const bool failed = atomic_exchange(&c.fail_at, -1) < 0;
    assert_int_equal(status, failed ? EMBED_E_MEMORY : EMBED_OK);
    assert_int_equal(embed_grad_rows(g), failed ? 2 : 300);
    if (failed) {
      assert_same_bits(embed_grad_values(g), p.x, 2 * 24 * 4);
      assert_true(test_all_bytes(loss, sizeof loss, 0xA5) && test_all_bytes(dx, sizeof dx, 0xA5) && count == -7);
    }
    embed_grad_release(g);
    embed_head_release(h);
    embed_context_release(ctx);
    counting_check(&c);
    if (!failed) break;
  }
  problem_free(&p);
}

static int32_t stop_after(void *arg, int64_t done, int64_t total) {
  int64_t *left = arg;
  assert_true(done > 0 && done <= total);
  return --*left < 0;
}

static void it_can_be_watched_and_stopped(void **state) {
  problem p = problem_new(9000, 8, 600, 1);
  (void)state;
  for (int k = 0; k < 3; ++k) {
    int64_t left = k == 0 ? 1 << 30 : 3, before = left;
    int32_t cancel = k == 2;
    embed_context *ctx = NULL;
    embed_context_options o = {.size = sizeof o, .cancel = &cancel, .progress = stop_after, .progress_arg = &left};
    OK(embed_context_create(&o, &ctx));
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    embed_status status = embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, NULL, NULL, NULL, NULL, EMBED_F32, 0, NULL, &p.o);
    assert_int_equal(status, k ? EMBED_E_CANCELLED : EMBED_OK);
    if (k == 0) assert_true(before - left >= 3); /* a step for each chunk at least */
    left = before;
    float *loss = zeroed(p.n, 4);
    assert_int_equal(embed_cross_entropy(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, loss, NULL, &p.o), k ? EMBED_E_CANCELLED : EMBED_OK);
    free(loss);
    embed_head_release(h);
    embed_context_release(ctx);
  }
  problem_free(&p);
}

static void a_stale_head_has_no_loss(void **state) {
  problem p = problem_new(40, 8, 3, 1);
  embed_context *ctx = context_new();
  embed_table *t = NULL;
  embed_head *h = NULL;
  embed_head_options o = {.size = sizeof o, .flags = EMBED_HEAD_PREPARE};
  float loss[3];
  (void)state;
  OK(embed_table_borrow(ctx, p.w, 40, 8, NULL, NULL, NULL, &t));
  OK(embed_head_create(ctx, t, NULL, &o, &h));
  OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, 3, 0, p.targets, loss, NULL, NULL));
  embed_table_changed(t);
  assert_int_equal(embed_cross_entropy(ctx, h, p.x, EMBED_F32, 3, 0, p.targets, loss, NULL, NULL), EMBED_E_STALE);
  assert_int_equal(embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, 3, 0, p.targets, NULL, loss, NULL, NULL, EMBED_F32, 0, NULL, NULL), EMBED_E_STALE);
  OK(embed_head_refresh(ctx, h));
  OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, 3, 0, p.targets, loss, NULL, NULL));
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
  problem_free(&p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gradients_are_right_for_every_shape_and_level),
    cmocka_unit_test(threads_do_not_change_a_bit),
    cmocka_unit_test(numbers_of_every_size_have_their_gradients),
    cmocka_unit_test(a_rows_loss_and_gradient_do_not_depend_on_the_others),
    cmocka_unit_test(nor_on_how_many_logits_are_kept),
    cmocka_unit_test(every_dtype_is_as_its_decoded_rows),
    cmocka_unit_test(rows_may_lie_anywhere),
    cmocka_unit_test(strides_padding_rows_and_what_was_there_stay),
    cmocka_unit_test(ignored_rows_may_hold_anything_and_hidden_may_become_its_gradient),
    cmocka_unit_test(a_nan_stays_in_its_row),
    cmocka_unit_test(a_sparse_gradient_gets_every_row_and_keeps_what_it_had),
    cmocka_unit_test(wrong_options_and_arguments_write_nothing),
    cmocka_unit_test(memory_stays_below_64_megabytes),
    cmocka_unit_test(every_failed_allocation_leaves_everything_as_it_was),
    cmocka_unit_test(it_can_be_watched_and_stopped),
    cmocka_unit_test(a_stale_head_has_no_loss),
};
TEST_MAIN(tests)
