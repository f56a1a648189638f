/* SPDX-License-Identifier: BSD-3-Clause */
/* A whole training step, from the lookup to the optimiser: the same bits for any threads, and all of it or nothing when memory
 * runs out. The parts by themselves: grad_test.c, bag_backward_test.c, loss_test.c, optimizer_test.c. */
#include "counting.h"

enum { VOCAB = 301, ROWS = 304, DIM = 20, LD = 23, TOKENS = 40, BAGS = 8, N = TOKENS + BAGS, STEPS = 100 };

/* Tied: one table, one gradient, with the head's bias. Untied: a bf16 input table that is deferred, an f32 output table. */
typedef struct model {
  bool tied;
  embed_table *input, *output;
  embed_optimizer *of_input, *of_output;
  float *memory; /* tied: of the dense gradient, ld above dim */
  float bias[VOCAB];
  float loss[N];
} model;

static embed_table *filled(embed_context *ctx, embed_dtype dtype, uint64_t seed) {
  embed_table *t = NULL;
  const embed_table_options as = {.size = sizeof as, .dtype = dtype, .vocab = VOCAB};
  const embed_init_options init = {.size = sizeof init, .kind = EMBED_INIT_NORMAL, .scale = 0.3f, .seed = seed};
  OK(embed_table_create(ctx, ROWS, DIM, &as, &t));
  OK(embed_table_init(ctx, t, &init));
  return t;
}

static model model_new(embed_context *ctx, bool tied) {
  model m = {.tied = tied};
  const embed_optimizer_options dense = {.size = sizeof dense, .kind = EMBED_OPTIM_ADAMW, .lr = 0.01, .weight_decay = 0.1};
  const embed_optimizer_options deferred = {.size = sizeof deferred, .kind = EMBED_OPTIM_ADAMW_DEFERRED, .state = EMBED_BF16, .lr = 0.01, .weight_decay = 0.1};
  m.input = filled(ctx, tied ? EMBED_F32 : EMBED_BF16, 5);
  m.output = tied ? embed_table_retain(m.input) : filled(ctx, EMBED_F32, 6);
  OK(embed_optimizer_create(ctx, m.input, tied ? &dense : &deferred, &m.of_input));
  if (!tied) OK(embed_optimizer_create(ctx, m.output, &dense, &m.of_output));
  m.memory = malloc(VOCAB * LD * sizeof *m.memory);
  assert_non_null(m.memory);
  memset(m.memory, 0xA5, VOCAB * LD * sizeof *m.memory);
  return m;
}

static void model_free(model *m) {
  embed_optimizer_release(m->of_input);
  embed_optimizer_release(m->of_output);
  embed_table_release(m->input);
  embed_table_release(m->output);
  free(m->memory);
}

static size_t bytes_of(const embed_table *t) { return (size_t)(embed_table_rows(t) * embed_table_row_bytes(t)); }

static void assert_same_models(const model *a, const model *b) {
  assert_same_bits(embed_table_data(a->input), embed_table_data(b->input), bytes_of(a->input));
  assert_same_bits(embed_table_data(a->output), embed_table_data(b->output), bytes_of(a->output));
  assert_same_bits(a->bias, b->bias, sizeof a->bias);
}

typedef struct batch {
  int64_t ids[TOKENS], in_bags[2 * BAGS], offsets[BAGS + 1];
  int32_t targets[N];
} batch;

/* Frequent and rare ids, padding (0), targets that are ignored, an empty bag. */
static batch batch_of(int step) {
  batch b;
  uint64_t random = (uint64_t)step * 977 + 3;
  for (int i = 0; i < TOKENS; ++i) b.ids[i] = (int64_t)(test_random(&random) % (i % 2 ? 9 : VOCAB));
  for (int i = 0; i < 2 * BAGS; ++i) b.in_bags[i] = (int64_t)(test_random(&random) % VOCAB);
  for (int i = 0; i <= BAGS; ++i) b.offsets[i] = i == 3 ? 2 * 2 : 2 * i; /* bag 2 is empty, bag 3 has 4 */
  for (int i = 0; i < N; ++i) b.targets[i] = i % 11 == 10 ? -100 : (int32_t)(test_random(&random) % VOCAB);
  return b;
}

/* The gradients of a step: g of the input, h of the output; merged into h where they are one table. */
static embed_status gradients(embed_context *ctx, model *m, const batch *b, embed_grad *g, embed_grad *h) {
  static float hidden[N * DIM], d_hidden[N * DIM];
  const embed_lookup_options scaled = {.size = sizeof scaled, .flags = EMBED_LOOKUP_PADDING, .scale = 2};
  const embed_bag_options mean = {.size = sizeof mean, .flags = EMBED_LOOKUP_PADDING, .mode = EMBED_BAG_MEAN};
  const embed_loss_options smooth = {.size = sizeof smooth, .label_smoothing = 0.1, .z_loss = 1e-3};
  const embed_merge_options half = {.size = sizeof half, .scale = 0.5};
  float *bags = hidden + TOKENS * DIM, *d_bags = d_hidden + TOKENS * DIM;
  embed_head *head = NULL;
  int64_t count;
  embed_status s = embed_head_create(ctx, m->output, m->bias, NULL, &head);
  if (!s) s = embed_optimizer_touch(ctx, m->of_input, m->input, b->ids, TOKENS);
  if (!s) s = embed_optimizer_touch(ctx, m->of_input, m->input, b->in_bags, 2 * BAGS);
  if (!s) s = embed_lookup_i64(ctx, m->input, b->ids, TOKENS, hidden, EMBED_F32, 0, &scaled);
  if (!s) s = embed_bag_i64(ctx, m->input, b->in_bags, 2 * BAGS, b->offsets, BAGS, NULL, bags, EMBED_F32, 0, &mean);
  if (!s) s = embed_cross_entropy_train(ctx, head, hidden, EMBED_F32, N, 0, b->targets, NULL, m->loss, &count, d_hidden, EMBED_F32, 0, h, &smooth);
  if (!s) s = embed_lookup_backward(ctx, g, VOCAB, b->ids, TOKENS, d_hidden, EMBED_F32, 0, &scaled);
  if (!s) s = embed_bag_backward(ctx, g, m->input, b->in_bags, 2 * BAGS, b->offsets, BAGS, NULL, d_bags, EMBED_F32, 0, NULL, &mean);
  if (!s && m->tied) s = embed_grad_merge(ctx, h, g, &half);
  if (!s) s = embed_grad_clip(ctx, h, NULL, &(embed_clip_options){.size = sizeof(embed_clip_options), .max_norm = 1});
  embed_head_release(head);
  return s;
}

static embed_step_options options_at(int step) {
  return (embed_step_options){.size = sizeof(embed_step_options),
                              .flags = EMBED_STEP_LR | EMBED_STEP_CHECK_FINITE,
                              .lr = embed_lr_at(EMBED_LR_COSINE, 0.02, step, 10, STEPS, 0),
                              .max_grad_norm = 0.7};
}

typedef struct grads {
  embed_grad *g, *h;
} grads;

static void grads_free(grads *made) {
  embed_grad_release(made->g);
  embed_grad_release(made->h);
  *made = (grads){0};
}

/* From nothing to the input's step: a tied table is done then. Fresh gradients every time, so that their memory is asked for, too. */
static embed_status first_part(embed_context *ctx, model *m, int step, grads *made) {
  const batch b = batch_of(step);
  const embed_step_options at = options_at(step);
  embed_status s = embed_grad_create(ctx, DIM, &made->g);
  if (!s) s = embed_grad_create_dense(ctx, VOCAB, DIM, m->memory, LD, &made->h);
  embed_grad_clear(made->h);
  if (!s) s = gradients(ctx, m, &b, made->g, made->h);
  if (!s) s = embed_optimizer_step(ctx, m->of_input, m->input, m->tied ? made->h : made->g, &at);
  return s;
}

static embed_status second_part(embed_context *ctx, model *m, int step, const grads *made) {
  const embed_step_options at = options_at(step);
  embed_status s = m->tied ? EMBED_OK : embed_optimizer_step(ctx, m->of_output, m->output, made->h, &at);
  for (int v = 0; !s && v < VOCAB; ++v) m->bias[v] -= (float)at.lr * embed_grad_bias(made->h)[v];
  for (int r = 0; r < VOCAB; ++r) assert_true(test_all_bytes(m->memory + r * LD + DIM, (LD - DIM) * sizeof(float), 0xA5));
  return s;
}

static void train(embed_context *ctx, model *m, int step) {
  grads made = {0};
  OK(first_part(ctx, m, step, &made));
  OK(second_part(ctx, m, step, &made));
  grads_free(&made);
}

static embed_status backwards(void *arg, int64_t n, embed_task *task, void *job) {
  (void)arg;
  for (int64_t i = n - 1; i >= 0; --i) task(job, i, (int32_t)(i % 3));
  return EMBED_OK;
}

static embed_context *reproducible(int threads) {
  embed_pool *pool = NULL;
  embed_context *ctx = NULL;
  const embed_executor executor = {.size = sizeof executor, .run = backwards, .workers = 3};
  if (threads > 1) OK(embed_pool_create(threads, &pool));
  const embed_context_options o = {.size = sizeof o, .flags = EMBED_CONTEXT_REPRODUCIBLE, .pool = pool, .executor = threads ? NULL : &executor};
  OK(embed_context_create(&o, &ctx));
  embed_pool_release(pool);
  return ctx;
}

static double mean_loss(const model *m) {
  double sum = 0;
  for (int i = 0; i < N; ++i) sum += (double)m->loss[i] / N;
  return sum;
}

static void a_hundred_steps_give_the_same_bits_for_any_threads_and_executor(void **state) {
  (void)state;
  static const int threads[] = {1, 2, 7, 0};
  for (int tied = 0; tied < 2; ++tied) {
    model first = {0};
    for (int k = 0; k < COUNT(threads); ++k) {
      embed_context *ctx = reproducible(threads[k]);
      model m = model_new(ctx, tied);
      embed_table *before = filled(ctx, tied ? EMBED_F32 : EMBED_BF16, 5);
      double loss = 0;
      for (int step = 1; step <= STEPS; ++step) {
        train(ctx, &m, step);
        if (step == 1) loss = mean_loss(&m);
        assert_true(isfinite(mean_loss(&m)));
      }
      OK(embed_optimizer_touch(ctx, m.of_input, m.input, NULL, 0));
      assert_int_equal(embed_optimizer_steps(m.of_input), STEPS);
      assert_true(loss > 0 && memcmp(embed_table_data(before), embed_table_data(m.input), bytes_of(before)));
      const size_t valid = (size_t)(VOCAB * embed_table_row_bytes(before)); /* rows behind the vocabulary */
      assert_same_bits((const char *)embed_table_data(m.input) + valid, (const char *)embed_table_data(before) + valid, bytes_of(before) - valid);
      embed_table_release(before);
      if (k == 0) {
        first = m;
      } else {
        assert_same_models(&m, &first);
        assert_same_bits(m.loss, first.loss, sizeof m.loss);
        model_free(&m);
      }
      embed_context_release(ctx);
    }
    model_free(&first);
  }
}

static void touch_batch(embed_context *ctx, model *m, int step) {
  const batch b = batch_of(step);
  OK(embed_optimizer_touch(ctx, m->of_input, m->input, b.ids, TOKENS));
  OK(embed_optimizer_touch(ctx, m->of_input, m->input, b.in_bags, 2 * BAGS));
}

/* One attempt at the first part with its k-th allocation failing. *needed: there was such an allocation. */
static embed_status attempt(embed_context *ctx, counting *c, int k, model *m, int step, grads *made, bool *needed) {
  embed_context_trim(ctx);
  atomic_store(&c->fail_at, k);
  const embed_status status = first_part(ctx, m, step, made);
  *needed = atomic_exchange(&c->fail_at, -1) < 0;
  return status;
}

/* The second part, each of its allocations failing first. */
static void second_part_at_last(embed_context *ctx, counting *c, model *m, const model *twin, int step, const grads *made) {
  for (int k = 0;; ++k) {
    embed_context_trim(ctx);
    atomic_store(&c->fail_at, k);
    const embed_status status = second_part(ctx, m, step, made);
    atomic_store(&c->fail_at, -1);
    if (status == EMBED_OK) break;
    assert_int_equal(status, EMBED_E_MEMORY);
    assert_same_bits(embed_table_data(m->output), embed_table_data(twin->output), bytes_of(m->output));
    assert_int_equal(embed_optimizer_steps(m->of_output), step - 1);
  }
}

/* From the 65th step on (the history grows there) every allocation fails once: tables, states, stamps and counts are those of a twin that
 * never lacked memory, and both go on with the same bits. A call that could do without (scratch that it keeps for the next) is a step. */
static void a_step_that_runs_out_of_memory_changes_nothing(void **state) {
  (void)state;
  for (int tied = 0; tied < 2; ++tied) {
    counting c;
    counting_start(&c);
    embed_context *ctx = counting_context(&c, NULL), *plain = context_new();
    model m = model_new(ctx, tied), twin = model_new(plain, tied);
    int step = 1, failed = 0;
    for (; step <= 64; ++step) {
      train(ctx, &m, step);
      train(plain, &twin, step);
    }
    bool needed = true;
    for (int k = 0; needed; ++k) {
      grads made = {0};
      touch_batch(ctx, &m, step); /* may have been done when a later part fails */
      touch_batch(plain, &twin, step);
      embed_context_trim(ctx);
      const int64_t alive = atomic_load(&c.alive);
      const embed_status status = attempt(ctx, &c, k, &m, step, &made, &needed);
      if (status != EMBED_OK) {
        ++failed;
        assert_int_equal(status, EMBED_E_MEMORY);
        grads_free(&made);
        embed_context_trim(ctx);
        assert_int_equal(atomic_load(&c.alive), alive);
      } else {
        second_part_at_last(ctx, &c, &m, &twin, step, &made);
        grads_free(&made);
        train(plain, &twin, step++);
      }
      assert_same_models(&m, &twin);
      assert_int_equal(embed_optimizer_steps(m.of_input), step - 1);
    }
    assert_true(failed > 10 && step < 100);
    OK(embed_optimizer_touch(ctx, m.of_input, m.input, NULL, 0));
    OK(embed_optimizer_touch(plain, twin.of_input, twin.input, NULL, 0));
    for (int last = step + 3; step < last; ++step) {
      train(ctx, &m, step);
      train(plain, &twin, step);
    }
    assert_same_models(&m, &twin);
    model_free(&m);
    model_free(&twin);
    embed_context_release(ctx);
    embed_context_release(plain);
    counting_check(&c);
  }
}

/* Runs half of the tasks and fails once `arg` says so. */
static embed_status half_way(void *arg, int64_t n, embed_task *task, void *job) {
  const bool fails = *(const int *)arg != 0;
  for (int64_t i = 0; i < (fails ? n / 2 : n); ++i) task(job, i, 0);
  return fails ? EMBED_E_CALLBACK : EMBED_OK;
}

/* What an executor left half done is a table that was written, too. */
static void a_step_or_touch_that_fails_half_way_makes_prepared_heads_stale(void **state) {
  (void)state;
  enum { WIDE = 1024, MANY = 300 };
  static float hidden[WIDE], logits[MANY];
  for (int call = 0; call < 3; ++call) {
    int fails = 0;
    const embed_executor executor = {.size = sizeof executor, .arg = &fails, .run = half_way, .workers = 2};
    const embed_context_options with = {.size = sizeof with, .executor = &executor};
    const embed_optimizer_options deferred = {.size = sizeof deferred, .kind = EMBED_OPTIM_ADAMW_DEFERRED, .lr = 0.01, .weight_decay = 0.1};
    const embed_head_options prepare = {.size = sizeof prepare, .flags = EMBED_HEAD_PREPARE};
    const embed_init_options ones = {.size = sizeof ones, .kind = EMBED_INIT_CONSTANT, .scale = 1};
    embed_context *ctx = NULL;
    embed_table *t = NULL;
    embed_optimizer *o = NULL;
    embed_grad *g = NULL;
    embed_head *h = NULL;
    int64_t ids[MANY];
    for (int i = 0; i < MANY; ++i) ids[i] = i;
    OK(embed_context_create(&with, &ctx));
    OK(embed_table_create(ctx, MANY, WIDE, NULL, &t));
    OK(embed_table_init(ctx, t, &ones));
    OK(embed_optimizer_create(ctx, t, &deferred, &o));
    OK(embed_grad_create(ctx, WIDE, &g));
    OK(embed_optimizer_step(ctx, o, t, g, NULL)); /* every row is behind */
    if (call == 0) {
      embed_grad_release(g);
      OK(embed_grad_create_dense(ctx, MANY, WIDE, NULL, 0, &g));
    }
    OK(embed_head_create(ctx, t, NULL, &prepare, &h));
    fails = 1;
    const embed_status status = call == 0 ? embed_optimizer_step(ctx, o, t, g, NULL) : embed_optimizer_touch(ctx, o, t, call == 1 ? ids : NULL, MANY);
    fails = 0;
    assert_int_equal(status, EMBED_E_CALLBACK);
    assert_true(((const float *)embed_table_data(t))[0] < 1); /* the first row has decayed */
    assert_int_equal(embed_logits(ctx, h, hidden, EMBED_F32, 1, 0, logits, 0, NULL), EMBED_E_STALE);
    embed_head_release(h);
    embed_grad_release(g);
    embed_optimizer_release(o);
    embed_table_release(t);
    embed_context_release(ctx);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_hundred_steps_give_the_same_bits_for_any_threads_and_executor),
    cmocka_unit_test(a_step_that_runs_out_of_memory_changes_nothing),
    cmocka_unit_test(a_step_or_touch_that_fails_half_way_makes_prepared_heads_stale),
};
TEST_MAIN(tests)
