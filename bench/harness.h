/* SPDX-License-Identifier: BSD-3-Clause */
/* How a sample is taken on a machine that others use too; README.md tells the rules and their reasons. */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loops.h"

typedef struct bench bench;

enum { BENCH_MOST_THREADS = 64, BENCH_ENOUGH = 3 /* kept samples that make a figure */ };

typedef struct bench_options {
  int threads; /* 0 = the CPUs that the process may use */
  bool quick;  /* five samples, none dropped: for show, not for a bar */
} bench_options;

/* What is timed: a call that brings its own threads, or a loop on the harness's threads. */
typedef struct bench_work {
  void (*call)(void *job);
  void (*loop)(void *job, int thread, int threads); /* when call is NULL */
  void (*prepare)(void *job);                       /* before each sample, not timed; may be NULL */
  void *job;
  bool bare;  /* no probes around it: it is a probe itself */
  bool waits; /* for a disk: what it sleeps is no preemption */
} bench_work;

typedef struct bench_figure {
  double seconds; /* median of the kept samples; 0 = none */
  double read;    /* GB/s, median of the probes around them */
  int kept, tried;
  int preempted, unsteady; /* why the others were dropped */
} bench_figure;

/* NULL: no memory, or more threads than CPUs (threads that wait for one another by spinning would wait long). */
bench *bench_create(const bench_options *options);
void bench_release(bench *b);
int bench_threads(const bench *b);
bool bench_is_realtime(const bench *b); /* samples run under SCHED_FIFO; false = it was refused */
const bench_loops *bench_machine_loops(const bench *b);

/* Samples of all works in turns until each has enough; figures [count]. */
void bench_measure(bench *b, const bench_work *works, int count, bench_figure *figures);

/* Read bandwidth by streams per thread, streams[1 .. BENCH_MOST_STREAMS], GB/s; returns the best number, which the
 * probes then use. Call it first. */
int bench_measure_read(bench *b, bench_figure *figures);

/* Memory on 2 MiB pages where the kernel gives them, zeroed; NULL = none. */
void *bench_memory(size_t bytes);
void bench_memory_release(void *memory, size_t bytes);

uint64_t bench_random(uint64_t *state); /* xorshift64*; state is not 0 */

#endif
