/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing npz: the archive's bytes, arrays that come back, what is refused. */
#include "writing.h"

/* One array of four floats, as zipfile and zlib of Python 3.11 check it: its sum is zlib.crc32's. */
static void an_archive_has_the_bytes_that_zip_asks_for(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3, 4};
  embed_context *ctx = new_context(NULL);
  embed_table_options o = {.size = sizeof o};
  embed_table *t = NULL;
  fresh_folder();
  done(ctx, embed_table_view(ctx, values, 2, 2, &o, NULL, NULL, &t));
  embed_writer *w = new_writer(ctx, in_folder("a.npz"), NULL);
  done(ctx, embed_writer_table(ctx, w, "a", t, NULL));
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  size_t bytes;
  unsigned char *got = read_file(in_folder("a.npz"), &bytes), array[256], want[512] = {0}, *p = want;
  const size_t head = make_npy(array, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", 64, file_floats(values, 4), 16);
  assert_int_equal(head, 144);
  static const unsigned char local[] =
      "PK\3\4\x14\0\0\0\0\0\0\0\x21\0"
      "\x4E\xFB\x20\x75"
      "\x90\0\0\0\x90\0\0\0\5\0\x1D\0a.npy\x35\xD9\x19\0\x40";
  memcpy(p, local, sizeof local - 1); /* zeros up to 64 */
  memcpy(p + 64, array, 144);
  p += 64 + 144;
  static const unsigned char entry[] =
      "PK\1\2\x2D\0\x14\0\0\0\0\0\0\0\x21\0"
      "\x4E\xFB\x20\x75"
      "\x90\0\0\0\x90\0\0\0\5\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a.npy";
  memcpy(p, entry, sizeof entry - 1);
  p += sizeof entry - 1;
  static const unsigned char end[] = "PK\5\6\0\0\0\0\1\0\1\0\x33\0\0\0\xD0\0\0\0\0";
  memcpy(p, end, sizeof end);
  p += sizeof end;
  assert_int_equal(bytes, p - want);
  assert_memory_equal(got, want, bytes);
  free(got);
  embed_table_release(t);
  embed_context_release(ctx);
  remove_folder();
}

static void arrays_come_back_by_their_names(void **state) {
  (void)state;
  static const embed_dtype dtypes[] = {EMBED_F32, EMBED_F16, EMBED_F64};
  static const char *const names[] = {"wte.weight", "z\xC3\xBCrich/b", "c"};
  embed_pool *pool = NULL;
  assert_int_equal(embed_pool_create(3, &pool), EMBED_OK);
  embed_context *ctx = new_context(pool);
  embed_writer_options small = {.size = sizeof small, .max_memory = 5000};
  fresh_folder();
  embed_table *t = some_table(ctx, 77, 33, EMBED_F32, 0, 5), *empty = some_table(ctx, 0, 5, EMBED_F32, 0, 5), *back = NULL;
  embed_writer *w = new_writer(ctx, in_folder("a.npz"), &small);
  for (int i = 0; i < 3; ++i) {
    embed_table_options as = {.size = sizeof as, .dtype = dtypes[i]};
    done(ctx, embed_writer_table(ctx, w, names[i], t, &as));
  }
  done(ctx, embed_writer_table(ctx, w, "empty", empty, NULL));
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  for (uint32_t flags = 0; flags < 8; ++flags) {
    embed_file *f = open_file(ctx, in_folder("a.npz"), &(embed_file_options){.size = sizeof(embed_file_options), .flags = flags}); /* its sums too */
    assert_string_equal(embed_file_format(f), "npz");
    assert_null(strchr(embed_file_notes(f), '\n')); /* of the tie alone */
    assert_int_equal(embed_file_count(f), 4);
    for (int i = 0; i < 3; ++i) {
      embed_table_options as = {.size = sizeof as, .dtype = dtypes[i]};
      embed_table *want = NULL;
      embed_tensor_info info = {.size = sizeof info};
      int64_t at = -1;
      done(ctx, embed_table_convert(ctx, t, &as, &want));
      done(ctx, embed_file_find(ctx, f, names[i], &at));
      done(ctx, embed_file_tensor(ctx, f, at, &info));
      assert_int_equal(info.offset % 64, 0);
      done(ctx, embed_file_table(ctx, f, at, &back));
      same_table(back, want, 0);
      embed_table_release(back);
      embed_table_release(want);
    }
    embed_file_release(f);
  }
  embed_table_release(t);
  embed_table_release(empty);
  embed_context_release(ctx);
  embed_pool_release(pool);
  remove_folder();
}

static void tensors_of_one_extent_stay_so(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3};
  unsigned char npy[256];
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  const size_t bytes = make_npy(npy, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 64, file_floats(values, 3), 12);
  embed_file *f = open_file(ctx, write_file("one.npy", npy, bytes), NULL);
  embed_table *t = NULL;
  done(ctx, embed_file_table(ctx, f, 0, &t));
  embed_writer *w = new_writer(ctx, in_folder("a.npz"), NULL);
  done(ctx, embed_writer_table(ctx, w, "v", t, NULL));
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  embed_table_release(t);
  embed_file_release(f);
  f = open_file(ctx, in_folder("a.npz"), NULL);
  embed_tensor_info info = {.size = sizeof info};
  done(ctx, embed_file_tensor(ctx, f, 0, &info));
  assert_int_equal(info.rank, 1);
  assert_int_equal(info.shape[0], 3);
  embed_file_release(f);
  unlink(path_of("one.npy"));
  embed_context_release(ctx);
  remove_folder();
}

static void what_npz_cannot_hold_is_refused(void **state) {
  (void)state;
  static char name[65533];
  embed_context *ctx = new_context(NULL);
  fresh_folder();
  memset(name, 'n', sizeof name - 1);
  embed_table *bf16 = some_table(ctx, 4, 32, EMBED_BF16, 0, 1);
  embed_table_options f32 = {.size = sizeof f32};
  embed_writer *w = new_writer(ctx, in_folder("a.npz"), NULL);
  assert_int_equal(embed_writer_table(ctx, w, "t", bf16, NULL), EMBED_E_UNSUPPORTED);
  assert_non_null(strstr(embed_error_text(ctx), "npz has no type for bf16"));
  assert_int_equal(embed_writer_table(ctx, w, "\xC3", bf16, &f32), EMBED_E_ARGUMENT);
  assert_int_equal(embed_writer_table(ctx, w, name, bf16, &f32), EMBED_E_ARGUMENT); /* with .npy more than 65535 bytes */
  assert_int_equal(embed_writer_metadata(ctx, w, "k", "v", 1), EMBED_E_UNSUPPORTED);
  assert_int_equal(embed_writer_token(ctx, w, 0, "a", 1), EMBED_E_UNSUPPORTED);
  done(ctx, embed_writer_table(ctx, w, name + 1, bf16, &f32));
  assert_int_equal(embed_writer_alias(ctx, w, "head", name + 1), EMBED_E_UNSUPPORTED);
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
  embed_file_release(open_file(ctx, in_folder("a.npz"), NULL));
  embed_table_release(bf16);
  embed_context_release(ctx);
  remove_folder();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_archive_has_the_bytes_that_zip_asks_for),
    cmocka_unit_test(arrays_come_back_by_their_names),
    cmocka_unit_test(tensors_of_one_extent_stay_so),
    cmocka_unit_test(what_npz_cannot_hold_is_refused),
};
TEST_MAIN(tests)
