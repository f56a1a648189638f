/* SPDX-License-Identifier: BSD-3-Clause */
/* embed/context.h: what a call runs with: threads, memory, instruction set, errors. */
#ifndef EMBED_CONTEXT_H
#define EMBED_CONTEXT_H

#include <embed/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void embed_task(void *job, int64_t index, int32_t worker); /* 0 <= worker < workers */
typedef struct embed_executor { /* the caller's threads; copied at context creation */
  uint32_t size, flags;
  void *arg;
  /* Run task(job, i, w) once for each i in [0, n), no two at a time with the same w, then return 0. May be serial: tasks never wait for one another. */
  embed_status (*run)(void *arg, int64_t n, embed_task *task, void *job);
  int32_t workers, reserved;
} embed_executor;
typedef struct embed_allocator { /* both callable from any thread; copied; must outlive the last handle made with it */
  uint32_t size, flags;
  void *arg;
  void *(*allocate)(void *arg, size_t bytes, size_t alignment);
  void (*release)(void *arg, void *memory, size_t bytes, size_t alignment);
} embed_allocator;
enum { EMBED_CONTEXT_REPRODUCIBLE = 1 }; /* own kernels only, a row's bits do not depend on n, threads, or BLAS; slower on large fp32 batches */
typedef struct embed_context_options { /* in every options struct: size first, zero = default, NULL = all zero */
  uint32_t size, flags;             /* EMBED_CONTEXT_* */
  int64_t max_scratch;              /* bytes kept between calls; 0 = no bound */
  int64_t why_bytes;                /* room at why */
  embed_pool *pool;                 /* retained; NULL = calling thread only. A busy pool never makes a caller wait: it runs its tasks itself */
  const embed_executor *executor;   /* instead of pool */
  const embed_allocator *allocator; /* NULL = malloc */
  const char *isa;                  /* cap: the level used is the lower of this and the CPU's; NULL = the CPU's; an unknown or foreign name is EMBED_E_OPTION */
  const int32_t *cancel;            /* read between tiles; non-zero = EMBED_E_CANCELLED */
  int32_t (*progress)(void *arg, int64_t done, int64_t total); /* long work, on the calling thread; non-zero stops it */
  void *progress_arg;
  char *why;                        /* the reason when creation fails */
} embed_context_options;
/**
 * embed_pool_create: worker threads that contexts may share.
 *
 * Shapes   threads counts the calling thread: 1 starts none; 0 = the CPUs that the caller may use; at most 1024.
 * Errors   E_ARGUMENT, E_MEMORY (also when the system has no more threads); *out is NULL. There is no context yet, so no text.
 * Threads  The workers sleep between calls and have every signal blocked. After fork() they are the parent's: in the child
 *          a context with this pool answers E_UNSUPPORTED, and releasing is fine.
 * Cost     starts threads - 1 threads.
 * Since    0.1.
 */
EMBED_FN embed_status embed_pool_create(int32_t threads, embed_pool **out); /* starts its threads now; counts the caller; 0 = the CPUs the caller may use */
/**
 * embed_pool_retain: one more owner; returns pool.
 *
 * Errors   none; NULL gives NULL.
 * Threads  from any thread, at any time.
 * Cost     an atomic addition.
 * Since    0.1.
 */
EMBED_API embed_pool *embed_pool_retain(embed_pool *pool);
/**
 * embed_pool_release: one owner less.
 *
 * Errors   none; NULL does nothing.
 * Threads  from any thread but the pool's own; the last owner joins its threads here.
 * Cost     an atomic subtraction; the last ends its threads.
 * Since    0.1.
 */
EMBED_API void embed_pool_release(embed_pool *pool); /* the last release joins its threads; NULL is fine */
/**
 * embed_context_create: what calls run with: memory, threads, instruction set, the last error.
 *
 * Types    everything in opts is copied; pool is retained; cancel, progress_arg, why and the callbacks' arguments stay the caller's.
 * Errors   E_OPTION, E_UNSUPPORTED (a pool of the parent in a forked child), E_MEMORY, E_ARGUMENT (out); *out is NULL and
 *          opts->why holds the reason, cut to why_bytes at a whole UTF-8 character ("" after a success).
 * Threads  A context belongs to one thread at a time. Contexts of many threads may share a pool, tables and heads.
 * Cost     one allocation; scratch grows with the calls and is kept.
 * Since    0.1.
 */
EMBED_FN embed_status embed_context_create(const embed_context_options *opts, embed_context **out);
/**
 * embed_context_release: frees the context. Tables and heads made with it live on, with the allocator they were made with.
 *
 * Empty    NULL does nothing.
 * Errors   none.
 * Threads  ctx exclusive. The last owner of a pool joins its threads here.
 * Cost     frees its scratch.
 * Since    0.1.
 */
EMBED_API void embed_context_release(embed_context *ctx);
/**
 * embed_context_trim: frees what the context keeps between calls; the next call allocates again.
 *
 * Errors   none; NULL does nothing.
 * Threads  ctx exclusive.
 * Cost     frees its scratch.
 * Since    0.1.
 */
EMBED_API void embed_context_trim(embed_context *ctx);             /* give scratch back */
/**
 * embed_context_isa: "scalar", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx" or "neon".
 *
 * A context at level amx has asked Linux to let the process use tiles (arch_prctl; what says no leaves the level below). From then on the
 * kernel refuses a sigaltstack that their registers do not fit, 8 KiB more than without: getauxval(AT_MINSIGSTKSZ) says how many. An
 * options' isa below amx asks for nothing.
 *
 * Errors   none; NULL for NULL.
 * Threads  ctx exclusive.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API const char *embed_context_isa(const embed_context *ctx); /* level in use; static */
/**
 * embed_error_text: what went wrong, where, and the two numbers: `id 50257 at position 3 is outside the vocabulary of 50257 rows`.
 *
 * Types    at most 511 bytes, valid UTF-8; bytes of names that are none stand as '?'. Never NULL.
 * Errors   none; a text that says so for NULL.
 * Threads  ctx exclusive; the text changes with ctx's next call.
 * Cost     none: the text is there.
 * Since    0.1.
 */
EMBED_API const char *embed_error_text(const embed_context *ctx);  /* last failure, UTF-8, "" after a success; valid until ctx's next call */
/**
 * embed_error_at: which id, row, target or byte the last failure was about, as the call's Errors say.
 *
 * Errors   none; -1 for NULL.
 * Threads  ctx exclusive.
 * Cost     reads a field.
 * Since    0.1.
 */
EMBED_API int64_t embed_error_at(const embed_context *ctx);        /* offending position or byte offset; -1 = none */

#ifdef __cplusplus
}
#endif
#endif
