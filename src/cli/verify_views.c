/* SPDX-License-Identifier: BSD-3-Clause */
/* Three views of a lookup: by the scalar kernel, by the best one, and as a product with one-hot rows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "verify.h"

static const double lookup_budget = 16e6; /* floats */
static const double mix_budget = 20e9;    /* operations */
enum { BLOCK = 64, WEIGHTS = 1 << 24 };   /* ids at a time; floats of one-hot rows at most */

typedef struct views {
  cli_session *session;
  embed_context *scalar;
  int64_t vocab, dim;
  int64_t ids[BLOCK];
  float *one, *other; /* [BLOCK, dim] */
  float *weights;     /* [mix_block, vocab], zero between uses */
  int64_t mix_block;
} views;

int64_t cli_affordable(int64_t count, double each, double budget, int64_t least) {
  double can = budget / each;
  if (can >= (double)count) return count;
  int64_t n = can < (double)least ? least : (int64_t)can;
  return n < count ? n : count;
}

void cli_spread(int64_t count, int64_t n, int64_t first, int64_t last, int64_t *out) {
  for (int64_t i = first; i < last; ++i) /* in two parts: i * count might not fit */
    out[i - first] = n == count ? i : i * ((count - 1) / (n - 1)) + i * ((count - 1) % (n - 1)) / (n - 1);
}

static int lookup(const views *v, embed_context *ctx, int64_t n, float *out) {
  if (embed_lookup_i64(ctx, v->session->table, v->ids, n, out, EMBED_F32, 0, NULL) == EMBED_OK) return CLI_DONE;
  return cli_fail(v->session->path, "%s", embed_error_text(ctx));
}

/* Both as bits; the first difference goes into the check. */
static int compare_lookups(views *v, int64_t n, cli_check *check) {
  int status = CLI_DONE;
  for (int64_t first = 0; !status && check->ok && first < n; first += BLOCK) {
    int64_t count = n - first < BLOCK ? n - first : BLOCK;
    cli_progress_step(first, n);
    cli_spread(v->vocab, n, first, first + count, v->ids);
    status = lookup(v, v->scalar, count, v->one);
    if (!status) status = lookup(v, v->session->ctx, count, v->other);
    for (int64_t i = 0; !status && check->ok && i < count; ++i) {
      if (memcmp(v->one + i * v->dim, v->other + i * v->dim, (size_t)v->dim * sizeof *v->one) == 0) continue;
      check->ok = 0;
      snprintf(check->detail, sizeof check->detail, "row %" PRId64 ": the scalar and the %s lookup differ", v->ids[i], embed_context_isa(v->session->ctx));
    }
  }
  return status;
}

static int mix(views *v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) v->weights[i * v->vocab + v->ids[i]] = 1;
  int status = CLI_DONE;
  if (embed_mix(v->session->ctx, v->session->table, v->weights, n, 0, v->one, 0, NULL) != EMBED_OK) status = cli_library_fail(v->session);
  for (int64_t i = 0; i < n; ++i) v->weights[i * v->vocab + v->ids[i]] = 0;
  return status;
}

/* As values, since 0 x NaN is NaN and 0 + -0 is 0: columns that hold anything not finite are left out. */
static int compare_mix(views *v, int64_t n, const unsigned char *nonfinite_columns, cli_check *check) {
  int status = CLI_DONE;
  for (int64_t first = 0; !status && check->ok && first < n; first += v->mix_block) {
    int64_t count = n - first < v->mix_block ? n - first : v->mix_block;
    cli_progress_step(first, n);
    cli_spread(v->vocab, n, first, first + count, v->ids);
    status = mix(v, count);
    if (!status) status = lookup(v, v->session->ctx, count, v->other);
    for (int64_t i = 0; !status && i < count * v->dim && check->ok; ++i) {
      if (nonfinite_columns[i % v->dim] || v->one[i] == v->other[i]) continue;
      check->ok = 0;
      snprintf(check->detail, sizeof check->detail, "row %" PRId64 ", column %" PRId64 ": the one-hot mix gives %.9g, the lookup %.9g", v->ids[i / v->dim],
               i % v->dim, (double)v->one[i], (double)v->other[i]);
    }
  }
  return status;
}

static int compare(views *v, const unsigned char *nonfinite_columns, cli_check *check) {
  int64_t lookups = cli_affordable(v->vocab, (double)v->dim, lookup_budget, 2), left_out = 0;
  int64_t mixes = cli_affordable(v->vocab, 2 * (double)v->vocab * (double)v->dim, mix_budget, 2);
  for (int64_t c = 0; c < v->dim; ++c) left_out += nonfinite_columns[c];
  int status = compare_lookups(v, lookups, check);
  if (!status && check->ok) status = compare_mix(v, mixes, nonfinite_columns, check);
  if (status || !check->ok) return status;
  int used = snprintf(check->detail, sizeof check->detail, "scalar lookup = %s lookup bit for bit (%" PRId64 " rows), = one-hot mix (%" PRId64 " rows)",
                      embed_context_isa(v->session->ctx), lookups, mixes);
  if (left_out)
    snprintf(check->detail + used, sizeof check->detail - (size_t)used, "; %" PRId64 " of %" PRId64 " columns left out of the mix: not finite", left_out,
             v->dim);
  return CLI_DONE;
}

int cli_verify_views(cli_session *s, const unsigned char *nonfinite_columns, cli_check *check) {
  views v = {.session = s, .vocab = embed_table_vocab(s->table), .dim = embed_table_dim(s->table)};
  *check = (cli_check){.name = "three views", .ok = 1};
  v.mix_block = v.vocab > WEIGHTS ? 1 : v.vocab > WEIGHTS / BLOCK ? WEIGHTS / v.vocab : BLOCK;
  int status = cli_context(s, "scalar", &v.scalar);
  if (!status) v.one = cli_array(s, BLOCK, v.dim, sizeof *v.one);
  if (v.one) v.other = cli_array(s, BLOCK, v.dim, sizeof *v.other);
  if (v.other) v.weights = cli_array(s, v.mix_block, v.vocab, sizeof *v.weights);
  if (v.weights) {
    memset(v.weights, 0, (size_t)(v.mix_block * v.vocab) * sizeof *v.weights);
    status = compare(&v, nonfinite_columns, check);
  } else {
    status = CLI_FAILED;
  }
  free(v.weights), free(v.other), free(v.one);
  embed_context_release(v.scalar);
  return status;
}
