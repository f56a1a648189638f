/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "codec/codec.h"

static void decode(const embed__kernels *k, const void *row, float *out, int64_t dim, int32_t group, float scale) {
  (void)group;
  if (scale == 1.0f) {
    k->row.copy(row, out, 4 * dim, false); /* every bit, signalling NaNs too */
  } else {
    k->row.decode[EMBED__STORED_F32](row, out, dim, scale);
  }
}

static bool encode(const embed__kernels *k, const float *row, void *out, int64_t dim, int32_t group, const embed__noise *noise) {
  (void)k;
  (void)group;
  (void)noise; /* nothing to round */
  memcpy(out, row, (size_t)dim * 4);
  return true;
}

const embed__codec embed__codec_f32 = {EMBED__STORED_F32, true, false, decode, encode, EMBED__FORM_f32};
