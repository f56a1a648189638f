/* SPDX-License-Identifier: BSD-3-Clause */
/* Overlays: a base with rows replaced and added is, from both ends, the table that it looks like, and copies nothing. */
#include "gather.h"

enum { BASE = 50, VOCAB = 44, ADDED = 3, ALL = BASE + ADDED, OWN = 14 };
/* Out of order; a run of rows that follow each other in both tables, single ones, both ends of the base, all that are added. */
static const int64_t ids[OWN] = {20, 21, 22, 23, 52, 0, 49, 7, 51, 50, 31, 33, 12, 11};
static embed_context *ctx;

typedef struct pair {
  test_table base, rows;
  embed_table *overlay, *copy; /* the same rows, in one block */
  int64_t dim;
} pair;

static embed_table *copied(embed_dtype dtype, const pair *p) {
  embed_table_options o = {.size = sizeof o, .dtype = dtype, .vocab = ALL};
  embed_table *copy = NULL;
  OK(embed_table_create(ctx, ALL, p->dim, &o, &copy));
  int64_t bytes = embed_table_row_bytes(copy);
  for (int64_t r = 0; r < ALL; ++r) {
    const test_table *from = &p->base;
    int64_t row = r;
    for (int64_t i = 0; i < OWN; ++i)
      if (ids[i] == r) from = &p->rows, row = i;
    memcpy((char *)embed_table_mutable_data(copy) + r * bytes, (const char *)embed_table_data(from->t) + row * embed_table_row_bytes(from->t), (size_t)bytes);
  }
  return copy;
}

static pair pair_new(embed_dtype dtype, int64_t dim) {
  pair p = {.dim = whole_dim(dtype, dim)};
  p.base = table_new(ctx, dtype, BASE, p.dim, 3, 21);
  p.rows = table_new(ctx, dtype, OWN + 1, p.dim, 0, 22);
  OK(embed_table_overlay(ctx, p.base.t, ids, OWN, p.rows.t, 0, &p.overlay));
  p.copy = copied(dtype, &p);
  return p;
}

static void pair_free(pair p) {
  embed_table_release(p.overlay);
  embed_table_release(p.copy);
  table_free(p.base);
  table_free(p.rows);
}

static void it_is_described_as_a_copy_would_be(void **state) {
  (void)state;
  pair p = pair_new(EMBED_BF16, 33);
  assert_int_equal(embed_table_rows(p.overlay), ALL);
  assert_int_equal(embed_table_vocab(p.overlay), ALL);
  assert_int_equal(embed_table_dim(p.overlay), 33);
  assert_int_equal(embed_table_row_bytes(p.overlay), embed_table_row_bytes(p.copy));
  assert_int_equal(embed_table_dtype(p.overlay), EMBED_BF16);
  assert_null(embed_table_data(p.overlay));
  assert_null(embed_table_mutable_data(p.overlay));
  pair_free(p);
}

static void rows_have_the_bits_of_a_copy_at_every_level(void **state) {
  (void)state;
  embed_context *all[CONTEXTS];
  int count = contexts_new(all);
  int32_t asked[3 * ALL];
  int64_t rows[3 * ALL], offsets[ALL + 1];
  for (int i = 0; i < 3 * ALL; ++i) rows[i] = asked[i] = (i * 7) % ALL;
  for (int b = 0; b <= ALL; ++b) offsets[b] = 3 * b;
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    pair p = pair_new(stored_dtypes[d], 33);
    size_t bytes = (size_t)(3 * ALL * p.dim) * 4;
    float *want = malloc(bytes), *got = malloc(bytes), *weights = calloc(ALL * ALL, sizeof *weights);
    for (int i = 0; i < ALL; ++i) weights[i * ALL + (i * 5) % ALL] = 1;
    for (int c = 0; c < count; ++c) {
      OK(embed_lookup(all[c], p.copy, asked, 3 * ALL, want, EMBED_F32, 0, NULL));
      OK(embed_lookup(all[c], p.overlay, asked, 3 * ALL, got, EMBED_F32, 0, NULL));
      assert_same_bits(got, want, bytes);
      OK(embed_table_get_rows(all[c], p.overlay, rows, 3 * ALL, got, EMBED_F32, 0));
      assert_same_bits(got, want, bytes);
      OK(embed_bag(all[c], p.copy, asked, 3 * ALL, offsets, ALL, NULL, want, EMBED_F32, 0, NULL));
      OK(embed_bag(all[c], p.overlay, asked, 3 * ALL, offsets, ALL, NULL, got, EMBED_F32, 0, NULL));
      assert_same_bits(got, want, bytes / 3);
      OK(embed_mix(all[c], p.overlay, weights, ALL, 0, got, 0, NULL)); /* the third view: one-hot x W */
      for (int i = 0; i < ALL; ++i) {
        int32_t id = (i * 5) % ALL;
        OK(embed_lookup(all[c], p.copy, &id, 1, want, EMBED_F32, 0, NULL));
        for (int64_t j = 0; j < p.dim; ++j) assert_true(got[i * p.dim + j] == want[j]);
      }
    }
    free(want);
    free(got);
    free(weights);
    pair_free(p);
  }
  contexts_free(all, count);
}

static void heads_and_geometry_see_every_row(void **state) {
  (void)state;
  enum { MOST = 24 };
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    pair p = pair_new(stored_dtypes[d], 33);
    float *x = malloc((size_t)(MOST * p.dim) * sizeof *x), want[MOST * ALL], got[MOST * ALL];
    uint64_t seed = 3;
    for (int64_t i = 0; i < MOST * p.dim; ++i) x[i] = test_uniform(&seed);
    embed_head *of_copy = NULL, *over = NULL;
    const embed_head_options prepare = {.size = sizeof prepare, .flags = EMBED_HEAD_PREPARE};
    OK(embed_head_create(ctx, p.copy, NULL, NULL, &of_copy));
    OK(embed_head_create(ctx, p.overlay, NULL, d % 2 ? &prepare : NULL, &over));
    assert_true(embed_head_is_tied(over, p.overlay));
    assert_false(embed_head_is_tied(over, p.copy));
    const int64_t batches[] = {1, 3, MOST};
    for (int b = 0; b < COUNT(batches); ++b) {
      int64_t n = batches[b];
      OK(embed_logits(ctx, of_copy, x, EMBED_F32, n, 0, want, 0, NULL));
      OK(embed_logits(ctx, over, x, EMBED_F32, n, 0, got, 0, NULL));
      for (int64_t i = 0; i < n * ALL; ++i) assert_near(got[i], want[i], 4e-6f * 3 * (float)p.dim);
      int32_t best[MOST * 5];
      float values[MOST * 5];
      OK(embed_topk(ctx, over, x, EMBED_F32, n, 0, 5, best, values, NULL, NULL, NULL));
      for (int64_t i = 0; i < n; ++i) assert_near(values[5 * i], want[i * ALL + best[5 * i]], 4e-6f * 3 * (float)p.dim);
    }
    OK(embed_norms(ctx, p.copy, want));
    OK(embed_norms(ctx, p.overlay, got));
    assert_same_bits(got, want, ALL * sizeof *got);
    embed_head_release(of_copy);
    embed_head_release(over);
    free(x);
    pair_free(p);
  }
}

static void a_conversion_is_a_copy_in_one_block(void **state) {
  (void)state;
  pair p = pair_new(EMBED_I8_ROW, 19);
  const embed_table_options o = {.size = sizeof o, .dtype = EMBED_DTYPE_NONE};
  embed_table *t = NULL;
  OK(embed_table_convert(ctx, p.overlay, &o, &t));
  assert_same_bits(embed_table_data(t), embed_table_data(p.copy), (size_t)(ALL * embed_table_row_bytes(t)));
  embed_table_release(t);
  pair_free(p);
}

static void a_written_file_holds_the_rows(void **state) {
  (void)state;
  char path[4096];
  snprintf(path, sizeof path, "%s/overlay-%ld.embed", TEST_BINARY_DIR, (long)getpid());
  pair p = pair_new(EMBED_F32, 16);
  embed_writer *w = NULL;
  embed_file *f = NULL;
  embed_table *t = NULL;
  OK(embed_writer_create(ctx, path, NULL, &w));
  OK(embed_writer_table(ctx, w, "t", p.overlay, NULL));
  OK(embed_writer_commit(ctx, w));
  embed_writer_release(w);
  OK(embed_file_open(ctx, path, NULL, &f));
  OK(embed_file_table(ctx, f, 0, &t));
  assert_same_bits(embed_table_data(t), embed_table_data(p.copy), ALL * 16 * sizeof(float));
  embed_table_release(t);
  embed_file_release(f);
  assert_int_equal(unlink(path), 0);
  pair_free(p);
}

static void overlays_stand_on_overlays(void **state) {
  (void)state;
  pair p = pair_new(EMBED_F32, 8);
  const int64_t above[2] = {ALL, 21};
  const int32_t asked[3] = {ALL, 21, 22};
  embed_table *t = NULL;
  float got[3 * 8];
  OK(embed_table_overlay(ctx, p.overlay, above, 2, p.rows.t, 0, &t));
  OK(embed_lookup(ctx, t, asked, 3, got, EMBED_F32, 0, NULL));
  assert_same_bits(got, p.rows.decoded, 2 * 8 * sizeof *got); /* rows 0 and 1 of rows */
  assert_same_bits(got + 16, p.rows.decoded + 2 * 8, 8 * sizeof *got);
  embed_table_release(t);
  pair_free(p);
}

static void the_vocabulary_is_chosen_or_follows(void **state) {
  (void)state;
  float w[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const embed_table_options three = {.size = sizeof three, .vocab = 3};
  embed_table *base = NULL, *t = NULL;
  OK(embed_table_borrow(ctx, w, 4, 2, &three, NULL, NULL, &base));
  const int64_t inner[1] = {1}, padding[1] = {3};
  OK(embed_table_overlay(ctx, base, inner, 1, base, 0, &t));
  assert_int_equal(embed_table_vocab(t), 3);
  embed_table_release(t);
  OK(embed_table_overlay(ctx, base, padding, 1, base, 0, &t)); /* a padding row becomes a token's */
  assert_int_equal(embed_table_vocab(t), 4);
  embed_table_release(t);
  OK(embed_table_overlay(ctx, base, padding, 1, base, 2, &t));
  assert_int_equal(embed_table_vocab(t), 2);
  embed_table_release(t);
  OK(embed_table_overlay(ctx, base, NULL, 0, base, 0, &t));
  assert_int_equal(embed_table_rows(t), 4);
  assert_int_equal(embed_table_vocab(t), 3);
  embed_table_release(t);
  embed_table_release(base);
}

static void both_tables_live_as_long_as_it_does(void **state) {
  (void)state;
  pair p = pair_new(EMBED_F16, 40);
  embed_context *own = context_new();
  embed_table *t = NULL;
  const int32_t asked[2] = {20, 1};
  float got[2 * 40], want[2 * 40];
  OK(embed_lookup(ctx, p.overlay, asked, 2, want, EMBED_F32, 0, NULL));
  OK(embed_table_overlay(own, p.base.t, ids, OWN, p.rows.t, 0, &t));
  embed_context_release(own);
  embed_table_release(p.base.t);
  embed_table_release(p.rows.t);
  embed_table_release(p.overlay);
  OK(embed_lookup(ctx, t, asked, 2, got, EMBED_F32, 0, NULL));
  assert_same_bits(got, want, sizeof got);
  p.base.t = p.rows.t = NULL;
  p.overlay = t;
  pair_free(p);
}

static void refused(embed_status status, int64_t at, const char *words, const embed_table *t) {
  assert_null(t);
  assert_int_equal(embed_error_at(ctx), at);
  assert_says(ctx, words);
  assert_true(status < 0);
}

static void wrong_ids_are_named(void **state) {
  (void)state;
  pair p = pair_new(EMBED_F32, 8), other = pair_new(EMBED_BF16, 8), wider = pair_new(EMBED_F32, 9);
  embed_table *const nothing = (embed_table *)(uintptr_t)8, *t = nothing;
  const int64_t twice[4] = {3, 1, 4, 1}, negative[3] = {3, -1, -1}, gap[3] = {BASE, 4, BASE + 2}, far[1] = {INT64_MAX};
#define REFUSED(expected, base, list, n, rows, vocab, at, words)               \
  do {                                                                         \
    t = nothing;                                                               \
    embed_status s = embed_table_overlay(ctx, base, list, n, rows, vocab, &t); \
    assert_int_equal(s, expected);                                             \
    refused(s, at, words, t);                                                  \
  } while (0)
  REFUSED(EMBED_E_ID, p.base.t, twice, 4, p.rows.t, 0, 3, "id 1 at position 3 stands at position 1 already");
  REFUSED(EMBED_E_ID, p.base.t, negative, 3, p.rows.t, 0, 1, "id -1 at position 1 is below 0");
  REFUSED(EMBED_E_ID, p.base.t, gap, 3, p.rows.t, 0, 2, "id 52 at position 2 is past row 51");
  REFUSED(EMBED_E_ID, p.base.t, far, 1, p.rows.t, 0, 0, "is past row 50");
  REFUSED(EMBED_E_ARGUMENT, p.base.t, ids, OWN + 2, p.rows.t, 0, -1, "16 ids for the 15 rows");
  REFUSED(EMBED_E_ARGUMENT, p.base.t, ids, -1, p.rows.t, 0, -1, "-1");
  REFUSED(EMBED_E_ARGUMENT, p.base.t, NULL, 1, p.rows.t, 0, -1, "ids");
  REFUSED(EMBED_E_ARGUMENT, p.base.t, ids, OWN, p.rows.t, ALL + 1, -1, "vocab is 54 of 53 rows");
  REFUSED(EMBED_E_ARGUMENT, p.base.t, ids, OWN, p.rows.t, -1, -1, "vocab is -1");
  REFUSED(EMBED_E_ARGUMENT, p.base.t, ids, OWN, wider.rows.t, 0, -1, "9 columns");
  REFUSED(EMBED_E_UNSUPPORTED, p.base.t, ids, OWN, other.rows.t, 0, -1, "bf16");
#undef REFUSED
  pair_free(p);
  pair_free(other);
  pair_free(wider);
}

static void it_is_read_only(void **state) {
  (void)state;
  pair p = pair_new(EMBED_F32, 8);
  const float row[8] = {0};
  const int64_t id = 1;
  assert_int_equal(embed_table_set_rows(ctx, p.overlay, &id, 1, row, EMBED_F32, 0, NULL), EMBED_E_READ_ONLY);
  assert_says(ctx, "overlay");
  assert_int_equal(embed_table_init(ctx, p.overlay, NULL), EMBED_E_READ_ONLY);
  pair_free(p);
}

static int start(void **state) {
  (void)state;
  ctx = context_with(NULL, 2);
  return ctx ? 0 : -1;
}
static int stop(void **state) {
  (void)state;
  embed_context_release(ctx);
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_described_as_a_copy_would_be),
      cmocka_unit_test(rows_have_the_bits_of_a_copy_at_every_level),
      cmocka_unit_test(heads_and_geometry_see_every_row),
      cmocka_unit_test(a_conversion_is_a_copy_in_one_block),
      cmocka_unit_test(a_written_file_holds_the_rows),
      cmocka_unit_test(overlays_stand_on_overlays),
      cmocka_unit_test(the_vocabulary_is_chosen_or_follows),
      cmocka_unit_test(both_tables_live_as_long_as_it_does),
      cmocka_unit_test(wrong_ids_are_named),
      cmocka_unit_test(it_is_read_only),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
