/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "progress.h"
#include "text.h"

/* A file's name or a tensor's may hold a newline: it must not break the line. Backslashes stay as they are. */
static void put(const char *text) {
  for (const char *slash; (slash = strchr(text, '\\')) != NULL; text = slash + 1) {
    cli_print_text(stderr, text, (size_t)(slash - text));
    fputc('\\', stderr);
  }
  cli_print_text(stderr, text, strlen(text));
}

int cli_fail(const char *subject, const char *format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  cli_progress_clear();
  fputs("embed: ", stderr);
  /* The library's texts about a file may begin with its name already. */
  size_t length = strlen(subject);
  if (strncmp(text, subject, length) != 0 || text[length] != ':') {
    put(subject);
    fputs(": ", stderr);
  }
  put(text);
  fputc('\n', stderr);
  return CLI_FAILED;
}

int cli_usage(const char *command, const char *format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const cli_command *known = command ? cli_command_find(command) : NULL;
  fputs("embed: ", stderr);
  if (known) fprintf(stderr, "%s: ", known->name);
  put(text);
  fprintf(stderr, " (try 'embed help%s%s')\n", known ? " " : "", known ? known->name : "");
  return CLI_USAGE;
}
