/* SPDX-License-Identifier: BSD-3-Clause */
/* The one door to OpenBLAS. Behind it stand five guards against ways in which it kills or hangs its host:
 *   1. a gate: at most 16 callers inside when it runs one thread, one alone when it runs several or is its serial build;
 *   2. an address-space check: it retries for ever when it cannot map its buffer of 128 MiB per thread;
 *   3. a fork guard: its OpenMP build hangs in a forked child unless set to one thread there;
 *   4. int ranges: its extents are ints;
 *   5. wide integers: another OpenBLAS may have its name, and take its extents as 64 bits.
 * A product that a guard refuses answers false and leaves C alone: the library's own kernels do it. */
#ifndef EMBED__GEMM_BLAS_H
#define EMBED__GEMM_BLAS_H

#include <stdbool.h>
#include <stdint.h>

/* Threads that OpenBLAS runs a product on: 0 = not built in, -1 = unknown (another library under its name). */
int embed__blas_threads(void);

/* Whether products of several callers run at the same time. */
bool embed__blas_runs_side_by_side(void);

/* Width in bits of the vectors that its kernels multiply with here: 512, 256 or 128; 0 = unknown. On a CPU that it does
 * not know it falls back to 128. */
int embed__blas_vector_bits(void);

/* C [m, n] = A [m, k] x B', B [n, k]: hidden vectors times rows. Row-major floats, strides in elements. */
bool embed__gemm_nt(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc);
/* C [m, n] = A [m, k] x B [k, n], added to C when accumulate. */
bool embed__gemm_nn(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc);

#endif
