/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/avx512vnni/words.h"

#include "kernels/quantised_template.h"

void embed__quantised_avx512vnni(embed__panel_kernels *k) { use_all(k); }

#define PREPARED(name, form)                                                              \
  [form] = {[EMBED__EXACT] = {x_bytes_exact, pack_exact_##name, prepared_##name##_exact}, \
            [EMBED__ROUNDED_Q8_0] = {x_bytes_rounded, pack_rounded_##name, prepared_##name##_rounded}},
#define IN_PLACE(name, form)                                                              \
  [form] = {[EMBED__EXACT] = {x_bytes_exact, pack_exact_##name, in_place_##name##_exact}, \
            [EMBED__ROUNDED_Q8_0] = {x_bytes_rounded, pack_rounded_##name, in_place_##name##_rounded}},
const embed__multiplier embed__prepared_avx512vnni[EMBED__PANEL_FORMS][EMBED__ACTIVATIONS] = {QUANTISED_FORMS(PREPARED)};
const embed__multiplier embed__in_place_avx512vnni[EMBED__PANEL_FORMS][EMBED__ACTIVATIONS] = {QUANTISED_FORMS(IN_PLACE)};
