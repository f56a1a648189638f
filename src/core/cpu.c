/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cpu.h"

#include <stdatomic.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* XCR0: which register files the operating system saves. */
static uint32_t saved_registers(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  (void)high;
  return low;
}

static uint32_t detect(void) {
  uint32_t a, b, c, d, found = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
  if ((c & (fma | osxsave | avx | f16c)) != (fma | osxsave | avx | f16c)) return 0;
  uint32_t saved = saved_registers();
  if ((saved & 0x6u) != 0x6u) return 0; /* xmm, ymm */
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  if (b & (1u << 5)) found |= EMBED__CPU_AVX2;
  if (d & (1u << 22)) found |= EMBED__CPU_SLOW_PAIRS;
  const uint32_t f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31;
  if ((saved & 0xE6u) == 0xE6u && (b & (f | dq | bw | vl)) == (f | dq | bw | vl)) { /* opmask, zmm */
    found |= EMBED__CPU_AVX512;
    if (c & (1u << 11)) found |= EMBED__CPU_AVX512VNNI;
    const uint32_t tiles = 1u << 22 | 1u << 24 | 1u << 25, tiled = d & tiles; /* of bfloats, at all, of bytes */
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 5))) found |= EMBED__CPU_AVX512BF16;
    if (tiled == tiles && (saved & 0x60000u) == 0x60000u) found |= EMBED__CPU_AMX;
  }
  return found;
}
#elif defined(__aarch64__)
static uint32_t detect(void) { return EMBED__CPU_NEON; } /* part of the base architecture */
#else
static uint32_t detect(void) { return 0; }
#endif

uint32_t embed__cpu(void) {
  const uint32_t asked = 1u << 31;
  static _Atomic uint32_t word; /* the one mutable static: every thread would write the same value */
  uint32_t known = atomic_load_explicit(&word, memory_order_relaxed);
  if (!known) {
    known = detect() | asked;
    atomic_store_explicit(&word, known, memory_order_relaxed);
  }
  return known & ~asked;
}

/* arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), Linux 5.16. Refused where a thread's stack of signals is too small. */
uint32_t embed__cpu_let(void) {
  uint32_t cpu = embed__cpu();
#if defined(__x86_64__) && defined(__linux__)
  if (cpu & EMBED__CPU_AMX && syscall(SYS_arch_prctl, 0x1023L, 18L) == 0) return cpu;
#endif
  return cpu & ~(uint32_t)EMBED__CPU_AMX;
}
