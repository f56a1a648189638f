/* SPDX-License-Identifier: BSD-3-Clause */
#include <embed/embed.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 3, ROWS = 20000, DIM = 64, N = 32, K = 5 };

/* Somebody's threads: call(arg, item, thread) for each item, on THREADS threads. */
typedef struct team {
  void (*call)(void *arg, int64_t item, int thread);
  void *arg;
  int64_t n;
  atomic_long next;
  atomic_int threads;
} team;

static void *member(void *arg) {
  team *t = arg;
  int thread = atomic_fetch_add(&t->threads, 1);
  for (int64_t i; (i = atomic_fetch_add(&t->next, 1)) < t->n;) t->call(t->arg, i, thread);
  return NULL;
}

static int for_each(void (*call)(void *arg, int64_t item, int thread), void *arg, int64_t n) {
  team t = {.call = call, .arg = arg, .n = n};
  pthread_t threads[THREADS];
  int started = 0;
  while (started < THREADS && pthread_create(&threads[started], NULL, member, &t) == 0) ++started;
  for (int i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  return started > 0 ? 0 : -1;
}

/* 1. Threads that say which one they are: that is the worker. */
typedef struct work {
  embed_task *task;
  void *job;
  atomic_bool *taken;
} work;

static void call_with_thread(void *arg, int64_t item, int thread) {
  work *w = arg;
  w->task(w->job, item, thread);
}
static embed_status run_with_thread(void *arg, int64_t n, embed_task *task, void *job) {
  work w = {.task = task, .job = job};
  (void)arg;
  return for_each(call_with_thread, &w, n) == 0 ? EMBED_OK : EMBED_E_CALLBACK;
}

/* 2. Threads that do not: each call takes a worker that is free. */
static void call_any(void *arg, int64_t item, int thread) {
  work *w = arg;
  int worker = 0;
  (void)thread;
  while (atomic_exchange(&w->taken[worker], 1)) worker = (worker + 1) % THREADS;
  w->task(w->job, item, worker);
  atomic_store(&w->taken[worker], 0);
}
static embed_status run_any(void *arg, int64_t n, embed_task *task, void *job) {
  atomic_bool taken[THREADS] = {0};
  work w = {.task = task, .job = job, .taken = taken};
  (void)arg;
  return for_each(call_any, &w, n) == 0 ? EMBED_OK : EMBED_E_CALLBACK;
}

/* The best K of N rows with an executor, or with the calling thread alone; all three give the same bits. */
static int best_of(embed_status (*run)(void *, int64_t, embed_task *, void *), int32_t *ids, float *logits) {
  static float rows[N * DIM];
  int32_t names[N];
  embed_context *ctx = NULL;
  embed_table *table = NULL;
  embed_head *head = NULL;
  embed_executor executor = {.size = sizeof executor, .run = run, .workers = THREADS};
  embed_context_options with = {.size = sizeof with, .executor = run ? &executor : NULL};
  embed_init_options normal = {.size = sizeof normal, .kind = EMBED_INIT_NORMAL, .seed = 1};
  for (int i = 0; i < N; ++i) names[i] = i * 31;
  if (embed_context_create(&with, &ctx)) return 1;
  int failed = embed_table_create(ctx, ROWS, DIM, NULL, &table) || embed_table_init(ctx, table, &normal) ||
               embed_lookup(ctx, table, names, N, rows, EMBED_F32, 0, NULL) || embed_head_create(ctx, table, NULL, NULL, &head) ||
               embed_topk(ctx, head, rows, EMBED_F32, N, 0, K, ids, logits, NULL, NULL, NULL);
  if (failed) fprintf(stderr, "%s\n", embed_error_text(ctx));
  embed_head_release(head);
  embed_table_release(table);
  embed_context_release(ctx);
  return failed;
}

int main(void) {
  int32_t alone_ids[N * K], ids[N * K];
  float alone[N * K], logits[N * K];
  if (best_of(NULL, alone_ids, alone)) return 1;
  for (int way = 0; way < 2; ++way) {
    if (best_of(way ? run_any : run_with_thread, ids, logits)) return 1;
    int same = memcmp(ids, alone_ids, sizeof ids) == 0 && memcmp(logits, alone, sizeof logits) == 0;
    printf("%s: %s\n", way ? "any worker that is free" : "the thread's own number", same ? "the same bits as alone" : "OTHER BITS");
    if (!same) return 1;
  }
  return 0;
}
