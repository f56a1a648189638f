/* SPDX-License-Identifier: BSD-3-Clause */
/* A prepared head kept in a file: mapped back it gives the bits of one that is made. */
#include "writing.h"

#include <stdlib.h>

enum { ROWS = 37, DIM = 256, N = 20 };

static float rows[ROWS * DIM], hidden[N * DIM];

static embed_table *table_of(embed_context *ctx, embed_dtype dtype) {
  uint32_t state = 1;
  for (int i = 0; i < ROWS * DIM; ++i) rows[i] = (float)((int32_t)(state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f;
  for (int i = 0; i < N * DIM; ++i) hidden[i] = (float)((int32_t)(state = state * 1664525u + 1013904223u) >> 8) * 0x1p-22f;
  embed_table *floats = NULL, *t = NULL;
  embed_table_options o = {.size = sizeof o, .dtype = dtype};
  done(ctx, embed_table_view(ctx, rows, ROWS, DIM, NULL, NULL, NULL, &floats));
  done(ctx, embed_table_convert(ctx, floats, &o, &t));
  embed_table_release(floats);
  return t;
}

static const embed_head_options prepare = {.size = sizeof prepare, .flags = EMBED_HEAD_PREPARE};

static void write_all(embed_context *ctx, const char *path, const embed_table *t, const embed_head *h) {
  embed_writer *w = NULL;
  done(ctx, embed_writer_create(ctx, path, NULL, &w));
  done(ctx, embed_writer_table(ctx, w, "token_embd.weight", t, NULL));
  if (h) done(ctx, embed_writer_head(ctx, w, h));
  done(ctx, embed_writer_commit(ctx, w));
  embed_writer_release(w);
}

static void same_logits(embed_context *ctx, const embed_head *a, const embed_head *b) {
  static const int64_t counts[] = {1, 4, N};
  static float of_a[N * ROWS], of_b[N * ROWS];
  for (int i = 0; i < 3; ++i) {
    done(ctx, embed_logits(ctx, a, hidden, EMBED_F32, counts[i], 0, of_a, 0, NULL));
    done(ctx, embed_logits(ctx, b, hidden, EMBED_F32, counts[i], 0, of_b, 0, NULL));
    assert_memory_equal(of_a, of_b, (size_t)(counts[i] * ROWS) * sizeof(float));
  }
}

/* What a head of the file takes from the allocator. */
static int64_t bytes_taken(embed_context *ctx, counting *c, const embed_file *f, const embed_table *t, embed_head **h) {
  int64_t before = c->bytes;
  done(ctx, embed_file_head(ctx, f, t, &prepare, h));
  return c->bytes - before;
}

static void a_saved_form_is_taken_from_the_file(void **state) {
  (void)state;
  static const embed_dtype dtypes[] = {EMBED_F32, EMBED_F16, EMBED_BF16, EMBED_I8_ROW, EMBED_I4_GROUP, EMBED_Q8_0, EMBED_Q4_0, EMBED_Q4_K, EMBED_Q6_K};
  if (TEST_BIG_ENDIAN) skip(); /* such files are written by little-endian machines */
  fresh_folder();
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
    counting c = {0};
    embed_context *ctx = counting_context(&c);
    embed_table *t = table_of(ctx, dtypes[d]), *of_file = NULL;
    embed_head *made = NULL, *own = NULL, *shared = NULL;
    embed_head_info info = {.size = sizeof info};
    const char *path = in_folder("h.embed");
    done(ctx, embed_head_create(ctx, t, NULL, &prepare, &made));
    done(ctx, embed_head_describe(ctx, made, &info));
    write_all(ctx, path, t, made);
    embed_file *f = open_file(ctx, path, &(embed_file_options){.size = sizeof(embed_file_options), .flags = EMBED_FILE_CHECK});
    done(ctx, embed_file_table(ctx, f, -1, &of_file));
    assert_true(bytes_taken(ctx, &c, f, NULL, &own) < info.extra_bytes);
    assert_true(bytes_taken(ctx, &c, f, of_file, &shared) < info.extra_bytes);
    assert_true(embed_head_is_tied(shared, of_file));
    embed_head_info again = {.size = sizeof again};
    done(ctx, embed_head_describe(ctx, own, &again));
    assert_int_equal(again.extra_bytes, info.extra_bytes);
    same_logits(ctx, made, own);
    embed_file_release(f); /* the heads hold it */
    embed_table_changed(of_file);
    assert_int_equal(embed_logits(ctx, shared, hidden, EMBED_F32, 1, 0, rows, 0, NULL), EMBED_E_STALE);
    done(ctx, embed_head_refresh(ctx, shared)); /* into memory of its own */
    embed_table_release(of_file);
    same_logits(ctx, made, shared);
    embed_head_release(own);
    embed_head_release(shared);
    embed_head_release(made);
    embed_table_release(t);
    embed_context_release(ctx);
    assert_int_equal(c.blocks, 0);
  }
  remove_folder();
}

/* Another table, of as many rows and columns, is not the one whose rows were saved. */
static void another_table_is_prepared_anew(void **state) {
  (void)state;
  if (TEST_BIG_ENDIAN) skip();
  fresh_folder();
  embed_context *ctx = new_context(NULL);
  embed_table *t = table_of(ctx, EMBED_F32), *other = NULL;
  embed_head *made = NULL, *h = NULL, *want = NULL;
  done(ctx, embed_head_create(ctx, t, NULL, &prepare, &made));
  write_all(ctx, in_folder("h.embed"), t, made);
  embed_file *f = open_file(ctx, in_folder("h.embed"), NULL);
  done(ctx, embed_table_create(ctx, ROWS, DIM, NULL, &other));
  done(ctx, embed_table_init(ctx, other, &(embed_init_options){.size = sizeof(embed_init_options), .kind = EMBED_INIT_NORMAL}));
  done(ctx, embed_file_head(ctx, f, other, &prepare, &h));
  done(ctx, embed_head_create(ctx, other, NULL, &prepare, &want));
  same_logits(ctx, want, h);
  embed_head_release(want);
  embed_head_release(h);
  embed_head_release(made);
  embed_table_release(other);
  embed_table_release(t);
  embed_file_release(f);
  embed_context_release(ctx);
  remove_folder();
}

static unsigned char *find_form(unsigned char *bytes, size_t count) {
  static const unsigned char begins[] = {1, 0, 0, 0, 0, 0, 0, 0, ROWS, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}; /* version, form f32, rows, columns */
  for (size_t at = 0; at + sizeof begins <= count; at += 64)
    if (!memcmp(bytes + at, begins, sizeof begins)) return bytes + at;
  return NULL;
}

static void a_form_of_another_version_or_shape_is_passed_over(void **state) {
  (void)state;
  static unsigned char bytes[1 << 20];
  if (TEST_BIG_ENDIAN) skip();
  fresh_folder();
  counting c = {0};
  embed_context *ctx = counting_context(&c);
  embed_table *t = table_of(ctx, EMBED_F32);
  embed_head *made = NULL;
  embed_head_info info = {.size = sizeof info};
  done(ctx, embed_head_create(ctx, t, NULL, &prepare, &made));
  done(ctx, embed_head_describe(ctx, made, &info));
  write_all(ctx, in_folder("h.embed"), t, made);
  FILE *in = fopen(in_folder("h.embed"), "rb");
  assert_non_null(in);
  size_t count = fread(bytes, 1, sizeof bytes, in);
  fclose(in);
  unsigned char *form = find_form(bytes, count);
  assert_non_null(form);
  for (int at = 0; at < 64; ++at) {
    form[at] ^= 1;
    FILE *out = fopen(in_folder("x.embed"), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, count, out), count);
    assert_int_equal(fclose(out), 0);
    form[at] ^= 1;
    embed_file *f = open_file(ctx, in_folder("x.embed"), NULL);
    embed_head *h = NULL;
    assert_true(bytes_taken(ctx, &c, f, NULL, &h) >= info.extra_bytes);
    same_logits(ctx, made, h);
    embed_head_release(h);
    embed_file_release(f);
  }
  embed_head_release(made);
  embed_table_release(t);
  embed_context_release(ctx);
  remove_folder();
}

static void what_cannot_be_kept_is_refused(void **state) {
  (void)state;
  if (TEST_BIG_ENDIAN) skip();
  fresh_folder();
  embed_context *ctx = new_context(NULL);
  embed_table *t = table_of(ctx, EMBED_F32);
  embed_head *plain = NULL, *made = NULL;
  embed_writer *w = NULL, *npy = NULL;
  done(ctx, embed_head_create(ctx, t, NULL, NULL, &plain));
  done(ctx, embed_head_create(ctx, t, NULL, &prepare, &made));
  done(ctx, embed_writer_create(ctx, in_folder("h.embed"), NULL, &w));
  assert_int_equal(embed_writer_head(ctx, w, made), EMBED_E_NOT_FOUND);
  embed_table_options as = {.size = sizeof as, .dtype = EMBED_BF16};
  done(ctx, embed_writer_table(ctx, w, "narrow", t, &as));
  assert_int_equal(embed_writer_head(ctx, w, made), EMBED_E_NOT_FOUND); /* not as it is stored */
  done(ctx, embed_writer_table(ctx, w, "t", t, NULL));
  assert_int_equal(embed_writer_head(ctx, w, plain), EMBED_E_ARGUMENT);
  done(ctx, embed_writer_head(ctx, w, made));
  assert_int_equal(embed_writer_head(ctx, w, made), EMBED_E_ARGUMENT);
  embed_table_changed(t);
  assert_int_equal(embed_writer_head(ctx, w, made), EMBED_E_STALE);
  assert_int_equal(embed_writer_commit(ctx, w), EMBED_E_STALE);
  assert_int_equal(names_in_folder(), 0);
  done(ctx, embed_head_refresh(ctx, made));
  done(ctx, embed_writer_commit(ctx, w));
  assert_int_equal(embed_writer_head(ctx, w, made), EMBED_E_ARGUMENT);
  done(ctx, embed_writer_create(ctx, in_folder("h.npy"), NULL, &npy));
  done(ctx, embed_writer_table(ctx, npy, "t", t, NULL));
  assert_int_equal(embed_writer_head(ctx, npy, made), EMBED_E_UNSUPPORTED);
  embed_writer_release(npy);
  embed_writer_release(w);
  embed_head_release(made);
  embed_head_release(plain);
  embed_table_release(t);
  embed_context_release(ctx);
  remove_folder();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_saved_form_is_taken_from_the_file),
    cmocka_unit_test(another_table_is_prepared_anew),
    cmocka_unit_test(a_form_of_another_version_or_shape_is_passed_over),
    cmocka_unit_test(what_cannot_be_kept_is_refused),
};

TEST_MAIN(tests)
