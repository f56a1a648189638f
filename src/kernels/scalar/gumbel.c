/* SPDX-License-Identifier: BSD-3-Clause */
/* The specification of the sampling kernels. */
#include "kernels/gumbel.h"

#include <math.h>

#include "core/half.h"
#include "core/philox.h"

/* The four words of ids 4 * quad .. 4 * quad + 3. */
static void quad_of(uint64_t seed, uint64_t position, uint32_t quad, uint32_t out[4]) {
  const uint32_t counter[4] = {quad, (uint32_t)position, (uint32_t)(position >> 32), EMBED__STREAM_SAMPLE};
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  embed__philox(counter, key, out);
}

static void words(uint64_t seed, uint64_t position, uint32_t first, int64_t n, uint32_t *out) {
  uint32_t quad[4];
  for (int64_t i = 0; i < n; ++i) {
    uint32_t id = first + (uint32_t)i;
    if (i == 0 || (id & 3) == 0) quad_of(seed, position, id >> 2, quad);
    out[i] = quad[id & 3];
  }
}

static void words_of(uint64_t seed, uint64_t position, const int32_t *ids, int64_t n, uint32_t *out) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t quad[4];
    quad_of(seed, position, (uint32_t)ids[i] >> 2, quad);
    out[i] = quad[ids[i] & 3];
  }
}

static int64_t contenders(const float *z, const uint32_t *word, int64_t n, float scale, float offset, int32_t *index) {
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    float complement = (float)(int32_t)(~word[i] >> 1);
    if (!((float)(int32_t)embed__bits_of_f32(complement) >= z[i] * scale + offset)) index[found++] = (int32_t)i;
  }
  return found;
}

static double sum_exp(const float *z, int64_t n, double scale, double top) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += exp((double)z[i] * scale - top);
  return sum;
}

void embed__gumbel_scalar(embed__gumbel_kernels *k) {
  k->words = words;
  k->words_of = words_of;
  k->contenders = contenders;
  k->sum_exp = sum_exp;
}
