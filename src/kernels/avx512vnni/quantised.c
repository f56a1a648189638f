/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/avx512vnni/words.h"

#include "kernels/quantised_template.h"

void embed__quantised_avx512vnni(embed__panel_kernels *k) { use_all(k); }

const embed__multiplier embed__i8_prepared_avx512vnni = {x_bytes_exact, pack_exact_i8, prepared_i8_exact};
const embed__multiplier embed__i8_in_place_avx512vnni = {x_bytes_exact, pack_exact_i8, in_place_i8_exact};
