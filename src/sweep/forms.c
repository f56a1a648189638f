/* SPDX-License-Identifier: BSD-3-Clause */
/* Which dtypes have panels, and what a hidden row becomes when it is rounded. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/half.h"
#include "sweep/sweep.h"

int embed__form_of(const embed_table *t) {
  if (t->overlay) return -1; /* its rows do not lie together */
  switch (t->dtype) {
    case EMBED_F32: return EMBED__PANEL_F32;
    case EMBED_F16: return EMBED__PANEL_F16;
    case EMBED_BF16: return EMBED__PANEL_BF16;
    case EMBED_I8_ROW: return EMBED__PANEL_I8;
    case EMBED_I4_GROUP: return EMBED__PANEL_I4;
    case EMBED_Q8_0: return EMBED__PANEL_Q8_0;
    case EMBED_Q4_0: return EMBED__PANEL_Q4_0;
    case EMBED_Q4_K: return EMBED__PANEL_Q4_K;
    case EMBED_Q5_K: return EMBED__PANEL_Q5_K;
    case EMBED_Q6_K: return EMBED__PANEL_Q6_K;
    default: return -1;
  }
}

bool embed__beyond_digits(const float *x, int64_t dim) {
  float largest = 0, least = FLT_MAX;
  for (int64_t j = 0; j < dim; ++j) {
    const float size = fabsf(x[j]);
    largest = size > largest ? size : largest;
    least = size > 0 && size < least ? size : least;
  }
  return largest > FLT_MAX || least < largest * 0x1p-28f;
}

static bool limbs_hold(const float *x, int64_t count) {
  bool held = true;
  for (int64_t j = 0; j < count; ++j) held &= fabsf(x[j]) <= EMBED__LIMBS_MOST;
  return held;
}

bool embed__limbs_hold_rows(const embed__kernels *k, const unsigned char *x, embed_dtype dtype, const int64_t *rows, int64_t n, int64_t ldx, int64_t dim) {
  enum { PART = 256 };
  const int64_t bytes = embed__float_bytes(dtype);
  for (int64_t i = 0; i < n; ++i) {
    const unsigned char *row = x + (rows ? rows[i] : i) * ldx * bytes;
    for (int64_t j = 0; j < dim; j += PART) {
      float part[PART];
      const int64_t count = embed__min(PART, dim - j);
      embed__load_row(k, row + j * bytes, dtype, part, count);
      if (!limbs_hold(part, count)) return false;
    }
  }
  return true;
}

/* A block that Q8_0 cannot hold becomes NaN: nothing is hidden. */
static void round_to_q8_0(const embed__kernels *k, float *x, int64_t dim) {
  enum { COLUMNS = 32, BYTES = 34 };
  const embed__codec *codec = embed__codec_find(EMBED_Q8_0);
  for (int64_t j = 0; j < dim; j += COLUMNS) {
    int64_t n = embed__min(COLUMNS, dim - j);
    float block[COLUMNS] = {0};
    unsigned char stored[BYTES];
    memcpy(block, x + j, (size_t)n * sizeof *block);
    bool finite = true;
    for (int64_t i = 0; i < n; ++i) finite = finite && isfinite(block[i]);
    if (finite && codec->encode(k, block, stored, COLUMNS, 0, NULL))
      codec->decode(k, stored, block, COLUMNS, 0, 1.0f);
    else
      for (int64_t i = 0; i < n; ++i) block[i] = NAN;
    memcpy(x + j, block, (size_t)n * sizeof *block);
  }
}

void embed__round_activation(const embed__kernels *k, embed__activation activation, float *x, int64_t dim) {
  if (activation == EMBED__ROUNDED_BF16)
    for (int64_t j = 0; j < dim; ++j) x[j] = embed__f32_of_bf16(embed__bf16_of_f32(x[j]));
  if (activation == EMBED__ROUNDED_Q8_0) round_to_q8_0(k, x, dim);
}
