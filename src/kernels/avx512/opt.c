/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/opt_template.h"

void embed__opt_avx512(embed__opt_kernels *k) { use_all(k); }
