/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_op: each operation beside this machine's limit and, where there is one, a peer, in one run. */
#ifndef BENCH_OP_H
#define BENCH_OP_H

#include <stdbool.h>
#include <stdint.h>

#include <embed/embed.h>

#include "harness.h"

enum { OP_ROWS = 50257, OP_DIM = 768, OP_MOST_BATCH = 512 }; /* GPT-2's vocabulary: no multiple of a tile */
enum { OP_LONG_DIM = 4096, OP_SHORT_DIM = 384 };             /* of gathers, over the same memory */
#define OP_SHAPE "50257x768"

typedef struct op_fixture op_fixture;

typedef struct op {
  bench *bench;
  embed_context *context;
  op_fixture *fixture;
  const char *file; /* of the demo */
  bool json;
  bool failed; /* a bar was missed or a call failed */
  /* Limits of this run, all threads; 0 = not measured. */
  bench_figure reads[BENCH_MOST_STREAMS];
  int streams;
  double read;         /* GB/s */
  double copy_of_read; /* GB/s copied / GB/s read */
  volatile float sink[BENCH_MOST_THREADS];
} op;

typedef struct op_line op_line;
typedef void op_run(op *o, const op_line *line);
struct op_line {
  const char *name;
  enum op_when { ALWAYS, DEFAULT, ASKED } when;
  op_run *run;
  embed_dtype dtype;
  int64_t n;
  double bar;
};

typedef struct op_result {
  const char *what; /* "head    f32   50257x768  batch 1" */
  bench_figure ours, peer;
  double figure; /* in unit */
  const char *unit;
  double limit; /* in unit; 0 = none */
  const char *limit_name;
  const char *peer_name; /* NULL = no peer */
  const char *wrong;     /* NULL, or why the figure counts for nothing */
  bool bar_of_limit;     /* the bar is of the share of the limit, though there is a peer */
  char beside[96];       /* what else there is to say */
} op_result;

#define LINE(name, when, run, dtype, n, bar) op_run run;
#include "lines.def"
#undef LINE

void op_report(op *o, const op_line *line, const op_result *result);
void op_measure_read(op *o);
const char *op_dtype_name(embed_dtype dtype);

/* The fp32 peak has two speeds where a hypervisor puts two CPUs on one core, so it is measured in turns with what it is
 * the limit of. */
bench_work op_multiply_add_work(op *o);
double op_multiply_add_rate(const op *o, const bench_figure *f); /* GFLOP/s */
/* The same of the short products that this CPU has for a dtype's rounded activations: bytes, or pairs of bfloats where they
 * are faster than FMA is beside them (0 = there are none: FMA is the peak). */
bench_work op_products_work(op *o, embed_dtype activation);
double op_products_rate(const op *o, embed_dtype activation, const bench_figure *f);

/* Figure and limit of a product: small batches wait for the bytes, large ones for the multiply-adds, measured in turns; the
 * limit is the one that is nearer. */
void op_product_limit(const op *o, op_result *r, const bench_figure *peak, double bytes, double flops);

/* GB/s of `bytes` bytes of payload that are moved by reading `bytes_read` and writing `bytes_written` of memory, when
 * the probes around the samples read at `read`. A byte's writing costs what the copy of this run took longer than its
 * reading: so a gather of f32 rows is a copy, one of narrower rows reads less. */
double op_moving_limit(const op *o, double read, double bytes, double bytes_read, double bytes_written);

/* The first failure of the calls that a measurement makes. */
typedef struct op_outcome {
  embed_status status;
  char text[512];
} op_outcome;
void op_note(op *o, op_outcome *outcome, embed_status status);
const char *op_wrong(const op_outcome *outcome); /* NULL = all went well */

/* What lines share, made when first asked for; NULL = impossible, *outcome says why. */
const embed_table *op_table(op *o, embed_dtype dtype, op_outcome *outcome); /* [OP_ROWS, OP_DIM] on 2 MiB pages */
float *op_hidden(op *o, op_outcome *outcome);                               /* [OP_MOST_BATCH, OP_DIM] */
float *op_output(op *o, int which, op_outcome *outcome);                    /* [OP_MOST_BATCH, OP_ROWS]; 0 ours, 1 the peer's */
/* A line's own: a table of normal numbers on 2 MiB pages; n * dim numbers of [-2 scale, 2 scale), bench_memory's. NULL = impossible. */
embed_table *op_new_table(op *o, int64_t rows, int64_t dim, embed_dtype dtype, op_outcome *outcome);
float *op_vectors(int64_t n, int64_t dim, float scale, op_outcome *outcome);
void op_fixture_release(op *o);

#endif
