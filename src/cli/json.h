/* SPDX-License-Identifier: BSD-3-Clause */
/* One JSON value on stdout. Commas come by themselves. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stddef.h>
#include <stdint.h>

typedef struct cli_json {
  int comma; /* the next value follows another */
} cli_json;

void cli_json_open(cli_json *j, char bracket); /* '{' or '[' */
void cli_json_close(cli_json *j, char bracket);
void cli_json_key(cli_json *j, const char *key);
void cli_json_text(cli_json *j, const char *text);                  /* NULL = null */
void cli_json_bytes(cli_json *j, const char *bytes, int64_t count); /* NULL = null; what is not UTF-8 becomes U+FFFD */
void cli_json_integer(cli_json *j, int64_t value);
void cli_json_float(cli_json *j, float value);   /* 9 digits give the float back; null when not finite */
void cli_json_double(cli_json *j, double value); /* 17 digits */
void cli_json_bool(cli_json *j, int value);
void cli_json_null(cli_json *j);
void cli_json_end(void); /* the newline */

#endif
