/* SPDX-License-Identifier: BSD-3-Clause */
/* FF-05: every function with NULL where a handle or an output belongs: an error or the documented neutral value.
 * tests/abi/symbols.sh fails when a function of the headers is not named here. */
#include "calls.h"

#define REFUSED(call) assert_int_equal((call), EMBED_E_ARGUMENT)

static world w;

static int start(void **state) {
  (void)state;
  world_new(&w);
  return 0;
}

static int stop(void **state) {
  (void)state;
  world_free(&w);
  return 0;
}

static const int64_t whole[2] = {0, 1}; /* one sequence of one row */

static void without_a_context_every_call_is_refused(void **state) {
  (void)state;
  static outcome o;
  for (int i = 0; i < COUNT(calls); ++i) {
    if (use(&calls[i], NULL, &w, NULL, &o) != EMBED_E_ARGUMENT) fail_msg("%s works without a context", calls[i].name);
    untouched(&calls[i], &o);
  }
}

static void releasing_nothing_does_nothing(void **state) {
  (void)state;
  embed_context_release(NULL);
  embed_context_trim(NULL);
  embed_pool_release(NULL);
  embed_table_release(NULL);
  embed_table_changed(NULL);
  embed_head_release(NULL);
  embed_file_release(NULL);
  embed_writer_release(NULL);
  embed_rules_release(NULL);
  embed_rules_clear(NULL);
  embed_result_release(NULL);
  embed_optimizer_release(NULL);
  assert_int_equal(embed_optimizer_steps(NULL), -1);
  embed_grad_clear(NULL);
  embed_grad_release(NULL);
  embed_candidates_release(NULL);
  embed_huffman_release(NULL);
  assert_null(embed_pool_retain(NULL));
  assert_null(embed_table_retain(NULL));
  assert_null(embed_head_retain(NULL));
  assert_null(embed_file_retain(NULL));
}

static void asking_nothing_gives_the_neutral_value(void **state) {
  (void)state;
  int64_t bytes = 7;
  assert_null(embed_context_isa(NULL));
  assert_string_equal(embed_error_text(NULL), "the context is NULL");
  assert_int_equal(embed_error_at(NULL), -1);
  assert_int_equal(embed_replaced_ids(NULL), EMBED_E_ARGUMENT);
  REFUSED(embed_table_rows(NULL));
  REFUSED(embed_table_vocab(NULL));
  REFUSED(embed_table_dim(NULL));
  REFUSED(embed_table_row_bytes(NULL));
  assert_int_equal(embed_table_dtype(NULL), EMBED_DTYPE_NONE);
  assert_null(embed_table_data(NULL));
  assert_null(embed_table_mutable_data(NULL));
  assert_null(embed_head_table(NULL));
  assert_int_equal(embed_head_is_tied(NULL, w.table), 0);
  assert_int_equal(embed_head_is_tied(w.head, NULL), 0);
  REFUSED(embed_head_vocab(NULL));
  REFUSED(embed_head_dim(NULL));
  assert_null(embed_result_f32(NULL, EMBED_ASK_LOGITS, &bytes, NULL));
  assert_int_equal(bytes, 0);
  assert_null(embed_result_i32(NULL, EMBED_ASK_TOKEN, NULL, NULL));
  assert_int_equal(embed_grad_is_dense(NULL), 0);
  REFUSED(embed_grad_rows(NULL));
  assert_null(embed_grad_ids(NULL));
  assert_null(embed_grad_values(NULL));
  assert_null(embed_grad_bias(NULL));
  assert_null(embed_file_format(NULL));
  assert_null(embed_file_notes(NULL));
  REFUSED(embed_file_count(NULL));
  assert_null(embed_file_token(NULL, 0, &bytes));
  assert_int_equal(embed_dtype_find(NULL), EMBED_DTYPE_NONE);
  assert_string_equal(embed_status_name(EMBED_OK), "EMBED_OK");
  assert_null(embed_dtype_name(EMBED_DTYPE_NONE));
  REFUSED(embed_row_bytes(EMBED_DTYPE_NONE, 1, 0));
  assert_int_equal(embed_version(), EMBED_VERSION);
}

static void making_into_nothing_is_refused(void **state) {
  (void)state;
  embed_context *c = w.ctx;
  const embed_pq pq = {.size = sizeof pq, .width = 1, .centroids = 256, .values = w.vectors};
  REFUSED(embed_context_create(NULL, NULL));
  REFUSED(embed_pool_create(1, NULL));
  REFUSED(embed_table_create(c, 1, 1, NULL, NULL));
  REFUSED(embed_table_borrow(c, w.vectors, 1, 1, NULL, NULL, NULL, NULL));
  REFUSED(embed_table_view(c, w.vectors, 1, 1, NULL, NULL, NULL, NULL));
  REFUSED(embed_table_view_pq(c, w.ids, 1, 1, &pq, NULL, NULL, NULL, NULL));
  REFUSED(embed_table_convert(c, w.table, NULL, NULL));
  REFUSED(embed_candidates_create(c, 1, NULL, NULL, NULL));
  REFUSED(embed_huffman_create(c, whole + 1, 1, NULL));
  REFUSED(embed_table_overlay(c, w.table, NULL, 0, w.table, 0, NULL));
  REFUSED(embed_grad_create(c, 1, NULL));
  REFUSED(embed_grad_create_dense(c, 1, 1, NULL, 0, NULL));
  REFUSED(embed_head_create(c, w.table, NULL, NULL, NULL));
  REFUSED(embed_head_create_subset(c, w.head, w.ids, 1, NULL));
  REFUSED(embed_rules_create(c, 1, NULL));
  REFUSED(embed_result_create(c, NULL));
  REFUSED(embed_file_open(c, w.path, NULL, NULL));
  REFUSED(embed_file_table(c, w.file, -1, NULL));
  REFUSED(embed_writer_create(c, w.path, NULL, NULL));
  REFUSED(embed_file_head(c, w.file, NULL, NULL, NULL));
}

static void a_missing_handle_is_refused_and_named(void **state) {
  (void)state;
  embed_context *c = w.ctx;
  embed_table *t = (embed_table *)(uintptr_t)8;
  embed_head *h = (embed_head *)(uintptr_t)8;
  embed_file *f = (embed_file *)(uintptr_t)8;
  embed_head_info head_info = {.size = sizeof head_info};
  embed_tensor_info tensor = {.size = sizeof tensor};
  embed_conventions conventions = {.size = sizeof conventions};
  const char *key, *value;
  int64_t n;
  static float out[512];
  static int32_t ids[64];
  REFUSED(embed_table_convert(c, NULL, NULL, &t));
  assert_null(t);
  assert_says(c, "NULL");
  REFUSED(embed_table_view_pq(c, w.ids, 1, 1, NULL, NULL, NULL, NULL, &t));
  assert_null(t);
  REFUSED(embed_table_view_pq(c, NULL, 1, 1, &(embed_pq){.size = sizeof(embed_pq), .width = 1, .centroids = 1, .values = w.vectors}, NULL, NULL, NULL, &t));
  REFUSED(embed_table_overlay(c, NULL, NULL, 0, w.table, 0, &t));
  REFUSED(embed_table_overlay(c, w.table, NULL, 0, NULL, 0, &t));
  REFUSED(embed_table_init(c, NULL, NULL));
  REFUSED(embed_table_moved(c, NULL, NULL, out, NULL));
  REFUSED(embed_table_moved(c, w.table, NULL, NULL, NULL));
  REFUSED(embed_table_get_rows(c, NULL, w.ids64, 1, out, EMBED_F32, 0));
  REFUSED(embed_table_set_rows(c, NULL, w.ids64, 1, out, EMBED_F32, 0, NULL));
  REFUSED(embed_table_add_rows(c, NULL, w.ids64, 1, 1, out, EMBED_F32, 0, NULL));
  REFUSED(embed_table_renorm_rows(c, NULL, w.ids64, 1, 1, 0, NULL));
  REFUSED(embed_lookup(c, NULL, w.ids, 1, out, EMBED_F32, 0, NULL));
  REFUSED(embed_lookup_i64(c, NULL, w.ids64, 1, out, EMBED_F32, 0, NULL));
  REFUSED(embed_bag(c, NULL, w.ids, 1, w.offsets, 1, NULL, out, EMBED_F32, 0, NULL));
  REFUSED(embed_bag_i64(c, NULL, w.ids64, 1, w.offsets, 1, NULL, out, EMBED_F32, 0, NULL));
  REFUSED(embed_mix(c, NULL, w.vectors, 1, 0, out, 0, NULL));
  REFUSED(embed_head_create(c, NULL, NULL, NULL, &h));
  assert_null(h);
  REFUSED(embed_head_refresh(c, NULL));
  REFUSED(embed_head_describe(c, NULL, &head_info));
  REFUSED(embed_head_describe(c, w.head, NULL));
  REFUSED(embed_logits(c, NULL, w.vectors, EMBED_F32, 1, 0, out, 0, NULL));
  REFUSED(embed_logits_at(c, NULL, w.vectors, EMBED_F32, 1, 0, w.ids, 1, out, 0, NULL));
  REFUSED(embed_topk(c, NULL, w.vectors, EMBED_F32, 1, 0, 1, ids, out, NULL, NULL, NULL));
  h = (embed_head *)(uintptr_t)8;
  REFUSED(embed_head_create_subset(c, NULL, w.ids, 1, &h));
  assert_null(h);
  REFUSED(embed_rules_ban(c, NULL, w.ids, 1));
  REFUSED(embed_rules_allow(c, NULL, NULL, 0));
  REFUSED(embed_rules_bias(c, NULL, w.ids, w.vectors, 1));
  REFUSED(embed_rules_push(c, NULL, w.ids, 1));
  REFUSED(embed_rules_pop(c, NULL, 0));
  REFUSED(embed_sweep(c, NULL, w.vectors, EMBED_F32, 0, NULL, 1, NULL, NULL, NULL, 0, NULL, w.result));
  REFUSED(embed_sweep(c, w.head, w.vectors, EMBED_F32, 0, NULL, 1, NULL, NULL, NULL, 0, NULL, NULL));
  REFUSED(embed_sweep_logits(c, w.vectors, 1, 0, NULL, 1, NULL, NULL, NULL, 0, NULL, NULL));
  REFUSED(embed_cross_entropy(c, NULL, w.vectors, EMBED_F32, 1, 0, w.ids, out, out, NULL));
  REFUSED(embed_cross_entropy_backward(c, NULL, w.vectors, EMBED_F32, 1, 0, w.ids, out, out, out, 0, out, 0, NULL));
  REFUSED(embed_cross_entropy_train(c, NULL, w.vectors, EMBED_F32, 1, 0, w.ids, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_distill(c, NULL, w.vectors, EMBED_F32, 0, w.head, w.vectors, EMBED_F32, 1, 0, NULL, out, NULL));
  REFUSED(embed_distill(c, w.head, w.vectors, EMBED_F32, 0, NULL, w.vectors, EMBED_F32, 1, 0, NULL, out, NULL));
  REFUSED(embed_distill_train(c, NULL, w.vectors, EMBED_F32, 0, w.head, w.vectors, EMBED_F32, 1, 0, NULL, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_distill_train(c, w.head, w.vectors, EMBED_F32, 0, NULL, w.vectors, EMBED_F32, 1, 0, NULL, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_sequence_logprobs(c, NULL, w.vectors, EMBED_F32, 1, 0, w.ids, whole, 1, out, NULL, NULL));
  REFUSED(embed_sequence_logprobs_backward(c, NULL, w.vectors, EMBED_F32, 1, 0, w.ids, whole, 1, out, out, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_candidates_draw(c, NULL, 0, 1, ids, NULL));
  REFUSED(embed_candidates_log_expected(c, NULL, w.ids, 1, 1, out));
  REFUSED(embed_sampled_loss(c, NULL, w.vectors, EMBED_F32, 1, 0, w.ids, w.ids, 1, NULL, NULL, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_huffman_path(c, NULL, 0, NULL, NULL, 0, &n));
  REFUSED(embed_huffman_loss(c, w.head, NULL, w.vectors, EMBED_F32, 1, 0, w.ids, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_huffman_predict(c, w.head, NULL, w.vectors, EMBED_F32, 1, 0, 1, ids, out, NULL, NULL));
  embed_huffman *tree = NULL;
  OK(embed_huffman_create(w.ctx, whole + 1, 1, &tree));
  REFUSED(embed_huffman_path(c, tree, 0, NULL, NULL, 0, NULL));
  REFUSED(embed_huffman_loss(c, NULL, tree, w.vectors, EMBED_F32, 1, 0, w.ids, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_huffman_predict(c, NULL, tree, w.vectors, EMBED_F32, 1, 0, 1, ids, out, NULL, NULL));
  embed_huffman_release(tree);
  REFUSED(embed_norms(c, NULL, out));
  REFUSED(embed_nearest(c, NULL, w.vectors, 1, 0, 1, NULL, 0, ids, out, NULL, NULL));
  REFUSED(embed_analogy(c, NULL, w.ids, 1, 1, ids, out, NULL, NULL));
  REFUSED(embed_file_open(c, NULL, NULL, &f));
  assert_null(f);
  REFUSED(embed_file_tensor(c, NULL, 0, &tensor));
  REFUSED(embed_file_tensor(c, w.file, 0, NULL));
  REFUSED(embed_file_find(c, NULL, "x", &n));
  REFUSED(embed_file_find(c, w.file, NULL, &n));
  REFUSED(embed_file_find(c, w.file, "x", NULL));
  REFUSED(embed_file_role(c, NULL, EMBED_ROLE_TOKEN, &n));
  REFUSED(embed_file_role(c, w.file, EMBED_ROLE_TOKEN, NULL));
  REFUSED(embed_file_class_counts(c, NULL, EMBED_ROLE_TOKEN, &n, 1, &n));
  REFUSED(embed_file_class_counts(c, w.file, EMBED_ROLE_TOKEN, NULL, 1, &n));
  REFUSED(embed_file_class_counts(c, w.file, EMBED_ROLE_TOKEN, NULL, 0, NULL));
  REFUSED(embed_file_conventions(c, NULL, &conventions));
  REFUSED(embed_file_conventions(c, w.file, NULL));
  t = (embed_table *)(uintptr_t)8;
  REFUSED(embed_file_table(c, NULL, -1, &t));
  assert_null(t);
  h = (embed_head *)(uintptr_t)8;
  REFUSED(embed_file_head(c, NULL, NULL, NULL, &h));
  assert_null(h);
  REFUSED(embed_file_token_id(c, NULL, "a", 1, &n));
  REFUSED(embed_file_token_id(c, w.file, "a", 1, NULL));
  REFUSED(embed_file_metadata(c, NULL, 0, &key, &value, &n));
}

static void a_writer_without_its_parts_is_refused(void **state) {
  (void)state;
  embed_context *c = w.ctx;
  embed_writer *writer = (embed_writer *)(uintptr_t)8;
  REFUSED(embed_writer_create(c, NULL, NULL, &writer));
  assert_null(writer);
  REFUSED(embed_writer_table(c, NULL, "t", w.table, NULL));
  REFUSED(embed_writer_alias(c, NULL, "a", "t"));
  REFUSED(embed_writer_head(c, NULL, w.prepared));
  REFUSED(embed_writer_tokens(c, NULL, w.file));
  REFUSED(embed_writer_token(c, NULL, 0, "a", 1));
  REFUSED(embed_writer_metadata(c, NULL, "k", "v", 1));
  REFUSED(embed_writer_commit(c, NULL));
  OK(embed_writer_create(c, w.path, NULL, &writer));
  REFUSED(embed_writer_table(c, writer, NULL, w.table, NULL));
  REFUSED(embed_writer_table(c, writer, "t", NULL, NULL));
  REFUSED(embed_writer_alias(c, writer, NULL, "t"));
  REFUSED(embed_writer_alias(c, writer, "a", NULL));
  REFUSED(embed_writer_head(c, writer, NULL));
  REFUSED(embed_writer_tokens(c, writer, NULL));
  REFUSED(embed_writer_token(c, writer, 0, NULL, 1));
  REFUSED(embed_writer_metadata(c, writer, NULL, "v", 1));
  REFUSED(embed_writer_metadata(c, writer, "k", NULL, 1));
  embed_writer_release(writer);
}

static void an_optimiser_without_its_parts_is_refused(void **state) {
  (void)state;
  embed_context *c = w.ctx;
  const embed_optimizer_options sgd = {.size = sizeof sgd, .lr = 1};
  embed_optimizer *o = (embed_optimizer *)(uintptr_t)8, *made = NULL;
  embed_grad *g = NULL;
  embed_writer *writer = NULL;
  REFUSED(embed_optimizer_create(c, NULL, &sgd, &o));
  assert_null(o);
  REFUSED(embed_optimizer_create(c, w.table, &sgd, NULL));
  OK(embed_optimizer_create(c, w.table, &sgd, &made));
  OK(embed_grad_create(c, WORLD_DIM, &g));
  REFUSED(embed_optimizer_step(c, NULL, w.table, g, NULL));
  REFUSED(embed_optimizer_step(c, made, NULL, g, NULL));
  REFUSED(embed_optimizer_step(c, made, w.table, NULL, NULL));
  REFUSED(embed_optimizer_touch(c, NULL, w.table, NULL, 0));
  REFUSED(embed_optimizer_touch(c, made, NULL, NULL, 0));
  REFUSED(embed_optimizer_freeze(c, NULL, w.table, 0, 1, NULL, 1));
  REFUSED(embed_optimizer_freeze(c, made, NULL, 0, 1, NULL, 1));
  OK(embed_writer_create(c, w.path, &(embed_writer_options){.size = sizeof(embed_writer_options), .format = "embed"}, &writer));
  REFUSED(embed_writer_optimizer(c, NULL, made, w.table));
  REFUSED(embed_writer_optimizer(c, writer, NULL, w.table));
  REFUSED(embed_writer_optimizer(c, writer, made, NULL));
  o = (embed_optimizer *)(uintptr_t)8;
  REFUSED(embed_optimizer_restore(c, NULL, 0, w.table, &o));
  assert_null(o);
  REFUSED(embed_optimizer_restore(c, w.file, 0, NULL, &o));
  REFUSED(embed_optimizer_restore(c, w.file, 0, w.table, NULL));
  assert_true(isnan(embed_lr_at(EMBED_LR_CONSTANT, 1, 0, 0, 0, 0)) && isnan(embed_lr_ratio(EMBED_LR_ONE, 0, 1, 1)));
  embed_writer_release(writer);
  embed_optimizer_release(made);
  embed_grad_release(g);
}

static void a_missing_buffer_is_refused(void **state) {
  (void)state;
  embed_context *c = w.ctx;
  static float out[512];
  static int32_t ids[64];
  REFUSED(embed_lookup(c, w.table, NULL, 1, out, EMBED_F32, 0, NULL));
  REFUSED(embed_lookup(c, w.table, w.ids, 1, NULL, EMBED_F32, 0, NULL));
  REFUSED(embed_lookup_i64(c, w.table, NULL, 1, out, EMBED_F32, 0, NULL));
  REFUSED(embed_lookup_i64(c, w.table, w.ids64, 1, NULL, EMBED_F32, 0, NULL));
  REFUSED(embed_bag(c, w.table, w.ids, 1, NULL, 1, NULL, out, EMBED_F32, 0, NULL));
  REFUSED(embed_bag_i64(c, w.table, w.ids64, 1, w.offsets, 1, NULL, NULL, EMBED_F32, 0, NULL));
  REFUSED(embed_mix(c, w.table, NULL, 1, 0, out, 0, NULL));
  REFUSED(embed_mix(c, w.table, w.vectors, 1, 0, NULL, 0, NULL));
  REFUSED(embed_count_rows(c, NULL, 1, 1, (uint32_t *)ids, NULL));
  REFUSED(embed_count_rows(c, w.ids64, 1, 1, NULL, NULL));
  REFUSED(embed_count_decay(c, NULL, 1, 0.5));
  REFUSED(embed_positions(c, 0, 1, 4, NULL, EMBED_F32, 0, NULL));
  REFUSED(embed_norm_rows(c, NULL, EMBED_F32, 1, 4, 0, NULL, NULL, NULL));
  REFUSED(embed_logits(c, w.head, NULL, EMBED_F32, 1, 0, out, 0, NULL));
  REFUSED(embed_logits(c, w.head, w.vectors, EMBED_F32, 1, 0, NULL, 0, NULL));
  REFUSED(embed_logits_at(c, w.head, w.vectors, EMBED_F32, 1, 0, NULL, 1, out, 0, NULL));
  REFUSED(embed_topk(c, w.head, w.vectors, EMBED_F32, 1, 0, 1, NULL, out, NULL, NULL, NULL));
  REFUSED(embed_topk(c, w.head, w.vectors, EMBED_F32, 1, 0, 1, ids, NULL, NULL, NULL, NULL));
  embed_head *h = NULL;
  REFUSED(embed_head_create_subset(c, w.head, NULL, 1, &h));
  REFUSED(embed_rules_ban(c, w.rules, NULL, 1));
  REFUSED(embed_rules_bias(c, w.rules, NULL, w.vectors, 1));
  REFUSED(embed_rules_bias(c, w.rules, w.ids, NULL, 1));
  REFUSED(embed_rules_push(c, w.rules, NULL, 1));
  REFUSED(embed_sweep(c, w.head, NULL, EMBED_F32, 0, NULL, 1, NULL, NULL, NULL, 0, NULL, w.result));
  REFUSED(embed_sweep_logits(c, NULL, 1, 0, NULL, 1, NULL, NULL, NULL, 0, NULL, w.result));
  REFUSED(embed_cross_entropy(c, w.head, NULL, EMBED_F32, 1, 0, w.ids, out, out, NULL));
  REFUSED(embed_cross_entropy(c, w.head, w.vectors, EMBED_F32, 1, 0, NULL, out, out, NULL));
  REFUSED(embed_cross_entropy_backward(c, w.head, NULL, EMBED_F32, 1, 0, w.ids, out, out, out, 0, NULL, 0, NULL));
  REFUSED(embed_cross_entropy_backward(c, w.head, w.vectors, EMBED_F32, 1, 0, NULL, out, out, out, 0, NULL, 0, NULL));
  REFUSED(embed_cross_entropy_backward(c, w.head, w.vectors, EMBED_F32, 1, 0, w.ids, NULL, out, out, 0, NULL, 0, NULL));
  REFUSED(embed_cross_entropy_backward(c, w.head, w.vectors, EMBED_F32, 1, 0, w.ids, out, NULL, out, 0, NULL, 0, NULL));
  REFUSED(embed_cross_entropy_train(c, w.head, NULL, EMBED_F32, 1, 0, w.ids, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_cross_entropy_train(c, w.head, w.vectors, EMBED_F32, 1, 0, NULL, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_distill(c, w.head, NULL, EMBED_F32, 0, w.head, w.vectors, EMBED_F32, 1, 0, NULL, out, NULL));
  REFUSED(embed_distill(c, w.head, w.vectors, EMBED_F32, 0, w.head, NULL, EMBED_F32, 1, 0, NULL, out, NULL));
  REFUSED(embed_distill(c, w.head, w.vectors, EMBED_F32, 0, w.head, w.vectors, EMBED_F32, 1, 0, NULL, NULL, NULL));
  REFUSED(embed_distill_train(c, w.head, NULL, EMBED_F32, 0, w.head, w.vectors, EMBED_F32, 1, 0, NULL, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_distill_train(c, w.head, w.vectors, EMBED_F32, 0, w.head, NULL, EMBED_F32, 1, 0, NULL, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_sequence_logprobs(c, w.head, NULL, EMBED_F32, 1, 0, w.ids, whole, 1, out, NULL, NULL));
  REFUSED(embed_sequence_logprobs(c, w.head, w.vectors, EMBED_F32, 1, 0, NULL, whole, 1, out, NULL, NULL));
  REFUSED(embed_sequence_logprobs(c, w.head, w.vectors, EMBED_F32, 1, 0, w.ids, NULL, 1, out, NULL, NULL));
  REFUSED(embed_sequence_logprobs(c, w.head, w.vectors, EMBED_F32, 1, 0, w.ids, whole, 1, NULL, NULL, NULL));
  REFUSED(embed_sequence_logprobs_backward(c, w.head, NULL, EMBED_F32, 1, 0, w.ids, whole, 1, out, out, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_sequence_logprobs_backward(c, w.head, w.vectors, EMBED_F32, 1, 0, NULL, whole, 1, out, out, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_sequence_logprobs_backward(c, w.head, w.vectors, EMBED_F32, 1, 0, w.ids, NULL, 1, out, out, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_sequence_logprobs_backward(c, w.head, w.vectors, EMBED_F32, 1, 0, w.ids, whole, 1, NULL, out, EMBED_F32, 0, NULL, NULL));
  embed_candidates *candidates = NULL;
  embed_huffman *tree = NULL;
  OK(embed_candidates_create(w.ctx, 2, NULL, NULL, &candidates));
  OK(embed_huffman_create(w.ctx, w.offsets, 2, &tree));
  REFUSED(embed_candidates_draw(c, candidates, 0, 1, NULL, NULL));
  REFUSED(embed_candidates_log_expected(c, candidates, NULL, 1, 1, out));
  REFUSED(embed_candidates_log_expected(c, candidates, w.ids, 1, 1, NULL));
  REFUSED(embed_sampled_loss(c, w.head, NULL, EMBED_F32, 1, 0, w.ids, w.ids, 1, NULL, NULL, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_sampled_loss(c, w.head, w.vectors, EMBED_F32, 1, 0, NULL, w.ids, 1, NULL, NULL, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_sampled_loss(c, w.head, w.vectors, EMBED_F32, 1, 0, w.ids, NULL, 1, NULL, NULL, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_huffman_loss(c, w.head, tree, NULL, EMBED_F32, 1, 0, w.ids, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_huffman_loss(c, w.head, tree, w.vectors, EMBED_F32, 1, 0, NULL, NULL, out, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  REFUSED(embed_huffman_predict(c, w.head, tree, NULL, EMBED_F32, 1, 0, 1, ids, out, NULL, NULL));
  REFUSED(embed_huffman_predict(c, w.head, tree, w.vectors, EMBED_F32, 1, 0, 1, NULL, out, NULL, NULL));
  REFUSED(embed_huffman_predict(c, w.head, tree, w.vectors, EMBED_F32, 1, 0, 1, ids, NULL, NULL, NULL));
  embed_candidates_release(candidates);
  embed_huffman_release(tree);
  REFUSED(embed_norms(c, w.table, NULL));
  REFUSED(embed_nearest(c, w.table, NULL, 1, 0, 1, NULL, 0, ids, out, NULL, NULL));
  REFUSED(embed_nearest(c, w.table, w.vectors, 1, 0, 1, NULL, 0, NULL, out, NULL, NULL));
  REFUSED(embed_nearest(c, w.table, w.vectors, 1, 0, 1, NULL, 0, ids, NULL, NULL, NULL));
  REFUSED(embed_analogy(c, w.table, NULL, 1, 1, ids, out, NULL, NULL));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(without_a_context_every_call_is_refused), cmocka_unit_test(releasing_nothing_does_nothing),
    cmocka_unit_test(asking_nothing_gives_the_neutral_value),  cmocka_unit_test(making_into_nothing_is_refused),
    cmocka_unit_test(a_missing_handle_is_refused_and_named),   cmocka_unit_test(a_missing_buffer_is_refused),
    cmocka_unit_test(a_writer_without_its_parts_is_refused),   cmocka_unit_test(an_optimiser_without_its_parts_is_refused),
};

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
