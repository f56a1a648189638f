/* SPDX-License-Identifier: BSD-3-Clause */
/* One line of output: for people, or a JSON object. */
#include <math.h>
#include <stdio.h>

#include "op.h"

static void print_number(const char *key, double value) { /* JSON knows no NaN: what is absent is null */
  if (isfinite(value) && value > 0)
    printf(", \"%s\": %.6g", key, value);
  else
    printf(", \"%s\": null", key);
}

static void print_json(const op_line *line, const op_result *r, double ratio, bool ok) {
  printf("{\"name\": \"%s\"", line->name);
  print_number("figure", r->figure);
  printf(", \"unit\": \"%s\"", r->unit);
  print_number("limit", r->limit);
  print_number("ratio", ratio);
  print_number("bar", line->bar);
  printf(", \"ok\": %s", ok ? "true" : "false");
  print_number("seconds", r->ours.seconds);
  printf(", \"kept\": %d, \"tried\": %d", r->ours.kept, r->ours.tried);
  if (r->peer_name) printf(", \"peer\": \"%s\", \"peer_kept\": %d, \"peer_tried\": %d", r->peer_name, r->peer.kept, r->peer.tried);
  if (r->beside[0]) printf(", \"beside\": \"%s\"", r->beside);
  printf("}\n");
}

static void print_kept(const bench_figure *f) {
  printf("kept %d of %d", f->kept, f->tried);
  if (2 * f->kept < f->tried) printf(" (preempted %d, unsteady %d)", f->preempted, f->unsteady);
  if (f->kept < BENCH_ENOUGH) printf(": too few");
}

static void print_line(const op_line *line, const op_result *r, double ratio, bool ok) {
  printf("%-38s %9.3f ms %7.1f %-7s", r->what, r->ours.seconds * 1e3, r->figure, r->unit);
  if (r->limit > 0) printf("   %.2f of the %.1f %s %s", r->figure / r->limit, r->limit, r->unit, r->limit_name);
  if (r->peer_name) printf("   %s / ours %.2f", r->peer_name, ratio);
  if (line->bar > 0) printf("   bar %.2f%s %s", line->bar, r->bar_of_limit ? " of the limit" : "", ok ? "ok" : "MISSED");
  if (r->beside[0]) printf("   %s", r->beside);
  printf("   ");
  print_kept(&r->ours);
  if (r->peer_name) printf(", peer ");
  if (r->peer_name) print_kept(&r->peer);
  if (r->wrong) printf("   WRONG: %s", r->wrong);
  printf("\n");
}

void op_report(op *o, const op_line *line, const op_result *r) {
  double ratio = r->peer_name && r->ours.seconds > 0 ? r->peer.seconds / r->ours.seconds : 0;
  bool enough = r->ours.kept >= BENCH_ENOUGH && (!r->peer_name || r->peer.kept >= BENCH_ENOUGH);
  double reached = r->peer_name && !r->bar_of_limit ? ratio : r->limit > 0 ? r->figure / r->limit : 0;
  bool ok = enough && !r->wrong && reached >= line->bar;
  if (r->wrong || (line->bar > 0 && !ok)) o->failed = true;
  if (o->json)
    print_json(line, r, ratio, ok);
  else
    print_line(line, r, ratio, ok);
  fflush(stdout);
}
