/* SPDX-License-Identifier: BSD-3-Clause */
/* Decimal numbers and lists of ids, as a command line gives them. */
#ifndef CLI_NUMBERS_H
#define CLI_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* Digits alone, at most UINT64_MAX, or INT64_MAX; 1 when it is one. */
int cli_parse_digits(const char *text, size_t bytes, uint64_t *out);
int cli_parse_number(const char *text, size_t bytes, int64_t *out);

/* A decimal number, finite: 1, 0.95, 1e-3, -2; 1 when it is one. */
int cli_parse_real(const char *text, double *out);

/* Rows first to end - 1. */
typedef struct cli_span {
  int64_t first, end;
} cli_span;

/* "10:20", 20 left out: 0, or the exit status after the one line on stderr. */
int cli_range_read(const char *command, const char *option, const char *text, cli_span *out);

/* "0,5,10:20": ids and ranges a:b (b left out), kept as spans, so that 0:2000000000 takes no room. */
typedef struct cli_ids {
  cli_span *spans;
  int64_t span_count, total; /* total: ids in all spans */
} cli_ids;

/* 0, or the exit status after the one line on stderr; cli_ids_free(out) in either case. */
int cli_ids_read(const char *command, const char *text, cli_ids *out);
/* Every id below vocab, or CLI_FAILED and a line that names the item. */
int cli_ids_check(const char *file, const cli_ids *ids, int64_t vocab);
/* The next `most` ids at most into out; *span and *at (both from 0) are where the walk stands. */
int64_t cli_ids_next(const cli_ids *ids, int64_t *span, int64_t *at, int64_t most, int64_t *out);
void cli_ids_free(cli_ids *ids);

#endif
