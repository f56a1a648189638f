/* SPDX-License-Identifier: BSD-3-Clause */
/* embed score FILE --hidden H.npy --targets T.npy: how probable the head finds what came after each hidden state. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "hidden.h"
#include "progress.h"
#include "ranking.h"
#include "targets.h"

enum { COLUMNS = 3 };

static void print(const cli_session *s, const cli_options *o, const int32_t *targets, int64_t n, const cli_column *columns) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (double)columns[0].floats[i];
  const double perplexity = exp(-sum / (double)n); /* of no rows: NaN */
  cli_progress_end();
  if (!o->json) {
    cli_ranking_print(s, targets, n, columns, COLUMNS);
    printf("\nlog-probability %.6f of %" PRId64 " tokens", sum, n);
    if (!isnan(perplexity)) printf(", perplexity %.6f", perplexity);
    putchar('\n');
    return;
  }
  cli_json j = {0};
  cli_json_open(&j, '{');
  cli_json_key(&j, "logprob"), cli_json_double(&j, sum);
  cli_json_key(&j, "perplexity"), cli_json_double(&j, perplexity);
  cli_json_key(&j, "targets"), cli_ranking_json(&j, s, targets, n, columns, COLUMNS);
  cli_json_close(&j, '}');
  cli_json_end();
}

static int answer(cli_session *s, const cli_options *o, const float *hidden, const int32_t *targets, int64_t n) {
  const embed_sweep_options ask = {.size = sizeof ask, .ask = EMBED_ASK_TARGET_LOGPROB | EMBED_ASK_TARGET_RANK | EMBED_ASK_ENTROPY};
  embed_result *result = NULL;
  int status = CLI_DONE;
  if (embed_result_create(s->ctx, &result) != EMBED_OK ||
      embed_sweep(s->ctx, s->head, hidden, EMBED_F32, 0, NULL, n, targets, NULL, NULL, 0, &ask, result) != EMBED_OK)
    status = cli_library_fail(s);
  if (!status) {
    const cli_column columns[COLUMNS] = {
        {.name = "logprob", .floats = embed_result_f32(result, EMBED_ASK_TARGET_LOGPROB, NULL, NULL)},
        {.name = "rank", .integers = embed_result_i32(result, EMBED_ASK_TARGET_RANK, NULL, NULL)},
        {.name = "entropy", .floats = embed_result_f32(result, EMBED_ASK_ENTROPY, NULL, NULL)},
    };
    print(s, o, targets, n, columns);
  }
  embed_result_release(result);
  return status;
}

int cli_score(const cli_options *o) {
  cli_session s;
  float *hidden = NULL;
  int32_t *targets = NULL;
  int64_t n = 0;
  if (!o->hidden) return cli_usage("score", "--hidden is missing");
  if (!o->targets) return cli_usage("score", "--targets is missing");
  int status = cli_session_open(&s, o);
  if (!status) status = cli_session_head(&s, NULL);
  if (!status) status = cli_hidden_read(&s, o->hidden, &hidden, &n);
  if (!status) status = cli_targets_read(&s, o->targets, n, &targets);
  if (!status) status = answer(&s, o, hidden, targets, n);
  free(targets);
  free(hidden);
  cli_session_close(&s);
  return status;
}
