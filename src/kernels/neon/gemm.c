/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/neon/vector.h"

enum { GEMM_ROWS = 6 };

#include "kernels/gemm_template.h"

void embed__gemm_neon(embed__gemm_kernels *k) { use_gemm(k); }
