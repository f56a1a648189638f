/* SPDX-License-Identifier: BSD-3-Clause */
/* The head is a mirror: hidden = e_c gives W[:, c] (+ bias), each sum having one term that is not zero. Scale and soft-cap are
 * left out (EMBED_HEAD_RAW); what hidden = 0 gives is the bias. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "verify.h"

static const double budget = 8e9;                    /* operations */
enum { COLUMNS = 16, ROWS = 256, LOGITS = 1 << 24 }; /* unit vectors and rows at a time; floats of logits at most */

typedef struct mirror {
  cli_session *session;
  const embed_table *table; /* the head's */
  int64_t vocab, dim, block, skipped_rows;
  int has_bias;
  int64_t columns[COLUMNS];
  float *hidden; /* [block + 1, dim]: the unit vectors, then 0 */
  float *logits; /* [block + 1, vocab] */
  float *rows;   /* [ROWS, dim] */
} mirror;

static void skip(cli_check *check, const char *why) { snprintf(check->detail, sizeof check->detail, "skipped: %s", why); }

static int all_finite(const float *values, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!isfinite(values[i])) return 0;
  return 1;
}

/* Row r of the table against n columns of logits and the bias row behind them. */
static void compare_row(mirror *m, int64_t r, const float *row, int64_t n, cli_check *check) {
  float bias = m->logits[n * m->vocab + r];
  if (!all_finite(row, m->dim) || (m->has_bias && !isfinite(bias))) { /* 0 x NaN is NaN: all its logits are */
    ++m->skipped_rows;
    return;
  }
  if (!m->has_bias && bias != 0 && check->ok) {
    check->ok = 0;
    snprintf(check->detail, sizeof check->detail, "row %" PRId64 ": a hidden state of zeros gives the logit %.9g", r, (double)bias);
  }
  for (int64_t i = 0; i < n && check->ok; ++i) {
    float got = m->logits[i * m->vocab + r], want = row[m->columns[i]] + bias;
    if (got == want) continue;
    check->ok = 0;
    snprintf(check->detail, sizeof check->detail, "row %" PRId64 ", column %" PRId64 ": the unit vector gives %.9g, the table holds %.9g", r, m->columns[i],
             (double)got, (double)want);
  }
}

static int compare_block(mirror *m, int64_t n, cli_check *check) {
  embed_context *ctx = m->session->ctx;
  int64_t ids[ROWS];
  memset(m->hidden, 0, (size_t)((n + 1) * m->dim) * sizeof *m->hidden);
  for (int64_t i = 0; i < n; ++i) m->hidden[i * m->dim + m->columns[i]] = 1;
  if (embed_logits(ctx, m->session->head, m->hidden, EMBED_F32, n + 1, 0, m->logits, 0, NULL) != EMBED_OK) return cli_library_fail(m->session);
  m->skipped_rows = 0;
  for (int64_t first = 0; first < m->vocab; first += ROWS) {
    int64_t count = m->vocab - first < ROWS ? m->vocab - first : ROWS;
    for (int64_t i = 0; i < count; ++i) ids[i] = first + i;
    if (embed_table_get_rows(ctx, m->table, ids, count, m->rows, EMBED_F32, 0) != EMBED_OK) return cli_library_fail(m->session);
    for (int64_t i = 0; i < count; ++i) compare_row(m, first + i, m->rows + i * m->dim, n, check);
  }
  return CLI_DONE;
}

static int compare(mirror *m, cli_check *check) {
  int64_t total = cli_affordable(m->dim, 2 * (double)m->vocab * (double)m->dim, budget, 2);
  int status = CLI_DONE;
  for (int64_t first = 0; !status && check->ok && first < total; first += m->block) {
    int64_t n = total - first < m->block ? total - first : m->block;
    cli_progress_step(first, total);
    cli_spread(m->dim, total, first, first + n, m->columns);
    status = compare_block(m, n, check);
  }
  if (status || !check->ok) return status;
  if (m->skipped_rows == m->vocab) {
    skip(check, "no row is finite");
    return CLI_DONE;
  }
  int used = snprintf(check->detail, sizeof check->detail, "%s head: unit vectors give back %" PRId64 " of %" PRId64 " columns exactly",
                      m->session->table && embed_head_is_tied(m->session->head, m->session->table) ? "tied" : "untied", total, m->dim);
  if (m->skipped_rows)
    snprintf(check->detail + used, sizeof check->detail - (size_t)used, "; %" PRId64 " of %" PRId64 " rows left out: not finite", m->skipped_rows, m->vocab);
  return CLI_DONE;
}

static int open_mirror(mirror *m) {
  cli_session *s = m->session;
  int64_t bias = -1, fits;
  if (embed_file_role(s->ctx, s->file, EMBED_ROLE_HEAD_BIAS, &bias) != EMBED_OK) return cli_library_fail(s);
  m->has_bias = bias >= 0;
  m->vocab = embed_head_vocab(s->head);
  m->dim = embed_head_dim(s->head);
  fits = LOGITS / m->vocab - 1;
  m->block = fits < 1 ? 1 : fits < COLUMNS ? fits : COLUMNS;
  m->hidden = cli_array(s, m->block + 1, m->dim, sizeof *m->hidden);
  if (m->hidden) m->logits = cli_array(s, m->block + 1, m->vocab, sizeof *m->logits);
  if (m->logits) m->rows = cli_array(s, ROWS, m->dim, sizeof *m->rows);
  return m->rows ? CLI_DONE : CLI_FAILED;
}

int cli_verify_head(cli_session *s, cli_check *check) {
  embed_head_options raw = {.size = sizeof raw, .flags = EMBED_HEAD_RAW};
  mirror m = {.session = s};
  *check = (cli_check){.name = "head mirror", .ok = 1};
  embed_status opened = embed_file_head(s->ctx, s->file, s->table, &raw, &s->head);
  if (opened == EMBED_E_NOT_FOUND || opened == EMBED_E_UNSUPPORTED) {
    skip(check, embed_error_text(s->ctx));
    return CLI_DONE;
  }
  if (opened != EMBED_OK) return cli_library_fail(s);
  m.table = embed_head_table(s->head);
  if (!m.table || embed_head_vocab(s->head) == 0) {
    skip(check, m.table ? "the head has no rows" : "the head is not one table");
    return CLI_DONE;
  }
  int status = open_mirror(&m);
  if (!status) status = compare(&m, check);
  free(m.rows), free(m.logits), free(m.hidden);
  return status;
}
