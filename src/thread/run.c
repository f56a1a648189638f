/* SPDX-License-Identifier: BSD-3-Clause */
#include "thread/run.h"

#include <stdatomic.h>

#include "core/checked.h"
#include "core/error.h"
#include "thread/pool.h"

int32_t embed__workers(const embed_context *ctx) {
  if (ctx->executor.run) return ctx->executor.workers;
  return ctx->pool ? embed__pool_threads(ctx->pool) : 1;
}

/* The executor is not ours: its indices are checked, counted and summed up, so that one out of range, left out or run
 * twice is an error and neither a stray write nor an unwritten row. */
typedef struct watched {
  embed_task *task;
  void *job;
  int64_t n;
  int32_t workers;
  _Atomic int64_t runs;
  _Atomic uint64_t mixed; /* sum of mix(index): right only for each index once, up to chance of 2^-64 */
  atomic_bool wrong;
} watched;

static uint64_t mix(int64_t index) { /* splitmix64 */
  uint64_t x = (uint64_t)index + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

static void run_watched(void *arg, int64_t index, int32_t worker) {
  watched *w = arg;
  if (index < 0 || index >= w->n || worker < 0 || worker >= w->workers) {
    atomic_store(&w->wrong, true);
    return;
  }
  w->task(w->job, index, worker);
  atomic_fetch_add(&w->runs, 1);
  atomic_fetch_add(&w->mixed, mix(index));
}

static embed_status run_on_executor(embed_context *ctx, int64_t n, embed_task *task, void *job) {
  const embed_executor *e = &ctx->executor;
  watched w = {.task = task, .job = job, .n = n, .workers = e->workers};
  embed_status status = e->run(e->arg, n, run_watched, &w);
  if (status != 0) return embed__fail(ctx, EMBED_E_CALLBACK, -1, "the executor answered %d", status);
  int64_t runs = atomic_load(&w.runs);
  if (atomic_load(&w.wrong)) return embed__fail(ctx, EMBED_E_CALLBACK, -1, "the executor ran a task index or worker out of range");
  if (runs != n) return embed__fail(ctx, EMBED_E_CALLBACK, -1, "the executor ran %lld of %lld tasks", (long long)runs, (long long)n);
  uint64_t once = 0;
  for (int64_t i = 0; i < n; ++i) once += mix(i);
  if (atomic_load(&w.mixed) != once) return embed__fail(ctx, EMBED_E_CALLBACK, -1, "the executor ran some of %lld tasks twice and others never", (long long)n);
  return EMBED_OK;
}

embed_status embed__run(embed_context *ctx, int64_t n, embed_task *task, void *job) {
  if (n < 1) return EMBED_OK;
  if (ctx->executor.run) return run_on_executor(ctx, n, task, job);
  if (ctx->pool) {
    embed__pool_run(ctx->pool, n, task, job);
  } else {
    for (int64_t i = 0; i < n; ++i) task(job, i, 0);
  }
  return EMBED_OK;
}

typedef struct stoppable {
  embed_task *task;
  void *job;
  int64_t first;
  const int32_t *cancel;
  atomic_bool stopped;
} stoppable;

static void run_stoppable(void *arg, int64_t index, int32_t worker) {
  stoppable *s = arg;
  if (s->cancel && __atomic_load_n(s->cancel, __ATOMIC_RELAXED)) {
    atomic_store_explicit(&s->stopped, true, memory_order_relaxed);
    return;
  }
  s->task(s->job, s->first + index, worker);
}

static embed_status cancelled(embed_context *ctx) { return embed__fail(ctx, EMBED_E_CANCELLED, -1, "the cancel flag was set"); }

static embed_status tell_progress(embed_context *ctx, int64_t done, int64_t total) {
  if (!ctx->progress || !ctx->progress(ctx->progress_arg, done, total)) return EMBED_OK;
  return embed__fail(ctx, EMBED_E_CANCELLED, -1, "the progress callback stopped at %lld of %lld", (long long)done, (long long)total);
}

embed_status embed__pause(embed_context *ctx, int64_t done, int64_t total) {
  if (ctx->cancel && __atomic_load_n(ctx->cancel, __ATOMIC_RELAXED)) return cancelled(ctx);
  return tell_progress(ctx, done, total);
}

embed_status embed__run_long(embed_context *ctx, int64_t n, embed_task *task, void *job, int64_t done, int64_t total) {
  if (!ctx->cancel && !ctx->progress) return embed__run(ctx, n, task, job);
  enum { ROUNDS = 100 }; /* progress is told about so many times per call */
  int64_t round = n;
  if (ctx->progress) round = embed__max(4 * (int64_t)embed__workers(ctx), embed__ceil_div(n, ROUNDS));
  for (int64_t first = 0; first < n; first += round) {
    stoppable s = {.task = task, .job = job, .first = first, .cancel = ctx->cancel};
    int64_t count = embed__min(round, n - first);
    EMBED__TRY(embed__run(ctx, count, run_stoppable, &s));
    if (atomic_load(&s.stopped)) return cancelled(ctx);
    EMBED__TRY(tell_progress(ctx, done + first + count, total));
  }
  return EMBED_OK;
}
