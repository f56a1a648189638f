/* SPDX-License-Identifier: BSD-3-Clause */
/* Token strings in memory: the arena, the index and its two hashes. */
#include "test.h"

#include "vocab/hash.h"
#include "vocab/tokens.h"

#include <embed/embed.h>

static const uint64_t key[2] = {0x0123456789ABCDEFu, 0xFEDCBA9876543210u};

static embed_context *new_context(void) {
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(NULL, &ctx), EMBED_OK);
  return ctx;
}

static embed__tokens *new_tokens(embed_context *ctx, int64_t count, int64_t bytes) {
  embed__tokens *t = NULL;
  assert_int_equal(embed__tokens_keyed(ctx, count, bytes, key, &t), EMBED_OK);
  return t;
}

/* Of every length up to three blocks: with bytes behind the string that may be read and with an unreadable page there, and whatever
 * stands in those bytes. */
static void both_ways_of_hashing_agree(void **state) {
  enum { LONGEST = 70 };
  (void)state;
  unsigned char with_slack[LONGEST + EMBED__HASH_SLACK];
  for (int64_t bytes = 0; bytes <= LONGEST; ++bytes) {
    guarded alone = guarded_new((size_t)bytes, 1);
    for (int64_t i = 0; i < bytes; ++i) alone.at[i] = with_slack[i] = (unsigned char)(200 + 31 * i);
    for (int filler = 0; filler < 256; filler += 85) {
      memset(with_slack + bytes, filler, EMBED__HASH_SLACK);
      assert_true(embed__hash_slack(key, with_slack, bytes) == embed__hash(key, alone.at, bytes));
    }
    guarded_free(alone);
  }
}

/* Each byte, the length and both halves of the key count. */
static void every_byte_changes_the_hash(void **state) {
  enum { LONGEST = 50 };
  (void)state;
  unsigned char s[LONGEST] = {0};
  for (int64_t bytes = 0; bytes <= LONGEST; ++bytes) {
    const uint64_t hash = embed__hash(key, s, bytes);
    for (int64_t i = 0; i < bytes; ++i) {
      s[i] = 1;
      assert_true(embed__hash(key, s, bytes) != hash);
      s[i] = 0;
    }
    if (bytes < LONGEST) assert_true(embed__hash(key, s, bytes + 1) != hash);
    assert_true(embed__hash((const uint64_t[2]){key[0] + 1, key[1]}, s, bytes) != hash);
    assert_true(embed__hash((const uint64_t[2]){key[0], key[1] + 1}, s, bytes) != hash);
  }
}

static void expect_token(const embed__tokens *t, int64_t id, const void *token, int64_t bytes) {
  int64_t got_bytes = -1;
  const char *got = embed__tokens_get(t, id, &got_bytes);
  assert_non_null(got);
  assert_int_equal(got_bytes, bytes);
  assert_memory_equal(got, token, (size_t)bytes);
  assert_int_equal(got[bytes], '\0');
}

/* The row ends at an unreadable page, short tokens are copied with what follows them: nothing behind the end is read, nothing before
 * or behind a token is changed. */
static void a_row_of_strings_gives_their_tokens(void **state) {
  enum { COUNT = 60 };
  (void)state;
  embed_context *ctx = new_context();
  for (int64_t last = 0; last < 80; ++last) {
    const bool big_endian = last >= 40;
    int64_t bytes = 0, at = 0;
    for (int64_t i = 0; i < COUNT; ++i) bytes += i < COUNT - 1 ? i * 7 % 23 : last % 40;
    guarded file = guarded_new((size_t)(bytes + 8 * COUNT), 1);
    unsigned char *const row = file.at;
    for (int64_t i = 0; i < COUNT; ++i) {
      const int64_t length = i < COUNT - 1 ? i * 7 % 23 : last % 40;
      memset(row + at, 0, 8);
      row[at + (big_endian ? 7 : 0)] = (unsigned char)length;
      memset(row + at + 8, (int)(1 + i), (size_t)length);
      at += 8 + length;
    }
    embed__tokens *t = new_tokens(ctx, COUNT, bytes);
    embed__tokens_append_row(t, row, COUNT, big_endian, row + at);
    embed__tokens_index(t);
    at = 0;
    for (int64_t i = 0; i < COUNT; ++i) {
      const int64_t length = row[at] + row[at + 7];
      expect_token(t, i, row + at + 8, length);
      assert_int_equal(embed__tokens_find(t, row + at + 8, length), length ? i : 0);
      at += 8 + length;
    }
    assert_int_equal(embed__tokens_empty(t), embed__tokens_repeated(t) + 1);
    embed__tokens_free(t);
    guarded_free(file);
  }
  embed_context_release(ctx);
}

/* Strings whose quick hash, under a key that is known, lies in the first of 2^12 parts of the slots. */
static int64_t colliding(char (*strings)[16], int64_t count) {
  int64_t found = 0;
  for (uint64_t i = 0; found < count; ++i) {
    int bytes = snprintf(strings[found], sizeof strings[found], "%llx", (unsigned long long)i);
    found += (embed__hash(key, strings[found], bytes) & 0xFFF) == 0;
  }
  return found;
}

/* They would take some count^2 / 2 steps. Whoever adds them one by one or all at once, the index is made again with the other hash, and
 * answers as ever: the lowest id of equal tokens, their number, none for what is not there. */
static void tokens_chosen_against_the_quick_hash_do_not_slow_it_down(void **state) {
  enum { COUNT = 3000 };
  (void)state;
  static char strings[COUNT][16];
  embed_context *ctx = new_context();
  colliding(strings, COUNT);
  for (int at_once = 0; at_once < 2; ++at_once) {
    embed__tokens *t = new_tokens(ctx, COUNT + 2, (COUNT + 2) * 16);
    embed__tokens_add(t, strings[0], (int64_t)strlen(strings[0]));
    for (int i = 0; i < COUNT; ++i) (at_once ? embed__tokens_append : embed__tokens_add)(t, strings[i], (int64_t)strlen(strings[i]));
    embed__tokens_append(t, strings[7], (int64_t)strlen(strings[7]));
    embed__tokens_index(t);
    assert_true(embed__tokens_is_careful(t));
    assert_int_equal(embed__tokens_repeated(t), 2);
    assert_int_equal(embed__tokens_find(t, strings[0], (int64_t)strlen(strings[0])), 0);
    for (int i = 1; i < COUNT; ++i) {
      expect_token(t, i + 1, strings[i], (int64_t)strlen(strings[i]));
      assert_int_equal(embed__tokens_find(t, strings[i], (int64_t)strlen(strings[i])), i + 1);
    }
    assert_int_equal(embed__tokens_find(t, "none", 4), -1);
    embed__tokens_free(t);
  }
  embed_context_release(ctx);
}

/* Tokens as they come: numbers, one repeated often, long ones that differ in the last byte. The quick hash does. */
static void usual_tokens_stay_with_the_quick_hash(void **state) {
  enum { COUNT = 30000, LONG = 40 };
  (void)state;
  embed_context *ctx = new_context();
  char s[LONG + 16];
  embed__tokens *t = new_tokens(ctx, 3 * COUNT, 3 * COUNT * (LONG + 16));
  for (int i = 0; i < COUNT; ++i) {
    embed__tokens_append(t, s, snprintf(s, sizeof s, "%d", i));
    embed__tokens_append(t, "same", 4);
    embed__tokens_append(t, s, snprintf(s, sizeof s, "%0*d", LONG, i));
  }
  embed__tokens_index(t);
  assert_false(embed__tokens_is_careful(t));
  assert_int_equal(embed__tokens_repeated(t), COUNT - 1);
  for (int i = 0; i < COUNT; ++i) {
    assert_int_equal(embed__tokens_find(t, s, snprintf(s, sizeof s, "%d", i)), 3 * i);
    assert_int_equal(embed__tokens_find(t, s, snprintf(s, sizeof s, "%0*d", LONG, i)), 3 * i + 2);
    assert_int_equal(embed__tokens_find(t, s, snprintf(s, sizeof s, "%0*d", LONG + 1, i)), -1);
  }
  embed__tokens_free(t);
  embed_context_release(ctx);
}

/* An id without a token is found by nothing, by the empty token neither, whichever hash the index has. */
static void ids_without_a_token_are_in_no_index(void **state) {
  enum { COUNT = 3000 };
  (void)state;
  static char strings[COUNT][16];
  embed_context *ctx = new_context();
  for (int attack = 0; attack < 2; ++attack) {
    int64_t bytes = 42;
    colliding(strings, COUNT);
    embed__tokens *t = NULL;
    assert_int_equal(embed__tokens_keyed(ctx, 2 * COUNT + 2, (2 * COUNT + 2) * 16, key, &t), EMBED_OK);
    for (int i = 0; i < COUNT; ++i) {
      if (!attack) snprintf(strings[i], sizeof strings[i], "%d", i);
      embed__tokens_append_none(t);
      embed__tokens_append(t, strings[i], (int64_t)strlen(strings[i]));
    }
    embed__tokens_append(t, strings[7], (int64_t)strlen(strings[7]));
    embed__tokens_index(t);
    assert_int_equal(embed__tokens_is_careful(t), attack);
    assert_int_equal(embed__tokens_find(t, "", 0), -1);
    assert_int_equal(embed__tokens_count(t), 2 * COUNT + 1);
    assert_int_equal(embed__tokens_repeated(t), 1);
    assert_int_equal(embed__tokens_empty(t), 0);
    for (int i = 0; i < COUNT; ++i) {
      assert_null(embed__tokens_get(t, 2 * i, &bytes));
      assert_int_equal(bytes, 42);
      expect_token(t, 2 * i + 1, strings[i], (int64_t)strlen(strings[i]));
      assert_int_equal(embed__tokens_find(t, strings[i], (int64_t)strlen(strings[i])), 2 * i + 1);
    }
    embed__tokens_add(t, "", 0);
    assert_int_equal(embed__tokens_find(t, "", 0), 2 * COUNT + 1);
    embed__tokens_free(t);
  }
  embed_context_release(ctx);
}

/* A slot has 32 bits for the id and a part of the hash. */
static void more_tokens_than_a_slot_can_name_are_refused(void **state) {
  (void)state;
  embed_context *ctx = new_context();
  embed__tokens *t = (embed__tokens *)(uintptr_t)1;
  assert_int_equal(embed__tokens_keyed(ctx, UINT32_MAX, 0, key, &t), EMBED_E_UNSUPPORTED);
  assert_null(t);
  assert_non_null(strstr(embed_error_text(ctx), "4294967295 tokens are named, at most 4294967294"));
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(both_ways_of_hashing_agree),
    cmocka_unit_test(every_byte_changes_the_hash),
    cmocka_unit_test(a_row_of_strings_gives_their_tokens),
    cmocka_unit_test(tokens_chosen_against_the_quick_hash_do_not_slow_it_down),
    cmocka_unit_test(usual_tokens_stay_with_the_quick_hash),
    cmocka_unit_test(ids_without_a_token_are_in_no_index),
    cmocka_unit_test(more_tokens_than_a_slot_can_name_are_refused),
};
TEST_MAIN(tests)
