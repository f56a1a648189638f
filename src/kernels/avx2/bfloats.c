/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/bfloats_template.h"

void embed__bfloats_avx2(embed__bfloat_kernels *k) { use_bfloats(k); }
