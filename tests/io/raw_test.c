/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that say nothing of themselves: raw rows and GloVe's binary, of which the caller gives dim or vocab. */
#include "vector_files.h"

static embed_file_options options(const char *format, int64_t dim, int64_t vocab) {
  return (embed_file_options){.size = sizeof(embed_file_options), .format = format, .dim = dim, .vocab = vocab};
}

static const char *written(const char *name) { return write_file(name, vf, vf_count); }

static void rows_open_in_place_by_dim_or_by_vocab(void **state) {
  (void)state;
  static const int64_t extents[][2] = {{3, 0}, {0, 2}, {3, 2}};
  embed_context *ctx = new_context(NULL);
  vf_begin();
  vf_ramp(1, 6);
  for (int i = 0; i < 3; ++i) {
    embed_file_options o = options("raw", extents[i][0], extents[i][1]);
    embed_file *f = open_file(ctx, written("rows"), &o);
    assert_string_equal(embed_file_format(f), "raw");
    vf_row_is(ctx, f, -1, 1, (const float[]){1.75f, 2, 2.25f}, 3);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

static void each_float_type_has_its_name(void **state) {
  (void)state;
  static const struct type {
    const char *format;
    embed_dtype dtype;
    int width;
    uint64_t one, minus_two;
  } types[] = {{"raw", EMBED_F32, 4, 0x3F800000, 0xC0000000},
               {"raw-f64", EMBED_F64, 8, 0x3FF0000000000000, 0xC000000000000000},
               {"raw-f16", EMBED_F16, 2, 0x3C00, 0xC000},
               {"raw-bf16", EMBED_BF16, 2, 0x3F80, 0xC000}};
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 4; ++i) {
    embed_file_options o = options(types[i].format, 2, 0);
    vf_begin();
    vf_uint(types[i].one, types[i].width), vf_uint(types[i].minus_two, types[i].width);
    embed_file *f = open_file(ctx, written("rows"), &o);
    embed_table *t = open_table(ctx, f);
    assert_int_equal(embed_table_dtype(t), types[i].dtype);
    embed_table_release(t);
    vf_row_is(ctx, f, -1, 0, (const float[]){1, -2}, 2);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

static void a_shape_that_does_not_fit_is_refused(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file *f = NULL;
  vf_begin();
  vf_ramp(1, 6);
  const char *path = written("rows");
  embed_file_options none = options("raw", 0, 0), wide = options("raw", 4, 0), huge = options("raw", INT64_MAX, 0), many = options("raw", 0, INT64_MAX),
                     other = options("raw", 3, 3), odd = options("raw-f64", 1, 4);
  refused(ctx, path, &none, EMBED_E_OPTION, -1, "dim or vocab");
  refused(ctx, path, &wide, EMBED_E_FORMAT, 24, "no whole number of rows of 4 columns");
  refused(ctx, path, &huge, EMBED_E_FORMAT, 24, "no whole number");
  refused(ctx, path, &many, EMBED_E_FORMAT, 24, "no whole number");
  refused(ctx, path, &other, EMBED_E_MISMATCH, -1, "3 rows are expected");
  refused(ctx, path, &odd, EMBED_E_MISMATCH, -1, "4 rows are expected");
  assert_int_not_equal(embed_file_open(ctx, path, NULL, &f), EMBED_OK); /* by content it is nothing */
  assert_null(f);
  embed_context_release(ctx);
}

/* 2 words, 3 columns: vectors, biases 9 and 19, then contexts. */
static void make_glove(void) {
  vf_begin();
  for (int part = 0; part < 2; ++part)
    for (int row = 0; row < 2; ++row) {
      for (int j = 0; j < 3; ++j) vf_f64(100 * part + 10 * row + j);
      vf_f64(100 * part + 10 * row + 9);
    }
}

static const char *make_glove_folder(const char *words) {
  char folder[4096 + 8];
  snprintf(folder, sizeof folder, "%s", path_of("g"));
  (void)mkdir(folder, 0700);
  (void)unlink(path_of("g/vocab.txt"));
  if (words) (void)write_file("g/vocab.txt", words, strlen(words));
  make_glove();
  return written("g/vectors.bin");
}

static void glove_binary_opens_by_dim_vocab_or_words(void **state) {
  (void)state;
  static const int64_t extents[][2] = {{3, 0}, {0, 2}, {3, 2}, {0, 0}};
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 4; ++i) {
    const char *path = make_glove_folder(i == 3 ? "the 100\nof course 7\n" : NULL);
    embed_file_options o = options("glove-binary", extents[i][0], extents[i][1]);
    embed_file *f = open_file(ctx, path, &o);
    assert_int_equal(embed_file_count(f), 4);
    vf_row_is(ctx, f, -1, 1, (const float[]){10, 11, 12}, 3);
    vf_row_is(ctx, f, 1, 1, (const float[]){19}, 1);
    vf_row_is(ctx, f, 2, 1, (const float[]){110, 111, 112}, 3);
    vf_row_is(ctx, f, 3, 0, (const float[]){109}, 1);
    if (i == 3) {
      vf_token_is(ctx, f, 0, "the");
      vf_token_is(ctx, f, 1, "of course");
    } else {
      assert_null(embed_file_token(f, 0, NULL));
    }
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

static void glove_binary_of_another_shape_is_refused(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file_options none = options("glove-binary", 0, 0), wide = options("glove-binary", 4, 0), many = options("glove-binary", 0, 3),
                     huge = options("glove-binary", INT64_MAX, 0), more = options("glove-binary", 0, INT64_MAX);
  const char *path = make_glove_folder(NULL);
  refused(ctx, path, &none, EMBED_E_OPTION, -1, "vocab.txt");
  refused(ctx, path, &wide, EMBED_E_FORMAT, 128, "not twice");
  refused(ctx, path, &many, EMBED_E_FORMAT, 128, "not twice");
  refused(ctx, path, &huge, EMBED_E_FORMAT, 128, "not twice");
  refused(ctx, path, &more, EMBED_E_FORMAT, 128, "not twice");
  path = make_glove_folder("the 1\nof 2\nand 3\n");
  embed_file_options dim = options("glove-binary", 3, 0);
  embed_file *f = open_file(ctx, path, &dim);
  assert_non_null(strstr(embed_file_notes(f), "3 lines are in the vocab.txt"));
  assert_null(embed_file_token(f, 0, NULL));
  embed_file_release(f);
  for (size_t cut = 1; cut < 128; ++cut) {
    const embed_status status = try_file(ctx, write_file("g/vectors.bin", vf, cut), &dim);
    assert_int_equal(status == EMBED_OK, cut == 64); /* one row and its context are a file */
  }
  embed_context_release(ctx);
}

static void every_failed_allocation_gives_all_back(void **state) {
  (void)state;
  embed_file_options raw = options("raw", 4, 0), glove = options("glove-binary", 3, 0);
  survives_failures(make_glove_folder("the 1\nof 2\n"), &glove);
  survives_failures(path_of("g/vectors.bin"), &raw);
}

static void a_real_matrix_opens_by_its_shape(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file_options o = options("raw", 384, 778);
  embed_file *f = open_file(ctx, vf_shared("word2vec", "minilm_docs_778x384.f32"), &o);
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_rows(t), 778);
  assert_int_equal(embed_table_dim(t), 384);
  embed_table_release(t);
  embed_file_release(f);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_open_in_place_by_dim_or_by_vocab),    cmocka_unit_test(each_float_type_has_its_name),
    cmocka_unit_test(a_shape_that_does_not_fit_is_refused),     cmocka_unit_test(glove_binary_opens_by_dim_vocab_or_words),
    cmocka_unit_test(glove_binary_of_another_shape_is_refused), cmocka_unit_test(every_failed_allocation_gives_all_back),
    cmocka_unit_test(a_real_matrix_opens_by_its_shape),
};
TEST_MAIN(tests)
