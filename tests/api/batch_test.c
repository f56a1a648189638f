/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact heads and many hidden rows, where panels are made on the way, by vectors or by tiles: against sums in double. */
#include <math.h>

#include "gather.h"

enum { MOST_N = 140, MOST_VOCAB = 9300, DIM = 100 };
static const embed_dtype types[] = {EMBED_F32, EMBED_F16, EMBED_BF16, EMBED_I8_ROW, EMBED_U8_ROW};
static const int64_t vocabs[] = {7, 70, 1500, MOST_VOCAB}, batches[] = {27, 28, 47, 48, 95, 96, 127, 128, MOST_N};

typedef struct batch {
  float *w, *x, *z, *decoded; /* [vocab, DIM], [MOST_N, DIM], [MOST_N, vocab], and w as it is stored */
} batch;

static batch batch_new(uint64_t seed) {
  batch b = {malloc(sizeof(float) * MOST_VOCAB * DIM), malloc(sizeof(float) * MOST_N * DIM), malloc(sizeof(float) * MOST_N * MOST_VOCAB),
             malloc(sizeof(float) * MOST_VOCAB * DIM)};
  for (int64_t i = 0; i < (int64_t)MOST_VOCAB * DIM; ++i) b.w[i] = test_uniform(&seed);
  for (int64_t i = 0; i < (int64_t)MOST_N * DIM; ++i) b.x[i] = test_uniform(&seed);
  return b;
}
static void batch_free(batch *b) { free(b->w), free(b->x), free(b->z), free(b->decoded); }

static embed_head *head_as(embed_context *ctx, batch *b, embed_dtype dtype, int64_t vocab, uint32_t flags) {
  embed_table *f32 = view_floats(ctx, b->w, vocab, DIM), *t = NULL;
  embed_head *h = NULL;
  const embed_table_options as = {.size = sizeof as, .dtype = dtype};
  const embed_head_options o = {.size = sizeof o, .flags = flags};
  OK(embed_table_convert(ctx, f32, &as, &t));
  for (int64_t v = 0; v < vocab; ++v) OK(embed_table_get_rows(ctx, t, &v, 1, b->decoded + v * DIM, EMBED_F32, 0));
  OK(embed_head_create(ctx, t, NULL, &o, &h));
  embed_table_release(t);
  embed_table_release(f32);
  return h;
}

/* Some columns of every hidden row. */
static void check_logits(const batch *b, int64_t vocab, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t v = i % 13; v < vocab; v += vocab < 100 ? 1 : 61) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < DIM; ++j) {
        const double term = (double)b->decoded[v * DIM + j] * (double)b->x[i * DIM + j];
        sum += term;
        size += fabs(term);
      }
      const double got = (double)b->z[i * vocab + v];
      if (!isfinite(sum) || fabs(sum) > 0x1.fffffep127)
        assert_true(isnan(sum) ? isnan(got) : got == (sum > 0 ? INFINITY : -INFINITY));
      else if (!(fabs(got - sum) <= 2e-6 * size + 0x1p-149 * DIM))
        fail_msg("logit (%d, %d) of %d x %d is %g, not %g", (int)i, (int)v, (int)n, (int)vocab, got, sum);
    }
  }
}

static void logits_of_every_batch_are_right(void **state) {
  batch b = batch_new(1);
  (void)state;
  for (int threads = 1; threads <= 2; ++threads) {
    embed_context *ctx = context_with(NULL, threads);
    for (int k = 0; k < COUNT(types); ++k) {
      for (int v = 0; v < COUNT(vocabs); ++v) {
        embed_head *h = head_as(ctx, &b, types[k], vocabs[v], (k + v) % 2 ? EMBED_HEAD_PREPARE : 0);
        for (int m = 0; m < COUNT(batches); ++m) {
          OK(embed_logits(ctx, h, b.x, EMBED_F32, batches[m], 0, b.z, 0, NULL));
          check_logits(&b, vocabs[v], batches[m]);
        }
        embed_head_release(h);
      }
    }
    embed_context_release(ctx);
  }
  batch_free(&b);
}

/* Table rows with an infinity, NaN, numbers far above and below the others'; then a hidden row with such a number among the others. */
static void numbers_of_every_size_are_what_floats_give(void **state) {
  static const float hard[] = {INFINITY, NAN, 0x1.8p31f, -0x1.2p90f, 0x1.4p-100f, 0x1.6p-140f, -0x1.8p126f};
  static const embed_dtype floats[] = {EMBED_F32, EMBED_BF16};
  enum { VOCAB = 1500 };
  embed_context *ctx = context_with(NULL, 2);
  (void)state;
  for (int k = 0; k < 2; ++k) {
    batch b = batch_new(2);
    for (int i = 0; i < COUNT(hard); ++i) b.w[(100 + 97 * i) * DIM + 5 * i] = hard[i];
    for (int64_t j = 0; j < DIM; ++j) b.w[61 * 17 * DIM + j] *= 0x1p-120f; /* a row of small ones alone */
    embed_head *h = head_as(ctx, &b, floats[k], VOCAB, 0);
    for (int hidden = -1; hidden < COUNT(hard); ++hidden) {
      const float before = b.x[50 * DIM + 3];
      if (hidden >= 0) b.x[50 * DIM + 3] = hard[hidden];
      OK(embed_logits(ctx, h, b.x, EMBED_F32, MOST_N, 0, b.z, 0, NULL));
      check_logits(&b, VOCAB, MOST_N);
      b.x[50 * DIM + 3] = before;
    }
    embed_head_release(h);
    batch_free(&b);
  }
  embed_context_release(ctx);
}

/* One sweep's answers are those of the logits of the same batch, to the bit. */
static void topk_is_of_the_logits(void **state) {
  enum { VOCAB = 3000, K = 5 };
  batch b = batch_new(3);
  embed_context *ctx = context_with(NULL, 2);
  int32_t *ids = malloc(sizeof *ids * MOST_N * K);
  float *best = malloc(sizeof *best * MOST_N * K);
  (void)state;
  for (int k = 0; k < COUNT(types); ++k) {
    embed_head *h = head_as(ctx, &b, types[k], VOCAB, 0);
    for (int m = 0; m < COUNT(batches); ++m) {
      const int64_t n = batches[m];
      OK(embed_logits(ctx, h, b.x, EMBED_F32, n, 0, b.z, 0, NULL));
      OK(embed_topk(ctx, h, b.x, EMBED_F32, n, 0, K, ids, best, NULL, NULL, NULL));
      for (int64_t i = 0; i < n; ++i) {
        for (int r = 0; r < K; ++r) {
          const float value = b.z[i * VOCAB + ids[i * K + r]];
          int64_t above = 0;
          assert_same_bits(&best[i * K + r], &value, 4);
          for (int64_t v = 0; v < VOCAB; ++v) above += b.z[i * VOCAB + v] > value || (b.z[i * VOCAB + v] == value && v < ids[i * K + r]);
          assert_int_equal(above, r);
        }
      }
    }
    embed_head_release(h);
  }
  free(ids), free(best);
  embed_context_release(ctx);
  batch_free(&b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(logits_of_every_batch_are_right),
    cmocka_unit_test(numbers_of_every_size_are_what_floats_give),
    cmocka_unit_test(topk_is_of_the_logits),
};
TEST_MAIN(tests)
