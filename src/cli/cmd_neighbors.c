/* SPDX-License-Identifier: BSD-3-Clause */
/* embed neighbors FILE WORD: nearest rows by exact cosine, the word's own left out. */
#include <stdlib.h>

#include "ranking.h"

static int answer(cli_session *s, const cli_options *o, int32_t id) {
  int64_t vocab = embed_table_vocab(s->table), row = id;
  int32_t k = o->k < vocab ? o->k : (int32_t)vocab, count = 0;
  float *query = cli_array(s, embed_table_dim(s->table), 1, sizeof *query);
  float *scores = query ? cli_array(s, k, 1, sizeof *scores) : NULL;
  int32_t *ids = scores ? cli_array(s, k, 1, sizeof *ids) : NULL;
  int status = ids ? CLI_DONE : CLI_FAILED;
  if (!status && (embed_table_get_rows(s->ctx, s->table, &row, 1, query, EMBED_F32, 0) != EMBED_OK ||
                  embed_nearest(s->ctx, s->table, query, 1, 0, k, &id, 1, ids, scores, &count, NULL) != EMBED_OK))
    status = cli_library_fail(s);
  if (!status) cli_ranking(s, o, ids, count, &(cli_column){.name = "score", .floats = scores}, 1);
  free(ids), free(scores), free(query);
  return status;
}

int cli_neighbors(const cli_options *o) {
  cli_session s;
  int32_t id = 0;
  int status = cli_session_open(&s, o);
  if (!status) status = cli_session_table(&s);
  if (!status) status = cli_session_row(&s, o->operands[1], &id);
  if (!status) status = answer(&s, o, id);
  cli_session_close(&s);
  return status;
}
