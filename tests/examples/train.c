/* SPDX-License-Identifier: BSD-3-Clause */
/* A tied table learns which token follows which: lookup, head and loss, both parts of its gradient in one buffer, one step. */
#include <embed/embed.h>
#include <stdio.h>
#include <stdlib.h>

enum { VOCAB = 1000, DIM = 64, BATCH = 128, STEPS = 500 };

typedef struct model {
  embed_context *ctx;
  embed_pool *pool;
  embed_table *table;
  embed_head *head;
  embed_grad *grad;
  embed_optimizer *optimizer;
} model;

static embed_status create(model *m) {
  const embed_init_options normal = {.size = sizeof normal, .kind = EMBED_INIT_NORMAL, .scale = 0.1f, .seed = 1};
  const embed_optimizer_options adamw = {.size = sizeof adamw, .kind = EMBED_OPTIM_ADAMW, .lr = 0.01, .weight_decay = 0.01};
  embed_status s = embed_pool_create(0, &m->pool);
  const embed_context_options threads = {.size = sizeof threads, .pool = m->pool};
  if (!s) s = embed_context_create(&threads, &m->ctx);
  if (!s) s = embed_table_create(m->ctx, VOCAB, DIM, NULL, &m->table);
  if (!s) s = embed_table_init(m->ctx, m->table, &normal);
  if (!s) s = embed_head_create(m->ctx, m->table, NULL, NULL, &m->head); /* tied: the same table */
  if (!s) s = embed_grad_create_dense(m->ctx, VOCAB, DIM, NULL, 0, &m->grad);
  if (!s) s = embed_optimizer_create(m->ctx, m->table, &adamw, &m->optimizer);
  return s;
}

static embed_status step(model *m, const int64_t *ids, const int32_t *next, int number, double *mean) {
  static float hidden[BATCH * DIM], d_hidden[BATCH * DIM], loss[BATCH];
  const embed_step_options at = {.size = sizeof at,
                                 .flags = EMBED_STEP_LR | EMBED_STEP_CHECK_FINITE,
                                 .lr = embed_lr_at(EMBED_LR_COSINE, 0.02, number, 20, STEPS, 1e-4),
                                 .max_grad_norm = 1};
  embed_grad_clear(m->grad);
  embed_status s = embed_lookup_i64(m->ctx, m->table, ids, BATCH, hidden, EMBED_F32, 0, NULL);
  if (!s) s = embed_cross_entropy_train(m->ctx, m->head, hidden, EMBED_F32, BATCH, 0, next, NULL, loss, NULL, d_hidden, EMBED_F32, 0, m->grad, NULL);
  if (!s) s = embed_lookup_backward(m->ctx, m->grad, VOCAB, ids, BATCH, d_hidden, EMBED_F32, 0, NULL);
  if (!s) s = embed_optimizer_step(m->ctx, m->optimizer, m->table, m->grad, &at);
  *mean = 0;
  for (int i = 0; i < BATCH; ++i) *mean += (double)loss[i] / BATCH;
  return s;
}

int main(void) {
  model m = {0};
  double first = 0, loss = 0;
  int64_t ids[BATCH];
  int32_t next[BATCH];
  if (create(&m)) return fprintf(stderr, "%s\n", m.ctx ? embed_error_text(m.ctx) : "no context"), 1;
  for (int number = 1; number <= STEPS; ++number) {
    for (int i = 0; i < BATCH; ++i) {
      ids[i] = rand() % VOCAB; /* whatever comes: id 17 is always followed by 7 * 17 + 3 */
      next[i] = (int32_t)((7 * ids[i] + 3) % VOCAB);
    }
    if (step(&m, ids, next, number, &loss)) return fprintf(stderr, "%s\n", embed_error_text(m.ctx)), 1;
    if (number == 1) first = loss;
  }
  printf("loss falls from %.0f to below %s\n", first, loss < 2 ? "2" : "where it was");
  embed_optimizer_release(m.optimizer);
  embed_grad_release(m.grad);
  embed_head_release(m.head);
  embed_table_release(m.table);
  embed_context_release(m.ctx);
  embed_pool_release(m.pool);
  return 0;
}
