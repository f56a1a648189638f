/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two tiers of sampling share: the filters in their order, a list short enough to be sorted, noise. */
#ifndef EMBED__SAMPLER_STAGES_H
#define EMBED__SAMPLER_STAGES_H

#include "head/sampler.h"

typedef enum embed__stage { EMBED__TOP_N_SIGMA, EMBED__TOP_K, EMBED__TOP_P, EMBED__MIN_P, EMBED__TYPICAL, EMBED__STAGES } embed__stage;
embed__stage embed__stage_at(const embed__sampler *s, int place); /* place < EMBED__STAGES */
bool embed__stage_on(const embed__sampler *s, embed__stage stage);

/* The best of a row, value descending, equal values by lower column. */
typedef struct embed__list {
  embed__weighed *items;
  int64_t count;                  /* at most EMBED__CANDIDATES */
  bool complete;                  /* these are all that survive so far; else more follow, all of them below the last */
  double total, slack;            /* not complete: the row's weights, and how far that may be off, relatively; 0: not known */
  const embed__statistics *whole; /* not complete: of the row, or NULL */
} embed__list;
/* Filters from a place on. False: EMBED__WANTS_ALL. */
bool embed__list_filter(const embed__sampler *s, embed__list *list, int place);
void embed__list_draw(const embed__sampler *s, const embed__list *list, const int32_t *original, embed__drawn *out);

/* -log(-log u), u from the word. */
double embed__gumbel_noise(uint32_t word);
/* The noise's word for an id. */
uint32_t embed__noise_word(const embed__sampler *s, int32_t id);
/* What is below this is cut by top-n-sigma. */
static inline double embed__sigma_floor(const embed__sampler *s, double max, double count, double squares) {
  return max - s->top_n_sigma * __builtin_sqrt(squares / count);
}

/* Items of a filter's order: smaller first, by primary, then secondary; at: where it stands. */
typedef struct embed__ordered {
  uint64_t primary, secondary;
  int32_t at;
} embed__ordered;
void embed__sort_ordered(embed__ordered *items, int64_t count);
/* Typicality: how far an item's surprise is from the mean surprise; log_total of all weights. As a number that sorts alike. */
uint64_t embed__untypical(double log_weight, double log_total, double entropy);
/* log of an item's weight, without the rounding of the weight. */
static inline double embed__log_weight(const embed__sampler *s, double value, double largest) {
  return value / s->filter_temperature - largest / s->filter_temperature;
}

#endif
