/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing the formats of word vectors: word2vec's text and finalfusion. */
#include "writing.h"

#include <float.h>
#include <math.h>

static embed_table *view(embed_context *ctx, const float *values, int64_t rows, int64_t dim) {
  embed_table_options o = {.size = sizeof o};
  embed_table *t = NULL;
  done(ctx, embed_table_view(ctx, values, rows, dim, &o, NULL, NULL, &t));
  return t;
}

static void text_has_the_fewest_digits(void **state) {
  (void)state;
  static const float values[] = {0.1f, -0.0f, 1e-5f, 16777216, 1, FLT_MAX, -FLT_MIN, 0.0001234567f};
  static const char want[] = "2 4\nthe 0.1 -0 1e-05 16777216\nz\xC3\xBC\x85 1 3.4028235e+38 -1.1754944e-38 0.0001234567\n";
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_table *t = view(ctx, values, 2, 4);
  embed_writer *w = new_writer(ctx, in_folder("a.vec"), NULL);
  done(ctx, embed_writer_table(ctx, w, "any", t, NULL));
  done(ctx, embed_writer_token(ctx, w, 0, "the", 3));
  assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_ARGUMENT);
  assert_int_equal(embed_error_at(ctx), 1);
  assert_int_equal(names_in_folder(), 0);
  done(ctx, embed_writer_token(ctx, w, 1, "z\xC3\xBC\x85", 4)); /* only 0x20 separates */
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  size_t bytes;
  unsigned char *got = read_file(in_folder("a.vec"), &bytes);
  assert_int_equal(bytes, sizeof want - 1);
  assert_memory_equal(got, want, bytes);
  free(got);
  embed_table_release(t);
  embed_context_release(ctx);
  remove_folder();
}

static void text_gives_every_float_back(void **state) {
  (void)state;
  enum { ROWS = 4000, DIM = 13 };
  static float values[ROWS * DIM];
  uint64_t random = 11;
  for (size_t i = 0; i < sizeof values / sizeof *values; ++i) {
    uint32_t bits = (uint32_t)(test_random(&random) >> 16);
    if ((bits >> 23 & 255) == 255) bits ^= 1u << 30;
    memcpy(&values[i], &bits, 4);
  }
  embed_pool *pool = NULL;
  assert_int_equal(embed_pool_create(3, &pool), EMBED_OK);
  embed_context *plain = new_context(NULL);
  embed_table *t = view(plain, values, ROWS, DIM);
  unsigned char *first = NULL;
  size_t first_bytes = 0;
  fresh_folder();
  for (int how = 0; how < 3; ++how) {
    embed_context *ctx = new_context(how ? pool : NULL);
    embed_writer_options o = {.size = sizeof o, .max_memory = how == 2 ? 1000 : 0, .format = "word2vec-text"};
    embed_writer *w = new_writer(ctx, in_folder("a.vectors"), &o);
    done(ctx, embed_writer_table(ctx, w, "any", t, NULL));
    for (int i = 0; i < ROWS; ++i) {
      char token[16];
      done(ctx, embed_writer_token(ctx, w, i, token, snprintf(token, sizeof token, "w%d", i)));
    }
    done(ctx, embed_writer_commit(ctx, w));
    embed_writer_release(w);
    size_t bytes;
    unsigned char *got = read_file(in_folder("a.vectors"), &bytes);
    if (how) {
      assert_int_equal(bytes, first_bytes);
      assert_memory_equal(got, first, bytes);
      free(got);
    } else {
      first = got;
      first_bytes = bytes;
    }
    embed_file *f = open_file(ctx, in_folder("a.vectors"), NULL);
    assert_string_equal(embed_file_format(f), "word2vec-text");
    embed_table *back = open_table(ctx, f);
    same_table(back, t, 0);
    assert_string_equal(embed_file_token(f, ROWS - 1, NULL), "w3999");
    embed_table_release(back);
    embed_file_release(f);
    embed_context_release(ctx);
  }
  free(first);
  embed_table_release(t);
  embed_context_release(plain);
  embed_pool_release(pool);
  remove_folder();
}

static void text_has_no_infinite_numbers(void **state) {
  (void)state;
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  for (int i = 0; i < 3; ++i) {
    float values[] = {1, 2, 3, bad[i], bad[i], 6};
    embed_table *t = view(ctx, values, 3, 2);
    embed_writer *w = new_writer(ctx, in_folder("a.vec"), NULL);
    done(ctx, embed_writer_table(ctx, w, "any", t, NULL));
    for (int r = 0; r < 3; ++r) done(ctx, embed_writer_token(ctx, w, r, "a", 1));
    assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_NONFINITE);
    assert_int_equal(embed_error_at(ctx), 1);
    embed_writer_release(w);
    embed_table_release(t);
  }
  assert_int_equal(names_in_folder(), 0);
  embed_context_release(ctx);
  remove_folder();
}

static void tokens_that_text_cannot_read_back_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *token, *says;
    int64_t bytes;
  } bad[] = {{"", "empty", 0}, {"a b", "blank", 3}, {" ", "blank", 1}, {"a\n", "newline", 2}, {"a\0b", "NUL", 3}};
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_writer *w = new_writer(ctx, in_folder("a.txt"), NULL);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    assert_int_equal(embed_writer_token(ctx, w, 7, bad[i].token, bad[i].bytes), EMBED_E_ARGUMENT);
    assert_int_equal(embed_error_at(ctx), 7);
    assert_non_null(strstr(embed_error_text(ctx), bad[i].says));
    assert_non_null(strstr(embed_error_text(ctx), "word2vec-text could not"));
  }
  embed_writer_release(w);
  embed_context_release(ctx);
  remove_folder();
}

/* "FiFu", version 0, 2 chunks: 1, words, of 8 + 2 * 4 + 3 bytes; 2, an array, of 8 + 4 + 4 + 1 + 16 bytes; padding to a multiple of 4. */
static void finalfusion_has_the_bytes_that_the_format_asks_for(void **state) {
  (void)state;
  static const unsigned char want[] =
      "FiFu\0\0\0\0\2\0\0\0\1\0\0\0\2\0\0\0"
      "\1\0\0\0\x13\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0a\2\0\0\0b "
      "\2\0\0\0\x21\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\2\0\0\0\x0A\0\0\0\0"
      "\0\0\x80\x3F\0\0\0\x40\0\0\x40\x40\0\0\x80\x40";
  static const float values[] = {1, 2, 3, 4, 5, 6};
  embed_context *ctx = new_context(NULL);
  embed_table_options two = {.size = sizeof two, .vocab = 2};
  fresh_folder();
  embed_table *t = view(ctx, values, 3, 2);
  embed_writer *w = new_writer(ctx, in_folder("a.fifu"), NULL);
  done(ctx, embed_writer_table(ctx, w, "any", t, &two)); /* the third row has no word */
  done(ctx, embed_writer_token(ctx, w, 0, "a", 1));
  done(ctx, embed_writer_token(ctx, w, 1, "b ", 2));
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  size_t bytes;
  unsigned char *got = read_file(in_folder("a.fifu"), &bytes);
  assert_int_equal(bytes, sizeof want - 1);
  assert_memory_equal(got, want, bytes);
  free(got);
  embed_table_release(t);
  embed_context_release(ctx);
  remove_folder();
}

static void finalfusion_comes_back_whatever_its_padding(void **state) {
  (void)state;
  static const char word[] = "abcdefgh";
  embed_context *ctx = new_context(NULL);
  embed_writer_options small = {.size = sizeof small, .max_memory = 1000};
  fresh_folder();
  embed_table *bf16 = some_table(ctx, 300, 33, EMBED_BF16, 0, 5), *want = NULL;
  embed_table_options f32 = {.size = sizeof f32};
  done(ctx, embed_table_convert(ctx, bf16, &f32, &want));
  for (int length = 1; length <= 4; ++length) {
    embed_writer *w = new_writer(ctx, in_folder("a.fifu"), &small);
    done(ctx, embed_writer_table(ctx, w, "any", bf16, NULL));
    for (int i = 0; i < 300; ++i) {
      char token[16];
      done(ctx, embed_writer_token(ctx, w, i, token, snprintf(token, sizeof token, "%.*s%d", i ? 1 : length, word, i)));
    }
    done(ctx, embed_writer_commit(ctx, w));
    embed_writer_release(w);
    embed_file *f = open_file(ctx, in_folder("a.fifu"), NULL);
    assert_string_equal(embed_file_format(f), "finalfusion");
    embed_table *back = open_table(ctx, f);
    same_table(back, want, 0);
    assert_string_equal(embed_file_token(f, 299, NULL), "a299");
    embed_table_release(back);
    embed_file_release(f);
  }
  embed_table_release(bf16);
  embed_table_release(want);
  embed_context_release(ctx);
  remove_folder();
}

static void words_that_finalfusion_refuses_are_not_written(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_table *t = some_table(ctx, 3, 4, EMBED_F32, 0, 1);
  embed_writer *w = new_writer(ctx, in_folder("a.fifu"), NULL);
  done(ctx, embed_writer_table(ctx, w, "any", t, NULL));
  assert_int_equal(embed_writer_token(ctx, w, 2, "\xC3", 1), EMBED_E_ARGUMENT);
  assert_int_equal(embed_error_at(ctx), 2);
  done(ctx, embed_writer_token(ctx, w, 0, "a", 1));
  done(ctx, embed_writer_token(ctx, w, 2, "a", 1));
  assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_ARGUMENT);
  assert_int_equal(embed_error_at(ctx), 1); /* none */
  done(ctx, embed_writer_token(ctx, w, 1, "", 0));
  assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_ARGUMENT);
  assert_int_equal(embed_error_at(ctx), 2); /* twice */
  assert_non_null(strstr(embed_error_text(ctx), "row 0 too"));
  assert_int_equal(names_in_folder(), 0);
  embed_writer_release(w);
  embed_table_release(t);
  embed_context_release(ctx);
  remove_folder();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(text_has_the_fewest_digits),
    cmocka_unit_test(text_gives_every_float_back),
    cmocka_unit_test(text_has_no_infinite_numbers),
    cmocka_unit_test(tokens_that_text_cannot_read_back_are_refused),
    cmocka_unit_test(finalfusion_has_the_bytes_that_the_format_asks_for),
    cmocka_unit_test(finalfusion_comes_back_whatever_its_padding),
    cmocka_unit_test(words_that_finalfusion_refuses_are_not_written),
};
TEST_MAIN(tests)
