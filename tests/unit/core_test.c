/* SPDX-License-Identifier: BSD-3-Clause */
/* Checked arithmetic, options copied in, structs written out, error texts, status names, dtypes. */
#include "test.h"

#include "core/checked.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/options.h"
#include "core/sort.h"

static embed_context ctx;

static int setup(void **state) {
  (void)state;
  memset(&ctx, 0, sizeof ctx);
  ctx.memory = embed__default_allocator;
  ctx.error_at = -1;
  return 0;
}

static int teardown(void **state) {
  (void)state;
  embed__scratch_free(&ctx.scratch, &ctx.memory);
  return 0;
}

static void products_and_sums_that_do_not_fit_are_refused(void **state) {
  (void)state;
  int64_t out;
  assert_true(embed__mul(3037000499, 3037000499, &out) && out == 9223372030926249001);
  assert_true(embed__mul(INT64_MAX, 1, &out) && out == INT64_MAX);
  assert_true(embed__mul(0, INT64_MAX, &out) && out == 0);
  static const int64_t refused[][2] = {
      {3037000500, 3037000500}, {INT64_MAX, 2}, {(int64_t)1 << 32, (int64_t)1 << 31}, {-1, 1}, {1, -1}, {-1, -1}, {0, -5}, {INT64_MIN, 0}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
    out = 7;
    assert_false(embed__mul(refused[i][0], refused[i][1], &out));
    assert_int_equal(out, -1);
  }
  assert_true(embed__add(INT64_MAX - 1, 1, &out) && out == INT64_MAX);
  out = 7;
  assert_false(embed__add(INT64_MAX, 1, &out));
  assert_int_equal(out, -1);
  assert_false(embed__add(-1, 5, &out));
  assert_false(embed__add(5, -1, &out));
  assert_int_equal(embed__ceil_div(0, 3), 0);
  assert_int_equal(embed__ceil_div(7, 3), 3);
  assert_int_equal(embed__ceil_div(INT64_MAX, 2), (int64_t)1 << 62);
  assert_int_equal(embed__ceil_div(INT64_MAX, INT64_MAX), 1);
}

typedef struct sample_options {
  uint32_t size, flags;
  int64_t a, b;
} sample_options;

static void shorter_options_are_filled_with_zeros(void **state) {
  (void)state;
  for (uint32_t size = 8; size <= sizeof(sample_options); ++size) { /* the struct ends at an unreadable page */
    guarded old = guarded_new(size, 1);
    sample_options full = {size, 1, 0x1111111111111111, 0x2222222222222222}, want = full, got;
    memcpy(old.at, &full, size);
    memset((char *)&want + size, 0, sizeof want - size);
    memset(&got, 0xEE, sizeof got);
    assert_int_equal(embed__options(&ctx, "sample_options", old.at, 1, &got, sizeof got), EMBED_OK);
    assert_same_bits(&got, &want, sizeof got);
    guarded_free(old);
  }
}

static void no_options_are_all_defaults(void **state) {
  (void)state;
  sample_options got;
  memset(&got, 0xEE, sizeof got);
  assert_int_equal(embed__options(&ctx, "sample_options", NULL, 0, &got, sizeof got), EMBED_OK);
  assert_true(test_all_bytes(&got, sizeof got, 0));
}

static void longer_options_may_only_end_in_zeros(void **state) {
  (void)state;
  struct {
    sample_options known;
    unsigned char tail[16];
  } newer = {.known = {.size = sizeof newer, .a = 5}};
  sample_options got;
  assert_int_equal(embed__options(&ctx, "sample_options", &newer, 0, &got, sizeof got), EMBED_OK);
  assert_int_equal(got.a, 5);
  for (int i = 0; i < 16; ++i) {
    newer.tail[i] = 1;
    assert_int_equal(embed__options(&ctx, "sample_options", &newer, 0, &got, sizeof got), EMBED_E_OPTION);
    assert_int_equal(ctx.error_at, (int)sizeof(sample_options) + i);
    assert_non_null(strstr(ctx.error_text, "sample_options"));
    newer.tail[i] = 0;
  }
}

static void sizes_below_8_and_unknown_flags_are_refused(void **state) {
  (void)state;
  sample_options given = {.size = 0}, got;
  for (given.size = 0; given.size < 8; ++given.size) assert_int_equal(embed__options(&ctx, "sample_options", &given, ~0u, &got, sizeof got), EMBED_E_OPTION);
  given.size = sizeof given;
  for (int bit = 0; bit < 32; ++bit) {
    given.flags = 1u << bit;
    assert_int_equal(embed__options(&ctx, "sample_options", &given, 0x80000006u, &got, sizeof got),
                     bit == 1 || bit == 2 || bit == 31 ? EMBED_OK : EMBED_E_OPTION);
  }
  given.flags = 0x9;
  assert_int_equal(embed__options(&ctx, "sample_options", &given, 1, &got, sizeof got), EMBED_E_OPTION);
  assert_string_equal(ctx.error_text, "sample_options.flags has unknown bits 0x8");
}

static void output_structs_keep_to_the_callers_size(void **state) {
  (void)state;
  const sample_options ours = {.size = sizeof ours, .flags = 2, .a = 3, .b = 4};
  unsigned char given[sizeof ours + 16];
  for (uint32_t size = 8; size <= sizeof given; ++size) {
    memset(given, 0xEE, sizeof given);
    memcpy(given, &size, 4);
    assert_int_equal(embed__output(&ctx, "out", given, &ours, sizeof ours), EMBED_OK);
    uint32_t kept, known = size < sizeof ours ? size : (uint32_t)sizeof ours;
    memcpy(&kept, given, 4);
    assert_int_equal(kept, size);
    assert_memory_equal(given + 4, (const char *)&ours + 4, known - 4);
    assert_true(test_all_bytes(given + known, size - known, 0));
    assert_true(test_all_bytes(given + size, sizeof given - size, 0xEE));
  }
  uint32_t small = 7;
  memcpy(given, &small, 4);
  assert_int_equal(embed__output(&ctx, "out", given, &ours, sizeof ours), EMBED_E_OPTION);
  assert_int_equal(embed__output(&ctx, "out", NULL, &ours, sizeof ours), EMBED_E_ARGUMENT);
}

static void error_texts_are_valid_utf8(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"plain", "plain"},
      {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"}, /* e acute, euro, a smile */
      {"a\xFF"
       "b",
       "a?b"},
      {"\x80", "?"},
      {"\xC3", "?"}, /* cut short by the end */
      {"\xE2\x82", "??"},
      {"\xE2\x82zz", "??zz"},
      {"\xC0\xAF", "??"}, /* overlong */
      {"\xE0\x80\xAF", "???"},
      {"\xF0\x80\x80\xAF", "????"},
      {"\xED\xA0\x80", "???"},      /* surrogate */
      {"\xF4\x90\x80\x80", "????"}, /* past U+10FFFF */
      {"\xF8\x88\x80\x80\x80", "?????"},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
    assert_int_equal(embed__fail(&ctx, EMBED_E_FORMAT, (int64_t)i, "%s", pairs[i][0]), EMBED_E_FORMAT);
    assert_string_equal(embed_error_text(&ctx), pairs[i][1]);
    assert_int_equal(embed_error_at(&ctx), i);
  }
}

static void long_error_texts_are_cut_at_the_bound_between_characters(void **state) {
  (void)state;
  char text[2 * EMBED__ERROR_TEXT];
  for (int lead = 0; lead < 3; ++lead) {
    memset(text, 'x', (size_t)lead);
    for (size_t i = (size_t)lead; i + 3 < sizeof text; i += 3) memcpy(text + i, "\xE2\x82\xAC", 4);
    ctx.error_text[EMBED__ERROR_TEXT - 1] = 'Q';
    (void)embed__fail(&ctx, EMBED_E_IO, -1, "%s", text);
    const char *got = embed_error_text(&ctx);
    size_t length = strlen(got), whole = (size_t)lead + (EMBED__ERROR_TEXT - 1 - (size_t)lead) / 3 * 3;
    assert_int_equal(length, EMBED__ERROR_TEXT - 1);
    assert_memory_equal(got, text, whole);
    for (size_t i = whole; i < length; ++i) assert_int_equal(got[i], '?');
  }
}

static void a_call_begins_without_an_error(void **state) {
  (void)state;
  (void)embed__fail(&ctx, EMBED_E_ID, 3, "id %d at position %d", 9, 3);
  assert_string_equal(embed_error_text(&ctx), "id 9 at position 3");
  assert_int_equal(embed__begin(&ctx), EMBED_OK);
  assert_string_equal(embed_error_text(&ctx), "");
  assert_int_equal(embed_error_at(&ctx), -1);
  assert_string_equal(embed_error_text(NULL), "the context is NULL");
  assert_int_equal(embed_error_at(NULL), -1);
}

static void every_status_has_its_name(void **state) {
  (void)state;
  assert_string_equal(embed_status_name(EMBED_OK), "EMBED_OK");
  assert_string_equal(embed_status_name(EMBED_E_ID), "EMBED_E_ID");
  assert_string_equal(embed_status_name(EMBED_E_OVERFLOW), "EMBED_E_OVERFLOW");
  assert_string_equal(embed_status_name(EMBED_E_NONFINITE), "EMBED_E_NONFINITE");
  static const embed_status unknown[] = {1, EMBED_E_NONFINITE - 1, INT32_MIN, INT32_MAX};
  for (size_t i = 0; i < 4; ++i) assert_string_equal(embed_status_name(unknown[i]), "unknown status");
}

static void the_dtype_registry_agrees_with_itself(void **state) {
  (void)state;
#define DTYPE(constant, codec, name, block, block_bytes, row_extra, whole) \
  assert_string_equal(embed_dtype_name(constant), name);                   \
  assert_int_equal(embed_dtype_find(name), constant);
#include "core/dtypes.def"
#undef DTYPE
  assert_null(embed_dtype_name(EMBED_DTYPE_NONE));
  assert_null(embed_dtype_name(1000));
  assert_int_equal(embed_dtype_find("F32"), EMBED_DTYPE_NONE);
  assert_int_equal(embed_dtype_find(""), EMBED_DTYPE_NONE);
  assert_int_equal(embed_dtype_find(NULL), EMBED_DTYPE_NONE);
}

static void rows_have_the_bytes_of_their_layout(void **state) {
  (void)state;
  static const struct {
    embed_dtype dtype;
    int64_t dim;
    int32_t group;
    int64_t bytes;
  } rows[] = {
      {EMBED_F32, 1, 0, 4},
      {EMBED_F16, 768, 0, 1536},
      {EMBED_BF16, 3, 0, 6},
      {EMBED_F64, 5, 0, 40},
      {EMBED_I8_ROW, 4096, 0, 4100},
      {EMBED_U8_ROW, 4096, 0, 4104},
      {EMBED_I4_GROUP, 32, 0, 18},
      {EMBED_I4_GROUP, 33, 32, 36},
      {EMBED_I4_GROUP, 64, 64, 34},
      {EMBED_I4_GROUP, 65, 64, 68},
      {EMBED_I4_GROUP, 1, 128, 66},
      {EMBED_F32, 0, 0, EMBED_E_ARGUMENT},
      {EMBED_F32, -1, 0, EMBED_E_ARGUMENT},
      {EMBED_I4_GROUP, 32, 16, EMBED_E_ARGUMENT},
      {EMBED_I4_GROUP, 32, -32, EMBED_E_ARGUMENT},
      {EMBED_DTYPE_NONE, 1, 0, EMBED_E_ARGUMENT},
      {999, 1, 0, EMBED_E_ARGUMENT},
      {EMBED_F32, INT64_MAX, 0, EMBED_E_OVERFLOW},
      {EMBED_F64, (int64_t)1 << 60, 0, EMBED_E_OVERFLOW},
      {EMBED_I8_ROW, INT64_MAX, 0, EMBED_E_OVERFLOW},
      {EMBED_F8_E4M3, 33, 0, 33},
      {EMBED_F8_E5M2, 1, 0, 1},
      {EMBED_PQ, 10, 4, 3},
      {EMBED_PQ, 10, 0, EMBED_E_ARGUMENT},
      {EMBED_U4_ROW, 1, 0, 5},
      {EMBED_U4_ROW, 4096, 0, 2052},
      {EMBED_U4_ROW, 4097, 0, 2053},
      {EMBED_U2_ROW, 4, 0, 5},
      {EMBED_U2_ROW, 4097, 0, 1029},
      {EMBED_U2_ROW, INT64_MAX, 0, ((int64_t)1 << 61) + 4},
      {EMBED_IQ4_NL, 4096, 0, 2304},
      {EMBED_IQ4_XS, 4096, 0, 2176},
      {EMBED_IQ4_XS, 128, 0, EMBED_E_UNSUPPORTED},
      {EMBED_MXFP4, 4096, 0, 2176},
      {EMBED_NVFP4, 4096, 0, 2304},
      {EMBED_NVFP4, 32, 0, EMBED_E_UNSUPPORTED},
      {EMBED_Q8_0, 4096, 0, 4352},
      {EMBED_Q5_0, 32, 128, 22},
      {EMBED_Q6_K, 512, 0, 420},
      {EMBED_Q4_0, 33, 0, EMBED_E_UNSUPPORTED},
      {EMBED_Q4_K, 4544, 0, EMBED_E_UNSUPPORTED},
      {EMBED_Q4_K, 128, 0, EMBED_E_UNSUPPORTED},
      {EMBED_Q8_0, INT64_MAX / 32 * 32, 0, EMBED_E_OVERFLOW},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) assert_int_equal(embed_row_bytes(rows[i].dtype, rows[i].dim, rows[i].group), rows[i].bytes);
}

static void the_version_is_the_headers(void **state) {
  (void)state;
  assert_int_equal(embed_version(), EMBED_VERSION_MAJOR << 16 | EMBED_VERSION_MINOR << 8 | EMBED_VERSION_PATCH);
}

typedef struct numbered {
  int64_t key, place;
} numbered;

static bool numbered_before(const void *a, const void *b) {
  const numbered *x = a, *y = b;
  return x->key < y->key || (x->key == y->key && x->place < y->place);
}

static bool pointed_before(const void *a, const void *b) { return numbered_before(*(const numbered *const *)a, *(const numbered *const *)b); }

/* Ascending, descending, all equal, and at random with many equal ones: structs and pointers to them. */
static void sorting_gives_the_order_and_loses_nothing(void **state) {
  (void)state;
  enum { MOST = 300 };
  uint64_t random = 1;
  for (int kind = 0; kind < 4; ++kind) {
    for (int n = 0; n <= MOST; n += n < 20 ? 1 : 70) {
      numbered items[MOST + 1];
      const numbered *pointers[MOST + 1];
      bool seen[MOST + 1] = {false};
      for (int i = 0; i < n; ++i) {
        items[i] = (numbered){kind == 0 ? i : kind == 1 ? n - i : kind == 2 ? 5 : (int64_t)(test_random(&random) % 40), i};
        pointers[i] = &items[i];
      }
      embed__sort(pointers, n, sizeof *pointers, pointed_before);
      for (int i = 1; i < n; ++i) assert_true(numbered_before(pointers[i - 1], pointers[i]));
      embed__sort(items, n, sizeof *items, numbered_before);
      for (int i = 1; i < n; ++i) assert_true(numbered_before(&items[i - 1], &items[i]));
      for (int i = 0; i < n; ++i) {
        assert_in_range(items[i].place, 0, n - 1);
        assert_false(seen[items[i].place]);
        seen[items[i].place] = true;
      }
    }
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(products_and_sums_that_do_not_fit_are_refused),
    cmocka_unit_test_setup_teardown(shorter_options_are_filled_with_zeros, setup, teardown),
    cmocka_unit_test_setup_teardown(no_options_are_all_defaults, setup, teardown),
    cmocka_unit_test_setup_teardown(longer_options_may_only_end_in_zeros, setup, teardown),
    cmocka_unit_test_setup_teardown(sizes_below_8_and_unknown_flags_are_refused, setup, teardown),
    cmocka_unit_test_setup_teardown(output_structs_keep_to_the_callers_size, setup, teardown),
    cmocka_unit_test_setup_teardown(error_texts_are_valid_utf8, setup, teardown),
    cmocka_unit_test_setup_teardown(long_error_texts_are_cut_at_the_bound_between_characters, setup, teardown),
    cmocka_unit_test_setup_teardown(a_call_begins_without_an_error, setup, teardown),
    cmocka_unit_test(every_status_has_its_name),
    cmocka_unit_test(the_dtype_registry_agrees_with_itself),
    cmocka_unit_test(rows_have_the_bytes_of_their_layout),
    cmocka_unit_test(the_version_is_the_headers),
    cmocka_unit_test(sorting_gives_the_order_and_loses_nothing),
};
TEST_MAIN(tests)
