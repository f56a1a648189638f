/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "codec/codec.h"

/* Doubles are read rounded to float: what the library computes with. */
static void decode(const embed__kernels *k, const void *row, float *out, int64_t dim, int32_t group, float scale) {
  (void)k;
  (void)group;
  const unsigned char *bytes = row;
  for (int64_t j = 0; j < dim; ++j) {
    double value;
    memcpy(&value, bytes + 8 * j, 8);
    out[j] = (float)value * scale;
  }
}

static bool encode(const embed__kernels *k, const float *row, void *out, int64_t dim, int32_t group, const embed__noise *noise) {
  (void)k;
  (void)group;
  (void)noise;
  for (int64_t j = 0; j < dim; ++j) {
    double value = (double)row[j];
    memcpy((unsigned char *)out + 8 * j, &value, 8);
  }
  return true;
}

const embed__codec embed__codec_f64 = {-1, true, false, decode, encode, EMBED__FORM_f64};
