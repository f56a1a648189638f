/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables made anew, their memory included: of a file's bytes in the page cache, in its order or in another, or decoded from
 * another dtype. The peer reads and writes as many bytes on as many threads, the writing to fresh memory: what any of these must cost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "op.h"

enum { HUGE_PAGE = 2 << 20, HEADER = 128, SAMPLE = 64 /* rows that are compared */ };
enum { COPIED, COLUMN_MAJOR, SWAPPED }; /* a file's numbers; n of the line */

typedef struct materialise_job {
  op *o;
  op_outcome *outcome;
  const embed_table *from; /* of a conversion to f32, NULL = the file's numbers are taken */
  char path[64];
  embed_file_options options;
  embed_table *table;
  /* The peer's: */
  const embed_table *source; /* f32: as good to read as any other memory */
  double read_share;         /* bytes read for each that is written */
  void *fresh[BENCH_MOST_THREADS];
  uint64_t sums[BENCH_MOST_THREADS];
} materialise_job;

static const size_t table_bytes = sizeof(float) * OP_ROWS * OP_DIM;

static void release(void *job) {
  materialise_job *j = job;
  embed_table_release(j->table);
  j->table = NULL;
}

static void convert(void *job) {
  materialise_job *j = job;
  embed_table_options options = {.size = sizeof options, .dtype = EMBED_F32, .flags = EMBED_TABLE_HUGE_PAGES};
  op_note(j->o, j->outcome, embed_table_convert(j->o->context, j->from, &options, &j->table));
}

static void load(void *job) {
  materialise_job *j = job;
  embed_file *file = NULL;
  op_note(j->o, j->outcome, embed_file_open(j->o->context, j->path, &j->options, &file));
  if (file) op_note(j->o, j->outcome, embed_file_table(j->o->context, file, 0, &j->table));
  embed_file_release(file); /* the table retains what it needs of it */
}

static size_t part_of(int threads) { return (table_bytes / (size_t)threads + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

/* Reads the bytes that are the source and fills those of the table, a page of it at a time. */
static void write_fresh(void *job, int thread, int threads) {
  materialise_job *j = job;
  const bench_loops *loops = bench_machine_loops(j->o->bench);
  const size_t part = part_of(threads), stretch = (size_t)((double)HUGE_PAGE * j->read_share) / 64 * 64;
  const char *from = (const char *)embed_table_data(j->source) + (size_t)thread * (table_bytes / (size_t)threads) / HUGE_PAGE * HUGE_PAGE;
  char *map = mmap(NULL, part + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return;
  j->fresh[thread] = map;
  map += (HUGE_PAGE - (uintptr_t)map % HUGE_PAGE) % HUGE_PAGE;
  madvise(map, part, MADV_HUGEPAGE);
  for (size_t at = 0; at < part; at += HUGE_PAGE) {
    if (at + HUGE_PAGE <= table_bytes / (size_t)threads) j->sums[thread] += loops->read(from + at, stretch, 1);
    memset(map + at, 1 + thread, HUGE_PAGE);
  }
}

static void unmap_fresh(void *job) {
  materialise_job *j = job;
  const int threads = bench_threads(j->o->bench);
  for (int i = 0; i < threads; ++i) {
    if (j->fresh[i]) munmap(j->fresh[i], part_of(threads) + HUGE_PAGE);
    j->fresh[i] = NULL;
  }
}

static void fill(uint32_t *out, const uint32_t *numbers, int order) {
  for (size_t r = 0; r < OP_ROWS; ++r)
    for (size_t c = 0; c < OP_DIM; ++c) {
      const uint32_t number = numbers[r * OP_DIM + c];
      if (order == COLUMN_MAJOR)
        out[c * OP_ROWS + r] = number;
      else
        out[r * OP_DIM + c] = order == SWAPPED ? __builtin_bswap32(number) : number;
    }
}

static bool write_file(materialise_job *j, const embed_table *t, int order) {
  char *bytes = bench_memory(HEADER + table_bytes);
  if (!bytes) return false;
  memset(bytes, ' ', HEADER);
  memcpy(bytes, "\x93NUMPY\1\0", 8);
  bytes[8] = (char)(HEADER - 10);
  bytes[9] = 0;
  const int length = snprintf(bytes + 10, HEADER - 10, "{'descr': '%cf4', 'fortran_order': %s, 'shape': (%d, %d), }", order == SWAPPED ? '>' : '<',
                              order == COLUMN_MAJOR ? "True" : "False", OP_ROWS, OP_DIM);
  bytes[10 + length] = ' ';
  bytes[HEADER - 1] = '\n';
  fill((uint32_t *)(void *)(bytes + HEADER), embed_table_data(t), order);
  snprintf(j->path, sizeof j->path, "%s/bench-op-XXXXXX", P_tmpdir);
  int descriptor = mkstemp(j->path);
  FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
  bool written = file && fwrite(bytes, 1, HEADER + table_bytes, file) == HEADER + table_bytes;
  if (file) written = fclose(file) == 0 && written;
  bench_memory_release(bytes, HEADER + table_bytes);
  return written;
}

/* Some rows of the new table are those that the source gives. */
static void compare(materialise_job *j, const embed_table *source) {
  static float ours[SAMPLE * OP_DIM], theirs[SAMPLE * OP_DIM];
  int64_t ids[SAMPLE];
  for (int i = 0; i < SAMPLE; ++i) ids[i] = i == 0 ? OP_ROWS - 1 : (int64_t)i * 773;
  op_note(j->o, j->outcome, embed_table_get_rows(j->o->context, j->table, ids, SAMPLE, ours, EMBED_F32, 0));
  op_note(j->o, j->outcome, embed_table_get_rows(j->o->context, source, ids, SAMPLE, theirs, EMBED_F32, 0));
  if (!op_wrong(j->outcome) && memcmp(ours, theirs, sizeof ours)) snprintf(j->outcome->text, sizeof j->outcome->text, "rows differ from the source's");
}

static void measure(materialise_job *j, const op_line *line, const embed_table *source, void (*call)(void *job), const char *what) {
  op *o = j->o;
  op_result r = {.what = what, .unit = "GB/s", .limit_name = "that reading and fresh memory allow", .peer_name = "fresh copy"};
  if (!op_wrong(j->outcome)) {
    bench_work works[2] = {{.call = call, .prepare = release, .job = j}, {.loop = write_fresh, .prepare = unmap_fresh, .job = j}};
    bench_figure figures[2] = {0};
    bench_measure(o->bench, works, 2, figures);
    unmap_fresh(j);
    r.ours = figures[0];
    r.peer = figures[1];
    r.figure = r.ours.seconds > 0 ? (double)table_bytes / r.ours.seconds / 1e9 : 0;
    r.limit = r.peer.seconds > 0 ? (double)table_bytes / r.peer.seconds / 1e9 : 0;
    if (j->table) compare(j, source);
  }
  release(j);
  if (*j->path) unlink(j->path);
  r.wrong = op_wrong(j->outcome);
  op_report(o, line, &r);
}

void op_materialise_file(op *o, const op_line *line) {
  static const char *const orders[] = {"copied", "column-major", "swapped"};
  op_outcome outcome = {0};
  char what[64];
  const embed_table *t = op_table(o, EMBED_F32, &outcome);
  materialise_job j = {.o = o, .outcome = &outcome, .source = t, .read_share = 1};
  /* Other orders are read from the mapping: a copy of it would be one more. */
  j.options = (embed_file_options){.size = sizeof j.options, .flags = line->n == COPIED ? EMBED_FILE_COPY : 0};
  snprintf(what, sizeof what, "new     f32   " OP_SHAPE "  npy %s", orders[line->n]);
  if (t && !write_file(&j, t, (int)line->n)) snprintf(outcome.text, sizeof outcome.text, "no memory or no file");
  measure(&j, line, t, load, what);
}

void op_materialise_table(op *o, const op_line *line) {
  op_outcome outcome = {0};
  embed_table *source = NULL;
  const embed_table *t = op_table(o, EMBED_F32, &outcome);
  embed_table_options options = {.size = sizeof options, .dtype = line->dtype, .flags = EMBED_TABLE_HUGE_PAGES};
  char what[64];
  if (t) op_note(o, &outcome, embed_table_convert(o->context, t, &options, &source));
  materialise_job j = {
      .o = o, .outcome = &outcome, .from = source, .source = t, .read_share = (double)embed_row_bytes(line->dtype, OP_DIM, 0) / (4.0 * OP_DIM)};
  snprintf(what, sizeof what, "new     f32   " OP_SHAPE "  of %s", embed_dtype_name(line->dtype));
  measure(&j, line, source, convert, what);
  embed_table_release(source);
}
