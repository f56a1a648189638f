/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients from looked up rows: what is added where, in which order, and what is refused. Case numbers (LK-09 ..) are those
 * of public bug reports. */
#include <math.h>

#include "counting.h"
#include "gather.h"

static embed_grad *sparse_new(embed_context *ctx, int64_t dim) {
  embed_grad *g = NULL;
  OK(embed_grad_create(ctx, dim, &g));
  return g;
}

static embed_grad *dense_new(embed_context *ctx, int64_t rows, int64_t dim, float *memory, int64_t ld) {
  embed_grad *g = NULL;
  OK(embed_grad_create_dense(ctx, rows, dim, memory, ld, &g));
  return g;
}

static void assert_ids(const embed_grad *g, const int64_t *ids, int64_t n) {
  assert_false(embed_grad_is_dense(g));
  assert_int_equal(embed_grad_rows(g), n);
  if (n) assert_same_bits(embed_grad_ids(g), ids, (size_t)n * sizeof *ids);
}

#define ASSERT_VALUES(g, ...)                                                                      \
  do {                                                                                             \
    const float want_[] = {__VA_ARGS__};                                                           \
    for (int i_ = 0; i_ < COUNT(want_); ++i_) assert_exactly(embed_grad_values(g)[i_], want_[i_]); \
  } while (0)

static void rows_are_unique_ascending_and_summed(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const int32_t ids[] = {7, 1, 1, 2, 1};
  const float d[] = {1, 1, 2, 2, 3, 3, 4, 4, 5, 5};
  embed_grad *g = sparse_new(ctx, 2);
  assert_int_equal(embed_grad_rows(g), 0);
  OK(embed_grad_add(ctx, g, ids, 5, d, 0));
  assert_ids(g, (const int64_t[]){1, 2, 7}, 3);
  ASSERT_VALUES(g, 10, 10, 4, 4, 1, 1);
  OK(embed_grad_add(ctx, g, (const int32_t[]){0, 2, 5, 9}, 4, d, 0)); /* before, there, between, behind */
  assert_ids(g, (const int64_t[]){0, 1, 2, 5, 7, 9}, 6);
  ASSERT_VALUES(g, 1, 1, 10, 10, 6, 6, 3, 3, 1, 1, 4, 4);
  embed_grad_clear(g);
  assert_int_equal(embed_grad_rows(g), 0);
  OK(embed_grad_add(ctx, g, (const int32_t[]){3}, 1, d, 0));
  assert_ids(g, (const int64_t[]){3}, 1);
  ASSERT_VALUES(g, 1, 1);
  embed_grad_release(g);
  embed_context_release(ctx);
}

/* A2a, OP-01: the padding id gets no gradient; nothing but padding leaves no row. */
static void padding_gets_no_gradient(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const int64_t ids[] = {0, 1, 1, 2, 1};
  const float ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  embed_lookup_options o = {.size = sizeof o, .flags = EMBED_LOOKUP_PADDING, .padding_id = 1};
  embed_grad *g = sparse_new(ctx, 2), *dense = dense_new(ctx, 3, 2, NULL, 0);
  OK(embed_lookup_backward(ctx, g, 3, ids, 5, ones, EMBED_F32, 0, &o));
  assert_ids(g, (const int64_t[]){0, 2}, 2);
  ASSERT_VALUES(g, 1, 1, 1, 1);
  OK(embed_lookup_backward(ctx, dense, 3, ids, 5, ones, EMBED_F32, 0, &o));
  ASSERT_VALUES(dense, 1, 1, 0, 0, 1, 1);
  embed_grad_clear(g);
  o.padding_id = -100; /* outside the vocabulary, and no error */
  OK(embed_lookup_backward(ctx, g, 3, (const int64_t[]){-100, -100}, 2, ones, EMBED_F32, 0, &o));
  assert_ids(g, NULL, 0);
  embed_grad_release(g);
  embed_grad_release(dense);
  embed_context_release(ctx);
}

/* A2c */
static void by_frequency_divides_by_the_positions_of_a_row(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const int64_t ids[] = {0, 1, 1, 2, 1};
  const float d[] = {1, 1, 2, 2, 3, 3, 4, 4, 5, 5};
  embed_lookup_options o = {.size = sizeof o, .flags = EMBED_BACKWARD_BY_FREQUENCY};
  embed_grad *g = sparse_new(ctx, 2);
  OK(embed_lookup_backward(ctx, g, 3, ids, 5, d, EMBED_F32, 0, &o));
  ASSERT_VALUES(g, 1, 1, 3.33333349f, 3.33333349f, 4, 4);
  embed_grad_clear(g);
  o.scale = 3; /* one factor for a row: 3 / 3 */
  OK(embed_lookup_backward(ctx, g, 3, ids, 5, d, EMBED_F32, 0, &o));
  ASSERT_VALUES(g, 3, 3, 10, 10, 12, 12);
  int32_t narrow[] = {0};
  float out[2];
  embed_table *t = view_floats(ctx, d, 5, 2);
  assert_int_equal(embed_lookup(ctx, t, narrow, 1, out, EMBED_F32, 0, &o), EMBED_E_OPTION); /* the flag is of the backward calls */
  embed_table_release(t);
  embed_grad_release(g);
  embed_context_release(ctx);
}

/* LK-18: sums are f32, whatever comes in. */
static void sums_of_bfloats_do_not_stop_growing(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  enum { N = 35000, DIM = 2 };
  static int64_t ids[N];
  static uint16_t ones[N * DIM];
  for (int i = 0; i < N; ++i) ids[i] = i % 35;
  for (int i = 0; i < N * DIM; ++i) ones[i] = 0x3F80;
  embed_grad *g = sparse_new(ctx, DIM), *one = sparse_new(ctx, DIM);
  OK(embed_lookup_backward(ctx, g, 40, ids, N, ones, EMBED_BF16, 0, NULL));
  assert_int_equal(embed_grad_rows(g), 35);
  for (int i = 0; i < 35 * DIM; ++i) assert_exactly(embed_grad_values(g)[i], 1000);
  memset(ids, 0, sizeof ids);
  OK(embed_lookup_backward(ctx, one, 2, ids, 1000, ones, EMBED_BF16, 0, NULL));
  assert_ids(one, (const int64_t[]){0}, 1);
  ASSERT_VALUES(one, 1000, 1000);
  embed_grad_release(g);
  embed_grad_release(one);
  embed_context_release(ctx);
}

/* What a plain loop makes of a list, in the documented order: g [vocab, dim]. */
static void add_plainly(float *g, int64_t dim, const int64_t *rows, int64_t n, const void *d, embed_dtype dtype, int64_t ld, float scale, bool by_frequency) {
  for (int64_t i = 0; i < n; ++i) {
    if (rows[i] < 0) continue;
    int64_t count = 0;
    for (int64_t k = 0; by_frequency && k < n; ++k) count += rows[k] == rows[i];
    float weight = by_frequency ? (float)((double)scale / (double)count) : scale;
    for (int64_t c = 0; c < dim; ++c) {
      float product = weight * value_at(d, dtype, i * ld + c);
      g[rows[i] * dim + c] += product;
    }
  }
}

typedef struct shape {
  int64_t n, dim, vocab, gap;
} shape;

static void assert_rows_are(const embed_grad *g, int64_t dim, int64_t ld, const float *want, const int64_t *rows, int64_t n, int64_t vocab) {
  int64_t distinct = 0;
  char *named = calloc((size_t)vocab, 1);
  for (int64_t i = 0; i < n; ++i) {
    if (rows[i] < 0) continue;
    distinct += !named[rows[i]];
    named[rows[i]] = 1;
  }
  if (!embed_grad_is_dense(g)) assert_int_equal(embed_grad_rows(g), distinct);
  for (int64_t i = 0, before = -1; i < embed_grad_rows(g); ++i) {
    int64_t row = embed_grad_is_dense(g) ? i : embed_grad_ids(g)[i];
    assert_true(row > before && row < vocab && (embed_grad_is_dense(g) || named[row]));
    before = row;
    assert_same_bits(embed_grad_values(g) + i * ld, want + row * dim, (size_t)dim * sizeof(float));
  }
  free(named);
}

/* Every level, every thread count, sparse and dense, every dtype, buffers that end at unreadable pages: the plain loop's
 * bits. The list comes in two calls, the second into rows that are there, before them and between them. */
static void check_shape(embed_context **all, int contexts, shape s, embed_dtype dtype, float scale, bool by_frequency) {
  uint64_t random = 77 + (uint64_t)s.n * 31 + (uint64_t)s.dim;
  const int64_t ld = s.dim + s.gap, first = by_frequency ? s.n : s.n / 3;
  guarded d = guarded_new((size_t)(((s.n - 1) * ld + s.dim) * size_of(dtype)), 1), ids_at = guarded_new((size_t)s.n * 8, 1);
  int64_t *ids = (int64_t *)(void *)ids_at.at;
  float *want = calloc((size_t)(s.vocab * s.dim), sizeof *want);
  for (int64_t i = 0; i < s.n; ++i) ids[i] = (int64_t)(test_random(&random) >> 33) % s.vocab * ((test_random(&random) >> 60) > 3); /* row 0 often */
  for (int64_t i = 0; i < (s.n - 1) * ld + s.dim; ++i) {
    float x = test_uniform(&random);
    uint32_t bits;
    memcpy(&bits, &x, 4);
    uint16_t half = (uint16_t)(dtype == EMBED_BF16 ? bits >> 16 : 0x3000u + (bits >> 19)); /* any number will do */
    memcpy(d.at + i * size_of(dtype), dtype == EMBED_F32 ? (void *)&x : (void *)&half, (size_t)size_of(dtype));
  }
  embed_lookup_options o = {.size = sizeof o, .scale = scale, .flags = by_frequency ? EMBED_BACKWARD_BY_FREQUENCY : 0};
  add_plainly(want, s.dim, ids, s.n, d.at, dtype, ld, scale, by_frequency);
  for (int c = 0; c < contexts; ++c) {
    guarded memory = guarded_new((size_t)((s.vocab - 1) * ld + s.dim) * sizeof(float), 1);
    memset(memory.at, 0, (size_t)((s.vocab - 1) * ld + s.dim) * sizeof(float));
    for (int64_t r = 0; r + 1 < s.vocab; ++r) memset(memory.at + (r * ld + s.dim) * 4, 0xA5, (size_t)s.gap * 4);
    embed_grad *both[] = {sparse_new(all[c], s.dim), dense_new(all[c], s.vocab, s.dim, (float *)(void *)memory.at, ld)};
    for (int k = 0; k < 2; ++k) {
      if (first) OK(embed_lookup_backward(all[c], both[k], s.vocab, ids, first, d.at, dtype, ld, &o));
      OK(embed_lookup_backward(all[c], both[k], s.vocab, ids + first, s.n - first, d.at + first * ld * size_of(dtype), dtype, ld, &o));
      assert_rows_are(both[k], s.dim, k ? ld : s.dim, want, ids, s.n, s.vocab);
      embed_grad_release(both[k]);
    }
    for (int64_t r = 0; r + 1 < s.vocab; ++r) assert_true(test_all_bytes(memory.at + (r * ld + s.dim) * 4, (size_t)s.gap * 4, 0xA5));
    guarded_free(memory);
  }
  free(want);
  guarded_free(d);
  guarded_free(ids_at);
}

static void every_shape_and_dtype_gives_a_plain_loops_bits_at_every_level_and_thread_count(void **state) {
  (void)state;
  static const shape shapes[] = {{1, 1, 1, 0}, {5, 3, 4, 0}, {40, 17, 9, 2}, {300, 33, 1000, 0}, {300, 64, 50, 5}, {700, 100, 300, 0}, {64, 768, 40, 0}};
  embed_context *all[CONTEXTS];
  int contexts = contexts_new(all);
  for (int s = 0; s < COUNT(shapes); ++s)
    for (int d = 0; d < COUNT(float_dtypes); ++d) {
      check_shape(all, contexts, shapes[s], float_dtypes[d], 1.0f, false);
      check_shape(all, contexts, shapes[s], float_dtypes[d], 0.3f, false);
      if (shapes[s].n <= 300) check_shape(all, contexts, shapes[s], float_dtypes[d], 1.7f, true);
    }
  contexts_free(all, contexts);
}

/* Enough for many tasks; one row with half of the list, which several tasks share by columns; more than goes past caches. */
static void long_lists_give_a_plain_loops_bits_for_every_thread_count(void **state) {
  (void)state;
  enum { N = 9000, DIM = 528, VOCAB = 8800 }; /* rows of whole cache lines */
  embed_context *all[3] = {context_with(NULL, 1), context_with(NULL, 2), context_with(NULL, 7)};
  int32_t *ids = malloc(N * sizeof *ids);
  float *d = malloc((size_t)N * DIM * sizeof *d), *want = calloc((size_t)VOCAB * DIM, sizeof *want);
  uint64_t random = 4;
  for (int64_t i = 0; i < (int64_t)N * DIM; ++i) d[i] = test_uniform(&random);
  for (int heavy = 0; heavy < 2; ++heavy) {
    for (int i = 0; i < N; ++i) ids[i] = heavy && i % 2 ? 17 : (int32_t)((test_random(&random) >> 33) % VOCAB);
    if (!heavy)
      for (int i = 0; i < VOCAB; ++i) ids[i] = VOCAB - 1 - i; /* 18 MB of rows */
    memset(want, 0, (size_t)VOCAB * DIM * sizeof *want);
    for (int i = 0; i < N; ++i)
      for (int c = 0; c < DIM; ++c) want[(int64_t)ids[i] * DIM + c] += d[(int64_t)i * DIM + c];
    for (int c = 0; c < 3; ++c) {
      embed_grad *g = sparse_new(all[c], DIM), *dense = dense_new(all[c], VOCAB, DIM, NULL, 0);
      OK(embed_grad_add(all[c], g, ids, N, d, 0));
      OK(embed_grad_add(all[c], dense, ids, N, d, 0));
      for (int64_t i = 0; i < embed_grad_rows(g); ++i) assert_same_bits(embed_grad_values(g) + i * DIM, want + embed_grad_ids(g)[i] * DIM, DIM * sizeof *want);
      assert_same_bits(embed_grad_values(dense), want, (size_t)VOCAB * DIM * sizeof *want);
      embed_grad_release(g);
      embed_grad_release(dense);
    }
  }
  free(ids);
  free(d);
  free(want);
  contexts_free(all, 3);
}

static void sums_begin_at_plus_zero_and_keep_what_is_not_finite_in_its_row(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const float d[] = {-0.0f, NAN, -0.0f, INFINITY, -1, 2, -INFINITY, 1};
  embed_grad *g = sparse_new(ctx, 2);
  OK(embed_grad_add(ctx, g, (const int32_t[]){4, 2, 3, 2}, 4, d, 0));
  const float *v = embed_grad_values(g);
  assert_true(v[0] == -INFINITY && v[1] == INFINITY && v[2] == -1 && v[3] == 2);
  assert_exactly(v[4], 0);
  assert_false(signbit(v[4]));
  assert_true(isnan(v[5]));
  embed_grad_release(g);
  embed_context_release(ctx);
}

/* Rows of more bits than a key has room for, hashed rows, the greatest of all. */
static void rows_past_two_to_the_31_are_told_apart(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const int64_t big = (int64_t)1 << 40, most = INT64_MAX - 1;
  const int64_t ids[] = {most, big, 3, big + 1, most, 3 + ((int64_t)1 << 61), most - 1, 3};
  const float d[] = {1, 2, 3, 4, 5, 6, 7, 8};
  embed_grad *g = sparse_new(ctx, 1);
  OK(embed_lookup_backward(ctx, g, INT64_MAX, ids, 8, d, EMBED_F32, 0, NULL));
  assert_ids(g, (const int64_t[]){3, big, big + 1, 3 + ((int64_t)1 << 61), most - 1, most}, 6);
  ASSERT_VALUES(g, 11, 2, 4, 6, 7, 6);
  embed_grad_release(g);
  embed_context_release(ctx);
}

/* The gradient of an id goes to the row that the lookup reads: a table whose row r holds r tells which. */
static void every_policy_adds_to_the_row_that_was_read(void **state) {
  (void)state;
  enum { VOCAB = 11, N = 9 };
  embed_context *ctx = context_new();
  float w[VOCAB], d[N], out[N], plus_one[VOCAB];
  const int64_t ids[N] = {3, 11, -1, 10, 1000, 0, INT64_MIN, INT64_MAX, 5};
  for (int i = 0; i < VOCAB; ++i) plus_one[i] = (w[i] = (float)i) + 1;
  for (int i = 0; i < N; ++i) d[i] = (float)(1 << i);
  embed_table *t = view_floats(ctx, plus_one, VOCAB, 1);
  for (embed_oov_policy oov = EMBED_OOV_UNK; oov <= EMBED_OOV_HASH; ++oov) {
    embed_lookup_options o = {.size = sizeof o, .flags = EMBED_LOOKUP_PADDING, .oov = oov, .unk_id = 7, .padding_id = 5};
    embed_grad *g = dense_new(ctx, VOCAB, 1, NULL, 0);
    float want[VOCAB] = {0};
    OK(embed_lookup_i64(ctx, t, ids, N, out, EMBED_F32, 0, &o));
    int64_t replaced = embed_replaced_ids(ctx);
    OK(embed_lookup_backward(ctx, g, VOCAB, ids, N, d, EMBED_F32, 0, &o));
    assert_int_equal(embed_replaced_ids(ctx), replaced); /* the lookup's */
    for (int i = 0; i < N; ++i)
      if (out[i] != 0) want[(int)out[i] - 1] += d[i];
    assert_same_bits(embed_grad_values(g), want, sizeof want);
    embed_grad_release(g);
  }
  embed_table_release(t);
  embed_context_release(ctx);
}

/* scale_round: Gemma's sqrt(3072) is 55.5 in bf16; the product is not rounded. max_norm and ADD change nothing. */
static void scale_is_that_of_the_lookup_and_max_norm_lets_gradients_pass(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const int64_t ids[] = {0};
  const float d[] = {1.00390625f, -3};
  embed_lookup_options o = {.size = sizeof o, .scale = 55.4256248f, .scale_round = EMBED_BF16};
  embed_grad *g = sparse_new(ctx, 2);
  OK(embed_lookup_backward(ctx, g, 1, ids, 1, d, EMBED_F32, 0, &o));
  ASSERT_VALUES(g, 55.5f * 1.00390625f, 55.5f * -3);
  embed_grad_clear(g);
  o = (embed_lookup_options){.size = sizeof o, .max_norm = 1e-3f, .flags = EMBED_LOOKUP_ADD};
  OK(embed_lookup_backward(ctx, g, 1, ids, 1, d, EMBED_F32, 0, &o));
  ASSERT_VALUES(g, 1.00390625f, -3);
  embed_grad_release(g);
  embed_context_release(ctx);
}

/* LK-09 and its kin: refused with the position, and the gradient has its bits. */
static void what_cannot_be_added_is_refused_and_changes_nothing(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const float d[] = {1, 2, 3, 4, 5, 6};
  float memory[6] = {9, 9, 9, 9, 9, 9};
  embed_grad *g = sparse_new(ctx, 2), *dense = dense_new(ctx, 3, 2, memory, 0), *none = dense_new(ctx, 0, 2, NULL, 0);
  OK(embed_grad_add(ctx, g, (const int32_t[]){1}, 1, d, 0));
  embed_grad *both[] = {g, dense};
  for (int k = 0; k < 2; ++k) {
    assert_int_equal(embed_lookup_backward(ctx, both[k], 3, (const int64_t[]){0, 7, 1}, 3, d, EMBED_F32, 0, NULL), EMBED_E_ID);
    assert_int_equal(embed_error_at(ctx), 1);
    assert_says(ctx, "id 7 at position 1 is outside the vocabulary of 3 rows");
    assert_int_equal(embed_grad_add(ctx, both[k], (const int32_t[]){0, 1, -1}, 3, d, 0), EMBED_E_ID);
    assert_int_equal(embed_error_at(ctx), 2);
    assert_int_equal(embed_lookup_backward(ctx, both[k], 3, (const int64_t[]){0}, -1, d, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
    assert_int_equal(embed_lookup_backward(ctx, both[k], 3, (const int64_t[]){0}, 1, d, EMBED_I8_ROW, 0, NULL), EMBED_E_ARGUMENT);
    assert_int_equal(embed_lookup_backward(ctx, both[k], 3, (const int64_t[]){0}, 1, d, EMBED_F32, 1, NULL), EMBED_E_ARGUMENT);
    assert_int_equal(embed_lookup_backward(ctx, both[k], -1, (const int64_t[]){0}, 1, d, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
    assert_int_equal(embed_lookup_backward(ctx, both[k], 3, NULL, 1, d, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
    assert_int_equal(embed_lookup_backward(ctx, both[k], 3, (const int64_t[]){0}, 1, NULL, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
    assert_int_equal(embed_lookup_backward(ctx, both[k], 3, (const int64_t[]){0}, (int64_t)1 << 61, d, EMBED_F32, 0, NULL), EMBED_E_OVERFLOW);
    assert_int_equal(embed_grad_add(ctx, both[k], NULL, 1, d, 0), EMBED_E_ARGUMENT);
    assert_int_equal(embed_grad_add(ctx, both[k], (const int32_t[]){0}, 1, NULL, 0), EMBED_E_ARGUMENT);
    assert_int_equal(embed_grad_add(ctx, both[k], (const int32_t[]){0}, 1, d, 1), EMBED_E_ARGUMENT);
    const embed_lookup_options wrong[] = {{.size = sizeof *wrong, .scale = NAN},
                                          {.size = sizeof *wrong, .max_norm = -1},
                                          {.size = sizeof *wrong, .oov = 9},
                                          {.size = sizeof *wrong, .oov = EMBED_OOV_UNK, .unk_id = 3},
                                          {.size = sizeof *wrong, .scale_round = EMBED_Q8_0}};
    for (int w = 0; w < COUNT(wrong); ++w)
      assert_int_equal(embed_lookup_backward(ctx, both[k], 3, (const int64_t[]){0}, 1, d, EMBED_F32, 0, &wrong[w]), EMBED_E_OPTION);
    OK(embed_grad_add(ctx, both[k], NULL, 0, NULL, 0));
    OK(embed_lookup_backward(ctx, both[k], 3, NULL, 0, NULL, EMBED_F32, 0, NULL));
  }
  assert_int_equal(embed_lookup_backward(ctx, dense, 4, (const int64_t[]){0}, 1, d, EMBED_F32, 0, NULL), EMBED_E_MISMATCH);
  assert_says(ctx, "3 rows for a vocabulary of 4");
  assert_int_equal(embed_grad_add(ctx, dense, (const int32_t[]){2, 3}, 2, d, 0), EMBED_E_ID);
  assert_int_equal(embed_lookup_backward(ctx, none, 0, (const int64_t[]){100000000000000000}, 1, d, EMBED_F32, 0, NULL), EMBED_E_ID);
  embed_lookup_options clamp = {.size = sizeof clamp, .oov = EMBED_OOV_CLAMP};
  assert_int_equal(embed_lookup_backward(ctx, none, 0, (const int64_t[]){1}, 1, d, EMBED_F32, 0, &clamp), EMBED_E_ID);
  assert_ids(g, (const int64_t[]){1}, 1);
  ASSERT_VALUES(g, 1, 2);
  for (int i = 0; i < 6; ++i) assert_exactly(memory[i], 9);
  embed_grad_release(g);
  embed_grad_release(dense);
  embed_grad_release(none);
  embed_context_release(ctx);
}

static void gradients_refuse_shapes_that_are_none(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  float memory[4] = {1, 2, 3, 4};
  embed_grad *g = (embed_grad *)(uintptr_t)8;
  assert_int_equal(embed_grad_create(ctx, 0, &g), EMBED_E_ARGUMENT);
  assert_null(g);
  assert_int_equal(embed_grad_create_dense(ctx, -1, 2, NULL, 0, &g), EMBED_E_ARGUMENT);
  assert_int_equal(embed_grad_create_dense(ctx, 2, -2, NULL, 0, &g), EMBED_E_ARGUMENT);
  assert_int_equal(embed_grad_create_dense(ctx, 2, 2, memory, 1, &g), EMBED_E_ARGUMENT);
  assert_int_equal(embed_grad_create_dense(ctx, (int64_t)1 << 60, 16, NULL, 0, &g), EMBED_E_OVERFLOW);
  assert_null(g);
  assert_int_equal(embed_grad_add(ctx, NULL, NULL, 0, NULL, 0), EMBED_E_ARGUMENT);
  assert_int_equal(embed_lookup_backward(ctx, NULL, 1, NULL, 0, NULL, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  g = dense_new(ctx, 2, 2, memory, 0); /* the caller's numbers stay until they are cleared */
  assert_int_equal(embed_grad_is_dense(g), 1);
  assert_int_equal(embed_grad_rows(g), 2);
  assert_null(embed_grad_ids(g));
  assert_ptr_equal(embed_grad_values(g), memory);
  assert_null(embed_grad_bias(g));
  ASSERT_VALUES(g, 1, 2, 3, 4);
  embed_grad_clear(g);
  ASSERT_VALUES(g, 0, 0, 0, 0);
  embed_grad_release(g);
  embed_context_release(ctx);
}

static void merging_adds_both_forms_with_a_scale(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const float d[] = {1, 2, 3, 4, 5, 6};
  for (int from_dense = 0; from_dense < 2; ++from_dense)
    for (int dense = 0; dense < 2; ++dense) {
      embed_grad *from = from_dense ? dense_new(ctx, 3, 2, NULL, 4) : sparse_new(ctx, 2), *g = dense ? dense_new(ctx, 4, 2, NULL, 3) : sparse_new(ctx, 2);
      embed_merge_options half = {.size = sizeof half, .scale = 0.5}, nothing = {.size = sizeof nothing, .flags = EMBED_MERGE_SCALE_ZERO};
      OK(embed_grad_add(ctx, from, (const int32_t[]){2, 0, 2}, 3, d, 0)); /* 2: 6 8, 0: 3 4 */
      for (int32_t r = 0; r < 4; ++r) OK(embed_grad_add(ctx, g, &r, 1, d, 0));
      embed_grad_clear(g); /* what was there is not there any more */
      OK(embed_grad_add(ctx, g, (const int32_t[]){1, 2, 3}, 3, d, 0));
      OK(embed_grad_merge(ctx, g, from, &nothing));
      OK(embed_grad_merge(ctx, g, from, &half));
      OK(embed_grad_merge(ctx, g, from, NULL));
      const float want[4][2] = {{4.5f, 6}, {1, 2}, {3 + 9, 4 + 12}, {5, 6}};
      assert_int_equal(embed_grad_rows(g), 4);
      for (int i = 0; i < 4; ++i)
        for (int c = 0; c < 2; ++c) assert_exactly(embed_grad_values(g)[i * (dense ? 3 : 2) + c], want[i][c]);
      embed_grad_release(from);
      embed_grad_release(g);
    }
  embed_grad *g = dense_new(ctx, 2, 2, NULL, 0), *from = sparse_new(ctx, 2), *other = sparse_new(ctx, 3);
  OK(embed_grad_merge(ctx, g, from, NULL)); /* of nothing */
  OK(embed_grad_add(ctx, from, (const int32_t[]){2}, 1, d, 0));
  assert_int_equal(embed_grad_merge(ctx, g, from, NULL), EMBED_E_MISMATCH);
  assert_int_equal(embed_grad_merge(ctx, g, other, NULL), EMBED_E_MISMATCH);
  assert_int_equal(embed_grad_merge(ctx, g, g, NULL), EMBED_E_ARGUMENT);
  embed_merge_options wrong = {.size = sizeof wrong, .scale = NAN};
  assert_int_equal(embed_grad_merge(ctx, g, from, &wrong), EMBED_E_OPTION);
  wrong = (embed_merge_options){.size = sizeof wrong, .flags = EMBED_MERGE_SCALE_ZERO, .scale = 1};
  assert_int_equal(embed_grad_merge(ctx, g, from, &wrong), EMBED_E_OPTION);
  wrong.scale = 0; /* adding nothing asks for gradients that could be added */
  assert_int_equal(embed_grad_merge(ctx, g, g, &wrong), EMBED_E_ARGUMENT);
  assert_int_equal(embed_grad_merge(ctx, g, other, &wrong), EMBED_E_MISMATCH);
  assert_int_equal(embed_grad_merge(ctx, NULL, from, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_grad_merge(ctx, g, NULL, NULL), EMBED_E_ARGUMENT);
  ASSERT_VALUES(g, 0, 0, 0, 0);
  embed_grad_release(g);
  embed_grad_release(from);
  embed_grad_release(other);
  embed_context_release(ctx);
}

static void clipping_keeps_to_both_limits(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const float d[] = {3, 4, 0.3f, 0.4f};
  double norm = 0;
  embed_grad *g = sparse_new(ctx, 2);
  OK(embed_grad_clip(ctx, g, &norm, NULL));
  assert_true(norm == 0);
  OK(embed_grad_add(ctx, g, (const int32_t[]){5, 9}, 2, d, 0));
  OK(embed_grad_clip(ctx, g, &norm, NULL)); /* measures, clips nothing */
  assert_true(fabs(norm - sqrt(25.25)) < 1e-6);
  ASSERT_VALUES(g, 3, 4, 0.3f, 0.4f);
  embed_clip_options o = {.size = sizeof o, .max_row_norm = 1};
  OK(embed_grad_clip(ctx, g, &norm, &o));
  assert_true(fabs(norm - sqrt(25.25)) < 1e-6);
  const float factor = (float)(1 / (5 + 1e-6));
  ASSERT_VALUES(g, 3 * factor, 4 * factor, 0.3f, 0.4f);
  o = (embed_clip_options){.size = sizeof o, .max_norm = 0.5};
  OK(embed_grad_clip(ctx, g, &norm, &o));
  assert_true(fabs(norm - sqrt(1.25)) < 1e-6);
  OK(embed_grad_clip(ctx, g, &norm, NULL));
  assert_true(norm <= 0.5 && norm > 0.4999);
  const float before[] = {embed_grad_values(g)[0], embed_grad_values(g)[3]};
  o = (embed_clip_options){.size = sizeof o, .max_norm = NAN};
  assert_int_equal(embed_grad_clip(ctx, g, &norm, &o), EMBED_E_OPTION);
  o = (embed_clip_options){.size = sizeof o, .max_row_norm = -1};
  assert_int_equal(embed_grad_clip(ctx, g, &norm, &o), EMBED_E_OPTION);
  OK(embed_grad_add(ctx, g, (const int32_t[]){7}, 1, (const float[]){1, NAN}, 0));
  o = (embed_clip_options){.size = sizeof o, .max_norm = 1e-3, .max_row_norm = 1e-3};
  norm = -7;
  assert_int_equal(embed_grad_clip(ctx, g, &norm, &o), EMBED_E_NONFINITE);
  assert_int_equal(embed_error_at(ctx), 7); /* the table's row */
  assert_says(ctx, "row 7");
  assert_true(norm == -7);
  assert_exactly(embed_grad_values(g)[0], before[0]);
  assert_exactly(embed_grad_values(g)[5], before[1]);
  assert_int_equal(embed_grad_clip(ctx, NULL, &norm, &o), EMBED_E_ARGUMENT);
  embed_grad_release(g);
  embed_context_release(ctx);
}

/* E4 */
static void the_share_of_a_tied_gradient_has_the_published_numbers(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const float d[] = {1, -1, 0.5f, 0.25f, 2, 3}, ones[] = {1, 1, 1, 1, 1, 1};
  const int64_t counts[] = {10, 3, 1}, edges[] = {2, 10};
  double bands[3][3];
  embed_grad *in = sparse_new(ctx, 2), *out = dense_new(ctx, 3, 2, NULL, 0), *empty = sparse_new(ctx, 2);
  embed_share s = {.size = sizeof s};
  OK(embed_grad_share(ctx, empty, empty, NULL, EMBED_F32, 0, 0, &s, NULL, NULL));
  assert_true(s.norm_share == 0 && s.energy_share == 0 && s.cosine == 0 && s.positions_share == 0);
  OK(embed_grad_add(ctx, in, (const int32_t[]){0, 2, 0}, 3, d, 0));
  OK(embed_grad_add(ctx, out, (const int32_t[]){0, 1, 2}, 3, ones, 0));
  embed_share_options o = {.size = sizeof o, .rows = 3, .bands = 3, .counts = counts, .edges = edges};
  OK(embed_grad_share(ctx, in, out, d, EMBED_F32, 3, 0, &s, &bands[0][0], &o));
  assert_true(fabs(s.norm_share - 0.4016795165) < 1e-9);
  assert_true(fabs(s.positions_share - 0.3849819872) < 1e-10);
  assert_true(fabs(s.energy_share - 0.3106796117) < 1e-10);
  assert_true(fabs(s.input_norm - sqrt(13.3125)) < 1e-12 && fabs(s.output_norm - sqrt(6)) < 1e-12 && fabs(s.positions_norm - sqrt(15.3125)) < 1e-12);
  assert_true(fabs(s.cosine - 5.75 / sqrt(13.3125 * 6)) < 1e-12);
  assert_int_equal(s.input_rows, 2);
  assert_int_equal(s.output_rows, 3);
  const double want[3][3] = {{0.3125, 2, 0.75}, {0, 2, 0}, {13, 2, 5}}; /* rows 2, 1, 0 */
  for (int b = 0; b < 3; ++b)
    for (int k = 0; k < 3; ++k) assert_true(bands[b][k] == want[b][k]);
  embed_share swapped = {.size = sizeof swapped};
  embed_share self = {.size = sizeof self};
  OK(embed_grad_share(ctx, in, in, NULL, EMBED_F32, 0, 0, &self, NULL, NULL)); /* one gradient is half of itself and itself */
  assert_true(self.input_norm == s.input_norm && self.output_norm == s.input_norm && self.norm_share == 0.5 && self.energy_share == 0.5);
  assert_true(fabs(self.cosine - 1) < 1e-12);
  OK(embed_grad_share(ctx, out, in, NULL, EMBED_F32, 0, 0, &swapped, NULL, NULL)); /* either may be sparse */
  assert_true(fabs(swapped.norm_share - (1 - s.norm_share)) < 1e-12 && swapped.cosine == s.cosine && swapped.positions_norm == 0);
  memset(bands, 0xA5, sizeof bands);
  memset((char *)&s + 4, 0xA5, sizeof s - 4);
  const embed_share_options wrong[] = {{.size = sizeof o, .bands = -1},
                                       {.size = sizeof o, .bands = 5000},
                                       {.size = sizeof o, .bands = 2},
                                       {.size = sizeof o, .rows = -1},
                                       {.size = sizeof o, .rows = 3, .bands = 3, .counts = counts, .edges = (const int64_t[]){2, 1}}};
  for (int i = 0; i < COUNT(wrong); ++i) assert_int_equal(embed_grad_share(ctx, in, out, NULL, EMBED_F32, 0, 0, &s, &bands[0][0], &wrong[i]), EMBED_E_OPTION);
  o.rows = 2;
  assert_int_equal(embed_grad_share(ctx, in, out, NULL, EMBED_F32, 0, 0, &s, &bands[0][0], &o), EMBED_E_MISMATCH);
  embed_grad *other = sparse_new(ctx, 3);
  assert_int_equal(embed_grad_share(ctx, in, other, NULL, EMBED_F32, 0, 0, &s, &bands[0][0], NULL), EMBED_E_MISMATCH);
  assert_int_equal(embed_grad_share(ctx, in, out, d, EMBED_F32, -1, 0, &s, &bands[0][0], NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_grad_share(ctx, in, out, NULL, EMBED_F32, 0, 0, NULL, &bands[0][0], NULL), EMBED_E_ARGUMENT);
  assert_true(test_all_bytes(bands, sizeof bands, 0xA5) && test_all_bytes((char *)&s + 4, sizeof s - 4, 0xA5));
  s.size = 4;
  assert_int_equal(embed_grad_share(ctx, in, out, NULL, EMBED_F32, 0, 0, &s, &bands[0][0], NULL), EMBED_E_OPTION);
  assert_true(test_all_bytes(bands, sizeof bands, 0xA5));
  embed_grad_release(in);
  embed_grad_release(out);
  embed_grad_release(empty);
  embed_grad_release(other);
  embed_context_release(ctx);
}

/* Norms, clipping and shares of many rows. */
static void measures_do_not_depend_on_threads_or_levels(void **state) {
  (void)state;
  enum { N = 3000, DIM = 70 };
  embed_context *all[CONTEXTS];
  int contexts = contexts_new(all);
  static int32_t ids[N];
  static float d[N * DIM], values[2][N * DIM];
  double norms[2] = {0};
  embed_share shares[2];
  uint64_t random = 9;
  for (int i = 0; i < N; ++i) ids[i] = (int32_t)((test_random(&random) >> 33) % 100000);
  for (int i = 0; i < N * DIM; ++i) d[i] = test_uniform(&random);
  for (int c = 0; c < contexts; ++c) {
    int k = c > 0;
    embed_grad *g = sparse_new(all[c], DIM), *head = dense_new(all[c], 100000, DIM, NULL, 0);
    OK(embed_grad_add(all[c], g, ids, N, d, 0));
    OK(embed_grad_add(all[c], head, ids, N / 2, d, 0));
    OK(embed_grad_merge(all[c], head, g, &(embed_merge_options){.size = sizeof(embed_merge_options), .scale = 0.3}));
    OK(embed_grad_clip(all[c], g, &norms[k], &(embed_clip_options){.size = sizeof(embed_clip_options), .max_row_norm = 5, .max_norm = 200}));
    shares[k] = (embed_share){.size = sizeof shares[k]};
    OK(embed_grad_share(all[c], g, head, d, EMBED_F32, N, 0, &shares[k], NULL, NULL));
    memcpy(values[k], embed_grad_values(g), (size_t)embed_grad_rows(g) * DIM * sizeof(float));
    if (k) {
      assert_same_bits(&norms[1], &norms[0], sizeof norms[0]);
      assert_same_bits(&shares[1], &shares[0], sizeof shares[0]);
      assert_same_bits(values[1], values[0], sizeof values[0]);
    }
    embed_grad_release(g);
    embed_grad_release(head);
  }
  contexts_free(all, contexts);
}

/* Every allocation fails once, in calls that make rows, move rows and grow: the gradient has the rows and bits it had. */
static void a_failed_allocation_leaves_the_gradient_as_it_was(void **state) {
  (void)state;
  enum { DIM = 5, N = 40 };
  float d[N * DIM];
  uint64_t random = 8;
  for (int i = 0; i < N * DIM; ++i) d[i] = test_uniform(&random);
  int32_t ids[N];
  int64_t wide[N], offsets[] = {0, 10, 40};
  for (int i = 0; i < N; ++i) wide[i] = ids[i] = (i * 7) % 29;
  for (int which = 0; which < 4; ++which)
    for (int k = 0;; ++k) {
      counting c;
      counting_start(&c);
      embed_context *ctx = counting_context(&c, NULL);
      embed_grad *g = sparse_new(ctx, DIM), *from = sparse_new(ctx, DIM);
      OK(embed_grad_add(ctx, g, (const int32_t[]){3, 8}, 2, d, 0));
      OK(embed_grad_add(ctx, from, ids, N, d, 0));
      embed_context_trim(ctx);
      embed_table *t = view_floats(ctx, d, 29, DIM);
      float values[2 * DIM], d_weights[N];
      memset(d_weights, 0xA5, sizeof d_weights);
      memcpy(values, embed_grad_values(g), sizeof values);
      atomic_store(&c.fail_at, k);
      embed_bag_options bag = {.size = sizeof bag, .mode = which == 2 ? EMBED_BAG_MAX : EMBED_BAG_WEIGHTED_MEAN};
      embed_status status = which == 0   ? embed_grad_add(ctx, g, ids, N, d, 0)
                            : which == 1 ? embed_grad_merge(ctx, g, from, NULL)
                                         : embed_bag_backward(ctx, g, t, wide, N, offsets, 2, NULL, d, EMBED_F32, 0, which == 2 ? NULL : d_weights, &bag);
      bool failed = atomic_load(&c.fail_at) < 0;
      atomic_store(&c.fail_at, -1);
      assert_int_equal(status, failed ? EMBED_E_MEMORY : EMBED_OK);
      if (failed) {
        assert_ids(g, (const int64_t[]){3, 8}, 2);
        assert_same_bits(embed_grad_values(g), values, sizeof values);
        assert_true(test_all_bytes(d_weights, sizeof d_weights, 0xA5));
        OK(embed_grad_add(ctx, g, ids, N, d, 0)); /* and it can be done */
      }
      assert_int_equal(embed_grad_rows(g), 29);
      embed_table_release(t);
      embed_grad_release(g);
      embed_grad_release(from);
      embed_context_release(ctx);
      counting_check(&c);
      if (!failed) break;
      assert_true(k < 100);
    }
}

/* Once rows and scratch are there. */
static void warm_steps_allocate_nothing(void **state) {
  (void)state;
  enum { DIM = 16, N = 100 };
  counting c;
  counting_start(&c);
  embed_context *ctx = counting_context(&c, NULL);
  embed_grad *g = sparse_new(ctx, DIM);
  static float d[N * DIM];
  int32_t ids[N];
  int64_t warm = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < N; ++i) ids[i] = (i * 31 + round) % 1000;
    int64_t before = atomic_load(&c.calls);
    embed_grad_clear(g);
    OK(embed_grad_add(ctx, g, ids, N, d, 0));
    warm = atomic_load(&c.calls) - before;
  }
  assert_int_equal(warm, 0);
  embed_grad_release(g);
  embed_context_release(ctx);
  counting_check(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_are_unique_ascending_and_summed),
    cmocka_unit_test(padding_gets_no_gradient),
    cmocka_unit_test(by_frequency_divides_by_the_positions_of_a_row),
    cmocka_unit_test(sums_of_bfloats_do_not_stop_growing),
    cmocka_unit_test(every_shape_and_dtype_gives_a_plain_loops_bits_at_every_level_and_thread_count),
    cmocka_unit_test(long_lists_give_a_plain_loops_bits_for_every_thread_count),
    cmocka_unit_test(sums_begin_at_plus_zero_and_keep_what_is_not_finite_in_its_row),
    cmocka_unit_test(rows_past_two_to_the_31_are_told_apart),
    cmocka_unit_test(every_policy_adds_to_the_row_that_was_read),
    cmocka_unit_test(scale_is_that_of_the_lookup_and_max_norm_lets_gradients_pass),
    cmocka_unit_test(what_cannot_be_added_is_refused_and_changes_nothing),
    cmocka_unit_test(gradients_refuse_shapes_that_are_none),
    cmocka_unit_test(merging_adds_both_forms_with_a_scale),
    cmocka_unit_test(clipping_keeps_to_both_limits),
    cmocka_unit_test(the_share_of_a_tied_gradient_has_the_published_numbers),
    cmocka_unit_test(measures_do_not_depend_on_threads_or_levels),
    cmocka_unit_test(a_failed_allocation_leaves_the_gradient_as_it_was),
    cmocka_unit_test(warm_steps_allocate_nothing),
};
TEST_MAIN(tests)
