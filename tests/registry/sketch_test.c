/* SPDX-License-Identifier: BSD-3-Clause */
/* Certified search on real tables (Q8_0 widened to bf16) and the states recorded with them: the bits of the plain sweep, and how many
 * rows it reads for them. */
#include "io/files.h"

enum { STATES = 32, MOST_K = 40 };

typedef struct searched {
  int64_t total, most; /* rows verified: of all states, of one */
} searched;

static embed_table *open_as(embed_context *ctx, const char *path, embed_dtype dtype) {
  const embed_table_options o = {.size = sizeof o, .dtype = dtype};
  if (access(path, R_OK) != 0) skip();
  embed_file *f = open_file(ctx, path, NULL);
  embed_table *stored = open_table(ctx, f), *t = NULL;
  assert_int_equal(embed_table_convert(ctx, stored, &o, &t), EMBED_OK);
  embed_table_release(stored);
  embed_file_release(f);
  return t;
}

static int64_t verified(embed_context *ctx, const embed_head *h, int64_t searches) {
  embed_head_info info = {.size = sizeof info};
  assert_int_equal(embed_head_describe(ctx, h, &info), EMBED_OK);
  assert_int_equal(info.sketch_searches, searches);
  return info.sketch_rows_verified;
}

/* State by state. */
static searched search(embed_context *ctx, const embed_table *t, const float *x, int32_t k) {
  const embed_head_options o = {.size = sizeof o, .flags = EMBED_HEAD_SKETCH};
  embed_head *plain = NULL, *sketched = NULL;
  searched s = {0, 0};
  assert_int_equal(embed_head_create(ctx, t, NULL, NULL, &plain), EMBED_OK);
  assert_int_equal(embed_head_create(ctx, t, NULL, &o, &sketched), EMBED_OK);
  for (int64_t i = 0; i < STATES; ++i, x += embed_table_dim(t)) {
    int32_t ids[2][MOST_K];
    float z[2][MOST_K];
    assert_int_equal(embed_topk(ctx, plain, x, EMBED_F32, 1, 0, k, ids[0], z[0], NULL, NULL, NULL), EMBED_OK);
    assert_int_equal(embed_topk(ctx, sketched, x, EMBED_F32, 1, 0, k, ids[1], z[1], NULL, NULL, NULL), EMBED_OK);
    assert_same_bits(ids[1], ids[0], (size_t)k * 4);
    assert_same_bits(z[1], z[0], (size_t)k * 4);
    const int64_t now = verified(ctx, sketched, i + 1);
    if (now - s.total > s.most) s.most = now - s.total;
    s.total = now;
  }
  embed_head_release(plain);
  embed_head_release(sketched);
  return s;
}

/* most: rows verified for one state, by k of 1 and 40. */
static void certified_is_plain(const char *model, const char *states, int64_t most_of_1, int64_t most_of_40) {
  char path[8192];
  const char *folder = getenv("LIBEMBED_DATA"), *shared = test_shared(TEST_SOURCE_DIR);
  if (!folder || !shared) skip();
  embed_pool *pool = NULL;
  assert_int_equal(embed_pool_create(2, &pool), EMBED_OK);
  embed_context *ctx = new_context(pool);
  snprintf(path, sizeof path, "%s/%s", folder, model);
  embed_table *t = open_as(ctx, path, EMBED_BF16);
  snprintf(path, sizeof path, "%s/real-models/%s", shared, states);
  embed_table *x = open_as(ctx, path, EMBED_F32);
  assert_int_equal(embed_table_rows(x), STATES);
  assert_int_equal(embed_table_dim(x), embed_table_dim(t));
  const searched one = search(ctx, t, embed_table_data(x), 1), forty = search(ctx, t, embed_table_data(x), MOST_K);
  print_message("%s: %lld rows; argmax verified %lld at most, %lld on average; top-40 %lld, %lld\n", states, (long long)embed_table_rows(t),
                (long long)one.most, (long long)one.total / STATES, (long long)forty.most, (long long)forty.total / STATES);
  assert_true(one.most <= most_of_1 && forty.most <= most_of_40);
  embed_table_release(x);
  embed_table_release(t);
  embed_context_release(ctx);
  embed_pool_release(pool);
}

static void smollm2_is_searched_with_the_bits_of_the_plain_sweep(void **state) {
  (void)state;
  certified_is_plain("smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-hidden-32.npy", 511, 3180);
}

static void gemma3_is_searched_with_the_bits_of_the_plain_sweep(void **state) {
  (void)state;
  certified_is_plain("gemma3-270m/gemma-3-270m-q4_k_m.gguf", "gemma3-270m-hidden-32.npy", 603, 3116);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(smollm2_is_searched_with_the_bits_of_the_plain_sweep),
    cmocka_unit_test(gemma3_is_searched_with_the_bits_of_the_plain_sweep),
};
TEST_MAIN(tests)
