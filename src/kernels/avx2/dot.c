/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/avx2/vector.h"
#include "kernels/dot_template.h"

void embed__dot_avx2(embed__dot_kernels *k) { use_all(k); }
