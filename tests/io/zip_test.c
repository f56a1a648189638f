/* SPDX-License-Identifier: BSD-3-Clause */
/* Zip archives around npz arrays: what lies where, and which byte is named when it does not. */
#include "files.h"
#include "zip_file.h"

static const float values[12] = {0.0f, -0.0f, 1.5f, -2.25f, 3e38f, 1e-40f, 7.0f, 8.0f, 9.0f, 10.0f, 11.0f, 65504.0f};
static unsigned char array[4096];

static size_t make_array(void) {
  return make_npy(array, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 64, file_floats(values, 12), sizeof values);
}

/* Members a.npy and b.npy, the same array; pad: zeros in front of b's bytes. */
static void two_arrays(size_t pad, int flags, int wide) {
  const size_t bytes = make_array();
  zf_begin();
  zf_add("a.npy", array, bytes);
  zf_raw("b.npy", ZF_STORED, flags, pad, array, bytes, bytes, zf_sum(array, bytes));
  zf_end(wide);
}

static void opens_whole(embed_context *ctx, const char *name) {
  float got[12];
  embed_file *f = open_file(ctx, write_file(name, zf, zf_count), &(embed_file_options){.size = sizeof(embed_file_options), .flags = EMBED_FILE_CHECK});
  assert_string_equal(embed_file_format(f), "npz");
  assert_int_equal(embed_file_count(f), 2);
  for (int64_t i = 0; i < 2; ++i) {
    embed_tensor_info info = {.size = sizeof info};
    embed_table *t = NULL;
    assert_int_equal(embed_file_tensor(ctx, f, i, &info), EMBED_OK);
    assert_string_equal(info.name, i ? "b" : "a");
    assert_int_equal(info.offset, (int64_t)(zf_members[i].data + zf_members[i].bytes - sizeof values));
    assert_int_equal(embed_file_table(ctx, f, i, &t), EMBED_OK);
    read_rows(ctx, t, got);
    assert_same_bits(got, values, sizeof values);
    embed_table_release(t);
  }
  embed_file_release(f);
  unlink(path_of(name));
}

static void stored_members_open_at_any_alignment(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (size_t pad = 0; pad < 9; ++pad)
    for (int wide = 0; wide < 2; ++wide) {
      two_arrays(pad, pad % 2 ? 8 : 0, wide); /* with sizes behind the data, as torch writes them */
      opens_whole(ctx, "align");
    }
  embed_context_release(ctx);
}

static void a_comment_may_look_like_an_end(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  two_arrays(0, 0, 0);
  zf_put(zf_count - 2, 30, 2);
  zf_uint(0x06054B50u, 4);
  for (int i = 0; i < 26; ++i) zf_uint(0xFF, 1);
  opens_whole(ctx, "comment");
  embed_context_release(ctx);
}

static void members_may_come_in_any_order_with_holes_between(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  const size_t bytes = make_array();
  zf_begin();
  zf_add("b.npy", array, bytes);
  zf_uint(0x1234567, 7);
  zf_add("a.npy", array, bytes);
  for (int i = 0; i < 2; ++i) zf_members[2 + i] = zf_members[1 - i];
  for (int i = 0; i < 2; ++i) zf_members[i] = zf_members[2 + i];
  zf_end(0);
  opens_whole(ctx, "order");
  embed_context_release(ctx);
}

typedef struct wrong_byte {
  int member; /* -1 = the end */
  int entry;  /* in the directory, or the member's own header */
  size_t at;
  uint64_t value;
  int width;
  embed_status status;
  const char *says;
} wrong_byte;

static const wrong_byte wrong_bytes[] = {
    {-1, 0, 4, 1, 2, EMBED_E_UNSUPPORTED, "several parts"},
    {-1, 0, 8, 1, 2, EMBED_E_UNSUPPORTED, "several parts"},
    {-1, 0, 12, 9, 4, EMBED_E_FORMAT, "does not end at byte"},
    {-1, 0, 16, 0xFFFFFFFF, 4, EMBED_E_FORMAT, "does not end at byte"}, /* of 64 bits, and none are there */
    {-1, 0, 8, 0x00030003, 4, EMBED_E_FORMAT, "does not hold 3 entries"},
    {-1, 0, 8, 0x00010001, 4, EMBED_E_FORMAT, "more bytes than its entries"},
    {1, 1, 0, 0, 1, EMBED_E_FORMAT, "should begin"},
    {1, 1, 28, 0xFFFF, 2, EMBED_E_FORMAT, "runs over its end"},
    {1, 1, 28, 0, 2, EMBED_E_FORMAT, "empty or has a NUL"},
    {1, 1, 46, 0, 1, EMBED_E_FORMAT, "empty or has a NUL"},
    {1, 1, 46, 'a', 1, EMBED_E_FORMAT, "another name"},
    {1, 1, 8, 1, 2, EMBED_E_UNSUPPORTED, "\"b.npy\" is encrypted"},
    {1, 1, 8, 0x40, 2, EMBED_E_UNSUPPORTED, "is encrypted"},
    {1, 1, 8, 0x2000, 2, EMBED_E_UNSUPPORTED, "is encrypted"},
    {1, 1, 8, 0x20, 2, EMBED_E_UNSUPPORTED, "is a patch"},
    {1, 1, 10, 12, 2, EMBED_E_UNSUPPORTED, "is packed by method 12"},
    {1, 1, 10, 8, 2, EMBED_E_FORMAT, "another method"},
    {1, 1, 16, 77, 4, EMBED_E_FORMAT, "another sum or size"},
    {1, 1, 20, 5, 4, EMBED_E_FORMAT, "two sizes"},
    {1, 1, 24, 5, 4, EMBED_E_FORMAT, "two sizes"},
    {1, 1, 20, 0x7FFFFFFF, 4, EMBED_E_FORMAT, "larger than the archive"},
    {1, 1, 20, 0xFFFFFFFF, 4, EMBED_E_FORMAT, "larger than the archive"},
    {1, 1, 42, 0xFFFFFFFF, 4, EMBED_E_FORMAT, "begins behind"},
    {1, 1, 42, 0xFFFFFFF0, 4, EMBED_E_FORMAT, "begins behind"}, /* -16, to who reads it so */
    {1, 1, 42, 1, 4, EMBED_E_FORMAT, "not where the directory says"},
    {1, 1, 42, 0, 4, EMBED_E_FORMAT, "another name"},
    {1, 0, 0, 0, 1, EMBED_E_FORMAT, "not where the directory says"},
    {1, 0, 6, 1, 2, EMBED_E_FORMAT, "another method"},
    {1, 0, 8, 8, 2, EMBED_E_FORMAT, "another method"},
    {1, 0, 14, 77, 4, EMBED_E_FORMAT, "another sum or size"},
    {1, 0, 18, 77, 4, EMBED_E_FORMAT, "another sum or size"},
    {1, 0, 22, 77, 4, EMBED_E_FORMAT, "another sum or size"},
    {1, 0, 26, 4, 2, EMBED_E_FORMAT, "another name"},
    {1, 0, 28, 0xFFFF, 2, EMBED_E_FORMAT, "runs into the archive's directory"},
    {1, 0, 28, 1, 2, EMBED_E_FORMAT, "runs into the archive's directory"},
    {1, 0, 30, 'c', 1, EMBED_E_FORMAT, "another name"},
};

static void each_check_names_what_is_wrong(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof wrong_bytes / sizeof *wrong_bytes; ++i) {
    const wrong_byte *w = &wrong_bytes[i];
    embed_file *f = NULL;
    two_arrays(0, 0, 0);
    const size_t base = w->member < 0 ? zf_count - ZF_END : w->entry ? zf_members[w->member].entry : zf_members[w->member].at;
    zf_put(base + w->at, w->value, w->width);
    assert_int_equal(embed_file_open(ctx, write_file("wrong", zf, zf_count), NULL, &f), w->status);
    if (!strstr(embed_error_text(ctx), w->says)) fail_msg("case %zu: %s", i, embed_error_text(ctx));
    assert_in_range(embed_error_at(ctx), 0, zf_count);
  }
  unlink(path_of("wrong"));
  embed_context_release(ctx);
}

static void wide_sizes_are_held_against_the_file(void **state) {
  (void)state;
  static const struct {
    int entry; /* else the end */
    size_t at;
    uint64_t value;
    embed_status status;
    const char *says;
  } cases[] = {
      {1, 51 + 4, 1ull << 32, EMBED_E_FORMAT, "two sizes"},
      {1, 51 + 4, UINT64_MAX, EMBED_E_FORMAT, "larger than the archive"},
      {1, 51 + 12, 1ull << 32, EMBED_E_FORMAT, "larger than the archive"},
      {1, 51 + 12, UINT64_MAX - 7, EMBED_E_FORMAT, "larger than the archive"},
      {1, 51 + 20, UINT64_MAX - 7, EMBED_E_FORMAT, "begins behind"},
      {1, 51 + 20, INT64_MAX, EMBED_E_FORMAT, "begins behind"},
      {0, 4, 45, EMBED_E_FORMAT, "does not end at its locator"},
      {0, 24, 3, EMBED_E_UNSUPPORTED, "several parts"},
      {0, 40, UINT64_MAX, EMBED_E_FORMAT, "does not end at byte"},
      {0, 48, UINT64_MAX, EMBED_E_FORMAT, "does not end at byte"},
      {0, 56 + 8, UINT64_MAX, EMBED_E_FORMAT, "not where its locator says"},
      {0, 56 + 8, 3, EMBED_E_FORMAT, "not where its locator says"},
  };
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    embed_file *f = NULL;
    two_arrays(0, 0, 1);
    zf_put((cases[i].entry ? zf_members[1].entry : zf_count - ZF_END - 76) + cases[i].at, cases[i].value, 8);
    assert_int_equal(embed_file_open(ctx, write_file("wide", zf, zf_count), NULL, &f), cases[i].status);
    if (!strstr(embed_error_text(ctx), cases[i].says)) fail_msg("case %zu: %s", i, embed_error_text(ctx));
  }
  two_arrays(0, 0, 1);
  zf_put(zf_members[1].entry + 51 + 2, 8, 2); /* one of three */
  refused(ctx, write_file("wide", zf, zf_count), NULL, EMBED_E_FORMAT, (int64_t)zf_members[1].entry + 51 + 12, "has not all of its 64-bit sizes");
  two_arrays(0, 0, 1);
  zf_put(zf_count - 12, 7, 2); /* the two ends */
  refused(ctx, write_file("wide", zf, zf_count), NULL, EMBED_E_FORMAT, (int64_t)zf_count - ZF_END, "two ends differ");
  unlink(path_of("wide"));
  embed_context_release(ctx);
}

static void no_name_twice_and_no_member_over_another(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  const size_t bytes = make_array();
  zf_begin();
  zf_add("a.npy", array, bytes);
  zf_add("a.npy", array, bytes);
  zf_end(0);
  refused(ctx, write_file("twice", zf, zf_count), NULL, EMBED_E_FORMAT, (int64_t)zf_members[1].at, "\"a.npy\" is there twice");
  for (int turned = 0; turned < 2; ++turned) { /* one archive's member is the whole other archive */
    static unsigned char inner[4096];
    zf_begin();
    zf_add("b.npy", array, bytes);
    const size_t inner_bytes = zf_count;
    memcpy(inner, zf, inner_bytes);
    zf_begin();
    zf_add("a.npy", inner, inner_bytes);
    const int a = turned ? 1 : 0;
    zf_members[1] = zf_members[0];
    zf_members[1 - a].name = "b.npy";
    zf_members[1 - a].at = zf_members[a].data;
    zf_members[1 - a].stored = zf_members[1 - a].bytes = bytes;
    zf_members[1 - a].sum = zf_sum(array, bytes);
    zf_member_count = 2;
    zf_end(0);
    refused(ctx, write_file("over", zf, zf_count), NULL, EMBED_E_FORMAT, (int64_t)zf_members[1 - a].at, "\"b.npy\" lies over another one");
  }
  unlink(path_of("twice"));
  unlink(path_of("over"));
  embed_context_release(ctx);
}

static void a_wrong_sum_is_found_when_sums_are_checked(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  two_arrays(0, 0, 0);
  zf[zf_members[1].data + 140] ^= 1;
  embed_file_release(open_file(ctx, write_file("sum", zf, zf_count), NULL));
  embed_file_options o = {.size = sizeof o, .flags = EMBED_FILE_CHECK};
  refused(ctx, path_of("sum"), &o, EMBED_E_FORMAT, (int64_t)zf_members[1].data, "member \"b.npy\"");
  assert_non_null(strstr(embed_error_text(ctx), "the archive says"));
  unlink(path_of("sum"));
  embed_context_release(ctx);
}

static void an_archive_cut_at_any_byte_is_refused(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int wide = 0; wide < 2; ++wide) {
    two_arrays(0, 0, wide);
    for (size_t cut = 1; cut < zf_count; ++cut) {
      embed_file *f = NULL;
      assert_int_equal(embed_file_open(ctx, write_file("cut", zf, cut), NULL, &f), EMBED_E_FORMAT);
      if (cut > 40 && !strstr(embed_error_text(ctx), "cut short")) fail_msg("%zu: %s", cut, embed_error_text(ctx));
    }
  }
  unlink(path_of("cut"));
  embed_context_release(ctx);
}

static void no_single_wrong_byte_of_the_directory_harms(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  const size_t bytes = make_npy(array, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }", 1, file_floats(values, 1), 4);
  for (int wide = 0; wide < 2; ++wide) {
    zf_begin();
    zf_add("a.npy", array, bytes);
    zf_add("b", "", 0);
    zf_end(wide);
    survives_mutations(ctx, "mutant", zf, zf_count);
  }
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(stored_members_open_at_any_alignment),
    cmocka_unit_test(a_comment_may_look_like_an_end),
    cmocka_unit_test(members_may_come_in_any_order_with_holes_between),
    cmocka_unit_test(each_check_names_what_is_wrong),
    cmocka_unit_test(wide_sizes_are_held_against_the_file),
    cmocka_unit_test(no_name_twice_and_no_member_over_another),
    cmocka_unit_test(a_wrong_sum_is_found_when_sums_are_checked),
    cmocka_unit_test(an_archive_cut_at_any_byte_is_refused),
    cmocka_unit_test(no_single_wrong_byte_of_the_directory_harms),
};
TEST_MAIN(tests)
