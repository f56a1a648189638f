/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of a file: roles by names and shapes, ties by content, conventions of families. I1 to I9 and TI, LK: the reports of
 * other projects that a test answers. */
#include "files.h"

#include <math.h>

/* Files made here, a piece at a time. */
typedef struct maker {
  unsigned char bytes[1 << 22];
  size_t count;
} maker;

static maker made, data; /* a file and the numbers of its tensors */

static void put(maker *m, const void *bytes, size_t count) {
  assert_true(m->count + count <= sizeof m->bytes);
  memcpy(m->bytes + m->count, bytes, count);
  m->count += count;
}

static void put_number(maker *m, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) put(m, &(unsigned char){(unsigned char)(value >> (8 * i))}, 1);
}

static void put_float(maker *m, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_number(m, bits, 4);
}

/* [rows, dim] (rows 0: [dim]) of float32: value i is start + i * step. */
typedef struct tensor {
  const char *name;
  int64_t rows, dim;
  float start, step;
} tensor;

static void put_values(const tensor *t) {
  for (int64_t i = 0; i < (t->rows ? t->rows : 1) * t->dim; ++i) put_float(&data, t->start + (float)i * t->step);
}

enum { MAX_TENSORS = 8 };

/* Up to the first without a name. metadata: JSON pairs, or NULL. */
static const char *safetensors(const char *metadata, const tensor *tensors) {
  static char header[1 << 14];
  char *at = header, *end = header + sizeof header;
  data.count = made.count = 0;
  at += snprintf(at, (size_t)(end - at), "{");
  if (metadata) at += snprintf(at, (size_t)(end - at), "\"__metadata__\":{%s},", metadata);
  for (int i = 0; i < MAX_TENSORS && tensors[i].name; ++i) {
    const tensor *t = &tensors[i];
    size_t begin = data.count;
    char shape[64];
    put_values(t);
    if (t->rows)
      snprintf(shape, sizeof shape, "%lld,%lld", (long long)t->rows, (long long)t->dim);
    else
      snprintf(shape, sizeof shape, "%lld", (long long)t->dim);
    at += snprintf(at, (size_t)(end - at), "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", i ? "," : "", t->name, shape, begin,
                   data.count);
  }
  at += snprintf(at, (size_t)(end - at), "}");
  assert_true(at < end);
  put_number(&made, (uint64_t)(at - header), 8);
  put(&made, header, (size_t)(at - header));
  put(&made, data.bytes, data.count);
  return write_file("roles.safetensors", made.bytes, made.count);
}

static void put_string(maker *m, const char *s) {
  put_number(m, strlen(s), 8);
  put(m, s, strlen(s));
}

enum { GGUF_U32 = 4, GGUF_F32 = 6, GGUF_STRING = 8, GGUF_ARRAY = 9 };

/* A pair of GGUF's metadata: text, or a float, or (tokens > 0) an array of the strings "t0", "t1", ... */
typedef struct pair {
  const char *key, *text;
  float number;
  uint32_t integer;
  int tokens;
} pair;

static void put_pair(const pair *p) {
  put_string(&made, p->key);
  if (p->text) {
    put_number(&made, GGUF_STRING, 4);
    put_string(&made, p->text);
  } else if (p->tokens) {
    put_number(&made, GGUF_ARRAY, 4);
    put_number(&made, GGUF_STRING, 4);
    put_number(&made, (uint64_t)p->tokens, 8);
    for (int i = 0; i < p->tokens; ++i) {
      char token[16];
      snprintf(token, sizeof token, "t%d", i);
      put_string(&made, token);
    }
  } else if (p->integer) {
    put_number(&made, GGUF_U32, 4);
    put_number(&made, p->integer, 4);
  } else {
    put_number(&made, GGUF_F32, 4);
    put_float(&made, p->number);
  }
}

static void pad(maker *m) {
  while (m->count % 32) put_number(m, 0, 1);
}

static const char *gguf(const pair *pairs, const tensor *tensors) {
  int tensor_count = 0, pair_count = 0;
  while (tensor_count < MAX_TENSORS && tensors[tensor_count].name) ++tensor_count;
  while (pairs[pair_count].key) ++pair_count;
  data.count = made.count = 0;
  put(&made, "GGUF", 4);
  put_number(&made, 3, 4);
  put_number(&made, (uint64_t)tensor_count, 8);
  put_number(&made, (uint64_t)pair_count, 8);
  for (int i = 0; i < pair_count; ++i) put_pair(&pairs[i]);
  for (int i = 0; i < tensor_count; ++i) {
    const tensor *t = &tensors[i];
    put_string(&made, t->name);
    put_number(&made, t->rows ? 2 : 1, 4);
    put_number(&made, (uint64_t)t->dim, 8);
    if (t->rows) put_number(&made, (uint64_t)t->rows, 8);
    put_number(&made, 0, 4);
    put_number(&made, data.count, 8);
    put_values(t);
    pad(&data);
  }
  pad(&made);
  put(&made, data.bytes, data.count);
  return write_file("roles.gguf", made.bytes, made.count);
}

/* Opens a file that nobody else needs: its mapping outlives its name. */
static embed_file *open_made(embed_context *ctx, const char *path) {
  embed_file *f = open_file(ctx, path, NULL);
  unlink(path);
  return f;
}

static int64_t role_of(embed_context *ctx, const embed_file *f, embed_role role) {
  int64_t i = -42;
  assert_int_equal(embed_file_role(ctx, f, role, &i), EMBED_OK);
  return i;
}

static const char *named(embed_context *ctx, const embed_file *f, embed_role role) {
  int64_t i = role_of(ctx, f, role);
  embed_tensor_info info = {.size = sizeof info};
  if (i < 0) return "none";
  assert_int_equal(embed_file_tensor(ctx, f, i, &info), EMBED_OK);
  return info.name;
}

static void notes_say(const embed_file *f, const char *text) {
  if (!strstr(embed_file_notes(f), text)) fail_msg("the notes do not say \"%s\":\n%s", text, embed_file_notes(f));
}

static embed_head *open_head(embed_context *ctx, const embed_file *f, const embed_table *t, uint32_t flags) {
  embed_head_options o = {.size = sizeof o, .flags = flags};
  embed_head *h = NULL;
  if (embed_file_head(ctx, f, t, &o, &h) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  return h;
}

static void head_refused(embed_context *ctx, const embed_file *f, const embed_table *t, uint32_t flags, embed_status status, const char *says) {
  embed_head_options o = {.size = sizeof o, .flags = flags};
  embed_head *h = (embed_head *)(uintptr_t)8;
  embed_status got = embed_file_head(ctx, f, t, &o, &h);
  if (got != status || !strstr(embed_error_text(ctx), says)) fail_msg("%s: %s; wanted %s", embed_status_name(got), embed_error_text(ctx), says);
  assert_null(h);
}

/* Logits of the unit vector e_column: the head's column. */
static void column(embed_context *ctx, const embed_head *h, int64_t at, float *out) {
  float x[64] = {0};
  x[at] = 1;
  assert_int_equal(embed_logits(ctx, h, x, EMBED_F32, 1, 0, out, 0, NULL), EMBED_OK);
}

static const tensor hf_tied[] = {{"model.embed_tokens.weight", 3, 4, 1, 0.5f}, {"model.norm.weight", 0, 4, 1, 0}, {NULL, 0, 0, 0, 0}};
static const tensor hf_both[] = {
    {"lm_head.weight", 3, 4, 1, 0.5f}, {"model.embed_tokens.weight", 3, 4, 1, 0.5f}, {"model.norm.weight", 0, 4, 1, 0}, {NULL, 0, 0, 0, 0}};
static const tensor hf_untied[] = {
    {"lm_head.weight", 3, 4, 9, -1}, {"model.embed_tokens.weight", 3, 4, 1, 0.5f}, {"model.norm.weight", 0, 4, 1, 0}, {NULL, 0, 0, 0, 0}};
static const tensor gguf_tied[] = {{"token_embd.weight", 3, 4, 1, 0.5f}, {"output_norm.weight", 0, 4, 1, 0}, {NULL, 0, 0, 0, 0}};
static const pair llama[] = {{.key = "general.architecture", .text = "llama"}, {0}};
static const pair three_tokens[] = {{.key = "general.architecture", .text = "llama"}, {.key = "tokenizer.ggml.tokens", .tokens = 3}, {0}};

/* TI-01, I1: lm_head.weight was left out because it is tied. */
static void a_missing_head_is_the_table_itself(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < 2; ++kind) {
    embed_file *f = open_made(ctx, kind ? gguf(llama, gguf_tied) : safetensors(NULL, hf_tied));
    embed_table *t = open_table(ctx, f);
    assert_int_equal(role_of(ctx, f, EMBED_ROLE_TOKEN), 0);
    assert_int_equal(role_of(ctx, f, EMBED_ROLE_HEAD), 0);
    assert_int_equal(role_of(ctx, f, EMBED_ROLE_NORM), 1);
    assert_int_equal(role_of(ctx, f, EMBED_ROLE_NORM_BIAS), -1);
    for (int given = TEST_BIG_ENDIAN; given < 2; ++given) { /* a table of another byte order is a copy, each its own */
      embed_head *h = open_head(ctx, f, given ? t : NULL, EMBED_HEAD_REQUIRE_TIED);
      assert_int_equal(embed_head_is_tied(h, t), 1);
      assert_ptr_equal(embed_table_data(embed_head_table(h)), embed_table_data(t));
      if (given) assert_ptr_equal(embed_head_table(h), t);
      embed_head_release(h);
    }
    notes_say(f, kind ? "no head is stored: token table \"token_embd.weight\" serves as both: tied"
                      : "no head is stored: token table \"model.embed_tokens.weight\" serves as both: tied");
    embed_table_release(t);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

/* TI-02, I4, I6: never a head made of nothing. */
static void a_head_that_must_be_untied_and_is_absent_is_an_error(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_made(ctx, safetensors(NULL, hf_tied));
  int64_t i = -42;
  head_refused(ctx, f, NULL, EMBED_HEAD_REQUIRE_UNTIED, EMBED_E_NOT_FOUND, "2 tensors: model.embed_tokens.weight, model.norm.weight");
  assert_int_equal(embed_file_find(ctx, f, "lm_head.weight", &i), EMBED_E_NOT_FOUND);
  assert_non_null(strstr(embed_error_text(ctx), "model.embed_tokens.weight, model.norm.weight"));
  assert_int_equal(i, -42);
  embed_file_release(f);
  embed_context_release(ctx);
}

/* TI-04, I2, I9: merged, a change of the table is a change of both ends; kept apart on demand, of neither half. */
static void equal_ends_are_one_table_unless_asked_for_two(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_made(ctx, safetensors(NULL, hf_both));
  embed_table *t = open_table(ctx, f), *own = NULL;
  float z[3], row[4] = {70, 71, 72, 73};
  assert_int_equal(role_of(ctx, f, EMBED_ROLE_TOKEN), 1);
  assert_int_equal(role_of(ctx, f, EMBED_ROLE_HEAD), 1);
  notes_say(f, "head \"lm_head.weight\" equals byte for byte token table \"model.embed_tokens.weight\": tied");
  embed_table_options copy = {.size = sizeof copy, .dtype = EMBED_DTYPE_NONE};
  assert_int_equal(embed_table_convert(ctx, t, &copy, &own), EMBED_OK);
  embed_head *tied = open_head(ctx, f, own, 0), *apart = open_head(ctx, f, own, EMBED_HEAD_REQUIRE_UNTIED);
  assert_int_equal(embed_head_is_tied(tied, own), 1);
  assert_int_equal(embed_head_is_tied(apart, own), 0);
  assert_int_equal(embed_head_is_tied(apart, t), 0);
  assert_int_equal(embed_table_set_rows(ctx, own, &(int64_t){1}, 1, row, EMBED_F32, 0, NULL), EMBED_OK);
  column(ctx, tied, 2, z);
  assert_true(z[1] == 72.0f);
  column(ctx, apart, 2, z);
  assert_true(z[1] == 4.0f); /* element 6 of 1 + i / 2 */
  embed_head_release(tied);
  embed_head_release(apart);
  embed_table_release(own);
  embed_table_release(t);
  embed_file_release(f);
  embed_context_release(ctx);
}

/* I3, I7: the file's content beats what is said of it, and the notes say so. */
static void a_trained_head_is_never_discarded(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_made(ctx, safetensors("\"tied.lm_head.weight\":\"model.embed_tokens.weight\"", hf_untied));
  embed_table *t = open_table(ctx, f);
  float z[3];
  assert_int_equal(role_of(ctx, f, EMBED_ROLE_TOKEN), 1);
  assert_int_equal(role_of(ctx, f, EMBED_ROLE_HEAD), 0);
  notes_say(f, "head \"lm_head.weight\" F32 [3, 4] differs from token table \"model.embed_tokens.weight\" F32 [3, 4], first at byte ");
  notes_say(f, "untied, though the file's metadata ties them");
  for (uint32_t flags = 0; flags <= EMBED_HEAD_REQUIRE_UNTIED; flags += EMBED_HEAD_REQUIRE_UNTIED) {
    embed_head *h = open_head(ctx, f, t, flags);
    assert_int_equal(embed_head_is_tied(h, t), 0);
    column(ctx, h, 1, z);
    assert_true(z[0] == 8.0f && z[1] == 4.0f && z[2] == 0.0f);
    embed_head_release(h);
  }
  head_refused(ctx, f, t, EMBED_HEAD_REQUIRE_TIED, EMBED_E_MISMATCH, "\"lm_head.weight\", which is not \"model.embed_tokens.weight\"");
  embed_table_release(t);
  embed_file_release(f);
  f = open_made(ctx, safetensors("\"format\":\"pt\"", hf_untied));
  assert_null(strstr(embed_file_notes(f), "metadata"));
  embed_file_release(f);
  embed_context_release(ctx);
}

/* One bit anywhere, the last of several megabytes or the sign of a zero, makes two tables. */
static void one_bit_unties(void **state) {
  (void)state;
  enum { ROWS = 1500, DIM = 256, BYTES = ROWS * DIM * 4 };
  embed_pool *pool = NULL;
  assert_int_equal(embed_pool_create(3, &pool), EMBED_OK);
  embed_context *ctx = new_context(pool);
  const tensor tensors[] = {{"lm_head.weight", ROWS, DIM, 0, 0}, {"model.embed_tokens.weight", ROWS, DIM, 0, 0}, {NULL, 0, 0, 0, 0}};
  const size_t bits[] = {0, 4095, 4096, (1 << 20) - 1, 1 << 20, BYTES - 1};
  char text[64];
  unlink(safetensors(NULL, tensors));
  unsigned char *head = made.bytes + made.count - 2 * BYTES;
  embed_file *f = open_made(ctx, write_file("bit.safetensors", made.bytes, made.count));
  assert_int_equal(role_of(ctx, f, EMBED_ROLE_HEAD), 1);
  embed_file_release(f);
  for (size_t k = 0; k < sizeof bits / sizeof *bits; ++k)
    for (int later = 0; later < 2; ++later) {
      head[bits[k]] ^= 0x80;
      if (later) head[BYTES - 2] ^= 1; /* the first that differs is named, whoever finds it */
      f = open_made(ctx, write_file("bit.safetensors", made.bytes, made.count));
      assert_int_equal(role_of(ctx, f, EMBED_ROLE_TOKEN), 1);
      assert_int_equal(role_of(ctx, f, EMBED_ROLE_HEAD), 0);
      snprintf(text, sizeof text, "first at byte %zu of both", later && bits[k] > BYTES - 2 ? (size_t)BYTES - 2 : bits[k]);
      notes_say(f, text);
      embed_file_release(f);
      if (later) head[BYTES - 2] ^= 1;
      head[bits[k]] ^= 0x80;
    }
  embed_context_release(ctx);
  embed_pool_release(pool);
}

/* I8: the tie has no direction. */
static void a_lone_head_serves_as_the_table(void **state) {
  (void)state;
  const tensor tensors[] = {{"output_norm.weight", 0, 4, 1, 0}, {"blk.0.ffn_up.weight", 9, 4, 0, 1}, {"output.weight", 3, 4, 1, 0.5f}, {NULL, 0, 0, 0, 0}};
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_made(ctx, gguf(llama, tensors));
  embed_table *t = open_table(ctx, f);
  assert_int_equal(role_of(ctx, f, EMBED_ROLE_TOKEN), 2);
  assert_int_equal(role_of(ctx, f, EMBED_ROLE_HEAD), 2);
  assert_int_equal(embed_table_rows(t), 3);
  embed_head *h = open_head(ctx, f, t, EMBED_HEAD_REQUIRE_TIED);
  assert_int_equal(embed_head_is_tied(h, t), 1);
  notes_say(f, "no token table is stored: head \"output.weight\" serves as both: tied");
  head_refused(ctx, f, t, EMBED_HEAD_REQUIRE_UNTIED, EMBED_E_NOT_FOUND, "output.weight");
  embed_head_release(h);
  embed_table_release(t);
  embed_file_release(f);
  embed_context_release(ctx);
}

/* I5: in a T5 the encoder's rows are `shared`, never the head's. */
static void each_end_has_its_own_names(void **state) {
  (void)state;
  static const struct {
    const char *table, *head;
  } families[] = {
      {"token_embd.weight", "output.weight"},
      {"model.embed_tokens.weight", "lm_head.weight"},
      {"model.language_model.embed_tokens.weight", "lm_head.weight"},
      {"transformer.wte.weight", "lm_head.weight"},
      {"wte.weight", "lm_head.weight"},
      {"gpt_neox.embed_in.weight", "embed_out.weight"},
      {"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"},
      {"roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"},
      {"shared.weight", "lm_head.weight"},
      {"tok_embeddings.weight", "output.weight"},
      {"base_model.model.model.embed_tokens.weight", "base_model.model.lm_head.weight"},
      {"language_model.model.embed_tokens.weight", "language_model.lm_head.weight"},
  };
  embed_context *ctx = new_context(NULL);
  for (size_t k = 0; k < sizeof families / sizeof *families; ++k) {
    /* larger, first in the file, deeper down: what a search by size or by part of a name would take */
    const tensor tensors[] = {{"model.layers.61.shared_head.head.weight", 3, 4, 5, 1},
                              {"model.layers.61.embed_tokens.weight", 3, 4, 5, 1},
                              {"encoder.block.0.ffn.output.weight", 90, 4, 5, 1},
                              {families[k].head, 3, 4, 253, 1},
                              {families[k].table, 3, 4, 2.13f, 0},
                              {NULL, 0, 0, 0, 0}};
    embed_file *f = open_made(ctx, safetensors(NULL, tensors));
    assert_string_equal(named(ctx, f, EMBED_ROLE_TOKEN), families[k].table);
    assert_string_equal(named(ctx, f, EMBED_ROLE_HEAD), families[k].head);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

/* What no name tells, shapes decide, and the notes say how. */
static void shapes_are_the_last_resort(void **state) {
  (void)state;
  static const struct {
    int tokens;
    tensor tensors[4];
    const char *table, *note;
  } cases[] = {
      {0, {{"a", 3, 4, 0, 1}, {"b", 0, 90, 0, 1}, {NULL, 0, 0, 0, 0}}, "a", "token table \"a\": the only matrix; no name tells it"},
      {0, {{"a", 3, 4, 0, 1}, {"b", 5, 4, 0, 1}, {"position_embd.weight", 99, 4, 0, 1}, {NULL, 0, 0, 0, 0}}, "b", "the largest matrix"},
      {0, {{"a", 3, 4, 0, 1}, {"b", 5, 4, 0, 1}, {"output.weight", 3, 4, 7, 1}, {NULL, 0, 0, 0, 0}}, "a", "the only tensor of the head's shape"},
      {1, {{"a", 3, 4, 0, 1}, {"b", 5, 4, 0, 1}, {NULL, 0, 0, 0, 0}}, "a", "the only tensor with a row per token"},
      {1, {{"a", 3, 4, 0, 1}, {"b", 5, 4, 0, 1}, {"c", 3, 2, 0, 1}, {NULL, 0, 0, 0, 0}}, "b", "the largest matrix"},
      {0,
       {{"x.word_embeddings.weight", 3, 4, 0, 1}, {"b", 5, 4, 0, 1}, {NULL, 0, 0, 0, 0}},
       "x.word_embeddings.weight",
       "its name ends in \"word_embeddings.weight\""},
      {0, {{"x.my_word_embeddings.weight", 3, 4, 0, 1}, {"b", 5, 4, 0, 1}, {NULL, 0, 0, 0, 0}}, "b", "the largest matrix"},
      {0, {{"embeddings", 0, 40, 0, 1}, {"b", 5, 4, 0, 1}, {NULL, 0, 0, 0, 0}}, "b", "the only matrix"},
  };
  embed_context *ctx = new_context(NULL);
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    embed_file *f = open_made(ctx, cases[k].tokens ? gguf(three_tokens, cases[k].tensors) : safetensors(NULL, cases[k].tensors));
    assert_string_equal(named(ctx, f, EMBED_ROLE_TOKEN), cases[k].table);
    notes_say(f, cases[k].note);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

/* A writer that kept another name of one table as metadata said which table it is. */
static void a_tie_in_the_metadata_names_the_table(void **state) {
  (void)state;
  static const char *const keys[] = {"lm_head.weight", "model.embed_tokens.weight", "blk.0.weight"};
  const tensor tensors[] = {{"big", 9, 4, 0, 1}, {"small", 3, 4, 0, 1}, {NULL, 0, 0, 0, 0}};
  embed_context *ctx = new_context(NULL);
  for (int k = 0; k < 3; ++k) {
    char metadata[128];
    snprintf(metadata, sizeof metadata, "\"tied.%s\":\"small\"", keys[k]);
    embed_file *f = open_made(ctx, safetensors(metadata, tensors));
    assert_string_equal(named(ctx, f, EMBED_ROLE_TOKEN), k < 2 ? "small" : "big");
    assert_int_equal(role_of(ctx, f, EMBED_ROLE_HEAD), role_of(ctx, f, EMBED_ROLE_TOKEN));
    notes_say(f, k < 2 ? "token table \"small\": the file's metadata ties an end to it" : "the largest matrix");
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

/* .embed says itself what is what: two ends that it stores are two, although they hold the same numbers. */
static void roles_that_a_file_gives_are_believed(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_table *t = NULL;
  embed_writer *w = NULL;
  embed_writer_options o = {.size = sizeof o, .format = "embed"};
  const char *path = path_of("given.embed");
  static const char *const names[] = {"lm_head.weight", "model.embed_tokens.weight"};
  assert_int_equal(embed_table_create(ctx, 3, 4, NULL, &t), EMBED_OK);
  for (int crossed = 0; crossed < 2; ++crossed) { /* given against what the names say */
    assert_int_equal(embed_writer_create(ctx, path, &o, &w), EMBED_OK);
    for (int i = 0; i < 2; ++i) assert_int_equal(embed_writer_table(ctx, w, names[i], t, NULL), EMBED_OK);
    assert_int_equal(embed_writer_metadata(ctx, w, "embed.role.token", names[!crossed], (int64_t)strlen(names[!crossed])), EMBED_OK);
    assert_int_equal(embed_writer_metadata(ctx, w, "embed.role.head", names[crossed], (int64_t)strlen(names[crossed])), EMBED_OK);
    if (embed_writer_commit(ctx, w) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
    embed_writer_release(w);
    embed_file *f = open_made(ctx, path);
    assert_string_equal(named(ctx, f, EMBED_ROLE_TOKEN), names[!crossed]);
    assert_string_equal(named(ctx, f, EMBED_ROLE_HEAD), names[crossed]);
    embed_head *h = open_head(ctx, f, NULL, EMBED_HEAD_REQUIRE_UNTIED);
    embed_head_release(h);
    head_refused(ctx, f, NULL, EMBED_HEAD_REQUIRE_TIED, EMBED_E_MISMATCH, "a tied head is asked for");
    embed_file_release(f);
  }
  embed_table_release(t);
  embed_context_release(ctx);
}

static void a_single_tensor_needs_no_note(void **state) {
  (void)state;
  const tensor tensors[] = {{"emb", 3, 4, 0, 1}, {NULL, 0, 0, 0, 0}};
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_made(ctx, safetensors(NULL, tensors));
  assert_int_equal(role_of(ctx, f, EMBED_ROLE_TOKEN), 0);
  assert_int_equal(role_of(ctx, f, EMBED_ROLE_HEAD), 0);
  assert_string_equal(embed_file_notes(f), "");
  embed_file_release(f);
  embed_context_release(ctx);
}

static void a_file_of_tokens_alone_has_no_ends(void **state) {
  (void)state;
  const tensor none[] = {{NULL, 0, 0, 0, 0}};
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_made(ctx, gguf(three_tokens, none));
  embed_table *t = (embed_table *)(uintptr_t)8;
  for (embed_role role = EMBED_ROLE_TOKEN; role <= EMBED_ROLE_NGRAM; ++role) assert_int_equal(role_of(ctx, f, role), -1);
  assert_int_equal(embed_file_table(ctx, f, -1, &t), EMBED_E_NOT_FOUND);
  assert_non_null(strstr(embed_error_text(ctx), "there is no token table: none of its 0 tensors is one"));
  assert_null(t);
  head_refused(ctx, f, NULL, 0, EMBED_E_NOT_FOUND, "neither a head nor a token table");
  embed_conventions c = {.size = sizeof c};
  assert_int_equal(embed_file_conventions(ctx, f, &c), EMBED_OK);
  embed_file_release(f);
  embed_file_options o = {.size = sizeof o, .vocab = 3};
  refused(ctx, gguf(three_tokens, none), &o, EMBED_E_MISMATCH, -1, "3 rows are expected, there is no token table");
  unlink(path_of("roles.gguf"));
  embed_context_release(ctx);
}

static void ends_of_two_widths_open_but_make_no_head(void **state) {
  (void)state;
  const tensor tensors[] = {{"lm_head.weight", 3, 5, 0, 1}, {"model.embed_tokens.weight", 3, 4, 0, 1}, {NULL, 0, 0, 0, 0}};
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_made(ctx, safetensors(NULL, tensors));
  notes_say(f, "head \"lm_head.weight\" F32 [3, 5] is of another kind than token table \"model.embed_tokens.weight\" F32 [3, 4]: untied");
  head_refused(ctx, f, NULL, 0, EMBED_E_MISMATCH, "head \"lm_head.weight\" has 5 columns, token table \"model.embed_tokens.weight\" 4");
  embed_table *other = NULL;
  embed_file_release(f);
  f = open_made(ctx, safetensors(NULL, hf_tied));
  assert_int_equal(embed_table_create(ctx, 3, 6, NULL, &other), EMBED_OK);
  head_refused(ctx, f, other, 0, EMBED_E_MISMATCH, "the table given has 6 columns, head \"model.embed_tokens.weight\" 4");
  embed_table_release(other);
  embed_file_release(f);
  embed_context_release(ctx);
}

/* A bias belongs to the head, whichever tensor that is (I11). */
static void a_bias_is_added_and_must_have_a_number_per_row(void **state) {
  (void)state;
  static const struct {
    tensor tensors[5];
    const char *bias;
  } cases[] = {
      {{{"lm_head.weight", 3, 4, 0, 0}, {"lm_head.bias", 0, 3, 10, 1}, {"model.embed_tokens.weight", 3, 4, 1, 1}, {NULL, 0, 0, 0, 0}}, "lm_head.bias"},
      {{{"cls.predictions.bias", 0, 3, 10, 1}, {"bert.embeddings.word_embeddings.weight", 3, 4, 0, 0}, {NULL, 0, 0, 0, 0}}, "cls.predictions.bias"},
      {{{"final_logits_bias", 1, 3, 10, 1}, {"model.shared.weight", 3, 4, 0, 0}, {NULL, 0, 0, 0, 0}}, "final_logits_bias"},
      {{{"output.weight", 3, 4, 0, 0}, {"output.bias", 0, 3, 10, 1}, {"token_embd.weight", 3, 4, 1, 1}, {NULL, 0, 0, 0, 0}}, "output.bias"},
      {{{"gpt.embed_out.weight", 3, 4, 0, 0}, {"gpt.embed_out.bias", 0, 3, 10, 1}, {"gpt.embed_in.weight", 3, 4, 1, 1}, {NULL, 0, 0, 0, 0}},
       "gpt.embed_out.bias"},
  };
  embed_context *ctx = new_context(NULL);
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    float z[3];
    embed_file *f = open_made(ctx, safetensors(NULL, cases[k].tensors));
    assert_string_equal(named(ctx, f, EMBED_ROLE_HEAD_BIAS), cases[k].bias);
    embed_head *h = open_head(ctx, f, NULL, EMBED_HEAD_RAW);
    column(ctx, h, 0, z);
    assert_true(z[0] == 10 && z[1] == 11 && z[2] == 12);
    embed_head_release(h);
    embed_file_release(f);
  }
  const tensor short_bias[] = {{"lm_head.bias", 0, 2, 10, 1}, {"lm_head.weight", 3, 4, 0, 0}, {"model.embed_tokens.weight", 3, 4, 1, 1}, {NULL, 0, 0, 0, 0}};
  embed_file *f = open_made(ctx, safetensors(NULL, short_bias));
  head_refused(ctx, f, NULL, 0, EMBED_E_MISMATCH, "head bias \"lm_head.bias\" has 2 elements, the head 3 rows");
  embed_file_release(f);
  embed_context_release(ctx);
}

/* Rows behind the last token are padding at both ends; a bias may cover them or not. */
static void rows_without_a_token_are_no_ids(void **state) {
  (void)state;
  for (int64_t biased = 3; biased <= 5; ++biased) {
    const tensor tensors[] = {{"token_embd.weight", 5, 4, 1, 1}, {"output.weight", 5, 4, 9, 1}, {"output.bias", 0, biased, 0, 1}, {NULL, 0, 0, 0, 0}};
    embed_context *ctx = new_context(NULL);
    embed_file *f = open_made(ctx, gguf(three_tokens, tensors));
    embed_table *t = open_table(ctx, f);
    float row[4];
    assert_int_equal(embed_table_rows(t), 5);
    assert_int_equal(embed_table_vocab(t), 3);
    assert_int_equal(embed_lookup(ctx, t, &(int32_t){3}, 1, row, EMBED_F32, 0, NULL), EMBED_E_ID);
    assert_int_equal(embed_lookup(ctx, t, &(int32_t){2}, 1, row, EMBED_F32, 0, NULL), EMBED_OK);
    notes_say(f, "\"token_embd.weight\" has 5 rows, the file names 3 tokens: the rows behind them are padding");
    notes_say(f, "\"output.weight\" has 5 rows, the file names 3 tokens");
    if (biased == 4) {
      head_refused(ctx, f, t, 0, EMBED_E_MISMATCH, "has 4 elements, the head 5 rows");
    } else {
      embed_head *h = open_head(ctx, f, t, 0);
      assert_int_equal(embed_head_vocab(h), 3);
      embed_head_release(h);
    }
    embed_table_release(t);
    embed_file_release(f);
    embed_context_release(ctx);
  }
}

/* So too at the second end of a pair that is equal. */
static void padding_is_padding_at_both_of_equal_ends(void **state) {
  (void)state;
  const tensor tensors[] = {{"token_embd.weight", 5, 4, 1, 1}, {"output.weight", 5, 4, 1, 1}, {NULL, 0, 0, 0, 0}};
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_made(ctx, gguf(three_tokens, tensors));
  assert_int_equal(role_of(ctx, f, EMBED_ROLE_HEAD), 0);
  for (uint32_t flags = 0; flags <= EMBED_HEAD_REQUIRE_UNTIED; flags += EMBED_HEAD_REQUIRE_UNTIED) {
    embed_head *h = open_head(ctx, f, NULL, flags);
    assert_int_equal(embed_head_vocab(h), 3);
    embed_head_release(h);
  }
  embed_file_release(f);
  embed_context_release(ctx);
}

/* LK-07: the rows count, and an id past them is refused, never clamped. */
static void a_larger_vocabulary_in_the_metadata_changes_nothing(void **state) {
  (void)state;
  static const pair pairs[] = {
      {.key = "general.architecture", .text = "llama"}, {.key = "llama.vocab_size", .integer = 10}, {.key = "tokenizer.ggml.tokens", .tokens = 7}, {0}};
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_made(ctx, gguf(pairs, gguf_tied));
  embed_table *t = open_table(ctx, f);
  float row[4] = {-7, -7, -7, -7};
  assert_int_equal(embed_table_vocab(t), 3);
  assert_int_equal(embed_lookup(ctx, t, &(int32_t){5}, 1, row, EMBED_F32, 0, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 0);
  for (int i = 0; i < 4; ++i) assert_true(row[i] == -7);
  notes_say(f, "llama.vocab_size says 10, \"token_embd.weight\" has 3 rows: the rows count");
  notes_say(f, "\"token_embd.weight\" has 3 rows, the file names 7 tokens: the tokens behind the rows have none");
  embed_table_release(t);
  embed_file_release(f);
  embed_context_release(ctx);
}

/* The norm of BERT's summed rows has the role where no norm stands before a head. */
static void a_bert_has_positions_types_and_an_input_norm(void **state) {
  (void)state;
  const tensor bert[] = {{"embeddings.LayerNorm.bias", 0, 4, 0, 0},
                         {"embeddings.LayerNorm.weight", 0, 4, 1, 0},
                         {"embeddings.position_embeddings.weight", 9, 4, 0, 1},
                         {"embeddings.token_type_embeddings.weight", 2, 4, 0, 1},
                         {"embeddings.word_embeddings.weight", 3, 4, 0, 1},
                         {"encoder.layer.0.output.LayerNorm.weight", 0, 4, 1, 0},
                         {NULL, 0, 0, 0, 0}};
  const tensor bloom[] = {{"transformer.word_embeddings_layernorm.weight", 0, 4, 1, 0},
                          {"transformer.word_embeddings.weight", 3, 4, 0, 1},
                          {"transformer.ln_f.weight", 0, 4, 1, 0},
                          {"transformer.ln_f.bias", 0, 4, 1, 0},
                          {"vision.embeddings.position_embeddings.weight", 9, 7, 0, 1},
                          {NULL, 0, 0, 0, 0}};
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_made(ctx, safetensors(NULL, bert));
  static const int64_t want[] = {4, 4, -1, 2, 3, 1, 0, -1, -1};
  for (embed_role role = EMBED_ROLE_TOKEN; role <= EMBED_ROLE_NGRAM; ++role) assert_int_equal(role_of(ctx, f, role), want[role]);
  notes_say(f, "norm \"embeddings.LayerNorm.weight\" belongs to the input");
  embed_file_release(f);
  f = open_made(ctx, safetensors(NULL, bloom));
  assert_string_equal(named(ctx, f, EMBED_ROLE_NORM), "transformer.ln_f.weight");
  assert_string_equal(named(ctx, f, EMBED_ROLE_NORM_BIAS), "transformer.ln_f.bias");
  assert_string_equal(named(ctx, f, EMBED_ROLE_POSITION), "none"); /* another tower's */
  assert_null(strstr(embed_file_notes(f), "belongs to the input"));
  embed_file_release(f);
  embed_context_release(ctx);
}

#define ARCH(name) \
  { .key = "general.architecture", .text = name }

static void families_have_their_conventions(void **state) {
  (void)state;
  static const struct {
    pair pairs[6];
    int64_t dim;
    float lookup, logits, softcap, epsilon;
    int32_t norm;
  } cases[] = {
      {{ARCH("llama"), {.key = "llama.attention.layer_norm_rms_epsilon", .number = 1e-5f}, {0}}, 4, 1, 1, 0, 1e-5f, 0},
      {{ARCH("llama"), {.key = "llama.embedding_scale", .number = 9}, {.key = "llama.logit_scale", .number = 9}, {0}}, 4, 1, 1, 0, 0, 0},
      {{ARCH("llama"), {.key = "gemma.final_logit_softcapping", .number = 9}, {0}}, 4, 1, 1, 0, 0, 0}, /* another's key */
      {{ARCH("gemma"), {0}}, 4, 2, 1, 0, 0, 0},
      {{ARCH("gemma2"), {.key = "gemma2.final_logit_softcapping", .number = 30}, {0}}, 4, 2, 1, 30, 0, 0},
      {{ARCH("gemma3"), {.key = "gemma3.attention.layer_norm_rms_epsilon", .number = 1e-6f}, {0}}, 640, 25.298221f, 1, 0, 1e-6f, 0},
      {{ARCH("granite"), {.key = "granite.logit_scale", .number = 8}, {.key = "granite.embedding_scale", .number = 12}, {0}}, 4, 12, 0.125f, 0, 0, 0},
      {{ARCH("granitemoe"), {.key = "granitemoe.logit_scale", .number = 6}, {0}}, 4, 1, 1 / 6.0f, 0, 0, 0},
      {{ARCH("command-r"), {.key = "command-r.logit_scale", .number = 0.0625f}, {.key = "command-r.attention.layer_norm_epsilon", .number = 1e-5f}, {0}},
       4,
       1,
       0.0625f,
       0,
       1e-5f,
       EMBED_NORM_LAYER},
      {{ARCH("cohere2"), {.key = "cohere2.logit_scale", .number = 0.25f}, {.key = "cohere2.embedding_scale", .number = 3}, {0}}, 4, 1, 0.25f, 0, 0, 0},
      {{ARCH("minicpm"), {.key = "minicpm.logit_scale", .number = 9}, {.key = "minicpm.embedding_scale", .number = 12}, {0}}, 4, 12, 1 / 9.0f, 0, 0, 0},
      {{ARCH("minicpm3"), {0}}, 512, 12, 0.5f, 0, 0, 0},
      {{ARCH("grok"), {.key = "grok.logit_scale", .number = 0.5f}, {.key = "grok.final_logit_softcapping", .number = 30}, {0}}, 4, 1, 0.5f, 30, 0, 0},
      {{ARCH("bert"), {.key = "bert.attention.layer_norm_epsilon", .number = 1e-12f}, {0}}, 4, 1, 1, 0, 1e-12f, EMBED_NORM_LAYER},
      /* what is no scale leaves things as they are */
      {{ARCH("granite"), {.key = "granite.logit_scale", .number = 0}, {.key = "granite.embedding_scale", .number = -1}, {0}}, 4, 1, 1, 0, 0, 0},
      {{ARCH("command-r"), {.key = "command-r.logit_scale", .number = NAN}, {.key = "command-r.final_logit_softcapping", .number = INFINITY}, {0}},
       4,
       1,
       1,
       0,
       0,
       0},
      {{ARCH("granite"), {.key = "granite.logit_scale", .text = "8"}, {.key = "granite.final_logit_softcapping", .number = -30}, {0}}, 4, 1, 1, 0, 0, 0},
      {{{.key = "gemma.logit_scale", .number = 8}, {0}}, 4, 1, 1, 0, 0, 0}, /* no architecture */
  };
  embed_context *ctx = new_context(NULL);
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    const tensor tensors[] = {{"token_embd.weight", 3, cases[k].dim, 1, 0}, {"output_norm.weight", 0, cases[k].dim, 1, 0}, {NULL, 0, 0, 0, 0}};
    embed_conventions c = {.size = sizeof c};
    embed_file *f = open_made(ctx, gguf(cases[k].pairs, tensors));
    assert_int_equal(embed_file_conventions(ctx, f, &c), EMBED_OK);
    if (c.lookup_scale != cases[k].lookup || c.logit_scale != cases[k].logits || c.logit_softcap != cases[k].softcap || c.norm_epsilon != cases[k].epsilon)
      fail_msg("case %zu: %.9g %.9g %.9g %.9g", k, (double)c.lookup_scale, (double)c.logit_scale, (double)c.logit_softcap, (double)c.norm_epsilon);
    assert_int_equal(c.norm_flags, cases[k].norm); /* never PLUS_ONE: GGUF's Gemma stores 1 + w */
    assert_int_equal(c.scale_round, EMBED_F32);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

/* The known answer D1b: product + bias, then the scale, then the soft-cap; RAW leaves the last two out, options overrule the file. */
static void a_head_of_a_file_does_what_its_family_does(void **state) {
  (void)state;
  static const pair pairs[] = {
      ARCH("command-r"), {.key = "command-r.logit_scale", .number = 0.0625f}, {.key = "command-r.final_logit_softcapping", .number = 30}, {0}};
  static const float rows[5][4] = {{.2f, -.4f, .6f, 1}, {1, 1, 1, 1}, {-3, 2, .5f, .25f}, {20, 10, -20, 30}, {0, 0, 0, 0}}, bias[] = {.1f, -.2f, .3f, 0, 1};
  static const float hidden[] = {1, .5f, -1, 2}, raw[] = {1.5f, 2.3f, -1.7f, 105, 1};
  static const float scaled[] = {.09375f, .14375f, -.10625f, 6.5625f, .0625f};
  const tensor tensors[] = {{"token_embd.weight", 5, 4, 0, 0}, {"output.bias", 0, 5, 0, 0}, {NULL, 0, 0, 0, 0}};
  embed_context *ctx = new_context(NULL);
  float z[5];
  unlink(gguf(pairs, tensors));
  unsigned char *numbers = made.bytes + made.count - 96 - 32; /* 80 bytes padded to 96; 20 padded to 32 */
  memcpy(numbers, file_floats(&rows[0][0], 20), sizeof rows);
  memcpy(numbers + 96, file_floats(bias, 5), sizeof bias);
  embed_file *f = open_made(ctx, write_file("answers.gguf", made.bytes, made.count));
  static const struct {
    embed_head_options o;
    double scale, cap;
  } cases[] = {{{.size = sizeof(embed_head_options)}, 0.0625, 30},
               {{.size = sizeof(embed_head_options), .flags = EMBED_HEAD_RAW}, 1, 0},
               {{.size = sizeof(embed_head_options), .logit_scale = 1}, 1, 30},
               {{.size = sizeof(embed_head_options), .flags = EMBED_HEAD_RAW, .logit_softcap = 30}, 1, 30}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    embed_head *h = NULL;
    assert_int_equal(embed_file_head(ctx, f, NULL, &cases[k].o, &h), EMBED_OK);
    assert_int_equal(embed_logits(ctx, h, hidden, EMBED_F32, 1, 0, z, 0, NULL), EMBED_OK);
    for (int v = 0; v < 5; ++v) {
      double want = cases[k].scale == 1 ? (double)raw[v] : (double)scaled[v];
      if (cases[k].cap > 0) want = cases[k].cap * tanh(want / cases[k].cap);
      assert_true(fabs((double)z[v] - want) <= 2e-5 * fabs(want) + 1e-6);
    }
    embed_head_release(h);
  }
  embed_file_release(f);
  embed_context_release(ctx);
}

/* Names of control characters and of any length stay on one line of the notes. */
static void a_strange_name_cannot_break_a_line_of_the_notes(void **state) {
  (void)state;
  char longest[260];
  embed_context *ctx = new_context(NULL);
  memset(longest, 'x', sizeof longest);
  strcpy(longest + 200, ".embed_tokens.weight");
  const char *names[] = {"a\\nb.embed_tokens.weight", longest};
  for (int k = 0; k < 2; ++k) {
    const tensor tensors[] = {{names[k], 3, 4, 0, 1}, {"lm_head.weight", 3, 4, 0, 2}, {NULL, 0, 0, 0, 0}};
    embed_file *f = open_made(ctx, safetensors(NULL, tensors));
    int lines = 1;
    for (const char *at = embed_file_notes(f); *at; ++at) lines += *at == '\n';
    assert_int_equal(lines, 2); /* how the table was found, and that it is untied */
    notes_say(f, k ? "xxx...\"" : "\"a?b.embed_tokens.weight\"");
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

static void memory_may_end_anywhere(void **state) {
  (void)state;
  const char *path = safetensors("\"tied.lm_head.weight\":\"model.embed_tokens.weight\"", hf_untied);
  for (int64_t fail_at = 1;; ++fail_at) {
    counting c = {0};
    embed_context *ctx = counting_context(&c);
    c.calls = 0;
    c.fail_at = fail_at;
    embed_file *f = NULL;
    embed_head *h = NULL;
    embed_status status = embed_file_open(ctx, path, NULL, &f);
    if (status == EMBED_OK) status = embed_file_head(ctx, f, NULL, NULL, &h);
    assert_true(status == EMBED_OK || status == EMBED_E_MEMORY);
    assert_true((h != NULL) == (status == EMBED_OK));
    int reached = c.calls >= fail_at;
    embed_head_release(h);
    embed_file_release(f);
    embed_context_release(ctx);
    assert_int_equal(c.blocks, 0);
    assert_int_equal(c.bytes, 0);
    if (!reached) break;
    assert_true(fail_at < 1000);
  }
  unlink(path);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_missing_head_is_the_table_itself),
    cmocka_unit_test(a_head_that_must_be_untied_and_is_absent_is_an_error),
    cmocka_unit_test(equal_ends_are_one_table_unless_asked_for_two),
    cmocka_unit_test(a_trained_head_is_never_discarded),
    cmocka_unit_test(one_bit_unties),
    cmocka_unit_test(a_lone_head_serves_as_the_table),
    cmocka_unit_test(each_end_has_its_own_names),
    cmocka_unit_test(shapes_are_the_last_resort),
    cmocka_unit_test(a_tie_in_the_metadata_names_the_table),
    cmocka_unit_test(roles_that_a_file_gives_are_believed),
    cmocka_unit_test(a_single_tensor_needs_no_note),
    cmocka_unit_test(a_file_of_tokens_alone_has_no_ends),
    cmocka_unit_test(ends_of_two_widths_open_but_make_no_head),
    cmocka_unit_test(a_bias_is_added_and_must_have_a_number_per_row),
    cmocka_unit_test(rows_without_a_token_are_no_ids),
    cmocka_unit_test(padding_is_padding_at_both_of_equal_ends),
    cmocka_unit_test(a_larger_vocabulary_in_the_metadata_changes_nothing),
    cmocka_unit_test(a_bert_has_positions_types_and_an_input_norm),
    cmocka_unit_test(families_have_their_conventions),
    cmocka_unit_test(a_head_of_a_file_does_what_its_family_does),
    cmocka_unit_test(a_strange_name_cannot_break_a_line_of_the_notes),
    cmocka_unit_test(memory_may_end_anywhere),
};
TEST_MAIN(tests)
