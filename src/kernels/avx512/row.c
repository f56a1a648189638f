/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/avx512/vector.h"
#include "kernels/row_template.h"

void embed__row_avx512(embed__row_kernels *k) { use_all(k); }
