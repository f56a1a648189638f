/* SPDX-License-Identifier: BSD-3-Clause */
/* FF-01: an empty slice of Rust or Go, the data() of an empty vector: a pointer to nowhere and the count 0, in every call that takes both. */
#include "api/calls.h"

static world w;
static embed_table *no_rows;
static embed_head *no_logits;

static int start(void **state) {
  (void)state;
  world_new(&w);
  OK(embed_table_create(w.ctx, 0, WORLD_DIM, NULL, &no_rows));
  OK(embed_head_create(w.ctx, no_rows, NULL, NULL, &no_logits));
  return 0;
}

static int stop(void **state) {
  (void)state;
  embed_head_release(no_logits);
  embed_table_release(no_rows);
  world_free(&w);
  return 0;
}

static void *const nowhere[] = {NULL, (void *)1, (void *)8};

static void rows_by_no_ids_read_no_pointer(void **state) {
  (void)state;
  embed_context *ctx = w.ctx;
  for (int i = 0; i < COUNT(nowhere); ++i) {
    void *p = nowhere[i];
    embed_table *floats, *coded;
    const embed_pq pq = {.size = sizeof pq, .width = 4, .centroids = 1, .values = w.vectors, .norms = p};
    OK(embed_lookup(ctx, w.table, p, 0, p, EMBED_F32, 0, NULL));
    OK(embed_lookup_i64(ctx, w.table, p, 0, p, EMBED_F32, 0, NULL));
    OK(embed_bag(ctx, w.table, p, 0, p, 0, p, p, EMBED_F32, 0, NULL));
    OK(embed_bag_i64(ctx, w.table, p, 0, p, 0, p, p, EMBED_F32, 0, NULL));
    OK(embed_mix(ctx, w.table, p, 0, 0, p, 0, NULL));
    OK(embed_positions(ctx, 0, 0, WORLD_DIM, p, EMBED_F32, 0, NULL));
    OK(embed_norm_rows(ctx, p, EMBED_F32, 0, WORLD_DIM, 0, NULL, NULL, NULL));
    OK(embed_count_rows(ctx, p, 0, WORLD_ROWS, p, NULL));
    OK(embed_count_decay(ctx, p, 0, 0.5));
    OK(embed_count_top(ctx, p, WORLD_ROWS, 0, p));
    OK(embed_table_get_rows(ctx, w.table, p, 0, p, EMBED_F32, 0));
    OK(embed_table_create(ctx, WORLD_ROWS, WORLD_DIM, NULL, &floats));
    OK(embed_table_set_rows(ctx, floats, p, 0, p, EMBED_F32, 0, NULL));
    OK(embed_table_add_rows(ctx, floats, p, 0, 1, p, EMBED_F32, 0, NULL));
    OK(embed_table_renorm_rows(ctx, floats, p, 0, 1, 0, NULL));
    embed_table_release(floats);
    OK(embed_table_view_pq(ctx, p, 0, 4, &pq, NULL, NULL, NULL, &coded));
    embed_table_release(coded);
  }
}

static void a_bag_without_ids_is_zero_and_reads_no_weight(void **state) {
  (void)state;
  const int64_t offsets[2] = {0, 0};
  for (int i = 0; i < COUNT(nowhere); ++i) {
    float out[WORLD_DIM];
    memset(out, 0xA5, sizeof out);
    OK(embed_bag(w.ctx, w.table, nowhere[i], 0, offsets, 1, nowhere[i], out, EMBED_F32, 0, NULL));
    assert_true(test_all_bytes(out, sizeof out, 0));
  }
}

static void sweeps_over_nothing_read_no_pointer(void **state) {
  (void)state;
  embed_context *ctx = w.ctx;
  for (int i = 0; i < COUNT(nowhere); ++i) {
    void *p = nowhere[i];
    OK(embed_logits(ctx, w.head, p, EMBED_F32, 0, 0, p, 0, NULL));
    OK(embed_logits(ctx, no_logits, w.vectors, EMBED_F32, WORLD_N, 0, p, 0, NULL));
    OK(embed_logits_at(ctx, w.head, p, EMBED_F32, 0, 0, p, 0, p, 0, NULL));
    OK(embed_logits_at(ctx, w.head, w.vectors, EMBED_F32, WORLD_N, 0, p, 0, p, 0, NULL));
    OK(embed_topk(ctx, w.head, p, EMBED_F32, 0, 0, 3, p, p, p, p, NULL));
    float logsumexp[WORLD_N];
    int32_t count[WORLD_N] = {7, 7, 7};
    OK(embed_topk(ctx, w.head, w.vectors, EMBED_F32, WORLD_N, 0, 0, p, p, logsumexp, count, NULL));
    assert_int_equal(count[0] | count[1] | count[2], 0);
    OK(embed_sweep(ctx, w.head, p, EMBED_F32, 0, p, 0, p, p, NULL, 0, NULL, w.result));
    OK(embed_sweep(ctx, no_logits, w.vectors, EMBED_F32, 0, NULL, WORLD_N, p, NULL, NULL, 0, NULL, w.result));
    OK(embed_sweep_logits(ctx, p, 5, 0, p, 0, p, p, NULL, 0, NULL, w.result));
    OK(embed_sweep_logits(ctx, p, 0, 0, NULL, 3, p, NULL, NULL, 0, NULL, w.result));
    OK(embed_rules_ban(ctx, w.rules, p, 0));
    OK(embed_rules_bias(ctx, w.rules, p, p, 0));
    OK(embed_rules_push(ctx, w.rules, p, 0));
    embed_head *none = NULL;
    OK(embed_head_create_subset(ctx, w.head, p, 0, &none));
    assert_int_equal(embed_head_vocab(none), 0);
    embed_head_release(none);
    OK(embed_cross_entropy(ctx, w.head, p, EMBED_F32, 0, 0, p, p, p, NULL));
    OK(embed_cross_entropy_backward(ctx, w.head, p, EMBED_F32, 0, 0, p, p, p, p, 0, NULL, 0, NULL));
    OK(embed_cross_entropy_train(ctx, w.head, p, EMBED_F32, 0, 0, p, p, p, NULL, p, EMBED_F32, 0, NULL, NULL));
    OK(embed_distill(ctx, w.head, p, EMBED_F32, 0, w.head, p, EMBED_F32, 0, 0, p, p, NULL));
    OK(embed_distill_train(ctx, w.head, p, EMBED_F32, 0, w.head, p, EMBED_F32, 0, 0, p, p, p, NULL, p, EMBED_F32, 0, NULL, NULL));
    OK(embed_sequence_logprobs(ctx, w.head, p, EMBED_F32, 0, 0, p, p, 0, p, p, NULL));
    OK(embed_sequence_logprobs_backward(ctx, w.head, p, EMBED_F32, 0, 0, p, p, 0, p, p, EMBED_F32, 0, NULL, NULL));
    embed_candidates *candidates = NULL;
    embed_huffman *tree = NULL;
    const int64_t one = 1;
    OK(embed_candidates_create(ctx, WORLD_ROWS, NULL, NULL, &candidates));
    OK(embed_candidates_draw(ctx, candidates, 0, 0, p, NULL));
    OK(embed_candidates_log_expected(ctx, candidates, p, 0, 0, p));
    embed_candidates_release(candidates);
    OK(embed_sampled_loss(ctx, w.head, p, EMBED_F32, 0, 0, p, p, 0, p, p, p, p, NULL, p, EMBED_F32, 0, NULL, NULL));
    OK(embed_huffman_create(ctx, &one, 1, &tree));
    OK(embed_huffman_path(ctx, tree, 0, p, p, 0, &(int64_t){0}));
    OK(embed_huffman_loss(ctx, no_logits, tree, p, EMBED_F32, 0, 0, p, p, p, NULL, p, EMBED_F32, 0, NULL, NULL));
    OK(embed_huffman_predict(ctx, no_logits, tree, p, EMBED_F32, 0, 0, 3, p, p, p, NULL));
    OK(embed_huffman_predict(ctx, no_logits, tree, w.vectors, EMBED_F32, WORLD_N, 0, 0, p, p, NULL, NULL));
    embed_huffman_release(tree);
    OK(embed_norms(ctx, no_rows, p));
    OK(embed_nearest(ctx, w.table, p, 0, 0, 3, p, 5, p, p, p, NULL));
    OK(embed_nearest(ctx, w.table, w.vectors, WORLD_N, 0, 0, p, 0, p, p, count, NULL));
    OK(embed_analogy(ctx, w.table, p, 0, 3, p, p, p, NULL));
  }
}

static void no_rows_no_bytes_and_no_value_are_read_nowhere(void **state) {
  (void)state;
  embed_context *ctx = w.ctx;
  char path[4200];
  for (int i = 0; i < COUNT(nowhere); ++i) {
    void *p = nowhere[i];
    embed_table *t = NULL;
    OK(embed_table_view(ctx, p, 0, WORLD_DIM, NULL, NULL, NULL, &t));
    embed_table_release(t);
    OK(embed_table_borrow(ctx, p, 0, WORLD_DIM, NULL, NULL, NULL, &t));
    embed_table_release(t);
    embed_head *h = NULL;
    OK(embed_head_create(ctx, no_rows, p, NULL, &h)); /* a bias of no rows */
    embed_head_release(h);
    int64_t id = -5;
    assert_int_equal(embed_file_token_id(ctx, w.file, p, 0, &id), EMBED_E_NOT_FOUND); /* the empty token: no row has it */
    assert_int_equal(id, -5);
    embed_writer *writer = writer_for(&w, path, sizeof path);
    OK(embed_writer_token(ctx, writer, 0, p, 0));
    OK(embed_writer_metadata(ctx, writer, "key", p, 0));
    embed_writer_release(writer);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_by_no_ids_read_no_pointer),
    cmocka_unit_test(a_bag_without_ids_is_zero_and_reads_no_weight),
    cmocka_unit_test(sweeps_over_nothing_read_no_pointer),
    cmocka_unit_test(no_rows_no_bytes_and_no_value_are_read_nowhere),
};

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
