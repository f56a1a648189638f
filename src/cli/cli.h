/* SPDX-License-Identifier: BSD-3-Clause */
/* What every command shares: its signature, its exit status, and the one line on stderr. */
#ifndef CLI_H
#define CLI_H

#include <stdint.h>

#include "options.h"

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef struct cli_command {
  const char *name;
  int least, most; /* operands */
  int takes;       /* CLI_* bits */
  const char *help, *usage;
} cli_command;

const cli_command *cli_command_find(const char *name); /* NULL = there is none */
const cli_command *cli_command_at(int i);              /* NULL behind the last */

#define COMMAND(name, least, most, takes, help, usage) int cli_##name(const cli_options *o);
#include "commands.def"
#undef COMMAND

/* "embed: SUBJECT: text" on stderr, on one line whatever the text holds; CLI_FAILED. */
__attribute__((format(printf, 2, 3))) int cli_fail(const char *subject, const char *format, ...);
/* The same for a command line that is wrong, with how to get help; command may be NULL; CLI_USAGE. */
__attribute__((format(printf, 2, 3))) int cli_usage(const char *command, const char *format, ...);

#endif
