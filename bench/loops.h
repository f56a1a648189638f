/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops that measure a machine's limits, for the widest instruction set of this CPU. */
#ifndef BENCH_LOOPS_H
#define BENCH_LOOPS_H

#include <stddef.h>
#include <stdint.h>

enum { BENCH_MOST_STREAMS = 6 };

typedef struct bench_loops {
  const char *name;
  /* Reads `streams` runs of `stretch` bytes, one behind the other in memory, side by side, a cache line of each in
   * turn. at: 64-byte aligned; stretch: a multiple of 64. The result keeps the compiler from leaving the reads out. */
  uint64_t (*read)(const char *at, size_t stretch, int streams);
  /* Past the caches where the instruction set can. 64-byte aligned; bytes: a multiple of 512. */
  void (*write)(char *to, size_t bytes);
  void (*copy)(char *to, const char *from, size_t bytes);
  /* Independent chains of fp32 multiply-adds, as many as hide their latency. */
  float (*multiply_add)(int64_t steps);
  double flops; /* of one step */
} bench_loops;

const bench_loops *bench_loops_of_this_cpu(void);

/* Products of short numbers, summed in lanes of 32 bits: as many independent chains. NULL: this CPU has no such instruction. */
typedef struct bench_products {
  int64_t (*bytes)(int64_t steps); /* unsigned times signed, four a lane */
  int64_t (*pairs)(int64_t steps); /* bfloats, two a lane */
} bench_products;

enum { BENCH_BYTE_OPERATIONS = 2 * 64 * 12, BENCH_PAIR_OPERATIONS = 2 * 32 * 12 /* of one step */ };

bench_products bench_products_of_this_cpu(void);

#endif
