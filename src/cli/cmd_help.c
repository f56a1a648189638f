/* SPDX-License-Identifier: BSD-3-Clause */
/* embed help [COMMAND]: from the list of commands. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static void all_commands(void) {
  puts("embed: look into files that hold a vocabulary and its vectors\n\nusage: embed COMMAND FILE ... [options]\n");
  for (int i = 0; cli_command_at(i); ++i) printf("  %-10s %s\n", cli_command_at(i)->name, cli_command_at(i)->help);
  puts(
      "\n  embed --version       the library's version\n"
      "  embed help COMMAND    what it takes\n\n"
      "EMBED_ISA in the environment caps the instruction set (scalar, avx2, avx512, ...).\n"
      "Exit status: 0 done, 1 failed, 2 wrong command line.");
}

static void one_command(const cli_command *c) {
  printf("usage: embed %s%s [--threads N]\n\n%s.\n\n", c->usage, c->takes & CLI_NO_JSON ? "" : " [--json]", c->help);
  if (c->takes & CLI_IDS) puts("  --ids LIST     ids and ranges, separated by commas: 0,5,10:20 (20 left out)");
  if (c->takes & CLI_HIDDEN) puts("  --hidden FILE  hidden states: .npy of floats, [n, dim] or [dim]");
  if (c->takes & CLI_NPY) puts("  --npy FILE     write the answer as .npy, float32");
  if (c->takes & CLI_K) puts("  -k K           how many to give (10)");
  if (c->takes & CLI_DTYPE) puts("  --dtype D      stored as f32, f16, bf16, int8_row, ... (as it is)");
  if (c->takes & CLI_ROWS) puts("  --rows A:B     rows A to B - 1 alone");
  if (c->takes & CLI_FORMAT)
    puts("  --format F     the format, whatever OUT ends in: safetensors, gguf, npy, npz, word2vec, word2vec-text, finalfusion, embed");
  if (c->takes & CLI_RENAME) puts("  --rename A=B   table A of FILE is named B in OUT; may be given again");
  if (!(c->takes & CLI_NO_JSON)) puts("  --json         one JSON value");
  puts("  --threads N    threads to use (all CPUs)");
}

int cli_help(const cli_options *o) {
  if (o->operand_count == 0) {
    all_commands();
    return CLI_DONE;
  }
  const cli_command *command = cli_command_find(o->operands[0]);
  if (!command) return cli_usage(NULL, "there is no command \"%s\"", o->operands[0]);
  one_command(command);
  return CLI_DONE;
}
