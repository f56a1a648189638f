/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>

#include "op.h"

static const op_line lines[] = {
#define LINE(name, when, run, dtype, n, bar) {name, when, run, dtype, n, bar},
#include "lines.def"
#undef LINE
};
enum { LINES = sizeof lines / sizeof *lines, USAGE = 2 };

typedef struct arguments {
  bool chosen[LINES], any; /* any: with --only */
  bool list, json, help;
  int threads;
  const char *file;
} arguments;

static void print_usage(FILE *to) {
  fprintf(to,
          "usage: bench_op [--list] [--only NAME]... [--json] [--threads N] [FILE]\n"
          "  --list       names of the lines; limits are measured in every run\n"
          "  --only NAME  the line of that name, or every line that begins with it\n"
          "  --json       an object a line: name, figure, unit, limit, ratio (peer's time / ours), bar, ok, ...\n"
          "  --threads N  0 = the CPUs that the process may use\n"
          "  FILE         for --only demo: a file of vectors\n"
          "exit: 0 all bars met, 1 a bar missed, 2 usage\n");
}

static bool choose(arguments *a, const char *name) {
  bool found = false;
  a->any = true;
  for (int i = 0; i < LINES; ++i)
    if (!strcmp(lines[i].name, name)) return a->chosen[i] = true;
  for (int i = 0; i < LINES; ++i)
    if (!strncmp(lines[i].name, name, strlen(name))) a->chosen[i] = found = true;
  return found;
}

static bool read_arguments(int argc, char **argv, arguments *a) {
  for (int i = 1; i < argc; ++i) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(argv[i], "--list")) {
      a->list = true;
    } else if (!strcmp(argv[i], "--json")) {
      a->json = true;
    } else if (!strcmp(argv[i], "--help")) {
      a->help = true;
    } else if (!strcmp(argv[i], "--only") && value && *value) {
      if (!choose(a, value)) {
        fprintf(stderr, "bench_op: no line is named %s or begins with it\n", value);
        return false;
      }
      ++i;
    } else if (!strcmp(argv[i], "--threads") && value) {
      char *end;
      long threads = strtol(value, &end, 10);
      if (end == value || *end || threads < 0 || threads > BENCH_MOST_THREADS) return false;
      a->threads = (int)threads;
      ++i;
    } else if (argv[i][0] == '-' || a->file) {
      return false;
    } else {
      a->file = argv[i];
    }
  }
  return true;
}

static bool wanted(const arguments *a, int i) {
  if (!a->any) return lines[i].when != ASKED;
  if (lines[i].when != ALWAYS) return a->chosen[i];
  for (int k = 0; k < LINES; ++k) /* the demo measures what it shows */
    if (a->chosen[k] && lines[k].when != ASKED) return true;
  return false;
}

static bool demo_alone(const arguments *a) {
  for (int i = 0; i < LINES; ++i)
    if (wanted(a, i) && lines[i].when != ASKED) return false;
  return true;
}

static embed_status make_context(op *o) {
  embed_pool *pool = NULL;
  embed_status status = embed_pool_create(bench_threads(o->bench), &pool);
  embed_context_options options = {.size = sizeof options, .pool = pool};
  if (status == EMBED_OK) status = embed_context_create(&options, &o->context);
  embed_pool_release(pool);
  return status;
}

static void print_heading(const op *o, FILE *to) {
  fprintf(to, "libembed %u.%u.%u, level %s, threads %d\n", embed_version() >> 16, embed_version() >> 8 & 255, embed_version() & 255,
          embed_context_isa(o->context), bench_threads(o->bench));
  fprintf(to, "%s, core %s, threads %d\n", openblas_get_config(), openblas_get_corename(), openblas_get_num_threads());
  fprintf(to, "%s; a bar of 0.97 is \"not slower\" less 3 %% of noise\n\n",
          bench_is_realtime(o->bench) ? "samples under SCHED_FIFO, medians of those kept" : "SCHED_FIFO refused: plain medians, no sample dropped");
}

int main(int argc, char **argv) {
  arguments a = {0};
  if (!read_arguments(argc, argv, &a)) {
    print_usage(stderr);
    return USAGE;
  }
  if (a.help) print_usage(stdout);
  for (int i = 0; a.list && i < LINES; ++i) printf("%s\n", lines[i].name);
  if (a.help || a.list) return 0;

  bool demo = demo_alone(&a);
  op o = {.file = a.file ? a.file : BENCH_DEMO_FILE, .json = a.json};
  o.bench = bench_create(&(bench_options){.threads = a.threads, .quick = demo});
  if (!o.bench) {
    fprintf(stderr, "bench_op: no memory, or fewer CPUs than threads\n");
    return USAGE;
  }
  openblas_set_num_threads(bench_threads(o.bench));
  embed_status status = make_context(&o);
  if (status != EMBED_OK) {
    fprintf(stderr, "bench_op: %s\n", embed_status_name(status));
    bench_release(o.bench);
    return 1;
  }
  if (!demo) print_heading(&o, a.json ? stderr : stdout);
  for (int i = 0; i < LINES; ++i)
    if (wanted(&a, i)) lines[i].run(&o, &lines[i]);
  op_fixture_release(&o);
  embed_context_release(o.context);
  bench_release(o.bench);
  return o.failed ? 1 : 0;
}
