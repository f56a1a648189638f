/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/scale_search.h"

#include "codec/blocks.h"

int embed__nearest(float x) {
  const float reach = 4194303.0f;
  x = x > -reach ? x : -reach;
  x = x < reach ? x : reach;
  return (int)(embed__bits_of_f32(x + 12582912.0f) & 0x007FFFFFu) - 0x00400000;
}

static int symmetric(float x, int levels) { return embed__clamp(embed__nearest(x), -levels, levels - 1); }

/* q of every x in a loop of its own, which compilers turn into vectors; the sums must keep their order. */
static void round_symmetric(const float *restrict x, int n, int levels, float inverse, int *restrict q) {
  for (int i = 0; i < n; ++i) q[i] = symmetric(inverse * x[i], levels);
}

static void round_affine(const float *restrict x, int n, int top, float inverse, float low, int *restrict q) {
  for (int i = 0; i < n; ++i) q[i] = embed__clamp(embed__nearest(inverse * (x[i] - low)), 0, top);
}

/* Sums of a least-squares step: weighted x * q and q^2. */
typedef struct fit {
  float xq, qq;
} fit;

static fit fit_of(const float *x, int n, const int *q) {
  fit f = {0, 0};
  for (int i = 0; i < n; ++i) {
    float by = (float)q[i], weight = x[i] * x[i];
    f.xq += weight * x[i] * by;
    f.qq += weight * by * by;
  }
  return f;
}

float embed__search_symmetric(const float *x, int n, int levels, int *q) {
  float extreme = embed__extreme(x, n);
  for (int i = 0; i < n; ++i) q[i] = 0;
  if (fabsf(extreme) < EMBED__ALL_ZERO) return 0;
  int tried[EMBED__QK];
  round_symmetric(x, n, levels, (float)-levels / extreme, q);
  fit f = fit_of(x, n, q);
  float step = f.qq != 0 ? f.xq / f.qq : 0, best = step * f.xq;
  for (int i = -9; i <= 9; ++i) {
    if (i == 0) continue;
    float inverse = -((float)levels + 0.1f * (float)i) / extreme;
    round_symmetric(x, n, levels, inverse, tried);
    f = fit_of(x, n, tried);
    if (!(f.qq > 0 && f.xq * f.xq > best * f.qq)) continue;
    step = f.xq / f.qq;
    best = step * f.xq;
    memcpy(q, tried, (size_t)n * sizeof *q);
  }
  for (int i = 0; i < n; ++i) q[i] += levels;
  return step;
}

float embed__search_by_moves(const float *x, int n, int levels, int *q) {
  enum { PASSES = 5 };
  float extreme = embed__extreme(x, n);
  for (int i = 0; i < n; ++i) q[i] = 0;
  if (fabsf(extreme) < EMBED__ALL_ZERO) return 0;
  float inverse = (float)-levels / extreme;
  round_symmetric(x, n, levels, inverse, q);
  fit f = fit_of(x, n, q);
  for (int pass = 0, moved = 1; pass < PASSES && moved; ++pass) {
    moved = 0;
    for (int i = 0; i < n; ++i) {
      float weight = x[i] * x[i], now = (float)q[i];
      fit without = {f.xq - weight * x[i] * now, f.qq - weight * now * now};
      if (!(without.xq > 0)) continue;
      int other = symmetric(x[i] * without.qq / without.xq, levels);
      if (other == q[i]) continue;
      float to = (float)other;
      fit with = {without.xq + weight * x[i] * to, without.qq + weight * to * to};
      if (!(with.qq > 0 && with.xq * with.xq * f.qq > f.xq * f.xq * with.qq)) continue;
      q[i] = other;
      f = with;
      moved = 1;
    }
  }
  for (int i = 0; i < n; ++i) q[i] += levels;
  return f.qq > 0 ? f.xq / f.qq : 0;
}

static float error_of(const float *x, int n, const float *weights, const int *q, float step, float low, bool absolute) {
  float error = 0;
  for (int i = 0; i < n; ++i) {
    float off = step * (float)q[i] + low - x[i];
    off = absolute ? fabsf(off) : off * off;
    error += weights[i] * off;
  }
  return error;
}

float embed__search_affine(const float *x, int n, const float *weights, const embed__affine_plan *plan, int *q, float *offset) {
  float low = embed__least(x, n), high = embed__most(x, n), sum_w = 0, sum_x = 0;
  int tried[EMBED__QK];
  for (int i = 0; i < n; ++i) {
    sum_w += weights[i];
    sum_x += weights[i] * x[i];
  }
  if (low > 0) low = 0;
  for (int i = 0; i < n; ++i) q[i] = 0;
  *offset = -low;
  if (high == low) return 0;
  float inverse = (float)plan->top / (high - low), step = 1 / inverse;
  round_affine(x, n, plan->top, inverse, low, q);
  float best = error_of(x, n, weights, q, step, low, plan->absolute);
  for (int t = 0; t <= plan->tries; ++t) {
    float sum_q = 0, sum_qq = 0, sum_xq = 0;
    inverse = (plan->first + plan->stride * (float)t + (float)plan->top) / (high - low); /* low moves with the best: ggml's habit */
    round_affine(x, n, plan->top, inverse, low, tried);
    for (int i = 0; i < n; ++i) {
      float l = (float)tried[i];
      sum_q += weights[i] * l;
      sum_qq += weights[i] * l * l;
      sum_xq += weights[i] * l * x[i];
    }
    float determinant = sum_w * sum_qq - sum_q * sum_q;
    if (!(determinant > 0)) continue;
    float this_step = (sum_w * sum_xq - sum_x * sum_q) / determinant, this_low = (sum_qq * sum_x - sum_q * sum_xq) / determinant;
    if (this_low > 0) {
      this_low = 0;
      this_step = sum_xq / sum_qq;
    }
    float error = error_of(x, n, weights, tried, this_step, this_low, plan->absolute);
    if (!(error < best)) continue;
    memcpy(q, tried, (size_t)n * sizeof *q);
    best = error;
    step = this_step;
    low = this_low;
  }
  *offset = -low;
  return step;
}
