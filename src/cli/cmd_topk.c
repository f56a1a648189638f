/* SPDX-License-Identifier: BSD-3-Clause */
/* embed topk FILE --hidden H.npy: the best tokens of each hidden state. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "hidden.h"
#include "progress.h"
#include "ranking.h"

typedef struct answer {
  int32_t *ids, *counts;
  float *logits, *logsumexp;
  float *logprobs; /* NULL unless asked for */
} answer;

static void list(const cli_session *s, const answer *a, int64_t i, int32_t k, cli_json *j) {
  const cli_column columns[] = {{.name = "logit", .floats = a->logits + i * k}, {.name = "logprob", .floats = a->logprobs ? a->logprobs + i * k : NULL}};
  const int column_count = a->logprobs ? 2 : 1;
  if (j) {
    cli_ranking_json(j, s, a->ids + i * k, a->counts[i], columns, column_count);
  } else {
    cli_ranking_print(s, a->ids + i * k, a->counts[i], columns, column_count);
  }
}

static void print_json(const cli_session *s, const answer *a, int64_t n, int32_t k) {
  cli_json j = {0};
  cli_json_open(&j, '[');
  for (int64_t i = 0; i < n; ++i) {
    cli_json_open(&j, '{');
    cli_json_key(&j, "logsumexp"), cli_json_float(&j, a->logsumexp[i]);
    cli_json_key(&j, "top"), list(s, a, i, k, &j);
    cli_json_close(&j, '}');
  }
  cli_json_close(&j, ']');
  cli_json_end();
}

static void print_rows(const cli_session *s, const answer *a, int64_t n, int32_t k) {
  for (int64_t i = 0; i < n; ++i) {
    printf("%shidden state %" PRId64 ", logsumexp %.6f\n", i ? "\n" : "", i, (double)a->logsumexp[i]);
    list(s, a, i, k, NULL);
  }
}

/* The model's own: log softmax of all logits. */
static int add_logprobs(const cli_session *s, answer *a, int64_t n, int32_t k) {
  a->logprobs = cli_array(s, n, k, sizeof *a->logprobs);
  if (!a->logprobs) return CLI_FAILED;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t at = i * k; at < i * k + a->counts[i]; ++at) a->logprobs[at] = (float)((double)a->logits[at] - (double)a->logsumexp[i]);
  return CLI_DONE;
}

static int answer_rows(cli_session *s, const cli_options *o, const float *hidden, int64_t n) {
  int64_t vocab = embed_head_vocab(s->head);
  int32_t k = o->k < vocab ? o->k : (int32_t)vocab;
  answer a = {.ids = cli_array(s, n, k, sizeof *a.ids)};
  if (a.ids) a.logits = cli_array(s, n, k, sizeof *a.logits);
  if (a.logits) a.logsumexp = cli_array(s, n, 1, sizeof *a.logsumexp);
  if (a.logsumexp) a.counts = cli_array(s, n, 1, sizeof *a.counts);
  int status = a.counts ? CLI_DONE : CLI_FAILED;
  if (!status && n > 0 && embed_topk(s->ctx, s->head, hidden, EMBED_F32, n, 0, k, a.ids, a.logits, a.logsumexp, a.counts, NULL) != EMBED_OK)
    status = cli_library_fail(s);
  if (!status && o->logprobs) status = add_logprobs(s, &a, n, k);
  if (!status) {
    cli_progress_end();
    if (o->json) {
      print_json(s, &a, n, k);
    } else {
      print_rows(s, &a, n, k);
    }
  }
  free(a.ids), free(a.logits), free(a.logsumexp), free(a.counts), free(a.logprobs);
  return status;
}

int cli_topk(const cli_options *o) {
  cli_session s;
  float *hidden = NULL;
  int64_t n = 0;
  if (!o->hidden) return cli_usage("topk", "--hidden is missing");
  int status = cli_session_open(&s, o);
  if (!status) status = cli_session_head(&s, NULL);
  if (!status) status = cli_hidden_read(&s, o->hidden, &hidden, &n);
  if (!status) status = answer_rows(&s, o, hidden, n);
  free(hidden);
  cli_session_close(&s);
  return status;
}
