/* SPDX-License-Identifier: BSD-3-Clause */
/* A whole table into another dtype, the new table's memory included. */
#include <stdio.h>

#include "op.h"

typedef struct convert_job {
  op *o;
  op_outcome *outcome;
  const embed_table *table;
  embed_dtype dtype;
} convert_job;

static void convert(void *job) {
  convert_job *j = job;
  embed_table *table = NULL;
  embed_table_options options = {.size = sizeof options, .dtype = j->dtype, .flags = EMBED_TABLE_HUGE_PAGES};
  op_note(j->o, j->outcome, embed_table_convert(j->o->context, j->table, &options, &table));
  embed_table_release(table);
}

void op_convert(op *o, const op_line *line) {
  op_outcome outcome = {0};
  char what[64];
  snprintf(what, sizeof what, "convert f32   " OP_SHAPE "  to %s", op_dtype_name(line->dtype));
  op_result r = {.what = what, .unit = "GB/s", .limit_name = "that read and copy allow"};
  convert_job j = {o, &outcome, op_table(o, EMBED_F32, &outcome), line->dtype};
  if (j.table) {
    bench_measure(o->bench, &(bench_work){.call = convert, .job = &j}, 1, &r.ours);
    double read = (double)OP_ROWS * OP_DIM * sizeof(float), written = (double)OP_ROWS * (double)embed_row_bytes(line->dtype, OP_DIM, 0);
    r.figure = r.ours.seconds > 0 ? read / r.ours.seconds / 1e9 : 0;
    r.limit = op_moving_limit(o, r.ours.read, read, read, written);
  }
  r.wrong = op_wrong(&outcome);
  op_report(o, line, &r);
}
