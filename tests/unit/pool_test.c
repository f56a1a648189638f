/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool: each task once, one at a time per worker, nobody waits for a busy pool, signals stay the host's. */
#include "test.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "core/memory.h"
#include "core/refcount.h"
#include "thread/pool.h"
#include "thread/run.h"

enum { MOST = 3000 };

typedef struct tally {
  atomic_int runs[MOST];
  atomic_int inside[64]; /* of worker */
  atomic_int wrong;
  int32_t workers;
  int64_t n;
} tally;

static void count(void *arg, int64_t index, int32_t worker) {
  tally *t = arg;
  if (index < 0 || index >= t->n || worker < 0 || worker >= t->workers) {
    atomic_store(&t->wrong, 1);
    return;
  }
  if (atomic_fetch_add(&t->inside[worker], 1)) atomic_store(&t->wrong, 1);
  atomic_fetch_add(&t->runs[index], 1);
  atomic_fetch_sub(&t->inside[worker], 1);
}

static void run_and_check(embed_pool *pool, tally *t, int64_t n) {
  memset(t, 0, sizeof *t);
  t->n = n;
  t->workers = embed__pool_threads(pool);
  embed__pool_run(pool, n, count, t);
  assert_false(atomic_load(&t->wrong));
  for (int64_t i = 0; i < MOST; ++i)
    if (atomic_load(&t->runs[i]) != (i < n)) fail_msg("task %d of %d ran %d times", (int)i, (int)n, atomic_load(&t->runs[i]));
}

static void each_task_runs_once_for_any_number(void **state) {
  (void)state;
  static tally t;
  for (int32_t threads = 1; threads <= 9; threads += 2) {
    embed_pool *pool;
    assert_int_equal(embed_pool_create(threads, &pool), EMBED_OK);
    assert_int_equal(embed__pool_threads(pool), threads);
    for (int64_t n = 0; n < 40; ++n) run_and_check(pool, &t, n);
    for (int i = 0; i < 30; ++i) run_and_check(pool, &t, MOST - i);
    embed_pool_release(pool);
  }
}

enum { RANGE = 100, RANGES = 4 };

typedef struct ranges {
  atomic_int first_task[RANGES]; /* of worker, -1: none yet */
  atomic_int begun, done, last_own, late;
} ranges;

static void wait_until(atomic_int *counter, int value, atomic_int *late) {
  for (int i = 0; i < 100000 && atomic_load(counter) < value; ++i) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  if (atomic_load(counter) < value) atomic_store(late, 1);
}

/* Nobody ends its first task before everybody has begun one. */
static void begin_together(void *arg, int64_t index, int32_t worker) {
  ranges *r = arg;
  int none = -1;
  if (!atomic_compare_exchange_strong(&r->first_task[worker], &none, (int)index)) return;
  atomic_fetch_add(&r->begun, 1);
  wait_until(&r->begun, RANGES, &r->late);
}

static void each_worker_begins_with_a_range_of_its_own(void **state) {
  (void)state;
  embed_pool *pool;
  assert_int_equal(embed_pool_create(RANGES, &pool), EMBED_OK);
  for (int round = 0; round < 20; ++round) {
    ranges r = {.begun = 0};
    for (int w = 0; w < RANGES; ++w) atomic_store(&r.first_task[w], -1);
    embed__pool_run(pool, RANGES * RANGE, begin_together, &r);
    assert_false(atomic_load(&r.late));
    for (int w = 0; w < RANGES; ++w) assert_int_equal(atomic_load(&r.first_task[w]), w * RANGE);
  }
  embed_pool_release(pool);
}

/* The caller's first task ends when all others have: somebody else must run the rest of its range, from the end. */
static void hold_the_callers_range(void *arg, int64_t index, int32_t worker) {
  ranges *r = arg;
  (void)worker; /* 0 for task 0, unless the caller comes last */
  if (index == 0) {
    wait_until(&r->done, 2 * RANGE - 1, &r->late);
    return;
  }
  if (index < RANGE && atomic_exchange(&r->last_own, (int)index) <= index) atomic_store(&r->late, 1);
  atomic_fetch_add(&r->done, 1);
}

static void who_has_finished_helps_from_the_far_end(void **state) {
  (void)state;
  embed_pool *pool;
  assert_int_equal(embed_pool_create(2, &pool), EMBED_OK);
  for (int round = 0; round < 20; ++round) {
    ranges r = {.last_own = RANGE};
    embed__pool_run(pool, 2 * RANGE, hold_the_callers_range, &r);
    assert_false(atomic_load(&r.late));
    assert_int_equal(atomic_load(&r.done), 2 * RANGE - 1);
    assert_int_equal(atomic_load(&r.last_own), 1);
  }
  embed_pool_release(pool);
}

static int threads_alive(void) {
  int n = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks) return -1;
  while (readdir(tasks)) ++n;
  closedir(tasks);
  return n;
}

static void a_hundred_pools_come_and_go(void **state) {
  (void)state;
  static tally t;
  embed_pool *pool;
  assert_int_equal(embed_pool_create(2, &pool), EMBED_OK); /* a sanitizer starts a thread of its own with the first */
  embed_pool_release(pool);
  int before = threads_alive();
  for (int i = 0; i < 100; ++i) {
    assert_int_equal(embed_pool_create(1 + i % 8, &pool), EMBED_OK);
    if (i % 3) run_and_check(pool, &t, i);
    assert_ptr_equal(embed_pool_retain(pool), pool);
    embed_pool_release(pool);
    embed_pool_release(pool);
  }
  for (int i = 0; threads_alive() > before; ++i) { /* a joined thread leaves /proc a moment later */
    if (i == 200) fail_msg("%d threads before, %d after", before, threads_alive());
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
}

static void wrong_numbers_of_threads_are_refused(void **state) {
  (void)state;
  static const int32_t wrong[] = {-1, INT32_MIN, 1025, INT32_MAX};
  for (int i = 0; i < 4; ++i) {
    embed_pool *pool = (embed_pool *)(uintptr_t)8;
    assert_int_equal(embed_pool_create(wrong[i], &pool), EMBED_E_ARGUMENT);
    assert_null(pool);
  }
  embed_pool *all;
  assert_int_equal(embed_pool_create(2, NULL), EMBED_E_ARGUMENT);
  assert_int_equal(embed_pool_create(0, &all), EMBED_OK); /* the CPUs that the caller may use */
  assert_true(embed__pool_threads(all) >= 1);
  embed_pool_release(all);
  assert_null(embed_pool_retain(NULL));
  embed_pool_release(NULL);
}

typedef struct masks {
  atomic_int others, open;
} masks;

static void look_at_mask(void *arg, int64_t index, int32_t worker) {
  masks *m = arg;
  (void)index;
  if (worker == 0) {
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* leave some to the others */
    return;
  }
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  atomic_fetch_add(&m->others, 1);
  for (int s = 1; s <= 64; ++s)
    if (s != SIGKILL && s != SIGSTOP && s != 32 && s != 33 && !sigismember(&blocked, s)) atomic_store(&m->open, s); /* 32, 33 are glibc's */
}

/* FF-03 */
static void workers_block_every_signal_and_the_callers_mask_stays(void **state) {
  (void)state;
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  embed_pool *pool;
  masks m = {0};
  assert_int_equal(embed_pool_create(4, &pool), EMBED_OK);
  for (int i = 0; i < 1000 && atomic_load(&m.others) == 0; ++i) embed__pool_run(pool, 16, look_at_mask, &m);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  embed_pool_release(pool);
  assert_true(atomic_load(&m.others) > 0);
  assert_int_equal(atomic_load(&m.open), 0);
  for (int s = 1; s <= 64; ++s) assert_int_equal(sigismember(&before, s), sigismember(&after, s));
}

/* A pool held by a job that ends only when a second job on the same pool has ended. */
typedef struct held {
  embed_pool *pool;
  atomic_int begun, second_ended;
  pthread_t second;
  atomic_int foreign; /* tasks of the second job that ran on another thread or worker */
} held;

static void first_task(void *arg, int64_t index, int32_t worker) {
  held *h = arg;
  (void)index;
  (void)worker;
  atomic_store(&h->begun, 1);
  while (!atomic_load(&h->second_ended)) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void second_task(void *arg, int64_t index, int32_t worker) {
  held *h = arg;
  (void)index;
  if (worker != 0 || !pthread_equal(pthread_self(), h->second)) atomic_store(&h->foreign, 1);
}

static void *hold(void *arg) {
  held *h = arg;
  embed__pool_run(h->pool, 4, first_task, h);
  return NULL;
}

static void a_busy_pool_makes_nobody_wait(void **state) {
  (void)state;
  held h = {.second = pthread_self()};
  pthread_t first;
  assert_int_equal(embed_pool_create(3, &h.pool), EMBED_OK);
  assert_int_equal(pthread_create(&first, NULL, hold, &h), 0);
  while (!atomic_load(&h.begun)) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  embed__pool_run(h.pool, 50, second_task, &h); /* waiting here would be for ever */
  atomic_store(&h.second_ended, 1);
  pthread_join(first, NULL);
  assert_false(atomic_load(&h.foreign));
  static tally t;
  run_and_check(h.pool, &t, 100); /* and it is free again */
  embed_pool_release(h.pool);
}

typedef struct nested {
  embed_pool *pool;
  atomic_int inner;
} nested;

static void inner_task(void *arg, int64_t index, int32_t worker) {
  nested *n = arg;
  (void)index;
  (void)worker;
  atomic_fetch_add(&n->inner, 1);
}

static void outer_task(void *arg, int64_t index, int32_t worker) {
  nested *n = arg;
  (void)index;
  (void)worker;
  embed__pool_run(n->pool, 5, inner_task, n);
}

static void a_task_may_use_its_own_pool(void **state) {
  (void)state;
  nested n = {.inner = 0};
  assert_int_equal(embed_pool_create(3, &n.pool), EMBED_OK);
  embed__pool_run(n.pool, 20, outer_task, &n);
  assert_int_equal(atomic_load(&n.inner), 100);
  embed_pool_release(n.pool);
}

typedef struct shared_use {
  embed_pool *pool;
  int failed;
} shared_use;

static void *use_pool(void *arg) {
  shared_use *u = arg;
  tally *t = malloc(sizeof *t);
  for (int i = 0; i < 300 && !u->failed; ++i) {
    memset(t, 0, sizeof *t);
    t->n = 40;
    t->workers = embed__pool_threads(u->pool);
    embed__pool_run(u->pool, t->n, count, t);
    for (int64_t k = 0; k < t->n; ++k) u->failed |= atomic_load(&t->runs[k]) != 1;
    u->failed |= atomic_load(&t->wrong);
  }
  free(t);
  embed_pool_release(u->pool); /* the last user joins the workers */
  return NULL;
}

static void many_threads_share_a_pool(void **state) {
  (void)state;
  embed_pool *pool;
  pthread_t thread[6];
  shared_use use[6];
  assert_int_equal(embed_pool_create(3, &pool), EMBED_OK);
  for (int i = 0; i < 6; ++i) {
    use[i] = (shared_use){.pool = embed_pool_retain(pool)};
    assert_int_equal(pthread_create(&thread[i], NULL, use_pool, &use[i]), 0);
  }
  embed_pool_release(pool);
  for (int i = 0; i < 6; ++i) {
    pthread_join(thread[i], NULL);
    assert_false(use[i].failed);
  }
}

typedef struct counted {
  embed__refcount references;
  atomic_int last;
} counted;

static void *count_up_and_down(void *arg) {
  counted *c = arg;
  for (int i = 0; i < 50000; ++i) {
    embed__retain(&c->references);
    if (embed__release(&c->references)) atomic_fetch_add(&c->last, 1);
  }
  if (embed__release(&c->references)) atomic_fetch_add(&c->last, 1);
  return NULL;
}

static void exactly_one_thread_drops_the_last_reference(void **state) {
  (void)state;
  counted c = {.references = 8};
  pthread_t thread[8];
  for (int i = 0; i < 8; ++i) assert_int_equal(pthread_create(&thread[i], NULL, count_up_and_down, &c), 0);
  for (int i = 0; i < 8; ++i) pthread_join(thread[i], NULL);
  assert_int_equal(atomic_load(&c.last), 1);
  assert_int_equal(atomic_load(&c.references), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_task_runs_once_for_any_number),
    cmocka_unit_test(each_worker_begins_with_a_range_of_its_own),
    cmocka_unit_test(who_has_finished_helps_from_the_far_end),
    cmocka_unit_test(a_hundred_pools_come_and_go),
    cmocka_unit_test(wrong_numbers_of_threads_are_refused),
    cmocka_unit_test(workers_block_every_signal_and_the_callers_mask_stays),
    cmocka_unit_test(a_busy_pool_makes_nobody_wait),
    cmocka_unit_test(a_task_may_use_its_own_pool),
    cmocka_unit_test(many_threads_share_a_pool),
    cmocka_unit_test(exactly_one_thread_drops_the_last_reference),
};

int main(int argc, char **argv) {
  alarm(100); /* who waits for ever has failed */
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
