/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/avx512/vector.h"

enum { GEMM_ROWS = 12 };

#include "kernels/gemm_template.h"

void embed__gemm_avx512(embed__gemm_kernels *k) { use_gemm(k); }
