/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows that look as if no training had reached them, told from the table alone. */
#ifndef CLI_TRAINED_H
#define CLI_TRAINED_H

#include "session.h"

enum {
  CLI_ROW_ZERO = 1,   /* every number is 0 */
  CLI_ROW_EQUAL = 2,  /* another row has the same numbers */
  CLI_ROW_SHORT = 4,  /* its norm is below a tenth of the median norm */
  CLI_ROW_UNUSED = 8, /* as near to the rows whose tokens are named unused as half of those are */
  CLI_ROW_BROKEN = 16 /* a number is NaN or infinite */
};
enum { CLI_ROW_KINDS = 5, CLI_ROWS_SHOWN = 12 };

typedef struct cli_untrained {
  int64_t count, of_kind[CLI_ROW_KINDS]; /* rows; a row may be of several kinds */
  int64_t named;                         /* tokens named unused */
  float median, nearness;                /* of the norms; the cosine from which on rows count as unused, 0 = not asked */
  int64_t shown[CLI_ROWS_SHOWN];         /* the first of them, their kinds and norms */
  int kinds[CLI_ROWS_SHOWN];
  float norms[CLI_ROWS_SHOWN];
  int shown_count;
} cli_untrained;

extern const char *const cli_row_kinds[CLI_ROW_KINDS]; /* a word each, in the order of the bits */

/* Reads the ids' rows of s->table, three times where tokens are named unused. shared: tokens have rows in common by design, equal ones say
 * nothing. 0, or CLI_FAILED after the line. */
int cli_untrained_find(cli_session *s, int shared, cli_untrained *out);

#endif
