/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__CPU_H
#define EMBED__CPU_H

#include <stdint.h>

/* What a kernel level may need; a bit is set only when the CPU has it and the OS saves its registers. */
enum {
  EMBED__CPU_AVX2 = 1,   /* AVX2, FMA, F16C */
  EMBED__CPU_AVX512 = 2, /* F, BW, DQ, VL */
  EMBED__CPU_AVX512VNNI = 4,
  EMBED__CPU_AVX512BF16 = 8,
  EMBED__CPU_NEON = 16,
  EMBED__CPU_AMX = 64,       /* tiles of bytes and of bfloats */
  EMBED__CPU_SLOW_PAIRS = 32 /* of no level: vdpbf16ps multiplies half of what FMA does (CPUs that keep bfloats for AMX) */
};

uint32_t embed__cpu(void); /* asks the machine once */

/* Linux lets a process use tiles once it has asked for them, and from then on refuses stacks of signals that they do not fit: this asks. The
 * same bits, without EMBED__CPU_AMX where the answer is no. */
uint32_t embed__cpu_let(void);

#endif
