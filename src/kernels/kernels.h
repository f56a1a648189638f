/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMBED__KERNELS_H
#define EMBED__KERNELS_H

#include "kernels/bfloats.h"
#include "kernels/digits.h"
#include "kernels/dot.h"
#include "kernels/gather.h"
#include "kernels/gumbel.h"
#include "kernels/panel.h"
#include "kernels/reduce.h"
#include "kernels/row.h"
#include "kernels/sketch.h"
#include "kernels/gemm.h"
#include "kernels/opt.h"
#include "kernels/softmax.h"

/* Every kernel of one level. Made once per context and never changed after. */
typedef struct embed__kernels {
  embed__row_kernels row;
  embed__dot_kernels dot;
  embed__reduce_kernels reduce;
  embed__opt_kernels opt;
  embed__gather_kernels gather;
  embed__gumbel_kernels gumbel;
  embed__panel_kernels panel;
  embed__dot_block_kernels dot_blocks;
  embed__sketch_kernels sketch;
  embed__gemm_kernels gemm;
  embed__bfloat_kernels bfloats;
  embed__softmax_kernels softmax;
  embed__digits_kernels digits;
} embed__kernels;

int embed__level_count(void);             /* of this architecture */
const char *embed__level_name(int level); /* static; levels ascend */
int embed__level_find(const char *name);  /* -1 = no such level here */
int embed__level_best(uint32_t cpu);      /* the highest whose needs the CPU bits (core/cpu.h) meet, as all below it */
void embed__level_fill(int level, embed__kernels *k);

#endif
