/* SPDX-License-Identifier: BSD-3-Clause */
/* fastText's .bin and .ftz: words, labels, buckets and both matrices, plain and quantised; no count is believed. */
#include "vector_files.h"

#include <math.h>

static const char *const fasttext = "fasttext";

static void a_model_of_words_opens_in_place(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_fasttext(FT_PLAIN);
  embed_file *f = vf_open(ctx, "ft", NULL);
  embed_tensor_info info = {.size = sizeof info};
  assert_string_equal(embed_file_format(f), "fasttext");
  assert_int_equal(embed_file_count(f), 2);
  assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
  assert_string_equal(info.name, "input");
  assert_int_equal(info.offset, vf_mark[FT_INPUT] + 16);
  assert_int_equal(info.bytes, 4 * 5 * 3);
  assert_int_equal(vf_role(ctx, f, EMBED_ROLE_TOKEN), 0);
  assert_int_equal(vf_role(ctx, f, EMBED_ROLE_HEAD), 1);
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_rows(t), 5);
  assert_int_equal(embed_table_vocab(t), 3); /* the other rows are of n-grams */
  embed_table_release(t);
  vf_row_is(ctx, f, 0, 4, (const float[]){3, 3.25f, 3.5f}, 3);
  vf_row_is(ctx, f, 1, 2, (const float[]){101.5f, 101.75f, 102}, 3);
  vf_token_is(ctx, f, 0, "</s>");
  vf_token_is(ctx, f, 1, "z\xC3\xBCrich");
  vf_token_is(ctx, f, 2, "");
  assert_null(embed_file_token(f, 3, NULL));
  assert_string_equal(vf_metadata(ctx, f, "fasttext.loss"), "ns");
  assert_string_equal(vf_metadata(ctx, f, "fasttext.model"), "cbow");
  assert_string_equal(vf_metadata(ctx, f, "fasttext.bucket"), "2");
  assert_string_equal(vf_metadata(ctx, f, "fasttext.maxn"), "4");
  assert_non_null(strstr(embed_file_notes(f), "n-grams"));
  embed_file_release(f);
  embed_context_release(ctx);
}

static void a_classifier_has_its_labels_as_metadata_and_as_head(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_head *head = NULL;
  make_fasttext(FT_LABELS);
  embed_file *f = vf_open(ctx, "ft", NULL);
  assert_string_equal(vf_metadata(ctx, f, "fasttext.label.0"), "__label__a");
  assert_string_equal(vf_metadata(ctx, f, "fasttext.label.1"), "__label__b");
  assert_string_equal(vf_metadata(ctx, f, "fasttext.label.2"), "");
  assert_string_equal(vf_metadata(ctx, f, "fasttext.loss"), "softmax");
  assert_string_equal(vf_metadata(ctx, f, "fasttext.model"), "supervised");
  vf_row_is(ctx, f, 0, 2, (const float[]){1.5f, 1.75f, 2}, 3);
  vf_row_is(ctx, f, 1, 1, (const float[]){100.75f, 101, 101.25f}, 3);
  assert_int_equal(embed_file_head(ctx, f, NULL, NULL, &head), EMBED_OK);
  embed_head_release(head);
  embed_file_release(f);
  embed_context_release(ctx);
}

static void counts_are(embed_context *ctx, const embed_file *f, embed_role role, const int64_t *want, int64_t n) {
  int64_t counts[4] = {-7, -7, -7, -7}, classes = -7;
  assert_int_equal(embed_file_class_counts(ctx, f, role, NULL, 0, &classes), EMBED_OK);
  assert_int_equal(classes, n);
  assert_int_equal(embed_file_class_counts(ctx, f, role, counts, 1, &classes), EMBED_OK);
  assert_int_equal(classes, n);
  assert_true(counts[0] == want[0] && counts[1] == -7);
  assert_int_equal(embed_file_class_counts(ctx, f, role, counts, 4, &classes), EMBED_OK);
  assert_int_equal(classes, n);
  for (int64_t i = 0; i < 4; ++i) assert_int_equal(counts[i], i < n ? want[i] : -7);
}

static void words_and_labels_have_their_counts(void **state) {
  static const int64_t words[] = {9, 8, 7}, labels[] = {2, 1};
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < FT_KINDS; ++kind) {
    make_fasttext(kind);
    embed_file *f = vf_open(ctx, "ft", NULL);
    counts_are(ctx, f, EMBED_ROLE_TOKEN, words, 3);
    counts_are(ctx, f, EMBED_ROLE_HEAD, kind == FT_LABELS ? labels : words, kind == FT_LABELS ? 2 : 3);
    int64_t counts[2] = {-7, -7}, classes = -7;
    assert_int_equal(embed_file_class_counts(ctx, f, EMBED_ROLE_NORM, counts, 2, &classes), EMBED_E_ARGUMENT);
    assert_int_equal(embed_file_class_counts(ctx, f, EMBED_ROLE_TOKEN, counts, -1, &classes), EMBED_E_ARGUMENT);
    assert_int_equal(embed_file_class_counts(ctx, f, EMBED_ROLE_TOKEN, NULL, 1, &classes), EMBED_E_ARGUMENT);
    assert_int_equal(embed_file_class_counts(ctx, f, EMBED_ROLE_TOKEN, counts, 1, NULL), EMBED_E_ARGUMENT);
    assert_true(counts[0] == -7 && counts[1] == -7 && classes == -7);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

/* A classifier without a label; counts whose sum is no int64. */
static void counts_of_any_size_do_no_harm(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_huffman *t = NULL;
  int64_t counts[3], classes = -7;
  make_fasttext(FT_PLAIN);
  vf_put(vf_mark[FT_ARGS] + 28, 3, 4);
  vf_put(vf_mark[FT_OUTPUT], 0, 8);
  embed_file *f = vf_open(ctx, "ft", NULL);
  assert_int_equal(embed_file_class_counts(ctx, f, EMBED_ROLE_HEAD, counts, 3, &classes), EMBED_OK);
  assert_int_equal(classes, 0);
  embed_file_release(f);
  make_fasttext(FT_PLAIN);
  for (size_t at = vf_mark[FT_ENTRIES], i = 0; i < 3; ++i, at += 10) {
    at += strlen((const char *)vf + at);
    vf_put(at + 1, i ? INT64_MAX : 0, 8);
  }
  f = vf_open(ctx, "ft", NULL);
  assert_int_equal(embed_file_class_counts(ctx, f, EMBED_ROLE_HEAD, counts, 3, &classes), EMBED_OK);
  assert_true(classes == 3 && counts[0] == 0 && counts[1] == INT64_MAX && counts[2] == INT64_MAX);
  assert_int_equal(embed_huffman_create(ctx, counts, 3, &t), EMBED_E_OVERFLOW);
  assert_int_equal(embed_error_at(ctx), 2);
  embed_file_release(f);
  embed_context_release(ctx);
}

/* The later label is the less frequent one and left: label 0 has the probability of going right at the one node, which is row 0. */
static void a_tree_of_its_counts_predicts_after_hierarchical_softmax(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_table *nodes = NULL;
  embed_head *head = NULL;
  embed_huffman *t = NULL;
  const float hidden[3] = {0.5f, 0.25f, -0.75f};
  const double z = 100 * 0.5 + 100.25 * 0.25 - 100.5 * 0.75; /* -0.3125 */
  int64_t counts[2], classes = 0;
  int32_t ids[2];
  float logprobs[2];
  make_fasttext(FT_LABELS);
  vf_put(vf_mark[FT_ARGS] + 24, 1, 4);
  embed_file *f = vf_open(ctx, "ft", NULL);
  assert_int_equal(embed_file_class_counts(ctx, f, EMBED_ROLE_HEAD, counts, 2, &classes), EMBED_OK);
  assert_int_equal(classes, 2);
  assert_int_equal(embed_huffman_create(ctx, counts, classes, &t), EMBED_OK);
  assert_int_equal(embed_file_table(ctx, f, 1, &nodes), EMBED_OK);
  assert_int_equal(embed_head_create(ctx, nodes, NULL, NULL, &head), EMBED_OK);
  assert_int_equal(embed_huffman_predict(ctx, head, t, hidden, EMBED_F32, 1, 0, 2, ids, logprobs, NULL, NULL), EMBED_OK);
  assert_true(ids[0] == 1 && ids[1] == 0);
  assert_true(fabs((double)logprobs[1] + log1p(exp(-z))) < 1e-6 && fabs((double)logprobs[0] + log1p(exp(z))) < 1e-6);
  embed_huffman_release(t);
  embed_head_release(head);
  embed_table_release(nodes);
  embed_file_release(f);
  embed_context_release(ctx);
}

/* Centroid c of part 0 is [c / 2, c / 2 + 1/4]; part 1, of one column, begins at float 2 * 256 with 128: 128 + c / 4. */
/* A byte that stands for more columns than any quantiser has centroids would make a table of any size of a small file. */
static void parts_of_very_many_columns_are_refused(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_fasttext(FT_QUANTISED);
  const size_t quantiser = vf_mark[FT_INPUT] + 1 + 16 + 4 + 8;
  vf_put(vf_mark[FT_ARGS], 257, 4);
  vf_put(vf_mark[FT_INPUT] + 9, 257, 8);
  for (size_t i = 0; i < 4; ++i) vf_put(quantiser + 4 * i, i == 1 ? 1 : 257, 4);
  vf_refused(ctx, "ft", NULL, EMBED_E_UNSUPPORTED, (int64_t)quantiser, "parts of 257 columns");
  embed_context_release(ctx);
}

static void a_model_of_floret_is_called_so(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_fasttext(FT_PLAIN);
  const size_t last = vf_mark[FT_COUNTS] - 12;
  memmove(vf + last + 8, vf + last, vf_count - last);
  vf_count += 8;
  vf_put(last, 2, 4);
  vf_put(last + 4, 1, 4);
  vf_refused(ctx, "ft", NULL, EMBED_E_UNSUPPORTED, (int64_t)last, "model of floret");
  vf_put(last, 3, 4);
  vf_refused(ctx, "ft", NULL, EMBED_E_FORMAT, (int64_t)last + 12, "the dictionary at byte");
  embed_context_release(ctx);
}

static void quantised_rows_stay_in_the_file(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_tensor_info info = {.size = sizeof info};
  embed_table *t = NULL;
  make_fasttext(FT_QUANTISED);
  embed_file *f = vf_open(ctx, "ft", NULL);
  assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
  assert_string_equal(info.stored, "pq");
  const size_t codes = vf_mark[FT_INPUT] + 1 + 16 + 4;
  assert_int_equal(info.offset, codes);
  assert_int_equal(info.bytes, 4 * 2);
  assert_int_equal(info.dtype, EMBED_PQ);
  vf_row_is(ctx, f, 0, 0, (const float[]){0, 0.25f, 128.25f}, 3);
  vf_row_is(ctx, f, 0, 2, (const float[]){1.5f * 10, 1.5f * 10.25f, 1.5f * 133.25f}, 3);
  vf_row_is(ctx, f, 1, 2, (const float[]){10, 10.25f, 133.25f}, 3);
  assert_int_equal(embed_file_tensor(ctx, f, 2, &info), EMBED_OK);
  assert_string_equal(info.name, "pruned");
  assert_int_equal(info.offset, vf_mark[FT_PAIRS]);
  assert_int_equal(embed_file_table(ctx, f, 2, &t), EMBED_E_UNSUPPORTED);
  embed_table *own = open_table(ctx, f), *again = open_table(ctx, f); /* outlives the file */
  assert_int_equal(embed_table_dtype(own), EMBED_PQ);
  assert_int_equal(embed_table_row_bytes(own), 2);
  assert_ptr_equal(embed_table_data(own), embed_table_data(again)); /* in place */
  assert_memory_equal(embed_table_data(own), vf + codes, 8);
  embed_table_release(again);
  embed_file_release(f);
  assert_int_equal(embed_table_rows(own), 4);
  assert_int_equal(embed_table_vocab(own), 3);
  embed_table_release(own);
  embed_context_release(ctx);
}

static void the_oldest_files_have_no_magic(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_fasttext(FT_OLDEST);
  embed_file *f = vf_open(ctx, "ft", NULL);
  assert_string_equal(embed_file_format(f), "fasttext");
  vf_row_is(ctx, f, 0, 4, (const float[]){3, 3.25f, 3.5f}, 3);
  vf_token_is(ctx, f, 1, "z\xC3\xBCrich");
  embed_file_release(f);
  embed_context_release(ctx);
}

static void bytes_behind_the_model_are_noted(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_fasttext(FT_PLAIN);
  vf_uint(0, 3);
  embed_file *f = vf_open(ctx, "ft", NULL);
  assert_non_null(strstr(embed_file_notes(f), "3 bytes behind the output matrix"));
  embed_file_release(f);
  embed_context_release(ctx);
}

static void what_cannot_be_is_refused_at_its_byte(void **state) {
  (void)state;
  static const struct bad {
    int kind, mark, at, width;
    uint64_t value;
    int says_at; /* behind the mark, -1 = the end of the file */
    const char *says;
  } bad[] = {
      {FT_PLAIN, FT_ARGS, 0, 4, 0, 0, "dim, loss, model or bucket"},
      {FT_PLAIN, FT_ARGS, 24, 4, 5, 0, "dim, loss, model or bucket"},
      {FT_PLAIN, FT_ARGS, 28, 4, 4, 0, "dim, loss, model or bucket"},
      {FT_PLAIN, FT_ARGS, 32, 4, UINT32_MAX, 0, "dim, loss, model or bucket"},
      {FT_PLAIN, FT_COUNTS, 0, 4, 4, 0, "4 entries, 3 words, 0 labels"},
      {FT_PLAIN, FT_COUNTS, 4, 4, UINT32_MAX, 0, "3 entries, -1 words"},
      {FT_PLAIN, FT_COUNTS, 20, 8, (uint64_t)-2, 0, "-2 pruned"},
      {FT_PLAIN, FT_ENTRIES, 13, 1, 1, 13, "entry 0 of the dictionary is of kind 1"},
      {FT_PLAIN, FT_ENTRIES, 5, 8, (uint64_t)-9, 5, "entry 0 of the dictionary has a count of -9"},
      {FT_LABELS, FT_PAIRS, -9, 8, (uint64_t)INT64_MIN, -9, "entry 4 of the dictionary has a count of -9223372036854775808"},
      {FT_PLAIN, FT_INPUT, 0, 8, 6, 0, "of 6 rows and 3 columns"},
      {FT_PLAIN, FT_INPUT, 8, 8, 4, 0, "of 5 rows and 4 columns"},
      {FT_PLAIN, FT_INPUT, -1, 1, 2, -1, "says with 2"},
      {FT_PLAIN, FT_OUTPUT, 0, 8, 1, 0, "the output matrix"},
      {FT_QUANTISED, FT_PAIRS, 0, 4, 2, 0, "bucket 2, there are 2"},
      {FT_QUANTISED, FT_PAIRS, 4, 4, 1, 4, "row 1, there are 1"},
      {FT_QUANTISED, FT_PAIRS, 8, 1, 0, 8, "pruned and its input matrix not quantised"},
      {FT_QUANTISED, FT_INPUT, 17, 4, 7, 0, NULL},
      {FT_QUANTISED, FT_INPUT, 29, 4, 4, 29, "cuts 4 columns"},
      {FT_QUANTISED, FT_INPUT, 33, 4, 3, 29, "into 3 parts"},
      {FT_QUANTISED, FT_INPUT, 37, 4, 0, 29, "parts of 0"},
      {FT_QUANTISED, FT_INPUT, 41, 4, 2, 29, "the last of 2"},
  };
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    make_fasttext(bad[i].kind);
    const size_t mark = vf_mark[bad[i].mark];
    vf_put(mark + (size_t)bad[i].at, bad[i].value, bad[i].width);
    if (bad[i].says)
      vf_refused(ctx, "ft", fasttext, EMBED_E_FORMAT, (int64_t)mark + bad[i].says_at, bad[i].says);
    else
      (void)try_file(ctx, write_file("ft", vf, vf_count), NULL);
  }
  make_fasttext(FT_PLAIN);
  vf_put(4, 13, 4);
  vf_refused(ctx, "ft", NULL, EMBED_E_UNSUPPORTED, 4, "version 13; 11 and 12 are read");
  embed_context_release(ctx);
}

/* WV-22 */
static void another_file_is_not_fasttext(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  vf_begin();
  vf_bytes("1 2\nof ", 7);
  vf_ramp(0, 2);
  vf_refused(ctx, "ft", fasttext, EMBED_E_FORMAT, 0, "magic number");
  embed_context_release(ctx);
}

static void no_count_makes_an_allocation_that_the_file_does_not_justify(void **state) {
  (void)state;
  counting c = {.calls = 0};
  embed_context *ctx = counting_context(&c);
  embed_file *f = NULL;
  make_fasttext(FT_PLAIN);
  vf_put(vf_mark[FT_COUNTS], 0x7FFFFFFF, 4);
  vf_put(vf_mark[FT_COUNTS] + 4, 0x7FFFFFFF, 4);
  const char *path = write_file("ft", vf, vf_count);
  const int64_t before = c.bytes;
  assert_int_equal(embed_file_open(ctx, path, NULL, &f), EMBED_E_FORMAT);
  assert_int_equal(c.bytes, before);
  assert_non_null(strstr(embed_error_text(ctx), "cut short"));
  embed_context_release(ctx);
}

static void broken_files_fail_cleanly(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < FT_KINDS; ++kind) {
    make_fasttext(kind);
    vf_survives_cuts(ctx, "ft-cut", fasttext);
    vf_survives_flips(ctx, "ft-flip", kind == FT_OLDEST ? NULL : fasttext, 0, vf_mark[FT_INPUT] + 48);
    vf_survives_flips(ctx, "ft-flip", fasttext, vf_mark[FT_OUTPUT] - 1, vf_mark[FT_OUTPUT] + 17);
  }
  embed_context_release(ctx);
}

static void every_failed_allocation_gives_all_back(void **state) {
  (void)state;
  for (int kind = 0; kind < FT_KINDS; ++kind) {
    make_fasttext(kind);
    survives_failures(write_file("ft", vf, vf_count), NULL);
  }
}

static void real_models_open(void **state) {
  (void)state;
  static const struct model {
    const char *name;
    int64_t rows, words, dim;
  } models[] = {{"crime-and-punishment.bin", 391, 291, 5},
                {"lee_fasttext_new.bin", 2763, 1763, 10},
                {"non_ascii_fasttext.bin", 10171, 171, 2},
                {"toy-model.bin", 122, 22, 5},
                {"pang_lee_polarity_fasttext.bin", 1694, 1694, 100},
                {"toy-model-pretrained.bin", 124, 24, 5},
                {"lid.176.ftz", 50000, 7235, 16}};
  for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
    const char *path = vf_shared("fasttext", models[i].name);
    embed_context *ctx = new_context(NULL);
    embed_file *f = open_file(ctx, path, NULL);
    embed_table *t = open_table(ctx, f);
    assert_string_equal(embed_file_format(f), "fasttext");
    assert_int_equal(embed_table_rows(t), models[i].rows);
    assert_int_equal(embed_table_vocab(t), models[i].words);
    assert_int_equal(embed_table_dim(t), models[i].dim);
    embed_table_release(t);
    embed_file_release(f);
    embed_context_release(ctx);
  }
}

static void lid176_has_the_rows_that_its_quantiser_gives(void **state) {
  (void)state;
  static const struct row {
    int64_t row;
    float first[3];
  } rows[] = {{0, {-0x1.a53612p-2f, 0x1.9ec4f8p-5f, -0x1.b80c36p-3f}},
              {7234, {-0x1.080dbap+1f, -0x1.52e2f8p+0f, -0x1.1545a0p+2f}},
              {49999, {-0x1.f9e176p+0f, 0x1.583868p+0f, -0x1.ab8902p-2f}}};
  const char *path = vf_shared("fasttext", "lid.176.ftz");
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_file(ctx, path, NULL);
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_dtype(t), EMBED_PQ);
  for (int i = 0; i < 3; ++i) {
    float got[16];
    assert_int_equal(embed_table_get_rows(ctx, t, &rows[i].row, 1, got, EMBED_F32, 0), EMBED_OK);
    assert_memory_equal(got, rows[i].first, sizeof rows[i].first);
  }
  vf_token_is(ctx, f, 0, "</s>");
  vf_token_is(ctx, f, 7234, "raport");
  assert_null(embed_file_token(f, 7235, NULL));
  assert_string_equal(vf_metadata(ctx, f, "fasttext.label.0"), "__label__en");
  assert_string_equal(vf_metadata(ctx, f, "fasttext.label.175"), "__label__tyv");
  embed_table_release(t);
  embed_file_release(f);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_model_of_words_opens_in_place),
    cmocka_unit_test(a_classifier_has_its_labels_as_metadata_and_as_head),
    cmocka_unit_test(words_and_labels_have_their_counts),
    cmocka_unit_test(counts_of_any_size_do_no_harm),
    cmocka_unit_test(a_tree_of_its_counts_predicts_after_hierarchical_softmax),
    cmocka_unit_test(quantised_rows_stay_in_the_file),
    cmocka_unit_test(parts_of_very_many_columns_are_refused),
    cmocka_unit_test(a_model_of_floret_is_called_so),
    cmocka_unit_test(the_oldest_files_have_no_magic),
    cmocka_unit_test(bytes_behind_the_model_are_noted),
    cmocka_unit_test(what_cannot_be_is_refused_at_its_byte),
    cmocka_unit_test(another_file_is_not_fasttext),
    cmocka_unit_test(no_count_makes_an_allocation_that_the_file_does_not_justify),
    cmocka_unit_test(broken_files_fail_cleanly),
    cmocka_unit_test(every_failed_allocation_gives_all_back),
    cmocka_unit_test(real_models_open),
    cmocka_unit_test(lid176_has_the_rows_that_its_quantiser_gives),
};
TEST_MAIN(tests)
