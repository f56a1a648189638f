/* SPDX-License-Identifier: BSD-3-Clause */
/* .embed files (src/io/FORMAT.md): bytes as the page says, one hostile file for each check, and opening that costs no more for a
 * large vocabulary. */
#include "writing.h"

#include <time.h>

enum { HEAD = 64, ENTRY = 96, TABLE = 1, TOKENS, METADATA, CONVENTIONS, EXTRA, ROWS = 3, DIM = 4, ROOM = 32768 };

/* The page's polynomial, bit by bit. */
static uint32_t sum_of(const unsigned char *p, uint64_t bytes) {
  uint32_t sum = 0xFFFFFFFFu;
  for (size_t i = 0; i < bytes; ++i) {
    sum ^= p[i];
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0x82F63B78u : 0);
  }
  return ~sum;
}

static void put(unsigned char *p, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) p[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *p, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= (uint64_t)p[i] << (8 * i);
  return value;
}

static void seal(unsigned char *file) {
  put(file + 32, sum_of(file + HEAD, get(file + 24, 8) - HEAD), 4);
  put(file + 60, sum_of(file, 60), 4);
}

/* Sections in this order: metadata, conventions, tokens, an extra one, the table; tokens a, (none), bc. */
enum {
  AT_METADATA = 576 + 64,
  AT_CONVENTIONS = AT_METADATA + 64,
  AT_TOKENS = AT_CONVENTIONS + 64,
  AT_EXTRA = AT_TOKENS + 192,
  AT_TABLE = 4096,
  FILE_BYTES = AT_TABLE + ROWS * DIM * 4,
  NAMES = HEAD + 5 * ENTRY
};

static unsigned char *entry(unsigned char *file, int section) { return file + HEAD + section * ENTRY; }

static void make_entry(unsigned char *file, int section, uint32_t kind, uint64_t offset, uint64_t bytes, uint64_t name, uint32_t name_bytes) {
  unsigned char *e = entry(file, section);
  put(e, kind, 4);
  put(e + 8, offset, 8);
  put(e + 16, bytes, 8);
  put(e + 24, sum_of(file + offset, bytes), 4);
  put(e + 28, name_bytes, 4);
  put(e + 32, name, 8);
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

/* SipHash is not repeated here: the file's own writer makes the tokens. */
static void make_tokens(unsigned char *at) {
  embed_context *ctx = new_context(NULL);
  const char *path = path_of("tokens.embed");
  embed_table *t = NULL;
  size_t bytes;
  done(ctx, embed_table_create(ctx, 3, 1, NULL, &t));
  embed_writer *w = new_writer(ctx, path, NULL);
  done(ctx, embed_writer_table(ctx, w, "t", t, NULL));
  done(ctx, embed_writer_token(ctx, w, 0, "a", 1));
  done(ctx, embed_writer_token(ctx, w, 2, "bc", 2));
  done(ctx, embed_writer_commit(ctx, w));
  unsigned char *file = read_file(path, &bytes);
  assert_int_equal(get(entry(file, 0), 4), TOKENS);
  assert_int_equal(get(entry(file, 0) + 16, 8), 64 + 32 + 64 + 5);
  memcpy(at, file + get(entry(file, 0) + 8, 8), 64 + 32 + 64 + 5);
  free(file);
  embed_writer_release(w);
  embed_table_release(t);
  embed_context_release(ctx);
  unlink(path);
}

static size_t make_file(unsigned char *file) {
  static unsigned char tokens[165];
  static int made;
  if (!made) make_tokens(tokens), made = 1;
  memset(file, 0, ROOM);
  memcpy(file,
         "\x89"
         "EMB\r\n\x1A\n",
         8);
  put(file + 8, 1, 2);
  put(file + 12, 5, 4);
  put(file + 16, FILE_BYTES, 8);
  put(file + 24, NAMES + 16, 8);
  memcpy(file + NAMES, "\0state\0table\0\0\0\0", 16);
  put(file + AT_METADATA, 3, 4);
  put(file + AT_METADATA + 4, 2, 4);
  memcpy(file + AT_METADATA + 8,
         "key\0"
         "42",
         7);
  put(file + AT_CONVENTIONS, bits_of(2.5f), 4);
  put(file + AT_CONVENTIONS + 8, bits_of(0.5f), 4);
  memcpy(file + AT_TOKENS, tokens, sizeof tokens);
  memcpy(file + AT_EXTRA, "state of something", 18);
  for (int i = 0; i < ROWS * DIM; ++i) put(file + AT_TABLE + 4 * i, bits_of((float)i), 4);
  make_entry(file, 0, METADATA, AT_METADATA, 15, NAMES, 0);
  make_entry(file, 1, CONVENTIONS, AT_CONVENTIONS, 24, NAMES, 0);
  make_entry(file, 2, TOKENS, AT_TOKENS, sizeof tokens, NAMES, 0);
  make_entry(file, 3, EXTRA, AT_EXTRA, 18, NAMES + 1, 5);
  make_entry(file, 4, TABLE, AT_TABLE, ROWS * DIM * 4, NAMES + 7, 5);
  unsigned char *e = entry(file, 4);
  put(e + 40, 1, 4); /* the token table */
  put(e + 56, ROWS, 8);
  put(e + 64, ROWS - 1, 8);
  put(e + 72, DIM, 8);
  put(e + 80, DIM * 4, 8);
  seal(file);
  return FILE_BYTES;
}

static void a_file_made_by_hand_opens(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  size_t bytes = make_file(file);
  for (uint32_t flags = 0; flags < 4; ++flags) {
    embed_file *f = open_file(ctx, write_file("hand", file, bytes), &(embed_file_options){.size = sizeof(embed_file_options), .flags = flags});
    embed_table *t = open_table(ctx, f);
    embed_conventions c = {.size = sizeof c};
    const char *key, *value;
    int64_t i = -5;
    float got[ROWS * DIM];
    assert_string_equal(embed_file_format(f), "embed");
    assert_int_equal(embed_file_count(f), 1);
    assert_int_equal(embed_table_vocab(t), ROWS - 1);
    read_rows(ctx, t, got);
    for (int k = 0; k < ROWS * DIM; ++k) assert_true(got[k] == (float)k);
    done(ctx, embed_file_conventions(ctx, f, &c));
    assert_true(c.lookup_scale == 2.5f && c.logit_scale == 0.5f && c.logit_softcap == 0 && c.scale_round == EMBED_F32);
    done(ctx, embed_file_metadata(ctx, f, 0, &key, &value, &i));
    assert_string_equal(key, "key");
    assert_string_equal(value, "42");
    assert_int_equal(i, 2);
    done(ctx, embed_file_role(ctx, f, EMBED_ROLE_HEAD, &i));
    assert_int_equal(i, 0); /* roles are given, and no head among them: the table serves */
    assert_string_equal(embed_file_token(f, 2, NULL), "bc");
    assert_null(embed_file_token(f, 1, NULL));
    done(ctx, embed_file_token_id(ctx, f, "bc", 2, &i));
    assert_int_equal(i, 2);
    assert_int_equal(embed_file_token_id(ctx, f, "", 0, &i), EMBED_E_NOT_FOUND);
    embed_table_release(t);
    embed_file_release(f);
  }
  unlink(path_of("hand"));
  embed_context_release(ctx);
}

/* Fields of the directory, and what they must not be. at: the field within the entry; the error names its byte. */
static void each_check_of_the_directory_has_a_file(void **state) {
  (void)state;
  static const struct {
    int section, field, width;
    uint64_t value;
    int blamed; /* field of the error */
    const char *says;
  } cases[] = {
      {4, 8, 8, AT_TABLE + 64, 16, "ends behind the file"},
      {4, 8, 8, AT_EXTRA, 8, "before the one before it ends"},
      {3, 8, 8, AT_TOKENS + 64, 8, "before the one before it ends"},
      {0, 8, 8, 64, 8, "before the one before it ends"},
      {3, 8, 8, AT_EXTRA + 8, 8, "multiple of 64"},
      {4, 8, 8, UINT64_MAX, 16, "ends behind the file"},
      {3, 16, 8, UINT64_MAX, 16, "ends behind the file"},
      {3, 16, 8, 5000, 16, "ends behind the file"},
      {4, 16, 8, ROWS * DIM * 4 - 1, 16, "not those of its rows"},
      {4, 28, 4, 4, 32, "only NUL"},
      {4, 28, 4, 9, 32, "outside the directory"},
      {4, 32, 8, NAMES + 16, 32, "outside the directory"},
      {4, 32, 8, 8, 32, "outside the directory"},
      {4, 32, 8, UINT64_MAX, 32, "outside the directory"},
      {4, 40, 4, 1u << 9, 40, "role that this version does not know"},
      {4, 40, 4, 2, -1, "none is the token table"},
      {4, 44, 4, 999, 44, "dtype is none"},
      {4, 44, 4, UINT32_MAX, 44, "dtype is none"},
      {4, 44, 4, EMBED_BF16, 16, "not those of its rows"},
      {4, 44, 4, EMBED_Q4_0, 72, "no rows of so many columns"},
      {4, 48, 4, 32, 48, "group"},
      {4, 52, 4, 2, 52, "does not know"},
      {4, 52, 4, 1, 52, "a vector has one row"},
      {4, 88, 8, 1, 52, "does not know"},
      {4, 56, 8, UINT64_MAX, 56, "63 bits"},
      {4, 56, 8, INT64_MAX, 56, "64 bits"},
      {4, 56, 8, ROWS + 1, 16, "not those of its rows"},
      {4, 64, 8, ROWS + 1, 64, "vocabulary"},
      {4, 64, 8, 0, 64, "vocabulary"},
      {4, 72, 8, 0, 72, "columns"},
      {4, 72, 8, UINT64_MAX, 72, "columns"},
      {4, 72, 8, INT64_MAX, 72, "columns"},
      {4, 80, 8, DIM * 4 - 1, 80, "closer than they are long"},
      {4, 80, 8, UINT64_MAX, 80, "closer than they are long"},
      {4, 4, 4, 2, 4, "flag"},
      {3, 0, 4, TABLE, 8, "multiple of 4096"},
      {3, 0, 4, TOKENS, 0, "second of tokens"},
      {1, 0, 4, METADATA, 0, "second of metadata"},
      {4, 0, 4, EXTRA, -2, "none of the sections is a table"},
      {0, 24, 4, 1, 24, "damaged"},
      {1, 24, 4, 1, 24, "damaged"},
      {1, 16, 8, 23, 16, "24 bytes"},
  };
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    size_t bytes = make_file(file);
    put(entry(file, cases[i].section) + cases[i].field, cases[i].value, cases[i].width);
    seal(file);
    refused(ctx, write_file("directory", file, bytes), NULL, EMBED_E_FORMAT, cases[i].blamed < 0 ? 12 : HEAD + cases[i].section * ENTRY + cases[i].blamed,
            cases[i].says);
  }
  unlink(path_of("directory"));
  embed_context_release(ctx);
}

static void each_check_of_the_head_has_a_file(void **state) {
  (void)state;
  static const struct {
    int at, width;
    uint64_t value;
    embed_status status;
    int64_t blamed;
    const char *says;
  } cases[] = {
      {8, 2, 2, EMBED_E_UNSUPPORTED, 8, "version 2"},
      {12, 4, 0, EMBED_E_FORMAT, 12, "1 to 4096"},
      {12, 4, 4097, EMBED_E_FORMAT, 12, "1 to 4096"},
      {12, 4, 6, EMBED_E_FORMAT, 24, "ends where it cannot"},
      {16, 8, FILE_BYTES + 1, EMBED_E_FORMAT, FILE_BYTES, "cut short"},
      {16, 8, FILE_BYTES - 1, EMBED_E_FORMAT, FILE_BYTES - 1, "the file ends at"},
      {16, 8, UINT64_MAX, EMBED_E_FORMAT, FILE_BYTES, "cut short"},
      {24, 8, FILE_BYTES + 1, EMBED_E_FORMAT, 24, "ends where it cannot"},
      {24, 8, UINT64_MAX, EMBED_E_FORMAT, 24, "ends where it cannot"},
      {36, 1, 1, EMBED_E_FORMAT, 36, "does not know"},
      {59, 1, 1, EMBED_E_FORMAT, 59, "does not know"},
  };
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    size_t bytes = make_file(file);
    put(file + cases[i].at, cases[i].value, cases[i].width);
    put(file + 60, sum_of(file, 60), 4);
    refused(ctx, write_file("head", file, bytes), NULL, cases[i].status, cases[i].blamed, cases[i].says);
  }
  size_t bytes = make_file(file);
  put(file + 10, 7, 2); /* a later minor version is read */
  seal(file);
  embed_file_release(open_file(ctx, write_file("head", file, bytes), NULL));
  refused(ctx, path_of("head"), &(embed_file_options){.size = sizeof(embed_file_options), .max_header = NAMES}, EMBED_E_FORMAT, 24, "at most");
  make_file(file);
  file[HEAD + 5] ^= 1;
  refused(ctx, write_file("head", file, bytes), NULL, EMBED_E_FORMAT, 32, "damaged");
  make_file(file);
  file[60] ^= 1;
  refused(ctx, write_file("head", file, bytes), NULL, EMBED_E_FORMAT, 60, "damaged");
  file[0] ^= 1;
  refused(ctx, write_file("head", file, bytes), &(embed_file_options){.size = sizeof(embed_file_options), .format = "embed"}, EMBED_E_FORMAT, 0, "magic");
  unlink(path_of("head"));
  embed_context_release(ctx);
}

static void each_check_of_a_section_has_a_file(void **state) {
  (void)state;
  static const struct {
    int section, at, width;
    uint64_t value;
    int64_t blamed;
    const char *says;
  } cases[] = {
      {0, AT_METADATA, 4, 4, AT_METADATA, "ends behind it"},
      {0, AT_METADATA, 4, UINT32_MAX, AT_METADATA, "ends behind it"},
      {0, AT_METADATA, 4, 2, AT_METADATA, "does not end in NULs"},
      {0, AT_METADATA + 14, 1, 'x', AT_METADATA, "does not end in NULs"},
      {1, AT_CONVENTIONS, 4, 0, AT_CONVENTIONS, "lookup scale"},
      {1, AT_CONVENTIONS, 4, 0x7F800000u, AT_CONVENTIONS, "lookup scale"},
      {1, AT_CONVENTIONS + 4, 4, EMBED_F64, AT_CONVENTIONS + 4, "dtype of the lookup scale"},
      {1, AT_CONVENTIONS + 8, 4, 0, AT_CONVENTIONS + 8, "logit scale"},
      {1, AT_CONVENTIONS + 12, 4, 0xBF800000u, AT_CONVENTIONS + 12, "soft-cap"},
      {1, AT_CONVENTIONS + 16, 4, 0x7FC00000u, AT_CONVENTIONS + 16, "epsilon"},
      {1, AT_CONVENTIONS + 20, 4, 4, AT_CONVENTIONS + 20, "flag"},
      {2, AT_TOKENS, 8, 4, AT_TOKENS, "size that its counts"},
      {2, AT_TOKENS, 8, UINT64_MAX, AT_TOKENS, "size that its counts"},
      {2, AT_TOKENS + 8, 8, 6, AT_TOKENS, "size that its counts"},
      {2, AT_TOKENS + 8, 8, UINT64_MAX, AT_TOKENS, "size that its counts"},
      {2, AT_TOKENS + 16, 8, 16, AT_TOKENS, "size that its counts"},
      {2, AT_TOKENS + 40, 8, 4, AT_TOKENS + 40, "more tokens than it has"},
      {2, AT_TOKENS + 48, 8, 4, AT_TOKENS + 40, "more tokens than it has"},
      {2, AT_TOKENS + 56, 8, 1, AT_TOKENS + 56, "does not know"},
  };
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    size_t bytes = make_file(file);
    unsigned char *e = entry(file, cases[i].section);
    put(file + cases[i].at, cases[i].value, cases[i].width);
    put(e + 24, sum_of(file + get(e + 8, 8), get(e + 16, 8)), 4);
    seal(file);
    refused(ctx, write_file("section", file, bytes), NULL, EMBED_E_FORMAT, cases[i].blamed, cases[i].says);
  }
  size_t bytes = make_file(file); /* an empty value, and two bytes behind it */
  put(file + AT_METADATA + 4, 0, 4);
  file[AT_METADATA + 12] = 0;
  put(entry(file, 0) + 24, sum_of(file + AT_METADATA, 15), 4);
  seal(file);
  refused(ctx, write_file("section", file, bytes), NULL, EMBED_E_FORMAT, AT_METADATA + 13, "ends within a pair");
  make_file(file); /* slots: 5 u64 of room with 3 slots and 1 offset more keep the size, and are no power of two */
  put(file + AT_TOKENS, 4, 8);
  put(file + AT_TOKENS + 16, 7, 8);
  refused(ctx, write_file("section", file, bytes), NULL, EMBED_E_FORMAT, AT_TOKENS + 16, "power of two");
  make_file(file);
  put(entry(file, 2) + 16, 63, 8);
  seal(file);
  refused(ctx, write_file("section", file, bytes), NULL, EMBED_E_FORMAT, AT_TOKENS, "shorter than its head");
  unlink(path_of("section"));
  embed_context_release(ctx);
}

static void unknown_sections_are_skipped_unless_they_are_needed(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  embed_context *ctx = new_context(NULL);
  size_t bytes = make_file(file);
  put(entry(file, 3), 77, 4);
  seal(file);
  embed_file_release(open_file(ctx, write_file("unknown", file, bytes), NULL));
  put(entry(file, 3) + 4, 1, 4);
  seal(file);
  refused(ctx, write_file("unknown", file, bytes), NULL, EMBED_E_UNSUPPORTED, HEAD + 3 * ENTRY, "kind 77");
  unlink(path_of("unknown"));
  embed_context_release(ctx);
}

static void every_truncation_and_every_flipped_byte_of_the_head_is_refused(void **state) {
  (void)state;
  static unsigned char file[ROOM], bad[ROOM];
  embed_context *ctx = new_context(NULL);
  size_t bytes = make_file(file);
  embed_file_options embed = {.size = sizeof embed, .format = "embed"};
  for (size_t n = 1; n < bytes; n += n < 700 || n > AT_TABLE - 4 ? 1 : 61) {
    embed_file *f = (embed_file *)(uintptr_t)8;
    assert_true(embed_file_open(ctx, write_file("short", file, n), n < 8 ? &embed : NULL, &f) != EMBED_OK);
    assert_null(f);
    if (n >= HEAD) assert_int_equal(embed_error_at(ctx), n);
  }
  for (size_t i = 0; i < NAMES + 16; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      embed_file *f = (embed_file *)(uintptr_t)8;
      memcpy(bad, file, bytes);
      bad[i] ^= (unsigned char)(1 << bit);
      if (embed_file_open(ctx, write_file("short", bad, bytes), &embed, &f) == EMBED_OK) fail_msg("bit %d of byte %zu does not matter", bit, i);
      assert_null(f);
    }
  unlink(path_of("short"));
  embed_context_release(ctx);
}

/* Any byte of the rest: mapped files open and are safe to use; copied and checked ones are refused with the section's name, but for
 * the gaps between sections. */
static void every_changed_byte_behind_the_head_is_safe_and_found_by_its_sum(void **state) {
  (void)state;
  static unsigned char file[ROOM], bad[ROOM];
  embed_context *ctx = new_context(NULL);
  size_t bytes = make_file(file);
  static const struct {
    int first, end;
    const char *name;
  } sections[] = {{AT_METADATA, AT_METADATA + 15, "section 0 (metadata): "},
                  {AT_CONVENTIONS, AT_CONVENTIONS + 24, "section 1 (conventions): "},
                  {AT_TOKENS, AT_TOKENS + 165, "section 2 (tokens): "},
                  {AT_EXTRA, AT_EXTRA + 18, "section 3 (extra \"state\"): "},
                  {AT_TABLE, FILE_BYTES, "section 4 (table \"table\"): "}};
  embed_file *good = open_file(ctx, write_file("changed", file, bytes), &(embed_file_options){.size = sizeof(embed_file_options), .flags = EMBED_FILE_CHECK});
  embed_file_release(good);
  for (size_t s = 0; s < sizeof sections / sizeof *sections; ++s)
    for (int i = sections[s].first; i < sections[s].end; ++i)
      for (int flip = 1; flip <= 0xFF; flip += flip < 128 ? flip : 127) {
        embed_file *f = NULL;
        memcpy(bad, file, bytes);
        bad[i] ^= (unsigned char)flip;
        const char *path = write_file("changed", bad, bytes);
        for (uint32_t flags = EMBED_FILE_COPY; flags <= EMBED_FILE_CHECK; flags += EMBED_FILE_CHECK - EMBED_FILE_COPY)
          refused(ctx, path, &(embed_file_options){.size = sizeof(embed_file_options), .flags = flags}, EMBED_E_FORMAT, HEAD + (int64_t)s * ENTRY + 24,
                  sections[s].name);
        if (embed_file_open(ctx, path, NULL, &f) != EMBED_OK) continue;
        for (int64_t id = -1; id < 6; ++id) {
          int64_t length = -1, found;
          const char *token = embed_file_token(f, id, &length);
          if (token) assert_int_equal(token[length], 0);
          if (token) (void)!embed_file_token_id(ctx, f, token, length, &found);
        }
        static const char *const asked[] = {"a", "bc", "", "none"};
        for (int k = 0; k < 4; ++k) {
          int64_t found = 0;
          if (embed_file_token_id(ctx, f, asked[k], (int64_t)strlen(asked[k]), &found) == EMBED_OK) assert_true(found >= 0 && found < 3);
        }
        embed_file_release(f);
      }
  unlink(path_of("changed"));
  embed_context_release(ctx);
}

static void every_failed_allocation_of_opening_is_clean(void **state) {
  (void)state;
  static unsigned char file[ROOM];
  size_t bytes = make_file(file);
  const char *path = write_file("alloc", file, bytes);
  survives_failures(path, NULL);
  unlink(path);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The tokens of a large vocabulary are all found, and opening does not read them. */
static void opening_a_large_vocabulary_reads_its_directory_alone(void **state) {
  (void)state;
  enum { VOCAB = 150000, WIDTH = 64 };
  embed_context *ctx = new_context(NULL);
  embed_table *t = some_table(ctx, VOCAB, WIDTH, EMBED_F32, 0, 1);
  const char *path = path_of("large.embed");
  char token[32];
  embed_writer *w = new_writer(ctx, path, NULL);
  done(ctx, embed_writer_table(ctx, w, "t", t, NULL));
  for (int64_t id = 0; id < VOCAB; ++id) {
    int bytes = snprintf(token, sizeof token, "token %lld", (long long)id * 7919);
    done(ctx, embed_writer_token(ctx, w, id, token, bytes));
  }
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  double best = 1;
  counting c = {.fail_at = 0};
  embed_context *counted = counting_context(&c);
  for (int i = 0; i < 50; ++i) {
    embed_file *f = NULL;
    int64_t before = c.bytes;
    double begun = seconds();
    assert_int_equal(embed_file_open(counted, path, NULL, &f), EMBED_OK);
    double took = seconds() - begun;
    if (took < best) best = took;
    assert_true(c.bytes - before < 20000); /* no index is built */
    embed_file_release(f);
  }
  embed_context_release(counted);
  printf("opening %d tokens: %.1f us\n", VOCAB, 1e6 * best);
  assert_true(best < 2e-3); /* far from what building an index takes, under sanitizers too */
  embed_file *f = open_file(ctx, path, NULL);
  for (int64_t id = 0; id < VOCAB; ++id) {
    int64_t found = -1, bytes = snprintf(token, sizeof token, "token %lld", (long long)id * 7919);
    if (embed_file_token_id(ctx, f, token, bytes, &found) != EMBED_OK || found != id) fail_msg("\"%s\" is row %lld", token, (long long)found);
    assert_string_equal(embed_file_token(f, id, NULL), token);
  }
  int64_t found;
  assert_int_equal(embed_file_token_id(ctx, f, "token 1", 7, &found), EMBED_E_NOT_FOUND);
  embed_file_release(f);
  embed_table_release(t);
  unlink(path);
  embed_context_release(ctx);
}

static void the_same_contents_give_the_same_bytes(void **state) {
  (void)state;
  embed_pool *pool = NULL;
  assert_int_equal(embed_pool_create(3, &pool), EMBED_OK);
  unsigned char *first = NULL;
  size_t first_bytes = 0;
  for (int i = 0; i < 3; ++i) {
    embed_context *ctx = new_context(i ? pool : NULL);
    embed_table *t = some_table(ctx, 500, 96, EMBED_F32, 0, 1);
    embed_table_options int8 = {.size = sizeof int8, .dtype = EMBED_I8_ROW};
    embed_writer_options small = {.size = sizeof small, .max_memory = i * 999};
    const char *path = path_of("same.embed");
    embed_writer *w = new_writer(ctx, path, &small);
    done(ctx, embed_writer_table(ctx, w, "t", t, &int8));
    for (int64_t id = 0; id < 500; ++id) done(ctx, embed_writer_token(ctx, w, id, "abcdefghij", id % 11));
    done(ctx, embed_writer_commit(ctx, w));
    embed_writer_release(w);
    size_t bytes;
    unsigned char *data = read_file(path, &bytes);
    if (i) {
      assert_int_equal(bytes, first_bytes);
      assert_memory_equal(data, first, bytes);
      free(data);
    } else {
      first = data;
      first_bytes = bytes;
    }
    unlink(path);
    embed_table_release(t);
    embed_context_release(ctx);
  }
  free(first);
  embed_pool_release(pool);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_file_made_by_hand_opens),
    cmocka_unit_test(each_check_of_the_directory_has_a_file),
    cmocka_unit_test(each_check_of_the_head_has_a_file),
    cmocka_unit_test(each_check_of_a_section_has_a_file),
    cmocka_unit_test(unknown_sections_are_skipped_unless_they_are_needed),
    cmocka_unit_test(every_truncation_and_every_flipped_byte_of_the_head_is_refused),
    cmocka_unit_test(every_changed_byte_behind_the_head_is_safe_and_found_by_its_sum),
    cmocka_unit_test(every_failed_allocation_of_opening_is_clean),
    cmocka_unit_test(opening_a_large_vocabulary_reads_its_directory_alone),
    cmocka_unit_test(the_same_contents_give_the_same_bytes),
};
TEST_MAIN(tests)
