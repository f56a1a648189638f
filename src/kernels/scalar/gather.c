/* SPDX-License-Identifier: BSD-3-Clause */
/* The specification is codec/: nothing here is faster than going row by row. */
#include "kernels/gather.h"

#include <string.h>

void embed__gather_scalar(embed__gather_kernels *k) { memset(k, 0, sizeof *k); }
