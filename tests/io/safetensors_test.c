/* SPDX-License-Identifier: BSD-3-Clause */
/* safetensors: what opens, where its tensors lie, and which byte is named when one does not open. ST-nn are public bug reports. */
#include "files.h"
#include "safetensors_file.h"

enum { ROOM = 65536 };

static embed_table *table_of(embed_context *ctx, const embed_file *f, const char *name) {
  embed_table *t = NULL;
  if (embed_file_table(ctx, f, find(ctx, f, name), &t) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  return t;
}

static float third_value(embed_context *ctx, const embed_table *t) { /* of row 1 */
  float row[16] = {0};
  assert_in_range(embed_table_dim(t), 3, 16);
  assert_int_equal(embed_table_get_rows(ctx, t, &(int64_t){1}, 1, row, EMBED_F32, 0), EMBED_OK);
  return row[2];
}

/* ST-01, ST-02: padded, odd, escaped, beside an empty tensor, in another order than the data: the rows are the file's own bytes. */
static void tables_are_views_of_the_files_bytes(void **state) {
  (void)state;
  static const struct {
    int64_t rows, dim;
    int64_t offset; /* in the data; -1 = no table of this name */
    embed_dtype dtype;
  } want[GOOD_SAFETENSORS] = {{3, 4, 0, EMBED_F32}, {0, 0, -1, 0},        {3, 4, 0, EMBED_F32}, {3, 4, 0, EMBED_F32},
                              {3, 4, 0, EMBED_F32}, {2, 2, 0, EMBED_F16}, {3, 4, 0, EMBED_F32}, {2, 3, 0, EMBED_F64},
                              {1, 4, 4, EMBED_F32}, {0, 0, -1, 0},        {0, 0, -1, 0}};
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < GOOD_SAFETENSORS; ++kind)
    for (uint32_t flags = 0; flags < 4; ++flags) {
      embed_file_options o = {.size = sizeof o, .flags = flags};
      size_t bytes = make_good_safetensors(kind, file), begin = bytes - good_safetensors[kind].data_bytes;
      const char *path = write_file("good", file, bytes);
      embed_file *f = open_file(ctx, path, &o);
      assert_string_equal(embed_file_format(f), "safetensors");
      if (want[kind].offset >= 0) {
        embed_tensor_info info = info_of(ctx, f, "emb");
        embed_table *t = table_of(ctx, f, "emb");
        assert_int_equal(info.offset, (int64_t)begin + want[kind].offset);
        assert_int_equal(info.dtype, want[kind].dtype);
        assert_int_equal(info.shard, 0);
        assert_int_equal(embed_table_rows(t), want[kind].rows);
        assert_int_equal(embed_table_dim(t), want[kind].dim);
        assert_int_equal(embed_table_dtype(t), want[kind].dtype);
        if (!TEST_BIG_ENDIAN) assert_memory_equal(embed_table_data(t), file + info.offset, (size_t)info.bytes);
        assert_null(embed_table_mutable_data(t));
        embed_file_release(f);
        if (!(flags & EMBED_FILE_COPY) && !TEST_BIG_ENDIAN) assert_true(is_mapped(path) != 0);
        assert_int_equal(embed_table_get_rows(ctx, t, &(int64_t){0}, 1, (float[16]){0}, EMBED_F32, 0), EMBED_OK);
        embed_table_release(t);
      } else {
        embed_file_release(f);
      }
      assert_true(is_mapped(path) != 1);
    }
  unlink(path_of("good"));
  embed_context_release(ctx);
}

static void tensors_are_listed_in_the_headers_order(void **state) {
  (void)state;
  static const char *const names[] = {"b", "none", "emb", "between"};
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_file(ctx, write_file("order", file, make_good_safetensors(5, file)), NULL);
  assert_int_equal(embed_file_count(f), 4);
  for (int i = 0; i < 4; ++i) assert_int_equal(find(ctx, f, names[i]), i);
  embed_tensor_info b = info_of(ctx, f, "b"), between = info_of(ctx, f, "between");
  assert_string_equal(b.stored, "BF16");
  assert_int_equal(b.rank, 2);
  assert_int_equal(b.shape[0], 2);
  assert_int_equal(b.shape[1], 3);
  assert_int_equal(b.shape[2], 0);
  assert_int_equal(b.bytes, 12);
  assert_int_equal(between.bytes, 0);
  assert_int_equal(between.offset, b.offset);
  int64_t i = 77;
  assert_int_equal(embed_file_find(ctx, f, "emb.", &i), EMBED_E_NOT_FOUND);
  assert_non_null(strstr(embed_error_text(ctx), "b, none, emb, between"));
  assert_int_equal(i, 77);
  embed_file_release(f);
  unlink(path_of("order"));
  embed_context_release(ctx);
}

static void every_type_is_listed_and_floats_are_tables(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int bits;
    embed_dtype dtype;
  } types[] = {{"F32", 32, EMBED_F32},
               {"F16", 16, EMBED_F16},
               {"BF16", 16, EMBED_BF16},
               {"F64", 64, EMBED_F64},
               {"BOOL", 8, EMBED_DTYPE_NONE},
               {"U8", 8, EMBED_DTYPE_NONE},
               {"I8", 8, EMBED_DTYPE_NONE},
               {"U16", 16, EMBED_DTYPE_NONE},
               {"I16", 16, EMBED_DTYPE_NONE},
               {"U32", 32, EMBED_DTYPE_NONE},
               {"I32", 32, EMBED_DTYPE_NONE},
               {"U64", 64, EMBED_DTYPE_NONE},
               {"I64", 64, EMBED_DTYPE_NONE},
               {"C64", 64, EMBED_DTYPE_NONE},
               {"F8_E5M2", 8, EMBED_F8_E5M2},
               {"F8_E4M3", 8, EMBED_F8_E4M3},
               {"F8_E8M0", 8, EMBED_DTYPE_NONE},
               {"F8_E4M3FNUZ", 8, EMBED_DTYPE_NONE},
               {"F8_E5M2FNUZ", 8, EMBED_DTYPE_NONE},
               {"F6_E2M3", 6, EMBED_DTYPE_NONE},
               {"F6_E3M2", 6, EMBED_DTYPE_NONE},
               {"F4", 4, EMBED_DTYPE_NONE}};
  static unsigned char file[ROOM], data[256];
  embed_context *ctx = new_context(NULL);
  for (size_t k = 0; k < sizeof types / sizeof *types; ++k) {
    char header[160];
    int64_t bytes = 8 * types[k].bits / 8;
    snprintf(header, sizeof header, "{\"w\":{\"dtype\":\"%s\",\"shape\":[2,4],\"data_offsets\":[0,%d]}}", types[k].name, (int)bytes);
    embed_file *f = open_file(ctx, write_file("types", file, make_safetensors(file, header, 8, data, (size_t)bytes)), NULL);
    embed_tensor_info info = info_of(ctx, f, "w");
    embed_table *t = (embed_table *)(uintptr_t)8;
    embed_status status = embed_file_table(ctx, f, 0, &t);
    assert_string_equal(info.stored, types[k].name);
    assert_int_equal(info.dtype, types[k].dtype);
    assert_int_equal(info.bytes, bytes);
    assert_int_equal(status, types[k].dtype == EMBED_DTYPE_NONE ? EMBED_E_UNSUPPORTED : EMBED_OK);
    if (status != EMBED_OK) assert_non_null(strstr(embed_error_text(ctx), types[k].name));
    embed_table_release(t);
    embed_file_release(f);
  }
  unlink(path_of("types"));
  embed_context_release(ctx);
}

static void metadata_is_handed_out(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  const char *key = NULL, *value = NULL;
  int64_t bytes = 0;
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_file(ctx, write_file("meta", file, make_good_safetensors(4, file)), NULL);
  assert_int_equal(embed_file_count(f), 1);
  assert_int_equal(embed_file_metadata(ctx, f, 0, &key, &value, &bytes), EMBED_OK);
  assert_string_equal(key, "note");
  assert_string_equal(value, "a\"b \xC3\xA9 \xF0\x9F\x98\x80");
  assert_int_equal(bytes, strlen(value));
  assert_int_equal(embed_file_metadata(ctx, f, 1, &key, &value, &bytes), EMBED_OK);
  assert_string_equal(key, "");
  assert_int_equal(bytes, 0);
  assert_int_equal(embed_file_metadata(ctx, f, 2, &key, &value, &bytes), EMBED_E_NOT_FOUND);
  embed_file_release(f);
  /* MLX's where there is none */
  static const char null[] = "{\"__metadata__\":null,\"emb\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}";
  f = open_file(ctx, write_file("meta", file, make_safetensors(file, null, 8, "abcd", 4)), NULL);
  assert_int_equal(embed_file_count(f), 1);
  assert_int_equal(embed_file_metadata(ctx, f, 0, &key, &value, &bytes), EMBED_E_NOT_FOUND);
  embed_file_release(f);
  unlink(path_of("meta"));
  embed_context_release(ctx);
}

/* {"t0":..., "t1":...}, each of two bytes; backwards: the last tensor's data comes first. Returns the file's bytes. */
static size_t make_many(unsigned char *file, char *header, int count, int backwards) {
  static unsigned char data[2 * 4096];
  char *at = stpcpy(header, "{");
  for (int i = 0; i < count; ++i) {
    int k = backwards ? count - 1 - i : i;
    at += sprintf(at, "%s\"t%d\":{\"dtype\":\"F16\",\"shape\":[1,1],\"data_offsets\":[%d,%d]}", i ? "," : "", i, 2 * k, 2 * k + 2);
    data[2 * k] = (unsigned char)i;
    data[2 * k + 1] = (unsigned char)(i >> 8);
  }
  stpcpy(at, "}");
  return make_safetensors(file, header, 8, data, 2 * (size_t)count);
}

static void any_of_many_tensors_is_found_by_its_name(void **state) {
  (void)state;
  static unsigned char file[1 << 20];
  static char header[1 << 20];
  enum { MANY = 4096 };
  embed_context *ctx = new_context(NULL);
  for (int backwards = 0; backwards < 2; ++backwards) {
    embed_file *f = open_file(ctx, write_file("many", file, make_many(file, header, MANY, backwards)), NULL);
    assert_int_equal(embed_file_count(f), MANY);
    for (int i = 0; i < MANY; ++i) {
      char name[16];
      snprintf(name, sizeof name, "t%d", i);
      assert_int_equal(find(ctx, f, name), i);
      embed_tensor_info info = info_of(ctx, f, name);
      assert_int_equal(file[info.offset] | file[info.offset + 1] << 8, i);
    }
    int64_t i = 0;
    assert_int_equal(embed_file_find(ctx, f, "t4096", &i), EMBED_E_NOT_FOUND);
    embed_file_release(f);
  }
  unlink(path_of("many"));
  embed_context_release(ctx);
}

/* A header in which ^ stands before the byte that is named. Without one the byte is `at`, from where the data begins. */
typedef struct hostile {
  const char *header;
  size_t data_bytes;
  embed_status status;
  int64_t at;
  const char *says;
} hostile;

#define ENTRY(name, dtype, shape, offsets) "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const hostile hostiles[] = {
    /* ST-06, ST-08, ST-09: the data is one chain from the header's end to the file's. */
    {"{" ENTRY("emb", "F32", "[3,4]", "[0,48]") "}", 28, EMBED_E_FORMAT, 28, "tensor \"emb\" ends at byte"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[0,48]") "}", 0, EMBED_E_FORMAT, 0, "cut short"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[0,48]") "}", 49, EMBED_E_FORMAT, 48, "no tensor's"},
    {"{}", 1, EMBED_E_FORMAT, 0, "no tensor's"},
    {"{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("emb", "F32", "[3,4]", "[8,56]") "}", 56, EMBED_E_FORMAT, 4, "tensor \"emb\" begins at byte"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[8,56]") "," ENTRY("a", "F32", "[1]", "[0,4]") "}", 56, EMBED_E_FORMAT, 4, "a hole"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[4,52]") "}", 52, EMBED_E_FORMAT, 0, "a hole"},
    {"{" ENTRY("none", "F32", "[0,4]", "[50,50]") "," ENTRY("emb", "F32", "[3,4]", "[0,48]") "}", 48, EMBED_E_FORMAT, 48, "a hole"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[0,48]") "," ENTRY("dup", "F32", "[3,4]", "[0,48]") "}", 48, EMBED_E_FORMAT, 0, "overlap"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[0,48]") "," ENTRY("dup", "F32", "[3,4]", "[44,92]") "}", 92, EMBED_E_FORMAT, 44, "tensor \"dup\" begins at byte"},
    {"{" ENTRY("in", "U8", "[1]", "[20,21]") "," ENTRY("emb", "F32", "[3,4]", "[0,48]") "}", 48, EMBED_E_FORMAT, 20, "overlap"},
    {"{" ENTRY("none", "U8", "[0]", "[20,20]") "," ENTRY("emb", "F32", "[3,4]", "[0,48]") "}", 48, EMBED_E_FORMAT, 20, "overlap"},
    /* ST-11: shape against range, negative numbers. */
    {"{^" ENTRY("emb", "F32", "[1000,1000]", "[0,4]") "}", 4, EMBED_E_FORMAT, 0, "\"emb\" at byte 9 has 4000000 bytes by its shape, 4 by its offsets"},
    {"{^" ENTRY("emb", "F32", "[3,0]", "[0,4]") "}", 4, EMBED_E_FORMAT, 0, "0 bytes by its shape"},
    {"{^" ENTRY("emb", "F4", "[3]", "[0,2]") "}", 2, EMBED_E_FORMAT, 0, "12 bits"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[^-4,44]") "}", 48, EMBED_E_FORMAT, 0, "\"emb\" has a negative offset"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[0,^-48]") "}", 48, EMBED_E_FORMAT, 0, "negative offset"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[48,^0]") "}", 48, EMBED_E_FORMAT, 0, "ends before it begins"},
    {"{" ENTRY("emb", "F32", "[3,^-4]", "[0,48]") "}", 48, EMBED_E_FORMAT, 0, "negative extent"},
    /* ST-13: sizes that wrap. */
    {"{^" ENTRY("emb", "F32", "[4611686018427387905,1]", "[0,4]") "}", 4, EMBED_E_OVERFLOW, 0, "64 bits"},
    {"{^" ENTRY("emb", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0, EMBED_E_OVERFLOW, 0, "64 bits"},
    {"{^" ENTRY("emb", "F32", "[4294967296,4294967296,0]", "[0,0]") "}", 0, EMBED_E_OVERFLOW, 0, "64 bits"},
    {"{" ENTRY("emb", "F32", "[^9223372036854775808]", "[0,0]") "}", 0, EMBED_E_OVERFLOW, 0, "64 bits"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[^9223372036854775807,48]") "}", 48, EMBED_E_OVERFLOW, 0, "64 bits"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[0,^9223372036854775800]") "}", 48, EMBED_E_OVERFLOW, 0, "64 bits"},
    /* ST-15: a name, an escaped name, a member twice. */
    {"{" ENTRY("emb", "F32", "[3,4]", "[0,48]") ",^" ENTRY("emb", "F32", "[3,4]", "[48,96]") "}", 96, EMBED_E_FORMAT, 0, "\"emb\""},
    {"{" ENTRY("emb", "F32", "[3,4]", "[0,48]") ",^" ENTRY("\\u0065mb", "F32", "[3,4]", "[48,96]") "}", 96, EMBED_E_FORMAT, 0, "second time"},
    {"{\"emb\":{\"dtype\":\"F32\",\"shape\":[3,4],^\"shape\":[3,4],\"data_offsets\":[0,48]}}", 48, EMBED_E_FORMAT, 0, "\"shape\""},
    {"{\"emb\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,48],^\"dtype\":\"F32\"}}", 48, EMBED_E_FORMAT, 0, "\"dtype\""},
    {"{\"__metadata__\":{\"a\":\"1\",^\"a\":\"2\"}}", 0, EMBED_E_FORMAT, 0, "second time"},
    {"{\"__metadata__\":{},^\"__metadata__\":{}}", 0, EMBED_E_FORMAT, 0, "second time"},
    /* ST-16: types. */
    {"{\"emb\":{\"dtype\":^\"F7\",\"shape\":[3,4],\"data_offsets\":[0,48]}}", 48, EMBED_E_FORMAT, 0, "\"emb\" has the type \"F7\""},
    {"{\"emb\":{\"dtype\":^\"f32\",\"shape\":[3,4],\"data_offsets\":[0,48]}}", 48, EMBED_E_FORMAT, 0, "\"f32\""},
    {"{\"emb\":{\"dtype\":^\"F32\\u0000\",\"shape\":[3,4],\"data_offsets\":[0,48]}}", 48, EMBED_E_FORMAT, 0, "\"F32\""},
    {"{\"emb\":{\"dtype\":^32,\"shape\":[3,4],\"data_offsets\":[0,48]}}", 48, EMBED_E_FORMAT, 0, "the name of a type"},
    /* The grammar. */
    {"^[]", 0, EMBED_E_FORMAT, 0, "not safetensors"},
    {" ^[]", 0, EMBED_E_FORMAT, 0, "the tensors in braces"},
    {"{}^x", 0, EMBED_E_FORMAT, 0, "nothing behind"},
    {"{\"emb\":^[]}", 0, EMBED_E_FORMAT, 0, "a tensor in braces"},
    {"{\"emb\":{\"dtype\":\"F32\",\"shape\":^3,\"data_offsets\":[0,48]}}", 48, EMBED_E_FORMAT, 0, "a shape in brackets"},
    {"{" ENTRY("emb", "F32", "[3,^4.0]", "[0,48]") "}", 48, EMBED_E_FORMAT, 0, "an extent"},
    {"{" ENTRY("emb", "F32", "[3,^null]", "[0,48]") "}", 48, EMBED_E_FORMAT, 0, "an extent"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[0,^4.8e1]") "}", 48, EMBED_E_FORMAT, 0, "an offset"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[0^]") "}", 48, EMBED_E_FORMAT, 0, "an offset"},
    {"{" ENTRY("emb", "F32", "[3,4]", "[0,48,^48]") "}", 48, EMBED_E_FORMAT, 0, "the end of the two offsets"},
    {"{" ENTRY("emb", "F32", "[3,4]", "^48") "}", 48, EMBED_E_FORMAT, 0, "two offsets"},
    {"{" ENTRY("emb", "U8", "[1,1,1,1,1,1,1,1,^1]", "[0,1]") "}", 1, EMBED_E_UNSUPPORTED, 0, "8 extents"},
    {"{\"emb\":{\"shape\":[3,4],\"data_offsets\":[0,48]^}}", 48, EMBED_E_FORMAT, 0, "\"emb\" has no \"dtype\""},
    {"{\"emb\":{\"dtype\":\"F32\",\"data_offsets\":[0,48]^}}", 48, EMBED_E_FORMAT, 0, "no \"shape\""},
    {"{\"emb\":{\"dtype\":\"F32\",\"shape\":[3,4]^}}", 48, EMBED_E_FORMAT, 0, "no \"data_offsets\""},
    {"{\"emb\":{\"dtype\\u0000\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,48]^}}", 48, EMBED_E_FORMAT, 0, "no \"dtype\""},
    {"{^\"e\\u0000mb\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,48]}}", 48, EMBED_E_FORMAT, 0, "NUL"},
    {"{\"__metadata__\":^false}", 0, EMBED_E_FORMAT, 0, "metadata in braces"},
    {"{\"__metadata__\":^[]}", 0, EMBED_E_FORMAT, 0, "metadata in braces"},
    {"{\"__metadata__\":{\"a\":^1}}", 0, EMBED_E_FORMAT, 0, "a string"},
    {"{\"__metadata__\":{\"a\":^{}}}", 0, EMBED_E_FORMAT, 0, "a string"},
    {"{\"emb^\xFF\":{}}", 0, EMBED_E_FORMAT, 0, "UTF-8"},
};

static void each_check_has_its_hostile_file(void **state) {
  (void)state;
  static unsigned char file[ROOM], data[256];
  static char header[ROOM];
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof hostiles / sizeof *hostiles; ++i)
    for (size_t align = 1; align <= 64; align *= 8) {
      embed_file_options o = {.size = sizeof o, .format = "safetensors", .flags = align == 8 ? EMBED_FILE_COPY : 0};
      const hostile *h = &hostiles[i];
      strcpy(header, h->header);
      char *mark = strchr(header, '^');
      if (mark) memmove(mark, mark + 1, strlen(mark));
      size_t bytes = make_safetensors(file, header, align, data, h->data_bytes);
      int64_t at = mark ? 8 + (mark - header) : (int64_t)(bytes - h->data_bytes) + h->at;
      if (!strcmp(h->says, "not safetensors")) at = 0;
      refused(ctx, write_file("hostile", file, bytes), &o, h->status, at, h->says);
    }
  unlink(path_of("hostile"));
  embed_context_release(ctx);
}

/* ST-18. */
static void brackets_nested_200000_deep_are_refused(void **state) {
  (void)state;
  enum { DEEP = 200000 };
  static unsigned char file[2 * DEEP + 64];
  static char header[2 * DEEP + 32];
  embed_context *ctx = new_context(NULL);
  char *at = stpcpy(header, "{\"emb\":");
  memset(at, '[', DEEP);
  memset(at + DEEP, ']', DEEP);
  strcpy(at + 2 * DEEP, "}");
  refused(ctx, write_file("deep", file, make_safetensors(file, header, 8, NULL, 0)), NULL, EMBED_E_FORMAT, 15, "a tensor in braces");
  memcpy(header, "{\"e\":{\"x\":", 10); /* as a member that would be skipped */
  memcpy(header + 2 * DEEP + 6, "}}", 3);
  refused(ctx, write_file("deep", file, make_safetensors(file, header, 8, NULL, 0)), NULL, EMBED_E_FORMAT, 8 + 10 + 62, "64 containers");
  unlink(path_of("deep"));
  embed_context_release(ctx);
}

/* ST-04, ST-19: lengths, and what is no safetensors at all. */
static void lengths_and_other_files_are_told_apart(void **state) {
  (void)state;
  static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 988097824\n";
  static unsigned char file[ROOM];
  const embed_file_options named = {.size = sizeof named, .format = "safetensors"}, small = {.size = sizeof small, .max_header = 95};
  embed_context *ctx = new_context(NULL);
  size_t bytes = make_good_safetensors(0, file);
  assert_int_equal(bytes, 8 + 96 + 48);
  refused(ctx, write_file("x.safetensors", file, bytes), &small, EMBED_E_FORMAT, 0, "the header has 96 bytes, at most 95");
  embed_file_release(open_file(ctx, write_file("x.safetensors", file, bytes), &(embed_file_options){.size = sizeof small, .max_header = 96}));
  file[1] = 4; /* 1120 bytes */
  refused(ctx, write_file("x.safetensors", file, bytes), NULL, EMBED_E_FORMAT, (int64_t)bytes, "ends at byte 1128, the file at 152: it was cut short");
  memset(file, 0, 8);
  file[4] = 1; /* 2^32 */
  refused(ctx, write_file("x.safetensors", file, bytes), NULL, EMBED_E_FORMAT, 0, "not safetensors");
  refused(ctx, write_file("x.safetensors", file, bytes), &named, EMBED_E_FORMAT, 0, "the header has 4294967296 bytes, at most 100000000");
  memset(file, 255, 8);
  refused(ctx, write_file("x.safetensors", file, bytes), NULL, EMBED_E_FORMAT, 0, "not safetensors");
  refused(ctx, write_file("x.safetensors", file, bytes), &named, EMBED_E_FORMAT, 0, "18446744073709551615");
  const embed_file_options all = {.size = sizeof all, .format = "safetensors", .max_header = INT64_MAX};
  file[7] = 127; /* 2^63 - 1 */
  refused(ctx, write_file("x.safetensors", file, bytes), &all, EMBED_E_FORMAT, (int64_t)bytes, "9223372036854775815");
  refused(ctx, write_file("x.safetensors", file, 0), NULL, EMBED_E_FORMAT, 0, "empty");
  refused(ctx, write_file("x.safetensors", "\0\0\0\0\0\0\0\0", 8), NULL, EMBED_E_FORMAT, 0, "not safetensors");
  refused(ctx, write_file("x.safetensors", "\0\0\0\0\0\0\0\0{", 9), &named, EMBED_E_FORMAT, 0, "not safetensors: it is shorter");
  refused(ctx, write_file("x.safetensors", "\0\0\0\0\0\0\0\0{}", 10), &named, EMBED_E_FORMAT, 8, "the JSON ends at byte 8");
  for (int by_name = 0; by_name < 2; ++by_name) {
    const embed_file_options *o = by_name ? &named : NULL;
    refused(ctx, write_file("x.safetensors", pointer, sizeof pointer - 1), o, EMBED_E_FORMAT, 0, "not safetensors: it is a Git LFS pointer");
    refused(ctx, write_file("x.safetensors", "<!DOCTYPE html><p>404", 21), o, EMBED_E_FORMAT, 0, "not safetensors: it is an HTML page");
    refused(ctx, write_file("x.safetensors", "rubbish rubbish", 15), o, EMBED_E_FORMAT, 0, "not safetensors");
  }
  unlink(path_of("x.safetensors"));
  embed_context_release(ctx);
}

static void a_file_cut_at_any_byte_is_refused_there(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < GOOD_SAFETENSORS; ++kind) {
    size_t bytes = make_good_safetensors(kind, file);
    for (size_t cut = 0; cut < bytes; ++cut) {
      embed_file_options o = {.size = sizeof o, .format = "safetensors", .flags = cut % 2 ? EMBED_FILE_COPY : 0};
      refused(ctx, write_file("cut", file, cut), &o, EMBED_E_FORMAT, cut < 10 ? 0 : (int64_t)cut, cut == 0 ? "empty" : cut < 10 ? "shorter" : "cut short");
    }
  }
  unlink(path_of("cut"));
  embed_context_release(ctx);
}

/* What a header says, whatever stands between its parts: each tensor's name, type, shape and place, or the status. */
static void describe(embed_context *ctx, const char *header, char *out) {
  static unsigned char file[ROOM];
  embed_file *f = NULL;
  const size_t bytes = make_safetensors(file, header, 1, NULL, 0), data = 48; /* its numbers do not matter */
  memset(file + bytes, 0, data);
  const embed_status status = embed_file_open(ctx, write_file("sight", file, bytes + data), NULL, &f);
  out += sprintf(out, "%d", (int)status);
  for (int64_t i = 0; status == EMBED_OK && i < embed_file_count(f); ++i) {
    embed_tensor_info info = {.size = sizeof info};
    assert_int_equal(embed_file_tensor(ctx, f, i, &info), EMBED_OK);
    out += sprintf(out, " %s %s %lld+%lld", info.name, info.stored, (long long)(info.offset - (int64_t)bytes), (long long)info.bytes);
    for (int j = 0; j < info.rank; ++j) out += sprintf(out, " %lld", (long long)info.shape[j]);
  }
  embed_file_release(f);
}

/* A blank behind the brace of an entry, and no reader knows it by sight. */
static void with_blanks(const char *header, char *out) {
  while (*header) {
    *out++ = *header;
    if (*header++ == ':' && *header == '{') out = stpcpy(out, "{ "), ++header;
  }
  *out = '\0';
}

/* Entries as writers put them are read at sight, others by the parser: of no header do the two say different things. */
static void an_entry_read_at_sight_says_what_the_parser_says(void **state) {
  (void)state;
  static const char good[] =
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"I8\",\"shape\":[24],\"data_offsets\":[24,48]}}";
  static const char values[] = "0129-.,:[]{}\" \\aI";
  static const char *const parts[][2] = {
      {"[3,2]", "[]"},
      {"[3,2]", "[6]"},
      {"[3,2]", "[1,1,1,1,1,1,3,2]"},
      {"[3,2]", "[1,1,1,1,1,1,1,3,2]"},
      {"[3,2]", "[03,2]"},
      {"[3,2]", "[3,2,]"},
      {"[3,2]", "[6,1,1]"},
      {"[3,2]", "[3,2,1000000000000000000]"},
      {"[3,2]", "[3,2.0]"},
      {"[3,2]", "[3,99999999999999999999]"},
      {"[0,24]", "[24,0]"},
      {"[0,24]", "[00,24]"},
      {"[0,24]", "[0,24,48]"},
      {"[0,24]", "[0,1000000000000000000]"},
      {"[0,24]", "[0,999999999999999999]"},
      {"[0,24]", "[0,9223372036854775807]"},
      {"[0,24]}", "[0,24],\"x\":1}"},
      {"\"F32\"", "\"F3\\u0032\""},
      {"\"F32\"", "\"\""},
      {"\"F32\"", "\"F32"},
      {"\"F32\"", "7"},
  };
  char header[400], other[400], says[1000], other_says[1000];
  embed_context *ctx = new_context(NULL);
  describe(ctx, good, says);
  assert_string_equal(says, "0 a F32 0+24 3 2 b I8 24+24 24");
  for (size_t i = 0; i < sizeof good - 1; ++i)
    for (size_t v = 0; v < sizeof values - 1; ++v) {
      strcpy(header, good);
      header[i] = values[v];
      with_blanks(header, other);
      describe(ctx, header, says);
      describe(ctx, other, other_says);
      assert_string_equal(says, other_says);
    }
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    const char *at = strstr(good, parts[i][0]);
    sprintf(header, "%.*s%s%s", (int)(at - good), good, parts[i][1], at + strlen(parts[i][0]));
    with_blanks(header, other);
    describe(ctx, header, says);
    describe(ctx, other, other_says);
    assert_string_equal(says, other_says);
  }
  unlink(path_of("sight"));
  embed_context_release(ctx);
}

/* Opens it; where it opens, every tensor of it can be described, found and, being a table, read. */
static void use_all(embed_context *ctx, const char *path) {
  embed_file *f = NULL;
  if (try_file(ctx, path, NULL) != EMBED_OK) return;
  f = open_file(ctx, path, NULL);
  for (int64_t i = 0; i < embed_file_count(f); ++i) {
    embed_tensor_info info = {.size = sizeof info};
    embed_table *t = NULL;
    int64_t found = -1;
    assert_int_equal(embed_file_tensor(ctx, f, i, &info), EMBED_OK);
    assert_int_equal(embed_file_find(ctx, f, info.name, &found), EMBED_OK);
    assert_int_equal(found, i);
    if (embed_file_table(ctx, f, i, &t) == EMBED_OK && embed_table_rows(t) > 0) {
      float *row = malloc((size_t)embed_table_dim(t) * sizeof *row);
      int64_t last = embed_table_rows(t) - 1;
      assert_non_null(row);
      assert_int_equal(embed_table_get_rows(ctx, t, &last, 1, row, EMBED_F32, 0), EMBED_OK);
      free(row);
    }
    embed_table_release(t);
  }
  embed_file_release(f);
}

static void no_single_wrong_bit_of_a_header_harms(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  for (int kind = 0; kind < 9; kind += 4) {
    size_t bytes = make_good_safetensors(kind, file);
    for (size_t bit = 0; bit < 8 * (bytes - good_safetensors[kind].data_bytes); ++bit) {
      file[bit / 8] ^= (unsigned char)(1 << bit % 8);
      use_all(ctx, write_file("bit", file, bytes));
      file[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
  }
  unlink(path_of("bit"));
  survives_mutations(ctx, "byte", file, make_safetensors(file, "{\"e\":{\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[0,4]}}", 1, "abcd", 4));
  embed_context_release(ctx);
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  static char header[ROOM];
  counting c = {.fail_at = 0};
  embed_context *ctx = counting_context(&c);
  for (int kind = 0; kind < 2; ++kind) {
    const char *path = write_file("memory", file, kind ? make_many(file, header, 300, 1) : make_good_safetensors(4, file));
    embed_file_release(open_file(ctx, path, NULL)); /* the context's own memory is there afterwards */
    const int64_t blocks = c.blocks;
    int64_t k = 1;
    for (embed_status status = EMBED_E_MEMORY; status != EMBED_OK; ++k) {
      embed_file *f = (embed_file *)(uintptr_t)8;
      c.calls = 0;
      c.fail_at = k;
      status = embed_file_open(ctx, path, NULL, &f);
      assert_true(status == EMBED_OK || status == EMBED_E_MEMORY);
      if (status != EMBED_OK) assert_null(f);
      c.fail_at = 0;
      embed_file_release(f);
      assert_int_equal(c.blocks, blocks);
    }
    assert_true(k > 6);
  }
  unlink(path_of("memory"));
  embed_context_release(ctx);
  assert_int_equal(c.blocks, 0);
}

/* Memory goes by what stands in the header, not by what it promises. */
static void memory_is_a_small_multiple_of_the_header(void **state) {
  (void)state;
  static unsigned char file[1 << 20];
  static char header[1 << 20];
  counting c = {.fail_at = 0};
  embed_context *ctx = counting_context(&c);
  const int64_t before = c.bytes;
  size_t bytes = make_many(file, header, 4096, 0);
  embed_file *f = open_file(ctx, write_file("multiple", file, bytes), NULL);
  assert_true(c.bytes - before < 8 * (int64_t)bytes);
  embed_file_release(f);
  unlink(path_of("multiple"));
  embed_context_release(ctx);
}

/* --- Shards */

static const float first_rows[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, second_rows[12] = {20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

typedef struct shards {
  char index[4096], first[4096], second[4096]; /* paths */
} shards;

static const char *base_of(const char *path) { return strrchr(path, '/') + 1; }

/* "a" and "both" in the first, "b" and "both" in the second. */
static shards write_shards(const char *map) {
  static unsigned char file[ROOM];
  shards s;
  unsigned char data[96];
  memcpy(data, file_floats(first_rows, 12), 48);
  memcpy(data + 48, file_floats(second_rows, 12), 48);
  strcpy(s.first, write_file("1-of-2.safetensors", file,
                             make_safetensors(file, "{" ENTRY("a", "F32", "[3,4]", "[0,48]") "," ENTRY("both", "F32", "[3,4]", "[48,96]") "}", 8, data, 96)));
  strcpy(s.second, write_file("2-of-2.safetensors", file,
                              make_safetensors(file, "{" ENTRY("both", "F32", "[3,4]", "[0,48]") "," ENTRY("b", "F32", "[3,4]", "[48,96]") "}", 1, data, 96)));
  char *at = (char *)file;
  for (const char *m = map; *m; ++m) /* 1 and 2 in angle brackets are the files' names */
    if (!strncmp(m, "<1>", 3) || !strncmp(m, "<2>", 3)) {
      at = stpcpy(at, base_of(m[1] == '1' ? s.first : s.second));
      m += 2;
    } else {
      *at++ = *m;
    }
  strcpy(s.index, write_file("model.index.json", file, (size_t)(at - (char *)file)));
  return s;
}

static void unlink_shards(const shards *s) {
  unlink(s->index);
  unlink(s->first);
  unlink(s->second);
}

static void an_index_opens_all_its_shards_in_the_maps_order(void **state) {
  (void)state;
  shards s =
      write_shards("{\"metadata\":{\"total_size\":96,\"x\":[{}],\"by\":\"us\"},\"more\":[1],\"weight_map\":{\"b\":\"<2>\",\"both\":\"<1>\",\"a\":\"<1>\"}}\n");
  for (uint32_t flags = 0; flags < 4; ++flags) {
    embed_file_options o = {.size = sizeof o, .flags = flags};
    embed_context *ctx = new_context(NULL);
    embed_file *f = open_file(ctx, s.index, &o);
    const char *key, *value;
    int64_t bytes;
    assert_string_equal(embed_file_format(f), "safetensors-index");
    assert_int_equal(embed_file_count(f), 3);
    assert_int_equal(find(ctx, f, "b"), 0);
    assert_int_equal(find(ctx, f, "both"), 1);
    assert_int_equal(find(ctx, f, "a"), 2);
    assert_int_equal(info_of(ctx, f, "b").shard, 0);
    assert_int_equal(info_of(ctx, f, "a").shard, 1);
    assert_int_equal(info_of(ctx, f, "both").shard, 1); /* the map wins */
    assert_int_equal(embed_file_metadata(ctx, f, 0, &key, &value, &bytes), EMBED_OK);
    assert_string_equal(key, "total_size");
    assert_string_equal(value, "96");
    assert_int_equal(embed_file_metadata(ctx, f, 1, &key, &value, &bytes), EMBED_OK);
    assert_string_equal(value, "us");
    assert_int_equal(embed_file_metadata(ctx, f, 2, &key, &value, &bytes), EMBED_E_NOT_FOUND);
    embed_table *a = table_of(ctx, f, "a"), *b = table_of(ctx, f, "b"), *both = table_of(ctx, f, "both");
    embed_file_release(f); /* the tables hold it */
    assert_true(third_value(ctx, a) == 6);
    assert_true(third_value(ctx, b) == 26);
    assert_true(third_value(ctx, both) == 26);
    embed_table_release(both);
    embed_table_release(a);
    if (!(flags & EMBED_FILE_COPY) && !TEST_BIG_ENDIAN) assert_true(is_mapped(s.second) != 0);
    assert_true(is_mapped(s.index) != 1);
    assert_true(third_value(ctx, b) == 26);
    embed_table_release(b);
    assert_true(is_mapped(s.first) != 1);
    assert_true(is_mapped(s.second) != 1);
    embed_context_release(ctx);
  }
  unlink_shards(&s);
}

/* ^ stands before the byte that is named. */
static void each_check_of_an_index_has_its_hostile_file(void **state) {
  (void)state;
  static const struct {
    const char *map;
    embed_status status;
    const char *says, *also;
  } cases[] = {
      {"{\"weight_map\":{\"a\":\"<1>\",\"b\":^\"none.safetensors\"}}", EMBED_E_IO, "\"none.safetensors\" of tensor \"b\"", "No such file"}, /* ST-22 */
      {"{\"weight_map\":{\"a\":^\"<2>\"}}", EMBED_E_FORMAT, "tensor \"a\" is mapped to", "2-of-2"},
      {"{\"weight_map\":{\"a\":\"<1>\",\"none\":^\"<2>\"}}", EMBED_E_FORMAT, "\"none\"", "no such tensor"},
      {"{\"weight_map\":{\"a\":^\"./<1>\"}}", EMBED_E_FORMAT, "\"a\"", "plain name"},
      {"{\"weight_map\":{\"a\":^\"../<1>\"}}", EMBED_E_FORMAT, "\"a\"", "plain name"},
      {"{\"weight_map\":{\"a\":^\"/etc/passwd\"}}", EMBED_E_FORMAT, "\"/etc/passwd\"", "plain name"},
      {"{\"weight_map\":{\"a\":^\"..\\\\<1>\"}}", EMBED_E_FORMAT, "\"a\"", "plain name"},
      {"{\"weight_map\":{\"a\":^\"x\\\\y\"}}", EMBED_E_FORMAT, "\"a\"", "plain name"},
      {"{\"weight_map\":{\"a\":^\"..\"}}", EMBED_E_FORMAT, "\"a\"", "plain name"},
      {"{\"weight_map\":{\"a\":^\".\"}}", EMBED_E_FORMAT, "\"a\"", "plain name"},
      {"{\"weight_map\":{\"a\":^\"\"}}", EMBED_E_FORMAT, "\"a\"", "plain name"},
      {"{\"weight_map\":{\"a\":^\"<1>\\u0000\"}}", EMBED_E_FORMAT, "\"a\"", "plain name"},
      {"{\"weight_map\":{^\"a\\u0000\":\"<1>\"}}", EMBED_E_FORMAT, "NUL", ""},
      {"{\"weight_map\":{\"a\":\"<1>\",^\"a\":\"<1>\"}}", EMBED_E_FORMAT, "second time", ""},
      {"{\"weight_map\":{},^\"weight_map\":{}}", EMBED_E_FORMAT, "second time", ""},
      {"{\"weight_map\":{\"a\":^1}}", EMBED_E_FORMAT, "the name of a file", ""},
      {"{\"weight_map\":^[]}", EMBED_E_FORMAT, "the map in braces", ""},
      {"{\"metadata\":^1,\"weight_map\":{}}", EMBED_E_FORMAT, "metadata in braces", ""},
      {"{\"metadata\":{\"weight_map\":{}}}^", EMBED_E_FORMAT, "a \"weight_map\"", ""},
      {"{\"weight_map\":{}} ^x", EMBED_E_FORMAT, "nothing behind", ""},
      {"^[\"weight_map\"]", EMBED_E_FORMAT, "an index in braces", ""},
      {"{\"weight_map\":{\"a\":\"<1>\"}^", EMBED_E_FORMAT, "the JSON ends", ""},
  };
  const embed_file_options o = {.size = sizeof o, .format = "safetensors-index"}, small = {.size = sizeof small, .max_header = 16};
  embed_context *ctx = new_context(NULL);
  shards s = write_shards("{\"weight_map\":{}}");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char map[256];
    strcpy(map, cases[i].map);
    char *mark = strchr(map, '^');
    int64_t at = mark - map;
    memmove(mark, mark + 1, strlen(mark));
    for (const char *m = map; m < mark; ++m)
      if (!strncmp(m, "<1>", 3) || !strncmp(m, "<2>", 3)) at += (int64_t)strlen(base_of(s.first)) - 3;
    s = write_shards(map);
    refused(ctx, s.index, &o, cases[i].status, at, cases[i].says);
    assert_non_null(strstr(embed_error_text(ctx), cases[i].also));
  }
  s = write_shards("{\"weight_map\":{}}");
  refused(ctx, s.index, &small, EMBED_E_FORMAT, 0, "17 bytes, at most 16");
  unlink_shards(&s);
  embed_context_release(ctx);
}

/* A shard that would not open alone does not open as a part, and the message is about it. */
static void a_broken_shard_is_named(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  shards s = write_shards("{\"weight_map\":{\"a\":\"<1>\",\"b\":\"<2>\"}}");
  embed_file *f = (embed_file *)(uintptr_t)8;
  assert_int_equal(truncate(s.second, 150), 0);
  assert_int_equal(embed_file_open(ctx, s.index, NULL, &f), EMBED_E_FORMAT);
  assert_null(f);
  assert_int_equal(embed_error_at(ctx), 150);
  assert_non_null(strstr(embed_error_text(ctx), s.second));
  assert_non_null(strstr(embed_error_text(ctx), "cut short"));
  assert_int_equal(truncate(s.second, 0), 0);
  refused(ctx, s.index, NULL, EMBED_E_FORMAT, (int64_t)(strlen("{\"weight_map\":{\"a\":\"\",\"b\":") + strlen(base_of(s.first))),
          "of tensor \"b\": the file is empty");
  unlink(s.second);
  assert_int_equal(mkdir(s.second, 0700), 0);
  refused(ctx, s.index, NULL, EMBED_E_IO, embed_error_at(ctx), "directory");
  assert_int_equal(rmdir(s.second), 0);
  assert_true(is_mapped(s.first) != 1);
  unlink_shards(&s);
  embed_context_release(ctx);
}

static void an_index_survives_wrong_bytes_and_failing_allocations(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  counting c = {.fail_at = 0};
  embed_context *ctx = counting_context(&c);
  shards s = write_shards("{\"weight_map\":{\"a\":\"<1>\",\"both\":\"<2>\"}}");
  embed_file_release(open_file(ctx, s.index, NULL));
  const int64_t blocks = c.blocks;
  for (embed_status status = EMBED_E_MEMORY; status != EMBED_OK;) {
    static int64_t k;
    embed_file *f = (embed_file *)(uintptr_t)8;
    c.calls = 0;
    c.fail_at = ++k;
    status = embed_file_open(ctx, s.index, &(embed_file_options){.size = sizeof(embed_file_options), .flags = EMBED_FILE_COPY}, &f);
    assert_true(status == EMBED_OK || status == EMBED_E_MEMORY);
    c.fail_at = 0;
    embed_file_release(f);
    assert_int_equal(c.blocks, blocks);
    assert_true(k < 100);
  }
  int descriptor = open(s.index, O_RDONLY | O_CLOEXEC);
  ssize_t bytes = read(descriptor, file, sizeof file);
  assert_true(bytes > 0);
  close(descriptor);
  for (ssize_t bit = 0; bit < 8 * bytes; ++bit) {
    file[bit / 8] ^= (unsigned char)(1 << bit % 8);
    use_all(ctx, write_file("model.index.json", file, (size_t)bytes));
    file[bit / 8] ^= (unsigned char)(1 << bit % 8);
  }
  for (ssize_t cut = 0; cut < bytes; ++cut) {
    embed_file *f = NULL;
    const embed_file_options o = {.size = sizeof o, .format = "safetensors-index"};
    assert_int_equal(embed_file_open(ctx, write_file("model.index.json", file, (size_t)cut), &o, &f), EMBED_E_FORMAT);
  }
  assert_int_equal(c.blocks, blocks);
  unlink_shards(&s);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(tables_are_views_of_the_files_bytes),
    cmocka_unit_test(tensors_are_listed_in_the_headers_order),
    cmocka_unit_test(every_type_is_listed_and_floats_are_tables),
    cmocka_unit_test(metadata_is_handed_out),
    cmocka_unit_test(any_of_many_tensors_is_found_by_its_name),
    cmocka_unit_test(each_check_has_its_hostile_file),
    cmocka_unit_test(brackets_nested_200000_deep_are_refused),
    cmocka_unit_test(lengths_and_other_files_are_told_apart),
    cmocka_unit_test(a_file_cut_at_any_byte_is_refused_there),
    cmocka_unit_test(an_entry_read_at_sight_says_what_the_parser_says),
    cmocka_unit_test(no_single_wrong_bit_of_a_header_harms),
    cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
    cmocka_unit_test(memory_is_a_small_multiple_of_the_header),
    cmocka_unit_test(an_index_opens_all_its_shards_in_the_maps_order),
    cmocka_unit_test(each_check_of_an_index_has_its_hostile_file),
    cmocka_unit_test(a_broken_shard_is_named),
    cmocka_unit_test(an_index_survives_wrong_bytes_and_failing_allocations),
};
TEST_MAIN(tests)
