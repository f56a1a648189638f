/* SPDX-License-Identifier: BSD-3-Clause */
/* What this machine can do at most, now: the figures that the other lines are shown beside. */
#include <stdio.h>

#include "op.h"

enum { BLOCK = 128000000 /* bytes that a copy moves */, STEPS = 1000000 };

typedef struct copy_job {
  const bench_loops *loops;
  char *to, *from;
} copy_job;

static size_t part_of(int threads) { return (size_t)BLOCK / (size_t)threads / 512 * 512; }

static void copy_part(void *job, int thread, int threads) {
  const copy_job *c = job;
  size_t at = part_of(threads) * (size_t)thread;
  c->loops->copy(c->to + at, c->from + at, part_of(threads));
}

void op_measure_read(op *o) {
  o->streams = bench_measure_read(o->bench, o->reads);
  o->read = o->reads[o->streams - 1].read;
}

void op_read(op *o, const op_line *line) {
  char what[64];
  if (!o->streams) op_measure_read(o);
  const bench_figure *f = &o->reads[line->n - 1];
  snprintf(what, sizeof what, "read    %d stream%s per thread", (int)line->n, line->n > 1 ? "s" : "");
  op_report(o, line, &(op_result){.what = what, .ours = *f, .figure = f->read, .unit = "GB/s", .limit = o->read, .limit_name = "of the best"});
}

void op_copy(op *o, const op_line *line) {
  op_outcome outcome = {0};
  op_result r = {.what = "copy    past the caches", .unit = "GB/s", .limit_name = "read in this run"};
  copy_job c = {bench_machine_loops(o->bench), bench_memory(BLOCK), bench_memory(BLOCK)};
  int threads = bench_threads(o->bench);
  if (c.to && c.from)
    bench_measure(o->bench, &(bench_work){.loop = copy_part, .job = &c}, 1, &r.ours);
  else
    snprintf(outcome.text, sizeof outcome.text, "no memory");
  bench_memory_release(c.to, BLOCK);
  bench_memory_release(c.from, BLOCK);
  r.figure = r.ours.seconds > 0 ? (double)part_of(threads) * threads / r.ours.seconds / 1e9 : 0;
  r.limit = r.ours.read;
  r.wrong = op_wrong(&outcome);
  o->copy_of_read = r.limit > 0 ? r.figure / r.limit : 0;
  op_report(o, line, &r);
}

static void multiply_add(void *job, int thread, int threads) {
  op *o = job;
  (void)threads;
  o->sink[thread] = bench_machine_loops(o->bench)->multiply_add(STEPS);
}

bench_work op_multiply_add_work(op *o) { return (bench_work){.loop = multiply_add, .job = o, .bare = true}; }

double op_multiply_add_rate(const op *o, const bench_figure *f) {
  return f->seconds > 0 ? bench_machine_loops(o->bench)->flops * STEPS * bench_threads(o->bench) / f->seconds / 1e9 : 0;
}

static void byte_products(void *job, int thread, int threads) {
  op *o = job;
  (void)threads;
  o->sink[thread] = (float)bench_products_of_this_cpu().bytes(STEPS);
}

static void pair_products(void *job, int thread, int threads) {
  op *o = job;
  (void)threads;
  o->sink[thread] = (float)bench_products_of_this_cpu().pairs(STEPS);
}

static bool has_products(embed_dtype activation) {
  bench_products p = bench_products_of_this_cpu();
  return activation == EMBED_BF16 ? p.pairs : p.bytes;
}

bench_work op_products_work(op *o, embed_dtype activation) {
  if (!has_products(activation)) return op_multiply_add_work(o);
  return (bench_work){.loop = activation == EMBED_BF16 ? pair_products : byte_products, .job = o, .bare = true};
}

double op_products_rate(const op *o, embed_dtype activation, const bench_figure *f) {
  double operations = activation == EMBED_BF16 ? BENCH_PAIR_OPERATIONS : BENCH_BYTE_OPERATIONS;
  return has_products(activation) && f->seconds > 0 ? operations * STEPS * bench_threads(o->bench) / f->seconds / 1e9 : 0;
}

void op_multiply_add(op *o, const op_line *line) {
  bench_work work = op_multiply_add_work(o);
  op_result r = {.unit = "GFLOP/s"};
  char what[64];
  bench_measure(o->bench, &work, 1, &r.ours);
  snprintf(what, sizeof what, "fma     f32   %s", bench_machine_loops(o->bench)->name);
  r.what = what;
  r.figure = op_multiply_add_rate(o, &r.ours);
  op_report(o, line, &r);
}

double op_moving_limit(const op *o, double read, double bytes, double bytes_read, double bytes_written) {
  if (read <= 0 || o->copy_of_read <= 0) return 0;
  double write = 1 / o->copy_of_read - 1; /* a byte's writing on top of its reading, in bytes read */
  return bytes * read / (bytes_read + (write > 0 ? write : 0) * bytes_written);
}
