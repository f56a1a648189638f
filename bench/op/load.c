/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening a file of vectors that lies in the page cache, its table's memory included. The peers do what a plain program does: strtof
 * over the text in memory, on as many threads; word2vec's own loop (distance.c) of getc and fread over the binary file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "op.h"

enum { DIM = 100, TOKEN = 16, NUMBER = 12 /* bytes at most, its blank included */ };

typedef struct load_job {
  op *o;
  op_outcome *outcome;
  int64_t rows;
  char path[64];
  char *text; /* the file's bytes, in memory */
  size_t bytes, room;
  float *peer_table;      /* [rows, DIM] */
  embed_context *context; /* of one thread or of all */
  embed_file *file;
} load_job;

static void write_rows(load_job *j, bool text) {
  uint64_t random = 4;
  char *p = j->text + sprintf(j->text, "%d %d\n", (int)j->rows, DIM);
  for (int64_t r = 0; r < j->rows; ++r) {
    p += sprintf(p, "word%d", (int)r);
    if (!text) *p++ = ' ';
    for (int i = 0; i < DIM; ++i) {
      float value = (float)((double)(bench_random(&random) >> 11) * 0x1p-52 - 1);
      if (text) {
        p += sprintf(p, " %.6f", (double)value);
      } else {
        memcpy(p, &value, sizeof value);
        p += sizeof value;
      }
    }
    *p++ = '\n';
  }
  *p = '\0';
  j->bytes = (size_t)(p - j->text);
}

static bool write_file(load_job *j) {
  snprintf(j->path, sizeof j->path, "%s/bench-op-XXXXXX", P_tmpdir);
  int descriptor = mkstemp(j->path);
  FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
  if (!file) {
    if (descriptor >= 0) close(descriptor);
    return false;
  }
  bool written = fwrite(j->text, 1, j->bytes, file) == j->bytes;
  return fclose(file) == 0 && written;
}

static void release(void *job) {
  load_job *j = job;
  embed_file_release(j->file);
  j->file = NULL;
}

static void load(void *job) {
  load_job *j = job;
  op_note(j->o, j->outcome, embed_file_open(j->context, j->path, NULL, &j->file));
}

/* Rows of this thread's share of the bytes; the row number is the token's. */
static void parse_rows(void *job, int thread, int threads) {
  load_job *j = job;
  char *end = j->text + j->bytes * (size_t)(thread + 1) / (size_t)threads, *p = j->text + j->bytes * (size_t)thread / (size_t)threads;
  while ((p = strchr(p, '\n')) && ++p < end && *p) {
    float *row = j->peer_table + strtol(p + 4, &p, 10) * DIM;
    for (int i = 0; i < DIM; ++i) row[i] = strtof(p, &p);
  }
}

static void parse_alone(void *job) { parse_rows(job, 0, 1); }

static void read_rows(void *job) {
  load_job *j = job;
  int rows = 0, dim = 0, c;
  FILE *file = fopen(j->path, "r");
  float *table = malloc(sizeof *table * (size_t)j->rows * DIM);
  bool whole = file && table && fscanf(file, "%d %d", &rows, &dim) == 2 && rows == j->rows && dim == DIM;
  for (int r = 0; whole && r < rows; ++r) {
    while ((c = getc(file)) != EOF && c != ' ') continue;
    whole = fread(table + (size_t)r * DIM, sizeof *table, DIM, file) == DIM;
  }
  if (file) fclose(file);
  if (whole)
    memcpy(j->peer_table, table, sizeof *table * (size_t)j->rows * DIM / 64); /* somebody needs it */
  else
    snprintf(j->outcome->text, sizeof j->outcome->text, "the peer cannot read the file");
  free(table);
}

/* What was loaded is what the peer loaded. */
static void compare(load_job *j, size_t bytes) {
  embed_table *table = NULL;
  load(j);
  if (op_wrong(j->outcome)) return;
  op_note(j->o, j->outcome, embed_file_table(j->context, j->file, -1, &table));
  if (!op_wrong(j->outcome) && memcmp(embed_table_data(table), j->peer_table, bytes))
    snprintf(j->outcome->text, sizeof j->outcome->text, "rows differ from the peer's");
  embed_table_release(table);
  release(j);
}

/* alone: the caller's thread does it all. */
static void run(op *o, const op_line *line, bool text, bool alone) {
  op_outcome outcome = {0};
  load_job j = {.o = o, .context = o->context, .outcome = &outcome, .rows = line->n, .room = (size_t)line->n * (TOKEN + DIM * NUMBER) + 64};
  const size_t table_bytes = sizeof(float) * (size_t)line->n * DIM;
  char what[64];
  snprintf(what, sizeof what, "load    %-5s %dx%d  %s%s", op_dtype_name(line->dtype), (int)line->n, DIM, text ? "word2vec text" : "word2vec binary",
           alone ? ", 1 thread" : "");
  op_result r = {.what = what,
                 .unit = "GB/s",
                 .limit_name = alone ? "that read and copy allow a thread" : "that read and copy allow",
                 .peer_name = text ? "strtof loop" : "getc and fread"};
  j.text = bench_memory(j.room);
  j.peer_table = bench_memory(table_bytes);
  if (alone) op_note(o, &outcome, embed_context_create(NULL, &j.context));
  if (j.text && j.peer_table) write_rows(&j, text);
  if (!j.text || !j.peer_table || !write_file(&j)) snprintf(outcome.text, sizeof outcome.text, "no memory or no file");
  if (!op_wrong(&outcome)) {
    bench_work works[2] = {{.call = load, .prepare = release, .job = &j}, {.job = &j}};
    bench_figure figures[2] = {0};
    if (text && alone)
      works[1].call = parse_alone;
    else if (text)
      works[1].loop = parse_rows;
    else
      works[1].call = read_rows;
    bench_measure(o->bench, works, 2, figures);
    release(&j);
    r.ours = figures[0];
    r.peer = figures[1];
    r.figure = r.ours.seconds > 0 ? (double)j.bytes / r.ours.seconds / 1e9 : 0;
    r.limit = op_moving_limit(o, r.ours.read, (double)j.bytes, (double)j.bytes, (double)table_bytes) / (alone ? bench_threads(o->bench) : 1);
    compare(&j, text ? table_bytes : table_bytes / 64);
  }
  if (*j.path) unlink(j.path);
  if (alone) embed_context_release(j.context);
  bench_memory_release(j.text, j.room);
  bench_memory_release(j.peer_table, table_bytes);
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
}

void op_load_text(op *o, const op_line *line) { run(o, line, true, false); }

void op_load_text_alone(op *o, const op_line *line) { run(o, line, true, true); }

void op_load_binary(op *o, const op_line *line) { run(o, line, false, false); }
