/* SPDX-License-Identifier: BSD-3-Clause */
#include "numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int cli_parse_digits(const char *text, size_t bytes, uint64_t *out) {
  uint64_t value = 0;
  if (bytes == 0) return 0;
  for (size_t i = 0; i < bytes; ++i) {
    if (text[i] < '0' || text[i] > '9') return 0;
    const uint64_t digit = (uint64_t)(text[i] - '0');
    if (value > (UINT64_MAX - digit) / 10) return 0;
    value = 10 * value + digit;
  }
  *out = value;
  return 1;
}

int cli_parse_number(const char *text, size_t bytes, int64_t *out) {
  uint64_t value;
  if (!cli_parse_digits(text, bytes, &value) || value > INT64_MAX) return 0;
  *out = (int64_t)value;
  return 1;
}

int cli_parse_real(const char *text, double *out) {
  char *end = NULL;
  if (text[0] == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0') return 0; /* no hexadecimal, no nan */
  *out = strtod(text, &end);
  return *end == '\0' && isfinite(*out);
}

/* "7" or "3:9". */
static int parse_span(const char *item, size_t bytes, cli_span *out) {
  const char *colon = memchr(item, ':', bytes);
  size_t first_bytes = colon ? (size_t)(colon - item) : bytes;
  if (!cli_parse_number(item, first_bytes, &out->first) || out->first == INT64_MAX) return 0;
  out->end = out->first + 1;
  if (!colon) return 1;
  return cli_parse_number(colon + 1, bytes - first_bytes - 1, &out->end) && out->end > out->first;
}

int cli_range_read(const char *command, const char *option, const char *text, cli_span *out) {
  if (strchr(text, ':') && parse_span(text, strlen(text), out)) return CLI_DONE;
  return cli_usage(command, "%s takes a range a:b with a < b, not \"%s\"", option, text);
}

int cli_ids_read(const char *command, const char *text, cli_ids *out) {
  *out = (cli_ids){0};
  size_t items = 1;
  for (const char *s = text; *s; ++s) items += *s == ',';
  out->spans = calloc(items, sizeof *out->spans);
  if (!out->spans) return cli_fail("--ids", "out of memory");
  for (const char *item = text;; ++item) {
    size_t bytes = strcspn(item, ",");
    cli_span *span = &out->spans[out->span_count++];
    if (!parse_span(item, bytes, span))
      return cli_usage(command, "--ids: item %" PRId64 ", \"%.*s\", is neither an id nor a range a:b with a < b", out->span_count, (int)bytes, item);
    if (out->total > INT64_MAX - (span->end - span->first)) return cli_usage(command, "--ids: more ids than can be counted");
    out->total += span->end - span->first;
    item += bytes;
    if (!*item) return CLI_DONE;
  }
}

int cli_ids_check(const char *file, const cli_ids *ids, int64_t vocab) {
  for (int64_t i = 0; i < ids->span_count; ++i)
    if (ids->spans[i].end > vocab) {
      int64_t id = ids->spans[i].first < vocab ? ids->spans[i].end - 1 : ids->spans[i].first;
      return cli_fail(file, "id %" PRId64 " in item %" PRId64 " of --ids is outside the vocabulary of %" PRId64 " rows", id, i + 1, vocab);
    }
  return CLI_DONE;
}

int64_t cli_ids_next(const cli_ids *ids, int64_t *span, int64_t *at, int64_t most, int64_t *out) {
  int64_t n = 0;
  while (n < most && *span < ids->span_count) {
    const cli_span *s = &ids->spans[*span];
    out[n++] = s->first + (*at)++;
    if (s->first + *at == s->end) ++*span, *at = 0;
  }
  return n;
}

void cli_ids_free(cli_ids *ids) {
  free(ids->spans);
  *ids = (cli_ids){0};
}
