/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__LEAST_H
#define EMBED__LEAST_H

#include <stdatomic.h>
#include <stdint.h>

/* Keeps the least position that any task reported: the same for any number of threads. */
static inline void embed__keep_least(_Atomic int64_t *least, int64_t position) {
  int64_t known = atomic_load(least);
  while (position < known && !atomic_compare_exchange_weak(least, &known, position)) {
  }
}

#endif
