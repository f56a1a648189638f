/* SPDX-License-Identifier: BSD-3-Clause */
/* embed: look into files that hold a vocabulary. Never calls setlocale: printf writes numbers as C does. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <embed/embed.h>

#include "cli.h"

/* What runs a command, in the order of the list. */
static int (*const functions[])(const cli_options *o) = {
#define COMMAND(name, least, most, takes, help, usage) cli_##name,
#include "commands.def"
#undef COMMAND
};

static int print_version(void) {
  uint32_t v = embed_version();
  printf("embed %u.%u.%u\n", (unsigned)(v >> 16), (unsigned)(v >> 8 & 255), (unsigned)(v & 255));
  return CLI_DONE;
}

static int check_command_line(const cli_command *command, const cli_options *o) {
  const struct {
    int bit;
    const char *name;
  } options[] = {{CLI_IDS, "--ids"},
                 {CLI_NPY, "--npy"},
                 {CLI_HIDDEN, "--hidden"},
                 {CLI_K, "-k"},
                 {CLI_TARGETS, "--targets"},
                 {CLI_DTYPE, "--dtype"},
                 {CLI_ROWS, "--rows"},
                 {CLI_LOGPROBS, "--logprobs"},
                 {CLI_SAMPLING, o->sampling.given},
                 {CLI_FORMAT, "--format"},
                 {CLI_FROM, "--from"},
                 {CLI_SHAPE, o->dim ? "--dim" : "--vocab"},
                 {CLI_RENAME, "--rename"}};
  for (size_t i = 0; i < sizeof options / sizeof *options; ++i)
    if (o->given & ~command->takes & options[i].bit) return cli_usage(command->name, "takes no %s", options[i].name);
  if (o->json && command->takes & CLI_NO_JSON) return cli_usage(command->name, "takes no --json");
  if (o->operand_count < command->least)
    return cli_usage(command->name, "%d of the %d operands are missing", command->least - o->operand_count, command->least);
  if (o->operand_count > command->most) return cli_usage(command->name, "\"%s\" is one operand too many", o->operands[command->most]);
  return CLI_DONE;
}

static int run(const cli_options *o) {
  if (o->version) return print_version();
  if (!o->command) return o->help ? cli_help(o) : cli_usage(NULL, "no command is given");
  const cli_command *command = cli_command_find(o->command);
  if (!command) return cli_usage(NULL, "there is no command \"%s\"", o->command);
  if (o->help) return cli_help(&(cli_options){.operands = {command->name}, .operand_count = 1});
  int status = check_command_line(command, o);
  return status ? status : functions[command - cli_command_at(0)](o);
}

int main(int argc, char **argv) {
  cli_options options;
  signal(SIGXFSZ, SIG_IGN); /* a file-size limit is a write that fails, and is told as one */
  int status = cli_options_read(argc, argv, &options);
  if (status == CLI_DONE) status = run(&options);
  errno = 0;
  int unwritten = fflush(stdout) != 0 || ferror(stdout);
  if (unwritten && status == CLI_DONE) status = cli_fail("standard output", "%s", errno ? strerror(errno) : "it could not be written");
  return status;
}
