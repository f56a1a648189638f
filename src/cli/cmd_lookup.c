/* SPDX-License-Identifier: BSD-3-Clause */
/* embed lookup FILE --ids LIST: rows as the table holds them (a family's lookup scale is left out), in blocks. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "json.h"
#include "npy_out.h"
#include "numbers.h"
#include "progress.h"
#include "ranking.h"
#include "session.h"

enum { BLOCK_BYTES = 1 << 22, SHOWN = 4 /* columns, for a reader */ };

typedef struct output {
  const cli_options *options;
  cli_json json;
  cli_npy npy;
} output;

static void row_json(cli_json *j, const cli_session *s, int64_t id, const float *row, int64_t dim) {
  cli_json_open(j, '{');
  cli_json_key(j, "id"), cli_json_integer(j, id);
  cli_token_json(j, s, id);
  cli_json_key(j, "vector");
  cli_json_open(j, '[');
  for (int64_t c = 0; c < dim; ++c) cli_json_float(j, row[c]);
  cli_json_close(j, ']');
  cli_json_close(j, '}');
}

static void row_print(const cli_session *s, int64_t id, const float *row, int64_t dim) {
  double squares = 0;
  for (int64_t c = 0; c < dim; ++c) squares += (double)row[c] * (double)row[c];
  printf("%8" PRId64 "  ", id);
  cli_token_print(s, id, 16);
  printf("  %10.5g ", sqrt(squares));
  for (int64_t c = 0; c < dim && c < SHOWN; ++c) printf(" %10.5g", (double)row[c]);
  puts(dim > SHOWN ? " ..." : "");
}

static int put_rows(output *out, const cli_session *s, const int64_t *ids, int64_t n, const float *rows, int64_t dim) {
  if (out->options->npy) return cli_npy_write(&out->npy, rows, n * dim);
  for (int64_t i = 0; i < n; ++i) {
    if (out->options->json) {
      row_json(&out->json, s, ids[i], rows + i * dim, dim);
    } else {
      row_print(s, ids[i], rows + i * dim, dim);
    }
  }
  return CLI_DONE;
}

static int put_blocks(output *out, cli_session *s, const cli_ids *list) {
  int64_t dim = embed_table_dim(s->table), most = dim < BLOCK_BYTES / 4 ? BLOCK_BYTES / 4 / dim : 1, span = 0, at = 0, done = 0, n;
  if (most > list->total) most = list->total;
  int64_t *ids = cli_array(s, most, 1, sizeof *ids);
  float *rows = ids ? cli_array(s, most, dim, sizeof *rows) : NULL;
  int status = rows ? CLI_DONE : CLI_FAILED;
  while (!status && (n = cli_ids_next(list, &span, &at, most, ids)) > 0) {
    cli_progress_step(done, list->total);
    done += n;
    status = embed_lookup_i64(s->ctx, s->table, ids, n, rows, EMBED_F32, 0, NULL) == EMBED_OK ? CLI_DONE : cli_library_fail(s);
    if (!status) status = put_rows(out, s, ids, n, rows, dim);
  }
  free(rows);
  free(ids);
  return status;
}

static int put_all(cli_session *s, const cli_options *o, const cli_ids *list) {
  output out = {.options = o};
  if (o->npy) {
    int status = cli_npy_open(&out.npy, o->npy, list->total, embed_table_dim(s->table), &s->path, 1);
    if (!status) status = put_blocks(&out, s, list);
    if (status) {
      cli_npy_drop(&out.npy);
      return status;
    }
    return cli_npy_close(&out.npy);
  }
  cli_progress_end();
  if (o->json) {
    cli_json_open(&out.json, '[');
  } else {
    printf("%8s  %-16s  %10s  %10s\n", "id", "token", "norm", "vector");
  }
  int status = put_blocks(&out, s, list);
  if (o->json) cli_json_close(&out.json, ']'), cli_json_end();
  return status;
}

int cli_lookup(const cli_options *o) {
  cli_session s;
  cli_ids ids;
  if (!o->ids) return cli_usage("lookup", "--ids is missing");
  if (o->json && o->npy) return cli_usage("lookup", "--json and --npy are two answers: give one of them");
  int status = cli_ids_read("lookup", o->ids, &ids);
  if (status) {
    cli_ids_free(&ids);
    return status;
  }
  status = cli_session_open(&s, o);
  if (!status) status = cli_session_table(&s);
  if (!status) status = cli_ids_check(s.path, &ids, embed_table_vocab(s.table));
  if (!status) status = put_all(&s, o, &ids);
  cli_session_close(&s);
  cli_ids_free(&ids);
  return status;
}
