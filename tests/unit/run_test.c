/* SPDX-License-Identifier: BSD-3-Clause */
/* Tasks on the caller's executor, which may be wrong; long work that is watched and stopped. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core/context.h"
#include "thread/run.h"

typedef struct tally {
  atomic_int runs[256];
  int64_t n;
} tally;

static void count(void *arg, int64_t index, int32_t worker) {
  tally *t = arg;
  (void)worker;
  assert_true(index >= 0 && index < t->n);
  atomic_fetch_add(&t->runs[index], 1);
}

typedef embed_status run_function(void *arg, int64_t n, embed_task *task, void *job);

static embed_context *context_on(run_function *run, void *arg, int32_t workers) {
  embed_executor executor = {.size = sizeof executor, .arg = arg, .run = run, .workers = workers};
  embed_context_options o = {.size = sizeof o, .executor = &executor};
  embed_context *ctx;
  assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
  memset(&executor, 0xEE, sizeof executor); /* it was copied */
  return ctx;
}

static embed_status run_serially(void *arg, int64_t n, embed_task *task, void *job) {
  (void)arg;
  for (int64_t i = n - 1; i >= 0; --i) task(job, i, 0); /* any order */
  return 0;
}

typedef struct crew {
  embed_task *task;
  void *job;
  int64_t n;
  _Atomic int64_t next;
  atomic_int workers;
} crew;

static void *work(void *arg) {
  crew *c = arg;
  int32_t worker = atomic_fetch_add(&c->workers, 1);
  for (int64_t i; (i = atomic_fetch_add(&c->next, 1)) < c->n;) c->task(c->job, i, worker);
  return NULL;
}

static embed_status run_on_threads(void *arg, int64_t n, embed_task *task, void *job) {
  (void)arg;
  crew c = {.task = task, .job = job, .n = n};
  pthread_t thread[3];
  for (int i = 0; i < 3; ++i)
    if (pthread_create(&thread[i], NULL, work, &c)) return 1;
  for (int i = 0; i < 3; ++i) pthread_join(thread[i], NULL);
  return 0;
}

static void an_executor_runs_each_task_once(void **state) {
  (void)state;
  static const struct {
    run_function *run;
    int32_t workers;
  } executors[] = {{run_serially, 1}, {run_on_threads, 3}};
  for (int e = 0; e < 2; ++e) {
    embed_context *ctx = context_on(executors[e].run, NULL, executors[e].workers);
    assert_int_equal(embed__workers(ctx), executors[e].workers);
    for (int64_t n = 0; n <= 256; n += n < 10 ? 1 : 41) {
      tally t = {.n = n};
      assert_int_equal(embed__run(ctx, n, count, &t), EMBED_OK);
      for (int64_t i = 0; i < 256; ++i) assert_int_equal(atomic_load(&t.runs[i]), i < n);
    }
    embed_context_release(ctx);
  }
}

typedef enum lie {
  ANSWERS_7,
  ANSWERS_MINUS_1,
  RUNS_NOTHING,
  LEAVES_ONE_OUT,
  ONE_TOO_MANY,
  NEGATIVE_INDEX,
  INDEX_N,
  FAR_INDEX,
  WORKER_NEGATIVE,
  WORKER_PAST,
  ONE_TWICE,
  LIES
} lie;

static embed_status run_wrongly(void *arg, int64_t n, embed_task *task, void *job) {
  lie kind = *(const lie *)arg;
  int64_t wrong = n / 2;
  if (kind == RUNS_NOTHING) return 0;
  for (int64_t i = 0; i < n; ++i) {
    if (i == wrong && kind == LEAVES_ONE_OUT) continue;
    if (i == wrong && kind == ONE_TWICE)
      task(job, i ? i - 1 : n - 1, 0);
    else if (i == wrong && kind == WORKER_NEGATIVE)
      task(job, i, -1);
    else if (i == wrong && kind == WORKER_PAST)
      task(job, i, 1);
    else
      task(job, i, 0);
  }
  if (kind == ONE_TOO_MANY) task(job, wrong, 0);
  if (kind == NEGATIVE_INDEX) task(job, -1, 0);
  if (kind == INDEX_N) task(job, n, 0);
  if (kind == FAR_INDEX) task(job, INT64_MAX, 0);
  return kind == ANSWERS_7 ? 7 : kind == ANSWERS_MINUS_1 ? -1 : 0;
}

static void an_executor_that_fails_or_lies_is_an_error(void **state) {
  (void)state;
  for (lie kind = 0; kind < LIES; ++kind) {
    embed_context *ctx = context_on(run_wrongly, &kind, 1);
    for (int64_t n = kind == ONE_TWICE ? 2 : 1; n < 20; n += 6) {
      tally t = {.n = n}; /* count() would catch a stray index */
      if (embed__run(ctx, n, count, &t) != EMBED_E_CALLBACK) fail_msg("lie %d was believed for %d tasks", kind, (int)n);
      assert_non_null(strstr(embed_error_text(ctx), "executor"));
    }
    embed_context_release(ctx);
  }
}

typedef struct watcher {
  pthread_t caller;
  int64_t calls, last, total, stop_at; /* stop_at < 0: never */
  int32_t cancel_at, cancel;
} watcher;

static int32_t watch(void *arg, int64_t done, int64_t total) {
  watcher *w = arg;
  assert_true(pthread_equal(pthread_self(), w->caller));
  assert_true(done > w->last && done <= total);
  w->last = done;
  w->total = total;
  if (w->cancel_at == ++w->calls) __atomic_store_n(&w->cancel, 1, __ATOMIC_RELAXED);
  return w->stop_at >= 0 && done >= w->stop_at;
}

static embed_context *watched_context(watcher *w, embed_pool *pool, int progress, int cancel) {
  embed_context_options o = {.size = sizeof o, .pool = pool, .progress_arg = w};
  embed_context *ctx;
  if (progress) o.progress = watch;
  if (cancel) o.cancel = &w->cancel;
  w->caller = pthread_self();
  assert_int_equal(embed_context_create(&o, &ctx), EMBED_OK);
  return ctx;
}

static void progress_ascends_to_the_total_on_the_callers_thread(void **state) {
  (void)state;
  embed_pool *pool;
  assert_int_equal(embed_pool_create(3, &pool), EMBED_OK);
  for (int with_pool = 0; with_pool < 2; ++with_pool) {
    for (int64_t n = 1; n <= 256; n += 17) {
      watcher w = {.stop_at = -1};
      tally t = {.n = n};
      embed_context *ctx = watched_context(&w, with_pool ? pool : NULL, 1, 1);
      assert_int_equal(embed__run_long(ctx, n, count, &t, 1000, 5000), EMBED_OK);
      assert_int_equal(w.last, 1000 + n);
      assert_int_equal(w.total, 5000);
      for (int64_t i = 0; i < n; ++i) assert_int_equal(atomic_load(&t.runs[i]), 1);
      embed_context_release(ctx);
    }
  }
  embed_pool_release(pool);
}

static int total_runs(const tally *t) {
  int sum = 0;
  for (int i = 0; i < 256; ++i) sum += atomic_load(&t->runs[i]);
  return sum;
}

static void progress_and_cancel_stop_the_work(void **state) {
  (void)state;
  watcher w = {.stop_at = 50};
  tally t = {.n = 256};
  embed_context *ctx = watched_context(&w, NULL, 1, 0);
  assert_int_equal(embed__run_long(ctx, 256, count, &t, 0, 256), EMBED_E_CANCELLED);
  assert_true(total_runs(&t) >= 50 && total_runs(&t) < 100);
  assert_non_null(strstr(embed_error_text(ctx), "256"));
  embed_context_release(ctx);

  watcher flagged = {.stop_at = -1, .cancel_at = 3};
  tally some = {.n = 256};
  ctx = watched_context(&flagged, NULL, 1, 1);
  assert_int_equal(embed__run_long(ctx, 256, count, &some, 0, 256), EMBED_E_CANCELLED);
  assert_true(total_runs(&some) > 0 && total_runs(&some) < 100);
  embed_context_release(ctx);

  watcher set = {.stop_at = -1, .cancel = 1};
  tally none = {.n = 256};
  ctx = watched_context(&set, NULL, 0, 1);
  assert_int_equal(embed__run_long(ctx, 256, count, &none, 0, 256), EMBED_E_CANCELLED);
  assert_int_equal(total_runs(&none), 0);
  assert_int_equal(embed__run_long(ctx, 0, count, &none, 0, 0), EMBED_OK); /* nothing to stop */
  assert_int_equal(embed__run(ctx, 256, count, &none), EMBED_OK);          /* short work is all or nothing */
  embed_context_release(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_executor_runs_each_task_once),
    cmocka_unit_test(an_executor_that_fails_or_lies_is_an_error),
    cmocka_unit_test(progress_ascends_to_the_total_on_the_callers_thread),
    cmocka_unit_test(progress_and_cancel_stop_the_work),
};
TEST_MAIN(tests)
