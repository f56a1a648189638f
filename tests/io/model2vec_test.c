/* SPDX-License-Identifier: BSD-3-Clause */
/* Model2Vec's safetensors: integers, rows that several tokens share, weights. */
#include "vector_files.h"

static void int8_rows_are_the_integers_that_they_are(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_tensor_info info = {.size = sizeof info};
  make_model2vec(M2V_INT8);
  embed_file *f = vf_open(ctx, "m2v.safetensors", NULL);
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_file_count(f), 1);
  assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
  assert_string_equal(info.stored, "I8");
  assert_int_equal(info.bytes, 6);
  assert_int_equal(embed_table_dtype(t), EMBED_I8_ROW);
  embed_table_release(t);
  vf_row_is(ctx, f, 0, 0, (const float[]){1, -2, 3}, 3);
  vf_row_is(ctx, f, 0, 1, (const float[]){-4, 5, -6}, 3);
  embed_file_release(f);
  embed_context_release(ctx);
}

static void tokens_have_the_rows_that_the_mapping_gives_them(void **state) {
  (void)state;
  static const struct want {
    int kind;
    int64_t rows;
    float row[4][3];
  } wants[] = {{M2V_MAPPED, 4, {{-4, 5, -6}, {0.5f, -1, 1.5f}, {-1, 1.25f, -1.5f}, {-8, 10, -12}}},
               {M2V_MAPPED_HALF, 4, {{-4, 5, -6}, {1, -2, 3}, {-4, 5, -6}, {-4, 5, -6}}},
               {M2V_WEIGHTED, 2, {{0.5f, -1, 1.5f}, {-1, 1.25f, -1.5f}}}};
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof wants / sizeof *wants; ++i) {
    int64_t found = -1, plain = -1;
    make_model2vec(wants[i].kind);
    embed_file *f = vf_open(ctx, "m2v.safetensors", NULL);
    embed_table *t = open_table(ctx, f);
    assert_int_equal(embed_file_find(ctx, f, "token_embeddings", &found), EMBED_OK);
    assert_int_equal(embed_file_find(ctx, f, "embeddings", &plain), EMBED_OK);
    assert_int_equal(found, vf_role(ctx, f, EMBED_ROLE_TOKEN));
    assert_int_equal(embed_table_rows(t), wants[i].rows);
    for (int64_t row = 0; row < wants[i].rows; ++row) vf_row_is(ctx, f, found, row, wants[i].row[row], 3);
    vf_row_is(ctx, f, plain, 0, (const float[]){1, -2, 3}, 3); /* the stored rows are there too */
    assert_non_null(strstr(embed_file_notes(f), "Model2Vec"));
    embed_table_release(t);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

/* A mapping is proved when the file is opened. */
static void a_mapping_that_changes_later_reads_no_other_memory(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_model2vec(M2V_MAPPED_HALF);
  embed_file *f = vf_open(ctx, "m2v.safetensors", NULL);
  const embed_tensor_info mapping = info_of(ctx, f, "mapping");
  change_file("m2v.safetensors", (size_t)mapping.offset, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 8);
  for (int64_t i = 0; i < 2; ++i) vf_row_is(ctx, f, find(ctx, f, "token_embeddings"), i, i ? (const float[]){1, -2, 3} : (const float[]){-4, 5, -6}, 3);
  embed_file_release(f);
  embed_context_release(ctx);
}

static void a_mapping_to_no_row_is_refused(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_model2vec(M2V_MAPPED);
  vf_put(vf_mark[0] + 8, 2, 4);
  vf_refused(ctx, "m2v.safetensors", NULL, EMBED_E_FORMAT, (int64_t)vf_mark[0] + 8, "row 2 for token 2");
  vf_put(vf_mark[0] + 8, UINT32_MAX, 4);
  vf_refused(ctx, "m2v.safetensors", NULL, EMBED_E_FORMAT, (int64_t)vf_mark[0] + 8, "row -1 for token 2");
  embed_context_release(ctx);
}

/* Of no rows and 2^62 columns, whose bytes 64 bits do not hold. */
static void columns_without_end_are_refused(void **state) {
  (void)state;
  static const char header[] =
      "{\"embeddings\":{\"dtype\":\"I8\",\"shape\":[0,4611686018427387904],\"data_offsets\":[0,0]},"
      "\"weights\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}";
  embed_context *ctx = new_context(NULL);
  vf_begin();
  vf_i64((int64_t)sizeof header - 1);
  vf_bytes(header, sizeof header - 1);
  vf_refused(ctx, "m2v.safetensors", NULL, EMBED_E_OVERFLOW, -1, "their size does not fit");
  embed_context_release(ctx);
}

/* The same names in another model: shapes that do not go together are no Model2Vec. */
static void other_tensors_of_these_names_stay_what_they_are(void **state) {
  (void)state;
  static const char *const headers[] = {
      "{\"embeddings\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"weights\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[24,36]}}",
      "{\"embeddings\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"mapping\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[24,36]}}",
      "{\"embeddings\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"other\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[24,36]}}"};
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 3; ++i) {
    vf_begin();
    vf_i64((int64_t)strlen(headers[i]));
    vf_bytes(headers[i], strlen(headers[i]));
    vf_ramp(0, 9);
    embed_file *f = vf_open(ctx, "m2v.safetensors", NULL);
    assert_int_equal(embed_file_count(f), 2);
    vf_row_is(ctx, f, vf_role(ctx, f, EMBED_ROLE_TOKEN), 1, (const float[]){0.75f, 1, 1.25f}, 3);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

static void broken_files_fail_cleanly(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < M2V_KINDS; ++kind) {
    make_model2vec(kind);
    vf_survives_cuts(ctx, "m2v-cut.safetensors", NULL);
    vf_survives_flips(ctx, "m2v-flip.safetensors", NULL, 0, vf_count);
  }
  embed_context_release(ctx);
}

static void every_failed_allocation_gives_all_back(void **state) {
  (void)state;
  for (int kind = 0; kind < M2V_KINDS; ++kind) {
    make_model2vec(kind);
    survives_failures(write_file("m2v.safetensors", vf, vf_count), NULL);
  }
}

static embed_file *open_real(embed_context *ctx, const char *folder) {
  char inside[128];
  snprintf(inside, sizeof inside, "%s/model.safetensors", folder);
  return open_file(ctx, vf_shared("model2vec", inside), NULL);
}

static void real_models_open_to_their_rows(void **state) {
  (void)state;
  static const char *const floats[] = {"float32", "float16", "sentence-transformers"};
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 3; ++i) {
    embed_file *f = open_real(ctx, floats[i]);
    embed_table *t = open_table(ctx, f);
    assert_int_equal(embed_table_rows(t), 29528);
    assert_int_equal(embed_table_dim(t), 2);
    embed_table_release(t);
    embed_file_release(f);
  }
  embed_file *f = open_real(ctx, "int8");
  vf_row_is(ctx, f, 0, 0, (const float[]){-1, 0}, 2);
  vf_row_is(ctx, f, 0, 1000, (const float[]){-5, -11}, 2);
  vf_row_is(ctx, f, 0, 29527, (const float[]){-22, -45}, 2);
  embed_file_release(f);
  embed_context_release(ctx);
}

static void a_real_quantised_vocabulary_has_a_row_per_token(void **state) {
  (void)state;
  static const struct row {
    int64_t id;
    float first[2];
  } rows[] = {{0, {0x1.cbe2e4p-11f, -0x1.173c2ap-11f}}, {1000, {-0x1.7f1ef2p-4f, 0x1.ca394p-2f}}, {29523, {0x1.b8c90ap-2f, -0x1.0ba322p-2f}}};
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_real(ctx, "vocab-quantized");
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_rows(t), 29524);
  for (int i = 0; i < 3; ++i) {
    float got[64];
    assert_int_equal(embed_table_get_rows(ctx, t, &rows[i].id, 1, got, EMBED_F32, 0), EMBED_OK);
    assert_memory_equal(got, rows[i].first, sizeof rows[i].first);
  }
  embed_table_release(t);
  embed_file_release(f);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(int8_rows_are_the_integers_that_they_are),
    cmocka_unit_test(tokens_have_the_rows_that_the_mapping_gives_them),
    cmocka_unit_test(a_mapping_that_changes_later_reads_no_other_memory),
    cmocka_unit_test(a_mapping_to_no_row_is_refused),
    cmocka_unit_test(columns_without_end_are_refused),
    cmocka_unit_test(other_tensors_of_these_names_stay_what_they_are),
    cmocka_unit_test(broken_files_fail_cleanly),
    cmocka_unit_test(every_failed_allocation_gives_all_back),
    cmocka_unit_test(real_models_open_to_their_rows),
    cmocka_unit_test(a_real_quantised_vocabulary_has_a_row_per_token),
};
TEST_MAIN(tests)
