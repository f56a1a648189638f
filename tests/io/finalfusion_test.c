/* SPDX-License-Identifier: BSD-3-Clause */
/* finalfusion's chunks: every vocabulary, both arrays, norms and metadata; lengths and counts are held against what is there. */
#include "vector_files.h"

static const char *const finalfusion = "finalfusion";

static void words_and_rows_open_in_place(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_tensor_info info = {.size = sizeof info};
  make_finalfusion(FF_PLAIN);
  embed_file *f = vf_open(ctx, "ff", NULL);
  assert_string_equal(embed_file_format(f), "finalfusion");
  assert_int_equal(embed_file_count(f), 2);
  assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
  assert_string_equal(info.name, "embeddings");
  assert_true(info.offset > (int64_t)vf_mark[FF_ARRAY]);
  assert_int_equal(info.offset % 4, 0);
  vf_row_is(ctx, f, 0, 2, (const float[]){2, 2.25f, 2.5f, 2.75f}, 4);
  vf_row_is(ctx, f, 1, 0, (const float[]){1, 1.25f, 1.5f}, 3); /* norms */
  vf_token_is(ctx, f, 0, "Berlin");
  vf_token_is(ctx, f, 1, "z\xC3\xBCrich");
  assert_null(embed_file_token(f, 3, NULL));
  assert_string_equal(vf_metadata(ctx, f, "finalfusion.metadata"), "[common]\nname = \"x\"\n");
  assert_int_equal(vf_role(ctx, f, EMBED_ROLE_TOKEN), 0);
  embed_file_release(f);
  embed_context_release(ctx);
}

/* Row 2 has codes 1, 2: [0.5, 0.75] and [2.5, 2.75]; turned round by the projection, times 2.5. */
static void quantised_rows_are_projected_and_scaled(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_finalfusion(FF_QUANTISED);
  embed_file *f = vf_open(ctx, "ff", NULL);
  vf_row_is(ctx, f, 0, 2, (const float[]){2.5f * 2.75f, 2.5f * 2.5f, 2.5f * 0.75f, 2.5f * 0.5f}, 4);
  vf_row_is(ctx, f, 0, 0, (const float[]){2 * 2.25f, 2 * 2.0f, 2 * 0.25f, 0}, 4);
  change_file("ff", vf_mark[FF_CODES], "\xFF\xFF", 2); /* after the proof: the last centroids stand for it */
  vf_row_is(ctx, f, 0, 0, (const float[]){2 * 2.75f, 2 * 2.5f, 2 * 1.25f, 2 * 1.0f}, 4);
  embed_file_release(f);
  embed_context_release(ctx);
}

/* A projection stands between rows and their codes; without one they are a table as they lie. */
static void quantised_rows_stay_in_the_file_where_nothing_projects_them(void **state) {
  (void)state;
  enum { PROJECTION = 4 * 4 * 4, VALUES = 4 * 2 * 3 * 2, NORMS = 4 * 3 };
  embed_context *ctx = new_context(NULL);
  embed_tensor_info info = {.size = sizeof info};
  make_finalfusion(FF_QUANTISED);
  embed_file *f = vf_open(ctx, "ff", NULL);
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_dtype(t), EMBED_F32);
  embed_table_release(t);
  embed_file_release(f);
  unsigned char *projection = vf + vf_mark[FF_CODES] - NORMS - VALUES - PROJECTION;
  memmove(projection, projection + PROJECTION, (size_t)(vf + vf_count - projection) - PROJECTION);
  vf_count -= PROJECTION;
  vf_put(vf_mark[FF_ARRAY], 0, 4);
  vf_put(vf_mark[FF_ARRAY] - 8, vf_count - vf_mark[FF_ARRAY], 8);
  f = vf_open(ctx, "ff", NULL);
  t = open_table(ctx, f);
  assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
  assert_int_equal(info.dtype, EMBED_PQ);
  assert_int_equal(info.offset, vf_mark[FF_CODES] - PROJECTION);
  assert_int_equal(info.bytes, 6);
  embed_file_release(f);
  assert_int_equal(embed_table_dtype(t), EMBED_PQ);
  assert_memory_equal(embed_table_data(t), "\0\1\2\0\1\2", 6);
  const float rows[3][4] = {
      {0, 2 * 0.25f, 2 * 2.0f, 2 * 2.25f}, {2.25f * 1.0f, 2.25f * 1.25f, 2.25f * 1.5f, 2.25f * 1.75f}, {2.5f * 0.5f, 2.5f * 0.75f, 2.5f * 2.5f, 2.5f * 2.75f}};
  const int64_t ids[] = {0, 1, 2};
  float got[3][4];
  assert_int_equal(embed_table_get_rows(ctx, t, ids, 3, got, EMBED_F32, 0), EMBED_OK);
  assert_memory_equal(got, rows, sizeof rows);
  static const char any[] = "\xFF\xFF\xFF\xFF\xFF\xFF"; /* proved codes, changed under the table: nothing behind the centroids is read */
  change_file("ff", vf_mark[FF_CODES] - PROJECTION, any, 6);
  assert_int_equal(embed_table_get_rows(ctx, t, ids, 3, got, EMBED_F32, 0), EMBED_OK);
  for (int i = 0; i < 12; ++i) assert_true(got[i / 4][i % 4] == 0);
  embed_table_release(t);
  survives_failures(write_file("ff", vf, vf_count), NULL);
  embed_context_release(ctx);
}

static void rows_of_ngrams_are_no_ids(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int kind = FF_BUCKETS; kind <= FF_EXPLICIT; ++kind) {
    make_finalfusion(kind);
    embed_file *f = vf_open(ctx, "ff", NULL);
    embed_table *t = open_table(ctx, f);
    assert_int_equal(embed_table_rows(t), 5);
    assert_int_equal(embed_table_vocab(t), 3);
    assert_string_equal(vf_metadata(ctx, f, "finalfusion.min_n"), "3");
    assert_string_equal(vf_metadata(ctx, f, "finalfusion.max_n"), "6");
    vf_token_is(ctx, f, 2, "x");
    embed_table_release(t);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

static void an_array_alone_is_a_table_without_tokens(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_finalfusion(FF_LONE);
  embed_file *f = vf_open(ctx, "ff", NULL);
  assert_string_equal(embed_file_format(f), "finalfusion");
  assert_null(embed_file_token(f, 0, NULL));
  vf_row_is(ctx, f, 0, 1, (const float[]){1, 1.25f, 1.5f, 1.75f}, 4);
  embed_file_release(f);
  embed_context_release(ctx);
}

static void what_cannot_be_is_refused_at_its_byte(void **state) {
  (void)state;
  static const struct bad {
    int kind, mark, at, width;
    uint64_t value;
    int says_at;
    embed_status status;
    const char *says;
  } bad[] = {
      {FF_PLAIN, FF_VOCABULARY, -8, 8, 40, -8, EMBED_E_FORMAT, "40 bytes by its length"},
      {FF_PLAIN, FF_VOCABULARY, -12, 4, 3, -12, EMBED_E_FORMAT, "the header says 1"},
      {FF_PLAIN, FF_VOCABULARY, 0, 8, 2, -8, EMBED_E_FORMAT, "by what it holds"},
      {FF_PLAIN, FF_VOCABULARY, 0, 8, (uint64_t)-1, 8, EMBED_E_FORMAT, "there are -1 words"},
      {FF_PLAIN, FF_ARRAY, 12, 4, 11, 12, EMBED_E_UNSUPPORTED, "is 11, 10 is read"},
      {FF_PLAIN, FF_ARRAY, 8, 4, 0, 0, EMBED_E_FORMAT, "has no columns"},
      {FF_PLAIN, FF_ARRAY, 0, 8, 2, -8, EMBED_E_FORMAT, "by what it holds"},
      {FF_PLAIN, FF_ARRAY, 0, 8, UINT64_MAX / 8, 18, EMBED_E_OVERFLOW, "does not fit"},
      {FF_BUCKETS, FF_VOCABULARY, 16, 4, 2, 0, EMBED_E_FORMAT, "has 7 rows, the array 5"},
      {FF_BUCKETS, FF_VOCABULARY, 16, 4, 49, 16, EMBED_E_FORMAT, "2^49"},
      {FF_QUANTISED, FF_ARRAY, 8, 4, 3, 0, EMBED_E_FORMAT, "4 columns in 3 parts"},
      {FF_QUANTISED, FF_ARRAY, 8, 4, 0, 0, EMBED_E_FORMAT, "in 0 parts"},
      {FF_QUANTISED, FF_ARRAY, 16, 4, 0, 0, EMBED_E_FORMAT, "of 0 centroids"},
      {FF_QUANTISED, FF_CODES, 4, 1, 3, 4, EMBED_E_FORMAT, "is 3, there are 3 centroids"},
  };
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    make_finalfusion(bad[i].kind);
    const size_t mark = vf_mark[bad[i].mark];
    vf_put(mark + (size_t)bad[i].at, bad[i].value, bad[i].width);
    vf_refused(ctx, "ff", finalfusion, bad[i].status, (int64_t)mark + bad[i].says_at, bad[i].says);
  }
  make_finalfusion(FF_PLAIN);
  vf_put(4, 1, 4);
  vf_refused(ctx, "ff", NULL, EMBED_E_UNSUPPORTED, 4, "version 1; 0 is read");
  make_finalfusion(FF_PLAIN);
  vf_put(12, 12, 4);
  vf_put(vf_mark[FF_METADATA] - 12, 12, 4);
  vf_refused(ctx, "ff", NULL, EMBED_E_UNSUPPORTED, (int64_t)vf_mark[FF_METADATA] - 12, "the number 12");
  make_finalfusion(FF_QUANTISED);
  vf_put(vf_mark[FF_ARRAY] + 12, 514, 4);
  vf_refused(ctx, "ff", NULL, EMBED_E_UNSUPPORTED, (int64_t)vf_mark[FF_ARRAY], "parts of 257 columns");
  vf_begin();
  vf_bytes("FIFU", 4);
  vf_refused(ctx, "ff", finalfusion, EMBED_E_FORMAT, 0, "FiFu");
  embed_context_release(ctx);
}

/* finalfusion-python does not count the rows of n-grams in their chunk's length. */
static void explicit_vocabularies_of_python_open(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_finalfusion(FF_EXPLICIT);
  const size_t length = vf_mark[FF_VOCABULARY] - 8;
  const uint64_t whole = vf[length];
  vf_put(length, whole - 16, 1);
  embed_file *f = vf_open(ctx, "ff", NULL);
  vf_token_is(ctx, f, 1, "z\xC3\xBCrich");
  embed_file_release(f);
  vf_put(length, whole - 8, 1);
  vf_refused(ctx, "ff", NULL, EMBED_E_FORMAT, (int64_t)length, "by its length");
  embed_context_release(ctx);
}

static void broken_files_fail_cleanly(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < FF_KINDS; ++kind) {
    make_finalfusion(kind);
    vf_survives_cuts(ctx, "ff-cut", finalfusion);
    vf_survives_flips(ctx, "ff-flip", finalfusion, 0, vf_count);
  }
  embed_context_release(ctx);
}

static void every_failed_allocation_gives_all_back(void **state) {
  (void)state;
  for (int kind = 0; kind < FF_KINDS; ++kind) {
    make_finalfusion(kind);
    survives_failures(write_file("ff", vf, vf_count), NULL);
  }
}

static embed_file *open_real(embed_context *ctx, const char *name) { return open_file(ctx, vf_shared("finalfusion", name), NULL); }

/* The same 41 words as fifu, word2vec text with and without a header; word2vec's own binary files; a lone quantised array; fastText. */
static void real_files_open_to_the_same_rows(void **state) {
  (void)state;
  static const char *const same[] = {"similarity.fifu", "similarity.txt", "similarity.nodims"};
  static const struct other {
    const char *name, *format;
    int64_t rows, dim;
  } others[] = {{"analogy.bin", "word2vec", 43, 100},
                {"similarity.bin", "word2vec", 41, 100},
                {"fasttext.bin", "fasttext", 257, 50},
                {"quantized_storage.bin", "finalfusion", 100, 100}};
  (void)vf_shared("finalfusion", "");
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < 3; ++i) {
    const int64_t id = 40;
    float row[100];
    embed_file *f = open_real(ctx, same[i]);
    embed_table *t = open_table(ctx, f);
    vf_token_is(ctx, f, 0, "Berlin");
    assert_int_equal(embed_table_rows(t), 41);
    assert_int_equal(embed_table_get_rows(ctx, t, &id, 1, row, EMBED_F32, 0), EMBED_OK);
    assert_true(row[98] > 0.98127f && row[98] < 0.98129f && row[99] > -1.62168f && row[99] < -1.62166f);
    embed_table_release(t);
    embed_file_release(f);
  }
  for (size_t i = 0; i < 4; ++i) {
    embed_file *f = open_real(ctx, others[i].name);
    embed_table *t = open_table(ctx, f);
    assert_string_equal(embed_file_format(f), others[i].format);
    assert_int_equal(embed_table_rows(t), others[i].rows);
    assert_int_equal(embed_table_dim(t), others[i].dim);
    embed_table_release(t);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

static void a_real_quantised_file_has_its_quantisers_rows(void **state) {
  (void)state;
  (void)vf_shared("finalfusion", "");
  const int64_t ids[] = {0, 40};
  float rows[200];
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_real(ctx, "quantized.fifu");
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_get_rows(ctx, t, ids, 2, rows, EMBED_F32, 0), EMBED_OK);
  assert_true(rows[0] == 0x1.78f116p+0f && rows[199] == -0x1.9f25dcp+0f);
  embed_table_release(t);
  embed_file_release(f);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(words_and_rows_open_in_place),
    cmocka_unit_test(quantised_rows_are_projected_and_scaled),
    cmocka_unit_test(quantised_rows_stay_in_the_file_where_nothing_projects_them),
    cmocka_unit_test(rows_of_ngrams_are_no_ids),
    cmocka_unit_test(an_array_alone_is_a_table_without_tokens),
    cmocka_unit_test(what_cannot_be_is_refused_at_its_byte),
    cmocka_unit_test(explicit_vocabularies_of_python_open),
    cmocka_unit_test(broken_files_fail_cleanly),
    cmocka_unit_test(every_failed_allocation_gives_all_back),
    cmocka_unit_test(real_files_open_to_the_same_rows),
    cmocka_unit_test(a_real_quantised_file_has_its_quantisers_rows),
};
TEST_MAIN(tests)
