/* SPDX-License-Identifier: BSD-3-Clause */
/* A kernel family's file is its test and its benchmark: beside its facts stands one function with the cases that are
 * worth timing. The test runs each case once, at every level. bench_kernel is made of the same files, compiled with
 * KERNEL_BENCH: it times them, beside the time of level scalar and what this machine can do at most. */
#ifndef TEST_KERNEL_TIMED_H
#define TEST_KERNEL_TIMED_H

#include "levels.h"

typedef enum timed_limit {
  TIMED_BYTES,      /* read and written, against reading as many bytes again and again */
  TIMED_OPERATIONS, /* of floats, against multiply-adds */
  TIMED_DIGITS,     /* of 8-bit numbers, against vpdpbusd where there is one */
  TIMED_PAIRS       /* of bfloats, against vdpbf16ps where there is one */
} timed_limit;

typedef void timed_kernel(void);

typedef struct timed_case {
  const char *what;     /* the same at every level; copied */
  timed_kernel *kernel; /* by its address it is known whether a level has its own; NULL: it has none */
  void (*run)(void *job);
  void *job;
  double amount; /* of what the limit counts, in one run */
  timed_limit limit;
} timed_case;

typedef struct kernel_timer kernel_timer;
/* Gives a level's cases to kernel_bench. At level scalar each stands for the specification, also where k has no kernel
 * there. Working sets stay in a second-level cache: what memory makes of a kernel is bench_op's to say. */
typedef void timed_family(const embed__kernels *k, kernel_timer *t);

#ifdef KERNEL_BENCH
void kernel_bench(kernel_timer *t, const timed_case *c);
void kernel_bench_family(const char *name, timed_family *family);
/* Before main: whoever adds a file need not name it anywhere else. */
#define KERNEL_MAIN(name, tests, family)                \
  __attribute__((constructor)) static void join(void) { \
    (void)(tests);                                      \
    kernel_bench_family(name, family);                  \
  }
#else
static inline void kernel_bench(kernel_timer *t, const timed_case *c) {
  (void)t;
  assert_true(c->amount > 0 && *c->what);
  if (c->kernel) c->run(c->job);
}
#define KERNEL_MAIN(name, tests, family) TEST_MAIN(tests)
#endif

/* The fact timed_cases_run of a file whose cases are in `family`. */
#define KERNEL_CASES(family)                                          \
  static void run_cases(const embed__kernels *k) { family(k, NULL); } \
  static void timed_cases_run(void **state) {                         \
    (void)state;                                                      \
    each_level(0, run_cases);                                         \
  }

#endif
