/* SPDX-License-Identifier: BSD-3-Clause */
/* Row audit: every row is decoded once, in blocks. Equal rows are found by hash, then compared. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "verify.h"

enum { NAMED = 3 };

typedef struct found { /* rows of one kind */
  int64_t count, first[NAMED];
} found;

typedef struct hashed {
  uint64_t hash;
  int64_t row;
} hashed;

typedef struct audit {
  cli_session *session;
  int64_t vocab, dim;
  unsigned char *nonfinite_columns;
  found zero, nonfinite, duplicate;
  hashed *rows; /* finite rows that are not zero */
  int64_t row_count;
} audit;

static void note(found *f, int64_t row) {
  if (f->count < NAMED) f->first[f->count] = row;
  ++f->count;
}

static int audit_row(void *arg, int64_t row, const float *values) {
  audit *a = arg;
  int finite = 1, any = 0; /* -0 is zero */
  for (int64_t c = 0; c < a->dim; ++c) {
    any |= values[c] != 0;
    if (!isfinite(values[c])) finite = 0, a->nonfinite_columns[c] = 1;
  }
  if (!finite)
    note(&a->nonfinite, row);
  else if (!any)
    note(&a->zero, row);
  else
    a->rows[a->row_count++] = (hashed){cli_row_hash(values, a->dim), row};
  return CLI_DONE;
}

static int by_hash_then_row(const void *a, const void *b) {
  const hashed *x = a, *y = b;
  if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

static int by_row(const void *a, const void *b) {
  const int64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Rows of equal hash stand together: each is compared with the first of them. */
static int find_duplicates(audit *a) {
  float *pair = cli_array(a->session, 2, a->dim, sizeof *pair);
  int64_t *equal = pair ? cli_array(a->session, a->row_count, 1, sizeof *equal) : NULL, count = 0;
  int status = equal ? CLI_DONE : CLI_FAILED;
  qsort(a->rows, (size_t)a->row_count, sizeof *a->rows, by_hash_then_row);
  for (int64_t i = 1, first = 0; !status && i < a->row_count; ++i) {
    if (a->rows[i].hash != a->rows[first].hash) {
      first = i;
      continue;
    }
    int64_t ids[2] = {a->rows[first].row, a->rows[i].row};
    if (embed_table_get_rows(a->session->ctx, a->session->table, ids, 2, pair, EMBED_F32, 0) != EMBED_OK) status = cli_library_fail(a->session);
    if (!status && memcmp(pair, pair + a->dim, (size_t)a->dim * sizeof *pair) == 0) equal[count++] = ids[1];
  }
  if (!status) qsort(equal, (size_t)count, sizeof *equal, by_row);
  for (int64_t i = 0; !status && i < count; ++i) note(&a->duplicate, equal[i]);
  free(equal);
  free(pair);
  return status;
}

static void tell(char *detail, size_t room, const char *kind, const found *f) {
  size_t used = strlen(detail);
  used += (size_t)snprintf(detail + used, room - used, ", %" PRId64 " %s", f->count, kind);
  for (int64_t i = 0; i < f->count && i < NAMED; ++i) used += (size_t)snprintf(detail + used, room - used, "%s%" PRId64, i ? ", " : " (", f->first[i]);
  if (f->count) snprintf(detail + used, room - used, f->count > NAMED ? ", ...)" : ")");
}

int cli_verify_rows(cli_session *s, unsigned char *nonfinite_columns, cli_check *check) {
  audit a = {.session = s, .vocab = embed_table_vocab(s->table), .dim = embed_table_dim(s->table), .nonfinite_columns = nonfinite_columns};
  a.rows = cli_array(s, a.vocab, 1, sizeof *a.rows);
  int status = a.rows ? cli_each_row(s, 0, 1, audit_row, &a) : CLI_FAILED;
  if (!status) status = find_duplicates(&a);
  free(a.rows);
  *check = (cli_check){.name = "row audit", .ok = a.nonfinite.count == 0};
  snprintf(check->detail, sizeof check->detail, "%" PRId64 " rows", a.vocab);
  tell(check->detail, sizeof check->detail, "zero", &a.zero);
  tell(check->detail, sizeof check->detail, "non-finite", &a.nonfinite);
  tell(check->detail, sizeof check->detail, "duplicate", &a.duplicate);
  return status;
}
