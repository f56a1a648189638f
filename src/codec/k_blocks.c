/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/k_blocks.h"

enum { COUNT = 8, COLUMNS = EMBED__AFFINE_COLUMNS };

static void put_affine(unsigned char *header, int i, int step, int offset) {
  unsigned char *s = header + 4;
  if (i < 4) {
    s[i] = (unsigned char)step;
    s[i + 4] = (unsigned char)offset;
  } else {
    s[i + 4] = (unsigned char)((step & 15) | (offset & 15) << 4);
    s[i - 4] |= (unsigned char)(step >> 4 << 6);
    s[i] |= (unsigned char)(offset >> 4 << 6);
  }
}

/* Errors of large values weigh more: by the sub-block's root mean square plus |x|. */
static void weigh(const float *x, float *weights) {
  float squares = 0;
  for (int l = 0; l < COLUMNS; ++l) squares += x[l] * x[l];
  float typical = sqrtf(squares / COLUMNS);
  for (int l = 0; l < COLUMNS; ++l) weights[l] = typical + fabsf(x[l]);
}

bool embed__encode_affine(const float *x, const embed__affine_plan *plan, unsigned char *header, int *q) {
  float steps[COUNT], offsets[COUNT], weights[COLUMNS], most_step = 0, most_offset = 0;
  for (int i = 0; i < COUNT; ++i) {
    weigh(x + COLUMNS * i, weights);
    steps[i] = embed__search_affine(x + COLUMNS * i, COLUMNS, weights, plan, q + COLUMNS * i, &offsets[i]);
    most_step = steps[i] > most_step ? steps[i] : most_step;
    most_offset = offsets[i] > most_offset ? offsets[i] : most_offset;
  }
  float to_step = most_step > 0 ? 63.0f / most_step : 0, to_offset = most_offset > 0 ? 63.0f / most_offset : 0;
  for (int i = 0; i < COUNT; ++i)
    put_affine(header, i, embed__clamp(embed__nearest(to_step * steps[i]), 0, 63), embed__clamp(embed__nearest(to_offset * offsets[i]), 0, 63));
  if (!embed__put_half(header, most_step / 63.0f) || !embed__put_half(header + 2, most_offset / 63.0f)) return false;
  float d = embed__half_at(header), dmin = embed__half_at(header + 2);
  for (int i = 0; i < COUNT; ++i) {
    int step, offset;
    embed__affine_at(header, i, &step, &offset);
    float by = d * (float)step, low = dmin * (float)offset;
    if (by == 0) continue;
    for (int j = COLUMNS * i; j < COLUMNS * (i + 1); ++j) q[j] = embed__clamp(embed__nearest((x[j] + low) / by), 0, plan->top);
  }
  return true;
}
