/* SPDX-License-Identifier: BSD-3-Clause */
/* Candidates: distributions in closed form, or by the inverse of a sum of weights with a guide to where the search begins (Chen, Asau,
 * "On generating random variates from an empirical distribution", 1974). */
#include <embed/loss.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/options.h"
#include "core/philox.h"
#include "thread/run.h"

struct embed_candidates {
  embed_allocator memory;
  int64_t vocab;
  int64_t possible; /* classes that can be drawn */
  embed_candidates_kind kind;
  bool repeats;
  uint64_t seed;
  double wide;        /* log(vocab + 1) */
  double *cumulative; /* COUNTS: [vocab + 1], the weights of the classes before each; else NULL */
  int32_t *guide;     /* COUNTS: [vocab], the class in which the share i / vocab of all weights falls */
};

enum { MOST_POWER = 8 /* sums of counts are finite */ };

static void free_all(embed_candidates *c) {
  const embed_allocator memory = c->memory;
  embed__free(&memory, c->cumulative, (size_t)(c->vocab + 1) * sizeof *c->cumulative, EMBED__ALIGNMENT);
  embed__free(&memory, c->guide, (size_t)c->vocab * sizeof *c->guide, EMBED__ALIGNMENT);
  embed__free(&memory, c, sizeof *c, EMBED__ALIGNMENT);
}

void embed_candidates_release(embed_candidates *c) {
  if (c) free_all(c);
}

static embed_status check_counts(embed_context *ctx, int64_t vocab, const int64_t *counts, embed_candidates_kind kind) {
  int64_t any = 0;
  if (kind != EMBED_CANDIDATES_COUNTS) return counts ? embed__fail(ctx, EMBED_E_ARGUMENT, -1, "counts are for EMBED_CANDIDATES_COUNTS alone") : EMBED_OK;
  if (!counts) return embed__null(ctx, "counts");
  for (int64_t v = 0; v < vocab; ++v) {
    if (counts[v] < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, v, "the count of class %" PRId64 " is %" PRId64, v, counts[v]);
    any |= counts[v];
  }
  return any ? EMBED_OK : embed__fail(ctx, EMBED_E_ARGUMENT, -1, "all %" PRId64 " counts are 0", vocab);
}

/* The class in whose part of the weights `target` lies, searched from class v on. */
static int64_t class_of(const embed_candidates *c, int64_t v, double target) {
  while (v > 0 && c->cumulative[v] > target) --v; /* the guide's place, by rounding */
  while (v + 1 < c->vocab && c->cumulative[v + 1] <= target) ++v;
  while (v > 0 && c->cumulative[v + 1] == c->cumulative[v]) --v; /* past the last with weight, by rounding */
  return v;
}

static void fill_weights(embed_candidates *c, const int64_t *counts, double power) {
  double sum = 0;
  c->possible = 0;
  for (int64_t v = 0; v < c->vocab; ++v) {
    c->cumulative[v] = sum;
    if (counts[v] == 0) continue;
    sum += pow((double)counts[v], power);
    ++c->possible;
  }
  c->cumulative[c->vocab] = sum;
  int64_t v = 0;
  for (int64_t i = 0; i < c->vocab; ++i) c->guide[i] = (int32_t)(v = class_of(c, v, (double)i / (double)c->vocab * sum));
}

static embed_status make_weights(embed_context *ctx, embed_candidates *c, const int64_t *counts, double power) {
  int64_t bytes;
  if (!embed__mul(c->vocab + 1, (int64_t)sizeof *c->cumulative, &bytes) || (uint64_t)bytes > PTRDIFF_MAX) return embed__out_of_memory(ctx, -1);
  c->cumulative = embed__allocate(&c->memory, (size_t)bytes, EMBED__ALIGNMENT);
  c->guide = c->cumulative ? embed__allocate(&c->memory, (size_t)c->vocab * sizeof *c->guide, EMBED__ALIGNMENT) : NULL;
  if (!c->guide) return embed__out_of_memory(ctx, bytes);
  fill_weights(c, counts, power);
  return EMBED_OK;
}

static embed_status create(embed_context *ctx, int64_t vocab, const int64_t *counts, const embed_candidates_options *o, embed_candidates **out) {
  embed_candidates *c = embed__new(&ctx->memory, sizeof *c);
  if (!c) return embed__out_of_memory(ctx, (int64_t)sizeof *c);
  c->memory = ctx->memory;
  c->vocab = c->possible = vocab;
  c->wide = log1p((double)vocab);
  c->kind = o->kind;
  c->repeats = (o->flags & EMBED_CANDIDATES_REPEATS) != 0;
  c->seed = o->seed;
  const embed_status status = counts ? make_weights(ctx, c, counts, o->power != 0 ? o->power : 1) : EMBED_OK;
  if (status != EMBED_OK) {
    free_all(c);
    return status;
  }
  *out = c;
  return EMBED_OK;
}

embed_status embed_candidates_create(embed_context *ctx, int64_t vocab, const int64_t *counts, const embed_candidates_options *opts, embed_candidates **out) {
  embed_candidates_options o;
  if (out) *out = NULL;
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, out);
  EMBED__TRY(embed__options(ctx, "embed_candidates_options", opts, EMBED_CANDIDATES_REPEATS, &o, sizeof o));
  if (o.kind < EMBED_CANDIDATES_LOG_UNIFORM || o.kind > EMBED_CANDIDATES_COUNTS)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_candidates_kind", o.kind);
  if (!(o.power >= 0 && o.power <= MOST_POWER) || (o.power != 0 && o.kind != EMBED_CANDIDATES_COUNTS))
    return embed__fail(ctx, EMBED_E_OPTION, -1, "power must be between 0 and %d, and is for EMBED_CANDIDATES_COUNTS alone", MOST_POWER);
  if (o.reserved) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_candidates_options: reserved must be 0");
  if (vocab < 1) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "vocab is %" PRId64 ", at least 1 class can be drawn", vocab);
  if (vocab > INT32_MAX) return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "candidates of %" PRId64 " classes: ids have 32 bits", vocab);
  EMBED__TRY(check_counts(ctx, vocab, counts, o.kind));
  return create(ctx, vocab, counts, &o, out);
}

/* --- Drawing */

/* Of one list, in order: a Philox counter gives two. */
typedef struct draws {
  const embed_candidates *c;
  int64_t position, done;
  uint32_t words[4];
} draws;

/* In [0, 1), of 53 bits. */
static double next_uniform(draws *d) {
  const uint32_t *two = d->words + 2 * (d->done & 1);
  if (two == d->words) {
    const uint64_t pair = (uint64_t)d->done >> 1, seed = d->c->seed;
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)pair, (uint32_t)d->position, (uint32_t)((uint64_t)d->position >> 32),
                                 EMBED__STREAM_CANDIDATES | (uint32_t)(pair >> 32) << 8};
    embed__philox(counter, key, d->words);
  }
  ++d->done;
  return (double)(((uint64_t)two[0] << 32 | two[1]) >> 11) * 0x1p-53;
}

static int32_t next_class(draws *d) {
  const embed_candidates *c = d->c;
  const double u = next_uniform(d);
  double v = u * (double)c->vocab;
  if (c->kind == EMBED_CANDIDATES_COUNTS) return (int32_t)class_of(c, c->guide[(int64_t)v], u * c->cumulative[c->vocab]);
  if (c->kind == EMBED_CANDIDATES_LOG_UNIFORM) v = exp(u * c->wide) - 1;
  return (int32_t)embed__min((int64_t)v, c->vocab - 1);
}

static embed_status draw_unique(embed_context *ctx, const embed_candidates *c, int64_t position, int64_t n, int32_t *ids, int64_t *tries) {
  enum { PAUSE = 1 << 20 };
  const int64_t most = ((int64_t)1 << 26) + 1024 * c->vocab;
  uint32_t *seen;
  int32_t *found; /* the caller's are written when all are there */
  EMBED__TRY(embed__scratch_get(ctx, embed__ceil_div(c->vocab, 32), sizeof *seen, &seen));
  EMBED__TRY(embed__scratch_get(ctx, n, sizeof *found, &found));
  memset(seen, 0, (size_t)embed__ceil_div(c->vocab, 32) * sizeof *seen);
  draws d = {.c = c, .position = position};
  for (int64_t have = 0; have < n;) {
    if (d.done == most)
      return embed__fail(ctx, EMBED_E_UNSUPPORTED, -1, "%" PRId64 " draws gave %" PRId64 " different candidates, not %" PRId64 ": the others are too rare",
                         d.done, have, n);
    if (d.done % PAUSE == PAUSE - 1) EMBED__TRY(embed__pause(ctx, have, n));
    const int32_t v = next_class(&d);
    const uint32_t bit = (uint32_t)1 << (v & 31);
    if (seen[v >> 5] & bit) continue;
    seen[v >> 5] |= bit;
    found[have++] = v;
  }
  if (n > 0) memcpy(ids, found, (size_t)n * sizeof *ids);
  *tries = d.done;
  return EMBED_OK;
}

static embed_status draw(embed_context *ctx, const embed_candidates *c, int64_t position, int64_t n, int32_t *ids, int64_t *tries) {
  draws d = {.c = c, .position = position};
  int64_t drawn = n;
  if (!c->repeats)
    EMBED__TRY(draw_unique(ctx, c, position, n, ids, &drawn));
  else
    for (int64_t i = 0; i < n; ++i) ids[i] = next_class(&d);
  if (tries) *tries = drawn;
  return EMBED_OK;
}

embed_status embed_candidates_draw(embed_context *ctx, const embed_candidates *c, int64_t position, int64_t n, int32_t *ids, int64_t *tries) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, c);
  if (n < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "n is %" PRId64 " candidates", n);
  if (position < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "position is %" PRId64, position);
  if (n > 0 && !ids) return embed__null(ctx, "ids");
  if (!c->repeats && n > c->possible)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "%" PRId64 " different candidates of %" PRId64 " classes that can be drawn", n, c->possible);
  return embed__end(ctx, draw(ctx, c, position, n, ids, tries));
}

static double share_of(const embed_candidates *c, int32_t v) {
  if (c->kind == EMBED_CANDIDATES_UNIFORM) return 1 / (double)c->vocab;
  if (c->kind == EMBED_CANDIDATES_LOG_UNIFORM) return log1p(1 / ((double)v + 1)) / c->wide;
  return (c->cumulative[v + 1] - c->cumulative[v]) / c->cumulative[c->vocab];
}

embed_status embed_candidates_log_expected(embed_context *ctx, const embed_candidates *c, const int32_t *ids, int64_t n, int64_t tries, float *out) {
  EMBED__BEGIN(ctx);
  EMBED__NOT_NULL(ctx, c);
  if (n < 0) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "n is %" PRId64 " ids", n);
  if (n > 0 && tries < 1) return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "tries is %" PRId64, tries);
  if (n > 0 && !ids) return embed__null(ctx, "ids");
  if (n > 0 && !out) return embed__null(ctx, "out");
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] < 0 || ids[i] >= c->vocab)
      return embed__fail(ctx, EMBED_E_ID, i, "id %d at position %" PRId64 " is outside the vocabulary of %" PRId64 " rows", ids[i], i, c->vocab);
  for (int64_t i = 0; i < n; ++i) {
    const double q = share_of(c, ids[i]);
    out[i] = (float)(c->repeats ? log((double)tries * q) : log(-expm1((double)tries * log1p(-q))));
  }
  return EMBED_OK;
}
