/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps that a caller's executor breaks off: numbers are then unspecified, memory is not. */
#include "counting.h"

enum { ROWS = 2000, DIM = 64 };

typedef struct breaking {
  bool breaks; /* half way */
} breaking;

static embed_status run(void *arg, int64_t n, embed_task *task, void *job) {
  const breaking *e = arg;
  for (int64_t i = 0; i < (e->breaks ? n / 2 : n); ++i) task(job, i, 0);
  return e->breaks ? -1 : 0;
}

/* Rows that have taken a step which the table has not: there is nothing to catch up with. */
static void rows_ahead_of_their_table_are_left_alone(void **state) {
  breaking e = {0};
  const embed_executor executor = {.size = sizeof executor, .arg = &e, .run = run, .workers = 1};
  const embed_context_options with = {.size = sizeof with, .executor = &executor};
  const embed_optimizer_options adamw = {.size = sizeof adamw, .kind = EMBED_OPTIM_ADAMW_DEFERRED, .lr = 0.01, .weight_decay = 0.1};
  const embed_init_options init = {.size = sizeof init, .kind = EMBED_INIT_UNIFORM, .scale = 0.5f, .seed = 9};
  static float values[ROWS * DIM];
  static int32_t ids[ROWS];
  uint64_t seed = 4;
  embed_context *ctx = NULL;
  embed_table *t = NULL;
  embed_optimizer *o = NULL;
  embed_grad *g = NULL;
  (void)state;
  for (int i = 0; i < ROWS * DIM; ++i) values[i] = test_uniform(&seed);
  for (int i = 0; i < ROWS; ++i) ids[i] = i;
  OK(embed_context_create(&with, &ctx));
  OK(embed_table_create(ctx, ROWS, DIM, NULL, &t));
  OK(embed_table_init(ctx, t, &init));
  OK(embed_optimizer_create(ctx, t, &adamw, &o));
  OK(embed_grad_create(ctx, DIM, &g));
  OK(embed_grad_add(ctx, g, ids, ROWS, values, 0));
  for (int s = 0; s < 3; ++s) OK(embed_optimizer_step(ctx, o, t, g, NULL));
  const float *row = embed_table_data(t);
  float before[DIM];
  e.breaks = true;
  memcpy(before, row, sizeof before);
  assert_int_equal(embed_optimizer_step(ctx, o, t, g, NULL), EMBED_E_CALLBACK);
  assert_true(memcmp(row, before, sizeof before) != 0 && embed_optimizer_steps(o) == 3);
  e.breaks = false;
  memcpy(before, row, sizeof before);
  OK(embed_optimizer_touch(ctx, o, t, (const int64_t[]){0}, 1));
  assert_same_bits(row, before, sizeof before);
  OK(embed_optimizer_step(ctx, o, t, g, NULL));
  OK(embed_optimizer_touch(ctx, o, t, NULL, 0));
  for (int i = 0; i < ROWS * DIM; ++i) assert_true(row[i] > -1 && row[i] < 1);
  embed_grad_release(g);
  embed_optimizer_release(o);
  embed_table_release(t);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_ahead_of_their_table_are_left_alone),
};
TEST_MAIN(tests)
