/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__POOL_H
#define EMBED__POOL_H

#include <embed/context.h>

int32_t embed__pool_threads(const embed_pool *pool); /* with the caller */
/* Runs the tasks on the pool's threads and this one; where the pool is busy, on this one alone. */
void embed__pool_run(embed_pool *pool, int64_t n, embed_task *task, void *job);

#endif
