/* SPDX-License-Identifier: BSD-3-Clause */
/* llama2.c's checkpoints of all versions, and the tokens beside them. */
#include "vector_files.h"

static const char *const llama2c = "llama2c";

static void forget_tokens(void) {
  unlink(path_of("d/tok3.bin"));
  unlink(path_of("d/tokenizer.bin"));
}

/* Its own folder: what lies beside the file is read. */
static const char *written(void) {
  char folder[4096 + 8];
  snprintf(folder, sizeof folder, "%s", path_of("d"));
  (void)mkdir(folder, 0700);
  return write_file("d/l2", vf, vf_count);
}

static void the_table_the_norm_and_the_head_open(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int version = 0; version < 3; ++version)
    for (int untied = 0; untied < 2; ++untied) {
      embed_conventions c = {.size = sizeof c};
      embed_tensor_info info = {.size = sizeof info};
      int64_t i = -1;
      make_llama2c(version, untied);
      const char *path = written();
      forget_tokens();
      embed_file *f = open_file(ctx, path, NULL);
      assert_string_equal(embed_file_format(f), "llama2c");
      const int64_t table = vf_role(ctx, f, EMBED_ROLE_TOKEN), head = vf_role(ctx, f, EMBED_ROLE_HEAD);
      assert_int_equal(embed_file_find(ctx, f, "token_embedding_table", &i), EMBED_OK);
      assert_int_equal(i, table);
      assert_int_equal(head == table, !untied);
      assert_int_equal(embed_file_tensor(ctx, f, table, &info), EMBED_OK);
      assert_true(version == 2 ? info.offset == -1 : info.offset > 0 && info.bytes == 48);
      if (version < 2) {
        vf_row_is(ctx, f, table, 2, (const float[]){2, 2.25f, 2.5f, 2.75f}, 4);
        if (untied) vf_row_is(ctx, f, head, 1, (const float[]){51, 51.25f, 51.5f, 51.75f}, 4);
      } else {
        vf_row_is(ctx, f, table, 1, (const float[]){0.5f, 1, 1.5f, 2}, 4);
        if (untied) vf_row_is(ctx, f, head, 0, (const float[]){-6, -4, -2, 0}, 4);
      }
      vf_row_is(ctx, f, vf_role(ctx, f, EMBED_ROLE_NORM), 0, (const float[]){7, 7.25f, 7.5f, 7.75f}, 4);
      assert_int_equal(embed_file_conventions(ctx, f, &c), EMBED_OK);
      assert_true(c.norm_epsilon == 1e-5f && c.norm_flags == 0 && c.lookup_scale == 1 && c.logit_scale == 1);
      assert_null(embed_file_token(f, 0, NULL));
      embed_file_release(f);
    }
  embed_context_release(ctx);
}

static void tokens_are_those_of_the_file_beside(void **state) {
  (void)state;
  static const char *const names[] = {"d/tok3.bin", "d/tokenizer.bin"};
  embed_context *ctx = new_context(NULL);
  for (int n = 0; n < 2; ++n) {
    make_llama2c(0, 0);
    (void)written();
    forget_tokens();
    make_llama2c_tokens();
    (void)write_file(names[n], vf, vf_count);
    embed_file *f = open_file(ctx, path_of("d/l2"), NULL);
    vf_token_is(ctx, f, 0, "<unk>");
    vf_token_is(ctx, f, 1, "\n<s>\n");
    vf_token_is(ctx, f, 2, "");
    assert_null(embed_file_token(f, 3, NULL));
    embed_file_release(f);
  }
  forget_tokens();
  embed_context_release(ctx);
}

static void a_tokenizer_of_another_model_is_noted_and_not_used(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_llama2c(0, 0);
  (void)written();
  make_llama2c_tokens();
  for (size_t count = 1; count <= vf_count + 1; ++count) {
    if (count == vf_count) continue;
    forget_tokens();
    (void)write_file("d/tok3.bin", vf, count);
    embed_file *f = open_file(ctx, path_of("d/l2"), NULL);
    assert_null(embed_file_token(f, 0, NULL));
    assert_non_null(strstr(embed_file_notes(f), "tok3.bin beside the file is not its tokenizer"));
    embed_file_release(f);
  }
  for (size_t at = 0; at < vf_count; ++at) { /* no byte of it harms */
    vf[at] ^= 0x80;
    (void)write_file("d/tok3.bin", vf, vf_count);
    vf[at] ^= 0x80;
    assert_int_equal(try_file(ctx, path_of("d/l2"), NULL), EMBED_OK);
  }
  forget_tokens();
  embed_context_release(ctx);
}

static void what_cannot_be_is_refused(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_llama2c(0, 0);
  const size_t whole = vf_count;
  vf_uint(0, 1);
  vf_refused(ctx, "l2", llama2c, EMBED_E_FORMAT, (int64_t)whole, "its weights end at byte");
  for (int number = 0; number < 7; ++number) {
    make_llama2c(0, 0);
    vf_put(4 * (size_t)number, 0, 4);
    vf_refused(ctx, "l2", llama2c, EMBED_E_FORMAT, 0, "first numbers");
    vf_put(4 * (size_t)number, 1 << 24, 4);
    assert_int_not_equal(try_file(ctx, write_file("l2", vf, vf_count), &(embed_file_options){.size = sizeof(embed_file_options), .format = llama2c}), EMBED_OK);
  }
  make_llama2c(1, 0);
  vf_put(4, 3, 4);
  vf_refused(ctx, "l2", NULL, EMBED_E_UNSUPPORTED, 4, "version 3");
  make_llama2c(2, 0);
  vf_put(8 + 28 + 1, 0, 4);
  vf_refused(ctx, "l2", NULL, EMBED_E_FORMAT, 0, "first numbers");                  /* no group */
  static const uint32_t scales_past_64_bits[7] = {1 << 23, 2, 1, 2, 1 << 17, 2, 2}; /* 2^62 weights of wk, and as many scales */
  make_llama2c(2, 0);
  for (size_t i = 0; i < 7; ++i) vf_put(8 + 4 * i, scales_past_64_bits[i], 4);
  vf_put(8 + 28 + 1, 1, 4);
  vf_refused(ctx, "l2", llama2c, EMBED_E_OVERFLOW, 0, "64 bits");
  embed_context_release(ctx);
}

static void broken_files_fail_cleanly(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < 6; ++kind) {
    make_llama2c(kind / 2, kind % 2);
    vf_survives_cuts(ctx, "l2-cut", llama2c);
    vf_survives_flips(ctx, "l2-flip", llama2c, 0, 48);
  }
  embed_context_release(ctx);
}

static void every_failed_allocation_gives_all_back(void **state) {
  (void)state;
  make_llama2c(0, 0);
  (void)written(); /* the folder is there */
  make_llama2c_tokens();
  (void)write_file("d/tok3.bin", vf, vf_count);
  for (int kind = 0; kind < 6; ++kind) {
    make_llama2c(kind / 2, kind % 2);
    survives_failures(written(), NULL);
  }
  forget_tokens();
}

/* known-answers.json: logits of position 0 are the table's dot products with the stored hidden state. */
static void stories260k_has_its_logits_and_tokens(void **state) {
  (void)state;
  static const int32_t best[] = {403, 385, 410};
  static const double logits[] = {17.02351505, 15.40621254, 13.10826365};
  embed_context *ctx = new_context(NULL);
  embed_head *head = NULL;
  embed_table *hidden = NULL;
  float row[64], out[512];
  const int64_t first = 0;
  embed_file *f = open_file(ctx, vf_shared("stories260k", "stories260K.bin"), NULL);
  embed_file *states = open_file(ctx, vf_shared("stories260k", "hidden_256x64_f32.npy"), NULL);
  hidden = open_table(ctx, states);
  assert_int_equal(embed_table_get_rows(ctx, hidden, &first, 1, row, EMBED_F32, 0), EMBED_OK);
  vf_token_is(ctx, f, 0, "<unk>");
  vf_token_is(ctx, f, 1, "\n<s>\n");
  vf_token_is(ctx, f, 511, "\xE2\x80\x8A");
  assert_null(embed_file_token(f, 512, NULL));
  assert_int_equal(vf_role(ctx, f, EMBED_ROLE_HEAD), vf_role(ctx, f, EMBED_ROLE_TOKEN));
  assert_int_equal(embed_file_head(ctx, f, NULL, NULL, &head), EMBED_OK);
  assert_int_equal(embed_logits(ctx, head, row, EMBED_F32, 1, 0, out, 0, NULL), EMBED_OK);
  for (int i = 0; i < 3; ++i) assert_true((double)out[best[i]] - logits[i] < 1e-4 && logits[i] - (double)out[best[i]] < 1e-4);
  for (int i = 0; i < 512; ++i) assert_true(i == best[0] || out[i] < out[best[0]]);
  embed_head_release(head);
  embed_table_release(hidden);
  embed_file_release(states);
  embed_file_release(f);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_table_the_norm_and_the_head_open),
    cmocka_unit_test(tokens_are_those_of_the_file_beside),
    cmocka_unit_test(a_tokenizer_of_another_model_is_noted_and_not_used),
    cmocka_unit_test(what_cannot_be_is_refused),
    cmocka_unit_test(broken_files_fail_cleanly),
    cmocka_unit_test(every_failed_allocation_gives_all_back),
    cmocka_unit_test(stories260k_has_its_logits_and_tokens),
};
TEST_MAIN(tests)
