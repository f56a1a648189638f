/* SPDX-License-Identifier: BSD-3-Clause */
/* What storing a table in fewer bits costs a real model: the greedy tokens of a small story model with 512 tokens of 64
 * columns, over 256 positions. Read where the data lies beside the checkout. */
#include "test.h"

#include <embed/embed.h>
#include <math.h>

enum { VOCAB = 512, DIM = 64, STEPS = 256 };

typedef struct story {
  embed_context *ctx;
  float *w, *hidden, *exact; /* [VOCAB, DIM], [STEPS, DIM], [STEPS, VOCAB] */
  int32_t tokens[STEPS + 1];
} story;

/* Numbers of 4 bytes: the last `bytes` bytes of the file, or those from `at` on. NULL where there is no such file. */
static void *read_bytes(const char *name, long at, size_t bytes) {
  char path[8192];
  const char *folder = test_shared(TEST_SOURCE_DIR);
  if (!folder) return NULL;
  snprintf(path, sizeof path, "%s/stories260k/%s", folder, name);
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  void *data = malloc(bytes);
  assert_true(data && !fseek(f, at < 0 ? -(long)bytes : at, at < 0 ? SEEK_END : SEEK_SET));
  assert_int_equal(fread(data, 1, bytes, f), bytes);
  test_file_order(data, bytes / 4);
  fclose(f);
  return data;
}

static void logits_of(const story *s, const embed_table *t, float *z) {
  embed_head *h = NULL;
  assert_int_equal(embed_head_create(s->ctx, t, NULL, NULL, &h), EMBED_OK);
  assert_int_equal(embed_logits(s->ctx, h, s->hidden, EMBED_F32, STEPS, 0, z, 0, NULL), EMBED_OK);
  embed_head_release(h);
}

static int open_story(story *s) {
  memset(s, 0, sizeof *s);
  s->w = read_bytes("stories260K.bin", 28, sizeof(float) * VOCAB * DIM);
  s->hidden = read_bytes("hidden_256x64_f32.npy", -1, sizeof(float) * STEPS * DIM);
  int32_t *tokens = read_bytes("ids_257_i32.npy", -1, sizeof s->tokens);
  if (tokens) memcpy(s->tokens, tokens, sizeof s->tokens);
  int there = s->w && s->hidden && tokens;
  free(tokens);
  if (!there) return 0;
  embed_table *t = NULL;
  assert_int_equal(embed_context_create(NULL, &s->ctx), EMBED_OK);
  s->exact = malloc(sizeof(float) * STEPS * VOCAB);
  assert_non_null(s->exact);
  assert_int_equal(embed_table_view(s->ctx, s->w, VOCAB, DIM, NULL, NULL, NULL, &t), EMBED_OK);
  logits_of(s, t, s->exact);
  embed_table_release(t);
  return 1;
}

static void close_story(story *s) {
  embed_context_release(s->ctx);
  free(s->w);
  free(s->hidden);
  free(s->exact);
}

typedef struct answer {
  embed_dtype dtype;
  int top1;              /* positions whose greedy token stays */
  double max_difference; /* of a logit */
  double loss;           /* mean negative log-likelihood of the model's own text */
} answer;

static void check(const story *s, const answer *want) {
  static float z[STEPS * VOCAB], best[STEPS], lse[STEPS];
  static int32_t ids[STEPS];
  embed_table_options o = {.size = sizeof o, .dtype = want->dtype};
  embed_table *f = NULL, *t = NULL;
  embed_head *h = NULL;
  assert_int_equal(embed_table_view(s->ctx, s->w, VOCAB, DIM, NULL, NULL, NULL, &f), EMBED_OK);
  assert_int_equal(embed_table_convert(s->ctx, f, &o, &t), EMBED_OK);
  assert_int_equal(embed_head_create(s->ctx, t, NULL, NULL, &h), EMBED_OK);
  assert_int_equal(embed_topk(s->ctx, h, s->hidden, EMBED_F32, STEPS, 0, 1, ids, best, lse, NULL, NULL), EMBED_OK);
  logits_of(s, t, z);
  int kept = 0;
  double difference = 0, loss = 0;
  for (int i = 0; i < STEPS; ++i) {
    kept += ids[i] == s->tokens[i + 1];
    loss += ((double)lse[i] - (double)z[i * VOCAB + s->tokens[i + 1]]) / STEPS;
    for (int v = 0; v < VOCAB; ++v) { /* a loop of fmax() crashes gcc 12 for aarch64 */
      const double error = fabs((double)z[i * VOCAB + v] - (double)s->exact[i * VOCAB + v]);
      if (!(error <= difference)) difference = error;
    }
  }
  const char *name = embed_dtype_name(want->dtype);
  if (abs(kept - want->top1) > 1) fail_msg("%s: %d of 256 tokens stay, not %d", name, kept, want->top1);
  if (fabs(difference - want->max_difference) > 1e-4) fail_msg("%s: a logit is off by %.5f, not %.4f", name, difference, want->max_difference);
  if (fabs(loss - want->loss) > 2e-6) fail_msg("%s: a loss of %.7f, not %.6f", name, loss, want->loss);
  embed_head_release(h);
  embed_table_release(t);
  embed_table_release(f);
}

static void a_story_model_keeps_its_tokens(void **state) {
  (void)state;
  static const answer answers[] = {{EMBED_F32, 256, 0, 0.4573462},        {EMBED_BF16, 255, 0.0379, 0.457135}, {EMBED_F16, 256, 0.0043, 0.457353},
                                   {EMBED_I8_ROW, 256, 0.1548, 0.459037}, {EMBED_Q8_0, 254, 0.1462, 0.458420}, {EMBED_Q4_0, 242, 2.3793, 0.468362}};
  story s;
  if (!open_story(&s)) {
    close_story(&s);
    skip();
    return;
  }
  for (size_t i = 0; i < sizeof answers / sizeof *answers; ++i) check(&s, &answers[i]);
  close_story(&s);
}

/* More bits lose less: the other forms stand where their widths put them. */
static void forms_of_more_bits_lose_less(void **state) {
  (void)state;
  static const embed_dtype order[] = {EMBED_Q4_0, EMBED_Q5_0, EMBED_Q8_0};
  story s;
  if (!open_story(&s)) {
    close_story(&s);
    skip();
    return;
  }
  static float z[STEPS * VOCAB];
  double before = INFINITY;
  for (size_t i = 0; i < sizeof order / sizeof *order; ++i) {
    embed_table_options o = {.size = sizeof o, .dtype = order[i]};
    embed_table *f = NULL, *t = NULL;
    double squares = 0;
    assert_int_equal(embed_table_view(s.ctx, s.w, VOCAB, DIM, NULL, NULL, NULL, &f), EMBED_OK);
    assert_int_equal(embed_table_convert(s.ctx, f, &o, &t), EMBED_OK);
    logits_of(&s, t, z);
    for (int k = 0; k < STEPS * VOCAB; ++k) squares += ((double)z[k] - (double)s.exact[k]) * ((double)z[k] - (double)s.exact[k]);
    assert_true(squares < before / 2);
    before = squares;
    embed_table_release(t);
    embed_table_release(f);
  }
  close_story(&s);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_story_model_keeps_its_tokens),
      cmocka_unit_test(forms_of_more_bits_lose_less),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
