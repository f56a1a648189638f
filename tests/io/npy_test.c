/* SPDX-License-Identifier: BSD-3-Clause */
/* NumPy's array files: what opens, with which bits, and which byte is named when one does not. */
#include "files.h"

#include <stdbool.h>

enum { ROOM = 65536, V1 = 10 /* where the text of a version 1 header starts */ };

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define NATIVE  ">f4"
#define FOREIGN "<f4"
#else
#define NATIVE  "<f4"
#define FOREIGN ">f4"
#endif

static const float values[12] = {0.0f, -0.0f, 1.5f, -2.25f, 3e38f, 1e-40f, 7.0f, 8.0f, 9.0f, 10.0f, 11.0f, 65504.0f};

static void same_values(embed_context *ctx, const embed_table *t, const float *want, int64_t rows, int64_t dim) {
  float *got = malloc(sizeof *got * (size_t)(rows * dim));
  assert_non_null(got);
  assert_int_equal(embed_table_rows(t), rows);
  assert_int_equal(embed_table_vocab(t), rows);
  assert_int_equal(embed_table_dim(t), dim);
  read_rows(ctx, t, got);
  assert_same_bits(got, want, sizeof *got * (size_t)(rows * dim));
  free(got);
}

static void little_endian_rows_are_the_files_own_bytes(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  for (int version = 1; version <= 3; ++version)
    for (size_t shift = 0; shift < 9; ++shift) { /* data at every residue of 8, odd ones too */
      char dict[128];
      snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }%*s", (int)shift, "");
      size_t bytes = make_npy(file, version, dict, 1, file_floats(values, 12), sizeof values);
      for (uint32_t flags = 0; flags < 4; ++flags) {
        embed_file_options o = {.size = sizeof o, .flags = flags};
        embed_file *f = open_file(ctx, write_file("rows", file, bytes), &o);
        embed_table *t = open_table(ctx, f);
        assert_string_equal(embed_file_format(f), "npy");
        assert_string_equal(embed_file_notes(f), "");
        assert_int_equal(embed_table_dtype(t), EMBED_F32);
        assert_memory_equal(embed_table_data(t), values, sizeof values);
        assert_null(embed_table_mutable_data(t));
        same_values(ctx, t, values, 3, 4);
        embed_file_release(f);
        embed_table_release(t);
      }
    }
  unlink(path_of("rows"));
  embed_context_release(ctx);
}

static void put(unsigned char *out, uint64_t bits, int width, bool big) {
  for (int i = 0; i < width; ++i) out[big ? width - 1 - i : i] = (unsigned char)(bits >> (8 * i));
}

/* The bits of small whole numbers in the three widths. */
static uint64_t bits_of(int number, int width) {
  float f = (float)number;
  double d = number;
  uint32_t w;
  uint64_t q;
  memcpy(&w, &f, 4);
  memcpy(&q, &d, 8);
  if (width == 4) return w;
  if (width == 8) return q;
  return number == 0 ? 0 : ((w >> 16) & 0x8000u) | ((((w >> 23) & 255u) - 112u) << 10) | ((w >> 13) & 1023u); /* exact below 2048 */
}

/* NP-01, NP-03 */
static void every_byte_order_and_order_of_extents_gives_the_same_rows(void **state) {
  (void)state;
  static const int shapes[][2] = {{1, 1}, {1, 7}, {7, 1}, {3, 4}, {33, 31}, {37, 70}, {600, 65}};
  static unsigned char file[ROOM * 8], data[ROOM * 8];
  static float want[600 * 65];
  embed_pool *pool = NULL;
  assert_int_equal(embed_pool_create(3, &pool), EMBED_OK);
  embed_context *alone = new_context(NULL), *threads = new_context(pool);
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s)
    for (int width = 2; width <= 8; width *= 2)
      for (int how = 0; how < 4; ++how) {
        bool big = how & 1, fortran = how & 2;
        int rows = shapes[s][0], dim = shapes[s][1];
        char dict[128];
        for (int r = 0; r < rows; ++r)
          for (int c = 0; c < dim; ++c) {
            int number = (r * 31 + c * 7) % 2048 - 1024;
            want[r * dim + c] = (float)number;
            put(data + (fortran ? c * rows + r : r * dim + c) * width, bits_of(number, width), width, big);
          }
        snprintf(dict, sizeof dict, "{'descr': '%cf%d', 'fortran_order': %s, 'shape': (%d, %d), }", big ? '>' : '<', width, fortran ? "True" : "False", rows,
                 dim);
        size_t bytes = make_npy(file, 1, dict, s % 2 ? 64 : 1, data, (size_t)(rows * dim * width));
        embed_context *ctx = how % 2 ? threads : alone;
        embed_file *f = open_file(ctx, write_file("order", file, bytes), NULL);
        embed_table *t = open_table(ctx, f);
        embed_file_release(f);
        assert_int_equal(embed_table_dtype(t), width == 2 ? EMBED_F16 : width == 4 ? EMBED_F32 : EMBED_F64);
        same_values(ctx, t, want, rows, dim);
        embed_table_release(t);
      }
  unlink(path_of("order"));
  embed_context_release(alone);
  embed_context_release(threads);
  embed_pool_release(pool);
}

static embed_file *open_dict(embed_context *ctx, const char *dict, const void *data, size_t bytes) {
  static unsigned char file[ROOM];
  return open_file(ctx, write_file("dict", file, make_npy(file, 1, dict, 64, data, bytes)), NULL);
}

static void the_one_tensor_is_described(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_dict(ctx, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", file_floats(values, 12), sizeof values);
  embed_tensor_info info = {.size = sizeof info};
  assert_int_equal(embed_file_count(f), 1);
  assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
  assert_string_equal(info.name, "array");
  assert_string_equal(info.stored, "<f4");
  assert_int_equal(info.rank, 2);
  assert_int_equal(info.shape[0], 3);
  assert_int_equal(info.shape[1], 4);
  assert_int_equal(info.shape[2], 0);
  assert_int_equal(info.offset, 128);
  assert_int_equal(info.bytes, 48);
  assert_int_equal(info.dtype, EMBED_F32);
  assert_int_equal(info.role, EMBED_ROLE_TOKEN);
  assert_int_equal(info.shard, 0);
  int64_t bytes = 9;
  assert_null(embed_file_token(f, 0, &bytes));
  assert_int_equal(bytes, 0);
  int64_t id = 77;
  assert_int_equal(embed_file_token_id(ctx, f, "a", 1, &id), EMBED_E_NOT_FOUND);
  assert_int_equal(id, 77);
  embed_file_release(f);
  unlink(path_of("dict"));
  embed_context_release(ctx);
}

static void one_extent_is_one_row_and_other_ranks_are_no_table(void **state) {
  (void)state;
  static const struct {
    const char *shape;
    int64_t rows, dim;
    const char *says;
  } cases[] = {{"(12,)", 1, 12, NULL},    {"(0, 4)", 0, 4, NULL},           {"()", 0, 0, "[]"},
               {"(0,)", 0, 0, "[0]"},     {"(2, 3, 2)", 0, 0, "[2, 3, 2]"}, {"(1, 1, 1, 1, 1, 1, 1, 12)", 0, 0, "[1, 1, 1, 1, 1, 1, 1, 12]"},
               {"(3, 0)", 0, 0, "[3, 0]"}};
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    for (int fortran = 0; fortran < 2; ++fortran) {
      char dict[160];
      snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': %s, 'shape': %s, }", fortran ? "True" : "False", cases[i].shape);
      embed_file *f = open_dict(ctx, dict, file_floats(values, 12), sizeof values);
      if (cases[i].says) {
        embed_table *t = (embed_table *)(uintptr_t)8;
        assert_int_equal(embed_file_table(ctx, f, 0, &t), EMBED_E_MISMATCH);
        assert_null(t);
        assert_non_null(strstr(embed_error_text(ctx), cases[i].says));
      } else {
        embed_table *t = open_table(ctx, f);
        same_values(ctx, t, values, cases[i].rows, cases[i].dim);
        embed_table_release(t);
      }
      embed_file_release(f);
    }
  unlink(path_of("dict"));
  embed_context_release(ctx);
}

/* What ml_dtypes makes of float8_e5m2, in both orders. */
static void floats_of_8_bits_open(void **state) {
  (void)state;
  static const unsigned char rows[12] = {0x00, 0x80, 0x3C, 0xC0, 0x7B, 0x01, 0x47, 0x48, 0x48, 0x49, 0x49, 0x7A};
  static const float want[12] = {0.0f, -0.0f, 1.0f, -2.0f, 57344.0f, 0x1p-16f, 7.0f, 8.0f, 8.0f, 10.0f, 10.0f, 49152.0f};
  unsigned char columns[12];
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 12; ++i) columns[i % 4 * 3 + i / 4] = rows[i];
  for (int turned = 0; turned < 2; ++turned) {
    embed_file *f =
        open_dict(ctx, turned ? "{'descr': '<f1', 'fortran_order': True, 'shape': (3, 4), }" : "{'descr': '<f1', 'fortran_order': False, 'shape': (3, 4), }",
                  turned ? columns : rows, 12);
    embed_table *t = open_table(ctx, f);
    assert_int_equal(embed_table_dtype(t), EMBED_F8_E5M2);
    same_values(ctx, t, want, 3, 4);
    embed_table_release(t);
    embed_file_release(f);
  }
  unlink(path_of("dict"));
  embed_context_release(ctx);
}

/* NP-07 */
static void types_without_a_table_type_are_listed_and_not_opened(void **state) {
  (void)state;
  static const struct {
    const char *descr;
    int64_t width;
  } types[] = {{"|i1", 1},     {"|u1", 1}, {"<i2", 2},  {"<i4", 4}, {">i8", 8}, {"<u8", 8}, {"|b1", 1}, {"<c8", 8}, {"<f16", 16},
               {"<M8[ns]", 8}, {"<m8", 8}, {"<U3", 12}, {"|S5", 5}, {"|V4", 4}, {"|V2", 2}, {"<V2", 2}, {"|S0", 0}};
  static unsigned char data[256];
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    char dict[128];
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (3, 4), }", types[i].descr);
    embed_file *f = open_dict(ctx, dict, data, (size_t)(12 * types[i].width));
    embed_tensor_info info = {.size = sizeof info};
    embed_table *t = (embed_table *)(uintptr_t)8;
    assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
    assert_int_equal(info.dtype, EMBED_DTYPE_NONE);
    assert_string_equal(info.stored, types[i].descr);
    assert_int_equal(info.bytes, 12 * types[i].width);
    assert_int_equal(embed_file_table(ctx, f, 0, &t), EMBED_E_UNSUPPORTED);
    assert_null(t);
    assert_non_null(strstr(embed_error_text(ctx), types[i].descr));
    assert_int_equal(strstr(embed_error_text(ctx), "bfloat16") != NULL, strstr(types[i].descr, "V2") != NULL);
    embed_file_release(f);
  }
  unlink(path_of("dict"));
  embed_context_release(ctx);
}

static void odd_headers_that_numpy_reads_open(void **state) {
  (void)state;
  static const char *const dicts[] = {
      "{'shape': (3, 4), 'fortran_order': False, 'descr': '<f4'}",
      "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (3, 4), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4L), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4,), }",
      "  { 'descr' :\t'<f4' ,'fortran_order':False,'shape':( 3 ,4 ) , }  \n  ",
  };
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof dicts / sizeof *dicts; ++i) {
    size_t bytes = make_npy(file, 1, dicts[i], 16, file_floats(values, 12), sizeof values);
    for (int ending = 0; ending < 2; ++ending) {
      if (ending) file[bytes - sizeof values - 1] = ' '; /* no newline at its end */
      embed_file *f = open_file(ctx, write_file("odd", file, bytes), NULL);
      embed_table *t = open_table(ctx, f);
      same_values(ctx, t, values, 3, 4);
      embed_table_release(t);
      embed_file_release(f);
    }
  }
  unlink(path_of("odd"));
  embed_context_release(ctx);
}

/* ^ marks the byte that the error names; it is not part of the file. */
static void each_check_of_the_header_names_its_byte(void **state) {
  (void)state;
  static const struct {
    const char *dict;
    embed_status status;
    const char *says;
  } cases[] = {
      {"^('descr': '<f4')", EMBED_E_FORMAT, "a dict in braces"},
      {"^", EMBED_E_FORMAT, "a dict in braces"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } ^x", EMBED_E_FORMAT, "nothing but blanks"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }^}", EMBED_E_FORMAT, "nothing but blanks"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4) ^'x': 1}", EMBED_E_FORMAT, "a comma"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4),^, }", EMBED_E_FORMAT, "a quoted string"},
      {"{'fortran_order': False, 'shape': (3, 4), ^}", EMBED_E_FORMAT, "descr"},
      {"{'descr': '<f4', 'shape': (3, 4), ^}", EMBED_E_FORMAT, "fortran_order"},
      {"{'descr': '<f4', 'fortran_order': False, ^}", EMBED_E_FORMAT, "shape"},
      {"{'descr': '<f4', '^descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "each once"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), '^more': 1}", EMBED_E_FORMAT, "no other key"},
      {"{'^desc': '<f4', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "no other key"},
      {"{'descr' ^'<f4', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "a colon"},
      {"{^descr: '<f4', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "a quoted string"},
      {"{'descr': ^<f4, 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "a quoted string"},
      {"{'descr': '<f4^\\n', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "without escapes"},
      {"{'descr': '<f4^\n', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "without escapes"},
      {"{'descr': '<f^\xC3\xA4', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "without escapes"},
      {"{'descr': '<f4', 'fortran_order': ^false, 'shape': (3, 4), }", EMBED_E_FORMAT, "True or False"},
      {"{'descr': '<f4', 'fortran_order': ^1, 'shape': (3, 4), }", EMBED_E_FORMAT, "True or False"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': ^[3, 4], }", EMBED_E_FORMAT, "parentheses"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': ^12, }", EMBED_E_FORMAT, "parentheses"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (12^), }", EMBED_E_FORMAT, "no tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (^,), }", EMBED_E_FORMAT, "an extent"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3 ^4), }", EMBED_E_FORMAT, "a comma"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, ^'4'), }", EMBED_E_FORMAT, "an extent"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (^-1, 4), }", EMBED_E_FORMAT, "negative"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, ^04), }", EMBED_E_FORMAT, "leading zeros"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3^.0, 4), }", EMBED_E_FORMAT, "a comma"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3^e1, 4), }", EMBED_E_FORMAT, "a comma"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (^9223372036854775808, 4), }", EMBED_E_OVERFLOW, "64 bits"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,^1), }", EMBED_E_UNSUPPORTED, "more than 8 extents"},
      {"{'descr': '^f4', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "byte order"},
      {"{'descr': '^=f4', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "byte order"},
      {"{'descr': '^', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "byte order"},
      {"{'descr': '^|f4', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "byte order"},
      {"{'descr': '^<f', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "no type of numpy"},
      {"{'descr': '^<f3', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "no type of numpy"},
      {"{'descr': '^<f4x', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "no type of numpy"},
      {"{'descr': '^<f4[ns]', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "no type of numpy"},
      {"{'descr': '^<M8[ns', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_FORMAT, "no type of numpy"},
      {"{'descr': '^|S9223372036854775808', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_OVERFLOW, "64 bits"},
      {"{'descr': '^<U4611686018427387904', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_OVERFLOW, "64 bits"},
      {"{'descr': '^<', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_UNSUPPORTED, "none that this version knows"},
      {"{'descr': '^<x4', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_UNSUPPORTED, "none that this version knows"},
      {"{'descr': '^|O', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_UNSUPPORTED, "pickle"},
      {"{'descr': '^|O8', 'fortran_order': False, 'shape': (3, 4), }", EMBED_E_UNSUPPORTED, "pickle"},
      {"{'descr': ^[('x', '<f4'), ('y', '<f4')], 'fortran_order': False, 'shape': (3, 2), }", EMBED_E_UNSUPPORTED, "structures"},
      {"{'descr': ^('<f4', (2,)), 'fortran_order': False, 'shape': (3, 2), }", EMBED_E_UNSUPPORTED, "structures"},
  };
  static unsigned char file[ROOM];
  counting c = {.calls = 0};
  embed_context *ctx = counting_context(&c);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char dict[256];
    const char *mark = strchr(cases[i].dict, '^');
    size_t before = (size_t)(mark - cases[i].dict);
    memcpy(dict, cases[i].dict, before);
    strcpy(dict + before, mark + 1);
    size_t bytes = make_npy(file, 1, dict, 64, file_floats(values, 12), sizeof values);
    if (!*dict) before = 54; /* blanks and a newline, to the end of the header */
    refused(ctx, write_file("bad", file, bytes), NULL, cases[i].status, (int64_t)(V1 + before), cases[i].says);
  }
  unlink(path_of("bad"));
  embed_context_release(ctx);
  assert_int_equal(c.blocks, 0);
}

static void text_that_ends_anywhere_is_refused(void **state) {
  (void)state;
  static const char dict[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}";
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  for (size_t cut = 0; cut + 1 < sizeof dict; ++cut) {
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)cut;
    file[9] = 0;
    memcpy(file + V1, dict, cut);
    memcpy(file + V1 + cut, file_floats(values, 12), sizeof values);
    assert_int_equal(try_file(ctx, write_file("text", file, V1 + cut), NULL), EMBED_E_FORMAT);
    assert_int_equal(try_file(ctx, write_file("text", file, V1 + cut + sizeof values), NULL), EMBED_E_FORMAT);
    assert_true(embed_error_at(ctx) <= (int64_t)(V1 + cut));
  }
  unlink(path_of("text"));
  embed_context_release(ctx);
}

/* A view has memory for its handle alone, a converted table for its rows too. */
static void rows_are_copied_only_where_they_lie_otherwise(void **state) {
  (void)state;
  static const struct {
    const char *descr, *fortran, *shape;
    int64_t blocks;
  } cases[] = {{NATIVE, "False", "(3, 4)", 1}, {NATIVE, "True", "(12,)", 1},    {NATIVE, "True", "(1, 12)", 1}, {NATIVE, "True", "(12, 1)", 1},
               {NATIVE, "True", "(3, 4)", 2},  {FOREIGN, "False", "(3, 4)", 2}, {FOREIGN, "True", "(12,)", 2}};
  counting c = {.calls = 0};
  embed_context *ctx = counting_context(&c);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char dict[128];
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", cases[i].descr, cases[i].fortran, cases[i].shape);
    embed_file *f = open_dict(ctx, dict, file_floats(values, 12), sizeof values);
    int64_t before = c.blocks;
    embed_table *t = open_table(ctx, f);
    assert_int_equal(c.blocks - before, cases[i].blocks);
    assert_null(embed_table_mutable_data(t));
    embed_table_release(t);
    embed_file_release(f);
  }
  unlink(path_of("dict"));
  embed_context_release(ctx);
  assert_int_equal(c.blocks, 0);
}

static void a_conversion_can_be_stopped(void **state) {
  (void)state;
  counting c = {.calls = 0};
  int32_t cancel = 0;
  embed_allocator a = {.size = sizeof a, .arg = &c, .allocate = counting_allocate, .release = counting_release};
  embed_context_options o = {.size = sizeof o, .allocator = &a, .cancel = &cancel};
  embed_context *ctx = NULL;
  embed_table *t = (embed_table *)(uintptr_t)8;
  assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
  embed_file *f = open_dict(ctx, "{'descr': '" FOREIGN "', 'fortran_order': False, 'shape': (3, 4), }", file_floats(values, 12), sizeof values);
  cancel = 1;
  assert_int_equal(embed_file_table(ctx, f, 0, &t), EMBED_E_CANCELLED);
  assert_null(t);
  embed_file_release(f);
  unlink(path_of("dict"));
  embed_context_release(ctx);
  assert_int_equal(c.blocks, 0);
}

static const char plain[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";

/* NP-05, NP-09 */
static void versions_and_header_lengths_are_checked(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  size_t bytes = make_npy(file, 2, plain, 64, file_floats(values, 12), sizeof values);
  memcpy(file + 8, "\xF0\xFF\xFF\xFF", 4);
  refused(ctx, write_file("head", file, bytes), NULL, EMBED_E_FORMAT, (int64_t)bytes, "header ends at byte 4294967292");
  static const unsigned char versions[][2] = {{0, 0}, {4, 0}, {1, 1}, {255, 255}};
  for (int i = 0; i < 4; ++i) {
    bytes = make_npy(file, 1, plain, 64, file_floats(values, 12), sizeof values);
    memcpy(file + 6, versions[i], 2);
    refused(ctx, write_file("head", file, bytes), NULL, EMBED_E_UNSUPPORTED, 6, "1.0, 2.0 and 3.0");
  }
  bytes = make_npy(file, 1, plain, 10000 + V1, file_floats(values, 12), sizeof values); /* numpy's limit, to the byte */
  embed_file_release(open_file(ctx, write_file("head", file, bytes), NULL));
  bytes = make_npy(file, 1, plain, 10001 + V1, file_floats(values, 12), sizeof values);
  refused(ctx, write_file("head", file, bytes), NULL, EMBED_E_FORMAT, 8, "10001 bytes, at most 10000");
  embed_file_options o = {.size = sizeof o, .max_header = 1 << 30};
  refused(ctx, path_of("head"), &o, EMBED_E_FORMAT, 8, "10001 bytes, at most 10000");
  bytes = make_npy(file, 1, plain, 64, file_floats(values, 12), sizeof values);
  o.max_header = 118;
  embed_file_release(open_file(ctx, write_file("head", file, bytes), &o));
  o.max_header = 117;
  refused(ctx, path_of("head"), &o, EMBED_E_FORMAT, 8, "118 bytes, at most 117");
  unlink(path_of("head"));
  embed_context_release(ctx);
}

/* NP-11 */
static void sizes_that_wrap_are_an_overflow(void **state) {
  (void)state;
  static const struct {
    const char *descr, *shape;
  } cases[] = {{"<f4", "(4294967296, 4294967296)"}, {"<f4", "(4611686018427387904, 1)"},     {"<f8", "(9223372036854775807,)"},
               {"|i1", "(9223372036854775807,)"},   {"<f4", "(65536, 65536, 65536, 65536)"}, {"|S4611686018427387904", "(2, 1)"}};
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char dict[160];
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", cases[i].descr, cases[i].shape);
    size_t bytes = make_npy(file, 1, dict, 64, file_floats(values, 12), sizeof values);
    refused(ctx, write_file("wrap", file, bytes), NULL, EMBED_E_OVERFLOW, (int64_t)(bytes - sizeof values), "64 bits");
  }
  unlink(path_of("wrap"));
  embed_context_release(ctx);
}

/* NP-09 */
static void a_file_cut_at_any_byte_is_refused_there(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  for (int version = 1; version <= 2; ++version) {
    size_t bytes = make_npy(file, version, plain, 64, file_floats(values, 12), sizeof values);
    for (size_t cut = 0; cut < bytes; ++cut)
      for (uint32_t flags = 0; flags <= EMBED_FILE_COPY; flags += EMBED_FILE_COPY) {
        embed_file_options o = {.size = sizeof o, .flags = flags};
        const char *says = cut == 0 ? "empty" : cut < 6 ? "no format" : cut < 10 ? "before its header does" : "cut short";
        refused(ctx, write_file("cut", file, cut), &o, EMBED_E_FORMAT, cut < 6 ? 0 : (int64_t)cut, says);
      }
    embed_file_release(open_file(ctx, write_file("cut", file, bytes), NULL));
  }
  char says[128];
  size_t bytes = make_npy(file, 1, plain, 64, file_floats(values, 12), sizeof values);
  snprintf(says, sizeof says, "data ends at byte %zu, the file at %zu: it was cut short", bytes, bytes - 8);
  refused(ctx, write_file("cut", file, bytes - 8), NULL, EMBED_E_FORMAT, (int64_t)(bytes - 8), says);
  unlink(path_of("cut"));
  embed_context_release(ctx);
}

static void bytes_behind_the_data_are_noted(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  size_t bytes = make_npy(file, 1, plain, 64, file_floats(values, 12), sizeof values);
  memset(file + bytes, 7, 5);
  embed_file *f = open_file(ctx, write_file("more", file, bytes + 5), NULL);
  assert_string_equal(embed_file_notes(f), "5 bytes behind the array are not read");
  embed_table *t = open_table(ctx, f);
  same_values(ctx, t, values, 3, 4);
  embed_table_release(t);
  embed_file_release(f);
  unlink(path_of("more"));
  embed_context_release(ctx);
}

static void no_single_wrong_byte_harms(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  size_t bytes = make_npy(file, 1, plain, 16, file_floats(values, 12), sizeof values);
  survives_mutations(ctx, "mutant", file, bytes - 40); /* also cut: lengths that grow run into the end */
  survives_mutations(ctx, "mutant", file, bytes);
  bytes = make_npy(file, 3, "{'descr': '>f8', 'fortran_order': True, 'shape': (3, 2), }", 16, file_floats(values, 12), sizeof values);
  survives_mutations(ctx, "mutant", file, bytes);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(little_endian_rows_are_the_files_own_bytes),
    cmocka_unit_test(every_byte_order_and_order_of_extents_gives_the_same_rows),
    cmocka_unit_test(the_one_tensor_is_described),
    cmocka_unit_test(one_extent_is_one_row_and_other_ranks_are_no_table),
    cmocka_unit_test(floats_of_8_bits_open),
    cmocka_unit_test(types_without_a_table_type_are_listed_and_not_opened),
    cmocka_unit_test(odd_headers_that_numpy_reads_open),
    cmocka_unit_test(rows_are_copied_only_where_they_lie_otherwise),
    cmocka_unit_test(a_conversion_can_be_stopped),
    cmocka_unit_test(each_check_of_the_header_names_its_byte),
    cmocka_unit_test(text_that_ends_anywhere_is_refused),
    cmocka_unit_test(versions_and_header_lengths_are_checked),
    cmocka_unit_test(sizes_that_wrap_are_an_overflow),
    cmocka_unit_test(a_file_cut_at_any_byte_is_refused_there),
    cmocka_unit_test(bytes_behind_the_data_are_noted),
    cmocka_unit_test(no_single_wrong_byte_harms),
};
TEST_MAIN(tests)
