/* SPDX-License-Identifier: BSD-3-Clause */
/* Worker threads that sleep on a condition variable and join one job at a time. The caller is worker 0. It waits only
 * for workers that have joined: one that wakes too late finds the job closed, so a busy machine delays nobody.
 *
 * Each worker begins with a range of tasks of its own, the same in every run of as many tasks: what a run writes is in
 * the cache of the core that wrote it in the last one, and a worker reads on where it left off. Who has finished helps
 * the others, from the far end of their ranges. */
#include "thread/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/refcount.h"
#include "thread/run.h"

enum { MOST_THREADS = 1024, WORKER_STACK = 256 << 10 /* bytes: tasks keep their buffers in scratch */, CACHE_LINE = 64 };
/* A sleep and a wake cost as much as a short call. Who waits looks so many times before it sleeps, 5 to 20 us: enough for
 * the last task of another worker, and for a call that follows closely. */
enum { LOOKS = 400 };

struct embed_pool {
  embed__refcount references;
  int32_t threads; /* with the caller */
  int64_t pid;
  atomic_bool busy;
  pthread_mutex_t mutex; /* guards what follows */
  pthread_cond_t work, finished;
  _Atomic uint64_t generation; /* of the job on offer; written under the mutex, as joined is */
  bool open, stop;             /* open: workers may still join */
  _Atomic int32_t joined;
  int32_t started; /* threads that exist */
  embed_task *task;
  void *job;
  struct worker {                              /* [0]: the caller, without a thread */
    _Alignas(CACHE_LINE) int64_t first, count; /* its range of the job's tasks */
    _Atomic int64_t claimed;                   /* of them, by anybody */
    _Atomic int64_t helped;                    /* of those, by others: these lie at the end */
    pthread_t thread;
    embed_pool *pool;
    int32_t index;
  } workers[];
};

/* A claim is a right to one task of the range. There are `count` of them, so that those taken from the front and those
 * taken from the end never meet. */
static bool claim(struct worker *of) { return atomic_fetch_add_explicit(&of->claimed, 1, memory_order_relaxed) < of->count; }

static void run_tasks(embed_pool *pool, int32_t worker) {
  struct worker *self = &pool->workers[worker];
  for (int64_t next = self->first; claim(self); ++next) pool->task(pool->job, next, worker);
  for (int32_t i = 1; i < pool->threads; ++i) {
    struct worker *other = &pool->workers[(worker + i) % pool->threads];
    if (atomic_load_explicit(&other->claimed, memory_order_relaxed) >= other->count) continue; /* a look costs less than a claim */
    for (int64_t last = other->first + other->count - 1; claim(other);)
      pool->task(pool->job, last - atomic_fetch_add_explicit(&other->helped, 1, memory_order_relaxed), worker);
  }
}

static void pause_a_little(void) {
#if defined __x86_64__ || defined __i386__
  __builtin_ia32_pause();
#elif defined __aarch64__
  __asm__ volatile("yield");
#endif
}

static void share_out(embed_pool *pool, int64_t n) {
  const int64_t each = n / pool->threads, more = n % pool->threads;
  for (int32_t i = 0; i < pool->threads; ++i) {
    struct worker *w = &pool->workers[i];
    w->first = i * each + (i < more ? i : more);
    w->count = each + (i < more);
    atomic_store_explicit(&w->claimed, 0, memory_order_relaxed);
    atomic_store_explicit(&w->helped, 0, memory_order_relaxed);
  }
}

static void *work(void *arg) {
  struct worker *self = arg;
  embed_pool *pool = self->pool;
  uint64_t seen = 0;
  pthread_mutex_lock(&pool->mutex);
  for (;;) {
    while (!pool->stop && !(pool->open && pool->generation != seen)) pthread_cond_wait(&pool->work, &pool->mutex);
    if (pool->stop) break;
    seen = pool->generation;
    ++pool->joined;
    pthread_mutex_unlock(&pool->mutex);
    run_tasks(pool, self->index);
    pthread_mutex_lock(&pool->mutex);
    if (--pool->joined == 0) pthread_cond_signal(&pool->finished);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < LOOKS && atomic_load_explicit(&pool->generation, memory_order_relaxed) == seen; ++i) pause_a_little();
    pthread_mutex_lock(&pool->mutex);
  }
  pthread_mutex_unlock(&pool->mutex);
  return NULL;
}

static size_t pool_bytes(int32_t threads) { return sizeof(embed_pool) + (size_t)threads * sizeof(struct worker); }

static void destroy(embed_pool *pool) {
  pthread_mutex_lock(&pool->mutex);
  pool->stop = true;
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->mutex);
  for (int32_t i = 1; i <= pool->started; ++i) pthread_join(pool->workers[i].thread, NULL);
  pthread_cond_destroy(&pool->finished);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->mutex);
  embed__free(&embed__default_allocator, pool, pool_bytes(pool->threads), EMBED__ALIGNMENT);
}

/* Signals belong to the host's threads: ours are created with all of them blocked. */
static embed_status start_workers(embed_pool *pool) {
  pthread_attr_t attributes;
  sigset_t all, before;
  if (pthread_attr_init(&attributes)) return EMBED_E_MEMORY;
  (void)pthread_attr_setstacksize(&attributes, WORKER_STACK);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = 0;
  while (!failed && pool->started < pool->threads - 1) {
    struct worker *w = &pool->workers[pool->started + 1];
    w->pool = pool;
    w->index = pool->started + 1;
    failed = pthread_create(&w->thread, &attributes, work, w);
    if (!failed) ++pool->started;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return failed ? EMBED_E_MEMORY : EMBED_OK;
}

static int32_t usable_cpus(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int count = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
  return count < 1 ? 1 : count > MOST_THREADS ? MOST_THREADS : count;
}

embed_status embed_pool_create(int32_t threads, embed_pool **out) {
  if (!out) return EMBED_E_ARGUMENT;
  *out = NULL;
  if (threads < 0 || threads > MOST_THREADS) return EMBED_E_ARGUMENT;
  if (threads == 0) threads = usable_cpus();
  embed_pool *pool = embed__new(&embed__default_allocator, pool_bytes(threads));
  if (!pool) return EMBED_E_MEMORY;
  pool->references = 1;
  pool->threads = threads;
  pool->pid = (int64_t)getpid();
  if (pthread_mutex_init(&pool->mutex, NULL) || pthread_cond_init(&pool->work, NULL) || pthread_cond_init(&pool->finished, NULL)) {
    embed__free(&embed__default_allocator, pool, pool_bytes(threads), EMBED__ALIGNMENT);
    return EMBED_E_MEMORY;
  }
  embed_status status = start_workers(pool);
  if (status != EMBED_OK) {
    destroy(pool);
    return status;
  }
  *out = pool;
  return EMBED_OK;
}

embed_pool *embed__pool_retain(embed_pool *pool) {
  if (pool) embed__retain(&pool->references);
  return pool;
}

void embed__pool_release(embed_pool *pool) {
  if (!pool || !embed__release(&pool->references)) return;
  if (pool->pid == (int64_t)getpid())
    destroy(pool);
  else
    embed__free(&embed__default_allocator, pool, pool_bytes(pool->threads), EMBED__ALIGNMENT); /* a forked child: no threads to join */
}

embed_pool *embed_pool_retain(embed_pool *pool) { return embed__pool_retain(pool); }

void embed_pool_release(embed_pool *pool) { embed__pool_release(pool); }

int64_t embed__pool_pid(const embed_pool *pool) { return pool->pid; }

int32_t embed__pool_threads(const embed_pool *pool) { return pool->threads; }

void embed__pool_run(embed_pool *pool, int64_t n, embed_task *task, void *job) {
  bool idle = false;
  if (n < 2 || pool->threads < 2 || !atomic_compare_exchange_strong_explicit(&pool->busy, &idle, true, memory_order_acquire, memory_order_relaxed)) {
    for (int64_t i = 0; i < n; ++i) task(job, i, 0);
    return;
  }
  pthread_mutex_lock(&pool->mutex);
  pool->task = task;
  pool->job = job;
  share_out(pool, n);
  ++pool->generation;
  pool->open = true;
  if (n - 1 >= pool->threads - 1) {
    pthread_cond_broadcast(&pool->work);
  } else {
    for (int64_t i = 0; i < n - 1; ++i) pthread_cond_signal(&pool->work);
  }
  pthread_mutex_unlock(&pool->mutex);
  run_tasks(pool, 0);
  pthread_mutex_lock(&pool->mutex);
  pool->open = false;
  pthread_mutex_unlock(&pool->mutex);
  for (int i = 0; i < LOOKS && atomic_load_explicit(&pool->joined, memory_order_relaxed); ++i) pause_a_little();
  pthread_mutex_lock(&pool->mutex);
  while (pool->joined) pthread_cond_wait(&pool->finished, &pool->mutex);
  pthread_mutex_unlock(&pool->mutex);
  atomic_store_explicit(&pool->busy, false, memory_order_release);
}
