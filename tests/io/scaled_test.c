/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors of 8 bits in safetensors: alone they are tables as they lie, with a tensor of scales beside them they are multiplied by it. */
#include <math.h>

#include "gguf_file.h"
#include "safetensors_file.h"

enum { ROOM = 1 << 18, ROWS = 259, DIM = 288 };

static unsigned char file[ROOM];

/* --- The two formats by their definition, in double */

static double e4m3(int byte) {
  const int exponent = byte >> 3 & 15, low = byte & 7;
  const double value = (byte & 127) == 127 ? (double)NAN : exponent ? ldexp(8 + low, exponent - 10) : ldexp(low, -9);
  return byte & 128 ? -value : value;
}

static double e5m2(int byte) {
  const int exponent = byte >> 2 & 31, low = byte & 3;
  const double value = exponent == 31 ? (low ? (double)NAN : (double)INFINITY) : exponent ? ldexp(4 + low, exponent - 17) : ldexp(low, -16);
  return byte & 128 ? -value : value;
}

static double value_of(const char *type, int byte) { return type[0] == 'I' ? (int8_t)byte : type[4] == '4' ? e4m3(byte) : e5m2(byte); }

/* Scale i as its type holds it, where it is put. */
static double put_scale(const char *type, int64_t i, unsigned char *at, size_t *width) {
  uint64_t bits = 0;
  double value = 0;
  if (!strcmp(type, "F32")) {
    const float x = 0.37f + 0.01f * (float)i;
    uint32_t word;
    memcpy(&word, &x, 4);
    bits = word, value = (double)x, *width = 4;
  } else if (!strcmp(type, "F64")) {
    value = 0.1 + 0.001 * (double)i, *width = 8;
    memcpy(&bits, &value, 8);
  } else if (!strcmp(type, "BF16")) { /* (128 + i % 128) / 2^9 */
    bits = 0x3E80u + (uint64_t)(i % 128), value = ldexp(128 + (double)(i % 128), -9), *width = 2;
  } else if (!strcmp(type, "F16")) { /* (1024 + i % 1024) / 2^12 */
    bits = 0x3400u + (uint64_t)(i % 1024), value = ldexp(1024 + (double)(i % 1024), -12), *width = 2;
  } else {
    bits = 120u + (uint64_t)(i % 16), value = ldexp(1, (int)(i % 16) - 7), *width = 1; /* F8_E8M0 */
  }
  for (size_t b = 0; b < *width; ++b) at[b] = (unsigned char)(bits >> 8 * b);
  return value;
}

/* "w" of rows x DIM and its scales; scale[i]: what they are. The values are bytes 7 i. */
static size_t make_scaled(const char *type, int64_t rows, const char *name, const char *scale_type, const char *shape, int64_t count, double *scale) {
  static unsigned char data[ROWS * DIM + 8 * ROWS * DIM / 32];
  char header[512];
  size_t at = (size_t)(rows * DIM), width = 0;
  for (size_t i = 0; i < at; ++i) data[i] = (unsigned char)(7 * i);
  for (int64_t i = 0; i < count; ++i, at += width) scale[i] = put_scale(scale_type, i, data + at, &width);
  snprintf(header, sizeof header,
           "{\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%d,%d]},\"w\":{\"dtype\":\"%s\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}}", name,
           scale_type, shape, (int)(rows * DIM), (int)at, type, (int)rows, DIM, (int)(rows * DIM));
  return make_safetensors(file, header, 8, data, at);
}

static embed_table *table_of(embed_context *ctx, const embed_file *f, const char *name) {
  embed_table *t = NULL;
  if (embed_file_table(ctx, f, find(ctx, f, name), &t) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  return t;
}

static void same(float got, float want, int64_t row, int64_t j) {
  if (isnan(want) ? !isnan(got) : got != want) fail_msg("row %d column %d is %a, not %a", (int)row, (int)j, (double)got, (double)want);
}

/* Every form of scales with every type of them: the product in double, rounded once. */
static void values_are_multiplied_by_their_scales(void **state) {
  (void)state;
  static const struct {
    const char *shape;
    int64_t rows, down, across; /* of the values that have one scale */
  } forms[] = {{"[]", ROWS, ROWS, DIM},   {"[1]", ROWS, ROWS, DIM},  {"[1,1]", ROWS, ROWS, DIM}, {"[259]", ROWS, 1, DIM},
               {"[259,1]", ROWS, 1, DIM}, {"[3,3]", ROWS, 128, 128}, {"[259,3]", ROWS, 1, 128},  {"[259,9]", ROWS, 1, 32},
               {"[3,1]", ROWS, 128, DIM}, {"[1,3]", 1, 1, 128},      {"[2,3]", 256, 128, 128},   {"[2,3]", 129, 128, 128}};
  static const char *const types[] = {"F8_E4M3", "F8_E5M2", "I8"}, *const scale_types[] = {"F32", "F64", "BF16", "F16", "F8_E8M0"};
  static double scale[ROWS * DIM / 32];
  static float row[DIM];
  embed_context *ctx = new_context(NULL);
  for (size_t k = 0; k < sizeof forms / sizeof *forms; ++k)
    for (int type = 0; type < 3; ++type)
      for (int of = 0; of < 5; ++of) {
        const int64_t rows = forms[k].rows, in_a_row = (DIM + forms[k].across - 1) / forms[k].across;
        const int64_t count = (rows + forms[k].down - 1) / forms[k].down * in_a_row;
        const char *name = (type + of) % 2 ? "w_scale" : "w_scale_inv";
        const size_t bytes = make_scaled(types[type], rows, name, scale_types[of], forms[k].shape, count, scale);
        embed_file *f = open_file(ctx, write_file("scaled", file, bytes), NULL);
        embed_table *t = table_of(ctx, f, "w");
        const int whole = type == 2 && in_a_row == 1;
        assert_int_equal(embed_table_dtype(t), whole ? EMBED_I8_ROW : EMBED_F32);
        assert_int_equal(embed_table_rows(t), rows);
        embed_tensor_info info = {.size = sizeof info};
        assert_int_equal(embed_file_tensor(ctx, f, find(ctx, f, "w"), &info), EMBED_OK);
        assert_string_equal(info.stored, types[type]);
        assert_int_equal(info.dtype, embed_table_dtype(t));
        assert_int_equal(info.bytes, rows * DIM);
        assert_non_null(strstr(embed_file_notes(f), "1 tensor is multiplied by the scales beside it"));
        for (int64_t r = 0; r<rows; r += r % 128> 120 || r < 5 ? 1 : 9) {
          assert_int_equal(embed_table_get_rows(ctx, t, &r, 1, row, EMBED_F32, 0), EMBED_OK);
          for (int64_t j = 0; j < DIM; ++j) {
            double s = scale[r / forms[k].down * in_a_row + j / forms[k].across];
            if (whole) s = (double)(float)s;
            same(row[j], (float)(value_of(types[type], (int)((7 * (r * DIM + j)) & 255)) * s), r, j);
          }
        }
        embed_table_release(t);
        embed_file_release(f);
      }
  unlink(path_of("scaled"));
  embed_context_release(ctx);
}

static void without_scales_they_lie_as_tables_do(void **state) {
  (void)state;
  static double scale[1];
  static float row[DIM];
  embed_context *ctx = new_context(NULL);
  for (int type = 0; type < 2; ++type) {
    const char *const name = type ? "F8_E5M2" : "F8_E4M3";
    const size_t bytes = make_scaled(name, 3, "w_input_scale", "F32", "[]", 1, scale); /* another's */
    embed_file *f = open_file(ctx, write_file("plain", file, bytes), NULL);
    embed_table *t = table_of(ctx, f, "w");
    assert_int_equal(embed_table_dtype(t), type ? EMBED_F8_E5M2 : EMBED_F8_E4M3);
    assert_memory_equal(embed_table_data(t), file + bytes - 4 - 3 * DIM, 3 * DIM);
    assert_int_equal(embed_table_get_rows(ctx, t, &(int64_t){1}, 1, row, EMBED_F32, 0), EMBED_OK);
    for (int j = 0; j < DIM; ++j) same(row[j], (float)value_of(name, (7 * (DIM + j)) & 255), 1, j);
    assert_null(strstr(embed_file_notes(f) ? embed_file_notes(f) : "", "scales"));
    embed_table_release(t);
    embed_file_release(f);
  }
  unlink(path_of("plain"));
  embed_context_release(ctx);
}

static void no_table(embed_context *ctx, size_t bytes, const char *why) {
  embed_table *t = (embed_table *)(uintptr_t)8;
  embed_tensor_info info = {.size = sizeof info};
  embed_file *f = open_file(ctx, write_file("refused", file, bytes), NULL);
  assert_int_equal(embed_file_tensor(ctx, f, find(ctx, f, "w"), &info), EMBED_OK);
  assert_int_equal(info.dtype, EMBED_DTYPE_NONE);
  assert_int_equal(embed_file_table(ctx, f, find(ctx, f, "w"), &t), EMBED_E_UNSUPPORTED);
  assert_null(t);
  if (!strstr(embed_error_text(ctx), why)) fail_msg("%s", embed_error_text(ctx));
  embed_file_release(f);
}

/* The values without the scales would be wrong numbers. */
static void scales_that_are_not_understood_leave_no_table(void **state) {
  (void)state;
  static const struct {
    const char *type, *shape;
    int64_t count;
  } bad[] = {{"F32", "[2]", 2},       {"F32", "[258]", 258}, {"F32", "[3]", 3},   {"F32", "[288]", 288},   {"F32", "[3,2]", 6}, {"F32", "[3,3,1]", 9},
             {"F32", "[259,2]", 518}, {"F32", "[0]", 0},     {"F32", "[0,3]", 0}, {"F32", "[1,288]", 288}, {"F32", "[4,3]", 12}};
  static double scale[ROWS * 2];
  embed_context *ctx = new_context(NULL);
  for (size_t k = 0; k < sizeof bad / sizeof *bad; ++k)
    no_table(ctx, make_scaled(k % 2 ? "I8" : "F8_E4M3", ROWS, k % 3 ? "w_scale" : "w_scale_inv", bad[k].type, bad[k].shape, bad[k].count, scale),
             "its scales are not one");
  static const struct {
    const char *header, *why;
    size_t bytes;
  } odd[] = {{"{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[0,4]},\"w_scale\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
              "(I32 [1]), tensor w_scale", 8},
             {"{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[0,4]},\"w_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[4,5]}}",
              "F8_E4M3 [1]", 5},
             {"{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[0,4]},\"w_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
              "\"w_scale_inv\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
              "more scales than one", 12},
             {"{\"w\":{\"dtype\":\"I8\",\"shape\":[2,2],\"data_offsets\":[0,4]},\"w_scale\":{\"dtype\":\"F32\",\"shape\":[7],\"data_offsets\":[4,32]},"
              "\"w_scale_inv\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[32,36]}}",
              "more scales than one", 36},
             {"{\"w_zero_point\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[8,10]},\"w\":{\"dtype\":\"I8\",\"shape\":[2,2],\"data_offsets\":[0,4]},"
              "\"w_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
              "its zero points are not of int8, one for each scale (I8 [2]), tensor w_zero_point", 10}};
  for (size_t k = 0; k < sizeof odd / sizeof *odd; ++k)
    no_table(ctx, make_safetensors(file, odd[k].header, 8, (const unsigned char[64]){0}, odd[k].bytes), odd[k].why);
  unlink(path_of("refused"));
  embed_context_release(ctx);
}

/* Scales of other tensors, of ones that have a float type, of names that are the ending alone, of more extents than a table has. */
static void scales_of_nothing_change_nothing(void **state) {
  (void)state;
  static const char header[] =
      "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},\"w_scale\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[4,24]},"
      "\"_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]},\"x_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[28,32]},"
      "\"e\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,2,2],\"data_offsets\":[32,36]},\"e_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[36,40]}}";
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_file(ctx, write_file("nothing", file, make_safetensors(file, header, 8, (const unsigned char[64]){0}, 40)), NULL);
  embed_table *t = table_of(ctx, f, "w");
  assert_int_equal(embed_table_dtype(t), EMBED_F32);
  embed_table_release(t);
  assert_int_equal(embed_file_table(ctx, f, find(ctx, f, "e"), &t), EMBED_E_MISMATCH);
  embed_file_release(f);
  unlink(path_of("nothing"));
  embed_context_release(ctx);
}

/* Scales that are no numbers give rows that are none, and only those. */
static void hostile_scales_stay_in_their_rows(void **state) {
  (void)state;
  static const char header[] =
      "{\"w\":{\"dtype\":\"F8_E5M2\",\"shape\":[4,2],\"data_offsets\":[0,8]},\"w_scale\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]}}";
  static const unsigned char data[24] = {0x3C, 0x00, 0x3C, 0x00, 0x3C, 0x3C, 0x3C, 0xBC, 0, 0, 0xC0, 0x7F,
                                         0,    0,    0x80, 0x7F, 0xFF, 0xFF, 0x7F, 0x7F, 0, 0, 0,    0x40};
  float got[8];
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_file(ctx, write_file("hostile", file, make_safetensors(file, header, 8, data, sizeof data)), NULL);
  embed_table *t = table_of(ctx, f, "w");
  read_rows(ctx, t, got);
  assert_true(isnan(got[0]) && isnan(got[1]) && isinf(got[2]) && isnan(got[3]));
  assert_true(got[4] == 0x1.fffffep127f && got[6] == 2 && got[7] == -2);
  embed_table_release(t);
  embed_file_release(f);
  unlink(path_of("hostile"));
  embed_context_release(ctx);
}

static void seven_threads_decode_the_same_bits(void **state) {
  (void)state;
  enum { MANY = 4099, WIDE = 640 };
  const size_t bytes = (size_t)MANY * WIDE + 33 * 5 * 4;
  unsigned char *data = malloc(bytes), *whole = malloc(bytes + 4096);
  float *one = malloc((size_t)MANY * WIDE * 4), *seven = malloc((size_t)MANY * WIDE * 4);
  uint64_t random = 3;
  char header[256];
  assert_true(data && whole && one && seven);
  for (size_t i = 0; i < bytes; ++i) data[i] = (unsigned char)(test_random(&random) >> 40 & 0xBF);
  snprintf(header, sizeof header,
           "{\"model.embed_tokens.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},\"model.embed_tokens.weight_scale_inv\":"
           "{\"dtype\":\"F32\",\"shape\":[33,5],\"data_offsets\":[%d,%d]}}",
           MANY, WIDE, MANY * WIDE, MANY * WIDE, (int)bytes);
  const char *path = write_file("threads", whole, make_safetensors(whole, header, 8, data, bytes));
  for (int threads = 1; threads <= 7; threads += 6) {
    embed_pool *pool = NULL;
    assert_int_equal(embed_pool_create(threads, &pool), EMBED_OK);
    embed_context *ctx = new_context(pool);
    embed_file *f = open_file(ctx, path, NULL);
    embed_table *t = open_table(ctx, f); /* the token table, by its name */
    assert_int_equal(embed_table_rows(t), MANY);
    read_rows(ctx, t, threads == 1 ? one : seven);
    embed_table_release(t);
    embed_file_release(f);
    embed_context_release(ctx);
    embed_pool_release(pool);
  }
  assert_same_bits(one, seven, (size_t)MANY * WIDE * 4);
  unlink(path);
  free(data), free(whole), free(one), free(seven);
}

/* An index whose values and scales lie in two files. */
static void scales_may_lie_in_another_shard(void **state) {
  (void)state;
  static const char values[] = "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[0,4]}}",
                    scales[] = "{\"w_scale\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}";
  static const unsigned char w[4] = {0x38, 0xB8, 0x40, 0x00}, s[8] = {0, 0, 0, 0x40, 0, 0, 0, 0x3F};
  char first[4096], second[4096];
  float got[4];
  embed_context *ctx = new_context(NULL);
  strcpy(first, write_file("values.safetensors", file, make_safetensors(file, values, 8, w, 4)));
  strcpy(second, write_file("scales.safetensors", file, make_safetensors(file, scales, 8, s, 8)));
  const char *index = write_file("both.index.json", file, make_index(file, ROOM, "w", strrchr(first, '/') + 1, "w_scale", strrchr(second, '/') + 1));
  embed_file *f = open_file(ctx, index, NULL);
  embed_table *t = table_of(ctx, f, "w");
  read_rows(ctx, t, got);
  assert_true(got[0] == 2 && got[1] == -2 && got[2] == 1 && got[3] == 0);
  embed_table_release(t);
  embed_file_release(f);
  unlink(index), unlink(first), unlink(second);
  embed_context_release(ctx);
}

/* GGUF's "X.scale" beside "X.weight": NVFP4 is multiplied by it, one number; all else has none. */
static void a_gguf_head_of_nvfp4_has_one_scale(void **state) {
  (void)state;
  enum { COLUMNS = 128, HEAD_ROWS = 3, BYTES = HEAD_ROWS * COLUMNS / 64 * 36 };
  unsigned char blocks[BYTES];
  float plain[HEAD_ROWS * COLUMNS], scaled[HEAD_ROWS * COLUMNS];
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < BYTES; ++i) blocks[i] = (unsigned char)(73 * i + 41);
  for (int kind = 0; kind < 4; ++kind) { /* no scale, one, two, one of the other byte order */
    gg_big_endian = kind == 3;
    gg_begin(3, kind ? 2 : 1, 1);
    gg_pair_string("general.architecture", "llama");
    gg_tensor("output.weight", 2, (const uint64_t[]){COLUMNS, HEAD_ROWS}, 40, 0);
    if (kind) gg_tensor("output.scale", 1, (const uint64_t[]){kind == 2 ? 2 : 1}, 0, (BYTES + 31) / 32 * 32);
    gg_pad(32);
    gg_bytes(blocks, BYTES);
    gg_pad(32);
    if (kind) gg_f32(0.3f), gg_f32(0.3f);
    const char *path = write_file("nvfp4", gg, gg_count);
    gg_big_endian = 0;
    embed_file *f = open_file(ctx, path, NULL);
    embed_table *t = NULL;
    const embed_status status = embed_file_table(ctx, f, find(ctx, f, "output.weight"), &t);
    if (kind > 1) {
      assert_int_equal(status, EMBED_E_UNSUPPORTED);
      assert_non_null(strstr(embed_error_text(ctx), "tensor output.scale"));
    } else {
      assert_int_equal(status, EMBED_OK);
      assert_int_equal(embed_table_dtype(t), kind ? EMBED_F32 : EMBED_NVFP4);
      read_rows(ctx, t, kind ? scaled : plain);
    }
    embed_table_release(t);
    embed_file_release(f);
  }
  for (int i = 0; i < HEAD_ROWS * COLUMNS; ++i) same(scaled[i], plain[i] * 0.3f, i / COLUMNS, i % COLUMNS);
  unlink(path_of("nvfp4"));
  embed_context_release(ctx);
}

static void every_truncation_is_an_error_and_failures_of_memory_are_too(void **state) {
  (void)state;
  static double scale[4];
  embed_context *ctx = new_context(NULL);
  const size_t bytes = make_scaled("F8_E4M3", 2, "w_scale", "F32", "[2]", 2, scale);
  for (size_t cut = 0; cut < bytes; ++cut) assert_int_not_equal(try_file(ctx, write_file("cut", file, cut), NULL), EMBED_OK);
  survives_failures(write_file("cut", file, bytes), NULL);
  static const char header[] =
      "{\"model.embed_tokens.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[0,4]},"
      "\"model.embed_tokens.weight_scale\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]}}";
  survives_mutations(ctx, "cut", file, make_safetensors(file, header, 1, (const unsigned char[12]){1, 2, 3, 4}, 12));
  unlink(path_of("cut"));
  embed_context_release(ctx);
}

static void a_scale_may_belong_to_64_columns(void **state) {
  (void)state;
  static const char header[] =
      "{\"w\":{\"dtype\":\"I8\",\"shape\":[2,192],\"data_offsets\":[0,384]},\"w_scale\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[384,396]},"
      "\"w_zero_point\":{\"dtype\":\"I8\",\"shape\":[2,3],\"data_offsets\":[396,402]}}";
  static unsigned char data[402];
  static float got[384];
  for (int i = 0; i < 384; ++i) data[i] = (unsigned char)(5 * i);
  for (int i = 0; i < 6; ++i) data[384 + 2 * i] = (unsigned char)(16 * i), data[385 + 2 * i] = 0x3C, data[396 + i] = (unsigned char)(50 * i); /* 1 + i / 64 */
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_file(ctx, write_file("sixty-four", file, make_safetensors(file, header, 8, data, sizeof data)), NULL);
  embed_table *t = table_of(ctx, f, "w");
  read_rows(ctx, t, got);
  for (int i = 0; i < 384; ++i) same(got[i], (float)(((int8_t)data[i] - (int8_t)data[396 + i / 64]) * (1 + (i / 64) / 64.0)), i / 192, i % 192);
  embed_table_release(t);
  embed_file_release(f);
  unlink(path_of("sixty-four"));
  embed_context_release(ctx);
}

/* The same bytes times other scales are another matrix. */
static void a_head_with_scales_of_its_own_is_untied(void **state) {
  (void)state;
  static const char header[] =
      "{\"model.embed_tokens.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[0,4]},"
      "\"lm_head.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[4,8]},"
      "\"model.embed_tokens.weight_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
      "\"lm_head.weight_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}";
  static const unsigned char data[16] = {0x38, 0x40, 0x44, 0x48, 0x38, 0x40, 0x44, 0x48, 0, 0, 0x80, 0x3F, 0, 0, 0, 0x40}; /* 1 2 3 4; 1 and 2 */
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_file(ctx, write_file("ends", file, make_safetensors(file, header, 8, data, sizeof data)), NULL);
  embed_head *h = NULL;
  int64_t head = -1;
  float logits[2];
  assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_HEAD, &head), EMBED_OK);
  assert_int_equal(head, find(ctx, f, "lm_head.weight"));
  assert_int_equal(embed_file_head(ctx, f, NULL, NULL, &h), EMBED_OK);
  assert_int_equal(embed_logits(ctx, h, (const float[]){1, 0}, EMBED_F32, 1, 0, logits, 0, NULL), EMBED_OK);
  assert_true(logits[0] == 2 && logits[1] == 6);
  embed_head_release(h);
  embed_file_release(f);
  unlink(path_of("ends"));
  embed_context_release(ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_multiplied_by_their_scales),
      cmocka_unit_test(without_scales_they_lie_as_tables_do),
      cmocka_unit_test(scales_that_are_not_understood_leave_no_table),
      cmocka_unit_test(scales_of_nothing_change_nothing),
      cmocka_unit_test(hostile_scales_stay_in_their_rows),
      cmocka_unit_test(seven_threads_decode_the_same_bits),
      cmocka_unit_test(scales_may_lie_in_another_shard),
      cmocka_unit_test(a_scale_may_belong_to_64_columns),
      cmocka_unit_test(a_head_with_scales_of_its_own_is_untied),
      cmocka_unit_test(a_gguf_head_of_nvfp4_has_one_scale),
      cmocka_unit_test(every_truncation_is_an_error_and_failures_of_memory_are_too),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
