/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints that people use: shapes, ties, conventions, rows by their bits, neighbours, logits. The files are found by LIBEMBED_DATA
 * (fetch.sh), the frozen answers beside the checkout; what is missing is skipped. */
#include "io/files.h"

#include <math.h>

typedef struct model {
  const char *name, *file, *table, *norm, *hidden, *before_norm;
  int64_t tensors;
  float lookup_scale, epsilon;
  int32_t norm_flags;
} model;

static const model smollm2 = {"smollm2",
                              "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                              "token_embd.weight",
                              "output_norm.weight",
                              "smollm2-hidden-32.npy",
                              "smollm2-prenorm-32.npy",
                              272,
                              1,
                              1e-5f,
                              0};
static const model gemma3 = {"gemma3-270m",
                             "gemma3-270m/gemma-3-270m-q4_k_m.gguf",
                             "token_embd.weight",
                             "output_norm.weight",
                             "gemma3-270m-hidden-32.npy",
                             "gemma3-270m-prenorm-32.npy",
                             236,
                             25.298221f,
                             1e-6f,
                             0};
static const model minilm = {
    "minilm",        "minilm/model.safetensors", "embeddings.word_embeddings.weight", "embeddings.LayerNorm.weight", NULL, NULL, 104, 1, 1e-12f,
    EMBED_NORM_LAYER}; /* its config.json says so */

enum { TOP = 10, STATES = 32, NEAR = 5, FIRST = 8 };

typedef struct answers {
  FILE *lines;
  char line[8192];
  char *at;
} answers;

/* Lines of answers.py; NULL-terminated words. */
static answers ask(const model *m) {
  answers a = {0};
  char command[8192];
  const char *shared = test_shared(TEST_SOURCE_DIR);
  if (!shared) skip();
  snprintf(command, sizeof command, "python3 '%s/tests/registry/answers.py' '%s/real-models.json' %s 2>/dev/null", TEST_SOURCE_DIR, shared, m->name);
  a.lines = popen(command, "r");
  if (!a.lines) skip();
  return a;
}

/* The next line that begins so; its words follow. */
static int next(answers *a, const char *kind) {
  size_t bytes = strlen(kind);
  while (fgets(a->line, sizeof a->line, a->lines)) {
    a->at = a->line + bytes;
    if (!strncmp(a->line, kind, bytes) && *a->at == ' ') return 1;
  }
  return 0;
}

static double number(answers *a) {
  char *end;
  double value = strtod(a->at, &end);
  assert_true(end != a->at);
  a->at = end;
  return value;
}

static void done(answers *a, int asked, int least) {
  pclose(a->lines);
  if (asked == 0) skip(); /* no Python, or no answers */
  assert_true(asked >= least);
}

typedef struct opened {
  embed_pool *pool;
  embed_context *ctx;
  embed_file *file;
  embed_table *table;
  int64_t rows, dim;
} opened;

static opened open_model(const model *m) {
  opened o = {0};
  char path[4096];
  const char *folder = getenv("LIBEMBED_DATA");
  if (!folder) skip();
  snprintf(path, sizeof path, "%s/%s", folder, m->file);
  if (access(path, R_OK) != 0) skip();
  assert_int_equal(embed_pool_create(2, &o.pool), EMBED_OK);
  o.ctx = new_context(o.pool);
  o.file = open_file(o.ctx, path, NULL);
  o.table = open_table(o.ctx, o.file);
  o.rows = embed_table_rows(o.table);
  o.dim = embed_table_dim(o.table);
  return o;
}

static void close_model(opened o) {
  embed_table_release(o.table);
  embed_file_release(o.file);
  embed_context_release(o.ctx);
  embed_pool_release(o.pool);
}

/* A tensor as floats; the caller frees. */
static float *floats_of(opened *o, int64_t tensor, int64_t *count) {
  embed_table *t = NULL;
  assert_int_equal(embed_file_table(o->ctx, o->file, tensor, &t), EMBED_OK);
  *count = embed_table_rows(t) * embed_table_dim(t);
  float *values = malloc((size_t)*count * sizeof *values);
  assert_non_null(values);
  read_rows(o->ctx, t, values);
  embed_table_release(t);
  return values;
}

static int64_t role(opened *o, embed_role which) {
  int64_t i = -1;
  assert_int_equal(embed_file_role(o->ctx, o->file, which, &i), EMBED_OK);
  return i;
}

static const char *name_of(opened *o, embed_role which) {
  embed_tensor_info info = {.size = sizeof info};
  assert_int_equal(embed_file_tensor(o->ctx, o->file, role(o, which), &info), EMBED_OK);
  return info.name;
}

static void ends_and_conventions(const model *m) {
  opened o = open_model(m);
  embed_conventions c = {.size = sizeof c};
  embed_head *h = NULL, *untied = (embed_head *)(uintptr_t)8;
  embed_head_options must = {.size = sizeof must, .flags = EMBED_HEAD_REQUIRE_UNTIED};
  assert_int_equal(embed_file_count(o.file), m->tensors);
  assert_string_equal(name_of(&o, EMBED_ROLE_TOKEN), m->table);
  assert_string_equal(name_of(&o, EMBED_ROLE_NORM), m->norm);
  assert_int_equal(role(&o, EMBED_ROLE_HEAD), role(&o, EMBED_ROLE_TOKEN));
  assert_int_equal(role(&o, EMBED_ROLE_HEAD_BIAS), -1);
  assert_int_equal(embed_table_vocab(o.table), o.rows);
  assert_int_equal(embed_file_head(o.ctx, o.file, NULL, NULL, &h), EMBED_OK);
  assert_int_equal(embed_head_is_tied(h, o.table), 1);
  assert_int_equal(embed_file_head(o.ctx, o.file, NULL, &must, &untied), EMBED_E_NOT_FOUND);
  assert_null(untied);
  embed_head_info info = {.size = sizeof info};
  assert_int_equal(embed_head_describe(o.ctx, h, &info), EMBED_OK);
  assert_true(info.logit_scale == 1 && info.logit_softcap == 0);
  assert_int_equal(embed_file_conventions(o.ctx, o.file, &c), EMBED_OK);
  assert_true(c.lookup_scale == m->lookup_scale && c.norm_epsilon == m->epsilon && c.scale_round == EMBED_F32);
  assert_int_equal(c.norm_flags, m->norm_flags);
  embed_head_release(h);
  close_model(o);
}

/* Shape, offset, the bits of rows, sums of all values. */
static void rows_as_frozen(const model *m) {
  opened o = open_model(m);
  answers a = ask(m);
  int asked = 0;
  if (next(&a, "table")) {
    embed_tensor_info info = {.size = sizeof info};
    double sum = 0, squares = 0;
    assert_int_equal(embed_file_tensor(o.ctx, o.file, role(&o, EMBED_ROLE_TOKEN), &info), EMBED_OK);
    assert_true((double)o.rows == number(&a) && (double)o.dim == number(&a) && (double)info.offset == number(&a));
    float *row = malloc((size_t)o.dim * sizeof *row);
    assert_non_null(row);
    for (int64_t r = 0; r < o.rows; ++r) {
      assert_int_equal(embed_table_get_rows(o.ctx, o.table, &r, 1, row, EMBED_F32, 0), EMBED_OK);
      for (int64_t j = 0; j < o.dim; ++j) {
        sum += (double)row[j];
        squares += (double)row[j] * (double)row[j];
      }
    }
    free(row);
    double want = number(&a);
    assert_true(fabs(sum - want) <= 1e-6);
    want = number(&a);
    assert_true(fabs(squares - want) <= 1e-9 * want);
    ++asked;
  }
  while (next(&a, "row")) {
    int32_t id = (int32_t)number(&a);
    float *row = malloc((size_t)o.dim * sizeof *row);
    assert_non_null(row);
    assert_int_equal(embed_lookup(o.ctx, o.table, &id, 1, row, EMBED_F32, 0, NULL), EMBED_OK);
    for (int j = 0; j < FIRST; ++j) {
      uint32_t bits;
      memcpy(&bits, &row[j], sizeof bits);
      assert_int_equal(bits, strtoul(a.at, &a.at, 16));
    }
    free(row);
    ++asked;
  }
  done(&a, asked, 4);
  close_model(o);
}

static void neighbours_as_frozen(const model *m) {
  opened o = open_model(m);
  answers a = ask(m);
  int asked = 0;
  float *query = malloc((size_t)o.dim * sizeof *query);
  assert_non_null(query);
  while (next(&a, "near")) {
    int32_t id = (int32_t)number(&a), ids[NEAR], count;
    float scores[NEAR];
    assert_int_equal(embed_lookup(o.ctx, o.table, &id, 1, query, EMBED_F32, 0, NULL), EMBED_OK);
    assert_int_equal(embed_nearest(o.ctx, o.table, query, 1, 0, NEAR, &id, 1, ids, scores, &count, NULL), EMBED_OK);
    assert_int_equal(count, NEAR);
    for (int k = 0; k < NEAR; ++k) assert_int_equal(ids[k], (int32_t)number(&a));
    for (int k = 0; k < NEAR; ++k) assert_true(fabs((double)scores[k] - number(&a)) < 2e-6);
    ++asked;
  }
  free(query);
  done(&a, asked, 5);
  close_model(o);
}

/* The best ten in their order, their logits, the log-sum-exp: of a line whose words stand at a->at. */
static void logits_as_frozen(answers *a, const int32_t *ids, const float *logits, float logsumexp) {
  assert_true(fabs((double)logsumexp - number(a)) < 2e-4);
  for (int k = 0; k < TOP; ++k) assert_int_equal(ids[k], (int32_t)number(a));
  for (int k = 0; k < TOP; ++k) assert_true(fabs((double)logits[k] - number(a)) < 2e-4);
}

static void head_on_sines_as_frozen(const model *m) {
  opened o = open_model(m);
  answers a = ask(m);
  int asked = 0;
  embed_head *h = NULL;
  assert_int_equal(embed_file_head(o.ctx, o.file, o.table, NULL, &h), EMBED_OK);
  float *hidden = malloc((size_t)o.dim * sizeof *hidden), logits[TOP], logsumexp;
  assert_non_null(hidden);
  for (int64_t j = 0; j < o.dim; ++j) hidden[j] = (float)sin((double)(j + 1));
  int32_t ids[TOP], count;
  assert_int_equal(embed_topk(o.ctx, h, hidden, EMBED_F32, 1, 0, TOP, ids, logits, &logsumexp, &count, NULL), EMBED_OK);
  if (next(&a, "sine")) {
    logits_as_frozen(&a, ids, logits, logsumexp);
    ++asked;
  }
  free(hidden);
  embed_head_release(h);
  done(&a, asked, 1);
  close_model(o);
}

/* States [32, dim] recorded beside the answers; the caller frees. */
static float *recorded(opened *o, const char *name) {
  char path[8192];
  const char *shared = test_shared(TEST_SOURCE_DIR);
  if (!shared) skip();
  snprintf(path, sizeof path, "%s/real-models/%s", shared, name);
  if (access(path, R_OK) != 0) skip();
  embed_file *f = open_file(o->ctx, path, NULL);
  embed_table *t = open_table(o->ctx, f);
  assert_int_equal(embed_table_rows(t), STATES);
  assert_int_equal(embed_table_dim(t), o->dim);
  float *states = malloc((size_t)(STATES * o->dim) * sizeof *states);
  assert_non_null(states);
  read_rows(o->ctx, t, states);
  embed_table_release(t);
  embed_file_release(f);
  return states;
}

static void head_on(opened *o, const model *m, const float *states, uint32_t form, int64_t together) {
  answers a = ask(m);
  int asked = 0;
  embed_head *h = NULL;
  float logits[STATES][TOP], logsumexp[STATES];
  int32_t ids[STATES][TOP], count[STATES];
  const embed_head_options options = {.size = sizeof options, .flags = form};
  assert_int_equal(embed_file_head(o->ctx, o->file, o->table, &options, &h), EMBED_OK);
  for (int64_t i = 0; i < STATES; i += together)
    assert_int_equal(embed_topk(o->ctx, h, states + i * o->dim, EMBED_F32, together, 0, TOP, ids[i], logits[i], logsumexp + i, count + i, NULL), EMBED_OK);
  while (next(&a, "state")) {
    int at = (int)number(&a);
    assert_true(at >= 0 && at < STATES);
    logits_as_frozen(&a, ids[at], logits[at], logsumexp[at]);
    ++asked;
  }
  embed_head_release(h);
  done(&a, asked, STATES);
}

/* What came next: its log-probability and rank, and where the published text was greedy the token drawn at temperature 0, in one sweep. */
static void text_on(opened *o, const model *m, const float *states, uint32_t form) {
  enum { GREEDY = 30 };
  answers a = ask(m);
  int asked = 0, greedy = 0;
  int32_t next_ids[STATES] = {0};
  double logprobs[STATES] = {0}, better[STATES] = {0}; /* better: how many have a larger logit */
  while (next(&a, "next")) {
    int at = (int)number(&a);
    assert_true(at >= 0 && at < STATES);
    next_ids[at] = (int32_t)number(&a);
    logprobs[at] = number(&a);
    better[at] = number(&a);
    ++asked;
  }
  done(&a, asked, STATES);
  embed_head *h = NULL;
  embed_result *r = NULL;
  const embed_head_options options = {.size = sizeof options, .flags = form};
  const embed_sweep_options all = {.size = sizeof all, .ask = EMBED_ASK_TARGET_LOGPROB | EMBED_ASK_TARGET_RANK | EMBED_ASK_TOKEN};
  assert_int_equal(embed_file_head(o->ctx, o->file, o->table, &options, &h), EMBED_OK);
  assert_int_equal(embed_result_create(o->ctx, &r), EMBED_OK);
  assert_int_equal(embed_sweep(o->ctx, h, states, EMBED_F32, 0, NULL, STATES, next_ids, NULL, NULL, 0, &all, r), EMBED_OK);
  for (int i = 0; i < STATES; ++i) {
    double off = (double)embed_result_i32(r, EMBED_ASK_TARGET_RANK, NULL, NULL)[i] - (1 + better[i]);
    assert_true(fabs((double)embed_result_f32(r, EMBED_ASK_TARGET_LOGPROB, NULL, NULL)[i] - logprobs[i]) < 2e-4);
    assert_true(fabs(off) <= (better[i] < TOP ? 0 : 1)); /* logits far down lie closer together than float's rounding */
    if (better[i] > 0) continue;
    assert_int_equal(embed_result_i32(r, EMBED_ASK_TOKEN, NULL, NULL)[i], next_ids[i]);
    ++greedy;
  }
  assert_true(greedy >= GREEDY);
  embed_result_release(r);
  embed_head_release(h);
}

static void text_as_published(const model *m) {
  opened o = open_model(m);
  float *states = recorded(&o, m->hidden);
  text_on(&o, m, states, 0);
  text_on(&o, m, states, EMBED_HEAD_PREPARE);
  free(states);
  close_model(o);
}

/* A sketch finds the bits that the plain sweep of the same form gives, reading less than half of the table; the best one is the published
 * token. The table is widened to bf16: as Q8_0 it is hardly larger than its sketch. */
static void certified_as_plain(const model *m) {
  enum { MOST = 40 };
  static const struct { int32_t together, k; } calls[] = {{1, 1}, {1, MOST}, {8, TOP}};
  opened o = open_model(m);
  float *states = recorded(&o, m->hidden), want[STATES * MOST], got[STATES * MOST];
  int32_t want_ids[STATES * MOST], got_ids[STATES * MOST], next_ids[STATES] = {0};
  answers a = ask(m);
  int asked = 0;
  for (; next(&a, "next"); ++asked) {
    int at = (int)number(&a);
    assert_true(at >= 0 && at < STATES);
    next_ids[at] = (int32_t)number(&a);
    (void)number(&a);
    if (number(&a) > 0) next_ids[at] = -1; /* the text had another one */
  }
  done(&a, asked, STATES);
  embed_table *wide = NULL;
  const embed_table_options bf16 = {.size = sizeof bf16, .dtype = EMBED_BF16};
  assert_int_equal(embed_table_convert(o.ctx, o.table, &bf16, &wide), EMBED_OK);
  for (uint32_t form = 0; form <= EMBED_HEAD_PREPARE; form += EMBED_HEAD_PREPARE) {
    embed_head *plain = NULL, *sketched = NULL;
    embed_head_options options = {.size = sizeof options, .flags = form};
    assert_int_equal(embed_head_create(o.ctx, wide, NULL, &options, &plain), EMBED_OK);
    options.flags |= EMBED_HEAD_SKETCH;
    assert_int_equal(embed_head_create(o.ctx, wide, NULL, &options, &sketched), EMBED_OK);
    for (int c = 0; c < 3; ++c) {
      const int32_t together = calls[c].together, k = calls[c].k;
      for (int i = 0; i < STATES; i += together) {
        const float *x = states + i * o.dim;
        assert_int_equal(embed_topk(o.ctx, plain, x, EMBED_F32, together, 0, k, want_ids, want, NULL, NULL, NULL), EMBED_OK);
        assert_int_equal(embed_topk(o.ctx, sketched, x, EMBED_F32, together, 0, k, got_ids, got, NULL, NULL, NULL), EMBED_OK);
        assert_memory_equal(got_ids, want_ids, (size_t)(together * k) * sizeof *got_ids);
        assert_memory_equal(got, want, (size_t)(together * k) * sizeof *got);
        for (int j = 0; j < together; ++j) assert_true(next_ids[i + j] < 0 || got_ids[j * k] == next_ids[i + j]);
      }
    }
    embed_head_info info = {.size = sizeof info};
    assert_int_equal(embed_head_describe(o.ctx, sketched, &info), EMBED_OK);
    assert_true(info.sketch_searches > 0 && info.sketch_rows_verified > 0 && 2 * info.sketch_bytes_read < info.sketch_searches * info.table_bytes);
    embed_head_release(sketched);
    embed_head_release(plain);
  }
  embed_table_release(wide);
  free(states);
  close_model(o);
}

static void head_on_states_as_frozen(const model *m) {
  opened o = open_model(m);
  float *states = recorded(&o, m->hidden);
  head_on(&o, m, states, 0, STATES);
  head_on(&o, m, states, EMBED_HEAD_PREPARE, STATES);
  free(states);
  close_model(o);
}

/* llama.cpp rounds hidden rows to Q8_0 in front of a Q8_0 table: by the mode of that name its logits come out, from rows as they are
 * stored and from a prepared head. */
static void rounded_head_as_llama_cpp(const model *m, double within) {
  opened o = open_model(m);
  float *states = recorded(&o, m->hidden), *logits = malloc((size_t)(STATES * o.rows) * sizeof *logits);
  assert_non_null(logits);
  const embed_sweep_options rounded = {.size = sizeof rounded, .activation = EMBED_Q8_0};
  for (int prepared = 0; prepared < 2; ++prepared)
    for (int64_t together = 1; together <= STATES; together += STATES - 1) {
      answers a = ask(m);
      int asked = 0;
      embed_head *h = NULL;
      const embed_head_options form = {.size = sizeof form, .flags = prepared ? EMBED_HEAD_PREPARE : 0};
      assert_int_equal(embed_file_head(o.ctx, o.file, o.table, &form, &h), EMBED_OK);
      const int64_t width = embed_head_vocab(h);
      for (int64_t i = 0; i < STATES; i += together)
        assert_int_equal(embed_logits(o.ctx, h, states + i * o.dim, EMBED_F32, together, 0, logits + i * width, 0, &rounded), EMBED_OK);
      while (next(&a, "llama")) {
        int64_t at = (int64_t)number(&a), ids[TOP];
        assert_true(at >= 0 && at < STATES);
        for (int k = 0; k < TOP; ++k) ids[k] = (int64_t)number(&a);
        for (int k = 0; k < TOP; ++k) {
          double want = number(&a), got = (double)logits[at * width + ids[k]];
          if (fabs(got - want) > within) fail_msg("state %d, id %d: %.7f, llama.cpp has %.7f", (int)at, (int)ids[k], got, want);
        }
        ++asked;
      }
      embed_head_release(h);
      done(&a, asked, STATES);
    }
  free(logits);
  free(states);
  close_model(o);
}

/* The file's own norm, as embed_file_conventions says, in front of the head. The recorded states are within 1.2e-7 of the row's largest
 * of the exact ones, and the norm's own rounding to float adds 0.6e-7. */
static void norm_and_head_as_frozen(const model *m) {
  opened o = open_model(m);
  float *states = recorded(&o, m->before_norm), *want = recorded(&o, m->hidden);
  int64_t count;
  embed_conventions c = {.size = sizeof c};
  assert_int_equal(embed_file_conventions(o.ctx, o.file, &c), EMBED_OK);
  float *weight = floats_of(&o, role(&o, EMBED_ROLE_NORM), &count);
  assert_int_equal(count, o.dim);
  embed_norm_options norm = {.size = sizeof norm, .flags = (uint32_t)c.norm_flags, .epsilon = c.norm_epsilon};
  assert_int_equal(embed_norm_rows(o.ctx, states, EMBED_F32, STATES, o.dim, 0, weight, NULL, &norm), EMBED_OK);
  for (int64_t i = 0; i < STATES; ++i) {
    double largest = 0, worst = 0;
    for (int64_t j = 0; j < o.dim; ++j) {
      largest = fmax(largest, fabs((double)want[i * o.dim + j]));
      worst = fmax(worst, fabs((double)want[i * o.dim + j] - (double)states[i * o.dim + j]));
    }
    if (worst > 1.8e-7 * largest) fail_msg("state %lld: %.3g of the largest", (long long)i, worst / largest);
  }
  head_on(&o, m, states, 0, STATES);
  free(weight);
  free(want);
  free(states);
  close_model(o);
}

static void smollm2_has_tied_ends(void **state) {
  (void)state;
  ends_and_conventions(&smollm2);
}
static void smollm2_has_its_rows(void **state) {
  (void)state;
  rows_as_frozen(&smollm2);
}
static void smollm2_has_its_neighbours(void **state) {
  (void)state;
  neighbours_as_frozen(&smollm2);
}
static void smollm2_answers_sines(void **state) {
  (void)state;
  head_on_sines_as_frozen(&smollm2);
}
static void smollm2_answers_recorded_states(void **state) {
  (void)state;
  head_on_states_as_frozen(&smollm2);
}
static void smollm2_scores_its_published_text(void **state) {
  (void)state;
  text_as_published(&smollm2);
}
static void smollm2_is_searched_by_sketch(void **state) {
  (void)state;
  certified_as_plain(&smollm2);
}
static void smollm2_answers_states_before_the_norm(void **state) {
  (void)state;
  norm_and_head_as_frozen(&smollm2);
}
static void smollm2_answers_as_llama_cpp_where_states_are_rounded(void **state) {
  (void)state;
  rounded_head_as_llama_cpp(&smollm2, 1e-5);
}
static void gemma3_answers_as_llama_cpp_where_states_are_rounded(void **state) {
  (void)state;
  rounded_head_as_llama_cpp(&gemma3, 1e-5);
}
static void gemma3_has_tied_ends(void **state) {
  (void)state;
  ends_and_conventions(&gemma3);
}
static void gemma3_has_its_rows(void **state) {
  (void)state;
  rows_as_frozen(&gemma3);
}
static void gemma3_has_its_neighbours(void **state) {
  (void)state;
  neighbours_as_frozen(&gemma3);
}
static void gemma3_answers_sines(void **state) {
  (void)state;
  head_on_sines_as_frozen(&gemma3);
}
static void gemma3_answers_recorded_states(void **state) {
  (void)state;
  head_on_states_as_frozen(&gemma3);
}
static void gemma3_scores_its_published_text(void **state) {
  (void)state;
  text_as_published(&gemma3);
}
static void gemma3_is_searched_by_sketch(void **state) {
  (void)state;
  certified_as_plain(&gemma3);
}
static void gemma3_answers_states_before_the_norm(void **state) {
  (void)state;
  norm_and_head_as_frozen(&gemma3);
}
static void minilm_has_its_ends(void **state) {
  (void)state;
  ends_and_conventions(&minilm);
}
static void minilm_has_its_rows(void **state) {
  (void)state;
  rows_as_frozen(&minilm);
}
static void minilm_has_its_neighbours(void **state) {
  (void)state;
  neighbours_as_frozen(&minilm);
}
static void minilm_answers_sines(void **state) {
  (void)state;
  head_on_sines_as_frozen(&minilm);
}

/* Both files' tokenizers, and the numbers that this page itself knows of the two whose licence lets it. */
static void models_name_their_tokens(void **state) {
  (void)state;
  opened o = open_model(&smollm2);
  int64_t id = -1, bytes = -1;
  assert_int_equal(embed_file_token_id(o.ctx, o.file, "\xC4\xA0king", 6, &id), EMBED_OK);
  assert_int_equal(id, 4197);
  assert_string_equal(embed_file_token(o.file, 15731, &bytes), "\xC4\xA0queen");
  assert_null(embed_file_token(o.file, 49152, NULL));
  assert_int_equal(o.rows, 49152);
  assert_int_equal(o.dim, 576);
  assert_int_equal(embed_table_row_bytes(o.table), 612);
  close_model(o);
}

/* Of a vocab.txt and of a tokenizer.json beside the safetensors file. */
static void models_have_the_tokens_that_lie_beside_them(void **state) {
  (void)state;
  static const model tokenlearn = {.name = "tokenlearn", .file = "tokenlearn/model.safetensors"};
  int64_t id = -1;
  opened o = open_model(&minilm);
  assert_int_equal(embed_file_token_id(o.ctx, o.file, "king", 4, &id), EMBED_OK);
  assert_int_equal(id, 2332);
  assert_string_equal(embed_file_token(o.file, 103, NULL), "[MASK]");
  assert_string_equal(embed_file_token(o.file, 30521, NULL), "##\xEF\xBD\x9E");
  assert_null(embed_file_token(o.file, 30522, NULL));
  close_model(o);
  o = open_model(&tokenlearn);
  assert_int_equal(o.rows, 276326);
  assert_string_equal(embed_file_token(o.file, 1, NULL), "<unk>");
  assert_string_equal(embed_file_token(o.file, 3, NULL), "."); /* its unk_id, 3, is stale */
  assert_non_null(embed_file_token(o.file, 276325, NULL));
  assert_null(embed_file_token(o.file, 276326, NULL));
  close_model(o);
}

/* BERT's input: LayerNorm(word + position + type 0), all four tensors by their roles. */
static void minilm_composes_its_input(void **state) {
  (void)state;
  opened o = open_model(&minilm);
  answers a = ask(&minilm);
  int64_t count;
  int asked = 0;
  float *position = floats_of(&o, role(&o, EMBED_ROLE_POSITION), &count);
  assert_int_equal(count, 512 * o.dim);
  float *type = floats_of(&o, role(&o, EMBED_ROLE_TYPE), &count);
  assert_int_equal(count, 2 * o.dim);
  float *weight = floats_of(&o, role(&o, EMBED_ROLE_NORM), &count), *bias = floats_of(&o, role(&o, EMBED_ROLE_NORM_BIAS), &count);
  assert_int_equal(count, o.dim);
  float *row = malloc((size_t)o.dim * sizeof *row);
  assert_non_null(row);
  while (next(&a, "input")) {
    int64_t k = (int64_t)number(&a);
    int32_t id = (int32_t)number(&a);
    embed_norm_options norm = {.size = sizeof norm, .flags = EMBED_NORM_LAYER, .epsilon = 1e-12f};
    assert_int_equal(embed_lookup(o.ctx, o.table, &id, 1, row, EMBED_F32, 0, NULL), EMBED_OK);
    for (int64_t j = 0; j < o.dim; ++j) row[j] += position[k * o.dim + j] + type[j];
    assert_int_equal(embed_norm_rows(o.ctx, row, EMBED_F32, 1, o.dim, 0, weight, bias, &norm), EMBED_OK);
    for (int j = 0; j < 4; ++j) assert_true(fabs((double)row[j] - number(&a)) < 1e-6);
    ++asked;
  }
  free(row);
  free(bias);
  free(weight);
  free(type);
  free(position);
  done(&a, asked, 7);
  close_model(o);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(smollm2_has_tied_ends),
    cmocka_unit_test(smollm2_has_its_rows),
    cmocka_unit_test(smollm2_has_its_neighbours),
    cmocka_unit_test(smollm2_answers_sines),
    cmocka_unit_test(smollm2_answers_recorded_states),
    cmocka_unit_test(smollm2_scores_its_published_text),
    cmocka_unit_test(smollm2_is_searched_by_sketch),
    cmocka_unit_test(smollm2_answers_states_before_the_norm),
    cmocka_unit_test(smollm2_answers_as_llama_cpp_where_states_are_rounded),
    cmocka_unit_test(gemma3_answers_as_llama_cpp_where_states_are_rounded),
    cmocka_unit_test(gemma3_has_tied_ends),
    cmocka_unit_test(gemma3_has_its_rows),
    cmocka_unit_test(gemma3_has_its_neighbours),
    cmocka_unit_test(gemma3_answers_sines),
    cmocka_unit_test(gemma3_answers_recorded_states),
    cmocka_unit_test(gemma3_scores_its_published_text),
    cmocka_unit_test(gemma3_is_searched_by_sketch),
    cmocka_unit_test(gemma3_answers_states_before_the_norm),
    cmocka_unit_test(minilm_has_its_ends),
    cmocka_unit_test(minilm_has_its_rows),
    cmocka_unit_test(minilm_has_its_neighbours),
    cmocka_unit_test(minilm_answers_sines),
    cmocka_unit_test(minilm_composes_its_input),
    cmocka_unit_test(models_name_their_tokens),
    cmocka_unit_test(models_have_the_tokens_that_lie_beside_them),
};
TEST_MAIN(tests)
