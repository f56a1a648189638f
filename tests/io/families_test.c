/* SPDX-License-Identifier: BSD-3-Clause */
/* Which tensor of which family has which role, by the names that its makers give; tables beside the token table: rows of layers, of
 * n-grams. */
#include "writing.h"

enum { MOST = 8, ALL_ROLES = EMBED_ROLE_NGRAM + 1 };

typedef struct family {
  const char *of, *path; /* its name for messages; the file that holds it */
  struct {
    const char *name;
    int64_t rows, dim;
  } tensors[MOST];
  const char *roles[ALL_ROLES]; /* the tensors' names, NULL = none; HEAD NULL = tied */
  const char *note;             /* or NULL */
} family;

static embed_file *make(embed_context *ctx, const family *f) {
  fresh_folder();
  embed_writer *w = new_writer(ctx, in_folder(f->path), NULL);
  for (int i = 0; i < MOST && f->tensors[i].name; ++i) {
    embed_table *t = some_table(ctx, f->tensors[i].rows, f->tensors[i].dim, EMBED_F32, 0, (uint64_t)i + 1);
    done(ctx, embed_writer_table(ctx, w, f->tensors[i].name, t, NULL));
    embed_table_release(t);
  }
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  return open_file(ctx, in_folder(f->path), NULL);
}

static const char *name_of(embed_context *ctx, const embed_file *f, embed_role role) {
  embed_tensor_info info = {.size = sizeof info};
  int64_t i = -1;
  done(ctx, embed_file_role(ctx, f, role, &i));
  if (i < 0) return "none";
  done(ctx, embed_file_tensor(ctx, f, i, &info));
  return info.name;
}

static void has_its_roles(embed_context *ctx, const embed_file *file, const family *f) {
  for (embed_role role = EMBED_ROLE_TOKEN; role < ALL_ROLES; ++role) {
    const char *want = f->roles[role] ? f->roles[role] : role == EMBED_ROLE_HEAD ? f->roles[EMBED_ROLE_TOKEN] : "none", *got = name_of(ctx, file, role);
    if (strcmp(got, want) != 0) fail_msg("%s: role %d is %s, not %s: %s", f->of, role, got, want, embed_file_notes(file));
  }
  if (f->note && !strstr(embed_file_notes(file), f->note)) fail_msg("%s: %s", f->of, embed_file_notes(file));
}

#define TOKEN     [EMBED_ROLE_TOKEN]
#define HEAD      [EMBED_ROLE_HEAD]
#define BIAS      [EMBED_ROLE_HEAD_BIAS]
#define POSITION  [EMBED_ROLE_POSITION]
#define NORM      [EMBED_ROLE_NORM]
#define NORM_BIAS [EMBED_ROLE_NORM_BIAS]
#define PER_LAYER [EMBED_ROLE_PER_LAYER]
#define NGRAM     [EMBED_ROLE_NGRAM]
#define FILE_OF   "a.safetensors"

static void each_family_is_known_by_its_names(void **state) {
  (void)state;
  static const family families[] = {
      {"log-bilinear, tied",
       "a.npz",
       {{"E", 7, 4}, {"C", 3, 4}, {"b", 1, 7}},
       {TOKEN = "E", BIAS = "b", POSITION = "C"},
       "positions \"C\": token rows are multiplied by them, not added"},
      {"log-bilinear, untied",
       "a.npz",
       {{"O", 7, 4}, {"b", 1, 7}, {"E", 7, 4}, {"C", 3, 4}},
       {TOKEN = "E", HEAD = "O", BIAS = "b", POSITION = "C"},
       ": untied"},
      {"graphemes to phonemes",
       "a.npz",
       {{"enc_emb", 9, 4}, {"dec_emb", 7, 4}, {"dec_w_ih", 12, 4}, {"fc_w", 7, 4}, {"fc_b", 1, 7}},
       {TOKEN = "dec_emb", HEAD = "fc_w", BIAS = "fc_b"},
       ": untied"},
      /* Short names prove nothing by themselves: of another shape, or without the table that they go with. */
      {"strangers", "a.npz", {{"E", 7, 4}, {"O", 7, 5}, {"C", 3, 5}, {"b", 1, 6}}, {TOKEN = "E"}, NULL},
      {"others", "a.npz", {{"W", 9, 4}, {"O", 7, 4}, {"b", 1, 7}, {"C", 3, 4}}, {TOKEN = "W"}, "token table \"W\": the largest matrix; no name tells it"},
      {"word_language_model",
       FILE_OF,
       {{"encoder.weight", 7, 4}, {"rnn.weight_ih_l0", 16, 4}, {"decoder.weight", 7, 4}, {"decoder.bias", 1, 7}},
       {TOKEN = "encoder.weight", HEAD = "decoder.weight", BIAS = "decoder.bias"},
       NULL},
      {"XLNet",
       FILE_OF,
       {{"transformer.word_embedding.weight", 7, 4}, {"lm_loss.weight", 7, 4}, {"lm_loss.bias", 1, 7}},
       {TOKEN = "transformer.word_embedding.weight", HEAD = "lm_loss.weight", BIAS = "lm_loss.bias"},
       NULL},
      {"XLM",
       FILE_OF,
       {{"transformer.embeddings.weight", 7, 4}, {"pred_layer.proj.weight", 7, 4}, {"pred_layer.proj.bias", 1, 7}},
       {TOKEN = "transformer.embeddings.weight", HEAD = "pred_layer.proj.weight", BIAS = "pred_layer.proj.bias"},
       NULL},
      {"GPT",
       FILE_OF,
       {{"transformer.positions_embed.weight", 9, 4}, {"transformer.tokens_embed.weight", 7, 4}},
       {TOKEN = "transformer.tokens_embed.weight", POSITION = "transformer.positions_embed.weight"},
       NULL},
      {"CLIP",
       FILE_OF,
       {{"text_model.embeddings.position_embedding.weight", 9, 4},
        {"text_model.embeddings.token_embedding.weight", 7, 4},
        {"vision_model.embeddings.position_embedding.weight", 9, 6}},
       {TOKEN = "text_model.embeddings.token_embedding.weight", POSITION = "text_model.embeddings.position_embedding.weight"},
       NULL},
      {"ChatGLM",
       FILE_OF,
       {{"transformer.embedding.word_embeddings.weight", 7, 4},
        {"transformer.output_layer.weight", 7, 4},
        {"transformer.encoder.final_layernorm.weight", 1, 4}},
       {TOKEN = "transformer.embedding.word_embeddings.weight", HEAD = "transformer.output_layer.weight", NORM = "transformer.encoder.final_layernorm.weight"},
       NULL},
      {"OLMo",
       FILE_OF,
       {{"model.transformer.wte.weight", 7, 4}, {"model.transformer.ff_out.weight", 7, 4}},
       {TOKEN = "model.transformer.wte.weight", HEAD = "model.transformer.ff_out.weight"},
       NULL},
      {"gpt-oss",
       FILE_OF,
       {{"embedding.weight", 7, 4}, {"unembedding.weight", 7, 4}, {"norm.scale", 1, 4}},
       {TOKEN = "embedding.weight", HEAD = "unembedding.weight", NORM = "norm.scale"},
       NULL},
      {"Whisper",
       FILE_OF,
       {{"model.decoder.embed_positions.weight", 9, 4},
        {"model.decoder.embed_tokens.weight", 7, 4},
        {"model.decoder.layer_norm.weight", 1, 4},
        {"model.decoder.layer_norm.bias", 1, 4}},
       {TOKEN = "model.decoder.embed_tokens.weight", POSITION = "model.decoder.embed_positions.weight", NORM = "model.decoder.layer_norm.weight",
        NORM_BIAS = "model.decoder.layer_norm.bias"},
       NULL},
      {"RWKV", FILE_OF, {{"rwkv.embeddings.weight", 7, 4}, {"head.weight", 7, 4}}, {TOKEN = "rwkv.embeddings.weight", HEAD = "head.weight"}, NULL},
      {"Mamba",
       FILE_OF,
       {{"backbone.embedding.weight", 7, 4}, {"backbone.norm_f.weight", 1, 4}},
       {TOKEN = "backbone.embedding.weight", NORM = "backbone.norm_f.weight"},
       NULL},
      {"BLOOM",
       FILE_OF,
       {{"word_embeddings.weight", 7, 4}, {"transformer.word_embeddings_layernorm.weight", 1, 4}},
       {TOKEN = "word_embeddings.weight", NORM = "transformer.word_embeddings_layernorm.weight"},
       "belongs to the input"},
      {"T5 of GGUF",
       "a.gguf",
       {{"token_embd.weight", 7, 32}, {"output.weight", 7, 32}, {"dec.output_norm.weight", 1, 32}, {"enc.output_norm.weight", 1, 32}},
       {TOKEN = "token_embd.weight", HEAD = "output.weight", NORM = "dec.output_norm.weight"},
       NULL},
      {"Gemma 3n of GGUF",
       "a.gguf",
       {{"per_layer_token_embd.weight", 7, 64}, {"token_embd.weight", 7, 32}},
       {TOKEN = "token_embd.weight", PER_LAYER = "per_layer_token_embd.weight"},
       NULL},
      {"Gemma 3n",
       FILE_OF,
       {{"model.language_model.embed_tokens_per_layer.weight", 7, 12}, {"model.language_model.embed_tokens.weight", 7, 4}},
       {TOKEN = "model.language_model.embed_tokens.weight", PER_LAYER = "model.language_model.embed_tokens_per_layer.weight"},
       NULL},
      {"n-grams of GGUF",
       "a.gguf",
       {{"per_layer_token_embd.weight", 90, 32}, {"token_embd.weight", 7, 64}},
       {TOKEN = "token_embd.weight", NGRAM = "per_layer_token_embd.weight"},
       "\"per_layer_token_embd.weight\" has 90 rows, \"token_embd.weight\" 7: its rows are those of n-grams, not of layers"},
      {"Qwen 4 experimental",
       FILE_OF,
       {{"model.layers.1.ple.ple_embedding.ngram_embedding.weight", 90, 3}, {"model.embed_tokens.weight", 7, 4}},
       {TOKEN = "model.embed_tokens.weight", NGRAM = "model.layers.1.ple.ple_embedding.ngram_embedding.weight"},
       NULL},
      {"LongCat-Flash-Lite",
       FILE_OF,
       {{"model.ngram_embeddings.embedders.0.weight", 91, 2}, {"model.ngram_embeddings.embedders.1.weight", 93, 2}, {"model.embed_tokens.weight", 7, 4}},
       {TOKEN = "model.embed_tokens.weight", NGRAM = "model.ngram_embeddings.embedders.0.weight"},
       NULL},
  };
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof families / sizeof *families; ++i) {
    embed_head *h = NULL;
    embed_file *f = make(ctx, &families[i]);
    has_its_roles(ctx, f, &families[i]);
    done(ctx, embed_file_head(ctx, f, NULL, NULL, &h)); /* its bias fits */
    embed_head_release(h);
    embed_file_release(f);
  }
  remove_folder();
  embed_context_release(ctx);
}

/* .embed says roles itself, the further ones too, and convert's writer takes them. */
static void further_roles_live_in_an_embed_file(void **state) {
  (void)state;
  static const family gemma = {"", FILE_OF, {{"x", 7, 12}, {"y", 90, 3}, {"z", 7, 4}}, {TOKEN = "z", PER_LAYER = "x", NGRAM = "y"}, NULL};
  static const char *const pairs[][2] = {{"embed.role.token", "z"}, {"embed.role.per_layer", "x"}, {"embed.role.ngram", "y"}};
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_writer *w = new_writer(ctx, in_folder("a.embed"), NULL);
  for (int i = 0; i < 3; ++i) {
    embed_table *t = some_table(ctx, gemma.tensors[i].rows, gemma.tensors[i].dim, EMBED_F32, 0, 1);
    done(ctx, embed_writer_table(ctx, w, gemma.tensors[i].name, t, NULL));
    done(ctx, embed_writer_metadata(ctx, w, pairs[i][0], pairs[i][1], 1));
    embed_table_release(t);
  }
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  embed_file *f = open_file(ctx, in_folder("a.embed"), NULL);
  has_its_roles(ctx, f, &gemma);
  embed_file_release(f);
  remove_folder();
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_family_is_known_by_its_names),
    cmocka_unit_test(further_roles_live_in_an_embed_file),
};
TEST_MAIN(tests)
