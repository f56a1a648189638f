/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening anything at all, the life of handles, and the two ends of a file. */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

static const char plain[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
static const char other[] = "{'descr': '>f4', 'fortran_order': True, 'shape': (3, 4), }"; /* converted into a table of its own */
static const float values[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static const char *npy(const char *name, const char *dict) {
  static unsigned char file[8192];
  return write_file(name, file, make_npy(file, 1, dict, 64, file_floats(values, sizeof values / sizeof *values), sizeof values));
}

static const char *word2vec(const char *name) {
  static unsigned char file[256];
  size_t count = (size_t)sprintf((char *)file, "2 2\n");
  for (int r = 0; r < 2; ++r) {
    memcpy(file + count, r ? "b " : "a ", 2);
    memcpy(file + count + 2, "\0\0\x80\x3f\0\0\0\x40", 8); /* 1, 2 */
    count += 10;
  }
  return write_file(name, file, count);
}

static int descriptors(void) {
  DIR *all = opendir("/proc/self/fd");
  int count = 0;
  if (!all) return -1;
  while (readdir(all)) ++count;
  closedir(all);
  return count;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* IO-01 */
static void special_files_fail_fast_and_leak_nothing(void **state) {
  (void)state;
  struct {
    const char *name, *says;
    embed_status status;
    int64_t at;
    char path[4096];
  } cases[] = {{"dir", "directory", EMBED_E_IO, -1, ""},           {"fifo", "FIFO", EMBED_E_IO, -1, ""},
               {"/dev/null", "device", EMBED_E_IO, -1, ""},        {"/dev/zero", "device", EMBED_E_IO, -1, ""},
               {"dangling", strerror(ENOENT), EMBED_E_IO, -1, ""}, {"missing", strerror(ENOENT), EMBED_E_IO, -1, ""},
               {"empty", "empty", EMBED_E_FORMAT, 0, ""},          {"dir/below", strerror(ENOENT), EMBED_E_IO, -1, ""},
               {"loop", strerror(ELOOP), EMBED_E_IO, -1, ""},      {"unreadable", strerror(EACCES), EMBED_E_IO, -1, ""}};
  enum { CASES = sizeof cases / sizeof *cases, REPEATS = 1000 };
  embed_context *ctx = new_context(NULL);
  for (int i = 0; i < CASES; ++i) {
    const char *path = cases[i].name[0] == '/' ? cases[i].name : path_of(cases[i].name);
    strcpy(cases[i].path, path);
  }
  assert_int_equal(mkdir(cases[0].path, 0700), 0);
  assert_int_equal(mkfifo(cases[1].path, 0600), 0);
  assert_int_equal(symlink("nowhere", cases[4].path), 0);
  (void)write_file("empty", "", 0);
  assert_int_equal(symlink(cases[8].path, cases[8].path), 0);
  (void)npy("unreadable", plain);
  assert_int_equal(chmod(cases[9].path, 0), 0);
  int before = descriptors();
  for (int i = 0; i < CASES; ++i) {
    if (i == 9 && access(cases[9].path, R_OK) == 0) continue; /* root reads everything */
    double start = seconds();
    for (int k = 0; k < REPEATS; ++k) refused(ctx, cases[i].path, NULL, cases[i].status, cases[i].at, cases[i].says);
    assert_true(seconds() - start < 10.0);
  }
  const char *good = npy("good", plain);
  for (int k = 0; k < REPEATS; ++k) embed_file_release(open_file(ctx, good, NULL));
  assert_int_equal(descriptors(), before);
  for (int i = 0; i < CASES; ++i)
    if (cases[i].name[0] != '/' && i != 5 && i != 7) assert_int_equal(i ? unlink(cases[i].path) : rmdir(cases[i].path), 0);
  unlink(path_of("good"));
  embed_context_release(ctx);
}

/* As transformers and Model2Vec save them. */
static void a_folder_is_opened_by_its_model(void **state) {
  static const char header[] = "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}";
  static const char config[] = "{\"model_type\":\"llama\"}";
  static const char index[] = "{\"weight_map\":{\"model.embed_tokens.weight\":\"one.safetensors\"}}";
  unsigned char bytes[8 + sizeof header - 1 + 24] = {sizeof header - 1};
  embed_context *ctx = new_context(NULL);
  char folder[4096], slash[4097];
  (void)state;
  strcpy(folder, path_of("model"));
  snprintf(slash, sizeof slash, "%s/", folder);
  memcpy(bytes + 8, header, sizeof header - 1);
  assert_int_equal(mkdir(folder, 0700), 0);
  refused(ctx, folder, NULL, EMBED_E_IO, -1, "no model.safetensors, pytorch_model.bin or index of either is in it");
  (void)write_file("model/config.json", config, sizeof config - 1);
  (void)write_file("model/one.safetensors", bytes, sizeof bytes); /* not by this name alone */
  refused(ctx, folder, NULL, EMBED_E_IO, -1, "no model.safetensors, pytorch_model.bin or index of either is in it");
  (void)write_file("model/model.safetensors.index.json", index, sizeof index - 1);
  for (int whole = 0; whole < 2; ++whole) { /* shards; then one file, which comes first */
    if (whole) (void)write_file("model/model.safetensors", bytes, sizeof bytes);
    for (int k = 0; k < 4; ++k) {
      const embed_file_options copied = {.size = sizeof copied, .flags = EMBED_FILE_COPY};
      embed_file *f = open_file(ctx, k % 2 ? slash : folder, k / 2 ? &copied : NULL);
      embed_table *t = NULL;
      assert_string_equal(embed_file_format(f), whole ? "safetensors" : "safetensors-index");
      assert_int_equal(embed_file_table(ctx, f, -1, &t), EMBED_OK);
      assert_int_equal(embed_table_vocab(t), 2);
      embed_table_release(t);
      embed_file_release(f);
    }
  }
  counting c = {.calls = 0};
  embed_context *few = counting_context(&c);
  const int64_t blocks = c.blocks;
  embed_status status = EMBED_E_MEMORY;
  for (int64_t k = 1; status != EMBED_OK; ++k) { /* the first is the path's */
    embed_file *f = NULL;
    c.calls = 0;
    c.fail_at = k;
    status = embed_file_open(few, folder, NULL, &f);
    if (status != EMBED_OK) assert_int_equal(status, EMBED_E_MEMORY);
    assert_true(k > 1 || status == EMBED_E_MEMORY);
    embed_file_release(f);
    assert_int_equal(c.blocks, blocks);
  }
  embed_context_release(few);
  (void)write_file("model/model.safetensors", "rubbish", 7);
  refused(ctx, folder, NULL, EMBED_E_FORMAT, 0, "model/model.safetensors");
  static const char *const names[] = {"model/model.safetensors", "model/model.safetensors.index.json", "model/one.safetensors", "model/config.json"};
  for (int i = 0; i < 4; ++i) assert_int_equal(unlink(path_of(names[i])), 0);
  assert_int_equal(rmdir(folder), 0);
  embed_context_release(ctx);
}

static void what_is_no_model_is_called_by_its_name(void **state) {
  (void)state;
  static const struct {
    const char *name, *bytes;
    size_t count;
    const char *says;
  } cases[] = {{"x", "\x1F\x8B\x08\x00rest", 8, "gzip"},
               {"x", "PK\x03\x04rest", 8, "zip archive"},
               {"x", "PK\x05\x06\0\0\0\0", 8, "zip archive"},
               {"x", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n", 56, "Git LFS pointer"},
               {"x", "<!DOCTYPE html>\n<p>404", 22, "HTML"},
               {"x", "\n  <Html lang=en>", 17, "HTML"},
               {"x", "\x80\x04\x95rest", 7, "Python pickle"},
               {"x", "\0", 1, "no format"},
               {"x", "<", 1, "no format"},
               {"x", " ", 1, "no format"},
               {"x.npy", "rubbish", 7, "its name says npy, by its first bytes it is not npy (formats tried: "},
               {"x.NPY", "rubbish", 7, "its name says npy"},
               {"x.bin", "rubbish", 7, "its name says word2vec"}};
  embed_context *ctx = new_context(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    refused(ctx, write_file(cases[i].name, cases[i].bytes, cases[i].count), NULL, EMBED_E_FORMAT, 0, cases[i].says);
    if (!strstr(embed_error_text(ctx), "npy, word2vec")) fail_msg("%s", embed_error_text(ctx));
    unlink(path_of(cases[i].name));
  }
  embed_context_release(ctx);
}

static void a_format_can_be_asked_for(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file *f = (embed_file *)(uintptr_t)8;
  embed_file_options o = {.size = sizeof o, .format = "npy"};
  embed_file_release(open_file(ctx, npy("asked", plain), &o));
  o.format = "word2vec";
  refused(ctx, path_of("asked"), &o, EMBED_E_FORMAT, 0, "rows dim");
  embed_file_release(open_file(ctx, word2vec("asked"), &o));
  o.format = "npy";
  refused(ctx, path_of("asked"), &o, EMBED_E_FORMAT, 0, "magic");
  static const char *const unknown[] = {"word", "", "NPY", "npy "};
  for (int i = 0; i < 4; ++i) {
    o.format = unknown[i];
    assert_int_equal(embed_file_open(ctx, path_of("asked"), &o, &f), EMBED_E_NOT_FOUND);
    assert_null(f);
    if (!strstr(embed_error_text(ctx), "npy, word2vec")) fail_msg("%s", embed_error_text(ctx));
  }
  unlink(path_of("asked"));
  embed_context_release(ctx);
}

static void expected_rows_are_held_against_the_file(void **state) {
  (void)state;
  static const char cube[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 2), }",
                    line[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (12,), }";
  counting c = {.calls = 0};
  embed_context *ctx = counting_context(&c);
  embed_file_options o = {.size = sizeof o, .vocab = 3, .dim = 99};
  embed_file_release(open_file(ctx, npy("rows", plain), &o));
  o.vocab = 4;
  refused(ctx, path_of("rows"), &o, EMBED_E_MISMATCH, -1, "4 rows are expected, the token table \"array\" has shape [3, 4]");
  refused(ctx, word2vec("rows"), &o, EMBED_E_MISMATCH, -1, "4 rows are expected, the token table \"vectors\" has shape [2, 2]");
  o.vocab = 2;
  embed_file_release(open_file(ctx, path_of("rows"), &o));
  o.vocab = 3;
  refused(ctx, npy("rows", cube), &o, EMBED_E_MISMATCH, -1, "shape [3, 2, 2]");
  o.vocab = 12;
  refused(ctx, npy("rows", line), &o, EMBED_E_MISMATCH, -1, "shape [12]");
  o.vocab = 1;
  embed_file_release(open_file(ctx, path_of("rows"), &o));
  unlink(path_of("rows"));
  embed_context_release(ctx);
  assert_int_equal(c.blocks, 0);
}

static void bad_options_are_refused_before_the_file_is_touched(void **state) {
  (void)state;
  struct {
    embed_file_options o;
    int64_t later;
  } newer = {.o = {.size = sizeof newer}};
  embed_file_options bad[] = {{.size = 4},
                              {.size = sizeof *bad, .flags = 8},
                              {.size = sizeof *bad, .max_header = -1},
                              {.size = sizeof *bad, .dim = -1},
                              {.size = sizeof *bad, .vocab = -1},
                              {.size = sizeof *bad, .reserved = bad}};
  embed_context *ctx = new_context(NULL);
  embed_file *f;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    f = (embed_file *)(uintptr_t)8;
    assert_int_equal(embed_file_open(ctx, "/nowhere", &bad[i], &f), EMBED_E_OPTION);
    assert_null(f);
  }
  const char *path = npy("options", plain);
  embed_file_release(open_file(ctx, path, &newer.o));
  newer.later = 1;
  assert_int_equal(embed_file_open(ctx, path, &newer.o, &f), EMBED_E_OPTION);
  embed_file_options old = {.size = 8, .vocab = 77}; /* its caller knows no vocab */
  embed_file_release(open_file(ctx, path, &old));
  unlink(path_of("options"));
  embed_context_release(ctx);
}

static void null_handles_are_errors_and_nothing_is_written(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_file(ctx, word2vec("null"), NULL), *none = (embed_file *)(uintptr_t)8;
  embed_table *t = (embed_table *)(uintptr_t)8;
  embed_head *h = (embed_head *)(uintptr_t)8;
  embed_tensor_info info = {.size = sizeof info, .rank = 42};
  embed_conventions c = {.size = sizeof c, .norm_flags = 42};
  const char *key = "k", *value = "v";
  int64_t i = 42, bytes = 42;
  assert_int_equal(embed_file_open(NULL, "x", NULL, &none), EMBED_E_ARGUMENT);
  assert_null(none);
  assert_int_equal(embed_file_open(ctx, NULL, NULL, &none), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_open(ctx, "x", NULL, NULL), EMBED_E_ARGUMENT);
  assert_null(embed_file_retain(NULL));
  embed_file_release(NULL);
  assert_null(embed_file_format(NULL));
  assert_null(embed_file_notes(NULL));
  assert_true(embed_file_count(NULL) < 0);
  assert_null(embed_file_token(NULL, 0, &bytes));
  assert_int_equal(bytes, 0);
  for (int k = 0; k < 2; ++k) { /* the context, then the file */
    embed_context *x = k ? ctx : NULL;
    const embed_file *y = k ? NULL : f;
    assert_int_equal(embed_file_tensor(x, y, 0, &info), EMBED_E_ARGUMENT);
    assert_int_equal(embed_file_find(x, y, "vectors", &i), EMBED_E_ARGUMENT);
    assert_int_equal(embed_file_role(x, y, EMBED_ROLE_TOKEN, &i), EMBED_E_ARGUMENT);
    assert_int_equal(embed_file_conventions(x, y, &c), EMBED_E_ARGUMENT);
    assert_int_equal(embed_file_token_id(x, y, "a", 1, &i), EMBED_E_ARGUMENT);
    assert_int_equal(embed_file_metadata(x, y, 0, &key, &value, &i), EMBED_E_ARGUMENT);
    assert_int_equal(embed_file_class_counts(x, y, EMBED_ROLE_TOKEN, &i, 1, &i), EMBED_E_ARGUMENT);
    t = (embed_table *)(uintptr_t)8;
    h = (embed_head *)(uintptr_t)8;
    assert_int_equal(embed_file_table(x, y, 0, &t), EMBED_E_ARGUMENT);
    assert_int_equal(embed_file_head(x, y, NULL, NULL, &h), EMBED_E_ARGUMENT);
    assert_null(t);
    assert_null(h);
  }
  assert_int_equal(embed_file_tensor(ctx, f, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_find(ctx, f, NULL, &i), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_find(ctx, f, "vectors", NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_TOKEN, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_NONE, &i), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_role(ctx, f, EMBED_ROLE_NGRAM + 1, &i), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_conventions(ctx, f, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_table(ctx, f, 0, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_head(ctx, f, NULL, NULL, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_token_id(ctx, f, NULL, 1, &i), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_token_id(ctx, f, "a", -1, &i), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_token_id(ctx, f, "a", 1, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_metadata(ctx, f, 0, NULL, &value, &i), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_metadata(ctx, f, 0, &key, NULL, &i), EMBED_E_ARGUMENT);
  assert_int_equal(embed_file_metadata(ctx, f, 0, &key, &value, NULL), EMBED_E_ARGUMENT);
  assert_true(i == 42 && info.rank == 42 && c.norm_flags == 42 && *key == 'k' && *value == 'v');
  embed_file_release(f);
  unlink(path_of("null"));
  embed_context_release(ctx);
}

static void names_numbers_and_metadata_that_are_not_there_are_not_found(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_file(ctx, npy("find", plain), NULL);
  embed_tensor_info info = {.size = sizeof info};
  const char *key = "k", *value = "v";
  int64_t i = 42;
  assert_int_equal(embed_file_find(ctx, f, "lm_head.weight", &i), EMBED_E_NOT_FOUND);
  assert_non_null(strstr(embed_error_text(ctx), "no tensor is named \"lm_head.weight\"; there are 1: array"));
  assert_int_equal(embed_file_metadata(ctx, f, 0, &key, &value, &i), EMBED_E_NOT_FOUND);
  assert_int_equal(embed_file_class_counts(ctx, f, EMBED_ROLE_TOKEN, &i, 1, &i), EMBED_E_NOT_FOUND);
  static const int64_t outside[] = {-2, 1, INT64_MAX, INT64_MIN};
  for (int k = 0; k < 4; ++k) {
    embed_table *t = (embed_table *)(uintptr_t)8;
    assert_int_equal(embed_file_tensor(ctx, f, outside[k], &info), EMBED_E_ARGUMENT);
    assert_int_equal(embed_file_table(ctx, f, outside[k], &t), EMBED_E_ARGUMENT);
    assert_null(t);
  }
  assert_int_equal(embed_file_tensor(ctx, f, -1, &info), EMBED_E_ARGUMENT);
  assert_int_equal(i, 42);
  assert_true(*key == 'k' && *value == 'v');
  embed_file_release(f);
  unlink(path_of("find"));
  embed_context_release(ctx);
}

static void outputs_fit_older_and_newer_structs(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  embed_file *f = open_file(ctx, npy("output", plain), NULL);
  union {
    embed_tensor_info info;
    unsigned char bytes[sizeof(embed_tensor_info) + 32];
  } out;
  memset(&out, 0xA5, sizeof out);
  out.info.size = 24;
  assert_int_equal(embed_file_tensor(ctx, f, 0, &out.info), EMBED_OK);
  assert_int_equal(out.info.size, 24);
  assert_string_equal(out.info.name, "array");
  assert_true(test_all_bytes(out.bytes + 24, sizeof out - 24, 0xA5));
  memset(&out, 0xA5, sizeof out);
  out.info.size = sizeof(embed_tensor_info) + 16;
  assert_int_equal(embed_file_tensor(ctx, f, 0, &out.info), EMBED_OK);
  assert_int_equal(out.info.rank, 2);
  assert_true(test_all_bytes(out.bytes + sizeof(embed_tensor_info), 16, 0));
  assert_true(test_all_bytes(out.bytes + sizeof(embed_tensor_info) + 16, 16, 0xA5));
  out.info.size = 7;
  assert_int_equal(embed_file_tensor(ctx, f, 0, &out.info), EMBED_E_OPTION);
  embed_conventions c;
  memset(&c, 0xA5, sizeof c);
  c.size = 12;
  assert_int_equal(embed_file_conventions(ctx, f, &c), EMBED_OK);
  assert_true(c.lookup_scale == 1.0f && test_all_bytes(&c.scale_round, sizeof c - 12, 0xA5));
  embed_file_release(f);
  unlink(path_of("output"));
  embed_context_release(ctx);
}

static void copied_and_populated_files_give_the_same_rows(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (uint32_t flags = 0; flags < 4; ++flags) {
    float got[12] = {0};
    embed_file_options o = {.size = sizeof o, .flags = flags};
    embed_file *f = open_file(ctx, npy("copy", plain), &o);
    if (flags & EMBED_FILE_COPY) assert_int_equal(truncate(path_of("copy"), 0), 0); /* does not reach it any more */
    embed_table *t = open_table(ctx, f);
    read_rows(ctx, t, got);
    assert_same_bits(got, values, sizeof got);
    embed_table_release(t);
    embed_file_release(f);
  }
  unlink(path_of("copy"));
  embed_context_release(ctx);
}

static void rows_may_end_at_the_last_byte_of_the_last_page(void **state) {
  (void)state;
  long page = sysconf(_SC_PAGESIZE);
  static unsigned char file[1 << 17];
  float *data = calloc(1, (size_t)page);
  embed_context *ctx = new_context(NULL);
  assert_non_null(data);
  char dict[128];
  int64_t columns = (page - 128) / 4 / 3;
  snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, %ld), }", (long)columns);
  uint64_t seed = 3;
  for (int64_t k = 0; k < 3 * columns; ++k) data[k] = test_uniform(&seed);
  test_file_order(data, (size_t)columns * 3);
  size_t bytes = make_npy(file, 1, dict, 1, data, (size_t)columns * 12), gap = (size_t)page - bytes;
  bytes = make_npy(file, 1, dict, bytes - (size_t)columns * 12 + gap, data, (size_t)columns * 12);
  test_file_order(data, (size_t)columns * 3);
  assert_int_equal(bytes, page);
  embed_file *f = open_file(ctx, write_file("page", file, bytes), NULL);
  embed_table *t = open_table(ctx, f);
  float *got = malloc((size_t)columns * 12);
  assert_non_null(got);
  read_rows(ctx, t, got);
  assert_same_bits(got, data, (size_t)columns * 12);
  free(got);
  free(data);
  embed_table_release(t);
  embed_file_release(f);
  unlink(path_of("page"));
  embed_context_release(ctx);
}

/* The context, the file, the table and the head, released in every order; who is left still works. */
static void handles_go_in_any_order(void **state) {
  (void)state;
  for (int source = 0; source < 3; ++source)
    for (int order = 0; order < 24; ++order) {
      counting c = {.calls = 0};
      embed_context *ctx = counting_context(&c), *reader = new_context(NULL);
      embed_file *f = open_file(ctx, source == 2 ? word2vec("order") : npy("order", source ? other : plain), NULL);
      assert_ptr_equal(embed_file_retain(f), f);
      embed_file_release(f);
      embed_table *t = open_table(ctx, f);
      embed_head *h = NULL;
      assert_int_equal(embed_file_head(ctx, f, t, NULL, &h), EMBED_OK);
      int left[4] = {0, 1, 2, 3}, count = 4;
      for (int rest = order; count > 0; rest /= count + 1) {
        int pick = rest % count, which = left[pick];
        left[pick] = left[--count];
        if (which == 0) embed_context_release(ctx), ctx = NULL;
        if (which == 1) embed_file_release(f), f = NULL;
        if (which == 2) embed_table_release(t), t = NULL;
        if (which == 3) embed_head_release(h), h = NULL;
        const embed_table *alive = h ? embed_head_table(h) : t;
        float got[12];
        if (f) assert_string_equal(embed_file_format(f), source == 2 ? "word2vec" : "npy");
        if (alive) read_rows(reader, alive, got);
        if (source == 0 && is_mapped(path_of("order")) >= 0) {
          const bool viewed = !TEST_BIG_ENDIAN && (t || h);           /* no view of the other byte order */
          assert_int_equal(is_mapped(path_of("order")), f || viewed); /* no longer, no shorter */
        }
      }
      embed_context_release(reader);
      assert_int_equal(c.blocks, 0);
      assert_int_equal(c.bytes, 0);
    }
  unlink(path_of("order"));
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
  (void)state;
  static const char more[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }"; /* bytes behind: a note */
  for (int source = 0; source < 4; ++source)
    for (uint32_t flags = 0; flags <= EMBED_FILE_COPY; flags += EMBED_FILE_COPY) {
      const char *path = source == 0 ? npy("memory", plain) : source == 1 ? npy("memory", other) : source == 2 ? npy("memory", more) : word2vec("memory");
      if (source == 3) path = write_file("memory", "2 1\na \1\2\3\4a \1\2\3\4", 16); /* a repeated token: a note */
      counting c = {.calls = 0};
      embed_context *ctx = counting_context(&c);
      int64_t blocks = c.blocks, bytes = c.bytes;
      embed_file_options o = {.size = sizeof o, .flags = flags};
      int failures = 0;
      for (int64_t k = 1;; ++k) {
        embed_file *f = (embed_file *)(uintptr_t)8;
        embed_table *t = (embed_table *)(uintptr_t)8;
        embed_head *h = NULL;
        c.calls = 0;
        c.fail_at = k;
        embed_status status = embed_file_open(ctx, path, &o, &f);
        if (status == EMBED_OK)
          status = embed_file_table(ctx, f, -1, &t);
        else
          assert_null(f);
        if (status == EMBED_OK)
          status = embed_file_head(ctx, f, NULL, NULL, &h);
        else if (f)
          assert_null(t);
        if (status == EMBED_OK)
          assert_non_null(h);
        else
          assert_null(h);
        if (h) embed_head_release(h);
        if (f && t) embed_table_release(t);
        embed_file_release(f);
        assert_int_equal(c.blocks, blocks);
        assert_int_equal(c.bytes, bytes);
        if (status == EMBED_OK) break;
        assert_int_equal(status, EMBED_E_MEMORY);
        assert_true(embed_error_text(ctx)[0] != '\0');
        ++failures;
      }
      assert_true(failures >= (source == 3 ? 7 : 5));
      embed_context_release(ctx);
    }
  unlink(path_of("memory"));
}

static void both_ends_of_a_plain_table_are_the_same(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  for (int source = 0; source < 2; ++source) {
    embed_file *f = open_file(ctx, source ? word2vec("ends") : npy("ends", plain), NULL);
    embed_table *t = open_table(ctx, f);
    embed_head *h = NULL;
    embed_conventions c = {.size = sizeof c};
    for (embed_role role = EMBED_ROLE_TOKEN; role <= EMBED_ROLE_NGRAM; ++role) {
      int64_t i = 42;
      assert_int_equal(embed_file_role(ctx, f, role, &i), EMBED_OK);
      assert_int_equal(i, role <= EMBED_ROLE_HEAD ? 0 : -1);
    }
    assert_int_equal(embed_file_conventions(ctx, f, &c), EMBED_OK);
    assert_true(c.lookup_scale == 1 && c.scale_round == EMBED_F32 && c.logit_scale == 1 && c.logit_softcap == 0 && c.norm_epsilon == 0 && c.norm_flags == 0 &&
                c.flags == 0);
    const uint32_t fine[] = {0, EMBED_HEAD_REQUIRE_TIED, EMBED_HEAD_RAW, EMBED_HEAD_REQUIRE_TIED | EMBED_HEAD_RAW};
    for (int k = 0; k < 8; ++k) {
      embed_head_options o = {.size = sizeof o, .flags = fine[k % 4]};
      assert_int_equal(embed_file_head(ctx, f, k < 4 ? t : NULL, k ? &o : NULL, &h), EMBED_OK);
      if (k < 4 || source || !TEST_BIG_ENDIAN) assert_int_equal(embed_head_is_tied(h, t), 1); /* who needs another byte order makes his own */
      if (k < 4) assert_ptr_equal(embed_head_table(h), t);
      embed_head_info info = {.size = sizeof info};
      assert_int_equal(embed_head_describe(ctx, h, &info), EMBED_OK);
      assert_true(info.logit_scale == 1 && info.logit_softcap == 0);
      embed_head_release(h);
    }
    static const struct {
      uint32_t flags;
      embed_status status;
      const char *says;
    } bad[] = {{EMBED_HEAD_REQUIRE_UNTIED, EMBED_E_NOT_FOUND, "the token table"},
               {EMBED_HEAD_REQUIRE_UNTIED | EMBED_HEAD_RAW, EMBED_E_NOT_FOUND, "the token table"},
               {EMBED_HEAD_REQUIRE_UNTIED | EMBED_HEAD_REQUIRE_TIED, EMBED_E_OPTION, "exclude"},
               {EMBED_HEAD_PREPARE | EMBED_HEAD_BLAS, EMBED_E_OPTION, "excludes"},
               {EMBED_HEAD_SKETCH | EMBED_HEAD_BLAS, EMBED_E_OPTION, "excludes"},
               {1, EMBED_E_OPTION, "unknown"}};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; ++k) {
      embed_head_options o = {.size = sizeof o, .flags = bad[k].flags};
      h = (embed_head *)(uintptr_t)8;
      assert_int_equal(embed_file_head(ctx, f, t, &o, &h), bad[k].status);
      assert_null(h);
      assert_non_null(strstr(embed_error_text(ctx), bad[k].says));
      if (k == 0) assert_non_null(strstr(embed_error_text(ctx), source ? "\"vectors\"" : "\"array\""));
    }
    embed_table_release(t);
    embed_file_release(f);
  }
  embed_head_options capped = {.size = sizeof capped, .logit_scale = 0.5f, .logit_softcap = 30.0f};
  embed_file *f = open_file(ctx, npy("ends", plain), NULL);
  embed_head *h = NULL;
  embed_head_info info = {.size = sizeof info};
  assert_int_equal(embed_file_head(ctx, f, NULL, &capped, &h), EMBED_OK);
  assert_int_equal(embed_head_describe(ctx, h, &info), EMBED_OK);
  assert_true(info.logit_scale == 0.5f && info.logit_softcap == 30.0f && info.vocab == 3 && info.dim == 4);
  embed_head_release(h);
  embed_file_release(f);
  unlink(path_of("ends"));
  embed_context_release(ctx);
}

static void success_leaves_errno_alone(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  const char *paths[] = {npy("errno", plain), path_of("nowhere")};
  for (int i = 0; i < 2; ++i)
    for (uint32_t flags = 0; flags < 4; ++flags) {
      embed_file_options o = {.size = sizeof o, .flags = flags};
      embed_file *f = NULL;
      errno = 4242;
      embed_status status = embed_file_open(ctx, paths[i], &o, &f);
      assert_int_equal(errno, 4242);
      assert_int_equal(status, i ? EMBED_E_IO : EMBED_OK);
      embed_file_release(f);
      assert_int_equal(errno, 4242);
    }
  unlink(paths[0]);
  embed_context_release(ctx);
}

static void long_and_strange_paths_are_named_by_their_end(void **state) {
  (void)state;
  char path[2000];
  embed_context *ctx = new_context(NULL);
  embed_file *f = NULL;
  memset(path, 'x', sizeof path);
  path[0] = '/';
  for (int i = 200; i < 1800; i += 200) path[i] = '/';
  strcpy(path + 1900, "\xFF\xC3\xBC/the-end.npy");
  assert_int_equal(embed_file_open(ctx, path, NULL, &f), EMBED_E_IO);
  assert_non_null(strstr(embed_error_text(ctx), "?\xC3\xBC/the-end.npy: opening it: "));
  assert_memory_equal(embed_error_text(ctx), "...", 3);
  assert_non_null(strstr(embed_error_text(ctx), strerror(ENOENT)));
  embed_context_release(ctx);
}

static void *read_alone(void *arg) {
  const embed_file *f = arg;
  embed_context *ctx = NULL;
  if (embed_context_create(NULL, &ctx) != EMBED_OK) return NULL;
  bool fine = true;
  for (int i = 0; i < 200 && fine; ++i) {
    embed_table *t = NULL;
    int64_t id = 1;
    float got[4] = {0};
    embed_file *own = embed_file_retain(f);
    fine = embed_file_table(ctx, own, -1, &t) == EMBED_OK && embed_table_get_rows(ctx, t, &id, 1, got, EMBED_F32, 0) == EMBED_OK && got[0] == 4 && got[3] == 7;
    embed_file_release(own);
    embed_table_release(t);
  }
  embed_context_release(ctx);
  return fine ? arg : NULL;
}

static void threads_share_a_file(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  pthread_t threads[4];
  embed_file *f = open_file(ctx, npy("shared", plain), NULL);
  for (int i = 0; i < 4; ++i) assert_int_equal(pthread_create(&threads[i], NULL, read_alone, f), 0);
  for (int i = 0; i < 4; ++i) {
    void *fine = NULL;
    assert_int_equal(pthread_join(threads[i], &fine), 0);
    assert_ptr_equal(fine, f);
  }
  embed_file_release(f);
  unlink(path_of("shared"));
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(special_files_fail_fast_and_leak_nothing),
    cmocka_unit_test(a_folder_is_opened_by_its_model),
    cmocka_unit_test(what_is_no_model_is_called_by_its_name),
    cmocka_unit_test(a_format_can_be_asked_for),
    cmocka_unit_test(expected_rows_are_held_against_the_file),
    cmocka_unit_test(bad_options_are_refused_before_the_file_is_touched),
    cmocka_unit_test(null_handles_are_errors_and_nothing_is_written),
    cmocka_unit_test(names_numbers_and_metadata_that_are_not_there_are_not_found),
    cmocka_unit_test(outputs_fit_older_and_newer_structs),
    cmocka_unit_test(copied_and_populated_files_give_the_same_rows),
    cmocka_unit_test(rows_may_end_at_the_last_byte_of_the_last_page),
    cmocka_unit_test(handles_go_in_any_order),
    cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
    cmocka_unit_test(both_ends_of_a_plain_table_are_the_same),
    cmocka_unit_test(success_leaves_errno_alone),
    cmocka_unit_test(long_and_strange_paths_are_named_by_their_end),
    cmocka_unit_test(threads_share_a_file),
};
TEST_MAIN(tests)
