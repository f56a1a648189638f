/* SPDX-License-Identifier: BSD-3-Clause */
/* Extents are products of numbers that callers and files give: every one goes through here. */
#ifndef EMBED__CHECKED_H
#define EMBED__CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* *out = a * b, or false and *out = -1 when it does not fit or a factor is negative. */
static inline bool embed__mul(int64_t a, int64_t b, int64_t *out) {
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, out)) {
    *out = -1;
    return false;
  }
  return true;
}

static inline bool embed__add(int64_t a, int64_t b, int64_t *out) {
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, out)) {
    *out = -1;
    return false;
  }
  return true;
}

static inline int64_t embed__min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t embed__max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t embed__ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); } /* a >= 0, b > 0 */

#endif
