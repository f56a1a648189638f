/* SPDX-License-Identifier: BSD-3-Clause */
/* The gradient filter: table rows whose slopes are all small are left out of the products, a few at a time. Most of a vocabulary is improbable
 * for every row of a chunk once a model has learnt. Wijmans et al., "Cut your losses in large-vocabulary language models", 2024. */
#include <math.h>

#include "core/checked.h"
#include "loss/pass.h"

enum { FILTERED = 24 /* table rows that go together: whole tiles of the products */ };

/* Whether a slope of these table rows is above its hidden row's limit, or NaN. */
static bool counts(const embed__pass *p, const float *z, int64_t count) {
  for (int64_t r = 0; r < count; ++r) {
    int above = 0;
    for (int64_t i = 0; i < p->rows; ++i) above |= !(fabsf(z[r * p->lanes + i]) <= p->limit[i]);
    if (above) return true;
  }
  return false;
}

bool embed__pass_add_filtered(const embed__pass *p, float *z, int64_t first, int64_t count, float *partial, bool add, int32_t worker) {
  int64_t done = 0;
  while (done < count) {
    int64_t end = done;
    while (end < count && counts(p, z + end * p->lanes, embed__min(FILTERED, count - end))) end = embed__min(count, end + FILTERED);
    if (end > done) embed__pass_add(p, z + done * p->lanes, first + done, end - done, partial, add, worker);
    add = add || end > done;
    done = end + FILTERED; /* those behind a run do not count */
  }
  return add;
}
