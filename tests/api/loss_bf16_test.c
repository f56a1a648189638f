/* SPDX-License-Identifier: BSD-3-Clause */
/* Cross-entropy whose products are of bfloats. The loss is, to the bit, the exact one of a problem whose hidden rows and weights are rounded
 * here; the gradients are plain sums of slopes rounded here. A slope is what the exact bias gradient of its row alone holds. */
#include "counting.h"
#include "loss.h"

static const double off = 0x1p-7 + 0x1p-16; /* two factors, each to 2^-8 */

/* To nearest even; below 2^-126 0. */
static float to_bfloat(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : rounded_to(EMBED_BF16, x); }

static float *all_rounded(const float *x, int64_t count) {
  float *out = zeroed(count, sizeof *out);
  for (int64_t i = 0; i < count; ++i) out[i] = to_bfloat(x[i]);
  return out;
}

/* The same with rounded weights and hidden rows, in memory of its own; options without EMBED_LOSS_BF16. */
static problem rounded_problem(const problem *p) {
  problem r = *p;
  r.w = all_rounded(p->w, p->vocab * p->dim);
  r.x = all_rounded(p->x, p->n * p->dim);
  r.o.flags &= ~(uint32_t)EMBED_LOSS_BF16;
  return r;
}
static void rounded_free(problem *r) { free(r->w), free(r->x); }

/* With a bias and an upstream, both of which the slopes are read by. */
static problem problem_of(int64_t vocab, int64_t dim, int64_t n, uint64_t seed) {
  problem p = problem_new(vocab, dim, n, seed);
  p.bias = random_floats(vocab, 1, &seed);
  p.up = random_floats(n, 1, &seed);
  p.o.flags = EMBED_LOSS_BF16;
  return p;
}

static embed_context *context_of(const char *isa, int32_t threads, uint32_t flags, const embed_allocator *allocator) {
  embed_pool *pool = NULL;
  embed_context *ctx = NULL;
  if (threads > 1) OK(embed_pool_create(threads, &pool));
  embed_context_options o = {.size = sizeof o, .isa = isa, .flags = flags, .pool = pool, .allocator = allocator};
  embed_status status = embed_context_create(&o, &ctx);
  embed_pool_release(pool);
  return status == EMBED_OK ? ctx : NULL; /* no such level on this architecture */
}

/* Slopes of row i, 0 where it is ignored. */
static void slopes_of(embed_context *ctx, const embed_head *h, const problem *r, int64_t i, float *g) {
  embed_grad *grad = NULL;
  OK(embed_grad_create_dense(ctx, r->vocab, r->dim, NULL, 0, &grad));
  OK(embed_cross_entropy_train(ctx, h, r->x + i * r->dim, EMBED_F32, 1, 0, r->targets + i, r->up + i, NULL, NULL, NULL, EMBED_F32, 0, grad, &r->o));
  memcpy(g, embed_grad_bias(grad), (size_t)r->vocab * 4);
  embed_grad_release(grad);
}

/* Sums of products that were rounded, of their sizes, of products that were not, and of their sizes. */
typedef struct sums {
  double *rounded, *size, *exact, *exact_size;
} sums;
static sums sums_new(int64_t count) { return (sums){zeroed(count, 8), zeroed(count, 8), zeroed(count, 8), zeroed(count, 8)}; }
static void sums_free(sums *s) { free(s->rounded), free(s->size), free(s->exact), free(s->exact_size); }
static void add_product(sums *s, int64_t at, float g, float rounded, float number) {
  const double product = (double)to_bfloat(g) * (double)rounded, exact = (double)g * (double)number;
  s->rounded[at] += product, s->size[at] += fabs(product);
  s->exact[at] += exact, s->exact_size[at] += fabs(exact);
}

/* The order of sums in tiles is their own: logits differ in their last bits from those that the test makes, and some slopes, near a border
 * between two bfloats, are rounded to its other side. */
static bool has_tiles(const embed_context *ctx) { return strcmp(embed_context_isa(ctx), "amx") == 0; }

static void assert_losses(const embed_context *ctx, const float *got, const float *want, int64_t count) {
  if (!has_tiles(ctx)) assert_same_bits(got, want, (size_t)count * 4);
  for (int64_t i = 0; i < count; ++i) assert_true(got[i] == want[i] || fabsf(got[i] - want[i]) <= 4e-6f * (1 + fabsf(want[i])));
}

/* Rounding alone, to the sums' own error; and what the header says of the rounding. */
static void assert_sums(const embed_context *ctx, const float *got, const sums *s, int64_t count, const char *what) {
  const double own = has_tiles(ctx) ? 0x1p-8 : 4e-6;
  for (int64_t i = 0; i < count; ++i) {
    if (!(fabs((double)got[i] - s->rounded[i]) <= own * s->size[i] + 1e-37)) fail_msg("%s %d is %a, not %a", what, (int)i, (double)got[i], s->rounded[i]);
    assert_true(fabs((double)got[i] - s->exact[i]) <= (off + 4e-6) * s->exact_size[i] + 1e-37);
  }
}

static void check_gradients(embed_context *ctx, const problem *p, const training *t) {
  problem r = rounded_problem(p);
  embed_head *h = head_of(ctx, &r, table_of(ctx, &r));
  training exact = train(ctx, &r, h);
  sums dx = sums_new(p->n * p->dim), dw = sums_new(p->vocab * p->dim);
  float *g = zeroed(p->vocab, sizeof *g);
  assert_losses(ctx, t->loss, exact.loss, p->n);
  assert_losses(ctx, t->db, exact.db, p->vocab);
  assert_int_equal(t->count, exact.count);
  for (int64_t i = 0; i < p->n; ++i) {
    slopes_of(ctx, h, &r, i, g);
    for (int64_t v = 0; v < p->vocab; ++v)
      for (int64_t j = 0; j < p->dim; ++j) {
        add_product(&dx, i * p->dim + j, g[v], r.w[v * p->dim + j], p->w[v * p->dim + j]);
        add_product(&dw, v * p->dim + j, g[v], r.x[i * p->dim + j], p->x[i * p->dim + j]);
      }
  }
  assert_sums(ctx, t->dx, &dx, p->n * p->dim, "d_hidden");
  assert_sums(ctx, t->dw, &dw, p->vocab * p->dim, "d_weight");
  free(g);
  sums_free(&dx), sums_free(&dw);
  training_free(&exact);
  embed_head_release(h);
  rounded_free(&r);
}

/* Odd and even numbers of columns, rows and classes; tiles, strips, blocks and chunks, and their tails. */
static const int64_t shapes[][3] = {{1, 1, 1},   {2, 3, 5},    {15, 16, 17},  {33, 31, 32},   {240, 7, 3},   {241, 33, 16},
                                    {243, 2, 8}, {1025, 9, 3}, {700, 33, 31}, {509, 515, 10}, {90, 12, 257}, {1301, 6, 263}};

static void the_loss_is_that_of_rounded_numbers_and_gradients_are_plain_sums(void **state) {
  (void)state;
  for (int s = 0; s < COUNT(shapes); ++s) {
    problem p = problem_of(shapes[s][0], shapes[s][1], shapes[s][2], (uint64_t)s + 1);
    for (int way = 0; way < 3; ++way) { /* a reproducible context multiplies pairs where the CPU has such products; and without tiles */
      embed_context *ctx = context_of(way == 2 ? "avx512bf16" : NULL, 2, way ? EMBED_CONTEXT_REPRODUCIBLE : 0, NULL);
      if (!ctx) continue;
      embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
      training t = train(ctx, &p, h);
      check_gradients(ctx, &p, &t);
      training_free(&t);
      embed_head_release(h);
      embed_context_release(ctx);
    }
    problem_free(&p);
  }
}

enum { OPTIONS = 9 };
static void set_option(problem *p, int option, uint64_t *state) {
  switch (option) {
    case 0: p->o.label_smoothing = .1; break;
    case 1: p->o.label_smoothing = .15, p->o.flags |= EMBED_LOSS_SMOOTH_OTHERS; break;
    case 2: p->o.z_loss = 3e-2; break;
    case 3: p->cap = 1.5f; break;
    case 4: p->scale = -1.75f; break;
    case 5:
      if (!p->class_weight) p->class_weight = random_floats(p->vocab, 1, state);
      for (int64_t v = 0; v < p->vocab; ++v) p->class_weight[v] = fabsf(p->class_weight[v]) + (v % 3 ? 0.1f : 0);
      p->o.class_weight = p->class_weight;
      break;
    case 6: p->o.flags |= EMBED_LOSS_IGNORE_INDEX, p->o.ignore_index = 3, p->targets[6] = 0, p->targets[2] = 3; break;
    case 7: p->o.flags |= EMBED_LOSS_KAHAN; break;
    default: p->o.gradient_filter = 1e-30; break; /* drops nothing, by another road */
  }
}

static void every_pair_of_options_goes_with_it(void **state) {
  (void)state;
  for (int one = 0; one < OPTIONS; ++one)
    for (int other = one; other < OPTIONS; ++other) {
      uint64_t seed = (uint64_t)(100 * one + other + 1);
      problem p = problem_of(59, 11, 9, seed);
      set_option(&p, one, &seed);
      set_option(&p, other, &seed);
      for (int way = 0; way < 3; ++way) {
        embed_context *ctx = context_of(way == 2 ? "avx512bf16" : NULL, 1, way ? EMBED_CONTEXT_REPRODUCIBLE : 0, NULL);
        if (!ctx) continue;
        embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
        training t = train(ctx, &p, h);
        check_gradients(ctx, &p, &t);
        training_free(&t);
        embed_head_release(h);
        embed_context_release(ctx);
      }
      problem_free(&p);
    }
}

/* What all calls say, in one run of memory. */
typedef struct said {
  float *loss, *lse, *later_dx, *later_dw, *logprobs;
  training t;
} said;

static said say(embed_context *ctx, const problem *p) {
  const int64_t offsets[3] = {0, p->n / 3, p->n};
  said s = {zeroed(p->n, 4), zeroed(p->n, 4), zeroed(p->n * p->dim, 4), zeroed(p->vocab * p->dim, 4), zeroed(2, 4), {0}};
  embed_head *h = head_of(ctx, p, table_of(ctx, p));
  embed_loss_options o = {.size = sizeof o, .flags = EMBED_LOSS_BF16};
  s.t = train(ctx, p, h);
  OK(embed_cross_entropy(ctx, h, p->x, EMBED_F32, p->n, 0, p->targets, s.loss, s.lse, &p->o));
  OK(embed_cross_entropy_backward(ctx, h, p->x, EMBED_F32, p->n, 0, p->targets, s.lse, p->up, s.later_dx, 0, s.later_dw, 0, &p->o));
  OK(embed_sequence_logprobs(ctx, h, p->x, EMBED_F32, p->n, 0, p->targets, offsets, 2, s.logprobs, NULL, &o));
  embed_head_release(h);
  return s;
}

static void said_free(said *s) {
  free(s->loss), free(s->lse), free(s->later_dx), free(s->later_dw), free(s->logprobs);
  training_free(&s->t);
}

static void assert_same(const problem *p, const said *got, const said *want) {
  assert_same_bits(got->loss, want->loss, (size_t)p->n * 4);
  assert_same_bits(got->lse, want->lse, (size_t)p->n * 4);
  assert_same_bits(got->later_dx, want->later_dx, (size_t)(p->n * p->dim) * 4);
  assert_same_bits(got->later_dw, want->later_dw, (size_t)(p->vocab * p->dim) * 4);
  assert_same_bits(got->logprobs, want->logprobs, 2 * 4);
  assert_same_bits(got->t.loss, want->t.loss, (size_t)p->n * 4);
  assert_same_bits(got->t.dx, want->t.dx, (size_t)(p->n * p->dim) * 4);
  assert_same_bits(got->t.dw, want->t.dw, (size_t)(p->vocab * p->dim) * 4);
  assert_same_bits(got->t.db, want->t.db, (size_t)p->vocab * 4);
}

/* 1, 2 and 7 threads; a reproducible context and not. Tiles have bits of their own. */
static void levels_and_threads_do_not_change_a_bit(void **state) {
  static const char *const levels[] = {"scalar", "avx2", "avx512", "avx512bf16", "amx", "neon"};
  static const int32_t threads[] = {1, 2, 7};
  problem p = problem_of(2503, 37, 261, 9);
  said first = {0};
  bool tiles = false;
  (void)state;
  p.cap = 6, p.scale = 1.5f, p.o.label_smoothing = 0.1;
  for (int k = 0; k < COUNT(levels) * COUNT(threads); ++k) {
    embed_context *ctx = context_of(levels[k / COUNT(threads)], threads[k % COUNT(threads)], k % 2 ? EMBED_CONTEXT_REPRODUCIBLE : 0, NULL);
    if (!ctx) continue;
    said s = say(ctx, &p);
    if (first.loss && has_tiles(ctx) && !tiles) said_free(&first);
    if (!first.loss || (has_tiles(ctx) && !tiles)) {
      tiles = has_tiles(ctx);
      first = s;
      embed_context_release(ctx);
      continue;
    }
    embed_context_release(ctx);
    assert_same(&p, &s, &first);
    said_free(&s);
  }
  said_free(&first);
  problem_free(&p);
}

/* All calls mean the same loss, and the later backward part is the first one up to the rounding of the stored logsumexp. */
static void all_calls_say_the_same(void **state) {
  problem p = problem_of(1501, 29, 70, 4);
  embed_context *ctx = context_of(NULL, 2, 0, NULL);
  double *dx = zeroed(p.n * p.dim, 8), *dw = zeroed(p.vocab * p.dim, 8), logprobs[2] = {0, 0};
  (void)state;
  said s = say(ctx, &p);
  assert_same_bits(s.loss, s.t.loss, (size_t)p.n * 4);
  for (int64_t i = 0; i < p.n; ++i) logprobs[i >= p.n / 3] -= (double)s.loss[i];
  CLOSE(s.logprobs, logprobs, 2, 1e-6);
  for (int64_t i = 0; i < p.n * p.dim; ++i) dx[i] = (double)s.t.dx[i];
  for (int64_t i = 0; i < p.vocab * p.dim; ++i) dw[i] = (double)s.t.dw[i];
  CLOSE(s.later_dx, dx, p.n * p.dim, 1e-4); /* a slope near a border between two bfloats may fall to the other side */
  CLOSE(s.later_dw, dw, p.vocab * p.dim, 4e-3);
  free(dx), free(dw);
  said_free(&s);
  embed_context_release(ctx);
  problem_free(&p);
}

static void sequences_have_the_gradient_of_their_rows(void **state) {
  enum { VOCAB = 301, DIM = 9, N = 20 };
  static const int64_t offsets[3] = {0, 7, N};
  static const float d_out[2] = {0.5f, -2};
  problem p = problem_of(VOCAB, DIM, N, 4);
  embed_context *ctx = context_of(NULL, 2, 0, NULL);
  embed_grad *g = NULL;
  float dx[N * DIM];
  (void)state;
  for (int i = 0; i < N; ++i) p.up[i] = i < 7 ? -d_out[0] : -d_out[1];
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  training t = train(ctx, &p, h);
  OK(embed_grad_create_dense(ctx, VOCAB, DIM, NULL, 0, &g));
  OK(embed_sequence_logprobs_backward(ctx, h, p.x, EMBED_F32, N, 0, p.targets, offsets, 2, d_out, dx, EMBED_F32, 0, g, &p.o));
  assert_same_bits(dx, t.dx, sizeof dx);
  assert_same_bits(embed_grad_values(g), t.dw, VOCAB * DIM * 4);
  embed_grad_release(g);
  training_free(&t);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

static void a_row_does_not_depend_on_the_others(void **state) {
  problem p = problem_of(2100, 25, 290, 3);
  (void)state;
  for (int way = 0; way < 2; ++way) {
    embed_context *ctx = context_of(NULL, 2, way ? EMBED_CONTEXT_REPRODUCIBLE : 0, NULL);
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    training all = train(ctx, &p, h);
    for (int64_t i = 0; i < p.n; i += 41) {
      float loss, again, dx[25];
      OK(embed_cross_entropy_train(ctx, h, p.x + i * p.dim, EMBED_F32, 1, 0, p.targets + i, p.up + i, &loss, NULL, dx, EMBED_F32, 0, NULL, &p.o));
      OK(embed_cross_entropy(ctx, h, p.x + i * p.dim, EMBED_F32, 1, 0, p.targets + i, &again, NULL, &p.o));
      assert_same_bits(&loss, &all.loss[i], 4);
      assert_same_bits(&again, &all.loss[i], 4);
      assert_same_bits(dx, all.dx + i * p.dim, sizeof dx);
    }
    training_free(&all);
    embed_head_release(h);
    embed_context_release(ctx);
  }
  problem_free(&p);
}

/* Any table is its decoded rows, whose loss it has to the bit; hidden rows of 16 bits are those numbers; d_hidden is rounded once. */
static void every_dtype_is_as_its_decoded_rows(void **state) {
  static const embed_dtype types[] = {EMBED_F16, EMBED_BF16, EMBED_I8_ROW, EMBED_I4_GROUP, EMBED_Q8_0, EMBED_Q4_0, EMBED_Q4_K, EMBED_Q6_K, EMBED_F64};
  enum { VOCAB = 99, DIM = 256, N = 11 };
  (void)state;
  for (int k = 0; k < COUNT(types); ++k) {
    embed_context *ctx = context_of(NULL, 2, k % 2 ? EMBED_CONTEXT_REPRODUCIBLE : 0, NULL);
    problem p = problem_of(VOCAB, DIM, N, (uint64_t)k + 1);
    embed_table_options as = {.size = sizeof as, .dtype = types[k]};
    embed_table *f32 = table_of(ctx, &p), *stored = NULL;
    embed_head *h = NULL, *plain = NULL;
    int64_t ids[VOCAB];
    OK(embed_table_convert(ctx, f32, &as, &stored));
    for (int64_t v = 0; v < VOCAB; ++v) ids[v] = v;
    OK(embed_table_get_rows(ctx, stored, ids, VOCAB, p.w, EMBED_F32, 0));
    OK(embed_head_create(ctx, stored, p.bias, NULL, &h));
    plain = head_of(ctx, &p, table_of(ctx, &p));
    const embed_dtype of_hidden = k % 2 ? EMBED_F16 : EMBED_BF16;
    uint16_t x[N * DIM], narrow[N * DIM];
    for (int i = 0; i < N * DIM; ++i) { /* the nearest of 16 bits that is one of both types */
      p.x[i] = rounded_to(EMBED_BF16, p.x[i]);
      if (fabsf(p.x[i]) < 0x1p-14f) p.x[i] = 0;
      uint32_t u;
      memcpy(&u, &p.x[i], 4);
      x[i] = (uint16_t)(of_hidden == EMBED_BF16 ? u >> 16 : p.x[i] == 0 ? 0 : (u >> 16 & 0x8000) | (((u >> 23 & 255) - 112) << 10) | (u >> 13 & 1023));
    }
    training want = train(ctx, &p, plain), got = train(ctx, &p, h);
    float loss[N], forward[N];
    assert_same_bits(got.loss, want.loss, N * 4);
    assert_same_bits(got.dx, want.dx, N * DIM * 4);
    assert_same_bits(got.dw, want.dw, VOCAB * DIM * 4);
    OK(embed_cross_entropy(ctx, h, p.x, EMBED_F32, N, 0, p.targets, forward, NULL, &p.o));
    assert_same_bits(forward, want.loss, N * 4);
    OK(embed_cross_entropy_train(ctx, h, x, of_hidden, N, 0, p.targets, p.up, loss, NULL, narrow, EMBED_BF16, 0, NULL, &p.o));
    assert_same_bits(loss, want.loss, N * 4);
    for (int i = 0; i < N * DIM; ++i) assert_value(narrow, EMBED_BF16, i, rounded_to(EMBED_BF16, want.dx[i]));
    training_free(&want), training_free(&got);
    embed_head_release(h), embed_head_release(plain);
    embed_table_release(stored), embed_table_release(f32);
    problem_free(&p);
    embed_context_release(ctx);
  }
}

/* Prepared, for OpenBLAS, or neither: the same products. A subset is a head of its rows. */
static void every_head_has_the_same_products(void **state) {
  enum { VOCAB = 120, DIM = 19, N = 60, KEPT = 41 };
  static const uint32_t flags[] = {EMBED_HEAD_PREPARE, EMBED_HEAD_BLAS};
  problem p = problem_of(VOCAB, DIM, N, 4), few = problem_of(KEPT, DIM, N, 4);
  embed_context *ctx = context_of(NULL, 2, 0, NULL);
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p)), *subset = NULL;
  training want = train(ctx, &p, h);
  (void)state;
  for (int k = 0; k < COUNT(flags); ++k) {
    embed_head_options o = {.size = sizeof o, .flags = flags[k]};
    embed_table *t = table_of(ctx, &p);
    embed_head *other = NULL;
    float loss[N];
    OK(embed_head_create(ctx, t, p.bias, &o, &other));
    training got = train(ctx, &p, other);
    OK(embed_cross_entropy(ctx, other, p.x, EMBED_F32, N, 0, p.targets, loss, NULL, &p.o));
    assert_same_bits(loss, want.loss, N * 4);
    assert_same_bits(got.dw, want.dw, VOCAB * DIM * 4);
    training_free(&got);
    embed_head_release(other);
    embed_table_release(t);
  }
  int32_t kept[KEPT], targets[N];
  float loss[N], dx[N * DIM];
  embed_grad *g = NULL;
  for (int v = 0; v < KEPT; ++v) {
    kept[v] = (v * 37 + 5) % VOCAB;
    memcpy(few.w + v * DIM, p.w + kept[v] * DIM, DIM * 4);
    few.bias[v] = p.bias[kept[v]];
  }
  memcpy(few.x, p.x, N * DIM * 4);
  for (int i = 0; i < N; ++i) targets[i] = few.targets[i] < 0 ? -100 : kept[few.targets[i]];
  embed_head *alone = head_of(ctx, &few, table_of(ctx, &few));
  training of_few = train(ctx, &few, alone);
  OK(embed_head_create_subset(ctx, h, kept, KEPT, &subset));
  OK(embed_grad_create(ctx, DIM, &g));
  OK(embed_cross_entropy_train(ctx, subset, few.x, EMBED_F32, N, 0, targets, few.up, loss, NULL, dx, EMBED_F32, 0, g, &few.o));
  assert_same_bits(loss, of_few.loss, N * 4);
  assert_same_bits(dx, of_few.dx, N * DIM * 4);
  for (int v = 0; v < KEPT; ++v) assert_same_bits(embed_grad_values(g) + kept[v] * DIM, of_few.dw + v * DIM, DIM * 4);
  embed_grad_release(g);
  training_free(&want), training_free(&of_few);
  embed_head_release(h), embed_head_release(subset), embed_head_release(alone);
  embed_context_release(ctx);
  problem_free(&p), problem_free(&few);
}

/* Within what the filter states, beside the same gradients without it. */
static void the_filter_looks_at_slopes_that_are_not_rounded(void **state) {
  enum { VOCAB = 3001, DIM = 24, N = 30 };
  problem p = problem_of(VOCAB, DIM, N, 3);
  embed_context *ctx = context_of(NULL, 2, EMBED_CONTEXT_REPRODUCIBLE, NULL);
  int dropped = 0;
  (void)state;
  for (int64_t v = 0; v < VOCAB / 2; ++v) p.bias[v] -= 24 * (1 - 2 * (float)v / (float)VOCAB);
  for (int i = 0; i < N; ++i)
    if (p.targets[i] >= 0) p.targets[i] = VOCAB / 2 + p.targets[i] / 2;
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  training whole = train(ctx, &p, h);
  p.o.gradient_filter = 1e-4;
  training t = train(ctx, &p, h);
  assert_same_bits(t.loss, whole.loss, N * 4);
  for (int64_t v = 0; v < VOCAB; ++v) {
    double most = 0;
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < DIM; ++j) most += p.targets[i] < 0 ? 0 : 1.01e-4 * fabs((double)p.up[i] * (double)p.x[i * DIM + j]);
    for (int j = 0; j < DIM; ++j) assert_true(fabs((double)t.dw[v * DIM + j] - (double)whole.dw[v * DIM + j]) <= most);
    dropped += test_all_bytes(t.dw + v * DIM, DIM * 4, 0);
  }
  assert_true(dropped > VOCAB / 4);
  training_free(&t), training_free(&whole);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

/* Chunks whose table gradients are carried along, or added where original ids say. */
static void kahans_sums_go_with_it(void **state) {
  enum { VOCAB = 50, DIM = 7, N = 256 * 9 + 1 };
  problem p = problem_of(VOCAB, DIM, N, 3);
  embed_context *ctx = context_of(NULL, 2, EMBED_CONTEXT_REPRODUCIBLE, NULL);
  embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
  (void)state;
  training plain = train(ctx, &p, h);
  p.o.flags |= EMBED_LOSS_KAHAN;
  training t = train(ctx, &p, h);
  double *dw = doubles_of(plain.dw, VOCAB * DIM);
  CLOSE(t.dw, dw, VOCAB * DIM, 2e-6);
  assert_memory_not_equal(t.dw, plain.dw, VOCAB * DIM * 4);
  assert_same_bits(t.dx, plain.dx, N * DIM * 4);
  free(dw);
  training_free(&t), training_free(&plain);
  embed_head_release(h);
  embed_context_release(ctx);
  problem_free(&p);
}

/* 1e-39 times 1e38 is 0.1 as it stands. */
static void subnormal_numbers_count_as_0(void **state) {
  problem p = problem_of(5, 3, 2, 3);
  (void)state;
  for (int i = 0; i < 6; ++i) p.x[i] = 1e38f;
  for (int way = 0; way < 2; ++way) {
    embed_context *ctx = context_of(NULL, 1, way ? EMBED_CONTEXT_REPRODUCIBLE : 0, NULL);
    for (int i = 0; i < 15; ++i) p.w[i] = 1e-39f * (float)(i % 4);
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    training t = train(ctx, &p, h);
    embed_head_release(h);
    for (int i = 0; i < 15; ++i) p.w[i] = 0;
    h = head_of(ctx, &p, table_of(ctx, &p));
    training zero = train(ctx, &p, h);
    assert_same_bits(t.loss, zero.loss, 2 * 4);
    assert_same_bits(t.dx, zero.dx, 6 * 4);
    training_free(&t), training_free(&zero);
    embed_head_release(h);
    embed_context_release(ctx);
  }
  problem_free(&p);
}

/* What the last number of an odd count stands beside is 0, and no NaN of another row comes there. */
static void a_nan_stays_in_its_row(void **state) {
  problem p = problem_of(61, 9, 11, 4);
  (void)state;
  for (int way = 0; way < 2; ++way) {
    embed_context *ctx = context_of(NULL, 1, way ? EMBED_CONTEXT_REPRODUCIBLE : 0, NULL);
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    training clean = train(ctx, &p, h);
    const float kept = p.x[2 * 9 + 1];
    p.x[2 * 9 + 1] = NAN;
    training t = train(ctx, &p, h);
    p.x[2 * 9 + 1] = kept;
    for (int i = 0; i < 11; ++i) {
      if (i == 2)
        assert_true(isnan(t.loss[i]) && isnan(t.dx[i * 9]));
      else
        assert_same_bits(t.dx + i * 9, clean.dx + i * 9, 9 * 4);
    }
    assert_true(isnan(t.dw[0]) && !isnan(clean.dw[0]));
    training_free(&clean), training_free(&t);
    embed_head_release(h);
    /* lanes past the last row have logits of the bias alone: an infinite one is nobody's business */
    const float bias = p.bias[7];
    p.bias[7] = -INFINITY;
    h = head_of(ctx, &p, table_of(ctx, &p));
    t = train(ctx, &p, h);
    for (int j = 0; j < 9; ++j) assert_true(isfinite(t.dw[7 * 9 + j]));
    p.bias[7] = bias;
    training_free(&t);
    embed_head_release(h);
    embed_context_release(ctx);
  }
  problem_free(&p);
}

static void memory_stays_below_64_megabytes(void **state) {
  static const int64_t large[][3] = {{262144, 8, 20}, {50257, 16, 600}, {30000, 4096, 3}};
  (void)state;
#ifdef TEST_SANITIZED
  const int count = 1; /* the others take minutes there */
#else
  const int count = COUNT(large);
#endif
  for (int k = 0; k < 2 * count; ++k) {
    counting c;
    counting_start(&c);
    embed_context *ctx = context_of(NULL, 2, k % 2 ? EMBED_CONTEXT_REPRODUCIBLE : 0, &c.allocator);
    problem p = problem_new(large[k / 2][0], large[k / 2][1], large[k / 2][2], 6);
    p.o.flags = EMBED_LOSS_BF16;
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    training t = train(ctx, &p, h);
    const int64_t gradient = p.vocab * p.dim * 4;
    print_message("%d x %d, %d rows: %.1f MB\n", (int)p.vocab, (int)p.dim, (int)p.n, (double)(atomic_load(&c.bytes) - gradient) * 1e-6);
    assert_true(atomic_load(&c.bytes) - gradient <= 64000000);
    training_free(&t);
    embed_head_release(h);
    embed_context_release(ctx);
    counting_check(&c);
    problem_free(&p);
  }
}

static void every_failed_allocation_leaves_everything_as_it_was(void **state) {
  problem p = problem_of(300, 23, 40, 3);
  static const int32_t ids[2] = {5, 200};
  counting c;
  (void)state;
  for (int k = 0;; ++k) {
    counting_start(&c);
    embed_context *ctx = context_of(NULL, 2, EMBED_CONTEXT_REPRODUCIBLE, &c.allocator);
    embed_head *h = head_of(ctx, &p, table_of(ctx, &p));
    embed_grad *g = NULL;
    float loss[40], dx[40 * 23];
    OK(embed_grad_create(ctx, 23, &g));
    OK(embed_grad_add(ctx, g, ids, 2, p.x, 0));
    embed_context_trim(ctx);
    memset(loss, 0xA5, sizeof loss);
    memset(dx, 0xA5, sizeof dx);
    atomic_store(&c.fail_at, k);
    embed_status status = embed_cross_entropy_train(ctx, h, p.x, EMBED_F32, p.n, 0, p.targets, p.up, loss, NULL, dx, EMBED_F32, 0, g, &p.o);
    const bool failed = atomic_exchange(&c.fail_at, -1) < 0;
    assert_int_equal(status, failed ? EMBED_E_MEMORY : EMBED_OK);
    assert_int_equal(embed_grad_rows(g), failed ? 2 : 300);
    if (failed) assert_true(test_all_bytes(loss, sizeof loss, 0xA5) && test_all_bytes(dx, sizeof dx, 0xA5));
    embed_grad_release(g);
    embed_head_release(h);
    embed_context_release(ctx);
    counting_check(&c);
    if (!failed) break;
  }
  problem_free(&p);
}

/* Both heads' products, and the student's gradients: as cross-entropy's. */
static void distillation_is_that_of_rounded_numbers(void **state) {
  enum { VOCAB = 77, OF_TEACHER = 13, DIM = 9, N = 12 };
  (void)state;
  for (int k = 0; k < 4; ++k) {
    problem teacher = problem_of(VOCAB, OF_TEACHER, N, 5), p = problem_of(VOCAB, DIM, N, 6), t = rounded_problem(&teacher), r = rounded_problem(&p);
    embed_context *ctx = context_of(NULL, 2, k % 2 ? EMBED_CONTEXT_REPRODUCIBLE : 0, NULL);
    embed_head *of[4] = {head_of(ctx, &teacher, table_of(ctx, &teacher)), head_of(ctx, &p, table_of(ctx, &p)), head_of(ctx, &t, table_of(ctx, &t)),
                         head_of(ctx, &r, table_of(ctx, &r))};
    embed_distill_options o = {.size = sizeof o, .flags = EMBED_DISTILL_BF16, .divergence = k < 2 ? EMBED_DIVERGENCE_KL : EMBED_DIVERGENCE_JENSEN_SHANNON};
    embed_distill_options exact = o;
    exact.flags = 0;
    float loss[N], want[N], forward[N], dx[N * DIM];
    sums s = sums_new(N * DIM), of_table = sums_new(VOCAB * DIM);
    embed_grad *g = NULL;
    OK(embed_grad_create_dense(ctx, VOCAB, DIM, NULL, 0, &g));
    OK(embed_distill_train(ctx, of[0], teacher.x, EMBED_F32, 0, of[1], p.x, EMBED_F32, N, 0, p.targets, p.up, loss, NULL, dx, EMBED_F32, 0, g, &o));
    OK(embed_distill(ctx, of[0], teacher.x, EMBED_F32, 0, of[1], p.x, EMBED_F32, N, 0, p.targets, forward, &o));
    OK(embed_distill(ctx, of[2], t.x, EMBED_F32, 0, of[3], r.x, EMBED_F32, N, 0, p.targets, want, &exact));
    assert_losses(ctx, loss, want, N);
    assert_losses(ctx, forward, want, N);
    for (int i = 0; i < N; ++i) {
      embed_grad *one = NULL;
      OK(embed_grad_create_dense(ctx, VOCAB, DIM, NULL, 0, &one));
      OK(embed_distill_train(ctx, of[2], t.x + i * OF_TEACHER, EMBED_F32, 0, of[3], r.x + i * DIM, EMBED_F32, 1, 0, p.targets + i, p.up + i, NULL, NULL, NULL,
                             EMBED_F32, 0, one, &exact));
      for (int v = 0; v < VOCAB; ++v)
        for (int j = 0; j < DIM; ++j) {
          add_product(&s, i * DIM + j, embed_grad_bias(one)[v], r.w[v * DIM + j], p.w[v * DIM + j]);
          add_product(&of_table, v * DIM + j, embed_grad_bias(one)[v], r.x[i * DIM + j], p.x[i * DIM + j]);
        }
      embed_grad_release(one);
    }
    assert_sums(ctx, dx, &s, N * DIM, "d_hidden");
    assert_sums(ctx, embed_grad_values(g), &of_table, VOCAB * DIM, "d_weight");
    sums_free(&s), sums_free(&of_table);
    embed_grad_release(g);
    for (int i = 0; i < 4; ++i) embed_head_release(of[i]);
    embed_context_release(ctx);
    rounded_free(&t), rounded_free(&r);
    problem_free(&teacher), problem_free(&p);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_loss_is_that_of_rounded_numbers_and_gradients_are_plain_sums),
    cmocka_unit_test(every_pair_of_options_goes_with_it),
    cmocka_unit_test(levels_and_threads_do_not_change_a_bit),
    cmocka_unit_test(all_calls_say_the_same),
    cmocka_unit_test(sequences_have_the_gradient_of_their_rows),
    cmocka_unit_test(a_row_does_not_depend_on_the_others),
    cmocka_unit_test(every_dtype_is_as_its_decoded_rows),
    cmocka_unit_test(every_head_has_the_same_products),
    cmocka_unit_test(the_filter_looks_at_slopes_that_are_not_rounded),
    cmocka_unit_test(kahans_sums_go_with_it),
    cmocka_unit_test(subnormal_numbers_count_as_0),
    cmocka_unit_test(a_nan_stays_in_its_row),
    cmocka_unit_test(memory_stays_below_64_megabytes),
    cmocka_unit_test(every_failed_allocation_leaves_everything_as_it_was),
    cmocka_unit_test(distillation_is_that_of_rounded_numbers),
};
TEST_MAIN(tests)
