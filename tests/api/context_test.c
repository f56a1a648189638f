/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts and pools: options, levels, reasons of failure, what may be shared and what survives what. */
#include "counting.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static embed_status run_serially(void *arg, int64_t n, embed_task *task, void *job) {
  (void)arg;
  for (int64_t i = 0; i < n; ++i) task(job, i, 0);
  return 0;
}

static void a_context_needs_no_options(void **state) {
  (void)state;
  embed_context *ctx = NULL;
  OK(embed_context_create(NULL, &ctx));
  assert_non_null(embed_context_isa(ctx));
  assert_string_equal(embed_error_text(ctx), "");
  assert_int_equal(embed_error_at(ctx), -1);
  embed_context_trim(ctx);
  embed_context_release(ctx);
  assert_int_equal(embed_context_create(NULL, NULL), EMBED_E_ARGUMENT);
}

/* Creation fails, *out is NULL, and why says it in these words. */
static void refused(embed_context_options o, embed_status status, const char *words) {
  char why[300];
  embed_context *ctx = (embed_context *)(uintptr_t)8;
  memset(why, 'Q', sizeof why);
  o.size = sizeof o;
  o.why = why;
  o.why_bytes = sizeof why;
  assert_int_equal(embed_context_create(&o, &ctx), status);
  assert_null(ctx);
  assert_non_null(memchr(why, 0, sizeof why));
  if (!strstr(why, words)) fail_msg("\"%s\" does not say \"%s\"", why, words);
}

static void wrong_options_are_refused_with_the_reason(void **state) {
  (void)state;
  embed_pool *pool;
  OK(embed_pool_create(1, &pool));
  embed_executor good = {.size = sizeof good, .run = run_serially, .workers = 1}, executor = good;
  embed_allocator allocator = {.size = sizeof allocator};
  refused((embed_context_options){.flags = 2}, EMBED_E_OPTION, "0x2");
  refused((embed_context_options){.max_scratch = -5}, EMBED_E_OPTION, "-5");
  refused((embed_context_options){.isa = "no-such"}, EMBED_E_OPTION, "no-such");
  refused((embed_context_options){.isa = ""}, EMBED_E_OPTION, "isa");
  refused((embed_context_options){.pool = pool, .executor = &executor}, EMBED_E_OPTION, "executor");
  refused((embed_context_options){.allocator = &allocator}, EMBED_E_OPTION, "allocate");
  allocator.size = 7;
  refused((embed_context_options){.allocator = &allocator}, EMBED_E_OPTION, "embed_allocator.size is 7");
  executor.run = NULL;
  refused((embed_context_options){.executor = &executor}, EMBED_E_OPTION, "run");
  static const int32_t workers[] = {0, -1, 4097, INT32_MAX};
  for (int i = 0; i < COUNT(workers); ++i) {
    executor = good;
    executor.workers = workers[i];
    refused((embed_context_options){.executor = &executor}, EMBED_E_OPTION, "workers");
  }
  executor = good;
  executor.flags = 1;
  refused((embed_context_options){.executor = &executor}, EMBED_E_OPTION, "embed_executor.flags");
  embed_pool_release(pool);
}

/* Names of another architecture are a mistake, not a wish for the best there is. */
static void foreign_and_unknown_levels_are_refused(void **state) {
  (void)state;
#if defined(__x86_64__) || defined(__i386__)
  refused((embed_context_options){.isa = "neon"}, EMBED_E_OPTION, "neon");
#else
  refused((embed_context_options){.isa = "avx2"}, EMBED_E_OPTION, "avx2");
#endif
  refused((embed_context_options){.isa = "AVX2"}, EMBED_E_OPTION, "AVX2");
}

static void the_level_is_the_lower_of_cap_and_cpu(void **state) {
  (void)state;
  static const char *const ascending[] = {TEST_LEVELS};
  embed_context *best = context_new();
  int highest = -1, last = -1;
  for (int i = 0; i < COUNT(ascending); ++i)
    if (!strcmp(embed_context_isa(best), ascending[i])) highest = i;
  for (int i = 0; i < COUNT(ascending); ++i) {
    embed_context *ctx = context_with(ascending[i], 1);
    assert_non_null(ctx);
    int got = -1;
    for (int k = 0; k < COUNT(ascending); ++k)
      if (!strcmp(embed_context_isa(ctx), ascending[k])) got = k;
    assert_int_equal(got, i < highest ? i : highest);
    assert_true(got >= last);
    last = got;
    embed_context_release(ctx);
  }
  embed_context_release(best);
}

/* Linux lets a process use AMX where its stacks of signals can hold the registers, and from then on refuses those that cannot. */
static void a_small_stack_of_signals_means_a_level_without_tiles(void **state) {
  enum { SMALL = 8192 };
  static char memory[SMALL];
  const stack_t small = {.ss_sp = memory, .ss_size = SMALL}, none = {.ss_flags = SS_DISABLE};
  (void)state;
  if (sigaltstack(&small, NULL) != 0) skip(); /* this machine's registers do not fit without tiles either */
  embed_context *ctx = context_new();
  assert_string_not_equal(embed_context_isa(ctx), "amx");
  assert_int_equal(sigaltstack(&none, NULL), 0);
#if defined(__x86_64__)
  embed_context *capped = context_with("avx512bf16", 1);
  embed_context_release(capped);
#endif
  assert_int_equal(sigaltstack(&small, NULL), 0); /* nothing was asked for */
  assert_int_equal(sigaltstack(&none, NULL), 0);
  embed_context_release(ctx);
}

static void the_reason_fits_its_room_in_whole_characters(void **state) {
  (void)state;
  char why[200];
  for (int64_t room = 0; room < 60; ++room) {
    embed_context *ctx;
    embed_context_options o = {.size = sizeof o, .isa = "\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC", .why = why, .why_bytes = room};
    memset(why, 'Q', sizeof why);
    assert_int_equal(embed_context_create(&o, &ctx), EMBED_E_OPTION);
    assert_true(test_all_bytes(why + room, sizeof why - (size_t)room, 'Q'));
    if (room == 0) continue;
    size_t length = strlen(why);
    assert_true((int64_t)length < room);
    if (length > 5 && length < 17) assert_int_equal((length - 5) % 3, 0); /* isa "... */
  }
  /* A context that is made has nothing to explain. */
  embed_context *ctx;
  embed_context_options fine = {.size = sizeof fine, .why = why, .why_bytes = sizeof why};
  OK(embed_context_create(&fine, &ctx));
  assert_string_equal(why, "");
  embed_context_release(ctx);
}

static void options_of_older_and_newer_headers_work(void **state) {
  (void)state;
  struct {
    embed_context_options o;
    unsigned char tail[24];
  } newer = {.o = {.size = sizeof newer}};
  embed_context *ctx;
  for (uint32_t size = 8; size <= sizeof(embed_context_options); ++size) {
    guarded old = guarded_new(size, 1);
    memset(old.at, 0, size);
    memcpy(old.at, &size, 4);
    OK(embed_context_create((const void *)old.at, &ctx));
    embed_context_release(ctx);
    guarded_free(old);
  }
  OK(embed_context_create(&newer.o, &ctx));
  embed_context_release(ctx);
  char why[100] = "";
  newer.o.why = why;
  newer.o.why_bytes = sizeof why;
  newer.tail[23] = 1;
  assert_int_equal(embed_context_create(&newer.o, &ctx), EMBED_E_OPTION);
  assert_null(ctx);
  assert_non_null(strstr(why, "not zero"));
}

static void memory_comes_from_the_callers_allocator(void **state) {
  (void)state;
  counting c;
  counting_start(&c);
  embed_context *ctx = counting_context(&c, NULL);
  embed_allocator copy = c.allocator;
  memset(&c.allocator, 0xEE, sizeof c.allocator); /* it was copied */
  assert_true(atomic_load(&c.alive) > 0);
  embed_table *t;
  const int64_t ids[] = {1, 0};
  float out[2][100];
  OK(embed_table_create(ctx, 2, 100, NULL, &t));
  assert_true(atomic_load(&c.bytes) >= 800);
  OK(embed_table_get_rows(ctx, t, ids, 2, out, EMBED_F32, 0));
  embed_context_release(ctx); /* the table outlives its context and keeps its allocator */
  assert_int_equal(embed_table_dim(t), 100);
  embed_table_release(t);
  c.allocator = copy;
  counting_check(&c);
}

/* FF-05 */
static void a_hundred_thousand_handles_leave_nothing(void **state) {
  (void)state;
  counting c;
  counting_start(&c);
  long first = 0, last = 0;
  for (int i = 0; i < 100000; ++i) {
    embed_context *ctx, *plain;
    embed_table *t;
    OK(embed_context_create(NULL, &plain));
    OK(embed_table_create(plain, 3, 5, NULL, &t));
    embed_table_release(t);
    embed_context_release(plain);
    if (i % 10 == 0) {
      ctx = counting_context(&c, NULL);
      OK(embed_table_create(ctx, 3, 5, NULL, &t));
      embed_context_release(ctx);
      embed_table_release(t);
    }
    if (i != 10000 && i != 99999) continue;
    FILE *statm = fopen("/proc/self/statm", "r");
    long all = 0;
    if (statm && fscanf(statm, "%ld %ld", &all, i == 10000 ? &first : &last) != 2) first = last = 0;
    if (statm) fclose(statm);
  }
  counting_check(&c);
  if (!SANITIZED) assert_true(last - first < 256); /* pages; a sanitizer keeps what was freed */
}

static void two_levels_side_by_side_give_the_same_rows(void **state) {
  (void)state;
  embed_context *scalar = context_with("scalar", 1), *best = context_with(NULL, 1);
  assert_string_equal(embed_context_isa(scalar), "scalar");
  enum { ROWS = 9, MOST = 256 };
  int64_t ids[ROWS];
  for (int i = 0; i < ROWS; ++i) ids[i] = ROWS - 1 - i;
  for (int d = 0; d < COUNT(stored_dtypes); ++d) {
    test_table made = table_new(scalar, stored_dtypes[d], ROWS, whole_dim(stored_dtypes[d], 133), 3, 7);
    for (int f = 0; f < COUNT(float_dtypes); ++f) {
      unsigned char a[ROWS * MOST * 4], b[sizeof a];
      memset(a, 0xA5, sizeof a);
      memset(b, 0xA5, sizeof b);
      OK(embed_table_get_rows(scalar, made.t, ids, ROWS, a, float_dtypes[f], 0));
      OK(embed_table_get_rows(best, made.t, ids, ROWS, b, float_dtypes[f], 0));
      assert_same_bits(a, b, sizeof a);
    }
    table_free(made);
  }
  assert_string_equal(embed_context_isa(scalar), "scalar");
  embed_context_release(scalar);
  embed_context_release(best);
}

static int threads_alive(void) {
  int n = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (tasks && readdir(tasks)) ++n;
  if (tasks) closedir(tasks);
  return n;
}

static void a_context_keeps_its_pool_and_the_last_one_joins_its_threads(void **state) {
  (void)state;
  embed_pool *first = NULL;
  OK(embed_pool_create(2, &first)); /* a sanitizer starts a thread of its own with the first */
  embed_pool_release(first);
  int before = threads_alive();
  embed_pool *pool;
  embed_context *a, *b;
  OK(embed_pool_create(3, &pool));
  embed_context_options o = {.size = sizeof o, .pool = pool};
  OK(embed_context_create(&o, &a));
  OK(embed_context_create(&o, &b));
  embed_pool_release(pool);
  embed_context_release(a);
  embed_table *t;
  embed_init_options init = {.size = sizeof init, .kind = EMBED_INIT_NORMAL};
  OK(embed_table_create(b, 5000, 64, NULL, &t));
  OK(embed_table_init(b, t, &init));
  embed_table_release(t);
  assert_true(threads_alive() > before || before == 0); /* 0: no /proc here */
  embed_context_release(b);
  for (int i = 0; threads_alive() > before; ++i) { /* a joined thread leaves /proc a moment later */
    if (i == 200) fail_msg("%d threads before, %d after", before, threads_alive());
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
}

typedef struct user {
  embed_pool *pool;
  const embed_table *from;
  unsigned char *bytes; /* of the converted table, to compare */
  int failed;
} user;

static void *use_shared_pool(void *arg) {
  user *u = arg;
  embed_context *ctx = NULL;
  embed_context_options o = {.size = sizeof o, .pool = u->pool};
  embed_table_options to = {.size = sizeof to, .dtype = EMBED_BF16};
  u->failed |= embed_context_create(&o, &ctx) != EMBED_OK;
  for (int i = 0; i < 20 && !u->failed; ++i) {
    embed_table *t = NULL;
    u->failed |= embed_table_convert(ctx, u->from, &to, &t) != EMBED_OK;
    u->failed |= !t || memcmp(embed_table_data(t), u->bytes, (size_t)(embed_table_rows(t) * embed_table_row_bytes(t))) != 0;
    embed_table_release(t);
  }
  embed_context_release(ctx);
  return NULL;
}

static void contexts_of_many_threads_share_pool_and_table(void **state) {
  (void)state;
  embed_pool *pool;
  embed_context *ctx = context_new();
  embed_table *t, *want;
  embed_init_options init = {.size = sizeof init, .kind = EMBED_INIT_NORMAL};
  embed_table_options to = {.size = sizeof to, .dtype = EMBED_BF16};
  OK(embed_pool_create(2, &pool));
  OK(embed_table_create(ctx, 3000, 100, NULL, &t));
  OK(embed_table_init(ctx, t, &init));
  OK(embed_table_convert(ctx, t, &to, &want));
  user users[4];
  pthread_t thread[4];
  for (int i = 0; i < 4; ++i) {
    users[i] = (user){.pool = pool, .from = t, .bytes = embed_table_mutable_data(want)};
    assert_int_equal(pthread_create(&thread[i], NULL, use_shared_pool, &users[i]), 0);
  }
  for (int i = 0; i < 4; ++i) {
    pthread_join(thread[i], NULL);
    assert_false(users[i].failed);
  }
  embed_pool_release(pool);
  embed_table_release(t);
  embed_table_release(want);
  embed_context_release(ctx);
}

/* What a forked child sees: its exit code is the first step that went wrong. */
static int child(embed_context *with_pool, embed_context *without, embed_pool *pool, const embed_table *t) {
  const int64_t id = 1;
  float row[8];
  embed_context *fresh = (embed_context *)(uintptr_t)8;
  embed_table *made = NULL;
  embed_context_options o = {.size = sizeof o, .pool = pool};
  alarm(20);
  if (embed_table_get_rows(with_pool, t, &id, 1, row, EMBED_F32, 0) != EMBED_E_UNSUPPORTED) return 1;
  if (!strstr(embed_error_text(with_pool), "child")) return 2;
  if (embed_table_get_rows(without, t, &id, 1, row, EMBED_F32, 0) != EMBED_OK) return 3;
  if (row[3] != 7.0f) return 4;
  if (embed_context_create(&o, &fresh) != EMBED_E_UNSUPPORTED || fresh) return 5;
  if (embed_pool_create(2, &pool) != EMBED_OK) return 6; /* its own pool is fine */
  o.pool = pool;
  if (embed_context_create(&o, &fresh) != EMBED_OK) return 7;
  if (embed_table_convert(fresh, t, NULL, &made) != EMBED_OK) return 8;
  embed_table_release(made);
  embed_context_release(fresh);
  embed_pool_release(pool);
  embed_context_release(with_pool); /* joins nobody */
  embed_context_release(without);
  return 0;
}

static void after_fork_only_contexts_without_a_pool_work_in_the_child(void **state) {
  (void)state;
#ifdef TEST_SANITIZED
  skip(); /* the sanitizers' allocator does not survive a fork while another thread is inside it */
#endif
  embed_pool *pool;
  OK(embed_pool_create(3, &pool));
  embed_context_options o = {.size = sizeof o, .pool = pool};
  embed_context *with_pool, *without = context_new();
  embed_table *t;
  embed_init_options sevens = {.size = sizeof sevens, .kind = EMBED_INIT_CONSTANT, .scale = 7};
  OK(embed_context_create(&o, &with_pool));
  OK(embed_table_create(with_pool, 4, 8, NULL, &t));
  OK(embed_table_init(with_pool, t, &sevens));
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) _exit(child(with_pool, without, pool, t));
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  OK(embed_table_init(with_pool, t, &sevens)); /* the parent goes on */
  embed_table_release(t);
  embed_context_release(with_pool);
  embed_context_release(without);
  embed_pool_release(pool);
}

static embed_status count_runs(void *arg, int64_t n, embed_task *task, void *job) {
  ++*(int *)arg;
  return run_serially(NULL, n, task, job);
}

static embed_status answer_5(void *arg, int64_t n, embed_task *task, void *job) {
  (void)arg;
  (void)n;
  (void)task;
  (void)job;
  return 5;
}

static void the_callers_executor_runs_the_work(void **state) {
  (void)state;
  int runs = 0;
  embed_executor executor = {.size = sizeof executor, .arg = &runs, .run = count_runs, .workers = 4};
  embed_context_options o = {.size = sizeof o, .executor = &executor};
  embed_context *ctx, *broken;
  embed_table *t, *copy = (embed_table *)(uintptr_t)8;
  OK(embed_context_create(&o, &ctx));
  executor.run = answer_5;
  OK(embed_context_create(&o, &broken));
  OK(embed_table_create(ctx, 100, 10, NULL, &t));
  OK(embed_table_convert(ctx, t, NULL, &copy));
  assert_true(runs > 0);
  embed_table_release(copy);
  assert_int_equal(embed_table_convert(broken, t, NULL, &copy), EMBED_E_CALLBACK);
  assert_null(copy);
  assert_says(broken, "5");
  embed_table_release(t);
  embed_context_release(ctx);
  embed_context_release(broken);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_context_needs_no_options),
    cmocka_unit_test(wrong_options_are_refused_with_the_reason),
    cmocka_unit_test(foreign_and_unknown_levels_are_refused),
    cmocka_unit_test(the_level_is_the_lower_of_cap_and_cpu),
    cmocka_unit_test(a_small_stack_of_signals_means_a_level_without_tiles),
    cmocka_unit_test(the_reason_fits_its_room_in_whole_characters),
    cmocka_unit_test(options_of_older_and_newer_headers_work),
    cmocka_unit_test(memory_comes_from_the_callers_allocator),
    cmocka_unit_test(a_hundred_thousand_handles_leave_nothing),
    cmocka_unit_test(two_levels_side_by_side_give_the_same_rows),
    cmocka_unit_test(a_context_keeps_its_pool_and_the_last_one_joins_its_threads),
    cmocka_unit_test(contexts_of_many_threads_share_pool_and_table),
    cmocka_unit_test(after_fork_only_contexts_without_a_pool_work_in_the_child),
    cmocka_unit_test(the_callers_executor_runs_the_work),
};
TEST_MAIN(tests)
