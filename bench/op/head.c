/* SPDX-License-Identifier: BSD-3-Clause */
/* Hidden rows times the whole table: logits and top-k. The peer of f32 is OpenBLAS, called as a program would. */
#include <math.h>
#include <stdio.h>

#include <cblas.h>

#include "op.h"

enum { MOST_K = 40 };

typedef struct head_job {
  op *o;
  op_outcome *outcome;
  embed_head *head;
  const float *weights; /* [OP_ROWS, OP_DIM], of the f32 table */
  const float *hidden;  /* [n, OP_DIM] */
  int64_t n;
  embed_dtype activation;
  float *logits, *peer_logits; /* [n, OP_ROWS] */
  int32_t ids[MOST_K];
  float best[MOST_K];
} head_job;

static void logits(void *job) {
  head_job *j = job;
  embed_sweep_options options = {.size = sizeof options, .activation = j->activation};
  op_note(j->o, j->outcome, embed_logits(j->o->context, j->head, j->hidden, EMBED_F32, j->n, 0, j->logits, 0, &options));
}

static void topk(void *job) {
  head_job *j = job;
  op_note(j->o, j->outcome, embed_topk(j->o->context, j->head, j->hidden, EMBED_F32, j->n, 0, MOST_K, j->ids, j->best, NULL, NULL, NULL));
}

static void sgemv(void *job) {
  head_job *j = job;
  cblas_sgemv(CblasRowMajor, CblasNoTrans, OP_ROWS, OP_DIM, 1, j->weights, OP_DIM, j->hidden, 1, 0, j->peer_logits, 1);
}

static void sgemm(void *job) {
  head_job *j = job;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)j->n, OP_ROWS, OP_DIM, 1, j->hidden, OP_DIM, j->weights, OP_DIM, 0, j->peer_logits, OP_ROWS);
}

static bool prepare(op *o, const op_line *line, uint32_t flags, head_job *j, op_outcome *outcome) {
  *j = (head_job){.o = o, .outcome = outcome, .n = line->n};
  const embed_table *f32 = op_table(o, EMBED_F32, outcome), *table = op_table(o, line->dtype, outcome);
  j->hidden = op_hidden(o, outcome);
  j->logits = op_output(o, 0, outcome);
  j->peer_logits = op_output(o, 1, outcome);
  if (op_wrong(outcome)) return false;
  j->weights = embed_table_data(f32);
  embed_head_options options = {.size = sizeof options, .flags = flags};
  op_note(o, outcome, embed_head_create(o->context, table, NULL, &options, &j->head));
  return !op_wrong(outcome);
}

static void nearer_limit(op_result *r, double multiply_add, const char *name, double bytes, double flops) {
  double per_second = r->ours.seconds > 0 ? 1e-9 / r->ours.seconds : 0;
  bool memory = bytes * multiply_add >= flops * r->ours.read;
  r->figure = (memory ? bytes : flops) * per_second;
  r->unit = memory ? "GB/s" : "GFLOP/s";
  r->limit = memory ? r->ours.read : multiply_add;
  r->limit_name = memory ? "read in this run" : name;
}

void op_product_limit(const op *o, op_result *r, const bench_figure *peak, double bytes, double flops) {
  nearer_limit(r, op_multiply_add_rate(o, peak), "multiply-add in this run", bytes, flops);
}

static double bytes_of(const op_line *line) { return (double)embed_row_bytes(line->dtype, OP_DIM, 0) * OP_ROWS; }
static double flops_of(const op_line *line) { return 2.0 * (double)line->n * OP_ROWS * OP_DIM; }

typedef void check(head_job *j, op_outcome *outcome);

/* peer: NULL = none. flags: EMBED_HEAD_*. */
static void measure(op *o, const op_line *line, uint32_t flags, op_result *r, void (*ours)(void *), void (*peer)(void *), check *agree) {
  op_outcome outcome = {0};
  head_job j;
  bench_figure figures[3] = {0};
  if (prepare(o, line, flags, &j, &outcome)) {
    bench_work works[3] = {op_multiply_add_work(o), {.call = ours, .job = &j}, {.call = peer, .job = &j}};
    bench_measure(o->bench, works, peer ? 3 : 2, figures);
    r->ours = figures[1];
    r->peer = figures[2];
    if (agree && !op_wrong(&outcome)) agree(&j, &outcome);
    embed_head_release(j.head);
  }
  op_product_limit(o, r, &figures[0], bytes_of(line), flops_of(line));
  r->wrong = op_wrong(&outcome);
  op_report(o, line, r);
}

/* Both sums are right to 2e-6 of sum |w||x|, here below 768 * 0.1 * 2: a fast answer that is wrong is no figure. */
static void same_logits(head_job *j, op_outcome *outcome) {
  for (int64_t i = 0; i < j->n * OP_ROWS; ++i) {
    if (fabsf(j->logits[i] - j->peer_logits[i]) <= 6e-4f) continue;
    snprintf(outcome->text, sizeof outcome->text, "logit %lld is %g, the peer's %g", (long long)i, (double)j->logits[i], (double)j->peer_logits[i]);
    return;
  }
}

void op_head(op *o, const op_line *line) {
  char what[64];
  bool peer = line->dtype == EMBED_F32, one = line->n == 1;
  snprintf(what, sizeof what, "head    %-5s " OP_SHAPE "  batch %-3d", op_dtype_name(line->dtype), (int)line->n);
  op_result r = {.what = what, .peer_name = !peer ? NULL : one ? "sgemv" : "sgemm"};
  measure(o, line, 0, &r, logits, !peer ? NULL : one ? sgemv : sgemm, peer ? same_logits : NULL);
}

static void same_as_in_place(head_job *j, op_outcome *outcome) {
  embed_head *plain = NULL;
  op_note(j->o, outcome, embed_head_create(j->o->context, embed_head_table(j->head), NULL, NULL, &plain));
  if (plain) op_note(j->o, outcome, embed_logits(j->o->context, plain, j->hidden, EMBED_F32, j->n, 0, j->peer_logits, 0, NULL));
  embed_head_release(plain);
  if (!op_wrong(outcome)) same_logits(j, outcome);
}

void op_prepared(op *o, const op_line *line) {
  char what[64];
  snprintf(what, sizeof what, "prepared %-4s " OP_SHAPE "  batch %-3d", op_dtype_name(line->dtype), (int)line->n);
  measure(o, line, EMBED_HEAD_PREPARE, &(op_result){.what = what}, logits, NULL, same_as_in_place);
}

/* The error against the exact head, of sum |w||x|, is stated by the activation: tests hold it. */
void op_rounded(op *o, const op_line *line) {
  op_outcome outcome = {0};
  head_job j;
  bench_figure figures[3] = {0};
  char what[64];
  snprintf(what, sizeof what, "rounded  %-4s " OP_SHAPE "  batch %-3d", op_dtype_name(line->dtype), (int)line->n);
  op_result r = {.what = what};
  const embed_dtype activation = line->dtype == EMBED_BF16 ? EMBED_BF16 : EMBED_Q8_0;
  if (prepare(o, line, EMBED_HEAD_PREPARE, &j, &outcome)) {
    j.activation = activation;
    const bench_work works[3] = {op_multiply_add_work(o), op_products_work(o, activation), {.call = logits, .job = &j}};
    bench_measure(o->bench, works, 3, figures);
    embed_head_release(j.head);
  }
  r.ours = figures[2];
  double fma = op_multiply_add_rate(o, &figures[0]), products = op_products_rate(o, activation, &figures[1]);
  nearer_limit(&r, products > fma ? products : fma,
               products <= fma            ? "multiply-add in this run"
               : activation == EMBED_BF16 ? "products of bf16 pairs"
                                          : "products of bytes",
               bytes_of(line), flops_of(line));
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
}

/* Making the prepared form, its memory included: bytes of the table. */
static void make_prepared(void *job) {
  head_job *j = job;
  embed_head *made = NULL;
  embed_head_options options = {.size = sizeof options, .flags = EMBED_HEAD_PREPARE};
  op_note(j->o, j->outcome, embed_head_create(j->o->context, embed_head_table(j->head), NULL, &options, &made));
  embed_head_release(made);
}

/* The same into memory that is there. */
static void refresh(void *job) {
  head_job *j = job;
  op_note(j->o, j->outcome, embed_head_refresh(j->o->context, j->head));
}

void op_prepare(op *o, const op_line *line) {
  op_outcome outcome = {0};
  op_result r = {.unit = "GB/s", .limit_name = "read and copy allow", .peer_name = "with new memory"};
  head_job j;
  bench_figure figures[2] = {0};
  char what[64];
  double bytes = (double)embed_row_bytes(line->dtype, OP_DIM, 0) * OP_ROWS;
  snprintf(what, sizeof what, "prepare  %-4s " OP_SHAPE "  refresh  ", op_dtype_name(line->dtype));
  r.what = what;
  if (prepare(o, line, EMBED_HEAD_PREPARE, &j, &outcome)) {
    const bench_work works[2] = {{.call = refresh, .job = &j}, {.call = make_prepared, .job = &j}};
    bench_measure(o->bench, works, 2, figures);
    embed_head_release(j.head);
  }
  r.ours = figures[0];
  r.peer = figures[1];
  r.figure = r.ours.seconds > 0 ? bytes / r.ours.seconds / 1e9 : 0;
  r.limit = op_moving_limit(o, r.ours.read, bytes, bytes, bytes);
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
}

static void best_is_a_logit(head_job *j, op_outcome *outcome) {
  for (int i = 0; i < MOST_K; ++i) {
    if (j->ids[i] >= 0 && j->ids[i] < OP_ROWS && j->best[i] == j->logits[j->ids[i]]) continue;
    snprintf(outcome->text, sizeof outcome->text, "place %d of top-k is %g, which is not the logit of id %d", i, (double)j->best[i], (int)j->ids[i]);
    return;
  }
}

/* The peer is our own logits: what does finding the best of them cost on top? */
void op_topk(op *o, const op_line *line) {
  char what[64];
  snprintf(what, sizeof what, "top-40  %-5s " OP_SHAPE "  batch %-3d", op_dtype_name(line->dtype), (int)line->n);
  measure(o, line, 0, &(op_result){.what = what, .peer_name = "logits alone"}, topk, logits, best_is_a_logit);
}
