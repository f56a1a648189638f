/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/avx2/vector.h"

enum { GEMM_ROWS = 6 };

#include "kernels/gemm_template.h"

void embed__gemm_avx2(embed__gemm_kernels *k) { use_gemm(k); }
