/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing files: what comes back when they are opened again, what is refused, and that a failure leaves the old file as it was. */
#include "writing.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void write_one(embed_context *ctx, const char *path, const char *name, const embed_table *t, const embed_table_options *as) {
  embed_writer *w = new_writer(ctx, path, NULL);
  done(ctx, embed_writer_table(ctx, w, name, t, as));
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
}

static void every_dtype_comes_back_from_embed_bit_for_bit(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{1, 256}, {3, 256}, {300, 512}, {0, 256}};
  embed_pool *pool = NULL;
  assert_int_equal(embed_pool_create(3, &pool), EMBED_OK);
  fresh_folder();
  int dtypes = 0;
  for (int threads = 0; threads < 2; ++threads) {
    embed_context *ctx = new_context(threads ? pool : NULL);
    for (embed_dtype dtype = 0; dtype < 128; ++dtype)
      for (int32_t group = 0; group <= 128; group += group ? group : 32)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) {
          if (!embed_dtype_name(dtype) || embed_row_bytes(dtype, shapes[s][1], group) < 0 || (group && dtype != EMBED_I4_GROUP)) continue;
          embed_table *t = some_table(ctx, shapes[s][0], shapes[s][1], dtype, group, 3);
          write_one(ctx, in_folder("a.embed"), "wte.weight", t, NULL);
          for (uint32_t flags = 0; flags < 4; ++flags) {
            embed_file_options o = {.size = sizeof o, .flags = flags};
            embed_file *f = open_file(ctx, in_folder("a.embed"), &o);
            embed_table *back = open_table(ctx, f);
            embed_tensor_info info = {.size = sizeof info};
            assert_string_equal(embed_file_format(f), "embed");
            done(ctx, embed_file_tensor(ctx, f, 0, &info));
            assert_string_equal(info.name, "wte.weight");
            assert_string_equal(info.stored, embed_dtype_name(dtype));
            assert_int_equal(info.offset % 4096, 0);
            assert_int_equal(info.role, EMBED_ROLE_TOKEN);
            same_table(back, t, group);
            embed_file_release(f);
            embed_table_release(back);
          }
          embed_table_release(t);
          ++dtypes;
        }
    embed_context_release(ctx);
  }
  assert_true(dtypes >= 2 * 4 * 7);
  embed_pool_release(pool);
  remove_folder();
}

static void floats_come_back_from_every_format_that_holds_them(void **state) {
  (void)state;
  static const struct {
    const char *name;
    embed_dtype dtypes[6];
    int count;
  } formats[] = {{"a.npy", {EMBED_F32, EMBED_F16, EMBED_F64}, 3},
                 {"a.safetensors", {EMBED_F32, EMBED_F16, EMBED_BF16, EMBED_F64, EMBED_F8_E4M3, EMBED_F8_E5M2}, 6},
                 {"a.embed", {EMBED_F32, EMBED_F16, EMBED_BF16, EMBED_F64}, 4}};
  embed_context *ctx = new_context(NULL);
  embed_writer_options small = {.size = sizeof small, .max_memory = 5000}; /* many blocks */
  fresh_folder();
  for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i)
    for (int d = 0; d < formats[i].count; ++d) {
      embed_table *t = some_table(ctx, 77, 33, EMBED_F32, 0, 5), *want = NULL;
      embed_table_options as = {.size = sizeof as, .dtype = formats[i].dtypes[d]};
      done(ctx, embed_table_convert(ctx, t, &as, &want));
      embed_writer *w = new_writer(ctx, in_folder(formats[i].name), &small);
      done(ctx, embed_writer_table(ctx, w, "wte.weight", t, &as)); /* converted while it is written */
      done(ctx, embed_writer_commit(ctx, w));
      embed_writer_release(w);
      embed_file *f = open_file(ctx, in_folder(formats[i].name), NULL);
      embed_table *back = open_table(ctx, f);
      same_table(back, want, 0);
      embed_file_release(f);
      embed_table_release(back);
      embed_table_release(want);
      embed_table_release(t);
    }
  embed_context_release(ctx);
  remove_folder();
}

static void word2vec_comes_back_with_its_tokens(void **state) {
  (void)state;
  static const char *const tokens[] = {"the", "z\xC3\xBCrich", "\x01\xFF", "a\tb", "the"};
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  for (int name = 0; name < 2; ++name) {
    embed_table *t = some_table(ctx, 6, 7, EMBED_BF16, 0, 5), *want = NULL;
    embed_table_options f32 = {.size = sizeof f32}, vocab = {.size = sizeof vocab, .dtype = EMBED_DTYPE_NONE, .vocab = 5};
    done(ctx, embed_table_convert(ctx, t, &f32, &want));
    const char *path = in_folder(name ? "a.W2V" : "a.bin");
    embed_writer *w = new_writer(ctx, path, NULL);
    done(ctx, embed_writer_table(ctx, w, "any", t, &vocab));
    for (int i = 0; i < 4; ++i) done(ctx, embed_writer_token(ctx, w, i, tokens[i], (int64_t)strlen(tokens[i])));
    assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_ARGUMENT);
    assert_int_equal(embed_error_at(ctx), 4);
    assert_int_equal(names_in_folder(), name);
    done(ctx, embed_writer_token(ctx, w, 4, "x", 1));
    done(ctx, embed_writer_token(ctx, w, 4, tokens[4], 3)); /* instead of x */
    done(ctx, embed_writer_commit(ctx, w));
    embed_writer_release(w);
    embed_file *f = open_file(ctx, path, NULL);
    embed_table *back = open_table(ctx, f);
    assert_string_equal(embed_file_format(f), "word2vec");
    assert_int_equal(embed_table_rows(back), 5); /* the padding row has no token */
    for (int64_t i = 0; i < 5; ++i) {
      int64_t bytes;
      assert_string_equal(embed_file_token(f, i, &bytes), tokens[i]);
      assert_int_equal(bytes, strlen(tokens[i]));
      assert_memory_equal((const float *)embed_table_data(back) + 7 * i, (const float *)embed_table_data(want) + 7 * i, 28);
    }
    embed_file_release(f);
    embed_table_release(back);
    embed_table_release(t);
    embed_table_release(want);
  }
  embed_context_release(ctx);
  remove_folder();
}

static void tokens_that_word2vec_cannot_read_back_are_refused(void **state) {
  (void)state;
  static char longest[65537];
  static const struct {
    const char *token;
    int64_t bytes;
    const char *says;
  } bad[] = {{"", 0, "empty"}, {". . .", 5, "blank"}, {"a ", 2, "blank"}, {"\na", 2, "newline"}, {"a\n", 2, "newline"}, {longest, 65537, "65536"}};
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  memset(longest, 'a', sizeof longest);
  embed_writer *w = new_writer(ctx, in_folder("a.bin"), NULL);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    assert_int_equal(embed_writer_token(ctx, w, 12, bad[i].token, bad[i].bytes), EMBED_E_ARGUMENT);
    assert_int_equal(embed_error_at(ctx), 12);
    assert_non_null(strstr(embed_error_text(ctx), "row 12"));
    assert_non_null(strstr(embed_error_text(ctx), bad[i].says));
  }
  done(ctx, embed_writer_token(ctx, w, 12, longest, 65536));
  assert_int_equal(embed_writer_token(ctx, w, -1, "a", 1), EMBED_E_ID);
  assert_int_equal(embed_writer_token(ctx, w, (int64_t)INT32_MAX + 1, "a", 1), EMBED_E_ID);
  assert_int_equal(embed_writer_token(ctx, w, 0, "a", -1), EMBED_E_ARGUMENT);
  embed_writer_release(w);
  embed_context_release(ctx);
  remove_folder();
}

static void what_a_format_cannot_hold_is_refused_by_name(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_table *int8 = some_table(ctx, 4, 32, EMBED_I8_ROW, 0, 1), *bf16 = some_table(ctx, 4, 32, EMBED_BF16, 0, 1);
  embed_table_options strided = {.size = sizeof strided, .dtype = EMBED_F32, .row_bytes = 256}, four = {.size = sizeof four, .dtype = EMBED_I4_GROUP};
  for (int i = 0; i < 3; ++i) {
    embed_writer *w = new_writer(ctx, in_folder(i == 0 ? "a.npy" : i == 1 ? "a.safetensors" : "a.bin"), NULL);
    if (i < 2) {
      assert_int_equal(embed_writer_table(ctx, w, "t", int8, NULL), EMBED_E_UNSUPPORTED);
      assert_non_null(strstr(embed_error_text(ctx), "int8_row"));
      assert_non_null(strstr(embed_error_text(ctx), ".embed"));
      assert_int_equal(embed_writer_tokens(ctx, w, (const embed_file *)(const void *)int8), EMBED_E_UNSUPPORTED); /* not looked at */
      assert_int_equal(embed_writer_token(ctx, w, 0, "a", 1), EMBED_E_UNSUPPORTED);
    }
    if (i == 0) assert_int_equal(embed_writer_table(ctx, w, "t", bf16, NULL), EMBED_E_UNSUPPORTED);
    assert_int_equal(embed_writer_table(ctx, w, "t", bf16, &four), EMBED_E_UNSUPPORTED);
    assert_non_null(strstr(embed_error_text(ctx), "int4_group"));
    assert_int_equal(embed_writer_table(ctx, w, "t", bf16, &strided), EMBED_E_UNSUPPORTED);
    if (i != 1) {
      embed_table_options f32 = {.size = sizeof f32};
      assert_int_equal(embed_writer_metadata(ctx, w, "k", "v", 1), EMBED_E_UNSUPPORTED);
      done(ctx, embed_writer_table(ctx, w, "t", bf16, &f32));
      assert_int_equal(embed_writer_alias(ctx, w, "head", "t"), EMBED_E_UNSUPPORTED);
      assert_int_equal(embed_writer_table(ctx, w, "u", bf16, &f32), EMBED_E_UNSUPPORTED);
    }
    embed_writer_release(w);
  }
  assert_int_equal(names_in_folder(), 0);
  embed_table_release(int8);
  embed_table_release(bf16);
  embed_context_release(ctx);
  remove_folder();
}

static void misuse_is_refused(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_writer *w = (embed_writer *)(uintptr_t)8;
  fresh_folder();
  embed_table *t = some_table(ctx, 4, 32, EMBED_F32, 0, 1);
  assert_int_equal(embed_writer_create(ctx, in_folder("a.xyz"), NULL, &w), EMBED_E_NOT_FOUND);
  assert_null(w);
  assert_non_null(strstr(embed_error_text(ctx), "safetensors (.safetensors)"));
  embed_writer_options gguf = {.size = sizeof gguf, .format = "ggml"}, npy = {.size = sizeof npy, .format = "npy"},
                       bad = {.size = sizeof bad, .max_memory = -1};
  assert_int_equal(embed_writer_create(ctx, in_folder("a.npy"), &gguf, &w), EMBED_E_NOT_FOUND);
  assert_int_equal(embed_writer_create(ctx, in_folder("a.npy"), &bad, &w), EMBED_E_OPTION);
  w = new_writer(ctx, in_folder("a.xyz"), &npy); /* by name, whatever the path ends in */
  embed_writer_release(w);
  w = new_writer(ctx, in_folder("a.embed"), NULL);
  assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_ARGUMENT);
  assert_int_equal(embed_writer_alias(ctx, w, "head", "t"), EMBED_E_NOT_FOUND);
  assert_int_equal(embed_writer_table(ctx, w, "", t, NULL), EMBED_E_ARGUMENT);
  done(ctx, embed_writer_table(ctx, w, "t", t, NULL));
  assert_int_equal(embed_writer_table(ctx, w, "t", t, NULL), EMBED_E_ARGUMENT);
  done(ctx, embed_writer_alias(ctx, w, "head", "t"));
  assert_int_equal(embed_writer_table(ctx, w, "head", t, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_writer_alias(ctx, w, "head", "t"), EMBED_E_ARGUMENT);
  done(ctx, embed_writer_alias(ctx, w, "again", "head")); /* a tie to a tie */
  done(ctx, embed_writer_metadata(ctx, w, "k", "v", 1));
  assert_int_equal(embed_writer_metadata(ctx, w, "k", "v", 1), EMBED_E_ARGUMENT);
  assert_int_equal(embed_writer_metadata(ctx, w, "", "v", 1), EMBED_E_ARGUMENT);
  assert_int_equal(embed_writer_metadata(ctx, w, "tied.x", "t", 1), EMBED_E_ARGUMENT);
  assert_int_equal(embed_writer_metadata(ctx, w, "k2", "v", -1), EMBED_E_ARGUMENT);
  done(ctx, embed_writer_commit(ctx, w));
  assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_ARGUMENT);
  assert_int_equal(embed_writer_table(ctx, w, "u", t, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_writer_token(ctx, w, 0, "a", 1), EMBED_E_ARGUMENT);
  embed_writer_release(w);
  embed_file *f = open_file(ctx, in_folder("a.embed"), NULL);
  const char *key, *value;
  int64_t bytes;
  done(ctx, embed_file_metadata(ctx, f, 2, &key, &value, &bytes));
  assert_string_equal(key, "tied.again");
  assert_string_equal(value, "t");
  embed_file_release(f);
  embed_table_release(t);
  embed_context_release(ctx);
  remove_folder();
}

/* TI-07 (LlamaFactory#10560, llm-compressor#2798): a tied pair is one tensor, and comes back tied. */
static void a_tied_pair_is_written_once_and_comes_back_tied(void **state) {
  (void)state;
  static const char *const names[] = {"a.safetensors", "a.embed"};
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  for (int i = 0; i < 2; ++i) {
    embed_table *t = some_table(ctx, 1000, 64, EMBED_BF16, 0, 9);
    embed_writer *w = new_writer(ctx, in_folder(names[i]), NULL);
    done(ctx, embed_writer_table(ctx, w, "model.embed_tokens.weight", t, NULL));
    done(ctx, embed_writer_alias(ctx, w, "lm_head.weight", "model.embed_tokens.weight"));
    done(ctx, embed_writer_commit(ctx, w));
    embed_writer_release(w);
    struct stat about = {0};
    assert_int_equal(stat(in_folder(names[i]), &about), 0);
    assert_true(about.st_size >= 1000 * 64 * 2 && about.st_size <= 1000 * 64 * 2 + 4096);
    embed_file *f = open_file(ctx, in_folder(names[i]), NULL);
    int64_t token = -1, head = -1;
    assert_int_equal(embed_file_count(f), 1);
    done(ctx, embed_file_role(ctx, f, EMBED_ROLE_TOKEN, &token));
    done(ctx, embed_file_role(ctx, f, EMBED_ROLE_HEAD, &head));
    assert_int_equal(token, 0);
    assert_int_equal(head, 0);
    embed_table *back = open_table(ctx, f);
    same_table(back, t, 0);
    embed_head *h = NULL;
    embed_head_options tied = {.size = sizeof tied, .flags = EMBED_HEAD_REQUIRE_TIED};
    done(ctx, embed_file_head(ctx, f, back, &tied, &h));
    assert_int_equal(embed_head_is_tied(h, back), 1);
    embed_head_release(h);
    embed_table_release(back);
    embed_file_release(f);
    embed_table_release(t);
  }
  embed_context_release(ctx);
  remove_folder();
}

/* By hand: header, order of tensors, offsets, and the elements at them. */
static void safetensors_files_are_as_the_format_says(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_table *half = some_table(ctx, 3, 5, EMBED_F16, 0, 1), *wide = some_table(ctx, 2, 3, EMBED_F32, 0, 2);
  embed_writer *w = new_writer(ctx, in_folder("a.safetensors"), NULL);
  assert_int_equal(embed_writer_table(ctx, w, "__metadata__", half, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_writer_table(ctx, w, "\xC3", half, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_writer_metadata(ctx, w, "k", "\xED\xA0\x80", 3), EMBED_E_ARGUMENT);
  done(ctx, embed_writer_table(ctx, w, "half", half, NULL));
  done(ctx, embed_writer_table(ctx, w, "w\"\\\n\xE2\x82\xAC", wide, NULL));
  done(ctx, embed_writer_alias(ctx, w, "head", "half"));
  done(ctx, embed_writer_metadata(ctx, w, "made by", "a\0b", 3));
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  size_t bytes;
  unsigned char *data = read_file(in_folder("a.safetensors"), &bytes);
  static const char want[] =
      "{\"__metadata__\":{\"format\":\"pt\",\"made by\":\"a\\u0000b\",\"tied.head\":\"half\"},\"w\\u0022\\u005c\\u000a\xE2\x82\xAC\":{\"dtype\":\"F32\","
      "\"shape\":[2, 3],\"data_offsets\":[0, 24]},\"half\":{\"dtype\":\"F16\",\"shape\":[3, 5],\"data_offsets\":[24, 54]}}";
  size_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | data[i];
  assert_int_equal((8 + header) % 64, 0);
  assert_int_equal(bytes, 8 + header + 54);
  assert_true(header >= sizeof want - 1 && header < sizeof want - 1 + 64);
  assert_memory_equal(data + 8, want, sizeof want - 1);
  assert_true(test_all_bytes(data + 8 + sizeof want - 1, header - (sizeof want - 1), ' '));
  if (!TEST_BIG_ENDIAN) {
    assert_memory_equal(data + 8 + header, embed_table_data(wide), 24);
    assert_memory_equal(data + 8 + header + 24, embed_table_data(half), 30);
  }
  free(data);
  embed_table_release(half);
  embed_table_release(wide);
  embed_context_release(ctx);
  remove_folder();
}

static void embed_keeps_vocab_strides_tokens_roles_and_conventions(void **state) {
  (void)state;
  static const char *const tokens[] = {"a", NULL, "", "b c\n", "\0x", "a", NULL};
  static const int64_t lengths[] = {1, -1, 0, 4, 2, 1, -1};
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_table *table = some_table(ctx, 8, 48, EMBED_F32, 0, 1), *head = some_table(ctx, 8, 48, EMBED_F32, 0, 2);
  embed_table_options as = {.size = sizeof as, .dtype = EMBED_I4_GROUP, .group = 64, .vocab = 7, .row_bytes = 64};
  embed_writer *w = new_writer(ctx, in_folder("a.embed"), NULL);
  done(ctx, embed_writer_table(ctx, w, "one", head, NULL));
  done(ctx, embed_writer_table(ctx, w, "two", table, &as));
  done(ctx, embed_writer_alias(ctx, w, "input", "two"));
  for (int id = 6; id >= 0; --id)
    if (tokens[id]) done(ctx, embed_writer_token(ctx, w, id, tokens[id], lengths[id]));
  static const char *const pairs[][2] = {{"k", "v"},
                                         {"embed.role.head", "one"},
                                         {"embed.role.token", "input"},
                                         {"embed.lookup_scale", "22.627417"},
                                         {"embed.logit_softcap", "30"},
                                         {"embed.scale_round", "bf16"},
                                         {"embed.norm_flags", "1"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) done(ctx, embed_writer_metadata(ctx, w, pairs[i][0], pairs[i][1], (int64_t)strlen(pairs[i][1])));
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  embed_file *f = open_file(ctx, in_folder("a.embed"), &(embed_file_options){.size = sizeof(embed_file_options), .flags = EMBED_FILE_COPY});
  int64_t i = -5;
  done(ctx, embed_file_role(ctx, f, EMBED_ROLE_TOKEN, &i));
  assert_int_equal(i, 1);
  done(ctx, embed_file_role(ctx, f, EMBED_ROLE_HEAD, &i));
  assert_int_equal(i, 0);
  done(ctx, embed_file_role(ctx, f, EMBED_ROLE_NORM, &i));
  assert_int_equal(i, -1);
  embed_conventions c = {.size = sizeof c};
  done(ctx, embed_file_conventions(ctx, f, &c));
  assert_true(c.lookup_scale == 22.627417f && c.logit_scale == 1 && c.logit_softcap == 30 && c.norm_epsilon == 0);
  assert_int_equal(c.scale_round, EMBED_BF16);
  assert_int_equal(c.norm_flags, EMBED_NORM_LAYER);
  embed_table *back = open_table(ctx, f), *want = NULL;
  assert_int_equal(embed_table_vocab(back), 7);
  assert_int_equal(embed_table_row_bytes(back), 64);
  done(ctx, embed_table_convert(ctx, table, &as, &want));
  same_table(back, want, 64);
  const char *key, *value;
  int64_t bytes;
  done(ctx, embed_file_metadata(ctx, f, 0, &key, &value, &bytes));
  assert_string_equal(key, "k");
  done(ctx, embed_file_metadata(ctx, f, 1, &key, &value, &bytes));
  assert_string_equal(key, "tied.input");
  assert_int_equal(embed_file_metadata(ctx, f, 2, &key, &value, &bytes), EMBED_E_NOT_FOUND); /* ours are none */
  for (int id = 0; id < 7; ++id) {
    const char *token = embed_file_token(f, id, &bytes);
    if (!tokens[id]) assert_null(token);
    if (!tokens[id]) continue;
    assert_int_equal(bytes, lengths[id]);
    assert_memory_equal(token, tokens[id], (size_t)bytes + 1);
    done(ctx, embed_file_token_id(ctx, f, tokens[id], lengths[id], &i));
    assert_int_equal(i, id == 5 ? 0 : id);
  }
  assert_null(embed_file_token(f, 7, &bytes));
  assert_int_equal(embed_file_token_id(ctx, f, "b", 1, &i), EMBED_E_NOT_FOUND);
  assert_non_null(strstr(embed_file_notes(f), "1 rows repeat"));
  embed_table_release(back);
  embed_table_release(want);
  embed_table_release(table);
  embed_table_release(head);
  embed_file_release(f);
  embed_context_release(ctx);
  remove_folder();
}

static void wrong_keys_of_ours_are_refused_at_commit(void **state) {
  (void)state;
  static const char *const bad[][2] = {{"embed.role.token", "nobody"}, {"embed.role.tail", "t"},      {"embed.role.head", "t"},     {"embed.lookup_scale", "0"},
                                       {"embed.logit_scale", "x"},     {"embed.what", "1"},           {"embed.scale_round", "f64"}, {"embed.norm_flags", "1.5"},
                                       {"embed.logit_softcap", "-1"},  {"embed.lookup_scale", "inf"}, {"embed.norm_flags", "8"},    {"embed.norm_epsilon", ""}};
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_table *t = some_table(ctx, 4, 32, EMBED_F32, 0, 1);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    embed_writer *w = new_writer(ctx, in_folder("a.embed"), NULL);
    done(ctx, embed_writer_table(ctx, w, "t", t, NULL));
    done(ctx, embed_writer_metadata(ctx, w, bad[i][0], bad[i][1], (int64_t)strlen(bad[i][1])));
    if (embed_writer_commit(ctx, w) != EMBED_E_ARGUMENT) fail_msg("%s = %s is taken", bad[i][0], bad[i][1]);
    embed_writer_release(w);
    assert_int_equal(names_in_folder(), 0);
  }
  embed_table_release(t);
  embed_context_release(ctx);
  remove_folder();
}

/* An old file, and a writer that would replace it by 4 MB. */
typedef struct replacement {
  embed_context *ctx;
  embed_table *old, *new;
  embed_writer *w;
} replacement;

static void replacement_begin(replacement *r, embed_context *ctx, const char *name) {
  embed_writer_options small = {.size = sizeof small, .max_memory = 100000};
  r->ctx = ctx;
  r->old = some_table(ctx, 10, 32, EMBED_F32, 0, 1);
  r->new = some_table(ctx, 8000, 128, EMBED_F32, 0, 2);
  write_one(ctx, in_folder(name), "t", r->old, NULL);
  r->w = new_writer(ctx, in_folder(name), &small);
  done(ctx, embed_writer_table(ctx, r->w, "t", r->new, NULL));
}

static void file_holds(embed_context *ctx, const char *name, const embed_table *want) {
  embed_file *f = open_file(ctx, in_folder(name), NULL);
  embed_table *back = open_table(ctx, f);
  same_table(back, want, 0);
  embed_table_release(back);
  embed_file_release(f);
}

/* Nothing has changed; then what stood in the way is gone and the same writer succeeds. */
static void replacement_end(replacement *r, const char *name, int names) {
  file_holds(r->ctx, name, r->old);
  assert_int_equal(names_in_folder(), names);
  done(r->ctx, embed_writer_commit(r->ctx, r->w));
  file_holds(r->ctx, name, r->new);
  assert_int_equal(names_in_folder(), names);
  embed_writer_release(r->w);
  embed_table_release(r->old);
  embed_table_release(r->new);
}

static int32_t stop_third(void *arg, int64_t at, int64_t total) {
  int *calls = arg;
  assert_true(at >= 0 && at <= total && total == 8000 * 128 * 4);
  return ++*calls == 3;
}

static void a_cancelled_commit_leaves_the_old_file(void **state) {
  (void)state;
  int calls = 0;
  int32_t cancel = 0;
  embed_context *plain = new_context(NULL), *ctx = NULL;
  embed_context_options o = {.size = sizeof o, .progress = stop_third, .progress_arg = &calls, .cancel = &cancel};
  assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
  fresh_folder();
  replacement r;
  for (int how = 0; how < 2; ++how) {
    replacement_begin(&r, plain, "a.embed");
    int before = open_descriptors();
    calls = how ? 100 : 0;
    cancel = how;
    assert_int_equal(embed_writer_commit(ctx, r.w), EMBED_E_CANCELLED);
    assert_int_equal(open_descriptors(), before);
    replacement_end(&r, "a.embed", 1);
  }
  embed_context_release(ctx);
  embed_context_release(plain);
  remove_folder();
}

static void a_row_that_cannot_be_stored_leaves_the_old_file(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_table *old = some_table(ctx, 10, 32, EMBED_F32, 0, 1), *bad = some_table(ctx, 5000, 32, EMBED_F32, 0, 2);
  embed_table_options int8 = {.size = sizeof int8, .dtype = EMBED_I8_ROW};
  ((float *)embed_table_mutable_data(bad))[4321 * 32 + 5] = 1.0f / 0.0f;
  ((float *)embed_table_mutable_data(bad))[4444 * 32] = 1.0f / 0.0f;
  write_one(ctx, in_folder("a.embed"), "t", old, NULL);
  embed_writer *w = new_writer(ctx, in_folder("a.embed"), NULL);
  done(ctx, embed_writer_table(ctx, w, "t", bad, &int8));
  assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_NONFINITE);
  assert_int_equal(embed_error_at(ctx), 4321);
  embed_writer_release(w);
  file_holds(ctx, "a.embed", old);
  assert_int_equal(names_in_folder(), 1);
  embed_table_release(old);
  embed_table_release(bad);
  embed_context_release(ctx);
  remove_folder();
}

/* In a child of its own, because limits do not come back. */
static void a_limit_on_file_sizes_leaves_the_old_file(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  static const char *const names[] = {"a.embed", "a.safetensors", "a.npy"};
  for (int i = 0; i < 3; ++i) {
    replacement r;
    replacement_begin(&r, ctx, names[i]);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      struct rlimit limit = {1000001, 1000001};
      signal(SIGXFSZ, SIG_IGN);
      if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(77);
      errno = 1234;
      if (embed_writer_commit(ctx, r.w) != EMBED_E_IO) _exit(1);
      if (errno != 1234) _exit(2);
      _exit(strstr(embed_error_text(ctx), strerror(EFBIG)) ? 0 : 3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    replacement_end(&r, names[i], i + 1);
  }
  embed_context_release(ctx);
  remove_folder();
}

/* A small file system that fills up; needs root and a kernel that lets it mount one in a name space of its own. */
static void a_full_disk_leaves_the_old_file(void **state) {
  (void)state;
  fresh_folder();
  if (access("/bin/mount", X_OK) != 0 || geteuid() != 0) {
    remove_folder();
    skip();
  }
  char command[4600];
  snprintf(command, sizeof command, "mount -t tmpfs -o size=1m none '%s' 2>/dev/null", in_folder(""));
  if (system(command) != 0) {
    remove_folder();
    skip();
  }
  static const char *const formats[] = {"a.embed", "a.safetensors", "a.npy", "a.bin", "a.gguf", "a.npz", "a.vec", "a.fifu"};
  enum { FORMATS = sizeof formats / sizeof *formats };
  embed_context *ctx = new_context(NULL);
  embed_table *old = some_table(ctx, 10, 32, EMBED_F32, 0, 1), *new = some_table(ctx, 8000, 128, EMBED_F32, 0, 2);
  int refused = 0, told = 0;
  for (int i = 0; i < FORMATS; ++i)
    for (int again = 0; again < 2; ++again) {
      embed_table *t = again ? new : old;
      embed_writer *w = new_writer(ctx, in_folder(formats[i]), NULL);
      done(ctx, embed_writer_table(ctx, w, "t", t, NULL));
      for (int64_t id = 0; id < embed_table_rows(t); ++id) {
        char token[16];
        const int bytes = snprintf(token, sizeof token, "w%d", (int)id);
        if (embed_writer_token(ctx, w, id, token, bytes) == EMBED_E_UNSUPPORTED) break;
      }
      embed_status status = embed_writer_commit(ctx, w);
      if (!again && status != EMBED_OK) fail_msg("%s: %s", formats[i], embed_error_text(ctx));
      refused += status == EMBED_E_IO;
      told += strstr(embed_error_text(ctx), strerror(ENOSPC)) != NULL;
      embed_writer_release(w);
    }
  const int names = names_in_folder();
  for (int i = 0; i < FORMATS; ++i) file_holds(ctx, formats[i], old);
  snprintf(command, sizeof command, "umount '%s'", in_folder(""));
  assert_int_equal(system(command), 0);
  assert_int_equal(refused, FORMATS);
  assert_int_equal(told, FORMATS);
  assert_int_equal(names, FORMATS);
  embed_table_release(old);
  embed_table_release(new);
  embed_context_release(ctx);
  remove_folder();
}

static void places_that_cannot_be_written_fail_before_anything_is(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_writer *w = (embed_writer *)(uintptr_t)8;
  assert_int_equal(mkdir(in_folder("folder.embed"), 0700), 0);
  assert_int_equal(mkfifo(in_folder("fifo.embed"), 0600), 0);
  assert_int_equal(symlink("loop.embed", in_folder("loop.embed")), 0);
  static const char *const paths[] = {"nowhere/a.embed", "folder.embed", "fifo.embed", "loop.embed", "fifo.embed/a.embed"};
  char longest[300];
  memset(longest, 'a', sizeof longest);
  memcpy(longest + 290, ".embed", 7);
  for (size_t i = 0; i < sizeof paths / sizeof *paths; ++i) {
    errno = 1234;
    if (embed_writer_create(ctx, in_folder(paths[i]), NULL, &w) != EMBED_E_IO) fail_msg("%s can be written", paths[i]);
    assert_int_equal(errno, 1234);
    assert_null(w);
  }
  assert_int_equal(embed_writer_create(ctx, in_folder(longest), NULL, &w), EMBED_E_IO);
  embed_writer_options npy = {.size = sizeof npy, .format = "npy"};
  assert_int_equal(embed_writer_create(ctx, "/dev/full", &npy, &w), EMBED_E_IO); /* a rename would replace the device */
  assert_int_equal(embed_writer_create(ctx, "", &npy, &w), EMBED_E_IO);
  /* A folder that lost its permission between create and commit; root may write anyway. */
  embed_table *t = some_table(ctx, 4, 32, EMBED_F32, 0, 1);
  assert_int_equal(mkdir(in_folder("shut"), 0700), 0);
  w = new_writer(ctx, in_folder("shut/a.embed"), NULL);
  done(ctx, embed_writer_table(ctx, w, "t", t, NULL));
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    embed_writer *other = NULL;
    if (geteuid() == 0 && (chmod(TEST_BINARY_DIR, 0755) != 0 || chmod(in_folder(""), 0755) != 0 || setegid(65534) != 0 || seteuid(65534) != 0)) _exit(0);
    if (geteuid() != 65534 && chmod(in_folder("shut"), 0500) != 0) _exit(0);
    if (embed_writer_create(ctx, in_folder("shut/b.embed"), NULL, &other) != EMBED_E_IO) _exit(1);
    if (embed_writer_commit(ctx, w) != EMBED_E_IO) _exit(2);
    _exit(strstr(embed_error_text(ctx), strerror(EACCES)) ? 0 : 3);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(WEXITSTATUS(status), 0);
  embed_writer_release(w);
  embed_table_release(t);
  embed_context_release(ctx);
  (void)chmod(in_folder("shut"), 0700);
  assert_int_equal(rmdir(in_folder("shut")), 0); /* nothing in it */
  remove_folder();
}

static void links_stay_and_permissions_are_kept(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  struct stat about = {0};
  fresh_folder();
  embed_table *t = some_table(ctx, 10, 32, EMBED_F32, 0, 1), *u = some_table(ctx, 20, 32, EMBED_F32, 0, 2);
  mode_t mask = umask(027);
  write_one(ctx, in_folder("a.npy"), "t", t, NULL);
  umask(mask);
  assert_int_equal(stat(in_folder("a.npy"), &about), 0);
  assert_int_equal(about.st_mode & 07777, 0640);
  assert_int_equal(chmod(in_folder("a.npy"), 0604), 0);
  assert_int_equal(mkdir(in_folder("sub"), 0700), 0);
  assert_int_equal(symlink("../a.npy", in_folder("sub/b.npy")), 0);
  assert_int_equal(symlink("sub/b.npy", in_folder("c.npy")), 0);
  assert_int_equal(symlink(in_folder("new.npy"), in_folder("dangling.npy")), 0);
  write_one(ctx, in_folder("c.npy"), "t", u, NULL);
  assert_int_equal(lstat(in_folder("c.npy"), &about), 0);
  assert_true(S_ISLNK(about.st_mode));
  assert_int_equal(lstat(in_folder("a.npy"), &about), 0);
  assert_true(S_ISREG(about.st_mode));
  assert_int_equal(about.st_mode & 07777, 0604);
  file_holds(ctx, "a.npy", u);
  write_one(ctx, in_folder("dangling.npy"), "t", t, NULL);
  file_holds(ctx, "new.npy", t);
  assert_int_equal(names_in_folder(), 5);
  embed_table_release(t);
  embed_table_release(u);
  embed_context_release(ctx);
  remove_folder();
}

static void a_file_can_be_rewritten_from_itself(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_table *t = some_table(ctx, 1000, 32, EMBED_F32, 0, 1), *want = NULL;
  embed_table_options f16 = {.size = sizeof f16, .dtype = EMBED_F16};
  done(ctx, embed_table_convert(ctx, t, &f16, &want));
  write_one(ctx, in_folder("a.npy"), "t", t, NULL);
  embed_file *f = open_file(ctx, in_folder("a.npy"), NULL);
  embed_table *mapped = open_table(ctx, f);
  write_one(ctx, in_folder("a.npy"), "t", mapped, &f16);
  same_table(mapped, t, 0); /* still there, still the old one */
  file_holds(ctx, "a.npy", want);
  embed_table_release(mapped);
  embed_file_release(f);
  embed_table_release(t);
  embed_table_release(want);
  embed_context_release(ctx);
  remove_folder();
}

static void every_failed_allocation_is_clean(void **state) {
  (void)state;
  static const struct {
    const char *name;
    bool tokens, pairs;
  } formats[] = {{"a.embed", true, true}, {"a.safetensors", false, true}, {"a.npy", false, false}, {"a.bin", true, false},
                 {"a.gguf", true, true},  {"a.npz", false, false},        {"a.vec", true, false},  {"a.fifu", true, false}};
  fresh_folder();
  embed_context *plain = new_context(NULL);
  embed_table *t = some_table(plain, 4, 32, EMBED_F16, 0, 1);
  embed_table_options f32 = {.size = sizeof f32};
  for (int n = 0; n < 8; ++n)
    for (int64_t k = 1;; ++k) {
      counting c = {.fail_at = 0};
      embed_context *ctx = counting_context(&c);
      embed_writer *w = NULL;
      c.fail_at = c.calls + k;
      embed_status status = embed_writer_create(ctx, in_folder(formats[n].name), NULL, &w);
      if (status == EMBED_OK) status = embed_writer_table(ctx, w, "t", t, &f32);
      for (int64_t i = 0; i < 4 && status == EMBED_OK && formats[n].tokens; ++i) status = embed_writer_token(ctx, w, i, "abcd", i + 1);
      if (status == EMBED_OK && formats[n].pairs) status = embed_writer_metadata(ctx, w, "k", "v", 1);
      if (status == EMBED_OK && formats[n].pairs) status = embed_writer_alias(ctx, w, "head", "t");
      if (status == EMBED_OK) status = embed_writer_commit(ctx, w);
      bool whole = c.calls < c.fail_at;
      embed_writer_release(w);
      embed_context_release(ctx);
      assert_int_equal(c.blocks, 0);
      assert_int_equal(c.bytes, 0);
      assert_int_equal(status, whole ? EMBED_OK : EMBED_E_MEMORY);
      assert_int_equal(names_in_folder(), n + whole);
      if (whole) break;
      assert_true(k < 100);
    }
  embed_table_release(t);
  embed_context_release(plain);
  remove_folder();
}

static void tokens_of_a_file_are_copied_or_refused_together(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  embed_table *t = some_table(ctx, 3, 32, EMBED_F32, 0, 1);
  for (int blank = 0; blank < 2; ++blank) {
    embed_writer *w = new_writer(ctx, in_folder("from.embed"), NULL);
    done(ctx, embed_writer_table(ctx, w, "t", t, NULL));
    done(ctx, embed_writer_token(ctx, w, 0, "a", 1));
    done(ctx, embed_writer_token(ctx, w, 1, "b", 1));
    done(ctx, embed_writer_token(ctx, w, 2, blank ? "c d" : "cd", blank ? 3 : 2));
    done(ctx, embed_writer_commit(ctx, w));
    embed_writer_release(w);
    embed_file *f = open_file(ctx, in_folder("from.embed"), NULL);
    w = new_writer(ctx, in_folder("to.bin"), NULL);
    done(ctx, embed_writer_table(ctx, w, "t", t, NULL));
    if (blank) {
      assert_int_equal(embed_writer_tokens(ctx, w, f), EMBED_E_ARGUMENT);
      assert_int_equal(embed_error_at(ctx), 2);
      assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_ARGUMENT); /* row 0 has none */
      assert_int_equal(embed_error_at(ctx), 0);
    } else {
      done(ctx, embed_writer_tokens(ctx, w, f));
      assert_int_equal(embed_writer_tokens(ctx, w, f), EMBED_E_ARGUMENT);
      done(ctx, embed_writer_commit(ctx, w));
      embed_file *back = open_file(ctx, in_folder("to.bin"), NULL);
      assert_string_equal(embed_file_token(back, 2, NULL), "cd");
      embed_file_release(back);
    }
    embed_writer_release(w);
    embed_file_release(f);
  }
  embed_table_release(t);
  embed_context_release(ctx);
  remove_folder();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_dtype_comes_back_from_embed_bit_for_bit),
    cmocka_unit_test(floats_come_back_from_every_format_that_holds_them),
    cmocka_unit_test(word2vec_comes_back_with_its_tokens),
    cmocka_unit_test(tokens_that_word2vec_cannot_read_back_are_refused),
    cmocka_unit_test(what_a_format_cannot_hold_is_refused_by_name),
    cmocka_unit_test(misuse_is_refused),
    cmocka_unit_test(a_tied_pair_is_written_once_and_comes_back_tied),
    cmocka_unit_test(safetensors_files_are_as_the_format_says),
    cmocka_unit_test(embed_keeps_vocab_strides_tokens_roles_and_conventions),
    cmocka_unit_test(wrong_keys_of_ours_are_refused_at_commit),
    cmocka_unit_test(a_cancelled_commit_leaves_the_old_file),
    cmocka_unit_test(a_row_that_cannot_be_stored_leaves_the_old_file),
    cmocka_unit_test(a_limit_on_file_sizes_leaves_the_old_file),
    cmocka_unit_test(a_full_disk_leaves_the_old_file),
    cmocka_unit_test(places_that_cannot_be_written_fail_before_anything_is),
    cmocka_unit_test(links_stay_and_permissions_are_kept),
    cmocka_unit_test(a_file_can_be_rewritten_from_itself),
    cmocka_unit_test(every_failed_allocation_is_clean),
    cmocka_unit_test(tokens_of_a_file_are_copied_or_refused_together),
};
TEST_MAIN(tests)
