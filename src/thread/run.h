/* SPDX-License-Identifier: BSD-3-Clause */
/* Run n tasks: on the context's pool, on the caller's executor, or here. Nothing else creates threads.
 * A task never waits for another; how many threads there are never changes what is computed. */
#ifndef EMBED__RUN_H
#define EMBED__RUN_H

#include "core/context.h"

/* A task's `worker` is below this; no two tasks with the same worker run at once. */
int32_t embed__workers(const embed_context *ctx);

/* Short work: all or nothing. EMBED_E_CALLBACK when the caller's executor fails. */
embed_status embed__run(embed_context *ctx, int64_t n, embed_task *task, void *job);

/* Long work: the context's cancel flag is read before each task, its progress called on this thread between rounds of
 * tasks. EMBED_E_CANCELLED when either says stop; tasks already begun finish. done, total: steps behind and in all of
 * the whole call, of which these n are a part (done = 0, total = n when they are all). */
embed_status embed__run_long(embed_context *ctx, int64_t n, embed_task *task, void *job, int64_t done, int64_t total);

embed_pool *embed__pool_retain(embed_pool *pool); /* NULL is fine in both */
void embed__pool_release(embed_pool *pool);
/* For long work that is one step after another: looks at cancel and tells progress. */
embed_status embed__pause(embed_context *ctx, int64_t done, int64_t total);

/* The process that made the pool's threads. */
int64_t embed__pool_pid(const embed_pool *pool);

#endif
