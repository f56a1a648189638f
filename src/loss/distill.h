/* SPDX-License-Identifier: BSD-3-Clause */
/* How far a student's distribution is from its teacher's, class by class. */
#ifndef EMBED__DISTILL_H
#define EMBED__DISTILL_H

#include "loss/loss.h"

/* The options, checked. */
typedef struct embed__distill {
  embed_divergence divergence;
  double mix;    /* the teacher's share of Jensen-Shannon's mixture */
  float times;   /* 1 / temperature */
  double weight; /* of every loss: 1, or temperature^2 */
  embed_reduction reduction;
} embed__distill;

/* What one class adds, p its probability for the teacher, q for the student, apart = log(p / q). Kullback-Leibler: p log(p / q) - p + q.
 * Jensen-Shannon: mix p log(p / m) + (1 - mix) q log(q / m), m = mix p + (1 - mix) q; tilt: q log(q / m). The two distributions sum to 1,
 * so these are the divergences; and no term is a difference of numbers much larger than itself, where the two are nearly equal. */
typedef struct embed__class_loss {
  double loss, tilt;
  double slope; /* of the row's loss by the student's logit; pull: the row's sum of tilts */
} embed__class_loss;
embed__class_loss embed__class_divergence(const embed__distill *o, double p, double q, double apart, double pull);

#endif
