/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/avx2/vector.h"
#include "kernels/row_template.h"

void embed__row_avx2(embed__row_kernels *k) { use_all(k); }
