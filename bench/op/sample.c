/* SPDX-License-Identifier: BSD-3-Clause */
/* One token drawn over 262,144 ids beside the bare sweep, embed_logits, in turns. Logits are as spread as a model's: hidden
 * vectors are scaled so that their standard deviation is 5, and 0.95 of the probability lies on some hundred ids. */
#include <stdio.h>

#include "op.h"

enum { ROWS = 262144, DIM = 640 };

typedef struct sample_job {
  op *o;
  op_outcome *outcome;
  embed_head *head;
  float *hidden, *logits;
  embed_sample_params params;
  embed_result *result;
} sample_job;

static void sample(void *job) {
  sample_job *j = job;
  const embed_sweep_options options = {.size = sizeof options, .ask = EMBED_ASK_TOKEN};
  ++j->params.position;
  op_note(j->o, j->outcome, embed_sweep(j->o->context, j->head, j->hidden, EMBED_F32, 0, NULL, 1, NULL, NULL, &j->params, 1, &options, j->result));
}

static void bare(void *job) {
  sample_job *j = job;
  op_note(j->o, j->outcome, embed_logits(j->o->context, j->head, j->hidden, EMBED_F32, 1, 0, j->logits, 0, NULL));
}

static void check_token(sample_job *j) {
  const int32_t *id = embed_result_i32(j->result, EMBED_ASK_TOKEN, NULL, NULL);
  int64_t above = 0;
  for (int64_t v = 0; id && v < ROWS; ++v) above += j->logits[v] > j->logits[id[0]];
  if (!id || above > 20000) snprintf(j->outcome->text, sizeof j->outcome->text, "the token drawn has %d ids above it", (int)above);
}

static void run(op *o, const op_line *line, const char *name, double top_p) {
  op_outcome outcome = {0};
  bench_figure figures[3] = {0};
  char what[64];
  snprintf(what, sizeof what, "%-7s %-5s %dx%d batch 1", name, op_dtype_name(line->dtype), ROWS, DIM);
  op_result r = {.what = what, .peer_name = "bare sweep"};
  sample_job j = {.o = o, .outcome = &outcome, .params = {.size = sizeof j.params, .seed = 7, .temperature = 1, .top_p = top_p}};
  embed_table *table = op_new_table(o, ROWS, DIM, line->dtype, &outcome);
  j.hidden = op_vectors(1, DIM, 8.6f, &outcome);
  j.logits = bench_memory(sizeof(float) * ROWS);
  if (table && j.hidden && j.logits) op_note(o, &outcome, embed_head_create(o->context, table, NULL, NULL, &j.head));
  if (j.head) op_note(o, &outcome, embed_result_create(o->context, &j.result));
  if (j.result) {
    const bench_work works[3] = {op_multiply_add_work(o), {.call = sample, .job = &j}, {.call = bare, .job = &j}};
    bench_measure(o->bench, works, 3, figures);
    if (!op_wrong(&outcome)) check_token(&j);
  }
  r.ours = figures[1];
  r.peer = figures[2];
  op_product_limit(o, &r, &figures[0], (double)embed_row_bytes(line->dtype, DIM, 0) * ROWS, 2.0 * ROWS * DIM);
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
  embed_result_release(j.result);
  embed_head_release(j.head);
  embed_table_release(table);
  bench_memory_release(j.hidden, sizeof(float) * DIM);
  bench_memory_release(j.logits, sizeof(float) * ROWS);
}

void op_sample(op *o, const op_line *line) { run(o, line, "sample", 0); }
void op_sample_top_p(op *o, const op_line *line) { run(o, line, "top-p", 0.95); }
