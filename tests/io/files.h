/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the readers share: files written byte by byte, an allocator that counts and fails. */
#ifndef FILES_H
#define FILES_H

#include "test.h"

#include <embed/embed.h>
#include <fcntl.h>
#include <sys/stat.h>

/* A path of this process's own; valid until the fourth call after this one. */
static inline const char *path_of(const char *name) {
  static char paths[4][4096];
  static unsigned next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/io-%ld-%s", TEST_BINARY_DIR, (long)getpid(), name);
  return path;
}

static inline const char *write_file(const char *name, const void *bytes, size_t count) {
  const char *path = path_of(name);
  (void)unlink(path); /* ext4 writes a truncated file out at its close: thousands of them take a minute */
  int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  assert_true(descriptor >= 0);
  assert_int_equal(write(descriptor, bytes, count), (ssize_t)count);
  assert_int_equal(close(descriptor), 0);
  return path;
}

/* Under whoever has it mapped. */
static inline void change_file(const char *name, size_t at, const void *bytes, size_t count) {
  const int descriptor = open(path_of(name), O_WRONLY | O_CLOEXEC);
  assert_int_equal(pwrite(descriptor, bytes, count, (off_t)at), (ssize_t)count);
  assert_int_equal(close(descriptor), 0);
}

static inline embed_context *new_context(embed_pool *pool) {
  embed_context_options o = {.size = sizeof o, .pool = pool};
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
  return ctx;
}

static inline embed_file *open_file(embed_context *ctx, const char *path, const embed_file_options *o) {
  embed_file *f = NULL;
  if (embed_file_open(ctx, path, o, &f) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  assert_non_null(f);
  assert_string_equal(embed_error_text(ctx), "");
  return f;
}

static inline int64_t find(embed_context *ctx, const embed_file *f, const char *name) {
  int64_t i = -1;
  if (embed_file_find(ctx, f, name, &i) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  return i;
}

static inline embed_tensor_info info_of(embed_context *ctx, const embed_file *f, const char *name) {
  embed_tensor_info info = {.size = sizeof info};
  assert_int_equal(embed_file_tensor(ctx, f, find(ctx, f, name), &info), EMBED_OK);
  assert_string_equal(info.name, name);
  return info;
}

static inline embed_table *open_table(embed_context *ctx, const embed_file *f) {
  embed_table *t = NULL;
  if (embed_file_table(ctx, f, -1, &t) != EMBED_OK) fail_msg("%s", embed_error_text(ctx));
  assert_non_null(t);
  return t;
}

/* path is refused with this status, this position and a text that names the file and holds `says`. */
static inline void refused(embed_context *ctx, const char *path, const embed_file_options *o, embed_status status, int64_t at, const char *says) {
  embed_file *f = (embed_file *)(uintptr_t)8;
  embed_status got = embed_file_open(ctx, path, o, &f);
  if (got != status || embed_error_at(ctx) != at || !strstr(embed_error_text(ctx), says) || !strstr(embed_error_text(ctx), strrchr(path, '/')))
    fail_msg("got %s at %lld: %s; wanted %s at %lld: %s", embed_status_name(got), (long long)embed_error_at(ctx), embed_error_text(ctx),
             embed_status_name(status), (long long)at, says);
  assert_null(f);
}

/* Rows 0 .. rows - 1 as floats. */
static inline void read_rows(embed_context *ctx, const embed_table *t, float *out) {
  int64_t rows = embed_table_rows(t), dim = embed_table_dim(t);
  for (int64_t r = 0; r < rows; ++r) assert_int_equal(embed_table_get_rows(ctx, t, &r, 1, out + r * dim, EMBED_F32, 0), EMBED_OK);
}

/* Opens what may be broken; whatever comes of it is either a clean failure or a file that can be used whole. */
static inline embed_status try_file(embed_context *ctx, const char *path, const embed_file_options *o) {
  embed_file *f = (embed_file *)(uintptr_t)8;
  embed_table *t = (embed_table *)(uintptr_t)8;
  embed_status status = embed_file_open(ctx, path, o, &f);
  if (status != EMBED_OK) {
    assert_null(f);
    assert_true(embed_error_text(ctx)[0] != '\0');
    return status;
  }
  for (int64_t i = 0;; ++i) {
    int64_t bytes = -1, id = -1;
    const char *token = embed_file_token(f, i, &bytes);
    if (!token) break;
    assert_int_equal(token[bytes], 0);
    assert_int_equal(embed_file_token_id(ctx, f, token, bytes, &id), EMBED_OK);
    assert_true(id >= 0 && id <= i);
  }
  if (embed_file_table(ctx, f, -1, &t) != EMBED_OK) {
    assert_null(t);
    assert_true(embed_error_text(ctx)[0] != '\0');
  } else {
    float *values = malloc(sizeof *values * (size_t)(embed_table_rows(t) * embed_table_dim(t) + 1));
    assert_non_null(values);
    read_rows(ctx, t, values);
    free(values);
    embed_table_release(t);
  }
  embed_file_release(f);
  return status;
}

/* Each byte in turn set to each value that reads differently in some grammar, mapped and copied: no crash. */
static inline void survives_mutations(embed_context *ctx, const char *name, const unsigned char *good, size_t bytes) {
  static const unsigned char values[] = "\x00\x01\x7f\x80\xff\t\n\r \"'()+,-0129:;<>AFL[]{|}TU\\bdfu";
  unsigned char *bad = malloc(bytes);
  assert_non_null(bad);
  for (size_t i = 0; i < bytes; ++i)
    for (size_t v = 0; v < sizeof values; ++v) {
      memcpy(bad, good, bytes);
      bad[i] = values[v];
      embed_file_options o = {.size = sizeof o, .flags = v % 2 ? EMBED_FILE_COPY : 0};
      (void)try_file(ctx, write_file(name, bad, bytes), &o);
    }
  free(bad);
  unlink(path_of(name));
}

/* Counts what is out; the allocation number fail_at (from 1, 0 = none) and all after it give NULL. */
typedef struct counting {
  int64_t calls, fail_at, blocks, bytes, peak;
} counting;

static inline void *counting_allocate(void *arg, size_t bytes, size_t alignment) {
  counting *c = arg;
  if (++c->calls >= c->fail_at && c->fail_at) return NULL;
  void *block = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  assert_non_null(block);
  memset(block, 0xA5, bytes);
  ++c->blocks;
  c->bytes += (int64_t)bytes;
  if (c->bytes > c->peak) c->peak = c->bytes;
  return block;
}

static inline void counting_release(void *arg, void *memory, size_t bytes, size_t alignment) {
  counting *c = arg;
  (void)alignment;
  memset(memory, 0x5A, bytes);
  free(memory);
  --c->blocks;
  c->bytes -= (int64_t)bytes;
}

static inline embed_context *counting_context(counting *c) {
  embed_allocator a = {.size = sizeof a, .arg = c, .allocate = counting_allocate, .release = counting_release};
  embed_context_options o = {.size = sizeof o, .allocator = &a};
  embed_context *ctx = NULL;
  assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
  return ctx;
}

/* Opens the file and makes its tables with one allocation more each time; whatever fails gives everything back. */
static inline void survives_failures(const char *path, const embed_file_options *o) {
  counting c = {.calls = 0};
  embed_context *ctx = counting_context(&c);
  const int64_t blocks = c.blocks;
  embed_status status = EMBED_E_MEMORY;
  for (int64_t fail_at = 1; status != EMBED_OK; ++fail_at) {
    embed_file *f = NULL;
    embed_table *t = NULL;
    assert_true(fail_at < 1000);
    c.calls = 0, c.fail_at = fail_at;
    status = embed_file_open(ctx, path, o, &f);
    if (status == EMBED_OK) status = embed_file_table(ctx, f, -1, &t);
    if (status != EMBED_OK) assert_int_equal(status, EMBED_E_MEMORY);
    embed_table_release(t);
    embed_file_release(f);
    c.fail_at = 0;
    embed_context_trim(ctx);
    assert_int_equal(c.blocks, blocks);
  }
  embed_context_release(ctx);
  assert_int_equal(c.blocks, 0);
}

/* Whether a file is part of this process's memory; -1 where that cannot be asked. */
static inline int is_mapped(const char *path) {
  char line[8192];
  FILE *maps = fopen("/proc/self/maps", "re");
  int found = maps ? 0 : -1;
  while (maps && fgets(line, sizeof line, maps))
    if (strstr(line, strrchr(path, '/'))) found = 1;
  if (maps) fclose(maps);
  return found;
}

/* The bytes of floats in a file; valid until the next call. */
static inline const void *file_floats(const float *x, size_t count) {
  static float copy[256];
  assert_true(count <= sizeof copy / sizeof *copy);
  memcpy(copy, x, count * sizeof *x);
  test_file_order(copy, count);
  return copy;
}

/* A npy file: version, dict, blanks up to a multiple of `align` bytes, newline, data. Returns its bytes. */
static inline size_t make_npy(unsigned char *out, int major, const char *dict, size_t align, const void *data, size_t data_bytes) {
  size_t before = major == 1 ? 10 : 12, text = strlen(dict), header = text + 1;
  while ((before + header) % align) ++header;
  memcpy(out, "\x93NUMPY", 6);
  out[6] = (unsigned char)major;
  out[7] = 0;
  for (size_t i = 8; i < before; ++i) out[i] = (unsigned char)(header >> (8 * (i - 8)));
  memset(out + before, ' ', header);
  memcpy(out + before, dict, text);
  out[before + header - 1] = '\n';
  memcpy(out + before + header, data, data_bytes);
  return before + header + data_bytes;
}

#endif
