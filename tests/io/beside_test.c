/* SPDX-License-Identifier: BSD-3-Clause */
/* EMBED_FILE_COPY is for files that another process may cut short: what lies beside a model is read then, too, and never mapped. An allocator
 * looks at this process's mappings each time that it is asked. */
#include "vector_files.h"
#include "writing.h"

typedef struct watch {
  const char *path;
  int seen; /* the file was mapped at some time */
} watch;

static void *watching_allocate(void *arg, size_t bytes, size_t alignment) {
  watch *w = arg;
  if (w->path && is_mapped(w->path) == 1) w->seen = 1;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void watching_release(void *arg, void *memory, size_t bytes, size_t alignment) {
  watch *w = arg;
  (void)bytes, (void)alignment;
  if (w->path && is_mapped(w->path) == 1) w->seen = 1;
  free(memory);
}

static void put(const char *name, const void *bytes, size_t count) {
  FILE *out = fopen(in_folder(name), "wbe");
  assert_non_null(out);
  assert_int_equal(fwrite(bytes, 1, count, out), count);
  assert_int_equal(fclose(out), 0);
}

static void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

static void put_safetensors(void) {
  static const char header[] = "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}";
  vf_begin();
  vf_i64((int64_t)sizeof header - 1);
  vf_bytes(header, sizeof header - 1);
  vf_ramp(1, 6);
  put("m.safetensors", vf, vf_count);
}

/* 4 bits or 8: config.json is asked while the tensors are read, too. */
static void put_packed(void) {
  static const char header[] =
      "{\"model.embed_tokens.weight\":{\"dtype\":\"U32\",\"shape\":[2,16],\"data_offsets\":[0,128]},"
      "\"model.embed_tokens.scales\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[128,136]},"
      "\"model.embed_tokens.biases\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[136,144]}}";
  vf_begin();
  vf_i64((int64_t)sizeof header - 1);
  vf_bytes(header, sizeof header - 1);
  for (int i = 0; i < 18; ++i) vf_i64(0);
  put("m.safetensors", vf, vf_count);
  put_text("config.json", "{\"model_type\":\"gemma\",\"hidden_size\":128,\"vocab_size\":2,\"quantization\":{\"bits\":4,\"group_size\":64}}");
}

static void put_llama2c(void) {
  make_llama2c(0, 0);
  put("m.bin", vf, vf_count);
  make_llama2c_tokens();
  put("tokenizer.bin", vf, vf_count);
}

static void put_glove(void) {
  vf_begin();
  for (int i = 0; i < 16; ++i) vf_f64(i);
  put("vectors.bin", vf, vf_count);
  put_text("vocab.txt", "the 100\nof 7\n");
}

static void put_beside(int kind) {
  fresh_folder();
  if (kind < 3) put_safetensors();
  if (kind == 0) put_text("tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}");
  if (kind == 1) put_text("vocab.txt", "a\nb\n");
  if (kind == 2) put_text("config.json", "{\"model_type\":\"gemma\",\"hidden_size\":3,\"vocab_size\":2}");
  if (kind == 3) put_llama2c();
  if (kind == 4) put_glove();
  if (kind == 5) put_packed();
}

static void files_beside_a_copied_one_are_copied_too(void **state) {
  (void)state;
  static const struct {
    const char *file, *beside, *format;
    int tokens;
  } kinds[] = {{"m.safetensors", "tokenizer.json", NULL, 1}, {"m.safetensors", "vocab.txt", NULL, 1},         {"m.safetensors", "config.json", NULL, 0},
               {"m.bin", "tokenizer.bin", "llama2c", 1},     {"vectors.bin", "vocab.txt", "glove-binary", 1}, {"m.safetensors", "config.json", NULL, 0}};
  if (is_mapped("/none") < 0) skip();
  for (int kind = 0; kind < (int)(sizeof kinds / sizeof *kinds); ++kind) {
    put_beside(kind);
    for (uint32_t flags = 0; flags <= EMBED_FILE_COPY; flags += EMBED_FILE_COPY) {
      char path[4500];
      snprintf(path, sizeof path, "%s", in_folder(kinds[kind].beside));
      watch w = {.path = NULL};
      embed_allocator a = {.size = sizeof a, .arg = &w, .allocate = watching_allocate, .release = watching_release};
      embed_context_options o = {.size = sizeof o, .allocator = &a};
      embed_file_options how = {.size = sizeof how, .flags = flags, .format = kinds[kind].format};
      embed_context *ctx = NULL;
      assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
      w.path = path;
      embed_file *f = open_file(ctx, in_folder(kinds[kind].file), &how);
      w.path = NULL;
      if (kinds[kind].tokens)
        assert_non_null(embed_file_token(f, 1, NULL));
      else
        assert_non_null(strstr(embed_file_notes(f), "gemma"));
      if (w.seen != (flags == 0)) fail_msg("%s beside a file opened with flags %u was %smapped", kinds[kind].beside, (unsigned)flags, w.seen ? "" : "not ");
      embed_file_release(f);
      embed_context_release(ctx);
    }
  }
  remove_folder();
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(files_beside_a_copied_one_are_copied_too)};
TEST_MAIN(tests)
