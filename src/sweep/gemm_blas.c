/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/gemm_blas.h"

#if EMBED__BLAS

#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <strings.h>
#include <sys/mman.h>

/* Optional: a distribution may put another BLAS under the name (FlexiBLAS). */
extern int openblas_get_num_threads(void) __attribute__((weak));
extern int openblas_get_parallel(void) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));
extern void openblas_set_num_threads(int threads) __attribute__((weak));

/* Its integers are handed over as wide as a register. An OpenBLAS of 64-bit integers that the host loaded first, for everybody,
 * takes our calls under the same name, and reads all of each; one of 32 bits reads the lower half. */
extern void wide_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE transpose_a, enum CBLAS_TRANSPOSE transpose_b, intptr_t m, intptr_t n, intptr_t k,
                       float alpha, const float *a, intptr_t lda, const float *b, intptr_t ldb, float beta, float *c, intptr_t ldc) __asm__("cblas_sgemm");

enum { MOST_CALLERS = 16, SERIAL = 0, OPENMP = 2 /* openblas_get_parallel() */ };
static const size_t buffer_bytes = ((size_t)128 << 20) + (8 << 10); /* that OpenBLAS maps per thread and caller */

/* OpenBLAS is one per process, so its gate is too. */
static struct gate {
  pthread_mutex_t mutex;
  pthread_cond_t left;
  int inside;  /* callers in a product now */
  int threads; /* for which `proved` holds */
  bool proved; /* one caller's buffers are mapped, for good: OpenBLAS keeps them */
  bool forked; /* this is a child that has not called OpenBLAS yet */
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The callers that were inside at the fork are not in the child. */
static void in_forked_child(void) {
  static const struct gate empty = {.mutex = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER, .forked = true};
  gate = empty;
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, in_forked_child); }

/* Products that may run side by side. The serial build hands out its buffers without a lock: two callers get the same one. */
static int places(int threads) { return threads == 1 && openblas_get_parallel && openblas_get_parallel() != SERIAL ? MOST_CALLERS : 1; }

static int threads_now(void) { return openblas_get_num_threads ? openblas_get_num_threads() : -1; }

int embed__blas_threads(void) { return threads_now(); }

bool embed__blas_runs_side_by_side(void) { return places(threads_now()) > 1; }

int embed__blas_vector_bits(void) {
  static const struct {
    const char *core;
    int bits;
  } known[] = {
      {"SkylakeX", 512},  {"Cooperlake", 512}, {"SapphireRapids", 512}, {"Haswell", 256},    {"Zen", 256},         {"Excavator", 256}, {"Sandybridge", 128},
      {"Nehalem", 128},   {"Prescott", 128},   {"Core2", 128},          {"Penryn", 128},     {"Atom", 128},        {"Nano", 128},      {"Opteron", 128},
      {"Barcelona", 128}, {"Bobcat", 128},     {"Bulldozer", 128},      {"Piledriver", 128}, {"Steamroller", 128},
  };
  const char *core = openblas_get_corename ? openblas_get_corename() : NULL;
  for (size_t i = 0; core && i < sizeof known / sizeof *known; ++i)
    if (!strcasecmp(core, known[i].core)) return known[i].bits;
  return 0;
}

/* Whether the address space still has room for the buffers of so many callers. */
static bool room_for_buffers(int callers, int threads) {
  size_t bytes = buffer_bytes * (size_t)(threads > 0 ? threads : 1) * (size_t)callers;
  void *space = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return false;
  munmap(space, bytes);
  return true;
}

/* Waits for a place inside; false = no room. A small product may do without a buffer, or without those of OpenBLAS's
 * workers, so it proves nothing for the next: everybody inside is counted as still to map, but for the one proved. The
 * check takes some microseconds. */
static bool enter(void) {
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&gate.mutex);
  if (gate.forked) {
    gate.forked = false;
    if (openblas_get_parallel && openblas_get_parallel() == OPENMP && openblas_set_num_threads) openblas_set_num_threads(1);
  }
  int threads = threads_now();
  while (gate.inside >= places(threads)) pthread_cond_wait(&gate.left, &gate.mutex);
  if (threads > gate.threads) { /* the host raised the number of threads */
    gate.proved = false;
    gate.threads = threads;
  }
  int unproved = gate.inside + 1 - (gate.proved ? 1 : 0);
  bool room = unproved == 0 || room_for_buffers(unproved, threads);
  if (room)
    ++gate.inside;
  else
    pthread_cond_signal(&gate.left); /* the place that this caller was woken for */
  pthread_mutex_unlock(&gate.mutex);
  return room;
}

/* large: the product was one that every thread of OpenBLAS had a part in. */
static void leave(bool large) {
  pthread_mutex_lock(&gate.mutex);
  if (large) gate.proved = true;
  --gate.inside;
  pthread_cond_signal(&gate.left); /* one place, one waiter: waking hundreds at every product takes longer than the products */
  pthread_mutex_unlock(&gate.mutex);
}

/* Well past the sizes at which OpenBLAS multiplies on one thread, on fewer than it has, or without a buffer. */
static bool is_large(int64_t m, int64_t n, int64_t k) {
  int threads = threads_now();
  int64_t side = 64 * (int64_t)(threads > 0 ? threads : INT_MAX); /* unknown: never */
  return m >= side && n >= side && k >= 64;
}

static bool fits(int64_t m, int64_t n, int64_t lda, int64_t ldb, int64_t ldc) {
  return m <= INT_MAX && n <= INT_MAX && lda <= INT_MAX && ldb <= INT_MAX && ldc <= INT_MAX;
}

/* The depth is split where it passes an int; later parts add to the earlier. */
static bool gemm(CBLAS_TRANSPOSE transpose_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, bool accumulate,
                 float *c, int64_t ldc) {
  enum { DEPTH = 1 << 30 };
  if (m < 1 || n < 1) return true;
  if (!fits(m, n, lda, ldb, ldc) || !enter()) return false;
  for (int64_t done = 0; done < k || done == 0; done += DEPTH) {
    int64_t part = k - done < DEPTH ? k - done : DEPTH;
    const float *b_part = transpose_b == CblasTrans ? b + done : b + done * ldb;
    wide_sgemm(CblasRowMajor, CblasNoTrans, transpose_b, (intptr_t)m, (intptr_t)n, (intptr_t)part, 1.0f, a + done, (intptr_t)lda, b_part, (intptr_t)ldb,
               accumulate || done ? 1.0f : 0.0f, c, (intptr_t)ldc);
  }
  leave(is_large(m, n, k));
  return true;
}

bool embed__gemm_nt(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc) {
  return gemm(CblasTrans, m, n, k, a, lda, b, ldb, false, c, ldc);
}

bool embed__gemm_nn(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc) {
  return gemm(CblasNoTrans, m, n, k, a, lda, b, ldb, accumulate, c, ldc);
}

#else /* without OpenBLAS every product is the library's own */

int embed__blas_threads(void) { return 0; }

bool embed__blas_runs_side_by_side(void) { return false; }

int embed__blas_vector_bits(void) { return 0; }

bool embed__gemm_nt(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc) {
  (void)m, (void)n, (void)k, (void)a, (void)lda, (void)b, (void)ldb, (void)c, (void)ldc;
  return false;
}

bool embed__gemm_nn(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc) {
  (void)m, (void)n, (void)k, (void)a, (void)lda, (void)b, (void)ldb, (void)accumulate, (void)c, (void)ldc;
  return false;
}

#endif
