/* SPDX-License-Identifier: BSD-3-Clause */
#include "rows.h"

#include <stdlib.h>
#include <string.h>

#include "progress.h"

enum { BLOCK_BYTES = 1 << 20 };

int cli_each_row(cli_session *s, int64_t walk, int64_t walks, cli_row_visitor *visit, void *arg) {
  const int64_t vocab = embed_table_vocab(s->table), dim = embed_table_dim(s->table);
  int64_t most = dim < BLOCK_BYTES / 4 ? BLOCK_BYTES / 4 / dim : 1;
  if (most > vocab) most = vocab;
  int64_t *ids = cli_array(s, most, 1, sizeof *ids);
  float *values = ids ? cli_array(s, most, dim, sizeof *values) : NULL;
  int status = values ? CLI_DONE : CLI_FAILED;
  cli_progress_step(walk, walks);
  for (int64_t first = 0, n; !status && first < vocab; first += n) {
    n = vocab - first < most ? vocab - first : most;
    for (int64_t i = 0; i < n; ++i) ids[i] = first + i;
    if (embed_table_get_rows(s->ctx, s->table, ids, n, values, EMBED_F32, 0) != EMBED_OK) status = cli_library_fail(s);
    for (int64_t i = 0; !status && i < n; ++i) status = visit(arg, first + i, values + i * dim);
    cli_progress(NULL, first + n, vocab);
  }
  free(values);
  free(ids);
  return status;
}

/* Two numbers at a time. */
uint64_t cli_row_hash(const float *values, int64_t dim) {
  uint64_t hash = 0x9E3779B97F4A7C15u;
  for (int64_t j = 0; j < dim; j += 2) {
    uint32_t pair[2] = {0, 0};
    memcpy(pair, values + j, dim - j > 1 ? 8 : 4);
    hash = (hash ^ ((uint64_t)pair[0] << 32 | pair[1])) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
  }
  return hash;
}
