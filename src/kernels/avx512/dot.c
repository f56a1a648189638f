/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/avx512/vector.h"
#include "kernels/dot_template.h"

void embed__dot_avx512(embed__dot_kernels *k) { use_all(k); }
