/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks of `embed verify`: each 0, or CLI_FAILED after the line on stderr when it could not be made. */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include "session.h"

typedef struct cli_check {
  const char *name;
  int ok;
  char detail[512];
} cli_check;

/* Zero, non-finite and duplicate rows. nonfinite_columns [dim]: 1 where some row is not finite. */
int cli_verify_rows(cli_session *s, unsigned char *nonfinite_columns, cli_check *check);
/* Scalar lookup = best lookup = one-hot mix. */
int cli_verify_views(cli_session *s, const unsigned char *nonfinite_columns, cli_check *check);
/* Unit hidden vectors give back the columns of the head's table. */
int cli_verify_head(cli_session *s, cli_check *check);

/* ids [n]: n spread evenly over [0, count), the first and the last among them; 2 <= n <= count, or n = count. */
void cli_spread(int64_t count, int64_t n, int64_t first, int64_t last, int64_t *out);
/* How many of `count` things that cost `each` may be had for `budget`: at least `least`, at most all. */
int64_t cli_affordable(int64_t count, double each, double budget, int64_t least);

#endif
