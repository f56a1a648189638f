/* SPDX-License-Identifier: BSD-3-Clause */
/* GGUF: what ggml's programs write opens in place. */
#include <math.h>

#include "gguf_file.h"

static embed_tensor_info described(embed_context *ctx, const embed_file *f, int64_t i) {
  embed_tensor_info info = {.size = sizeof info};
  assert_int_equal(embed_file_tensor(ctx, f, i, &info), EMBED_OK);
  return info;
}

static embed_table *tensor_table(embed_context *ctx, const embed_file *f, const char *name) {
  embed_table *t = NULL;
  int64_t i = -1;
  assert_int_equal(embed_file_find(ctx, f, name, &i), EMBED_OK);
  if (embed_file_table(ctx, f, i, &t) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  return t;
}

static void notes_have(const embed_file *f, const char *text) {
  if (!strstr(embed_file_notes(f), text)) fail_msg("the notes are \"%s\", wanted in them: \"%s\"", embed_file_notes(f), text);
}

/* GF-01: ne is columns first; the infos of the small file end at byte 126, its data begin at 128. */
static void a_table_of_floats_opens_in_place(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (uint32_t version = 2; version <= 3; ++version)
    for (uint32_t flags = 0; flags < 4; ++flags) {
      embed_file_options o = {.size = sizeof o, .flags = flags};
      gg_simple(4, 2);
      gg[4] = (unsigned char)version;
      assert_int_equal(gg_count, 128 + 32);
      embed_file *f = open_file(ctx, gg_written(), &o);
      assert_string_equal(embed_file_format(f), "gguf");
      assert_int_equal(embed_file_count(f), 1);
      embed_tensor_info info = described(ctx, f, 0);
      assert_string_equal(info.name, TABLE);
      assert_string_equal(info.stored, "F32");
      assert_int_equal(info.rank, 2);
      assert_int_equal(info.shape[0], 2);
      assert_int_equal(info.shape[1], 4);
      assert_int_equal(info.offset, 128);
      assert_int_equal(info.bytes, 32);
      assert_int_equal(info.dtype, EMBED_F32);
      assert_int_equal(info.role, EMBED_ROLE_TOKEN);
      embed_table *t = open_table(ctx, f);
      embed_file_release(f); /* the table holds it */
      rows_are(ctx, t, 2, 4, 0);
      assert_null(embed_table_mutable_data(t));
      embed_table_release(t);
    }
  gg_close(ctx, NULL);
}

/* GF-01: 16 bytes of padding between the two. */
static void tensors_lie_at_multiples_of_the_alignment(void **state) {
  (void)state;
  static const uint32_t alignments[] = {0, 8, 16, 64, 256, 4096}; /* 0: no key, 32 */
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 6; ++i) {
    const uint32_t alignment = alignments[i] ? alignments[i] : 32;
    gg_begin(3, 2, alignments[i] != 0);
    if (alignments[i]) gg_pair_u32("general.alignment", alignments[i]);
    gg_tensor(TABLE, 2, (const uint64_t[]){4, 3}, 0, 0);
    gg_tensor("output.weight", 2, (const uint64_t[]){4, 3}, 0, (48 + alignment - 1) / alignment * alignment);
    gg_pad(alignment);
    gg_floats(12, 0);
    gg_pad(alignment);
    gg_floats(12, 100);
    embed_file *f = open_file(ctx, gg_written(), NULL);
    embed_table *t = tensor_table(ctx, f, TABLE), *u = tensor_table(ctx, f, "output.weight");
    assert_int_equal(described(ctx, f, 0).offset % alignment, 0);
    rows_are(ctx, t, 3, 4, 0);
    rows_are(ctx, u, 3, 4, 100);
    assert_null(strstr(embed_file_notes(f), "alignment"));
    embed_table_release(t);
    embed_table_release(u);
    embed_file_release(f);
  }
  gg_close(ctx, NULL);
}

/* With an alignment of 1 floats begin at odd bytes; ggml takes it, GGUF's text does not. */
static void tables_may_begin_at_any_byte(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  gg_begin(3, 2, 1);
  gg_pair_u32("general.alignment", 1);
  gg_tensor("byte", 1, (const uint64_t[]){3}, 24, 0);
  gg_tensor(TABLE, 2, (const uint64_t[]){5, 3}, 0, 3);
  assert_int_equal(gg_count % 2, 0);
  gg_bytes("abc", 3);
  gg_floats(15, 0);
  embed_file *f = open_file(ctx, gg_written(), NULL);
  embed_table *t = tensor_table(ctx, f, TABLE);
  notes_have(f, "1 bytes is the alignment");
  rows_are(ctx, t, 3, 5, 0);
  embed_table_release(t);
  gg_close(ctx, f);
}

static const struct {
  uint32_t id;
  const char *name;
  uint64_t block, bytes;
} known_types[] = {
    {0, "F32", 1, 4},       {1, "F16", 1, 2},        {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},    {9, "Q8_1", 32, 36},     {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210}, {15, "Q8_K", 256, 292},  {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18}, {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},      {27, "I64", 1, 8},       {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66}, {39, "MXFP4", 32, 17},   {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
};
enum { KNOWN = sizeof known_types / sizeof *known_types };

static embed_dtype dtype_of(uint32_t id) {
  if (id < 2) return (embed_dtype)id;
  if (id == 28) return EMBED_F64;
  if (id == 30) return EMBED_BF16;
  return embed_dtype_name(64 + (embed_dtype)id) ? 64 + (embed_dtype)id : EMBED_DTYPE_NONE;
}

/* A wrong size of one type would move the tensor behind it. */
static void every_type_of_ggml_has_its_size(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < KNOWN; ++i) {
    const uint64_t bytes = 3 * 2 * known_types[i].bytes;
    gg_begin(3, 2, 0);
    gg_tensor("blocks", 2, (const uint64_t[]){2 * known_types[i].block, 3}, known_types[i].id, 0);
    gg_tensor(TABLE, 2, (const uint64_t[]){4, 2}, 0, (bytes + 31) / 32 * 32);
    gg_pad(32);
    for (uint64_t j = 0; j < bytes; ++j) gg_uint(0, 1);
    gg_pad(32);
    gg_floats(8, 0);
    embed_file *f = open_file(ctx, gg_written(), NULL);
    embed_tensor_info info = described(ctx, f, 0);
    embed_table *t = tensor_table(ctx, f, TABLE), *blocks = (embed_table *)(uintptr_t)8;
    assert_string_equal(info.stored, known_types[i].name);
    assert_int_equal(info.bytes, bytes);
    assert_int_equal(info.dtype, dtype_of(known_types[i].id));
    rows_are(ctx, t, 2, 4, 0);
    embed_table_release(t);
    embed_status got = embed_file_table(ctx, f, 0, &blocks);
    if (info.dtype == EMBED_DTYPE_NONE) {
      assert_int_equal(got, EMBED_E_UNSUPPORTED);
      assert_non_null(strstr(embed_error_text(ctx), known_types[i].name));
      assert_null(blocks);
    } else {
      assert_int_equal(got, EMBED_OK);
      assert_int_equal(embed_table_row_bytes(blocks), bytes / 3);
      embed_table_release(blocks);
    }
    embed_file_release(f);
  }
  gg_close(ctx, NULL);
}

/* GF-16: a type without a block must not divide by it. Byte 69 is the tensor's name, 118 its type. */
static void types_that_ggml_removed_or_never_had_are_named_by_number(void **state) {
  (void)state;
  static const uint32_t removed[] = {4, 5, 31, 32, 33, 36, 37, 38}, unknown[] = {43, 64, 255, 0x7FFFFFFF, 0xFFFFFFFF};
  embed_context *ctx = new_context(NULL);
  char says[100];
  for (int i = 0; i < 13; ++i) {
    const uint32_t type = i < 8 ? removed[i] : unknown[i - 8];
    gg_simple(4, 3);
    gg_count = 114;
    gg_u32(type);
    gg_count = 128 + 48;
    snprintf(says, sizeof says, "\"" TABLE "\" is stored as ggml's type %u, which %s", type, i < 8 ? "ggml has removed" : "this version does not know");
    refused(ctx, gg_written(), NULL, EMBED_E_UNSUPPORTED, 114, says);
  }
  gg_close(ctx, NULL);
}

static void tokens_are_those_of_the_tokenizer(void **state) {
  (void)state;
  static const char *const tokens[] = {"<unk>", "\xE2\x96\x81the", "", "a", "a"};
  embed_context *ctx = new_context(NULL);
  int64_t bytes = -1, id = -1;
  gg_begin(3, 0, 3);
  gg_array("tokenizer.ggml.scores", GG_F32, 5);
  for (int i = 0; i < 5; ++i) gg_f32(-(float)i);
  gg_tokens(tokens, 5);
  gg_array("tokenizer.ggml.token_type", GG_I32, 5);
  for (int i = 0; i < 5; ++i) gg_u32(1);
  memcpy(gg + gg_count - 20 - (8 + 25 + 4 + 4 + 8) - 1, "\0", 1); /* the last token is a byte 0 */
  embed_file *f = open_file(ctx, gg_written(), NULL);
  for (int i = 0; i < 4; ++i) {
    const char *token = embed_file_token(f, i, &bytes);
    assert_int_equal(bytes, strlen(tokens[i]));
    assert_string_equal(token, tokens[i]);
    assert_int_equal(embed_file_token_id(ctx, f, tokens[i], bytes, &id), EMBED_OK);
    assert_int_equal(id, i);
  }
  assert_int_equal(embed_file_token(f, 4, &bytes)[0], 0);
  assert_int_equal(bytes, 1);
  assert_int_equal(embed_file_token_id(ctx, f, "\0", 1, &id), EMBED_OK);
  assert_int_equal(id, 4);
  assert_null(embed_file_token(f, 5, &bytes));
  assert_int_equal(embed_file_token_id(ctx, f, "b", 1, &id), EMBED_E_NOT_FOUND);
  notes_have(f, "1 tokens are empty");
  assert_null(strstr(embed_file_notes(f), "repeat"));
  gg_close(ctx, f);
}

static void repeated_tokens_are_noted_and_the_lowest_id_owns_them(void **state) {
  (void)state;
  static const char *const tokens[] = {"b", "a", "a", "b", "a"};
  embed_context *ctx = new_context(NULL);
  int64_t id = -1;
  gg_begin(3, 0, 1);
  gg_tokens(tokens, 5);
  embed_file *f = open_file(ctx, gg_written(), NULL);
  assert_int_equal(embed_file_token_id(ctx, f, "a", 1, &id), EMBED_OK);
  assert_int_equal(id, 1);
  notes_have(f, "3 tokens repeat an earlier one");
  gg_close(ctx, f);
}

/* Vocabularies end before their own aligned data offset. */
static void a_file_without_tensors_is_a_vocabulary(void **state) {
  (void)state;
  static const char *const tokens[] = {"one", "two"};
  embed_context *ctx = new_context(NULL);
  for (uint32_t flags = 0; flags < 4; flags += 2) {
    embed_file_options o = {.size = sizeof o, .flags = flags};
    embed_table *t = (embed_table *)(uintptr_t)8;
    int64_t i = -1;
    gg_begin(2, 0, 1);
    gg_tokens(tokens, 2);
    assert_true(gg_count % 32 != 0);
    const char *path = gg_written();
    embed_file *f = open_file(ctx, path, &o);
    assert_int_equal(embed_file_count(f), 0);
    assert_string_equal(embed_file_token(f, 1, NULL), "two");
    assert_int_not_equal(embed_file_table(ctx, f, -1, &t), EMBED_OK);
    assert_null(t);
    assert_int_equal(embed_file_find(ctx, f, TABLE, &i), EMBED_E_NOT_FOUND);
    if (is_mapped(path) >= 0) assert_int_equal(is_mapped(path), 0);
    embed_file_release(f);
  }
  gg_close(ctx, NULL);
}

/* Rows that no token names are padding; the tied head masks them too. */
static void padding_rows_are_no_ids(void **state) {
  (void)state;
  static const char *const tokens[] = {"a", "b", "c"};
  static const int64_t id = 3;
  float out[4];
  for (int big = 0; big < 2; ++big) { /* in place or turned round */
    embed_context *ctx = new_context(NULL);
    gg_big_endian = big;
    gg_begin(3, 1, 1);
    gg_tokens(tokens, 3);
    gg_tensor(TABLE, 2, (const uint64_t[]){4, 8}, 0, 0);
    gg_pad(32);
    gg_floats(32, 0);
    embed_file *f = open_file(ctx, gg_written(), NULL);
    embed_table *t = open_table(ctx, f);
    assert_int_equal(embed_table_rows(t), 8);
    assert_int_equal(embed_table_vocab(t), 3);
    assert_int_equal(embed_lookup_i64(ctx, t, &id, 1, out, EMBED_F32, 0, NULL), EMBED_E_ID);
    assert_int_not_equal(embed_file_notes(f)[0], 0);
    embed_table_release(t);
    gg_close(ctx, f);
    gg_big_endian = 0;
  }
}

/* LK-07: never clamped. */
static void metadata_that_promises_more_rows_is_noted_and_not_believed(void **state) {
  (void)state;
  static const int64_t id = 5;
  embed_context *ctx = new_context(NULL);
  float out[4];
  gg_begin(3, 1, 2);
  gg_pair_string("general.architecture", "llama");
  gg_pair_u32("llama.vocab_size", 10);
  gg_tensor(TABLE, 2, (const uint64_t[]){4, 3}, 0, 0);
  gg_pad(32);
  gg_floats(12, 0);
  embed_file *f = open_file(ctx, gg_written(), NULL);
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_vocab(t), 3);
  assert_int_equal(embed_lookup_i64(ctx, t, &id, 1, out, EMBED_F32, 0, NULL), EMBED_E_ID);
  assert_int_equal(embed_error_at(ctx), 0);
  notes_have(f, "llama.vocab_size");
  embed_table_release(t);
  gg_close(ctx, f);
}

static void what_is_odd_is_noted(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  gg_begin(3, 1, 1);
  gg_key("split.count", GG_U16);
  gg_uint(3, 2);
  gg_tensor(TABLE, 2, (const uint64_t[]){4, 3}, 0, 0);
  gg_pad(32);
  gg_floats(12, 0);
  gg_pad(32);
  embed_file *f = open_file(ctx, gg_written(), NULL);
  notes_have(f, "3 files make up this model");
  assert_null(strstr(embed_file_notes(f), "behind the last tensor"));
  embed_file_release(f);
  gg_bytes("tail", 4);
  f = open_file(ctx, gg_written(), NULL);
  notes_have(f, "4 bytes lie behind the last tensor");
  gg_close(ctx, f);
}

static void extents_are_turned_round_up_to_four_of_them(void **state) {
  (void)state;
  static const uint64_t extents[] = {2, 3, 5, 7};
  embed_context *ctx = new_context(NULL);
  gg_begin(3, 5, 0);
  static const char *const names[] = {"", "one", "two", "three", "four.of.them.and.a.name.of.sixty-four.bytes.which.is.the.longest"};
  assert_int_equal(strlen(names[4]), 64);
  uint64_t offset = 0;
  for (uint32_t rank = 0; rank < 5; ++rank) {
    gg_tensor(names[rank], rank, extents, 24, offset);
    offset += (rank > 3 ? 210u : rank > 2 ? 30u : rank > 1 ? 6u : rank > 0 ? 2u : 1u) + 31u;
    offset -= offset % 32;
  }
  gg_pad(32);
  while (offset--) gg_uint(7, 1);
  embed_file *f = open_file(ctx, gg_written(), NULL);
  for (int32_t rank = 0; rank < 5; ++rank) {
    int64_t i = -1;
    embed_tensor_info info = described(ctx, f, rank);
    assert_string_equal(info.name, names[rank]);
    assert_int_equal(info.rank, rank);
    for (int32_t j = 0; j < rank; ++j) assert_int_equal(info.shape[rank - 1 - j], extents[j]);
    assert_int_equal(embed_file_find(ctx, f, names[rank], &i), EMBED_OK);
    assert_int_equal(i, rank);
  }
  gg_close(ctx, f);
}

static const char *shared(const char *name) {
  static char path[4200];
  const char *folder = test_shared(TEST_SOURCE_DIR);
  if (!folder) return NULL;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return access(path, R_OK) == 0 ? path : NULL;
}

typedef struct summary {
  double sum, deviation;
  int64_t zero_rows, first_zero_row;
} summary;

static summary summed(embed_context *ctx, const embed_table *t) {
  summary s = {.first_zero_row = -1};
  int64_t rows = embed_table_rows(t), dim = embed_table_dim(t);
  float *values = malloc(sizeof *values * (size_t)(rows * dim));
  double squares = 0;
  assert_non_null(values);
  read_rows(ctx, t, values);
  for (int64_t r = 0; r < rows; ++r) {
    int zero = 1;
    for (int64_t j = 0; j < dim; ++j) {
      s.sum += (double)values[r * dim + j];
      squares += (double)values[r * dim + j] * (double)values[r * dim + j];
      zero &= values[r * dim + j] == 0;
    }
    if (zero && s.zero_rows++ == 0) s.first_zero_row = r;
  }
  s.deviation = sqrt(squares / (double)(rows * dim) - s.sum / (double)(rows * dim) * (s.sum / (double)(rows * dim)));
  free(values);
  return s;
}

/* The numbers are those of another reader of the file (numpy). */
static void a_small_llama_holds_what_is_known_of_it(void **state) {
  (void)state;
  const char *path = shared("gguf/llama-2-tiny-random.gguf");
  if (!path) skip();
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_file(ctx, path, NULL);
  embed_table *table = tensor_table(ctx, f, TABLE), *output = tensor_table(ctx, f, "output.weight");
  int64_t bytes = -1;
  assert_int_equal(embed_table_rows(table), 32000);
  assert_int_equal(embed_table_dim(table), 8);
  assert_int_equal(embed_table_rows(output), 32000);
  const summary in = summed(ctx, table), out = summed(ctx, output);
  assert_true(fabs(in.sum - -6.394698202610016) < 1e-9 && fabs(in.deviation - 0.01995) < 5e-6);
  assert_int_equal(in.zero_rows, 1);
  assert_int_equal(in.first_zero_row, 0);
  assert_true(fabs(out.sum - -0.9195126891136169) < 1e-9 && fabs(out.deviation - 0.019998) < 5e-7);
  assert_non_null(embed_file_token(f, 31999, &bytes));
  assert_null(embed_file_token(f, 32000, &bytes));
  embed_table_release(table);
  embed_table_release(output);
  embed_file_release(f);
  embed_context_release(ctx);
}

static void real_vocabularies_open(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t count, id;
    const char *token;
  } files[] = {{"vocab/ggml-vocab-gpt-2.gguf", 50257, 50256, "<|endoftext|>"},
               {"vocab/ggml-vocab-llama-spm.gguf", 32000, 0, "<unk>"},
               {"vocab/ggml-vocab-bert-bge.gguf", 30522, 101, "[CLS]"}};
  if (!shared(files[0].name)) skip();
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 3; ++i) {
    int64_t bytes = -1, id = -1;
    const char *path = shared(files[i].name);
    assert_non_null(path);
    embed_file *f = open_file(ctx, path, NULL);
    assert_int_equal(embed_file_count(f), 0);
    assert_non_null(embed_file_token(f, files[i].count - 1, &bytes));
    assert_null(embed_file_token(f, files[i].count, &bytes));
    assert_string_equal(embed_file_token(f, files[i].id, &bytes), files[i].token);
    for (int64_t k = 0; k < files[i].count; ++k) {
      const char *token = embed_file_token(f, k, &bytes);
      assert_int_equal(embed_file_token_id(ctx, f, token, bytes, &id), EMBED_OK);
      assert_int_equal(id, k);
    }
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

/* The floats of a table of one type, read as its blocks and its stored bits say. */
static void gg_table_gives(uint64_t columns, uint64_t rows, uint32_t type, const void *bytes, size_t count, const float *want) {
  embed_context *ctx = new_context(NULL);
  gg_begin(3, 1, 0);
  gg_tensor(TABLE, 2, (const uint64_t[]){columns, rows}, type, 0);
  gg_pad(32);
  gg_bytes(bytes, count);
  gg_pad(32);
  embed_file *f = open_file(ctx, gg_written(), NULL);
  embed_table *t = open_table(ctx, f);
  float got[2][32] = {{0}};
  for (int64_t r = 0; r < (int64_t)rows; ++r) assert_int_equal(embed_table_get_rows(ctx, t, &r, 1, got[r], EMBED_F32, 0), EMBED_OK);
  for (uint64_t r = 0; r < rows; ++r) assert_memory_equal(got[r], want + r * columns, (size_t)columns * sizeof(float));
  embed_table_release(t);
  gg_close(ctx, f);
}

/* GF-24: a half scale, then 32 signed bytes. */
static void q8_0_blocks_give_their_exact_values(void **state) {
  (void)state;
  unsigned char blocks[2][34] = {{0x00, 0x38}, {0x00, 0xB4}}; /* 0.5, -0.25 */
  float want[2][32];
  for (int i = 0; i < 32; ++i) {
    int first = i - 16, second = i % 2 ? 127 - 8 * i : -127 + 3 * i;
    blocks[0][2 + i] = (unsigned char)first;
    blocks[1][2 + i] = (unsigned char)second;
    want[0][i] = 0.5f * (float)first;
    want[1][i] = -0.25f * (float)second;
  }
  gg_table_gives(32, 2, 8, blocks, sizeof blocks, want[0]);
}

/* DT-04: neither subnormals nor the sign of zero are lost on the way. */
static void bf16_is_widened_exactly(void **state) {
  (void)state;
  static const unsigned char row[] = {0x01, 0x00, 0x00, 0x80, 0x7F, 0x80, 0x49, 0x40};
  static const uint32_t bits[] = {0x00010000u, 0x80000000u, 0x807F0000u, 0x40490000u};
  float want[4];
  memcpy(want, bits, sizeof want);
  gg_table_gives(4, 1, 30, row, sizeof row, want);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_table_of_floats_opens_in_place),
    cmocka_unit_test(tensors_lie_at_multiples_of_the_alignment),
    cmocka_unit_test(tables_may_begin_at_any_byte),
    cmocka_unit_test(every_type_of_ggml_has_its_size),
    cmocka_unit_test(types_that_ggml_removed_or_never_had_are_named_by_number),
    cmocka_unit_test(tokens_are_those_of_the_tokenizer),
    cmocka_unit_test(repeated_tokens_are_noted_and_the_lowest_id_owns_them),
    cmocka_unit_test(a_file_without_tensors_is_a_vocabulary),
    cmocka_unit_test(padding_rows_are_no_ids),
    cmocka_unit_test(metadata_that_promises_more_rows_is_noted_and_not_believed),
    cmocka_unit_test(what_is_odd_is_noted),
    cmocka_unit_test(extents_are_turned_round_up_to_four_of_them),
    cmocka_unit_test(a_small_llama_holds_what_is_known_of_it),
    cmocka_unit_test(real_vocabularies_open),
    cmocka_unit_test(q8_0_blocks_give_their_exact_values),
    cmocka_unit_test(bf16_is_widened_exactly),
};

TEST_MAIN(tests)
