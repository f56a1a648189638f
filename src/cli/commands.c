/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of commands as data; main.c knows what runs them. */
#include <string.h>

#include "cli.h"

static const cli_command commands[] = {
#define COMMAND(name, least, most, takes, help, usage) {#name, least, most, takes, help, usage},
#include "commands.def"
#undef COMMAND
};

const cli_command *cli_command_at(int i) { return i < (int)(sizeof commands / sizeof *commands) ? &commands[i] : NULL; }

const cli_command *cli_command_find(const char *name) {
  for (int i = 0; cli_command_at(i); ++i)
    if (strcmp(name, commands[i].name) == 0) return &commands[i];
  return NULL;
}
