/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/neon/vector.h"
#include "kernels/dot_template.h"

void embed__dot_neon(embed__dot_kernels *k) {
  use_all(k);
  k->vector_bits = 128; /* a vector here is two registers */
}
