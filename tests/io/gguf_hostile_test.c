/* SPDX-License-Identifier: BSD-3-Clause */
/* GGUF files that break their format, one per check: each is refused at its byte. */
#include "gguf_file.h"

/* GF-03, GF-05 */
static void other_versions_are_refused_by_name(void **state) {
  (void)state;
  static const struct { const char *magic, *name; } old[] = {{"lmgg", "GGML"}, {"fmgg", "GGMF"}, {"tjgg", "GGJT"}, {"algg", "GGLA"}};
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 4; ++i) {
    gg_simple(4, 3);
    memcpy(gg, old[i].magic, 4);
    refused(ctx, gg_written(), NULL, EMBED_E_UNSUPPORTED, 0, old[i].name);
  }
  static const uint32_t versions[] = {0, 1, 4, 99, 256, 0x00030003};
  for (int i = 0; i < 6; ++i) {
    gg_simple(4, 3);
    gg_count = 4;
    gg_u32(versions[i]);
    gg_count = 128 + 48;
    char says[40];
    snprintf(says, sizeof says, "version %u, versions 2 and 3", versions[i]);
    refused(ctx, gg_written(), NULL, EMBED_E_UNSUPPORTED, 4, says);
  }
  gg_simple(4, 3);
  memcpy(gg + 4, "\0\0\0\4", 4); /* the other byte order */
  refused(ctx, gg_written(), NULL, EMBED_E_UNSUPPORTED, 4, "version 4, versions 2 and 3");
  embed_file_options o = {.size = sizeof o, .format = "gguf"};
  refused(ctx, write_file("gguf", "GGML and more", 13), &o, EMBED_E_FORMAT, 0, "does not begin with GGUF");
  gg_close(ctx, NULL);
}

/* GF-06, GF-08, and counts that are merely too large for the file. */
static void counts_are_held_against_the_bytes_there(void **state) {
  (void)state;
  static const uint64_t counts[] = {UINT64_MAX, INT64_MAX, (uint64_t)1 << 62, ((uint64_t)1 << 30) + 1};
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 4; ++i) {
    gg_begin(3, counts[i], 0);
    refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 8, "the list of tensors at byte 8 counts");
    gg_begin(3, 0, counts[i]);
    refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 16, "the list of keys at byte 16 counts");
    gg_begin(3, 0, 1);
    gg_u64(counts[i]), gg_bytes("key of what is there", 20);
    refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 24, "key at byte 24 counts ");
    gg_begin(3, 0, 1);
    gg_key("s", GG_STRING), gg_u64(counts[i]), gg_bytes("abc", 3);
    refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 37, "at most 1073741824");
    for (uint32_t kind = 0; kind < GG_F64 + 1; ++kind) {
      if (kind == GG_ARRAY) continue;
      gg_begin(3, 0, 1);
      gg_array("a", kind, counts[i]), gg_u64(0);
      refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 41, "an array at byte 41 counts");
    }
    gg_begin(3, 0, 1);
    gg_array("a", GG_STRING, 2), gg_string("x", 1), gg_u64(counts[i]);
    refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 58, "a string of an array");
    gg_begin(3, 1, 0);
    gg_u64(counts[i]), gg_bytes(TABLE TABLE, 34);
    refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 24, "tensor at byte 24 counts");
  }
  gg_begin(3, 100, 0), gg_bytes("some bytes", 10);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 34, "the list of tensors at byte 8 ends at byte 2416 at the earliest, the file at 34: it was cut short");
  gg_begin(3, 0, 100), gg_bytes("some bytes", 10);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 34, "cut short");
  gg_close(ctx, NULL);
}

static void keys_are_there_once_and_can_be_looked_up(void **state) {
  (void)state;
  static char key[65537];
  embed_context *ctx = new_context(NULL);
  gg_begin(3, 0, 2);
  gg_key("twice", GG_U8), gg_uint(1, 1);
  gg_key("twice", GG_U16), gg_uint(1, 2);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 42, "key \"twice\" at byte 42 stands there a second time");
  gg_begin(3, 0, 1);
  gg_key("", GG_U8), gg_uint(1, 1);
  gg_uint(0, 8); /* as many bytes as a key of one letter has */
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 24, "the key at byte 24 is empty");
  gg_begin(3, 0, 1);
  gg_string("a\0b", 3), gg_u32(GG_U8), gg_uint(1, 1);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 24, "byte 0");
  memset(key, 'k', sizeof key - 1);
  gg_begin(3, 0, 1);
  gg_key(key, GG_U8), gg_uint(1, 1);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 24, "has 65536 bytes, at most 65535");
  key[65535] = 0;
  gg_begin(3, 0, 1);
  gg_key(key, GG_U8), gg_uint(1, 1);
  embed_file_release(open_file(ctx, gg_written(), NULL));
  gg_close(ctx, NULL);
}

static void values_are_of_a_kind_that_there_is(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  gg_begin(3, 0, 1);
  gg_key("k", 13), gg_u64(0);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 33, "\"k\" at byte 33 is of kind 13, the kinds are 0 to 12");
  gg_begin(3, 0, 1);
  gg_array("k", 0xFFFFFFFF, 0);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 37, "kind 4294967295");
  gg_begin(3, 0, 1);
  gg_array("k", GG_ARRAY, 1), gg_u32(GG_U8), gg_u64(0);
  refused(ctx, gg_written(), NULL, EMBED_E_UNSUPPORTED, 37, "array of arrays");
  gg_begin(3, 0, 1);
  gg_key("k", GG_BOOL), gg_uint(2, 1);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 37, "the bool at byte 37 is 2");
  gg_begin(3, 0, 1);
  gg_array("k", GG_BOOL, 3), gg_bytes("\1\0\xFF", 3);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 51, "the bool at byte 51 is 255");
  gg_begin(3, 0, 1);
  gg_pair_u32("tokenizer.ggml.tokens", 5);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 53, "no array of strings");
  gg_begin(3, 0, 1);
  gg_array("tokenizer.ggml.tokens", GG_U8, 1), gg_uint(1, 1);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 53, "no array of strings");
  gg_close(ctx, NULL);
}

/* GF-10. The key's value stands at byte 24 + 8 + 17 + 4 = 53. */
static void alignments_are_powers_of_two(void **state) {
  (void)state;
  static const uint32_t bad[] = {0, 3, 24, 33, 0x80000000u, 0xFFFFFFFFu};
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 6; ++i) {
    gg_begin(3, 1, 1);
    gg_pair_u32("general.alignment", bad[i]);
    gg_tensor(TABLE, 2, (const uint64_t[]){4, 3}, 0, 0);
    gg_pad(32);
    gg_floats(12, 0);
    refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 53, "power of two");
  }
  gg_begin(3, 0, 1);
  gg_key("general.alignment", GG_U64), gg_u64(32);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 49, "of kind 10");
  gg_begin(3, 1, 1); /* lawful, and then the data begin beyond the file */
  gg_pair_u32("general.alignment", 1u << 30);
  gg_tensor(TABLE, 2, (const uint64_t[]){4, 3}, 0, 0);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, (int64_t)gg_count, "ends at byte 1073741872");
  gg_close(ctx, NULL);
}

typedef struct hostile {
  uint32_t rank;
  uint64_t extents[5];
  uint32_t type;
  uint64_t offset;
  embed_status status;
  int64_t at;
  const char *says;
} hostile;

/* The tensor's name stands at byte 24, its rank at 49, its extents from 53 on. */
static const hostile tensors[] = {
    {5, {4, 3, 1, 1, 1}, 0, 0, EMBED_E_UNSUPPORTED, 49, "has 5 extents"}, /* GF-12 */
    {0xFFFFFFFF, {4, 3}, 0, 0, EMBED_E_UNSUPPORTED, 49, "has 4294967295 extents"},
    {2, {4, 0}, 0, 0, EMBED_E_FORMAT, 61, "extent 1 of tensor \"" TABLE "\" at byte 61 is 0"}, /* GF-12 */
    {2, {0, 4}, 0, 0, EMBED_E_FORMAT, 53, "extent 0"},
    {2, {4, (uint64_t)1 << 63}, 0, 0, EMBED_E_OVERFLOW, 61, "9223372036854775808"},
    {2, {4, UINT64_MAX}, 0, 0, EMBED_E_OVERFLOW, 61, "18446744073709551615"},
    {2, {4, (uint64_t)1 << 62}, 0, 0, EMBED_E_OVERFLOW, 69, "does not fit into 64 bits"}, /* GF-14 */
    {2, {1, (uint64_t)1 << 61}, 0, 0, EMBED_E_OVERFLOW, 69, "does not fit into 64 bits"},
    {4, {65536, 65536, 65536, 65536}, 24, 0, EMBED_E_OVERFLOW, 85, "does not fit into 64 bits"},
    {1, {INT64_MAX}, 24, 0, EMBED_E_OVERFLOW, 65, "up to \"" TABLE "\" does not fit"},
    {1, {INT64_MAX - 31 - 64}, 24, 0, EMBED_E_OVERFLOW, 73, "the size of the tensors does not fit"},
    {2, {33, 1}, 8, 0, EMBED_E_FORMAT, 69, "has 33 columns, blocks of Q8_0 have 32"}, /* QU-01 */
    {2, {128, 2}, 14, 0, EMBED_E_FORMAT, 69, "blocks of Q6_K have 256"},
    {0, {0}, 2, 0, EMBED_E_FORMAT, 53, "has 1 columns"},
    {2, {4, 3}, 0, 4096, EMBED_E_FORMAT, 73, "lies at offset 4096, the padded sizes of those before it add up to 0"}, /* GF-18 */
    {2, {4, 3}, 0, 1, EMBED_E_FORMAT, 73, "lies at offset 1,"},
    {2, {4, 3}, 0, UINT64_MAX, EMBED_E_FORMAT, 73, "lies at offset 18446744073709551615"},
};

static void tensors_that_cannot_be_are_refused_at_their_byte(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i) {
    const hostile *h = &tensors[i];
    gg_begin(3, 1, 0);
    gg_tensor(TABLE, h->rank > 5 ? 0 : h->rank, h->extents, h->type, h->offset);
    if (h->rank > 5) memset(gg + 49, 0xFF, 4);
    gg_pad(32);
    gg_floats(64, 0);
    refused(ctx, gg_written(), NULL, h->status, h->at, h->says);
  }
  gg_close(ctx, NULL);
}

static void names_of_tensors_are_there_once(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  gg_begin(3, 2, 0); /* GF-20 */
  gg_tensor(TABLE, 2, (const uint64_t[]){4, 2}, 0, 0);
  gg_tensor(TABLE, 2, (const uint64_t[]){4, 2}, 0, 32);
  gg_pad(32);
  gg_floats(16, 0);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 81, "tensor \"" TABLE "\" at byte 81 stands there a second time");
  gg_begin(3, 1, 0);
  gg_tensor("four.of.them.and.a.name.of.sixty-five.bytes.which.is.one.too.many", 1, (const uint64_t[]){4}, 0, 0);
  gg_pad(32);
  gg_floats(16, 0);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 24, "has 65 bytes, at most 64");
  gg_begin(3, 1, 0);
  gg_string("a\0b", 3), gg_u32(1), gg_u64(4), gg_u32(0), gg_u64(0);
  gg_pad(32);
  gg_floats(16, 0);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, 24, "byte 0");
  gg_begin(3, 2, 0); /* the second lies where the first ends, not where its padding does */
  gg_tensor("a", 2, (const uint64_t[]){4, 3}, 0, 0);
  gg_tensor("b", 2, (const uint64_t[]){4, 3}, 0, 48);
  gg_pad(32);
  gg_floats(64, 0);
  refused(ctx, gg_written(), NULL, EMBED_E_FORMAT, (24 + 41) + 33, "lies at offset 48, the padded sizes of those before it add up to 64");
  gg_close(ctx, NULL);
}

static void begin_rich(void) {
  static const char *const tokens[] = {"a", "bc", "", "d"};
  gg_begin(3, 2, 5);
  gg_pair_string("general.architecture", "llama");
  gg_pair_u32("general.alignment", 8);
  gg_tokens(tokens, 4);
  gg_array("flags", GG_BOOL, 2), gg_bytes("\1\0", 2);
  gg_key("llama.eps", GG_F32), gg_f32(1e-5f);
  gg_tensor(TABLE, 2, (const uint64_t[]){3, 4}, 0, 0);
  gg_tensor("output_norm.weight", 1, (const uint64_t[]){3}, 0, 48);
  gg_pad(8);
  gg_floats(12, 0);
  gg_floats(3, 50);
}

/* GF-18 among them. */
static void a_file_cut_anywhere_is_refused_at_its_end(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  begin_rich();
  const size_t whole = gg_count;
  for (size_t bytes = 1; bytes < whole; ++bytes)
    for (uint32_t flags = 0; flags < 4; flags += 2) {
      embed_file_options o = {.size = sizeof o, .flags = flags, .format = "gguf"};
      gg_count = bytes;
      refused(ctx, gg_written(), &o, EMBED_E_FORMAT, (int64_t)bytes, "it was cut short");
    }
  gg_count = whole;
  embed_file *f = open_file(ctx, gg_written(), NULL);
  embed_table *t = open_table(ctx, f);
  rows_are(ctx, t, 4, 3, 0);
  embed_table_release(t);
  gg_close(ctx, f);
}

static void a_vocabulary_cut_anywhere_is_refused_at_its_end(void **state) {
  (void)state;
  static const char *const tokens[] = {"a", "a token of many bytes"};
  embed_context *ctx = new_context(NULL);
  gg_begin(3, 0, 1);
  gg_tokens(tokens, 2);
  for (size_t bytes = gg_count - 1; bytes > 0; --bytes) {
    gg_count = bytes;
    embed_file_options o = {.size = sizeof o, .format = "gguf"};
    refused(ctx, gg_written(), &o, EMBED_E_FORMAT, (int64_t)bytes, "it was cut short");
  }
  gg_close(ctx, NULL);
}

static void any_byte_may_be_broken(void **state) {
  (void)state;
  static unsigned char good[4096];
  embed_context *ctx = new_context(NULL);
  begin_rich();
  assert_true(gg_count < sizeof good);
  memcpy(good, gg, gg_count);
  survives_mutations(ctx, "gguf", good, gg_count - 60);
  for (size_t bit = 0; bit < 8 * (gg_count - 60); ++bit) {
    memcpy(gg, good, gg_count);
    gg[bit / 8] ^= (unsigned char)(1u << (bit % 8));
    (void)try_file(ctx, gg_written(), NULL);
  }
  gg_close(ctx, NULL);
}

static void headers_longer_than_allowed_are_refused(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  begin_rich();
  const char *path = gg_written();
  const int64_t header = (int64_t)gg_count - 60;
  int opened = 0;
  for (int64_t limit = 1; limit <= header; ++limit) {
    embed_file_options o = {.size = sizeof o, .max_header = limit};
    embed_file *f = NULL;
    if (embed_file_open(ctx, path, &o, &f) == EMBED_OK)
      ++opened;
    else {
      assert_int_equal(embed_error_at(ctx), limit);
      assert_non_null(strstr(embed_error_text(ctx), "the header may have"));
    }
    embed_file_release(f);
  }
  assert_in_range(opened, 1, 8); /* only the padding is no header */
  gg_close(ctx, NULL);
}

static void without_memory_nothing_is_left(void **state) {
  (void)state;
  counting c = {0};
  embed_context *ctx = counting_context(&c);
  begin_rich();
  const char *path = gg_written();
  const int64_t blocks = c.blocks;
  int64_t failures = 0;
  for (int64_t fail = 1;; ++fail) {
    embed_file *f = (embed_file *)(uintptr_t)8;
    c.fail_at = c.calls + fail;
    embed_status status = embed_file_open(ctx, path, NULL, &f);
    c.fail_at = 0;
    if (status == EMBED_OK) {
      embed_file_release(f);
      break;
    }
    assert_int_equal(status, EMBED_E_MEMORY);
    assert_null(f);
    assert_true(c.blocks <= blocks + 1); /* scratch may stay */
    ++failures;
  }
  assert_true(failures > 8);
  embed_context_release(ctx);
  assert_int_equal(c.blocks, 0);
  assert_int_equal(c.bytes, 0);
  unlink(path_of("gguf"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(other_versions_are_refused_by_name),
    cmocka_unit_test(counts_are_held_against_the_bytes_there),
    cmocka_unit_test(keys_are_there_once_and_can_be_looked_up),
    cmocka_unit_test(values_are_of_a_kind_that_there_is),
    cmocka_unit_test(alignments_are_powers_of_two),
    cmocka_unit_test(tensors_that_cannot_be_are_refused_at_their_byte),
    cmocka_unit_test(names_of_tensors_are_there_once),
    cmocka_unit_test(a_file_cut_anywhere_is_refused_at_its_end),
    cmocka_unit_test(a_vocabulary_cut_anywhere_is_refused_at_its_end),
    cmocka_unit_test(any_byte_may_be_broken),
    cmocka_unit_test(headers_longer_than_allowed_are_refused),
    cmocka_unit_test(without_memory_nothing_is_left),
};

TEST_MAIN(tests)
