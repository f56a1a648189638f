/* SPDX-License-Identifier: BSD-3-Clause */
/* The two divergences of a class. */
#include <math.h>

#include "loss/distill.h"

/* e^-x - 1. Near 0 by its series, right to 1e-10; elsewhere from the probabilities themselves. */
static inline double fall(double x, double larger, double smaller) {
  if (!(x < 0.25)) return smaller / larger - 1;
  double sum = 1.0 / 40320;
  sum = sum * -x + 1.0 / 5040;
  sum = sum * -x + 1.0 / 720;
  sum = sum * -x + 1.0 / 120;
  sum = sum * -x + 1.0 / 24;
  sum = sum * -x + 1.0 / 6;
  sum = sum * -x + 1.0 / 2;
  sum = sum * -x + 1;
  return sum * -x;
}

embed__class_loss embed__class_divergence(const embed__distill *o, double p, double q, double apart, double pull) {
  const bool above = apart > 0;
  const double larger = above ? p : q;
  if (larger == 0) /* for exp; beside a student's 0 p is above it all the same */
    return (embed__class_loss){.loss = above && isinf(apart) && o->divergence == EMBED_DIVERGENCE_KL ? INFINITY : 0};
  const double e = fall(fabs(apart), larger, above ? q : p), ratio = 1 + e; /* smaller / larger */
  if (o->divergence == EMBED_DIVERGENCE_KL) {
    double loss = above ? apart + e : (ratio == 0 ? 0 : ratio * apart) - e;
    return (embed__class_loss){.loss = larger * loss, .slope = above ? larger * e : -larger * e};
  }
  const double a = o->mix, b = 1 - a;
  double of_larger = -log1p((above ? b : a) * e), of_smaller = of_larger - fabs(apart); /* log(it / m) */
  double share = above ? a : b, weighted = ratio == 0 ? 0 : (1 - share) * ratio * of_smaller;
  double of_q = above ? (ratio == 0 ? 0 : ratio * of_smaller) : of_larger; /* q / larger * log(q / m) */
  return (embed__class_loss){.loss = larger * (share * of_larger + weighted), .tilt = larger * of_q, .slope = b * larger * (of_q - (above ? ratio : 1) * pull)};
}
