/* SPDX-License-Identifier: BSD-3-Clause */
/* First tier: filters on the best candidates of a row, sorted. What they do not prove is left to the second tier; what they prove is
 * what that would find.
 *   top-p, min-p  Holtzman et al., 2020; Nguyen et al., 2024        typical  Meister et al., 2023
 *   top-n-sigma   Tang et al., 2024                                 orders   transformers' logits processors, llama.cpp's default chain */
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "head/sampler_stages.h"
#include "kernels/gumbel.h"

embed__stage embed__stage_at(const embed__sampler *s, int place) {
  static const embed__stage hf[] = {EMBED__TOP_N_SIGMA, EMBED__TOP_K, EMBED__TOP_P, EMBED__MIN_P, EMBED__TYPICAL};
  static const embed__stage llamacpp[] = {EMBED__TOP_N_SIGMA, EMBED__TOP_K, EMBED__TYPICAL, EMBED__TOP_P, EMBED__MIN_P};
  return s->order == EMBED_ORDER_HF ? hf[place] : llamacpp[place];
}

bool embed__stage_on(const embed__sampler *s, embed__stage stage) {
  switch (stage) {
    case EMBED__TOP_N_SIGMA: return s->top_n_sigma > 0;
    case EMBED__TOP_K: return s->top_k < s->vocab;
    case EMBED__TOP_P: return s->top_p > 0;
    case EMBED__MIN_P: return s->min_p > 0;
    default: return s->typical_p > 0;
  }
}

static bool before(const embed__ordered *a, const embed__ordered *b) {
  return a->primary < b->primary || (a->primary == b->primary && a->secondary < b->secondary);
}

static void sift_down(embed__ordered *items, int64_t count, int64_t at) {
  embed__ordered moving = items[at];
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count) child += before(&items[child], &items[child + 1]); /* no branch, which nobody could foretell */
    if (!before(&moving, &items[child])) break;
    items[at] = items[child];
  }
  items[at] = moving;
}

void embed__sort_ordered(embed__ordered *items, int64_t count) {
  for (int64_t at = count / 2 - 1; at >= 0; --at) sift_down(items, count, at);
  for (int64_t end = count - 1; end > 0; --end) {
    embed__ordered last = items[0];
    items[0] = items[end];
    items[end] = last;
    sift_down(items, end, 0);
  }
}

uint64_t embed__untypical(double log_weight, double log_total, double entropy) {
  double distance = fabs(log_total - log_weight - entropy) + 0.0;
  uint64_t bits; /* of a number that is not negative: in its order */
  memcpy(&bits, &distance, sizeof bits);
  return bits;
}

static double sum(const embed__list *list) {
  double total = 0;
  for (int64_t i = 0; i < list->count; ++i) total += list->items[i].weight;
  return total;
}

/* More follow and nobody knows how much they weigh. */
static void lose_total(embed__list *list) {
  if (!list->complete) list->total = 0;
}

/* At least min_keep stay. Where the cut lies within the list nothing follows it. */
static void cut(const embed__sampler *s, embed__list *list, int64_t keep) {
  keep = embed__max(keep, embed__min(s->min_keep, list->count));
  if (keep == list->count) return;
  list->count = keep;
  list->complete = true;
}

static bool top_n_sigma(const embed__sampler *s, embed__list *list) {
  const embed__weighed *e = list->items;
  double floor_of_z, slack = 0;
  if (list->complete) {
    double mean = 0, squares = 0, count = (double)list->count;
    for (int64_t i = 0; i < list->count; ++i) mean += (double)e[i].value;
    mean /= count;
    for (int64_t i = 0; i < list->count; ++i) squares += ((double)e[i].value - mean) * ((double)e[i].value - mean);
    floor_of_z = embed__sigma_floor(s, (double)e[0].value, count, squares);
  } else {
    if (!list->whole || !(list->whole->count > 0)) return false;
    floor_of_z = embed__sigma_floor(s, (double)e[0].value, list->whole->count, list->whole->squares);
    slack = 1e-9 * (fabs((double)e[0].value) + fabs(floor_of_z));
  }
  int64_t keep = 0;
  while (keep < list->count && (double)e[keep].value >= floor_of_z + slack) ++keep;
  if (keep < list->count && slack > 0 && (double)e[keep].value >= floor_of_z - slack) return false;
  cut(s, list, keep);
  lose_total(list);
  return true;
}

static bool top_k(const embed__sampler *s, embed__list *list) {
  if (s->top_k < list->count) list->count = s->top_k;
  if (s->top_k <= list->count) list->complete = true;
  lose_total(list);
  return true;
}

/* The shortest prefix whose sum, in double, in this order, is p of the total. */
static bool top_p(const embed__sampler *s, embed__list *list) {
  const double total = list->complete ? sum(list) : list->total, slack = list->complete ? 0 : list->slack;
  if (!(total > 0)) return list->complete;
  const double surely_less = s->top_p * total * (1 - slack), surely_enough = s->top_p * total * (1 + slack);
  double reached = 0;
  int64_t keep = 0;
  while (keep < list->count && (reached < surely_less || keep < s->min_keep)) reached += list->items[keep++].weight;
  if (!list->complete && (reached < surely_enough || keep < s->min_keep)) return false;
  list->count = keep;
  list->complete = true;
  return true;
}

static bool min_p(const embed__sampler *s, embed__list *list) {
  const embed__weighed *e = list->items;
  const double least = s->order == EMBED_ORDER_HF ? s->min_p * e[0].weight : (double)e[0].value + log(s->min_p);
  int64_t keep = 0;
  while (keep < list->count && (s->order == EMBED_ORDER_HF ? e[keep].weight : (double)e[keep].value) >= least) ++keep;
  cut(s, list, keep);
  lose_total(list);
  return true;
}

/* The shortest prefix in the order of typicality (equal ones: the better first) whose sum is p of the total. No other filter drops the
 * row's best: it is the first here. */
static bool typical(const embed__sampler *s, embed__list *list) {
  embed__ordered order[EMBED__CANDIDATES];
  bool kept[EMBED__CANDIDATES] = {false};
  embed__weighed *e = list->items;
  if (!list->complete) return false;
  const double total = sum(list), log_total = log(total), largest = (double)e[0].value;
  double entropy = 0, reached = 0;
  for (int64_t i = 0; i < list->count; ++i)
    if (e[i].weight > 0) entropy += e[i].weight / total * (log_total - embed__log_weight(s, (double)e[i].value, largest));
  for (int64_t i = 0; i < list->count; ++i)
    order[i] = (embed__ordered){embed__untypical(embed__log_weight(s, (double)e[i].value, largest), log_total, entropy), (uint64_t)i, (int32_t)i};
  embed__sort_ordered(order, list->count);
  int64_t keep = 0, left = 0;
  while (keep < list->count && (reached < s->typical_p * total || keep < s->min_keep)) {
    reached += e[order[keep].at].weight;
    kept[order[keep++].at] = true;
  }
  for (int64_t i = 0; i < list->count; ++i)
    if (kept[i]) e[left++] = e[i];
  list->count = left;
  return true;
}

bool embed__list_filter(const embed__sampler *s, embed__list *list, int place) {
  static bool (*const filters[EMBED__STAGES])(const embed__sampler *, embed__list *) = {top_n_sigma, top_k, top_p, min_p, typical};
  for (; place < EMBED__STAGES; ++place) {
    embed__stage stage = embed__stage_at(s, place);
    if (embed__stage_on(s, stage) && !filters[stage](s, list)) return false;
  }
  return list->complete;
}

void embed__list_draw(const embed__sampler *s, const embed__list *list, const int32_t *original, embed__drawn *out) {
  const embed__weighed *e = list->items, *drawn = e;
  const double largest = (double)e[0].value / s->temperature;
  double best = -INFINITY, total = 0;
  for (int64_t i = 0; i < list->count; ++i) {
    const double x = (double)e[i].value / s->temperature;
    if (x + EMBED__MOST_NOISE < best) break; /* those that follow are no larger */
    const double with_noise = x + embed__gumbel_noise(embed__noise_word(s, original ? original[e[i].column] : e[i].column));
    if (with_noise < best || (with_noise == best && e[i].column > drawn->column)) continue;
    best = with_noise;
    drawn = &e[i];
  }
  for (int64_t i = 0; i < list->count; ++i) total += exp((double)e[i].value / s->temperature - largest);
  *out = (embed__drawn){.column = drawn->column, .value = drawn->value, .top = largest, .log_weights = log(total), .survivors = list->count};
  out->logprob = embed__drawn_logprob(out, (double)drawn->value / s->temperature);
}

static embed__outcome best_one(const embed__ranked *candidates, const embed__statistics *whole, embed__drawn *out) {
  *out = (embed__drawn){.column = candidates[0].id, .value = candidates[0].value, .survivors = 1};
  out->top = whole ? whole->top : (double)NAN;
  out->log_weights = whole ? log(whole->sum) : (double)NAN;
  out->logprob = embed__drawn_logprob(out, (double)out->value);
  return EMBED__DRAWN;
}

embed__outcome embed__sampler_draw(const embed__sampler *s, embed__ranked *candidates, int64_t count, const embed__statistics *whole, const int32_t *original,
                                   embed__drawn *out) {
  embed__weighed items[EMBED__CANDIDATES];
  if (count == 0 || (isinf(candidates[0].value) && candidates[0].value < 0)) return EMBED__NOTHING;
  if (s->greedy) return best_one(candidates, whole, out);
  if (!isfinite(candidates[0].value)) return EMBED__UNDEFINED;
  embed__list list = {.items = items, .count = count, .complete = count == s->vocab, .whole = whole};
  while (isinf(candidates[list.count - 1].value)) {
    --list.count;
    list.complete = true;
  }
  const double largest = (double)candidates[0].value;
  for (int64_t i = 0; i < list.count; ++i)
    items[i] = (embed__weighed){candidates[i].value, candidates[i].id, exp(embed__log_weight(s, (double)candidates[i].value, largest))};
  if (!list.complete && whole) {
    list.total = whole->sum;
    list.slack = 1e-11 + 1e-14 * fabs(whole->top);
  }
  if (!embed__list_filter(s, &list, 0)) return EMBED__WANTS_ALL;
  embed__list_draw(s, &list, original, out);
  for (int64_t i = 0; i < list.count; ++i) {
    const int32_t column = items[i].column;
    candidates[i] = (embed__ranked){embed__rank(items[i].value, original ? original[column] : column), items[i].value, column};
  }
  return EMBED__DRAWN;
}
