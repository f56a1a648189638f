/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of writing share: tables of every dtype, writers in one line, and the folder they must leave clean. */
#ifndef WRITING_H
#define WRITING_H

#include "files.h"

#include <dirent.h>

static inline void done(embed_context *ctx, embed_status status) {
  if (status != EMBED_OK) fail_msg("%s: %s", embed_status_name(status), embed_error_text(ctx));
}

/* An empty folder of this process's own and of its children. */
static inline const char *in_folder(const char *name) {
  static char folder[4096], paths[4][4500];
  static unsigned next;
  if (!folder[0]) snprintf(folder, sizeof folder, "%s/writing-%ld", TEST_BINARY_DIR, (long)getpid());
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static inline void fresh_folder(void) {
  char command[4600];
  snprintf(command, sizeof command, "rm -rf '%s'", in_folder(""));
  assert_int_equal(system(command), 0);
  assert_int_equal(mkdir(in_folder(""), 0700), 0);
}

static inline void remove_folder(void) {
  char command[4600];
  snprintf(command, sizeof command, "rm -rf '%s'", in_folder(""));
  assert_int_equal(system(command), 0);
}

/* How many names stand in the folder, those that begin with a dot too. */
static inline int names_in_folder(void) {
  int count = 0;
  DIR *folder = opendir(in_folder(""));
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(folder);
  return count;
}

static inline int open_descriptors(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) return -1;
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

/* The bytes of a file; to be freed. */
static inline unsigned char *read_file(const char *path, size_t *bytes) {
  FILE *f = fopen(path, "rbe");
  assert_non_null(f);
  assert_int_equal(fseek(f, 0, SEEK_END), 0);
  *bytes = (size_t)ftell(f);
  rewind(f);
  unsigned char *data = malloc(*bytes + 1);
  assert_non_null(data);
  assert_int_equal(fread(data, 1, *bytes, f), *bytes);
  fclose(f);
  return data;
}

static inline embed_writer *new_writer(embed_context *ctx, const char *path, const embed_writer_options *o) {
  embed_writer *w = NULL;
  done(ctx, embed_writer_create(ctx, path, o, &w));
  assert_non_null(w);
  return w;
}

/* rows x dim of numbers that every dtype can hold well, from seed. */
static inline embed_table *some_table(embed_context *ctx, int64_t rows, int64_t dim, embed_dtype dtype, int32_t group, uint64_t seed) {
  embed_table *floats = NULL, *t = NULL;
  embed_init_options normal = {.size = sizeof normal, .kind = EMBED_INIT_NORMAL, .scale = 1, .seed = seed};
  embed_table_options as = {.size = sizeof as, .dtype = dtype, .group = group};
  done(ctx, embed_table_create(ctx, rows, dim, NULL, &floats));
  done(ctx, embed_table_init(ctx, floats, &normal));
  done(ctx, embed_table_convert(ctx, floats, &as, &t));
  embed_table_release(floats);
  return t;
}

static inline void same_table(const embed_table *got, const embed_table *want, int32_t group) {
  assert_int_equal(embed_table_rows(got), embed_table_rows(want));
  assert_int_equal(embed_table_dim(got), embed_table_dim(want));
  assert_int_equal(embed_table_dtype(got), embed_table_dtype(want));
  const int64_t packed = embed_row_bytes(embed_table_dtype(want), embed_table_dim(want), group);
  for (int64_t r = 0; r < embed_table_rows(want); ++r)
    assert_memory_equal((const char *)embed_table_data(got) + r * embed_table_row_bytes(got),
                        (const char *)embed_table_data(want) + r * embed_table_row_bytes(want), (size_t)packed);
}

#endif
