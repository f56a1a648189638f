/* SPDX-License-Identifier: BSD-3-Clause */
/* Product-quantised rows as a table: their values by a plain loop, every call that reads tables beside the same call over the values as
 * F64, which is decoded first as well and therefore has the same bits, and what is refused. */
#include "counting.h"
#include "sweep.h"

enum { NO_NORMS, NORMS, NORM_CODES, NORM_KINDS };

typedef struct coded {
  int64_t rows, dim, width, parts;
  embed_pq pq;
  embed_table_options o;
  guarded codes, norms; /* end where readable memory ends */
  float *values, *norm_values;
  float *decoded; /* [rows, dim] by the formula */
  embed_table *t;
} coded;

/* What a table is made of: codes with bytes of 0xFF between rows, values, norms. */
static coded parts_of(int64_t rows, int64_t dim, int64_t width, int64_t centroids, int norms, int64_t gap, uint64_t seed) {
  coded c = {.rows = rows, .dim = dim, .width = width, .parts = (dim + width - 1) / width};
  c.o = (embed_table_options){.size = sizeof c.o, .row_bytes = gap ? c.parts + gap : 0, .data_bytes = (rows - 1) * (c.parts + gap) + c.parts};
  c.codes = guarded_new((size_t)c.o.data_bytes, 1);
  memset(c.codes.at, 0xFF, (size_t)c.o.data_bytes);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t p = 0; p < c.parts; ++p) c.codes.at[r * (c.parts + gap) + p] = (unsigned char)(test_random(&seed) % (uint64_t)centroids);
  c.values = malloc((size_t)(dim * centroids) * sizeof(float));
  for (int64_t i = 0; i < dim * centroids; ++i) c.values[i] = 3 * test_uniform(&seed);
  c.norm_values = malloc(256 * sizeof(float));
  for (int i = 0; i < 256; ++i) c.norm_values[i] = 1 + test_uniform(&seed);
  c.norms = guarded_new((size_t)(norms == NORMS ? 4 * rows : rows), 1);
  for (int64_t r = 0; r < rows; ++r) {
    const float norm = 1 + test_uniform(&seed);
    if (norms == NORMS)
      memcpy(c.norms.at + 4 * r, &norm, sizeof norm);
    else
      c.norms.at[r] = (unsigned char)test_random(&seed);
  }
  c.pq = (embed_pq){.size = sizeof c.pq, .width = width, .centroids = centroids, .values = c.values};
  if (norms == NORMS) c.pq.norms = (const float *)(const void *)c.norms.at;
  if (norms == NORM_CODES) c.pq.norm_codes = c.norms.at, c.pq.norm_values = c.norm_values;
  c.decoded = malloc((size_t)(rows * dim) * sizeof(float));
  for (int64_t r = 0; r < rows; ++r) {
    const float norm = norms == NORMS ? c.pq.norms[r] : norms == NORM_CODES ? c.norm_values[c.norms.at[r]] : 1;
    for (int64_t j = 0; j < dim; ++j) {
      const int64_t p = j / width, wide = p == c.parts - 1 ? dim - p * width : width;
      c.decoded[r * dim + j] = norm * c.values[p * centroids * width + c.codes.at[r * (c.parts + gap) + p] * wide + j % width];
    }
  }
  return c;
}

static void parts_free(coded *c) {
  embed_table_release(c->t);
  guarded_free(c->codes);
  guarded_free(c->norms);
  free(c->values), free(c->norm_values), free(c->decoded);
}

static coded coded_new(embed_context *ctx, int64_t rows, int64_t dim, int64_t width, int64_t centroids, int norms, int64_t gap, uint64_t seed) {
  coded c = parts_of(rows, dim, width, centroids, norms, gap, seed);
  OK(embed_table_view_pq(ctx, c.codes.at, rows, dim, &c.pq, &c.o, NULL, NULL, &c.t));
  for (int64_t i = 0; i < dim * centroids; ++i) c.values[i] = NAN; /* they were copied */
  for (int i = 0; i < 256; ++i) c.norm_values[i] = NAN;
  return c;
}

/* The same values in a dtype that is decoded first, too. */
static embed_table *as_doubles(embed_context *ctx, const embed_table *floats) {
  embed_table_options o = {.size = sizeof o, .dtype = EMBED_F64};
  embed_table *t = NULL;
  OK(embed_table_convert(ctx, floats, &o, &t));
  return t;
}

static void rows_are_what_the_formula_says(void **state) {
  (void)state;
  static const int64_t dims[] = {1, 2, 3, 7, 16, 33, 100}, widths[] = {1, 2, 3, 4, 5, 8, 16, 64, 300}, centroids[] = {1, 7, 256};
  enum { ROWS = 9, MOST = 100 };
  embed_context *all[CONTEXTS];
  const int count = contexts_new(all);
  static float got[ROWS * MOST];
  const int64_t ids[ROWS] = {8, 0, 1, 2, 3, 4, 5, 6, 7};
  for (int d = 0; d < COUNT(dims); ++d)
    for (int w = 0; w < COUNT(widths); ++w)
      for (int k = 0; k < COUNT(centroids) * NORM_KINDS; ++k) {
        coded c = coded_new(all[0], ROWS, dims[d], widths[w], centroids[k / NORM_KINDS], k % NORM_KINDS, w % 2 ? 3 : 0, 1 + (uint64_t)k);
        assert_int_equal(embed_table_row_bytes(c.t), c.parts + (w % 2 ? 3 : 0));
        for (int x = 0; x < count; ++x) {
          OK(embed_table_get_rows(all[x], c.t, ids, ROWS, got, EMBED_F32, 0));
          for (int i = 0; i < ROWS; ++i) assert_same_bits(got + i * dims[d], c.decoded + ids[i] * dims[d], (size_t)dims[d] * 4);
          embed_lookup_options o = {.size = sizeof o, .scale = 1.7f};
          OK(embed_lookup_i64(all[x], c.t, ids, ROWS, got, EMBED_F32, 0, &o));
          for (int64_t i = 0; i < ROWS * dims[d]; ++i) {
            const float want = 1.7f * c.decoded[ids[i / dims[d]] * dims[d] + i % dims[d]];
            assert_same_bits(got + i, &want, 4);
          }
        }
        parts_free(&c);
      }
  contexts_free(all, count);
}

static void it_says_what_it_is(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  coded c = coded_new(ctx, 5, 10, 4, 16, NORMS, 0, 3);
  assert_int_equal(embed_table_dtype(c.t), EMBED_PQ);
  assert_int_equal(embed_table_rows(c.t), 5);
  assert_int_equal(embed_table_vocab(c.t), 5);
  assert_int_equal(embed_table_dim(c.t), 10);
  assert_int_equal(embed_table_row_bytes(c.t), 3);
  assert_ptr_equal(embed_table_data(c.t), c.codes.at);
  assert_null(embed_table_mutable_data(c.t));
  assert_string_equal(embed_dtype_name(EMBED_PQ), "pq");
  assert_int_equal(embed_dtype_find("pq"), EMBED_PQ);
  static const struct {
    int64_t dim;
    int32_t group;
    int64_t bytes;
  } bytes[] = {{10, 4, 3},
               {8, 4, 2},
               {1, 1, 1},
               {3, 100, 1},
               {INT64_MAX, 1, INT64_MAX},
               {10, 0, EMBED_E_ARGUMENT},
               {10, -1, EMBED_E_ARGUMENT},
               {0, 1, EMBED_E_ARGUMENT}};
  for (int i = 0; i < COUNT(bytes); ++i) assert_int_equal(embed_row_bytes(EMBED_PQ, bytes[i].dim, bytes[i].group), bytes[i].bytes);
  embed_table_options vocab = {.size = sizeof vocab, .vocab = 2, .dtype = EMBED_PQ, .group = 4};
  embed_table *t = NULL, *empty = NULL;
  OK(embed_table_view_pq(ctx, c.codes.at, 5, 10, &c.pq, &vocab, NULL, NULL, &t));
  assert_int_equal(embed_table_vocab(t), 2);
  OK(embed_table_view_pq(ctx, NULL, 0, 10, &c.pq, NULL, NULL, NULL, &empty));
  assert_int_equal(embed_table_rows(empty), 0);
  embed_table_release(t);
  embed_table_release(empty);
  parts_free(&c);
  embed_context_release(ctx);
}

/* The same codes mean other rows with other centroids. */
static void heads_are_tied_by_codes_and_centroids(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  coded c = parts_of(5, 10, 4, 16, NO_NORMS, 0, 3);
  embed_head *h = NULL;
  embed_table *other = NULL;
  OK(embed_table_view_pq(ctx, c.codes.at, 5, 10, &c.pq, &c.o, NULL, NULL, &c.t));
  c.values[0] += 1;
  OK(embed_table_view_pq(ctx, c.codes.at, 5, 10, &c.pq, &c.o, NULL, NULL, &other));
  OK(embed_head_create(ctx, c.t, NULL, NULL, &h));
  assert_int_equal(embed_head_is_tied(h, c.t), 1);
  assert_int_equal(embed_head_is_tied(h, other), 0);
  embed_head_release(h);
  embed_table_release(other);
  parts_free(&c);
  embed_context_release(ctx);
}

/* --- Every call that reads tables */

/* What calls wrote, one after the other. */
typedef struct answers {
  unsigned char *at;
  size_t bytes, room;
} answers;

static void keep(answers *a, const void *from, size_t bytes) {
  if (a->bytes + bytes > a->room) a->at = realloc(a->at, a->room = 2 * (a->bytes + bytes));
  assert_non_null(a->at);
  memcpy(a->at + a->bytes, from, bytes);
  a->bytes += bytes;
}

static void assert_same_answers(answers *a, answers *b) {
  assert_int_equal(a->bytes, b->bytes);
  assert_same_bits(a->at, b->at, a->bytes);
  free(a->at), free(b->at);
}

enum { VOCAB = 1100, MOST_DIM = 33, MOST = 130, IDS = 200 };
static float hidden[MOST * MOST_DIM], out[MOST * VOCAB + IDS * MOST_DIM], weights[IDS > VOCAB ? IDS : VOCAB];
static int32_t ids32[IDS], targets[MOST], subset[VOCAB];
static int64_t ids64[IDS];

static void fill(void) {
  uint64_t seed = 77;
  for (int i = 0; i < MOST * MOST_DIM; ++i) hidden[i] = test_uniform(&seed);
  for (int i = 0; i < COUNT(weights); ++i) weights[i] = test_uniform(&seed);
  for (int i = 0; i < IDS; ++i) ids64[i] = ids32[i] = (int32_t)(test_random(&seed) % VOCAB);
  for (int i = 0; i < MOST; ++i) targets[i] = i % 7 == 6 ? -100 : (int32_t)(test_random(&seed) % VOCAB);
  for (int i = 0; i < VOCAB; ++i) subset[i] = (i * 37 + 5) % VOCAB;
}

static void gathers(embed_context *ctx, const embed_table *t, answers *a) {
  const int64_t dim = embed_table_dim(t), offsets[] = {0, 3, 3, 50, IDS};
  for (int d = 0; d < COUNT(float_dtypes); ++d) {
    const embed_dtype dtype = float_dtypes[d];
    const size_t bytes = (size_t)(IDS * dim * size_of(dtype));
    OK(embed_table_get_rows(ctx, t, ids64, IDS, out, dtype, 0));
    keep(a, out, bytes);
    embed_lookup_options o[] = {{.size = sizeof *o},
                                {.size = sizeof *o, .scale = 0.3f},
                                {.size = sizeof *o, .max_norm = 2, .scale = 3},
                                {.size = sizeof *o, .scale = 5.7f, .scale_round = EMBED_BF16},
                                {.size = sizeof *o, .flags = EMBED_LOOKUP_ADD},
                                {.size = sizeof *o, .flags = EMBED_LOOKUP_PADDING, .padding_id = ids32[3]}};
    for (int i = 0; i < COUNT(o); ++i) {
      OK(embed_lookup(ctx, t, ids32, IDS, out, dtype, 0, &o[i]));
      keep(a, out, bytes);
    }
    for (embed_bag_mode mode = EMBED_BAG_SUM; mode <= EMBED_BAG_MIN; ++mode) {
      embed_bag_options b = {.size = sizeof b, .mode = mode};
      OK(embed_bag(ctx, t, ids32, IDS, offsets, 4, mode == EMBED_BAG_SUM || mode == EMBED_BAG_WEIGHTED_MEAN ? weights : NULL, out, dtype, 0, &b));
      keep(a, out, (size_t)(4 * dim * size_of(dtype)));
    }
  }
}

static void conversions(embed_context *ctx, const embed_table *t, answers *a) {
  static const embed_dtype to[] = {EMBED_F32, EMBED_F16, EMBED_BF16, EMBED_F64, EMBED_I8_ROW, EMBED_I4_GROUP, EMBED_U8_ROW, EMBED_F8_E4M3};
  for (int d = 0; d < COUNT(to); ++d) {
    embed_table_options o = {.size = sizeof o, .dtype = to[d]};
    embed_table *made = NULL;
    OK(embed_table_convert(ctx, t, &o, &made));
    keep(a, embed_table_data(made), (size_t)(embed_table_rows(made) * embed_table_row_bytes(made)));
    embed_table_release(made);
  }
  OK(embed_norms(ctx, t, out));
  keep(a, out, sizeof(float) * VOCAB);
}

static void neighbours(embed_context *ctx, const embed_table *t, answers *a) {
  int32_t found[5 * 40], count[40];
  float scores[5 * 40];
  for (embed_metric_kind metric = EMBED_METRIC_COSINE; metric <= EMBED_METRIC_L2; ++metric) {
    embed_nearest_options o = {.size = sizeof o, .metric = metric};
    for (int64_t n = 3; n <= 40; n += 37) {
      OK(embed_nearest(ctx, t, hidden, n, 0, 5, NULL, 0, found, scores, count, &o));
      keep(a, found, (size_t)n * 20), keep(a, scores, (size_t)n * 20);
    }
    OK(embed_analogy(ctx, t, ids32, 7, 5, found, scores, count, &o));
    keep(a, found, 7 * 20), keep(a, scores, 7 * 20);
  }
}

/* few: half of the batches. */
static void answers_of(embed_context *ctx, const embed_head *h, int few, answers *a) {
  static const int64_t ns[] = {1, 5, 20, 129};
  const int64_t vocab = embed_head_vocab(h);
  static int32_t found[10 * MOST];
  static float logits[10 * MOST], lse[MOST];
  for (int i = 0; i < COUNT(ns); ++i) {
    const int64_t n = ns[i];
    if (few && i % 2) continue;
    for (int activation = 0; activation < (n == 5 ? 3 : 1); ++activation) {
      embed_sweep_options o = {.size = sizeof o, .activation = activation == 2 ? EMBED_Q8_0 : activation ? EMBED_BF16 : EMBED_F32};
      OK(embed_logits(ctx, h, hidden, EMBED_F32, n, 0, out, 0, &o));
      keep(a, out, (size_t)(n * vocab) * 4);
      OK(embed_logits_at(ctx, h, hidden, EMBED_F32, n, 0, ids32, 9, out, 0, &o));
      keep(a, out, (size_t)n * 9 * 4);
      OK(embed_topk(ctx, h, hidden, EMBED_F32, n, 0, 10, found, logits, lse, NULL, &o));
      keep(a, found, (size_t)n * 40), keep(a, logits, (size_t)n * 40), keep(a, lse, (size_t)n * 4);
      OK(embed_topk(ctx, h, hidden, EMBED_F32, n, 0, 10, found, logits, NULL, NULL, &o)); /* which a sketch answers */
      keep(a, found, (size_t)n * 40), keep(a, logits, (size_t)n * 40);
    }
    embed_sample_params params = {.size = sizeof params, .seed = 5, .temperature = 0.8, .top_p = 0.9};
    OK(embed_sample(ctx, h, hidden, EMBED_F32, n, 0, NULL, &params, 1, found, logits, NULL));
    keep(a, found, (size_t)n * 4), keep(a, logits, (size_t)n * 4);
  }
  embed_result *r = NULL;
  OK(embed_result_create(ctx, &r));
  int32_t wanted[5] = {ids32[0], ids32[1], ids32[2], ids32[3], ids32[4]};
  embed_sweep_options o = {.size = sizeof o, .ask = ALL_ASKS, .k = 7};
  OK(embed_sweep(ctx, h, hidden, EMBED_F32, 0, NULL, 5, wanted, NULL, NULL, 0, &o, r));
  for (uint32_t ask = 1; ask < ALL_ASKS; ask *= 2) {
    int64_t rows = 0, cols = 0;
    const float *f = embed_result_f32(r, ask, &rows, &cols);
    const void *from = f ? (const void *)f : embed_result_i32(r, ask, &rows, &cols);
    assert_non_null(from);
    keep(a, from, (size_t)(rows * cols) * 4);
  }
  embed_result_release(r);
  const int64_t offsets[] = {0, 3, 5};
  int32_t ids[5], accepted[2];
  OK(embed_verify(ctx, h, hidden, EMBED_F32, 0, offsets, 2, ids32, NULL, 0, NULL, NULL, 0, ids, accepted, NULL));
  keep(a, ids, sizeof ids), keep(a, accepted, sizeof accepted);
}

static void heads(embed_context *ctx, const embed_table *t, answers *a) {
  static const uint32_t flags[] = {0, EMBED_HEAD_PREPARE, EMBED_HEAD_SKETCH};
  for (int f = 0; f < COUNT(flags); ++f) {
    embed_head_options o = {.size = sizeof o, .flags = flags[f], .logit_scale = 0.7f, .logit_softcap = 20};
    embed_head *h = NULL, *some = NULL, *fewer = NULL;
    OK(embed_head_create(ctx, t, weights, &o, &h));
    answers_of(ctx, h, f > 0, a);
    if (f == 0) {
      OK(embed_head_create_subset(ctx, h, subset, VOCAB, &some)); /* all, so that answers_of may ask for any id */
      answers_of(ctx, some, 1, a);
      OK(embed_head_create_subset(ctx, some, subset, 60, &fewer));
      OK(embed_logits(ctx, fewer, hidden, EMBED_F32, 20, 0, out, 0, NULL));
      keep(a, out, 20 * 60 * 4);
      OK(embed_head_refresh(ctx, fewer));
    }
    embed_head_release(fewer);
    embed_head_release(some);
    embed_head_release(h);
  }
}

static void losses(embed_context *ctx, const embed_table *t, answers *a) {
  enum { N = 50 };
  const int64_t dim = embed_table_dim(t);
  float loss[N], lse[N], *dx = out, *dw = out + N * dim;
  embed_head *h = NULL;
  OK(embed_head_create(ctx, t, NULL, NULL, &h));
  for (uint32_t flags = 0; flags < 2; ++flags) {
    embed_loss_options o = {.size = sizeof o, .flags = flags ? EMBED_LOSS_BF16 : 0, .label_smoothing = 0.1};
    OK(embed_cross_entropy(ctx, h, hidden, EMBED_F32, N, 0, targets, loss, lse, &o));
    keep(a, loss, sizeof loss), keep(a, lse, sizeof lse);
    memset(dw, 0, (size_t)(VOCAB * dim) * 4);
    OK(embed_cross_entropy_backward(ctx, h, hidden, EMBED_F32, N, 0, targets, lse, weights, dx, 0, dw, 0, &o));
    keep(a, dx, (size_t)(N * dim) * 4), keep(a, dw, (size_t)(VOCAB * dim) * 4);
    OK(embed_cross_entropy_train(ctx, h, hidden, EMBED_F32, N, 0, targets, NULL, loss, NULL, dx, EMBED_F32, 0, NULL, &o));
    keep(a, loss, sizeof loss), keep(a, dx, (size_t)(N * dim) * 4);
  }
  embed_sampled_options o = {.size = sizeof o};
  for (int per_row = 0; per_row < 2; ++per_row) {
    OK(embed_sampled_loss(ctx, h, hidden, EMBED_F32, 20, 0, targets, ids32, 10, NULL, NULL, NULL, loss, NULL, dx, EMBED_F32, 0, NULL, &o));
    keep(a, loss, 20 * 4), keep(a, dx, (size_t)(20 * dim) * 4);
  }
  embed_head_release(h);
}

static void products_of_all(embed_context *ctx, const embed_table *t, answers *a) {
  OK(embed_mix(ctx, t, weights, 1, 0, out, 0, NULL));
  keep(a, out, (size_t)embed_table_dim(t) * 4);
  embed_init_options o = {.size = sizeof o, .kind = EMBED_INIT_NORMAL, .seed = 9};
  OK(embed_table_moved(ctx, t, &o, out, out + VOCAB));
  keep(a, out, 2 * VOCAB * 4);
}

typedef void use(embed_context *ctx, const embed_table *t, answers *a);

/* `floats` too: calls whose bits do not depend on how rows are stored. */
static void agree(embed_context *ctx, const embed_table *t, const embed_table *floats, const embed_table *doubles) {
  static use *const uses[] = {gathers, conversions, neighbours, heads, losses, products_of_all};
  for (int i = 0; i < COUNT(uses); ++i) {
    answers got = {0}, want = {0};
    uses[i](ctx, t, &got);
    uses[i](ctx, doubles, &want);
    assert_same_answers(&got, &want);
    if (i > 1) continue;
    got = want = (answers){0};
    uses[i](ctx, t, &got);
    uses[i](ctx, floats, &want);
    assert_same_answers(&got, &want);
  }
}

static void every_call_gives_what_it_gives_for_the_values(void **state) {
  (void)state;
  static const char *const levels[] = {TEST_LEVELS};
  fill();
  for (int c = 0; c < COUNT(levels); ++c) {
    embed_context *ctx = context_with(levels[c], 2);
    if (!ctx) continue;
    coded made = coded_new(ctx, VOCAB, MOST_DIM - c % 4, 1 + c % 5, c % 2 ? 256 : 13, c % NORM_KINDS, c % 3, 50 + (uint64_t)c);
    embed_table *floats = view_floats(ctx, made.decoded, VOCAB, made.dim), *doubles = as_doubles(ctx, floats);
    agree(ctx, made.t, floats, doubles);
    embed_table_release(floats);
    embed_table_release(doubles);
    parts_free(&made);
    embed_context_release(ctx);
  }
}

static void threads_do_not_change_a_bit(void **state) {
  (void)state;
  static use *const uses[] = {gathers, conversions, neighbours, heads, losses, products_of_all};
  fill();
  for (int i = 0; i < COUNT(uses); ++i) {
    answers want = {0};
    for (int32_t threads = 1; threads <= 7; threads += threads == 1 ? 1 : 5) {
      embed_context *ctx = context_with(NULL, threads);
      coded made = coded_new(ctx, VOCAB, 30, 4, 100, NORM_CODES, 0, 8);
      answers got = {0};
      uses[i](ctx, made.t, &got);
      if (threads == 1) want = got;
      assert_int_equal(got.bytes, want.bytes);
      assert_same_bits(got.at, want.at, got.bytes);
      if (threads > 1) free(got.at);
      parts_free(&made);
      embed_context_release(ctx);
    }
    free(want.at);
  }
}

/* The bound of all heads, against the values. */
static void logits_are_within_their_bound(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  fill();
  coded made = coded_new(ctx, VOCAB, 33, 4, 256, NORMS, 0, 8);
  embed_head *h = NULL;
  OK(embed_head_create(ctx, made.t, NULL, NULL, &h));
  for (int64_t n = 1; n <= MOST; n += 43) {
    OK(embed_logits(ctx, h, hidden, EMBED_F32, n, 0, out, 0, NULL));
    for (int64_t i = 0; i < n * VOCAB; ++i) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < 33; ++j) {
        const double product = (double)made.decoded[i % VOCAB * 33 + j] * (double)hidden[i / VOCAB * 33 + j];
        sum += product, size += fabs(product);
      }
      if (!(fabs((double)out[i] - sum) <= 2e-6 * size)) fail_msg("logit %d of %d is %a, not %a (%a)", (int)i, (int)n, (double)out[i], sum, size);
    }
  }
  embed_head_release(h);
  parts_free(&made);
  embed_context_release(ctx);
}

static void values_that_are_no_numbers_are_values(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  const unsigned char codes[] = {0, 1, 2, 3};
  const float values[] = {INFINITY, -0.0f, 0x1p-149f, 1, 2, 3, NAN, 5}, norms[] = {1, -2, 3, INFINITY};
  const embed_pq pq = {.size = sizeof pq, .width = 2, .centroids = 4, .values = values, .norms = norms};
  embed_table *t = NULL;
  float got[8];
  const int64_t ids[] = {0, 1, 2, 3};
  OK(embed_table_view_pq(ctx, codes, 4, 2, &pq, NULL, NULL, NULL, &t));
  OK(embed_table_get_rows(ctx, t, ids, 4, got, EMBED_F32, 0));
  assert_true(got[0] == INFINITY && got[1] == 0 && signbit(got[1]) && got[2] == -0x1p-148f && got[3] == -2 && got[4] == 6 && got[5] == 9);
  assert_true(isnan(got[6]) && got[7] == INFINITY);
  embed_table_release(t);
  embed_context_release(ctx);
}

/* --- Overlays */

/* New rows over codes: floats, or codes with centroids of their own; each row by its own table, also two overlays deep. */
static void overlays_decode_every_row_as_its_own_table_does(void **state) {
  (void)state;
  enum { DIM = 30, OWN = 6 };
  const int64_t own[OWN] = {7, 0, VOCAB - 8, 40, VOCAB - 10, VOCAB - 9}, one = 41;
  embed_context *ctx = context_with(NULL, 2);
  fill();
  coded base = coded_new(ctx, VOCAB - 10, DIM, 4, 100, NORMS, 0, 8), rows = coded_new(ctx, OWN, DIM, 7, 256, NORM_CODES, 2, 9);
  embed_table *floats = view_floats(ctx, rows.decoded, OWN, DIM);
  embed_table_options o = {.size = sizeof o, .dtype = EMBED_F64};
  float *all = calloc((size_t)VOCAB * DIM, sizeof *all);
  memcpy(all, base.decoded, (size_t)(base.rows * DIM) * 4);
  for (int i = 0; i < OWN; ++i) memcpy(all + own[i] * DIM, rows.decoded + i * DIM, DIM * 4);
  memcpy(all + 41 * DIM, rows.decoded, DIM * 4);
  embed_table *whole = view_floats(ctx, all, base.rows + 3, DIM), *doubles = as_doubles(ctx, whole);
  for (int kind = 0; kind < 2; ++kind) {
    embed_table *first = NULL, *t = NULL, *copy = NULL;
    OK(embed_table_overlay(ctx, base.t, own, OWN, kind ? floats : rows.t, 0, &first));
    OK(embed_table_overlay(ctx, first, &one, 1, kind ? rows.t : floats, 0, &t));
    assert_int_equal(embed_table_dtype(t), EMBED_PQ);
    assert_int_equal(embed_table_rows(t), base.rows + 3);
    OK(embed_table_convert(ctx, t, &o, &copy));
    assert_same_bits(embed_table_data(copy), embed_table_data(doubles), (size_t)((base.rows + 3) * DIM) * 8);
    embed_head *h = NULL, *want = NULL, *some = NULL, *want_some = NULL;
    OK(embed_head_create(ctx, t, NULL, NULL, &h));
    OK(embed_head_create(ctx, doubles, NULL, NULL, &want));
    OK(embed_head_create_subset(ctx, h, (const int32_t[]){41, 7, 5, VOCAB - 8}, 4, &some));
    OK(embed_head_create_subset(ctx, want, (const int32_t[]){41, 7, 5, VOCAB - 8}, 4, &want_some));
    const int64_t vocab = embed_head_vocab(h);
    assert_int_equal(vocab, embed_head_vocab(want));
    for (int64_t n = 1; n <= 20; n += 19) {
      float *second = out + n * vocab;
      OK(embed_logits(ctx, h, hidden, EMBED_F32, n, 0, out, 0, NULL));
      OK(embed_logits(ctx, want, hidden, EMBED_F32, n, 0, second, 0, NULL));
      assert_same_bits(out, second, (size_t)(n * vocab) * 4);
      OK(embed_logits(ctx, some, hidden, EMBED_F32, n, 0, out, 0, NULL));
      OK(embed_logits(ctx, want_some, hidden, EMBED_F32, n, 0, second, 0, NULL));
      assert_same_bits(out, second, (size_t)n * 4 * 4);
    }
    embed_head_release(h), embed_head_release(want), embed_head_release(some), embed_head_release(want_some);
    embed_table_release(first), embed_table_release(t), embed_table_release(copy);
  }
  embed_table *refused = base.t;
  assert_int_equal(embed_table_overlay(ctx, floats, &one, 1, rows.t, 0, &refused), EMBED_E_UNSUPPORTED); /* codes over floats */
  assert_null(refused);
  embed_table_release(whole), embed_table_release(doubles), embed_table_release(floats);
  free(all);
  parts_free(&base), parts_free(&rows);
  embed_context_release(ctx);
}

/* --- What is not */

static const char *path_of(const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%ld-%s", TEST_BINARY_DIR, (long)getpid(), name);
  return path;
}

static void nothing_else_makes_such_tables_or_writes_them(void **state) {
  (void)state;
  embed_context *ctx = context_new();
  coded c = coded_new(ctx, 5, 32, 32, 16, NORM_CODES, 0, 3);
  embed_table_options o = {.size = sizeof o, .dtype = EMBED_PQ, .group = 32};
  embed_table *t = c.t;
  const int64_t id = 1;
  float row[32] = {0};
  unsigned char bytes[5] = {0};
  assert_int_equal(embed_table_create(ctx, 5, 32, &o, &t), EMBED_E_UNSUPPORTED);
  assert_says(ctx, "embed_table_view_pq");
  assert_null(t);
  assert_int_equal(embed_table_borrow(ctx, bytes, 5, 32, &o, NULL, NULL, &t), EMBED_E_UNSUPPORTED);
  assert_int_equal(embed_table_view(ctx, bytes, 5, 32, &o, NULL, NULL, &t), EMBED_E_UNSUPPORTED);
  assert_int_equal(embed_table_convert(ctx, c.t, &o, &t), EMBED_E_UNSUPPORTED);
  assert_int_equal(embed_table_set_rows(ctx, c.t, &id, 1, row, EMBED_F32, 0, NULL), EMBED_E_READ_ONLY);
  assert_int_equal(embed_table_add_rows(ctx, c.t, &id, 1, 1, row, EMBED_F32, 0, NULL), EMBED_E_READ_ONLY);
  assert_int_equal(embed_table_renorm_rows(ctx, c.t, &id, 1, 1, 0, NULL), EMBED_E_READ_ONLY);
  assert_int_equal(embed_table_init(ctx, c.t, NULL), EMBED_E_READ_ONLY);
  assert_int_equal(embed_table_get_rows(ctx, c.t, &id, 1, row, EMBED_PQ, 0), EMBED_E_ARGUMENT);
  embed_writer *w = NULL;
  OK(embed_writer_create(ctx, path_of("pq_test.npy"), NULL, &w));
  assert_int_equal(embed_writer_table(ctx, w, "array", c.t, &o), EMBED_E_UNSUPPORTED);
  embed_writer_release(w);
  o = (embed_table_options){.size = sizeof o, .dtype = EMBED_DTYPE_NONE};
  OK(embed_table_convert(ctx, c.t, &o, &t));
  assert_int_equal(embed_table_dtype(t), EMBED_F32);
  assert_same_bits(embed_table_data(t), c.decoded, 5 * 32 * 4);
  embed_table_release(t);
  parts_free(&c);
  embed_context_release(ctx);
}

static void written_files_hold_floats(void **state) {
  (void)state;
  static const char *const names[] = {"pq_test.npy", "pq_test.safetensors", "pq_test.embed", "pq_test.gguf", "pq_test.npz"};
  embed_context *ctx = context_new();
  coded c = coded_new(ctx, 9, 32, 5, 16, NORM_CODES, 2, 3);
  for (int i = 0; i < COUNT(names); ++i) {
    embed_writer *w = NULL;
    embed_file *f = NULL;
    embed_table *t = NULL;
    float got[9 * 32];
    int64_t ids[9];
    for (int r = 0; r < 9; ++r) ids[r] = r;
    OK(embed_writer_create(ctx, path_of(names[i]), NULL, &w));
    OK(embed_writer_table(ctx, w, i == 0 ? "array" : "token_embd.weight", c.t, NULL));
    OK(embed_writer_commit(ctx, w));
    embed_writer_release(w);
    OK(embed_file_open(ctx, path_of(names[i]), NULL, &f));
    OK(embed_file_table(ctx, f, 0, &t));
    assert_int_equal(embed_table_dtype(t), EMBED_F32);
    OK(embed_table_get_rows(ctx, t, ids, 9, got, EMBED_F32, 0));
    assert_same_bits(got, c.decoded, sizeof got);
    embed_table_release(t);
    embed_file_release(f);
    assert_int_equal(remove(path_of(names[i])), 0);
  }
  parts_free(&c);
  embed_context_release(ctx);
}

static void counted(void *arg) { ++*(int *)arg; }

static void wrong_arguments_are_refused_and_done_is_not_called(void **state) {
  (void)state;
  embed_context *all[CONTEXTS];
  const int count = contexts_new(all);
  coded c = parts_of(5, 10, 4, 16, NORMS, 1, 3), k = parts_of(5, 10, 4, 16, NORM_CODES, 0, 3);
  int done = 0;
  struct bad {
    embed_pq pq;
    embed_table_options o;
    const void *codes;
    int64_t rows, dim;
    embed_status status;
    int64_t at;
    const char *says;
  } good = {c.pq, c.o, c.codes.at, 5, 10, EMBED_OK, -1, ""}, bad[32];
  int n = 0;
#define BAD(field, value, why, where, text) bad[n] = good, bad[n].field = value, bad[n].status = why, bad[n].at = where, bad[n++].says = text
  BAD(codes, NULL, EMBED_E_ARGUMENT, -1, "codes is NULL");
  BAD(rows, -1, EMBED_E_ARGUMENT, -1, "rows is -1");
  BAD(dim, 0, EMBED_E_ARGUMENT, -1, "dim is 0");
  BAD(dim, 21, EMBED_E_OPTION, -1, "row_bytes 4 is less than the 6 bytes");
  BAD(rows, INT64_MAX, EMBED_E_OPTION, -1, ""), bad[n - 1].o.vocab = -1;
  BAD(rows, INT64_MAX, EMBED_E_OVERFLOW, -1, "do not fit into memory");
  BAD(pq.width, 0, EMBED_E_ARGUMENT, -1, "a part has 0 columns");
  BAD(pq.width, (int64_t)1 << 31, EMBED_E_ARGUMENT, -1, "a part has 2147483648 columns");
  BAD(pq.centroids, 0, EMBED_E_ARGUMENT, -1, "a part has 0 centroids");
  BAD(pq.centroids, 257, EMBED_E_ARGUMENT, -1, "a part has 257 centroids");
  BAD(pq.values, NULL, EMBED_E_ARGUMENT, -1, "values is NULL");
  BAD(pq.norm_codes, k.norms.at, EMBED_E_ARGUMENT, -1, "norms and norm_codes are both given");
  BAD(pq.norm_values, k.norm_values, EMBED_E_ARGUMENT, -1, "belong together");
  BAD(pq.norms, NULL, EMBED_E_ARGUMENT, -1, "belong together"), bad[n - 1].pq.norm_codes = k.norms.at;
  BAD(pq.flags, 1, EMBED_E_OPTION, -1, "embed_pq");
  BAD(pq.size, 7, EMBED_E_OPTION, -1, "embed_pq");
  BAD(o.flags, EMBED_TABLE_HUGE_PAGES, EMBED_E_OPTION, -1, "own their memory");
  BAD(o.flags, 128, EMBED_E_OPTION, -1, "embed_table_options");
  BAD(o.dtype, EMBED_BF16, EMBED_E_OPTION, -1, "the rows are EMBED_PQ");
  BAD(o.group, 5, EMBED_E_OPTION, -1, "group is 5 columns, a part has 4");
  BAD(o.row_bytes, 2, EMBED_E_OPTION, -1, "row_bytes 2 is less than the 3 bytes");
  BAD(o.data_bytes, c.o.data_bytes - 1, EMBED_E_ARGUMENT, c.o.data_bytes - 1, "5 rows need 19");
  BAD(o.vocab, 6, EMBED_E_OPTION, -1, "vocab 6 is more than the 5 rows");
  c.codes.at[2 * 4 + 1] = 16, c.codes.at[3 * 4] = 255; /* rows 2 and 3 */
  BAD(o.vocab, 1, EMBED_E_ARGUMENT, 2 * 3 + 1, "the code of row 2 in part 1 is 16, a part has 16 centroids");
  for (int x = 0; x < count; ++x)
    for (int i = 0; i < n; ++i) {
      embed_table *t = (embed_table *)(uintptr_t)8;
      assert_int_equal(embed_table_view_pq(all[x], bad[i].codes, bad[i].rows, bad[i].dim, &bad[i].pq, &bad[i].o, counted, &done, &t), bad[i].status);
      assert_null(t);
      assert_int_equal(embed_error_at(all[x]), bad[i].at);
      assert_says(all[x], bad[i].says);
    }
  assert_int_equal(done, 0);
  c.codes.at[2 * 4 + 1] = 15, c.codes.at[3 * 4] = 0; /* what stands between rows is no code */
  OK(embed_table_view_pq(all[0], c.codes.at, 5, 10, &c.pq, &c.o, counted, &done, &c.t));
  parts_free(&c), parts_free(&k);
  assert_int_equal(done, 1);
  contexts_free(all, count);
}

/* The least of many rows, by any number of threads. */
static void the_first_code_past_the_centroids_is_named(void **state) {
  (void)state;
  enum { ROWS = 3 << 20 };
  embed_context *ctx = context_with(NULL, 7);
  unsigned char *codes = calloc(ROWS, 2);
  const float values[4 * 2] = {0};
  const embed_pq pq = {.size = sizeof pq, .width = 2, .centroids = 2, .values = values};
  embed_table *t = NULL;
  for (int64_t i = 2 * ROWS - 1; i > 1000; i -= 300007) codes[i] = 2;
  int64_t first = 0;
  while (codes[first] < 2) ++first;
  assert_int_equal(embed_table_view_pq(ctx, codes, ROWS, 4, &pq, NULL, NULL, NULL, &t), EMBED_E_ARGUMENT);
  assert_int_equal(embed_error_at(ctx), first);
  free(codes);
  embed_context_release(ctx);
}

static void memory_is_given_back_whatever_fails(void **state) {
  (void)state;
  counting count;
  counting_start(&count);
  embed_context *ctx = counting_context(&count, NULL);
  coded c = parts_of(5, 10, 4, 16, NORM_CODES, 0, 3);
  const int64_t before = atomic_load(&count.alive), id = 3;
  int done = 0, fails = 0;
  for (embed_status status = EMBED_E_MEMORY; status != EMBED_OK; ++fails) {
    assert_int_equal(done, 0);
    assert_int_equal(atomic_load(&count.alive), before);
    atomic_store(&count.fail_at, fails);
    status = embed_table_view_pq(ctx, c.codes.at, 5, 10, &c.pq, &c.o, counted, &done, &c.t);
    assert_true(status == EMBED_OK || (status == EMBED_E_MEMORY && !c.t));
  }
  assert_int_equal(fails, 3); /* handle, codebook */
  atomic_store(&count.fail_at, -1);
  embed_table *over = NULL;
  embed_head *h = NULL, *some = NULL;
  OK(embed_table_overlay(ctx, c.t, &id, 1, c.t, 0, &over));
  OK(embed_head_create(ctx, over, NULL, NULL, &h));
  OK(embed_head_create_subset(ctx, h, (const int32_t[]){4, 2}, 2, &some));
  embed_table_release(c.t); /* the others hold it; so do they outlive the context */
  embed_context_release(ctx);
  assert_int_equal(done, 0);
  embed_table_release(over);
  embed_head_release(h);
  assert_int_equal(done, 0);
  embed_head_release(some);
  assert_int_equal(done, 1);
  c.t = NULL;
  parts_free(&c);
  counting_check(&count);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_are_what_the_formula_says),
    cmocka_unit_test(it_says_what_it_is),
    cmocka_unit_test(heads_are_tied_by_codes_and_centroids),
    cmocka_unit_test(every_call_gives_what_it_gives_for_the_values),
    cmocka_unit_test(threads_do_not_change_a_bit),
    cmocka_unit_test(logits_are_within_their_bound),
    cmocka_unit_test(values_that_are_no_numbers_are_values),
    cmocka_unit_test(overlays_decode_every_row_as_its_own_table_does),
    cmocka_unit_test(nothing_else_makes_such_tables_or_writes_them),
    cmocka_unit_test(written_files_hold_floats),
    cmocka_unit_test(wrong_arguments_are_refused_and_done_is_not_called),
    cmocka_unit_test(the_first_code_past_the_centroids_is_named),
    cmocka_unit_test(memory_is_given_back_whatever_fails),
};

TEST_MAIN(tests)
