/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of sampling, statistics of a row, and Gumbel-max: the largest z / T plus noise is a draw from softmax(z / T).
 * Gumbel, "Statistical theory of extreme values and some practical applications", 1954. */
#include "head/sampler.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "core/philox.h"
#include "core/scratch.h"
#include "head/sampler_stages.h"
#include "sweep/sweep.h"

/* z / temperature of any float stays finite above it. */
static const double least_temperature = 1e-250;

static bool within(double x, double least, double most) { return x >= least && x <= most; } /* false for NaN */

/* What is wrong with a row's parameters, NULL = nothing. */
static const char *fault(const embed_sample_params *p) {
  const double huge = 1e300;
  if (p->temperature != 0 && !within(p->temperature, least_temperature, huge)) return "temperature is neither 0 nor a number from 1e-250 to 1e300";
  if (!within(p->top_p, 0, 1)) return "top_p is outside [0, 1]";
  if (!within(p->min_p, 0, 1)) return "min_p is outside [0, 1]";
  if (!within(p->typical_p, 0, 1)) return "typical_p is outside [0, 1]";
  if (!within(p->top_n_sigma, 0, huge)) return "top_n_sigma is neither 0 nor a positive number";
  if (!within(p->repetition, 0, huge)) return "repetition is neither 0 nor a positive number";
  if (!within(p->frequency, -huge, huge)) return "frequency is not finite";
  if (!within(p->presence, -huge, huge)) return "presence is not finite";
  if (p->position < 0) return "position is negative";
  if (p->top_k < 0) return "top_k is negative";
  if (p->last_n < 0) return "last_n is negative";
  if (p->min_keep < 0) return "min_keep is negative";
  if (p->order != EMBED_ORDER_HF && p->order != EMBED_ORDER_LLAMACPP) return "order is no embed_sample_order";
  return NULL;
}

static void normalise(const embed_sample_params *p, int64_t vocab, embed__sampler *s) {
  *s = (embed__sampler){.seed = p->seed, .position = p->position, .vocab = vocab, .temperature = p->temperature, .order = p->order};
  s->penalties = (embed__penalties){p->repetition != 0 ? p->repetition : 1, p->frequency, p->presence, p->last_n};
  s->min_keep = embed__max(1, embed__min(p->min_keep, vocab));
  s->top_k = p->top_k == 0 ? vocab : embed__min(embed__max(p->top_k, s->min_keep), vocab);
  s->top_p = p->top_p < 1 ? p->top_p : 0;
  s->typical_p = p->typical_p < 1 ? p->typical_p : 0;
  s->min_p = p->min_p;
  s->top_n_sigma = p->top_n_sigma;
  s->greedy = p->temperature == 0;
  s->plain = !s->greedy;
  for (int stage = 0; stage < EMBED__STAGES; ++stage) s->plain &= !embed__stage_on(s, (embed__stage)stage);
  s->filter_temperature = s->greedy || (!s->plain && s->order == EMBED_ORDER_LLAMACPP) ? 1 : s->temperature;
  if (s->plain) return;
  bool few = s->top_k <= EMBED__CANDIDATES && s->top_k < vocab;
  s->keep = s->greedy ? 1 : few ? s->top_k : embed__min(EMBED__CANDIDATES, vocab);
  s->needs_statistics = !s->greedy && (s->top_n_sigma > 0 || (!few && s->top_p > 0));
}

/* what may be the context's own text, which embed__fail writes over. */
static embed_status fail_at(embed_context *ctx, embed_status status, int64_t row, const char *what) {
  char text[sizeof ctx->error_text];
  const size_t length = strlen(what) < sizeof text ? strlen(what) : sizeof text - 1;
  memcpy(text, what, length);
  text[length] = '\0';
  return embed__fail(ctx, status, row, "params[%" PRId64 "]: %s", row, text);
}

embed_status embed__samplers(embed_context *ctx, const embed_sample_params *params, int64_t params_count, int64_t n, int64_t vocab, const embed__sampler **out,
                             int64_t *stride) {
  if (params_count != 0 && params_count != 1 && params_count != n)
    return embed__fail(ctx, EMBED_E_ARGUMENT, -1, "params_count is %" PRId64 ": 0, 1 or %" PRId64 " are needed", params_count, n);
  if (params_count > 0 && !params) return embed__null(ctx, "params");
  embed__sampler *samplers;
  EMBED__TRY(embed__scratch_get(ctx, embed__max(1, params_count), sizeof *samplers, &samplers));
  uint32_t apart = 0;
  if (params_count > 0) memcpy(&apart, params, sizeof apart);
  for (int64_t i = 0; i < embed__max(1, params_count); ++i) {
    const unsigned char *given = params_count > 0 ? (const unsigned char *)params + i * (int64_t)apart : NULL;
    embed_sample_params p;
    uint32_t size = apart;
    if (given) memcpy(&size, given, sizeof size);
    if (size != apart)
      return embed__fail(ctx, EMBED_E_OPTION, i, "params[%" PRId64 "].size is %u, that of params[0] is %u: they stand that far apart", i, size, apart);
    embed_status status = embed__options(ctx, "embed_sample_params", given, 0, &p, sizeof p);
    if (status != EMBED_OK) return params_count == 1 ? status : fail_at(ctx, status, i, ctx->error_text); /* alone, as all options: at = the byte */
    const char *wrong = fault(&p);
    if (wrong) return fail_at(ctx, EMBED_E_OPTION, i, wrong);
    normalise(&p, vocab, &samplers[i]);
  }
  *out = samplers;
  *stride = params_count > 1;
  return EMBED_OK;
}

/* Mean first: the sum of squares then loses nothing to it. */
static void moments(const float *z, int64_t n, embed__statistics *s) {
  double sum = 0, squares = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (isinf(z[i]) && z[i] < 0) continue;
    sum += (double)z[i];
    ++count;
  }
  if (count == 0) return;
  s->count = (double)count;
  s->mean = sum / s->count;
  for (int64_t i = 0; i < n; ++i)
    if (!(isinf(z[i]) && z[i] < 0)) squares += ((double)z[i] - s->mean) * ((double)z[i] - s->mean);
  s->squares = squares;
}

embed__statistics embed__statistics_of(const embed__kernels *k, const embed__sampler *s, const float *z, int64_t n) {
  const double scale = 1 / s->filter_temperature, max = (double)k->reduce.max(z, n);
  embed__statistics of = {.top = max * scale};
  if (isinf(max)) { /* NaN and +inf have no sum */
    for (int64_t i = 0; i < n; ++i)
      if (isnan(z[i]) || z[i] > 0) of.sum = NAN;
  } else {
    of.sum = k->gumbel.sum_exp(z, n, scale, of.top);
  }
  if (s->top_n_sigma > 0) moments(z, n, &of);
  return of;
}

static double moved(const embed__statistics *s, double top) { return isinf(s->top) && s->top < 0 ? s->sum : s->sum * exp(s->top - top); }

void embed__statistics_merge(void *a, const void *b) {
  embed__statistics *x = a;
  const embed__statistics *y = b;
  const double top = x->top > y->top ? x->top : y->top, count = x->count + y->count, apart = y->mean - x->mean;
  x->sum = moved(x, top) + moved(y, top);
  x->top = top;
  if (y->count == 0) return;
  x->squares = x->count == 0 ? y->squares : x->squares + y->squares + apart * apart * (x->count * (y->count / count));
  x->mean = x->count == 0 ? y->mean : x->mean + apart * (y->count / count);
  x->count = count;
}

double embed__gumbel_noise(uint32_t word) { return -log(-log(embed__uniform(word))); }

uint32_t embed__noise_word(const embed__sampler *s, int32_t id) {
  const uint64_t position = (uint64_t)s->position;
  const uint32_t counter[4] = {(uint32_t)id >> 2, (uint32_t)position, (uint32_t)(position >> 32), EMBED__STREAM_SAMPLE};
  const uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
  uint32_t words[4];
  embed__philox(counter, key, words);
  return words[id & 3];
}

embed__gumbel embed__gumbel_start(void) { return (embed__gumbel){.best = -INFINITY, .column = -1}; }

static void consider(const embed__sampler *s, embed__gumbel *g, float value, uint32_t word, int32_t column) {
  if (isnan(value) || (isinf(value) && value > 0)) g->undefined = true;
  if (!isfinite(value)) return;
  double x = (double)value / s->temperature;
  if (x + EMBED__MOST_NOISE < g->best) return;
  x += embed__gumbel_noise(word);
  if (x < g->best || (x == g->best && column > g->column)) return;
  g->best = x;
  g->column = column;
  g->value = value;
}

/* The filter's line in the numbers of kernels/gumbel.h: what cannot reach best falls below it. The margin is for floats: 2^-20 of
 * numbers of which each is rounded a few times to 2^-24, and 0.01 beside. */
typedef struct line {
  float scale, offset;
} line;
static line line_of(const embed__sampler *s, double best) {
  const double log2e = 1.4426950408889634, b = best * log2e;
  line l = {(float)(0x1p23 * log2e / s->temperature), (float)(0x1p23 * (158.01 - b + 0x1p-20 * (fabs(b) + 40)))};
  if (!isfinite(l.scale) || !isfinite(l.offset)) l = (line){0, INFINITY}; /* nothing is ruled out */
  return l;
}

static void noise_words(const embed__kernels *k, const embed__sampler *s, int64_t n, int32_t first, const int32_t *original, uint32_t *words) {
  if (original)
    k->gumbel.words_of(s->seed, (uint64_t)s->position, original, n, words);
  else
    k->gumbel.words(s->seed, (uint64_t)s->position, (uint32_t)first, n, words);
}

void embed__gumbel_offer(const embed__kernels *k, const embed__sampler *s, embed__gumbel *g, const float *z, int64_t n, int32_t first,
                         const int32_t *original) {
  enum { FEW = 16 };
  uint32_t words[EMBED__BLOCK];
  int32_t index[EMBED__BLOCK];
  noise_words(k, s, n, first, original, words);
  for (int64_t at = 0, piece; at < n; at += piece) { /* the first of a row to a better line each time, as in embed__topk_offer */
    piece = g->column >= 0 && at == 0 ? n : embed__min(n - at, embed__max(FEW, at));
    const line l = line_of(s, g->best);
    int64_t count = k->gumbel.contenders(z + at, words + at, piece, l.scale, l.offset, index);
    for (int64_t i = 0; i < count; ++i) {
      int64_t c = at + index[i];
      consider(s, g, z[c], words[c], first + (int32_t)c);
    }
  }
}

void embed__gumbel_consider(const embed__sampler *s, embed__gumbel *g, float z, int32_t column, int32_t id) {
  consider(s, g, z, embed__noise_word(s, id), column);
}

/* Both roundings of z / temperature + noise keep order: what z is not above, its sum is not above either. */
int64_t embed__gumbel_screen(const embed__kernels *k, const embed__sampler *s, double best, float *upper, int64_t n, int32_t first, const int32_t *original) {
  uint32_t words[EMBED__BLOCK];
  int32_t index[EMBED__BLOCK];
  noise_words(k, s, n, first, original, words);
  const line l = line_of(s, best);
  const int64_t contenders = k->gumbel.contenders(upper, words, n, l.scale, l.offset, index);
  int64_t count = 0;
  for (int64_t i = 0; i < contenders; ++i) {
    const double sum = (double)upper[index[i]] / s->temperature + embed__gumbel_noise(words[index[i]]);
    if (!(sum < best)) index[count++] = index[i];
  }
  for (int64_t c = 0; c < n; ++c) upper[c] = -INFINITY;
  for (int64_t i = 0; i < count; ++i) upper[index[i]] = INFINITY;
  return count;
}

void embed__gumbel_merge(embed__gumbel *g, const embed__gumbel *other) {
  g->undefined |= other->undefined;
  if (other->column < 0 || other->best < g->best || (other->best == g->best && g->column >= 0 && other->column > g->column)) return;
  g->best = other->best;
  g->column = other->column;
  g->value = other->value;
}

embed__outcome embed__sampler_take(const embed__sampler *s, const embed__gumbel *g, const embed__statistics *whole, embed__drawn *out) {
  if (g->undefined) return EMBED__UNDEFINED;
  if (g->column < 0) return EMBED__NOTHING;
  *out = (embed__drawn){.column = g->column, .value = g->value, .top = whole ? whole->top : (double)NAN, .survivors = s->vocab};
  out->log_weights = whole ? log(whole->sum) : (double)NAN;
  out->logprob = embed__drawn_logprob(out, (double)g->value / s->temperature);
  return EMBED__DRAWN;
}
