/* SPDX-License-Identifier: BSD-3-Clause */
/* Hierarchical softmax: the tree against fastText's way of building it, written down again; loss, gradients and prediction against plain loops
 * over all paths in double; a model of fastText's. */
#include "counting.h"
#include "loss.h"

enum { MOST_PATH = 200 };

typedef struct hierarchy {
  problem p; /* its table's rows are the inner nodes */
  int64_t leaves;
  int64_t *counts;
  embed_huffman *tree;
  embed_huffman_options o;
} hierarchy;

static embed_huffman *tree_of(embed_context *ctx, const int64_t *counts, int64_t leaves) {
  embed_huffman *t = NULL;
  if (embed_huffman_create(ctx, counts, leaves, &t) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  return t;
}

/* Counts of every size, some of them equal, in no order. */
static hierarchy hierarchy_new(embed_context *ctx, int64_t leaves, int64_t dim, int64_t n, uint64_t seed) {
  hierarchy h = {.p = problem_new(leaves > 1 ? leaves - 1 : 1, dim, n, seed), .leaves = leaves, .o = {.size = sizeof h.o}};
  h.counts = zeroed(leaves, sizeof *h.counts);
  for (int64_t i = 0; i < leaves; ++i) h.counts[i] = (int64_t)(test_random(&seed) % 40) * (int64_t)(test_random(&seed) % 40);
  for (int64_t i = 0; i < n; ++i)
    if (i % 7 != 6) h.p.targets[i] = (int32_t)(test_random(&seed) % (uint64_t)leaves);
  h.tree = tree_of(ctx, h.counts, leaves);
  return h;
}

static void hierarchy_free(hierarchy *h) {
  problem_free(&h->p);
  free(h->counts);
  embed_huffman_release(h->tree);
}

static int64_t path_in(const embed_huffman *t, int64_t leaf, int32_t *nodes, int32_t *codes) {
  embed_context *ctx = context_new();
  int64_t length = -7;
  OK(embed_huffman_path(ctx, t, leaf, nodes, codes, MOST_PATH, &length));
  assert_in_range(length, 0, MOST_PATH);
  embed_context_release(ctx);
  return length;
}

/* ---- the tree ---- */
typedef struct node {
  int64_t count;
  int parent, right;
} node;

/* fastText's loop over counts that descend; class [leaves]: which class has each place of them. */
static void check_tree(const int64_t *counts, int leaves, const embed_huffman *t) {
  int *class = zeroed(leaves, sizeof *class);
  node *all = zeroed(2 * leaves, sizeof *all);
  for (int i = 0; i < leaves; ++i) class[i] = i;
  for (int i = 1; i < leaves; ++i)
    for (int j = i; j > 0 && counts[class[j]] > counts[class[j - 1]]; --j) {
      const int other = class[j];
      class[j] = class[j - 1];
      class[j - 1] = other;
    }
  for (int i = 0; i < 2 * leaves - 1; ++i) all[i] = (node){i < leaves ? counts[class[i]] : INT64_MAX, -1, 0};
  int leaf = leaves - 1, inner = leaves;
  for (int i = leaves; i < 2 * leaves - 1; ++i) {
    int least[2];
    for (int j = 0; j < 2; ++j) least[j] = leaf >= 0 && all[leaf].count < all[inner].count ? leaf-- : inner++;
    all[i].count = all[least[0]].count + all[least[1]].count;
    all[least[0]].parent = all[least[1]].parent = i;
    all[least[1]].right = 1;
  }
  for (int i = 0; i < leaves; ++i) {
    int32_t nodes[MOST_PATH], codes[MOST_PATH];
    const int64_t length = path_in(t, class[i], nodes, codes);
    int64_t k = 0;
    for (int at = i; all[at].parent >= 0; at = all[at].parent, ++k) {
      assert_true(k < length);
      assert_int_equal(nodes[k], all[at].parent - leaves);
      assert_int_equal(codes[k], all[at].right);
    }
    assert_int_equal(k, length);
  }
  free(class), free(all);
}

static void the_tree_is_the_one_that_fasttext_builds(void **state) {
  embed_context *ctx = context_new();
  uint64_t seed = 5;
  (void)state;
  for (int leaves = 1; leaves < 60; ++leaves) {
    hierarchy h = hierarchy_new(ctx, leaves, 1, 1, (uint64_t)leaves);
    check_tree(h.counts, leaves, h.tree);
    hierarchy_free(&h);
    int64_t equal[60], steep[60];
    for (int i = 0; i < leaves; ++i) equal[i] = 3, steep[i] = (int64_t)1 << (test_random(&seed) % 50);
    embed_huffman *t = tree_of(ctx, equal, leaves), *deep = tree_of(ctx, steep, leaves);
    check_tree(equal, leaves, t);
    check_tree(steep, leaves, deep);
    embed_huffman_release(t), embed_huffman_release(deep);
  }
  embed_context_release(ctx);
}

/* Counts 4 2 1 1: the last two are joined first, the later one left; then that node and class 1, which has no less; then that node and class 0. */
static void a_small_tree_has_the_codes_of_the_textbook(void **state) {
  static const int64_t counts[4] = {4, 2, 1, 1};
  static const char *const codes_of[4] = {"1", "10", "100", "000"}; /* from the leaf up */
  static const int32_t nodes_of[4][3] = {{2}, {1, 2}, {0, 1, 2}, {0, 1, 2}};
  embed_context *ctx = context_new();
  embed_huffman *t = tree_of(ctx, counts, 4);
  (void)state;
  for (int leaf = 0; leaf < 4; ++leaf) {
    int32_t nodes[MOST_PATH], codes[MOST_PATH], one = -7;
    const int64_t length = path_in(t, leaf, nodes, codes);
    int64_t again = 0;
    assert_int_equal(length, (int)strlen(codes_of[leaf]));
    for (int i = 0; i < length; ++i) {
      assert_int_equal(nodes[i], nodes_of[leaf][i]);
      assert_int_equal(codes[i], codes_of[leaf][i] - '0');
    }
    OK(embed_huffman_path(ctx, t, leaf, &one, NULL, 1, &again));
    assert_int_equal(again, length);
    assert_int_equal(one, nodes[0]);
  }
  embed_huffman_release(t);
  embed_context_release(ctx);
}

/* ---- loss ---- */
static bool is_ignored(const hierarchy *h, int64_t i) { return h->p.targets[i] == (h->o.flags & EMBED_HUFFMAN_IGNORE_INDEX ? h->o.ignore_index : -100); }

static double total(const void *what, const double *w, const double *b, const double *x, double *losses) {
  const hierarchy *h = what;
  const problem *p = &h->p;
  double *z = zeroed(p->vocab, 8), *slope = zeroed(p->vocab, 8), sum = 0, counted = 0;
  for (int64_t i = 0; i < p->n; ++i) counted += !is_ignored(h, i);
  for (int64_t i = 0; i < p->n; ++i) {
    int32_t nodes[MOST_PATH], codes[MOST_PATH];
    if (is_ignored(h, i)) continue;
    const int64_t length = path_in(h->tree, p->targets[i], nodes, codes);
    logits_in_double(p, w, b, x + i * p->dim, z, slope);
    double loss = 0;
    for (int64_t k = 0; k < length; ++k) loss += log(1 + exp(codes[k] ? -z[nodes[k]] : z[nodes[k]]));
    if (losses) losses[i] = loss;
    sum += loss * (p->up ? (double)p->up[i] : h->o.reduction == EMBED_REDUCE_MEAN ? 1 / counted : 1);
  }
  free(z), free(slope);
  return sum;
}

static embed_status run(embed_context *ctx, const hierarchy *h, const embed_head *head, training *t) {
  return embed_huffman_loss(ctx, head, h->tree, h->p.x, EMBED_F32, h->p.n, 0, h->p.targets, h->p.up, t->loss, &t->count, t->dx, EMBED_F32, 0, t->g, &h->o);
}

static training trained(embed_context *ctx, const hierarchy *h, const embed_head *head) {
  const problem *p = &h->p;
  training t = {.loss = zeroed(p->n, 4), .dx = zeroed(p->n * p->dim, 4), .count = -7};
  memset(t.loss, 0xA5, (size_t)p->n * 4);
  memset(t.dx, 0xA5, (size_t)(p->n * p->dim) * 4);
  OK(embed_grad_create_dense(ctx, p->vocab, p->dim, NULL, 0, &t.g));
  if (run(ctx, h, head, &t) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  t.dw = (float *)(uintptr_t)embed_grad_values(t.g);
  t.db = embed_grad_bias(t.g);
  return t;
}

static void set_option(hierarchy *h, int option, uint64_t *state) {
  switch (option) {
    case 0: break;
    case 1: h->p.bias = h->p.bias ? h->p.bias : random_floats(h->p.vocab, 1, state); break;
    case 2: h->p.cap = 1.5f; break;
    case 3: h->p.scale = -1.75f; break;
    case 4: h->p.up = h->p.up ? h->p.up : random_floats(h->p.n, 2, state); break;
    case 5: h->o.flags |= EMBED_HUFFMAN_IGNORE_INDEX, h->o.ignore_index = 3, h->p.targets[6] = 0, h->p.targets[2] = 3; break;
    default: h->o.reduction = EMBED_REDUCE_SUM; break;
  }
}

static void every_pair_of_options_has_the_gradient_of_its_loss(void **state) {
  embed_context *ctx = context_new();
  (void)state;
  for (int one = 0; one < 7; ++one)
    for (int other = one; other < 7; ++other) {
      uint64_t seed = (uint64_t)(10 * one + other + 1);
      hierarchy h = hierarchy_new(ctx, 9, 5, 8, seed);
      set_option(&h, one, &seed);
      set_option(&h, other, &seed);
      const problem *p = &h.p;
      embed_head *head = head_of(ctx, p, table_of(ctx, p));
      training t = trained(ctx, &h, head);
      double *losses = zeroed(p->n, 8), *dw = differences(total, &h, p, 0, losses), *db = differences(total, &h, p, 1, NULL),
             *dx = differences(total, &h, p, 2, NULL);
      int64_t counted = 0;
      for (int64_t i = 0; i < p->n; ++i) counted += !is_ignored(&h, i);
      assert_int_equal(t.count, counted);
      CLOSE(t.loss, losses, p->n, 2e-6);
      CLOSE(t.dx, dx, p->n * p->dim, 3e-6);
      CLOSE(t.dw, dw, p->vocab * p->dim, 3e-6);
      if (p->bias) CLOSE(t.db, db, p->vocab, 3e-6);
      free(losses), free(dw), free(db), free(dx);
      training_free(&t);
      embed_head_release(head);
      hierarchy_free(&h);
    }
  embed_context_release(ctx);
}

static void a_sparse_gradient_has_the_nodes_of_the_paths(void **state) {
  embed_context *ctx = context_new();
  hierarchy h = hierarchy_new(ctx, 2000, 8, 5, 3);
  embed_head *head = head_of(ctx, &h.p, table_of(ctx, &h.p));
  bool used[1999] = {false};
  int64_t number = 0;
  float dx[40], loss[5];
  training dense = trained(ctx, &h, head), t = {.dx = dx, .loss = loss};
  (void)state;
  OK(embed_grad_create(ctx, 8, &t.g));
  OK(run(ctx, &h, head, &t));
  for (int i = 0; i < 5; ++i) {
    int32_t nodes[MOST_PATH], codes[MOST_PATH];
    const int64_t length = path_in(h.tree, h.p.targets[i], nodes, codes);
    for (int64_t k = 0; k < length; ++k) number += !used[nodes[k]], used[nodes[k]] = true;
  }
  assert_int_equal(embed_grad_rows(t.g), number);
  for (int64_t r = 0; r < number; ++r) {
    assert_true(used[embed_grad_ids(t.g)[r]]);
    assert_same_bits(embed_grad_values(t.g) + 8 * r, dense.dw + 8 * embed_grad_ids(t.g)[r], 32);
  }
  embed_grad_release(t.g);
  training_free(&dense);
  embed_head_release(head);
  hierarchy_free(&h);
  embed_context_release(ctx);
}

/* ---- prediction ---- */
static double *logprobs_in_double(const hierarchy *h, int64_t row, bool fasttext) {
  const problem *p = &h->p;
  double *w = doubles_of(p->w, p->vocab * p->dim), *b = doubles_of(p->bias, p->vocab), *x = doubles_of(p->x + row * p->dim, p->dim);
  double *z = zeroed(p->vocab, 8), *slope = zeroed(p->vocab, 8), *out = zeroed(h->leaves, 8);
  logits_in_double(p, w, b, x, z, slope);
  for (int64_t leaf = 0; leaf < h->leaves; ++leaf) {
    int32_t nodes[MOST_PATH], codes[MOST_PATH];
    const int64_t length = path_in(h->tree, leaf, nodes, codes);
    for (int64_t k = 0; k < length; ++k) out[leaf] += log(1 / (1 + exp(codes[k] ? -z[nodes[k]] : z[nodes[k]])) + (fasttext ? 1e-5 : 0));
  }
  free(w), free(b), free(x), free(z), free(slope);
  return out;
}

static void predictions_are_the_best_of_all_classes(void **state) {
  enum { K = 7, N = 5 };
  embed_context *ctx = context_new();
  (void)state;
  for (int leaves = 1; leaves < 300; leaves = leaves * 2 + 1) {
    for (int fasttext = 0; fasttext < 2; ++fasttext) {
      hierarchy h = hierarchy_new(ctx, leaves, 6, N, (uint64_t)leaves);
      embed_huffman_predict_options o = {.size = sizeof o, .flags = fasttext ? EMBED_HUFFMAN_FASTTEXT : 0};
      embed_head *head = NULL;
      int32_t ids[N * K];
      float logprobs[N * K];
      int64_t count[N];
      h.p.scale = 3;
      head = head_of(ctx, &h.p, table_of(ctx, &h.p));
      OK(embed_huffman_predict(ctx, head, h.tree, h.p.x, EMBED_F32, N, 0, K, ids, logprobs, count, &o));
      for (int i = 0; i < N; ++i) {
        double *want = logprobs_in_double(&h, i, fasttext), sum = 0;
        for (int v = 0; v < leaves; ++v) sum += exp(want[v]);
        if (!fasttext) assert_true(fabs(sum - 1) < 1e-12);
        assert_int_equal(count[i], leaves < K ? leaves : K);
        for (int k = 0; k < K; ++k) {
          const int32_t id = ids[i * K + k];
          if (k >= count[i]) {
            assert_int_equal(id, -1);
            assert_true(isinf(logprobs[i * K + k]) && logprobs[i * K + k] < 0);
            continue;
          }
          assert_true(fabs((double)logprobs[i * K + k] - want[id]) <= 2e-6 * (1 + fabs(want[id])));
          for (int v = 0; v < leaves; ++v) assert_true(want[v] <= want[id] + 1e-5 || want[v] > (k ? (double)logprobs[i * K + k - 1] - 1e-5 : INFINITY));
          for (int other = 0; other < k; ++other) assert_true(ids[i * K + other] != id);
        }
        free(want);
      }
      embed_head_release(head);
      hierarchy_free(&h);
    }
  }
  embed_context_release(ctx);
}

/* Logits of 0: 8 classes of 1/8, then a threshold on both sides of it. */
static void equal_classes_come_by_id_and_a_threshold_leaves_out(void **state) {
  static const int64_t counts[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  static const float zeros[8 * 2];
  embed_context *ctx = context_new();
  problem p = {.vocab = 7, .dim = 2, .w = (float *)(uintptr_t)zeros, .scale = 1};
  embed_head *head = head_of(ctx, &p, table_of(ctx, &p));
  embed_huffman *t = tree_of(ctx, counts, 8);
  embed_huffman_predict_options o = {.size = sizeof o};
  int32_t ids[8];
  float logprobs[8];
  int64_t count;
  (void)state;
  OK(embed_huffman_predict(ctx, head, t, zeros, EMBED_F32, 1, 0, 8, ids, logprobs, &count, &o));
  assert_int_equal(count, 8);
  for (int i = 0; i < 8; ++i) assert_true(ids[i] == i && fabs((double)logprobs[i] + log(8)) < 2e-7);
  o.threshold = 0.126;
  OK(embed_huffman_predict(ctx, head, t, zeros, EMBED_F32, 1, 0, 8, ids, logprobs, &count, &o));
  assert_int_equal(count, 0);
  assert_int_equal(ids[0], -1);
  o.threshold = 0.124;
  OK(embed_huffman_predict(ctx, head, t, zeros, EMBED_F32, 1, 0, 3, ids, logprobs, &count, &o));
  assert_int_equal(count, 3);
  embed_huffman_release(t);
  embed_head_release(head);
  embed_context_release(ctx);
}

/* Class 2 hangs at the root, class 0 below a node that is all but certain to go its way: both have 1/2 in double. */
static void an_equal_class_further_down_comes_by_id_too(void **state) {
  static const int64_t counts[3] = {1, 1, 5};
  static float zeros[4], bias[2] = {60, 0};
  embed_context *ctx = context_new();
  problem p = {.vocab = 2, .dim = 2, .w = zeros, .bias = bias, .scale = 1};
  embed_head *head = head_of(ctx, &p, table_of(ctx, &p));
  embed_huffman *t = tree_of(ctx, counts, 3);
  int32_t ids[2];
  float logprobs[2];
  (void)state;
  OK(embed_huffman_predict(ctx, head, t, zeros, EMBED_F32, 1, 0, 2, ids, logprobs, NULL, NULL));
  assert_true(ids[0] == 0 && ids[1] == 2 && logprobs[0] == logprobs[1]);
  embed_huffman_release(t);
  embed_head_release(head);
  embed_context_release(ctx);
}

/* All k are the beginning of the ranking of all classes, which is by value and id. */
static void check_ranking(embed_context *ctx, const problem *p, const embed_huffman *t, int leaves, uint32_t flags) {
  static const float one = 1;
  const embed_huffman_predict_options o = {.size = sizeof o, .flags = flags};
  embed_head *head = head_of(ctx, p, table_of(ctx, p));
  int32_t *all = zeroed(leaves, 4), *ids = zeroed(leaves, 4);
  float *values = zeroed(leaves, 4), *logprobs = zeroed(leaves, 4);
  int64_t count;
  OK(embed_huffman_predict(ctx, head, t, &one, EMBED_F32, 1, 0, leaves, all, values, &count, &o));
  for (int i = 1; i < count; ++i) assert_true(values[i - 1] > values[i] || (values[i - 1] == values[i] && all[i - 1] < all[i]));
  for (int k = 1; k < leaves; ++k) {
    OK(embed_huffman_predict(ctx, head, t, &one, EMBED_F32, 1, 0, k, ids, logprobs, NULL, &o));
    assert_same_bits(ids, all, (size_t)k * 4);
    assert_same_bits(logprobs, values, (size_t)k * 4);
  }
  free(all), free(ids), free(values), free(logprobs);
  embed_head_release(head);
}

/* Classes that differ in double and are the same in float. */
static void classes_rank_by_the_values_that_are_returned(void **state) {
  enum { LEAVES = 60 };
  static const float sizes[4] = {1e-9f, 1e-7f, 4e-6f, 60};
  static float zeros[LEAVES];
  float bias[LEAVES] = {1e-9f};
  int64_t counts[LEAVES];
  embed_context *ctx = context_new();
  problem p = {.vocab = 3, .dim = 1, .w = zeros, .bias = bias, .scale = 1};
  uint64_t seed = 7;
  (void)state;
  for (int i = 0; i < LEAVES; ++i) counts[i] = 1;
  embed_huffman *t = tree_of(ctx, counts, 4);
  check_ranking(ctx, &p, t, 4, 0);
  embed_huffman_release(t);
  p.vocab = LEAVES - 1;
  for (int turn = 0; turn < 20; ++turn) {
    for (int i = 0; i < LEAVES; ++i) counts[i] = 1 + (int64_t)(test_random(&seed) % 8);
    for (int i = 0; i < p.vocab; ++i) bias[i] = sizes[test_random(&seed) % 4] * (float)((int)(test_random(&seed) % 5) - 2);
    t = tree_of(ctx, counts, LEAVES);
    check_ranking(ctx, &p, t, LEAVES, 0);
    check_ranking(ctx, &p, t, LEAVES, EMBED_HUFFMAN_FASTTEXT);
    embed_huffman_release(t);
  }
  embed_context_release(ctx);
}

/* Class 0 hangs below a node that is less probable than class 2 beside it, by less than the 1e-5 that its last step adds. */
static void fasttexts_scores_may_grow_on_the_way_down(void **state) {
  static const int64_t counts[3] = {1, 1, 5};
  static float zeros[2], bias[2] = {60, 8e-6f};
  const embed_huffman_predict_options o = {.size = sizeof o, .flags = EMBED_HUFFMAN_FASTTEXT};
  embed_context *ctx = context_new();
  problem p = {.vocab = 2, .dim = 1, .w = zeros, .bias = bias, .scale = 1};
  embed_huffman *t = tree_of(ctx, counts, 3);
  embed_head *head = head_of(ctx, &p, table_of(ctx, &p));
  int32_t id;
  float logprob;
  (void)state;
  OK(embed_huffman_predict(ctx, head, t, zeros, EMBED_F32, 1, 0, 1, &id, &logprob, NULL, &o));
  assert_int_equal(id, 0);
  embed_huffman_release(t);
  embed_head_release(head);
  embed_context_release(ctx);
}

/* Class 1 has 1.2e-4 * 0.047. */
static void fasttexts_threshold_of_0_is_one_of_1e_5(void **state) {
  static const int64_t counts[3] = {1, 1, 5};
  static float zeros[2], bias[2] = {3, 9};
  embed_huffman_predict_options o = {.size = sizeof o};
  embed_context *ctx = context_new();
  problem p = {.vocab = 2, .dim = 1, .w = zeros, .bias = bias, .scale = 1};
  embed_huffman *t = tree_of(ctx, counts, 3);
  embed_head *head = head_of(ctx, &p, table_of(ctx, &p));
  int32_t ids[3];
  float logprobs[3];
  int64_t count;
  (void)state;
  OK(embed_huffman_predict(ctx, head, t, zeros, EMBED_F32, 1, 0, 3, ids, logprobs, &count, &o));
  assert_true(count == 3 && ids[2] == 1 && logprobs[2] < -12 && logprobs[2] > -12.1f);
  o.flags = EMBED_HUFFMAN_FASTTEXT;
  OK(embed_huffman_predict(ctx, head, t, zeros, EMBED_F32, 1, 0, 3, ids, logprobs, &count, &o));
  assert_true(count == 2 && ids[0] == 2 && ids[1] == 0 && ids[2] == -1);
  embed_huffman_release(t);
  embed_head_release(head);
  embed_context_release(ctx);
}

static void threads_and_the_other_rows_do_not_change_a_bit(void **state) {
  enum { LEAVES = 3001, DIM = 72, N = 300, K = 5 };
  static const int32_t threads[4] = {1, 2, 7, 2};
  embed_context *maker = context_new();
  hierarchy h = hierarchy_new(maker, LEAVES, DIM, N, 3);
  uint64_t seed = 5;
  training first = {0};
  int32_t *ids[4];
  float *logprobs[4];
  (void)state;
  h.p.bias = random_floats(LEAVES - 1, 1, &seed);
  h.p.up = random_floats(N, 1, &seed);
  for (int k = 0; k < 4; ++k) {
    embed_context *ctx = context_with(NULL, threads[k]);
    embed_head *head = head_of(ctx, &h.p, table_of(ctx, &h.p));
    if (k == 3) h.p.n = 20;
    training t = trained(ctx, &h, head);
    ids[k] = zeroed(N * K, 4), logprobs[k] = zeroed(N * K, 4);
    OK(embed_huffman_predict(ctx, head, h.tree, h.p.x, EMBED_F32, h.p.n, 0, K, ids[k], logprobs[k], NULL, NULL));
    assert_same_bits(ids[k], ids[0], (size_t)h.p.n * K * 4);
    assert_same_bits(logprobs[k], logprobs[0], (size_t)h.p.n * K * 4);
    if (k == 0) {
      first = t;
      assert_true(first.loss[0] > 0 && first.dx[0] != 0);
    } else {
      assert_same_bits(t.loss, first.loss, (size_t)h.p.n * 4);
      assert_same_bits(t.dx, first.dx, (size_t)(h.p.n * DIM) * 4);
      if (k < 3) assert_same_bits(t.dw, first.dw, (size_t)(h.p.vocab * DIM) * 4);
      if (k < 3) assert_same_bits(t.db, first.db, (size_t)h.p.vocab * 4);
      training_free(&t);
    }
    embed_head_release(head);
    embed_context_release(ctx);
  }
  for (int k = 0; k < 4; ++k) free(ids[k]), free(logprobs[k]);
  training_free(&first);
  hierarchy_free(&h);
  embed_context_release(maker);
}

/* ---- what is refused ---- */
static void wrong_arguments_write_nothing(void **state) {
  embed_context *ctx = context_new();
  hierarchy h = hierarchy_new(ctx, 9, 5, 8, 3);
  embed_head *head = head_of(ctx, &h.p, table_of(ctx, &h.p));
  embed_huffman *t = (embed_huffman *)(uintptr_t)8;
  embed_huffman_predict_options o = {.size = sizeof o, .threshold = 1.5};
  float loss[8], dx[40], logprobs[8];
  int32_t ids[8];
  int64_t length = -7, counts[3] = {1, -1, 2};
  training tr = {.loss = loss, .dx = dx, .count = -7};
  (void)state;
  memset(loss, 0xA5, sizeof loss), memset(dx, 0xA5, sizeof dx), memset(ids, 0xA5, sizeof ids), memset(logprobs, 0xA5, sizeof logprobs);
  assert_int_equal(embed_huffman_create(ctx, counts, 3, &t), EMBED_E_ARGUMENT);
  assert_int_equal(embed_error_at(ctx), 1);
  assert_null(t);
  assert_int_equal(embed_huffman_create(ctx, counts, 0, &t), EMBED_E_ARGUMENT);
  assert_int_equal(embed_huffman_create(ctx, NULL, 3, &t), EMBED_E_ARGUMENT);
  assert_int_equal(embed_huffman_create(ctx, counts, INT64_MAX, &t), EMBED_E_UNSUPPORTED);
  counts[0] = counts[1] = INT64_MAX;
  assert_int_equal(embed_huffman_create(ctx, counts, 3, &t), EMBED_E_OVERFLOW);
  assert_int_equal(embed_huffman_path(ctx, h.tree, 9, ids, ids, 8, &length), EMBED_E_ID);
  assert_int_equal(embed_huffman_path(ctx, h.tree, -1, ids, ids, 8, &length), EMBED_E_ID);
  assert_int_equal(embed_huffman_path(ctx, h.tree, 1, ids, ids, -1, &length), EMBED_E_ARGUMENT);
  assert_int_equal(length, -7);
  OK(embed_grad_create(ctx, 5, &tr.g));
  h.p.targets[4] = 9;
  assert_int_equal(run(ctx, &h, head, &tr), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 4);
  h.p.targets[4] = 0;
  h.o.reduction = 3;
  assert_int_equal(run(ctx, &h, head, &tr), EMBED_E_OPTION);
  h.o.reduction = 0;
  h.o.flags = EMBED_HUFFMAN_FASTTEXT;
  assert_int_equal(run(ctx, &h, head, &tr), EMBED_E_OPTION);
  h.o.flags = 0;
  embed_grad_release(tr.g);
  OK(embed_grad_create(ctx, 4, &tr.g));
  assert_int_equal(run(ctx, &h, head, &tr), EMBED_E_MISMATCH);
  const int64_t more[11] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  embed_huffman *larger = tree_of(ctx, more, 11), *own = h.tree;
  h.tree = larger;
  assert_int_equal(run(ctx, &h, head, &tr), EMBED_E_MISMATCH);
  assert_int_equal(embed_huffman_predict(ctx, head, larger, h.p.x, EMBED_F32, 1, 0, 2, ids, logprobs, NULL, NULL), EMBED_E_MISMATCH);
  h.tree = own;
  assert_int_equal(embed_huffman_predict(ctx, head, own, h.p.x, EMBED_F32, 1, 0, 2, ids, logprobs, NULL, &o), EMBED_E_OPTION);
  o.threshold = NAN;
  assert_int_equal(embed_huffman_predict(ctx, head, own, h.p.x, EMBED_F32, 1, 0, 2, ids, logprobs, NULL, &o), EMBED_E_OPTION);
  assert_int_equal(embed_huffman_predict(ctx, head, own, h.p.x, EMBED_F32, 1, 0, -1, ids, logprobs, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_huffman_predict(ctx, head, own, h.p.x, EMBED_F32, 2, 0, INT64_MAX, ids, logprobs, NULL, NULL), EMBED_E_OVERFLOW);
  embed_head *few = NULL;
  OK(embed_head_create_subset(ctx, head, (const int32_t[]){7, 6, 5, 4, 3, 2, 1, 0}, 8, &few));
  assert_int_equal(run(ctx, &h, few, &tr), EMBED_E_UNSUPPORTED);
  assert_int_equal(embed_huffman_predict(ctx, few, own, h.p.x, EMBED_F32, 1, 0, 2, ids, logprobs, NULL, NULL), EMBED_E_UNSUPPORTED);
  embed_head_release(few);
  assert_true(test_all_bytes(loss, sizeof loss, 0xA5) && test_all_bytes(dx, sizeof dx, 0xA5) && tr.count == -7 && embed_grad_rows(tr.g) == 0);
  assert_true(test_all_bytes(ids, sizeof ids, 0xA5) && test_all_bytes(logprobs, sizeof logprobs, 0xA5));
  h.p.x[5] = NAN;
  assert_int_equal(embed_huffman_predict(ctx, head, own, h.p.x, EMBED_F32, 4, 0, 2, ids, logprobs, NULL, NULL), EMBED_E_NONFINITE);
  assert_int_equal(embed_error_at(ctx), 1);
  embed_grad_release(tr.g);
  embed_huffman_release(larger);
  embed_huffman_release(NULL);
  embed_head_release(head);
  hierarchy_free(&h);
  embed_context_release(ctx);
}

static void every_failed_allocation_leaves_everything_as_it_was(void **state) {
  embed_context *maker = context_new();
  hierarchy h = hierarchy_new(maker, 300, 24, 40, 5);
  uint64_t seed = 4;
  counting c;
  (void)state;
  h.p.bias = random_floats(299, 1, &seed);
  for (int call = 0; call < 3; ++call) {
    for (int k = 0;; ++k) {
      counting_start(&c);
      embed_context *ctx = counting_context(&c, NULL);
      embed_head *head = head_of(ctx, &h.p, table_of(ctx, &h.p));
      embed_huffman *made = NULL;
      float loss[40], dx[40 * 24];
      int32_t ids[40];
      training t = {.loss = loss, .dx = dx, .count = -7};
      OK(embed_grad_create(ctx, 24, &t.g));
      embed_context_trim(ctx);
      memset(loss, 0xA5, sizeof loss), memset(dx, 0xA5, sizeof dx), memset(ids, 0xA5, sizeof ids);
      atomic_store(&c.fail_at, k);
      const embed_status status = call == 0   ? run(ctx, &h, head, &t)
                                  : call == 1 ? embed_huffman_create(ctx, h.counts, 300, &made)
                                              : embed_huffman_predict(ctx, head, h.tree, h.p.x, EMBED_F32, 40, 0, 1, ids, loss, NULL, NULL);
      const bool failed = atomic_exchange(&c.fail_at, -1) < 0;
      assert_int_equal(status, failed ? EMBED_E_MEMORY : EMBED_OK);
      if (failed) {
        assert_int_equal(embed_grad_rows(t.g), 0);
        assert_null(embed_grad_bias(t.g));
        assert_null(made);
        assert_true(test_all_bytes(loss, sizeof loss, 0xA5) && test_all_bytes(dx, sizeof dx, 0xA5) && test_all_bytes(ids, sizeof ids, 0xA5) && t.count == -7);
      }
      embed_huffman_release(made);
      embed_grad_release(t.g);
      embed_head_release(head);
      embed_context_release(ctx);
      counting_check(&c);
      if (!failed) break;
    }
  }
  hierarchy_free(&h);
  embed_context_release(maker);
}

/* ---- fastText's language identification, lid.176.ftz ---- */
enum { LABELS = 176, LID_DIM = 16 };

/* The name of a label, behind __label__. */
static const char *label_of(embed_context *ctx, const embed_file *f, int32_t label) {
  const char *key, *value;
  char wanted[48];
  int64_t bytes;
  snprintf(wanted, sizeof wanted, "fasttext.label.%d", label);
  for (int64_t i = 0; embed_file_metadata(ctx, f, i, &key, &value, &bytes) == EMBED_OK; ++i)
    if (!strcmp(key, wanted)) return value + strlen("__label__");
  fail_msg("no %s", wanted);
  return NULL;
}

/* Sentence vectors and predictions by fastText 0.9.3. */
static const float lid_hidden[3][LID_DIM] = {
    {-0x1.8f4358p+0f, -0x1.12a3eep+0f, 0x1.36f1fap-1f, 0x1.f87396p-1f, -0x1.6558a6p-3f, -0x1.2d19b8p-2f, -0x1.897fc6p+0f, -0x1.46c914p-2f, -0x1.31086ep-1f,
     0x1.bd3d2ap-2f, 0x1.3e2c5p+0f, 0x1.c5ffc4p-2f, -0x1.03b9a4p-8f, 0x1.23612p+0f, -0x1.00a21ep+0f, -0x1.ac1c8p-1f},
    {-0x1.4cadd6p-3f, 0x1.d2f67ep-3f, -0x1.6bf886p-1f, -0x1.02b876p-4f, 0x1.2f1a3p-3f, -0x1.b722aap-6f, 0x1.510212p-2f, -0x1.a5051cp-5f, -0x1.afc238p-2f,
     -0x1.27be54p-1f, 0x1.ebb7a2p-5f, -0x1.b4fc32p-3f, 0x1.94ea8ap-3f, 0x1.0437fcp-4f, 0x1.de9c9cp-8f, 0x1.42fe48p-2f},
    {-0x1.d88e98p-2f, -0x1.34d8c6p-1f, 0x1.5935e8p-2f, 0x1.31a3fcp-2f, -0x1.1b5db4p-1f, 0x1.fe95fep-1f, 0x1.5ea8d6p-3f, 0x1.f2446p-1f, 0x1.893c84p-1f,
     0x1.5ecaa8p+0f, -0x1.cc0a94p+0f, 0x1.091ddcp-2f, 0x1.ad41e6p-4f, 0x1.f1a40cp-1f, -0x1.469004p+1f, 0x1.7fa156p-3f}};
static const char *const lid_names[3][5] = {{"fr", "en", "de", "it", "oc"}, {"en", "es", "nl", "pt", "ru"}, {"zh", "ja", "wuu", "ko", "mk"}};
static const double lid_probabilities[3][5] = {{0.9895493984222412, 0.004358808975666761, 0.0011364805977791548, 0.0010149201843887568, 0.0006021105218678713},
                                               {0.7205839157104492, 0.041742511093616486, 0.02578720822930336, 0.02318330854177475, 0.016246143728494644},
                                               {0.8509133458137512, 0.12211188673973083, 0.007434533443301916, 0.005355195142328739, 0.0022816723212599754}};

static void fasttexts_language_identification_gives_its_probabilities(void **state) {
  const char *shared = test_shared(TEST_SOURCE_DIR);
  char path[4200];
  int64_t counts[LABELS], classes, output;
  (void)state;
  if (!shared) skip();
  snprintf(path, sizeof path, "%s/fasttext/lid.176.ftz", shared);
  if (access(path, R_OK) != 0) skip();
  embed_context *ctx = context_new();
  embed_file *f = NULL;
  embed_table *nodes = NULL;
  embed_head *head = NULL;
  embed_huffman_predict_options o = {.size = sizeof o, .flags = EMBED_HUFFMAN_FASTTEXT};
  int32_t ids[3 * 5];
  float logprobs[3 * 5];
  OK(embed_file_open(ctx, path, NULL, &f));
  OK(embed_file_class_counts(ctx, f, EMBED_ROLE_HEAD, counts, LABELS, &classes));
  assert_int_equal(classes, LABELS);
  embed_huffman *t = tree_of(ctx, counts, classes);
  OK(embed_file_find(ctx, f, "output", &output));
  OK(embed_file_table(ctx, f, output, &nodes));
  OK(embed_head_create(ctx, nodes, NULL, NULL, &head));
  OK(embed_huffman_predict(ctx, head, t, lid_hidden, EMBED_F32, 3, 0, 5, ids, logprobs, NULL, &o));
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 5; ++k) {
      assert_string_equal(label_of(ctx, f, ids[5 * i + k]), lid_names[i][k]);
      /* its own are sums of logarithms in float */
      assert_true(fabs(exp((double)logprobs[5 * i + k]) - lid_probabilities[i][k]) <= 1e-5 * lid_probabilities[i][k]);
    }
  embed_huffman_release(t);
  embed_head_release(head);
  embed_table_release(nodes);
  embed_file_release(f);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_tree_is_the_one_that_fasttext_builds),
    cmocka_unit_test(a_small_tree_has_the_codes_of_the_textbook),
    cmocka_unit_test(every_pair_of_options_has_the_gradient_of_its_loss),
    cmocka_unit_test(a_sparse_gradient_has_the_nodes_of_the_paths),
    cmocka_unit_test(predictions_are_the_best_of_all_classes),
    cmocka_unit_test(equal_classes_come_by_id_and_a_threshold_leaves_out),
    cmocka_unit_test(an_equal_class_further_down_comes_by_id_too),
    cmocka_unit_test(classes_rank_by_the_values_that_are_returned),
    cmocka_unit_test(fasttexts_scores_may_grow_on_the_way_down),
    cmocka_unit_test(fasttexts_threshold_of_0_is_one_of_1e_5),
    cmocka_unit_test(threads_and_the_other_rows_do_not_change_a_bit),
    cmocka_unit_test(wrong_arguments_write_nothing),
    cmocka_unit_test(every_failed_allocation_leaves_everything_as_it_was),
    cmocka_unit_test(fasttexts_language_identification_gives_its_probabilities),
};
TEST_MAIN(tests)
