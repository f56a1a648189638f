/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/sixteen.h"

#include "codec/scale_search.h"

const int8_t embed__iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

int embed__iq4_nearest(float x) {
  int below = 0, above = 15;
  if (x <= -127) return below;
  if (x >= 113) return above;
  while (above - below > 1) {
    const int middle = (below + above) / 2;
    if (x < (float)embed__iq4_values[middle])
      above = middle;
    else
      below = middle;
  }
  return x - (float)embed__iq4_values[below] < (float)embed__iq4_values[above] - x ? below : above;
}

/* Sums of a least-squares step: weighted x * value and value^2. */
typedef struct fit {
  float xq, qq;
} fit;

static fit fit_of(const float *x, float inverse) {
  fit f = {0, 0};
  for (int j = 0; j < EMBED__QK; ++j) {
    const float value = (float)embed__iq4_values[embed__iq4_nearest(inverse * x[j])], weight = x[j] * x[j];
    f.xq += weight * value * x[j];
    f.qq += weight * value * value;
  }
  return f;
}

float embed__iq4_search(const float *x) {
  enum { TRIES = 7 };
  const float extreme = embed__extreme(x, EMBED__QK);
  if (fabsf(extreme) < EMBED__ALL_ZERO) return 0;
  fit f = fit_of(x, 1 / (-extreme / -127.0f));
  float step = f.qq > 0 ? f.xq / f.qq : 0, best = step * f.xq;
  for (int i = -TRIES; i <= TRIES; ++i) {
    f = fit_of(x, (float)(i - 127) / extreme);
    if (!(f.qq > 0 && f.xq * f.xq > best * f.qq)) continue;
    step = f.xq / f.qq;
    best = step * f.xq;
  }
  return step;
}

const int8_t embed__fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

int embed__fp4_nearest(float x, float d) {
  int best = 0;
  float least = fabsf(0 - x);
  for (int i = 1; i < 16; ++i) {
    const float error = fabsf((float)embed__fp4_values[i] * d - x);
    if (!(error < least)) continue;
    best = i;
    least = error;
  }
  return best;
}
