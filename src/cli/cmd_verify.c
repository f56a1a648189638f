/* SPDX-License-Identifier: BSD-3-Clause */
/* embed verify FILE: three views of a lookup, the head as a mirror, the rows; of an .embed file every section's sum. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "progress.h"
#include "text.h"
#include "verify.h"

enum { MOST = 4 };

typedef struct report {
  cli_check checks[MOST];
  int count;
} report;

/* The library opens such a file by its directory alone; asked to, it reads all of it and names the section (of an archive: the member)
 * that is damaged. */
static int check_sums(cli_session *s, cli_check *check) {
  const embed_file_options o = {.size = sizeof o, .flags = EMBED_FILE_CHECK, .format = embed_file_format(s->file)};
  embed_file *whole = NULL;
  *check = (cli_check){.name = "checksums", .ok = 1};
  embed_status status = embed_file_open(s->ctx, s->path, &o, &whole);
  embed_file_release(whole);
  if (status != EMBED_OK && status != EMBED_E_FORMAT) return cli_library_fail(s);
  const char *why = embed_error_text(s->ctx), *section = strstr(why, ": section "); /* behind the path, which the line has already */
  if (!section) section = strstr(why, ": member ");
  check->ok = status == EMBED_OK;
  const char *good =
      !strcmp(embed_file_format(s->file), "embed") ? "every section has the sum that the directory says" : "every member has the sum that the archive says";
  snprintf(check->detail, sizeof check->detail, "%s", check->ok ? good : section ? section + 2 : why);
  return CLI_DONE;
}

static int run_checks(cli_session *s, report *r) {
  unsigned char *nonfinite_columns = cli_array(s, embed_table_dim(s->table), 1, 1);
  if (!nonfinite_columns) return CLI_FAILED;
  memset(nonfinite_columns, 0, (size_t)embed_table_dim(s->table));
  const char *format = embed_file_format(s->file);
  int has_sums = !strcmp(format, "embed") || !strcmp(format, "npz") || !strcmp(format, "pytorch"), status = CLI_DONE;
  cli_check *checks = r->checks + has_sums;
  if (has_sums) status = check_sums(s, &r->checks[0]);                     /* told first: damage explains what the others find */
  if (!status) status = cli_verify_rows(s, nonfinite_columns, &checks[2]); /* first of these: it finds what the mix cannot carry */
  if (!status) status = cli_verify_views(s, nonfinite_columns, &checks[0]);
  if (!status) status = cli_verify_head(s, &checks[1]);
  r->count = has_sums + 3;
  free(nonfinite_columns);
  return status;
}

static void print_json(const report *r, int ok) {
  const cli_check *checks = r->checks;
  cli_json j = {0};
  cli_json_open(&j, '{');
  cli_json_key(&j, "ok"), cli_json_bool(&j, ok);
  cli_json_key(&j, "checks"), cli_json_open(&j, '[');
  for (int i = 0; i < r->count; ++i) {
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

static void print_checks(const report *r) {
  const cli_check *checks = r->checks;
  for (int i = 0; i < r->count; ++i) {
    printf("%-12s %-7s ", checks[i].name, checks[i].ok ? "ok" : "FAILED");
    cli_print_text(stdout, checks[i].detail, strlen(checks[i].detail));
    putchar('\n');
  }
}

int cli_verify(const cli_options *o) {
  cli_session s;
  report r = {.count = 0};
  int status = cli_session_open(&s, o);
  if (!status) status = cli_session_table(&s);
  if (!status) status = run_checks(&s, &r);
  if (!status) {
    const cli_check *wrong = NULL;
    for (int i = r.count; i-- > 0;)
      if (!r.checks[i].ok) wrong = &r.checks[i];
    cli_progress_end();
    if (o->json) {
      print_json(&r, !wrong);
    } else {
      print_checks(&r);
    }
    if (wrong) status = cli_fail(s.path, "%s failed: %s", wrong->name, wrong->detail);
  }
  cli_session_close(&s);
  return status;
}
