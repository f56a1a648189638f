/* SPDX-License-Identifier: BSD-3-Clause */
/* Second tier: filters on a whole row. What survives is found by refining a threshold: weights are summed into buckets by the leading
 * bits of the filter's order, the bucket in which the sum is reached is split by the next bits, until it is short enough to be
 * sorted. No filter sorts the vocabulary. As soon as what survives fits into a list, the first tier's filters go on. */
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "head/sampler_stages.h"
#include "sweep/sweep.h"

enum { DIGIT = 11, DIGITS = 1 << DIGIT, FEW = 512 };

typedef struct wide_row {
  const embed__sampler *s;
  embed__weighed *items;
  int64_t count;
  float largest;           /* of the row */
  const int32_t *original; /* equal values go by their ids */
  /* of the filter that runs */
  bool by_typicality;
  double log_total, entropy;
} wide_row;

static uint64_t rank(const wide_row *w, const embed__weighed *e) { return embed__rank(e->value, w->original ? w->original[e->column] : e->column); }

/* The place of an item in the filter's order, 128 bits: part 0, then part 1. */
static uint64_t place(const wide_row *w, const embed__weighed *e, int part) {
  if (w->by_typicality && part == 0) return embed__untypical(embed__log_weight(w->s, (double)e->value, (double)w->largest), w->log_total, w->entropy);
  return ~rank(w, e);
}

/* The items [low, high) of a row, whose places begin alike; the next `digit` bits of part `part`, above `shift`, tell them apart. What
 * lies before low comes before them and is kept. */
typedef struct bucket {
  int64_t low, high;
  double reached; /* weight of what is kept */
  int part, shift, digit;
} bucket;

static uint64_t digit_of(const wide_row *w, const bucket *b, int64_t i) {
  return place(w, &w->items[i], b->part) >> b->shift & (((uint64_t)1 << b->digit) - 1);
}

/* The digit with which mass and count are reached; where they are not (roundings: the parts' sum may be short of the whole's), the
 * last that there is. What comes before it adds to reached. */
static uint64_t choose_digit(const wide_row *w, bucket *b, double mass, int64_t least) {
  double weight[DIGITS] = {0}, sum = b->reached;
  int32_t count[DIGITS] = {0};
  int64_t seen = b->low;
  uint64_t chosen = 0;
  for (int64_t i = b->low; i < b->high; ++i) {
    const uint64_t digit = digit_of(w, b, i);
    weight[digit] += w->items[i].weight;
    ++count[digit];
  }
  for (uint64_t digit = 0; digit >> b->digit == 0; ++digit) {
    if (count[digit] == 0) continue;
    chosen = digit;
    b->reached = sum;
    sum += weight[digit];
    seen += count[digit];
    if (sum >= mass && seen >= least) break;
  }
  return chosen;
}

static void swap(embed__weighed *a, embed__weighed *b) {
  embed__weighed was = *a;
  *a = *b;
  *b = was;
}

/* Smaller digits to the front, larger ones to the back: what is between them is the new bucket. */
static void split(const wide_row *w, bucket *b, uint64_t chosen) {
  for (int64_t i = b->low; i < b->high;) {
    const uint64_t digit = digit_of(w, b, i);
    if (digit < chosen)
      swap(&w->items[i++], &w->items[b->low++]);
    else if (digit > chosen)
      swap(&w->items[i], &w->items[--b->high]);
    else
      ++i;
  }
}

/* How many of a bucket of at most FEW items are kept, which then stand first. */
static int64_t keep_of_few(const wide_row *w, const bucket *b, double mass, int64_t least) {
  embed__ordered order[FEW];
  embed__weighed sorted[FEW];
  embed__weighed *items = w->items + b->low;
  const int64_t count = b->high - b->low;
  double reached = b->reached;
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) order[i] = (embed__ordered){place(w, &items[i], 0), place(w, &items[i], 1), (int32_t)i};
  embed__sort_ordered(order, count);
  for (int64_t i = 0; i < count; ++i) sorted[i] = items[order[i].at];
  memcpy(items, sorted, (size_t)count * sizeof *sorted);
  while (kept < count && (reached < mass || b->low + kept < least)) reached += items[kept++].weight;
  return kept;
}

/* Keeps the shortest prefix in the filter's order that weighs `mass` and has `least` items. */
static void keep_prefix(wide_row *w, double mass, int64_t least) {
  bucket b = {.high = w->count, .shift = 64};
  while (b.high - b.low > FEW) {
    if (b.shift == 0) {
      ++b.part;
      b.shift = 64;
    }
    b.digit = (int)embed__min(DIGIT, b.shift);
    b.shift -= b.digit;
    split(w, &b, choose_digit(w, &b, mass, least));
  }
  w->count = b.low + keep_of_few(w, &b, mass, least);
}

static double total_of(const wide_row *w) {
  double total = 0;
  for (int64_t i = 0; i < w->count; ++i) total += w->items[i].weight;
  return total;
}

/* Keeps values from a least one on, min_keep of them at least. */
static void keep_values(wide_row *w, double least) {
  int64_t kept = 0;
  for (int64_t i = 0; i < w->count; ++i) kept += (double)w->items[i].value >= least;
  if (kept < w->s->min_keep) {
    keep_prefix(w, -1, embed__min(w->s->min_keep, w->count));
    return;
  }
  kept = 0;
  for (int64_t i = 0; i < w->count; ++i)
    if ((double)w->items[i].value >= least) w->items[kept++] = w->items[i];
  w->count = kept;
}

static float largest_value(const wide_row *w) {
  float largest = -INFINITY;
  for (int64_t i = 0; i < w->count; ++i)
    if (w->items[i].value > largest) largest = w->items[i].value;
  return largest;
}

static void top_n_sigma(wide_row *w) {
  double mean = 0, squares = 0, count = (double)w->count;
  for (int64_t i = 0; i < w->count; ++i) mean += (double)w->items[i].value;
  mean /= count;
  for (int64_t i = 0; i < w->count; ++i) squares += ((double)w->items[i].value - mean) * ((double)w->items[i].value - mean);
  keep_values(w, embed__sigma_floor(w->s, (double)w->largest, count, squares));
}

static void min_p(wide_row *w) {
  const embed__sampler *s = w->s;
  const float largest = largest_value(w);
  if (s->order == EMBED_ORDER_LLAMACPP) {
    keep_values(w, (double)largest + log(s->min_p));
    return;
  }
  /* weights fall with values: the least value whose weight is enough is the line */
  const double enough = s->min_p * exp(embed__log_weight(s, (double)largest, (double)w->largest));
  double least = (double)largest;
  for (int64_t i = 0; i < w->count; ++i)
    if (w->items[i].weight >= enough && (double)w->items[i].value < least) least = (double)w->items[i].value;
  keep_values(w, least);
}

static void typical(wide_row *w) {
  const double total = total_of(w);
  w->log_total = log(total);
  w->entropy = 0;
  for (int64_t i = 0; i < w->count; ++i) {
    const embed__weighed *e = &w->items[i];
    if (e->weight > 0) w->entropy += e->weight / total * (w->log_total - embed__log_weight(w->s, (double)e->value, (double)w->largest));
  }
  w->by_typicality = true;
  keep_prefix(w, w->s->typical_p * total, w->s->min_keep);
  w->by_typicality = false;
}

static void filter(wide_row *w, embed__stage stage) {
  switch (stage) {
    case EMBED__TOP_N_SIGMA: top_n_sigma(w); break;
    case EMBED__TOP_K:
      if (w->s->top_k < w->count) keep_prefix(w, -1, w->s->top_k);
      break;
    case EMBED__TOP_P: keep_prefix(w, w->s->top_p * total_of(w), w->s->min_keep); break;
    case EMBED__MIN_P: min_p(w); break;
    default: typical(w); break;
  }
}

/* Few enough: sorted, for the first tier's filters from a place on. */
static embed__list list_of(wide_row *w) {
  embed__ordered order[EMBED__CANDIDATES];
  embed__weighed sorted[EMBED__CANDIDATES];
  for (int64_t i = 0; i < w->count; ++i) order[i] = (embed__ordered){~rank(w, &w->items[i]), 0, (int32_t)i};
  embed__sort_ordered(order, w->count);
  for (int64_t i = 0; i < w->count; ++i) sorted[i] = w->items[order[i].at];
  memcpy(w->items, sorted, (size_t)w->count * sizeof *sorted);
  return (embed__list){.items = w->items, .count = w->count, .complete = true};
}

/* What survives all filters; false: it is too long for a list. */
static bool survive(wide_row *w, embed__list *list) {
  int at = 0;
  for (; at < EMBED__STAGES && w->count > EMBED__CANDIDATES; ++at)
    if (embed__stage_on(w->s, embed__stage_at(w->s, at))) filter(w, embed__stage_at(w->s, at));
  if (w->count > EMBED__CANDIDATES) return false;
  *list = list_of(w);
  return embed__list_filter(w->s, list, at);
}

/* All blocks of a row, as the sweep takes them. */
static embed__gumbel gumbel_of(const embed__kernels *k, const embed__sampler *s, const float *z, const int32_t *original) {
  embed__gumbel g = embed__gumbel_start();
  for (int64_t at = 0; at < s->vocab; at += EMBED__BLOCK)
    embed__gumbel_offer(k, s, &g, z + at, embed__min(EMBED__BLOCK, s->vocab - at), (int32_t)at, original ? original + at : NULL);
  return g;
}

static embed__outcome draw_unfiltered(const embed__kernels *k, const embed__sampler *s, const float *z, float largest, const int32_t *original,
                                      embed__drawn *out) {
  embed__statistics whole = {.top = -INFINITY};
  embed__ranked best = {0, -INFINITY, -1};
  for (int64_t at = 0; at < s->vocab; at += EMBED__BLOCK) {
    const embed__statistics block = embed__statistics_of(k, s, z + at, embed__min(EMBED__BLOCK, s->vocab - at));
    embed__statistics_merge(&whole, &block);
  }
  if (isfinite(largest)) whole.top = (double)largest / s->filter_temperature; /* as probabilities divide: a product may differ by more than they do */
  if (s->plain) {
    const embed__gumbel g = gumbel_of(k, s, z, original);
    return embed__sampler_take(s, &g, &whole, out);
  }
  for (int64_t i = 0; i < s->vocab; ++i) {
    const uint64_t key = embed__rank(z[i], original ? original[i] : (int32_t)i);
    if (key > best.key) best = (embed__ranked){key, z[i], (int32_t)i};
  }
  return embed__sampler_draw(s, &best, best.id >= 0, &whole, original, out);
}

/* Survivors of a long row: their noise as in the sweep. */
static void draw_wide(const embed__kernels *k, const wide_row *w, const float *z, const int32_t *original, embed__drawn *out) {
  const embed__gumbel g = gumbel_of(k, w->s, z, original);
  const double largest = (double)largest_value(w) / w->s->temperature;
  double total = 0;
  for (int64_t i = 0; i < w->count; ++i) total += exp((double)w->items[i].value / w->s->temperature - largest);
  *out = (embed__drawn){.column = g.column, .value = g.value, .top = largest, .log_weights = log(total), .survivors = w->count};
  out->logprob = embed__drawn_logprob(out, (double)g.value / w->s->temperature);
}

embed__outcome embed__sampler_draw_all(const embed__kernels *k, const embed__sampler *s, float *z, const int32_t *original, embed__weighed *room,
                                       embed__drawn *out) {
  wide_row w = {.s = s, .items = room, .largest = k->reduce.max(z, s->vocab), .original = original};
  embed__list list;
  if (s->greedy || s->plain) return draw_unfiltered(k, s, z, w.largest, original, out);
  for (int64_t i = 0; i < s->vocab; ++i) {
    if (isnan(z[i]) || (isinf(z[i]) && z[i] > 0)) return EMBED__UNDEFINED;
    if (isinf(z[i])) continue;
    room[w.count++] = (embed__weighed){z[i], (int32_t)i, exp(embed__log_weight(s, (double)z[i], (double)w.largest))};
  }
  if (w.count == 0) return EMBED__NOTHING;
  const bool few = survive(&w, &list);
  if (few) w.count = list.count;
  for (int64_t i = 0; i < s->vocab; ++i) z[i] = -INFINITY;
  for (int64_t i = 0; i < w.count; ++i) z[room[i].column] = room[i].value;
  if (few)
    embed__list_draw(s, &list, original, out);
  else
    draw_wide(k, &w, z, original, out);
  return EMBED__DRAWN;
}
