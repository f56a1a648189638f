/* SPDX-License-Identifier: BSD-3-Clause */
#include "harness.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
  MOST_TRIES = 40,
  PRIORITY = 10,       /* of SCHED_FIFO */
  MOST_HELD_CPUS = 4,  /* idle CPUs are held during a sample on small machines only */
  HUGE_PAGE = 2 << 20, /* bytes */
  WINDOW = 125000000   /* bytes of one probe; no power of two, so that its streams do not share cache sets */
};

typedef struct member { /* a thread of the harness; 0 is the caller */
  struct bench *bench;
  pthread_t thread;
  int index;
  pid_t id;    /* the kernel's */
  double busy; /* CPU time / wall time of its last loop */
  volatile uint64_t sink;
} member;

struct bench {
  int threads, members, keep, streams;
  double seconds; /* after which enough samples are enough; at three times this a measurement ends with what it has */
  bool realtime, drop;
  const bench_loops *loops;
  char *far;             /* what probes walk through: more than any cache */
  size_t far_bytes, at;  /* at: of the next probe in far */
  pthread_mutex_t mutex; /* guards generation and stop */
  pthread_cond_t wake;
  unsigned generation;
  bool stop;
  const bench_work *work;
  _Atomic unsigned go, released;
  _Atomic int ready, finished, left;
  member member[BENCH_MOST_THREADS];
};

typedef struct series {
  double seconds[MOST_TRIES], read[MOST_TRIES]; /* of the kept */
  double last;                                  /* seconds of the last sample, kept or not */
  int kept, tried, preempted, unsteady;
} series;

static double clock_seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void) { return clock_seconds(CLOCK_MONOTONIC); }
static double thread_cpu(void) { return clock_seconds(CLOCK_THREAD_CPUTIME_ID); }

static void sleep_seconds(double seconds) {
  struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
  nanosleep(&t, NULL);
}

uint64_t bench_random(uint64_t *state) {
  uint64_t x = *state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  *state = x;
  return x * 0x2545F4914F6CDD1Dull;
}

static void do_nothing(void *job, int thread, int threads) { (void)job, (void)thread, (void)threads; }

static size_t whole_pages(size_t bytes) { return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

void *bench_memory(size_t bytes) {
  size_t whole = whole_pages(bytes);
  char *map = mmap(NULL, whole + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return NULL;
  size_t before = (HUGE_PAGE - (uintptr_t)map % HUGE_PAGE) % HUGE_PAGE;
  if (before) munmap(map, before);
  if (before < HUGE_PAGE) munmap(map + before + whole, HUGE_PAGE - before);
  madvise(map + before, whole, MADV_HUGEPAGE);
  memset(map + before, 0, whole);
  return map + before;
}

void bench_memory_release(void *memory, size_t bytes) {
  if (memory) munmap(memory, whole_pages(bytes));
}

/* --- threads --- */

static bool set_scheduler(pid_t thread, bool realtime) {
  struct sched_param p = {.sched_priority = realtime ? PRIORITY : 0};
  return sched_setscheduler(thread, realtime ? SCHED_FIFO : SCHED_OTHER, &p) == 0;
}

static bool is_helper(const bench *b, pid_t id) {
  for (int i = 1; i < b->members; ++i)
    if (b->member[i].id == id) return true;
  return false;
}

/* Opens /proc/self/task/<id>/<name> of the next thread of the process; NULL after the last. */
static FILE *next_thread(DIR *tasks, const char *name, pid_t *id) {
  for (struct dirent *task; tasks && (task = readdir(tasks));) {
    char path[64];
    *id = (pid_t)strtol(task->d_name, NULL, 10);
    if (*id <= 0) continue;
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)*id, name);
    FILE *file = fopen(path, "r");
    if (file) return file;
  }
  return NULL;
}

/* Every thread of the process: the caller, the library's pool, OpenBLAS. The helpers are realtime for good. */
static void set_all_schedulers(const bench *b, bool realtime) {
  DIR *tasks = b->realtime ? opendir("/proc/self/task") : NULL;
  pid_t id;
  for (FILE *file; (file = next_thread(tasks, "stat", &id)); fclose(file))
    if (!is_helper(b, id)) set_scheduler(id, realtime);
  if (tasks) closedir(tasks);
}

/* Seconds that these threads have been ready to run without a core; -1 = the kernel does not say. */
static double seconds_waited(const bench *b) {
  DIR *tasks = opendir("/proc/self/task");
  double sum = -1;
  pid_t id;
  for (FILE *file; (file = next_thread(tasks, "schedstat", &id)); fclose(file)) {
    unsigned long long ran, nanoseconds;
    if (!is_helper(b, id) && fscanf(file, "%llu %llu", &ran, &nanoseconds) == 2) sum = fmax(sum, 0) + 1e-9 * (double)nanoseconds;
  }
  if (tasks) closedir(tasks);
  return sum;
}

static bool others_run(void) {
  DIR *tasks = opendir("/proc/self/task");
  bool run = false;
  pid_t id;
  for (FILE *file; (file = next_thread(tasks, "stat", &id)); fclose(file)) {
    char text[256];
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    const char *name_end = strrchr(text, ')'); /* "id (name) state ..." */
    if (id != gettid() && name_end && strlen(name_end) > 2 && name_end[2] == 'R') run = true;
  }
  if (tasks) closedir(tasks);
  return run;
}

/* Spins, but lets another thread of the same priority in: two of these programs at once must not lock each other out. */
static void wait_for(const _Atomic unsigned *word, unsigned value) {
  for (unsigned spins = 1; atomic_load_explicit(word, memory_order_acquire) != value; ++spins)
    if (spins % 4096 == 0) sched_yield();
}

static void wait_for_count(const _Atomic int *word, int value) {
  for (unsigned spins = 1; atomic_load_explicit(word, memory_order_acquire) != value; ++spins)
    if (spins % 4096 == 0) sched_yield();
}

static void run_loop(member *self) {
  double wall = now(), cpu = thread_cpu();
  self->bench->work->loop(self->bench->work->job, self->index, self->bench->threads);
  self->busy = (thread_cpu() - cpu) / (now() - wall);
}

static void *help(void *arg) {
  member *self = arg;
  bench *b = self->bench;
  self->id = gettid();
  if (b->realtime) set_scheduler(0, true);
  for (unsigned seen = 0;;) {
    pthread_mutex_lock(&b->mutex);
    while (b->generation == seen) pthread_cond_wait(&b->wake, &b->mutex);
    seen = b->generation;
    bool stop = b->stop;
    pthread_mutex_unlock(&b->mutex);
    if (stop) return NULL;
    atomic_fetch_add(&b->ready, 1);
    wait_for(&b->go, seen);
    if (self->index >= b->threads) {
      wait_for(&b->released, seen); /* holds its CPU */
    } else if (!b->work->call) {
      run_loop(self);
      atomic_fetch_add(&b->finished, 1);
    }
    atomic_fetch_add(&b->left, 1);
  }
}

/* --- samples --- */

/* Helpers that are needed stand at the line when the clock starts, and none of them is on a core of the call. */
static void line_up(bench *b, const bench_work *work) {
  b->work = work;
  atomic_store(&b->ready, 0);
  atomic_store(&b->finished, 0);
  atomic_store(&b->left, 0);
  pthread_mutex_lock(&b->mutex);
  ++b->generation;
  pthread_cond_broadcast(&b->wake);
  pthread_mutex_unlock(&b->mutex);
  wait_for_count(&b->ready, b->members - 1);
}

static double time_loop(bench *b, const bench_work *work, bool *preempted) {
  if (b->realtime) set_scheduler(0, true);
  line_up(b, work);
  double start = now();
  atomic_store_explicit(&b->go, b->generation, memory_order_release);
  run_loop(&b->member[0]);
  wait_for_count(&b->finished, b->threads - 1);
  double seconds = now() - start;
  atomic_store_explicit(&b->released, b->generation, memory_order_release);
  wait_for_count(&b->left, b->members - 1);
  if (b->realtime) set_scheduler(0, false);
  for (int i = 0; i < b->threads; ++i)
    if (b->member[i].busy < 0.97) *preempted = true;
  return seconds;
}

/* A thread that sleeps until the library has work for it is not preempted, so what counts is the time that threads were
 * ready and had no core; the caller's CPU time tells what the hypervisor took. */
static double time_call(bench *b, const bench_work *work, bool *preempted) {
  bool hold = b->members > b->threads;
  set_all_schedulers(b, true);
  double waited = seconds_waited(b);
  if (hold) line_up(b, work);
  if (hold) atomic_store_explicit(&b->go, b->generation, memory_order_release);
  double start = now(), cpu = thread_cpu();
  work->call(work->job);
  cpu = thread_cpu() - cpu;
  double seconds = now() - start;
  if (hold) atomic_store_explicit(&b->released, b->generation, memory_order_release);
  if (hold) wait_for_count(&b->left, b->members - 1);
  double until = seconds_waited(b);
  set_all_schedulers(b, false);
  if (waited < 0 || until < 0)
    *preempted = cpu < 0.97 * seconds;
  else
    *preempted = until - waited > 0.03 * seconds || cpu < 0.9 * seconds;
  return seconds;
}

typedef struct stream_job {
  bench *bench;
  int streams;
} stream_job;

static size_t stretch_of(const bench *b, int streams) { return (size_t)WINDOW / (size_t)b->threads / (size_t)streams / 64 * 64; }

static void next_window(void *job) {
  bench *b = ((stream_job *)job)->bench;
  b->at += WINDOW / 64 * 64;
  if (b->at + WINDOW > b->far_bytes) b->at = 0;
}

static void read_streams(void *job, int thread, int threads) {
  stream_job *s = job;
  size_t part = (size_t)WINDOW / (size_t)threads / 64 * 64;
  const char *from = s->bench->far + s->bench->at + part * (size_t)thread;
  s->bench->member[thread].sink += s->bench->loops->read(from, stretch_of(s->bench, s->streams), s->streams);
}

static double read_rate(const bench *b, int streams, double seconds) { return (double)stretch_of(b, streams) * streams * b->threads / seconds / 1e9; }

static double probe(bench *b, bool *preempted) { /* GB/s now */
  stream_job job = {b, b->streams};
  bench_work work = {.loop = read_streams, .job = &job};
  next_window(&job);
  return read_rate(b, b->streams, time_loop(b, &work, preempted));
}

/* An OpenBLAS worker spins for some 30 ms after a call, longer when others take its core: the next sample begins when
 * every thread but this one sleeps. */
static void rest(double seconds) {
  sleep_seconds(seconds);
  for (int i = 0; i < 200 && others_run(); ++i) sleep_seconds(0.002);
}

static void take_sample(bench *b, const bench_work *work, series *s) {
  bool preempted = false, unsteady = false;
  double before = 0, after = 0;
  if (work->prepare) work->prepare(work->job);
  rest(s->last);
  if (!work->bare) before = probe(b, &preempted);
  bool inside = false;
  double seconds = work->call ? time_call(b, work, &inside) : time_loop(b, work, &inside);
  if (!b->realtime) rest(0); /* a spinning worker would share the probe's cores; under FIFO the probe goes first */
  if (!work->bare) after = probe(b, &preempted);
  unsteady = fabs(before - after) > 0.15 * (before + after) / 2;
  preempted = preempted || (inside && !work->waits);
  s->last = seconds;
  ++s->tried;
  s->preempted += preempted;
  s->unsteady += unsteady && !preempted;
  if (b->drop && (preempted || unsteady)) return;
  s->seconds[s->kept] = seconds;
  s->read[s->kept++] = (before + after) / 2;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int n) {
  if (n == 0) return 0;
  qsort(values, (size_t)n, sizeof *values, ascending);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void bench_measure(bench *b, const bench_work *works, int count, bench_figure *figures) {
  series all[BENCH_MOST_STREAMS] = {0};
  double end = now() + b->seconds;
  for (int i = 0; i < count; ++i) { /* warm: scratch grown, pages touched */
    if (works[i].prepare) works[i].prepare(works[i].job);
    if (works[i].call) works[i].call(works[i].job);
  }
  int fewest = 0; /* kept samples */
  for (int tries = 0; tries < MOST_TRIES && fewest < b->keep; ++tries) {
    double over = now() - end;
    if (over > 2 * b->seconds || (over > 0 && fewest >= BENCH_ENOUGH)) break;
    fewest = b->keep;
    for (int i = 0; i < count; ++i) {
      take_sample(b, &works[i], &all[i]);
      if (all[i].kept < fewest) fewest = all[i].kept;
    }
  }
  for (int i = 0; i < count; ++i) {
    series *s = &all[i];
    figures[i] = (bench_figure){median(s->seconds, s->kept), median(s->read, s->kept), s->kept, s->tried, s->preempted, s->unsteady};
  }
}

int bench_measure_read(bench *b, bench_figure *figures) {
  stream_job jobs[BENCH_MOST_STREAMS];
  bench_work works[BENCH_MOST_STREAMS];
  for (int i = 0; i < BENCH_MOST_STREAMS; ++i) {
    jobs[i] = (stream_job){b, i + 1};
    works[i] = (bench_work){.loop = read_streams, .prepare = next_window, .job = &jobs[i], .bare = true};
  }
  bench_measure(b, works, BENCH_MOST_STREAMS, figures);
  int best = 0;
  for (int i = 0; i < BENCH_MOST_STREAMS; ++i) {
    figures[i].read = figures[i].kept ? read_rate(b, i + 1, figures[i].seconds) : 0;
    if (figures[i].read > figures[best].read) best = i;
  }
  return b->streams = best + 1;
}

/* --- life --- */

static int usable_cpus(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
  return n < 1 ? 1 : n > BENCH_MOST_THREADS ? BENCH_MOST_THREADS : n;
}

bench *bench_create(const bench_options *options) {
  int cpus = usable_cpus(), threads = options->threads ? options->threads : cpus;
  if (threads < 1 || threads > cpus) return NULL;
  bench *b = calloc(1, sizeof *b);
  if (!b) return NULL;
  b->threads = threads;
  b->members = 1;
  b->keep = options->quick ? 5 : 9;
  b->seconds = options->quick ? 0.5 : 10;
  b->streams = 1;
  b->loops = bench_loops_of_this_cpu();
  b->realtime = set_scheduler(0, true);
  if (b->realtime) set_scheduler(0, false);
  pthread_mutex_init(&b->mutex, NULL);
  pthread_cond_init(&b->wake, NULL);
  b->drop = b->realtime && !options->quick; /* without realtime a busy machine would leave nothing */
  b->far_bytes = (size_t)(options->quick ? 512 : 1024) << 20;
  b->far = bench_memory(b->far_bytes);
  bool ready = b->far != NULL;
  int wanted = cpus <= MOST_HELD_CPUS ? cpus : threads;
  b->member[0].bench = b;
  for (; ready && b->members < wanted; b->members += ready) {
    member *m = &b->member[b->members];
    m->bench = b;
    m->index = b->members;
    ready = pthread_create(&m->thread, NULL, help, m) == 0;
  }
  if (!ready) {
    bench_release(b);
    return NULL;
  }
  time_loop(b, &(bench_work){.loop = do_nothing}, &ready); /* after it every helper's id is known */
  return b;
}

void bench_release(bench *b) {
  if (!b) return;
  pthread_mutex_lock(&b->mutex);
  b->stop = true;
  ++b->generation;
  pthread_cond_broadcast(&b->wake);
  pthread_mutex_unlock(&b->mutex);
  for (int i = 1; i < b->members; ++i) pthread_join(b->member[i].thread, NULL);
  pthread_cond_destroy(&b->wake);
  pthread_mutex_destroy(&b->mutex);
  bench_memory_release(b->far, b->far_bytes);
  free(b);
}

int bench_threads(const bench *b) { return b->threads; }
bool bench_is_realtime(const bench *b) { return b->realtime; }
const bench_loops *bench_machine_loops(const bench *b) { return b->loops; }
