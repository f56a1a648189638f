/* SPDX-License-Identifier: BSD-3-Clause */
/* seeds FOLDER: writes FOLDER/TARGET/, what each fuzzer begins with: small files of each kind that the tests make. All of FOLDER/file's
 * stand in the folder of their format too. */
#include "io/gguf_file.h"
#include "io/packed_file.h"
#include "io/safetensors_file.h"
#include "io/vector_files.h"
#include "io/zip_file.h"

enum { ROOM = 8192 };

static const char *folder;

static void seed(const char *target, const char *name, const void *bytes, size_t count) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, target);
  (void)mkdir(folder, 0700);
  (void)mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/%s/%s", folder, target, name);
  FILE *out = fopen(path, "wb");
  if (!out || fwrite(bytes, 1, count, out) != count || fclose(out) != 0) {
    perror(path);
    exit(1);
  }
}

static void file_seed(const char *format, const char *name, const void *bytes, size_t count) {
  seed("file", name, bytes, count);
  seed(format, name, bytes, count);
}

static void must(embed_context *ctx, embed_status status) {
  if (status == EMBED_OK) return;
  fprintf(stderr, "%s\n", embed_error_text(ctx));
  exit(1);
}

/* Every kind of section but the extra ones, by the library's own writer. */
static void embed_seed(const char *name, embed_dtype dtype, int with_more) {
  static unsigned char file[1 << 16];
  char path[4096];
  embed_context *ctx = NULL;
  embed_table *floats = NULL, *t = NULL;
  embed_writer *w = NULL;
  if (embed_context_create(NULL, &ctx) != EMBED_OK) exit(1);
  must(ctx, embed_table_create(ctx, 2, 32, NULL, &floats));
  must(ctx, embed_table_init(ctx, floats, NULL));
  must(ctx, embed_table_convert(ctx, floats, &(embed_table_options){.size = sizeof(embed_table_options), .dtype = dtype}, &t));
  snprintf(path, sizeof path, "%s/seed.embed", folder);
  must(ctx, embed_writer_create(ctx, path, NULL, &w));
  must(ctx, embed_writer_table(ctx, w, "wte.weight", t, NULL));
  if (with_more) {
    must(ctx, embed_writer_alias(ctx, w, "lm_head.weight", "wte.weight"));
    must(ctx, embed_writer_token(ctx, w, 0, "the", 3));
    must(ctx, embed_writer_token(ctx, w, 1, "of", 2));
    must(ctx, embed_writer_metadata(ctx, w, "embed.role.token", "wte.weight", 10));
    must(ctx, embed_writer_metadata(ctx, w, "embed.role.head", "lm_head.weight", 14));
    must(ctx, embed_writer_metadata(ctx, w, "embed.lookup_scale", "5.5", 3));
    must(ctx, embed_writer_metadata(ctx, w, "key", "value", 5));
  }
  must(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  embed_table_release(t);
  embed_table_release(floats);
  embed_context_release(ctx);
  FILE *in = fopen(path, "rb");
  size_t bytes = in ? fread(file, 1, sizeof file, in) : 0;
  if (in) fclose(in);
  (void)unlink(path);
  file_seed("embed", name, file, bytes);
}

/* Every kind of pair, tokens, a table of blocks with its head. */
static void gguf_seed(void) {
  static const char *const tokens[] = {"<s>", "a", "a", ""};
  static const unsigned char block[34] = {0, 0x3C, 1, 2, 0x80};
  gg_begin(3, 2, 6);
  gg_pair_string("general.architecture", "granite");
  gg_pair_u32("general.alignment", 32);
  gg_key("granite.logit_scale", GG_F32);
  gg_f32(8);
  gg_key("flag", GG_BOOL);
  gg_uint(1, 1);
  gg_array("list", GG_I16, 2);
  gg_uint(7, 2);
  gg_uint(0xFFFF, 2);
  gg_tokens(tokens, 4);
  gg_tensor(TABLE, 2, (const uint64_t[]){32, 4}, 8, 0);
  gg_tensor("output.weight", 2, (const uint64_t[]){32, 4}, 30, 160);
  gg_pad(32);
  for (int i = 0; i < 4; ++i) gg_bytes(block, sizeof block);
  gg_pad(32);
  for (int i = 0; i < 4 * 32; ++i) gg_uint(0x3F80, 2);
  file_seed("gguf", "gguf_blocks", gg, gg_count);
}

static void tokenizer_seeds(void) {
  static const char *const texts[] = {
      ("{\"added_tokens\":[{\"id\":2,\"content\":\"<pad>\",\"special\":true}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u0120b\":1},\"merges\":[\"a "
       "b\"]}}"),
      "{\"version\":\"1.0\",\"added_tokens\":null,\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0.0],[\"a\",-1.5],[\"b\",-2e1]]}}",
      "{\"model\":{\"vocab\":{\"a\":0,\"b\":0,\"c\":9,\"\":2}}}"};
  static const char *const lines[] = {"a\r\nb\r\nc\r\n", "a\n\na\nd"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) seed("tokenizer", i == 0 ? "bpe" : i == 1 ? "unigram" : "odd", texts[i], strlen(texts[i]));
  for (size_t i = 0; i < sizeof lines / sizeof *lines; ++i) seed("vocabulary", i ? "lf" : "crlf", lines[i], strlen(lines[i]));
}

static void config_seeds(void) {
  static const char *const texts[] = {
      "{\"architectures\":[\"GraniteForCausalLM\"],\"hidden_size\":4,\"vocab_size\":3,\"logits_scaling\":8.0,\"embedding_multiplier\":12,\"rms_norm_eps\":1e-"
      "06}",
      "{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma3_text\",\"tie_word_embeddings\":false,\"final_logit_softcapping\":null},\"x\":[1,{}]"
      "}",
      "{\"quantization\":{\"group_size\":64,\"bits\":4,\"x\":{\"bits\":8,\"group_size\":32},\"y\":false}}",
      "{\"quantization_config\":{\"bits\":4,\"group_size\":128,\"quant_method\":\"gptq\",\"checkpoint_format\":\"gptq_v2\"}}",
  };
  seed("config", "granite", texts[0], strlen(texts[0]));
  seed("config", "gemma", texts[1], strlen(texts[1]));
  seed("config", "mlx", texts[2], strlen(texts[2]));
  seed("config", "gptq", texts[3], strlen(texts[3]));
}

static void json_seeds(void) {
  static const char *const texts[] = {
      "[0,-1,12.5,-2e3,1E+2,9223372036854775807,-9223372036854775808,1.7976931348623157e308]",
      "[true,false,null,\"\",\"a\\n\\u00e9\\ud83d\\ude00\\\"\",\"\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\"]",
      "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":{\"a\":[[{}]]}}",
      "{\"a\":1,\"\\u0061\":2}",
  };
  char name[32];
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    snprintf(name, sizeof name, "text%zu", i);
    seed("json", name, texts[i], strlen(texts[i]));
  }
  for (int kind = 0; kind < GOOD_SAFETENSORS; ++kind) {
    snprintf(name, sizeof name, "header%d", kind);
    seed("json", name, good_safetensors[kind].header, strlen(good_safetensors[kind].header));
  }
}

/* Stored and deflated arrays; checkpoints of either byte order. */
static void zip_seeds(void) {
  static const char dict[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }",
                    turned[] = "{'descr': '>f4', 'fortran_order': True, 'shape': (3, 4), }";
  static const float data[12] = {0, 1, -2, 3.5f};
  static unsigned char array[ROOM];
  const size_t bytes = make_npy(array, 1, dict, 16, data, sizeof data);
  zf_begin();
  zf_add("wte.weight.npy", array, bytes);
  zf_add("lm_head.weight.npy", array, bytes);
  zf_end(0);
  file_seed("npz", "npz_stored", zf, zf_count);
  zf_begin();
  zf_add_deflated("a.npy", array, bytes);
  zf_add_deflated("b.npy", array, make_npy(array, 1, turned, 16, data, sizeof data));
  zf_add("c.txt", "x", 1);
  zf_end(1);
  file_seed("npz", "npz_deflated", zf, zf_count);
  seed("npz", "array", array, make_npy(array, 1, dict, 16, data, sizeof data));
  seed("npz", "array_turned", array, make_npy(array, 2, turned, 16, data, sizeof data));
  pk_state_dict();
  seed("pytorch", "pickle", pk, pk_count);
  torch_archive(NULL, data, sizeof data);
  file_seed("pytorch", "pytorch", zf, zf_count);
  torch_archive("big", data, sizeof data);
  file_seed("pytorch", "pytorch_big", zf, zf_count);
  zf_begin();
  zf_add_deflated("m/data.pkl", pk, pk_count);
  zf_add_deflated("m/data/0", data, sizeof data);
  zf_end(0);
  file_seed("pytorch", "pytorch_deflated", zf, zf_count);
  torch_old_file(data, 12, sizeof data);
  file_seed("pytorch", "pytorch_old", zf, zf_count);
  pk_script_module();
  seed("pytorch", "pickle_script", pk, pk_count);
  script_archive(data, sizeof data);
  file_seed("pytorch", "pytorch_script", zf, zf_count);
}

static void file_seeds(void) {
  static const char *const npy[] = {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }",
                                    "{'descr': '>f2', 'fortran_order': True, 'shape': (6, 4), }"};
  static const char text[] = "2 3\nthe 0.5 -1e-3 nan\nof 1 2 3\n", glove[] = "the 0.5 -1.25 3\n<unk> 1 2 3\n";
  static unsigned char file[ROOM];
  static const float data[12] = {0, 1, -2, 3.5f};
  char name[32];
  for (int kind = 0; kind < GOOD_SAFETENSORS; ++kind) {
    snprintf(name, sizeof name, "safetensors%d", kind);
    file_seed("safetensors", name, file, make_good_safetensors(kind, file));
  }
  for (int kind = 0; kind < PF_KINDS; ++kind) {
    make_packed(kind);
    snprintf(name, sizeof name, "packed%d", kind);
    file_seed("safetensors", name, pf_file, pf_bytes);
  }
  file_seed("safetensors-index", "index", file, make_index(file, ROOM, "a", "1.safetensors", "b", "2.safetensors"));
  file_seed("pytorch-index", "torch_index", file, make_index(file, ROOM, "a", "1.bin", "b", "2.bin"));
  for (int i = 0; i < 2; ++i) {
    snprintf(name, sizeof name, "npy%d", i);
    file_seed("npy", name, file, make_npy(file, i + 1, npy[i], 16, data, sizeof data));
  }
  memcpy(file, "2 3\nof ", 7);
  memcpy(file + 7, data, 12);
  memcpy(file + 19, "\nthe ", 5);
  memcpy(file + 24, data, 12);
  file_seed("word2vec", "word2vec", file, 36);
  file_seed("word2vec-text", "word2vec_text", text, sizeof text - 1);
  file_seed("glove", "glove", glove, sizeof glove - 1);
  zip_seeds();
  gg_simple(4, 3);
  file_seed("gguf", "gguf", gg, gg_count);
  gguf_seed();
  embed_seed("embed_plain", EMBED_F32, 0);
  embed_seed("embed", EMBED_Q8_0, 1);
}

static void vector_seed(const char *format, const char *name, int kind) {
  char numbered[64];
  snprintf(numbered, sizeof numbered, "%s%d", name, kind);
  file_seed(format, numbered, vf, vf_count);
}

/* What has no mark of its own: its target gives the extents. */
static void headless_seed(const char *format, int bytes) {
  vf_begin();
  for (int i = 0; i < bytes; ++i) vf_uint((uint64_t)i, 1);
  seed(format, "rows", vf, vf_count);
}

static void vector_seeds(void) {
  for (int kind = 0; kind < FT_KINDS; ++kind) make_fasttext(kind), vector_seed("fasttext", "fasttext", kind);
  for (int kind = 0; kind < FF_KINDS; ++kind) make_finalfusion(kind), vector_seed("finalfusion", "finalfusion", kind);
  for (int kind = 0; kind < 6; ++kind) make_llama2c(kind / 2, kind % 2), vector_seed("llama2c", "llama2c", kind);
  for (int kind = 0; kind < M2V_KINDS; ++kind) make_model2vec(kind), vector_seed("safetensors", "model2vec", kind);
  headless_seed("glove-binary", 128);
  headless_seed("raw", 24);
  headless_seed("raw-f64", 48);
  headless_seed("raw-f16", 12);
  headless_seed("raw-bf16", 12);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  folder = argv[1];
  vector_seeds();
  json_seeds();
  config_seeds();
  tokenizer_seeds();
  file_seeds();
  return 0;
}
