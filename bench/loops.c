/* SPDX-License-Identifier: BSD-3-Clause */
#include "loops.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { CHAINS = 12 /* two units x four or five cycles, and a constant still fits 16 registers */ };

static volatile const float unknown_half = 0.5f; /* volatile: nothing is folded at compile time; x -> x/2 + 1 stays near 2 */

typedef uint64_t integers_16 __attribute__((vector_size(16), may_alias));
typedef float floats_16 __attribute__((vector_size(16), may_alias));

#define LOOPS(name) plain_##name
#define LOOPS_NAME  "plain C"
#define TARGET
#define INTEGERS              integers_16
#define FLOATS                floats_16
#define MULTIPLY_ADD(x, y, z) ((x) * (y) + (z))
#define STREAM(to, value)     (*(INTEGERS *)(to) = (value))
#define FENCE()               ((void)0)
#include "loops_template.h"

#if defined(__x86_64__)
#define LOOPS(name)           avx2_##name
#define LOOPS_NAME            "AVX2"
#define TARGET                __attribute__((target("avx2,fma")))
#define INTEGERS              __m256i
#define FLOATS                __m256
#define MULTIPLY_ADD(x, y, z) _mm256_fmadd_ps(x, y, z)
#define STREAM(to, value)     _mm256_stream_si256((__m256i *)(void *)(to), value)
#define FENCE()               _mm_sfence()
#include "loops_template.h"

#define LOOPS(name)           avx512_##name
#define LOOPS_NAME            "AVX-512"
#define TARGET                __attribute__((target("avx512f")))
#define INTEGERS              __m512i
#define FLOATS                __m512
#define MULTIPLY_ADD(x, y, z) _mm512_fmadd_ps(x, y, z)
#define STREAM(to, value)     _mm512_stream_si512((__m512i *)(void *)(to), value)
#define FENCE()               _mm_sfence()
#include "loops_template.h"
#endif

#if defined(__x86_64__)
/* One block of assembler: compilers move the sums of intrinsics through memory here. */
#define ON(k) " %12, %12, %" #k "\n\t"
#define PRODUCTS(name, in, features)                                                                                                 \
  __attribute__((target(features))) static int64_t name(int64_t steps) {                                                             \
    __m512i x = _mm512_setzero_si512(), a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;          \
    for (int64_t step = 0; step < steps; ++step)                                                                                     \
      __asm__ volatile(in ON(0) in ON(1) in ON(2) in ON(3) in ON(4) in ON(5) in ON(6) in ON(7) in ON(8) in ON(9) in ON(10) in ON(11) \
                       : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h), "+v"(i), "+v"(j), "+v"(k), "+v"(l)  \
                       : "v"(x));                                                                                                    \
    return _mm512_reduce_add_epi64(_mm512_add_epi64(a, l));                                                                          \
  }
PRODUCTS(byte_products, "vpdpbusd", "avx512f,avx512vnni")
PRODUCTS(pair_products, "vdpbf16ps", "avx512f,avx512bf16")
#endif

bench_products bench_products_of_this_cpu(void) {
  bench_products p = {0};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni")) p.bytes = byte_products;
  if (__builtin_cpu_supports("avx512bf16")) p.pairs = pair_products;
#endif
  return p;
}

const bench_loops *bench_loops_of_this_cpu(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return &avx512_loops;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &avx2_loops;
#endif
  return &plain_loops;
}
