/* SPDX-License-Identifier: BSD-3-Clause */
#include "trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

const char *const cli_row_kinds[CLI_ROW_KINDS] = {"zero", "equal", "short", "unused", "broken"};

typedef struct rows {
  cli_session *s;
  int shared;
  int64_t vocab, dim;
  float *norms, *cosines; /* [vocab] */
  float *other;           /* [dim] */
  uint64_t *hashes;       /* [vocab] */
  uint32_t *slots;        /* row + 1 each, 0 = free; two for a row */
  uint64_t slot_count;
  double *mean; /* [dim] of the unit rows named unused */
  unsigned char *kinds, *named;
} rows;

/* Four sums side by side, in this order: the answer is that of every machine. */
static double dot(const float *a, const float *b, int64_t n) {
  double sums[4] = {0};
  int64_t j = 0;
  for (; j + 4 <= n; j += 4)
    for (int k = 0; k < 4; ++k) sums[k] += (double)a[j + k] * (double)b[j + k];
  for (; j < n; ++j) sums[0] += (double)a[j] * (double)b[j];
  return sums[0] + sums[1] + (sums[2] + sums[3]);
}

/* Whether row `other` has the same bits, 0 or 1 into *same. */
static int compare_with(rows *r, int64_t other, const float *values, int *same) {
  if (embed_table_get_rows(r->s->ctx, r->s->table, &other, 1, r->other, EMBED_F32, 0) != EMBED_OK) return cli_library_fail(r->s);
  *same = memcmp(r->other, values, (size_t)r->dim * sizeof *values) == 0;
  return CLI_DONE;
}

static int find_equal(rows *r, int64_t row, const float *values) {
  const uint64_t hash = r->hashes[row] = cli_row_hash(values, r->dim);
  uint64_t at = hash & (r->slot_count - 1);
  for (; r->slots[at]; at = (at + 1) & (r->slot_count - 1)) {
    const uint32_t other = r->slots[at] - 1;
    int same = 0;
    if (r->hashes[other] != hash) continue;
    const int status = compare_with(r, other, values, &same);
    if (status) return status;
    if (!same) continue;
    r->kinds[other] |= CLI_ROW_EQUAL;
    r->kinds[row] |= CLI_ROW_EQUAL;
    return CLI_DONE;
  }
  r->slots[at] = (uint32_t)row + 1;
  return CLI_DONE;
}

static int look(void *arg, int64_t row, const float *values) {
  rows *r = arg;
  const double square = dot(values, values, r->dim);
  r->norms[row] = (float)sqrt(square);
  if (!isfinite(square)) {
    for (int64_t j = 0; j < r->dim; ++j)
      if (!isfinite(values[j])) r->kinds[row] = CLI_ROW_BROKEN;
    return CLI_DONE;
  }
  if (square == 0) r->kinds[row] = CLI_ROW_ZERO; /* squares of floats are no subnormal doubles */
  return square == 0 || r->shared ? CLI_DONE : find_equal(r, row, values);
}

static int add_named(void *arg, int64_t row, const float *values) {
  rows *r = arg;
  if (!r->named[row] || !(r->norms[row] > 0) || !isfinite(r->norms[row])) return CLI_DONE;
  for (int64_t j = 0; j < r->dim; ++j) r->mean[j] += (double)values[j] / (double)r->norms[row];
  return CLI_DONE;
}

static int compare(void *arg, int64_t row, const float *values) {
  rows *r = arg;
  double sum = 0, square = 0;
  for (int64_t j = 0; j < r->dim; ++j) {
    sum += r->mean[j] * (double)values[j];
    square += r->mean[j] * r->mean[j];
  }
  const double by = sqrt(square) * (double)r->norms[row];
  r->cosines[row] = by > 0 && isfinite(by) ? (float)(sum / by) : -2.0f;
  return CLI_DONE;
}

static int by_value(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* The upper one of two in the middle. */
static float median(float *values, int64_t count) {
  if (count == 0) return 0;
  qsort(values, (size_t)count, sizeof *values, by_value);
  return values[count / 2];
}

static int is_named_unused(const char *token, int64_t bytes) {
  static const char *const begins[] = {"<unused", "[unused", "<|unused", "<|reserved", "<reserved", "[PAD0", "[PAD1", "[PAD2",
                                       "[PAD3",   "[PAD4",   "[PAD5",    "[PAD6",      "[PAD7",     "[PAD8", "[PAD9"};
  for (size_t i = 0; i < sizeof begins / sizeof *begins; ++i)
    if ((int64_t)strlen(begins[i]) < bytes && !memcmp(token, begins[i], strlen(begins[i]))) return 1;
  return 0;
}

static int find_unused(rows *r, cli_untrained *out) {
  enum { FEW = 4 };
  int64_t known = 0;
  if (out->named < FEW) return CLI_DONE;
  int status = cli_each_row(r->s, 1, 3, add_named, r);
  if (!status) status = cli_each_row(r->s, 2, 3, compare, r);
  if (status) return status;
  float *of_known = cli_array(r->s, out->named, 1, sizeof *of_known);
  if (!of_known) return CLI_FAILED;
  for (int64_t i = 0; i < r->vocab; ++i)
    if (r->named[i] && r->cosines[i] >= -1) of_known[known++] = r->cosines[i];
  out->nearness = median(of_known, known);
  free(of_known);
  for (int64_t i = 0; i < r->vocab && known >= FEW; ++i)
    if (r->cosines[i] >= out->nearness) r->kinds[i] |= CLI_ROW_UNUSED;
  return CLI_DONE;
}

static int find_short(rows *r, cli_untrained *out) {
  float *sorted = cli_array(r->s, r->vocab, 1, sizeof *sorted);
  int64_t count = 0;
  if (!sorted) return CLI_FAILED;
  for (int64_t i = 0; i < r->vocab; ++i)
    if (isfinite(r->norms[i])) sorted[count++] = r->norms[i];
  out->median = median(sorted, count);
  free(sorted);
  for (int64_t i = 0; i < r->vocab; ++i)
    if (r->norms[i] < out->median / 10 && !(r->kinds[i] & CLI_ROW_ZERO)) r->kinds[i] |= CLI_ROW_SHORT;
  return CLI_DONE;
}

static void sum_up(const rows *r, cli_untrained *out) {
  for (int64_t i = 0; i < r->vocab; ++i) {
    if (!r->kinds[i]) continue;
    ++out->count;
    for (int kind = 0; kind < CLI_ROW_KINDS; ++kind) out->of_kind[kind] += r->kinds[i] >> kind & 1;
    if (out->shown_count == CLI_ROWS_SHOWN) continue;
    out->shown[out->shown_count] = i;
    out->kinds[out->shown_count] = r->kinds[i];
    out->norms[out->shown_count++] = r->norms[i];
  }
}

static int find(rows *r, cli_untrained *out) {
  for (int64_t i = 0; i < r->vocab; ++i) {
    int64_t bytes;
    const char *token = embed_file_token(r->s->file, i, &bytes);
    r->named[i] = (unsigned char)(token && is_named_unused(token, bytes));
    out->named += r->named[i];
  }
  int status = cli_each_row(r->s, 0, out->named ? 3 : 1, look, r);
  if (!status) status = find_short(r, out);
  if (!status) status = find_unused(r, out);
  if (!status) sum_up(r, out);
  return status;
}

int cli_untrained_find(cli_session *s, int shared, cli_untrained *out) {
  rows r = {.s = s, .shared = shared, .vocab = embed_table_vocab(s->table), .dim = embed_table_dim(s->table), .slot_count = 2};
  memset(out, 0, sizeof *out);
  if (r.vocab < 1 || r.dim < 1 || r.vocab >= INT32_MAX) return CLI_DONE;
  while (r.slot_count < 2 * (uint64_t)r.vocab) r.slot_count *= 2;
  int status = CLI_FAILED;
  if ((r.other = cli_array(s, r.dim, 1, sizeof *r.other)) && (r.norms = cli_array(s, r.vocab, 1, sizeof *r.norms)) &&
      (r.cosines = cli_array(s, r.vocab, 1, sizeof *r.cosines)) && (r.hashes = cli_array(s, r.vocab, 1, sizeof *r.hashes)) &&
      (r.slots = cli_array(s, (int64_t)r.slot_count, 1, sizeof *r.slots)) && (r.mean = cli_array(s, r.dim, 1, sizeof *r.mean)) &&
      (r.kinds = cli_array(s, r.vocab, 2, 1))) {
    r.named = r.kinds + r.vocab;
    memset(r.kinds, 0, 2 * (size_t)r.vocab);
    memset(r.slots, 0, (size_t)r.slot_count * sizeof *r.slots);
    for (int64_t j = 0; j < r.dim; ++j) r.mean[j] = 0;
    status = find(&r, out);
  }
  free(r.kinds);
  free(r.mean);
  free(r.slots);
  free(r.hashes);
  free(r.cosines);
  free(r.norms);
  free(r.other);
  return status;
}
