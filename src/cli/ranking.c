/* SPDX-License-Identifier: BSD-3-Clause */
#include "ranking.h"

#include <inttypes.h>
#include <stdio.h>

#include "progress.h"
#include "text.h"

enum { WIDEST = 32 }; /* columns; longer tokens push their line out */

void cli_token_json(cli_json *j, const cli_session *s, int64_t id) {
  int64_t bytes = 0;
  const char *token = embed_file_token(s->file, id, &bytes);
  cli_json_key(j, "token");
  cli_json_bytes(j, token, bytes);
}

int cli_token_width(const cli_session *s, int64_t id) {
  int64_t bytes = 0;
  const char *token = embed_file_token(s->file, id, &bytes);
  size_t width = token ? cli_text_width(token, (size_t)bytes) : 0;
  return width < WIDEST ? (int)width : WIDEST;
}

void cli_token_print(const cli_session *s, int64_t id, int width) {
  int64_t bytes = 0;
  const char *token = embed_file_token(s->file, id, &bytes);
  size_t columns = token ? cli_print_text(stdout, token, (size_t)bytes) : 0;
  printf("%*s", columns < (size_t)width ? width - (int)columns : 0, "");
}

void cli_ranking_json(cli_json *j, const cli_session *s, const int32_t *ids, int64_t count, const cli_column *columns, int column_count) {
  cli_json_open(j, '[');
  for (int64_t i = 0; i < count; ++i) {
    cli_json_open(j, '{');
    cli_json_key(j, "id");
    cli_json_integer(j, ids[i]);
    cli_token_json(j, s, ids[i]);
    for (const cli_column *c = columns; c < columns + column_count; ++c) {
      cli_json_key(j, c->name);
      if (c->floats) {
        cli_json_float(j, c->floats[i]);
      } else {
        cli_json_integer(j, c->integers[i]);
      }
    }
    cli_json_close(j, '}');
  }
  cli_json_close(j, ']');
}

void cli_ranking_print(const cli_session *s, const int32_t *ids, int64_t count, const cli_column *columns, int column_count) {
  int width = 5;
  for (int64_t i = 0; i < count; ++i) {
    int wide = cli_token_width(s, ids[i]);
    if (wide > width) width = wide;
  }
  printf("%8s  %-*s", "id", width, "token");
  for (const cli_column *c = columns; c < columns + column_count; ++c) printf("  %11s", c->name);
  putchar('\n');
  for (int64_t i = 0; i < count; ++i) {
    printf("%8" PRId32 "  ", ids[i]);
    cli_token_print(s, ids[i], width);
    for (const cli_column *c = columns; c < columns + column_count; ++c) {
      if (c->floats) {
        printf("  %11.6f", (double)c->floats[i]);
      } else {
        printf("  %11" PRId32, c->integers[i]);
      }
    }
    putchar('\n');
  }
}

void cli_ranking(const cli_session *s, const cli_options *o, const int32_t *ids, int64_t count, const cli_column *columns, int column_count) {
  cli_progress_end();
  if (!o->json) {
    cli_ranking_print(s, ids, count, columns, column_count);
    return;
  }
  cli_json j = {0};
  cli_ranking_json(&j, s, ids, count, columns, column_count);
  cli_json_end();
}
