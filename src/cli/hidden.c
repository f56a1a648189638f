/* SPDX-License-Identifier: BSD-3-Clause */
#include "hidden.h"

#include <inttypes.h>
#include <stdlib.h>

static int fails(const cli_session *s, const char *path) { return cli_fail(path, "%s", embed_error_text(s->ctx)); }

static int check_shape(const cli_session *s, const char *path, const embed_tensor_info *tensor, int64_t *n) {
  int64_t dim = embed_head_dim(s->head);
  if (tensor->rank != 1 && tensor->rank != 2) return cli_fail(path, "hidden states are [n, dim] or [dim], not of rank %d", (int)tensor->rank);
  int64_t columns = tensor->shape[tensor->rank - 1];
  if (columns != dim) return cli_fail(path, "the hidden states have %" PRId64 " columns, the head of %s reads %" PRId64, columns, s->path, dim);
  if (tensor->dtype != EMBED_F32 && tensor->dtype != EMBED_F16 && tensor->dtype != EMBED_BF16 && tensor->dtype != EMBED_F64)
    return cli_fail(path, "the hidden states are \"%s\", not floats", tensor->stored);
  *n = tensor->rank == 2 ? tensor->shape[0] : 1;
  return CLI_DONE;
}

static int get_rows(const cli_session *s, const char *path, const embed_table *table, int64_t n, float **rows) {
  int64_t *ids = cli_array(s, n, 1, sizeof *ids);
  if (!ids) return CLI_FAILED;
  *rows = cli_array(s, n, embed_table_dim(table), sizeof **rows);
  int status = *rows ? CLI_DONE : CLI_FAILED;
  for (int64_t i = 0; i < n; ++i) ids[i] = i;
  if (!status && embed_table_get_rows(s->ctx, table, ids, n, *rows, EMBED_F32, 0) != EMBED_OK) status = fails(s, path);
  free(ids);
  return status;
}

static int read_file(const cli_session *s, const char *path, const embed_file *file, float **rows, int64_t *n) {
  embed_tensor_info tensor = {.size = sizeof tensor};
  embed_table *table = NULL;
  if (embed_file_count(file) != 1) return cli_fail(path, "hidden states are one matrix, here are %" PRId64 " tensors", embed_file_count(file));
  if (embed_file_tensor(s->ctx, file, 0, &tensor) != EMBED_OK) return fails(s, path);
  int status = check_shape(s, path, &tensor, n);
  if (status || *n == 0) return status;
  if (embed_file_table(s->ctx, file, 0, &table) != EMBED_OK) return fails(s, path); /* [dim] is a table of one row */
  status = get_rows(s, path, table, *n, rows);
  embed_table_release(table);
  return status;
}

int cli_hidden_read(cli_session *s, const char *path, float **rows, int64_t *n) {
  embed_file *file = NULL;
  *rows = NULL, *n = 0;
  if (embed_file_open(s->ctx, path, NULL, &file) != EMBED_OK) return fails(s, path);
  int status = read_file(s, path, file, rows, n);
  embed_file_release(file);
  return status;
}
