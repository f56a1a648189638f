/* SPDX-License-Identifier: BSD-3-Clause */
/* embed sample FILE --hidden H.npy: a token drawn for each hidden state. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hidden.h"
#include "progress.h"
#include "ranking.h"
#include "targets.h"

static int read_order(const cli_options *o, embed_sample_order *order) {
  const char *name = o->sampling.order;
  *order = name && strcmp(name, "llamacpp") == 0 ? EMBED_ORDER_LLAMACPP : EMBED_ORDER_HF;
  if (!name || *order == EMBED_ORDER_LLAMACPP || strcmp(name, "hf") == 0) return CLI_DONE;
  return cli_usage("sample", "--order is hf or llamacpp, not \"%s\"", name);
}

/* The hidden states are successive positions of one text. */
static embed_sample_params *make_params(const cli_session *s, const cli_options *o, embed_sample_order order, int64_t n) {
  embed_sample_params *params = cli_array(s, n, 1, sizeof *params);
  for (int64_t i = 0; i < n && params; ++i)
    params[i] = (embed_sample_params){.size = sizeof *params,
                                      .seed = o->sampling.seed,
                                      .position = o->sampling.position + i,
                                      .temperature = o->sampling.temperature,
                                      .top_p = o->sampling.top_p,
                                      .min_p = o->sampling.min_p,
                                      .typical_p = o->sampling.typical_p,
                                      .top_n_sigma = o->sampling.top_n_sigma,
                                      .repetition = o->sampling.repetition,
                                      .frequency = o->sampling.frequency,
                                      .presence = o->sampling.presence,
                                      .top_k = o->sampling.top_k,
                                      .last_n = o->sampling.last_n,
                                      .min_keep = o->sampling.min_keep,
                                      .order = order};
  return params;
}

/* All hidden states share the history: what was drawn for one is not what the next one followed. */
static int read_history(const cli_session *s, const char *path, embed_rules **rules) {
  int32_t *ids = NULL;
  int64_t n = 0;
  int status = cli_history_read(s, path, &n, &ids);
  if (!status && (embed_rules_create(s->ctx, embed_head_vocab(s->head), rules) != EMBED_OK || embed_rules_push(s->ctx, *rules, ids, n) != EMBED_OK))
    status = cli_library_fail(s);
  free(ids);
  return status;
}

static int draw(cli_session *s, const cli_options *o, const float *hidden, int64_t n, const embed_sample_params *params, int32_t *ids, float *logprobs) {
  embed_rules *rules = NULL;
  const embed_rules **of_rows = NULL;
  int status = CLI_DONE;
  if (o->sampling.history) {
    of_rows = cli_array(s, n, 1, sizeof *of_rows);
    status = of_rows ? read_history(s, o->sampling.history, &rules) : CLI_FAILED;
    for (int64_t i = 0; i < n && !status; ++i) of_rows[i] = rules;
  }
  if (!status && n > 0 && embed_sample(s->ctx, s->head, hidden, EMBED_F32, n, 0, of_rows, params, n, ids, logprobs, NULL) != EMBED_OK)
    status = cli_library_fail(s);
  free(of_rows);
  embed_rules_release(rules);
  return status;
}

static int answer(cli_session *s, const cli_options *o, embed_sample_order order, const float *hidden, int64_t n) {
  if (n > 0 && o->sampling.position > INT64_MAX - (n - 1))
    return cli_fail("--position", "%" PRId64 " and %" PRId64 " more do not fit", o->sampling.position, n);
  embed_sample_params *params = make_params(s, o, order, n);
  float *logprobs = params ? cli_array(s, n, 1, sizeof *logprobs) : NULL;
  int32_t *ids = logprobs ? cli_array(s, n, 1, sizeof *ids) : NULL;
  int status = ids ? CLI_DONE : CLI_FAILED;
  if (!status) status = draw(s, o, hidden, n, params, ids, logprobs);
  if (!status) cli_ranking(s, o, ids, n, &(cli_column){.name = "logprob", .floats = logprobs}, 1);
  free(ids), free(logprobs), free(params);
  return status;
}

int cli_sample(const cli_options *o) {
  cli_session s;
  embed_sample_order order;
  float *hidden = NULL;
  int64_t n = 0;
  if (!o->hidden) return cli_usage("sample", "--hidden is missing");
  if (o->sampling.of_history && !o->sampling.history) return cli_usage("sample", "%s looks at a history: --history is missing", o->sampling.of_history);
  int status = read_order(o, &order);
  if (status) return status;
  status = cli_session_open(&s, o);
  if (!status) status = cli_session_head(&s, NULL);
  if (!status) status = cli_hidden_read(&s, o->hidden, &hidden, &n);
  if (!status) status = answer(&s, o, order, hidden, n);
  free(hidden);
  cli_session_close(&s);
  return status;
}
