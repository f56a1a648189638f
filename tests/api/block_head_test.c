/* SPDX-License-Identifier: BSD-3-Clause */
/* Heads over the GGUF block dtypes: products, ranks and threads. head_test.c has the other dtypes, of any dim. */
#include "gather.h"

#include <sys/mman.h>

enum { VOCAB = 1100, ROWS = 1111, MOST = 70, K = 9 };

typedef struct block_head {
  test_table table;
  embed_head *h;
  int64_t dim;
} block_head;

/* Rows past the vocabulary are there, and must not be seen. */
static block_head block_head_new(embed_context *ctx, embed_dtype dtype, int64_t dim, const float *bias, uint32_t flags) {
  block_head b = {.dim = dim, .table = table_new(ctx, dtype, ROWS, dim, dim % 7, 21)};
  embed_table_options o = {.size = sizeof o, .dtype = dtype, .vocab = VOCAB, .row_bytes = embed_table_row_bytes(b.table.t)};
  embed_head_options head = {.size = sizeof head, .flags = flags};
  embed_table *t = NULL;
  OK(embed_table_view(ctx, b.table.memory.at, ROWS, dim, &o, NULL, NULL, &t));
  embed_table_release(b.table.t);
  b.table.t = t;
  OK(embed_head_create(ctx, t, bias, &head, &b.h));
  return b;
}

static void block_head_free(block_head b) {
  embed_head_release(b.h);
  table_free(b.table);
}

static float *random_hidden(int64_t dim) {
  uint64_t seed = 31;
  float *x = malloc((size_t)(MOST * dim) * sizeof *x);
  assert_non_null(x);
  for (int64_t i = 0; i < MOST * dim; ++i) x[i] = 4 * test_uniform(&seed);
  return x;
}

static void check_logits(const block_head *b, const float *x, const float *bias, const float *z, int64_t n) {
  for (int64_t i = 0; i < n; i += 1 + n / 4)
    for (int64_t v = 0; v < VOCAB; v += v < 20 || v > VOCAB - 20 ? 1 : 13) {
      double sum = bias ? (double)bias[v] : 0, size = fabs(sum);
      for (int64_t j = 0; j < b->dim; ++j) {
        double product = (double)b->table.decoded[v * b->dim + j] * (double)x[i * b->dim + j];
        sum += product;
        size += fabs(product);
      }
      if (!(fabs((double)z[i * VOCAB + v] - sum) <= 2e-6 * size))
        fail_msg("dtype %d: row %lld is %g, not %g", embed_table_dtype(b->table.t), (long long)v, (double)z[i * VOCAB + v], sum);
    }
}

static void check_ranks(embed_context *ctx, const block_head *b, const float *x, const float *z, int64_t n) {
  int32_t ids[MOST * K], count[MOST];
  float best[MOST * K], lse[MOST];
  OK(embed_topk(ctx, b->h, x, EMBED_F32, n, 0, K, ids, best, lse, count, NULL));
  for (int64_t i = 0; i < n; ++i) {
    int64_t above = 0;
    assert_int_equal(count[i], K);
    for (int j = 0; j < K; ++j) {
      assert_in_range(ids[i * K + j], 0, VOCAB - 1);
      assert_same_bits(&best[i * K + j], &z[i * VOCAB + ids[i * K + j]], 4);
    }
    for (int v = 0; v < VOCAB; ++v) above += z[i * VOCAB + v] > best[i * K + K - 1];
    assert_true(above < K);
  }
}

static const struct {
  embed_dtype dtype;
  int64_t dim;
} shapes[] = {{EMBED_Q8_0, 32},   {EMBED_Q8_0, 96},    {EMBED_Q8_0, 768}, {EMBED_Q4_0, 32},   {EMBED_Q4_0, 160}, {EMBED_Q4_1, 64},  {EMBED_Q4_1, 288},
              {EMBED_Q5_0, 96},   {EMBED_Q5_0, 576},   {EMBED_Q5_1, 32},  {EMBED_Q5_1, 160},  {EMBED_Q2_K, 256}, {EMBED_Q2_K, 768}, {EMBED_Q3_K, 256},
              {EMBED_Q3_K, 512},  {EMBED_Q4_K, 256},   {EMBED_Q4_K, 768}, {EMBED_Q5_K, 256},  {EMBED_Q5_K, 512}, {EMBED_Q6_K, 256}, {EMBED_Q6_K, 768},
              {EMBED_IQ4_NL, 96}, {EMBED_IQ4_XS, 512}, {EMBED_MXFP4, 32}, {EMBED_MXFP4, 288}, {EMBED_NVFP4, 64}, {EMBED_NVFP4, 320}};

static void logits_are_those_of_the_decoded_rows_at_every_level_and_thread_count(void **state) {
  (void)state;
  embed_context *all[CONTEXTS];
  int count = contexts_new(all);
  const int64_t ns[] = {1, 5, MOST};
  size_t most = (size_t)MOST * VOCAB * sizeof(float);
  float *level = malloc(most), *z = malloc(most);
  for (int s = 0; s < COUNT(shapes); ++s) {
    float bias[VOCAB], *x = random_hidden(shapes[s].dim);
    for (int v = 0; v < VOCAB; ++v) bias[v] = (float)(v % 17) - 8;
    block_head b = block_head_new(all[0], shapes[s].dtype, shapes[s].dim, s % 2 ? bias : NULL, 0);
    for (int k = 0; k < COUNT(ns); ++k)
      for (int c = 0; c < count; ++c) {
        size_t bytes = (size_t)(ns[k] * VOCAB) * sizeof(float);
        memset(z, 0xFF, most);
        OK(embed_logits(all[c], b.h, x, EMBED_F32, ns[k], 0, z, 0, NULL));
        if (c % 3 == 0) { /* contexts come by level, each with 1, 2 and 7 threads */
          memcpy(level, z, bytes);
          check_logits(&b, x, s % 2 ? bias : NULL, z, ns[k]);
          check_ranks(all[c], &b, x, z, ns[k]);
        }
        assert_same_bits(z, level, bytes);
        assert_true(test_all_bytes((char *)z + bytes, most - bytes, 0xFF));
      }
    block_head_free(b);
    free(x);
  }
  free(level);
  free(z);
  contexts_free(all, count);
}

static void blas_heads_multiply_blocks(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  float *z = malloc((size_t)MOST * VOCAB * sizeof *z);
  for (int s = 0; s < COUNT(shapes); ++s) {
    float *x = random_hidden(shapes[s].dim);
    block_head b = block_head_new(ctx, shapes[s].dtype, shapes[s].dim, NULL, EMBED_HEAD_BLAS);
    embed_status status = embed_logits(ctx, b.h, x, EMBED_F32, MOST, 0, z, 0, NULL);
    assert_true(status == EMBED_OK || status == EMBED_E_UNSUPPORTED); /* built without OpenBLAS */
    if (status == EMBED_OK) check_logits(&b, x, NULL, z, MOST);
    block_head_free(b);
    free(x);
  }
  free(z);
  embed_context_release(ctx);
}

/* More than 2^31 weights, nearly all of them a hole that reads as zeros. */
static void products_past_two_to_the_31_weights_are_whole(void **state) {
  (void)state;
  enum { WIDE = 8960, MANY = 262144, FILLED = 2, N = 3 };
  static const embed_dtype dtypes[] = {EMBED_I8_ROW, EMBED_Q8_0};
  static const int32_t filled[FILLED] = {239674, MANY - 1};
#ifdef TEST_SANITIZED
  skip(); /* minutes of checked loads */
#endif
  if (sizeof(size_t) < 8) skip();
  embed_context *ctx = context_new();
  static float x[N * WIDE];
  for (int i = 0; i < N * WIDE; ++i) x[i] = (float)(1 + i / WIDE);
  for (int d = 0; d < 2; ++d) {
    embed_table *t = NULL, *one = NULL;
    embed_head *h = NULL;
    embed_table_options o = {.size = sizeof o, .dtype = dtypes[d]};
    OK(embed_table_create(ctx, 1, WIDE, &o, &one));
    OK(embed_table_init(ctx, one, &(embed_init_options){.size = sizeof(embed_init_options), .kind = EMBED_INIT_CONSTANT, .scale = 0.5f}));
    const size_t row_bytes = (size_t)embed_table_row_bytes(one), bytes = row_bytes * MANY;
    unsigned char *w = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (w == MAP_FAILED) skip();
    for (int i = 0; i < FILLED; ++i) memcpy(w + (size_t)filled[i] * row_bytes, embed_table_data(one), row_bytes);
    o.data_bytes = (int64_t)bytes;
    OK(embed_table_view(ctx, w, MANY, WIDE, &o, NULL, NULL, &t));
    OK(embed_head_create(ctx, t, NULL, NULL, &h));
    int32_t ids[N * FILLED];
    float z[N * FILLED];
    OK(embed_topk(ctx, h, x, EMBED_F32, N, 0, FILLED, ids, z, NULL, NULL, NULL));
    for (int i = 0; i < N * FILLED; ++i) {
      const float want = 0.5f * WIDE * (float)(1 + i / FILLED);
      assert_true(fabsf(z[i] - want) <= 2e-6f * want + (dtypes[d] == EMBED_Q8_0 ? 1e-3f * want : 0)); /* half of 127 steps, a half-float's */
      assert_true(ids[i] == filled[0] || ids[i] == filled[1]);
    }
    embed_head_release(h);
    embed_table_release(t);
    embed_table_release(one);
    munmap(w, bytes);
  }
  embed_context_release(ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logits_are_those_of_the_decoded_rows_at_every_level_and_thread_count),
      cmocka_unit_test(blas_heads_multiply_blocks),
      cmocka_unit_test(products_past_two_to_the_31_weights_are_whole),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
