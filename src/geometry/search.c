/* SPDX-License-Identifier: BSD-3-Clause */
#include "geometry/search.h"

#include <math.h>

#include "core/checked.h"
#include "core/error.h"

int64_t embed__search_state_bytes(const embed__search *s) { return s->capacity * (int64_t)sizeof *s->entries + (int64_t)sizeof *s->heaps; }

embed_status embed__search_heaps(embed_context *ctx, embed__search *s, int64_t slots) {
  int64_t heaps = slots * s->chunk;
  EMBED__TRY(embed__scratch_matrix(ctx, heaps, s->capacity, sizeof *s->entries, &s->entries));
  return embed__scratch_get(ctx, heaps, sizeof *s->heaps, &s->heaps);
}

void embed__search_empty(embed__search *s, int64_t slots) {
  for (int64_t i = 0; i < slots * s->chunk; ++i)
    s->heaps[i] = (embed__topk){.entries = s->entries + i * s->capacity, .capacity = s->capacity, .numbers_only = true};
}

void embed__search_offer(const embed__search *s, int32_t slot, int64_t query, const float *scores, int64_t columns, int64_t column) {
  const embed__nearest *q = s->q;
  const int32_t *exclude = q->exclude ? q->exclude + (s->first + query) * q->excluded : NULL;
  embed__topk_offer(s->ctx->kernels, &s->heaps[slot * s->chunk + query], scores, columns, (int32_t)column, exclude, exclude ? q->excluded : 0);
}

const embed__topk *embed__search_sorted(embed__search *s, int32_t slots, int64_t query) {
  embed__topk *top = &s->heaps[query];
  for (int32_t slot = 1; slot < slots; ++slot) embed__topk_merge(top, &s->heaps[slot * s->chunk + query]);
  embed__topk_sort(top);
  return top;
}

void embed__search_answer(const embed__nearest *q, int64_t at, const embed__topk *top) {
  int64_t found = 0;
  bool distance = q->metric == EMBED_METRIC_L2; /* its heaps rank minus the distance */
  while (found < top->count && found < q->k && !(isinf(top->entries[found].value) && top->entries[found].value < 0)) {
    q->ids[at * q->k + found] = top->entries[found].id;
    q->scores[at * q->k + found] = distance ? -top->entries[found].value : top->entries[found].value;
    ++found;
  }
  if (q->count) q->count[at] = (int32_t)found;
  for (int64_t j = found; j < q->k; ++j) {
    q->ids[at * q->k + j] = -1;
    q->scores[at * q->k + j] = distance ? INFINITY : -INFINITY;
  }
}
