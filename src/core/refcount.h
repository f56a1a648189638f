/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__REFCOUNT_H
#define EMBED__REFCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>

typedef atomic_int embed__refcount;

static inline void embed__retain(embed__refcount *count) { atomic_fetch_add_explicit(count, 1, memory_order_relaxed); }

/* True for the caller that dropped the last reference; it sees what all the others wrote. */
static inline bool embed__release(embed__refcount *count) {
  return atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel) == 1; /* no fence: thread sanitizers do not see those */
}

#endif
