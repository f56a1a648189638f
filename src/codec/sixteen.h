/* SPDX-License-Identifier: BSD-3-Clause */
/* Forms whose nibbles are no numbers but say which of 16 values stands there. */
#ifndef EMBED__SIXTEEN_H
#define EMBED__SIXTEEN_H

#include "codec/blocks.h"

/* value = d * values[nibble]: `half` bytes hold columns 0 .. half - 1 in their low, the following as many in their high nibbles. Products
 * with d are exact, so it does not matter that they are made before the value is known. */
static inline __attribute__((always_inline)) void embed__sixteen_at(const int8_t *values, float d, const unsigned char *restrict qs, int half,
                                                                    float *restrict out, float scale) {
  float product[16];
  for (int i = 0; i < 16; ++i) product[i] = d * (float)values[i] * scale;
  for (int j = 0; j < half; ++j) out[j] = product[qs[j] & 15];
  for (int j = 0; j < half; ++j) out[half + j] = product[qs[j] >> 4];
}

/* --- IQ4_NL and IQ4_XS: values that lie closer together around zero */

extern const int8_t embed__iq4_values[16]; /* ascending */
int embed__iq4_nearest(float x);           /* of two equally near, the upper */
/* x = step * value for 32 columns: the step by least squares, errors weighted with x^2, as ggml's quantize_iq4_nl and quantize_iq4_xs
 * find it (quantize_row_iq4_nl_impl with 7 steps tried on either side). */
float embed__iq4_search(const float *x);

/* --- MXFP4 and NVFP4: the floats of 4 bits, E2M1, doubled */

extern const int8_t embed__fp4_values[16];
int embed__fp4_nearest(float x, float d); /* the first of those whose product with d is nearest */

#endif
