/* SPDX-License-Identifier: BSD-3-Clause */
/* Every row of a table, decoded once: what the audit of `embed verify` and the rows that `embed info` doubts have in common. */
#ifndef CLI_ROWS_H
#define CLI_ROWS_H

#include "session.h"

/* One row [dim]; 0 = go on, else the walk ends with it. */
typedef int cli_row_visitor(void *arg, int64_t row, const float *values);

/* Reads the ids' rows of s->table in ascending order, some at a time; this is walk `walk` of `walks`. 0, what the visitor gave, or CLI_FAILED
 * after the line. */
int cli_each_row(cli_session *s, int64_t walk, int64_t walks, cli_row_visitor *visit, void *arg);

/* Of the bits: -0 is not 0. Rows of equal hash have still to be compared. */
uint64_t cli_row_hash(const float *values, int64_t dim);

#endif
