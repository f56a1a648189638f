/* SPDX-License-Identifier: BSD-3-Clause */
/* config.json beside a safetensors file: conventions by family, what it says against what the file holds, and that a broken one never
 * makes a good file fail. */
#include "writing.h"

#include <math.h>

enum { ROWS = 5, DIM = 8 };

/* The folder holds a.safetensors with the named tensors: "t" [rows, dim], "h" an own head of other numbers, "e" one of equal ones. */
static void make_model(embed_context *ctx, embed_dtype dtype, const char *tensors) {
  embed_table *t = some_table(ctx, ROWS, DIM, dtype, 0, 1), *other = some_table(ctx, ROWS, DIM, dtype, 0, 2);
  fresh_folder();
  embed_writer *w = new_writer(ctx, in_folder("a.safetensors"), NULL);
  if (strchr(tensors, 't')) done(ctx, embed_writer_table(ctx, w, "model.embed_tokens.weight", t, NULL));
  if (strchr(tensors, 'h')) done(ctx, embed_writer_table(ctx, w, "lm_head.weight", other, NULL));
  if (strchr(tensors, 'e')) done(ctx, embed_writer_table(ctx, w, "lm_head.weight", t, NULL));
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  embed_table_release(t);
  embed_table_release(other);
}

static void put_config(const char *text, size_t bytes) {
  (void)unlink(in_folder("config.json")); /* ext4 writes a truncated file out at its close */
  FILE *out = fopen(in_folder("config.json"), "wbe");
  assert_non_null(out);
  assert_int_equal(fwrite(text, 1, bytes, out), bytes);
  assert_int_equal(fclose(out), 0);
}

static embed_conventions conventions(embed_context *ctx, const embed_file *f) {
  embed_conventions c = {.size = sizeof c};
  done(ctx, embed_file_conventions(ctx, f, &c));
  return c;
}

static const embed_conventions neutral = {.size = sizeof neutral, .lookup_scale = 1, .logit_scale = 1};

static void conventions_are(embed_context *ctx, const embed_file *f, const embed_conventions *want, const char *of) {
  embed_conventions c = conventions(ctx, f);
  if (c.lookup_scale != want->lookup_scale || c.scale_round != want->scale_round || c.logit_scale != want->logit_scale ||
      c.logit_softcap != want->logit_softcap || c.norm_epsilon != want->norm_epsilon || c.norm_flags != want->norm_flags)
    fail_msg("%s: scale %g rounded to %d, logits %g, cap %g, epsilon %g, flags %d", of, (double)c.lookup_scale, c.scale_round, (double)c.logit_scale,
             (double)c.logit_softcap, (double)c.norm_epsilon, c.norm_flags);
}

#define SQRT8       2.82842708f /* float32 */
#define PLUS_ONE    EMBED_NORM_PLUS_ONE
#define LAYER       EMBED_NORM_LAYER
#define BF16_SCALED .lookup_scale = SQRT8, .scale_round = EMBED_BF16

static void each_family_has_its_conventions(void **state) {
  (void)state;
  static const struct {
    const char *config;
    embed_conventions want;
  } cases[] = {
      {"{\"model_type\":\"llama\",\"rms_norm_eps\":1e-5}", {.lookup_scale = 1, .logit_scale = 1, .norm_epsilon = 1e-5f}},
      {"{\"model_type\":\"gemma\",\"rms_norm_eps\":1e-06}", {BF16_SCALED, .logit_scale = 1, .norm_epsilon = 1e-6f, .norm_flags = PLUS_ONE}},
      {"{\"model_type\":\"gemma2\",\"rms_norm_eps\":1e-6,\"final_logit_softcapping\":30.0,\"hidden_size\":8}",
       {BF16_SCALED, .logit_scale = 1, .logit_softcap = 30, .norm_epsilon = 1e-6f, .norm_flags = PLUS_ONE}},
      {"{\"model_type\":\"gemma3_text\",\"final_logit_softcapping\":null}", {BF16_SCALED, .logit_scale = 1, .norm_flags = PLUS_ONE}},
      {"{\"model_type\":\"gemma3\",\"hidden_size\":99,\"text_config\":{\"model_type\":\"gemma3_text\",\"hidden_size\":8,\"rms_norm_eps\":1e-6},"
       "\"vision_config\":{\"hidden_size\":1152,\"layer_norm_eps\":0.5}}",
       {BF16_SCALED, .logit_scale = 1, .norm_epsilon = 1e-6f, .norm_flags = PLUS_ONE}},
      {"{\"model_type\":\"gemma3n_text\",\"rms_norm_eps\":1e-6}", {BF16_SCALED, .logit_scale = 1, .norm_epsilon = 1e-6f}},
      {"{\"architectures\":[\"Gemma2ForCausalLM\"]}", {BF16_SCALED, .logit_scale = 1, .norm_flags = PLUS_ONE}},
      {"{\"architectures\":[\"GemmaModel\",\"LlamaModel\"]}", {BF16_SCALED, .logit_scale = 1, .norm_flags = PLUS_ONE}},
      {"{\"model_type\":\"granite\",\"embedding_multiplier\":12,\"logits_scaling\":8.0,\"logit_scale\":5}", {.lookup_scale = 12, .logit_scale = 0.125f}},
      {"{\"model_type\":\"granitemoehybrid\",\"embedding_multiplier\":12.0}", {.lookup_scale = 12, .logit_scale = 1}},
      {"{\"model_type\":\"minicpm\",\"scale_emb\":12,\"dim_model_base\":4,\"hidden_size\":8}", {.lookup_scale = 12, .logit_scale = 0.5f}},
      {"{\"model_type\":\"cohere\",\"logit_scale\":0.0625,\"layer_norm_eps\":1e-05}",
       {.lookup_scale = 1, .logit_scale = 0.0625f, .norm_epsilon = 1e-5f, .norm_flags = LAYER}},
      {"{\"model_type\":\"bert\",\"layer_norm_eps\":1e-12}", {.lookup_scale = 1, .logit_scale = 1, .norm_epsilon = 1e-12f, .norm_flags = LAYER}},
      {"{\"model_type\":\"gpt2\",\"layer_norm_epsilon\":1e-5,\"n_embd\":8}", {.lookup_scale = 1, .logit_scale = 1, .norm_epsilon = 1e-5f, .norm_flags = LAYER}},
      {"{\"model_type\":\"starcoder2\",\"norm_epsilon\":1e-5}", {.lookup_scale = 1, .logit_scale = 1, .norm_epsilon = 1e-5f, .norm_flags = LAYER}},
      {"{\"model_type\":\"mamba\",\"layer_norm_epsilon\":1e-5}", {.lookup_scale = 1, .logit_scale = 1, .norm_epsilon = 1e-5f}},
      {"{\"model_type\":\"qwen3_next\",\"rms_norm_eps\":1e-6}", {.lookup_scale = 1, .logit_scale = 1, .norm_epsilon = 1e-6f, .norm_flags = PLUS_ONE}},
      {"{\"model_type\":\"nemotron\",\"norm_eps\":1e-5}", {.lookup_scale = 1, .logit_scale = 1, .norm_epsilon = 1e-5f, .norm_flags = LAYER | PLUS_ONE}},
      {"{\"model_type\":\"t5\",\"d_model\":8,\"layer_norm_epsilon\":1e-6}", {.lookup_scale = 1, .logit_scale = 1 / SQRT8, .norm_epsilon = 1e-6f}},
      {"{\"model_type\":\"t5\",\"tie_word_embeddings\":false}", {.lookup_scale = 1, .logit_scale = 1}},
      /* A family that config.def has not: what no key of its own says stays neutral. */
      {"{\"model_type\":\"llama\",\"logit_scale\":0.5,\"embedding_multiplier\":12,\"norm_eps\":1e-5}", {.lookup_scale = 1, .logit_scale = 1}},
      {"{\"model_type\":\"x\",\"final_logit_softcapping\":15}", {.lookup_scale = 1, .logit_scale = 1, .logit_softcap = 15}},
      /* Numbers that are none, or out of range. */
      {"{\"model_type\":\"granite\",\"embedding_multiplier\":\"12\",\"logits_scaling\":0}", {.lookup_scale = 1, .logit_scale = 1}},
      {"{\"model_type\":\"granite\",\"embedding_multiplier\":-3,\"logits_scaling\":[8]}", {.lookup_scale = 1, .logit_scale = 1}},
      {"{\"model_type\":\"llama\",\"rms_norm_eps\":1e-60,\"final_logit_softcapping\":1e300}", {.lookup_scale = 1, .logit_scale = 1}},
      {"{\"model_type\":[\"gemma\"]}", {.lookup_scale = 1, .logit_scale = 1}},
      {"{\"model_type\":\"gemma\\u0000\"}", {.lookup_scale = 1, .logit_scale = 1}},
      {"{}", {.lookup_scale = 1, .logit_scale = 1}},
  };
  embed_context *ctx = new_context(NULL);
  make_model(ctx, EMBED_BF16, "t");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    put_config(cases[i].config, strlen(cases[i].config));
    embed_file *f = open_file(ctx, in_folder("a.safetensors"), NULL);
    conventions_are(ctx, f, &cases[i].want, cases[i].config);
    embed_conventions c = conventions(ctx, f);
    c.size = sizeof neutral;
    assert_int_equal(strstr(embed_file_notes(f), "those of config.json") != NULL, memcmp(&c, &neutral, sizeof c) != 0);
    embed_file_release(f);
  }
  remove_folder();
  embed_context_release(ctx);
}

/* Gemma's rows of floats are not rounded, those of the file's type are; and the head of the file takes its soft-cap from there. */
static void the_scale_is_rounded_to_the_type_of_the_rows(void **state) {
  (void)state;
  static const embed_dtype dtypes[] = {EMBED_F32, EMBED_F16, EMBED_BF16, EMBED_F64};
  static const char config[] = "{\"model_type\":\"gemma2\",\"final_logit_softcapping\":30.0}";
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 4; ++i) {
    embed_head *h = NULL;
    embed_head_info info = {.size = sizeof info};
    make_model(ctx, dtypes[i], "t");
    put_config(config, sizeof config - 1);
    embed_file *f = open_file(ctx, in_folder("a.safetensors"), NULL);
    assert_int_equal(conventions(ctx, f).scale_round, dtypes[i] == EMBED_F64 ? EMBED_F32 : dtypes[i]);
    if (dtypes[i] != EMBED_F64) {
      done(ctx, embed_file_head(ctx, f, NULL, NULL, &h));
      done(ctx, embed_head_describe(ctx, h, &info));
      assert_true(info.logit_softcap == 30);
      embed_head_release(h);
    }
    embed_file_release(f);
  }
  remove_folder();
  embed_context_release(ctx);
}

static void what_the_file_holds_decides_and_conflicts_are_noted(void **state) {
  (void)state;
  static const struct {
    const char *tensors, *config;
    int tied;
    const char *note; /* NULL = nothing of config.json */
  } cases[] = {
      {"th", "{\"tie_word_embeddings\":true}", 0, "config.json says tie_word_embeddings true, the file holds a head that is not the table: untied"},
      {"th", "{\"tie_word_embeddings\":false}", 0, NULL},
      {"th", "{\"tie_word_embeddings\":false,\"text_config\":{\"tie_word_embeddings\":true}}", 0, "says tie_word_embeddings true"},
      {"th", "{\"tie_word_embeddings\":1}", 0, NULL},
      {"te", "{\"tie_word_embeddings\":false}", 1, "config.json says tie_word_embeddings false, the file's head equals its table: tied"},
      {"te", "{\"tie_word_embeddings\":true}", 1, NULL},
      {"t", "{\"tie_word_embeddings\":false}", 1, "config.json says tie_word_embeddings false, the file holds one table for both ends: tied"},
      {"t", "{\"tie_word_embeddings\":true,\"vocab_size\":5}", 1, NULL},
      {"t", "{\"vocab_size\":4}", 1, "config.json says vocab_size 4, \"model.embed_tokens.weight\" has 5 rows: the rows count"},
      {"t", "{\"vocab_size\":9,\"text_config\":{\"vocab_size\":5}}", 1, NULL},
      {"t", "{\"model_type\":\"gemma\",\"hidden_size\":16,\"vocab_size\":4}", 1,
       "config.json says a hidden size of 16, \"model.embed_tokens.weight\" has 8 columns: it is another model's and not used"},
      {"t", "{\"hidden_size\":16,\"embedding_size\":8}", 1, NULL},
  };
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    int64_t table = -1, head = -1;
    make_model(ctx, EMBED_F32, cases[i].tensors);
    put_config(cases[i].config, strlen(cases[i].config));
    embed_file *f = open_file(ctx, in_folder("a.safetensors"), NULL);
    done(ctx, embed_file_role(ctx, f, EMBED_ROLE_TOKEN, &table));
    done(ctx, embed_file_role(ctx, f, EMBED_ROLE_HEAD, &head));
    assert_int_equal(table == head, cases[i].tied);
    const char *said = strstr(embed_file_notes(f), "config.json");
    if (!said != !cases[i].note || (said && !strstr(said, cases[i].note))) fail_msg("%s: %s", cases[i].config, embed_file_notes(f));
    if (said) assert_null(strstr(said + 1, "config.json")); /* once */
    conventions_are(ctx, f, &neutral, cases[i].config);
    embed_table *t = open_table(ctx, f);
    assert_int_equal(embed_table_vocab(t), ROWS);
    embed_table_release(t);
    embed_file_release(f);
  }
  remove_folder();
  embed_context_release(ctx);
}

/* The file opens, nothing is taken from the config, and the notes say why. */
static void not_used(embed_context *ctx, const char *why) {
  embed_file *f = open_file(ctx, in_folder("a.safetensors"), NULL);
  assert_int_equal(embed_error_at(ctx), -1);
  if (!strstr(embed_file_notes(f), why) || !strstr(embed_file_notes(f), ": it is not used")) fail_msg("%s", embed_file_notes(f));
  conventions_are(ctx, f, &neutral, why);
  embed_file_release(f);
}

static void a_broken_config_is_noted_and_not_used(void **state) {
  (void)state;
  static const struct {
    const char *config, *why;
  } cases[] = {
      {"{\"model_type\":\"gemma\"", "config.json: "},
      {"{\"model_type\":\"gemma\",\"model_type\":\"gemma2\"}", "config.json: "},
      {"{\"model_type\":\"gemma\"} x", "config.json: "},
      {"[{\"model_type\":\"gemma\"}]", "config.json: the JSON should have an object at byte 0"},
      {"{\"model_type\":\"gemma\",\"limit\":[0,Infinity]}", "config.json: "},
      {"{\"model_type\":\"gemma\",\"x\":\"\xFF\"}", "config.json: "},
      {"version https://git-lfs.github.com/spec/v1\n", "config.json: "},
  };
  static char deep[200001], large[(1 << 20) + 1];
  embed_context *ctx = new_context(NULL);
  make_model(ctx, EMBED_BF16, "t");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    put_config(cases[i].config, strlen(cases[i].config));
    not_used(ctx, cases[i].why);
  }
  memset(deep, '[', sizeof deep - 1);
  memcpy(deep, "{\"model_type\":\"gemma\",\"x\":", 26);
  put_config(deep, sizeof deep - 1);
  not_used(ctx, "config.json: ");
  memset(large, ' ', sizeof large);
  memcpy(large, "{\"model_type\":\"gemma\"}", 22);
  put_config(large, sizeof large);
  not_used(ctx, "config.json: it has more than 1048576 bytes");
  put_config(large, sizeof large - 1);
  embed_file *f = open_file(ctx, in_folder("a.safetensors"), NULL);
  assert_true(conventions(ctx, f).lookup_scale == SQRT8);
  embed_file_release(f);
  put_config("", 0);
  not_used(ctx, "config.json: the file is empty");
  assert_int_equal(unlink(in_folder("config.json")), 0);
  assert_int_equal(mkdir(in_folder("config.json"), 0700), 0);
  not_used(ctx, "config.json: a directory is no regular file");
  assert_int_equal(rmdir(in_folder("config.json")), 0);
  assert_int_equal(mkfifo(in_folder("config.json"), 0600), 0); /* it would wait for a writer */
  not_used(ctx, "config.json: a FIFO is no regular file");
  assert_int_equal(unlink(in_folder("config.json")), 0);
  assert_int_equal(symlink("nowhere", in_folder("config.json")), 0); /* nothing is there */
  f = open_file(ctx, in_folder("a.safetensors"), NULL);
  assert_null(strstr(embed_file_notes(f), "config.json"));
  embed_file_release(f);
  remove_folder();
  embed_context_release(ctx);
}

/* Any byte of it changed: the file opens. */
static void no_change_of_a_config_makes_a_file_fail(void **state) {
  (void)state;
  static const char good[] =
      "{\"architectures\":[\"Gemma2ForCausalLM\"],\"text_config\":{\"model_type\":\"gemma2\",\"x\":[1,{}]},\"vocab_size\":5,\"tie_word_embeddings\":true}";
  static const char values[] = "\x01\xff \"',-019:[]{}\\eEnulx";
  char bad[sizeof good];
  embed_context *ctx = new_context(NULL);
  make_model(ctx, EMBED_BF16, "t");
  for (size_t i = 0; i < sizeof good - 1; ++i)
    for (size_t v = 0; v < sizeof values; ++v) {
      memcpy(bad, good, sizeof good);
      bad[i] = values[v];
      put_config(bad, v == 0 ? i : sizeof good - 1); /* cut short, too */
      embed_file *f = open_file(ctx, in_folder("a.safetensors"), NULL);
      (void)conventions(ctx, f);
      embed_file_release(f);
    }
  remove_folder();
  embed_context_release(ctx);
}

static void every_failed_allocation_is_clean(void **state) {
  (void)state;
  static const char config[] = "{\"model_type\":\"gemma2\",\"tie_word_embeddings\":false,\"vocab_size\":4,\"a\":{\"b\":1}}";
  embed_context *plain = new_context(NULL);
  make_model(plain, EMBED_BF16, "t");
  embed_context_release(plain);
  put_config(config, sizeof config - 1);
  for (int64_t k = 1;; ++k) {
    counting c = {.fail_at = 0};
    embed_context *ctx = counting_context(&c);
    embed_file *f = NULL;
    c.fail_at = c.calls + k;
    embed_status status = embed_file_open(ctx, in_folder("a.safetensors"), NULL, &f);
    int whole = c.calls < c.fail_at;
    if (f) assert_true(conventions(ctx, f).lookup_scale == SQRT8);
    embed_file_release(f);
    embed_context_release(ctx);
    assert_int_equal(c.blocks, 0);
    assert_int_equal(status, whole ? EMBED_OK : EMBED_E_MEMORY);
    if (whole) break;
    assert_true(k < 50);
  }
  remove_folder();
}

/* The index of shards takes it too; formats that say of themselves what they are do not, and neither do those of plain vectors. */
static void it_belongs_to_safetensors_and_their_index_alone(void **state) {
  (void)state;
  static const char config[] = "{\"model_type\":\"gemma\"}", index[] = "{\"weight_map\":{\"model.embed_tokens.weight\":\"a.safetensors\"}}";
  static const char *const others[] = {"a.embed", "a.npy"};
  embed_context *ctx = new_context(NULL);
  make_model(ctx, EMBED_F16, "t");
  put_config(config, sizeof config - 1);
  FILE *out = fopen(in_folder("model.safetensors.index.json"), "wbe");
  assert_non_null(out);
  assert_int_equal(fwrite(index, 1, sizeof index - 1, out), sizeof index - 1);
  assert_int_equal(fclose(out), 0);
  embed_file *f = open_file(ctx, in_folder("model.safetensors.index.json"), NULL);
  assert_string_equal(embed_file_format(f), "safetensors-index");
  assert_true(conventions(ctx, f).lookup_scale == SQRT8);
  embed_table *t = open_table(ctx, f);
  for (int i = 0; i < 2; ++i) {
    embed_writer *w = new_writer(ctx, in_folder(others[i]), NULL);
    done(ctx, embed_writer_table(ctx, w, "model.embed_tokens.weight", t, NULL));
    done(ctx, embed_writer_commit(ctx, w));
    embed_writer_release(w);
    embed_file *other = open_file(ctx, in_folder(others[i]), NULL);
    conventions_are(ctx, other, &neutral, others[i]);
    embed_file_release(other);
  }
  embed_table_release(t);
  embed_file_release(f);
  remove_folder();
  embed_context_release(ctx);
}

/* What `embed convert` leaves in the metadata of safetensors comes before a config.json that lies there by chance; so does an architecture. */
static void a_converted_file_says_its_conventions_itself(void **state) {
  (void)state;
  static const struct {
    const char *pairs[12]; /* key, value, ... */
    embed_conventions want;
  } cases[] = {
      {{"embed.lookup_scale", "5.5", "embed.scale_round", "bf16", "embed.logit_scale", "0.125", "embed.logit_softcap", "30", "embed.norm_epsilon", "1e-06",
        "embed.norm_flags", "3"},
       {.lookup_scale = 5.5f, .scale_round = EMBED_BF16, .logit_scale = 0.125f, .logit_softcap = 30, .norm_epsilon = 1e-6f, .norm_flags = LAYER | PLUS_ONE}},
      {{"embed.lookup_scale", "1", "embed.norm_flags", "4", "embed.logit_softcap", "-1", "embed.scale_round", "f64"}, {.lookup_scale = 1, .logit_scale = 1}},
      {{"embed.logit_scale", "2", "embed.lookup_scale", "inf", "embed.norm_epsilon", "1e-6x"}, {.lookup_scale = 1, .logit_scale = 2}},
      {{"general.architecture", "granite", "granite.logit_scale", "8.0", "granite.attention.layer_norm_rms_epsilon", "1e-05"},
       {.lookup_scale = 1, .logit_scale = 0.125f, .norm_epsilon = 1e-5f}},
      {{"embed.lookup_scale", "0", "other", "1"}, {BF16_SCALED, .logit_scale = 1, .norm_flags = PLUS_ONE}}, /* the config's */
  };
  static const char config[] = "{\"model_type\":\"gemma\"}";
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    embed_table *t = some_table(ctx, ROWS, DIM, EMBED_BF16, 0, 1);
    fresh_folder();
    put_config(config, sizeof config - 1);
    embed_writer *w = new_writer(ctx, in_folder("a.safetensors"), NULL);
    done(ctx, embed_writer_table(ctx, w, "model.embed_tokens.weight", t, NULL));
    for (int k = 0; k < 12 && cases[i].pairs[k]; k += 2)
      done(ctx, embed_writer_metadata(ctx, w, cases[i].pairs[k], cases[i].pairs[k + 1], (int64_t)strlen(cases[i].pairs[k + 1])));
    done(ctx, embed_writer_commit(ctx, w));
    embed_writer_release(w);
    embed_file *f = open_file(ctx, in_folder("a.safetensors"), NULL);
    conventions_are(ctx, f, &cases[i].want, cases[i].pairs[0]);
    embed_file_release(f);
    embed_table_release(t);
  }
  remove_folder();
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_family_has_its_conventions),
    cmocka_unit_test(the_scale_is_rounded_to_the_type_of_the_rows),
    cmocka_unit_test(what_the_file_holds_decides_and_conflicts_are_noted),
    cmocka_unit_test(a_broken_config_is_noted_and_not_used),
    cmocka_unit_test(no_change_of_a_config_makes_a_file_fail),
    cmocka_unit_test(every_failed_allocation_is_clean),
    cmocka_unit_test(it_belongs_to_safetensors_and_their_index_alone),
    cmocka_unit_test(a_converted_file_says_its_conventions_itself),
};
TEST_MAIN(tests)
