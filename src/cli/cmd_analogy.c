/* SPDX-License-Identifier: BSD-3-Clause */
/* embed analogy FILE A B C: nearest rows to B - A + C, the three left out. */
#include <stdlib.h>

#include "ranking.h"

static int answer(cli_session *s, const cli_options *o, const int32_t *abc) {
  int64_t vocab = embed_table_vocab(s->table);
  int32_t k = o->k < vocab ? o->k : (int32_t)vocab, count = 0;
  float *scores = cli_array(s, k, 1, sizeof *scores);
  int32_t *ids = scores ? cli_array(s, k, 1, sizeof *ids) : NULL;
  int status = ids ? CLI_DONE : CLI_FAILED;
  if (!status && embed_analogy(s->ctx, s->table, abc, 1, k, ids, scores, &count, NULL) != EMBED_OK) status = cli_library_fail(s);
  if (!status) cli_ranking(s, o, ids, count, &(cli_column){.name = "score", .floats = scores}, 1);
  free(ids), free(scores);
  return status;
}

int cli_analogy(const cli_options *o) {
  cli_session s;
  int32_t abc[3] = {0};
  int status = cli_session_open(&s, o);
  if (!status) status = cli_session_table(&s);
  for (int i = 0; i < 3 && !status; ++i) status = cli_session_row(&s, o->operands[1 + i], &abc[i]);
  if (!status) status = answer(&s, o, abc);
  cli_session_close(&s);
  return status;
}
