/* SPDX-License-Identifier: BSD-3-Clause */
/* Three lines for the README: a small real table through a file, both ends of it. */
#include <stdio.h>
#include <stdlib.h>

#include "op.h"

enum { REPEAT = 50 /* a call takes some microseconds: a sample is that many */ };

typedef struct demo_job {
  op *o;
  op_outcome *outcome;
  embed_file *file;
  embed_table *table;
  embed_head *head;
  int64_t rows, dim;
  int32_t *ids;        /* [rows]: 0, 1, 2, ... */
  float *out, *logits; /* [rows, dim], [rows] */
  size_t part;         /* bytes of out that a thread reads */
  volatile uint64_t sink[BENCH_MOST_THREADS];
} demo_job;

static void look_all_up(void *job) {
  demo_job *j = job;
  for (int i = 0; i < REPEAT; ++i) op_note(j->o, j->outcome, embed_lookup(j->o->context, j->table, j->ids, j->rows, j->out, EMBED_F32, 0, NULL));
}

static void tied_logits(void *job) {
  demo_job *j = job;
  for (int i = 0; i < REPEAT; ++i) op_note(j->o, j->outcome, embed_logits(j->o->context, j->head, j->out + j->dim, EMBED_F32, 1, 0, j->logits, 0, NULL));
}

static void read_all(void *job, int thread, int threads) {
  demo_job *j = job;
  (void)threads;
  for (int i = 0; i < REPEAT; ++i) j->sink[thread] += bench_machine_loops(j->o->bench)->read((const char *)j->out + j->part * (size_t)thread, j->part, 1);
}

static void open_file(demo_job *j) {
  embed_context *context = j->o->context;
  embed_status status = embed_file_open(context, j->o->file, NULL, &j->file);
  if (status == EMBED_OK) status = embed_file_table(context, j->file, -1, &j->table);
  if (status == EMBED_OK) status = embed_file_head(context, j->file, j->table, NULL, &j->head);
  op_note(j->o, j->outcome, status);
  if (op_wrong(j->outcome)) return;
  j->rows = embed_table_vocab(j->table);
  j->dim = embed_table_dim(j->table);
  size_t bytes = (size_t)j->rows * (size_t)j->dim * sizeof(float);
  j->part = bytes / (size_t)bench_threads(j->o->bench) / 64 * 64;
  j->ids = malloc((size_t)j->rows * sizeof *j->ids);
  j->logits = malloc((size_t)j->rows * sizeof *j->logits);
  j->out = bench_memory(bytes);
  if (!j->ids || !j->logits || !j->out) snprintf(j->outcome->text, sizeof j->outcome->text, "no memory");
  for (int64_t i = 0; j->ids && i < j->rows; ++i) j->ids[i] = (int32_t)i;
}

static void print_lines(const op *o, const demo_job *j, const bench_figure *figures) {
  static const char *const what[2] = {"lookup  every row, ids to floats", "head    tied, one hidden row"};
  double bytes = (double)j->rows * (double)j->dim * sizeof(float), rate[3];
  for (int i = 0; i < 3; ++i) rate[i] = figures[i].seconds > 0 ? bytes * REPEAT / figures[i].seconds / 1e9 : 0;
  printf("read    %.1f GB/s from memory, %.1f GB/s from the caches, where these %.1f MB stay (threads %d, level %s)\n", o->read, rate[2], bytes / 1e6,
         bench_threads(o->bench), embed_context_isa(o->context));
  for (int i = 0; i < 2; ++i)
    printf("%-34s %lldx%lld   %7.1f us   %5.1f GB/s   %.2f of the %.1f GB/s read from the caches\n", what[i], (long long)j->rows, (long long)j->dim,
           figures[i].seconds / REPEAT * 1e6, rate[i], rate[2] > 0 ? rate[i] / rate[2] : 0, rate[2]);
}

void op_demo(op *o, const op_line *line) {
  op_outcome outcome = {0};
  demo_job j = {.o = o, .outcome = &outcome};
  bench_figure figures[3] = {0};
  op_measure_read(o);
  open_file(&j);
  if (!op_wrong(&outcome)) {
    bench_work works[3] = {{.call = look_all_up, .job = &j}, {.call = tied_logits, .job = &j}, {.loop = read_all, .job = &j}};
    bench_measure(o->bench, works, 3, figures);
  }
  if (op_wrong(&outcome)) {
    fprintf(stderr, "bench_op: %s\n", op_wrong(&outcome));
    o->failed = true;
  } else {
    print_lines(o, &j, figures);
  }
  (void)line;
  embed_head_release(j.head);
  embed_table_release(j.table);
  embed_file_release(j.file);
  if (j.rows) bench_memory_release(j.out, (size_t)j.rows * (size_t)j.dim * sizeof(float));
  free(j.ids);
  free(j.logits);
}
