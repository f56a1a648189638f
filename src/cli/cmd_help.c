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

static void option(int taken, const char *name, const char *text) {
  if (taken) printf("  %-15s  %s\n", name, text);
}

static void one_command(const cli_command *c) {
  const int takes = c->takes, json = !(takes & CLI_NO_JSON);
  printf("usage: embed %s%s [--threads N]\n\n%s.\n\n", c->usage, json ? " [--json]" : "", c->help);
  option(takes & CLI_IDS, "--ids LIST", "ids and ranges, separated by commas: 0,5,10:20 (20 left out)");
  option(takes & CLI_HIDDEN, "--hidden FILE", "hidden states: .npy of floats, [n, dim] or [dim]");
  option(takes & CLI_TARGETS, "--targets FILE", "the token that came after each hidden state: .npy of integers, [n]");
  option(takes & CLI_NPY, "--npy FILE", "write the answer as .npy, float32");
  option(takes & CLI_K, "-k K", "how many to give (10)");
  option(takes & CLI_LOGPROBS, "--logprobs", "log-probabilities beside the logits");
  option(takes & CLI_SAMPLING, "--temperature T", "divides the logits (1); 0 = the best token");
  option(takes & CLI_SAMPLING, "--top-k K", "draw from the K best");
  option(takes & CLI_SAMPLING, "--top-p P", "draw from the fewest tokens whose probabilities reach P");
  option(takes & CLI_SAMPLING, "--min-p P", "draw from tokens with at least P times the best one's probability");
  option(takes & CLI_SAMPLING, "--typical-p P", "draw from the tokens nearest to the mean surprise whose probabilities reach P");
  option(takes & CLI_SAMPLING, "--top-n-sigma S", "draw from tokens within S standard deviations of the best logit");
  option(takes & CLI_SAMPLING, "--min-keep N", "tokens that every filter keeps at least (1)");
  option(takes & CLI_SAMPLING, "--history FILE", "ids that penalties look at, oldest first: .npy of integers, [n]");
  option(takes & CLI_SAMPLING, "--last-n N", "how many of them, from the end (all)");
  option(takes & CLI_SAMPLING, "--repetition R", "divides their positive logits, multiplies negative ones (1)");
  option(takes & CLI_SAMPLING, "--frequency F", "taken off their logits for each time they occur (0)");
  option(takes & CLI_SAMPLING, "--presence P", "taken off their logits once (0)");
  option(takes & CLI_SAMPLING, "--order O", "hf: temperature, then filters; llamacpp: filters, then temperature (hf)");
  option(takes & CLI_SAMPLING, "--seed S", "which draws: the same seed and position give the same token (0)");
  option(takes & CLI_SAMPLING, "--position N", "position of the first hidden state; the others follow (0)");
  option(takes & CLI_DTYPE, "--dtype D", "stored as f32, f16, bf16, int8_row, ... (as it is)");
  option(takes & CLI_ROWS, "--rows A:B", "rows A to B - 1 alone");
  if (takes & CLI_FROM)
    option(1, "--format F", "the format, whatever OUT ends in: safetensors, gguf, npy, npz, word2vec, word2vec-text, finalfusion, embed");
  else
    option(takes & CLI_FORMAT, "--format F", "the format of FILE, by its content if left out; raw, raw-f64, raw-f16, raw-bf16 and glove-binary by this alone");
  option(takes & CLI_FROM, "--from F", "the format of FILE, by its content if left out; raw, raw-f64, raw-f16, raw-bf16 and glove-binary by this alone");
  option(takes & CLI_SHAPE, "--dim N", "columns of FILE, where its format does not say them");
  option(takes & CLI_SHAPE, "--vocab N", "rows of FILE, where its format does not say them; elsewhere another number is refused");
  option(takes & CLI_RENAME, "--rename A=B", "table A of FILE is named B in OUT; may be given again");
  option(json, "--json", "one JSON value");
  option(1, "--threads N", "threads to use (all CPUs)");
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
