/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that rewrites a file is killed at any moment: the file is then the one version or the other, whole. */
#include "writing.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { KILLS = 200, ROWS = 2000, DIM = 64 };

static const char *const names[] = {"a.embed", "a.safetensors", "a.npy", "a.bin", "a.gguf", "a.npz", "a.vec", "a.fifu"};
enum { NAMES = sizeof names / sizeof *names };

/* Version v of the table is filled with v + 1, and of another length. */
static embed_table *version(embed_context *ctx, int v) {
  embed_table *t = NULL;
  done(ctx, embed_table_create(ctx, ROWS + v, DIM, NULL, &t));
  float *values = embed_table_mutable_data(t);
  for (int64_t i = 0; i < (int64_t)(ROWS + v) * DIM; ++i) values[i] = (float)(v + 1);
  return t;
}

static embed_status write_version(embed_context *ctx, const char *path, embed_table *const versions[2], int v) {
  embed_writer *w = NULL;
  embed_status status = embed_writer_create(ctx, path, NULL, &w);
  if (status == EMBED_OK) status = embed_writer_table(ctx, w, "t", versions[v], NULL);
  for (int64_t i = 0; i < ROWS + v && status == EMBED_OK; ++i) {
    char token[16];
    status = embed_writer_token(ctx, w, i, token, snprintf(token, sizeof token, "w%d", (int)i));
  }
  if (status == EMBED_E_UNSUPPORTED) status = EMBED_OK;
  if (status == EMBED_OK) status = embed_writer_commit(ctx, w);
  embed_writer_release(w);
  return status;
}

static int which_version(embed_context *ctx, const char *path) {
  embed_file_options o = {.size = sizeof o, .flags = EMBED_FILE_COPY}; /* the sums of .embed too */
  embed_file *f = open_file(ctx, path, &o);
  embed_table *t = open_table(ctx, f);
  const float *values = embed_table_data(t);
  const int v = (int)embed_table_rows(t) - ROWS;
  assert_true(v == 0 || v == 1);
  for (int64_t i = 0; i < (int64_t)(ROWS + v) * DIM; ++i) assert_true(values[i] == (float)(v + 1));
  embed_table_release(t);
  embed_file_release(f);
  return v;
}

static void a_killed_writer_leaves_one_version_or_the_other(void **state) {
  (void)state;
  embed_context *ctx = new_context(NULL);
  uint64_t random = 7;
  int seen[2] = {0, 0}, strays = 0, changed = 0;
  fresh_folder();
  embed_table *versions[2] = {version(ctx, 0), version(ctx, 1)};
  for (int n = 0; n < NAMES; ++n) done(ctx, write_version(ctx, in_folder(names[n]), versions, 0));
  int last[NAMES] = {0};
  for (int kill_number = 0; kill_number < KILLS; ++kill_number) {
    const int n = kill_number % NAMES;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      if (write(ready[1], "r", 1) != 1) _exit(2);
      for (int i = 0;; ++i)
        if (write_version(ctx, in_folder(names[n]), versions, (last[n] + 1 + i) % 2) != EMBED_OK) {
          fprintf(stderr, "%s\n", embed_error_text(ctx));
          _exit(1);
        }
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    struct timespec moment = {.tv_nsec = (long)(test_random(&random) % 25000000)};
    nanosleep(&moment, NULL);
    assert_int_equal(kill(child, SIGKILL), 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) fail_msg("the writer of %s failed before it was killed: %d", names[n], status);
    close(ready[0]);
    close(ready[1]);
    const int v = which_version(ctx, in_folder(names[n]));
    ++seen[v];
    changed += v != last[n];
    last[n] = v;
  }
  /* What is left behind has the documented name, hidden, and can be told from the files. */
  DIR *folder = opendir(in_folder(""));
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    if (entry->d_name[0] != '.' || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    const size_t bytes = strlen(entry->d_name);
    assert_true(bytes > 28 && strcmp(entry->d_name + bytes - 10, ".embed-tmp") == 0);
    assert_int_equal(strspn(entry->d_name + bytes - 26, "0123456789abcdef"), 16);
    ++strays;
  }
  closedir(folder);
  printf("%d kills: version 0 %d times, version 1 %d times, another than before %d times, %d temporaries left\n", KILLS, seen[0], seen[1], changed, strays);
  assert_true(strays > 0 && strays <= KILLS); /* some kills came in the middle */
  assert_true(seen[0] > 0 && seen[1] > 0 && changed > 0);
  embed_table_release(versions[0]);
  embed_table_release(versions[1]);
  embed_context_release(ctx);
  remove_folder();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_killed_writer_leaves_one_version_or_the_other),
};
TEST_MAIN(tests)
