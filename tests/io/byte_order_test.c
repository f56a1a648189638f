/* SPDX-License-Identifier: BSD-3-Clause */
/* GF-05: GGUF files of big-endian machines. Each is made twice by the same calls, in either byte order, and answers alike. */
#include "gguf_file.h"

enum { ROWS = 3, DIM = 512, ROW_BYTES = DIM * 8 };

/* Where ggml's structs have words: width and offset within a block, as ggml-common.h declares them. */
static const struct type {
  uint32_t number;
  int block, bytes;
  struct {
    int width, at;
  } words[3];
} types[] = {
    {0, 1, 4, {{4, 0}}},
    {1, 1, 2, {{2, 0}}},
    {28, 1, 8, {{8, 0}}},
    {30, 1, 2, {{2, 0}}},
    {2, 32, 18, {{2, 0}}},
    {3, 32, 20, {{2, 0}, {2, 2}}},
    {6, 32, 22, {{2, 0}, {4, 2}}},
    {7, 32, 24, {{2, 0}, {2, 2}, {4, 4}}},
    {8, 32, 34, {{2, 0}}},
    {10, 256, 84, {{2, 80}, {2, 82}}},
    {11, 256, 110, {{2, 108}}},
    {12, 256, 144, {{2, 0}, {2, 2}}},
    {13, 256, 176, {{2, 0}, {2, 2}}},
    {14, 256, 210, {{2, 208}}},
    {20, 32, 18, {{2, 0}}},
    {23, 256, 136, {{2, 0}, {2, 2}}},
    {39, 32, 17, {{0}}},
    {40, 64, 36, {{0}}},
};
enum { TYPES = sizeof types / sizeof *types };

/* Blocks of bytes that differ from place to place, with scales that are finite and small; words in the file's order. */
static void put_blocks(const struct type *type, int count) {
  for (int b = 0; b < count; ++b) {
    unsigned char block[256];
    for (int i = 0; i < type->bytes; ++i) block[i] = (unsigned char)((73 * i + 41 + 29 * b) & 255);
    for (int w = 0; w < 3 && type->words[w].width; ++w) {
      unsigned char *word = block + type->words[w].at;
      const int width = type->words[w].width;
      if (width == 2 || type->number == 0) word[width - 1] = 0x2C; /* a small exponent in F16, BF16 and F32 */
      if (type->number == 28) word[7] = 0x3F, word[6] = 0x80;      /* in F64 */
      for (int i = 0; gg_big_endian && i < width / 2; ++i) {
        const unsigned char swapped = word[i];
        word[i] = word[width - 1 - i];
        word[width - 1 - i] = swapped;
      }
    }
    gg_bytes(block, (size_t)type->bytes);
  }
}

static const char *put_table(const char *name, const struct type *type) {
  gg_begin(3, 1, 1);
  gg_pair_string("general.architecture", "llama");
  gg_tensor(TABLE, 2, (const uint64_t[]){DIM, ROWS}, type->number, 0);
  gg_pad(32);
  put_blocks(type, ROWS * DIM / type->block);
  return write_file(name, gg, gg_count);
}

static void every_type_gives_the_same_rows_in_either_order(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int k = 0; k < TYPES; ++k) {
    static float want[ROWS * DIM], got[ROWS * DIM];
    static unsigned char stored[ROWS * ROW_BYTES];
    const size_t bytes = (size_t)(ROWS * DIM / types[k].block * types[k].bytes);
    float *const rows[] = {want, got};
    int differ = 0;
    for (gg_big_endian = 0; gg_big_endian < 2; ++gg_big_endian) {
      const char *path = put_table("order", &types[k]);
      if (gg_big_endian) differ = memcmp(gg + gg_count - bytes, stored, bytes) != 0;
      memcpy(stored, gg + gg_count - bytes, bytes);
      embed_file *f = open_file(ctx, path, NULL);
      embed_table *t = open_table(ctx, f);
      assert_int_equal(embed_table_rows(t), ROWS);
      assert_int_equal(embed_table_dim(t), DIM);
      read_rows(ctx, t, rows[gg_big_endian]);
      embed_table_release(t);
      embed_file_release(f);
    }
    gg_big_endian = 0;
    assert_int_equal(differ, types[k].words[0].width != 0);
    if (memcmp(want, got, sizeof want) != 0) fail_msg("type %u", types[k].number);
    int distinct = 0;
    for (int i = 1; i < ROWS * DIM; ++i) distinct += want[i] != want[0] && want[i] - want[i] == 0;
    assert_true(distinct > ROWS * DIM / 2);
  }
  unlink(path_of("order"));
  embed_context_release(ctx);
}

/* Every kind of pair, tokens, two ends. */
static size_t put_all(uint32_t version) {
  static const char *const tokens[] = {"<s>", "a", "of", "the"};
  gg_begin(version, 2, 17);
  gg_pair_string("general.architecture", "granite");
  gg_pair_u32("general.alignment", 64);
  gg_key("u8", GG_U8), gg_uint(200, 1);
  gg_key("i8", GG_I8), gg_uint(0x80, 1);
  gg_key("u16", GG_U16), gg_uint(0x1234, 2);
  gg_key("i16", GG_I16), gg_uint(0xFFFE, 2);
  gg_key("i32", GG_I32), gg_u32(0xFFFFFF00u);
  gg_key("f32", GG_F32), gg_f32(0.1f);
  gg_key("bool", GG_BOOL), gg_uint(1, 1);
  gg_key("u64", GG_U64), gg_u64(0x0102030405060708u);
  gg_key("i64", GG_I64), gg_u64(UINT64_MAX);
  gg_key("f64", GG_F64), gg_f64(-2.5);
  gg_array("numbers", GG_U16, 2), gg_uint(258, 2), gg_uint(3, 2);
  gg_array("reals", GG_F64, 1), gg_f64(1e100);
  gg_tokens(tokens, 4);
  gg_key("granite.logit_scale", GG_F32), gg_f32(8);
  gg_key("granite.embedding_scale", GG_F32), gg_f32(12);
  gg_tensor(TABLE, 2, (const uint64_t[]){4, 4}, 0, 0);
  gg_tensor("output.weight", 2, (const uint64_t[]){4, 4}, 0, 64);
  gg_pad(64);
  gg_floats(16, 0);
  gg_floats(16, 100);
  return gg_count;
}

static void everything_else_reads_alike(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (uint32_t version = 2; version <= 3; ++version) {
    embed_file *f[2];
    for (gg_big_endian = 0; gg_big_endian < 2; ++gg_big_endian) {
      size_t bytes = put_all(version);
      f[gg_big_endian] = open_file(ctx, write_file(gg_big_endian ? "order.b" : "order.a", gg, bytes), NULL);
    }
    gg_big_endian = 0;
    assert_string_equal(embed_file_notes(f[1]),
                        "head \"output.weight\" F32 [4, 4] differs from token table \"token_embd.weight\" F32 [4, 4], first at byte 0 of both: untied");
    for (int64_t i = 0; i < 17; ++i) {
      const char *key[2], *value[2];
      int64_t bytes[2];
      for (int b = 0; b < 2; ++b) assert_int_equal(embed_file_metadata(ctx, f[b], i, &key[b], &value[b], &bytes[b]), EMBED_OK);
      assert_string_equal(key[0], key[1]);
      assert_string_equal(value[0], value[1]);
    }
    embed_conventions c = {.size = sizeof c};
    assert_int_equal(embed_file_conventions(ctx, f[1], &c), EMBED_OK);
    assert_true(c.lookup_scale == 12 && c.logit_scale == 0.125f);
    int64_t id = -1, token_bytes = -1;
    assert_int_equal(embed_file_token_id(ctx, f[1], "of", 2, &id), EMBED_OK);
    assert_int_equal(id, 2);
    assert_string_equal(embed_file_token(f[1], 3, &token_bytes), "the");
    for (int64_t i = 0; i < 2; ++i) {
      embed_table *t = NULL;
      assert_int_equal(embed_file_table(ctx, f[1], i, &t), EMBED_OK);
      rows_are(ctx, t, 4, 4, 100 * i);
      embed_table_release(t);
    }
    embed_file_release(f[0]);
    embed_file_release(f[1]);
  }
  unlink(path_of("order.a"));
  unlink(path_of("order.b"));
  embed_context_release(ctx);
}

/* A head of the same bytes is the table here too. */
static void a_tie_is_found_among_swapped_rows(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  int64_t head = -1;
  gg_big_endian = 1;
  gg_begin(3, 2, 1);
  gg_pair_string("general.architecture", "llama");
  gg_tensor(TABLE, 2, (const uint64_t[]){32, 2}, 8, 0);
  gg_tensor("output.weight", 2, (const uint64_t[]){32, 2}, 8, 96);
  gg_pad(32);
  put_blocks(&types[8], 2);
  gg_pad(32);
  put_blocks(&types[8], 2);
  gg_big_endian = 0;
  embed_file *f = open_file(ctx, gg_written(), NULL);
  assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_HEAD, &head), EMBED_OK);
  assert_int_equal(head, 0);
  gg_close(ctx, f);
}

static void hostile_big_endian_files_are_refused_or_safe(void **state) {
  (void)state;
  static unsigned char good[4096];
  embed_context *ctx = new_context(NULL);
  gg_big_endian = 1;
  size_t bytes = put_all(3);
  gg_big_endian = 0;
  assert_true(bytes <= sizeof good);
  memcpy(good, gg, bytes);
  for (size_t n = 8; n < bytes; ++n) assert_true(try_file(ctx, write_file("order", good, n), NULL) != EMBED_OK);
  survives_mutations(ctx, "order", good, bytes);
  unlink(path_of("order"));
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_type_gives_the_same_rows_in_either_order),
    cmocka_unit_test(everything_else_reads_alike),
    cmocka_unit_test(a_tie_is_found_among_swapped_rows),
    cmocka_unit_test(hostile_big_endian_files_are_refused_or_safe),
};
TEST_MAIN(tests)
