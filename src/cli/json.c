/* SPDX-License-Identifier: BSD-3-Clause */
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

static void begin(cli_json *j) {
  if (j->comma) putchar(',');
  j->comma = 1;
}

void cli_json_open(cli_json *j, char bracket) {
  begin(j);
  putchar(bracket);
  j->comma = 0;
}

void cli_json_close(cli_json *j, char bracket) {
  putchar(bracket);
  j->comma = 1;
}

static void put_string(const char *s, size_t bytes) {
  putchar('"');
  for (size_t i = 0; i < bytes;) {
    int valid;
    size_t step = cli_utf8_step(s + i, bytes - i, &valid);
    unsigned char c = (unsigned char)s[i];
    if (!valid) {
      fputs("\xEF\xBF\xBD", stdout);
    } else if (c < 0x20) {
      printf("\\u%04x", (unsigned)c);
    } else {
      if (c == '"' || c == '\\') putchar('\\');
      fwrite(s + i, 1, step, stdout);
    }
    i += step;
  }
  putchar('"');
}

void cli_json_key(cli_json *j, const char *key) {
  begin(j);
  put_string(key, strlen(key));
  putchar(':');
  j->comma = 0;
}

void cli_json_bytes(cli_json *j, const char *bytes, int64_t count) {
  if (!bytes) {
    cli_json_null(j);
    return;
  }
  begin(j);
  put_string(bytes, (size_t)count);
}

void cli_json_text(cli_json *j, const char *text) { cli_json_bytes(j, text, text ? (int64_t)strlen(text) : 0); }

void cli_json_integer(cli_json *j, int64_t value) {
  begin(j);
  printf("%" PRId64, value);
}

static void put_real(cli_json *j, double value, int digits) {
  if (!isfinite(value)) {
    cli_json_null(j);
    return;
  }
  begin(j);
  printf("%.*g", digits, value);
}

void cli_json_float(cli_json *j, float value) { put_real(j, (double)value, 9); }

void cli_json_double(cli_json *j, double value) { put_real(j, value, 17); }

void cli_json_bool(cli_json *j, int value) {
  begin(j);
  fputs(value ? "true" : "false", stdout);
}

void cli_json_null(cli_json *j) {
  begin(j);
  fputs("null", stdout);
}

void cli_json_end(void) { putchar('\n'); }
