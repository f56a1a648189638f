/* SPDX-License-Identifier: BSD-3-Clause */
/* embed_logits. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/least.h"
#include "head/head.h"
#include "thread/run.h"

typedef struct logits_job {
  const embed_head *head;
  embed_nan_policy nan;
  int64_t first; /* hidden row of the chunk's row 0 */
  _Atomic int64_t refused;
} logits_job;

static void finish_tile(void *arg, const embed__tile *tile) {
  logits_job *job = arg;
  embed__finish_logits(job->head, tile->z, tile->ldz, tile->rows, tile->column, tile->columns);
  for (int64_t i = 0; i < tile->rows; ++i)
    if (embed__apply_nan_policy(job->nan, tile->z + i * tile->ldz, tile->columns)) embed__keep_least(&job->refused, job->first + tile->first + i);
}

embed_status embed__nan_error(embed_context *ctx, int64_t row) {
  return embed__fail(ctx, EMBED_E_NONFINITE, row, "hidden row %" PRId64 " has a NaN among its logits", row);
}

static embed_status logits(embed_context *ctx, const embed_head *h, embed__sweep *s, const embed_sweep_options *o) {
  logits_job job = {.head = h, .nan = o->nan, .refused = INT64_MAX};
  bool as_multiplied = !h->bias && h->scale == 1.0f && h->softcap == 0 && o->nan == EMBED_NAN_MAX;
  s->take = as_multiplied ? NULL : finish_tile;
  s->reducer = &job;
  EMBED__TRY(embed__sweep_begin(ctx, s));
  for (job.first = 0; job.first < s->n; job.first += s->chunk) EMBED__TRY(embed__sweep_chunk(ctx, s, job.first));
  int64_t refused = atomic_load(&job.refused);
  return refused == INT64_MAX ? EMBED_OK : embed__nan_error(ctx, refused);
}

embed_status embed_logits(embed_context *ctx, const embed_head *h, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden,
                          float *logits_out, int64_t ld_logits, const embed_sweep_options *opts) {
  embed_sweep_options o;
  embed__sweep s;
  EMBED__BEGIN(ctx);
  EMBED__TRY(embed__head_sweep(ctx, h, hidden, hidden_dtype, n, ld_hidden, opts, &o, &s));
  EMBED__TRY(embed__check_buffer(ctx, "logits", logits_out, EMBED_F32, h->table->vocab ? n : 0, h->table->vocab, ld_logits, &s.ldout));
  if (n == 0 || h->table->vocab == 0) return EMBED_OK;
  s.out = logits_out;
  return embed__end(ctx, logits(ctx, h, &s, &o));
}
