/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors in text, word2vec's and GloVe's: every writer's habit opens to the same rows in every locale and on any number of threads;
 * a line that is no row is refused by its number, its column and its byte. */
#include "files.h"

#include <locale.h>

#define WORD2VEC "word2vec-text"
#define GLOVE    "glove"

typedef struct case_ {
  const char *text;
  const char *format;
  const char *notes;
  const char *tokens[4];
} case_;

static const float rows3[9] = {0.5f, -1.25f, 2.0f, 1.5f, 0.0f, -0.75f, -3.0f, 4.5f, 0.125f};

static const char *written(const char *text) { return write_file("text", text, strlen(text)); }

static void token_is(embed_context *ctx, const embed_file *f, int64_t id, const char *want, int64_t owner) {
  int64_t bytes = -1, got = -1;
  const char *token = embed_file_token(f, id, &bytes);
  assert_non_null(token);
  assert_int_equal(bytes, strlen(want));
  assert_memory_equal(token, want, strlen(want));
  assert_int_equal(embed_file_token_id(ctx, f, want, bytes, &got), EMBED_OK);
  assert_int_equal(got, owner);
}

/* The text opens to rows3 and the tokens of its case. */
static void opens(embed_context *ctx, const case_ *c, const embed_file_options *o) {
  float got[9];
  embed_file *f = open_file(ctx, written(c->text), o);
  embed_table *t = open_table(ctx, f);
  assert_string_equal(embed_file_format(f), c->format);
  assert_string_equal(embed_file_notes(f), c->notes);
  assert_int_equal(embed_table_rows(t), 3);
  assert_int_equal(embed_table_dim(t), 3);
  assert_int_equal(embed_table_dtype(t), EMBED_F32);
  assert_null(embed_table_mutable_data(t));
  memset(got, 0xFF, sizeof got);
  read_rows(ctx, t, got);
  assert_same_bits(got, rows3, sizeof got);
  for (int64_t id = 0; id < 3; ++id) token_is(ctx, f, id, c->tokens[id], id);
  assert_null(embed_file_token(f, 3, NULL));
  embed_table_release(t);
  embed_file_release(f);
}

#define NO_NEWLINE "1 line, the last, has no newline at its end: the file may have been cut short"

/* Numbers are those of the public reports that these files are modelled on. */
static const case_ dialects[] = {
    /* WV-01, WV-08: with a header and without */
    {"3 3\nthe 0.5 -1.25 2.0\nof 1.5 0 -0.75\nz\xC3\xBCrich -3 4.5 .125\n", WORD2VEC, "", {"the", "of", "z\xC3\xBCrich"}},
    {"the 0.5 -1.25 2.0\nof 1.5 0 -0.75\nz\xC3\xBCrich -3 4.5 .125\n", GLOVE, "", {"the", "of", "z\xC3\xBCrich"}},
    /* WV-02: a blank at the end of each line, CRLF, both */
    {"3 3\n</s> 0.5 -1.25 2.0 \nof 1.5 0 -0.75 \nin -3 4.5 .125 \n", WORD2VEC, "", {"</s>", "of", "in"}},
    {"3 3\r\nthe 0.5 -1.25 2.0\r\nof 1.5 0 -0.75\r\nin -3 4.5 .125\r\n", WORD2VEC, "", {"the", "of", "in"}},
    {"the 0.5 -1.25 2.0  \r\nof 1.5 0 -0.75 \r\nin -3 4.5 .125\r\n", GLOVE, "", {"the", "of", "in"}},
    {"3 3\nthe 0.5 -1.25 2.0\r \nof 1.5 0 -0.75\nin -3 4.5 .125\n", WORD2VEC, "", {"the", "of", "in"}},
    /* WV-04: only U+0020 separates; U+00A0, U+3000, U+0085, a tab and bytes that are no UTF-8 are text */
    {"3 3\n\xC2\xA0 0.5 -1.25 2.0\na\xE3\x80\x80\x62 1.5 0 -0.75\nx\xC2\x85y -3 4.5 .125\n", WORD2VEC, "", {"\xC2\xA0", "a\xE3\x80\x80\x62", "x\xC2\x85y"}},
    {"a\tb 0.5 -1.25 2.0\n\xFF\xFE 1.5 0 -0.75\n\x01 -3 4.5 .125\n", GLOVE, "", {"a\tb", "\xFF\xFE", "\x01"}},
    /* WV-06: tokens with blanks, also in the first line, also of digits with something behind */
    {". . . 0.5 -1.25 2.0\nto name@domain.com 1.5 0 -0.75\nat 5 pm -3 4.5 .125\n", GLOVE, "", {". . .", "to name@domain.com", "at 5 pm"}},
    {"3 3\n. . . 0.5 -1.25 2.0\n  b 1.5 0 -0.75\n- -3 4.5 .125\n", WORD2VEC, "", {". . .", "  b", "-"}},
    {"3 3\nthe  0.5 -1.25   2.0\nof 1.5  0 -0.75\nin    -3 4.5 .125\n", WORD2VEC, "", {"the", "of", "in"}},
    /* tokens that are numbers, and none */
    {"1 0.5 -1.25 2.0\n2.5 1.5 0 -0.75\nnan -3 4.5 .125\n", GLOVE, "", {"1", "2.5", "nan"}},
    {"3 3\n 0.5 -1.25 2.0\n2.5 1.5 0 -0.75\n<unk> -3 4.5 .125\n", WORD2VEC, "1 rows have an empty token", {"", "2.5", "<unk>"}},
    {" 0.5 -1.25 2.0\n2.5 1.5 0 -0.75\n<unk> -3 4.5 .125\n", GLOVE, "1 rows have an empty token", {"", "2.5", "<unk>"}},
    /* WV-10: forms of numbers */
    {"3 3\na +5e-1 -125E-2 2.\nb 0.15e+01 0e9 -.75\nc -3.00000000000000000000000 45e-1 1.25e-1\n", WORD2VEC, "", {"a", "b", "c"}},
    /* ends of files */
    {"3 3\nthe 0.5 -1.25 2.0\nof 1.5 0 -0.75\nin -3 4.5 .125", WORD2VEC, NO_NEWLINE, {"the", "of", "in"}},
    {"the 0.5 -1.25 2.0\nof 1.5 0 -0.75\nin -3 4.5 .125 ", GLOVE, NO_NEWLINE, {"the", "of", "in"}},
    {"the 0.5 -1.25 2.0\nof 1.5 0 -0.75\nin -3 4.5 .125\r\n\r\n\n\n", GLOVE, "", {"the", "of", "in"}},
    {"3\t3 \nthe 0.5 -1.25 2.0\nof 1.5 0 -0.75\nin -3 4.5 .125\n\n", WORD2VEC, "", {"the", "of", "in"}},
    /* the mark that editors put before text */
    {"\xEF\xBB\xBF\x33 3\nthe 0.5 -1.25 2.0\nof 1.5 0 -0.75\nin -3 4.5 .125\n", WORD2VEC, "", {"the", "of", "in"}},
    {"\xEF\xBB\xBFthe 0.5 -1.25 2.0\nof 1.5 0 -0.75\nin -3 4.5 .125\n", GLOVE, "", {"the", "of", "in"}},
};
enum { DIALECTS = sizeof dialects / sizeof *dialects };

static void every_dialect_opens_to_the_same_rows(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < DIALECTS; ++i)
    for (uint32_t flags = 0; flags < 4; ++flags) opens(ctx, &dialects[i], &(embed_file_options){.size = sizeof(embed_file_options), .flags = flags});
  unlink(path_of("text"));
  embed_context_release(ctx);
}

/* WV-01: a host that writes decimal commas. */
static void the_locale_of_the_host_changes_nothing(void **state) {
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "nl_NL.UTF-8"};
  const char *found = NULL;
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names && !found; ++i) found = setlocale(LC_ALL, names[i]);
  if (!found || localeconv()->decimal_point[0] != ',') skip();
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < DIALECTS; ++i) opens(ctx, &dialects[i], NULL);
  refused(ctx, written("1 3\na 0,5 1,25 2,0\n"), NULL, EMBED_E_FORMAT, 6, "no number");
  setlocale(LC_ALL, "C");
  unlink(path_of("text"));
  embed_context_release(ctx);
}

static void the_one_tensor_is_described(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_tensor_info info = {.size = sizeof info};
  int64_t i = -5;
  embed_file *f = open_file(ctx, written(dialects[0].text), NULL);
  assert_int_equal(embed_file_count(f), 1);
  assert_int_equal(embed_file_find(ctx, f, "vectors", &i), EMBED_OK);
  assert_int_equal(i, 0);
  assert_int_equal(embed_file_tensor(ctx, f, 0, &info), EMBED_OK);
  assert_string_equal(info.name, "vectors");
  assert_string_equal(info.stored, "text");
  assert_int_equal(info.rank, 2);
  assert_int_equal(info.shape[0], 3);
  assert_int_equal(info.shape[1], 3);
  assert_int_equal(info.offset, -1);
  assert_int_equal(info.bytes, 36);
  assert_int_equal(info.dtype, EMBED_F32);
  assert_int_equal(info.role, EMBED_ROLE_TOKEN);
  assert_true(is_mapped(path_of("text")) <= 0); /* nothing of the file is kept */
  embed_file_release(f);
  unlink(path_of("text"));
  embed_context_release(ctx);
}

/* What a line is called by: its number, and where it matters column and byte. */
static void what_is_no_row_is_refused_where_it_stands(void **state) {
  static const struct {
    const char *text;
    int64_t at;
    const char *says;
  } cases[] = {
      /* WV-01, WV-10 */
      {"1 3\na 0,5 1,25 2,0\n", 6, "line 2, column 3 (byte 6): \"0,5\" is no number: decimals follow a point, not a comma"},
      {"1 3\na 0.5 1,25 2.0\n", 10, "line 2, column 7 (byte 10): \"1,25\" is no number"},
      {"the 0.5 1,25 2.0\nof 1 2 3\n", 8, "line 1, column 9 (byte 8): \"1,25\" is no number"},
      {"1 3\na 0.1x 1 2\n", 6, "\"0.1x\" is no number"},
      {"2 3\na 1 2 3\nb 1 2 0x10\n", 18, "line 3, column 7 (byte 18): \"0x10\" is no number"},
      {"1 3\na 1 2 3e\n", 10, "\"3e\" is no number"},
      {"1 3\na 1 -- 3\n", 8, "\"--\" is no number"},
      {"1 3\na 1 2\t3 4\n", 8, "\"2\t3\" is no number"},
      {"1 3\na 1 2 nan(3)\n", 10, "\"nan(3)\" is no number"},
      {"1 3\na 1 2 1_000\n", 10, "\"1_000\" is no number"},
      {"1 3\na 1 2 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxyyy\n", 10, "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" is no number"},
      {"1 3\na 1 2 3.4028236e38\n", 10, "\"3.4028236e38\" is larger than the largest float"},
      {"1 3\na 1 -1e39 3\n", 8, "line 2, column 5 (byte 8): \"-1e39\" is larger than the largest float"},
      {"a 1 2 3\nb 1 2 +1e9999999999999999999999\n", 14, "is larger than the largest float"},
      /* WV-12 */
      {"3 3\na 1 2 3\nb 4 5\nc 7 8 9\n", 12, "line 3 has 2 numbers behind its token, 3 are expected"},
      {"a 1 2 3\nb 4 5\nc 7 8 9\n", 8, "line 2 has 2 numbers behind its token, 3 are expected"},
      {"3 3\na 1 2 3\nb\nc 7 8 9\n", 12, "line 3 has 0 numbers"},
      {"a 1 2 3\nb 4 5", 13, "line 2 has 2 numbers behind its token, 3 are expected; the file ends in it: it was cut short"},
      {"a 1 2 3\nb 4 5\n", 8, "line 2 has 2 numbers behind its token, 3 are expected"},
      {"3 3\na 1 2 3\nb 4 5 6 7\nc 7 8 9\n", 12, "line 3 (byte 12) has 4 numbers, 3 are expected"},
      {"a 1 2 3\nb 4 5 6 7 8\n", 8, "line 2 (byte 8) has 5 numbers, 3 are expected"},
      {"3 3\na 1 2 3\n\nc 7.5 8.5 9.5\n", 12, "line 3 (byte 12) is empty"},
      {"a 1 2 3\n  \r\nc 7 8 9\n", 8, "line 2 (byte 8) is empty"},
      {"\n3 3\na 1 2 3\n", 0, "no format"},
      {"5 3\nthe 1 2 3\nof 4 5 6\nx 7 8 9\n", 31, "the first line promises 5 rows, the file holds 3: it was cut short"},
      {"2 3\nthe 1 2 3\nof 4 5 6\nx 7 8 9\n", 23, "the first line promises 2 rows, the file holds 3"},
      {"0 3\nthe 1 2 3\n", 4, "the first line promises 0 rows, the file holds 1"},
      {"99999999999999 300\na 1 2 3\n", 27, "the first line promises 99999999999999 rows, the file holds 1: it was cut short"},
      {"1 99999999999999\na 1 2 3\n", 17, "line 2 has 3 numbers behind its token, 99999999999999 are expected"},
      {"3 0\na\nb\nc\n", 0, "0 columns"},
      {"3 3", 0, "no format"},
      {"31", 0, "no format"},
      /* WV-16 */
      {"<<<<<<< HEAD\nthe 1 2 3\nof 1 2 3\n", 0, "line 1 (byte 0) is a Git conflict marker, \"<<<<<<<\": a merge was left unfinished"},
      {"<<<<<<< HEAD\n3 3\nthe 1 2 3\n=======\n", 0, "line 1 (byte 0) is a Git conflict marker"},
      {"the 1 2 3\n=======\nof 1 2 3\n", 10, "line 2 (byte 10) is a Git conflict marker, \"=======\""},
      {"the 1 2 3\n>>>>>>> some branch\nof 1 2 3\n", 10, "line 2 (byte 10) is a Git conflict marker, \">>>>>>>\""},
      {"\x1F\x8B\x08 3 3\n", 0, "gzip"},
      /* other things */
      {"the\t1\t2\t3\nof\t1\t2\t3\n", 0, "no format"},
      {"hello world\nthis is a text\n", 0, "no format"},
      {"3 3 words\nof text\n", 0, "no format"},
      {"word 1 2x\nother 1 2\n", 7, "line 1, column 8 (byte 7): \"2x\" is no number"},
  };
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) refused(ctx, written(cases[i].text), NULL, EMBED_E_FORMAT, cases[i].at, cases[i].says);
  refused(ctx, written("9223372036854775808 3\na 1 2 3\n"), NULL, EMBED_E_OVERFLOW, 0, "64 bits");
  refused(ctx, written("4294967296 4294967296\na 1 2 3\n"), NULL, EMBED_E_FORMAT, 30, "promises 4294967296 rows");
  refused(ctx, written("1 9223372036854775807\na 1 2 3\n"), NULL, EMBED_E_OVERFLOW, 0, "9223372036854775807 columns");
  refused(ctx, written("1 1152921504606846975\na 1 2 3\n"), NULL, EMBED_E_FORMAT, 22, "1152921504606846975 are expected");
  refused(ctx, write_file("text", "", 0), NULL, EMBED_E_FORMAT, 0, "empty");
  unlink(path_of("text"));
  embed_context_release(ctx);
}

static void repeated_tokens_keep_their_rows_and_the_first_owns_the_name(void **state) { /* WV-14 */
  (void)state;
  embed_context *ctx = new_context(NULL);
  float got[5];
  embed_file *f = open_file(ctx, written("of 1\nthe 2\nof 3\n<unk> 4\nof 5\n"), NULL);
  assert_string_equal(embed_file_notes(f), "2 rows repeat the token of an earlier row: the first of them owns it");
  token_is(ctx, f, 2, "of", 0);
  token_is(ctx, f, 3, "<unk>", 3);
  token_is(ctx, f, 4, "of", 0);
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_dim(t), 1);
  read_rows(ctx, t, got);
  for (int i = 0; i < 5; ++i) assert_true(got[i] == (float)(i + 1));
  embed_table_release(t);
  embed_file_release(f);
  unlink(path_of("text"));
  embed_context_release(ctx);
}

static void infinities_and_nans_are_read_where_they_are_written_so(void **state) {
  static const uint32_t want[6] = {0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800000, 0xFFC00000, 0};
  (void)state;
  embed_context *ctx = new_context(NULL);
  float got[6];
  embed_file *f = open_file(ctx, written("2 3\na inf -Infinity nan\nb +INF -nan 1e-60\n"), NULL);
  embed_table *t = open_table(ctx, f);
  read_rows(ctx, t, got);
  assert_same_bits(got, want, sizeof got);
  embed_table_release(t);
  embed_file_release(f);
  unlink(path_of("text"));
  embed_context_release(ctx);
}

static void dim_says_how_many_of_the_last_fields_are_numbers(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file_options o = {.size = sizeof o, .dim = 3};
  const case_ phone = {"at 1 800 0.5 -1.25 2.0\nof 1.5 0 -0.75\nroute 66 -3 4.5 .125\n", GLOVE, "", {"at 1 800", "of", "route 66"}};
  const case_ headed = {"3 3\nat 1 800 0.5 -1.25 2.0\nof 1.5 0 -0.75\nroute 66 -3 4.5 .125\n", WORD2VEC, "", {"at 1 800", "of", "route 66"}};
  opens(ctx, &phone, &o);
  opens(ctx, &headed, &o);
  refused(ctx, written(phone.text), NULL, EMBED_E_FORMAT, 23, "line 2 has 3 numbers behind its token, 5 are expected");
  refused(ctx, written(headed.text), NULL, EMBED_E_FORMAT, 4, "line 2 (byte 4) has 5 numbers, 3 are expected");
  o.dim = 2; /* the header says 3 and is right */
  opens(ctx, &dialects[0], &o);
  o.dim = 4;
  refused(ctx, written(phone.text), &o, EMBED_E_FORMAT, 23, "line 2 has 3 numbers behind its token, 4 are expected");
  o.dim = INT64_MAX;
  refused(ctx, written(phone.text), &o, EMBED_E_FORMAT, 0, "line 1 has 5 numbers");
  unlink(path_of("text"));
  embed_context_release(ctx);
}

static void a_format_asked_for_by_name_is_not_second_guessed(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file_options glove = {.size = sizeof glove, .format = GLOVE}, word2vec = {.size = sizeof word2vec, .format = WORD2VEC};
  float got[2];
  embed_file *f = open_file(ctx, written("3 4\n1 2\n"), &glove); /* a header, if it were not asked for so */
  embed_table *t = open_table(ctx, f);
  assert_int_equal(embed_table_rows(t), 2);
  read_rows(ctx, t, got);
  assert_true(got[0] == 4.0f && got[1] == 2.0f);
  token_is(ctx, f, 1, "1", 1);
  embed_table_release(t);
  embed_file_release(f);
  f = open_file(ctx, written("0 5\n\n"), &word2vec); /* no rows: binary as well as text */
  t = open_table(ctx, f);
  assert_int_equal(embed_table_rows(t), 0);
  assert_int_equal(embed_table_dim(t), 5);
  embed_table_release(t);
  embed_file_release(f);
  refused(ctx, written("0 9223372036854775807\n"), &word2vec, EMBED_E_OVERFLOW, 0, "64 bits"); /* no rows, but of a size that none could have */
  refused(ctx, written("a 1 2\n"), &word2vec, EMBED_E_FORMAT, 0, "does not begin with word2vec's line");
  refused(ctx, written("\n\n"), &glove, EMBED_E_FORMAT, 0, "no lines");
  refused(ctx, written("\na 1\n"), &glove, EMBED_E_FORMAT, 0, "line 1 (byte 0) is empty");
  refused(ctx, written("word\na 1\n"), &glove, EMBED_E_FORMAT, 0, "line 1 has 0 numbers");
  refused(ctx, written("hello world\n"), &glove, EMBED_E_FORMAT, 6, "\"world\" is no number");
  word2vec.max_header = 3;
  refused(ctx, written(dialects[0].text), &word2vec, EMBED_E_FORMAT, 0, "4 bytes, at most 3");
  unlink(path_of("text"));
  embed_context_release(ctx);
}

static void tokens_of_more_than_64_kib_are_refused(void **state) {
  enum { LONGEST = 64 << 10 };
  static char text[LONGEST + 64];
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int blank = 0; blank < 2; ++blank) {
    memset(text, 'x', sizeof text);
    memcpy(text, "a 1\n", 4);
    if (blank) text[10] = ' ';
    strcpy(text + 4 + LONGEST, " 2\n");
    embed_file_release(open_file(ctx, written(text), NULL));
    strcpy(text + 4 + LONGEST, "x 2\n");
    refused(ctx, written(text), NULL, EMBED_E_FORMAT, 4, "the token of line 2 (byte 4) has 65537 bytes, at most 65536 are read");
  }
  unlink(path_of("text"));
  embed_context_release(ctx);
}

/* A first line of many numbers and many short lines: their product is not allocated. */
static void memory_is_bounded_by_the_file(void **state) {
  enum { NUMBERS = 20000, LINES = 20000 };
  static char text[2 * NUMBERS + 4 * LINES + 16];
  size_t n = 1;
  (void)state;
  counting c = {.calls = 0};
  embed_context *ctx = counting_context(&c);
  const int64_t before = c.bytes;
  embed_file *f = NULL;
  text[0] = 'a';
  for (int i = 0; i < NUMBERS; ++i, n += 2) memcpy(text + n, " 1", 2);
  text[n++] = '\n';
  for (int i = 0; i < LINES; ++i, n += 4) memcpy(text + n, "b 1\n", 4);
  refused(ctx, write_file("text", text, n), NULL, EMBED_E_FORMAT, 2 * NUMBERS + 2, "line 2 has 1 numbers behind its token, 20000 are expected");
  c.calls = 0;
  assert_int_equal(embed_file_open(ctx, written("99999999 100\na 1 2 3\n"), NULL, &f), EMBED_E_FORMAT);
  assert_true(c.calls <= 3); /* handle, tensor, a piece of the file */
  assert_int_equal(c.bytes, before);
  unlink(path_of("text"));
  embed_context_release(ctx);
  assert_int_equal(c.blocks, 0);
}

/* Cut anywhere it is refused, or it is what whole lines of it are: a number cut in its digits is a number. */
static void a_file_cut_at_any_byte_is_refused_or_noted(void **state) {
  static const char headed[] = "3 3\nthe 0.5 -1.25 2.0\nof 1.5 0 -0.75\nin -3 4.5 .125\n", *bare = headed + 4;
  const size_t whole = strlen(headed), last = whole - strlen(".125\n");
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (size_t bytes = 1; bytes < whole; ++bytes) {
    const char *path = write_file("text", headed, bytes);
    if (bytes < 4)
      refused(ctx, path, NULL, EMBED_E_FORMAT, 0, "no format");
    else if (bytes <= last + 1)
      refused(ctx, path, NULL, EMBED_E_FORMAT, bytes == last + 1 ? (int64_t)last : (int64_t)bytes, bytes == last + 1 ? "\".\" is no number" : "cut short");
    else {
      embed_file *f = open_file(ctx, path, NULL);
      assert_string_equal(embed_file_notes(f), NO_NEWLINE);
      embed_file_release(f);
    }
  }
  for (size_t bytes = 1; bytes + 4 < whole; ++bytes) {
    embed_file *f = NULL;
    if (embed_file_open(ctx, write_file("text", bare, bytes), NULL, &f) != EMBED_OK) continue;
    assert_true((bare[bytes - 1] == '\n') == (strcmp(embed_file_notes(f), "") == 0));
    embed_file_release(f);
  }
  unlink(path_of("text"));
  embed_context_release(ctx);
}

static void no_single_wrong_byte_harms(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  static const int mutated[] = {0, 1, 3, 8};
  for (size_t i = 0; i < sizeof mutated / sizeof *mutated; ++i)
    survives_mutations(ctx, "mutant", (const unsigned char *)dialects[mutated[i]].text, strlen(dialects[mutated[i]].text));
  embed_context_release(ctx);
}

static void a_failed_allocation_leaves_nothing_behind(void **state) {
  (void)state;
  for (int i = 0; i < 2; ++i) {
    counting c = {.calls = 0};
    embed_context *ctx = counting_context(&c);
    const char *path = written(dialects[i].text);
    const int64_t blocks = c.blocks;
    embed_status status = EMBED_E_MEMORY;
    int64_t n = 0;
    while (status != EMBED_OK) {
      embed_file *f = (embed_file *)(uintptr_t)8;
      c.calls = 0;
      c.fail_at = ++n;
      status = embed_file_open(ctx, path, NULL, &f);
      assert_true(status == EMBED_OK || status == EMBED_E_MEMORY);
      if (status == EMBED_OK)
        embed_file_release(f);
      else
        assert_null(f);
      assert_int_equal(c.blocks, blocks);
    }
    assert_true(n > 6);
    embed_context_release(ctx);
    assert_int_equal(c.blocks, 0);
  }
  unlink(path_of("text"));
}

/* Lines across the borders of pieces, one of more than two pieces, and an odd line here and there. */
enum { MANY = 30000, DIM = 16, LONG_AT = 20000, LONG_BYTES = 5 << 19 };

static size_t many_lines(char *text, float *rows) {
  uint64_t seed = 21;
  size_t n = 0;
  for (int r = 0; r < MANY; ++r) {
    n += (size_t)sprintf(text + n, r % 7 ? "t%d" : "t %d x", r);
    for (int j = 0; j < DIM; ++j) {
      rows[r * DIM + j] = test_uniform(&seed);
      n += (size_t)sprintf(text + n, r % 11 ? " %.9g" : "  %.9g", (double)rows[r * DIM + j]);
      if (r == LONG_AT && j == 2) {
        memset(text + n, ' ', LONG_BYTES);
        n += LONG_BYTES;
      }
    }
    text[n++] = '\n';
  }
  return n;
}

static int32_t told, stop_at;
static int64_t last_done, last_total;

static int32_t watch(void *arg, int64_t done, int64_t total) {
  (void)arg;
  assert_true(done >= last_done && done <= total && (last_total == 0 || total == last_total));
  last_done = done;
  last_total = total;
  return ++told == stop_at;
}

static embed_context *watched_context(embed_pool *pool) {
  embed_context_options o = {.size = sizeof o, .pool = pool, .progress = watch};
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
  told = 0;
  last_done = last_total = 0;
  return ctx;
}

static void any_number_of_threads_gives_the_same_rows_and_the_same_error(void **state) {
  static char text[MANY * (DIM * 20 + 16) + LONG_BYTES];
  static float rows[MANY * DIM], got[MANY * DIM];
  (void)state;
  const size_t bytes = many_lines(text, rows);
  assert_true(bytes > 8 << 20);
  for (int threads = 1; threads <= 7; threads += threads == 1 ? 1 : 5) {
    embed_pool *pool = NULL;
    assert_int_equal(embed_pool_create(threads, &pool), EMBED_OK);
    stop_at = -1;
    embed_context *ctx = watched_context(pool);
    const char *path = write_file("text", text, bytes);
    embed_file *f = open_file(ctx, path, NULL);
    assert_int_equal(last_done, last_total);
    embed_table *t = open_table(ctx, f);
    assert_int_equal(embed_table_rows(t), MANY);
    memset(got, 0xFF, sizeof got);
    read_rows(ctx, t, got);
    assert_same_bits(got, rows, sizeof got);
    for (int r = 0; r < MANY; r += 13) {
      char token[16];
      snprintf(token, sizeof token, r % 7 ? "t%d" : "t %d x", r);
      token_is(ctx, f, r, token, r);
    }
    embed_table_release(t);
    embed_file_release(f);
    const int32_t times = told;
    assert_true(times >= 4);
    for (stop_at = 1; stop_at <= times; ++stop_at) {
      told = 0;
      last_done = last_total = 0;
      f = (embed_file *)(uintptr_t)8;
      assert_int_equal(embed_file_open(ctx, path, NULL, &f), EMBED_E_CANCELLED);
      assert_null(f);
    }
    stop_at = -1;
    last_done = last_total = 0;
    char *late = strstr(text, "\nt29002 ") + 8, *early = strstr(text, "\nt9001 ") + 7; /* two wrong lines, far apart */
    const char kept[2] = {*late, *early};
    *late = *early = 'x';
    char says[64];
    snprintf(says, sizeof says, "line 9002, column 7 (byte %ld): \"x", (long)(early - text));
    refused(ctx, write_file("text", text, bytes), NULL, EMBED_E_FORMAT, early - text, says);
    *late = kept[0];
    *early = kept[1];
    embed_context_release(ctx);
    embed_pool_release(pool);
  }
  unlink(path_of("text"));
}

static void real_vectors_open(void **state) {
  const char *shared = test_shared(TEST_SOURCE_DIR);
  static const struct {
    const char *path, *format;
    int64_t rows, dim;
  } files[] = {{"word2vec/test_glove.txt", GLOVE, 76, 50},
               {"fasttext/crime-and-punishment.vec", WORD2VEC, 291, 5},
               {"fasttext/toy-model.vec", WORD2VEC, 22, 5},
               {"finalfusion/similarity.txt", WORD2VEC, 41, 100},
               {"finalfusion/similarity.nodims", GLOVE, 41, 100}};
  char path[4400];
  (void)state;
  if (!shared) skip();
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
    snprintf(path, sizeof path, "%s/%s", shared, files[i].path);
    embed_file *f = open_file(ctx, path, NULL);
    embed_table *t = open_table(ctx, f);
    assert_string_equal(embed_file_format(f), files[i].format);
    assert_int_equal(embed_table_rows(t), files[i].rows);
    assert_int_equal(embed_table_dim(t), files[i].dim);
    embed_table_release(t);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_dialect_opens_to_the_same_rows),
    cmocka_unit_test(the_locale_of_the_host_changes_nothing),
    cmocka_unit_test(the_one_tensor_is_described),
    cmocka_unit_test(what_is_no_row_is_refused_where_it_stands),
    cmocka_unit_test(repeated_tokens_keep_their_rows_and_the_first_owns_the_name),
    cmocka_unit_test(infinities_and_nans_are_read_where_they_are_written_so),
    cmocka_unit_test(dim_says_how_many_of_the_last_fields_are_numbers),
    cmocka_unit_test(a_format_asked_for_by_name_is_not_second_guessed),
    cmocka_unit_test(tokens_of_more_than_64_kib_are_refused),
    cmocka_unit_test(memory_is_bounded_by_the_file),
    cmocka_unit_test(a_file_cut_at_any_byte_is_refused_or_noted),
    cmocka_unit_test(no_single_wrong_byte_harms),
    cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
    cmocka_unit_test(any_number_of_threads_gives_the_same_rows_and_the_same_error),
    cmocka_unit_test(real_vectors_open),
};
TEST_MAIN(tests)
