/* SPDX-License-Identifier: BSD-3-Clause */
/* Right answers on real vocabularies: the GloVe cut of tests/data, and larger data where it lies beside the checkout. */
#include "test.h"

#include <ctype.h>
#include <embed/embed.h>
#include <math.h>

typedef struct vocabulary {
  embed_context *ctx;
  embed_pool *pool;
  embed_file *file;
  embed_table *table;
} vocabulary;

static vocabulary open_vocabulary(const char *path) {
  vocabulary v;
  memset(&v, 0, sizeof v);
  assert_int_equal(embed_pool_create(2, &v.pool), EMBED_OK);
  embed_context_options o = {.size = sizeof o, .pool = v.pool};
  assert_int_equal(embed_context_create(&o, &v.ctx), EMBED_OK);
  assert_int_equal(embed_file_open(v.ctx, path, NULL, &v.file), EMBED_OK);
  assert_int_equal(embed_file_table(v.ctx, v.file, -1, &v.table), EMBED_OK);
  return v;
}

static void close_vocabulary(vocabulary *v) {
  embed_table_release(v->table);
  embed_file_release(v->file);
  embed_context_release(v->ctx);
  embed_pool_release(v->pool);
}

static const char *own_data(void) { return TEST_SOURCE_DIR "/tests/data/glove-2000x100.bin"; }

/* A path under the shared data, or NULL and the test is skipped. */
static const char *shared_data(const char *name) {
  static char path[8192];
  const char *folder = test_shared(TEST_SOURCE_DIR);
  if (!folder) return NULL;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return access(path, R_OK) == 0 ? path : NULL;
}

static int64_t id_of(const vocabulary *v, const char *word) {
  int64_t id = -1;
  embed_status s = embed_file_token_id(v->ctx, v->file, word, (int64_t)strlen(word), &id);
  assert_true(s == EMBED_OK || s == EMBED_E_NOT_FOUND);
  return s == EMBED_OK ? id : -1;
}

static void sums(const vocabulary *v, double *sum, double *squares) {
  int64_t dim = embed_table_dim(v->table), vocab = embed_table_vocab(v->table);
  float *row = malloc((size_t)dim * sizeof *row);
  assert_non_null(row);
  *sum = *squares = 0;
  for (int64_t id = 0; id < vocab; ++id) {
    assert_int_equal(embed_lookup_i64(v->ctx, v->table, &id, 1, row, EMBED_F32, 0, NULL), EMBED_OK);
    for (int64_t j = 0; j < dim; ++j) {
      *sum += (double)row[j];
      *squares += (double)row[j] * (double)row[j];
    }
  }
  free(row);
}

static void glove_holds_what_its_recipe_says(void **state) {
  (void)state;
  vocabulary v = open_vocabulary(own_data());
  double sum, squares;
  assert_string_equal(embed_file_format(v.file), "word2vec");
  assert_int_equal(embed_table_vocab(v.table), 2000);
  assert_int_equal(embed_table_dim(v.table), 100);
  sums(&v, &sum, &squares);
  assert_true(fabs(sum - -3846.715932952) < 1e-6);
  assert_true(fabs(squares - 67266.252970453) < 1e-6);
  assert_int_equal(id_of(&v, "king"), 654);
  assert_int_equal(id_of(&v, "no such word"), -1);
  int64_t bytes = 0;
  assert_string_equal(embed_file_token(v.file, 654, &bytes), "king");
  assert_int_equal(bytes, 4);
  close_vocabulary(&v);
}

static void tied_head_on_the_row_of_king(void **state) {
  (void)state;
  const int32_t want_ids[5] = {654, 1683, 1948, 600, 765};
  const double want[5] = {37.42504, 27.66496, 27.58828, 26.0587, 25.14043};
  vocabulary v = open_vocabulary(own_data());
  embed_head *h = NULL;
  float row[100], best[5], lse;
  int32_t ids[5];
  int64_t king = 654;
  assert_int_equal(embed_file_head(v.ctx, v.file, v.table, NULL, &h), EMBED_OK);
  assert_int_equal(embed_head_is_tied(h, v.table), 1);
  assert_ptr_equal(embed_head_table(h), v.table);
  assert_int_equal(embed_lookup_i64(v.ctx, v.table, &king, 1, row, EMBED_F32, 0, NULL), EMBED_OK);
  assert_int_equal(embed_topk(v.ctx, h, row, EMBED_F32, 1, 0, 5, ids, best, &lse, NULL, NULL), EMBED_OK);
  assert_memory_equal(ids, want_ids, sizeof ids);
  for (int i = 0; i < 5; ++i) assert_true(fabs((double)best[i] - want[i]) < 2e-5);
  assert_true(fabs((double)lse - 37.425170182) < 2e-5);
  embed_head_release(h);
  close_vocabulary(&v);
}

static void king_minus_man_plus_woman(void **state) {
  (void)state;
  const int32_t want[3] = {1948, 1057, 1683}; /* queen first; king itself, at 0.836068, is left out */
  const double cosines[3] = {0.769854, 0.659456, 0.651703};
  vocabulary v = open_vocabulary(own_data());
  const int32_t abc[3] = {(int32_t)id_of(&v, "man"), (int32_t)id_of(&v, "king"), (int32_t)id_of(&v, "woman")};
  int32_t ids[3];
  float scores[3];
  assert_int_equal(embed_analogy(v.ctx, v.table, abc, 1, 3, ids, scores, NULL, NULL), EMBED_OK);
  assert_memory_equal(ids, want, sizeof ids);
  for (int i = 0; i < 3; ++i) assert_true(fabs((double)scores[i] - cosines[i]) < 1e-6);
  close_vocabulary(&v);
}

/* Questions of four known words, lower case: [n, 4] ids. */
static int32_t *read_questions(const vocabulary *v, const char *path, int64_t *n) {
  FILE *f = fopen(path, "r");
  char line[512], word[4][128];
  int32_t *questions = malloc(sizeof *questions * 4 * 20000);
  assert_true(f && questions);
  *n = 0;
  while (fgets(line, sizeof line, f)) {
    if (line[0] == ':' || sscanf(line, "%127s %127s %127s %127s", word[0], word[1], word[2], word[3]) != 4) continue;
    int known = 1;
    for (int k = 0; k < 4 && known; ++k) {
      for (char *c = word[k]; *c; ++c) *c = (char)tolower((unsigned char)*c);
      int64_t id = id_of(v, word[k]);
      known = id >= 0;
      questions[4 * *n + k] = (int32_t)id;
    }
    if (known && *n < 19999) ++*n;
  }
  fclose(f);
  return questions;
}

static int64_t right_answers(const vocabulary *v, const embed_table *t, const int32_t *questions, int64_t n) {
  int32_t *abc = malloc(sizeof *abc * 3 * (size_t)n), *ids = malloc(sizeof *ids * (size_t)n);
  float *scores = malloc(sizeof *scores * (size_t)n);
  int64_t right = 0;
  assert_true(abc && ids && scores);
  for (int64_t i = 0; i < n; ++i) memcpy(abc + 3 * i, questions + 4 * i, 3 * sizeof *abc);
  assert_int_equal(embed_analogy(v->ctx, t, abc, n, 1, ids, scores, NULL, NULL), EMBED_OK);
  for (int64_t i = 0; i < n; ++i) right += ids[i] == questions[4 * i + 3];
  free(abc);
  free(ids);
  free(scores);
  return right;
}

struct answer {
  embed_dtype dtype;
  int64_t right;
};

/* Ties within rounding may fall either way once a table is rounded: two answers of slack there, none in f32. */
static void check_analogies(vocabulary *v, int64_t covered, const struct answer *answers, int count) {
  char path[8192];
  int64_t n = 0;
  snprintf(path, sizeof path, "%s/eval/questions-words.txt", test_shared(TEST_SOURCE_DIR));
  int32_t *questions = read_questions(v, path, &n);
  assert_int_equal(n, covered);
  for (int i = 0; i < count; ++i) {
    embed_table_options o = {.size = sizeof o, .dtype = answers[i].dtype};
    embed_table *t = NULL;
    assert_int_equal(embed_table_convert(v->ctx, v->table, &o, &t), EMBED_OK);
    int64_t right = right_answers(v, t, questions, n), slack = answers[i].dtype == EMBED_F32 ? 0 : 2;
    assert_in_range(right, answers[i].right - slack, answers[i].right + slack);
    embed_table_release(t);
  }
  free(questions);
}

static void analogies_of_two_thousand_words(void **state) {
  (void)state;
  const struct answer answers[] = {{EMBED_F32, 498}, {EMBED_F16, 498}, {EMBED_I8_ROW, 498}};
  if (!shared_data("eval/questions-words.txt")) {
    skip();
    return;
  }
  vocabulary v = open_vocabulary(own_data());
  check_analogies(&v, 635, answers, 3);
  close_vocabulary(&v);
}

static void analogies_of_ten_thousand_words(void **state) {
  (void)state;
  const struct answer answers[] = {{EMBED_F32, 5124}, {EMBED_F16, 5123}, {EMBED_BF16, 5123}, {EMBED_I8_ROW, 5130}};
  const char *path = shared_data("glove/glove.6B.100d.top10k.bin");
#ifdef TEST_SANITIZED
  path = NULL; /* minutes of unoptimised arithmetic that the two thousand words have shown already */
#endif
  if (!path) {
    skip();
    return;
  }
  vocabulary v = open_vocabulary(path);
  double sum, squares;
  sums(&v, &sum, &squares);
  assert_true(fabs(sum - -12486.570887876) < 1e-6);
  assert_true(fabs(squares - 305380.292947977) < 1e-6);
  check_analogies(&v, 7038, answers, 4);
  close_vocabulary(&v);
}

static float *read_floats(const char *path, long at, int64_t count) {
  FILE *f = fopen(path, "rb");
  float *values = malloc(sizeof *values * (size_t)count);
  assert_true(f && values && !fseek(f, at, SEEK_SET));
  assert_int_equal(fread(values, sizeof *values, (size_t)count, f), count);
  test_file_order(values, (size_t)count);
  fclose(f);
  return values;
}

static void greedy_tokens_of_a_small_story_model(void **state) {
  (void)state;
  enum { VOCAB = 512, DIM = 64, STEPS = 256 };
  const char *path = shared_data("stories260k/stories260K.bin");
  if (!path) {
    skip();
    return;
  }
  float *w = read_floats(path, 28, VOCAB * DIM);
  vocabulary hidden = open_vocabulary(shared_data("stories260k/hidden_256x64_f32.npy"));
  FILE *f = fopen(shared_data("stories260k/ids_257_i32.npy"), "rb");
  int32_t tokens[STEPS + 1], got[STEPS];
  float best[STEPS];
  assert_true(f && !fseek(f, -(long)sizeof tokens, SEEK_END));
  assert_int_equal(fread(tokens, sizeof tokens, 1, f), 1);
  test_file_order(tokens, STEPS + 1);
  fclose(f);
  embed_table *t = NULL;
  embed_head *h = NULL;
  assert_int_equal(embed_table_view(hidden.ctx, w, VOCAB, DIM, NULL, NULL, NULL, &t), EMBED_OK);
  const float *x = embed_table_data(hidden.table);
  static const uint32_t forms[] = {0, EMBED_HEAD_PREPARE, EMBED_HEAD_SKETCH, EMBED_HEAD_PREPARE | EMBED_HEAD_SKETCH};
  for (int form = 0; form < 4; ++form) {
    const embed_head_options options = {.size = sizeof options, .flags = forms[form]};
    assert_int_equal(embed_head_create(hidden.ctx, t, NULL, &options, &h), EMBED_OK);
    for (int64_t together = 1; together <= STEPS; together *= 16) {
      memset(got, -1, sizeof got);
      for (int64_t i = 0; i < STEPS; i += together)
        assert_int_equal(embed_topk(hidden.ctx, h, x + i * DIM, EMBED_F32, together, 0, 1, got + i, best, NULL, NULL, NULL), EMBED_OK);
      assert_memory_equal(got, tokens + 1, sizeof got);
    }
    embed_head_info info = {.size = sizeof info};
    assert_int_equal(embed_head_describe(hidden.ctx, h, &info), EMBED_OK);
    assert_int_equal(info.sketch_searches > 0, forms[form] & EMBED_HEAD_SKETCH ? TEST_SKETCH_SEARCHES : 0);
    embed_head_release(h);
  }
  embed_table_release(t);
  close_vocabulary(&hidden);
  free(w);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(glove_holds_what_its_recipe_says), cmocka_unit_test(tied_head_on_the_row_of_king),
      cmocka_unit_test(king_minus_man_plus_woman),        cmocka_unit_test(analogies_of_two_thousand_words),
      cmocka_unit_test(analogies_of_ten_thousand_words),  cmocka_unit_test(greedy_tokens_of_a_small_story_model),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
