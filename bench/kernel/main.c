/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_kernel: the cases of tests/kernel, timed on one thread in its caches. README.md says what a line says. */
#include "kernel/timed.h"

#include <time.h>

#include "loops.h"

enum { MOST_FAMILIES = 32, MOST_CASES = 256, WHAT = 48, MOST_BYTES = 4 << 20, STREAMS = 4, LINE = 64, STEPS = 20000 /* of a limit's sample */, USAGE = 2 };
static const double SAMPLE = 4e-4; /* seconds */

typedef struct entry { /* of one case, from level to level */
  char what[WHAT];
  timed_kernel *kernel; /* of the level that was timed last */
  double scalar;        /* seconds */
} entry;

struct kernel_timer {
  bool quick, list;
  const char *family, *level;
  bool failed;
  entry entry[MOST_CASES];
  int entries;
  unsigned char *near; /* what a limit reads */
};

static struct family {
  const char *name;
  timed_family *run;
} families[MOST_FAMILIES];
static int family_count;

void kernel_bench_family(const char *name, timed_family *family) {
  if (family_count == MOST_FAMILIES) abort();
  int at = family_count++;
  for (; at > 0 && strcmp(families[at - 1].name, name) > 0; --at) families[at] = families[at - 1]; /* by name, whatever the linker's order */
  families[at] = (struct family){name, family};
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(void (*run)(void *job), void *job, int64_t runs) {
  const double start = now();
  for (int64_t i = 0; i < runs; ++i) run(job);
  return (now() - start) / (double)runs;
}

/* --- limits: a run is as much as the case moves or computes --- */

typedef struct limit_job {
  const kernel_timer *timer;
  const timed_case *c;
  volatile uint64_t sink;
} limit_job;

static size_t stretch_of(const timed_case *c) {
  const size_t stretch = (size_t)fmin(c->amount, (double)MOST_BYTES) / STREAMS / LINE * LINE;
  return stretch ? stretch : LINE;
}
static void read_as_much(void *job) {
  limit_job *l = job;
  l->sink += bench_loops_of_this_cpu()->read((const char *)l->timer->near, stretch_of(l->c), STREAMS);
}
static void multiply_add(void *job) { ((limit_job *)job)->sink += (uint64_t)bench_loops_of_this_cpu()->multiply_add(STEPS); }
static void digits(void *job) { ((limit_job *)job)->sink += (uint64_t)bench_products_of_this_cpu().bytes(STEPS); }
static void pairs(void *job) { ((limit_job *)job)->sink += (uint64_t)bench_products_of_this_cpu().pairs(STEPS); }

typedef struct limit {
  void (*run)(void *job); /* NULL: this CPU has no such instruction */
  double amount;          /* of one run */
  const char *unit, *name;
} limit;

static limit limit_of(const timed_case *c) {
  const bench_products p = bench_products_of_this_cpu();
  switch (c->limit) {
    case TIMED_BYTES: return (limit){read_as_much, STREAMS * (double)stretch_of(c), "GB/s", "reading"};
    case TIMED_OPERATIONS: return (limit){multiply_add, bench_loops_of_this_cpu()->flops * STEPS, "GFLOP/s", "multiply-adds"};
    case TIMED_DIGITS: return (limit){p.bytes ? digits : NULL, (double)BENCH_BYTE_OPERATIONS * STEPS, "Gop/s", "vpdpbusd"};
    default: return (limit){p.pairs ? pairs : NULL, (double)BENCH_PAIR_OPERATIONS * STEPS, "Gop/s", "vdpbf16ps"};
  }
}

/* --- cases --- */

static int64_t runs_of_sample(const kernel_timer *t, void (*run)(void *job), void *job) {
  if (t->quick) return 1;
  int64_t runs = 1;
  for (double seconds; (seconds = seconds_of(run, job, runs) * (double)runs) < SAMPLE / 2;
       runs = seconds > SAMPLE / 50 ? (int64_t)(SAMPLE / seconds * (double)runs) + 1 : 10 * runs) {
  }
  return runs;
}

/* The best of several samples, case and limit in turns: what others do to the machine only ever adds. */
static void measure(const kernel_timer *t, const timed_case *c, const limit *l, double *seconds, double *limit_seconds) {
  enum { SAMPLES = 15, QUICK = 2 };
  limit_job job = {.timer = t, .c = c};
  const int64_t runs = runs_of_sample(t, c->run, c->job), limit_runs = l->run ? runs_of_sample(t, l->run, &job) : 0;
  *seconds = *limit_seconds = INFINITY;
  for (int i = 0; i < (t->quick ? QUICK : SAMPLES); ++i) {
    *seconds = fmin(*seconds, seconds_of(c->run, c->job, runs));
    if (l->run) *limit_seconds = fmin(*limit_seconds, seconds_of(l->run, &job, limit_runs));
  }
}

static entry *entry_of(kernel_timer *t, const char *what) {
  for (int i = 0; i < t->entries; ++i)
    if (!strcmp(t->entry[i].what, what)) return &t->entry[i];
  if (t->entries == MOST_CASES) abort();
  entry *e = &t->entry[t->entries++];
  *e = (entry){0};
  snprintf(e->what, sizeof e->what, "%s", what);
  return e;
}

void kernel_bench(kernel_timer *t, const timed_case *c) {
  entry *e = entry_of(t, c->what);
  if (!c->kernel || c->kernel == e->kernel) return;
  const bool scalar = !e->kernel && !strcmp(t->level, "scalar");
  e->kernel = c->kernel;
  if (!scalar && e->scalar == 0 && !t->list) { /* a name that differs between levels, or a case without its specification */
    fprintf(stderr, "bench_kernel: %s, %s: not timed at level scalar\n", t->family, c->what);
    t->failed = true;
    return;
  }
  if (t->list) {
    printf("%-10s %-34s %s\n", t->family, c->what, t->level);
    return;
  }
  const limit l = limit_of(c);
  double seconds, limit_seconds;
  measure(t, c, &l, &seconds, &limit_seconds);
  if (scalar) e->scalar = seconds;
  const double rate = c->amount / seconds / 1e9, most = l.amount / limit_seconds / 1e9;
  printf("%-10s %-34s %-10s %11.1f ns %8.2f %-7s", t->family, c->what, t->level, seconds * 1e9, rate, l.unit);
  if (l.run)
    printf("   %.2f of %6.1f %s", rate / most, most, l.name);
  else
    printf("   no %s here", l.name);
  printf("   scalar / this %.2f\n", e->scalar / seconds);
}

static void run_family(kernel_timer *t, const struct family *f) {
  t->family = f->name;
  t->entries = 0;
  for (int level = 0; level <= embed__level_best(embed__cpu_let()); ++level) {
    embed__kernels k;
    memset(&k, 0, sizeof k);
    embed__level_fill(level, &k);
    t->level = embed__level_name(level);
    f->run(&k, t);
    fflush(stdout);
  }
}

static int usage(FILE *to, int status) {
  fprintf(to,
          "usage: bench_kernel [--list] [--quick] [FAMILY ...]\n"
          "  --list   families, cases and the levels that have kernels of their own for them\n"
          "  --quick  each case a few times, no more: that all of them run\n");
  return status;
}

int main(int argc, char **argv) {
  static kernel_timer t;
  bool any = false;
  for (int i = 1; i < argc; ++i) {
    if (!strcmp(argv[i], "--help")) return usage(stdout, 0);
    if (!strcmp(argv[i], "--list"))
      t.list = true;
    else if (!strcmp(argv[i], "--quick"))
      t.quick = true;
    else if (argv[i][0] == '-')
      return usage(stderr, USAGE);
    else
      any = true;
  }
  t.near = aligned_alloc(LINE, MOST_BYTES);
  if (!t.near) return 1;
  memset(t.near, 1, MOST_BYTES);
  if (!t.list) printf("limits: %s, this thread, in turns with each case; best of the samples\n", bench_loops_of_this_cpu()->name);
  int ran = 0;
  for (int f = 0; f < family_count; ++f) {
    bool wanted = !any;
    for (int i = 1; i < argc; ++i) wanted = wanted || !strcmp(argv[i], families[f].name);
    if (!wanted) continue;
    run_family(&t, &families[f]);
    t.failed = t.failed || t.entries == 0;
    ++ran;
  }
  free(t.near);
  if (ran == 0) fprintf(stderr, "bench_kernel: no family of that name; --list names them\n");
  return ran == 0 ? USAGE : t.failed ? 1 : 0;
}
