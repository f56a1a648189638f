/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_lookup: known answers, public bug reports (LK, SC, FF), and the same bits from every dtype's every path. */
#include "gather.h"

#include <fcntl.h>

static embed_context *ctx;

static int start(void **state) {
  (void)state;
  ctx = context_new();
  return 0;
}

static int stop(void **state) {
  (void)state;
  embed_context_release(ctx);
  return 0;
}

static uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

/* W[i, :] by one id through the default options into floats. */
static const float *row_of(const embed_table *t, int32_t id, const embed_lookup_options *o) {
  static float out[4096];
  memset(out, 0xFF, sizeof out);
  assert_true(embed_table_dim(t) <= COUNT(out));
  OK(embed_lookup(ctx, t, &id, 1, out, EMBED_F32, 0, o));
  return out;
}

static void a_row_is_its_stored_bits_and_no_other_row_reaches_it(void **state) {
  (void)state;
  float w[3][3] = {{1, -0.0f, 3}, {2, 4, -5}, {0x1p-149f, -7, 0}}, out[4][3];
  const int32_t ids[] = {2, 0, 1, 0};
  embed_table *t = view_floats(ctx, w[0], 3, 3);
  OK(embed_lookup(ctx, t, ids, 4, out, EMBED_F32, 0, NULL));
  for (int i = 0; i < 4; ++i) assert_same_bits(out[i], w[ids[i]], sizeof w[0]);
  const uint32_t signalling = 0x7F800001u;
  w[1][0] = INFINITY;
  memcpy(&w[1][1], &signalling, 4);
  OK(embed_lookup(ctx, t, ids, 4, out, EMBED_F32, 0, NULL));
  for (int i = 0; i < 4; ++i) assert_same_bits(out[i], w[ids[i]], sizeof w[0]);
  embed_table_release(t);
}

/* The header's steps, one at a time, up to the sum. */
static void reference(const float *decoded, int64_t dim, const embed_lookup_options *o, float *row) {
  float scale = rounded_to(o->scale_round, o->scale != 0 ? o->scale : 1);
  double lane[16] = {0};
  for (int64_t j = 0; j < dim; ++j) lane[j % 16] += (double)decoded[j] * (double)decoded[j];
  for (int half = 8; half >= 1; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  float norm = (float)sqrt(lane[0]);
  for (int64_t j = 0; j < dim; ++j) {
    row[j] = decoded[j];
    if (o->max_norm > 0 && norm > o->max_norm) row[j] *= (float)((double)o->max_norm / ((double)norm + 1e-7));
    row[j] *= scale;
    row[j] = rounded_to(o->scale_round, row[j]);
  }
}

/* The first context's rows against the steps, the others' against the first's: the bytes between rows, too. */
static void check_everywhere(embed_context **all, int count, const test_table *made, const int32_t *ids, int64_t n, embed_dtype out_dtype,
                             const embed_lookup_options *o) {
  int64_t dim = embed_table_dim(made->t), ld = dim + 3;
  size_t bytes = (size_t)((n - 1) * ld + dim) * (size_t)size_of(out_dtype);
  guarded first = guarded_new(bytes, 1), out = guarded_new(bytes, 1);
  float row[256];
  assert_true(dim <= COUNT(row));
  memset(first.at, 0x3C, bytes); /* in every dtype a small number, which ADD adds to */
  float before = value_at(first.at, out_dtype, 0);
  OK(embed_lookup(all[0], made->t, ids, n, first.at, out_dtype, ld, o));
  for (int64_t i = 0; i < n; ++i) {
    reference(made->decoded + ids[i] * dim, dim, o, row);
    for (int64_t j = 0; j < dim; ++j)
      assert_value(first.at, out_dtype, i * ld + j, rounded_to(out_dtype, o->flags & EMBED_LOOKUP_ADD ? before + row[j] : row[j]));
    if (i + 1 < n) assert_true(test_all_bytes(first.at + (i * ld + dim) * size_of(out_dtype), 3 * (size_t)size_of(out_dtype), 0x3C));
  }
  for (int c = 1; c < count; ++c) {
    memset(out.at, 0x3C, bytes);
    OK(embed_lookup(all[c], made->t, ids, n, out.at, out_dtype, ld, o));
    assert_same_bits(out.at, first.at, bytes);
  }
  guarded_free(first);
  guarded_free(out);
}

static void every_dtype_gives_the_same_bits_at_every_level_and_thread_count(void **state) {
  (void)state;
  embed_context *all[CONTEXTS];
  int count = contexts_new(all);
  enum { ROWS = 29, N = 2000 }; /* of the widest rows, N are several tasks */
  const int64_t dims[] = {1, 3, 17, 64, 100};
  const embed_lookup_options options[] = {
      {.size = sizeof *options},
      {.size = sizeof *options, .scale = -1.7f},
      {.size = sizeof *options, .max_norm = 2, .scale = 3.1f},
      {.size = sizeof *options, .scale = 7.7f, .scale_round = EMBED_BF16},
      {.size = sizeof *options, .max_norm = 1.5f, .scale_round = EMBED_F16, .flags = EMBED_LOOKUP_ADD},
      {.size = sizeof *options, .flags = EMBED_LOOKUP_ADD},
  };
  int32_t ids[N];
  for (int i = 0; i < N; ++i) ids[i] = (int32_t)(splitmix64((uint64_t)i) % ROWS);
  ids[0] = ROWS - 1;
  for (int d = 0; d < COUNT(stored_dtypes); ++d)
    for (int k = 0; k < COUNT(dims); ++k) {
      const int64_t dim = whole_dim(stored_dtypes[d], dims[k]);
      if (k > 0 && dim == whole_dim(stored_dtypes[d], dims[k - 1])) continue;
      test_table made = table_new(ctx, stored_dtypes[d], ROWS, dim, d % 2 ? 5 : 0, 7 + (uint64_t)k);
      for (int f = 0; f < COUNT(float_dtypes); ++f)
        for (int p = 0; p < COUNT(options); ++p) check_everywhere(all, count, &made, ids, dims[k] == 100 || dim == 256 ? N : 20, float_dtypes[f], &options[p]);
      table_free(made);
    }
  contexts_free(all, count);
}

/* Many tasks, and outputs past the size from which rows go around the caches, at every alignment of out. */
static void large_outputs_hold_every_row(void **state) {
  (void)state;
  enum { N = 14101, DIM = 601, VOCAB = 211 };
  embed_context *two = context_with(NULL, 2), *scalar = context_with("scalar", 7);
  int32_t *ids = malloc(N * sizeof *ids);
  uint64_t seed = 3;
  for (int64_t i = 0; i < N; ++i) ids[i] = (int32_t)(test_random(&seed) % VOCAB);
  const embed_dtype stored[] = {EMBED_F32, EMBED_BF16, EMBED_I8_ROW, EMBED_I4_GROUP};
  for (int d = 0; d < COUNT(stored); ++d) {
    test_table made = table_new(ctx, stored[d], VOCAB, DIM, 1, 11);
    for (int f = 0; f < COUNT(float_dtypes); ++f)
      for (int offset = 0; offset < 3; ++offset) {
        int64_t size = size_of(float_dtypes[f]);
        guarded out = guarded_new((size_t)(N * DIM * size), offset == 0);
        unsigned char *at = out.at + (offset == 0 ? 0 : offset == 1 ? size : 1); /* 1: not even aligned to its elements */
        int64_t n = offset == 0 ? N : N - 1;
        OK(embed_lookup(offset == 1 ? scalar : two, made.t, ids, n, at, float_dtypes[f], 0, NULL));
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < DIM; j += 1 + (i % 7) * 13)
            assert_value(at, float_dtypes[f], i * DIM + j, rounded_to(float_dtypes[f], made.decoded[ids[i] * DIM + j]));
        guarded_free(out);
      }
    table_free(made);
  }
  free(ids);
  embed_context_release(two);
  embed_context_release(scalar);
}

/* Whole lines, whole lines from the middle of one on, rows apart, ragged rows apart; among them zero rows. */
static void large_outputs_of_every_layout_hold_every_row(void **state) {
  (void)state;
  enum { N = 11301, DIM = 768, VOCAB = 97, PADDING = 13 };
  static const struct layout { int64_t offset, gap; /* bytes before the first row, elements between rows */ } layouts[] = {{0, 0}, {16, 0}, {0, 32}, {4, 5}};
  const embed_dtype stored[] = {EMBED_F32, EMBED_F16, EMBED_Q4_K};
  embed_context *seven = context_with(NULL, 7), *avx2 = context_with("avx2", 2);
  int32_t *ids = malloc(N * sizeof *ids);
  uint64_t seed = 5;
  for (int64_t i = 0; i < N; ++i) ids[i] = (int32_t)(test_random(&seed) % (VOCAB + 2)) - 1; /* -1 and VOCAB are outside */
  const embed_lookup_options o = {.size = sizeof o, .flags = EMBED_LOOKUP_PADDING, .padding_id = PADDING, .oov = EMBED_OOV_ZERO};
  for (int d = 0; d < COUNT(stored); ++d) {
    test_table made = table_new(ctx, stored[d], VOCAB, DIM, 3, 12);
    for (int f = 0; f < COUNT(float_dtypes); ++f)
      for (int l = 0; l < COUNT(layouts); ++l) {
        const int64_t size = size_of(float_dtypes[f]), ld = DIM + layouts[l].gap, step = ld * size;
        const size_t bytes = (size_t)(layouts[l].offset + (N - 1) * step + DIM * size);
        guarded out = guarded_new((bytes + 63) / 64 * 64, 1);
        unsigned char *at = out.at + layouts[l].offset;
        memset(out.at, 0xA5, bytes);
        OK(embed_lookup(avx2 && l % 2 ? avx2 : seven, made.t, ids, N, at, float_dtypes[f], layouts[l].gap ? ld : 0, &o));
        for (int64_t i = 0; i < N; ++i) {
          bool zero = ids[i] < 0 || ids[i] == VOCAB || ids[i] == PADDING;
          if (zero) assert_true(test_all_bytes(at + i * step, (size_t)(DIM * size), 0));
          for (int64_t j = 0; !zero && j < DIM; j += 1 + (i % 7) * 13)
            assert_value(at, float_dtypes[f], i * ld + j, rounded_to(float_dtypes[f], made.decoded[ids[i] * DIM + j]));
          if (i + 1 < N) assert_true(test_all_bytes(at + i * step + DIM * size, (size_t)(layouts[l].gap * size), 0xA5));
        }
        assert_true(test_all_bytes(out.at, (size_t)layouts[l].offset, 0xA5));
        guarded_free(out);
      }
    table_free(made);
  }
  free(ids);
  embed_context_release(seven);
  embed_context_release(avx2);
}

static void tables_at_any_address_are_read(void **state) {
  (void)state;
  const int32_t ids[] = {4, 0, 2};
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    const int64_t dim = whole_dim(stored_dtypes[d], 33);
    test_table made = table_new(ctx, stored_dtypes[d], 5, dim, 0, 5);
    int64_t bytes = embed_table_row_bytes(made.t);
    unsigned char *odd = malloc((size_t)(5 * (bytes + 1) + 1));
    for (int64_t r = 0; r < 5; ++r) memcpy(odd + 1 + r * (bytes + 1), made.memory.at + r * bytes, (size_t)bytes);
    embed_table *t = NULL;
    embed_table_options o = {.size = sizeof o, .dtype = stored_dtypes[d], .row_bytes = bytes + 1};
    OK(embed_table_borrow(ctx, odd + 1, 5, dim, &o, NULL, NULL, &t));
    unsigned char out[3 * 256 * 4 + 1];
    OK(embed_lookup(ctx, t, ids, 3, out + 1, EMBED_F32, 0, NULL));
    for (int i = 0; i < 3; ++i) assert_same_bits(out + 1 + i * dim * 4, made.decoded + ids[i] * dim, (size_t)dim * 4);
    embed_table_release(t);
    free(odd);
    table_free(made);
  }
}

static void a_long_row_is_clipped_to_max_norm(void **state) { /* KAT A2b */
  (void)state;
  const float w[4][2] = {{3, 4}, {0.3f, 0.4f}, {0.6f, 0.8f}, {1, 1}};
  const uint32_t want[4][2] = {{0x3F19999A, 0x3F4CCCCD}, {0x3E99999A, 0x3ECCCCCD}, {0x3F19999A, 0x3F4CCCCD}, {0x3F3504F3, 0x3F3504F3}};
  const embed_lookup_options o = {.size = sizeof o, .max_norm = 1};
  embed_table *t = view_floats(ctx, w[0], 4, 2);
  for (int32_t id = 0; id < 4; ++id) assert_same_bits(row_of(t, id, &o), want[id], 8);
  const embed_lookup_options then_scaled = {.size = sizeof o, .max_norm = 1, .scale = 10};
  assert_near(row_of(t, 0, &then_scaled)[0], 6, 1e-6f);
  assert_exactly(w[0][0], 3); /* the table keeps its row */
  embed_table_release(t);
  const float far[2][2] = {{3e38f, -3e38f}, {INFINITY, 1}}; /* a norm past float's range; one that nothing can be divided by */
  t = view_floats(ctx, far[0], 2, 2);
  assert_near(row_of(t, 0, &o)[0], sqrtf(0.5f), 1e-6f);
  assert_near(row_of(t, 0, &o)[1], -sqrtf(0.5f), 1e-6f);
  assert_true(isinf(row_of(t, 1, &o)[0]));
  assert_exactly(row_of(t, 1, &o)[1], 1);
  embed_table_release(t);
}

static void gemma_rounds_the_scale_and_the_product(void **state) { /* KAT C1 */
  (void)state;
  const uint16_t w[4] = {0x3F81, 0x3C4A, 0xBD3B, 0x3E80}; /* 1.0078125, 0.0123291015625, -0.045654296875, 0.25 */
  const float gemma[4] = {56, 0.68359375f, -2.53125f, 13.875f};
  embed_table *t = NULL;
  embed_table_options o = {.size = sizeof o, .dtype = EMBED_BF16};
  OK(embed_table_view(ctx, w, 1, 4, &o, NULL, NULL, &t));
  embed_lookup_options by = {.size = sizeof by, .scale = sqrtf(3072), .scale_round = EMBED_BF16};
  assert_same_bits(row_of(t, 0, &by), gemma, sizeof gemma);
  by.scale_round = EMBED_F32;
  assert_exactly(row_of(t, 0, &by)[0], 55.8586388f);
  uint16_t stored[4];
  const int32_t id = 0;
  OK(embed_lookup(ctx, t, &id, 1, stored, EMBED_BF16, 0, &by));
  assert_exactly(f32_of_bf16_bits(stored[0]), 55.75f);
  by.scale_round = EMBED_F16;
  OK(embed_lookup(ctx, t, &id, 1, stored, EMBED_F16, 0, &by));
  assert_exactly(f32_of_f16_bits(stored[3]), 55.4375f / 4);
  embed_table_release(t);
}

static void a_scale_is_rounded_only_when_asked(void **state) { /* SC-01 */
  (void)state;
  enum { DIM = 3072 };
  static uint16_t ones[DIM];
  for (int j = 0; j < DIM; ++j) ones[j] = 0x3F80;
  embed_table *t = NULL;
  embed_table_options o = {.size = sizeof o, .dtype = EMBED_BF16};
  OK(embed_table_view(ctx, ones, 1, DIM, &o, NULL, NULL, &t));
  embed_lookup_options by = {.size = sizeof by, .scale = sqrtf(DIM), .scale_round = EMBED_BF16};
  assert_exactly(row_of(t, 0, &by)[DIM - 1], 55.5f);
  by.scale_round = EMBED_F32;
  assert_exactly(row_of(t, 0, &by)[DIM - 1], 55.4256248f);
  embed_table_release(t);
}

static void add_rounds_the_sum_once(void **state) {
  (void)state;
  const float w = 0x1p-8f + 0x1p-20f; /* a bf16 of it would tie with half a step of 1 and be lost */
  const int32_t id = 0;
  const embed_lookup_options add = {.size = sizeof add, .flags = EMBED_LOOKUP_ADD};
  embed_table *t = view_floats(ctx, &w, 1, 1);
  uint16_t out = 0x3F80;
  OK(embed_lookup(ctx, t, &id, 1, &out, EMBED_BF16, 0, &add));
  assert_int_equal(out, 0x3F81);
  float sum = -0.0f;
  const int32_t outside = 9;
  const embed_lookup_options zero = {.size = sizeof add, .flags = EMBED_LOOKUP_ADD, .oov = EMBED_OOV_ZERO};
  OK(embed_lookup(ctx, t, &outside, 1, &sum, EMBED_F32, 0, &zero));
  assert_exactly(sum, 0);
  embed_table_release(t);
}

static void refuse_ids(const embed_table *t, const int32_t *ids, int64_t n, int64_t at, const char *words) {
  float out[256];
  memset(out, 0xA5, sizeof out);
  assert_int_equal(embed_lookup(ctx, t, ids, n, out, EMBED_F32, 0, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), at);
  assert_says(ctx, words);
  assert_int_equal(embed_replaced_ids(ctx), 0);
  assert_true(test_all_bytes(out, sizeof out, 0xA5));
}

static void negative_ids_never_wrap(void **state) { /* LK-03 */
  (void)state;
  embed_table *t = NULL;
  OK(embed_table_create(ctx, 1001, 50, NULL, &t));
  const int32_t minus[] = {-1, 1, 2, 3, 4}, least[] = {1, INT32_MIN}, unsigned_max[] = {0, 5, (int32_t)0xFFFFFFFFu};
  refuse_ids(t, minus, 5, 0, "id -1 at position 0 is outside the vocabulary of 1001 rows");
  refuse_ids(t, least, 2, 1, "-2147483648");
  refuse_ids(t, unsigned_max, 3, 2, "id -1 at position 2");
  const int64_t wide[] = {1, INT64_MIN}, far[] = {0, (INT64_C(1) << 32) + 1}, farther[] = {INT64_MAX};
  float out[100];
  assert_int_equal(embed_lookup_i64(ctx, t, wide, 2, out, EMBED_F32, 0, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 1);
  assert_int_equal(embed_lookup_i64(ctx, t, far, 2, out, EMBED_F32, 0, NULL), EMBED_E_ID); /* not row 1 */
  assert_says(ctx, "id 4294967297 at position 1");
  assert_int_equal(embed_lookup_i64(ctx, t, farther, 1, out, EMBED_F32, 0, NULL), EMBED_E_ID);
  embed_table_release(t);
}

static void an_id_is_held_to_rows_and_not_to_elements(void **state) { /* LK-05 */
  (void)state;
  const int32_t wrong[] = {4, 5, 31, 32};
  test_table made = table_new(ctx, EMBED_I4_GROUP, 4, 8, 0, 1);
  for (int i = 0; i < COUNT(wrong); ++i) refuse_ids(made.t, &wrong[i], 1, 0, "vocabulary of 4 rows");
  table_free(made);
}

static void padding_rows_of_a_padded_table_are_no_ids(void **state) {
  (void)state;
  const float w[4] = {1, 2, 3, 4};
  embed_table *t = NULL;
  embed_table_options o = {.size = sizeof o, .vocab = 3};
  OK(embed_table_view(ctx, w, 4, 1, &o, NULL, NULL, &t));
  const int32_t ids[] = {2, 3};
  refuse_ids(t, ids, 2, 1, "id 3 at position 1 is outside the vocabulary of 3 rows");
  assert_exactly(*row_of(t, 2, NULL), 3);
  embed_table_release(t);
}

static void a_row_stride_is_respected(void **state) { /* LK-11 */
  (void)state;
  const float storage[12] = {0, 1, 2, NAN, 4, 5, 6, NAN, 8, 9, 10, NAN};
  guarded memory = guarded_new(11 * sizeof(float), 1); /* the last row's padding does not even exist */
  memcpy(memory.at, storage, 11 * sizeof(float));
  embed_table *t = NULL;
  embed_table_options o = {.size = sizeof o, .row_bytes = 16, .data_bytes = 44};
  OK(embed_table_view(ctx, memory.at, 3, 3, &o, NULL, NULL, &t));
  const int32_t ids[] = {2, 0};
  const float want[8] = {8, 9, 10, -7, 0, 1, 2, -7};
  float out[8];
  for (int i = 0; i < 8; ++i) out[i] = -7;
  OK(embed_lookup(ctx, t, ids, 2, out, EMBED_F32, 4, NULL));
  assert_same_bits(out, want, sizeof out);
  const embed_lookup_options clip = {.size = sizeof clip, .max_norm = 1e9f, .flags = EMBED_LOOKUP_ADD};
  OK(embed_lookup(ctx, t, ids, 2, out, EMBED_F32, 4, &clip));
  assert_exactly(out[2], 20);
  assert_exactly(out[3], -7);
  embed_table_release(t);
  guarded_free(memory);
}

static void empty_calls_read_no_pointer(void **state) { /* LK-12, FF-01 */
  (void)state;
  void *const nowhere[] = {NULL, (void *)1, (void *)8};
  embed_table *t = NULL, *empty = NULL;
  OK(embed_table_create(ctx, 3, 2, NULL, &t));
  OK(embed_table_create(ctx, 0, 2, NULL, &empty));
  for (int i = 0; i < COUNT(nowhere); ++i) {
    OK(embed_lookup(ctx, t, nowhere[i], 0, nowhere[i], EMBED_F32, 0, NULL));
    OK(embed_lookup_i64(ctx, empty, nowhere[i], 0, nowhere[i], EMBED_BF16, INT64_MAX, NULL));
  }
  const int32_t id = 0;
  refuse_ids(empty, &id, 1, 0, "id 0 at position 0 is outside the vocabulary of 0 rows");
  float out[2] = {5, 5};
  embed_lookup_options o = {.size = sizeof o};
  for (o.oov = EMBED_OOV_CLAMP; o.oov <= EMBED_OOV_HASH; ++o.oov) {
    assert_int_equal(embed_lookup(ctx, empty, &id, 1, out, EMBED_F32, 0, &o), EMBED_E_ID);
    OK(embed_lookup(ctx, empty, NULL, 0, NULL, EMBED_F32, 0, &o));
  }
  o.oov = EMBED_OOV_UNK;
  assert_int_equal(embed_lookup(ctx, empty, NULL, 0, NULL, EMBED_F32, 0, &o), EMBED_E_OPTION);
  o.oov = EMBED_OOV_ZERO;
  OK(embed_lookup(ctx, empty, &id, 1, out, EMBED_F32, 0, &o));
  assert_true(test_all_bytes(out, sizeof out, 0));
  assert_int_equal(embed_replaced_ids(ctx), 1);
  embed_table *none = NULL;
  assert_int_equal(embed_table_create(ctx, 1, 0, NULL, &none), EMBED_E_ARGUMENT); /* d = 0 */
  embed_table_release(t);
  embed_table_release(empty);
}

static void padding_reads_as_stored_unless_the_flag_is_set(void **state) { /* LK-15 */
  (void)state;
  const float w[3][2] = {{7, 8}, {1, 2}, {3, 4}};
  const int32_t ids[] = {0, 1, -5, 2};
  float out[4][2];
  embed_table *t = view_floats(ctx, w[0], 3, 2);
  assert_exactly(row_of(t, 0, NULL)[1], 8);
  embed_lookup_options o = {.size = sizeof o, .flags = EMBED_LOOKUP_PADDING, .padding_id = 0, .scale = -2};
  assert_true(test_all_bytes(row_of(t, 0, &o), 8, 0)); /* +0, whatever the scale */
  assert_int_equal(embed_replaced_ids(ctx), 0);
  o.padding_id = -5; /* outside the vocabulary and no error */
  OK(embed_lookup(ctx, t, ids, 4, out, EMBED_F32, 0, &o));
  assert_true(test_all_bytes(out[2], 8, 0));
  assert_exactly(out[3][1], -8);
  assert_int_equal(embed_replaced_ids(ctx), 0);
  assert_int_equal(embed_lookup(ctx, t, ids, 4, out, EMBED_F32, 0, NULL), EMBED_E_ID);
  o.flags = 0; /* padding_id alone means nothing */
  assert_int_equal(embed_lookup(ctx, t, ids, 4, out, EMBED_F32, 0, &o), EMBED_E_ID);
  embed_table_release(t);
}

static void every_policy_places_ids_and_counts_them(void **state) {
  (void)state;
  enum { VOCAB = 100 };
  float w[VOCAB], out[7];
  for (int i = 0; i < VOCAB; ++i) w[i] = (float)(i + 1);
  const int64_t ids[7] = {-1, VOCAB, INT64_C(1) << 31, INT64_C(1) << 40, 5, INT64_MIN, 99};
  embed_table *t = view_floats(ctx, w, VOCAB, 1);
  assert_true(splitmix64(0) == 0xE220A8397B1DCDAFu);
  for (embed_oov_policy oov = EMBED_OOV_UNK; oov <= EMBED_OOV_HASH; ++oov) {
    const embed_lookup_options o = {.size = sizeof o, .oov = oov, .unk_id = 7};
    OK(embed_lookup_i64(ctx, t, ids, 7, out, EMBED_F32, 0, &o));
    assert_int_equal(embed_replaced_ids(ctx), 5);
    for (int i = 0; i < 7; ++i) {
      bool inside = ids[i] >= 0 && ids[i] < VOCAB;
      int64_t row = oov == EMBED_OOV_UNK ? 7 : oov == EMBED_OOV_CLAMP ? (ids[i] < 0 ? 0 : VOCAB - 1) : (int64_t)(splitmix64((uint64_t)ids[i]) % VOCAB);
      float want = inside ? w[ids[i]] : oov == EMBED_OOV_ZERO ? 0 : w[row];
      assert_exactly(out[i], want);
    }
  }
  const int32_t narrow[] = {-1, 5};
  const embed_lookup_options hash = {.size = sizeof hash, .oov = EMBED_OOV_HASH};
  OK(embed_lookup(ctx, t, narrow, 2, out, EMBED_F32, 0, &hash));
  assert_exactly(out[0], w[splitmix64(UINT64_MAX) % VOCAB]); /* the width of the list does not matter */
  assert_int_equal(embed_replaced_ids(ctx), 1);
  assert_int_equal(embed_lookup_i64(ctx, t, ids, 7, out, EMBED_F32, 0, NULL), EMBED_E_ID);
  assert_int_equal(embed_replaced_ids(ctx), 0);
  assert_int_equal(embed_replaced_ids(NULL), EMBED_E_ARGUMENT);
  embed_table_release(t);
}

static void wrong_options_are_named(void **state) {
  (void)state;
  const float w[2] = {1, 2};
  const int32_t id = 0;
  float out = 5;
  embed_table *t = view_floats(ctx, w, 2, 1);
  const embed_lookup_options wrong[] = {
      {.size = sizeof *wrong, .flags = 4},
      {.size = 4},
      {.size = sizeof *wrong, .scale = NAN},
      {.size = sizeof *wrong, .scale = INFINITY},
      {.size = sizeof *wrong, .max_norm = -1},
      {.size = sizeof *wrong, .max_norm = NAN},
      {.size = sizeof *wrong, .scale_round = EMBED_F64},
      {.size = sizeof *wrong, .scale_round = -1},
      {.size = sizeof *wrong, .scale = 1e6f, .scale_round = EMBED_F16},
      {.size = sizeof *wrong, .oov = EMBED_OOV_NONE},
      {.size = sizeof *wrong, .oov = EMBED_OOV_HASH + 1},
      {.size = sizeof *wrong, .oov = EMBED_OOV_UNK, .unk_id = 2},
      {.size = sizeof *wrong, .oov = EMBED_OOV_UNK, .unk_id = -1},
  };
  for (int i = 0; i < COUNT(wrong); ++i) {
    assert_int_equal(embed_lookup(ctx, t, &id, 1, &out, EMBED_F32, 0, &wrong[i]), EMBED_E_OPTION);
    assert_true(strlen(embed_error_text(ctx)) > 0);
  }
  assert_int_equal(embed_lookup(NULL, t, &id, 1, &out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_lookup(ctx, NULL, &id, 1, &out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_lookup(ctx, t, NULL, 1, &out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_lookup(ctx, t, &id, 1, NULL, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_lookup(ctx, t, &id, -1, &out, EMBED_F32, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_lookup(ctx, t, &id, 1, &out, EMBED_F64, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_lookup(ctx, t, &id, 1, &out, EMBED_F32, -1, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_lookup(ctx, t, &id, INT64_MAX / 2, &out, EMBED_F32, 3, NULL), EMBED_E_OVERFLOW);
  assert_exactly(out, 5);
  const struct {
    uint32_t size, flags;
    float scale;
  } older = {12, 0, 3}; /* a client that knows the first field only */
  OK(embed_lookup(ctx, t, &id, 1, &out, EMBED_F32, 0, (const embed_lookup_options *)(const void *)&older));
  assert_exactly(out, 3);
  assert_string_equal(embed_error_text(ctx), "");
  embed_table_release(t);
}

static void normal_initialisation_has_its_moments(void **state) { /* SC-03 */
  (void)state;
  enum { VOCAB = 1000, DIM = 1000 };
  embed_table *t = NULL;
  const embed_init_options o = {.size = sizeof o, .kind = EMBED_INIT_NORMAL, .seed = 42, .flags = EMBED_INIT_PADDING, .padding_id = 3};
  OK(embed_table_create(ctx, VOCAB, DIM, NULL, &t));
  OK(embed_table_init(ctx, t, &o));
  double sum = 0, squares = 0, fourths = 0, low = 0, high = 0;
  for (int32_t id = 0; id < VOCAB; ++id) {
    const float *row = row_of(t, id, NULL);
    if (id == 3) {
      assert_true(test_all_bytes(row, DIM * sizeof *row, 0));
      continue;
    }
    for (int j = 0; j < DIM; ++j) {
      double x = (double)row[j];
      sum += x;
      squares += x * x;
      fourths += x * x * x * x;
      low = fmin(low, x);
      high = fmax(high, x);
    }
  }
  double n = (double)(VOCAB - 1) * DIM, mean = sum / n, variance = squares / n - mean * mean;
  assert_true(fabs(mean) < 1e-4);
  assert_true(fabs(sqrt(variance) / 0.02 - 1) < 0.004);
  assert_true(low < -0.08 && high > 0.08);
  assert_true(fabs(fourths / n / (variance * variance) - 3) < 0.03);
  embed_table_release(t);
}

/* LK-01: row offsets past 2^31 elements. The file is a hole of 4.7 GB with three rows written. */
static void offsets_past_two_to_the_31_are_whole(void **state) {
  (void)state;
  enum { ROWS = 262144, DIM = 8960 };
  const char *path = TEST_BINARY_DIR "/lookup_test_sparse.bin";
  if (sizeof(size_t) < 8) skip();
  const size_t bytes = (size_t)ROWS * DIM * 2;
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0) skip();
  (void)unlink(path);
  uint16_t *w = ftruncate(fd, (off_t)bytes) ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  close(fd);
  if (w == MAP_FAILED) skip();
  for (size_t j = 0; j < DIM; ++j) {
    w[(size_t)239674 * DIM + j] = 0x3F80;
    w[(size_t)262143 * DIM + j] = 0x4000;
  }
  embed_table *t = NULL;
  embed_table_options o = {.size = sizeof o, .dtype = EMBED_BF16, .data_bytes = (int64_t)bytes};
  OK(embed_table_view(ctx, w, ROWS, DIM, &o, NULL, NULL, &t));
  const int32_t ids[] = {0, 239674, 262143};
  const int64_t offsets[] = {0, 1, 2, 3};
  static float out[3][DIM];
  for (int way = 0; way < 2; ++way) {
    memset(out, 0xFF, sizeof out);
    if (way == 0)
      OK(embed_lookup(ctx, t, ids, 3, out, EMBED_F32, 0, NULL));
    else
      OK(embed_bag(ctx, t, ids, 3, offsets, 3, NULL, out, EMBED_F32, 0, NULL));
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < DIM; ++j) assert_true(out[i][j] == (float)i);
  }
  embed_table_release(t);
  munmap(w, bytes);
}

static int64_t allocations;

static void *counting_allocate(void *arg, size_t bytes, size_t alignment) {
  (void)arg;
  ++allocations;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void counting_release(void *arg, void *memory, size_t bytes, size_t alignment) {
  (void)arg;
  (void)bytes;
  (void)alignment;
  free(memory);
}

static void a_warm_context_allocates_nothing(void **state) {
  (void)state;
  const embed_allocator memory = {.size = sizeof memory, .allocate = counting_allocate, .release = counting_release};
  const embed_context_options o = {.size = sizeof o, .allocator = &memory};
  embed_context *counted = NULL;
  OK(embed_context_create(&o, &counted));
  test_table made = table_new(ctx, EMBED_U8_ROW, 9, 50, 0, 1);
  const int32_t ids[] = {8, 1, 8};
  const int64_t offsets[] = {0, 3};
  float out[150];
  int64_t warm = 0;
  for (int i = 0; i < 3; ++i) {
    OK(embed_lookup(counted, made.t, ids, 3, out, EMBED_F32, 0, NULL));
    OK(embed_bag(counted, made.t, ids, 3, offsets, 1, NULL, out, EMBED_F32, 0, NULL));
    if (i == 0) warm = allocations;
  }
  assert_int_equal(allocations, warm);
  table_free(made);
  embed_context_release(counted);
}

static embed_status run_half(void *arg, int64_t n, embed_task *task, void *job) {
  (void)arg;
  for (int64_t i = 0; i < n; i += 2) task(job, i, 0);
  return 0;
}

static void a_failing_executor_is_an_error_without_a_count(void **state) {
  (void)state;
  enum { N = 1 << 18 };
  const embed_executor half = {.size = sizeof half, .run = run_half, .workers = 1};
  const embed_context_options o = {.size = sizeof o, .executor = &half};
  embed_context *broken = NULL;
  OK(embed_context_create(&o, &broken));
  const float w = 1;
  embed_table *t = view_floats(ctx, &w, 1, 1);
  int32_t *ids = malloc(N * sizeof *ids);
  float *out = malloc(N * sizeof *out);
  for (int64_t i = 0; i < N; ++i) ids[i] = (int32_t)(i % 2);
  const embed_lookup_options clamp = {.size = sizeof clamp, .oov = EMBED_OOV_CLAMP};
  assert_int_equal(embed_lookup(broken, t, ids, N, out, EMBED_F32, 0, &clamp), EMBED_E_CALLBACK);
  assert_int_equal(embed_replaced_ids(broken), 0);
  OK(embed_lookup(ctx, t, ids, N, out, EMBED_F32, 0, &clamp));
  assert_int_equal(embed_replaced_ids(ctx), N / 2);
  free(ids);
  free(out);
  embed_table_release(t);
  embed_context_release(broken);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_row_is_its_stored_bits_and_no_other_row_reaches_it),
      cmocka_unit_test(every_dtype_gives_the_same_bits_at_every_level_and_thread_count),
      cmocka_unit_test(large_outputs_hold_every_row),
      cmocka_unit_test(large_outputs_of_every_layout_hold_every_row),
      cmocka_unit_test(tables_at_any_address_are_read),
      cmocka_unit_test(a_long_row_is_clipped_to_max_norm),
      cmocka_unit_test(gemma_rounds_the_scale_and_the_product),
      cmocka_unit_test(a_scale_is_rounded_only_when_asked),
      cmocka_unit_test(add_rounds_the_sum_once),
      cmocka_unit_test(negative_ids_never_wrap),
      cmocka_unit_test(an_id_is_held_to_rows_and_not_to_elements),
      cmocka_unit_test(padding_rows_of_a_padded_table_are_no_ids),
      cmocka_unit_test(a_row_stride_is_respected),
      cmocka_unit_test(empty_calls_read_no_pointer),
      cmocka_unit_test(padding_reads_as_stored_unless_the_flag_is_set),
      cmocka_unit_test(every_policy_places_ids_and_counts_them),
      cmocka_unit_test(wrong_options_are_named),
      cmocka_unit_test(normal_initialisation_has_its_moments),
      cmocka_unit_test(offsets_past_two_to_the_31_are_whole),
      cmocka_unit_test(a_warm_context_allocates_nothing),
      cmocka_unit_test(a_failing_executor_is_an_error_without_a_count),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, start, stop);
}
