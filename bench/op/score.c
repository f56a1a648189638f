/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of embed_sweep beside the bare sweep, which is embed_logits for the same rows, in turns. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

enum { PROMPT_ROWS = 151936, PROMPT_DIM = 1024, PROMPT_N = 8192, MOST_N = PROMPT_N };

typedef struct score_job {
  op *o;
  embed_context *context;
  op_outcome *outcome;
  embed_head *head; /* or, NULL: */
  float *logits;    /* [n, vocab], of the bare sweep, or given */
  const float *hidden;
  int64_t n, vocab;
  embed_sweep_options options;
  embed_result *result;
  int32_t targets[MOST_N];
} score_job;

static void note(score_job *j, embed_status status) {
  if (status == EMBED_OK || op_wrong(j->outcome)) return;
  j->outcome->status = status;
  snprintf(j->outcome->text, sizeof j->outcome->text, "%s: %s", embed_status_name(status), embed_error_text(j->context));
}

static void answers(void *job) {
  score_job *j = job;
  if (j->head)
    note(j, embed_sweep(j->context, j->head, j->hidden, EMBED_F32, 0, NULL, j->n, j->targets, NULL, NULL, 0, &j->options, j->result));
  else
    note(j, embed_sweep_logits(j->context, j->logits, j->vocab, 0, NULL, j->n, j->targets, NULL, NULL, 0, &j->options, j->result));
}

static void bare(void *job) {
  score_job *j = job;
  note(j, embed_logits(j->context, j->head, j->hidden, EMBED_F32, j->n, 0, j->logits, 0, NULL));
}

static void begin(score_job *j, op *o, op_outcome *outcome, uint32_t ask, int32_t k, int64_t n, int64_t vocab) {
  *j = (score_job){.o = o, .context = o->context, .outcome = outcome, .n = n, .vocab = vocab};
  j->options = (embed_sweep_options){.size = sizeof j->options, .ask = ask, .k = k};
  for (int i = 0; i < MOST_N; ++i) j->targets[i] = (int32_t)((int64_t)i * 7919 % vocab);
}

/* The best of the answer is the largest logit of the bare sweep; a target's rank is by how many logits are larger. */
static void compare(score_job *j) {
  const float *z = j->logits + (j->n - 1) * j->vocab;
  const int32_t *ids = embed_result_i32(j->result, EMBED_ASK_TOPK_IDS, NULL, NULL), *rank = embed_result_i32(j->result, EMBED_ASK_TARGET_RANK, NULL, NULL);
  const int32_t id = ids ? ids[(j->n - 1) * j->options.k] : 0, target = j->targets[j->n - 1];
  int64_t above_best = 0, above_target = 1;
  for (int64_t v = 0; v < j->vocab; ++v) {
    above_best += z[v] > z[id] + 1e-4f;
    above_target += z[v] > z[target];
  }
  if (ids && above_best) snprintf(j->outcome->text, sizeof j->outcome->text, "id %d is not the best: %d logits are larger", id, (int)above_best);
  if (rank && llabs(rank[j->n - 1] - above_target) > 8) /* two orders of sums may swap a few */
    snprintf(j->outcome->text, sizeof j->outcome->text, "target %d has rank %d, not %d", target, (int)rank[j->n - 1], (int)above_target);
}

static void measure(const op_line *line, score_job *j, op_result *r, int64_t dim) {
  bench_figure figures[3] = {0};
  const bench_work works[3] = {op_multiply_add_work(j->o), {.call = answers, .job = j}, {.call = bare, .job = j}};
  bench_measure(j->o->bench, works, 3, figures);
  r->ours = figures[1];
  r->peer = figures[2];
  op_product_limit(j->o, r, &figures[0], (double)embed_row_bytes(line->dtype, dim, 0) * (double)j->vocab, 2.0 * (double)j->n * (double)j->vocab * (double)dim);
  if (!op_wrong(j->outcome)) compare(j);
}

static void small(op *o, const op_line *line, const char *name, uint32_t ask, int32_t k) {
  static score_job j;
  op_outcome outcome = {0};
  char what[64];
  snprintf(what, sizeof what, "%-7s %-5s " OP_SHAPE "  batch %-3d", name, op_dtype_name(line->dtype), (int)line->n);
  op_result r = {.what = what, .peer_name = "bare sweep"};
  begin(&j, o, &outcome, ask, k, line->n, OP_ROWS);
  const embed_table *table = op_table(o, line->dtype, &outcome);
  j.hidden = op_hidden(o, &outcome);
  j.logits = op_output(o, 0, &outcome);
  if (!op_wrong(&outcome)) note(&j, embed_head_create(o->context, table, NULL, NULL, &j.head));
  if (!op_wrong(&outcome)) note(&j, embed_result_create(o->context, &j.result));
  if (!op_wrong(&outcome)) measure(line, &j, &r, OP_DIM);
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
  embed_result_release(j.result);
  embed_head_release(j.head);
}

void op_answers_topk(op *o, const op_line *line) { small(o, line, "best 40", EMBED_ASK_TOPK_IDS | EMBED_ASK_TOPK_LOGITS | EMBED_ASK_LOGSUMEXP, 40); }
void op_answers_target(op *o, const op_line *line) { small(o, line, "target", EMBED_ASK_TARGET_LOGPROB | EMBED_ASK_TARGET_RANK | EMBED_ASK_ENTROPY, 0); }

/* The best 40 of logits that are there already. */
void op_topk_given(op *o, const op_line *line) {
  static score_job j;
  op_outcome outcome = {0};
  char what[64];
  bench_figure figures[2] = {0};
  snprintf(what, sizeof what, "top-40 of given logits %dx%d", (int)line->n, OP_ROWS);
  op_result r = {.what = what, .unit = "GB/s", .limit_name = "read in this run"};
  begin(&j, o, &outcome, EMBED_ASK_TOPK_IDS | EMBED_ASK_TOPK_LOGITS, 40, line->n, OP_ROWS);
  j.hidden = op_hidden(o, &outcome);
  j.logits = op_output(o, 0, &outcome);
  const embed_table *table = op_table(o, line->dtype, &outcome);
  embed_head *head = NULL;
  if (!op_wrong(&outcome)) note(&j, embed_head_create(o->context, table, NULL, NULL, &head));
  if (!op_wrong(&outcome)) note(&j, embed_logits(o->context, head, j.hidden, EMBED_F32, j.n, 0, j.logits, 0, NULL));
  if (!op_wrong(&outcome)) note(&j, embed_result_create(o->context, &j.result));
  if (!op_wrong(&outcome)) {
    bench_measure(o->bench, &(bench_work){.call = answers, .job = &j}, 1, figures);
    compare(&j);
  }
  r.ours = figures[0];
  r.figure = r.ours.seconds > 0 ? 4e-9 * (double)line->n * OP_ROWS / r.ours.seconds : 0;
  r.limit = r.ours.read;
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
  embed_result_release(j.result);
  embed_head_release(head);
}

/* What a context holds beside its table and the caller's arrays. */
typedef struct memory_count {
  _Atomic int64_t now, most;
} memory_count;

static void *count_allocation(void *arg, size_t bytes, size_t alignment) {
  memory_count *m = arg;
  void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!memory) return NULL;
  int64_t now = atomic_fetch_add(&m->now, (int64_t)bytes) + (int64_t)bytes, most = atomic_load(&m->most);
  while (now > most && !atomic_compare_exchange_weak(&m->most, &most, now)) {
  }
  return memory;
}

static void count_release(void *arg, void *memory, size_t bytes, size_t alignment) {
  (void)alignment;
  atomic_fetch_sub(&((memory_count *)arg)->now, (int64_t)bytes);
  free(memory);
}

static embed_status counted_context(op *o, memory_count *m, embed_context **out) {
  const embed_allocator allocator = {.size = sizeof allocator, .arg = m, .allocate = count_allocation, .release = count_release};
  embed_pool *pool = NULL;
  embed_status status = embed_pool_create(bench_threads(o->bench), &pool);
  const embed_context_options options = {.size = sizeof options, .pool = pool, .allocator = &allocator};
  if (status == EMBED_OK) status = embed_context_create(&options, out);
  embed_pool_release(pool);
  return status;
}

static double score_whole_prompt(score_job *j, memory_count *m) { /* MiB at most beside inputs and results */
  j->n = PROMPT_N;
  embed_context_trim(j->context);
  const int64_t before = atomic_load(&m->now);
  atomic_store(&m->most, before);
  answers(j);
  int64_t results = PROMPT_N * (8 * (int64_t)j->options.k + 4 + 4);
  return (double)(atomic_load(&m->most) - before - results) / (1 << 20);
}

/* Some rows are timed; one call scores them all, to see what it needs. */
void op_score_prompt(op *o, const op_line *line) {
  static score_job j;
  static memory_count memory;
  op_outcome outcome = {0};
  char what[64];
  embed_table *table = NULL;
  const size_t hidden_bytes = sizeof(float) * PROMPT_N * PROMPT_DIM, logits_bytes = sizeof(float) * (size_t)line->n * PROMPT_ROWS;
  snprintf(what, sizeof what, "score   %-5s %dx%d batch %d", op_dtype_name(line->dtype), PROMPT_ROWS, PROMPT_DIM, (int)line->n);
  op_result r = {.what = what, .peer_name = "bare product"};
  begin(&j, o, &outcome, EMBED_ASK_TOPK_IDS | EMBED_ASK_TOPK_LOGITS | EMBED_ASK_TARGET_LOGPROB | EMBED_ASK_TARGET_RANK, 20, line->n, PROMPT_ROWS);
  j.context = NULL;
  float *hidden = op_vectors(PROMPT_N, PROMPT_DIM, 1, &outcome);
  j.hidden = hidden;
  j.logits = bench_memory(logits_bytes);
  if (hidden && j.logits) table = op_new_table(o, PROMPT_ROWS, PROMPT_DIM, line->dtype, &outcome);
  if (table && counted_context(o, &memory, &j.context) != EMBED_OK) snprintf(outcome.text, sizeof outcome.text, "no context");
  if (j.context) note(&j, embed_head_create(j.context, table, NULL, NULL, &j.head));
  if (j.head) note(&j, embed_result_create(j.context, &j.result));
  if (j.result) {
    measure(line, &j, &r, PROMPT_DIM);
    snprintf(r.beside, sizeof r.beside, "%d rows: %.1f MiB at most beside inputs and results", PROMPT_N, score_whole_prompt(&j, &memory));
  }
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
  embed_result_release(j.result);
  embed_head_release(j.head);
  embed_context_release(j.context);
  embed_table_release(table);
  bench_memory_release(j.logits, logits_bytes);
  bench_memory_release(hidden, hidden_bytes);
}
