/* SPDX-License-Identifier: BSD-3-Clause */
/* Right answers of small real models, through the readers and by the roles that were found, never by a tensor's name: a log-bilinear
 * language model in npz, tied and untied; a grapheme-to-phoneme model in npz; llama2.c's story model. (lid.176: fasttext_test.c.) */
#include "files.h"

#include <math.h>

typedef struct model {
  embed_pool *pool;
  embed_context *ctx;
  embed_file *file;
  embed_table *table;
  embed_head *head;
} model;

/* False, and the test is skipped, where there is no such file. */
static int open_model(model *m, const char *name) {
  char path[8192];
  const char *folder = test_shared(TEST_SOURCE_DIR);
  memset(m, 0, sizeof *m);
  snprintf(path, sizeof path, "%s/%s", folder ? folder : "", name);
  if (!folder || access(path, R_OK) != 0) return 0;
  assert_int_equal(embed_pool_create(2, &m->pool), EMBED_OK);
  m->ctx = new_context(m->pool);
  m->file = open_file(m->ctx, path, NULL);
  m->table = open_table(m->ctx, m->file);
  if (embed_file_head(m->ctx, m->file, m->table, NULL, &m->head) != EMBED_OK) fail_msg("%s", embed_error_text(m->ctx));
  return 1;
}

static void close_model(model *m) {
  embed_head_release(m->head);
  embed_table_release(m->table);
  embed_file_release(m->file);
  embed_context_release(m->ctx);
  embed_pool_release(m->pool);
}

static int64_t role_of(const model *m, embed_role role) {
  int64_t i = -2;
  assert_int_equal(embed_file_role(m->ctx, m->file, role, &i), EMBED_OK);
  return i;
}

static const char *name_of(const model *m, embed_role role) {
  embed_tensor_info info = {.size = sizeof info};
  const int64_t i = role_of(m, role);
  if (i < 0) return "none";
  assert_int_equal(embed_file_tensor(m->ctx, m->file, i, &info), EMBED_OK);
  return info.name;
}

/* The numbers of a tensor as floats; to be freed. */
static float *floats_of(const model *m, int64_t i) {
  embed_table *t = NULL;
  if (embed_file_table(m->ctx, m->file, i, &t) != EMBED_OK) fail_msg("%s", embed_error_text(m->ctx));
  float *values = malloc(sizeof *values * (size_t)(embed_table_rows(t) * embed_table_dim(t)));
  assert_non_null(values);
  read_rows(m->ctx, t, values);
  embed_table_release(t);
  return values;
}

static float *floats_named(const model *m, const char *name) {
  int64_t i = -1;
  assert_int_equal(embed_file_find(m->ctx, m->file, name, &i), EMBED_OK);
  return floats_of(m, i);
}

/* --- The log-bilinear model: h = sum over k of C[k] * E[id k back], logits O h + b */

enum { VOCAB = 8192, DIM = 64, CONTEXT = 4, TEST = 4096, PLACES = TEST - CONTEXT };

/* The ids of the model's test text, which are no table. */
static void test_ids(const model *m, const char *path, int32_t ids[TEST]) {
  embed_tensor_info info = {.size = sizeof info};
  int64_t i = -1;
  assert_int_equal(embed_file_find(m->ctx, m->file, "test", &i), EMBED_OK);
  assert_int_equal(embed_file_tensor(m->ctx, m->file, i, &info), EMBED_OK);
  assert_int_equal(info.bytes, 4 * TEST);
  FILE *f = fopen(path, "rbe");
  assert_true(f && !fseek(f, (long)info.offset, SEEK_SET));
  assert_int_equal(fread(ids, 4, TEST, f), TEST);
  test_file_order(ids, TEST);
  fclose(f);
}

static float *hidden_states(const model *m, const int32_t *ids) {
  float *weights = floats_of(m, role_of(m, EMBED_ROLE_POSITION)), *hidden = calloc((size_t)PLACES * DIM, sizeof *hidden), row[DIM];
  assert_non_null(hidden);
  for (int64_t i = 0; i < PLACES; ++i)
    for (int64_t k = 0; k < CONTEXT; ++k) {
      const int32_t id = ids[i + CONTEXT - k - 1];
      assert_int_equal(embed_lookup(m->ctx, m->table, &id, 1, row, EMBED_F32, 0, NULL), EMBED_OK);
      for (int64_t j = 0; j < DIM; ++j) hidden[i * DIM + j] += weights[k * DIM + j] * row[j];
    }
  free(weights);
  return hidden;
}

static void log_bilinear(const char *name, int tied, double loss, int top1, int top10, double first_lse) {
  static int32_t ids[TEST], best[PLACES * 10];
  static float losses[PLACES], lse[PLACES], logits[PLACES * 10];
  char path[8192];
  model m;
  if (!open_model(&m, name)) {
    skip();
    return;
  }
  snprintf(path, sizeof path, "%s/%s", test_shared(TEST_SOURCE_DIR), name);
  assert_string_equal(name_of(&m, EMBED_ROLE_TOKEN), "E");
  assert_string_equal(name_of(&m, EMBED_ROLE_HEAD), tied ? "E" : "O");
  assert_string_equal(name_of(&m, EMBED_ROLE_HEAD_BIAS), "b");
  assert_string_equal(name_of(&m, EMBED_ROLE_POSITION), "C");
  assert_non_null(strstr(embed_file_notes(m.file), "positions \"C\": token rows are multiplied by them, not added"));
  assert_string_equal(name_of(&m, EMBED_ROLE_NORM), "none");
  assert_int_equal(embed_head_is_tied(m.head, m.table), tied);
  assert_int_equal(embed_table_rows(m.table), VOCAB);
  assert_string_equal(embed_file_token(m.file, 0, NULL), "<unk>"); /* vocab.txt has a line for each row */
  test_ids(&m, path, ids);
  float *hidden = hidden_states(&m, ids);
  const int32_t *targets = ids + CONTEXT;
  assert_int_equal(embed_cross_entropy(m.ctx, m.head, hidden, EMBED_F32, PLACES, 0, targets, losses, lse, NULL), EMBED_OK);
  assert_int_equal(embed_topk(m.ctx, m.head, hidden, EMBED_F32, PLACES, 0, 10, best, logits, NULL, NULL, NULL), EMBED_OK);
  double sum = 0;
  int first = 0, among = 0;
  for (int i = 0; i < PLACES; ++i) {
    sum += (double)losses[i];
    first += best[10 * i] == targets[i];
    for (int k = 0; k < 10; ++k) among += best[10 * i + k] == targets[i];
  }
  if (fabs(sum / PLACES - loss) > 2e-6 || abs(first - top1) > 1 || abs(among - top10) > 1 || fabs((double)lse[0] - first_lse) > 2e-6)
    fail_msg("%s: loss %.9f, top 1 %d, top 10 %d, first logsumexp %.7f", name, sum / PLACES, first, among, (double)lse[0]);
  free(hidden);
  close_model(&m);
}

static void a_tied_log_bilinear_model_has_its_losses(void **state) {
  (void)state;
  log_bilinear("lbl/tied.npz", 1, 5.140299212, 572, 1826, 0.868483);
}

static void an_untied_log_bilinear_model_has_its_losses(void **state) {
  (void)state;
  log_bilinear("lbl/untied.npz", 0, 4.759696158, 736, 2039, 0.610627);
}

/* --- Graphemes to phonemes: two recurrent nets around a table and an untied head */

enum { WIDE = 256, START = 2, STOP = 3, PHONEMES = 74, LONGEST = 20 };

static const char *const phonemes[PHONEMES] = {"<pad>", "<unk>", "<s>", "</s>", "AA0", "AA1", "AA2", "AE0", "AE1", "AE2", "AH0", "AH1", "AH2", "AO0", "AO1",
                                               "AO2",   "AW0",   "AW1", "AW2",  "AY0", "AY1", "AY2", "B",   "CH",  "D",   "DH",  "EH0", "EH1", "EH2", "ER0",
                                               "ER1",   "ER2",   "EY0", "EY1",  "EY2", "F",   "G",   "HH",  "IH0", "IH1", "IH2", "IY0", "IY1", "IY2", "JH",
                                               "K",     "L",     "M",   "N",    "NG",  "OW0", "OW1", "OW2", "OY0", "OY1", "OY2", "P",   "R",   "S",   "SH",
                                               "T",     "TH",    "UH0", "UH1",  "UH2", "UW",  "UW0", "UW1", "UW2", "V",   "W",   "Y",   "Z",   "ZH"};

typedef struct net {
  float *input, *state, *input_bias, *state_bias; /* [3 WIDE, WIDE] twice, [3 WIDE] twice */
} net;

static net net_of(const model *m, const char *side) {
  char name[4][16];
  for (int i = 0; i < 4; ++i) snprintf(name[i], sizeof name[i], "%s_%s", side, i == 0 ? "w_ih" : i == 1 ? "w_hh" : i == 2 ? "b_ih" : "b_hh");
  return (net){floats_named(m, name[0]), floats_named(m, name[1]), floats_named(m, name[2]), floats_named(m, name[3])};
}

static void net_free(net *n) {
  free(n->input);
  free(n->state);
  free(n->input_bias);
  free(n->state_bias);
}

static double gate(const float *weights, const float *bias, int row, const float *x) {
  double sum = (double)bias[row];
  for (int j = 0; j < WIDE; ++j) sum += (double)weights[row * WIDE + j] * (double)x[j];
  return sum;
}

/* A gated recurrent unit: h becomes (1 - z) n + z h. */
static void step(const net *n, const float *x, float *h) {
  float next[WIDE];
  for (int i = 0; i < WIDE; ++i) {
    const double r = 1 / (1 + exp(-gate(n->input, n->input_bias, i, x) - gate(n->state, n->state_bias, i, h)));
    const double z = 1 / (1 + exp(-gate(n->input, n->input_bias, WIDE + i, x) - gate(n->state, n->state_bias, WIDE + i, h)));
    const double candidate = tanh(gate(n->input, n->input_bias, 2 * WIDE + i, x) + r * gate(n->state, n->state_bias, 2 * WIDE + i, h));
    next[i] = (float)((1 - z) * candidate + z * (double)h[i]);
  }
  memcpy(h, next, sizeof next);
}

static void pronounce(const model *m, const net *reader, const net *speaker, const float *letters, const char *word, char *out, size_t room) {
  float h[WIDE] = {0}, x[WIDE], logit;
  int32_t id = START;
  for (const char *c = word; *c; ++c) step(reader, letters + (*c - 'a' + 3) * WIDE, h); /* behind <pad>, <unk>, </s> */
  step(reader, letters + 2 * WIDE, h);
  out[0] = '\0';
  for (int i = 0; i < LONGEST; ++i) {
    assert_int_equal(embed_lookup(m->ctx, m->table, &id, 1, x, EMBED_F32, 0, NULL), EMBED_OK);
    step(speaker, x, h);
    assert_int_equal(embed_topk(m->ctx, m->head, h, EMBED_F32, 1, 0, 1, &id, &logit, NULL, NULL, NULL), EMBED_OK);
    if (id == STOP) return;
    const size_t used = strlen(out);
    snprintf(out + used, room - used, "%s%s", used ? " " : "", phonemes[id]);
  }
}

static void words_are_pronounced(void **state) {
  (void)state;
  static const char *const words[][2] = {
      {"activationist", "AE2 K T IH0 V EY1 SH AH0 N IH0 S T"}, {"embedding", "EH0 M B EH1 D IH0 NG"}, {"vocabulary", "V OW0 K AE1 B Y AH0 L EH2 R IY0"}};
  char said[256];
  model m;
  if (!open_model(&m, "g2p/checkpoint20.npz")) {
    skip();
    return;
  }
  assert_string_equal(name_of(&m, EMBED_ROLE_TOKEN), "dec_emb");
  assert_string_equal(name_of(&m, EMBED_ROLE_HEAD), "fc_w");
  assert_string_equal(name_of(&m, EMBED_ROLE_HEAD_BIAS), "fc_b");
  assert_int_equal(embed_head_is_tied(m.head, m.table), 0);
  assert_non_null(strstr(embed_file_notes(m.file), ": untied"));
  float *letters = floats_named(&m, "enc_emb");
  net reader = net_of(&m, "enc"), speaker = net_of(&m, "dec");
  for (int i = 0; i < 3; ++i) {
    pronounce(&m, &reader, &speaker, letters, words[i][0], said, sizeof said);
    assert_string_equal(said, words[i][1]);
  }
  net_free(&reader);
  net_free(&speaker);
  free(letters);
  close_model(&m);
}

/* Rows of the head that no training word has as a target stayed near to the mean of all. */
static void phonemes_that_are_never_spoken_lie_near_the_mean(void **state) {
  (void)state;
  static const int want[4] = {65, 0, 2, 1};
  static const double distances[5] = {1.4175, 1.4370, 1.4533, 1.4770, 2.9672};
  double mean[WIDE] = {0}, distance[PHONEMES];
  model m;
  if (!open_model(&m, "g2p/checkpoint20.npz")) {
    skip();
    return;
  }
  float *w = floats_of(&m, role_of(&m, EMBED_ROLE_HEAD));
  for (int i = 0; i < PHONEMES * WIDE; ++i) mean[i % WIDE] += (double)w[i] / PHONEMES;
  for (int i = 0; i < PHONEMES; ++i) {
    distance[i] = 0;
    for (int j = 0; j < WIDE; ++j) distance[i] += ((double)w[i * WIDE + j] - mean[j]) * ((double)w[i * WIDE + j] - mean[j]);
    distance[i] = sqrt(distance[i]);
  }
  for (int k = 0; k < 5; ++k) {
    int nearest = 0;
    for (int i = 0; i < PHONEMES; ++i)
      if (distance[i] < distance[nearest]) nearest = i;
    if (k < 4) assert_int_equal(nearest, want[k]);
    assert_true(fabs(distance[nearest] - distances[k]) < 1e-4);
    distance[nearest] = INFINITY;
  }
  free(w);
  close_model(&m);
}

/* --- llama2.c's stories */

static void a_story_goes_on_as_it_did(void **state) {
  (void)state;
  enum { STEPS = 256, ROWS = 512, COLUMNS = 64 };
  static int32_t best[STEPS], tokens[STEPS + 1];
  static float logits[STEPS], losses[STEPS];
  char path[8192];
  model m, hidden;
  if (!open_model(&m, "stories260k/stories260K.bin")) {
    skip();
    return;
  }
  assert_true(open_model(&hidden, "stories260k/hidden_256x64_f32.npy"));
  assert_string_equal(embed_file_format(m.file), "llama2c");
  assert_int_equal(embed_table_rows(m.table), ROWS);
  assert_int_equal(embed_table_dim(m.table), COLUMNS);
  assert_int_equal(embed_head_is_tied(m.head, m.table), 1);
  float *x = floats_of(&hidden, -1);
  snprintf(path, sizeof path, "%s/stories260k/ids_257_i32.npy", test_shared(TEST_SOURCE_DIR));
  FILE *f = fopen(path, "rbe");
  assert_true(f && !fseek(f, -(long)sizeof tokens, SEEK_END));
  assert_int_equal(fread(tokens, sizeof tokens, 1, f), 1);
  test_file_order(tokens, STEPS + 1);
  fclose(f);
  assert_int_equal(embed_topk(m.ctx, m.head, x, EMBED_F32, STEPS, 0, 1, best, logits, NULL, NULL, NULL), EMBED_OK);
  assert_memory_equal(best, tokens + 1, sizeof best);
  assert_int_equal(embed_cross_entropy(m.ctx, m.head, x, EMBED_F32, STEPS, 0, tokens + 1, losses, NULL, NULL), EMBED_OK);
  double sum = 0;
  for (int i = 0; i < STEPS; ++i) sum += (double)losses[i];
  assert_true(fabs(sum / STEPS - 0.4573461992012454) < 1e-6);
  assert_true(embed_file_token(m.file, ROWS - 1, NULL) != NULL); /* of tok512.bin */
  free(x);
  close_model(&hidden);
  close_model(&m);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_tied_log_bilinear_model_has_its_losses),
      cmocka_unit_test(an_untied_log_bilinear_model_has_its_losses),
      cmocka_unit_test(words_are_pronounced),
      cmocka_unit_test(phonemes_that_are_never_spoken_lie_near_the_mean),
      cmocka_unit_test(a_story_goes_on_as_it_did),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
