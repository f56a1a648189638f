/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/avx512/panel.h"

INLINE floats add_pairs(floats sum, floats w, floats x) { /* not at this level */
  (void)w, (void)x;
  return sum;
}

#include "kernels/panel_template.h"

#include "kernels/panel_exact_template.h"

void embed__panel_avx512(embed__panel_kernels *k) {
  use_exact(k);
  k->vector_bits = 512;
}
