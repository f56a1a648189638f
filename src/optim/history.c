/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/history.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"

enum { MOST_TERMS = 4096 };

/* A term is at most (beta1 / sqrt(beta2))^k of the first: so many until they are below 1e-10. 0: they do not fall, or too slowly. */
static int64_t terms_of(const embed_optimizer_options *o) {
  const double beta1 = (double)(float)o->beta1, beta2 = (double)(float)o->beta2;
  if (o->flags & EMBED_OPTIM_REPLAY) return 0;
  if (beta1 == 0) return 1;
  if (beta2 == 0) return 0;
  const double ratio = beta1 / sqrt(beta2);
  if (!(ratio < 1)) return 0;
  const double terms = ceil(log(1e-10 * (1 - ratio)) / log(ratio));
  return terms <= MOST_TERMS ? (int64_t)terms : 0;
}

embed_status embed__history_new(embed_context *ctx, embed_optimizer *o) {
  embed__history *h = embed__new(&o->memory, sizeof *h);
  if (!h) return embed__out_of_memory(ctx, sizeof *h);
  o->history = h;
  const int64_t terms = terms_of(&o->o);
  if (terms == 0) return EMBED_OK;
  const size_t bytes = (size_t)(terms + 1) * sizeof *h->recent;
  h->recent = embed__allocate(&o->memory, bytes, EMBED__ALIGNMENT);
  if (!h->recent) return embed__out_of_memory(ctx, (int64_t)bytes);
  memset(h->recent, 0, bytes);
  h->terms = terms;
  return EMBED_OK;
}

void embed__history_free(embed__history *h, const embed_allocator *memory) {
  if (!h) return;
  embed__free(memory, h->past, (size_t)h->room * sizeof *h->past, EMBED__ALIGNMENT);
  embed__free(memory, h->recent, (size_t)(h->terms + 1) * sizeof *h->recent, EMBED__ALIGNMENT);
  embed__free(memory, h, sizeof *h, EMBED__ALIGNMENT);
}

embed_status embed__history_reserve(embed_context *ctx, embed_optimizer *o) {
  embed__history *h = o->history;
  if (h->count < h->room) return EMBED_OK;
  int64_t room = embed__max(64, h->room), bytes;
  if (h->room && !embed__mul(2, h->room, &room)) return embed__out_of_memory(ctx, -1);
  if (!embed__mul(room, sizeof *h->past, &bytes) || (uint64_t)bytes > SIZE_MAX) return embed__out_of_memory(ctx, -1);
  embed__past *past = embed__allocate(&o->memory, (size_t)bytes, EMBED__ALIGNMENT);
  if (!past) return embed__out_of_memory(ctx, bytes);
  if (h->count) memcpy(past, h->past, (size_t)h->count * sizeof *past);
  embed__free(&o->memory, h->past, (size_t)h->room * sizeof *past, EMBED__ALIGNMENT);
  h->past = past;
  h->room = room;
  return EMBED_OK;
}

/* recent[k] from recent[k - 1]: a row one step further back has every term once more decayed, and one more. */
void embed__history_sum(embed_optimizer *o, int64_t step) {
  embed__history *h = o->history;
  if (h->terms == 0) return;
  const int64_t behind = step - h->base, most = embed__min(h->terms, behind);
  const double beta1 = (double)(float)o->o.beta1, beta2 = (double)(float)o->o.beta2;
  double ratio[EMBED__SUMS], keep = 1; /* of the steps after the one that is added */
  for (int j = 0; j < EMBED__SUMS; ++j) {
    ratio[j] = beta1 == 0 ? 0 : beta1 * pow(beta2, -0.5 * (1 + j));
    h->recent[0][j] = 0;
  }
  for (int64_t k = 1; k <= most; ++k) {
    const embed__past *p = &h->past[behind - k];
    double term = keep * p->at;
    for (int j = 0; j < EMBED__SUMS; ++j) {
      term *= p->root;
      h->recent[k][j] = ratio[j] * (term + h->recent[k - 1][j]);
    }
    keep *= p->keep;
  }
  if (most == h->terms) memcpy(h->past[behind - most].full, h->recent[most], sizeof h->recent[most]);
}

void embed__history_append(embed_optimizer *o, double lr) {
  embed__history *h = o->history;
  const double t = (double)o->step;
  embed__past *p = &h->past[h->count];
  p->lr = lr;
  p->keep = 1 - (double)(float)(lr * o->o.weight_decay);
  p->log_keep = log(p->keep) + (h->count ? p[-1].log_keep : 0);
  p->at = lr / (1 - pow(o->o.beta1, t));
  p->root = sqrt(1 - pow(o->o.beta2, t));
  ++h->count;
  embed__history_sum(o, o->step);
}

void embed__history_forget(embed_optimizer *o) {
  o->history->base = o->step;
  o->history->count = 0;
}

/* --- A row catches up */

/* log of the product of keep over steps from + 1 .. to */
static double log_kept(const embed__history *h, int64_t from, int64_t to) {
  if (to == h->base) return 0;
  return h->past[to - h->base - 1].log_keep - (from == h->base ? 0 : h->past[from - h->base - 1].log_keep);
}

/* Places and weights of the two-point quadrature of sum_t a y / (r + epsilon y), from its sums a y^1 .. a y^4. Its error, of the
 * whole sum, at the worst r (measured over betas, steps and gaps, CATCH_UP.md): 2e-7 where the variance of y is below 1e-3 of its
 * squared mean. Beyond it grows, but only for r near epsilon y: rows with a smaller r than *least go step by step. */
static void quadrature(const double sum[EMBED__SUMS], double epsilon, embed__opt_drift *d, float *least) {
  *least = 0;
  if (!(sum[0] > 0)) return;
  const double mean = sum[1] / sum[0], second = sum[2] / sum[0], third = sum[3] / sum[0];
  const double variance = second - mean * mean, skew = (third - 3 * mean * second + 2 * mean * mean * mean) / 2;
  if (!(variance > 1e-12 * mean * mean) || epsilon == 0) {
    d->weight[0] = (float)sum[0];
    d->add[0] = (float)(epsilon * mean);
    return;
  }
  const double s = skew / variance, root = sqrt(s * s + variance), low = s - root, high = s + root;
  d->weight[0] = (float)(sum[0] * high / (high - low));
  d->weight[1] = (float)(-sum[0] * low / (high - low));
  d->add[0] = (float)(epsilon * (mean + low));
  d->add[1] = (float)(epsilon * (mean + high));
  if (variance <= 1e-3 * mean * mean) return;
  const double r = (variance <= 0.1 * mean * mean ? 32 : 1024) * epsilon * mean;
  *least = (float)(r * r);
}

static void drift_of(const embed_optimizer *o, int64_t from, embed__opt_drift *d, float *least) {
  const embed__history *h = o->history;
  const int64_t gap = o->step - from;
  double sum[EMBED__SUMS], later = 1;
  const double *sums = h->recent[embed__min(gap, h->terms)];
  if (gap > h->terms) {
    sums = h->past[from - h->base].full;
    later = exp(log_kept(h, from + h->terms, o->step));
  }
  for (int j = 0; j < EMBED__SUMS; ++j) sum[j] = later * sums[j];
  memset(d, 0, sizeof *d);
  d->lose = (float)-expm1(log_kept(h, from, o->step));
  d->beta1 = (float)pow((double)(float)o->o.beta1, (double)gap);
  d->beta2 = (float)pow((double)(float)o->o.beta2, (double)gap);
  quadrature(sum, o->o.epsilon, d, least);
}

/* Steps from + 1 .. to of a row without gradient, as the dense run takes them. */
static void replay(const embed__updating *u, int32_t worker, embed__trained_row *r, int64_t from, int64_t to, bool rounded) {
  const embed_optimizer *o = u->o;
  for (int64_t t = from + 1; t <= to; ++t) {
    embed__opt_numbers n = {0};
    o->form->numbers(&o->o, o->history->past[t - o->history->base - 1].lr, t, &n);
    embed__row_step(u, r, embed__gradient_room(u, worker), NULL, 1, &n);
    if (rounded && !(u->in_place && u->state_in_place)) {
      embed__row_close(u, r, t);
      embed__row_open(u, worker, r->row, r);
    }
  }
}

/* The same in a row of zeros, which is added at the end: what it adds is small, so many steps round the weights once. */
static void replay_apart(const embed__updating *u, int32_t worker, embed__trained_row *r, int64_t from, int64_t to) {
  embed__trained_row apart = *r;
  apart.w = r->work;
  memset(apart.w, 0, (size_t)r->dim * sizeof *apart.w);
  replay(u, worker, &apart, from, to, false);
  u->kernels->opt.shrink(r->w, r->dim, (float)-expm1(log_kept(u->o->history, from, to)));
  u->kernels->row.add(r->w, apart.w, r->dim);
}

void embed__catch_up(const embed__updating *u, int32_t worker, embed__trained_row *r, int64_t stamp) {
  const embed_optimizer *o = u->o;
  const embed__history *h = o->history;
  const int64_t from = embed__stamp_step(stamp);
  if (from >= o->step || (embed__is_new(stamp) && o->o.weight_decay == 0)) return; /* above: of a step that an executor broke off */
  if (h->terms == 0) {
    replay(u, worker, r, from, o->step, true);
    return;
  }
  embed__opt_drift d;
  float least;
  if (embed__is_new(stamp)) {
    u->kernels->opt.shrink(r->w, r->dim, (float)-expm1(log_kept(h, from, o->step)));
    return;
  }
  drift_of(o, from, &d, &least);
  if (least > 0 && u->kernels->opt.least_active(r->slot[0], r->slot[1], r->dim) < least) {
    const int64_t to = embed__min(o->step, from + h->terms);
    replay_apart(u, worker, r, from, to);
    if (to == o->step) return;
    memset(&d, 0, sizeof d); /* what is left moves nothing */
    d.lose = (float)-expm1(log_kept(h, to, o->step));
    d.beta2 = (float)pow((double)(float)o->o.beta2, (double)(o->step - to));
  }
  u->kernels->opt.drift(r->w, r->slot[0], r->slot[1], r->dim, &d);
}
