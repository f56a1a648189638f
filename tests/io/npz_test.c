/* SPDX-License-Identifier: BSD-3-Clause */
/* numpy.savez and savez_compressed: arrays by name, stored or deflated, with the same bits. */
#include "files.h"
#include "zip_file.h"

#include <math.h>
#include <stdbool.h>

static const float values[12] = {0.0f, -0.0f, 1.5f, -2.25f, 3e38f, 1e-40f, 7.0f, 8.0f, 9.0f, 10.0f, 11.0f, 65504.0f};
static unsigned char array[1 << 16];

/* The bytes of a member that no zlib can read where the library was built without. */
static bool inflates(embed_context *ctx) {
  embed_file *f = NULL;
  const size_t bytes = make_npy(array, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (0,), }", 64, values, 0);
  zf_begin();
  zf_add_deflated("a.npy", array, bytes);
  zf_end(0);
  const embed_status status = embed_file_open(ctx, write_file("zlib", zf, zf_count), NULL, &f);
  unlink(path_of("zlib"));
  embed_file_release(f);
  if (status == EMBED_E_UNSUPPORTED) assert_non_null(strstr(embed_error_text(ctx), "no zlib"));
  return status == EMBED_OK;
}

#define NEEDS_ZLIB(ctx)           \
  do {                            \
    if (!inflates(ctx)) {         \
      embed_context_release(ctx); \
      skip();                     \
    }                             \
  } while (0)

static void add_array(const char *name, bool deflated, const char *dict, const void *data, size_t data_bytes) {
  const size_t bytes = make_npy(array, 1, dict, 64, data, data_bytes);
  if (deflated)
    zf_add_deflated(name, array, bytes);
  else
    zf_add(name, array, bytes);
}

static void same_table(embed_context *ctx, const embed_file *f, const char *name, const float *want, int64_t rows, int64_t dim) {
  int64_t i = -1;
  embed_table *t = NULL;
  float got[12];
  assert_int_equal(embed_file_find(ctx, f, name, &i), EMBED_OK);
  if (embed_file_table(ctx, f, i, &t) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  assert_int_equal(embed_table_rows(t), rows);
  assert_int_equal(embed_table_dim(t), dim);
  assert_null(embed_table_mutable_data(t));
  read_rows(ctx, t, got);
  assert_same_bits(got, want, sizeof *got * (size_t)(rows * dim));
  embed_table_release(t);
}

static void every_order_and_type(bool deflated) {
  static float turned[12], swapped[12];
  embed_context *ctx = new_context(NULL);
  if (deflated) NEEDS_ZLIB(ctx);
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 4; ++c) turned[c * 3 + r] = values[r * 4 + c];
  for (int i = 0; i < 48; ++i) ((unsigned char *)swapped)[i / 4 * 4 + 3 - i % 4] = ((const unsigned char *)file_floats(values, 12))[i];
  zf_begin();
  add_array("plain.npy", deflated, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", file_floats(values, 12), 48);
  add_array("dir/fortran.npy", deflated, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", file_floats(turned, 12), 48);
  add_array("swapped.npy", deflated, "{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4), }", swapped, 48);
  add_array("one.npy", deflated, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", file_floats(values, 4), 16);
  add_array("none.npy", deflated, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4), }", values, 0);
  add_array("ids.npy", deflated, "{'descr': '<i8', 'fortran_order': False, 'shape': (6,), }", values, 48);
  add_array("words.npy", deflated, "{'descr': '|O', 'fortran_order': False, 'shape': (6,), }", "\x80\x04.", 3);
  add_array("fields.npy", deflated, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", values, 12);
  zf_add("readme.txt", "hello", 5);
  zf_end(0);
  embed_file *f = open_file(ctx, write_file("types", zf, zf_count), NULL);
  assert_int_equal(embed_file_count(f), 8);
  assert_non_null(strstr(embed_file_notes(f), "1 members of the archive are no npy arrays"));
  same_table(ctx, f, "plain", values, 3, 4);
  same_table(ctx, f, "dir/fortran", values, 3, 4);
  same_table(ctx, f, "swapped", values, 3, 4);
  same_table(ctx, f, "one", values, 1, 4);
  same_table(ctx, f, "none", values, 0, 4);
  for (int64_t i = 5; i < 8; ++i) {
    embed_table *t = NULL;
    embed_tensor_info info = {.size = sizeof info};
    assert_int_equal(embed_file_tensor(ctx, f, i, &info), EMBED_OK);
    assert_string_equal(info.stored, i == 5 ? "<i8" : i == 6 ? "|O" : "structures");
    assert_int_equal(info.offset, i > 5 || deflated ? -1 : (int64_t)(zf_members[i].data + 128));
    assert_int_equal(embed_file_table(ctx, f, i, &t), i == 5 ? EMBED_E_UNSUPPORTED : EMBED_E_MISMATCH);
    assert_null(t);
  }
  embed_file_release(f);
  unlink(path_of("types"));
  embed_context_release(ctx);
}

static void stored_arrays_open_in_every_order_and_type(void **state) {
  (void)state;
  every_order_and_type(false);
}

static void deflated_arrays_open_in_every_order_and_type(void **state) {
  (void)state;
  every_order_and_type(true);
}

static void a_deflated_head_is_compared_with_its_table(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  NEEDS_ZLIB(ctx);
  for (int differs = 0; differs < 2; ++differs) {
    int64_t head = -1;
    float other[12];
    memcpy(other, values, sizeof other);
    other[11] += (float)differs;
    zf_begin();
    add_array("wte.weight.npy", true, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", file_floats(values, 12), 48);
    add_array("lm_head.weight.npy", true, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", file_floats(other, 12), 48);
    zf_end(0);
    embed_file *f = open_file(ctx, write_file("tied", zf, zf_count), NULL);
    assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_HEAD, &head), EMBED_OK);
    assert_int_equal(head, differs);
    embed_file_release(f);
  }
  unlink(path_of("tied"));
  embed_context_release(ctx);
}

static void what_a_member_declares_is_what_its_array_has(void **state) {
  (void)state;
  static const char plain[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
  embed_context *ctx = new_context(NULL);
  zf_begin();
  add_array("a.npy", false, plain, file_floats(values, 12), 52);
  zf_end(0);
  refused(ctx, write_file("size", zf, zf_count), NULL, EMBED_E_FORMAT, (int64_t)zf_members[0].data, "the array ends at byte");
  zf_begin();
  add_array("a.npy", false, plain, file_floats(values, 12), 47);
  zf_end(0);
  refused(ctx, write_file("size", zf, zf_count), NULL, EMBED_E_FORMAT, (int64_t)zf_directory, "member \"a.npy\": data ends at byte");
  zf_begin();
  zf_add("a.npy", "rubbish", 7);
  zf_end(0);
  refused(ctx, write_file("size", zf, zf_count), NULL, EMBED_E_FORMAT, (int64_t)zf_members[0].data, "npy's magic bytes");
  zf_begin();
  zf_add("a.txt", "rubbish", 7);
  zf_end(0);
  embed_file_options o = {.size = sizeof o, .format = "npz"};
  refused(ctx, write_file("size", zf, zf_count), &o, EMBED_E_FORMAT, 0, "none of them an npy array");
  if (inflates(ctx)) {
    for (int more = 0; more < 2; ++more) {
      zf_begin();
      add_array("a.npy", true, plain, file_floats(values, 12), more ? 52 : 47);
      zf_end(0);
      refused(ctx, write_file("size", zf, zf_count), NULL, EMBED_E_FORMAT, more ? (int64_t)zf_members[0].data : 175, more ? "the member at 180" : "cut short");
    }
  }
  unlink(path_of("size"));
  embed_context_release(ctx);
}

/* Bits of deflate, the lowest first; codes the other way round. */
static unsigned char bits[1 << 16];
static size_t bit_count;
static void put_bits(unsigned value, int width) {
  for (int i = 0; i < width; ++i, ++bit_count) bits[bit_count / 8] = (unsigned char)(bits[bit_count / 8] | (value >> i & 1) << bit_count % 8);
}
static void put_code(unsigned code, int width) {
  while (width-- > 0) put_bits(code >> width & 1, 1);
}

/* A literal zero, then runs of 258 of them: two bits short of 1032 to one. */
static size_t zeros(size_t runs) {
  memset(bits, 0, sizeof bits);
  bit_count = 0;
  put_bits(3, 3); /* the last block, fixed codes */
  put_code(0x30, 8);
  for (size_t i = 0; i < runs; ++i) {
    put_code(0xC5, 8);
    put_code(0, 5);
  }
  put_code(0, 7);
  return (bit_count + 7) / 8;
}

static void no_member_inflates_past_what_it_declares(void **state) {
  (void)state;
  enum { RUNS = 20000 };
  embed_context *ctx = new_context(NULL);
  NEEDS_ZLIB(ctx);
  counting c = {0};
  embed_context *counted = counting_context(&c);
  const int64_t before = c.bytes;
  const size_t bytes = zeros(RUNS), whole = 1 + 258 * (size_t)RUNS;
  embed_file *f = NULL;
  const size_t declared[] = {200, whole - 1, whole + 1, bytes * 1032, bytes * 1032 + 1};
  const char *says[] = {"magic", "gives more bytes than it declares", "ends too early", "ends too early", "more bytes than its deflated data can give"};
  for (int i = 0; i < 5; ++i) {
    zf_begin();
    zf_raw("a.npy", ZF_DEFLATED, 0, 0, bits, bytes, declared[i], 0);
    zf_end(0);
    assert_int_equal(embed_file_open(counted, write_file("bomb", zf, zf_count), NULL, &f), EMBED_E_FORMAT);
    if (!strstr(embed_error_text(counted), says[i])) fail_msg("%d: %s", i, embed_error_text(counted));
  }
  embed_context_trim(counted);
  assert_int_equal(c.bytes, before);
  /* One that is right up to its end, and gives more, less, another sum. */
  const size_t array_bytes = make_npy(array, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 64, file_floats(values, 12), 48);
  for (int how = 0; how < 4; ++how) {
    static const char *const wrong[] = {"gives more bytes than it declares", "ends too early", "the archive says", "before the member does"};
    zf_begin();
    zf_add_deflated("a.npy", array, array_bytes + (how == 0));
    unsigned char copy[512];
    const size_t stored = zf_members[0].stored;
    memcpy(copy, zf + zf_members[0].data, stored + 1);
    if (how == 1) copy[0] = 1, copy[1] = (unsigned char)(array_bytes - 1), copy[3] = (unsigned char)~(array_bytes - 1);
    zf_begin();
    zf_raw("a.npy", ZF_DEFLATED, 0, 0, copy, stored + (how == 3), array_bytes, zf_sum(array, array_bytes) + (how == 2));
    zf_end(0);
    assert_int_equal(embed_file_open(ctx, write_file("bomb", zf, zf_count), NULL, &f), EMBED_E_FORMAT);
    if (!strstr(embed_error_text(ctx), wrong[how])) fail_msg("%d: %s", how, embed_error_text(ctx));
  }
  unlink(path_of("bomb"));
  embed_context_release(counted);
  embed_context_release(ctx);
}

static void archives_are_recognised_by_a_later_member(void **state) {
  (void)state;
  static const char dict[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
  embed_context *ctx = new_context(NULL);
  for (int wide = 0; wide < 2; ++wide) {
    zf_begin();
    zf_add("about.txt", "x", 1);
    add_array("a.npy", false, dict, file_floats(values, 12), 48);
    zf_end(wide);
    embed_file *f = open_file(ctx, write_file("later", zf, zf_count), NULL);
    assert_string_equal(embed_file_format(f), "npz");
    same_table(ctx, f, "a", values, 3, 4);
    embed_file_release(f);
    if (!wide) continue;
    zf_put(zf_count - ZF_END - 20 + 8, UINT64_MAX, 8); /* the place of the 64-bit end */
    refused(ctx, write_file("later", zf, zf_count), NULL, EMBED_E_FORMAT, 0, "zip archive");
    zf_put(zf_count - ZF_END - 20 + 8, zf_count - ZF_END - 20 - 56, 8);
    zf_put(zf_count - ZF_END - 20 - 8, UINT64_MAX, 8); /* the place of the directory */
    refused(ctx, write_file("later", zf, zf_count), NULL, EMBED_E_FORMAT, 0, "zip archive");
  }
  unlink(path_of("later"));
  embed_context_release(ctx);
}

/* A header that a thousand times as many bytes should follow, and rubbish behind it: no memory is asked for before they are known to be there. */
static void no_memory_is_asked_for_by_what_a_member_declares(void **state) {
  (void)state;
  enum { STORED = 8192, WHOLE = 128 + 4 * 2000000 };
  embed_context *ctx = new_context(NULL);
  NEEDS_ZLIB(ctx);
  counting c = {0};
  embed_context *counted = counting_context(&c);
  for (int turned = 0; turned < 2; ++turned) {
    embed_file *f = NULL;
    const char *dict =
        turned ? "{'descr': '<f4', 'fortran_order': True, 'shape': (1000, 2000), }" : "{'descr': '<f4', 'fortran_order': False, 'shape': (2000000,), }";
    const size_t head = make_npy(array, 1, dict, 64, values, 0);
    assert_int_equal(head, 128);
    memset(bits, 0, STORED);
    static const unsigned sizes[] = {128, 8000}; /* of two stored blocks: the header, zeros */
    for (size_t i = 0, at = 0; i < 2; at += 5 + sizes[i++]) {
      for (unsigned k = 0; k < 2; ++k) bits[at + 1 + k] = (unsigned char)(sizes[i] >> 8 * k), bits[at + 3 + k] = (unsigned char)~(sizes[i] >> 8 * k);
      if (i == 0) memcpy(bits + 5, array, 128);
    }
    bits[5 + 128 + 5 + 8000] = 7; /* a block of a kind that there is not */
    zf_begin();
    zf_raw("a.npy", ZF_DEFLATED, 0, 0, bits, STORED, WHOLE, 0);
    zf_end(0);
    c.peak = c.bytes;
    const int64_t before = c.bytes;
    assert_int_equal(embed_file_open(counted, write_file("liar", zf, zf_count), NULL, &f), EMBED_E_FORMAT);
    assert_non_null(strstr(embed_error_text(counted), "deflated data is wrong"));
    assert_in_range(c.peak - before, 0, 1 << 20);
  }
  unlink(path_of("liar"));
  embed_context_release(counted);
  embed_context_release(ctx);
}

/* Allocations of a GiB and more fail; asked: of the largest. */
static void *modest_allocate(void *arg, size_t bytes, size_t alignment) {
  uint64_t *asked = arg;
  if (bytes > *asked) *asked = bytes;
  return bytes >> 30 ? NULL : aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
static void modest_release(void *arg, void *memory, size_t bytes, size_t alignment) {
  (void)arg, (void)bytes, (void)alignment;
  free(memory);
}

/* 4 GiB and 64 bytes, to be put into order, from a sparse file that may well hold them: with pointers of 32 bits no 64 bytes are asked for. */
static void an_array_past_4_gib_is_never_cut_to_what_is_above_them(void **state) {
  (void)state;
  enum { BLOCK = 60000, SMALL = 2 * 5 + 128 + BLOCK };
  const uint64_t array_bytes = ((uint64_t)1 << 32) + 64, whole = 128 + array_bytes, stored = whole / 16 + 1, hole = stored - SMALL;
  embed_context *ctx = new_context(NULL);
  NEEDS_ZLIB(ctx);
  embed_context_release(ctx);
  assert_int_equal(make_npy(array, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 536870920), }", 64, values, 0), 128);
  memset(bits, 0, SMALL);
  for (unsigned k = 0; k < 2; ++k) {
    bits[1 + k] = (unsigned char)(128 >> 8 * k), bits[3 + k] = (unsigned char)~(128 >> 8 * k);
    bits[5 + 128 + 1 + k] = (unsigned char)(BLOCK >> 8 * k), bits[5 + 128 + 3 + k] = (unsigned char)~(BLOCK >> 8 * k);
  }
  memcpy(bits + 5, array, 128);
  zf_begin();
  zf_raw("a.npy", ZF_DEFLATED, 8, 0, bits, SMALL, SMALL, 0);
  zf_end(1);
  const size_t wide = zf_members[0].entry + ZF_ENTRY + strlen("a.npy") + 4, locator = zf_count - ZF_END - 20, end = locator - 56;
  const size_t data_end = zf_members[0].data + SMALL;
  zf_put(wide, whole, 8);
  zf_put(wide + 8, stored, 8);
  zf_put(end + 48, zf_directory + hole, 8);
  zf_put(locator + 8, end + hole, 8);
  const char *path = write_file("large", zf, data_end);
  const int descriptor = open(path, O_WRONLY | O_CLOEXEC);
  assert_true(descriptor >= 0);
  assert_true(lseek(descriptor, (off_t)(data_end + hole), SEEK_SET) > 0);
  assert_int_equal(write(descriptor, zf + data_end, zf_count - data_end), (ssize_t)(zf_count - data_end));
  assert_int_equal(close(descriptor), 0);
  uint64_t asked = 0;
  embed_allocator a = {.size = sizeof a, .arg = &asked, .allocate = modest_allocate, .release = modest_release};
  embed_context_options o = {.size = sizeof o, .allocator = &a};
  embed_file *f = NULL;
  assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
  const embed_status status = embed_file_open(ctx, path, NULL, &f);
  if (status != EMBED_E_MEMORY) fail_msg("%s: %s", embed_status_name(status), embed_error_text(ctx));
  assert_true(sizeof(void *) == 4 ? asked < (1 << 20) : asked == array_bytes);
  unlink(path);
  embed_context_release(ctx);
}

static void no_single_wrong_byte_harms(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  zf_begin();
  const size_t bytes = make_npy(array, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", 1, file_floats(values, 4), 16);
  zf_add("a.npy", array, bytes);
  zf_end(0);
  survives_mutations(ctx, "mutant", zf, zf_count);
  if (inflates(ctx)) {
    (void)make_npy(array, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", 1, file_floats(values, 4), 16);
    zf_begin();
    zf_add_deflated("a.npy", array, bytes);
    zf_end(0);
    survives_mutations(ctx, "mutant", zf, zf_count);
  }
  embed_context_release(ctx);
}

static void every_failed_allocation_is_an_error_and_nothing_else(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  const bool deflated = inflates(ctx);
  embed_context_release(ctx);
  zf_begin();
  add_array("wte.weight.npy", false, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", file_floats(values, 12), 48);
  add_array("b.npy", deflated, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", file_floats(values, 12), 48);
  add_array("c.npy", deflated, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", file_floats(values, 12), 48);
  for (int i = 0; i < 2; ++i) zf_members[3 + i] = zf_members[i];
  zf_members[0] = zf_members[4], zf_members[1] = zf_members[3]; /* so that they are sorted */
  zf_end(0);
  const char *path = write_file("memory", zf, zf_count);
  survives_failures(path, NULL);
  unlink(path_of("memory"));
}

/* --- Real files */

static embed_table *table_named(embed_context *ctx, const embed_file *f, const char *name) {
  int64_t i = -1;
  embed_table *t = NULL;
  assert_int_equal(embed_file_find(ctx, f, name, &i), EMBED_OK);
  assert_int_equal(embed_file_table(ctx, f, i, &t), EMBED_OK);
  return t;
}

static void lbl_gives_its_mean_losses(void **state) {
  (void)state;
  static const struct {
    const char *file, *head;
    double loss;
  } models[] = {{"tied", "E", 5.140299212}, {"untied", "O", 4.759696158}};
  enum { V = 8192, D = 64, CONTEXT = 4, TOKENS = 4096, LIMIT = 256 };
  const char *data = test_shared(TEST_SOURCE_DIR);
  if (!data) skip();
  embed_context *ctx = new_context(NULL);
  for (int m = 0; m < 2; ++m) {
    static float c[CONTEXT * D], b[V], h[D], logits[V], rows[CONTEXT * D];
    char path[4200];
    snprintf(path, sizeof path, "%s/lbl/%s.npz", data, models[m].file);
    embed_file *f = open_file(ctx, path, &(embed_file_options){.size = sizeof(embed_file_options), .flags = EMBED_FILE_CHECK});
    embed_table *e = table_named(ctx, f, "E"), *o = table_named(ctx, f, models[m].head), *weights = table_named(ctx, f, "C"), *bias = table_named(ctx, f, "b");
    embed_tensor_info info = {.size = sizeof info};
    int64_t test = -1;
    read_rows(ctx, weights, c);
    read_rows(ctx, bias, b);
    assert_int_equal(embed_file_find(ctx, f, "test", &test), EMBED_OK);
    assert_int_equal(embed_file_tensor(ctx, f, test, &info), EMBED_OK);
    static int32_t ids[TOKENS];
    FILE *in = fopen(path, "rb");
    assert_true(in && fseek(in, (long)info.offset, SEEK_SET) == 0 && fread(ids, sizeof *ids, TOKENS, in) == TOKENS);
    fclose(in);
    test_file_order(ids, TOKENS);
    embed_head *head = NULL;
    if (embed_head_create(ctx, o, b, NULL, &head) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
    double loss = 0;
    for (int t = CONTEXT; t < TOKENS; ++t) { /* C[j] weighs the token j + 1 places back */
      assert_int_equal(embed_lookup(ctx, e, ids + t - CONTEXT, CONTEXT, rows, EMBED_F32, 0, NULL), EMBED_OK);
      for (int i = 0; i < D; ++i) {
        double sum = 0;
        for (int j = 0; j < CONTEXT; ++j) sum += (double)c[j * D + i] * (double)rows[(CONTEXT - 1 - j) * D + i];
        h[i] = (float)sum;
      }
      assert_int_equal(embed_logits(ctx, head, h, EMBED_F32, 1, 0, logits, 0, NULL), EMBED_OK);
      double most = logits[0], sum = 0;
      for (int i = 1; i < V; ++i) most = (double)logits[i] > most ? (double)logits[i] : most;
      for (int i = 0; i < V; ++i) sum += exp((double)logits[i] - most);
      loss += most + log(sum) - (double)logits[ids[t]];
    }
    loss /= TOKENS - CONTEXT;
    if (fabs(loss - models[m].loss) > 2e-6) fail_msg("%s: %.9f, wanted %.9f", models[m].file, loss, models[m].loss);
    embed_head_release(head);
    embed_table_release(e);
    embed_table_release(o);
    embed_table_release(weights);
    embed_table_release(bias);
    embed_file_release(f);
  }
  embed_context_release(ctx);
}

static void g2p_names_the_ids_that_were_never_used(void **state) {
  (void)state;
  enum { ROWS = 74, DIM = 256 };
  static const int ids[4] = {65, 0, 2, 1};
  static const double distances[5] = {1.4175, 1.437, 1.4533, 1.477, 2.9672};
  static float rows[ROWS * DIM];
  const char *data = test_shared(TEST_SOURCE_DIR);
  if (!data) skip();
  embed_context *ctx = new_context(NULL);
  char path[4200];
  snprintf(path, sizeof path, "%s/g2p/checkpoint20.npz", data);
  embed_file *f = open_file(ctx, path, NULL);
  assert_int_equal(embed_file_count(f), 12);
  embed_table *head = table_named(ctx, f, "fc_w");
  assert_int_equal(embed_table_rows(head), ROWS);
  assert_int_equal(embed_table_dim(head), DIM);
  read_rows(ctx, head, rows);
  double centroid[DIM] = {0}, distance[ROWS];
  for (int i = 0; i < ROWS * DIM; ++i) centroid[i % DIM] += (double)rows[i] / ROWS;
  for (int r = 0; r < ROWS; ++r) {
    double sum = 0;
    for (int i = 0; i < DIM; ++i) sum += ((double)rows[r * DIM + i] - centroid[i]) * ((double)rows[r * DIM + i] - centroid[i]);
    distance[r] = sqrt(sum);
  }
  for (int k = 0; k < 5; ++k) { /* the nearest to the centroid, and again without it */
    int nearest = 0;
    for (int r = 1; r < ROWS; ++r)
      if (distance[r] < distance[nearest]) nearest = r;
    if (k < 4) assert_int_equal(nearest, ids[k]);
    assert_true(fabs(distance[nearest] - distances[k]) < 1e-4);
    distance[nearest] = 1e9;
  }
  embed_table_release(head);
  embed_file_release(f);
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(stored_arrays_open_in_every_order_and_type),
    cmocka_unit_test(deflated_arrays_open_in_every_order_and_type),
    cmocka_unit_test(a_deflated_head_is_compared_with_its_table),
    cmocka_unit_test(what_a_member_declares_is_what_its_array_has),
    cmocka_unit_test(no_member_inflates_past_what_it_declares),
    cmocka_unit_test(archives_are_recognised_by_a_later_member),
    cmocka_unit_test(no_memory_is_asked_for_by_what_a_member_declares),
    cmocka_unit_test(an_array_past_4_gib_is_never_cut_to_what_is_above_them),
    cmocka_unit_test(no_single_wrong_byte_harms),
    cmocka_unit_test(every_failed_allocation_is_an_error_and_nothing_else),
    cmocka_unit_test(lbl_gives_its_mean_losses),
    cmocka_unit_test(g2p_names_the_ids_that_were_never_used),
};
TEST_MAIN(tests)
