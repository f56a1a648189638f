/* SPDX-License-Identifier: BSD-3-Clause */
/* embed verify FILE: three views of a lookup, the head as a mirror, the rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "progress.h"
#include "text.h"
#include "verify.h"

enum { CHECKS = 3 };

static int run_checks(cli_session *s, cli_check *checks) {
  unsigned char *nonfinite_columns = cli_array(s, embed_table_dim(s->table), 1, 1);
  if (!nonfinite_columns) return CLI_FAILED;
  memset(nonfinite_columns, 0, (size_t)embed_table_dim(s->table));
  int status = cli_verify_rows(s, nonfinite_columns, &checks[2]); /* first: it finds what the mix cannot carry */
  if (!status) status = cli_verify_views(s, nonfinite_columns, &checks[0]);
  if (!status) status = cli_verify_head(s, &checks[1]);
  free(nonfinite_columns);
  return status;
}

static void print_json(const cli_check *checks, int ok) {
  cli_json j = {0};
  cli_json_open(&j, '{');
  cli_json_key(&j, "ok"), cli_json_bool(&j, ok);
  cli_json_key(&j, "checks"), cli_json_open(&j, '[');
  for (int i = 0; i < CHECKS; ++i) {
    cli_json_open(&j, '{');
    cli_json_key(&j, "name"), cli_json_text(&j, checks[i].name);
    cli_json_key(&j, "ok"), cli_json_bool(&j, checks[i].ok);
    cli_json_key(&j, "detail"), cli_json_text(&j, checks[i].detail);
    cli_json_close(&j, '}');
  }
  cli_json_close(&j, ']');
  cli_json_close(&j, '}');
  cli_json_end();
}

static void print_checks(const cli_check *checks) {
  for (int i = 0; i < CHECKS; ++i) {
    printf("%-12s %-7s ", checks[i].name, checks[i].ok ? "ok" : "FAILED");
    cli_print_text(stdout, checks[i].detail, strlen(checks[i].detail));
    putchar('\n');
  }
}

int cli_verify(const cli_options *o) {
  cli_session s;
  cli_check checks[CHECKS];
  int status = cli_session_open(&s, o);
  if (!status) status = cli_session_table(&s);
  if (!status) status = run_checks(&s, checks);
  if (!status) {
    const cli_check *wrong = NULL;
    for (int i = CHECKS; i-- > 0;)
      if (!checks[i].ok) wrong = &checks[i];
    cli_progress_end();
    if (o->json) {
      print_json(checks, !wrong);
    } else {
      print_checks(checks);
    }
    if (wrong) status = cli_fail(s.path, "%s failed: %s", wrong->name, wrong->detail);
  }
  cli_session_close(&s);
  return status;
}
