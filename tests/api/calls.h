/* SPDX-License-Identifier: BSD-3-Clause */
/* One small use of every public call that does work, in one list: what must hold for each of them is tested over it. */
#ifndef TEST_CALLS_H
#define TEST_CALLS_H

#include "gather.h"

enum { WORLD_ROWS = 6, WORLD_DIM = 32, WORLD_N = 3 };

/* What the calls read; made by a context of its own. */
typedef struct world {
  embed_context *ctx;
  embed_table *table;
  embed_head *head, *prepared;
  embed_rules *rules;
  embed_result *result;
  embed_file *file;
  char path[4096];
  int32_t ids[WORLD_N];
  int64_t ids64[WORLD_N], offsets[WORLD_N + 1];
  float vectors[WORLD_N * WORLD_DIM]; /* also weights and hidden */
} world;

/* What a call makes and writes. */
typedef struct outcome {
  void *made; /* a handle; not NULL before the call */
  void (*release)(void *made);
  unsigned char out[4096]; /* filled with 0xA5 before the call */
} outcome;

typedef embed_status use_of_a_call(embed_context *ctx, const world *w, const void *options, outcome *o);

static inline void release_context(void *made) { embed_context_release(made); }
static inline void release_table(void *made) { embed_table_release(made); }
static inline void release_head(void *made) { embed_head_release(made); }
static inline void release_file(void *made) { embed_file_release(made); }
static inline void release_writer(void *made) { embed_writer_release(made); }
static inline void release_rules(void *made) { embed_rules_release(made); }
static inline void release_result(void *made) { embed_result_release(made); }
static inline void release_grad(void *made) { embed_grad_release(made); }
static inline void release_candidates(void *made) { embed_candidates_release(made); }
static inline void release_huffman(void *made) { embed_huffman_release(made); }
static inline void release_optimizer(void *made) { embed_optimizer_release(made); }

#define MAKES(o, type, call)       \
  do {                             \
    type *handle = (o)->made;      \
    embed_status status = (call);  \
    (o)->made = handle;            \
    (o)->release = release_##type; \
    return status;                 \
  } while (0)
#define release_embed_table      release_table
#define release_embed_head       release_head
#define release_embed_file       release_file
#define release_embed_writer     release_writer
#define release_embed_rules      release_rules
#define release_embed_result     release_result
#define release_embed_table      release_table
#define release_embed_head       release_head
#define release_embed_file       release_file
#define release_embed_writer     release_writer
#define release_embed_grad       release_grad
#define release_embed_optimizer  release_optimizer
#define release_embed_candidates release_candidates
#define release_embed_huffman    release_huffman

static inline embed_status use_table_create(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)w;
  MAKES(o, embed_table, embed_table_create(ctx, WORLD_ROWS, WORLD_DIM, options, &handle));
}
static inline embed_status use_table_borrow(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)w;
  MAKES(o, embed_table, embed_table_borrow(ctx, o->out, 2, WORLD_DIM, options, NULL, NULL, &handle));
}
static inline embed_status use_table_view(embed_context *ctx, const world *w, const void *options, outcome *o) {
  MAKES(o, embed_table, embed_table_view(ctx, w->vectors, WORLD_N, WORLD_DIM, options, NULL, NULL, &handle));
}
static inline embed_status use_table_view_pq(embed_context *ctx, const world *w, const void *options, outcome *o) {
  static const unsigned char codes[WORLD_N * 2] = {0, 1, 2, 0, 1, 2};
  const embed_pq pq = {.size = sizeof pq, .width = WORLD_DIM / 2, .centroids = WORLD_N, .values = w->vectors};
  MAKES(o, embed_table, embed_table_view_pq(ctx, codes, WORLD_N, WORLD_DIM, &pq, options, NULL, NULL, &handle));
}
static inline embed_status use_table_convert(embed_context *ctx, const world *w, const void *options, outcome *o) {
  MAKES(o, embed_table, embed_table_convert(ctx, w->table, options, &handle));
}
static inline embed_status use_table_overlay(embed_context *ctx, const world *w, const void *options, outcome *o) {
  const int64_t ids[WORLD_N] = {WORLD_ROWS, 2, WORLD_ROWS + 1};
  (void)options;
  MAKES(o, embed_table, embed_table_overlay(ctx, w->table, ids, WORLD_N, w->table, 0, &handle));
}
/* Written tables are views of the outcome: a failed call must leave it alone. */
static inline embed_status use_table_init(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_table *t = NULL;
  OK(embed_table_borrow(w->ctx, o->out, 4, WORLD_DIM, NULL, NULL, NULL, &t));
  embed_status status = embed_table_init(ctx, t, options);
  embed_table_release(t);
  return status;
}
static inline embed_status use_table_moved(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_table_moved(ctx, w->table, options, (float *)(void *)o->out, (float *)(void *)(o->out + 1024));
}
static inline embed_status use_table_set_rows(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_table *t = NULL;
  embed_table_options bf16 = {.size = sizeof bf16, .dtype = EMBED_BF16};
  OK(embed_table_borrow(w->ctx, o->out, WORLD_ROWS, WORLD_DIM, &bf16, NULL, NULL, &t));
  embed_status status = embed_table_set_rows(ctx, t, w->ids64, WORLD_N, w->vectors, EMBED_F32, 0, options);
  embed_table_release(t);
  return status;
}
static inline embed_status use_table_add_rows(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_table *t = NULL;
  OK(embed_table_borrow(w->ctx, o->out, WORLD_ROWS, WORLD_DIM, NULL, NULL, NULL, &t));
  embed_status status = embed_table_add_rows(ctx, t, w->ids64, WORLD_N, 0.5, w->vectors, EMBED_F32, 0, options);
  embed_table_release(t);
  return status;
}
static inline embed_status use_table_renorm_rows(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_table *t = NULL;
  OK(embed_table_borrow(w->ctx, o->out, WORLD_ROWS, WORLD_DIM, NULL, NULL, NULL, &t));
  embed_status status = embed_table_renorm_rows(ctx, t, w->ids64, WORLD_N, 1e-20, 0, options);
  embed_table_release(t);
  return status;
}
static inline embed_status use_table_get_rows(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)options;
  return embed_table_get_rows(ctx, w->table, w->ids64, WORLD_N, o->out, EMBED_BF16, 0);
}
static inline embed_status use_lookup(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_lookup(ctx, w->table, w->ids, WORLD_N, o->out, EMBED_BF16, 0, options);
}
static inline embed_status use_lookup_i64(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_lookup_i64(ctx, w->table, w->ids64, WORLD_N, o->out, EMBED_F32, 0, options);
}
static inline embed_status use_bag(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_bag(ctx, w->table, w->ids, WORLD_N, w->offsets, WORLD_N, w->vectors, o->out, EMBED_BF16, 0, options);
}
static inline embed_status use_bag_i64(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_bag_i64(ctx, w->table, w->ids64, WORLD_N, w->offsets, WORLD_N, NULL, o->out, EMBED_F32, 0, options);
}
static inline embed_status use_mix(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_mix(ctx, w->table, w->vectors, WORLD_N, 0, (float *)(void *)o->out, 0, options);
}
static inline embed_status use_positions(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)w;
  return embed_positions(ctx, 5, WORLD_N, WORLD_DIM, o->out, EMBED_BF16, 0, options);
}
static inline embed_status use_norm_rows(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_norm_rows(ctx, o->out, EMBED_BF16, WORLD_N, WORLD_DIM, 0, w->vectors, NULL, options);
}
static inline embed_status use_head_create(embed_context *ctx, const world *w, const void *options, outcome *o) {
  MAKES(o, embed_head, embed_head_create(ctx, w->table, w->vectors, options, &handle));
}
static inline embed_status use_prepared_head(embed_context *ctx, const world *w, const void *options, outcome *o) {
  const embed_head_options prepare = {.size = sizeof prepare, .flags = EMBED_HEAD_PREPARE};
  (void)options;
  MAKES(o, embed_head, embed_head_create(ctx, w->table, w->vectors, &prepare, &handle));
}
static inline embed_status use_sketched_head(embed_context *ctx, const world *w, const void *options, outcome *o) {
  const embed_head_options sketch = {.size = sizeof sketch, .flags = EMBED_HEAD_SKETCH};
  (void)options;
  MAKES(o, embed_head, embed_head_create(ctx, w->table, w->vectors, &sketch, &handle));
}
static inline embed_status use_head_refresh(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)options, (void)o;
  return embed_head_refresh(ctx, w->prepared);
}
static inline embed_status use_prepared_logits(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_logits(ctx, w->prepared, w->vectors, EMBED_F32, WORLD_N, 0, (float *)(void *)o->out, 0, options);
}
static inline embed_status use_prepared_logits_at(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_logits_at(ctx, w->prepared, w->vectors, EMBED_F32, WORLD_N, 0, w->ids, WORLD_N, (float *)(void *)o->out, 0, options);
}
static inline embed_status use_logits(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_logits(ctx, w->head, w->vectors, EMBED_F32, WORLD_N, 0, (float *)(void *)o->out, 0, options);
}
static inline embed_status use_logits_at(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_logits_at(ctx, w->head, w->vectors, EMBED_F32, WORLD_N, 0, w->ids, WORLD_N, (float *)(void *)o->out, 0, options);
}
static inline embed_status use_topk(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_topk(ctx, w->head, w->vectors, EMBED_F32, WORLD_N, 0, 2, (int32_t *)(void *)o->out, (float *)(void *)(o->out + 1024),
                    (float *)(void *)(o->out + 2048), (int32_t *)(void *)(o->out + 3072), options);
}
static inline embed_status use_head_create_subset(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)options;
  MAKES(o, embed_head, embed_head_create_subset(ctx, w->prepared, w->ids, WORLD_N, &handle));
}
static inline embed_status use_rules_create(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)w, (void)options;
  MAKES(o, embed_rules, embed_rules_create(ctx, WORLD_ROWS, &handle));
}
static inline embed_status use_all_rules(embed_context *ctx, const world *w, const void *options, outcome *o) {
  const uint32_t bits = 0x3f;
  embed_rules *rules = NULL;
  (void)options;
  embed_status status = embed_rules_create(ctx, WORLD_ROWS, &rules);
  if (status == EMBED_OK) status = embed_rules_ban(ctx, rules, w->ids, 1);
  if (status == EMBED_OK) status = embed_rules_bias(ctx, rules, w->ids, w->vectors, WORLD_N);
  if (status == EMBED_OK) status = embed_rules_allow(ctx, rules, &bits, 1);
  if (status == EMBED_OK) status = embed_rules_push(ctx, rules, w->ids, WORLD_N);
  if (status == EMBED_OK) status = embed_rules_pop(ctx, rules, 1);
  if (status != EMBED_OK) {
    embed_rules_release(rules);
    rules = NULL;
  }
  o->made = rules;
  o->release = release_rules;
  return status;
}
static inline embed_status use_result_create(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)w, (void)options;
  MAKES(o, embed_result, embed_result_create(ctx, &handle));
}
static inline embed_status take_answers(const world *w, embed_status status, outcome *o) {
  for (int i = 0; i < 10 && status == EMBED_OK; ++i) {
    int64_t rows, cols;
    const void *answer = embed_result_f32(w->result, 1u << i, &rows, &cols);
    if (!answer) answer = embed_result_i32(w->result, 1u << i, &rows, &cols);
    if (answer && rows * cols > 0) memcpy(o->out + 256 * i, answer, (size_t)(rows * cols) * 4);
  }
  return status;
}
static inline embed_status use_sweep(embed_context *ctx, const world *w, const void *options, outcome *o) {
  const embed_sample_params params = {.size = sizeof params, .temperature = 1, .top_p = .9, .frequency = .5};
  const embed_rules *rules[WORLD_N] = {w->rules, NULL, w->rules};
  return take_answers(w, embed_sweep(ctx, w->head, w->vectors, EMBED_F32, 0, NULL, WORLD_N, w->ids, rules, &params, 1, options, w->result), o);
}
static inline embed_status use_sweep_logits(embed_context *ctx, const world *w, const void *options, outcome *o) {
  const embed_rules *rules[WORLD_N] = {NULL, w->rules, NULL};
  return take_answers(w, embed_sweep_logits(ctx, w->vectors, WORLD_ROWS, 0, NULL, WORLD_N, w->ids, rules, NULL, 0, options, w->result), o);
}
static inline embed_status use_sample(embed_context *ctx, const world *w, const void *options, outcome *o) {
  const embed_sample_params params[WORLD_N] = {
      {.size = sizeof *params}, {.size = sizeof *params, .temperature = 1}, {.size = sizeof *params, .temperature = 1, .top_p = .9}};
  const embed_rules *rules[WORLD_N] = {NULL, w->rules, NULL};
  return embed_sample(ctx, w->head, w->vectors, EMBED_F32, WORLD_N, 0, rules, params, WORLD_N, (int32_t *)(void *)o->out, (float *)(void *)(o->out + 1024),
                      options);
}
/* Parameters are a struct of their own size as well: all zero is none. */
static inline embed_status use_sample_params(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_sample(ctx, w->head, w->vectors, EMBED_F32, WORLD_N, 0, NULL, options, options != NULL, (int32_t *)(void *)o->out,
                      (float *)(void *)(o->out + 1024), NULL);
}
static inline embed_status use_verify(embed_context *ctx, const world *w, const void *options, outcome *o) {
  const embed_sample_params params = {.size = sizeof params, .temperature = 1, .top_p = .9, .frequency = .5};
  const int64_t offsets[2] = {0, WORLD_N};
  const embed_rules *rules[1] = {w->rules};
  return embed_verify(ctx, w->head, w->vectors, EMBED_F32, 0, offsets, 1, w->ids, NULL, 0, rules, &params, 1, (int32_t *)(void *)o->out,
                      (int32_t *)(void *)(o->out + 1024), options);
}
/* All that can be asked. */
static const embed_sweep_options ask_all = {.size = sizeof ask_all, .ask = 1023, .k = 2};
static inline embed_status use_whole_sweep(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)options;
  return use_sweep(ctx, w, &ask_all, o);
}
static inline embed_status use_whole_sweep_logits(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)options;
  return use_sweep_logits(ctx, w, &ask_all, o);
}
static inline embed_status use_norms(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)options;
  return embed_norms(ctx, w->table, (float *)(void *)o->out);
}
static inline embed_status use_nearest(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_nearest(ctx, w->table, w->vectors, WORLD_N, 0, 2, w->ids, 1, (int32_t *)(void *)o->out, (float *)(void *)(o->out + 1024),
                       (int32_t *)(void *)(o->out + 2048), options);
}
static inline embed_status use_analogy(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_analogy(ctx, w->table, w->ids, 1, 2, (int32_t *)(void *)o->out, (float *)(void *)(o->out + 1024), NULL, options);
}
static inline embed_status use_file_open(embed_context *ctx, const world *w, const void *options, outcome *o) {
  MAKES(o, embed_file, embed_file_open(ctx, w->path, options, &handle));
}
static inline embed_status use_file_table(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)options;
  MAKES(o, embed_table, embed_file_table(ctx, w->file, -1, &handle));
}
static inline embed_status use_file_head(embed_context *ctx, const world *w, const void *options, outcome *o) {
  MAKES(o, embed_head, embed_file_head(ctx, w->file, NULL, options, &handle));
}
static inline embed_status use_file_find(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_tensor_info info = {.size = sizeof info};
  (void)options;
  OK(embed_file_tensor(w->ctx, w->file, 0, &info));
  return embed_file_find(ctx, w->file, info.name, (int64_t *)(void *)o->out);
}
static inline embed_status use_file_role(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)options;
  return embed_file_role(ctx, w->file, EMBED_ROLE_TOKEN, (int64_t *)(void *)o->out);
}
static inline embed_status use_file_token_id(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)options;
  return embed_file_token_id(ctx, w->file, "b", 1, (int64_t *)(void *)o->out);
}
static inline embed_status use_writer_create(embed_context *ctx, const world *w, const void *options, outcome *o) {
  MAKES(o, embed_writer, embed_writer_create(ctx, w->path, options, &handle));
}
/* Additions to a writer of its own, made without failures; what they leave behind goes with it. */
static inline embed_writer *writer_for(const world *w, char *path, size_t room) {
  embed_writer *writer = NULL;
  snprintf(path, room, "%s.embed", w->path);
  OK(embed_writer_create(w->ctx, path, NULL, &writer));
  return writer;
}
static inline embed_status use_writer_table(embed_context *ctx, const world *w, const void *options, outcome *o) {
  char path[4200];
  embed_writer *writer = writer_for(w, path, sizeof path);
  (void)o;
  embed_status status = embed_writer_table(ctx, writer, "t", w->table, options);
  embed_writer_release(writer);
  return status;
}
static inline embed_status use_writer_head(embed_context *ctx, const world *w, const void *options, outcome *o) {
  char path[4200];
  embed_writer *writer = NULL;
  (void)options;
  (void)o;
  snprintf(path, sizeof path, "%s.embed", w->path);
  OK(embed_writer_create(w->ctx, path, NULL, &writer));
  OK(embed_writer_table(w->ctx, writer, "t", w->table, NULL));
  embed_status status = embed_writer_head(ctx, writer, w->prepared);
  embed_writer_release(writer);
  return status;
}
static inline embed_status use_writer_commit(embed_context *ctx, const world *w, const void *options, outcome *o) {
  char path[4200];
  embed_writer *writer = writer_for(w, path, sizeof path);
  (void)options, (void)o;
  OK(embed_writer_table(w->ctx, writer, "t", w->table, &(embed_table_options){.size = sizeof(embed_table_options)}));
  OK(embed_writer_token(w->ctx, writer, 1, "b", 1));
  embed_status status = embed_writer_commit(ctx, writer);
  embed_writer_release(writer);
  (void)unlink(path);
  return status;
}
/* Output structs: options is their size, as embed_head_describe etc. find it in out. */
static inline embed_status use_head_describe(embed_context *ctx, const world *w, const void *options, outcome *o) {
  uint32_t size = sizeof(embed_head_info);
  if (options) memcpy(&size, options, 4);
  memcpy(o->out, &size, 4);
  return embed_head_describe(ctx, w->head, (embed_head_info *)(void *)o->out);
}
static inline embed_status use_file_tensor(embed_context *ctx, const world *w, const void *options, outcome *o) {
  uint32_t size = sizeof(embed_tensor_info);
  if (options) memcpy(&size, options, 4);
  memcpy(o->out, &size, 4);
  return embed_file_tensor(ctx, w->file, 0, (embed_tensor_info *)(void *)o->out);
}
static inline embed_status use_file_conventions(embed_context *ctx, const world *w, const void *options, outcome *o) {
  uint32_t size = sizeof(embed_conventions);
  if (options) memcpy(&size, options, 4);
  memcpy(o->out, &size, 4);
  return embed_file_conventions(ctx, w->file, (embed_conventions *)(void *)o->out);
}
/* Gradients that are added to lie in the outcome: a failed call must leave them alone. */
static inline embed_grad *grad_in(const world *w, outcome *o) {
  embed_grad *g = NULL;
  OK(embed_grad_create_dense(w->ctx, WORLD_ROWS, WORLD_DIM, (float *)(void *)o->out, 0, &g));
  return g;
}
static inline embed_status use_grad_create(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)w, (void)options;
  MAKES(o, embed_grad, embed_grad_create(ctx, WORLD_DIM, &handle));
}
static inline embed_status use_grad_create_dense(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)w, (void)options;
  MAKES(o, embed_grad, embed_grad_create_dense(ctx, WORLD_ROWS, WORLD_DIM, NULL, 0, &handle));
}
static inline embed_status use_grad_add(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_grad *g = grad_in(w, o);
  (void)options;
  embed_status status = embed_grad_add(ctx, g, w->ids, WORLD_N, w->vectors, 0);
  embed_grad_release(g);
  return status;
}
static inline embed_status use_lookup_backward(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_grad *g = grad_in(w, o);
  embed_status status = embed_lookup_backward(ctx, g, WORLD_ROWS, w->ids64, WORLD_N, w->vectors, EMBED_F32, 0, options);
  embed_grad_release(g);
  return status;
}
static inline embed_status use_bag_backward(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_grad *g = grad_in(w, o);
  embed_status status = embed_bag_backward(ctx, g, w->table, w->ids64, WORLD_N, w->offsets, WORLD_N, w->vectors, w->vectors, EMBED_F32, 0,
                                           (float *)(void *)(o->out + 2048), options);
  embed_grad_release(g);
  return status;
}
static inline embed_status use_count_rows(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_count_rows(ctx, w->ids64, WORLD_N, WORLD_ROWS, (uint32_t *)(void *)o->out, options);
}
static inline embed_status use_count_decay(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)w, (void)options;
  return embed_count_decay(ctx, (uint32_t *)(void *)o->out, WORLD_ROWS, 0.5);
}
static inline embed_status use_count_top(embed_context *ctx, const world *w, const void *options, outcome *o) {
  static const uint32_t counts[WORLD_ROWS] = {3, 1, 4, 1, 5};
  (void)w, (void)options;
  return embed_count_top(ctx, counts, WORLD_ROWS, 3, (int32_t *)(void *)o->out);
}
static inline embed_status use_grad_merge(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_grad *g = grad_in(w, o), *from = NULL;
  OK(embed_grad_create(w->ctx, WORLD_DIM, &from));
  OK(embed_grad_add(w->ctx, from, w->ids, WORLD_N, w->vectors, 0));
  embed_status status = embed_grad_merge(ctx, g, from, options);
  embed_grad_release(from);
  embed_grad_release(g);
  return status;
}
static inline embed_status use_grad_clip(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_grad *g = grad_in(w, o);
  embed_status status = embed_grad_clip(ctx, g, (double *)(void *)(o->out + 2048), options);
  embed_grad_release(g);
  return status;
}
static inline embed_status share(embed_context *ctx, const world *w, embed_share *out, double *bands, const void *options) {
  embed_grad *g = NULL;
  OK(embed_grad_create(w->ctx, WORLD_DIM, &g));
  OK(embed_grad_add(w->ctx, g, w->ids, WORLD_N, w->vectors, 0));
  embed_status status = embed_grad_share(ctx, g, g, w->vectors, EMBED_F32, WORLD_N, 0, out, bands, options);
  embed_grad_release(g);
  return status;
}
static inline embed_status use_grad_share(embed_context *ctx, const world *w, const void *options, outcome *o) {
  uint32_t size = sizeof(embed_share);
  if (options) memcpy(&size, options, 4);
  memcpy(o->out, &size, 4);
  return share(ctx, w, (embed_share *)(void *)o->out, NULL, NULL);
}
static inline embed_status use_grad_bands(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_share whole = {.size = sizeof whole};
  return share(ctx, w, &whole, (double *)(void *)o->out, options);
}

/* A fresh optimiser of a table that lies in the outcome, with a step behind it that is not in the table. */
typedef struct training {
  embed_table *t;
  embed_optimizer *o;
  embed_grad *g;
} training;
static inline training training_in(const world *w, outcome *o) {
  training m = {0};
  const embed_table_options bf16 = {.size = sizeof bf16, .dtype = EMBED_BF16};
  const embed_optimizer_options deferred = {.size = sizeof deferred, .kind = EMBED_OPTIM_ADAMW_DEFERRED, .lr = 0.1, .weight_decay = 0.1};
  const int32_t first[2] = {0, 3};
  embed_table *elsewhere = NULL;
  OK(embed_table_borrow(w->ctx, o->out, WORLD_ROWS, WORLD_DIM, &bf16, NULL, NULL, &m.t));
  OK(embed_table_create(w->ctx, WORLD_ROWS, WORLD_DIM, &bf16, &elsewhere));
  OK(embed_optimizer_create(w->ctx, m.t, &deferred, &m.o));
  OK(embed_grad_create(w->ctx, WORLD_DIM, &m.g));
  OK(embed_grad_add(w->ctx, m.g, first, 2, w->vectors, 0));
  OK(embed_optimizer_step(w->ctx, m.o, elsewhere, m.g, NULL));
  embed_grad_clear(m.g);
  OK(embed_grad_add(w->ctx, m.g, w->ids, WORLD_N, w->vectors, 0));
  embed_table_release(elsewhere);
  return m;
}
static inline embed_status trained(training *m, embed_status status) {
  embed_grad_release(m->g);
  embed_optimizer_release(m->o);
  embed_table_release(m->t);
  return status;
}
static inline embed_status use_optimizer_create(embed_context *ctx, const world *w, const void *options, outcome *o) {
  MAKES(o, embed_optimizer, embed_optimizer_create(ctx, w->table, options, &handle));
}
static inline embed_status use_optimizer_step(embed_context *ctx, const world *w, const void *options, outcome *o) {
  training m = training_in(w, o);
  return trained(&m, embed_optimizer_step(ctx, m.o, m.t, m.g, options));
}
static inline embed_status use_optimizer_touch(embed_context *ctx, const world *w, const void *options, outcome *o) {
  training m = training_in(w, o);
  (void)options;
  return trained(&m, embed_optimizer_touch(ctx, m.o, m.t, w->ids64, WORLD_N));
}
static inline embed_status use_optimizer_freeze(embed_context *ctx, const world *w, const void *options, outcome *o) {
  training m = training_in(w, o);
  (void)options;
  return trained(&m, embed_optimizer_freeze(ctx, m.o, m.t, 1, 2, NULL, 1));
}
static inline embed_status use_cross_entropy(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_cross_entropy(ctx, w->head, w->vectors, EMBED_F32, WORLD_N, 0, w->ids, (float *)(void *)o->out, (float *)(void *)(o->out + 1024), options);
}
static inline embed_status use_cross_entropy_backward(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_cross_entropy_backward(ctx, w->head, w->vectors, EMBED_F32, WORLD_N, 0, w->ids, w->vectors, w->vectors, (float *)(void *)o->out, 0,
                                      (float *)(void *)(o->out + 1024), 0, options);
}
static inline embed_status use_cross_entropy_train(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_grad *g = NULL;
  OK(embed_grad_create(w->ctx, WORLD_DIM, &g));
  embed_status status = embed_cross_entropy_train(ctx, w->head, w->vectors, EMBED_BF16, WORLD_N, 0, w->ids, NULL, (float *)(void *)o->out,
                                                  (int64_t *)(void *)(o->out + 512), o->out + 1024, EMBED_BF16, 0, g, options);
  assert_int_equal(embed_grad_rows(g), status == EMBED_OK ? WORLD_ROWS : 0);
  embed_grad_release(g);
  return status;
}
static inline embed_status use_distill(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_distill(ctx, w->head, w->vectors, EMBED_F32, 0, w->head, w->vectors, EMBED_BF16, WORLD_N, 0, w->ids, (float *)(void *)o->out, options);
}
static inline embed_status use_distill_train(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_grad *g = NULL;
  OK(embed_grad_create(w->ctx, WORLD_DIM, &g));
  embed_status status = embed_distill_train(ctx, w->head, w->vectors, EMBED_F32, 0, w->head, w->vectors, EMBED_BF16, WORLD_N, 0, w->ids, NULL,
                                            (float *)(void *)o->out, (int64_t *)(void *)(o->out + 512), o->out + 1024, EMBED_BF16, 0, g, options);
  assert_int_equal(embed_grad_rows(g), status == EMBED_OK ? WORLD_ROWS : 0);
  embed_grad_release(g);
  return status;
}
static const int64_t one_sequence[2] = {0, WORLD_N};
static inline embed_status use_sequence_logprobs(embed_context *ctx, const world *w, const void *options, outcome *o) {
  return embed_sequence_logprobs(ctx, w->head, w->vectors, EMBED_F32, WORLD_N, 0, w->ids, one_sequence, 1, (float *)(void *)o->out,
                                 (int64_t *)(void *)(o->out + 512), options);
}
static inline embed_status use_sequence_logprobs_backward(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_grad *g = NULL;
  OK(embed_grad_create(w->ctx, WORLD_DIM, &g));
  embed_status status =
      embed_sequence_logprobs_backward(ctx, w->head, w->vectors, EMBED_F32, WORLD_N, 0, w->ids, one_sequence, 1, w->vectors, o->out, EMBED_F32, 0, g, options);
  assert_int_equal(embed_grad_rows(g), status == EMBED_OK ? WORLD_ROWS : 0);
  embed_grad_release(g);
  return status;
}
static inline embed_status use_candidates_create(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)w;
  MAKES(o, embed_candidates, embed_candidates_create(ctx, WORLD_ROWS, NULL, options, &handle));
}
static inline embed_status use_candidates_draw(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_candidates *c = NULL;
  (void)options;
  OK(embed_candidates_create(w->ctx, WORLD_ROWS, NULL, NULL, &c));
  embed_status status = embed_candidates_draw(ctx, c, 0, WORLD_N, (int32_t *)(void *)o->out, (int64_t *)(void *)(o->out + 512));
  embed_candidates_release(c);
  return status;
}
static inline embed_status use_candidates_log_expected(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_candidates *c = NULL;
  (void)options;
  OK(embed_candidates_create(w->ctx, WORLD_ROWS, NULL, NULL, &c));
  embed_status status = embed_candidates_log_expected(ctx, c, w->ids, WORLD_N, 5, (float *)(void *)o->out);
  embed_candidates_release(c);
  return status;
}
static inline embed_status use_sampled_loss(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_grad *g = NULL;
  OK(embed_grad_create(w->ctx, WORLD_DIM, &g));
  embed_status status = embed_sampled_loss(ctx, w->head, w->vectors, EMBED_BF16, WORLD_N, 0, w->ids, w->ids, 1, NULL, NULL, NULL, (float *)(void *)o->out,
                                           (int64_t *)(void *)(o->out + 512), o->out + 1024, EMBED_BF16, 0, g, options);
  assert_int_equal(embed_grad_rows(g), status == EMBED_OK ? WORLD_N : 0);
  embed_grad_release(g);
  return status;
}
static inline embed_status use_sampled_loss_per_row(embed_context *ctx, const world *w, const void *options, outcome *o) {
  const embed_sampled_options per_row = {.size = sizeof per_row, .flags = EMBED_SAMPLED_PER_ROW, .kind = EMBED_SAMPLED_NEGATIVE};
  const int32_t candidates[WORLD_N] = {w->ids[1], w->ids[2], w->ids[0]};
  embed_grad *g = NULL;
  (void)options, (void)o;
  OK(embed_grad_create_dense(w->ctx, WORLD_ROWS, WORLD_DIM, NULL, 0, &g));
  embed_status status = embed_sampled_loss(ctx, w->head, w->vectors, EMBED_F32, WORLD_N, 0, w->ids, candidates, 1, NULL, NULL, w->vectors, NULL, NULL, NULL,
                                           EMBED_F32, 0, g, &per_row);
  embed_grad_release(g);
  return status;
}
static const int64_t world_counts[WORLD_ROWS + 1] = {7, 5, 3, 3, 2, 1, 1};
static inline embed_status use_huffman_create(embed_context *ctx, const world *w, const void *options, outcome *o) {
  (void)w, (void)options;
  MAKES(o, embed_huffman, embed_huffman_create(ctx, world_counts, WORLD_ROWS + 1, &handle));
}
static inline embed_huffman *world_tree(const world *w) {
  embed_huffman *t = NULL;
  OK(embed_huffman_create(w->ctx, world_counts, WORLD_ROWS + 1, &t));
  return t;
}
static inline embed_status use_huffman_path(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_huffman *t = world_tree(w);
  (void)options;
  embed_status status = embed_huffman_path(ctx, t, 5, (int32_t *)(void *)o->out, (int32_t *)(void *)(o->out + 512), 8, (int64_t *)(void *)(o->out + 1024));
  embed_huffman_release(t);
  return status;
}
static inline embed_status use_huffman_loss(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_huffman *t = world_tree(w);
  embed_grad *g = NULL;
  OK(embed_grad_create(w->ctx, WORLD_DIM, &g));
  embed_status status = embed_huffman_loss(ctx, w->head, t, w->vectors, EMBED_BF16, WORLD_N, 0, w->ids, NULL, (float *)(void *)o->out,
                                           (int64_t *)(void *)(o->out + 512), o->out + 1024, EMBED_BF16, 0, g, options);
  assert_true((embed_grad_rows(g) > 0) == (status == EMBED_OK));
  embed_grad_release(g);
  embed_huffman_release(t);
  return status;
}
static inline embed_status use_huffman_predict(embed_context *ctx, const world *w, const void *options, outcome *o) {
  embed_huffman *t = world_tree(w);
  embed_status status = embed_huffman_predict(ctx, w->head, t, w->vectors, EMBED_F32, WORLD_N, 0, 2, (int32_t *)(void *)o->out, (float *)(void *)(o->out + 512),
                                              (int64_t *)(void *)(o->out + 1024), options);
  embed_huffman_release(t);
  return status;
}

typedef struct call {
  const char *name;
  use_of_a_call *use;
  uint32_t options; /* bytes of its options struct; 0 = none */
  uint32_t output;  /* bytes of its output struct; 0 = none */
} call;

static const call calls[] = {
    {"table_create", use_table_create, sizeof(embed_table_options), 0},
    {"table_borrow", use_table_borrow, sizeof(embed_table_options), 0},
    {"table_view", use_table_view, sizeof(embed_table_options), 0},
    {"table_view_pq", use_table_view_pq, sizeof(embed_table_options), 0},
    {"table_convert", use_table_convert, sizeof(embed_table_options), 0},
    {"table_overlay", use_table_overlay, 0, 0},
    {"table_init", use_table_init, sizeof(embed_init_options), 0},
    {"table_moved", use_table_moved, sizeof(embed_init_options), 0},
    {"table_set_rows", use_table_set_rows, sizeof(embed_rows_options), 0},
    {"table_add_rows", use_table_add_rows, sizeof(embed_rows_options), 0},
    {"table_renorm_rows", use_table_renorm_rows, sizeof(embed_rows_options), 0},
    {"table_get_rows", use_table_get_rows, 0, 0},
    {"lookup", use_lookup, sizeof(embed_lookup_options), 0},
    {"lookup_i64", use_lookup_i64, sizeof(embed_lookup_options), 0},
    {"bag", use_bag, sizeof(embed_bag_options), 0},
    {"bag_i64", use_bag_i64, sizeof(embed_bag_options), 0},
    {"mix", use_mix, sizeof(embed_mix_options), 0},
    {"positions", use_positions, sizeof(embed_position_options), 0},
    {"norm_rows", use_norm_rows, sizeof(embed_norm_options), 0},
    {"head_create", use_head_create, sizeof(embed_head_options), 0},
    {"head_describe", use_head_describe, 0, sizeof(embed_head_info)},
    {"prepared_head", use_prepared_head, 0, 0},
    {"sketched_head", use_sketched_head, 0, 0},
    {"head_refresh", use_head_refresh, 0, 0},
    {"prepared_logits", use_prepared_logits, sizeof(embed_sweep_options), 0},
    {"prepared_logits_at", use_prepared_logits_at, sizeof(embed_sweep_options), 0},
    {"logits", use_logits, sizeof(embed_sweep_options), 0},
    {"logits_at", use_logits_at, sizeof(embed_sweep_options), 0},
    {"topk", use_topk, sizeof(embed_sweep_options), 0},
    {"head_create_subset", use_head_create_subset, 0, 0},
    {"rules_create", use_rules_create, 0, 0},
    {"all_rules", use_all_rules, 0, 0},
    {"result_create", use_result_create, 0, 0},
    {"sweep", use_sweep, sizeof(embed_sweep_options), 0},
    {"sweep_logits", use_sweep_logits, sizeof(embed_sweep_options), 0},
    {"sample", use_sample, sizeof(embed_sweep_options), 0},
    {"sample_params", use_sample_params, sizeof(embed_sample_params), 0},
    {"verify", use_verify, sizeof(embed_sweep_options), 0},
    {"whole_sweep", use_whole_sweep, 0, 0},
    {"whole_sweep_logits", use_whole_sweep_logits, 0, 0},
    {"cross_entropy", use_cross_entropy, sizeof(embed_loss_options), 0},
    {"cross_entropy_backward", use_cross_entropy_backward, sizeof(embed_loss_options), 0},
    {"cross_entropy_train", use_cross_entropy_train, sizeof(embed_loss_options), 0},
    {"distill", use_distill, sizeof(embed_distill_options), 0},
    {"distill_train", use_distill_train, sizeof(embed_distill_options), 0},
    {"candidates_create", use_candidates_create, sizeof(embed_candidates_options), 0},
    {"candidates_draw", use_candidates_draw, 0, 0},
    {"candidates_log_expected", use_candidates_log_expected, 0, 0},
    {"sampled_loss", use_sampled_loss, sizeof(embed_sampled_options), 0},
    {"sampled_loss_per_row", use_sampled_loss_per_row, 0, 0},
    {"huffman_create", use_huffman_create, 0, 0},
    {"huffman_path", use_huffman_path, 0, 0},
    {"huffman_loss", use_huffman_loss, sizeof(embed_huffman_options), 0},
    {"huffman_predict", use_huffman_predict, sizeof(embed_huffman_predict_options), 0},
    {"sequence_logprobs", use_sequence_logprobs, sizeof(embed_loss_options), 0},
    {"sequence_logprobs_backward", use_sequence_logprobs_backward, sizeof(embed_loss_options), 0},
    {"norms", use_norms, 0, 0},
    {"nearest", use_nearest, sizeof(embed_nearest_options), 0},
    {"analogy", use_analogy, sizeof(embed_nearest_options), 0},
    {"file_open", use_file_open, sizeof(embed_file_options), 0},
    {"file_table", use_file_table, 0, 0},
    {"file_head", use_file_head, sizeof(embed_head_options), 0},
    {"file_find", use_file_find, 0, 0},
    {"file_role", use_file_role, 0, 0},
    {"file_token_id", use_file_token_id, 0, 0},
    {"writer_create", use_writer_create, sizeof(embed_writer_options), 0},
    {"writer_table", use_writer_table, sizeof(embed_table_options), 0},
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ /* as prepared forms are; E_UNSUPPORTED elsewhere */
    {"writer_head", use_writer_head, 0, 0},
#endif
    {"writer_commit", use_writer_commit, 0, 0},
    {"grad_create", use_grad_create, 0, 0},
    {"grad_create_dense", use_grad_create_dense, 0, 0},
    {"grad_add", use_grad_add, 0, 0},
    {"lookup_backward", use_lookup_backward, sizeof(embed_lookup_options), 0},
    {"bag_backward", use_bag_backward, sizeof(embed_bag_options), 0},
    {"count_rows", use_count_rows, sizeof(embed_lookup_options), 0},
    {"count_decay", use_count_decay, 0, 0},
    {"count_top", use_count_top, 0, 0},
    {"grad_merge", use_grad_merge, sizeof(embed_merge_options), 0},
    {"grad_clip", use_grad_clip, sizeof(embed_clip_options), 0},
    {"grad_share", use_grad_share, 0, sizeof(embed_share)},
    {"grad_bands", use_grad_bands, sizeof(embed_share_options), 0},
    {"optimizer_create", use_optimizer_create, sizeof(embed_optimizer_options), 0},
    {"optimizer_step", use_optimizer_step, sizeof(embed_step_options), 0},
    {"optimizer_touch", use_optimizer_touch, 0, 0},
    {"optimizer_freeze", use_optimizer_freeze, 0, 0},
    {"file_tensor", use_file_tensor, 0, sizeof(embed_tensor_info)},
    {"file_conventions", use_file_conventions, 0, sizeof(embed_conventions)},
};

static inline embed_status use(const call *c, embed_context *ctx, const world *w, const void *options, outcome *o) {
  o->made = o; /* no handle, and not NULL */
  o->release = NULL;
  memset(o->out, 0xA5, sizeof o->out);
  return c->use(ctx, w, options, o);
}

/* A success, its handle let go. */
static inline void used(outcome *o) {
  if (!o->release) return;
  assert_non_null(o->made);
  assert_ptr_not_equal(o->made, o);
  o->release(o->made);
}

/* A failure: no handle, nothing written (an output struct has kept its size). */
static inline void untouched(const call *c, const outcome *o) {
  if (o->release ? o->made != NULL : o->made != (const void *)o) fail_msg("%s left a handle behind", c->name);
  uint32_t kept = c->output ? 4 : 0;
  if (!test_all_bytes(o->out + kept, sizeof o->out - kept, 0xA5)) fail_msg("%s has written something", c->name);
}

static inline void world_new(world *w) {
  uint64_t random = 12;
  embed_init_options normal = {.size = sizeof normal, .kind = EMBED_INIT_NORMAL, .scale = 1, .seed = 2};
  embed_table_options bf16 = {.size = sizeof bf16, .dtype = EMBED_BF16};
  embed_table *floats;
  memset(w, 0, sizeof *w);
  w->ctx = context_new();
  for (int i = 0; i < WORLD_N; ++i) {
    w->ids[i] = (5 * i + 1) % WORLD_ROWS;
    w->ids64[i] = w->ids[i];
    w->offsets[i + 1] = i + 1;
  }
  for (int i = 0; i < WORLD_N * WORLD_DIM; ++i) w->vectors[i] = test_uniform(&random);
  OK(embed_table_create(w->ctx, WORLD_ROWS, WORLD_DIM, NULL, &floats));
  OK(embed_table_init(w->ctx, floats, &normal));
  OK(embed_table_convert(w->ctx, floats, &bf16, &w->table));
  OK(embed_head_create(w->ctx, w->table, NULL, NULL, &w->head));
  const embed_head_options prepare = {.size = sizeof prepare, .flags = EMBED_HEAD_PREPARE};
  OK(embed_head_create(w->ctx, w->table, NULL, &prepare, &w->prepared));
  OK(embed_result_create(w->ctx, &w->result));
  OK(embed_rules_create(w->ctx, WORLD_ROWS, &w->rules));
  OK(embed_rules_bias(w->ctx, w->rules, w->ids, w->vectors, WORLD_N));
  OK(embed_rules_push(w->ctx, w->rules, w->ids, WORLD_N));
  snprintf(w->path, sizeof w->path, "%s/calls-%ld.bin", TEST_BINARY_DIR, (long)getpid());
  FILE *f = fopen(w->path, "wb"); /* word2vec's binary form */
  assert_non_null(f);
  fprintf(f, "%d %d\n", WORLD_ROWS, WORLD_DIM);
  for (int r = 0; r < WORLD_ROWS; ++r) {
    fprintf(f, "%c ", 'a' + r);
    fwrite((const float *)embed_table_data(floats) + r * WORLD_DIM, sizeof(float), WORLD_DIM, f);
    fputc('\n', f);
  }
  assert_int_equal(fclose(f), 0);
  OK(embed_file_open(w->ctx, w->path, NULL, &w->file));
  embed_table_release(floats);
}

static inline void world_free(world *w) {
  embed_file_release(w->file);
  embed_head_release(w->head);
  embed_head_release(w->prepared);
  embed_rules_release(w->rules);
  embed_result_release(w->result);
  embed_table_release(w->table);
  embed_context_release(w->ctx);
  unlink(w->path);
}

#endif
