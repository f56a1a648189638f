/* SPDX-License-Identifier: BSD-3-Clause */
/* Nearest rows against plain double loops over the decoded rows: every metric and dtype, what a ranking in float cannot tell
 * apart, and the numbers that a table keeps for its searches. */
#include <pthread.h>

#include "counting.h"

enum { ROWS = 2300, MOST_DIM = 256, MOST_N = 130, MOST_K = 2300, EXCLUDED = 5 };

typedef struct search { /* one call, its table decoded */
  embed_table *table;
  const float *rows; /* [vocab, dim] */
  const float *queries;
  const int32_t *exclude; /* [n, EXCLUDED] */
  int64_t vocab, dim, n;
  int32_t k;
  embed_metric_kind metric;
} search;

static int32_t ids[MOST_N * MOST_K], first_ids[MOST_N * MOST_K];
static float scores[MOST_N * MOST_K], first_scores[MOST_N * MOST_K];
static int32_t counts[MOST_N];
static float decoded[ROWS * MOST_DIM], queries[MOST_N * MOST_DIM];

static void call(embed_context *ctx, const search *s) {
  const embed_nearest_options o = {.size = sizeof o, .metric = s->metric};
  memset(ids, 0xA5, sizeof ids);
  memset(scores, 0xA5, sizeof scores);
  memset(counts, 0xA5, sizeof counts);
  embed_status status = embed_nearest(ctx, s->table, s->queries, s->n, 0, s->k, s->exclude, s->exclude ? EXCLUDED : 0, ids, scores, counts, &o);
  if (status != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  assert_true(test_all_bytes(ids + s->n * s->k, (size_t)(MOST_N * MOST_K - s->n * s->k) * sizeof *ids, 0xA5));
}

/* The score in double, *error what float sums may add to it; L2: minus the distance, rounded to float, and no error. */
static double score_of(const search *s, int64_t i, int64_t v, double *error) {
  const float *q = s->queries + i * s->dim, *w = s->rows + v * s->dim;
  double dot = 0, all = 0, apart = 0, qq = 0, ww = 0;
  for (int64_t j = 0; j < s->dim; ++j) {
    const double a = (double)q[j], b = (double)w[j];
    dot += a * b;
    all += fabs(a * b);
    apart += (a - b) * (a - b);
    qq += a * a;
    ww += b * b;
  }
  *error = s->metric == EMBED_METRIC_L2 ? 0 : 2e-6 * all;
  if (s->metric == EMBED_METRIC_L2) return -(double)(float)sqrt(apart);
  if (s->metric == EMBED_METRIC_DOT) return dot;
  const double norms = sqrt(qq) * sqrt(ww);
  *error = norms > 0 ? *error / norms + 4e-7 : 0;
  return norms > 0 ? dot / norms : norms; /* 0, or NaN */
}

static bool is_out(const search *s, int64_t i, int64_t v) {
  for (int e = 0; s->exclude && e < EXCLUDED; ++e)
    if (s->exclude[i * EXCLUDED + e] == v) return true;
  return false;
}

/* Places follow the order of float64, but that rows whose scores differ by less than their errors may change places. */
static void check_query(const search *s, int64_t i) {
  static double want[ROWS], error[ROWS];
  static bool answered[ROWS];
  const int32_t *id = ids + i * s->k;
  const float *score = scores + i * s->k;
  int64_t possible = 0;
  for (int64_t v = 0; v < s->vocab; ++v) {
    want[v] = score_of(s, i, v, &error[v]);
    answered[v] = isnan(want[v]) || want[v] == -INFINITY || is_out(s, i, v);
    possible += !answered[v];
  }
  assert_int_equal(counts[i], possible < s->k ? possible : s->k);
  for (int32_t j = 0; j < s->k; ++j) {
    const float better = s->metric == EMBED_METRIC_L2 ? -score[j] : score[j];
    if (j >= counts[i]) {
      assert_int_equal(id[j], -1);
      assert_true(better == -INFINITY);
      continue;
    }
    assert_in_range(id[j], 0, s->vocab - 1);
    assert_false(answered[id[j]]);
    answered[id[j]] = true;
    if (!(fabs((double)better - want[id[j]]) <= error[id[j]])) fail_msg("row %d has %g, not %g", id[j], (double)better, want[id[j]]);
    if (j == 0) continue;
    const float before = s->metric == EMBED_METRIC_L2 ? -score[j - 1] : score[j - 1];
    assert_true(before > better || (before == better && id[j - 1] < id[j]));
  }
  for (int64_t v = 0; counts[i] && v < s->vocab; ++v) { /* nobody better was left out */
    const int32_t last = id[counts[i] - 1];
    if (answered[v] || s->k > possible) continue;
    if (want[v] - error[v] > want[last] + error[last]) fail_msg("row %d is left out: %g, the last is %g", (int)v, want[v], want[last]);
    if (s->metric == EMBED_METRIC_L2 && want[v] == want[last]) assert_true(last < v);
  }
}

static void check(embed_context *ctx, const search *s) {
  call(ctx, s);
  for (int64_t i = 0; i < s->n; ++i) check_query(s, i);
}

/* The same bits for 2 and 7 threads as for one; right at every level. */
static void check_everywhere(const search *s) {
  embed_context *all[CONTEXTS];
  const int count = contexts_new(all);
  const size_t bytes = (size_t)(s->n * s->k) * sizeof(float);
  for (int c = 0; c < count; ++c) {
    if (c % 3 == 0)
      check(all[c], s);
    else
      call(all[c], s);
    if (c % 3 == 0) memcpy(first_ids, ids, bytes), memcpy(first_scores, scores, bytes);
    assert_memory_equal(ids, first_ids, bytes);
    assert_memory_equal(scores, first_scores, bytes);
  }
  contexts_free(all, count);
}

static embed_table *table_of(embed_context *ctx, const float *w, int64_t rows, int64_t dim, embed_dtype dtype, int64_t vocab) {
  embed_table *view = NULL, *t = NULL;
  const embed_table_options o = {.size = sizeof o, .vocab = vocab}, as = {.size = sizeof as, .dtype = dtype};
  OK(embed_table_view(ctx, w, rows, dim, &o, NULL, NULL, &view));
  OK(embed_table_convert(ctx, view, &as, &t));
  embed_table_release(view);
  return t;
}

static void decode(embed_context *ctx, const embed_table *t, float *out) {
  static int64_t every[ROWS];
  for (int64_t v = 0; v < ROWS; ++v) every[v] = v;
  OK(embed_table_get_rows(ctx, t, every, embed_table_vocab(t), out, EMBED_F32, 0));
}

static void fill(float *x, int64_t n, float by, float plus, uint64_t *seed) {
  for (int64_t i = 0; i < n; ++i) x[i] = by * test_uniform(seed) + plus;
}

static void neighbours_are_those_of_float64_for_every_dtype(void **state) {
  static const struct {
    embed_dtype dtype;
    int64_t dim;
  } kinds[] = {{EMBED_F32, 61}, {EMBED_F16, 61}, {EMBED_BF16, 61}, {EMBED_I8_ROW, 61}, {EMBED_I4_GROUP, 96}, {EMBED_Q8_0, 96}, {EMBED_Q4_K, 256}};
  static float w[ROWS * MOST_DIM];
  static int32_t exclude[MOST_N * EXCLUDED];
  uint64_t seed = 5;
  (void)state;
  embed_context *ctx = context_new();
  for (int kind = 0; kind < COUNT(kinds); ++kind) {
    const int64_t dim = kinds[kind].dim;
    fill(w, ROWS * dim, 1, 0, &seed);
    fill(queries, MOST_N * dim, 1, 0, &seed);
    memset(w + 7 * dim, 0, (size_t)dim * sizeof *w);
    memset(queries + 2 * dim, 0, (size_t)dim * sizeof *queries);
    for (int64_t v = 100; v < 140; ++v) memcpy(w + v * dim, w + 99 * dim, (size_t)dim * sizeof *w); /* ties */
    memcpy(queries + 3 * dim, w + 99 * dim, (size_t)dim * sizeof *queries);
    for (int i = 0; i < MOST_N * EXCLUDED; ++i) exclude[i] = (int32_t)(test_random(&seed) % ROWS) - 1;
    exclude[3 * EXCLUDED] = exclude[3 * EXCLUDED + 1] = 104;
    search s = {.vocab = ROWS - 1, .dim = dim, .rows = decoded, .queries = queries, .exclude = exclude};
    s.table = table_of(ctx, w, ROWS, dim, kinds[kind].dtype, ROWS - 1);
    decode(ctx, s.table, decoded);
    for (s.metric = EMBED_METRIC_COSINE; s.metric <= EMBED_METRIC_L2; ++s.metric) {
      static const int64_t batches[] = {1, 5, 70, MOST_N};
      for (int b = 0; b < COUNT(batches); ++b) {
        if (batches[b] > 5 && kind % 3 != 0) continue;
        s.n = batches[b];
        s.k = 10;
        if (b == 1)
          check_everywhere(&s);
        else
          check(ctx, &s);
      }
    }
    embed_table_release(s.table);
  }
  embed_context_release(ctx);
}

static void every_k_gives_what_there_is(void **state) {
  static const int32_t ks[] = {0, 1, 31, 32, 33, ROWS - 1, ROWS};
  static float w[ROWS * 3];
  uint64_t seed = 6;
  (void)state;
  embed_context *ctx = context_new();
  fill(w, ROWS * 3, 1, 0, &seed);
  fill(queries, 3 * 3, 1, 0, &seed);
  search s = {.vocab = ROWS - 5, .dim = 3, .rows = w, .queries = queries, .n = 3};
  s.table = table_of(ctx, w, ROWS, 3, EMBED_F32, ROWS - 5);
  for (s.metric = EMBED_METRIC_COSINE; s.metric <= EMBED_METRIC_L2; ++s.metric)
    for (int i = 0; i < COUNT(ks); ++i) {
      s.k = ks[i];
      check(ctx, &s);
    }
  embed_table_release(s.table);
  embed_context_release(ctx);
}

/* Rows of which a float's q.w tells nothing: beside their distances they are far from the origin. */
static void distances_far_from_the_origin_are_exact(void **state) {
  static float w[ROWS * 33];
  uint64_t seed = 8;
  (void)state;
  embed_context *ctx = context_new();
  static const float offsets[] = {0, 10, 1e4f, 1e15f, 1e18f};
  for (int o = 0; o < COUNT(offsets); ++o) {
    const float by = offsets[o] > 1e10f ? offsets[o] * 1e-6f : 0.5f;
    fill(w, ROWS * 33, by, offsets[o], &seed);
    fill(queries, 20 * 33, by, offsets[o], &seed);
    memset(queries + 33, 0, 33 * sizeof *queries); /* and one that is far from them */
    search s = {.vocab = ROWS, .dim = 33, .rows = w, .queries = queries, .n = 20, .k = 7, .metric = EMBED_METRIC_L2};
    s.table = table_of(ctx, w, ROWS, 33, EMBED_F32, 0);
    check_everywhere(&s);
    embed_table_release(s.table);
  }
  embed_context_release(ctx);
}

/* More rows at one distance than are ranked: the lowest ids, whatever the order in which they pass. */
static void ties_beyond_what_is_ranked_go_to_the_lower_id(void **state) {
  static float w[ROWS * 4];
  uint64_t seed = 9;
  (void)state;
  embed_context *ctx = context_new();
  fill(w, ROWS * 4, 1, 2, &seed);
  for (int v = 300; v < ROWS; v += 3) w[4 * v] = 1, w[4 * v + 1] = 2, w[4 * v + 2] = 3, w[4 * v + 3] = (float)(v % 2); /* two distances */
  const float query[] = {1, 2, 3, 0.5f, 1, 2, 3, 0, 0, 0, 0, 0};
  search s = {.vocab = ROWS, .dim = 4, .rows = w, .queries = query, .n = 3, .k = 12};
  s.table = table_of(ctx, w, ROWS, 4, EMBED_F32, 0);
  for (s.metric = EMBED_METRIC_COSINE; s.metric <= EMBED_METRIC_L2; ++s.metric) check_everywhere(&s);
  embed_table_release(s.table);
  embed_context_release(ctx);
}

static void numbers_at_the_ends_of_float_are_measured_too(void **state) {
  static float w[ROWS * 20];
  uint64_t seed = 10;
  (void)state;
  embed_context *ctx = context_new();
  static const float scales[] = {1e-42f, 1e-38f, 1e-20f, 1e14f, 1e16f, 1e19f, 1e30f, 3e38f};
  for (int a = 0; a < COUNT(scales); ++a)
    for (int b = 0; b < COUNT(scales); b += 2) {
      fill(w, ROWS * 20, scales[a], 0, &seed);
      fill(queries, 3 * 20, scales[b], 0, &seed);
      memcpy(queries, w, 20 * sizeof *w);
      for (int j = 0; j < 20; ++j) w[5 * 20 + j] = 1, w[6 * 20 + j] = 1e-10f;
      search s = {.vocab = ROWS, .dim = 20, .rows = w, .queries = queries, .n = 3, .k = 5, .metric = EMBED_METRIC_L2};
      s.table = table_of(ctx, w, ROWS, 20, EMBED_F32, 0);
      check(ctx, &s);
      embed_table_release(s.table);
    }
  embed_context_release(ctx);
}

/* Products past a float's range, norms as well, rows too short for a float 1 / norm: cosines know no length. */
static void cosines_are_those_of_float64_whatever_the_lengths(void **state) {
  static const float scales[] = {1e-42f, 1e-38f, 1e-20f, 1, 1e20f, 1e30f, 3e38f};
  static const int64_t batches[] = {3, MOST_N};
  static float w[ROWS * 20];
  uint64_t seed = 14;
  (void)state;
  embed_context *ctx = context_new();
  for (int a = 0; a < COUNT(scales); ++a) {
    fill(w, ROWS * 20, scales[a], 0, &seed);
    for (int j = 0; j < 20; ++j) w[4 * 20 + j] = 3e38f, w[5 * 20 + j] = 1, w[6 * 20 + j] = a > 2 ? 1e-25f : 1;
    search s = {.vocab = ROWS, .dim = 20, .rows = w, .queries = queries, .k = a == 0 ? ROWS : 9, .metric = EMBED_METRIC_COSINE};
    for (int spread = 0; spread < 2; ++spread) { /* rows of one length, then with those of others before them */
      const int64_t first = spread ? 0 : 7 * 20;
      s.rows = w + first;
      s.vocab = ROWS - first / 20;
      s.table = table_of(ctx, s.rows, s.vocab, 20, EMBED_F32, 0);
      for (int b = 0; b < COUNT(scales); ++b) {
        if (spread && a < 2) continue; /* they are below 1e-65 of the longest row */
        fill(queries, MOST_N * 20, scales[b], 0, &seed);
        fill(queries + 20, 20, 1, 0, &seed);
        memcpy(queries, s.rows, 20 * sizeof *w);
        for (int n = 0; n < COUNT(batches); ++n) {
          s.n = batches[n];
          check(ctx, &s);
        }
      }
      embed_table_release(s.table);
    }
  }
  embed_context_release(ctx);
}

static void what_is_not_a_number_is_no_neighbour(void **state) {
  static float w[ROWS * 6];
  uint64_t seed = 11;
  (void)state;
  embed_context *ctx = context_new();
  fill(w, ROWS * 6, 1, 0, &seed);
  for (int v = 0; v < ROWS - 4; v += 2) w[6 * v + v % 6] = v % 3 == 0 ? NAN : v % 3 == 1 ? INFINITY : -INFINITY; /* half of all */
  fill(queries, 4 * 6, 1, 0, &seed);
  queries[6] = NAN;
  queries[12] = INFINITY;
  search s = {.vocab = ROWS, .dim = 6, .rows = w, .queries = queries, .n = 4, .k = 40, .metric = EMBED_METRIC_L2};
  s.table = table_of(ctx, w, ROWS, 6, EMBED_F32, 0);
  check_everywhere(&s);
  for (s.metric = EMBED_METRIC_COSINE; s.metric <= EMBED_METRIC_DOT; ++s.metric) {
    call(ctx, &s);
    assert_int_equal(counts[1], 0);
    for (int i = 0; i < 4 * 40; ++i) assert_true(scores[i] == scores[i]);
    for (int j = 0; j < counts[0]; ++j) assert_true(fabsf(w[6 * ids[j] + ids[j] % 6]) >= 0); /* a row with a NaN */
  }
  embed_table_release(s.table);
  embed_context_release(ctx);
}

static void all_rows_may_be_left_out(void **state) {
  const float w[3] = {1, 2, 3}, query[1] = {1};
  const int32_t out[EXCLUDED] = {2, 0, -1, 1, 0};
  (void)state;
  embed_context *ctx = context_new();
  search s = {.vocab = 3, .dim = 1, .rows = w, .queries = query, .n = 1, .k = 2, .exclude = out, .table = table_of(ctx, w, 3, 1, EMBED_F32, 0)};
  for (s.metric = EMBED_METRIC_COSINE; s.metric <= EMBED_METRIC_L2; ++s.metric) check(ctx, &s);
  embed_table_release(s.table);
  embed_context_release(ctx);
}

/* M8, a = 4, b = 0, c = 1: 3CosAdd gives 7 without the three; on the rows as they are it is b - a + c = [4, 2, -1]. */
static void analogies_of_m8_in_every_metric(void **state) {
  static const float m8[8][3] = {{2, 1, 0}, {1, 2, 0}, {0, 1, 2}, {1, 0, 2}, {-1, 1, 1}, {2, -1, 1}, {0, 0, 1}, {3, 3, 3}};
  static const int32_t want[3][5] = {{7, 5, 3, 2, 6}, {7, 5, 3, 2, 6}, {5, 7, 3, 6, 2}}; /* dot 15 5 2 0 -1; distances^2 17 18 22 24 26 */
  static const float best[3] = {0.56689765f, 15, 4.1231056f};
  const int32_t abc[3] = {4, 0, 1};
  int32_t got[5], count;
  float score[5];
  (void)state;
  embed_context *ctx = context_new();
  embed_table *t = table_of(ctx, &m8[0][0], 8, 3, EMBED_F32, 0);
  for (int metric = EMBED_METRIC_COSINE; metric <= EMBED_METRIC_L2; ++metric) {
    const embed_nearest_options o = {.size = sizeof o, .metric = metric};
    OK(embed_analogy(ctx, t, abc, 1, 5, got, score, &count, &o));
    assert_int_equal(count, 5);
    assert_memory_equal(got, want[metric], sizeof got);
    assert_true(fabsf(score[0] - best[metric]) < 1e-6f);
  }
  embed_table_release(t);
  embed_context_release(ctx);
}

/* A row that is no number has no direction: nothing is analogous to it, by any metric. */
static void nothing_is_analogous_to_what_is_no_number(void **state) {
  static const float rows[5][2] = {{NAN, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 1}};
  (void)state;
  embed_context *ctx = context_new();
  embed_table *t = table_of(ctx, &rows[0][0], 5, 2, EMBED_F32, 0);
  for (int metric = EMBED_METRIC_COSINE; metric <= EMBED_METRIC_L2; ++metric) {
    const embed_nearest_options o = {.size = sizeof o, .metric = metric};
    for (int place = 0; place < 3; ++place) {
      int32_t abc[3] = {1, 2, 1}, got[2] = {7, 7}, count = 7;
      float score[2];
      abc[place] = 0;
      OK(embed_analogy(ctx, t, abc, 1, 2, got, score, &count, &o));
      assert_int_equal(count, 0);
      assert_int_equal(got[0], -1);
    }
  }
  embed_table_release(t);
  embed_context_release(ctx);
}

/* Row 1 comes nearest after every change. */
static void expect_nearest(embed_context *ctx, const embed_table *t, int32_t want) {
  const float query[2] = {1, 1};
  for (int metric = EMBED_METRIC_COSINE; metric <= EMBED_METRIC_L2; metric += 2) {
    const embed_nearest_options o = {.size = sizeof o, .metric = metric};
    int32_t id = -9;
    float score;
    OK(embed_nearest(ctx, t, query, 1, 0, 1, NULL, 0, &id, &score, NULL, &o));
    assert_int_equal(id, want);
    assert_true(metric == EMBED_METRIC_L2 ? score < 1 : score <= 1.0f + 1e-6f);
  }
}

static void changed_rows_are_seen(void **state) {
  static const float before[6] = {1, 1, 5, -5, 1, -1};
  static const int64_t one = 1, both[2] = {0, 2};
  (void)state;
  embed_context *ctx = context_new();
  embed_table *t = table_of(ctx, before, 3, 2, EMBED_F32, 0), *over = NULL, *rows = table_of(ctx, before, 1, 2, EMBED_F32, 0);
  expect_nearest(ctx, t, 0);
  const float to[2] = {1.1f, 1}, away[2] = {9, -9};
  OK(embed_table_set_rows(ctx, t, &both[0], 1, away, EMBED_F32, 0, NULL));
  OK(embed_table_set_rows(ctx, t, &one, 1, to, EMBED_F32, 0, NULL));
  expect_nearest(ctx, t, 1);
  float *raw = embed_table_mutable_data(t);
  raw[2] = 100, raw[3] = -100, raw[4] = 1.2f, raw[5] = 1;
  embed_table_changed(t);
  expect_nearest(ctx, t, 2);
  OK(embed_table_overlay(ctx, t, &one, 1, rows, 0, &over)); /* row 1 is (1, 1) there */
  expect_nearest(ctx, over, 1);
  OK(embed_table_set_rows(ctx, rows, &both[0], 1, away, EMBED_F32, 0, NULL)); /* an overlay sees what its tables say */
  expect_nearest(ctx, over, 2);
  OK(embed_table_set_rows(ctx, t, &both[0], 1, to, EMBED_F32, 0, NULL));
  raw[4] = 50, raw[5] = -40;
  embed_table_changed(t);
  expect_nearest(ctx, over, 0);
  embed_table_release(over);
  embed_table_release(rows);
  embed_table_release(t);
  embed_context_release(ctx);
}

/* The norms belong to the table: made once, by its allocator, given back with it or when its rows change. */
static void a_table_keeps_its_norms_and_gives_them_back(void **state) {
  static float w[ROWS * 3];
  uint64_t seed = 12;
  counting c;
  (void)state;
  fill(w, ROWS * 3, 1, 0, &seed);
  fill(queries, 2 * 3, 1, 0, &seed);
  counting_start(&c);
  embed_context *maker = counting_context(&c, NULL), *ctx = context_new();
  search s = {.vocab = ROWS, .dim = 3, .rows = w, .queries = queries, .n = 2, .k = 3, .table = table_of(maker, w, ROWS, 3, EMBED_F32, 0)};
  embed_context_release(maker);
  const int64_t alone = atomic_load(&c.alive);
  for (s.metric = EMBED_METRIC_COSINE; s.metric <= EMBED_METRIC_L2; s.metric += 2) {
    const embed_nearest_options o = {.size = sizeof o, .metric = s.metric};
    memset(ids, 0xA5, sizeof ids);
    atomic_store(&c.fail_at, 0);
    assert_int_equal(embed_nearest(ctx, s.table, queries, 2, 0, 3, NULL, 0, ids, scores, counts, &o), EMBED_E_MEMORY);
    assert_true(test_all_bytes(ids, sizeof ids, 0xA5));
    const int64_t calls = atomic_load(&c.calls);
    for (int round = 0; round < 3; ++round) check(ctx, &s);
    assert_int_equal(atomic_load(&c.calls), calls + 1);
  }
  assert_int_equal(atomic_load(&c.alive), alone + 2);
  embed_table_changed(s.table);
  assert_int_equal(atomic_load(&c.alive), alone);
  s.metric = EMBED_METRIC_COSINE;
  check(ctx, &s);
  embed_table_release(s.table);
  embed_context_release(ctx);
  counting_check(&c);
}

typedef struct shared_search {
  search s;
  pthread_barrier_t *together;
  int32_t got[2][3 * 4];
} shared_search;

static void *search_shared(void *arg) {
  shared_search *mine = arg;
  embed_context *ctx = context_with(NULL, 1);
  float score[3 * 4];
  pthread_barrier_wait(mine->together);
  for (int i = 0; i < 2; ++i) {
    const embed_nearest_options o = {.size = sizeof o, .metric = 2 * i};
    if (embed_nearest(ctx, mine->s.table, mine->s.queries, 3, 0, 4, NULL, 0, mine->got[i], score, NULL, &o) != EMBED_OK) mine->got[i][0] = -2;
  }
  embed_context_release(ctx);
  return NULL;
}

static void threads_share_what_a_table_keeps(void **state) {
  enum { THREADS = 6, TIMES = 20 };
  static float w[ROWS * 9];
  uint64_t seed = 13;
  (void)state;
  embed_context *ctx = context_new();
  fill(w, ROWS * 9, 1, 0, &seed);
  fill(queries, 3 * 9, 1, 0, &seed);
  search s = {.vocab = ROWS, .dim = 9, .rows = w, .queries = queries, .n = 3, .k = 4, .table = table_of(ctx, w, ROWS, 9, EMBED_F32, 0)};
  int32_t want[2][3 * 4];
  for (int i = 0; i < 2; ++i) {
    s.metric = 2 * i;
    check(ctx, &s);
    memcpy(want[i], ids, sizeof want[i]);
  }
  for (int time = 0; time < TIMES; ++time) {
    pthread_t threads[THREADS];
    static shared_search each[THREADS];
    pthread_barrier_t together;
    embed_table_changed(s.table); /* they all want its norms, and nobody has made them */
    assert_int_equal(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; ++i) {
      each[i] = (shared_search){.s = s, .together = &together};
      assert_int_equal(pthread_create(&threads[i], NULL, search_shared, &each[i]), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
      assert_int_equal(pthread_join(threads[i], NULL), 0);
      assert_memory_equal(each[i].got, want, sizeof want);
    }
    pthread_barrier_destroy(&together);
  }
  embed_table_release(s.table);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(neighbours_are_those_of_float64_for_every_dtype),
    cmocka_unit_test(every_k_gives_what_there_is),
    cmocka_unit_test(distances_far_from_the_origin_are_exact),
    cmocka_unit_test(ties_beyond_what_is_ranked_go_to_the_lower_id),
    cmocka_unit_test(numbers_at_the_ends_of_float_are_measured_too),
    cmocka_unit_test(cosines_are_those_of_float64_whatever_the_lengths),
    cmocka_unit_test(what_is_not_a_number_is_no_neighbour),
    cmocka_unit_test(all_rows_may_be_left_out),
    cmocka_unit_test(analogies_of_m8_in_every_metric),
    cmocka_unit_test(nothing_is_analogous_to_what_is_no_number),
    cmocka_unit_test(changed_rows_are_seen),
    cmocka_unit_test(a_table_keeps_its_norms_and_gives_them_back),
    cmocka_unit_test(threads_share_what_a_table_keeps),
};
TEST_MAIN(tests)
