/* SPDX-License-Identifier: BSD-3-Clause */
/* word2vec's binary files: every writer's habit opens to the same rows; what is not whole is refused at its byte. */
#include "files.h"

enum { ROOM = 1 << 20 };

typedef struct builder {
  unsigned char bytes[ROOM];
  size_t count;
} builder;

static builder b; /* the file being made; one test runs at a time */

static void add(const void *bytes, size_t count) {
  assert_true(b.count + count <= ROOM);
  memcpy(b.bytes + b.count, bytes, count);
  b.count += count;
}

static void begin(const char *header) {
  b.count = 0;
  add(header, strlen(header));
}

static void add_floats(const float *row, int64_t dim) {
  for (int64_t j = 0; j < dim; ++j) {
    uint32_t u;
    memcpy(&u, row + j, 4);
    const unsigned char little[4] = {(unsigned char)u, (unsigned char)(u >> 8), (unsigned char)(u >> 16), (unsigned char)(u >> 24)};
    add(little, 4);
  }
}

static void add_row(const char *token, const float *row, int64_t dim, const char *behind) {
  add(token, strlen(token));
  add(" ", 1);
  add_floats(row, dim);
  add(behind, strlen(behind));
}

static const float rows3[3][3] = {{0.5f, -1.25f, 2.0f}, {1.5f, -0.0f, -0.75f}, {-3.0f, 4.5f, 1e-40f}};

static void begin3(const char *newline) {
  begin("3 3\n");
  add_row("the", rows3[0], 3, newline);
  add_row("of", rows3[1], 3, newline);
  add_row("z\xC3\xBCrich", rows3[2], 3, newline);
}

static const char *written(void) { return write_file("w2v", b.bytes, b.count); }

static void token_is(embed_context *ctx, const embed_file *f, int64_t id, const char *want, int64_t bytes, int64_t owner) {
  int64_t got_bytes = -1, got = -1;
  const char *token = embed_file_token(f, id, &got_bytes);
  assert_non_null(token);
  assert_int_equal(got_bytes, bytes);
  assert_memory_equal(token, want, (size_t)bytes);
  assert_int_equal(token[bytes], 0);
  assert_ptr_equal(embed_file_token(f, id, NULL), token);
  assert_int_equal(embed_file_token_id(ctx, f, want, bytes, &got), EMBED_OK);
  assert_int_equal(got, owner);
}

/* WV-18 */
static void rows_open_with_and_without_newlines(void **state) {
  (void)state;
  static const char *const newlines[] = {"\n", "", "\n\n\n"};
  embed_context *ctx = new_context(NULL);
  for (int n = 0; n < 3; ++n)
    for (uint32_t flags = 0; flags < 4; ++flags) {
      float got[9];
      int64_t bytes = 5, id = 55;
      embed_file_options o = {.size = sizeof o, .flags = flags};
      begin3(newlines[n]);
      embed_file *f = open_file(ctx, written(), &o);
      embed_table *t = open_table(ctx, f);
      assert_string_equal(embed_file_format(f), "word2vec");
      assert_string_equal(embed_file_notes(f), "");
      assert_int_equal(embed_table_rows(t), 3);
      assert_int_equal(embed_table_dim(t), 3);
      assert_int_equal(embed_table_dtype(t), EMBED_F32);
      assert_null(embed_table_mutable_data(t));
      read_rows(ctx, t, got);
      assert_same_bits(got, rows3, sizeof got);
      token_is(ctx, f, 0, "the", 3, 0);
      token_is(ctx, f, 1, "of", 2, 1);
      token_is(ctx, f, 2, "z\xC3\xBCrich", 7, 2);
      assert_null(embed_file_token(f, 3, &bytes));
      assert_int_equal(bytes, 0);
      assert_null(embed_file_token(f, -1, &bytes));
      assert_int_equal(embed_file_token_id(ctx, f, "th", 2, &id), EMBED_E_NOT_FOUND);
      assert_int_equal(embed_file_token_id(ctx, f, "the ", 4, &id), EMBED_E_NOT_FOUND);
      assert_int_equal(embed_file_token_id(ctx, f, NULL, 0, &id), EMBED_E_NOT_FOUND);
      assert_int_equal(id, 55);
      embed_file_release(f);
      embed_table_release(t);
    }
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

static void the_one_tensor_is_described(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_tensor_info info = {.size = sizeof info};
  int64_t i = -5;
  begin3("\n");
  embed_file *f = open_file(ctx, written(), NULL);
  assert_int_equal(embed_file_count(f), 1);
  assert_int_equal(embed_file_find(ctx, f, "vectors", &i), EMBED_OK);
  assert_int_equal(i, 0);
  assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
  assert_string_equal(info.name, "vectors");
  assert_string_equal(info.stored, "float");
  assert_int_equal(info.rank, 2);
  assert_int_equal(info.shape[0], 3);
  assert_int_equal(info.shape[1], 3);
  assert_int_equal(info.offset, -1);
  assert_int_equal(info.bytes, 36);
  assert_int_equal(info.dtype, EMBED_F32);
  assert_int_equal(info.role, EMBED_ROLE_TOKEN);
  embed_file_release(f);
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

static void headers_of_other_writers_open(void **state) {
  (void)state;
  static const char *const headers[] = {"1 2\n", "1  2\n", "1\t2 \n", "1 2\r\n", "0000000000000000000000000000001 2\n"};
  static const float row[2] = {1.0f, -2.0f};
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof headers / sizeof *headers; ++i) {
    float got[2];
    begin(headers[i]);
    add_row("a", row, 2, "");
    embed_file *f = open_file(ctx, written(), NULL);
    embed_table *t = open_table(ctx, f);
    read_rows(ctx, t, got);
    assert_same_bits(got, row, sizeof got);
    embed_table_release(t);
    embed_file_release(f);
  }
  begin("0 5\n\n\n");
  embed_file *f = open_file(ctx, written(), NULL);
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_rows(t), 0);
  assert_int_equal(embed_table_dim(t), 5);
  assert_null(embed_file_token(f, 0, NULL));
  embed_table_release(t);
  embed_file_release(f);
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

static void headers_that_promise_too_much_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *header;
    embed_status status;
    int64_t at;
    const char *says;
  } cases[] = {
      {"9223372036854775808 3\n", EMBED_E_OVERFLOW, 0, "64 bits"},
      {"3 99999999999999999999999999\n", EMBED_E_OVERFLOW, 0, "64 bits"},
      {"4294967296 4294967296\n", EMBED_E_OVERFLOW, 0, "64 bits"},
      {"1 2305843009213693952\n", EMBED_E_OVERFLOW, 0, "64 bits"},
      {"9223372036854775807 1\n", EMBED_E_OVERFLOW, 0, "64 bits"},
      {"3 0\n", EMBED_E_FORMAT, 0, "0 columns"},
      {"99999999999999 300\n", EMBED_E_FORMAT, -1, "99999999999999 rows of 300 columns end at byte"},
      {"4 3\n", EMBED_E_FORMAT, -1, "cut short"},
      {"-3 3\n", EMBED_E_FORMAT, 0, "no format"},
      {"3 -3\n", EMBED_E_FORMAT, 0, "no format"},
      {"3\n", EMBED_E_FORMAT, 0, "no format"},
      {"3 3 3\n", EMBED_E_FORMAT, 0, "no format"},
      {"3 3x\n", EMBED_E_FORMAT, 0, "no format"},
      {" 3 3\n", EMBED_E_FORMAT, 0, "no format"},
  };
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    begin(cases[i].header);
    for (int r = 0; r < 3; ++r) add_row("a", rows3[r], 3, "");
    refused(ctx, written(), NULL, cases[i].status, cases[i].at < 0 ? (int64_t)b.count : cases[i].at, cases[i].says);
  }
  begin("3 3\n");
  embed_file_options o = {.size = sizeof o, .max_header = 3};
  for (int r = 0; r < 3; ++r) add_row("a", rows3[r], 3, "");
  refused(ctx, written(), &o, EMBED_E_FORMAT, 0, "4 bytes, at most 3");
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

/* The header's numbers decide nothing about memory before the file's size has confirmed them. */
static void memory_is_bounded_by_the_file(void **state) {
  (void)state;
  counting c = {.calls = 0};
  embed_context *ctx = counting_context(&c);
  int64_t before = c.bytes;
  static const char *const headers[] = {"99999999 100\n", "2000000000 1\n", "1 99999999\n"};
  for (int i = 0; i < 3; ++i) {
    embed_file *f = NULL;
    begin(headers[i]);
    for (int r = 0; r < 3; ++r) add_row("a", rows3[r], 3, "\n");
    c.calls = 0;
    assert_int_equal(embed_file_open(ctx, written(), NULL, &f), EMBED_E_FORMAT);
    assert_int_equal(c.calls, 1); /* the handle */
    assert_int_equal(c.bytes, before);
  }
  unlink(path_of("w2v"));
  embed_context_release(ctx);
  assert_int_equal(c.blocks, 0);
}

/* No rows of many columns are no work, whatever their width would be. */
static void no_rows_open_at_once(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file *f =
      open_file(ctx, write_file("w2v", "0 144115188075855872\n", 21), &(embed_file_options){.size = sizeof(embed_file_options), .format = "word2vec"});
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_rows(t), 0);
  assert_int_equal(embed_table_dim(t), (int64_t)1 << 57);
  embed_table_release(t);
  embed_file_release(f);
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

/* WV-20 */
static void a_file_cut_at_any_byte_is_refused(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int newline = 0; newline < 2; ++newline) {
    begin3(newline ? "\n" : "");
    size_t whole = b.count;
    for (b.count = 0; b.count < whole; ++b.count)
      for (uint32_t flags = 0; flags <= EMBED_FILE_COPY; flags += EMBED_FILE_COPY) {
        embed_file_options o = {.size = sizeof o, .flags = flags};
        if (newline && b.count == whole - 1)
          embed_file_release(open_file(ctx, written(), &o)); /* only the last newline is gone */
        else if (b.count < 4)
          refused(ctx, written(), &o, EMBED_E_FORMAT, 0, b.count ? "no format" : "empty");
        else
          refused(ctx, written(), &o, EMBED_E_FORMAT, (int64_t)b.count, "cut short");
      }
  }
  begin3("");
  b.count -= 5;
  refused(ctx, written(), NULL, EMBED_E_FORMAT, (int64_t)b.count, "row 2 ends at byte 55, the file at 50: it was cut short");
  begin("2 3\n"); /* so long a token that the second row has no place; found by fuzzing */
  add_row("0123456789abcdef", rows3[0], 3, "");
  refused(ctx, written(), NULL, EMBED_E_FORMAT, (int64_t)b.count, "the rows behind it at 46 at the earliest, the file at 33: it was cut short");
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

static void only_newlines_may_follow_the_last_row(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  static const char *const behind[] = {" ", "\n\nx", "\r\n", "more 123412341234"};
  for (int i = 0; i < 4; ++i) {
    begin3("");
    size_t end = b.count;
    add(behind[i], strlen(behind[i]));
    refused(ctx, written(), NULL, EMBED_E_FORMAT, (int64_t)(end + (i == 1 ? 2 : 0)), "behind the last of the 3 rows");
  }
  begin3("");
  add("\0", 1);
  refused(ctx, written(), NULL, EMBED_E_FORMAT, (int64_t)b.count - 1, "behind the last");
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

static void tokens_may_hold_any_byte_but_blank(void **state) {
  (void)state;
  unsigned char all[255];
  static const float row[1] = {1.0f};
  embed_context *ctx = new_context(NULL);
  begin("3 1\n");
  for (int i = 0, v = 255; v >= 0; --v)
    if (v != ' ') all[i++] = (unsigned char)v;
  add(all, sizeof all);
  add(" ", 1);
  add_floats(row, 1);
  add_row("\xC2\xA0", row, 1, "\n");
  add_row(
      "a\xE3\x80\x80"
      "b\r\t",
      row, 1, "\n");
  embed_file *f = open_file(ctx, written(), NULL);
  token_is(ctx, f, 0, (const char *)all, sizeof all, 0);
  token_is(ctx, f, 1, "\xC2\xA0", 2, 1);
  token_is(ctx, f, 2,
           "a\xE3\x80\x80"
           "b\r\t",
           7, 2);
  embed_file_release(f);
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

static void repeated_and_empty_tokens_are_counted_and_the_first_owns_its_name(void **state) {
  (void)state;
  static const char *const tokens[] = {"a", "", "a", "b", "", "a"};
  embed_context *ctx = new_context(NULL);
  begin("6 3\n");
  for (int i = 0; i < 6; ++i) add_row(tokens[i], rows3[i % 3], 3, i % 2 ? "\n" : "");
  embed_file *f = open_file(ctx, written(), NULL);
  assert_string_equal(embed_file_notes(f), "3 rows repeat the token of an earlier row: the first of them owns it\n2 rows have an empty token");
  const int64_t owners[] = {0, 1, 0, 3, 1, 0};
  for (int i = 0; i < 6; ++i) token_is(ctx, f, i, tokens[i], (int64_t)strlen(tokens[i]), owners[i]);
  int64_t id = -1;
  assert_int_equal(embed_file_token_id(ctx, f, (const char *)(uintptr_t)1, 0, &id), EMBED_OK); /* no byte of it is read */
  assert_int_equal(id, 1);
  embed_table *t = open_table(ctx, f);
  float got[18];
  read_rows(ctx, t, got);
  for (int i = 0; i < 6; ++i) assert_same_bits(got + 3 * i, rows3[i % 3], sizeof rows3[0]); /* all rows stay */
  embed_table_release(t);
  embed_file_release(f);
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

static void tokens_of_more_than_64_kib_are_refused(void **state) {
  (void)state;
  enum { LONGEST = 64 << 10 };
  static char token[LONGEST + 2];
  embed_context *ctx = new_context(NULL);
  memset(token, 'x', LONGEST);
  begin("2 3\n");
  add_row("a", rows3[0], 3, "\n");
  add_row(token, rows3[1], 3, "\n");
  embed_file *f = open_file(ctx, written(), NULL);
  token_is(ctx, f, 1, token, LONGEST, 1);
  embed_file_release(f);
  token[LONGEST] = 'x';
  begin("2 3\n");
  add_row("a", rows3[0], 3, "\n");
  add_row(token, rows3[1], 3, "\n");
  refused(ctx, written(), NULL, EMBED_E_FORMAT, 19, "no blank ends the token of row 1 at byte 19 within 65536 bytes");
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

/* What is a text to the other reader; broken ones too, so that its errors tell of lines and not of bytes of floats. */
static void word2vec_text_is_told_apart(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t at; /* of the error, -1 = it opens */
  } texts[] = {
      {"3 3\nthe 0.5 -1.25 2.0\nof 1.5 0.0 -0.75\nx -3 4.5 .125\n", -1},
      {"2 3\r\nthe 0.5 -1.25 2.0\r\nof 1.5 0.0 -0.75\r\n", -1},
      {"1 2\n</s> 1e-05 -1E+2 \n", -1},
      {"9 2\n. . . nan -inf\n", 19},
      {"1 3\na 0,5 1,25 2,0", 6},
      {"1 3\na 0.1x 1 2\n", 6},
      {"2 3\na 1 2\nb 1 2 3\n", 4},
      {"99999999999999 3\na 1 2 3\n", 25}, /* before its size is judged */
      {"1 1\na 1.5\n", -1},                /* would do as binary too */
      {"2 2\na 1.5 2.5\nb 1.5 2.5\n", -1},
      {"5 100\n", 6}, /* cut short; either would do */
  };
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    begin(texts[i].text);
    if (texts[i].at >= 0) {
      refused(ctx, written(), NULL, EMBED_E_FORMAT, texts[i].at, "");
      continue;
    }
    embed_file *f = open_file(ctx, written(), NULL);
    assert_string_equal(embed_file_format(f), "word2vec-text");
    embed_file_release(f);
  }
  begin("1 1\na zz.1\n"); /* four bytes of a float: no number in letters */
  embed_file *f = open_file(ctx, written(), NULL);
  assert_string_equal(embed_file_format(f), "word2vec");
  embed_file_release(f);
  begin("1 1\na 1.5\n");
  (void)written();
  embed_file_options o = {.size = sizeof o, .format = "word2vec"}; /* the caller knows better */
  f = open_file(ctx, path_of("w2v"), &o);
  embed_table *t = open_table(ctx, f);
  float got, want;
  memcpy(&want, "1.5\n", 4);
  read_rows(ctx, t, &got);
  assert_true(embed_table_dim(t) == 1 && (got == want || __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__));
  embed_table_release(t);
  embed_file_release(f);
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

/* Random rows of any width, few or many: never text, whatever bytes their floats happen to have. */
static void binary_rows_are_never_taken_for_text(void **state) {
  (void)state;
  uint64_t seed = 11;
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < 600; ++i) {
    const int dim = 1 + i % 12, count = 1 + (int)(test_random(&seed) % 5);
    char header[32];
    snprintf(header, sizeof header, "%d %d\n", count, dim);
    begin(header);
    for (int r = 0; r < count; ++r) {
      float row[12];
      char token[8];
      for (int j = 0; j < dim; ++j) row[j] = test_uniform(&seed) * (i % 2 ? 1.0f : 1e-3f);
      snprintf(token, sizeof token, "%d", (int)(test_random(&seed) % 1000));
      add_row(token, row, dim, i % 3 ? "\n" : "");
    }
    embed_file *f = open_file(ctx, written(), NULL);
    assert_string_equal(embed_file_format(f), "word2vec");
    embed_file_release(f);
  }
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

static int32_t told;
static int64_t last_done, last_total;

static int32_t watch(void *arg, int64_t done, int64_t total) {
  assert_true(done >= last_done && done <= total && (last_total == 0 || total == last_total));
  last_done = done;
  last_total = total;
  return ++told == (arg ? *(int32_t *)arg : -1);
}

enum { MANY = 40000, WIDE = 3 };

static const char *many_tokens(float *rows) {
  static unsigned char big[MANY * (WIDE * 4 + 16) + 64];
  size_t count = (size_t)sprintf((char *)big, "%d %d\n", MANY, WIDE);
  uint64_t seed = 5;
  for (int r = 0; r < MANY; ++r) {
    count += (size_t)sprintf((char *)big + count, "t%d ", r * 7);
    for (int j = 0; j < WIDE; ++j) rows[r * WIDE + j] = test_uniform(&seed);
    b.count = 0;
    add_floats(rows + r * WIDE, WIDE);
    memcpy(big + count, b.bytes, b.count);
    count += b.count;
    if (r % 3) big[count++] = '\n';
  }
  return write_file("many", big, count);
}

static void every_one_of_many_tokens_is_found(void **state) {
  (void)state;
  static float rows[MANY * WIDE], got[MANY * WIDE];
  const char *path = many_tokens(rows);
  embed_pool *pool = NULL;
  assert_int_equal(embed_pool_create(3, &pool), EMBED_OK);
  embed_context *ctx = new_context(pool);
  embed_file *f = open_file(ctx, path, NULL);
  embed_table *t = open_table(ctx, f);
  read_rows(ctx, t, got);
  assert_same_bits(got, rows, sizeof got);
  for (int r = 0; r < MANY; ++r) {
    char token[16];
    int64_t id = -1;
    int bytes = snprintf(token, sizeof token, "t%d", r * 7);
    token_is(ctx, f, r, token, bytes, r);
    bytes = snprintf(token, sizeof token, "t%d", r * 7 + 1);
    assert_int_equal(embed_file_token_id(ctx, f, token, bytes, &id), EMBED_E_NOT_FOUND);
  }
  embed_table_release(t);
  embed_file_release(f);
  unlink(path_of("many"));
  embed_context_release(ctx);
  embed_pool_release(pool);
}

static void wide_rows_are_copied_by_any_number_of_threads(void **state) {
  (void)state;
  enum { ROWS = 4500, DIM = 517 }; /* four blocks, the last no whole one; five huge pages of rows */
  static float rows[ROWS * DIM], got[ROWS * DIM];
  static unsigned char file[ROWS * (DIM * 4 + 8) + 32];
  uint64_t seed = 9;
  size_t count = (size_t)sprintf((char *)file, "%d %d\n", ROWS, DIM);
  for (int r = 0; r < ROWS; ++r) {
    count += (size_t)sprintf((char *)file + count, "%d ", r);
    for (int j = 0; j < DIM; ++j) rows[r * DIM + j] = test_uniform(&seed);
    b.count = 0;
    add_floats(rows + r * DIM, DIM);
    memcpy(file + count, b.bytes, b.count);
    count += b.count;
  }
  const char *path = write_file("wide", file, count);
  for (int threads = 1; threads <= 7; threads += 3) {
    embed_pool *pool = NULL;
    assert_int_equal(embed_pool_create(threads, &pool), EMBED_OK);
    int32_t cancel = 0, stop_at = -1;
    embed_context_options o = {.size = sizeof o, .pool = pool, .progress = watch, .progress_arg = &stop_at, .cancel = &cancel};
    embed_context *ctx = NULL;
    assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
    told = 0;
    last_done = last_total = 0;
    embed_file *f = open_file(ctx, path, NULL);
    assert_int_equal(last_done, last_total);
    embed_table *t = open_table(ctx, f);
    memset(got, 0xFF, sizeof got);
    read_rows(ctx, t, got);
    assert_same_bits(got, rows, sizeof got);
    embed_table_release(t);
    embed_file_release(f);
    int32_t times = told;
    assert_true(times >= 4);
    for (stop_at = 1; stop_at <= times; ++stop_at) {
      told = 0;
      last_done = last_total = 0;
      f = (embed_file *)(uintptr_t)8;
      assert_int_equal(embed_file_open(ctx, path, NULL, &f), EMBED_E_CANCELLED);
      assert_null(f);
    }
    stop_at = -1;
    cancel = 1;
    assert_int_equal(embed_file_open(ctx, path, NULL, &f), EMBED_E_CANCELLED);
    embed_context_release(ctx);
    embed_pool_release(pool);
  }
  unlink(path_of("wide"));
}

static void the_handle_keeps_nothing_of_the_file(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  float got[9];
  begin3("\n");
  embed_file *f = open_file(ctx, written(), NULL);
  assert_true(is_mapped(path_of("w2v")) <= 0);
  embed_table *t = open_table(ctx, f), *again = open_table(ctx, f);
  assert_ptr_equal(embed_table_data(t), embed_table_data(again));
  read_rows(ctx, t, got);
  assert_same_bits(got, rows3, sizeof got);
  token_is(ctx, f, 2, "z\xC3\xBCrich", 7, 2);
  embed_table_release(again);
  embed_file_release(f);
  read_rows(ctx, t, got);
  assert_same_bits(got, rows3, sizeof got);
  embed_table_release(t);
  unlink(path_of("w2v"));
  embed_context_release(ctx);
}

static void no_single_wrong_byte_harms(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int newline = 0; newline < 2; ++newline) {
    begin3(newline ? "\n" : "");
    survives_mutations(ctx, "mutant", b.bytes, b.count);
  }
  embed_context_release(ctx);
}

static void a_real_model_opens(void **state) {
  (void)state;
  const char *shared = test_shared(TEST_SOURCE_DIR);
  char path[4400];
  if (!shared) skip();
  snprintf(path, sizeof path, "%s/glove/glove.6B.100d.top2k.bin", shared);
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_file(ctx, path, NULL);
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_rows(t), 2000);
  assert_int_equal(embed_table_dim(t), 100);
  token_is(ctx, f, 0, "the", 3, 0);
  embed_table_release(t);
  embed_file_release(f);
  embed_context_release(ctx);
}

/* gensim's: binary without newlines, tokens of a hierarchy; GloVe's text without a header. */
static void files_of_gensim_open(void **state) {
  (void)state;
  static const struct model {
    const char *name, *format, *token;
    int64_t rows, dim;
  } models[] = {{"euclidean_vectors.bin", "word2vec", "the", 2747, 10},
                {"poincare_vectors.bin", "word2vec", "mammal.n.01", 1182, 10},
                {"test_glove.txt", "glove", "the", 76, 50}};
  const char *shared = test_shared(TEST_SOURCE_DIR);
  char path[4400];
  if (!shared) skip();
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
    snprintf(path, sizeof path, "%s/word2vec/%s", shared, models[i].name);
    embed_file *f = open_file(ctx, path, NULL);
    embed_table *t = open_table(ctx, f);
    assert_string_equal(embed_file_format(f), models[i].format);
    assert_int_equal(embed_table_rows(t), models[i].rows);
    assert_int_equal(embed_table_dim(t), models[i].dim);
    token_is(ctx, f, 0, models[i].token, (int64_t)strlen(models[i].token), 0);
    embed_table_release(t);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_open_with_and_without_newlines),
    cmocka_unit_test(the_one_tensor_is_described),
    cmocka_unit_test(headers_of_other_writers_open),
    cmocka_unit_test(headers_that_promise_too_much_are_refused),
    cmocka_unit_test(memory_is_bounded_by_the_file),
    cmocka_unit_test(a_file_cut_at_any_byte_is_refused),
    cmocka_unit_test(no_rows_open_at_once),
    cmocka_unit_test(only_newlines_may_follow_the_last_row),
    cmocka_unit_test(tokens_may_hold_any_byte_but_blank),
    cmocka_unit_test(repeated_and_empty_tokens_are_counted_and_the_first_owns_its_name),
    cmocka_unit_test(tokens_of_more_than_64_kib_are_refused),
    cmocka_unit_test(word2vec_text_is_told_apart),
    cmocka_unit_test(binary_rows_are_never_taken_for_text),
    cmocka_unit_test(every_one_of_many_tokens_is_found),
    cmocka_unit_test(wide_rows_are_copied_by_any_number_of_threads),
    cmocka_unit_test(the_handle_keeps_nothing_of_the_file),
    cmocka_unit_test(no_single_wrong_byte_harms),
    cmocka_unit_test(a_real_model_opens),
    cmocka_unit_test(files_of_gensim_open),
};
TEST_MAIN(tests)
