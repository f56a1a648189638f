/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line, read. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdint.h>

/* Options that only some commands take (bits of commands.def), and those that all take. */
enum { CLI_IDS = 1, CLI_NPY = 2, CLI_HIDDEN = 4, CLI_K = 8, CLI_NO_JSON = 16, CLI_DTYPE = 32, CLI_ROWS = 64 };
enum { CLI_LOGPROBS = 128, CLI_TARGETS = 256, CLI_SAMPLING = 512, CLI_FORMAT = 1024, CLI_RENAME = 2048, CLI_FROM = 4096, CLI_SHAPE = 8192 };
enum { CLI_FILE = CLI_FORMAT | CLI_SHAPE }; /* how to read FILE; `convert` has CLI_FROM for that, --format is OUT's */
enum { CLI_MOST_OPERANDS = 5, /* the command, then at most four */ CLI_MOST_RENAMES = 16 };

typedef struct cli_options {
  const char *command;                     /* NULL = none was given */
  const char *operands[CLI_MOST_OPERANDS]; /* behind the command; operands[0] is FILE */
  int operand_count;
  const char *ids, *npy, *hidden, *targets, *dtype, *rows, *format, *from; /* NULL = not given */
  const char *renames[CLI_MOST_RENAMES];                                   /* OLD=NEW each */
  int rename_count;
  int64_t dim, vocab; /* of FILE, 0 = not given */
  int32_t k;          /* 10 unless given */
  int32_t threads;    /* 0 = the CPUs */
  int json, logprobs, help, version;
  struct {
    const char *given, *of_history; /* the last of these options, and of those that look at a history; NULL = none was */
    double temperature, top_p, min_p, typical_p, top_n_sigma;
    double repetition, frequency, presence;
    int32_t top_k, min_keep, last_n;
    uint64_t seed;
    int64_t position;
    const char *order, *history;
  } sampling; /* temperature and repetition 1 unless given; the others 0 */
  int given;  /* CLI_* bits of what was given */
} cli_options;

/* 0, or 2 after the one line on stderr. */
int cli_options_read(int argc, char **argv, cli_options *out);

#endif
