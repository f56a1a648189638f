/* SPDX-License-Identifier: BSD-3-Clause */
/* Tokens in order of a score: how neighbors, analogy and topk answer. */
#ifndef CLI_RANKING_H
#define CLI_RANKING_H

#include "json.h"
#include "session.h"

/* [{"id","token",score_name}...]; ids as given, best first. */
void cli_ranking_json(cli_json *j, const cli_session *s, const int32_t *ids, const float *scores, int64_t count, const char *score_name);
void cli_ranking_print(const cli_session *s, const int32_t *ids, const float *scores, int64_t count, const char *score_name);

/* One such list is all the answer. */
void cli_ranking(const cli_session *s, const cli_options *o, const int32_t *ids, const float *scores, int64_t count);

void cli_token_json(cli_json *j, const cli_session *s, int64_t id);
/* In a column of `width`; a row without a token leaves it blank. */
void cli_token_print(const cli_session *s, int64_t id, int width);
int cli_token_width(const cli_session *s, int64_t id);

#endif
