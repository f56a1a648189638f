/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "core/cpu.h"
#include "kernels/kernels.h"
#include "kernels/quantised.h"

/* Each level's own overrides, on top of what k holds already. */
#define ROW(level)        embed__row_##level(&k->row);
#define DOT(level)        embed__dot_##level(&k->dot);
#define DOT_BLOCKS(level) embed__dot_blocks_##level(&k->dot_blocks);
#define REDUCE(level)     embed__reduce_##level(&k->reduce);
#define OPT(level)        embed__opt_##level(&k->opt);
#define GATHER(level)     embed__gather_##level(&k->gather);
#define GUMBEL(level)     embed__gumbel_##level(&k->gumbel);
#define PANEL(level)      embed__panel_##level(&k->panel);
#define QUANTISED(level)  embed__quantised_##level(&k->panel);
#define LIMBS(level)      embed__limbs_##level(&k->panel);
#define SKETCH(level)     embed__sketch_##level(&k->sketch);
#define GEMM(level)       embed__gemm_##level(&k->gemm);
#define BFLOATS(level)    embed__bfloats_##level(&k->bfloats);
#define SOFTMAX(level)    embed__softmax_##level(&k->softmax);
#define DIGITS(level)     embed__digits_##level(&k->digits);
#define LEVEL(name, needs, families)               \
  static void override_##name(embed__kernels *k) { \
    (void)k;                                       \
    families                                       \
  }
#include "kernels/levels.def"
#undef LEVEL

static const struct level {
  const char *name;
  uint32_t needs;
  void (*override)(embed__kernels *k);
} levels[] = {
#define LEVEL(name, needs, families) {#name, needs, override_##name},
#include "kernels/levels.def"
#undef LEVEL
};

int embed__level_count(void) { return (int)(sizeof levels / sizeof *levels); }

const char *embed__level_name(int level) { return levels[level].name; }

int embed__level_find(const char *name) {
  for (int i = 0; i < embed__level_count(); ++i)
    if (!strcmp(levels[i].name, name)) return i;
  return -1;
}

int embed__level_best(uint32_t cpu) {
  int best = 0;
  while (best + 1 < embed__level_count() && (levels[best + 1].needs & cpu) == levels[best + 1].needs) ++best;
  return best;
}

/* The list is a total order: every level up to this one, lowest first. */
void embed__level_fill(int level, embed__kernels *k) {
  for (int i = 0; i <= level; ++i) levels[i].override(k);
}
