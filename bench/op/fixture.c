/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables and buffers that lines share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

enum { TYPES = 7, OUTPUTS = 2 };
static const embed_dtype types[TYPES] = {EMBED_F32, EMBED_F16, EMBED_BF16, EMBED_I8_ROW, EMBED_I4_GROUP, EMBED_Q8_0, EMBED_Q4_K};
static const char *const names[TYPES] = {"f32", "f16", "bf16", "int8", "int4", "q8_0", "q4_K"};
static const size_t table_bytes = sizeof(float) * OP_ROWS * OP_DIM, hidden_bytes = sizeof(float) * OP_MOST_BATCH * OP_DIM,
                    output_bytes = sizeof(float) * OP_MOST_BATCH * OP_ROWS;

struct op_fixture {
  embed_table *tables[TYPES];
  void *rows; /* of the f32 table, borrowed: OpenBLAS and memcpy read the same memory */
  float *hidden, *outputs[OUTPUTS];
};

static int index_of(embed_dtype dtype) {
  int i = TYPES - 1;
  while (i > 0 && types[i] != dtype) --i;
  return i;
}

const char *op_dtype_name(embed_dtype dtype) {
  if (dtype == EMBED_Q4_0) return "q4_0"; /* these two: of lines that make their own tables */
  return dtype == EMBED_PQ ? "pq" : names[index_of(dtype)];
}

void op_note(op *o, op_outcome *outcome, embed_status status) {
  if (status == EMBED_OK || outcome->status != EMBED_OK) return;
  outcome->status = status;
  snprintf(outcome->text, sizeof outcome->text, "%s: %s", embed_status_name(status), embed_error_text(o->context));
}

const char *op_wrong(const op_outcome *outcome) { return outcome->text[0] ? outcome->text : NULL; }

static void *need(void *memory, op_outcome *outcome) {
  if (!memory) snprintf(outcome->text, sizeof outcome->text, "no memory");
  return memory;
}

static op_fixture *fixture(op *o, op_outcome *outcome) {
  if (!o->fixture) o->fixture = calloc(1, sizeof *o->fixture);
  return need(o->fixture, outcome);
}

static embed_status make_f32(op *o, op_fixture *f) {
  embed_table_options options = {.size = sizeof options, .data_bytes = (int64_t)table_bytes};
  embed_init_options init = {.size = sizeof init, .kind = EMBED_INIT_NORMAL, .seed = 1};
  embed_status status = embed_table_borrow(o->context, f->rows, OP_ROWS, OP_DIM, &options, NULL, NULL, &f->tables[0]);
  if (status == EMBED_OK) status = embed_table_init(o->context, f->tables[0], &init);
  return status;
}

const embed_table *op_table(op *o, embed_dtype dtype, op_outcome *outcome) {
  op_fixture *f = fixture(o, outcome);
  int i = index_of(dtype);
  if (f && !f->rows) {
    f->rows = need(bench_memory(table_bytes), outcome);
    if (f->rows) op_note(o, outcome, make_f32(o, f));
  }
  if (op_wrong(outcome)) return NULL;
  embed_table_options options = {.size = sizeof options, .dtype = dtype, .flags = EMBED_TABLE_HUGE_PAGES};
  if (!f->tables[i]) op_note(o, outcome, embed_table_convert(o->context, f->tables[0], &options, &f->tables[i]));
  return f->tables[i];
}

embed_table *op_new_table(op *o, int64_t rows, int64_t dim, embed_dtype dtype, op_outcome *outcome) {
  const embed_table_options options = {.size = sizeof options, .dtype = dtype, .flags = EMBED_TABLE_HUGE_PAGES};
  const embed_init_options init = {.size = sizeof init, .kind = EMBED_INIT_NORMAL, .seed = 1};
  embed_table *t = NULL;
  op_note(o, outcome, embed_table_create(o->context, rows, dim, &options, &t));
  if (t) op_note(o, outcome, embed_table_init(o->context, t, &init));
  return t;
}

float *op_vectors(int64_t n, int64_t dim, float scale, op_outcome *outcome) {
  float *x = need(bench_memory(sizeof(float) * (size_t)(n * dim)), outcome);
  uint64_t state = 2;
  for (int64_t i = 0; x && i < n * dim; ++i) x[i] = (float)(int32_t)(bench_random(&state) >> 32) * 0x1p-30f * scale;
  return x;
}

float *op_hidden(op *o, op_outcome *outcome) {
  op_fixture *f = fixture(o, outcome);
  if (!f || f->hidden) return f ? f->hidden : NULL;
  f->hidden = need(bench_memory(hidden_bytes), outcome);
  uint64_t state = 2;
  for (size_t i = 0; f->hidden && i < hidden_bytes / sizeof(float); ++i) f->hidden[i] = (float)(int32_t)(bench_random(&state) >> 32) * 0x1p-30f; /* [-2, 2) */
  return f->hidden;
}

float *op_output(op *o, int which, op_outcome *outcome) {
  op_fixture *f = fixture(o, outcome);
  if (f && !f->outputs[which]) f->outputs[which] = need(bench_memory(output_bytes), outcome);
  return f ? f->outputs[which] : NULL;
}

void op_fixture_release(op *o) {
  op_fixture *f = o->fixture;
  if (!f) return;
  for (int i = 0; i < TYPES; ++i) embed_table_release(f->tables[i]);
  for (int i = 0; i < OUTPUTS; ++i) bench_memory_release(f->outputs[i], output_bytes);
  bench_memory_release(f->hidden, hidden_bytes);
  bench_memory_release(f->rows, table_bytes);
  free(f);
}
