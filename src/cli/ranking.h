/* SPDX-License-Identifier: BSD-3-Clause */
/* Tokens with numbers beside them, one a line: how neighbors, analogy, topk, score and sample answer. */
#ifndef CLI_RANKING_H
#define CLI_RANKING_H

#include "json.h"
#include "session.h"

typedef struct cli_column {
  const char *name;
  const float *floats;
  const int32_t *integers; /* where floats is NULL */
} cli_column;

/* [{"id","token",column,...}...]; ids as given. */
void cli_ranking_json(cli_json *j, const cli_session *s, const int32_t *ids, int64_t count, const cli_column *columns, int column_count);
void cli_ranking_print(const cli_session *s, const int32_t *ids, int64_t count, const cli_column *columns, int column_count);

/* One such list is all the answer. */
void cli_ranking(const cli_session *s, const cli_options *o, const int32_t *ids, int64_t count, const cli_column *columns, int column_count);

void cli_token_json(cli_json *j, const cli_session *s, int64_t id);
/* In a column of `width`; a row without a token leaves it blank. */
void cli_token_print(const cli_session *s, int64_t id, int width);
int cli_token_width(const cli_session *s, int64_t id);

#endif
