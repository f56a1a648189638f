/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing GGUF: the bytes, every type that ggml shares with tables, tokens and metadata that keep their kinds, what is refused. */
#include "writing.h"

#include "gguf_file.h"

static void put_text(embed_context *ctx, embed_writer *w, const char *key, const char *value) {
  done(ctx, embed_writer_metadata(ctx, w, key, value, (int64_t)strlen(value)));
}

/* Whether the file has these bytes in a row. */
static int file_has(const char *path, const void *bytes, size_t count) {
  size_t whole;
  unsigned char *data = read_file(path, &whole);
  int found = 0;
  for (size_t i = 0; i + count <= whole && !found; ++i) found = memcmp(data + i, bytes, count) == 0;
  free(data);
  return found;
}

static void a_file_has_the_bytes_that_the_format_asks_for(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3, 4, 5, 6, 7, 8}, bias[] = {0.5f, -1};
  embed_context *ctx = new_context(NULL);
  embed_table_options o = {.size = sizeof o};
  embed_table *t = NULL, *v = NULL;
  fresh_folder();
  done(ctx, embed_table_view(ctx, values, 2, 4, &o, NULL, NULL, &t));
  done(ctx, embed_table_view(ctx, bias, 1, 2, &o, NULL, NULL, &v));
  embed_writer *w = new_writer(ctx, in_folder("a.gguf"), NULL);
  done(ctx, embed_writer_table(ctx, w, "token_embd.weight", t, NULL));
  done(ctx, embed_writer_table(ctx, w, "b", v, NULL));
  put_text(ctx, w, "k", "v");
  put_text(ctx, w, "general.architecture", "llama");
  done(ctx, embed_writer_alias(ctx, w, "output.weight", "token_embd.weight"));
  done(ctx, embed_writer_token(ctx, w, 0, "a b\n", 4));
  done(ctx, embed_writer_token(ctx, w, 1, "", 0));
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);

  gg_begin(3, 2, 5);
  gg_pair_string("general.architecture", "llama");
  gg_pair_string("k", "v");
  gg_key("general.alignment", GG_U32);
  gg_u32(32);
  gg_pair_string("tied.output.weight", "token_embd.weight");
  gg_key("tokenizer.ggml.tokens", GG_ARRAY);
  gg_u32(GG_STRING);
  gg_u64(2);
  gg_string("a b\n", 4);
  gg_string("", 0);
  for (int i = 0; i < 2; ++i) {
    gg_string(i ? "b" : "token_embd.weight", i ? 1 : 17);
    gg_u32(2);
    gg_u64(i ? 2 : 4);
    gg_u64(i ? 1 : 2);
    gg_u32(0);
    gg_u64(i ? 32 : 0);
  }
  while (gg_count % 32) gg_bytes("", 1);
  for (int i = 0; i < 8; ++i) gg_f32(values[i]);
  gg_f32(bias[0]);
  gg_f32(bias[1]);
  while (gg_count % 32) gg_bytes("", 1);
  size_t bytes;
  unsigned char *got = read_file(in_folder("a.gguf"), &bytes);
  assert_int_equal(bytes, gg_count);
  assert_memory_equal(got, gg, bytes);
  free(got);

  embed_file *f = open_file(ctx, in_folder("a.gguf"), NULL);
  int64_t token = -1, head = -1;
  done(ctx, embed_file_role(ctx, f, EMBED_ROLE_TOKEN, &token));
  done(ctx, embed_file_role(ctx, f, EMBED_ROLE_HEAD, &head));
  assert_int_equal(token, 0);
  assert_int_equal(head, 0);
  assert_int_equal(strlen(embed_file_token(f, 1, NULL)), 0);
  assert_null(embed_file_token(f, 2, NULL));
  embed_file_release(f);
  embed_table_release(t);
  embed_table_release(v);
  embed_context_release(ctx);
  remove_folder();
}

static void every_type_of_ggml_comes_back_bit_for_bit(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{1, 256}, {3, 256}, {300, 512}};
  embed_pool *pool = NULL;
  assert_int_equal(embed_pool_create(3, &pool), EMBED_OK);
  embed_context *ctx = new_context(pool);
  embed_writer_options small = {.size = sizeof small, .max_memory = 20000};
  int dtypes = 0;
  fresh_folder();
  for (embed_dtype dtype = 0; dtype < 128; ++dtype)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) {
      if (!embed_dtype_name(dtype) || (dtype >= 4 && dtype < 64) || embed_row_bytes(dtype, shapes[s][1], 0) < 0) continue;
      embed_table *t = some_table(ctx, shapes[s][0], shapes[s][1], dtype, 0, 3);
      embed_writer *w = new_writer(ctx, in_folder("a.gguf"), &small);
      done(ctx, embed_writer_table(ctx, w, "token_embd.weight", t, NULL));
      done(ctx, embed_writer_table(ctx, w, "output.weight", t, NULL));
      done(ctx, embed_writer_commit(ctx, w));
      embed_writer_release(w);
      embed_file *f = open_file(ctx, in_folder("a.gguf"), NULL);
      assert_string_equal(embed_file_format(f), "gguf");
      for (int64_t i = 0; i < 2; ++i) {
        embed_table *back = NULL;
        embed_tensor_info info = {.size = sizeof info};
        done(ctx, embed_file_table(ctx, f, i, &back));
        same_table(back, t, 0);
        embed_table_release(back);
        done(ctx, embed_file_tensor(ctx, f, i, &info));
        assert_int_equal(info.offset % 32, 0);
      }
      assert_null(strchr(embed_file_notes(f), '\n')); /* of the tie alone */
      const char *key, *value;
      int64_t bytes;
      done(ctx, embed_file_metadata(ctx, f, 0, &key, &value, &bytes));
      assert_string_equal(key, "general.architecture");
      const int versioned = embed_file_metadata(ctx, f, 2, &key, &value, &bytes) == EMBED_OK;
      assert_int_equal(versioned, dtype >= 64);
      if (versioned) assert_string_equal(key, "general.quantization_version");
      embed_file_release(f);
      embed_table_release(t);
      ++dtypes;
    }
  assert_true(dtypes >= 3 * 14);
  embed_context_release(ctx);
  embed_pool_release(pool);
  remove_folder();
}

/* A file of 3 tokens with pairs of many kinds. */
static embed_file *source(embed_context *ctx) {
  gg_begin(3, 1, 10);
  gg_pair_string("general.architecture", "llama");
  gg_key("llama.block_count", GG_U64);
  gg_u64(7);
  gg_key("llama.attention.layer_norm_rms_epsilon", GG_F32);
  gg_f32(1e-5f);
  gg_key("tokenizer.ggml.add_bos_token", GG_BOOL);
  gg_bytes("\1", 1);
  gg_key("llama.of_layers", GG_ARRAY); /* of two bytes each */
  gg_u32(GG_U16);
  gg_u64(2);
  gg_bytes("\1\0\2", 4);
  gg_key("tokenizer.ggml.tokens", GG_ARRAY);
  gg_u32(GG_STRING);
  gg_u64(3);
  for (int i = 0; i < 3; ++i) gg_string(&"abc"[i], 1);
  gg_key("tokenizer.ggml.scores", GG_ARRAY);
  gg_u32(GG_F32);
  gg_u64(3);
  for (int i = 0; i < 3; ++i) gg_f32((float)-i);
  gg_key("tokenizer.ggml.token_type", GG_ARRAY);
  gg_u32(GG_I32);
  gg_u64(3);
  for (uint32_t i = 0; i < 3; ++i) gg_u32(i + 1);
  gg_key("tokenizer.ggml.merges", GG_ARRAY);
  gg_u32(GG_STRING);
  gg_u64(1);
  gg_string("a b", 3);
  gg_key("general.tags", GG_ARRAY);
  gg_u32(GG_STRING);
  gg_u64(2);
  gg_string("x", 1);
  gg_string("y", 1);
  gg_string("token_embd.weight", 17);
  gg_u32(2);
  gg_u64(2);
  gg_u64(3);
  gg_u32(0);
  gg_u64(0);
  while (gg_count % 32) gg_bytes("", 1);
  for (int i = 0; i < 6; ++i) gg_f32((float)i);
  return open_file(ctx, write_file("source.gguf", gg, gg_count), NULL);
}

static void all_pairs(embed_context *ctx, embed_writer *w, const embed_file *f) {
  const char *key, *value;
  int64_t bytes;
  for (int64_t i = 0; embed_file_metadata(ctx, f, i, &key, &value, &bytes) == EMBED_OK; ++i)
    if (strcmp(key, "tokenizer.ggml.tokens") != 0) done(ctx, embed_writer_metadata(ctx, w, key, value, bytes));
}

static int same_pairs(embed_context *ctx, const char *path, const embed_file *want) {
  embed_file *f = open_file(ctx, path, NULL);
  const char *key, *value, *want_key, *want_value;
  int64_t bytes, want_bytes;
  int same = 0;
  for (int64_t i = 0; embed_file_metadata(ctx, want, i, &want_key, &want_value, &want_bytes) == EMBED_OK; ++i)
    for (int64_t j = 0; embed_file_metadata(ctx, f, j, &key, &value, &bytes) == EMBED_OK; ++j)
      same += strcmp(key, want_key) == 0 && bytes == want_bytes && memcmp(value, want_value, (size_t)bytes) == 0;
  embed_file_release(f);
  return same;
}

static void values_of_another_gguf_keep_their_kinds(void **state) {
  (void)state;
  static const unsigned char blocks[] = "\x11\0\0\0\0\0\0\0llama.block_count\x0A\0\0\0\7\0\0\0\0\0\0"; /* and a NUL: u64 */
  static const unsigned char layers[] = "llama.of_layers\x09\0\0\0\2\0\0\0\2\0\0\0\0\0\0\0\1\0\2";
  static const unsigned char scores[] = "tokenizer.ggml.scores\x09\0\0\0\6\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\xBF\0\0\0\xC0";
  static const unsigned char merges[] = "tokenizer.ggml.merges\x09\0\0\0\x08\0\0\0\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0a b";
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_file *from = source(ctx);
  embed_table *t = open_table(ctx, from);
  for (int how = 0; how < 3; ++how) { /* all; the tokens alone; the tokens, and one more */
    embed_writer *w = new_writer(ctx, in_folder("a.gguf"), NULL);
    done(ctx, embed_writer_table(ctx, w, "token_embd.weight", t, NULL));
    done(ctx, embed_writer_tokens(ctx, w, from));
    if (how == 0) all_pairs(ctx, w, from);
    if (how == 2) done(ctx, embed_writer_token(ctx, w, 3, "d", 1));
    done(ctx, embed_writer_commit(ctx, w));
    embed_writer_release(w);
    const char *path = in_folder("a.gguf");
    assert_int_equal(same_pairs(ctx, path, from), how == 0 ? 10 : how == 1 ? 4 : 1);
    assert_int_equal(file_has(path, blocks, sizeof blocks), how == 0);
    assert_int_equal(file_has(path, layers, sizeof layers), how == 0);
    assert_int_equal(file_has(path, scores, sizeof scores - 1), how < 2); /* a score for each token, or none */
    assert_true(file_has(path, merges, sizeof merges - 1));
  }
  embed_table_release(t);
  embed_file_release(from);
  unlink(path_of("source.gguf"));
  embed_context_release(ctx);
  remove_folder();
}

static void keys_tell_the_kinds_of_values_that_come_as_text(void **state) {
  (void)state;
  static const struct {
    const char *key, *value, *bytes;
    size_t count;
  } pairs[] = {{"llama.vocab_size", "4294967295", "\4\0\0\0\xFF\xFF\xFF\xFF", 8},
               {"llama.block_count", "4294967296", "\x08\0\0\0\x0A\0\0\0\0\0\0\0004294967296", 22},
               {"llama.context_length", "many", "\x08\0\0\0\4\0\0\0\0\0\0\0many", 16},
               {"tokenizer.ggml.bos_token_id", "1", "\4\0\0\0\1\0\0\0", 8},
               {"tokenizer.ggml.add_bos_token", "true", "\7\0\0\0\1", 5},
               {"tokenizer.ggml.add_eos_token", "false", "\7\0\0\0\0", 5},
               {"tokenizer.ggml.add_space_prefix", "1", "\x08\0\0\0\1\0\0\0\0\0\0\0001", 13},
               {"llama.attention.layer_norm_rms_epsilon", "1.5", "\6\0\0\0\0\0\xC0\x3F", 8},
               {"gemma2.final_logit_softcapping", "x", "\x08\0\0\0\1\0\0\0\0\0\0\0x", 13},
               {"embed.lookup_scale", "2", "\6\0\0\0\0\0\0\x40", 8},
               {"general.name", "7", "\x08\0\0\0\1\0\0\0\0\0\0\0007", 13}};
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_table *t = some_table(ctx, 4, 32, EMBED_F32, 0, 1);
  embed_writer *w = new_writer(ctx, in_folder("a.gguf"), NULL);
  done(ctx, embed_writer_table(ctx, w, "wte.weight", t, NULL));
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) put_text(ctx, w, pairs[i].key, pairs[i].value);
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
    char bytes[128];
    const size_t key = strlen(pairs[i].key);
    memcpy(bytes, pairs[i].key, key);
    memcpy(bytes + key, pairs[i].bytes, pairs[i].count);
    if (!file_has(in_folder("a.gguf"), bytes, key + pairs[i].count)) fail_msg("%s = %s is written otherwise", pairs[i].key, pairs[i].value);
  }
  embed_file *f = open_file(ctx, in_folder("a.gguf"), NULL);
  embed_conventions c = {.size = sizeof c};
  done(ctx, embed_file_conventions(ctx, f, &c));
  assert_true(c.lookup_scale == 2 && c.logit_scale == 1);
  embed_file_release(f);
  embed_table_release(t);
  embed_context_release(ctx);
  remove_folder();
}

static void what_ggml_has_not_is_refused(void **state) {
  (void)state;
  char name[65];
  memset(name, 'n', sizeof name);
  name[64] = '\0';
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_table *int8 = some_table(ctx, 4, 32, EMBED_I8_ROW, 0, 1), *empty = some_table(ctx, 0, 32, EMBED_F32, 0, 1);
  embed_writer *w = new_writer(ctx, in_folder("a.gguf"), NULL);
  assert_int_equal(embed_writer_table(ctx, w, "t", int8, NULL), EMBED_E_UNSUPPORTED);
  assert_non_null(strstr(embed_error_text(ctx), "int8_row"));
  assert_int_equal(embed_writer_table(ctx, w, "t", empty, NULL), EMBED_E_UNSUPPORTED);
  embed_table_options q8 = {.size = sizeof q8, .dtype = EMBED_Q8_0};
  assert_int_equal(embed_writer_table(ctx, w, name, int8, &q8), EMBED_E_ARGUMENT); /* 64 bytes: ggml_set_name cuts it */
  done(ctx, embed_writer_table(ctx, w, name + 1, int8, &q8));
  static const char *const own[] = {"general.alignment", "tokenizer.ggml.tokens", "general.quantization_version"};
  for (int i = 0; i < 3; ++i) assert_int_equal(embed_writer_metadata(ctx, w, own[i], "64", 2), EMBED_E_ARGUMENT);
  done(ctx, embed_writer_token(ctx, w, 2, "c", 1));
  assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_ARGUMENT);
  assert_int_equal(embed_error_at(ctx), 0);
  assert_int_equal(names_in_folder(), 0);
  done(ctx, embed_writer_token(ctx, w, 0, "a", 1));
  done(ctx, embed_writer_token(ctx, w, 1, "b", 1));
  done(ctx, embed_writer_commit(ctx, w)); /* three tokens of four rows: the last is padding */
  embed_writer_release(w);
  embed_file *f = open_file(ctx, in_folder("a.gguf"), NULL);
  embed_table *back = NULL;
  done(ctx, embed_file_table(ctx, f, 0, &back));
  assert_int_equal(embed_table_rows(back), 4);
  embed_table_release(back);
  embed_file_release(f);
  embed_table_release(int8);
  embed_table_release(empty);
  embed_context_release(ctx);
  remove_folder();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_file_has_the_bytes_that_the_format_asks_for),
    cmocka_unit_test(every_type_of_ggml_comes_back_bit_for_bit),
    cmocka_unit_test(values_of_another_gguf_keep_their_kinds),
    cmocka_unit_test(keys_tell_the_kinds_of_values_that_come_as_text),
    cmocka_unit_test(what_ggml_has_not_is_refused),
};
TEST_MAIN(tests)
