/* SPDX-License-Identifier: BSD-3-Clause */
/* Tokens that lie beside a model: tokenizer.json, vocab.txt. Which ids they get, what is noted, and that a broken one never makes a good
 * file fail. */
#include "writing.h"
#include "zip_file.h"

enum { ROWS = 5, DIM = 4 };

/* The folder holds a.safetensors (or a.npz) with a token table of ROWS rows, and nothing else. */
static void make_model(embed_context *ctx, const char *name, const char *table) {
  embed_table *t = some_table(ctx, ROWS, DIM, EMBED_F32, 0, 1);
  fresh_folder();
  embed_writer *w = new_writer(ctx, in_folder(name), NULL);
  done(ctx, embed_writer_table(ctx, w, table, t, NULL));
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  embed_table_release(t);
}

static void put(const char *name, const char *text, size_t bytes) {
  (void)unlink(in_folder(name)); /* ext4 writes a truncated file out at its close */
  FILE *out = fopen(in_folder(name), "wbe");
  assert_non_null(out);
  assert_int_equal(fwrite(text, 1, bytes, out), bytes);
  assert_int_equal(fclose(out), 0);
}

static void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

static const char *const none = "none"; /* as a token: the id has none */

/* The tokens of ids 0 to ROWS - 1; want[0] NULL = the file names none at all. */
static void tokens_are(embed_context *ctx, const embed_file *f, const char *const want[ROWS], const char *of) {
  for (int64_t id = 0; id < ROWS; ++id) {
    int64_t bytes = -1, found = -1;
    const char *token = embed_file_token(f, id, &bytes);
    if (!want[0] || !want[id] || want[id] == none) {
      if (token || bytes != 0) fail_msg("%s: id %d has the token \"%s\"", of, (int)id, token);
      continue;
    }
    if (!token || bytes != (int64_t)strlen(want[id]) || strcmp(token, want[id]) != 0)
      fail_msg("%s: id %d has the token \"%s\", not \"%s\": %s", of, (int)id, token ? token : "(none)", want[id], embed_file_notes(f));
    done(ctx, embed_file_token_id(ctx, f, want[id], bytes, &found));
    assert_true(found <= id);
    assert_string_equal(embed_file_token(f, found, NULL), want[id]);
  }
  assert_null(embed_file_token(f, ROWS, NULL));
  assert_null(embed_file_token(f, -1, NULL));
}

/* Whatever the tokens are: all rows stay ids. */
static embed_file *open_model(embed_context *ctx) {
  embed_file *f = open_file(ctx, in_folder("a.safetensors"), NULL);
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_vocab(t), ROWS);
  assert_int_equal(embed_table_rows(t), ROWS);
  assert_int_equal(embed_error_at(ctx), -1);
  embed_table_release(t);
  return f;
}

static void notes_are(const embed_file *f, const char *says, const char *of) {
  const char *name = strstr(of, "vocab.txt") ? "vocab.txt: " : "tokenizer.json: ";
  if (says && (!strstr(embed_file_notes(f), says) || !strstr(embed_file_notes(f), name))) fail_msg("%s: %s", of, embed_file_notes(f));
}

#define ADDED(id, content) "{\"id\":" #id ",\"content\":\"" content "\",\"single_word\":false,\"lstrip\":[{}],\"special\":true}"

static void each_kind_of_model_names_its_tokens(void **state) {
  (void)state;
  static const struct {
    const char *json, *tokens[ROWS], *note; /* NULL = that all rows have a token is all */
  } cases[] = {
      {"{\"version\":\"1.0\",\"truncation\":null,\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"a\",\"vocab\":{\"a\":0,\"##b\":1,\"c\":2,\"d\":3,\"e\":4}}}",
       {"a", "##b", "c", "d", "e"},
       NULL},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"e\":4,\"\\u0120d\":3,\"c\\\"\":2,\"\\ud83d\\ude00\":1,\"\":0},\"merges\":[\"a b\",[\"c\",\"d\"]]}}",
       {"", "\xF0\x9F\x98\x80", "c\"",
        "\xC4\xA0"
        "d",
        "e"},
       NULL},
      {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"<pad>\",0.0],[\"<unk>\",0],[\",\",-3.46],[\"\xE2\x96\x81\",-1e3],[\"s\",-5]]}}",
       {"<pad>", "<unk>", ",", "\xE2\x96\x81", "s"},
       NULL},
      /* Added tokens: further ids, the same as the model's, others than the model's. */
      {"{\"added_tokens\":[" ADDED(3, "<x>") "," ADDED(4, "<y>") "," ADDED(0, "a") "],\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"c\":2}}}",
       {"a", "b", "c", "<x>", "<y>"},
       NULL},
      {"{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"e\":4}},\"added_tokens\":[" ADDED(1, "<x>") "]}",
       {"a", "<x>", "c", "d", "e"},
       "1 tokens share their id with another, which has it"},
      {"{\"added_tokens\":[" ADDED(1, "<x>") "," ADDED(1, "<y>") "],\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"e\":4}}}",
       {"a", "<x>", "c", "d", "e"},
       "2 tokens share their id with another"},
      {"{\"added_tokens\":null,\"model\":{\"vocab\":{\"a\":0,\"b\":0,\"c\":2,\"d\":3,\"e\":4}}}", {"a", none, "c", "d", "e"}, "1 tokens share their id"},
      /* Ids that are left out, and too many of them. */
      {"{\"model\":{\"vocab\":{\"a\":0,\"b\":1}}}", {"a", "b"}, "3 rows have no token: padding, or ids that it does not name"},
      {"{\"model\":{\"vocab\":{\"e\":4,\"b\":1}}}", {none, "b", none, none, "e"}, "3 rows have no token"},
      {"{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"e\":4,\"f\":5,\"g\":9223372036854775807}}}",
       {"a", "b", "c", "d", "e"},
       "2 tokens have ids past the rows and are left out"},
      {"{\"model\":{\"vocab\":[[\"a\",0],[\"b\",0],[\"a\",0],[\"d\",0],[\"e\",0]]}}",
       {"a", "b", "a", "d", "e"},
       "1 tokens stand for the second time, the lowest row has them"},
  };
  embed_context *ctx = new_context(NULL);
  make_model(ctx, "a.safetensors", "model.embed_tokens.weight");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    put_text("tokenizer.json", cases[i].json);
    embed_file *f = open_model(ctx);
    tokens_are(ctx, f, cases[i].tokens, cases[i].json);
    notes_are(f, cases[i].note ? cases[i].note : "5 tokens are those of this file, which lies beside", cases[i].json);
    assert_int_equal(strstr(embed_file_notes(f), "share their id") != NULL, cases[i].note && strstr(cases[i].note, "share their id") != NULL);
    assert_int_equal(strstr(embed_file_notes(f), "left out") != NULL, cases[i].note && strstr(cases[i].note, "left out") != NULL);
    embed_file_release(f);
  }
  remove_folder();
  embed_context_release(ctx);
}

/* The token of an id that has none is not the empty token. */
static void a_left_out_id_has_no_token_and_is_not_found(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  int64_t id = 42;
  make_model(ctx, "a.safetensors", "model.embed_tokens.weight");
  put_text("tokenizer.json", "{\"model\":{\"vocab\":{\"a\":0,\"e\":4}}}");
  embed_file *f = open_model(ctx);
  assert_int_equal(embed_file_token_id(ctx, f, "", 0, &id), EMBED_E_NOT_FOUND);
  assert_int_equal(id, 42);
  embed_file_release(f);
  put_text("tokenizer.json", "{\"model\":{\"vocab\":{\"a\":0,\"\":3,\"e\":4}}}");
  f = open_model(ctx);
  done(ctx, embed_file_token_id(ctx, f, "", 0, &id));
  assert_int_equal(id, 3);
  embed_file_release(f);
  remove_folder();
  embed_context_release(ctx);
}

static void lines_of_a_vocabulary_are_ids(void **state) {
  (void)state;
  static const struct {
    const char *text, *tokens[ROWS], *note;
  } cases[] = {
      {"[PAD]\na\n##b\nc d\ne\n", {"[PAD]", "a", "##b", "c d", "e"}, NULL},
      {"[PAD]\r\na\r\n##b\r\nc\rd\r\ne\r\n", {"[PAD]", "a", "##b", "c\rd", "e"}, NULL},
      {"a\nb\nc\nd\ne", {"a", "b", "c", "d", "e"}, NULL},
      {"a\n\nc\n\ne\n", {"a", "", "c", "", "e"}, "1 tokens stand for the second time"},
      {"a\nb\n", {"a", "b"}, "3 rows have no token"},
      {"a\nb\nc\nd\ne\nf\ng\n", {"a", "b", "c", "d", "e"}, "2 tokens have ids past the rows"},
      {"\xFF\n\x01\nc\nd\ne\n", {"\xFF", "\x01", "c", "d", "e"}, NULL},
      {"\n", {""}, "4 rows have no token"},
  };
  embed_context *ctx = new_context(NULL);
  make_model(ctx, "a.safetensors", "model.embed_tokens.weight");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    put_text("vocab.txt", cases[i].text);
    embed_file *f = open_model(ctx);
    tokens_are(ctx, f, cases[i].tokens, cases[i].text);
    if (cases[i].note && !strstr(embed_file_notes(f), cases[i].note)) fail_msg("%s: %s", cases[i].text, embed_file_notes(f));
    assert_non_null(strstr(embed_file_notes(f), "vocab.txt: "));
    embed_file_release(f);
  }
  put("vocab.txt", "a\0b\nc\n", 6);
  embed_file *f = open_model(ctx);
  int64_t bytes = 0;
  assert_memory_equal(embed_file_token(f, 0, &bytes), "a\0b", 4);
  assert_int_equal(bytes, 3);
  embed_file_release(f);
  remove_folder();
  embed_context_release(ctx);
}

static const char *const abc[ROWS] = {"a", "b", "c", "d", "e"}, *const lines[ROWS] = {"v", "w", "x", "y", "z"}, *const nothing[ROWS] = {NULL};
static const char good[] = "{\"added_tokens\":[" ADDED(4, "e") "],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3},\"merges\":[]}}";

static void a_tokenizer_comes_before_a_vocabulary(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  make_model(ctx, "a.safetensors", "model.embed_tokens.weight");
  embed_file *f = open_model(ctx);
  tokens_are(ctx, f, nothing, "no file");
  assert_null(strstr(embed_file_notes(f), "token has")); /* nothing is said of what is not there */
  embed_file_release(f);
  put_text("vocab.txt", "v\nw\nx\ny\nz\n");
  put_text("tokenizer.json", good);
  f = open_model(ctx);
  tokens_are(ctx, f, abc, "both");
  embed_file_release(f);
  put_text("tokenizer.json", "{\"model\":{\"vocab\":{\"a\":0}"); /* cut short: noted, and the other one serves */
  f = open_model(ctx);
  tokens_are(ctx, f, lines, "a broken one and a good one");
  assert_non_null(strstr(embed_file_notes(f), "tokenizer.json: the JSON ends at byte 25"));
  embed_file_release(f);
  remove_folder();
  embed_context_release(ctx);
}

static void a_broken_tokenizer_is_noted_and_not_used(void **state) {
  (void)state;
  static const struct {
    const char *json, *why;
  } cases[] = {
      {"[]", "the JSON should have an object at byte 0"},
      {"{}", "the JSON should have the vocabulary of a model"},
      {"{\"model\":{}}", "the vocabulary of a model"},
      {"{\"model\":[]}", "the model as an object at byte 9"},
      {"{\"model\":{\"vocab\":7}}", "the vocabulary as an object or an array at byte 18"},
      {"{\"model\":{\"vocab\":{}}}", "it names no token of the 5 rows"},
      {"{\"model\":{\"vocab\":{\"a\":9}}}", "it names no token of the 5 rows"},
      {"{\"model\":{\"vocab\":{\"a\":-1}}}", "an id that is not negative at byte 23"},
      {"{\"model\":{\"vocab\":{\"a\":1.0}}}", "the id of a token at byte 23"},
      {"{\"model\":{\"vocab\":{\"a\":\"1\"}}}", "the id of a token at byte 23"},
      {"{\"model\":{\"vocab\":{\"a\":9223372036854775808}}}", "does not fit into 64 bits"},
      {"{\"model\":{\"vocab\":{\"a\":0,\"a\":1}}}", "has the key \"a\" at byte 25 for the second time"},
      {"{\"model\":{\"vocab\":[\"a\"]}}", "a token and its score at byte 19"},
      {"{\"model\":{\"vocab\":[[\"a\"]]}}", "the score of a token at byte 23"},
      {"{\"model\":{\"vocab\":[[1,2]]}}", "a token at byte 20"},
      {"{\"model\":{\"vocab\":[[\"a\",1,2]]}}", "the end of a token and its score"},
      {"{\"added_tokens\":{},\"model\":{\"vocab\":{\"a\":0}}}", "an array of added tokens at byte 16"},
      {"{\"added_tokens\":[7],\"model\":{\"vocab\":{\"a\":0}}}", "an added token at byte 17"},
      {"{\"added_tokens\":[{\"id\":1}],\"model\":{\"vocab\":{\"a\":0}}}", "the id and content of an added token"},
      {"{\"added_tokens\":[{\"content\":\"x\"}],\"model\":{\"vocab\":{\"a\":0}}}", "the id and content of an added token"},
      {"{\"added_tokens\":[{\"content\":7,\"id\":1}],\"model\":{\"vocab\":{\"a\":0}}}", "the content of a token at byte 28"},
      {"{\"model\":{\"vocab\":{\"a\":0}}} x", "nothing behind its value"},
      {"{\"model\":{\"vocab\":{\"\xFF\":0}}}", "UTF-8 at byte 20"},
      {"version https://git-lfs.github.com/spec/v1\n", "a value at byte 0"},
  };
  embed_context *ctx = new_context(NULL);
  make_model(ctx, "a.safetensors", "model.embed_tokens.weight");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    put_text("tokenizer.json", cases[i].json);
    embed_file *f = open_model(ctx);
    tokens_are(ctx, f, nothing, cases[i].json);
    notes_are(f, cases[i].why, cases[i].json);
    assert_non_null(strstr(embed_file_notes(f), ": it is not used"));
    embed_file_release(f);
  }
  remove_folder();
  embed_context_release(ctx);
}

/* Folders, FIFOs, empty files, links to nowhere; and one that is longer than the caller lets a header be. */
static void what_is_no_readable_file_is_noted(void **state) {
  (void)state;
  static const char *const names[] = {"tokenizer.json", "vocab.txt"};
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 2; ++i) {
    make_model(ctx, "a.safetensors", "model.embed_tokens.weight");
    for (int kind = 0; kind < 4; ++kind) {
      if (kind == 0) put(names[i], "", 0);
      if (kind == 1) assert_int_equal(mkdir(in_folder(names[i]), 0700), 0);
      if (kind == 2) assert_int_equal(mkfifo(in_folder(names[i]), 0600), 0);
      if (kind == 3) assert_int_equal(symlink("nowhere", in_folder(names[i])), 0);
      embed_file *f = open_model(ctx);
      tokens_are(ctx, f, nothing, names[i]);
      assert_int_equal(strstr(embed_file_notes(f), ": it is not used") != NULL, kind < 3);
      embed_file_release(f);
      assert_int_equal(kind == 1 ? rmdir(in_folder(names[i])) : unlink(in_folder(names[i])), 0);
    }
  }
  static char large[4001];
  memset(large, ' ', sizeof large - 1);
  memcpy(large, good, sizeof good - 1);
  for (int more = 0; more < 2; ++more) {
    const embed_file_options o = {.size = sizeof o, .max_header = 4000};
    put("tokenizer.json", large, 4000 + (size_t)more);
    embed_file *f = open_file(ctx, in_folder("a.safetensors"), &o);
    tokens_are(ctx, f, more ? nothing : abc, "a long one");
    assert_int_equal(strstr(embed_file_notes(f), "tokenizer.json: it has 4001 bytes, at most 4000 are read: it is not used") != NULL, more);
    embed_file_release(f);
  }
  remove_folder();
  embed_context_release(ctx);
}

/* Any byte of it changed, and cut short anywhere: the file opens, and its tokens can be asked. */
static void no_change_of_a_tokenizer_makes_a_file_fail(void **state) {
  (void)state;
  static const char values[] = "\x01\xff \"',-019:[]{}\\eEnulx\n\r";
  static const char *const texts[] = {good, "{\"model\":{\"vocab\":[[\"a\",-1.5],[\"\\u00e9\",0]]}}", "a\r\nb\n\nd"};
  char bad[sizeof good];
  embed_context *ctx = new_context(NULL);
  make_model(ctx, "a.safetensors", "model.embed_tokens.weight");
  for (int k = 0; k < 3; ++k) {
    const size_t bytes = strlen(texts[k]);
    const char *name = k == 2 ? "vocab.txt" : "tokenizer.json";
    for (size_t i = 0; i < bytes; ++i)
      for (size_t v = 0; v < sizeof values; ++v) {
        memcpy(bad, texts[k], bytes);
        bad[i] = values[v];
        put(name, bad, v == 0 ? i : bytes); /* cut short, too */
        embed_file *f = open_model(ctx);
        for (int64_t id = 0; id < ROWS; ++id) {
          int64_t length = -1, found = -1;
          const char *token = embed_file_token(f, id, &length);
          if (!token) continue;
          assert_int_equal(token[length], 0);
          done(ctx, embed_file_token_id(ctx, f, token, length, &found));
          assert_true(found >= 0 && found <= id);
        }
        embed_file_release(f);
      }
    assert_int_equal(unlink(in_folder(name)), 0);
  }
  remove_folder();
  embed_context_release(ctx);
}

static void every_failed_allocation_is_clean(void **state) {
  (void)state;
  embed_context *plain = new_context(NULL);
  make_model(plain, "a.safetensors", "model.embed_tokens.weight");
  embed_context_release(plain);
  for (int kind = 0; kind < 2; ++kind) {
    put_text(kind ? "vocab.txt" : "tokenizer.json", kind ? "a\nb\nc\nd\ne\n" : good);
    for (int64_t k = 1;; ++k) {
      counting c = {.fail_at = 0};
      embed_context *ctx = counting_context(&c);
      embed_file *f = NULL;
      c.fail_at = c.calls + k;
      embed_status status = embed_file_open(ctx, in_folder("a.safetensors"), NULL, &f);
      const int whole = c.calls < c.fail_at;
      if (f) tokens_are(ctx, f, abc, "after failures");
      embed_file_release(f);
      embed_context_release(ctx);
      assert_int_equal(c.blocks, 0);
      assert_int_equal(status, whole ? EMBED_OK : EMBED_E_MEMORY);
      if (whole) break;
      assert_true(k < 50);
    }
    assert_int_equal(unlink(in_folder(kind ? "vocab.txt" : "tokenizer.json")), 0);
  }
  remove_folder();
}

/* Shards have it too. Files that hold their tokens themselves, or plain vectors, have nothing of it; any npz only a vocabulary that has a
 * line for each of its rows. */
static void it_belongs_to_models_without_tokens(void **state) {
  (void)state;
  static const char index[] = "{\"weight_map\":{\"model.embed_tokens.weight\":\"a.safetensors\"}}";
  embed_context *ctx = new_context(NULL);
  make_model(ctx, "a.safetensors", "model.embed_tokens.weight");
  put_text("tokenizer.json", good);
  put_text("model.safetensors.index.json", index);
  embed_file *f = open_file(ctx, in_folder("model.safetensors.index.json"), NULL);
  tokens_are(ctx, f, abc, "shards");
  embed_table *t = open_table(ctx, f);
  embed_writer *w = new_writer(ctx, in_folder("b.embed"), NULL);
  done(ctx, embed_writer_table(ctx, w, "model.embed_tokens.weight", t, NULL));
  done(ctx, embed_writer_tokens(ctx, w, f)); /* they are the file's as any other's are */
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  embed_file_release(f);
  put_text("tokenizer.json", "{\"model\":{\"vocab\":{\"other\":0}}}");
  f = open_file(ctx, in_folder("b.embed"), NULL);
  tokens_are(ctx, f, abc, ".embed");
  embed_file_release(f);
  embed_table_release(t);
  fresh_folder();
  static const unsigned char storage[48] = {0};
  pk_state_dict(); /* a table of three rows */
  torch_archive(NULL, storage, sizeof storage);
  put("pytorch_model.bin", (const char *)zf, zf_count);
  put_text("vocab.txt", "a\nb\nc\nd\n");
  f = open_file(ctx, in_folder("pytorch_model.bin"), NULL);
  assert_string_equal(embed_file_format(f), "pytorch");
  assert_string_equal(embed_file_token(f, 2, NULL), "c");
  assert_null(embed_file_token(f, 3, NULL));
  assert_non_null(strstr(embed_file_notes(f), "vocab.txt: 1 tokens have ids past the rows and are left out"));
  embed_file_release(f);
  make_model(ctx, "a.npy", "array");
  put_text("vocab.txt", "a\nb\nc\nd\ne\n");
  f = open_file(ctx, in_folder("a.npy"), NULL);
  tokens_are(ctx, f, nothing, "npy");
  embed_file_release(f);
  make_model(ctx, "a.npz", "E");
  for (int lack = 0; lack < 2; ++lack) {
    put_text("vocab.txt", lack ? "a\nb\nc\nd\n" : "a\nb\nc\nd\ne\n");
    put_text("tokenizer.json", good);
    f = open_file(ctx, in_folder("a.npz"), NULL);
    tokens_are(ctx, f, lack ? nothing : abc, "npz");
    assert_null(strstr(embed_file_notes(f), "tokenizer.json"));
    assert_int_equal(strstr(embed_file_notes(f), "vocab.txt: it has not a line for each of the 5 rows: it is not used") != NULL, lack);
    embed_file_release(f);
  }
  remove_folder();
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_kind_of_model_names_its_tokens),
    cmocka_unit_test(a_left_out_id_has_no_token_and_is_not_found),
    cmocka_unit_test(lines_of_a_vocabulary_are_ids),
    cmocka_unit_test(a_tokenizer_comes_before_a_vocabulary),
    cmocka_unit_test(a_broken_tokenizer_is_noted_and_not_used),
    cmocka_unit_test(what_is_no_readable_file_is_noted),
    cmocka_unit_test(no_change_of_a_tokenizer_makes_a_file_fail),
    cmocka_unit_test(every_failed_allocation_is_clean),
    cmocka_unit_test(it_belongs_to_models_without_tokens),
};
TEST_MAIN(tests)
