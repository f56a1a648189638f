/* SPDX-License-Identifier: BSD-3-Clause */
/* Prepared heads and rounded activations: the logits of the decoded rows, whatever the form, the level and the threads. */
#include "gather.h"

enum { VOCAB = 1069, ROWS = 1075, MOST = 70, K = 9 };

/* A dtype, and the dims that show its tails. */
static const struct {
  embed_dtype dtype;
  int64_t dim;
} shapes[] = {{EMBED_F32, 1},        {EMBED_F32, 67},    {EMBED_F32, 300},    {EMBED_F16, 33},     {EMBED_F16, 300},    {EMBED_BF16, 33},
              {EMBED_BF16, 301},     {EMBED_F64, 40},    {EMBED_I8_ROW, 7},   {EMBED_I8_ROW, 300}, {EMBED_U8_ROW, 40},  {EMBED_I4_GROUP, 33},
              {EMBED_I4_GROUP, 256}, {EMBED_Q8_0, 96},   {EMBED_Q4_0, 96},    {EMBED_Q4_1, 64},    {EMBED_Q5_1, 64},    {EMBED_Q2_K, 256},
              {EMBED_Q4_K, 512},     {EMBED_Q5_K, 256},  {EMBED_Q6_K, 256},   {EMBED_U4_ROW, 41},  {EMBED_U2_ROW, 300}, {EMBED_F8_E4M3, 33},
              {EMBED_F8_E5M2, 300},  {EMBED_IQ4_NL, 64}, {EMBED_IQ4_XS, 256}, {EMBED_MXFP4, 96},   {EMBED_NVFP4, 128}};
static const int64_t ns[] = {1, 5, 16, MOST};

typedef struct fixture {
  test_table table;
  int64_t dim;
  float bias[VOCAB];
  float *x; /* [MOST, dim] */
} fixture;

/* Rows past the vocabulary are there, and must not be seen; the last row ends at an unreadable page. */
static fixture fixture_new(embed_context *ctx, embed_dtype dtype, int64_t dim) {
  fixture f = {.dim = dim, .table = table_new(ctx, dtype, ROWS, dim, dim % 7, 41)};
  embed_table_options o = {.size = sizeof o, .dtype = dtype, .vocab = VOCAB, .row_bytes = embed_table_row_bytes(f.table.t)};
  embed_table *t = NULL;
  OK(embed_table_view(ctx, f.table.memory.at, ROWS, dim, &o, NULL, NULL, &t));
  embed_table_release(f.table.t);
  f.table.t = t;
  uint64_t seed = 42;
  f.x = malloc((size_t)(MOST * dim) * sizeof *f.x);
  assert_non_null(f.x);
  for (int64_t i = 0; i < MOST * dim; ++i) f.x[i] = 4 * test_uniform(&seed);
  for (int v = 0; v < VOCAB; ++v) f.bias[v] = (float)(v % 17) - 8;
  return f;
}

static void fixture_free(fixture f) {
  table_free(f.table);
  free(f.x);
}

static embed_head *head_new(embed_context *ctx, const embed_table *t, const float *bias, uint32_t flags) {
  embed_head_options o = {.size = sizeof o, .flags = flags};
  embed_head *h = NULL;
  OK(embed_head_create(ctx, t, bias, &o, &h));
  return h;
}

/* Against the products of decoded rows and x in double; some of the rows. */
static void check_logits(const fixture *f, const float *x, const float *bias, const float *z, int64_t n) {
  for (int64_t i = 0; i < n; i += 1 + n / 4)
    for (int64_t v = 0; v < VOCAB; v += v < 20 || v > VOCAB - 20 ? 1 : 13) {
      double sum = bias ? (double)bias[v] : 0, size = fabs(sum);
      for (int64_t j = 0; j < f->dim; ++j) {
        double product = (double)f->table.decoded[v * f->dim + j] * (double)x[i * f->dim + j];
        sum += product;
        size += fabs(product);
      }
      if (!(fabs((double)z[i * VOCAB + v] - sum) <= 2e-6 * size))
        fail_msg("dtype %d, dim %lld, n %lld: row %lld is %g, not %g", embed_table_dtype(f->table.t), (long long)f->dim, (long long)n, (long long)v,
                 (double)z[i * VOCAB + v], sum);
    }
}

static void check_ranks(embed_context *ctx, const embed_head *h, const float *x, const float *z, int64_t n) {
  int32_t ids[MOST * K], count[MOST];
  float best[MOST * K];
  OK(embed_topk(ctx, h, x, EMBED_F32, n, 0, K, ids, best, NULL, count, NULL));
  for (int64_t i = 0; i < n; ++i) {
    int64_t above = 0;
    assert_int_equal(count[i], K);
    for (int j = 0; j < K; ++j) assert_same_bits(&best[i * K + j], &z[i * VOCAB + ids[i * K + j]], 4);
    for (int v = 0; v < VOCAB; ++v) above += z[i * VOCAB + v] > best[i * K + K - 1];
    assert_true(above < K);
  }
}

/* The logits of some ids are those of the sweep, bit for bit. */
static void check_ids(embed_context *ctx, const embed_head *h, const float *x, const float *z, int64_t n) {
  enum { M = 37 };
  int32_t ids[M];
  static float some[MOST * M];
  for (int j = 0; j < M; ++j) ids[j] = (int32_t)(j == 0 ? VOCAB - 1 : (j * 577) % VOCAB);
  OK(embed_logits_at(ctx, h, x, EMBED_F32, n, 0, ids, M, some, 0, NULL));
  for (int64_t i = 0; i < n; ++i)
    for (int j = 0; j < M; ++j) assert_same_bits(&some[i * M + j], &z[i * VOCAB + ids[j]], 4);
}

static void prepared_logits_are_those_of_the_decoded_rows_at_every_level_and_thread_count(void **state) {
  (void)state;
  embed_context *all[CONTEXTS];
  int count = contexts_new(all);
  size_t most = (size_t)MOST * VOCAB * sizeof(float);
  float *level = malloc(most), *z = malloc(most);
  for (int s = 0; s < COUNT(shapes); ++s) {
    fixture f = fixture_new(all[0], shapes[s].dtype, shapes[s].dim);
    const float *bias = s % 2 ? f.bias : NULL;
    for (int c = 0; c < count; ++c) { /* contexts come by level, each with 1, 2 and 7 threads */
      embed_head *h = head_new(all[c], f.table.t, bias, EMBED_HEAD_PREPARE);
      for (int k = 0; k < COUNT(ns); ++k) {
        size_t bytes = (size_t)(ns[k] * VOCAB) * sizeof(float);
        memset(z, 0xFF, most);
        OK(embed_logits(all[c], h, f.x, EMBED_F32, ns[k], 0, z, 0, NULL));
        assert_true(test_all_bytes((char *)z + bytes, most - bytes, 0xFF));
        if (c % 3 == 0) {
          check_logits(&f, f.x, bias, z, ns[k]);
          check_ranks(all[c], h, f.x, z, ns[k]);
        } else if (k == COUNT(ns) - 1) {
          assert_same_bits(z, level, bytes);
        }
        if (k == COUNT(ns) - 1) memcpy(level, z, bytes);
      }
      embed_head_release(h);
    }
    fixture_free(f);
  }
  free(level);
  free(z);
  contexts_free(all, count);
}

static embed_context *reproducible(const char *isa) {
  embed_context_options o = {.size = sizeof o, .isa = isa, .flags = EMBED_CONTEXT_REPRODUCIBLE};
  embed_context *ctx = NULL;
  return embed_context_create(&o, &ctx) == EMBED_OK ? ctx : NULL;
}

/* REPRODUCIBLE: a row alone, among others, and where only some ids are asked for. */
static void reproducible_logits_do_not_depend_on_n(void **state) {
  (void)state;
  static const char *const levels[] = {"scalar", "avx2", "avx512", NULL};
  float *z = malloc(sizeof *z * MOST * VOCAB), *one = malloc(sizeof *one * VOCAB);
  for (int l = 0; l < COUNT(levels); ++l) {
    embed_context *ctx = reproducible(levels[l]);
    for (int s = 0; ctx && s < COUNT(shapes); ++s) {
      fixture f = fixture_new(ctx, shapes[s].dtype, shapes[s].dim);
      for (int prepared = 0; prepared < 2; ++prepared) {
        embed_head *h = head_new(ctx, f.table.t, NULL, prepared ? EMBED_HEAD_PREPARE : 0);
        OK(embed_logits(ctx, h, f.x, EMBED_F32, MOST, 0, z, 0, NULL));
        check_logits(&f, f.x, NULL, z, MOST);
        check_ids(ctx, h, f.x, z, MOST);
        for (int64_t i = 0; i < MOST; i += 23) {
          OK(embed_logits(ctx, h, f.x + i * f.dim, EMBED_F32, 1, 0, one, 0, NULL));
          assert_same_bits(one, z + i * VOCAB, sizeof *one * VOCAB);
        }
        embed_head_release(h);
      }
      fixture_free(f);
    }
    embed_context_release(ctx);
  }
  free(z);
  free(one);
}

/* x rounded as the activation says: by the table codec of that dtype, in whole blocks of 32 columns. */
static float *rounded(embed_context *ctx, const fixture *f, embed_dtype activation) {
  int64_t wide = (f->dim + 31) / 32 * 32, ids[MOST];
  float *padded = calloc((size_t)(MOST * wide), sizeof *padded), *x = malloc((size_t)(MOST * f->dim) * sizeof *x);
  embed_table_options o = {.size = sizeof o, .dtype = activation};
  embed_table *packed = NULL;
  for (int64_t i = 0; i < MOST; ++i) {
    ids[i] = i;
    memcpy(padded + i * wide, f->x + i * f->dim, (size_t)f->dim * sizeof *x);
  }
  embed_table *floats = view_floats(ctx, padded, MOST, wide);
  OK(embed_table_convert(ctx, floats, &o, &packed));
  OK(embed_table_get_rows(ctx, packed, ids, MOST, padded, EMBED_F32, 0));
  for (int64_t i = 0; i < MOST; ++i) memcpy(x + i * f->dim, padded + i * wide, (size_t)f->dim * sizeof *x);
  embed_table_release(packed);
  embed_table_release(floats);
  free(padded);
  return x;
}

static void rounded_activations_are_products_with_rounded_hidden_rows(void **state) {
  (void)state;
  static const embed_dtype activations[] = {EMBED_BF16, EMBED_Q8_0};
  embed_context *all[CONTEXTS];
  int count = contexts_new(all);
  float *z = malloc(sizeof *z * MOST * VOCAB);
  for (int s = 0; s < COUNT(shapes); ++s) {
    fixture f = fixture_new(all[0], shapes[s].dtype, shapes[s].dim);
    for (int a = 0; a < 2; ++a) {
      embed_sweep_options o = {.size = sizeof o, .activation = activations[a]};
      float *x = rounded(all[0], &f, activations[a]);
      for (int c = 0; c < count; c += 3)
        for (int prepared = 0; prepared < 2; ++prepared) {
          embed_head *h = head_new(all[c], f.table.t, NULL, prepared ? EMBED_HEAD_PREPARE : 0);
          int32_t id = VOCAB / 2;
          float at;
          for (int k = 0; k < COUNT(ns); ++k) {
            OK(embed_logits(all[c], h, f.x, EMBED_F32, ns[k], 0, z, 0, &o));
            check_logits(&f, x, NULL, z, ns[k]);
          }
          OK(embed_logits_at(all[c], h, f.x, EMBED_F32, 1, 0, &id, 1, &at, 0, &o));
          assert_true(fabsf(at - z[id]) <= 1e-3f);
          embed_head_release(h);
        }
      free(x);
    }
    fixture_free(f);
  }
  free(z);
  contexts_free(all, count);
}

/* ---- infinite hidden values ---- */
enum { SPECIAL = 6 /* hidden rows: an infinity, one of the other sign, one of each, several, one and a NaN, none */ };

static void make_infinite(fixture *f) {
  const int64_t middle = f->dim / 2, last = f->dim - 1;
  f->x[middle] = INFINITY;
  f->x[f->dim + last] = -INFINITY;
  f->x[2 * f->dim + middle] = INFINITY, f->x[2 * f->dim] = -INFINITY;
  for (int64_t j = 0; j < f->dim; j += 5) f->x[3 * f->dim + j] = INFINITY;
  f->x[4 * f->dim + middle] = INFINITY, f->x[4 * f->dim + last] = NAN;
}

/* What the columns that are no numbers give: an infinity, or NaN where two of them meet or a weight is 0. */
static float infinite_part(const float *w, const float *x, int64_t dim) {
  float sum = 0;
  for (int64_t j = 0; j < dim; ++j)
    if (!isfinite(x[j])) sum += w[j] * x[j];
  return sum;
}

static void check_infinite(const fixture *f, embed_dtype activation, const float *z, int64_t n) {
  const int64_t rows = n < SPECIAL - 1 ? n : SPECIAL - 1;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t v = 0; v < VOCAB; ++v) {
      const float want = activation == EMBED_Q8_0 ? NAN : infinite_part(f->table.decoded + v * f->dim, f->x + i * f->dim, f->dim), got = z[i * VOCAB + v];
      if (isnan(want) ? !isnan(got) : got != want)
        fail_msg("dtype %d, activation %d, n %lld: hidden row %lld and table row %lld have %g, not %g", embed_table_dtype(f->table.t), activation, (long long)n,
                 (long long)i, (long long)v, (double)got, (double)want);
    }
  for (int64_t i = rows; i < n; ++i)
    for (int64_t v = 0; v < VOCAB; ++v) assert_true(isfinite(z[i * VOCAB + v]));
}

/* The other calls have the same infinities. */
static void check_others(embed_context *ctx, const embed_head *h, const float *x, const float *z, const embed_sweep_options *o) {
  static const int32_t ids[] = {0, 5, VOCAB - 1}, targets[SPECIAL] = {5, 5, 0, 0, 1, 2};
  float at[SPECIAL * 3], best[SPECIAL], loss[SPECIAL], trained[SPECIAL];
  int32_t first[SPECIAL];
  OK(embed_logits_at(ctx, h, x, EMBED_F32, SPECIAL, 0, ids, 3, at, 0, o));
  for (int i = 0; i < SPECIAL - 1; ++i)
    for (int j = 0; j < 3; ++j) {
      const float want = z[i * VOCAB + ids[j]];
      assert_true(isnan(want) ? isnan(at[3 * i + j]) : at[3 * i + j] == want);
    }
  OK(embed_topk(ctx, h, x, EMBED_F32, SPECIAL, 0, 1, first, best, NULL, NULL, o));
  for (int i = 0; i < SPECIAL; ++i) {
    float most = -INFINITY;
    for (int v = 0; v < VOCAB; ++v)
      if (isnan(z[i * VOCAB + v]) || z[i * VOCAB + v] > most) most = z[i * VOCAB + v];
    assert_true(isnan(most) ? isnan(best[i]) : best[i] == most);
  }
  if (o->activation) return;
  OK(embed_cross_entropy(ctx, h, x, EMBED_F32, SPECIAL, 0, targets, loss, NULL, NULL));
  OK(embed_cross_entropy_train(ctx, h, x, EMBED_F32, SPECIAL, 0, targets, NULL, trained, NULL, NULL, EMBED_F32, 0, NULL, NULL));
  for (int i = 0; i < SPECIAL - 1; ++i) assert_true(isnan(trained[i]) ? isnan(loss[i]) : loss[i] == trained[i]);
}

static void infinite_hidden_values_give_what_floats_give(void **state) {
  (void)state;
  static const embed_dtype activations[] = {EMBED_F32, EMBED_BF16, EMBED_Q8_0};
  static const int64_t numbers[] = {1, SPECIAL, 16};
  embed_context *all[CONTEXTS];
  int count = contexts_new(all);
  float *z = malloc(sizeof *z * 16 * VOCAB);
  for (int s = 0; s < COUNT(shapes); ++s) {
    if (shapes[s].dim < 2) continue;
    fixture f = fixture_new(all[0], shapes[s].dtype, shapes[s].dim);
    make_infinite(&f);
    for (int c = 0; c < count; c += 3)
      for (int prepared = 0; prepared < 2; ++prepared) {
        embed_head *h = head_new(all[c], f.table.t, f.bias, prepared ? EMBED_HEAD_PREPARE : 0);
        for (int a = 0; a < 3; ++a)
          for (int k = 0; k < 3; ++k) {
            embed_sweep_options o = {.size = sizeof o, .activation = activations[a]};
            OK(embed_logits(all[c], h, f.x, EMBED_F32, numbers[k], 0, z, 0, &o));
            check_infinite(&f, activations[a], z, numbers[k]);
            if (numbers[k] == SPECIAL) check_others(all[c], h, f.x, z, &o);
          }
        embed_head_release(h);
      }
    fixture_free(f);
  }
  free(z);
  contexts_free(all, count);
}

static void a_prepared_head_says_what_it_keeps(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  for (int s = 0; s < COUNT(shapes); ++s) {
    fixture f = fixture_new(ctx, shapes[s].dtype, shapes[s].dim);
    embed_head *h = head_new(ctx, f.table.t, f.bias, EMBED_HEAD_PREPARE);
    embed_head_info info = {.size = sizeof info};
    OK(embed_head_describe(ctx, h, &info));
    int64_t extra = info.extra_bytes - (int64_t)sizeof f.bias;
    assert_int_equal(info.vocab, VOCAB);
    assert_int_equal(info.table_bytes, VOCAB * embed_table_row_bytes(f.table.t));
    switch (shapes[s].dtype) {
      case EMBED_F32: assert_int_equal(extra, 64 + 67 * 64 * shapes[s].dim); break; /* 1069 rows are 67 panels */
      case EMBED_F16:
      case EMBED_BF16: assert_int_equal(extra, 64 + 67 * 64 * ((shapes[s].dim + 1) / 2)); break;
      case EMBED_F64:
      case EMBED_U8_ROW:
      case EMBED_U4_ROW:
      case EMBED_U2_ROW:
      case EMBED_F8_E4M3:
      case EMBED_F8_E5M2:
      case EMBED_IQ4_NL:
      case EMBED_IQ4_XS:
      case EMBED_MXFP4:
      case EMBED_NVFP4:
      case EMBED_Q4_1:
      case EMBED_Q5_1:
      case EMBED_Q2_K: assert_int_equal(extra, 0); break; /* swept in place */
      default: break;
    }
    embed_head_release(h);
    fixture_free(f);
  }
  embed_context_release(ctx);
}

enum { SMALL = 40, DIM = 32 };

static void expect_stale(embed_context *ctx, const embed_head *h, const float *x) {
  float z[SMALL];
  int32_t ids[2] = {1, 2};
  memset(z, 0xA5, sizeof z);
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 0, z, 0, NULL), EMBED_E_STALE);
  assert_non_null(strstr(embed_error_text(ctx), "embed_head_refresh"));
  assert_int_equal(embed_logits_at(ctx, h, x, EMBED_F32, 1, 0, ids, 2, z, 0, NULL), EMBED_E_STALE);
  assert_int_equal(embed_topk(ctx, h, x, EMBED_F32, 1, 0, 2, ids, z, NULL, NULL, NULL), EMBED_E_STALE);
  assert_true(test_all_bytes(z, sizeof z, 0xA5));
  assert_int_equal(ids[0], 1);
}

static void expect_same(embed_context *ctx, const embed_head *prepared, const embed_head *plain, const float *x) {
  float a[SMALL], b[SMALL];
  OK(embed_logits(ctx, prepared, x, EMBED_F32, 1, 0, a, 0, NULL));
  OK(embed_logits(ctx, plain, x, EMBED_F32, 1, 0, b, 0, NULL));
  for (int v = 0; v < SMALL; ++v) assert_near(a[v], b[v], 1e-4f);
}

static void a_prepared_head_is_stale_when_its_table_changes_until_it_is_refreshed(void **state) {
  (void)state;
  static const embed_dtype dtypes[] = {EMBED_F32, EMBED_BF16, EMBED_I8_ROW, EMBED_Q4_0};
  embed_context *ctx = context_new();
  uint64_t seed = 3;
  float x[DIM], row[DIM];
  for (int j = 0; j < DIM; ++j) x[j] = test_uniform(&seed);
  for (int d = 0; d < COUNT(dtypes); ++d) {
    embed_table_options o = {.size = sizeof o, .dtype = dtypes[d]};
    embed_init_options normal = {.size = sizeof normal, .kind = EMBED_INIT_NORMAL, .scale = 1, .seed = 2};
    embed_table *t = NULL;
    OK(embed_table_create(ctx, SMALL, DIM, &o, &t));
    OK(embed_table_init(ctx, t, &normal));
    embed_head *h = head_new(ctx, t, NULL, EMBED_HEAD_PREPARE), *plain = head_new(ctx, t, NULL, 0);
    expect_same(ctx, h, plain, x);
    for (int how = 0; how < 3; ++how) {
      int64_t id = 7;
      for (int j = 0; j < DIM; ++j) row[j] = test_uniform(&seed);
      normal.seed += 1;
      if (how == 0) OK(embed_table_set_rows(ctx, t, &id, 1, row, EMBED_F32, 0, NULL));
      if (how == 1) OK(embed_table_init(ctx, t, &normal));
      if (how == 2) {
        memset(embed_table_mutable_data(t), 0, (size_t)embed_table_row_bytes(t));
        embed_table_changed(t);
      }
      expect_stale(ctx, h, x);
      OK(embed_head_refresh(ctx, h));
      expect_same(ctx, h, plain, x);
      OK(embed_head_refresh(ctx, plain)); /* nothing to do */
    }
    embed_head_release(h);
    embed_head_release(plain);
    embed_table_release(t);
  }
  embed_context_release(ctx);
}

static void a_cancelled_preparation_leaves_no_head_or_a_stale_one(void **state) {
  (void)state;
  int32_t cancel = 0;
  embed_context_options c = {.size = sizeof c, .cancel = &cancel};
  embed_context *ctx = NULL;
  OK(embed_context_create(&c, &ctx));
  embed_table *t = NULL;
  float x[DIM] = {1}, z[SMALL];
  OK(embed_table_create(ctx, SMALL, DIM, NULL, &t));
  embed_head *h = head_new(ctx, t, NULL, EMBED_HEAD_PREPARE), *none = (embed_head *)(uintptr_t)8;
  embed_head_options o = {.size = sizeof o, .flags = EMBED_HEAD_PREPARE};
  cancel = 1;
  assert_int_equal(embed_head_create(ctx, t, NULL, &o, &none), EMBED_E_CANCELLED);
  assert_null(none);
  assert_int_equal(embed_head_refresh(ctx, h), EMBED_E_CANCELLED);
  cancel = 0;
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 0, z, 0, NULL), EMBED_E_STALE);
  OK(embed_head_refresh(ctx, h));
  OK(embed_logits(ctx, h, x, EMBED_F32, 1, 0, z, 0, NULL));
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
}

static void a_prepared_head_without_rows_has_no_logits(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  embed_table *t = NULL;
  float x[DIM] = {1};
  OK(embed_table_create(ctx, 0, DIM, NULL, &t));
  embed_head *h = head_new(ctx, t, NULL, EMBED_HEAD_PREPARE);
  OK(embed_logits(ctx, h, x, EMBED_F32, 1, 0, (float *)(uintptr_t)8, 0, NULL));
  OK(embed_head_refresh(ctx, h));
  embed_head_release(h);
  embed_table_release(t);
  embed_context_release(ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prepared_logits_are_those_of_the_decoded_rows_at_every_level_and_thread_count),
      cmocka_unit_test(reproducible_logits_do_not_depend_on_n),
      cmocka_unit_test(rounded_activations_are_products_with_rounded_hidden_rows),
      cmocka_unit_test(infinite_hidden_values_give_what_floats_give),
      cmocka_unit_test(a_prepared_head_says_what_it_keeps),
      cmocka_unit_test(a_prepared_head_is_stale_when_its_table_changes_until_it_is_refreshed),
      cmocka_unit_test(a_cancelled_preparation_leaves_no_head_or_a_stale_one),
      cmocka_unit_test(a_prepared_head_without_rows_has_no_logits),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
