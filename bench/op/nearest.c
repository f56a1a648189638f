/* SPDX-License-Identifier: BSD-3-Clause */
/* The 10 nearest of 100,000 rows of 384 columns, beside the bare sweep: the logits of the same rows for the same vectors. */
#include <stdio.h>

#include "op.h"

enum { ROWS = 100000, K = 10, MOST_QUERIES = 1024, BARE_QUERIES = 256 /* whose logits fit the output */ };

typedef struct nearest_job {
  op *o;
  op_outcome *outcome;
  const float *queries; /* [n, OP_SHORT_DIM] */
  float *logits;        /* [BARE_QUERIES, ROWS] */
  int64_t n;
  embed_metric_kind metric;
  embed_table *table;
  embed_head *head;
  int32_t ids[MOST_QUERIES * K];
  float scores[MOST_QUERIES * K];
} nearest_job;

static void nearest(void *job) {
  nearest_job *j = job;
  const embed_nearest_options options = {.size = sizeof options, .metric = j->metric};
  op_note(j->o, j->outcome, embed_nearest(j->o->context, j->table, j->queries, j->n, 0, K, NULL, 0, j->ids, j->scores, NULL, &options));
}

static void bare(void *job) {
  nearest_job *j = job;
  for (int64_t done = 0; done < j->n; done += BARE_QUERIES) {
    int64_t n = j->n - done < BARE_QUERIES ? j->n - done : BARE_QUERIES;
    op_note(j->o, j->outcome, embed_logits(j->o->context, j->head, j->queries + done * OP_SHORT_DIM, EMBED_F32, n, 0, j->logits, 0, NULL));
  }
}

static bool prepare(op *o, const op_line *line, nearest_job *j) {
  const embed_table *f32 = op_table(o, EMBED_F32, j->outcome);
  embed_table_options options = {.size = sizeof options}, converted = {.size = sizeof converted, .dtype = line->dtype, .flags = EMBED_TABLE_HUGE_PAGES};
  j->queries = op_hidden(o, j->outcome);
  j->logits = op_output(o, 0, j->outcome);
  if (op_wrong(j->outcome)) return false;
  op_note(o, j->outcome, embed_table_view(o->context, embed_table_data(f32), ROWS, OP_SHORT_DIM, &options, NULL, NULL, &j->table));
  if (j->table && line->dtype != EMBED_F32) {
    embed_table *wide = j->table;
    op_note(o, j->outcome, embed_table_convert(o->context, wide, &converted, &j->table));
    embed_table_release(wide);
  }
  if (j->table) op_note(o, j->outcome, embed_head_create(o->context, j->table, NULL, NULL, &j->head));
  return !op_wrong(j->outcome);
}

/* The best by dot product are the largest logits. */
static void same_as_logits(nearest_job *j) {
  const int64_t last = (j->n - 1) % BARE_QUERIES, first = j->n - 1 - last; /* the rows that the output still holds */
  for (int64_t i = 0; i <= last; ++i) {
    const int32_t *ids = j->ids + (first + i) * K;
    const float *z = j->logits + i * ROWS;
    int64_t better = 0;
    for (int64_t v = 0; v < ROWS; ++v) better += z[v] > z[ids[0]] + 1e-3f;
    if (better) snprintf(j->outcome->text, sizeof j->outcome->text, "query %d: %d logits are larger than the nearest row's", (int)(first + i), (int)better);
  }
}

static void run(op *o, const op_line *line, embed_metric_kind metric, const char *name) {
  static nearest_job j;
  op_outcome outcome = {0};
  char what[64];
  bench_figure figures[3] = {0};
  j = (nearest_job){.o = o, .outcome = &outcome, .n = line->n, .metric = metric};
  snprintf(what, sizeof what, "%-7s %-5s %dx%d  batch %-4d", name, op_dtype_name(line->dtype), ROWS, OP_SHORT_DIM, (int)line->n);
  op_result r = {.what = what, .peer_name = "bare sweep", .bar_of_limit = true};
  if (prepare(o, line, &j)) {
    const bench_work works[3] = {op_multiply_add_work(o), {.call = nearest, .job = &j}, {.call = bare, .job = &j}};
    bench_measure(o->bench, works, 3, figures);
    if (metric == EMBED_METRIC_DOT && !op_wrong(&outcome)) same_as_logits(&j);
  }
  r.ours = figures[1];
  r.peer = figures[2];
  op_product_limit(o, &r, &figures[0], (double)embed_row_bytes(line->dtype, OP_SHORT_DIM, 0) * ROWS, 2.0 * (double)line->n * ROWS * OP_SHORT_DIM);
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
  embed_head_release(j.head);
  embed_table_release(j.table);
}

void op_nearest(op *o, const op_line *line) { run(o, line, EMBED_METRIC_COSINE, "nearest"); }
void op_nearest_dot(op *o, const op_line *line) { run(o, line, EMBED_METRIC_DOT, "dot"); }
void op_nearest_l2(op *o, const op_line *line) { run(o, line, EMBED_METRIC_L2, "l2"); }
